//! Silence is evidence, where it is one: a rank whose log was given and is
//! empty, or that stopped speaking long before the others. A rank whose log
//! was simply not given is not silent. Also: where sources disagree.

use super::names::witness;
use super::{Job, slot_of};
use crate::base::RankSet;
use crate::catalogue::Catalogue;
use crate::knowledge::Kind;

/// A rank is silent when its last word is this much older than the last word of half of the others.
const LATE: i64 = 60_000_000_000;

/// Finds ranks that are silent.
pub(super) fn find(job: &mut Job) {
    for source in &job.sources {
        let dump = job.unread.values().any(|name| *name == source.name);
        if source.lines == 0 && source.document.is_none() && source.problems.is_empty() && !dump {
            job.given.extend(&witness(&source.name).rank.into_iter().collect());
        }
    }
    let mut last: Vec<(u32, crate::base::Stamp)> = job
        .processes
        .iter()
        .filter_map(|p| Some((p.rank?, p.last.iter().rev().find_map(|l| l.1.time)?)))
        .collect();
    if last.len() < 3 {
        return;
    }
    last.sort_by_key(|l| l.1.utc());
    let middle = last[last.len() / 2].1;
    let ended: RankSet = job.ends.iter().filter_map(|e| e.rank).collect();
    for (rank, time) in &last[..last.len() / 2] {
        if let Some((mine, theirs)) = time.comparable(&middle)
            && mine + LATE < theirs
            && !ended.contains(*rank)
        {
            job.silent.insert(*rank);
        }
    }
}

/// Says where sources disagree.
pub(super) fn contradictions(catalogue: &Catalogue, job: &mut Job) {
    let mut said = std::mem::take(&mut job.contradictions);
    let named: RankSet = job
        .ends
        .iter()
        .filter(|e| slot_of(catalogue, job.event(e.event), "rank").is_some())
        .filter(|e| !matches!(e.how, super::Ended::Killed | super::Ended::Exception | super::Ended::Well))
        .filter_map(|e| e.rank)
        .collect();
    let failed: RankSet = job
        .current()
        .filter(|&e| {
            job.entry(catalogue, e).kind == Kind::Exception
                && slot_of(catalogue, job.event(e), "claimed").is_none()
        })
        .filter_map(|e| job.events[e as usize].rank)
        .collect();
    if !named.is_empty() && !failed.is_empty() && !named.meets(&failed) && failed.len() <= 4 {
        said.push(format!(
            "The launcher's report names rank {named}; an exception of its own was raised on rank {failed}."
        ));
    }
    for (what, list) in &job.releases {
        let mut texts: Vec<&str> = list.iter().map(|r| r.text.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        if texts.len() > 1 && (what == "nccl" || what == "torch") {
            said.push(format!("More than one release of {what} is named: {}.", texts.join(", ")));
        }
    }
    let jobs = job_ids(catalogue, job);
    if jobs.len() > job.attempts.len() {
        said.push(format!(
            "The input holds lines of {} jobs ({}), which are read together: give the files of one job alone.",
            jobs.len(),
            jobs.iter().take(6).cloned().collect::<Vec<_>>().join(", ")
        ));
    }
    job.contradictions = said;
}

/// Ids of jobs that the scheduler's own lines name.
fn job_ids(catalogue: &Catalogue, job: &Job) -> std::collections::BTreeSet<String> {
    let id = |text: &str| -> Option<String> {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        (digits.len() >= 2).then_some(digits)
    };
    (0..job.events.len() as super::EventId)
        .filter(|&e| {
            matches!(
                job.entry(catalogue, e).kind,
                Kind::Cancelled | Kind::JobStarts | Kind::Ends | Kind::EndsWell
            )
        })
        .filter_map(|e| id(slot_of(catalogue, job.event(e), "job")?))
        .collect()
}
