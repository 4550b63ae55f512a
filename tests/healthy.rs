//! The gate of false alarms: jobs that ended well or were at work, with the
//! frightening lines that such logs have.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;

use ncclcheck::report::Verdict;
use std::collections::BTreeMap;
use std::fmt::Write;

/// `fixtures/healthy/allowed.toml`, where it exists: a fixture's name, the cause that may be reported on it, and why.
///
/// ```toml
/// [some-fixture]
/// cause  = "net/socket-fallback"
/// reason = "…"
/// ```
fn allowed() -> BTreeMap<String, String> {
    let Ok(text) = std::fs::read_to_string(common::fixtures().join("healthy/allowed.toml")) else {
        return BTreeMap::new();
    };
    let table: toml::Table = text.parse().unwrap();
    let entry = |(name, entry): (String, toml::Value)| {
        let word = |key: &str| entry.get(key).and_then(|v| v.as_str()).unwrap_or("").to_string();
        assert!(!word("reason").is_empty(), "the exception for {name} needs a reason");
        (name, word("cause"))
    };
    table.into_iter().map(entry).collect()
}

#[test]
fn nothing_is_reported_on_healthy_jobs() {
    let allowed = allowed();
    let mut table = String::new();
    for (name, _) in common::all("healthy") {
        let report = common::report(&common::given(&common::input("healthy", &name)), &common::options());
        let told: Vec<&str> = report
            .diagnoses
            .iter()
            .map(|d| d.cause.as_str())
            .filter(|c| allowed.get(&name).is_none_or(|a| a != c))
            .collect();
        let excused = allowed.contains_key(&name) && told.is_empty();
        if !told.is_empty() || (report.verdict != Verdict::Healthy && !excused) {
            let _ = writeln!(table, "{name:36} {:?} ({}): {told:?}", report.verdict, report.job.end.state);
        }
    }
    assert!(table.is_empty(), "false alarms:\n{table}");
}

#[test]
fn exceptions_are_of_fixtures_that_exist() {
    let names: Vec<String> = common::all("healthy").into_iter().map(|f| f.0).collect();
    for name in allowed().keys() {
        assert!(names.contains(name), "{name}");
    }
}
