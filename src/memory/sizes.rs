//! The constants of one release on one architecture, with what variables set
//! instead. The numbers themselves stand in `rules/tables/memory.toml`.

use crate::base::{Release, ReleaseRange, number};
use crate::knowledge::Constant;
use std::collections::BTreeMap;

/// Variables by name, as the job has them set.
pub type Env = BTreeMap<String, String>;

/// Sizes in bytes and behaviour of one release.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Simple buffer.
    pub simple: u64,
    /// LL buffer.
    pub ll: u64,
    /// LL128 buffer; 0 before 2.5.
    pub ll128: u64,
    /// Control block at the head of a P2P or SHM buffer.
    pub block: u64,
    /// Host part of a network connection.
    pub net_host: u64,
    /// Counter behind a segment in /dev/shm.
    pub shm_counter: u64,
    /// What P2P buffers are rounded up to; 1 where they are not.
    pub ipc_align: u64,
    /// What every allocation is rounded up to with cuMem.
    pub granule: u64,
    /// Control arrays of a channel.
    pub per_channel: u64,
    /// Control arrays of a communicator.
    pub per_communicator: u64,
    /// Most channels.
    pub max_channels: u64,
    /// Whether send and receive exist.
    pub send_receive: bool,
    /// Pools of send and receive: one each, one for both, or none (before 2.8).
    pub pool_directions: u64,
    /// Chunks of a channel in the send and receive pools.
    pub pool_slots: u64,
    /// Largest chunk of send and receive that the Simple buffer allows.
    pub chunk_most: u64,
    /// Chunk of send and receive between nodes.
    pub chunk_net: u64,
    /// Chunk on one node that is all NVLink.
    pub chunk_nvlink: u64,
    /// Chunk on one node with PCIe.
    pub chunk_pcie: u64,
    /// Whether the send pool is made at init.
    pub eager_pool: bool,
    /// Buffer of NVLS; 0 before 2.17.
    pub nvls_buffer: u64,
    /// Flags beside each of them.
    pub nvls_flags: u64,
    /// Credits of a communicator with NVLS.
    pub nvls_credits: u64,
    /// Fewest ranks of a node that have NVLS.
    pub nvls_ranks: u64,
    /// Whether NVLS is for communicators on one node only.
    pub nvls_one_node: bool,
    /// Queue in which the host hands work to kernels; 0 before 2.14, where it is not known.
    pub work_fifo: u64,
    /// Pool of operations of the proxy thread in /dev/shm; 0 before 2.13, where it is not known.
    pub proxy_ops: u64,
    /// Whether NVLS memory is rounded up to a granularity that only the log tells.
    pub nvls_rounded: bool,
    /// Whether cuMem is on.
    pub cumem: bool,
    /// Whether algorithms are connected at their first use.
    pub lazy: bool,
    /// Whether PAT exists.
    pub pat: bool,
    /// Whether NVLS works without cuMem (before 2.19).
    pub nvls_without_cumem: bool,
}

impl Sizes {
    /// Of a release (the newest where it is not known) on an architecture (`x86_64`, `aarch64`).
    #[must_use]
    pub fn new(constants: &[Constant], release: Option<Release>, arch: &str, env: &Env) -> Self {
        let get = |name: &str| pick(constants, name, release, arch, env).unwrap_or(0);
        let yes = |name: &str| get(name) != 0;
        let cumem = yes("cumem");
        let lazy = cumem && yes("lazy");
        let simple = get("simple");
        // Once the chunk was a part of the Simple buffer; later so many chunks have to fit in it.
        let (share, steps) = (get("chunk-share"), get("chunk-steps"));
        let chunk_most = simple.checked_div(steps).unwrap_or(u64::MAX);
        let chunk = |name: &str| simple.checked_div(share).unwrap_or_else(|| get(name).min(chunk_most));
        Self {
            simple,
            ll: get("ll"),
            ll128: get("ll128"),
            block: get("block"),
            net_host: get("net-host"),
            shm_counter: get("shm-counter"),
            ipc_align: get("ipc-align").max(1),
            granule: get("granule").max(1),
            per_channel: get("arrays-per-channel"),
            per_communicator: get("arrays-per-communicator"),
            max_channels: get("max-channels"),
            send_receive: yes("send-receive"),
            pool_directions: get("pool-directions"),
            pool_slots: get("pool-slots"),
            chunk_most,
            chunk_net: chunk("chunk-net"),
            chunk_nvlink: chunk("chunk-nvlink"),
            chunk_pcie: chunk("chunk-pcie"),
            eager_pool: yes("eager-pool") && !lazy,
            nvls_buffer: get("nvls-buffer"),
            nvls_flags: get("nvls-flags"),
            nvls_credits: get("nvls-credits"),
            nvls_ranks: get("nvls-ranks"),
            nvls_one_node: yes("nvls-one-node"),
            work_fifo: get("work-fifo"),
            proxy_ops: get("proxy-ops"),
            nvls_rounded: yes("nvls-multicast-rounding"),
            cumem,
            lazy,
            pat: yes("pat"),
            nvls_without_cumem: release.is_some_and(|r| r < Release(2, 19, 0)),
        }
    }

    /// Whether ranks so many on a node, on so many nodes, have NVLS where the hardware does.
    #[must_use]
    pub fn has_nvls(&self, on_node: u64, nodes: u64) -> bool {
        self.nvls_buffer > 0
            && (self.cumem || self.nvls_without_cumem)
            && on_node >= self.nvls_ranks
            && (nodes <= 1 || !self.nvls_one_node)
    }

    /// An allocation as the driver makes it: rounded up with cuMem, as it is without.
    #[must_use]
    pub fn rounded(&self, bytes: u64) -> u64 {
        if self.cumem { up(bytes, self.granule) } else { bytes }
    }

    /// A P2P buffer: rounded up for IPC, and by cuMem.
    #[must_use]
    pub fn shareable(&self, bytes: u64) -> u64 {
        self.rounded(up(bytes, self.ipc_align))
    }

    /// All three buffers of a connection.
    #[must_use]
    pub fn buffers(&self) -> u64 {
        self.simple + self.ll + self.ll128
    }
}

/// Rounds up.
pub(super) fn up(bytes: u64, to: u64) -> u64 {
    bytes.div_ceil(to.max(1)).saturating_mul(to.max(1))
}

/// The number that NCCL makes of a value; `None` where it takes its default.
pub(super) fn number_of(value: &str) -> Option<i64> {
    let n = number::read(value);
    (!value.trim().is_empty() && !n.overflow).then_some(n.value)
}

/// The last constant of that name that fits; a variable that sets it wins.
fn pick(constants: &[Constant], name: &str, release: Option<Release>, arch: &str, env: &Env) -> Option<u64> {
    let release = release.unwrap_or(Release(u32::MAX, 0, 0));
    let found = constants.iter().rev().find(|c| {
        c.name == name
            && (c.arch.is_empty() || c.arch == arch)
            && (c.nccl.is_empty() || ReleaseRange::parse(&c.nccl).is_some_and(|r| r.contains(release)))
    })?;
    // Read as NCCL reads it; a negative number, or one beyond 64 bits, stands for the default.
    let set = env.get(&found.variable).and_then(|v| number_of(v)).and_then(|n| u64::try_from(n).ok());
    Some(set.unwrap_or(found.value).saturating_mul(found.times))
}
