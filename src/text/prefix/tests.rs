//! Every layer, stacked and alone, and beside each the text that must stay.

use super::{Prefix, split_prefix};
use proptest::prelude::*;

/// The prefix in short, `rank=3 host=n7 …`, and the rest.
fn show(line: &str) -> (String, String) {
    let p = split_prefix(line.as_bytes());
    let Prefix { rank, label, local, host, pid, name, time, stream_err, len } = p;
    let mut out = Vec::new();
    for (key, n) in [("rank", rank), ("label", label), ("local", local), ("pid", pid)] {
        out.extend(n.map(|n| format!("{key}={n}")));
    }
    for (key, s) in [("host", host), ("name", name), ("time", time)] {
        out.extend(s.map(|(a, b)| format!("{key}={}", &line[a as usize..b as usize])));
    }
    if stream_err {
        out.push("err".into());
    }
    (out.join(" "), line[len as usize..].to_string())
}

#[track_caller]
fn all(cases: &[(&str, &str, &str)]) {
    for (line, want, rest) in cases {
        assert_eq!(show(line), (want.to_string(), rest.to_string()), "{line}");
    }
}

/// Nothing is taken from these, whatever they look like.
#[track_caller]
fn none(lines: &[&str]) {
    for line in lines {
        let p = split_prefix(line.as_bytes());
        assert_eq!(p, Prefix { time: p.time, ..Prefix::default() }, "{line}");
    }
}

#[test]
fn torchrun() {
    all(&[
        ("[rank3]: Traceback (most", "rank=3", "Traceback (most"),
        ("[rank3]:   File \"a.py\"", "rank=3", "  File \"a.py\""),
        ("[rank12]:[E1218 20:27:21.426415540 P.cpp:6] x", "rank=12", "[E1218 20:27:21.426415540 P.cpp:6] x"),
        ("**[rank1]: KeyError: 'a'**", "rank=1", "KeyError: 'a'**"),
        ("> [rank1]: x", "rank=1", "x"),
        ("[default3]:text", "local=3", "text"),
        ("[default3]:  indented", "local=3", "  indented"),
        ("[trainer3]:text", "local=3", "text"),
        ("[default0]:[rank8]: x", "rank=8 local=0", "x"),
        ("[0]:loading", "local=0", "loading"),
        ("[n07-b:2]:n07-b:31:33 [2] NCCL INFO x", "local=2 host=n07-b", "n07-b:31:33 [2] NCCL INFO x"),
        ("[[n07-b:2]:x", "local=2 host=n07-b", "x"),
        (
            "0: [default1]:[rank9]:[E1127 10:11:12.1 P.cpp:6] [Rank 1] x",
            "rank=9 label=0 local=1",
            "[E1127 10:11:12.1 P.cpp:6] [Rank 1] x",
        ),
        ("i.tune/0 [default3]:text", "label=0 local=3 name=i.tune/0", "text"),
        ("worker/1 [default3]:text", "label=1 local=3 name=worker/1", "text"),
    ]);
    none(&[
        "[0]:",
        "[0]: ",
        "[Rank 3] Watchdog",
        "[rank: 3] Received SIGTERM",
        "[rankings]: x",
        "[rank3] x",
        "[epoch3]: loss",
        "[step12]: x",
        "[c10d] text",
        "[NeMo W 2026-01-02 03:04:05 nemo:3] x",
        "[pip3] torch==2",
        "[gpu0]: 45 C",
        "[2, 3] tensor",
        "[3.5, 4.5] x",
        "[1]",
        "a/b/c 3",
        "results/3 files",
        "and/1 more",
        "**bold** text",
        "* [rank] x",
        "[12:56:58] ../src/x.cc:196: y",
        "[E ProcessGroupNCCL.cpp:475] x",
    ]);
}

#[test]
fn numbers_of_schedulers() {
    all(&[
        ("3: text", "label=3", "text"),
        (" 3: text", "label=3", "text"),
        ("   0: text", "label=0", "text"),
        ("003: text", "label=3", "text"),
        ("12:", "label=12", ""),
        ("12: ", "label=12", ""),
        ("7: 3: text", "label=7", "3: text"),
        ("4: n07: n07:31:33 [4] NCCL INFO x", "label=4 host=n07", "n07:31:33 [4] NCCL INFO x"),
        ("[3] Loading", "label=3", "Loading"),
    ]);
    none(&[
        "Epoch 3: loss=1",
        "step 3: loss=2",
        "Exception: 3: x",
        "100%|###| 3/3",
        "12:30: hello",
        "3:x",
        "      3: x",
        "-1: x",
        "12345678: x",
        "3.5: x",
        "[0] NCCL INFO x",
        "[0] NCCL WARN x",
        "[0] include/shm.h:48 NCCL WARN x",
        "[0] xResult_t xProgress(xComm*):1231 NCCL WARN x",
        "[1] 4711",
        "[3]  two",
    ]);
}

#[test]
fn mpi() {
    all(&[
        ("[1,3]<stdout>:text", "label=3", "text"),
        ("[1,3]<stdout>: text", "label=3", "text"),
        ("[1,3]<stderr>:  File", "label=3 err", "  File"),
        ("[1,3]<stddiag>:text", "label=3 err", "text"),
        ("[1,mpirank:5,algo-2]<stdout>:text", "rank=5 host=algo-2", "text"),
        ("[prterun-n07-4711@1,3]<stdout>:text", "label=3 host=n07", "text"),
        ("[prterun-n07-b-4711@1,3]<stdout>:text", "label=3 host=n07-b", "text"),
        ("[1,3][n07:12345]<stderr>:text", "label=3 pid=12345 host=n07 err", "text"),
        ("Tue Jan  6 10:11:12 2026[1,3]<stdout>:text", "label=3 time=Tue Jan  6 10:11:12 2026", "text"),
        ("2026-01-06T10:11:12.884Z: [1,12]<stdout>:text", "label=12 time=2026-01-06T10:11:12.884Z", "text"),
        ("[n07:mpi_rank_3][handler] Caught", "label=3 host=n07", "[handler] Caught"),
        ("0: [1,12]<stdout>:text", "label=12", "text"),
    ]);
    none(&[
        "[1,3]<stdin>:x",
        "[1,3] x",
        "[1,3]: x",
        "[1,a]<stdout>:x",
        "Tue Jan  6 10:11:12 2026",
        "[[1,0],2]: A high",
    ]);
}

#[test]
fn hosts() {
    all(&[
        ("node62: text", "host=node62", "text"),
        (
            "vm-07-05: [2026-01-01 10:11:12,123] [INFO] x",
            "host=vm-07-05 time=[2026-01-01 10:11:12,123]",
            "[2026-01-01 10:11:12,123] [INFO] x",
        ),
        ("10.91.182.69: text", "host=10.91.182.69", "text"),
        ("gpu07.cluster.example: text", "host=gpu07.cluster.example", "text"),
        ("x3005c0s25b1n0: rank 2 died", "host=x3005c0s25b1n0", "rank 2 died"),
        ("38dcf168f605: text", "host=38dcf168f605", "text"),
        ("node62: node62:11:12 [3] NCCL INFO x", "host=node62", "node62:11:12 [3] NCCL INFO x"),
        ("DGX_A: DGX_A:11:12 [3] NCCL INFO x", "host=DGX_A", "DGX_A:11:12 [3] NCCL INFO x"),
        ("worker-9 >> text", "host=worker-9", "text"),
        (
            "2026-01-25 09:37:02.216313 worker-9 >> :168:12 [2] NCCL INFO x",
            "host=worker-9 time=2026-01-25 09:37:02.216313",
            ":168:12 [2] NCCL INFO x",
        ),
        ("trainer-1  | text", "host=trainer-1", "text"),
        ("job-worker-3 pytorch [rank3]: x", "rank=3 host=job-worker-3", "x"),
        ("job-worker-3 pytorch n1:2:3 [0] NCCL INFO x", "host=job-worker-3", "n1:2:3 [0] NCCL INFO x"),
        ("[pod/job-worker-3/pytorch] text", "host=job-worker-3", "text"),
        (
            "[pod/job-worker-3/pytorch] 2026-01-02T03:04:05.1Z text",
            "host=job-worker-3 time=2026-01-02T03:04:05.1Z",
            "text",
        ),
    ]);
    none(&[
        "WARNING: x",
        "RuntimeError: x",
        "torch.cuda.OutOfMemoryError: x",
        "torch2.Error3: x",
        "x.cc:12",
        "x.cc: y",
        "train3.py: line",
        "model.layers.3.mlp: x",
        "python3.8: can't open",
        "step3: loss",
        "fp16: True",
        "top-1: 76.3",
        "batch-size: 32",
        "nvidia-smi: not found",
        "c10d: x",
        "gpu-0: 45 C",
        "mlx5_0: x",
        "eth0: up",
        "http://a:80: x",
        "node62:11:12 [3] NCCL INFO x",
        "node-3: 45",
        "epoch-3: x",
        "layer12: x",
        "node62:x",
        "10.91.182.69:4000: x",
        "socket.timeout: x",
        "zlib2.error: x",
        "val2-loss: x",
        "sha256: x",
        "job-worker-3 pytorch says",
        "a >> b",
        "out >> file",
        "metric-1 | 3",
        "step-1  | x",
        "srun: error: x",
        "HTTP-2 x",
        "e-3 x",
        "3d: x",
        "mpirun2torch: x",
    ]);
}

#[test]
fn ray_vllm_sglang() {
    all(&[
        ("(WorkerDict pid=11, ip=10.0.0.3) text", "pid=11 host=10.0.0.3 name=WorkerDict", "text"),
        ("(pid=11) text", "pid=11", "text"),
        ("(head, rank=0, pid=45) [n0:2]:x", "label=0 local=2 pid=45 host=n0 name=head", "x"),
        (
            "(7k2WorkerDict_1:13 WorkerDict pid=12, ip=[fd05::1]) x",
            "pid=12 host=fd05::1 name=WorkerDict",
            "x",
        ),
        ("(EngineCore_DP0 pid=2) x", "pid=2 name=EngineCore_DP0", "x"),
        ("(Worker_TP1 pid=3)   File", "pid=3 name=Worker_TP1", "  File"),
        ("(VllmWorker rank=0 pid=4711) x", "rank=0 pid=4711 name=VllmWorker", "x"),
        ("(raylet) x", "name=raylet", "x"),
        ("(raylet, ip=10.0.0.3) x", "host=10.0.0.3 name=raylet", "x"),
        ("(APIServer pid=1)", "pid=1 name=APIServer", ""),
        ("[2026-01-04 01:18:25 DP4 TP4 EP4] Decode", "name=DP4 TP4 EP4 time=2026-01-04 01:18:25", "Decode"),
        ("[2026-01-04 01:18:25 TP14] x", "name=TP14 time=2026-01-04 01:18:25", "x"),
        ("(pid=11) n1:2:3 [0] NCCL INFO x", "pid=11", "n1:2:3 [0] NCCL INFO x"),
    ]);
    none(&[
        "(most recent call last)",
        "(pid 3) x",
        "(a pid=x) y",
        "(1, 2, 3)",
        "(pid=3)x",
        "(rank=3) x",
        "[2026-01-04 01:18:25 Tp4] x",
        "[2026-01-04 01:18:25] plain",
        "(see raylet logs) x",
    ]);
}

#[test]
fn containers_and_journals() {
    all(&[
        ("2026-01-02T03:04:05.123456789Z stderr F text", "time=2026-01-02T03:04:05.123456789Z err", "text"),
        ("2026-01-02T03:04:05.1Z stdout P 3: x", "label=3 time=2026-01-02T03:04:05.1Z", "x"),
        ("2026-01-02T03:04:05Z stdout F", "time=2026-01-02T03:04:05Z", ""),
        ("2026-01-02T03:04:05Z [rank3]: x", "rank=3 time=2026-01-02T03:04:05Z", "x"),
        ("2026-01-02T03:04:05+01:00 text", "time=2026-01-02T03:04:05+01:00", "text"),
        ("Jan 02 03:04:05 n07 kernel: NVRM: Xid", "host=n07 name=kernel time=Jan 02 03:04:05", "NVRM: Xid"),
        (
            "Jan  2 03:04:05 n07 kernel: [12345.678901] NVRM: Xid",
            "host=n07 name=kernel time=Jan  2 03:04:05",
            "NVRM: Xid",
        ),
        ("Jan 02 03:04:05 n07 slurmd[12]: x", "pid=12 host=n07 name=slurmd time=Jan 02 03:04:05", "x"),
        ("2026-01-02T03:04:05+0100 n07 kernel: x", "host=n07 name=kernel time=2026-01-02T03:04:05+0100", "x"),
        (
            "2026-01-02T03:04:05+0100 n07 sshd[7]: x",
            "pid=7 host=n07 name=sshd time=2026-01-02T03:04:05+0100",
            "x",
        ),
        ("[12345.678901] NVRM: x", "time=[12345.678901]", "NVRM: x"),
        ("[    0.000000] Linux", "time=[    0.000000]", "Linux"),
        ("<4>[12345.678901] NVRM: x", "time=[12345.678901]", "NVRM: x"),
        ("[Tue Jan  6 10:11:12 2026] NVRM: x", "time=[Tue Jan  6 10:11:12 2026]", "NVRM: x"),
        ("704.7s\t1468\tRoot Cause", "time=704.7s", "Root Cause"),
        ("16:28:59.052 [rank3]: x", "rank=3 time=16:28:59.052", "x"),
        ("[2026-01-02 03:04:05] [rank3]: x", "rank=3 time=[2026-01-02 03:04:05]", "x"),
        ("2026-01-02 03:04:05 [E P.cpp:6] x", "time=2026-01-02 03:04:05", "[E P.cpp:6] x"),
        ("n07: 2026-01-02T03:04:05Z x", "host=n07 time=2026-01-02T03:04:05Z", "x"),
    ]);
}

#[test]
fn a_time_of_the_program_stays() {
    for (line, time) in [
        ("2026-09-14 10:31:02,496 - root - INFO - x", "2026-09-14 10:31:02,496"),
        ("2026-09-14T10:31:02Z - root - INFO - x", "2026-09-14T10:31:02Z"),
        ("[2026-09-14 10:31:02] n1:2:3 [0] a.cc:1 NCCL WARN x", "[2026-09-14 10:31:02]"),
        ("[2026-09-14 10:31:02,100] [INFO] [a.py:3:f] x", "[2026-09-14 10:31:02,100]"),
        ("16:28:59.052 text", "16:28:59.052"),
        ("2026-09-14 10:31:02 3: text", "2026-09-14 10:31:02"),
        ("2026-09-14 10:31:02 node7: text", "2026-09-14 10:31:02"),
        ("[1594409584.658123] [n1:4021 :0]   ib.c:3  UCX  ERROR x", "[1594409584.658123]"),
        ("Jan 02 03:04:05 happened", "Jan 02 03:04:05"),
        ("Tue Jan  6 10:11:12 2026", "Tue Jan  6 10:11:12 2026"),
    ] {
        assert_eq!(show(line), (format!("time={time}"), line.to_string()), "{line}");
    }
}

#[test]
fn plain_text() {
    none(&[
        "",
        " ",
        "[",
        "(",
        "<",
        "*",
        "hello",
        "INFO:root:x",
        "  File \"a.py\", line 3, in f",
        "Traceback (most recent",
        "slurmstepd: error: x",
        "+ srun x",
        "=====",
        "Rank 3: x",
        "n1:2:3 [0] NCCL INFO Channel 00/0 : 2[2] -> 3[3]",
        "wandb: Tracking",
        "NCCL version 2.19.4",
        "#  Rank 12 Group  0 Pid",
        "user@host1:~$ ls",
        "root@a1:/# x",
        "May the force",
        "<4> x",
        "|   0  N/A |",
        "{\"a\": 3}",
        "3 x",
        "1e-3: x",
    ]);
}

fn sane(line: &[u8]) {
    let p = split_prefix(line);
    assert!(p.len as usize <= line.len());
    for (a, b) in [p.host, p.name, p.time].into_iter().flatten() {
        assert!(a <= b && b as usize <= line.len());
    }
}

proptest! {
    #[test]
    fn spans_lie_in_the_line(line in proptest::collection::vec(any::<u8>(), 0..120)) {
        sane(&line);
    }

    #[test]
    fn spans_lie_in_lines_made_of_layers(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "[rank3]:", "[1,3]", "<stdout>:", "3: ", "node7: ", "(", "pid=3", ")", " ", "[", "]", ":", "2026-01-02",
            "T03:04:05", ".5Z", " stderr F ", "[pod/", "a/b", "Jan 02 ", "03:04:05 ", "kernel: ", "[12.345678] ", "@",
            "NCCL INFO", "[0]", "E1218", "é", "\t", "704.7s", ">> ", "| ", "i.r/0 ", "ip=[", "rank=",
        ]), 0..10)
    ) {
        sane(parts.concat().as_bytes());
    }
}
