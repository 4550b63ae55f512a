//! The report: one frozen value ([`Report`]) and one renderer a form. Renderers
//! decide nothing; what is in the value was decided by `verdict`.

mod model;
pub mod text;
pub mod waits;

pub use model::*;

/// The JSON form, one object, with a line end.
///
/// # Errors
/// Only what the writer answers.
pub fn write_json(report: &Report, out: &mut dyn std::io::Write) -> std::io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    out.write_all(b"\n")
}
