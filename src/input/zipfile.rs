//! Zip: by the directory at its end where the file can be searched, else (a
//! stream, a file that was cut) by the headers before the members, as far as
//! it goes. Checkpoints and other zips that hold no logs are only named.

use std::io::{self, BufRead, Read, SeekFrom};

use super::feed::{Feed, fault, fill, problem_of};
use super::magic::{CHECKPOINT, Magic};
use super::member::{Counted, Part, clean};
use super::source::{Input, Nest, Reader, Search};
use super::unpack::{Inflate, Unpacked, exactly};

const LOCAL: [u8; 4] = *b"PK\x03\x04";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const END: [u8; 4] = *b"PK\x05\x06";
const END_64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR_64: [u8; 4] = *b"PK\x06\x07";
const DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";
/// Where a file's end can stand before the end: after it comes a comment.
const END_SEARCH: u64 = 22 + 65_535;
/// Bytes of all names of a directory.
const NAMES: usize = 16 << 20;
/// Marks a number that stands in the extra field.
const LARGE: u64 = 0xffff_ffff;

/// What is known of a member before its data.
struct Entry {
    name: String,
    flags: u16,
    method: u16,
    /// Checksum and packed size, where they are known beforehand.
    sum: Option<u32>,
    packed: Option<u64>,
    /// They stand behind the data (too).
    later: bool,
    /// Where its own header stands.
    at: u64,
}

/// Reads a zip that can be searched.
pub(super) fn read(reader: &mut Reader<'_>, name: &str, file: &mut dyn Search, nest: Nest) {
    let caps = &reader.options.caps;
    match directory(file, caps.members) {
        Ok(Directory { entries, more, size }) => {
            if let Some(why) = entries.iter().find_map(|e| no_log(&e.name)) {
                return reader.failed(name, vec![why.to_owned()]);
            }
            let mut walk = Walk::new(reader, size);
            if more {
                let n = entries.len();
                walk.problems.push(format!("zip: holds more than {n} files, the rest is not read"));
            }
            for entry in entries {
                if reader.stop() || walk.over {
                    break;
                }
                walk.listed(reader, name, file, &entry, nest);
            }
            walk.finish(reader, name);
        }
        Err(_) => {
            let why = "zip: its directory is missing or damaged, read as far as it goes";
            match file.seek(SeekFrom::Start(0)) {
                Ok(_) => stream(reader, name, &mut Feed::new(file), nest, vec![why.to_owned()]),
                Err(error) => reader.failed(name, vec![format!("cannot be read: {error}")]),
            }
        }
    }
}

/// Reads a zip from front to end.
pub(super) fn stream(
    reader: &mut Reader<'_>,
    name: &str,
    feed: &mut Feed<'_>,
    nest: Nest,
    problems: Vec<String>,
) {
    let mut walk = Walk::new(reader, 0);
    walk.problems = problems;
    while !reader.stop() && !walk.over {
        match walk.next(reader, name, feed, nest) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) if walk.files == 0 && error.kind() == io::ErrorKind::Unsupported => {
                return reader.failed(name, vec![error.to_string()]);
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                walk.problems.push("zip: the file ends in the middle".to_owned());
                break;
            }
            Err(error) => {
                walk.problems.extend(problem_of(&error));
                break;
            }
        }
    }
    walk.finish(reader, name);
}

/// Why a zip with such a member is not opened.
fn no_log(member: &str) -> Option<&'static str> {
    let last = member.rsplit('/').next().unwrap_or(member);
    if last == "data.pkl" || member.ends_with(".data/serialization_id") {
        Some(CHECKPOINT)
    } else if member.ends_with(".npy") {
        Some("NumPy arrays (npz), not a log")
    } else if member == "META-INF/MANIFEST.MF" {
        Some("a Java archive, not a log")
    } else {
        None
    }
}

struct Walk {
    files: usize,
    budget: u64,
    /// Size of the packed file, where it is known.
    size: u64,
    /// There is no reading on.
    over: bool,
    problems: Vec<String>,
}

impl Walk {
    fn new(reader: &Reader<'_>, size: u64) -> Self {
        Self { files: 0, budget: reader.options.caps.expanded, size, over: false, problems: Vec::new() }
    }

    fn finish(mut self, reader: &mut Reader<'_>, name: &str) {
        if self.files == 0 && self.problems.is_empty() && !reader.stop() {
            self.problems.push("zip: holds no file".to_owned());
        }
        if !self.problems.is_empty() {
            reader.failed(name, self.problems);
        }
    }

    /// A member that the directory lists.
    fn listed(
        &mut self,
        reader: &mut Reader<'_>,
        name: &str,
        file: &mut dyn Search,
        entry: &Entry,
        nest: Nest,
    ) {
        if entry.name.ends_with('/') {
            return;
        }
        self.files += 1;
        let full = format!("{name}!{}", entry.name);
        let result = file.seek(SeekFrom::Start(entry.at)).and_then(|_| {
            let mut feed = Feed::new(file);
            if local(&mut feed)?.is_none() {
                return Err(fault("zip: damaged, its header is not where it should be"));
            }
            self.member(reader, &full, &mut feed, entry, nest)
        });
        if let Err(error) = result {
            reader.failed(&full, problem_of(&error).into_iter().collect());
        }
        let caps = &reader.options.caps;
        let out = caps.expanded - self.budget;
        if out > caps.ratio_after && out / caps.ratio > self.size {
            let why = format!("zip: expands more than {} times, the rest is not read", caps.ratio);
            self.problems.push(why);
            self.over = true;
        }
    }

    /// The next member of a stream; false where the members end.
    fn next(
        &mut self,
        reader: &mut Reader<'_>,
        name: &str,
        feed: &mut Feed<'_>,
        nest: Nest,
    ) -> io::Result<bool> {
        let Some(entry) = local(feed)? else {
            return Ok(false);
        };
        if let Some(why) = no_log(&entry.name) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        if self.files == reader.options.caps.members {
            let n = self.files;
            return Err(fault(format!("zip: holds more than {n} files, the rest is not read")));
        }
        if entry.name.ends_with('/') {
            match entry.packed {
                Some(size) => feed.skip(size)?,
                // Some writers deflate the nothing that a folder is.
                None => io::copy(&mut Inflate::new(&mut *feed), &mut io::sink())?,
            };
        } else {
            self.files += 1;
            let full = format!("{name}!{}", entry.name);
            if let Err(error) = self.member(reader, &full, feed, &entry, nest) {
                reader.failed(&full, problem_of(&error).into_iter().collect());
            }
        }
        if entry.later && !self.over {
            descriptor(feed);
        }
        Ok(true)
    }

    /// Hands out one member, whose data the feed stands before, and reads to
    /// the end of its data. An error: nothing could be handed out.
    fn member(
        &mut self,
        reader: &mut Reader<'_>,
        full: &str,
        feed: &mut Feed<'_>,
        entry: &Entry,
        nest: Nest,
    ) -> io::Result<()> {
        if let Some(why) = refusal(entry) {
            match entry.packed {
                Some(size) => self.over |= feed.skip(size)? < size,
                None => self.over = true,
            }
            return Err(fault(why));
        }
        let caps = &reader.options.caps;
        let Some(size) = entry.packed else {
            let used = feed.used();
            let inner = Box::new(Inflate::new(&mut *feed));
            let inner = Unpacked::guard(inner, "zip", usize::MAX, used, caps);
            self.content(reader, full, inner, None, nest, true);
            return Ok(());
        };
        let mut part = Part::new(feed, "zip", size);
        let data = Feed::new(&mut part);
        let used = data.used();
        let inner: Box<dyn Read + '_> = match entry.method {
            0 => Box::new(data),
            8 => Box::new(Inflate::new(data)),
            12 => Box::new(Unpacked::open(Magic::Bzip2, data, caps)?),
            93 => Box::new(Unpacked::open(Magic::Zstd, data, caps)?),
            _ => Box::new(Unpacked::open(Magic::Xz, data, caps)?),
        };
        let inner = Unpacked::guard(inner, "zip", usize::MAX, used, caps);
        self.content(reader, full, inner, entry.sum, nest, false);
        self.over |= part.told;
        let left = part.left;
        if !self.over {
            self.over = feed.skip(left)? < left;
        }
        Ok(())
    }

    /// Hands out what comes out of a member; `to_end`: reads on to its end,
    /// since nothing else tells where that is.
    fn content(
        &mut self,
        reader: &mut Reader<'_>,
        full: &str,
        inner: Unpacked<'_>,
        sum: Option<u32>,
        nest: Nest,
        to_end: bool,
    ) {
        let mut counted = Counted::new(inner, "zip", &mut self.budget, sum);
        reader.source(full, Input::Stream(&mut counted), nest);
        if to_end && !counted.failed && !reader.stop() {
            // What fails here fails in what nobody wanted.
            let _ = io::copy(&mut counted, &mut io::sink());
        }
        let lost = to_end && counted.failed;
        self.over |= lost || self.budget == 0;
    }
}

/// Why a member cannot be read.
fn refusal(entry: &Entry) -> Option<String> {
    if entry.flags & 1 != 0 {
        Some("zip: encrypted, not read".to_owned())
    } else if entry.packed.is_none() && entry.method != 8 {
        Some("zip: its length stands behind it, not readable as a stream".to_owned())
    } else if !matches!(entry.method, 0 | 8 | 12 | 93 | 95) {
        let n = entry.method;
        Some(format!("zip: compression method {n} is not supported, not read"))
    } else {
        None
    }
}

/// Reads the header before a member; none where the members end.
fn local(feed: &mut Feed<'_>) -> io::Result<Option<Entry>> {
    feed.fill_buf()?;
    match feed.want(4).first_chunk() {
        None => return Err(io::ErrorKind::UnexpectedEof.into()),
        Some(&(CENTRAL | END | END_64)) => return Ok(None),
        Some(&LOCAL) => {}
        Some(_) => return Err(fault("zip: damaged, the rest is not read")),
    }
    let head: [u8; 30] = exactly(feed)?;
    let name = some(feed, u16_at(&head, 26).into())?;
    let extra = some(feed, u16_at(&head, 28).into())?;
    let flags = u16_at(&head, 6);
    let method = u16_at(&head, 8);
    let later = flags & 8 != 0;
    let large = [u32_at(&head, 22), u32_at(&head, 18)];
    let [_, packed] = numbers(&extra, large);
    let empty = method == 0 && later && {
        let next = feed.want(16);
        next.starts_with(&DESCRIPTOR) && next[4..].iter().all(|&b| b == 0)
    };
    Ok(Some(Entry {
        name: clean(&name),
        flags,
        method,
        sum: (!later).then(|| u32_at(&head, 14) as u32),
        packed: (!later || packed != 0 || empty).then_some(packed),
        later,
        at: 0,
    }))
}

/// Steps over what follows a member whose length stands behind it.
fn descriptor(feed: &mut Feed<'_>) {
    let next = feed.want(28);
    let marked = next.starts_with(&DESCRIPTOR);
    let lengths: &[usize] = if marked { &[16, 24] } else { &[12, 20] };
    let begins = |at: &usize| {
        (next.get(*at..*at + 4)).is_some_and(|s| [LOCAL, CENTRAL, END, END_64].iter().any(|m| m == s))
    };
    if let Some(&n) = lengths.iter().find(|at| begins(at)) {
        feed.consume(n);
    }
}

/// What the directory lists.
struct Directory {
    entries: Vec<Entry>,
    /// There are more than were asked for.
    more: bool,
    /// Size of the whole file.
    size: u64,
}

/// Reads the directory at the end.
fn directory(file: &mut dyn Search, most: usize) -> io::Result<Directory> {
    let size = file.seek(SeekFrom::End(0))?;
    let place = place(file, size)?;
    file.seek(SeekFrom::Start(place.at))?;
    let mut feed = Feed::new(file);
    let mut list = Directory { entries: Vec::new(), more: false, size };
    let mut names = 0usize;
    while feed.want(4).starts_with(&CENTRAL) {
        if list.entries.len() == most || names > NAMES {
            list.more = true;
            break;
        }
        let head: [u8; 46] = exactly(&mut feed)?;
        let name = some(&mut feed, u16_at(&head, 28).into())?;
        let extra = some(&mut feed, u16_at(&head, 30).into())?;
        some(&mut feed, u16_at(&head, 32).into())?;
        let large = [u32_at(&head, 24), u32_at(&head, 20), u32_at(&head, 42)];
        let [_, packed, at] = numbers(&extra, large);
        names += name.len();
        list.entries.push(Entry {
            name: clean(&name),
            flags: u16_at(&head, 8),
            method: u16_at(&head, 10),
            sum: Some(u32_at(&head, 16) as u32),
            packed: Some(packed),
            later: false,
            at: at.saturating_add(place.before),
        });
    }
    if !list.more && list.entries.len() as u64 % 65_536 != place.count % 65_536 {
        return Err(fault("zip: the directory is damaged"));
    }
    Ok(list)
}

/// Where the directory stands.
struct Place {
    at: u64,
    count: u64,
    /// Bytes before the zip itself, which its own numbers leave out.
    before: u64,
}

fn place(file: &mut dyn Search, size: u64) -> io::Result<Place> {
    let from = size.saturating_sub(END_SEARCH);
    let tail = piece(file, from, END_SEARCH as usize)?;
    let missing = || fault("zip: no directory");
    let at = memchr::memmem::rfind(&tail, &END).ok_or_else(missing)?;
    let end: &[u8; 22] = tail[at..].first_chunk().ok_or_else(missing)?;
    let mut stands = from + at as u64;
    let (mut count, mut length, mut start) = (u64::from(u16_at(end, 10)), u32_at(end, 12), u32_at(end, 16));
    let locator = at.checked_sub(20).map(|at| &tail[at..at + 20]);
    if let Some(locator) = locator.filter(|l| l.starts_with(&LOCATOR_64)) {
        let large = piece(file, u64_at(locator, 8), 56)?;
        if large.len() == 56 && large.starts_with(&END_64) {
            stands = u64_at(locator, 8);
            (count, length, start) = (u64_at(&large, 32), u64_at(&large, 40), u64_at(&large, 48));
        }
    }
    let at = stands.checked_sub(length).ok_or_else(missing)?;
    let before = at.checked_sub(start).ok_or_else(missing)?;
    Ok(Place { at, count, before })
}

/// Up to `n` bytes from a place.
fn piece(file: &mut dyn Search, from: u64, n: usize) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    fill(&mut *file, &mut bytes, n)?;
    Ok(bytes)
}

/// Takes `n` bytes, which are few.
fn some(feed: &mut Feed<'_>, n: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; n];
    feed.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Numbers that may be too large for their fields and then stand, in the same
/// order, in the extra field.
fn numbers<const N: usize>(extra: &[u8], fields: [u64; N]) -> [u64; N] {
    let mut large: &[u8] = &[];
    let mut rest = extra;
    while let Some((head, tail)) = rest.split_first_chunk::<4>() {
        let (id, n) = (u16_at(head, 0), usize::from(u16_at(head, 2)));
        let Some(body) = tail.get(..n) else { break };
        if id == 1 {
            large = body;
        }
        rest = &tail[n..];
    }
    fields.map(|field| match large.split_first_chunk::<8>() {
        Some((number, tail)) if field == LARGE => {
            large = tail;
            u64::from_le_bytes(*number)
        }
        _ => field,
    })
}

fn number(bytes: &[u8], at: usize, n: usize) -> u64 {
    let bytes = bytes.get(at..at + n).unwrap_or_default();
    bytes.iter().rev().fold(0, |sum, &b| sum << 8 | u64::from(b))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    number(bytes, at, 2) as u16
}

fn u32_at(bytes: &[u8], at: usize) -> u64 {
    number(bytes, at, 4)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    number(bytes, at, 8)
}
