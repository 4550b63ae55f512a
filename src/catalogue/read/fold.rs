//! Lines that are a message like others before them: the first few of each
//! speaker become events, the rest is counted. What is folded here would be
//! folded by the merge in the same way; this only spares the making of it.

use super::super::compile::Weight;
use super::super::event::More;
use super::super::settled::{EACH, Settled, speaker_key};
use super::MessageId;
use crate::text::Who;
use rustc_hash::FxHashMap;

/// Message, speaker, and what keeps lines apart (the rank that a field names; `u32::MAX` where nothing does).
type Key = (MessageId, u32, u32);

#[derive(Clone, Copy)]
struct Fold {
    kept: u32,
    count: u64,
    last: u32,
}

/// Whether the merge knows the speaker, and whether it takes no more speakers.
pub(super) fn knows(settled: &Settled, who: &Who) -> (bool, bool) {
    // In this order: who was taken before it was over is known then.
    let over = settled.are_speakers_over();
    (settled.is_known(speaker_key(who)), over)
}

/// What is folded of one block.
pub(super) struct Folds<'s> {
    settled: &'s Settled,
    by_key: FxHashMap<Key, Fold>,
}

impl<'s> Folds<'s> {
    pub(super) fn new(settled: &'s Settled) -> Self {
        Self { settled, by_key: FxHashMap::default() }
    }

    /// Whether the merge has enough of it.
    pub(super) fn is_enough(&self, key: Key, who: &Who) -> bool {
        self.settled.is_enough(key.0, speaker_key(who), key.2)
    }

    /// Takes a line; true when it needs no event. Bulk lines are counted elsewhere.
    pub(super) fn line(&mut self, key: Key, who: &Who, weight: Weight, bulk: bool, line: u32) -> bool {
        let most = if bulk { 1 } else { EACH };
        let settled = self.settled;
        let fold = self.by_key.entry(key).or_insert_with(|| {
            let over = settled.is_over(weight) || settled.is_enough(key.0, speaker_key(who), key.2);
            Fold { kept: if over { most } else { 0 }, count: 0, last: 0 }
        });
        if fold.kept < most {
            fold.kept += 1;
            return false;
        }
        if !bulk {
            fold.count += 1;
            fold.last = line;
        }
        true
    }

    /// Counts a line that needs no event.
    pub(super) fn count(&mut self, key: Key, line: u32) {
        let fold = self.by_key.entry(key).or_insert(Fold { kept: EACH, count: 0, last: 0 });
        fold.count += 1;
        fold.last = line;
    }

    /// What was counted, in order.
    pub(super) fn take(&mut self, number: impl Fn(u32) -> u64) -> Vec<More> {
        let counted = self.by_key.drain().filter(|(_, f)| f.count > 0);
        let mut more: Vec<More> = counted
            .map(|((message, speaker, rank), f)| More {
                message,
                speaker,
                rank,
                count: f.count,
                last_line: number(f.last),
            })
            .collect();
        more.sort_unstable_by_key(|m| (m.message, m.speaker, m.rank));
        more
    }
}
