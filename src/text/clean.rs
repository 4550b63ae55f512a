//! Cleaning of blocks that need it, and of no others: colour codes, NUL runs,
//! carriage returns, tags of mpirun inside a line, lines wrapped in JSON or
//! cut in pieces by a container runtime, lines broken by a terminal. A map
//! leads from every cleaned line back to the bytes it came from, so that
//! what is quoted is the input. What a source looks like is `shape`'s to say.

use super::header::mid_starts;
use super::json;
use super::prefix::split_prefix;
use super::scan::{Span, at, clip, digits, from, span};
use super::shape::{ShapeFacts, bare_code, continues, cri};

#[cfg(test)]
mod tests;

/// So many NUL bytes in a row end a line: a file was truncated under its writer.
const NUL_RUN: usize = 4;
/// A state of a progress bar is not longer.
const STATE: usize = 600;

/// A cleaned block.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Cleaned {
    /// The lines, each ended by `\n`.
    pub bytes: Vec<u8>,
    /// Where each ends and where it came from, in order.
    pub lines: Vec<LineMap>,
}

/// One cleaned line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineMap {
    /// Where it ends in [`Cleaned::bytes`], without its `\n`.
    pub end: u32,
    /// The line of the block in which it begins, from 0.
    pub no: u32,
    /// The bytes of the block it came from.
    pub raw: Span,
}

/// Whether `block` needs cleaning.
#[must_use]
pub fn is_dirty(block: &[u8], facts: &ShapeFacts) -> bool {
    if facts.json || facts.wrap.is_some() || facts.padded || memchr::memchr2(0x1b, 0, block).is_some() {
        return true;
    }
    if memchr::memchr_iter(b'\r', block).any(|i| at(block, i + 1) != b'\n') {
        return true;
    }
    facts.bare_ansi && memchr::memchr_iter(b'[', block).any(|i| bare_code(block, i).is_some())
        || facts.cri && parts(block)
        || facts.mpi_tags && tags_in_line(block)
}

/// Whether a container runtime cut a line into parts.
fn parts(block: &[u8]) -> bool {
    [&b" stdout P"[..], b" stderr P"].iter().any(|p| memchr::memmem::find(block, p).is_some())
}

/// Whether two tags stand in one line, or one behind text.
fn tags_in_line(block: &[u8]) -> bool {
    let mut line = 0;
    let mut seen = 0;
    for hit in memchr::memmem::find_iter(block, b"]<std") {
        if let Some(n) = memchr::memrchr(b'\n', &block[line..hit]) {
            line += n + 1;
            seen = 0;
        }
        seen += 1;
        let open = memchr::memrchr(b'[', &block[line..hit]).map_or(line, |n| line + n);
        if seen > 1
            || open > line
                && split_prefix(&block[line..(hit + 24).min(block.len())]).len as usize <= open - line
        {
            return true;
        }
    }
    false
}

/// The lines of `block`, cleaned.
#[must_use]
pub fn clean(block: &[u8], facts: &ShapeFacts) -> Cleaned {
    let mut c = Cleaner { block, facts, out: Cleaned::default(), open: [None, None], disorder: false };
    c.out.bytes.reserve(block.len());
    let mut at = 0;
    let mut no = 0;
    while at < block.len() {
        let (end, next) = line_end(block, at);
        let used = c.physical(no, at, end, next);
        no += used.0;
        at = used.1;
    }
    c.finish()
}

/// Where the line that begins at `start` ends, and where the next begins.
fn line_end(block: &[u8], start: usize) -> (usize, usize) {
    match memchr::memchr(b'\n', &block[start..]) {
        Some(n) => (start + n, start + n + 1),
        None => (block.len(), block.len()),
    }
}

/// A line of which only parts were seen yet.
struct Open {
    no: u32,
    raw: Span,
    head: Vec<u8>,
    text: Vec<u8>,
}

struct Cleaner<'a> {
    block: &'a [u8],
    facts: &'a ShapeFacts,
    out: Cleaned,
    /// For standard output and error.
    open: [Option<Open>; 2],
    /// Whether a line was finished after a later one.
    disorder: bool,
}

/// A state between two carriage returns.
struct State {
    /// How much of `bytes` is prefix.
    prefix: usize,
    bytes: Vec<u8>,
    raw: Span,
}

impl Cleaner<'_> {
    /// Cleans what begins with the line in `[start, end)`; how many lines of
    /// the block were used, and where the next begins.
    fn physical(&mut self, no: u32, start: usize, end: usize, next: usize) -> (u32, usize) {
        let line = trim_cr(&self.block[start..end]);
        if self.facts.json
            && let Some(r) = json::record(line)
        {
            let (mut head, mut text) = (Vec::new(), Vec::new());
            r.head(line, &mut head);
            r.decode(line, &mut text);
            let whole = !r.docker() || text.ends_with(b"\n");
            self.piece(no, span(start, end), r.stream.unwrap_or(false), whole, &head, &text);
            return (1, next);
        }
        if self.facts.cri
            && let Some((part, err, body)) = cri(line)
        {
            // The stamp and stream of the first part stand for the whole.
            let head = line[..body.min(line.len())].to_vec();
            self.piece(no, span(start, end), err, !part, &head, &line[body.min(line.len())..]);
            return (1, next);
        }
        if let Some(width) = self.facts.wrap {
            return self.wrapped(width as usize, no, start, end, next);
        }
        self.text(no, span(start, end), Some(start), &[], &self.block[start..end]);
        (1, next)
    }

    /// Joins the lines that a terminal broke.
    fn wrapped(&mut self, width: usize, no: u32, start: usize, end: usize, next: usize) -> (u32, usize) {
        let (mut end, mut next, mut used) = (end, next, 1);
        let mut last = trim_cr(&self.block[start..end]);
        let mut joined = Vec::new();
        while next < self.block.len() {
            let (stop, after) = line_end(self.block, next);
            let more = trim_cr(&self.block[next..stop]);
            if !continues(width, last, more) {
                break;
            }
            if joined.is_empty() {
                joined.extend_from_slice(last);
            }
            joined.extend_from_slice(more);
            (last, end, next, used) = (more, stop, after, used + 1);
        }
        if joined.is_empty() {
            self.text(no, span(start, end), Some(start), &[], &self.block[start..end]);
        } else {
            self.text(no, span(start, end), None, &[], &joined);
        }
        (used, next)
    }

    /// A piece of a line of one stream; emitted when it is whole.
    fn piece(&mut self, no: u32, raw: Span, err: bool, whole: bool, head: &[u8], text: &[u8]) {
        let slot = &mut self.open[usize::from(err)];
        match slot {
            Some(open) => {
                open.text.extend_from_slice(text);
                open.raw.1 = raw.1;
            }
            None if whole => {
                let text = text.strip_suffix(b"\n").unwrap_or(text);
                return self.text(no, raw, None, head, text);
            }
            None => *slot = Some(Open { no, raw, head: whole_head(head), text: text.to_vec() }),
        }
        if whole {
            self.close(err);
        }
    }

    fn close(&mut self, err: bool) {
        let Some(open) = self.open[usize::from(err)].take() else { return };
        let text = open.text.strip_suffix(b"\n").unwrap_or(&open.text);
        self.text(open.no, open.raw, None, &open.head, text);
    }

    /// One line of the log, which may still hold line ends, carriage returns
    /// and runs of NUL. `place` is where it begins in the block, where its
    /// bytes are those of the block.
    fn text(&mut self, no: u32, raw: Span, place: Option<usize>, head: &[u8], text: &[u8]) {
        let (mut start, mut after_nul) = (0, false);
        while start <= text.len() {
            let (end, next, nul) = hard_end(text, start);
            // A run of NUL between lines leaves no line of its own.
            if end > start || !(nul || after_nul) {
                let place = place.map(|p| p + start);
                self.states(no, raw, place, head, &text[start..end]);
            }
            (start, after_nul) = (next, nul);
        }
    }

    /// The states between carriage returns: of a bar's states only the last.
    fn states(&mut self, no: u32, raw: Span, place: Option<usize>, head: &[u8], text: &[u8]) {
        let text = trim_cr(text);
        if memchr::memchr(b'\r', text).is_none() {
            let mut bytes = head.to_vec();
            self.decolour(text, &mut bytes);
            return self.emit(no, exact(raw, place, 0, text.len()), &bytes);
        }
        let mut held: Option<State> = None;
        let mut shared: Option<Vec<u8>> = None;
        let mut start = 0;
        for part in text.split(|c| *c == b'\r') {
            let raw = exact(raw, place, start, start + part.len());
            start += part.len() + 1;
            let mut body = Vec::with_capacity(part.len());
            self.decolour(part, &mut body);
            if body.trim_ascii().is_empty() {
                continue;
            }
            let state = with_prefix(&mut shared, head, body, raw);
            if state.bytes[state.prefix..].trim_ascii().is_empty() {
                continue;
            }
            if let Some(old) = held.take()
                && !replaces(&old.bytes[old.prefix..], &state.bytes[state.prefix..])
            {
                self.emit(no, old.raw, &old.bytes);
            }
            held = Some(state);
        }
        match held {
            Some(last) => self.emit(no, last.raw, &last.bytes),
            None => self.emit(no, raw, head),
        }
    }

    /// Appends `text` without colour codes, cursor moves and NUL.
    fn decolour(&self, text: &[u8], out: &mut Vec<u8>) {
        let mut i = 0;
        while i < text.len() {
            let stop = match self.facts.bare_ansi {
                true => memchr::memchr3(0x1b, 0, b'[', &text[i..]),
                false => memchr::memchr2(0x1b, 0, &text[i..]),
            };
            let Some(n) = stop else {
                out.extend_from_slice(&text[i..]);
                return;
            };
            out.extend_from_slice(&text[i..i + n]);
            i += n;
            match text[i] {
                0x1b => i = escape_end(text, i),
                0 => i += 1,
                _ => match bare_code(text, i) {
                    Some((_, end)) => i = end,
                    None => {
                        out.push(b'[');
                        i += 1;
                    }
                },
            }
        }
    }

    /// Writes one line, its tags of mpirun settled.
    fn emit(&mut self, no: u32, raw: Span, line: &[u8]) {
        if !self.facts.mpi_tags || memchr::memmem::find(line, b"]<std").is_none() {
            return self.push(no, raw, line);
        }
        let mut kept = Vec::with_capacity(line.len());
        let mut tag: &[u8] = &[];
        let mut from = 0;
        for (start, end) in tags(line) {
            if start < from {
                continue;
            }
            kept.extend_from_slice(&line[from..start]);
            let found = &line[start..end];
            from = end;
            if found == tag {
                continue;
            }
            // Another writer begins; what stands in front of the first tag may be its prefix.
            let prefix = tag.is_empty() && split_prefix(line).len as usize >= end;
            if !kept.is_empty() && !prefix {
                self.push(no, raw, &kept);
                kept.clear();
            }
            tag = found;
            kept.extend_from_slice(found);
        }
        kept.extend_from_slice(&line[from..]);
        self.push(no, raw, &kept);
    }

    fn push(&mut self, no: u32, raw: Span, line: &[u8]) {
        let filled = self.facts.padded || self.facts.wrap.is_some();
        let line = if filled { line.trim_ascii_end() } else { line };
        self.out.bytes.extend_from_slice(line);
        self.disorder |= self.out.lines.last().is_some_and(|l| l.no > no);
        self.out.lines.push(LineMap { end: clip(self.out.bytes.len()), no, raw });
        self.out.bytes.push(b'\n');
    }

    fn finish(mut self) -> Cleaned {
        self.close(false);
        self.close(true);
        if self.disorder { sorted(&self.out) } else { self.out }
    }
}

/// The lines in the order in which they began.
fn sorted(c: &Cleaned) -> Cleaned {
    let mut order: Vec<usize> = (0..c.lines.len()).collect();
    order.sort_by_key(|i| c.lines[*i].no);
    let mut out =
        Cleaned { bytes: Vec::with_capacity(c.bytes.len()), lines: Vec::with_capacity(c.lines.len()) };
    for i in order {
        let start = i.checked_sub(1).map_or(0, |b| c.lines[b].end as usize + 1);
        out.bytes.extend_from_slice(&c.bytes[start..c.lines[i].end as usize]);
        out.lines.push(LineMap { end: clip(out.bytes.len()), ..c.lines[i] });
        out.bytes.push(b'\n');
    }
    out
}

fn trim_cr(line: &[u8]) -> &[u8] {
    let mut line = line;
    while let Some(less) = line.strip_suffix(b"\r") {
        line = less;
    }
    line
}

/// A part's `P` as the `F` of the whole.
fn whole_head(head: &[u8]) -> Vec<u8> {
    let mut head = head.to_vec();
    if head.ends_with(b" P ") {
        let i = head.len() - 2;
        head[i] = b'F';
    }
    head
}

/// Where the part that begins at `start` ends, at `\n` or a run of NUL, where
/// the next begins (past the end of `text` after the last), and whether NUL ended it.
fn hard_end(text: &[u8], start: usize) -> (usize, usize, bool) {
    let mut i = start;
    while let Some(n) = memchr::memchr2(b'\n', 0, from(text, i)) {
        i += n;
        if text[i] == b'\n' {
            return (i, i + 1, false);
        }
        let run = text[i..].iter().take_while(|c| **c == 0).count();
        if run >= NUL_RUN {
            return (i, i + run, true);
        }
        i += run;
    }
    (text.len(), text.len() + 1, false)
}

/// The span in the block, exact where the bytes are the block's.
fn exact(raw: Span, place: Option<usize>, a: usize, b: usize) -> Span {
    place.map_or(raw, |p| span(p + a, p + b))
}

/// Puts the first state's prefix before a later one that has none: they come
/// from one writer.
fn with_prefix(shared: &mut Option<Vec<u8>>, head: &[u8], body: Vec<u8>, raw: Span) -> State {
    match shared {
        None => {
            let mut bytes = head.to_vec();
            bytes.extend_from_slice(&body);
            let prefix = split_prefix(&bytes).len as usize;
            *shared = Some(bytes[..prefix].to_vec());
            State { prefix, bytes, raw }
        }
        Some(first) => {
            let own = split_prefix(&body).len as usize;
            let mut bytes = if own == 0 { first.clone() } else { head.to_vec() };
            let prefix = bytes.len() + own;
            bytes.extend_from_slice(&body);
            State { prefix, bytes, raw }
        }
    }
}

/// Whether `new` is the next state of the bar `old`, in which nothing else stands.
fn replaces(old: &[u8], new: &[u8]) -> bool {
    if old.len() > STATE {
        return false;
    }
    let alike = bar(old) && bar(new) || letters(old).eq(letters(new));
    if !alike {
        return false;
    }
    let mut starts = Vec::new();
    mid_starts(old, &mut starts);
    starts.is_empty() && super::header::nccl_header(old).is_none() && super::header::glog(old).is_none()
}

fn letters(line: &[u8]) -> impl Iterator<Item = u8> + '_ {
    line.iter().copied().filter(u8::is_ascii_alphabetic).take(200)
}

/// A progress bar that ends as one: nobody wrote behind it.
fn bar(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let marks = [&b"%|"[..], b"it/s", b"s/it", b"B/s"];
    let end =
        matches!(line.last(), Some(b']' | b'|' | b'%')) || line.ends_with(b"it/s") || line.ends_with(b"B/s");
    end && marks.iter().any(|m| memchr::memmem::find(line, m).is_some())
}

/// Where the escape sequence that begins at `i` ends.
fn escape_end(text: &[u8], i: usize) -> usize {
    match at(text, i + 1) {
        b'[' => {
            let mut end = i + 2;
            while matches!(at(text, end), 0x20..=0x3f) {
                end += 1;
            }
            // A sequence that was cut off leaves what follows alone.
            if matches!(at(text, end), 0x40..=0x7e) { end + 1 } else { end }
        }
        b']' | b'P' | b'_' | b'^' => {
            // Ended by BEL or ESC \; not ended, it hides nothing.
            let rest = from(text, i + 2);
            match memchr::memchr2(7, 0x1b, &rest[..rest.len().min(2048)]) {
                Some(n) if rest[n] == 7 => i + 2 + n + 1,
                Some(n) if at(rest, n + 1) == b'\\' => i + 2 + n + 2,
                _ => i + 2,
            }
        }
        b'(' | b')' | b'#' | b'%' => (i + 3).min(text.len()),
        0x30..=0x7e => i + 2,
        _ => i + 1,
    }
}

/// The tags of mpirun in a line: `[1,7]<stderr>:`.
fn tags(line: &[u8]) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    for hit in memchr::memmem::find_iter(line, b"]<std") {
        let figures = line[..hit].iter().rev().take_while(|c| c.is_ascii_digit()).count();
        let Some(comma) = (hit - figures).checked_sub(1).filter(|c| line[*c] == b',' && figures > 0) else {
            continue;
        };
        let job = line[..comma].iter().rev().take_while(|c| c.is_ascii_digit()).count();
        let Some(open) = (comma - job).checked_sub(1).filter(|o| line[*o] == b'[' && job > 0) else {
            continue;
        };
        if digits(line, open + 1) != job {
            continue;
        }
        if let Some((len, _)) = super::prefix::stream(from(line, hit + 1)) {
            out.push((open, hit + 1 + len));
        }
    }
    out
}
