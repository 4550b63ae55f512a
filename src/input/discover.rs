//! From what the user named to the list of things to read: folders are
//! walked, duplicates dropped, and the order made independent of the order of
//! arguments. Nothing is opened here; reading is in `source`.

use std::collections::BTreeMap;
use std::fs::{self, FileType};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// What the user named.
#[derive(Debug, Clone)]
pub enum Given {
    /// A file, a folder, a named pipe, a device.
    Path(PathBuf),
    /// Standard input.
    Stdin,
    /// A file that is called something else in the report: a member of an archive that lies unpacked.
    Named {
        /// What it is called.
        name: String,
        /// Where it is.
        path: PathBuf,
    },
    /// Bytes that another program has in its hands.
    Bytes {
        /// What they are called in the report.
        name: String,
        /// The bytes.
        data: Vec<u8>,
    },
}

/// One top-level thing to be read.
#[derive(Debug, Clone)]
pub struct Unit {
    /// The path as the user gave it, joined by `/`; `-` for standard input.
    pub label: String,
    pub(super) origin: Origin,
}

/// Where the bytes of a unit come from.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// A regular file.
    File(PathBuf),
    /// A pipe or device, which may block and cannot be searched.
    Pipe(PathBuf),
    /// Standard input.
    Stdin,
    /// Bytes in memory.
    Bytes(Arc<Vec<u8>>),
}

impl Unit {
    /// The path to open, where the unit has one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.origin {
            Origin::File(path) | Origin::Pipe(path) => Some(path),
            Origin::Stdin | Origin::Bytes(_) => None,
        }
    }

    /// How many bytes the unit has now, packed as it is; not known of pipes.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        match &self.origin {
            Origin::File(path) => fs::metadata(path).ok().map(|m| m.len()),
            Origin::Bytes(data) => Some(data.len() as u64),
            Origin::Pipe(_) | Origin::Stdin => None,
        }
    }
}

/// A path that could not be looked at, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The path as the user gave it.
    pub path: String,
    /// The system's answer.
    pub what: String,
}

/// What there is to read.
#[derive(Debug, Clone, Default)]
pub struct Discovered {
    /// Sorted by label, each file once.
    pub units: Vec<Unit>,
    /// Sorted by path.
    pub problems: Vec<Problem>,
}

/// Finds what there is to read. Folders are walked, hidden files and symbolic
/// links included; pipes, sockets and devices only count when named outright.
/// A file that is reached by several paths is read once.
#[must_use]
pub fn discover(given: &[Given]) -> Discovered {
    let mut found = Found::default();
    for one in given {
        match one {
            Given::Stdin => found.stdin = true,
            Given::Bytes { name, data } => {
                found.bytes.push(Unit { label: name.clone(), origin: Origin::Bytes(Arc::new(data.clone())) })
            }
            Given::Named { name, path } => {
                let unit = (false, name.clone(), Origin::File(path.clone()));
                found.paths.insert(path.clone(), unit);
            }
            Given::Path(path) => found.path(path),
        }
    }
    found.finish()
}

#[derive(Default)]
struct Found {
    stdin: bool,
    bytes: Vec<Unit>,
    /// By canonical path; the value is the best name, worst names being links.
    paths: BTreeMap<PathBuf, (bool, String, Origin)>,
    problems: Vec<Problem>,
}

impl Found {
    fn path(&mut self, path: &Path) {
        match fs::metadata(path) {
            Err(error) => self.problem(path, &error.to_string()),
            Ok(meta) if meta.is_dir() => self.folder(path),
            Ok(meta) => self.add(path, meta.file_type()),
        }
    }

    fn folder(&mut self, root: &Path) {
        for entry in walkdir::WalkDir::new(root).follow_links(true) {
            match entry {
                Ok(entry) if entry.file_type().is_file() => {
                    self.add(entry.path(), entry.file_type());
                }
                Ok(_) => {}
                // A link to a folder above it: all of it is walked already.
                Err(error) if error.loop_ancestor().is_some() => {}
                Err(error) => {
                    let what = error.io_error().map_or_else(|| error.to_string(), ToString::to_string);
                    self.problem(error.path().unwrap_or(root), &what);
                }
            }
        }
    }

    fn add(&mut self, path: &Path, kind: FileType) {
        let path_buf = path.to_path_buf();
        let origin = if kind.is_file() {
            Origin::File(path_buf)
        } else if special(kind) {
            Origin::Pipe(path_buf)
        } else {
            return self.problem(path, "neither a file nor a folder nor a pipe");
        };
        let link = fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink());
        let name = (link, label(path), origin);
        let key = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        match self.paths.get_mut(&key) {
            Some(known) if (known.0, &known.1) <= (name.0, &name.1) => {}
            Some(known) => *known = name,
            None => {
                self.paths.insert(key, name);
            }
        }
    }

    fn problem(&mut self, path: &Path, what: &str) {
        self.problems.push(Problem { path: label(path), what: what.to_owned() });
    }

    fn finish(mut self) -> Discovered {
        let mut units = self.bytes;
        if self.stdin {
            units.push(Unit { label: "-".to_owned(), origin: Origin::Stdin });
        }
        units.extend((self.paths.into_values()).map(|(_, label, origin)| Unit { label, origin }));
        units.sort_by(|a, b| key(a).cmp(&key(b)));
        self.problems.sort();
        self.problems.dedup();
        Discovered { units, problems: self.problems }
    }
}

/// What units are sorted by: the label, and where that is the same what they hold.
fn key(unit: &Unit) -> (&str, u8, Option<&Path>, Option<&[u8]>) {
    match &unit.origin {
        Origin::File(path) | Origin::Pipe(path) => (&unit.label, 0, Some(path), None),
        Origin::Stdin => (&unit.label, 1, None, None),
        Origin::Bytes(data) => (&unit.label, 2, None, Some(data)),
    }
}

/// The path as shown: as given, joined by `/`, without `./`.
fn label(path: &Path) -> String {
    let mut shown = String::new();
    for part in path.components() {
        let text = match part {
            Component::CurDir => continue,
            Component::RootDir => {
                shown.push('/');
                continue;
            }
            other => other.as_os_str().to_string_lossy(),
        };
        if !shown.is_empty() && !shown.ends_with('/') {
            shown.push('/');
        }
        shown.push_str(&text);
    }
    if shown.is_empty() { ".".to_owned() } else { shown }
}

/// Whether it can be read like standard input.
#[cfg(unix)]
fn special(kind: FileType) -> bool {
    use std::os::unix::fs::FileTypeExt;
    kind.is_fifo() || kind.is_char_device() || kind.is_block_device()
}

#[cfg(not(unix))]
fn special(_kind: FileType) -> bool {
    true
}
