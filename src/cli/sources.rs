//! What a command reads: paths of the command line into sources, options of
//! the engine, and the engine with the rules of all folders.

use super::args::{Global, Sources};
use super::out::Fail;
use super::signals;
use crate::engine::{Engine, Options};
use crate::input::Given;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

const NOTHING_TO_READ: &str = "nothing to read: name a file or folder, or pipe a log in \
                               (ncclcheck diagnose logs/, or cat job.log | ncclcheck diagnose)";

/// The engine with the built-in knowledge and that of `--rules`.
pub(super) fn engine(global: &Global) -> Result<Engine, Fail> {
    folders(global)?;
    load(global)
}

/// The engine, or all faults of its files, one a line.
pub(super) fn load(global: &Global) -> Result<Engine, Fail> {
    let folders: Vec<&Path> = global.rules.iter().map(AsRef::as_ref).collect();
    let engine = if global.no_builtin { Engine::of_folders(&folders) } else { Engine::new(&folders) };
    engine.map_err(|err| err.to_string())
}

/// Whether every `--rules` is a folder, and one is there where nothing is built in.
pub(super) fn folders(global: &Global) -> Result<(), Fail> {
    if global.no_builtin && global.rules.is_empty() {
        return Err("--no-builtin leaves nothing known: give a folder with --rules DIR".into());
    }
    for folder in &global.rules {
        if !folder.is_dir() {
            let why = match std::fs::metadata(folder) {
                Ok(_) => "is no folder".to_string(),
                Err(err) => reason(&err),
            };
            return Err(format!("--rules {}: {why}", folder.display()));
        }
    }
    Ok(())
}

/// What to read and how; Ctrl-C is taken care of.
pub(super) fn given(sources: &Sources) -> Result<(Vec<Given>, Options), Fail> {
    let mut given = Vec::new();
    let mut reads_stdin = sources.paths.is_empty();
    for path in &sources.paths {
        if path.as_os_str() != "-" {
            given.push(Given::Path(path.clone()));
        } else if !reads_stdin {
            reads_stdin = true;
            given.push(Given::Stdin);
        }
    }
    if given.is_empty() {
        if sources.paths.is_empty() && io::stdin().is_terminal() {
            return Err(NOTHING_TO_READ.into());
        }
        given.push(Given::Stdin);
    }
    all_missing(&given)?;
    let options = Options {
        threads: sources.threads,
        attempt: sources.attempt.map(|n| n as usize),
        ..Options::default()
    };
    signals::on_interrupt(&Arc::clone(&options.interrupted), reads_stdin);
    Ok((given, options))
}

/// One path, or standard input, as one job.
pub(super) fn one(path: &Path, threads: usize) -> Result<(Vec<Given>, Options), Fail> {
    let paths = if path.as_os_str() == "-" { Vec::new() } else { vec![path.to_path_buf()] };
    given(&Sources { paths, threads, attempt: None })
}

/// One line where not a single path can be found; a few missing ones are problems in the report.
fn all_missing(given: &[Given]) -> Result<(), Fail> {
    let mut first = None;
    for source in given {
        let Given::Path(path) = source else { return Ok(()) };
        match std::fs::metadata(path) {
            Ok(_) => return Ok(()),
            Err(err) => first = first.or_else(|| Some(format!("{}: {}", path.display(), reason(&err)))),
        }
    }
    match (first, given.len()) {
        (Some(text), 1) => Err(text),
        (Some(text), n) => Err(format!("{text} (and {} more paths that cannot be read)", n - 1)),
        (None, _) => Ok(()),
    }
}

/// The system's words without its number.
fn reason(err: &io::Error) -> String {
    let text = err.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}
