//! Reading what may block: standard input, named pipes, devices. A thread of
//! its own opens and reads, so that an interrupt ends the wait at once. What
//! it hands over is read like any other input (see `feed`).

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::feed::Halt;

/// Bytes asked of the system at once; a pipe holds 64 KiB unless told otherwise.
const CHUNK: usize = 128 << 10;
/// Chunks waiting to be read.
const WAITING: usize = 4;
/// How often a blocked read looks for an interrupt.
const TICK: Duration = Duration::from_millis(20);
/// How long after an interrupt what keeps coming is still taken: the writer
/// got the same interrupt, and its last words matter.
const GRACE: Duration = Duration::from_millis(80);

type Chunk = io::Result<Vec<u8>>;

/// The reading end.
pub(super) struct Live {
    full: Receiver<Chunk>,
    empty: Sender<Vec<u8>>,
    now: Vec<u8>,
    at: usize,
    interrupted: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Live {
    /// Starts the thread, which opens and then reads to the end.
    pub(super) fn start<R, F>(open: F, interrupted: Arc<AtomicBool>) -> Self
    where
        R: Read,
        F: FnOnce() -> io::Result<R> + Send + 'static,
    {
        let (to_reader, full) = bounded(WAITING);
        let (empty, spare) = bounded(WAITING + 1);
        let failed = to_reader.clone();
        let spawned =
            thread::Builder::new().name("input".to_owned()).spawn(move || copy(open, &to_reader, &spare));
        if let Err(error) = spawned {
            // The channel is empty and has room.
            let _ = failed.send(Err(error));
        }
        Self { full, empty, now: Vec::new(), at: 0, interrupted, deadline: None }
    }

    /// Waits for the next chunk; none at the end.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if self.deadline.is_none() && self.interrupted.load(Ordering::Relaxed) {
                self.deadline = Some(Instant::now() + GRACE);
            }
            let wait =
                self.deadline.map_or(TICK, |end| TICK.min(end.saturating_duration_since(Instant::now())));
            if wait.is_zero() {
                return Err(Halt::Interrupted.into());
            }
            match self.full.recv_timeout(wait) {
                Ok(chunk) => return chunk.map(Some),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                // Nothing came for a whole tick since the interrupt.
                Err(RecvTimeoutError::Timeout) if self.deadline.is_some() => {
                    return Err(Halt::Interrupted.into());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Read for Live {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        while self.at == self.now.len() {
            let Some(chunk) = self.next()? else {
                return Ok(0);
            };
            // Full or closed: the buffer is simply dropped.
            let _ = self.empty.try_send(std::mem::replace(&mut self.now, chunk));
            self.at = 0;
        }
        let n = buf.len().min(self.now.len() - self.at);
        buf[..n].copy_from_slice(&self.now[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// The thread: reads until the end, an error, or nobody listens any more.
fn copy<R: Read>(open: impl FnOnce() -> io::Result<R>, full: &Sender<Chunk>, spare: &Receiver<Vec<u8>>) {
    let mut reader = match open() {
        Ok(reader) => reader,
        Err(error) => return drop(full.send(Err(error))),
    };
    loop {
        let mut chunk = spare.try_recv().unwrap_or_default();
        chunk.resize(CHUNK, 0);
        let sent = match reader.read(&mut chunk) {
            Ok(0) => return,
            Ok(n) => {
                chunk.truncate(n);
                full.send(Ok(chunk))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return drop(full.send(Err(error))),
        };
        if sent.is_err() {
            return;
        }
    }
}
