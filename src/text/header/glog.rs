//! The header of C++ logs: `[E1218 20:27:21.426415540 ProcessGroupNCCL.cpp:629] `
//! of torch, the same without a time before 2.4, glog's own form without the
//! bracket and with a thread number, and TensorFlow's with an ISO time in front.

use super::super::scan::{Span, at, digits, find, from, number, skip, span};
use super::super::time;
use crate::base::Stamp;

/// What a C++ log header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Glog {
    /// `I`, `W`, `E` or `F`.
    pub level: u8,
    /// The time, without year and zone, where there was one.
    pub time: Option<Stamp>,
    /// The source file.
    pub file: Span,
    /// The line in it.
    pub line: u32,
    /// Where the message begins.
    pub body: u32,
}

/// A C++ log header at the start of `text`.
#[must_use]
pub fn glog(text: &[u8]) -> Option<Glog> {
    match at(text, 0) {
        b'[' => headed(text, 1),
        b'I' | b'W' | b'E' | b'F' => {
            // Without the bracket there is always a date.
            at(text, 1).is_ascii_digit().then(|| headed(text, 0)).flatten()
        }
        b'0'..=b'9' => tensorflow(text),
        _ => None,
    }
}

fn headed(text: &[u8], i: usize) -> Option<Glog> {
    let level = at(text, i);
    if !matches!(level, b'I' | b'W' | b'E' | b'F') {
        return None;
    }
    let mut pos = i + 1;
    let mut stamp = None;
    if at(text, pos).is_ascii_digit() {
        let (civil, end) = time::glog_date(from(text, pos))?;
        stamp = civil.and_then(|c| c.stamp());
        pos += end;
    }
    if at(text, pos) != b' ' {
        return None;
    }
    // A process and a thread number, padded with blanks.
    pos = skip(text, pos, 8, |c| c == b' ');
    while digits(text, pos) > 0 && at(text, pos + digits(text, pos)) == b' ' {
        pos = skip(text, pos + digits(text, pos), 8, |c| c == b' ');
    }
    placed(text, pos, level, stamp)
}

/// `file:line] ` from `pos` on.
fn placed(text: &[u8], pos: usize, level: u8, time: Option<Stamp>) -> Option<Glog> {
    let close = find(text, pos, b']', 300)?;
    let place = text.get(pos..close)?;
    let colon = pos + memchr::memrchr(b':', place)?;
    let (line, end) = number(text, colon + 1)?;
    let file = text.get(pos..colon)?;
    if end != close || file.is_empty() || file.iter().any(|c| matches!(c, b' ' | b'[' | b'|')) {
        return None;
    }
    // A file, not a time or a host and port.
    if !file.iter().any(u8::is_ascii_alphabetic) || !file.contains(&b'.') {
        return None;
    }
    let body = close + 1 + usize::from(at(text, close + 1) == b' ');
    Some(Glog { level, time, file: span(pos, colon), line, body: super::super::scan::clip(body) })
}

/// `2026-01-02 03:04:05.123456: E external/x.cc:485] text`.
fn tensorflow(text: &[u8]) -> Option<Glog> {
    let (civil, end) = time::bare(text)?;
    if at(text, end) != b':' || at(text, end + 1) != b' ' || at(text, end + 3) != b' ' {
        return None;
    }
    let level = at(text, end + 2);
    if !matches!(level, b'I' | b'W' | b'E' | b'F') {
        return None;
    }
    placed(text, end + 4, level, civil.stamp())
}
