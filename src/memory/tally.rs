//! What a process said about its memory, added up line by line. Sums can be
//! put together in any order, so it does not matter how the log was cut.

use super::lines::{Algorithm, Counts, Line, NvlsSize};
use super::{Direction, Transport};
use std::collections::{BTreeMap, BTreeSet};

/// Different sizes, peers or communicators that are kept apart for one process.
const MOST: usize = 4096;

/// Many sizes with their sum, which is exact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sum {
    /// Bytes together.
    pub bytes: u64,
    /// How many.
    pub count: u64,
    /// Size → how many; the first so many sizes.
    pub by: BTreeMap<u64, u64>,
}

impl Sum {
    fn add(&mut self, size: u64, n: u64) {
        self.bytes = self.bytes.saturating_add(size.saturating_mul(n));
        self.count += n;
        if self.by.len() < MOST || self.by.contains_key(&size) {
            *self.by.entry(size).or_default() += n;
        }
    }

    fn merge(&mut self, other: &Self) {
        let known: u64 = other.by.values().sum();
        for (&size, &n) in &other.by {
            self.add(size, n);
        }
        // What was too various to be kept apart still counts.
        let kept: u64 = other.by.iter().map(|(s, n)| s.saturating_mul(*n)).fold(0, u64::saturating_add);
        self.bytes = self.bytes.saturating_add(other.bytes.saturating_sub(kept));
        self.count += other.count - known.min(other.count);
    }
}

/// A kind of connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// How.
    pub transport: Transport,
    /// 1 for send and receive.
    pub conn: u32,
    /// Device of the other end, as printed; empty where it may be on another host.
    pub peer: String,
    /// Whether another rank's GPU holds the buffer (PXN).
    pub pxn: bool,
}

/// Everything that one process said about its memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Lines that told something.
    pub lines: u64,
    /// Channel counts → communicators that have them.
    pub counts: BTreeMap<Counts, u64>,
    /// Chunk of send and receive → how often.
    pub chunks: BTreeMap<u64, u64>,
    /// Connections on which this process sends.
    pub sends: BTreeMap<Kind, u64>,
    /// Connections on which it says that it receives (network only).
    pub receives: BTreeMap<Kind, u64>,
    /// What this process calls its own device.
    pub devices: BTreeSet<String>,
    /// Lines that say CUMEM, and lines that say IPC.
    pub cumem: (u64, u64),
    /// NVLS sizes of communicators.
    pub nvls: BTreeMap<NvlsSize, u64>,
    /// NVLS memory as the driver gave it.
    pub nvls_physical: Sum,
    /// Buffers towards peers.
    pub shareable: Sum,
    /// Other device memory.
    pub cuda: Sum,
    /// Host memory.
    pub host: Sum,
    /// Of it what SHM connections hold, where other lines tell of it.
    pub mapped: Sum,
    /// Algorithms that were connected.
    pub connected: BTreeMap<Algorithm, u64>,
    /// Communicators: pointer → ranks, begun, done.
    pub comms: BTreeMap<String, (u64, u64, u64)>,
    /// What all ranks of a communicator call it; the first so many.
    pub ids: BTreeSet<String>,
    /// Those that were destroyed or aborted.
    pub destroyed: u64,
}

impl Tally {
    /// Takes a line.
    pub fn add(&mut self, line: &Line<'_>) {
        self.lines += 1;
        match *line {
            Line::Counts(counts) => count(&mut self.counts, counts),
            Line::Chunk(bytes) => count(&mut self.chunks, bytes),
            Line::Connection { conn, from, to, direction, transport, cumem, far, pxn, .. } => {
                match cumem {
                    Some(true) => self.cumem.0 += 1,
                    Some(false) => self.cumem.1 += 1,
                    None => {}
                }
                let (own, other) = if direction == Direction::Send { (from, to) } else { (to, from) };
                if self.devices.len() < 64 {
                    self.devices.insert(own.to_string());
                }
                let peer = if far { String::new() } else { other.to_string() };
                let list = if direction == Direction::Send { &mut self.sends } else { &mut self.receives };
                count(list, Kind { transport, conn, peer, pxn: pxn && direction == Direction::Send });
            }
            Line::Nvls(size) => count(&mut self.nvls, size),
            Line::NvlsPhysical(bytes) => self.nvls_physical.add(bytes, 1),
            Line::Shareable(bytes) => self.shareable.add(bytes, 1),
            Line::Cuda(bytes) => self.cuda.add(bytes, 1),
            Line::Host(bytes) => self.host.add(bytes, 1),
            Line::Mapped(bytes) => self.mapped.add(bytes, 1),
            Line::Connected(algorithm) => count(&mut self.connected, algorithm),
            Line::Init { comm, nranks, device, id, complete } => {
                if let Some(id) = id.filter(|_| self.ids.len() < MOST) {
                    self.ids.insert(id.to_string());
                }
                if let Some(device) = device.filter(|_| self.devices.len() < 64) {
                    self.devices.insert(device.to_string());
                }
                if self.comms.len() < MOST || self.comms.contains_key(comm) {
                    let slot = self.comms.entry(comm.to_string()).or_insert((nranks, 0, 0));
                    if complete {
                        slot.2 += 1;
                    } else {
                        slot.1 += 1;
                    }
                    slot.0 = slot.0.max(nranks);
                }
            }
            Line::Destroyed { .. } => self.destroyed += 1,
        }
    }

    /// Takes what another part of the log gave for the same process.
    pub fn merge(&mut self, other: &Self) {
        self.lines += other.lines;
        merge(&mut self.counts, &other.counts);
        merge(&mut self.chunks, &other.chunks);
        merge(&mut self.sends, &other.sends);
        merge(&mut self.receives, &other.receives);
        self.devices.extend(other.devices.iter().cloned());
        self.cumem = (self.cumem.0 + other.cumem.0, self.cumem.1 + other.cumem.1);
        merge(&mut self.nvls, &other.nvls);
        self.nvls_physical.merge(&other.nvls_physical);
        self.shareable.merge(&other.shareable);
        self.cuda.merge(&other.cuda);
        self.host.merge(&other.host);
        self.mapped.merge(&other.mapped);
        merge(&mut self.connected, &other.connected);
        for (comm, &(nranks, begun, done)) in &other.comms {
            if self.comms.len() < MOST || self.comms.contains_key(comm) {
                let slot = self.comms.entry(comm.clone()).or_insert((nranks, 0, 0));
                *slot = (slot.0.max(nranks), slot.1 + begun, slot.2 + done);
            }
        }
        self.ids.extend(other.ids.iter().take(MOST.saturating_sub(self.ids.len())).cloned());
        self.destroyed += other.destroyed;
    }

    /// Communicators that were made or begun, pointers that were used again counted each time.
    #[must_use]
    pub fn communicators(&self) -> u64 {
        let by_lines: u64 = self.comms.values().map(|c| c.1.max(c.2)).sum();
        by_lines.max(self.counts.values().sum())
    }

    /// Those that were made to the end: by the line that says so, or that names their channels.
    #[must_use]
    pub fn made(&self) -> u64 {
        let done: u64 = self.comms.values().map(|c| c.2).sum();
        done.max(self.counts.values().sum())
    }

    /// Ranks of the largest communicator.
    #[must_use]
    pub fn nranks(&self) -> u64 {
        self.comms.values().map(|c| c.0).max().unwrap_or(0)
    }
}

fn count<K: Ord>(map: &mut BTreeMap<K, u64>, key: K) {
    if map.len() < MOST || map.contains_key(&key) {
        *map.entry(key).or_default() += 1;
    }
}

fn merge<K: Ord + Clone>(map: &mut BTreeMap<K, u64>, other: &BTreeMap<K, u64>) {
    for (key, n) in other {
        if map.len() < MOST || map.contains_key(key) {
            *map.entry(key.clone()).or_default() += n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;
    use crate::memory::parse;

    #[test]
    fn parts_of_a_log_add_up_in_any_order() {
        let lines = [
            "Allocated shareable buffer 0x1 size 10485760 ipcDesc 0x5",
            "Cuda Alloc Size 528 pointer 0x1",
            "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
            "Channel 00/0 : 7[7] -> 0[0] [receive] via NET/IB/0/GDRDMA",
            "16 coll channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer",
            "ncclCommInitRank comm 0xa rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1000 commId 0x1 - Init COMPLETE",
        ];
        let tally = |lines: &[&str]| {
            let mut t = Tally::default();
            lines.iter().filter_map(|l| parse(l.as_bytes())).for_each(|l| t.add(&l));
            t
        };
        let whole = tally(&lines);
        assert_eq!((whole.shareable.bytes, whole.cuda.bytes, whole.communicators()), (10 << 20, 528, 1));
        for at in 0..lines.len() {
            let (a, b) = (tally(&lines[..at]), tally(&lines[at..]));
            let (mut ab, mut ba) = (a.clone(), b.clone());
            ab.merge(&b);
            ba.merge(&a);
            assert_eq!(ab, whole);
            assert_eq!(ba, whole);
        }
    }
}
