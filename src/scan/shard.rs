//! Scans in parts, and records of several scans together: which part a job
//! belongs to depends on its name alone, so parts that are scanned apart have
//! the same records as one scan.

use super::index::Index;
use super::record::Record;
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::Hasher;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// One of several parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub number: u64,
    /// How many parts there are.
    pub of: u64,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "two numbers, such as 3/16".to_string();
        let (number, of) = text.split_once('/').ok_or_else(wrong)?;
        let (number, of) = (number.parse().map_err(|_| wrong())?, of.parse().map_err(|_| wrong())?);
        if number == 0 || number > of {
            return Err(format!("the parts of {of} are numbered from 1 to {of}"));
        }
        Ok(Self { number, of })
    }
}

impl Shard {
    /// Whether a job belongs to this part.
    #[must_use]
    pub fn takes(&self, job: &str) -> bool {
        let mut sum = twox_hash::XxHash64::with_seed(0);
        sum.write(job.as_bytes());
        sum.finish() % self.of == self.number - 1
    }
}

/// Records of several scans.
#[derive(Debug, Clone, Default)]
pub struct Merged {
    /// Sorted by job.
    pub records: Vec<Record>,
    /// Jobs that several inputs tell differently; the record that was read from more is kept.
    pub differ: Vec<String>,
}

/// Puts records together: the same record counts once; of two of one job at one path the one that was read from more
/// is kept.
#[must_use]
pub fn merge(lists: Vec<Vec<Record>>) -> Merged {
    let mut all: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    let mut differ = Vec::new();
    for record in lists.into_iter().flatten() {
        let same_job = all.entry(record.job.clone()).or_default();
        match same_job.iter_mut().find(|r| r.path == record.path) {
            Some(known) if *known == record => {}
            Some(known) => {
                differ.push(record.job.clone());
                let size = |r: &Record| (r.bytes_read, r.files, serde_json::to_string(r).unwrap_or_default());
                if size(&record) > size(known) {
                    *known = record;
                }
            }
            None => same_job.push(record),
        }
    }
    differ.sort();
    differ.dedup();
    let mut records: Vec<Record> = all.into_values().flatten().collect();
    records.sort_by(|a, b| (&a.job, &a.path).cmp(&(&b.job, &b.path)));
    Merged { records, differ }
}

/// Records from an index or from NDJSON, told by content; `-` is standard input.
///
/// # Errors
/// When it is neither, with the line that is wrong.
pub fn read_records(path: &Path) -> Result<Vec<Record>, String> {
    let piped = path == Path::new("-");
    let name = if piped { "standard input".into() } else { path.display().to_string() };
    let tell = |e: std::io::Error| format!("{name}: {e}");
    let mut from: Box<dyn Read> =
        if piped { Box::new(std::io::stdin().lock()) } else { Box::new(File::open(path).map_err(tell)?) };
    let mut head = Vec::new();
    (&mut from).take(16).read_to_end(&mut head).map_err(tell)?;
    let database = head.starts_with(b"SQLite format 3");
    if database && !piped {
        return Index::read_only(path)?.records().map_err(|e| format!("{name}: {e}"));
    }
    let mut whole = std::io::Cursor::new(head).chain(from);
    if database {
        let mut copy = tempfile::NamedTempFile::new().map_err(tell)?;
        std::io::copy(&mut whole, &mut copy).map_err(tell)?;
        return Index::read_only(copy.path())?.records().map_err(|e| format!("{name}: {e}"));
    }
    let mut out = Vec::new();
    for (n, line) in BufReader::new(whole).lines().enumerate() {
        let line = line.map_err(tell)?;
        if line.trim().is_empty() {
            continue;
        }
        let record: Record = serde_json::from_str(&line)
            .ok()
            .filter(|r: &Record| !r.job.is_empty() && !r.verdict.is_empty())
            .ok_or_else(|| format!("{name}:{}: no record of a job", n + 1))?;
        out.push(record);
    }
    Ok(out)
}
