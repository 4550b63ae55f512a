//! Dumps of all formats, whole, cut and hostile.

use std::time::Instant;

use proptest::prelude::*;

use super::make::{self, Doc, done, open};
use super::{Dump, FlightRecorder, State, rank_from_name, read};

fn doc(version: &'static str) -> Doc {
    let mut ops: Vec<_> = (1..=40).map(|seq| done("0", seq, "all_reduce", 64)).collect();
    ops.push(open("0", 41, "all_gather", 8));
    Doc {
        version,
        groups: vec![("0".into(), "default_pg".into(), vec![0, 1, 2, 3])],
        ops,
        first_record: 0,
        status: true,
        backend: "nccl",
        nameless: false,
    }
}

fn recorder(bytes: &[u8]) -> (FlightRecorder, Vec<String>) {
    match read(bytes, "nccl_trace_rank_0") {
        Some((Dump::FlightRecorder(r), damage)) => (r, damage.into_iter().map(|d| d.0).collect()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_format_gives_the_same_operations() {
    for version in ["", "1.4", "2.0", "2.1", "2.4", "2.9", "2.10"] {
        let (r, damage) = recorder(&doc(version).pickle());
        assert!(damage.is_empty() && !r.cut, "{version}: {damage:?}");
        assert_eq!(r.entries.len(), 41, "{version}");
        let last = &r.entries[40];
        assert_eq!((last.seq, last.state, last.retired), (Some(41), State::Scheduled, false));
        assert_eq!(last.call.inputs, [[8]]);
        assert_eq!(last.frames[2].to_string(), "train_step (/home/user/train.py:51)");
        assert_eq!(last.created_ns, 1_796_059_758_000_000_000);
        if !version.is_empty() {
            assert_eq!(r.version, version);
            assert_eq!(r.groups[0].ranks.len(), 4);
        }
    }
}

#[test]
fn json_says_the_same_as_the_pickle() {
    for version in ["2.4", "2.10"] {
        let (a, _) = recorder(&doc(version).pickle());
        let (b, damage) = recorder(&doc(version).json());
        assert!(damage.is_empty() && b.json);
        assert_eq!((a.entries, a.status, a.groups), (b.entries, b.status, b.groups));
    }
}

#[test]
fn equal_things_are_held_once() {
    let (r, _) = recorder(&doc("2.10").pickle());
    assert!(std::sync::Arc::ptr_eq(&r.entries[0].call, &r.entries[39].call));
    assert!(std::sync::Arc::ptr_eq(&r.entries[0].group, &r.entries[39].group));
}

#[test]
fn a_cut_dump_gives_what_was_complete() {
    for bytes in [doc("2.10").pickle(), doc("2.10").json()] {
        let (r, damage) = recorder(&bytes[..bytes.len() / 2]);
        assert!(r.cut && damage[0].contains("cut at byte"), "{damage:?}");
        assert!((10..35).contains(&r.entries.len()), "{}", r.entries.len());
        assert!(r.entries.iter().all(|e| e.seq.is_some() && e.call.name == "nccl:all_reduce"));
    }
    let (r, _) = recorder(&doc("").pickle()[..3000]);
    assert!(r.entries.len() > 5);
}

#[test]
fn what_calls_is_refused() {
    let mut bytes = doc("2.10").pickle();
    bytes.pop();
    bytes.extend(b"cposix\nsystem\nX\x02\x00\x00\x00ls\x85R.");
    let (r, damage) = recorder(&bytes);
    assert!(r.entries.is_empty());
    assert_eq!(damage, ["hostile: asks to import or call posix.system; refused, nothing of it is used"]);
    for tail in
        [&b"R"[..], b"b", b"\x81", b"\x92", b"o", b"Pid\n", b"Q", b"\x82\x01", b"\x93", b"ios\nsystem\n"]
    {
        let mut bytes = doc("2.10").pickle();
        bytes.pop();
        bytes.extend(tail);
        let (r, damage) = recorder(&bytes);
        assert!(r.entries.is_empty() && damage[0].contains("; refused"), "{tail:?} {damage:?}");
    }
}

#[test]
fn other_documents_are_not_ours() {
    for bytes in [
        &b""[..],
        b"{}",
        b"[1, 2]",
        b"\x80\x02]q\x00.",
        b"\x80\x04}\x94.",
        b"plain text",
        b"{\"message\": 3}",
    ] {
        assert!(read(bytes, "x").is_none(), "{bytes:?}");
    }
}

#[test]
fn one_table_named_a_million_times_stays_one() {
    let mut bytes = b"\x80\x02}(X\x07\x00\x00\x00entries](}(X\x0e\x00\x00\x00profiling_nameX\x01\x00\x00\x00aX\x05\x00\x00\x00stateX\x01\x00\x00\x00buq\x00".to_vec();
    bytes.extend(b"h\x00".repeat(1_000_000));
    bytes.extend(b"eu.");
    let (r, _) = recorder(&bytes);
    assert_eq!(r.entries.len(), 1);
}

#[test]
fn ranks_from_names() {
    let cases = [
        ("_dump_9", Some(9)),
        ("nccl_trace_rank_3", Some(3)),
        ("nccl_trace_json_rank_1.json", Some(1)),
        ("dump_host12_rank_7", Some(7)),
        ("a/b/nccl_trace_rank_container-node02_5", Some(5)),
        ("comm_lib_trace_rank_12.pickle.gz", Some(12)),
        ("trace", None),
        ("fr_20260102030405", None),
        ("rank7/stack", Some(7)),
        ("run/global_rank-12/dump.pickle", Some(12)),
        ("rank7-hangs/dump.pickle", None),
    ];
    for (name, rank) in cases {
        assert_eq!(rank_from_name(name), rank, "{name}");
    }
}

#[test]
fn nothing_needs_the_memo_to_be_small() {
    let mut made = doc("2.10");
    for (i, op) in made.ops.iter_mut().enumerate() {
        op.dtype = format!("T{i}");
    }
    made.ops = made.ops.iter().cycle().take(800).cloned().collect();
    for (i, op) in made.ops.iter_mut().enumerate() {
        op.name = format!("op{i}");
    }
    let start = Instant::now();
    assert_eq!(recorder(&made.pickle()).0.entries.len(), 800);
    assert!(start.elapsed().as_secs() < 5);
    assert_eq!(make::json(&make::Node::Bool(true)), serde_json::Value::Bool(true));
}

proptest! {
    #[test]
    fn any_cut_is_survived(cut in 0.0f64..1.0, json in any::<bool>()) {
        let bytes = if json { doc("2.10").json() } else { doc("2.10").pickle() };
        let cut = (bytes.len() as f64 * cut) as usize;
        if let Some((Dump::FlightRecorder(r), _)) = read(&bytes[..cut], "x_1") {
            prop_assert!(r.entries.iter().all(|e| e.call.name.starts_with("nccl:")));
        }
    }

    #[test]
    fn any_damage_is_survived(at in 0usize..9000, byte in any::<u8>(), json in any::<bool>()) {
        let mut bytes = if json { doc("2.4").json() } else { doc("2.4").pickle() };
        let len = bytes.len();
        bytes[at % len] = byte;
        let _ = read(&bytes, "x_1");
    }
}

#[test]
fn a_few_letters_are_no_million_ranks() {
    let text = |ranks: &str| {
        format!(
            r#"{{"version":"2.10","pg_config":{{"0":{{"name":"0","desc":"d","ranks":"{ranks}"}}}},"entries":[]}}"#
        )
    };
    let (whole, damage) = recorder(text("[0, 1, 2, 3]").as_bytes());
    assert_eq!((whole.groups.len(), damage.len()), (1, 0));
    let (none, damage) = recorder(text("0-999999").as_bytes());
    assert!(none.groups.is_empty() && damage[0].contains("not readable"), "{damage:?}");
}
