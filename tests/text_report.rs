//! The report for people, as it stands on a terminal of 100 columns; accept
//! changes with `INSTA_UPDATE=always cargo test --test text_report`.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;

const SHOWN: [(&str, &str); 6] = [
    ("cases", "oom-rank5-of-16"),
    ("cases", "xid79-silent-rank"),
    ("cases", "ib-retry-two-reporters"),
    ("cases", "exit-7-no-reason"),
    ("cases", "socket-fallback-slow"),
    ("healthy", "restart-second-attempt-well"),
];

#[test]
fn reports_read_as_they_did() {
    for (kind, name) in SHOWN {
        let report = common::report(&common::given(&common::input(kind, name)), &common::options());
        insta::assert_snapshot!(name, common::text(&report, false));
    }
}

#[test]
fn a_report_is_at_most_a_screen_and_never_wider() {
    for kind in ["cases", "healthy"] {
        for (name, _) in common::all(kind) {
            let report = common::report(&common::given(&common::input(kind, &name)), &common::options());
            let text = common::text(&report, false);
            assert!(text.lines().count() <= 42, "{name}: {} lines", text.lines().count());
            let widest = text.lines().map(|l| l.chars().count()).max().unwrap_or(0);
            assert!(widest <= 100, "{name}: {widest} columns\n{text}");
        }
    }
}

#[test]
fn the_timeline_is_in_the_order_of_time_where_some_lines_have_none() {
    let rank = "[rank0]:[E203 10:30:00.000000001 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation \
                timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600004 \
                milliseconds before timing out.\n\
                [rank0]: Traceback (most recent call last):\n\
                [rank0]:   File \"/home/user/train.py\", line 3, in <module>\n\
                [rank0]: ValueError: no batch left\n";
    let kernel = "Feb 03 10:20:00 node1 kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=7, name=python, GPU has fallen off \
                  the bus.\n";
    let files = [("a.log", rank), ("z-dmesg.txt", kernel)];
    let given: Vec<_> = files.iter().map(|(name, text)| common::bytes(name, text.as_bytes())).collect();
    let report = common::report(&given, &common::options());
    let order: Vec<(&str, u64)> = report.timeline.iter().map(|e| (e.source.as_str(), e.line)).collect();
    assert_eq!(order, [("z-dmesg.txt", 1), ("a.log", 1), ("a.log", 4)]);
}
