//! Logs of any size for the comparison, the same for the same size: `dense`
//! is mostly NCCL lines of 64 ranks, half of them the trace of collectives,
//! `sparse` mostly what a training prints. Both have 20 serious lines in a
//! million, of ten kinds, and end with a watchdog's words.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Which log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Mostly NCCL lines.
    Dense,
    /// Mostly lines of a training.
    Sparse,
    /// As dense, with only such NCCL lines as are printed in masses.
    Mild,
}

const RANKS: u64 = 64;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 32) * n >> 32
    }
}

/// Writes a log of about `size` bytes.
pub fn write(path: &Path, kind: Kind, size: u64, seed: u64) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut random = Random(seed);
    let (mut written, mut line, mut step) = (0u64, Vec::with_capacity(1024), 0u64);
    let mut next_bad = 25_000;
    for rank in 0..RANKS {
        line.clear();
        init(&mut line, rank)?;
        written += line.len() as u64;
        out.write_all(&line)?;
    }
    for n in 0.. {
        if written >= size {
            break;
        }
        line.clear();
        let rank = random.below(RANKS);
        step += u64::from(rank == 0);
        if n == next_bad {
            serious(&mut line, rank, random.below(10))?;
            next_bad += 25_000 + random.below(50_000);
        } else {
            let nccl = if kind == Kind::Sparse { 5 } else { 85 };
            let kinds = if kind == Kind::Mild { 16 } else { 20 };
            match random.below(100) {
                p if p < nccl => spoken(&mut line, rank, random.below(kinds), &mut random, step)?,
                _ => training(&mut line, rank, &mut random, step)?,
            }
        }
        written += line.len() as u64;
        out.write_all(&line)?;
    }
    line.clear();
    serious(&mut line, 3, 9)?;
    out.write_all(&line)?;
    out.flush()
}

/// NCCL's header up to and with the level.
fn header(out: &mut Vec<u8>, rank: u64) -> io::Result<()> {
    let (node, dev) = (rank / 8, rank % 8);
    let pid = 41_000 + node * 977 + dev;
    write!(out, "gpu-a{node:02}:{pid}:{} [{dev}] NCCL INFO ", pid + 600)
}

fn init(out: &mut Vec<u8>, rank: u64) -> io::Result<()> {
    let (node, dev) = (rank / 8, rank % 8);
    for text in [
        format!("Bootstrap : Using ib0:10.20.0.{}<0>", node + 1),
        "NCCL version 2.21.5+cuda12.4".into(),
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.20.0.1<0>".into(),
        "Using network IB".into(),
        format!(
            "ncclCommInitRank comm 0x55d0c0de{rank:04x} rank {rank} nranks {RANKS} cudaDev {dev} nvmlDev {dev} busId {dev}1000 commId 0x6f1d2c3b4a596870 - Init START"
        ),
        format!(
            "ncclCommInitRank comm 0x55d0c0de{rank:04x} rank {rank} nranks {RANKS} cudaDev {dev} nvmlDev {dev} busId {dev}1000 commId 0x6f1d2c3b4a596870 - Init COMPLETE"
        ),
    ] {
        header(out, rank)?;
        writeln!(out, "{text}")?;
    }
    Ok(())
}

/// One NCCL line: three of five are of the trace.
fn spoken(out: &mut Vec<u8>, rank: u64, kind: u64, random: &mut Random, step: u64) -> io::Result<()> {
    header(out, rank)?;
    let (some, dev, next) = (random.next() >> 24, rank % 8, (rank + 1) % RANKS);
    let channel = random.below(32);
    match kind {
        0..12 => {
            let name = ["AllReduce", "AllGather", "ReduceScatter", "Broadcast"][(kind % 4) as usize];
            writeln!(
                out,
                "{name}: opCount {step:x} sendbuff 0x7f{some:010x} recvbuff 0x7f{:010x} count {} datatype 9 op 0 root 0 comm 0x55d0c0de{rank:04x} [nranks={RANKS}] stream 0x55d0c1ab{rank:04x}",
                some ^ 0x3_0000,
                1024u64 << (kind % 8)
            )
        }
        12 | 13 => {
            writeln!(out, "Channel {channel:02}/0 : {rank}[{dev}] -> {next}[{}] via P2P/CUMEM/read", next % 8)
        }
        14 => writeln!(
            out,
            "Channel {channel:02}/0 : {rank}[{dev}] -> {next}[{}] [send] via NET/IB/{}/GDRDMA",
            next % 8,
            dev
        ),
        15 => {
            write!(out, "Trees")?;
            for c in 0..8 {
                write!(out, " [{c}] {next}/-1/-1->{rank}->{}", rank.saturating_sub(1))?;
            }
            writeln!(out)
        }
        16 => writeln!(
            out,
            "Channel {channel:02}/32 :    0   1   2   3   4   5   6   7   8   9  10  11  12  13  14  15"
        ),
        17 => writeln!(out, "Connected all rings"),
        18 => writeln!(
            out,
            "threadThresholds 8/8/64 | 512/8/64 | 512 | 512; {channel} coll channels, 0 collnet channels, 0 nvls channels, {channel} p2p channels, 2 p2p channels per peer"
        ),
        _ => writeln!(
            out,
            "comm 0x55d0c0de{rank:04x} rank {rank} nRanks {RANKS} nNodes 8 localRanks 8 localRank {dev} MNNVL 0"
        ),
    }
}

fn training(out: &mut Vec<u8>, rank: u64, random: &mut Random, step: u64) -> io::Result<()> {
    let (a, b) = (1000 + random.below(9000), 1000 + random.below(9000));
    match random.below(8) {
        0 | 1 => writeln!(
            out,
            " [2026-03-02 10:{:02}:{:02}] iteration {step:8}/  500000 | consumed samples: {a:12} | elapsed time per iteration (ms): {b}.5 | learning rate: 1.{a}E-04 | global batch size:  1024 | lm loss: 2.{b}E+00 | loss scale: 1.0 | grad norm: 0.{a} | number of skipped iterations:   0 | number of nan iterations:   0 |",
            step / 60 % 60,
            step % 60
        ),
        2 => writeln!(
            out,
            "[2026-03-02 10:{:02}:{:02},{:03}] [INFO] [timer.py:264:stop] epoch=0/micro_step={step}/global_step={step}, RunningAvgSamplesPerSec={a}.1, CurrSamplesPerSec={b}.2, MemAllocated=41.2GB, MaxMemAllocated=70.1GB",
            step / 60 % 60,
            step % 60,
            a % 1000
        ),
        3 => writeln!(
            out,
            "[rank{rank}]: step {step} loss 2.{a} grad_norm 0.{b} lr 3.0e-04 tokens/s 2{a} mfu 41.{b}"
        ),
        4 => writeln!(
            out,
            "Training:  {:2}%|####      | {step}/500000 [1:02:03<10:20:30,  {b}.1s/it, loss=2.{a}]",
            step % 100
        ),
        5 => writeln!(
            out,
            "INFO:trainer.data:prefetched shard {a} of epoch 0, queue depth {b}, bytes read {a}{b}"
        ),
        6 => writeln!(
            out,
            "[default{}]:  validation loss at iteration {step} | lm loss value: 2.{a} | lm loss PPL: 9.{b}",
            rank % 8
        ),
        _ => writeln!(
            out,
            "{rank}: 2026-03-02 10:{:02}:{:02} INFO checkpoint: shard {rank} written in {a} ms ({b} MiB)",
            step / 60 % 60,
            step % 60
        ),
    }
}

/// A serious line.
fn serious(out: &mut Vec<u8>, rank: u64, kind: u64) -> io::Result<()> {
    let (node, dev) = (rank / 8, rank % 8);
    let pid = 41_000 + node * 977 + dev;
    let host = format!("gpu-a{node:02}:{pid}:{} [{dev}]", pid + 600);
    let glog = format!("[rank{rank}]:[E302 10:30:00.{:09} ProcessGroupNCCL.cpp", rank * 1_234_567);
    match kind {
        0 => writeln!(
            out,
            "{host} transport/net_ib.cc:1712 NCCL WARN NET/IB : Got completion from peer 10.20.0.{}<40123> with status=12 opcode=0 len=0 vendor err 129 (Send)",
            node + 1
        ),
        1 => writeln!(
            out,
            "{host} misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer gpu-a0{node}<51234>"
        ),
        2 => writeln!(out, "{host} NCCL INFO transport/net.cc:1298 -> 6"),
        3 => writeln!(out, "{host} include/alloc.h:188 NCCL WARN Cuda failure 2 'out of memory'"),
        4 => writeln!(
            out,
            "[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {dev} has a total capacity of 79.15 GiB of which 1.12 GiB is free."
        ),
        5 => {
            writeln!(out, "[rank{rank}]: RuntimeError: CUDA error: an illegal memory access was encountered")
        }
        6 => writeln!(out, "srun: error: gpu-a{node:02}: task {rank}: Exited with exit code 1"),
        7 => writeln!(
            out,
            "slurmstepd: error: *** STEP 4711.0 ON gpu-a00 CANCELLED AT 2026-03-02T10:31:00 DUE TO TIME LIMIT ***"
        ),
        8 => writeln!(
            out,
            "{glog}:1896] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error"
        ),
        _ => writeln!(
            out,
            "{glog}:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4711, OpType=ALLREDUCE, NumelIn=8388608, NumelOut=8388608, Timeout(ms)=600000) ran for 600042 milliseconds before timing out."
        ),
    }
}
