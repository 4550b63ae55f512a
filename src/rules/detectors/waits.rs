//! Who waits and for whom: ranks that wait in a collective by their own lines or
//! by their dumps, and those that do not.

use super::Detected;
use crate::base::RankSet;
use crate::catalogue::built_in;
use crate::job::waits::{Fault, FaultKind, Front, Proof, Sure};
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
    let text = format!("{} did not report waiting where {} waited", words(&silent), words(&waiting));
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

/// What Flight Recorder dumps show, alone or with lines. `what`: how far they show it (`passed`: somebody waited until a
/// time limit; `open`: no limit is seen to have passed; `shown`: one of these; `doubt`: a job at work may look so).
pub(super) fn dump(cx: &Context<'_>, kinds: &[&str], what: &str) -> Option<Detected> {
    let mut faults = faults(cx, kinds, false);
    let most = faults.iter().map(|f| f.proof).max()?;
    let asked = match what {
        "passed" => most == Proof::Passed,
        "open" => most == Proof::Open,
        "shown" => most > Proof::Doubt,
        "doubt" => most == Proof::Doubt,
        _ => true,
    };
    if !asked {
        return None;
    }
    if most > Proof::Doubt {
        faults.retain(|f| f.proof > Proof::Doubt);
    }
    let mut out = of_dumps(cx, kinds, &faults)?;
    match most {
        Proof::Open if kinds.contains(&"missing") => {
            out.text.push_str(". No time limit is seen to have passed; it is a hang if it lasts");
        }
        Proof::Doubt => match cx.job.waits.iter().find_map(|w| w.contradictions.first()) {
            Some(against) => {
                let against = against.trim_end_matches('.');
                out.text.push_str(&format!(". But the input contradicts itself: {against}"));
            }
            None => out.text.push_str(
                ". Dumps of a job at work look like this too, for a moment: it is a hang if dumps that are taken later show the \
                 same",
            ),
        },
        _ => {}
    }
    Some(out)
}

/// Ranks of which there is no dump, where nothing better is seen: `few` among many dumps, or so `many` (or files that
/// could not be read) that it says nothing about them.
pub(super) fn absent(cx: &Context<'_>, what: &str) -> Option<Detected> {
    let all = || cx.job.waits.iter().flat_map(|w| &w.faults);
    if all().any(Fault::is_shown) {
        return None;
    }
    let few = |f: &&Fault| f.sure != Sure::Guess && f.proof != Proof::Doubt;
    let faults: Vec<&Fault> = all().filter(|f| !f.lines && f.kind == FaultKind::NoDump).collect();
    let some_few = faults.iter().any(few);
    let wanted: Vec<&Fault> = match what {
        "few" => faults.into_iter().filter(few).collect(),
        _ if some_few => Vec::new(),
        _ => faults,
    };
    let mut out = of_dumps(cx, &["no-dump"], &wanted)?;
    if what == "few" {
        out.text.push_str(
            ". That there is no dump of it beside those of the others speaks for that rank and is no proof: it may only not be \
             among the files",
        );
    }
    Some(out)
}

fn of_dumps(cx: &Context<'_>, kinds: &[&str], faults: &[&Fault]) -> Option<Detected> {
    let mut out = told(faults)?;
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
    let all: Vec<EventId> = cx.resolve(what).iter().flat_map(|id| cx.of(*id)).copied().collect();
    let source = |e: EventId| cx.job.events[e as usize].source;
    let time = |e: EventId| slot_of(cx.catalogue, cx.job.event(e), "at").unwrap_or("");
    let times: BTreeSet<&str> = all.iter().map(|e| time(*e)).collect();
    let sources: BTreeSet<u32> = all.iter().map(|e| source(*e)).collect();
    // Several files are one answer where they tell one and the same time.
    if sources.len() > 1 && (times.len() > 1 || times.contains("")) {
        return None;
    }
    let last = sources.last().copied()?;
    for e in all.into_iter().filter(|e| source(*e) == last) {
        let text = |slot| slot_of(cx.catalogue, cx.job.event(e), slot);
        let count = text("enqueued").and_then(|t| t.parse().ok());
        if let (Some(group), Some(ranks), Some(count)) =
            (text("group"), text("ranks").and_then(RankSet::parse), count)
        {
            by.entry(group).or_default().push((count, ranks, e));
        }
    }
    by.retain(|_, list| list.len() > 1);
    let (group, list) = by.into_iter().max_by_key(|(_, l)| l.iter().map(|x| x.1.len()).sum::<usize>())?;
    let most = list.iter().map(|l| l.0).max()?;
    let behind: Vec<_> = list.iter().filter(|l| l.0 < most).collect();
    let least = behind.iter().map(|l| l.0).min()?;
    let ranks = behind.iter().fold(RankSet::new(), |mut all, l| {
        all.extend(&l.1);
        all
    });
    let all: usize = list.iter().map(|l| l.1.len()).sum();
    let by = match most - least {
        1 => "one operation".to_string(),
        n => format!("up to {n} operations"),
    };
    (ranks.len() * 3 <= all).then(|| Detected {
        events: behind.iter().map(|l| l.2).chain(list.iter().filter(|l| l.0 == most).map(|l| l.2)).take(4).collect(),
        text: format!(
            "of {group} {} had launched {by} less than the {most} of the others when RAS was asked, which is normal in a running \
             job: ask RAS again, and look here if the counts stay",
            words(&ranks)
        ),
        ranks,
        ..Detected::default()
    })
}

fn words(ranks: &RankSet) -> String {
    format!("rank{} {ranks}", if ranks.len() == 1 { "" } else { "s" })
}

/// All stacks stand in a collective or wait for the device: nobody is busy elsewhere.
pub(super) fn stacks_wait(cx: &Context<'_>) -> Option<Detected> {
    let stacks = &cx.job.stacks;
    if stacks.len() < 2 || !stacks.iter().all(|s| s.waits) {
        return None;
    }
    let events = stacks.iter().filter_map(|s| s.event).take(4).collect();
    let text = format!(
        "all {} stacks stand in a collective or wait for the device; one stack of each does not tell whether they move: take them \
         again after a minute",
        stacks.len()
    );
    Some(Detected { events, text, ..Detected::default() })
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
    let stand = if out.len() == 1 { "stands" } else { "stand" };
    let text = format!("{} {stand} in {at} while {} others wait in a collective", words(&out), waiting.len());
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
    let (was, itself) = if out.ranks.len() == 1 { ("was", "itself") } else { ("were", "themselves") };
    out.text = format!("{} {was} told of the timeout by others and had none {itself}", words(&out.ranks));
    (!out.ranks.is_empty() && !waiting.is_empty()).then_some(out)
}
