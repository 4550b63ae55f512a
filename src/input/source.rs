//! One unit, from its origin to items: sees what each source is, opens what is
//! packed and comes back to itself for the members, and hands the rest to
//! `pump` or out as a document.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::discover::{Origin, Unit};
use super::feed::{Feed, fill, problem_of};
use super::live::Live;
use super::magic::{self, Magic};
use super::sniff::{self, Look};
use super::unpack::Unpacked;
use super::utf16::Utf16;
use super::{Item, Kind, Options, Shape, tarfile, zipfile};

/// What can be read from any place.
pub(super) trait Search: Read + Seek {}
impl<T: Read + Seek> Search for T {}

/// Where a source's bytes come from.
pub(super) enum Input<'a> {
    Stream(&'a mut dyn Read),
    File(&'a mut dyn Search),
}

/// How deep in other things a source is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Nest {
    level: usize,
    /// The level is a compressed file, and an archive in it is still the same.
    compressed: bool,
}

/// Reads one unit.
pub(super) struct Reader<'r> {
    pub(super) options: &'r Options,
    pub(super) shape: &'r dyn Shape,
    emit: &'r mut dyn FnMut(Item) -> ControlFlow<()>,
    /// Nobody wants more items.
    done: bool,
    /// The input itself watches for an interrupt, and has last words then.
    live: bool,
}

impl<'r> Reader<'r> {
    pub(super) fn new(
        options: &'r Options,
        shape: &'r dyn Shape,
        emit: &'r mut dyn FnMut(Item) -> ControlFlow<()>,
    ) -> Self {
        Self { options, shape, emit, done: false, live: false }
    }

    /// Reads the unit to its end.
    pub(super) fn unit(&mut self, unit: &Unit) {
        let name = &unit.label;
        match &unit.origin {
            Origin::File(path) => match File::open(path) {
                Ok(mut file) => self.source(name, Input::File(&mut file), Nest::default()),
                Err(error) => self.failed(name, vec![format!("cannot be opened: {error}")]),
            },
            Origin::Bytes(data) => {
                let mut data = Cursor::new(data.as_slice());
                self.source(name, Input::File(&mut data), Nest::default());
            }
            Origin::Pipe(path) => {
                let path = path.clone();
                self.live(name, move || File::open(path));
            }
            Origin::Stdin => self.live(name, || Ok(io::stdin())),
        }
    }

    /// Reads what may block.
    pub(super) fn live<R: Read>(
        &mut self,
        name: &str,
        open: impl FnOnce() -> io::Result<R> + Send + 'static,
    ) {
        self.live = true;
        let mut input = Live::start(open, Arc::clone(&self.options.interrupted));
        self.source(name, Input::Stream(&mut input), Nest::default());
    }

    /// Reads one source, and all that is in it.
    pub(super) fn source(&mut self, name: &str, input: Input<'_>, nest: Nest) {
        match input {
            Input::Stream(stream) => self.feed(name, Feed::new(stream), nest),
            Input::File(file) => {
                let mut head = Vec::new();
                let zip =
                    fill(&mut *file, &mut head, magic::ENOUGH).is_ok() && magic::of(&head) == Magic::Zip;
                if zip {
                    if let Some(nest) = self.archive(name, nest) {
                        zipfile::read(self, name, file, nest);
                    }
                } else if let Err(error) = file.seek(SeekFrom::Start(0)) {
                    self.failed(name, vec![format!("cannot be read: {error}")]);
                } else {
                    self.feed(name, Feed::new(file), nest);
                }
            }
        }
    }

    /// Reads a stream whose kind is not known yet.
    fn feed(&mut self, name: &str, mut feed: Feed<'_>, nest: Nest) {
        let want = self.options.head.max(magic::ENOUGH);
        let magic = magic::of(feed.want(want));
        match magic {
            Magic::Gzip | Magic::Zstd | Magic::Xz | Magic::Bzip2 => {
                let Some(nest) = self.compressed(name, nest) else {
                    return;
                };
                match Unpacked::open(magic, feed, &self.options.caps) {
                    Ok(mut inner) => self.feed(name, Feed::new(&mut inner), nest),
                    Err(error) => self.failed(name, vec![error.to_string()]),
                }
            }
            Magic::Tar => {
                if let Some(nest) = self.archive(name, nest) {
                    tarfile::read(self, name, &mut feed, nest);
                }
            }
            Magic::Zip => {
                if let Some(nest) = self.archive(name, nest) {
                    zipfile::stream(self, name, &mut feed, nest, Vec::new());
                }
            }
            Magic::Utf16Le | Magic::Utf16Be => {
                let mut decoded = Utf16::new(feed, magic == Magic::Utf16Le);
                let mut feed = Feed::new(&mut decoded);
                feed.want(want);
                self.plain(name, feed);
            }
            Magic::Utf8Bom => {
                io::BufRead::consume(&mut feed, 3);
                feed.want(want);
                self.plain(name, feed);
            }
            Magic::Pickle => self.document(name, feed, None),
            Magic::Not(why) => self.failed(name, vec![why.to_owned()]),
            Magic::Other => self.plain(name, feed),
        }
    }

    /// Reads what is not packed; enough of it is buffered to judge.
    fn plain(&mut self, name: &str, feed: Feed<'_>) {
        match sniff::look(feed.ahead(), feed.over()) {
            Look::Text if !self.live && self.shape.is_document(feed.ahead()) => {
                self.document(name, feed, Some(Look::Json));
            }
            Look::Text => self.text(name, feed),
            look @ (Look::Json | Look::MaybeJson) => self.document(name, feed, Some(look)),
            Look::Binary => self.failed(name, vec!["binary, not read".to_owned()]),
        }
    }

    fn text(&mut self, name: &str, feed: Feed<'_>) {
        if self.begin(name, Kind::Text) {
            self.pump(feed);
        }
    }

    /// Reads a whole document; what only looked like JSON is text after all.
    fn document(&mut self, name: &str, mut feed: Feed<'_>, json: Option<Look>) {
        let most = self.options.caps.document;
        let mut whole = Vec::new();
        let result = feed.fill(&mut whole, most.saturating_add(1));
        let large = whole.len() > most;
        let text = match json {
            Some(Look::MaybeJson) => large || sniff::look(&whole, true) != Look::Json,
            Some(_) => large,
            None => false,
        };
        let mut problems: Vec<String> = result.err().iter().filter_map(problem_of).collect();
        if text {
            // The failure has been taken out of the feed; it is told again at the end.
            let mut again = Cursor::new(whole).chain(Ends::new(problems.pop(), feed));
            return self.text(name, Feed::new(&mut again));
        }
        if large {
            let why = format!("a document of more than {most} bytes, not read");
            return self.failed(name, vec![why]);
        }
        let bytes = whole.len() as u64;
        let _ = self.begin(name, Kind::Document)
            && self.send(Item::Whole { bytes: whole })
            && self.send(Item::End { bytes, problems });
    }

    fn begin(&mut self, name: &str, kind: Kind) -> bool {
        let name = name.to_owned();
        self.send(Item::Begin { name, kind })
    }

    /// A source of which nothing is read, and why.
    pub(super) fn failed(&mut self, name: &str, problems: Vec<String>) {
        if self.begin(name, Kind::Text) {
            self.send(Item::End { bytes: 0, problems });
        }
    }

    /// Hands out an item; false when nobody wants more.
    pub(super) fn send(&mut self, item: Item) -> bool {
        self.done = self.done || (self.emit)(item).is_break();
        !self.done
    }

    /// Whether to stop here.
    pub(super) fn stop(&self) -> bool {
        self.done || (!self.live && self.options.interrupted.load(Ordering::Relaxed))
    }

    fn compressed(&mut self, name: &str, nest: Nest) -> Option<Nest> {
        self.deeper(name, nest.level + 1, true)
    }

    fn archive(&mut self, name: &str, nest: Nest) -> Option<Nest> {
        let level = if nest.compressed { nest.level } else { nest.level + 1 };
        self.deeper(name, level, false)
    }

    fn deeper(&mut self, name: &str, level: usize, compressed: bool) -> Option<Nest> {
        let depth = self.options.caps.depth;
        if level > depth {
            self.failed(name, vec![format!("packed more than {depth} levels deep, not read")]);
            return None;
        }
        Some(Nest { level, compressed })
    }
}

/// The rest of a feed, after a failure that is told (again) first.
struct Ends<'a> {
    problem: Option<String>,
    feed: Feed<'a>,
}

impl<'a> Ends<'a> {
    fn new(problem: Option<String>, feed: Feed<'a>) -> Self {
        Self { problem, feed }
    }
}

impl Read for Ends<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.problem.take() {
            Some(problem) => Err(super::feed::fault(problem)),
            None => self.feed.read(buf),
        }
    }
}
