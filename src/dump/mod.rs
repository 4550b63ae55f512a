//! Whole documents that are no line logs, read into typed values: Flight
//! Recorder dumps (`recorder`, over the readers in `pickle` and `json`), RAS
//! answers (`ras`), py-spy stacks and error files (`stacks`). Found by content,
//! never by name. Nothing is executed; a damaged document is read as far as it
//! goes. What the values mean together is for the job room to say.

use std::fmt;
use std::sync::Arc;

mod json;
mod pickle;
mod ras;
mod recorder;
mod stacks;
mod stacks_text;
mod tree;

#[cfg(test)]
pub(crate) mod make;
#[cfg(test)]
mod tests;

pub use ras::{Ras, RasComm, RasLaunched, RasMissing, RasRank};
pub use recorder::{Call, Entry, FlightRecorder, GroupConfig, GroupRef, GroupStatus, State};
pub use stacks::{ErrorFile, Process, Thread};

/// One document.
#[derive(Debug, Clone, PartialEq)]
pub enum Dump {
    /// PyTorch's record of the last operations of one process.
    FlightRecorder(FlightRecorder),
    /// NCCL's answer about the running job.
    Ras(Ras),
    /// torchelastic's record of a worker's exception.
    ErrorFile(ErrorFile),
    /// Stacks of processes.
    Stacks(Vec<Process>),
}

/// Why a document was not read to its end, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage(pub String);

/// One line of a Python stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Function.
    pub name: Arc<str>,
    /// Path of the file.
    pub file: Arc<str>,
    /// Line, 0 when not known.
    pub line: u32,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}:{})", self.name, self.file, self.line)
    }
}

/// Larger documents than this are read no further.
const MAX_BYTES: usize = 1 << 30;

/// Reads a document; `None` when it is none that is known. The name serves no
/// purpose but to tell apart what the content cannot.
#[must_use]
pub fn read(bytes: &[u8], name: &str) -> Option<(Dump, Vec<Damage>)> {
    let mut damage = Vec::new();
    let bytes = if bytes.len() > MAX_BYTES {
        damage
            .push(Damage(format!("larger than {}; the rest is not read", crate::base::bytes_text(1 << 30))));
        &bytes[..MAX_BYTES]
    } else {
        bytes
    };
    let dump = if pickle::looks_like(bytes) {
        from_pickle(bytes, &mut damage)
    } else {
        let start = bytes.iter().position(|b| !b.is_ascii_whitespace())?;
        match bytes[start] {
            b'{' => from_json(&bytes[start..], name, &mut damage),
            b'[' => from_json(&bytes[start..], name, &mut damage).or_else(|| from_text(&bytes[start..])),
            _ => from_text(&bytes[start..]),
        }
    };
    dump.map(|dump| (dump, damage))
}

fn from_pickle(bytes: &[u8], damage: &mut Vec<Damage>) -> Option<Dump> {
    let (tree, root, end) = pickle::read(bytes);
    match end {
        pickle::End::Refused(what) => {
            damage.push(Damage(format!(
                "hostile: asks to import or call {what}; refused, nothing of it is used"
            )));
            return Some(Dump::FlightRecorder(FlightRecorder { cut: true, ..FlightRecorder::default() }));
        }
        pickle::End::Broken(why) => damage.push(Damage(why)),
        pickle::End::Whole => {}
    }
    let cut = !damage.is_empty();
    let mut recorder = recorder::build(&tree, root, damage)?;
    recorder.cut = cut;
    Some(Dump::FlightRecorder(recorder))
}

/// Texts that one of the known documents has near its beginning.
const MARKS: [&str; 8] = [
    "\"entries\"",
    "\"pg_config\"",
    "\"profiling_name\"",
    "\"communicators\"",
    "\"nccl_version\"",
    "\"comm_lib_version\"",
    "\"message\"",
    "\"thread_id\"",
];

fn from_json(bytes: &[u8], name: &str, damage: &mut Vec<Damage>) -> Option<Dump> {
    let head = &bytes[..bytes.len().min(1 << 16)];
    MARKS.iter().find(|m| memchr::memmem::find(head, m.as_bytes()).is_some())?;
    let (value, wrong) = json::parse(bytes)?;
    let cut = wrong.is_some();
    let dump = if let Some(list) = stacks::processes(&value) {
        Dump::Stacks(list)
    } else if let Some(ras) = ras::from_json(&value) {
        Dump::Ras(ras)
    } else if let Ok((tree, root)) = json::to_tree(&value)
        && let Some(mut recorder) = recorder::build(&tree, root, damage)
    {
        (recorder.json, recorder.cut) = (true, cut);
        Dump::FlightRecorder(recorder)
    } else {
        let plain = value.get("message").is_some_and(serde_json::Value::is_string);
        // A log of one JSON object a line is no error file either.
        let file = stacks::error_file(&value).filter(|_| !cut && (!plain || name.contains("error")))?;
        Dump::ErrorFile(file)
    };
    damage.extend(wrong.map(Damage));
    Some(dump)
}

fn from_text(bytes: &[u8]) -> Option<Dump> {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(64 << 20)]);
    match stacks_text::form(&text)? {
        stacks_text::Form::Ras => Some(Dump::Ras(ras::from_text(&text))),
        form => Some(stacks_text::read(&text, form)).filter(|l| !l.is_empty()).map(Dump::Stacks),
    }
}

/// Whether a text opens like a document that [`read`] knows and that has lines worth reading too.
#[must_use]
pub fn is_text_document(head: &[u8]) -> bool {
    let start = head.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
    let head = &head[start..head.len().min(start + 8192)];
    matches!(head.first(), Some(b'P' | b'T' | b'[' | b'U' | b'F' | b'C' | b'N' | b'J'))
        && stacks_text::form(&String::from_utf8_lossy(head)).is_some()
}

/// The rank at the end of a dump's file name: the digits that the name ends
/// in once its endings are off; else that of a folder named for one rank only
/// (`rank_3/dump.pickle`). `None` when there are none, or when they make a date
/// rather than a rank.
#[must_use]
pub fn rank_from_name(name: &str) -> Option<u32> {
    const ENDINGS: [&str; 10] =
        [".json", ".pickle", ".pkl", ".gz", ".zst", ".xz", ".bz2", ".txt", ".bin", ".dump"];
    let mut stem = name.rsplit(['/', '\\']).next().unwrap_or(name);
    while let Some(rest) = ENDINGS.iter().find_map(|e| stem.strip_suffix(e)) {
        stem = rest;
    }
    let digits = stem.len() - stem.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let rank = match digits {
        0 => folder_of_rank(name.rsplit(['/', '\\', '!']).nth(1)?)?,
        _ => stem[stem.len() - digits..].parse().ok()?,
    };
    (rank < 1 << 20).then_some(rank)
}

/// `rank3`, `global_rank-3`.
fn folder_of_rank(folder: &str) -> Option<u32> {
    let lower = folder.to_ascii_lowercase();
    let rest = lower.strip_prefix("global").unwrap_or(&lower).trim_start_matches(['_', '-']);
    rest.strip_prefix("rank")?.trim_start_matches(['_', '-', '.', '=']).parse().ok()
}
