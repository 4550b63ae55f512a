//! Environment variables before and after a job: what a file, a script, a
//! manifest or the job's own log sets, and what is wrong with it. Knows the
//! tables and no job; `rules` and `verdict` ask it about the settings that a
//! log shows, `ncclcheck env` about what a person is about to start with.

mod check;
mod compare;
mod meaning;
mod near;
mod read;

pub use check::{Releases, check, combinations, is_foreign, value_fault};
pub use compare::compare;
pub use meaning::meaning;
pub use near::{Near, nearest};
pub use read::{Format, read};

pub use crate::knowledge::Weight as Level;
use serde::Serialize;

/// A variable that somebody sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Assignment {
    /// Name.
    pub name: String,
    /// Value; `None` where only the running shell knows it (`$X`, `$(…)`, a reference to a secret).
    pub value: Option<String>,
    /// Line from 1; 0 where there are no lines.
    pub line: usize,
}

/// What one process, container or file sets. A later assignment of a name wins.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Environment {
    /// File, or what else it comes from.
    pub source: String,
    /// Which part of the source, where it has several (`env of line 12`); else empty.
    pub part: String,
    /// All assignments, in order.
    pub variables: Vec<Assignment>,
    /// Whose it is.
    #[serde(skip)]
    pub role: Role,
    /// Whether more may be set in a place that is not given (a ConfigMap, a file that a script reads), so that what is
    /// missing here says nothing.
    #[serde(skip)]
    pub open: bool,
}

/// Whose environment it is, as far as the text tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Role {
    /// A rank's, or what may be one's.
    #[default]
    Rank,
    /// That of a container in a pod.
    Container {
        /// Containers of different jobs are not held against each other.
        job: usize,
        /// Number of the pod in its file.
        pod: usize,
        /// Name of the container.
        name: String,
        /// Whether the pod has no other.
        alone: bool,
    },
    /// Nobody's of whom ranks could differ: a ConfigMap, an init container, a block of unknown use.
    Other,
}

impl Environment {
    /// The assignment of a name that counts: the last.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Assignment> {
        self.variables.iter().rev().find(|a| a.name == name)
    }

    /// The value of a name, where it is set and known.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.get(name)?.value.as_deref()
    }

    /// `file`, or `file (part)`.
    #[must_use]
    pub fn label(&self) -> String {
        if self.part.is_empty() { self.source.clone() } else { format!("{} ({})", self.source, self.part) }
    }
}

/// Something to say about a setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Remark {
    /// How much it matters.
    pub level: Level,
    /// Kind: `unknown-name`, `not-read`, `unreadable`, `outside`, `contradiction`, `leftover`, `differs`, `not-passed`,
    /// `manifest`, `price`.
    pub kind: String,
    /// The variable.
    pub name: String,
    /// Its value, where known.
    pub value: Option<String>,
    /// Where it is set.
    pub source: String,
    /// Line from 1; 0 where there is none.
    pub line: usize,
    /// What is to say, in one or two sentences.
    pub say: String,
    /// What to write in its place, where that is clear (`NAME=value`, or a name).
    pub instead: Option<String>,
}

/// Beginnings of names that a job's programs read and that are worth keeping.
const READ: [&str; 8] =
    ["NCCL_", "RCCL_", "TORCH_NCCL_", "TORCH_FR_", "TORCHELASTIC_", "GLOO_", "OFI_NCCL_", "MSCCL"];

/// Whether a name is worth keeping: known, of a known beginning, or a near miss of one.
fn wanted(known: &crate::knowledge::Knowledge, name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    READ.iter().any(|r| upper.starts_with(r))
        || known.tables.variables.iter().any(|v| v.name == name)
        || near::misspelt_beginning(&upper)
}
