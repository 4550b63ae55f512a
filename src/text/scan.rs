//! Small steps over bytes that the readers of prefixes, headers and times
//! share. None of them allocates or panics; past the end there is a zero.

/// A span of bytes in a line.
pub(super) type Span = (u32, u32);

/// The byte at `i`, or 0 past the end.
#[inline]
pub(super) fn at(b: &[u8], i: usize) -> u8 {
    b.get(i).copied().unwrap_or(0)
}

/// The bytes from `i` on; nothing past the end.
#[inline]
pub(super) fn from(b: &[u8], i: usize) -> &[u8] {
    b.get(i..).unwrap_or(&[])
}

/// Whether `what` stands at `i`.
#[inline]
pub(super) fn is(b: &[u8], i: usize, what: &[u8]) -> bool {
    from(b, i).starts_with(what)
}

/// How many ASCII digits stand at `i`.
#[inline]
pub(super) fn digits(b: &[u8], i: usize) -> usize {
    from(b, i).iter().take_while(|c| c.is_ascii_digit()).count()
}

/// A decimal number at `i` that fits `u32`, and where it ends.
#[inline]
pub(super) fn number(b: &[u8], i: usize) -> Option<(u32, usize)> {
    let mut end = i;
    let mut value: u32 = 0;
    while let Some(c) = b.get(end).filter(|c| c.is_ascii_digit()) {
        value = value.checked_mul(10)?.checked_add(u32::from(c - b'0'))?;
        end += 1;
    }
    (end > i).then_some((value, end))
}

/// Exactly `n` digits at `i` as a number.
#[inline]
pub(super) fn fixed(b: &[u8], i: usize, n: usize) -> Option<u32> {
    let mut value = 0u32;
    for c in b.get(i..i.checked_add(n)?)? {
        if !c.is_ascii_digit() {
            return None;
        }
        value = value.wrapping_mul(10).wrapping_add(u32::from(c - b'0'));
    }
    Some(value)
}

/// Where the first byte that equals `what` stands, from `i` and within `limit` bytes.
#[inline]
pub(super) fn find(b: &[u8], i: usize, what: u8, limit: usize) -> Option<usize> {
    let rest = from(b, i);
    memchr::memchr(what, &rest[..rest.len().min(limit)]).map(|n| i + n)
}

/// Where the run of bytes that satisfy `f` ends, from `i` and within `limit` bytes.
#[inline]
pub(super) fn skip(b: &[u8], i: usize, limit: usize, f: impl Fn(u8) -> bool) -> usize {
    i + from(b, i).iter().take(limit).take_while(|c| f(**c)).count()
}

/// A span from two positions.
#[inline]
pub(super) fn span(from: usize, to: usize) -> Span {
    (clip(from), clip(to))
}

/// A position as it is kept; lines beyond 4 GiB do not reach this room.
#[inline]
pub(super) fn clip(i: usize) -> u32 {
    u32::try_from(i).unwrap_or(u32::MAX)
}

/// Which bytes stand in host names.
static HOST: [bool; 256] = {
    let mut table = [false; 256];
    let mut c = 0u8;
    while c < 128 {
        table[c as usize] = c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_');
        c += 1;
    }
    table
};

/// Bytes that stand in host names.
#[inline]
pub(super) fn host_byte(c: u8) -> bool {
    HOST[c as usize]
}

/// The first name of `names` that stands at `i`, by its place in the list.
pub(super) fn one_of(b: &[u8], i: usize, names: &[&[u8]]) -> Option<usize> {
    names.iter().position(|n| is(b, i, n))
}
