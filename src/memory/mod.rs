//! NCCL's memory: what it takes of a GPU and of the host, and why. `sizes` are
//! the constants of a release, `connection` what one connection takes, `plan`
//! what a communicator takes that is described by a few numbers, `changes`
//! what a variable would free, `refused` what a size stands for that was
//! asked for in vain. The other half reads: `lines` are the lines of NCCL's
//! log that tell of memory, `tally` adds them up for a process, `reading`
//! says what one process holds, measured or computed, `account` what a job's
//! do, `allocator` what a framework says that gives up, and `compare` which
//! rank differs. Pure code over numbers and texts: constants and advice
//! stand in `rules/tables/memory.toml`, each with its place in NCCL's source.

mod account;
mod allocator;
mod changes;
mod compare;
mod connection;
mod lines;
mod plan;
mod reading;
mod refused;
mod runs;
mod sizes;
mod tally;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_log;

pub use account::{
    Account, Elsewhere, How, Input, Item, ProcessAccount, ProcessSeen, Refused, RefusedSeen, account, plan_of,
};
pub use allocator::{Allocator, Held, Holder};
pub use changes::{Effect, effect, effects, has_part};
pub use connection::{Direction, Transport, connection};
pub use lines::{Algorithm, Counts, Line, NvlsSize, parse};
pub use plan::{Local, Part, Plan, Shape, Total, Uses, compute, power_of_two_up, total};
pub use refused::{Meaning, meanings};
pub use sizes::{Env, Sizes};
pub use tally::{Kind, Sum, Tally};

/// 2^20.
pub const MIB: u64 = 1 << 20;

/// A sum of bytes that stops at the end of the numbers.
fn sum(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

/// From the fewest to the most bytes that something can take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Span {
    /// At least.
    pub least: u64,
    /// At most.
    pub most: u64,
}

impl Span {
    /// Exactly so much.
    #[must_use]
    pub fn of(bytes: u64) -> Self {
        Self { least: bytes, most: bytes }
    }

    /// Between two.
    #[must_use]
    pub fn between(least: u64, most: u64) -> Self {
        Self { least: least.min(most), most: most.max(least) }
    }

    /// So often.
    #[must_use]
    pub fn times(self, n: u64) -> Self {
        Self { least: self.least.saturating_mul(n), most: self.most.saturating_mul(n) }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }
}
