//! What NCCL's RAS answered, as events: how far the ranks of each communicator
//! have come, and of whom nothing is heard. Its ranks are those of the
//! communicator; only in the largest one they are taken for the job's own.

use super::source::SourceRead;
use crate::base::RankSet;
use crate::catalogue::{Catalogue, Event, FieldId, MessageId, built_in};
use crate::dump::{Ras, RasComm};
use std::collections::BTreeMap;

/// Adds the events of one answer.
pub(super) fn add(catalogue: &Catalogue, source: &mut SourceRead, ras: &Ras) {
    let (Some(counts), Some(absent)) =
        (catalogue.message(built_in::RAS), catalogue.message(built_in::RAS_ABSENT))
    else {
        return;
    };
    let largest = ras.comms.iter().filter_map(size).max();
    for comm in &ras.comms {
        let Some(size) = size(comm) else { continue };
        let name = if comm.hash.is_empty() {
            "a communicator".into()
        } else {
            format!("communicator {}", comm.hash)
        };
        for (count, ranks) in places(comm, size) {
            let text = format!("{name} of {size}: rank {ranks} has launched up to operation {count}");
            let values = [
                ("ranks", ranks.to_string()),
                ("group", name.clone()),
                ("size", size.to_string()),
                ("enqueued", count.to_string()),
            ];
            push(catalogue, source, counts, &values, text);
        }
        let gone: RankSet = comm.missing.iter().map(|m| m.rank).collect();
        if !gone.is_empty() && Some(size) == largest {
            let place = |m: &crate::dump::RasMissing| match (m.host.as_str(), m.pid) {
                ("", _) => String::new(),
                (host, Some(pid)) => format!(" (process {pid} on {host})"),
                (host, None) => format!(" (on {host})"),
            };
            let dead = comm.missing.iter().any(|m| m.dead);
            let what = if dead { "is held for dead" } else { "does not answer" };
            let first = comm.missing.first().map_or_else(String::new, place);
            let text = format!("{name} of {size}: rank {gone}{first} {what}");
            push(catalogue, source, absent, &[("ranks", gone.to_string())], text);
        }
    }
}

fn size(comm: &RasComm) -> Option<u32> {
    let named = (comm.ranks.len() + comm.missing.len()) as u32;
    let size = comm.size.or_else(|| comm.common.map(|c| c.0 + comm.ranks.len() as u32)).unwrap_or(named);
    (1..=1 << 20).contains(&size).then_some(size)
}

/// Operations launched, all kinds together, and by whom.
fn places(comm: &RasComm, size: u32) -> BTreeMap<i64, RankSet> {
    let mut by: BTreeMap<i64, RankSet> = BTreeMap::new();
    for rank in comm.ranks.iter().filter(|r| !r.counts.is_empty() && !r.starting) {
        by.entry(rank.counts.iter().map(|c| c.1).sum()).or_default().insert(rank.rank);
    }
    if let Some((_, count)) = comm.common {
        let named: RankSet =
            comm.ranks.iter().map(|r| r.rank).chain(comm.missing.iter().map(|m| m.rank)).collect();
        let rest: RankSet = (0..size).filter(|r| !named.contains(*r)).collect();
        by.entry(count).or_default().extend(&rest);
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
    let fields = values.iter().filter_map(field).collect();
    source.events.push(Event::of_document(message, source.events.len(), fields, text));
}
