//! Lines that a runtime or a log shipper wrapped in JSON: docker's json-file,
//! fluent-bit, journald's `-o json`, CloudWatch, Loki, Stackdriver. One
//! object a line; only its text, time, stream and place are read, by a small
//! scanner that allocates nothing. Whatever else is in it stays unread.

use super::scan::{Span, at, from, skip, span};
use super::time;

/// What a wrapped line says, as spans of it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Record {
    /// The text, still escaped; or journald's array of bytes.
    pub(super) text: Span,
    /// Whether `text` is an array of bytes.
    pub(super) array: bool,
    /// Whether the text stood under `log`.
    pub(super) log: bool,
    /// `stderr` or `stdout`, where it was said.
    pub(super) stream: Option<bool>,
    /// The time, a string or a number.
    pub(super) time: Option<Span>,
    /// The pod.
    pub(super) pod: Option<Span>,
    /// The container in it.
    pub(super) container: Option<Span>,
    /// journald's host, program and process.
    pub(super) host: Option<Span>,
    /// The program.
    pub(super) program: Option<Span>,
    /// Its process.
    pub(super) pid: Option<Span>,
    /// The rank, as programs that log objects themselves name it.
    pub(super) rank: Option<Span>,
}

/// The record that `line` is, or `None` where it is no such object.
pub(super) fn record(line: &[u8]) -> Option<Record> {
    let mut r = Record::default();
    let mut found = false;
    let mut i = blank(line, 0);
    if at(line, i) != b'{' {
        return None;
    }
    i = blank(line, i + 1);
    while at(line, i) == b'"' {
        let end = string(line, i)?;
        let key = line.get(i + 1..end - 1)?;
        i = blank(line, end);
        if at(line, i) != b':' {
            return None;
        }
        i = blank(line, i + 1);
        let stop = value(line, i)?;
        found |= r.keep(key, line, i, stop);
        i = blank(line, stop);
        match at(line, i) {
            b',' => i = blank(line, i + 1),
            b'}' => return (found && blank(line, i + 1) == line.len()).then_some(r),
            _ => return None,
        }
    }
    None
}

impl Record {
    /// Keeps the value in `[i, stop)` of `key`; whether it was the text.
    fn keep(&mut self, key: &[u8], line: &[u8], i: usize, stop: usize) -> bool {
        let quoted = at(line, i) == b'"';
        let inner = if quoted { span(i + 1, stop - 1) } else { span(i, stop) };
        match key {
            b"log" | b"message" | b"MESSAGE" | b"msg" | b"line" | b"textPayload" if quoted => {
                self.text = inner;
                self.log = key == b"log";
                return true;
            }
            b"MESSAGE" if at(line, i) == b'[' => {
                self.text = inner;
                self.array = true;
                return true;
            }
            b"stream" if quoted => self.stream = Some(&line[i..stop] == b"\"stderr\""),
            b"time" | b"timestamp" | b"@timestamp" | b"date" | b"__REALTIME_TIMESTAMP" | b"ts"
                if quoted || at(line, i).is_ascii_digit() =>
            {
                self.time = Some(inner);
            }
            b"_HOSTNAME" if quoted => self.host = Some(inner),
            b"SYSLOG_IDENTIFIER" if quoted => self.program = Some(inner),
            b"_PID" if quoted => self.pid = Some(inner),
            b"pod_name" | b"pod" if quoted => self.pod = Some(inner),
            b"container_name" | b"container" if quoted => self.container = Some(inner),
            b"rank" | b"global_rank" if is_number(slice(line, inner)) => self.rank = Some(inner),
            b"kubernetes" | b"labels" | b"resource" if at(line, i) == b'{' => self.nested(line, i, stop, 0),
            _ => {}
        }
        false
    }

    /// Looks for pod and container one or two levels down.
    fn nested(&mut self, line: &[u8], start: usize, end: usize, depth: u8) {
        let mut i = blank(line, start + 1);
        while i < end && at(line, i) == b'"' {
            let Some(stop) = string(line, i) else { return };
            let key = line.get(i + 1..stop - 1).unwrap_or(&[]);
            i = blank(line, stop);
            if at(line, i) != b':' {
                return;
            }
            i = blank(line, i + 1);
            let Some(stop) = value(line, i) else { return };
            match (key, at(line, i)) {
                (b"pod_name" | b"pod", b'"') => self.pod = Some(span(i + 1, stop - 1)),
                (b"container_name" | b"container", b'"') => self.container = Some(span(i + 1, stop - 1)),
                (b"labels", b'{') if depth == 0 => self.nested(line, i, stop, 1),
                _ => {}
            }
            i = blank(line, stop);
            if at(line, i) == b',' {
                i = blank(line, i + 1);
            }
        }
    }

    /// Whether the piece came from docker's json-file: `log` and `stream`.
    pub(super) fn docker(&self) -> bool {
        self.log && self.stream.is_some() && self.pod.is_none()
    }

    /// What goes in front of the text, in forms that `prefix` reads: time and
    /// stream as a container runtime writes them, pod or host.
    pub(super) fn head(&self, line: &[u8], out: &mut Vec<u8>) {
        let zoned = self.time.is_some_and(|t| put_time(slice(line, t), out));
        if zoned {
            out.push(b' ');
            match self.stream {
                Some(true) => out.extend_from_slice(b"stderr F "),
                Some(false) => out.extend_from_slice(b"stdout F "),
                None => {}
            }
        }
        if let Some(pod) = self.pod {
            out.extend_from_slice(b"[pod/");
            out.extend_from_slice(slice(line, pod));
            out.push(b'/');
            out.extend_from_slice(self.container.map_or(&b"-"[..], |c| slice(line, c)));
            out.extend_from_slice(b"] ");
        }
        if let (true, Some(host), Some(program)) = (zoned, self.host, self.program) {
            out.extend_from_slice(slice(line, host));
            out.push(b' ');
            out.extend_from_slice(slice(line, program));
            if let Some(pid) = self.pid {
                out.push(b'[');
                out.extend_from_slice(slice(line, pid));
                out.push(b']');
            }
            out.extend_from_slice(b": ");
        }
        if let Some(rank) = self.rank {
            out.extend_from_slice(b"[rank");
            out.extend_from_slice(slice(line, rank));
            out.extend_from_slice(b"]: ");
        }
    }

    /// The text itself, its escapes undone.
    pub(super) fn decode(&self, line: &[u8], out: &mut Vec<u8>) {
        let raw = slice(line, self.text);
        if self.array {
            let numbers = raw.split(|c| !c.is_ascii_digit()).filter(|n| !n.is_empty());
            out.extend(numbers.filter_map(|n| std::str::from_utf8(n).ok()?.parse::<u8>().ok()));
        } else {
            unescape(raw, out);
        }
    }
}

fn is_number(text: &[u8]) -> bool {
    (1..=6).contains(&text.len()) && text.iter().all(u8::is_ascii_digit)
}

fn slice(line: &[u8], (a, b): Span) -> &[u8] {
    line.get(a as usize..b as usize).unwrap_or(&[])
}

fn blank(line: &[u8], i: usize) -> usize {
    skip(line, i, usize::MAX, |c| matches!(c, b' ' | b'\t' | b'\r'))
}

/// Where the string that begins at `i` ends, after its quote.
fn string(line: &[u8], i: usize) -> Option<usize> {
    let mut i = i + 1;
    loop {
        i += memchr::memchr2(b'"', b'\\', from(line, i))?;
        if at(line, i) == b'"' {
            return Some(i + 1);
        }
        i += 2;
    }
}

/// Where the value that begins at `i` ends.
fn value(line: &[u8], i: usize) -> Option<usize> {
    match at(line, i) {
        b'"' => string(line, i),
        b'{' | b'[' => {
            let (mut depth, mut i) = (0usize, i);
            loop {
                match line.get(i)? {
                    b'"' => i = string(line, i)? - 1,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                i += 1;
                if depth == 0 {
                    return Some(i);
                }
            }
        }
        _ => {
            let end = skip(line, i, 40, |c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'+'));
            (end > i).then_some(end)
        }
    }
}

/// Writes a time with its zone as RFC 3339; `false` where it has none.
fn put_time(raw: &[u8], out: &mut Vec<u8>) -> bool {
    if let Some((civil, len)) = time::bare(raw)
        && len == raw.len()
        && civil.t
        && civil.offset.is_some()
    {
        out.extend_from_slice(raw);
        return true;
    }
    let whole = skip(raw, 0, 20, |c| c.is_ascii_digit());
    let fraction = raw.get(whole + 1..).unwrap_or(&[]);
    let Some(number) = std::str::from_utf8(&raw[..whole]).ok().and_then(|s| s.parse::<i128>().ok()) else {
        return false;
    };
    let nanos = match whole {
        19 => number,
        16 => number * 1_000,
        13 => number * 1_000_000,
        10 => {
            let digit =
                |k: usize| fraction.get(k).filter(|c| c.is_ascii_digit()).map_or(0, |c| i128::from(c - b'0'));
            number * 1_000_000_000 + (0..9).fold(0, |n, k| n * 10 + digit(k))
        }
        _ => return false,
    };
    match jiff::Timestamp::from_nanosecond(nanos) {
        Ok(t) => out.extend_from_slice(t.to_string().as_bytes()),
        Err(_) => return false,
    }
    true
}

/// The characters that a JSON string stands for.
fn unescape(raw: &[u8], out: &mut Vec<u8>) {
    let mut i = 0;
    while i < raw.len() {
        let Some(n) = memchr::memchr(b'\\', &raw[i..]) else {
            out.extend_from_slice(&raw[i..]);
            return;
        };
        out.extend_from_slice(&raw[i..i + n]);
        i += n;
        let c = at(raw, i + 1);
        i += 2;
        match c {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'u' => i = unicode(raw, i, out),
            0 => {}
            c => out.push(c),
        }
    }
}

/// `\uXXXX`, whose figures begin at `i`, with a second half where it needs one.
fn unicode(raw: &[u8], i: usize, out: &mut Vec<u8>) -> usize {
    let hex = |i: usize| {
        let s = raw.get(i..i + 4)?;
        u32::from_str_radix(std::str::from_utf8(s).ok()?, 16).ok()
    };
    let Some(first) = hex(i) else { return i };
    let (mut code, mut end) = (first, i + 4);
    let low = (0xD800..0xDC00).contains(&first) && at(raw, i + 4) == b'\\' && at(raw, i + 5) == b'u';
    if low && let Some(second) = hex(i + 6).filter(|s| (0xDC00..0xE000).contains(s)) {
        code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        end = i + 10;
    }
    let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    end
}

#[cfg(test)]
mod tests {
    use super::record;

    fn read(line: &str) -> Option<(String, String)> {
        let r = record(line.as_bytes())?;
        let (mut head, mut text) = (Vec::new(), Vec::new());
        r.head(line.as_bytes(), &mut head);
        r.decode(line.as_bytes(), &mut text);
        Some((String::from_utf8(head).unwrap(), String::from_utf8(text).unwrap()))
    }

    #[test]
    fn the_shippers_forms() {
        for (line, head, text) in [
            (
                r#"{"log":"a \u001b[31mred\u001b[0m \"x\"\n","stream":"stderr","time":"2026-02-03T04:05:06.5Z"}"#,
                "2026-02-03T04:05:06.5Z stderr F ",
                "a \u{1b}[31mred\u{1b}[0m \"x\"\n",
            ),
            (
                r#"{"date":1770091506.25,"log":"b","kubernetes":{"pod_name":"web-3","container_name":"app","labels":{"a":"}"}}}"#,
                "2026-02-03T04:05:06.25Z [pod/web-3/app] ",
                "b",
            ),
            (
                r#"{"__REALTIME_TIMESTAMP":"1770091506250000","_HOSTNAME":"n7","SYSLOG_IDENTIFIER":"kernel","MESSAGE":[78,86]}"#,
                "2026-02-03T04:05:06.25Z n7 kernel: ",
                "NV",
            ),
            (r#"{"timestamp":1770091506250,"message":"é\ud83d\ude00"}"#, "2026-02-03T04:05:06.25Z ", "é😀"),
            (
                r#"{"labels":{"pod":"job-0","node_name":"n1"},"line":"c","timestamp":"2026-02-03T04:05:06Z"}"#,
                "2026-02-03T04:05:06Z [pod/job-0/-] ",
                "c",
            ),
            (
                r#"{"ts":"2026-02-03T04:05:06Z","level":"error","msg":"e","rank":12}"#,
                "2026-02-03T04:05:06Z [rank12]: ",
                "e",
            ),
            (r#"{"rank":"7","message":"f","global_rank":-1}"#, "[rank7]: ", "f"),
            (r#"{ "textPayload" : "d", "resource": {"labels": {"pod_name": "p-1"}} }"#, "[pod/p-1/-] ", "d"),
        ] {
            assert_eq!(read(line), Some((head.to_string(), text.to_string())), "{line}");
        }
    }

    #[test]
    fn other_objects_are_left_alone() {
        for line in [
            r#"{"name": "x", "value": 3}"#,
            r#"{"message": {"message": "x"}}"#,
            r#"{"log":"cut in the mid"#,
            r#"{"log":"x"} tail"#,
            r#"{"log":"x""#,
            "{}",
            "{'log': 'x'}",
            r#":::MLLOG {"log": "x"}"#,
            r#"{"a":[}"#,
            "{\"\\",
        ] {
            assert!(read(line).is_none(), "{line}");
        }
    }
}
