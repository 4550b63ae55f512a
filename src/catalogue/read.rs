//! From a block's hits to events: which message a line is, what its fields
//! are, what the lines around it add (frames of a traceback, rows of a table,
//! the text behind `Last error:`). `context` looks at those lines, `alike`
//! remembers what was found in texts that many ranks print, `fold`
//! counts what is like something that is kept already, `bulk` what is only
//! counted, `quote` cuts texts.

mod alike;
mod bulk;
mod context;
mod fold;
mod quote;

use super::apart::{self, ALIKE, By};
use super::compile::{Asked, Catalogue, Found};
use super::event::{BulkCount, Event, Last, Spoken, Via, Yield};
use super::exceptions::{self, Frame};
use super::settled::Settled;
use super::shapes::{Shapes, Told};
use super::{FieldId, MessageId, boxed, built_in, trouble};
use crate::base::Stamp;
use crate::knowledge::{Kind, Role};
use crate::text::{self, Hit, Level, Line, Piece, Scanned, Scanner, Scratch, ShapeFacts, View, Who};
use alike::Alike;
use bulk::Bulk;
use context::Context;
use fold::Folds;
pub(crate) use quote::time_of;
use quote::{cut, line_time, quote, said, spoke, squashed};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Mutex;

/// Longest quoted text.
const QUOTE: usize = 4 << 10;
/// Equal lines of one speaker in a block that are looked at; the rest is counted.
const FLOOD: u32 = 8;
/// Readers whose knowledge is kept for others.
const IDLE: usize = 8;

/// What reads blocks, one after the other.
#[derive(Debug)]
pub(crate) struct Reading<'c> {
    catalogue: &'c Catalogue,
    scanner: &'c Scanner,
    learnt: Learnt,
    pool: &'c Pool,
}

/// What was learnt of texts. It holds for every job that is read by the same catalogue.
#[derive(Debug, Default)]
struct Learnt {
    shapes: Shapes,
    /// Of lines behind no NCCL header, at the edges of a source.
    lines: Shapes,
    alike: Alike,
    scratch: Scratch,
}

/// What earlier readers of one catalogue have learnt, for the next ones: of many small jobs each would learn the same.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<Learnt>>);

impl<'c> Reading<'c> {
    pub(crate) fn new(catalogue: &'c Catalogue, scanner: &'c Scanner, pool: &'c Pool) -> Self {
        let learnt = pool.0.lock().ok().and_then(|mut idle| idle.pop()).unwrap_or_default();
        Self { catalogue, scanner, learnt, pool }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // What a fault interrupted may be half a truth.
        if !std::thread::panicking()
            && let Ok(mut idle) = self.pool.0.lock()
            && idle.len() < IDLE
        {
            idle.push(std::mem::take(&mut self.learnt));
        }
    }
}

/// Reads one piece of a source. What `settled` says only spares work.
#[must_use]
pub(crate) fn read(
    reading: &mut Reading<'_>,
    facts: &ShapeFacts,
    piece: &Piece<'_>,
    settled: &Settled,
) -> Yield {
    let catalogue = reading.catalogue;
    let opening = |text: &[u8]| catalogue.opening(text);
    let learnt = &mut reading.learnt;
    let (view, scanned) = reading.scanner.scan(piece, facts, &opening, &mut learnt.scratch);
    let mut reader = Reader::new(catalogue, &view, &scanned, settled, piece.full, &mut learnt.alike);
    for hit in &scanned.hits {
        reader.hit(hit, &mut learnt.shapes, &mut learnt.lines);
    }
    let mut read = reader.finish(piece);
    let spokes = scanned.speakers.into_iter().map(|s| spoke(&view, settled, s));
    read.speakers.splice(0..0, spokes);
    learnt.scratch.reuse(view);
    read
}

/// How often a line like it stood in the block, and the messages that it is with what keeps each apart.
type Flood = (u32, Vec<(MessageId, u32)>);

struct Reader<'r, 'b> {
    catalogue: &'r Catalogue,
    view: &'r View<'b>,
    scanned: &'r Scanned,
    full: bool,
    alike: &'r mut Alike,
    out: Vec<Event>,
    extra: Vec<Who>,
    extra_by: FxHashMap<Who, u32>,
    flood: FxHashMap<(u32, u64), Flood>,
    /// Lines that were reached from the head of their traceback.
    followed: FxHashSet<u32>,
    /// Messages that the line at hand is, kept or counted, with what keeps them apart.
    told: Vec<(MessageId, u32)>,
    /// Whether all of them are by the speaker of the line, and no line beside it was asked.
    own_words: bool,
    speaker: u32,
    /// The bulk message as which the scan has counted the line at hand.
    counted: Option<MessageId>,
    /// Where messages were found.
    seen: FxHashSet<(u32, MessageId)>,
    folds: Folds<'r>,
    bulk: Bulk,
    context: Context,
    ids: Ids,
}

/// Ids of what the program itself gives.
struct Ids {
    unknown_warn: Option<MessageId>,
    exception: Option<MessageId>,
    unknown: Option<MessageId>,
    kind: FieldId,
    text: FieldId,
    file: FieldId,
    line: FieldId,
    func: FieldId,
    claimed: FieldId,
    handled: FieldId,
    listed: Option<MessageId>,
    name: FieldId,
    value: FieldId,
}

/// A part of a line with its own writer.
#[derive(Clone, Copy)]
struct Part {
    line: usize,
    start: usize,
    end: usize,
    speaker: u32,
    nccl: Option<(Level, i32, usize)>,
}

impl<'r, 'b> Reader<'r, 'b> {
    fn new(
        catalogue: &'r Catalogue,
        view: &'r View<'b>,
        scanned: &'r Scanned,
        settled: &'r Settled,
        full: bool,
        alike: &'r mut Alike,
    ) -> Self {
        let field = |n: &str| catalogue.field_id(n).unwrap_or(0);
        let ids = Ids {
            unknown_warn: catalogue.message(built_in::UNKNOWN_WARN),
            exception: catalogue.message(built_in::EXCEPTION),
            unknown: catalogue.message(built_in::UNKNOWN),
            kind: field("type"),
            text: field("text"),
            file: field("file"),
            line: field("line"),
            func: field("func"),
            claimed: field("claimed"),
            handled: field("handled"),
            listed: catalogue.message(built_in::LISTED),
            name: field("name"),
            value: field("value"),
        };
        Self {
            catalogue,
            view,
            scanned,
            full,
            alike,
            out: Vec::new(),
            extra: Vec::new(),
            extra_by: FxHashMap::default(),
            flood: FxHashMap::default(),
            followed: FxHashSet::default(),
            told: Vec::new(),
            own_words: true,
            speaker: 0,
            counted: None,
            seen: FxHashSet::default(),
            folds: Folds::new(settled),
            bulk: Bulk::default(),
            context: Context::default(),
            ids,
        }
    }

    fn hit(&mut self, hit: &Hit, shapes: &mut Shapes, lines: &mut Shapes) {
        if self.followed.contains(&hit.line) {
            return;
        }
        self.counted = hit.opening.filter(|o| o.bulk).map(|o| o.message);
        let line = self.view.line(hit.line as usize);
        if hit.counted || !self.full && self.is_settled(hit) {
            let parts = if hit.torn { self.parts(hit, line) } else { Vec::new() };
            for part in parts.into_iter().skip(1) {
                self.part(part);
            }
            return;
        }
        if self.by_shape(hit, line, shapes) {
            return;
        }
        if self.full {
            if !self.line_by_shape(hit, line, lines) {
                self.look(hit, line);
            }
            return;
        }
        let text = &self.view.bytes[hit.text as usize..line.end as usize];
        let (hash, names_rank) = squashed(text);
        let key = (hit.speaker, hash);
        if let Some((n, messages)) = self.flood.get_mut(&key) {
            *n += 1;
            if *n > FLOOD {
                for (message, apart) in messages {
                    if !self.seen.insert((hit.text, *message)) {
                        continue;
                    }
                    if self.catalogue.messages[usize::from(*message)].bulk {
                        let place = (hit.line, hit.text, line.end);
                        self.bulk.add((*message, hit.speaker), place);
                    } else {
                        self.folds.count((*message, hit.speaker, *apart), hit.line);
                    }
                }
                return;
            }
        }
        self.look(hit, line);
        // Lines alike may name different ranks, where these are not told by the word before them;
        // those whose neighbours say whose they are, are not alike.
        let names_none = |t: &(MessageId, u32)| t.1 == ALIKE || self.catalogue.kept_by(t.0) != By::Rank;
        if self.own_words && (names_rank || self.told.iter().all(names_none)) {
            let told = &self.told;
            self.flood.entry(key).or_insert_with(|| (1, told.clone()));
        }
    }

    /// Reads a line itself.
    fn look(&mut self, hit: &Hit, line: Line) {
        (self.own_words, self.speaker) = (true, hit.speaker);
        self.told.clear();
        for part in self.parts(hit, line) {
            self.part(part);
        }
    }

    /// Whether it is the first of bulk lines of which enough is kept.
    fn is_settled(&self, hit: &Hit) -> bool {
        let Some(opened) = hit.opening.filter(|o| o.bulk) else { return false };
        self.folds.is_enough((opened.message, hit.speaker, ALIKE), self.who(hit.speaker))
    }

    /// A line behind an NCCL header whose shape tells all; false where it does not.
    fn by_shape(&mut self, hit: &Hit, line: Line, shapes: &mut Shapes) -> bool {
        let Some((level, dev, body)) = hit.nccl else { return false };
        let (warn, full) = (is_warn(level), self.full);
        if !warn && hit.opening.is_none() && !full {
            return false;
        }
        let (start, end) = ((body.min(line.end)) as usize, line.end as usize);
        let text = &self.view.bytes[start..end];
        let (catalogue, unknown, field) = (self.catalogue, self.ids.unknown_warn, self.ids.text);
        let whole = &self.view.bytes[hit.text as usize..end];
        // The openings that a text has are those that the longest of them has. At the edges more is looked for.
        let door = hit.opening.map_or(0, |o| o.which + 1) << 1 | u32::from(full);
        let told = shapes.get(catalogue, door, text, || {
            let mut starts = Vec::new();
            text::mid_starts(whole, &mut starts);
            if !starts.is_empty() {
                return None;
            }
            let mut answer = catalogue.tell(if warn { Asked::Warn } else { Asked::Info }, text, full)?;
            if answer.told.is_empty() && warn {
                let fields = vec![(field, (0, text.len().min(300) as u32))];
                answer.told.extend(unknown.map(|message| Told { message, form: 0, fields, rank: None }));
            }
            Some(answer)
        });
        let Some(told) = told else { return false };
        let part = Part {
            line: hit.line as usize,
            start: hit.text as usize,
            end,
            speaker: hit.speaker,
            nccl: Some((level, dev, start)),
        };
        for t in told.iter() {
            let at = |span: (u32, u32)| &text[span.0 as usize..(span.1 as usize).min(text.len())];
            let field = |id| t.fields.iter().find(|f| f.0 == id).map(|f| at(f.1));
            let apart = match self.catalogue.kept_by(t.message) {
                By::Rank => t.rank.and_then(|r| std::str::from_utf8(at(r)).ok()?.parse().ok()),
                By::Name => field(self.ids.name).map(|name| apart::number(name.iter().copied())),
                By::Words(id) => Some(apart::words(id.and_then(field).unwrap_or(text))),
            };
            if self.catalogue.messages[usize::from(t.message)].bulk && self.counted != Some(t.message) {
                self.bulk.add((t.message, hit.speaker), (hit.line, hit.text, line.end));
            }
            let key = (t.message, hit.speaker, apart.unwrap_or(ALIKE));
            if self.needs_no_event(key, hit.line) {
                continue;
            }
            let fields = t.fields.iter().map(|f| (f.0, boxed(at(f.1)))).collect();
            let found = Found { message: t.message, form: t.form, at: (0, 0), fields, index: 0 };
            self.add(part, found, Via::Line, (dev >= 0).then_some(dev), self.time(part));
        }
        true
    }

    /// A line behind no NCCL header, at an edge of its source, whose shape tells all; false where it does not.
    fn line_by_shape(&mut self, hit: &Hit, line: Line, lines: &mut Shapes) -> bool {
        let (start, end) = (hit.text as usize, line.end as usize);
        if hit.nccl.is_some() || start >= end {
            return false;
        }
        let (catalogue, view) = (self.catalogue, self.view);
        let text = &view.bytes[start..end];
        let body = text::pylog(text).map_or(0, |p| p.body as usize).min(text.len());
        let told = lines.get(catalogue, body as u32, text, || catalogue.tell_line(text, body));
        let Some(told) = told else { return false };
        let part = Part { line: hit.line as usize, start, end, speaker: hit.speaker, nccl: None };
        let time = if told.is_empty() { None } else { self.time(part) };
        for t in told.iter() {
            let at = |span: (u32, u32)| boxed(&text[span.0 as usize..span.1 as usize]);
            let fields = t.fields.iter().map(|f| (f.0, at(f.1))).collect();
            let found = Found { message: t.message, form: t.form, at: (0, 0), fields, index: 0 };
            self.push(part, found, Via::Line, None, time);
        }
        true
    }

    /// Whether a line is only counted. At the edges of a source each line may tell where a run begins.
    fn needs_no_event(&mut self, key: (MessageId, u32, u32), line: u32) -> bool {
        let folds = !self.full || self.catalogue.messages[usize::from(key.0)].is_only_counted();
        folds && self.fold(key, line)
    }

    /// Counts a line whose like is kept often enough; false for one of the first.
    fn fold(&mut self, key: (MessageId, u32, u32), line: u32) -> bool {
        let entry = &self.catalogue.messages[usize::from(key.0)];
        // Of bulk messages every line is counted already.
        let bulk = entry.bulk;
        let who = match self.scanned.speakers.get(key.1 as usize) {
            Some(spoke) => &spoke.who,
            None => &self.extra[key.1 as usize - self.scanned.speakers.len()],
        };
        self.folds.line(key, who, entry.weight(), bulk, line)
    }

    /// The line and the messages of others that begin in its middle.
    fn parts(&mut self, hit: &Hit, line: Line) -> Vec<Part> {
        let end = line.end as usize;
        let nccl = hit.nccl.map(|(l, d, b)| (l, d, b as usize));
        let mut parts =
            vec![Part { line: hit.line as usize, start: hit.text as usize, end, speaker: hit.speaker, nccl }];
        let from = hit.text as usize;
        let mut starts = Vec::new();
        let body = nccl.map_or(from, |n| n.2.min(end));
        if hit.torn && text::looks_torn(&self.view.bytes[body..end]) {
            text::mid_starts(&self.view.bytes[from..end], &mut starts);
        }
        for at in starts {
            let start = from + at as usize;
            if start <= from || start >= end {
                continue;
            }
            if let Some(previous) = parts.last_mut() {
                previous.end = start;
            }
            let prefix = text::split_prefix(&self.view.bytes[start..end]);
            let speaker = self.speaker_of(start, end, &prefix, hit.speaker);
            parts.push(Part {
                line: hit.line as usize,
                start: start + prefix.len as usize,
                end,
                speaker,
                nccl: None,
            });
        }
        parts
    }

    /// The speaker of a part that stands behind another's text.
    fn speaker_of(&mut self, start: usize, end: usize, prefix: &text::Prefix, outer: u32) -> u32 {
        if prefix.len == 0 {
            // Without a mark of its own it is by whoever wraps the line, but not by its NCCL process.
            let mut who = self.who(outer).clone();
            who.process = None;
            return self.intern(who);
        }
        let who = text::who(&self.view.bytes[start..end], prefix, b"");
        self.intern(who)
    }

    fn who(&self, speaker: u32) -> &Who {
        let known = self.scanned.speakers.len() as u32;
        match speaker.checked_sub(known) {
            Some(extra) => &self.extra[extra as usize],
            None => &self.scanned.speakers[speaker as usize].who,
        }
    }

    fn intern(&mut self, who: Who) -> u32 {
        if let Some(at) = self.scanned.speakers.iter().take(64).position(|s| s.who == who) {
            return at as u32;
        }
        if let Some(&at) = self.extra_by.get(&who) {
            return at;
        }
        let at = (self.scanned.speakers.len() + self.extra.len()) as u32;
        self.extra_by.insert(who.clone(), at);
        self.extra.push(who);
        at
    }

    fn part(&mut self, mut part: Part) {
        let text = &self.view.bytes[part.start..part.end];
        let mut time = None;
        if part.nccl.is_none()
            && let Some(h) = text::nccl_header(text)
        {
            if let Some(span) = h.time {
                time = text::stamp(&text[span.0 as usize..span.1 as usize]).map(|s| s.0);
            }
            let host = String::from_utf8_lossy(&text[h.host.0 as usize..h.host.1 as usize]).into_owned();
            if h.pid.is_some() || !host.is_empty() {
                let mut who = self.who(part.speaker).clone();
                who.process = Some(format!("{host}:{}", h.pid.map(|p| p.to_string()).unwrap_or_default()));
                part.speaker = self.intern(who);
            }
            part.nccl = Some((h.level, h.dev.unwrap_or(-1), part.start + h.body as usize));
        }
        match part.nccl {
            Some((level, dev, body)) => self.nccl(part, level, dev, body, time),
            None => self.plain(part),
        }
    }

    fn nccl(&mut self, part: Part, level: Level, dev: i32, body: usize, time: Option<Stamp>) {
        let text = &self.view.bytes[body.min(part.end)..part.end];
        let warn = is_warn(level);
        let asked = if warn { Asked::Warn } else { Asked::Info };
        let mut found = self.find(asked, text);
        if let (true, true, Some(id)) = (found.is_empty(), warn, self.ids.unknown_warn) {
            let fields = vec![(self.ids.text, boxed(&text[..text.len().min(300)]))];
            found.push(Found { message: id, form: 0, at: (0, 0), fields, index: 0 });
        }
        let time = time.or_else(|| self.time(part));
        for mut f in found {
            self.near(part, &mut f);
            self.push(part, f, Via::Line, (dev >= 0).then_some(dev), time);
        }
    }

    fn plain(&mut self, part: Part) {
        let raw = &self.view.bytes[part.start..part.end];
        let time = self.time(part);
        if raw.is_empty() {
            return;
        }
        if self.after_last_error(part) {
            let found = self.catalogue.find(Asked::Warn, raw, true);
            if !found.is_empty() {
                for f in found {
                    self.push(part, f, Via::LastError, None, time);
                }
                return;
            }
        }
        let body = text::pylog(raw).map_or(0, |p| p.body as usize).min(raw.len());
        let text = String::from_utf8_lossy(&raw[body..raw.len().min(body + QUOTE)]);
        let plain = text.trim_start_matches("**").to_string();
        let before = self.told.len();
        let in_traceback = !plain.starts_with(' ') && self.in_traceback(part);
        if let Some(named) = exceptions::named(&plain, in_traceback) {
            let (kind, words) = (named.kind.to_string(), named.text.to_string());
            self.exception(part, &raw[body..], kind, words, time);
            return;
        }
        if plain.starts_with("Traceback (most") {
            self.traceback(part);
        }
        let mut found = self.find(Asked::Line, raw);
        let known =
            found.iter().any(|f| self.catalogue.messages[usize::from(f.message)].kind == Kind::Setting);
        if self.full && !known {
            self.command_line(part, &plain);
        }
        if found.is_empty() {
            found = self.catalogue.find_bare(raw);
            for f in found {
                self.push(part, f, Via::Bare, None, time);
            }
            if self.told.len() == before {
                self.unknown(part, &plain, time);
            }
            return;
        }
        for mut f in found {
            self.near(part, &mut f);
            self.push(part, f, Via::Line, None, time);
        }
    }

    /// Variables that a command line sets.
    fn command_line(&mut self, part: Part, text: &str) {
        let Some(message) = self.ids.listed else { return };
        for (name, value) in super::settings::assignments(text) {
            let fields = vec![(self.ids.name, name.into()), (self.ids.value, value.into())];
            let f = Found { message, form: 0, at: (0, 0), fields, index: 0 };
            self.push(part, f, Via::Line, None, None);
        }
    }

    fn unknown(&mut self, part: Part, text: &str, time: Option<Stamp>) {
        let Some(id) = self.ids.unknown else { return };
        if text.len() < 600 && trouble::looks_like(&self.catalogue.trouble, text) {
            let f = Found { message: id, form: 0, at: (0, 0), fields: Vec::new(), index: 0 };
            self.push(part, f, Via::Line, None, time);
        }
    }

    /// The end of a traceback is not always a line that any anchor finds: follow it from its head.
    fn traceback(&mut self, part: Part) {
        if self.full {
            return; // every line is looked at anyway
        }
        // Another head like it leads to other lines.
        self.own_words = false;
        let voice = self.voice(part);
        let top = self.view.line(part.line).start as usize + context::FORWARD.1;
        for i in part.line + 1..self.view.count().min(part.line + context::FORWARD.0) {
            let line = self.view.line(i);
            if line.end as usize > top {
                return;
            }
            let Some(said) = self.said_by(i, voice) else { continue };
            if exceptions::inside(&said) {
                continue;
            }
            if let Some(named) = exceptions::named(&said, true) {
                let (kind, words) = (named.kind.to_string(), named.text.to_string());
                let prefix = text::split_prefix(self.view.text(&line));
                let start = (line.start + prefix.len) as usize;
                let there =
                    Part { line: i, start, end: line.end as usize, speaker: part.speaker, nccl: None };
                let time = self.time(there);
                let raw = self.view.bytes[start..line.end as usize].to_vec();
                self.exception(there, &raw, kind, words, time);
                self.followed.insert(i as u32);
            }
            return;
        }
    }

    fn exception(&mut self, part: Part, text: &[u8], kind: String, words: String, time: Option<Stamp>) {
        let found = self.find(Asked::Exception, text);
        let mut fields: Vec<(FieldId, Box<str>)> =
            vec![(self.ids.kind, kind.into()), (self.ids.text, cut(&words, 400).into())];
        let mut frames = 0;
        let mut best: Option<(String, String, String)> = None;
        let mut chained = false;
        let traces = self.traces();
        for said in traces.then(|| self.before(part)).into_iter().flatten() {
            if let Some(Frame { file, line, func }) = exceptions::frame(&said) {
                frames += 1;
                let own = exceptions::own(file);
                if own || best.is_none() {
                    best = Some((file.into(), line.into(), func.into()));
                }
                if own {
                    break;
                }
            } else if said.starts_with("Traceback (most") || (!exceptions::inside(&said) && frames > 0) {
                break;
            } else if said.starts_with("During handling of") || said.starts_with("The above exception was") {
                chained = true;
                break;
            }
        }
        if let Some((file, line, func)) = best {
            fields.extend([
                (self.ids.file, file.into()),
                (self.ids.line, line.into()),
                (self.ids.func, func.into()),
            ]);
        }
        if let Some(how) = if chained { Some("outer") } else { self.before_head(part) } {
            fields.push((self.ids.handled, how.into()));
        }
        // What merely says that work goes on claims no exception.
        let claims = |f: &&Found| {
            let entry = &self.catalogue.messages[usize::from(f.message)];
            entry.kind != Kind::Step && entry.role != Role::Fact
        };
        if let Some(claim) = found.iter().find(claims) {
            let id = self.catalogue.messages[usize::from(claim.message)].id.clone();
            fields.push((self.ids.claimed, id.into()));
        }
        for mut f in found {
            self.near(part, &mut f);
            self.push(part, f, Via::Line, None, time);
        }
        if let Some(message) = self.ids.exception {
            let f = Found { message, form: 0, at: (0, 0), fields, index: 0 };
            self.push(part, f, Via::Line, None, time);
        }
    }

    /// The messages that a text is.
    fn find(&mut self, asked: Asked, text: &[u8]) -> Vec<Found> {
        if self.full {
            return self.catalogue.find(asked, text, true);
        }
        self.alike.find(self.catalogue, asked, text)
    }

    fn time(&self, part: Part) -> Option<Stamp> {
        let line = self.view.line(part.line);
        line_time(self.view.text(&line), &self.view.bytes[part.start..part.end])
    }

    fn push(&mut self, part: Part, found: Found, via: Via, dev: Option<i32>, time: Option<Stamp>) {
        let entry = &self.catalogue.messages[usize::from(found.message)];
        let whole = (Some(found.message) == self.ids.unknown).then(|| {
            let line = self.view.line(part.line);
            quote(self.view, &line, part.start, part.end).0
        });
        let apart = self.catalogue.apart(found.message, &found.fields, &whole.unwrap_or_default());
        self.told.push((found.message, apart));
        self.own_words &= part.speaker == self.speaker;
        // The end of a traceback is found from its head and by itself.
        if part.nccl.is_none()
            && Some(found.message) != self.ids.listed
            && !self.seen.insert((part.start as u32, found.message))
        {
            return;
        }
        let scanned = part.nccl.is_some() && self.counted == Some(found.message);
        if entry.bulk && !scanned && self.view.own.contains(&part.line) {
            let place = (part.line as u32, part.start as u32, part.end as u32);
            self.bulk.add((found.message, part.speaker), place);
        }
        // What begins in the first lines may have been found by the block before, at a traceback's end.
        let first = if part.nccl.is_some() { 0 } else { context::FORWARD.0 };
        let own = (self.view.own.start + first..self.view.own.end).contains(&part.line);
        if own && self.needs_no_event((found.message, part.speaker, apart), part.line as u32) {
            return;
        }
        self.add(part, found, via, dev, time);
    }

    fn add(&mut self, part: Part, found: Found, via: Via, dev: Option<i32>, time: Option<Stamp>) {
        let line = self.view.line(part.line);
        let (text, cut) = quote(self.view, &line, part.start, part.end);
        // Order within the physical line, whatever block it was read in.
        let first = (0..part.line)
            .rev()
            .map(|i| self.view.line(i))
            .take_while(|l| l.no == line.no)
            .last()
            .unwrap_or(line);
        let sub = part.start as u32 - first.start;
        self.out.push(Event {
            message: found.message,
            form: found.form,
            via,
            line: i64::from(line.no) as u64,
            sub,
            speaker: part.speaker,
            dev,
            time,
            fields: found.fields,
            text,
            cut,
            count: 1,
            last_line: i64::from(line.no) as u64,
        });
    }

    fn finish(mut self, piece: &Piece<'_>) -> Yield {
        let mut events = std::mem::take(&mut self.out);
        events.sort_by_key(|e| (e.line as i64, e.sub));
        let more = self.folds.take(|line| i64::from(self.view.line(line as usize).no) as u64);
        let extra = std::mem::take(&mut self.extra).into_iter();
        let speakers =
            extra.map(|who| Spoken { who, count: 0, first: None, last: Last::default() }).collect();
        let scanned = self.scanned.bulk.iter().map(|b| BulkCount {
            message: b.message,
            speaker: b.speaker,
            part: b.part,
            count: b.count,
            last: said(self.view, b.last),
            before: None,
        });
        let bulk = scanned.chain(self.bulk.take(self.view));
        Yield {
            bulk: bulk.collect(),
            speakers,
            events,
            more,
            ends: self.view.ends,
            full: self.full,
            tail: piece.buffer[..piece.core].last().is_some_and(|&b| b != b'\n'),
        }
    }
}

fn is_warn(level: Level) -> bool {
    matches!(level, Level::Warn | Level::Error | Level::Abort)
}
