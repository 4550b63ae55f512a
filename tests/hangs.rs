//! Hangs as Flight Recorder dumps show them: faults planted in made jobs, and
//! the whole way from the files to the report. The right cause, the right
//! culprit, and nobody else.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;
#[path = "common/faults.rs"]
mod faults;
#[path = "common/fleet.rs"]
mod fleet;

use faults::{KINDS, Kind, Truth, plant, two};
use fleet::{Fleet, Style};
use ncclcheck::report::Report;

type Files = Vec<(String, Vec<u8>)>;

fn dumps(job: &Fleet, style: &Style) -> Files {
    (0..job.ranks.len())
        .map(|r| (format!("dumps/comm_lib_trace_rank_{r}"), job.dump(r, style, 2000)))
        .collect()
}

fn read(files: &Files) -> Report {
    common::report(&common::given(files), &common::options())
}

/// Nothing where the report says what is true.
fn wrong(report: &Report, truth: &Truth) -> Option<String> {
    let said: Vec<_> =
        report.diagnoses.iter().map(|d| (d.cause.as_str(), d.culprits.ranks.clone())).collect();
    let right = report.diagnoses.len() == 1
        && truth.causes.contains(&said[0].0)
        && said[0].1 == truth.ranks
        && report.diagnoses[0].confidence >= 0.5;
    (!right).then(|| format!("{said:?} instead of {:?} {:?}", truth.causes, truth.ranks))
}

/// All kinds on all ranks; more than once where `NCCLCHECK_SEEDS` says so.
fn all(check: impl Fn(Kind, usize, u64) -> Option<String>) {
    let mut table = String::new();
    let seeds = std::env::var("NCCLCHECK_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for (kind, turn) in KINDS.into_iter().flat_map(|k| (0..seeds).map(move |t: u64| (k, t))) {
        for rank in 0..8 {
            let seed = rank as u64 * 3 + kind as u64 + turn * 1000;
            if let Some(what) = check(kind, rank, seed) {
                table.push_str(&format!("{kind:?} rank {rank} seed {seed}: {what}\n"));
            }
        }
    }
    assert!(table.is_empty(), "\n{table}");
}

#[test]
fn every_fault_on_every_rank() {
    all(|kind, rank, seed| {
        let (job, truth) = plant(kind, rank, seed);
        wrong(&read(&dumps(&job, &Style::default())), &truth)
    });
}

#[test]
fn as_json_and_without_counters() {
    all(|kind, rank, seed| {
        if !(rank + kind as usize).is_multiple_of(4) {
            return None;
        }
        let (job, truth) = plant(kind, rank, seed + 100);
        let style = Style { json: rank.is_multiple_of(2), plain: rank.is_multiple_of(3), ..Style::default() };
        wrong(&read(&dumps(&job, &style)), &truth)
    });
}

#[test]
fn with_a_host_in_the_name() {
    let (job, truth) = plant(Kind::Missing, 6, 4);
    let files: Files = (0..8)
        .map(|r| {
            (format!("nccl_trace_rank_gpu-a{:02}_{r}", r / 4 + 17), job.dump(r, &Style::default(), 2000))
        })
        .collect();
    assert_eq!(wrong(&read(&files), &truth), None);
}

#[test]
fn with_a_buffer_that_wrapped_on_one_rank() {
    for (kind, rank, small) in
        [(Kind::Missing, 5, 2), (Kind::Missing, 5, 5), (Kind::Op, 1, 3), (Kind::Size, 0, 7)]
    {
        let (job, truth) = plant(kind, rank, 9);
        let mut files = dumps(&job, &Style::default());
        files[small].1 = job.dump(small, &Style::default(), 4);
        assert_eq!(wrong(&read(&files), &truth), None, "{kind:?} {small}");
    }
}

#[test]
fn one_dump_absent_or_cut() {
    for (kind, rank) in [(Kind::Missing, 2), (Kind::Op, 0), (Kind::MissingInTensor, 7)] {
        for other in [4, 6] {
            let (job, truth) = plant(kind, rank, 21);
            let mut files = dumps(&job, &Style::default());
            let half = files[other].1.len() / 2;
            files[other].1.truncate(half);
            assert_eq!(wrong(&read(&files), &truth), None, "{kind:?} cut {other}");
            files.remove(other);
            assert_eq!(wrong(&read(&files), &truth), None, "{kind:?} absent {other}");
        }
    }
    // The one that is absent is the one for which all wait.
    for rank in [0, 3, 7] {
        let (job, truth) = plant(Kind::Missing, rank, 22);
        let mut files = dumps(&job, &Style::default());
        files.remove(rank);
        assert_eq!(wrong(&read(&files), &truth), None, "the dump of {rank}");
    }
}

#[test]
fn as_gloo_writes() {
    for (kind, rank) in [(Kind::Missing, 3), (Kind::Op, 5), (Kind::WrongPeer, 0), (Kind::OrderInGroup, 0)] {
        let (job, truth) = plant(kind, rank, 33);
        let style = Style { gloo: true, ..Style::default() };
        assert_eq!(wrong(&read(&dumps(&job, &style)), &truth), None, "{kind:?}");
    }
}

#[test]
fn scheduled_on_one_rank_only() {
    for rank in [0, 6] {
        // All are at the operation over all ranks, and on one the device has not begun it.
        let mut job = Fleet::training(40 + rank as u64, 3);
        job.programs.iter_mut().for_each(|p| p[8].sticks = true);
        job = job.run();
        let last = job.ranks[rank].iter_mut().find(|d| !d.ended).unwrap();
        last.started = false;
        let style = Style { timing: true, ..Style::default() };
        let truth = Truth { causes: &["app/rank-missing", "app/rank-slow"], ranks: vec![rank as u32] };
        assert_eq!(wrong(&read(&dumps(&job, &style)), &truth), None, "{rank}");
    }
}

#[test]
fn uneven_splits_that_fit_accuse_nobody() {
    let mut job = Fleet::training(3, 2);
    for (rank, program) in job.programs.iter_mut().enumerate() {
        let mut call = fleet::collective(0, "all_to_all", 10 + rank as i64, 17 - rank as i64);
        call.sticks = true;
        program.push(call);
    }
    let truth = Truth { causes: &["unknown/hang"], ranks: Vec::new() };
    assert_eq!(wrong(&read(&dumps(&job.run(), &Style::default())), &truth), None);
}

#[test]
fn two_faults_are_both_named() {
    for differs in [false, true] {
        for (a, b) in [(0, 0), (2, 3), (3, 1)] {
            let report = read(&dumps(&two(7, a, b, differs), &Style::default()));
            let named: Vec<_> =
                report.diagnoses.iter().map(|d| (d.cause.as_str(), &d.culprits.ranks[..])).collect();
            let (x, y) = (a as u32, b as u32 + 4);
            if differs {
                assert!(named.contains(&("app/rank-missing", &[x])), "{named:?}");
                assert!(named.contains(&("app/collective-mismatch", &[y])), "{named:?}");
                assert_eq!(named.len(), 2, "{named:?}");
            } else {
                assert_eq!(named, [("app/rank-missing", &[x, y][..])]);
            }
        }
    }
}

#[test]
fn a_job_at_rest_is_no_hang() {
    let job = Fleet::training(5, 4).run();
    assert!(job.waiting().is_empty());
    assert_eq!(read(&dumps(&job, &Style::default())).diagnoses.len(), 0);
}

/// Releases before the ranks' marks in front of lines: only the text says who speaks, and every one of them counts.
#[test]
fn every_rank_that_a_watchdog_line_names_has_come() {
    use std::fmt::Write as _;
    for (world, absent) in [(8_u32, None), (16, None), (16, Some(11)), (40, Some(0))] {
        let mut log = String::new();
        for r in 0..world {
            let pid = 700 + r;
            writeln!(
                log,
                "gx{}:{pid}:{} [{}] NCCL INFO comm 0x7f40{r:06x} rank {r} nranks {world} cudaDev {} busId {}a000 - Init COMPLETE",
                r / 8,
                pid + 400,
                r % 8,
                r % 8,
                r % 8
            )
            .unwrap();
        }
        for r in (0..world).rev().filter(|r| Some(*r) != absent) {
            writeln!(
                log,
                "[E ProcessGroupNCCL.cpp:474] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=6, OpType=ALLREDUCE, Timeout(ms)=600000) ran for {} milliseconds before timing out.",
                600_100 + (r * 37) % 89
            )
            .unwrap();
        }
        let report = read(&vec![("job.log".to_owned(), log.into_bytes())]);
        let first = &report.diagnoses[0];
        match absent {
            None => {
                assert_ne!(first.cause, "app/rank-missing", "{world} ranks: all of them came");
                assert!(first.culprits.ranks.is_empty(), "{:?}", first.culprits.ranks);
            }
            Some(r) => {
                assert_eq!(first.cause, "app/rank-missing");
                assert_eq!(first.culprits.ranks, [r]);
            }
        }
    }
}
