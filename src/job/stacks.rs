//! Where processes stood when somebody took their stacks, joined with ranks:
//! by the file's name, or by the process id where it is one rank's only.

use super::names::witness;
use super::source::Document;
use super::{EventId, Job, Placed, ProcessId};
use crate::catalogue::{Catalogue, Event, built_in};
use crate::dump::{Dump, Frame, Process, Thread};
use crate::knowledge::Knowledge;

/// Where one process stood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Its rank, where known.
    pub rank: Option<u32>,
    /// How it is called where the rank is not known.
    pub name: String,
    /// Which program took it.
    pub by: &'static str,
    /// Index into the sources.
    pub source: u32,
    /// The user's own calls of its main thread, innermost first.
    pub frames: Vec<String>,
    /// The event that stands for it.
    pub event: Option<EventId>,
    /// It stands in a collective, or waits for the device.
    pub waits: bool,
}

/// The set of calls of libraries in which a rank waits for others or for its device: functions, or files of which every
/// function does.
const WAITS: &str = "@stack-waits";

fn is_library(frame: &Frame) -> bool {
    let library =
        ["/torch/", "torch/", "/site-packages/", "/dist-packages/", "/lib/python", "<frozen", "threading.py"];
    library.iter().any(|part| frame.file.contains(part))
        || frame.file.ends_with(".c")
        || frame.file.contains(".so")
}

/// Whether the innermost calls, which are the libraries', are in one that waits for others or for the device.
fn stands_in_wait(knowledge: &Knowledge, frames: &[Frame]) -> bool {
    let waits = [WAITS.to_string()];
    frames.iter().take_while(|f| is_library(f) || f.file.is_empty()).any(|f| {
        let file = f.file.rsplit(['/', '\\']).next().unwrap_or("");
        // `c10d::all_reduce`, `cuStreamSynchronize@plt`: the bare name.
        let name =
            f.name.rsplit("::").next().unwrap_or("").split(['@', '(', '<']).next().unwrap_or("").trim();
        knowledge.covers(&waits, name) || knowledge.covers(&waits, file)
    })
}

/// Collects all stacks.
pub(super) fn collect(catalogue: &Catalogue, knowledge: &Knowledge, job: &mut Job) {
    let mut found = Vec::new();
    for (at, source) in job.sources.iter().enumerate() {
        let Some(Document::Other(Dump::Stacks(list))) = &source.document else { continue };
        let named = witness(&source.name);
        for process in list {
            let rank = match (named.rank, list.len()) {
                (Some(rank), 1) => Some(rank),
                _ => rank_of(job, process, named.host.as_deref()),
            };
            let Some(main) = main_thread(process) else { continue };
            let mut frames: Vec<String> =
                main.frames.iter().filter(|f| !is_library(f)).take(6).map(ToString::to_string).collect();
            if frames.is_empty() {
                frames = main.frames.iter().take(3).map(ToString::to_string).collect();
            }
            found.push(Stack {
                rank,
                name: format!("process {}", process.pid),
                by: process.by,
                source: at as u32,
                event: None,
                frames,
                waits: stands_in_wait(knowledge, &main.frames),
            });
        }
    }
    for stack in &mut found {
        stack.event = stack.rank.and_then(|rank| tell(catalogue, job, stack, rank));
    }
    job.stacks = found;
}

/// Makes an event of a stack whose rank is known.
fn tell(catalogue: &Catalogue, job: &mut Job, stack: &Stack, rank: u32) -> Option<EventId> {
    let message = catalogue.message(built_in::STACK)?;
    let field = |name: &str, value: &str| Some((catalogue.field_id(name)?, value.into()));
    let fields = [field("by", stack.by), stack.frames.first().and_then(|f| field("func", f))];
    let process = job.processes.iter().position(|p| p.rank == Some(rank));
    let source = &mut job.sources[stack.source as usize];
    if source.speakers.is_empty() {
        source.speakers.push(super::documents::speaker(Some(rank)));
    }
    let event = source.events.len() as u32;
    source.events.push(Event::of_document(
        message,
        event as usize,
        fields.into_iter().flatten().collect(),
        format!("{} stack: {}", stack.by, stack.frames.join(" < ")),
    ));
    job.events.push(Placed {
        source: stack.source,
        event,
        process: process.map(|p| p as ProcessId),
        rank: Some(rank),
        rank_by: Some("by the stack's process or file"),
        host: process.and_then(|p| job.processes[p].host.clone()),
        attempt: job.current,
    });
    Some(job.events.len() as EventId - 1)
}

fn main_thread(process: &Process) -> Option<&Thread> {
    process.threads.iter().find(|t| t.name == "MainThread").or(process.threads.first())
}

fn rank_of(job: &Job, process: &Process, host: Option<&str>) -> Option<u32> {
    let pid = u32::try_from(process.pid).ok().filter(|p| *p > 0)?;
    let mut found: Vec<ProcessId> = (0..job.processes.len() as ProcessId)
        .filter(|p| job.processes[*p as usize].pid == Some(pid) && job.processes[*p as usize].rank.is_some())
        .collect();
    if let (Some(host), true) = (host, found.len() > 1) {
        found.retain(|p| {
            job.processes[*p as usize].host.as_deref().is_some_and(|h| super::same_host(h, host))
        });
    }
    match found[..] {
        [one] => job.processes[one as usize].rank,
        _ => None,
    }
}
