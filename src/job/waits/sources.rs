//! Which trace speaks for a rank when there are several, which ranks there
//! are at all, and what is odd about the set: two runs mixed, two versions.

use std::collections::{BTreeMap, BTreeSet};

use super::trace::{Record, Trace};
use crate::base::RankSet;

/// Traces that end this much earlier than the others are of another run.
const OTHER_RUN_NS: i64 = 6 * 3600 * 1_000_000_000;

fn newest(trace: &Trace) -> i64 {
    trace.records.iter().map(|r: &Record| r.created).max().unwrap_or(0)
}

/// One trace a rank, sorted by rank, and what had to be left out or is odd.
pub(super) fn choose(all: &[Trace]) -> (Vec<&Trace>, Vec<String>) {
    let mut by_rank: BTreeMap<u32, Vec<&Trace>> = BTreeMap::new();
    for trace in all {
        by_rank.entry(trace.rank).or_default().push(trace);
    }
    let mut problems = Vec::new();
    let mut chosen = Vec::new();
    for (rank, mut list) in by_rank {
        // The newest, then the fullest; the name decides between equals.
        list.sort_by(|a, b| {
            let key = |t: &Trace| (newest(t), !t.cut, t.records.len(), t.groups.len());
            key(b).cmp(&key(a)).then_with(|| a.source.cmp(&b.source))
        });
        if list.len() > 1 {
            let left: Vec<&str> = list[1..].iter().map(|t| t.source.as_str()).collect();
            problems.push(format!(
                "{} dumps of rank {rank}: {} is taken, left out: {}",
                list.len(),
                list[0].source,
                left.join(", ")
            ));
        }
        chosen.push(list[0]);
    }
    oddities(&chosen, &mut problems);
    (chosen, problems)
}

fn oddities(traces: &[&Trace], problems: &mut Vec<String>) {
    let mut versions: BTreeMap<&str, RankSet> = BTreeMap::new();
    for trace in traces {
        versions.entry(trace.version.as_str()).or_default().insert(trace.rank);
    }
    if versions.len() > 1 {
        let parts: Vec<String> = versions
            .iter()
            .map(|(v, ranks)| format!("{} on {ranks}", if v.is_empty() { "none" } else { v }))
            .collect();
        problems.push(format!("dumps of different format versions: {}", parts.join("; ")));
    }
    let cut: RankSet = traces.iter().filter(|t| t.cut).map(|t| t.rank).collect();
    if !cut.is_empty() {
        problems.push(format!("cut or damaged dumps, read as far as they go: ranks {cut}"));
    }
    let last = traces.iter().map(|t| newest(t)).max().unwrap_or(0);
    let old = |t: &&&Trace| newest(t) > 0 && last - newest(t) > OTHER_RUN_NS;
    let old: RankSet = traces.iter().filter(old).map(|t| t.rank).collect();
    if !old.is_empty() {
        problems.push(format!("the dumps of ranks {old} end hours before the others: of another run?"));
    }
}

/// What to say of dumps that could not be read.
pub(super) fn unread(names: &BTreeMap<u32, String>) -> Option<String> {
    let list: Vec<String> =
        names.iter().take(8).map(|(rank, name)| format!("{name} (rank {rank})")).collect();
    let more = names.len().saturating_sub(list.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!list.is_empty()).then(|| format!("dumps that could not be read: {}{more}", list.join(", ")))
}

/// What to say where the dumps do not tell alike who belongs to the group of all.
pub(super) fn members(traces: &[&Trace]) -> Option<String> {
    let mut told: BTreeMap<&RankSet, RankSet> = BTreeMap::new();
    for trace in traces.iter().filter(|t| !t.partial) {
        for group in trace.groups.iter().filter(|g| g.all && !g.ranks.is_empty()) {
            told.entry(&group.ranks).or_default().insert(trace.rank);
        }
    }
    if told.len() < 2 {
        return None;
    }
    let parts: Vec<String> = told
        .iter()
        .take(4)
        .map(|(members, by)| format!("ranks {members} by the dump of {}", super::words::ranks(by)))
        .collect();
    Some(format!("The dumps do not tell the same members of the group of all: {}.", parts.join("; ")))
}

/// Dumps that cannot be of the same job as most others: a group in which both are, by the account of one of them, has
/// other members by the other's. Gives their places in `traces`, and a sentence for each.
pub fn misfits(traces: &[Trace]) -> Vec<(usize, String)> {
    let mut views: BTreeMap<&str, BTreeMap<&RankSet, Vec<usize>>> = BTreeMap::new();
    for (at, trace) in traces.iter().enumerate().filter(|(_, t)| !t.partial) {
        for group in trace.groups.iter().filter(|g| !g.name.is_empty() && !g.open && !g.ranks.is_empty()) {
            views.entry(&group.name).or_default().entry(&group.ranks).or_default().push(at);
        }
    }
    let mut against: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); traces.len()];
    let mut shown: Vec<Option<(&str, &RankSet, &RankSet)>> = vec![None; traces.len()];
    for (name, views) in views.iter().filter(|(_, v)| v.len() > 1) {
        for (mine, holders) in views {
            for (theirs, others) in views.iter().filter(|(v, _)| *v != mine && v.meets(mine)) {
                for &a in holders.iter().filter(|a| !others.contains(a)) {
                    for &b in others.iter().filter(|b| !holders.contains(b)) {
                        if mine.contains(traces[b].rank) || theirs.contains(traces[a].rank) {
                            against[a].insert(b);
                            shown[a].get_or_insert((name, mine, theirs));
                        }
                    }
                }
            }
        }
    }
    let all = traces.iter().filter(|t| !t.partial).count();
    let alone = |at: &usize| against[*at].len() * 2 + 1 > all && all > 2;
    (0..traces.len())
        .filter(alone)
        .filter_map(|at| {
            let (name, mine, theirs) = shown[at]?;
            let trace = &traces[at];
            let desc = trace.groups.iter().find(|g| g.name == name).map_or("", |g| g.desc.as_str());
            let group = if matches!(desc, "" | "undefined") { name } else { desc };
            let text = format!(
                "The dump of rank {} ({}) does not fit the others: by it ranks {mine} are in {group}, by them ranks \
                 {theirs}. It is left out as one of another run or job.",
                trace.rank, trace.source
            );
            Some((at, text))
        })
        .collect()
}

/// All ranks that exist: those that were read, those that groups name, and
/// those between, since ranks have no gaps.
pub(super) fn world(traces: &[&Trace], absent: &RankSet) -> RankSet {
    let mut world = absent.clone();
    for trace in traces {
        world.insert(trace.rank);
        world.extend(&trace.world);
        trace.groups.iter().for_each(|g| world.extend(&g.ranks));
    }
    let top = traces.last().map_or(0, |t| t.rank);
    // A number that is far off is no rank but something else in a file's name.
    if (top as usize) < traces.len() * 4 + 16 {
        world.insert_range(0, top);
    }
    world
}
