//! One planted fault as log lines, as dumps, and as both: they name the same
//! cause and culprit, or what sees less says that the input does not show it.
//! Never another culprit.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;
#[path = "common/faults.rs"]
mod faults;
#[path = "common/fleet.rs"]
mod fleet;
#[path = "common/fleet_log.rs"]
mod fleet_log;

use faults::{KINDS, Kind, Truth, plant};
use fleet::{Fleet, Style};
use fleet_log::Talk;
use ncclcheck::report::Report;

type Files = Vec<(String, Vec<u8>)>;

fn dumps(job: &Fleet) -> Files {
    (0..job.ranks.len())
        .map(|r| (format!("dumps/comm_lib_trace_rank_{r}"), job.dump(r, &Style::default(), 2000)))
        .collect()
}

/// One file a rank, or all ranks' lines in one.
fn logs(job: &Fleet, talk: Talk, merged: bool) -> Files {
    let each: Vec<String> = (0..job.ranks.len()).map(|r| job.log(r, talk)).collect();
    if !merged {
        return each
            .into_iter()
            .enumerate()
            .map(|(r, text)| (format!("rank_{r}.log"), text.into_bytes()))
            .collect();
    }
    // In turns, as a launcher joins them.
    let mut lines: Vec<_> = each.iter().map(|t| t.lines()).collect();
    let mut out = String::new();
    loop {
        let before = out.len();
        for rank in &mut lines {
            if let Some(line) = rank.next() {
                out.push_str(line);
                out.push('\n');
            }
        }
        if out.len() == before {
            return vec![("job.log".into(), out.into_bytes())];
        }
    }
}

fn read(files: &Files) -> Report {
    common::report(&common::given(files), &common::options())
}

fn said(report: &Report) -> Vec<(String, Vec<u32>)> {
    report.diagnoses.iter().map(|d| (d.cause.clone(), d.culprits.ranks.clone())).collect()
}

fn right(report: &Report, truth: &Truth) -> bool {
    let said = said(report);
    said.len() == 1 && truth.causes.contains(&said[0].0.as_str()) && said[0].1 == truth.ranks
}

/// Right, or an unknown cause that accuses nobody and says what to collect.
fn less(report: &Report, truth: &Truth) -> bool {
    let modest = |d: &ncclcheck::report::Diagnosis| {
        d.cause.starts_with("unknown/") && d.culprits.ranks.is_empty() && !d.fixes.is_empty()
    };
    right(report, truth) || (report.diagnoses.len() == 1 && modest(&report.diagnoses[0]))
}

#[test]
fn logs_and_dumps_agree() {
    let mut table = String::new();
    let (mut told, mut all) = (0, 0);
    let seeds = std::env::var("NCCLCHECK_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for (kind, turn) in KINDS.into_iter().flat_map(|k| (0..seeds).map(move |t: u64| (k, t))) {
        for rank in 0..8usize {
            let seed = 7 + rank as u64 * 5 + kind as u64 + turn * 1000;
            let (job, truth) = plant(kind, rank, seed);
            let talk = Talk { nccl: seed.is_multiple_of(3), signals: seed.is_multiple_of(2) };
            let lines = logs(&job, talk, seed % 4 < 2);
            let from_lines = read(&lines);
            let mut both = lines;
            both.extend(dumps(&job));
            let from_both = read(&both);
            all += 1;
            told += usize::from(right(&from_lines, &truth));
            if !less(&from_lines, &truth) {
                table.push_str(&format!(
                    "{kind:?} rank {rank} seed {seed} {talk:?}: lines {:?}, truth {truth:?}\n",
                    said(&from_lines)
                ));
            }
            if !right(&from_both, &truth) {
                table.push_str(&format!(
                    "{kind:?} rank {rank} seed {seed} {talk:?}: both {:?}, truth {truth:?}\n",
                    said(&from_both)
                ));
            }
        }
    }
    assert!(table.is_empty(), "\n{table}");
    // Lines show less than dumps, but not nothing.
    assert!(told * 2 >= all, "{told} of {all} told from lines alone");
}

#[test]
fn lines_alone_name_who_is_missing() {
    for rank in 0..8 {
        for kind in [Kind::Missing, Kind::MissingInTensor] {
            let (job, truth) = plant(kind, rank, 50 + rank as u64);
            for (nccl, signals) in [(true, false), (false, true), (true, true), (false, false)] {
                let report = read(&logs(&job, Talk { nccl, signals }, true));
                assert!(right(&report, &truth), "{kind:?} {rank} {nccl} {signals}: {:?}", said(&report));
            }
        }
    }
}

#[test]
fn a_rank_that_is_only_told_and_stands_there_too_is_not_blamed() {
    // Rank 3 never comes; rank 5 has entered what the others wait in, and its own time was not up yet.
    let (job, truth) = plant(Kind::Missing, 3, 61);
    let talk = Talk { nccl: false, signals: true };
    let files: Files = logs(&job, talk, false)
        .into_iter()
        .enumerate()
        .map(|(rank, (name, text))| {
            let text = String::from_utf8(text).unwrap();
            let own = |l: &&str| rank != 5 || !(l.contains("atchdog"));
            let text: String = text.lines().filter(own).map(|l| format!("{l}\n")).collect();
            (
                name,
                text.replace(
                    "from this local rank",
                    if rank == 5 { "from  rank 0" } else { "from this local rank" },
                )
                .into_bytes(),
            )
        })
        .collect();
    let report = read(&files);
    assert!(right(&report, &truth), "{:?}", said(&report));
}
