//! From rules to findings: the ways in which a cause shows are tried one after
//! the other; each that holds adds its evidence and its strength.

use super::Blamed;
use super::cond::{Context, Met, in_order};
use super::detectors::Detected;
use super::words::condition;
use crate::base::RankSet;
use crate::catalogue::Via;
use crate::job::{Ended, EventId, field_of_type, slot_of};
use crate::knowledge::{FieldType, Kind, Place, Role, Rule, Strength, When};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// A cause that the job shows.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Index into the knowledge's rules.
    pub rule: usize,
    /// Place of the rule.
    pub place: Place,
    /// Natural logarithm of the odds, before alternatives are weighed.
    pub odds: f64,
    /// Who is to blame.
    pub blamed: Blamed,
    /// The events that show it, the telling ones first.
    pub events: Vec<EventId>,
    /// What the way that holds says, or a detector found.
    pub said: Vec<String>,
}

/// One way of a rule, tried.
#[derive(Debug, Clone)]
pub struct Way {
    /// Strength in words.
    pub strength: Strength,
    /// Whether all of it holds.
    pub holds: bool,
    /// What it asks for, and what was found.
    pub conditions: Vec<Asked>,
}

/// One condition of a way, tried.
#[derive(Debug, Clone)]
pub struct Asked {
    /// How it takes part.
    pub asks: Asks,
    /// What is looked for, as a part of a sentence.
    pub what: String,
    /// Whether that is there.
    pub met: bool,
    /// The lines that show it.
    pub events: Vec<EventId>,
}

/// How a condition takes part in a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Asks {
    /// One message that names the cause is all there is to it.
    Alone,
    /// All of these must be there.
    All,
    /// One of these must be there.
    Any,
    /// None of these may be there.
    None,
}

/// Words into odds: the one place where that is done, fitted on labelled cases.
fn odds(strength: Strength) -> f64 {
    match strength {
        Strength::Weak => 0.4,
        Strength::Strong => 1.6,
        Strength::Decisive => 2.8,
    }
}

/// What one way gives.
pub(super) struct Shown {
    odds: f64,
    blamed: Blamed,
    pub(super) events: Vec<EventId>,
    said: Option<String>,
}

/// Tries all rules, those of place `fallback` last.
#[must_use]
pub fn evaluate(cx: &mut Context<'_>) -> Vec<Finding> {
    let rules = &cx.knowledge.rules;
    let mut findings = Vec::new();
    for (index, (rule, _)) in rules.iter().enumerate() {
        if rule.place != Place::Fallback {
            findings.extend(find(cx, index, rule));
        }
    }
    cx.explained =
        findings.iter().any(|f: &Finding| rules[f.rule].0.severity == "fatal" && f.place != Place::Victim);
    for (index, (rule, _)) in rules.iter().enumerate() {
        if rule.place == Place::Fallback {
            findings.extend(find(cx, index, rule));
        }
    }
    findings
}

fn find(cx: &Context<'_>, index: usize, rule: &Rule) -> Option<Finding> {
    let mut finding = Finding {
        rule: index,
        place: rule.place,
        odds: 0.0,
        blamed: Blamed::default(),
        events: Vec::new(),
        said: Vec::new(),
    };
    let mut shown: Vec<Shown> = suggested(cx, &rule.id).into_iter().collect();
    shown.extend(rule.whens.iter().filter_map(|w| try_way(cx, w)));
    shown.sort_by(|a, b| b.odds.total_cmp(&a.odds));
    let mut known = FxHashSet::default();
    for (nth, s) in shown.into_iter().enumerate() {
        // The first way counts in full, others add to it.
        finding.odds += if nth == 0 { s.odds } else { s.odds * 0.4 };
        if nth == 0 || finding.blamed == Blamed::default() {
            finding.blamed.extend(&s.blamed);
        }
        finding.events.extend(s.events.into_iter().filter(|e| known.insert(*e)));
        finding.said.extend(s.said);
    }
    if finding.odds <= 0.0 {
        return None;
    }
    earliest_exception(cx, &mut finding);
    if finding.blamed.ranks.is_empty() && matches!(rule.place, Place::Root | Place::Local) {
        of_the_one_that_ended(cx, &mut finding);
    }
    Some(finding)
}

/// Of exceptions of different types the one that was raised first is the cause, where all say when.
fn earliest_exception(cx: &Context<'_>, finding: &mut Finding) {
    let exceptions: Vec<EventId> = finding
        .events
        .iter()
        .copied()
        .filter(|&e| cx.job.entry(cx.catalogue, e).kind == Kind::Exception)
        .collect();
    if exceptions.len() < 2 || exceptions.len() != finding.events.len() {
        return;
    }
    let mut groups: BTreeMap<String, (i64, Vec<EventId>)> = BTreeMap::new();
    for &e in &exceptions {
        let event = cx.job.event(e);
        let Some(time) = event.time.filter(|t| t.date) else { return };
        let kind = slot_of(cx.catalogue, event, "type").unwrap_or("").to_string();
        let group = groups.entry(kind).or_insert((time.utc(), Vec::new()));
        group.0 = group.0.min(time.utc());
        group.1.push(e);
    }
    let mut times: Vec<i64> = groups.values().map(|g| g.0).collect();
    times.sort_unstable();
    if times.len() < 2 || times[1] < times[0] + 1_000_000_000 {
        return;
    }
    if let Some((_, events)) = groups.into_values().find(|g| g.0 == times[0]) {
        finding.blamed = Blamed::default();
        for &e in &events {
            subject(cx, e, &mut finding.blamed);
        }
        finding.events = events;
    }
}

/// An error that nobody signed belongs to the one rank that ended by itself, where there is just one
/// and the error is a process's own (not the scheduler's or the kernel's word).
fn of_the_one_that_ended(cx: &Context<'_>, finding: &mut Finding) {
    let own = finding.events.iter().any(|&e| {
        let entry = cx.job.entry(cx.catalogue, e);
        matches!(entry.kind, Kind::Exception | Kind::Fails) && cx.job.events[e as usize].rank.is_none()
    });
    if !own {
        return;
    }
    let ended: Vec<_> = cx
        .job
        .ends
        .iter()
        .filter(|e| matches!(e.how, Ended::Exit(_) | Ended::Signal(_)) && e.rank.is_some())
        .collect();
    let ranks: RankSet = ended.iter().filter_map(|e| e.rank).collect();
    if ranks.len() == 1 {
        finding.blamed.ranks.extend(&ranks);
        finding.blamed.hosts.extend(ended.iter().filter_map(|e| e.host.clone()));
    }
}

/// Messages that suggest the cause all by themselves.
fn suggested(cx: &Context<'_>, id: &str) -> Option<Shown> {
    let mut best: Option<Strength> = None;
    let mut events = Vec::new();
    let mut weaker = true;
    for (message, list) in cx.messages() {
        let entry = &cx.catalogue.messages[usize::from(message)];
        if entry.cause.as_deref() != Some(id) || entry.role != Role::First {
            continue;
        }
        best = Some(best.map_or(entry.weight, |b| b.max(entry.weight)));
        weaker &= list.iter().all(|&e| cx.job.event(e).via == Via::LastError);
        events.extend(list);
    }
    let strength = best?;
    events.sort_by_key(|&e| {
        let entry = cx.job.entry(cx.catalogue, e);
        (std::cmp::Reverse(entry.weight), in_order(cx.job, e))
    });
    let mut blamed = Blamed::default();
    for &e in &events {
        subject(cx, e, &mut blamed);
    }
    Some(Shown { odds: odds(strength) - if weaker { 0.3 } else { 0.0 }, blamed, events, said: None })
}

/// The way's primary events with everything else that it needs.
pub(super) fn try_way(cx: &Context<'_>, when: &When) -> Option<Shown> {
    let (first, rest) = match when.need.split_first() {
        Some((first, rest)) => (cx.met(first, None), rest),
        None => {
            let mut met = Met::default();
            for cond in &when.any {
                let m = cx.met(cond, None);
                met.holds |= m.holds;
                if m.holds {
                    met.events.extend(m.events);
                    met.detected = met.detected.or(m.detected);
                }
            }
            (met, &[][..])
        }
    };
    if !first.holds {
        return None;
    }
    let mut primaries = first.events.clone();
    let mut more = Vec::new();
    let mut detected = first.detected;
    for cond in rest {
        if !narrow(cx, cond, &mut primaries, &mut more, &mut detected, true) {
            return None;
        }
    }
    if !when.need.is_empty() && !when.any.is_empty() {
        let mut kept = Vec::new();
        let mut any = false;
        for cond in &when.any {
            let mut p = primaries.clone();
            if narrow(cx, cond, &mut p, &mut more, &mut detected, true) {
                any = true;
                kept.extend(p);
            }
        }
        if !any {
            return None;
        }
        kept.sort_by_key(|&e| in_order(cx.job, e));
        kept.dedup();
        primaries = kept;
    }
    for cond in &when.not {
        if !narrow(cx, cond, &mut primaries, &mut Vec::new(), &mut None, false) {
            return None;
        }
    }
    let blamed = culprit(cx, &when.culprit, &primaries, detected.as_ref());
    let mut said = (!when.say.is_empty()).then(|| when.say.clone());
    if let Some(d) = &detected
        && !d.text.is_empty()
    {
        said = Some(d.text.clone());
    }
    let mut known: FxHashSet<EventId> = primaries.iter().copied().collect();
    let mut events = primaries;
    events.extend(more.into_iter().filter(|e| known.insert(*e)));
    Some(Shown { odds: odds(when.strength), blamed, events, said })
}

/// Keeps the primaries for which a further condition holds (or, with `want` false, does not).
fn narrow(
    cx: &Context<'_>,
    cond: &crate::knowledge::Cond,
    primaries: &mut Vec<EventId>,
    more: &mut Vec<EventId>,
    detected: &mut Option<Detected>,
    want: bool,
) -> bool {
    if cond.on.as_deref().is_none_or(|on| on == "job") || primaries.is_empty() {
        let met = cx.met(cond, primaries.first().copied());
        if met.holds == want {
            more.extend(met.events.iter().take(4));
            if detected.is_none() {
                *detected = met.detected;
            }
        }
        return met.holds == want;
    }
    primaries.retain(|&p| {
        let met = cx.met(cond, Some(p));
        if met.holds && want && more.len() < 16 {
            more.extend(met.events.iter().take(2));
        }
        met.holds == want
    });
    !primaries.is_empty()
}

/// Adds whom an event is about.
fn subject(cx: &Context<'_>, id: EventId, blamed: &mut Blamed) {
    let p = &cx.job.events[id as usize];
    if let Some(rank) = p.rank {
        blamed.ranks.insert(rank);
    }
    if let Some(host) = &p.host {
        blamed.hosts.insert(host.clone());
    }
    if let Some(bus) = field_of_type(cx.catalogue, cx.job.event(id), FieldType::Bus) {
        let bus = bus.trim_start_matches("PCI:");
        blamed.devices.insert(bus.strip_suffix(".0").unwrap_or(bus).to_string());
    }
}

fn culprit(cx: &Context<'_>, how: &str, events: &[EventId], detected: Option<&Detected>) -> Blamed {
    let mut blamed = Blamed::default();
    match how.split_once(':') {
        Some(("field", names)) => {
            for &e in events {
                for name in names.split(',') {
                    named(cx, e, name.trim(), &mut blamed);
                }
            }
        }
        Some(("minority", name)) => return minority(cx, name, events),
        _ => match how {
            "none" => {}
            "detector" => {
                if let Some(d) = detected {
                    blamed.ranks.extend(&d.ranks);
                    blamed.hosts.extend(d.hosts.iter().cloned());
                    for rank in d.ranks.iter().take(64) {
                        blamed.hosts.extend(host_of_rank(cx, rank));
                    }
                }
            }
            "peer" => {
                for &e in events {
                    peer(cx, e, &mut blamed);
                }
            }
            "host" => {
                for &e in events {
                    blamed.hosts.extend(cx.job.events[e as usize].host.clone());
                }
            }
            _ => {
                for &e in events {
                    subject(cx, e, &mut blamed);
                }
                if events.is_empty()
                    && let Some(d) = detected
                {
                    blamed.ranks.extend(&d.ranks);
                    blamed.hosts.extend(d.hosts.iter().cloned());
                }
            }
        },
    }
    blamed
}

fn host_of_rank(cx: &Context<'_>, rank: u32) -> Option<String> {
    cx.job.processes.iter().find(|p| p.rank == Some(rank))?.host.clone()
}

/// A field that names ranks or a host.
fn named(cx: &Context<'_>, id: EventId, name: &str, blamed: &mut Blamed) {
    let event = cx.job.event(id);
    let Some(text) = slot_of(cx.catalogue, event, name) else { return };
    if let Some(set) = RankSet::parse(text).filter(|s| !s.is_empty()) {
        blamed.ranks.extend(&set);
        for rank in set.iter().take(64) {
            blamed.hosts.extend(host_of_rank(cx, rank));
        }
    } else {
        blamed.hosts.insert(cx.job.host_of_address(text).unwrap_or_else(|| address_text(text)));
    }
}

fn address_text(text: &str) -> String {
    crate::job::ip_of(text).unwrap_or_else(|| text.split('<').next().unwrap_or(text).to_string())
}

fn peer(cx: &Context<'_>, id: EventId, blamed: &mut Blamed) {
    let event = cx.job.event(id);
    let text =
        slot_of(cx.catalogue, event, "peer").or_else(|| field_of_type(cx.catalogue, event, FieldType::Addr));
    let Some(text) = text else { return };
    if let Ok(rank) = text.trim().parse::<u32>() {
        blamed.ranks.insert(rank);
        blamed.hosts.extend(host_of_rank(cx, rank));
        return;
    }
    blamed.hosts.insert(cx.job.host_of_address(text).unwrap_or_else(|| address_text(text)));
}

/// The subjects whose field differs from most.
fn minority(cx: &Context<'_>, name: &str, events: &[EventId]) -> Blamed {
    let mut by_value: BTreeMap<String, Blamed> = BTreeMap::new();
    for &e in events {
        let value = slot_of(cx.catalogue, cx.job.event(e), name).unwrap_or("").to_string();
        subject(cx, e, by_value.entry(value).or_default());
    }
    let most = by_value.values().map(|b| b.ranks.len().max(b.hosts.len())).max().unwrap_or(0);
    let largest = by_value.values().filter(|b| b.ranks.len().max(b.hosts.len()) == most).count();
    let mut blamed = Blamed::default();
    for b in by_value.values() {
        if largest > 1 || b.ranks.len().max(b.hosts.len()) < most {
            blamed.extend(b);
        }
    }
    blamed
}

/// How a rule's ways were tried, for `rules why`.
#[must_use]
pub fn ways(cx: &Context<'_>, rule: &Rule) -> Vec<Way> {
    let mut out = Vec::new();
    let s = suggested(cx, &rule.id);
    out.push(Way {
        strength: Strength::Strong,
        holds: s.is_some(),
        conditions: vec![Asked {
            asks: Asks::Alone,
            what: "a message that names this cause by itself".into(),
            met: s.is_some(),
            events: s.map(|s| s.events).unwrap_or_default(),
        }],
    });
    for when in &rule.whens {
        let mut conditions = Vec::new();
        for (asks, list) in [(Asks::All, &when.need), (Asks::Any, &when.any), (Asks::None, &when.not)] {
            for cond in list {
                let met = cx.met(cond, None);
                let what = condition(cond, cx.catalogue);
                conditions.push(Asked { asks, what, met: met.holds, events: met.events });
            }
        }
        out.push(Way { strength: when.strength, holds: try_way(cx, when).is_some(), conditions });
    }
    out
}
