//! The failed jobs of `fixtures/cases`: the first cause is one that a competent
//! engineer accepts, the culprits are named, no advice does harm.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;

use ncclcheck::report::{Report, Verdict};
use serde_json::Value;
use std::fmt::Write;

/// So many first answers must be right. Raise it when more are; a lower one needs a reason in the change.
const RIGHT: usize = 73;
/// So many cases may miss a culprit that their truth names, where the cause is right.
const CULPRITS_MISSED: usize = 1;

fn words(value: &Value) -> Vec<String> {
    let texts = value.as_array().into_iter().flatten();
    texts.filter_map(|v| v.as_str().map(str::to_string)).collect()
}

/// What is missing of the truth's culprits in the first diagnosis.
fn missing(truth: &Value, report: &Report) -> String {
    let Some(d) = report.diagnoses.first() else { return String::new() };
    let mut out = String::new();
    for rank in truth["culprit"]["ranks"].as_array().into_iter().flatten() {
        let rank = rank.as_u64().unwrap() as u32;
        if !d.culprits.ranks.contains(&rank) {
            let _ = write!(out, "rank {rank} not in {:?} ", d.culprits.ranks);
        }
    }
    for host in words(&truth["culprit"]["hosts"]) {
        if !d.culprits.hosts.contains(&host) {
            let _ = write!(out, "host {host} not in {:?} ", d.culprits.hosts);
        }
    }
    out
}

/// Advice that the truth calls bad, among the fixes of any diagnosis.
fn harmful(truth: &Value, report: &Report) -> Vec<String> {
    let bad = words(&truth["bad_advice"]);
    let mut out = Vec::new();
    for d in &report.diagnoses {
        for (name, value) in d.fixes.iter().filter_map(|f| f.env.as_ref()).flatten() {
            let set = format!("{name}={value}");
            if bad.iter().any(|b| *b == set || b == name) {
                out.push(format!("{}: {set}", d.cause));
            }
        }
    }
    out
}

#[test]
fn first_answers_are_right() {
    let mut table = String::new();
    let (mut right, mut wrong, mut blind, mut harm, mut called_healthy) = (0, 0, 0, 0, 0);
    for (name, path) in common::all("cases") {
        let truth: Value = serde_json::from_slice(&std::fs::read(path.join("truth.json")).unwrap()).unwrap();
        let report = common::report(&common::given(&common::input("cases", &name)), &common::options());
        let first = match report.verdict {
            Verdict::Healthy => "ok/clean".to_string(),
            _ => common::first(&report).to_string(),
        };
        let mut accepted = words(&truth["also_ok"]);
        accepted.push(truth["cause"].as_str().unwrap().to_string());
        let ok = accepted.contains(&first);
        let mut faults = Vec::new();
        if ok {
            right += 1;
            let missing = missing(&truth, &report);
            if !missing.is_empty() {
                blind += 1;
                faults.push(missing);
            }
        } else {
            faults.push(format!("{first:?} instead of {accepted:?}"));
        }
        if words(&truth["wrong"]).contains(&first) {
            wrong += 1;
            faults.push("plainly wrong".into());
        }
        let bad = harmful(&truth, &report);
        if !bad.is_empty() {
            harm += 1;
            faults.push(format!("harmful advice {bad:?}"));
        }
        if report.verdict == Verdict::Healthy && !ok {
            called_healthy += 1;
            faults.push("called healthy".into());
        }
        if !faults.is_empty() {
            let _ = writeln!(table, "{name:36} {}", faults.join("; "));
        }
    }
    let counts = format!(
        "{right} right (at least {RIGHT}), {wrong} plainly wrong, {blind} culprits missed, {harm} with harmful \
         advice, {called_healthy} called healthy\n{table}"
    );
    assert!(right >= RIGHT && wrong == 0 && blind <= CULPRITS_MISSED, "{counts}");
    assert!(harm == 0 && called_healthy == 0, "{counts}");
}
