//! Sends and receives: which of the open ones have no partner, and whether a
//! rank talks to the wrong one. Positions of sends and receives do not compare
//! between ranks, so it is pairs that are counted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

use super::groups::Joined;
use super::trace::{Done, Kind, Record, Trace, numel};

/// An open send or receive that nobody answers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lone {
    pub(super) group: usize,
    pub(super) rank: u32,
    pub(super) peer: u32,
    /// It sends; else it receives.
    pub(super) sends: bool,
    /// Index into the rank's records.
    pub(super) record: usize,
    /// Somebody else wants the other half of what this rank does with its peer.
    pub(super) conflict: bool,
    /// And it never had to do with that peer before.
    pub(super) wrong: bool,
}

/// What the open sends and receives say.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// Those without a partner.
    pub(super) lone: Vec<Lone>,
    /// Open sends whose receiver stands in the receive.
    pub(super) met: Vec<Met>,
    /// Receives from anybody that are open: group, rank, record.
    pub(super) any: Vec<(usize, u32, usize)>,
    /// The record in which a rank of a group stands.
    records: FxHashMap<(usize, u32), usize>,
}

impl Pairs {
    /// The record in which a rank of a group stands: one without a partner, else one with, else one from anybody.
    pub(super) fn record(&self, group: usize, rank: u32) -> Option<usize> {
        self.records.get(&(group, rank)).copied()
    }

    fn index(&mut self) {
        let lone = self.lone.iter().map(|l| ((l.group, l.rank), l.record));
        let met = self.met.iter().flat_map(|m| m.ends.map(|e| ((m.group, e.0), e.1)));
        let any = self.any.iter().map(|a| ((a.0, a.1), a.2));
        let mut records = FxHashMap::default();
        for (key, record) in lone.chain(met).chain(any) {
            records.entry(key).or_insert(record);
        }
        self.records = records;
    }
}

/// A send and its receive, both open.
#[derive(Debug, Clone)]
pub(super) struct Met {
    pub(super) group: usize,
    /// Sender and receiver, each with the index of its record.
    pub(super) ends: [(u32, usize); 2],
    /// What is sent is not of the size that is received.
    pub(super) differ: bool,
}

#[derive(Default)]
struct Side {
    /// Records that are open.
    open: Vec<usize>,
    all: usize,
}

/// Group, sender, receiver.
type Way = (usize, u32, u32);

/// Looks at all sends and receives.
pub(super) fn pair(traces: &[&Trace], joined: &Joined) -> Pairs {
    let mut sends: BTreeMap<Way, Side> = BTreeMap::new();
    let mut receives: BTreeMap<Way, Side> = BTreeMap::new();
    let mut pairs = Pairs::default();
    for (t, trace) in traces.iter().enumerate() {
        for (at, record) in trace.records.iter().enumerate() {
            let open = matches!(record.done, Done::No | Done::Failed);
            let group = joined.of[t].get(record.group as usize).copied().unwrap_or(0);
            let side = match record.kind {
                Kind::Send(peer) => sends.entry((group, trace.rank, peer)).or_default(),
                Kind::Recv(Some(peer)) => receives.entry((group, peer, trace.rank)).or_default(),
                Kind::Recv(None) if open => {
                    pairs.any.push((group, trace.rank, at));
                    continue;
                }
                _ => continue,
            };
            side.all += 1;
            if open {
                side.open.push(at);
            }
        }
    }
    let record = |rank: u32, at: usize| {
        traces.binary_search_by_key(&rank, |t| t.rank).ok().and_then(|t| traces[t].records.get(at))
    };
    let whole: BTreeMap<u32, bool> = traces.iter().map(|t| (t.rank, t.whole && !t.cut)).collect();
    let ways: BTreeSet<Way> = sends.keys().chain(receives.keys()).copied().collect();
    for way in ways {
        let empty = Side::default();
        let (out, into) = (sends.get(&way).unwrap_or(&empty), receives.get(&way).unwrap_or(&empty));
        let known = |rank: u32| whole.get(&rank).copied().unwrap_or(false);
        // Where both hold everything, all are counted, not only the open ones.
        let count = |side: &Side| if known(way.1) && known(way.2) { side.all } else { side.open.len() };
        let (sent, taken) = (count(out), count(into));
        if let (Some(a), Some(b)) = (out.open.first(), into.open.first()) {
            // As many of both: then the oldest belong together.
            let even = out.open.len() == into.open.len();
            let differ = even && sizes_differ(record(way.1, *a), record(way.2, *b));
            pairs.met.push(Met { group: way.0, ends: [(way.1, *a), (way.2, *b)], differ });
        }
        let (side, sends, extra) =
            if sent > taken { (out, true, sent - taken) } else { (into, false, taken - sent) };
        if extra == 0 {
            continue;
        }
        let from = side.open.len().saturating_sub(extra);
        if let Some(record) = side.open.get(from).copied() {
            let (rank, peer) = if sends { (way.1, way.2) } else { (way.2, way.1) };
            pairs.lone.push(Lone { group: way.0, rank, peer, sends, record, conflict: false, wrong: false });
        }
    }
    answer_any(&mut pairs);
    accuse(&mut pairs, traces);
    pairs.index();
    pairs
}

/// Whether the one send and the one receive are of different size: bytes are not known, so the types must be the same.
fn sizes_differ(out: Option<&Record>, into: Option<&Record>) -> bool {
    let (Some(out), Some(into)) = (out, into) else { return false };
    let one = |shapes: &[Vec<i64>]| shapes.len() == 1;
    let (given, filled) = (&out.op.inputs, &into.op.outputs);
    one(given)
        && one(filled)
        && out.op.input_dtypes.first() == into.op.output_dtypes.first()
        && numel(given) != numel(filled)
}

/// A receive from anybody takes a send that has no partner.
fn answer_any(pairs: &mut Pairs) {
    if pairs.any.is_empty() {
        return;
    }
    let mut sends: BTreeMap<(usize, u32), VecDeque<usize>> = BTreeMap::new();
    for (at, lone) in pairs.lone.iter().enumerate().filter(|l| l.1.sends) {
        sends.entry((lone.group, lone.peer)).or_default().push_back(at);
    }
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    for (group, rank, record) in std::mem::take(&mut pairs.any) {
        match sends.get_mut(&(group, rank)).and_then(VecDeque::pop_front) {
            Some(at) => {
                taken.insert(at);
                let lone = &pairs.lone[at];
                pairs.met.push(Met {
                    group,
                    ends: [(lone.rank, lone.record), (rank, record)],
                    differ: false,
                });
            }
            None => pairs.any.push((group, rank, record)),
        }
    }
    let mut at = 0;
    pairs.lone.retain(|_| {
        at += 1;
        !taken.contains(&(at - 1))
    });
}

/// Who receives from one while another sends to it (or sends to one while
/// another receives from it) may have the wrong peer, or may just not have come
/// to the other one yet. A peer that it has dealt with before is right.
fn accuse(pairs: &mut Pairs, traces: &[&Trace]) {
    // Who wants something of a rank, the first two: group, of whom, whether he sends.
    let mut wanted: FxHashMap<(usize, u32, bool), Vec<u32>> = FxHashMap::default();
    for lone in &pairs.lone {
        let list = wanted.entry((lone.group, lone.peer, lone.sends)).or_default();
        if list.len() < 2 && !list.contains(&lone.rank) {
            list.push(lone.rank);
        }
    }
    for lone in &mut pairs.lone {
        let others = wanted.get(&(lone.group, lone.rank, !lone.sends));
        lone.conflict = others.is_some_and(|o| o.iter().any(|r| *r != lone.peer));
        if !lone.conflict {
            continue;
        }
        let of = |rank: u32| traces.binary_search_by_key(&rank, |t| t.rank).ok().map(|at| traces[at]);
        let mut dealt = 0;
        let mut others = 0;
        for trace in [of(lone.rank), of(lone.peer)].into_iter().flatten() {
            let other = if trace.rank == lone.rank { lone.peer } else { lone.rank };
            for record in &trace.records {
                match record.kind {
                    Kind::Send(peer) | Kind::Recv(Some(peer)) if peer == other => dealt += 1,
                    Kind::Send(_) | Kind::Recv(_) if trace.rank == lone.rank && record.done == Done::Yes => {
                        others += 1
                    }
                    _ => {}
                }
            }
        }
        let whole = of(lone.rank).is_some_and(|t| t.whole);
        lone.wrong = dealt <= 1 && (whole || others > 0);
    }
}
