//! What programs themselves put at the start of a line: NCCL's header in all
//! its ages (`nccl`), the C++ logs of torch and glog (`glog`), Python's
//! logging in its usual layouts (`pylog`), and the places inside a line where
//! another writer's message begins (`mid`). Launchers' prefixes must be off
//! already (see `prefix`); what the text behind a header means is not asked here.

mod glog;
mod mid;
mod nccl;
mod pylog;

#[cfg(test)]
mod tests;

pub use glog::{Glog, glog};
pub(super) use mid::SLURM;
pub use mid::mid_starts;
pub use nccl::{Level, NcclHeader, Quick, nccl_header, nccl_quick};
pub use pylog::{PyLog, pylog};
