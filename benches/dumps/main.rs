//! How long `ncclcheck diagnose` takes over a folder of Flight Recorder dumps,
//! and how much memory: tensor groups of eight and data groups across them, one
//! rank that stopped. The answer is checked too.
//!
//! ```text
//! cargo bench --bench dumps -- [--ranks 256] [--records 2000] [--rounds 5] [--threads 2] [--bin PATH]
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, dead_code, missing_docs)]

#[path = "../../tests/common/fleet.rs"]
mod fleet;
#[path = "../ratio/measure.rs"]
mod measure;

use fleet::{Fleet, Group, Style, collective};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

struct Args {
    ranks: usize,
    records: usize,
    rounds: usize,
    threads: usize,
    bin: PathBuf,
}

fn parse() -> Result<Args, String> {
    let bin = env!("CARGO_BIN_EXE_ncclcheck").into();
    let mut a = Args { ranks: 256, records: 2000, rounds: 5, threads: 2, bin };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |t: String| t.parse::<usize>().map_err(|_| format!("{t:?} is no number"));
        match word.as_str() {
            "--ranks" => a.ranks = number(value()?)?.next_multiple_of(8),
            "--records" => a.records = number(value()?)?,
            "--rounds" => a.rounds = number(value()?)?.max(1),
            "--threads" => a.threads = number(value()?)?,
            "--bin" => a.bin = value()?.into(),
            "--bench" => {}
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    Ok(a)
}

/// The rank that stops.
fn culprit(ranks: usize) -> usize {
    ranks / 3
}

fn job(ranks: usize, records: usize) -> Fleet {
    let group = |name: usize, desc: &str, members: Vec<usize>| Group {
        name: name.to_string(),
        desc: desc.into(),
        members,
    };
    let mut groups = vec![group(0, "default_pg", (0..ranks).collect())];
    groups.extend((0..ranks / 8).map(|i| group(1 + i, "tensor", (i * 8..i * 8 + 8).collect())));
    let data = |i: usize| group(1 + ranks / 8 + i, "data", (0..ranks / 8).map(|k| k * 8 + i).collect());
    groups.extend((0..8).map(data));
    let program = |rank: usize| {
        let (tensor, data) = (1 + rank / 8, 1 + ranks / 8 + rank % 8);
        let step = |_| {
            [
                collective(tensor, "_all_gather_base", 4096, 32_768),
                collective(tensor, "all_reduce", 8192, 8192),
                collective(tensor, "_reduce_scatter_base", 32_768, 4096),
                collective(data, "all_reduce", 1 << 20, 1 << 20),
            ]
        };
        let mut calls: Vec<_> = (0..records / 4 + 1).flat_map(step).collect();
        if rank == culprit(ranks) {
            calls.truncate(records - 2);
        }
        calls
    };
    Fleet { programs: (0..ranks).map(program).collect(), groups, ahead: 2, ranks: Vec::new(), seed: 1 }.run()
}

fn run(a: &Args, folder: &Path) -> io::Result<()> {
    let job = job(a.ranks, a.records);
    let mut bytes = 0;
    for rank in 0..a.ranks {
        let dump = job.dump(rank, &Style::default(), a.records);
        bytes += dump.len();
        std::fs::write(folder.join(format!("dump_{rank}")), dump)?;
    }
    drop(job);
    let command = |what: &str| {
        let mut command = Command::new(&a.bin);
        command.args([what, "--format", "json", "--threads", &a.threads.to_string()]).arg(folder);
        command
    };
    println!("{} dumps of {} records, {} MB, {} threads", a.ranks, a.records, bytes / 1_000_000, a.threads);
    println!("           wall s   CPU s  peak MiB");
    for what in ["diagnose", "waits"] {
        let took: Vec<measure::Took> =
            (0..a.rounds).map(|_| measure::run(&mut command(what), None)).collect::<io::Result<_>>()?;
        let median = |f: fn(&measure::Took) -> f64| {
            let mut all: Vec<f64> = took.iter().map(f).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        println!(
            "{what:<9} {:>7.2} {:>7.2} {:>9.1}",
            median(|t| t.wall),
            median(|t| t.cpu),
            median(|t| t.peak)
        );
    }
    let said = command("diagnose").output()?.stdout;
    let report: serde_json::Value = serde_json::from_slice(&said)?;
    let right = report["diagnoses"][0]["cause"] == "app/rank-missing"
        && report["diagnoses"][0]["culprits"]["ranks"] == serde_json::json!([culprit(a.ranks)]);
    println!("{}", if right { "the answer is right" } else { "THE ANSWER IS WRONG" });
    if right { Ok(()) } else { Err(io::Error::other("wrong answer")) }
}

fn main() -> ExitCode {
    let done = parse().map_err(io::Error::other).and_then(|a| {
        let folder = tempfile::tempdir()?;
        run(&a, folder.path())
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
