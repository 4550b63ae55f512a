//! Who speaks, told by what stands before a line's text.

use super::super::Prefix;
use super::Who;
use std::hash::Hasher;

/// The rank in front and the length of the mark, of a line that has no other mark and no NCCL header for
/// sure, told by its first word: the most frequent lines of a training.
#[inline]
pub(super) fn plainly_marked(text: &[u8]) -> Option<(Option<u32>, u32)> {
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

/// A number that is the same for the same speaker.
pub(super) fn key(text: &[u8], prefix: &Prefix, process: &[u8]) -> u64 {
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
    use crate::text::gate::fixture_lines as lines;
    use crate::text::{Level, nccl_quick, split_prefix};

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
}
