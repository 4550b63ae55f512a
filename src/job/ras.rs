//! What NCCL's RAS answered, as events: how far the ranks of each communicator
//! have come, and of whom nothing is heard. Its ranks are those of the
//! communicator; only in the largest one they are taken for the job's own.

use super::source::SourceRead;
use crate::base::RankSet;
use crate::catalogue::{Catalogue, Event, FieldId, MessageId, built_in};
use crate::dump::{Ras, RasComm, RasMissing, RasRank};
use std::collections::{BTreeMap, BTreeSet};

/// Most nodes that are named each by itself.
const NODES: usize = 64;

/// Adds the events of one answer.
pub(super) fn add(catalogue: &Catalogue, source: &mut SourceRead, ras: &Ras) {
    let (Some(counts), Some(absent)) =
        (catalogue.message(built_in::RAS), catalogue.message(built_in::RAS_ABSENT))
    else {
        return;
    };
    let largest = ras.comms.iter().filter_map(size).max();
    let at = ras.at.clone().unwrap_or_default();
    for comm in &ras.comms {
        let Some(size) = size(comm) else { continue };
        let name = if comm.hash.is_empty() {
            "a communicator".into()
        } else {
            format!("communicator {}", comm.hash)
        };
        for (count, ranks) in places(comm, size) {
            let have = if ranks.len() == 1 { "has" } else { "have" };
            let text = format!("{name} of {size}: {} {have} launched up to operation {count}", words(&ranks));
            let values = [
                ("ranks", ranks.to_string()),
                ("group", name.clone()),
                ("size", size.to_string()),
                ("enqueued", count.to_string()),
                ("at", at.clone()),
            ];
            push(catalogue, source, counts, &values, text);
        }
        if Some(size) == largest {
            gone(catalogue, source, absent, &format!("{name} of {size}: "), &comm.missing);
        }
    }
    gone(catalogue, source, absent, "", &ras.lost);
}

/// Those of whom nothing is heard, node by node.
fn gone(
    catalogue: &Catalogue,
    source: &mut SourceRead,
    message: MessageId,
    of: &str,
    missing: &[RasMissing],
) {
    let mut nodes: BTreeMap<(bool, &str), Vec<&RasMissing>> = BTreeMap::new();
    for one in missing {
        nodes.entry((!one.dead, one.host.as_str())).or_default().push(one);
    }
    for ((alive, host), list) in nodes.into_iter().take(NODES) {
        let ranks: RankSet = list.iter().filter_map(|m| m.rank).collect();
        let pids: Vec<String> = list.iter().filter_map(|m| m.pid).take(4).map(|p| p.to_string()).collect();
        let who = match (ranks.is_empty(), list.len()) {
            (false, _) => words(&ranks),
            (true, 1) => "a process".into(),
            (true, n) => format!("{n} processes"),
        };
        let process = match (&pids[..], list.len()) {
            ([], _) => String::new(),
            ([pid], _) => format!("process {pid} "),
            (pids, n) if pids.len() == n => format!("processes {} ", pids.join(", ")),
            (pids, _) => format!("processes {} and more ", pids.join(", ")),
        };
        let place = match (process.is_empty(), host.is_empty()) {
            (true, true) => String::new(),
            (_, true) => format!(" ({})", process.trim()),
            _ => format!(" ({process}on {host})"),
        };
        let one = ranks.len().max(usize::from(ranks.is_empty())) == 1 && list.len() == 1;
        let what = match (alive, one) {
            (true, true) => "does not answer",
            (true, false) => "do not answer",
            (false, true) => "is held for dead",
            (false, false) => "are held for dead",
        };
        let values = [
            ("ranks", ranks.to_string()),
            ("host", host.to_string()),
            ("dead", if alive { "no" } else { "yes" }.to_string()),
        ];
        push(catalogue, source, message, &values, format!("{of}{who}{place} {what}"));
    }
}

fn words(ranks: &RankSet) -> String {
    format!("rank{} {ranks}", if ranks.len() == 1 { "" } else { "s" })
}

fn size(comm: &RasComm) -> Option<u32> {
    let named = (comm.ranks.len() + comm.missing.len()) as u32;
    let counted = |kind: &str| -> u32 {
        comm.launched.iter().filter(|l| l.kind == kind).fold(0, |n, l| n.saturating_add(l.many))
    };
    let all = comm.launched.first().map(|first| {
        // A rank that states its own count beside the others is not among them.
        let beside = |r: &&RasRank| !comm.launched.iter().any(|l| l.ranks.contains(r.rank));
        let one = |r: &RasRank| r.counts.iter().any(|c| c.0 == first.kind);
        counted(&first.kind)
            .saturating_add(comm.ranks.iter().filter(beside).filter(|r| one(r)).count() as u32)
    });
    let size = comm.size.or(all).unwrap_or(named);
    (1..=1 << 20).contains(&size).then_some(size)
}

/// Operations launched, all kinds together, and by whom; nobody where the kinds do not tell of the same ranks.
fn places(comm: &RasComm, size: u32) -> BTreeMap<i64, RankSet> {
    let mut own: BTreeMap<u32, BTreeMap<&str, i64>> = BTreeMap::new();
    for rank in comm.ranks.iter().filter(|r| !r.counts.is_empty() && !r.starting) {
        let counts = own.entry(rank.rank).or_default();
        counts.extend(rank.counts.iter().map(|(kind, count)| (kind.as_str(), *count)));
    }
    let mut by: BTreeMap<i64, RankSet> = BTreeMap::new();
    if comm.launched.is_empty() {
        for (rank, counts) in own {
            by.entry(counts.values().fold(0, |n, c| i64::saturating_add(n, *c))).or_default().insert(rank);
        }
        return by;
    }
    // Those that are counted and not named are all the others, where their number says so.
    let mut others: BTreeMap<&str, i64> = BTreeMap::new();
    let missing: RankSet = comm.missing.iter().filter_map(|m| m.rank).collect();
    for of in comm.launched.iter().filter(|l| l.ranks.is_empty()) {
        let named = own.values().filter(|c| c.contains_key(of.kind.as_str())).count();
        if named + missing.len() + of.many as usize == size as usize {
            others.insert(&of.kind, of.count);
        }
    }
    let kinds: BTreeSet<&str> = comm.launched.iter().map(|l| l.kind.as_str()).collect();
    let known: BTreeMap<u32, i64> = own
        .iter()
        .filter_map(|(rank, counts)| {
            let of = |kind: &&str| counts.get(*kind).or_else(|| others.get(*kind)).copied();
            Some((*rank, kinds.iter().map(of).sum::<Option<i64>>()?))
        })
        .collect();
    for (rank, count) in known {
        by.entry(count).or_default().insert(rank);
    }
    if let Some(count) = kinds.iter().map(|k| others.get(k).copied()).sum::<Option<i64>>() {
        let named: RankSet = own.keys().copied().collect();
        let mut all = RankSet::new();
        all.insert_range(0, size - 1);
        by.entry(count).or_default().extend(&all.minus(&named).minus(&missing));
    }
    by
}

fn push(
    catalogue: &Catalogue,
    source: &mut SourceRead,
    message: MessageId,
    values: &[(&str, String)],
    text: String,
) {
    let field = |(name, value): &(&str, String)| -> Option<(FieldId, Box<str>)> {
        Some((catalogue.field_id(name)?, value.as_str().into()))
    };
    if source.speakers.is_empty() {
        source.speakers.push(super::documents::speaker(None));
    }
    let fields = values.iter().filter(|v| !v.1.is_empty()).filter_map(field).collect();
    source.events.push(Event::of_document(message, source.events.len(), fields, text));
}
