//! The last step or batch that each rank tells of, by its own progress lines.

use super::{EventId, Job, slot_of};
use crate::catalogue::Catalogue;
use crate::knowledge::Kind;
use std::collections::BTreeMap;

/// Step and event by rank, of the message that most ranks print.
pub(crate) fn steps(catalogue: &Catalogue, job: &Job) -> BTreeMap<u32, (i64, EventId)> {
    let mut last: BTreeMap<u16, BTreeMap<u32, (i64, EventId)>> = BTreeMap::new();
    for e in job.current() {
        if job.entry(catalogue, e).kind != Kind::Step {
            continue;
        }
        let place = &job.events[e as usize];
        let event = job.event(e);
        let rank = slot_of(catalogue, event, "rank").and_then(|r| r.parse().ok()).or(place.rank);
        let Some(rank) = rank else { continue };
        let source = &job.sources[place.source as usize];
        let mut step = slot_of(catalogue, event, "step").and_then(|s| s.parse::<i64>().ok());
        if let Some(counted) = source.bulk.get(&(event.message, event.speaker)) {
            step = step_in(catalogue, event.message, &counted.last.text).or(step);
        }
        let Some(step) = step else { continue };
        let entry = last.entry(event.message).or_default().entry(rank).or_insert((step, e));
        if step >= entry.0 {
            *entry = (step, e);
        }
    }
    last.into_values().max_by_key(BTreeMap::len).unwrap_or_default()
}

/// Step by rank.
pub(crate) fn last_steps(catalogue: &Catalogue, job: &Job) -> Vec<(u32, i64)> {
    steps(catalogue, job).into_iter().map(|(rank, (step, _))| (rank, step)).collect()
}

/// The step that a line of a message names.
pub(crate) fn step_in(catalogue: &Catalogue, message: u16, text: &str) -> Option<i64> {
    let found = catalogue.find_in_line(text);
    let step = catalogue.field_id("step")?;
    found.iter().find(|f| f.message == message)?.fields.iter().find(|f| f.0 == step)?.1.parse().ok()
}
