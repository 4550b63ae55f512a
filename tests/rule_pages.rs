//! The pages of `docs/rules/` are made from the rule files: one for each
//! category, and an index by what a person sees in a log. `UPDATE_DOCS=1 cargo
//! test --test rule_pages` writes them; without it they are compared.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;

use ncclcheck::knowledge::{Knowledge, Role, Rule};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "<!-- Made from rules/ by `UPDATE_DOCS=1 cargo test --test rule_pages`; change the rule, not this page. -->\n\n";

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A title without its places for names: `{peer}` is told as `the peer`.
fn title(rule: &Rule) -> String {
    let mut out = String::new();
    let mut rest = rule.title.as_str();
    while let Some((before, after)) = rest.split_once('{') {
        let (name, more) = after.split_once('}').unwrap_or((after, ""));
        write!(out, "{before}(the {name})").unwrap();
        rest = more;
    }
    out + rest
}

/// What the line of a message shows, short enough for a table.
fn sample(known: &Knowledge, id: &str) -> Option<String> {
    let (message, _) = known.messages.iter().find(|(m, _)| m.id == id)?;
    let text = message.forms.first()?.samples().into_iter().next()?;
    let line = text.lines().find(|l| !l.trim().is_empty())?.trim().to_string();
    let from =
        ["NCCL WARN ", "NCCL INFO "].iter().find_map(|m| line.find(m).map(|at| at + m.len())).unwrap_or(0);
    let short: String = line[from..].chars().take(150).collect();
    Some(short.replace('`', "'").replace('|', "\\|"))
}

fn page(known: &Knowledge, category: &str) -> String {
    let mut out = format!("{HEAD}# {category}\n");
    for (rule, _) in known.rules.iter().filter(|(r, _)| r.id.split('/').next() == Some(category)) {
        let name = rule.id.split('/').nth(1).unwrap_or("");
        write!(
            out,
            "\n## {name}\n\n**{}** (`{}`, {})\n\n{}\n",
            title(rule),
            rule.id,
            rule.severity,
            one_line(&rule.explain)
        )
        .unwrap();
        if !rule.mistaken.trim().is_empty() {
            write!(out, "\n*Taken for:* {}\n", one_line(&rule.mistaken)).unwrap();
        }
        let lines: Vec<String> = known
            .messages
            .iter()
            .filter(|(m, _)| m.cause.as_deref() == Some(&rule.id) && m.role == Role::First)
            .filter_map(|(m, _)| sample(known, &m.id))
            .take(6)
            .collect();
        if !lines.is_empty() {
            write!(out, "\nHow it shows, for example:\n\n").unwrap();
            lines.iter().for_each(|l| writeln!(out, "- `{}`", l.replace("\\|", "|")).unwrap());
        }
        let says: Vec<String> =
            rule.whens.iter().filter(|w| !w.say.is_empty()).map(|w| one_line(&w.say)).collect();
        if !says.is_empty() {
            write!(out, "\nWhat can be concluded:\n\n").unwrap();
            says.iter().for_each(|s| writeln!(out, "- {s}").unwrap());
        }
        write!(out, "\nWhat to do:\n\n").unwrap();
        for (n, fix) in rule.fixes.iter().enumerate() {
            let mark = if fix.intent == "fix" { String::new() } else { format!("({}) ", fix.intent) };
            let set: Vec<String> = fix.env.iter().map(|(k, v)| format!(" `{k}={v}`")).collect();
            let only = fix.nccl.as_ref().map_or(String::new(), |r| format!(" (NCCL {r} only)"));
            write!(out, "{}. {mark}{}{only}{}", n + 1, one_line(&fix.general_text()), set.concat()).unwrap();
            for (label, text) in [("Price", &fix.cost), ("Check", &fix.verify)] {
                if !text.trim().is_empty() {
                    write!(out, " *{label}:* {}", one_line(text)).unwrap();
                }
            }
            out.push('\n');
        }
        if !rule.references.is_empty() {
            write!(
                out,
                "\nMore: {}\n",
                rule.references.iter().map(|r| format!("<{r}>")).collect::<Vec<_>>().join(", ")
            )
            .unwrap();
        }
    }
    out
}

/// `I see this line`: every message that tells a cause, by its text.
fn index(known: &Knowledge) -> String {
    let mut out = format!("{HEAD}# Causes\n\n");
    let mut categories: BTreeMap<&str, Vec<&Rule>> = BTreeMap::new();
    for (rule, _) in &known.rules {
        categories.entry(rule.id.split('/').next().unwrap_or("")).or_default().push(rule);
    }
    for (category, rules) in &categories {
        let list: Vec<String> = rules
            .iter()
            .map(|r| r.id.split('/').nth(1).unwrap_or(""))
            .map(|name| format!("[{name}]({category}.md#{name})"))
            .collect();
        writeln!(out, "- **[{category}]({category}.md)**: {}", list.join(", ")).unwrap();
    }
    write!(out, "\n## By the line that you see\n\nThe figures are those of a sample. `ncclcheck explain 'LINE'` takes your own line apart.\n\n| line | cause |\n|---|---|\n").unwrap();
    let mut rows: Vec<String> = known
        .messages
        .iter()
        .filter(|(m, _)| m.role == Role::First)
        .filter_map(|(m, _)| {
            let (category, name) = m.cause.as_deref()?.split_once('/')?;
            Some(format!("| `{}` | [{category}/{name}]({category}.md#{name}) |", sample(known, &m.id)?))
        })
        .collect();
    rows.sort();
    rows.dedup();
    out + &rows.join("\n") + "\n"
}

#[test]
fn the_pages_are_those_of_the_rules() {
    let known = &common::engine().knowledge;
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/rules");
    let mut pages = BTreeMap::from([("README.md".to_string(), index(known))]);
    for (rule, _) in &known.rules {
        let category = rule.id.split('/').next().unwrap();
        pages.entry(format!("{category}.md")).or_insert_with(|| page(known, category));
    }
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    let mut stale = Vec::new();
    for (name, text) in &pages {
        let path = dir.join(name);
        if std::fs::read_to_string(&path).ok().as_ref() != Some(text) {
            if update {
                std::fs::create_dir_all(&dir).unwrap();
                std::fs::write(&path, text).unwrap();
            } else {
                stale.push(name);
            }
        }
    }
    assert!(stale.is_empty(), "{stale:?} are stale; UPDATE_DOCS=1 cargo test --test rule_pages writes them");
}
