//! Variables, releases and addresses, each with who said so.

use super::{EventId, Job, ProcessId, slot_of};
use crate::catalogue::Catalogue;
use crate::knowledge::{Kind, Knowledge};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A variable that somebody has set.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Value.
    pub value: String,
    /// Who has it.
    pub process: Option<ProcessId>,
    /// Rank, where known.
    pub rank: Option<u32>,
    /// Host, where known.
    pub host: Option<String>,
    /// Event that says so.
    pub event: EventId,
}

/// A release that somebody runs.
#[derive(Debug, Clone)]
pub struct Release {
    /// As printed.
    pub text: String,
    /// Parsed.
    pub release: crate::base::Release,
    /// Who runs it.
    pub process: Option<ProcessId>,
    /// Rank, where known.
    pub rank: Option<u32>,
    /// Host, where known.
    pub host: Option<String>,
    /// Event that says so.
    pub event: EventId,
}

/// How many processes with one value of a variable, or one release, are kept.
const OF_ONE_VALUE: usize = 4096;
/// How many of one name are kept in all.
const OF_ONE_NAME: usize = 1 << 16;

/// Collects them.
pub(super) fn collect(catalogue: &Catalogue, _knowledge: &Knowledge, job: &mut Job) {
    // Of each value as many as anybody would look at; another value is always kept, whoever is the one that has it.
    let mut alike: FxHashMap<(String, String), usize> = FxHashMap::default();
    let mut enough = |name: &str, value: &str| {
        let n = alike.entry((name.to_string(), value.to_string())).or_default();
        *n += 1;
        *n > OF_ONE_VALUE
    };
    for id in 0..job.events.len() as EventId {
        let entry = job.entry(catalogue, id);
        let placed = job.events[id as usize].clone();
        match entry.kind {
            Kind::Setting => {
                let event = job.event(id);
                let (Some(name), Some(value)) =
                    (slot_of(catalogue, event, "name"), slot_of(catalogue, event, "value"))
                else {
                    continue;
                };
                let (name, value) = (
                    name.to_string(),
                    value.trim().trim_matches(['"', '\'']).trim_end_matches('.').to_string(),
                );
                if placed.attempt != job.current {
                    continue;
                }
                let kept = !enough(&name, &value);
                let list = job.settings.entry(name).or_default();
                if kept && list.len() < OF_ONE_NAME {
                    list.push(Setting {
                        value,
                        process: placed.process,
                        rank: placed.rank,
                        host: placed.host,
                        event: id,
                    });
                }
            }
            Kind::Version => {
                let event = job.event(id);
                let (Some(what), Some(text)) =
                    (slot_of(catalogue, event, "what"), slot_of(catalogue, event, "release"))
                else {
                    continue;
                };
                let Some(release) = crate::base::Release::parse(text) else { continue };
                let (what, text) = (what.to_string(), text.to_string());
                let kept = !enough(&what, &text);
                let list = job.releases.entry(what).or_default();
                if kept && list.len() < OF_ONE_NAME {
                    list.push(Release {
                        text,
                        release,
                        process: placed.process,
                        rank: placed.rank,
                        host: placed.host,
                        event: id,
                    });
                }
            }
            Kind::Net => {
                let event = job.event(id);
                let (Some(address), Some(host)) = (slot_of(catalogue, event, "address"), placed.host) else {
                    continue;
                };
                if let Some(ip) = ip_of(address) {
                    job.addresses.entry(ip).or_insert(host);
                }
            }
            _ => {}
        }
    }
    // An earlier run may have had another release; what this run does not say again is taken from there.
    let (events, current) = (&job.events, job.current);
    let now = |r: &Release| events[r.event as usize].attempt == current;
    for list in job.releases.values_mut().filter(|list| list.iter().any(now)) {
        list.retain(now);
    }
}

/// The address alone: `10.0.0.1<4711>` and `[::ffff:10.0.0.1]:29500` are `10.0.0.1`.
pub(crate) fn ip_of(text: &str) -> Option<String> {
    let text = text.trim();
    let text = text.split('<').next().unwrap_or(text);
    let text = text.strip_prefix('[').and_then(|t| t.split(']').next()).unwrap_or(text);
    let text = text.strip_prefix("::ffff:").unwrap_or(text);
    let text = text.split('%').next().unwrap_or(text);
    if text.parse::<std::net::IpAddr>().is_ok() {
        return Some(text.to_string());
    }
    let (ip, port) = text.rsplit_once(':')?;
    (port.parse::<u16>().is_ok() && ip.parse::<std::net::Ipv4Addr>().is_ok()).then(|| ip.to_string())
}

impl Job {
    /// Host of an address or of a name with a port, where the job shows whose it is.
    #[must_use]
    pub fn host_of_address(&self, text: &str) -> Option<String> {
        if let Some(ip) = ip_of(text) {
            return self.addresses.get(&ip).cloned();
        }
        let name = text.split('<').next().unwrap_or(text).split(':').next().unwrap_or(text);
        let known = self
            .processes
            .iter()
            .filter_map(|p| p.host.as_deref())
            .find(|h| super::identity::same_host(h, name));
        known.map(str::to_string)
    }

    /// The variables of a prefix as a process has them: its own, else those on which all agree.
    #[must_use]
    pub fn env_of(&self, process: Option<ProcessId>, prefix: &str) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        for (name, list) in self.settings.iter().filter(|(name, _)| name.starts_with(prefix)) {
            let own = list.iter().find(|s| s.process.is_some() && s.process == process);
            let shared = list.first().filter(|f| list.iter().all(|s| s.value == f.value));
            if let Some(setting) = own.or(shared) {
                env.insert(name.clone(), setting.value.clone());
            }
        }
        env
    }

    /// The NCCL release of a process, else the only one of the job.
    #[must_use]
    pub fn release(&self, what: &str, process: Option<ProcessId>) -> Option<crate::base::Release> {
        let list = self.releases.get(what)?;
        if let Some(p) = process
            && let Some(r) = list.iter().find(|r| r.process == Some(p))
        {
            return Some(r.release);
        }
        let first = list.first()?.release;
        list.iter().all(|r| r.release == first).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::ip_of;

    #[test]
    fn addresses_of_all_forms() {
        assert_eq!(ip_of("10.0.0.1<4711>").as_deref(), Some("10.0.0.1"));
        assert_eq!(ip_of("[::ffff:10.0.0.1]:29500").as_deref(), Some("10.0.0.1"));
        assert_eq!(ip_of("fe80::1%ib0<3>").as_deref(), Some("fe80::1"));
        assert_eq!(ip_of("10.0.0.1:80").as_deref(), Some("10.0.0.1"));
        assert_eq!(ip_of("node7<80>"), None);
    }
}
