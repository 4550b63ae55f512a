//! What the merge of a source knows already, for those who read its later
//! blocks: of which message and speaker enough is kept, whom it knows, what
//! it takes no more of. It only ever grows, and whoever does not see the
//! newest state does more work with the same outcome.

use super::MessageId;
use super::compile::Weight;
use crate::text::Who;
use rustc_hash::{FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Events of one message by one speaker that are kept; what follows is counted.
pub(crate) const EACH: u32 = 6;
/// Entries that are remembered.
const MOST: usize = 400_000;

/// Shared by the merge of one source and its readers.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    enough: RwLock<FxHashSet<u64>>,
    speakers: RwLock<FxHashSet<u64>>,
    speakers_over: AtomicBool,
    over: [AtomicBool; 3],
}

/// A number for a speaker.
pub(crate) fn speaker_key(who: &Who) -> u64 {
    let mut h = FxHasher::default();
    who.hash(&mut h);
    mix(h.finish())
}

fn key(message: MessageId, speaker: u64, rank: u32) -> u64 {
    mix(speaker ^ mix(u64::from(message) << 32 | u64::from(rank)))
}

fn mix(k: u64) -> u64 {
    let k = (k ^ (k >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    k ^ (k >> 29)
}

fn has(set: &RwLock<FxHashSet<u64>>, key: u64) -> bool {
    set.read().is_ok_and(|s| s.contains(&key))
}

fn put(set: &RwLock<FxHashSet<u64>>, key: u64) {
    if let Ok(mut set) = set.write()
        && set.len() < MOST
    {
        set.insert(key);
    }
}

impl Settled {
    /// Enough is kept of a message of a speaker, about a rank where one was named.
    pub(crate) fn enough(&self, message: MessageId, speaker: u64, rank: u32) {
        put(&self.enough, key(message, speaker, rank));
    }

    /// See [`Settled::enough`].
    pub(crate) fn is_enough(&self, message: MessageId, speaker: u64, rank: u32) -> bool {
        has(&self.enough, key(message, speaker, rank))
    }

    /// A speaker's first line is kept.
    pub(crate) fn known(&self, speaker: u64) {
        put(&self.speakers, speaker);
    }

    /// See [`Settled::known`].
    pub(crate) fn is_known(&self, speaker: u64) -> bool {
        has(&self.speakers, speaker)
    }

    /// No more speakers are told apart.
    pub(crate) fn speakers_over(&self) {
        self.speakers_over.store(true, Ordering::Relaxed);
    }

    /// See [`Settled::speakers_over`].
    pub(crate) fn are_speakers_over(&self) -> bool {
        self.speakers_over.load(Ordering::Relaxed)
    }

    /// No more events of a weight are kept.
    pub(crate) fn over(&self, weight: Weight) {
        self.over[weight as usize].store(true, Ordering::Relaxed);
    }

    /// See [`Settled::over`].
    pub(crate) fn is_over(&self, weight: Weight) -> bool {
        self.over[weight as usize].load(Ordering::Relaxed)
    }
}
