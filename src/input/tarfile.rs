//! Tar, read as a stream: members one after the other, each a source of its
//! own. The fields of headers are the `tar` crate's business; walking is done
//! here, so that names cannot fill the memory and damage is stepped over.

use std::io::{self, BufRead};

use tar::{EntryType, Header};

use super::feed::{Feed, fault, problem_of};
use super::member::{Counted, Part, clean};
use super::source::{Input, Nest, Reader};

const BLOCK: usize = 512;
/// Longest name or extended header that is looked at.
const LONGEST: u64 = 1 << 20;

/// Whether a header of tar stands here, told by its checksum.
pub(super) fn is_header(bytes: &[u8]) -> bool {
    let Some(block) = bytes.get(..BLOCK) else {
        return false;
    };
    let header = Header::from_byte_slice(block);
    let (Ok(sum), Ok(_)) = (header.cksum(), header.entry_size()) else {
        return false;
    };
    // Some old writers summed signed bytes.
    let (mut unsigned, mut signed) = (0u32, 0i64);
    for (i, &b) in block.iter().enumerate() {
        let b = if (148..156).contains(&i) { b' ' } else { b };
        unsigned += u32::from(b);
        signed += i64::from(b as i8);
    }
    sum == unsigned || i64::from(sum) == signed
}

/// Hands out the members.
pub(super) fn read(reader: &mut Reader<'_>, name: &str, feed: &mut Feed<'_>, nest: Nest) {
    let mut walk = Walk {
        budget: reader.options.caps.expanded,
        members: 0,
        long: None,
        size: None,
        mapped: false,
        problems: Vec::new(),
    };
    while !reader.stop() {
        match walk.step(reader, name, feed, nest) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                walk.problems.extend(problem_of(&error));
                break;
            }
        }
    }
    if walk.members == 0 && walk.problems.is_empty() && !reader.stop() {
        walk.problems.push("tar: holds no file".to_owned());
    }
    if !walk.problems.is_empty() {
        reader.failed(name, walk.problems);
    }
}

struct Walk {
    budget: u64,
    members: usize,
    /// Name and size of the next member, from headers that stand before it.
    long: Option<String>,
    size: Option<u64>,
    /// Its data begins with the map of a sparse file.
    mapped: bool,
    problems: Vec<String>,
}

impl Walk {
    /// Reads one header and what belongs to it; false at the end.
    fn step(
        &mut self,
        reader: &mut Reader<'_>,
        name: &str,
        feed: &mut Feed<'_>,
        nest: Nest,
    ) -> io::Result<bool> {
        let Some(header) = self.header(feed)? else {
            return Ok(false);
        };
        let kind = header.entry_type();
        let stored = header.entry_size()?;
        if let Some(extension) = extension(kind) {
            let text = extended(feed, stored)?;
            extension(self, &text);
            return Ok(true);
        }
        let member = self.long.take();
        let size = self.size.take().unwrap_or(stored);
        let member = member.unwrap_or_else(|| clean(&header.path_bytes()));
        if kind.is_gnu_sparse() {
            skip_sparse_map(&header, feed)?;
        }
        let map = if std::mem::take(&mut self.mapped) { skip_map_in_data(feed)? } else { 0 };
        let size = size.saturating_sub(map);
        let plain = matches!(kind, EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse);
        if !plain || member.ends_with('/') {
            let size = if kind.is_dir() || kind.is_symlink() { 0 } else { size };
            skip(feed, size)?;
            skip_padding(feed, size)?;
            return Ok(true);
        }
        if self.members == reader.options.caps.members {
            return Err(fault(format!("tar: holds more than {} files, the rest is not read", self.members)));
        }
        self.members += 1;
        let mut part = Part::new(feed, "tar", size);
        let mut counted = Counted::new(&mut part, "tar", &mut self.budget, None);
        reader.source(&format!("{name}!{member}"), Input::Stream(&mut counted), nest);
        let (left, told) = (part.left, part.told);
        if told || self.budget == 0 || reader.stop() {
            return Ok(false);
        }
        skip(feed, left)?;
        skip_padding(feed, size)?;
        Ok(true)
    }

    /// The next header, stepping over damage; none at the end.
    fn header(&mut self, feed: &mut Feed<'_>) -> io::Result<Option<Header>> {
        let mut zeros = false;
        let mut skipped = 0u64;
        let found = loop {
            let block = feed.want(BLOCK);
            if is_header(block) {
                let header = Header::from_byte_slice(&block[..BLOCK]).clone();
                feed.consume(BLOCK);
                break Some(header);
            }
            let (n, zero) = (block.len(), block.iter().all(|&b| b == 0));
            let ended = n < BLOCK;
            zeros |= zero && n > 0 && skipped == 0;
            if !zeros {
                skipped += n.min(BLOCK) as u64;
            }
            feed.consume(n.min(BLOCK));
            if ended {
                // Tells a failure, where that is why it ends here.
                feed.fill_buf()?;
                break None;
            }
        };
        if skipped > 0 {
            self.problems.push(match found {
                Some(_) => format!("tar: damaged, {skipped} bytes between members not read"),
                None => format!("tar: damaged or cut, the last {skipped} bytes not read"),
            });
        }
        Ok(found)
    }
}

type Extension = fn(&mut Walk, &[u8]);

/// What to do with a header that only describes the next member.
fn extension(kind: EntryType) -> Option<Extension> {
    match kind {
        EntryType::GNULongName => Some(|walk, text| walk.long = Some(clean(text))),
        EntryType::XHeader => Some(|walk, text| {
            for pair in tar::PaxExtensions::new(text).flatten() {
                match pair.key_bytes() {
                    b"path" | b"GNU.sparse.name" => walk.long = Some(clean(pair.value_bytes())),
                    b"GNU.sparse.major" => walk.mapped = pair.value_bytes() == b"1",
                    b"size" => walk.size = pair.value().ok().and_then(|v| v.parse().ok()),
                    _ => {}
                }
            }
        }),
        EntryType::GNULongLink | EntryType::XGlobalHeader => Some(|_, _| {}),
        _ => None,
    }
}

/// The content of such a header.
fn extended(feed: &mut Feed<'_>, size: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let shown = size.min(LONGEST);
    feed.fill(&mut text, usize::try_from(shown).unwrap_or(0))?;
    skip(feed, size - shown)?;
    skip_padding(feed, size)?;
    Ok(text)
}

/// The map of a sparse file may go on after its header. The holes are left
/// out: in a log they are NULs that nobody misses.
fn skip_sparse_map(header: &Header, feed: &mut Feed<'_>) -> io::Result<()> {
    let mut more = header.as_gnu().is_some_and(tar::GnuHeader::is_extended);
    while more {
        let block: [u8; BLOCK] = super::unpack::exactly(feed)?;
        more = block[504] == 1;
    }
    Ok(())
}

/// The newer form of the map: lines of digits at the beginning of the data,
/// first how many pairs, then the pairs. Says how many bytes that were.
fn skip_map_in_data(feed: &mut Feed<'_>) -> io::Result<u64> {
    let mut first = Some(0u64);
    let mut left = 1u64;
    let mut skipped = 0;
    while left > 0 {
        let block: [u8; BLOCK] = super::unpack::exactly(feed)?;
        skipped += BLOCK as u64;
        for b in block {
            match (b, &mut first) {
                (b'0'..=b'9', Some(pairs)) => {
                    *pairs = pairs.saturating_mul(10).saturating_add(u64::from(b - b'0'));
                }
                (b'\n', pairs) => {
                    left = (left - 1).saturating_add(pairs.take().unwrap_or(0).saturating_mul(2));
                }
                _ => {}
            }
            if left == 0 {
                break;
            }
        }
    }
    Ok(skipped)
}

fn skip(feed: &mut Feed<'_>, n: u64) -> io::Result<()> {
    if feed.skip(n)? < n {
        return Err(fault("tar: the archive ends in the middle of a member"));
    }
    Ok(())
}

fn skip_padding(feed: &mut Feed<'_>, size: u64) -> io::Result<()> {
    // A missing end is no loss.
    feed.skip(size.wrapping_neg() % BLOCK as u64).map(|_| ())
}
