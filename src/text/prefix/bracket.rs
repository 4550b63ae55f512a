//! Layers in brackets: torchrun's `[rank3]:` and `[default3]:`, the tags of
//! Open MPI, PRRTE and SageMaker, hydra's `[3] `, `[node7:2]:` of a custom
//! template, `[pod/NAME/container] `, SGLang's `[time DP0 TP1] `, and the
//! kernel's `[12345.678901] `.

use super::super::header::nccl_header;
use super::super::scan::{at, digits, find, from, is, number, skip, span};
use super::super::time;
use super::{Strip, hostlike};

impl Strip<'_> {
    /// A layer that begins with `[` at `i`.
    pub(super) fn bracket(&mut self, i: usize) -> bool {
        if is(self.line, i, b"[rank") {
            return self.rank(i);
        }
        match at(self.line, i + 1) {
            b'0'..=b'9' => self.bracket_figure(i),
            b' ' => self.boot_seconds(i),
            b'[' => self.template(i + 1),
            b'p' if is(self.line, i, b"[pod/") => self.pod(i),
            c if c.is_ascii_alphabetic() => {
                self.role(i) || self.template(i) || self.tag(i) || self.stamp_layer(i)
            }
            _ => false,
        }
    }

    /// `[rank3]: ` and `[rank3]:`.
    fn rank(&mut self, i: usize) -> bool {
        let Some((n, end)) = number(self.line, i + 5) else { return false };
        if !is(self.line, end, b"]:") {
            return false;
        }
        self.p.rank = Some(n);
        self.take(end + 2 + usize::from(at(self.line, end + 2) == b' '))
    }

    /// `[3] `, `[3]:`, `[1,3]<stdout>:`, or a time.
    fn bracket_figure(&mut self, i: usize) -> bool {
        let len = digits(self.line, i + 1);
        let end = i + 1 + len;
        match at(self.line, end) {
            b']' if len <= 5 => self.bare_number(i, end),
            b',' => self.tag(i),
            b'.' if len < 10 => self.boot_seconds(i),
            _ => self.sglang(i) || self.stamp_layer(i),
        }
    }

    /// `[0]:text` of a template that prints the local rank, `[3] text` of hydra.
    fn bare_number(&mut self, i: usize, close: usize) -> bool {
        let Some((n, _)) = number(self.line, i + 1) else { return false };
        let rest = from(self.line, close + 1);
        if rest.starts_with(b":") {
            // In torchelastic's table `[0]:` stands alone.
            if rest[1..].trim_ascii().is_empty() || self.p.local.is_some() {
                return false;
            }
            self.p.local = Some(n);
            return self.take_blank(close + 2);
        }
        let text = from(rest, 1);
        let plain = matches!(at(text, 0), b'A'..=b'Z' | b'a'..=b'z' | b'[' | b'<' | b'/' | b'"' | b'#');
        let hydra = rest.starts_with(b" ") && self.free() && plain;
        if !hydra || nccl_header(from(self.line, i)).is_some() {
            return false;
        }
        self.p.label = Some(n);
        self.take(close + 2)
    }

    /// `[12345.678901] ` of the kernel.
    fn boot_seconds(&mut self, i: usize) -> bool {
        let kernel =
            self.p.name.is_some_and(|(a, b)| self.line.get(a as usize..b as usize) == Some(b"kernel"));
        if !self.sure && !kernel {
            return false;
        }
        let Some((_, len)) = time::seconds(from(self.line, i)) else { return false };
        if at(self.line, i + len) != b' ' {
            return false;
        }
        self.set_time(i, i + len);
        self.take(i + len + 1)
    }

    /// `[default3]:`, any role name; what counts something else is no role.
    fn role(&mut self, i: usize) -> bool {
        let name = skip(self.line, i + 1, 40, |c| c.is_ascii_lowercase() || matches!(c, b'_' | b'-'));
        let Some((n, end)) = number(self.line, name) else { return false };
        if !is(self.line, end, b"]:") || name == i + 1 || end - name > 4 {
            return false;
        }
        let word = self.line.get(i + 1..name).unwrap_or(&[]);
        if word != b"default" && super::word::counts_something(word) {
            return false;
        }
        self.p.local = Some(n);
        self.take_blank(end + 2)
    }

    /// `[node7:2]:`, host and local rank; sometimes with a second bracket in front.
    fn template(&mut self, i: usize) -> bool {
        let host = skip(self.line, i + 1, 80, super::super::scan::host_byte);
        if at(self.line, host) != b':' || !hostlike(self.line, i + 1, host) {
            return false;
        }
        if is(self.line, host, b":mpi_rank_") {
            return self.mvapich(i, host);
        }
        let Some((n, end)) = number(self.line, host + 1) else { return false };
        if !is(self.line, end, b"]:") || end - host > 4 || !has_digit(self.line, i + 1, host) {
            return false;
        }
        self.p.host = Some(span(i + 1, host));
        self.p.local = Some(n);
        self.take_blank(end + 2)
    }

    /// `[node07:mpi_rank_3]` of MVAPICH.
    fn mvapich(&mut self, i: usize, host: usize) -> bool {
        let Some((n, end)) = number(self.line, host + 10) else { return false };
        if at(self.line, end) != b']' {
            return false;
        }
        self.p.host = Some(span(i + 1, host));
        self.p.label = Some(n);
        self.take_blank(end + 1)
    }

    /// `[pod/NAME/container] `.
    fn pod(&mut self, i: usize) -> bool {
        let Some(close) = find(self.line, i, b']', 200) else { return false };
        let Some(slash) = find(self.line, i + 5, b'/', 160).filter(|s| *s < close) else { return false };
        if !matches!(at(self.line, close + 1), b' ' | 0) || !hostlike(self.line, i + 5, slash) {
            return false;
        }
        self.p.host = Some(span(i + 5, slash));
        self.take((close + 2).min(self.line.len()))
    }

    /// `[2026-01-04 01:18:25 DP4 TP4] `.
    fn sglang(&mut self, i: usize) -> bool {
        let Some((_, len)) = time::bare(from(self.line, i + 1)) else { return false };
        let start = i + 1 + len;
        let Some(close) = find(self.line, start, b']', 40) else { return false };
        let names = self.line.get(start..close).unwrap_or(&[]);
        let good = names.len() > 3
            && names.starts_with(b" ")
            && names[1..].split(|c| *c == b' ').all(|w| {
                let letters = w.iter().take_while(|c| c.is_ascii_uppercase()).count();
                (2..=4).contains(&letters) && letters < w.len() && w[letters..].iter().all(u8::is_ascii_digit)
            });
        if !good || at(self.line, close + 1) != b' ' || self.p.name.is_some() {
            return false;
        }
        self.set_time(i + 1, start);
        self.p.name = Some(span(start + 1, close));
        self.take(close + 2)
    }

    /// The tags of `mpirun`: `[1,3]<stdout>:` and its relatives.
    pub(super) fn tag(&mut self, i: usize) -> bool {
        let Some(close) = find(self.line, i, b']', 140) else { return false };
        let mut after = close + 1;
        let mut q = self.p;
        if at(self.line, after) == b'[' {
            // `[1,3][node07:12345]<stdout>:`
            let Some(second) = find(self.line, after, b']', 140) else { return false };
            let Some(colon) = find(self.line, after, b':', 140).filter(|c| *c < second) else { return false };
            let Some((pid, end)) = number(self.line, colon + 1) else { return false };
            if end != second || !hostlike(self.line, after + 1, colon) {
                return false;
            }
            q.host = Some(span(after + 1, colon));
            q.pid = Some(pid);
            after = second + 1;
        }
        let Some(stream) = stream(from(self.line, after)) else { return false };
        if !self.job_and_rank(i + 1, close, &mut q) {
            return false;
        }
        q.stream_err = stream.1;
        self.p = q;
        self.take_blank(after + stream.0)
    }

    /// `1,3`, `1,mpirank:3,algo-1`, `prterun-node07-4711@1,3`.
    fn job_and_rank(&self, i: usize, close: usize, q: &mut super::Prefix) -> bool {
        let mut start = i;
        if let Some(sign) = find(self.line, i, b'@', close - i) {
            // prterun-HOST-PID
            let name = self.line.get(i..sign).unwrap_or(&[]);
            let dash = memchr::memchr(b'-', name).map(|n| i + n + 1);
            let last = memchr::memrchr(b'-', name).map(|n| i + n);
            if let (Some(a), Some(b)) = (dash, last)
                && a < b
                && hostlike(self.line, a, b)
            {
                q.host = Some(span(a, b));
            }
            start = sign + 1;
        }
        let Some((_, comma)) = number(self.line, start) else { return false };
        if at(self.line, comma) != b',' {
            return false;
        }
        if is(self.line, comma, b",mpirank:") {
            let Some((rank, end)) = number(self.line, comma + 9) else { return false };
            q.rank = Some(rank);
            if at(self.line, end) == b',' && hostlike(self.line, end + 1, close) {
                q.host = Some(span(end + 1, close));
            }
            return true;
        }
        let Some((rank, end)) = number(self.line, comma + 1) else { return false };
        q.label = Some(rank);
        end == close
    }
}

/// `<stdout>:`, `<stderr>:`, `<stddiag>:`: the length, and whether it is an error stream.
pub(in crate::text) fn stream(t: &[u8]) -> Option<(usize, bool)> {
    [(&b"<stdout>:"[..], false), (b"<stderr>:", true), (b"<stddiag>:", true)]
        .into_iter()
        .find(|(w, _)| t.starts_with(w))
        .map(|(w, err)| (w.len(), err))
}

fn has_digit(line: &[u8], a: usize, b: usize) -> bool {
    line.get(a..b).is_some_and(|h| h.iter().any(|c| c.is_ascii_digit() || *c == b'-'))
}
