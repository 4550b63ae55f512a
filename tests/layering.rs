//! The walls between the rooms of `src/`: every path that begins with `crate::`
//! or `super::` is read, not only `use` lines, and held against one table.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Which rooms a room may use, besides itself. `docs/architecture.md` says why.
const MAY: [(&str, &[&str]); 17] = [
    ("base", &[]),
    ("knowledge", &["base"]),
    ("memory", &["base", "knowledge"]),
    ("input", &["base"]),
    ("text", &["base", "input"]),
    ("catalogue", &["base", "knowledge", "text"]),
    ("dump", &["base", "catalogue", "input"]),
    ("job", &["base", "catalogue", "dump", "knowledge", "text"]),
    ("rules", &["base", "catalogue", "job", "knowledge", "settings"]),
    ("settings", &["base", "knowledge"]),
    ("report", &["base"]),
    ("verdict", &["base", "catalogue", "job", "knowledge", "memory", "report", "rules", "settings"]),
    ("templates", &["base", "text"]),
    ("compare", &["base", "catalogue", "job", "knowledge", "report", "settings", "templates", "verdict"]),
    (
        "engine",
        &[
            "base",
            "catalogue",
            "compare",
            "dump",
            "input",
            "job",
            "knowledge",
            "memory",
            "report",
            "rules",
            "settings",
            "templates",
            "text",
            "verdict",
        ],
    ),
    (
        "scan",
        &[
            "base",
            "catalogue",
            "compare",
            "dump",
            "engine",
            "input",
            "job",
            "knowledge",
            "memory",
            "report",
            "rules",
            "settings",
            "templates",
            "text",
            "verdict",
        ],
    ),
    (
        "cli",
        &[
            "base",
            "catalogue",
            "compare",
            "dump",
            "engine",
            "input",
            "job",
            "knowledge",
            "memory",
            "report",
            "rules",
            "scan",
            "settings",
            "templates",
            "text",
            "verdict",
        ],
    ),
];

/// What only the command line may touch.
const ONLY_CLI: [&str; 10] = [
    "clap::",
    "clap_complete::",
    "anstream::",
    "ctrlc::",
    "terminal_size::",
    "anyhow::",
    "indicatif::",
    "stdout()",
    "stderr()",
    "process::exit",
];
/// Longest file.
const LINES: usize = 900;

struct Source {
    /// Below `src/`, joined by `/`.
    name: String,
    text: String,
}

fn sources() -> Vec<Source> {
    fn walk(at: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, out);
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths.sort();
    let named = |path: &PathBuf| {
        let parts = path.strip_prefix(&root).unwrap().components();
        parts.map(|c| c.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
    };
    paths.iter().map(|p| Source { name: named(p), text: fs::read_to_string(p).unwrap() }).collect()
}

/// The text with comments, strings and characters blanked out, so that only code is left.
fn code(text: &str) -> String {
    let b: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < b.len() {
        let next = b.get(i + 1).copied().unwrap_or(' ');
        let raw = b[i] == 'r' && (next == '"' || next == '#') && !(i > 0 && is_word(b[i - 1]));
        if b[i] == '/' && next == '/' {
            while i < b.len() && b[i] != '\n' {
                i += 1;
            }
        } else if b[i] == '/' && next == '*' {
            while i + 1 < b.len() && !(b[i] == '*' && b[i + 1] == '/') {
                i += 1;
            }
            i += 2;
        } else if raw && raw_end(&b, i).is_some() {
            i = raw_end(&b, i).unwrap_or(i + 1);
            out.push(' ');
        } else if b[i] == '"' {
            i += 1;
            while i < b.len() && b[i] != '"' {
                i += if b[i] == '\\' { 2 } else { 1 };
            }
            i += 1;
            out.push(' ');
        } else if b[i] == '\'' && next == '\\' {
            i += 3;
            while i < b.len() && b[i] != '\'' {
                i += 1;
            }
            i += 1;
            out.push(' ');
        } else if b[i] == '\'' && b.get(i + 2) == Some(&'\'') {
            i += 3;
            out.push(' ');
        } else {
            out.push(b[i]);
            i += 1;
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where a raw string that begins at `i` ends.
fn raw_end(b: &[char], i: usize) -> Option<usize> {
    let hashes = b[i + 1..].iter().take_while(|c| **c == '#').count();
    let mut at = i + 1 + hashes;
    if b.get(at) != Some(&'"') {
        return None;
    }
    at += 1;
    while at < b.len() {
        if b[at] == '"' && b[at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    None
}

/// The module's path within the crate: `job/waits/mod.rs` is `job::waits`.
fn module(name: &str) -> Vec<&str> {
    let name = name.strip_suffix(".rs").unwrap_or(name);
    let mut parts: Vec<&str> = name.split('/').collect();
    if matches!(parts.last(), Some(&"mod" | &"lib" | &"main")) {
        parts.pop();
    }
    parts
}

/// The first names after `crate::` and those that `super::…` leaves a room for, with their lines.
fn used(source: &Source) -> Vec<(usize, String)> {
    let code = code(&source.text);
    let here = module(&source.name);
    let mut out = Vec::new();
    for (n, line) in code.lines().enumerate() {
        for (at, _) in line.match_indices("crate::") {
            if !line[..at].ends_with(|c: char| is_word(c) || c == ':') {
                out.extend(names(&line[at + "crate::".len()..]).into_iter().map(|name| (n + 1, name)));
            }
        }
        let mut from = 0;
        while let Some(at) = line[from..].find("super::").map(|n| from + n) {
            let mut rest = &line[at..];
            let mut ups = 0;
            while let Some(r) = rest.strip_prefix("super::") {
                (rest, ups) = (r, ups + 1);
            }
            // A module inside the file (tests) may be one deeper: only what surely leaves the room counts.
            if ups >= here.len() {
                out.extend(names(rest).into_iter().map(|name| (n + 1, name)));
            }
            from = line.len() - rest.len();
        }
    }
    out
}

/// `a::b` gives `a`; `{a::b, c}` gives both.
fn names(rest: &str) -> Vec<String> {
    let word = |t: &str| t.trim().chars().take_while(|c| is_word(*c)).collect::<String>();
    match rest.strip_prefix('{') {
        None => vec![word(rest)],
        Some(list) => {
            let mut depth = 0;
            let mut parts = vec![String::new()];
            for c in list.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => parts.push(String::new()),
                    _ => {}
                }
                if depth == 0 && c != ',' {
                    parts.last_mut().unwrap().push(c);
                }
            }
            parts.iter().map(|p| word(p)).collect()
        }
    }
}

#[test]
fn rooms_keep_their_walls() {
    let rooms: BTreeSet<&str> = MAY.iter().map(|m| m.0).collect();
    let mut faults = Vec::new();
    for source in sources() {
        let Some((room, _)) = source.name.split_once('/') else { continue };
        let Some((_, may)) = MAY.iter().find(|m| m.0 == room) else {
            faults.push(format!("src/{}: the room {room:?} is not in the table", source.name));
            continue;
        };
        for (line, other) in used(&source) {
            if rooms.contains(other.as_str()) && other != room && !may.contains(&other.as_str()) {
                faults.push(format!("src/{}:{line}: {room} uses {other}", source.name));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_table_has_no_circle_and_names_every_room() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(!path.is_dir() || MAY.iter().any(|m| m.0 == name), "{name}");
    }
    let mut left: Vec<_> = MAY.to_vec();
    while !left.is_empty() {
        let free = left.iter().position(|(_, may)| may.iter().all(|o| !left.iter().any(|l| l.0 == *o)));
        left.remove(
            free.unwrap_or_else(|| {
                panic!("a circle among {:?}", left.iter().map(|l| l.0).collect::<Vec<_>>())
            }),
        );
    }
}

#[test]
fn only_the_command_line_knows_the_terminal() {
    let mut faults = Vec::new();
    for source in sources() {
        let tests = source.name.ends_with("tests.rs") || source.name.contains("/tests");
        if source.name.starts_with("cli/") || source.name == "main.rs" || tests {
            continue;
        }
        for (n, line) in code(&source.text).lines().enumerate() {
            for what in ONLY_CLI.into_iter().chain(["println!", "print!(", "eprintln!", "eprint!("]) {
                let found = line.find(what).is_some_and(|at| !line[..at].ends_with(is_word));
                if found {
                    faults.push(format!("src/{}:{}: {what}", source.name, n + 1));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let mut faults = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        if lines > LINES {
            faults.push(format!("src/{}: {lines} lines, {LINES} at most", source.name));
        }
        if !source.text.starts_with("//! ") {
            faults.push(format!("src/{}: does not open with what it is for (`//! …`)", source.name));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_reader_of_paths_sees_what_it_should() {
    let source = |name: &str, text: &str| Source { name: name.into(), text: text.into() };
    let names = |s: &Source| used(s).into_iter().map(|u| u.1).collect::<Vec<_>>();
    assert_eq!(names(&source("job/ends.rs", "use crate::{base::X, cli::Y};\n")), ["base", "cli"]);
    assert_eq!(
        names(&source("job/ends.rs", "let a = crate::rules::b(super::super::cli::c());\n")),
        ["rules", "cli"]
    );
    assert_eq!(
        names(&source("job/ends.rs", "use super::names; // crate::cli\nlet x = \"crate::cli\";\n")),
        [""; 0]
    );
    assert_eq!(names(&source("job/mod.rs", "pub(crate) use super::rules::a;\n")), ["rules"]);
    assert_eq!(module("job/waits/mod.rs"), ["job", "waits"]);
    assert_eq!(code("a'x'b '\\n' r#\"c\"#d /* e */f"), "a b    d f");
}
