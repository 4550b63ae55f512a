//! Times as logs write them. One reader for every form (ISO with `T`, blank
//! or `_`, comma or dot before the fraction, any zone; ctime; syslog;
//! month-day; time of day; epoch seconds), with or without brackets. What a
//! form does not say stays unknown in the [`Stamp`]. Seconds since the start
//! of a machine or a notebook are no stamp and have a reader of their own.

use super::scan::{at, digits, fixed, from, is, one_of, skip};
use crate::base::Stamp;

const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
const DAYS: [&[u8]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];

/// How a time was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// Year, month, day in figures, then the time.
    Iso,
    /// `Tue Jan  6 10:11:12 2026`.
    Ctime,
    /// `Jan 06 10:11:12`, as syslog and journald write.
    Month,
    /// Month and day in figures, then the time, without a year.
    MonthDay,
    /// A time of day only.
    Day,
    /// Seconds since 1970 with a fraction.
    Epoch,
}

/// The parts of a time, not yet checked against the calendar.
#[derive(Clone, Copy, Debug)]
pub(super) struct Civil {
    /// How it was written.
    pub(super) form: Form,
    year: Option<i16>,
    date: Option<(i8, i8)>,
    hms: (i8, i8, i8),
    nanos: i32,
    /// Seconds from UTC where they were written.
    pub(super) offset: Option<i32>,
    /// Whether a `T` stood between date and time.
    pub(super) t: bool,
    epoch: i64,
}

impl Civil {
    fn new(form: Form) -> Self {
        Self { form, year: None, date: None, hms: (0, 0, 0), nanos: 0, offset: None, t: false, epoch: 0 }
    }

    /// The stamp, if the parts are a real date and time.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        if self.form == Form::Epoch {
            return Some(Stamp::from_epoch_nanos(self.epoch));
        }
        Stamp::new(self.year, self.date, self.hms, self.nanos, self.offset)
    }
}

/// A time at the start of `text`, in brackets or not, and the length taken
/// (brackets included, nothing after them).
#[must_use]
pub fn stamp(text: &[u8]) -> Option<(Stamp, usize)> {
    let (civil, len) = civil(text)?;
    Some((civil.stamp()?, len))
}

/// As [`stamp`], but only the parts: cheap enough for every line.
pub(super) fn civil(text: &[u8]) -> Option<(Civil, usize)> {
    if at(text, 0) != b'[' {
        return bare(text);
    }
    let (civil, len) = bare(text.get(1..)?)?;
    (at(text, len + 1) == b']').then_some((civil, len + 2))
}

/// A time without brackets.
pub(super) fn bare(text: &[u8]) -> Option<(Civil, usize)> {
    match at(text, 0) {
        b'0'..=b'9' => match figures(text) {
            (4, b'-' | b'/') => iso(text),
            (2, b':') => {
                let mut c = Civil::new(Form::Day);
                let end = clock(text, 0, &mut c)?;
                (at(text, end) != b':' || at(text, end + 1) == b' ').then_some((c, end))
            }
            (2, b'-') => month_day(text),
            (2, b'/') => american(text),
            (10, b'.') => epoch(text),
            _ => None,
        },
        b'A'..=b'Z' => named(text),
        _ => None,
    }
}

/// How many figures the text begins with, up to 11, and what follows.
fn figures(text: &[u8]) -> (usize, u8) {
    let len = skip(text, 0, 11, |c| c.is_ascii_digit());
    (len, at(text, len))
}

/// `HH:MM:SS` with an optional fraction, into `c`; the end.
pub(super) fn clock(t: &[u8], i: usize, c: &mut Civil) -> Option<usize> {
    let (h, m, s) = (fixed(t, i, 2)?, fixed(t, i + 3, 2)?, fixed(t, i + 6, 2)?);
    if at(t, i + 2) != b':' || at(t, i + 5) != b':' || h > 23 || m > 59 || s > 60 {
        return None;
    }
    if at(t, i + 8).is_ascii_digit() {
        return None;
    }
    c.hms = (h as i8, m as i8, s.min(59) as i8);
    let mut end = i + 8;
    if matches!(at(t, end), b'.' | b',') && at(t, end + 1).is_ascii_digit() {
        let (nanos, stop) = fraction(t, end + 1);
        c.nanos = nanos;
        end = stop;
    }
    Some(end)
}

/// The figures of a fraction as nanoseconds.
fn fraction(t: &[u8], i: usize) -> (i32, usize) {
    let (mut nanos, mut unit, mut len) = (0i32, 100_000_000i32, 0);
    for c in from(t, i).iter().take(30).take_while(|c| c.is_ascii_digit()) {
        nanos += i32::from(c - b'0') * unit;
        unit /= 10;
        len += 1;
    }
    (nanos, i + len)
}

fn iso(t: &[u8]) -> Option<(Civil, usize)> {
    let mut c = Civil::new(Form::Iso);
    let year = fixed(t, 0, 4)?;
    if !(1970..=2200).contains(&year) {
        return None;
    }
    c.year = Some(year as i16);
    let sep = at(t, 4);
    let (month, mut i) = match fixed(t, 5, 2) {
        Some(m) => (m, 7),
        None => (one_of(t, 5, &MONTHS)? as u32 + 1, 8),
    };
    let day = fixed(t, i + 1, 2)?;
    if at(t, i) != sep || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    c.date = Some((month as i8, day as i8));
    i += 3;
    c.t = at(t, i) == b'T';
    if !matches!(at(t, i), b'T' | b' ' | b'_') {
        return None;
    }
    let mut end = clock(t, i + 1, &mut c)?;
    if matches!(at(t, end), b' ' | b'Z' | b'+' | b'-') {
        end = noon(t, end, &mut c);
        end = zone(t, end, &mut c);
    }
    Some((c, end))
}

/// ` AM` and ` PM`.
fn noon(t: &[u8], end: usize, c: &mut Civil) -> usize {
    let pm = is(t, end, b" PM");
    if !pm && !is(t, end, b" AM") || at(t, end + 3).is_ascii_alphanumeric() {
        return end;
    }
    match (pm, c.hms.0) {
        (true, h) if h < 12 => c.hms.0 = h + 12,
        (false, 12) => c.hms.0 = 0,
        _ => {}
    }
    end + 3
}

/// `Z`, `+01:00`, `+0100`, `+01`, ` UTC`, ` GMT`, ` +0100`.
fn zone(t: &[u8], end: usize, c: &mut Civil) -> usize {
    if at(t, end) == b'Z' && !at(t, end + 1).is_ascii_alphanumeric() {
        c.offset = Some(0);
        return end + 1;
    }
    if (is(t, end, b" UTC") || is(t, end, b" GMT")) && !at(t, end + 4).is_ascii_alphanumeric() {
        c.offset = Some(0);
        return end + 4;
    }
    let blank = usize::from(at(t, end) == b' ');
    let i = end + blank;
    let sign = match at(t, i) {
        b'+' => 1,
        b'-' => -1,
        _ => return end,
    };
    let (hours, minutes, stop) = match (digits(t, i + 1), at(t, i + 3)) {
        (4, _) => (fixed(t, i + 1, 2), fixed(t, i + 3, 2), i + 5),
        (2, b':') if blank == 0 && digits(t, i + 4) == 2 => (fixed(t, i + 1, 2), fixed(t, i + 4, 2), i + 6),
        (2, _) if blank == 0 => (fixed(t, i + 1, 2), Some(0), i + 3),
        _ => return end,
    };
    let (Some(h), Some(m)) = (hours, minutes) else { return end };
    if h > 14 || m > 59 {
        return end;
    }
    c.offset = Some(sign * (h as i32 * 3600 + m as i32 * 60));
    stop
}

/// `04-15 00:31:11`, as vLLM writes.
fn month_day(t: &[u8]) -> Option<(Civil, usize)> {
    let mut c = Civil::new(Form::MonthDay);
    let (month, day) = (fixed(t, 0, 2)?, fixed(t, 3, 2)?);
    if at(t, 5) != b' ' || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    c.date = Some((month as i8, day as i8));
    let end = clock(t, 6, &mut c)?;
    Some((c, end))
}

/// `12/25/2024 10:11:12` and `12/25/24 10:11:12`: month first, as Python's
/// `%m/%d/%Y` and the rich handler write.
fn american(t: &[u8]) -> Option<(Civil, usize)> {
    let mut c = Civil::new(Form::Iso);
    let (month, day) = (fixed(t, 0, 2)?, fixed(t, 3, 2)?);
    let (year, i) = match digits(t, 6) {
        4 => (fixed(t, 6, 4)?, 10),
        2 => (fixed(t, 6, 2)? + 2000, 8),
        _ => return None,
    };
    let sane = (1..=12).contains(&month) && (1..=31).contains(&day) && (1970..=2200).contains(&year);
    if at(t, 5) != b'/' || at(t, i) != b' ' || !sane {
        return None;
    }
    c.year = Some(year as i16);
    c.date = Some((month as i8, day as i8));
    let end = clock(t, i + 1, &mut c)?;
    let end = noon(t, end, &mut c);
    Some((c, end))
}

fn epoch(t: &[u8]) -> Option<(Civil, usize)> {
    let mut c = Civil::new(Form::Epoch);
    let (nanos, end) = fraction(t, 11);
    let seconds = i64::from(fixed(t, 0, 10)?);
    if end < 14 || !(946_684_800..4_102_444_800).contains(&seconds) {
        return None;
    }
    c.epoch = seconds * 1_000_000_000 + i64::from(nanos);
    Some((c, end))
}

/// `Tue Jan  6 10:11:12 2026`, `Tue Jan  6 10:11:12 UTC 2026`, `Jan 06 10:11:12`.
fn named(t: &[u8]) -> Option<(Civil, usize)> {
    let weekday = one_of(t, 0, &DAYS).is_some() && at(t, 3) == b' ';
    let mut i = if weekday { 4 } else { 0 };
    let month = one_of(t, i, &MONTHS)?;
    if at(t, i + 3) != b' ' {
        return None;
    }
    i += 4;
    if at(t, i) == b' ' {
        i += 1;
    }
    let len = digits(t, i);
    let day = fixed(t, i, len).filter(|d| len <= 2 && (1..=31).contains(d))?;
    if at(t, i + len) != b' ' {
        return None;
    }
    let mut c = Civil::new(if weekday { Form::Ctime } else { Form::Month });
    c.date = Some((month as i8 + 1, day as i8));
    let mut end = clock(t, i + len + 1, &mut c)?;
    if weekday {
        let mut k = noon(t, end, &mut c);
        k = zone(t, k, &mut c);
        let year = fixed(t, k + 1, 4).filter(|y| at(t, k) == b' ' && (1970..=2200).contains(y))?;
        c.year = Some(year as i16);
        end = k + 5;
    }
    Some((c, end))
}

/// Seconds since something started, in nanoseconds, and the length taken:
/// `[12345.678901]`, `[    0.000000]` of the kernel, `704.7s` of a notebook.
/// An epoch (ten figures) is none.
#[must_use]
pub fn seconds(text: &[u8]) -> Option<(i64, usize)> {
    let bracket = at(text, 0) == b'[';
    let start = if bracket { skip(text, 1, 8, |c| c == b' ') } else { 0 };
    let whole = digits(text, start);
    if !(1..=9).contains(&whole) || at(text, start + whole) != b'.' {
        return None;
    }
    let (nanos, end) = fraction(text, start + whole + 1);
    let figures = end - (start + whole + 1);
    let close = at(text, end);
    let good = if bracket { close == b']' && figures == 6 } else { close == b's' && figures >= 1 };
    let value = i64::from(fixed(text, start, whole)?) * 1_000_000_000 + i64::from(nanos);
    good.then_some((value, end + 1))
}

/// The date of a glog line, `1218` or torch's own `218` (no zero before the
/// month), and its time of day; the end. `0000 00:00:<epoch>` is what absl
/// writes before it is set up.
pub(super) fn glog_date(t: &[u8]) -> Option<(Option<Civil>, usize)> {
    let len = digits(t, 0);
    if !(3..=4).contains(&len) || at(t, len) != b' ' {
        return None;
    }
    let (month, day) = (fixed(t, 0, len - 2)?, fixed(t, len - 2, 2)?);
    if month == 0 && day == 0 {
        let i = len + 1;
        let (c, n) = is(t, i, b"00:00:").then(|| epoch(t.get(i + 6..)?)).flatten()?;
        return Some((Some(c), i + 6 + n));
    }
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let mut c = Civil::new(Form::MonthDay);
    c.date = Some((month as i8, day as i8));
    let end = clock(t, len + 1, &mut c)?;
    Some((Some(c), end))
}

#[cfg(test)]
mod tests {
    use super::{seconds, stamp};

    fn text(s: &str) -> Option<(String, usize)> {
        stamp(s.as_bytes()).map(|(t, n)| (t.rfc3339().unwrap_or_else(|| t.text()), n))
    }

    #[test]
    fn every_form_says_what_it_knows() {
        for (line, want, len) in [
            ("2026-03-04T05:06:07.123456789Z x", "2026-03-04T05:06:07.123456789Z", 30),
            ("2026-03-04T05:06:07+0100 n", "2026-03-04T04:06:07Z", 24),
            ("2026-03-04 05:06:07,250 - a", "2026-03-04T05:06:07.25", 23),
            ("[2026-03-04 05:06:07] x", "2026-03-04T05:06:07", 21),
            ("2026-03-04 05:06:07.5+02:00", "2026-03-04T03:06:07.5Z", 27),
            ("2026-03-04_05:06:07", "2026-03-04T05:06:07", 19),
            ("2026-Mar-04 05:06:07.0204 9", "2026-03-04T05:06:07.0204", 25),
            ("2026-03-04 04:06:07 PM", "2026-03-04T16:06:07", 22),
            ("2026/03/04 04:06:07", "2026-03-04T04:06:07", 19),
            ("2026-03-04 04:06:07 UTC x", "2026-03-04T04:06:07Z", 23),
            ("[03/04/26 04:06:07] INFO", "2026-03-04T04:06:07", 19),
            ("03/04/2026 04:06:07 - INFO", "2026-03-04T04:06:07", 19),
            ("Tue Jan  6 10:11:12 2026[1,3]<stdout>:", "2026-01-06T10:11:12", 24),
            ("[Tue Jan  6 10:11:12 2026] x", "2026-01-06T10:11:12", 26),
            ("Tue Jan  6 10:11:12 UTC 2026", "2026-01-06T10:11:12Z", 28),
            ("Jan 02 03:04:05 node", "01-02 03:04:05", 15),
            ("04-15 00:31:11 [w.py:5]", "04-15 00:31:11", 14),
            ("16:28:59.052 x", "16:28:59", 12),
            ("[1594409584.658123] [h", "2020-07-10T19:33:04.658123Z", 19),
        ] {
            assert_eq!(text(line), Some((want.to_string(), len)), "{line}");
        }
    }

    #[test]
    fn no_time_is_no_time() {
        for line in [
            "12:30: hello",
            "12:30 x",
            "1.2.3.4: x",
            "2026-13-04 05:06:07",
            "2026-03-04",
            "[3] x",
            "Jan Hus 1",
            "99:99:99",
            "3: x",
            "100%|##| 3/3",
            "1234567890",
            "",
            "[",
            "25:00:00",
            "May be 10:11:12",
            "00:1a:2b:3c",
            "12:34:56:78:9a:bc x",
        ] {
            assert_eq!(text(line), None, "{line}");
        }
    }

    #[test]
    fn seconds_since_a_start() {
        assert_eq!(seconds(b"[12345.678901] NVRM"), Some((12_345_678_901_000, 14)));
        assert_eq!(seconds(b"[    0.000000] Linux"), Some((0, 14)));
        assert_eq!(seconds(b"704.7s\t1468\tx"), Some((704_700_000_000, 6)));
        assert_eq!(seconds(b"[1594409584.658123] [h"), None);
        assert_eq!(seconds(b"[0.5] x"), None);
        assert_eq!(seconds(b"2.5 x"), None);
    }
}
