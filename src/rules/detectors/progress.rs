//! Lines of work going on: steps, tables, the memory that a process reports.

use super::Detected;
use crate::base::RankSet;
use crate::job::{EventId, State, slot_of, steps};
use crate::rules::cond::Context;
use std::collections::BTreeMap;

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

/// The table of nccl-tests was begun and no row follows.
pub(super) fn hang_after_table(cx: &Context<'_>) -> Option<Detected> {
    for source in &cx.job.sources {
        let Some(last) = source.speakers.iter().flat_map(|s| &s.last).max_by_key(|l| l.line) else {
            continue;
        };
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
