//! Lines that come in masses are only counted, for each message, speaker and
//! where it matters each communicator.

use super::Bulk;

/// Communicators of one process whose last line is kept, in a block.
const PARTS: usize = 256;
/// The counts of a block.
#[derive(Debug, Default)]
pub(super) struct Counts {
    counts: Vec<Bulk>,
    /// For each speaker: messages and parts, and where they are counted. Nobody has many.
    by_speaker: Vec<Vec<(u16, u64, u32)>>,
}

impl Counts {
    /// Counts a line; true for the first of its message and speaker.
    #[inline]
    pub(super) fn add(&mut self, message: u16, speaker: u32, part: u64, line: u32) -> bool {
        let at = speaker as usize;
        if at >= self.by_speaker.len() {
            self.by_speaker.resize_with(at + 1, Vec::new);
        }
        // A process with very many communicators: they are no longer told apart.
        let many = self.by_speaker[at].len() >= PARTS;
        let known =
            |part: u64| self.by_speaker[at].iter().find(|b| b.0 == message && b.1 == part).map(|b| b.2);
        let known = known(part).or_else(|| many.then(|| known(0)).flatten());
        if let Some(at) = known {
            let bulk = &mut self.counts[at as usize];
            bulk.count += 1;
            bulk.last = line;
            return false;
        }
        let part = if many { 0 } else { part };
        let first = !self.by_speaker[at].iter().any(|b| b.0 == message);
        self.by_speaker[at].push((message, part, self.counts.len() as u32));
        self.counts.push(Bulk { message, speaker, part, count: 1, last: line });
        first
    }

    /// All of them, in the order of their first lines.
    pub(super) fn take(&mut self) -> Vec<Bulk> {
        std::mem::take(&mut self.counts)
    }
}

/// A number for the communicator of a line of NCCL's trace of collectives: the last eight bytes of the word before
/// ` [nranks=`, whose bracket is the last one in the body. Nothing more is read, since every such line comes here.
#[inline]
pub(super) fn comm_part(body: &[u8], bracket: Option<u32>) -> u64 {
    let end = bracket.and_then(|at| at.checked_sub(1)).unwrap_or(0) as usize;
    body[..end].last_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_counted_once_and_the_last_one_kept() {
        let mut counts = Counts::default();
        for line in 0..3000u32 {
            // 300 communicators of one speaker, and another speaker with the same ones.
            let first = counts.add(7, line % 2, u64::from(1 + line / 2 % 300), line);
            assert_eq!(first, line < 2);
        }
        let counts = counts.take();
        assert_eq!(counts.iter().map(|b| b.count).sum::<u64>(), 3000);
        assert_eq!(counts.iter().filter(|b| b.speaker == 1).map(|b| b.last).max(), Some(2999));
        assert_eq!(counts.iter().filter(|b| b.speaker == 0).count(), PARTS + 1);
        let tenth = counts.iter().find(|b| b.speaker == 0 && b.part == 10);
        assert_eq!(tenth.map(|b| (b.count, b.last)), Some((5, 2418)));
    }

    #[test]
    fn a_communicator_is_told_by_the_word_before_the_last_bracket() {
        let body = b"AllReduce: opCount 1 comm 0x55aa01 [nranks=8] stream 0x1";
        assert_eq!(
            comm_part(body, body.iter().position(|b| *b == b'[').map(|at| at as u32)),
            u64::from_le_bytes(*b"0x55aa01")
        );
        assert_eq!(comm_part(b"0x55aa01", None), 0);
        assert_eq!(comm_part(b"[", Some(0)), 0);
    }
}
