//! Variables with a wrong value or left over, and the network that they lead to.

use super::Detected;
use crate::job::slot_of;
use crate::knowledge::Kind;
use crate::rules::cond::Context;
use std::collections::BTreeSet;

/// A variable with a value that is not accepted, or with a name that nothing reads.
pub(super) fn env_bad(cx: &Context<'_>) -> Option<Detected> {
    let mut out = Detected::default();
    let mut said = Vec::new();
    for (name, list) in &cx.job.settings {
        let known = cx.knowledge.tables.variables.iter().find(|v| v.name == *name);
        let bad = match known {
            Some(v) if !v.valid.is_empty() => match regex::Regex::new(&v.valid) {
                Ok(re) => list.iter().find(|s| !re.is_match(&s.value)),
                Err(_) => None,
            },
            _ => None,
        };
        if let Some(s) = bad {
            said.push(format!(
                "{name}={} is no value that it accepts ({})",
                s.value,
                known.map_or("", |v| &v.values)
            ));
            out.events.push(s.event);
            out.ranks.extend(&s.rank.into_iter().collect());
        } else if known.is_none()
            && name.starts_with("NCCL_")
            && let Some(near) = nearest(cx, name)
            && let Some(s) = list.first()
        {
            said.push(format!("nothing reads {name}; {near} was probably meant"));
            out.events.push(s.event);
        }
    }
    out.text = said.join("; ");
    (!said.is_empty()).then_some(out)
}

fn nearest(cx: &Context<'_>, name: &str) -> Option<String> {
    let best = cx
        .knowledge
        .tables
        .variables
        .iter()
        .map(|v| (strsim::damerau_levenshtein(&v.name, name), &v.name))
        .min()?;
    (best.0 > 0 && best.0 <= 2 && name.len() > 8).then(|| best.1.clone())
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
