//! The two readers of a block: the **gate** finds the lines that may mean
//! something, the **pulse** keeps who spoke when. Every line is touched once:
//! its end and its first bytes. Neighbours: `prefix` and `header` tell who
//! speaks, `clean` repairs blocks that need it, `shape` says which do; what a
//! hit means is the catalogue's business. `anchors` is the search of the
//! gate, `heads` spares the pulse the headers that it knows.

mod anchors;
mod heads;

use super::{Cleaned, Level, Prefix, ShapeFacts, clean, is_dirty, nccl_quick, split_prefix};
use anchors::Anchors;
use heads::{Head, Heads};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::hash::Hasher;

/// A piece of a source with what stands around it.
#[derive(Debug)]
pub struct Piece<'a> {
    /// Lines before, the block, lines after.
    pub buffer: &'a [u8],
    /// The block within it: lines that begin here are its own.
    pub core: std::ops::Range<usize>,
    /// Whether every line is looked at (the ends of a source) or only those that the gate finds.
    pub full: bool,
    /// Whether the first line of the block began before it.
    pub mid_line: bool,
}

/// Text as the catalogue sees it: cleaned where it had to be, with the way back.
#[derive(Debug)]
pub struct View<'a> {
    /// Bytes in which all spans of [`Line`] lie.
    pub bytes: Cow<'a, [u8]>,
    lines: Lines,
    /// The block's own lines.
    pub own: std::ops::Range<usize>,
    /// Line ends in the block's raw bytes.
    pub ends: u64,
    buffer: &'a [u8],
}

/// All logical lines, those around the block included.
#[derive(Debug)]
enum Lines {
    /// The lines of a buffer that needed no cleaning: where each begins, and the number of the first.
    Plain(Vec<u32>, i32),
    /// Others.
    Clean(Vec<Line>),
}

/// A logical line.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    /// Span in [`View::bytes`], without its end.
    pub start: u32,
    /// See `start`.
    pub end: u32,
    /// Physical line, counted from the block's first line (0); negative before it.
    pub no: i32,
    /// Span in the raw buffer.
    pub raw: (u32, u32),
}

impl View<'_> {
    /// How many lines there are, those around the block included.
    #[must_use]
    pub fn count(&self) -> usize {
        match &self.lines {
            Lines::Plain(starts, _) => starts.len(),
            Lines::Clean(lines) => lines.len(),
        }
    }

    /// The line at `index`, which is below [`View::count`].
    #[must_use]
    #[inline]
    pub fn line(&self, index: usize) -> Line {
        match &self.lines {
            Lines::Plain(starts, first) => {
                let start = starts[index];
                let mut end = match starts.get(index + 1) {
                    Some(next) => next - 1,
                    None => self.buffer.len() as u32 - u32::from(self.buffer.ends_with(b"\n")),
                };
                if end > start && self.buffer[end as usize - 1] == b'\r' {
                    end -= 1;
                }
                Line { start, end, no: first + index as i32, raw: (start, end) }
            }
            Lines::Clean(lines) => lines[index],
        }
    }

    /// The line's text.
    #[must_use]
    pub fn text(&self, line: &Line) -> &[u8] {
        &self.bytes[line.start as usize..line.end as usize]
    }

    /// The line as it stands in the input.
    #[must_use]
    pub fn raw(&self, line: &Line) -> &[u8] {
        &self.buffer[line.raw.0 as usize..line.raw.1 as usize]
    }
}

/// Who speaks, by what stands before the text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who {
    /// Global for sure.
    pub rank: Option<u32>,
    /// A bare number: task or node, decided later.
    pub label: Option<u32>,
    /// Local rank.
    pub local: Option<u32>,
    /// Process id that a wrapper printed.
    pub pid: Option<u32>,
    /// Host or pod that a wrapper printed.
    pub host: Option<String>,
    /// Worker's name.
    pub name: Option<String>,
    /// NCCL's `host:pid`.
    pub process: Option<String>,
}

/// What a speaker said in the block.
#[derive(Debug, Clone)]
pub struct Spoke {
    /// Who.
    pub who: Who,
    /// Lines.
    pub count: u64,
    /// First line, as [`View::line`] counts.
    pub first: u32,
    /// Last four, oldest first, as far as there are so many.
    pub last: [u32; 4],
}

/// A line that may mean something.
#[derive(Debug, Clone, Copy)]
pub struct Hit {
    /// Line, as [`View::line`] counts.
    pub line: u32,
    /// Index into [`Scanned::speakers`].
    pub speaker: u32,
    /// Where the text behind the launcher's prefix begins, in [`View::bytes`].
    pub text: u32,
    /// Behind an NCCL header: its level, the device and where the body begins.
    pub nccl: Option<(Level, i32, u32)>,
    /// Message that the opening of an INFO line names.
    pub opening: Option<Opened>,
    /// Another writer's message may begin in the middle, and may mean something.
    pub torn: bool,
    /// The line itself is counted already: only what begins in its middle is news.
    pub counted: bool,
}

/// What an INFO text opens with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Message.
    pub message: u16,
    /// Whether its lines are only counted.
    pub bulk: bool,
    /// A number for the opening itself.
    pub which: u32,
}

/// Lines of a bulk message: counted, only the first is a hit.
#[derive(Debug, Clone, Copy)]
pub struct Bulk {
    /// Message.
    pub message: u16,
    /// Speaker.
    pub speaker: u32,
    /// How many, the first included.
    pub count: u64,
    /// Last line, as [`View::line`] counts.
    pub last: u32,
}

/// What the two readers found.
#[derive(Debug, Default)]
pub struct Scanned {
    /// Who spoke.
    pub speakers: Vec<Spoke>,
    /// In order of lines.
    pub hits: Vec<Hit>,
    /// Bulk lines by message and speaker.
    pub bulk: Vec<Bulk>,
}

/// What an INFO text opens.
pub type Opening<'a> = &'a dyn Fn(&[u8]) -> Option<Opened>;

/// Room that is used again for the next block.
#[derive(Debug, Default)]
pub struct Scratch {
    heads: Heads,
    starts: Vec<u32>,
    found: Vec<u32>,
    run: Vec<Plain>,
}

/// A line without an NCCL header whose text is still to be searched for anchors.
#[derive(Debug, Clone, Copy)]
struct Plain {
    line: u32,
    speaker: u32,
    text: u32,
    end: u32,
}

/// Lines that are searched at once.
const RUN: usize = 512;

/// The gate, compiled.
#[derive(Debug)]
pub struct Scanner {
    anchors: Anchors,
}

/// More speakers than this in one block are one: a log whose every line has another prefix has none.
/// No fewer than are kept of a source, so that it does not matter how the source was cut.
const SPEAKERS: usize = 40_000;

impl Scanner {
    /// For the anchors; those beyond 64 go into a second, slower gate.
    #[must_use]
    pub fn new(anchors: &[String]) -> Self {
        Self { anchors: Anchors::new(anchors) }
    }

    /// Reads one piece.
    #[must_use]
    pub fn scan<'a>(
        &self,
        piece: &Piece<'a>,
        facts: &ShapeFacts,
        opening: Opening<'_>,
        scratch: &mut Scratch,
    ) -> (View<'a>, Scanned) {
        let view = view(piece, facts, std::mem::take(&mut scratch.starts));
        scratch.heads.clear();
        let mut reader = Reader {
            view: &view,
            anchors: (!piece.full).then_some(&self.anchors),
            out: Scanned::default(),
            by_key: FxHashMap::default(),
            last: None,
            bulk: Vec::new(),
            scratch,
            slurm: None,
            opening,
        };
        for index in view.own.clone() {
            reader.line(index, view.line(index));
        }
        let mut scanned = reader.finish();
        scanned.hits.sort_by_key(|h| (h.line, h.text));
        (view, scanned)
    }
}

impl Scratch {
    /// Takes back what a view no longer needs.
    pub fn reuse(&mut self, view: View<'_>) {
        if let Lines::Plain(starts, _) = view.lines {
            self.starts = starts;
        }
    }
}

/// Splits the buffer into logical lines, cleaning it first where it needs it.
fn view<'a>(piece: &Piece<'a>, facts: &ShapeFacts, room: Vec<u32>) -> View<'a> {
    let before = memchr::memchr_iter(b'\n', &piece.buffer[..piece.core.start]).count() as i32;
    if !needs_cleaning(piece.buffer, facts) {
        let starts = starts(piece.buffer, room);
        let from = starts.partition_point(|s| (*s as usize) < piece.core.start);
        let to = starts.partition_point(|s| (*s as usize) < piece.core.end);
        // Each line of the block but the last one ends in it, and so may the one that began before.
        let inside = (to.max(from) - from) as u64;
        let torn = piece.core.start > 0
            && piece.buffer[piece.core.start - 1] != b'\n'
            && memchr::memchr(b'\n', &piece.buffer[piece.core.clone()]).is_some();
        let open = inside > 0 && piece.buffer[piece.core.end - 1] != b'\n';
        return View {
            bytes: Cow::Borrowed(piece.buffer),
            lines: Lines::Plain(starts, -before),
            own: from..to.max(from),
            ends: inside + u64::from(torn) - u64::from(open),
            buffer: piece.buffer,
        };
    }
    let ends = memchr::memchr_iter(b'\n', &piece.buffer[piece.core.clone()]).count() as u64;
    let Cleaned { bytes, lines } = clean(piece.buffer, facts);
    let mut start = 0;
    let mut out = Vec::with_capacity(lines.len());
    for l in &lines {
        out.push(Line { start, end: l.end, no: l.no as i32 - before, raw: l.raw });
        start = l.end + 1;
    }
    let from = out.partition_point(|l| (l.raw.0 as usize) < piece.core.start);
    let to = out.partition_point(|l| (l.raw.0 as usize) < piece.core.end);
    let (bytes, lines) = (Cow::Owned(bytes), Lines::Clean(out));
    View { bytes, lines, own: from..to.max(from), ends, buffer: piece.buffer }
}

/// One search tells of most blocks that they are clean.
fn needs_cleaning(buffer: &[u8], facts: &ShapeFacts) -> bool {
    let plain = !(facts.json || facts.cri || facts.padded || facts.bare_ansi || facts.mpi_tags)
        && facts.wrap.is_none();
    !(plain && memchr::memchr3(0x1b, 0, b'\r', buffer).is_none()) && is_dirty(buffer, facts)
}

/// Where lines begin.
fn starts(buffer: &[u8], mut starts: Vec<u32>) -> Vec<u32> {
    starts.clear();
    if !buffer.is_empty() {
        starts.push(0);
    }
    starts.extend(memchr::memchr_iter(b'\n', buffer).map(|end| end as u32 + 1));
    if starts.last().is_some_and(|&s| s as usize >= buffer.len()) {
        starts.pop();
    }
    starts
}

struct Reader<'v, 'b> {
    view: &'v View<'b>,
    /// What is searched for; nothing where every line is a hit.
    anchors: Option<&'v Anchors>,
    out: Scanned,
    by_key: FxHashMap<u64, u32>,
    last: Option<(u64, u32)>,
    /// For each speaker: messages and where they are counted. Nobody has many.
    bulk: Vec<Vec<(u16, u32)>>,
    scratch: &'v mut Scratch,
    /// Whether any line of the block holds an error of Slurm.
    slurm: Option<bool>,
    opening: Opening<'v>,
}

impl Reader<'_, '_> {
    #[inline]
    fn line(&mut self, index: usize, line: Line) {
        let view = self.view;
        let text = view.text(&line);
        if let Some(head) = self.scratch.heads.get(text) {
            self.spoke(head.speaker, index as u32);
            self.info(index as u32, line, text, head, Level::Info);
            return;
        }
        self.read(index as u32, line, text);
    }

    /// Reads what stands before the text.
    fn read(&mut self, index: u32, line: Line, text: &[u8]) {
        let prefix = split_prefix(text);
        let rest = &text[prefix.len as usize..];
        let Some(q) = nccl_quick(rest) else {
            let speaker = self.speaker(text, &prefix, &[], index);
            self.plain(Plain { line: index, speaker, text: line.start + prefix.len, end: line.end });
            return;
        };
        let process = &rest[q.proc.0 as usize..q.proc.1 as usize];
        let speaker = self.speaker(text, &prefix, process, index);
        let head = Head { speaker, prefix: prefix.len, body: prefix.len + q.body, dev: q.dev };
        if q.warn {
            let nccl = Some((q.level, q.dev, line.start + head.body));
            let text = line.start + prefix.len;
            let hit = Hit { line: index, speaker, text, nccl, opening: None, torn: true, counted: false };
            self.out.hits.push(hit);
            return;
        }
        if q.level == Level::Info {
            self.scratch.heads.put(text, head);
        }
        self.info(index, line, text, head, q.level);
    }

    /// A line behind an NCCL header that is no WARN.
    #[inline]
    fn info(&mut self, index: u32, line: Line, text: &[u8], head: Head, level: Level) {
        let body = &text[head.body as usize..];
        let opening = (self.opening)(body);
        let bulk = opening.is_some_and(|o| o.bulk);
        let counted = match opening {
            Some(o) if o.bulk => !self.count_bulk(o.message, head.speaker, index),
            _ => false,
        };
        // Its own text is known by its opening; anchors matter for what others wrote into it.
        let torn = (bulk || opening.is_none()) && self.torn(body, text);
        let looked_at = self.anchors.is_none() || torn || opening.is_some() && !counted;
        if !looked_at {
            return;
        }
        self.out.hits.push(Hit {
            line: index,
            speaker: head.speaker,
            text: line.start + head.prefix,
            nccl: Some((level, head.dev, line.start + head.body)),
            opening,
            torn: torn || !bulk || self.anchors.is_none(),
            counted,
        });
    }

    /// Whether another writer's message begins in a text, and the line holds an anchor.
    #[inline]
    fn torn(&mut self, body: &[u8], line: &[u8]) -> bool {
        let Some(anchors) = self.anchors else { return false };
        let view = self.view;
        let slurm =
            *self.slurm.get_or_insert_with(|| memchr::memmem::find(&view.bytes, b": error: ").is_some());
        if !may_be_torn(body) && !(slurm && memchr::memmem::find(body, b": error: ").is_some()) {
            return false;
        }
        anchors.find(line, &mut self.scratch.found);
        !self.scratch.found.is_empty()
    }

    /// A line without an NCCL header: searched together with those that follow it.
    #[inline]
    fn plain(&mut self, plain: Plain) {
        let run = &mut self.scratch.run;
        if run.last().is_some_and(|l| l.line + 1 != plain.line) || run.len() >= RUN {
            self.search();
        }
        self.scratch.run.push(plain);
    }

    /// Searches the lines that wait for it.
    fn search(&mut self) {
        let view = self.view;
        let Scratch { run, found, .. } = &mut *self.scratch;
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
        let from = view.line(first.line as usize).start;
        if let Some(anchors) = self.anchors {
            anchors.find(&view.bytes[from as usize..last.end as usize], found);
        }
        let mut found = found.iter().map(|at| from + at).peekable();
        for p in run.drain(..) {
            let mut hit = self.anchors.is_none();
            while found.next_if(|&at| at < p.end).is_some() {
                hit = true;
            }
            if hit {
                self.out.hits.push(Hit {
                    line: p.line,
                    speaker: p.speaker,
                    text: p.text,
                    nccl: None,
                    opening: None,
                    torn: true,
                    counted: false,
                });
            }
        }
    }

    /// Counts a bulk line; true for the first of its speaker in this block.
    fn count_bulk(&mut self, message: u16, speaker: u32, line: u32) -> bool {
        let at = speaker as usize;
        if at >= self.bulk.len() {
            self.bulk.resize_with(at + 1, Vec::new);
        }
        if let Some((_, at)) = self.bulk[at].iter().find(|b| b.0 == message) {
            let bulk = &mut self.out.bulk[*at as usize];
            bulk.count += 1;
            bulk.last = line;
            return false;
        }
        self.bulk[at].push((message, self.out.bulk.len() as u32));
        self.out.bulk.push(Bulk { message, speaker, count: 1, last: line });
        true
    }

    fn speaker(&mut self, text: &[u8], prefix: &Prefix, process: &[u8], line: u32) -> u32 {
        let key = key(text, prefix, process);
        let speaker = match self.last {
            Some((k, s)) if k == key => s,
            _ => self.known(key, text, prefix, process, line),
        };
        self.last = Some((key, speaker));
        self.spoke(speaker, line);
        speaker
    }

    #[inline]
    fn spoke(&mut self, speaker: u32, line: u32) {
        let spoke = &mut self.out.speakers[speaker as usize];
        let at = (spoke.count % 4) as usize;
        spoke.last[at] = line;
        spoke.count += 1;
    }

    fn known(&mut self, key: u64, text: &[u8], prefix: &Prefix, process: &[u8], line: u32) -> u32 {
        if let Some(&s) = self.by_key.get(&key) {
            return s;
        }
        let full = self.out.speakers.len() >= SPEAKERS;
        let (key, who) = if full { (u64::MAX, Who::default()) } else { (key, who(text, prefix, process)) };
        *self.by_key.entry(key).or_insert_with(|| {
            self.out.speakers.push(Spoke { who, count: 0, first: line, last: [0; 4] });
            self.out.speakers.len() as u32 - 1
        })
    }

    fn finish(mut self) -> Scanned {
        self.search();
        for spoke in &mut self.out.speakers {
            if spoke.count >= 4 {
                spoke.last.rotate_left((spoke.count % 4) as usize);
            }
        }
        self.out
    }
}

/// Whether a message of another may begin in an NCCL text: cheap, and no rarer than `mid_starts` finds one
/// (but for Slurm's).
#[inline]
fn may_be_torn(body: &[u8]) -> bool {
    memchr::memchr_iter(b'[', body).any(|at| match body.get(at + 1) {
        Some(b'r') => body[at..].starts_with(b"[rank"),
        Some(b'E' | b'W' | b'I' | b'F') => true,
        // `HOST:PID:TID [3] `
        Some(b'0'..=b'9' | b'-') => {
            at >= 6 && body[at - 1] == b' ' && {
                let figures = body[..at - 1].iter().rev().take_while(|b| b.is_ascii_digit()).count();
                figures > 0 && at >= figures + 2 && body[at - 2 - figures] == b':'
            }
        }
        _ => false,
    })
}

/// A number that is the same for the same speaker.
fn key(text: &[u8], prefix: &Prefix, process: &[u8]) -> u64 {
    let mut h = rustc_hash::FxHasher::default();
    if prefix.len > 0 {
        for (n, v) in [prefix.rank, prefix.label, prefix.local, prefix.pid].into_iter().enumerate() {
            h.write_u64((n as u64) << 40 | v.map_or(1 << 39, u64::from));
        }
        for span in [prefix.host, prefix.name].into_iter().flatten() {
            h.write(&text[span.0 as usize..span.1 as usize]);
            h.write_u8(0xff);
        }
    }
    h.write(process);
    // FxHasher is weak in its low bits for short keys: finish with a mix.
    let k = h.finish();
    (k ^ (k >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Who speaks, by a prefix and NCCL's `host:pid`.
#[must_use]
pub fn who(text: &[u8], prefix: &Prefix, process: &[u8]) -> Who {
    let cut = |span: Option<(u32, u32)>| {
        span.map(|s| String::from_utf8_lossy(&text[s.0 as usize..s.1 as usize]).into_owned())
    };
    Who {
        rank: prefix.rank,
        label: prefix.label,
        local: prefix.local,
        pid: prefix.pid,
        host: cut(prefix.host),
        name: cut(prefix.name),
        process: (!process.is_empty()).then(|| String::from_utf8_lossy(process).into_owned()),
    }
}
