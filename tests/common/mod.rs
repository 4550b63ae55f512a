//! What the integration tests share: the engine, the fixtures, and small views
//! of a report.

use ncclcheck::engine::{Engine, Options};
use ncclcheck::input::Given;
use ncclcheck::report::Report;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::lenient(&[]).0);

/// The engine with what is built in; its faults are the business of `rules.rs`.
pub(crate) fn engine() -> &'static Engine {
    &ENGINE
}

/// Where the fixtures are.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// The fixtures below `kind` (`cases` or `healthy`) that have an input, by name.
pub(crate) fn all(kind: &str) -> Vec<(String, PathBuf)> {
    let folder = fixtures().join(kind);
    let mut found: Vec<(String, PathBuf)> = fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("input").is_dir())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no fixtures below {}", folder.display());
    found
}

/// All files below a folder: path relative to it with `/`, and content, sorted.
pub(crate) fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut out = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(&at).unwrap_or_else(|e| panic!("{}: {e}", at.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap();
                let name = name.components().map(|c| c.as_os_str().to_string_lossy()).collect::<Vec<_>>();
                out.push((name.join("/"), fs::read(&path).unwrap()));
            }
        }
    }
    out.sort();
    out
}

/// The files of a fixture's input.
pub(crate) fn input(kind: &str, name: &str) -> Vec<(String, Vec<u8>)> {
    files(&fixtures().join(kind).join(name).join("input"))
}

/// Bytes with names as what the user gave.
pub(crate) fn given(files: &[(String, Vec<u8>)]) -> Vec<Given> {
    files.iter().map(|(name, data)| bytes(name, data)).collect()
}

/// One named piece of bytes.
pub(crate) fn bytes(name: &str, data: &[u8]) -> Given {
    Given::Bytes { name: name.to_string(), data: data.to_vec() }
}

/// Two threads, blocks as usual.
pub(crate) fn options() -> Options {
    Options { threads: 2, ..Options::default() }
}

/// The report on what was given; an error is a failure of the test.
pub(crate) fn report(given: &[Given], options: &Options) -> Report {
    engine().diagnose(given, options).unwrap_or_else(|e| panic!("no report: {e}"))
}

/// The report on some text.
pub(crate) fn report_on(text: impl AsRef<[u8]>) -> Report {
    report(&[bytes("job.log", text.as_ref())], &options())
}

/// A report as data.
pub(crate) fn json(report: &Report) -> Value {
    serde_json::to_value(report).unwrap()
}

/// The report for people, without colours, as it is on a terminal of 100 columns.
pub(crate) fn text(report: &Report, verbose: bool) -> String {
    let mut out = Vec::new();
    ncclcheck::report::text::write(report, ncclcheck::report::text::Style { width: 100, verbose }, &mut out)
        .unwrap();
    strip(&String::from_utf8(out).unwrap())
}

/// Without the styles that the report itself sets (`ESC [ … m`).
pub(crate) fn strip(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        let end = rest[at..].find('m').map_or(rest.len(), |n| at + n + 1);
        let code = &rest[at + 2..end - 1];
        assert!(code.bytes().all(|b| b.is_ascii_digit() || b == b';'), "not a style: {code:?}");
        out.push_str(&rest[..at]);
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// The first cause, or an empty text.
pub(crate) fn first(report: &Report) -> &str {
    report.diagnoses.first().map_or("", |d| &d.cause)
}

/// Where two values differ first, as a path with both sides.
pub(crate) fn difference(a: &Value, b: &Value) -> Option<String> {
    fn walk(path: &str, a: &Value, b: &Value) -> Option<String> {
        match (a, b) {
            (Value::Object(x), Value::Object(y)) => {
                let keys = x.keys().chain(y.keys().filter(|k| !x.contains_key(*k)));
                keys.into_iter().find_map(|k| {
                    let null = Value::Null;
                    walk(&format!("{path}.{k}"), x.get(k).unwrap_or(&null), y.get(k).unwrap_or(&null))
                })
            }
            (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
                x.iter().zip(y).enumerate().find_map(|(i, (x, y))| walk(&format!("{path}[{i}]"), x, y))
            }
            _ if a == b => None,
            _ => {
                let cut = |v: &Value| v.to_string().chars().take(400).collect::<String>();
                Some(format!("{path}:\n  {}\n  {}", cut(a), cut(b)))
            }
        }
    }
    walk("", a, b)
}
