//! Many jobs at once: an archive of logs is put into jobs, each is diagnosed by
//! the engine, and one record a job comes out. What has been read is kept in
//! an index, so a second scan reads only what is new or has grown.
//!
//! `files` finds, `layout` reads names, `group` puts files into jobs, `archive`
//! looks into archives, `plan` ties these together; `work` diagnoses on all
//! cores with bounded memory; `record` is what comes out of a job, `index`
//! keeps it, `write` prints it; `fleet` counts over many jobs, `print`,
//! `memory` and `solved` find jobs that failed alike and what came after, `shard` divides and merges.

mod archive;
mod files;
mod fleet;
mod group;
mod index;
mod layout;
mod memory;
mod plan;
mod print;
mod record;
mod shard;
mod solved;
mod summary;
#[cfg(test)]
mod tests;
mod unknown;
mod work;
mod write;

pub use files::Only;
pub use fleet::{Blamed, CauseRow, Fleet};
pub use group::{Group, GroupBy};
pub use index::{Entry, Index};
pub use memory::remember;
pub use plan::{Options, Plan, plan, several};
pub use record::{COLUMNS, Record, SCHEMA, Type, Value};
pub use shard::{Merged, Shard, merge, read_records};
pub use summary::{Form, jobs_table, overview};
pub use unknown::{Remembered, unknown};
pub use work::{Outcome, Watch, run};
pub use write::{Table, write};

/// What is wrong with the layouts of the knowledge, one sentence each.
#[must_use]
pub fn check_layouts(knowledge: &crate::knowledge::Knowledge) -> Vec<String> {
    layout::check(&knowledge.tables.layouts)
}
