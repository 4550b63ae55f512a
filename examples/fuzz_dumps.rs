//! Feeds damaged Flight Recorder dumps to the readers of pickles and JSON and to the model of waits, for a time.
//!
//! ```text
//! cargo run --release --example fuzz_dumps -- --seconds 1800 --seed 1 --form pickle
//! cargo run --release --example fuzz_dumps -- --seconds 1800 --seed 2 --form json
//! ```
//!
//! Each round takes a dump that a job could have written and damages it: bytes changed, lengths blown up, pieces cut,
//! doubled, or taken of another dump, opcodes put in. A panic ends it; so does an input that takes long, or memory that
//! grows beyond a multiple of what such small files hold. The seed alone decides what is tried.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, dead_code, missing_docs)]

#[path = "../tests/common/fleet.rs"]
mod fleet;

use fleet::{Dice, Fleet, Style};
use ncclcheck::dump::{Dump, read};
use ncclcheck::job::waits::{Trace, WaitsInput, analyse, resolve};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What one small input may take.
const LONG: Duration = Duration::from_secs(5);
/// MiB by which one input, of 10 to 100 KB, may make the program grow.
const MUCH: f64 = 32.0;

fn damage(dice: &mut Dice, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[dice.below(seeds.len())].clone();
    for _ in 0..=dice.below(6) {
        if bytes.is_empty() {
            break;
        }
        let at = dice.below(bytes.len());
        match dice.below(9) {
            0 => bytes[at] = dice.below(256) as u8,
            1 => bytes[at] ^= 1 << dice.below(8),
            2 => bytes.truncate(at),
            3 => {
                // A number of four bytes, small, huge or odd.
                let value = [0u32, 1, 0x7fff_ffff, 0xffff_ffff, 0x0001_0000][dice.below(5)];
                let end = bytes.len().min(at + 4);
                bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
            }
            4 => {
                let end = bytes.len().min(at + 1 + dice.below(300));
                let piece = bytes[at..end].to_vec();
                let to = dice.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            5 => {
                let end = bytes.len().min(at + 1 + dice.below(300));
                bytes.drain(at..end);
            }
            6 => {
                let other = &seeds[dice.below(seeds.len())];
                let from = dice.below(other.len());
                let end = other.len().min(from + dice.below(2000));
                bytes.splice(at..at, other[from..end].iter().copied());
            }
            7 => {
                // Opcodes: marks, memo, calls, frames, big containers.
                let ops: [&[u8]; 14] = [
                    b"(",
                    b"t",
                    b"e",
                    b"u",
                    b"h\x00",
                    b"j\xff\xff\xff\xff",
                    b"cos\nsystem\n",
                    b"R",
                    b"\x93",
                    b"\x95\xff\xff\xff\xff\xff\xff\xff\x7f",
                    b"2",
                    b"0",
                    b"]",
                    b"}",
                ];
                let op = ops[dice.below(ops.len())];
                let many = 1 + dice.below(64);
                bytes.splice(at..at, op.repeat(many));
            }
            _ => {
                let json: [&[u8]; 8] =
                    [b"[", b"]", b"{", b"}", b"\"", b"\\", b"1e999", b"-99999999999999999999"];
                let piece = json[dice.below(json.len())];
                let many = 1 + dice.below(40);
                bytes.splice(at..at, piece.repeat(many));
            }
        }
    }
    bytes
}

/// Largest size of this process so far, in MiB; 0 where the system does not tell.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

fn main() -> ExitCode {
    let (mut seconds, mut seed) = (60u64, 1u64);
    let mut form = String::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_default();
        match (word.as_str(), value.parse()) {
            ("--seconds", Ok(v)) => seconds = v,
            ("--seed", Ok(v)) => seed = v,
            ("--form", _) if ["pickle", "json"].contains(&value.as_str()) => form = value,
            _ => {
                eprintln!("usage: fuzz_dumps [--seconds N] [--seed N] [--form pickle|json]");
                return ExitCode::from(2);
            }
        }
    }
    let jobs = [Fleet::training(seed, 4).run(), Fleet::pipeline(seed, 5).run()];
    let styles = [
        Style::default(),
        Style { json: true, ..Style::default() },
        Style { gloo: true, ..Style::default() },
        Style { timing: true, plain: true, ..Style::default() },
        Style { json: true, timing: true, ..Style::default() },
    ];
    let styles: Vec<Style> =
        styles.into_iter().filter(|s| form.is_empty() || s.json == (form == "json")).collect();
    let of = |job: &Fleet| {
        let ranks = 0..job.ranks.len();
        ranks.flat_map(|r| styles.iter().map(move |s| job.dump(r, s, 2000))).collect::<Vec<_>>()
    };
    let seeds: Vec<Vec<u8>> = jobs.iter().flat_map(of).collect();
    let (mut dice, start) = (Dice(seed), Instant::now());
    let (mut inputs, mut read_ok, mut damaged, mut refused, mut slowest, mut bytes) =
        (0u64, 0u64, 0u64, 0u64, Duration::ZERO, 0u64);
    let mut traces: Vec<Trace> = Vec::new();
    let mut before = peak();
    while start.elapsed().as_secs() < seconds {
        let input = damage(&mut dice, &seeds);
        let begun = Instant::now();
        match read(&input, "dump_3") {
            Some((Dump::FlightRecorder(recorder), wrong)) => {
                read_ok += 1;
                damaged += u64::from(!wrong.is_empty());
                refused += u64::from(wrong.iter().any(|w| w.0.starts_with("hostile")));
                traces.push(Trace::from_recorder((inputs % 8) as u32, "dump_3", recorder));
            }
            Some(_) => read_ok += 1,
            None => {}
        }
        if traces.len() >= 8 {
            resolve(&mut traces);
            let _ = analyse(&WaitsInput { traces: std::mem::take(&mut traces), ..WaitsInput::default() });
        }
        let took = begun.elapsed();
        slowest = slowest.max(took);
        inputs += 1;
        bytes += input.len() as u64;
        let now = peak();
        if took > LONG || now - before > MUCH {
            eprintln!(
                "input {inputs} of seed {seed}: {took:?}, {} bytes, grew from {before:.0} to {now:.0} MiB; kept as \
                 fuzz-dumps.bin",
                input.len(),
            );
            let _ = std::fs::write("fuzz-dumps.bin", &input);
            return ExitCode::FAILURE;
        }
        before = now;
    }
    println!(
        "{inputs} inputs, {} MB in {seconds} s: {read_ok} read, {damaged} of them damaged, {refused} refused as hostile; \
         slowest {slowest:?}, peak {:.0} MiB",
        bytes / 1_000_000,
        peak()
    );
    ExitCode::SUCCESS
}
