//! What the settings that the input shows contradict or miss, as notices: the
//! same checks as `ncclcheck env`, beside what the rules made of it. They are
//! no diagnosis: a setting that is odd need not have done anything.

use super::mask;
use crate::job::{EventId, Job};
use crate::knowledge::Knowledge;
use crate::report::{Culprits, Diagnosis, Evidence, Fix};
use crate::settings::{self, Assignment, Environment, Level, Releases, Remark};

/// Notices of one report, at most.
const MOST: usize = 4;

/// Remarks on the job's settings that no diagnosis or notice speaks of yet.
pub(super) fn notices(
    knowledge: &Knowledge,
    job: &Job,
    known: &[Diagnosis],
    show: impl Fn(EventId) -> Evidence,
) -> Vec<Diagnosis> {
    let releases = Releases { nccl: job.release("nccl", None), torch: job.release("torch", None) };
    let remarks = settings::check(knowledge, &environment(job), releases);
    let told = |name: &str| known.iter().any(|d| d.cause.starts_with("env/") && d.why.contains(name));
    remarks
        .into_iter()
        .filter(|r| r.level != Level::Note && !told(&r.name))
        .take(MOST)
        .map(|r| notice(r, job, &show))
        .collect()
}

/// What all processes that say so have set alike.
fn environment(job: &Job) -> Environment {
    let mut env = Environment { source: "the input".into(), ..Environment::default() };
    for (name, list) in &job.settings {
        let Some(first) = list.first().filter(|f| list.iter().all(|s| s.value == f.value)) else { continue };
        let value = Some(first.value.clone()).filter(|v| !v.contains('$'));
        env.variables.push(Assignment { name: name.clone(), value, line: 0 });
    }
    env
}

fn notice(r: Remark, job: &Job, show: &impl Fn(EventId) -> Evidence) -> Diagnosis {
    let cause = match r.kind.as_str() {
        "leftover" => "env/harmful",
        "differs" => "env/mismatch",
        _ => "env/bad-value",
    };
    let title = match r.kind.as_str() {
        "not-read" => format!("{} is set, and this release does not read it", r.name),
        "unknown-name" => format!("{} is set, and nothing reads it", r.name),
        "contradiction" => format!("{} contradicts another setting", r.name),
        "leftover" => format!("{} can do harm", r.name),
        _ => format!("{} has a value that does not do what was meant", r.name),
    };
    let events = job.settings.get(&r.name).into_iter().flatten().map(|s| s.event).take(1);
    let text = match r.instead {
        Some(instead) => format!("Write {} in its place, or take the variable out.", mask::mask(&instead)),
        None => format!("Take {} out, or make the settings agree.", r.name),
    };
    Diagnosis {
        cause: cause.into(),
        title: mask::mask(&title),
        why: mask::mask(&r.say),
        confidence: 0.9,
        severity: "notice",
        culprits: Culprits::default(),
        evidence: events.map(show).collect(),
        explains: Vec::new(),
        fixes: vec![Fix { intent: "fix", text, env: None, cost: String::new(), verify: String::new() }],
        mistaken_for: String::new(),
        alternatives: Vec::new(),
        references: Vec::new(),
        known_bugs: Vec::new(),
    }
}
