//! The whole way in one call: sources in, a report out, nothing printed, no
//! global state. Commands and other programs both come through here.

mod apart;
mod coverage;
mod memory;
mod particulars;
mod pipeline;

pub use coverage::Covered;

use crate::base::{Error, Result};
use crate::catalogue::{Catalogue, Pool, built_in};
use crate::compare::{self, Comparison};
use crate::input::Given;
use crate::job::{Job, SourceRead};
use crate::knowledge::{Fault, Knowledge, Place};
use crate::report::{Evidence, Report, Verdict};
use crate::rules::{self, Asks, Context};
use crate::settings::{self, Environment, Level, Releases, Remark};
use crate::templates::{self, Example, JobTemplates, Outcome};
use crate::text::Scanner;
use crate::verdict::{self, Ordered};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Shapes of lines that belong to something else, a set of `rules/sets.toml`.
const PARTS: &str = "@part-of-another";

/// How to read.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads; 0 takes all cores.
    pub threads: usize,
    /// Size of blocks in bytes.
    pub block: usize,
    /// Which attempt to diagnose, from 1; the last one where `None`.
    pub attempt: Option<usize>,
    /// Set from outside to stop reading and report on what came so far.
    pub interrupted: Arc<AtomicBool>,
}

impl Default for Options {
    fn default() -> Self {
        Self { threads: 0, block: 2 << 20, attempt: None, interrupted: Arc::default() }
    }
}

/// Loaded and compiled knowledge, ready to read jobs.
#[derive(Debug)]
pub struct Engine {
    /// What it knows.
    pub knowledge: Knowledge,
    /// The messages, compiled.
    pub catalogue: Catalogue,
    scanner: Scanner,
    learnt: Pool,
}

/// One line that was recognised, for `ncclcheck events`.
#[derive(Debug, Clone, serde::Serialize)]
pub struct EventLine {
    /// Path of the source.
    pub source: String,
    /// Line from 1.
    pub line: u64,
    /// Message id, or `unknown` for lines that look like trouble and that no message knows.
    pub message: String,
    /// Which wording, from 1 in the order of the file.
    pub form: usize,
    /// Role of the message.
    pub role: String,
    /// Kind of the message.
    pub kind: String,
    /// Who said it: prefix, `host:pid`, or the source.
    pub speaker: String,
    /// Rank, where known, and how.
    pub rank: Option<u32>,
    /// See `rank`.
    pub rank_by: Option<&'static str>,
    /// Host, where known.
    pub host: Option<String>,
    /// Time as far as the line gives it.
    pub time: Option<String>,
    /// Fields in order of name.
    pub fields: std::collections::BTreeMap<String, String>,
    /// How many lines this stands for.
    pub count: u64,
    /// The line as it stands there, secrets masked.
    pub text: String,
}

/// Why a rule fired or not, for `ncclcheck rules why`.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Why {
    /// Rule.
    pub id: String,
    /// Whether it is a finding.
    pub found: bool,
    /// Place among the diagnoses from 1, where it is one.
    pub rank: Option<usize>,
    /// What explains it, where something does.
    pub under: Option<String>,
    /// For each way in which the cause shows (the first is that of messages that suggest the cause by themselves):
    /// its conditions, each with what was found.
    pub ways: Vec<Way>,
}

/// One way of [`Why`].
#[derive(Debug, Clone, serde::Serialize)]
pub struct Way {
    /// Strength in words.
    pub strength: String,
    /// Whether all of it holds.
    pub holds: bool,
    /// What it asks for.
    pub conditions: Vec<Condition>,
}

/// One condition of a [`Way`].
#[derive(Debug, Clone, serde::Serialize)]
pub struct Condition {
    /// How it takes part.
    pub asks: Asks,
    /// What is looked for, as a part of a sentence.
    pub what: String,
    /// Whether that is there.
    pub met: bool,
    /// Up to three lines that show it.
    pub lines: Vec<Evidence>,
    /// How many there are in all.
    pub found: usize,
}

/// A line taken apart, for `ncclcheck explain 'LINE'`.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Taken {
    /// What stood before the text, in words (`launcher prefix: rank 3`, `NCCL header: host node1, process 12 …`).
    pub header: Vec<(String, String)>,
    /// Message id, or `None` when no message knows it.
    pub message: Option<String>,
    /// Fields: name, type, text.
    pub fields: Vec<(String, String, String)>,
}

/// Environments with what is to say about them, for `ncclcheck env`.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Checked {
    /// What was found in each text.
    pub environments: Vec<Environment>,
    /// What is to say, what matters most first.
    pub remarks: Vec<Remark>,
}

/// A job that was read, with the findings in their order.
struct Judged {
    job: Job,
    ordered: Vec<Ordered>,
    bugs: Vec<rules::Known>,
    problems: Vec<(String, String)>,
}

impl Engine {
    /// With the built-in knowledge and that of folders.
    ///
    /// # Errors
    /// When a file is wrong; the text lists all faults, one a line.
    pub fn new(folders: &[&Path]) -> Result<Self> {
        Self::strict(Self::lenient(folders))
    }

    /// With nothing but the knowledge of folders.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn of_folders(folders: &[&Path]) -> Result<Self> {
        Self::strict(Self::with(Knowledge::of_folders(folders)))
    }

    fn strict((engine, faults): (Self, Vec<Fault>)) -> Result<Self> {
        if faults.is_empty() {
            return Ok(engine);
        }
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        Err(Error::Knowledge(lines.join("\n")))
    }

    /// Like [`Engine::new`], with what could be loaded and the faults beside it.
    #[must_use]
    pub fn lenient(folders: &[&Path]) -> (Self, Vec<Fault>) {
        Self::with(Knowledge::with_folders(folders))
    }

    fn with((knowledge, faults): (Knowledge, Vec<Fault>)) -> (Self, Vec<Fault>) {
        let catalogue = Catalogue::new(&knowledge);
        let scanner = Scanner::new(&knowledge.anchors, catalogue.searches_info());
        (Self { knowledge, catalogue, scanner, learnt: Pool::default() }, faults)
    }

    /// What the sources say, put together.
    fn job(&self, sources: Vec<SourceRead>, options: &Options) -> Result<Job> {
        let job = Job::build(&self.catalogue, &self.knowledge, sources, options.attempt);
        let there = job.attempts.len().max(1);
        match options.attempt.filter(|wanted| *wanted > there) {
            Some(wanted) => Err(Error::NoSuchRun { wanted, there }),
            None => Ok(job),
        }
    }

    fn judge(&self, given: &[Given], options: &Options) -> Result<Judged> {
        let read = pipeline::read(self, given, options, false);
        something_was_read(&read.sources, &read.problems, given)?;
        let job = self.job(read.sources, options)?;
        let mut cx = Context::new(&job, &self.catalogue, &self.knowledge);
        let findings = rules::evaluate(&mut cx);
        let bugs = rules::known(&cx);
        let ordered = verdict::order(&self.knowledge, &self.catalogue, &job, findings);
        Ok(Judged { job, ordered, bugs, problems: read.problems })
    }

    /// Reads one job.
    ///
    /// # Errors
    /// When nothing could be read at all.
    pub fn diagnose(&self, given: &[Given], options: &Options) -> Result<Report> {
        let j = self.judge(given, options)?;
        Ok(verdict::build(&self.knowledge, &self.catalogue, &j.job, &j.ordered, &j.bugs, &j.problems))
    }

    /// Who waits for whom in one job.
    ///
    /// # Errors
    /// As [`Engine::diagnose`].
    pub fn waits(&self, given: &[Given], options: &Options) -> Result<crate::report::waits::Waits> {
        let j = self.judge(given, options)?;
        let report =
            verdict::build(&self.knowledge, &self.catalogue, &j.job, &j.ordered, &j.bugs, &j.problems);
        Ok(verdict::waits(&self.catalogue, &j.job, &report))
    }

    /// What is read from one job, in the order of sources and lines.
    ///
    /// # Errors
    /// As [`Engine::diagnose`].
    pub fn events(&self, given: &[Given], options: &Options, unknown: bool) -> Result<Vec<EventLine>> {
        let j = self.judge(given, options)?;
        let wanted = |id: &str| (id == built_in::UNKNOWN || id == built_in::UNKNOWN_WARN) == unknown;
        let lines = (0..j.job.events.len() as u32)
            .filter(|&e| wanted(&j.job.entry(&self.catalogue, e).id))
            .map(|e| self.event_line(&j.job, e));
        Ok(lines.collect())
    }

    /// What differs between two jobs; `names` are what the user calls them.
    ///
    /// # Errors
    /// As [`Engine::diagnose`], for either of them.
    pub fn compare(
        &self,
        good: &[Given],
        bad: &[Given],
        names: (String, String),
        options: &Options,
    ) -> Result<Comparison> {
        let profile = |given: &[Given], name: String| -> Result<compare::Profile> {
            let j = self.judge(given, options)?;
            let report =
                verdict::build(&self.knowledge, &self.catalogue, &j.job, &j.ordered, &j.bugs, &j.problems);
            Ok(compare::profile(&self.knowledge, &self.catalogue, &j.job, &report, name))
        };
        let good = profile(good, names.0)?;
        let bad = profile(bad, names.1)?;
        Ok(compare::compare(&self.knowledge, good, bad))
    }

    /// Lines of a job that look like trouble and that no message knows, by their shape.
    ///
    /// # Errors
    /// As [`Engine::diagnose`].
    pub fn unknown(&self, name: &str, given: &[Given], options: &Options) -> Result<JobTemplates> {
        Ok(self.diagnose_with_unknown(name, given, options)?.1)
    }

    /// [`Engine::diagnose`] and [`Engine::unknown`] of one reading.
    ///
    /// # Errors
    /// As [`Engine::diagnose`].
    pub fn diagnose_with_unknown(
        &self,
        name: &str,
        given: &[Given],
        options: &Options,
    ) -> Result<(Report, JobTemplates)> {
        let j = self.judge(given, options)?;
        let report =
            verdict::build(&self.knowledge, &self.catalogue, &j.job, &j.ordered, &j.bugs, &j.problems);
        let outcome = match report.verdict {
            Verdict::Healthy => Outcome::Healthy,
            Verdict::Fault => Outcome::Failed,
            Verdict::Inconclusive if !report.diagnoses.is_empty() => Outcome::Failed,
            Verdict::Inconclusive | Verdict::Degraded => Outcome::Unclear,
        };
        let mut out = JobTemplates::new(name.to_string(), outcome);
        for id in 0..j.job.events.len() as u32 {
            let message = &j.job.entry(&self.catalogue, id).id;
            if message != built_in::UNKNOWN && message != built_in::UNKNOWN_WARN {
                continue;
            }
            let line = verdict::evidence_of(&self.catalogue, &j.job, id);
            let shape = templates::shape(templates::body(&line.text));
            if templates::is_code(&line.text) || self.knowledge.covers(&[PARTS.to_string()], &shape) {
                continue;
            }
            let example = Example {
                job: name.to_string(),
                source: line.source,
                line: line.line,
                rank: line.rank,
                message: line.message,
                text: line.text,
            };
            out.add(shape, line.count, example);
        }
        Ok((report, out.done()))
    }

    fn event_line(&self, job: &Job, id: u32) -> EventLine {
        let evidence = verdict::evidence_of(&self.catalogue, job, id);
        let event = job.event(id);
        let entry = job.entry(&self.catalogue, id);
        let place = &job.events[id as usize];
        let speaker =
            place.process.map_or_else(|| evidence.source.clone(), |p| job.processes[p as usize].name.clone());
        EventLine {
            source: evidence.source,
            line: evidence.line,
            message: entry.id.clone(),
            form: usize::from(event.form) + 1,
            role: word(&entry.role),
            kind: word(&entry.kind),
            speaker,
            rank: evidence.rank,
            rank_by: evidence.rank_by,
            host: evidence.host,
            time: evidence.time_text,
            fields: event
                .fields
                .iter()
                .map(|(f, v)| (self.catalogue.fields[usize::from(*f)].clone(), v.to_string()))
                .collect(),
            count: evidence.count,
            text: evidence.text,
        }
    }

    /// Why a rule fired or not.
    ///
    /// # Errors
    /// As [`Engine::diagnose`]; `Ok(None)` when there is no such rule.
    pub fn why(&self, id: &str, given: &[Given], options: &Options) -> Result<Option<Why>> {
        let Some(at) = self.knowledge.rules.iter().position(|(r, _)| r.id == id) else { return Ok(None) };
        let j = self.judge(given, options)?;
        let mut cx = Context::new(&j.job, &self.catalogue, &self.knowledge);
        cx.explained = self.explained(&j.ordered);
        let ways = rules::ways(&cx, &self.knowledge.rules[at].0)
            .into_iter()
            .map(|w| Way {
                strength: word(&w.strength),
                holds: w.holds,
                conditions: w
                    .conditions
                    .into_iter()
                    .map(|c| Condition {
                        asks: c.asks,
                        what: c.what,
                        met: c.met,
                        lines: self.lines(&j.job, &c.events),
                        found: c.events.len(),
                    })
                    .collect(),
            })
            .collect();
        let found = j.ordered.iter().position(|o| o.finding.rule == at);
        let name = |i: usize| self.knowledge.rules[j.ordered[i].finding.rule].0.id.clone();
        Ok(Some(Why {
            id: id.to_string(),
            found: found.is_some(),
            rank: found.filter(|&f| j.ordered[f].under.is_none()).map(|f| f + 1),
            under: found.and_then(|f| j.ordered[f].under).map(name),
            ways,
        }))
    }

    /// Whether anything but a fallback was found.
    fn explained(&self, ordered: &[Ordered]) -> bool {
        ordered
            .iter()
            .any(|o| o.under.is_none() && self.knowledge.rules[o.finding.rule].0.place != Place::Fallback)
    }

    fn lines(&self, job: &Job, events: &[u32]) -> Vec<Evidence> {
        events.iter().take(3).map(|&e| verdict::evidence_of(&self.catalogue, job, e)).collect()
    }

    /// Checks environments: each for itself, and several against each other. `texts` are names with contents; what one
    /// describes (containers, steps) are environments of their own.
    #[must_use]
    pub fn check_texts(&self, texts: &[(String, String)], releases: Releases) -> Checked {
        let mut checked = Checked::default();
        for (name, text) in texts {
            let (environments, remarks) = settings::read(&self.knowledge, name, text);
            checked.environments.extend(environments);
            checked.remarks.extend(remarks);
        }
        self.judge_environments(&mut checked, releases);
        checked
    }

    /// Checks one environment that is known already.
    #[must_use]
    pub fn check_environment(&self, environment: Environment, releases: Releases) -> Checked {
        let mut checked = Checked { environments: vec![environment], remarks: Vec::new() };
        self.judge_environments(&mut checked, releases);
        checked
    }

    fn judge_environments(&self, checked: &mut Checked, releases: Releases) {
        for env in &checked.environments {
            checked.remarks.extend(settings::check(&self.knowledge, env, releases));
        }
        checked.remarks.extend(settings::compare(&self.knowledge, &checked.environments));
        checked.remarks.sort_by(|a, b| {
            (a.level, &a.source, a.line, &a.kind, &a.name)
                .cmp(&(b.level, &b.source, b.line, &b.kind, &b.name))
        });
        // A price is said once, however many environments pay it.
        let mut said = std::collections::BTreeSet::new();
        checked.remarks.retain(|r| {
            let place = (r.level != Level::Note).then(|| (r.source.clone(), r.line));
            said.insert((r.kind.clone(), r.name.clone(), r.say.clone(), place))
        });
    }

    /// Takes one line apart.
    #[must_use]
    pub fn take_apart(&self, line: &str) -> Taken {
        apart::take(&self.catalogue, line)
    }

    /// All faults of the knowledge: samples, anchors, rules.
    #[must_use]
    pub fn check(&self) -> Vec<Fault> {
        let mut faults = self.catalogue.check(&self.knowledge);
        faults.extend(rules::check(&self.knowledge, &self.catalogue));
        if self.knowledge.anchors.len() > 64 {
            let what = format!(
                "{} anchors; those beyond 64 go into a second, slower search",
                self.knowledge.anchors.len()
            );
            faults.push(Fault { file: "anchors.toml".into(), line: None, what });
        }
        faults.sort();
        faults
    }

    /// Runs the tests in the rule files, all or those of one id: name and, where it failed, why.
    #[must_use]
    pub fn test(&self, id: Option<&str>) -> Vec<(String, Option<String>)> {
        let mut out = Vec::new();
        for (rule, _) in &self.knowledge.rules {
            if id.is_some_and(|i| i != rule.id) {
                continue;
            }
            for test in &rule.tests {
                out.push((format!("{}: {}", rule.id, test.name), self.run_test(&rule.id, test)));
            }
        }
        out
    }

    fn run_test(&self, id: &str, test: &crate::knowledge::RuleTest) -> Option<String> {
        let report = match self.diagnose(&given_of(test), &Options { threads: 1, ..Options::default() }) {
            Ok(r) => r,
            Err(e) => return Some(e.to_string()),
        };
        let expect = &test.expect;
        // What is told as a notice only is found too.
        let notices = report.notices.iter().filter(|n| expect.finding && n.cause == id);
        let all: Vec<_> = report.diagnoses.iter().chain(notices).collect();
        let got: Vec<&str> = all.iter().map(|d| d.cause.as_str()).collect();
        let at = all.iter().position(|d| d.cause == id);
        if at.is_some() != expect.finding {
            return Some(format!("expected finding = {}, got {got:?}", expect.finding));
        }
        let d = all[at?];
        if expect.first == Some(true) && at != Some(0) {
            return Some(format!("is not the first: {got:?}"));
        }
        if let Some(ranks) = &expect.ranks
            && *ranks != d.culprits.ranks
        {
            return Some(format!("culprit ranks are {:?}", d.culprits.ranks));
        }
        if let Some(hosts) = &expect.hosts
            && *hosts != d.culprits.hosts
        {
            return Some(format!("culprit hosts are {:?}", d.culprits.hosts));
        }
        None
    }
}

/// The files of a test in a rule file.
fn given_of(test: &crate::knowledge::RuleTest) -> Vec<Given> {
    let files = test.input.iter();
    files.map(|(name, text)| Given::Bytes { name: name.clone(), data: text.clone().into_bytes() }).collect()
}

/// Whether there is anything to look at.
fn something_was_read(sources: &[SourceRead], problems: &[(String, String)], given: &[Given]) -> Result<()> {
    if sources.is_empty() {
        let what: Vec<String> = problems.iter().map(|(p, w)| format!("{p}: {w}")).collect();
        return Err(Error::NoInput(if what.is_empty() { empty(given) } else { what.join("; ") }));
    }
    if sources.iter().all(|s| s.bytes == 0 && !s.problems.is_empty()) {
        let what: Vec<String> =
            sources.iter().map(|s| format!("{}: {}", s.name, s.problems.join(", "))).collect();
        return Err(Error::NoInput(what.join("; ")));
    }
    Ok(())
}

/// Nothing was found and nothing was wrong: folders without a file.
fn empty(given: &[Given]) -> String {
    let folders: Vec<String> = given
        .iter()
        .filter_map(|g| match g {
            Given::Path(path) => Some(format!("{}: no files in it", path.display())),
            _ => None,
        })
        .collect();
    if folders.is_empty() { "no input".into() } else { folders.join("; ") }
}

/// A name of a closed list as the rule files write it: `EndsWell` is `ends-well`.
fn word(value: &impl std::fmt::Debug) -> String {
    let mut out = String::new();
    for c in format!("{value:?}").chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
