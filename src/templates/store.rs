//! What is counted of shapes: of one job (`JobTemplates`), and of many
//! (`Store`). Where there are too many shapes those whose hash is smallest are
//! kept, so that what is kept, and its counts, are the same whatever came
//! first: a shape that was ever dropped would be dropped at the end too.

use super::mine;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Shapes that are kept of one job.
const OF_JOB: usize = 2_000;
/// Shapes that an index of many jobs keeps of one.
const OF_ONE_OF_MANY: usize = 300;
/// Characters of a line that it keeps.
const TEXT: usize = 400;
/// Shapes that are kept of all jobs.
const OF_ALL: usize = 20_000;
/// Lines that are kept of a shape.
const EXAMPLES: usize = 3;
/// Jobs that a shape names one by one; more are counted only.
const NAMED: usize = 256;

/// How a job ended, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It did not end well.
    Failed,
    /// It ended well, or was at work with nothing wrong.
    Healthy,
    /// The input does not show it, or it ran slower than it should.
    Unclear,
}

/// A line, as it stands in its source, secrets masked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Example {
    /// Job.
    pub job: String,
    /// Path of the source.
    pub source: String,
    /// Line from 1.
    pub line: u64,
    /// Rank, where known.
    pub rank: Option<u32>,
    /// Message: `unknown`, or `nccl.warn.unknown` for a WARN of NCCL.
    pub message: String,
    /// The line.
    pub text: String,
}

/// One shape in one job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Lines that have it.
    pub lines: u64,
    /// The first few of them.
    pub examples: Vec<Example>,
}

/// The shapes of one job. Parts of a job that were read apart can be merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobTemplates {
    /// Name of the job.
    pub job: String,
    /// How it ended.
    pub outcome: Outcome,
    /// All lines, those of shapes that were dropped too.
    pub lines: u64,
    /// Day of the job, `2026-02-03`, where it is known.
    #[serde(default)]
    pub day: Option<String>,
    /// Shapes.
    pub shapes: BTreeMap<String, Shape>,
}

impl JobTemplates {
    /// A job without lines.
    #[must_use]
    pub fn new(job: String, outcome: Outcome) -> Self {
        Self { job, outcome, lines: 0, day: None, shapes: BTreeMap::new() }
    }

    /// Adds a line that stands for `count` lines.
    pub fn add(&mut self, shape: String, count: u64, example: Example) {
        self.lines += count;
        let kept = self.shapes.entry(shape).or_default();
        kept.lines += count;
        kept.examples.push(example);
        first(&mut kept.examples);
        if self.shapes.len() >= OF_JOB * 2 {
            smallest(&mut self.shapes, OF_JOB);
        }
    }

    /// Keeps what may be kept of a job; to be called behind the last line.
    #[must_use]
    pub fn done(mut self) -> Self {
        smallest(&mut self.shapes, OF_JOB);
        self
    }

    /// Keeps what is worth keeping of one job among very many: few shapes, one line of each and not all of a long one.
    #[must_use]
    pub fn small(mut self) -> Self {
        smallest(&mut self.shapes, OF_ONE_OF_MANY);
        for shape in self.shapes.values_mut() {
            shape.examples.truncate(1);
            for example in &mut shape.examples {
                if let Some((at, _)) = example.text.char_indices().nth(TEXT) {
                    example.text.truncate(at);
                }
            }
        }
        self
    }

    /// Adds another part of the same job.
    pub fn merge(&mut self, other: Self) {
        self.lines += other.lines;
        self.day = earlier(self.day.take(), other.day);
        // What one part shows to have failed has failed.
        self.outcome = self.outcome.min(other.outcome);
        for (name, shape) in other.shapes {
            let kept = self.shapes.entry(name).or_default();
            kept.lines += shape.lines;
            kept.examples.extend(shape.examples);
            first(&mut kept.examples);
        }
        smallest(&mut self.shapes, OF_JOB);
    }
}

/// Jobs that have something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jobs {
    /// How many.
    pub count: u64,
    /// Numbers of some of them, all where there are few.
    some: BTreeSet<u64>,
}

impl Jobs {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.some.extend(&other.some);
        while self.some.len() > NAMED {
            self.some.pop_last();
        }
    }
}

/// One shape in many jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Lines that have it.
    pub lines: u64,
    /// Jobs that failed.
    pub failed: Jobs,
    /// Jobs that were healthy.
    pub healthy: Jobs,
    /// Other jobs.
    pub unclear: Jobs,
    /// The first few lines.
    pub examples: Vec<Example>,
    /// Day of the first job that has it, where days are known.
    #[serde(default)]
    pub since: Option<String>,
    /// Day of the last one.
    #[serde(default)]
    pub until: Option<String>,
}

impl Seen {
    fn merge(&mut self, other: Self) {
        self.lines += other.lines;
        self.failed.merge(&other.failed);
        self.healthy.merge(&other.healthy);
        self.unclear.merge(&other.unclear);
        self.examples.extend(other.examples);
        first(&mut self.examples);
        self.since = earlier(self.since.take(), other.since);
        // `None` is before every day.
        self.until = self.until.take().max(other.until);
    }
}

/// The shapes of many jobs. Stores of different jobs can be merged in any order and grouping; one job must be added
/// once only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Store {
    /// Jobs that failed.
    pub failed: u64,
    /// Jobs that were healthy.
    pub healthy: u64,
    /// Other jobs.
    pub unclear: u64,
    /// All lines, those of shapes that were dropped too.
    pub lines: u64,
    /// Shapes.
    pub shapes: BTreeMap<String, Seen>,
}

/// A template with what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Its words, with marks for what varies.
    pub template: String,
    /// Shapes that it stands for.
    pub shapes: Vec<String>,
    /// Lines and jobs.
    pub seen: Seen,
    /// Whether there are more jobs than are told apart, so that the counts are at least these.
    pub at_least: bool,
}

impl Store {
    /// Adds a job.
    pub fn add(&mut self, job: JobTemplates) {
        let (number, outcome) = (hash(&job.job), job.outcome);
        let mut one = Self { lines: job.lines, ..Self::default() };
        match outcome {
            Outcome::Failed => one.failed = 1,
            Outcome::Healthy => one.healthy = 1,
            Outcome::Unclear => one.unclear = 1,
        }
        let day = job.day.clone();
        for (name, shape) in job.done().shapes {
            let (since, until) = (day.clone(), day.clone());
            let mut seen =
                Seen { lines: shape.lines, examples: shape.examples, since, until, ..Seen::default() };
            let jobs = Jobs { count: 1, some: [number].into() };
            match outcome {
                Outcome::Failed => seen.failed = jobs,
                Outcome::Healthy => seen.healthy = jobs,
                Outcome::Unclear => seen.unclear = jobs,
            }
            one.shapes.insert(name, seen);
        }
        self.merge(one);
    }

    /// Adds the jobs of another store.
    pub fn merge(&mut self, other: Self) {
        self.failed += other.failed;
        self.healthy += other.healthy;
        self.unclear += other.unclear;
        self.lines += other.lines;
        for (name, seen) in other.shapes {
            self.shapes.entry(name).or_default().merge(seen);
        }
        smallest(&mut self.shapes, OF_ALL);
    }

    /// Lines whose shapes were dropped to stay within bounds.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lines.saturating_sub(self.shapes.values().map(|s| s.lines).sum())
    }

    /// Templates, most telling first: those that no healthy job has, by how many failed jobs have them; then the
    /// others, those that few healthy jobs have first; at last by where each was seen first.
    #[must_use]
    pub fn clusters(&self) -> Vec<Cluster> {
        let names: Vec<&str> = self.shapes.keys().map(String::as_str).collect();
        let mut out: Vec<Cluster> = mine::mine(&names)
            .into_iter()
            .map(|(template, of)| {
                self.cluster(template, of.into_iter().map(|i| names[i].to_string()).collect())
            })
            .collect();
        out.sort_by(|a, b| {
            let key = |c: &Cluster| {
                let s = &c.seen;
                (s.healthy.count > 0, std::cmp::Reverse(s.failed.count), s.healthy.count)
            };
            key(a)
                .cmp(&key(b))
                .then_with(|| place(a).cmp(&place(b)))
                .then_with(|| a.template.cmp(&b.template))
        });
        out
    }

    fn cluster(&self, template: String, shapes: Vec<String>) -> Cluster {
        let mut seen = Seen::default();
        let mut at_least = false;
        let mut most = [0u64; 3];
        for name in &shapes {
            let Some(s) = self.shapes.get(name) else { continue };
            for (most, jobs) in most.iter_mut().zip([&s.failed, &s.healthy, &s.unclear]) {
                *most = jobs.count.max(*most);
                at_least |= shapes.len() > 1 && jobs.count > NAMED as u64;
            }
            seen.merge(s.clone());
        }
        // A job that has two of the shapes counts once.
        if shapes.len() > 1 {
            for (most, jobs) in most.into_iter().zip([&mut seen.failed, &mut seen.healthy, &mut seen.unclear])
            {
                at_least |= jobs.some.len() >= NAMED;
                jobs.count = most.max(jobs.some.len() as u64);
            }
        }
        Cluster { template, shapes, seen, at_least }
    }
}

/// Where a cluster was seen first.
fn place(cluster: &Cluster) -> Option<(&str, &str, u64)> {
    cluster.seen.examples.first().map(|e| (e.job.as_str(), e.source.as_str(), e.line))
}

fn earlier(a: Option<String>, b: Option<String>) -> Option<String> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Keeps the first few.
fn first(examples: &mut Vec<Example>) {
    examples.sort();
    examples.dedup();
    examples.truncate(EXAMPLES);
}

/// Keeps those whose hash is smallest.
fn smallest<T>(shapes: &mut BTreeMap<String, T>, most: usize) {
    if shapes.len() <= most {
        return;
    }
    let mut order: Vec<(u64, &String)> = shapes.keys().map(|name| (hash(name), name)).collect();
    order.sort_unstable();
    let drop: Vec<String> = order.into_iter().skip(most).map(|(_, name)| name.clone()).collect();
    for name in drop {
        shapes.remove(&name);
    }
}

/// FNV-1a: the same in every release and on every machine, since stores are written down.
fn hash(text: &str) -> u64 {
    let h = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    h ^ (h >> 29)
}
