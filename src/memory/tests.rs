//! The model against figures that NVIDIA's logs print and that follow from
//! NCCL's source by hand: sizes of connections, NVLS by release, whole nodes.

use super::*;
use crate::base::Release;
use crate::knowledge::{Knowledge, Tables};
use std::sync::LazyLock;

static TABLES: LazyLock<Tables> = LazyLock::new(|| Knowledge::built_in().0.tables);

fn sizes(release: &str) -> Sizes {
    Sizes::new(&TABLES.constants, Release::parse(release), "x86_64", &Env::new())
}

fn gpu(release: &str, transport: Transport, direction: Direction) -> u64 {
    connection(&sizes(release), transport, direction).gpu
}

/// `n` ranks on nodes of `per_node`, with these channels.
fn plan(release: &str, nranks: u64, per_node: u64, channels: u64, nvls: u64, per_peer: u64) -> Plan {
    Plan {
        shape: Shape {
            nranks,
            per_node,
            channels,
            collnet: 0,
            nvls,
            p2p_channels: power_of_two_up(channels),
            per_peer,
            heads: per_node,
        },
        communicators: 1,
        local: Local::P2p,
        gdr: true,
        nvlink: true,
        uses: Uses { all_to_all: true, ..Uses::default() },
        chunk: None,
        release: Release::parse(release),
        arch: "x86_64".into(),
        env: Env::new(),
    }
}

fn part(plan: &Plan, id: &str) -> (u64, u64) {
    let parts = compute(&TABLES.constants, plan);
    let found = parts.iter().find(|p| p.id == id);
    found.map_or((0, 0), |p| (p.gpu.least / MIB, p.gpu.most / MIB))
}

fn host_part(plan: &Plan, id: &str) -> (u64, u64) {
    let parts = compute(&TABLES.constants, plan);
    let found = parts.iter().find(|p| p.id == id);
    found.map_or((0, 0), |p| (p.host.least, p.host.most))
}

/// The same with a variable set.
fn with(mut plan: Plan, name: &str, value: &str) -> Plan {
    plan.env.insert(name.into(), value.into());
    plan
}

#[test]
fn buffers_of_all_ages() {
    let s = sizes("2.30.7");
    assert_eq!((s.simple, s.ll, s.ll128, s.buffers()), (4_194_304, 524_288, 4_915_200, 9_633_792));
    let s = sizes("2.3.7");
    assert_eq!((s.simple, s.ll, s.ll128, s.max_channels), (4_194_304, 65_536, 0, 16));
    let s = sizes("2.4.8");
    assert_eq!((s.ll, s.ll128, s.max_channels), (262_144, 0, 16));
    let s = sizes("2.5.6");
    assert_eq!((s.ll, s.ll128, s.max_channels), (524_288, 4_915_200, 32));
    assert_eq!((sizes("2.24.3").max_channels, sizes("2.25.1").max_channels), (32, 64));
    let arm = |r: &str| Sizes::new(&TABLES.constants, Release::parse(r), "aarch64", &Env::new()).simple;
    assert_eq!(
        (arm("2.5.6"), arm("2.6.4"), arm("2.18.6"), arm("2.19.1")),
        (4 << 20, 1 << 20, 1 << 20, 4 << 20)
    );
    // A connection about doubled when LL128 came.
    assert!(
        gpu("2.5.6", Transport::P2p, Direction::Receive)
            > 2 * gpu("2.4.8", Transport::P2p, Direction::Receive)
    );
}

#[test]
fn one_connection_by_transport() {
    use Direction::{Receive, Send};
    let of = |t, d| gpu("2.30.7", t, d);
    assert_eq!((of(Transport::P2p, Receive), of(Transport::P2p, Send)), (10_485_760, 2_097_152));
    assert_eq!((of(Transport::P2pRead, Receive), of(Transport::P2pRead, Send)), (6 * MIB, 6 * MIB));
    assert_eq!((of(Transport::Shm, Receive), of(Transport::Shm, Send)), (0, 0));
    assert_eq!((of(Transport::NetGdr, Receive), of(Transport::NetGdr, Send)), (10 * MIB, 10 * MIB));
    assert_eq!((of(Transport::Net, Receive), of(Transport::Net, Send)), (0, 0));
    // Without cuMem what the network registers is not rounded; P2P buffers are, for IPC.
    assert_eq!(gpu("2.18.6", Transport::NetGdr, Receive), 9_633_792);
    assert_eq!(gpu("2.18.6", Transport::NetGdr, Send), 9_109_504);
    assert_eq!(gpu("2.18.6", Transport::P2p, Receive), 10_485_760);
    assert_eq!(gpu("2.6.4", Transport::P2p, Receive), 9_637_888);
    let host = |t, d| connection(&sizes("2.30.7"), t, d).host;
    assert_eq!((host(Transport::Shm, Receive), host(Transport::Shm, Send)), (9_637_892, 4100));
    assert_eq!((host(Transport::NetGdr, Send), host(Transport::NetGdr, Receive)), (532_480, 8192));
    assert_eq!(host(Transport::Net, Send), 9_633_792 + 8192);
}

#[test]
fn sums_before_they_are_rounded() {
    let s = sizes("2.30.7");
    assert_eq!((s.block, s.net_host, s.shm_counter, s.granule), (4096, 8192, 4, 2_097_152));
    assert_eq!(s.block + s.buffers(), 9_637_888);
    assert_eq!((s.block + s.ll + s.ll128, s.block + s.simple), (5_443_584, 4_198_400));
    assert_eq!((s.buffers(), s.simple + s.ll128), (9_633_792, 9_109_504));
    // LL: lines x threads x steps x bytes; LL128: elements x threads x steps x bytes.
    assert_eq!((s.ll, s.ll128), (8 * 512 * 8 * 16, 120 * 640 * 8 * 8));
}

#[test]
fn one_channel_in_and_out() {
    use Direction::{Receive, Send};
    let both = |t| {
        let (r, s) = (connection(&sizes("2.30.7"), t, Receive), connection(&sizes("2.30.7"), t, Send));
        (r.gpu + s.gpu, r.host + s.host)
    };
    assert_eq!(both(Transport::P2p), (12 * MIB, 0));
    assert_eq!(both(Transport::P2pRead), (12 * MIB, 0));
    assert_eq!(both(Transport::NetGdr), (20 * MIB, 524_288 + 2 * 8192));
    assert_eq!(both(Transport::Shm), (0, 9_637_892 + 4100));
    assert_eq!(both(Transport::Net), (0, 2 * (9_633_792 + 8192)));
    // Buffers of send and receive over the network are in pools; an indirect one lies on the GPU in between.
    for gdr in [true, false] {
        assert_eq!(both(Transport::NetShared { gdr }), (0, 2 * 8192));
    }
    assert_eq!(both(Transport::P2pIndirect), (2 * MIB, 0));
}

#[test]
fn what_variables_make_of_a_connection() {
    let of = |release: &str, arch: &str, set: &[(&str, &str)]| {
        let env: Env = set.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect();
        let s = Sizes::new(&TABLES.constants, Release::parse(release), arch, &env);
        let host = connection(&s, Transport::Shm, Direction::Receive).host;
        (connection(&s, Transport::P2p, Direction::Receive).gpu / MIB, host)
    };
    assert_eq!(of("2.27.3", "x86_64", &[("NCCL_BUFFSIZE", "2097152")]), (8, 7_540_740));
    assert_eq!(of("2.27.3", "x86_64", &[("NCCL_BUFFSIZE", "524288")]).1, 5_967_876);
    // What a smaller LL or LL128 buffer saves; -2 stands for the default.
    assert_eq!(of("2.27.3", "x86_64", &[("NCCL_LL128_BUFFSIZE", "65536")]).0, 6);
    assert_eq!(of("2.27.3", "x86_64", &[("NCCL_LL_BUFFSIZE", "8192"), ("NCCL_LL128_BUFFSIZE", "-2")]).0, 10);
    // NCCL_PROTO changes nothing.
    assert_eq!(of("2.27.3", "x86_64", &[("NCCL_PROTO", "Simple")]).0, 10);
    // 1 MiB of Simple on ARM hosts until 2.18.
    assert_eq!(of("2.18.6", "aarch64", &[]), (8, 6_492_164));
    assert_eq!(of("2.19.4", "aarch64", &[]), (10, 9_637_892));
}

/// 8 GPUs with NVSwitch, one node, 24 channels, 16 of NVLS, 32 of send and receive.
#[test]
fn one_node_of_eight() {
    let p = plan("2.27.3", 8, 8, 24, 16, 32);
    assert_eq!(p.shape.p2p_channels, 32);
    assert_eq!(part(&p, "control"), (228, 228));
    assert_eq!(part(&p, "nvls"), (256, 256));
    assert_eq!(part(&p, "nvls-credits"), (2, 2));
    assert_eq!(part(&p, "ring"), (288, 288));
    assert_eq!(part(&p, "tree").1, 288);
    assert_eq!(part(&p, "peers"), (2688, 2688));
    assert_eq!(
        (part(&p, "send-pool"), part(&p, "receive-pool"), part(&p, "nvls-tree")),
        ((0, 0), (0, 0), (0, 0))
    );
    let sum = |p: &Plan| total(&compute(&TABLES.constants, p), p.communicators).gpu.most / MIB;
    // About 0.5 GiB with NVLS alone, 1.0 with ring and tree, 3.7 once all-to-all has touched every peer.
    let uses = |ring, tree, all_to_all| Uses { ring, tree, all_to_all, ..Uses::default() };
    assert_eq!(sum(&Plan { uses: uses(false, false, false), ..p.clone() }), 486);
    assert_eq!(sum(&Plan { uses: uses(true, true, false), ..p.clone() }), 1062);
    assert_eq!(sum(&Plan { uses: uses(true, true, true), ..p.clone() }), 3750);
    // 2.18 to 2.20: all of it at init, about 2.3 GiB without the control arrays (cuMem is off before 2.19).
    let old = Plan { uses: uses(false, false, false), ..plan("2.18.6", 8, 8, 24, 16, 32) };
    assert_eq!((part(&old, "nvls").1, part(&old, "send-pool").1), (1536, 256));
    assert_eq!(part(&old, "ring").1 + part(&old, "tree").1, 576);
    assert_eq!(sum(&old), 1536 + 576 + 256);
    let newer = Plan { release: Release::parse("2.20.5"), ..old };
    assert_eq!(sum(&newer), 1536 + 576 + 256 + 226);
}

/// Two nodes of 8, GPUDirect RDMA, 16 channels.
#[test]
fn two_nodes_of_eight() {
    let p = plan("2.27.3", 16, 8, 16, 16, 2);
    assert_eq!(part(&p, "control"), (132, 132));
    assert_eq!(part(&p, "ring"), (192, 320));
    assert_eq!(part(&p, "peers"), (168, 168));
    assert_eq!((part(&p, "send-pool").1, part(&p, "receive-pool").1), (32, 32));
    assert_eq!(part(&p, "nvls"), (256, 256));
    // The rank with the link to the other node: 20 MiB a channel, beside the chain's way back.
    assert_eq!(part(&p, "tree").1, 16 * (12 + 20));
    assert_eq!(part(&p, "nvls-tree"), (0, 16 * 20));
    let sum = total(&compute(&TABLES.constants, &p), 1).gpu;
    assert!(sum.least / MIB >= 600 && sum.most / MIB <= 1900, "{sum:?}");
}

#[test]
fn control_arrays_by_channel() {
    // 6 MiB a channel, 192 MiB for 32, 4 for the communicator; 2 more for each channel of NVLS and of CollNet.
    let p = plan("2.27.3", 8, 8, 32, 0, 32);
    assert_eq!(part(&p, "control"), (192 + 4, 192 + 4));
    assert_eq!(part(&plan("2.27.3", 8, 8, 1, 0, 1), "control").1, 6 + 4);
    assert_eq!(part(&plan("2.27.3", 8, 8, 32, 16, 32), "control").1, 192 + 4 + 32);
    let mut coll = p.clone();
    coll.shape.collnet = 16;
    assert_eq!(part(&coll, "control").1, 192 + 4 + 32);
    // One array of the communicator less until 2.22.
    assert_eq!(part(&plan("2.22.3", 8, 8, 32, 0, 32), "control").1, 192 + 2);
    // Without cuMem they share pages.
    assert_eq!(part(&with(p, "NCCL_CUMEM_ENABLE", "0"), "control"), (0, 0));
}

#[test]
fn the_work_queue_is_host_memory() {
    let of = |release: &str| host_part(&plan(release, 8, 8, 16, 0, 2), "work-fifo").1 / MIB;
    assert_eq!((of("2.13.4"), of("2.14.3"), of("2.21.5"), of("2.22.3"), of("2.30.7")), (0, 32, 32, 1, 1));
    let on_gpu = with(plan("2.27.3", 8, 8, 16, 0, 2), "NCCL_GDRCOPY_ENABLE", "1");
    assert_eq!((part(&on_gpu, "work-fifo").1, host_part(&on_gpu, "work-fifo").1), (1, 0));
}

#[test]
fn the_proxy_threads_pool_by_release() {
    let of = |release: &str| sizes(release).proxy_ops;
    assert_eq!((of("2.12.12"), of("2.13.4"), of("2.19.4")), (0, 65_536 * 64 + 352, 65_536 * 64 + 352));
    assert_eq!((of("2.20.5"), of("2.21.5"), of("2.22.3")), (5_767_520, 7_340_384, 7_340_384));
    // Known from logs.
    assert_eq!((of("2.26.2"), of("2.27.7")), (33_030_528, 33_030_528));
    assert_eq!(of("2.30.7"), 147_456 * 232 + 384);
}

#[test]
fn who_has_nvls() {
    let of = |release: &str, nranks, per_node| part(&plan(release, nranks, per_node, 16, 16, 2), "nvls").1;
    // More than two GPUs of a node are needed until 2.28.3; 2.17 and 2.20 have it on one node only.
    assert_eq!((of("2.17.1", 2, 2), of("2.18.6", 2, 2), of("2.27.3", 2, 2)), (16 * 2 * 6 * 2, 0, 0));
    assert_eq!((of("2.28.3", 2, 2), of("2.28.9", 2, 2)), (0, 16 * 2 * 2));
    assert_eq!((of("2.17.1", 16, 8), of("2.18.6", 16, 8), of("2.19.4", 16, 8)), (0, 1536, 1536));
    assert_eq!((of("2.20.5", 16, 8), of("2.21.5", 16, 8)), (0, 768));
    assert_eq!((of("2.30.7", 8, 1), of("2.27.3", 4, 4)), (0, 16 * 2 * 4));
    // Its control arrays and credits go with it.
    let two = plan("2.27.3", 2, 2, 16, 16, 2);
    assert_eq!((part(&two, "control").1, part(&two, "nvls-credits").1), (16 * 6 + 4, 0));
    // Blackwell: 24 channels on one node, 32 on several.
    let of = |channels| part(&plan("2.30.7", 8, 8, 32, channels, 2), "nvls").1;
    assert_eq!((of(24), of(32)), (384, 512));
    // NVLSTree: one link of a head between two nodes, up to three between more.
    assert_eq!(part(&plan("2.27.3", 32, 8, 16, 16, 2), "nvls-tree"), (0, 16 * 60));
    // The total is what the log prints as nvlsTotalSize.
    let parts = compute(&TABLES.constants, &plan("2.20.5", 8, 8, 16, 16, 2));
    assert!(parts.iter().any(|p| p.id == "nvls" && p.gpu == Span::of(1_610_612_736)));
}

#[test]
fn nvls_by_release() {
    let of = |release: &str, channels| part(&plan(release, 8, 8, 16, channels, 2), "nvls").1;
    assert_eq!(of("2.16.5", 16), 0);
    for release in ["2.17.1", "2.18.3", "2.19.4", "2.20.5"] {
        assert_eq!(of(release, 16), 1536, "{release}");
    }
    assert_eq!(of("2.21.5", 16), 768);
    assert_eq!((of("2.22.3", 16), of("2.30.7", 16)), (256, 256));
    // Larger chunks on Blackwell.
    let mut p = plan("2.30.7", 8, 8, 24, 24, 2);
    p.env.insert("NCCL_NVLS_CHUNKSIZE".into(), "262144".into());
    assert_eq!(part(&p, "nvls").1, 768);
    // Without cuMem there is no NVLS from 2.19 on.
    let mut p = plan("2.21.5", 8, 8, 16, 16, 2);
    p.env.insert("NCCL_CUMEM_ENABLE".into(), "0".into());
    assert_eq!(part(&p, "nvls").1, 0);
}

#[test]
fn pools_of_send_and_receive() {
    // 2 MiB a channel each way between nodes.
    let p = plan("2.27.3", 16, 8, 32, 0, 2);
    assert_eq!((part(&p, "send-pool"), part(&p, "receive-pool")), ((64, 64), (64, 64)));
    // 2.12 to 2.21 make the send pool at init, on one node too; before 2.16 the chunk was smaller.
    let of = |release: &str| part(&plan(release, 8, 8, 32, 0, 32), "send-pool").1;
    assert_eq!((of("2.11.4"), of("2.12.12"), of("2.16.5"), of("2.21.5"), of("2.22.3")), (0, 64, 256, 256, 0));
    // Later ones do so where all is connected at init.
    for (name, value) in [("NCCL_RUNTIME_CONNECT", "0"), ("NCCL_CUMEM_ENABLE", "0")] {
        assert_eq!(part(&with(plan("2.27.3", 8, 8, 32, 0, 32), name, value), "send-pool").1, 256, "{name}");
    }
    // Without sharing each remote peer has its own 20 MiB a channel.
    let mut p = plan("2.27.3", 16, 8, 16, 0, 2);
    p.env.insert("NCCL_NET_SHARED_BUFFERS".into(), "0".into());
    assert_eq!(part(&p, "peers").1, 168 + 8 * 2 * 20);
    assert_eq!(part(&p, "send-pool"), (0, 0));
}

#[test]
fn chunks_of_send_and_receive() {
    let chunk = |p: &Plan| p.chunk(&p.sizes(&TABLES.constants)) >> 10;
    let of = |release: &str, nranks, nvlink| chunk(&Plan { nvlink, ..plan(release, nranks, 8, 32, 0, 2) });
    assert_eq!((of("2.27.3", 16, true), of("2.27.3", 8, true), of("2.27.3", 8, false)), (128, 512, 128));
    assert_eq!((of("2.15.5", 8, true), of("2.16.5", 8, true)), (128, 512));
    // Twice as much on ARM hosts with Blackwell: the variable says the same.
    let more = with(plan("2.30.7", 16, 8, 32, 0, 2), "NCCL_P2P_NET_CHUNKSIZE", "262144");
    assert_eq!((chunk(&more), part(&more, "send-pool").1, part(&more, "receive-pool").1), (256, 128, 128));
    // Eight of them must fit in the Simple buffer, since 2.19; until 2.13 they were a part of it.
    let small = |release: &str| chunk(&with(plan(release, 8, 8, 32, 0, 2), "NCCL_BUFFSIZE", "2097152"));
    assert_eq!((small("2.18.6"), small("2.19.4"), small("2.27.3")), (512, 256, 256));
    assert_eq!((small("2.12.12"), small("2.13.4"), small("2.14.3")), (64, 64, 128));
    // Also where the log told the chunk.
    let told = Plan { chunk: Some(524_288), ..plan("2.20.5", 8, 8, 32, 0, 2) };
    assert_eq!(part(&told, "send-pool").1, 256);
    assert_eq!(part(&with(told, "NCCL_BUFFSIZE", "2097152"), "send-pool").1, 128);
}

#[test]
fn pools_before_2_12() {
    // One pool for both directions, 16 MiB a channel.
    let p = plan("2.10.3", 16, 8, 32, 0, 2);
    assert_eq!((part(&p, "pool").1, part(&p, "send-pool").1, part(&p, "receive-pool").1), (512, 0, 0));
    // Before 2.8 each remote peer had buffers of its own; before 2.7 there was no send and receive.
    let p = plan("2.7.8", 16, 8, 16, 0, 2);
    assert_eq!((part(&p, "pool").1, part(&p, "send-pool").1), (0, 0));
    let parts = compute(&TABLES.constants, &p);
    let peers = parts.iter().find(|p| p.id == "peers").unwrap().gpu.most;
    assert_eq!(peers, 7 * 2 * 12 * MIB + 8 * 2 * (9_633_792 + 9_109_504));
    assert_eq!(part(&plan("2.6.4", 16, 8, 16, 0, 2), "peers").1, 0);
}

#[test]
fn nodes_that_are_not_full() {
    // 10 ranks on nodes of 4: the last node has two.
    let p = plan("2.27.3", 10, 4, 4, 0, 2);
    assert_eq!(part(&p, "peers"), (2 * 12, 3 * 2 * 12));
    // One rank a node: nothing goes to local peers.
    assert_eq!(part(&plan("2.27.3", 4, 1, 4, 0, 2), "peers"), (0, 0));
    // A leaf of the tree that is its parent's neighbour in the ring adds one way only.
    assert_eq!(part(&plan("2.27.3", 8, 1, 4, 0, 2), "tree"), (4 * 10, 4 * 60));
}

#[test]
fn what_small_communicators_open() {
    // Two ranks: ring is one way in and one out, and tree adds nothing to it.
    let two = plan("2.27.3", 2, 2, 16, 0, 2);
    assert_eq!((part(&two, "ring").1, part(&two, "tree").1), (16 * 12, 0));
    let alone = plan("2.27.3", 1, 1, 16, 0, 2);
    assert_eq!((part(&alone, "ring").1, part(&alone, "peers").1), (0, 0));
    // One GPU a node: both ends of the ring are on the network.
    let wide = plan("2.27.3", 8, 1, 4, 0, 2);
    assert_eq!(part(&wide, "ring"), (80, 80));
    // PAT: ceil(log2 N) peers each way, less where two of them are the same rank.
    let mut pat = plan("2.23.4", 7, 1, 4, 0, 2);
    pat.uses.pat = true;
    assert_eq!(part(&pat, "pat").1, 4 * (2 * 3) * 20);
    for (nranks, peers) in [(2, 1), (3, 2), (4, 3), (5, 4), (6, 4), (8, 5), (16, 7)] {
        let mut p = pat.clone();
        p.shape.nranks = nranks;
        assert_eq!(part(&p, "pat").1, 4 * peers * 20, "{nranks}");
    }
    assert_eq!(part(&Plan { release: Release::parse("2.22.3"), ..pat }, "pat").1, 0);
    // SHM takes no GPU memory, but 9.2 MiB of /dev/shm for each way in.
    let shm = Plan { local: Local::Shm, ..plan("2.27.3", 8, 8, 2, 0, 2) };
    let ring = compute(&TABLES.constants, &shm).into_iter().find(|p| p.id == "ring").unwrap();
    assert_eq!((ring.gpu.most, ring.host.most), (0, 2 * (9_637_892 + 4100)));
    // CollNet: 2 x channels x Simple on leaders, and 12 MiB a channel for each connection with a local leader.
    let mut coll = plan("2.27.3", 16, 8, 16, 0, 2);
    coll.shape.collnet = 16;
    assert_eq!(part(&coll, "collnet").1, 0);
    coll.uses.collnet = true;
    assert_eq!(part(&coll, "collnet"), (16 * 12, 2 * 16 * 4 + 16 * 2 * 7 * 12));
    coll.gdr = false;
    assert_eq!(host_part(&coll, "collnet"), (0, 2 * 16 * 4 * MIB));
    let mut alone = plan("2.27.3", 8, 1, 16, 0, 2);
    alone.shape.collnet = 16;
    alone.uses.collnet = true;
    assert_eq!(part(&alone, "collnet"), (128, 128));
}

#[test]
fn laziness_and_what_it_hides() {
    let only_nvls = Uses { ring: false, tree: false, ..Uses::default() };
    let of = |release: &str, set: Option<(&str, &str)>| {
        let mut p = Plan { uses: only_nvls, ..plan(release, 8, 8, 24, 16, 32) };
        if let Some((k, v)) = set {
            p.env.insert(k.into(), v.into());
        }
        part(&p, "ring").1
    };
    assert_eq!((of("2.21.5", None), of("2.22.3", None)), (288, 0));
    assert_eq!(of("2.22.3", Some(("NCCL_RUNTIME_CONNECT", "0"))), 288);
    assert_eq!(of("2.22.3", Some(("NCCL_CUMEM_ENABLE", "0"))), 288);
    assert_eq!(of("2.22.3", Some(("NCCL_CUMEM_ENABLE", "-2"))), 0);
}

#[test]
fn communicators_multiply() {
    let p = Plan {
        communicators: 10,
        uses: Uses { ring: false, tree: false, ..Uses::default() },
        ..plan("2.27.3", 8, 8, 24, 16, 32)
    };
    assert_eq!(total(&compute(&TABLES.constants, &p), p.communicators).gpu.most / MIB, 4860);
}

#[test]
fn changes_free_what_the_difference_says() {
    let frees = |p: &Plan, set: &[(&str, &str)], fewer| {
        let set = set.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect();
        effect(&TABLES.constants, p, &set, fewer).map(|e| (e.1 / MIB as i64, e.2 / MIB as i64))
    };
    let old = Plan { uses: Uses::default(), ..plan("2.20.5", 8, 8, 24, 16, 32) };
    // A third of the channels; send and receive follow from 32 to 8.
    assert_eq!(frees(&old, &[("NCCL_MAX_CTAS", "8")], 0), Some(((226 - 66) + 2 * (288 - 96) + 768 + 192, 0)));
    assert_eq!(frees(&old, &[("NCCL_NVLS_ENABLE", "0")], 0), Some((1536 + 32, 0)));
    // 9.2 MiB less two: 10 MiB become 8. NVLS of this release uses the Simple buffer too, and the pool's chunk must
    // fit in it eight times.
    assert_eq!(frees(&old, &[("NCCL_BUFFSIZE", "2097152")], 0), Some((2 * 24 * 2 + 16 * 2 * 2 * 8 + 128, 0)));
    assert_eq!(frees(&old, &[("NCCL_LL128_BUFFSIZE", "1228800")], 0), Some((2 * 24 * 4, 0)));
    // Tree is made at init whatever the choice of algorithms says.
    assert_eq!(frees(&old, &[("NCCL_ALGO", "Ring")], 0), Some((0, 0)));
    let new = Plan { uses: Uses::default(), ..plan("2.27.3", 8, 8, 24, 16, 32) };
    assert_eq!(frees(&new, &[("NCCL_ALGO", "Ring")], 0), Some((288 + 256, 0)));
    assert_eq!(frees(&new, &[("NCCL_P2P_DISABLE", "1")], 0).map(|f| f.0), Some(576));
    // Ring's and Tree's way in and out of each channel, in /dev/shm.
    let host = (2 * 24 * (9_637_892 + 4100) / MIB) as i64;
    assert_eq!(frees(&new, &[("NCCL_P2P_DISABLE", "1")], 0).map(|f| f.1), Some(host));
    // One of three communicators.
    let three = Plan { communicators: 3, ..new.clone() };
    assert_eq!(frees(&three, &[], 1), Some((1062, -1)));
    assert_eq!(frees(&new, &[], 1), None);
    // What is set already frees nothing.
    let mut set = new.clone();
    set.env.insert("NCCL_MAX_CTAS".into(), "8".into());
    assert_eq!(frees(&set, &[("NCCL_MAX_CTAS", "8")], 0), None);
    // Fewer channels of send and receive matter once all-to-all is used, and for the control arrays.
    let all = Plan { uses: Uses { all_to_all: true, ..Uses::default() }, ..new };
    assert_eq!(frees(&all, &[("NCCL_MAX_P2P_NCHANNELS", "8")], 0), Some((7 * 24 * 12 + 8 * 6, 0)));
}

#[test]
fn every_change_of_the_table_is_for_known_variables_and_says_its_price() {
    let (known, _) = Knowledge::built_in();
    for change in &TABLES.changes {
        for name in change.set.keys() {
            let v = known.tables.variables.iter().find(|v| v.name == *name);
            let v = v.unwrap_or_else(|| panic!("{name} is not in env.toml"));
            let range = crate::base::ReleaseRange::parse(&change.nccl).unwrap();
            let since = Release::parse(&v.since);
            assert!(
                since.is_none_or(|s| range.from.is_some_and(|f| f >= s || f.0 == s.0 && f.1 == s.1)),
                "{name}"
            );
        }
        assert!(!change.cost.is_empty() && !change.check.is_empty(), "{}", change.id);
    }
    for constant in &TABLES.constants {
        assert!(!constant.source.is_empty(), "{}", constant.name);
        let range = crate::base::ReleaseRange::parse(&constant.nccl);
        assert!(constant.nccl.is_empty() || range.is_some(), "{}", constant.nccl);
        let variable = &constant.variable;
        assert!(
            variable.is_empty() || known.tables.variables.iter().any(|v| v.name == *variable),
            "{variable}"
        );
    }
}

#[test]
fn refused_sizes_are_explained() {
    let of = |bytes, release: Option<&str>| -> Vec<String> {
        meanings(&TABLES.constants, bytes, release.and_then(Release::parse), &Env::new(), true)
            .into_iter()
            .map(|m| format!("{}: {}", m.place, m.what))
            .collect()
    };
    let has = |bytes, what: &str| {
        let all = of(bytes, None);
        assert!(all.iter().any(|m| m.contains(what)), "{bytes}: {all:?}");
    };
    has(10_485_760, "P2P connection");
    has(10_485_760, "network connection with GPUDirect");
    has(2_097_152, "send side of one P2P");
    has(2_097_152, "control array");
    has(9_633_792, "receive buffer of one network connection");
    has(9_109_504, "send buffer of one network connection");
    has(6_291_456, "read mode");
    has(9_637_892, "/dev/shm");
    has(9_637_888, "/dev/shm");
    has(5_967_872, "NCCL_BUFFSIZE=524288");
    has(5_967_876, "NCCL_BUFFSIZE=524288");
    has(33_030_528, "proxy thread");
    has(33_030_532, "proxy thread");
    for bytes in [4_194_656, 5_767_520, 7_340_384, 10_486_112, 14_156_128, 31_850_880, 34_210_180] {
        has(bytes, "proxy thread");
    }
    has(532_480, "PXN");
    has(532_484, "PXN");
    has(67_108_864, "pool for send and receive between nodes: 32 channels");
    has(268_435_456, "NVLS buffers: 16 channels");
    has(268_435_456, "all NVLink: 32 channels");
    has(805_306_368, "NVLS buffers: 16 channels x 2 x 3 MiB");
    has(1_610_612_736, "NVLS buffers: 16 channels x 2 x 6 MiB");
    has(608, "nothing left");
    assert!(of(123_456_789, None).is_empty());
    // The release decides.
    assert!(of(1_610_612_736, Some("2.21.5")).is_empty());
    assert!(of(268_435_456, Some("2.27.3")).iter().all(|m| m.contains("NVLS")));
    // A small size says this only where it was refused.
    assert!(meanings(&TABLES.constants, 608, None, &Env::new(), false).is_empty());
}
