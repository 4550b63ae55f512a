//! Python's logging in the layouts that training code uses: the default
//! `LEVEL:name:text`, stamped ones with dashes, brackets or bars (logging,
//! DeepSpeed, hydra, loguru, torchelastic up to 2.3), vLLM's, NeMo's,
//! transformers', Ray's. The level is one letter: D, I, W, E or C.

use super::super::scan::{Span, at, clip, find, from, is, skip, span};
use super::super::time;
use crate::base::Stamp;

/// What a Python log header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PyLog {
    /// `D`, `I`, `W`, `E` or `C`, where it was written.
    pub level: Option<u8>,
    /// The time, where it was written.
    pub time: Option<Stamp>,
    /// The logger, or the file and line that it prints in its place.
    pub name: Option<Span>,
    /// Where the message begins.
    pub body: u32,
}

const LEVELS: [(&[u8], u8); 9] = [
    (b"CRITICAL", b'C'),
    (b"WARNING", b'W'),
    (b"SUCCESS", b'I'),
    (b"DEBUG", b'D'),
    (b"ERROR", b'E'),
    (b"FATAL", b'C'),
    (b"TRACE", b'D'),
    (b"INFO", b'I'),
    (b"WARN", b'W'),
];

/// The level word at `i` and where it ends.
fn level(text: &[u8], i: usize) -> Option<(u8, usize)> {
    let (word, letter) = LEVELS.iter().find(|(w, _)| is(text, i, w))?;
    let end = i + word.len();
    (!at(text, end).is_ascii_alphanumeric()).then_some((*letter, end))
}

/// A Python log header at the start of `text`.
#[must_use]
pub fn pylog(text: &[u8]) -> Option<PyLog> {
    match at(text, 0) {
        b'[' => bracketed(text),
        b'0'..=b'9' => stamped(text),
        b'C' | b'W' | b'S' | b'D' | b'E' | b'F' | b'T' | b'I' => default_form(text),
        _ => None,
    }
}

fn name_byte(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-')
}

/// `ERROR:name:text`, and vLLM's `ERROR 04-15 00:31:11 [worker.py:574] text`.
fn default_form(text: &[u8]) -> Option<PyLog> {
    let (level, end) = level(text, 0)?;
    if at(text, end) == b':' {
        let stop = skip(text, end + 1, 120, name_byte);
        if stop == end + 1 || at(text, stop) != b':' {
            return None;
        }
        return Some(PyLog {
            level: Some(level),
            time: None,
            name: Some(span(end + 1, stop)),
            body: clip(stop + 1),
        });
    }
    let i = skip(text, end, 4, |c| c == b' ');
    if i == end {
        return None;
    }
    let (civil, len) = time::bare(from(text, i))?;
    let (name, body) = place(text, i + len + 1).filter(|_| at(text, i + len) == b' ')?;
    Some(PyLog { level: Some(level), time: civil.stamp(), name: Some(name), body: clip(body) })
}

/// `[file.py:12] ` or `file.py:12] ` at `i`; the place and where the text begins.
fn place(text: &[u8], i: usize) -> Option<(Span, usize)> {
    let start = i + usize::from(at(text, i) == b'[');
    let close = find(text, start, b']', 160)?;
    let inside = text.get(start..close)?;
    if inside.is_empty() || inside.contains(&b' ') || !inside.contains(&b':') {
        return None;
    }
    Some((span(start, close), close + 1 + usize::from(at(text, close + 1) == b' ')))
}

fn bracketed(text: &[u8]) -> Option<PyLog> {
    if is(text, 0, b"[NeMo ") {
        return nemo(text);
    }
    if let Some((civil, len)) = time::civil(text) {
        return after_stamp(text, len, civil.stamp());
    }
    if let Some((civil, len)) = time::bare(from(text, 1)) {
        return ray(text, len + 1, civil.stamp());
    }
    // `[INFO|file.py:666] 2026-01-02 03:04:05,678 >> text` of transformers.
    if let Some((level, end)) = level(text, 1) {
        return transformers(text, level, end);
    }
    // `[titan] 2026-01-02 03:04:05,678 - root - INFO - text`.
    let close = skip(text, 1, 24, |c| c.is_ascii_alphanumeric() || c == b'_');
    if !is(text, close, b"] ") {
        return None;
    }
    let (civil, len) = time::bare(from(text, close + 2))?;
    dashes(text, close + 2 + len, civil.stamp())
}

/// `[NeMo W 2026-01-02 03:04:05 module:558] text`.
fn nemo(text: &[u8]) -> Option<PyLog> {
    let level = Some(at(text, 6)).filter(|c| matches!(c, b'I' | b'W' | b'E' | b'D' | b'C'))?;
    let (civil, len) = time::bare(from(text, 8)).filter(|_| at(text, 7) == b' ')?;
    let (name, body) = place(text, 8 + len + 1)?;
    Some(PyLog { level: Some(level), time: civil.stamp(), name: Some(name), body: clip(body) })
}

/// `[2026-01-02 03:04:05,678 E 11 22] (raylet) file.cc:3065: text`.
fn ray(text: &[u8], i: usize, time: Option<Stamp>) -> Option<PyLog> {
    let level = Some(at(text, i + 1)).filter(|c| matches!(c, b'I' | b'W' | b'E' | b'D' | b'C'))?;
    let close = find(text, i, b']', 60)?;
    let numbers = text.get(i + 2..close)?;
    if at(text, i) != b' ' || !numbers.iter().all(|c| c.is_ascii_digit() || *c == b' ') || numbers.len() < 4 {
        return None;
    }
    let mut body = close + 1 + usize::from(at(text, close + 1) == b' ');
    let mut name = None;
    if at(text, body) == b'(' {
        let end = find(text, body, b')', 40)?;
        name = Some(span(body + 1, end));
        body = end + 1 + usize::from(at(text, end + 1) == b' ');
    }
    Some(PyLog { level: Some(level), time, name, body: clip(body) })
}

fn transformers(text: &[u8], level: u8, end: usize) -> Option<PyLog> {
    if at(text, end) != b'|' {
        return None;
    }
    let close = find(text, end, b']', 120)?;
    let (civil, len) = time::bare(from(text, close + 2)).filter(|_| at(text, close + 1) == b' ')?;
    let after = close + 2 + len;
    let body = is(text, after, b" >> ").then_some(after + 4)?;
    Some(PyLog {
        level: Some(level),
        time: civil.stamp(),
        name: Some(span(end + 1, close)),
        body: clip(body),
    })
}

/// What follows `[STAMP]`.
fn after_stamp(text: &[u8], i: usize, time: Option<Stamp>) -> Option<PyLog> {
    let next = skip(text, i, 6, |c| c == b' ');
    if at(text, next) == b'[' {
        return brackets(text, next, time);
    }
    if next == i {
        return None;
    }
    // `name: [LEVEL] text` of torchelastic.
    let stop = skip(text, next, 120, name_byte);
    if is(text, stop, b": [")
        && let Some((level, end)) = level(text, stop + 3)
        && at(text, end) == b']'
    {
        let body = end + 1 + usize::from(at(text, end + 1) == b' ');
        return Some(PyLog { level: Some(level), time, name: Some(span(next, stop)), body: clip(body) });
    }
    worded(text, next, time)
}

/// `[LEVEL] [file.py:315:func] text`, `[name][LEVEL] - text`, in either order.
fn brackets(text: &[u8], mut i: usize, time: Option<Stamp>) -> Option<PyLog> {
    let (mut found, mut name) = (None, None);
    let mut end = i;
    for _ in 0..4 {
        if at(text, i) != b'[' {
            break;
        }
        let Some(close) = find(text, i, b']', 160) else { break };
        match level(text, i + 1) {
            Some((l, stop)) if found.is_none() && stop == close => found = Some(l),
            _ => {
                let inside = text.get(i + 1..close).unwrap_or(&[]);
                let place = inside.contains(&b':') || found.is_none();
                if name.is_some() || !place || inside.contains(&b' ') {
                    break;
                }
                name = Some(span(i + 1, close));
            }
        }
        end = close + 1;
        i = skip(text, end, 2, |c| c == b' ');
    }
    found?;
    let body = if is(text, end, b" - ") || is(text, end, b": ") {
        end + at_len(text, end)
    } else {
        end + usize::from(at(text, end) == b' ')
    };
    Some(PyLog { level: found, time, name, body: clip(body) })
}

fn at_len(text: &[u8], i: usize) -> usize {
    if at(text, i) == b':' { 2 } else { 3 }
}

/// Lines that begin with a bare stamp.
fn stamped(text: &[u8]) -> Option<PyLog> {
    let (civil, len) = time::bare(text)?;
    let time = civil.stamp();
    if is(text, len, b" - ") {
        return dashes(text, len, time);
    }
    if is(text, len, b" | ") {
        return loguru(text, len + 3, time);
    }
    let next = skip(text, len, 3, |c| c == b' ');
    if next == len {
        return None;
    }
    if at(text, next) == b'[' {
        return brackets(text, next, time);
    }
    worded(text, next, time)
}

/// `LEVEL text`, `LEVEL: text`, `name LEVEL: text`, `name LEVEL text`.
fn worded(text: &[u8], i: usize, time: Option<Stamp>) -> Option<PyLog> {
    if let Some((level, end)) = level(text, i) {
        let colon = end + usize::from(at(text, end) == b':');
        let body = skip(text, colon, 6, |c| c == b' ');
        return (body > end).then_some(PyLog { level: Some(level), time, name: None, body: clip(body) });
    }
    let stop = skip(text, i, 120, name_byte);
    if stop == i || at(text, stop) != b' ' {
        return None;
    }
    let (level, end) = level(text, stop + 1)?;
    let colon = end + usize::from(at(text, end) == b':');
    let body = skip(text, colon, 6, |c| c == b' ');
    (body > end).then_some(PyLog { level: Some(level), time, name: Some(span(i, stop)), body: clip(body) })
}

/// ` - name - LEVEL - text`, with level and name in either order.
fn dashes(text: &[u8], i: usize, time: Option<Stamp>) -> Option<PyLog> {
    let (mut found, mut name) = (None, None);
    let mut pos = i;
    for _ in 0..4 {
        if !is(text, pos, b" - ") {
            break;
        }
        let start = pos + 3;
        if let Some((l, end)) = level(text, start).filter(|_| found.is_none()) {
            found = Some(l);
            pos = skip(text, end, 9, |c| c == b' ');
            if is(text, pos, b"- ") {
                pos -= 1;
            }
            continue;
        }
        let stop = skip(text, start, 120, |c| name_byte(c) || matches!(c, b':' | b'(' | b')' | b'/'));
        // What no ` - ` ends is the message.
        if stop == start || !is(text, stop, b" - ") || name.is_some() && found.is_some() {
            break;
        }
        name = name.or(Some(span(start, stop)));
        pos = stop;
    }
    let mut body = if is(text, pos, b" - ") { pos + 3 } else { pos };
    body = skip(text, body, 1, |c| c == b' ' || c == b':');
    found.map(|l| PyLog { level: Some(l), time, name, body: clip(body) })
}

/// `LEVEL    | module:function:42 - text`.
fn loguru(text: &[u8], i: usize, time: Option<Stamp>) -> Option<PyLog> {
    let (level, end) = level(text, i)?;
    let bar = skip(text, end, 10, |c| c == b' ');
    if !is(text, bar, b"| ") {
        return None;
    }
    let start = bar + 2;
    let stop = skip(text, start, 160, |c| name_byte(c) || matches!(c, b':' | b'<' | b'>'));
    if is(text, stop, b" - ") {
        return Some(PyLog { level: Some(level), time, name: Some(span(start, stop)), body: clip(stop + 3) });
    }
    Some(PyLog { level: Some(level), time, name: None, body: clip(start) })
}
