//! What every room needs and what knows no other room: sets of ranks, sizes
//! with units, release numbers, times, errors.

pub mod number;
mod ranks;
mod release;
mod stamp;
mod units;

pub use ranks::RankSet;
pub use release::{Release, ReleaseRange};
pub use stamp::Stamp;
pub use units::{bytes_text, parse_bytes};

/// What a text begins with that a draft leaves to a person; no check passes it.
pub const FILL: &str = "FILL:";

/// What can go wrong for good; everything that can be lived with is a
/// problem in the report instead (see the `report` room).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No path could be read and nothing stood on standard input.
    #[error("{0}")]
    NoInput(String),
    /// A rule or message file is wrong; the text names file, place and reason.
    #[error("{0}")]
    Knowledge(String),
    /// Reading or writing failed in a way that leaves nothing to report.
    #[error("{path}: {source}")]
    Io {
        /// The path as the user gave it.
        path: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A run was asked for that the input does not hold.
    #[error("--attempt {wanted}: this input holds {there} run(s)")]
    NoSuchRun {
        /// Number from 1.
        wanted: usize,
        /// Runs that there are.
        there: usize,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
