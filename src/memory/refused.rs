//! What a size stands for that NCCL asked for in vain: the sizes of its
//! buffers are few, so the number alone often tells which one it was.

use super::plan::mib_text;
use super::{Direction, Env, Sizes, Span, Transport, connection};
use crate::base::Release;
use crate::knowledge::Constant;
use serde::Serialize;

/// One thing that a size may be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Meaning {
    /// What it is.
    pub what: String,
    /// Where: `GPU memory`, `host memory`.
    pub place: &'static str,
}

/// Smaller requests are control arrays: the GPU has nothing left at all.
const SMALL: u64 = 64 << 10;

/// Releases that stand for all others: sizes changed only between them.
const AGES: [Release; 11] = [
    Release(2, 4, 8),
    Release(2, 6, 4),
    Release(2, 16, 5),
    Release(2, 18, 6),
    Release(2, 20, 5),
    Release(2, 21, 5),
    Release(2, 23, 4),
    Release(2, 24, 3),
    Release(2, 25, 1),
    Release(2, 27, 3),
    Release(2, 30, 7),
];

/// What a size may be, most telling first. `release` is that of the job, where it is known; `small` says whether a
/// small size was truly refused (a log says so), which then means a control array.
#[must_use]
pub fn meanings(
    constants: &[Constant],
    bytes: u64,
    release: Option<Release>,
    env: &Env,
    small: bool,
) -> Vec<Meaning> {
    let mut found: Vec<Meaning> = Vec::new();
    let ages: Vec<Release> = release.map_or_else(|| AGES.iter().rev().copied().collect(), |r| vec![r]);
    for age in ages {
        let usual = Sizes::new(constants, Some(age), "x86_64", env);
        for arch in ["x86_64", "aarch64"] {
            let own = Sizes::new(constants, Some(age), arch, env);
            for cumem in [own.cumem, !own.cumem] {
                let sizes = Sizes { cumem, ..own };
                for meaning in candidates(&sizes, bytes) {
                    let known =
                        found.iter().any(|m| m.place == meaning.place && m.what.starts_with(&meaning.what));
                    let what =
                        if own == usual { meaning.what } else { format!("{} on an ARM host", meaning.what) };
                    if !known {
                        found.push(Meaning { what, ..meaning });
                    }
                }
            }
        }
    }
    if let Some(meaning) = other_buffer(&Sizes::new(constants, release, "x86_64", env), bytes)
        && found.is_empty()
    {
        found.push(meaning);
    }
    if found.is_empty() && small && bytes < SMALL {
        found.push(Meaning {
            what: "a small control array: the GPU has nothing left at all".into(),
            place: GPU,
        });
    }
    found
}

const GPU: &str = "GPU memory";
const HOST: &str = "host memory";

fn candidates(s: &Sizes, bytes: u64) -> Vec<Meaning> {
    use Direction::{Receive, Send};
    let mut out = Vec::new();
    let mut is = |size: u64, what: &str, place: &'static str| {
        if size == bytes && size > 0 {
            out.push(Meaning { what: what.into(), place });
        }
    };
    let gpu = |t, d| connection(s, t, d).gpu;
    is(gpu(Transport::P2p, Receive), "the receive buffer of one P2P connection", GPU);
    if s.cumem {
        is(gpu(Transport::NetGdr, Receive), "a buffer of one network connection with GPUDirect RDMA", GPU);
    } else {
        is(gpu(Transport::NetGdr, Receive), "the receive buffer of one network connection (cuMem off)", GPU);
        is(gpu(Transport::NetGdr, Send), "the send buffer of one network connection (cuMem off)", GPU);
    }
    is(gpu(Transport::P2pRead, Receive), "the receive side of one P2P connection in read mode", GPU);
    is(gpu(Transport::P2pRead, Send), "the send side of one P2P connection in read mode", GPU);
    is(gpu(Transport::P2p, Send), "the send side of one P2P connection", GPU);
    if s.cumem {
        is(s.granule, "a control array, rounded up", GPU);
    }
    let shm = connection(s, Transport::Shm, Receive).host;
    is(shm, "one SHM connection: its segment in /dev/shm", HOST);
    is(shm - s.shm_counter, "one SHM connection: its segment in /dev/shm", HOST);
    let pxn = s.ll + s.net_host;
    is(pxn, "the host part of a network connection over another GPU (PXN)", HOST);
    is(pxn + s.shm_counter, "the host part of a network connection over another GPU (PXN)", HOST);
    if s.proxy_ops > 0 {
        for size in [s.proxy_ops, s.proxy_ops + s.shm_counter] {
            is(size, "the pool of operations of the proxy thread, one for each process", HOST);
        }
    }
    out.extend(nvls(s, bytes));
    out.extend(pools(s, bytes));
    out
}

/// Channels that NVLS has, on nodes of that many GPUs.
fn nvls(s: &Sizes, bytes: u64) -> Vec<Meaning> {
    let each = s.nvls_buffer + s.nvls_flags;
    let mut out = Vec::new();
    for (channels, heads) in [(16, 8), (24, 8), (32, 8), (16, 4), (24, 4)] {
        // More than 16 channels came with Blackwell.
        if each > 0 && (channels == 16 || s.max_channels > 32) && channels * 2 * each * heads == bytes {
            out.push(Meaning {
                what: format!(
                    "NVLS buffers: {channels} channels x 2 x {} x {heads} GPUs",
                    mib_text(Span::of(each))
                ),
                place: GPU,
            });
        }
    }
    out
}

fn pools(s: &Sizes, bytes: u64) -> Vec<Meaning> {
    let mut out = Vec::new();
    for (chunk, on) in [(s.chunk_net, "between nodes"), (s.chunk_nvlink, "on a node that is all NVLink")] {
        // Fewer channels make sizes that mean other things far more often.
        let channels = bytes / (s.pool_slots * chunk).max(1);
        let is_pool = channels.is_power_of_two() && (8..=64).contains(&channels);
        if is_pool && channels * s.pool_slots * chunk == bytes && (s.eager_pool || on == "between nodes") {
            out.push(Meaning {
                what: format!(
                    "a pool for send and receive {on}: {channels} channels x {} x {} KiB",
                    s.pool_slots,
                    chunk >> 10
                ),
                place: GPU,
            });
        }
    }
    out
}

/// A segment with another NCCL_BUFFSIZE than the default.
fn other_buffer(s: &Sizes, bytes: u64) -> Option<Meaning> {
    let rest = bytes.checked_sub(s.block + s.ll + s.ll128)?;
    [rest, rest.saturating_sub(s.shm_counter)].into_iter().find(|r| r.is_power_of_two() && *r >= SMALL).map(
        |r| Meaning {
            what: format!("one SHM connection with NCCL_BUFFSIZE={r}: its segment in /dev/shm"),
            place: HOST,
        },
    )
}
