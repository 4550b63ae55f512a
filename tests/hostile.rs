//! Input that is cut, damaged, absurd or meant to do harm: there is always a
//! report on what can be read, with the problem named, and never a panic.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;

use common::{bytes, first, json, options, report, report_on};
use ncclcheck::engine::Options;
use ncclcheck::input::Given;
use ncclcheck::report::{Report, Verdict};
use std::io::{Cursor, Write};
use std::process::{Command, Output, Stdio};

/// A failure that must be found whatever stands beside it.
const TROUBLE: &str = "[rank1]: Traceback (most recent call last):\n\
                       [rank1]:   File \"/home/u/train.py\", line 12, in <module>\n\
                       [rank1]:     main()\n\
                       [rank1]: ValueError: learning rate must be positive\n";

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(data).unwrap();
    out.finish().unwrap()
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = tar::Builder::new(Vec::new());
    for (name, data) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        out.append_data(&mut header, name, *data).unwrap();
    }
    out.into_inner().unwrap()
}

/// Bytes that repeat for a seed.
fn random(n: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..n).map(|_| next()).collect()
}

fn problems(report: &Report, path: &str) -> String {
    report
        .inputs
        .iter()
        .filter(|i| i.path.contains(path))
        .flat_map(|i| i.problems.clone())
        .collect::<Vec<_>>()
        .join("; ")
}

/// Nothing of a job: says so, and what to collect.
#[track_caller]
fn nothing_to_judge(what: &str, report: &Report) {
    assert_eq!(report.verdict, Verdict::Inconclusive, "{what}: {}", report.summary);
    assert!(report.diagnoses.is_empty(), "{what}: {:?}", first(report));
    assert!(report.summary.contains("NCCL_DEBUG"), "{what}: {}", report.summary);
    common::text(report, true);
}

#[test]
fn inputs_without_a_job_say_what_to_collect() {
    nothing_to_judge("empty", &report_on(""));
    nothing_to_judge("one byte", &report_on("x"));
    nothing_to_judge("one line end", &report_on("\n"));
    nothing_to_judge("carriage returns", &report_on("\r".repeat(5000)));
    nothing_to_judge("NULs", &report_on(vec![0u8; 100_000]));
    nothing_to_judge(
        "a poem",
        &report_on("The woods are lovely, dark and deep,\nbut I have promises to keep.\n".repeat(9)),
    );
}

/// Nothing that could be read: an error that says what and where, as for a file that is not there.
#[test]
fn binary_input_is_named() {
    for (what, data) in [
        ("random", random(300_000, 7)),
        ("a program", {
            let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
            elf.extend(random(5_000, 9));
            elf
        }),
    ] {
        let wrong = common::engine().diagnose(&[bytes("core.77", &data)], &options());
        let said = wrong.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(said.contains("core.77") && said.contains("binary"), "{what}: {said:?}");
    }
}

#[test]
fn what_stands_between_rubbish_is_found() {
    let mut log = vec![0u8; 70_000];
    log.extend(b"\n");
    log.extend(TROUBLE.as_bytes());
    log.extend(vec![0u8; 70_000]);
    let found = report_on(&log);
    assert_eq!(first(&found), "app/exception", "{}", found.summary);
    assert_eq!(found.diagnoses[0].culprits.ranks, [1]);

    let found =
        report(&[bytes("job.log", TROUBLE.as_bytes()), bytes("core.1234", &random(500_000, 3))], &options());
    assert_eq!(first(&found), "app/exception");
    assert_eq!(found.inputs.len(), 2);
}

#[test]
fn text_in_other_forms_is_text() {
    let utf16: Vec<u8> =
        [0xff, 0xfe].into_iter().chain(TROUBLE.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    let be: Vec<u8> =
        [0xfe, 0xff].into_iter().chain(TROUBLE.encode_utf16().flat_map(u16::to_be_bytes)).collect();
    let bom = format!("\u{feff}{TROUBLE}");
    let old_mac = TROUBLE.replace('\n', "\r");
    let latin1: Vec<u8> = TROUBLE.bytes().chain(*b"[rank0]: caf\xe9 \xff\xfe\n").collect();
    let no_end = TROUBLE.trim_end();
    let forms: [(&str, &[u8]); 6] = [
        ("UTF-16 LE", &utf16),
        ("UTF-16 BE", &be),
        ("BOM", bom.as_bytes()),
        ("only carriage returns", old_mac.as_bytes()),
        ("Latin-1", &latin1),
        ("no last line end", no_end.as_bytes()),
    ];
    for (what, data) in forms {
        let found = report_on(data);
        assert_eq!(first(&found), "app/exception", "{what}: {}", found.summary);
        assert_eq!(found.diagnoses[0].culprits.ranks, [1], "{what}");
    }
}

#[test]
fn colour_codes_inside_words_do_not_hide_them() {
    let coloured = TROUBLE
        .replace("Traceback", "Trace\u{1b}[31mback\u{1b}[0m")
        .replace("ValueError", "Value\u{1b}[1;31mError\u{1b}[0m")
        .replace("[rank1]:", "\u{1b}[36m[rank1]:\u{1b}[0m");
    let found = report_on(&coloured);
    assert_eq!(first(&found), "app/exception", "{}", found.summary);
    assert_eq!(found.diagnoses[0].culprits.ranks, [1]);
    let shown = &found.diagnoses[0].evidence[0];
    assert!(shown.text.contains("\u{1b}[1;31m"), "quoted as it stands there: {:?}", shown.text);
    assert_eq!(shown.line, 4);
}

/// A log may end anywhere: what was readable is used, and nothing breaks.
#[test]
fn a_log_cut_anywhere_gives_a_report() {
    for name in ["oom-rank5-of-16", "docker-json-exception", "xid79-silent-rank"] {
        let files = common::input("cases", name);
        let (log, data) = files.iter().max_by_key(|f| f.1.len()).unwrap();
        let step = if data.len() > 20_000 { 970 } else { 97 };
        for end in (0..data.len()).step_by(step) {
            let found = report(&[bytes(log, &data[..end])], &Options { threads: 1, ..options() });
            assert!(!found.summary.is_empty(), "{name} cut at {end}");
            for d in &found.diagnoses {
                assert!(
                    !d.evidence.is_empty() || d.cause.starts_with("unknown/"),
                    "{name} cut at {end}: {}",
                    d.cause
                );
            }
            // And the other half: a log whose beginning was rotated away.
            let rest = report(&[bytes(log, &data[end..])], &Options { threads: 1, ..options() });
            assert!(!rest.summary.is_empty(), "{name} from {end}");
        }
    }
}

/// Single bytes flipped, at places that repeat for a seed.
#[test]
fn flipped_bytes_do_no_harm() {
    let files = common::input("cases", "ib-retry-two-reporters");
    for seed in 0..40u64 {
        let damaged: Vec<Given> = files
            .iter()
            .map(|(name, data)| {
                let mut data = data.clone();
                let dice = random(96, seed * 977 + 5);
                for three in dice.chunks(4) {
                    let at =
                        usize::from(three[0]) << 12 | usize::from(three[1]) << 4 | usize::from(three[2]) >> 4;
                    let n = data.len();
                    data[at % n] = three[3];
                }
                bytes(name, &data)
            })
            .collect();
        let found = report(&damaged, &options());
        common::text(&found, true);
    }
}

#[test]
fn a_line_of_64_mebibytes_is_no_trouble() {
    let mut log = TROUBLE.as_bytes().to_vec();
    log.extend(b"[rank0]: ");
    log.resize(64 << 20, b'x');
    log.extend(b"\n[rank0]: step 12 loss 2.5\n");
    let found = report_on(&log);
    assert_eq!(first(&found), "app/exception", "{}", found.summary);
    assert_eq!(found.inputs[0].lines, 6);
    let widest = json(&found).to_string().len();
    assert!(widest < 200_000, "a report of {widest} bytes");

    // And with the trouble behind it.
    let mut log = vec![b'y'; 9 << 20];
    log.push(b'\n');
    log.extend(TROUBLE.as_bytes());
    let found = report_on(&log);
    assert_eq!(first(&found), "app/exception", "{}", found.summary);
    assert_eq!(found.diagnoses[0].evidence[0].line, 5);
}

#[test]
fn a_long_line_of_trouble_is_cut_round_its_match() {
    let long = format!(
        "{}\n[rank1]: ValueError: {} must be positive\n",
        TROUBLE.lines().take(3).collect::<Vec<_>>().join("\n"),
        "z".repeat(100_000)
    );
    let found = report_on(&long);
    assert_eq!(first(&found), "app/exception");
    let shown = &found.diagnoses[0].evidence[0];
    assert!(shown.cut && shown.text.len() <= 5_000, "{} bytes, cut {}", shown.text.len(), shown.cut);
    assert!(common::text(&found, false).lines().count() <= 42);
}

#[test]
fn damaged_archives_do_not_take_others_down() {
    let packed = gzip(TROUBLE.repeat(200).as_bytes());
    let cut = &packed[..packed.len() / 2];
    let mut flipped = packed.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0xff;
    let zip_head = b"PK\x03\x04\x14\x00\x00\x00\x08\x00".to_vec();
    let zstd = {
        let mut z = zstd::encode_all(TROUBLE.as_bytes(), 1).unwrap();
        let n = z.len();
        z.truncate(n - 5);
        z
    };
    let tar_cut = {
        let t = tar(&[("a.log", &random(5000, 1)), ("b.log", TROUBLE.as_bytes())]);
        t[..2_000].to_vec()
    };
    for (name, bad) in [
        ("a.gz", cut),
        ("b.gz", &flipped),
        ("c.zip", &zip_head),
        ("d.zst", &zstd),
        ("e.tar", &tar_cut),
        ("f.gz", b"\x1f\x8b"),
    ] {
        let found = report(&[bytes("good.log", TROUBLE.as_bytes()), bytes(name, bad)], &options());
        assert_eq!(first(&found), "app/exception", "{name}: {}", found.summary);
        assert!(!problems(&found, name).is_empty(), "{name}: {:?}", found.inputs);
        assert!(problems(&found, "good.log").is_empty());
        assert!(common::text(&found, false).contains(name), "{name} is not named in the text");
    }
}

#[test]
fn too_deep_an_archive_is_named() {
    let three = tar(&[("two.tar", &tar(&[("one.tar", &tar(&[("job.log", TROUBLE.as_bytes())]))]))]);
    let found = report(&[bytes("good.log", TROUBLE.as_bytes()), bytes("three.tar", &three)], &options());
    assert_eq!(first(&found), "app/exception");
    assert!(!problems(&found, "three.tar").is_empty(), "{:?}", found.inputs);
    // Two deep is read.
    let two = tar(&[("inner.tar", &tar(&[("job.log", TROUBLE.as_bytes())]))]);
    let found = report(&[bytes("two.tar.gz", &gzip(&two))], &options());
    assert_eq!(first(&found), "app/exception", "{:?}", found.inputs);
    assert_eq!(found.diagnoses[0].evidence[0].source, "two.tar.gz!inner.tar!job.log");
}

#[test]
fn names_in_archives_stay_names() {
    let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for name in ["../../etc/passwd", "/etc/shadow", "a\u{1b}[2J.log"] {
        out.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        out.write_all(TROUBLE.as_bytes()).unwrap();
    }
    let data = out.finish().unwrap().into_inner();
    let found = report(&[bytes("evil.zip", &data)], &options());
    assert_eq!(first(&found), "app/exception", "{:?}", found.inputs);
    assert!(!common::text(&found, true).contains('\u{1b}'));
}

#[test]
fn five_thousand_small_files() {
    let given: Vec<Given> = (0..5_000)
        .map(|i| {
            let text = if i == 3_210 {
                TROUBLE.replace("rank1", "rank3210")
            } else {
                format!("[rank{i}]: step 7 loss 2.5\n")
            };
            bytes(&format!("logs/rank_{i}.log"), text.as_bytes())
        })
        .collect();
    let found = report(&given, &options());
    assert_eq!(first(&found), "app/exception", "{}", found.summary);
    assert_eq!(found.diagnoses[0].culprits.ranks, [3_210]);
    assert_eq!(found.inputs.len(), 5_000);
    assert!(common::text(&found, false).lines().count() <= 42);
}

#[test]
fn a_flood_of_speakers_keeps_its_bounds() {
    use std::fmt::Write;
    let mut log = String::new();
    for i in 0..60_000 {
        let _ = writeln!(
            log,
            "host{i}:{}:{} [0] NCCL WARN Call to connect returned Connection refused, retrying {i}",
            i + 7,
            i + 9
        );
    }
    log.push_str(TROUBLE);
    let found = report_on(&log);
    let size = json(&found).to_string().len();
    assert!(size < 4 << 20, "a report of {size} bytes");
    assert!(common::text(&found, false).lines().count() <= 42);
}

#[test]
fn numbers_that_are_too_large_are_no_numbers() {
    let log = "[rank99999999999]: Traceback (most recent call last):\n\
               node1:1:2 [4294967295] NCCL INFO ncclCommInitRank comm 0x1 rank 4294967295 nranks 4294967295 cudaDev 0 busId 1b000 commId 0x1 - Init START\n\
               node1:1:2 [0] NCCL INFO ncclCommInitRank comm 0x1 rank -5 nranks 0 cudaDev 0 busId 1b000 commId 0x1 - Init COMPLETE\n\
               [E203 10:30:00.1 ProcessGroupNCCL.cpp:632] [Rank 18446744073709551615] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=99999999999999999999, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 99999999999999999999999 milliseconds before timing out.\n\
               Feb 31 25:61:61 node1 kernel: NVRM: Xid (PCI:0000:zz:00): 999999999999, pid=1, name=x, boo\n\
               slurmstepd: error: *** STEP 1.0 ON node[0-99999999999] CANCELLED AT 9999-99-99T99:99:99 DUE TO TIME LIMIT ***\n";
    let found = report_on(log);
    common::text(&found, true);
    assert!(json(&found).to_string().len() < 1 << 20);
}

#[test]
fn control_characters_and_markup_reach_data_but_no_terminal() {
    let evil = "learning \u{202e}rate\u{1b}]0;owned\u{7} <script>alert(1)</script> =cmd|'/c calc'!A1";
    let log = TROUBLE.replace("learning rate", evil);
    let found = report_on(&log);
    assert_eq!(first(&found), "app/exception");
    let shown = &found.diagnoses[0].evidence[0].text;
    assert!(shown.contains(evil), "data has it as it stands there: {shown:?}");
    let back: serde_json::Value = serde_json::from_str(&json(&found).to_string()).unwrap();
    assert_eq!(back["diagnoses"][0]["evidence"][0]["text"].as_str().unwrap(), shown);
    let text = common::text(&found, true);
    for bad in ['\u{202e}', '\u{1b}', '\u{7}'] {
        assert!(!text.contains(bad), "{bad:?} in the text report");
    }
    assert!(text.contains("<script>"), "markup is plain text on a terminal");
}

#[test]
fn secrets_are_masked() {
    let log = TROUBLE.replace("learning rate", "WANDB_API_KEY=0123456789abcdef0123456789 learning rate");
    let found = report_on(&log);
    let all = format!("{}{}", json(&found), common::text(&found, true));
    assert!(!all.contains("0123456789abcdef0123456789"), "{all}");
}

/// A pickle that asks for `os.system` is refused and named; the rest is read.
#[test]
fn nothing_in_a_pickle_is_executed() {
    let marker = tempfile::tempdir().unwrap();
    let path = marker.path().join("pwned");
    let command = format!("touch {}", path.display());
    let mut evil = b"\x80\x02cos\nsystem\nX".to_vec();
    evil.extend((command.len() as u32).to_le_bytes());
    evil.extend(command.as_bytes());
    evil.extend(b"\x85R.");
    for name in ["nccl_trace_rank_0", "dump.pkl"] {
        let found = report(&[bytes(name, &evil), bytes("job.log", TROUBLE.as_bytes())], &options());
        assert!(!path.exists());
        assert_eq!(first(&found), "app/exception", "{}", found.summary);
        let said = problems(&found, name);
        assert!(!said.is_empty(), "{:?}", found.inputs);
    }
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ncclcheck")).args(args).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn what_cannot_be_read_is_said_on_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    std::fs::create_dir_all(path("empty/within")).unwrap();
    std::fs::write(path("good.log"), TROUBLE).unwrap();
    std::fs::write(path("bad.gz"), b"\x1f\x8b").unwrap();
    for args in
        [vec!["diagnose", &path("empty")], vec!["diagnose", &path("none")], vec!["diagnose", &path("bad.gz")]]
    {
        let output = run(&args);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{args:?}: {err}");
        assert!(err.contains(args[1]), "{args:?}: {err}");
        assert!(output.stdout.is_empty());
    }
    let output = run(&["diagnose", "--format", "json", &path("none"), &path("good.log")]);
    assert_eq!(output.status.code(), Some(1));
    let v: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let named = v["inputs"].as_array().unwrap().iter().find(|i| i["path"] == path("none")).unwrap();
    assert_ne!(named["problems"], serde_json::json!([]));
}

#[cfg(unix)]
#[test]
fn special_files_in_a_folder_do_not_block() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("job.log"), TROUBLE).unwrap();
    let pipe = Command::new("mkfifo").arg(at("pipe")).status();
    std::os::unix::fs::symlink(dir.path(), at("loop")).unwrap();
    std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
    let found = report(&[Given::Path(dir.path().to_path_buf())], &options());
    assert_eq!(first(&found), "app/exception", "{:?}", found.inputs);
    assert!(pipe.is_ok());
}
