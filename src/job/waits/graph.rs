//! Who waits for whom, as a graph of ranks and of the operations between them:
//! a rank stands in an operation, the operation lacks other ranks. Following
//! it to its ends gives the ranks that wait for nobody, and the circles.

use std::collections::{BTreeMap, BTreeSet};

use super::agree::What;

/// Why an operation lacks a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Why {
    /// It called something else there.
    Differs(What),
    /// It talks to another rank than the one that waits.
    WrongPeer,
    /// It has never entered it.
    NotEntered,
    /// It has nothing of the group in its record.
    NothingHeld,
    /// It has entered, but never finished what the others finished before.
    Behind,
    /// There is no partner for a send or receive.
    NoPartner,
    /// Its record is cut.
    Cut,
    /// There is no record of it.
    Absent,
    /// Its record is there and could not be read.
    Unread,
}

/// An operation in which ranks stand.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Place {
    /// A collective: group and position.
    Collective(usize, i64),
    /// A send or receive: group, who stands in it, with whom, whether it sends.
    Pair(usize, u32, u32, bool),
}

/// One operation with who stands in it and whom it lacks.
#[derive(Debug, Clone)]
pub(super) struct Wait {
    pub(super) place: Place,
    pub(super) waiters: BTreeSet<u32>,
    pub(super) lacks: BTreeMap<u32, Why>,
    /// Members of which nothing is known, where others are lacked.
    pub(super) unseen: BTreeSet<u32>,
    /// Who else belongs to it is not known, or not what they did: it waits for somebody.
    pub(super) loose: bool,
    /// Earliest wall clock at which somebody entered; 0 when not known.
    pub(super) since: i64,
    /// Nobody is outvoted: all that called here are under suspicion.
    pub(super) tie: bool,
}

/// The graph; `waits` are in the order of their places.
pub(super) struct Graph<'w> {
    pub(super) waits: &'w [Wait],
    ranks: Vec<u32>,
    /// Ranks that wait for somebody who is not known.
    held: BTreeSet<u32>,
    /// Out of each node; ranks come first, then operations.
    out: Vec<Vec<u32>>,
}

/// The end of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EndPoint {
    /// Somebody waits for it, and it waits for nobody.
    Rank(u32),
    /// These wait for one another, in these operations (indices into the waits).
    Circle(Vec<u32>, Vec<usize>),
}

impl<'w> Graph<'w> {
    /// `fixed`: ranks whose own waits do not count, for they are wrong where they stand.
    pub(super) fn new(waits: &'w [Wait], fixed: &BTreeSet<u32>) -> Self {
        let all: BTreeSet<u32> =
            waits.iter().flat_map(|w| w.waiters.iter().chain(w.lacks.keys())).copied().collect();
        let ranks: Vec<u32> = all.into_iter().collect();
        let index = |rank: u32| ranks.binary_search(&rank).unwrap_or(0) as u32;
        let mut out = vec![Vec::new(); ranks.len() + waits.len()];
        for (at, wait) in waits.iter().enumerate() {
            let node = ranks.len() + at;
            out[node] = wait.lacks.keys().map(|r| index(*r)).collect();
            if wait.lacks.is_empty() {
                continue;
            }
            for rank in wait.waiters.iter().filter(|r| !fixed.contains(r)) {
                out[index(*rank) as usize].push(node as u32);
            }
        }
        let loose = waits.iter().filter(|w| w.loose && w.lacks.is_empty());
        let held = loose.flat_map(|w| w.waiters.iter().copied()).filter(|r| !fixed.contains(r)).collect();
        Self { waits, ranks, held, out }
    }

    /// All ends of chains, in the order of their ranks.
    pub(super) fn ends(&self) -> Vec<EndPoint> {
        let count = self.ranks.len();
        let lacked: BTreeSet<u32> = self.waits.iter().flat_map(|w| w.lacks.keys().copied()).collect();
        let mut ends = Vec::new();
        for part in self.parts() {
            let inside: BTreeSet<u32> = part.iter().copied().collect();
            if part.iter().any(|n| self.out[*n as usize].iter().any(|to| !inside.contains(to))) {
                continue;
            }
            let ranks: Vec<u32> =
                inside.iter().filter(|n| (**n as usize) < count).map(|n| self.ranks[*n as usize]).collect();
            let waits: Vec<usize> =
                inside.iter().filter(|n| **n as usize >= count).map(|n| *n as usize - count).collect();
            match ranks[..] {
                [] => {}
                [rank] if waits.is_empty() => {
                    if lacked.contains(&rank) && !self.held.contains(&rank) {
                        ends.push(EndPoint::Rank(rank));
                    }
                }
                _ => ends.push(EndPoint::Circle(ranks, waits)),
            }
        }
        ends.sort_by_key(|e| match e {
            EndPoint::Rank(r) => *r,
            EndPoint::Circle(ranks, _) => ranks.first().copied().unwrap_or(0),
        });
        ends
    }

    /// Everybody whose chain leads to one of these ranks.
    pub(super) fn behind(&self, culprits: &BTreeSet<u32>) -> BTreeSet<u32> {
        let mut back = vec![Vec::new(); self.out.len()];
        for (from, list) in self.out.iter().enumerate() {
            for to in list {
                back[*to as usize].push(from as u32);
            }
        }
        let mut seen = vec![false; self.out.len()];
        let mut todo: Vec<u32> =
            culprits.iter().filter_map(|r| self.ranks.binary_search(r).ok()).map(|i| i as u32).collect();
        todo.iter().for_each(|n| seen[*n as usize] = true);
        while let Some(node) = todo.pop() {
            for from in &back[node as usize] {
                if !std::mem::replace(&mut seen[*from as usize], true) {
                    todo.push(*from);
                }
            }
        }
        let found = self.ranks.iter().enumerate().filter(|(i, r)| seen[*i] && !culprits.contains(r));
        found.map(|(_, r)| *r).collect()
    }

    /// Strongly connected parts (Tarjan, without recursion).
    fn parts(&self) -> Vec<Vec<u32>> {
        const NEW: u32 = u32::MAX;
        let count = self.out.len();
        let (mut order, mut low) = (vec![NEW; count], vec![0u32; count]);
        let mut on_stack = vec![false; count];
        let (mut stack, mut parts, mut next) = (Vec::new(), Vec::new(), 0u32);
        for root in 0..count {
            if order[root] != NEW {
                continue;
            }
            let mut calls = vec![(root as u32, 0usize)];
            while let Some((node, edge)) = calls.pop() {
                let n = node as usize;
                if edge == 0 {
                    (order[n], low[n], on_stack[n]) = (next, next, true);
                    next += 1;
                    stack.push(node);
                }
                if let Some(to) = self.out[n].get(edge).map(|t| *t as usize) {
                    calls.push((node, edge + 1));
                    if order[to] == NEW {
                        calls.push((to as u32, 0));
                    } else if on_stack[to] {
                        low[n] = low[n].min(order[to]);
                    }
                    continue;
                }
                if let Some((parent, _)) = calls.last() {
                    low[*parent as usize] = low[*parent as usize].min(low[n]);
                }
                if low[n] == order[n] {
                    let from = stack.iter().rposition(|s| *s == node).unwrap_or(0);
                    let part: Vec<u32> = stack.split_off(from);
                    part.iter().for_each(|s| on_stack[*s as usize] = false);
                    parts.push(part);
                }
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{EndPoint, Graph, Place, Wait, Why};

    fn wait(at: i64, waiters: &[u32], lacks: &[u32]) -> Wait {
        Wait {
            place: Place::Collective(0, at),
            waiters: waiters.iter().copied().collect(),
            lacks: lacks.iter().map(|r| (*r, Why::NotEntered)).collect(),
            unseen: BTreeSet::new(),
            loose: false,
            since: 0,
            tie: false,
        }
    }

    #[test]
    fn a_chain_ends_at_who_waits_for_nobody() {
        let waits = [wait(1, &[2, 3], &[0, 1]), wait(2, &[0], &[1])];
        let graph = Graph::new(&waits, &BTreeSet::new());
        assert_eq!(graph.ends(), [EndPoint::Rank(1)]);
        assert_eq!(graph.behind(&BTreeSet::from([1])), BTreeSet::from([0, 2, 3]));
    }

    #[test]
    fn a_circle_is_one_end() {
        let waits = [wait(1, &[0, 2], &[1]), wait(2, &[1], &[0]), wait(3, &[5], &[2])];
        let graph = Graph::new(&waits, &BTreeSet::new());
        assert_eq!(graph.ends(), [EndPoint::Circle(vec![0, 1], vec![0, 1])]);
        let graph = Graph::new(&waits, &BTreeSet::from([1]));
        assert_eq!(graph.ends(), [EndPoint::Rank(1)]);
    }
}
