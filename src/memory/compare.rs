//! Ranks compared: whose account stands out, and who ran out and why.

use super::ProcessAccount;
use super::allocator::{Allocator, Held};
use crate::base::{RankSet, bytes_text};
use std::collections::{BTreeMap, BTreeSet};

/// A difference counts from here on.
const LEAST: u64 = 64 << 20;

/// Who differs, one sentence each.
pub(super) fn differs(processes: &[ProcessAccount], allocators: &[Allocator]) -> Vec<String> {
    let mut out = Vec::new();
    out.extend(holds_more(processes));
    out.extend(communicators(processes));
    out.extend(ran_out(processes, allocators));
    out
}

/// NCCL's share stands out on some ranks.
fn holds_more(processes: &[ProcessAccount]) -> Vec<String> {
    let ranked: Vec<&ProcessAccount> = processes.iter().filter(|p| p.rank.is_some()).collect();
    if ranked.len() < 3 {
        return Vec::new();
    }
    let mut sizes: Vec<u64> = ranked.iter().map(|p| p.gpu).collect();
    sizes.sort_unstable();
    let median = sizes[sizes.len() / 2];
    let more: Vec<&&ProcessAccount> =
        ranked.iter().filter(|p| p.gpu > median + LEAST.max(median / 10)).collect();
    if more.is_empty() || more.len() * 2 > ranked.len() {
        return Vec::new();
    }
    let ranks: RankSet = more.iter().filter_map(|p| p.rank).collect();
    let most = more.iter().map(|p| p.gpu).max().unwrap_or(0);
    // What differs: the item that exceeds its like on a rank in the middle by most.
    let usual = ranked.iter().find(|p| p.gpu == median);
    let what = more.first().zip(usual).and_then(|(p, usual)| {
        let of = |name: &str| usual.items.iter().filter(|i| i.name == name).map(|i| i.gpu).sum::<u64>();
        p.items.iter().max_by_key(|i| i.gpu.saturating_sub(of(&i.name))).map(|i| i.name.clone())
    });
    vec![format!(
        "NCCL holds more on rank(s) {ranks} than on most: up to {} against {}, mostly {}",
        bytes_text(most),
        bytes_text(median),
        what.unwrap_or_default()
    )]
}

fn communicators(processes: &[ProcessAccount]) -> Vec<String> {
    let mut by: BTreeMap<u64, RankSet> = BTreeMap::new();
    for p in processes.iter().filter(|p| p.communicators > 0) {
        if let Some(rank) = p.rank {
            by.entry(p.communicators).or_default().insert(rank);
        }
    }
    if by.len() < 2 || by.len() > 6 {
        return Vec::new();
    }
    let parts: Vec<String> = by.iter().map(|(n, ranks)| format!("{n} on rank(s) {ranks}")).collect();
    vec![format!("ranks have different numbers of communicators: {}", parts.join(", "))]
}

/// Who ran out, of how many, and whether the input shows why it was that rank.
fn ran_out(processes: &[ProcessAccount], allocators: &[Allocator]) -> Vec<String> {
    let ranks: RankSet = allocators.iter().filter_map(|a| a.rank).collect();
    if ranks.is_empty() {
        return Vec::new();
    }
    let known: RankSet = processes.iter().filter_map(|p| p.rank).chain(ranks.iter()).collect();
    let mut out = vec![format!(
        "the framework ran out of GPU memory on rank(s) {ranks}, {} of {} that the input shows",
        ranks.len(),
        known.len()
    )];
    let foreign = allocators.iter().any(|a| !a.holders.is_empty());
    if !foreign && ranks.len() * 2 <= known.len() {
        out.push(format!(
            "no other process is seen on the GPU of rank(s) {ranks}: what differs from the other ranks is its own \
             work (longer sequences, another stage, what rank 0 does for all), which the input does not show"
        ));
    }
    let sizes: BTreeSet<u64> = allocators.iter().filter_map(|a| a.total).collect();
    if sizes.len() > 1 && sizes.iter().next_back() > sizes.iter().next().map(|s| s + (1 << 30)).as_ref() {
        let list: Vec<String> = sizes.iter().map(|s| bytes_text(*s)).collect();
        out.push(format!("GPUs are of different sizes: {}", list.join(", ")));
    }
    out
}

/// GPUs that several processes hold, by a listing.
pub(super) fn shared(held: &[Held]) -> Vec<String> {
    let mut by: BTreeMap<(Option<&str>, u32), Vec<&Held>> = BTreeMap::new();
    for h in held {
        by.entry((h.host.as_deref(), h.device)).or_default().push(h);
    }
    let several = by.into_iter().filter(|(_, list)| list.len() > 1).take(16);
    several
        .map(|((host, device), mut list)| {
            list.sort_by_key(|h| (std::cmp::Reverse(h.bytes), h.pid));
            let place = host.map_or(String::new(), |h| format!(" of {h}"));
            let one = |h: &&Held| {
                let who = h.rank.map_or(String::new(), |r| format!(", rank {r}"));
                format!("{} (process {}{who})", bytes_text(h.bytes), h.pid)
            };
            let names: Vec<String> = list.iter().take(8).map(one).collect();
            format!("{} processes hold memory of GPU {device}{place}: {}", list.len(), names.join(", "))
        })
        .collect()
}
