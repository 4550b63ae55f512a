//! The account of a job: for each process what NCCL holds, measured where the
//! log prints sizes, else computed from what it says about channels; checked
//! against each other where both exist. What cannot be seen is named.

use super::allocator::{self, Allocator};
use super::connection::pool;
use super::lines::{Algorithm, Counts};
use super::plan::mib_text;
use super::refused::{Meaning, meanings};
use super::sizes::up;
use super::tally::{Kind, Sum, Tally};
use super::{
    Direction, Effect, Env, Local, MIB, Plan, Shape, Sizes, Span, Transport, Uses, compare, connection,
    effects,
};
use crate::base::Release;
use crate::knowledge::Tables;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A process of the job with what it said.
#[derive(Debug, Clone, Default)]
pub struct ProcessSeen {
    /// Rank, where known.
    pub rank: Option<u32>,
    /// Host, where known.
    pub host: Option<String>,
    /// How it is called where it has no rank.
    pub name: String,
    /// NCCL's release, where known.
    pub release: Option<Release>,
    /// Variables that hold for it.
    pub env: Env,
    /// What it said.
    pub tally: Tally,
}

/// A size that NCCL asked for in vain.
#[derive(Debug, Clone, Default)]
pub struct RefusedSeen {
    /// Rank, where known.
    pub rank: Option<u32>,
    /// Host, where known.
    pub host: Option<String>,
    /// Place of the line.
    pub source: String,
    /// See `source`; from 1.
    pub line: u64,
    /// Bytes.
    pub bytes: u64,
    /// Whether GPU memory was asked for.
    pub gpu: bool,
}

/// What an account is made of.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// Processes that said anything about memory.
    pub processes: Vec<ProcessSeen>,
    /// Refused sizes.
    pub refused: Vec<RefusedSeen>,
    /// Texts with which allocators gave up, each with its place.
    pub gave_up: Vec<(Allocator, String)>,
    /// Process ids of ranks, by host.
    pub pids: Vec<(Option<String>, u32, u32)>,
    /// Architecture of the hosts, where the input shows it.
    pub arch: String,
    /// Whether it is a library made from NCCL, whose sizes the model does not know.
    pub derived: bool,
}

/// Where a figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// The log prints it.
    Measured,
    /// Counted by the model from what the log says.
    Computed,
    /// The same, where something had to be assumed.
    Assumed,
}

/// One thing that takes memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Item {
    /// What.
    pub name: String,
    /// Where the figure comes from.
    pub how: How,
    /// GPU bytes.
    pub gpu: u64,
    /// Host bytes.
    pub host: u64,
    /// How it is made up.
    pub detail: String,
}

/// What one process holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessAccount {
    /// Rank, where known.
    pub rank: Option<u32>,
    /// Host, where known.
    pub host: Option<String>,
    /// How it is called where it has no rank.
    pub name: String,
    /// NCCL's release, where known.
    pub nccl: Option<String>,
    /// Whether cuMem is on.
    pub cumem: bool,
    /// How that is known.
    pub cumem_by: &'static str,
    /// Communicators that it began to make.
    pub communicators: u64,
    /// Those of them that were made to the end.
    pub made: u64,
    /// Those that it destroyed or aborted.
    pub destroyed: u64,
    /// Their channels, each with how many have them.
    pub channels: Vec<(Counts, u64)>,
    /// What takes memory.
    pub items: Vec<Item>,
    /// GPU bytes together.
    pub gpu: u64,
    /// Host bytes together.
    pub host_bytes: u64,
    /// GPU bytes that the log prints, rounding left out.
    pub printed: u64,
    /// Measured against computed, one sentence each.
    pub checks: Vec<String>,
    /// What the log does not show, one sentence each.
    pub not_seen: Vec<String>,
}

/// A refused size and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Rank, where known.
    pub rank: Option<u32>,
    /// Host, where known.
    pub host: Option<String>,
    /// Place of the line.
    pub source: String,
    /// See `source`; from 1.
    pub line: u64,
    /// Bytes.
    pub bytes: u64,
    /// What it may be, most telling first.
    pub means: Vec<Meaning>,
}

/// The account of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Account {
    /// `ncclcheck.memory/1`.
    pub schema: &'static str,
    /// Processes in order of rank.
    pub processes: Vec<ProcessAccount>,
    /// Sizes that NCCL asked for in vain.
    pub refused: Vec<Refused>,
    /// What allocators said.
    pub allocators: Vec<Allocator>,
    /// Who differs from the others and why, one sentence each.
    pub differs: Vec<String>,
    /// What could be changed, by the model, for a rank.
    pub changes: Vec<Effect>,
    /// What holds for all of it, one sentence each.
    pub notes: Vec<String>,
}

/// Makes the account.
#[must_use]
pub fn account(tables: &Tables, mut input: Input) -> Account {
    input.processes.sort_by(|a, b| {
        let key = |p: &ProcessSeen| (p.rank.is_none(), p.rank, p.host.clone(), p.name.clone());
        key(a).cmp(&key(b))
    });
    let peers = Peers::new(&input.processes);
    let processes: Vec<ProcessAccount> =
        (0..input.processes.len()).map(|i| Reading::new(tables, &input, &peers, i).account()).collect();
    let first = input.processes.first();
    let release = first.and_then(|p| p.release);
    let env = first.map(|p| p.env.clone()).unwrap_or_default();
    let refused = input
        .refused
        .iter()
        .map(|r| Refused {
            rank: r.rank,
            host: r.host.clone(),
            source: r.source.clone(),
            line: r.line,
            bytes: r.bytes,
            means: of_place(meanings(&tables.constants, r.bytes, release, &env, r.gpu), r.gpu),
        })
        .collect();
    let mut allocators: Vec<Allocator> = input
        .gave_up
        .iter()
        .filter_map(|(place, text)| {
            let mut a = allocator::read(text)?;
            (a.rank, a.host, a.source, a.line) =
                (place.rank, place.host.clone(), place.source.clone(), place.line);
            for holder in &mut a.holders {
                let known = input.pids.iter().find(|(host, pid, rank)| {
                    *pid == holder.pid
                        && (host.is_none() || a.host.is_none() || *host == a.host)
                        && Some(*rank) != a.rank
                });
                holder.rank = known.map(|k| k.2);
            }
            let own = processes.iter().find(|p| p.rank.is_some() && p.rank == a.rank);
            allocator::judge(&mut a, own.map(|p| p.gpu));
            Some(a)
        })
        .collect();
    // A traceback that is printed twice says it twice.
    let mut told = BTreeSet::new();
    allocators.retain(|a| told.insert((a.rank, a.host.clone(), a.device, a.tried, a.free, a.allocated)));
    let differs = compare::differs(&processes, &allocators);
    let changes = plan_of(tables, &input)
        .filter(|_| !input.derived)
        .map(|plan| effects(&tables.constants, &tables.changes, &plan))
        .unwrap_or_default();
    let notes = notes(&input, &processes);
    Account { schema: "ncclcheck.memory/1", processes, refused, allocators, differs, changes, notes }
}

/// Only what fits the memory that was asked for.
fn of_place(mut all: Vec<Meaning>, gpu: bool) -> Vec<Meaning> {
    all.retain(|m| m.place.starts_with("GPU") == gpu);
    all
}

fn notes(input: &Input, processes: &[ProcessAccount]) -> Vec<String> {
    let mut notes = Vec::new();
    if input.derived {
        notes.push(
            "The library is made from NCCL (RCCL or another): sizes that the log prints are right, computed ones are \
             those of NCCL and need not hold."
                .into(),
        );
    }
    if processes.is_empty() {
        notes.push(
            "No line tells of NCCL's memory. Run with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,ENV,ALLOC,P2P,NVLS, \
             on all ranks."
                .into(),
        );
    } else if processes.iter().all(|p| p.nccl.is_none()) {
        notes.push("No line names NCCL's release: computed figures are those of the newest one.".into());
    }
    notes
}

/// Who sends to whom on a host, so that a receiver's side is seen in its peers' lines.
struct Peers {
    /// Host and device → connections of others towards it.
    towards: BTreeMap<(String, String), BTreeMap<(Transport, u32), u64>>,
    /// Hosts and devices whose processes are in the input.
    known: BTreeSet<(String, String)>,
}

impl Peers {
    fn new(processes: &[ProcessSeen]) -> Self {
        let mut peers = Self { towards: BTreeMap::new(), known: BTreeSet::new() };
        for p in processes {
            let host = p.host.clone().unwrap_or_default();
            for device in &p.tally.devices {
                peers.known.insert((host.clone(), device.clone()));
            }
            for (kind, n) in p.tally.sends.iter().filter(|(k, _)| is_local(k.transport) && !k.peer.is_empty())
            {
                let slot = peers.towards.entry((host.clone(), kind.peer.clone())).or_default();
                *slot.entry((kind.transport, kind.conn)).or_default() += n;
            }
        }
        peers
    }

    /// Connections of other ranks towards a process, by transport and index.
    fn to(&self, p: &ProcessSeen) -> BTreeMap<(Transport, u32), u64> {
        let host = p.host.clone().unwrap_or_default();
        let mut all = BTreeMap::new();
        for device in &p.tally.devices {
            for (key, n) in self.towards.get(&(host.clone(), device.clone())).into_iter().flatten() {
                *all.entry(*key).or_default() += n;
            }
        }
        all
    }
}

fn is_local(t: Transport) -> bool {
    matches!(t, Transport::P2p | Transport::P2pRead | Transport::P2pIndirect | Transport::Shm)
}

/// One process being read.
struct Reading<'r> {
    p: &'r ProcessSeen,
    peers: &'r Peers,
    sizes: Sizes,
    cumem_by: &'static str,
    on_host: u64,
    items: Vec<Item>,
    checks: Vec<String>,
    not_seen: Vec<String>,
}

/// Connections of a process with what they take.
#[derive(Default)]
struct Connections {
    gpu: u64,
    host: u64,
    n: u64,
    detail: Vec<String>,
    assumed: bool,
    pools: u64,
}

impl<'r> Reading<'r> {
    fn new(tables: &'r Tables, input: &'r Input, peers: &'r Peers, index: usize) -> Self {
        let p = &input.processes[index];
        let (sizes, cumem_by) = sizes_of(tables, p, &input.arch);
        let on_host = input.processes.iter().filter(|o| o.host == p.host).count() as u64;
        Self { p, peers, sizes, cumem_by, on_host, items: vec![], checks: vec![], not_seen: vec![] }
    }

    fn account(mut self) -> ProcessAccount {
        let printed = self.measure();
        let t = &self.p.tally;
        self.named();
        let gpu = self.items.iter().map(|i| i.gpu).sum();
        let host_bytes = self.items.iter().map(|i| i.host).sum();
        ProcessAccount {
            rank: self.p.rank,
            host: self.p.host.clone(),
            name: self.p.name.clone(),
            nccl: self.p.release.map(|r| r.to_string()),
            cumem: self.sizes.cumem,
            cumem_by: self.cumem_by,
            communicators: t.communicators(),
            made: t.made(),
            destroyed: t.destroyed,
            channels: t.counts.iter().map(|(c, n)| (*c, *n)).collect(),
            items: self.items,
            gpu,
            host_bytes,
            printed,
            checks: self.checks,
            not_seen: self.not_seen,
        }
    }

    fn push(&mut self, name: &str, how: How, gpu: u64, host: u64, detail: String) {
        if gpu > 0 || host > 0 {
            self.items.push(Item { name: name.into(), how, gpu, host, detail });
        }
    }

    /// All items; gives the bytes that the log prints.
    fn measure(&mut self) -> u64 {
        let t = &self.p.tally;
        let made = self.connections();
        let control = self.control();
        let mut printed = 0;
        // Without cuMem the lines of the allocator describe the same memory as those of shareable buffers.
        let same = !self.sizes.cumem && t.cuda.bytes >= t.shareable.bytes && t.cuda.count > 0;
        if t.shareable.count > 0 {
            printed += t.shareable.bytes;
            let how = How::Measured;
            self.push("buffers towards peers", how, t.shareable.bytes, 0, by_size(&t.shareable));
            self.check_buffers(&made);
        } else if !same || made.gpu > 0 && t.cuda.count == 0 {
            let how = if made.assumed { How::Assumed } else { How::Computed };
            self.push("buffers towards peers", how, made.gpu, 0, made.detail.join(", "));
        }
        if t.cuda.count > 0 {
            let rest = if same { t.cuda.bytes - t.shareable.bytes } else { t.cuda.bytes };
            printed += rest;
            let detail = format!(
                "{} allocations",
                t.cuda.count - if same { t.shareable.count.min(t.cuda.count) } else { 0 }
            );
            self.push("other device allocations", How::Measured, rest, 0, detail);
            self.check_control(control);
            let lost = self.lost_by_rounding();
            let detail =
                format!("each of {} rounded up to {}", t.cuda.count, mib_text(Span::of(self.sizes.granule)));
            self.push("rounding by cuMem", How::Computed, lost, 0, detail);
        } else {
            let detail = format!(
                "{} arrays of {}",
                control / self.sizes.granule.max(1),
                mib_text(Span::of(self.sizes.granule))
            );
            self.push("control arrays", How::Computed, control, 0, detail);
        }
        printed += self.nvls();
        if t.shareable.count == 0 && t.cuda.count == 0 {
            self.pool(&made);
        }
        if t.host.count > 0 {
            let detail = by_size(&t.host);
            self.push("host memory", How::Measured, 0, t.host.bytes, detail);
        } else {
            let how = if made.assumed { How::Assumed } else { How::Computed };
            self.push("host side of connections", how, 0, made.host, format!("{} connections", made.n));
        }
        printed
    }

    /// What the connections take that channel lines name.
    fn connections(&self) -> Connections {
        let t = &self.p.tally;
        let mut all: BTreeMap<(Direction, Transport, bool), u64> = BTreeMap::new();
        let mut far: BTreeMap<(Transport, u32), u64> = BTreeMap::new();
        let mut sent: BTreeMap<u32, u64> = BTreeMap::new();
        let mut unknown_peer: BTreeSet<u32> = BTreeSet::new();
        let host = self.p.host.clone().unwrap_or_default();
        for (kind, &n) in &t.sends {
            *all.entry((Direction::Send, kind.transport, kind.pxn)).or_default() += n;
            if !is_local(kind.transport) {
                continue;
            }
            *sent.entry(kind.conn).or_default() += n;
            if kind.peer.is_empty() {
                *far.entry((kind.transport, kind.conn)).or_default() += n;
            } else if !self.peers.known.contains(&(host.clone(), kind.peer.clone())) {
                unknown_peer.insert(kind.conn);
            }
        }
        for (kind, n) in &t.receives {
            *all.entry((Direction::Receive, kind.transport, false)).or_default() += n;
        }
        let mut seen = self.peers.to(self.p);
        // The other end of a connection between hosts cannot be found: as many come as go.
        for (key, n) in far {
            *seen.entry(key).or_default() += n;
        }
        let mut assumed = false;
        for (&conn, &n) in &sent {
            let got: u64 = seen.iter().filter(|(k, _)| k.1 == conn).map(|(_, n)| *n).sum();
            let over_net: u64 = t.receives.iter().filter(|(k, _)| k.conn == conn).map(|(_, n)| *n).sum();
            let gone_net: u64 = t
                .sends
                .iter()
                .filter(|(k, _)| k.conn == conn && !is_local(k.transport))
                .map(|(_, n)| *n)
                .sum();
            // Peers whose log is not here: a ring or tree has as many ways in as out.
            let want = (n + gone_net).saturating_sub(over_net);
            if unknown_peer.contains(&conn) && got < want {
                let kind = t.sends.keys().find(|k| k.conn == conn && is_local(k.transport));
                let transport = kind.map_or(Transport::P2p, |k| k.transport);
                *seen.entry((transport, conn)).or_default() += want - got;
                assumed = true;
            }
        }
        for ((transport, _), n) in seen {
            *all.entry((Direction::Receive, transport, false)).or_default() += n;
        }
        let mut out = Connections { assumed, ..Connections::default() };
        for ((direction, transport, pxn), n) in all {
            let taken = connection(&self.sizes, transport, direction);
            // With PXN the buffer lies on the GPU next to the adapter.
            let gpu = if pxn { 0 } else { taken.gpu };
            out.gpu += gpu * n;
            out.host += taken.host * n;
            out.n += n;
            if gpu > 0 {
                let word = if direction == Direction::Send { "sends" } else { "receives" };
                out.detail.push(format!("{n} {} {word} x {}", transport.name(), mib_text(Span::of(gpu))));
            }
            if transport == (Transport::NetShared { gdr: true }) {
                out.pools += 1;
            }
        }
        out
    }

    /// Bytes of control arrays by the channels that communicators have.
    fn control(&self) -> u64 {
        if !self.sizes.cumem {
            return 0;
        }
        let s = &self.sizes;
        let arrays = |c: &Counts| c.coll.max(c.p2p) * s.per_channel + c.nvls + c.collnet + s.per_communicator;
        self.p.tally.counts.iter().map(|(c, n)| arrays(c) * n * s.granule).sum()
    }

    fn lost_by_rounding(&self) -> u64 {
        let t = &self.p.tally;
        if !self.sizes.cumem {
            return 0;
        }
        t.cuda.by.iter().map(|(size, n)| (up(*size, self.sizes.granule) - size) * n).sum()
    }

    /// NVLS as printed, else computed where it is certain; gives the printed bytes.
    fn nvls(&mut self) -> u64 {
        let t = &self.p.tally;
        if t.nvls_physical.count > 0 {
            let detail = by_size(&t.nvls_physical);
            self.push("NVLS, as the driver gave it", How::Measured, t.nvls_physical.bytes, 0, detail);
            return t.nvls_physical.bytes;
        }
        let has = self.sizes.nvls_buffer > 0 && (self.sizes.cumem || self.sizes.nvls_without_cumem);
        let with: u64 = t.counts.iter().filter(|(c, _)| c.nvls > 0).map(|(_, n)| *n).sum();
        if t.nvls.is_empty() && (!has || with == 0) {
            return 0;
        }
        self.push(
            "NVLS credits",
            How::Computed,
            self.sizes.nvls_credits * with,
            0,
            format!("{with} communicators"),
        );
        if t.nvls.is_empty() {
            let each = self.sizes.nvls_buffer + self.sizes.nvls_flags;
            let of =
                |heads: u64| -> u64 { t.counts.iter().map(|(c, n)| c.nvls * 2 * each * heads * n).sum() };
            let heads = t.nranks().min(self.on_host.max(1));
            if self.sizes.lazy {
                self.not_seen.push(format!(
                    "NVLS buffers: no line shows them, they are made at the first use; up to {} with {heads} GPUs on \
                     the host",
                    mib_text(Span::of(of(heads)))
                ));
            } else {
                let detail = format!("made at init, with {heads} GPUs on the host");
                self.push("NVLS buffers", How::Assumed, of(heads), 0, detail);
            }
            return 0;
        }
        let total: u64 = t.nvls.iter().map(|(s, n)| s.total * n).sum();
        let detail: Vec<String> = t
            .nvls
            .iter()
            .map(|(s, n)| format!("{n} x {} ({} heads)", mib_text(Span::of(s.total)), s.heads))
            .collect();
        self.push("NVLS buffers", How::Measured, total, 0, detail.join(", "));
        if self.sizes.nvls_rounded {
            self.not_seen.push(
                "NVLS: this release rounds the size up to the granularity of multicast, which only lines of \
                 NCCL_DEBUG_SUBSYS=NVLS tell (mcgran)"
                    .into(),
            );
        }
        self.check_nvls();
        total
    }

    /// The pools of send and receive.
    fn pool(&mut self, made: &Connections) {
        let t = &self.p.tally;
        let chunk = t.chunks.keys().next_back().copied().unwrap_or(self.sizes.chunk_net);
        let of = |c: &Counts| pool(&self.sizes, c.p2p, chunk);
        let all: u64 = t.counts.iter().map(|(c, n)| of(c) * n).sum();
        let most = t.counts.keys().map(of).max().unwrap_or(0);
        let detail = format!("channels x {} x {} KiB", self.sizes.pool_slots, chunk >> 10);
        if self.sizes.eager_pool && self.p.release.is_some() {
            self.push("send pools, made at init", How::Computed, all, 0, detail.clone());
        }
        if made.pools > 0 {
            let n = made.pools - u64::from(self.sizes.eager_pool).min(made.pools);
            let name = "pools of send and receive over the network";
            self.push(name, How::Assumed, most * n.min(2), 0, format!("{detail}, for one communicator"));
        }
    }

    fn check_buffers(&mut self, made: &Connections) {
        let t = &self.p.tally;
        if made.n == 0 {
            let text = "buffers towards peers: no channel lines to check them against";
            self.checks.push(text.into());
            return;
        }
        let (printed, computed) = (t.shareable.bytes, made.gpu);
        let show = |bytes: u64| mib_text(Span::of(bytes));
        if printed == computed {
            self.checks.push(format!(
                "buffers towards peers: {} printed, the same by {} channel lines",
                show(printed),
                made.n
            ));
            return;
        }
        let pools: Vec<u64> = t
            .counts
            .keys()
            .flat_map(|c| t.chunks.keys().map(|chunk| pool(&self.sizes, c.p2p, *chunk)))
            .collect();
        let rest = printed.checked_sub(computed);
        let why = match rest {
            Some(rest) if pools.iter().any(|p| *p == rest) => ": a pool for send and receive",
            Some(rest) if pools.iter().any(|p| 2 * *p == rest) => ": the pools for send and receive",
            Some(_) => {
                ": connections whose channel lines are not in the input, or buffers of other ranks (PXN)"
            }
            None => ": some allocation lines are missing",
        };
        let sign = if rest.is_some() { "+" } else { "-" };
        self.checks.push(format!(
            "buffers towards peers: {} printed, {} by {} channel lines; {sign}{}{why}",
            show(printed),
            show(computed),
            made.n,
            show(printed.abs_diff(computed)),
        ));
    }

    fn check_control(&mut self, computed: u64) {
        let t = &self.p.tally;
        if computed == 0 || t.counts.is_empty() {
            return;
        }
        let small: u64 = t.cuda.by.iter().filter(|(s, _)| **s <= self.sizes.granule).map(|(_, n)| *n).sum();
        self.checks.push(format!(
            "control arrays: {small} small allocations printed, {} by the numbers of channels",
            computed / self.sizes.granule
        ));
    }

    fn check_nvls(&mut self) {
        let t = &self.p.tally;
        let [(counts, _)] = t.counts.iter().filter(|(c, _)| c.nvls > 0).collect::<Vec<_>>()[..] else {
            return;
        };
        let each = self.sizes.nvls_buffer + self.sizes.nvls_flags;
        for size in t.nvls.keys() {
            let computed = counts.nvls * 2 * each * size.heads;
            let show = |bytes: u64| mib_text(Span::of(bytes));
            self.checks.push(if computed == size.total {
                format!("NVLS: {} printed, the same by the model", show(size.total))
            } else {
                format!("NVLS: {} printed, {} by the model", show(size.total), show(computed))
            });
        }
    }

    /// What is not in any figure.
    fn named(&mut self) {
        let t = &self.p.tally;
        let pxn: u64 = t.sends.iter().filter(|(k, _)| k.pxn).map(|(_, n)| *n).sum();
        if pxn > 0 {
            self.not_seen.push(format!(
                "{pxn} send buffers lie on another rank's GPU (PXN), and those of other ranks may lie on this one"
            ));
        }
        if t.sends.keys().any(|k| k.transport == Transport::P2pIndirect) {
            self.not_seen.push("buffers of indirect connections lie on the GPU in between".into());
        }
        if t.shareable.count == 0 && t.cuda.count == 0 {
            self.not_seen
                .push("no ALLOC lines: NCCL_DEBUG_SUBSYS=INIT,ENV,ALLOC,P2P,NVLS prints exact sizes".into());
        }
        if t.counts.is_empty() && t.cuda.count == 0 {
            self.not_seen.push("no line with the numbers of channels: control arrays are not counted".into());
        }
        if self.sizes.lazy {
            let open = [("Ring", Algorithm::Ring), ("Tree", Algorithm::Tree)];
            let not: Vec<&str> =
                open.iter().filter(|o| !t.connected.contains_key(&o.1)).map(|o| o.0).collect();
            if !not.is_empty() && !t.counts.is_empty() {
                self.not_seen.push(format!(
                    "{} not connected yet: this release does so at the first operation that needs it",
                    not.join(" and ")
                ));
            }
        }
        self.not_seen.push("the CUDA context with NCCL's kernels, and the framework's own memory".into());
    }
}

/// The constants of a process, and how it is known whether cuMem is on.
fn sizes_of(tables: &Tables, p: &ProcessSeen, arch: &str) -> (Sizes, &'static str) {
    let set = p.env.get("NCCL_CUMEM_ENABLE").map(|v| v.trim());
    let own = Sizes::new(&tables.constants, p.release, arch, &p.env);
    let (cumem, by) = match (set, p.tally.cumem) {
        (Some("0"), _) => (false, "NCCL_CUMEM_ENABLE"),
        (Some("1"), _) => (true, "NCCL_CUMEM_ENABLE"),
        (_, (0, 0)) => (own.cumem, "the release's default"),
        (_, (on, _)) => (on > 0, "channel lines"),
    };
    let mut env = p.env.clone();
    env.insert("NCCL_CUMEM_ENABLE".into(), u8::from(cumem).to_string());
    (Sizes::new(&tables.constants, p.release, arch, &env), by)
}

/// `24 x 10 MiB, 24 x 2 MiB`
fn by_size(sum: &Sum) -> String {
    let mut sizes: Vec<(u64, u64)> = sum.by.iter().map(|(s, n)| (*s, *n)).collect();
    sizes.sort_by_key(|(s, n)| (std::cmp::Reverse(s * n), *s));
    let text = |s: u64| if s.is_multiple_of(MIB / 4) { mib_text(Span::of(s)) } else { format!("{s} B") };
    let mut parts: Vec<String> = sizes.iter().take(6).map(|(s, n)| format!("{n} x {}", text(*s))).collect();
    if sizes.len() > 6 {
        parts.push(format!("{} more sizes", sizes.len() - 6));
    }
    parts.join(", ")
}

/// The job as the model counts it, from what its log says; nothing where that does not suffice.
#[must_use]
pub fn plan_of(tables: &Tables, input: &Input) -> Option<Plan> {
    // The rank that says most; of equals the first.
    let p = input
        .processes
        .iter()
        .filter(|p| !p.tally.counts.is_empty())
        .max_by_key(|p| (p.tally.counts.values().sum::<u64>(), std::cmp::Reverse(p.rank)))?;
    let t = &p.tally;
    // The shape of most of its communicators; of equals the one with more channels.
    let (counts, _) = t.counts.iter().max_by_key(|(c, n)| (**n, c.coll, c.p2p))?;
    let nranks = t.nranks().max(input.processes.len() as u64).max(1);
    let net = t.sends.keys().chain(t.receives.keys()).any(|k| !is_local(k.transport));
    let local = t.sends.keys().any(|k| is_local(k.transport));
    let on_host = input.processes.iter().filter(|o| o.host == p.host).count() as u64;
    let heads = t.nvls.keys().map(|s| s.heads).max().unwrap_or(0);
    let per_node = match (net, local) {
        (false, true) => nranks,
        (true, false) => 1,
        _ if on_host.max(heads) > 1 => on_host.max(heads),
        _ => return None,
    };
    let (sizes, _) = sizes_of(tables, p, &input.arch);
    let seen = |a| t.connected.contains_key(&a);
    let connected = !t.connected.is_empty();
    let conn = |c: u32| t.sends.keys().chain(t.receives.keys()).any(|k| k.conn == c);
    let mut env = p.env.clone();
    env.insert("NCCL_CUMEM_ENABLE".into(), u8::from(sizes.cumem).to_string());
    Some(Plan {
        shape: Shape {
            nranks,
            per_node,
            channels: counts.coll,
            collnet: counts.collnet,
            nvls: counts.nvls,
            p2p_channels: counts.p2p,
            per_peer: counts.per_peer,
            heads: if heads > 0 { heads } else { per_node },
        },
        communicators: t.made().saturating_sub(t.destroyed).max(1),
        local: match () {
            () if t.sends.keys().any(|k| k.transport == Transport::P2pRead) => Local::P2pRead,
            () if t.sends.keys().any(|k| k.transport == Transport::Shm) => Local::Shm,
            () => Local::P2p,
        },
        gdr: t.sends.keys().chain(t.receives.keys()).any(uses_gdr),
        nvlink: t.chunks.keys().any(|c| *c > sizes.chunk_pcie),
        uses: Uses {
            ring: !connected && conn(0) || seen(Algorithm::Ring),
            tree: seen(Algorithm::Tree),
            nvls: !t.nvls.is_empty(),
            pat: seen(Algorithm::Pat),
            collnet: seen(Algorithm::CollNet),
            all_to_all: conn(1),
        },
        chunk: t.chunks.keys().next_back().copied(),
        release: p.release,
        arch: input.arch.clone(),
        env,
    })
}

fn uses_gdr(kind: &Kind) -> bool {
    matches!(kind.transport, Transport::NetGdr | Transport::NetShared { gdr: true })
}
