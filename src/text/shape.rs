//! What the head of a source tells about the form in which its lines were
//! kept: wrapped in JSON, as a container runtime writes them, broken by a
//! terminal at one fixed width, tagged by mpirun, with colour codes that lost
//! their ESC. [`facts`] is asked once for each source; [`cut`] says where a
//! block of it may end, so that what `clean` joins is never parted.

use super::header::{glog, nccl_header, pylog};
use super::json;
use super::prefix::split_prefix;
use super::scan::{at, digits, from, is};
use super::time;

/// How much of a source is looked at, and how far back a cut is sought.
const HEAD: usize = 256 * 1024;
/// How many lines tell whether a source is JSON or a container runtime's.
const SAMPLE: usize = 64;
/// The widths of terminals.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=240;

/// The form of a source.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ShapeFacts {
    /// Every line is an object that holds the text.
    pub json: bool,
    /// `STAMP stderr F text`, where `P` marks a part of a line.
    pub cri: bool,
    /// The width, in characters, at which lines were broken.
    pub wrap: Option<u32>,
    /// Colour codes without their ESC.
    pub bare_ansi: bool,
    /// mpirun's tags, which may repeat inside a line.
    pub mpi_tags: bool,
    /// Lines are filled up with blanks, as a terminal's copy is.
    pub padded: bool,
}

impl ShapeFacts {
    /// Whether several lines of the input can be one line of the log.
    pub(super) fn joins(&self) -> bool {
        self.json || self.cri || self.wrap.is_some()
    }
}

/// What the first bytes of a source (at most 256 KiB of them) tell.
#[must_use]
pub fn facts(head: &[u8]) -> ShapeFacts {
    let whole = head.len() <= HEAD;
    let head = &head[..head.len().min(HEAD)];
    let ends = memchr::memchr_iter(b'\n', head).chain([head.len()]);
    let mut start = 0;
    let mut lines: Vec<&[u8]> =
        ends.map(|end| trim_cr(&head[std::mem::replace(&mut start, end + 1)..end])).collect();
    if !whole {
        // The last one is cut.
        lines.pop();
    }
    let sample = || lines.iter().filter(|l| !l.trim_ascii().is_empty()).take(SAMPLE);
    let seen = sample().count();
    let records =
        sample().filter(|l| json::record(l).is_some_and(|r| r.time.is_some() || r.docker())).count();
    let runtime = sample().filter(|l| cri(l).is_some()).count();
    let json = records >= 1 && records * 4 >= seen * 3;
    let cri = !json && runtime >= 1 && runtime * 2 >= seen;
    ShapeFacts {
        json,
        cri,
        wrap: if json || cri { None } else { width(&lines) },
        bare_ansi: bare_ansi(head),
        mpi_tags: memchr::memmem::find(head, b"]<std").is_some(),
        padded: padded(&lines),
    }
}

/// Whether four lines or more are filled up to one width, and hardly any to another.
fn padded(lines: &[&[u8]]) -> bool {
    let filled = || lines.iter().filter(|l| l.len() > 60 && l.ends_with(b"        ")).map(|l| chars(l));
    let Some(width) = filled().max() else { return false };
    let full = filled().filter(|w| *w == width).count();
    full >= 4 && full * 2 > filled().count()
}

fn trim_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A line of a container runtime: whether it is a part, whether it is stderr,
/// and where its text begins.
pub(super) fn cri(line: &[u8]) -> Option<(bool, bool, usize)> {
    let (civil, end) = time::bare(line)?;
    if !civil.t || civil.offset.is_none() {
        return None;
    }
    let err = is(line, end, b" stderr ");
    if !err && !is(line, end, b" stdout ") {
        return None;
    }
    let part = match at(line, end + 8) {
        b'P' => true,
        b'F' => false,
        _ => return None,
    };
    let text = end + 9;
    match at(line, text) {
        b' ' => Some((part, err, text + 1)),
        0 if text >= line.len() => Some((part, err, line.len())),
        _ => None,
    }
}

/// Whether both a colour and an end of colour stand there without ESC.
fn bare_ansi(head: &[u8]) -> bool {
    let (mut colour, mut end) = (false, false);
    for i in memchr::memchr_iter(b'[', head) {
        if i > 0 && head[i - 1] == 0x1b || !at(head, i + 1).is_ascii_digit() {
            continue;
        }
        if let Some((first, _)) = bare_code(head, i) {
            end |= matches!(first, 0 | 22 | 39 | 49);
            colour |= (1..=4).contains(&first) || first >= 30 && first != 39;
            if colour && end {
                return true;
            }
        }
    }
    false
}

/// A colour code at `i` without its ESC, `[1;36m`: its first number and where it ends.
pub(super) fn bare_code(b: &[u8], i: usize) -> Option<(u32, usize)> {
    let mut pos = i + 1;
    let mut first = None;
    for _ in 0..6 {
        let len = digits(b, pos);
        if !(1..=3).contains(&len) {
            return None;
        }
        let n = super::scan::fixed(b, pos, len)?;
        first = first.or(Some(n));
        pos += len;
        match at(b, pos) {
            b';' => pos += 1,
            b'm' => {
                let first = first?;
                let known = matches!(first, 0..=4 | 7 | 22 | 24 | 27 | 30..=49 | 90..=107);
                return known.then_some((first, pos + 1));
            }
            _ => return None,
        }
    }
    None
}

/// How many characters a line has, and no figure for what is no UTF-8.
pub(super) fn chars(line: &[u8]) -> usize {
    if line.is_ascii() { line.len() } else { line.iter().filter(|c| **c & 0xC0 != 0x80).count() }
}

/// Whether `next` goes on where `line`, which is full, was broken.
pub(super) fn continues(width: usize, line: &[u8], next: &[u8]) -> bool {
    let alike = line.iter().zip(next).take(5).take_while(|(a, b)| a == b).count() == 5;
    chars(line) == width && !line.ends_with(b"  ") && !alike && plain_start(next)
}

/// Whether a line may be the rest of another: it has no header, no prefix, no
/// indent of its own, and opens nothing that begins a line.
fn plain_start(next: &[u8]) -> bool {
    let first = at(next, 0);
    if first == 0 || first == b'\t' || next.starts_with(b"  ") || next.trim_ascii().is_empty() {
        return false;
    }
    if first == b' ' {
        return split_prefix(next).len == 0 && nccl_header(next).is_none();
    }
    const OPENERS: [&[u8]; 22] = [
        b"Traceback",
        b"frame #",
        b"srun:",
        b"slurmstepd:",
        b"terminate called",
        b"During handling",
        b"The above",
        b"===",
        b"---",
        b"***",
        b"###",
        b"+ ",
        b"++ ",
        b"# ",
        b"Exception raised",
        b":::",
        b"^^^",
        b"|",
        b"INFO",
        b"WARNING",
        b"ERROR",
        b"DEBUG",
    ];
    if OPENERS.iter().any(|o| next.starts_with(o)) || exception(next) {
        return false;
    }
    let p = split_prefix(next);
    p.len == 0
        && p.time.is_none()
        && nccl_header(next).is_none()
        && glog(next).is_none()
        && pylog(next).is_none()
}

/// `pkg.SomeError: text`.
fn exception(line: &[u8]) -> bool {
    let end = super::scan::skip(line, 0, 100, |c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_'));
    let name = &line[..end.min(line.len())];
    at(line, end) == b':' && (name.ends_with(b"Error") || name.ends_with(b"Exception"))
}

/// How surely the break between two lines tore something, 0 to 3.
fn torn(line: &[u8], next: &[u8]) -> u32 {
    let count = |l: &[u8], c: u8| l.iter().filter(|b| **b == c).count();
    let quotes = count(line, b'"') % 2 == 1 && count(next, b'"') % 2 == 1;
    let opened = [(b'(', b')'), (b'[', b']')]
        .iter()
        .any(|(a, b)| count(line, *a) > count(line, *b) && count(next, *b) > count(next, *a));
    if quotes || opened {
        return 3;
    }
    let (last, first) = (line.last().copied().unwrap_or(0), at(next, 0));
    let low =
        first.is_ascii_lowercase() || first.is_ascii_digit() || matches!(first, b'_' | b'.' | b',' | b')');
    let word = last.is_ascii_alphanumeric() || matches!(last, b'_' | b'.' | b'/' | b'-' | b'\'');
    u32::from(if first == b' ' { last != b' ' } else { low && (word || last == b' ') })
}

/// What one width has for and against it.
#[derive(Clone, Copy, Default)]
struct Tally {
    breaks: usize,
    score: u32,
    against: usize,
}

/// The width at which the lines were broken by a terminal, if they were.
fn width(lines: &[&[u8]]) -> Option<u32> {
    let lines: &[&[u8]] = match lines {
        [rest @ .., []] => rest,
        all => all,
    };
    let longest = lines.iter().filter(|l| !scrolled(l)).map(|l| chars(l)).max()?;
    if !WIDTHS.contains(&longest) {
        return None;
    }
    let mut t = Tally::default();
    for pair in lines.windows(2) {
        let (line, next) = (pair[0], pair[1]);
        if chars(line) != longest || line.ends_with(b"  ") {
            continue;
        }
        if continues(longest, line, next) {
            t.breaks += 1;
            t.score += torn(line, next);
        } else {
            t.against += 1;
        }
    }
    let clear = t.against * 4 <= t.breaks && t.breaks * 200 >= lines.len();
    // A short paste has few breaks, but then they are plain.
    let least = if lines.len() > 64 { 4 } else { 2 };
    let many = t.breaks >= least && t.score >= 4;
    if clear && many {
        return u32::try_from(longest).ok();
    }
    snippet(lines)
}

/// A line over which the scroll position of a terminal was drawn: `[862/1800]`.
fn scrolled(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let Some(open) = memchr::memrchr(b'[', line) else { return false };
    let first = digits(line, open + 1);
    let second = digits(line, open + 2 + first);
    let slash = at(line, open + 1 + first) == b'/';
    slash && first > 0 && second > 0 && open + 3 + first + second == line.len()
}

/// The width of a paste of a few lines in which one sentence was broken at a blank.
fn snippet(lines: &[&[u8]]) -> Option<u32> {
    if lines.len() > 8 {
        return None;
    }
    lines.windows(2).find_map(|p| {
        let width = chars(p[0]);
        let headed = exception(p[0]) || split_prefix(p[0]).len > 0 || glog(p[0]).is_some();
        let broken = headed && p[0].ends_with(b" ") && at(p[1], 0).is_ascii_lowercase();
        let fits = broken && (80..=*WIDTHS.end()).contains(&width) && continues(width, p[0], p[1]);
        fits.then_some(u32::try_from(width).ok()).flatten()
    })
}

/// Where a block may end: after the last line of `buffer` that is whole, and
/// behind which no line goes on. `None` without any line end.
#[must_use]
pub fn cut(facts: &ShapeFacts, buffer: &[u8]) -> Option<usize> {
    let last = memchr::memrchr(b'\n', buffer)? + 1;
    if !facts.joins() {
        return Some(last);
    }
    let least = last.saturating_sub(HEAD);
    let mut end = last;
    while end > least {
        let start = memchr::memrchr(b'\n', &buffer[..end - 1]).map_or(0, |n| n + 1);
        let line = trim_cr(&buffer[start..end - 1]);
        let whole = match facts.wrap {
            Some(w) => ends_here(w as usize, line, from(buffer, end)),
            None => complete(facts, line) && others_complete(facts, &buffer[..start], line),
        };
        if whole {
            return Some(end);
        }
        if start == 0 {
            break;
        }
        end = start;
    }
    Some(last)
}

/// Whether a line of a broken source is surely not continued by what follows.
fn ends_here(width: usize, line: &[u8], rest: &[u8]) -> bool {
    if chars(line) != width || line.ends_with(b"  ") {
        return true;
    }
    match memchr::memchr(b'\n', rest) {
        Some(n) => !continues(width, line, trim_cr(&rest[..n])),
        // What follows is not all there yet: wait for it.
        None => false,
    }
}

/// The stream of a wrapped line and whether its text ends with it.
fn piece(facts: &ShapeFacts, line: &[u8]) -> Option<(bool, bool)> {
    if facts.cri {
        return cri(line).map(|(part, err, _)| (err, !part));
    }
    let r = json::record(line).filter(json::Record::docker)?;
    let text = line.get(r.text.0 as usize..r.text.1 as usize)?;
    Some((r.stream?, text.ends_with(b"\\n")))
}

fn complete(facts: &ShapeFacts, line: &[u8]) -> bool {
    piece(facts, line).is_none_or(|(_, whole)| whole)
}

/// Whether the other stream has no part open before `line`.
fn others_complete(facts: &ShapeFacts, before: &[u8], line: &[u8]) -> bool {
    let own = piece(facts, line).map(|(s, _)| s);
    let mut seen = [false; 2];
    if let Some(own) = own {
        seen[usize::from(own)] = true;
    }
    for other in before.strip_suffix(b"\n").unwrap_or(before).rsplit(|c| *c == b'\n').take(SAMPLE) {
        let Some((stream, whole)) = piece(facts, trim_cr(other)) else { continue };
        if !seen[usize::from(stream)] {
            if !whole {
                return false;
            }
            seen[usize::from(stream)] = true;
        }
        if seen == [true; 2] {
            break;
        }
    }
    true
}
