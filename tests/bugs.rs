//! Known faults of releases: each that a log can show is told with its
//! diagnosis in every release of its range, and not just outside of it, nor
//! without its symptom.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;

use ncclcheck::base::{Release, ReleaseRange};
use ncclcheck::engine::Options;
use ncclcheck::input::Given;
use ncclcheck::knowledge::Bug;

/// Releases of NCCL that were tagged.
const RELEASES: &str = "2.3.5 2.3.7 2.4.2 2.4.6 2.4.7 2.4.8 2.5.6 2.5.7 2.6.4 2.7.3 2.7.5 2.7.6 2.7.8 2.8.3 2.8.4 2.9.6 \
    2.9.8 2.9.9 2.10.3 2.11.4 2.12.7 2.12.10 2.12.12 2.13.4 2.14.3 2.15.1 2.15.5 2.16.2 2.16.5 2.17.1 2.18.1 2.18.3 \
    2.18.5 2.19.1 2.19.3 2.19.4 2.20.3 2.20.5 2.21.5 2.22.3 2.23.4 2.24.3 2.25.1 2.26.2 2.26.3 2.26.5 2.27.3 2.27.5 \
    2.27.6 2.27.7 2.28.3 2.28.7 2.28.9 2.29.2 2.29.3 2.29.7 2.30.3 2.30.4 2.30.7 2.31.2 2.32.3";

fn releases() -> Vec<Release> {
    RELEASES.split_whitespace().map(|r| Release::parse(r).unwrap()).collect()
}

/// Faults that the report tells of.
fn told(text: &str) -> Vec<String> {
    let given = [Given::Bytes { name: "job.log".into(), data: text.into() }];
    let report = common::engine().diagnose(&given, &Options { threads: 1, ..Options::default() }).unwrap();
    report.diagnoses.iter().flat_map(|d| d.known_bugs.iter().map(|b| b.fault.clone())).collect()
}

fn visible() -> Vec<&'static Bug> {
    common::engine().knowledge.tables.bugs.iter().filter(|b| !b.sample.is_empty()).collect()
}

#[test]
fn many_faults_can_be_seen_in_a_log() {
    assert!(visible().len() >= 25, "{}", visible().len());
}

#[test]
fn each_is_told_at_both_ends_of_its_range_and_not_beyond() {
    let mut wrong = Vec::new();
    for bug in visible() {
        let range = ReleaseRange::parse(&bug.releases).unwrap();
        let all = releases();
        let inside: Vec<Release> = all.iter().copied().filter(|r| range.contains(*r)).collect();
        let before = all.iter().copied().rfind(|r| range.from.is_some_and(|f| *r < f));
        let after = all.iter().copied().find(|r| range.to.is_some_and(|t| *r > t));
        let of = |r: Release| told(&bug.sample.replace("{release}", &r.to_string())).contains(&bug.fault);
        for r in [inside[0], inside[inside.len() - 1]] {
            if !of(r) {
                wrong.push(format!("{} is not told for {r}", bug.fault));
            }
        }
        for r in before.into_iter().chain(after) {
            if of(r) {
                wrong.push(format!("{} is told for {r}", bug.fault));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The release with a failure of another kind: a release alone is nothing.
#[test]
fn a_release_alone_tells_of_no_fault() {
    for release in releases() {
        let text = format!(
            "kf21:501:501 [0] NCCL INFO NCCL version {release}+cuda12.4\n[rank1]: Traceback (most recent call last):\n\
             [rank1]:   File \"/src/train.py\", line 3, in <module>\n[rank1]: KeyError: 'lr'\n"
        );
        assert_eq!(told(&text), Vec::<String>::new(), "{release}");
    }
}

/// The symptom with no release in sight.
#[test]
fn a_symptom_without_a_release_tells_of_no_fault() {
    for bug in visible() {
        let lines = bug.sample.lines().filter(|l| !l.contains("{release}"));
        let text = lines.collect::<Vec<_>>().join("\n") + "\n";
        assert!(!told(&text).contains(&bug.fault), "{}", bug.fault);
    }
}
