//! What of one job can be compared: values by name, with who has them and the
//! first line that shows each; what went wrong; ends; speed; and what the
//! input could show at all.

use super::alike::{Hosts, alike};
use super::logs;
use super::model::{Section, Side};
use super::speed::{self, Speeds};
use crate::base::{RankSet, Release};
use crate::catalogue::{Catalogue, built_in};
use crate::job::{Ended, EventId, Job, State, slot_of};
use crate::knowledge::{Door, Kind, Knowledge, Role, Variable};
use crate::report::{Evidence, Report};
use crate::settings;
use crate::templates;
use crate::verdict::{self, mask};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Names of variables that differ from run to run by their nature; a set of `rules/sets.toml`.
const EACH_RUN: &str = "@each-run";
/// Shapes of lines that belong to something else; another set.
const PARTS: &str = "@part-of-another";
/// Values of one name that are kept.
const VALUES: usize = 64;
/// Messages that are kept.
const MESSAGES: usize = 2_000;
/// Texts of which it is kept how they are compared.
const TEXTS: usize = 20_000;

/// A value, and who has it.
#[derive(Debug, Clone)]
pub(super) struct Held {
    /// As it stands there, secrets masked.
    pub(super) text: String,
    pub(super) ranks: RankSet,
    pub(super) line: Option<Evidence>,
    /// Messages that say so.
    pub(super) messages: BTreeSet<String>,
}

/// Values as they are compared.
pub(super) type Values = BTreeMap<String, Held>;

/// A warning, an exception, or a line that looks like trouble.
#[derive(Debug, Clone)]
pub(super) struct Told {
    /// What it says.
    pub(super) title: String,
    /// How telling it is; less is more.
    pub(super) weight: u8,
    pub(super) note: &'static str,
    pub(super) ranks: RankSet,
    pub(super) count: u64,
    pub(super) line: Option<Evidence>,
}

/// What of one job can be compared.
#[derive(Debug, Clone)]
pub struct Profile {
    pub(super) side: Side,
    pub(super) values: BTreeMap<(Section, String), Values>,
    pub(super) told: BTreeMap<String, Told>,
    pub(super) ends: BTreeMap<String, (RankSet, Evidence)>,
    pub(super) how: String,
    pub(super) end_line: Option<Evidence>,
    pub(super) silent: RankSet,
    pub(super) speeds: Speeds,
    pub(super) hosts: BTreeSet<String>,
    pub(super) shows: Shows,
    pub(super) wording: Vec<Worded>,
}

/// Releases of a program that word their lines as a job does.
#[derive(Debug, Clone)]
pub(super) struct Worded {
    pub(super) program: &'static str,
    pub(super) from: Option<Release>,
    pub(super) to: Option<Release>,
}

/// The narrowest ranges that all lines of a job leave.
#[derive(Debug, Default)]
struct Wording {
    nccl: (Option<Release>, Option<Release>),
    torch: (Option<Release>, Option<Release>),
}

impl Wording {
    fn take(&mut self, catalogue: &Catalogue, job: &Job, id: EventId) {
        let event = job.event(id);
        let (nccl, torch) = catalogue.releases(event.message, event.form);
        for (all, one) in [(&mut self.nccl, nccl), (&mut self.torch, torch)] {
            let Some(one) = one else { continue };
            all.0 = all.0.max(one.from);
            all.1 = match (all.1, one.to) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
    }

    /// Where lines contradict each other they tell nothing: a range in the catalogue is not exact then.
    fn ranges(self) -> Vec<Worded> {
        let all = [("NCCL", self.nccl), ("torch", self.torch)];
        let fits = |(from, to): (Option<Release>, Option<Release>)| match (from, to) {
            (Some(from), Some(to)) => from <= to,
            (from, to) => from.is_some() || to.is_some(),
        };
        let worded = |(program, (from, to))| Worded { program, from, to };
        all.into_iter().filter(|(_, range)| fits(*range)).map(worded).collect()
    }
}

/// What the input of a job can show.
#[derive(Debug, Clone, Default)]
pub(super) struct Shows {
    /// NCCL's lines of level INFO.
    pub(super) info: bool,
    /// A communicator was ready.
    pub(super) ready: bool,
    /// Ranks whose process printed NCCL's settings.
    pub(super) setters: RankSet,
    /// Those among them whose lines others can have torn: several processes write to one stream without marks.
    pub(super) torn: RankSet,
    /// A variable, an argument or a command line.
    pub(super) given: bool,
    /// Messages that were seen.
    pub(super) messages: BTreeSet<String>,
    /// Runs in the input.
    pub(super) runs: usize,
}

struct Builder<'b> {
    knowledge: &'b Knowledge,
    catalogue: &'b Catalogue,
    job: &'b Job,
    out: Profile,
    hosts: Hosts,
    variables: FxHashMap<&'b str, &'b Variable>,
    /// Texts as they are compared; most ranks say the same ones.
    alike: FxHashMap<String, String>,
}

/// Takes from a job what can be compared; `name` is what the user gave.
#[must_use]
pub fn profile(
    knowledge: &Knowledge,
    catalogue: &Catalogue,
    job: &Job,
    report: &Report,
    name: String,
) -> Profile {
    let side = Side {
        name,
        verdict: report.verdict,
        cause: report.diagnoses.first().map(|d| d.cause.clone()),
        summary: report.summary.clone(),
        end: report.job.end.state,
        sources: report.inputs.len(),
        lines: report.inputs.iter().map(|i| i.lines).sum(),
    };
    let hosts: BTreeSet<String> = report.job.hosts.iter().map(|h| h.name.clone()).collect();
    let known = Hosts::new(&hosts);
    let variables = knowledge.tables.variables.iter().map(|v| (v.name.as_str(), v)).collect();
    let out = Profile {
        side,
        values: BTreeMap::new(),
        told: BTreeMap::new(),
        ends: BTreeMap::new(),
        how: report.job.end.how.clone(),
        end_line: report.job.end.evidence.first().cloned(),
        silent: report.job.ranks.iter().filter(|r| r.state == "silent").map(|r| r.rank).collect(),
        speeds: speed::of(catalogue, job),
        hosts,
        shows: Shows { runs: job.attempts.len(), ..Shows::default() },
        wording: Vec::new(),
    };
    let mut b =
        Builder { knowledge, catalogue, job, out, hosts: known, variables, alike: FxHashMap::default() };
    b.settings();
    b.size(report);
    b.logs();
    let mut wording = Wording::default();
    for id in job.current() {
        b.event(id);
        wording.take(catalogue, job, id);
    }
    b.out.wording = wording.ranges();
    b.out.shows.given =
        b.out.values.keys().any(|(section, _)| matches!(section, Section::Setting | Section::Argument));
    b.ends();
    b.out
}

impl Builder<'_> {
    fn evidence(&self, id: EventId) -> Evidence {
        verdict::evidence_of(self.catalogue, self.job, id)
    }

    /// A value as it is compared; most ranks say the same.
    fn alike(&mut self, text: &str) -> String {
        if let Some(known) = self.alike.get(text) {
            return known.clone();
        }
        let key = alike(text, &self.hosts);
        if self.alike.len() < TEXTS {
            self.alike.insert(text.to_string(), key.clone());
        }
        key
    }

    fn put(&mut self, section: Section, name: &str, text: &str, id: Option<EventId>) {
        let text = text.trim();
        // Equal meanings are equal values, however they are written.
        let means = self.variable(section, name).map(|v| settings::meaning(v, text));
        let key = self.alike(means.as_deref().unwrap_or(text));
        let rank = id.and_then(|e| self.job.events[e as usize].rank);
        let values = self.out.values.entry((section, name.to_string())).or_default();
        if values.len() >= VALUES && !values.contains_key(&key) {
            return;
        }
        let message = id.map(|e| self.job.entry(self.catalogue, e).id.clone());
        if let Some(held) = values.get_mut(&key) {
            held.ranks.extend(&rank.into_iter().collect());
            held.messages.extend(message);
            return;
        }
        let held = Held {
            text: text.chars().take(300).collect(),
            ranks: rank.into_iter().collect(),
            line: id.map(|e| self.evidence(e)),
            messages: message.into_iter().collect(),
        };
        if let Some(values) = self.out.values.get_mut(&(section, name.to_string())) {
            values.insert(key, held);
        }
    }

    fn variable(&self, section: Section, name: &str) -> Option<&Variable> {
        (section == Section::Setting).then(|| self.variables.get(name).copied()).flatten()
    }

    fn settings(&mut self) {
        let each_run = [EACH_RUN.to_string()];
        let job = self.job;
        let shared: Vec<bool> = job.sources.iter().map(logs::shared).collect();
        for (name, list) in &job.settings {
            if self.knowledge.covers(&each_run, name) {
                continue;
            }
            for s in list {
                let value = mask(&format!("{name}={}", s.value));
                let value = value.split_once('=').map_or("", |v| v.1).to_string();
                self.put(Section::Setting, name, &value, Some(s.event));
                if job.entry(self.catalogue, s.event).door == Door::Nccl {
                    let rank: RankSet = s.rank.into_iter().collect();
                    self.out.shows.setters.extend(&rank);
                    if shared[job.events[s.event as usize].source as usize] {
                        self.out.shows.torn.extend(&rank);
                    }
                }
            }
        }
    }

    fn size(&mut self, report: &Report) {
        if let Some(world) = report.job.world_size {
            self.put(Section::Size, "world size", &world.to_string(), None);
        }
        if !report.job.hosts.is_empty() {
            self.put(Section::Size, "number of hosts", &report.job.hosts.len().to_string(), None);
            // Only where the input tells of each rank on which host it is.
            let on_hosts: Vec<u64> = report
                .job
                .hosts
                .iter()
                .filter_map(|h| RankSet::parse(&h.ranks))
                .map(|r| r.len() as u64)
                .collect();
            let ranks = report.job.world_size.map_or(report.job.ranks.len() as u64, u64::from);
            let most =
                on_hosts.iter().copied().max().filter(|n| *n > 0 && on_hosts.iter().sum::<u64>() == ranks);
            if let Some(most) = most {
                self.put(Section::Size, "ranks on a host, at most", &most.to_string(), None);
            }
        }
        for gpu in &report.job.devices {
            self.put(Section::Size, "GPUs", gpu, None);
        }
    }

    /// How the output was kept, and what documents say of themselves.
    fn logs(&mut self) {
        let job = self.job;
        if let Some(text) = logs::output(job) {
            self.put(Section::Logs, "output of the ranks", &text, None);
        }
        if job.current().any(|id| job.entry(self.catalogue, id).id == built_in::ERROR_FILE) {
            self.put(Section::Logs, "error files of the ranks", "written", None);
        }
        for (form, ranks) in &job.dump_forms {
            let written = if form.json { "written as JSON" } else { "written as pickle" };
            self.put_of(ranks, Section::Logs, "Flight Recorder dumps", written);
            if !form.version.is_empty() {
                self.put_of(ranks, Section::Release, "version of Flight Recorder dumps", &form.version);
            }
            if let Some(library) = form.library.as_deref().filter(|l| !l.is_empty()) {
                self.put_of(ranks, Section::Release, "NCCL, by Flight Recorder dumps", library);
            }
        }
    }

    /// A value that no line shows, and the ranks that have it.
    fn put_of(&mut self, ranks: &RankSet, section: Section, name: &str, text: &str) {
        self.put(section, name, text, None);
        let values = self.out.values.get_mut(&(section, name.to_string()));
        for held in values.into_iter().flat_map(BTreeMap::values_mut).filter(|h| h.text == text) {
            held.ranks.extend(ranks);
        }
    }

    fn event(&mut self, id: EventId) {
        let job = self.job;
        let entry = job.entry(self.catalogue, id);
        let event = job.event(id);
        let slot = |name| slot_of(self.catalogue, event, name).map(str::to_string);
        self.out.shows.messages.insert(entry.id.clone());
        self.out.shows.info |= entry.door == Door::Nccl && entry.role == Role::Fact;
        match entry.kind {
            Kind::Comm => self.out.shows.ready |= slot("phase").as_deref() == Some("ready"),
            Kind::Version => self.release(id),
            Kind::Route => {
                if let Some(via) = slot("via") {
                    self.put(Section::Transport, "transport", &transport(&via), Some(id));
                }
            }
            Kind::JobStarts => {
                if let Some(command) = slot("command") {
                    self.arguments(&command, id);
                }
            }
            _ => {}
        }
        for (what, label) in &entry.compare {
            let value = match what.strip_prefix('=') {
                Some(word) => Some(word.to_string()),
                None => self.catalogue.field_id(what).map(|f| event.field(f).unwrap_or("yes").to_string()),
            };
            let section = match (entry.kind, entry.door) {
                (Kind::Net, _) => Section::Network,
                (_, Door::Nccl) => Section::Setup,
                _ => Section::Argument,
            };
            if let Some(value) = value {
                self.put(section, label, &mask(&value), Some(id));
            }
        }
        self.tell(id);
    }

    fn release(&mut self, id: EventId) {
        let event = self.job.event(id);
        let slot = |name| slot_of(self.catalogue, event, name).map(str::to_string);
        let (Some(what), Some(text)) = (slot("what"), slot("release")) else { return };
        // A number such as 12040 is another way of counting than 550.54.15.
        let name = match Release::parse(&text) {
            Some(_) => program(&what),
            None => format!("{} (as a number)", program(&what)),
        };
        self.put(Section::Release, &name, &text, Some(id));
        for (slot_name, built) in [("cuda", "CUDA"), ("rocm", "ROCm")] {
            if let Some(text) = slot(slot_name) {
                self.put(Section::Release, &format!("{built} of {}", program(&what)), &text, Some(id));
            }
        }
    }

    /// `--name value` and `--name=value` of a command line, and the program.
    fn arguments(&mut self, command: &str, id: EventId) {
        let each_run = [EACH_RUN.to_string()];
        let masked = mask(command);
        let mut words = masked.split_whitespace().filter(|w| *w != "\\").peekable();
        let mut program = None;
        while let Some(word) = words.next() {
            if !word.starts_with('-') || word.len() < 2 {
                if word.ends_with(".py") && program.is_none() {
                    program = Some(word.rsplit('/').next().unwrap_or(word).to_string());
                }
                continue;
            }
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, value.to_string()),
                None => {
                    let value = words.next_if(|w| !w.starts_with("--") && !w.ends_with(".py"));
                    (word, value.unwrap_or("given").to_string())
                }
            };
            let name = name.replace('_', "-");
            if !self.knowledge.covers(&each_run, &name) {
                self.put(Section::Argument, &name, &value, Some(id));
            }
        }
        if let Some(program) = program {
            self.put(Section::Argument, "program", &program, Some(id));
        }
    }

    /// What went wrong, or looks so.
    fn tell(&mut self, id: EventId) {
        let job = self.job;
        let entry = job.entry(self.catalogue, id);
        let event = job.event(id);
        let slot = |name| slot_of(self.catalogue, event, name);
        let exception = entry.id == built_in::EXCEPTION || entry.id == built_in::ERROR_FILE;
        let (key, title, weight, note) = if exception {
            if slot("claimed").is_some() || slot("handled").is_some() {
                return;
            }
            let kind = slot("type").unwrap_or("");
            let text = templates::shape(slot("text").unwrap_or(""));
            let said = mask(slot("text").unwrap_or(""));
            (format!("{kind}: {text}"), format!("{kind}: {}", cut(&said)), 0, "exception")
        } else if entry.id == built_in::UNKNOWN_WARN {
            let text = slot("text").unwrap_or(&event.text);
            (format!("WARN {}", templates::shape(text)), cut(&mask(text)), 1, "a WARN that is not known here")
        } else if entry.id == built_in::UNKNOWN {
            let text = templates::body(&event.text);
            let shape = templates::shape(text);
            if templates::is_code(&event.text) || self.knowledge.covers(&[PARTS.to_string()], &shape) {
                return;
            }
            (shape, cut(&mask(text)), 3, "looks like trouble, not known here")
        } else if entry.id == built_in::DUMP {
            let detail = slot("detail").unwrap_or("");
            let key = format!("dump {} {}", slot("fault").unwrap_or(""), slot("ranks").unwrap_or(""));
            (key, cut(detail), 0, "")
        } else {
            let (weight, note) = match entry.role {
                Role::First => (0, ""),
                Role::Symptom => (2, "symptom"),
                Role::Victim => (4, "follows from something else"),
                Role::Harmless => (5, "harmless by itself"),
                Role::Fact => return,
            };
            (entry.id.clone(), entry.about.clone(), weight, note)
        };
        let rank = job.events[id as usize].rank;
        if let Some(told) = self.out.told.get_mut(&key) {
            told.ranks.extend(&rank.into_iter().collect());
            told.count += event.count;
            return;
        }
        if self.out.told.len() < MESSAGES {
            let line = Some(self.evidence(id));
            let ranks = rank.into_iter().collect();
            self.out.told.insert(key, Told { title, weight, note, ranks, count: event.count, line });
        }
    }

    fn ends(&mut self) {
        for end in &self.job.ends {
            let line = self.evidence(end.event);
            let slot = self.out.ends.entry(end.how.words()).or_insert_with(|| (RankSet::new(), line));
            slot.0.extend(&end.rank.into_iter().collect());
        }
        if self.job.end.state == State::Well {
            self.out.ends.retain(|words, _| *words != Ended::Well.words());
        }
    }
}

/// `NET/IB/0/GDRDMA` is `NET/IB/GDRDMA`: which adapter and which channel is no matter of the transport.
fn transport(via: &str) -> String {
    // `0`, `0(7)`, `0:1(2)`: an adapter, with the rank whose proxy it is.
    let name = |p: &&str| !p.is_empty() && !p.starts_with(|c: char| c.is_ascii_digit());
    via.split('/').filter(name).collect::<Vec<_>>().join("/")
}

fn program(what: &str) -> String {
    match what {
        "nccl" => "NCCL".into(),
        "rccl" => "RCCL".into(),
        "cuda" => "CUDA".into(),
        "ofi" => "OFI plugin".into(),
        "nvml" => "NVML".into(),
        "driver-cuda" => "CUDA of the driver".into(),
        other => other.into(),
    }
}

/// As much of a text as a line holds.
fn cut(text: &str) -> String {
    let mut out: String = text.chars().take(160).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out
}
