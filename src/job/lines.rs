//! What lines say of waits, as a [`Trace`] a rank: the watchdog's words, the
//! counters beside them, torch's own comparisons of ranks, monitored barriers,
//! and the trace of collectives that NCCL prints. `waits` joins these with what
//! dumps say. A line that does not tell its group, or whose rank is that of a
//! group only, tells less and never more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::waits::{self, Done, Record, Trace, TraceGroup};
use super::{EventId, Job, slot_of};
use crate::base::RankSet;
use crate::catalogue::{Catalogue, Event, built_in};
use crate::knowledge::{Kind, Role};

/// What one rank says of one group.
#[derive(Debug, Default)]
struct Of {
    desc: String,
    all: bool,
    /// Its number in the group.
    number: Option<u32>,
    /// What it called at which position.
    calls: BTreeMap<i64, (waits::Op, Done)>,
    enqueued: Option<i64>,
    completed: Option<i64>,
    /// Members, where the lines name them all.
    members: Option<RankSet>,
}

#[derive(Debug, Default)]
struct Rank {
    groups: BTreeMap<String, Of>,
    events: Vec<EventId>,
}

/// What all lines say.
#[derive(Debug, Default)]
pub(super) struct Lines {
    ranks: BTreeMap<u32, Rank>,
    /// Groups that have sends and receives: what their counters count does not compare.
    mixed: BTreeSet<String>,
    /// Positions at which a report says that somebody is missing.
    missed: BTreeSet<i64>,
    /// What RAS answered.
    answers: Vec<Answer>,
    /// Some line says that somebody waits or did not come.
    pub(super) hangs: bool,
}

/// Ranks of a communicator that have launched equally many operations.
#[derive(Debug)]
struct Answer {
    source: u32,
    group: String,
    size: u32,
    ranks: RankSet,
    count: i64,
    /// When it was asked, where the answer tells.
    at: String,
    event: EventId,
}

/// Positions that no group was named for yet: rank, number in the group, position, call.
type Open = (u32, Option<u32>, i64, waits::Op, EventId);

/// The group that all ranks are in.
const ALL: &str = "0";
/// The group of which a line tells nothing.
const UNNAMED: &str = "";

/// Reads the lines of the run that is diagnosed.
pub(super) fn read(catalogue: &Catalogue, job: &Job) -> Lines {
    let mut lines = Lines::default();
    let mut open: Vec<Open> = Vec::new();
    for id in job.current().collect::<Vec<_>>() {
        let entry = job.entry(catalogue, id);
        if matches!(entry.role, Role::Harmless) {
            continue;
        }
        match entry.kind {
            Kind::Waits if entry.role != Role::Fact => {
                lines.hangs = true;
                lines.waits(catalogue, job, id, &mut open);
            }
            Kind::Progress => lines.progress(catalogue, job, id),
            // Who does not answer RAS need not be waited for.
            Kind::Absent if entry.id == built_in::RAS_ABSENT => {}
            Kind::Absent => {
                lines.hangs = true;
                lines.absent(catalogue, job, id);
            }
            Kind::Fails => lines.compared(catalogue, job, id),
            _ => {}
        }
    }
    lines.name(open);
    let hangs = lines.hangs;
    lines.answered(job.world, |answers| same_twice(answers) || (hangs && agree(answers)));
    if hangs {
        lines.entered(catalogue, job);
    }
    lines
}

/// How far the ranks have come by what a job at work tells too: NCCL's trace of collectives and the last answer of RAS.
/// It does not say that anybody waits.
pub(super) fn handed(catalogue: &Catalogue, job: &Job) -> Lines {
    let mut lines = Lines::default();
    for id in job.current().collect::<Vec<_>>() {
        if job.entry(catalogue, id).id == built_in::RAS {
            lines.progress(catalogue, job, id);
        }
    }
    lines.answered(job.world, |_| true);
    lines.entered(catalogue, job);
    lines
}

type Answers<'a> = BTreeMap<u32, Vec<&'a Answer>>;

/// All answers count the same.
fn agree(answers: &Answers<'_>) -> bool {
    let shape = |list: &Vec<&Answer>| list.iter().map(|a| (a.count, a.ranks.clone())).collect::<Vec<_>>();
    answers.values().map(shape).collect::<BTreeSet<_>>().len() == 1
}

/// Two answers count the same: asked at different times, as far as they tell the time (the text form does not); the
/// second file may be but a copy.
fn same_twice(answers: &Answers<'_>) -> bool {
    let times: BTreeSet<&str> = answers.values().flatten().map(|a| a.at.as_str()).collect();
    let untold = times.len() == 1 && times.contains("");
    answers.len() > 1 && agree(answers) && (times.len() > 1 || untold)
}

impl Lines {
    fn of(&mut self, rank: u32, group: &str, id: EventId) -> &mut Of {
        let rank = self.ranks.entry(rank).or_default();
        if rank.events.len() < 64 && !rank.events.contains(&id) {
            rank.events.push(id);
        }
        rank.groups.entry(group.to_string()).or_default()
    }

    /// Events that speak of a rank's waits.
    pub(super) fn events(&self) -> BTreeMap<u32, Vec<EventId>> {
        self.ranks.iter().map(|(rank, r)| (*rank, r.events.clone())).collect()
    }

    /// A rank that stands in an operation, or stood in it until its time was up.
    fn waits(&mut self, catalogue: &Catalogue, job: &Job, id: EventId, open: &mut Vec<Open>) {
        let event = job.event(id);
        let text = |slot| slot_of(catalogue, event, slot);
        let int = |slot| text(slot).and_then(|t| t.trim().parse::<i64>().ok());
        let Some((rank, number)) = whose(catalogue, job, id) else { return };
        let group = text("group").map(str::to_string);
        let op = op_of(catalogue, event, "");
        if let (Some(group), true) = (&group, op.as_ref().is_some_and(paired)) {
            self.mixed.insert(group.clone());
        }
        let Some(seq) = int("seq") else {
            if let (Some(op), None, None) =
                (text("op").filter(|o| o.contains("barrier")), &group, int("timeout_ms"))
            {
                // One that is not numbered: there is one at a time.
                let call = waits::Op { name: op.to_string(), ..waits::Op::default() };
                let of = self.of(rank, op, id);
                of.all = true;
                of.calls.insert(1, (call, Done::Failed));
            } else if let (Some(group), Some(enqueued)) = (&group, int("enqueued")) {
                self.counters(rank, number, group, text("desc"), (Some(enqueued), int("completed")), id);
            }
            return;
        };
        match (group, op) {
            (Some(group), op) => {
                let of = self.counters(
                    rank,
                    number,
                    &group,
                    text("desc"),
                    (int("enqueued"), int("completed")),
                    id,
                );
                // What was given up was not done, whatever the abort made of it.
                of.completed = of.completed.map(|c| c.min(seq - 1));
                if let Some(op) = op.filter(|o| !paired(o)) {
                    of.calls.entry(seq).or_insert((op, Done::Failed));
                } else {
                    of.enqueued = of.enqueued.max(Some(seq));
                    of.completed = of.completed.or(Some(seq - 1));
                }
            }
            (None, Some(op)) => open.push((rank, number, seq, op, id)),
            (None, None) => {}
        }
    }

    /// Counters of a rank in a group; what was said first of the end counts, for the abort moves it.
    fn counters(
        &mut self,
        rank: u32,
        number: Option<u32>,
        group: &str,
        desc: Option<&str>,
        (enqueued, completed): (Option<i64>, Option<i64>),
        id: EventId,
    ) -> &mut Of {
        let of = self.of(rank, group, id);
        of.all |= group == ALL || desc == Some("default_pg");
        if of.desc.is_empty() {
            of.desc = desc.unwrap_or_default().to_string();
        }
        of.number = of.number.or(number);
        of.enqueued = of.enqueued.max(enqueued.filter(|e| *e >= 0));
        of.completed = of.completed.or(completed.filter(|c| *c >= 0));
        of
    }

    /// How far a rank has come, by its own counters or by torch's comparison of ranks.
    fn progress(&mut self, catalogue: &Catalogue, job: &Job, id: EventId) {
        let event = job.event(id);
        let text = |slot| slot_of(catalogue, event, slot);
        let int = |slot| text(slot).and_then(|t| t.trim().parse::<i64>().ok());
        if let (Some(ranks), Some(size), Some(count), Some(group)) =
            (text("ranks").and_then(RankSet::parse), int("size"), int("enqueued"), text("group"))
        {
            let source = job.events[id as usize].source;
            let size = u32::try_from(size).unwrap_or(0);
            let at = text("at").unwrap_or_default().to_string();
            self.answers.push(Answer { source, group: group.to_string(), size, ranks, count, at, event: id });
            return;
        }
        if let (Some(ranks), Some(seq)) = (text("ranks").and_then(RankSet::parse), int("seq")) {
            for rank in ranks.iter().take(65_536) {
                self.counters(rank, None, ALL, Some("default_pg"), (Some(seq), Some(seq - 1)), id);
            }
            return;
        }
        let Some((rank, number)) = whose(catalogue, job, id) else { return };
        if let (Some(group), Some(enqueued)) = (text("group"), int("enqueued")) {
            self.counters(rank, number, group, text("desc"), (Some(enqueued), int("completed")), id);
        }
    }

    /// Ranks that a report names as not having come.
    fn absent(&mut self, catalogue: &Catalogue, job: &Job, id: EventId) {
        let event = job.event(id);
        let text = |slot| slot_of(catalogue, event, slot);
        let int = |slot| text(slot).and_then(|t| t.trim().parse::<i64>().ok());
        let Some(ranks) = text("ranks").and_then(RankSet::parse) else { return };
        for rank in ranks.iter().take(65_536) {
            match (text("op"), int("seq")) {
                (Some(op), None) => {
                    let of = self.of(rank, op, id);
                    (of.all, of.enqueued) = (true, Some(0));
                }
                (_, Some(seq)) => {
                    self.missed.insert(seq);
                    self.counters(rank, None, ALL, Some("default_pg"), (Some(seq - 1), Some(seq - 1)), id);
                }
                _ => {}
            }
        }
        // Who reports it has waited there.
        if let (Some(op), None, Some(own)) = (text("op"), int("seq"), own_rank(job, id)) {
            let call = waits::Op { name: op.to_string(), ..waits::Op::default() };
            let of = self.of(own, op, id);
            of.all = true;
            of.calls.insert(1, (call, Done::Failed));
        }
    }

    /// A check that shows both sides of a difference.
    fn compared(&mut self, catalogue: &Catalogue, job: &Job, id: EventId) {
        let event = job.event(id);
        let number = |slot| slot_of(catalogue, event, slot).and_then(|t| t.trim().parse::<u32>().ok());
        let sides = [("", number("rank")), ("peer_", number("peer"))];
        if op_of(catalogue, event, "peer_").is_none() {
            return;
        }
        for (side, rank) in sides {
            let seq = number(if side.is_empty() { "seq" } else { "peer_seq" }).map_or(1, i64::from);
            if let (Some(rank), Some(op)) = (rank, op_of(catalogue, event, side)) {
                let of = self.of(rank, "checked by torch", id);
                of.all = true;
                of.calls.entry(seq).or_insert((op, Done::No));
            }
        }
    }

    /// Finds the groups of operations whose lines do not name one: another line of the rank does, or none.
    fn name(&mut self, open: Vec<Open>) {
        let mut unnamed: Vec<Open> = Vec::new();
        for (rank, number, seq, op, id) in open {
            let known = self.ranks.get(&rank).and_then(|r| {
                // Its counters may tell what is finished and not what is begun.
                let stands = |of: &&Of| of.completed == Some(seq - 1) && of.enqueued.is_none_or(|e| e >= seq);
                // In the group of all a rank's number is the rank.
                let same = |of: &&Of| number.is_none_or(|n| of.number.or(of.all.then_some(rank)) == Some(n));
                let mut fit = r.groups.iter().filter(|g| stands(&g.1) && same(&g.1));
                fit.next().filter(|_| fit.next().is_none()).map(|g| g.0.clone())
            });
            // Who stood at the very position at which the report misses others, stood in the group of the report.
            let reported = self.missed.contains(&seq) && number.is_none_or(|n| n == rank);
            match known {
                Some(group) if paired(&op) => drop(self.mixed.insert(group)),
                Some(group) => {
                    self.of(rank, &group, id).calls.entry(seq).or_insert((op, Done::Failed));
                }
                None if reported && !paired(&op) => {
                    let of =
                        self.counters(rank, None, ALL, Some("default_pg"), (Some(seq), Some(seq - 1)), id);
                    of.calls.entry(seq).or_insert((op, Done::Failed));
                }
                None => unnamed.push((rank, number, seq, op, id)),
            }
        }
        // Without a name the lines are of one group only where everybody's number in it is its rank,
        // and most of them stand at one place.
        let mut places: BTreeMap<i64, usize> = BTreeMap::new();
        unnamed.iter().for_each(|o| *places.entry(o.2).or_default() += 1);
        let most = places.values().max().copied().unwrap_or(0);
        let one = most * 3 >= unnamed.len() * 2
            && unnamed.iter().all(|o| o.1.is_none_or(|n| n == o.0) && !paired(&o.3));
        for (rank, number, seq, op, id) in unnamed {
            let name = if one { UNNAMED.to_string() } else { format!("(of rank {rank})") };
            let of = self.of(rank, &name, id);
            of.number = of.number.or(number);
            of.calls.entry(seq).or_insert((op, Done::Failed));
        }
    }

    /// RAS counts what is launched, in a running job too: `tells` says whether the answers on one communicator, by
    /// source, mean something.
    fn answered(&mut self, world: Option<u32>, tells: impl Fn(&Answers<'_>) -> bool) {
        let answers = std::mem::take(&mut self.answers);
        let largest = world.or(answers.iter().map(|a| a.size).max());
        let mut by: BTreeMap<&str, Answers<'_>> = BTreeMap::new();
        for answer in answers.iter().filter(|a| Some(a.size) == largest && a.size > 0) {
            by.entry(&answer.group).or_default().entry(answer.source).or_default().push(answer);
        }
        for (group, sources) in by {
            let Some(last) = sources.values().next_back().filter(|_| tells(&sources)) else { continue };
            for answer in last {
                let mut members = RankSet::new();
                members.insert_range(0, answer.size - 1);
                for rank in answer.ranks.iter().take(65_536) {
                    let of = self.of(rank, group, answer.event);
                    of.enqueued = Some(answer.count);
                    of.members = Some(members.clone());
                    of.desc = format!("RAS, {} ranks", answer.size);
                }
            }
        }
    }

    /// The last call of each rank on each communicator, as NCCL's trace of collectives has it. The communicator tells
    /// the rank: a process may drive several GPUs.
    fn entered(&mut self, catalogue: &Catalogue, job: &Job) {
        let (Some(opcount), Some(comm)) = (catalogue.field_id("opcount"), catalogue.field_id("comm")) else {
            return;
        };
        let mut events: FxHashMap<(u32, u32), EventId> = FxHashMap::default();
        for id in job.current() {
            if job.entry(catalogue, id).kind == Kind::Enters {
                let place = &job.events[id as usize];
                events.entry((place.source, job.event(id).speaker)).or_insert(id);
            }
        }
        if events.is_empty() {
            return;
        }
        let comms = communicators(catalogue, job);
        let mut all: Vec<_> = Vec::new();
        for (s, source) in job.sources.iter().enumerate() {
            for ((message, speaker, _), said) in &source.states {
                all.push((s as u32, *speaker, said.line, *message, said));
            }
        }
        all.sort_by_key(|a| (a.0, a.1, a.2));
        for (source, speaker, _, message, said) in all {
            let Some(&id) = events.get(&(source, speaker)) else { continue };
            let found = catalogue.find_in_info(&said.text);
            let Some(found) = found.iter().find(|f| f.message == message) else { continue };
            let field = |id| found.fields.iter().find(|f| f.0 == id).map(|f| &*f.1);
            // Sends and receives do not count on.
            if said.text.contains(": Send") || said.text.contains(" Send: ") || said.text.contains(" Recv: ")
            {
                continue;
            }
            let count = field(opcount).and_then(|t| i64::from_str_radix(t, 16).ok());
            let group = field(comm).and_then(|c| comms.get(&(source, speaker, c.to_string())));
            if let (Some(count), Some(c)) = (count, group) {
                // Of the calls of a process only the first line is kept; else the communicator's own line stands for it.
                let own = own_rank(job, id) == Some(c.rank);
                let of = self.of(c.rank, &c.name, if own { id } else { c.event });
                of.enqueued = of.enqueued.max(Some(count));
                of.members = Some(c.members.clone()).filter(|_| c.whole);
                of.desc = format!("communicator of {}", c.members.len());
            }
        }
    }

    /// Where positions in a group do not compare between ranks, who stands there only waits for somebody.
    fn hold(&mut self) {
        let all = |name: &String, of: &Of| of.all || name == UNNAMED || of.members.is_some();
        let seen: BTreeSet<String> = self
            .ranks
            .values()
            .flat_map(|r| {
                r.groups.iter().filter(|g| all(g.0, g.1) || !g.1.calls.is_empty()).map(|g| g.0.clone())
            })
            .collect();
        for (rank, said) in &mut self.ranks {
            let mut held = false;
            said.groups.retain(|name, of| {
                let keep = seen.contains(name) && !self.mixed.contains(name);
                held |= !keep && of.enqueued > of.completed;
                keep
            });
            if held {
                let of = said.groups.entry(format!("(of rank {rank})")).or_default();
                (of.enqueued, of.completed) = (Some(1), Some(0));
            }
        }
    }

    /// One trace a rank. `declared`: what dumps say of groups; `world`: how many ranks there are.
    pub(super) fn traces(mut self, job: &Job, declared: &[Trace], world: Option<u32>) -> Vec<Trace> {
        self.hold();
        let members = self.members(declared, world);
        let mut traces = Vec::new();
        for (rank, said) in std::mem::take(&mut self.ranks) {
            let source = said.events.first().map_or("", |e| job.source_name(*e)).to_string();
            let mut trace = Trace { rank, source, partial: true, ..Trace::default() };
            for (name, of) in said.groups {
                let at = trace.groups.len() as u32;
                let known = members.get(&(name.clone(), rank)).cloned();
                let (ranks, open) = match (of.members, known) {
                    (Some(all), _) => (all, false),
                    (None, Some((ranks, open))) => (ranks, open),
                    (None, None) => (RankSet::from_iter([rank]), !of.all),
                };
                trace.groups.push(TraceGroup {
                    name,
                    desc: of.desc,
                    ranks: if of.all { RankSet::new() } else { ranks },
                    all: of.all,
                    open: open && !of.all,
                    enqueued: of.enqueued,
                    completed: of.completed,
                });
                for (seq, (op, done)) in of.calls {
                    trace.records.push(Record {
                        id: trace.records.len() as u64,
                        group: at,
                        seq: Some(seq),
                        kind: waits::Kind::Collective,
                        done,
                        started: false,
                        created: 0,
                        took: None,
                        timeout_ms: 0,
                        op: Arc::new(op),
                        frames: Arc::from([]),
                    });
                }
            }
            traces.push(trace);
        }
        traces
    }

    /// Members of groups by name and rank, and whether there may be more: declared by dumps, or what the numbers in
    /// the group tell (ranks of a group stand in order).
    fn members(&self, declared: &[Trace], world: Option<u32>) -> BTreeMap<(String, u32), (RankSet, bool)> {
        let mut out = BTreeMap::new();
        let mut numbers: BTreeMap<&str, Vec<(u32, Option<u32>)>> = BTreeMap::new();
        for (rank, said) in &self.ranks {
            for (name, of) in said.groups.iter().filter(|g| !g.1.all) {
                numbers.entry(name).or_default().push((*rank, of.number));
            }
        }
        for trace in declared {
            for group in trace.groups.iter().filter(|g| !g.ranks.is_empty()) {
                for rank in group
                    .ranks
                    .iter()
                    .filter(|r| numbers.get(group.name.as_str()).is_some_and(|n| n.iter().any(|x| x.0 == *r)))
                {
                    out.entry((group.name.clone(), rank)).or_insert((group.ranks.clone(), false));
                }
            }
        }
        for (name, list) in numbers {
            let (ranks, open) = infer(&list, world);
            for (rank, _) in &list {
                let own = if ranks.contains(*rank) {
                    (ranks.clone(), open)
                } else {
                    (RankSet::from_iter([*rank]), true)
                };
                out.entry((name.to_string(), *rank)).or_insert(own);
            }
        }
        out
    }
}

/// Members that follow from who said which number it has; nobody where two claim one number.
fn infer(list: &[(u32, Option<u32>)], world: Option<u32>) -> (RankSet, bool) {
    let mut ranks: RankSet = list.iter().map(|l| l.0).collect();
    let mut known: Vec<(u32, u32)> = list.iter().filter_map(|l| Some((l.1?, l.0))).collect();
    known.sort_unstable();
    if known.windows(2).any(|w| w[0].0 == w[1].0 || w[0].1 >= w[1].1) {
        return (RankSet::new(), true);
    }
    if let Some(first) = known.first().filter(|f| f.0 == f.1) {
        ranks.insert_range(0, first.1);
    }
    for pair in known.windows(2) {
        let (numbers, between) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
        // As many ranks between as numbers: then each of them belongs to it; else an even stride is most likely.
        if between % numbers == 0 {
            let stride = between / numbers;
            (0..=numbers).for_each(|k| ranks.insert(pair[0].1 + k * stride));
        }
    }
    let last = known.last().is_some_and(|l| l.0 == l.1 && world == Some(l.1 + 1));
    (ranks, !last)
}

/// A send or receive, or several at once: only some ranks of the group take part.
fn paired(op: &waits::Op) -> bool {
    let name = op.name.trim_start_matches('_').to_ascii_lowercase();
    ["send", "recv", "coalesced", "batch"].iter().any(|p| name.starts_with(p))
}

/// The rank that a line is about and its number in the group; nothing where the number alone is known and the group
/// is a part of all.
fn whose(catalogue: &Catalogue, job: &Job, id: EventId) -> Option<(u32, Option<u32>)> {
    let event = job.event(id);
    let number = |slot| slot_of(catalogue, event, slot).and_then(|t| t.trim().parse::<u32>().ok());
    let in_group = number("group_rank").or_else(|| number("member"));
    let all = matches!(slot_of(catalogue, event, "group"), None | Some(ALL))
        || slot_of(catalogue, event, "desc") == Some("default_pg");
    match own_rank(job, id) {
        Some(rank) => Some((rank, in_group)),
        None => job.events[id as usize].rank.filter(|_| all).map(|r| (r, in_group)),
    }
}

/// The rank of the process whose words these are.
fn own_rank(job: &Job, id: EventId) -> Option<u32> {
    let place = &job.events[id as usize];
    let process = &job.processes[place.process? as usize];
    let dev = job.event(id).dev;
    dev.and_then(|d| process.by_dev.get(&d).copied()).or(process.rank)
}

/// What was called: name, elements, type.
fn op_of(catalogue: &Catalogue, event: &Event, side: &str) -> Option<waits::Op> {
    let text = |slot: &str| slot_of(catalogue, event, &format!("{side}{slot}")).map(str::trim);
    let name = text("op")?.to_string();
    let dims = |t: &str| t.split(',').filter_map(|d| d.trim().parse().ok()).collect::<Vec<i64>>();
    let int = |slot: &str| text(slot).and_then(|t| t.parse::<i64>().ok());
    let input = text("shape").map(dims).or_else(|| int("numel").map(|n| vec![n]));
    let output = int("numel_out").map(|n| vec![n]).or_else(|| input.clone());
    let dtypes: Vec<String> = text("dtype").map(str::to_string).into_iter().collect();
    Some(waits::Op {
        name,
        inputs: input.into_iter().collect(),
        outputs: output.into_iter().collect(),
        input_dtypes: dtypes.clone(),
        output_dtypes: dtypes,
    })
}

/// A communicator as one rank holds it.
struct Communicator {
    name: String,
    /// Its rank in the job.
    rank: u32,
    /// The line that names it.
    event: EventId,
    /// By global rank.
    members: RankSet,
    /// All are known.
    whole: bool,
}

/// Source, speaker and pointer.
type Pointer = (u32, u32, String);
type Communicators = FxHashMap<Pointer, Communicator>;

fn communicators(catalogue: &Catalogue, job: &Job) -> Communicators {
    let mut members: BTreeMap<String, (u32, RankSet)> = BTreeMap::new();
    let mut names: Vec<(Pointer, String, u32, EventId)> = Vec::new();
    for id in job.current() {
        if job.entry(catalogue, id).kind != Kind::Comm {
            continue;
        }
        let event = job.event(id);
        let text = |slot| slot_of(catalogue, event, slot);
        let (Some(comm), Some(hash), Some(size)) = (text("comm"), text("comm_id"), text("nranks")) else {
            continue;
        };
        let Ok(size) = size.trim().parse::<u32>() else { continue };
        let Some(rank) = own_rank(job, id) else { continue };
        let slot = members.entry(hash.to_string()).or_insert((size, RankSet::new()));
        slot.1.insert(rank);
        let key = (job.events[id as usize].source, event.speaker, comm.to_string());
        names.push((key, hash.to_string(), rank, id));
    }
    let mut all: FxHashMap<String, (RankSet, bool)> = FxHashMap::default();
    for (hash, (size, mut ranks)) in members {
        if job.world == Some(size) && (1..=1 << 20).contains(&size) {
            ranks.insert_range(0, size - 1);
        }
        let whole = ranks.len() == size as usize;
        all.insert(hash, (ranks, whole));
    }
    let mut out = Communicators::default();
    for (key, name, rank, event) in names {
        if let Some((members, whole)) = all.get(&name) {
            let (members, whole) = (members.clone(), *whole);
            out.insert(key, Communicator { name, rank, event, members, whole });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::infer;

    fn told(list: &[(u32, u32)], world: Option<u32>) -> (String, bool) {
        let list: Vec<_> = list.iter().map(|(rank, number)| (*rank, Some(*number))).collect();
        let (ranks, open) = infer(&list, world);
        (ranks.to_string(), open)
    }

    #[test]
    fn numbers_in_a_group_tell_members() {
        // As many ranks between as numbers, an even stride, and all below one whose number is its rank.
        assert_eq!(told(&[(4, 0), (6, 2), (7, 3)], Some(8)), ("4-7".into(), true));
        assert_eq!(told(&[(1, 0), (9, 2)], Some(16)), ("1,5,9".into(), true));
        assert_eq!(told(&[(3, 3)], Some(8)), ("0-3".into(), true));
        assert_eq!(told(&[(5, 5), (7, 7)], Some(8)), ("0-7".into(), false));
    }

    #[test]
    fn one_number_twice_is_two_groups() {
        assert_eq!(told(&[(1, 1), (5, 1)], Some(8)), (String::new(), true));
    }
}
