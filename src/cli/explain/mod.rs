//! `ncclcheck explain WHAT`: an answer without a log. `lookup` finds, `answer`
//! is what was found and how it is drawn.

mod answer;
mod lookup;

use super::args::{Explain, Format, Global};
use super::out::{FINE, FOUND, Fail, columns, complain, print};
use super::sources;
use crate::engine::{Engine, Taken};
use crate::knowledge::Knowledge;
use crate::report::text::Page;
use answer::{Answer, Fact};
use std::io::Write;

/// Names that are offered where nothing fits.
const NEAR: usize = 3;

pub(super) fn run(global: &Global, args: &Explain) -> Result<u8, Fail> {
    let engine = sources::engine(global)?;
    let asked = args.what.join(" ");
    let mut answers = lookup::find(&engine.knowledge, &asked);
    if answers.is_empty() {
        answers.extend(line(&engine, &asked));
    }
    if answers.is_empty() {
        return unknown(&engine.knowledge, &asked, args.format, global);
    }
    print(global.color, FINE, |out| match args.format {
        Format::Json => json(&asked, &answers, &[], out),
        Format::Text => text(&answers, out),
    })
}

fn text(answers: &[Answer], out: &mut dyn Write) -> std::io::Result<()> {
    let mut page = Page::new(columns());
    answers.iter().for_each(|a| a.draw(&mut page));
    page.lines().iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn json(asked: &str, answers: &[Answer], near: &[String], out: &mut dyn Write) -> std::io::Result<()> {
    let value = serde_json::json!({
        "schema": "ncclcheck.explain/1",
        "asked": asked,
        "answers": answers,
        "near": near,
    });
    serde_json::to_writer_pretty(&mut *out, &value)?;
    out.write_all(b"\n")
}

/// Nothing is known by this name: say what comes near.
fn unknown(knowledge: &Knowledge, asked: &str, format: Format, global: &Global) -> Result<u8, Fail> {
    let near = nearest(knowledge, asked);
    let hint = if near.is_empty() {
        "a cause, a variable, a code with its kind (\"status 12\", \"exit -9\", \"xid 79\") or a log line is asked for".into()
    } else {
        format!("near it: {}", near.join(", "))
    };
    complain(&format!("nothing is known about \"{asked}\"; {hint}"));
    match format {
        Format::Json => print(global.color, FOUND, |out| json(asked, &[], &near, out)),
        Format::Text => Ok(FOUND),
    }
}

/// A log line, taken apart; nothing where it says nothing.
fn line(engine: &Engine, asked: &str) -> Option<Answer> {
    let taken = engine.take_apart(asked);
    if taken.message.is_none() && taken.header.is_empty() {
        return None;
    }
    Some(taken_apart(&engine.knowledge, &taken))
}

fn taken_apart(knowledge: &Knowledge, taken: &Taken) -> Answer {
    let message = taken
        .message
        .as_ref()
        .and_then(|id| knowledge.messages.iter().find(|(m, _)| m.id == *id))
        .map(|(m, _)| m);
    let name = taken.message.as_deref().unwrap_or("no message is known for this line");
    let mut answer = Answer::new("log line", name, message.map_or("", |m| m.about.as_str()));
    if let Some(message) = message {
        answer = answer
            .fact("Role", &name_of(message.role))
            .fact("Suggests", message.cause.as_deref().unwrap_or_default());
    }
    for (label, text) in &taken.header {
        answer.facts.push(Fact { label: "Header", text: format!("{label}: {text}") });
    }
    for (name, kind, text) in &taken.fields {
        let more = meaning(knowledge, kind, text);
        answer.facts.push(Fact { label: "Field", text: format!("{name} ({kind}) = {text}{more}") });
    }
    answer
}

/// What a number in a line stands for.
fn meaning(knowledge: &Knowledge, kind: &str, text: &str) -> String {
    let t = &knowledge.tables;
    let list = match kind {
        "result" => &t.results,
        "wc-status" => &t.wc,
        "errno" => &t.errno,
        "signal" => &t.signals,
        "exit" => &t.exits,
        _ => return String::new(),
    };
    let found = text.trim().parse::<i64>().ok().and_then(|n| list.iter().find(|c| c.code == n));
    found.map_or(String::new(), |c| format!(": {}. {}", c.name, c.means))
}

/// What a role is called in the rule files.
fn name_of(role: crate::knowledge::Role) -> String {
    use crate::knowledge::Role;
    match role {
        Role::First => "says what went wrong first",
        Role::Victim => "says that this process suffers from what happened elsewhere",
        Role::Symptom => "says that something failed, not what",
        Role::Harmless => "looks bad, means nothing",
        Role::Fact => "no fault: it carries facts",
    }
    .into()
}

/// Names that differ little from what was asked for.
pub(crate) fn nearest(knowledge: &Knowledge, asked: &str) -> Vec<String> {
    let asked = asked.trim().to_lowercase();
    if asked.is_empty() || asked.len() > 80 {
        return Vec::new();
    }
    let t = &knowledge.tables;
    let codes = [&t.results, &t.wc, &t.signals, &t.cuda, &t.errno];
    let names = knowledge
        .rules
        .iter()
        .map(|(r, _)| r.id.as_str())
        .chain(t.variables.iter().map(|v| v.name.as_str()))
        .chain(knowledge.messages.iter().map(|(m, _)| m.id.as_str()))
        .chain(codes.into_iter().flatten().flat_map(lookup::names));
    let mut near: Vec<(f64, &str)> = names
        .map(|name| (strsim::normalized_damerau_levenshtein(&asked, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness > 0.6)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    near.dedup_by_key(|n| n.1);
    near.into_iter().take(NEAR).map(|(_, name)| name.to_string()).collect()
}
