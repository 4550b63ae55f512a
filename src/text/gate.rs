//! The two readers of a block: the **gate** finds the lines that may mean
//! something, the **pulse** keeps who spoke when. Every line is touched once:
//! its end and its first bytes. Neighbours: `prefix` and `header` tell who
//! speaks, `clean` repairs blocks that need it, `shape` says which do; what a
//! hit means is the catalogue's business.

use super::{Cleaned, Level, Prefix, ShapeFacts, clean, is_dirty, nccl_quick, split_prefix};
use aho_corasick::packed;
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
    /// All logical lines, those around the block included.
    pub lines: Vec<Line>,
    /// The block's own lines.
    pub own: std::ops::Range<usize>,
    /// Line ends in the block's raw bytes.
    pub ends: u64,
    buffer: &'a [u8],
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
    /// First line, index into [`View::lines`].
    pub first: u32,
    /// Last four, oldest first, as far as there are so many.
    pub last: [u32; 4],
}

/// A line that may mean something.
#[derive(Debug, Clone, Copy)]
pub struct Hit {
    /// Index into [`View::lines`].
    pub line: u32,
    /// Index into [`Scanned::speakers`].
    pub speaker: u32,
    /// Where the text behind the launcher's prefix begins, in [`View::bytes`].
    pub text: u32,
    /// Behind an NCCL header: its level, the device and where the body begins.
    pub nccl: Option<(Level, i32, u32)>,
    /// Message that the opening of an INFO line names.
    pub opening: Option<u16>,
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
    /// Last line, index into [`View::lines`].
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

/// What an INFO text opens: message and whether it is bulk.
pub type Opening<'a> = &'a dyn Fn(&[u8]) -> Option<(u16, bool)>;

/// The gate, compiled.
#[derive(Debug)]
pub struct Scanner {
    gate: Option<packed::Searcher>,
    second: Option<aho_corasick::AhoCorasick>,
}

/// More speakers than this in one block are one. More than a block of usual size has lines, so that who is told apart
/// does not depend on the block; a source has a cap of its own.
const SPEAKERS: usize = 1 << 16;

impl Scanner {
    /// For the anchors; those beyond 64 go into a second, slower gate.
    #[must_use]
    pub fn new(anchors: &[String]) -> Self {
        let first = anchors.iter().take(64);
        let gate = packed::Config::new()
            .match_kind(packed::MatchKind::LeftmostFirst)
            .builder()
            .extend(first)
            .build();
        let rest: &[String] = if gate.is_some() { anchors.get(64..).unwrap_or_default() } else { anchors };
        let second = if rest.is_empty() { None } else { aho_corasick::AhoCorasick::new(rest).ok() };
        Self { gate, second }
    }

    /// Reads one piece.
    #[must_use]
    pub fn scan<'a>(
        &self,
        piece: &Piece<'a>,
        facts: &ShapeFacts,
        opening: Opening<'_>,
    ) -> (View<'a>, Scanned) {
        let view = view(piece, facts);
        let mut reader = Reader {
            view: &view,
            out: Scanned::default(),
            by_key: FxHashMap::default(),
            last: None,
            bulk: FxHashMap::default(),
            opening,
        };
        let anchored = if piece.full { Vec::new() } else { self.anchored(&view) };
        let mut next = anchored.into_iter().peekable();
        for index in view.own.clone() {
            let line = view.lines[index];
            let mut hit = piece.full;
            while next.peek().is_some_and(|&at| at < line.end) {
                let at = next.next().unwrap_or(0);
                hit |= at >= line.start;
            }
            reader.line(index, line, hit);
        }
        let mut scanned = reader.finish();
        scanned.hits.sort_by_key(|h| (h.line, h.text));
        (view, scanned)
    }

    /// Where the anchors stand, ascending, in the block's own lines.
    fn anchored(&self, view: &View<'_>) -> Vec<u32> {
        let Some((first, last)) =
            view.lines.get(view.own.clone()).and_then(|l| Some((l.first()?, l.last()?)))
        else {
            return Vec::new();
        };
        let bytes = &view.bytes[..last.end as usize];
        let mut found = Vec::new();
        if let Some(gate) = &self.gate {
            let mut at = first.start as usize;
            while let Some(m) = gate.find_in(bytes, (at..bytes.len()).into()) {
                found.push(m.start() as u32);
                // One anchor is enough to look at a line: go on behind it.
                at = memchr::memchr(b'\n', &bytes[m.end()..]).map_or(bytes.len(), |n| m.end() + n);
            }
        }
        if let Some(second) = &self.second {
            let input = aho_corasick::Input::new(bytes).range(first.start as usize..bytes.len());
            found.extend(second.find_iter(input).map(|m| m.start() as u32));
            found.sort_unstable();
        }
        found
    }
}

/// Splits the buffer into logical lines, cleaning it first where it needs it.
fn view<'a>(piece: &Piece<'a>, facts: &ShapeFacts) -> View<'a> {
    let before = memchr::memchr_iter(b'\n', &piece.buffer[..piece.core.start]).count() as i32;
    let ends = memchr::memchr_iter(b'\n', &piece.buffer[piece.core.clone()]).count() as u64;
    let (bytes, lines) = if is_dirty(piece.buffer, facts) {
        let Cleaned { bytes, lines } = clean(piece.buffer, facts);
        let mut start = 0;
        let mut out = Vec::with_capacity(lines.len());
        for l in &lines {
            out.push(Line { start, end: l.end, no: l.no as i32 - before, raw: l.raw });
            start = l.end + 1;
        }
        (Cow::Owned(bytes), out)
    } else {
        (Cow::Borrowed(piece.buffer), plain_lines(piece.buffer, -before))
    };
    let from = lines.partition_point(|l| (l.raw.0 as usize) < piece.core.start);
    let to = lines.partition_point(|l| (l.raw.0 as usize) < piece.core.end);
    View { bytes, lines, own: from..to.max(from), ends, buffer: piece.buffer }
}

fn plain_lines(buffer: &[u8], mut no: i32) -> Vec<Line> {
    let mut lines = Vec::with_capacity(buffer.len() / 80);
    let mut start = 0usize;
    for end in memchr::memchr_iter(b'\n', buffer).chain(std::iter::once(buffer.len())) {
        if start >= buffer.len() {
            break;
        }
        let stop = if end > start && buffer[end - 1] == b'\r' { end - 1 } else { end };
        let span = (start as u32, stop as u32);
        lines.push(Line { start: span.0, end: span.1, no, raw: span });
        no += 1;
        start = end + 1;
    }
    lines
}

struct Reader<'v, 'b> {
    view: &'v View<'b>,
    out: Scanned,
    by_key: FxHashMap<u64, u32>,
    last: Option<(u64, u32)>,
    bulk: FxHashMap<(u16, u32), usize>,
    opening: Opening<'v>,
}

impl Reader<'_, '_> {
    fn line(&mut self, index: usize, line: Line, mut hit: bool) {
        let text = self.view.text(&line);
        let prefix = split_prefix(text);
        let rest = &text[prefix.len as usize..];
        let mut nccl = None;
        let mut process: &[u8] = &[];
        let mut opening = None;
        if let Some(q) = nccl_quick(rest) {
            process = &rest[q.proc.0 as usize..q.proc.1 as usize];
            nccl = Some((q.level, q.dev, line.start + prefix.len + q.body));
            let body = &rest[q.body as usize..];
            if q.warn {
                hit = true;
            } else {
                opening = (self.opening)(body);
                hit = hit || opening.is_some_and(|o| !o.1);
            }
        }
        let speaker = self.speaker(text, &prefix, process, index as u32);
        if let Some((message, true)) = opening {
            let first = self.count_bulk(message, speaker, index as u32);
            if !first {
                return;
            }
            hit = true;
        }
        if hit {
            self.out.hits.push(Hit {
                line: index as u32,
                speaker,
                text: line.start + prefix.len,
                nccl,
                opening: opening.map(|o| o.0),
            });
        }
    }

    /// Counts a bulk line; true for the first of its speaker in this block.
    fn count_bulk(&mut self, message: u16, speaker: u32, line: u32) -> bool {
        if let Some(&at) = self.bulk.get(&(message, speaker)) {
            let bulk = &mut self.out.bulk[at];
            bulk.count += 1;
            bulk.last = line;
            return false;
        }
        self.bulk.insert((message, speaker), self.out.bulk.len());
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
        let spoke = &mut self.out.speakers[speaker as usize];
        let at = (spoke.count % 4) as usize;
        spoke.last[at] = line;
        spoke.count += 1;
        speaker
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
        for spoke in &mut self.out.speakers {
            if spoke.count >= 4 {
                spoke.last.rotate_left((spoke.count % 4) as usize);
            }
        }
        self.out
    }
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
