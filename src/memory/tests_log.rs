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

/// A job of one communicator, as its log is written.
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
}

impl Job {
    fn nranks(&self) -> u64 {
        self.nodes * self.per_node
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
                per_peer: 2,
                heads: self.per_node,
            },
            communicators: 1,
            local: Local::P2p,
            gdr: true,
            nvlink: true,
            uses: Uses { tree: self.tree, nvls: false, ..Uses::default() },
            chunk: None,
            release: Some(self.release),
            arch: "x86_64".into(),
            env: [("NCCL_CUMEM_ENABLE".to_string(), u8::from(self.cumem).to_string())].into(),
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

    /// The log of each rank, without headers.
    fn logs(&self) -> Vec<Vec<String>> {
        let s = self.plan().sizes(&TABLES.constants);
        let n = self.nranks();
        let shape = self.plan().shape;
        let mut out: Vec<Vec<String>> = (0..n)
            .map(|r| {
                let (coll, p2p, nvls) = (self.channels, shape.p2p_channels, self.nvls);
                vec![
                    format!("comm 0x55a{r} rank {r} nranks {n} cudaDev {0} nvmlDev {0} busId 1{0}000 commId 0x9 - Init START", r % self.per_node),
                    format!("{coll} coll channels, 0 collnet channels, {nvls} nvls channels, {p2p} p2p channels, 2 p2p channels per peer"),
                ]
            })
            .collect();
        let mut line = |rank: u64, text: String| out[rank as usize].push(text);
        for c in 0..self.channels {
            for (a, b) in self.pairs() {
                let ends =
                    format!("Channel {c:02}/0 : {a}[{}] -> {b}[{}]", a % self.per_node, b % self.per_node);
                let local = a / self.per_node == b / self.per_node;
                let transport = if local { Transport::P2p } else { Transport::NetGdr };
                if local {
                    line(a, format!("{ends} via P2P/{}", if self.cumem { "CUMEM" } else { "IPC" }));
                } else {
                    line(a, format!("{ends} [send] via NET/IB/0/GDRDMA"));
                    line(b, format!("{ends} [receive] via NET/IB/0/GDRDMA"));
                }
                if self.alloc {
                    for (rank, direction) in [(a, Direction::Send), (b, Direction::Receive)] {
                        let bytes = connection(&s, transport, direction).gpu;
                        if local || self.cumem {
                            line(rank, format!("Allocated shareable buffer 0x7f size {bytes} ipcDesc 0x55"));
                        }
                        if !self.cumem {
                            line(rank, format!("include/alloc.h:178 Cuda Alloc Size {bytes} pointer 0x7f"));
                        }
                    }
                }
            }
        }
        if self.alloc {
            let channels = shape.channels.max(shape.p2p_channels);
            let arrays = channels * s.per_channel + self.nvls + s.per_communicator;
            for r in 0..n {
                for i in 0..arrays {
                    line(
                        r,
                        format!("include/alloc.h:178 Cuda Alloc Size {} pointer 0x7f", 8 + 16 * (i % 40)),
                    );
                }
            }
        }
        if !s.lazy && self.nvls > 0 && s.nvls_buffer > 0 && (s.cumem || s.nvls_without_cumem) {
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
        out
    }

    fn account(&self) -> Account {
        let processes = self
            .logs()
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
                    env: [("NCCL_CUMEM_ENABLE".to_string(), u8::from(self.cumem).to_string())].into(),
                    tally,
                }
            })
            .collect();
        account(&TABLES, Input { processes, ..Input::default() })
    }
}

fn jobs() -> impl Strategy<Value = Job> {
    let releases =
        prop::sample::select(vec!["2.8.4", "2.12.12", "2.18.6", "2.20.5", "2.21.5", "2.23.4", "2.27.3"]);
    (1u64..3, 1u64..9, 1u64..33, 0u64..3, releases, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(nodes, per_node, channels, nvls, release, cumem, tree, alloc)| {
            let release = Release::parse(release).unwrap();
            Job {
                nodes,
                per_node,
                channels,
                nvls: if release >= Release(2, 17, 0) { nvls * 8 } else { 0 },
                release,
                cumem: cumem && release >= Release(2, 18, 0),
                tree: tree && nodes * per_node > 2,
                alloc,
            }
        },
    )
}

fn item(items: &[Item], name: &str) -> u64 {
    items.iter().filter(|i| i.name == name).map(|i| i.gpu).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn accounting_and_computing_agree(job in jobs()) {
        let parts = compute(&TABLES.constants, &job.plan());
        let part = |id: &str| parts.iter().find(|p| p.id == id).map_or(Span::default(), |p| p.gpu);
        let sizes = job.plan().sizes(&TABLES.constants);
        let account = job.account();
        prop_assert_eq!(account.processes.len() as u64, job.nranks());
        let logs = job.logs();
        for (p, log) in account.processes.iter().zip(&logs) {
            // Buffers towards peers lie within what the model says of ring and tree.
            let own = |direction, transport| connection(&sizes, transport, direction).gpu;
            let r = u64::from(p.rank.unwrap());
            let mut exact = 0;
            for (a, b) in job.pairs() {
                let transport =
                    if a / job.per_node == b / job.per_node { Transport::P2p } else { Transport::NetGdr };
                if a == r { exact += own(Direction::Send, transport); }
                if b == r { exact += own(Direction::Receive, transport); }
            }
            exact *= job.channels;
            let span = part("ring").plus(if job.tree { part("tree") } else { Span::default() });
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
            let nvls = item(&p.items, "NVLS buffers");
            prop_assert!(sizes.lazy || nvls == part("nvls").most, "{} {:?}", nvls, part("nvls"));
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
