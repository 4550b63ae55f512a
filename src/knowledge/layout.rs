//! How names of files and folders tell jobs apart (`tables/layouts.toml`).

use serde::Deserialize;

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
