//! One process being read: what it holds, item by item, measured where its
//! lines print sizes and computed where not, and the two checked against each
//! other. A receiver's side of P2P is seen in its peers' lines.

use super::account::{How, Input, Item, ProcessAccount, ProcessSeen};
use super::connection::pool;
use super::lines::{Algorithm, Counts};
use super::plan::mib_text;
use super::runs::Runs;
use super::sizes::up;
use super::tally::Sum;
use super::{Direction, MIB, Sizes, Span, Transport, connection, sum};
use crate::base::Release;
use crate::knowledge::Tables;
use std::collections::{BTreeMap, BTreeSet};

/// A device of a host, as one run uses it.
type Place = (usize, String, String);

/// Who sends to whom on a host, so that a receiver's side is seen in its peers' lines.
pub(super) struct Peers<'p> {
    /// Connections of others towards a device.
    towards: BTreeMap<Place, BTreeMap<(Transport, u32), u64>>,
    /// Devices of processes in the input, with how many say that it is theirs.
    known: BTreeMap<Place, u64>,
    runs: Runs<'p>,
}

impl<'p> Peers<'p> {
    pub(super) fn new(processes: &'p [ProcessSeen]) -> Self {
        let mut peers = Self { towards: BTreeMap::new(), known: BTreeMap::new(), runs: Runs::new(processes) };
        for (n, p) in processes.iter().enumerate() {
            let place = |device: &String| peers.runs.place(n, p, device);
            for device in &p.tally.devices {
                *peers.known.entry(place(device)).or_default() += 1;
            }
            for (kind, n) in p.tally.sends.iter().filter(|(k, _)| is_local(k.transport) && !k.peer.is_empty())
            {
                let slot = peers.towards.entry(place(&kind.peer)).or_default();
                *slot.entry((kind.transport, kind.conn)).or_default() += n;
            }
        }
        peers
    }

    /// Connections of other ranks towards a process, by transport and index.
    fn to(&self, process: usize, p: &ProcessSeen) -> BTreeMap<(Transport, u32), u64> {
        let mut all = BTreeMap::new();
        for device in &p.tally.devices {
            let place = self.runs.place(process, p, device);
            // Where several say that the device is theirs, each has its part: a log of several runs without ids.
            let owners = self.known.get(&place).copied().unwrap_or(1).max(1);
            for (key, n) in self.towards.get(&place).into_iter().flatten() {
                *all.entry(*key).or_default() += n.div_ceil(owners);
            }
        }
        all
    }

    /// How many runs have a rank of one number.
    pub(super) fn repeated(&self) -> usize {
        self.runs.repeated()
    }
}

pub(super) fn is_local(t: Transport) -> bool {
    matches!(t, Transport::P2p | Transport::P2pRead | Transport::P2pIndirect | Transport::Shm)
}

/// One process being read.
pub(super) struct Reading<'r> {
    index: usize,
    p: &'r ProcessSeen,
    peers: &'r Peers<'r>,
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
    pub(super) fn new(tables: &'r Tables, input: &'r Input, peers: &'r Peers<'r>, index: usize) -> Self {
        let p = &input.processes[index];
        let (sizes, cumem_by) = sizes_of(tables, p, &input.arch);
        let on_host = peers.runs.on_host(index, p.host.as_deref());
        Self { index, p, peers, sizes, cumem_by, on_host, items: vec![], checks: vec![], not_seen: vec![] }
    }

    pub(super) fn account(mut self) -> ProcessAccount {
        let printed = self.measure();
        let t = &self.p.tally;
        self.named();
        let gpu = sum(self.items.iter().map(|i| i.gpu));
        let host_bytes = sum(self.items.iter().map(|i| i.host));
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
            printed = u64::saturating_add(printed, t.shareable.bytes);
            let how = How::Measured;
            self.push("buffers towards peers", how, t.shareable.bytes, 0, by_size(&t.shareable));
            self.check_buffers(&made);
        } else if !same || made.gpu > 0 && t.cuda.count == 0 {
            let how = if made.assumed { How::Assumed } else { How::Computed };
            self.push("buffers towards peers", how, made.gpu, 0, made.detail.join(", "));
        }
        if t.cuda.count > 0 {
            let rest = if same { t.cuda.bytes - t.shareable.bytes } else { t.cuda.bytes };
            printed = u64::saturating_add(printed, rest);
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
        printed = u64::saturating_add(printed, self.nvls());
        if t.shareable.count == 0 && t.cuda.count == 0 {
            self.pool(&made);
        }
        // What the lines of SHM tell is in those of ALLOC, where there are any.
        let host = if t.host.count > 0 { &t.host } else { &t.mapped };
        if host.count > 0 {
            self.push("host memory", How::Measured, 0, host.bytes, by_size(host));
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
        for (kind, &n) in &t.sends {
            *all.entry((Direction::Send, kind.transport, kind.pxn)).or_default() += n;
            if !is_local(kind.transport) {
                continue;
            }
            *sent.entry(kind.conn).or_default() += n;
            if kind.peer.is_empty() {
                *far.entry((kind.transport, kind.conn)).or_default() += n;
            } else if !self.peers.known.contains_key(&self.peers.runs.place(self.index, self.p, &kind.peer)) {
                unknown_peer.insert(kind.conn);
            }
        }
        for (kind, n) in &t.receives {
            *all.entry((Direction::Receive, kind.transport, false)).or_default() += n;
        }
        let mut seen = self.peers.to(self.index, self.p);
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
            out.gpu = out.gpu.saturating_add(gpu.saturating_mul(n));
            out.host = out.host.saturating_add(taken.host.saturating_mul(n));
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
        let collnet = has_collnet(self.p);
        let arrays = |c: &Counts| {
            let collnet = if collnet { c.collnet } else { 0 };
            c.coll.max(c.p2p) * s.per_channel + c.nvls + collnet + s.per_communicator
        };
        self.p.tally.counts.iter().map(|(c, n)| arrays(c) * n * s.granule).sum()
    }

    fn lost_by_rounding(&self) -> u64 {
        let t = &self.p.tally;
        if !self.sizes.cumem {
            return 0;
        }
        sum(t.cuda.by.iter().map(|(size, n)| (up(*size, self.sizes.granule) - size).saturating_mul(*n)))
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
        let total = sum(t.nvls.iter().map(|(s, n)| s.total.saturating_mul(*n)));
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
            self.push(
                name,
                How::Assumed,
                most * n.min(self.sizes.pool_directions),
                0,
                format!("{detail}, for one communicator"),
            );
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
            Some(rest) if pools.contains(&rest) => ": a pool for send and receive",
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

/// Whether a process uses CollNet. Since 2.21 what is printed as its channels are all channels, used or not.
pub(super) fn has_collnet(p: &ProcessSeen) -> bool {
    p.tally.connected.contains_key(&Algorithm::CollNet)
        || p.env.get("NCCL_COLLNET_ENABLE").is_some_and(|v| v.trim() == "1")
        || p.release.is_some_and(|r| r < Release(2, 21, 0))
}

/// The constants of a process, and how it is known whether cuMem is on.
pub(super) fn sizes_of(tables: &Tables, p: &ProcessSeen, arch: &str) -> (Sizes, &'static str) {
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
fn by_size(all: &Sum) -> String {
    let mut sizes: Vec<(u64, u64)> = all.by.iter().map(|(s, n)| (*s, *n)).collect();
    sizes.sort_by_key(|(s, n)| (std::cmp::Reverse(s.saturating_mul(*n)), *s));
    let text = |s: u64| if s.is_multiple_of(MIB / 4) { mib_text(Span::of(s)) } else { format!("{s} B") };
    let mut parts: Vec<String> = sizes.iter().take(6).map(|(s, n)| format!("{n} x {}", text(*s))).collect();
    if sizes.len() > 6 {
        parts.push(format!("{} more sizes", sizes.len() - 6));
    }
    parts.join(", ")
}
