//! Which files become one job: the layouts of the field, and odd ones.

use super::group::{Group, GroupBy, Grouping, Item, group};
use super::layout::{Head, Layouts};
use crate::knowledge::Knowledge;
use std::collections::HashMap;

fn layouts() -> Layouts {
    let (layouts, faults) = Layouts::new(&Knowledge::built_in().0.tables.layouts);
    assert!(faults.is_empty(), "{faults:?}");
    layouts
}

/// Paths below a root called `logs`; `!` behind an archive.
fn items(paths: &[&str]) -> Vec<Item> {
    let one = |(n, path): (usize, &&str)| {
        let (mut parts, mut archives) = (vec!["logs".to_string()], Vec::new());
        for (n, piece) in path.split('!').enumerate() {
            if n > 0 {
                archives.push(parts.len() - 1);
            }
            parts.extend(piece.split('/').map(String::from));
        }
        Item { parts, archives, size: 1000 + n as u64, given: false }
    };
    paths.iter().enumerate().map(one).collect()
}

fn grouped(paths: &[&str], by: &GroupBy, heads: &[(&str, &str)]) -> Grouping {
    let all = layouts();
    let said: HashMap<&str, Head> = heads.iter().map(|(p, text)| (*p, all.head(text.as_bytes()))).collect();
    group(&items(paths), by, &all, &mut |n| said.get(paths[n]).cloned().unwrap_or_default())
}

fn files(group: &Group, paths: &[&str]) -> Vec<String> {
    group.items.iter().map(|&n| paths[n].to_string()).collect()
}

/// Files that were given themselves, below their folder's name.
fn given(paths: &[&str], heads: &[(&str, &str)]) -> Vec<String> {
    let all = layouts();
    let said: HashMap<&str, Head> = heads.iter().map(|(p, text)| (*p, all.head(text.as_bytes()))).collect();
    let items: Vec<Item> = items(paths)
        .into_iter()
        .map(|i| Item { parts: i.parts[1..].to_vec(), archives: Vec::new(), given: true, ..i })
        .collect();
    let grouping =
        group(&items, &GroupBy::Auto, &all, &mut |n| said.get(paths[n]).cloned().unwrap_or_default());
    grouping.groups.iter().map(|g| format!("{}: {}", g.key, files(g, paths).join(" "))).collect()
}

/// Every job is one line of paths; order does not matter.
#[track_caller]
fn jobs(expected: &[&[&str]]) {
    said(expected, &[]);
}

#[track_caller]
fn said(expected: &[&[&str]], heads: &[(&str, &str)]) {
    let mut paths: Vec<&str> = expected.iter().copied().flatten().copied().collect();
    paths.sort_unstable();
    let grouping = grouped(&paths, &GroupBy::Auto, heads);
    let mut got: Vec<Vec<String>> = grouping.groups.iter().map(|g| files(g, &paths)).collect();
    let mut want: Vec<Vec<String>> = expected
        .iter()
        .map(|job| {
            let mut job: Vec<String> = job.iter().map(ToString::to_string).collect();
            job.sort();
            job
        })
        .collect();
    got.sort();
    want.sort();
    let why: Vec<String> = grouping.groups.iter().map(|g| format!("{} ({})", g.key, g.why)).collect();
    assert_eq!(got, want, "\n{}\nleft out: {:?}", why.join("\n"), grouping.left_out);
}

#[test]
fn the_samples_of_the_table_hold() {
    let faults = super::layout::check(&Knowledge::built_in().0.tables.layouts);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn flat_slurm_files() {
    jobs(&[&["slurm-4711.out"], &["slurm-4712.out"], &["slurm-4713.out.gz"]]);
    jobs(&[&["slurm-4711.out", "slurm-4711.err"], &["slurm-4712.out"]]);
    jobs(&[&["slurm-90_1.out"], &["slurm-90_2.out"], &["slurm-91_1.out"]]);
    jobs(&[&["slurm-4711-node01.out", "slurm-4711-node02.out"], &["slurm-4712-node01.out"]]);
    jobs(&[&["llama-4711.out", "llama-4711.err"], &["bert-4712.out", "bert-4712.err"]]);
    jobs(&[&["out.4711", "err.4711"], &["out.4712", "err.4712"]]);
    jobs(&[&["train.o4711", "train.e4711"], &["eval.o4712", "eval.e4712"]]);
}

#[test]
fn the_same_job_in_a_file_and_a_folder() {
    jobs(&[
        &["slurm-4711.out", "job-4711/rank_0.log", "job-4711/rank_1.log", "dmesg-4711.txt"],
        &["slurm-4712.out", "job-4712/rank_0.log"],
    ]);
    jobs(&[&["out/slurm-4711.out", "err/slurm-4711.err"], &["out/slurm-4712.out", "err/slurm-4712.err"]]);
}

#[test]
fn hosts_above_and_below_the_job() {
    jobs(&[&["node01/job-7/rank0.log", "node02/job-7/rank8.log"], &["node01/job-8/rank0.log"]]);
    jobs(&[&["run-3/dgx-01/rank0.log", "run-3/dgx-02/rank8.log"], &["run-4/dgx-01/rank0.log"]]);
    jobs(&[&["2026/02/exp-12/logs/node001/stdout.txt", "2026/02/exp-12/logs/node002/stdout.txt"]]);
    jobs(&[&["ip-10-0-1-22/train.log", "ip-10-0-1-23/train.log"]]);
}

#[test]
fn torchrun_folders() {
    jobs(&[
        &[
            "4711_ab12cd34/attempt_0/0/stdout.log",
            "4711_ab12cd34/attempt_0/1/stderr.log",
            "4711_zz99yy88/attempt_0/0/stderr.log",
        ],
        &["4712_qwertzui/attempt_0/0/stderr.log", "4712_qwertzui/attempt_1/0/stderr.log"],
    ]);
    jobs(&[&["a/job.log", "a/logs/none_ab12cd34/attempt_0/0/stderr.log"], &["b/job.log"]]);
    // Without an id two folders are two runs, unless the first lines say that they are hosts of one.
    jobs(&[&["none_ab12cd34/attempt_0/0/stderr.log"], &["none_qw12er34/attempt_0/0/stderr.log"]]);
    jobs(&[&[
        "job-12/none_ab12cd34/attempt_0/0/stderr.log",
        "job-12/none_xy12cd34/attempt_0/0/stderr.log",
        "job-12/main.out",
    ]]);
}

#[test]
fn pods() {
    jobs(&[
        &["llm-worker-0.log", "llm-worker-1.log", "llm-master-0.log"],
        &["bert-worker-0.log", "bert-worker-1.log"],
    ]);
    jobs(&[
        &["llm-pretrain-0-x7k2p.log", "llm-pretrain-1-bcd45.log"],
        &["other-0-x7k2p.log", "other-1-vwx45.log"],
    ]);
    let uid = |n: u32| format!("0123456{n}-89ab-cdef-0123-456789abcdef");
    let (a, b, c) = (
        format!("ml_llm-worker-0_{}/train/0.log", uid(1)),
        format!("ml_llm-worker-1_{}/train/0.log", uid(2)),
        format!("ml_bert-worker-0_{}/train/0.log", uid(3)),
    );
    jobs(&[&[&a, &b], &[&c]]);
    let hex = "0123456789abcdef".repeat(4);
    let (a, b) = (format!("llm-worker-0_ml_train-{hex}.log"), format!("llm-worker-1_ml_train-{hex}.log"));
    let c = format!("bert-worker-0_ml_train-{hex}.log");
    jobs(&[&[&a, &b], &[&c]]);
}

#[test]
fn one_folder_one_job() {
    jobs(&[&["a/rank_0.log", "a/rank_1.log", "a/dmesg-node1.txt"], &["b/rank_0.log", "b/rank_1.log"]]);
    jobs(&[&["a/train.log", "a/nccl.node1.4242", "a/nccl.node1.4243"], &["b/train.log"]]);
    jobs(&[&["a/train.log", "a/monitor.log"], &["b/train.log", "b/eval.log"]]);
    jobs(&[&["a/0.log", "a/1.log", "a/2.log"], &["b/log.0", "b/log.1"]]);
    jobs(&[&["a/run/output-0.txt", "a/run/output-1.txt", "a/run/output-2.txt"]]);
    jobs(&[&["a/nccl_trace_rank_0", "a/nccl_trace_rank_1", "a/train.log"]]);
}

#[test]
fn folders_with_names_of_their_own_are_no_parts() {
    jobs(&[&["system-error/log.txt"], &["checkpoint-rank0/log.txt"], &["main-results/log.txt"]]);
    jobs(&[&["a/rank0_logs/x.txt", "a/logs-node1/x.txt", "a/stderr/0.txt", "a/dmesg/node1.txt"]]);
}

#[test]
fn one_job_with_a_number_does_not_swallow_its_neighbours() {
    jobs(&[
        &["slurm-4711.out"],
        &["pods/llm-worker-0.log", "pods/llm-worker-1.log"],
        &["pods/bert-worker-0.log", "pods/bert-worker-1.log"],
    ]);
    jobs(&[
        &["a/slurm-4711.out", "a/train.log", "a/dmesg.txt"],
        &["b/slurm-4712.out", "b/rank_0.log", "b/rank_1.log"],
    ]);
}

#[test]
fn rotated_and_packed_parts() {
    jobs(&[&["slurm-5.out", "slurm-5.out.1", "slurm-5.out.2.gz"], &["slurm-6.out"]]);
    jobs(&[&["a/train.log", "a/train.log-20260203", "a/train.log-20260202.gz"]]);
    jobs(&[&["job9.log", "job9.log.1", "job9.log.2.gz"], &["job10.log"]]);
}

#[test]
fn dates_and_numbers_in_names() {
    jobs(&[&["llama_20260203_101500.log"], &["llama_20260204_091500.log"], &["bert_20260203_101500.log"]]);
    jobs(&[&["run1.log"], &["run2.log"], &["run3.log"]]);
    jobs(&[&["run1/rank0.log", "run1/rank1.log"], &["run2/rank0.log", "run2/rank1.log"]]);
    jobs(&[&["20260203/a/train.log"], &["20260203/b/train.log"], &["2026-02-04/a/train.log"]]);
    jobs(&[&["sweep-3/llama_4711.out", "sweep-3/llama_4711.err"], &["sweep-3/llama_4712.out"]]);
    jobs(&[
        &["2026-02-03_10-15-00/train.log", "2026-02-03_10-15-00/rank1.log"],
        &["2026-02-04_10-15-00/train.log"],
    ]);
}

#[test]
fn archives() {
    jobs(&[&["a.tar.gz!rank_0.log", "a.tar.gz!rank_1.log"], &["b.tar.gz!rank_0.log"]]);
    jobs(&[
        &["feb.tar.gz!job-1/rank_0.log", "feb.tar.gz!job-1/rank_1.log"],
        &["feb.tar.gz!job-2/rank_0.log"],
    ]);
    jobs(&[
        &["all.tar!job-1.tar.gz!rank_0.log", "all.tar!job-1.tar.gz!rank_1.log"],
        &["all.tar!job-2.tar.gz!rank_0.log"],
    ]);
    jobs(&[&["job-3/node1.tar.gz!train.log", "job-3/node2.tar.gz!train.log"]]);
    jobs(&[&["job-3.tar.gz", "job-3/dmesg.txt"], &["job-4.tar.gz"]]);
    jobs(&[
        &["logs-20260203.tgz!slurm-1.out", "logs-20260203.tgz!slurm-1.err"],
        &["logs-20260203.tgz!slurm-2.out"],
    ]);
}

#[test]
fn first_lines_decide_where_names_do_not() {
    let comm = |n: u32| {
        format!("ncclCommInitRank comm 0x55 rank 0 nranks 2 commId 0x6f1d2c3b4a59{n:04x} - Init START")
    };
    let (one, two) = (comm(1), comm(2));
    // Two names in a folder: one job, unless the first lines name two.
    said(&[&["a/alpha.log", "a/beta.log"]], &[("a/alpha.log", &one), ("a/beta.log", &one)]);
    said(&[&["a/alpha.log"], &["a/beta.log"]], &[("a/alpha.log", &one), ("a/beta.log", &two)]);
    said(
        &[&["a/alpha.log"], &["a/beta.log"]],
        &[("a/alpha.log", "SLURM_JOB_ID=1"), ("a/beta.log", "SLURM_JOB_ID=2")],
    );
    said(
        &[&["none_ab12cd34/attempt_0/0/stderr.log", "none_qw12er34/attempt_0/0/stderr.log"]],
        &[("none_ab12cd34/attempt_0/0/stderr.log", &one), ("none_qw12er34/attempt_0/0/stderr.log", &one)],
    );
    // Folders side by side that are hosts of one job.
    said(&[&["x/east/out.log", "x/west/out.log"]], &[("x/east/out.log", &one), ("x/west/out.log", &one)]);
    said(&[&["x/east/out.log"], &["x/west/out.log"]], &[("x/east/out.log", &one), ("x/west/out.log", &two)]);
    // A name without a number that says whose it is.
    said(
        &[&["slurm-4711.out", "trainer.log"], &["slurm-4712.out"]],
        &[("trainer.log", "export SLURM_JOB_ID=4711")],
    );
}

#[test]
fn what_is_no_log_or_names_no_job_is_told() {
    let paths = ["a/config.yaml", "a/model.safetensors", "a/train.log", "a/train.py", ".git/x.log"];
    let grouping = grouped(&paths, &GroupBy::Auto, &[]);
    assert_eq!(grouping.groups.len(), 1);
    assert_eq!(grouping.left_out.len(), 4);
    let paths = ["dmesg-node1.txt", "slurm-1.out", "slurm-2.out"];
    let grouping = grouped(&paths, &GroupBy::Auto, &[]);
    assert_eq!(grouping.groups.len(), 2);
    assert_eq!(grouping.left_out, [(0, "names no job, and lies beside several")]);
}

#[test]
fn no_two_jobs_have_one_name() {
    let paths = ["7/x/a.log", "7/x/b.log", "alpha-4711/a.log", "x/slurm-7.out", "x/slurm-8.out"];
    let by = r"^(?:x/slurm-)?(\d)".parse::<GroupBy>().unwrap();
    for by in [GroupBy::Auto, by] {
        let mut keys: Vec<String> = grouped(&paths, &by, &[]).groups.into_iter().map(|g| g.key).collect();
        let all = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), all, "{keys:?}");
    }
    let hex = "0123456789abcdef".repeat(4);
    let pod = format!("llm-worker-0_ml_train-{hex}.log");
    let paths = ["llm-ml-train/a.log", "llm-ml-train/a.log.1", &pod];
    let keys: Vec<String> = grouped(&paths, &GroupBy::Auto, &[]).groups.into_iter().map(|g| g.key).collect();
    assert_eq!(keys, ["logs/llm-ml-train", "logs/llm-ml-train~2"]);
}

#[test]
fn said_outright() {
    let paths = ["x/7/a.log", "x/7/b/c.log", "x/8/a.log", "y.log"];
    let by = |text: &str| text.parse::<GroupBy>().unwrap();
    let keys = |by: &GroupBy| -> Vec<String> {
        grouped(&paths, by, &[]).groups.iter().map(|g| format!("{} {}", g.key, g.items.len())).collect()
    };
    assert_eq!(keys(&by("folder")), ["logs 1", "logs/x/7 1", "logs/x/7/b 1", "logs/x/8 1"]);
    assert_eq!(keys(&by("file")).len(), 4);
    assert_eq!(keys(&by(r"x/(\d+)/")), ["logs/7 2", "logs/8 1"]);
    assert_eq!(grouped(&paths, &by(r"x/(\d+)/"), &[]).left_out, [(3, "--group-by does not match")]);
    assert!(
        "x/[".parse::<GroupBy>().is_err()
            && "x(".parse::<GroupBy>().is_err()
            && "some".parse::<GroupBy>().is_err()
    );
}

#[test]
fn a_key_does_not_change_when_files_come_to_a_job() {
    let key = |paths: &[&str]| grouped(paths, &GroupBy::Auto, &[]).groups[0].key.clone();
    assert_eq!(key(&["f/slurm-12.out"]), key(&["f/job-12/a.log", "f/slurm-12.err", "f/slurm-12.out"]));
    assert_eq!(
        key(&["f/a-worker-0.log", "f/b-worker-0.log"]),
        key(&["f/a-worker-0.log", "f/a-worker-1.log", "f/b-worker-0.log"])
    );
    assert_eq!(key(&["f/rank_0.log"]), key(&["f/dmesg.txt", "f/rank_0.log", "f/rank_1.log"]));
}

/// What a training prints, of a job that names neither itself nor a communicator.
const TRAINS: &str = "2026-02-03 10:11:02 INFO step: 100 loss: 3.95\n";

#[test]
fn programs_in_one_folder_are_jobs_of_their_own() {
    let trains = |paths: &[&'static str]| paths.iter().map(|p| (*p, TRAINS)).collect::<Vec<_>>();
    said(&[&["x/north.log"], &["x/south.log"]], &trains(&["x/north.log", "x/south.log"]));
    // One of them is a program, the other looks on.
    said(&[&["x/train.log", "x/monitor.log"]], &trains(&["x/train.log"]));
    // Neighbours hold files of the same names: each folder is one job's.
    let both = ["x/train.log", "x/eval.log", "y/train.log", "y/eval.log"];
    said(&[&["x/train.log", "x/eval.log"], &["y/train.log", "y/eval.log"]], &trains(&both));
    // But a day is not.
    let days = ["2026/02/03/a.log", "2026/02/03/b.log", "2026/02/04/a.log"];
    said(&[&days[..1], &days[1..2], &days[2..]], &trains(&days));
}

#[test]
fn a_job_with_a_number_takes_in_no_other_program() {
    let train = [("x/north.log", TRAINS), ("x/south.log", TRAINS)];
    said(&[&["x/job-31.out", "x/job-31.err"], &["x/north.log"], &["x/south.log"]], &train);
    said(&[&["x/tune_31000.out", "x/tune_31000.err"], &["x/north.log"], &["x/south.log"]], &train);
    said(&[&["x/job-31.tar"], &["x/all.tar!north.log"]], &[("x/all.tar!north.log", TRAINS)]);
    // What looks on is taken in, and what its neighbours have too.
    said(&[&["x/job-31.out", "x/monitor.log"]], &[("x/job-31.out", TRAINS)]);
    said(
        &[&["x/job-31.out", "x/train.log"], &["y/job-32.out", "y/train.log"]],
        &[("x/train.log", TRAINS), ("y/train.log", TRAINS)],
    );
    // Kernel logs of a job that its first lines name.
    said(
        &[&["job-31.out", "dmesg-node1.txt"], &["job-32.out"]],
        &[("dmesg-node1.txt", "SLURM_JOB_ID=31"), ("job-31.out", "SLURM_JOB_ID=31")],
    );
}

#[test]
fn different_ranks_of_one_world_are_one_job() {
    let says = |rank: u32, at: &str| format!("MASTER_ADDR={at} RANK={rank} WORLD_SIZE=3\n");
    let (one, two) = (says(0, "10.1.0.4"), says(1, "10.1.0.4"));
    let paths = ["x/north.log", "x/south.log"];
    said(&[&paths], &[(paths[0], &one), (paths[1], &two)]);
    // The same ranks again are another run; so is another address, and what every host calls itself.
    said(&[&paths[..1], &paths[1..]], &[(paths[0], &one), (paths[1], &one)]);
    said(&[&paths[..1], &paths[1..]], &[(paths[0], &one), (paths[1], &says(1, "10.1.0.5"))]);
    let local = |rank, world| format!("MASTER_ADDR=localhost\n[{rank}] rank {rank} nranks {world}\n");
    let three = (local(0, 3), local(1, 3));
    said(&[&paths[..1], &paths[1..]], &[(paths[0], &three.0), (paths[1], &three.1)]);
    // Unless each rank of the world is in one file and in one only.
    let two = (local(0, 2), local(1, 2));
    said(&[&paths], &[(paths[0], &two.0), (paths[1], &two.1)]);
    let numbered = ["x/atlas1.log", "x/atlas2.log"];
    said(&[&numbered], &[(numbered[0], &two.0), (numbered[1], &two.1)]);
    said(&[&numbered[..1], &numbered[1..]], &[(numbered[0], &two.0), (numbered[1], &two.0)]);
}

#[test]
fn files_that_are_given_are_joined_where_something_shows_it() {
    assert_eq!(given(&["x/north.log"], &[]), ["x/north: x/north.log"]);
    assert_eq!(given(&["x/north.log", "x/south.log"], &[]), ["x/north: x/north.log", "x/south: x/south.log"]);
    assert_eq!(
        given(&["job-31/run.log", "job-32/tune.log"], &[]),
        ["31: job-31/run.log", "32: job-32/tune.log"]
    );
    assert_eq!(given(&["x/rank0.log", "x/rank1.log"], &[]), ["x: x/rank0.log x/rank1.log"]);
    assert_eq!(
        given(&["x/slurm-31.err", "x/slurm-31.out", "x/north.log"], &[]),
        ["x/31: x/slurm-31.err x/slurm-31.out", "x/north: x/north.log"]
    );
    let comm = "comm 0x55 rank 0 nranks 2 commId 0x6f1d2c3b4a590001 - Init START";
    assert_eq!(
        given(&["x/north.log", "y/south.log", "y/west.log"], &[("x/north.log", comm), ("y/south.log", comm)]),
        ["x/north: x/north.log y/south.log", "y/west: y/west.log"]
    );
    // A copy is no part.
    assert_eq!(given(&["x/north.log", "y/north.log"], &[]).len(), 2);
}
