//! What explains what. Findings become diagnoses: those that others explain
//! stand under them, the rest is ordered, its confidence weighed, and the
//! advice checked against the job. Neighbours: `rules` gives the findings,
//! `report` prints the value that is built here.

mod advice;
mod build;
mod mask;
mod model;
mod order;
mod settings;
mod timeline;
mod waits;

pub use build::{build, evidence_of};
pub(crate) use mask::mask;
pub use order::{Ordered, order};
pub use waits::waits;
