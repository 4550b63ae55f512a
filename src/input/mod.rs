//! (being built)
use std::path::PathBuf;
/// What the user named.
#[derive(Debug, Clone)]
pub enum Given {
    /// A file or folder.
    Path(PathBuf),
    /// Standard input.
    Stdin,
    /// Bytes of a program that uses the library.
    Bytes {
        /// Shown as its path.
        name: String,
        /// Content.
        data: Vec<u8>,
    },
}
