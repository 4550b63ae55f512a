//! What cleaning undoes, and what it must leave alone.

use super::super::shape::{ShapeFacts, cut, facts};
use super::{Cleaned, clean, is_dirty};
use proptest::prelude::*;

fn lines(c: &Cleaned) -> Vec<(u32, String)> {
    let mut start = 0;
    let mut out = Vec::new();
    for l in &c.lines {
        out.push((l.no, String::from_utf8_lossy(&c.bytes[start..l.end as usize]).into_owned()));
        start = l.end as usize + 1;
    }
    out
}

fn run(block: &str) -> Vec<(u32, String)> {
    let f = facts(block.as_bytes());
    assert!(is_dirty(block.as_bytes(), &f), "{block}");
    lines(&clean(block.as_bytes(), &f))
}

#[track_caller]
fn same(block: &str, want: &[(u32, &str)]) {
    let want: Vec<(u32, String)> = want.iter().map(|(n, l)| (*n, l.to_string())).collect();
    assert_eq!(run(block), want);
}

#[test]
fn colour_codes_go() {
    same("\x1b[36m(W pid=3)\x1b[0m a\x1b[1;31mb\x1b[0mc\nplain\n", &[(0, "(W pid=3) abc"), (1, "plain")]);
    same("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1b(Bc\x1b[2Kd\x1b=e\n", &[(0, "abcde")]);
    same("[36m(W pid=3)[0m a [5m] b[1m\n", &[(0, "(W pid=3) a [5m] b")]);
    same("cut \x1b[3", &[(0, "cut ")]);
    let f = facts(b"window [5m] and [10m], arr[0m]\n");
    assert!(!f.bare_ansi);
}

#[test]
fn nul_runs_go() {
    same("a\n\0\0\0\0\0\0b\n", &[(0, "a"), (1, "b")]);
    same("half\0\0\0\0\0\0b\n", &[(0, "half"), (0, "b")]);
    same("a\0b\n\n", &[(0, "ab"), (1, "")]);
    same("a\n\0\0\0\0\0\0\n", &[(0, "a")]);
}

#[test]
fn of_a_bar_the_last_state_stays() {
    same(
        "0: \r  1%|#| 1/9 [00:01<00:08, 1.0it/s]\r 22%|##| 2/9 [00:02<00:07, 1.0it/s]\n1: x\n",
        &[(0, "0:  22%|##| 2/9 [00:02<00:07, 1.0it/s]"), (1, "1: x")],
    );
    same("0: loading  1%\r 22%\r 33%\rdone\n", &[(0, "0: loading  1%"), (0, "0:  33%"), (0, "0: done")]);
    same(
        " 11%|#| 1/9 [00:01<00:08, 1.0it/s][rank1]:[E a.cpp:3] x\r 22%|##| 2/9 [00:02<00:07, 1.0it/s]\n",
        &[
            (0, " 11%|#| 1/9 [00:01<00:08, 1.0it/s][rank1]:[E a.cpp:3] x"),
            (0, " 22%|##| 2/9 [00:02<00:07, 1.0it/s]"),
        ],
    );
    same(
        "Error: out of memory\rError: other thing\r\nx\r\n",
        &[(0, "Error: out of memory"), (0, "Error: other thing"), (1, "x")],
    );
    let f = facts(b"a\r\nb\r\n");
    assert!(!is_dirty(b"a\r\nb\r\n", &f));
}

#[test]
fn states_lead_back_to_their_bytes() {
    let block = b"one\rtwo words\n\x1b[1mthree\n";
    let c = clean(block, &ShapeFacts::default());
    let raw: Vec<&[u8]> = c.lines.iter().map(|l| &block[l.raw.0 as usize..l.raw.1 as usize]).collect();
    assert_eq!(raw, [&b"one"[..], b"two words", b"\x1b[1mthree"]);
}

#[test]
fn tags_in_the_line_go() {
    same(
        "[1,7]<stderr>:[[1,7]<stderr>:12:56:58] ../src/x.cc[1,7]<stderr>::196: text\n",
        &[(0, "[1,7]<stderr>:[12:56:58] ../src/x.cc:196: text")],
    );
    same("[1,7]<stderr>:half[1,2]<stderr>:other\n", &[(0, "[1,7]<stderr>:half"), (0, "[1,2]<stderr>:other")]);
    same("half[1,2]<stderr>:other\n", &[(0, "half"), (0, "[1,2]<stderr>:other")]);
    let clean_tags = b"[1,7]<stderr>:a\n[1,2]<stdout>:b\n2026-01-02T03:04:05Z: [1,2]<stdout>:c\n";
    assert!(!is_dirty(clean_tags, &facts(clean_tags)));
}

#[test]
fn json_of_a_container_runtime() {
    let line = |log: &str, stream: &str, s: u32| {
        format!("{{\"log\":\"{log}\",\"stream\":\"{stream}\",\"time\":\"2026-01-02T03:04:0{s}Z\"}}\n")
    };
    let block =
        [line("half ", "stdout", 1), line("err\\u003e\\n", "stderr", 2), line("done\\n", "stdout", 3)]
            .concat();
    same(
        &block,
        &[(0, "2026-01-02T03:04:01Z stdout F half done"), (1, "2026-01-02T03:04:02Z stderr F err>")],
    );
    same(
        &line("a\\r\\n", "stdout", 1).repeat(2),
        &[(0, "2026-01-02T03:04:01Z stdout F a"), (1, "2026-01-02T03:04:01Z stdout F a")],
    );
}

#[test]
fn objects_of_other_shippers() {
    same(
        "{\"timestamp\":1767323045000,\"message\":\"one\\ntwo\"}\nnot json\n{\"timestamp\":1767323046000,\"message\":\"\"}\n{\"timestamp\":1767323046000,\"message\":\"x\"}\n",
        &[
            (0, "2026-01-02T03:04:05Z one"),
            (0, "2026-01-02T03:04:05Z two"),
            (1, "not json"),
            (2, "2026-01-02T03:04:06Z "),
            (3, "2026-01-02T03:04:06Z x"),
        ],
    );
    for other in
        ["{\"name\": \"x\", \"metadata\": {}}\n", "{\"message\": \"bad\"}\n", "{'loss': 3}\n{'loss': 2}\n"]
    {
        assert!(!facts(other.as_bytes()).json, "{other}");
    }
}

#[test]
fn parts_of_a_container_runtime() {
    same(
        "2026-01-02T03:04:01Z stdout P ab\n2026-01-02T03:04:01Z stderr F e\n2026-01-02T03:04:02Z stdout P cd\n2026-01-02T03:04:02Z stdout F ef\n",
        &[(0, "2026-01-02T03:04:01Z stdout F abcdef"), (1, "2026-01-02T03:04:01Z stderr F e")],
    );
    let whole = b"2026-01-02T03:04:01Z stdout F ab\n";
    let f = facts(whole);
    assert!(f.cri && !is_dirty(whole, &f));
}

/// Breaks `text` at `width` as a terminal does.
fn broken(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let chars: Vec<char> = line.chars().collect();
        for piece in chars.chunks(width) {
            out.extend(piece);
            out.push('\n');
        }
    }
    out
}

const WATCHDOG: &str = "[rank4]:[E430 05:12:50.828088908 ProcessGroupNCCL.cpp:632] [Rank 4] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600011 milliseconds before timing out.
INFO:root:a short line
[rank1]:[E430 05:12:50.946336354 ProcessGroupNCCL.cpp:1533] [PG ID 0 PG GUID 0(default_pg) Rank 1] ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1
[rank7]:[E430 05:12:50.983703086 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank 7] Received a dump signal due to a collective timeout from this local rank and we will try our best to dump the debug info.
";

#[test]
fn lines_broken_by_a_terminal_are_joined() {
    for width in [80, 97, 116, 140] {
        let block = broken(WATCHDOG, width);
        let f = facts(block.as_bytes());
        assert_eq!(f.wrap, Some(width as u32));
        let got: Vec<String> = run(&block).into_iter().map(|(_, l)| l).collect();
        let want: Vec<&str> = WATCHDOG.lines().collect();
        assert_eq!(got, want, "{width}");
    }
    let snippet = "RuntimeError: NCCL communicator was aborted on rank 0.  Original reason for failure was: [Rank 0] Watchdog caught \ncollective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLGATHER, Timeout(ms)=600000) ran for 600011 milliseconds before timing out.\n";
    assert_eq!(run(snippet).len(), 1);
    for other in [
        "ValueError: expected a blank at the end of a line that is long enough to be one of them: \n  x\n",
        "a long line that has no header at all and is followed by one which begins with a small letter \nx\n",
    ] {
        assert_eq!(facts(other.as_bytes()).wrap, None);
    }
}

#[test]
fn padding_goes_and_does_not_join() {
    let pad = |s: &str| format!("{s:<120}\n");
    let block = ["one line", "another line", "a third", "the fourth"].map(pad).concat();
    let f = facts(block.as_bytes());
    assert!(f.padded && f.wrap.is_none());
    assert_eq!(run(&block)[1], (1, "another line".to_string()));
}

#[test]
fn equal_lengths_alone_are_no_breaks() {
    let table: String = (0..20).map(|i| format!("| {i:>2} | {:<70} |\n", "x".repeat(70))).collect();
    let nccl: String = (10..40)
        .map(|i| {
            format!(
                "n7:{i}:{i} [0] NCCL INFO Channel 00/0 : {i}[0] -> {i}[1] via P2P/CUMEM/read and then more\n"
            )
        })
        .collect();
    let rows: String = (10..40)
        .map(|i| {
            format!("transformer.layers.{i}.attention.query_key_value.weight loaded from shard 3 of 8\n")
        })
        .collect();
    let steps: String = (10..40)
        .map(|i| {
            format!(
                "step {i} loss 2.3{i} grad 0.1{i} lr 0.0003 tokens 4096{i} time 12.{i} memory 61.{i} GB\n"
            )
        })
        .collect();
    let trace = "Traceback (most recent call last):\n  File \"/opt/train/a_rather_long_directory_name/module_name.py\", line 3, in f\n    return g(x)\nRuntimeError: x\n".repeat(6);
    for block in [table, nccl, rows, steps, trace] {
        assert_eq!(facts(block.as_bytes()).wrap, None, "{}", &block[..80]);
    }
}

#[test]
fn cuts_never_part_what_is_joined() {
    let plain = b"a\nb\nc";
    assert_eq!(cut(&facts(plain), plain), Some(4));
    assert_eq!(cut(&facts(plain), b"abc"), None);
    let whole = broken(&WATCHDOG.repeat(3), 100);
    let f = facts(whole.as_bytes());
    let all = lines(&clean(whole.as_bytes(), &f)).len();
    for end in 400..whole.len() {
        let Some(at) = cut(&f, &whole.as_bytes()[..end]) else { continue };
        let (a, b) = whole.as_bytes().split_at(at);
        assert_eq!(lines(&clean(a, &f)).len() + lines(&clean(b, &f)).len(), all, "{end}");
    }
}

#[test]
fn cuts_wait_for_the_rest_of_a_part() {
    let cri = "2026-01-02T03:04:00Z stdout F x\n2026-01-02T03:04:01Z stdout P ab\n2026-01-02T03:04:01Z stderr F e\n2026-01-02T03:04:02Z stdout F ef\n";
    let f = ShapeFacts { cri: true, ..ShapeFacts::default() };
    let first = cri.find('\n').unwrap() + 1;
    assert_eq!(cut(&f, &cri.as_bytes()[..cri.len() - 3]), Some(first));
    assert_eq!(cut(&f, cri.as_bytes()), Some(cri.len()));
}

fn monotone(block: &[u8], f: &ShapeFacts) {
    let c = clean(block, f);
    let mut end = None;
    let mut no = 0;
    for l in &c.lines {
        let start = end.map_or(0, |e: u32| e as usize + 1);
        assert!(start <= l.end as usize && (l.end as usize) < c.bytes.len());
        assert_eq!(c.bytes[l.end as usize], b'\n');
        assert!(!c.bytes[start..l.end as usize].contains(&b'\n'));
        assert!(l.no >= no && l.raw.0 <= l.raw.1 && l.raw.1 as usize <= block.len());
        (end, no) = (Some(l.end), l.no);
    }
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    proptest::sample::select(vec![
        "\x1b[",
        "36m",
        "[0m",
        "\0",
        "\0\0\0\0\0",
        "\r",
        "\n",
        "\r\n",
        "a word ",
        "12%|##|",
        " 3it/s]",
        "[1,7]<stderr>:",
        "[1,2]<stdout>:",
        "{\"log\":\"",
        "\\n\",\"stream\":\"stderr\",",
        "\"time\":\"2026-01-02T03:04:05Z\"}",
        "é",
        "2026-01-02T03:04:05Z stdout P ",
        "2026-01-02T03:04:05Z stderr F ",
        "[rank3]: ",
        "\x1b]0;",
        "\x07",
        "  ",
    ])
    .prop_map(|s| s.as_bytes().to_vec())
}

proptest! {
    #[test]
    fn the_map_is_monotone(
        parts in proptest::collection::vec(prop_oneof![4 => piece(), 1 => proptest::collection::vec(any::<u8>(), 0..9)], 0..60),
        json: bool, cri: bool, wrap in proptest::option::of(3u32..20), bare_ansi: bool, mpi_tags: bool, padded: bool,
    ) {
        let block = parts.concat();
        let f = ShapeFacts { json, cri, wrap, bare_ansi, mpi_tags, padded };
        monotone(&block, &f);
        monotone(&block, &facts(&block));
        let _ = is_dirty(&block, &f);
        if let Some(end) = cut(&f, &block) {
            assert!(end <= block.len() && block[end - 1] == b'\n');
        }
    }
}
