//! From what the user named to what every source says, on all cores: readers
//! hand out blocks with a little of what stands around them, workers read
//! them, and what comes back is merged in the order of each source. A block is
//! read the same way whatever its size and whoever reads it, so the result
//! does not depend on threads, block size or order of arguments.

use super::Options;
use crate::catalogue::{self, Catalogue, Yield};
use crate::dump;
use crate::input::{self, Cutter, Discovered, Given, Item, Shape};
use crate::job::{Budget, SourceRead, SourceState};
use crate::text::{self, Piece, Scanner, ShapeFacts};
use crossbeam_channel::{Receiver, Sender, bounded};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes before a block that its reader may look back into.
const BEFORE: usize = 16 << 10;
/// Bytes behind a block that its reader may look on into.
const AFTER: usize = 64 << 10;
/// The first and last so many bytes of a source are read line by line.
const EDGE: usize = 256 << 10;

/// What one thread hands to another: which source of which unit, and which piece of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct At {
    unit: usize,
    source: usize,
    piece: usize,
}

enum Task {
    Block {
        buffer: Vec<u8>,
        core: std::ops::Range<usize>,
        full: bool,
        mid_line: bool,
        facts: Arc<ShapeFacts>,
    },
    Whole {
        bytes: Vec<u8>,
        name: String,
    },
}

enum Done {
    Begin { name: String },
    Read(Yield),
    Document(Box<(dump::Dump, Vec<String>)>),
    End { bytes: u64, problems: Vec<String> },
}

struct Forms;

impl Shape for Forms {
    fn cutter(&self, head: &[u8]) -> Cutter {
        let facts = text::facts(head);
        Box::new(move |buffer| text::cut(&facts, buffer))
    }
}

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// Sources, sorted by name.
    pub(super) sources: Vec<SourceRead>,
    /// Paths that could not be walked or opened.
    pub(super) problems: Vec<(String, String)>,
}

/// Reads everything.
pub(super) fn read(catalogue: &Catalogue, scanner: &Scanner, given: &[Given], options: &Options) -> Read {
    let Discovered { units, problems } = input::discover(given);
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(2, std::num::NonZero::get),
        n => n,
    };
    let readers = threads.min(units.len()).clamp(1, 8);
    // Blocks in flight are capped together, whatever the number of cores.
    let in_flight = ((24 << 20) / options.block.max(4096)).clamp(2, 64);
    let (tasks_in, tasks) = bounded::<(At, Task)>(in_flight.min(threads * 2).max(2));
    let (done_in, done) = bounded::<(At, Done)>(in_flight.max(4));
    let next = AtomicUsize::new(0);
    let mut merged = BTreeMap::new();
    std::thread::scope(|scope| {
        for _ in 0..readers {
            let (tasks_in, done_in, next, units) = (tasks_in.clone(), done_in.clone(), &next, &units);
            scope.spawn(move || {
                loop {
                    let unit = next.fetch_add(1, Ordering::Relaxed);
                    let Some(u) = units.get(unit) else { return };
                    read_unit(unit, u, options, &tasks_in, &done_in);
                }
            });
        }
        for _ in 0..threads {
            let (tasks, done_in) = (tasks.clone(), done_in.clone());
            scope.spawn(move || work(catalogue, scanner, &tasks, &done_in));
        }
        drop((tasks_in, tasks, done_in));
        merged = merge(catalogue, &done);
    });
    let mut sources: Vec<SourceRead> = merged.into_values().collect();
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    Read { sources, problems: problems.into_iter().map(|p| (p.path, p.what)).collect() }
}

fn work(catalogue: &Catalogue, scanner: &Scanner, tasks: &Receiver<(At, Task)>, done: &Sender<(At, Done)>) {
    for (at, task) in tasks {
        let out = match task {
            Task::Block { buffer, core, full, mid_line, facts } => {
                let piece = Piece { buffer: &buffer, core, full, mid_line };
                Done::Read(catalogue::read(catalogue, scanner, &facts, &piece))
            }
            Task::Whole { bytes, name } => match dump::read(&bytes, &name) {
                Some((dump, damage)) => {
                    Done::Document(Box::new((dump, damage.into_iter().map(|d| d.0).collect())))
                }
                None => {
                    let facts = text::facts(&bytes[..bytes.len().min(EDGE)]);
                    let piece = Piece {
                        buffer: &bytes,
                        core: 0..bytes.len(),
                        full: bytes.len() < 4 << 20,
                        mid_line: false,
                    };
                    Done::Read(catalogue::read(catalogue, scanner, &facts, &piece))
                }
            },
        };
        if done.send((at, out)).is_err() {
            return;
        }
    }
}

/// Merges each source's pieces in their order, whatever order they come in.
fn merge(catalogue: &Catalogue, done: &Receiver<(At, Done)>) -> BTreeMap<(usize, usize), SourceRead> {
    let mut waiting: BTreeMap<At, Done> = BTreeMap::new();
    let mut open: BTreeMap<(usize, usize), (usize, SourceState)> = BTreeMap::new();
    let mut finished = BTreeMap::new();
    let mut budget = Budget::default();
    for (at, what) in done {
        waiting.insert(at, what);
        let source = (at.unit, at.source);
        loop {
            let next = open.get(&source).map_or(0, |s| s.0);
            let Some(what) = waiting.remove(&At { unit: at.unit, source: at.source, piece: next }) else {
                break;
            };
            let state = open.entry(source).or_insert_with(|| (0, SourceState::default()));
            state.0 += 1;
            match what {
                Done::Begin { name } => state.1.begin(name),
                Done::Read(y) => state.1.take(catalogue, y, &mut budget),
                Done::Document(d) => state.1.document(d.0, d.1),
                Done::End { bytes, problems } => {
                    if let Some((_, state)) = open.remove(&source) {
                        finished.insert(source, state.end(bytes, problems));
                    }
                    break;
                }
            }
        }
    }
    // An interrupted reader may leave a source without its end.
    for (source, (_, state)) in open {
        finished.insert(source, state.end(0, Vec::new()));
    }
    finished
}

fn read_unit(
    unit: usize,
    u: &input::Unit,
    options: &Options,
    tasks: &Sender<(At, Task)>,
    done: &Sender<(At, Done)>,
) {
    let input_options = input::Options {
        block: options.block.max(1024),
        head: EDGE,
        interrupted: options.interrupted.clone(),
        caps: input::Caps::default(),
    };
    let mut at = At { unit, source: 0, piece: 0 };
    let mut begun = false;
    let mut name = String::new();
    let mut window = Window::new(options.block.max(1024));
    let mut emit = |item: Item| -> ControlFlow<()> {
        let mut alive = true;
        match item {
            Item::Begin { name: n, .. } => {
                if begun {
                    at = At { unit, source: at.source + 1, piece: 0 };
                }
                begun = true;
                window = Window::new(options.block.max(1024));
                name.clone_from(&n);
                alive &= done.send((step(&mut at), Done::Begin { name: n })).is_ok();
            }
            Item::Block { bytes, mid_line } => {
                window.push(bytes, mid_line, &mut |task| alive &= tasks.send((step(&mut at), task)).is_ok());
            }
            Item::Whole { bytes } => {
                alive &= tasks.send((step(&mut at), Task::Whole { bytes, name: name.clone() })).is_ok();
            }
            Item::End { bytes, problems } => {
                window.flush(&mut |task| alive &= tasks.send((step(&mut at), task)).is_ok());
                alive &= done.send((step(&mut at), Done::End { bytes, problems })).is_ok();
            }
        }
        if alive { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    input::read_unit(u, &input_options, &Forms, &mut emit);
}

fn step(at: &mut At) -> At {
    let now = *at;
    at.piece += 1;
    now
}

/// Blocks of one source that wait for what follows them.
struct Window {
    facts: Option<Arc<ShapeFacts>>,
    before: Vec<u8>,
    pending: Vec<u8>,
    /// Lengths of the blocks in `pending`, and whether each begins inside a line.
    blocks: std::collections::VecDeque<(usize, bool)>,
    first: bool,
    block: usize,
}

impl Window {
    fn new(block: usize) -> Self {
        Self {
            facts: None,
            before: Vec::new(),
            pending: Vec::new(),
            blocks: std::collections::VecDeque::new(),
            first: true,
            block,
        }
    }

    fn push(&mut self, bytes: Vec<u8>, mid_line: bool, send: &mut dyn FnMut(Task)) {
        if self.facts.is_none() {
            self.facts = Some(Arc::new(text::facts(&bytes)));
        }
        self.blocks.push_back((bytes.len(), mid_line));
        if self.pending.is_empty() {
            self.pending = bytes;
        } else {
            self.pending.extend_from_slice(&bytes);
        }
        let mut from = 0;
        while let Some(&(len, mid_line)) = self.blocks.front()
            && self.pending.len() - from >= len + EDGE
        {
            self.blocks.pop_front();
            send(self.task(from, from + len, self.first, mid_line));
            self.first = false;
            from += len;
        }
        self.pending.drain(..from);
    }

    /// The end of the source: what is left, the last [`EDGE`] bytes of it line by line.
    fn flush(&mut self, send: &mut dyn FnMut(Task)) {
        let Some(facts) = self.facts.clone() else { return };
        let total = self.pending.len();
        let edge = total.saturating_sub(EDGE);
        let mut from = 0;
        while let Some((len, mid_line)) = self.blocks.pop_front() {
            let end = from + len;
            // Where the edge lies inside a block, it is cut there so that the edge is the same for all block sizes.
            if from < edge && edge < end && !self.first {
                let cut = text::cut(&facts, &self.pending[from..edge]).map_or(from, |n| from + n);
                if cut > from {
                    send(self.task(from, cut, false, mid_line));
                }
                send(self.task(cut, end, true, mid_line && cut == from));
            } else {
                send(self.task(from, end, self.first || from >= edge, mid_line));
            }
            self.first = false;
            from = end;
        }
        self.pending.clear();
        let _ = self.block;
    }

    fn task(&mut self, from: usize, to: usize, full: bool, mid_line: bool) -> Task {
        let after = self.pending.len().min(to + AFTER);
        let mut buffer = Vec::with_capacity(self.before.len() + after - from);
        buffer.extend_from_slice(&self.before);
        buffer.extend_from_slice(&self.pending[from..after]);
        let core = self.before.len()..self.before.len() + (to - from);
        let seen = &buffer[..core.end];
        let keep = seen.len().saturating_sub(BEFORE);
        // Whole lines only, so that what is looked back into does not depend on the block's size.
        let keep = memchr::memchr(b'\n', &seen[keep..]).map_or(seen.len(), |n| keep + n + 1);
        self.before = if core.end <= BEFORE { seen.to_vec() } else { seen[keep..].to_vec() };
        Task::Block { buffer, core, full, mid_line, facts: self.facts.clone().unwrap_or_default() }
    }
}
