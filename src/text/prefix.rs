//! What launchers, schedulers and container runtimes put before a line,
//! stacked in any order, taken off layer by layer from the left. Nothing of
//! the message may be swallowed: a layer is taken only where its form is
//! sure, or where it is weak (`3: `, `node7: `, `[3] `) and only sure layers
//! stood before it. What a weak label means is decided by whoever sees the
//! whole source. `bracket` holds the layers in brackets, `word` those that
//! begin with a name or a number, `stamped` those that begin with a time.
//! What the program itself writes (NCCL, glog, logging) is `header`'s.

mod bracket;
mod stamped;
mod word;

pub(super) use bracket::stream;

#[cfg(test)]
mod tests;

use super::scan::{Span, at, clip, find, host_byte, is, number, skip, span};

/// How many layers are taken off at most.
const LAYERS: usize = 8;

/// What stood before a line.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Prefix {
    /// A rank that is global for sure: `[rank3]:`, `[1,mpirank:3,host]`.
    pub rank: Option<u32>,
    /// A number whose meaning is decided later: `3: `, `[1,3]<stdout>:`, `[3] `.
    pub label: Option<u32>,
    /// A rank within the node: `[default3]:`, `[0]:`, `[node7:0]:`.
    pub local: Option<u32>,
    /// Host, pod or container, as bytes of the line.
    pub host: Option<Span>,
    /// Process id where a wrapper gave it (Ray, vLLM, syslog).
    pub pid: Option<u32>,
    /// Name of actor, worker or program: `WorkerDict`, `Worker_TP1`, `DP4 TP4`, `kernel`.
    pub name: Option<Span>,
    /// The first time in front of the line. It may stand after `len`: then it
    /// belongs to the program's own header or to plain text.
    pub time: Option<Span>,
    /// Whether a wrapper says that this is standard error.
    pub stream_err: bool,
    /// Where the rest begins.
    pub len: u32,
}

/// The layers before `line`, and where the rest begins.
#[must_use]
pub fn split_prefix(line: &[u8]) -> Prefix {
    let mut s = Strip { line, p: Prefix::default(), sure: true };
    for _ in 0..LAYERS {
        if !s.step() {
            break;
        }
    }
    s.p
}

/// The state between two layers.
#[derive(Clone, Copy)]
struct Strip<'a> {
    line: &'a [u8],
    p: Prefix,
    /// Whether a weak layer may follow: nothing but sure wrappers stood before.
    sure: bool,
}

impl Strip<'_> {
    /// Takes one layer; `false` when none stands here.
    #[inline]
    fn step(&mut self) -> bool {
        let i = self.p.len as usize;
        match at(self.line, i) {
            b'[' => self.bracket(i),
            b'0'..=b'9' => self.figure(i),
            b'a'..=b'z' | b'A'..=b'Z' => self.word(i),
            b'(' => self.paren(i),
            b' ' => self.padded(i),
            b'*' | b'>' | b'`' => self.junk(i),
            b'<' => self.priority(i),
            _ => false,
        }
    }

    /// The layer ended at `end`.
    fn take(&mut self, end: usize) -> bool {
        self.p.len = clip(end);
        true
    }

    /// As `take`, with one blank after it where just one stands there: what
    /// is indented by more stays indented as the program wrote it.
    fn take_blank(&mut self, end: usize) -> bool {
        let one = at(self.line, end) == b' ' && at(self.line, end + 1) != b' ';
        self.take(end + usize::from(one))
    }

    /// Whether a weak label may still be taken.
    fn free(&self) -> bool {
        let p = &self.p;
        self.sure && p.rank.is_none() && p.label.is_none() && p.local.is_none() && p.name.is_none()
    }

    fn set_time(&mut self, from: usize, to: usize) {
        if self.p.time.is_none() {
            self.p.time = Some(span(from, to));
        }
    }

    /// `3: ` and `12:` at the end of a line.
    fn label(&mut self, from: usize) -> bool {
        let Some((n, end)) = number(self.line, from) else { return false };
        let closed = at(self.line, end) == b':' && matches!(at(self.line, end + 1), b' ' | 0);
        if !closed || end - from > 6 || !self.free() {
            return false;
        }
        self.p.label = Some(n);
        self.take((end + 2).min(self.line.len()))
    }

    /// `  3: `, right-aligned.
    fn padded(&mut self, i: usize) -> bool {
        let start = skip(self.line, i, 5, |c| c == b' ');
        let figure = at(self.line, start).is_ascii_digit();
        // The widths of a right-aligned column: five blanks and a figure are a table.
        figure && start - i <= 4 && self.label(start)
    }

    /// Markdown that a paste left before a traceback: `**[rank1]: `.
    fn junk(&mut self, i: usize) -> bool {
        let start = skip(self.line, i, 6, |c| matches!(c, b'*' | b'>' | b'`' | b' '));
        if !is(self.line, start, b"[rank") {
            return false;
        }
        self.p.len = clip(start);
        if self.bracket(start) {
            return true;
        }
        self.p.len = clip(i);
        false
    }

    /// `<4>` of the kernel or of syslog, before a time.
    fn priority(&mut self, i: usize) -> bool {
        let Some((_, end)) = number(self.line, i + 1) else { return false };
        let good = end - i <= 4 && at(self.line, end) == b'>' && i == 0;
        let stamp = super::time::civil(super::scan::from(self.line, end + 1)).is_some()
            || super::time::seconds(super::scan::from(self.line, end + 1)).is_some();
        good && stamp && self.take(end + 1)
    }

    /// Ray, vLLM, SkyPilot: `(WorkerDict pid=1, ip=10.0.0.3) `, `(head, rank=0, pid=5) `.
    fn paren(&mut self, i: usize) -> bool {
        let Some(close) = find(self.line, i, b')', 200) else { return false };
        if !matches!(at(self.line, close + 1), b' ' | 0) {
            return false;
        }
        let mut q = self.p;
        let Some(body) = self.line.get(i + 1..close) else { return false };
        let mut known = body == b"raylet" || body.starts_with(b"raylet, ip=");
        let (mut pos, mut comma) = (i + 1, false);
        for word in body.split(|c| *c == b' ') {
            let end = pos + word.len();
            let bare = word.strip_suffix(b",").unwrap_or(word);
            let stop = pos + bare.len();
            if let Some(v) = bare.strip_prefix(b"pid=") {
                let Some(pid) = whole(v) else { return false };
                q.pid = Some(pid);
                known = true;
            } else if let Some(v) = bare.strip_prefix(b"rank=") {
                match (whole(v), comma) {
                    (Some(n), true) => q.label = Some(n),
                    (Some(n), false) => q.rank = Some(n),
                    _ => return false,
                }
            } else if let Some(v) = bare.strip_prefix(b"ip=") {
                q.host = Some(unbracketed(stop - v.len(), stop, self.line));
            } else if !word.is_empty() {
                q.name = Some(span(pos, stop));
            }
            comma |= word.ends_with(b",");
            pos = end + 1;
        }
        if !known {
            return false;
        }
        self.p = q;
        self.take((close + 2).min(self.line.len()))
    }
}

/// The whole of `v` as a number.
fn whole(v: &[u8]) -> Option<u32> {
    number(v, 0).filter(|(_, end)| *end == v.len()).map(|(n, _)| n)
}

/// `ip=[fd05::1]`: the address without its brackets.
fn unbracketed(from: usize, to: usize, line: &[u8]) -> Span {
    if at(line, from) == b'[' && to > from + 2 && at(line, to - 1) == b']' {
        return span(from + 1, to - 1);
    }
    span(from, to)
}

/// Whether `[from, to)` could be a host at all: host bytes, and a sane length.
fn hostlike(line: &[u8], from: usize, to: usize) -> bool {
    line.get(from..to).is_some_and(|h| {
        !h.is_empty()
            && h.len() <= 80
            && h.iter().all(|c| host_byte(*c))
            && h[0].is_ascii_alphanumeric()
            && h[h.len() - 1].is_ascii_alphanumeric()
    })
}

/// Whether a program's own header begins at `i`: then a time or a name before
/// it belongs to a wrapper.
fn header_at(line: &[u8], i: usize) -> bool {
    let rest = super::scan::from(line, i);
    match at(rest, 0) {
        b'[' | b'A'..=b'Z' => {
            super::header::glog(rest).is_some() || super::header::nccl_header(rest).is_some()
        }
        _ => super::header::nccl_header(rest).is_some(),
    }
}
