//! Texts of lines as they are kept: quoted, cut, timed, and made alike.

use super::super::event::{Last, Said, Spoken};
use super::super::settled::Settled;
use super::fold::knows;
use super::{QUOTE, boxed};
use crate::base::Stamp;
use crate::text::{self, Line, Spoke, View};

/// The time that a kept line gives.
pub(crate) fn time_of(line: &str) -> Option<Stamp> {
    let line = line.as_bytes();
    let prefix = text::split_prefix(line);
    line_time(line, &line[prefix.len as usize..])
}

/// The time that a line gives, in its prefix or its header.
pub(super) fn line_time(line: &[u8], rest: &[u8]) -> Option<Stamp> {
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
pub(super) fn quote(view: &View<'_>, line: &Line, start: usize, end: usize) -> (Box<str>, bool) {
    let raw = view.raw(line);
    let logical = (line.end - line.start) as usize;
    if raw.len() <= QUOTE && (raw.len() < 1024 || raw.len() < logical * 2) {
        let end = raw.iter().rposition(|b| !matches!(b, b'\r' | b'\n')).map_or(0, |n| n + 1);
        return (boxed(&raw[..end]), false);
    }
    let clean = &view.bytes[line.start as usize..line.end as usize];
    if clean.len() <= QUOTE {
        return (boxed(clean), true);
    }
    let from = start.saturating_sub(200).max(line.start as usize);
    let to = end.min(from + QUOTE).max(from);
    (boxed(&view.bytes[from..to]), true)
}

/// A hash of a text in which figures count for nothing, except those behind `rank` or `task`, and
/// whether there were such.
pub(super) fn squashed(text: &[u8]) -> (u64, bool) {
    const K: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut h = K;
    let mut add = |byte: u8| h = (h.rotate_left(5) ^ u64::from(byte)).wrapping_mul(K);
    let mut keep = false;
    let mut kept = false;
    let mut in_number = false;
    for (i, &b) in text.iter().take(512).enumerate() {
        if b.is_ascii_digit() {
            if !in_number {
                in_number = true;
                add(b'0');
            }
            kept |= keep;
            if keep {
                add(b);
            }
            continue;
        }
        in_number = false;
        add(b);
        if b.is_ascii_alphabetic() && !(keep && b == b's') {
            let word = &text[..=i];
            keep = word.ends_with(b"ank") || word.ends_with(b"ask");
        }
    }
    (h ^ (h >> 31), kept)
}

pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_string(),
    }
}

/// What a speaker said, with his first line where it is not kept yet.
pub(super) fn spoke(view: &View<'_>, settled: &Settled, s: Spoke) -> Spoken {
    let (known, over) = knows(settled, &s.who);
    let mut last = Last::default();
    // Those that are no more told apart are only counted.
    if known || !over {
        last.reserve(
            s.last[..s.count.min(4) as usize]
                .iter()
                .map(|&l| kept(view.text(&view.line(l as usize))).len())
                .sum(),
        );
        for &line in &s.last[..s.count.min(4) as usize] {
            let l = view.line(line as usize);
            last.push(i64::from(l.no) as u64, kept(view.text(&l)));
        }
    }
    let first = (!known && !over).then(|| said(view, s.first));
    Spoken { who: s.who, count: s.count, first, last }
}

/// As much of a line as is kept of a speaker.
fn kept(line: &[u8]) -> &[u8] {
    &line[..line.len().min(400)]
}

/// A line as it is kept; its time is read when it is known to stay.
pub(super) fn said(view: &View<'_>, index: u32) -> Said {
    let line = view.line(index as usize);
    let text = view.text(&line);
    let whole = kept(text).len() == text.len() && text == view.raw(&line);
    Said { line: i64::from(line.no) as u64, text: boxed(kept(text)), whole, time: None }
}
