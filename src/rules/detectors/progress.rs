//! Lines of work going on: steps, tables, the memory that a process reports.

use super::Detected;
use crate::base::{RankSet, Stamp};
use crate::catalogue::time_of;
use crate::job::{EventId, State, slot_of, steps};
use crate::knowledge::Kind;
use crate::rules::cond::Context;
use std::collections::{BTreeMap, BTreeSet};

/// A rank is behind the others in its own progress lines and does not go on.
pub(super) fn step_behind(cx: &Context<'_>) -> Option<Detected> {
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
    // Beside ranks that have counted to the end, one at the beginning counts from the start again: the next epoch.
    let total =
        |e: EventId| slot_of(cx.catalogue, cx.job.event(e), "total").and_then(|t| t.parse::<i64>().ok());
    let whole = by_rank.values().any(|v| v.0 == most && total(v.1) == Some(most));
    if whole && behind.iter().filter_map(|r| by_rank.get(&r)).any(|v| v.0 < most / 2) {
        return None;
    }
    let events = by_rank.values().map(|v| v.1).take(6).collect();
    let text = format!("rank {behind} is behind the others, whose last step or batch is {most}");
    Some(Detected { events, ranks: behind, text, ..Detected::default() })
}

/// So long (in nanoseconds) a job at work may say nothing, where its own lines do not tell how often it speaks.
const QUIET: i64 = 15 * 60_000_000_000;
/// So many times as long as between two of its steps may be between the last one and the end.
const STEPS: i64 = 6;

/// Time zones are half hours apart (or quarters, seldom).
const ZONES: i64 = 30 * 60_000_000_000;

/// A job that the scheduler or a person ended had said nothing for long: no step, though steps had come all the time,
/// or nothing behind communicators that were begun and never ready. `sure`, or `maybe` where the silence lasts about as
/// long as time zones are apart, and neither clock tells its own.
pub(super) fn silent_until_ended(cx: &Context<'_>, how: &str) -> Option<Detected> {
    let job = cx.job;
    let of = |kind: Kind| move |e: &EventId| job.entry(cx.catalogue, *e).kind == kind;
    let ended = job.current().find(of(Kind::Cancelled))?;
    let at = slot_of(cx.catalogue, job.event(ended), "at").and_then(time_of).or(job.event(ended).time)?;
    // The last step, and how long one takes.
    let mut step: Option<(Stamp, EventId)> = None;
    let (mut every, mut told) = (QUIET / STEPS, false);
    for e in job.current().filter(of(Kind::Step)) {
        let (event, source) = (job.event(e), &job.sources[job.events[e as usize].source as usize]);
        let counted = source.bulk.get(&(event.message, event.speaker));
        let last = counted.and_then(|c| c.last.time).or(event.time)?;
        if let Some((a, b)) = counted.and_then(|c| c.before.as_ref()?.time?.comparable(&last)) {
            (every, told) = (every.max(b - a), true);
        }
        if step.is_none_or(|s| s.0.utc() < last.utc()) {
            step = Some((last, e));
        }
    }
    let phase = |e: &EventId| slot_of(cx.catalogue, job.event(*e), "phase");
    let mut begun = job.current().filter(of(Kind::Comm)).filter(|e| phase(e) == Some("start"));
    let ready = job.current().filter(of(Kind::Comm)).any(|e| phase(&e) == Some("ready"));
    let never_ready = "communicators were begun and none was ever ready until the job was ended";
    let (last, e) = match step {
        Some(step) if told => step,
        Some(_) => return None,
        None if ready => return None,
        None => {
            let first = begun.next()?;
            match begun.chain([first]).filter_map(|e| Some((job.event(e).time?, e))).max_by_key(|s| s.0.utc())
            {
                Some(last) => last,
                // A time limit is never as short as what takes no time.
                None => {
                    let (events, text) = (vec![first, ended], never_ready.to_string());
                    return (how != "maybe").then(|| Detected { events, text, ..Detected::default() });
                }
            }
        }
    };
    // Whoever still spoke later, but for the scheduler, was at work on something.
    let over = |e: &EventId| {
        let kind = job.entry(cx.catalogue, *e).kind;
        matches!(kind, Kind::Cancelled | Kind::Ends | Kind::Killed | Kind::EndsWell)
    };
    let place = |e: EventId| (job.events[e as usize].source, job.event(e).line);
    let theirs: BTreeSet<(u32, u64)> = job.current().filter(over).map(place).collect();
    let said = job.processes.iter().flat_map(|p| &p.last).filter(|(s, l)| !theirs.contains(&(*s, l.line)));
    let last = said
        .filter_map(|(_, l)| l.time)
        .filter(|t| t.utc() < at.utc())
        .fold(last, |a, b| if a.comparable(&b).is_some_and(|(a, b)| a < b) { b } else { a });
    let (spoke, over) = last.comparable(&at)?;
    let gap = over - spoke;
    // Who never was ready did not work, whatever the clocks say.
    let zones =
        step.is_some() && last.offset.is_none() && gap % ZONES < every.min(ZONES / 4) && gap < 24 * 2 * ZONES;
    let asked = if how == "maybe" { zones } else { !zones };
    (gap > every * STEPS && asked).then(|| Detected {
        events: vec![e, ended],
        text: format!(
            "the job was ended {} h {} min after its last sign of work",
            gap / (2 * ZONES),
            gap % (2 * ZONES) / 60_000_000_000
        ),
        ..Detected::default()
    })
}

/// What can stand behind the head of a table while its first row is waited for: NCCL's own lines, a person's ^C, a
/// remark of whoever pasted it.
fn quiet(text: &str) -> bool {
    let text = text.trim_start();
    text.is_empty() || text.contains(" NCCL INFO ") || text.starts_with(['#', '^', '('])
}

/// The table of nccl-tests was begun and no row follows.
pub(super) fn hang_after_table(cx: &Context<'_>) -> Option<Detected> {
    for source in &cx.job.sources {
        let lines = || source.speakers.iter().flat_map(|s| &s.last);
        let head = |text: &str| text.contains("(GB/s)") && text.contains("(us)");
        let Some(last) = lines().filter(|l| head(&l.text)).max_by_key(|l| l.line) else {
            continue;
        };
        if lines().filter(|l| l.line > last.line).all(|l| quiet(&l.text)) {
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
                "behind the table's head at {}:{} comes no row: the first operation never ended",
                source.name, last.line
            );
            return Some(Detected { events, text, ..Detected::default() });
        }
    }
    None
}

/// Memory figures that a process reports of itself (a field `resident`) and that grow steeply.
pub(super) fn memory_growth(cx: &Context<'_>) -> Option<Detected> {
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
