//! Standard output and standard error: the report and nothing else on the one,
//! one line for what went wrong on the other. A reader that went away is no
//! fault: writing stops and the verdict stays what it is.

use super::args::When;
use crate::report::text::visible;
use anstream::{AutoStream, ColorChoice};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// Nothing wrong was found, or it was done.
pub(super) const FINE: u8 = 0;
/// Something wrong was found, or what was asked for is not known.
pub(super) const FOUND: u8 = 1;
/// Wrong usage, or nothing could be read.
pub(super) const USAGE: u8 = 2;

/// Why a command could not do its work: one line for standard error.
pub(super) type Fail = String;

/// Writes to standard output and answers with the exit status `code`, unless writing failed.
pub(super) fn print(
    color: When,
    code: u8,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<u8, Fail> {
    let stdout = io::stdout().lock();
    let choice = match color {
        When::Auto => AutoStream::choice(&stdout),
        When::Always => ColorChoice::Always,
        When::Never => ColorChoice::Never,
    };
    let mut out = BufWriter::with_capacity(1 << 16, AutoStream::new(stdout, choice));
    match fill(&mut out).and_then(|()| out.flush()) {
        Ok(()) => Ok(code),
        Err(err) if err.kind() == io::ErrorKind::BrokenPipe => {
            // What is left in the buffer has no reader; dropping it must not write again.
            let _ = out.into_parts();
            Ok(code)
        }
        Err(err) => Err(format!("standard output: {err}")),
    }
}

/// One line on standard error.
pub(super) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "ncclcheck: {}", visible(text.trim_end()));
}

/// The status of the process, with a line on standard error where there is none.
pub(super) fn status(result: Result<u8, Fail>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(fail) => {
            fail.lines().for_each(complain);
            ExitCode::from(USAGE)
        }
    }
}

/// Columns of the terminal that standard output is, or 100.
pub(super) fn columns() -> usize {
    terminal_size::terminal_size_of(io::stdout()).map_or(100, |(width, _)| usize::from(width.0)).max(20)
}
