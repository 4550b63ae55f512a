//! What an index remembers of jobs like the one at hand, as a notice beside
//! the verdict. It never changes what is found.

use super::index::Index;
use super::print;
use super::record::Record;
use super::shard::read_records;
use super::solved::{self, Settings};
use crate::report::{Culprits, Diagnosis, Report};
use std::path::Path;

/// What an index, or a file of records, remembers of jobs like this one.
///
/// # Errors
/// When the file is neither, or cannot be read.
pub fn remember(report: &Report, path: &Path) -> Result<Option<Diagnosis>, String> {
    let records = read_records(path)?;
    // Records do not hold what was set; the reports in an index do.
    let index = Index::read_only(path).ok();
    let settings = |of: &Record| -> Settings {
        let entries = index.as_ref().and_then(|i| i.find(&of.job).ok()).unwrap_or_default();
        let entry = entries.into_iter().find(|e| e.record == *of);
        let json = entry.and_then(|e| serde_json::from_str::<serde_json::Value>(&e.json).ok());
        json.and_then(|mut j| serde_json::from_value(j["job"]["environment"].take()).ok()).unwrap_or_default()
    };
    Ok(notice(report, &records, &settings))
}

/// "Like 14 earlier jobs, last on …", and how often the host to blame was to blame before; nothing where the index
/// knows nothing like it. Jobs whose evidence is this very input are not counted. Of those that failed alike also what
/// came after.
fn notice(report: &Report, records: &[Record], settings: &dyn Fn(&Record) -> Settings) -> Option<Diagnosis> {
    let first = report.diagnoses.first()?;
    let mark = print::of(first, report.job.end.state);
    let source = first.evidence.first().map(|e| (e.source.as_str(), e.line, e.text.as_str()));
    let own = |r: &Record| {
        source.is_some_and(|(s, line, text)| {
            r.evidence_line == Some(line)
                && r.evidence_text.as_deref() == Some(text)
                && r.evidence_source.as_deref().is_some_and(|p| file_name(p) == file_name(s))
        })
    };
    let earlier: Vec<&Record> = records.iter().filter(|r| !own(r)).collect();
    let alike: Vec<&&Record> = earlier.iter().filter(|r| r.fingerprint.as_deref() == Some(&mark)).collect();
    let same_cause: Vec<&&Record> =
        earlier.iter().filter(|r| r.cause.as_deref() == Some(first.cause.as_str())).collect();
    let (list, how) = if alike.is_empty() {
        (&same_cause, "with the same cause, shown by other lines")
    } else {
        (&alike, "that failed alike")
    };
    let newest = list.iter().max_by(|a, b| (a.when(), &a.job).cmp(&(b.when(), &b.job)))?;
    let last = newest.when().map_or(String::new(), |t| format!(", last on {}", t.date()));
    let jobs = |n: usize| if n == 1 { "1 earlier job".to_string() } else { format!("{n} earlier jobs") };
    let mut why = format!("The index has {} {how}{last} ({}).", jobs(list.len()), newest.job);
    for host in &first.culprits.hosts {
        let took =
            earlier.iter().filter(|r| r.hosts.contains(host) || r.culprit_hosts.contains(host)).count();
        let blamed = earlier.iter().filter(|r| r.culprit_hosts.contains(host)).count();
        if took > 0 {
            why.push_str(&format!(" {host} took part in {} and was to blame in {blamed}.", jobs(took)));
        }
    }
    let failed: Vec<&Record> = alike.iter().map(|r| **r).collect();
    why.extend(solved::after(&failed, &earlier, settings));
    Some(Diagnosis {
        known_bugs: Vec::new(),
        cause: first.cause.clone(),
        title: format!("Like {}{last}", jobs(list.len())),
        why,
        confidence: first.confidence,
        severity: "notice",
        culprits: Culprits::default(),
        evidence: first.evidence.iter().take(1).cloned().collect(),
        explains: Vec::new(),
        fixes: Vec::new(),
        mistaken_for: String::new(),
        alternatives: Vec::new(),
        references: Vec::new(),
    })
}

fn file_name(path: &str) -> &str {
    path.rsplit(['/', '!']).next().unwrap_or(path)
}
