//! NCCL's own header, `HOST:PID:TID [DEV] NCCL INFO text`, in the forms of
//! all releases and of the libraries made from it. [`nccl_quick`] answers for
//! the common form and is asked of every line; [`nccl_header`] reads all:
//! stamps before the host, an empty or odd host, no process at all, the
//! first releases that did not write the word NCCL, plugins that put
//! function and line or a whole C++ signature where the file stands.

use super::super::scan::{Span, at, clip, digits, find, from, is, number, skip, span};
use super::super::time;

/// The level of an NCCL line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Level {
    /// `INFO`.
    Info,
    /// `WARN`.
    Warn,
    /// `TRACE`, builds with tracing and plugins.
    Trace,
    /// `CALL`, the log of API calls.
    Call,
    /// `ABORT`.
    Abort,
    /// A bare `NCCL version 2.x`, whose text begins at the word NCCL.
    Version,
    /// `DIAG` of 2.31 and later.
    Diag,
    /// `ERROR` of derived libraries.
    Error,
}

/// An NCCL header, as spans of the text it was read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NcclHeader {
    /// The host; empty where the line has none.
    pub host: Span,
    /// The process.
    pub pid: Option<u32>,
    /// The thread.
    pub tid: Option<u32>,
    /// The CUDA device of the printing thread.
    pub dev: Option<i32>,
    /// The level.
    pub level: Level,
    /// The source file of a WARN.
    pub file: Option<Span>,
    /// The line in it.
    pub line: Option<u32>,
    /// The function, where it was written.
    pub func: Option<Span>,
    /// `INFO` and `WARN` without the word NCCL: release 2.2 and before.
    pub old: bool,
    /// The library's word: `NCCL`, `CCOM`, `RCCL`; empty in the old form.
    pub word: Span,
    /// The stamp before the host.
    pub time: Option<Span>,
    /// Where the message begins.
    pub body: u32,
}

/// The answer of [`nccl_quick`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quick {
    /// The bytes of `HOST:PID`, which name the process within a job.
    pub proc: Span,
    /// The CUDA device of the printing thread.
    pub dev: i32,
    /// Whether it is a WARN.
    pub warn: bool,
    /// The level.
    pub level: Level,
    /// Where the message begins.
    pub body: u32,
}

/// The header in its common form, as fast as it can be told; `None` leaves
/// the question to [`nccl_header`].
#[must_use]
#[inline]
pub fn nccl_quick(text: &[u8]) -> Option<Quick> {
    let mut i = 0;
    if at(text, 0) == b'[' {
        // `[2026-05-05 06:16:47] `
        if at(text, 1) != b'2' || at(text, 5) != b'-' {
            return None;
        }
        i = find(text, 20, b']', 32)? + 2;
        if at(text, i - 1) != b' ' {
            return None;
        }
    }
    let start = i;
    // The host: up to a colon, no blank, sane length.
    let rest = text.get(i..)?;
    let rest = &rest[..rest.len().min(80)];
    i += rest.iter().position(|c| matches!(*c, b':' | b' ' | b'('))?;
    if i == start || text[i] != b':' {
        return None;
    }
    let pid = skip(text, i + 1, 10, |c| c.is_ascii_digit());
    if pid == i + 1 || at(text, pid) != b':' {
        return None;
    }
    let tid = skip(text, pid + 1, 20, |c| c.is_ascii_digit());
    if tid == pid + 1 || at(text, tid) != b' ' || at(text, tid + 1) != b'[' {
        return None;
    }
    let (dev, end) = device(text, tid + 1)?;
    let proc = span(start, pid);
    let (level, body) = match at(text, end) {
        b'N' => word_level(text, end)?,
        _ => quick_warn(text, end)?,
    };
    if !matches!(level, Level::Info | Level::Warn | Level::Trace) {
        return None;
    }
    Some(Quick { proc, dev, warn: level == Level::Warn, level, body: clip(body) })
}

/// `FILE:LINE NCCL WARN `.
fn quick_warn(text: &[u8], i: usize) -> Option<(Level, usize)> {
    let colon = find(text, i, b':', 200)?;
    if !text[i..colon].iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'/' | b'_' | b'.' | b'-')) {
        return None;
    }
    let (_, end) = number(text, colon + 1)?;
    word_level(text, end + 1).filter(|(l, _)| *l == Level::Warn && at(text, end) == b' ')
}

/// `NCCL INFO `, with nothing but the word NCCL; the level and where the text begins.
#[inline]
fn word_level(text: &[u8], i: usize) -> Option<(Level, usize)> {
    if !is(text, i, b"NCCL ") {
        return None;
    }
    level(text, i + 5)
}

/// The level at `i` and where the text after it begins.
#[inline]
fn level(text: &[u8], i: usize) -> Option<(Level, usize)> {
    let (level, len) = match at(text, i) {
        b'I' if is(text, i, b"INFO") => (Level::Info, 4),
        b'W' if is(text, i, b"WARN") => (Level::Warn, 4),
        b'T' if is(text, i, b"TRACE") => (Level::Trace, 5),
        b'C' if is(text, i, b"CALL") => (Level::Call, 4),
        b'A' if is(text, i, b"ABORT") => (Level::Abort, 5),
        b'V' if is(text, i, b"VERSION") => (Level::Version, 7),
        b'D' if is(text, i, b"DIAG") => (Level::Diag, 4),
        b'E' if is(text, i, b"ERROR") => (Level::Error, 5),
        _ => return None,
    };
    match text.get(i + len) {
        None => Some((level, i + len)),
        Some(b' ' | b'\t') => Some((level, i + len + 1)),
        Some(_) => None,
    }
}

/// `[3] ` or `[-1] ` at `i`; the number and where the next word begins.
#[inline]
fn device(text: &[u8], i: usize) -> Option<(i32, usize)> {
    let minus = at(text, i + 1) == b'-';
    let (n, end) = number(text, i + 1 + usize::from(minus))?;
    if at(text, i) != b'[' || at(text, end) != b']' || at(text, end + 1) != b' ' {
        return None;
    }
    let n = i32::try_from(n).ok()?;
    Some((if minus { -n } else { n }, end + 2))
}

/// The header at the start of `text`, in any form.
#[must_use]
pub fn nccl_header(text: &[u8]) -> Option<NcclHeader> {
    let start = skip(text, 0, 2, |c| c == b' ');
    let first = at(text, start);
    if let Some(h) = plain(text, start, None) {
        return Some(h);
    }
    // A stamp before it: NCCL's own, or whatever format the user chose.
    let end = match time::civil(from(text, start)) {
        Some((_, len)) => start + len,
        None if first == b'[' => find(text, start, b']', 64)? + 1,
        None => return None,
    };
    let gap = skip(text, end, 3, |c| c == b' ');
    if gap == end {
        return None;
    }
    plain(text, gap, Some(span(start, end)))
}

/// The header from `i` on, its stamp already read.
fn plain(text: &[u8], i: usize, time: Option<Span>) -> Option<NcclHeader> {
    let none = span(i, i);
    let mut h = NcclHeader {
        host: none,
        pid: None,
        tid: None,
        dev: None,
        level: Level::Info,
        file: None,
        line: None,
        func: None,
        old: false,
        word: none,
        time,
        body: 0,
    };
    match at(text, i) {
        b'[' => {
            let (dev, next) = device(text, i)?;
            h.dev = Some(dev);
            return tail(text, next, h, false);
        }
        b'N' | b'R' | b'C' | b'M' | b'H' | b'V' | b'T' | b'X' | b'A' => {
            if let Some(found) = bare_word(text, i, h) {
                return Some(found);
            }
        }
        0 | b'(' | b'"' | b'{' | b'#' | b'|' => return None,
        _ => {}
    }
    let gap = skip(text, i, 300, |c| c != b' ');
    if at(text, gap) != b' ' {
        return None;
    }
    if process(text, i, gap, &mut h) {
        return after_process(text, gap + 1, h);
    }
    let bare = placed(text, i, h, false).filter(|h| {
        // Without a process a function must look like one: `n7:11 NCCL INFO` is no header.
        h.file.is_some() || h.level == Level::Warn && text[i..gap].contains(&b'_')
    });
    bare.or_else(|| signature(text, i, gap, h))
}

/// `NCCL WARN text` without host, and `NCCL version 2.x`.
fn bare_word(text: &[u8], i: usize, mut h: NcclHeader) -> Option<NcclHeader> {
    let end = library(text, i)?;
    h.word = span(i, end);
    if is(text, end, b" version ") {
        let number = skip(text, end + 9, 2, |c| matches!(c, b':' | b' '));
        h.level = Level::Version;
        h.body = clip(i);
        return at(text, number).is_ascii_digit().then_some(h);
    }
    let (level, body) = level(text, end + 1).filter(|_| at(text, end) == b' ')?;
    h.level = level;
    h.body = clip(body);
    Some(h)
}

/// The word of NCCL or of a library made from it; where it ends.
fn library(text: &[u8], i: usize) -> Option<usize> {
    let end = skip(text, i, 6, |c| c.is_ascii_uppercase());
    let word = text.get(i..end)?;
    let good = (4..=5).contains(&word.len()) && (word.ends_with(b"CCL") || word == b"CCOM");
    (good && at(text, end) == b' ').then_some(end)
}

/// `HOST:PID:TID`, `PID:TID`, `HOST:PID` in `[i, gap)`.
fn process(text: &[u8], i: usize, gap: usize, h: &mut NcclHeader) -> bool {
    let token = text.get(i..gap).unwrap_or(&[]);
    let Some((last, rest)) = trailing(token) else { return false };
    let Some((first, host)) = trailing(rest) else {
        // `PID:TID` without a host, or `HOST:PID` of DIAG.
        let whole = number(rest, 0).filter(|(_, end)| *end == rest.len());
        if let Some((pid, _)) = whole {
            (h.pid, h.tid) = (Some(pid), Some(last));
            return h.time.is_some() || at(text, gap + 1) == b'[';
        }
        if !is(text, gap, b" NCCL DIAG") || rest.is_empty() {
            return false;
        }
        h.host = span(i, i + rest.len());
        h.pid = Some(last);
        return true;
    };
    let mut host = host;
    while let Some(less) = host.strip_suffix(b":") {
        host = less;
    }
    h.host = span(i, i + host.len());
    (h.pid, h.tid) = (Some(first), Some(last));
    true
}

/// `rest:123`: the number and what stands before its colon.
fn trailing(token: &[u8]) -> Option<(u32, &[u8])> {
    let figures = token.iter().rev().take_while(|c| c.is_ascii_digit()).count();
    let start = token.len() - figures;
    if figures == 0 || start == 0 || token[start - 1] != b':' {
        return None;
    }
    // Thread numbers of some systems are longer than 32 bits: keep what fits.
    let value = number(token, start).map_or(u32::MAX, |(n, _)| n);
    Some((value, &token[..start - 1]))
}

/// What follows `HOST:PID:TID `.
fn after_process(text: &[u8], i: usize, mut h: NcclHeader) -> Option<NcclHeader> {
    if let Some((dev, next)) = device(text, i) {
        h.dev = Some(dev);
        return tail(text, next, h, true);
    }
    if let Some(end) = library(text, i) {
        let (level, body) = level(text, end + 1)?;
        h.word = span(i, end);
        h.level = level;
        h.body = clip(body);
        return Some(h);
    }
    // `STAMP PID:TID ERROR   COMPONENT text` of Neuron.
    let (level, body) = level(text, i)?;
    if level != Level::Error || h.time.is_none() || h.host.0 != h.host.1 {
        return None;
    }
    h.level = level;
    h.word = span(i, i);
    h.body = clip(skip(text, body, 12, |c| c == b' '));
    Some(h)
}

/// What follows `[DEV] `: the word, or file and line before it.
fn tail(text: &[u8], i: usize, mut h: NcclHeader, process: bool) -> Option<NcclHeader> {
    if let Some(end) = library(text, i) {
        let (level, body) = level(text, end + 1)?;
        h.word = span(i, end);
        h.level = level;
        h.body = clip(body);
        return Some(h);
    }
    if process && let Some((level @ (Level::Info | Level::Warn), body)) = level(text, i) {
        h.word = span(i, i);
        (h.level, h.old, h.body) = (level, true, clip(body));
        return Some(h);
    }
    // Milliseconds since the start, of TRACE.
    let mut i = i;
    let whole = digits(text, i);
    if whole > 0 && at(text, i + whole) == b'.' {
        let end = skip(text, i + whole + 1, 12, |c| c.is_ascii_digit());
        if at(text, end) == b' ' {
            i = end + 1;
        }
    }
    let gap = skip(text, i, 300, |c| c != b' ');
    placed(text, i, h, process).or_else(|| signature(text, i, gap, h))
}

/// `FILE:LINE [(FUNC)] NCCL WARN `, `func:LINE NCCL TRACE `, and the old
/// `FILE:LINE WARN `.
fn placed(text: &[u8], i: usize, mut h: NcclHeader, process: bool) -> Option<NcclHeader> {
    let gap = skip(text, i, 300, |c| c != b' ');
    let (line, name) = trailing(text.get(i..gap)?)?;
    if name.is_empty() || at(text, gap) != b' ' {
        return None;
    }
    let place = span(i, i + name.len());
    let file = name.iter().any(|c| matches!(c, b'.' | b'/'));
    h.line = Some(line);
    (h.file, h.func) = if file { (Some(place), None) } else { (None, Some(place)) };
    let mut next = gap + 1;
    if at(text, next) == b'(' {
        let close = find(text, next, b')', 120)?;
        h.func = Some(span(next + 1, close));
        next = close + 2;
        if at(text, close + 1) != b' ' {
            return None;
        }
    }
    if let Some(end) = library(text, next) {
        let (level, body) = level(text, end + 1)?;
        h.word = span(next, end);
        (h.level, h.body) = (level, clip(body));
        return Some(h);
    }
    let source = [&b".cu"[..], b".cc", b".h"].iter().any(|e| name.ends_with(e));
    let (level, body) = level(text, next)?;
    if level != Level::Warn || !(source || process && file) {
        return None;
    }
    h.word = span(next, next);
    (h.level, h.old, h.body) = (level, true, clip(body));
    Some(h)
}

/// `xResult_t fn(xComm*):1231 NCCL WARN `: a signature where the file stands.
fn signature(text: &[u8], i: usize, gap: usize, mut h: NcclHeader) -> Option<NcclHeader> {
    let kind = text.get(i..gap)?;
    let typed = kind.ends_with(b"_t") || matches!(kind, b"void" | b"int" | b"static" | b"bool" | b"virtual");
    if !typed {
        return None;
    }
    let window = text.get(i..text.len().min(i + 400))?;
    let hit = memchr::memmem::find(window, b" NCCL ")?;
    let (line, name) = trailing(&window[..hit])?;
    if !name.ends_with(b")") {
        return None;
    }
    let (level, body) = level(text, i + hit + 6)?;
    h.func = Some(span(i, i + name.len()));
    h.line = Some(line);
    h.word = span(i + hit + 1, i + hit + 5);
    (h.level, h.body) = (level, clip(body));
    Some(h)
}
