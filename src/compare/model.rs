//! The comparison as data: serializes to the documented JSON (`docs/diff.md`).

use crate::report::{Evidence, Verdict};
use serde::Serialize;

/// What differs between two jobs.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// `ncclcheck.diff/1`.
    pub schema: &'static str,
    /// One sentence.
    pub summary: String,
    /// The job that was good.
    pub good: Side,
    /// The job that was not.
    pub bad: Side,
    /// Most telling first.
    pub differences: Vec<Difference>,
    /// What is the same in both, in words.
    pub same: Vec<String>,
    /// What could not be compared, and why, one sentence each.
    pub not_compared: Vec<String>,
}

/// One of the two jobs.
#[derive(Debug, Clone, Serialize)]
pub struct Side {
    /// What was given, as it was given.
    pub name: String,
    /// What `diagnose` says of it.
    pub verdict: Verdict,
    /// Its first cause, where one was found.
    pub cause: Option<String>,
    /// The verdict in one sentence.
    pub summary: String,
    /// How it ended: `well`, `failed`, `killed`, `stuck`, `at work`, `not seen`.
    pub end: &'static str,
    /// Sources that were read.
    pub sources: usize,
    /// Lines that were read.
    pub lines: u64,
}

/// What a difference is about; in order of how telling it usually is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Section {
    /// An environment variable.
    Setting,
    /// The program, an argument of its command line, a limit that it runs under.
    Argument,
    /// A release of NCCL, PyTorch, CUDA, the driver or a plugin.
    Release,
    /// World size, hosts, GPUs.
    Size,
    /// Networks and interfaces that were chosen.
    Network,
    /// What NCCL set up: channels, GPUDirect, NVLS and the like.
    Setup,
    /// Transports between ranks.
    Transport,
    /// How the output was kept: in which files, with which marks, with which documents beside it.
    Logs,
    /// Warnings and exceptions.
    Message,
    /// How ranks and the run ended.
    End,
    /// How fast steps went.
    Speed,
}

impl Section {
    /// The heading of its part of the text.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Setting => "Variables",
            Self::Argument => "Program and limits",
            Self::Release => "Releases",
            Self::Size => "Ranks and hosts",
            Self::Network => "Networks and interfaces",
            Self::Setup => "What NCCL set up",
            Self::Transport => "Transports",
            Self::Logs => "How the output was kept",
            Self::Message => "Warnings and exceptions",
            Self::End => "How it ended",
            Self::Speed => "Speed",
        }
    }
}

/// In which way two jobs differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Both have it, with other values.
    Changed,
    /// Only the bad one has it, and the good one would show it.
    OnlyBad,
    /// Only the good one has it, and the bad one would show it.
    OnlyGood,
    /// Only one of them shows it, and it cannot be told whether the other has it too.
    NotShown,
}

/// One difference.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    /// What it is about.
    pub section: Section,
    /// Name of the variable, program, message …
    pub name: String,
    /// In which way.
    pub change: Change,
    /// Values in the good job, as they stand there; empty where it has none.
    pub good: Vec<String>,
    /// Values in the bad job.
    pub bad: Vec<String>,
    /// Ranks of the bad job that it is about, as ranges; empty where it is about all or the input does not tell.
    pub ranks: String,
    /// What else is to be said, or nothing.
    pub note: String,
    /// The line of the good job that shows it.
    pub good_line: Option<Evidence>,
    /// The line of the bad job that shows it.
    pub bad_line: Option<Evidence>,
}
