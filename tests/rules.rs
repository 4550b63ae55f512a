//! The built-in knowledge: it loads, it holds together, and its own tests pass.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;

use ncclcheck::engine::Engine;

#[test]
fn nothing_is_wrong_with_the_files() {
    let (_, faults) = Engine::lenient(&[]);
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} faults:\n{}", lines.len(), lines.join("\n"));
    assert!(Engine::new(&[]).is_ok());
}

#[test]
fn the_check_finds_nothing() {
    let lines: Vec<String> = common::engine().check().iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} faults:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn every_test_of_every_rule_passes() {
    let results = common::engine().test(None);
    assert!(!results.is_empty());
    let all = results.len();
    let failed: Vec<String> =
        results.into_iter().filter_map(|(name, why)| Some(format!("{name}: {}", why?))).collect();
    assert!(failed.is_empty(), "{} of {all} failed:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn every_rule_has_a_test_that_fires_and_one_that_does_not() {
    let without: Vec<&str> = common::engine()
        .knowledge
        .rules
        .iter()
        .filter(|(r, _)| {
            !r.tests.iter().any(|t| t.expect.finding) || !r.tests.iter().any(|t| !t.expect.finding)
        })
        .map(|(r, _)| r.id.as_str())
        .collect();
    assert!(without.is_empty(), "{without:?}");
}

/// A rule that goes away is seen in review; accept with `INSTA_UPDATE=always cargo test --test rules`.
#[test]
fn the_list_of_causes_is_known() {
    let mut ids: Vec<&str> = common::engine().knowledge.rules.iter().map(|(r, _)| r.id.as_str()).collect();
    ids.sort_unstable();
    insta::assert_snapshot!("causes", ids.join("\n"));
}
