//! A rule in words: its head, the ways in which it shows, what to do.

use crate::catalogue::Catalogue;
use crate::engine::Engine;
use crate::knowledge::{Knowledge, Message, Place, Role, Rule, Strength, When};
use crate::report::text::{BOLD, CODE, DIM, PLAIN, Page, visible};
use crate::rules::condition;

const ALL: usize = usize::MAX;

pub(super) fn rule(rule: &Rule, file: &str, engine: &Engine, page: &mut Page) {
    let knowledge = &engine.knowledge;
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
        way(i + 1, when, &engine.catalogue, page);
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

fn way(n: usize, when: &When, catalogue: &Catalogue, page: &mut Page) {
    page.heading(&format!("Way {n} ({}), culprit: {}", strength(when.strength), visible(&when.culprit)));
    for (word, list) in [("all of", &when.need), ("one of", &when.any), ("none of", &when.not)] {
        for cond in list {
            page.flow(
                "  - ",
                "    ",
                &[(DIM, format!("{word}:")), (PLAIN, visible(&condition(cond, catalogue)))],
                ALL,
            );
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
