//! What `tarfile` and `zipfile` share: the bytes of one member, counted
//! against what the archive may expand to, and the member's name as shown.

use std::io::{self, Read};

use flate2::Crc;

use super::feed::{Feed, fault};

/// So many bytes of a feed.
pub(super) struct Part<'p, 'f> {
    feed: &'p mut Feed<'f>,
    what: &'static str,
    /// Bytes not read yet.
    pub(super) left: u64,
    /// The archive itself has failed; there is no reading on.
    pub(super) told: bool,
}

impl<'p, 'f> Part<'p, 'f> {
    pub(super) fn new(feed: &'p mut Feed<'f>, what: &'static str, left: u64) -> Self {
        let told = false;
        Self { feed, what, left, told }
    }
}

impl Read for Part<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buf.len());
        if most == 0 {
            return Ok(0);
        }
        let result = match self.feed.read(&mut buf[..most]) {
            Ok(0) => {
                let what = self.what;
                Err(fault(format!("{what}: the archive ends in the middle of this member")))
            }
            other => other,
        };
        match &result {
            Ok(n) => self.left -= *n as u64,
            Err(error) => self.told |= error.kind() != io::ErrorKind::Interrupted,
        }
        result
    }
}

/// What comes out of a member: counted, and checked at its end.
pub(super) struct Counted<'b, R> {
    inner: R,
    what: &'static str,
    budget: &'b mut u64,
    crc: Crc,
    /// The checksum that it should have.
    sum: Option<u32>,
    /// Reading has failed.
    pub(super) failed: bool,
}

impl<'b, R: Read> Counted<'b, R> {
    pub(super) fn new(inner: R, what: &'static str, budget: &'b mut u64, sum: Option<u32>) -> Self {
        Self { inner, what, budget, crc: Crc::new(), sum, failed: false }
    }

    fn count(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let what = self.what;
        let most = usize::try_from(*self.budget).unwrap_or(usize::MAX).min(buf.len());
        if most == 0 {
            let why = "the archive expands to more than is allowed, the rest is not read";
            return Err(fault(format!("{what}: {why}")));
        }
        let n = self.inner.read(&mut buf[..most])?;
        *self.budget -= n as u64;
        if let Some(sum) = self.sum {
            self.crc.update(&buf[..n]);
            if n == 0 && sum != self.crc.sum() {
                self.sum = None;
                return Err(fault(format!("{what}: the checksum is wrong, it is damaged")));
            }
        }
        Ok(n)
    }
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        let result = self.count(buf);
        if let Err(error) = &result {
            self.failed |= error.kind() != io::ErrorKind::Interrupted;
        }
        result
    }
}

/// A member's name as shown.
pub(super) fn clean(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let mut text = text.trim_end_matches('\0');
    while let Some(rest) = text.strip_prefix("./") {
        text = rest.trim_start_matches('/');
    }
    if text.is_empty() { "?".to_owned() } else { text.to_owned() }
}
