//! How processes ended and by whose word, and how the run ended. The word of
//! kernel, scheduler and launcher counts before a process's own; a good end
//! that an outer script prints after a crash is none.

use super::{EventId, Job, ProcessId, slot_of};
use crate::catalogue::{Catalogue, built_in};
use crate::knowledge::{Kind, Role};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ended {
    /// Exit status 0.
    Well,
    /// An exception that nothing caught.
    Exception,
    /// A signal.
    Signal(i64),
    /// An exit status.
    Exit(i64),
    /// Ended by its launcher or scheduler: a victim.
    Killed,
    /// Killed for memory.
    Oom,
}

impl Ended {
    /// How it is said in reports: `exit status 1`, `signal 9`, `an exception`.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Well => "exit status 0".into(),
            Self::Exception => "an exception".into(),
            Self::Signal(n) => format!("signal {n}"),
            Self::Exit(n) => format!("exit status {n}"),
            Self::Killed => "ended by its launcher".into(),
            Self::Oom => "killed for memory".into(),
        }
    }
}

/// One end.
#[derive(Debug, Clone)]
pub struct ProcessEnd {
    /// How.
    pub how: Ended,
    /// Whose.
    pub process: Option<ProcessId>,
    /// Its rank.
    pub rank: Option<u32>,
    /// Its host.
    pub host: Option<String>,
    /// Who says so.
    pub event: EventId,
}

/// State of a run at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Its work was done.
    Well,
    /// Something failed.
    Failed,
    /// Scheduler, launcher or a person ended it.
    Killed,
    /// It waited and did not go on.
    Stuck,
    /// It was at work at its last line.
    AtWork,
    /// The input does not show an end.
    #[default]
    NotSeen,
}

impl State {
    /// As the report prints it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Failed => "failed",
            Self::Killed => "killed",
            Self::Stuck => "stuck",
            Self::AtWork => "at work",
            Self::NotSeen => "not seen",
        }
    }
}

/// How the run ended.
#[derive(Debug, Clone, Default)]
pub struct JobEnd {
    /// State.
    pub state: State,
    /// By whose word.
    pub how: String,
    /// Lines that say so.
    pub events: Vec<EventId>,
}

/// Collects the ends of the run that is diagnosed.
pub(super) fn collect(catalogue: &Catalogue, job: &mut Job) {
    let mut ends = Vec::new();
    for id in job.current().collect::<Vec<_>>() {
        let entry = job.entry(catalogue, id);
        if entry.role == Role::Harmless {
            continue;
        }
        let how = match entry.kind {
            Kind::Ends => ended(catalogue, job, id),
            Kind::Killed => Some(Ended::Killed),
            Kind::Exception if entry.id == built_in::EXCEPTION || entry.id == built_in::ERROR_FILE => {
                Some(Ended::Exception)
            }
            _ => None,
        };
        if let Some(how) = how {
            let p = &job.events[id as usize];
            ends.push(ProcessEnd { how, process: p.process, rank: p.rank, host: p.host.clone(), event: id });
        }
    }
    job.ends = ends;
    job.end = run_end(catalogue, job);
}

fn ended(catalogue: &Catalogue, job: &Job, id: EventId) -> Option<Ended> {
    let event = job.event(id);
    let signal = slot_of(catalogue, event, "signal").and_then(signal_number);
    let exit = slot_of(catalogue, event, "exit").and_then(|t| t.trim().parse::<i64>().ok());
    let how = match (signal, exit) {
        (Some(s), _) if s > 0 => Ended::Signal(s),
        (_, Some(0)) => Ended::Well,
        (_, Some(n)) if n < 0 => Ended::Signal(-n),
        (_, Some(n)) if (129..=159).contains(&n) => Ended::Signal(n - 128),
        (_, Some(n)) => Ended::Exit(n),
        _ => return None,
    };
    Some(match how {
        Ended::Signal(15) => Ended::Killed,
        other => other,
    })
}

/// A signal's number, from a number or a name.
#[must_use]
pub(crate) fn signal_number(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(n) = text.parse::<i64>() {
        return Some(n.abs());
    }
    let name = text.trim_start_matches("SIG").to_ascii_uppercase();
    const NAMES: [(&str, i64); 16] = [
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("ILL", 4),
        ("TRAP", 5),
        ("ABRT", 6),
        ("BUS", 7),
        ("FPE", 8),
        ("KILL", 9),
        ("USR1", 10),
        ("SEGV", 11),
        ("USR2", 12),
        ("PIPE", 13),
        ("TERM", 15),
        ("XCPU", 24),
        ("IOT", 6),
    ];
    const WORDS: [(&str, i64); 7] = [
        ("SEGMENTATION", 11),
        ("KILLED", 9),
        ("ABORTED", 6),
        ("BUS ERROR", 7),
        ("TERMINATED", 15),
        ("ILLEGAL", 4),
        ("FLOATING POINT", 8),
    ];
    NAMES.iter().find(|n| n.0 == name).or_else(|| WORDS.iter().find(|w| name.starts_with(w.0))).map(|n| n.1)
}

/// The last place of each sort of word, compared within sources.
fn run_end(catalogue: &Catalogue, job: &Job) -> JobEnd {
    let mut bad: Vec<EventId> = Vec::new();
    let mut cancelled = None;
    let mut good: Vec<EventId> = Vec::new();
    let mut waits = Vec::new();
    let mut steps = Vec::new();
    let mut trouble: Vec<EventId> = Vec::new();
    let mut unknown: Vec<EventId> = Vec::new();
    for id in job.current() {
        let entry = job.entry(catalogue, id);
        match entry.kind {
            _ if entry.role == Role::Harmless => {}
            _ if entry.id == built_in::UNKNOWN => unknown.push(id),
            Kind::Cancelled => cancelled = Some(id),
            Kind::Ends => match ended(catalogue, job, id) {
                Some(Ended::Well) => good.push(id),
                Some(_) => bad.push(id),
                None if matches!(entry.role, Role::First | Role::Victim | Role::Symptom) => bad.push(id),
                None => {}
            },
            Kind::EndsWell => good.push(id),
            Kind::Waits if entry.role != Role::Fact => waits.push(id),
            Kind::Step => steps.push(id),
            Kind::Exception => {
                let claimed = slot_of(catalogue, job.event(id), "claimed").and_then(|m| catalogue.message(m));
                let harmless =
                    claimed.is_some_and(|m| catalogue.messages[usize::from(m)].role == Role::Harmless);
                let ignored = slot_of(catalogue, job.event(id), "handled") == Some("ignored");
                if !harmless && !ignored {
                    trouble.push(id);
                }
            }
            _ if entry.role == Role::First => trouble.push(id),
            _ => {}
        }
    }
    // The kernel's word about a process that nobody knows to be the job's does not undo its good end.
    if !good.is_empty() {
        bad.retain(|b| {
            job.events[*b as usize].rank.is_some() || good.iter().any(|g| same_source(job, *g, *b))
        });
    }
    let end = decide(job, &bad, cancelled, &good, &waits, &steps, &trouble);
    match end.state {
        State::AtWork | State::NotSeen => last_words_look_bad(job, &unknown, &steps).unwrap_or(end),
        _ => end,
    }
}

/// Whether the source's last words behind a line are those of work that is done.
fn ends_kindly(job: &Job, source: u32, line: u64) -> bool {
    let kind = ["omplete", "uccess", "inished", "done", "Done", "exit code 0", "saved"];
    let last = job.sources[source as usize].speakers.iter().flat_map(|s| &s.last);
    last.filter(|l| l.line > line).any(|l| kind.iter().any(|k| l.text.contains(k)))
}

/// Lines that no message knows, that look like trouble and behind which nothing goes on.
fn last_words_look_bad(job: &Job, unknown: &[EventId], steps: &[EventId]) -> Option<JobEnd> {
    let id = *unknown.iter().rev().find(|&&u| {
        let p = &job.events[u as usize];
        let lines = job.sources[p.source as usize].lines;
        let behind = steps.iter().any(|s| same_source(job, *s, u) && bulk_last(job, *s) > job.event(u).line);
        !behind && job.event(u).line + 12 >= lines && !ends_kindly(job, p.source, job.event(u).line)
    })?;
    let how = "its last lines look like trouble that is not known here";
    Some(JobEnd { state: State::Failed, how: how.into(), events: vec![id] })
}

fn decide(
    job: &Job,
    bad: &[EventId],
    cancelled: Option<EventId>,
    good: &[EventId],
    waits: &[EventId],
    steps: &[EventId],
    trouble: &[EventId],
) -> JobEnd {
    let end = |state, how: &str, events: Vec<EventId>| JobEnd { state, how: how.into(), events };
    if let Some(&last) = bad.last() {
        return end(
            State::Failed,
            "a launcher, the scheduler or the kernel says that a process ended badly",
            vec![last],
        );
    }
    if let Some(c) = cancelled {
        let after = good.iter().any(|g| follows(job, c, *g));
        if !after {
            return end(State::Killed, "the scheduler or a person ended it", vec![c]);
        }
    }
    if let Some(&last) = good.last() {
        // A good end counts unless something fatal was said after it in the same source, or a rank of its own
        // died of it: another's good end does not speak for that one.
        let undone = trouble.iter().chain(waits).any(|t| follows(job, last, *t))
            || trouble.iter().any(|t| last_words(job, *t) && !went_on(job, *t, &[steps, good]));
        if !undone {
            return end(State::Well, "the program says that its work is done", vec![last]);
        }
    }
    if !waits.is_empty() {
        return end(State::Stuck, "ranks waited for one another until a time limit", vec![waits[0]]);
    }
    let last_step = steps.iter().copied().reduce(|a, b| later(job, a, b));
    if let Some(step) = last_step.filter(|s| trouble.is_empty() || goes_on(job, *s, trouble)) {
        let after = trouble.iter().any(|t| {
            let beside = !same_source(job, step, *t) || follows(job, step, *t) || last_words(job, *t);
            beside && !went_on(job, *t, &[steps])
        });
        if !after {
            return end(State::AtWork, "its last lines are those of work going on", vec![step]);
        }
    }
    if let Some(&t) = trouble.last() {
        return end(State::Failed, "an error that nothing shows to have been survived", vec![t]);
    }
    end(State::NotSeen, "the input shows no end", Vec::new())
}

fn same_source(job: &Job, a: EventId, b: EventId) -> bool {
    job.events[a as usize].source == job.events[b as usize].source
}

/// Whether a rank's process said next to nothing after an event, in any source.
fn last_words(job: &Job, id: EventId) -> bool {
    let place = &job.events[id as usize];
    let Some(process) = place.process.map(|p| &job.processes[p as usize]) else { return false };
    process.rank.is_some()
        && process.last.iter().all(|(source, _)| *source == place.source)
        && process.last.first().is_some_and(|(_, said)| said.line <= job.event(id).last_line)
}

/// Whether the same process is seen at work, or to its good end, after an event.
pub(crate) fn went_on(job: &Job, id: EventId, signs: &[&[EventId]]) -> bool {
    let process = job.events[id as usize].process;
    // In a stream of several ranks an unmarked line is anybody's.
    let one_rank = job.world.is_none_or(|w| w <= 1) && job.heard.len() <= 1;
    let alone = one_rank && job.sources[job.events[id as usize].source as usize].speakers.len() == 1;
    let rank = job.events[id as usize].rank;
    process.is_some_and(|p| alone || job.processes[p as usize].rank.is_some())
        && signs.iter().copied().flatten().any(|&s| {
            let p = &job.events[s as usize];
            let same = p.process == process || (rank.is_some() && p.rank == rank);
            let event = job.event(s);
            let counted = job.sources[p.source as usize].bulk.get(&(event.message, event.speaker));
            let counted = counted.is_some_and(|c| c.count > 1);
            let after = if counted { goes_on(job, s, &[id]) } else { bulk_last(job, s) > job.event(id).line };
            same && same_source(job, id, s) && after
        })
}

/// Whether `b` comes after the last line of `a` in the same source.
fn follows(job: &Job, a: EventId, b: EventId) -> bool {
    same_source(job, a, b) && job.event(b).line > bulk_last(job, a)
}

/// The last line that an event stands for, counted lines included.
fn bulk_last(job: &Job, id: EventId) -> u64 {
    let p = &job.events[id as usize];
    let source = &job.sources[p.source as usize];
    let event = &source.events[p.event as usize];
    let bulk = source.bulk.get(&(event.message, event.speaker)).map_or(0, |b| b.last.line);
    event.last_line.max(bulk)
}

fn later(job: &Job, a: EventId, b: EventId) -> EventId {
    if same_source(job, a, b) && bulk_last(job, b) < bulk_last(job, a) { a } else { b }
}

/// Whether work went on after the last trouble: two lines of work behind it that are not the same one. A
/// progress bar prints its last state once more when its program dies.
pub(crate) fn goes_on(job: &Job, step: EventId, trouble: &[EventId]) -> bool {
    let p = &job.events[step as usize];
    let event = job.event(step);
    let Some(counted) = job.sources[p.source as usize].bulk.get(&(event.message, event.speaker)) else {
        return false;
    };
    let Some(before) = &counted.before else { return false };
    let last =
        trouble.iter().filter(|t| same_source(job, step, **t)).map(|t| job.event(*t).line).max().unwrap_or(0);
    let digits = |t: &str| t.chars().filter(char::is_ascii_digit).collect::<String>();
    before.line > last && digits(&before.text) != digits(&counted.last.text)
}
