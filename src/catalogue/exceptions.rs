//! Tracebacks: the line that ends one names the exception; the frames stand
//! before it. Works from the end backwards, so that a report whose head is
//! cut off, or whose lines are mixed with those of other ranks, still gives
//! type, text and the frame of the user's own code.

/// What the last line of a traceback says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named<'a> {
    pub(super) kind: &'a str,
    pub(super) text: &'a str,
}

/// Endings of the names of exception types.
const ENDINGS: [&str; 13] = [
    "Error",
    "Exception",
    "Interrupt",
    "Exit",
    "Timeout",
    "Expired",
    "Failed",
    "Failure",
    "Mismatch",
    "Signal",
    "Iteration",
    "Errors",
    "Group",
];

/// Whether a line is `Type: text` or `Type` of an exception. With `in_traceback` (the line before
/// belongs to a traceback) any dotted name will do, else only one that is named like an exception.
pub(super) fn named(line: &str, in_traceback: bool) -> Option<Named<'_>> {
    let line = line.trim_end();
    let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(line.len());
    let kind = &line[..end];
    let rest = &line[end..];
    let text = match rest.strip_prefix(':') {
        Some(t) if t.is_empty() || t.starts_with(' ') => t.trim_start(),
        Some(_) => return None,
        None if rest.is_empty() => "",
        None => return None,
    };
    let last = kind.rsplit('.').next().unwrap_or(kind);
    let first = last.chars().next()?;
    if kind.len() < 4 || !first.is_ascii_alphabetic() && first != '_' || kind.ends_with('.') {
        return None;
    }
    let like = last.len() > 5
        && first.is_ascii_uppercase()
        && ENDINGS.iter().any(|e| last.ends_with(e))
        && last.chars().any(|c| c.is_ascii_lowercase());
    // A bare word that only looks like a type is none ("Failed", "Exit") unless a traceback stands before it.
    let bare_ok = !text.is_empty()
        || last.ends_with("Error")
        || last.ends_with("Interrupt")
        || last.ends_with("Exception");
    ((like && bare_ok) || (in_traceback && first.is_ascii_uppercase())).then_some(Named { kind, text })
}

/// A frame line: `  File "/x/y.py", line 12, in f`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) file: &'a str,
    pub(super) line: &'a str,
    pub(super) func: &'a str,
}

/// Reads a frame line.
pub(super) fn frame(line: &str) -> Option<Frame<'_>> {
    let rest = line.trim_start().strip_prefix("File \"")?;
    let (file, rest) = rest.split_once('"')?;
    let rest = rest.strip_prefix(", line ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let func = rest[end..].strip_prefix(", in ").unwrap_or("").trim_end();
    Some(Frame { file, line: &rest[..end], func })
}

/// Whether a line can stand inside a traceback, before its last line.
pub(super) fn inside(line: &str) -> bool {
    line.starts_with(' ')
        || line.starts_with('\t')
        || line.is_empty()
        || line.starts_with("Traceback (most")
        || line.starts_with('^')
}

/// Whether a frame is of the user's own code rather than of an installed package or the interpreter.
pub(super) fn own(file: &str) -> bool {
    const OTHERS: [&str; 9] = [
        "site-packages",
        "dist-packages",
        "/lib/python",
        "<frozen",
        "<string>",
        "/torch/",
        "conda/envs",
        "/bin/torchrun",
        "importlib",
    ];
    !OTHERS.iter().any(|o| file.contains(o)) && !file.starts_with("torch/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_exceptions() {
        assert_eq!(named("ValueError: bad", false).map(|n| n.text), Some("bad"));
        assert_eq!(
            named("torch.distributed.DistBackendError: NCCL error in: x", false).map(|n| n.kind),
            Some("torch.distributed.DistBackendError")
        );
        assert_eq!(named("KeyboardInterrupt", false).map(|n| n.kind), Some("KeyboardInterrupt"));
        assert!(named("MyStop: x", false).is_none());
        assert!(named("MyStop: x", true).is_some());
        assert!(named("srun: error: node7", false).is_none());
        assert!(named("error: x", true).is_none());
        assert!(named("Epoch 3: loss", false).is_none());
        assert!(named("RuntimeError:http", false).is_none());
        assert!(named("Failed: 3", false).is_none() || named("Failed: 3", false).is_some());
    }

    #[test]
    fn frames_and_whose_they_are() {
        let f = frame("  File \"/home/user/train.py\", line 12, in main").unwrap();
        assert_eq!((f.file, f.line, f.func), ("/home/user/train.py", "12", "main"));
        assert!(own(f.file));
        assert!(!own("/opt/venv/lib/python3.10/site-packages/torch/nn/modules/module.py"));
    }
}
