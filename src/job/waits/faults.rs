//! Makes faults of the ends of chains: for each rank that holds others up, the
//! operation in which that shows at the root, who waits there and who behind
//! those; and the circles, where ranks wait for one another.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{EndPoint, Graph, Place, Wait, Why};
use super::groups::{Group, Joined};
use super::pairs::Pairs;
use super::trace::{Done, Trace, numel};
use super::{Fault, FaultKind, Sure, find};
use crate::base::RankSet;

/// Everything the faults are made of.
pub(super) struct Scene<'s> {
    pub(super) traces: &'s [&'s Trace],
    pub(super) joined: &'s Joined,
    pub(super) pairs: &'s Pairs,
    pub(super) waits: &'s [Wait],
    pub(super) world: &'s RankSet,
}

/// Most places of a circle whose order is looked at.
const PLACES: usize = 12;

/// How many operations ahead a swapped one is looked for.
const AHEAD: i64 = 4;

impl Scene<'_> {
    pub(super) fn trace(&self, rank: u32) -> Option<&Trace> {
        self.traces.binary_search_by_key(&rank, |t| t.rank).ok().map(|at| self.traces[at])
    }

    pub(super) fn group(&self, wait: &Wait) -> &Group {
        let (Place::Collective(at, _) | Place::Pair(at, ..)) = wait.place;
        &self.joined.groups[at]
    }

    /// Of how many ranks nothing was given, and how many there are: those that dumps declare, where they do; a file's
    /// name alone may be of something else.
    pub(super) fn absent(&self) -> (usize, usize) {
        let mut all = RankSet::new();
        for trace in self.traces {
            all.extend(&trace.world);
            trace.groups.iter().for_each(|g| all.extend(&g.ranks));
        }
        let all = if all.is_empty() { self.world } else { &all };
        let absent = |r: &u32| self.trace(*r).is_none() && !self.joined.unread.contains_key(r);
        (all.iter().filter(absent).count(), all.len())
    }

    /// Whether so much is absent that it says nothing about a rank that is.
    pub(super) fn sparse(&self) -> bool {
        let (absent, all) = self.absent();
        absent * 4 > all
    }

    /// The fault of a place, with what follows from the place alone.
    pub(super) fn fault(&self, wait: &Wait, kind: FaultKind, ranks: RankSet, waiting: RankSet) -> Fault {
        let group = self.group(wait);
        let waiter = waiting.iter().find(|r| !ranks.contains(*r));
        let partial = |r: u32| self.trace(r).is_none_or(|t| t.partial);
        let lines = ranks.iter().chain(waiting.iter()).all(partial);
        Fault {
            kind,
            group: group.label(),
            members: group.ranks.clone(),
            seq: match wait.place {
                Place::Collective(_, seq) => Some(seq),
                Place::Pair(..) => None,
            },
            op: self.op(wait),
            detail: String::new(),
            behind: RankSet::new(),
            frames: self.frames(wait, ranks.first()),
            waiter_frames: self.frames(wait, waiter),
            sure: Sure::Likely,
            proof: super::Proof::Open,
            lines,
            evidence: self.evidence(wait, &ranks, &waiting),
            ranks,
            waiting,
        }
    }
}

fn set(ranks: &BTreeSet<u32>) -> RankSet {
    ranks.iter().copied().collect()
}

/// All faults but those of ranks that all have entered.
pub(super) fn find(scene: &Scene<'_>, graph: &Graph<'_>) -> Vec<Fault> {
    let ends = graph.ends();
    let sinks: BTreeSet<u32> = ends
        .iter()
        .flat_map(|e| match e {
            EndPoint::Rank(r) => std::slice::from_ref(r).iter(),
            EndPoint::Circle(ranks, _) => ranks.iter(),
        })
        .copied()
        .collect();
    // Ranks that hold up others in the same operation for the same reason are one fault.
    let mut merged: BTreeMap<(usize, Why), BTreeSet<u32>> = BTreeMap::new();
    let mut faults = Vec::new();
    for end in &ends {
        match end {
            EndPoint::Rank(rank) if stands(scene, *rank) || presumed(scene, graph, *rank) => {}
            EndPoint::Rank(rank) => {
                if let Some(root) = root_of(scene.waits, *rank, &sinks) {
                    merged.entry(root).or_default().insert(*rank);
                }
            }
            EndPoint::Circle(ranks, waits) => faults.extend(circle(scene, graph, ranks, waits)),
        }
    }
    faults.extend(merged.into_iter().map(|((at, why), ranks)| end_fault(scene, graph, at, why, &ranks)));
    // Who is to blame for one fault does not wait for another.
    let blamed: RankSet = faults.iter().flat_map(|f: &Fault| f.ranks.iter().collect::<Vec<_>>()).collect();
    for fault in &mut faults {
        fault.behind = fault.behind.minus(&blamed);
    }
    faults
}

/// Whether a rank of which nothing is known belongs to an operation that waits for somebody else: it will stand there too.
fn presumed(scene: &Scene<'_>, graph: &Graph<'_>, rank: u32) -> bool {
    let mine = |w: &&Wait| w.unseen.contains(&rank) && !w.lacks.contains_key(&rank);
    let mut places = scene.waits.iter().filter(mine).peekable();
    if places.peek().is_none() {
        return false;
    }
    let behind = graph.behind(&BTreeSet::from([rank]));
    places.any(|w| w.lacks.keys().any(|r| !behind.contains(r)))
}

/// Whether the first thing that a rank has not finished is an operation that all have entered: then it holds others
/// up because that operation does not end, and is no more to blame than its partners there.
fn stands(scene: &Scene<'_>, rank: u32) -> bool {
    let Some(trace) = scene.trace(rank) else { return false };
    let first =
        trace.records.iter().filter(|r| matches!(r.done, Done::No | Done::Failed)).map(|r| r.id).min();
    let there = |w: &&Wait| {
        let all = w.lacks.is_empty() && !w.loose && w.waiters.len() > 1 && w.waiters.contains(&rank);
        all && matches!(w.place, Place::Collective(..))
    };
    let mut places = scene.waits.iter().filter(there);
    places.any(|w| scene.record(w, rank).is_none_or(|r| Some(r.id) == first))
}

/// The operation in which it shows first that a rank holds others up.
fn root_of(waits: &[Wait], rank: u32, sinks: &BTreeSet<u32>) -> Option<(usize, Why)> {
    let all: Vec<(usize, &Wait)> =
        waits.iter().enumerate().filter(|(_, w)| w.lacks.contains_key(&rank)).collect();
    let root = |w: &Wait| w.lacks.keys().all(|r| sinks.contains(r));
    let roots: Vec<(usize, &Wait)> = all.iter().copied().filter(|(_, w)| root(w)).collect();
    let candidates = if roots.is_empty() { all } else { roots };
    // What others entered first came first in the program, where all say when.
    let timed = candidates.iter().all(|(_, w)| w.since > 0);
    let best = candidates.into_iter().min_by_key(|(at, w)| {
        let why = w.lacks.get(&rank).copied().unwrap_or(Why::Absent);
        let pair = matches!(w.place, Place::Pair(..));
        let since = if timed { w.since } else { 0 };
        (why_class(why), pair, since, std::cmp::Reverse(w.waiters.len()), w.since, *at)
    });
    best.and_then(|(at, w)| Some((at, *w.lacks.get(&rank)?)))
}

fn why_class(why: Why) -> u8 {
    match why {
        Why::Differs(_) => 0,
        Why::WrongPeer => 1,
        Why::NotEntered | Why::NothingHeld => 2,
        Why::Behind => 3,
        Why::NoPartner => 4,
        Why::Cut | Why::Absent | Why::Unread => 5,
    }
}

fn end_fault(scene: &Scene<'_>, graph: &Graph<'_>, at: usize, why: Why, culprits: &BTreeSet<u32>) -> Fault {
    let wait = &scene.waits[at];
    let ranks = set(culprits);
    let waiting = if wait.tie { ranks.clone() } else { set(&wait.waiters) };
    let mut kind = match why {
        Why::Differs(what) => FaultKind::Mismatch { what },
        Why::WrongPeer => FaultKind::P2p,
        // Who waits for nobody himself has not come.
        Why::NotEntered | Why::NothingHeld | Why::Behind | Why::NoPartner => FaultKind::Missing,
        Why::Cut | Why::Absent | Why::Unread => FaultKind::NoDump,
    };
    let mut detail = scene.detail(wait, &ranks, why, &waiting);
    if let (Why::Differs(_), false, Some(text)) = (why, wait.tie, swapped(scene, wait, &ranks)) {
        (kind, detail) = (FaultKind::Order, text);
    }
    let mut fault = scene.fault(wait, kind, ranks, waiting);
    fault.sure = sure(scene, wait, why, culprits);
    fault.detail = detail;
    fault.behind = behind(scene, graph, culprits, &wait.waiters);
    fault
}

fn sure(scene: &Scene<'_>, wait: &Wait, why: Why, culprits: &BTreeSet<u32>) -> Sure {
    let open = |r: &u32| scene.record(wait, *r).is_some_and(|x| matches!(x.done, Done::No | Done::Failed));
    match why {
        Why::Differs(_) if wait.tie => Sure::Guess,
        // Of several, one may wait for another in what is not recorded.
        Why::NotEntered if culprits.len() > 1 => Sure::Likely,
        Why::Differs(_) | Why::NotEntered if wait.waiters.iter().any(open) => Sure::Certain,
        Why::Cut | Why::Unread => Sure::Guess,
        // Few missing among many say something about those ranks; many, that they were not given.
        Why::Absent if scene.sparse() => Sure::Guess,
        _ => Sure::Likely,
    }
}

/// Whether the outvoted call comes later with the others, or theirs later here.
fn swapped(scene: &Scene<'_>, wait: &Wait, culprits: &RankSet) -> Option<String> {
    let Place::Collective(at, seq) = wait.place else { return None };
    let group = &scene.joined.groups[at];
    let dispute = find::dispute(scene.traces, group, seq)?;
    let (theirs, ours) = (group.member(dispute.model)?, group.member(culprits.first()?)?);
    let same = |a: &super::Op, b: &super::Op| {
        a.family() == b.family()
            && numel(&a.inputs) == numel(&b.inputs)
            && a.input_dtypes.first() == b.input_dtypes.first()
    };
    let (x, y) = (theirs.at(scene.traces, seq)?, ours.at(scene.traces, seq)?);
    let later = |m: &super::groups::Member, op: &super::Op| {
        (seq + 1..=seq + AHEAD).any(|s| m.at(scene.traces, s).is_some_and(|r| same(&r.op, op)))
    };
    let (own, other) = (later(ours, &x.op), later(theirs, &y.op));
    if !(own || other) {
        return None;
    }
    Some(format!(
        "{} called {} at #{seq} of {} and the others {}: the same operations in another order",
        super::words::ranks(culprits),
        y.op.text(),
        group.label(),
        x.op.text(),
    ))
}

/// Everybody whose chain of waits leads here, and those who stand with them in
/// operations that all have entered.
fn behind(
    scene: &Scene<'_>,
    graph: &Graph<'_>,
    culprits: &BTreeSet<u32>,
    waiting: &BTreeSet<u32>,
) -> RankSet {
    let mut found = graph.behind(culprits);
    let held = scene.waits.iter().filter(|w| !w.lacks.is_empty());
    let held: BTreeSet<u32> = held.flat_map(|w| w.waiters.iter().copied()).collect();
    let open: Vec<&Wait> = scene.waits.iter().filter(|w| w.lacks.is_empty()).collect();
    let free = |rank: &u32| !held.contains(rank) && !culprits.contains(rank);
    let candidates: BTreeSet<u32> =
        open.iter().flat_map(|w| w.waiters.iter()).copied().filter(free).collect();
    loop {
        let before = found.len();
        for wait in &open {
            if wait.waiters.iter().any(|r| found.contains(r) || culprits.contains(r)) {
                found.extend(wait.waiters.iter().filter(|r| candidates.contains(r)));
            }
        }
        if found.len() == before {
            break;
        }
    }
    found.iter().copied().filter(|r| !waiting.contains(r) && !culprits.contains(r)).collect()
}

/// Ranks that wait for one another: who stands alone against most is wrong.
///
/// Where the others show in which order the operations come, that decides; else how many stand in each.
fn circle(scene: &Scene<'_>, graph: &Graph<'_>, ranks: &[u32], waits: &[usize]) -> Option<Fault> {
    let inside: BTreeSet<u32> = ranks.iter().copied().collect();
    // Those outside the circle that stand in one of its operations side with it too.
    let there = |w: &Wait| w.waiters.len();
    let best =
        waits.iter().map(|at| &scene.waits[*at]).max_by_key(|w| (there(w), std::cmp::Reverse(w.since)))?;
    let conflict = |r: &u32| scene.pairs.lone.iter().any(|l| l.conflict && l.rank == *r);
    let lacked: BTreeSet<u32> = best.lacks.keys().copied().filter(|r| inside.contains(r)).collect();
    let accused: BTreeSet<u32> = inside.iter().copied().filter(conflict).collect();
    let concerned = inside.union(&best.waiters).count();
    // Lines do not tell in which order a rank made its calls, so they do not tell who is out of turn.
    let known = inside.iter().all(|r| scene.trace(*r).is_none_or(|t| !t.partial));
    let majority = known && there(best) >= 2 && there(best) * 2 > concerned && !lacked.is_empty();
    let swapped = out_of_order(scene, waits, &inside);
    let (culprits, sure) = match () {
        () if !swapped.is_empty() => (swapped, Sure::Likely),
        () if majority => (lacked, Sure::Likely),
        () if !accused.is_empty() && accused.len() < inside.len() => (accused, Sure::Likely),
        () => (inside.clone(), Sure::Guess),
    };
    // With pairs only, nobody's order of collectives is wrong.
    let pairs_only = waits.iter().all(|at| matches!(scene.waits[*at].place, Place::Pair(..)));
    let own = |w: &&Wait| w.waiters.iter().any(|r| culprits.contains(r));
    let by_pair = sure == Sure::Likely
        && waits.iter().map(|at| &scene.waits[*at]).filter(own).all(|w| matches!(w.place, Place::Pair(..)));
    let kind = if pairs_only || by_pair { FaultKind::P2p } else { FaultKind::Order };
    let mut said: Vec<String> = Vec::new();
    for wait in waits.iter().map(|at| &scene.waits[*at]).take(6) {
        let lacks: RankSet = wait.lacks.keys().copied().filter(|r| inside.contains(r)).collect();
        said.push(format!(
            "{} in {} of {} for {}",
            super::words::ranks(&set(&wait.waiters)),
            scene.op(wait),
            scene.group(wait).label(),
            super::words::ranks(&lacks)
        ));
    }
    let waiting: RankSet = best.waiters.iter().copied().filter(|r| !culprits.contains(r)).collect();
    let mut fault = scene.fault(best, kind, set(&culprits), waiting.clone());
    fault.sure = sure;
    fault.detail = format!("ranks wait for one another: {}", said.join("; "));
    fault.behind = behind(scene, graph, &culprits, &waiting.iter().collect());
    Some(fault)
}

/// Members of a circle that made the calls of two groups in another order than most ranks. Groups that do the same
/// part (one tensor group beside the other) are told by what the program calls them: their members make the same calls.
fn out_of_order(scene: &Scene<'_>, waits: &[usize], inside: &BTreeSet<u32>) -> BTreeSet<u32> {
    let places = waits.iter().filter_map(|at| match scene.waits[*at].place {
        Place::Collective(group, seq) => Some((scene.joined.groups[group].part(), seq)),
        Place::Pair(..) => None,
    });
    let mut places: BTreeSet<(&str, i64)> = places.collect();
    while places.len() > PLACES {
        places.pop_last();
    }
    let mut best: Option<(usize, BTreeSet<u32>)> = None;
    for a in &places {
        for b in places.range(a..).filter(|b| b.0 != a.0) {
            let [first, second] = votes(scene, *a, *b);
            let total = first.len() + second.len();
            let few = if first.len() < second.len() { first } else { second };
            let meant: BTreeSet<u32> = few.intersection(inside).copied().collect();
            if few.len() * 2 < total && !meant.is_empty() && best.as_ref().is_none_or(|x| total > x.0) {
                best = Some((total, meant));
            }
        }
    }
    best.map(|b| b.1).unwrap_or_default()
}

/// Who made the first of two calls before the second, and who the other way round.
fn votes(scene: &Scene<'_>, a: (&str, i64), b: (&str, i64)) -> [BTreeSet<u32>; 2] {
    let mut votes = [BTreeSet::new(), BTreeSet::new()];
    for (at, trace) in scene.traces.iter().enumerate() {
        // Place in the program; -1 where it lies before all that is held.
        let made = |(part, seq): (&str, i64)| -> Option<i64> {
            let own = |r: &&super::Record| {
                let group = scene.joined.of[at].get(r.group as usize).copied();
                r.kind == super::Kind::Collective
                    && group.is_some_and(|g| scene.joined.groups[g].part() == part)
            };
            let mut later = false;
            for record in trace.records.iter().filter(own) {
                match record.seq {
                    Some(s) if s == seq => return Some(record.id as i64),
                    Some(s) => later |= s > seq,
                    None => {}
                }
            }
            later.then_some(-1)
        };
        match (made(a), made(b)) {
            (Some(x), y) if y.is_none_or(|y| x < y) => drop(votes[0].insert(trace.rank)),
            (x, Some(y)) if x.is_none_or(|x| y < x) => drop(votes[1].insert(trace.rank)),
            _ => {}
        }
    }
    votes
}

/// What holds up most comes first; missing dumps and what only may be, last.
pub(super) fn sort(faults: &mut [Fault]) {
    faults.sort_by_key(|f| {
        let last = matches!(f.kind, FaultKind::NoDump | FaultKind::StuckAll);
        let held = f.waiting.len() + f.behind.len();
        (
            last,
            f.sure == Sure::Guess,
            std::cmp::Reverse(held),
            f.kind,
            f.ranks.clone(),
            f.group.clone(),
            f.seq,
        )
    });
}
