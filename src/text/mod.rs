//! Text: from the bytes of a block to lines whose writer, time and level are
//! known. `prefix` takes off what launchers and wrappers put before a line,
//! `header` reads what the program itself put there (NCCL, glog, Python
//! logging), `time` reads every form of a time, `shape` tells from the head
//! of a source how it was written down, and `clean` undoes colour codes,
//! progress bars, JSON wrapping and broken lines where a block needs it.
//! Everything here is pure over bytes and knows nothing of what lines mean:
//! that is the catalogue's.

mod clean;
mod gate;
mod header;
mod json;
mod prefix;
mod scan;
mod shape;
mod time;

pub use clean::{Cleaned, LineMap, clean, is_dirty};
pub use gate::{
    Bulk, Hit, Line, Opened, Opening, Piece, Scanned, Scanner, Scratch, Spoke, View, Who, looks_torn, who,
};
pub use header::{Glog, Level, NcclHeader, PyLog, Quick, glog, mid_starts, nccl_header, nccl_quick, pylog};
pub use prefix::{Prefix, split_prefix};
pub use shape::{ShapeFacts, cut, facts};
pub use time::{seconds, stamp};
