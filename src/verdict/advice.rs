//! Advice checked against the job: only variables that its release reads, not
//! what is set already, and nothing that the findings themselves forbid. What
//! advice about memory frees is counted by the model (`{freed}`).

use super::model::Model;
use crate::base::ReleaseRange;
use crate::job::Job;
use crate::knowledge::Knowledge;
use crate::report::Fix;

/// The fixes of a rule that are true for this job.
pub(super) fn fixes(knowledge: &Knowledge, job: &Job, model: &Model<'_>, rule: usize) -> Vec<Fix> {
    let rule = &knowledge.rules[rule].0;
    rule.fixes.iter().filter_map(|f| one(knowledge, job, model, f)).collect()
}

fn one(knowledge: &Knowledge, job: &Job, model: &Model<'_>, fix: &crate::knowledge::Fix) -> Option<Fix> {
    for (what, range) in [("nccl", &fix.nccl), ("torch", &fix.torch)] {
        if let (Some(range), Some(release)) =
            (range.as_deref().and_then(ReleaseRange::parse), job.release(what, None))
            && !range.contains(release)
        {
            return None;
        }
    }
    let mut env = std::collections::BTreeMap::new();
    let mut text = model.fill(fix)?;
    for (name, value) in &fix.env {
        let already = job.settings.get(name).is_some_and(|l| l.iter().all(|s| s.value == *value));
        if already {
            text.push_str(&format!(" ({name}={value} is set already and did not help.)"));
            continue;
        }
        if !reads(knowledge, job, name) {
            continue;
        }
        env.insert(name.clone(), value.clone());
    }
    if !fix.env.is_empty() && env.is_empty() {
        return None;
    }
    Some(Fix {
        intent: match fix.intent.as_str() {
            "workaround" => "workaround",
            "diagnostic" => "diagnostic",
            _ => "fix",
        },
        text,
        env: (!env.is_empty()).then_some(env),
        cost: fix.cost.trim().to_string(),
        verify: fix.verify.trim().to_string(),
    })
}

/// Whether the job's release reads a variable; unknown releases read all.
fn reads(knowledge: &Knowledge, job: &Job, name: &str) -> bool {
    let Some(v) = knowledge.tables.variables.iter().find(|v| v.name == name) else { return true };
    let what = if v.reader == "torch" { "torch" } else { "nccl" };
    let Some(release) = job.release(what, None) else { return true };
    let since = crate::base::Release::parse(&v.since).is_none_or(|s| release >= s);
    let until = crate::base::Release::parse(&v.until).is_none_or(|u| release <= u);
    since && until
}
