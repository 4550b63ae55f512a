//! Layers that begin with a time. A zoned stamp with a `T` is a runtime's or
//! a shipper's (container runtime, `kubectl --timestamps`, journald), and so
//! is syslog's form with host and program after it; any other time may be the
//! program's own, and is taken off only where another layer or a C++ header
//! follows. Where it stays, its span is told all the same.

use super::super::scan::{at, from, is, number, skip, span};
use super::super::time::{self, Form};
use super::{Strip, header_at, hostlike};

impl Strip<'_> {
    /// A layer that begins with a time at `i`, in brackets or not.
    pub(super) fn stamp_layer(&mut self, i: usize) -> bool {
        let Some((civil, len)) = time::civil(from(self.line, i)) else { return false };
        let end = i + len;
        let bracket = at(self.line, i) == b'[';
        // Told even where it stays in the text.
        self.set_time(i, end);
        let took = match (bracket, civil.form) {
            (true, Form::Ctime) => self.sure && at(self.line, end) == b' ' && self.take(end + 1),
            (false, Form::Ctime) => at(self.line, end) == b'[' && self.if_layer(end),
            (false, Form::Month) => self.syslog(end, true),
            (false, Form::Iso) if civil.t && civil.offset.is_some() => self.runtime(end),
            _ => false,
        };
        took || self.before_layer(end)
    }

    /// `TS stderr F text`, `TS node07 kernel: text`, `TS text`, `TS: text`.
    fn runtime(&mut self, end: usize) -> bool {
        let rest = from(self.line, end);
        if rest.is_empty() {
            return self.take(end);
        }
        for (word, err) in [(&b" stdout "[..], false), (b" stderr ", true)] {
            let flag = end + word.len();
            if rest.starts_with(word) && matches!(at(self.line, flag), b'F' | b'P') {
                let stop = skip(self.line, flag + 1, 2, |c| c == b':' || c.is_ascii_uppercase());
                if matches!(at(self.line, stop), b' ' | 0) {
                    self.p.stream_err = err;
                    return self.take((stop + 1).min(self.line.len()));
                }
            }
        }
        if self.syslog(end, false) {
            return true;
        }
        // Python's and loguru's own lines keep their time.
        let own = [&b" - "[..], b" | ", b" [INFO", b" [WARN", b" [ERROR", b" [DEBUG"];
        if own.iter().any(|o| rest.starts_with(o)) {
            return false;
        }
        if rest.starts_with(b": ") {
            return self.take(end + 2);
        }
        matches!(rest[0], b' ' | b'\t') && self.take(end + 1)
    }

    /// ` HOST PROG[PID]: ` or ` HOST kernel: ` after a time.
    fn syslog(&mut self, end: usize, any_program: bool) -> bool {
        if at(self.line, end) != b' ' {
            return false;
        }
        let host = end + 1;
        let gap = skip(self.line, host, 80, super::super::scan::host_byte);
        if at(self.line, gap) != b' ' || !hostlike(self.line, host, gap) {
            return false;
        }
        let prog = gap + 1;
        let stop = skip(self.line, prog, 60, |c| {
            c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.' | b'/' | b'(' | b')' | b'@')
        });
        if stop == prog {
            return false;
        }
        let pid = (at(self.line, stop) == b'[').then(|| number(self.line, stop + 1)).flatten();
        let colon = match pid {
            Some((_, e)) if at(self.line, e) == b']' => e + 1,
            None if any_program || self.line.get(prog..stop) == Some(b"kernel") => stop,
            _ => return false,
        };
        if at(self.line, colon) != b':' || !matches!(at(self.line, colon + 1), b' ' | 0) {
            return false;
        }
        self.p.host = Some(span(host, gap));
        self.p.name = Some(span(prog, stop));
        self.p.pid = pid.map(|(n, _)| n).or(self.p.pid);
        self.take((colon + 2).min(self.line.len()))
    }

    /// Takes a time that ended at `end` if a layer or a C++ header follows.
    fn before_layer(&mut self, end: usize) -> bool {
        let next = match (at(self.line, end), at(self.line, end + 1)) {
            (b' ' | b'\t', _) => end + 1,
            (b':', b' ') => end + 2,
            _ => return false,
        };
        if self.if_layer(next) {
            return true;
        }
        // NCCL's own stamp stays with its header.
        let glog = matches!(at(self.line, next), b'[' | b'I' | b'W' | b'E' | b'F')
            && super::super::header::glog(from(self.line, next)).is_some();
        glog && self.take(next)
    }

    /// Takes the layer at `next`, if it is a sure one.
    fn if_layer(&mut self, next: usize) -> bool {
        let mut q = *self;
        q.sure = false;
        q.p.len = super::super::scan::clip(next);
        // A time behind a time is no layer: that would recurse without end.
        let figure = at(self.line, next).is_ascii_digit()
            || at(self.line, next) == b'[' && at(self.line, next + 1).is_ascii_digit();
        if figure && time::civil(from(self.line, next)).is_some() {
            return false;
        }
        if !q.step() {
            return false;
        }
        *self = q;
        true
    }

    /// `704.7s<TAB>1468<TAB>` of a notebook's export.
    pub(super) fn notebook(&mut self, i: usize) -> bool {
        let Some((_, len)) = time::seconds(from(self.line, i)) else { return false };
        if at(self.line, i + len) != b'\t' {
            return false;
        }
        let Some((_, end)) = number(self.line, i + len + 1) else { return false };
        if at(self.line, end) != b'\t' {
            return false;
        }
        self.set_time(i, i + len);
        self.take(end + 1)
    }

    /// stern's `POD CONTAINER text`: only before what is a header for sure.
    pub(super) fn stern(&mut self, i: usize, gap: usize) -> bool {
        let dashed = self
            .line
            .get(i..gap)
            .is_some_and(|w| w.contains(&b'-') && !w.iter().any(|c| c.is_ascii_uppercase() || *c == b'_'));
        if !dashed || !self.sure || self.p.host.is_some() || !hostlike(self.line, i, gap) {
            return false;
        }
        let next =
            skip(self.line, gap + 1, 64, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-');
        if next == gap + 1 || at(self.line, next) != b' ' {
            return false;
        }
        if !is(self.line, next + 1, b"[rank") && !header_at(self.line, next + 1) {
            return false;
        }
        self.p.host = Some(span(i, gap));
        self.take(next + 1)
    }
}
