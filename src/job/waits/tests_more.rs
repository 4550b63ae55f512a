//! Planted faults in sends and receives, uneven exchanges, several faults at
//! once, odd input, and properties of the whole.

use proptest::prelude::*;

use super::tests::{Job, input, only, report};
use super::{FaultKind, Sure, WaitsInput, What, analyse};
use crate::dump::make::{Op, done, open};

fn exchange(seq: i64, given: i64, taken: i64, finished: bool) -> Op {
    let make = if finished { done } else { open };
    Op { inputs: vec![vec![given, 16]], outputs: vec![vec![taken, 16]], ..make("0", seq, "all_to_all", 1) }
}

#[test]
fn uneven_exchanges() {
    // Right: everything that goes out comes in.
    let sizes = [(10, 12), (14, 8), (5, 9), (8, 8)];
    let mut job = Job::new(4, 0);
    for (rank, (given, taken)) in (0..).zip(sizes) {
        job.push([rank], &exchange(1, given, taken, true));
        job.push([rank], &exchange(2, taken, given, true));
    }
    assert!(job.report().faults.is_empty());
    // The same while it hangs: nobody is accused.
    for (rank, (given, taken)) in (0..).zip(sizes) {
        job.push([rank], &exchange(3, given, taken, false));
    }
    let report = job.report();
    assert_eq!((only(&report).kind, only(&report).ranks.len()), (FaultKind::StuckAll, 0));
    // Wrong: more is awaited than sent; who is wrong cannot be told.
    let mut job = Job::new(4, 0);
    for (rank, (given, taken)) in (0..).zip([(10, 12), (14, 8), (5, 9), (8, 11)]) {
        job.push([rank], &exchange(1, given, taken, false));
    }
    let report = job.report();
    assert_eq!(
        (only(&report).kind, only(&report).sure),
        (FaultKind::Mismatch { what: What::Size }, Sure::Guess)
    );
    // Wrong on one of many that are even.
    let mut job = Job::new(8, 0);
    (0..8).for_each(|rank| job.push([rank], &exchange(1, 8, if rank == 6 { 9 } else { 8 }, false)));
    assert_eq!(only(&job.report()).ranks.to_string(), "6");
}

#[test]
fn parts_of_gathers_and_scatters() {
    for (name, grows) in [("_all_gather_base", true), ("_reduce_scatter_base", false)] {
        let sized = |part: i64| {
            let (small, large) = (vec![vec![part]], vec![vec![part * 4]]);
            let (inputs, outputs) = if grows { (small, large) } else { (large, small) };
            Op { inputs, outputs, ..open("0", 5, name, 1) }
        };
        for wrong in 0..4u32 {
            let mut job = Job::new(4, 4);
            (0..4).for_each(|rank| job.push([rank], &sized(if rank == wrong { 24 } else { 16 })));
            let report = job.report();
            assert_eq!(only(&report).kind, FaultKind::Mismatch { what: What::Size });
            assert_eq!(only(&report).ranks.to_string(), wrong.to_string(), "{name}");
        }
    }
    // What only the root gives or takes says nothing.
    for (name, seq) in [("gather", 5), ("scatter", 5)] {
        let mut job = Job::new(4, 4);
        for rank in 0..4u32 {
            let root = vec![vec![8]; 4];
            let (mut inputs, mut outputs) = (vec![vec![8]], vec![vec![8]]);
            match (name, rank) {
                ("gather", 0) => outputs = root,
                ("gather", _) => outputs = vec![],
                (_, 0) => inputs = root,
                _ => inputs = vec![],
            }
            job.push([rank], &Op { inputs, outputs, ..open("0", seq, name, 1) });
        }
        assert_eq!(only(&job.report()).kind, FaultKind::StuckAll, "{name}");
    }
}

fn p2p(group: &str, at: i64, name: &str, finished: bool) -> Op {
    let make = if finished { done } else { open };
    Op { seq: 4, p2p_seq: at, ..make(group, 4, name, 32) }
}

/// A pipeline of four ranks that has passed two batches on.
fn pipeline() -> Job {
    let mut job = Job::new(4, 4).with_group("1", "pp", &[0, 1, 2, 3]);
    for batch in 0..2i64 {
        for rank in 0..3u32 {
            job.push([rank], &p2p("1", batch * 2 + 2, &format!("send {rank}->{}", rank + 1), true));
            job.push([rank + 1], &p2p("1", batch * 2 + 1, &format!("recv {}<-{rank}", rank + 1), true));
        }
    }
    job
}

#[test]
fn a_pipeline_at_rest_is_nothing() {
    assert!(pipeline().report().faults.is_empty());
}

#[test]
fn a_receive_from_the_wrong_peer() {
    // Rank 1 wants something of rank 3, with which it has nothing to do.
    let mut job = pipeline();
    job.push([0], &p2p("1", 7, "send 0->1", false));
    job.push([1], &p2p("1", 7, "recv 1<-3", false));
    job.push([2], &p2p("1", 7, "recv 2<-1", false));
    job.push([3], &p2p("1", 7, "recv 3<-2", false));
    let report = job.report();
    let fault = only(&report);
    assert_eq!((fault.kind, fault.ranks.to_string()), (FaultKind::P2p, "1".into()));
    assert!(fault.detail.contains("rank 1 receives from rank 3"), "{}", fault.detail);
    assert_eq!(fault.behind.to_string(), "2,3");
}

#[test]
fn a_stage_that_stopped_is_not_the_wrong_peer_of_its_neighbour() {
    // Rank 1 waits for what rank 2 sends back, as it did before; rank 0 already sends on.
    let mut job = pipeline();
    job.push([2], &p2p("1", 5, "send 2->1", true));
    job.push([1], &p2p("1", 5, "recv 1<-2", true));
    job.push([0], &p2p("1", 5, "send 0->1", false));
    job.push([1], &p2p("1", 6, "recv 1<-2", false));
    let report = job.report();
    let fault = only(&report);
    assert_eq!((fault.kind, fault.ranks.to_string()), (FaultKind::Missing, "2".into()));
    assert_eq!((fault.waiting.to_string(), fault.behind.to_string()), ("1".into(), "0".into()));
}

#[test]
fn a_send_that_nobody_takes() {
    // Rank 2 never takes it, and does nothing else.
    let mut job = pipeline();
    job.push([1], &p2p("1", 7, "send 1->2", false));
    let report = job.report();
    assert_eq!((only(&report).kind, only(&report).ranks.to_string()), (FaultKind::Missing, "2".into()));
    // All others are in a collective: the send is one too many.
    let mut job = pipeline();
    job.push([1], &p2p("1", 7, "send 1->2", false));
    job.push([0, 2, 3], &open("0", 5, "all_reduce", 64));
    let report = job.report();
    assert_eq!((only(&report).kind, only(&report).ranks.to_string()), (FaultKind::P2p, "1".into()));
}

#[test]
fn both_send_first() {
    let mut job = pipeline();
    job.push([1], &p2p("1", 7, "send 1->2", false));
    job.push([2], &p2p("1", 7, "send 2->1", false));
    let report = job.report();
    assert_eq!((only(&report).kind, only(&report).ranks.to_string()), (FaultKind::P2p, "1,2".into()));
    assert_eq!(only(&report).sure, Sure::Guess);
}

#[test]
fn a_receive_from_anybody() {
    let mut job = pipeline();
    job.push([1], &p2p("1", 7, "send 1->3", false));
    job.push([3], &p2p("1", 7, "recv 3<-?", false));
    assert_eq!(only(&job.report()).kind, FaultKind::StuckAll);
    let mut job = pipeline();
    job.push([3], &p2p("1", 7, "recv 3<-?", false));
    assert_eq!((only(&job.report()).kind, only(&job.report()).sure), (FaultKind::P2p, Sure::Guess));
}

#[test]
fn two_faults_apart_are_two() {
    let mut job = Job::new(8, 4).with_group("1", "tp", &[0, 1, 2, 3]).with_group("2", "tp", &[4, 5, 6, 7]);
    job.push([0, 1, 3], &open("1", 1, "all_reduce", 8));
    job.push([4, 5, 6, 7], &done("2", 1, "all_reduce", 8));
    job.push([4, 5, 7], &open("2", 2, "all_reduce", 8));
    job.push([6], &open("2", 2, "all_reduce", 12));
    let report = job.report();
    let named: Vec<_> = report.faults.iter().map(|f| (f.kind, f.ranks.to_string())).collect();
    assert!(named.contains(&(FaultKind::Missing, "2".into())), "{named:?}");
    assert!(named.contains(&(FaultKind::Mismatch { what: What::Size }, "6".into())), "{named:?}");
    assert_eq!(named.len(), 2);
}

#[test]
fn who_stopped_behind_its_partners_is_named() {
    let mut job = Job::new(4, 4);
    job.push(0..4, &open("0", 9, "all_reduce", 64));
    for rank in 0..4usize {
        let ops = &mut job.0[rank].ops;
        let last = ops.pop().unwrap();
        let make = if rank == 2 { open } else { done };
        ops.extend((5..=8).map(|seq| make("0", seq, "all_reduce", 64)));
        ops.push(last);
    }
    let report = job.report();
    assert_eq!((only(&report).kind, only(&report).ranks.to_string()), (FaultKind::Missing, "2".into()));
    assert!(only(&report).detail.contains("stopped in all_reduce #5"), "{}", only(&report).detail);
}

#[test]
fn two_dumps_of_one_rank_and_two_versions() {
    let mut job = Job::new(4, 4);
    job.push([0, 1, 3], &open("0", 5, "all_reduce", 64));
    job.0[1].version = "2.9";
    let mut files = job.files();
    let old = Job::new(4, 2);
    files.insert(0, (3, old.0[3].pickle()));
    let report = report(&files);
    assert_eq!(only(&report).ranks.to_string(), "2");
    assert!(report.problems.iter().any(|p| p.contains("2 dumps of rank 3")), "{:?}", report.problems);
    assert!(report.problems.iter().any(|p| p.contains("2.10 on 0,2,3; 2.9 on 1")), "{:?}", report.problems);
}

#[test]
fn most_not_given_is_a_guess() {
    let mut job = Job::new(16, 4);
    job.push(0..16, &open("0", 5, "all_reduce", 64));
    let mut files = job.files();
    files.truncate(8);
    let report = report(&files);
    assert_eq!((only(&report).kind, only(&report).sure), (FaultKind::NoDump, Sure::Guess));
    assert_eq!(only(&report).ranks.to_string(), "8-15");
}

#[test]
fn groups_of_equal_name_but_other_ranks_are_two() {
    let mut job = Job::new(4, 4).with_group("7", "split", &[0, 1]).with_group("7", "split", &[2, 3]);
    job.push([0, 1], &done("7", 1, "all_reduce", 8));
    job.push([0, 1], &done("7", 2, "all_reduce", 8));
    job.push([2, 3], &done("7", 1, "all_reduce", 8));
    assert!(job.report().faults.is_empty());
    job.push([2], &open("7", 2, "all_reduce", 8));
    assert_eq!(only(&job.report()).ranks.to_string(), "3");
}

#[test]
fn nothing_at_all() {
    assert_eq!(analyse(&WaitsInput::default()).faults, []);
}

fn any_job() -> impl Strategy<Value = Job> {
    let op = (0..4u32, 0..3usize, 0..4i64, any::<bool>(), 0..3i64);
    proptest::collection::vec(op, 0..24).prop_map(|ops| {
        let mut job = Job::new(4, 2).with_group("1", "tp", &[0, 1]).with_group("2", "tp", &[2, 3]);
        for (rank, kind, seq, finished, size) in ops {
            let make = if finished { done } else { open };
            let group = if rank < 2 { "1" } else { "2" };
            let op = match kind {
                0 => make("0", seq + 3, "all_reduce", 8 + size),
                1 => make(group, seq + 1, "all_to_all", 8 + size),
                _ => p2p(
                    "0",
                    seq + 1,
                    &format!(
                        "{} {rank}{}{}",
                        ["send", "recv", "send"][size as usize],
                        if size == 1 { "<-" } else { "->" },
                        seq
                    ),
                    finished,
                ),
            };
            job.push([rank], &op);
        }
        job
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_order_of_dumps_does_not_matter(job in any_job(), turn in 0usize..4, flip in any::<bool>()) {
        let files = job.files();
        let mut other = files.clone();
        other.rotate_left(turn);
        if flip {
            other.reverse();
        }
        prop_assert_eq!(report(&files), report(&other));
    }

    #[test]
    fn who_waits_is_not_to_blame(job in any_job()) {
        let input = input(&job.files());
        for fault in analyse(&input).faults {
            if fault.sure == Sure::Certain {
                prop_assert!(!fault.ranks.meets(&fault.waiting), "{:?}", fault);
            }
            prop_assert!(!fault.ranks.meets(&fault.behind), "{:?}", fault);
            prop_assert!(!fault.detail.is_empty());
        }
    }
}
