//! From a block's hits to events: which message a line is, what its fields
//! are, what the lines around it add (frames of a traceback, rows of a table,
//! the text behind `Last error:`).

use super::compile::{Asked, Catalogue, Found};
use super::event::{BulkCount, Event, Said, Speaker, Via, Yield};
use super::exceptions::{self, Frame};
use super::{FieldId, MessageId, built_in};
use crate::base::Stamp;
use crate::knowledge::{Kind, Role};
use crate::text::{self, Hit, Level, Line, Piece, Scanned, Scanner, ShapeFacts, View, Who};
use rustc_hash::{FxHashMap, FxHashSet};
use std::hash::{Hash, Hasher};

/// Longest quoted text.
const QUOTE: usize = 4 << 10;
/// How far back a traceback is followed, in lines and bytes.
const BACK: (usize, usize) = (240, 16 << 10);
/// How far forward a traceback is followed for its last line.
const FORWARD: (usize, usize) = (600, 60 << 10);
/// Equal lines of one speaker in a block that are looked at; the rest is counted.
const FLOOD: u32 = 8;

/// Reads one piece of a source.
#[must_use]
pub fn read(catalogue: &Catalogue, scanner: &Scanner, facts: &ShapeFacts, piece: &Piece<'_>) -> Yield {
    let (view, scanned) = scanner.scan(piece, facts, &|text| catalogue.opening(text));
    let mut reader = Reader::new(catalogue, &view, &scanned, piece.full);
    for hit in &scanned.hits {
        reader.hit(hit);
    }
    reader.finish(piece)
}

struct Reader<'r, 'b> {
    catalogue: &'r Catalogue,
    view: &'r View<'b>,
    scanned: &'r Scanned,
    full: bool,
    out: Vec<Event>,
    /// Whether the lines beside the one at hand were asked too.
    looked_around: bool,
    /// Lines that were reached from the head of their traceback.
    followed: FxHashSet<u32>,
    extra: Vec<Who>,
    extra_by: FxHashMap<Who, u32>,
    /// For equal lines of one speaker: how many were looked at, and the events of the latest.
    flood: FxHashMap<(u32, u64), (u32, std::ops::Range<usize>)>,
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
    fn new(catalogue: &'r Catalogue, view: &'r View<'b>, scanned: &'r Scanned, full: bool) -> Self {
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
            out: Vec::new(),
            looked_around: false,
            followed: FxHashSet::default(),
            extra: Vec::new(),
            extra_by: FxHashMap::default(),
            flood: FxHashMap::default(),
            ids,
        }
    }

    fn hit(&mut self, hit: &Hit) {
        if self.followed.contains(&hit.line) {
            return;
        }
        let line = self.view.lines[hit.line as usize];
        let key = (!self.full)
            .then(|| (hit.speaker, squashed(&self.view.bytes[hit.text as usize..line.end as usize])));
        if let Some(key) = key
            && let Some((n, events)) = self.flood.get(&key)
            && *n >= FLOOD
        {
            let no = i64::from(line.no) as u64;
            for event in &mut self.out[events.clone()] {
                event.count += 1;
                event.last_line = no;
            }
            return;
        }
        let before = self.out.len();
        self.looked_around = false;
        for part in self.parts(hit, line) {
            self.part(part);
        }
        // Equal lines whose neighbours say whose they are, are not equal.
        if let Some(key) = key
            && !self.looked_around
        {
            let entry = self.flood.entry(key).or_default();
            *entry = (entry.0 + 1, before..self.out.len());
        }
    }

    /// The line and the messages of others that begin in its middle.
    fn parts(&mut self, hit: &Hit, line: Line) -> Vec<Part> {
        let end = line.end as usize;
        let nccl = hit.nccl.map(|(l, d, b)| (l, d, b as usize));
        let mut parts =
            vec![Part { line: hit.line as usize, start: hit.text as usize, end, speaker: hit.speaker, nccl }];
        let from = hit.text as usize;
        let mut starts = Vec::new();
        text::mid_starts(&self.view.bytes[from..end], &mut starts);
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
            let mut who = self.who(outer);
            who.process = None;
            return self.intern(who);
        }
        let who = text::who(&self.view.bytes[start..end], prefix, b"");
        self.intern(who)
    }

    fn who(&self, speaker: u32) -> Who {
        let known = self.scanned.speakers.len() as u32;
        match speaker.checked_sub(known) {
            Some(extra) => self.extra[extra as usize].clone(),
            None => self.scanned.speakers[speaker as usize].who.clone(),
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
                let mut who = self.who(part.speaker);
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
        let warn = matches!(level, Level::Warn | Level::Error | Level::Abort);
        let asked = if warn { Asked::Warn } else { Asked::Info };
        let mut found = self.catalogue.find(asked, text, self.full);
        if found.is_empty() && warn {
            if let Some(id) = self.ids.unknown_warn {
                let fields =
                    vec![(self.ids.text, String::from_utf8_lossy(&text[..text.len().min(300)]).into())];
                found.push(Found { message: id, form: 0, at: (0, 0), fields, index: 0 });
            }
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
        let before = self.out.len();
        let in_traceback = !plain.starts_with(' ') && self.in_traceback(part);
        if let Some(named) = exceptions::named(&plain, in_traceback) {
            let (kind, words) = (named.kind.to_string(), named.text.to_string());
            self.exception(part, &raw[body..], kind, words, time);
            return;
        }
        if plain.starts_with("Traceback (most") {
            self.traceback(part);
        }
        let mut found = self.catalogue.find(Asked::Line, raw, self.full);
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
            if self.out.len() == before {
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
        if text.len() < 600 && looks_like_trouble(text) {
            let f = Found { message: id, form: 0, at: (0, 0), fields: Vec::new(), index: 0 };
            self.push(part, f, Via::Line, None, time);
        }
    }

    /// Whether the speaker's line before (the last one that is not empty) is `Last error:`.
    fn after_last_error(&self, part: Part) -> bool {
        self.back(part).take(3).find(|t| !t.trim().is_empty()).is_some_and(|t| t.trim() == "Last error:")
    }

    fn in_traceback(&self, part: Part) -> bool {
        let mut lines = self.back(part);
        match lines.next() {
            Some(t) if exceptions::frame(&t).is_some() || t.trim_start().starts_with("^^") => true,
            Some(t) if t.starts_with("    ") => {
                lines.take(3).any(|t| exceptions::frame(&t).is_some() || t.starts_with("Traceback (most"))
            }
            _ => false,
        }
    }

    /// Lines of the same speaker before a part, nearest first, without prefix.
    fn back<'s>(&'s self, part: Part) -> impl Iterator<Item = String> + 's {
        let who = self.who(part.speaker);
        let floor = self.view.lines[part.line].start.saturating_sub(BACK.1 as u32);
        (0..part.line)
            .rev()
            .take(BACK.0)
            .map(|i| self.view.lines[i])
            .take_while(move |l| l.start >= floor)
            .filter_map(move |l| self.said_by(&l, &who))
    }

    /// The line's text when it is by that speaker.
    fn said_by(&self, line: &Line, who: &Who) -> Option<String> {
        let text = self.view.text(line);
        let prefix = text::split_prefix(text);
        let by = text::who(text, &prefix, b"");
        let same = by.rank == who.rank
            && by.label == who.label
            && by.local == who.local
            && by.pid == who.pid
            && by.host == who.host;
        if !same {
            return None;
        }
        let rest = &text[prefix.len as usize..];
        let body = text::pylog(rest).map_or(0, |p| p.body as usize).min(rest.len());
        Some(String::from_utf8_lossy(&rest[body..rest.len().min(body + 500)]).into_owned())
    }

    /// The end of a traceback is not always a line that any anchor finds: follow it from its head.
    fn traceback(&mut self, part: Part) {
        if self.full {
            return; // every line is looked at anyway
        }
        self.looked_around = true;
        let who = self.who(part.speaker);
        let top = self.view.lines[part.line].start as usize + FORWARD.1;
        for i in part.line + 1..self.view.lines.len().min(part.line + FORWARD.0) {
            let line = self.view.lines[i];
            if line.end as usize > top {
                return;
            }
            let Some(said) = self.said_by(&line, &who) else { continue };
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
        let found = self.catalogue.find(Asked::Exception, text, self.full);
        let mut fields: Vec<(FieldId, Box<str>)> =
            vec![(self.ids.kind, kind.into()), (self.ids.text, cut(&words, 400).into())];
        let mut frames = 0;
        let mut best: Option<(String, String, String)> = None;
        let mut chained = false;
        for said in self.back(part) {
            if let Some(Frame { file, line, func }) = exceptions::frame(&said) {
                frames += 1;
                let own = exceptions::own(file);
                if own || best.is_none() {
                    best = Some((file.into(), line.into(), func.into()));
                }
                if own {
                    break;
                }
            } else if said.starts_with("Traceback (most") {
                break;
            } else if !exceptions::inside(&said) && frames > 0 {
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

    /// What stands before this traceback's head: another exception of the same chain, or the words by which
    /// the interpreter says that it goes on.
    fn before_head(&self, part: Part) -> Option<&'static str> {
        let mut seen_head = false;
        for said in self.back(part) {
            if seen_head && !said.trim().is_empty() {
                let chained =
                    said.starts_with("During handling of") || said.starts_with("The above exception was");
                let ignored = said.starts_with("Exception ignored in");
                return if chained {
                    Some("outer")
                } else if ignored {
                    Some("ignored")
                } else {
                    None
                };
            }
            seen_head |= said.starts_with("Traceback (most");
        }
        None
    }

    fn near(&mut self, part: Part, found: &mut Found) {
        let patterns = self.catalogue.near(found);
        if patterns.is_empty() {
            return;
        }
        self.looked_around = true;
        let who = self.who(part.speaker);
        let from = part.line.saturating_sub(8);
        let to = (part.line + 9).min(self.view.lines.len());
        let around: Vec<String> = (from..part.line)
            .rev()
            .chain(part.line + 1..to)
            .filter_map(|i| self.said_by(&self.view.lines[i], &who))
            .collect();
        for regex in patterns {
            let _ = around.iter().any(|t| self.catalogue.add_near(regex, t.as_bytes(), found));
        }
    }

    fn time(&self, part: Part) -> Option<Stamp> {
        let line = self.view.lines[part.line];
        line_time(self.view.text(&line), &self.view.bytes[part.start..part.end])
    }

    fn push(&mut self, part: Part, found: Found, via: Via, dev: Option<i32>, time: Option<Stamp>) {
        let line = self.view.lines[part.line];
        let (text, cut) = quote(self.view, &line, part.start, part.end);
        // Order within the physical line, whatever block it was read in.
        let first = (0..part.line)
            .rev()
            .map(|i| self.view.lines[i])
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

    fn said(&self, index: u32) -> Said {
        let line = self.view.lines[index as usize];
        let raw = self.view.text(&line);
        let text = String::from_utf8_lossy(&raw[..raw.len().min(400)]);
        let prefix = text::split_prefix(raw);
        Said {
            line: i64::from(line.no) as u64,
            whole: raw.len() <= 400 && raw == self.view.raw(&line),
            text: text.into(),
            time: line_time(raw, &raw[prefix.len as usize..]),
        }
    }

    fn finish(mut self, piece: &Piece<'_>) -> Yield {
        let mut seen = FxHashSet::default();
        let mut events = std::mem::take(&mut self.out);
        events.retain(|e| Some(e.message) == self.ids.listed || seen.insert((e.line, e.sub, e.message)));
        events.sort_by_key(|e| (e.line as i64, e.sub));
        let mut speakers: Vec<Speaker> = self.scanned.speakers.iter().map(|s| self.spoke(s)).collect();
        speakers.extend(self.extra.iter().map(|who| Speaker {
            who: who.clone(),
            count: 0,
            first: None,
            last: Vec::new(),
        }));
        let bulk = self.scanned.bulk.iter().map(|b| BulkCount {
            message: b.message,
            speaker: b.speaker,
            count: b.count,
            last: self.said(b.last),
        });
        Yield {
            bulk: bulk.collect(),
            speakers,
            events,
            ends: self.view.ends,
            tail: piece.buffer[piece.core.clone()].last().is_some_and(|&b| b != b'\n'),
        }
    }

    fn spoke(&self, s: &text::Spoke) -> Speaker {
        let n = s.count.min(4) as usize;
        Speaker {
            who: s.who.clone(),
            count: s.count,
            first: Some(self.said(s.first)),
            last: s.last[..n].iter().map(|&l| self.said(l)).collect(),
        }
    }
}

/// Whether a line that no message knows looks like trouble. Generous: it decides no cause, only that a run
/// whose last lines look so did not simply go on.
fn looks_like_trouble(text: &str) -> bool {
    const TROUBLE: [&str; 22] = [
        "rror",
        "ailed",
        "ailure",
        "FAIL",
        "atal",
        "bort",
        "ABORT",
        "refused",
        "denied",
        "annot ",
        "nable to",
        "illed",
        "crash",
        "anicked",
        "iving up",
        "ack-off",
        "angup",
        "non-zero",
        "exit status ",
        "CANCELLED",
        "loss nan",
        "NaN",
    ];
    const FINE: [&str; 16] = [
        "0 error",
        "no error",
        "No error",
        "errors: 0",
        "error: 0",
        "error=0",
        "0 failed",
        "failed: 0",
        "failed=0",
        "without error",
        "error_rate",
        "exit status 0",
        "_error ",
        "fatal: 0",
        "nan iterations: 0",
        "error_file",
    ];
    TROUBLE.iter().any(|t| text.contains(t))
        && !FINE.iter().any(|f| text.contains(f))
        && !text.trim_start().starts_with("File \"")
}

/// The time that a line gives, in its prefix or its header.
fn line_time(line: &[u8], rest: &[u8]) -> Option<Stamp> {
    if let Some(g) = text::glog(rest) {
        if g.time.is_some() {
            return g.time;
        }
    } else if let Some(p) = text::pylog(rest)
        && p.time.is_some()
    {
        return p.time;
    }
    let prefix = text::split_prefix(line);
    if let Some(span) = prefix.time
        && let Some((stamp, _)) = text::stamp(&line[span.0 as usize..span.1 as usize])
    {
        return Some(stamp);
    }
    text::stamp(rest).map(|s| s.0)
}

/// The line as it stands in the input, cut round the part where it is long.
fn quote(view: &View<'_>, line: &Line, start: usize, end: usize) -> (Box<str>, bool) {
    let raw = view.raw(line);
    let logical = (line.end - line.start) as usize;
    if raw.len() <= QUOTE && (raw.len() < 1024 || raw.len() < logical * 2) {
        return (String::from_utf8_lossy(raw).trim_end_matches(['\r', '\n']).into(), false);
    }
    let clean = &view.bytes[line.start as usize..line.end as usize];
    if clean.len() <= QUOTE {
        return (String::from_utf8_lossy(clean).into(), true);
    }
    let from = start.saturating_sub(200).max(line.start as usize);
    let to = end.min(from + QUOTE).max(from);
    (String::from_utf8_lossy(&view.bytes[from..to]).into(), true)
}

/// A hash of a text in which figures count for nothing, except those behind `rank` or `task`.
fn squashed(text: &[u8]) -> u64 {
    let mut h = rustc_hash::FxHasher::default();
    let mut keep = false;
    let mut in_number = false;
    for (i, &b) in text.iter().take(512).enumerate() {
        if b.is_ascii_digit() {
            if !in_number {
                in_number = true;
                h.write_u8(b'0');
            }
            if keep {
                h.write_u8(b);
            }
        } else {
            in_number = false;
            h.write_u8(b);
            if b.is_ascii_alphabetic() && !(keep && b == b's') {
                let word = &text[..=i];
                keep = word.ends_with(b"ank") || word.ends_with(b"ask");
            }
        }
    }
    text.len().min(1).hash(&mut h);
    h.finish()
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_string(),
    }
}
