//! Faults planted in made jobs, each with its truth.

use super::fleet::{Call, Dice, Fleet, collective, pair};

/// What a report must say.
#[derive(Clone, Debug)]
pub(crate) struct Truth {
    /// Causes, the best first; more than one where they mean the same for the reader.
    pub(crate) causes: &'static [&'static str],
    /// Ranks that must be named, and nobody else; nobody where the fault is no rank's.
    pub(crate) ranks: Vec<u32>,
}

const MISSING: &[&str] = &["app/rank-missing", "app/rank-slow"];
const MISMATCH: &[&str] = &["app/collective-mismatch"];
const STUCK: &[&str] = &["unknown/hang"];

/// The kinds of fault that are planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Missing,
    MissingInTensor,
    Op,
    Size,
    Dtype,
    OrderInGroup,
    OrderOfGroups,
    Stuck,
    WrongPeer,
    SendAlone,
    Uneven,
}

pub(crate) const KINDS: [Kind; 11] = [
    Kind::Missing,
    Kind::MissingInTensor,
    Kind::Op,
    Kind::Size,
    Kind::Dtype,
    Kind::OrderInGroup,
    Kind::OrderOfGroups,
    Kind::Stuck,
    Kind::WrongPeer,
    Kind::SendAlone,
    Kind::Uneven,
];

/// A job with one fault on `rank` (of a pipeline: of its middle stages).
pub(crate) fn plant(kind: Kind, rank: usize, seed: u64) -> (Fleet, Truth) {
    let mut dice = Dice(seed * 31 + rank as u64 + 5);
    let steps = 3 + dice.below(3);
    let step = 1 + dice.below(steps - 1);
    let mut job = Fleet::training(seed, steps);
    // The five calls of a step: gather and reduction of the tensor group, of the data group, two over all.
    let at = step * 5;
    let one = vec![rank as u32];
    let truth = match kind {
        Kind::Missing => {
            job.programs[rank].truncate(at + 3 + dice.below(2));
            Truth { causes: MISSING, ranks: one }
        }
        Kind::MissingInTensor => {
            job.programs[rank].truncate(at + dice.below(2));
            Truth { causes: MISSING, ranks: one }
        }
        Kind::Op => {
            let call = at + [1, 3][dice.below(2)];
            job.programs[rank][call].name = "broadcast".into();
            Truth { causes: MISMATCH, ranks: one }
        }
        Kind::Size => {
            let call = &mut job.programs[rank][at + [1, 3, 4][dice.below(3)]];
            (call.inputs, call.outputs) = (vec![call.inputs[0] + 7], vec![call.outputs[0] + 7]);
            Truth { causes: MISMATCH, ranks: one }
        }
        Kind::Dtype => {
            job.programs[rank][at + [1, 3, 4][dice.below(3)]].dtype = "BFloat16";
            Truth { causes: MISMATCH, ranks: one }
        }
        Kind::OrderInGroup => {
            job.programs[rank].swap(at + 3, at + 4);
            Truth { causes: MISMATCH, ranks: one }
        }
        Kind::OrderOfGroups => {
            // The tensor group's reduction and the one over all, the data group between them kept.
            job.programs[rank].swap(at + 1, at + 3);
            Truth { causes: MISMATCH, ranks: one }
        }
        Kind::Stuck => {
            let group = job.programs[rank][at].group;
            for program in &mut job.programs {
                if program[at].group == group {
                    program[at].sticks = true;
                }
            }
            Truth { causes: STUCK, ranks: Vec::new() }
        }
        Kind::WrongPeer => return wrong_peer(seed, 1 + rank % 2),
        Kind::SendAlone => return send_alone(seed, 1 + rank % 2),
        Kind::Uneven => {
            for (r, program) in job.programs.iter_mut().enumerate() {
                let mut call = collective(0, "all_to_all", 16, 16);
                call.sticks = true;
                if r == rank {
                    (call.inputs, call.outputs) = (vec![16], vec![20]);
                }
                program.truncate(at);
                program.push(call);
            }
            Truth { causes: MISMATCH, ranks: one }
        }
    };
    (job.run(), truth)
}

/// A stage receives of one with which it has nothing to do.
fn wrong_peer(seed: u64, stage: usize) -> (Fleet, Truth) {
    let mut job = Fleet::pipeline(seed, 4);
    let other = if stage == 1 { 3 } else { 0 };
    let call = job.programs[stage].iter().rposition(|c| matches!(c.pair, Some((false, _)))).unwrap();
    job.programs[stage][call] = pair(1, false, other);
    (job.run(), Truth { causes: MISMATCH, ranks: vec![stage as u32] })
}

/// A stage sends once more than its neighbour takes.
fn send_alone(seed: u64, stage: usize) -> (Fleet, Truth) {
    let mut job = Fleet::pipeline(seed, 4);
    let end = job.programs[stage].len() - 1;
    job.programs[stage].insert(end, pair(1, true, stage + 1));
    (job.run(), Truth { causes: MISMATCH, ranks: vec![stage as u32] })
}

/// Two tensor groups, each with a fault of its own.
pub(crate) fn two(seed: u64, a: usize, b: usize, second_differs: bool) -> Fleet {
    let mut job = Fleet::training(seed, 4);
    job.programs[a].truncate(6);
    if second_differs {
        let call: &mut Call = &mut job.programs[4 + b][6];
        (call.inputs, call.outputs) = (vec![11], vec![11]);
    } else {
        job.programs[4 + b].truncate(6);
    }
    job.run()
}
