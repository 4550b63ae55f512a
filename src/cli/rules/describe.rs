//! A rule in words: its head, the ways in which it shows, what to do.

use crate::knowledge::{Cond, Knowledge, Message, Place, Role, Rule, Strength, When};
use crate::report::text::{BOLD, CODE, DIM, PLAIN, Page, visible};

const ALL: usize = usize::MAX;

pub(super) fn rule(rule: &Rule, file: &str, knowledge: &Knowledge, page: &mut Page) {
    page.flow("", "", &[(BOLD, visible(&rule.id)), (PLAIN, visible(&rule.title))], ALL);
    page.blank();
    page.label("File", &[(PLAIN, visible(file))], ALL);
    page.label("Severity", &[(PLAIN, visible(&rule.severity))], ALL);
    page.label("Place", &[(PLAIN, place(rule.place).into())], ALL);
    page.label("Tests", &[(PLAIN, rule.tests.len().to_string())], ALL);
    paragraph(&rule.explain, page);
    if !rule.mistaken.is_empty() {
        paragraph(&format!("Taken for: {}", rule.mistaken), page);
    }
    suggested(rule, knowledge, page);
    for (i, when) in rule.whens.iter().enumerate() {
        way(i + 1, when, page);
    }
    let after: Vec<String> =
        rule.explains.iter().map(|e| format!("{} ({})", e.what.join(", "), e.scope)).collect();
    if !after.is_empty() {
        page.heading("Explains");
        page.flow("  ", "  ", &[(PLAIN, visible(&after.join("; ")))], ALL);
    }
    if !rule.fixes.is_empty() {
        page.heading("What to do");
    }
    for fix in &rule.fixes {
        let env: Vec<String> = fix.env.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let spans = [
            (DIM, format!("({})", visible(&fix.intent))),
            (PLAIN, visible(&flat(&fix.general_text()))),
            (CODE, visible(&env.join(" "))),
        ];
        page.flow("  - ", "    ", &spans, ALL);
    }
}

fn paragraph(text: &str, page: &mut Page) {
    page.blank();
    page.flow("  ", "  ", &[(PLAIN, visible(&flat(text)))], ALL);
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Messages that suggest the cause all by themselves.
fn suggested(rule: &Rule, knowledge: &Knowledge, page: &mut Page) {
    let by_itself = |m: &Message| m.role == Role::First && m.cause.as_deref() == Some(rule.id.as_str());
    let mut messages = knowledge.messages.iter().map(|(m, _)| m).filter(|m| by_itself(m)).peekable();
    if messages.peek().is_some() {
        page.heading("Messages that suggest it by themselves");
    }
    for message in messages {
        let spans = [(CODE, message.id.clone()), (DIM, format!("({})", strength(message.weight)))];
        page.flow("  - ", "    ", &spans, ALL);
    }
}

fn way(n: usize, when: &When, page: &mut Page) {
    page.heading(&format!("Way {n} ({}), culprit: {}", strength(when.strength), visible(&when.culprit)));
    for (word, list) in [("all of", &when.need), ("one of", &when.any), ("none of", &when.not)] {
        for cond in list {
            page.flow("  - ", "    ", &[(DIM, format!("{word}:")), (PLAIN, visible(&words(cond)))], ALL);
        }
    }
    if !when.say.is_empty() {
        page.flow("  ", "  ", &[(DIM, "says:".into()), (PLAIN, visible(&flat(&when.say)))], ALL);
    }
}

fn strength(strength: Strength) -> &'static str {
    match strength {
        Strength::Weak => "weak",
        Strength::Strong => "strong",
        Strength::Decisive => "decisive",
    }
}

fn place(place: Place) -> &'static str {
    match place {
        Place::Root => "root: nothing in sight lies before it",
        Place::Local => "local: an operation failed here, maybe because of a root elsewhere",
        Place::Victim => "victim: only ever a consequence",
        Place::Fallback => "fallback: where nothing else explains it",
    }
}

/// A condition in words, with the keys of the rule files.
fn words(cond: &Cond) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut add = |key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            parts.push(format!("{key} {value}"));
        }
    };
    add("message", Some(cond.message().join(" or ")));
    add("role", cond.role.map(|r| format!("{r:?}").to_lowercase()));
    add("kind", cond.kind.map(|k| format!("{k:?}").to_lowercase()));
    let fields: Vec<String> = cond.fields.iter().map(|(k, v)| format!("{k} = {v}")).collect();
    add("where", Some(fields.join(", ")));
    add("detector", cond.detector.clone());
    add("what", cond.what.clone());
    add("process ended by", cond.ended.clone());
    add("signal", cond.signal.map(|n| n.to_string()));
    add("exit code", cond.exit.map(|n| n.to_string()));
    add("variable", cond.env.clone());
    add("value", Some(cond.value().join(" or ")));
    add("set", cond.set.map(|b| b.to_string()));
    add("differs between ranks", cond.differs.map(|b| b.to_string()));
    add("NCCL", cond.nccl.clone());
    add("torch", cond.torch.clone());
    add("job's end", Some(cond.state().join(" or ")));
    add("on the same", cond.on.clone().filter(|on| on != "job"));
    add("at least", cond.count.map(|n| format!("{n} times")));
    add("by at least", cond.ranks.map(|n| format!("{n} ranks")));
    add("after", Some(cond.after().join(" or ")));
    add("before", Some(cond.before().join(" or ")));
    parts.join(", ")
}
