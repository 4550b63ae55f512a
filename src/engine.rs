//! The whole way in one call: sources in, a report out, nothing printed, no
//! global state. Commands and other programs both come through here.

use crate::base::Result;
use crate::input::Given;
use crate::knowledge::{Fault, Knowledge};
use crate::report::Report;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
        Self { threads: 0, block: 1 << 20, attempt: None, interrupted: Arc::default() }
    }
}

/// Loaded and compiled knowledge, ready to read jobs.
#[derive(Debug)]
pub struct Engine {
    /// What it knows.
    pub knowledge: Knowledge,
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
    /// Each condition in words, whether it holds, and up to three lines (`source:line: text`).
    pub conditions: Vec<(String, bool, Vec<String>)>,
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

impl Engine {
    /// With the built-in knowledge and that of folders.
    ///
    /// # Errors
    /// When a file is wrong; the text lists all faults, one a line.
    pub fn new(folders: &[&Path]) -> Result<Self> {
        let (knowledge, faults) = Knowledge::with_folders(folders);
        let _: &[Fault] = &faults;
        Ok(Self { knowledge })
    }

    /// Reads one job.
    ///
    /// # Errors
    /// When nothing could be read at all.
    pub fn diagnose(&self, _given: &[Given], _options: &Options) -> Result<Report> {
        Err(crate::base::Error::NoInput("not built yet".into()))
    }

    /// What is read from one job, in the order of sources and lines.
    ///
    /// # Errors
    /// As [`Engine::diagnose`].
    pub fn events(&self, _given: &[Given], _options: &Options, _unknown: bool) -> Result<Vec<EventLine>> {
        Ok(Vec::new())
    }

    /// Why a rule fired or not.
    ///
    /// # Errors
    /// As [`Engine::diagnose`]; `Ok(None)` when there is no such rule.
    pub fn why(&self, _id: &str, _given: &[Given], _options: &Options) -> Result<Option<Why>> {
        Ok(None)
    }

    /// Takes one line apart.
    #[must_use]
    pub fn take_apart(&self, _line: &str) -> Taken {
        Taken { header: Vec::new(), message: None, fields: Vec::new() }
    }

    /// All faults of the knowledge: files, samples, anchors, circles.
    #[must_use]
    pub fn check(&self) -> Vec<Fault> {
        Vec::new()
    }

    /// Runs the tests in the rule files, all or those of one id: name and, where it failed, why.
    #[must_use]
    pub fn test(&self, _id: Option<&str>) -> Vec<(String, Option<String>)> {
        Vec::new()
    }
}
