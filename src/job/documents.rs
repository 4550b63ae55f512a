//! Whole documents beside the logs (Flight Recorder dumps, torchelastic error
//! files) become events like lines do, so that rules and reports need no
//! second way.

use super::names::witness;
use super::source::{Document, SourceRead};
use super::waits::{self, Trace, WaitsInput, WaitsReport};
use super::{Job, Placed, lines, ras};
use crate::base::{RankSet, Stamp};
use crate::catalogue::{Catalogue, Event, FieldId, Speaker, built_in};
use crate::dump::{Dump, ErrorFile, rank_from_name};
use crate::text::Who;
use std::collections::{BTreeMap, BTreeSet};

/// How a Flight Recorder dump was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DumpForm {
    /// Version of the form; empty where it names none.
    pub version: String,
    /// Release of the communication library that it names.
    pub library: Option<String>,
    /// Whether it is JSON and not a pickle.
    pub json: bool,
}

/// Adds the events of error files; gives what each dump shows.
pub(super) fn add(catalogue: &Catalogue, sources: &mut [SourceRead]) -> Vec<Trace> {
    for source in sources.iter_mut() {
        if let Some(Document::Other(Dump::ErrorFile(file))) = &source.document {
            let event = error_file(catalogue, file);
            source.speakers.push(speaker(None));
            source.events.extend(event);
        }
    }
    for source in sources.iter_mut() {
        if let Some(Document::Other(Dump::Ras(ras))) = &source.document {
            let ras = ras.clone();
            ras::add(catalogue, source, &ras);
        }
    }
    recorders(sources)
}

pub(super) fn speaker(rank: Option<u32>) -> Speaker {
    Speaker { who: Who { rank, ..Who::default() }, count: 1, first: None, last: Vec::new() }
}

fn recorders(sources: &mut [SourceRead]) -> Vec<Trace> {
    let mut traces = Vec::new();
    for source in sources.iter_mut() {
        match source.document.take() {
            Some(Document::Trace(trace)) => {
                source.speakers.push(speaker(Some(trace.rank)));
                traces.push(*trace);
                source.document = None;
            }
            Some(Document::Nobodys) => {
                source
                    .problems
                    .push("a Flight Recorder dump whose name does not end in a rank: left out".into());
                source.document = Some(Document::Nobodys);
            }
            other => source.document = other,
        }
    }
    waits::resolve(&mut traces);
    traces
}

/// Follows the waits that dumps and lines show together; what dumps show becomes events.
pub(super) fn waits(catalogue: &Catalogue, job: &mut Job, dumps: Vec<Trace>, wanted: Option<usize>) {
    let (mut dumps, mut left_out) = of_this_run(job, dumps, wanted);
    for (at, text) in waits::misfits(&dumps).into_iter().rev() {
        dumps.remove(at);
        left_out.push(text);
    }
    let lines = lines::read(catalogue, job);
    job.wait_lines = lines.events();
    job.dumps = dumps.iter().map(|t| t.rank).collect();
    for t in &dumps {
        let form = DumpForm { version: t.version.clone(), library: t.library.clone(), json: t.json };
        job.dump_forms.entry(form).or_default().insert(t.rank);
    }
    let world = job.world.filter(|w| *w > 0 && *w <= 1 << 20);
    let hangs = lines.hangs;
    let said = lines.traces(job, &dumps, world);
    let mut input = WaitsInput { traces: dumps, ..WaitsInput::default() };
    if !input.traces.is_empty() {
        job.unread = unread(&job.sources, &input.traces);
        input.unread.clone_from(&job.unread);
        input.against = waits::against(&input.traces, &said);
    }
    input.traces.extend(said.into_iter().filter(|t| !job.dumps.contains(t.rank)));
    if let (Some(world), true) = (world, job.dumps.is_empty()) {
        input.absent.insert_range(0, world - 1);
    }
    input.timed = hangs;
    if input.traces.is_empty() {
        handed(catalogue, job, input.absent);
        return;
    }
    let mut report = waits::analyse(&input);
    for fault in report.faults.iter().filter(|f| !f.lines) {
        add_fault(catalogue, job, fault);
    }
    report.problems.splice(0..0, left_out.clone());
    job.contradictions = left_out;
    job.contradictions.extend(report.contradictions.iter().cloned());
    job.waits = Some(report);
}

/// Dumps of the run that is looked at: those of other runs stand in folders of their own. Where nothing else tells of
/// runs, it is the last one.
fn of_this_run(job: &Job, mut dumps: Vec<Trace>, wanted: Option<usize>) -> (Vec<Trace>, Vec<String>) {
    let run = |t: &Trace| witness(&t.source).attempt;
    let mut runs: Vec<u32> = dumps.iter().filter_map(run).collect();
    runs.sort_unstable();
    runs.dedup();
    let current = u32::from(job.current);
    let told = job.attempts.len() > 1
        || job.sources.iter().any(|s| s.lines > 0 && witness(&s.name).attempt.is_some());
    let asked = wanted.and_then(|w| u32::try_from(w.saturating_sub(1)).ok()).filter(|w| runs.contains(w));
    let kept = match (runs.last(), asked) {
        (Some(_), Some(asked)) if !told => asked,
        (Some(last), None) if !told => *last,
        _ if runs.contains(&current) => current,
        _ => return (dumps, Vec::new()),
    };
    let before = dumps.len();
    dumps.retain(|t| run(t).is_none_or(|n| n == kept));
    let others: Vec<String> = runs.iter().filter(|r| **r != kept).map(u32::to_string).collect();
    let left = before - dumps.len();
    let said = (left > 0 && !told).then(|| {
        let (s, is) = if left == 1 { ("", "is") } else { ("s", "are") };
        format!(
            "By their folders the dumps are of several attempts: attempt {kept} is read, {left} dump{s} of attempt {} {is} left out.",
            others.join(", ")
        )
    });
    (dumps, said.into_iter().collect())
}

/// Ranks whose dump was given, by its name, and could not be read.
fn unread(sources: &[SourceRead], dumps: &[Trace]) -> BTreeMap<u32, String> {
    let stem = |name: &str| {
        let file = name.rsplit(['/', '\\']).next().unwrap_or(name).to_string();
        file.trim_end_matches(|c: char| c.is_ascii_digit()).to_string()
    };
    let stems: BTreeSet<String> = dumps.iter().map(|t| stem(&t.source)).collect();
    let read: BTreeSet<u32> = dumps.iter().map(|t| t.rank).collect();
    sources
        .iter()
        .filter(|s| s.lines == 0 && s.document.is_none() && stems.contains(&stem(&s.name)))
        .filter_map(|s| Some((rank_from_name(&s.name)?, s.name.clone())))
        .filter(|s| !read.contains(&s.0))
        .collect()
}

/// Where nobody is seen to wait: how far the ranks have come, without any conclusion.
fn handed(catalogue: &Catalogue, job: &mut Job, absent: RankSet) {
    let lines = lines::handed(catalogue, job);
    let events = lines.events();
    let world = job.world.filter(|w| *w > 0 && *w <= 1 << 20);
    let traces = lines.traces(job, &[], world);
    if traces.is_empty() {
        return;
    }
    let input = WaitsInput { traces, absent, ..WaitsInput::default() };
    job.handed = events.into_keys().collect();
    job.waits = Some(WaitsReport { groups: waits::analyse(&input).groups, ..WaitsReport::default() });
}

fn add_fault(catalogue: &Catalogue, job: &mut Job, fault: &waits::Fault) {
    let Some(message) = catalogue.message(built_in::DUMP) else { return };
    let field = |name: &str, value: String| -> Option<(FieldId, Box<str>)> {
        (!value.is_empty()).then(|| catalogue.field_id(name).map(|id| (id, value.into())))?
    };
    let fields: Vec<(FieldId, Box<str>)> = [
        field("fault", fault_name(&fault.kind).to_string()),
        field("ranks", fault.ranks.to_string()),
        field("group", fault.group.clone()),
        field("op", fault.op.clone()),
        field("seq", fault.seq.map(|s| s.to_string()).unwrap_or_default()),
        field("detail", fault.detail.clone()),
        field("waiting", fault.waiting.to_string()),
    ]
    .into_iter()
    .flatten()
    .collect();
    for (rank, text) in &fault.evidence {
        // What was seen names its file first.
        let of_rank = |s: &SourceRead| {
            s.lines == 0
                && s.speakers.first().is_some_and(|s| s.who.rank == Some(*rank))
                && text.strip_prefix(s.name.as_str()).is_some_and(|t| t.starts_with(": "))
        };
        let Some(at) = job.sources.iter().position(of_rank) else { continue };
        let process = job.speaker_process.get(&(at as u32, 0)).copied();
        let source = &mut job.sources[at];
        job.events.push(Placed {
            source: at as u32,
            event: source.events.len() as u32,
            process,
            rank: Some(*rank),
            rank_by: Some("by the file's name"),
            host: process.and_then(|p| job.processes[p as usize].host.clone()),
            attempt: job.current,
        });
        source.events.push(Event::of_document(message, source.events.len(), fields.clone(), text.as_str()));
    }
}

/// The error file that torchelastic's `@record` writes.
fn error_file(catalogue: &Catalogue, file: &ErrorFile) -> Option<Event> {
    let message = catalogue.message(built_in::ERROR_FILE)?;
    let (kind, text) = file.message.split_once(": ").unwrap_or((file.message.as_str(), ""));
    let mut fields: Vec<(FieldId, Box<str>)> = Vec::new();
    let mut add = |name: &str, value: &str| {
        if let (Some(id), false) = (catalogue.field_id(name), value.is_empty()) {
            fields.push((id, value.chars().take(400).collect::<String>().into()));
        }
    };
    add("type", kind);
    add("text", text);
    let claimed = catalogue.find(crate::catalogue::Asked::Exception, file.message.as_bytes(), true);
    if let Some(found) = claimed.first() {
        add("claimed", &catalogue.messages[usize::from(found.message)].id);
    }
    Some(Event {
        time: file.at.map(|s| Stamp::from_epoch_nanos(s.saturating_mul(1_000_000_000))),
        ..Event::of_document(message, 0, fields, file.message.chars().take(2000).collect::<String>())
    })
}

/// How many ranks the dumps know of.
pub(super) fn world(report: &WaitsReport) -> u32 {
    report.groups.iter().filter_map(|g| g.members.iter().last()).max().map_or(0, |r| r + 1)
}

/// The word by which rules and reports speak of a kind of fault.
pub(crate) fn fault_name(kind: &waits::FaultKind) -> &'static str {
    match kind {
        waits::FaultKind::Missing => "missing",
        waits::FaultKind::NoDump => "no-dump",
        waits::FaultKind::Mismatch { .. } => "mismatch",
        waits::FaultKind::Order => "order",
        waits::FaultKind::P2p => "p2p",
        waits::FaultKind::StuckAll => "stuck",
        waits::FaultKind::Late => "late",
    }
}
