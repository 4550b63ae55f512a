//! Goes through a block once, tile by tile: where lines end, what brackets
//! they hold, who speaks, and whether the line means anything.

use super::super::header::SLURM;
use super::super::{Level, Prefix, ShapeFacts, is_dirty, nccl_quick, split_prefix};
use super::anchors::{self, Anchors};
use super::brackets::Open;
use super::counts::{Counts, comm_part};
use super::heads::Head;
use super::marks::{self, Marks};
use super::speaker::{key, plainly_marked};
use super::{Hit, Opening, Piece, Scanned, Scratch, Spoke, Who, view, who};
use rustc_hash::FxHashMap;

/// A line whose text is still to be searched for anchors: mostly one without an NCCL header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plain {
    line: u32,
    speaker: u32,
    start: u32,
    text: u32,
    end: u32,
    nccl: Option<(Level, i32, u32)>,
}

/// Lines that are searched at once.
const RUN: usize = 128;
/// Bytes that are searched for errors of Slurm at once.
const NEAR: usize = 1 << 10;

/// More speakers than this in one block are one: a log whose every line has another prefix has none.
/// No fewer than are kept of a source, so that it does not matter how the source was cut.
const SPEAKERS: usize = 40_000;

pub(super) struct Reader<'v> {
    bytes: &'v [u8],
    /// What is searched for; nothing where every line is a hit.
    anchors: Option<&'v Anchors>,
    /// Whether that is also done in INFO texts without an opening.
    info: bool,
    out: Scanned,
    by_key: FxHashMap<u64, u32>,
    last: Option<(u64, u32)>,
    /// Speakers by rank (plus one; 0 for none), those of one place take turns.
    ranks: [Option<(u32, u32)>; 256],
    counts: Counts,
    scratch: &'v mut Scratch,
    /// Up to where errors of Slurm were looked for, and where the last part that holds one ends.
    slurm: (usize, usize),
    opening: Opening<'v>,
}

impl<'v> Reader<'v> {
    pub(super) fn new(
        bytes: &'v [u8],
        (anchors, info): (Option<&'v Anchors>, bool),
        opening: Opening<'v>,
        scratch: &'v mut Scratch,
    ) -> Self {
        scratch.heads.clear();
        scratch.run.clear();
        Self {
            bytes,
            anchors,
            info,
            out: Scanned::default(),
            by_key: FxHashMap::default(),
            last: None,
            ranks: [None; 256],
            counts: Counts::default(),
            scratch,
            slurm: (0, 0),
            opening,
        }
    }

    /// Reads the block and notes where its lines begin. Each line is read as soon as its end is found, and so is in the
    /// nearest cache. False when the block must be cleaned first.
    pub(super) fn sweep(&mut self, piece: &Piece<'_>, facts: &ShapeFacts, starts: &mut Vec<u32>) -> bool {
        // Whether bytes that may need cleaning must still be looked at.
        let mut unsure = true;
        if view::may_be_dirty(facts) || view::looks_dirty(piece.before) {
            if is_dirty(piece.buffer, facts) || is_dirty(piece.before, facts) {
                return false;
            }
            unsure = false;
        }
        starts.clear();
        view::line_starts(piece.before, 0, starts);
        let buffer = self.bytes;
        // The end of a line that began before the block is nobody's.
        let mut torn = piece.is_torn();
        let (mut start, mut open) = (0, Open::default());
        let (chunks, rest) = buffer.as_chunks::<{ marks::BYTES }>();
        let last = marks::padded(rest);
        for (n, chunk) in chunks.iter().chain([&last]).enumerate() {
            let Marks { mut ends, mut brackets, control } = marks::find(chunk);
            if unsure && control && view::looks_dirty(chunk) {
                if is_dirty(buffer, facts) {
                    return false;
                }
                unsure = false;
            }
            let from = n * marks::BYTES;
            while ends != 0 {
                let end = ends.trailing_zeros();
                // What stands before the end of the line.
                let mut before = brackets & ((1 << end) - 1);
                brackets ^= before;
                ends &= ends - 1;
                while before != 0 {
                    open.add(buffer, from + before.trailing_zeros() as usize);
                    before &= before - 1;
                }
                let end = from + end as usize;
                if !torn {
                    self.raw_line(start, end, open, piece.core, starts);
                }
                (torn, start, open) = (false, end + 1, Open::default());
            }
            while brackets != 0 {
                open.add(buffer, from + brackets.trailing_zeros() as usize);
                brackets &= brackets - 1;
            }
        }
        if start < buffer.len() && !torn {
            self.raw_line(start, buffer.len(), open, piece.core, starts);
        }
        true
    }

    /// A line as it stands in the input, read where it is one of the block's own.
    #[inline]
    fn raw_line(&mut self, start: usize, end: usize, open: Open, core: usize, starts: &mut Vec<u32>) {
        let index = starts.len() as u32;
        starts.push(start as u32);
        if start < core {
            let bytes = self.bytes;
            let text = &bytes[start..end];
            self.line(index, start as u32, text.strip_suffix(b"\r").unwrap_or(text), open);
        }
    }

    #[inline]
    pub(super) fn line(&mut self, index: u32, start: u32, text: &[u8], open: Open) {
        if let Some(head) = self.scratch.heads.get(text) {
            self.spoke(head.speaker, index);
            self.info((index, start), text, head, Level::Info, open);
            return;
        }
        self.read(index, start, text, open);
    }

    /// Reads what stands before the text.
    fn read(&mut self, index: u32, start: u32, text: &[u8], open: Open) {
        let end = start + text.len() as u32;
        if let Some((rank, len)) = plainly_marked(text) {
            let speaker = self.marked(text, rank, len, index);
            self.plain(Plain { line: index, speaker, start, text: start + len, end, nccl: None });
            return;
        }
        let prefix = split_prefix(text);
        let rest = &text[prefix.len as usize..];
        let Some(q) = nccl_quick(rest) else {
            let speaker = self.speaker(text, &prefix, &[], index);
            self.plain(Plain { line: index, speaker, start, text: start + prefix.len, end, nccl: None });
            return;
        };
        let process = &rest[q.proc.0 as usize..q.proc.1 as usize];
        let speaker = self.speaker(text, &prefix, process, index);
        let head = Head { speaker, prefix: prefix.len, body: prefix.len + q.body, dev: q.dev };
        if q.warn {
            let nccl = Some((q.level, q.dev, start + head.body));
            let text = start + prefix.len;
            let hit = Hit { line: index, speaker, text, nccl, opening: None, torn: true, counted: false };
            self.out.hits.push(hit);
            return;
        }
        if q.level == Level::Info {
            self.scratch.heads.put(text, head);
        }
        self.info((index, start), text, head, q.level, open);
    }

    /// A line behind an NCCL header that is no WARN.
    #[inline]
    fn info(&mut self, (index, start): (u32, u32), text: &[u8], head: Head, level: Level, open: Open) {
        let body = &text[head.body as usize..];
        let opening = (self.opening)(body);
        if self.info && opening.is_none() && self.anchors.is_some() {
            let end = start + text.len() as u32;
            let nccl = Some((level, head.dev, start + head.body));
            self.plain(Plain {
                line: index,
                speaker: head.speaker,
                start,
                text: start + head.prefix,
                end,
                nccl,
            });
            return;
        }
        let bulk = opening.is_some_and(|o| o.bulk);
        let counted = match opening {
            Some(o) if o.bulk => {
                let part = if o.by_comm { comm_part(body, open.last_behind(start + head.body)) } else { 0 };
                !self.counts.add(o.message, head.speaker, part, index)
            }
            _ => false,
        };
        // Its own text is known by its opening; anchors matter for what others wrote into it.
        let other = open.other_behind(start + head.body);
        let torn = (bulk || opening.is_none()) && self.torn(body, start, text, (other, opening.is_none()));
        let looked_at = self.anchors.is_none() || torn || opening.is_some() && !counted;
        if !looked_at {
            return;
        }
        self.out.hits.push(Hit {
            line: index,
            speaker: head.speaker,
            text: start + head.prefix,
            nccl: Some((level, head.dev, start + head.body)),
            opening,
            torn: torn || !bulk || self.anchors.is_none(),
            counted,
        });
    }

    /// Whether another writer's message may begin in a text, by a bracket or else, and the line holds an anchor.
    #[inline]
    fn torn(&mut self, body: &[u8], start: u32, line: &[u8], (other, unknown): (bool, bool)) -> bool {
        let Some(search) = self.anchors else { return false };
        // Slurm's words have no bracket; in lines that come in masses they are not looked for.
        let slurm = unknown && self.slurm_near(start as usize, start as usize + line.len());
        if !(other || slurm && SLURM.find(body).is_some()) {
            return false;
        }
        search.find(line, &mut self.scratch.found);
        !self.scratch.found.is_empty()
    }

    /// Whether an error of Slurm stands in a line or not far from it.
    #[inline]
    fn slurm_near(&mut self, start: usize, end: usize) -> bool {
        if self.slurm.0 < end {
            let to = self.bytes.len().min(end.max(start + NEAR));
            if anchors::slurm(&self.bytes[start..to]) {
                self.slurm.1 = to;
            }
            self.slurm.0 = to;
        }
        self.slurm.1 > start
    }

    /// A line that is searched together with those that follow it.
    #[inline]
    fn plain(&mut self, plain: Plain) {
        let run = &mut self.scratch.run;
        if run.last().is_some_and(|l| l.line + 1 != plain.line) || run.len() >= RUN {
            self.search();
        }
        self.scratch.run.push(plain);
    }

    /// Searches the lines that wait for it.
    fn search(&mut self) {
        let Scratch { run, found, .. } = &mut *self.scratch;
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
        let from = first.start;
        if let Some(anchors) = self.anchors {
            anchors.find(&self.bytes[from as usize..last.end as usize], found);
        }
        let mut found = found.iter().map(|at| from + at).peekable();
        for p in run.drain(..) {
            let mut hit = self.anchors.is_none();
            while found.next_if(|&at| at < p.end).is_some() {
                hit = true;
            }
            if hit {
                self.out.hits.push(Hit {
                    line: p.line,
                    speaker: p.speaker,
                    text: p.text,
                    nccl: p.nccl,
                    opening: None,
                    torn: true,
                    counted: false,
                });
            }
        }
    }

    fn speaker(&mut self, text: &[u8], prefix: &Prefix, process: &[u8], line: u32) -> u32 {
        let key = key(text, prefix, process);
        let speaker = match self.last {
            Some((k, s)) if k == key => s,
            _ => self.known(key, text, prefix, process, line),
        };
        self.last = Some((key, speaker));
        self.spoke(speaker, line);
        speaker
    }

    /// The speaker of a line with no mark, or with no other than a rank.
    #[inline]
    fn marked(&mut self, text: &[u8], rank: Option<u32>, len: u32, line: u32) -> u32 {
        let key = rank.map_or(0, |r| r + 1);
        let place = key as usize % self.ranks.len();
        if let Some((known, speaker)) = self.ranks[place]
            && known == key
        {
            self.spoke(speaker, line);
            return speaker;
        }
        let speaker = self.speaker(text, &Prefix { rank, len, ..Prefix::default() }, &[], line);
        self.ranks[place] = Some((key, speaker));
        speaker
    }

    #[inline]
    fn spoke(&mut self, speaker: u32, line: u32) {
        let spoke = &mut self.out.speakers[speaker as usize];
        let at = (spoke.count % 4) as usize;
        spoke.last[at] = line;
        spoke.count += 1;
    }

    fn known(&mut self, key: u64, text: &[u8], prefix: &Prefix, process: &[u8], line: u32) -> u32 {
        if let Some(&s) = self.by_key.get(&key) {
            return s;
        }
        let full = self.out.speakers.len() >= SPEAKERS;
        let (key, who) = if full { (u64::MAX, Who::default()) } else { (key, who(text, prefix, process)) };
        *self.by_key.entry(key).or_insert_with(|| {
            self.out.speakers.push(Spoke { who, count: 0, first: line, last: [0; 4] });
            self.out.speakers.len() as u32 - 1
        })
    }

    pub(super) fn finish(mut self) -> Scanned {
        self.search();
        for spoke in &mut self.out.speakers {
            if spoke.count >= 4 {
                spoke.last.rotate_left((spoke.count % 4) as usize);
            }
        }
        self.out.bulk = self.counts.take();
        self.out.hits.sort_by_key(|h| (h.line, h.text));
        self.out
    }
}
