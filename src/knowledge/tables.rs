//! The tables: codes that programs print, environment variables, known bugs.

use serde::Deserialize;
use std::collections::BTreeMap;

/// A number or name that programs print, with its meaning.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Code {
    /// The number.
    pub code: i64,
    /// Its name.
    pub name: String,
    /// What it means.
    pub means: String,
    /// What to look for.
    #[serde(default)]
    pub look: String,
    /// Cause that it usually stands for.
    pub cause: Option<String>,
}

/// An environment variable.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Name.
    pub name: String,
    /// Who reads it: `nccl`, `rccl`, `torch`, `cuda`, `ofi`, `gloo`, `launcher`.
    pub reader: String,
    /// Default, as text.
    #[serde(default)]
    pub default: String,
    /// Values that are accepted, as text.
    #[serde(default)]
    pub values: String,
    /// Regular expression that a good value matches; empty: not checked.
    #[serde(default)]
    pub valid: String,
    /// First release that reads it.
    #[serde(default)]
    pub since: String,
    /// Last release that reads it; empty: still read.
    #[serde(default)]
    pub until: String,
    /// Whether all ranks must have the same value.
    #[serde(default)]
    pub same: bool,
    /// What it does.
    pub does: String,
    /// Its price or risk.
    #[serde(default)]
    pub risk: String,
    /// `legitimate`, `diagnosis`, `workaround`, `test`, `removed`.
    #[serde(default)]
    pub sort: String,
    /// What people use it for wrongly; shown by `explain` and where somebody has it set.
    #[serde(default)]
    pub folklore: String,
}

/// A known bug of a release.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bug {
    /// Who: `nccl`, `torch`, `driver`.
    pub of: String,
    /// Releases that have it, as a range.
    pub releases: String,
    /// What is wrong.
    pub fault: String,
    /// How it shows.
    pub shows: String,
    /// Release without it.
    #[serde(default)]
    pub fixed: String,
    /// What to do meanwhile.
    #[serde(default)]
    pub workaround: String,
    /// Cause under which it is reported.
    pub cause: String,
    /// Where it is described.
    #[serde(default)]
    pub source: String,
    /// Messages that show it; empty: cannot be told from the log.
    #[serde(default)]
    pub messages: Vec<String>,
}

/// A size, count or behaviour that NCCL's source fixes, for a range of releases.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// Name, by which the model asks for it.
    pub name: String,
    /// Bytes, a count, or 1 for something that is so.
    pub value: u64,
    /// NCCL releases that have it, as a range; all where empty.
    #[serde(default)]
    pub nccl: String,
    /// Architecture of the host that has it; all where empty.
    #[serde(default)]
    pub arch: String,
    /// Variable that sets it instead.
    #[serde(default)]
    pub variable: String,
    /// What the value is multiplied with.
    #[serde(default = "one")]
    pub times: u64,
    /// What it is.
    pub means: String,
    /// Place in NCCL's source.
    pub source: String,
}

fn one() -> u64 {
    1
}

/// Something that can be changed about NCCL's memory.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Short name.
    pub id: String,
    /// Variables to set.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// So many communicators less on each rank.
    #[serde(default)]
    pub fewer: u64,
    /// Whether it is told too where it frees nothing, since many believe that it does.
    #[serde(default)]
    pub told: bool,
    /// NCCL releases that it works for, as a range; all where empty.
    #[serde(default)]
    pub nccl: String,
    /// What it does.
    pub text: String,
    /// Its price.
    pub cost: String,
    /// How to see that it took effect.
    pub check: String,
}

/// All tables.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    /// NCCL result codes.
    pub results: Vec<Code>,
    /// RDMA completion status.
    pub wc: Vec<Code>,
    /// NVIDIA Xid.
    pub xid: Vec<Code>,
    /// Signals.
    pub signals: Vec<Code>,
    /// Exit codes.
    pub exits: Vec<Code>,
    /// CUDA error numbers.
    pub cuda: Vec<Code>,
    /// errno.
    pub errno: Vec<Code>,
    /// Environment variables.
    pub variables: Vec<Variable>,
    /// Known bugs.
    pub bugs: Vec<Bug>,
    /// What the model of NCCL's memory is made of; of several that fit the last one holds.
    pub constants: Vec<Constant>,
    /// What can be changed about NCCL's memory, in the order to try.
    pub changes: Vec<Change>,
}
