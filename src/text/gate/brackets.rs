//! The brackets of a line: behind one of them the message of another writer
//! may begin, since several share a pipe. They are noted while the block is
//! searched for the ends of its lines, because every line is asked for them.

use super::super::header::SLURM;

/// What was seen of a line's brackets: positions plus one, 0 for none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Open {
    last: u32,
    other: u32,
}

impl Open {
    /// Notes the bracket at `at`.
    #[inline]
    pub(super) fn add(&mut self, bytes: &[u8], at: usize) {
        self.last = at as u32 + 1;
        if opens_other(bytes, at) {
            self.other = at as u32 + 1;
        }
    }

    /// All brackets of the line that begins and ends there.
    pub(super) fn in_line(bytes: &[u8], start: u32, end: u32) -> Self {
        let mut open = Self::default();
        for at in memchr::memchr_iter(b'[', &bytes[start as usize..end as usize]) {
            open.add(bytes, start as usize + at);
        }
        open
    }

    /// Whether the message of another may begin at `from` or later.
    #[inline]
    pub(super) fn other_behind(self, from: u32) -> bool {
        self.other > from
    }

    /// The last bracket that stands at `from` or later, counted from there.
    #[inline]
    pub(super) fn last_behind(self, from: u32) -> Option<u32> {
        self.last.checked_sub(from + 1)
    }
}

/// Whether the message of another may begin with the bracket at `at`: cheap, and no rarer than
/// [`mid_starts`](super::super::mid_starts) finds one (but for Slurm's, which has none).
#[inline]
fn opens_other(bytes: &[u8], at: usize) -> bool {
    match bytes.get(at + 1) {
        // `HOST:PID:TID [3] `
        Some(b'0'..=b'9' | b'-') => at >= 6 && bytes[at - 1] == b' ' && follows_number(&bytes[..at - 1]),
        Some(b'r') => bytes[at..].starts_with(b"[rank"),
        Some(b'E' | b'W' | b'I' | b'F') => true,
        _ => false,
    }
}

/// Whether a text ends with `:123`.
fn follows_number(text: &[u8]) -> bool {
    let figures = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    figures > 0 && text.len() > figures && text[text.len() - figures - 1] == b':'
}

/// Whether the message of another writer may begin in what stands behind a line's own header: cheap, and no rarer than
/// [`mid_starts`](super::super::mid_starts) finds one.
#[must_use]
pub fn looks_torn(body: &[u8]) -> bool {
    memchr::memchr_iter(b'[', body).any(|at| opens_other(body, at)) || SLURM.find(body).is_some()
}

#[cfg(test)]
mod tests {
    use super::super::fixture_lines;
    use super::*;

    #[test]
    fn what_mid_starts_finds_looks_torn() {
        let mut starts = Vec::new();
        let lines = fixture_lines();
        let header = b"node3:41:57 [2] NCCL INFO Connected ";
        for line in lines.iter().take(20_000) {
            let glued = [header.as_slice(), line].concat();
            crate::text::mid_starts(&glued, &mut starts);
            let body = &glued[26..];
            assert!(starts.is_empty() || looks_torn(body), "{}", String::from_utf8_lossy(&glued));
        }
    }
}
