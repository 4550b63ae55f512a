//! Variables with a wrong value or left over, and the network that they lead to.

use super::Detected;
use crate::job::{EventId, slot_of};
use crate::knowledge::Kind;
use crate::rules::cond::Context;
use crate::settings::{self, Level};
use std::collections::{BTreeMap, BTreeSet};

/// A variable with a value that is not accepted, or with a name that nothing reads.
pub(super) fn env_bad(cx: &Context<'_>) -> Option<Detected> {
    let mut out = Detected::default();
    let mut said = Vec::new();
    for (name, list) in &cx.job.settings {
        let known = cx.knowledge.tables.variables.iter().find(|v| v.name == *name);
        // What a script leaves to the shell is no value.
        let values = || list.iter().filter(|s| !s.value.contains('$'));
        let fault = known.and_then(|v| {
            values().find_map(|s| {
                let (level, _, say, _) = settings::value_fault(v, &s.value)?;
                (level != Level::Note).then_some((s, say))
            })
        });
        if let Some((s, say)) = fault {
            said.push(say.trim_end_matches('.').to_string());
            out.events.push(s.event);
            out.ranks.extend(&s.rank.into_iter().collect());
        } else if known.is_none()
            && name.starts_with("NCCL_")
            && !settings::is_foreign(cx.knowledge, name)
            && let Some(near) = settings::nearest(cx.knowledge, name).filter(|n| n.sure)
            && let Some(s) = list.first()
        {
            said.push(format!("nothing reads {name}; {} was probably meant", near.name));
            out.events.push(s.event);
        }
    }
    out.text = said.join("; ");
    (!said.is_empty()).then_some(out)
}

/// A setting that is often left over from an earlier test or another machine.
pub(super) fn env_leftover(cx: &Context<'_>, what: &str) -> Option<Detected> {
    let names: Vec<&str> = if what.is_empty() {
        vec!["NCCL_TOPO_FILE", "NCCL_GRAPH_FILE"]
    } else {
        what.split(',').map(str::trim).collect()
    };
    let mut out = Detected::default();
    for name in names {
        for s in cx.job.settings.get(name).into_iter().flatten() {
            out.events.push(s.event);
            out.ranks.extend(&s.rank.into_iter().collect());
            out.text = format!("{name} is set to {}", s.value);
        }
    }
    (!out.events.is_empty()).then_some(out)
}

/// Sockets carry the traffic between hosts although RDMA devices were seen or their library could not be opened.
pub(super) fn network_socket(cx: &Context<'_>) -> Option<Detected> {
    let mut socket = Vec::new();
    let mut rdma = Vec::new();
    let mut used = false;
    for (message, list) in cx.messages() {
        let entry = &cx.catalogue.messages[usize::from(message)];
        for &e in list {
            let text = &cx.job.event(e).text;
            if entry.kind == Kind::Net && slot_of(cx.catalogue, cx.job.event(e), "network") == Some("Socket")
            {
                socket.push(e);
            } else if text.contains("libibverbs") || (text.contains("NET/IB") && text.contains("mlx5_")) {
                rdma.push(e);
            } else if entry.kind == Kind::Route && text.contains("via NET/Socket") {
                used = true;
            }
        }
    }
    let hosts: BTreeSet<&str> =
        cx.job.processes.iter().filter_map(|p| p.host.as_deref()).filter(|h| !h.is_empty()).collect();
    let (s, r) = (*socket.first()?, *rdma.first()?);
    (used || hosts.len() > 1).then(|| Detected { events: vec![s, r], ..Detected::default() })
}

/// A host lists fewer numbered entries (`[0]mlx5_0 [1]mlx5_1`) in a field than most others do; `what` is
/// `message:field`. A host's count is the largest of its processes, since each may be given a part.
pub(super) fn fewer_devices(cx: &Context<'_>, what: &str) -> Option<Detected> {
    let (message, field) = what.split_once(':')?;
    let mut by_host: BTreeMap<&str, (usize, EventId)> = BTreeMap::new();
    for &e in cx.of(cx.catalogue.message(message)?) {
        let list = slot_of(cx.catalogue, cx.job.event(e), field).unwrap_or("");
        let numbered =
            list.split('[').skip(1).filter(|t| t.starts_with(|c: char| c.is_ascii_digit())).count();
        let Some(host) = cx.job.events[e as usize].host.as_deref().filter(|h| !h.is_empty()) else {
            continue;
        };
        let slot = by_host.entry(host).or_insert((numbered, e));
        if numbered > slot.0 {
            *slot = (numbered, e);
        }
    }
    let most = by_host.values().map(|v| v.0).max()?;
    let (full, fewer): (Vec<_>, Vec<_>) = by_host.iter().partition(|(_, v)| v.0 == most);
    if fewer.is_empty() || full.len() < fewer.len() {
        return None;
    }
    let mut out =
        Detected { hosts: fewer.iter().map(|(h, _)| (**h).to_string()).collect(), ..Detected::default() };
    out.events = fewer.iter().take(3).chain(full.iter().take(1)).map(|(_, v)| v.1).collect();
    let names: Vec<String> = fewer.iter().take(4).map(|(h, v)| format!("{h} has {}", v.0)).collect();
    out.text = format!(
        "{} where {} have {most}",
        names.join(", "),
        if full.len() == 1 { "the other host".into() } else { format!("{} other hosts", full.len()) }
    );
    out.text = out.text.replace("the other host have", "the other host has");
    Some(out)
}
