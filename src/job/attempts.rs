//! Runs: what is cut is lives, not lines. A new run begins where a launcher
//! says that it restarts, or where one that has started already starts again
//! after something had ended. Eight ranks' logs behind one another are one run.

use super::names::witness;
use super::{Job, Placed, slot_of};
use crate::base::Stamp;
use crate::catalogue::Catalogue;
use crate::knowledge::Kind;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// So much (in nanoseconds) clocks of one run may differ.
const AT_ONCE: i64 = 30_000_000_000;

/// One run.
#[derive(Debug, Clone, Default)]
pub struct Attempt {
    /// Sources and lines at which it begins and ends, for people.
    pub first: String,
    /// See `first`.
    pub last: String,
}

/// Numbers the runs and sets the one that is diagnosed.
pub(super) fn split(catalogue: &Catalogue, job: &mut Job, wanted: Option<usize>) {
    let mut most = 0u16;
    let mut named = false;
    let mut by_source: Vec<u16> = Vec::new();
    for (s, source) in job.sources.iter().enumerate() {
        let mut state = Life::default();
        let base = witness(&source.name).attempt.unwrap_or(0).min(1000) as u16;
        named |= base > 0;
        let mut n = base;
        let mut begun = None;
        let range = job.events.partition_point(|p| (p.source as usize) < s)
            ..job.events.partition_point(|p| p.source as usize <= s);
        for at in range.clone() {
            let placed = &job.events[at];
            let event = &source.events[placed.event as usize];
            let entry = &catalogue.messages[usize::from(event.message)];
            let again = match entry.kind {
                Kind::Restarts => state.restart(event.line),
                Kind::JobStarts => {
                    let job_id = slot_of(catalogue, event, "job").unwrap_or("");
                    let other = state.other_job(job_id);
                    let seen = state.starts(format!("{}\u{0}{job_id}\u{0}{:?}", entry.id, placed.process));
                    other | (seen && !beside(catalogue, job, at..range.end, &state))
                }
                Kind::Comm if slot_of(catalogue, event, "phase") == Some("start") => {
                    state.process_starts(placed.rank, placed.process, event)
                }
                _ => false,
            };
            if again {
                begun = (entry.kind == Kind::Restarts).then_some(at);
                n = n.saturating_add(1);
                state.reset();
                if entry.kind == Kind::JobStarts {
                    let job_id = slot_of(catalogue, event, "job").unwrap_or("");
                    state.starts(format!("{}\u{0}{job_id}\u{0}{:?}", entry.id, placed.process));
                }
                if entry.kind == Kind::Comm {
                    state.process_starts(placed.rank, placed.process, event);
                }
            }
            state.ended |= entry.ends_a_run();
            state.spoken.extend(own_rank(job, placed));
            state.speaks_at(event.time);
            job.events[at].attempt = n;
        }
        // The word that a run is started again, as the last of a source, belongs to the run that it ended.
        if let Some(at) = begun.filter(|at| *at + 1 == range.end)
            && source.lines <= source.events[job.events[at].event as usize].line + 3
            && n > base
        {
            n -= 1;
            job.events[at].attempt = n;
        }
        most = most.max(n);
        by_source.push(n);
    }
    // A source that tells of one run only, beside one that tells of several, is taken to be of the last.
    if most > 0 && !named {
        for p in &mut job.events {
            if by_source[p.source as usize] == 0 {
                p.attempt = most;
            }
        }
    }
    let last = job.events.iter().map(|p| p.attempt).max().unwrap_or(0);
    job.attempts = (0..=last).map(|n| describe(job, n)).collect();
    job.current = wanted.map_or(last, |w| (w.saturating_sub(1) as u16).min(last));
}

#[derive(Default)]
struct Life {
    ended: bool,
    started: FxHashSet<String>,
    /// Processes by rank.
    ranks: FxHashMap<u32, FxHashSet<u32>>,
    restarted: u64,
    job: Option<String>,
    /// Ranks that spoke in it, and when it spoke last.
    spoken: FxHashSet<u32>,
    latest: Vec<Stamp>,
}

/// The rank of who says an event.
fn own_rank(job: &Job, placed: &Placed) -> Option<u32> {
    job.processes[placed.process? as usize].rank
}

/// Whether a start is not that of a next run but of another part of the same one, whose log was put behind: it began
/// well before the last words so far, or quite other ranks speak after it.
fn beside(catalogue: &Catalogue, job: &Job, start: Range<usize>, state: &Life) -> bool {
    let event = |placed: &Placed| &job.sources[placed.source as usize].events[placed.event as usize];
    let first = &job.events[start.start];
    let earlier = |began: Stamp| {
        let compared = state.latest.iter().find_map(|latest| began.comparable(latest));
        compared.is_some_and(|(began, latest)| began + AT_ONCE < latest)
    };
    if event(first).time.is_some_and(earlier) {
        return true;
    }
    let follow = job.events[start].iter().skip(1).take_while(|p| {
        let kind = catalogue.messages[usize::from(event(p).message)].kind;
        !matches!(kind, Kind::JobStarts | Kind::Restarts)
    });
    let next: FxHashSet<u32> = follow.filter_map(|p| own_rank(job, p)).collect();
    !next.is_empty() && !state.spoken.is_empty() && next.is_disjoint(&state.spoken)
}

impl Life {
    /// A launcher that says it twice, or on every node, says it once.
    fn restart(&mut self, line: u64) -> bool {
        let again = self.restarted == 0 || line > self.restarted + 5;
        self.restarted = line;
        again
    }

    /// The last time of each form: a container's stamp has what torch's own has not, a year and a zone.
    fn speaks_at(&mut self, time: Option<Stamp>) {
        let Some(time) = time else { return };
        match self.latest.iter_mut().find(|l| l.comparable(&time).is_some()) {
            Some(latest) => *latest = time,
            None => self.latest.push(time),
        }
    }

    /// A job id that is not the one that spoke before.
    fn other_job(&mut self, id: &str) -> bool {
        if id.is_empty() {
            return false;
        }
        let other = self.job.as_deref().is_some_and(|j| j != id);
        self.job = Some(id.to_string());
        other
    }

    fn starts(&mut self, who: String) -> bool {
        let seen = !self.started.insert(who);
        seen && self.ended
    }

    /// The same rank in a process of another id, after something had ended.
    fn process_starts(
        &mut self,
        rank: Option<u32>,
        process: Option<u32>,
        event: &crate::catalogue::Event,
    ) -> bool {
        let Some(rank) = rank else { return false };
        let pid = pid_in(&event.text).unwrap_or_else(|| process.unwrap_or(0));
        let pids = self.ranks.entry(rank).or_default();
        pids.insert(pid);
        let other = pids.len() > 1;
        other && self.ended
    }

    fn reset(&mut self) {
        *self = Self { restarted: self.restarted, job: self.job.take(), ..Self::default() };
    }
}

/// The pid in an NCCL header, `host:pid:tid`.
fn pid_in(text: &str) -> Option<u32> {
    let head = &text[..text.find(" NCCL ")?];
    let token = head.split_whitespace().find(|t| t.matches(':').count() >= 2)?;
    token.rsplit(':').nth(1)?.parse().ok()
}

fn describe(job: &Job, n: u16) -> Attempt {
    let mine = || job.events.iter().filter(move |p| p.attempt == n);
    let place = |p: &super::Placed| {
        let source = &job.sources[p.source as usize];
        let event = &source.events[p.event as usize];
        match event.time {
            Some(t) => t.text(),
            None => format!("{}:{}", source.name, event.line),
        }
    };
    Attempt {
        first: mine().next().map(place).unwrap_or_default(),
        last: mine().next_back().map(place).unwrap_or_default(),
    }
}
