//! The few messages that the program itself gives, since no fixed text of
//! theirs exists: they have ids so that rules can speak of them.

use crate::knowledge::Message;

/// A WARN of NCCL that no message knows.
pub const UNKNOWN_WARN: &str = "nccl.warn.unknown";
/// The last line of a Python traceback.
pub const EXCEPTION: &str = "python.exception";
/// A line that looks like trouble and that no message knows.
pub const UNKNOWN: &str = "unknown";
/// A fact given by a file's name and its one number (`ulimit-l.txt`).
pub const MEMLOCK: &str = "sys.ulimit.memlock";
/// A variable in a listing (`NAME=value`).
pub const LISTED: &str = "sys.env.listed";
/// What a Flight Recorder dump shows.
pub const DUMP: &str = "dump.flight-recorder";
/// A torchelastic error file.
pub const ERROR_FILE: &str = "torch.elastic.error-file";

/// How far the ranks of a communicator have come, by NCCL's RAS.
pub const RAS: &str = "nccl.ras.answer";
/// Ranks of which NCCL's RAS hears nothing.
pub const RAS_ABSENT: &str = "nccl.ras.absent";
/// Where a process stood when its stack was taken.
pub const STACK: &str = "stack.taken";

const TEXT: &str = r#"
[[message]]
id = "nccl.warn.unknown"
about = "A WARN of NCCL that no message of the catalogue knows"
door = "nccl"
level = "warn"
role = "symptom"
kind = "fails"
[[message]]
id = "python.exception"
about = "The last line of a Python traceback"
door = "exception"
role = "fact"
kind = "exception"
fields = { type = "text", text = "text", file = "text", line = "int", func = "text", claimed = "text", handled = "text" }
[[message]]
id = "unknown"
about = "A line that looks like trouble and that no message knows"
door = "line"
role = "symptom"
[[message]]
id = "sys.ulimit.memlock"
about = "The limit of locked memory, from a file named for it"
door = "line"
fields = { kb = "text" }
[[message]]
id = "sys.env.listed"
about = "A variable in a listing beside the log"
door = "line"
kind = "setting"
fields = { name = "text", value = "text" }
[[message]]
id = "dump.flight-recorder"
about = "What the Flight Recorder dumps of several ranks show together"
door = "line"
kind = "absent"
fields = { fault = "text", ranks = "ranks", group = "text", op = "text", seq = "int", detail = "text", waiting = "ranks" }
[[message]]
id = "nccl.ras.answer"
about = "How many operations ranks of a communicator have launched, by NCCL's RAS"
door = "line"
kind = "progress"
fields = { ranks = "ranks", group = "text", size = "int", enqueued = "int", at = "text" }
[[message]]
id = "nccl.ras.absent"
about = "Ranks that NCCL's RAS holds for dead or that do not answer it"
door = "line"
role = "first"
kind = "absent"
fields = { ranks = "ranks", host = "host", dead = "text" }
[[message]]
id = "stack.taken"
about = "Where a process stood when its stack was taken"
door = "line"
fields = { by = "text", func = "text" }
[[message]]
id = "torch.elastic.error-file"
about = "A torchelastic error file"
door = "line"
kind = "exception"
fields = { type = "text", text = "text", rank = "rank", file = "text", line = "int", func = "text", claimed = "text" }
"#;

/// The built-in messages.
pub(super) fn messages() -> Vec<Message> {
    #[derive(serde::Deserialize)]
    struct All {
        message: Vec<Message>,
    }
    toml::from_str::<All>(TEXT).map(|a| a.message).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn they_parse() {
        assert_eq!(super::messages().len(), 10);
    }
}
