//! The report for a terminal and for a ticket: what it is, where, since when,
//! how sure, the lines that show it, what to do first, what could not be seen.
//! At most a screen unless asked for more: sections shrink step by step, and
//! the last line says what was left out. Parts of it are in `text/`: `page`
//! lays out, `words` puts things into words, `parts` writes the sections,
//! `limits` says how much of each.

mod limits;
mod page;
mod parts;
mod words;

pub(crate) use page::{BAD, BOLD, CODE, DIM, GOOD, PLAIN, Page, WARN};
pub(crate) use words::{shorten_ranges, visible};

use super::{Report, Verdict};
use limits::Limits;
use parts::Draft;
use std::io::{self, Write};

/// Lines that a screen holds.
const SCREEN: usize = 42;

/// How to draw.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Columns to use.
    pub width: usize,
    /// Everything instead of a screenful.
    pub verbose: bool,
}

/// Writes the report for people, with ANSI styles that the caller's stream strips where they are not wanted.
///
/// # Errors
/// Only what the writer answers.
pub fn write(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let page =
        if style.verbose { draw(report, style.width, Limits::none()) } else { fit(report, style.width) };
    for line in page.lines() {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The fullest form that still fits a screen.
fn fit(report: &Report, width: usize) -> Page {
    let mut page = draw(report, width, Limits::step(0));
    for step in 1..Limits::STEPS {
        if page.lines().len() <= page::lines_for(SCREEN, width) {
            break;
        }
        page = draw(report, width, Limits::step(step));
    }
    page
}

fn draw(report: &Report, width: usize, limits: Limits) -> Page {
    let mut draft = Draft::new(report, width, limits);
    draft.headline();
    match report.diagnoses.first() {
        Some(first) => {
            draft.facts(first);
            if report.verdict == Verdict::Inconclusive {
                draft.remedies(first, "What to do next");
                draft.missing("What to collect");
                draft.proof(first);
                draft.followed(first);
            } else {
                draft.proof(first);
                draft.followed(first);
                draft.remedies(first, "What to do first");
                draft.doubts(first);
                draft.others();
                draft.missing("Not visible in this input");
            }
        }
        None => {
            draft.job_facts();
            draft.missing(match report.verdict {
                Verdict::Inconclusive => "What to collect",
                _ => "Not visible in this input",
            });
        }
    }
    draft.notices();
    draft.problems();
    draft.everything_else();
    draft.left_out();
    draft.into_page()
}

#[cfg(test)]
mod tests;
