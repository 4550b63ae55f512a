//! The view of who waits for whom (`ncclcheck waits`): one frozen value, and
//! its forms as text, as a graph for Graphviz and as JSON. What is alike is one
//! line in it already; the renderers only lay out.

use super::text::{BAD, BOLD, DIM, visible};
use serde::Serialize;
use std::io::{self, Write};

/// Who waits for whom in one job.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Waits {
    /// `ncclcheck.waits/1`.
    pub schema: &'static str,
    /// One sentence.
    pub summary: String,
    /// What was read, one phrase each (`Flight Recorder dumps of ranks 0-7`).
    pub read: Vec<String>,
    /// Where the waits end: whom or what to look at, the one that holds up most first.
    pub roots: Vec<Root>,
    /// Who stands in which operation and whom that lacks.
    pub waits: Vec<Wait>,
    /// How far the ranks have come in each group.
    pub groups: Vec<Group>,
    /// Where ranks stand in their programs, by stacks that were given.
    pub stacks: Vec<Stack>,
    /// Last step or batch that ranks tell of.
    pub steps: Vec<Step>,
    /// What is odd about the input.
    pub problems: Vec<String>,
    /// What the input does not show and what to collect.
    pub not_seen: Vec<String>,
}

/// The end of a chain of waits.
#[derive(Debug, Clone, Serialize)]
pub struct Root {
    /// `missing`, `no-dump`, `mismatch`, `order`, `p2p`, `stuck`, `late`; `no-answer`: RAS hears nothing of it.
    pub kind: &'static str,
    /// Whom to look at, as ranges; empty where no rank is to blame.
    pub ranks: String,
    /// The group.
    pub group: String,
    /// The operation.
    pub op: String,
    /// One sentence.
    pub detail: String,
    /// Who waits there, as ranges.
    pub waiting: String,
    /// Who waits for those, as ranges.
    pub behind: String,
    /// `certain`, `likely`, `guess`.
    pub sure: &'static str,
    /// The stack lines of who is to be looked at, innermost first.
    pub at: Vec<String>,
    /// Those of one that waits.
    pub waiter_at: Vec<String>,
}

/// One operation, or several alike, in which ranks stand.
#[derive(Debug, Clone, Serialize)]
pub struct Wait {
    /// Who stands there, as ranges.
    pub ranks: String,
    /// The operation.
    pub op: String,
    /// The group, or how many alike.
    pub group: String,
    /// Whom it lacks, with the reason; empty where all have come.
    pub lacks: Vec<(String, &'static str)>,
    /// Who else belongs to it is not known.
    pub loose: bool,
}

/// How far ranks have come in a group, or in several alike.
#[derive(Debug, Clone, Serialize)]
pub struct Group {
    /// Name, or how many alike.
    pub name: String,
    /// Members, as ranges.
    pub members: String,
    /// There may be more members than are known.
    pub open: bool,
    /// Ranks that have come equally far.
    pub fronts: Vec<Front>,
}

/// Ranks that have come equally far in a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Front {
    /// As ranges.
    pub ranks: String,
    /// Last operation handed over; null where that is not known.
    pub entered: Option<i64>,
    /// Last one finished.
    pub finished: Option<i64>,
    /// Whether anything is given of it.
    pub known: bool,
}

/// Ranks that stand at one place of the program.
#[derive(Debug, Clone, Serialize)]
pub struct Stack {
    /// As ranges; processes whose rank is not known are named instead.
    pub who: String,
    /// Innermost first.
    pub at: Vec<String>,
    /// What took the stack, and where.
    pub source: String,
}

/// Ranks at one step.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// As ranges.
    pub ranks: String,
    /// Step or batch.
    pub step: i64,
}

/// Most lines of a table in the short form.
const SHORT: usize = 24;

/// The form for people.
///
/// # Errors
/// Only what the writer answers.
pub fn write(view: &Waits, width: usize, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    let most = if verbose { usize::MAX } else { SHORT };
    writeln!(out, "{BOLD}{}{BOLD:#}", visible(&view.summary))?;
    if !view.read.is_empty() {
        wrapped(out, width, "  from ", &view.read.join("; "))?;
    }
    for (n, root) in view.roots.iter().take(if verbose { usize::MAX } else { 4 }).enumerate() {
        let title = if view.roots.len() > 1 { format!("Root {}", n + 1) } else { "Root".into() };
        writeln!(out, "\n{BAD}{title}{BAD:#}  {}, {}", root.kind, root.sure)?;
        wrapped(out, width, "  ", &root.detail)?;
        for (what, list) in [("  it stands at ", &root.at), ("  a waiting rank stands at ", &root.waiter_at)]
        {
            if let Some(first) = list.first() {
                wrapped(out, width, what, first)?;
            }
        }
        if !root.behind.is_empty() {
            wrapped(out, width, "  behind it wait ", &ranks(&root.behind, 200))?;
        }
    }
    let list = &view.waits;
    if !list.is_empty() {
        let rows: Vec<[String; 3]> = list.iter().take(most).map(wait_row).collect();
        table(out, width, ["Ranks", "stand in", "and wait for"], &rows)?;
        left(out, list.len(), most)?;
    }
    let list: Vec<[String; 4]> = view.groups.iter().flat_map(group_rows).collect();
    if !list.is_empty() {
        let shown: Vec<[String; 4]> = list.iter().take(most * 2).cloned().collect();
        table(out, width, ["Group", "ranks", "entered", "finished"], &shown)?;
        left(out, list.len(), most.saturating_mul(2))?;
    }
    if !view.stacks.is_empty() {
        let row =
            |s: &Stack| [ranks(&s.who, 30), s.at.first().cloned().unwrap_or_default(), s.source.clone()];
        let rows: Vec<[String; 3]> = view.stacks.iter().take(most).map(row).collect();
        table(out, width, ["Ranks", "stack at", "by"], &rows)?;
        left(out, view.stacks.len(), most)?;
    }
    if !view.steps.is_empty() {
        let rows: Vec<[String; 2]> =
            view.steps.iter().take(most).map(|s| [ranks(&s.ranks, 60), s.step.to_string()]).collect();
        table(out, width, ["Ranks", "last step"], &rows)?;
    }
    for (title, list) in [("Odd about the input", &view.problems), ("What to collect", &view.not_seen)] {
        if !list.is_empty() {
            writeln!(out, "\n{BOLD}{title}{BOLD:#}")?;
        }
        for text in list.iter().take(most) {
            wrapped(out, width, "  ", text)?;
        }
    }
    Ok(())
}

/// A text of ranges, cut where it is long, with its count then.
fn ranks(text: &str, most: usize) -> String {
    let cut = super::text::shorten_ranges(text, most);
    match count(text) {
        _ if cut == text => cut,
        0 => cut,
        n => format!("{cut} ({n} ranks)"),
    }
}

fn count(ranges: &str) -> usize {
    crate::base::RankSet::parse(ranges).map_or(0, |r| r.len())
}

fn wait_row(w: &Wait) -> [String; 3] {
    let mut what: Vec<String> = w
        .lacks
        .iter()
        .take(3)
        .map(|(r, why)| format!("{} {} ({why})", if count(r) == 1 { "rank" } else { "ranks" }, ranks(r, 30)))
        .collect();
    if w.lacks.len() > 3 {
        what.push(format!("{} more", w.lacks.len() - 3));
    }
    let what = match (what.is_empty(), w.loose) {
        (false, _) => what.join(", "),
        (true, true) => "somebody that the input does not show".into(),
        (true, false) => "its end: all have entered it".into(),
    };
    [ranks(&w.ranks, 30), format!("{} of {}", w.op, w.group), what]
}

fn group_rows(g: &Group) -> Vec<[String; 4]> {
    let number = |n: Option<i64>, known: bool| match n {
        Some(n) => n.to_string(),
        None if known => "-".into(),
        None => "?".into(),
    };
    let row = |(n, f): (usize, &Front)| {
        let name = if n == 0 { g.name.clone() } else { String::new() };
        [
            name,
            ranks(&f.ranks, 34),
            number(f.entered, f.known),
            number(f.finished, f.known && f.entered.is_none_or(|e| e < 1)),
        ]
    };
    let mut rows: Vec<[String; 4]> = g.fronts.iter().take(8).enumerate().map(row).collect();
    if g.fronts.len() > 8 {
        rows.push([
            String::new(),
            format!("{} more places", g.fronts.len() - 8),
            String::new(),
            String::new(),
        ]);
    }
    if g.open {
        rows.push([String::new(), "(more members, not known)".into(), String::new(), String::new()]);
    }
    rows
}

fn left(out: &mut dyn Write, all: usize, most: usize) -> io::Result<()> {
    if all > most {
        writeln!(out, "  {DIM}and {} more lines: --verbose shows them{DIM:#}", all - most)?;
    }
    Ok(())
}

fn wrapped(out: &mut dyn Write, width: usize, lead: &str, text: &str) -> io::Result<()> {
    let text = visible(text);
    let indent = lead.len().min(12);
    let mut line = lead.to_string();
    let mut used = lead.len();
    for word in text.split(' ') {
        let len = unicode_width::UnicodeWidthStr::width(word);
        if used + len + 1 > width.max(40) && used > indent {
            writeln!(out, "{}", line.trim_end())?;
            line = " ".repeat(indent);
            used = indent;
        }
        line.push_str(word);
        line.push(' ');
        used += len + 1;
    }
    writeln!(out, "{}", line.trim_end())
}

/// A table whose last column takes what is left and is not cut.
fn table<const N: usize>(
    out: &mut dyn Write,
    width: usize,
    head: [&str; N],
    rows: &[[String; N]],
) -> io::Result<()> {
    let wide = |t: &str| unicode_width::UnicodeWidthStr::width(t);
    let rows: Vec<Vec<String>> = rows.iter().map(|r| r.iter().map(|c| visible(c)).collect()).collect();
    let mut widths: Vec<usize> = head.iter().map(|h| wide(h)).collect();
    for row in &rows {
        for (w, cell) in widths.iter_mut().zip(row) {
            *w = (*w).max(wide(cell)).min(width * 2 / 5);
        }
    }
    let line = |cells: &[String]| {
        let mut text = String::from("  ");
        for (at, (cell, w)) in cells.iter().zip(&widths).enumerate() {
            text.push_str(cell);
            if at + 1 < N {
                text.push_str(&" ".repeat(w.saturating_sub(wide(cell)) + 2));
            }
        }
        text.trim_end().to_string()
    };
    let head: Vec<String> = head.iter().map(|h| (*h).to_string()).collect();
    writeln!(out, "\n{BOLD}{}{BOLD:#}", line(&head))?;
    for row in &rows {
        writeln!(out, "{}", line(row))?;
    }
    Ok(())
}

/// The graph in Graphviz's language: ranks are ellipses, operations boxes, roots red.
///
/// # Errors
/// Only what the writer answers.
pub fn write_dot(view: &Waits, out: &mut dyn Write) -> io::Result<()> {
    let quote = |t: &str| format!("\"{}\"", visible(t).replace('\\', "\\\\").replace('"', "\\\""));
    writeln!(out, "digraph waits {{\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];")?;
    let who = |r: &str| quote(&format!("{} {}", if count(r) == 1 { "rank" } else { "ranks" }, ranks(r, 60)));
    for root in view.roots.iter().filter(|r| !r.ranks.is_empty()) {
        writeln!(out, "  {} [style=filled, fillcolor=\"#f4b6b6\"];", who(&root.ranks))?;
    }
    for wait in &view.waits {
        let place = quote(&format!("{} of {}", wait.op, wait.group));
        writeln!(out, "  {place} [shape=box];")?;
        writeln!(out, "  {} -> {place};", who(&wait.ranks))?;
        for (lacked, why) in &wait.lacks {
            writeln!(out, "  {place} -> {} [label={}];", who(lacked), quote(why))?;
        }
        if wait.lacks.is_empty() && wait.loose {
            writeln!(out, "  {place} -> \"somebody not shown\" [style=dashed];")?;
        }
    }
    writeln!(out, "}}")
}

/// The JSON form, one object, with a line end.
///
/// # Errors
/// Only what the writer answers.
pub fn write_json(view: &Waits, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, view)?;
    out.write_all(b"\n")
}
