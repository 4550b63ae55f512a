//! The text report of made-up jobs, as it stands on a terminal.

use super::{SCREEN, Style, write};
use crate::report::*;
use std::collections::BTreeMap;
use unicode_width::UnicodeWidthStr;

fn line(source: &str, line: u64, rank: Option<u32>, text: &str) -> Evidence {
    Evidence {
        source: source.into(),
        line,
        time: Some("2026-03-04T05:06:07".into()),
        time_text: Some("2026-03-04 05:06:07".into()),
        rank,
        rank_by: rank.map(|_| "by its process"),
        host: Some("node2".into()),
        text: text.into(),
        cut: false,
        message: "nccl.ib.completion-error".into(),
        count: 1,
    }
}

fn retry() -> Diagnosis {
    Diagnosis {
        cause: "net/ib-retry-exceeded".into(),
        title: "RDMA gave up: node7 stopped answering".into(),
        why: "Two ranks on two hosts sent to node7 and got no acknowledgement after seven retries. \
              Nothing was heard from node7 after 05:05:40; the others waited 27 s."
            .into(),
        confidence: 0.93,
        severity: "fatal",
        culprits: Culprits { ranks: vec![56], hosts: vec!["node7".into()], devices: vec!["mlx5_3".into()] },
        evidence: vec![
            line(
                "logs/rank3.log",
                1203,
                Some(3),
                "node2:4121:4377 [3] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer \
                 10.0.1.22<45231> with error 12, opcode 0, len 0, vendor err 129 (Recv)",
            ),
            line("logs/rank9.log", 988, Some(9), "short proof"),
        ],
        explains: vec![
            Consequence {
                cause: Some("net/peer-closed".into()),
                symptom: Some("lost their connection to it".into()),
                ranks: (0..56).collect(),
                count: 61,
                evidence: vec![],
            },
            Consequence {
                cause: None,
                symptom: Some("were ended by their launcher".into()),
                ranks: vec![57, 58],
                count: 2,
                evidence: vec![],
            },
        ],
        fixes: vec![
            Fix {
                intent: "fix",
                text: "Look at node7: its kernel log and port counters of mlx5_3.".into(),
                env: None,
                cost: String::new(),
                verify: "ibstat shows the port Active, and the error counters stand still for ten minutes."
                    .into(),
            },
            Fix {
                intent: "workaround",
                text: "Let the adapter wait longer where the fabric pauses.".into(),
                env: Some(BTreeMap::from([
                    ("NCCL_IB_RETRY_CNT".into(), "7".into()),
                    ("NCCL_IB_TIMEOUT".into(), "22".into()),
                ])),
                cost: "A dead peer is noticed minutes later.".into(),
                verify: "No status 12 in the next run.".into(),
            },
        ],
        mistaken_for: "A crash on node7 looks the same from here; its own log would end with an error."
            .into(),
        alternatives: vec![Alternative {
            cause: "net/ib-link-down".into(),
            title: "A port went down".into(),
            confidence: 0.31,
        }],
        references: vec!["https://example.org/retry".into()],
        known_bugs: Vec::new(),
    }
}

fn job() -> Job {
    Job {
        world_size: Some(64),
        ranks_seen: "0-63".into(),
        hosts: (0..8)
            .map(|i| Host { name: format!("node{i}"), ranks: format!("{}-{}", i * 8, i * 8 + 7) })
            .collect(),
        versions: BTreeMap::from([
            ("nccl".into(), vec!["2.21.5".into()]),
            ("torch".into(), vec!["2.4.0".into()]),
        ]),
        networks: vec!["IB".into()],
        last_step: Some("iteration 1200".into()),
        ..Job::default()
    }
}

fn report(verdict: Verdict, summary: &str, diagnoses: Vec<Diagnosis>) -> Report {
    Report {
        schema: "ncclcheck.report/1",
        verdict,
        summary: summary.into(),
        diagnoses,
        not_seen: vec!["The log of node7 ends before the fault: give its kernel log.".into()],
        job: job(),
        attempts: vec![],
        notices: vec![],
        timeline: vec![],
        inputs: vec![Input { path: "logs/rank3.log".into(), bytes: 90_000, lines: 1400, problems: vec![] }],
        folded: vec![],
    }
}

fn fault() -> Report {
    report(Verdict::Fault, "RDMA to node7 stopped at 05:06:07 and the job ended.", vec![retry()])
}

fn styled(report: &Report, width: usize, verbose: bool) -> String {
    let mut out = Vec::new();
    write(report, Style { width, verbose }, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn text(report: &Report, width: usize) -> String {
    anstream::adapter::strip_str(&styled(report, width, false)).to_string()
}

#[test]
fn one_fault() {
    insta::assert_snapshot!(text(&fault(), 80));
}

#[test]
fn one_fault_on_a_narrow_terminal() {
    insta::assert_snapshot!(text(&fault(), 40));
}

#[test]
fn one_fault_on_a_wide_terminal() {
    insta::assert_snapshot!(text(&fault(), 200));
}

#[test]
fn everything() {
    let mut report = fault();
    report.job.environment.insert("NCCL_IB_TIMEOUT".into(), vec!["18".into(), "20".into()]);
    report.job.ranks = vec![RankState {
        rank: 56,
        state: "silent",
        last: Some(line("a.log", 7, Some(56), "last words")),
        end: None,
    }];
    report.timeline = vec![line("a.log", 7, Some(56), "last words")];
    insta::assert_snapshot!(anstream::adapter::strip_str(&styled(&report, 80, true)).to_string());
}

#[test]
fn colours_are_in_the_stream() {
    let report = fault();
    let first = styled(&report, 80, false).lines().next().map(str::to_string).unwrap();
    assert!(first.starts_with("\u{1b}[1m\u{1b}[31mFAULT:"), "{first:?}");
}

#[test]
fn degraded_with_several_runs() {
    let mut slow = retry();
    slow.cause = "perf/socket-fallback".into();
    slow.title = "TCP sockets are used although there is RDMA".into();
    slow.severity = "degraded";
    slow.culprits = Culprits { ranks: vec![], hosts: vec!["node3".into()], devices: vec![] };
    slow.explains.clear();
    let mut report = report(Verdict::Degraded, "The job runs over TCP sockets.", vec![slow]);
    report.attempts = vec![
        Attempt {
            n: 1,
            first: "1".into(),
            last: "9".into(),
            end: "failed",
            cause: Some("memory/gpu-oom-app".into()),
        },
        Attempt { n: 2, first: "10".into(), last: "20".into(), end: "at work", cause: None },
    ];
    report.not_seen.clear();
    insta::assert_snapshot!(text(&report, 80));
}

#[test]
fn healthy() {
    let mut report = report(Verdict::Healthy, "64 ranks ran and ended well.", vec![]);
    report.not_seen.clear();
    report.job.end = End {
        state: "well",
        how: "rank 0 said that training is done, and the launcher saw all workers end with 0".into(),
        evidence: vec![line("logs/rank0.log", 5512, Some(0), "Training finished in 3:12:44")],
    };
    report.job.first = Some("2026-03-04 01:00:00".into());
    report.job.last = Some("2026-03-04 04:13:00".into());
    let mut odd = retry();
    odd.severity = "notice";
    odd.cause = "env/bad-value".into();
    odd.title = "NCCL_TIMEOUT is set and nobody reads it".into();
    report.notices = vec![odd];
    insta::assert_snapshot!(text(&report, 80));
}

#[test]
fn nothing_to_judge_by() {
    let mut report = report(Verdict::Inconclusive, "The input has no line of a job in it.", vec![]);
    report.job = Job::default();
    report.not_seen = vec![
        "Give the output of all ranks, standard error included.".into(),
        "Run again with NCCL_DEBUG=INFO.".into(),
    ];
    report.inputs =
        vec![Input { path: "-".into(), bytes: 0, lines: 0, problems: vec!["it is empty".into()] }];
    insta::assert_snapshot!(text(&report, 80));
}

#[test]
fn a_hang_without_a_reason() {
    let mut hang = retry();
    hang.cause = "unknown/hang".into();
    hang.title = "The ranks wait for each other and the log does not say why".into();
    hang.confidence = 0.55;
    hang.culprits = Culprits::default();
    hang.alternatives.clear();
    hang.fixes.truncate(1);
    hang.fixes[0].intent = "diagnostic";
    insta::assert_snapshot!(text(&report(Verdict::Inconclusive, "The job hung.", vec![hang]), 80));
}

/// More of everything than fits.
fn huge() -> Report {
    let mut report = fault();
    let d = &mut report.diagnoses[0];
    d.culprits.ranks = (0..16384).filter(|r| r % 2 == 0).collect();
    d.culprits.hosts = (0..2048).map(|i| format!("node{i:04}")).collect();
    d.why = "One sentence of many words that goes on. ".repeat(30);
    for i in 0..40 {
        let mut proof = d.evidence[0].clone();
        proof.line = i;
        d.evidence.push(proof);
        d.explains.push(d.explains[0].clone());
        d.fixes.push(d.fixes[1].clone());
        d.alternatives.push(d.alternatives[0].clone());
    }
    let again = d.clone();
    report.diagnoses.extend(std::iter::repeat_n(again, 30));
    report.notices = report.diagnoses.clone();
    report.not_seen = vec![report.not_seen[0].clone(); 30];
    report.inputs[0].problems = vec!["cut in the middle of a message".into(); 30];
    report.folded = vec!["3 million lines of rank 7 were folded".into(); 30];
    report
}

#[test]
fn more_than_fits_stays_a_screen() {
    let page = text(&huge(), 100);
    assert!(page.lines().count() <= SCREEN, "{page}");
    insta::assert_snapshot!(page);
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for report in [fault(), huge()] {
        for width in (20..64).chain([80, 200]) {
            for line in text(&report, width).lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
    }
}

/// A text without blanks and line ends.
fn flat(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn a_narrow_page_loses_nothing() {
    let report = fault();
    let d = &report.diagnoses[0];
    for width in [20, 23, 31, 45, 59] {
        let plain = flat(&anstream::adapter::strip_str(&styled(&report, width, true)).to_string());
        for fix in &d.fixes {
            assert!(
                plain.contains(&flat(&fix.text)) && plain.contains(&flat(&fix.verify)),
                "{width}: {}",
                fix.text
            );
        }
        for text in [&report.summary, &d.why, &d.cause, &d.evidence[0].text, &d.evidence[0].source] {
            assert!(plain.contains(&flat(text)), "{width}: {text}");
        }
        // The short form has the cause, the place and the first thing to do.
        let short = flat(&text(&report, width));
        for text in [&d.cause, &d.culprits.hosts[0], &d.fixes[0].text] {
            assert!(short.contains(&flat(text)), "{width}: {text}\n{short}");
        }
    }
}

#[test]
fn a_long_word_breaks_where_it_has_a_joint() {
    let mut page = super::Page::new(24);
    page.flow("", "", &[(super::PLAIN, "/scratch/team/run-4711/worker.log".into())], usize::MAX);
    let lines: Vec<String> =
        page.lines().iter().map(|l| anstream::adapter::strip_str(l).to_string()).collect();
    assert_eq!(lines, ["/scratch/team/run-4711/", "worker.log"]);
}

#[test]
fn hostile_text_is_made_visible() {
    let bad = "\u{1b}]0;owned\u{7}\u{1b}[2J\r\nok \u{202e}gpj.exe\u{200b}\u{9b}31m";
    let mut report = fault();
    report.summary = bad.into();
    report.not_seen = vec![bad.into()];
    report.inputs[0].path = bad.into();
    report.inputs[0].problems = vec![bad.into()];
    report.job.last_step = Some(bad.into());
    report.job.versions.insert(bad.into(), vec![bad.into()]);
    report.job.hosts[0].name = bad.into();
    let d = &mut report.diagnoses[0];
    for field in [&mut d.title, &mut d.why, &mut d.cause, &mut d.mistaken_for] {
        *field = bad.into();
    }
    d.culprits.hosts = vec![bad.into()];
    d.evidence[0].text = bad.into();
    d.evidence[0].source = bad.into();
    d.explains[0].symptom = Some(bad.into());
    d.fixes[0].text = bad.into();
    d.fixes[0].env = Some(BTreeMap::from([("A".into(), bad.into())]));
    let plain = anstream::adapter::strip_str(&styled(&report, 80, true)).to_string();
    let styled = styled(&report, 80, true);
    for c in ['\u{7}', '\r', '\u{202e}', '\u{200b}', '\u{9b}'] {
        assert!(!styled.contains(c), "{c:?}");
    }
    assert!(!plain.contains('\u{1b}'));
    assert_eq!(styled.matches('\u{1b}').count(), styled.matches("\u{1b}[").count());
    assert!(!styled.contains("\u{1b}[2J") && !styled.contains("\u{1b}]"));
}
