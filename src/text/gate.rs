//! The two readers of a block: the **gate** finds the lines that may mean
//! something, the **pulse** keeps who spoke when. Every line is touched once:
//! its end and its first bytes. Neighbours: `prefix` and `header` tell who
//! speaks, `clean` repairs blocks that need it, `shape` says which do; what a
//! hit means is the catalogue's business. `anchors` is the search of the
//! gate, `heads` spares the pulse the headers that it knows, `view` is the
//! block split into lines.

mod anchors;
mod heads;
mod view;

use super::header::SLURM;
use super::{Level, Prefix, ShapeFacts, is_dirty, nccl_quick, split_prefix};
use anchors::Anchors;
use heads::{Head, Heads};
use rustc_hash::FxHashMap;
use std::hash::Hasher;
pub use view::{Line, Piece, View};

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
    /// Whether the last line of each communicator is kept.
    pub by_comm: bool,
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
    /// A number for the communicator, where these are kept apart; else 0.
    pub part: u64,
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
    start: u32,
    text: u32,
    end: u32,
}

/// Lines that are searched at once.
const RUN: usize = 128;
/// Bytes that all searches go through one after the other.
const TILE: usize = 32 << 10;
/// Bytes that are searched for errors of Slurm at once.
const NEAR: usize = 1 << 10;

/// The gate, compiled.
#[derive(Debug)]
pub struct Scanner {
    anchors: Anchors,
}

/// Communicators of one process whose last line is kept, in a block.
const PARTS: usize = 256;
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
        let mut starts = std::mem::take(&mut scratch.starts);
        let anchors = (!piece.full).then_some(&self.anchors);
        let mut reader = Reader::new(piece.buffer, anchors, opening, scratch);
        if reader.sweep(piece, facts, &mut starts) {
            return (View::plain(piece, starts), reader.finish());
        }
        let view = View::cleaned(piece, facts);
        let mut reader = Reader::new(&view.bytes, anchors, opening, scratch);
        for index in view.own.clone() {
            let line = view.line(index);
            reader.line(index as u32, line.start, view.text(&line));
        }
        let scanned = reader.finish();
        (view, scanned)
    }
}

impl Scratch {
    /// Takes back what a view no longer needs.
    pub fn reuse(&mut self, view: View<'_>) {
        self.starts = view.starts();
    }
}

struct Reader<'v> {
    bytes: &'v [u8],
    /// What is searched for; nothing where every line is a hit.
    anchors: Option<&'v Anchors>,
    out: Scanned,
    by_key: FxHashMap<u64, u32>,
    last: Option<(u64, u32)>,
    /// Speakers by rank (plus one; 0 for none), those of one place take turns.
    ranks: [Option<(u32, u32)>; 256],
    /// For each speaker: messages and where they are counted. Nobody has many.
    bulk: Vec<Vec<(u16, u64, u32)>>,
    scratch: &'v mut Scratch,
    /// Up to where errors of Slurm were looked for, and where the last part that holds one ends.
    slurm: (usize, usize),
    opening: Opening<'v>,
}

impl<'v> Reader<'v> {
    fn new(
        bytes: &'v [u8],
        anchors: Option<&'v Anchors>,
        opening: Opening<'v>,
        scratch: &'v mut Scratch,
    ) -> Self {
        scratch.heads.clear();
        scratch.run.clear();
        Self {
            bytes,
            anchors,
            out: Scanned::default(),
            by_key: FxHashMap::default(),
            last: None,
            ranks: [None; 256],
            bulk: Vec::new(),
            scratch,
            slurm: (0, 0),
            opening,
        }
    }

    /// Reads the block tile by tile, so that all that is done with a tile finds it in the nearest
    /// cache, and notes where lines begin. False when the block must be cleaned first.
    fn sweep(&mut self, piece: &Piece<'_>, facts: &ShapeFacts, starts: &mut Vec<u32>) -> bool {
        // Whether a tile must still be looked at for what needs cleaning.
        let mut unsure = true;
        if view::may_be_dirty(facts) || view::looks_dirty(piece.before) {
            if is_dirty(piece.buffer, facts) || is_dirty(piece.before, facts) {
                return false;
            }
            unsure = false;
        }
        starts.clear();
        view::line_starts(piece.before, 0, starts);
        let buffer = self.bytes;
        // The end of a line that began before the block is nobody's.
        let mut torn = piece.is_torn();
        let mut start = 0;
        for from in (0..buffer.len()).step_by(TILE) {
            let tile = &buffer[from..buffer.len().min(from + TILE)];
            if unsure && view::looks_dirty(tile) {
                if is_dirty(buffer, facts) {
                    return false;
                }
                unsure = false;
            }
            for end in memchr::memchr_iter(b'\n', tile) {
                let end = from + end;
                if !torn {
                    self.raw_line(start, end, piece.core, starts);
                }
                (torn, start) = (false, end + 1);
            }
        }
        if start < buffer.len() && !torn {
            self.raw_line(start, buffer.len(), piece.core, starts);
        }
        true
    }

    /// A line as it stands in the input, read where it is one of the block's own.
    #[inline]
    fn raw_line(&mut self, start: usize, end: usize, core: usize, starts: &mut Vec<u32>) {
        let index = starts.len() as u32;
        starts.push(start as u32);
        if start < core {
            let bytes = self.bytes;
            let text = &bytes[start..end];
            self.line(index, start as u32, text.strip_suffix(b"\r").unwrap_or(text));
        }
    }

    #[inline]
    fn line(&mut self, index: u32, start: u32, text: &[u8]) {
        if let Some(head) = self.scratch.heads.get(text) {
            self.spoke(head.speaker, index);
            self.info(index, start, text, head, Level::Info);
            return;
        }
        self.read(index, start, text);
    }

    /// Reads what stands before the text.
    fn read(&mut self, index: u32, start: u32, text: &[u8]) {
        let end = start + text.len() as u32;
        if let Some((rank, len)) = plainly_marked(text) {
            let speaker = self.marked(text, rank, len, index);
            self.plain(Plain { line: index, speaker, start, text: start + len, end });
            return;
        }
        let prefix = split_prefix(text);
        let rest = &text[prefix.len as usize..];
        let Some(q) = nccl_quick(rest) else {
            let speaker = self.speaker(text, &prefix, &[], index);
            self.plain(Plain { line: index, speaker, start, text: start + prefix.len, end });
            return;
        };
        let process = &rest[q.proc.0 as usize..q.proc.1 as usize];
        let speaker = self.speaker(text, &prefix, process, index);
        let head = Head { speaker, prefix: prefix.len, body: prefix.len + q.body, dev: q.dev };
        if q.warn {
            let nccl = Some((q.level, q.dev, start + head.body));
            let text = start + prefix.len;
            let hit = Hit { line: index, speaker, text, nccl, opening: None, torn: true, counted: false };
            self.out.hits.push(hit);
            return;
        }
        if q.level == Level::Info {
            self.scratch.heads.put(text, head);
        }
        self.info(index, start, text, head, q.level);
    }

    /// A line behind an NCCL header that is no WARN.
    #[inline]
    fn info(&mut self, index: u32, start: u32, text: &[u8], head: Head, level: Level) {
        let body = &text[head.body as usize..];
        let opening = (self.opening)(body);
        let bulk = opening.is_some_and(|o| o.bulk);
        let counted = match opening {
            Some(o) if o.bulk => {
                let part = if o.by_comm { comm_part(body) } else { 0 };
                !self.count_bulk(o.message, head.speaker, part, index)
            }
            _ => false,
        };
        // Its own text is known by its opening; anchors matter for what others wrote into it.
        let torn = (bulk || opening.is_none()) && self.torn(body, start, text, opening.is_none());
        let looked_at = self.anchors.is_none() || torn || opening.is_some() && !counted;
        if !looked_at {
            return;
        }
        self.out.hits.push(Hit {
            line: index,
            speaker: head.speaker,
            text: start + head.prefix,
            nccl: Some((level, head.dev, start + head.body)),
            opening,
            torn: torn || !bulk || self.anchors.is_none(),
            counted,
        });
    }

    /// Whether another writer's message begins in a text, and the line holds an anchor.
    #[inline]
    fn torn(&mut self, body: &[u8], start: u32, line: &[u8], unknown: bool) -> bool {
        let Some(search) = self.anchors else { return false };
        // Slurm's words have no bracket; in lines that come in masses they are not looked for.
        let slurm = unknown && self.slurm_near(start as usize, start as usize + line.len());
        if !(may_be_torn(body) || slurm && SLURM.find(body).is_some()) {
            return false;
        }
        search.find(line, &mut self.scratch.found);
        !self.scratch.found.is_empty()
    }

    /// Whether an error of Slurm stands in a line or not far from it.
    #[inline]
    fn slurm_near(&mut self, start: usize, end: usize) -> bool {
        if self.slurm.0 < end {
            let to = self.bytes.len().min(end.max(start + NEAR));
            if anchors::slurm(&self.bytes[start..to]) {
                self.slurm.1 = to;
            }
            self.slurm.0 = to;
        }
        self.slurm.1 > start
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
        let Scratch { run, found, .. } = &mut *self.scratch;
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
        let from = first.start;
        if let Some(anchors) = self.anchors {
            anchors.find(&self.bytes[from as usize..last.end as usize], found);
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
    fn count_bulk(&mut self, message: u16, speaker: u32, part: u64, line: u32) -> bool {
        let at = speaker as usize;
        if at >= self.bulk.len() {
            self.bulk.resize_with(at + 1, Vec::new);
        }
        // A process with very many communicators: they are no longer told apart.
        let many = self.bulk[at].len() >= PARTS;
        let known = |part: u64| self.bulk[at].iter().find(|b| b.0 == message && b.1 == part).map(|b| b.2);
        let known = known(part).or_else(|| many.then(|| known(0)).flatten());
        if let Some(at) = known {
            let bulk = &mut self.out.bulk[at as usize];
            bulk.count += 1;
            bulk.last = line;
            return false;
        }
        let part = if many { 0 } else { part };
        let first = !self.bulk[at].iter().any(|b| b.0 == message);
        self.bulk[at].push((message, part, self.out.bulk.len() as u32));
        self.out.bulk.push(Bulk { message, speaker, part, count: 1, last: line });
        first
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

    /// The speaker of a line with no mark, or with no other than a rank.
    #[inline]
    fn marked(&mut self, text: &[u8], rank: Option<u32>, len: u32, line: u32) -> u32 {
        let key = rank.map_or(0, |r| r + 1);
        let place = key as usize % self.ranks.len();
        if let Some((known, speaker)) = self.ranks[place]
            && known == key
        {
            self.spoke(speaker, line);
            return speaker;
        }
        let speaker = self.speaker(text, &Prefix { rank, len, ..Prefix::default() }, &[], line);
        self.ranks[place] = Some((key, speaker));
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
        self.out.hits.sort_by_key(|h| (h.line, h.text));
        self.out
    }
}

/// The rank in front and the length of the mark, of a line that has no other mark and no NCCL header for
/// sure, told by its first word: the most frequent lines of a training.
#[inline]
fn plainly_marked(text: &[u8]) -> Option<(Option<u32>, u32)> {
    let (rank, len) = match text.strip_prefix(b"[rank") {
        None => (None, 0),
        Some(rest) => {
            let figures = rest.iter().take(7).take_while(|b| b.is_ascii_digit()).count();
            let rank = rest[..figures].iter().fold(0, |n, b| n * 10 + u32::from(b - b'0'));
            if figures == 0 || figures == 7 || !rest[figures..].starts_with(b"]: ") {
                return None;
            }
            (Some(rank), figures + 8)
        }
    };
    let rest = &text[len..];
    if len == 0 && rest.first() == Some(&b' ') {
        // A column of labels is indented, and then there is a figure.
        let indent = rest.iter().take(6).take_while(|b| **b == b' ').count();
        return (!rest.get(indent).is_some_and(u8::is_ascii_digit)).then_some((None, 0));
    }
    let word = rest.iter().take(32).take_while(|b| b.is_ascii_alphabetic()).count();
    let next = |n: usize| rest.get(word + n).copied().unwrap_or(0);
    let plain = match next(0) {
        // A month begins a time.
        b' ' => word > 0 && word != 3,
        // A host is named by figures, or by its name standing there twice.
        b':' => word > 0 && (next(1) == b' ' && next(2) != rest[0] || next(1).is_ascii_alphabetic()),
        _ => false,
    };
    plain.then_some((rank, len as u32))
}

/// A number for the communicator of a line of NCCL's trace of collectives: the last eight bytes of the word before
/// ` [nranks=`, near its end. Nothing more is read, since every such line comes here.
#[inline]
fn comm_part(body: &[u8]) -> u64 {
    let end = memchr::memrchr(b'[', body).and_then(|at| at.checked_sub(1)).unwrap_or(0);
    body[..end].last_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word))
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

/// Whether the message of another writer may begin in what stands behind a line's own header: cheap, and no rarer than
/// [`mid_starts`](super::mid_starts) finds one.
#[must_use]
pub fn looks_torn(body: &[u8]) -> bool {
    may_be_torn(body) || SLURM.find(body).is_some()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of all fixtures.
    fn lines() -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for entry in walkdir::WalkDir::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures")) {
            let path = entry.unwrap().into_path();
            if path.is_file() {
                all.extend(std::fs::read(path).unwrap().split(|b| *b == b'\n').map(<[u8]>::to_vec));
            }
        }
        assert!(all.len() > 1000);
        all
    }

    #[test]
    fn what_the_first_word_tells_is_what_all_readers_say() {
        let mut told = 0;
        let more = [
            "  ",
            "   12: x",
            " [2026] x",
            "[rank3]: Mar 3",
            "host: host:12",
            "a: b",
            "INFO:x",
            "x",
            "[rank1]: ",
        ];
        for line in lines().into_iter().chain(more.map(|m| m.as_bytes().to_vec())) {
            for line in [line.clone(), [b"[rank31]: ", line.as_slice()].concat()] {
                let Some((rank, len)) = plainly_marked(&line) else { continue };
                told += 1;
                let prefix = split_prefix(&line);
                let plain = Prefix { rank, len, time: prefix.time, ..Prefix::default() };
                assert_eq!(prefix, plain, "{}", String::from_utf8_lossy(&line));
                assert!(nccl_quick(&line[len as usize..]).is_none(), "{}", String::from_utf8_lossy(&line));
            }
        }
        assert!(told > 100);
    }

    #[test]
    fn a_header_that_was_seen_tells_the_same_before_any_text() {
        for line in lines() {
            let prefix = split_prefix(&line);
            let rest = &line[prefix.len as usize..];
            let Some(q) = nccl_quick(rest).filter(|q| q.level == Level::Info && !q.warn) else { continue };
            let head = &line[..(prefix.len + q.body) as usize];
            for text in ["", "AllReduce: opCount 1f", "[3] x: 12", ": error: ", "12: [rank3]: Traceback"] {
                let other = [head, text.as_bytes()].concat();
                let again = split_prefix(&other);
                assert_eq!(
                    (again.rank, again.label, again.host, again.len),
                    (prefix.rank, prefix.label, prefix.host, prefix.len)
                );
                if head.ends_with(b" ") {
                    let r = nccl_quick(&other[again.len as usize..]).unwrap();
                    assert_eq!((r.proc, r.dev, r.body, r.level), (q.proc, q.dev, q.body, q.level));
                }
            }
        }
    }

    #[test]
    fn what_mid_starts_finds_looks_torn() {
        let mut starts = Vec::new();
        let lines = lines();
        let header = b"node3:41:57 [2] NCCL INFO Connected ";
        for line in lines.iter().take(20_000) {
            let glued = [header.as_slice(), line].concat();
            crate::text::mid_starts(&glued, &mut starts);
            let body = &glued[26..];
            assert!(starts.is_empty() || looks_torn(body), "{}", String::from_utf8_lossy(&glued));
        }
    }
}
