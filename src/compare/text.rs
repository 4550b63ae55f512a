//! The comparison for people: a screenful, everything with `-v`.

use super::find::values;
use super::model::{Change, Comparison, Difference, Section, Side};
use crate::report::text::{BAD, BOLD, CODE, DIM, GOOD, PLAIN, Page, WARN, visible};
use crate::report::{Evidence, Verdict};
use std::io::{self, Write};

const ALL: usize = usize::MAX;
/// Differences of one part that are shown.
const SHOWN: usize = 6;

/// Writes the comparison, with ANSI styles that the caller's stream strips where they are not wanted.
///
/// # Errors
/// Only what the writer answers.
pub fn write(c: &Comparison, width: usize, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(width);
    page.flow("", "", &[(BOLD, visible(&c.summary))], ALL);
    page.blank();
    side("Good", &c.good, &mut page);
    side("Bad", &c.bad, &mut page);
    let mut hidden = 0;
    for (heading, list) in parts(&c.differences) {
        page.heading(heading);
        let most = if verbose { ALL } else { SHOWN };
        for d in list.iter().take(most) {
            one(d, verbose, &mut page);
        }
        hidden += list.len().saturating_sub(most);
    }
    if !c.same.is_empty() {
        page.heading("The same in both");
        let most = if verbose { ALL } else { 4 };
        page.flow("  ", "  ", &[(PLAIN, visible(&c.same.join("; ")))], most);
    }
    if !c.not_compared.is_empty() {
        page.heading("Not compared");
        for text in &c.not_compared {
            page.flow("  - ", "    ", &[(PLAIN, visible(text))], ALL);
        }
    }
    if hidden > 0 || !verbose && c.differences.iter().any(|d| d.good_line.is_some() || d.bad_line.is_some()) {
        let more = if hidden > 0 { format!("{hidden} more difference(s) and ") } else { String::new() };
        page.blank();
        page.flow("  ", "  ", &[(DIM, format!("-v shows {more}the lines of both jobs."))], 2);
    }
    page.lines().iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn side(name: &str, side: &Side, page: &mut Page) {
    let (ink, word) = match side.verdict {
        Verdict::Fault => (BAD, "FAULT"),
        Verdict::Degraded => (WARN, "DEGRADED"),
        Verdict::Healthy => (GOOD, "HEALTHY"),
        Verdict::Inconclusive => (WARN, "INCONCLUSIVE"),
    };
    let mut spans = vec![(CODE, visible(&side.name)), (ink, word.into()), (PLAIN, visible(&side.summary))];
    if let Some(cause) = &side.cause {
        spans.push((DIM, format!("[{}]", visible(cause))));
    }
    page.label(name, &spans, 3);
}

/// Differences by heading, in their order; a part that comes again later has a heading of its own.
fn parts(list: &[Difference]) -> Vec<(&'static str, Vec<&Difference>)> {
    let mut out: Vec<(&str, Vec<&Difference>)> = Vec::new();
    for d in list {
        let heading = match (d.section, d.change) {
            (_, Change::NotShown) => "Shown by one of them only",
            (Section::Message, Change::OnlyBad) if !d.note.contains("harmless") => {
                "New warnings and exceptions"
            }
            (Section::Message, _) => "Other messages of one of them only",
            (Section::Size, _) if d.name == "hosts" => "Hosts",
            (section, _) => section.heading(),
        };
        match out.last_mut() {
            Some((last, of)) if *last == heading => of.push(d),
            _ => out.push((heading, vec![d])),
        }
    }
    out
}

fn one(d: &Difference, verbose: bool, page: &mut Page) {
    let colon = if d.section == Section::Message { "" } else { ":" };
    let mut spans = vec![(BOLD, format!("{}{colon}", visible(&d.name)))];
    let mut more = Vec::new();
    match (d.section, d.change) {
        (Section::Message, Change::OnlyGood) => more.push(format!("{} in the good one", d.good.join(", "))),
        (Section::Message, _) => more.push(d.bad.join(", ")),
        _ => spans.push((PLAIN, visible(&values(d)))),
    }
    if !d.ranks.is_empty() && !d.note.contains("rank ") && !d.bad.iter().any(|b| b.contains("rank ")) {
        more.push(format!("rank {}", d.ranks));
    }
    if !d.note.is_empty() {
        more.push(d.note.clone());
    }
    if !more.is_empty() {
        spans.push((DIM, format!("({})", visible(&more.join("; ")))));
    }
    page.flow("  - ", "    ", &spans, if verbose { ALL } else { 3 });
    let message = d.section == Section::Message && d.bad_line.is_some();
    if verbose || message {
        let lines = [("good", &d.good_line), ("bad", &d.bad_line)];
        for (name, line) in lines.into_iter().filter(|(n, _)| verbose || *n == "bad") {
            if let Some(line) = line {
                quote(name, line, verbose, page);
            }
        }
    }
}

fn quote(side: &str, line: &Evidence, whole: bool, page: &mut Page) {
    let spot = format!("{}:{}", visible(&line.source), line.line);
    let rank = line.rank.map_or(String::new(), |r| format!("rank {r}"));
    let mut text = visible(&line.text);
    if line.cut && !text.ends_with('…') {
        text.push('…');
    }
    page.quote_in(4, &[(DIM, side.into()), (CODE, spot), (DIM, rank)], &text, whole);
}
