//! `ncclcheck waits [PATH…]`: who waits for whom.

use super::args::{Global, Waits, WaitsFormat};
use super::out::{FINE, FOUND, Fail, columns, print};
use super::sources;
use crate::report::waits;

pub(super) fn run(global: &Global, args: &Waits) -> Result<u8, Fail> {
    let (given, options) = sources::given(&args.sources)?;
    let engine = sources::engine(global)?;
    let view = engine.waits(&given, &options).map_err(|err| err.to_string())?;
    let code = if view.roots.is_empty() && view.waits.is_empty() { FINE } else { FOUND };
    print(global.color, code, |out| match args.format {
        _ if args.dot => waits::write_dot(&view, out),
        WaitsFormat::Dot => waits::write_dot(&view, out),
        WaitsFormat::Json => waits::write_json(&view, out),
        WaitsFormat::Text => {
            waits::write(&view, args.width.map_or_else(columns, usize::from), args.verbose, out)
        }
    })
}
