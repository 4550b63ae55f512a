//! Tests of packed input: each format, nested, under wrong names, cut and
//! damaged, and what expands without end.

use std::io::{self, Cursor, Read, Write};

use super::tests::{Got, bytes, read_all, read_bytes, read_from, read_one};
use super::*;

fn log(lines: usize) -> Vec<u8> {
    (0..lines)
        .flat_map(|i| format!("node{}:17:18 [0] NCCL INFO line {i}\n", i * 7919 % 64).into_bytes())
        .collect()
}

fn gz(data: &[u8]) -> Vec<u8> {
    let mut w = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(5));
    w.write_all(data).unwrap();
    w.finish().unwrap()
}

fn zst(data: &[u8]) -> Vec<u8> {
    zstd::encode_all(data, 3).unwrap()
}

fn xz(data: &[u8]) -> Vec<u8> {
    liblzma::encode_all(data, 1).unwrap()
}

fn bz2(data: &[u8]) -> Vec<u8> {
    let mut w = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    w.write_all(data).unwrap();
    w.finish().unwrap()
}

fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut w = tar::Builder::new(Vec::new());
    for (name, data) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        w.append_data(&mut header, name, *data).unwrap();
    }
    w.into_inner().unwrap()
}

fn zip(members: &[(&str, &[u8])], stored: bool) -> Vec<u8> {
    let mut w = zip::ZipWriter::new(Cursor::new(Vec::new()));
    zip_into(&mut w, members, stored);
    w.finish().unwrap().into_inner()
}

/// A zip as it is written to a pipe: lengths behind the data.
fn piped_zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut w = zip::ZipWriter::new_stream(&mut out);
    zip_into(&mut w, members, false);
    w.finish().unwrap();
    out
}

fn zip_into<W: Write + io::Seek>(w: &mut zip::ZipWriter<W>, members: &[(&str, &[u8])], stored: bool) {
    use zip::CompressionMethod::{Deflated, Stored};
    let method = if stored { Stored } else { Deflated };
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    for (name, data) in members {
        w.start_file(*name, options).unwrap();
        w.write_all(data).unwrap();
    }
}

/// The same bytes in every wrapping.
pub(super) fn packed(data: &[u8]) -> Vec<Vec<u8>> {
    let member = [("a/b.log", data), ("c.log", b"second\n")];
    let tar = tar(&member);
    vec![
        gz(data),
        zst(data),
        xz(data),
        bz2(data),
        gz(&tar),
        tar,
        zip(&member, false),
        zip(&member, true),
        piped_zip(&member),
    ]
}

fn names(got: &[Got]) -> Vec<&str> {
    got.iter().map(|g| g.name.as_str()).collect()
}

fn stream(data: Vec<u8>) -> Vec<Got> {
    read_from(Cursor::new(data), &Options::default())
}

#[test]
fn compressed_files_are_told_by_content() {
    let text = log(30_000);
    for data in [gz(&text), zst(&text), xz(&text), bz2(&text)] {
        let got = read_one(&data);
        assert_eq!((got.name.as_str(), got.problems.len()), ("x.log", 0));
        assert!(got.bytes() == text);
        let plain = read_one(&text);
        assert!(got.pieces == plain.pieces, "packed or not, the pieces are the same");
        let twice = read_one(&[data.clone(), data.clone()].concat());
        assert_eq!(twice.problems, [""; 0]);
        assert!(twice.bytes() == [text.clone(), text.clone()].concat());
        assert!(stream(data)[0].bytes() == text);
    }
}

#[test]
fn archives_give_their_members() {
    let text = log(20_000);
    let members: [(&str, &[u8]); 3] =
        [("rank0/stderr.log", &text), ("rank1/empty.log", b""), ("./env", b"A=1\n")];
    let tar = tar(&members);
    let long = "d/".repeat(120) + "x.log";
    for data in [
        tar.clone(),
        gz(&tar),
        zst(&tar),
        xz(&tar),
        bz2(&tar),
        zip(&members, false),
        zip(&members, true),
        gz(&zip(&members, false)),
    ] {
        for got in [read_bytes(&data), stream(data)] {
            assert_eq!(got.len(), 3, "{:?}", names(&got));
            assert!(names(&got)[0].ends_with("!rank0/stderr.log"));
            assert!(names(&got)[2].ends_with("!env"));
            assert!(got[0].bytes() == text);
            assert!(got[1].pieces.is_empty());
            assert_eq!(got[2].text(), "A=1\n");
            assert!(got.iter().all(|g| g.problems.is_empty()));
        }
    }
    let got = read_bytes(&super::tests_archive::tar(&[(&long, b"x\n")]));
    assert_eq!(names(&got), [format!("x.log!{long}")]);
}

#[test]
fn a_zip_written_to_a_pipe() {
    let text = log(5000);
    let data = piped_zip(&[("a.log", &text), ("b.log", b"second\n")]);
    for got in [read_bytes(&data), stream(data)] {
        assert_eq!(got.len(), 2, "{got:?}");
        assert!(got[0].bytes() == text && got[0].problems.is_empty());
        assert_eq!(got[1].text(), "second\n");
    }
}

#[test]
fn nested_two_deep_and_no_deeper() {
    let one = zip(&[("b.log", b"in b\n")], false);
    let two = zip(&[("a.zip", &one)], true);
    let three = zip(&[("z.zip", &two)], true);
    let got = read_bytes(&two);
    assert_eq!(names(&got), ["x.log!a.zip!b.log"]);
    assert_eq!(got[0].text(), "in b\n");
    let got = read_bytes(&three);
    assert_eq!(names(&got), ["x.log!z.zip!a.zip"]);
    assert_eq!(got[0].problems, ["packed more than 2 levels deep, not read"]);
    let tgz = gz(&tar(&[("r.log.gz", &gz(b"deep\n")), ("s.tgz", &gz(&tar(&[("t", b"t\n")])))]));
    let got = read_bytes(&tgz);
    assert_eq!(names(&got), ["x.log!r.log.gz", "x.log!s.tgz!t"]);
    assert_eq!(got[0].text() + &got[1].text(), "deep\nt\n");
    let got = read_one(&gz(&gz(&gz(b"x"))));
    assert_eq!(got.problems, ["packed more than 2 levels deep, not read"]);
}

#[test]
fn cut_files_give_what_could_be_decoded() {
    let text = log(100_000);
    for (what, data) in [("gzip", gz(&text)), ("zstd", zst(&text)), ("xz", xz(&text)), ("bzip2", bz2(&text))]
    {
        let got = read_one(&data[..data.len() / 2]);
        let n = got.bytes().len();
        assert!(n > 100_000 && text.starts_with(&got.bytes()), "{what} {n}");
        assert_eq!(got.problems, [format!("{what}: the file ends in the middle (after {n} bytes)")]);
        let got = read_one(&data[..data.len() - 3]);
        assert_eq!(got.problems.len(), 1, "{what}");
    }
}

#[test]
fn damage_and_garbage_in_gzip() {
    let text = log(100_000);
    let whole = gz(&text);
    let mut data = whole.clone();
    let half = data.len() / 2;
    data[half..half + 64].fill(0xff);
    let got = read_one(&data);
    let n = got.bytes().len();
    assert!(n > 1_000_000, "{n}");
    assert!(got.problems[0].starts_with("gzip: "), "{:?}", got.problems);
    let got = read_one(&[&whole[..], b"and garbage"].concat());
    assert!(got.bytes() == text);
    assert_eq!(got.problems, ["gzip: something else follows after its end, not read"]);
    assert_eq!(read_one(&[&whole[..], &[0; 5000], &whole].concat()).problems, [""; 0]);
    let mut data = whole.clone();
    let n = data.len();
    data[n - 5] ^= 1;
    assert!(read_one(&data).problems[0].contains("checksum"));
}

#[test]
fn a_damaged_member_does_not_take_the_others_down() {
    let text = log(100_000);
    let mut bad = gz(&text);
    let half = bad.len() / 2;
    bad[half..half + 64].fill(0xff);
    for data in [
        tar(&[("1", b"one\n"), ("2.gz", &bad), ("3", b"three\n")]),
        zip(&[("1", b"one\n"), ("2.gz", &bad), ("3", b"three\n")], true),
    ] {
        for got in [read_bytes(&data), stream(data)] {
            assert_eq!(got.len(), 3);
            assert!(text.starts_with(&got[1].bytes()[..1_000_000]));
            assert!(got[1].problems[0].starts_with("gzip: "));
            assert_eq!(got[2].text(), "three\n");
            assert!(got[0].problems.is_empty() && got[2].problems.is_empty());
        }
    }
}

#[test]
fn cut_and_damaged_archives() {
    let text = log(1000);
    let data = tar(&[("1", &text), ("2", &text), ("3", &text)]);
    let got = read_bytes(&data[..text.len() + 3000]);
    assert_eq!(got.len(), 2);
    assert!(got[0].bytes() == text && text.starts_with(&got[1].bytes()));
    assert_eq!(got[1].problems, ["tar: the archive ends in the middle of this member"]);
    let packed = gz(&data);
    let got = read_bytes(&packed[..packed.len() / 2]);
    let told: usize = got.iter().map(|g| g.problems.len()).sum();
    assert_eq!(told, 1, "{got:?}");
    assert!(got.last().unwrap().problems[0].starts_with("gzip: the file ends in the middle"));
    // A header destroyed: the members after it are found again.
    let mut bad = data.clone();
    let second = 512 + text.len().next_multiple_of(512);
    bad[second..second + 200].fill(7);
    let got = read_bytes(&bad);
    assert_eq!(names(&got), ["x.log!1", "x.log!3", "x.log"]);
    assert!(got[2].problems[0].starts_with("tar: damaged, "));
    // A zip without its directory.
    let data = zip(&[("1", &text), ("2", &text)], false);
    let got = read_bytes(&data[..data.len() - 80]);
    assert_eq!(names(&got), ["x.log!1", "x.log!2", "x.log"]);
    assert!(got[1].bytes() == text);
    assert!(got[2].problems[0].contains("directory"));
    let got = read_bytes(&data[..data.len() / 2 + 20]);
    assert!(got[0].bytes() == text);
}

#[test]
fn sums_of_zip_members_are_checked() {
    let text = log(1000);
    let mut data = zip(&[("1", &text), ("2", &text)], true);
    data[2000] ^= 1;
    let got = read_bytes(&data);
    assert_eq!(got[0].problems, ["zip: the checksum is wrong, it is damaged"]);
    assert_eq!(got[0].bytes().len(), text.len());
    assert!(got[1].problems.is_empty());
}

#[test]
fn zips_without_logs_are_named() {
    for (name, why) in [
        ("archive/data.pkl", "a PyTorch checkpoint, not a log"),
        ("model/.data/serialization_id", "a PyTorch checkpoint, not a log"),
        ("arr_0.npy", "NumPy arrays (npz), not a log"),
        ("META-INF/MANIFEST.MF", "a Java archive, not a log"),
    ] {
        let data = zip(&[(name, b"x"), ("y", b"y")], true);
        for got in [read_bytes(&data), stream(data)] {
            assert_eq!(got.len(), 1, "{got:?}");
            assert_eq!(got[0].problems, [why]);
        }
    }
}

#[test]
fn old_tars_and_empty_ones() {
    let mut header = tar::Header::new_old();
    header.set_path("old.log").unwrap();
    header.set_size(4);
    header.set_cksum();
    let mut data = header.as_bytes().to_vec();
    data.extend_from_slice(b"old\n");
    data.resize(1024, 0);
    let got = read_bytes(&data);
    assert_eq!((names(&got), got[0].text().as_str()), (vec!["x.log!old.log"], "old\n"));
    let empty = zip(&[], false);
    assert_eq!(read_one(&empty).problems, ["zip: holds no file"]);
}

#[test]
fn caps_of_archives() {
    let text = log(1000);
    let members: Vec<(&str, &[u8])> = ["1", "2", "3", "4"].map(|n| (n, &text[..])).to_vec();
    for data in [tar(&members), zip(&members, false)] {
        let mut options = Options::default();
        options.caps.members = 2;
        let got = read_all(&[bytes("x", &data)], &options);
        assert_eq!(names(&got), ["x!1", "x!2", "x"]);
        assert!(got[2].problems[0].contains("holds more than 2 files"));
        options.caps = Caps::default();
        options.caps.expanded = text.len() as u64 + 100;
        let got = read_all(&[bytes("x", &data)], &options);
        assert_eq!((got.len(), got[1].bytes().len()), (2, 100));
        assert!(got[1].problems[0].contains("expands to more than is allowed"));
    }
}

#[test]
fn the_map_of_a_sparse_member_is_no_text() {
    let mut w = tar::Builder::new(Vec::new());
    let pairs: [(&str, &[u8]); 2] = [("GNU.sparse.major", b"1"), ("GNU.sparse.name", b"sparse.log")];
    w.append_pax_extensions(pairs).unwrap();
    let mut data = b"2\n0\n6\n9000\n4\n".to_vec();
    data.resize(512, 0);
    data.extend_from_slice(b"begin\nend\n");
    let mut header = tar::Header::new_ustar();
    header.set_size(data.len() as u64);
    w.append_data(&mut header, "GNUSparseFile.0/sparse.log", &data[..]).unwrap();
    let got = read_one(&w.into_inner().unwrap());
    assert_eq!((got.name.as_str(), got.text().as_str()), ("x.log!sparse.log", "begin\nend\n"));
}

/// Counts and throws away.
fn count(data: Vec<u8>) -> (u64, Vec<String>) {
    let found = discover(&[bytes("x", &data)]);
    let mut result = (0, Vec::new());
    read_unit(&found.units[0], &Options::default(), &Lines, &mut |item| {
        if let Item::End { bytes, problems } = item {
            result.0 += bytes;
            result.1.extend(problems);
        }
        ControlFlow::Continue(())
    });
    result
}

#[test]
fn bombs_are_stopped() {
    let mut w = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(9));
    io::copy(&mut io::repeat(0).take(256 << 20), &mut w).unwrap();
    let bomb = w.finish().unwrap();
    let (n, problems) = count(bomb);
    assert!((64 << 20..100 << 20).contains(&n), "{n}");
    assert!(problems[0].starts_with("gzip: expands more than 1000 times"), "{problems:?}");
    let lines = zstd::encode_all(io::repeat(b'\n').take(256 << 20), 3).unwrap();
    let (n, problems) = count(lines);
    assert!(n < 100 << 20 && problems[0].starts_with("zstd: expands"), "{n} {problems:?}");
}

#[test]
fn a_window_that_is_too_large_is_refused() {
    let mut w = zstd::Encoder::new(Vec::new(), 3).unwrap();
    w.window_log(28).unwrap();
    w.write_all(&log(1000)).unwrap();
    let got = read_one(&w.finish().unwrap());
    assert_eq!(got.problems, ["zstd: needs a window over 128 MiB, not read"]);
}

#[test]
fn utf16_and_documents_in_archives() {
    let wide: Vec<u8> = "\u{feff}wide\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let json = b"{\n \"a\": 1\n}\n";
    let got = read_bytes(&gz(&tar(&[("w", &wide), ("j", json), ("e", b"\x7fELF\0")])));
    assert_eq!(got[0].text(), "wide\n");
    assert_eq!((got[1].kind, got[1].bytes()), (Kind::Document, json.to_vec()));
    assert!(got[2].problems[0].starts_with("binary, not read"));
}
