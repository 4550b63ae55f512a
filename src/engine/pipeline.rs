//! From what the user named to what every source says, on all cores: readers
//! hand out blocks with a little of what stands around them, workers read
//! them, and what comes back is merged in the order of each source. A block is
//! read the same way whatever its size and whoever reads it, so the result
//! does not depend on threads, block size or order of arguments. Each block
//! travels with one of a few permits, which is free again when what the
//! block gave is merged: that caps what is in flight, however many cores
//! read. There are fewer while blocks give much, as at the start of a flood.

use super::memory::{self, Tallies};
use super::{Engine, Options};
use crate::catalogue::{self, Catalogue, Reading, Settled, Yield};
use crate::dump;
use crate::input::{self, Cutter, Discovered, Given, Item, Shape};
use crate::job::{Budget, Document, SourceRead, SourceState};
use crate::text::{self, Piece, Scratch, ShapeFacts};
use crossbeam_channel::{Receiver, Sender, bounded};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes before a block that its reader may look back into.
const BEFORE: usize = 16 << 10;
/// Bytes behind a block that its reader may look on into.
const AFTER: usize = 64 << 10;
/// The first and last so many bytes of a source are read line by line.
const EDGE: usize = 256 << 10;

/// Threads that read blocks of one unit, at most: one thread that cuts blocks cannot feed more.
const WORKERS: usize = 5;
/// Bytes of blocks in flight.
const IN_FLIGHT: usize = 16 << 20;
/// So many blocks are in flight at first, and while they give much.
const FEW: usize = 3;
/// What a block may give, in bytes, before that is much.
const MUCH: usize = 1 << 20;

/// What one thread hands to another: which piece of which unit.
type At = (usize, usize);

enum Task {
    Block {
        before: Vec<u8>,
        /// The block and what follows it.
        buffer: Vec<u8>,
        core: usize,
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
    Begin {
        name: String,
        settled: Arc<Settled>,
    },
    /// What a block gave, what it says about memory where that is asked for, and whether it had a permit.
    Read(Yield, Option<Tallies>, bool),
    /// A document, and its lines where these are read too.
    Document(Box<(Document, Vec<String>, Option<Yield>)>),
    End {
        bytes: u64,
        problems: Vec<String>,
    },
}

/// A task with its place and what is known of its source.
type Job = (At, Arc<Settled>, Task);

/// The ends of channels that a reader needs.
struct Ways {
    tasks: Sender<Job>,
    done: Sender<(At, Done)>,
    permits: Receiver<()>,
}

/// The form of the source at hand, which its head tells.
#[derive(Default)]
struct Forms {
    facts: Mutex<Option<Arc<ShapeFacts>>>,
}

impl Forms {
    /// What was told of the source whose first block this is.
    fn take(&self, first: &[u8]) -> Arc<ShapeFacts> {
        let told = self.facts.lock().ok().and_then(|mut f| f.take());
        told.unwrap_or_else(|| Arc::new(text::facts(first)))
    }
}

impl Shape for Forms {
    fn cutter(&self, head: &[u8]) -> Cutter {
        let facts = Arc::new(text::facts(head));
        if let Ok(mut told) = self.facts.lock() {
            *told = Some(Arc::clone(&facts));
        }
        Box::new(move |buffer| text::cut(&facts, buffer))
    }

    fn is_document(&self, head: &[u8]) -> bool {
        dump::is_text_document(head)
    }
}

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// Sources, sorted by name.
    pub(super) sources: Vec<SourceRead>,
    /// What each of them says about memory, where that was asked for.
    pub(super) tallies: Vec<Tallies>,
    /// Paths that could not be walked or opened.
    pub(super) problems: Vec<(String, String)>,
}

/// Reads everything; with `tally` also what is said about memory.
pub(super) fn read(engine: &Engine, given: &[Given], options: &Options, tally: bool) -> Read {
    let Discovered { units, problems } = input::discover(given);
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(2, std::num::NonZero::get),
        n => n,
    };
    let readers = threads.min(units.len()).clamp(1, 8);
    let workers = threads.min(WORKERS.max(2 * readers));
    let in_flight = (workers + 4).min(IN_FLIGHT / options.block.max(4096)).max(2);
    let (tasks_in, tasks) = bounded::<Job>(in_flight);
    let (done_in, done) = bounded::<(At, Done)>(in_flight);
    let (permits_in, permits) = bounded::<()>(in_flight);
    let permits_in = Permits::new(permits_in, in_flight);
    let ways = Ways { tasks: tasks_in, done: done_in.clone(), permits };
    let next = AtomicUsize::new(0);
    let mut merged = BTreeMap::new();
    std::thread::scope(|scope| {
        for _ in 0..readers {
            let ways =
                Ways { tasks: ways.tasks.clone(), done: ways.done.clone(), permits: ways.permits.clone() };
            let (next, units) = (&next, &units);
            scope.spawn(move || {
                loop {
                    let unit = next.fetch_add(1, Ordering::Relaxed);
                    let Some(u) = units.get(unit) else { return };
                    read_unit(unit, u, options, &ways);
                }
            });
        }
        for _ in 0..workers {
            let (tasks, done_in) = (tasks.clone(), done_in.clone());
            scope.spawn(move || work(engine, tally, &tasks, &done_in));
        }
        drop((ways, tasks, done_in));
        merged = merge(&engine.catalogue, units.len(), &done, permits_in);
    });
    let mut all: Vec<(SourceRead, Tallies)> = merged.into_values().collect();
    all.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    let (sources, tallies) = all.into_iter().unzip();
    Read { sources, tallies, problems: problems.into_iter().map(|p| (p.path, p.what)).collect() }
}

fn work(engine: &Engine, tally: bool, tasks: &Receiver<Job>, done: &Sender<(At, Done)>) {
    let scanner = &engine.scanner;
    let mut reading = Reading::new(&engine.catalogue, scanner, &engine.learnt);
    let mut scratch = Scratch::default();
    for (at, settled, task) in tasks {
        let out = match task {
            Task::Block { before, buffer, core, full, mid_line, facts } => {
                let piece = Piece { before: &before, buffer: &buffer, core, full, mid_line };
                let told = tally.then(|| memory::tally(scanner, &piece, &facts, &mut scratch));
                Done::Read(catalogue::read(&mut reading, &facts, &piece, &settled), told, true)
            }
            Task::Whole { bytes, name } => {
                let mut lines = || {
                    let facts = text::facts(&bytes[..bytes.len().min(EDGE)]);
                    let piece = Piece {
                        before: &[],
                        buffer: &bytes,
                        core: bytes.len(),
                        full: bytes.len() < 4 << 20,
                        mid_line: false,
                    };
                    let told = tally.then(|| memory::tally(scanner, &piece, &facts, &mut scratch));
                    (catalogue::read(&mut reading, &facts, &piece, &settled), told)
                };
                match dump::read(&bytes, &name) {
                    Some((dump, damage)) => {
                        // RAS says nothing that the document does not.
                        let text = !matches!(dump, dump::Dump::Ras(_)) && dump::is_text_document(&bytes);
                        let lines = text.then(|| lines().0);
                        let damage = damage.into_iter().map(|d| d.0).collect();
                        Done::Document(Box::new((Document::new(dump, &name), damage, lines)))
                    }
                    None => {
                        let (lines, told) = lines();
                        Done::Read(lines, told, false)
                    }
                }
            }
        };
        if done.send((at, out)).is_err() {
            return;
        }
    }
}

/// The permits of blocks, as the merge gives them out.
struct Permits {
    out: Sender<()>,
    given: usize,
    most: usize,
    /// Blocks that gave little since one more permit was given.
    calm: usize,
}

impl Permits {
    fn new(out: Sender<()>, most: usize) -> Self {
        let given = most.min(FEW);
        for _ in 0..given {
            let _ = out.try_send(());
        }
        Self { out, given, most, calm: 0 }
    }

    /// A block is merged: its permit is free, another one too where blocks give little, none where they give much.
    fn give_back(&mut self, much: bool) {
        if much && self.given > FEW.min(self.most) {
            self.given -= 1;
            return;
        }
        let _ = self.out.try_send(());
        self.calm = if much { 0 } else { self.calm + 1 };
        if self.calm >= FEW && self.given < self.most {
            (self.calm, self.given) = (0, self.given + 1);
            let _ = self.out.try_send(());
        }
    }
}

/// A unit whose pieces are being merged.
struct Open {
    next: usize,
    sources: usize,
    state: Option<SourceState>,
    tallies: Tallies,
    budget: Budget,
}

/// Merges each unit's pieces in their order, whatever order they come in.
fn merge(
    catalogue: &Catalogue,
    units: usize,
    done: &Receiver<(At, Done)>,
    mut permits: Permits,
) -> BTreeMap<(usize, usize), (SourceRead, Tallies)> {
    let mut waiting: BTreeMap<At, Done> = BTreeMap::new();
    let mut open: BTreeMap<usize, Open> = BTreeMap::new();
    let mut finished = BTreeMap::new();
    for (at, what) in done {
        waiting.insert(at, what);
        let unit = at.0;
        let o = open.entry(unit).or_insert_with(|| Open {
            next: 0,
            sources: 0,
            state: None,
            tallies: Tallies::default(),
            budget: Budget::of(units),
        });
        while let Some(what) = waiting.remove(&(unit, o.next)) {
            o.next += 1;
            match what {
                Done::Begin { name, settled } => {
                    o.state.get_or_insert_default().begin(name, settled);
                }
                Done::Read(y, told, permit) => {
                    let much = y.size() > MUCH;
                    memory::merge(&mut o.tallies, told.unwrap_or_default());
                    o.state.get_or_insert_default().take(catalogue, y, &mut o.budget);
                    if permit {
                        permits.give_back(much);
                    }
                }
                Done::Document(d) => {
                    let state = o.state.get_or_insert_default();
                    state.document(d.0, d.1);
                    if let Some(lines) = d.2 {
                        state.take(catalogue, lines, &mut o.budget);
                    }
                }
                Done::End { bytes, problems } => {
                    let tallies = std::mem::take(&mut o.tallies);
                    if let Some(state) = o.state.take() {
                        finished.insert((unit, o.sources), (state.end(bytes, problems), tallies));
                    }
                    o.sources += 1;
                }
            }
        }
    }
    // An interrupted reader may leave a source without its end.
    for (unit, o) in open {
        if let Some(state) = o.state {
            finished.insert((unit, o.sources), (state.end(0, Vec::new()), o.tallies));
        }
    }
    finished
}

fn read_unit(unit: usize, u: &input::Unit, options: &Options, ways: &Ways) {
    let input_options = input::Options {
        block: options.block.max(1024),
        head: EDGE,
        heads_only: false,
        interrupted: options.interrupted.clone(),
        caps: input::Caps::default(),
    };
    let forms = Forms::default();
    let mut at = (unit, 0);
    let mut name = String::new();
    let mut window = Window::default();
    let mut settled = Arc::<Settled>::default();
    let mut emit = |item: Item| -> ControlFlow<()> {
        let mut alive = true;
        match item {
            Item::Begin { name: n, .. } => {
                (window, settled) = (Window::default(), Arc::default());
                name.clone_from(&n);
                let begin = Done::Begin { name: n, settled: Arc::clone(&settled) };
                alive &= ways.done.send((step(&mut at), begin)).is_ok();
            }
            Item::Block { bytes, mid_line } => {
                if window.facts.is_none() {
                    window.facts = Some(forms.take(&bytes));
                }
                window.push(bytes, mid_line, &mut |task| alive &= ways.send(&mut at, &settled, task));
            }
            Item::Whole { bytes } => {
                let task = Task::Whole { bytes, name: name.clone() };
                alive &= ways.tasks.send((step(&mut at), Arc::clone(&settled), task)).is_ok();
            }
            Item::End { bytes, problems } => {
                window.flush(&mut |task| alive &= ways.send(&mut at, &settled, task));
                alive &= ways.done.send((step(&mut at), Done::End { bytes, problems })).is_ok();
            }
        }
        if alive { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    input::read_unit(u, &input_options, &forms, &mut emit);
}

impl Ways {
    /// Hands on a block as soon as one more may be in flight.
    fn send(&self, at: &mut At, settled: &Arc<Settled>, task: Task) -> bool {
        self.permits.recv().is_ok() && self.tasks.send((step(at), Arc::clone(settled), task)).is_ok()
    }
}

fn step(at: &mut At) -> At {
    let now = *at;
    at.1 += 1;
    now
}

/// What of a block, and of what stands before it, is kept for the next one: whole lines
/// only, so that what is looked back into does not depend on the block's size.
fn kept_of(before: &[u8], block: &[u8]) -> Vec<u8> {
    let seen = before.len() + block.len();
    let mut kept = Vec::with_capacity(BEFORE.min(seen));
    if block.len() < BEFORE {
        kept.extend_from_slice(&before[before.len() - before.len().min(BEFORE - block.len())..]);
    }
    kept.extend_from_slice(&block[block.len().saturating_sub(BEFORE)..]);
    if seen > BEFORE {
        let line = memchr::memchr(b'\n', &kept).map_or(kept.len(), |n| n + 1);
        kept.drain(..line);
    }
    kept
}

/// Blocks of one source that wait for what follows them.
#[derive(Default)]
struct Window {
    facts: Option<Arc<ShapeFacts>>,
    before: Vec<u8>,
    /// Blocks, and whether each begins inside a line.
    blocks: VecDeque<(Vec<u8>, bool)>,
    /// Bytes in them.
    pending: usize,
    begun: bool,
}

impl Window {
    fn push(&mut self, bytes: Vec<u8>, mid_line: bool, send: &mut dyn FnMut(Task)) {
        self.pending += bytes.len();
        self.blocks.push_back((bytes, mid_line));
        while self.blocks.front().is_some_and(|b| self.pending - b.0.len() >= EDGE) {
            let Some((block, mid_line)) = self.blocks.pop_front() else { return };
            self.pending -= block.len();
            let core = block.len();
            send(self.task(block, core, !self.begun, mid_line));
        }
    }

    /// The end of the source: what is left, the last [`EDGE`] bytes of it line by line.
    fn flush(&mut self, send: &mut dyn FnMut(Task)) {
        let Some(facts) = self.facts.clone() else { return };
        let edge = self.pending.saturating_sub(EDGE);
        let mut from = 0;
        while let Some((block, mid_line)) = self.blocks.pop_front() {
            let end = from + block.len();
            // Where the edge lies inside a block, it is cut there so that the edge is the same for all block sizes.
            if from < edge && edge < end && self.begun {
                let cut = text::cut(&facts, &block[..edge - from]).unwrap_or(0);
                let right = block[cut..].to_vec();
                if cut > 0 {
                    send(self.task(block, cut, false, mid_line));
                }
                let core = right.len();
                send(self.task(right, core, true, mid_line && cut == 0));
            } else {
                let core = block.len();
                send(self.task(block, core, !self.begun || from >= edge, mid_line));
            }
            from = end;
        }
        self.pending = 0;
    }

    /// The first `core` bytes of `buffer` as a task, with what stands before and behind them.
    fn task(&mut self, mut buffer: Vec<u8>, core: usize, full: bool, mid_line: bool) -> Task {
        self.begun = true;
        let next = kept_of(&self.before, &buffer[..core]);
        let before = std::mem::replace(&mut self.before, next);
        buffer.truncate(core + AFTER);
        for (more, _) in &self.blocks {
            let room = core + AFTER - buffer.len();
            if room == 0 {
                break;
            }
            buffer.extend_from_slice(&more[..more.len().min(room)]);
        }
        Task::Block { before, buffer, core, full, mid_line, facts: self.facts.clone().unwrap_or_default() }
    }
}
