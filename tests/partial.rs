//! Input that shows a part only: one answer of RAS, dumps of a few ranks, dumps
//! that nobody can read, stacks and traces of a job that may be at work. What it
//! does not show is not claimed.

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
use fleet::{Call, Fleet, Group, Style, collective, pair};
use ncclcheck::report::{Report, Verdict};
use views::{Files, dumps, read, text, view};

fn file(name: &str, text: &str) -> (String, Vec<u8>) {
    (name.into(), text.as_bytes().to_vec())
}

/// Cause and ranks of the first diagnosis.
fn blamed(report: &Report) -> (&str, &[u32]) {
    report.diagnoses.first().map_or(("", &[]), |d| (&d.cause, &d.culprits.ranks))
}

/// All ranks in one group, each with its program.
fn fleet(programs: Vec<Vec<Call>>) -> Fleet {
    let all = Group { name: "0".into(), desc: "default_pg".into(), members: (0..programs.len()).collect() };
    Fleet { groups: vec![all], programs, ahead: 1, ranks: Vec::new(), seed: 5 }.run()
}

fn ras(notices: &str) -> (String, Vec<u8>) {
    let text = format!(
        "NCCL version 2.27.5 compiled with CUDA 12.9\nCUDA runtime version 12090, driver version 12090\n\nJob summary\n\
         ===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n(total)   per node  per process    (total)  (total)\n\
         \x20     2          8            1         16       16\n\nCommunicators... (0.00s)\n=============\n\nGroup     Comms     \
         Nodes     Ranks     Ranks     Ranks    Status  Errors\n    #  in group  per comm  per node  per comm  in group\n    \
         0         1         2         8        16        16   RUNNING  MISMATCH\n\n{notices}"
    );
    file("ras.txt", &text)
}

const TWO_BEHIND: &str = "Warnings\n========\n\n#0-0 (6be1000000000c0d) MISMATCH\n  Communicator ranks have different collective \
    operation counts\n  14 ranks have launched up to operation 311\n  2 ranks have launched up to operation 310\n  Rank 9 -- GPU 1 \
    managed by process 811 on node 10.9.0.4\n  Rank 12 -- GPU 4 managed by process 814 on node 10.9.0.4\n";

#[test]
fn one_answer_of_ras_with_ranks_behind_is_a_notice() {
    let files = vec![ras(TWO_BEHIND)];
    let report = read(&files);
    assert_ne!(report.verdict, Verdict::Fault, "{:?}", report.diagnoses);
    assert_eq!((report.diagnoses.len(), report.notices.len()), (0, 1));
    assert_eq!(report.notices[0].culprits.ranks, [9, 12]);
    assert!(report.notices[0].why.contains("ask RAS again"), "{}", report.notices[0].why);
    let view = view(&files);
    assert!(view.roots.is_empty());
    let fronts: Vec<_> =
        view.groups[0].fronts.iter().map(|f| (f.ranks.as_str(), f.entered, f.finished)).collect();
    assert_eq!(fronts, [("9,12", Some(310), None), ("0-8,10,11,13-15", Some(311), None)]);
}

#[test]
fn a_copy_of_an_answer_is_not_a_second_one() {
    let answer = |time: &str| {
        let rank = |r: u32| {
            let count = if r == 2 { 70 } else { 71 };
            format!(
                r#"{{"rank":{r},"host":"n0","pid":{},"collective_counts":{{"AllReduce":{count}}}}}"#,
                900 + r
            )
        };
        let ranks: Vec<String> = (0..4).map(rank).collect();
        format!(
            r#"{{"nccl_version":"2.28.7","timestamp":"{time}","communicators_count":1,"communicators":[{{"hash":"0x77","size":4,"ranks":[{}],"missing_ranks":[]}}],"ras":{{"timeouts_count":0}}}}"#,
            ranks.join(",")
        )
    };
    let two = |a: &str, b: &str| vec![file("a.json", &answer(a)), file("b.json", &answer(b))];
    let copy = read(&two("2026-05-05 10:00:00", "2026-05-05 10:00:00"));
    assert_eq!((copy.diagnoses.len(), copy.notices.len()), (0, 1), "{:?}", copy.diagnoses);
    let later = read(&two("2026-05-05 10:00:00", "2026-05-05 10:02:00"));
    assert_eq!(blamed(&later), ("app/rank-missing", &[2][..]));
}

#[test]
fn who_does_not_answer_ras_is_named_with_its_node() {
    let files = vec![ras(
        "Errors\n======\n\nDEAD\n  1 job process is considered dead (unreachable via the RAS network)\n  Process 5512 on node 10.9.0.5 \
         managing GPU 3\n\n#0-0 (6be1000000000c0d) INCOMPLETE\n  Missing communicator data from 1 rank\n  The missing rank: 11\n",
    )];
    let report = read(&files);
    let first = &report.diagnoses[0];
    assert_eq!(
        (&first.culprits.ranks[..], &first.culprits.hosts[..]),
        (&[11][..], &["10.9.0.5".to_string()][..])
    );
    assert!(!first.why.contains("until their timeout"), "{}", first.why);
    let view = view(&files);
    assert_eq!((view.roots[0].kind, view.roots[0].ranks.as_str()), ("no-answer", "11"));
    assert!(view.summary.contains("process 5512 on 10.9.0.5"), "{}", view.summary);
}

#[test]
fn dumps_of_a_few_ranks_accuse_nobody() {
    let (job, _) = plant(Kind::Missing, 5, 3);
    let all = dumps(&job);
    for given in [&[1][..], &[0, 3, 4], &[0, 1, 2, 3, 6]] {
        let files: Files = given.iter().map(|r| all[*r].clone()).collect();
        let report = read(&files);
        assert_eq!(report.verdict, Verdict::Inconclusive, "{given:?} {:?}", report.diagnoses);
        assert_eq!(blamed(&report), ("unknown/hang", &[][..]), "{given:?}");
        assert!(!report.diagnoses[0].evidence.is_empty(), "{given:?}");
        assert!(report.diagnoses[0].why.contains("there is no dump"), "{}", report.diagnoses[0].why);
    }
    // Of all but one it speaks for that one, and is said to be no proof.
    let files: Files = (0..8).filter(|r| *r != 5).map(|r| all[r].clone()).collect();
    let report = read(&files);
    assert_eq!(blamed(&report), ("app/rank-missing", &[5][..]));
    assert!(report.diagnoses[0].confidence < 0.9 && report.diagnoses[0].why.contains("no proof"));
}

#[test]
fn a_dump_that_cannot_be_read_accuses_nobody() {
    let (job, _) = plant(Kind::Missing, 5, 3);
    for bytes in [&b""[..], b"\x00\x01\x02\x03\xff\xfe"] {
        let mut files = dumps(&job);
        files[5].1 = bytes.to_vec();
        let report = read(&files);
        assert_eq!(blamed(&report), ("unknown/hang", &[][..]), "{bytes:?}");
        assert!(report.diagnoses[0].why.contains("dumps/dump_5"), "{}", report.diagnoses[0].why);
        assert!(view(&files).problems.join("\n").contains("dumps/dump_5"));
    }
}

#[test]
fn one_operation_apart_may_be_a_job_at_work() {
    // Rank 2 is still in the operation that the others have just left.
    let step = || collective(0, "all_reduce", 64, 64);
    let mut job = fleet((0..4).map(|_| (0..9).map(|_| step()).collect()).collect());
    for (rank, ops) in job.ranks.iter_mut().enumerate() {
        ops.truncate(if rank == 2 { 8 } else { 9 });
        ops.last_mut().unwrap().ended = false;
    }
    let report = read(&dumps(&job));
    let first = &report.diagnoses[0];
    assert!(first.confidence < 0.65, "{}", first.confidence);
    assert!(!first.why.contains("timeout;") && first.why.contains("at work"), "{}", first.why);
    // One that finished it and came no further is another thing, but no time limit is seen either.
    job.ranks[2].last_mut().unwrap().ended = true;
    let report = read(&dumps(&job));
    assert_eq!(blamed(&report), ("app/rank-missing", &[2][..]));
    let first = &report.diagnoses[0];
    assert!(first.confidence < 0.9 && first.why.contains("No time limit is seen"), "{}", first.why);
}

#[test]
fn documents_that_contradict_each_other_are_told() {
    let (job, _) = plant(Kind::Missing, 2, 8);
    let sure = read(&dumps(&job)).diagnoses[0].confidence;
    // A log in which the missing rank waits far beyond its dump.
    let mut files = dumps(&job);
    files.push(file(
        "job.log",
        "[rank2]:[E0512 08:30:01.100000000 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught collective operation timeout: \
         WorkNCCL(SeqNum=900, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600078 milliseconds before timing out.\n",
    ));
    let report = read(&files);
    assert!(
        report.job.contradictions.iter().any(|c| c.contains("rank 2") && c.contains("#900")),
        "{:?}",
        report.job.contradictions
    );
    let first = report.diagnoses.iter().find(|d| d.cause == "app/rank-missing");
    assert!(first.is_none_or(|d| d.confidence < sure), "{first:?}");
    assert!(common::text(&report, false).contains("Sources disagree"));
    // A dump of a larger job among them.
    let mut files = dumps(&job);
    let more = fleet((0..16).map(|_| vec![collective(0, "all_reduce", 64, 64)]).collect());
    files[0].1 = more.dump(0, &Style::default(), 2000);
    let report = read(&files);
    assert!(
        report.job.contradictions.iter().any(|c| c.contains("0-15") && c.contains("0-7")),
        "{:?}",
        report.job.contradictions
    );
}

#[test]
fn a_dump_of_another_job_draws_no_circle() {
    for kind in [Kind::Missing, Kind::MissingInTensor, Kind::Op, Kind::Size] {
        for foreign in [0, 5, 7] {
            let (job, truth) = plant(kind, 2, 8);
            // Of a job with tensor groups of two in which this rank waits, in other groups, for others.
            let mut other = Fleet::training(4, 6);
            for group in &mut other.groups[1..3] {
                group.members = if group.members.contains(&foreign) { vec![2, foreign] } else { vec![0, 1] };
            }
            other.groups[0].members = (0..16).collect();
            for _ in 8..16 {
                other.programs.push(Vec::new());
            }
            let mut files = dumps(&job);
            files[foreign].1 = other.run().dump(foreign, &Style::default(), 2000);
            let report = read(&files);
            let said = report.job.contradictions.join(" ");
            let named = format!("The dump of rank {foreign} (");
            assert!(said.contains(&named) && said.contains("0-15") && said.contains("0-7"), "{said}");
            assert!(report.diagnoses.iter().all(|d| !d.why.contains("wait for one another")), "{report:#?}");
            let first = &report.diagnoses[0];
            assert!(truth.causes.contains(&first.cause.as_str()), "{kind:?} {foreign}: {}", first.cause);
            assert_eq!(first.culprits.ranks, truth.ranks, "{kind:?} {foreign}");
        }
    }
    // Half against half: nobody is left out, and nothing is sure.
    let (job, _) = plant(Kind::Missing, 2, 8);
    let more = fleet((0..16).map(|_| vec![collective(0, "all_reduce", 64, 64)]).collect());
    let mut files = dumps(&job);
    for (rank, file) in files.iter_mut().enumerate().take(4) {
        file.1 = more.dump(rank, &Style::default(), 2000);
    }
    let report = read(&files);
    assert!(
        report.job.contradictions.iter().all(|c| !c.contains("left out")),
        "{:?}",
        report.job.contradictions
    );
    assert!(report.diagnoses.iter().all(|d| d.confidence < 0.65), "{report:#?}");
}

#[test]
fn a_partner_that_never_came_is_missing() {
    // Rank 2 does nothing any more, rank 3 receives from it.
    let step = || collective(0, "all_reduce", 64, 64);
    let mut programs: Vec<Vec<Call>> = (0..4).map(|_| vec![step(), step()]).collect();
    programs[3].push(pair(0, false, 2));
    let report = read(&dumps(&fleet(programs)));
    assert_eq!(blamed(&report), ("app/rank-missing", &[2][..]));
}

#[test]
fn a_send_and_a_receive_of_different_size() {
    let step = || collective(0, "all_reduce", 64, 64);
    let mut programs: Vec<Vec<Call>> = (0..2).map(|_| vec![step(), step()]).collect();
    programs[0].push(Call { sticks: true, ..pair(0, true, 1) });
    programs[1].push(Call { sticks: true, ..pair(0, false, 0) });
    let same = fleet(programs.clone());
    assert_eq!(blamed(&read(&dumps(&same))).0, "unknown/hang");
    let mut job = same;
    job.ranks[1].last_mut().unwrap().call.outputs = vec![768];
    let report = read(&dumps(&job));
    assert_eq!(blamed(&report), ("app/collective-mismatch", &[0, 1][..]));
    assert!(
        report.diagnoses[0].why.contains("[512] Float") && report.diagnoses[0].why.contains("[768] Float")
    );
}

#[test]
fn the_dumps_of_the_last_attempt_are_read() {
    let (first, _) = plant(Kind::Missing, 6, 8);
    let (second, _) = plant(Kind::Missing, 2, 8);
    let mut files = Files::new();
    for (n, job) in [first, second].iter().enumerate() {
        files.extend(
            (0..8).map(|r| (format!("run/attempt_{n}/dump_{r}"), job.dump(r, &Style::default(), 2000))),
        );
    }
    let report = read(&files);
    assert_eq!(blamed(&report), ("app/rank-missing", &[2][..]));
    let told = report.job.contradictions.join(" ");
    assert!(told.contains("attempt 1 is read") && told.contains("8 dumps of attempt 0"), "{told}");
}

#[test]
fn dumps_without_a_rank_in_the_name_are_told() {
    let (job, truth) = plant(Kind::Missing, 2, 8);
    let named = |f: fn(usize) -> String| -> Files {
        dumps(&job).into_iter().enumerate().map(|(r, d)| (f(r), d.1)).collect()
    };
    let view = view(&named(|r| format!("node{}/trace.pickle", (b'a' + r as u8) as char)));
    assert!(
        !text(&view).contains("neither dumps nor lines") && text(&view).contains("left out"),
        "{}",
        text(&view)
    );
    // A folder of one rank tells it.
    let report = read(&named(|r| format!("rank_{r}/trace.pickle")));
    assert_eq!(report.diagnoses[0].culprits.ranks, truth.ranks);
}

fn spy(rank: usize, frames: &[&str]) -> (String, Vec<u8>) {
    let pid = 700 + rank;
    let mut text = format!(
        "Process {pid}: python -u fit.py\nPython v3.11.7 (/usr/bin/python3.11)\n\nThread {pid} (idle): \"MainThread\"\n"
    );
    frames.iter().for_each(|f| text.push_str(&format!("    {f}\n")));
    file(&format!("stacks/rank_{rank}.txt"), &text)
}

const IN_REDUCE: [&str; 3] = [
    "wait (threading.py:320)",
    "all_reduce (torch/distributed/distributed_c10d.py:2501)",
    "step (fit/loop.py:90)",
];

#[test]
fn names_of_files_are_no_calls() {
    for path in ["/src/barrier_free/load.py", "/src/synchronize/all_reduce.py", "/home/torch/fit/load.py"] {
        let own = format!("read_shard ({path}:41)");
        let one = |r: usize| {
            if r == 3 {
                spy(r, &["read (posix.c:1)", &own, "step (fit/loop.py:71)"])
            } else {
                spy(r, &IN_REDUCE)
            }
        };
        let report = read(&(0..8).map(one).collect());
        assert_eq!(blamed(&report), ("app/rank-missing", &[3][..]), "{path}");
    }
}

#[test]
fn stacks_that_all_wait_are_no_health() {
    let files: Files = (0..4).map(|r| spy(r, &IN_REDUCE)).collect();
    let report = read(&files);
    assert_eq!((report.verdict, blamed(&report)), (Verdict::Inconclusive, ("unknown/hang", &[][..])));
    assert!(
        text(&view(&files)).starts_with("By their stacks all 4 processes stand"),
        "{}",
        text(&view(&files))
    );
}

/// What NCCL's trace of collectives has: eight GPUs of one process, or of one each; rank `behind` hands over less.
fn trace(one_process: bool, behind: u32) -> String {
    let mut out = String::new();
    let head =
        |r: u32| format!("gx4:{}:{} [{r}] NCCL INFO ", if one_process { 300 } else { 300 + r }, 400 + r);
    for r in 0..8 {
        for phase in ["Init START", "Init COMPLETE"] {
            out += &format!(
                "{}ncclCommInitRank comm 0x7fa{r}00 rank {r} nranks 8 cudaDev {r} nvmlDev {r} busId {r}b000 commId 0x51c3 - {phase}\n",
                head(r)
            );
        }
    }
    for count in 0..12 {
        for r in (0..8).filter(|r| *r != behind || count < 7) {
            out += &format!(
                "{}AllReduce: opCount {count:x} sendbuff 0x7f1 recvbuff 0x7f2 count 64 datatype 7 op 0 root 0 comm 0x7fa{r}00 [nranks=8] stream 0x5\n",
                head(r)
            );
        }
    }
    out
}

#[test]
fn the_trace_of_collectives_is_shown_without_a_conclusion() {
    for one_process in [false, true] {
        let view = view(&vec![file("job.log", &trace(one_process, 5))]);
        assert!(
            view.roots.is_empty() && view.summary.starts_with("Nothing says that a rank waits."),
            "{}",
            view.summary
        );
        let fronts: Vec<_> = view.groups[0].fronts.iter().map(|f| (f.ranks.as_str(), f.entered)).collect();
        assert_eq!(fronts, [("5", Some(6)), ("0-4,6,7", Some(11))], "{one_process}");
    }
}

#[test]
fn a_process_with_several_gpus_is_several_ranks() {
    for one_process in [false, true] {
        let mut log = trace(one_process, 5);
        for r in (0..8).filter(|r| *r != 5) {
            log += &format!(
                "[rank{r}]:[E0512 08:30:01.100000000 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation timeout: \
                 WorkNCCL(SeqNum=8, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600078 milliseconds before timing out.\n"
            );
        }
        let view = view(&vec![file("job.log", &log)]);
        assert_eq!((view.roots[0].kind, view.roots[0].ranks.as_str()), ("missing", "5"), "{one_process}");
        // What is not known of it is not invented.
        let mut fronts = view.groups.iter().flat_map(|g| &g.fronts).filter(|f| f.ranks == "5");
        assert!(fronts.all(|f| f.finished.is_none()), "{:?}", view.groups);
    }
}

#[test]
fn circles_hold_each_other_up() {
    let step = || collective(0, "all_reduce", 64, 64);
    let mut programs: Vec<Vec<Call>> = (0..2).map(|_| vec![step(), step()]).collect();
    (0..2).for_each(|r| programs[r].push(pair(0, false, 1 - r)));
    let view = view(&dumps(&fleet(programs)));
    assert!(view.summary.starts_with("ranks 0,1 wait for one another"), "{}", view.summary);
}

#[test]
fn the_first_operation_in_the_program_is_the_root() {
    // A tensor group of two stands earlier than a data group of four; the missing rank is in both.
    let group =
        |name: &str, desc: &str, members: Vec<usize>| Group { name: name.into(), desc: desc.into(), members };
    let groups = vec![
        group("0", "default_pg", (0..6).collect()),
        group("1", "tensor", vec![0, 1]),
        group("2", "data", vec![0, 2, 3, 4]),
    ];
    let mut programs: Vec<Vec<Call>> = (0..6).map(|_| vec![collective(0, "all_reduce", 8, 8)]).collect();
    programs[1].push(collective(1, "all_reduce", 64, 64));
    for r in [2, 3, 4] {
        programs[r].push(collective(2, "all_reduce", 32, 32));
    }
    let mut job = Fleet { groups, programs, ahead: 1, ranks: Vec::new(), seed: 5 }.run();
    let first = job.ranks[1][1].created;
    for r in [2, 3, 4] {
        job.ranks[r][1].created = first + 2_000_000;
    }
    let view = view(&dumps(&job));
    assert_eq!(
        (view.roots[0].ranks.as_str(), view.roots[0].group.as_str()),
        ("0", "tensor (1)"),
        "{:?}",
        view.roots
    );
}

#[test]
fn a_file_with_a_far_number_makes_no_ranks() {
    // Of four ranks one wrote no dump; a copy with another number at its end stands beside.
    let step = || collective(0, "all_reduce", 64, 64);
    let mut programs: Vec<Vec<Call>> = (0..4).map(|_| vec![step(), step()]).collect();
    programs[3].pop();
    let mut files = dumps(&fleet(programs));
    files.pop();
    let copy = files[0].1.clone();
    files.push(("dumps/dump_17".into(), copy));
    assert_eq!(blamed(&read(&files)), ("app/rank-missing", &[3][..]));
}

/// A dump in which gloo's operations are never seen to end, but are no longer watched, beside NCCL's.
fn both_back_ends(barriers: usize, open: bool) -> Vec<u8> {
    let entry = |id: usize, name: &str, group: &str, seq: usize, state: &str, retired: bool| {
        format!(
            r#"{{"record_id":{id},"pg_id":{group},"process_group":["{group}","g{group}"],"collective_seq_id":{seq},"p2p_seq_id":0,"op_id":{seq},"profiling_name":"{name}","time_created_ns":{},"input_sizes":[[8]],"input_dtypes":["Float"],"output_sizes":[[8]],"output_dtypes":["Float"],"state":"{state}","retired":{retired},"timeout_ms":600000,"is_p2p":false,"frames":[]}}"#,
            1_796_059_717_000_000_000u64 + id as u64 * 1_000_000
        )
    };
    let mut list: Vec<String> =
        (0..3).map(|i| entry(i, "nccl:all_reduce", "0", i + 1, "completed", true)).collect();
    for i in 0..barriers {
        let last = open && i + 1 == barriers;
        list.push(entry(3 + i, "gloo:barrier", "1", i + 1, "scheduled", !last));
    }
    format!(
        r#"{{"version":"2.10","pg_config":{{"0":{{"name":"0","desc":"g0","ranks":"[0, 1, 2]"}},"1":{{"name":"1","desc":"g1","ranks":"[0, 1, 2]"}}}},"pg_status":{{"0":{{"last_enqueued_collective":3,"last_started_collective":-1,"last_completed_collective":3}},"1":{{"last_enqueued_collective":{barriers},"last_started_collective":-1,"last_completed_collective":{}}}}},"entries":[{}]}}"#,
        barriers - usize::from(open),
        list.join(",")
    )
    .into_bytes()
}

#[test]
fn back_ends_of_one_dump_are_told_apart() {
    let file = |r: usize, bytes| (format!("dumps/dump_{r}"), bytes);
    let done: Files = (0..3).map(|r| file(r, both_back_ends(2, false))).collect();
    assert!(view(&done).roots.is_empty(), "{:?}", view(&done).roots);
    let hangs: Files = (0..3)
        .map(|r| file(r, if r == 1 { both_back_ends(2, false) } else { both_back_ends(3, true) }))
        .collect();
    let view = view(&hangs);
    assert_eq!((view.roots.len(), view.roots[0].ranks.as_str()), (1, "1"), "{:?}", view.roots);
}

#[test]
fn a_rank_whose_log_is_given_lacks_a_dump_only() {
    let (job, _) = plant(Kind::Missing, 5, 3);
    let mut files: Files = dumps(&job).into_iter().enumerate().filter(|d| d.0 != 5).map(|d| d.1).collect();
    files.push(file(
        "rank5.log",
        "[rank5]: Traceback (most recent call last):\n[rank5]:   File \"/src/fit.py\", line 40, in step\n[rank5]:     y = net(x)\n\
         [rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 5 has a total capacity of 79.10 GiB of \
         which 1.20 GiB is free. Process 41005 has 77.80 GiB memory in use.\n",
    ));
    assert_eq!(blamed(&read(&files)), ("memory/gpu-oom-app", &[5][..]));
    let shown = text(&view(&files));
    assert!(shown.contains("no dump is given of it") && !shown.contains("nothing is given"), "{shown}");
}
