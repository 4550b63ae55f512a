//! The account of a job: for each process what NCCL holds, measured where the
//! log prints sizes, else computed from what it says about channels; checked
//! against each other where both exist. What cannot be seen is named.

use super::allocator::{self, Allocator, Held};
use super::lines::{Algorithm, Counts};
use super::reading::{Peers, Reading, has_collnet, is_local, sizes_of};
use super::refused::{Meaning, meanings};
use super::runs::Runs;
use super::tally::{Kind, Tally};
use super::{Effect, Env, Local, Plan, Shape, Transport, Uses, compare, effects};
use crate::base::Release;
use crate::knowledge::Tables;
use serde::Serialize;
use std::collections::BTreeSet;

/// A process of the job with what it said.
#[derive(Debug, Clone, Default)]
pub struct ProcessSeen {
    /// Rank, where known.
    pub rank: Option<u32>,
    /// Host, where known.
    pub host: Option<String>,
    /// How it is called where it has no rank.
    pub name: String,
    /// NCCL's release, where known.
    pub release: Option<Release>,
    /// Variables that hold for it.
    pub env: Env,
    /// What it said.
    pub tally: Tally,
}

/// A size that NCCL asked for in vain.
#[derive(Debug, Clone, Default)]
pub struct RefusedSeen {
    /// Rank, where known.
    pub rank: Option<u32>,
    /// Host, where known.
    pub host: Option<String>,
    /// Place of the line.
    pub source: String,
    /// See `source`; from 1.
    pub line: u64,
    /// Bytes.
    pub bytes: u64,
    /// Whether GPU memory was asked for.
    pub gpu: bool,
}

/// A line about memory that is not the GPU's: what ran out instead, or refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Elsewhere {
    /// Cause that the line suggests.
    pub cause: String,
    /// What it says.
    pub about: String,
    /// Rank, where known.
    pub rank: Option<u32>,
    /// Host, where known.
    pub host: Option<String>,
    /// Place of the first such line.
    pub source: String,
    /// See `source`; from 1.
    pub line: u64,
    /// How many lines say so.
    pub count: u64,
}

/// What an account is made of.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// Processes that said anything about memory.
    pub processes: Vec<ProcessSeen>,
    /// Refused sizes.
    pub refused: Vec<RefusedSeen>,
    /// Texts with which allocators gave up, each with its place.
    pub gave_up: Vec<(Allocator, String)>,
    /// Processes that a listing shows on GPUs.
    pub held: Vec<Held>,
    /// Lines about other memory than the GPU's.
    pub elsewhere: Vec<Elsewhere>,
    /// Process ids of ranks, by host.
    pub pids: Vec<(Option<String>, u32, u32)>,
    /// Architecture of the hosts, where the input shows it.
    pub arch: String,
    /// Whether it is a library made from NCCL, whose sizes the model does not know.
    pub derived: bool,
}

impl Input {
    /// The rank with a process id on a host.
    fn rank_of(&self, pid: u32, host: Option<&str>) -> Option<u32> {
        let fits = |h: &Option<String>| h.is_none() || host.is_none() || h.as_deref() == host;
        self.pids.iter().find(|(h, p, _)| *p == pid && fits(h)).map(|k| k.2)
    }
}

/// Where a figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// The log prints it.
    Measured,
    /// Counted by the model from what the log says.
    Computed,
    /// The same, where something had to be assumed.
    Assumed,
}

/// One thing that takes memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Item {
    /// What.
    pub name: String,
    /// Where the figure comes from.
    pub how: How,
    /// GPU bytes.
    pub gpu: u64,
    /// Host bytes.
    pub host: u64,
    /// How it is made up.
    pub detail: String,
}

/// What one process holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessAccount {
    /// Rank, where known.
    pub rank: Option<u32>,
    /// Host, where known.
    pub host: Option<String>,
    /// How it is called where it has no rank.
    pub name: String,
    /// NCCL's release, where known.
    pub nccl: Option<String>,
    /// Whether cuMem is on.
    pub cumem: bool,
    /// How that is known.
    pub cumem_by: &'static str,
    /// Communicators that it began to make.
    pub communicators: u64,
    /// Those of them that were made to the end.
    pub made: u64,
    /// Those that it destroyed or aborted.
    pub destroyed: u64,
    /// Their channels, each with how many have them.
    pub channels: Vec<(Counts, u64)>,
    /// What takes memory.
    pub items: Vec<Item>,
    /// GPU bytes together.
    pub gpu: u64,
    /// Host bytes together.
    pub host_bytes: u64,
    /// GPU bytes that the log prints, rounding left out.
    pub printed: u64,
    /// Measured against computed, one sentence each.
    pub checks: Vec<String>,
    /// What the log does not show, one sentence each.
    pub not_seen: Vec<String>,
}

/// A refused size and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Rank, where known.
    pub rank: Option<u32>,
    /// Host, where known.
    pub host: Option<String>,
    /// Place of the line.
    pub source: String,
    /// See `source`; from 1.
    pub line: u64,
    /// Bytes.
    pub bytes: u64,
    /// What it may be, most telling first.
    pub means: Vec<Meaning>,
}

/// The account of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Account {
    /// `ncclcheck.memory/1`.
    pub schema: &'static str,
    /// Processes in order of rank.
    pub processes: Vec<ProcessAccount>,
    /// Sizes that NCCL asked for in vain.
    pub refused: Vec<Refused>,
    /// What allocators said.
    pub allocators: Vec<Allocator>,
    /// Processes that hold memory of a GPU, as nvidia-smi lists them.
    pub held: Vec<Held>,
    /// Lines about memory that is not the GPU's: host, /dev/shm, locked memory, windows of the bus.
    pub elsewhere: Vec<Elsewhere>,
    /// Who differs from the others and why, one sentence each.
    pub differs: Vec<String>,
    /// What could be changed, by the model, for a rank.
    pub changes: Vec<Effect>,
    /// What holds for all of it, one sentence each.
    pub notes: Vec<String>,
}

/// Makes the account.
#[must_use]
pub fn account(tables: &Tables, mut input: Input) -> Account {
    input.processes.sort_by(|a, b| {
        let key = |p: &ProcessSeen| (p.rank.is_none(), p.rank, p.host.clone(), p.name.clone());
        key(a).cmp(&key(b))
    });
    let peers = Peers::new(&input.processes);
    let processes: Vec<ProcessAccount> =
        (0..input.processes.len()).map(|i| Reading::new(tables, &input, &peers, i).account()).collect();
    let repeated = peers.repeated();
    let first = input.processes.first();
    let release = first.and_then(|p| p.release);
    let env = first.map(|p| p.env.clone()).unwrap_or_default();
    let refused = input
        .refused
        .iter()
        .map(|r| Refused {
            rank: r.rank,
            host: r.host.clone(),
            source: r.source.clone(),
            line: r.line,
            bytes: r.bytes,
            means: of_place(meanings(&tables.constants, r.bytes, release, &env, r.gpu), r.gpu),
        })
        .collect();
    let mut allocators: Vec<Allocator> = input
        .gave_up
        .iter()
        .filter_map(|(place, text)| {
            let mut a = allocator::read(text)?;
            (a.rank, a.host, a.source, a.line) =
                (place.rank, place.host.clone(), place.source.clone(), place.line);
            for holder in &mut a.holders {
                holder.rank = input.rank_of(holder.pid, a.host.as_deref()).filter(|r| Some(*r) != a.rank);
            }
            let own = processes.iter().find(|p| p.rank.is_some() && p.rank == a.rank);
            allocator::judge(&mut a, own.map(|p| p.gpu));
            Some(a)
        })
        .collect();
    // A traceback that is printed twice says it twice.
    let mut told = BTreeSet::new();
    allocators.retain(|a| told.insert((a.rank, a.host.clone(), a.device, a.tried, a.free, a.allocated)));
    let elsewhere = std::mem::take(&mut input.elsewhere);
    let mut held = std::mem::take(&mut input.held);
    for h in &mut held {
        h.rank = input.rank_of(h.pid, h.host.as_deref());
    }
    let mut differs = compare::differs(&processes, &allocators);
    differs.extend(compare::shared(&held));
    let changes = plan_of(tables, &input)
        .filter(|_| !input.derived)
        .map(|plan| effects(&tables.constants, &tables.changes, &plan))
        .unwrap_or_default();
    let notes = notes(&input, &processes, repeated);
    Account {
        schema: "ncclcheck.memory/1",
        processes,
        refused,
        allocators,
        held,
        elsewhere,
        differs,
        changes,
        notes,
    }
}

/// Only what fits the memory that was asked for.
fn of_place(mut all: Vec<Meaning>, gpu: bool) -> Vec<Meaning> {
    all.retain(|m| m.place.starts_with("GPU") == gpu);
    all
}

fn notes(input: &Input, processes: &[ProcessAccount], runs: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if runs > 1 {
        notes.push(format!(
            "The input holds {runs} runs: processes with the same rank that share no communicator. Each is counted with \
             the peers of its own run; what they hold together is not a sum unless they ran at the same time."
        ));
    }
    if input.derived {
        notes.push(
            "The library is made from NCCL (RCCL or another): sizes that the log prints are right, computed ones are \
             those of NCCL and need not hold."
                .into(),
        );
    }
    if processes.is_empty() {
        notes.push(
            "No line tells of NCCL's memory. Run with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,ENV,ALLOC,P2P,NVLS, \
             on all ranks."
                .into(),
        );
    } else if processes.iter().all(|p| p.nccl.is_none()) {
        notes.push("No line names NCCL's release: computed figures are those of the newest one.".into());
    }
    notes
}

/// The job as the model counts it, from what its log says; nothing where that does not suffice.
#[must_use]
pub fn plan_of(tables: &Tables, input: &Input) -> Option<Plan> {
    // The rank that says most; of equals the first.
    let (at, p) = input
        .processes
        .iter()
        .enumerate()
        .filter(|(_, p)| !p.tally.counts.is_empty())
        .max_by_key(|(_, p)| (p.tally.counts.values().sum::<u64>(), std::cmp::Reverse(p.rank)))?;
    let runs = Runs::new(&input.processes);
    let t = &p.tally;
    // The shape of most of its communicators; of equals the one with more channels.
    let (counts, _) = t.counts.iter().max_by_key(|(c, n)| (**n, c.coll, c.p2p))?;
    let nranks = t.nranks().max(runs.size(at)).max(1);
    let net = t.sends.keys().chain(t.receives.keys()).any(|k| !is_local(k.transport));
    let local = t.sends.keys().any(|k| is_local(k.transport));
    let on_host = runs.on_host(at, p.host.as_deref());
    let heads = t.nvls.keys().map(|s| s.heads).max().unwrap_or(0);
    let per_node = match (net, local) {
        (false, true) => nranks,
        (true, false) => 1,
        _ if on_host.max(heads) > 1 => on_host.max(heads),
        _ => return None,
    };
    let (sizes, _) = sizes_of(tables, p, &input.arch);
    let seen = |a| t.connected.contains_key(&a);
    let connected = !t.connected.is_empty();
    let conn = |c: u32| t.sends.keys().chain(t.receives.keys()).any(|k| k.conn == c);
    let mut env = p.env.clone();
    env.insert("NCCL_CUMEM_ENABLE".into(), u8::from(sizes.cumem).to_string());
    Some(Plan {
        shape: Shape {
            nranks,
            per_node,
            channels: counts.coll,
            collnet: if has_collnet(p) { counts.collnet } else { 0 },
            nvls: counts.nvls,
            p2p_channels: counts.p2p,
            per_peer: counts.per_peer,
            heads: if heads > 0 { heads } else { per_node },
        },
        communicators: t.made().saturating_sub(t.destroyed).max(1),
        local: match () {
            () if t.sends.keys().any(|k| k.transport == Transport::P2pRead) => Local::P2pRead,
            () if t.sends.keys().any(|k| k.transport == Transport::Shm) => Local::Shm,
            () => Local::P2p,
        },
        gdr: t.sends.keys().chain(t.receives.keys()).any(uses_gdr),
        nvlink: t.chunks.keys().any(|c| *c > sizes.chunk_pcie),
        uses: Uses {
            ring: !connected && conn(0) || seen(Algorithm::Ring),
            tree: seen(Algorithm::Tree),
            nvls: !t.nvls.is_empty(),
            pat: seen(Algorithm::Pat),
            collnet: seen(Algorithm::CollNet),
            all_to_all: conn(1),
        },
        chunk: t.chunks.keys().next_back().copied(),
        release: p.release,
        arch: input.arch.clone(),
        env,
    })
}

fn uses_gdr(kind: &Kind) -> bool {
    matches!(kind.transport, Transport::NetGdr | Transport::NetShared { gdr: true })
}
