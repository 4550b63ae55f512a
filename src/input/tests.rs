//! Tests of the room from outside: discovery, blocks, encodings, documents,
//! interrupts. Those of packed input are in `tests_archive`, with the helpers
//! of this file.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use proptest::prelude::*;

use super::source::Reader;
use super::*;

/// A source as it was handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Got {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) pieces: Vec<(Vec<u8>, bool)>,
    pub(super) problems: Vec<String>,
}

impl Got {
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.pieces.iter().flat_map(|p| p.0.clone()).collect()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

/// Collects items into sources and checks their order.
#[derive(Default)]
struct Collect {
    got: Vec<Got>,
    open: bool,
}

impl Collect {
    fn item(&mut self, item: Item) -> ControlFlow<()> {
        match item {
            Item::Begin { name, kind } => {
                assert!(!self.open, "{name} begins inside another");
                self.open = true;
                self.got.push(Got { name, kind, pieces: Vec::new(), problems: Vec::new() });
            }
            Item::Block { bytes, mid_line } => {
                let got = self.got.last_mut().unwrap();
                assert!(self.open && got.kind == Kind::Text && !bytes.is_empty());
                got.pieces.push((bytes, mid_line));
            }
            Item::Whole { bytes } => {
                let got = self.got.last_mut().unwrap();
                assert!(self.open && got.kind == Kind::Document && got.pieces.is_empty());
                got.pieces.push((bytes, false));
            }
            Item::End { bytes, problems } => {
                assert!(self.open);
                self.open = false;
                let got = self.got.last_mut().unwrap();
                assert_eq!(bytes, got.bytes().len() as u64);
                got.problems = problems;
            }
        }
        ControlFlow::Continue(())
    }
}

pub(super) fn read_all(given: &[Given], options: &Options) -> Vec<Got> {
    let found = discover(given);
    assert_eq!(found.problems, []);
    let mut all = Collect::default();
    for unit in &found.units {
        read_unit(unit, options, &Lines, &mut |item| all.item(item));
        assert!(!all.open);
    }
    all.got
}

pub(super) fn bytes(name: &str, data: &[u8]) -> Given {
    Given::Bytes { name: name.to_owned(), data: data.to_vec() }
}

pub(super) fn read_bytes(data: &[u8]) -> Vec<Got> {
    read_all(&[bytes("x.log", data)], &Options::default())
}

pub(super) fn read_one(data: &[u8]) -> Got {
    let mut got = read_bytes(data);
    assert_eq!(got.len(), 1, "{got:?}");
    got.remove(0)
}

/// Reads what cannot be searched.
pub(super) fn read_from<R: Read + Send + 'static>(input: R, options: &Options) -> Vec<Got> {
    let mut all = Collect::default();
    let mut emit = |item| all.item(item);
    Reader::new(options, &Lines, &mut emit).live("-", move || Ok(input));
    assert!(!all.open);
    all.got
}

pub(super) fn small(block: usize, head: usize, line: usize) -> Options {
    Options { block, head, caps: Caps { line, ..Caps::default() }, ..Options::default() }
}

fn labels(found: &Discovered) -> Vec<&str> {
    found.units.iter().map(|u| u.label.as_str()).collect()
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn folders_are_walked_in_one_order_and_files_read_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for name in ["b/rank_1.log", "b/.hidden", "a.log", "b/c/x"] {
        write(&root.join(name), name);
    }
    let paths = [root.join("b"), root.join("a.log"), root.to_path_buf()];
    let given: Vec<Given> = paths.into_iter().map(Given::Path).collect();
    let found = discover(&given);
    let top = root.to_str().unwrap();
    let expected: Vec<String> =
        ["a.log", "b/.hidden", "b/c/x", "b/rank_1.log"].iter().map(|n| format!("{top}/{n}")).collect();
    assert_eq!(labels(&found), expected);
    let mut turned = given.clone();
    turned.reverse();
    assert_eq!(labels(&discover(&turned)), expected);
    let got = read_all(&given, &Options::default());
    assert_eq!(got[3].text(), "b/rank_1.log");
}

#[test]
fn missing_paths_are_problems() {
    let found = discover(&[Given::Path("no/such/thing.log".into()), Given::Stdin]);
    assert_eq!(labels(&found), ["-"]);
    assert_eq!(found.problems.len(), 1);
    assert_eq!(found.problems[0].path, "no/such/thing.log");
    assert!(found.problems[0].what.contains("No such file"));
}

#[cfg(unix)]
#[test]
fn links_loops_and_special_files() {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(&root.join("run/real.log"), "x");
    symlink(root, root.join("run/up")).unwrap();
    symlink("real.log", root.join("run/a-link.log")).unwrap();
    symlink("nowhere", root.join("run/broken")).unwrap();
    let _socket = UnixListener::bind(root.join("run/socket")).unwrap();
    let found = discover(&[Given::Path(root.to_path_buf())]);
    let names: Vec<_> = labels(&found).iter().map(|l| l.rsplit('/').next().unwrap().to_owned()).collect();
    assert_eq!(names, ["real.log"]);
    assert_eq!(found.problems.len(), 1, "{:?}", found.problems);
    assert!(found.problems[0].path.ends_with("broken"));
    let named = discover(&[Given::Path("/dev/null".into())]);
    assert_eq!(labels(&named), ["/dev/null"]);
    let got = read_all(&[Given::Path("/dev/null".into())], &Options::default());
    assert_eq!((got.len(), got[0].pieces.len()), (1, 0));
}

#[test]
fn labels_are_short_and_a_file_that_vanishes_is_a_problem() {
    let found = discover(&[Given::Path("./src/../Cargo.toml".into())]);
    assert_eq!(labels(&found), ["src/../Cargo.toml"]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    write(&path, "x");
    let found = discover(&[Given::Path(path.clone())]);
    std::fs::remove_file(path).unwrap();
    let mut all = Collect::default();
    read_unit(&found.units[0], &Options::default(), &Lines, &mut |i| all.item(i));
    assert_eq!(all.got.len(), 1);
    assert!(all.got[0].problems[0].starts_with("cannot be opened: No such file"));
}

#[test]
fn empty_input_begins_and_ends() {
    let got = read_one(b"");
    assert_eq!((got.kind, got.pieces.len(), got.problems.len()), (Kind::Text, 0, 0));
    let got = read_from(io::empty(), &Options::default());
    assert_eq!((got.len(), got[0].name.as_str(), got[0].pieces.len()), (1, "-", 0));
}

#[test]
fn blocks_are_lines_and_the_head_does_not_depend_on_their_size() {
    let text: String = (0..5000).map(|i| format!("line {i} of a log\n")).collect();
    let mut heads = Vec::new();
    for block in [1, 7, 100, 4096, 1 << 20] {
        let got = read_all(&[bytes("x", text.as_bytes())], &small(block, 1000, 1 << 20));
        assert_eq!(got[0].text(), text);
        assert!(got[0].pieces.iter().all(|(p, mid)| p.ends_with(b"\n") && !mid));
        assert!(got[0].pieces[0].0.len() <= 1000);
        assert!(got[0].pieces.iter().skip(1).all(|p| p.0.len() <= block.max(40)));
        heads.push(got[0].pieces[0].clone());
    }
    heads.dedup();
    assert_eq!(heads.len(), 1);
}

#[test]
fn long_lines_come_in_pieces_at_the_same_places() {
    let text = format!("short\n{}\nlast", "ä".repeat(5000));
    let mut all = Vec::new();
    for block in [1, 50, 1000, 1 << 20] {
        let got = read_all(&[bytes("x", text.as_bytes())], &small(block, 64, 1001));
        assert_eq!(got[0].text(), text);
        assert!(got[0].pieces.iter().all(|p| std::str::from_utf8(&p.0).is_ok()));
        all.push(mid_lines(&got[0]));
    }
    all.dedup();
    assert_eq!(all, [(1..10).map(|i| 6 + i * 1000).collect::<Vec<_>>()]);
}

#[test]
fn progress_bars_are_one_long_line_cut_after_a_return() {
    let text = "  5%|#    | 1/20 [00:01<00:19]\r".repeat(1000);
    let got = read_all(&[bytes("x", text.as_bytes())], &small(100, 64, 1000));
    assert_eq!(got[0].text(), text);
    let pieces = &got[0].pieces;
    assert!(pieces.iter().all(|p| p.0.ends_with(b"\r")));
    assert!(pieces.iter().skip(1).all(|p| p.1) && !pieces[0].1);
}

#[test]
fn the_shape_says_where_to_cut_and_may_be_wrong() {
    struct Odd(fn(&[u8]) -> Option<usize>);
    impl Shape for Odd {
        fn cutter(&self, _head: &[u8]) -> Cutter {
            Box::new(self.0)
        }
    }
    let text: String = (0..900).map(|i| format!("line {i}\n")).collect();
    let found = discover(&[bytes("x", text.as_bytes())]);
    for odd in [Odd(|_| None), Odd(|_| Some(0)), Odd(|_| Some(usize::MAX)), Odd(|b| Some(b.len() / 3 + 1))] {
        let mut all = Collect::default();
        let options = small(16, 50, 300);
        read_unit(&found.units[0], &options, &odd, &mut |i| all.item(i));
        assert_eq!(all.got[0].text(), text);
    }
}

#[test]
fn utf16_becomes_utf8_and_marks_are_dropped() {
    let text = "[2026] NCCL INFO größe 🙂\r\n".repeat(20_000);
    let little: Vec<u8> =
        (std::iter::once(0xfeff).chain(text.encode_utf16())).flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> =
        (std::iter::once(0xfeff).chain(text.encode_utf16())).flat_map(u16::to_be_bytes).collect();
    assert!(read_one(&little).text() == text);
    assert!(read_one(&big).text() == text);
    assert_eq!(read_one(b"\xef\xbb\xbfhello\n").text(), "hello\n");
    let cut = read_one(b"\xff\xfea\0b\0c");
    assert_eq!((cut.text().as_str(), cut.problems.len()), ("ab\u{fffd}", 0));
}

#[test]
fn binary_files_are_named_and_nul_runs_are_kept() {
    for data in [
        &b"\x7fELF\x02\x01\x01\0\0\0"[..],
        b"\x89PNG\r\n\x1a\n\0\0",
        &(0..3000u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>(),
    ] {
        let got = read_one(data);
        assert!(got.pieces.is_empty());
        assert!(got.problems[0].starts_with("binary, not read"), "{got:?}");
    }
    let mut log = vec![0; 600_000];
    log.extend_from_slice(b"last words\n");
    log.extend(vec![0; 9000]);
    let got = read_one(&log);
    assert!(got.bytes() == log && got.problems.is_empty());
    let checkpoint = read_one(b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.");
    assert_eq!(checkpoint.problems, ["a PyTorch checkpoint, not a log"]);
}

#[test]
fn documents_come_whole() {
    let pickle = b"\x80\x02}q\0(X\x07\0\0\0entries";
    let json = format!("{{\"entries\": [{}1]}}", "{\"seq\": 1},\n".repeat(60_000));
    for data in [&pickle[..], json.as_bytes(), b"{\"a\": 1}\n"] {
        let got = read_one(data);
        assert_eq!(got.kind, Kind::Document);
        assert!(got.bytes() == data && got.problems.is_empty());
    }
    let lines = "{\"log\":\"x\\n\",\"stream\":\"stdout\"}\n".repeat(30_000);
    assert_eq!(read_one(lines.as_bytes()).kind, Kind::Text);
}

#[test]
fn what_only_begins_like_a_document_is_text() {
    let config = format!("{{\"config\": \"{}\"}}\n", "x".repeat(300_000));
    let log = format!("{config}node1:1:2 [0] NCCL INFO hello\nTraceback\n");
    let got = read_one(log.as_bytes());
    assert_eq!(got.kind, Kind::Text);
    assert!(got.text() == log);
    let mut options = Options::default();
    options.caps.document = 270_000;
    let got = read_all(&[bytes("x", config.as_bytes())], &options);
    assert_eq!(got[0].kind, Kind::Text);
    assert!(got[0].text() == config);
    let pickle = [&b"\x80\x02}"[..], &[b'q'; 300_000]].concat();
    let got = read_all(&[bytes("x", &pickle)], &options);
    assert_eq!(got[0].problems, ["a document of more than 270000 bytes, not read"]);
}

/// Gives its pieces one a read, then fails.
struct Broken(Vec<&'static [u8]>);

impl Read for Broken {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Err(io::Error::from_raw_os_error(5));
        }
        let piece = self.0.remove(0);
        if piece.is_empty() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        buf[..piece.len()].copy_from_slice(piece);
        Ok(piece.len())
    }
}

#[test]
fn a_read_error_keeps_what_came_before() {
    let pieces = vec![&b"one\ntw"[..], b"", b"o\nthr"];
    let got = read_from(Broken(pieces), &Options::default());
    assert_eq!(got[0].text(), "one\ntwo\nthr");
    assert_eq!(got[0].problems.len(), 1);
    assert!(got[0].problems[0].contains("os error 5"), "{:?}", got[0].problems);
}

#[test]
fn an_interrupt_ends_a_read_that_waits() {
    for size in [10, 3_000_000] {
        let (reader, mut writer) = io::pipe().unwrap();
        let options = Options::default();
        let flag = Arc::clone(&options.interrupted);
        let (done, wait) = crossbeam_channel::bounded(1);
        let thread = std::thread::spawn(move || {
            let text = "0123456789".repeat(size / 10);
            io::Write::write_all(&mut writer, text.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            flag.store(true, Ordering::Relaxed);
            // The writer stays open until the reader has ended.
            wait.recv_timeout(Duration::from_secs(20)).is_ok()
        });
        let got = read_from(reader, &options);
        done.send(()).unwrap();
        assert!(thread.join().unwrap());
        assert_eq!(got[0].bytes().len(), size);
        assert_eq!(got[0].problems.len(), 0);
    }
}

#[test]
fn an_interrupt_ends_an_endless_stream_and_a_break_ends_any() {
    let options = Options::default();
    let flag = Arc::clone(&options.interrupted);
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        flag.store(true, Ordering::Relaxed);
    });
    let mut bytes = 0;
    let mut ended = false;
    let mut emit = |item| {
        match item {
            Item::Block { bytes: b, .. } => bytes += b.len(),
            Item::End { problems, .. } => ended = problems.is_empty(),
            _ => {}
        }
        ControlFlow::Continue(())
    };
    Reader::new(&options, &Lines, &mut emit).live("-", || Ok(io::repeat(b'\n')));
    thread.join().unwrap();
    assert!(ended && bytes > 0);

    let mut items = 0;
    let options = Options::default();
    let mut emit = |_| {
        items += 1;
        if items == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    Reader::new(&options, &Lines, &mut emit).live("-", || Ok(io::repeat(b'\n')));
    assert_eq!(items, 3);
}

#[test]
fn an_interrupt_ends_a_file_with_what_was_read() {
    let text = "a line\n".repeat(1_000_000);
    let found = discover(&[bytes("x", text.as_bytes())]);
    let options = Options::default();
    options.interrupted.store(true, Ordering::Relaxed);
    let mut all = Collect::default();
    read_unit(&found.units[0], &options, &Lines, &mut |i| all.item(i));
    assert!(!all.open);
    assert!((1..3_000_000).contains(&all.got[0].bytes().len()));
}

fn shapes_of(data: &[u8], block: usize, head: usize, line: usize) -> Vec<Got> {
    read_all(&[bytes("x", data)], &small(block, head, line))
}

/// Words that make logs, mixed with anything.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        4 => "[a-z ]{0,40}".prop_map(String::into_bytes),
        3 => Just(b"\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        1 => Just("ü🙂".as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
        1 => Just(vec![0; 30]),
        1 => Just(b"\x1f\x8b\x08".to_vec()),
        1 => Just(b"PK\x03\x04".to_vec()),
        1 => Just(b"{\"a\":".to_vec()),
    ];
    proptest::collection::vec(word, 0..120).prop_map(|w| w.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_bytes_any_blocks(data in content(), a in 1usize..300, b in 1usize..9000, head in 1usize..200, line in 16usize..400) {
        let one = shapes_of(&data, a, head, line);
        let two = shapes_of(&data, b, head, line);
        prop_assert_eq!(one.len(), two.len());
        for (x, y) in one.iter().zip(&two) {
            prop_assert_eq!((&x.name, x.kind, &x.problems), (&y.name, y.kind, &y.problems));
            prop_assert_eq!(x.bytes(), y.bytes());
            prop_assert_eq!(x.pieces.first(), y.pieces.first());
            prop_assert!(x.kind == Kind::Document || x.pieces.iter().all(|p| p.0.len() <= line));
            prop_assert_eq!(mid_lines(x), mid_lines(y));
        }
        // A broken zip that can be searched has one more thing to say.
        prop_assume!(!data.starts_with(b"PK"));
        let streamed = read_from(io::Cursor::new(data), &small(a, head, line));
        let stream: Vec<_> = streamed.iter().map(|g| (g.bytes(), &g.pieces)).collect();
        let plain: Vec<_> = one.iter().map(|g| (g.bytes(), &g.pieces)).collect();
        prop_assert_eq!(stream, plain);
    }

    #[test]
    fn damage_never_panics(data in content(), at in 0usize..400, with in any::<u8>(), cut in 0usize..400) {
        for mut packed in super::tests_archive::packed(&data) {
            let n = packed.len();
            packed[at % n] ^= with;
            let found = discover(&[bytes("x", &packed)]);
            read_unit(&found.units[0], &small(100, 64, 200), &Lines, &mut |_| ControlFlow::Continue(()));
            packed.truncate(n.saturating_sub(cut));
            read_from(io::Cursor::new(packed), &small(100, 64, 200));
        }
    }
}

/// Where pieces begin inside a line.
fn mid_lines(got: &Got) -> Vec<usize> {
    let mut at = 0;
    let mut places = Vec::new();
    for (piece, mid) in &got.pieces {
        if *mid {
            places.push(at);
        }
        at += piece.len();
    }
    places
}
