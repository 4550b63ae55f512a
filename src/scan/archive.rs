//! Archives in place: what members one has, what the first lines of a file or
//! member say, and, for an archive of many jobs, its members laid out in a
//! folder of their own, so that it is unpacked once and not once for each job.

use super::layout::{Head, Layouts};
use crate::input::{self, Given, Item, Lines, Unit};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Bytes in which a head is looked for.
const HEAD: usize = 64 << 10;
/// Endings of archives, in lower case; what holds one file is no archive.
const ENDINGS: [&str; 16] = [
    ".tar",
    ".tar.gz",
    ".tgz",
    ".tar.zst",
    ".tar.zstd",
    ".tzst",
    ".tar.xz",
    ".txz",
    ".tar.bz2",
    ".tbz2",
    ".tbz",
    ".tb2",
    ".zip",
    ".tar.z",
    ".taz",
    ".tar.lz4",
];

/// Whether a name is that of an archive.
pub(super) fn is_archive(name: &str) -> bool {
    let name = name.to_lowercase();
    ENDINGS.iter().any(|e| name.ends_with(e))
}

/// A member of an archive.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Member {
    /// Folders and name, archives within archives among the folders.
    pub(super) parts: Vec<String>,
    /// Which of the folders are archives.
    pub(super) archives: Vec<usize>,
    /// Bytes, unpacked.
    pub(super) size: u64,
    /// What its first lines say.
    pub(super) head: Head,
}

fn unit(path: &Path) -> Option<Unit> {
    input::discover(&[Given::Path(path.to_path_buf())]).units.into_iter().next()
}

fn options() -> input::Options {
    input::Options { head: HEAD, ..input::Options::default() }
}

/// What the first lines of a file say; nothing where they cannot be read.
pub(super) fn head(path: &Path, layouts: &Layouts) -> Head {
    let mut out = Head::default();
    if let Some(unit) = unit(path) {
        input::read_unit(&unit, &options(), &Lines, &mut |item| match item {
            Item::Begin { .. } => ControlFlow::Continue(()),
            Item::Block { bytes, .. } => {
                out = layouts.head(&bytes[..bytes.len().min(HEAD)]);
                ControlFlow::Break(())
            }
            Item::Whole { .. } | Item::End { .. } => ControlFlow::Break(()),
        });
    }
    out
}

/// The members of an archive, in their order.
pub(super) fn list(path: &Path, layouts: &Layouts) -> Vec<Member> {
    let mut out: Vec<Member> = Vec::new();
    let Some(unit) = unit(path) else { return out };
    let label = unit.label.clone();
    // What is wrong with the archive itself comes as a source of its own, which is no member.
    let (mut fresh, mut inside) = (false, false);
    let options = input::Options { heads_only: true, ..options() };
    input::read_unit(&unit, &options, &Lines, &mut |item| {
        match item {
            Item::Begin { name, .. } => {
                let (parts, archives) = parts(name.strip_prefix(&label).unwrap_or(&name));
                (fresh, inside) = (!parts.is_empty(), !parts.is_empty());
                if inside {
                    out.push(Member { parts, archives, size: 0, head: Head::default() });
                }
            }
            Item::Block { bytes, .. } => {
                if let Some(member) = out.last_mut()
                    && std::mem::take(&mut fresh)
                {
                    member.head = layouts.head(&bytes[..bytes.len().min(HEAD)]);
                }
            }
            Item::Whole { .. } => {}
            Item::End { bytes, .. } => {
                if let Some(member) = out.last_mut()
                    && inside
                {
                    member.size = bytes;
                }
            }
        }
        ControlFlow::Continue(())
    });
    out
}

/// `!a/b.tar!c/d` is the folders a, b.tar and c, and d.
fn parts(below: &str) -> (Vec<String>, Vec<usize>) {
    let (mut parts, mut archives) = (Vec::new(), Vec::new());
    for (n, path) in below.split('!').skip(1).enumerate() {
        if n > 0 && !parts.is_empty() {
            archives.push(parts.len() - 1);
        }
        parts.extend(path.split('/').filter(|p| !p.is_empty() && *p != "." && *p != "..").map(String::from));
    }
    (parts, archives)
}

/// The member's name as reports have it, without that of the archive.
pub(super) fn shown(member: &Member) -> String {
    let mut out = String::new();
    for (n, part) in member.parts.iter().enumerate() {
        if n > 0 {
            out.push(if member.archives.contains(&(n - 1)) { '!' } else { '/' });
        }
        out.push_str(part);
    }
    out
}

/// A member that lies unpacked.
#[derive(Debug)]
pub(super) struct Spooled {
    /// Where it is.
    pub(super) path: PathBuf,
    /// What it is called: `logs.tar.gz!rank0.log`.
    pub(super) name: String,
    /// What was wrong with it.
    pub(super) problems: Vec<String>,
}

/// Lays out the members that are wanted, by their numbers in [`list`], and hands each out as soon as it lies there.
/// Gives what is wrong with the archive itself.
pub(super) fn spool(
    path: &Path,
    shown: &str,
    folder: &Path,
    wanted: &dyn Fn(usize) -> bool,
    ready: &mut dyn FnMut(usize, Spooled),
) -> io::Result<Vec<String>> {
    let Some(unit) = unit(path) else { return Err(io::ErrorKind::NotFound.into()) };
    let label = unit.label.clone();
    let mut number = 0usize;
    let mut open: Option<(BufWriter<File>, Spooled)> = None;
    let mut failed = None;
    let mut problems_of_archive = Vec::new();
    input::read_unit(&unit, &options(), &Lines, &mut |item| {
        let step = || -> io::Result<()> {
            match item {
                Item::Begin { name, .. } => {
                    let below = name.strip_prefix(&label).unwrap_or(&name);
                    open = None;
                    if !parts(below).0.is_empty() {
                        if wanted(number) {
                            let to = folder.join(number.to_string());
                            let file = BufWriter::with_capacity(256 << 10, File::create(&to)?);
                            let name = format!("{shown}{below}");
                            open = Some((file, Spooled { path: to, name, problems: Vec::new() }));
                        }
                        number += 1;
                    }
                }
                Item::Block { bytes, .. } | Item::Whole { bytes } => {
                    if let Some((file, _)) = &mut open {
                        file.write_all(&bytes)?;
                    }
                }
                Item::End { problems, .. } => match open.take() {
                    Some((mut file, mut spooled)) => {
                        file.flush()?;
                        spooled.problems = problems;
                        ready(number - 1, spooled);
                    }
                    None => problems_of_archive.extend(problems),
                },
            }
            Ok(())
        };
        match step() {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(problems_of_archive),
    }
}

/// Takes a member away again.
pub(super) fn remove(spooled: &Spooled) {
    let _ = fs::remove_file(&spooled.path);
}
