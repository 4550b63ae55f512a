//! Accounting and computing against each other: logs are generated from the
//! rules by which NCCL connects ranks, read back line by line, and what comes
//! out must be what the model says.

use super::account::{Item, ProcessSeen};
use super::*;
use crate::base::Release;
use crate::knowledge::{Knowledge, Tables};
use proptest::prelude::*;
use std::sync::LazyLock;

static TABLES: LazyLock<Tables> = LazyLock::new(|| Knowledge::built_in().0.tables);

/// A job, as its log is written.
#[derive(Debug, Clone)]
struct Job {
    nodes: u64,
    per_node: u64,
    channels: u64,
    nvls: u64,
    release: Release,
    cumem: bool,
    tree: bool,
    alloc: bool,
    gdr: bool,
    nvls_used: bool,
    all_to_all: bool,
    local: Local,
    communicators: u64,
}

/// Channels of send and receive that one peer has.
const PER_PEER: u64 = 2;

impl Job {
    fn nranks(&self) -> u64 {
        self.nodes * self.per_node
    }

    fn env(&self) -> Env {
        [("NCCL_CUMEM_ENABLE".to_string(), u8::from(self.cumem).to_string())].into()
    }

    fn plan(&self) -> Plan {
        let n = self.nranks();
        Plan {
            shape: Shape {
                nranks: n,
                per_node: self.per_node,
                channels: self.channels,
                collnet: 0,
                nvls: self.nvls,
                p2p_channels: power_of_two_up(self.channels),
                per_peer: PER_PEER,
                heads: self.per_node,
            },
            communicators: self.communicators,
            local: self.local,
            gdr: self.gdr,
            nvlink: true,
            uses: Uses {
                tree: self.tree,
                nvls: self.nvls_used,
                all_to_all: self.all_to_all,
                ..Uses::default()
            },
            chunk: None,
            release: Some(self.release),
            arch: "x86_64".into(),
            env: self.env(),
        }
    }

    /// Who is connected with whom on a channel: sender and receiver.
    fn pairs(&self) -> Vec<(u64, u64)> {
        let n = self.nranks();
        let mut pairs = Vec::new();
        let mut add = |a: u64, b: u64| {
            if a != b && !pairs.contains(&(a, b)) {
                pairs.push((a, b));
            }
        };
        (0..n).for_each(|r| add(r, (r + 1) % n));
        if self.tree {
            for r in 0..n {
                // The way back along the chain of each node, and between the first ranks of neighbouring nodes.
                if (r + 1) % self.per_node != 0 {
                    add(r + 1, r);
                } else if r + 1 < n {
                    add(r + 1 - self.per_node, r + 1);
                    add(r + 1, r + 1 - self.per_node);
                }
            }
        }
        pairs
    }

    /// All connections of a communicator: channel, index, sender, receiver.
    fn connections(&self) -> Vec<(u64, u64, u64, u64)> {
        let pairs = self.pairs();
        let mut all = Vec::new();
        for c in 0..self.channels {
            all.extend(pairs.iter().map(|&(a, b)| (c, 0, a, b)));
        }
        if self.all_to_all {
            let n = self.nranks();
            for c in 0..PER_PEER {
                for a in 0..n {
                    all.extend((0..n).filter(|&b| b != a).map(|b| (c, 1, a, b)));
                }
            }
        }
        all
    }

    fn is_local(&self, a: u64, b: u64) -> bool {
        a / self.per_node == b / self.per_node
    }

    fn transport(&self, a: u64, b: u64) -> Transport {
        match (self.is_local(a, b), self.local) {
            (true, Local::P2p) => Transport::P2p,
            (true, Local::P2pRead) => Transport::P2pRead,
            (true, Local::Shm) => Transport::Shm,
            (false, _) if self.gdr => Transport::NetGdr,
            (false, _) => Transport::Net,
        }
    }

    /// What follows `via`.
    fn via(&self, transport: Transport) -> String {
        let p2p = if self.cumem { "P2P/CUMEM" } else { "P2P/IPC" };
        match transport {
            Transport::P2pRead => format!("{p2p}/read"),
            Transport::Shm => "SHM/direct/direct".into(),
            Transport::NetGdr => "NET/IB/0/GDRDMA".into(),
            Transport::Net => "NET/IB/0".into(),
            _ => p2p.into(),
        }
    }

    /// GPU and host bytes that a rank holds for its connections, all communicators together.
    fn holds(&self, s: &Sizes, rank: u64) -> (u64, u64) {
        let (mut gpu, mut host) = (0, 0);
        for (_, _, a, b) in self.connections() {
            for (end, direction) in [(a, Direction::Send), (b, Direction::Receive)] {
                if end == rank {
                    let taken = connection(s, self.transport(a, b), direction);
                    gpu += taken.gpu;
                    host += taken.host;
                }
            }
        }
        (gpu * self.communicators, host * self.communicators)
    }

    /// What stands before the text of an ALLOC line.
    fn place(&self, file: &str, function: &str) -> String {
        if self.release >= Release(2, 30, 0) { format!("{file} ({function}) ") } else { format!("{file} ") }
    }

    /// The lines of an allocation for a connection.
    fn allocated(&self, gpu: u64, host: u64, local: bool) -> Vec<String> {
        let mut lines = Vec::new();
        if gpu > 0 && (self.cumem || local && self.release >= Release(2, 18, 0)) {
            let place = match self.place("transport/p2p.cc:240", "ncclP2pAllocateShareableBuffer") {
                place if self.release >= Release(2, 30, 0) => place,
                _ => String::new(),
            };
            lines.push(format!("{place}Allocated shareable buffer 0x7f size {gpu} ipcDesc 0x55"));
        }
        if gpu > 0 && !self.cumem {
            lines.push(self.cuda(gpu));
        }
        if host > 0 {
            let place = self.place("include/alloc.h:59", "ncclCudaHostCallocDebug");
            lines.push(format!("{place}Cuda Host Alloc Size {host} pointer 0x7f"));
        }
        lines
    }

    fn cuda(&self, bytes: u64) -> String {
        let place = self.place("include/alloc.h:178", "ncclCudaCallocDebug");
        let (word, behind) =
            if self.release >= Release(2, 29, 7) { ("Calloc", " memType 2") } else { ("Alloc", "") };
        format!("{place}Cuda {word} Size {bytes} pointer 0x7f{behind}")
    }

    /// The log of each rank, without headers.
    fn logs(&self) -> Vec<Vec<String>> {
        let n = self.nranks();
        let mut out: Vec<Vec<String>> = vec![Vec::new(); n as usize];
        for comm in 0..self.communicators {
            self.log_communicator(comm, &mut out);
        }
        out
    }

    fn log_communicator(&self, comm: u64, out: &mut [Vec<String>]) {
        let s = self.plan().sizes(&TABLES.constants);
        let n = self.nranks();
        let shape = self.plan().shape;
        let mut line = |rank: u64, text: String| out[rank as usize].push(text);
        for r in 0..n {
            let (coll, p2p, nvls) = (self.channels, shape.p2p_channels, self.nvls);
            // Since 2.21 the field has the number of all channels, with or without CollNet.
            let collnet = if self.release >= Release(2, 21, 0) { coll } else { 0 };
            line(
                r,
                format!(
                    "comm 0x55{comm}a{r} rank {r} nranks {n} cudaDev {0} nvmlDev {0} busId 1{0}000 commId 0x9 - Init START",
                    r % self.per_node
                ),
            );
            line(
                r,
                format!(
                    "{coll} coll channels, {collnet} collnet channels, {nvls} nvls channels, {p2p} p2p channels, {PER_PEER} p2p channels per peer"
                ),
            );
        }
        for (c, index, a, b) in self.connections() {
            let ends =
                format!("Channel {c:02}/{index} : {a}[{}] -> {b}[{}]", a % self.per_node, b % self.per_node);
            let transport = self.transport(a, b);
            let (local, via) = (self.is_local(a, b), self.via(transport));
            if local {
                line(a, format!("{ends} via {via}"));
            } else {
                line(a, format!("{ends} [send] via {via}"));
                line(b, format!("{ends} [receive] via {via}"));
            }
            if self.alloc {
                for (rank, direction) in [(a, Direction::Send), (b, Direction::Receive)] {
                    let taken = connection(&s, transport, direction);
                    for text in self.allocated(taken.gpu, taken.host, local) {
                        line(rank, text);
                    }
                }
            }
        }
        if self.alloc {
            let channels = shape.channels.max(shape.p2p_channels);
            let arrays = channels * s.per_channel + self.nvls + s.per_communicator;
            for r in 0..n {
                for i in 0..arrays {
                    line(r, self.cuda(8 + 16 * (i % 40)));
                }
            }
        }
        let made = self.nvls_used || !s.lazy;
        if made && self.nvls > 0 && s.has_nvls(self.per_node, self.nodes) {
            let total = self.nvls * 2 * (s.nvls_buffer + s.nvls_flags) * self.per_node;
            for r in 0..n {
                line(
                    r,
                    format!(
                        "NVLS comm 0x55a headRank 0 nHeads {} buffSize {} memSize {} nvlsPerRankSize 1 nvlsTotalSize {total}",
                        self.per_node, s.nvls_buffer, s.nvls_flags
                    ),
                );
            }
        }
    }

    fn account(&self, logs: &[Vec<String>]) -> Account {
        let processes = logs
            .iter()
            .enumerate()
            .map(|(rank, lines)| {
                let mut tally = Tally::default();
                lines.iter().filter_map(|l| parse(l.as_bytes())).for_each(|l| tally.add(&l));
                ProcessSeen {
                    rank: Some(rank as u32),
                    host: Some(format!("host{}", rank as u64 / self.per_node)),
                    name: String::new(),
                    release: Some(self.release),
                    env: self.env(),
                    tally,
                }
            })
            .collect();
        account(&TABLES, Input { processes, ..Input::default() })
    }
}

fn jobs() -> impl Strategy<Value = Job> {
    let releases = prop::sample::select(vec![
        "2.4.8", "2.6.4", "2.8.4", "2.12.12", "2.17.1", "2.18.6", "2.19.4", "2.20.5", "2.21.5", "2.23.4",
        "2.27.3", "2.29.7", "2.30.7",
    ]);
    let shape = (1u64..4, 1u64..9, 1u64..33, 0u64..3, 1u64..3);
    let uses = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let locals = prop::sample::select(vec![Local::P2p, Local::P2pRead, Local::Shm]);
    (shape, uses, releases, locals).prop_map(|(shape, uses, release, local)| {
        let (nodes, per_node, channels, nvls, communicators) = shape;
        let (cumem, tree, alloc, gdr, nvls_used, all_to_all) = uses;
        let release = Release::parse(release).unwrap();
        let usual = Sizes::new(&TABLES.constants, Some(release), "x86_64", &Env::new());
        Job {
            nodes,
            per_node,
            channels: channels.min(usual.max_channels),
            nvls: if usual.has_nvls(per_node, nodes) { nvls * 8 } else { 0 },
            release,
            cumem: cumem && release >= Release(2, 18, 0),
            tree: tree && nodes * per_node > 2,
            alloc,
            gdr,
            nvls_used,
            // Between nodes it goes through pools, which no line tells of.
            all_to_all: all_to_all && nodes == 1 && usual.send_receive,
            local,
            communicators,
        }
    })
}

fn item(items: &[Item], name: &str) -> u64 {
    items.iter().filter(|i| i.name == name).map(|i| i.gpu).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn accounting_and_computing_agree(job in jobs()) {
        let parts = compute(&TABLES.constants, &job.plan());
        let part = |id: &str| {
            let found = parts.iter().find(|p| p.id == id).map_or(Span::default(), |p| p.gpu);
            found.times(job.communicators)
        };
        let sizes = job.plan().sizes(&TABLES.constants);
        let logs = job.logs();
        let account = job.account(&logs);
        prop_assert_eq!(account.processes.len() as u64, job.nranks());
        for (p, log) in account.processes.iter().zip(&logs) {
            // Buffers towards peers lie within what the model says of ring and tree; those of send and receive are
            // what it says.
            let (exact, host) = job.holds(&sizes, u64::from(p.rank.unwrap()));
            let tree = if job.tree { part("tree") } else { Span::default() };
            let span = part("ring").plus(tree).plus(part("peers"));
            if job.tree || sizes.lazy {
                prop_assert!(span.least <= exact && exact <= span.most, "{} not in {:?}", exact, span);
            }
            if job.alloc && job.cumem {
                prop_assert_eq!(item(&p.items, "buffers towards peers"), exact);
                prop_assert!(exact == 0 || p.checks.iter().any(|c| c.contains("the same by")), "{:?}", p.checks);
                let arrays = item(&p.items, "other device allocations") + item(&p.items, "rounding by cuMem");
                prop_assert_eq!(arrays, part("control").most);
            } else if !job.alloc {
                prop_assert_eq!(item(&p.items, "buffers towards peers"), exact);
                prop_assert_eq!(item(&p.items, "control arrays"), part("control").most);
            }
            prop_assert_eq!(p.host_bytes, host);
            prop_assert_eq!(p.communicators, job.communicators);
            // What is printed adds up to the byte; a buffer that two lines describe counts once.
            if job.alloc {
                let of = |line: &String| match parse(line.as_bytes()) {
                    Some(Line::Cuda(bytes)) => bytes,
                    Some(Line::Shareable(bytes)) if job.cumem => bytes,
                    Some(Line::Nvls(size)) => size.total,
                    _ => 0,
                };
                prop_assert_eq!(p.printed, log.iter().map(of).sum::<u64>());
            }
            prop_assert_eq!(item(&p.items, "NVLS buffers"), part("nvls").most);
        }
    }

    #[test]
    fn no_line_is_too_odd(lines in prop::collection::vec("[ -~]{0,120}", 0..20), seed in 0usize..8) {
        let openings = ["Channel ", "NVLS ", "3 coll channels, ", "Cuda Alloc Size ", "Ring ", "comm 0x", "Connected ", ""];
        let mut tally = Tally::default();
        for line in &lines {
            let text = format!("{}{line}", openings[seed]);
            if let Some(line) = parse(text.as_bytes()) {
                tally.add(&line);
            }
        }
        let p = ProcessSeen { tally, ..ProcessSeen::default() };
        let _ = account(&TABLES, Input { processes: vec![p], ..Input::default() });
    }
}

fn seen(rank: u32, host: &str, release: &str, lines: &[&str]) -> ProcessSeen {
    let mut tally = Tally::default();
    lines.iter().filter_map(|l| parse(l.as_bytes())).for_each(|l| tally.add(&l));
    ProcessSeen {
        rank: Some(rank),
        host: Some(host.into()),
        name: format!("{host}:{rank}"),
        release: Release::parse(release),
        env: Env::new(),
        tally,
    }
}

#[test]
fn a_log_of_one_rank_alone_assumes_as_many_ways_in_as_out() {
    let lines = ["Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", "Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM"];
    let a = account(&TABLES, Input { processes: vec![seen(0, "a", "2.21.5", &lines)], ..Input::default() });
    let p = &a.processes[0];
    assert_eq!(item(&p.items, "buffers towards peers"), 24 << 20);
    assert_eq!(p.items[0].how, How::Assumed);
}

#[test]
fn a_difference_is_named() {
    let lines = [
        "2 coll channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer",
        "P2P Chunksize set to 524288",
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        "Allocated shareable buffer 0x7f size 10485760 ipcDesc 0x5",
        "Allocated shareable buffer 0x7f size 10485760 ipcDesc 0x5",
        "Allocated shareable buffer 0x7f size 2097152 ipcDesc 0x5",
        "Allocated shareable buffer 0x7f size 2097152 ipcDesc 0x5",
        "Allocated shareable buffer 0x7f size 16777216 ipcDesc 0x5",
    ];
    let a = account(&TABLES, Input { processes: vec![seen(0, "a", "2.21.5", &lines)], ..Input::default() });
    let checks = &a.processes[0].checks;
    assert!(checks.iter().any(|c| c.contains("+16 MiB: a pool for send and receive")), "{checks:?}");
    assert_eq!(a.processes[0].printed, (20 + 4 + 16) << 20);
}

#[test]
fn collnet_counts_where_it_is_connected() {
    let counts =
        "16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer";
    let control = |release: &str, lines: &[&str]| {
        let processes = vec![seen(0, "a", release, lines)];
        let a = account(&TABLES, Input { processes, ..Input::default() });
        item(&a.processes[0].items, "control arrays") / MIB
    };
    assert_eq!(control("2.27.3", &[counts]), 16 * 6 + 4);
    assert_eq!(control("2.27.3", &[counts, "rank 0 Connected CollNet"]), 16 * 6 + 4 + 32);
    assert_eq!(control("2.20.5", &[counts]), 16 * 6 + 2 + 32);
}

#[test]
fn buffers_on_other_gpus_and_hosts() {
    let of = |line: &str| {
        let processes = vec![seen(0, "a", "2.21.5", &[line])];
        let a = account(&TABLES, Input { processes, ..Input::default() });
        (item(&a.processes[0].items, "buffers towards peers"), a.processes[0].not_seen.join("\n"))
    };
    // The GPU in between holds the receiver's buffer.
    let (bytes, not_seen) = of("Channel 00/0 : 0[0] -> 4[4] via P2P/indirect/2[2]");
    assert_eq!(bytes, 2 * MIB);
    assert!(not_seen.contains("on the GPU in between"), "{not_seen}");
    // Over NVLink to another host: as many come as go.
    assert_eq!(of("Channel 00/0 : 0[0] -> 4[0] via P2P/MNNVL").0, 12 * MIB);
}

#[test]
fn what_was_refused_is_not_held() {
    let lines = [
        "include/alloc.h:162 Cuda Alloc Size 528 pointer 0x7f01",
        "include/alloc.h:162 Cuda Alloc Size 10485760 pointer (nil)",
    ];
    let a = account(&TABLES, Input { processes: vec![seen(0, "a", "2.21.5", &lines)], ..Input::default() });
    let p = &a.processes[0];
    assert_eq!((p.printed, p.gpu), (528, 2 * MIB));
}

#[test]
fn two_lines_about_one_segment_count_once() {
    let mapped = "MMAP allocated shareable host buffer /dev/shm/nccl-a1 size 9637888 ptr 0x7f";
    let segment = "Allocated 9637892 bytes of shared memory in /dev/shm/nccl-a1";
    let host = |lines: &[&str]| {
        let processes = vec![seen(0, "a", "2.27.3", lines)];
        account(&TABLES, Input { processes, ..Input::default() }).processes[0].host_bytes
    };
    assert_eq!(host(&[segment, mapped]), 9_637_892);
    assert_eq!(host(&[mapped]), 9_637_888);
}

#[test]
fn nvls_as_the_driver_gave_it_counts_instead_of_what_was_asked_for() {
    let lines = [
        "16 coll channels, 0 collnet channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer",
        "NVLS comm 0x5 headRank 0 nHeads 8 buffSize 1048576 nvlsPerRankSize 1 nvlsTotalSize 268435456",
        "NVLS rank 0 (dev 0) alloc done, ucptr 0x7 ucgran 2097152 mcptr 0x7 mcgran 536870912 ucsize 268435456 mcsize 536870912 (inputsize 268435456)",
        "NVLS rank 0 (dev 0) alloc done, ucptr 0x7 ucgran 2097152 mcptr 0x7 mcgran 536870912 ucsize 2097152 mcsize 536870912 (inputsize 16384)",
    ];
    let a = account(&TABLES, Input { processes: vec![seen(0, "a", "2.27.3", &lines)], ..Input::default() });
    let p = &a.processes[0];
    assert_eq!((p.printed, item(&p.items, "NVLS credits")), (258 * MIB, 0));
    assert_eq!(item(&p.items, "NVLS, as the driver gave it"), 258 * MIB);
}

#[test]
fn with_pxn_the_buffer_lies_elsewhere() {
    let lines = ["Channel 00/0 : 0[0] -> 9[1] [send] via NET/IB/1(1)/GDRDMA"];
    let a = account(&TABLES, Input { processes: vec![seen(0, "a", "2.21.5", &lines)], ..Input::default() });
    assert_eq!(item(&a.processes[0].items, "buffers towards peers"), 0);
    assert!(a.processes[0].not_seen.iter().any(|n| n.contains("PXN")));
}

#[test]
fn a_rank_with_more_communicators_stands_out() {
    let counts =
        "16 coll channels, 0 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer";
    let mut processes: Vec<ProcessSeen> = (1..8).map(|r| seen(r, "a", "2.21.5", &[counts])).collect();
    processes.push(seen(0, "a", "2.21.5", &[counts; 4]));
    let a = account(&TABLES, Input { processes, ..Input::default() });
    assert!(a.differs.iter().any(|d| d.contains("more on rank(s) 0 ")), "{:?}", a.differs);
    assert!(a.differs.iter().any(|d| d.contains("1 on rank(s) 1-7, 4 on rank(s) 0")), "{:?}", a.differs);
}

#[test]
fn absurd_numbers_break_nothing() {
    let lines = [
        "Cuda Alloc Size 18446744073709551615 pointer 0x1",
        "include/alloc.h:1 Cuda Alloc Size 17592186044416 pointer 0x1",
        "Allocated shareable buffer 0x7f size 17592186044416 ipcDesc 0x5",
        "4096 coll channels, 4096 collnet channels, 4096 nvls channels, 4096 p2p channels, 4096 p2p channels per peer",
        "18446744073709551615 coll channels, 1 p2p channels, 1 p2p channels per peer",
        "NVLS comm 0x5 headRank 0 nHeads 99999999999 buffSize 17592186044416 nvlsPerRankSize 1 nvlsTotalSize 17592186044416",
        "P2P Chunksize set to 17592186044416",
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        "comm 0x5 rank 0 nranks 16777216 cudaDev 0 nvmlDev 0 busId 1 commId 0x1 - Init COMPLETE",
    ];
    for release in ["2.4.8", "2.20.5", "2.27.3"] {
        let mut p = seen(0, "a", release, &lines);
        for _ in 0..24 {
            let twice = p.tally.clone();
            p.tally.merge(&twice);
        }
        let input = Input { processes: vec![p], ..Input::default() };
        let a = account(&TABLES, input);
        assert_eq!(a.processes.len(), 1);
    }
}
