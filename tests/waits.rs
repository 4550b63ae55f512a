//! `ncclcheck waits` and what joins it: the view at 8 and at 1,024 ranks, the
//! graph, stacks, RAS, odd and hostile input, and what the culprit's own lines
//! decide.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;
#[path = "common/faults.rs"]
mod faults;
#[path = "common/fleet.rs"]
mod fleet;
#[path = "common/fleet_log.rs"]
mod fleet_log;
#[path = "common/views.rs"]
mod views;

use faults::{Kind, plant};
use fleet::{Fleet, Group, Style, collective};
use fleet_log::Talk;
use ncclcheck::report::Report;
use ncclcheck::report::waits;
use views::{Files, dumps, read, text, view};

fn problems(report: &Report) -> String {
    report.inputs.iter().flat_map(|i| i.problems.iter()).cloned().collect::<Vec<_>>().join("\n")
}

#[test]
fn the_chain_of_eight_ranks_is_read_at_once() {
    // One that hands over one operation at a time, as a program that waits for each.
    let (job, _) = (0..).map(|seed| plant(Kind::MissingInTensor, 5, seed)).find(|p| p.0.ahead == 1).unwrap();
    let view = view(&dumps(&job));
    let text = text(&view);
    assert_eq!((view.roots[0].kind, view.roots[0].ranks.as_str()), ("missing", "5"), "{text}");
    assert!(text.starts_with("rank 5 holds up 3 ranks in "), "{text}");
    assert!(text.contains("it stands at forward_step (/home/user/fit/loop.py:"), "{text}");
    assert!(text.contains("rank 5 (has not entered it)"), "{text}");
    assert!(text.lines().count() <= 50 && text.lines().all(|l| l.len() <= 110), "{text}");
    let mut dot = Vec::new();
    waits::write_dot(&view, &mut dot).unwrap();
    let dot = String::from_utf8(dot).unwrap();
    assert!(dot.starts_with("digraph waits {") && dot.contains("\"rank 5\" [style=filled"), "{dot}");
    assert!(dot.contains("-> \"rank 5\" [label=\"has not entered it\"]"), "{dot}");
}

/// Tensor groups of eight and data groups across them; one rank stops.
fn large(size: usize, stops: usize) -> Fleet {
    let group = |name: usize, desc: &str, members: Vec<usize>| Group {
        name: name.to_string(),
        desc: desc.into(),
        members,
    };
    let mut groups = vec![group(0, "default_pg", (0..size).collect())];
    groups.extend((0..size / 8).map(|i| group(1 + i, "tensor", (i * 8..i * 8 + 8).collect())));
    groups
        .extend((0..8).map(|i| group(1 + size / 8 + i, "data", (0..size / 8).map(|k| k * 8 + i).collect())));
    let program = |rank: usize| {
        let (tensor, data) = (1 + rank / 8, 1 + size / 8 + rank % 8);
        let step = |_| {
            [
                collective(tensor, "all_reduce", 64, 64),
                collective(data, "all_reduce", 8, 8),
                collective(0, "all_reduce", 1, 1),
            ]
        };
        let mut calls: Vec<_> = (0..3).flat_map(step).collect();
        if rank == stops {
            calls.truncate(6);
        }
        calls
    };
    Fleet { programs: (0..size).map(program).collect(), groups, ahead: 2, ranks: Vec::new(), seed: 1 }.run()
}

#[test]
fn a_thousand_ranks_fit_a_screen() {
    let view = view(&dumps(&large(1024, 77)));
    let text = text(&view);
    assert_eq!((view.roots.len(), view.roots[0].ranks.as_str()), (1, "77"), "{text}");
    assert!(text.lines().count() <= 45, "{text}");
    assert!(text.contains("127 groups of 8 like tensor") || text.contains("groups like tensor"), "{text}");
    let mut dot = Vec::new();
    waits::write_dot(&view, &mut dot).unwrap();
    assert!(dot.len() < 8000, "{}", dot.len());
}

#[test]
fn no_waits_is_said_with_what_to_collect() {
    let view = view(&vec![("job.log".into(), b"step 1 loss 2.0\nstep 2 loss 1.9\n".to_vec())]);
    let text = text(&view);
    assert!(view.roots.is_empty() && text.contains("shows no waits"), "{text}");
    assert!(text.contains("What to collect") && text.contains("py-spy"), "{text}");
}

#[test]
fn a_hostile_pickle_is_named_and_the_others_read_on() {
    let (job, truth) = plant(Kind::Missing, 2, 8);
    let mut files = dumps(&job);
    files[6].1 = b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.".to_vec();
    let report = read(&files);
    assert_eq!(report.diagnoses[0].culprits.ranks, truth.ranks, "{:?}", report.diagnoses[0].why);
    assert!(
        problems(&report).contains("hostile: asks to import or call posix.system"),
        "{}",
        problems(&report)
    );
}

#[test]
fn odd_folders_are_told_and_read() {
    // Two attempts in one folder, two files of one rank, mixed versions, an empty file.
    let (job, truth) = plant(Kind::Missing, 2, 8);
    let old = Fleet::training(1, 2).run();
    let mut files = dumps(&job);
    files.push(("dumps/old/dump_4".into(), old.dump(4, &Style::default(), 2000)));
    files[7].1 = String::from_utf8_lossy(&job.dump(7, &Style { json: true, ..Style::default() }, 2000))
        .replace("\"version\":\"2.10\"", "\"version\":\"2.9\"")
        .into_bytes();
    files.push(("dumps/dump_9".into(), Vec::new()));
    let report = read(&files);
    assert_eq!(report.diagnoses[0].culprits.ranks, truth.ranks);
    let odd = view(&files).problems.join("\n");
    assert!(odd.contains("2 dumps of rank 4") && odd.contains("different format versions"), "{odd}");
}

#[test]
fn dumps_of_an_earlier_attempt_do_not_mix() {
    let (first, _) = plant(Kind::Size, 6, 8);
    let (second, truth) = plant(Kind::Missing, 2, 8);
    let mut files: Files = Vec::new();
    for (n, job) in [&first, &second].into_iter().enumerate() {
        files.extend((0..8).map(|r| {
            let log = job.log(r, Talk { signals: true, ..Talk::default() });
            (format!("run/attempt_{n}/{r}/stderr.log"), log.into_bytes())
        }));
        files.extend(
            (0..8).map(|r| (format!("run/attempt_{n}/dump_{r}"), job.dump(r, &Style::default(), 2000))),
        );
    }
    let report = read(&files);
    assert_eq!(
        (report.diagnoses[0].cause.as_str(), &report.diagnoses[0].culprits.ranks),
        ("app/rank-missing", &truth.ranks)
    );
}

fn spy(pid: usize, frames: &[&str]) -> Vec<u8> {
    let mut text = format!(
        "Process {pid}: python -u fit.py\nPython v3.11.7 (/usr/bin/python3.11)\n\nThread {pid} (idle): \"MainThread\"\n"
    );
    frames.iter().for_each(|f| text.push_str(&format!("    {f}\n")));
    text.into_bytes()
}

const IN_REDUCE: [&str; 2] =
    ["all_reduce (torch/distributed/distributed_c10d.py:2501)", "step (fit/loop.py:90)"];

#[test]
fn stacks_tell_where_the_culprit_stands() {
    let (job, truth) = plant(Kind::Missing, 5, 12);
    let mut files = dumps(&job);
    for rank in 0..8usize {
        let frames =
            if rank == 5 { &["read_shard (fit/data.py:44)", "step (fit/loop.py:71)"] } else { &IN_REDUCE };
        files.push((format!("stacks/rank_{rank}.txt"), spy(900 + rank, frames)));
    }
    let view = view(&files);
    assert_eq!(view.roots[0].at[0], "read_shard (fit/data.py:44)");
    assert_eq!((view.stacks.len(), view.stacks[0].who.as_str()), (2, "5"), "{:?}", view.stacks);
    let report = read(&files);
    let first = &report.diagnoses[0];
    assert_eq!(first.culprits.ranks, truth.ranks);
    assert!(
        first.evidence.iter().any(|e| e.text.contains("read_shard (fit/data.py:44)")),
        "{:?}",
        first.evidence
    );
}

#[test]
fn stacks_alone_name_the_odd_one_out() {
    for busy in [0, 6] {
        let mut files: Files = Vec::new();
        for rank in 0..8usize {
            let frames = if rank == busy {
                &["save_shard (fit/keep.py:44)", "step (fit/loop.py:71)"]
            } else {
                &IN_REDUCE
            };
            files.push((format!("stacks/rank_{rank}.txt"), spy(900 + rank, frames)));
        }
        let report = read(&files);
        let first = &report.diagnoses[0];
        assert_eq!(
            (first.cause.as_str(), &first.culprits.ranks[..]),
            ("app/rank-missing", &[busy as u32][..])
        );
    }
}

fn ras(behind: u32, count: i64) -> String {
    format!(
        "NCCL version 2.27.3 compiled with CUDA 12.8\nCUDA runtime version 12080, driver version 12090\n\nJob summary\n\
         ===========\n\n  Nodes  Processes         GPUs\n      2          4            1\n\nWarnings\n========\n\n\
         #0-0 (91c0ffee00112233) MISMATCH\n  Communicator ranks have different collective operation counts\n  \
         7 ranks have launched up to operation {}\n  Rank {behind} -- GPU 1 managed by process 4711 on node 10.1.0.7 has \
         launched up to operation {count}\n",
        count + 1
    )
}

#[test]
fn ras_counts_that_do_not_move_name_the_late_rank() {
    let two = |second: String| -> Files {
        vec![("ras-1.txt".into(), ras(3, 41).into_bytes()), ("ras-2.txt".into(), second.into_bytes())]
    };
    let report = read(&two(ras(3, 41)));
    let first = &report.diagnoses[0];
    assert_eq!((first.cause.as_str(), &first.culprits.ranks[..]), ("app/rank-missing", &[3][..]));
    // Counts that move are those of a job at work.
    let causes = |files: &Files| read(files).diagnoses.iter().map(|d| d.cause.clone()).collect::<Vec<_>>();
    assert_eq!(causes(&two(ras(3, 88))), [] as [&str; 0]);
    // One answer alone is a hint, with the advice to ask again.
    let one = read(&vec![("ras.txt".into(), ras(3, 41).into_bytes())]);
    assert_eq!((one.diagnoses.len(), &one.notices[0].culprits.ranks[..]), (0, &[3][..]));
    assert!(one.notices[0].why.contains("ask RAS again"), "{}", one.notices[0].why);
}

#[test]
fn the_culprits_own_lines_decide_the_cause() {
    let own: [(&str, &str, &[&str]); 6] = [
        (
            "exception",
            "[rank5]: Traceback (most recent call last):\n[rank5]:   File \"/src/fit.py\", line 40, in step\n[rank5]:     \
             loss = head(x)\n[rank5]: ValueError: labels out of range\n",
            &["app/exception"],
        ),
        (
            "memory",
            "[rank5]: Traceback (most recent call last):\n[rank5]:   File \"/src/fit.py\", line 40, in step\n[rank5]:     \
             y = net(x)\n[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 1 has a \
             total capacity of 79.10 GiB of which 1.20 GiB is free. Process 41005 has 77.80 GiB memory in use.\n",
            &["memory/gpu-oom-app"],
        ),
        (
            "checkpoint",
            "[rank5]: Saving checkpoint to /scratch/run/step_900\n",
            &["app/rank-slow", "app/rank-missing"],
        ),
        ("nothing", "", &["app/rank-missing"]),
        (
            "index assert",
            "[rank5]: /pytorch/aten/src/ATen/native/cuda/Indexing.cu:1290: indexSelectLargeIndex: block: [3,0,0], thread: \
             [5,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n[rank5]: RuntimeError: CUDA error: device-side \
             assert triggered\n",
            &["gpu/illegal-access"],
        ),
        (
            "kernel",
            "Apr 12 05:06:59 gpu-c04 kernel: NVRM: Xid (PCI:0000:2b:00): 79, pid=41005, name=python, GPU has fallen off the bus.\n",
            &["gpu/xid"],
        ),
    ];
    let mut table = String::new();
    for (what, lines, causes) in own {
        for with_dumps in [true, false] {
            let (job, _) = plant(Kind::Missing, 5, 17);
            let talk = Talk { nccl: true, signals: what == "nothing" || what == "checkpoint" };
            let mut files: Files =
                (0..8).map(|r| (format!("rank_{r}.log"), job.log(r, talk).into_bytes())).collect();
            if what == "kernel" {
                files.push(("dmesg-gpu-c04.txt".into(), lines.as_bytes().to_vec()));
            } else {
                files[5].1.extend(lines.as_bytes());
            }
            if with_dumps {
                files.extend(dumps(&job));
            }
            let report = read(&files);
            let first = &report.diagnoses[0];
            if !causes.contains(&first.cause.as_str())
                || first.culprits.ranks != [5]
                || report.diagnoses.len() != 1
            {
                let said: Vec<_> = report.diagnoses.iter().map(|d| (&d.cause, &d.culprits)).collect();
                table.push_str(&format!("{what}, dumps {with_dumps}: {said:?}\n"));
            }
        }
    }
    assert!(table.is_empty(), "\n{table}");
}

fn roots(text: &str) -> Vec<(&'static str, String)> {
    let view = view(&vec![("job.log".into(), text.as_bytes().to_vec())]);
    view.roots.into_iter().map(|r| (r.kind, r.ranks)).collect()
}

#[test]
fn comparisons_that_torch_makes_are_followed_too() {
    let barrier = "RuntimeError: [Rank 0]: Rank 3 failed to pass monitoredBarrier in 20000 ms\n";
    assert_eq!(
        roots(&format!("[rank0]: Traceback (most recent call last):\n[rank0]: {barrier}")),
        [("missing", "3".into())]
    );
    let desync = "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n\
        \t   - [5] finished collective #40, but didn't join collective #41 (count from 1)\n\
        \t   - [0, 1, 2, 3, 4, 6, 7] joined but didn't finish collective #41 (count from 1)\n";
    assert_eq!(roots(desync), [("missing", "5".into())]);
    let print = |rank: u32, size: u32, peer: u32, other: u32| {
        let side = |n: u32| {
            format!(
                "CollectiveFingerPrint(SequenceNumber=9, OpType=ALLREDUCE, TensorShape=[{n}], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cuda))"
            )
        };
        format!(
            "[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]: RuntimeError: Detected mismatch between \
             collectives on ranks. Rank {rank} is running collective: {}, but Rank {peer} is running collective: {}.Collectives differ\n",
            side(size),
            side(other)
        )
    };
    let all = [(0, 16, 2, 12), (1, 16, 2, 12), (2, 12, 0, 16), (3, 16, 2, 12)];
    let text: String = all.into_iter().map(|(a, b, c, d)| print(a, b, c, d)).collect();
    assert_eq!(roots(&text), [("mismatch", "2".into())]);
}

#[test]
fn the_trace_of_a_job_at_work_is_no_hang() {
    // Cut anywhere: the ranks are not equally far, and nothing else says that it hangs.
    let (job, _) = plant(Kind::Missing, 4, 30);
    let lines: Vec<String> = (0..8).map(|r| job.log(r, Talk { nccl: true, signals: false })).collect();
    let text: String = lines
        .iter()
        .flat_map(|l| l.lines().filter(|l| !l.contains("ProcessGroupNCCL")))
        .map(|l| format!("{l}\n"))
        .collect();
    assert_eq!(roots(&text), []);
}

/// Watchdogs of old releases name no group; a report that misses a rank at their very position does.
#[test]
fn a_desync_report_names_the_group_of_watchdogs_that_do_not() {
    let log = |seq: u32| {
        let mut log = String::from(
            "[E ProcessGroupNCCL.cpp:894] \n\t - [0] Timeout at collective: BROADCAST, #97\n\t - To our best \
             knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n\t   - [2] finished collective \
             #96, but didn't join collective #97 (count from 1)\n",
        );
        for rank in [0, 1, 3] {
            log += &format!(
                "[E ProcessGroupNCCL.cpp:475] [Rank {rank}] Watchdog caught collective operation timeout: \
                 WorkNCCL(SeqNum={seq}, OpType=BROADCAST, NumelIn=64, NumelOut=64, Timeout(ms)=1800000) ran for \
                 1800321 milliseconds before timing out.\n"
            );
        }
        vec![("err.log".to_string(), log.into_bytes())]
    };
    let seen = view(&log(97));
    assert_eq!((seen.roots[0].kind, seen.roots[0].ranks.as_str()), ("missing", "2"), "{seen:#?}");
    assert_eq!(seen.groups.len(), 1, "{seen:#?}");
    // At another position they may be of any group.
    let seen = view(&log(41));
    assert_eq!(seen.groups.len(), 2, "{seen:#?}");
}
