//! `ncclcheck memory`: the account of a log adds up to what the log prints,
//! does not depend on how the log is cut, and the program answers without one.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;

use ncclcheck::engine::Options;
use ncclcheck::input::Given;
use ncclcheck::memory::{Account, How};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

const CASE: &str = "oom-second-communicator";

fn folder() -> std::path::PathBuf {
    common::fixtures().join("cases").join(CASE).join("input")
}

fn text() -> String {
    std::fs::read_to_string(folder().join("train.log")).unwrap()
}

fn account(given: &[Given], options: &Options) -> Account {
    common::engine().memory(given, options).unwrap()
}

fn bytes(name: &str, text: &str) -> Given {
    Given::Bytes { name: name.into(), data: text.as_bytes().to_vec() }
}

/// The number behind a word.
fn after(line: &str, word: &str) -> Option<u64> {
    let rest = &line[line.find(word)? + word.len()..];
    rest.split(' ').next()?.parse().ok()
}

#[test]
fn the_account_adds_up_to_the_printed_bytes() {
    let text = text();
    let mut printed: BTreeMap<u32, u64> = BTreeMap::new();
    for line in text.lines() {
        let Some(rank) = line.split('[').nth(1).and_then(|r| r.split(']').next()?.parse().ok()) else {
            continue;
        };
        let bytes = after(line, "Allocated shareable buffer ")
            .or_else(|| line.contains("Allocated shareable").then(|| after(line, " size ")).flatten())
            .or_else(|| after(line, "Cuda Alloc Size "))
            .or_else(|| after(line, "nvlsTotalSize "));
        *printed.entry(rank).or_default() += bytes.unwrap_or(0);
    }
    let a = account(&[bytes("train.log", &text)], &common::options());
    assert_eq!(a.processes.len(), 4);
    for p in &a.processes {
        assert_eq!(p.printed, printed[&p.rank.unwrap()], "rank {:?}", p.rank);
        let measured: u64 = p.items.iter().filter(|i| i.how == How::Measured).map(|i| i.gpu).sum();
        assert_eq!(measured, p.printed);
        assert_eq!(p.gpu, p.items.iter().map(|i| i.gpu).sum::<u64>());
        assert!(p.checks.iter().any(|c| c.contains("a pool for send and receive")), "{:?}", p.checks);
        assert!(p.checks.iter().any(|c| c.contains("NVLS: 384 MiB printed, the same")), "{:?}", p.checks);
        assert_eq!((p.communicators, p.made), (2, 1));
    }
    assert_eq!(a.refused.len(), 1, "what torch repeats is not told twice");
    assert_eq!((a.refused[0].rank, a.refused[0].bytes), (Some(2), 10_485_760));
    assert!(a.refused[0].means[0].what.contains("P2P connection"));
}

#[test]
fn it_does_not_matter_how_the_log_is_cut() {
    let text = text();
    let whole = account(&[bytes("train.log", &text)], &common::options());
    for (block, threads) in [(1024, 1), (4096, 3), (1 << 20, 2)] {
        let options = Options { block, threads, ..common::options() };
        assert_eq!(account(&[bytes("train.log", &text)], &options), whole, "block {block}");
    }
    // One file a process: the same figures, whatever the order.
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    for line in text.lines().filter(|l| l.starts_with("mn03:")) {
        let who = line.split(':').nth(1).unwrap();
        let file = files.entry(who).or_default();
        file.push_str(line);
        file.push('\n');
    }
    let mut given: Vec<Given> = files.iter().map(|(n, t)| bytes(&format!("{n}.log"), t)).collect();
    let split = account(&given, &common::options());
    given.reverse();
    assert_eq!(account(&given, &common::options()), split);
    assert_eq!(split.processes, whole.processes);
}

#[test]
fn lines_of_an_earlier_run_do_not_count() {
    let text = text();
    let again = text.replace("mn03:712", "mn03:913");
    let restart = "[2025-05-05 10:00:00,000] torch.distributed.elastic.agent.server.api: [INFO] [default] Worker group FAILED. 3/3 attempts left; will restart worker group\n";
    let one = account(&[bytes("a.log", &text)], &common::options());
    let two = account(&[bytes("a.log", &format!("{text}{restart}{again}"))], &common::options());
    let figures =
        |a: &Account| a.processes.iter().map(|p| (p.rank, p.gpu, p.communicators)).collect::<Vec<_>>();
    assert_eq!(figures(&two), figures(&one));
}

#[test]
fn advice_in_the_report_has_figures_where_the_log_gives_enough() {
    let fixes = |text: &str| {
        let report = common::report(&[bytes("a.log", text)], &common::options());
        assert_eq!(report.diagnoses[0].cause, "memory/gpu-oom-nccl");
        report.diagnoses[0].fixes.iter().map(|f| f.text.clone()).collect::<Vec<_>>().join("\n")
    };
    let all = fixes(&text());
    assert!(all.contains("In this job that frees 208 MiB on each rank by the model"), "{all}");
    assert!(all.contains("In this job that frees 416 MiB"), "{all}");
    let short: String = text().lines().skip(384).map(|l| format!("{l}\n")).collect();
    let all = fixes(&short);
    assert!(!all.contains("by the model") && !all.contains("{freed"), "{all}");
    assert!(all.contains("fewer channels"), "{all}");
}

fn run(args: &[&str]) -> (i32, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_ncclcheck")).args(args).output().unwrap();
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    (out.status.code().unwrap(), text(&out.stdout), text(&out.stderr))
}

#[test]
fn the_program_computes_without_a_log() {
    let line = "memory --nranks 16 --per-node 8 --channels 16 --nccl 2.21.5 --nvls";
    let args: Vec<&str> = line.split(' ').collect();
    let (code, out, err) = run(&args);
    assert_eq!((code, err.as_str()), (0, ""));
    for part in
        ["130 MiB  control arrays", "192-320 MiB  Ring", "768 MiB  NVLS buffers", "1154-2082 MiB  together"]
    {
        assert!(out.contains(part), "{part}\n{out}");
    }
    let (code, out, _) = run(&[&args[..], &["--format", "json"]].concat());
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, json["schema"].as_str()), (0, Some("ncclcheck.memory-model/1")));
    assert_eq!(json["total"]["gpu"]["most"].as_u64(), Some(2082 << 20));
    let (_, newer, _) = run(&["memory", "--nranks", "8", "--channels", "24", "--nccl", "2.18.6", "--nvls"]);
    assert!(newer.contains("cuMem off") && newer.contains("1536 MiB  NVLS buffers"), "{newer}");
}

/// A variable that is given changes what is counted, as NCCL reads it; what counts for nothing is said.
#[test]
fn variables_that_are_given_are_applied() {
    let gpu = |set: &[&str]| {
        let mut args = vec!["memory", "--nranks", "8", "--channels", "16", "--nccl", "2.21.5", "--nvls"];
        args.extend(set.iter().flat_map(|s| ["--set", s]));
        args.extend(["--format", "json"]);
        let (code, out, err) = run(&args);
        assert_eq!((code, err.as_str()), (0, ""), "{set:?}");
        let json: Value = serde_json::from_str(&out).unwrap();
        (json["total"]["gpu"]["most"].as_u64().unwrap(), json["notes"].to_string(), json["set"].clone())
    };
    let (plain, _, _) = gpu(&[]);
    let fewer = gpu(&["NCCL_MAX_CTAS=4"]).0;
    assert!(fewer < plain / 2, "{fewer} {plain}");
    assert_eq!(gpu(&["NCCL_MAX_CTAS=0x4"]).0, fewer);
    assert_eq!(gpu(&["NCCL_NVLS_ENABLE=0"]).0, plain - (768 << 20) - (32 << 20));
    assert!(gpu(&["NCCL_P2P_DISABLE=1"]).0 < plain);
    let half = gpu(&["NCCL_BUFFSIZE=2097152"]).0;
    assert!(half < plain);
    let (four, notes, _) = gpu(&["NCCL_BUFFSIZE=2M"]);
    assert!(four < half && notes.contains("is read as 2"), "{notes}");
    for (set, word) in [
        ("NCCL_BUFSIZE=2097152", "NCCL_BUFFSIZE"),
        ("NCCL_MAX_CTAS=-1", "outside"),
        ("NCCL_MAX_CTAS=99999999999999999999", "64 bits"),
        ("NCCL_IB_TIMEOUT=22", "no part"),
        ("NCCL_RAS_ENABLE=0", "does not read"),
    ] {
        let (bytes, notes, set_too) = gpu(&[set]);
        assert_eq!(bytes, plain, "{set}");
        assert!(notes.contains(word), "{set}: {notes}");
        assert!(set_too.get(set.split('=').next().unwrap()).is_none() || word == "64 bits", "{set_too}");
    }
}

/// Two runs one after the other in a log: what each rank receives is what its own run sends.
#[test]
fn runs_in_one_log_are_counted_apart() {
    let run = |pid: u32, id: &str, with_id: bool| {
        let mut log = String::new();
        for rank in 0..4u32 {
            let head = format!("gh02:{}:{} [{rank}] NCCL INFO", pid + rank, pid + rank + 40);
            let id = if with_id { format!(" commId {id}") } else { String::new() };
            for phase in ["START", "COMPLETE"] {
                log += &format!(
                    "{head} ncclCommInitRank comm 0x7{pid}{rank} rank {rank} nranks 4 cudaDev {rank} nvmlDev {rank} busId {rank}000{id} - Init {phase}\n"
                );
            }
            log += &format!(
                "{head} 2 coll channels, 0 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer\n"
            );
            for channel in 0..2 {
                let next = (rank + 1) % 4;
                log += &format!(
                    "{head} Channel 0{channel}/0 : {rank}[{rank}] -> {next}[{next}] via P2P/CUMEM\n"
                );
            }
        }
        log
    };
    for with_id in [true, false] {
        let (one, two) = (run(700, "0x51", with_id), run(900, "0x77", with_id));
        let of = |text: &str| account(&[bytes("job.log", text)], &common::options());
        let single = of(&one);
        let both = of(&format!("{one}{two}"));
        let buffers = |a: &Account| -> BTreeMap<u64, usize> {
            let mut all = BTreeMap::new();
            for p in &a.processes {
                let item = p.items.iter().find(|i| i.name == "buffers towards peers").unwrap();
                *all.entry(item.gpu).or_default() += 1;
            }
            all
        };
        assert_eq!(buffers(&single), [(24 << 20, 4)].into());
        assert_eq!(buffers(&both), [(24 << 20, 8)].into(), "ids: {with_id}");
        assert_eq!(both.notes.iter().any(|n| n.contains("holds 2 runs")), with_id, "{:?}", both.notes);
    }
}

#[test]
fn wrong_usage_is_told_in_one_line() {
    for (args, part) in [
        ("memory --nranks 8", "--channels"),
        ("memory --channels 8", "--nranks"),
        ("memory --nranks 8 --channels 33 --nccl 2.21.5", "at most"),
        ("memory --nranks 8 --channels 8 --nccl 2.2.13", "begins with 2.3"),
        ("memory --nranks 8 --channels 8 --nccl new", "release such as"),
        ("memory --nranks 8 --channels 8 logs", "cannot be used with"),
        ("memory --nranks 0 --channels 8", "0"),
        ("memory --nranks 8 --channels 8 --set NCCL_BUFFSIZE", "NAME=VALUE"),
        ("memory no-such-folder", "no-such-folder"),
    ] {
        let (code, out, err) = run(&args.split(' ').collect::<Vec<_>>());
        assert_eq!((code, out.as_str()), (2, ""), "{args}: {err}");
        assert!(err.contains(part), "{args}: {err}");
    }
}

#[test]
fn the_account_has_a_form_for_programs() {
    let path = folder();
    let (code, out, err) = run(&["memory", "--format", "json", path.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""));
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["schema"], "ncclcheck.memory/1");
    assert_eq!(json["processes"].as_array().unwrap().len(), 4);
    for key in ["refused", "allocators", "held", "elsewhere", "differs", "changes", "notes"] {
        assert!(json[key].is_array(), "{key}");
    }
    assert_eq!(json["processes"][0]["items"][0]["how"], "measured");
}

#[test]
fn an_allocator_that_gives_up_is_read_with_all_numbers() {
    let line = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 79.11 GiB of which 210.19 MiB is free. Process 7001 has 600.00 MiB memory in use. Process 7002 has 600.00 MiB memory in use. Process 7003 has 600.00 MiB memory in use. Including non-PyTorch memory, this process has 77.00 GiB memory in use. Of the allocated memory 74.00 GiB is allocated by PyTorch, and 1.25 GiB is reserved by PyTorch but unallocated.";
    let a = account(&[bytes("a.log", line)], &common::options());
    assert_eq!(a.allocators.len(), 1);
    let al = &a.allocators[0];
    assert_eq!((al.rank, al.tried, al.holders.len()), (Some(0), Some(512 << 20), 3));
    let all = al.says.join("\n");
    assert!(all.contains("every rank of a node puts its CUDA context on one device"), "{all}");
    assert!(all.contains("fragmentation"), "{all}");
    // Ranks of this job whose process ids the log tells.
    let known: String = (1..4)
        .map(|r| format!("mn04:700{r}:7{r}9 [{r}] NCCL INFO ncclCommInitRank comm 0x5{r} rank {r} nranks 4 cudaDev {r} nvmlDev {r} busId 1{r}000 commId 0x9 - Init COMPLETE\n"))
        .collect();
    let a = account(&[bytes("a.log", &format!("{known}{line}\n"))], &common::options());
    let all = a.allocators[0].says.join("\n");
    assert!(all.contains("of this job (ranks 1-3)"), "{all}");
}

#[test]
fn processes_of_a_listing_are_told_whose_they_are() {
    let text = "mn04:8001:8119 [0] NCCL INFO ncclCommInitRank comm 0x51 rank 1 nranks 4 cudaDev 0 nvmlDev 0 busId 11000 commId 0x9 - Init COMPLETE\n\
                |    0   N/A  N/A      8001      C   /opt/conda/bin/python                     60994MiB |\n\
                |    0   N/A  N/A     40112      C   /usr/bin/serve                             4096MiB |\n\
                |    1   N/A  N/A      8002      C   /opt/conda/bin/python                     60994MiB |\n";
    let a = account(&[bytes("a.log", text)], &common::options());
    assert_eq!(
        a.held.iter().map(|h| (h.device, h.pid, h.rank)).collect::<Vec<_>>(),
        [(0, 8001, Some(1)), (0, 40112, None), (1, 8002, None)]
    );
    assert!(
        a.differs.iter().any(|d| d.contains("2 processes hold memory of GPU 0")
            && d.contains("process 40112)")
            && d.contains("process 8001, rank 1)")),
        "{:?}",
        a.differs
    );
}

#[test]
fn what_is_not_the_gpus_memory_is_told_apart() {
    let text = "kc07:5103:5212 [2] include/alloc.h:38 NCCL WARN Failed to CUDA host alloc 4194304 bytes\n";
    let a = account(&[bytes("a.log", text)], &common::options());
    assert_eq!(a.elsewhere.iter().map(|e| e.cause.as_str()).collect::<Vec<_>>(), ["memory/host-alloc"]);
    let text = "kc07:5103:5212 [2] include/alloc.h:38 NCCL WARN Failed to CUDA calloc 2097152 bytes\n";
    let a = account(&[bytes("a.log", text)], &common::options());
    assert!(a.elsewhere.is_empty() && a.refused.len() == 1);
}

#[test]
fn a_log_that_tells_nothing_says_what_to_collect() {
    let a = account(&[bytes("a.log", "step 1 loss 2.0\nstep 2 loss 1.9\n")], &common::options());
    assert!(a.processes.is_empty());
    assert!(a.notes.iter().any(|n| n.contains("NCCL_DEBUG_SUBSYS=INIT,ENV,ALLOC,P2P,NVLS")), "{:?}", a.notes);
}
