//! The tables: codes that programs print, environment variables, known bugs.

use super::rule::Cond;
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
    /// Whether it is a list whose order means nothing.
    #[serde(default)]
    pub unordered: bool,
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

impl Variable {
    /// Whether it is read as a number, as C's `strtol` does: then a word is 0 and what follows the digits is ignored.
    #[must_use]
    pub fn is_number(&self) -> bool {
        // Good values are numbers only, and NCCL has no other way to read those.
        let letters = self.valid.replace("0[xX][0-9a-fA-F]", "").replace("\\d", "");
        matches!(self.reader.as_str(), "nccl" | "rccl")
            && !self.valid.is_empty()
            && !letters.bytes().any(|b| b.is_ascii_alphabetic())
    }
}

/// How much a remark on a setting matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// It does not do what was meant.
    Wrong,
    /// It works and can do harm, or contradicts another setting.
    Beware,
    /// A price to know, or a remark; never a fault.
    Note,
}

/// A combination of settings about which something is to say. All that is given must hold.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// How much it matters.
    pub level: Weight,
    /// `contradiction`, `leftover`, `outside` or `price`.
    pub kind: String,
    /// Name → regular expression that its value matches.
    #[serde(default)]
    pub when: BTreeMap<String, String>,
    /// At least one of these is set.
    #[serde(default)]
    pub any: Vec<String>,
    /// None of these is set.
    #[serde(default)]
    pub unset: Vec<String>,
    /// The first of two numbers is less than the second.
    #[serde(default)]
    pub less: Vec<String>,
    /// The first of two numbers is not less than the second.
    #[serde(default)]
    pub not_less: Vec<String>,
    /// The product of two numbers is above `above`.
    #[serde(default)]
    pub product: Vec<String>,
    /// See `product`.
    #[serde(default)]
    pub above: i64,
    /// Only for these NCCL releases, and only where the release is known.
    pub nccl: Option<String>,
    /// Only for these PyTorch releases, and only where the release is known.
    pub torch: Option<String>,
    /// The variable that the remark is about; the first of the others unless given.
    pub about: Option<String>,
    /// What is to say; `{any}` is the one of `any` that is set.
    pub say: String,
    /// What to write in its place.
    pub instead: Option<String>,
    /// Settings on which it fires; with any one of them missing it does not. A test.
    pub fires: BTreeMap<String, String>,
    /// Settings that come near and are fine. A test.
    pub calm: BTreeMap<String, String>,
}

/// What makes a line look like trouble that no message knows.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trouble {
    /// Any of these stands in it.
    #[serde(default)]
    pub looks: Vec<String>,
    /// None of these does.
    #[serde(default)]
    pub fine: Vec<String>,
    /// Words of loggers' levels, in capitals.
    #[serde(default)]
    pub levels: Vec<String>,
}

/// Names that NCCL itself does not read and others do.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Foreign {
    /// Names, `*` at the end allowed.
    pub names: Vec<String>,
    /// Who reads them.
    pub reader: String,
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
    /// What shows it besides the release, all of these; empty: the log cannot tell.
    #[serde(default)]
    pub need: Vec<Cond>,
    /// At least one of these, when there are any.
    #[serde(default)]
    pub any: Vec<Cond>,
    /// Causes of diagnoses that it is told with; `cause`, `version/nccl-bug` and `unknown/*` unless given.
    #[serde(default)]
    pub causes: Vec<String>,
    /// Lines that show it, with `{release}` for a release of the range. A test.
    #[serde(default)]
    pub sample: String,
}

impl Bug {
    /// Patterns of the causes that it is told with.
    #[must_use]
    pub fn told_with(&self) -> Vec<String> {
        if !self.causes.is_empty() {
            return self.causes.clone();
        }
        vec![self.cause.clone(), "version/nccl-bug".into(), "unknown/*".into()]
    }
}

/// How a name tells which job a file belongs to, for scans of archives.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// What is told.
    pub kind: LayoutKind,
    /// Where it holds.
    #[serde(default)]
    pub on: LayoutOn,
    /// In words, for `--dry-run`.
    pub about: String,
    /// Regular expression; its group `id` is the id where the kind has one.
    pub pattern: String,
    /// Names, each with what must come out.
    #[serde(default)]
    pub sample: std::collections::BTreeMap<String, String>,
}

/// What a layout tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayoutKind {
    /// It is no log.
    Skip,
    /// An ending to be taken off.
    Ending,
    /// A part of a file that was rotated away.
    Turn,
    /// Whose part of a job it is; taken out of the name.
    Part,
    /// The job's id.
    Job,
    /// Something that tells this name from others of its kind.
    Loose,
    /// A folder that holds jobs.
    Holder,
    /// A word for a stream of a job; taken out of the name.
    Stream,
    /// Another word that says what a file holds; taken out of the name.
    Word,
    /// The first lines name a communicator.
    SaysComm,
    /// The first lines name the job.
    SaysJob,
    /// The first lines name the address where ranks meet.
    SaysAddress,
    /// The first lines tell how many ranks there are.
    SaysWorld,
    /// The first lines tell a rank.
    SaysRank,
    /// The first lines are those of a training or of what starts one, not of something that looks on.
    SaysProgram,
}

/// Where a layout holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayoutOn {
    /// Files and folders.
    #[default]
    Both,
    /// Folders only.
    Folder,
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
    /// Combinations of settings.
    pub settings: Vec<Setting>,
    /// Names of others.
    pub foreign: Vec<Foreign>,
    /// Layouts of archives.
    pub layouts: Vec<Layout>,
    /// What the model of NCCL's memory is made of; of several that fit the last one holds.
    pub constants: Vec<Constant>,
    /// What can be changed about NCCL's memory, in the order to try.
    pub changes: Vec<Change>,
    /// What makes a line look like trouble.
    pub trouble: Trouble,
}
