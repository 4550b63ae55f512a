//! `ncclcheck rules check|test|list|show|why|new`: for who writes rules. What
//! a rule looks for is put into words in `describe`, `new` drafts one.

mod describe;
mod measure;
mod new;
mod stats;

use super::args::{Global, Rules, Sources};
use super::explain::nearest;
use super::out::{FINE, FOUND, Fail, columns, complain, print};
use super::sources;
use crate::engine::{Engine, Way, Why};
use crate::report::text::{BAD, BOLD, CODE, DIM, GOOD, PLAIN, Page, visible};
use crate::rules::Asks;
use std::io::{self, Write};

pub(super) fn run(global: &Global, command: &Rules) -> Result<u8, Fail> {
    match command {
        Rules::Check { tests: true } => missing_tests(global),
        Rules::Check { tests: false } => check(global),
        Rules::Test { id } => test(global, id.as_deref()),
        Rules::List { stats: false } => list(global),
        Rules::List { stats: true } => {
            let engine = sources::engine(global)?;
            print(global.color, FINE, |out| stats::write(&engine, out))
        }
        Rules::Measure { folder } => measure::run(global, folder),
        Rules::Show { id } => show(global, id),
        Rules::Why { id, sources } => why(global, id, sources),
        Rules::New(args) => new::run(global, args),
    }
}

/// All faults of the knowledge, one a line.
fn check(global: &Global) -> Result<u8, Fail> {
    sources::folders(global)?;
    let faults: Vec<String> = match sources::load(global) {
        Err(text) => text.lines().map(str::to_string).collect(),
        Ok(engine) => {
            let mut faults: Vec<String> = engine.check().iter().map(ToString::to_string).collect();
            faults.extend(crate::scan::check_layouts(&engine.knowledge));
            if faults.is_empty() {
                let known = &engine.knowledge;
                let (messages, rules) = (known.messages.len(), known.rules.len());
                return print(global.color, FINE, |out| {
                    writeln!(out, "{GOOD}no faults{GOOD:#} in {messages} messages and {rules} rules")
                });
            }
            faults
        }
    };
    print(global.color, FOUND, |out| {
        faults.iter().try_for_each(|fault| writeln!(out, "{}", visible(fault)))?;
        writeln!(out, "{BAD}{} fault(s){BAD:#}", faults.len())
    })
}

/// Ways in which a cause shows that fewer than two tests of its file fire, or that no near-miss guards.
fn missing_tests(global: &Global) -> Result<u8, Fail> {
    let engine = sources::engine(global)?;
    let all = engine.coverage();
    let lacking: Vec<_> = all.iter().filter(|c| c.firing < 2 || c.near == 0).collect();
    print(global.color, if lacking.is_empty() { FINE } else { FOUND }, |out| {
        for c in &lacking {
            let firing = match c.firing {
                0 => Some("no firing test"),
                1 => Some("one firing test (two that share no host, process, address, path or long number)"),
                _ => None,
            };
            let what: Vec<_> = firing.into_iter().chain((c.near == 0).then_some("no near-miss")).collect();
            writeln!(out, "{CODE}{}{CODE:#} way {}: {}", c.rule, c.way, what.join(", "))?;
        }
        writeln!(
            out,
            "{} ways in which causes show, {} without two firing tests and a near-miss",
            all.len(),
            lacking.len()
        )
    })
}

fn test(global: &Global, id: Option<&str>) -> Result<u8, Fail> {
    let engine = sources::engine(global)?;
    if let Some(id) = id
        && !knows(&engine, id)
    {
        return Ok(no_such(&engine, id));
    }
    let results = engine.test(id);
    let failed = results.iter().filter(|(_, why)| why.is_some()).count();
    print(global.color, if failed == 0 { FINE } else { FOUND }, |out| {
        for (name, why) in &results {
            match why {
                None => writeln!(out, "{GOOD}ok{GOOD:#}      {}", visible(name))?,
                Some(why) => {
                    writeln!(out, "{BAD}FAILED{BAD:#}  {}", visible(name))?;
                    why.lines().try_for_each(|line| writeln!(out, "          {}", visible(line)))?;
                }
            }
        }
        writeln!(out, "{} tests, {failed} failed", results.len())
    })
}

fn list(global: &Global) -> Result<u8, Fail> {
    let engine = sources::engine(global)?;
    let rules = &engine.knowledge.rules;
    let widest = rules.iter().map(|(r, _)| r.id.len()).max().unwrap_or(0);
    print(global.color, FINE, |out| {
        for (rule, _) in rules {
            let gap = " ".repeat(widest - rule.id.len());
            let title = visible(&rule.title);
            writeln!(out, "{CODE}{}{CODE:#}{gap}  {DIM}{:<8}{DIM:#}  {title}", rule.id, rule.severity)?;
        }
        Ok(())
    })
}

fn show(global: &Global, id: &str) -> Result<u8, Fail> {
    let engine = sources::engine(global)?;
    let Some((rule, file)) = engine.knowledge.rules.iter().find(|(r, _)| r.id == id) else {
        return Ok(no_such(&engine, id));
    };
    let mut page = Page::new(columns());
    describe::rule(rule, file, &engine, &mut page);
    print(global.color, FINE, |out| page.lines().iter().try_for_each(|line| writeln!(out, "{line}")))
}

fn why(global: &Global, id: &str, given: &Sources) -> Result<u8, Fail> {
    let engine = sources::engine(global)?;
    if !knows(&engine, id) {
        return Ok(no_such(&engine, id));
    }
    let (given, options) = sources::given(given)?;
    match engine.why(id, &given, &options).map_err(|err| err.to_string())? {
        Some(why) => print(global.color, FINE, |out| reasons(&why, out)),
        None => Ok(no_such(&engine, id)),
    }
}

fn knows(engine: &Engine, id: &str) -> bool {
    engine.knowledge.rules.iter().any(|(r, _)| r.id == id)
}

fn no_such(engine: &Engine, id: &str) -> u8 {
    let near = nearest(&engine.knowledge, id);
    let hint = if near.is_empty() { String::new() } else { format!("; near it: {}", near.join(", ")) };
    complain(&format!("there is no rule \"{id}\"{hint}"));
    FOUND
}

/// Each way in which the cause shows, with what was found and what was missing; those that hold first.
fn reasons(why: &Why, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(columns());
    let verdict = match (why.found, why.rank, &why.under) {
        (true, Some(n), _) => format!("found; number {n} among the diagnoses"),
        (true, None, Some(under)) => {
            format!("found; explained by {}, so it stands under that one", visible(under))
        }
        (true, None, None) => "found; not among the diagnoses".into(),
        (false, ..) => "not found".into(),
    };
    page.flow("", "", &[(BOLD, format!("{}:", visible(&why.id))), (PLAIN, verdict)], usize::MAX);
    let hold = why.ways.iter().filter(|w| w.holds).count();
    let ways = match why.ways.len() {
        1 => "This cause shows in one way".to_string(),
        n => format!("This cause shows in {n} ways; one is enough"),
    };
    let here = match hold {
        0 => "none of them holds".to_string(),
        1 => "one of them holds".to_string(),
        n => format!("{n} of them hold"),
    };
    page.blank();
    page.flow("  ", "  ", &[(PLAIN, format!("{ways}. Here {here}."))], usize::MAX);
    let numbered = why.ways.iter().zip(0..);
    let (yes, no): (Vec<_>, Vec<_>) = numbered.partition(|(way, _)| way.holds);
    for (way, n) in yes.into_iter().chain(no) {
        one_way(way, n, &mut page);
    }
    page.lines().iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// A way, numbered as `rules show` does; the one of a message alone has no number there.
fn one_way(way: &Way, n: usize, page: &mut Page) {
    let name =
        if n == 0 { "By one message alone".into() } else { format!("Way {n} ({})", visible(&way.strength)) };
    let (ink, holds) = if way.holds { (GOOD, "holds") } else { (DIM, "does not hold") };
    page.blank();
    page.flow("", "", &[(BOLD, format!("{name}:")), (ink, holds.into())], usize::MAX);
    for c in &way.conditions {
        let fits = c.met != (c.asks == Asks::None);
        let (mark, must) = match (c.asks, c.met) {
            (Asks::None, true) => ("in the way:", "must not be there, and is:"),
            (Asks::None, false) => ("fine:", "must not be there, and is not:"),
            (Asks::Any, true) => ("found:", "one of these must be there:"),
            (Asks::Any, false) => ("missing:", "one of these must be there:"),
            (_, true) => ("found:", "must be there:"),
            (_, false) => ("missing:", "must be there:"),
        };
        let spans =
            [(if fits { GOOD } else { BAD }, mark.into()), (DIM, must.into()), (PLAIN, visible(&c.what))];
        page.flow("  ", "      ", &spans, usize::MAX);
        for line in &c.lines {
            let spot = format!("{}:{}", visible(&line.source), line.line);
            page.quote_in(
                6,
                &[(CODE, spot), (DIM, line.rank.map_or(String::new(), |r| format!("rank {r}")))],
                &visible(&line.text),
                false,
            );
        }
        if c.found > c.lines.len() {
            page.flow(
                "      ",
                "      ",
                &[(DIM, format!("and {} more", c.found - c.lines.len()))],
                usize::MAX,
            );
        }
    }
}
