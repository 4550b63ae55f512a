//! The documentation's commands give the output that is printed there.
//!
//! In README.md, CONTRIBUTING.md and docs/*.md every block marked `console` whose first line is `$ ncclcheck …` (or
//! the same through `cargo run --release --`, or `cat … | ncclcheck …`) is run by a shell in the root of the
//! repository. A block may hold several commands. A line `…` in the documentation stands for any lines, none
//! included. Blocks marked `toml` whose first line is `# file: PATH` are written below a folder of their own first,
//! and the document's commands then run there.
//!
//! `UPDATE_DOCS=1 cargo test --test docs` writes what is printed now into the documents, except into blocks that
//! leave lines out.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const CARGO_RUN: &str = "cargo run --release -- ";

/// A fenced block of a document.
struct Block {
    /// What stands behind the fence.
    language: String,
    /// Line of the first line of the body, from 1.
    line: usize,
    body: Vec<String>,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut out = Vec::new();
    let mut open: Option<Block> = None;
    for (at, line) in text.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            match open.take() {
                Some(block) => out.push(block),
                None => open = Some(Block { language: language.into(), line: at + 2, body: Vec::new() }),
            }
        } else if let Some(block) = &mut open {
            block.body.push(line.trim_end().into());
        }
    }
    assert!(open.is_none(), "a fence without its end");
    out
}

/// Whether a block's first line is a command that this test can run.
fn is_run(block: &Block) -> bool {
    let first = block.body.first().map_or("", String::as_str);
    let Some(command) = first.strip_prefix("$ ") else { return false };
    block.language == "console"
        && (command.starts_with("ncclcheck ")
            || command.starts_with(CARGO_RUN)
            || command.starts_with("cat ") && command.contains("| ncclcheck "))
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    let mut out: Vec<PathBuf> = fs::read_dir(root.join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .collect();
    out.sort();
    out.extend([root.join("README.md"), root.join("CONTRIBUTING.md")]);
    out
}

/// What a command prints, on standard output and then on standard error.
fn output_of(command: &str, folder: &Path) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_ncclcheck"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &command.replace(CARGO_RUN, "ncclcheck ")])
        .current_dir(folder)
        .env("PATH", path)
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    text.lines().map(normal).collect()
}

/// Without blanks at the end and without this program's own version.
fn normal(line: &str) -> String {
    let version = concat!("ncclcheck ", env!("CARGO_PKG_VERSION"));
    line.trim_end().replace(version, "ncclcheck VERSION")
}

/// Whether `got` is what `want` says, `…` standing for any lines.
fn fits(want: &[String], got: &[String]) -> bool {
    match want.split_first() {
        None => got.is_empty(),
        Some((first, rest)) if first == "…" => (0..=got.len()).any(|n| fits(rest, &got[n..])),
        Some((first, rest)) => got.first().is_some_and(|g| *g == normal(first)) && fits(rest, &got[1..]),
    }
}

/// The block's commands, each with the output that the document gives.
fn commands(block: &Block) -> Vec<(String, Vec<String>)> {
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    for line in &block.body {
        match (line.strip_prefix("$ "), out.last_mut()) {
            (Some(command), _) => out.push((command.into(), Vec::new())),
            (None, Some((_, want))) => want.push(line.clone()),
            (None, None) => {}
        }
    }
    for (_, want) in &mut out {
        // An empty line before the next command or the end of the block is for the eye only.
        while want.last().is_some_and(String::is_empty) {
            want.pop();
        }
    }
    out
}

/// Runs a document's commands; gives what differs, and the text as it should be.
fn check(path: &Path, text: &str) -> (Vec<String>, String) {
    let all = blocks(text);
    let own = tempfile::tempdir().unwrap();
    let mut folder = Path::new(ROOT);
    for block in &all {
        if let Some(name) = block.body.first().and_then(|l| l.strip_prefix("# file: ")) {
            let file = own.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, block.body[1..].join("\n") + "\n").unwrap();
            folder = own.path();
        }
    }
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let mut faults = Vec::new();
    // From the end, so that the line numbers of what is still to come stay right.
    for block in all.iter().rev().filter(|b| is_run(b)) {
        let mut body = Vec::new();
        for (command, want) in commands(block) {
            let mut got = output_of(&command, folder);
            while got.last().is_some_and(String::is_empty) {
                got.pop();
            }
            body.push(format!("$ {command}"));
            if fits(&want, &got) {
                body.extend(want);
            } else {
                faults.push(format!(
                    "{}:{}: {command}\n--- documented\n{}\n--- printed\n{}",
                    path.display(),
                    block.line,
                    want.join("\n"),
                    got.join("\n")
                ));
                body.extend(if want.iter().any(|l| l == "…") { want } else { got });
            }
        }
        let start = block.line - 1;
        lines.splice(start..start + block.body.len(), body);
    }
    (faults, lines.join("\n") + "\n")
}

#[test]
fn what_the_documents_show_is_what_the_program_prints() {
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    let mut faults = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        let (mut found, fresh) = check(&path, &text);
        if update && fresh != text {
            fs::write(&path, &fresh).unwrap();
            found = check(&path, &fresh).0;
        }
        faults.extend(found);
    }
    assert!(
        faults.is_empty(),
        "{}\n\n{} command(s) print something else; UPDATE_DOCS=1 cargo test --test docs rewrites them",
        faults.join("\n\n"),
        faults.len()
    );
}

#[test]
fn the_readme_begins_with_the_main_job() {
    let text = fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    let all = blocks(&text);
    let first = all.iter().find(|b| is_run(b)).unwrap();
    assert!(
        first.body[0].starts_with("$ cargo run --release -- diagnose fixtures/cases/"),
        "{}",
        first.body[0]
    );
}

#[test]
fn dots_stand_for_any_lines() {
    let of = |text: &str| -> Vec<String> { text.lines().map(String::from).collect() };
    assert!(fits(&of("a\n…\nd"), &of("a\nb\nc\nd")));
    assert!(fits(&of("a\n…"), &of("a")));
    assert!(!fits(&of("a\n…\nd"), &of("a\nb")));
    assert!(!fits(&of("a"), &of("a\nb")));
}
