//! How far the input shows that a wait is a hang. A dump does not say when it
//! was written: one that was taken of a job at work shows operations that have
//! not ended too, and ranks that are one operation apart.

use std::collections::BTreeMap;

use super::faults::Scene;
use super::trace::{Done, Kind, Trace};
use super::{Fault, FaultKind};

/// What speaks for a hang.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proof {
    /// A job at work may look like this, or the input contradicts itself.
    Doubt,
    /// Nobody has finished it, and no time limit is seen to have passed.
    Open,
    /// Somebody waited until a time limit.
    Passed,
}

/// What speaks for a fault. `timed`: lines tell of a time limit.
pub(super) fn of(scene: &Scene<'_>, fault: &Fault, timed: bool) -> Proof {
    if timed || fault.lines || passed(scene, fault) {
        return Proof::Passed;
    }
    if fault.kind == FaultKind::Missing && moving(scene, fault) { Proof::Doubt } else { Proof::Open }
}

/// Whether an operation of those who wait ended by its time limit, or others went on for longer than that.
fn passed(scene: &Scene<'_>, fault: &Fault) -> bool {
    let newest = scene.traces.iter().flat_map(|t| t.records.iter().map(|r| r.created)).max().unwrap_or(0);
    fault.waiting.iter().chain(fault.ranks.iter()).filter_map(|r| scene.trace(r)).any(|t| {
        t.records.iter().any(|r| {
            let limit = r.timeout_ms.saturating_mul(1_000_000);
            let old = limit > 0 && r.created > 0 && newest.saturating_sub(r.created) >= limit;
            r.done == Done::Failed || (old && matches!(r.done, Done::No))
        })
    })
}

/// Whether those who are missing had not even finished the operation before, which all others had: they may well be on
/// their way.
fn moving(scene: &Scene<'_>, fault: &Fault) -> bool {
    let Some(seq) = fault.seq else { return false };
    let group = scene.joined.groups.iter().find(|g| g.label() == fault.group && g.ranks == fault.members);
    let Some(group) = group else { return false };
    !fault.ranks.is_empty()
        && fault.ranks.iter().all(|rank| {
            let before = group.member(rank).and_then(|m| m.first);
            before == Some(seq - 1)
        })
}

/// Ranks whose lines tell of an operation that their dumps do not hold, in words. `said`: what lines tell.
#[must_use]
pub fn against(dumps: &[Trace], said: &[Trace]) -> BTreeMap<u32, String> {
    let mut out = BTreeMap::new();
    for told in said {
        let Some(dump) =
            dumps.iter().filter(|d| d.rank == told.rank && !d.cut).max_by_key(|d| d.records.len())
        else {
            continue;
        };
        let reach = |at: usize| -> Option<i64> {
            let held = dump.records.iter().filter(|r| r.group as usize == at && r.kind == Kind::Collective);
            held.filter_map(|r| r.seq).max().max(dump.groups[at].enqueued)
        };
        let late = told.records.iter().filter(|r| r.done == Done::Failed).find_map(|r| {
            let (seq, group) = (r.seq?, told.groups.get(r.group as usize)?);
            // A line that names no group may be of any.
            let mut fits = (0..dump.groups.len())
                .filter(|g| {
                    group.name.is_empty()
                        || dump.groups[*g].name == group.name
                        || (group.all && dump.groups[*g].all)
                })
                .peekable();
            fits.peek()?;
            let furthest = fits.filter_map(reach).max()?;
            (furthest < seq).then(|| (r.op.name.clone(), seq, furthest))
        });
        if let Some((op, seq, furthest)) = late {
            let rank = told.rank;
            out.insert(
                rank,
                format!(
                    "By a line rank {rank} waited in {op} #{seq} until its time limit; its Flight Recorder dump ends at #{furthest}."
                ),
            );
        }
    }
    out
}
