//! What advice about memory frees in this job: the lines of the log that are
//! events tell channels, transports, release and settings; where that
//! suffices the model of `memory` counts, and where not nothing is said.

use crate::base::bytes_text;
use crate::job::{Job, ProcessId};
use crate::knowledge::{Fix, Knowledge};
use crate::memory::{self, Input, MIB, Plan, ProcessSeen, Tally};
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// The job as the model counts it, made when it is first asked for.
pub(super) struct Model<'m> {
    knowledge: &'m Knowledge,
    job: &'m Job,
    plan: OnceCell<Option<Plan>>,
}

impl<'m> Model<'m> {
    pub(super) fn new(knowledge: &'m Knowledge, job: &'m Job) -> Self {
        Self { knowledge, job, plan: OnceCell::new() }
    }

    /// The text of a fix, with what it frees in the place of `{freed}`. Nothing where it frees nothing, or where
    /// nothing can be said and the text needs it (`{freed!}`).
    pub(super) fn fill(&self, fix: &Fix) -> Option<String> {
        let text = fix.text.trim();
        let needed = text.contains("{freed!}");
        if !needed && !text.contains("{freed}") {
            return Some(text.to_string());
        }
        let Some(plan) = self.plan.get_or_init(|| plan(self.knowledge, self.job)) else {
            return (!needed).then(|| fix.general_text().trim().to_string());
        };
        let constants = &self.knowledge.tables.constants;
        let Some((least, most, host)) = memory::effect(constants, plan, &fix.env, fix.fewer) else {
            // It is set already, or there is one communicator only.
            let set = !fix.env.is_empty();
            return (set && !needed).then(|| fix.general_text().trim().to_string());
        };
        if most <= 0 && host == 0 {
            return None;
        }
        let all = memory::total(&memory::compute(constants, plan), plan.communicators).gpu.most;
        let figure = if least == most {
            bytes_text(most.unsigned_abs())
        } else {
            format!("{} to {}", bytes_text(least.max(0).unsigned_abs()), bytes_text(most.unsigned_abs()))
        };
        let mut said = format!(
            " In this job that frees {figure} on each rank by the model, of at most {} that NCCL holds",
            bytes_text(all)
        );
        if host >= MIB as i64 {
            said.push_str(&format!(", and takes {} more host memory", bytes_text(host.unsigned_abs())));
        }
        said.push('.');
        let text = text.replace("{freed!}", &said).replace("{freed}", &said);
        Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

/// The plan that the events of the run show.
fn plan(knowledge: &Knowledge, job: &Job) -> Option<Plan> {
    // Sizes of libraries made from NCCL are not known.
    if job.releases.contains_key("rccl") {
        return None;
    }
    let mut tallies: BTreeMap<ProcessId, Tally> = BTreeMap::new();
    for id in job.current() {
        let event = job.event(id);
        let Some(process) = job.events[id as usize].process else { continue };
        let Some((_, text)) = event.text.split_once(" INFO ") else { continue };
        let Some(line) = memory::parse(text.trim_end().as_bytes()) else { continue };
        let tally = tallies.entry(process).or_default();
        // One event may stand for many lines; so many communicators nobody has.
        (0..event.count.min(4096)).for_each(|_| tally.add(&line));
    }
    let processes = tallies
        .into_iter()
        .map(|(id, tally)| {
            let p = &job.processes[id as usize];
            ProcessSeen {
                rank: p.rank,
                host: p.host.clone(),
                name: p.name.clone(),
                release: job.release("nccl", Some(id)),
                env: job.env_of(Some(id), "NCCL_"),
                tally,
            }
        })
        .collect();
    memory::plan_of(&knowledge.tables, &Input { processes, ..Input::default() })
        .filter(|p| p.release.is_some())
}
