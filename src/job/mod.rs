//! The job: what happened, without opinion. Events of all sources are placed
//! on processes, ranks and hosts (`identity`), runs are told apart
//! (`attempts`), ends are collected (`ends`), variables and releases noted
//! (`facts`). Built in that order, then read-only. Rules look only here.

mod attempts;
mod documents;
mod ends;
mod facts;
mod identity;
mod lines;
mod names;
mod ras;
mod silence;
mod source;
mod stacks;
mod steps;
mod times;
pub mod waits;

pub use attempts::Attempt;
pub use documents::DumpForm;
pub(crate) use documents::fault_name;
pub use ends::{Ended, JobEnd, ProcessEnd, State};
pub(crate) use ends::{goes_on, went_on};
pub(crate) use facts::ip_of;
pub use facts::{Release, Setting};
pub use identity::Process;
pub(crate) use identity::same_host;
pub(crate) use names::{Witness, witness};
pub use source::{Budget, Counted, Document, SourceRead, SourceState};
pub use stacks::Stack;
pub(crate) use steps::{last_steps, step_in, steps};
pub(crate) use times::span;

use crate::base::RankSet;
use crate::catalogue::{Catalogue, Entry, Event, Slot};
use crate::knowledge::{FieldType, Knowledge};
use std::collections::BTreeMap;

/// Index into [`Job::events`].
pub type EventId = u32;
/// Index into [`Job::processes`].
pub type ProcessId = u32;

/// An event in its place.
#[derive(Debug, Clone)]
pub struct Placed {
    /// Index into [`Job::sources`].
    pub source: u32,
    /// Index into its events.
    pub event: u32,
    /// Whose words they are, where that is one process.
    pub process: Option<ProcessId>,
    /// The rank it is about.
    pub rank: Option<u32>,
    /// How that is known.
    pub rank_by: Option<&'static str>,
    /// The host it is about.
    pub host: Option<String>,
    /// Which run, from 0.
    pub attempt: u16,
}

/// Everything that is known of one job.
#[derive(Debug, Default)]
pub struct Job {
    /// What was read, sorted by name.
    pub sources: Vec<SourceRead>,
    /// All events, by source and line.
    pub events: Vec<Placed>,
    /// Processes, those with a rank first.
    pub processes: Vec<Process>,
    /// (source, speaker) → process.
    pub(crate) speaker_process: rustc_hash::FxHashMap<(u32, u32), ProcessId>,
    /// Declared world size.
    pub world: Option<u32>,
    /// Ranks that left a line.
    pub heard: RankSet,
    /// Ranks whose log was given, by its name, and is empty.
    pub given: RankSet,
    /// Ranks that stopped speaking long before the others in the same input, with no end that is known.
    pub silent: RankSet,
    /// Runs.
    pub attempts: Vec<Attempt>,
    /// The run that is diagnosed.
    pub current: u16,
    /// How processes ended.
    pub ends: Vec<ProcessEnd>,
    /// How the run ended.
    pub end: JobEnd,
    /// Variables by name.
    pub settings: BTreeMap<String, Vec<Setting>>,
    /// Releases by program.
    pub releases: BTreeMap<String, Vec<Release>>,
    /// Hosts of addresses.
    pub addresses: BTreeMap<String, String>,
    /// Who waits for whom, as far as Flight Recorder dumps and lines show it.
    pub waits: Option<waits::WaitsReport>,
    /// Where processes stood, by stacks that were given.
    pub stacks: Vec<Stack>,
    /// Ranks whose Flight Recorder dump was read.
    pub dumps: RankSet,
    /// In which forms they are, with the ranks of each.
    pub dump_forms: BTreeMap<DumpForm, RankSet>,
    /// Flight Recorder dumps that could not be read, by rank.
    pub unread: BTreeMap<u32, String>,
    /// Ranks of which lines tell how far they have come, where nobody is seen to wait.
    pub handed: RankSet,
    /// Events in which a rank tells of its waits.
    pub wait_lines: BTreeMap<u32, Vec<EventId>>,
    /// Where sources disagree.
    pub contradictions: Vec<String>,
}

impl Job {
    /// Puts the sources together.
    #[must_use]
    pub fn build(
        catalogue: &Catalogue,
        knowledge: &Knowledge,
        sources: Vec<SourceRead>,
        attempt: Option<usize>,
    ) -> Self {
        let mut job = Self { sources, ..Self::default() };
        names::add_listings(catalogue, &mut job.sources);
        let dumps = documents::add(catalogue, &mut job.sources);
        identity::place(catalogue, &mut job);
        attempts::split(catalogue, &mut job, attempt);
        stacks::collect(catalogue, knowledge, &mut job);
        documents::waits(catalogue, &mut job, dumps, attempt);
        facts::collect(catalogue, knowledge, &mut job);
        ends::collect(catalogue, &mut job);
        silence::find(&mut job);
        silence::contradictions(catalogue, &mut job);
        if let Some(report) = job.waits.as_ref().filter(|_| !job.dumps.is_empty()) {
            let world = documents::world(report);
            job.heard.extend(&job.dumps);
            job.world = job.world.or((world > 0).then_some(world));
        }
        job
    }

    /// The event behind a place.
    #[must_use]
    pub fn event(&self, id: EventId) -> &Event {
        let p = &self.events[id as usize];
        &self.sources[p.source as usize].events[p.event as usize]
    }

    /// Its message.
    #[must_use]
    pub fn entry<'c>(&self, catalogue: &'c Catalogue, id: EventId) -> &'c Entry {
        &catalogue.messages[usize::from(self.event(id).message)]
    }

    /// Events of the run that is diagnosed.
    pub fn current(&self) -> impl Iterator<Item = EventId> + '_ {
        (0..self.events.len() as EventId).filter(|&i| self.events[i as usize].attempt == self.current)
    }

    /// A slot's text.
    #[must_use]
    pub fn slot<'j>(&'j self, catalogue: &'j Catalogue, id: EventId, slot: &str) -> Option<&'j str> {
        slot_of(catalogue, self.event(id), slot)
    }

    /// Where a rank stood, by the stack that was taken last in the order of sources.
    #[must_use]
    pub fn stack_of(&self, rank: u32) -> Option<&Stack> {
        self.stacks.iter().rev().find(|s| s.rank == Some(rank))
    }

    /// The name of an event's source.
    #[must_use]
    pub fn source_name(&self, id: EventId) -> &str {
        &self.sources[self.events[id as usize].source as usize].name
    }
}

/// A slot's text: what the message's file maps, or the field of that name.
pub(crate) fn slot_of<'e>(catalogue: &'e Catalogue, event: &'e Event, slot: &str) -> Option<&'e str> {
    let entry = &catalogue.messages[usize::from(event.message)];
    match entry.slots.get(slot) {
        Some(Slot::Word(word)) => Some(word),
        Some(Slot::Field(id)) => event.field(*id),
        None => event.field(catalogue.field_id(slot)?),
    }
}

/// The text of the first field of a type.
pub(crate) fn field_of_type<'e>(catalogue: &Catalogue, event: &'e Event, kind: FieldType) -> Option<&'e str> {
    let entry = &catalogue.messages[usize::from(event.message)];
    event.fields.iter().find(|f| entry.types.get(&f.0) == Some(&kind)).map(|f| &*f.1)
}
