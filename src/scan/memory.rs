//! What an index remembers of jobs like the one at hand, as a notice beside
//! the verdict. It never changes what is found.

use super::print;
use super::record::Record;
use crate::report::{Culprits, Diagnosis, Report};

/// "Like 14 earlier jobs, last on …", and how often the host to blame was to blame before; nothing where the index
/// knows nothing like it. Jobs whose evidence is this very input are not counted.
#[must_use]
pub fn notice(report: &Report, records: &[Record]) -> Option<Diagnosis> {
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
