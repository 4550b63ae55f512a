//! From a job's log to what its account is made of: a second look at each
//! block for the lines that tell of memory, and the job's own knowledge of
//! who is who, which release runs and what is set.

use super::{Engine, Options, pipeline};
use crate::base::Result;
use crate::catalogue::Via;
use crate::input::Given;
use crate::job::{Job, ProcessId};
use crate::knowledge::{FieldType, Role};
use crate::memory::{self, Account, Allocator, Elsewhere, Held, MIB, ProcessSeen, RefusedSeen, Tally};
use crate::text::{Level, Opened, Piece, Scanner, Scratch, ShapeFacts, Who};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// What each speaker of a source said about memory.
pub(super) type Tallies = FxHashMap<Who, Tally>;

/// Adds up what one piece of a source says about memory.
pub(super) fn tally(
    scanner: &Scanner,
    piece: &Piece<'_>,
    facts: &ShapeFacts,
    scratch: &mut Scratch,
) -> Tallies {
    let opening = |text: &[u8]| {
        memory::parse(text).map(|_| Opened { message: 0, bulk: false, by_comm: false, which: 0 })
    };
    let (view, scanned) = scanner.scan(piece, facts, &opening, scratch);
    let mut out = Tallies::default();
    for hit in &scanned.hits {
        let Some((Level::Info, _, body)) = hit.nccl else { continue };
        let end = view.line(hit.line as usize).end;
        let text = &view.bytes[body.min(end) as usize..end as usize];
        if let (Some(line), Some(spoke)) = (memory::parse(text), scanned.speakers.get(hit.speaker as usize)) {
            out.entry(spoke.who.clone()).or_default().add(&line);
        }
    }
    scratch.reuse(view);
    out
}

/// Puts together what two parts of a source gave.
pub(super) fn merge(all: &mut Tallies, more: Tallies) {
    for (who, tally) in more {
        all.entry(who).or_default().merge(&tally);
    }
}

impl Engine {
    /// What the processes of one job hold of GPU and host memory for NCCL.
    ///
    /// # Errors
    /// As [`Engine::diagnose`].
    pub fn memory(&self, given: &[Given], options: &Options) -> Result<Account> {
        let read = pipeline::read(self, given, options, true);
        let (sources, tallies, problems) = (read.sources, read.tallies, read.problems);
        super::something_was_read(&sources, &problems, given)?;
        let job = self.job(sources, options)?;
        let input = memory::Input {
            processes: self.processes(&job, &tallies),
            refused: self.refused(&job),
            gave_up: self.gave_up(&job),
            held: self.held(&job),
            elsewhere: self.elsewhere(&job),
            pids: job.processes.iter().filter_map(|p| Some((p.host.clone(), p.pid?, p.rank?))).collect(),
            arch: String::new(),
            derived: job.releases.contains_key("rccl"),
        };
        Ok(memory::account(&self.knowledge.tables, input))
    }

    /// Those of the run at hand, each with what it said.
    fn processes(&self, job: &Job, tallies: &[Tallies]) -> Vec<ProcessSeen> {
        let mut of_run: BTreeMap<(u32, u32), bool> = BTreeMap::new();
        for (id, placed) in job.events.iter().enumerate() {
            let speaker = job.event(id as u32).speaker;
            *of_run.entry((placed.source, speaker)).or_default() |= placed.attempt == job.current;
        }
        let mut all: BTreeMap<(Option<ProcessId>, String), Tally> = BTreeMap::new();
        for (s, tallies) in tallies.iter().enumerate() {
            let speakers = job.sources[s].speakers.iter().enumerate();
            for (n, speaker) in speakers {
                let Some(tally) = tallies.get(&speaker.who) else { continue };
                let key = (s as u32, n as u32);
                if of_run.get(&key) == Some(&false) {
                    continue;
                }
                let process = job.speaker_process.get(&key).copied();
                let name = speaker.who.process.clone().unwrap_or_else(|| job.sources[s].name.clone());
                all.entry((process, name)).or_default().merge(tally);
            }
        }
        all.into_iter()
            .map(|((process, name), tally)| {
                let known = process.map(|p| &job.processes[p as usize]);
                ProcessSeen {
                    rank: known.and_then(|p| p.rank),
                    host: known.and_then(|p| p.host.clone()),
                    name,
                    release: job.release("nccl", process),
                    env: job.env_of(process, "NCCL_"),
                    tally,
                }
            })
            .collect()
    }

    /// Sizes that were asked for in vain: a field of bytes in a message of a cause of memory.
    fn refused(&self, job: &Job) -> Vec<RefusedSeen> {
        let mut out: Vec<RefusedSeen> = Vec::new();
        let mut seen = BTreeSet::new();
        for id in job.current() {
            let entry = job.entry(&self.catalogue, id);
            let of_memory = entry.cause.as_deref().is_some_and(|c| c.starts_with("memory/"));
            let size =
                self.catalogue.field_id("size").filter(|f| entry.types.get(f) == Some(&FieldType::Bytes));
            let event = job.event(id);
            let bytes = size.and_then(|f| event.field(f)).and_then(|t| t.parse::<u64>().ok());
            let placed = &job.events[id as usize];
            let Some(bytes) = bytes.filter(|_| of_memory && entry.role == Role::First) else { continue };
            // What torch repeats as the last error was told before.
            if !seen.insert((placed.rank, placed.host.clone(), bytes)) && event.via != Via::Line {
                continue;
            }
            out.push(RefusedSeen {
                rank: placed.rank,
                host: placed.host.clone(),
                source: job.source_name(id).to_string(),
                line: event.line,
                bytes,
                gpu: entry.cause.as_deref().is_some_and(|c| c.contains("gpu")),
            });
        }
        out
    }

    /// Messages with which allocators gave up: those that name what was tried.
    fn gave_up(&self, job: &Job) -> Vec<(Allocator, String)> {
        let tried = self.catalogue.field_id("tried");
        let mut out = Vec::new();
        for id in job.current() {
            let event = job.event(id);
            if tried.and_then(|f| event.field(f)).is_none() {
                continue;
            }
            let placed = &job.events[id as usize];
            let place = Allocator {
                rank: placed.rank,
                host: placed.host.clone(),
                source: job.source_name(id).to_string(),
                line: event.line,
                ..Allocator::default()
            };
            out.push((place, event.text.to_string()));
        }
        out
    }

    /// Rows of processes on GPUs: those that name a device, a process and what it holds.
    fn held(&self, job: &Job) -> Vec<Held> {
        let field = |name: &str| self.catalogue.field_id(name);
        let (Some(dev), Some(pid), Some(used)) = (field("dev"), field("pid"), field("used_mib")) else {
            return Vec::new();
        };
        let name = field("name");
        let row = |id: u32| {
            let event = job.event(id);
            Some(Held {
                host: job.events[id as usize].host.clone(),
                device: event.field(dev)?.parse().ok()?,
                pid: event.field(pid)?.parse().ok()?,
                name: name.and_then(|n| event.field(n)).unwrap_or_default().to_string(),
                bytes: event.field(used)?.parse::<u64>().ok()?.saturating_mul(MIB),
                rank: None,
            })
        };
        job.current().filter_map(row).collect()
    }

    /// Lines that suggest a cause of memory that is not the GPU's, each message once.
    fn elsewhere(&self, job: &Job) -> Vec<Elsewhere> {
        let mut out: BTreeMap<u16, Elsewhere> = BTreeMap::new();
        for id in job.current() {
            let entry = job.entry(&self.catalogue, id);
            let Some(cause) = entry.cause.as_deref().filter(|c| c.starts_with("memory/")) else { continue };
            if entry.role != Role::First || cause.contains("gpu-oom") {
                continue;
            }
            let (event, placed) = (job.event(id), &job.events[id as usize]);
            let about = self.knowledge.messages.iter().find(|(m, _)| m.id == entry.id);
            let slot = out.entry(event.message).or_insert_with(|| Elsewhere {
                cause: cause.to_string(),
                about: about.map(|(m, _)| m.about.clone()).unwrap_or_default(),
                rank: placed.rank,
                host: placed.host.clone(),
                source: job.source_name(id).to_string(),
                line: event.line,
                count: 0,
            });
            slot.count += event.count;
        }
        out.into_values().collect()
    }
}
