//! A message: one meaning, with its wordings by release.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Which lines a message is looked for in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Door {
    /// The text behind an NCCL header.
    Nccl,
    /// Any other line.
    Line,
    /// The last line of a Python traceback.
    Exception,
    /// `nccl` and `line`.
    Both,
}

/// NCCL level that the line must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A WARN.
    Warn,
    /// An INFO (or TRACE).
    Info,
    /// A line of the return-code trail.
    Trail,
    /// Whatever it is.
    #[default]
    Any,
}

/// What a line is in the chain of cause and effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Something went wrong here that explains others.
    First,
    /// This process suffers from what happened elsewhere.
    Victim,
    /// Says that something failed, not what.
    Symptom,
    /// Looks bad, means nothing.
    Harmless,
    /// No fault at all.
    #[default]
    Fact,
}

/// What happened, from a closed list: the job knows kinds, never message ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // each is explained in rules/README.md
pub enum Kind {
    #[default]
    Fact,
    Version,
    Rank,
    Comm,
    Setting,
    Route,
    Net,
    Waits,
    Absent,
    /// How far a rank has come in a group.
    Progress,
    /// A rank hands an operation over.
    Enters,
    Step,
    Fails,
    Exception,
    Ends,
    Killed,
    Device,
    JobStarts,
    Restarts,
    EndsWell,
    Cancelled,
}

/// How a field's text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum FieldType {
    Text,
    Int,
    Rank,
    Ranks,
    Addr,
    Host,
    Pid,
    Release,
    Result,
    WcStatus,
    Errno,
    Signal,
    Exit,
    Bytes,
    Magic,
    Bus,
}

/// One or several texts.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(crate) fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(s) => vec![s],
            Self::Many(v) => v,
        }
    }
}

use super::rule::Strength;

/// A message as it stands in its file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Unique, `source.area.what`.
    pub id: String,
    /// One sentence.
    pub about: String,
    /// Which lines.
    pub door: Door,
    /// NCCL level.
    #[serde(default)]
    pub level: Level,
    /// Role.
    #[serde(default)]
    pub role: Role,
    /// Kind.
    #[serde(default)]
    pub kind: Kind,
    /// The cause that the line suggests all by itself.
    pub cause: Option<String>,
    /// How strongly.
    #[serde(default = "strong")]
    pub weight: Strength,
    /// Fields with their types.
    #[serde(default)]
    pub fields: BTreeMap<String, FieldType>,
    /// Slot of the kind → field, or `=word` for a fixed word.
    #[serde(default)]
    pub slots: BTreeMap<String, String>,
    /// What two jobs are compared in: a field, or `=word` for that the line is there, and what that is called.
    #[serde(default)]
    pub compare: BTreeMap<String, String>,
    /// Printed thousands of times.
    #[serde(default)]
    pub bulk: bool,
    /// Only looked for near the ends of a source.
    #[serde(default)]
    pub edges: bool,
    /// Among messages that fit one line the higher wins.
    #[serde(default)]
    pub priority: i32,
    /// Given beside the message that won.
    #[serde(default)]
    pub also: bool,
    /// Wordings.
    #[serde(default, rename = "form")]
    pub forms: Vec<Form>,
}

fn strong() -> Strength {
    Strength::Strong
}

/// One wording.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    /// NCCL releases that print it.
    pub nccl: Option<String>,
    /// PyTorch releases that print it.
    pub torch: Option<String>,
    /// A text in every line of this form.
    pub has: Option<String>,
    /// A text that the line's text begins with.
    pub opens: Option<String>,
    /// The format as the program's source has it.
    pub printf: Option<String>,
    /// Names of the conversions of `printf`, in order; `-` for none.
    #[serde(default)]
    pub fields_in: Vec<String>,
    /// Regular expression on the text.
    pub pattern: Option<String>,
    /// Expressions that add fields from lines of the same speaker near by (eight lines before and after).
    #[serde(default)]
    pub near: Vec<String>,
    /// Lines that this form must take.
    sample: Option<OneOrMany>,
    /// What the first sample's fields must be.
    #[serde(default)]
    pub gives: BTreeMap<String, toml::Value>,
}

impl Form {
    /// The sample lines.
    #[must_use]
    pub fn samples(&self) -> Vec<String> {
        self.sample.clone().map(OneOrMany::into_vec).unwrap_or_default()
    }
}
