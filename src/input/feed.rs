//! The buffered input that every other file of this room reads from: it can
//! look ahead, counts what was used, and fails only once. What goes wrong
//! travels as an `io::Error` that holds a [`Halt`], so that a fault of an
//! outer layer passes unchanged through the decoders of the inner ones.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

/// Bytes read ahead at once.
const AHEAD: usize = 64 << 10;

/// Why reading ended before the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Halt {
    /// The user wants no more.
    Interrupted,
    /// A fault that has been told already.
    Told,
    /// A fault to be told, in words.
    Fault(String),
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::Told => f.write_str("cannot be read on"),
            Self::Fault(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Halt {}

impl From<Halt> for io::Error {
    fn from(halt: Halt) -> Self {
        Self::other(halt)
    }
}

/// An error that tells this fault.
pub(super) fn fault(text: impl Into<String>) -> io::Error {
    Halt::Fault(text.into()).into()
}

/// The halt inside an error, where it holds one.
pub(super) fn halt_of(error: &io::Error) -> Option<&Halt> {
    error.get_ref()?.downcast_ref()
}

/// What to tell about an error; nothing where it is told already or none.
pub(super) fn problem_of(error: &io::Error) -> Option<String> {
    match halt_of(error) {
        Some(Halt::Fault(text)) => Some(text.clone()),
        Some(_) => None,
        None => Some(format!("cannot be read: {error}")),
    }
}

/// Reads until `buf` has `target` bytes or the input ends. What came before an
/// error is kept. `Ok(false)`: the input has ended.
pub(super) fn fill(input: &mut dyn Read, buf: &mut Vec<u8>, target: usize) -> io::Result<bool> {
    let Some(missing) = target.checked_sub(buf.len()).filter(|&n| n > 0) else {
        return Ok(true);
    };
    input.take(missing as u64).read_to_end(buf)?;
    Ok(buf.len() >= target)
}

/// An input with a buffer in front.
pub(super) struct Feed<'a> {
    input: &'a mut dyn Read,
    buf: Vec<u8>,
    at: usize,
    /// The input gives nothing more: it has ended or failed.
    over: bool,
    /// A failure that comes after what is buffered.
    failure: Option<io::Error>,
    used: Rc<Cell<u64>>,
}

impl<'a> Feed<'a> {
    pub(super) fn new(input: &'a mut dyn Read) -> Self {
        Self { input, buf: Vec::new(), at: 0, over: false, failure: None, used: Rc::default() }
    }

    /// How many bytes have been taken out, readable also after the feed has moved.
    pub(super) fn used(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.used)
    }

    /// What is buffered.
    pub(super) fn ahead(&self) -> &[u8] {
        &self.buf[self.at..]
    }

    /// Whether what is buffered is all there is.
    pub(super) fn over(&self) -> bool {
        self.over
    }

    /// Looks at the next `n` bytes; fewer only where the input ends or fails.
    pub(super) fn want(&mut self, n: usize) -> &[u8] {
        if self.buf.len() - self.at < n && !self.over {
            self.buf.drain(..self.at);
            self.at = 0;
            if n > AHEAD {
                match fill(self.input, &mut self.buf, n) {
                    Ok(more) => self.over = !more,
                    Err(error) => self.fail(error),
                }
            }
            while self.buf.len() < n && !self.over {
                self.read_more();
            }
        }
        let ahead = self.ahead();
        &ahead[..n.min(ahead.len())]
    }

    /// Buffers a good deal when nothing is buffered.
    fn refill(&mut self) -> io::Result<()> {
        if self.at < self.buf.len() {
            return Ok(());
        }
        self.at = 0;
        self.buf.clear();
        if !self.over {
            self.read_more();
        }
        if self.buf.is_empty() { self.end().map(|_| ()) } else { Ok(()) }
    }

    /// Appends what one read gives to the buffer.
    fn read_more(&mut self) {
        let mut buf = std::mem::take(&mut self.buf);
        let before = buf.len();
        buf.resize(before + AHEAD, 0);
        let n = self.read_input(&mut buf[before..]);
        buf.truncate(before + n);
        self.buf = buf;
    }

    /// One read from the input; 0 when it is over.
    fn read_input(&mut self, buf: &mut [u8]) -> usize {
        while !self.over {
            match self.input.read(buf) {
                Ok(0) => self.over = true,
                Ok(n) => return n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.fail(error),
            }
        }
        0
    }

    fn fail(&mut self, error: io::Error) {
        self.over = true;
        self.failure = Some(error);
    }

    /// The end: `Ok(0)`, or the failure, which is told once.
    fn end(&mut self) -> io::Result<usize> {
        match &self.failure {
            None => Ok(0),
            Some(error) => {
                let again = match halt_of(error) {
                    Some(Halt::Interrupted) => Halt::Interrupted,
                    _ => Halt::Told,
                };
                let Some(first) = self.failure.replace(again.into()) else {
                    return Ok(0);
                };
                Err(first)
            }
        }
    }

    /// Appends to `into` until it has `target` bytes, past the own buffer.
    /// `Ok(false)`: the input has ended.
    pub(super) fn fill(&mut self, into: &mut Vec<u8>, target: usize) -> io::Result<bool> {
        let n = target.saturating_sub(into.len()).min(self.buf.len() - self.at);
        into.extend_from_slice(&self.buf[self.at..self.at + n]);
        self.consume(n);
        if into.len() >= target {
            return Ok(true);
        }
        self.buf = Vec::new();
        self.at = 0;
        if self.over {
            return self.end().map(|_| false);
        }
        let before = into.len();
        let result = fill(self.input, into, target);
        self.used.set(self.used.get() + (into.len() - before) as u64);
        match result {
            Ok(more) => {
                self.over = !more;
                Ok(more)
            }
            Err(error) => {
                self.fail(error);
                self.end().map(|_| false)
            }
        }
    }

    /// Skips `n` bytes; fewer where the input ends. Says how many.
    pub(super) fn skip(&mut self, n: u64) -> io::Result<u64> {
        let mut left = n;
        while left > 0 {
            let have = self.fill_buf()?.len();
            if have == 0 {
                break;
            }
            let step = usize::try_from(left).unwrap_or(usize::MAX).min(have);
            self.consume(step);
            left -= step as u64;
        }
        Ok(n - left)
    }
}

impl Read for Feed<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at == self.buf.len() && buf.len() >= AHEAD && !self.over {
            let n = self.read_input(buf);
            self.used.set(self.used.get() + n as u64);
            return if n == 0 { self.end() } else { Ok(n) };
        }
        let have = self.fill_buf()?;
        let n = have.len().min(buf.len());
        buf[..n].copy_from_slice(&have[..n]);
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for Feed<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.refill()?;
        Ok(&self.buf[self.at..])
    }

    fn consume(&mut self, n: usize) {
        self.at = (self.at + n).min(self.buf.len());
        self.used.set(self.used.get() + n as u64);
    }
}
