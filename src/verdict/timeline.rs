//! Events in the order of time, as far as it is known. An event without a
//! time of its own stands behind the last one before it in its source that
//! has one; times that cannot be compared with most others (no year, no date,
//! no zone) count as none.

use crate::base::Stamp;
use crate::job::{EventId, Job};
use std::collections::BTreeMap;

/// What two times must have in common to be compared.
type Sort = (bool, bool, bool);

fn sort(stamp: &Stamp) -> Sort {
    (stamp.year, stamp.date, stamp.offset.is_some())
}

/// Puts events in the order of their times; those of sources without any come last, in the order of sources and lines.
pub(super) fn in_time(job: &Job, events: &mut [EventId]) {
    let mut sorts: BTreeMap<Sort, usize> = BTreeMap::new();
    for time in events.iter().filter_map(|&e| job.event(e).time) {
        *sorts.entry(sort(&time)).or_default() += 1;
    }
    // Most of them decide; where there are as many, those that say more.
    let Some((most, _)) = sorts.into_iter().max_by_key(|(sort, n)| (*n, *sort)) else {
        events.sort_unstable();
        return;
    };
    let own = |e: EventId| job.event(e).time.filter(|t| sort(t) == most).map(|t| t.utc());
    let source = |e: EventId| job.events[e as usize].source;
    let time = |e: EventId| {
        let before = (0..=e).rev().take_while(|b| source(*b) == source(e)).find_map(own);
        let all = job.events.len() as EventId;
        before.or_else(|| (e..all).take_while(|a| source(*a) == source(e)).find_map(own))
    };
    events.sort_by_cached_key(|&e| {
        let time = time(e);
        (time.is_none(), time.unwrap_or(0), e)
    });
}
