//! Compares `ncclcheck diagnose` with ripgrep counting 60 error texts in the
//! same input, in turns, and prints medians and ratios of wall time, CPU time
//! and peak memory. A machine is only compared with itself: seconds mean
//! nothing, ratios do. `logs` makes the inputs, `measure` runs the programs.
//!
//! ```text
//! cargo bench --bench ratio -- [--size 2G] [--rounds 5] [--threads 2] [--only dense,pipe] [--bin PATH]
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, missing_docs)]

mod logs;
mod measure;

use logs::Kind;
use measure::Took;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const TEXTS: &str = include_str!("texts.txt");
const CASES: [&str; 8] = ["dense", "sparse", "folder", "gz", "zst", "small", "pipe", "mild"];

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

    /// Runs both in turns and prints a row.
    fn compare(&self, name: &str, input: &Path, piped: bool, rg: &[&str]) -> io::Result<()> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let texts = self.path("texts.txt");
        let file = piped.then_some(input);
        for _ in 0..self.a.rounds {
            let mut other = Command::new("rg");
            other.args(["-c", "--no-config", "-f"]).arg(&texts).args(rg);
            let mut own = Command::new(&self.a.bin);
            own.args(["diagnose", "--threads", &self.a.threads.to_string()]);
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
