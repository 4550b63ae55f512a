//! Headers of every age, and the text that is none.

use super::super::prefix::split_prefix;
use super::{Level, glog, mid_starts, nccl_header, nccl_quick, pylog};
use proptest::prelude::*;

fn nccl(line: &str) -> Option<(String, String)> {
    let h = nccl_header(line.as_bytes())?;
    let s = |(a, b): (u32, u32)| line[a as usize..b as usize].to_string();
    let mut out = vec![format!("{:?}", h.level), s(h.host)];
    for (key, n) in [("pid", h.pid), ("tid", h.tid), ("line", h.line)] {
        out.extend(n.map(|n| format!("{key}={n}")));
    }
    out.extend(h.dev.map(|d| format!("dev={d}")));
    for (key, v) in [("file", h.file), ("func", h.func), ("time", h.time)] {
        out.extend(v.map(|v| format!("{key}={}", s(v))));
    }
    out.push(if h.old { "old".into() } else { s(h.word) });
    Some((out.join(" "), line[h.body as usize..].to_string()))
}

#[test]
fn nccl_of_all_ages() {
    for (line, want, body) in [
        ("n7:11:12 [2] NCCL INFO x y", "Info n7 pid=11 tid=12 dev=2 NCCL", "x y"),
        ("n7:11:12 [2] NCCL INFO", "Info n7 pid=11 tid=12 dev=2 NCCL", ""),
        ("n7:11:12 [-1] NCCL INFO x", "Info n7 pid=11 tid=12 dev=-1 NCCL", "x"),
        (
            "n7:11:12 [2] transport/net_ib.cc:88 NCCL WARN x",
            "Warn n7 pid=11 tid=12 line=88 dev=2 file=transport/net_ib.cc NCCL",
            "x",
        ),
        (
            "[2026-05-05 06:16:47] n7:11:12 [2] a/p2p.cc:690 (ncclF) NCCL WARN x",
            "Warn n7 pid=11 tid=12 line=690 dev=2 file=a/p2p.cc func=ncclF time=[2026-05-05 06:16:47] NCCL",
            "x",
        ),
        (
            "[05_Mar 06.16] n7:11:12 [2] NCCL INFO x",
            "Info n7 pid=11 tid=12 dev=2 time=[05_Mar 06.16] NCCL",
            "x",
        ),
        (
            "2026-05-05 06:16:47.5 n7:11:12 [2] NCCL INFO x",
            "Info n7 pid=11 tid=12 dev=2 time=2026-05-05 06:16:47.5 NCCL",
            "x",
        ),
        ("::968:969 [0] NCCL INFO x", "Info  pid=968 tid=969 dev=0 NCCL", "x"),
        (":168:1228 [2] NCCL INFO x", "Info  pid=168 tid=1228 dev=2 NCCL", "x"),
        ("<cluster_name>:921:922 [0] NCCL INFO x", "Info <cluster_name> pid=921 tid=922 dev=0 NCCL", "x"),
        ("[0] NCCL INFO x", "Info  dev=0 NCCL", "x"),
        ("NCCL WARN x", "Warn  NCCL", "x"),
        (" NCCL INFO x", "Info  NCCL", "x"),
        ("misc/ibvwrap.cc:278 NCCL WARN x", "Warn  line=278 file=misc/ibvwrap.cc NCCL", "x"),
        ("[0] include/shm.h:48 NCCL WARN x", "Warn  line=48 dev=0 file=include/shm.h NCCL", "x"),
        ("n7:11:12 [1] INFO Ring 0 : 1", "Info n7 pid=11 tid=12 dev=1 old", "Ring 0 : 1"),
        (
            "n7:11:12 [1] misc/enqueue.cu:97 WARN x",
            "Warn n7 pid=11 tid=12 line=97 dev=1 file=misc/enqueue.cu old",
            "x",
        ),
        ("misc/ibvwrap.cu:60 WARN x", "Warn  line=60 file=misc/ibvwrap.cu old", "x"),
        ("n7:11:12 NCCL CALL ncclX(1)", "Call n7 pid=11 tid=12 NCCL", "ncclX(1)"),
        ("n7:11 NCCL DIAG [OK] x", "Diag n7 pid=11 NCCL", "[OK] x"),
        (
            "n7:11:12 [2] 668.836450 ofi_init:1396 NCCL TRACE x",
            "Trace n7 pid=11 tid=12 line=1396 dev=2 func=ofi_init NCCL",
            "x",
        ),
        (
            "n7:11:12 [2] ofi_init:1396 NCCL WARN x",
            "Warn n7 pid=11 tid=12 line=1396 dev=2 func=ofi_init NCCL",
            "x",
        ),
        (
            "xResult_t xProgress(xComm*):1231 NCCL WARN x",
            "Warn  line=1231 func=xResult_t xProgress(xComm*) NCCL",
            "x",
        ),
        (
            "[0] xResult_t xGo(xComm*, int):31 NCCL WARN x",
            "Warn  line=31 dev=0 func=xResult_t xGo(xComm*, int) NCCL",
            "x",
        ),
        (
            "2026-Aug-01 16:12:43.0204 332:417 [18] bootstrap.cc:106 CCOM WARN x",
            "Warn  pid=332 tid=417 line=106 dev=18 file=bootstrap.cc time=2026-Aug-01 16:12:43.0204 CCOM",
            "x",
        ),
        (
            "2026-Aug-01 16:12:43.0204 332:417 ERROR   ENC:recv   failed",
            "Error  pid=332 tid=417 time=2026-Aug-01 16:12:43.0204 ",
            "ENC:recv   failed",
        ),
        ("NCCL version 2.27.7+cuda13.0", "Version  NCCL", "NCCL version 2.27.7+cuda13.0"),
        ("RCCL version : 2.22.3-HEAD:abc", "Version  RCCL", "RCCL version : 2.22.3-HEAD:abc"),
        (
            "n7:11:140391 [0] /long/hipify/src/init.cc:2001 NCCL WARN x",
            "Warn n7 pid=11 tid=140391 line=2001 dev=0 file=/long/hipify/src/init.cc NCCL",
            "x",
        ),
    ] {
        assert_eq!(nccl(line), Some((want.to_string(), body.to_string())), "{line}");
    }
}

#[test]
fn no_nccl() {
    for line in [
        "NCCL error in: x",
        "NCCL_DEBUG=INFO",
        "NCCL version",
        "NCCL version mismatch",
        "INFO x",
        "WARN x",
        "train.py:12 WARN x",
        "train.py:12 INFO x",
        "n7:11 INFO x",
        "n7:11 NCCL INFO x",
        "10.0.0.1:80 [0] x",
        "n7:11:12 [2] hello",
        "12:30:45 [2] x",
        "[ip-0A:9:9 unique id 9] ERROR x",
        "n7:11:12 [2] NCCL INFOx",
        "foo_t bar baz",
        "INFO:     10.1.1.1:5 - \"POST",
        "[2] x",
        "",
        "n7",
        ":",
        "[",
        "[0]",
        "ACCL x",
        "(pid=3) n7:11:12 [2] NCCL INFO x",
        "see n7:11:12 [2] NCCL INFO x",
    ] {
        assert_eq!(nccl(line), None, "{line}");
    }
}

#[test]
fn quick_agrees_with_slow() {
    for (line, some) in [
        ("n7:11:12 [2] NCCL INFO x", true),
        ("n7:11:12 [2] NCCL WARN x", true),
        ("n7:11:12 [2] a/b.cc:3 NCCL WARN x", true),
        ("[2026-05-05 06:16:47] n7:11:12 [2] a/b.cc:3 NCCL WARN x", true),
        ("[2026-05-05 06:16:47.123456] n7:11:12 [2] NCCL INFO x", true),
        (":11:12 [2] NCCL INFO x", false),
        ("n7:11:12 [2] a/b.cc:3 (f) NCCL WARN x", false),
        ("n7:11:12 [2] INFO x", false),
        ("NCCL WARN x", false),
        ("3: n7:11:12 [2] NCCL INFO x", false),
        ("Epoch 3: 4", false),
        ("n7:11:12 [2] foo NCCL WARN x", false),
        ("n7:11:12 [2] NCCL", false),
        ("[rank3]: x", false),
        ("[2026-05-05 06:16:47]", false),
        ("", false),
    ] {
        let q = nccl_quick(line.as_bytes());
        assert_eq!(q.is_some(), some, "{line}");
        let Some(q) = q else { continue };
        let h = nccl_header(line.as_bytes()).unwrap();
        assert_eq!(&line[q.proc.0 as usize..q.proc.1 as usize], "n7:11");
        assert_eq!((q.dev, q.level, q.body), (h.dev.unwrap(), h.level, h.body), "{line}");
        assert_eq!(q.warn, h.level == Level::Warn);
    }
}

#[test]
fn cpp_logs() {
    for (line, level, time, file, no, body) in [
        (
            "[E1218 20:27:21.426415540 PG.cpp:629] [Rank 3] x",
            'E',
            Some("12-18 20:27:21"),
            "PG.cpp",
            629,
            "[Rank 3] x",
        ),
        ("[W218 20:27:21.4 socket.cpp:9] x", 'W', Some("02-18 20:27:21"), "socket.cpp", 9, "x"),
        ("[E PG.cpp:475] x", 'E', None, "PG.cpp", 475, "x"),
        ("I0927 12:07:22.643784 1012209 PG.cpp:392] x", 'I', Some("09-27 12:07:22"), "PG.cpp", 392, "x"),
        (
            "E0219 07:08:07.831000 26 torch/d/api.py:862] x",
            'E',
            Some("02-19 07:08:07"),
            "torch/d/api.py",
            862,
            "x",
        ),
        (
            "E0501 22:05:19.414000 139692391809664 torch/x.py:8] x",
            'E',
            Some("05-01 22:05:19"),
            "torch/x.py",
            8,
            "x",
        ),
        (
            "W0000 00:00:1755715039.994345    1917 a.cc:699] x",
            'W',
            Some("2025-08-20 18:37:19"),
            "a.cc",
            699,
            "x",
        ),
        (
            "2026-01-01 10:11:12.123456: E external/x/y.cc:485] x",
            'E',
            Some("2026-01-01 10:11:12"),
            "external/x/y.cc",
            485,
            "x",
        ),
    ] {
        let g = glog(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(g.level as char, level);
        assert_eq!(g.time.map(|t| t.text()).as_deref(), time, "{line}");
        assert_eq!((&line[g.file.0 as usize..g.file.1 as usize], g.line), (file, no));
        assert_eq!(&line[g.body as usize..], body);
    }
    for line in [
        "[E] x",
        "[ERROR] x",
        "[INFO|a.py:3] x",
        "[Error a.cpp:3] x",
        "E a.cpp:3] x",
        "Image 3] x",
        "[E 12:30:45] x",
        "I am here] x",
        "[W 3 host:80] x",
        "[F1 a.cpp:3] x",
        "",
        "[",
        "[E1399 20:27:21 a.cpp:3] x",
        "Epoch: [3] x:1] y",
    ] {
        assert_eq!(glog(line.as_bytes()), None, "{line}");
    }
}

fn py(line: &str) -> Option<(String, String)> {
    let p = pylog(line.as_bytes())?;
    let level = p.level.map_or('-', |l| l as char);
    let time = p.time.map_or("-".to_string(), |t| t.text());
    let name = p.name.map_or("-", |(a, b)| &line[a as usize..b as usize]);
    Some((format!("{level} {time} {name}"), line[p.body as usize..].to_string()))
}

#[test]
fn python_logs() {
    for (line, want, body) in [
        ("ERROR:torch.d.api:failed (exitcode: 1)", "E - torch.d.api", "failed (exitcode: 1)"),
        ("WARNING:__main__:x", "W - __main__", "x"),
        (
            "[2026-09-27 08:47:19,361] torch.d.api: [ERROR] failed",
            "E 2026-09-27 08:47:19 torch.d.api",
            "failed",
        ),
        (
            "[2026-04-23 14:16:35,415] [INFO] [launch.py:315:kill] Killing",
            "I 2026-04-23 14:16:35 launch.py:315:kill",
            "Killing",
        ),
        (
            "[2026-04-23 14:16:35,415] [INFO] [logging.py:9:log] [Rank 0] x",
            "I 2026-04-23 14:16:35 logging.py:9:log",
            "[Rank 0] x",
        ),
        ("[2026-04-23 14:16:35,415][root][INFO] - x", "I 2026-04-23 14:16:35 root", "x"),
        ("2026-09-14 10:31:02,496 - root - INFO - x - y", "I 2026-09-14 10:31:02 root", "x - y"),
        ("2026-09-14 10:31:02,496 - ERROR - a.b - x", "E 2026-09-14 10:31:02 a.b", "x"),
        ("09/14/2026 10:31:02 - WARNING - __main__ - x", "W 2026-09-14 10:31:02 __main__", "x"),
        ("2026-01-02 03:04:05.678 | ERROR    | m:f:42 - x", "E 2026-01-02 03:04:05 m:f:42", "x"),
        ("ERROR 04-15 00:31:11 [worker.py:574] x", "E 04-15 00:31:11 worker.py:574", "x"),
        ("ERROR 04-15 00:31:11 worker_base.py:574]   File", "E 04-15 00:31:11 worker_base.py:574", "  File"),
        ("[NeMo W 2026-05-01 22:04:12 mod:558] x", "W 2026-05-01 22:04:12 mod:558", "x"),
        ("[INFO|mod.py:666] 2026-04-09 18:00:51,804 >> x", "I 2026-04-09 18:00:51 mod.py:666", "x"),
        ("[titan] 2026-04-09 18:00:51,804 - root - INFO - x", "I 2026-04-09 18:00:51 root", "x"),
        (
            "[2026-01-02 03:04:05,678 E 11 22] (raylet) node.cc:3: x",
            "E 2026-01-02 03:04:05 raylet",
            "node.cc:3: x",
        ),
        ("2026-01-02 03:04:05,678 INFO worker.py:17 -- x", "I 2026-01-02 03:04:05 -", "worker.py:17 -- x"),
        ("2026-01-02 03:04:05,678 [WARNING] x", "W 2026-01-02 03:04:05 -", "x"),
        ("2026-01-02 03:04:05,678 maskrcnn INFO: x", "I 2026-01-02 03:04:05 maskrcnn", "x"),
    ] {
        assert_eq!(py(line), Some((want.to_string(), body.to_string())), "{line}");
    }
    for line in [
        "WARNING: x",
        "INFO:     10.1.1.1:5 - \"POST",
        "ERROR x",
        "INFORMATION:a:b",
        "[INFO] x",
        "[2026-01-02 03:04:05] x",
        "2026-01-02 03:04:05 hello world",
        "[NeMo] x",
        "12:30: x",
        "DEBUG: args:x",
        "",
        "[",
        "Epoch 3",
    ] {
        assert_eq!(py(line), None, "{line}");
    }
}

fn mids(line: &str) -> Vec<&str> {
    let mut out = vec![7];
    mid_starts(line.as_bytes(), &mut out);
    out.iter().map(|i| &line[*i as usize..]).collect()
}

#[test]
fn messages_inside_lines() {
    for (line, want) in [
        ("n7:1:2 [0] NCCL INFO Chan|n8:3:4 [1] NCCL INFO x", vec!["n8:3:4 [1] NCCL INFO x"]),
        ("n7:1:2 [0] NCCL INFO Channn8:3:4 [1] NCCL INFO x", vec!["Channn8:3:4 [1] NCCL INFO x"]),
        (
            "val:  97%|##| 160/164 [00:12<00:00, 3.1it/s]n7:1:2 [1] NCCL INFO x",
            vec!["n7:1:2 [1] NCCL INFO x"],
        ),
        ("NVLS multicast supp[rank2]:[E PG.cpp:563] [Rank 2] x", vec!["[rank2]:[E PG.cpp:563] [Rank 2] x"]),
        ("text[rank2]: Traceback", vec!["[rank2]: Traceback"]),
        ("step 3[E PG.cpp:458] x", vec!["[E PG.cpp:458] x"]),
        ("bar|slurmstepd: error: *** STEP", vec!["slurmstepd: error: *** STEP"]),
        ("99%|#| 3/4 [0:1]srun: error: n7: task 3: Killed", vec!["srun: error: n7: task 3: Killed"]),
        ("a[rank1]: b[rank2]: c", vec!["[rank1]: b[rank2]: c", "[rank2]: c"]),
        (
            "x[2026-05-05 06:16:47] n7:1:2 [0] a.cc:3 NCCL WARN y",
            vec!["[2026-05-05 06:16:47] n7:1:2 [0] a.cc:3 NCCL WARN y"],
        ),
        ("a srun: error: x[rank2]: y", vec!["srun: error: x[rank2]: y", "[rank2]: y"]),
        ("  1024  256  float  sum      -1n7:1:2 [1] NCCL INFO x", vec!["n7:1:2 [1] NCCL INFO x"]),
        ("  26.66      0n7:1:2 [1] NCCL INFO x", vec!["n7:1:2 [1] NCCL INFO x"]),
        ("see 4f6a:1:2 [1] NCCL INFO x", vec!["4f6a:1:2 [1] NCCL INFO x"]),
        ("n7:1:2 [0] NCCL INFO x", vec![]),
        ("3: n7:1:2 [0] NCCL INFO x", vec![]),
        ("[2026-05-05 06:16:47] n7:1:2 [0] a.cc:3 NCCL WARN y", vec![]),
        ("[default1]:[rank3]:[E PG.cpp:3] [Rank 1] x", vec![]),
        ("0: srun: error: x", vec![]),
        ("srun: error: x", vec![]),
        ("see [rank2] and [Rank 3] x [0] y", vec![]),
        ("Channel 00/0 : 2[2] -> 3[3] via P2P", vec![]),
        ("frame [1] NCCL INFO", vec![]),
        ("pdsh@n1: n7: ssh exited", vec![]),
        ("/usr/bin/srun: error: x", vec![]),
    ] {
        assert_eq!(mids(line), want, "{line}");
    }
}

fn parts() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        proptest::sample::select(vec![
            "n7",
            ":",
            "11",
            ":12",
            " ",
            "[0]",
            "NCCL ",
            "INFO ",
            "WARN",
            "a.cc:3",
            "(f)",
            "[2026-05-05 06:16:47]",
            "[",
            "]",
            "[E",
            "1218",
            "20:27:21.5 ",
            "a.cpp:6] ",
            "ERROR:",
            "name:",
            " - ",
            "| ",
            "[rank2]: ",
            "srun: error: ",
            "é",
            "\u{0}",
            "CCOM ",
            "x_t ",
            "f():3 ",
            "DIAG ",
            "7.5 ",
            "[NeMo W ",
            "99999999999",
        ]),
        0..14,
    )
    .prop_map(|v| v.concat())
}

fn sane(line: &[u8]) {
    let inside = |(a, b): (u32, u32)| assert!(a <= b && b as usize <= line.len());
    if let Some(h) = nccl_header(line) {
        inside(h.host);
        inside(h.word);
        inside((h.word.1.min(h.body), h.body));
        [h.file, h.func, h.time].into_iter().flatten().for_each(inside);
    }
    if let Some(q) = nccl_quick(line) {
        inside(q.proc);
        inside((0, q.body));
        let h = nccl_header(line).expect("the slow reader reads what the quick one does");
        assert_eq!((h.level, h.body, h.dev), (q.level, q.body, Some(q.dev)));
    }
    if let Some(g) = glog(line) {
        inside(g.file);
        inside((g.file.1, g.body));
    }
    if let Some(p) = pylog(line) {
        inside((0, p.body));
        p.name.into_iter().for_each(inside);
    }
    let mut out = Vec::new();
    mid_starts(line, &mut out);
    assert!(out.windows(2).all(|w| w[0] < w[1]));
    assert!(out.iter().all(|s| *s > 0 && (*s as usize) < line.len()));
    let _ = super::super::time::stamp(line);
    let _ = super::super::time::seconds(line);
}

proptest! {
    #[test]
    fn spans_lie_in_the_text(line in proptest::collection::vec(any::<u8>(), 0..160)) {
        sane(&line);
    }

    #[test]
    fn spans_lie_in_text_made_of_headers(line in parts()) {
        sane(line.as_bytes());
    }
}

/// Lines as a real job mixes them.
fn mixed(n: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(n * 80);
    for i in 0..n {
        let (a, b) = (i % 8, i % 997);
        let line = match i % 8 {
            0..=2 => format!(
                "gpu-n{b:03}:4{b:03}:5{b:03} [{a}] NCCL INFO Channel 0{a}/0 : {a}[{a}] -> 1[1] via P2P\n"
            ),
            3 => format!(
                "{b}: gpu-n{b:03}:4{b:03}:5{b:03} [{a}] NCCL INFO AllReduce: opCount {b:x} count 1024\n"
            ),
            4 => format!(
                "[2026-05-05 06:16:4{a}] n{b}:4{b:03}:5{b:03} [{a}] transport/net_ib.cc:{b} NCCL WARN x\n"
            ),
            5 => format!("step {i} | loss 2.{b} | lr 3.0e-04 | {b} tok/s\n"),
            6 => format!("[rank{a}]:   File \"/opt/train/loop.py\", line {b}, in step\n"),
            _ => format!("{{'loss': 1.{b}, 'grad_norm': 0.{b}, 'epoch': 0.{a}}}\n"),
        };
        out.extend_from_slice(line.as_bytes());
    }
    out
}

#[test]
#[ignore = "a measurement, not a test"]
fn speed() {
    let text = mixed(5_000_000);
    let mut lines = Vec::with_capacity(5_000_000);
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', &text) {
        lines.push((start, end));
        start = end + 1;
    }
    for round in 0..3 {
        let begin = std::time::Instant::now();
        let mut hits = 0usize;
        for (a, b) in &lines {
            let line = &text[*a..*b];
            if let Some(q) = nccl_quick(line) {
                hits += q.body as usize;
                continue;
            }
            let p = split_prefix(line);
            hits += p.len as usize;
            if p.len > 0 {
                hits += nccl_quick(&line[p.len as usize..]).map_or(0, |q| q.body as usize);
            }
        }
        let pulse = begin.elapsed();
        let begin = std::time::Instant::now();
        for (a, b) in &lines {
            let line = &text[*a..*b];
            hits += nccl_quick(line).map_or(0, |q| q.body as usize) + split_prefix(line).len as usize;
        }
        let both = begin.elapsed();
        let begin = std::time::Instant::now();
        hits += lines.iter().filter(|(a, b)| nccl_header(&text[*a..*b]).is_some()).count();
        let slow = begin.elapsed();
        let rate = |d: std::time::Duration| lines.len() as f64 / d.as_secs_f64() / 1e6;
        // Only this test, which is asked for by hand, prints.
        #[allow(clippy::print_stderr)]
        {
            eprintln!(
                "round {round}: pulse {:.1}, both {:.1}, slow header {:.1} M lines/s ({hits})",
                rate(pulse),
                rate(both),
                rate(slow)
            );
        }
    }
}
