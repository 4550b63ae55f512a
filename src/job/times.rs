//! When the job was, as far as its lines tell.

use super::{Job, slot_of};
use crate::base::Stamp;
use crate::catalogue::Catalogue;

/// A year that is missing is taken from other lines only where these are so near.
const NEAR: i64 = 60 * 24 * 3600 * 1_000_000_000;

/// First and last time of all lines. One without a year has the year that brings it near to the last one with a year,
/// where there is any. Times that tell their zone and times that do not are two clocks: the one that shows the longer
/// time is taken.
pub(crate) fn span(job: &Job, catalogue: &Catalogue) -> Option<(Stamp, Stamp)> {
    let mut all: Vec<Stamp> = Vec::new();
    for source in &job.sources {
        let said = source.speakers.iter().flat_map(|s| s.first.iter().chain(&s.last));
        all.extend(said.chain(source.bulk.values().map(|b| &b.last)).filter_map(|s| s.time));
        for event in &source.events {
            // Some lines tell in their words when it was.
            all.extend(event.time.or_else(|| slot_of(catalogue, event, "at").and_then(read)));
        }
    }
    all.retain(|t| t.date);
    if let Some(last) = all.iter().filter(|t| t.year).max_by_key(|t| t.utc()).copied() {
        for stamp in all.iter_mut().filter(|t| !t.year) {
            let near = stamp.near(&last).filter(|t| (t.utc() - last.utc()).abs() < NEAR);
            *stamp = near.unwrap_or(*stamp);
        }
        all.retain(|t| t.year);
    }
    let clock = |zoned: bool| {
        let of = || all.iter().filter(|t| t.offset.is_some() == zoned);
        Some((*of().min_by_key(|t| t.utc())?, *of().max_by_key(|t| t.utc())?))
    };
    let long = |(first, last): &(Stamp, Stamp)| last.utc() - first.utc();
    [clock(false), clock(true)].into_iter().flatten().max_by_key(long)
}

fn read(text: &str) -> Option<Stamp> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(Stamp::from_epoch_nanos(i64::try_from(at.as_nanosecond()).ok()?));
    }
    let t = text.parse::<jiff::civil::DateTime>().ok()?;
    let time = (t.hour(), t.minute(), t.second());
    Stamp::new(Some(t.year()), Some((t.month(), t.day())), time, t.subsec_nanosecond(), None)
}
