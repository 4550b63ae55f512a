//! Logs that flood: the report is the same for any block size and any number
//! of threads, also where more is said than can be kept, and where every line
//! has another speaker.

use ncclcheck::engine::{Engine, Options};
use ncclcheck::input::Given;
use std::fmt::Write;

fn report(engine: &Engine, log: &str, block: usize, threads: usize) -> String {
    let given = [Given::Bytes { name: "job.log".into(), data: log.as_bytes().to_vec() }];
    let options = Options { threads, block, ..Options::default() };
    let report = engine.diagnose(&given, &options).expect("a report");
    serde_json::to_string_pretty(&report).expect("JSON")
}

/// The same for all ways of reading, and of no more than a sensible size.
fn same(log: &str) {
    let (engine, faults) = Engine::lenient(&[]);
    assert!(faults.is_empty(), "{faults:?}");
    let expected = report(&engine, log, 1 << 20, 1);
    for (block, threads) in [(1 << 20, 4), (96 << 10, 2), (96 << 10, 8), (30_000, 3)] {
        let got = report(&engine, log, block, threads);
        let line = expected.lines().zip(got.lines()).find(|(a, b)| a != b);
        assert!(expected == got, "block {block}, {threads} threads: {line:?}");
    }
}

/// A log of 2 MB of the lines that `line` writes.
fn log(line: impl Fn(&mut String, u64)) -> String {
    let mut out = String::new();
    for n in 0.. {
        if out.len() > 2 << 20 {
            break;
        }
        line(&mut out, n);
        out.push('\n');
    }
    out
}

#[test]
fn one_warning_by_many_processes() {
    same(&log(|out, n| {
        let (r, node) = (n % 4096, n % 4096 / 8);
        let _ = write!(
            out,
            "node{node:03}:{}:{} [{}] transport/net_ib.cc:1712 NCCL WARN NET/IB : Got completion from peer \
             10.20.1.{}<40123> with status=12 opcode=0 len=0 vendor err 129 (Send)",
            4000 + r,
            9000 + r,
            r % 8,
            node % 200
        );
    }));
}

#[test]
fn every_line_by_another_process() {
    same(&log(|out, n| {
        let h = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let _ = write!(
            out,
            "h{:x}:{}:{} [0] misc/x.cc:5 NCCL WARN odd {} failed {n}",
            h >> 40,
            n + 300,
            n + 301,
            h % 97
        );
    }));
}

#[test]
fn tracebacks_of_many_ranks_mixed() {
    same(&log(|out, n| {
        let r = n / 4 % 700;
        let _ = match n % 4 {
            0 => write!(out, "[rank{r}]: Traceback (most recent call last):"),
            1 => write!(out, "[rank{r}]:   File \"/home/u/train.py\", line {}, in main", n % 90),
            2 => write!(out, "[rank{r}]:     step(batch)"),
            _ => write!(out, "[rank{r}]: ValueError: bad value {}", n % 10),
        };
    }));
}

#[test]
fn ranks_named_in_the_text_only() {
    same(&log(|out, n| {
        let r = n * 7 % 3000;
        let _ = match n % 3 {
            0 => write!(out, "srun: error: node{:03}: task {r}: Exited with exit code 1", r / 8),
            1 => write!(
                out,
                "[E302 10:30:00.123456789 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation \
                 timeout: WorkNCCL(SeqNum={}, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for \
                 600042 milliseconds before timing out.",
                n % 50
            ),
            _ => write!(out, "step {n} loss 2.{} of something plain", n % 1000),
        };
    }));
}

#[test]
fn lines_that_come_in_masses_with_others_inside() {
    same(&log(|out, n| {
        let r = n * 5 % 64;
        let head = format!("node{:02}:{}:{} [{}] NCCL INFO ", r / 8, 4000 + r, 9000 + r, r % 8);
        let _ = match n % 50 {
            0 => write!(out, "{head}Channel 00/0 : {r}[{}] -> {}[0] via P2P/CUMEM", r % 8, (r + 1) % 64),
            1 => write!(
                out,
                "{head}comm 0x55d0{r:04x} rank {r} nRanks 64 nNodes 8 localRanks 8 localRank {} MNNVL 0",
                r % 8
            ),
            7 if n % 350 == 7 => write!(
                out,
                "{head}AllReduce: opCount 12 sendb[rank{r}]: RuntimeError: CUDA error: an illegal memory access was encountered"
            ),
            9 if n % 450 == 9 => {
                write!(out, "{head}Connected all ringssrun: error: node{:02}: task {r}: Killed", r / 8)
            }
            11 => write!(out, "{head}Trees [0] 1/-1/-1->{r}->0 [1] 1/-1/-1->{r}->0"),
            12..20 => write!(out, "[rank{r}]: step {n} loss 2.{} lr 3.0e-04", n % 1000),
            20 => write!(out, "{r}: 2026-03-02 10:00:{:02} INFO saved", n % 60),
            _ => write!(
                out,
                "{head}AllReduce: opCount {n:x} sendbuff 0x7f{n:010x} recvbuff 0x7f{n:010x} count 1024 datatype 9 op 0 \
                 root 0 comm 0x55d0{r:04x} [nranks=64] stream 0x55d1"
            ),
        };
    }));
}

/// Lines that nobody knows, of few kinds first and then of ever new ones, among variables that are set again and again.
#[test]
fn unknown_lines_of_many_kinds() {
    let log = log(|out, n| {
        let word: String = (0..6).map(|i| char::from(b'a' + (n >> (2 * i) & 3) as u8)).collect();
        let _ = match n % 4 {
            0 => write!(out, "[rank{}]: lease {n} lost, fencing failed", n % 3),
            1 => write!(out, "[rank{}]: part {word} of the archive failed to load", n % 3),
            2 => write!(
                out,
                "node1:42:77 [0] NCCL INFO NCCL_OPTION_{} set by environment to {n}.",
                word.to_uppercase()
            ),
            _ => write!(out, "[rank{}]: step {n} loss 2.1", n % 3),
        };
    });
    let (engine, _) = Engine::lenient(&[]);
    let of = |block, threads| {
        let given = [Given::Bytes { name: "job.log".into(), data: log.as_bytes().to_vec() }];
        let options = Options { threads, block, ..Options::default() };
        let unknown = engine.unknown("job", &given, &options).expect("shapes");
        let report = engine.diagnose(&given, &options).expect("a report");
        (serde_json::to_string_pretty(&unknown).expect("JSON"), report.job.environment.len(), unknown)
    };
    let (expected, variables, unknown) = of(1 << 20, 1);
    // So many variables of a process are told apart; of the others the first few lines are kept.
    assert!((256..=262).contains(&variables), "{variables}");
    assert!(unknown.shapes.contains_key("lease <n> lost, fencing failed"));
    // Every line is counted, whatever it is counted with.
    assert_eq!(unknown.lines, log.lines().filter(|l| l.contains("failed")).count() as u64);
    for (block, threads) in [(1 << 20, 4), (96 << 10, 2), (30_000, 3)] {
        let (got, ..) = of(block, threads);
        let line = expected.lines().zip(got.lines()).find(|(a, b)| a != b);
        assert!(expected == got, "block {block}, {threads} threads: {line:?}");
    }
}
