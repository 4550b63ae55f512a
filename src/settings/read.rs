//! From a text to what it sets. What kind of text it is, its content says:
//! JSON (docker inspect, a manifest), YAML (a manifest, a compose file), or a
//! shell script or listing. No form is run or expanded; a value that only the
//! running shell knows stays unknown.

mod flow;
mod json;
mod manifest;
mod shell;
mod words;

use super::{Assignment, Environment, Remark, wanted};
use crate::knowledge::Knowledge;

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `NAME=value` lines: the output of `env`, a `.env` file, `nccl.conf`.
    List,
    /// A shell script, with or without `#SBATCH` lines.
    Script,
    /// YAML: a Kubernetes manifest, a compose file, a Ray or SkyPilot job.
    Manifest,
    /// JSON: `docker inspect`, a manifest.
    Json,
}

impl Format {
    /// By its content; the name only decides where the content does not.
    #[must_use]
    pub fn of(name: &str, text: &str) -> Self {
        let start = text.trim_start_matches('\u{feff}').trim_start();
        if (start.starts_with('{') || start.starts_with('['))
            && serde_json::from_str::<serde::de::IgnoredAny>(start).is_ok()
        {
            return Self::Json;
        }
        let lines = || text.lines().map(str::trim);
        if start.starts_with("#!")
            || lines().any(|l| ["#SBATCH", "#PBS", "#BSUB"].iter().any(|d| l.starts_with(d)))
        {
            return Self::Script;
        }
        let ends = |e: &str| name.to_ascii_lowercase().ends_with(e);
        let yaml = lines().any(|l| l.starts_with("apiVersion:") || l == "env:" || l == "environment:")
            || lines().any(|l| l == "env_vars:" || l.starts_with("env_vars: {"))
            || ends(".yaml")
            || ends(".yml");
        if yaml { Self::Manifest } else { Self::List }
    }
}

/// What a text sets, one environment for each process or container that it describes, and what is wrong with the way
/// in which it sets them. Only variables that a distributed GPU job knows are kept.
#[must_use]
pub fn read(known: &Knowledge, name: &str, text: &str) -> (Vec<Environment>, Vec<Remark>) {
    let text = text.trim_start_matches('\u{feff}');
    let (mut all, mut remarks) = match Format::of(name, text) {
        Format::Json => (json::read(name, text), Vec::new()),
        Format::Manifest => manifest::read(name, text),
        Format::Script => shell::read(name, text, true),
        Format::List => shell::read(name, text, false),
    };
    for env in &mut all {
        env.variables.iter_mut().for_each(inside);
        env.variables.retain(|a| wanted(known, &a.name));
    }
    all.retain(|e| !e.variables.is_empty());
    remarks.retain(|r| wanted(known, &r.name));
    (all, remarks)
}

/// `SINGULARITYENV_X` is `X` inside the container.
fn inside(a: &mut Assignment) {
    for before in ["SINGULARITYENV_", "APPTAINERENV_"] {
        if let Some(name) = a.name.strip_prefix(before) {
            a.name = name.to_string();
        }
    }
}

/// Whether a text is a name that a variable may have.
fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// A text without the quotes round it.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    for q in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(q).and_then(|t| t.strip_suffix(q)) {
            return inner;
        }
    }
    text
}
