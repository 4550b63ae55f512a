//! Joins the ranks' views of a group into one: who belongs to it, how far each
//! has come, what it waits in first. A group is a name and a set of ranks.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::trace::{Done, Kind, Record, Trace, TraceGroup};
use crate::base::RankSet;

/// An operation that ended after this, although not all had come, was ended by an abort.
const ABORT_NS: i64 = 30_000_000_000;

/// How far a member has come by its own account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// It has handed over operations up to this one.
    At(i64),
    /// It holds nothing of this group.
    Nothing,
    /// Its record ends too early to tell.
    Cut,
    /// There is no record of it.
    Absent,
    /// Its record is there and could not be read.
    Unread,
    /// What is given of it does not speak of this group.
    Unknown,
}

/// One member of a group.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) rank: u32,
    /// Index into the traces.
    pub(super) trace: Option<usize>,
    pub(super) reach: Reach,
    pub(super) completed: Option<i64>,
    /// Collectives that are held: position and index into the records, ascending.
    pub(super) held: Vec<(i64, u32)>,
    /// The first collective that it has not finished.
    pub(super) first: Option<i64>,
    /// What it finished is concluded from how far the others have come.
    pub(super) concluded: bool,
}

/// One group of the job.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) desc: String,
    pub(super) ranks: RankSet,
    /// There may be more members.
    pub(super) open: bool,
    pub(super) members: Vec<Member>,
}

impl Group {
    pub(super) fn label(&self) -> String {
        match (self.desc.as_str(), self.name.as_str()) {
            ("" | "undefined", "") => "an unnamed group".into(),
            ("" | "undefined", name) => format!("group {name}"),
            ("default_pg", _) => "default_pg".into(),
            (desc, name) => format!("{desc} ({name})"),
        }
    }

    /// The part that it plays in the program, the same for groups beside one another.
    pub(super) fn part(&self) -> &str {
        if matches!(self.desc.as_str(), "" | "undefined") { &self.name } else { &self.desc }
    }

    pub(super) fn member(&self, rank: u32) -> Option<&Member> {
        self.members.binary_search_by_key(&rank, |m| m.rank).ok().map(|at| &self.members[at])
    }
}

impl Member {
    /// The record at a position, where it is held.
    pub(super) fn at<'t>(&self, traces: &[&'t Trace], seq: i64) -> Option<&'t Record> {
        let at = self.held.binary_search_by_key(&seq, |h| h.0).ok()?;
        traces.get(self.trace?)?.records.get(self.held[at].1 as usize)
    }
}

type Key = (String, RankSet);

/// All groups, in the order of their names, and where each trace's groups went.
pub(super) struct Joined {
    pub(super) groups: Vec<Group>,
    /// For each trace, the joined group of each of its groups.
    pub(super) of: Vec<Vec<usize>>,
    /// Names of dumps that could not be read, by rank.
    pub(super) unread: BTreeMap<u32, String>,
}

/// Joins the views of all traces, which are sorted by rank.
pub(super) fn join(traces: &[&Trace], world: &RankSet, unread: &BTreeMap<u32, String>) -> Joined {
    let mut keys: BTreeMap<Key, (String, Vec<(usize, usize)>)> = BTreeMap::new();
    let observed = observed(traces);
    for (t, trace) in traces.iter().enumerate() {
        for (g, group) in trace.groups.iter().enumerate() {
            let ranks = members_of(group, world, &observed);
            let slot = keys.entry((group.name.clone(), ranks)).or_default();
            if slot.0.is_empty() {
                slot.0.clone_from(&group.desc);
            }
            slot.1.push((t, g));
        }
    }
    let mut of: Vec<Vec<usize>> = traces.iter().map(|t| vec![0; t.groups.len()]).collect();
    let by_rank: FxHashMap<u32, usize> = traces.iter().enumerate().map(|(i, t)| (t.rank, i)).collect();
    let held = held(traces);
    let mut groups = Vec::new();
    for ((name, ranks), (desc, views)) in keys {
        for (t, g) in &views {
            of[*t][*g] = groups.len();
        }
        let open = views.iter().all(|(t, g)| traces[*t].groups[*g].open);
        // Counters mix collectives with sends and receives, where a group has both.
        let mixed = views.iter().any(|(t, g)| held.of[*t].mixed[*g]);
        let views: FxHashMap<usize, usize> = views.into_iter().collect();
        let members = ranks.iter().map(|rank| {
            let trace = by_rank.get(&rank).copied();
            let view = trace.and_then(|t| views.get(&t).map(|g| (t, *g)));
            let mut member = member(rank, trace, view, traces, &held, mixed);
            if member.reach == Reach::Absent && unread.contains_key(&rank) {
                member.reach = Reach::Unread;
            }
            member
        });
        let members: Vec<Member> = members.collect();
        let mut group = Group { name, desc, ranks, open, members };
        settle(&mut group, traces);
        groups.push(group);
    }
    Joined { groups, of, unread: unread.clone() }
}

/// Members of groups whose members nobody declares: who took part in them.
fn observed(traces: &[&Trace]) -> FxHashMap<String, RankSet> {
    let mut seen: FxHashMap<String, RankSet> = FxHashMap::default();
    for trace in traces {
        for group in trace.groups.iter().filter(|g| g.ranks.is_empty() && !g.all) {
            seen.entry(group.name.clone()).or_default().insert(trace.rank);
        }
    }
    seen
}

fn members_of(group: &TraceGroup, world: &RankSet, observed: &FxHashMap<String, RankSet>) -> RankSet {
    if !group.ranks.is_empty() {
        return group.ranks.clone();
    }
    if group.all { world.clone() } else { observed.get(&group.name).cloned().unwrap_or_default() }
}

/// What one trace holds of each of its groups.
struct Held {
    /// Positions, ascending, with the index of the record.
    lists: Vec<Vec<(i64, u32)>>,
    /// There are sends and receives too.
    mixed: Vec<bool>,
}

/// What all traces hold.
struct AllHeld {
    of: Vec<Held>,
    /// There is no dump among them.
    only_lines: bool,
}

fn held(traces: &[&Trace]) -> AllHeld {
    let one = |trace: &&Trace| {
        let mut lists = vec![Vec::new(); trace.groups.len()];
        let mut mixed = vec![false; trace.groups.len()];
        for (at, record) in trace.records.iter().enumerate() {
            let list = lists.get_mut(record.group as usize);
            if let (Kind::Collective, Some(seq), Some(list)) = (record.kind, record.seq, list) {
                list.push((seq, at as u32));
            } else if let Some(flag) = mixed.get_mut(record.group as usize) {
                *flag |= record.kind != Kind::Collective;
            }
        }
        for list in &mut lists {
            list.sort_unstable();
            list.dedup_by_key(|h| h.0);
        }
        Held { lists, mixed }
    };
    AllHeld { of: traces.iter().map(one).collect(), only_lines: traces.iter().all(|t| t.partial) }
}

fn member(
    rank: u32,
    trace: Option<usize>,
    view: Option<(usize, usize)>,
    traces: &[&Trace],
    held: &AllHeld,
    mixed: bool,
) -> Member {
    let mut member = Member {
        rank,
        trace,
        reach: Reach::Absent,
        completed: None,
        held: Vec::new(),
        first: None,
        concluded: false,
    };
    let Some(at) = trace else {
        // Lines tell of those that speak; of whom no line is given nothing is said.
        if held.only_lines {
            member.reach = Reach::Unknown;
        }
        return member;
    };
    let Some((t, g)) = view else {
        member.reach = match () {
            () if traces[at].partial => Reach::Unknown,
            () if traces[at].cut => Reach::Cut,
            () => Reach::Nothing,
        };
        return member;
    };
    let (trace, group) = (traces[t], &traces[t].groups[g]);
    member.held.clone_from(&held.of[t].lists[g]);
    member.completed = group.completed.filter(|_| !mixed);
    let last = member.held.last().map(|h| h.0);
    // Sends and receives carry the position of the last collective before them.
    let beside = trace.records.iter().rev().find(|r| r.group as usize == g && r.kind != Kind::Collective);
    let beside = beside.filter(|_| last.is_none()).and_then(|r| r.seq).filter(|s| *s > 0);
    let seen = last.max(beside);
    member.reach = match (group.enqueued.filter(|_| !mixed), seen) {
        (Some(e), s) => Reach::At(s.map_or(e, |s| s.max(e))),
        (None, _) if trace.cut => Reach::Cut,
        (None, Some(s)) => Reach::At(s),
        (None, None) if trace.partial => Reach::Unknown,
        (None, None) if trace.whole => Reach::At(0),
        (None, None) => Reach::Nothing,
    };
    member
}

/// Finds what each member waits in, once it is known how far all have come.
fn settle(group: &mut Group, traces: &[&Trace]) {
    let lowest = group.members.iter().filter_map(|m| match m.reach {
        Reach::At(seq) => Some(seq),
        _ => None,
    });
    let lowest = lowest.min();
    for member in &mut group.members {
        let Some(trace) = member.trace.map(|t| traces[t]) else { continue };
        let open = |seq: i64, record: &Record| match record.done {
            Done::No | Done::Failed => true,
            // Nobody gets through what a member has not entered, but by an abort.
            Done::Perhaps => lowest.is_some_and(|l| seq > l) && !record.op.family().rooted(),
            Done::Yes => {
                lowest.is_some_and(|l| seq > l)
                    && !record.op.family().rooted()
                    && record.took.is_some_and(|t| t >= ABORT_NS)
            }
        };
        // Whoever is beyond the last one stands behind what that one has not entered.
        if trace.partial && member.held.is_empty() && member.completed.is_none() {
            (member.completed, member.concluded) = (lowest, true);
        }
        let records = &trace.records;
        member.first = member.held.iter().find(|h| open(h.0, &records[h.1 as usize])).map(|h| h.0);
        // Counters alone can tell that something was not finished, where the records of it are lost.
        let last = member.held.last().map_or(i64::MIN, |h| h.0);
        if let (None, Reach::At(e), Some(c)) = (member.first, member.reach, member.completed)
            && e > c
            && (member.held.is_empty() || (trace.cut && last <= c))
        {
            member.first = Some(c + 1);
        }
    }
}
