//! Who waits and for whom: ranks that wait in a collective by their own lines or
//! by their dumps, and those that do not.

use super::Detected;
use crate::base::RankSet;
use crate::catalogue::built_in;
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
    let missing = all.minus(&waiting);
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

/// What Flight Recorder dumps show.
pub(super) fn dump(cx: &Context<'_>, kinds: &[&str]) -> Option<Detected> {
    let report = cx.job.waits.as_ref()?;
    let mut out = Detected::default();
    for fault in report.faults.iter().filter(|f| kinds.contains(&fault_name(&f.kind))) {
        out.ranks.extend(&fault.ranks);
        if !out.text.is_empty() {
            out.text.push_str(". ");
        }
        out.text.push_str(&fault.detail);
    }
    if out.text.is_empty() {
        return None;
    }
    if let Some(id) = cx.catalogue.message(built_in::DUMP) {
        out.events = cx
            .of(id)
            .iter()
            .copied()
            .filter(|&e| {
                let name = slot_of(cx.catalogue, cx.job.event(e), "fault").unwrap_or("");
                kinds.contains(&name)
            })
            .take(6)
            .collect();
    }
    Some(out)
}

/// Where each rank waits, by the first thing that it says of it: group, sequence number, operation.
fn fronts(cx: &Context<'_>) -> BTreeMap<String, BTreeMap<u32, (i64, String, EventId)>> {
    let mut groups: BTreeMap<String, BTreeMap<u32, (i64, String, EventId)>> = BTreeMap::new();
    for (message, list) in cx.messages() {
        let entry = &cx.catalogue.messages[usize::from(message)];
        if entry.kind != Kind::Waits || matches!(entry.role, Role::Fact | Role::Harmless) {
            continue;
        }
        for &e in list {
            let event = cx.job.event(e);
            let text = |slot| slot_of(cx.catalogue, event, slot).map(str::to_string);
            let (Some(rank), Some(op)) = (cx.job.events[e as usize].rank, text("op")) else { continue };
            let Some(seq) = text("seq").and_then(|s| s.parse::<i64>().ok()) else { continue };
            let group = text("group").unwrap_or_default();
            let front = groups.entry(group).or_default().entry(rank).or_insert((seq, op.clone(), e));
            if seq < front.0 {
                *front = (seq, op, e);
            }
        }
    }
    groups.retain(|_, ranks| ranks.len() >= 3);
    groups
}

/// Most ranks of a group wait at one place, a few at an earlier one: those never came on.
pub(super) fn waits_behind(cx: &Context<'_>) -> Option<Detected> {
    for ranks in fronts(cx).values() {
        let mut count: BTreeMap<i64, usize> = BTreeMap::new();
        for (seq, ..) in ranks.values() {
            *count.entry(*seq).or_default() += 1;
        }
        let (&most, &n) = count.iter().max_by_key(|c| (*c.1, *c.0))?;
        let behind: RankSet = ranks.iter().filter(|(_, f)| f.0 < most).map(|(r, _)| *r).collect();
        if n * 3 >= ranks.len() * 2 && !behind.is_empty() {
            let mut events: Vec<_> =
                ranks.iter().filter(|(r, _)| behind.contains(**r)).map(|(_, f)| f.2).take(3).collect();
            events.extend(ranks.values().filter(|f| f.0 == most).map(|f| f.2).take(2));
            let text = format!(
                "rank {behind} waits in an earlier operation than the {n} others, who wait in number {most}"
            );
            return Some(Detected { events, ranks: behind, text, ..Detected::default() });
        }
    }
    None
}

/// At the same number ranks of a group wait in different operations.
pub(super) fn waits_mismatch(cx: &Context<'_>) -> Option<Detected> {
    for ranks in fronts(cx).values() {
        let mut by: BTreeMap<(i64, &str), Vec<(u32, EventId)>> = BTreeMap::new();
        for (rank, (seq, op, e)) in ranks {
            by.entry((*seq, op.as_str())).or_default().push((*rank, *e));
        }
        let Some((&(seq, op), most)) = by.iter().max_by_key(|b| b.1.len()) else { continue };
        let others: Vec<_> = by.iter().filter(|((s, o), _)| *s == seq && *o != op).collect();
        if others.is_empty() || most.len() < 2 {
            continue;
        }
        let minority: RankSet = others.iter().flat_map(|o| o.1.iter().map(|r| r.0)).collect();
        let mut events: Vec<_> = others.iter().flat_map(|o| o.1.iter().map(|r| r.1)).take(3).collect();
        events.extend(most.iter().map(|r| r.1).take(2));
        let names: Vec<&str> = others.iter().map(|o| o.0.1).collect();
        let text = format!(
            "at number {seq} rank {minority} is in {} where {} others are in {op}",
            names.join(", "),
            most.len()
        );
        return Some(Detected { events, ranks: minority, text, ..Detected::default() });
    }
    None
}
