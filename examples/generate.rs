//! Makes the logs of a distributed job of any size, with a fault planted in it.
//!
//! ```text
//! cargo run --release --example generate -- --ranks 64 --nodes 8 --lines 200000 --fault oom --seed 7 --out job.log
//! cargo run --release --example generate -- --ranks 16 --lines 5000 --sparse --fault xid --split-by-rank logs/
//! ```
//!
//! The output depends on the arguments alone. Every line tells its rank, by NCCL's header or by `[rankN]: `, so the
//! files of `--split-by-rank` hold the lines that the one of `--out` holds. `--dense` (the default) writes mostly NCCL
//! lines (the trace of collectives, behind channels and trees), `--sparse` mostly lines of a training. Standard error
//! names what was planted.
#![allow(clippy::print_stderr, missing_docs)]

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str =
    "usage: generate [--ranks N] [--nodes N] [--lines N | --bytes N] [--dense|--sparse] [--seed N]
                [--fault oom|ib|exception|hang|xid|none] (--split-by-rank DIR | --out FILE|-)";
const FAULTS: [(&str, Fault); 6] = [
    ("oom", Fault::Oom),
    ("ib", Fault::Ib),
    ("exception", Fault::Exception),
    ("hang", Fault::Hang),
    ("xid", Fault::Xid),
    ("none", Fault::None),
];
/// Bus numbers of the eight devices of a host.
const BUS: [&str; 8] = ["1b000", "43000", "52000", "61000", "9d000", "c3000", "d1000", "df000"];
/// How many milliseconds the watchdogs wait.
const WAITS: u64 = 600_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// A rank runs out of GPU memory; the others wait for it.
    Oom,
    /// A host stops answering; ranks of other hosts report its address.
    Ib,
    /// A rank raises an exception of its own; the others wait for it.
    Exception,
    /// A rank falls silent and nothing says why.
    Hang,
    /// A rank falls silent and its host's kernel log says why.
    Xid,
    /// The job ends well.
    None,
}

struct Args {
    ranks: u64,
    nodes: u64,
    lines: u64,
    bytes: u64,
    fault: Fault,
    dense: bool,
    seed: u64,
    split: bool,
    out: PathBuf,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut a = Args {
        ranks: 16,
        nodes: 0,
        lines: 20_000,
        bytes: u64::MAX,
        fault: Fault::None,
        dense: true,
        seed: 1,
        split: false,
        out: PathBuf::new(),
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--dense" => a.dense = true,
            "--sparse" => a.dense = false,
            "--ranks" => a.ranks = number(&value()?)?,
            "--nodes" => a.nodes = number(&value()?)?,
            "--lines" => a.lines = number(&value()?)?,
            "--bytes" => (a.bytes, a.lines) = (number(&value()?)?, u64::MAX),
            "--seed" => a.seed = number(&value()?)?,
            "--split-by-rank" => (a.out, a.split) = (value()?.into(), true),
            "--out" => (a.out, a.split) = (value()?.into(), false),
            "--fault" => {
                let name = value()?;
                let found = FAULTS.iter().find(|f| f.0 == name);
                a.fault = found.ok_or_else(|| format!("no fault {name:?}"))?.1;
            }
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    if a.nodes == 0 {
        a.nodes = a.ranks.div_ceil(8);
    }
    if a.ranks < 2 || a.ranks > 1 << 17 || !a.ranks.is_multiple_of(a.nodes) || a.ranks / a.nodes > 8 {
        return Err("--ranks must be 2 or more, a multiple of --nodes, at most 8 on each".into());
    }
    if a.fault == Fault::Ib && a.nodes < 2 {
        return Err("--fault ib needs two nodes".into());
    }
    if a.out.as_os_str().is_empty() || (a.split && a.ranks > 4096) {
        return Err("give --out, or --split-by-rank for at most 4096 ranks".into());
    }
    Ok(a)
}

fn number(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| format!("{text:?} is no number"))
}

/// SplitMix64: small, fast, the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

/// One rank, with the texts that begin its lines.
struct Rank {
    rank: u64,
    host: String,
    address: String,
    pid: u64,
    dev: u64,
    bus: &'static str,
    header: String,
    mark: String,
    comm: String,
}

fn ranks(a: &Args, random: &mut Random) -> Vec<Rank> {
    let per = a.ranks / a.nodes;
    let mut base = 0;
    let one = |rank| {
        let (node, dev) = (rank / per, rank % per);
        if dev == 0 {
            base = 4000 + random.below(50_000);
        }
        let (host, pid) = (format!("node{node:03}"), base + 3 * dev);
        Rank {
            rank,
            address: format!("10.{}.{}.{}", 20 + node / 60_000, node / 250 % 250, 1 + node % 250),
            header: format!("{host}:{pid}:{} [{dev}] ", pid + 400 + dev),
            mark: format!("[rank{rank}]: "),
            comm: format!("0x{:x}", 0x5500_0000_0000 + random.below(1 << 40)),
            bus: BUS[dev as usize % BUS.len()],
            host,
            pid,
            dev,
        }
    };
    (0..a.ranks).map(one).collect()
}

/// What is being written: one stream of all ranks, or one for each.
struct Job {
    a: Args,
    random: Random,
    outs: Vec<BufWriter<Box<dyn Write>>>,
    written: u64,
    lines: u64,
}

impl Job {
    fn new(a: Args) -> io::Result<Self> {
        let mut outs: Vec<BufWriter<Box<dyn Write>>> = Vec::new();
        if a.split {
            fs::create_dir_all(&a.out)?;
            let buffer = ((64 << 20) / a.ranks as usize).clamp(8 << 10, 1 << 20);
            for rank in 0..a.ranks {
                let file = File::create(a.out.join(format!("rank_{rank}.log")))?;
                outs.push(BufWriter::with_capacity(buffer, Box::new(file)));
            }
        } else if a.out == Path::new("-") {
            outs.push(BufWriter::with_capacity(1 << 20, Box::new(io::stdout())));
        } else {
            outs.push(BufWriter::with_capacity(1 << 20, Box::new(File::create(&a.out)?)));
        }
        Ok(Self { random: Random(a.seed), a, outs, written: 0, lines: 0 })
    }

    /// Writes whole lines of one rank.
    fn put(&mut self, rank: u64, text: &[u8], lines: u64) -> io::Result<()> {
        self.written += text.len() as u64;
        self.lines += lines;
        let out = if self.a.split { rank as usize } else { 0 };
        self.outs[out].write_all(text)
    }

    fn line(&mut self, rank: &Rank, text: &str) -> io::Result<()> {
        self.put(rank.rank, format!("{}{text}\n", rank.mark).as_bytes(), 1)
    }

    fn nccl(&mut self, rank: &Rank, text: &str) -> io::Result<()> {
        self.put(rank.rank, format!("{}{text}\n", rank.header).as_bytes(), 1)
    }

    fn full(&self) -> bool {
        self.lines >= self.a.lines || self.written >= self.a.bytes
    }

    fn run(mut self) -> io::Result<String> {
        let all = ranks(&self.a, &mut self.random);
        self.init(&all)?;
        let (mut count, mut buffer) = (0, Vec::with_capacity(1024));
        while !self.full() {
            for r in &all {
                buffer.clear();
                let lines = match self.a.dense {
                    true => trace(&mut buffer, r, all.len(), &mut self.random, count)?,
                    false => training(&mut buffer, r, &mut self.random, count)?,
                };
                self.put(r.rank, &buffer, lines)?;
            }
            count += 1;
        }
        let what = self.end(&all, 3 * count + 1)?;
        for out in &mut self.outs {
            out.flush()?;
        }
        Ok(format!("{what}; {} lines, {} bytes", self.lines, self.written))
    }

    /// The lines by which NCCL 2.21 makes a communicator.
    fn init(&mut self, all: &[Rank]) -> io::Result<()> {
        let (n, id) = (all.len() as u64, 0x6f1d_2c3b_4a59_6870 ^ self.a.seed);
        for r in all {
            let Rank { rank, dev, bus, comm, address, .. } = r;
            let (next, last) = ((rank + 1) % n, (rank + n - 1) % n);
            let to = &all[next as usize];
            let who = format!(
                "ncclCommInitRank comm {comm} rank {rank} nranks {n} cudaDev {dev} nvmlDev {dev} busId {bus} commId 0x{id:x}"
            );
            self.nccl(r, &format!("NCCL INFO Bootstrap : Using ib0:{address}<0>"))?;
            if *rank == 0 {
                self.nccl(r, "NCCL INFO NCCL version 2.21.5+cuda12.4")?;
            }
            self.nccl(r, &format!("NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:{address}<0>"))?;
            self.nccl(r, "NCCL INFO Using network IB")?;
            self.nccl(r, &format!("NCCL INFO {who} - Init START"))?;
            self.nccl(r, &format!("NCCL INFO Trees [0] {next}/-1/-1->{rank}->{last}"))?;
            let way = if to.host == r.host { "via P2P/CUMEM" } else { "[send] via NET/IB/0/GDRDMA" };
            self.nccl(r, &format!("NCCL INFO Channel 00/0 : {rank}[{dev}] -> {next}[{}] {way}", to.dev))?;
            self.nccl(r, "NCCL INFO Connected all rings")?;
            self.nccl(r, &format!("NCCL INFO {who} - Init COMPLETE"))?;
        }
        Ok(())
    }

    /// The end of the job; returns a sentence about what was planted.
    fn end(&mut self, all: &[Rank], work: u64) -> io::Result<String> {
        let bad = &all[self.random.below(self.a.ranks) as usize];
        let fault = self.a.fault;
        match fault {
            Fault::None => {
                for Rank { rank, dev, bus, comm, .. } in all {
                    let who =
                        format!("comm {comm} rank {rank} nranks {} cudaDev {dev} busId {bus}", all.len());
                    let r = &all[*rank as usize];
                    self.nccl(r, &format!("NCCL INFO {who} - Destroy COMPLETE"))?;
                    self.line(r, "done")?;
                }
                return Ok("no fault: the job ends well".into());
            }
            Fault::Oom => {
                let last = format!(
                    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {} has a total capacity of \
                     79.15 GiB of which 1.12 GiB is free. Including non-PyTorch memory, this process has 78.02 GiB memory in \
                     use. Of the allocated memory 71.30 GiB is allocated by PyTorch.",
                    bad.dev
                );
                self.traceback(bad, "model", "h = self.mix(h)", &last)?;
            }
            Fault::Exception => {
                self.traceback(bad, "data", "label = self.labels[name]", "KeyError: 'sample_004711'")?;
            }
            Fault::Xid => self.kernel(bad)?,
            Fault::Ib => {
                for r in all.iter().filter(|r| r.host != bad.host && r.dev == bad.dev).take(3) {
                    let port = 30_000 + self.random.below(30_000);
                    self.put(r.rank, b"\n", 1)?;
                    let text = format!(
                        "transport/net_ib.cc:1712 NCCL WARN NET/IB : Got completion from peer {}<{port}> with status=12 \
                         opcode=0 len=0 vendor err 129 (Send)",
                        bad.address
                    );
                    self.nccl(r, &text)?;
                    self.nccl(r, "NCCL INFO transport/net.cc:1298 -> 6")?;
                }
            }
            Fault::Hang => {}
        }
        for r in all.iter().filter(|r| r.rank != bad.rank) {
            self.watchdog(r, work)?;
        }
        Ok(format!("{fault:?}: rank {} on {}, collective {work}", bad.rank, bad.host).to_lowercase())
    }

    fn traceback(&mut self, r: &Rank, file: &str, code: &str, last: &str) -> io::Result<()> {
        let frame = format!("  File \"/home/user/{file}.py\", line 87, in forward\n    {code}\n{last}");
        let head = "Traceback (most recent call last):\n  File \"/home/user/train.py\", line 212, in <module>\n    main()\n";
        format!("{head}{frame}").lines().try_for_each(|line| self.line(r, line))
    }

    /// The line of the host's kernel log, in a file of its own or in the stream.
    fn kernel(&mut self, r: &Rank) -> io::Result<()> {
        let Rank { host, pid, bus, .. } = r;
        let gpu = &bus[..2];
        let text = format!(
            "Feb 03 10:20:00 {host} kernel: NVRM: Xid (PCI:0000:{gpu}:00): 79, pid={pid}, name=python, GPU has fallen off the \
             bus.\n"
        );
        match self.a.split {
            true => fs::write(self.a.out.join(format!("dmesg-{host}.txt")), text),
            false => self.put(r.rank, text.as_bytes(), 1),
        }
    }

    /// What a rank prints whose watchdog gives up.
    fn watchdog(&mut self, r: &Rank, work: u64) -> io::Result<()> {
        let (rank, ran) = (r.rank, WAITS + 4 + self.random.below(90));
        let head = format!(
            "[rank{rank}]:[E203 10:30:00.{:09} ProcessGroupNCCL.cpp",
            self.random.below(1_000_000_000)
        );
        let group = format!("[PG ID 0 PG GUID 0(default_pg) Rank {rank}]");
        let what = format!(
            "[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={work}, OpType=ALLREDUCE, \
             NumelIn=8388608, NumelOut=8388608, Timeout(ms)={WAITS}) ran for {ran} milliseconds before timing out."
        );
        let text = format!(
            "{head}:632] {what}\n\
             {head}:2268] {group}  failure detected by watchdog at work sequence id: {work} PG status: last enqueued work: \
             {work}, last completed work: {}\n\
             {head}:698] [Rank {rank}] To avoid data inconsistency, we are taking the entire process down.\n\
             {head}:1896] {group} Process group watchdog thread terminated with exception: {what}\n",
            work - 1
        );
        self.put(rank, text.as_bytes(), 4)
    }
}

/// A step's collectives, as NCCL_DEBUG_SUBSYS=COLL shows them.
fn trace(out: &mut Vec<u8>, r: &Rank, n: usize, random: &mut Random, count: u64) -> io::Result<u64> {
    let kinds = [("AllReduce", 7), ("AllGather", 9), ("ReduceScatter", 9)];
    for (nth, (name, datatype)) in (0..).zip(kinds) {
        let (sent, got) = (random.next() >> 28 << 8, random.next() >> 28 << 8);
        let (op, elements) = (3 * count + nth, 1024 << (count % 8));
        writeln!(
            out,
            "{}NCCL INFO {name}: opCount {op:x} sendbuff 0x7f{sent:010x} recvbuff 0x7f{got:010x} count {elements} datatype \
             {datatype} op 0 root 0 comm {} [nranks={n}] stream 0x55d0c0de0000",
            r.header, r.comm
        )?;
    }
    Ok(3)
}

/// A line such as a training prints.
fn training(out: &mut Vec<u8>, r: &Rank, random: &mut Random, count: u64) -> io::Result<u64> {
    let (mark, some, more) = (&r.mark, 1000 + random.below(9000), 1000 + random.below(9000));
    match random.below(8) {
        0 => writeln!(out, "{mark}DEBUG data: prefetched shard {some}, queue depth {more}")?,
        1 => writeln!(out, "{mark}INFO memory: allocated {some} MiB, reserved {more} MiB")?,
        2 => writeln!(out, "{mark}INFO profiler: forward 112 ms, backward 240 ms, batch {some}")?,
        _ => {
            writeln!(out, "{mark}step {count} loss 2.{some} grad_norm 0.{more} lr 3.0e-04 tokens/s 2{some}")?
        }
    }
    Ok(1)
}

/// Does what the arguments say; the tests call it too.
pub(crate) fn make(words: impl Iterator<Item = String>) -> Result<String, Wrong> {
    let args = parse(words).map_err(Wrong::Usage)?;
    Job::new(args).and_then(Job::run).map_err(Wrong::Write)
}

/// Why nothing was made.
pub(crate) enum Wrong {
    Usage(String),
    Write(io::Error),
}

fn main() -> ExitCode {
    match make(std::env::args().skip(1)) {
        Ok(said) => {
            eprintln!("{said}");
            ExitCode::SUCCESS
        }
        Err(Wrong::Usage(what)) => {
            eprintln!("{what}\n{USAGE}");
            ExitCode::from(2)
        }
        Err(Wrong::Write(e)) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Wrong::Write(e)) => {
            eprintln!("cannot write: {e}");
            ExitCode::FAILURE
        }
    }
}
