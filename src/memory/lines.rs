//! The lines of NCCL's log that tell of memory, one by one: the text behind
//! the header goes in, what it says comes out. All releases' wordings.

use super::{Direction, Transport};

/// Channels of a communicator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Counts {
    /// Of collectives.
    pub coll: u64,
    /// Of CollNet.
    pub collnet: u64,
    /// Of NVLS.
    pub nvls: u64,
    /// Of send and receive.
    pub p2p: u64,
    /// Those of them that one peer has.
    pub per_peer: u64,
}

/// What the NVLS line of a communicator tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct NvlsSize {
    /// Ranks that hold a buffer.
    pub heads: u64,
    /// Bytes of one buffer.
    pub buffer: u64,
    /// Bytes of all of them on this rank.
    pub total: u64,
}

/// An algorithm whose connections are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Ring.
    Ring,
    /// Tree.
    Tree,
    /// NVLSTree.
    NvlsTree,
    /// PAT.
    Pat,
    /// CollNet.
    CollNet,
}

/// One line that tells of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line<'t> {
    /// `24 coll channels, …`
    Counts(Counts),
    /// `P2P Chunksize set to …`
    Chunk(u64),
    /// `Channel 00/0 : 1[1] -> 2[2] via …`
    Connection {
        /// Channel.
        channel: u32,
        /// 1 for send and receive.
        conn: u32,
        /// The sender's device, as printed.
        from: &'t str,
        /// The receiver's.
        to: &'t str,
        /// Whether this process sends or receives.
        direction: Direction,
        /// How.
        transport: Transport,
        /// Whether it says CUMEM or IPC, which tells whether cuMem is on.
        cumem: Option<bool>,
        /// Whether the other end may be on another host (MNNVL).
        far: bool,
        /// Whether another rank's GPU holds the send buffer (PXN).
        pxn: bool,
    },
    /// `NVLS comm … nvlsTotalSize …`
    Nvls(NvlsSize),
    /// `NVLS rank … ucsize …`: bytes that the driver took.
    NvlsPhysical(u64),
    /// `Allocated shareable buffer … size …`
    Shareable(u64),
    /// `Cuda Alloc Size …`
    Cuda(u64),
    /// Host memory of one kind or another, by the lines of NCCL_DEBUG_SUBSYS=ALLOC.
    Host(u64),
    /// Host memory of a SHM connection, by the line of NCCL_DEBUG_SUBSYS=SHM. Those of ALLOC tell of it too.
    Mapped(u64),
    /// `Connected all rings`
    Connected(Algorithm),
    /// `comm … - Init START` or `COMPLETE`
    Init {
        /// Pointer, a name within its process.
        comm: &'t str,
        /// Size.
        nranks: u64,
        /// The device's number as other ranks' lines print it, where the line has it.
        device: Option<&'t str>,
        /// What all of its ranks call it, and no other communicator is called.
        id: Option<&'t str>,
        /// Whether it is done.
        complete: bool,
    },
    /// `comm … - Destroy COMPLETE` or `Abort COMPLETE`
    Destroyed {
        /// Pointer.
        comm: &'t str,
    },
}

/// What a text behind an NCCL header tells of memory; nothing where it does not.
#[must_use]
pub fn parse(text: &[u8]) -> Option<Line<'_>> {
    let first = *text.first()?;
    // Most lines are decided by their first letter.
    if !(first.is_ascii_digit() || first.is_ascii_alphabetic() || matches!(first, b'/' | b'.' | b'[' | b'_'))
    {
        return None;
    }
    let text = std::str::from_utf8(&text[..text.len().min(1024)]).ok()?;
    match first {
        b'0'..=b'9' => counts(text),
        b'N' if text.starts_with("NVLS ") => nvls(text),
        b'P' if text.starts_with("P2P Chunksize set to ") => Some(Line::Chunk(last_number(text)?)),
        b'R' if text.starts_with("Ring ") => connection(text.strip_prefix("Ring ")?),
        b'C' if text.starts_with("Channel ") => connection(text.strip_prefix("Channel ")?),
        b'C' if text.starts_with("Connected ") => connected(text.strip_prefix("Connected ")?),
        b'r' if text.starts_with("rank ") && text.ends_with(" Connected CollNet") => {
            Some(Line::Connected(Algorithm::CollNet))
        }
        _ if text.ends_with(" COMPLETE") || text.ends_with(" START") => life(text),
        _ => allocation(without_place(text)),
    }
}

/// The number behind a word and one blank.
fn after(text: &str, word: &str) -> Option<u64> {
    let at = text.find(word)? + word.len();
    leading(text[at..].trim_start())
}

fn leading(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok().filter(|n| *n <= LARGEST)
}

/// Larger numbers are damage: no allocation has 16 TiB.
const LARGEST: u64 = 1 << 44;
/// More channels, ranks of a node or ranks than this are damage too.
const CHANNELS: u64 = 4096;
const RANKS: u64 = 1 << 24;

fn last_number(text: &str) -> Option<u64> {
    leading(text.rsplit(' ').next()?)
}

/// `24 coll channels, 0 collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer`
fn counts(text: &str) -> Option<Line<'_>> {
    if !text.contains(" coll channels, ") {
        return None;
    }
    let mut counts = Counts::default();
    for part in text.split(", ") {
        let (number, what) = part.split_once(' ')?;
        let number = number.parse().ok().filter(|n| *n <= CHANNELS)?;
        match what.trim_end() {
            "coll channels" => counts.coll = number,
            "collnet channels" => counts.collnet = number,
            "nvls channels" => counts.nvls = number,
            "p2p channels" => counts.p2p = number,
            "p2p channels per peer" => counts.per_peer = number,
            _ => {}
        }
    }
    Some(Line::Counts(counts))
}

fn nvls(text: &str) -> Option<Line<'_>> {
    if let Some(total) = after(text, "nvlsTotalSize ") {
        let heads = after(text, " nHeads ").or_else(|| after(text, " nranks ")).unwrap_or(0);
        let heads = heads.min(CHANNELS);
        return Some(Line::Nvls(NvlsSize { heads, buffer: after(text, " buffSize ").unwrap_or(0), total }));
    }
    if !text.contains(" alloc done, ") {
        return None;
    }
    // `ucsize` since 2.26; before it `size`, which physical memory had too.
    after(text, " ucsize ").or_else(|| after(text, " size ")).map(Line::NvlsPhysical)
}

fn connected(rest: &str) -> Option<Line<'_>> {
    let of = [
        ("all rings", Algorithm::Ring),
        ("all trees", Algorithm::Tree),
        ("NVLS tree", Algorithm::NvlsTree),
        ("binomial trees", Algorithm::Pat),
        ("collnet", Algorithm::CollNet),
        ("Collnet", Algorithm::CollNet),
    ];
    of.iter().find(|o| rest.starts_with(o.0)).map(|o| Line::Connected(o.1))
}

/// `00/0 : 10[2] -> 11[3] [send] via NET/IB/0/GDRDMA`
fn connection(rest: &str) -> Option<Line<'_>> {
    let (channel, ends) = rest.split_once(" : ")?;
    let (channel, conn) = match channel.split_once('/') {
        Some((channel, conn)) => (channel, conn.trim().parse().ok()?),
        None => (channel, 0),
    };
    let channel = channel.trim().parse().ok()?;
    let (from, rest) = ends.split_once(" -> ")?;
    let (to, via) = rest.split_once(" via ")?;
    let (to, way) = match to.split_once(' ') {
        Some((to, way)) => (to, way.trim()),
        None => (to, ""),
    };
    let device = |end: &'_ str| -> Option<(usize, usize)> {
        let open = end.find('[')?;
        Some((open + 1, end.len() - usize::from(end.ends_with(']'))))
    };
    // Without brackets (the oldest releases) a rank is all there is.
    let cut = |end| device(end).map_or(end, |(a, b)| &end[a..b]);
    let via_word = via.split(' ').next().unwrap_or(via);
    let mut cumem = None;
    let (mut far, mut pxn) = (false, false);
    let transport = if via_word.starts_with("NET/") {
        let gdr = via_word.contains("/GDRDMA");
        // `NET/IB/0(4)`: the buffer lies with rank 4.
        pxn = via_word.contains('(') && !via_word.contains("/GDRDMA(") || via_word.contains(")/GDRDMA");
        match (via_word.contains("/Shared") || conn == 1, gdr) {
            (true, gdr) => Transport::NetShared { gdr },
            (false, true) => Transport::NetGdr,
            (false, false) => Transport::Net,
        }
    } else if via_word.starts_with("SHM") || via.starts_with("direct shared memory") {
        Transport::Shm
    } else if via_word.starts_with("P2P/") {
        far = via_word.contains("/MNNVL");
        cumem = match () {
            () if via_word.contains("/CUMEM") || far => Some(true),
            () if via_word.contains("/IPC") => Some(false),
            () => None,
        };
        if via_word.contains("/indirect") {
            Transport::P2pIndirect
        } else if via_word.contains("/read") || via.contains("/read") {
            Transport::P2pRead
        } else {
            Transport::P2p
        }
    } else {
        return None;
    };
    let direction = if way == "[receive]" { Direction::Receive } else { Direction::Send };
    Some(Line::Connection {
        channel,
        conn,
        from: cut(from.trim()),
        to: cut(to.trim()),
        direction,
        transport,
        cumem,
        far,
        pxn,
    })
}

/// `ncclCommInitRank comm 0x55aa rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 4d000 … - Init COMPLETE`
fn life(text: &str) -> Option<Line<'_>> {
    let at = text.find("comm 0x")? + "comm ".len();
    let mut words = text[at..].split(' ');
    let comm = words.next()?;
    if text.ends_with(" - Destroy COMPLETE") || text.ends_with(" - Abort COMPLETE") {
        return Some(Line::Destroyed { comm });
    }
    let complete = text.ends_with("Init COMPLETE");
    if !complete && !text.ends_with("Init START") {
        return None;
    }
    let words: Vec<&str> = words.collect();
    let value = |name: &str| words.windows(2).find(|w| w[0] == name).map(|w| w[1]);
    // Brackets of channel lines hold the NVML number since 2.18.3, the bus id before.
    let device = value("nvmlDev").or_else(|| value("busId"));
    Some(Line::Init {
        comm,
        nranks: value("nranks")?.parse().ok().filter(|n| *n <= RANKS)?,
        device,
        id: value("commId"),
        complete,
    })
}

/// Without `include/alloc.h:123 ` and `transport/p2p.cc:240 (ncclP2pAllocate…) ` before the text.
fn without_place(text: &str) -> &str {
    let Some((place, rest)) = text.split_once(' ') else { return text };
    let is_place = place.rsplit_once(':').is_some_and(|(file, line)| {
        file.contains('.') && !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit())
    });
    if !is_place {
        return text;
    }
    match rest.strip_prefix('(').and_then(|r| r.split_once(") ")) {
        Some((_, rest)) => rest,
        None => rest,
    }
}

fn allocation(text: &str) -> Option<Line<'_>> {
    // What was refused is printed too.
    if text.contains(" pointer (nil)") {
        return None;
    }
    if text.starts_with("Allocated shareable buffer ") {
        return after(text, " size ").map(Line::Shareable);
    }
    for opening in ["Cuda Alloc Size ", "Cuda Calloc Size ", "Cuda CallocAsync Size "] {
        if let Some(rest) = text.strip_prefix(opening) {
            return leading(rest).map(Line::Cuda);
        }
    }
    for opening in ["Cuda Host Alloc Size ", "CUMEM Host Alloc Size "] {
        if let Some(rest) = text.strip_prefix(opening) {
            return leading(rest).map(Line::Host);
        }
    }
    let host = text.starts_with("MMAP allocated shareable host buffer ")
        || text.starts_with("CUMEM allocated shareable buffer ");
    if host {
        return after(text, " size ").map(Line::Mapped);
    }
    let segment = text.strip_prefix("Allocated ").filter(|t| t.contains(" bytes of shared memory in "));
    segment.and_then(leading).map(Line::Host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transport(text: &str) -> Option<(u32, u32, String, String, Direction, Transport)> {
        match parse(text.as_bytes())? {
            Line::Connection { channel, conn, from, to, direction, transport, .. } => {
                Some((channel, conn, from.into(), to.into(), direction, transport))
            }
            _ => None,
        }
    }

    #[test]
    fn channel_lines_of_all_releases() {
        use Direction::{Receive, Send};
        let of = |c, n, f: &str, t: &str, d, x| Some((c, n, f.to_string(), t.to_string(), d, x));
        for (line, want) in [
            ("Channel 03/0 : 10[2] -> 11[3] via P2P/CUMEM", of(3, 0, "2", "3", Send, Transport::P2p)),
            ("Channel 03/1 : 10[2] -> 11[3] via P2P/CUMEM", of(3, 1, "2", "3", Send, Transport::P2p)),
            ("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read", of(0, 0, "0", "1", Send, Transport::P2pRead)),
            (
                "Channel 01 : 0[1a000] -> 1[2a000] via P2P/direct pointer",
                of(1, 0, "1a000", "2a000", Send, Transport::P2p),
            ),
            (
                "Channel 01 : 0[1a000] -> 1[2a000] via direct shared memory",
                of(1, 0, "1a000", "2a000", Send, Transport::Shm),
            ),
            ("Channel 02 : 0[0] -> 1[1] via SHM/direct/direct", of(2, 0, "0", "1", Send, Transport::Shm)),
            ("Ring 00 : 0[0] -> 1[1] via P2P/IPC", of(0, 0, "0", "1", Send, Transport::P2p)),
            (
                "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA",
                of(0, 0, "7", "0", Send, Transport::NetGdr),
            ),
            (
                "Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/0/GDRDMA(PCI)",
                of(0, 0, "7", "0", Receive, Transport::NetGdr),
            ),
            (
                "Channel 00/0 : 15[7] -> 0[0] [receive] via NET/Socket/0",
                of(0, 0, "7", "0", Receive, Transport::Net),
            ),
            (
                "Channel 00/1 : 0[0] -> 9[1] [send] via NET/IB/1(1)/GDRDMA/Shared",
                of(0, 1, "0", "1", Send, Transport::NetShared { gdr: true }),
            ),
            (
                "Channel 00/0 : 0[0] -> 4[4] via P2P/indirect/2[2]",
                of(0, 0, "0", "4", Send, Transport::P2pIndirect),
            ),
            ("Channel 00/0 : 0 -> 4 via something new", None),
        ] {
            assert_eq!(transport(line), want, "{line}");
        }
    }

    #[test]
    fn a_proxy_rank_and_a_mode_are_both_in_brackets() {
        let pxn = |text: &str| match parse(text.as_bytes()) {
            Some(Line::Connection { pxn, .. }) => pxn,
            other => panic!("{other:?}"),
        };
        assert!(pxn("Channel 00/0 : 0[0] -> 9[1] [send] via NET/IB/1(1)/GDRDMA"));
        assert!(pxn("Channel 00/0 : 0[0] -> 9[1] [send] via NET/IB/1(1)"));
        assert!(!pxn("Channel 00/0 : 0[0] -> 9[1] [send] via NET/IB/1/GDRDMA(PCI)"));
        assert!(!pxn("Channel 00/0 : 0[0] -> 9[1] [send] via NET/IB/1"));
    }

    #[test]
    fn allocations_with_and_without_their_place() {
        for (line, want) in [
            ("Cuda Alloc Size 1048576 pointer 0x7f01", Line::Cuda(1 << 20)),
            ("include/alloc.h:178 Cuda Alloc Size 528 pointer 0x7f01", Line::Cuda(528)),
            ("include/alloc.h:178 Cuda Calloc Size 528 pointer 0x7f01 memType 2", Line::Cuda(528)),
            (
                "include/alloc.h:178 (ncclCudaCallocDebug) Cuda CallocAsync Size 8 pointer 0x1 memType 2",
                Line::Cuda(8),
            ),
            ("Allocated shareable buffer 0x7f01 size 10485760 ipcDesc 0x55", Line::Shareable(10 << 20)),
            (
                "transport/p2p.cc:240 (ncclP2pAllocateShareableBuffer) Allocated shareable buffer 0x7f size 2097152 ipcDesc 0x5",
                Line::Shareable(2 << 20),
            ),
            ("include/alloc.h:59 Cuda Host Alloc Size 4 pointer 0x7f01", Line::Host(4)),
            (
                "MMAP allocated shareable host buffer /dev/shm/nccl-a1b2c3 size 9637888 ptr 0x7f",
                Line::Mapped(9_637_888),
            ),
            ("CUMEM allocated shareable buffer 0x7f01 size 9637888", Line::Mapped(9_637_888)),
            ("Allocated 9637892 bytes of shared memory in /dev/shm/nccl-a1b2c3", Line::Host(9_637_892)),
            (
                "os/linux.cc:799 (ncclShmOpen) Allocated 4100 bytes of shared memory in /dev/shm/nccl-a1b2c3",
                Line::Host(4100),
            ),
        ] {
            assert_eq!(parse(line.as_bytes()), Some(want), "{line}");
        }
        // A refused one takes no memory, nor does an imported buffer.
        assert_eq!(parse(b"include/alloc.h:178 Cuda Alloc Size 10485760 pointer (nil)"), None);
        let refused =
            "include/alloc.h:463 (ncclCudaMallocDebug) Cuda Alloc Size 10485760 pointer (nil) memType 0";
        assert_eq!(parse(refused.as_bytes()), None);
        assert_eq!(parse(b"Imported shareable buffer device 3 size 10485760 ptr 0x7f"), None);
        assert_eq!(
            parse(b"MMAP imported shareable host buffer /dev/shm/nccl-a1 size 9637888 ptr 0x7f"),
            None
        );
    }

    #[test]
    fn counts_nvls_and_communicators() {
        let all = "24 coll channels, 0 collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer";
        let want = Counts { coll: 24, collnet: 0, nvls: 16, p2p: 32, per_peer: 32 };
        assert_eq!(parse(all.as_bytes()), Some(Line::Counts(want)));
        let old = "2 coll channels, 4 p2p channels, 1 p2p channels per peer";
        let want = Counts { coll: 2, p2p: 4, per_peer: 1, ..Counts::default() };
        assert_eq!(parse(old.as_bytes()), Some(Line::Counts(want)));
        let line = "NVLS comm 0x55 headRank 2 nHeads 8 buffSize 4194304 memSize 2097152 nvlsPerRankSize 201326592 nvlsTotalSize 1610612736";
        let want = NvlsSize { heads: 8, buffer: 4 << 20, total: 1536 << 20 };
        assert_eq!(parse(line.as_bytes()), Some(Line::Nvls(want)));
        // 2.17 says nranks, 2.30 also how many ranks there are.
        let line = "NVLS comm 0x55 rank 2 nranks 8 buffSize 4194304 memSize 2097152 nvlsPerRankSize 201326592 nvlsTotalSize 1610612736";
        assert_eq!(parse(line.as_bytes()), Some(Line::Nvls(want)));
        let line = "NVLS comm 0x55 headRank 2 nHeads 8 nvlsRanks 8 buffSize 1048576 nvlsPerRankSize 33554432 nvlsTotalSize 268435456";
        let want = NvlsSize { heads: 8, buffer: 1 << 20, total: 256 << 20 };
        assert_eq!(parse(line.as_bytes()), Some(Line::Nvls(want)));
        let line = "NVLS rank 0 (dev 0) alloc done, ucptr 0x7 ucgran 2097152 mcptr 0x7 mcgran 536870912 ucsize 268435456 mcsize 536870912 (inputsize 268435456)";
        assert_eq!(parse(line.as_bytes()), Some(Line::NvlsPhysical(256 << 20)));
        let line = "NVLS rank 0 (dev 0) alloc done, ucptr 0x7 ucgran 2097152 mcptr 0x7 mcgran 536870912 size 536870912 (268435456)";
        assert_eq!(parse(line.as_bytes()), Some(Line::NvlsPhysical(512 << 20)));
        let line = "ncclCommInitRank comm 0x55aa01 rank 3 nranks 8 cudaDev 0 nvmlDev 3 busId 4d000 commId 0x9f - Init START";
        let want =
            Line::Init { comm: "0x55aa01", nranks: 8, device: Some("3"), id: Some("0x9f"), complete: false };
        assert_eq!(parse(line.as_bytes()), Some(want));
        let line = "comm 0x55aa01 rank 3 nranks 8 cudaDev 3 busId 4d000 - Destroy COMPLETE";
        assert_eq!(parse(line.as_bytes()), Some(Line::Destroyed { comm: "0x55aa01" }));
    }

    #[test]
    fn algorithms_that_are_connected() {
        for (line, want) in [
            ("Connected all rings", Algorithm::Ring),
            ("Connected all rings, use ring PXN 0 GDR 1", Algorithm::Ring),
            ("Connected all trees", Algorithm::Tree),
            ("Connected NVLS tree", Algorithm::NvlsTree),
            ("Connected binomial trees", Algorithm::Pat),
            ("Connected collnet + chain", Algorithm::CollNet),
            ("Connected Collnet Chains 0 1 2 3", Algorithm::CollNet),
            ("rank 3 Connected CollNet", Algorithm::CollNet),
        ] {
            assert_eq!(parse(line.as_bytes()), Some(Line::Connected(want)), "{line}");
        }
        assert_eq!(parse(b"Connected to proxy localRank 0 -> connection 0x7f"), None);
        assert_eq!(parse(b"P2P Chunksize set to 131072"), Some(Line::Chunk(131_072)));
    }

    #[test]
    fn nothing_in_odd_texts() {
        for text in [
            "",
            " ",
            "Channel ",
            "Channel 00/0 : ",
            "24 coll channels, ",
            "NVLS ",
            "comm - Init START",
            "a b COMPLETE",
            "Ring x : 1 -> 2 via P2P/IPC",
            "Cuda Alloc Size x",
            "99999999999999999999999 coll channels, 1 p2p channels",
        ] {
            let _ = parse(text.as_bytes());
        }
        assert_eq!(parse(&[0xff, 0xfe]), None);
    }
}
