//! How a job's output was kept: in one stream or in a file for each rank, with
//! which marks before its lines, and which documents were written beside it.
//! That is a setting of the launcher which no line prints; the input shows it.
//! Where it cannot be told for sure nothing is said.

use crate::catalogue::Speaker;
use crate::job::{Job, SourceRead, Witness, witness};
use std::collections::BTreeSet;

/// So large a part of the lines of a stream has a mark where a launcher marks them.
const MARKED: f64 = 0.3;
/// And no more than this where it does not.
const UNMARKED: f64 = 0.02;

/// How the output of the ranks was kept, in words.
pub(super) fn output(job: &Job) -> Option<String> {
    let texts: Vec<(&SourceRead, Witness)> = job
        .sources
        .iter()
        .filter(|s| s.document.is_none() && (s.lines > 0 || apart(&s.name)))
        .map(|s| (s, witness(&s.name)))
        .collect();
    let own: Vec<&(&SourceRead, Witness)> =
        texts.iter().filter(|(_, w)| w.rank.is_some() || w.local.is_some()).collect();
    let ranks: BTreeSet<_> = own.iter().map(|(_, w)| (&w.host, w.rank, w.local)).collect();
    if ranks.len() > 1 {
        let split = own.iter().all(|(s, _)| apart(&s.name));
        let folders = own.iter().all(|(_, w)| w.attempt.is_some());
        let what = if split { "files of stdout and stderr for each rank" } else { "a file for each rank" };
        let place = if folders { ", in torchrun's attempt folders" } else { "" };
        return Some(format!("{what}{place}"));
    }
    if !own.is_empty() {
        return None;
    }
    let streams: Vec<&SourceRead> = texts.iter().map(|(s, _)| *s).filter(|s| s.lines > 0).collect();
    match streams[..] {
        [one] => Some(format!("one stream for all ranks, {}", mark(one)?)),
        [a, b] if apart(&a.name) && apart(&b.name) && stem(&a.name) == stem(&b.name) => {
            Some("one stream for all ranks, stdout and stderr apart".into())
        }
        _ => None,
    }
}

/// What stands before the lines of a stream. Ranks that torch or NCCL write themselves are no launcher's marks.
fn mark(source: &SourceRead) -> Option<&'static str> {
    let (mut local, mut label, mut name) = (0, 0, 0);
    for speaker in &source.speakers {
        let who = &speaker.who;
        let counted = match who {
            w if w.label.is_some() => &mut label,
            w if w.local.is_some() => &mut local,
            w if w.name.is_some() || w.host.is_some() => &mut name,
            _ => continue,
        };
        *counted += speaker.count;
    }
    let part = |n: u64| n as f64 / source.lines.max(1) as f64;
    let (most, words) = [
        (local, "lines marked with local ranks (`[default0]:`)"),
        (label, "lines marked with numbers of tasks (`0:`)"),
        (name, "lines marked with names of workers or hosts"),
    ]
    .into_iter()
    .max_by_key(|(n, _)| *n)?;
    match part(most) {
        p if p >= MARKED => Some(words),
        _ if part(local + label + name) <= UNMARKED => Some("lines not marked"),
        _ => None,
    }
}

/// Whether several processes write to a stream without anything that keeps their lines apart.
pub(super) fn shared(source: &SourceRead) -> bool {
    let bare = |s: &&Speaker| s.who.process.is_some() && s.who.label.is_none() && s.who.local.is_none();
    source.speakers.iter().filter(bare).take(2).count() > 1
}

/// Whether a file's name says that it is one of the two streams only.
fn apart(path: &str) -> bool {
    let name = file(path);
    ["stdout", "stderr"].iter().any(|s| name.contains(s)) || name.ends_with(".out") || name.ends_with(".err")
}

fn file(path: &str) -> String {
    path.rsplit(['/', '!']).next().unwrap_or(path).to_ascii_lowercase()
}

/// A file's name without what tells the stream.
fn stem(path: &str) -> String {
    let name = file(path).replace("stdout", "").replace("stderr", "");
    name.trim_end_matches(".out").trim_end_matches(".err").to_string()
}
