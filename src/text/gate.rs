//! The two readers of a block: the **gate** finds the lines that may mean
//! something, the **pulse** keeps who spoke when. Every line is touched once:
//! its end and its first bytes. Neighbours: `prefix` and `header` tell who
//! speaks, `clean` repairs blocks that need it, `shape` says which do; what a
//! hit means is the catalogue's business. `reader` goes through the block,
//! `marks` finds where its lines end, `anchors` is the search of the gate,
//! `brackets` tells where others may have written into a line, `heads` spares
//! the pulse the headers that it knows, `counts` counts what comes in masses,
//! `speaker` names who speaks, `view` is the block split into lines.

mod anchors;
mod brackets;
mod counts;
mod heads;
mod marks;
mod reader;
mod speaker;
mod view;

use super::{Level, ShapeFacts};
use anchors::Anchors;
use brackets::Open;
pub use brackets::looks_torn;
use heads::Heads;
use reader::{Plain, Reader};
pub use speaker::who;
pub use view::{Line, Piece, View};

/// Who speaks, by what stands before the text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who {
    /// Global for sure.
    pub rank: Option<u32>,
    /// A bare number: task or node, decided later.
    pub label: Option<u32>,
    /// Local rank.
    pub local: Option<u32>,
    /// Process id that a wrapper printed.
    pub pid: Option<u32>,
    /// Host or pod that a wrapper printed.
    pub host: Option<String>,
    /// Worker's name.
    pub name: Option<String>,
    /// NCCL's `host:pid`.
    pub process: Option<String>,
}

/// What a speaker said in the block.
#[derive(Debug, Clone)]
pub struct Spoke {
    /// Who.
    pub who: Who,
    /// Lines.
    pub count: u64,
    /// First line, as [`View::line`] counts.
    pub first: u32,
    /// Last four, oldest first, as far as there are so many.
    pub last: [u32; 4],
}

/// A line that may mean something.
#[derive(Debug, Clone, Copy)]
pub struct Hit {
    /// Line, as [`View::line`] counts.
    pub line: u32,
    /// Index into [`Scanned::speakers`].
    pub speaker: u32,
    /// Where the text behind the launcher's prefix begins, in [`View::bytes`].
    pub text: u32,
    /// Behind an NCCL header: its level, the device and where the body begins.
    pub nccl: Option<(Level, i32, u32)>,
    /// Message that the opening of an INFO line names.
    pub opening: Option<Opened>,
    /// Another writer's message may begin in the middle, and may mean something.
    pub torn: bool,
    /// The line itself is counted already: only what begins in its middle is news.
    pub counted: bool,
}

/// What an INFO text opens with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Message.
    pub message: u16,
    /// Whether its lines are only counted.
    pub bulk: bool,
    /// Whether the last line of each communicator is kept.
    pub by_comm: bool,
    /// A number for the opening itself.
    pub which: u32,
}

/// Lines of a bulk message: counted, only the first is a hit.
#[derive(Debug, Clone, Copy)]
pub struct Bulk {
    /// Message.
    pub message: u16,
    /// Speaker.
    pub speaker: u32,
    /// A number for the communicator, where these are kept apart; else 0.
    pub part: u64,
    /// How many, the first included.
    pub count: u64,
    /// Last line, as [`View::line`] counts.
    pub last: u32,
}

/// What the two readers found.
#[derive(Debug, Default)]
pub struct Scanned {
    /// Who spoke.
    pub speakers: Vec<Spoke>,
    /// In order of lines.
    pub hits: Vec<Hit>,
    /// Bulk lines by message and speaker.
    pub bulk: Vec<Bulk>,
}

/// What an INFO text opens.
pub type Opening<'a> = &'a dyn Fn(&[u8]) -> Option<Opened>;

/// Room that is used again for the next block.
#[derive(Debug, Default)]
pub struct Scratch {
    heads: Heads,
    starts: Vec<u32>,
    found: Vec<u32>,
    run: Vec<Plain>,
}

/// The gate, compiled.
#[derive(Debug)]
pub struct Scanner {
    anchors: Anchors,
    /// Whether INFO texts without an opening are searched for anchors too.
    info: bool,
}

impl Scanner {
    /// For the anchors; those beyond 64 go into a second, slower gate. `info`: they are looked for in INFO texts of NCCL
    /// without an opening too.
    #[must_use]
    pub fn new(anchors: &[String], info: bool) -> Self {
        Self { anchors: Anchors::new(anchors), info }
    }

    /// Reads one piece.
    #[must_use]
    pub fn scan<'a>(
        &self,
        piece: &Piece<'a>,
        facts: &ShapeFacts,
        opening: Opening<'_>,
        scratch: &mut Scratch,
    ) -> (View<'a>, Scanned) {
        let mut starts = std::mem::take(&mut scratch.starts);
        let anchors = (!piece.full).then_some(&self.anchors);
        let mut reader = Reader::new(piece.buffer, (anchors, self.info), opening, scratch);
        if reader.sweep(piece, facts, &mut starts) {
            return (View::plain(piece, starts), reader.finish());
        }
        let view = View::cleaned(piece, facts);
        let mut reader = Reader::new(&view.bytes, (anchors, self.info), opening, scratch);
        for index in view.own.clone() {
            let line = view.line(index);
            let open = Open::in_line(&view.bytes, line.start, line.end);
            reader.line(index as u32, line.start, view.text(&line), open);
        }
        let scanned = reader.finish();
        (view, scanned)
    }
}

impl Scratch {
    /// Takes back what a view no longer needs.
    pub fn reuse(&mut self, view: View<'_>) {
        self.starts = view.starts();
    }
}

/// Lines of all fixtures, for tests.
#[cfg(test)]
fn fixture_lines() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for entry in walkdir::WalkDir::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures")) {
        let path = entry.expect("a fixture").into_path();
        if path.is_file() {
            all.extend(std::fs::read(path).expect("a fixture").split(|b| *b == b'\n').map(<[u8]>::to_vec));
        }
    }
    assert!(all.len() > 1000);
    all
}
