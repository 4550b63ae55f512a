//! Compares `ncclcheck diagnose` with ripgrep counting 60 error texts in the
//! same input, in turns, and prints medians and ratios of wall time, CPU time
//! and peak memory. A machine is only compared with itself: seconds mean
//! nothing, ratios do. `logs` makes the inputs, `measure` runs the programs.
//! The last row compares the program with itself: all it knows against the
//! same 60 texts as its only knowledge (`few`).
//!
//! ```text
//! cargo bench --bench ratio -- [--size 2G] [--rounds 5] [--threads 2] [--only dense,pipe] [--bin PATH]
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, missing_docs)]

mod few;
mod logs;
mod measure;

use logs::Kind;
use measure::Took;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const TEXTS: &str = include_str!("texts.txt");
const CASES: [&str; 9] = ["dense", "sparse", "folder", "gz", "zst", "small", "pipe", "mild", "few"];

struct Args {
    size: u64,
    rounds: usize,
    threads: usize,
    only: Vec<String>,
    bin: PathBuf,
}

fn parse() -> Result<Args, String> {
    let mut a = Args {
        size: 2 << 30,
        rounds: 5,
        threads: 2,
        only: Vec::new(),
        bin: env!("CARGO_BIN_EXE_ncclcheck").into(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--size" => a.size = bytes(&value()?)?,
            "--rounds" => a.rounds = bytes(&value()?)?.max(1) as usize,
            "--threads" => a.threads = bytes(&value()?)? as usize,
            "--only" => a.only = value()?.split(',').map(String::from).collect(),
            "--bin" => a.bin = value()?.into(),
            "--bench" => {}
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    match a.only.iter().find(|o| !CASES.contains(&o.as_str())) {
        Some(wrong) => Err(format!("no case {wrong:?}; there are {}", CASES.join(", "))),
        None => Ok(a),
    }
}

/// `2G`, `512M`, `64K`, `100`.
fn bytes(text: &str) -> Result<u64, String> {
    let (figures, unit) = match text.as_bytes().last() {
        Some(b'G') => (&text[..text.len() - 1], 30),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'K') => (&text[..text.len() - 1], 10),
        _ => (text, 0),
    };
    figures.parse::<u64>().map(|n| n << unit).map_err(|_| format!("{text:?} is no number"))
}

/// Whether ripgrep answers.
fn ripgrep() -> bool {
    let mut command = Command::new("rg");
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|s| s.success())
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(0.0)
}

fn medians(took: &[Took]) -> Took {
    let all = |f: fn(&Took) -> f64| median(took.iter().map(f).collect());
    Took { wall: all(|t| t.wall), cpu: all(|t| t.cpu), peak: all(|t| t.peak) }
}

struct Bench {
    a: Args,
    dir: tempfile::TempDir,
}

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn wants(&self, case: &str) -> bool {
        self.a.only.is_empty() && case != "mild" || self.a.only.iter().any(|o| o == case)
    }

    fn log(&self, name: &str, kind: Kind, size: u64) -> io::Result<PathBuf> {
        let path = self.path(name);
        if !path.exists() {
            logs::write(&path, kind, size, 1)?;
        }
        Ok(path)
    }

    /// Ourselves.
    fn own(&self) -> Command {
        let mut own = Command::new(&self.a.bin);
        own.args(["diagnose", "--threads", &self.a.threads.to_string()]);
        own
    }

    /// Runs us and ripgrep in turns and prints a row.
    fn compare(&self, name: &str, input: &Path, piped: bool, rg: &[&str]) -> io::Result<()> {
        let other = || {
            let mut other = Command::new("rg");
            other.args(["-c", "--no-config", "-f"]).arg(self.path("texts.txt")).args(rg);
            other
        };
        self.in_turns(name, input, piped, other)
    }

    /// Runs us and another command in turns and prints a row.
    fn in_turns(&self, name: &str, input: &Path, piped: bool, other: impl Fn() -> Command) -> io::Result<()> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let file = piped.then_some(input);
        for _ in 0..self.a.rounds {
            let (mut other, mut own) = (other(), self.own());
            for command in [&mut other, &mut own] {
                command.arg(if piped { Path::new("-") } else { input });
            }
            theirs.push(measure::run(&mut other, file)?);
            ours.push(measure::run(&mut own, file)?);
        }
        // The ratio of each round first: what else the machine does changes from round to round.
        let ratio =
            |f: fn(&Took) -> f64| median(ours.iter().zip(&theirs).map(|(o, t)| f(o) / f(t)).collect());
        let (wall, cpu) = (ratio(|t| t.wall), ratio(|t| t.cpu));
        let (o, t) = (medians(&ours), medians(&theirs));
        println!(
            "{name:<8} {:>8.3} {:>8.3} {wall:>6.2}  {:>8.3} {:>8.3} {cpu:>6.2}  {:>7.1} {:>7.1}",
            o.wall, t.wall, o.cpu, t.cpu, o.peak, t.peak
        );
        Ok(())
    }

    fn run(&self) -> io::Result<()> {
        std::fs::write(self.path("texts.txt"), TEXTS)?;
        println!("{} bytes, {} rounds, {} threads", self.a.size, self.a.rounds, self.a.threads);
        println!("          wall s                    CPU s                     peak MiB");
        println!("case         ours       rg  ratio      ours       rg  ratio     ours      rg");
        for (case, kind) in [("dense", Kind::Dense), ("sparse", Kind::Sparse), ("mild", Kind::Mild)] {
            if self.wants(case) {
                self.compare(case, &self.log(case, kind, self.a.size)?, false, &[])?;
            }
        }
        if self.wants("pipe") {
            self.compare("pipe", &self.log("dense", Kind::Dense, self.a.size)?, true, &[])?;
        }
        self.packed()?;
        if self.wants("folder") {
            let folder = self.path("folder");
            std::fs::create_dir_all(&folder)?;
            for n in 0..64 {
                let path = folder.join(format!("part-{n:02}.log"));
                logs::write(&path, Kind::Dense, self.a.size / 64, n)?;
            }
            self.compare("folder", &folder, false, &[])?;
            std::fs::remove_dir_all(folder)?;
        }
        if self.wants("small") {
            self.compare("small", &self.log("small", Kind::Dense, 1 << 20)?, false, &[])?;
        }
        if self.wants("few") {
            let folder = self.path("few-rules");
            few::write(&folder, TEXTS)?;
            println!("all we know (ours) against the 60 texts as our only knowledge (in rg's place)");
            for (row, log, kind) in [("few", "dense", Kind::Dense), ("few", "sparse", Kind::Sparse)] {
                self.in_turns(row, &self.log(log, kind, self.a.size)?, false, || {
                    let mut other = self.own();
                    other.arg("--no-builtin").arg("--rules").arg(&folder);
                    other
                })?;
            }
        }
        Ok(())
    }

    fn packed(&self) -> io::Result<()> {
        for (case, name) in [("gz", "dense.gz"), ("zst", "dense.zst")] {
            if !self.wants(case) {
                continue;
            }
            let (plain, path) = (self.log("dense", Kind::Dense, self.a.size)?, self.path(name));
            let (mut from, to) = (BufReader::new(File::open(plain)?), BufWriter::new(File::create(&path)?));
            if case == "gz" {
                let mut pack = flate2::write::GzEncoder::new(to, flate2::Compression::new(4));
                io::copy(&mut from, &mut pack)?;
                pack.finish()?.flush()?;
            } else {
                let mut pack = zstd::Encoder::new(to, 3)?;
                io::copy(&mut from, &mut pack)?;
                pack.finish()?.flush()?;
            }
            self.compare(case, &path, false, &["-z"])?;
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let a = match parse() {
        Ok(a) => a,
        Err(what) => {
            eprintln!("{what}");
            return ExitCode::from(2);
        }
    };
    if !ripgrep() {
        println!("ripgrep (rg) is not there: nothing to compare with");
        return ExitCode::SUCCESS;
    }
    let run = tempfile::tempdir().and_then(|dir| Bench { a, dir }.run());
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
