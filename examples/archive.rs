//! Makes an archive of the logs of many jobs, as sites keep them: flat and in folders, of one file and of one for each
//! rank, packed, packed together, nested, rotated, damaged; most jobs with a fault planted, some without.
//!
//! ```text
//! cargo run --release --example archive -- --jobs 60 --out archive --truth truth.ndjson
//! cargo run --release --example archive -- --jobs 2000 --size 20G --out archive --truth truth.ndjson
//! ```
//!
//! The output depends on the arguments alone. `--truth` gets one line a job: which files it is, members of archives
//! behind a `!`, and the cause that was planted (null where it ends well). The logs themselves come from `generate.rs`.
#![allow(clippy::print_stderr, missing_docs, dead_code)]

#[path = "generate.rs"]
mod generate;

use flate2::{Compression, write::GzEncoder};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: archive [--jobs N] [--size BYTES[K|M|G]] [--seed N] --out DIR [--truth FILE]";

/// Faults of `generate.rs`, and the causes that they are.
const FAULTS: [(&str, Option<&str>); 7] = [
    ("oom", Some("memory/gpu-oom-app")),
    ("none", None),
    ("ib", Some("net/ib-retry-exceeded")),
    ("exception", Some("app/exception")),
    ("none", None),
    ("xid", Some("gpu/xid")),
    ("hang", Some("app/rank-missing")),
];

/// Ways in which a site keeps a job's logs.
const LAYOUTS: u64 = 14;

/// One job of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Truth {
    /// Files below the archive's folder, members of archives behind a `!`; sorted.
    pub(crate) files: Vec<String>,
    /// The planted cause.
    pub(crate) cause: Option<&'static str>,
}

/// What to make.
pub(crate) struct Wanted {
    pub(crate) jobs: u64,
    /// Bytes of all logs together, unpacked.
    pub(crate) size: u64,
    pub(crate) seed: u64,
    pub(crate) out: PathBuf,
}

/// Files of one job that lie in a folder for now: name and path.
type Files = Vec<(String, PathBuf)>;

struct Maker {
    wanted: Wanted,
    truth: Vec<Truth>,
    /// Jobs that wait to be packed together: folder in the archive, files, cause.
    batch: Vec<(String, Files, Option<&'static str>)>,
    work: PathBuf,
}

/// Makes the archive and tells what is in it.
pub(crate) fn make(wanted: Wanted) -> io::Result<Vec<Truth>> {
    let mut work = wanted.out.clone().into_os_string();
    work.push(".making");
    let work = PathBuf::from(work);
    fs::create_dir_all(&wanted.out)?;
    // What an earlier run that was ended left there would be packed along.
    match fs::remove_dir_all(&work) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let jobs = wanted.jobs;
    let mut maker = Maker { wanted, truth: Vec::new(), batch: Vec::new(), work };
    for n in 0..jobs {
        maker.job(n)?;
    }
    maker.pack_batch(jobs)?;
    fs::remove_dir_all(&maker.work)?;
    maker.truth.iter_mut().for_each(|t| t.files.sort());
    Ok(maker.truth)
}

impl Maker {
    fn job(&mut self, n: u64) -> io::Result<()> {
        // In time each layout with each fault.
        let layout = n % LAYOUTS;
        let (fault, cause) = FAULTS[((n + n / LAYOUTS) % FAULTS.len() as u64) as usize];
        let id = 40_000 + 7 * n + self.wanted.seed % 7;
        let month = format!("2026-{:02}", 1 + n % 6);
        let split = matches!(layout, 1 | 2 | 3 | 5 | 6 | 7 | 8 | 11 | 12);
        let folder = self.work.join(n.to_string());
        fs::create_dir_all(&folder)?;
        let ranks = [4, 8, 16][(n % 3) as usize];
        let out = if split { folder.clone() } else { folder.join("all.log") };
        let (seed, bytes) = (self.wanted.seed * 1_000_003 + n, self.wanted.size / self.wanted.jobs.max(1));
        let words = format!(
            "--ranks {ranks} --nodes 2 --bytes {bytes} --fault {fault} --seed {seed} {} {}",
            // Lines of steps come by chance there: whose are missing would be a guess.
            if n.is_multiple_of(4) && fault != "hang" { "--sparse" } else { "--dense" },
            if split { "--split-by-rank" } else { "--out" },
        );
        let out = out.display().to_string();
        match generate::make(words.split(' ').map(String::from).chain([out])) {
            Ok(_) => {}
            Err(generate::Wrong::Usage(what)) => return Err(io::Error::other(what)),
            Err(generate::Wrong::Write(error)) => return Err(error),
        }
        let mut files: Files = Vec::new();
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            files.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
        files.sort();
        let kept = match layout {
            0 => self.copy(&files, |_| format!("{month}/slurm-{id}.out"), false)?,
            1 => self.copy(&files, |f| format!("{month}/job-{id}/{f}"), false)?,
            2 => self.copy(
                &files,
                |f| match rank_of(f) {
                    Some(rank) => format!("elastic/run{id}_{}/attempt_0/{rank}/stderr.log", drawn(n)),
                    None => format!("elastic/run{id}_{}/{f}", drawn(n)),
                },
                false,
            )?,
            3 => self.copy(
                &files,
                |f| match rank_of(f) {
                    Some(rank) => format!("pods/{}-worker-{rank}.log", word(n)),
                    None => format!("pods/{}-{f}", word(n)),
                },
                false,
            )?,
            4 => self.copy(&files, |_| format!("{month}/llm_{id}.out.gz"), true)?,
            5 => self.copy(
                &files,
                |f| match rank_of(f) {
                    Some(rank) => format!("runs/run-{n}/node{:02}/rank{rank}.log.gz", rank / (ranks / 2)),
                    None => format!("runs/run-{n}/{f}.gz"),
                },
                true,
            )?,
            6 => {
                let name = format!("packed/job-{id}.tar.gz");
                self.pack(&name, &[(String::new(), &files)])?;
                files.iter().map(|f| format!("{name}!{}", f.0)).collect()
            }
            7 | 8 => {
                // Packed together with others, plainly or as archives in an archive.
                self.batch.push((format!("job-{id}"), files, cause));
                if self.batch.len() == 4 {
                    self.pack_batch(n)?;
                }
                return Ok(());
            }
            9 => self.pair(&files[0].1, &month, id)?,
            10 => self.rotated(&files[0].1, id)?,
            11 => {
                let damaged = self.damaged(&files[0].1, &format!("damaged/{id}/rank_{ranks}.log.gz"))?;
                let mut kept = self.copy(&files, |f| format!("damaged/{id}/{f}"), false)?;
                kept.push(damaged);
                kept
            }
            12 => self.copy(
                &files,
                |f| match rank_of(f) {
                    Some(rank) => format!("hosts/node{:02}/job-{id}/{rank}.log", rank / (ranks / 2)),
                    None => format!("hosts/node00/job-{id}/{f}"),
                },
                false,
            )?,
            _ => self.copy(&files, |_| format!("plain/{}/train.log", word(n)), false)?,
        };
        self.truth.push(Truth { files: kept, cause });
        fs::remove_dir_all(folder)
    }

    fn path(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.wanted.out.join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        Ok(path)
    }

    fn copy(&self, files: &Files, name: impl Fn(&str) -> String, packed: bool) -> io::Result<Vec<String>> {
        files
            .iter()
            .map(|(file, from)| {
                let name = name(file);
                let to = self.path(&name)?;
                if packed {
                    fs::write(to, gzip(&fs::read(from)?)?)?;
                } else {
                    // Both lie in one folder, so nothing is written twice.
                    fs::rename(from, to)?;
                }
                Ok(name)
            })
            .collect()
    }

    /// Standard output and standard error apart.
    fn pair(&self, from: &Path, month: &str, id: u64) -> io::Result<Vec<String>> {
        let text = fs::read_to_string(from)?;
        let (mut out, mut err) = (String::new(), String::new());
        for line in text.split_inclusive('\n') {
            if line.contains("NCCL INFO") || line.contains("loss") {
                out.push_str(line)
            } else {
                err.push_str(line)
            }
        }
        let names = vec![format!("{month}/train-{id}.out"), format!("{month}/train-{id}.err")];
        fs::write(self.path(&names[0])?, out)?;
        fs::write(self.path(&names[1])?, err)?;
        Ok(names)
    }

    /// One log in three parts, the oldest packed.
    fn rotated(&self, from: &Path, id: u64) -> io::Result<Vec<String>> {
        let text = fs::read(from)?;
        let cut = |at: usize| text[..at].iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1);
        let (a, b) = (cut(text.len() / 3), cut(text.len() * 2 / 3));
        let names: Vec<String> = ["log.2.gz", "log.1", "log"].map(|e| format!("rotated/job{id}.{e}")).into();
        fs::write(self.path(&names[0])?, gzip(&text[..a])?)?;
        fs::write(self.path(&names[1])?, &text[a..b])?;
        fs::write(self.path(&names[2])?, &text[b..])?;
        Ok(names)
    }

    /// A packed file that ends too early.
    fn damaged(&self, from: &Path, name: &str) -> io::Result<String> {
        let mut packed = gzip(&fs::read(from)?)?;
        packed.truncate(packed.len() / 2);
        fs::write(self.path(name)?, packed)?;
        Ok(name.to_string())
    }

    fn pack(&self, name: &str, jobs: &[(String, &Files)]) -> io::Result<()> {
        let out = GzEncoder::new(File::create(self.path(name)?)?, Compression::fast());
        tar_of(out, jobs)?.finish()?.flush()
    }

    /// Jobs in one archive; every second time each in an archive of its own within it.
    fn pack_batch(&mut self, n: u64) -> io::Result<()> {
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return Ok(());
        }
        let nested = !n.is_multiple_of(2);
        let name = format!("packed/batch-{}.tar{}", word(n), if nested { "" } else { ".gz" });
        if nested {
            let mut inner: Files = Vec::new();
            for (folder, files, _) in &batch {
                let path = self.work.join(format!("{folder}.tar.gz"));
                let out = GzEncoder::new(File::create(&path)?, Compression::fast());
                tar_of(out, &[(folder.clone(), files)])?.finish()?.flush()?;
                inner.push((format!("{folder}.tar.gz"), path));
            }
            tar_of(File::create(self.path(&name)?)?, &[(String::new(), &inner)])?.flush()?;
        } else {
            let jobs: Vec<(String, &Files)> = batch.iter().map(|b| (b.0.clone(), &b.1)).collect();
            self.pack(&name, &jobs)?;
        }
        for (folder, files, cause) in batch {
            let at =
                if nested { format!("{name}!{folder}.tar.gz!{folder}") } else { format!("{name}!{folder}") };
            self.truth.push(Truth { files: files.iter().map(|f| format!("{at}/{}", f.0)).collect(), cause });
        }
        Ok(())
    }
}

fn tar_of<W: Write>(out: W, jobs: &[(String, &Files)]) -> io::Result<W> {
    let mut tar = tar::Builder::new(out);
    tar.mode(tar::HeaderMode::Deterministic);
    for (folder, files) in jobs {
        for (name, path) in *files {
            let name = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            tar.append_path_with_name(path, name)?;
        }
    }
    tar.into_inner()
}

fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes)?;
    out.finish()
}

fn rank_of(name: &str) -> Option<u64> {
    name.strip_prefix("rank_")?.strip_suffix(".log")?.parse().ok()
}

/// What torchrun draws for the name of a run's folder.
fn drawn(n: u64) -> String {
    let mut n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..8)
        .map(|_| {
            n = n.rotate_left(7).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            char::from(b'a' + (n >> 33) as u8 % 26)
        })
        .collect()
}

/// A name that holds no number.
fn word(n: u64) -> String {
    let parts = ["al", "be", "co", "du", "el", "fa", "gi", "ho", "im", "ju"];
    let digits: Vec<usize> = n.to_string().bytes().map(|b| usize::from(b - b'0')).collect();
    digits.into_iter().map(|d| parts[d]).collect::<String>() + "-model"
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<(Wanted, Option<PathBuf>), String> {
    let mut wanted = Wanted { jobs: 60, size: 12 << 20, seed: 1, out: PathBuf::new() };
    let mut truth = None;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--jobs" => wanted.jobs = value()?.parse().map_err(|_| "--jobs: no number".to_string())?,
            "--size" => wanted.size = bytes(&value()?)?,
            "--seed" => wanted.seed = value()?.parse().map_err(|_| "--seed: no number".to_string())?,
            "--out" => wanted.out = value()?.into(),
            "--truth" => truth = Some(value()?.into()),
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    if wanted.out.as_os_str().is_empty() || wanted.jobs == 0 {
        return Err("give --out, and at least one job".into());
    }
    Ok((wanted, truth))
}

fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(number) => (number, text.chars().last().unwrap_or(' ')),
        None => (text, ' '),
    };
    let shift = match unit {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        _ => 0,
    };
    number.parse::<u64>().map(|n| n << shift).map_err(|_| format!("{text:?} is no size"))
}

fn main() -> ExitCode {
    let (wanted, truth) = match parse(std::env::args().skip(1)) {
        Ok(all) => all,
        Err(what) => {
            eprintln!("{what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let result = make(wanted).and_then(|jobs| {
        let lines: String = jobs
            .iter()
            .map(|t| serde_json::json!({ "files": t.files, "cause": t.cause }).to_string() + "\n")
            .collect();
        truth.map_or(Ok(()), |path| fs::write(path, lines))?;
        Ok(jobs.len())
    });
    match result {
        Ok(jobs) => {
            eprintln!("{jobs} jobs");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot write: {error}");
            ExitCode::FAILURE
        }
    }
}
