//! `rules check` for rules: what every rule file must hold.

use super::detectors;
use crate::base::FILL;
use crate::catalogue::Catalogue;
use crate::knowledge::{Cond, Fault, Knowledge, Match, Rule};

/// All faults of the rules.
#[must_use]
pub fn check(knowledge: &Knowledge, catalogue: &Catalogue) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (rule, file) in &knowledge.rules {
        let mut say = |what: String| faults.push(Fault { file: file.clone(), line: None, what });
        one(rule, knowledge, catalogue, &mut say);
        for (other, _) in &knowledge.rules {
            if other.id > rule.id
                && explains(knowledge, rule, &other.id)
                && explains(knowledge, other, &rule.id)
            {
                say(format!("{} and {} explain each other", rule.id, other.id));
            }
        }
    }
    for bug in &knowledge.tables.bugs {
        let file = "tables/bugs.toml".to_string();
        let name: String = bug.fault.chars().take(60).collect();
        let mut say = |what: String| {
            faults.push(Fault { file: file.clone(), line: None, what: format!("{name}: {what}") });
        };
        if bug.need.is_empty() != bug.sample.is_empty() {
            say("conditions and a sample go together".into());
        }
        for cond in bug.need.iter().chain(&bug.any) {
            condition(cond, knowledge, catalogue, &mut say);
        }
        for cause in bug.told_with() {
            if !knowledge.rules.iter().any(|(r, _)| crate::knowledge::glob(&cause, &r.id)) {
                say(format!("there is no rule {cause}"));
            }
        }
    }
    for (message, file) in &knowledge.messages {
        if let Some(cause) = &message.cause
            && !knowledge.rules.iter().any(|(r, _)| r.id == *cause)
        {
            faults.push(Fault {
                file: file.clone(),
                line: None,
                what: format!("{}: there is no rule {cause}", message.id),
            });
        }
    }
    faults
}

fn explains(knowledge: &Knowledge, rule: &Rule, id: &str) -> bool {
    rule.explains.iter().any(|e| e.scope == "job" && knowledge.covers(&e.what, id))
}

fn one(rule: &Rule, knowledge: &Knowledge, catalogue: &Catalogue, say: &mut dyn FnMut(String)) {
    if !["fatal", "degraded"].contains(&rule.severity.as_str()) {
        say(format!("severity {:?} is neither fatal nor degraded", rule.severity));
    }
    if !rule.tests.iter().any(|t| t.expect.finding) || !rule.tests.iter().any(|t| !t.expect.finding) {
        say("needs a test that fires and one that must not".into());
    }
    if rule.fixes.is_empty() {
        say("has no fix".into());
    }
    let fixes = rule.fixes.iter().flat_map(|f| [("text", &f.text), ("cost", &f.cost), ("verify", &f.verify)]);
    for (what, text) in [("title", &rule.title), ("explain", &rule.explain)].into_iter().chain(fixes) {
        if text.trim_start().starts_with(FILL) {
            say(format!("{what} is still to be filled in"));
        }
    }
    let suggested = knowledge.messages.iter().any(|(m, _)| m.cause.as_deref() == Some(&rule.id));
    if rule.whens.is_empty() && !suggested {
        say("nothing can make it fire: no when, and no message has this cause".into());
    }
    for fix in &rule.fixes {
        if !["fix", "workaround", "diagnostic"].contains(&fix.intent.as_str()) {
            say(format!("intent {:?} is not fix, workaround or diagnostic", fix.intent));
        }
        for name in fix.env.keys() {
            if !knowledge.tables.variables.iter().any(|v| v.name == *name) {
                say(format!("{name} is in no table of variables"));
            }
        }
    }
    for cond in rule.whens.iter().flat_map(|w| w.need.iter().chain(&w.any).chain(&w.not)) {
        condition(cond, knowledge, catalogue, say);
    }
}

fn condition(cond: &Cond, knowledge: &Knowledge, catalogue: &Catalogue, say: &mut dyn FnMut(String)) {
    for m in cond.message().into_iter().chain(cond.after()).chain(cond.before()) {
        let list = [m.clone()];
        if !catalogue.messages.iter().any(|e| knowledge.covers(&list, &e.id)) {
            say(format!("there is no message {m}"));
        }
    }
    if cond.asks() == Match::Detector {
        let name = cond.detector.as_deref().unwrap_or("");
        if !detectors::NAMES.contains(&name) {
            say(format!("there is no detector {name}"));
        }
    }
    for name in cond.fields.keys() {
        if catalogue.field_id(name).is_none() {
            say(format!("no message has a field {name}"));
        }
    }
}
