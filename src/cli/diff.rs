//! `ncclcheck diff GOOD BAD`: what differs between two jobs.

use super::args::{Diff, Format, Global};
use super::out::{FINE, Fail, columns, print};
use super::sources;
use crate::compare;

pub(super) fn run(global: &Global, args: &Diff) -> Result<u8, Fail> {
    let stdin = |path: &std::path::Path| path.as_os_str() == "-";
    if stdin(&args.good) && stdin(&args.bad) {
        return Err("only one of the two jobs can come from standard input".into());
    }
    let (good, options) = sources::one(&args.good, args.threads)?;
    let (bad, _) = sources::one(&args.bad, args.threads)?;
    let engine = sources::engine(global)?;
    let names = (args.good.display().to_string(), args.bad.display().to_string());
    let found = engine.compare(&good, &bad, names, &options).map_err(|err| err.to_string())?;
    print(global.color, FINE, |out| match args.format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &found)?;
            out.write_all(b"\n")
        }
        Format::Text => {
            compare::write(&found, args.width.map_or_else(columns, usize::from), args.verbose, out)
        }
    })
}
