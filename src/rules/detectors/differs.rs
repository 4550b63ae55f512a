//! What must be the same on all ranks and is not.

use super::Detected;
use crate::base::{RankSet, Release};
use crate::job::{EventId, ProcessId, slot_of};
use crate::knowledge::Kind;
use crate::rules::cond::Context;
use crate::settings;
use std::collections::{BTreeMap, BTreeSet};

/// Who says something: a rank, else its process, else a host, else an event of nobody known.
type Who = (Option<u32>, Option<ProcessId>, Option<String>, EventId);

fn who(rank: Option<u32>, process: Option<ProcessId>, host: Option<&String>, event: EventId) -> Who {
    match (rank, process, host) {
        (Some(r), ..) => (Some(r), None, None, 0),
        (_, Some(p), _) => (None, Some(p), None, 0),
        (.., Some(h)) => (None, None, Some(h.clone()), 0),
        _ => (None, None, None, event),
    }
}

/// Who has one of several values.
#[derive(Default)]
struct Holders {
    /// The value as the first of them writes it.
    text: String,
    /// Each once, however often it says so: these are the votes.
    who: BTreeSet<Who>,
    ranks: RankSet,
    hosts: BTreeSet<String>,
    events: Vec<EventId>,
}

/// One thing that must agree: its values.
#[derive(Default)]
struct Values(BTreeMap<String, Holders>);

impl Values {
    fn add(
        &mut self,
        key: String,
        text: &str,
        who: Who,
        rank: Option<u32>,
        host: Option<&String>,
        e: EventId,
    ) {
        let entry = self.0.entry(key).or_default();
        if entry.text.is_empty() {
            entry.text = text.to_string();
        }
        entry.who.insert(who);
        entry.ranks.extend(&rank.into_iter().collect());
        entry.hosts.extend(host.cloned());
        entry.events.push(e);
    }

    /// Whether a majority shows who is to blame.
    fn majority(&self) -> bool {
        let most = self.most();
        self.0.values().filter(|v| v.who.len() == most).count() == 1
    }

    fn most(&self) -> usize {
        self.0.values().map(|v| v.who.len()).max().unwrap_or(0)
    }

    /// Adds what differs to the answer: those outvoted, or all where nobody is.
    fn tell(&self, out: &mut Detected) {
        let (most, majority) = (self.most(), self.majority());
        for v in self.0.values() {
            if !majority || v.who.len() < most {
                out.ranks.extend(&v.ranks);
                out.hosts.extend(v.hosts.iter().cloned());
            }
            out.events.extend(v.events.iter().take(2));
        }
        let seen: Vec<&str> = self.0.values().map(|v| v.text.as_str()).collect();
        out.text = match out.text.as_str() {
            "" => format!("seen: {}", seen.join(", ")),
            before => format!("{before}; {}", seen.join(", ")),
        };
    }
}

/// Ranks of one job differ in something that must agree.
pub(super) fn differs(cx: &Context<'_>, what: &str) -> Option<Detected> {
    let mut values = Values::default();
    match what {
        "nccl-version" => {
            for r in cx.job.releases.get("nccl").into_iter().flatten() {
                if cx.job.events[r.event as usize].attempt == cx.job.current {
                    let (text, who) =
                        (r.release.to_string(), who(r.rank, r.process, r.host.as_ref(), r.event));
                    values.add(text.clone(), &text, who, r.rank, r.host.as_ref(), r.event);
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
                        let who = who(p.rank, p.process, p.host.as_ref(), e);
                        values.add(n.to_string(), n, who, p.rank, p.host.as_ref(), e);
                    }
                }
            }
        }
        _ => return variables(cx),
    }
    if values.0.len() < 2 {
        return None;
    }
    let mut out = Detected::default();
    values.tell(&mut out);
    Some(out)
}

/// All variables that must agree and do not, by what their values mean. Where a majority shows for some of them who
/// is to blame, the others blame nobody else.
fn variables(cx: &Context<'_>) -> Option<Detected> {
    let mut found = Vec::new();
    for v in cx.knowledge.tables.variables.iter().filter(|v| v.same) {
        let Some(list) = cx.job.settings.get(&v.name) else { continue };
        let said: Vec<(String, Who)> = list
            .iter()
            .map(|s| (settings::meaning(v, &s.value), who(s.rank, s.process, s.host.as_ref(), s.event)))
            .collect();
        // Who has several values in the course of a run differs from itself, which says nothing about the others.
        let mut own: BTreeMap<&Who, BTreeSet<&str>> = BTreeMap::new();
        said.iter().for_each(|(means, who)| {
            own.entry(who).or_default().insert(means);
        });
        let mut values = Values::default();
        for (s, (means, who)) in list.iter().zip(&said) {
            if own[who].len() == 1 {
                let text = format!("{}={}", v.name, s.value);
                values.add(means.clone(), &text, who.clone(), s.rank, s.host.as_ref(), s.event);
            }
        }
        if values.0.len() > 1 {
            found.push(values);
        }
    }
    let sure = found.iter().any(Values::majority);
    let mut out = Detected::default();
    found.iter().filter(|v| v.majority() || !sure).for_each(|v| v.tell(&mut out));
    (!found.is_empty()).then_some(out)
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
