//! Where another writer's message begins inside a line: several ranks share
//! one pipe, and a line that was not ended yet (a progress bar, a half
//! written message) is followed at once by somebody else's. Where words are
//! glued to a host name nobody can tell from the line alone where the name
//! begins: the longest one is taken, and who knows the job's processes finds
//! the true one as its end.

use super::super::prefix::split_prefix;
use super::super::scan::{at, clip, digits, from, host_byte, is};
use super::{glog, nccl_header};
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// What all errors of Slurm's programs have.
pub(in super::super) static SLURM: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b": error: "));

/// How many starts are told of one line at most; more is noise.
const MOST: usize = 4096;

/// All positions in `line`, but for its own start and header, where a header
/// of NCCL or c10d, a `[rankN]:` or a word of Slurm begins; ascending.
pub fn mid_starts(line: &[u8], out: &mut Vec<u32>) {
    out.clear();
    let mut from_here = own(line, 0);
    let mut slurm = slurm_starts(line).into_iter().peekable();
    for i in memchr::memchr_iter(b'[', line) {
        if out.len() >= MOST {
            break;
        }
        if i < from_here {
            continue;
        }
        let Some(start) = bracket(line, i, from_here) else { continue };
        while let Some(s) = slurm.next_if(|s| *s < start) {
            push(out, s);
        }
        push(out, start);
        from_here = own(line, start).max(i + 1);
    }
    for s in slurm {
        push(out, s);
    }
}

fn push(out: &mut Vec<u32>, start: usize) {
    if start > 0 && out.last().is_none_or(|l| *l < clip(start)) {
        out.push(clip(start));
    }
}

/// Where the header that begins at `start` ends.
fn own(line: &[u8], start: usize) -> usize {
    let rest = from(line, start);
    let prefix = split_prefix(rest).len as usize;
    let text = from(rest, prefix);
    let head = nccl_header(text).map(|h| h.body).or_else(|| glog(text).map(|g| g.body));
    start + prefix + head.unwrap_or(0) as usize
}

/// The start of the message whose `[` stands at `i`.
fn bracket(line: &[u8], i: usize, least: usize) -> Option<usize> {
    match at(line, i + 1) {
        b'r' if is(line, i, b"[rank") => {
            let end = i + 5 + digits(line, i + 5);
            let text = from(line, end + 2);
            let spoken = is(line, end, b"]:") && (text.starts_with(b" ") || glog(text).is_some());
            (end > i + 5 && spoken).then_some(i)
        }
        b'E' | b'W' | b'I' | b'F' => glog(from(line, i)).map(|_| i),
        b'0'..=b'9' | b'-' => nccl(line, i, least),
        _ => None,
    }
}

/// The start of `HOST:PID:TID [D] … NCCL …` whose device stands at `i`.
fn nccl(line: &[u8], i: usize, least: usize) -> Option<usize> {
    // Nothing before the host may be eaten that was taken already.
    let blank = i.checked_sub(1).filter(|b| line[*b] == b' ')?;
    let pid = colon_number(line, colon_number(line, blank)?)?;
    let mut start = pid;
    while start > least && pid - start < 64 && host_byte(line[start - 1]) {
        start -= 1;
    }
    let column = line[..start].ends_with(b"  ") || at(line, start) == b'-' && line[..start].ends_with(b" ");
    // A lone dot or dash is no host.
    while start < pid && !line[start].is_ascii_alphanumeric() {
        start += 1;
    }
    // The last number of a table's row stands right before the host: `    0gpu4:12:34 [1]`.
    let letters = start + digits(line, start);
    if column && letters < pid && line[letters].is_ascii_alphabetic() {
        start = letters;
    }
    nccl_header(from(line, start))?;
    Some(stamped(line, start, least))
}

/// Steps back over `:123` that ends at `end`.
fn colon_number(line: &[u8], end: usize) -> Option<usize> {
    let figures = line[..end].iter().rev().take_while(|c| c.is_ascii_digit()).count();
    let colon = end.checked_sub(figures + 1)?;
    (figures > 0 && line[colon] == b':').then_some(colon)
}

/// Takes in the stamp in brackets that stands directly before `start`.
fn stamped(line: &[u8], start: usize, least: usize) -> usize {
    if start < least + 4 || !line[..start].ends_with(b"] ") {
        return start;
    }
    let window = start.saturating_sub(48).max(least);
    let Some(open) = memchr::memrchr(b'[', &line[window..start]) else { return start };
    let open = window + open;
    match super::super::time::civil(from(line, open)) {
        Some((_, len)) if open + len + 1 == start => open,
        _ => start,
    }
}

/// `slurmstepd: error:` and `srun: error:` inside the line.
fn slurm_starts(line: &[u8]) -> Vec<usize> {
    let mut out = Vec::new();
    for hit in SLURM.find_iter(line) {
        for name in [&b"slurmstepd"[..], b"srun"] {
            if line[..hit].ends_with(name) && hit > name.len() {
                let start = hit - name.len();
                // Inside a word it is something else; after a label it is at the start.
                let torn = split_prefix(line).len as usize != start;
                if torn && !matches!(line[start - 1], b'/' | b'-' | b'_' | b'"' | b'\'') {
                    out.push(start);
                }
            }
        }
        if out.len() >= MOST {
            break;
        }
    }
    out
}
