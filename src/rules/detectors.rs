//! Named detectors: what tables cannot say. Each looks at the job and gives
//! events, ranks and a sentence, or nothing. `docs/architecture.md` lists them.

use super::cond::Context;
use crate::base::{RankSet, Release};
use crate::catalogue::built_in;
use crate::job::waits::{Fault, Front};
use crate::job::{EventId, State, fault_name, slot_of, steps};
use crate::knowledge::{Cond, Kind, Role};
use std::collections::{BTreeMap, BTreeSet};

/// What a detector saw.
#[derive(Debug, Clone, Default)]
pub(super) struct Detected {
    pub(super) events: Vec<EventId>,
    pub(super) ranks: RankSet,
    pub(super) hosts: BTreeSet<String>,
    pub(super) text: String,
}

/// Names of all detectors, for `rules check`.
pub(super) const NAMES: [&str; 24] = [
    "silent-rank",
    "waits-all",
    "members-missing",
    "dump-missing",
    "dump-mismatch",
    "dump-stuck",
    "step-behind",
    "exit-zero-early",
    "failed-no-cause",
    "hang-no-cause",
    "differs",
    "generations",
    "env-bad",
    "env-leftover",
    "network-socket",
    "hang-after-table",
    "memory-growth",
    "one-rank-ended",
    "unknown-warn",
    "waits-behind",
    "waits-mismatch",
    "told-only",
    "stack-outlier",
    "ras-behind",
];

/// Runs the detector that a condition names.
pub(super) fn run(cx: &Context<'_>, cond: &Cond) -> Option<Detected> {
    let what = cond.what.as_deref().unwrap_or("");
    match cond.detector.as_deref()? {
        "silent-rank" => silent_rank(cx),
        "waits-all" => waits_all(cx),
        "members-missing" => members_missing(cx),
        "dump-missing" => dump(cx, &["missing", "no-dump", "late"]),
        "dump-mismatch" => dump(cx, &["mismatch", "order", "p2p"]),
        "dump-stuck" => dump(cx, &["stuck"]),
        "step-behind" => step_behind(cx),
        "exit-zero-early" => exit_zero_early(cx),
        "failed-no-cause" => failed_no_cause(cx),
        "hang-no-cause" => hang_no_cause(cx),
        "differs" => differs(cx, what),
        "generations" => generations(cx),
        "env-bad" => env_bad(cx),
        "env-leftover" => env_leftover(cx, what),
        "network-socket" => network_socket(cx),
        "hang-after-table" => hang_after_table(cx),
        "memory-growth" => memory_growth(cx),
        "one-rank-ended" => one_rank_ended(cx),
        "unknown-warn" => unknown_warn(cx),
        "waits-behind" => waits(cx, &["missing", "late"]),
        "waits-mismatch" => waits(cx, &["mismatch", "order", "p2p"]),
        "ras-behind" => ras_behind(cx, what),
        "stack-outlier" => stack_outlier(cx),
        "told-only" => told_only(cx, what),
        _ => None,
    }
}

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
fn silent_rank(cx: &Context<'_>) -> Option<Detected> {
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
fn waits_all(cx: &Context<'_>) -> Option<Detected> {
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

/// The declared world is larger than the ranks that were seen starting.
fn members_missing(cx: &Context<'_>) -> Option<Detected> {
    let mut seen = RankSet::new();
    let mut world = 0;
    let mut events = Vec::new();
    for (message, list) in cx.messages() {
        if cx.catalogue.messages[usize::from(message)].kind != Kind::Rank {
            continue;
        }
        for &e in list {
            let event = cx.job.event(e);
            let number = |slot| slot_of(cx.catalogue, event, slot).and_then(|t| t.parse::<u32>().ok());
            if let (Some(rank), Some(n)) = (number("rank"), number("nranks")) {
                seen.insert(rank);
                world = world.max(n);
                events.push(e);
            }
        }
    }
    // Who failed on the way was there: only a start that nothing else followed is one that waits for members.
    let quiet = matches!(cx.job.end.state, State::NotSeen | State::Stuck | State::Killed)
        && !cx.messages().any(|(m, _)| {
            let entry = &cx.catalogue.messages[usize::from(m)];
            entry.role == Role::First || entry.kind == Kind::Exception || entry.kind == Kind::Step
        });
    if !quiet {
        return None;
    }
    if seen.is_empty() || world == 0 || seen.len() as u32 >= world || world > 1 << 20 {
        return None;
    }
    let all: RankSet = (0..world).collect();
    let missing = all.minus(&seen);
    events.truncate(4);
    let text = format!("{} of {world} ranks were seen starting; rank {missing} never was", seen.len());
    Some(Detected { events, ranks: missing, text, ..Detected::default() })
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
fn dump(cx: &Context<'_>, kinds: &[&str]) -> Option<Detected> {
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
fn ras_behind(cx: &Context<'_>, what: &str) -> Option<Detected> {
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
fn stack_outlier(cx: &Context<'_>) -> Option<Detected> {
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
fn waits(cx: &Context<'_>, kinds: &[&str]) -> Option<Detected> {
    let faults: Vec<&Fault> = faults(cx, kinds, true).into_iter().filter(|f| f.is_shown()).collect();
    let mut out = told(&faults)?;
    out.events = faults.iter().flat_map(|f| lines_of(cx, f)).take(8).collect();
    Some(out)
}

/// Ranks that the waits show standing in an operation.
fn standing(cx: &Context<'_>) -> RankSet {
    let mut ranks = RankSet::new();
    for group in cx.job.waits.iter().flat_map(|w| &w.groups) {
        let behind = |f: &&Front| !f.unknown && f.enqueued > f.completed;
        ranks.extend(&group.fronts.iter().filter(behind).map(|f| f.rank).collect());
    }
    ranks
}

/// Ranks that were told of a timeout by others (message `what`), had none themselves, and are not seen to wait either.
fn told_only(cx: &Context<'_>, what: &str) -> Option<Detected> {
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

/// A rank is behind the others in its own progress lines and does not go on.
fn step_behind(cx: &Context<'_>) -> Option<Detected> {
    let by_rank = steps(cx.catalogue, cx.job);
    if by_rank.len() < 2 {
        return None;
    }
    let most = by_rank.values().map(|v| v.0).max()?;
    // While work goes on a log is cut anywhere: one step apart is nothing then.
    let gap = if matches!(cx.job.end.state, State::AtWork | State::NotSeen | State::Killed) { 2 } else { 1 };
    let behind: RankSet = by_rank.iter().filter(|(_, v)| v.0 + gap <= most).map(|(r, _)| *r).collect();
    if behind.is_empty() || cx.job.end.state == State::Well {
        return None;
    }
    let events = by_rank.values().map(|v| v.1).take(6).collect();
    let text = format!("rank {behind} is behind the others, whose last step or batch is {most}");
    Some(Detected { events, ranks: behind, text, ..Detected::default() })
}

/// A rank ended with status 0 while others still communicated.
fn exit_zero_early(cx: &Context<'_>) -> Option<Detected> {
    let mut out = Detected::default();
    for end in &cx.job.ends {
        if end.how == crate::job::Ended::Well && end.rank.is_some() {
            out.ranks.extend(&end.rank.into_iter().collect());
            out.events.push(end.event);
        }
    }
    let others_bad = cx.job.end.state != State::Well;
    (!out.ranks.is_empty() && others_bad).then(|| {
        out.text = format!("rank {} ended with status 0 while others still communicated", out.ranks);
        out
    })
}

/// The run ended badly and nothing says why.
fn failed_no_cause(cx: &Context<'_>) -> Option<Detected> {
    if cx.explained || !matches!(cx.job.end.state, State::Failed | State::Killed | State::NotSeen) {
        return None;
    }
    let mut out = Detected { events: cx.job.end.events.clone(), ..Detected::default() };
    let ended: Vec<_> = cx
        .job
        .ends
        .iter()
        .filter(|e| matches!(e.how, crate::job::Ended::Exit(_) | crate::job::Ended::Signal(_)))
        .collect();
    for e in &ended {
        if !out.events.contains(&e.event) && out.events.len() < 6 {
            out.events.push(e.event);
        }
        out.ranks.extend(&e.rank.into_iter().collect());
        out.hosts.extend(e.host.clone());
    }
    if cx.job.end.state == State::NotSeen {
        // Only where some line says at least that something failed.
        let symptoms = cx.messages().filter(|(m, _)| {
            let entry = &cx.catalogue.messages[usize::from(*m)];
            matches!(entry.role, Role::Symptom | Role::First | Role::Victim) && entry.id != built_in::UNKNOWN
        });
        out.events.extend(symptoms.flat_map(|(_, l)| l.iter().copied().take(2)));
        if out.events.is_empty() {
            return None;
        }
        for &e in out.events.iter().take(4) {
            let p = &cx.job.events[e as usize];
            out.ranks.extend(&p.rank.into_iter().collect());
            out.hosts.extend(p.host.clone());
        }
    }
    if out.ranks.len() > 4 {
        out.ranks = RankSet::new();
    }
    Some(out)
}

/// Ranks waited and nothing says for whom.
fn hang_no_cause(cx: &Context<'_>) -> Option<Detected> {
    let mut events = Vec::new();
    for (message, list) in cx.messages() {
        let entry = &cx.catalogue.messages[usize::from(message)];
        if entry.kind == Kind::Waits && !matches!(entry.role, Role::Fact | Role::Harmless) {
            events.extend(list.iter().take(3));
        }
    }
    if events.is_empty() || cx.explained {
        return None;
    }
    events.truncate(6);
    Some(Detected { events, ..Detected::default() })
}

/// Ranks of one job differ in something that must agree.
fn differs(cx: &Context<'_>, what: &str) -> Option<Detected> {
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
fn generations(cx: &Context<'_>) -> Option<Detected> {
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

/// A variable with a value that is not accepted, or with a name that nothing reads.
fn env_bad(cx: &Context<'_>) -> Option<Detected> {
    let mut out = Detected::default();
    let mut said = Vec::new();
    for (name, list) in &cx.job.settings {
        let known = cx.knowledge.tables.variables.iter().find(|v| v.name == *name);
        let bad = match known {
            Some(v) if !v.valid.is_empty() => match regex::Regex::new(&v.valid) {
                Ok(re) => list.iter().find(|s| !re.is_match(&s.value)),
                Err(_) => None,
            },
            _ => None,
        };
        if let Some(s) = bad {
            said.push(format!(
                "{name}={} is no value that it accepts ({})",
                s.value,
                known.map_or("", |v| &v.values)
            ));
            out.events.push(s.event);
            out.ranks.extend(&s.rank.into_iter().collect());
        } else if known.is_none()
            && name.starts_with("NCCL_")
            && let Some(near) = nearest(cx, name)
            && let Some(s) = list.first()
        {
            said.push(format!("nothing reads {name}; {near} was probably meant"));
            out.events.push(s.event);
        }
    }
    out.text = said.join("; ");
    (!said.is_empty()).then_some(out)
}

fn nearest(cx: &Context<'_>, name: &str) -> Option<String> {
    let best = cx
        .knowledge
        .tables
        .variables
        .iter()
        .map(|v| (strsim::damerau_levenshtein(&v.name, name), &v.name))
        .min()?;
    (best.0 > 0 && best.0 <= 2 && name.len() > 8).then(|| best.1.clone())
}

/// A setting that is often left over from an earlier test or another machine.
fn env_leftover(cx: &Context<'_>, what: &str) -> Option<Detected> {
    let names: Vec<&str> = if what.is_empty() {
        vec!["NCCL_TOPO_FILE", "NCCL_GRAPH_FILE"]
    } else {
        what.split(',').map(str::trim).collect()
    };
    let mut out = Detected::default();
    for name in names {
        for s in cx.job.settings.get(name).into_iter().flatten() {
            out.events.push(s.event);
            out.ranks.extend(&s.rank.into_iter().collect());
            out.text = format!("{name} is set to {}", s.value);
        }
    }
    (!out.events.is_empty()).then_some(out)
}

/// Sockets carry the traffic between hosts although RDMA devices were seen or their library could not be opened.
fn network_socket(cx: &Context<'_>) -> Option<Detected> {
    let mut socket = Vec::new();
    let mut rdma = Vec::new();
    let mut used = false;
    for (message, list) in cx.messages() {
        let entry = &cx.catalogue.messages[usize::from(message)];
        for &e in list {
            let text = &cx.job.event(e).text;
            if entry.kind == Kind::Net && slot_of(cx.catalogue, cx.job.event(e), "network") == Some("Socket")
            {
                socket.push(e);
            } else if text.contains("libibverbs") || (text.contains("NET/IB") && text.contains("mlx5_")) {
                rdma.push(e);
            } else if entry.kind == Kind::Route && text.contains("via NET/Socket") {
                used = true;
            }
        }
    }
    let hosts: BTreeSet<&str> =
        cx.job.processes.iter().filter_map(|p| p.host.as_deref()).filter(|h| !h.is_empty()).collect();
    let (s, r) = (*socket.first()?, *rdma.first()?);
    (used || hosts.len() > 1).then(|| Detected { events: vec![s, r], ..Detected::default() })
}

/// The table of nccl-tests was begun and no row follows.
fn hang_after_table(cx: &Context<'_>) -> Option<Detected> {
    for source in &cx.job.sources {
        let last = source.speakers.iter().flat_map(|s| &s.last).max_by_key(|l| l.line)?;
        if last.text.contains("(GB/s)") && last.text.contains("(us)") {
            let events = cx
                .job
                .current()
                .filter(|&e| cx.job.source_name(e) == source.name && cx.job.event(e).text.contains("busbw"))
                .take(2);
            let mut events: Vec<_> = events.collect();
            if events.is_empty() {
                events = cx.job.current().filter(|&e| cx.job.source_name(e) == source.name).take(1).collect();
            }
            let text = format!(
                "the table's head at {}:{} is the last line: the first operation never ended",
                source.name, last.line
            );
            return Some(Detected { events, text, ..Detected::default() });
        }
    }
    None
}

/// Memory figures that a process reports of itself (a field `resident`) and that grow steeply.
fn memory_growth(cx: &Context<'_>) -> Option<Detected> {
    let field = cx.catalogue.field_id("resident")?;
    type Speaker = (u32, u32, Option<u32>);
    let mut by: BTreeMap<Speaker, (f64, f64, EventId, EventId)> = BTreeMap::new();
    for e in cx.job.current() {
        let event = cx.job.event(e);
        let Some(bytes) = event.field(field).and_then(crate::base::parse_bytes) else { continue };
        let place = &cx.job.events[e as usize];
        let key = (place.source, event.speaker, place.rank);
        let slot = by.entry(key).or_insert((bytes as f64, bytes as f64, e, e));
        (slot.1, slot.3) = (bytes as f64, e);
    }
    let (key, grown) =
        by.iter().filter(|(_, g)| g.1 > g.0 * 4.0 && g.1 > 16e9).max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
    let size = |b: f64| crate::base::bytes_text(b as u64);
    let text = format!(
        "the memory that the process reports of itself grows from {} to {}",
        size(grown.0),
        size(grown.1)
    );
    Some(Detected {
        events: vec![grown.2, grown.3],
        ranks: key.2.into_iter().collect(),
        text,
        ..Detected::default()
    })
}

/// Exactly one rank ended by itself; the others were ended by their launcher.
fn one_rank_ended(cx: &Context<'_>) -> Option<Detected> {
    let mut out = Detected::default();
    for e in cx
        .job
        .ends
        .iter()
        .filter(|e| matches!(e.how, crate::job::Ended::Exit(_) | crate::job::Ended::Signal(_)))
    {
        out.ranks.extend(&e.rank.into_iter().collect());
        out.hosts.extend(e.host.clone());
        out.events.push(e.event);
    }
    (out.ranks.len() == 1).then_some(out)
}

/// NCCL warned with a text that nobody catalogued.
fn unknown_warn(cx: &Context<'_>) -> Option<Detected> {
    let id = cx.catalogue.message(built_in::UNKNOWN_WARN)?;
    let events: Vec<_> = cx.of(id).iter().copied().take(4).collect();
    (!events.is_empty()).then(|| Detected { events, ..Detected::default() })
}
