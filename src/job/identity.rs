//! Who is who: speakers of all sources become processes with rank and host.
//! A rank in the line beats one known by the process, that one the launcher's
//! label, that one the file's name; each event says how its rank is known.

use super::names::{Witness, witness};
use super::{Job, Placed, ProcessId, slot_of};
use crate::base::RankSet;
use crate::catalogue::{Catalogue, Event, Said};
use crate::knowledge::Kind;
use crate::text::Who;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// One process, or what can be told apart as one.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// Global rank.
    pub rank: Option<u32>,
    /// How the rank is known.
    pub rank_by: Option<&'static str>,
    /// Ranks by device, where one process drives several.
    pub by_dev: BTreeMap<i32, u32>,
    /// Host.
    pub host: Option<String>,
    /// Process id.
    pub pid: Option<u32>,
    /// Local rank.
    pub local: Option<u32>,
    /// Lines.
    pub lines: u64,
    /// First line with its source.
    pub first: Option<(u32, Said)>,
    /// Last lines with their source, oldest first.
    pub last: Vec<(u32, Said)>,
    /// How it is called when it has no rank.
    pub name: String,
}

/// What is learnt of a speaker before ranks are known.
#[derive(Debug, Clone, Default)]
struct Facts {
    /// (nranks, rank, device) of its communicators.
    comms: Vec<(u32, u32, Option<i32>)>,
    /// Ranks of its own channel lines.
    routes: Vec<u32>,
}

/// Domain, bus and device.
type Pci = (u32, u32, u32);
/// Size of the communicator, and the source and speaker that named a GPU.
type Named = (u32, (u32, u32));

#[derive(Debug, Default)]
struct Learnt {
    world: u32,
    /// Process id → host, device and rank, each host and device once.
    table: FxHashMap<u32, Vec<(String, i32, u32)>>,
    pids: FxHashMap<u32, Option<u32>>,
    locals: FxHashMap<u32, Option<u32>>,
    hosts_of_ranks: BTreeMap<u32, String>,
    /// PCI address → size of the communicator and who named it.
    buses: FxHashMap<Pci, Vec<Named>>,
    /// Processes by rank and by process id, once they are known.
    by_rank: FxHashMap<u32, ProcessId>,
    by_pid: FxHashMap<u32, ProcessId>,
}

/// Places every event.
pub(super) fn place(catalogue: &Catalogue, job: &mut Job) {
    let mut facts: FxHashMap<(u32, u32), Facts> = FxHashMap::default();
    let mut learnt = Learnt::default();
    for (s, source) in job.sources.iter().enumerate() {
        for event in &source.events {
            learn(catalogue, s as u32, event, &mut facts, &mut learnt);
        }
    }
    let speakers = || job.sources.iter().flat_map(|s| &s.speakers).filter(|s| s.who.local.is_some());
    // A local number is the rank only where all stand on one host.
    let hosts: BTreeSet<&str> = speakers().filter_map(|s| s.who.host.as_deref()).collect();
    let few_locals = speakers().all(|s| s.who.local.is_none_or(|l| l < 16)) && hosts.len() < 2;
    let mut builder =
        Builder { job, learnt, facts, procs: Vec::new(), by_key: FxHashMap::default(), few_locals };
    let map = builder.processes();
    let Builder { mut learnt, mut procs, .. } = builder;
    for p in &mut procs {
        if let (None, Some(rank)) = (&p.host, p.rank) {
            p.host = learnt.hosts_of_ranks.get(&rank).cloned();
        }
    }
    job.world = (learnt.world > 0).then_some(learnt.world);
    job.heard = procs.iter().flat_map(|p| p.rank.into_iter().chain(p.by_dev.values().copied())).collect();
    for (id, p) in procs.iter().enumerate() {
        if let Some(rank) = p.rank {
            learnt.by_rank.entry(rank).or_insert(id as ProcessId);
            if let Some(pid) = p.pid {
                learnt.by_pid.entry(pid).or_insert(id as ProcessId);
            }
        }
    }
    job.processes = procs;
    job.speaker_process = map.iter().filter_map(|(k, v)| v.map(|v| (*k, v))).collect();
    let single = job
        .processes
        .iter()
        .filter_map(|p| p.host.as_deref())
        .collect::<std::collections::BTreeSet<_>>()
        .len()
        <= 1;
    let mut placed = Vec::new();
    for (s, source) in job.sources.iter().enumerate() {
        for (e, event) in source.events.iter().enumerate() {
            let process = map.get(&(s as u32, event.speaker)).copied().flatten();
            let mut p = Placed {
                source: s as u32,
                event: e as u32,
                process,
                rank: None,
                rank_by: None,
                host: None,
                attempt: 0,
            };
            subject(catalogue, job, &learnt, event, single, &mut p);
            placed.push(p);
        }
    }
    for p in &placed {
        let event = &job.sources[p.source as usize].events[p.event as usize];
        let kind = catalogue.messages[usize::from(event.message)].kind;
        if let Some(rank) = p.rank
            && matches!(kind, Kind::Waits | Kind::Fails | Kind::Exception)
        {
            job.heard.insert(rank);
        }
    }
    job.events = placed;
}

fn number(catalogue: &Catalogue, event: &Event, slot: &str) -> Option<u32> {
    slot_of(catalogue, event, slot)?.trim().parse().ok()
}

fn learn(
    catalogue: &Catalogue,
    source: u32,
    event: &Event,
    facts: &mut FxHashMap<(u32, u32), Facts>,
    learnt: &mut Learnt,
) {
    let kind = catalogue.messages[usize::from(event.message)].kind;
    let number = |slot| number(catalogue, event, slot);
    let rank = number("rank");
    match kind {
        Kind::Comm => {
            let (Some(rank), Some(n)) = (rank, number("nranks")) else { return };
            if n > 10_000_000 || rank >= n {
                return;
            }
            learnt.world = learnt.world.max(n);
            let dev = number("dev").and_then(|d| i32::try_from(d).ok());
            facts.entry((source, event.speaker)).or_default().comms.push((n, rank, dev));
            if let Some(bus) = slot_of(catalogue, event, "bus").and_then(pci) {
                learnt.buses.entry(bus).or_default().push((n, (source, event.speaker)));
            }
        }
        Kind::Rank => {
            if let Some(n) = number("nranks").filter(|n| *n < 10_000_000) {
                learnt.world = learnt.world.max(n);
            }
            let Some(rank) = rank else { return };
            let host = slot_of(catalogue, event, "host").map(str::to_string);
            if let (Some(host), Some(pid)) = (&host, number("pid")) {
                let dev = number("dev").and_then(|d| i32::try_from(d).ok()).unwrap_or(-1);
                let of_pid = learnt.table.entry(pid).or_default();
                match of_pid.iter_mut().find(|e| e.0 == *host && e.1 == dev) {
                    Some(entry) => entry.2 = rank,
                    None => of_pid.push((host.clone(), dev, rank)),
                }
                learnt.pids.entry(pid).and_modify(|r| *r = r.filter(|r| *r == rank)).or_insert(Some(rank));
            }
            if let Some(host) = host {
                learnt.hosts_of_ranks.entry(rank).or_insert(host);
            }
        }
        Kind::Ends | Kind::Killed => {
            if let (Some(rank), Some(pid)) = (rank, number("pid")) {
                learnt.pids.entry(pid).and_modify(|r| *r = r.filter(|r| *r == rank)).or_insert(Some(rank));
            }
            if let (Some(rank), Some(local)) = (rank, number("local")) {
                learnt
                    .locals
                    .entry(local)
                    .and_modify(|r| *r = r.filter(|r| *r == rank))
                    .or_insert(Some(rank));
            }
            if let (Some(rank), Some(host)) =
                (rank.or_else(|| number("task")), slot_of(catalogue, event, "host"))
            {
                learnt.hosts_of_ranks.entry(rank).or_insert_with(|| host.to_string());
            }
        }
        Kind::Route => {
            let Some(from) = leading(slot_of(catalogue, event, "from")) else { return };
            let to = leading(slot_of(catalogue, event, "to"));
            let mine = if event.text.contains("[receive]") { to.unwrap_or(from) } else { from };
            facts.entry((source, event.speaker)).or_default().routes.push(mine);
        }
        _ => {}
    }
}

/// `80[0]` → 80.
fn leading(text: Option<&str>) -> Option<u32> {
    let text = text?.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// What makes two speakers one process.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Rank(u32),
    Process(String, u32, Option<String>),
    Label(u32),
    Named(String),
    Source(u32),
}

struct Builder<'j> {
    job: &'j Job,
    learnt: Learnt,
    facts: FxHashMap<(u32, u32), Facts>,
    procs: Vec<Process>,
    by_key: FxHashMap<Key, ProcessId>,
    /// Whether all local ranks are small enough to be ranks of one node.
    few_locals: bool,
}

impl Builder<'_> {
    /// (source, speaker) → process.
    fn processes(&mut self) -> FxHashMap<(u32, u32), Option<ProcessId>> {
        let job = self.job;
        let labels = self.label_is_rank();
        let mut keys = Vec::new();
        for (s, source) in job.sources.iter().enumerate() {
            let w = witness(&source.name);
            let mut own = Vec::new();
            for (i, speaker) in source.speakers.iter().enumerate() {
                own.push(self.key(s as u32, i as u32, &speaker.who, &w, labels));
            }
            // A source in which only one rank speaks is that rank's, its unmarked lines too.
            let mut ranks: Vec<u32> = own
                .iter()
                .filter_map(|k| match k {
                    (Key::Rank(r), _) => Some(*r),
                    _ => None,
                })
                .collect();
            ranks.sort_unstable();
            ranks.dedup();
            if let [rank] = ranks[..] {
                let marked: u64 = source
                    .speakers
                    .iter()
                    .zip(&own)
                    .filter(|(_, k)| matches!(k.0, Key::Rank(_)))
                    .map(|(s, _)| s.count)
                    .sum();
                if marked * 3 >= source.lines {
                    for (k, speaker) in own.iter_mut().zip(&source.speakers) {
                        if matches!(k.0, Key::Source(_)) && speaker.who == Who::default() {
                            *k = (Key::Rank(rank), "by the other lines of its source");
                        }
                    }
                }
            }
            keys.push((w, own));
        }
        let mut map = FxHashMap::default();
        for (s, (w, own)) in keys.into_iter().enumerate() {
            for (i, (key, by)) in own.into_iter().enumerate() {
                let id = self.join(s as u32, i as u32, key, by, &w);
                map.insert((s as u32, i as u32), id);
            }
        }
        map
    }

    /// Whether a launcher's bare number is the rank (one task a GPU) or the node.
    fn label_is_rank(&self) -> bool {
        let mut by_label: BTreeMap<u32, RankSet> = BTreeMap::new();
        for (s, source) in self.job.sources.iter().enumerate() {
            for (i, speaker) in source.speakers.iter().enumerate() {
                let Some(label) = speaker.who.label else { continue };
                let ranks = by_label.entry(label).or_default();
                if let Some(rank) = speaker.who.rank {
                    ranks.insert(rank);
                }
                if let Some(local) = speaker.who.local {
                    ranks.insert(1_000_000 + local);
                }
                for c in self.facts.get(&(s as u32, i as u32)).into_iter().flat_map(|f| &f.comms) {
                    if c.0 == self.learnt.world {
                        ranks.insert(c.1);
                    }
                }
            }
        }
        by_label.values().all(|r| r.len() <= 1)
            && by_label.iter().all(|(label, r)| r.first().is_none_or(|r| r == *label || r >= 1_000_000))
    }

    fn key(&self, source: u32, speaker: u32, who: &Who, w: &Witness, labels: bool) -> (Key, &'static str) {
        if let Some(rank) = who.rank {
            return (Key::Rank(rank), "in the line");
        }
        if let Some(process) = &who.process {
            let (host, pid) = process.rsplit_once(':').unwrap_or((process, ""));
            let pid = pid.parse().unwrap_or(0);
            if let Some(rank) = self.rank_of_process(source, speaker, host, pid) {
                return (Key::Rank(rank), "by its process");
            }
            if let (Some(label), true) = (who.label, labels) {
                return (Key::Rank(label), "by its label");
            }
            if let Some(rank) = w.rank {
                return (Key::Rank(rank), "by the file's name");
            }
            if let Some(rank) = self.rank_by_route(source, speaker) {
                return (Key::Rank(rank), "by a channel line");
            }
            // A small pid inside a container is one of many: keep sources apart.
            let scope =
                (host.is_empty() || pid < 300).then(|| self.job.sources[source as usize].name.clone());
            return (Key::Process(host.to_string(), pid, scope), "");
        }
        if let Some(label) = who.label {
            return if labels { (Key::Rank(label), "by its label") } else { (Key::Label(label), "") };
        }
        if let Some(Some(rank)) = who.pid.and_then(|p| self.learnt.pids.get(&p)) {
            return (Key::Rank(*rank), "by its process");
        }
        if let Some(rank) = w.rank {
            return (Key::Rank(rank), "by the file's name");
        }
        if let Some(local) = who.local.or(w.local) {
            if let Some(Some(rank)) = self.learnt.locals.get(&local) {
                return (Key::Rank(*rank), "by its local rank");
            }
            return if self.few_locals {
                (Key::Rank(local), "by its local rank")
            } else {
                let host = who.host.as_deref().map_or_else(String::new, |h| format!("{h} "));
                (Key::Named(format!("{host}local rank {local}")), "")
            };
        }
        if who.pid.is_some() || who.name.is_some() || who.host.is_some() {
            let name = [who.host.clone(), who.name.clone(), who.pid.map(|p| format!("pid {p}"))];
            return (Key::Named(name.into_iter().flatten().collect::<Vec<_>>().join(" ")), "");
        }
        (Key::Source(source), "")
    }

    fn rank_of_process(&self, source: u32, speaker: u32, host: &str, pid: u32) -> Option<u32> {
        if let Some(facts) = self.facts.get(&(source, speaker)) {
            let world: Vec<_> = facts.comms.iter().filter(|c| c.0 == self.learnt.world).collect();
            let first = world.first()?;
            if world.iter().all(|c| c.1 == first.1) {
                return Some(first.1);
            }
            return None; // several ranks in one process: told by device
        }
        let mut of_pid = self.learnt.table.get(&pid).into_iter().flatten().filter(|e| same_host(&e.0, host));
        match (of_pid.next(), of_pid.next()) {
            (Some(entry), None) => Some(entry.2),
            _ => None,
        }
    }

    fn rank_by_route(&self, source: u32, speaker: u32) -> Option<u32> {
        let facts = self.facts.get(&(source, speaker))?;
        let first = *facts.routes.first()?;
        (facts.comms.is_empty() && facts.routes.iter().all(|r| *r == first)).then_some(first)
    }

    fn join(
        &mut self,
        source: u32,
        speaker: u32,
        key: Key,
        by: &'static str,
        w: &Witness,
    ) -> Option<ProcessId> {
        let spoke = &self.job.sources[source as usize].speakers[speaker as usize];
        let id = match self.by_key.get(&key) {
            Some(&id) => id,
            None => {
                let id = self.procs.len() as ProcessId;
                self.procs.push(Process { name: name(&key, self.job), ..Process::default() });
                self.by_key.insert(key.clone(), id);
                id
            }
        };
        let by_dev = self.devices(source, speaker);
        let p = &mut self.procs[id as usize];
        if let Key::Rank(rank) = key {
            p.rank = Some(rank);
            p.rank_by = Some(match p.rank_by {
                Some(old) if strength(old) >= strength(by) => old,
                _ => by,
            });
        }
        p.by_dev.extend(by_dev);
        let process = spoke.who.process.as_deref().and_then(|p| p.rsplit_once(':'));
        if let Some((host, pid)) = process {
            if !host.is_empty() {
                p.host = Some(host.to_string());
            }
            p.pid = pid.parse().ok().or(p.pid);
        }
        p.host = p.host.take().or_else(|| spoke.who.host.clone()).or_else(|| w.host.clone());
        p.pid = p.pid.or(spoke.who.pid);
        p.local = p.local.or(spoke.who.local).or(w.local);
        p.lines += spoke.count;
        if let Some(first) = &spoke.first
            && p.first.is_none()
        {
            p.first = Some((source, first.clone()));
        }
        p.last.extend(spoke.last.iter().map(|s| (source, s.clone())));
        p.last.sort_by_key(|(s, said)| (*s, said.line));
        let n = p.last.len();
        p.last.drain(..n.saturating_sub(4));
        Some(id)
    }

    fn devices(&self, source: u32, speaker: u32) -> BTreeMap<i32, u32> {
        let spoke = &self.job.sources[source as usize].speakers[speaker as usize];
        let mut out = BTreeMap::new();
        if let Some(facts) = self.facts.get(&(source, speaker)) {
            for (n, rank, dev) in &facts.comms {
                if let (Some(dev), true) = (dev, *n == self.learnt.world) {
                    out.insert(*dev, *rank);
                }
            }
        }
        if let Some((host, pid)) = spoke.who.process.as_deref().and_then(|p| p.rsplit_once(':')) {
            let pid: u32 = pid.parse().unwrap_or(0);
            for (h, dev, rank) in self.learnt.table.get(&pid).into_iter().flatten() {
                if same_host(h, host) {
                    out.insert(*dev, *rank);
                }
            }
        }
        out
    }
}

fn strength(by: &str) -> u8 {
    match by {
        "in the line" => 5,
        "by its process" => 4,
        "by its label" => 3,
        "by its local rank" => 2,
        _ => 1,
    }
}

fn name(key: &Key, job: &Job) -> String {
    match key {
        Key::Rank(r) => format!("rank {r}"),
        Key::Process(host, pid, _) if host.is_empty() => format!("process {pid}"),
        Key::Process(host, pid, _) => format!("{host}:{pid}"),
        Key::Label(l) => format!("task {l}"),
        Key::Named(n) => n.clone(),
        Key::Source(s) => job.sources[*s as usize].name.clone(),
    }
}

/// Whether two names are the same host: the first label counts.
pub(crate) fn same_host(a: &str, b: &str) -> bool {
    let short = |h: &str| -> String {
        if h.parse::<std::net::IpAddr>().is_ok() {
            h.into()
        } else {
            h.split('.').next().unwrap_or(h).to_ascii_lowercase()
        }
    };
    !a.is_empty() && short(a) == short(b)
}

/// Whom an event is about.
fn subject(catalogue: &Catalogue, job: &Job, learnt: &Learnt, event: &Event, single: bool, p: &mut Placed) {
    let kind = catalogue.messages[usize::from(event.message)].kind;
    let process = p.process.map(|id| &job.processes[id as usize]);
    let about_other = matches!(kind, Kind::Ends | Kind::Killed | Kind::Device | Kind::Cancelled);
    if let Some(host) = slot_of(catalogue, event, "host").filter(|h| !h.is_empty())
        && (about_other || kind == Kind::Rank)
    {
        p.host = Some(host.to_string());
    }
    let slot_rank = number(catalogue, event, "rank");
    let told = p.host.clone().or_else(|| process.and_then(|q| q.host.clone()));
    let speaker_rank = process.and_then(|q| match event.dev.and_then(|d| q.by_dev.get(&d)) {
        Some(rank) => Some((*rank, "by its process")),
        None => q.rank.map(|r| (r, q.rank_by.unwrap_or("by its process"))),
    });
    let from_slots = || {
        if let Some(rank) = slot_rank.filter(|_| kind != Kind::Comm) {
            return Some((rank, "in the line"));
        }
        if !about_other {
            return None;
        }
        if let Some(Some(rank)) =
            number(catalogue, event, "pid").and_then(|pid| learnt.pids.get(&pid).copied())
        {
            return Some((rank, "by its process"));
        }
        if let Some(pid) = number(catalogue, event, "pid")
            && let Some(&id) = learnt.by_pid.get(&pid)
            // The kernel counts processes of the host, a container its own: only the same host will do.
            && (kind != Kind::Device
                || told.as_deref().zip(job.processes[id as usize].host.as_deref()).is_some_and(|(a, b)| same_host(a, b)))
        {
            return job.processes[id as usize].rank.map(|r| (r, "by its process"));
        }
        if let Some(local) = number(catalogue, event, "local") {
            if let Some(Some(rank)) = learnt.locals.get(&local) {
                return Some((*rank, "by its local rank"));
            }
            if single {
                return Some((local, "by its local rank"));
            }
        }
        if kind == Kind::Device
            && let Some(bus) = slot_of(catalogue, event, "bus").and_then(pci)
            && let Some(rank) = rank_of_bus(job, learnt, bus, told.as_deref())
        {
            return Some((rank, "by its GPU's address"));
        }
        let task = slot_of(catalogue, event, "task")?;
        task.trim().parse().ok().map(|t| (t, "by its task"))
    };
    // A process that tells of its own crash names nobody: then it is the speaker's.
    let of_itself = kind == Kind::Ends
        && !["rank", "task", "local", "host"].iter().any(|s| slot_of(catalogue, event, s).is_some());
    let found = match about_other {
        true => from_slots().or(speaker_rank.filter(|_| of_itself)),
        false => speaker_rank.or_else(from_slots),
    };
    if let Some((rank, by)) = found {
        p.rank = Some(rank);
        p.rank_by = Some(by);
    }
    if p.host.is_none() {
        let of_rank = p.rank.and_then(|r| {
            let q = &job.processes[*learnt.by_rank.get(&r)? as usize];
            q.host.clone().or_else(|| learnt.hosts_of_ranks.get(&r).cloned())
        });
        p.host = match process {
            Some(q) if !about_other && q.host.is_some() => q.host.clone(),
            _ => of_rank.or_else(|| process.and_then(|q| q.host.clone())),
        };
    }
}

/// Domain, bus and device of a PCI address: NCCL's hexadecimal `1a000`, or `PCI:0000:1a:00`, `0000:1a:00.0`.
fn pci(text: &str) -> Option<Pci> {
    let text = text.trim().trim_start_matches("PCI:").trim_start_matches("0x");
    if let Some((domain, rest)) = text.split_once(':') {
        let hex = |t: &str| u32::from_str_radix(t, 16).ok();
        let (bus, dev) = rest.split_once(':')?;
        return Some((hex(domain)?, hex(bus)?, hex(dev.split('.').next()?)?));
    }
    let n = u64::from_str_radix(text, 16).ok().filter(|_| text.len() >= 4)?;
    Some(((n >> 20) as u32, ((n >> 12) & 0xff) as u32, ((n >> 4) & 0xff) as u32))
}

/// The rank that uses a GPU, where exactly one does on that host.
fn rank_of_bus(job: &Job, learnt: &Learnt, bus: Pci, host: Option<&str>) -> Option<u32> {
    let mut found = RankSet::new();
    for (nranks, speaker) in learnt.buses.get(&bus)? {
        let who = &job.sources[speaker.0 as usize].speakers[speaker.1 as usize].who;
        let theirs = who.process.as_deref().and_then(|p| p.rsplit_once(':')).map(|p| p.0);
        let there = host.is_none_or(|x| theirs.is_none_or(|h| same_host(x, h)));
        if *nranks == learnt.world
            && there
            && let Some(id) = job.speaker_process.get(speaker)
            && let Some(rank) = job.processes[*id as usize].rank
        {
            found.insert(rank);
        }
    }
    found.first().filter(|_| found.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::pci;

    #[test]
    fn addresses_of_gpus() {
        assert_eq!(pci("52000"), Some((0, 0x52, 0)));
        assert_eq!(pci("PCI:0000:52:00"), Some((0, 0x52, 0)));
        assert_eq!(pci("0000:52:00.0"), Some((0, 0x52, 0)));
        assert_eq!(pci("x"), None);
    }
}
