//! Sends and receives: which of the open ones have no partner, and whether a
//! rank talks to the wrong one. Positions of sends and receives do not compare
//! between ranks, so it is pairs that are counted.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::Joined;
use super::trace::{Done, Kind, Trace};

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
}

/// A send and its receive, both open.
#[derive(Debug, Clone)]
pub(super) struct Met {
    pub(super) group: usize,
    /// Sender and receiver, each with the index of its record.
    pub(super) ends: [(u32, usize); 2],
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
            pairs.met.push(Met { group: way.0, ends: [(way.1, *a), (way.2, *b)] });
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
    pairs
}

/// A receive from anybody takes a send that has no partner.
fn answer_any(pairs: &mut Pairs) {
    let any = std::mem::take(&mut pairs.any);
    for (group, rank, record) in any {
        let found = pairs.lone.iter().position(|l| l.group == group && l.sends && l.peer == rank);
        match found {
            Some(at) => {
                let lone = pairs.lone.remove(at);
                pairs.met.push(Met { group, ends: [(lone.rank, lone.record), (rank, record)] });
            }
            None => pairs.any.push((group, rank, record)),
        }
    }
}

/// Who receives from one while another sends to it (or sends to one while
/// another receives from it) may have the wrong peer, or may just not have come
/// to the other one yet. A peer that it has dealt with before is right.
fn accuse(pairs: &mut Pairs, traces: &[&Trace]) {
    let all = pairs.lone.clone();
    for lone in &mut pairs.lone {
        lone.conflict = all.iter().any(|o| {
            o.group == lone.group && o.peer == lone.rank && o.rank != lone.peer && o.sends != lone.sends
        });
        if !lone.conflict {
            continue;
        }
        let own = traces.iter().filter(|t| t.rank == lone.rank || t.rank == lone.peer);
        let mut dealt = 0;
        let mut others = 0;
        for trace in own {
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
        let whole = traces.iter().any(|t| t.rank == lone.rank && t.whole);
        lone.wrong = dealt <= 1 && (whole || others > 0);
    }
}
