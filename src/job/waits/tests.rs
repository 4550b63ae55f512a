//! Planted faults in collectives: jobs are made as dumps, written, read back
//! and analysed, so that the whole path is tested.

use super::{Fault, FaultKind, Sure, Trace, WaitsInput, WaitsReport, What, analyse};
use crate::dump::make::{Doc, Op, TIMEOUT_MS, done, open};
use crate::dump::{Dump, read};

/// A job: one document a rank.
#[derive(Debug)]
pub(super) struct Job(pub(super) Vec<Doc>);

pub(super) fn group(name: &str, desc: &str, ranks: &[u32]) -> (String, String, Vec<u32>) {
    (name.into(), desc.into(), ranks.to_vec())
}

impl Job {
    /// `size` ranks that have done the first `steps` operations of the default group.
    pub(super) fn new(size: u32, steps: i64) -> Self {
        let all: Vec<u32> = (0..size).collect();
        let doc = Doc {
            version: "2.10",
            groups: vec![group("0", "default_pg", &all)],
            ops: (1..=steps).map(|seq| done("0", seq, "all_reduce", 64)).collect(),
            first_record: 0,
            status: true,
            backend: "nccl",
            nameless: false,
        };
        Self(vec![doc; size as usize])
    }

    /// The groups of these ranks, of which each knows its own only.
    pub(super) fn with_group(mut self, name: &str, desc: &str, ranks: &[u32]) -> Self {
        for rank in ranks {
            self.0[*rank as usize].groups.push(group(name, desc, ranks));
        }
        self
    }

    pub(super) fn push(&mut self, ranks: impl IntoIterator<Item = u32>, op: &Op) {
        for rank in ranks {
            self.0[rank as usize].ops.push(op.clone());
        }
    }

    pub(super) fn files(&self) -> Vec<(u32, Vec<u8>)> {
        (0..).zip(&self.0).map(|(rank, doc)| (rank, doc.pickle())).collect()
    }

    pub(super) fn report(&self) -> WaitsReport {
        report(&self.files())
    }
}

pub(super) fn input(files: &[(u32, Vec<u8>)]) -> WaitsInput {
    let mut input = WaitsInput::default();
    for (rank, bytes) in files {
        let Some((Dump::FlightRecorder(r), _)) = read(bytes, "x") else { panic!("rank {rank}") };
        input.traces.push(Trace::from_recorder(*rank, &format!("dump_{rank}"), r));
    }
    super::resolve(&mut input.traces);
    input
}

pub(super) fn report(files: &[(u32, Vec<u8>)]) -> WaitsReport {
    analyse(&input(files))
}

pub(super) fn only(report: &WaitsReport) -> &Fault {
    assert_eq!(report.faults.len(), 1, "{:#?}", report.faults);
    &report.faults[0]
}

#[test]
fn healthy_is_nothing() {
    for version in ["", "1.4", "2.1", "2.4", "2.9", "2.10"] {
        let mut job = Job::new(8, 30);
        job.push([0, 1, 2, 5], &done("0", 31, "all_reduce", 64));
        job.0.iter_mut().for_each(|d| d.version = version);
        assert!(job.report().faults.is_empty(), "{version} {:#?}", job.report().faults);
    }
}

#[test]
fn one_never_came_in_every_format() {
    for version in ["", "1.4", "2.1", "2.4", "2.9", "2.10"] {
        for json in [false, true] {
            let mut job = Job::new(8, 4);
            job.push((0..8).filter(|r| *r != 6), &open("0", 5, "all_gather", 8));
            job.0.iter_mut().for_each(|d| d.version = version);
            let files: Vec<_> =
                (0..).zip(&job.0).map(|(r, d)| (r, if json { d.json() } else { d.pickle() })).collect();
            let report = report(&files);
            let fault = only(&report);
            assert_eq!((fault.kind, fault.ranks.to_string()), (FaultKind::Missing, "6".into()), "{version}");
            assert_eq!(fault.waiting.to_string(), "0-5,7");
            assert_eq!(fault.frames, ["train_step (/home/user/train.py:14)"]);
            assert_eq!(fault.waiter_frames, ["train_step (/home/user/train.py:15)"]);
            assert_eq!((fault.sure, fault.seq), (Sure::Certain, Some(5)));
        }
    }
}

#[test]
fn whoever_of_eight_is_wrong_is_named() {
    for wrong in 0..8u32 {
        let cases: [(Op, What); 3] = [
            (open("0", 5, "all_reduce", 100), What::Size),
            (Op { dtype: "Half".into(), ..open("0", 5, "all_reduce", 64) }, What::Dtype),
            (open("0", 5, "broadcast", 64), What::Op),
        ];
        for (op, what) in cases {
            let mut job = Job::new(8, 4);
            job.push((0..8).filter(|r| *r != wrong), &open("0", 5, "all_reduce", 64));
            job.push([wrong], &op);
            let report = job.report();
            let fault = only(&report);
            assert_eq!(fault.kind, FaultKind::Mismatch { what });
            assert_eq!(fault.ranks.to_string(), wrong.to_string());
            assert_eq!(fault.waiting.len(), 7);
            assert!(
                fault.detail.contains("where the other 7 called all_reduce of [64] Float"),
                "{}",
                fault.detail
            );
            assert_eq!(fault.sure, Sure::Certain);
        }
    }
}

#[test]
fn two_ranks_cannot_be_told_apart() {
    let mut job = Job::new(2, 4);
    job.push([0], &open("0", 5, "all_reduce", 64));
    job.push([1], &open("0", 5, "broadcast", 64));
    let report = job.report();
    let fault = only(&report);
    assert_eq!((fault.kind, fault.ranks.to_string()), (FaultKind::Mismatch { what: What::Op }, "0,1".into()));
    assert_eq!(fault.sure, Sure::Guess);
    assert!(fault.detail.contains("no majority"), "{}", fault.detail);
}

#[test]
fn swapped_in_one_group_is_an_order() {
    let mut job = Job::new(8, 4);
    for (rank, (a, b)) in
        (0..8).map(|r| (r, if r == 3 { ("broadcast", "all_reduce") } else { ("all_reduce", "broadcast") }))
    {
        job.push([rank], &open("0", 5, a, 64));
        job.push([rank], &open("0", 6, b, 64));
    }
    let report = job.report();
    let fault = only(&report);
    assert_eq!((fault.kind, fault.ranks.to_string()), (FaultKind::Order, "3".into()));
}

fn two_groups() -> Job {
    let all: Vec<u32> = (0..8).collect();
    Job::new(8, 4).with_group("1", "dp", &all).with_group("2", "ep", &all)
}

#[test]
fn swapped_between_groups_is_an_order() {
    // All handed over at once: nobody is missing anywhere, the devices stand across each other.
    let mut job = two_groups();
    for rank in 0..8 {
        let (a, b) = if rank == 5 { ("2", "1") } else { ("1", "2") };
        job.push([rank], &open(a, 1, "all_reduce", 64));
        job.push([rank], &open(b, 1, "all_reduce", 64));
    }
    let report = job.report();
    assert_eq!((only(&report).kind, only(&report).ranks.to_string()), (FaultKind::Order, "5".into()));
    // One at a time: each waits for the others in its own.
    let mut job = two_groups();
    job.push((0..8).filter(|r| *r != 5), &open("1", 1, "all_reduce", 64));
    job.push([5], &open("2", 1, "all_reduce", 64));
    let report = job.report();
    assert_eq!((only(&report).kind, only(&report).ranks.to_string()), (FaultKind::Order, "5".into()));
    assert!(only(&report).detail.contains("wait for one another"), "{}", only(&report).detail);
}

#[test]
fn a_chain_over_groups_ends_at_its_end() {
    let mut job = Job::new(8, 4);
    for pair in 0..4u32 {
        job = job.with_group(&(pair + 1).to_string(), "tp", &[pair * 2, pair * 2 + 1]);
    }
    for pair in 0..4u32 {
        job.push([pair * 2, pair * 2 + 1], &done(&(pair + 1).to_string(), 1, "all_reduce", 8));
    }
    job.push([4], &open("3", 2, "all_reduce", 8));
    for pair in [0, 1, 3u32] {
        job.push([pair * 2, pair * 2 + 1], &done(&(pair + 1).to_string(), 2, "all_reduce", 8));
    }
    job.push([0, 1, 2, 3, 6, 7], &open("0", 5, "all_reduce", 16));
    let report = job.report();
    let fault = only(&report);
    assert_eq!((fault.kind, fault.ranks.to_string()), (FaultKind::Missing, "5".into()));
    assert_eq!((fault.waiting.to_string(), fault.behind.to_string()), ("4".into(), "0-3,6,7".into()));
    assert_eq!(fault.group, "tp (3)");
}

#[test]
fn a_ring_that_wrapped_on_one_rank_is_no_fault() {
    let mut job = Job::new(8, 40);
    job.push((0..8).filter(|r| *r != 2), &open("0", 41, "all_reduce", 64));
    job.0[4].ops.drain(..38);
    job.0[4].first_record = 38;
    for status in [true, false] {
        job.0.iter_mut().for_each(|d| d.status = status);
        let report = job.report();
        assert_eq!((only(&report).kind, only(&report).ranks.to_string()), (FaultKind::Missing, "2".into()));
        assert_eq!(report.groups[0].fronts[4].oldest, Some(39));
    }
}

#[test]
fn a_dump_that_is_not_there_is_named_only_if_nothing_else_explains() {
    let mut job = Job::new(8, 4);
    job.push(0..8, &open("0", 5, "all_reduce", 64));
    let mut files = job.files();
    files.remove(5);
    let fault = report(&files).faults.remove(0);
    assert_eq!((fault.kind, fault.ranks.to_string()), (FaultKind::NoDump, "5".into()));

    let mut job = Job::new(8, 4);
    job.push((0..8).filter(|r| *r != 2), &open("0", 5, "all_reduce", 64));
    let mut files = job.files();
    files.remove(5);
    let report = report(&files);
    assert_eq!((only(&report).kind, only(&report).ranks.to_string()), (FaultKind::Missing, "2".into()));
}

#[test]
fn a_dump_cut_in_half_is_not_blamed() {
    let mut job = Job::new(8, 20);
    job.push((0..8).filter(|r| *r != 2), &open("0", 21, "all_reduce", 64));
    for json in [false, true] {
        let mut files: Vec<_> =
            (0..).zip(&job.0).map(|(r, d)| (r, if json { d.json() } else { d.pickle() })).collect();
        let half = files[6].1.len() / 2;
        files[6].1.truncate(half);
        let report = report(&files);
        assert_eq!((only(&report).kind, only(&report).ranks.to_string()), (FaultKind::Missing, "2".into()));
        assert!(report.problems.iter().any(|p| p.contains("ranks 6")), "{:?}", report.problems);
    }
}

fn gloo(mut op: Op) -> Op {
    op.retired |= op.state == "completed";
    op.state = "scheduled".into();
    op.took = None;
    op
}

#[test]
fn gloo_as_it_writes() {
    for late_retired in [false, true] {
        let mut job = Job::new(4, 4);
        let mut last = open("0", 5, "all_reduce", 64);
        last.retired = late_retired;
        job.push([0, 1, 3], &last);
        for doc in &mut job.0 {
            doc.backend = "gloo";
            doc.nameless = true;
            doc.ops = doc.ops.drain(..).map(gloo).collect();
        }
        let report = job.report();
        assert_eq!((only(&report).kind, only(&report).ranks.to_string()), (FaultKind::Missing, "2".into()));
    }
    let mut job = Job::new(4, 4);
    for doc in &mut job.0 {
        (doc.backend, doc.nameless) = ("gloo", true);
        doc.ops = doc.ops.drain(..).map(gloo).collect();
    }
    assert!(job.report().faults.is_empty());
}

#[test]
fn all_joined_and_stuck_blames_nobody() {
    for backend in ["nccl", "xccl", "nccl2"] {
        let mut job = Job::new(8, 4);
        job.push(0..8, &open("0", 5, "all_reduce", 64));
        job.push(0..5, &open("0", 6, "all_reduce", 64));
        job.0.iter_mut().for_each(|d| d.backend = backend);
        let report = job.report();
        let fault = only(&report);
        assert_eq!((fault.kind, fault.ranks.len(), fault.waiting.len()), (FaultKind::StuckAll, 0, 8));
        assert_eq!(fault.seq, Some(5));
    }
}

#[test]
fn an_end_after_the_limit_is_the_abort() {
    let mut job = Job::new(8, 4);
    let mut last = done("0", 5, "all_reduce", 64);
    last.took = Some((TIMEOUT_MS + 20) * 1_000_000);
    job.push((0..8).filter(|r| *r != 7), &last);
    let report = job.report();
    assert_eq!((only(&report).kind, only(&report).ranks.to_string()), (FaultKind::Missing, "7".into()));
}

#[test]
fn scheduled_where_the_others_run() {
    let mut job = Job::new(8, 0);
    let started = |seq| Op { started: true, ..done("0", seq, "all_reduce", 64) };
    (1..=4).for_each(|seq| job.push(0..8, &started(seq)));
    let running = Op { started: true, state: "started".into(), ..open("0", 5, "all_reduce", 64) };
    job.push((0..8).filter(|r| *r != 3), &running);
    job.push([3], &open("0", 5, "all_reduce", 64));
    let report = job.report();
    assert_eq!((only(&report).kind, only(&report).ranks.to_string()), (FaultKind::Late, "3".into()));

    let mut job = Job::new(8, 4);
    job.push((0..8).filter(|r| *r != 3), &done("0", 5, "all_reduce", 64));
    job.push([3], &open("0", 5, "all_reduce", 64));
    let report = job.report();
    assert_eq!((only(&report).kind, only(&report).ranks.to_string()), (FaultKind::StuckAll, "3".into()));
}

#[test]
fn who_came_after_the_limit_is_late() {
    let mut job = Job::new(8, 4);
    job.push((0..8).filter(|r| *r != 1), &open("0", 5, "all_reduce", 64));
    let mut late = open("0", 5, "all_reduce", 64);
    late.created += (TIMEOUT_MS + 5_000) * 1_000_000;
    job.push([1], &late);
    let report = job.report();
    assert_eq!((only(&report).kind, only(&report).ranks.to_string()), (FaultKind::Late, "1".into()));
}
