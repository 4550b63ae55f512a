//! The report value: what was found, in the words and the order in which it
//! is shown. Evidence is chosen by rank and by its place within the rank, not
//! by the order of files, so that a log split by rank gives the same report.

use super::model::Model;
use super::{Ordered, advice, mask, settings, timeline};
use crate::base::RankSet;
use crate::catalogue::{Catalogue, Via, Weight, built_in, last_state};
use crate::job::{EventId, Job, Process, State, slot_of};
use crate::knowledge::{Kind, Knowledge, Place, Role};
use crate::report::{
    Alternative, Attempt, Consequence, Culprits, Diagnosis, End, Evidence, Host, Input, KnownBug, RankState,
    Report, Verdict,
};
use crate::rules::{Finding, Known};
use std::collections::{BTreeMap, BTreeSet};

/// Lines that prove a diagnosis, at most.
const PROOF: usize = 5;

struct Builder<'b> {
    knowledge: &'b Knowledge,
    catalogue: &'b Catalogue,
    job: &'b Job,
    bugs: &'b [Known],
    model: Model<'b>,
}

/// Builds the report.
#[must_use]
pub fn build(
    knowledge: &Knowledge,
    catalogue: &Catalogue,
    job: &Job,
    ordered: &[Ordered],
    bugs: &[Known],
    problems: &[(String, String)],
) -> Report {
    let b = Builder { knowledge, catalogue, job, bugs, model: Model::new(knowledge, job) };
    let mut diagnoses = Vec::new();
    let mut notices = Vec::new();
    for (i, o) in ordered.iter().enumerate() {
        if o.under.is_some() {
            continue;
        }
        let severity =
            if knowledge.rules[o.finding.rule].0.severity == "degraded" { "degraded" } else { "fatal" };
        if o.survived || (severity == "degraded" && o.finding.odds < 1.0) {
            notices.push(b.diagnosis(ordered, i, "notice"));
        } else {
            diagnoses.push(b.diagnosis(ordered, i, severity));
        }
    }
    // A consequence that stands alone below better explained causes is kept as a notice, not as a cause.
    let strong = diagnoses.iter().any(|d| d.severity == "fatal" && d.confidence >= 0.6);
    if strong {
        let (keep, rest): (Vec<_>, Vec<_>) =
            diagnoses.into_iter().partition(|d| d.severity != "fatal" || d.confidence >= 0.3);
        diagnoses = keep;
        notices.extend(rest.into_iter().map(|mut d| {
            d.severity = "notice";
            d
        }));
    }
    promote_degraded(job, ordered, &mut diagnoses, &mut notices);
    add_alternatives(&mut diagnoses);
    let told: Vec<Diagnosis> = diagnoses.iter().chain(&notices).cloned().collect();
    notices.extend(settings::notices(knowledge, job, &told, |e| b.evidence(e)));
    let verdict = b.verdict(&diagnoses);
    let mut report = Report {
        schema: "ncclcheck.report/1",
        verdict,
        summary: String::new(),
        not_seen: b.not_seen(verdict),
        diagnoses,
        job: b.job_info(),
        attempts: b.attempts(),
        notices,
        timeline: b.timeline(),
        inputs: b.inputs(problems),
        folded: b.folded(),
    };
    if let (Some(last), Some(d)) = (report.attempts.last_mut(), report.diagnoses.first()) {
        last.cause = Some(d.cause.clone());
    }
    report.summary = b.summary(&report);
    report
}

/// A line of the input as evidence.
#[must_use]
pub fn evidence_of(catalogue: &Catalogue, job: &Job, id: EventId) -> Evidence {
    let place = &job.events[id as usize];
    let event = job.event(id);
    let source = &job.sources[place.source as usize];
    let bulk = source.bulk.get(&(event.message, event.speaker)).map_or(0, |b| b.count);
    Evidence {
        source: source.name.clone(),
        line: event.line,
        time: event.time.and_then(|t| t.rfc3339()),
        time_text: event.time.map(|t| t.text()),
        rank: place.rank,
        rank_by: place.rank.and(place.rank_by),
        host: place.host.clone(),
        text: mask::mask(&event.text),
        cut: event.cut,
        message: catalogue.messages[usize::from(event.message)].id.clone(),
        count: event.count.max(bulk),
    }
}

/// An excerpt that shows no end: what made it slow, where that is all it shows, leads over "no reason seen".
fn promote_degraded(
    job: &Job,
    ordered: &[Ordered],
    diagnoses: &mut Vec<Diagnosis>,
    notices: &mut Vec<Diagnosis>,
) {
    if job.end.state != State::NotSeen || diagnoses.iter().any(|d| !d.cause.starts_with("unknown/")) {
        return;
    }
    let trouble = !diagnoses.is_empty() || ordered.iter().any(|o| o.finding.place == Place::Victim);
    if let Some(at) = notices
        .iter()
        .position(|d| d.cause.starts_with("perf/") || d.cause.starts_with("net/"))
        .filter(|_| trouble)
    {
        let mut d = notices.remove(at);
        d.severity = "degraded";
        diagnoses.insert(0, d);
    }
}

fn add_alternatives(diagnoses: &mut [Diagnosis]) {
    let others: Vec<Alternative> = diagnoses
        .iter()
        .filter(|d| d.severity == "fatal")
        .map(|d| Alternative { cause: d.cause.clone(), title: d.title.clone(), confidence: d.confidence })
        .collect();
    if let Some(first) = diagnoses.first_mut() {
        first.alternatives = others.into_iter().filter(|a| a.cause != first.cause).take(3).collect();
    }
}

impl Builder<'_> {
    fn evidence(&self, id: EventId) -> Evidence {
        evidence_of(self.catalogue, self.job, id)
    }

    /// As few as prove it: one for each message and, where ranks differ, of up to three ranks.
    fn chosen(&self, f: &Finding) -> Vec<EventId> {
        let mut events = f.events.clone();
        let order: BTreeMap<u16, usize> =
            events.iter().enumerate().rev().map(|(i, &e)| (self.job.event(e).message, i)).collect();
        events.sort_by_key(|&e| {
            let p = &self.job.events[e as usize];
            let event = self.job.event(e);
            let outer = slot_of(self.catalogue, event, "handled").is_some();
            // Of documents, those of whom it blames.
            let other = event.via == Via::Document && !p.rank.is_some_and(|r| f.blamed.ranks.contains(r));
            (order[&event.message], outer, other, p.rank.unwrap_or(u32::MAX), event.line, e)
        });
        let mut per: BTreeMap<u16, usize> = BTreeMap::new();
        let kinds = order.len();
        let each = if kinds == 1 { 3 } else { 2 };
        let mut out: Vec<EventId> = Vec::new();
        for e in events {
            let n = per.entry(self.job.event(e).message).or_default();
            let same_text = out.iter().any(|&o| {
                self.job.event(o).text == self.job.event(e).text
                    && self.job.events[o as usize].rank == self.job.events[e as usize].rank
            });
            if *n < each && !same_text && out.len() < PROOF {
                *n += 1;
                out.push(e);
            }
        }
        out
    }

    fn diagnosis(&self, all: &[Ordered], index: usize, severity: &'static str) -> Diagnosis {
        let o = &all[index];
        let rule = &self.knowledge.rules[o.finding.rule].0;
        let events = self.chosen(&o.finding);
        let culprits = self.culprits(&o.finding);
        let culprits_for_text = culprits.clone();
        let title = self.fill(&rule.title, &o.finding, &culprits, events.first().copied());
        let mut why = self.fill(
            &rule.explain.trim().replace('\n', " "),
            &o.finding,
            &culprits,
            events.first().copied(),
        );
        for said in o.finding.said.iter().take(2) {
            let said = self.fill(said, &o.finding, &culprits, events.first().copied());
            why = format!("{}. {why}", said.trim_end_matches('.'));
        }
        Diagnosis {
            cause: rule.id.clone(),
            title,
            why: capital(&why),
            confidence: o.confidence,
            severity,
            culprits,
            evidence: events.iter().map(|&e| self.evidence(e)).collect(),
            explains: self.consequences(all, index),
            fixes: advice::fixes(self.knowledge, self.job, &self.model, o.finding.rule)
                .into_iter()
                .map(|mut f| {
                    f.text = self.fill(&f.text, &o.finding, &culprits_for_text, events.first().copied());
                    f
                })
                .collect(),
            mistaken_for: rule.mistaken.trim().replace('\n', " "),
            alternatives: Vec::new(),
            references: rule.references.clone(),
            known_bugs: self.bugs_of(&rule.id),
        }
    }

    /// Known faults of the release that the job shows and that belong to a cause.
    fn bugs_of(&self, cause: &str) -> Vec<KnownBug> {
        let table = &self.knowledge.tables.bugs;
        let of_it = self.bugs.iter().map(|k| &table[k.bug]);
        of_it
            .filter(|b| self.knowledge.covers(&b.told_with(), cause))
            .map(|b| KnownBug {
                of: b.of.clone(),
                releases: b.releases.clone(),
                fault: b.fault.clone(),
                shows: b.shows.clone(),
                fixed: b.fixed.clone(),
                workaround: b.workaround.clone(),
                source: b.source.clone(),
            })
            .collect()
    }

    fn culprits(&self, f: &Finding) -> Culprits {
        Culprits {
            ranks: f.blamed.ranks.iter().take(65_536).collect(),
            hosts: f.blamed.hosts.iter().filter(|h| !h.is_empty()).take(1024).cloned().collect(),
            devices: f.blamed.devices.iter().take(256).cloned().collect(),
        }
    }

    /// `{field}` of the first evidence, `{ranks}`, `{hosts}`, `{peer}`; what is not known becomes a plain word.
    fn fill(&self, text: &str, f: &Finding, c: &Culprits, first: Option<EventId>) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            out.push_str(&rest[..open]);
            let Some(close) = rest[open..].find('}') else { break };
            let name = &rest[open + 1..open + close];
            out.push_str(&self.value(name, f, c, first));
            rest = &rest[open + close + 1..];
        }
        out.push_str(rest);
        out
    }

    fn value(&self, name: &str, f: &Finding, c: &Culprits, first: Option<EventId>) -> String {
        let known = |text: String, other: &str| if text.is_empty() { other.to_string() } else { text };
        match name {
            "ranks" | "rank" => match f.blamed.ranks.len() {
                0 => "a rank that the input does not name".into(),
                1 => format!("rank {}", f.blamed.ranks),
                _ => format!("ranks {}", f.blamed.ranks),
            },
            "hosts" | "host" => known(c.hosts.join(", "), "a host that the input does not name"),
            _ => {
                let own = first.and_then(|e| slot_of(self.catalogue, self.job.event(e), name));
                let any = || f.events.iter().find_map(|&e| slot_of(self.catalogue, self.job.event(e), name));
                let text = own
                    .or_else(any)
                    .map(|t| mask::mask(&t.chars().take(160).collect::<String>()))
                    .unwrap_or_default();
                if name == "peer" && !text.is_empty() {
                    return self.peer_name(&text);
                }
                let other = if name == "peer" { "the other end" } else { "(not shown)" };
                known(text, other)
            }
        }
    }

    /// The host behind an address where the job shows whose it is, the address beside it.
    fn peer_name(&self, text: &str) -> String {
        let short = crate::job::ip_of(text).unwrap_or_else(|| text.to_string());
        match self.job.host_of_address(text) {
            Some(host) if host != short => format!("{host} ({short})"),
            _ => short,
        }
    }

    fn consequences(&self, all: &[Ordered], index: usize) -> Vec<Consequence> {
        let mut out = Vec::new();
        for (i, o) in all.iter().enumerate() {
            if o.under != Some(index) || i == index || o.finding.place == Place::Fallback {
                continue;
            }
            let rule = &self.knowledge.rules[o.finding.rule].0;
            let events = self.chosen(&o.finding);
            out.push(Consequence {
                cause: Some(rule.id.clone()),
                symptom: Some(self.fill(
                    &rule.title,
                    &o.finding,
                    &self.culprits(&o.finding),
                    events.first().copied(),
                )),
                ranks: o.finding.blamed.ranks.iter().take(65_536).collect(),
                count: o.finding.events.iter().map(|&e| self.job.event(e).count).sum(),
                evidence: events.iter().take(2).map(|&e| self.evidence(e)).collect(),
            });
        }
        if index == 0 {
            out.extend(self.victims(&all[0].finding));
        }
        out
    }

    /// Lines of victims and symptoms, by message, under the first diagnosis.
    fn victims(&self, f: &Finding) -> Vec<Consequence> {
        let mut by: BTreeMap<u16, (RankSet, u64, Vec<EventId>)> = BTreeMap::new();
        let shown: BTreeSet<EventId> = f.events.iter().copied().collect();
        for id in self.job.current() {
            let entry = self.job.entry(self.catalogue, id);
            let victim = entry.role == Role::Victim
                || (entry.role == Role::Symptom
                    && entry.id != built_in::UNKNOWN
                    && entry.id != built_in::UNKNOWN_WARN);
            if !victim || shown.contains(&id) {
                continue;
            }
            let slot = by.entry(self.job.event(id).message).or_default();
            slot.0.extend(&self.job.events[id as usize].rank.into_iter().collect());
            slot.1 += self.job.event(id).count;
            slot.2.push(id);
        }
        let mut list: Vec<_> = by.into_iter().collect();
        list.sort_by_key(|(m, v)| {
            (
                std::cmp::Reverse(v.0.len()),
                std::cmp::Reverse(v.1),
                self.catalogue.messages[usize::from(*m)].id.clone(),
            )
        });
        list.into_iter()
            .take(6)
            .map(|(m, (ranks, count, mut events))| {
                events.sort_by_key(|&e| {
                    (self.job.events[e as usize].rank.unwrap_or(u32::MAX), self.job.event(e).line, e)
                });
                Consequence {
                    cause: None,
                    symptom: Some(self.catalogue.messages[usize::from(m)].about.clone()),
                    ranks: ranks.iter().take(65_536).collect(),
                    count,
                    evidence: events.iter().take(1).map(|&e| self.evidence(e)).collect(),
                }
            })
            .collect()
    }

    fn verdict(&self, diagnoses: &[Diagnosis]) -> Verdict {
        let Some(first) = diagnoses.first() else {
            let said = self.job.sources.iter().any(|s| s.lines > 0 || s.document.is_some());
            // Read only in part and seen to no good end: nothing was found wrong, but that says little.
            let cut =
                self.job.sources.iter().any(|s| !s.problems.is_empty()) && self.job.end.state != State::Well;
            // What may have been the cause was counted and not kept.
            let lost = self.job.sources.iter().flat_map(|s| s.dropped.keys()).any(|&m| {
                self.catalogue.messages[usize::from(m)].weight() == Weight::Cause
                    && self.job.end.state != State::Well
            });
            if said && (cut || lost) {
                return Verdict::Inconclusive;
            }
            // Begun, never ready, and no end: the rest of the log, or a hang in the making.
            if self.job.end.state == State::NotSeen && (self.begun_only() || self.suffers()) {
                return Verdict::Inconclusive;
            }
            let something =
                said && self.job.current().any(|e| self.job.entry(self.catalogue, e).id != built_in::UNKNOWN);
            return if something { Verdict::Healthy } else { Verdict::Inconclusive };
        };
        let pinned = !first.culprits.ranks.is_empty() || !first.culprits.hosts.is_empty();
        match first.severity {
            "degraded" => Verdict::Degraded,
            _ if first.cause.starts_with("unknown/") && !pinned => Verdict::Inconclusive,
            _ if first.cause.starts_with("unknown/") && first.culprits.ranks.len() > 4 => {
                Verdict::Inconclusive
            }
            _ => Verdict::Fault,
        }
    }

    /// Somebody says that something failed, by no fault of its own, and nobody is seen at work.
    fn suffers(&self) -> bool {
        let (mut failed, mut works) = (false, false);
        for e in self.job.current() {
            let entry = self.job.entry(self.catalogue, e);
            failed |= matches!(entry.role, Role::Victim | Role::Symptom);
            works |= matches!(entry.kind, Kind::Step | Kind::EndsWell);
        }
        failed && !works
    }

    /// Communicators were begun, and nothing at all shows that one was ever ready.
    fn begun_only(&self) -> bool {
        let (mut begun, mut more) = (false, false);
        for e in self.job.current() {
            match self.job.entry(self.catalogue, e).kind {
                Kind::Comm if slot_of(self.catalogue, self.job.event(e), "phase") == Some("start") => {
                    begun = true
                }
                Kind::Comm | Kind::Step | Kind::EndsWell | Kind::Route => more = true,
                _ => {}
            }
        }
        begun && !more
    }

    fn summary(&self, r: &Report) -> String {
        let whole = match r.verdict {
            Verdict::Fault | Verdict::Degraded => {
                let Some(d) = r.diagnoses.first() else { return String::new() };
                d.title.clone()
            }
            Verdict::Healthy => match self.job.end.state {
                State::Well => "The job ended well; nothing wrong was found.".into(),
                State::AtWork => "The job was at work at its last line; nothing wrong was found.".into(),
                _ => "Nothing wrong was found in this input.".into(),
            },
            Verdict::Inconclusive if r.diagnoses.is_empty() && r.inputs.iter().any(|i| !i.problems.is_empty() && i.lines > 0) => {
                "What could be read shows nothing wrong, but the input is damaged or incomplete.".into()
            }
            Verdict::Inconclusive if r.diagnoses.is_empty() && self.begun_only() => {
                "Communicators were begun, and the input shows neither that they were ready nor what became of them: give the rest of the log, or the stacks of the processes if they still stand there.".into()
            }
            Verdict::Inconclusive if r.diagnoses.is_empty() => {
                "The input has nothing of a job in it to judge by; give the job's output of all ranks (stdout and stderr), best with NCCL_DEBUG=INFO.".into()
            }
            Verdict::Inconclusive => {
                let d = &r.diagnoses[0];
                format!("{}; the input does not show why.", d.title.trim_end_matches('.'))
            }
        };
        let older = r.attempts.len().saturating_sub(1);
        if older > 0 && r.verdict == Verdict::Healthy {
            return format!(
                "{whole} ({older} earlier attempt{} in the same input did not matter to it.)",
                if older == 1 { "" } else { "s" }
            );
        }
        whole
    }

    fn not_seen(&self, verdict: Verdict) -> Vec<String> {
        let mut out = Vec::new();
        let job = self.job;
        if verdict == Verdict::Healthy || job.current().next().is_none() {
            return out;
        }
        if let Some(world) = job.world.filter(|w| *w <= 1 << 20) {
            let all: RankSet = (0..world).collect();
            let missing = all.minus(&job.heard).minus(&job.given);
            if !missing.is_empty() && !job.heard.is_empty() {
                out.push(format!(
                    "Nothing of rank {missing} is in the input (world size {world}): give their logs too."
                ));
            }
        }
        let nccl = job.sources.iter().any(|s| s.speakers.iter().any(|s| s.who.process.is_some()));
        if !nccl {
            out.push("No NCCL lines: run again with NCCL_DEBUG=INFO (and NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH) on all ranks.".into());
        }
        let kernel = job.current().any(|e| self.job.entry(self.catalogue, e).id.starts_with("kernel."));
        if !kernel && verdict != Verdict::Degraded {
            out.push("No kernel log: `dmesg -T` (or journalctl -k) of the hosts concerned would show Xid, NIC and out-of-memory records.".into());
        }
        let waits = job.current().any(|e| self.job.entry(self.catalogue, e).kind == Kind::Waits);
        if waits && job.dumps.is_empty() {
            out.push("No Flight Recorder dumps: with TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 each rank writes what it waited in.".into());
        }
        out
    }

    fn job_info(&self) -> crate::report::Job {
        let job = self.job;
        let mut info = crate::report::Job {
            world_size: job.world,
            ranks_seen: job.heard.to_string(),
            ..Default::default()
        };
        if let Some(world) = job.world.filter(|w| *w <= 1 << 20) {
            let all: RankSet = (0..world).collect();
            info.ranks_not_seen = all.minus(&job.heard).to_string();
        }
        info.ranks = self.rank_states();
        let mut hosts: BTreeMap<String, RankSet> = BTreeMap::new();
        for p in &job.processes {
            let Some(host) = p.host.as_ref().filter(|h| !h.is_empty()) else { continue };
            let ranks = p.rank.into_iter().chain(p.by_dev.values().copied()).collect();
            hosts.entry(host.clone()).or_default().extend(&ranks);
            if hosts.len() > 4096 {
                break;
            }
        }
        let mut hosts: Vec<(String, RankSet)> = hosts.into_iter().collect();
        hosts.sort_by(|a, b| {
            (a.1.first().unwrap_or(u32::MAX), &a.0).cmp(&(b.1.first().unwrap_or(u32::MAX), &b.0))
        });
        info.hosts = hosts.into_iter().map(|(name, ranks)| Host { name, ranks: ranks.to_string() }).collect();
        for (what, list) in &job.releases {
            let mut values: Vec<String> = list.iter().map(|r| r.text.clone()).collect();
            values.sort();
            values.dedup();
            values.truncate(8);
            info.versions.insert(what.clone(), values);
        }
        for (name, list) in &job.settings {
            let mut values: Vec<String> = list
                .iter()
                .map(|s| {
                    mask::mask(&format!("{name}={}", s.value))
                        .split_once('=')
                        .map_or(String::new(), |v| v.1.to_string())
                })
                .collect();
            values.sort();
            values.dedup();
            values.truncate(8);
            info.environment.insert(name.clone(), values);
        }
        self.gather(&mut info);
        info.end = End {
            state: job.end.state.name(),
            how: job.end.how.clone(),
            evidence: job.end.events.iter().take(2).map(|&e| self.evidence(e)).collect(),
        };
        info.contradictions.clone_from(&job.contradictions);
        info
    }

    fn gather(&self, info: &mut crate::report::Job) {
        let mut comms = std::collections::BTreeSet::new();
        for id in self.job.current() {
            let event = self.job.event(id);
            match self.job.entry(self.catalogue, id).kind {
                Kind::Comm => {
                    if let Some(c) = slot_of(self.catalogue, event, "comm_id") {
                        comms.insert(c.to_string());
                    }
                }
                Kind::Rank => {
                    if let Some(gpu) = slot_of(self.catalogue, event, "gpu")
                        && !info.devices.iter().any(|d| d == gpu)
                        && info.devices.len() < 16
                    {
                        info.devices.push(gpu.to_string());
                    }
                }
                Kind::Net => {
                    if let Some(n) = slot_of(self.catalogue, event, "network")
                        && !info.networks.iter().any(|d| d == n)
                        && info.networks.len() < 16
                    {
                        info.networks.push(n.to_string());
                    }
                }
                Kind::Step => {
                    let p = &self.job.events[id as usize];
                    let last = self.job.sources[p.source as usize].bulk.get(&(event.message, event.speaker));
                    let text = last.map_or(&event.text, |l| &l.last.text);
                    info.last_step = Some(mask::mask(&last_state(text)).chars().take(200).collect());
                }
                _ => {}
            }
        }
        info.devices.sort();
        info.networks.sort();
        info.communicators = comms.len();
        let told = |t: crate::base::Stamp| t.rfc3339().unwrap_or_else(|| t.text());
        let span = crate::job::span(self.job, self.catalogue);
        (info.first, info.last) = (span.map(|s| told(s.0)), span.map(|s| told(s.1)));
    }

    /// Ranks with something to say about them: ends, silence, logs that were not given.
    fn rank_states(&self) -> Vec<RankState> {
        let job = self.job;
        let mut out = Vec::new();
        let mut ends: BTreeMap<u32, String> = BTreeMap::new();
        for e in &job.ends {
            if let Some(rank) = e.rank {
                ends.entry(rank).or_insert_with(|| e.how.words());
            }
        }
        let world: RankSet = match job.world.filter(|w| *w <= 1 << 20) {
            Some(w) => (0..w).collect(),
            None => job.heard.clone(),
        };
        let by_rank: BTreeMap<u32, &Process> =
            job.processes.iter().rev().filter_map(|p| Some((p.rank?, p))).collect();
        for rank in world.iter().take(16_384) {
            let heard = job.heard.contains(rank);
            let end = ends.get(&rank).cloned();
            if heard && end.is_none() && world.len() > 64 && !job.silent.contains(rank) {
                continue;
            }
            let last = by_rank.get(&rank).and_then(|p| p.last.last().map(|l| (*p, l)));
            let last =
                last.filter(|_| world.len() <= 64 || end.is_some()).map(|(p, (source, said))| Evidence {
                    source: job.sources[*source as usize].name.clone(),
                    line: said.line,
                    time: said.time.and_then(|t| t.rfc3339()),
                    time_text: said.time.map(|t| t.text()),
                    rank: Some(rank),
                    rank_by: p.rank_by,
                    host: p.host.clone(),
                    text: mask::mask(&said.text),
                    cut: !said.whole,
                    message: "last line".into(),
                    count: 1,
                });
            let state = match (heard, job.given.contains(rank)) {
                (false, true) => "silent",
                (false, false) => "not given",
                (true, _) if job.silent.contains(rank) => "silent",
                (true, _) => "heard",
            };
            out.push(RankState { rank, state, last, end });
        }
        out
    }

    fn attempts(&self) -> Vec<Attempt> {
        let n = self.job.attempts.len();
        self.job
            .attempts
            .iter()
            .enumerate()
            .map(|(i, a)| Attempt {
                n: i + 1,
                first: a.first.clone(),
                last: a.last.clone(),
                end: if i == usize::from(self.job.current) {
                    self.job.end.state.name()
                } else {
                    self.end_of(i, i + 1 < n)
                },
                cause: self.first_words(i),
            })
            .collect()
    }

    /// How a run that is not the one at hand ended, by the last of its own lines that says so; one that another follows
    /// has ended somehow.
    fn end_of(&self, attempt: usize, followed: bool) -> &'static str {
        let mine = (0..self.job.events.len() as EventId)
            .filter(|id| usize::from(self.job.events[*id as usize].attempt) == attempt);
        let said = mine.filter_map(|id| {
            let entry = self.job.entry(self.catalogue, id);
            match entry.kind {
                _ if entry.role == Role::Harmless => None,
                Kind::EndsWell => Some(State::Well),
                Kind::Cancelled => Some(State::Killed),
                Kind::Exception => Some(State::Failed),
                _ if entry.role == Role::First => Some(State::Failed),
                _ => None,
            }
        });
        match said.last() {
            Some(state) => state.name(),
            None if followed => State::Failed.name(),
            None => State::NotSeen.name(),
        }
    }

    /// The cause that an earlier attempt's own first line of trouble suggests.
    fn first_words(&self, attempt: usize) -> Option<String> {
        if attempt == usize::from(self.job.current) {
            return None;
        }
        let of = |id: &EventId| usize::from(self.job.events[*id as usize].attempt) == attempt;
        (0..self.job.events.len() as EventId).filter(of).find_map(|id| {
            let entry = self.job.entry(self.catalogue, id);
            (entry.role == Role::First).then(|| entry.cause.clone()).flatten().or_else(|| {
                let plain = entry.id == built_in::EXCEPTION
                    && slot_of(self.catalogue, self.job.event(id), "claimed").is_none();
                plain.then(|| "app/exception".to_string())
            })
        })
    }

    fn timeline(&self) -> Vec<Evidence> {
        let mut chosen: Vec<EventId> = Vec::new();
        let mut per: BTreeMap<u16, usize> = BTreeMap::new();
        for id in self.job.current() {
            let entry = self.job.entry(self.catalogue, id);
            let matters = matches!(
                entry.kind,
                Kind::Ends
                    | Kind::Cancelled
                    | Kind::JobStarts
                    | Kind::EndsWell
                    | Kind::Restarts
                    | Kind::Device
            ) || matches!(entry.role, Role::First | Role::Victim)
                || entry.id == built_in::EXCEPTION;
            let n = per.entry(self.job.event(id).message).or_default();
            if matters && entry.role != Role::Harmless && *n < 3 {
                *n += 1;
                chosen.push(id);
            }
        }
        timeline::in_time(self.job, &mut chosen);
        chosen.into_iter().take(40).map(|e| self.evidence(e)).collect()
    }

    fn inputs(&self, problems: &[(String, String)]) -> Vec<Input> {
        let mut out: Vec<Input> = self
            .job
            .sources
            .iter()
            .map(|s| Input {
                path: s.name.clone(),
                bytes: s.bytes,
                lines: s.lines,
                problems: s.problems.clone(),
            })
            .collect();
        out.extend(problems.iter().map(|(path, what)| Input {
            path: path.clone(),
            bytes: 0,
            lines: 0,
            problems: vec![what.clone()],
        }));
        out.sort_by(|a, b| a.path.cmp(&b.path));
        out
    }

    fn folded(&self) -> Vec<String> {
        let mut by: BTreeMap<&str, u64> = BTreeMap::new();
        for s in &self.job.sources {
            for (m, n) in &s.dropped {
                *by.entry(&self.catalogue.messages[usize::from(*m)].id).or_default() += n;
            }
        }
        by.into_iter()
            .map(|(id, n)| {
                format!("{n} more lines of {id} were counted but not kept, to stay within the memory budget")
            })
            .collect()
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(c) => c.to_uppercase().collect::<String>() + chars.as_str(),
        None => String::new(),
    }
}
