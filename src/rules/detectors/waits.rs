//! Who waits and for whom: ranks that wait in a collective by their own lines or
//! by their dumps, and those that do not.

use super::Detected;
use crate::base::RankSet;
use crate::catalogue::built_in;
use crate::job::waits::{Fault, Front};
use crate::job::{EventId, fault_name, slot_of};
use crate::knowledge::{Kind, Role};
use crate::rules::cond::Context;
use std::collections::{BTreeMap, BTreeSet};

/// Ranks that wait in a collective, with the events that say so.
fn waiting(cx: &Context<'_>) -> (RankSet, Vec<EventId>) {
    let mut ranks = RankSet::new();
    let mut events = Vec::new();
    for (message, list) in cx.messages() {
        let entry = &cx.catalogue.messages[usize::from(message)];
        if entry.kind != Kind::Waits || entry.role == Role::Fact || entry.role == Role::Harmless {
            continue;
        }
        for &e in list {
            if let Some(rank) = cx.job.events[e as usize].rank {
                ranks.insert(rank);
                events.push(e);
            }
        }
    }
    (ranks, events)
}

/// All others waited in the same place, these did not.
pub(super) fn silent_rank(cx: &Context<'_>) -> Option<Detected> {
    let (waiting, events) = waiting(cx);
    if waiting.is_empty() {
        return None;
    }
    let mut all = cx.job.heard.clone();
    all.extend(&cx.job.given);
    if let Some(world) = cx.job.world.filter(|w| *w > 0 && *w <= 1 << 20) {
        all.insert_range(0, world - 1);
    } else if let Some(last) = all.iter().last() {
        // Without a declared world only the gaps between those that speak are known to exist.
        all.insert_range(0, last);
    }
    let missing = all.minus(&waiting).minus(&standing(cx));
    let there = |r: &u32| cx.job.heard.contains(*r) || cx.job.given.contains(*r);
    let heard_missing: RankSet = missing.iter().filter(there).collect();
    let one_stream =
        events.iter().all(|e| cx.job.events[*e as usize].source == cx.job.events[events[0] as usize].source);
    // Who was never heard is only silent when all others speak in the same stream; else the log was not given.
    let silent = if one_stream { missing } else { heard_missing };
    if silent.is_empty()
        || silent.len() > (waiting.len() / 3).max(1)
        || waiting.len() < 2 && silent.len() != 1
    {
        return None;
    }
    let mut events = events;
    events.truncate(4);
    let text = format!("rank {silent} did not report waiting where rank {waiting} waited");
    Some(Detected { events, ranks: silent, hosts: BTreeSet::new(), text })
}

/// Every known rank waits: nobody is missing.
pub(super) fn waits_all(cx: &Context<'_>) -> Option<Detected> {
    let (waiting, mut events) = waiting(cx);
    let world = cx.job.world.unwrap_or(0) as usize;
    let all = waiting.len() >= 2
        && (world == 0 || waiting.len() >= world)
        && cx.job.heard.minus(&waiting).is_empty();
    events.truncate(4);
    all.then(|| Detected {
        events,
        text: format!("all {} ranks waited", waiting.len()),
        ..Detected::default()
    })
}

/// The faults of some kinds that the waits show. What is but a gap in the input, or a guess, is told only where
/// nothing better is.
fn faults<'j>(cx: &Context<'j>, kinds: &[&str], lines: bool) -> Vec<&'j Fault> {
    let all = cx.job.waits.iter().flat_map(|w| &w.faults);
    let mut list: Vec<&Fault> =
        all.filter(|f| f.lines == lines && kinds.contains(&fault_name(&f.kind))).collect();
    if list.iter().any(|f| f.is_shown()) {
        list.retain(|f| f.is_shown());
    }
    list
}

fn told(faults: &[&Fault]) -> Option<Detected> {
    let mut out = Detected::default();
    for fault in faults {
        out.ranks.extend(&fault.ranks);
        if !out.text.is_empty() {
            out.text.push_str(". ");
        }
        out.text.push_str(&fault.detail);
    }
    (!out.text.is_empty()).then_some(out)
}

/// What Flight Recorder dumps show, alone or with lines.
pub(super) fn dump(cx: &Context<'_>, kinds: &[&str]) -> Option<Detected> {
    let faults = faults(cx, kinds, false);
    let mut out = told(&faults)?;
    if let Some(id) = cx.catalogue.message(built_in::DUMP) {
        let own = |e: &EventId| {
            let name = slot_of(cx.catalogue, cx.job.event(*e), "fault").unwrap_or("");
            kinds.contains(&name)
        };
        out.events = cx.of(id).iter().copied().filter(own).take(6).collect();
    }
    for fault in faults {
        out.events.extend(lines_of(cx, fault));
    }
    Some(out)
}

/// Lines in which those who are to blame, and two of those who wait, tell of their waits.
fn lines_of(cx: &Context<'_>, fault: &Fault) -> Vec<EventId> {
    let of = |rank: u32| cx.job.wait_lines.get(&rank).and_then(|e| e.first()).copied();
    let mut events: Vec<EventId> = fault.ranks.iter().filter_map(of).take(3).collect();
    events.extend(fault.waiting.iter().filter(|r| !fault.ranks.contains(*r)).filter_map(of).take(2));
    // Where they stood, by their stacks.
    let stack = |rank: u32| cx.job.stack_of(rank).and_then(|s| s.event);
    events.extend(fault.ranks.iter().filter_map(stack).take(2));
    events.sort_unstable();
    events.dedup();
    events
}

/// In the only answer of RAS (message `what`) a few ranks of a communicator have launched less than the others.
pub(super) fn ras_behind(cx: &Context<'_>, what: &str) -> Option<Detected> {
    let mut by: BTreeMap<&str, Vec<(i64, RankSet, EventId)>> = BTreeMap::new();
    let mut sources: BTreeSet<u32> = BTreeSet::new();
    for &e in cx.resolve(what).iter().flat_map(|id| cx.of(*id)) {
        let text = |slot| slot_of(cx.catalogue, cx.job.event(e), slot);
        let count = text("enqueued").and_then(|t| t.parse().ok());
        if let (Some(group), Some(ranks), Some(count)) =
            (text("group"), text("ranks").and_then(RankSet::parse), count)
        {
            sources.insert(cx.job.events[e as usize].source);
            by.entry(group).or_default().push((count, ranks, e));
        }
    }
    if sources.len() != 1 {
        return None;
    }
    by.retain(|_, list| list.len() > 1);
    let (group, list) = by.into_iter().max_by_key(|(_, l)| l.iter().map(|x| x.1.len()).sum::<usize>())?;
    let most = list.iter().map(|l| l.0).max()?;
    let behind: Vec<_> = list.iter().filter(|l| l.0 < most).collect();
    let ranks = behind.iter().fold(RankSet::new(), |mut all, l| {
        all.extend(&l.1);
        all
    });
    let all: usize = list.iter().map(|l| l.1.len()).sum();
    (ranks.len() * 3 <= all).then(|| Detected {
        events: behind.iter().map(|l| l.2).chain(list.iter().filter(|l| l.0 == most).map(|l| l.2)).take(4).collect(),
        text: format!(
            "of {group} rank {ranks} has launched fewer operations than the {most} of the others, which is normal in a \
             running job: ask RAS again, and look here if the counts stay"
        ),
        ranks,
        ..Detected::default()
    })
}

/// Most stacks stand in a collective, a few do not: those ranks are busy elsewhere.
pub(super) fn stack_outlier(cx: &Context<'_>) -> Option<Detected> {
    let ranked: Vec<_> = cx.job.stacks.iter().filter(|s| s.rank.is_some()).collect();
    let (wait, busy): (Vec<_>, Vec<_>) = ranked.into_iter().partition(|s| s.waits);
    let waiting: RankSet = wait.iter().filter_map(|s| s.rank).collect();
    let out: RankSet = busy.iter().filter_map(|s| s.rank).filter(|r| !waiting.contains(*r)).collect();
    if out.is_empty() || waiting.len() < 2 || out.len() * 3 > waiting.len().max(3) {
        return None;
    }
    let at = busy.iter().find_map(|s| s.frames.first()).cloned().unwrap_or_default();
    let mut events: Vec<EventId> = busy.iter().filter_map(|s| s.event).take(3).collect();
    events.extend(wait.iter().filter_map(|s| s.event).take(2));
    let text = format!("rank {out} stands in {at} while {} others wait in a collective", waiting.len());
    Some(Detected { events, ranks: out, text, ..Detected::default() })
}

/// What lines show of waits: counters, positions and operations of all ranks compared.
pub(super) fn waits(cx: &Context<'_>, kinds: &[&str]) -> Option<Detected> {
    let faults: Vec<&Fault> = faults(cx, kinds, true).into_iter().filter(|f| f.is_shown()).collect();
    let mut out = told(&faults)?;
    out.events = faults.iter().flat_map(|f| lines_of(cx, f)).take(8).collect();
    Some(out)
}

/// Ranks that the waits show standing in an operation.
fn standing(cx: &Context<'_>) -> RankSet {
    let mut ranks = RankSet::new();
    for group in cx.job.waits.iter().flat_map(|w| &w.groups) {
        let behind = |f: &&Front| !f.unknown && !f.concluded && f.enqueued > f.completed;
        ranks.extend(&group.fronts.iter().filter(behind).map(|f| f.rank).collect());
    }
    ranks
}

/// Ranks that were told of a timeout by others (message `what`), had none themselves, and are not seen to wait either.
pub(super) fn told_only(cx: &Context<'_>, what: &str) -> Option<Detected> {
    let (waiting, waits) = waiting(cx);
    let standing = standing(cx);
    let mut out = Detected::default();
    for id in cx.resolve(what) {
        for &e in cx.of(id) {
            if let Some(rank) = cx.job.events[e as usize].rank
                && !waiting.contains(rank)
                && !standing.contains(rank)
            {
                out.ranks.insert(rank);
                out.events.push(e);
            }
        }
    }
    out.events.truncate(3);
    out.events.extend(waits.iter().take(2));
    out.text = format!("rank {} was told of the timeout by others and had none itself", out.ranks);
    (!out.ranks.is_empty() && !waiting.is_empty()).then_some(out)
}
