//! Several runs in one file, and one log beside very many: what is said in the
//! run at hand is found, whatever was said before it or stands beside it.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;

use ncclcheck::engine::Options;
use ncclcheck::input::Given;
use ncclcheck::report::{Report, Verdict};

fn bytes(name: &str, text: String) -> Given {
    Given::Bytes { name: name.into(), data: text.into_bytes() }
}

fn diagnose(given: &[Given]) -> Report {
    let options = Options { threads: 2, ..Options::default() };
    common::engine().diagnose(given, &options).unwrap()
}

fn cause(report: &Report) -> &str {
    report.diagnoses.first().map_or("", |d| d.cause.as_str())
}

/// Eight ranks begin, as processes of that number and its followers.
fn begins(pid: u32, prefix: impl Fn(u32) -> String) -> String {
    let line = |rank: u32| {
        let pid = pid + rank;
        format!(
            "{}tk9:{pid}:{pid} [{rank}] NCCL INFO ncclCommInitRank comm 0x7e{rank} rank {rank} nranks 8 cudaDev {rank} \
             nvmlDev {rank} busId 4{rank}000 commId 0xa{pid:x} - Init START\n",
            prefix(rank)
        )
    };
    (0..8).map(line).collect()
}

fn traceback(prefix: &str, what: &str) -> String {
    format!(
        "{prefix}Traceback (most recent call last):\n{prefix}  File \"/job/fit.py\", line 8, in <module>\n{prefix}    \
         fit()\n{prefix}{what}\n"
    )
}

#[test]
fn the_second_runs_exception_is_found_behind_many_of_the_first() {
    let plain = |_| String::new();
    let first = begins(3100, plain) + &traceback("", "RuntimeError: bad batch").repeat(8);
    let second = begins(5200, plain) + &traceback("", "ValueError: no such shard");
    let report = diagnose(&[bytes("job.out", first + &second)]);
    assert_eq!(report.verdict, Verdict::Fault);
    assert_eq!(cause(&report), "app/exception");
    assert!(report.diagnoses[0].title.contains("ValueError"), "{}", report.diagnoses[0].title);
}

#[test]
fn the_ninth_requeue_is_judged_as_the_first() {
    for runs in [1, 6, 7, 9, 30] {
        let labelled = |rank| format!("{rank}: ");
        let run = |n: u32| begins(2000 + 100 * n, labelled) + &traceback("3: ", "ValueError: bad shard");
        let report = diagnose(&[bytes("job.out", (0..runs).map(run).collect())]);
        assert_eq!((cause(&report), report.attempts.len()), ("app/exception", runs as usize), "{runs} runs");
        assert_eq!(report.diagnoses[0].culprits.ranks, [3], "{runs} runs");
    }
}

#[test]
fn a_second_run_that_trains_is_at_work() {
    let plain = |_| String::new();
    let steps = |from: u32| {
        (from..from + 200).map(|n| format!("iteration {n}/ 9000 | loss: 2.1\n")).collect::<String>()
    };
    let first = begins(3100, plain) + &steps(0) + &traceback("", "RuntimeError: bad batch");
    let report = diagnose(&[bytes("job.out", first + &begins(5200, plain) + &steps(50))]);
    assert_eq!(report.verdict, Verdict::Healthy);
    assert_eq!(report.job.end.state, "at work");
}

#[test]
fn one_log_that_tells_all_is_heard_beside_a_thousand_that_tell_nothing() {
    let start = |rank: u32| {
        let pid = 7000 + rank;
        format!(
            "w{:02}:{pid}:{pid} [{}] NCCL INFO ncclCommInitRank comm 0x5f{rank:x} rank {rank} nranks 512 cudaDev {} nvmlDev {} \
             busId 1b000 commId 0x4d2 - Init START\n",
            rank / 8,
            rank % 8,
            rank % 8,
            rank % 8
        )
    };
    let central = (0..512).map(start).collect::<String>()
        + "[rank301]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 5 has a total capacity \
           of 79.11 GiB of which 1.12 GiB is free.\n";
    let mut given = vec![bytes("central.out", central)];
    given.extend((0..1000).map(|n| bytes(&format!("part-{n}.txt"), format!("nothing to tell, {n}\n"))));
    let report = diagnose(&given);
    assert_eq!(cause(&report), "memory/gpu-oom-app");
    assert_eq!(report.diagnoses[0].culprits.ranks, [301]);
}

#[test]
fn the_one_rank_of_ten_thousand_with_another_release_is_seen() {
    let line = |rank: u32| {
        let release = if rank == 9001 { "2.18.3" } else { "2.21.5" };
        let (pid, host) = (100 + rank, rank / 8);
        format!(
            "h{host:04}:{pid}:{pid} [0] NCCL INFO NCCL version {release}+cuda12.4\nh{host:04}:{pid}:{pid} [{}] NCCL INFO \
             ncclCommInitRank comm 0x1{rank:x} rank {rank} nranks 10000 cudaDev {} nvmlDev {} busId 1b000 commId 0x77 - Init START\n",
            rank % 8,
            rank % 8,
            rank % 8
        )
    };
    let report = diagnose(&[bytes("job.out", (0..10_000).map(line).collect())]);
    assert_eq!(cause(&report), "version/nccl-mismatch");
}

#[test]
fn two_pods_logs_behind_one_another_are_one_run() {
    let wrapped = |from: u32, minute: u32| -> String {
        let inner = begins(from, |_| String::new()).lines().map(String::from).collect::<Vec<_>>();
        let banner = [
            "W0117 06:00:01.100000 77 torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default",
        ];
        let end = [
            "E0117 06:20:09.100000 77 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 2 (pid: 4102) of binary: /usr/bin/python",
        ];
        let lines =
            banner.iter().map(ToString::to_string).chain(inner).chain(end.iter().map(ToString::to_string));
        lines
            .enumerate()
            .map(|(n, l)| {
                format!(
                    "2026-01-17T06:{:02}:{:02}.000000000Z stderr F {l}\n",
                    if n > 8 { 20 } else { minute },
                    n % 60
                )
            })
            .collect()
    };
    let report = diagnose(&[bytes("pods.log", wrapped(3100, 0) + &wrapped(6200, 0))]);
    assert_eq!(report.attempts.len(), 1);
}
