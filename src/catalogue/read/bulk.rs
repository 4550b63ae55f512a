//! Lines of bulk messages, as steps of progress: their number, the last one
//! and the one before it. (Most of those behind an NCCL header are counted
//! while the block is searched.)

use super::super::event::{BulkCount, Said};
use super::MessageId;
use super::quote::{line_time, quote};
use crate::text::View;
use rustc_hash::FxHashMap;

/// Longest text that is kept of a line, in characters.
const TEXT: usize = 400;

/// A line of the block, and where its text begins and ends.
pub(super) type Place = (u32, u32, u32);

/// What was counted in one block, by message and speaker.
#[derive(Default)]
pub(super) struct Bulk {
    by_key: FxHashMap<(MessageId, u32), (u64, Place, Option<Place>)>,
}

impl Bulk {
    /// One more line. Lines come in any order; the last two are those that stand last.
    pub(super) fn add(&mut self, key: (MessageId, u32), place: Place) {
        let Some((count, last, before)) = self.by_key.get_mut(&key) else {
            self.by_key.insert(key, (1, place, None));
            return;
        };
        *count += 1;
        if place > *last {
            *before = Some(std::mem::replace(last, place));
        } else if before.is_none_or(|b| place > b) {
            *before = Some(place);
        }
    }

    /// All of it, in order.
    pub(super) fn take(&mut self, view: &View<'_>) -> Vec<BulkCount> {
        let counted = self.by_key.drain();
        let mut out: Vec<BulkCount> = counted
            .map(|((message, speaker), (count, last, before))| BulkCount {
                message,
                speaker,
                part: 0,
                count,
                last: said(view, last),
                before: before.map(|b| said(view, b)),
            })
            .collect();
        out.sort_unstable_by_key(|b| (b.message, b.speaker));
        out
    }
}

fn said(view: &View<'_>, (index, start, end): Place) -> Said {
    let line = view.line(index as usize);
    let (start, end) = (start as usize, end as usize);
    let time = line_time(view.text(&line), &view.bytes[start..end]);
    let text = quote(view, &line, start, end).0.chars().take(TEXT).collect::<String>().into();
    Said { line: i64::from(line.no) as u64, text, whole: false, time }
}
