//! The report as data: frozen structs that serialize to the documented JSON
//! (`docs/report.md`). Renderers read it and decide nothing; rooms before it
//! fill it. Keys may be added, never renamed, retyped or given another sense.

use serde::Serialize;
use std::collections::BTreeMap;

/// One report about one job.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `ncclcheck.report/1`.
    pub schema: &'static str,
    /// What it comes to.
    pub verdict: Verdict,
    /// One sentence.
    pub summary: String,
    /// Most probable first; empty when healthy.
    pub diagnoses: Vec<Diagnosis>,
    /// What the input does not show and what to collect, one sentence each.
    pub not_seen: Vec<String>,
    /// What was learnt of the job.
    pub job: Job,
    /// Every run that the input holds; `diagnoses` are of the last.
    pub attempts: Vec<Attempt>,
    /// Odd and harmless, or of an earlier attempt.
    pub notices: Vec<Diagnosis>,
    /// The events that matter, in corrected time where times are known.
    pub timeline: Vec<Evidence>,
    /// Everything that was opened.
    pub inputs: Vec<Input>,
    /// What was folded away to stay within the memory budget, one sentence each.
    pub folded: Vec<String>,
}

/// What the report comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The job failed or hung and the input shows why or where.
    Fault,
    /// It ran, but slower or closer to a limit than it should.
    Degraded,
    /// It ended well or was at work at its last line with nothing wrong.
    Healthy,
    /// It did not end well and the input does not show why, or nothing to judge by.
    Inconclusive,
}

/// One cause with its proof and what to do.
#[derive(Debug, Clone, Serialize)]
pub struct Diagnosis {
    /// Id of the cause, such as `net/ib-retry-exceeded`.
    pub cause: String,
    /// One line.
    pub title: String,
    /// What happened and how the lines show it.
    pub why: String,
    /// 0 to 1, calibrated.
    pub confidence: f64,
    /// `fatal`, `degraded` or `notice`.
    pub severity: &'static str,
    /// Where the fault is.
    pub culprits: Culprits,
    /// As few lines as prove it.
    pub evidence: Vec<Evidence>,
    /// What followed from it.
    pub explains: Vec<Consequence>,
    /// In the order to try.
    pub fixes: Vec<Fix>,
    /// What it is easily mistaken for, and how to tell. May be empty.
    pub mistaken_for: String,
    /// Other causes that the same lines could mean, with their confidence.
    pub alternatives: Vec<Alternative>,
    /// Pages that say more.
    pub references: Vec<String>,
    /// Known faults of the release in use that fit what was printed.
    pub known_bugs: Vec<KnownBug>,
}

/// A known fault of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KnownBug {
    /// Whose: `nccl`, `torch`, `driver`.
    pub of: String,
    /// Releases that have it, as a range.
    pub releases: String,
    /// What is wrong.
    pub fault: String,
    /// How it shows.
    pub shows: String,
    /// Release without it.
    pub fixed: String,
    /// What to do meanwhile.
    pub workaround: String,
    /// Where it is described.
    pub source: String,
}

/// Where the fault is, not where it was noticed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Culprits {
    /// Global ranks.
    pub ranks: Vec<u32>,
    /// Host names.
    pub hosts: Vec<String>,
    /// GPUs or adapters: bus ids or names such as `mlx5_3`.
    pub devices: Vec<String>,
}

/// One line of the input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The source's path.
    pub source: String,
    /// From 1, in the input as given (decompressed).
    pub line: u64,
    /// RFC 3339 or null.
    pub time: Option<String>,
    /// The time as far as the line gives it, for people.
    pub time_text: Option<String>,
    /// Global rank, where known.
    pub rank: Option<u32>,
    /// How the rank is known: `in the line`, `by its process`, `by its label`, `by the file's name`, …
    pub rank_by: Option<&'static str>,
    /// Host, where known.
    pub host: Option<String>,
    /// The line as it stands there, secrets masked.
    pub text: String,
    /// Whether the text was cut.
    pub cut: bool,
    /// The message that was recognised.
    pub message: String,
    /// How often the same message came from the same speaker or, for folded events, in all.
    pub count: u64,
}

/// What followed from a cause.
#[derive(Debug, Clone, Serialize)]
pub struct Consequence {
    /// Id of a finding that this one explains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Or what was seen, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symptom: Option<String>,
    /// Ranks that suffered.
    pub ranks: Vec<u32>,
    /// How many lines say so.
    pub count: u64,
    /// One or two of them.
    pub evidence: Vec<Evidence>,
}

/// Something to do.
#[derive(Debug, Clone, Serialize)]
pub struct Fix {
    /// `fix`, `workaround` or `diagnostic`.
    pub intent: &'static str,
    /// What to do.
    pub text: String,
    /// Variables to set, or null.
    pub env: Option<BTreeMap<String, String>>,
    /// Its price.
    pub cost: String,
    /// How to see that it helped.
    pub verify: String,
}

/// Another cause that the same lines could mean.
#[derive(Debug, Clone, Serialize)]
pub struct Alternative {
    /// Id.
    pub cause: String,
    /// Title of its rule.
    pub title: String,
    /// 0 to 1.
    pub confidence: f64,
}

/// What was learnt of the job.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Job {
    /// Declared world size, where the input says it.
    pub world_size: Option<u32>,
    /// Ranks that left at least one line, as ranges (`0-7,12`).
    pub ranks_seen: String,
    /// Ranks of the declared world that left none, as ranges.
    pub ranks_not_seen: String,
    /// Every rank that is not simply heard: `silent` or `not given`, with the reason.
    pub ranks: Vec<RankState>,
    /// Hosts in order of their first rank.
    pub hosts: Vec<Host>,
    /// Releases by program: `nccl`, `torch`, `cuda`, `driver` …; more than one where ranks differ.
    pub versions: BTreeMap<String, Vec<String>>,
    /// Names of the GPUs.
    pub devices: Vec<String>,
    /// How many communicators were made.
    pub communicators: usize,
    /// Networks in use (`IB`, `Socket`, `AWS Libfabric` …).
    pub networks: Vec<String>,
    /// Variables that the input shows, with their values; several values where ranks differ.
    pub environment: BTreeMap<String, Vec<String>>,
    /// First and last time, as far as the lines give them.
    pub first: Option<String>,
    /// See `first`.
    pub last: Option<String>,
    /// Last training step seen, in the job's own words.
    pub last_step: Option<String>,
    /// How it ended.
    pub end: End,
    /// Where sources disagree, one sentence each.
    pub contradictions: Vec<String>,
    /// The jobs that the names of the files tell apart, where these are several; the report takes them for one.
    pub several: Vec<String>,
}

/// One rank that is not simply heard.
#[derive(Debug, Clone, Serialize)]
pub struct RankState {
    /// Global rank.
    pub rank: u32,
    /// `heard`, `silent` or `not given`.
    pub state: &'static str,
    /// Its last line, where it has one.
    pub last: Option<Evidence>,
    /// How its process ended, as far as is known.
    pub end: Option<String>,
}

/// A host and its ranks.
#[derive(Debug, Clone, Serialize)]
pub struct Host {
    /// Name as the logs print it.
    pub name: String,
    /// Ranks, as ranges.
    pub ranks: String,
}

/// How a run ended.
#[derive(Debug, Clone, Serialize)]
pub struct End {
    /// `well`, `failed`, `killed`, `stuck`, `at work`, `not seen`.
    pub state: &'static str,
    /// By whose word.
    pub how: String,
    /// The lines that say so.
    pub evidence: Vec<Evidence>,
}

impl Default for End {
    fn default() -> Self {
        Self { state: "not seen", how: String::new(), evidence: Vec::new() }
    }
}

/// One run of the job.
#[derive(Debug, Clone, Serialize)]
pub struct Attempt {
    /// From 1.
    pub n: usize,
    /// First time or place.
    pub first: String,
    /// Last time or place.
    pub last: String,
    /// How it ended.
    pub end: &'static str,
    /// Its first cause, where one was found.
    pub cause: Option<String>,
}

/// One thing that was opened.
#[derive(Debug, Clone, Serialize)]
pub struct Input {
    /// Path as given, members of archives behind a `!`.
    pub path: String,
    /// Size, decompressed.
    pub bytes: u64,
    /// Lines.
    pub lines: u64,
    /// What was wrong with it.
    pub problems: Vec<String>,
}
