//! One record a job: what a table of jobs holds, flat, with stable columns.
//! The columns are declared once ([`COLUMNS`]); NDJSON, CSV, Parquet and the
//! documentation follow from it.

use super::print;
use crate::report::{Report, Verdict};
use serde::{Deserialize, Serialize};

/// What is recorded of one job. Columns may be added, never renamed, retyped or given another sense.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Stable name of the job: folders and id.
    pub job: String,
    /// The folder or file that holds it, as it was named.
    pub path: String,
    /// The scheduler's number, where a name or a line tells it.
    pub job_id: Option<String>,
    /// Files, members of archives counted.
    pub files: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// Bytes that were read, unpacked.
    pub bytes_read: u64,
    /// Lines.
    pub lines: u64,
    /// What could not be read, one sentence each.
    pub problems: Vec<String>,
    /// First time in the logs, RFC 3339.
    pub first: Option<String>,
    /// Last time in the logs, or the time of the newest file.
    pub last: Option<String>,
    /// Where `last` comes from: `log`, `log, year of file`, `file`.
    pub time_from: String,
    /// ISO week of `last`: `2026-W06`.
    pub week: Option<String>,
    /// `fault`, `degraded`, `healthy`, `inconclusive`, or `unread`.
    pub verdict: String,
    /// How the job ended.
    pub end: String,
    /// The first diagnosis.
    pub cause: Option<String>,
    /// What stands before the `/` in it.
    pub category: Option<String>,
    /// How sure.
    pub confidence: Option<f64>,
    /// Its title.
    pub title: Option<String>,
    /// All diagnoses.
    pub causes: Vec<String>,
    /// All notices.
    pub notices: Vec<String>,
    /// World size, or the least that the ranks seen and blamed allow.
    pub world_size: Option<u64>,
    /// Hosts that took part.
    pub hosts: Vec<String>,
    /// Ranks to blame.
    pub culprit_ranks: Vec<u32>,
    /// Hosts to blame.
    pub culprit_hosts: Vec<String>,
    /// Devices to blame.
    pub culprit_devices: Vec<String>,
    /// Releases of NCCL.
    pub nccl: Option<String>,
    /// Releases of PyTorch.
    pub torch: Option<String>,
    /// Releases of CUDA.
    pub cuda: Option<String>,
    /// Releases of the driver.
    pub driver: Option<String>,
    /// Networks in use.
    pub networks: Vec<String>,
    /// Runs in the logs.
    pub attempts: u64,
    /// Seconds from the first time to the last, both from the logs.
    pub seconds: Option<f64>,
    /// `seconds` of all ranks, in hours.
    pub gpu_hours: Option<f64>,
    /// The part of `gpu_hours` behind the first line that shows the cause.
    pub lost_gpu_hours: Option<f64>,
    /// The line that shows the cause: its file.
    pub evidence_source: Option<String>,
    /// Its number.
    pub evidence_line: Option<u64>,
    /// Its text.
    pub evidence_text: Option<String>,
    /// Jobs with the same one failed alike.
    pub fingerprint: Option<String>,
    /// One sentence.
    pub summary: String,
    /// Release of the program that judged.
    pub ncclcheck: String,
}

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// Text.
    Text,
    /// Whole number.
    Int,
    /// Number.
    Float,
    /// List of texts.
    Texts,
    /// List of whole numbers.
    Ints,
}

/// Name, type and sense of each column, in their order; a null or an empty list where the logs do not tell.
pub const COLUMNS: [(&str, Type, &str); 41] = [
    ("job", Type::Text, "stable name of the job: the named path's own name, folders, id"),
    ("path", Type::Text, "the folder or file that holds it, as it was named"),
    ("job_id", Type::Text, "the scheduler's number, where a name or the first lines tell it"),
    ("files", Type::Int, "files, each member of an archive counted"),
    ("bytes", Type::Int, "bytes on the disk"),
    ("bytes_read", Type::Int, "bytes that were read, unpacked"),
    ("lines", Type::Int, "lines"),
    ("problems", Type::Texts, "what could not be read, one sentence each"),
    ("first", Type::Text, "first time in the logs, RFC 3339; without an offset where the logs give none"),
    ("last", Type::Text, "last time in the logs, or that of the newest file"),
    ("time_from", Type::Text, "where `last` comes from: `log`, `log, year of file`, `file`"),
    ("week", Type::Text, "ISO week of `last`, such as `2026-W06`"),
    (
        "verdict",
        Type::Text,
        "`fault`, `degraded`, `healthy`, `inconclusive`; `unread` where nothing could be read",
    ),
    ("end", Type::Text, "`well`, `failed`, `killed`, `stuck`, `at work`, `not seen`"),
    ("cause", Type::Text, "id of the first diagnosis"),
    ("category", Type::Text, "what stands before the `/` in it"),
    ("confidence", Type::Float, "how sure, 0 to 1"),
    ("title", Type::Text, "its title"),
    ("causes", Type::Texts, "ids of all diagnoses, the first included"),
    ("notices", Type::Texts, "ids of all notices"),
    ("world_size", Type::Int, "declared world size, else the least that the ranks seen and blamed allow"),
    ("hosts", Type::Texts, "hosts that took part"),
    ("culprit_ranks", Type::Ints, "ranks that the first diagnosis blames"),
    ("culprit_hosts", Type::Texts, "hosts that it blames"),
    (
        "culprit_devices",
        Type::Texts,
        "GPUs or adapters that it blames, as `host/device` where one host is blamed",
    ),
    ("nccl", Type::Text, "releases of NCCL, joined by `, `"),
    ("torch", Type::Text, "releases of PyTorch"),
    ("cuda", Type::Text, "releases of CUDA"),
    ("driver", Type::Text, "releases of the driver"),
    ("networks", Type::Texts, "networks in use"),
    ("attempts", Type::Int, "runs in the logs; the last is judged"),
    ("seconds", Type::Float, "from the first time in the logs to the last; null where these tell one only"),
    ("gpu_hours", Type::Float, "`seconds` × `world_size` / 3600"),
    (
        "lost_gpu_hours",
        Type::Float,
        "the part of `gpu_hours` behind the first line that shows the cause; a collective that timed out, from its start on",
    ),
    ("evidence_source", Type::Text, "file of the line that shows the cause"),
    ("evidence_line", Type::Int, "its number"),
    ("evidence_text", Type::Text, "its text, secrets masked"),
    ("fingerprint", Type::Text, "jobs with the same one failed alike"),
    ("summary", Type::Text, "one sentence"),
    ("ncclcheck", Type::Text, "release of the program that judged"),
    ("schema", Type::Text, "`ncclcheck.job/1`"),
];

/// Name of the schema.
pub const SCHEMA: &str = "ncclcheck.job/1";

/// A value of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// See [`Type::Text`].
    Text(Option<&'a str>),
    /// See [`Type::Int`].
    Int(Option<u64>),
    /// See [`Type::Float`].
    Float(Option<f64>),
    /// See [`Type::Texts`].
    Texts(&'a [String]),
    /// See [`Type::Ints`].
    Ints(&'a [u32]),
}

/// What the scan knows of a job besides its report.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) job: String,
    pub(super) path: String,
    pub(super) job_id: Option<String>,
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Newest file, in nanoseconds since 1970.
    pub(super) mtime: i64,
    pub(super) problems: Vec<String>,
}

impl Record {
    /// The values in the order of [`COLUMNS`].
    #[must_use]
    pub fn values(&self) -> Vec<Value<'_>> {
        fn text(t: &str) -> Value<'_> {
            Value::Text(Some(t))
        }
        fn maybe(t: &Option<String>) -> Value<'_> {
            Value::Text(t.as_deref())
        }
        let int = |n: u64| Value::Int(Some(n));
        vec![
            text(&self.job),
            text(&self.path),
            maybe(&self.job_id),
            int(self.files),
            int(self.bytes),
            int(self.bytes_read),
            int(self.lines),
            Value::Texts(&self.problems),
            maybe(&self.first),
            maybe(&self.last),
            text(&self.time_from),
            maybe(&self.week),
            text(&self.verdict),
            text(&self.end),
            maybe(&self.cause),
            maybe(&self.category),
            Value::Float(self.confidence),
            maybe(&self.title),
            Value::Texts(&self.causes),
            Value::Texts(&self.notices),
            Value::Int(self.world_size),
            Value::Texts(&self.hosts),
            Value::Ints(&self.culprit_ranks),
            Value::Texts(&self.culprit_hosts),
            Value::Texts(&self.culprit_devices),
            maybe(&self.nccl),
            maybe(&self.torch),
            maybe(&self.cuda),
            maybe(&self.driver),
            Value::Texts(&self.networks),
            int(self.attempts),
            Value::Float(self.seconds),
            Value::Float(self.gpu_hours),
            Value::Float(self.lost_gpu_hours),
            maybe(&self.evidence_source),
            Value::Int(self.evidence_line),
            maybe(&self.evidence_text),
            maybe(&self.fingerprint),
            text(&self.summary),
            text(&self.ncclcheck),
            text(SCHEMA),
        ]
    }

    /// Whether the job failed, hung or was found slow: whatever counts as a failure in trends. A job of which nothing
    /// could be read, and one that shows nothing to judge by, is none.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.cause.is_some() && self.verdict != "degraded"
    }

    /// `last` as a civil time for comparison.
    #[must_use]
    pub fn when(&self) -> Option<jiff::civil::DateTime> {
        civil(self.last.as_deref()?)
    }

    pub(super) fn new(known: Known, report: &Report) -> Self {
        let job = &report.job;
        let times = Times::new(job.first.as_deref(), job.last.as_deref(), known.mtime);
        let first = report.diagnoses.first();
        let of = |what: &str| job.versions.get(what).filter(|v| !v.is_empty()).map(|v| v.join(", "));
        let blamed = first.and_then(|d| d.culprits.ranks.iter().max());
        let seen = count(&job.ranks_seen).max(blamed.map_or(0, |r| u64::from(*r) + 1));
        let world_size = job.world_size.map(u64::from).or((seen > 0).then_some(seen));
        let hours = |s: f64| world_size.map(|w| round(s * w as f64 / 3600.0, 1e4));
        let evidence = first.and_then(|d| d.evidence.first());
        let began = first.and_then(|d| {
            // Other lines may show what was well before.
            let alike = d.evidence.iter().filter(|e| e.message == d.evidence[0].message);
            let said = alike.filter_map(|e| {
                let time = e.time.as_deref().or(e.time_text.as_deref()).filter(|t| times.comparable(t))?;
                times.civil(time)?.checked_sub(jiff::SignedDuration::from_millis(ran(&e.text))).ok()
            });
            said.min()
        });
        let lost = began.zip(times.last_in_log).map(|(from, to)| seconds(from, to)).filter(|s| *s >= 0.0);
        let lost = lost.zip(times.seconds).map(|(lost, all)| lost.min(all));
        let mut problems = known.problems;
        for input in &report.inputs {
            problems.extend(input.problems.iter().map(|p| format!("{}: {p}", input.path)));
        }
        let hosts_blamed = first.map(|d| d.culprits.hosts.clone()).unwrap_or_default();
        let devices = first.map(|d| d.culprits.devices.clone()).unwrap_or_default();
        let named = |job: &[String]| job.first().cloned();
        Self {
            job: known.job,
            path: known.path,
            job_id: known.job_id.or_else(|| {
                let ids = ["SLURM_JOB_ID", "SLURM_JOBID", "LSB_JOBID", "PBS_JOBID"];
                ids.into_iter().find_map(|v| job.environment.get(v).and_then(|v| named(v)))
            }),
            files: known.files,
            bytes: known.bytes,
            bytes_read: report.inputs.iter().map(|i| i.bytes).sum(),
            lines: report.inputs.iter().map(|i| i.lines).sum(),
            problems,
            week: times.last.map(week),
            first: times.first_text,
            last: times.last_text,
            time_from: times.from.into(),
            verdict: verdict(report.verdict).into(),
            end: job.end.state.into(),
            cause: first.map(|d| d.cause.clone()),
            category: first.and_then(|d| d.cause.split('/').next().map(String::from)),
            confidence: first.map(|d| round(d.confidence, 1e4)),
            title: first.map(|d| d.title.clone()),
            causes: report.diagnoses.iter().map(|d| d.cause.clone()).collect(),
            notices: report.notices.iter().map(|d| d.cause.clone()).collect(),
            world_size,
            hosts: job.hosts.iter().map(|h| h.name.clone()).collect(),
            culprit_ranks: first.map(|d| d.culprits.ranks.clone()).unwrap_or_default(),
            culprit_devices: match hosts_blamed.as_slice() {
                [host] => devices.iter().map(|d| format!("{host}/{d}")).collect(),
                _ => devices,
            },
            culprit_hosts: hosts_blamed,
            nccl: of("nccl"),
            torch: of("torch"),
            cuda: of("cuda"),
            driver: of("driver"),
            networks: job.networks.clone(),
            attempts: report.attempts.len() as u64,
            seconds: times.seconds,
            gpu_hours: times.seconds.and_then(hours),
            lost_gpu_hours: lost.and_then(hours),
            evidence_source: evidence.map(|e| e.source.clone()),
            evidence_line: evidence.map(|e| e.line),
            evidence_text: evidence.map(|e| e.text.clone()),
            fingerprint: first.map(|d| print::of(d, job.end.state)),
            summary: report.summary.clone(),
            ncclcheck: env!("CARGO_PKG_VERSION").into(),
        }
    }

    /// A job of which nothing could be read.
    pub(super) fn unread(known: Known, why: String) -> Self {
        let times = Times::new(None, None, known.mtime);
        let mut problems = known.problems;
        problems.push(why.clone());
        Self {
            job: known.job,
            path: known.path,
            job_id: known.job_id,
            files: known.files,
            bytes: known.bytes,
            problems,
            week: times.last.map(week),
            last: times.last_text,
            time_from: times.from.into(),
            verdict: "unread".into(),
            end: "not seen".into(),
            summary: why,
            ncclcheck: env!("CARGO_PKG_VERSION").into(),
            ..Self::default()
        }
    }
}

/// Milliseconds that a collective had been waited for when a watchdog gave it up, in PyTorch's words.
fn ran(text: &str) -> i64 {
    let behind = text.split_once(") ran for ").map_or("", |t| t.1);
    behind.split_once(" milliseconds before timing out").and_then(|t| t.0.parse().ok()).unwrap_or(0)
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fault => "fault",
        Verdict::Degraded => "degraded",
        Verdict::Healthy => "healthy",
        Verdict::Inconclusive => "inconclusive",
    }
}

fn round(value: f64, to: f64) -> f64 {
    (value * to).round() / to
}

/// The least world that has the ranks `0-7,12`: they count from 0.
fn count(ranges: &str) -> u64 {
    let one = |range: &str| -> u64 {
        let last = range.split_once('-').map_or(range, |r| r.1);
        last.trim().parse::<u64>().map_or(0, |r| r + 1)
    };
    ranges.split(',').map(one).max().unwrap_or(0)
}

/// When a job was, as far as logs and files tell.
struct Times {
    first_text: Option<String>,
    last_text: Option<String>,
    last: Option<jiff::civil::DateTime>,
    last_in_log: Option<jiff::civil::DateTime>,
    from: &'static str,
    seconds: Option<f64>,
    /// Time of the newest file, in UTC.
    file: Option<jiff::civil::DateTime>,
    /// Whether the last time in the logs tells its zone.
    zoned: Option<bool>,
}

/// Whether a time tells its zone. One that does and one that does not may lie apart by a day.
fn zoned(text: &str) -> bool {
    text.parse::<jiff::Timestamp>().is_ok()
}

impl Times {
    fn new(first: Option<&str>, last: Option<&str>, mtime: i64) -> Self {
        let file = jiff::Timestamp::from_nanosecond(i128::from(mtime)).ok().filter(|_| mtime > 0);
        let mut out = Self {
            first_text: None,
            last_text: file.map(|f| f.to_string()),
            last: None,
            last_in_log: None,
            from: "file",
            seconds: None,
            file: file.map(|f| jiff::tz::Offset::UTC.to_datetime(f)),
            zoned: last.map(zoned),
        };
        out.last = out.file;
        let (begin, end) = (first.and_then(|t| out.civil(t)), last.and_then(|t| out.civil(t)));
        if let Some((end, text)) = end.zip(last) {
            let full = civil(text).is_some();
            out.from = if full { "log" } else { "log, year of file" };
            out.last_text = Some(if full { text.to_string() } else { end.to_string() });
            (out.last, out.last_in_log) = (Some(end), Some(end));
        }
        let begin = first.and_then(|t| out.civil(t)).or(begin);
        if let Some((begin, text)) = begin.zip(first) {
            out.first_text = Some(if civil(text).is_some() { text.to_string() } else { begin.to_string() });
            let alike = out.comparable(text);
            out.seconds =
                out.last_in_log.filter(|_| alike).map(|end| seconds(begin, end)).filter(|s| *s > 0.0);
        }
        out
    }

    /// Whether a time can be compared with the last one.
    fn comparable(&self, text: &str) -> bool {
        self.zoned == Some(zoned(text))
    }

    /// A time as the report gives it. Where only the year is missing it is that which brings it nearest to the last
    /// time in the logs; where none there tells a year, that of the newest file, or the one before where the time
    /// would lie behind the file's.
    fn civil(&self, text: &str) -> Option<jiff::civil::DateTime> {
        if let Some(full) = civil(text) {
            return Some(full);
        }
        if let Some(last) = self.last_in_log {
            let years = [last.year() - 1, last.year(), last.year() + 1];
            let all = years.iter().filter_map(|year| civil(&format!("{year:04}-{text}")));
            return all.min_by_key(|t| t.duration_since(last).abs());
        }
        let file = self.file?;
        let with = |year: i16| civil(&format!("{year:04}-{text}"));
        let same = with(file.year())?;
        let late = file.checked_add(jiff::Span::new().days(2)).is_ok_and(|f| same > f);
        if late { with(file.year() - 1) } else { Some(same) }
    }
}

/// A time with its date; in UTC where it has an offset.
pub(super) fn civil(text: &str) -> Option<jiff::civil::DateTime> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(jiff::tz::Offset::UTC.to_datetime(at));
    }
    let time = text.trim().replacen(' ', "T", 1);
    time.contains('T').then(|| time.parse().ok()).flatten()
}

fn seconds(from: jiff::civil::DateTime, to: jiff::civil::DateTime) -> f64 {
    let span = to.duration_since(from);
    round(span.as_secs_f64(), 1e3)
}

fn week(at: jiff::civil::DateTime) -> String {
    let week = at.date().iso_week_date();
    format!("{:04}-W{:02}", week.year(), week.week())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-02-10T00:00:00Z.
    const FILE: i64 = 1_770_681_600_000_000_000;

    fn times(first: &str, last: &str) -> (Option<f64>, Option<String>, &'static str) {
        let t = Times::new(Some(first).filter(|t| !t.is_empty()), Some(last).filter(|t| !t.is_empty()), FILE);
        (t.seconds, t.last_text, t.from)
    }

    #[test]
    fn times_are_taken_from_the_logs_as_far_as_they_go() {
        assert_eq!(
            times("2026-02-03T10:00:00Z", "2026-02-03T11:00:00.5Z"),
            (Some(3600.5), Some("2026-02-03T11:00:00.5Z".into()), "log")
        );
        assert_eq!(
            times("02-03 10:00:00", "02-03 10:01:00"),
            (Some(60.0), Some("2026-02-03T10:01:00".into()), "log, year of file")
        );
        // December of a file of February is last year's.
        assert_eq!(times("", "12-30 10:00:00").1.as_deref(), Some("2025-12-30T10:00:00"));
        assert_eq!(times("", ""), (None, Some("2026-02-10T00:00:00Z".into()), "file"));
        assert_eq!(times("10:00:00", "11:00:00").2, "file", "a time without a day tells no day");
    }

    #[test]
    fn a_year_that_is_missing_is_that_of_the_last_time() {
        assert_eq!(times("02-03 10:00:00", "2026-02-03T11:00:00").0, Some(3600.0));
        assert_eq!(
            times("12-31 23:00:00", "2025-01-01T01:00:00").0,
            Some(7200.0),
            "whatever the file's time is"
        );
    }

    #[test]
    fn times_that_cannot_be_compared_give_no_length() {
        assert_eq!(times("2026-02-03T10:00:00", "2026-02-03T11:00:00Z").0, None);
        assert_eq!(times("02-03 10:00:00", "2026-02-03T11:00:00Z").0, None);
        assert_eq!(times("2026-02-03T12:00:00Z", "2026-02-03T11:00:00Z").0, None);
    }

    #[test]
    fn ranks_tell_how_many_there_are_at_least() {
        assert_eq!((count("0-7,12"), count(""), count("3"), count("1-7")), (13, 0, 4, 8));
        assert_eq!(week(civil("2027-01-01T00:00:00").unwrap()), "2026-W53");
    }
}
