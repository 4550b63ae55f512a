//! What the names of files and folders say: rank, host, attempt; weaker than
//! any line. And listings beside a log whose meaning only their name tells.

use super::source::SourceRead;
use crate::catalogue::{Catalogue, Event, Via, built_in};

/// What a path says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Witness {
    pub(crate) rank: Option<u32>,
    pub(crate) local: Option<u32>,
    pub(crate) attempt: Option<u32>,
    pub(crate) host: Option<String>,
}

/// Reads a path.
pub(crate) fn witness(path: &str) -> Witness {
    let mut w = Witness::default();
    let parts: Vec<&str> = path.split(['/', '!']).collect();
    for (i, part) in parts.iter().enumerate() {
        let lower = part.to_ascii_lowercase();
        if let Some(n) = lower.strip_prefix("attempt_").and_then(|n| n.parse().ok()) {
            w.attempt = Some(n);
            // torchelastic: attempt_N/<local rank>/stderr.log
            w.local = parts.get(i + 1).filter(|_| i + 2 < parts.len()).and_then(|p| p.parse().ok());
            continue;
        }
        let named = i + 1 == parts.len() || ranks_own(&lower);
        if named && (w.local.is_none() || w.rank.is_none()) {
            w.rank = after(&lower, "globalrank").or_else(|| after(&lower, "rank")).or(w.rank);
        }
        if i + 1 == parts.len() {
            w.host = host(part).or(w.host);
        }
    }
    w
}

/// Whether a folder is named for one rank and for nothing else: `rank_3`, `globalrank7`.
fn ranks_own(folder: &str) -> bool {
    let rest = folder.strip_prefix("global").unwrap_or(folder).strip_prefix("rank");
    let digits = rest.map(|r| r.trim_start_matches(['_', '-', '.', '=']));
    digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
}

/// The number behind a word, with at most one separator between.
fn after(text: &str, word: &str) -> Option<u32> {
    let mut from = 0;
    while let Some(at) = text[from..].find(word) {
        let start = from + at;
        let before_ok =
            start == 0 || !text.as_bytes()[start - 1].is_ascii_alphabetic() || word == "globalrank";
        let rest = text[start + word.len()..].trim_start_matches(['_', '-', '.', '=']);
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if before_ok && (1..=6).contains(&digits) {
            return rest[..digits].parse().ok();
        }
        from = start + word.len();
    }
    None
}

/// A host in a file's name: `node07.log`, `worker-3.out`, `slurm-12-gpu-a3-0.out` is too free a form.
fn host(file: &str) -> Option<String> {
    let stem = file.split('.').next()?;
    let named = ["node", "worker", "host", "gpu", "dgx", "compute"];
    let lower = stem.to_ascii_lowercase();
    let digits = stem.chars().rev().take_while(char::is_ascii_digit).count();
    (digits > 0
        && named.iter().any(|n| lower.starts_with(n))
        && stem.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
    .then(|| stem.to_string())
}

/// Files whose name tells what their one number is.
pub(super) fn add_listings(catalogue: &Catalogue, sources: &mut [SourceRead]) {
    let (Some(message), Some(kb)) = (catalogue.message(built_in::MEMLOCK), catalogue.field_id("kb")) else {
        return;
    };
    for source in sources {
        let name = source.name.rsplit(['/', '!']).next().unwrap_or("").to_ascii_lowercase();
        if !(name.contains("ulimit") || name.contains("memlock")) || source.lines > 2 {
            continue;
        }
        let Some(first) = source.speakers.first().and_then(|s| s.first.clone()) else { continue };
        let text = first.text.trim();
        if text != "unlimited" && text.parse::<u64>().is_err() {
            continue;
        }
        source.events.push(Event {
            message,
            form: 0,
            via: Via::Line,
            line: first.line,
            sub: 0,
            speaker: 0,
            dev: None,
            time: None,
            fields: vec![(kb, text.into())],
            text: first.text.clone(),
            cut: false,
            count: 1,
            last_line: first.line,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Witness, witness};

    #[test]
    fn paths_are_witnesses() {
        assert_eq!(witness("logs/rank_3.log").rank, Some(3));
        assert_eq!(witness("logs/rank12/stderr").rank, Some(12));
        let w = witness("logs/none_x/attempt_0/3/stderr.log");
        assert_eq!((w.attempt, w.local, w.rank), (Some(0), Some(3), None));
        assert_eq!(witness("nemo_log_globalrank-3_localrank-1.txt").rank, Some(3));
        assert_eq!(witness("node07.log").host.as_deref(), Some("node07"));
        assert_eq!(witness("franking3.log"), Witness::default());
        // A folder that tells of a rank is not that rank's.
        assert_eq!(witness("runs/oom-rank5-of-16/log.txt"), Witness::default());
        assert_eq!(witness("rank3-hangs/log.txt"), Witness::default());
        assert_eq!(witness("log.txt"), Witness::default());
    }
}
