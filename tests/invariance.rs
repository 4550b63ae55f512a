//! What a report does not depend on: threads, size of blocks, order of
//! arguments, packing, and whether a log was split by rank or merged.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;
#[path = "../examples/generate.rs"]
mod generate;

use ncclcheck::engine::Options;
use ncclcheck::input::Given;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use std::io::{Cursor, Write};

type Files = Vec<(String, Vec<u8>)>;

const FIXTURES: [(&str, &str); 14] = [
    ("cases", "oom-rank5-of-16"),
    ("cases", "xid79-silent-rank"),
    ("cases", "ib-retry-two-reporters"),
    ("cases", "exception-all-ranks-interleaved"),
    ("cases", "docker-json-exception"),
    ("cases", "rank-dies-then-restart-fails-again"),
    ("cases", "mismatch-detail-report"),
    ("cases", "host-oom-kill-dmesg"),
    ("cases", "scancel-in-progress-bar"),
    ("cases", "nvls-bind-failed"),
    ("healthy", "kubernetes-cri-two-pods"),
    ("healthy", "nccltests-mpirun-tags-2.18"),
    ("healthy", "ray-train-colours"),
    ("healthy", "restart-second-attempt-well"),
];

fn diagnose(files: &[(String, Vec<u8>)], threads: usize, block: usize) -> Value {
    let options = Options { threads, block, ..Options::default() };
    common::json(&common::report(&common::given(files), &options))
}

#[track_caller]
fn same(what: &str, a: &Value, b: &Value) {
    if let Some(d) = common::difference(a, b) {
        panic!("{what}{d}");
    }
}

/// What the generator makes, as one stream or one file a rank.
fn made(words: &str, split: bool) -> Files {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("job.log");
    let at = if split { dir.path() } else { &out };
    let flag = if split { "--split-by-rank" } else { "--out" };
    let words = words.split_whitespace().chain([flag, at.to_str().unwrap()]).map(str::to_string);
    if let Err(wrong) = generate::make(words) {
        match wrong {
            generate::Wrong::Usage(what) => panic!("{what}"),
            generate::Wrong::Write(e) => panic!("{e}"),
        }
    }
    common::files(dir.path())
}

/// A log with neutral lines before and behind it, so that it is longer than what is read line by line at both ends.
fn padded(data: &[u8], before: usize, behind: usize) -> Vec<u8> {
    let noise = |bytes: usize| -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes + 100);
        let mut n = 0u64;
        while out.len() < bytes {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let pad = "x".repeat((n >> 58) as usize);
            writeln!(out, "DEBUG data: prefetched shard {}, queue depth 12 {pad}", n >> 40).unwrap();
        }
        out
    };
    let mut out = noise(before);
    out.extend_from_slice(data);
    if out.last().is_some_and(|b| *b != b'\n') {
        out.push(b'\n');
    }
    out.extend(noise(behind));
    out
}

#[test]
fn threads_and_blocks_do_not_matter_to_fixtures() {
    for (kind, name) in FIXTURES {
        let files: Files = common::input(kind, name)
            .into_iter()
            .map(|(n, data)| (n, padded(&data, 270 << 10, 270 << 10)))
            .collect();
        let expected = diagnose(&files, 1, 1 << 20);
        for (threads, block) in [(2, 1 << 10), (8, 64 << 10)] {
            same(
                &format!("{name}, {threads} threads, blocks of {block}: "),
                &expected,
                &diagnose(&files, threads, block),
            );
        }
    }
}

/// Each file many times behind itself: long sources of nothing but what matters. The events are compared first, since
/// they say where a difference begins.
#[test]
fn threads_and_blocks_do_not_matter_to_long_logs_of_trouble() {
    for (kind, name) in FIXTURES.into_iter().step_by(2) {
        let files: Files = common::input(kind, name)
            .into_iter()
            .map(|(n, data)| {
                let times = (560 << 10) / data.len().max(1) + 1;
                (n, data.repeat(times.min(4_000)))
            })
            .collect();
        let events = |threads, block| -> Vec<String> {
            let options = Options { threads, block, ..Options::default() };
            let events = common::engine().events(&common::given(&files), &options, false).unwrap();
            events.iter().map(|e| serde_json::to_string(e).unwrap()).collect()
        };
        let (wide, narrow) = (events(1, 1 << 20), events(2, 1 << 10));
        for (a, b) in wide.iter().zip(&narrow) {
            assert_eq!(a, b, "{name}");
        }
        assert_eq!(wide.len(), narrow.len(), "{name}");
        let expected = diagnose(&files, 1, 1 << 20);
        same(&format!("{name}, blocks of 7,000"), &expected, &diagnose(&files, 8, 7_000));
    }
}

const MADE: [&str; 8] = [
    "--ranks 16 --lines 6000 --fault oom --seed 3",
    "--ranks 16 --lines 11000 --fault ib --seed 4 --sparse",
    "--ranks 32 --nodes 8 --lines 12000 --fault exception --seed 5 --sparse",
    "--ranks 16 --lines 6000 --fault hang --seed 6",
    "--ranks 16 --lines 11000 --fault hang --seed 7 --sparse",
    "--ranks 24 --lines 12000 --fault xid --seed 8 --sparse",
    "--ranks 16 --lines 6000 --fault none --seed 9",
    "--ranks 256 --lines 9000 --fault exception --seed 10",
];

#[test]
fn threads_and_blocks_do_not_matter_to_made_logs() {
    for words in MADE {
        let files = made(words, false);
        let expected = diagnose(&files, 1, 1 << 20);
        for (threads, block) in [(2, 1 << 10), (8, 64 << 10)] {
            same(
                &format!("{words}, {threads} threads, blocks of {block}: "),
                &expected,
                &diagnose(&files, threads, block),
            );
        }
    }
}

/// Thousands of ranks in one block, each with few lines.
#[test]
fn threads_and_blocks_do_not_matter_to_thousands_of_ranks() {
    let mut log = Vec::new();
    for step in 0..5 {
        for rank in 0..4_500 {
            writeln!(log, "[rank{rank}]: step {step} loss 2.{}", 1_000 + (rank * 7 + step) % 8_999).unwrap();
        }
    }
    writeln!(log, "[rank4321]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.")
        .unwrap();
    for rank in 0..4_500 {
        writeln!(log, "[rank{rank}]: bye").unwrap();
    }
    let files = vec![("job.log".to_string(), log)];
    let expected = diagnose(&files, 1, 1 << 20);
    assert_eq!(expected["job"]["ranks_seen"], "0-4499");
    assert_eq!(expected["diagnoses"][0]["culprits"]["ranks"], json!([4_321]));
    same("4500 ranks: ", &expected, &diagnose(&files, 2, 16 << 10));
}

#[test]
fn the_order_of_arguments_does_not_matter() {
    let split = made("--ranks 12 --nodes 3 --lines 3000 --fault xid --seed 11 --sparse", true);
    let fixtures = FIXTURES.iter().map(|(kind, name)| common::input(kind, name)).filter(|f| f.len() > 1);
    for files in fixtures.chain([split]) {
        let expected = diagnose(&files, 2, 1 << 20);
        let mut turned = files.clone();
        turned.reverse();
        same("reversed: ", &expected, &diagnose(&turned, 8, 1 << 20));
        let half = turned.len() / 2;
        turned.rotate_left(half);
        same("rotated: ", &expected, &diagnose(&turned, 1, 1 << 12));
    }
}

#[test]
fn a_folder_is_its_files() {
    for (kind, name) in [("cases", "oom-rank5-of-16"), ("healthy", "kubernetes-cri-two-pods")] {
        let folder = common::fixtures().join(kind).join(name).join("input");
        let from_folder =
            common::json(&common::report(&[Given::Path(folder.clone())], &common::options())).to_string();
        let prefix = format!("{}/", folder.to_str().unwrap());
        let files: Files = common::input(kind, name);
        let expected = common::json(&common::report(&common::given(&files), &common::options()));
        same(name, &expected, &serde_json::from_str(&from_folder.replace(&prefix, "")).unwrap());
    }
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(data).unwrap();
    out.finish().unwrap()
}

fn tar(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = tar::Builder::new(Vec::new());
    for (name, data) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        out.append_data(&mut header, name, data.as_slice()).unwrap();
    }
    out.into_inner().unwrap()
}

fn zip(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, data) in files {
        out.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        out.write_all(data).unwrap();
    }
    out.finish().unwrap().into_inner()
}

/// Without what packing may change: inputs, and the archive's name before that of its member.
fn unpacked(report: Value, archive: &str) -> Value {
    let mut v: Value = serde_json::from_str(&report.to_string().replace(&format!("{archive}!"), "")).unwrap();
    v["inputs"] = Value::Null;
    v
}

#[test]
fn packing_does_not_matter() {
    for (kind, name) in FIXTURES {
        let files = common::input(kind, name);
        let expected = unpacked(diagnose(&files, 2, 1 << 20), "-");
        let each = |pack: fn(&[u8]) -> Vec<u8>| -> Files {
            files.iter().map(|(n, data)| (n.clone(), pack(data))).collect()
        };
        same(&format!("{name} gz"), &expected, &unpacked(diagnose(&each(gzip), 2, 1 << 20), "-"));
        let zst = each(|data| zstd::encode_all(data, 1).unwrap());
        same(&format!("{name} zst"), &expected, &unpacked(diagnose(&zst, 2, 1 << 20), "-"));
        for (what, data) in
            [("job.tar", tar(&files)), ("job.tar.gz", gzip(&tar(&files))), ("job.zip", zip(&files))]
        {
            let got = diagnose(&[(what.to_string(), data)], 2, 1 << 20);
            same(&format!("{name} in {what}"), &expected, &unpacked(got, what));
        }
    }
}

/// Logs of nodes, put behind one another in one stream, are one run of one job.
#[test]
fn logs_behind_one_another_are_one_run() {
    let logs = common::input("cases", "oom-rank5-of-16");
    let expected = diagnose(&logs, 2, 1 << 20);
    for order in [[0, 1], [1, 0]] {
        let stream: Vec<u8> = order.into_iter().flat_map(|i| logs[i].1.clone()).collect();
        let got = diagnose(&[("-".to_string(), stream)], 2, 1 << 20);
        assert_eq!(got["attempts"].as_array().map(Vec::len), Some(1), "{order:?}");
        for key in ["cause", "culprits", "evidence"] {
            let first = |v: &Value| match key {
                "evidence" => v["diagnoses"][0][key][0]["text"].clone(),
                _ => v["diagnoses"][0][key].clone(),
            };
            assert_eq!(first(&got), first(&expected), "{order:?}");
        }
    }
}

/// What must be the same of a log split by rank and of the same merged.
fn conclusions(report: &Value) -> Value {
    let texts = |list: &Value| -> Vec<Value> {
        list.as_array().into_iter().flatten().map(|e| json!([e["text"], e["rank"]])).collect()
    };
    let each = |list: &Value| -> Vec<Value> {
        let one = |d: &Value| {
            let explains: Vec<Value> = d["explains"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|x| json!([x["cause"], x["symptom"], x["ranks"], x["count"], texts(&x["evidence"])]))
                .collect();
            json!({
                "cause": d["cause"], "title": d["title"], "why": d["why"], "confidence": d["confidence"],
                "severity": d["severity"], "culprits": d["culprits"], "evidence": texts(&d["evidence"]),
                "explains": explains, "fixes": d["fixes"],
            })
        };
        list.as_array().into_iter().flatten().map(one).collect()
    };
    let job = &report["job"];
    json!({
        "verdict": report["verdict"], "summary": report["summary"],
        "diagnoses": each(&report["diagnoses"]), "notices": each(&report["notices"]),
        "not_seen": report["not_seen"], "attempts": report["attempts"].as_array().map(Vec::len),
        "world": job["world_size"], "seen": job["ranks_seen"], "hosts": job["hosts"],
        "versions": job["versions"], "end": job["end"]["state"],
    })
}

/// One rank dies while the others say that they are done: whoever speaks last, the job did not end well.
#[test]
fn a_good_end_of_others_hides_no_death() {
    let steps = |rank: u32| -> String {
        (0..9).map(|s| format!("[rank{rank}]: step {s} loss 2.5 lr 3.0e-04 tokens/s 4711\n")).collect()
    };
    let end = |rank: u32| {
        match rank {
        3 => "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/home/u/train.py\", line 12, in <module>\n\
              [rank3]:     main()\n[rank3]: ValueError: bad\n"
            .to_string(),
        r => format!("[rank{r}]: Training completed successfully\n"),
    }
    };
    let split: Files = (0..4).map(|r| (format!("rank_{r}.log"), (steps(r) + &end(r)).into_bytes())).collect();
    let expected = diagnose(&split, 1, 1 << 20);
    assert_eq!(expected["diagnoses"][0]["cause"], "app/exception", "{}", expected["summary"]);
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 3, 1, 2]] {
        let log: String = (0..4).map(steps).chain(order.into_iter().map(end)).collect();
        let merged = diagnose(&[("job.log".to_string(), log.into_bytes())], 1, 1 << 20);
        same(&format!("{order:?}"), &conclusions(&expected), &conclusions(&merged));
    }
}

#[test]
fn split_by_rank_or_merged_it_is_the_same() {
    for words in MADE.iter().filter(|w| !w.contains("256")) {
        let merged = conclusions(&diagnose(&made(words, false), 2, 1 << 20));
        let split = conclusions(&diagnose(&made(words, true), 2, 1 << 20));
        same(&format!("{words}, merged and split"), &merged, &split);
    }
}

/// Fixtures whose every line carries its rank, one file a rank against one stream.
#[test]
fn fixtures_with_ranks_in_their_lines_can_be_split() {
    let mut split_any = 0;
    for (name, _) in common::all("cases") {
        let files = common::input("cases", &name);
        let [(_, data)] = &files[..] else { continue };
        let text = String::from_utf8_lossy(data);
        let Some(parts) = by_rank(&text) else { continue };
        split_any += 1;
        let merged = conclusions(&diagnose(&files, 2, 1 << 20));
        let split = conclusions(&diagnose(&parts, 2, 1 << 20));
        same(&format!("{name}, merged and split"), &merged, &split);
    }
    // Few of them are so pure; those that are must hold.
    assert!(split_any < 100);
}

/// The lines of each rank, where every line begins with `[rankN]:`.
fn by_rank(text: &str) -> Option<Files> {
    let mut parts: std::collections::BTreeMap<u32, String> = std::collections::BTreeMap::new();
    for line in text.split_inclusive('\n') {
        let rest = line.strip_prefix("[rank")?;
        let rank = rest[..rest.find(']')?].parse().ok()?;
        parts.entry(rank).or_default().push_str(line);
    }
    (parts.len() > 1)
        .then(|| parts.into_iter().map(|(r, t)| (format!("out-{r}.log"), t.into_bytes())).collect())
}

/// Lines of several files in one stream, each file's own order kept.
fn interleaved(files: &[(String, Vec<u8>)], seed: u64) -> Vec<u8> {
    let mut lines: Vec<std::vec::IntoIter<&[u8]>> = files
        .iter()
        .map(|(_, data)| data.split_inclusive(|b| *b == b'\n').collect::<Vec<_>>().into_iter())
        .collect();
    let mut out = Vec::new();
    let mut state = seed | 1;
    while !lines.is_empty() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = (state % lines.len() as u64) as usize;
        // A few lines of one rank at a time, as pipes give them.
        for _ in 0..1 + (state >> 32) % 3 {
            match lines[at].next() {
                Some(line) => out.extend_from_slice(line),
                None => {
                    lines.remove(at);
                    break;
                }
            }
        }
    }
    out
}

/// Few cases, and the same ones in every run; `PROPTEST_CASES=200 PROPTEST_RNG_SEED=7` tries others.
fn few() -> ProptestConfig {
    let asked = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    ProptestConfig {
        cases: asked("PROPTEST_CASES").map_or(16, |n| n as u32),
        rng_seed: RngSeed::Fixed(asked("PROPTEST_RNG_SEED").unwrap_or(20_260_203)),
        max_shrink_iters: 8,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(few())]

    /// Blocks of any size, and a fixture at any place in a long log.
    #[test]
    fn blocks_of_any_size(which in 0..FIXTURES.len(), before in 250_000usize..290_000, block in 1_024usize..200_000, threads in 1usize..5) {
        let (kind, name) = FIXTURES[which];
        let files: Files = common::input(kind, name)
            .into_iter()
            .map(|(n, data)| (n, padded(&data, before, 300_000)))
            .collect();
        let expected = diagnose(&files, 1, 1 << 20);
        let got = diagnose(&files, threads, block);
        prop_assert_eq!(common::difference(&expected, &got), None, "{}", name);
    }

    /// Any merging of the ranks' files.
    #[test]
    fn streams_merged_in_any_way(seed in any::<u64>(), fault in 0usize..6, ranks in 2u64..5) {
        let fault = ["oom", "ib", "exception", "hang", "xid", "none"][fault];
        let words = format!(
            "--ranks {} --nodes {} --lines 1500 --fault {fault} --sparse --seed {}", ranks * 4, ranks, seed % 1000
        );
        let split = made(&words, true);
        let expected = conclusions(&diagnose(&split, 2, 1 << 20));
        let merged = vec![("job.log".to_string(), interleaved(&split, seed))];
        let got = conclusions(&diagnose(&merged, 2, 1 << 20));
        prop_assert_eq!(common::difference(&expected, &got), None, "{}", words);
    }
}
