//! Whole documents beside the logs (Flight Recorder dumps, torchelastic error
//! files) become events like lines do, so that rules and reports need no
//! second way.

use super::source::SourceRead;
use super::waits::{self, Trace, WaitsInput, WaitsReport};
use crate::base::{RankSet, Stamp};
use crate::catalogue::{Catalogue, Event, FieldId, Speaker, Via, built_in};
use crate::dump::{self, Dump, ErrorFile};
use crate::text::Who;

/// Adds the events of all documents; gives what the dumps show together.
pub(super) fn add(catalogue: &Catalogue, sources: &mut [SourceRead]) -> Option<WaitsReport> {
    for source in sources.iter_mut() {
        if let Some(Dump::ErrorFile(file)) = &source.document {
            let event = error_file(catalogue, file);
            source.speakers.push(speaker(None));
            source.events.extend(event);
        }
    }
    let report = recorders(sources)?;
    for fault in &report.faults {
        add_fault(catalogue, sources, fault);
    }
    Some(report)
}

fn speaker(rank: Option<u32>) -> Speaker {
    Speaker { who: Who { rank, ..Who::default() }, count: 1, first: None, last: Vec::new() }
}

/// Reads all dumps together.
fn recorders(sources: &mut [SourceRead]) -> Option<WaitsReport> {
    let mut input = WaitsInput::default();
    for source in sources.iter_mut() {
        if !matches!(source.document, Some(Dump::FlightRecorder(_))) {
            continue;
        }
        let Some(rank) = dump::rank_from_name(&source.name) else {
            source.problems.push("a Flight Recorder dump whose name does not end in a rank: left out".into());
            continue;
        };
        source.speakers.push(speaker(Some(rank)));
        if let Some(Dump::FlightRecorder(recorder)) = source.document.take() {
            input.traces.push(Trace::from_recorder(rank, &source.name, recorder));
        }
    }
    if input.traces.is_empty() {
        return None;
    }
    waits::resolve(&mut input.traces);
    Some(waits::analyse(&input))
}

fn add_fault(catalogue: &Catalogue, sources: &mut [SourceRead], fault: &waits::Fault) {
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
        let of_rank =
            |s: &SourceRead| s.speakers.first().is_some_and(|s| s.who.rank == Some(*rank)) && s.lines == 0;
        let Some(source) = sources.iter_mut().find(|s| of_rank(s)) else { continue };
        source.events.push(Event {
            message,
            form: 0,
            via: Via::Document,
            line: 1,
            sub: source.events.len() as u32,
            speaker: 0,
            dev: None,
            time: None,
            fields: fields.clone(),
            text: text.as_str().into(),
            cut: true,
            count: 1,
            last_line: 1,
        });
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
        message,
        form: 0,
        via: Via::Document,
        line: 1,
        sub: 0,
        speaker: 0,
        dev: None,
        time: file.at.map(|s| Stamp::from_epoch_nanos(s.saturating_mul(1_000_000_000))),
        fields,
        text: file.message.chars().take(2000).collect::<String>().into(),
        cut: true,
        count: 1,
        last_line: 1,
    })
}

/// Ranks whose dumps were read, and all that the dumps know of.
pub(super) fn ranks(sources: &[SourceRead], report: &WaitsReport) -> (RankSet, u32) {
    let read = sources.iter().filter(|s| s.lines == 0).filter_map(|s| s.speakers.first()?.who.rank).collect();
    let world = report.groups.iter().filter_map(|g| g.members.iter().last()).max().map_or(0, |r| r + 1);
    (read, world)
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
