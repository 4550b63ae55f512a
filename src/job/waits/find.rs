//! Finds every operation in which somebody stands: who has entered, who has
//! not, who called something else, and which sends and receives have no
//! partner. What follows from them together is found by `graph`.

use std::collections::{BTreeMap, BTreeSet};

use super::agree::{self, Dispute};
use super::graph::{Place, Wait, Why};
use super::groups::{Group, Joined, Reach};
use super::pairs::Pairs;
use super::trace::{Record, Trace};

/// All operations in which ranks stand, in the order of their places.
pub(super) fn waits(traces: &[&Trace], joined: &Joined, pairs: &Pairs) -> Vec<Wait> {
    let mut list = Vec::new();
    for (at, group) in joined.groups.iter().enumerate().filter(|(_, g)| g.members.len() > 1 || g.open) {
        let places: BTreeSet<i64> = group.members.iter().filter_map(|m| m.first).collect();
        list.extend(places.into_iter().map(|seq| collective(traces, group, at, seq)));
    }
    paired(traces, joined, pairs, &mut list);
    list.sort_by(|a, b| a.place.cmp(&b.place));
    list
}

/// What was called at one position, by whom.
pub(super) fn calls<'t>(traces: &[&'t Trace], group: &Group, seq: i64) -> Vec<(u32, &'t Record)> {
    group.members.iter().filter_map(|m| Some((m.rank, m.at(traces, seq)?))).collect()
}

/// The calls at a position compared.
pub(super) fn dispute(traces: &[&Trace], group: &Group, seq: i64) -> Option<Dispute> {
    agree::compare(&calls(traces, group, seq), group.members.len())
}

fn collective(traces: &[&Trace], group: &Group, at: usize, seq: i64) -> Wait {
    let mut waiters: BTreeSet<u32> = BTreeSet::new();
    let mut lacks: BTreeMap<u32, Why> = BTreeMap::new();
    let mut unknown: BTreeMap<u32, Why> = BTreeMap::new();
    let mut silent: BTreeSet<u32> = BTreeSet::new();
    for member in &group.members {
        if member.first == Some(seq) {
            waiters.insert(member.rank);
            continue;
        }
        match member.reach {
            Reach::At(e) if e < seq => drop(lacks.insert(member.rank, Why::NotEntered)),
            Reach::At(_) if member.first.is_some_and(|f| f < seq) => {
                lacks.insert(member.rank, Why::Behind);
            }
            Reach::At(_) => {}
            Reach::Nothing => drop(lacks.insert(member.rank, Why::NothingHeld)),
            Reach::Cut => drop(unknown.insert(member.rank, Why::Cut)),
            Reach::Absent => drop(unknown.insert(member.rank, Why::Absent)),
            Reach::Unread => drop(unknown.insert(member.rank, Why::Unread)),
            Reach::Unknown => drop(silent.insert(member.rank)),
        }
    }
    let calls = calls(traces, group, seq);
    let mut tie = false;
    if let Some(dispute) = agree::compare(&calls, group.members.len()) {
        tie = dispute.minority.is_empty();
        let blamed = if tie { calls.iter().map(|c| c.0).collect() } else { dispute.minority };
        for rank in blamed {
            waiters.remove(&rank);
            lacks.insert(rank, Why::Differs(dispute.what));
        }
    }
    // Who is not seen is asked for only where nobody else explains the wait.
    let loose = group.open || !silent.is_empty();
    let mut unseen = silent;
    if lacks.is_empty() && !loose {
        lacks = unknown;
    } else {
        unseen.extend(unknown.into_keys());
    }
    let times = calls.iter().filter(|c| waiters.contains(&c.0)).map(|c| c.1.created);
    let since = times.filter(|t| *t > 0).min().unwrap_or(0);
    Wait { place: Place::Collective(at, seq), waiters, lacks, unseen, loose, since, tie }
}

fn paired(traces: &[&Trace], joined: &Joined, pairs: &Pairs, list: &mut Vec<Wait>) {
    let trace = |rank: u32| traces.binary_search_by_key(&rank, |t| t.rank).ok().map(|at| traces[at]);
    let created =
        |rank: u32, record: usize| trace(rank).and_then(|t| t.records.get(record)).map_or(0, |r| r.created);
    let wrong: BTreeSet<u32> = pairs.lone.iter().filter(|l| l.wrong).map(|l| l.rank).collect();
    for lone in &pairs.lone {
        let why = match trace(lone.peer) {
            None if joined.unread.contains_key(&lone.peer) => Why::Unread,
            None => Why::Absent,
            Some(_) if wrong.contains(&lone.peer) => Why::WrongPeer,
            Some(t) if t.cut => Why::Cut,
            Some(_) => Why::NoPartner,
        };
        list.push(Wait {
            place: Place::Pair(lone.group, lone.rank, lone.peer, lone.sends),
            waiters: BTreeSet::from([lone.rank]),
            lacks: BTreeMap::from([(lone.peer, why)]),
            unseen: BTreeSet::new(),
            loose: false,
            since: created(lone.rank, lone.record),
            tie: false,
        });
    }
    for met in &pairs.met {
        let [(a, record), (b, _)] = met.ends;
        list.push(Wait {
            place: Place::Pair(met.group, a, b, true),
            waiters: BTreeSet::from([a, b]),
            lacks: BTreeMap::new(),
            unseen: BTreeSet::new(),
            loose: false,
            since: created(a, record),
            tie: false,
        });
    }
    for (group, rank, record) in &pairs.any {
        list.push(Wait {
            place: Place::Pair(*group, *rank, *rank, false),
            waiters: BTreeSet::from([*rank]),
            lacks: BTreeMap::new(),
            unseen: BTreeSet::new(),
            loose: false,
            since: created(*rank, *record),
            tie: false,
        });
    }
}

/// Ranks that are wrong where they stand, so that what they wait for says nothing.
pub(super) fn fixed(waits: &[Wait], pairs: &Pairs) -> BTreeSet<u32> {
    let differs = |w: &Why| matches!(w, Why::Differs(_));
    let outvoted = waits.iter().flat_map(|w| w.lacks.iter().filter(|l| differs(l.1)).map(|l| *l.0));
    outvoted.chain(pairs.lone.iter().filter(|l| l.wrong).map(|l| l.rank)).collect()
}
