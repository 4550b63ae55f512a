//! One look at 64 bytes: where lines end, where brackets stand, and whether
//! anything may have to be cleaned. Each answer is a bit for a byte, so what a
//! line needs costs nothing where there is none of it.

use wide::u8x16;

/// Bytes that are looked at together.
pub(super) const BYTES: usize = 64;

/// The highest control character that may need cleaning, that of colours.
const HIGHEST: u8 = 0x1b;

/// What was seen; bit 0 is the first byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) ends: u64,
    pub(super) brackets: u64,
    /// Whether there are bytes that [`looks_dirty`](super::view::looks_dirty) should see: no control character but tabs
    /// and the ends of lines is in most texts.
    pub(super) control: bool,
}

/// What is left at the end of a text, with blanks behind it.
pub(super) fn padded(rest: &[u8]) -> [u8; BYTES] {
    let mut bytes = [b' '; BYTES];
    bytes[..rest.len()].copy_from_slice(rest);
    bytes
}

/// Looks at 64 bytes.
#[inline]
pub(super) fn find(bytes: &[u8; BYTES]) -> Marks {
    let (mut out, mut low) = (Marks::default(), 0);
    let (texts, _) = bytes.as_chunks::<16>();
    for (n, text) in texts.iter().enumerate() {
        let text = u8x16::from(*text);
        let bits = |of: u8x16| u64::from(of.to_bitmask()) << (16 * n);
        out.ends |= bits(text.simd_eq(u8x16::splat(b'\n')));
        out.brackets |= bits(text.simd_eq(u8x16::splat(b'[')));
        low |= bits(text.min(u8x16::splat(HIGHEST)).simd_eq(text));
    }
    out.control = low != out.ends;
    out
}

#[cfg(test)]
mod tests {
    use super::super::{fixture_lines, view};
    use super::*;

    fn one_by_one(bytes: &[u8; BYTES]) -> Marks {
        let bits = |of: u8| (0..BYTES).filter(|&i| bytes[i] == of).map(|i| 1 << i).sum();
        let control = bytes.iter().any(|b| *b <= HIGHEST && *b != b'\n');
        assert!(control || !view::looks_dirty(bytes));
        Marks { ends: bits(b'\n'), brackets: bits(b'['), control }
    }

    #[test]
    fn what_is_seen_is_what_each_byte_says() {
        let mut all = fixture_lines().join(&b'\n');
        // Every byte beside every mark.
        for byte in 0..=255u8 {
            for mark in [b'\n', b'[', b'\r', 0, 0x1b, 0x8a, 0xdb] {
                all.extend([byte, mark, byte, byte]);
            }
        }
        let (chunks, rest) = all.as_chunks::<BYTES>();
        assert!(chunks.len() > 1000);
        for bytes in chunks.iter().chain([&padded(rest)]) {
            assert_eq!(find(bytes), one_by_one(bytes));
        }
    }
}
