//! From a feed of text to blocks: first the head, then pieces cut where the
//! shape allows it, and over-long lines in pieces. Only what stands after a
//! cut is carried over; where the pieces of a long line begin does not depend
//! on the block size.

use super::feed::{Feed, problem_of};
use super::source::Reader;
use super::{Cutter, Item};

/// Room in a buffer beyond its target: whoever takes it may add what comes next without growing it.
const SLACK: usize = (64 << 10) + 64;

impl Reader<'_> {
    /// Hands out all of a text source; its begin has been emitted.
    pub(super) fn pump(&mut self, feed: Feed<'_>) {
        let line = self.options.caps.line.max(16);
        let mut pump = Pump {
            feed,
            buf: Vec::new(),
            ended: false,
            problem: None,
            block: self.options.block.clamp(1, line),
            line,
        };
        let head = self.options.head.clamp(1, line);
        pump.fill(head);
        let cutter = self.shape.cutter(&pump.buf[..pump.buf.len().min(head)]);
        let mut bytes = 0u64;
        let mut mid_line = false;
        let mut piece = pump.first(&cutter, head);
        while let Some(block) = piece {
            bytes += block.len() as u64;
            let next_mid = block.last() != Some(&b'\n');
            if !self.send(Item::Block { bytes: block, mid_line }) {
                return;
            }
            mid_line = next_mid;
            if self.stop() {
                pump.ended = true;
            }
            piece = if self.options.heads_only {
                bytes += pump.pass_over();
                None
            } else {
                pump.next(&cutter)
            };
        }
        let problems = pump.problem.into_iter().collect();
        self.send(Item::End { bytes, problems });
    }
}

struct Pump<'a> {
    feed: Feed<'a>,
    buf: Vec<u8>,
    ended: bool,
    problem: Option<String>,
    block: usize,
    line: usize,
}

impl Pump<'_> {
    /// Has `n` bytes in the buffer, fewer only at the end.
    fn fill(&mut self, n: usize) {
        if self.ended || self.buf.len() >= n {
            return;
        }
        self.buf.reserve(n + SLACK - self.buf.len());
        match self.feed.fill(&mut self.buf, n) {
            Ok(more) => self.ended = !more,
            Err(error) => {
                self.ended = true;
                self.problem = problem_of(&error);
            }
        }
    }

    /// The head.
    fn first(&mut self, cutter: &Cutter, head: usize) -> Option<Vec<u8>> {
        if self.ended && self.buf.len() <= head {
            return self.rest();
        }
        let seen = &self.buf[..head];
        let cut = good(cutter, seen).unwrap_or_else(|| forced(seen));
        Some(self.split(cut))
    }

    /// The next piece.
    fn next(&mut self, cutter: &Cutter) -> Option<Vec<u8>> {
        let mut target = self.block;
        loop {
            self.fill(target);
            if self.ended && self.buf.len() <= target {
                return self.rest();
            }
            let seen = &self.buf[..target];
            if let Some(cut) = good(cutter, seen) {
                return Some(self.split(cut));
            }
            if target == self.line {
                let cut = forced(seen);
                return Some(self.split(cut));
            }
            target = target.saturating_mul(2).min(self.line);
        }
    }

    /// Goes to the end without looking; says how many bytes that were.
    fn pass_over(&mut self) -> u64 {
        let have = self.buf.len() as u64;
        if self.ended {
            return have;
        }
        let before = self.feed.used().get();
        if let Err(error) = self.feed.skip(u64::MAX) {
            self.problem = problem_of(&error);
        }
        have + self.feed.used().get() - before
    }

    /// All that is left, the last piece.
    fn rest(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.buf)).filter(|rest| !rest.is_empty())
    }

    /// Cuts off the first bytes, and makes a buffer of what stands after them.
    fn split(&mut self, cut: usize) -> Vec<u8> {
        let tail = &self.buf[cut..];
        let mut next = Vec::with_capacity(tail.len().max(self.block) + SLACK);
        next.extend_from_slice(tail);
        self.buf.truncate(cut);
        std::mem::replace(&mut self.buf, next)
    }
}

/// Where the shape cuts, if that is a place at all.
fn good(cutter: &Cutter, seen: &[u8]) -> Option<usize> {
    cutter(seen).filter(|cut| (1..=seen.len()).contains(cut))
}

/// Where to cut when there is no good place: after a line, after a `\r`,
/// between characters.
fn forced(seen: &[u8]) -> usize {
    for end in [b'\n', b'\r'] {
        if let Some(at) = memchr::memrchr(end, seen) {
            return at + 1;
        }
    }
    let n = seen.len();
    (n.saturating_sub(3)..n)
        .rev()
        .find(|&at| seen[at] >= 0xc0)
        .filter(|&at| at > 0 && at + width(seen[at]) > n)
        .unwrap_or(n)
}

/// How many bytes a character has that begins with this one.
fn width(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        _ => 2,
    }
}
