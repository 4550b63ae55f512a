//! Which processes belong together. One log may hold several runs, one after
//! the other, on the same hosts and GPUs: what ranks of one of them send is
//! received by that run's. Ranks of a run share a communicator, and each
//! communicator has an id that no other has.

use super::account::ProcessSeen;
use std::collections::{BTreeMap, BTreeSet};

/// Processes in the groups that communicators make of them.
#[derive(Debug, Default)]
pub(super) struct Runs<'p> {
    /// Run of each process.
    of: Vec<usize>,
    /// Processes of a run on a host.
    on_host: BTreeMap<(usize, Option<&'p str>), u64>,
    sizes: BTreeMap<usize, u64>,
    /// Runs of which a rank was seen twice, one after the other.
    repeated: usize,
}

impl<'p> Runs<'p> {
    pub(super) fn new(processes: &'p [ProcessSeen]) -> Self {
        let mut parent: Vec<usize> = (0..processes.len()).collect();
        let mut first: BTreeMap<&str, usize> = BTreeMap::new();
        for (n, p) in processes.iter().enumerate() {
            for id in &p.tally.ids {
                let other = *first.entry(id).or_insert(n);
                let (a, b) = (root(&mut parent, n), root(&mut parent, other));
                parent[a.max(b)] = a.min(b);
            }
        }
        let named = |n: usize| !processes[n].tally.ids.is_empty();
        let roots: BTreeSet<usize> =
            (0..processes.len()).filter(|&n| named(n)).map(|n| root(&mut parent, n)).collect();
        // Who names no communicator belongs to the only run, or to those who name none either.
        let other = if roots.len() == 1 { roots.first().copied().unwrap_or(0) } else { usize::MAX };
        let of: Vec<usize> =
            (0..processes.len()).map(|n| if named(n) { root(&mut parent, n) } else { other }).collect();
        let mut out = Self { of, ..Self::default() };
        let mut ranks: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
        for (p, &run) in processes.iter().zip(&out.of) {
            *out.on_host.entry((run, p.host.as_deref())).or_default() += 1;
            *out.sizes.entry(run).or_default() += 1;
            if let Some(rank) = p.rank.filter(|_| run != usize::MAX) {
                ranks.entry(rank).or_default().insert(run);
            }
        }
        out.repeated = ranks.values().map(BTreeSet::len).max().unwrap_or(0);
        out
    }

    /// A device of a process's host, as its run uses it.
    pub(super) fn place(&self, process: usize, p: &ProcessSeen, device: &str) -> (usize, String, String) {
        (self.of[process], p.host.clone().unwrap_or_default(), device.to_string())
    }

    /// Processes of its run on its host.
    pub(super) fn on_host(&self, process: usize, host: Option<&'p str>) -> u64 {
        self.on_host.get(&(self.of[process], host)).copied().unwrap_or(0)
    }

    /// Processes of its run.
    pub(super) fn size(&self, process: usize) -> u64 {
        self.sizes.get(&self.of[process]).copied().unwrap_or(0)
    }

    /// How many runs have a rank of one number; 1 for a log of one run.
    pub(super) fn repeated(&self) -> usize {
        self.repeated
    }
}

fn root(parent: &mut [usize], mut n: usize) -> usize {
    while parent[n] != n {
        parent[n] = parent[parent[n]];
        n = parent[n];
    }
    n
}
