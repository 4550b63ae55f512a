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
