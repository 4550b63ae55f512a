//! Known faults of releases that a job shows: its release is in the range and
//! what it printed fits. A release alone is nothing.

use super::cond::Context;
use super::eval::try_way;
use crate::base::ReleaseRange;
use crate::job::EventId;
use crate::knowledge::{Bug, Strength, When};

/// A known fault that the job shows.
#[derive(Debug, Clone)]
pub struct Known {
    /// Index in the table of bugs.
    pub bug: usize,
    /// Lines that show it.
    pub events: Vec<EventId>,
}

/// All known faults that the job shows.
#[must_use]
pub fn known(cx: &Context<'_>) -> Vec<Known> {
    let bugs = cx.knowledge.tables.bugs.iter().enumerate();
    bugs.filter_map(|(bug, b)| Some(Known { bug, events: shown(cx, b)? })).collect()
}

fn shown(cx: &Context<'_>, bug: &Bug) -> Option<Vec<EventId>> {
    if bug.need.is_empty() && bug.any.is_empty() {
        return None;
    }
    let range = ReleaseRange::parse(&bug.releases)?;
    let way = When {
        strength: Strength::Weak,
        need: bug.need.clone(),
        any: bug.any.clone(),
        not: Vec::new(),
        culprit: "none".into(),
        say: String::new(),
    };
    let events = try_way(cx, &way)?.events;
    let process = events.first().and_then(|&e| cx.job.events[e as usize].process);
    range.contains(cx.job.release(&bug.of, process)?).then_some(events)
}
