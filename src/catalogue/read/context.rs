//! The lines around a line: what the same speaker said before and behind it.
//! Lines are told apart by voice, a number for what stands before the text.
//! A block in which many lines ask is searched once for what they look for,
//! and its voices are read once.

use super::super::compile::Found;
use super::super::exceptions;
use super::{Part, Reader};
use crate::text::{self, Prefix, Who};
use aho_corasick::packed;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

/// How far back a traceback is followed, in lines and bytes.
const BACK: (usize, usize) = (240, 16 << 10);
/// How far forward a traceback is followed for its last line.
pub(super) const FORWARD: (usize, usize) = (600, 60 << 10);
/// So many questions are answered line by line before the block is looked at as a whole.
const PATIENCE: u32 = 12;

/// What is known of the block as a whole.
#[derive(Debug, Default)]
pub(super) struct Context {
    asked: u32,
    /// Whether anything in the block belongs to a traceback, or is torch's `Last error:`.
    traces: Option<bool>,
    voices: Vec<u64>,
}

fn voice(rank: [Option<u32>; 4], host: Option<&[u8]>) -> u64 {
    let mut h = FxHasher::default();
    rank.hash(&mut h);
    host.hash(&mut h);
    h.finish()
}

fn voice_of(text: &[u8], p: &Prefix) -> u64 {
    let host = p.host.map(|s| &text[s.0 as usize..s.1 as usize]);
    voice([p.rank, p.label, p.local, p.pid], host)
}

fn voice_of_who(who: &Who) -> u64 {
    voice([who.rank, who.label, who.local, who.pid], who.host.as_deref().map(str::as_bytes))
}

/// Whether a text holds anything that [`Reader::before`] is asked for.
fn holds_traces(bytes: &[u8]) -> bool {
    static SEARCH: OnceLock<Option<packed::Searcher>> = OnceLock::new();
    const PARTS: [&str; 6] =
        ["File \"", "^^", "Traceback (most", "During handling of", "The above exception", "Last error:"];
    let search = SEARCH.get_or_init(|| packed::Config::new().builder().extend(PARTS).build());
    match search {
        Some(search) => search.find(bytes).is_some(),
        None => PARTS.iter().any(|p| memchr::memmem::find(bytes, p.as_bytes()).is_some()),
    }
}

impl Reader<'_, '_> {
    /// The speaker's voice.
    pub(super) fn voice(&self, part: Part) -> u64 {
        voice_of_who(self.who(part.speaker))
    }

    /// Whether there may be any traceback at all.
    pub(super) fn traces(&mut self) -> bool {
        self.context.asked += 1;
        if self.context.asked <= PATIENCE {
            return true;
        }
        let bytes = &self.view.bytes;
        let traces = *self.context.traces.get_or_insert_with(|| holds_traces(bytes));
        if traces && self.context.voices.is_empty() {
            self.context.voices = (0..self.view.count())
                .map(|i| {
                    let text = self.view.text(&self.view.line(i));
                    voice_of(text, &text::split_prefix(text))
                })
                .collect();
        }
        traces
    }

    /// The text of a line when it is by that voice.
    pub(super) fn said_by(&self, index: usize, voice: u64) -> Option<String> {
        if self.context.voices.get(index).is_some_and(|v| *v != voice) {
            return None;
        }
        let text = self.view.text(&self.view.line(index));
        let prefix = text::split_prefix(text);
        if voice_of(text, &prefix) != voice {
            return None;
        }
        let rest = &text[prefix.len as usize..];
        let body = text::pylog(rest).map_or(0, |p| p.body as usize).min(rest.len());
        Some(String::from_utf8_lossy(&rest[body..rest.len().min(body + 500)]).into_owned())
    }

    /// Lines of the same speaker before a part, nearest first, without prefix.
    pub(super) fn before<'s>(&'s self, part: Part) -> impl Iterator<Item = String> + 's {
        let voice = self.voice(part);
        let floor = self.view.position(part.line) - BACK.1 as i64;
        (0..part.line)
            .rev()
            .take(BACK.0)
            .take_while(move |&i| self.view.position(i) >= floor)
            .filter_map(move |i| self.said_by(i, voice))
    }

    /// Whether the speaker's line before (the last one that is not empty) is `Last error:`.
    pub(super) fn after_last_error(&mut self, part: Part) -> bool {
        self.traces()
            && self
                .before(part)
                .take(3)
                .find(|t| !t.trim().is_empty())
                .is_some_and(|t| t.trim() == "Last error:")
    }

    pub(super) fn in_traceback(&mut self, part: Part) -> bool {
        if !self.traces() {
            return false;
        }
        let mut lines = self.before(part);
        match lines.next() {
            Some(t) if exceptions::frame(&t).is_some() || t.trim_start().starts_with("^^") => true,
            Some(t) if t.starts_with("    ") => {
                lines.take(3).any(|t| exceptions::frame(&t).is_some() || t.starts_with("Traceback (most"))
            }
            _ => false,
        }
    }

    /// What stands before this traceback's head: another exception of the same chain, or the words by which
    /// the interpreter says that it goes on.
    pub(super) fn before_head(&mut self, part: Part) -> Option<&'static str> {
        if !self.traces() {
            return None;
        }
        let mut seen_head = false;
        for said in self.before(part) {
            if seen_head && !said.trim().is_empty() {
                let chained =
                    said.starts_with("During handling of") || said.starts_with("The above exception was");
                let ignored = said.starts_with("Exception ignored in").then_some("ignored");
                return if chained { Some("outer") } else { ignored };
            }
            seen_head |= said.starts_with("Traceback (most");
        }
        None
    }

    /// Adds fields that stand in lines near by.
    pub(super) fn near(&mut self, part: Part, found: &mut Found) {
        let patterns = self.catalogue.near(found);
        if patterns.is_empty() {
            return;
        }
        self.own_words = false;
        let voice = self.voice(part);
        let from = part.line.saturating_sub(8);
        let to = (part.line + 9).min(self.view.count());
        let around: Vec<String> =
            (from..part.line).rev().chain(part.line + 1..to).filter_map(|i| self.said_by(i, voice)).collect();
        for regex in patterns {
            let _ = around.iter().any(|t| self.catalogue.add_near(regex, t.as_bytes(), found));
        }
    }
}
