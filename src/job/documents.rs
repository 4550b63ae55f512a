//! Whole documents beside the logs (Flight Recorder dumps, torchelastic error
//! files) become events like lines do, so that rules and reports need no
//! second way.

use super::names::witness;
use super::source::{Document, SourceRead};
use super::waits::{self, Trace, WaitsInput, WaitsReport};
use super::{Job, Placed, lines, ras};
use crate::base::Stamp;
use crate::catalogue::{Catalogue, Event, FieldId, Speaker, built_in};
use crate::dump::{Dump, ErrorFile};
use crate::text::Who;

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
pub(super) fn waits(catalogue: &Catalogue, job: &mut Job, mut dumps: Vec<Trace>) {
    // Dumps of other runs stand in folders of their own.
    let run = |t: &Trace| witness(&t.source).attempt;
    if dumps.iter().any(|t| run(t) == Some(u32::from(job.current))) {
        dumps.retain(|t| run(t).is_none_or(|n| n == u32::from(job.current)));
    }
    let lines = lines::read(catalogue, job);
    job.wait_lines = lines.events();
    job.dumps = dumps.iter().map(|t| t.rank).collect();
    let world = job.world.filter(|w| *w > 0 && *w <= 1 << 20);
    let said = lines.traces(job, &dumps, world);
    let mut input = WaitsInput { traces: dumps, ..WaitsInput::default() };
    input.traces.extend(said.into_iter().filter(|t| !job.dumps.contains(t.rank)));
    if input.traces.is_empty() {
        return;
    }
    if let (Some(world), true) = (world, job.dumps.is_empty()) {
        input.absent.insert_range(0, world - 1);
    }
    let report = waits::analyse(&input);
    for fault in report.faults.iter().filter(|f| !f.lines) {
        add_fault(catalogue, job, fault);
    }
    job.waits = Some(report);
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
    for (rank, text) in fault.evidence.iter().take(4) {
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
