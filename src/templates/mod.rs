//! Lines that nobody knows, by template. `shape` takes from a line what varies
//! from run to run (numbers, addresses, paths, times, ids), `store` counts the
//! shapes of one job and of many, and `mine` puts shapes together that differ
//! in one word only. Everything is a pure function of the set of lines: the
//! order in which lines, jobs or stores come does not matter. What is kept is
//! bounded; a store can be written down, read again and merged with others,
//! so that an index of many jobs can be fed piece by piece.
//! `draft` writes the beginning of a message and a rule for a template.

mod draft;
mod mine;
mod shape;
mod store;

pub use draft::{Draft, draft};
pub use shape::{body, is_code, shape};
pub use store::{Cluster, Example, JobTemplates, Jobs, Outcome, Seen, Shape, Store};

#[cfg(test)]
mod tests;
