//! Fingerprints: a short mark that is the same for jobs that failed alike,
//! whatever their ranks, hosts, sizes and times were.

use crate::report::Diagnosis;
use std::collections::BTreeSet;
use std::hash::Hasher;

/// Characters of a line that count.
const LONGEST: usize = 200;

/// The fingerprint of a diagnosis: its cause, the messages that show it, how the job ended, and the first line that
/// shows it without figures, addresses and names of hosts.
pub(super) fn of(diagnosis: &Diagnosis, end: &str) -> String {
    let mut sum = twox_hash::XxHash64::with_seed(0);
    let messages: BTreeSet<&str> = diagnosis.evidence.iter().take(1).map(|e| e.message.as_str()).collect();
    let line = diagnosis.evidence.first().map(|e| template(&e.text, e.host.as_deref())).unwrap_or_default();
    for part in [diagnosis.cause.as_str(), end, &line].into_iter().chain(messages) {
        sum.write(part.as_bytes());
        sum.write(&[0]);
    }
    format!("{:016x}", sum.finish())
}

/// A line without what differs from job to job: every word with a digit is `#`, and so is the host.
fn template(text: &str, host: Option<&str>) -> String {
    let mut out = String::new();
    let text = match host {
        Some(host) if host.len() > 1 => text.replace(host, "#"),
        _ => text.to_string(),
    };
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '-' | '#');
    for piece in text.split_inclusive(|c| !word(c)) {
        let (body, tail) = match piece.char_indices().last() {
            Some((at, c)) if !word(c) => piece.split_at(at),
            _ => (piece, ""),
        };
        if body.contains(|c: char| c.is_ascii_digit() || c == '#') {
            out.push('#');
        } else {
            out.push_str(body);
        }
        out.push_str(tail);
        if out.len() > LONGEST {
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::template;

    #[test]
    fn what_differs_from_job_to_job_is_left_out() {
        let a = template(
            "[rank5]: gpu-c2:4242:99 [3] NCCL WARN Got completion from 10.0.1.2<45> status=12",
            Some("gpu-c2"),
        );
        let b =
            template("[rank71]: n9:1:2 [0] NCCL WARN Got completion from 10.9.8.7<1> status=12", Some("n9"));
        assert_eq!(a, b);
        assert_ne!(template("KeyError: 'a'", None), template("ValueError: 'a'", None));
    }
}
