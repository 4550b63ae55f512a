//! Shapes, templates, stores that are merged in any order, drafts.

use super::*;
use proptest::prelude::*;

fn example(job: &str, line: u64, text: &str) -> Example {
    Example {
        job: job.into(),
        source: format!("{job}.log"),
        line,
        rank: None,
        message: "unknown".into(),
        text: text.into(),
    }
}

fn job(name: &str, outcome: Outcome, lines: &[&str]) -> JobTemplates {
    let mut out = JobTemplates::new(name.into(), outcome);
    for (line, text) in (1..).zip(lines) {
        out.add(shape(body(text)), 1, example(name, line, text));
    }
    out
}

fn store(jobs: &[JobTemplates]) -> Store {
    let mut out = Store::default();
    jobs.iter().cloned().for_each(|j| out.add(j));
    out
}

#[test]
fn what_varies_from_run_to_run_is_a_mark() {
    let cases = [
        ("lease 4711 of 10.0.0.7:29500 lost after 12ms", "lease <n> of <addr> lost after <n>ms"),
        ("peer 10.1.2.3<45231> closed, errno=104", "peer <addr> closed, errno=<n>"),
        ("cannot read /data/run-4711/part.3 (code 0x7f3a)", "cannot read <path> (code <x>)"),
        ("node07: disk sdb2 failed at 10:11:12.345", "node<n>: disk sdb<n> failed at <time>"),
        ("token 3f2a9c1d-77aa-4b1e-9d2f-0c1b2a3d4e5f refused", "token <id> refused"),
        ("transport/net_ib.cc:1295 gave up", "transport/net_ib.cc:<n> gave up"),
        ("see https://example.org/x?y=1 for help", "see <url> for help"),
        ("mount failed:  no   such device", "mount failed: no such device"),
    ];
    for (text, want) in cases {
        assert_eq!(shape(text), want, "{text}");
    }
}

#[test]
fn marks_of_launchers_and_loggers_are_no_part_of_a_text() {
    for line in [
        "[rank3]: scratch quota failed",
        "node1:42:77 [0] NCCL WARN scratch quota failed",
        "2026-02-03 10:11:12,345 - root - ERROR - scratch quota failed",
        "[rank3]:[E203 10:30:00.123456789 Loader.cpp:632] scratch quota failed",
    ] {
        assert!(shape(body(line)).ends_with("scratch quota failed"), "{line}: {}", body(line));
    }
    assert_eq!(body("[rank3]: scratch quota failed"), body("[rank7]: scratch quota failed"));
}

#[test]
fn program_text_is_no_trouble() {
    assert!(is_code("    raise TrainingError(code)"));
    assert!(is_code("[rank3]:     failed = store.get(key)"));
    assert!(is_code("    if code: raise RuntimeError(\"failure in data pipeline\")"));
    assert!(!is_code("scratch quota failed (code 3)"));
    assert!(!is_code("    the scratch quota failed (code 3)"));
}

#[test]
fn four_values_of_one_word_are_one_template_and_two_kinds_of_failure_are_not() {
    let names = ["ann", "bob", "eve", "joe"];
    let lines: Vec<String> = names.iter().map(|n| format!("user {n} failed to get a lease")).collect();
    let mut all: Vec<&str> = lines.iter().map(String::as_str).collect();
    all.extend(["the store refused a lease", "the store aborted a lease"]);
    let clusters = store(&[job("a", Outcome::Failed, &all)]).clusters();
    let templates: Vec<&str> = clusters.iter().map(|c| c.template.as_str()).collect();
    assert_eq!(
        templates,
        ["user <*> failed to get a lease", "the store refused a lease", "the store aborted a lease"]
    );
    assert_eq!(clusters[0].seen.lines, 4);
    assert_eq!(clusters[0].seen.failed.count, 1, "one job, however many of its shapes");
}

#[test]
fn what_failed_jobs_have_and_no_healthy_one_comes_first() {
    let jobs = [
        job("a", Outcome::Failed, &["cache warm-up failed", "lease 1 lost, giving up"]),
        job("b", Outcome::Failed, &["cache warm-up failed", "lease 2 lost, giving up"]),
        job("c", Outcome::Failed, &["cache warm-up failed", "odd parity, cannot go on"]),
        job("d", Outcome::Healthy, &["cache warm-up failed"]),
    ];
    let clusters = store(&jobs).clusters();
    let order: Vec<(&str, u64, u64)> =
        clusters.iter().map(|c| (c.template.as_str(), c.seen.failed.count, c.seen.healthy.count)).collect();
    assert_eq!(
        order,
        [
            ("lease <n> lost, giving up", 2, 0),
            ("odd parity, cannot go on", 1, 0),
            ("cache warm-up failed", 3, 1)
        ]
    );
}

#[test]
fn too_many_shapes_leave_the_same_ones_whatever_came_first() {
    let letters = |n: usize| (0..4).map(|i| char::from(b'a' + (n >> (4 * i) & 15) as u8)).collect::<String>();
    let lines: Vec<String> = (0..9_000).map(|n| format!("part {} failed", letters(n))).collect();
    let forth: Vec<&str> = lines.iter().map(String::as_str).collect();
    let back: Vec<&str> = forth.iter().rev().copied().collect();
    let of = |lines: &[&str]| {
        let mut out = JobTemplates::new("a".into(), Outcome::Failed);
        lines.iter().for_each(|l| out.add(shape(l), 1, example("a", 1, "x")));
        let mut all = Store::default();
        all.add(out);
        all
    };
    let (a, b) = (of(&forth), of(&back));
    assert!(a.shapes.len() < 9_000 && a.dropped() > 0);
    assert_eq!(a, b);
}

#[test]
fn a_store_is_written_down_and_read_again() {
    let a =
        store(&[job("a", Outcome::Failed, &["lease 1 lost"]), job("b", Outcome::Healthy, &["all failed"])]);
    let text = serde_json::to_string(&a).unwrap();
    assert_eq!(serde_json::from_str::<Store>(&text).unwrap(), a);
}

#[test]
fn parts_of_a_job_are_one_job() {
    let mut a = job("a", Outcome::Healthy, &["lease 1 lost"]);
    a.merge(job("a", Outcome::Failed, &["lease 2 lost"]));
    assert_eq!((a.outcome, a.lines, a.shapes.len()), (Outcome::Failed, 2, 1));
    let all = store(&[a]);
    assert_eq!(all.clusters()[0].seen.failed.count, 1);
}

proptest! {
    #[test]
    fn the_order_of_jobs_and_of_merges_does_not_matter(
        words in proptest::collection::vec((0usize..5, 0usize..6, 0usize..3), 1..60),
        cut in 0usize..60,
    ) {
        let verbs = ["lost", "refused", "dropped", "failed", "left"];
        let who = ["ann", "bob", "eve", "joe", "kim", "lee"];
        let outcomes = [Outcome::Failed, Outcome::Healthy, Outcome::Unclear];
        let jobs: Vec<JobTemplates> = words.iter().enumerate().map(|(i, (v, w, o))| {
            let lines = [format!("the lease of {} was {}", who[*w], verbs[*v]), format!("code {i} failed")];
            job(&format!("job{i}"), outcomes[*o], &[&lines[0], &lines[1]])
        }).collect();
        let whole = store(&jobs);
        let back: Vec<JobTemplates> = jobs.iter().rev().cloned().collect();
        prop_assert_eq!(&whole, &store(&back));
        let cut = cut.min(jobs.len());
        let mut parts = store(&jobs[cut..]);
        parts.merge(store(&jobs[..cut]));
        prop_assert_eq!(&whole, &parts);
        prop_assert_eq!(whole.clusters(), parts.clusters());
    }

    #[test]
    fn any_text_has_a_shape(text in "\\PC*") {
        let _ = shape(body(&text));
        let one = job("a", Outcome::Failed, &[text.as_str()]);
        let clusters = store(&[one]).clusters();
        let _ = draft(&clusters[0], None, &["failed".into()]);
    }
}

#[test]
fn a_draft_is_toml_and_fits_its_lines() {
    let lines = [
        "watch[12]: lease 4711 of 10.0.0.7:29500 \"lost\", fencing failed",
        "watch[9]: lease 3 of 10.0.0.8:29500 \"lost\", fencing failed",
    ];
    let clusters = store(&[job("a", Outcome::Failed, &lines)]).clusters();
    let draft = draft(&clusters[0], None, &["failed".into()]);
    assert_eq!(draft.rule_file, "site/watch-lease-lost-fencing.toml");
    let message: toml::Value = toml::from_str(&draft.message).unwrap();
    let form = &message["message"][0]["form"][0];
    assert_eq!(form["has"].as_str(), Some("\"lost\", fencing failed"));
    assert_eq!(form["sample"].as_array().map(Vec::len), Some(2));
    let pattern = regex::Regex::new(form["pattern"].as_str().unwrap()).unwrap();
    assert_eq!(pattern.captures(lines[0]).unwrap().name("peer").unwrap().as_str(), "10.0.0.7:29500");
    let rule: toml::Value = toml::from_str(&draft.rule).unwrap();
    assert_eq!(rule["id"].as_str(), Some("site/watch-lease-lost-fencing"));
    assert!(draft.rule.contains("FILL:"));
}
