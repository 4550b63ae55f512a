//! What lies in an archive: files with size, time and a mark of their content,
//! as they stand below the paths that were named. Links are not followed, so
//! that nothing is counted twice; nothing is opened here but for the mark.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

/// One file.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// From the root of the disk on; what the index knows it by.
    pub(super) path: PathBuf,
    /// As the user would name it.
    pub(super) shown: String,
    /// The named path's own name, and all below it; of a file that was named, the folder that it lies in, and its name.
    pub(super) parts: Vec<String>,
    /// The file itself was named.
    pub(super) given: bool,
    /// Bytes on the disk.
    pub(super) size: u64,
    /// When it was written, in nanoseconds since 1970.
    pub(super) mtime: i64,
}

/// Which files count, by their path below the path that was named.
#[derive(Debug, Clone, Default)]
pub struct Only {
    include: Option<GlobSet>,
    exclude: GlobSet,
}

impl Only {
    /// From globs: `*` stays within a folder, `**` does not; a glob without `/` is for names at any depth.
    ///
    /// # Errors
    /// The glob that is none, and why.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, String> {
        let set = |globs: &[String]| -> Result<GlobSet, globset::Error> {
            let mut all = GlobSetBuilder::new();
            for glob in globs {
                let whole = if glob.contains('/') { glob.clone() } else { format!("**/{glob}") };
                all.add(GlobBuilder::new(whole.trim_start_matches('/')).literal_separator(true).build()?);
                // A folder stands for all in it.
                let below = format!("{}/**", whole.trim_matches('/'));
                all.add(GlobBuilder::new(&below).literal_separator(true).build()?);
            }
            all.build()
        };
        let include = if include.is_empty() { None } else { Some(set(include).map_err(|e| e.to_string())?) };
        Ok(Self { include, exclude: set(exclude).map_err(|e| e.to_string())? })
    }

    fn takes(&self, path: &str) -> bool {
        self.include.as_ref().is_none_or(|i| i.is_match(path)) && !self.exclude.is_match(path)
    }
}

/// Everything below the roots, sorted by its parts, and what could not be looked at.
pub(super) fn find(roots: &[PathBuf], only: &Only) -> (Vec<Found>, Vec<(String, String)>) {
    let folders: Vec<PathBuf> = roots.iter().map(|r| folder(r)).collect();
    let names = root_names(&folders);
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for (root, name) in roots.iter().zip(names) {
        let below = real(root);
        for entry in walkdir::WalkDir::new(root).sort_by_file_name() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    let path = error.path().unwrap_or(root).display().to_string();
                    let what = error.io_error().map_or_else(|| error.to_string(), ToString::to_string);
                    problems.push((path, what));
                    continue;
                }
            };
            // The path that was named may itself be a link.
            let linked = entry.depth() == 0 && entry.path_is_symlink();
            if !(entry.file_type().is_file() || linked && entry.path().is_file()) {
                continue;
            }
            let relative = entry.path().strip_prefix(root).unwrap_or(entry.path());
            let mut parts = vec![name.clone()];
            let given = relative.as_os_str().is_empty();
            let of = if given { Path::new(below.file_name().unwrap_or_default()) } else { relative };
            parts.extend(of.components().filter_map(|c| match c {
                Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
                _ => None,
            }));
            if !only.takes(&parts[1.min(parts.len() - 1)..].join("/")) {
                continue;
            }
            match fs::metadata(entry.path()) {
                Ok(meta) => found.push(Found {
                    path: if given { below.clone() } else { below.join(relative) },
                    shown: entry.path().display().to_string(),
                    parts,
                    given,
                    size: meta.len(),
                    mtime: mtime(&meta),
                }),
                Err(error) => problems.push((entry.path().display().to_string(), error.to_string())),
            }
        }
    }
    // What two paths hold counts as the outer one has it.
    found.sort_by(|a, b| (&a.path, b.parts.len(), a.given).cmp(&(&b.path, a.parts.len(), b.given)));
    found.dedup_by(|a, b| a.path == b.path);
    found.sort_by(|a, b| a.parts.cmp(&b.parts));
    (found, problems)
}

/// The folder that a path stands for: itself, or that of the file that it is.
fn folder(root: &Path) -> PathBuf {
    match root.parent() {
        Some(parent) if root.is_file() && parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) if root.is_file() => parent.to_path_buf(),
        _ => root.to_path_buf(),
    }
}

/// A path as the index knows it: the same whichever way it was named.
pub(super) fn real(root: &Path) -> PathBuf {
    let folder = folder(root);
    let whole = fs::canonicalize(&folder).or_else(|_| std::path::absolute(&folder)).unwrap_or(folder);
    match root.file_name() {
        Some(name) if root.is_file() => whole.join(name),
        _ => whole,
    }
}

fn mtime(meta: &fs::Metadata) -> i64 {
    let since = meta.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    since.and_then(|d| i64::try_from(d.as_nanos()).ok()).unwrap_or(0)
}

/// The last part of each path, with as many before it as it takes to tell them apart.
fn root_names(roots: &[PathBuf]) -> Vec<String> {
    let parts: Vec<Vec<String>> = roots.iter().map(|r| normal_parts(r)).collect();
    let short = |n: usize, p: &[String]| p[p.len().saturating_sub(n)..].join("/");
    (0..parts.len())
        .map(|a| {
            let deep = (1..=parts[a].len().max(1)).find(|&n| {
                (0..parts.len()).all(|b| parts[a] == parts[b] || short(n, &parts[a]) != short(n, &parts[b]))
            });
            match short(deep.unwrap_or(usize::MAX), &parts[a]) {
                name if name.is_empty() => "root".into(),
                name => name,
            }
        })
        .collect()
}

fn normal_parts(root: &Path) -> Vec<String> {
    let upward = root.components().any(|c| c == Component::ParentDir);
    let whole = if upward { fs::canonicalize(root) } else { std::path::absolute(root) };
    let whole = whole.unwrap_or_else(|_| root.to_path_buf());
    let parts = whole.components().filter_map(|c| match c {
        Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
        _ => None,
    });
    parts.collect()
}

/// Pieces that a mark is made of, and the size of each.
const PIECES: u64 = 16;
const PIECE: u64 = 4096;

/// A mark of a file's content: its size and sixteen pieces of 4 KiB spread over it, the first and the last among them.
/// It is looked at only when size or time of a file have changed; a log that has grown, and a packed file with any
/// other content (its checksum stands at its end), have another one.
pub(super) fn mark(path: &Path, size: u64) -> io::Result<i64> {
    let mut file = File::open(path)?;
    let mut sum = twox_hash::XxHash64::with_seed(0);
    sum.write_u64(size);
    let mut piece = Vec::with_capacity(PIECE as usize);
    let whole = size <= PIECES * PIECE;
    for n in 0..if whole { 1 } else { PIECES } {
        piece.clear();
        file.seek(SeekFrom::Start((size.saturating_sub(PIECE) / (PIECES - 1)).saturating_mul(n).min(size)))?;
        (&mut file).take(if whole { PIECES * PIECE } else { PIECE }).read_to_end(&mut piece)?;
        sum.write(&piece);
    }
    // 0 stands for: not known.
    Ok((sum.finish() | 1).cast_signed())
}
