//! What differs between two profiles, most telling first. A thing that only
//! one job shows is a difference only where the other would show it too.

use super::model::{Change, Comparison, Difference, Section};
use super::profile::{Held, Profile, Told, Values, Worded};
use crate::base::{RankSet, Release};
use crate::knowledge::Knowledge;
use crate::report::Verdict;
use std::collections::{BTreeMap, BTreeSet};

/// A speed that differs by less than this part is the same.
const SAME_SPEED: f64 = 0.15;
/// So many times more lines of one message, and so many of them, are worth a word.
const FLOOD: (u64, u64) = (10, 50);

/// Compares two jobs.
#[must_use]
pub fn compare(knowledge: &Knowledge, good: Profile, bad: Profile) -> Comparison {
    let mut found =
        Finder { knowledge, good: &good, bad: &bad, out: Vec::new(), same: Vec::new(), not: Vec::new() };
    found.visible();
    found.values();
    found.wording();
    found.hosts();
    found.told();
    found.ends();
    found.speed();
    let Finder { mut out, same, not, .. } = found;
    out.sort_by(|a, b| a.0.cmp(&b.0));
    let differences: Vec<Difference> = out.into_iter().map(|(_, d)| d).collect();
    let summary = summary(&differences, &good);
    Comparison {
        schema: "ncclcheck.diff/1",
        summary,
        good: good.side,
        bad: bad.side,
        differences,
        same,
        not_compared: not,
    }
}

fn summary(differences: &[Difference], good: &Profile) -> String {
    let causes = |d: &&Difference| {
        !matches!(d.section, Section::Message | Section::End | Section::Speed | Section::Logs)
    };
    let sure = |d: &&Difference| causes(d) && d.change != Change::NotShown;
    let kept = differences.iter().find(|d| d.section == Section::Logs && d.change != Change::NotShown);
    let mut text = match differences.iter().find(sure) {
        Some(d) => {
            let more = differences.iter().filter(sure).count() - 1;
            let others = match more {
                0 => "and nothing else that the input shows of what they were given or chose".to_string(),
                1 => "and one thing more".to_string(),
                n => format!("and {n} things more"),
            };
            format!("The jobs differ in {}: {}; {others}.", d.name, values(d))
        }
        None if kept.is_some() => {
            let what = kept.map_or_else(String::new, |d| format!("{} ({})", d.name, values(d)));
            format!(
                "The jobs differ in how the output was kept: {what}; and nothing else that the input shows of what they \
                 were given or chose."
            )
        }
        None if differences.iter().any(|d| causes(&d)) => {
            "No difference that is sure in what the jobs were given or chose; some things only one of them shows.".into()
        }
        None if differences.is_empty() => "The input shows no difference between the jobs.".into(),
        None => {
            "The input shows no difference in what the jobs were given or chose; they differ in what happened.".into()
        }
    };
    if !matches!(good.side.verdict, Verdict::Healthy | Verdict::Degraded) {
        text.push_str(" The job given as the good one was not found healthy itself.");
    }
    text
}

/// `22 → 18`, `set to 1 in the bad one only`.
pub(super) fn values(d: &Difference) -> String {
    let list = |v: &[String]| {
        let some: Vec<&str> = v.iter().take(4).map(String::as_str).collect();
        let more = if v.len() > 4 { format!(" and {} more", v.len() - 4) } else { String::new() };
        format!("{}{more}", some.join(", "))
    };
    match (d.good.is_empty(), d.bad.is_empty()) {
        (false, false) if d.good == d.bad && !d.note.is_empty() => format!("{}, {}", list(&d.bad), d.note),
        (false, false) => format!("{} → {}", list(&d.good), list(&d.bad)),
        (true, false) => format!("{}, in the bad one only", list(&d.bad)),
        (false, true) => format!("{}, in the good one only", list(&d.good)),
        (true, true) => String::new(),
    }
}

/// Order of differences: how telling, then within that, then the name.
type Order = (u8, u8, String);

struct Finder<'f> {
    knowledge: &'f Knowledge,
    good: &'f Profile,
    bad: &'f Profile,
    out: Vec<(Order, Difference)>,
    same: Vec<String>,
    not: Vec<String>,
}

impl Finder<'_> {
    /// What one side cannot show at all.
    fn visible(&mut self) {
        for (side, here, there) in [("bad", self.bad, self.good), ("good", self.good, self.bad)] {
            if !here.shows.info && there.shows.info {
                self.not.push(format!(
                    "The {side} job has no NCCL lines of level INFO: variables as NCCL read them, networks, channels and \
                     transports of the other have nothing to stand beside. Run both with NCCL_DEBUG=INFO."
                ));
            } else if here.shows.info && there.shows.info && !here.shows.ready && there.shows.ready {
                self.not.push(format!(
                    "The {side} job ended before a communicator was ready: what NCCL chooses later (channels, \
                     transports, some variables) it cannot show."
                ));
            }
        }
        if !self.good.shows.info && !self.bad.shows.info {
            self.not.push(
                "Neither job has NCCL lines of level INFO: with NCCL_DEBUG=INFO variables, networks, channels and \
                 transports could be compared."
                    .into(),
            );
        }
        let sides = [("good", self.good), ("bad", self.bad)];
        if sides.iter().all(|(_, p)| !p.shows.given && !p.shows.info) {
            self.not.push(
                "Neither input shows a variable or a command line: a setting in which the jobs differ is visible \
                 only where something prints it."
                    .into(),
            );
        }
        for (side, profile) in sides {
            if profile.shows.runs > 1 {
                let n = profile.shows.runs;
                self.not.push(format!("The {side} input holds {n} runs; the last one is compared."));
            }
        }
    }

    fn values(&mut self) {
        let names: BTreeSet<&(Section, String)> =
            self.good.values.keys().chain(self.bad.values.keys()).collect();
        let none = Values::new();
        let mut same: BTreeMap<Section, Vec<String>> = BTreeMap::new();
        for name in names {
            let good = self.good.values.get(name).unwrap_or(&none);
            let bad = self.bad.values.get(name).unwrap_or(&none);
            let (good, bad) = &alike_told(name.0, good, bad);
            if good.keys().eq(bad.keys()) {
                match self.lacking(name.0, good, bad) {
                    Some(ranks) => self.partly(name, good, bad, &ranks),
                    None => same.entry(name.0).or_default().push(told_same(name, bad)),
                }
                continue;
            }
            self.value(name, good, bad);
        }
        for (section, list) in same {
            self.same.push(match section {
                Section::Setting if list.len() > 3 => format!("{} variables", list.len()),
                Section::Argument if list.len() > 3 => format!("{} arguments", list.len()),
                Section::Logs => continue,
                _ => list.join(", "),
            });
        }
    }

    fn value(&mut self, name: &(Section, String), good: &Values, bad: &Values) {
        let change = match (good.is_empty(), bad.is_empty()) {
            (false, false) => Change::Changed,
            (true, _) if would_show(self.good, name.0, bad) => Change::OnlyBad,
            (_, true) if would_show(self.bad, name.0, good) => Change::OnlyGood,
            _ => Change::NotShown,
        };
        // What a side cannot show at all is said once, in `visible`.
        let other = if good.is_empty() { self.good } else { self.bad };
        let nccl = good.values().chain(bad.values()).any(by_nccl);
        if change == Change::NotShown && nccl && !other.shows.info {
            return;
        }
        if change == Change::NotShown
            && matches!(
                name.0,
                Section::Network | Section::Setup | Section::Transport | Section::Size | Section::Release
            )
        {
            return;
        }
        let mut ranks = RankSet::new();
        for (key, held) in bad {
            if !good.contains_key(key) {
                ranks.extend(&held.ranks);
            }
        }
        let all = |values: &Values| {
            values.values().fold(RankSet::new(), |mut a, h| {
                a.extend(&h.ranks);
                a
            })
        };
        if ranks == all(bad) {
            ranks = RankSet::new();
        }
        let unlike = |here: &Values, there: &Values| {
            here.iter()
                .find(|(k, _)| !there.contains_key(*k))
                .or(here.iter().next())
                .and_then(|(_, h)| h.line.clone())
        };
        let difference = Difference {
            section: name.0,
            name: name.1.clone(),
            change,
            good: texts(good),
            bad: texts(bad),
            ranks: ranks.to_string(),
            note: note(name.0, change, nccl),
            good_line: unlike(good, bad),
            bad_line: unlike(bad, good),
        };
        let order = self.order(name, change);
        self.out.push((order, difference));
    }

    /// Releases that no line names, told by how lines are worded.
    fn wording(&mut self) {
        for good in &self.good.wording {
            let Some(bad) = self.bad.wording.iter().find(|w| w.program == good.program) else { continue };
            let key = (Section::Release, good.program.to_string());
            if self.good.values.contains_key(&key) && self.bad.values.contains_key(&key) {
                continue;
            }
            let before =
                |a: &Worded, b: &Worded| matches!((a.to, b.from), (Some(to), Some(from)) if to < from);
            if !before(good, bad) && !before(bad, good) {
                continue;
            }
            let text = |w: &Worded| match (w.from, w.to) {
                (Some(from), Some(to)) => format!("{from} to {}", end(to)),
                (Some(from), None) => format!("{from} or later"),
                (None, Some(to)) => format!("up to {}", end(to)),
                (None, None) => String::new(),
            };
            let difference = Difference {
                section: Section::Release,
                name: good.program.into(),
                change: Change::Changed,
                good: vec![text(good)],
                bad: vec![text(bad)],
                ranks: String::new(),
                note: "by how their lines are worded".into(),
                good_line: None,
                bad_line: None,
            };
            self.out.push(((2, 1, good.program.into()), difference));
        }
    }

    /// How telling a value is: what was given to the jobs, then what they run on, then what was chosen from that.
    fn order(&self, name: &(Section, String), change: Change) -> Order {
        let class = match (name.0, change) {
            (_, Change::NotShown) => 12,
            (Section::Setting, _) => 0,
            (Section::Argument, _) => 1,
            (Section::Release, _) => 2,
            (Section::Size, _) => 3,
            (Section::Network, _) => 4,
            (Section::Setup, _) => 5,
            (Section::Transport | Section::Logs, _) => 6,
            (Section::Message, _) => 7,
            (Section::End, _) => 8,
            (Section::Speed, _) => 9,
        };
        let within = if name.0 == Section::Setting {
            let known = self.knowledge.tables.variables.iter().find(|v| v.name == name.1);
            match known.map(|v| v.sort.as_str()) {
                Some("diagnosis") => 4,
                Some(_) if change == Change::Changed => 0,
                Some(_) => 1,
                None => 2,
            }
        } else {
            // What a program was built for says less than which program it is, and ranks on a host less than ranks.
            let lesser = name.1.starts_with("CUDA of") || name.1.starts_with("ranks on");
            u8::from(change != Change::Changed) + 2 * u8::from(lesser) + 5 * u8::from(name.0 == Section::Logs)
        };
        // A variable that only says how much is printed changes nothing but the log.
        if name.0 == Section::Setting && within == 4 {
            (11, within, name.1.clone())
        } else {
            (class, within, name.1.clone())
        }
    }

    /// Ranks of the bad job that lack a setting which all of the good job have.
    fn lacking(&self, section: Section, good: &Values, bad: &Values) -> Option<RankSet> {
        if section != Section::Setting {
            return None;
        }
        let nccl = |values: &Values| values.values().all(by_nccl);
        let of = |profile: &Profile, values: &Values| {
            let mut left = profile.shows.setters.clone();
            for held in values.values() {
                left = left.minus(&held.ranks);
            }
            left
        };
        // In a stream that several processes write to, a line can be torn by another's.
        let (in_good, in_bad) = (of(self.good, good), of(self.bad, bad).minus(&self.bad.shows.torn));
        let few = in_bad.len() * 2 <= self.bad.shows.setters.len();
        (nccl(good) && nccl(bad) && in_good.is_empty() && !in_bad.is_empty() && few).then_some(in_bad)
    }

    fn partly(&mut self, name: &(Section, String), good: &Values, bad: &Values, ranks: &RankSet) {
        let line = |values: &Values| values.values().next().and_then(|h| h.line.clone());
        let difference = Difference {
            section: name.0,
            name: name.1.clone(),
            change: Change::Changed,
            good: texts(good),
            bad: texts(bad),
            ranks: ranks.to_string(),
            note: format!("not set on rank {ranks} of the bad job"),
            good_line: line(good),
            bad_line: line(bad),
        };
        let order = self.order(name, Change::Changed);
        self.out.push((order, difference));
    }

    /// Hosts that differ are said once.
    fn hosts(&mut self) {
        let (good, bad) = (&self.good.hosts, &self.bad.hosts);
        if good.is_empty() || bad.is_empty() {
            return;
        }
        if good == bad {
            self.same.push(format!("hosts {}", some(good)));
            return;
        }
        let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
        let shared = good.intersection(bad).count();
        let difference = Difference {
            section: Section::Size,
            name: "hosts".into(),
            change: Change::Changed,
            good: only(good, bad),
            bad: only(bad, good),
            ranks: String::new(),
            note: if shared > 0 { format!("{shared} host(s) are in both") } else { String::new() },
            good_line: None,
            bad_line: None,
        };
        // Another node is where to look when nothing else differs.
        self.out.push(((6, 9, "hosts".into()), difference));
    }

    /// Warnings and exceptions that only one of them has.
    fn told(&mut self) {
        let mut gone = Vec::new();
        for (key, told) in &self.bad.told {
            match self.good.told.get(key) {
                None => self.new_message(told, String::new()),
                Some(before) if told.count >= FLOOD.1 && told.count / FLOOD.0 >= before.count => {
                    let note = format!("{} times, {} in the good job", told.count, before.count);
                    self.new_message(&Told { weight: told.weight + 2, ..told.clone() }, note);
                }
                Some(_) => {}
            }
        }
        for (key, told) in &self.good.told {
            if !self.bad.told.contains_key(key) && told.weight < 5 {
                gone.push(told);
            }
        }
        for told in gone {
            let difference = Difference {
                section: Section::Message,
                name: told.title.clone(),
                change: Change::OnlyGood,
                good: vec![times(told.count)],
                bad: Vec::new(),
                ranks: String::new(),
                note: told.note.into(),
                good_line: told.line.clone(),
                bad_line: None,
            };
            self.out.push(((10, told.weight, told.title.clone()), difference));
        }
    }

    fn new_message(&mut self, told: &Told, more: String) {
        let note = [told.note, &more].into_iter().filter(|n| !n.is_empty()).collect::<Vec<_>>().join("; ");
        let place = told.line.as_ref().map_or(String::new(), |l| format!("{} {:012}", l.source, l.line));
        let difference = Difference {
            section: Section::Message,
            name: told.title.clone(),
            change: Change::OnlyBad,
            good: Vec::new(),
            bad: vec![times(told.count)],
            ranks: told.ranks.to_string(),
            note,
            good_line: None,
            bad_line: told.line.clone(),
        };
        let class = if told.weight >= 5 { 10 } else { 7 };
        self.out.push(((class, told.weight, place), difference));
    }

    fn ends(&mut self) {
        let (good, bad) = (self.good, self.bad);
        if good.side.end != bad.side.end {
            let how = |p: &Profile| match p.how.is_empty() {
                true => p.side.end.to_string(),
                false => format!("{} ({})", p.side.end, p.how),
            };
            let difference = Difference {
                section: Section::End,
                name: "end of the run".into(),
                change: Change::Changed,
                good: vec![how(good)],
                bad: vec![how(bad)],
                ranks: String::new(),
                note: String::new(),
                good_line: good.end_line.clone(),
                bad_line: bad.end_line.clone(),
            };
            self.out.push(((8, 0, String::new()), difference));
        }
        for (words, (ranks, line)) in &bad.ends {
            if good.ends.contains_key(words) {
                continue;
            }
            let name = match words.split(' ').next() {
                Some("ended" | "killed") => words.clone(),
                _ => format!("ended by {words}"),
            };
            let who = if ranks.is_empty() { "a process".to_string() } else { format!("rank {ranks}") };
            let difference = Difference {
                section: Section::End,
                name,
                change: Change::OnlyBad,
                good: Vec::new(),
                bad: vec![who],
                ranks: ranks.to_string(),
                note: String::new(),
                good_line: None,
                bad_line: Some(line.clone()),
            };
            let launcher = u8::from(words.contains("launcher"));
            self.out.push(((8, 1 + launcher, words.clone()), difference));
        }
        let silent = bad.silent.minus(&good.silent);
        if !silent.is_empty() {
            let difference = Difference {
                section: Section::End,
                name: "silent before the others".into(),
                change: Change::OnlyBad,
                good: Vec::new(),
                bad: vec![format!("rank {silent}")],
                ranks: silent.to_string(),
                note: String::new(),
                good_line: None,
                bad_line: None,
            };
            self.out.push(((8, 3, String::new()), difference));
        }
    }

    fn speed(&mut self) {
        for (name, good) in &self.good.speeds {
            let Some(bad) = self.bad.speeds.get(name) else { continue };
            let faster = if good.more_is_faster { bad.value / good.value } else { good.value / bad.value };
            if !faster.is_finite() || faster <= 0.0 {
                continue;
            }
            if (faster.max(1.0 / faster) - 1.0) < SAME_SPEED {
                self.same.push(format!("{name} (within {:.0} %)", SAME_SPEED * 100.0));
                continue;
            }
            let note = match faster < 1.0 {
                true => format!("the bad job is {:.1} times slower", 1.0 / faster),
                false => format!("the bad job is {faster:.1} times faster"),
            };
            let difference = Difference {
                section: Section::Speed,
                name: name.clone(),
                change: Change::Changed,
                good: vec![figure(good.value)],
                bad: vec![figure(bad.value)],
                ranks: String::new(),
                note,
                good_line: good.line.clone(),
                bad_line: bad.line.clone(),
            };
            self.out.push(((9, 0, name.clone()), difference));
        }
    }
}

fn by_nccl(held: &Held) -> bool {
    held.messages.iter().any(|m| m.starts_with("nccl."))
}

/// A listing has a variable as it was set, NCCL as it understood it: where both jobs tell it in the same way, that is
/// what counts.
fn alike_told(section: Section, good: &Values, bad: &Values) -> (Values, Values) {
    let messages = |values: &Values| -> BTreeSet<String> {
        values.values().flat_map(|h| h.messages.iter().cloned()).collect()
    };
    let shared: BTreeSet<String> = messages(good).intersection(&messages(bad)).cloned().collect();
    let told = |values: &Values| -> Values {
        let keep =
            |h: &Held| section != Section::Setting || shared.is_empty() || !h.messages.is_disjoint(&shared);
        values.iter().filter(|(_, h)| keep(h)).map(|(k, h)| (k.clone(), h.clone())).collect()
    };
    (told(good), told(bad))
}

/// Why it cannot be told whether the other job has it too.
fn note(section: Section, change: Change, nccl: bool) -> String {
    let text = match (section, change) {
        (Section::Setting, Change::NotShown) if nccl => {
            "the other job ended before NCCL reads all its variables, or prints none"
        }
        (Section::Setting, Change::NotShown) => "the other input has no listing that would show it",
        (Section::Logs, Change::NotShown) => "the other input has none: not written, or not collected",
        (_, Change::NotShown) => "the other input shows no such thing",
        _ => "",
    };
    text.into()
}

/// Whether a job would show a value that the other one has.
fn would_show(profile: &Profile, section: Section, values: &Values) -> bool {
    let shows = &profile.shows;
    values.values().any(|held: &Held| {
        let same_message = held.messages.iter().any(|m| shows.messages.contains(m));
        match section {
            _ if same_message => true,
            // NCCL prints a variable only when it reads it.
            Section::Setting => by_nccl(held) && shows.info && shows.ready,
            Section::Network => shows.info && shows.ready,
            Section::Setup | Section::Transport => shows.info && shows.ready && by_nccl(held),
            _ => false,
        }
    })
}

/// An upper end of two numbers takes all of its patches.
fn end(release: Release) -> String {
    if release.2 == u32::MAX { format!("{}.{}", release.0, release.1) } else { release.to_string() }
}

fn texts(values: &Values) -> Vec<String> {
    values.values().map(|h| h.text.clone()).collect()
}

fn told_same(name: &(Section, String), values: &Values) -> String {
    let text = texts(values);
    let some: Vec<&str> = text.iter().take(3).map(String::as_str).collect();
    let more = if text.len() > 3 { " …" } else { "" };
    match name.0 {
        Section::Setting | Section::Argument => format!("{}={}{more}", name.1, some.join("|")),
        _ => format!("{} {}{more}", name.1, some.join(", ")),
    }
}

fn some(hosts: &BTreeSet<String>) -> String {
    let few: Vec<&str> = hosts.iter().take(4).map(String::as_str).collect();
    let more = if hosts.len() > 4 { format!(" and {} more", hosts.len() - 4) } else { String::new() };
    format!("{}{more}", few.join(", "))
}

fn times(n: u64) -> String {
    if n == 1 { "1 line".into() } else { format!("{n} lines") }
}

/// Three figures that matter.
fn figure(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 4,
    };
    format!("{value:.digits$}")
}
