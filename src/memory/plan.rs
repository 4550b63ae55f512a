//! What one rank holds for its communicators, computed from a few numbers:
//! ranks, channels, transports, and which algorithms are in use.
//!
//! Sources: transport/generic.cc (ring, tree, PAT), transport/nvls.cc,
//! transport/coll_net.cc sharedBuffersInit, transport/net.cc, channel.cc
//! initChannel, graph/paths.cc ncclTopoComputeP2pChannels. The sizes
//! themselves come from `sizes` and `connection`.

use super::connection::pool;
use super::{Direction, Env, Sizes, Span, Transport, connection};
use crate::base::Release;
use crate::knowledge::Constant;
use serde::Serialize;
use std::collections::BTreeSet;

/// A communicator as its INIT lines describe it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Ranks.
    pub nranks: u64,
    /// Ranks of it on each node.
    pub per_node: u64,
    /// Channels of collectives.
    pub channels: u64,
    /// Channels of CollNet.
    pub collnet: u64,
    /// Channels of NVLS.
    pub nvls: u64,
    /// Channels of send and receive.
    pub p2p_channels: u64,
    /// Those of them that one peer has.
    pub per_peer: u64,
    /// Ranks on a node that hold an NVLS buffer.
    pub heads: u64,
}

/// How ranks of one node are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Local {
    /// Direct access.
    P2p,
    /// Direct access, read by the receiver.
    P2pRead,
    /// Shared memory.
    Shm,
}

/// What has been used so far, or will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Uses {
    /// Ring.
    pub ring: bool,
    /// Tree.
    pub tree: bool,
    /// NVLink SHARP.
    pub nvls: bool,
    /// PAT.
    pub pat: bool,
    /// CollNet.
    pub collnet: bool,
    /// Send and receive with every peer.
    pub all_to_all: bool,
}

impl Default for Uses {
    fn default() -> Self {
        Self { ring: true, tree: true, nvls: true, pat: false, collnet: false, all_to_all: false }
    }
}

/// A rank's communicators, all of one shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Each of them.
    pub shape: Shape,
    /// How many.
    pub communicators: u64,
    /// Within a node.
    pub local: Local,
    /// Whether the network reads and writes GPU memory.
    pub gdr: bool,
    /// Whether all GPUs of a node are joined by NVLink (decides the chunk of send and receive on one node).
    pub nvlink: bool,
    /// What is used.
    pub uses: Uses,
    /// Chunk of send and receive where the log tells it.
    pub chunk: Option<u64>,
    /// Release; the newest where it is not known.
    pub release: Option<Release>,
    /// Architecture of the host.
    pub arch: String,
    /// Variables.
    pub env: Env,
}

/// One thing that takes memory, for one communicator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Short id.
    pub id: &'static str,
    /// What it is.
    pub name: &'static str,
    /// GPU memory in bytes.
    pub gpu: Span,
    /// Host memory in bytes.
    pub host: Span,
    /// When it is made.
    pub when: &'static str,
    /// How it is counted.
    pub formula: String,
}

/// All parts together, times the communicators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Total {
    /// GPU memory in bytes.
    pub gpu: Span,
    /// Host memory in bytes.
    pub host: Span,
}

/// The next power of two, as NCCL rounds the channels of send and receive.
#[must_use]
pub fn power_of_two_up(n: u64) -> u64 {
    n.max(1).next_power_of_two()
}

impl Shape {
    /// Nodes.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.nranks.div_ceil(self.per_node.max(1))
    }

    /// Ranks on one node.
    #[must_use]
    pub fn on_node(&self) -> u64 {
        self.per_node.min(self.nranks)
    }
}

impl Plan {
    /// The constants that hold for it.
    #[must_use]
    pub fn sizes(&self, constants: &[Constant]) -> Sizes {
        Sizes::new(constants, self.release, &self.arch, &self.env)
    }

    /// The chunk of send and receive.
    #[must_use]
    pub fn chunk(&self, s: &Sizes) -> u64 {
        let chunk = self.chunk.unwrap_or(match (self.shape.nodes() > 1, self.nvlink) {
            (true, _) => s.chunk_net,
            (false, true) => s.chunk_nvlink,
            (false, false) => s.chunk_pcie,
        });
        chunk.min(s.chunk_most)
    }

    fn local(&self) -> Transport {
        match self.local {
            Local::P2p => Transport::P2p,
            Local::P2pRead => Transport::P2pRead,
            Local::Shm => Transport::Shm,
        }
    }

    fn network(&self) -> Transport {
        if self.gdr { Transport::NetGdr } else { Transport::Net }
    }
}

/// Adds up parts, times the communicators.
#[must_use]
pub fn total(parts: &[Part], communicators: u64) -> Total {
    let sum =
        |of: fn(&Part) -> Span| parts.iter().map(of).fold(Span::default(), Span::plus).times(communicators);
    Total { gpu: sum(|p| p.gpu), host: sum(|p| p.host) }
}

/// What one communicator takes on one rank. Ranks differ where a ring or tree leaves the node; so a part is a span.
#[must_use]
pub fn compute(constants: &[Constant], plan: &Plan) -> Vec<Part> {
    let s = plan.sizes(constants);
    let c = Counting { plan, s: &s };
    let mut parts = vec![c.control()];
    parts.extend([c.ring(), c.tree(), c.nvls_credits(), c.nvls(), c.nvls_tree()].into_iter().flatten());
    parts.extend([c.pat(), c.collnet(), c.peers()].into_iter().flatten());
    parts.extend(c.pools());
    parts.extend(c.work_fifo());
    parts
}

/// One communicator being counted.
struct Counting<'p> {
    plan: &'p Plan,
    s: &'p Sizes,
}

/// Several sends and receives as one span each for GPU and host.
#[derive(Clone, Copy, Default)]
struct Both {
    gpu: Span,
    host: Span,
}

impl Counting<'_> {
    fn one(&self, transport: Transport, direction: Direction) -> Both {
        let taken = connection(self.s, transport, direction);
        Both { gpu: Span::of(taken.gpu), host: Span::of(taken.host) }
    }

    /// One receive and one send.
    fn pair(&self, receive: Transport, send: Transport) -> Both {
        let (r, t) = (self.one(receive, Direction::Receive), self.one(send, Direction::Send));
        Both { gpu: r.gpu.plus(t.gpu), host: r.host.plus(t.host) }
    }

    fn at(&self, first_use: &'static str) -> &'static str {
        if self.s.lazy { first_use } else { "at init" }
    }

    fn part(
        &self,
        id: &'static str,
        name: &'static str,
        all: Both,
        when: &'static str,
        formula: String,
    ) -> Part {
        Part { id, name, gpu: all.gpu, host: all.host, when, formula }
    }

    /// Small arrays, each an allocation of its own.
    fn control(&self) -> Part {
        let shape = &self.plan.shape;
        let channels = shape.channels.max(shape.p2p_channels);
        let nvls = self.nvls_channels();
        let arrays = channels * self.s.per_channel + nvls + shape.collnet + self.s.per_communicator;
        let (bytes, formula) = if self.s.cumem {
            let mib = self.s.granule / super::MIB;
            let formula = format!(
                "{mib} MiB x ({} x {channels} channels + {nvls} NVLS + {} CollNet + {})",
                self.s.per_channel, shape.collnet, self.s.per_communicator
            );
            (arrays * self.s.granule, formula)
        } else {
            (0, format!("{arrays} small arrays that share pages without cuMem: some KiB"))
        };
        let all = Both { gpu: Span::of(bytes), host: Span::default() };
        self.part("control", "control arrays", all, "at init", formula)
    }

    /// One receive and one send on each channel; which of them leave the node differs by rank.
    fn ring(&self) -> Option<Part> {
        let shape = &self.plan.shape;
        let made = self.plan.uses.ring || !self.s.lazy;
        if !made || shape.nranks < 2 {
            return None;
        }
        let (local, net) = (self.plan.local(), self.plan.network());
        let ways: &[(Transport, Transport)] = match (shape.nodes(), shape.on_node()) {
            (1, _) => &[(local, local)],
            (_, 1) => &[(net, net)],
            (_, 2) => &[(net, local), (local, net)],
            _ => &[(local, local), (net, local), (local, net)],
        };
        let one = widest(ways.iter().map(|&(r, t)| self.pair(r, t)));
        let formula = format!("{} channels x {}", shape.channels, mib_text(one.gpu));
        let all = one.times(shape.channels);
        Some(self.part("ring", "Ring connections", all, self.at("at the first use of Ring"), formula))
    }

    /// What Tree adds to Ring's connections.
    fn tree(&self) -> Option<Part> {
        let shape = &self.plan.shape;
        let made = self.plan.uses.tree || !self.s.lazy;
        // Two ranks have no peers but each other.
        if !made || shape.nranks <= 2 {
            return None;
        }
        let (local, net) = (self.plan.local(), self.plan.network());
        let receive = self.one(local, Direction::Receive);
        let send = self.one(local, Direction::Send);
        let inner = self.pair(local, local);
        // On a node the tree is a chain in ring order: only the way back is new.
        let chain = match shape.on_node() {
            1 => Both::default(),
            2 => widest([receive, send].into_iter()),
            _ => widest([receive, send, inner].into_iter()),
        };
        let link = self.pair(net, net);
        // One rank of a node, for each channel, holds the links to the nodes above and below.
        let links = match (shape.nodes(), shape.on_node()) {
            (1, _) => Both::default(),
            // A leaf whose parent is its neighbour in the ring has one of the two already.
            (_, 1) => {
                let (receive, send) = (self.one(net, Direction::Receive), self.one(net, Direction::Send));
                widest([receive, send, link.times(3)].into_iter())
            }
            (2, _) => widest([Both::default(), link].into_iter()),
            _ => widest([Both::default(), link.times(3)].into_iter()),
        };
        let one = chain.plus(links);
        let formula = format!("{} channels x {} beyond Ring's", shape.channels, mib_text(one.gpu));
        let all = one.times(shape.channels);
        Some(self.part("tree", "Tree connections", all, self.at("at the first use of Tree"), formula))
    }

    fn has_nvls(&self) -> bool {
        self.nvls_channels() > 0
    }

    /// None where the release has no NVLS for such a communicator.
    fn nvls_channels(&self) -> u64 {
        let shape = &self.plan.shape;
        if self.s.has_nvls(shape.on_node(), shape.nodes()) { shape.nvls } else { 0 }
    }

    fn nvls_credits(&self) -> Option<Part> {
        (self.has_nvls() && self.s.nvls_credits > 0).then(|| {
            let all = Both { gpu: Span::of(self.s.nvls_credits), host: Span::default() };
            self.part("nvls-credits", "NVLS credits", all, "at init", "one block of 2 MiB".into())
        })
    }

    fn nvls(&self) -> Option<Part> {
        let shape = &self.plan.shape;
        if !self.has_nvls() || !self.plan.uses.nvls && self.s.lazy {
            return None;
        }
        let each = self.s.nvls_buffer + self.s.nvls_flags;
        let heads = shape.heads.min(shape.on_node()).max(1);
        let bytes = shape.nvls * 2 * each * heads;
        let all = Both { gpu: Span::of(self.s.rounded(bytes)), host: Span::default() };
        let formula =
            format!("{} NVLS channels x 2 x {} x {heads} heads", shape.nvls, mib_text(Span::of(each)));
        Some(self.part("nvls", "NVLS buffers", all, self.at("at the first use of NVLS"), formula))
    }

    /// Links between nodes that NVLSTree adds, on the ranks that hold them.
    fn nvls_tree(&self) -> Option<Part> {
        let shape = &self.plan.shape;
        if !self.has_nvls() || shape.nodes() < 2 || !self.plan.uses.nvls && self.s.lazy {
            return None;
        }
        let net = self.plan.network();
        let link = self.pair(net, net);
        // Two nodes have one link; of more a node has its parent and up to two children.
        let links = if shape.nodes() == 2 { link } else { link.times(3) };
        let all = widest([Both::default(), links].into_iter()).times(shape.nvls);
        let formula = format!("{} NVLS channels x {} on heads", shape.nvls, mib_text(links.gpu));
        let when = self.at("at the first use of NVLSTree");
        Some(self.part("nvls-tree", "NVLSTree links between nodes", all, when, formula))
    }

    /// Up to 2 x ceil(log2 N) peers in both directions on every channel.
    fn pat(&self) -> Option<Part> {
        let shape = &self.plan.shape;
        if !self.plan.uses.pat || !self.s.pat || shape.on_node() != 1 || shape.nranks < 2 {
            return None;
        }
        let peers = pat_peers(shape.nranks);
        let net = self.plan.network();
        let one = self.pair(net, net);
        let formula = format!("{} channels x {peers} peers x {}", shape.channels, mib_text(one.gpu));
        let all = one.times(shape.channels * peers);
        Some(self.part("pat", "PAT connections", all, self.at("at the first use of PAT"), formula))
    }

    /// The pool of CollNet, one for both directions on the ranks that lead, and connections with the local leaders.
    fn collnet(&self) -> Option<Part> {
        let shape = &self.plan.shape;
        let made = self.plan.uses.collnet || !self.s.lazy;
        if !made || shape.collnet == 0 {
            return None;
        }
        let bytes = Span::of(2 * shape.channels * self.s.simple);
        let pool = if self.plan.gdr {
            Both { gpu: bytes, host: Span::default() }
        } else {
            Both { gpu: Span::default(), host: bytes }
        };
        let local = self.plan.local();
        let pair = self.pair(local, local);
        // At least one leader to take from and give to; at most all others, up and down. There are eight at most.
        let others = shape.on_node().saturating_sub(1).min(7);
        let all = match others {
            0 => pool,
            n => {
                let heads = widest([pair, pair.times(2 * n)].into_iter()).times(shape.channels);
                widest([Both::default(), pool].into_iter()).plus(heads)
            }
        };
        let mut formula = format!("2 x {} channels x {}", shape.channels, mib_text(Span::of(self.s.simple)));
        if others > 0 {
            formula.push_str(&format!(
                " on leaders, and {} channels x 1 to {} connections with leaders x {}",
                shape.channels,
                2 * others,
                mib_text(pair.gpu)
            ));
        }
        Some(self.part("collnet", "CollNet", all, self.at("at the first use of CollNet"), formula))
    }

    /// Send and receive with every peer: all channels of a peer are connected at once.
    fn peers(&self) -> Option<Part> {
        let shape = &self.plan.shape;
        if !self.plan.uses.all_to_all || !self.s.send_receive || shape.nranks < 2 {
            return None;
        }
        let (local, net) = (self.plan.local(), self.plan.network());
        let (near, far) = (self.pair(local, local), self.pair(net, net));
        let on_node = shape.on_node();
        // The last node may have fewer ranks.
        let last = shape.nranks - on_node * (shape.nodes() - 1);
        let of = |ranks: u64| {
            let here = near.times(ranks.saturating_sub(1).saturating_mul(shape.per_peer));
            let remote = if self.unshared() { shape.nranks - ranks } else { 0 };
            here.plus(far.times(remote.saturating_mul(shape.per_peer)))
        };
        let all = widest([of(on_node), of(last)].into_iter());
        if all.gpu.most == 0 && all.host.most == 0 {
            return None;
        }
        let count = |a: u64, b: u64| if a == b { a.to_string() } else { format!("{a} to {b}") };
        let peers = count(last.saturating_sub(1), on_node.saturating_sub(1));
        let mut formula =
            format!("{peers} local peers x {} channels x {}", shape.per_peer, mib_text(near.gpu));
        if shape.nodes() > 1 && self.unshared() {
            formula.push_str(&format!(
                ", {} remote peers x {} channels x {}",
                count(shape.nranks - on_node, shape.nranks - last),
                shape.per_peer,
                mib_text(far.gpu)
            ));
        }
        let when = "at the first send or receive with a peer";
        Some(self.part("peers", "send/recv connections", all, when, formula))
    }

    /// Whether each remote peer has buffers of its own.
    fn unshared(&self) -> bool {
        self.s.pool_directions == 0
            || self.plan.env.get("NCCL_NET_SHARED_BUFFERS").is_some_and(|v| v.trim() == "0")
    }

    /// The shared pools of send and receive over the network.
    fn pools(&self) -> Vec<Part> {
        let shape = &self.plan.shape;
        let chunk = self.plan.chunk(self.s);
        let bytes = pool(self.s, shape.p2p_channels, chunk);
        let formula =
            format!("{} channels x {} x {} KiB", shape.p2p_channels, self.s.pool_slots, chunk >> 10);
        let on_gpu = |gpu: bool| match gpu {
            true => Both { gpu: Span::of(bytes), host: Span::default() },
            false => Both { gpu: Span::default(), host: Span::of(bytes) },
        };
        let used = self.plan.uses.all_to_all && shape.nodes() > 1 && !self.unshared();
        let mut parts = Vec::new();
        if used && self.s.pool_directions == 1 {
            let when = "at the first send or receive with another node";
            parts.push(self.part("pool", "pool of send and receive", on_gpu(self.plan.gdr), when, formula));
            return parts;
        }
        if self.s.eager_pool {
            let name = if shape.nodes() > 1 { "send pool" } else { "send pool, never used on one node" };
            parts.push(self.part("send-pool", name, on_gpu(true), "at init", formula.clone()));
        } else if used {
            let when = "at the first send to another node";
            parts.push(self.part("send-pool", "send pool", on_gpu(self.plan.gdr), when, formula.clone()));
        }
        if used {
            let when = "at the first receive from another node";
            parts.push(self.part("receive-pool", "receive pool", on_gpu(self.plan.gdr), when, formula));
        }
        parts
    }

    /// The queue in which the host hands work to kernels.
    fn work_fifo(&self) -> Option<Part> {
        if self.s.work_fifo == 0 {
            return None;
        }
        let bytes = Span::of(self.s.work_fifo);
        let on_gpu = self.plan.env.get("NCCL_GDRCOPY_ENABLE").is_some_and(|v| v.trim() == "1");
        let all = if on_gpu {
            Both { gpu: bytes, host: Span::default() }
        } else {
            Both { gpu: Span::default(), host: bytes }
        };
        let formula = "NCCL_GDRCOPY_ENABLE=1 puts it on the GPU".to_string();
        Some(self.part("work-fifo", "work queue", all, "at init", formula))
    }
}

/// Different peers at distances 1, 2, 4 and so on, both ways around the ranks.
fn pat_peers(nranks: u64) -> u64 {
    let mut peers = BTreeSet::new();
    let mut step: u64 = 1;
    while step < nranks {
        peers.insert(step);
        peers.insert(nranks - step);
        step = step.saturating_mul(2);
    }
    peers.len() as u64
}

impl Both {
    fn times(self, n: u64) -> Self {
        Self { gpu: self.gpu.times(n), host: self.host.times(n) }
    }

    fn plus(self, other: Self) -> Self {
        Self { gpu: self.gpu.plus(other.gpu), host: self.host.plus(other.host) }
    }
}

/// From the least to the most of several ways.
fn widest(ways: impl Iterator<Item = Both>) -> Both {
    let join = |a: Span, b: Span| Span { least: a.least.min(b.least), most: a.most.max(b.most) };
    ways.reduce(|a, b| Both { gpu: join(a.gpu, b.gpu), host: join(a.host, b.host) }).unwrap_or_default()
}

/// `12 MiB`, `12 to 20 MiB`.
pub(super) fn mib_text(span: Span) -> String {
    let one = |bytes: u64| {
        let text = format!("{:.2}", bytes as f64 / super::MIB as f64);
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    };
    if span.least == span.most {
        format!("{} MiB", one(span.most))
    } else {
        format!("{} to {} MiB", one(span.least), one(span.most))
    }
}
