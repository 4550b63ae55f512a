//! Every format that NCCL and PyTorch's process groups have, in the line form of its release and under the
//! marks of launchers, with varied values: it is recognised, its fields are
//! what was put in, and no message of the same standing claims it too. The
//! formats (`fixtures/formats/*.tsv`) were taken from their sources and
//! libraries and know nothing of the catalogue's patterns.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;

use ncclcheck::base::Release;
use ncclcheck::knowledge::Role;
use std::collections::BTreeSet;
use std::path::Path;

/// A row of the tables.
struct Row {
    file: String,
    line: usize,
    format: String,
    first: Release,
    last: Release,
    level: String,
    source: String,
    texts: Vec<String>,
}

fn rows() -> Vec<Row> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/formats");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let mut out = Vec::new();
    for path in files.iter().filter(|p| p.extension().is_some_and(|e| e == "tsv")) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).unwrap();
        for (at, line) in
            text.lines().enumerate().filter(|(_, l)| !l.starts_with('#') && !l.starts_with("format\t"))
        {
            let cells: Vec<&str> = line.split('\t').collect();
            assert_eq!(cells.len(), 6, "{name}:{}", at + 1);
            let texts = if cells[5].is_empty() {
                Vec::new()
            } else {
                cells[5].split('|').map(String::from).collect()
            };
            out.push(Row {
                file: name.clone(),
                line: at + 1,
                format: cells[0].into(),
                first: Release::parse(cells[1]).unwrap(),
                last: Release::parse(cells[2]).unwrap(),
                level: cells[3].into(),
                source: cells[4].into(),
                texts,
            });
        }
    }
    out
}

/// The text with values of a seed in place of its conversions, and the values.
fn instance(row: &Row, seed: u64) -> (String, Vec<String>) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ row.line as u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut out = String::new();
    let mut values = Vec::new();
    let mut texts = row.texts.iter();
    let mut chars = row.format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut spec = String::new();
        for c in chars.by_ref() {
            spec.push(c);
            if c == '%' || c.is_ascii_alphabetic() && !"lhzjtLq".contains(c) {
                break;
            }
        }
        let value = match spec.chars().last() {
            Some('%') => {
                out.push('%');
                continue;
            }
            Some('d' | 'i' | 'u') => next(250).to_string(),
            Some('x') => format!("{}{:x}", if spec.contains('#') { "0x" } else { "" }, 1 + next(0xf_ffff)),
            Some('X') => format!("{:X}", 1 + next(0xf_ffff)),
            Some('p') => format!("0x7f{:08x}", next(0xffff_ffff)),
            Some('f' | 'g' | 'e') => format!("{}.{:02}", next(90), next(100)),
            Some('c') => "n".into(),
            Some('m') => "Connection refused".into(),
            Some('s') => {
                let text = texts.next().map_or("mlx5_3", String::as_str);
                // Other figures each time, as long as they are: addresses stay addresses.
                text.chars().map(|c| if c == '3' { char::from(b'2' + next(7) as u8) } else { c }).collect()
            }
            other => panic!("{}:{}: conversion {other:?}", row.file, row.line),
        };
        out.push_str(&value);
        values.push(value);
    }
    (out.replace("\\n", " ").replace("\\t", " "), values)
}

/// The line as that release prints it.
fn line_of(row: &Row, text: &str, release: Release, seed: u64) -> String {
    if row.level.starts_with("torch") {
        let stamp = if release >= Release(2, 2, 0) { "1124 10:11:12.345678901 " } else { "" };
        let header = if row.source.is_empty() {
            String::new()
        } else {
            format!("[E{stamp}{}:{}] ", row.source, 300 + seed)
        };
        return format!("{header}{text}");
    }
    let head = format!("kg{:02}:{}:{} [{}]", seed % 40, 400 + seed, 900 + seed, seed % 8);
    if row.level == "info" {
        return format!("{head} NCCL INFO {text}");
    }
    let stamp = if release >= Release(2, 26, 0) { "[2026-02-11 04:05:06] " } else { "" };
    let function = if release >= Release(2, 30, 7) { " (ncclSomeFunction)" } else { "" };
    let source = if row.source.contains('.') { &row.source } else { "init.cc" };
    format!("{stamp}{head} {source}:{}{function} NCCL WARN {text}", 100 + seed)
}

const PREFIXES: [&str; 5] =
    ["", "[rank3]: ", "5: ", "[1,3]<stdout>:", "(RayTrainWorker pid=4412, ip=10.4.0.9) "];

/// What is wrong with a row, if anything.
fn fault(row: &Row) -> Option<String> {
    let engine = common::engine();
    let mut messages = BTreeSet::new();
    for (nth, prefix) in PREFIXES.iter().enumerate() {
        let seed = 7 + nth as u64 * 31;
        let release = if nth % 2 == 0 { row.last } else { row.first };
        let (text, values) = instance(row, seed);
        let line = format!("{prefix}{}", line_of(row, &text, release, seed));
        let taken = engine.take_apart(&line);
        let Some(message) = taken.message else { return Some(format!("is not recognised: {line}")) };
        let role = engine.catalogue.messages[usize::from(engine.catalogue.message(&message)?)].role;
        let wrong = match row.level.as_str() {
            "torch-victim" => role == Role::First,
            "torch-first" => role != Role::First,
            "torch-context" => matches!(role, Role::First | Role::Victim),
            _ => false,
        };
        if wrong {
            return Some(format!("is {role:?} in {message}: {line}"));
        }
        for (name, _, got) in &taken.fields {
            let put_in =
                values.iter().any(|v| v == got || v.contains(got.as_str()) || got.contains(v.as_str()));
            if !put_in && !row.format.contains(got.as_str()) {
                return Some(format!("field {name} of {message} is {got:?}: {line}"));
            }
        }
        messages.insert(message);
        let others = if row.level.starts_with("torch") {
            engine.catalogue.rivals_of_torch(&line_of(row, &text, release, seed), release)
        } else {
            engine.catalogue.rivals(row.level == "warn", text.as_bytes(), release)
        };
        if others.len() > 1 {
            return Some(format!("is claimed by {}: {line}", others.join(" and ")));
        }
    }
    (messages.len() > 1).then(|| format!("is taken for {messages:?}"))
}

#[test]
fn every_format_is_recognised_and_by_one_message_only() {
    let rows = rows();
    let faults: Vec<String> =
        rows.iter().filter_map(|r| Some(format!("{}:{}: {}", r.file, r.line, fault(r)?))).collect();
    if let Some(path) = std::env::var_os("FORMAT_FAULTS") {
        std::fs::write(path, faults.join("\n")).unwrap();
    }
    let shown: Vec<&String> = faults.iter().take(40).collect();
    assert!(faults.is_empty(), "{} of {} formats:\n{shown:#?}", faults.len(), rows.len());
}
