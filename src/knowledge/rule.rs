//! A rule: which combination of messages proves a cause, and what to do.

use super::message::OneOrMany;
use serde::Deserialize;
use std::collections::BTreeMap;

/// How strongly something speaks for a cause. The engine turns the words into odds, in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strength {
    /// One reading among several.
    Weak,
    /// Usually this.
    Strong,
    /// Hardly anything else prints or shows this.
    Decisive,
}

/// Where in the chain of cause and effect a rule stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Nothing in this program's sight lies before it.
    Root,
    /// An operation failed here, maybe because of a root elsewhere.
    Local,
    /// Only ever a consequence.
    Victim,
    /// The `unknown/…` causes.
    Fallback,
}

/// A rule as it stands in its file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Format of the file, 1.
    pub schema: u32,
    /// Path of the file below `rules/` without `.toml`.
    pub id: String,
    /// One line; `{field}` of the first evidence, `{ranks}`, `{hosts}`, `{peer}`.
    pub title: String,
    /// `fatal` or `degraded`.
    pub severity: String,
    /// Where in the chain.
    pub place: Place,
    /// What happened, for people.
    pub explain: String,
    /// What it is taken for.
    #[serde(default)]
    pub mistaken: String,
    /// Pages that say more.
    #[serde(default)]
    pub references: Vec<String>,
    /// Ways in which it shows.
    #[serde(default, rename = "when")]
    pub whens: Vec<When>,
    /// What follows from it.
    #[serde(default)]
    pub explains: Vec<Explains>,
    /// What to do.
    #[serde(default, rename = "fix")]
    pub fixes: Vec<Fix>,
    /// Tests.
    #[serde(default, rename = "test")]
    pub tests: Vec<RuleTest>,
}

/// One way in which a cause shows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// How strongly it speaks.
    pub strength: Strength,
    /// All of these.
    #[serde(default)]
    pub need: Vec<Cond>,
    /// At least one of these, when there are any.
    #[serde(default)]
    pub any: Vec<Cond>,
    /// None of these.
    #[serde(default)]
    pub not: Vec<Cond>,
    /// Who is to blame.
    #[serde(default = "subject")]
    pub culprit: String,
    /// Reasoning for this way.
    #[serde(default)]
    pub say: String,
}

fn subject() -> String {
    "subject".into()
}

/// One condition. Which keys are given decides what it asks for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cond {
    /// Message ids, `*` at the end allowed.
    message: Option<OneOrMany>,
    /// Any event of this role.
    pub role: Option<super::Role>,
    /// Any event of this kind.
    pub kind: Option<super::Kind>,
    /// Field conditions.
    #[serde(default, rename = "where")]
    pub fields: BTreeMap<String, toml::Value>,
    /// `process`, `host` or `job`, relative to the first condition.
    pub on: Option<String>,
    /// At least so many events.
    pub count: Option<u64>,
    /// Of at least so many ranks.
    pub ranks: Option<usize>,
    /// Later, by the same speaker, than an event of this message.
    after: Option<OneOrMany>,
    /// Earlier, by the same speaker, than an event of this message.
    before: Option<OneOrMany>,
    /// How a process ended.
    pub ended: Option<String>,
    /// With this signal.
    pub signal: Option<i64>,
    /// With this exit code.
    pub exit: Option<i64>,
    /// A variable.
    pub env: Option<String>,
    /// Its values.
    #[serde(default)]
    value: Option<OneOrMany>,
    /// Whether it is set at all.
    pub set: Option<bool>,
    /// Whether ranks differ in it.
    pub differs: Option<bool>,
    /// The NCCL release is known and in this range.
    pub nccl: Option<String>,
    /// The PyTorch release is known and in this range.
    pub torch: Option<String>,
    /// The job's end.
    state: Option<OneOrMany>,
    /// A named detector.
    pub detector: Option<String>,
    /// What the detector shall look at.
    pub what: Option<String>,
}

/// What a condition asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Match {
    Events,
    Ended,
    Env,
    Release,
    State,
    Detector,
}

macro_rules! lists {
    ($($name:ident),*) => { $(
        /// The texts given for this key.
        #[must_use]
        pub fn $name(&self) -> Vec<String> {
            self.$name.clone().map(OneOrMany::into_vec).unwrap_or_default()
        }
    )* };
}

impl Cond {
    lists!(message, after, before, value, state);

    /// What it asks for.
    #[must_use]
    pub fn asks(&self) -> Match {
        if self.detector.is_some() {
            Match::Detector
        } else if self.message.is_some() || self.role.is_some() || self.kind.is_some() {
            Match::Events
        } else if self.ended.is_some() {
            Match::Ended
        } else if self.env.is_some() {
            Match::Env
        } else if self.state.is_some() {
            Match::State
        } else {
            Match::Release
        }
    }
}

/// What follows from a cause.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explains {
    /// Ids of findings, sets (`@victims`), `*` at the end allowed.
    pub what: Vec<String>,
    /// `process`, `host`, `peer`, `job`.
    #[serde(default = "job")]
    pub scope: String,
}

fn job() -> String {
    "job".into()
}

/// Something to do.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fix {
    /// `fix`, `workaround` or `diagnostic`.
    pub intent: String,
    /// What to do.
    pub text: String,
    /// Variables to set.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// So many communicators less on each rank, for what `{freed}` stands for.
    #[serde(default)]
    pub fewer: u64,
    /// Only for these NCCL releases.
    pub nccl: Option<String>,
    /// Only for these PyTorch releases.
    pub torch: Option<String>,
    /// Its price.
    #[serde(default)]
    pub cost: String,
    /// How to see that it helped.
    #[serde(default)]
    pub verify: String,
}

impl Fix {
    /// What to do, without the places for what only a job tells.
    #[must_use]
    pub fn general_text(&self) -> String {
        self.text.replace("{freed!}", "").replace("{freed}", "")
    }
}

/// A test in a rule file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleTest {
    /// Says the behaviour.
    pub name: String,
    /// What must come out.
    pub expect: Expect,
    /// File name → content.
    #[serde(default)]
    pub input: BTreeMap<String, String>,
}

/// What must come out of a test.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Whether this rule is among the diagnoses, or told as a notice.
    pub finding: bool,
    /// Whether it is the first.
    pub first: Option<bool>,
    /// Its culprit ranks.
    pub ranks: Option<Vec<u32>>,
    /// Its culprit hosts.
    pub hosts: Option<Vec<String>>,
}
