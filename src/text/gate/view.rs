//! A block and what stands around it, as lines: as it is, or cleaned where
//! that is needed.

use super::super::{Cleaned, ShapeFacts, clean};
use std::borrow::Cow;

/// A piece of a source with what stands around it.
#[derive(Debug)]
pub struct Piece<'a> {
    /// What stands before the block.
    pub before: &'a [u8],
    /// The block, and what stands behind it.
    pub buffer: &'a [u8],
    /// The length of the block: lines that begin in it are its own.
    pub core: usize,
    /// Whether every line is looked at (the ends of a source) or only those that the gate finds.
    pub full: bool,
    /// Whether the first line of the block began before it.
    pub mid_line: bool,
}

/// Text as the catalogue sees it: cleaned where it had to be, with the way back.
#[derive(Debug)]
pub struct View<'a> {
    /// Bytes in which the spans of all own and later [`Line`]s lie.
    pub bytes: Cow<'a, [u8]>,
    /// Those of the lines before, where they are not in `bytes` too.
    past: &'a [u8],
    lines: Lines,
    /// The block's own lines.
    pub own: std::ops::Range<usize>,
    /// Line ends in the block's raw bytes.
    pub ends: u64,
    /// The input, where `bytes` is something else.
    raw: Vec<u8>,
}

/// All logical lines, those around the block included.
#[derive(Debug)]
enum Lines {
    /// Lines that needed no cleaning: where each begins, those before the block first, how many
    /// these are, and the number of the first.
    Plain(Vec<u32>, usize, i32),
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
    /// Whether all this is in what stands before the block.
    past: bool,
}

impl View<'_> {
    /// How many lines there are, those around the block included.
    #[must_use]
    pub fn count(&self) -> usize {
        match &self.lines {
            Lines::Plain(starts, ..) => starts.len(),
            Lines::Clean(lines) => lines.len(),
        }
    }

    /// The line at `index`, which is below [`View::count`].
    #[must_use]
    #[inline]
    pub fn line(&self, index: usize) -> Line {
        match &self.lines {
            Lines::Plain(starts, before, first) => {
                let past = index < *before;
                let buffer: &[u8] = if past { self.past } else { &self.bytes };
                let start = starts[index];
                let mut end = match starts.get(index + 1) {
                    Some(next) if index + 1 != *before => next - 1,
                    _ => buffer.len() as u32 - u32::from(buffer.ends_with(b"\n")),
                };
                if end > start && buffer[end as usize - 1] == b'\r' {
                    end -= 1;
                }
                Line { start, end, no: first + index as i32, raw: (start, end), past }
            }
            Lines::Clean(lines) => lines[index],
        }
    }

    /// Room for the next view.
    pub(super) fn starts(self) -> Vec<u32> {
        match self.lines {
            Lines::Plain(starts, ..) => starts,
            Lines::Clean(_) => Vec::new(),
        }
    }

    /// Where a line begins, to be compared with other lines only.
    #[must_use]
    pub fn position(&self, index: usize) -> i64 {
        let line = self.line(index);
        i64::from(line.start) - if line.past { self.past.len() as i64 } else { 0 }
    }

    /// The line's text.
    #[must_use]
    #[inline]
    pub fn text(&self, line: &Line) -> &[u8] {
        let bytes: &[u8] = if line.past { self.past } else { &self.bytes };
        &bytes[line.start as usize..line.end as usize]
    }

    /// The line as it stands in the input.
    #[must_use]
    pub fn raw(&self, line: &Line) -> &[u8] {
        match self.lines {
            Lines::Plain(..) => self.text(line),
            Lines::Clean(_) => &self.raw[line.raw.0 as usize..line.raw.1 as usize],
        }
    }
}

impl Piece<'_> {
    /// Whether the block begins inside a line that began before it.
    pub(super) fn is_torn(&self) -> bool {
        !self.before.is_empty() && !self.before.ends_with(b"\n")
    }
}

impl<'a> View<'a> {
    /// Of a piece that needs no cleaning, when it is known where its lines begin.
    pub(super) fn plain(piece: &Piece<'a>, starts: Vec<u32>) -> Self {
        let ended = memchr::memchr_iter(b'\n', piece.before).count();
        let torn = piece.is_torn();
        let (no, before) = (-(ended as i32), ended + usize::from(torn));
        let own = before..before + starts[before..].partition_point(|s| (*s as usize) < piece.core);
        let head = torn && memchr::memchr(b'\n', &piece.buffer[..piece.core]).is_some();
        let open = !own.is_empty() && piece.buffer[piece.core - 1] != b'\n';
        Self {
            bytes: Cow::Borrowed(piece.buffer),
            past: piece.before,
            lines: Lines::Plain(starts, before, no),
            ends: own.len() as u64 + u64::from(head) - u64::from(open),
            own,
            raw: Vec::new(),
        }
    }

    /// Of a piece that needs cleaning.
    pub(super) fn cleaned(piece: &Piece<'a>, facts: &ShapeFacts) -> Self {
        let raw = [piece.before, piece.buffer].concat();
        let before = memchr::memchr_iter(b'\n', piece.before).count() as i32;
        let ends = memchr::memchr_iter(b'\n', &piece.buffer[..piece.core]).count() as u64;
        let Cleaned { bytes, lines } = clean(&raw, facts);
        let mut start = 0;
        let mut out = Vec::with_capacity(lines.len());
        for l in &lines {
            out.push(Line { start, end: l.end, no: l.no as i32 - before, raw: l.raw, past: false });
            start = l.end + 1;
        }
        let at = piece.before.len();
        let from = out.partition_point(|l| (l.raw.0 as usize) < at);
        let to = out.partition_point(|l| (l.raw.0 as usize) < at + piece.core);
        let own = from..to.max(from);
        let (bytes, lines) = (Cow::Owned(bytes), Lines::Clean(out));
        Self { bytes, past: &[], lines, own, ends, raw }
    }
}

/// Whether a source is of a form that may need cleaning whatever its bytes look like.
pub(super) fn may_be_dirty(facts: &ShapeFacts) -> bool {
    facts.json || facts.cri || facts.padded || facts.bare_ansi || facts.mpi_tags || facts.wrap.is_some()
}

/// One search tells of most bytes that they are clean.
#[inline]
pub(super) fn looks_dirty(bytes: &[u8]) -> bool {
    memchr::memchr3(0x1b, 0, b'\r', bytes).is_some()
}

/// Where lines begin, from `from` on.
pub(super) fn line_starts(buffer: &[u8], from: usize, starts: &mut Vec<u32>) {
    if from < buffer.len() {
        starts.push(from as u32);
        let ends = memchr::memchr_iter(b'\n', &buffer[from..]).map(|end| (from + end + 1) as u32);
        starts.extend(ends);
        if buffer.ends_with(b"\n") {
            starts.pop();
        }
    }
}
