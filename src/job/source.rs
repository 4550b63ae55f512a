//! What the blocks of one source give, put together in their order, within a
//! budget: what is kept is capped for each message and speaker, and what is
//! dropped is counted. The fold is the same however the source was cut.

use crate::base::Stamp;
use crate::catalogue::{Catalogue, Event, MessageId, Said, Speaker, Yield};
use crate::dump::Dump;
use crate::knowledge::{Door, Kind, Role};
use crate::text::Who;
use rustc_hash::{FxHashMap, FxHashSet};

/// Events of one message by one speaker that are kept; the last one stands for the rest.
const EACH: u32 = 6;
/// Speakers of one source that are kept apart.
const SPEAKERS: usize = 40_000;
/// Bytes of events kept in all before only first causes, starts and ends are.
const SOFT: usize = 40 << 20;
/// Bytes of events kept in all.
const HARD: usize = 72 << 20;

/// What is kept of all sources together.
#[derive(Debug, Default)]
pub struct Budget {
    used: usize,
}

/// Lines of a bulk message by one speaker.
#[derive(Debug, Clone)]
pub struct Counted {
    /// How many, exact.
    pub count: u64,
    /// The last one.
    pub last: Said,
    /// The one before it, where lines came one by one.
    pub before: Option<Said>,
}

/// Everything that one source says.
#[derive(Debug, Default)]
pub struct SourceRead {
    /// Path as shown.
    pub name: String,
    /// Bytes, decompressed.
    pub bytes: u64,
    /// Lines.
    pub lines: u64,
    /// What was wrong with it.
    pub problems: Vec<String>,
    /// Who spoke.
    pub speakers: Vec<Speaker>,
    /// What was understood, in order.
    pub events: Vec<Event>,
    /// Lines of bulk messages by message and speaker: count and last.
    pub bulk: FxHashMap<(MessageId, u32), Counted>,
    /// A whole document instead of lines.
    pub document: Option<Dump>,
    /// Events that were counted but not kept, by message.
    pub dropped: FxHashMap<MessageId, u64>,
}

/// A source that is being put together.
#[derive(Debug, Default)]
pub struct SourceState {
    out: SourceRead,
    by_who: FxHashMap<Who, u32>,
    kept: FxHashMap<(MessageId, u32, u32), (u32, usize)>,
    ahead: FxHashSet<(u64, u32, MessageId)>,
    base: u64,
    open_line: bool,
}

impl SourceState {
    pub(crate) fn begin(&mut self, name: String) {
        self.out.name = name;
    }

    pub(crate) fn document(&mut self, dump: Dump, damage: Vec<String>) {
        self.out.document = Some(dump);
        self.out.problems.extend(damage);
    }

    pub(crate) fn take(&mut self, catalogue: &Catalogue, y: Yield, budget: &mut Budget) {
        let base = self.base;
        let absolute = |line: u64| (line as i64 + base as i64 + 1).max(1) as u64;
        let map: Vec<u32> = y
            .speakers
            .into_iter()
            .map(|mut s| {
                for said in s.first.iter_mut().chain(&mut s.last) {
                    said.line = absolute(said.line);
                }
                self.speaker(s)
            })
            .collect();
        let end = base + y.ends;
        let mut ahead = FxHashSet::default();
        for mut event in y.events {
            event.line = absolute(event.line);
            event.last_line = absolute(event.last_line);
            event.speaker = map.get(event.speaker as usize).copied().unwrap_or(0);
            let place = (event.line, event.sub, event.message);
            if event.line > end {
                ahead.insert(place);
            }
            if !self.ahead.contains(&place) {
                self.keep(catalogue, event, budget);
            }
        }
        // What lies behind the next block too is still ahead.
        ahead.extend(self.ahead.drain().filter(|place| place.0 > end));
        self.ahead = ahead;
        for mut b in y.bulk {
            b.last.line = absolute(b.last.line);
            let speaker = map.get(b.speaker as usize).copied().unwrap_or(0);
            if self.out.bulk.len() < SPEAKERS * 2 || self.out.bulk.contains_key(&(b.message, speaker)) {
                let first = || Counted { count: 0, last: b.last.clone(), before: None };
                let entry = self.out.bulk.entry((b.message, speaker)).or_insert_with(first);
                entry.count += b.count;
                entry.before = Some(std::mem::replace(&mut entry.last, b.last));
            }
        }
        self.base = end;
        self.open_line = y.tail;
    }

    fn speaker(&mut self, s: Speaker) -> u32 {
        if let Some(&at) = self.by_who.get(&s.who) {
            let known = &mut self.out.speakers[at as usize];
            known.count += s.count;
            if known.first.is_none() {
                known.first = s.first;
            }
            known.last.extend(s.last);
            let n = known.last.len();
            known.last.drain(..n.saturating_sub(4));
            return at;
        }
        if self.out.speakers.len() >= SPEAKERS {
            // Too many to tell apart: the last place stands for all the others.
            let at = SPEAKERS as u32 - 1;
            self.out.speakers[at as usize].who = Who::default();
            self.out.speakers[at as usize].count += s.count;
            return at;
        }
        let at = self.out.speakers.len() as u32;
        self.by_who.insert(s.who.clone(), at);
        self.out.speakers.push(s);
        at
    }

    fn keep(&mut self, catalogue: &Catalogue, event: Event, budget: &mut Budget) {
        let entry = &catalogue.messages[usize::from(event.message)];
        let rank = rank_of(catalogue, &event).unwrap_or(u32::MAX);
        let key = (event.message, event.speaker, rank);
        if entry.bulk && self.kept.contains_key(&key) {
            // NCCL's own bulk lines are counted by the reader; others come here one by one.
            if entry.door != Door::Nccl {
                let said = Said {
                    line: event.last_line,
                    text: event.text.chars().take(400).collect::<String>().into(),
                    whole: false,
                    time: event.time,
                };
                let first = || Counted { count: 1, last: said.clone(), before: None };
                let slot = self.out.bulk.entry((event.message, event.speaker)).or_insert_with(first);
                slot.count += event.count;
                slot.before = Some(std::mem::replace(&mut slot.last, said));
            }
            return;
        }
        if let Some((n, last)) = self.kept.get_mut(&key)
            && *n >= EACH
        {
            // The last one stands for all that came after the first few.
            let last = &mut self.out.events[*last];
            last.count += event.count;
            last.last_line = event.last_line;
            return;
        }
        let weighty = matches!(entry.role, Role::First)
            || matches!(
                entry.kind,
                Kind::Ends
                    | Kind::EndsWell
                    | Kind::Restarts
                    | Kind::JobStarts
                    | Kind::Comm
                    | Kind::Rank
                    | Kind::Cancelled
            );
        let most = if weighty { HARD } else { SOFT };
        let size = event.size() + 96;
        if budget.used + size > most {
            *self.out.dropped.entry(event.message).or_default() += event.count;
            return;
        }
        budget.used += size;
        let at = self.out.events.len();
        let slot = self.kept.entry(key).or_insert((0, at));
        *slot = (slot.0 + 1, at);
        self.out.events.push(event);
    }

    pub(crate) fn end(mut self, bytes: u64, problems: Vec<String>) -> SourceRead {
        self.out.bytes = bytes;
        self.out.lines = self.base + u64::from(self.open_line);
        self.out.problems.splice(0..0, problems);
        self.out.events.sort_by_key(|e| (e.line, e.sub, e.message));
        self.out
    }
}

/// A field of type rank, so that ranks which share one speaker are capped apart.
fn rank_of(catalogue: &Catalogue, event: &Event) -> Option<u32> {
    let entry = &catalogue.messages[usize::from(event.message)];
    event
        .fields
        .iter()
        .find(|f| entry.types.get(&f.0) == Some(&crate::knowledge::FieldType::Rank))?
        .1
        .parse()
        .ok()
}

/// First and last time that the source's speakers gave.
impl SourceRead {
    /// See above.
    #[must_use]
    pub fn times(&self) -> (Option<Stamp>, Option<Stamp>) {
        let first = self.speakers.iter().filter_map(|s| s.first.as_ref()?.time).next();
        let last = self
            .speakers
            .iter()
            .filter_map(|s| s.last.iter().rev().find_map(|l| l.time))
            .max_by_key(Stamp::utc);
        (first, last)
    }
}
