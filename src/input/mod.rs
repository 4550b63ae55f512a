//! Bytes in, blocks out: what the user named becomes units ([`discover()`]), a
//! unit becomes sources (a file, or each member of an archive), a source
//! becomes blocks cut at line ends, or one whole small document. The room
//! knows nothing of what the bytes mean.
//!
//! `discover` finds files; `live` reads what may block (standard input, named
//! pipes); `feed` is the buffered input that everything else reads from;
//! `magic` and `sniff` tell what something is from its content; `unpack`,
//! `tarfile` and `zipfile` (with `member`) open what is packed; `utf16` decodes; `pump` cuts
//! blocks; `source` ties these together.

mod discover;
mod feed;
mod live;
mod magic;
mod member;
mod pump;
mod sniff;
mod source;
mod tarfile;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_archive;
mod unpack;
mod utf16;
mod zipfile;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use discover::{Discovered, Given, Problem, Unit, discover};

/// How a unit is read.
#[derive(Debug, Clone)]
pub struct Options {
    /// Target size of a block in bytes.
    pub block: usize,
    /// Largest size of the first piece of a source, whatever the block size.
    pub head: usize,
    /// Of text hand out the head alone; the rest is passed over and counted.
    pub heads_only: bool,
    /// Set from outside to end reading soon, with what came so far.
    pub interrupted: Arc<AtomicBool>,
    /// What is too much.
    pub caps: Caps,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            block: 1 << 20,
            head: 256 << 10,
            heads_only: false,
            interrupted: Arc::default(),
            caps: Caps::default(),
        }
    }
}

/// Limits against input that is hostile or absurd.
#[derive(Debug, Clone)]
pub struct Caps {
    /// Members read of one archive.
    pub members: usize,
    /// Bytes one archive may expand to, all members together.
    pub expanded: u64,
    /// How many times its size something may expand to …
    pub ratio: u64,
    /// … once this many bytes have come out.
    pub ratio_after: u64,
    /// Levels of packing; a compressed archive is one level.
    pub depth: usize,
    /// Longest line handed out in one piece.
    pub line: usize,
    /// Largest document handed out whole.
    pub document: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            members: 100_000,
            expanded: 64 << 30,
            ratio: 1000,
            ratio_after: 64 << 20,
            depth: 2,
            line: 4 << 20,
            document: 256 << 20,
        }
    }
}

/// What a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Lines, handed out in blocks. Also what cannot be read at all: then no
    /// block follows and the end names the problem.
    Text,
    /// No line log (a pickle, a JSON document), handed out whole.
    Document,
}

/// What reading a unit yields, in this order for each source: a begin, blocks
/// or one whole, an end.
#[derive(Debug)]
pub enum Item {
    /// A source begins.
    Begin {
        /// The unit's label, or `logs.tar.gz!rank0/stderr.log` for a member.
        name: String,
        /// Whether blocks or a whole follow.
        kind: Kind,
    },
    /// The next piece of a text source; pieces follow each other without gap.
    /// The first one is the head, and never depends on the block size.
    Block {
        /// UTF-8 as far as the source is; NULs and damage are left in.
        bytes: Vec<u8>,
        /// The piece begins inside a line that was too long for one piece.
        mid_line: bool,
    },
    /// All of a document.
    Whole {
        /// Its bytes, decompressed.
        bytes: Vec<u8>,
    },
    /// The source ends.
    End {
        /// How many bytes were handed out (decompressed, in UTF-8).
        bytes: u64,
        /// What went wrong, one sentence each; what came before it was handed out.
        problems: Vec<String>,
    },
}

/// Looks at a buffer and says how long a prefix of it may become a block;
/// `None` when it has no good place to cut yet.
pub type Cutter = Box<dyn Fn(&[u8]) -> Option<usize> + Send>;

/// Decides from the first bytes of a source where its blocks may be cut, since
/// only the caller knows which lines belong together.
pub trait Shape: Sync {
    /// The cutter for a source that begins with `head`.
    fn cutter(&self, head: &[u8]) -> Cutter;

    /// Whether a text that begins so is one document, handed out whole.
    fn is_document(&self, _head: &[u8]) -> bool {
        false
    }
}

/// Blocks end after any line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lines;

impl Shape for Lines {
    fn cutter(&self, _head: &[u8]) -> Cutter {
        Box::new(|buffer| memchr::memrchr(b'\n', buffer).map(|at| at + 1))
    }
}

/// Reads one unit to its end and hands items to `emit` in order, members of
/// archives one after the other. It never fails: what goes wrong stands in the
/// end of the source it belongs to, and a unit that cannot be opened is a
/// begin and an end with the problem. It stops as soon as `emit` says so, and
/// soon after `options.interrupted` is set, then with all that came so far.
pub fn read_unit(
    unit: &Unit,
    options: &Options,
    shape: &dyn Shape,
    emit: &mut dyn FnMut(Item) -> ControlFlow<()>,
) {
    source::Reader::new(options, shape, emit).unit(unit);
}
