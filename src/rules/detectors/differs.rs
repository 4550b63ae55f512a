//! What must be the same on all ranks and is not.

use super::Detected;
use crate::base::{RankSet, Release};
use crate::job::{EventId, slot_of};
use crate::knowledge::Kind;
use crate::rules::cond::Context;
use std::collections::{BTreeMap, BTreeSet};

/// Ranks of one job differ in something that must agree.
pub(super) fn differs(cx: &Context<'_>, what: &str) -> Option<Detected> {
    let mut by_value: BTreeMap<String, (RankSet, BTreeSet<String>, Vec<EventId>)> = BTreeMap::new();
    let mut add = |value: String, rank: Option<u32>, host: Option<String>, e: EventId| {
        let entry = by_value.entry(value).or_default();
        entry.0.extend(&rank.into_iter().collect());
        entry.1.extend(host);
        entry.2.push(e);
    };
    match what {
        "nccl-version" => {
            for r in cx.job.releases.get("nccl").into_iter().flatten() {
                if cx.job.events[r.event as usize].attempt == cx.job.current {
                    add(r.release.to_string(), r.rank, r.host.clone(), r.event);
                }
            }
        }
        "network" => {
            for (message, list) in cx.messages() {
                if cx.catalogue.messages[usize::from(message)].kind != Kind::Net {
                    continue;
                }
                for &e in list {
                    if let Some(n) = slot_of(cx.catalogue, cx.job.event(e), "network") {
                        let p = &cx.job.events[e as usize];
                        add(n.to_string(), p.rank, p.host.clone(), e);
                    }
                }
            }
        }
        _ => {
            for v in cx.knowledge.tables.variables.iter().filter(|v| v.same) {
                let Some(list) = cx.job.settings.get(&v.name) else { continue };
                let values: BTreeSet<&str> = list.iter().map(|s| s.value.as_str()).collect();
                if values.len() > 1 {
                    for s in list {
                        add(format!("{}={}", v.name, s.value), s.rank, s.host.clone(), s.event);
                    }
                    break;
                }
            }
        }
    }
    if by_value.len() < 2 {
        return None;
    }
    let most = by_value.values().map(|v| v.2.len()).max().unwrap_or(0);
    let largest = by_value.values().filter(|v| v.2.len() == most).count();
    let mut out = Detected::default();
    for v in by_value.values() {
        if largest > 1 || v.2.len() < most {
            out.ranks.extend(&v.0);
            out.hosts.extend(v.1.iter().cloned());
        }
        out.events.extend(v.2.iter().take(2));
    }
    out.text = format!("seen: {}", by_value.keys().cloned().collect::<Vec<_>>().join(", "));
    Some(out)
}

/// Wordings of releases that cannot be the same one: the processes run different NCCL releases.
pub(super) fn generations(cx: &Context<'_>) -> Option<Detected> {
    let mut ranges: BTreeMap<u32, (Release, Release, EventId, EventId)> = BTreeMap::new();
    let (lowest, highest) = (Release(0, 0, 0), Release(u32::MAX, 0, 0));
    for id in cx.job.current() {
        let Some(process) = cx.job.events[id as usize].process else { continue };
        let event = cx.job.event(id);
        let (Some(range), _) = cx.catalogue.releases(event.message, event.form) else { continue };
        let entry = ranges.entry(process).or_insert((lowest, highest, id, id));
        if let Some(from) = range.from
            && from > entry.0
        {
            (entry.0, entry.2) = (from, id);
        }
        if let Some(to) = range.to
            && to < entry.1
        {
            (entry.1, entry.3) = (to, id);
        }
    }
    for r in cx.job.releases.get("nccl").into_iter().flatten() {
        if let Some(p) = r.process {
            ranges.insert(p, (r.release, r.release, r.event, r.event));
        }
    }
    // The header itself: `INFO` without the word NCCL is of 2.2 and before.
    for id in cx.job.current() {
        let Some(process) = cx.job.events[id as usize].process else { continue };
        let text = &cx.job.event(id).text;
        let (old, new) = (Release(2, 2, u32::MAX), Release(2, 3, 0));
        let entry = ranges.entry(process).or_insert((lowest, highest, id, id));
        if text.contains("] NCCL INFO") || text.contains("NCCL WARN") {
            if entry.0 < new {
                (entry.0, entry.2) = (new, id);
            }
        } else if (text.contains("] INFO ") || text.contains(" WARN "))
            && text.contains(".cu:") | text.contains("] INFO ")
            && entry.1 > old
        {
            (entry.1, entry.3) = (old, id);
        }
    }
    // A process whose own wordings contradict each other tells nothing: a form's range is not exact then.
    ranges.retain(|_, r| r.0 <= r.1);
    let newest = ranges.iter().max_by_key(|(_, r)| r.0)?;
    let oldest = ranges.iter().min_by_key(|(_, r)| r.1)?;
    if oldest.1.1 >= newest.1.0 || oldest.0 == newest.0 {
        return None;
    }
    let mut out = Detected { events: vec![oldest.1.3, newest.1.2], ..Detected::default() };
    for (p, r) in &ranges {
        if r.1 < newest.1.0 {
            let process = &cx.job.processes[*p as usize];
            out.ranks.extend(&process.rank.into_iter().collect());
            out.hosts.extend(process.host.clone());
        }
    }
    let newer = cx.job.processes[*newest.0 as usize].host.clone();
    if out.ranks.is_empty() {
        out.hosts.extend(newer);
    }
    out.text = format!(
        "one process words its lines as releases up to {} do, another as those from {} on",
        oldest.1.1, newest.1.0
    );
    Some(out)
}
