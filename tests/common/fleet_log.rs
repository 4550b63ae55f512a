//! The log lines of a made job: what torch's watchdogs and NCCL's trace of
//! collectives print on each rank when it hangs.

use super::fleet::{Done, Fleet, TIMEOUT_MS};
use std::fmt::Write;

/// What the lines hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Talk {
    /// NCCL's INFO lines with the trace of collectives.
    pub(crate) nccl: bool,
    /// Counters of the default group on every rank, as the monitor prints them at a dump signal.
    pub(crate) signals: bool,
}

fn upper(name: &str) -> String {
    name.to_ascii_uppercase()
}

impl Fleet {
    /// The lines of a rank.
    pub(crate) fn log(&self, rank: usize, talk: Talk) -> String {
        let mut out = String::new();
        let size = self.ranks.len();
        let _ = writeln!(out, "[rank{rank}]: worker {rank} of {size} starts");
        if talk.nccl {
            self.trace(rank, &mut out);
        }
        for step in 1..=self.ranks[rank].iter().filter(|d| d.ended && d.call.group == 0).count() {
            let _ = writeln!(out, "[rank{rank}]: step {step} loss 2.{:03}", 900 - step * 7);
        }
        let open = self.ranks[rank].iter().find(|d| !d.ended);
        if let Some(open) = open {
            self.timeout(rank, open, &mut out);
        }
        if talk.signals {
            self.signal(rank, open.is_some(), &mut out);
        }
        out
    }

    fn head(rank: usize, line: u32) -> String {
        format!(
            "[rank{rank}]:[E0412 05:17:{:02}.{:09} ProcessGroupNCCL.cpp:{line}]",
            20 + rank % 30,
            rank * 1_003 + 77
        )
    }

    fn timeout(&self, rank: usize, d: &Done, out: &mut String) {
        let group = &self.groups[d.call.group];
        let own = group.members.iter().position(|m| *m == rank).unwrap();
        let seq = if d.p2p > 0 { d.p2p } else { d.seq };
        let (enqueued, completed) = self.counters(rank, d.call.group);
        let (a, b): (i64, i64) = (d.call.inputs.iter().product(), d.call.outputs.iter().product());
        let _ = writeln!(
            out,
            "{} [Rank {own}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={}, NumelIn={a}, \
             NumelOut={b}, Timeout(ms)={TIMEOUT_MS}) ran for {} milliseconds before timing out.",
            Self::head(rank, 632),
            upper(&d.call.name),
            TIMEOUT_MS + 17 + rank as i64
        );
        let _ = writeln!(
            out,
            "{} [PG ID {} PG GUID {}({}) Rank {own}]  failure detected by watchdog at work sequence id: {seq} PG status: \
             last enqueued work: {enqueued}, last completed work: {completed}",
            Self::head(rank, 2268),
            d.call.group,
            group.name,
            group.desc
        );
    }

    fn signal(&self, rank: usize, waits: bool, out: &mut String) {
        let (enqueued, completed) = self.counters(rank, 0);
        let from = self.waiting().first().copied().unwrap_or(0);
        let whom = if waits { "this local rank".to_string() } else { format!(" rank {from}") };
        let _ = writeln!(
            out,
            "{} [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal due to a collective timeout from {whom} \
             and we will try our best to dump the debug info. Last enqueued NCCL work: {enqueued}, last completed NCCL \
             work: {completed}.This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used \
             across ranks, the order of collectives is not same for all ranks or the scheduled collective, for some \
             reason, didn't run.",
            Self::head(rank, 1870)
        );
    }

    /// NCCL's lines: the communicators, then every call.
    fn trace(&self, rank: usize, out: &mut String) {
        let pid = 41_000 + rank;
        let head = format!("gpu-c{:02}:{pid}:{pid} [{}] NCCL INFO", rank / 4 + 3, rank % 4);
        for (at, group) in self.groups.iter().enumerate() {
            let Some(own) = group.members.iter().position(|m| *m == rank) else { continue };
            let _ = writeln!(
                out,
                "{head} ncclCommInitRankConfig comm 0x7f{rank:02x}{at:02x}00 rank {own} nranks {} cudaDev {} nvmlDev {} \
                 busId {:x}000 commId 0x{:016x} - Init COMPLETE",
                group.members.len(),
                rank % 4,
                rank % 4,
                0x1b + rank % 4 * 0x10,
                // Members share it; groups of one name do not.
                0x5ab0_0000_0000 + at as u64 * 0x101 + 7
            );
        }
        let mut counts = vec![0u64; self.groups.len()];
        for d in &self.ranks[rank] {
            if d.call.pair.is_some() {
                continue;
            }
            let at = d.call.group;
            let name = d.call.name.trim_start_matches('_').trim_end_matches("_base");
            let name: String = name.split('_').map(|w| w[..1].to_uppercase() + &w[1..]).collect();
            let _ = writeln!(
                out,
                "{head} {name}: opCount {:x} sendbuff 0x7f5a00 recvbuff 0x7f5b00 count {} datatype 7 op 0 root 0 comm \
                 0x7f{rank:02x}{at:02x}00 [nranks={}] stream 0x55d2",
                counts[at],
                d.call.inputs.iter().product::<i64>(),
                self.groups[at].members.len()
            );
            counts[at] += 1;
        }
    }
}
