//! What a combination of events means. A rule looks only at the job; it comes
//! out as a finding with its evidence and who is to blame, or not at all.
//! What data cannot say is in `detectors`. Neighbours: `verdict` orders the
//! findings into cause and consequence.

mod bugs;
mod check;
mod cond;
mod detectors;
mod eval;
mod words;

pub use bugs::{Known, known};
pub use check::check;
pub use cond::Context;
pub use eval::{Asked, Asks, Finding, Way, evaluate, ways};
pub use words::condition;

use crate::base::RankSet;
use std::collections::BTreeSet;

/// Who is to blame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blamed {
    /// Global ranks.
    pub ranks: RankSet,
    /// Hosts.
    pub hosts: BTreeSet<String>,
    /// Bus ids and adapters.
    pub devices: BTreeSet<String>,
}

impl Blamed {
    /// Adds what another one names.
    pub fn extend(&mut self, other: &Self) {
        self.ranks.extend(&other.ranks);
        self.hosts.extend(other.hosts.iter().cloned());
        self.devices.extend(other.devices.iter().cloned());
    }
}
