//! What the blocks of one source give, put together in their order, within a
//! budget: what is kept is capped for each message and speaker, and what is
//! dropped is counted. The fold is the same however the source was cut. What
//! needs no more than counting is told to those who read the next blocks.

use super::slot_of;
use super::waits::Trace;
use crate::base::Stamp;
use crate::catalogue::{
    ALIKE, BulkCount, Catalogue, EACH, Event, Last, MessageId, More, Said, Settled, Speaker, Spoken, Weight,
    Yield, boxed, speaker_key, time_of,
};
use crate::dump::{Dump, rank_from_name};
use crate::knowledge::Kind;
use crate::text::Who;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Speakers of one source that are kept apart.
const SPEAKERS: usize = 40_000;
/// Bytes of events kept in all, by their weight: of light ones, of these and starts, and of what may be a cause, which
/// has bytes of its own.
const MOST: [usize; 3] = [40 << 20, 56 << 20, 64 << 20];
/// Bytes for each weight that every unit has, however many there are: one log that tells all may lie beside
/// thousands that tell nothing.
const LEAST: [usize; 3] = [16 << 10, 16 << 10, 64 << 10];
/// Runs in one source that are kept apart.
const RUNS: u16 = 64;
/// Bytes of events kept of one unit before fewer of each message and speaker are: so many speak that the first
/// words of all of them matter more than the sixth of each.
const MANY: usize = 16 << 20;
/// How many of each are kept then.
const FEWER: u32 = 2;

/// What may be kept of the sources of one unit: a part of the whole, so that
/// it does not matter which unit is read first.
#[derive(Debug)]
pub struct Budget {
    /// Bytes of light events and starts, and of causes.
    used: [usize; 2],
    most: [usize; 3],
    /// Once something did not fit, nothing of its weight is taken any more.
    over: [bool; 3],
}

impl Budget {
    /// For one of so many units.
    #[must_use]
    pub fn of(units: usize) -> Self {
        let mut most = LEAST;
        for (most, all) in most.iter_mut().zip(MOST) {
            *most = (*most).max(all / units.max(1));
        }
        Self { used: [0; 2], most, over: [false; 3] }
    }

    /// Events of one message by one speaker that are kept.
    fn each(&self) -> u32 {
        if self.used[0] + self.used[1] > MANY { FEWER } else { EACH }
    }

    fn take(&mut self, size: usize, weight: Weight) -> bool {
        let used = &mut self.used[usize::from(weight == Weight::Cause)];
        let over = &mut self.over[weight as usize];
        *over |= *used + size > self.most[weight as usize];
        if !*over {
            *used += size;
        }
        !*over
    }
}

/// Lines of a bulk message by one speaker.
#[derive(Debug, Clone)]
pub struct Counted {
    /// How many, exact.
    pub count: u64,
    /// The last one.
    pub last: Said,
    /// The one before it; of lines behind an NCCL header the last one of an earlier block.
    pub before: Option<Said>,
}

/// A whole document, as far as it is understood by itself.
#[derive(Debug)]
pub enum Document {
    /// What one rank did, of its Flight Recorder dump.
    Trace(Box<Trace>),
    /// Such a dump whose name does not tell the rank.
    Nobodys,
    /// Anything else.
    Other(Dump),
}

impl Document {
    /// `name`: of the source; a Flight Recorder dump tells its rank there only.
    #[must_use]
    pub fn new(dump: Dump, name: &str) -> Self {
        match (dump, rank_from_name(name)) {
            (Dump::FlightRecorder(recorder), Some(rank)) => {
                Self::Trace(Box::new(Trace::from_recorder(rank, name, recorder)))
            }
            (Dump::FlightRecorder(_), None) => Self::Nobodys,
            (other, _) => Self::Other(other),
        }
    }
}

impl Counted {
    fn add(&mut self, more: BulkCount) {
        self.count += more.count;
        // Of a message whose communicators are kept apart the parts come in any order.
        if more.last.line >= self.last.line {
            let last = std::mem::replace(&mut self.last, more.last);
            self.before = more.before.or(Some(last));
        }
    }
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
    /// The last line of a bulk message by speaker and communicator, where these are kept apart.
    pub states: FxHashMap<(MessageId, u32, u64), Said>,
    /// A whole document instead of lines.
    pub document: Option<Document>,
    /// Events that were counted but not kept, by message.
    pub dropped: FxHashMap<MessageId, u64>,
}

/// Under which the first few events are kept and others counted.
type Key = (MessageId, u32, u32, u16);

/// A source that is being put together.
#[derive(Debug, Default)]
pub struct SourceState {
    out: SourceRead,
    /// The last lines of each speaker.
    last: Vec<Last>,
    by_who: FxHashMap<Who, u32>,
    /// How many are kept, and which is the last, by message, speaker, what keeps lines apart, and run.
    kept: FxHashMap<Key, (u32, usize)>,
    /// Runs begun so far, as far as lines that are read one by one tell.
    run: u16,
    /// Whether something was over since the last began.
    ended: bool,
    /// Who began to make a communicator as which rank, last.
    started: FxHashMap<Box<str>, u32>,
    /// How many of a message and speaker are told apart.
    apart: FxHashMap<(MessageId, u32), usize>,
    ahead: FxHashSet<(u64, u32, MessageId)>,
    base: u64,
    open_line: bool,
    settled: Arc<Settled>,
}

impl SourceState {
    pub(crate) fn begin(&mut self, name: String, settled: Arc<Settled>) {
        self.out.name = name;
        self.settled = settled;
    }

    pub(crate) fn document(&mut self, document: Document, damage: Vec<String>) {
        self.out.document = Some(document);
        self.out.problems.extend(damage);
    }

    pub(crate) fn take(&mut self, catalogue: &Catalogue, y: Yield, budget: &mut Budget) {
        let base = self.base;
        if y.full && base > 0 && self.run < RUNS {
            // Nothing that was counted in between may decide it. What is not known to go on has ended.
            (self.run, self.ended) = (RUNS, true);
        }
        let absolute = |line: u64| (line as i64 + base as i64 + 1).max(1) as u64;
        let map: Vec<u32> = y
            .speakers
            .into_iter()
            .map(|mut s| {
                if let Some(said) = &mut s.first {
                    said.line = absolute(said.line);
                }
                s.last.renumber(absolute);
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
                self.keep(catalogue, event, y.full, budget);
            }
        }
        // What lies behind the next block too is still ahead.
        ahead.extend(self.ahead.drain().filter(|place| place.0 > end));
        self.ahead = ahead;
        for mut more in y.more {
            more.last_line = absolute(more.last_line);
            more.speaker = map.get(more.speaker as usize).copied().unwrap_or(0);
            self.count(catalogue, more, budget);
        }
        for mut b in y.bulk {
            b.last.line = absolute(b.last.line);
            let speaker = map.get(b.speaker as usize).copied().unwrap_or(0);
            if b.part != 0 {
                let key = (b.message, speaker, b.part);
                if self.out.states.len() < SPEAKERS || self.out.states.contains_key(&key) {
                    self.out.states.insert(key, b.last.clone());
                }
            }
            if self.out.bulk.len() < SPEAKERS * 2 || self.out.bulk.contains_key(&(b.message, speaker)) {
                if let Some(before) = &mut b.before {
                    before.line = absolute(before.line);
                }
                match self.out.bulk.entry((b.message, speaker)) {
                    Entry::Vacant(slot) => {
                        slot.insert(Counted { count: b.count, last: b.last, before: b.before });
                    }
                    Entry::Occupied(slot) => slot.into_mut().add(b),
                }
            }
        }
        self.base = end;
        self.open_line = y.tail;
    }

    fn speaker(&mut self, s: Spoken) -> u32 {
        if let Some(&at) = self.by_who.get(&s.who) {
            let known = &mut self.out.speakers[at as usize];
            known.count += s.count;
            if known.first.is_none() && s.first.is_some() {
                known.first = s.first;
                self.settled.known(speaker_key(&s.who));
            }
            self.last[at as usize].append(s.last);
            return at;
        }
        if self.out.speakers.len() >= SPEAKERS {
            // Too many to tell apart: the last place stands for all the others.
            self.settled.speakers_over();
            let at = SPEAKERS as u32 - 1;
            self.out.speakers[at as usize].who = Who::default();
            self.out.speakers[at as usize].count += s.count;
            return at;
        }
        let at = self.out.speakers.len() as u32;
        if s.first.is_some() {
            self.settled.known(speaker_key(&s.who));
        }
        self.by_who.insert(s.who.clone(), at);
        self.out.speakers.push(Speaker { who: s.who, count: s.count, first: s.first, last: Vec::new() });
        self.last.push(s.last);
        at
    }

    /// The key under which a line is kept: where enough are told apart already, a new one is like all others.
    fn known_key(&self, catalogue: &Catalogue, (message, speaker, apart, run): Key) -> Key {
        let key = (message, speaker, apart, run);
        let many = self.apart.get(&(message, speaker)).copied().unwrap_or(0);
        if apart == ALIKE || many < catalogue.kept_by(message).most() || self.kept.contains_key(&key) {
            return key;
        }
        (message, speaker, ALIKE, run)
    }

    /// Which run an event belongs to, for keeping it: what is said again in a later run is no repetition. Only lines
    /// that are read one by one tell: of the others the readers count what is alike, whatever stands between. The
    /// end of a source has a number of its own, since what stood before may have been counted; of bulk messages the
    /// last is known anyway.
    fn run_of(&mut self, catalogue: &Catalogue, event: &Event, full: bool) -> u16 {
        if !full {
            return 0;
        }
        let entry = &catalogue.messages[usize::from(event.message)];
        let starts = match entry.kind {
            Kind::JobStarts | Kind::Restarts => true,
            Kind::Comm if slot_of(catalogue, event, "phase") == Some("start") => {
                let rank = slot_of(catalogue, event, "rank").unwrap_or("").into();
                self.started.insert(rank, event.speaker).is_some_and(|before| before != event.speaker)
            }
            _ => false,
        };
        let begins = starts && self.ended;
        if begins && self.run % RUNS < RUNS - 1 {
            self.run += 1;
        }
        self.ended = entry.ends_a_run() || self.ended && !begins;
        // Those behind an NCCL header are counted while the block is searched.
        let counted = entry.bulk && (entry.kind != Kind::Step || self.run == RUNS);
        if counted { 0 } else { self.run }
    }

    fn keep(&mut self, catalogue: &Catalogue, event: Event, full: bool, budget: &mut Budget) {
        let entry = &catalogue.messages[usize::from(event.message)];
        let apart = catalogue.apart(event.message, &event.fields, &event.text);
        let run = self.run_of(catalogue, &event, full);
        let key = self.known_key(catalogue, (event.message, event.speaker, apart, run));
        let apart = key.2;
        match self.kept.get(&key) {
            // The reader has counted them.
            Some(_) if entry.bulk => return,
            Some(&(n, last)) if n >= budget.each() => {
                // The last one stands for all that came after the first few.
                let last = &mut self.out.events[last];
                last.count += event.count;
                last.last_line = event.last_line;
                if n < EACH && run == 0 {
                    self.enough((event.message, event.speaker, apart));
                }
                return;
            }
            _ => {}
        }
        let weight = entry.weight();
        if !budget.take(event.size() + 96, weight) {
            self.settled.over(weight);
            if !entry.bulk {
                *self.out.dropped.entry(event.message).or_default() += event.count;
            }
            return;
        }
        let at = self.out.events.len();
        let slot = self.kept.entry(key).or_insert((0, at));
        if slot.0 == 0 && apart != ALIKE {
            *self.apart.entry((event.message, event.speaker)).or_default() += 1;
        }
        *slot = (slot.0 + 1, at);
        if run == 0 && (entry.bulk || slot.0 >= budget.each()) {
            self.enough((event.message, event.speaker, apart));
        }
        self.out.events.push(event);
    }

    /// Tells the readers that no more of it is needed.
    fn enough(&self, (message, speaker, apart): (MessageId, u32, u32)) {
        // The last place may stand for many speakers, who are not told apart.
        if (speaker as usize) < SPEAKERS - 1
            && let Some(speaker) = self.out.speakers.get(speaker as usize)
        {
            self.settled.enough(message, speaker_key(&speaker.who), apart);
        }
    }

    /// Lines that a reader counted, since enough like them is kept or none is taken.
    fn count(&mut self, catalogue: &Catalogue, more: More, budget: &Budget) {
        if catalogue.messages[usize::from(more.message)].bulk {
            return;
        }
        let key = self.known_key(catalogue, (more.message, more.speaker, more.rank, 0));
        match self.kept.get(&key) {
            Some((n, last)) if *n >= budget.each() => {
                let last = &mut self.out.events[*last];
                last.count += more.count;
                last.last_line = last.last_line.max(more.last_line);
            }
            _ => *self.out.dropped.entry(more.message).or_default() += more.count,
        }
    }

    pub(crate) fn end(mut self, bytes: u64, problems: Vec<String>) -> SourceRead {
        self.out.bytes = bytes;
        self.out.lines = self.base + u64::from(self.open_line);
        self.out.problems.splice(0..0, problems);
        self.out.events.sort_by_key(|e| (e.line, e.sub, e.message));
        for (speaker, last) in self.out.speakers.iter_mut().zip(&self.last) {
            speaker.last.extend(last.iter().map(|(line, text)| Said {
                line,
                text: boxed(text),
                whole: false,
                time: None,
            }));
        }
        let speakers = self.out.speakers.iter_mut().flat_map(|s| s.first.iter_mut().chain(&mut s.last));
        for said in speakers.chain(self.out.bulk.values_mut().map(|b| &mut b.last)) {
            said.time = said.time.or_else(|| time_of(&said.text));
        }
        self.out
    }
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
