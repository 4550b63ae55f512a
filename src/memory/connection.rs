//! What one connection takes: (channel, peer, direction) by transport.
//!
//! Sources: transport/p2p.cc p2pSendSetup and p2pRecvSetup, transport/shm.cc
//! shmSendSetup and shmRecvSetup, transport/net.cc sendProxyConnect and
//! recvProxyConnect.

use super::Sizes;
use super::sizes::up;
use serde::Serialize;

/// How two ranks are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Direct access between GPUs, written by the sender.
    P2p,
    /// Direct access, read by the receiver (two GPUs of compute capability 8.0 with NVLink).
    P2pRead,
    /// Over a third GPU, which holds the receiver's buffer.
    P2pIndirect,
    /// Shared memory of the host.
    Shm,
    /// Network adapter that reads and writes GPU memory.
    NetGdr,
    /// Network through buffers in host memory.
    Net,
    /// Network, send and receive, buffers in a pool of the communicator; GPU memory or not.
    NetShared {
        /// Whether the pool lies on the GPU.
        gdr: bool,
    },
}

/// Side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// This rank sends.
    Send,
    /// This rank receives.
    Receive,
}

/// Bytes of one connection on this rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Taken {
    /// GPU memory.
    pub gpu: u64,
    /// Host memory, /dev/shm included.
    pub host: u64,
}

impl Transport {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::P2p => "P2P",
            Self::P2pRead => "P2P/read",
            Self::P2pIndirect => "P2P/indirect",
            Self::Shm => "SHM",
            Self::NetGdr => "NET/GDRDMA",
            Self::Net => "NET without GDRDMA",
            Self::NetShared { gdr: true } => "NET/GDRDMA/Shared",
            Self::NetShared { gdr: false } => "NET/Shared",
        }
    }
}

/// What one connection takes on this rank.
#[must_use]
pub fn connection(s: &Sizes, transport: Transport, direction: Direction) -> Taken {
    use Direction::{Receive, Send};
    let gpu = |bytes| Taken { gpu: bytes, host: 0 };
    match (transport, direction) {
        (Transport::P2p, Receive) => gpu(s.shareable(s.block + s.buffers())),
        (Transport::P2p | Transport::P2pIndirect, Send) => gpu(s.shareable(s.block)),
        (Transport::P2pRead, Receive) => gpu(s.shareable(s.block + s.ll + s.ll128)),
        (Transport::P2pRead, Send) => gpu(s.shareable(s.block + s.simple)),
        // The buffer lies on the GPU in between: some other rank of the host pays for it.
        (Transport::P2pIndirect, Receive) => Taken::default(),
        (Transport::Shm, Receive) => Taken { gpu: 0, host: s.block + s.buffers() + s.shm_counter },
        (Transport::Shm, Send) => Taken { gpu: 0, host: s.block + s.shm_counter },
        (Transport::NetGdr, Receive) => Taken { gpu: s.rounded(s.buffers()), host: s.net_host },
        (Transport::NetGdr, Send) => Taken { gpu: s.rounded(s.simple + s.ll128), host: s.ll + s.net_host },
        (Transport::Net, _) => Taken { gpu: 0, host: s.buffers() + s.net_host },
        (Transport::NetShared { .. }, _) => Taken { gpu: 0, host: s.net_host },
    }
}

/// The pool of send and receive for one direction: channels times slots times chunk.
///
/// Source: transport/net.cc sharedNetBuffersInit.
pub(super) fn pool(s: &Sizes, p2p_channels: u64, chunk: u64) -> u64 {
    let bytes = p2p_channels.saturating_mul(s.pool_slots).saturating_mul(chunk);
    if s.cumem { up(bytes, s.granule) } else { bytes }
}
