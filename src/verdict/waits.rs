//! The view of who waits for whom: what the model of waits holds, with what is
//! alike made one, so that it can be read at any number of ranks.

use crate::base::RankSet;
use crate::catalogue::{Catalogue, built_in};
use crate::job::waits::{FaultKind, GroupFront, Stand, Sure};
use crate::job::{Document, EventId, Job, fault_name, last_steps};
use crate::report::Report;
use crate::report::waits::{Front, Group, Root, Stack, Step, Wait, Waits};
use std::collections::{BTreeMap, BTreeSet};

/// Builds the view. `report`: of the same job, for what its input does not show.
#[must_use]
pub fn waits(catalogue: &Catalogue, job: &Job, report: &Report) -> Waits {
    let mut view = Waits { schema: "ncclcheck.waits/1", ..Waits::default() };
    if !job.dumps.is_empty() {
        view.read.push(format!("Flight Recorder dumps of {}", ranks(&job.dumps)));
    }
    let lines: RankSet = job.wait_lines.keys().copied().collect();
    if !lines.is_empty() {
        view.read.push(format!("lines about waits of {}", ranks(&lines)));
    }
    let answers = answers(catalogue, job);
    if !job.handed.is_empty() {
        let what = if answers.is_some() { "answers of RAS" } else { "NCCL's trace of collectives" };
        view.read.push(format!("{what} on {}", ranks(&job.handed)));
    }
    view.stacks = stacks(job);
    if !view.stacks.is_empty() {
        view.read.push(format!("stacks of {} processes", job.stacks.len()));
    }
    view.steps = steps(catalogue, job);
    if let Some(found) = &job.waits {
        view.roots = found.faults.iter().map(|f| root(job, f)).collect();
        let culprits = found.faults.iter().fold(RankSet::new(), |mut all, f| {
            all.extend(&f.ranks);
            all
        });
        view.waits = stands(&found.stands, &culprits);
        view.groups = groups(&found.groups);
        view.problems.clone_from(&found.problems);
        view.problems.extend(found.contradictions.iter().cloned());
    }
    view.roots.extend(unheard(catalogue, job));
    let nobodys = job.sources.iter().filter(|s| matches!(s.document, Some(Document::Nobodys)));
    let nobodys: Vec<&str> = nobodys.map(|s| s.name.as_str()).collect();
    if let Some(first) = nobodys.first() {
        let more = if nobodys.len() > 1 { format!(" and {} more", nobodys.len() - 1) } else { String::new() };
        view.problems.push(format!(
            "Flight Recorder dumps whose names do not end in a rank, left out: {first}{more} (a dump does not say whose it is: \
             name them as dump_0, dump_1, or put each into a folder rank_N)"
        ));
    }
    view.summary = summary(job, &view);
    let asked = view.roots.iter().all(|r| r.sure == "guess" || r.ranks.is_empty());
    if asked {
        view.not_seen.clone_from(&report.not_seen);
        if view.waits.is_empty() && view.not_seen.is_empty() {
            view.not_seen.push(COLLECT.into());
        }
    }
    view
}

const COLLECT: &str = "Flight Recorder dumps of all ranks (TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and \
                       TORCH_NCCL_DUMP_ON_TIMEOUT=1), or the logs of all ranks with the watchdogs' lines; while it \
                       hangs also ncclras and py-spy dump --pid PID of every rank.";

fn ranks(set: &RankSet) -> String {
    format!("rank{} {set}", if set.len() == 1 { "" } else { "s" })
}

fn summary(job: &Job, view: &Waits) -> String {
    let stand: usize = view.waits.iter().filter_map(|w| RankSet::parse(&w.ranks)).map(|r| r.len()).sum();
    match (view.roots.first(), stand) {
        (Some(root), _) if !root.ranks.is_empty() => {
            let set = RankSet::parse(&root.ranks).unwrap_or_default();
            let held = RankSet::parse(&root.waiting).map_or(0, |r| r.minus(&set).len());
            let behind = RankSet::parse(&root.behind).map_or(0, |r| r.len());
            let (who, one) = (ranks(&set), set.len() == 1);
            let others = match behind {
                0 => String::new(),
                1 => ", and 1 more waits for those".into(),
                n => format!(", and {n} more wait for those"),
            };
            let (op, group) = (&root.op, &root.group);
            if root.kind == "no-dump" && root.sure == "guess" {
                let n = RankSet::parse(&root.waiting).unwrap_or_default();
                let verb = if n.len() == 1 { "waits" } else { "wait" };
                return format!(
                    "{} {verb} in {op} of {group}, and the input does not show for whom.",
                    ranks(&n)
                );
            }
            if held > 0 {
                let verb = if one { "holds" } else { "hold" };
                let s = if held == 1 { "" } else { "s" };
                return format!("{who} {verb} up {held} rank{s} in {op} of {group}{others}.");
            }
            match root.kind {
                _ if op.is_empty() => format!("{}.", root.detail),
                "stuck" if one => {
                    format!("{who} has not finished {op} of {group}, which others have{others}.")
                }
                "stuck" => format!("{who} have not finished {op} of {group}, which others have{others}."),
                "mismatch" => format!("{who} do not agree in {op} of {group}{others}."),
                _ if one => format!("{who} waits in {op} of {group} for what does not come{others}."),
                _ => format!("{who} wait for one another, in {op} of {group} and others{others}."),
            }
        }
        (Some(root), _) if root.op.is_empty() => format!("{}.", root.detail),
        (Some(root), _) => format!("All have entered {} of {} and it does not end.", root.op, root.group),
        (None, 0) if !job.stacks.is_empty() => of_stacks(job),
        (None, 0) if job.waits.is_none() && !view.problems.is_empty() => {
            "The input shows no waits: what was given of them could not be used, see below.".into()
        }
        (None, 0) if job.waits.is_none() => {
            "The input shows no waits: neither dumps nor lines that tell who waits in what.".into()
        }
        (None, 0) if !job.handed.is_empty() => {
            let apart =
                view.groups.iter().any(|g| g.fronts.iter().filter(|f| f.entered.is_some()).count() > 1);
            let how = if apart {
                "have not handed over equally many operations, as in any job at work"
            } else {
                "have handed over equally many operations"
            };
            format!("Nothing says that a rank waits. The ranks {how}.")
        }
        (None, 0) => "No rank is seen waiting for another.".into(),
        (None, 1) => "1 rank waits, and the input does not show for whom.".into(),
        (None, n) => format!("{n} ranks wait, and the input does not show for whom."),
    }
}

/// What stacks alone tell.
fn of_stacks(job: &Job) -> String {
    let (wait, busy): (Vec<_>, Vec<_>) = job.stacks.iter().partition(|s| s.waits);
    match (wait.len(), busy.len()) {
        (0, _) => "By the stacks no rank stands in a collective.".into(),
        (1, 0) => "By its stack the process stands in a collective or waits for its device.".into(),
        (n, 0) => {
            format!("By their stacks all {n} processes stand in a collective or wait for their devices.")
        }
        (n, _) => {
            let set: RankSet = busy.iter().filter_map(|s| s.rank).collect();
            let at = busy.iter().find_map(|s| s.frames.first()).map_or("", String::as_str);
            let who = match busy.len() {
                all if set.len() == all => ranks(&set),
                1 => busy[0].name.clone(),
                all => format!("{all} processes"),
            };
            let stand = if busy.len() == 1 { "stands" } else { "stand" };
            let others = if n == 1 { "1 other stands".into() } else { format!("{n} others stand") };
            format!(
                "By the stacks {who} {stand} in {at} while {others} in a collective or wait for their devices."
            )
        }
    }
}

/// An event of an answer of RAS.
fn answers(catalogue: &Catalogue, job: &Job) -> Option<EventId> {
    job.current().find(|e| job.entry(catalogue, *e).id == built_in::RAS)
}

/// Those of whom RAS hears nothing. They stand where nothing else shows a root.
fn unheard(catalogue: &Catalogue, job: &Job) -> Vec<Root> {
    let of_ras = |e: &EventId| job.entry(catalogue, *e).id == built_in::RAS_ABSENT;
    job.current()
        .filter(of_ras)
        .take(8)
        .map(|e| Root {
            kind: "no-answer",
            ranks: job.slot(catalogue, e, "ranks").unwrap_or_default().to_string(),
            group: String::new(),
            op: String::new(),
            detail: format!("by NCCL's RAS {}", job.event(e).text),
            waiting: String::new(),
            behind: String::new(),
            sure: if job.slot(catalogue, e, "dead") == Some("yes") { "likely" } else { "guess" },
            at: Vec::new(),
            waiter_at: Vec::new(),
        })
        .collect()
}

fn root(job: &Job, f: &crate::job::waits::Fault) -> Root {
    let own = f.ranks.first().and_then(|r| job.stack_of(r));
    let others = f.waiting.iter().find(|r| !f.ranks.contains(*r)).and_then(|r| job.stack_of(r));
    Root {
        kind: fault_name(&f.kind),
        ranks: f.ranks.to_string(),
        group: f.group.clone(),
        op: f.op.clone(),
        detail: f.detail.clone(),
        waiting: f.waiting.to_string(),
        behind: f.behind.to_string(),
        sure: match f.sure {
            Sure::Certain => "certain",
            Sure::Likely => "likely",
            Sure::Guess => "guess",
        },
        // A stack taken while it hung says more than that of the last call.
        at: own.map(|s| s.frames.clone()).filter(|f| !f.is_empty()).unwrap_or_else(|| match f.kind {
            FaultKind::StuckAll => Vec::new(),
            _ => f.frames.clone(),
        }),
        waiter_at: others
            .map(|s| s.frames.clone())
            .filter(|f| !f.is_empty())
            .unwrap_or_else(|| f.waiter_frames.clone()),
    }
}

/// Those in which a culprit is lacked stand alone; others that do the same part in other groups are one line.
fn stands(list: &[Stand], culprits: &RankSet) -> Vec<Wait> {
    struct Alike<'s> {
        first: &'s Stand,
        waiting: RankSet,
        lacks: BTreeMap<&'static str, RankSet>,
        groups: BTreeSet<&'s str>,
        ops: BTreeSet<&'s str>,
    }
    let mut own = Vec::new();
    let mut by: BTreeMap<(&str, &str, Vec<&'static str>, bool), Alike<'_>> = BTreeMap::new();
    for stand in list.iter().filter(|s| !s.waiting.is_empty()) {
        if stand.lacks.iter().any(|l| l.0.meets(culprits)) {
            own.push(wait(&stand.waiting, stand, stand.group.clone(), stand.lacks.clone()));
            continue;
        }
        let why: Vec<&'static str> = stand.lacks.iter().map(|l| l.1).collect();
        let name = stand.op.split([' ', '#']).next().unwrap_or("");
        let alike = by.entry((&stand.part, name, why, stand.loose)).or_insert_with(|| Alike {
            first: stand,
            waiting: RankSet::new(),
            lacks: BTreeMap::new(),
            groups: BTreeSet::new(),
            ops: BTreeSet::new(),
        });
        alike.groups.insert(&stand.group);
        alike.ops.insert(&stand.op);
        alike.waiting.extend(&stand.waiting);
        for (ranks, why) in &stand.lacks {
            alike.lacks.entry(why).or_default().extend(ranks);
        }
    }
    let mut rest: Vec<(usize, Wait)> = by
        .into_values()
        .map(|a| {
            let group = match a.groups.len() {
                1 => a.first.group.clone(),
                n => format!("{n} groups like {}", a.first.group),
            };
            let lacks = a.lacks.into_iter().map(|(why, ranks)| (ranks, why)).collect();
            let mut one = wait(&a.waiting, a.first, group, lacks);
            if a.ops.len() > 1 {
                one.op = one.op.split(' ').next().unwrap_or("").to_string();
            }
            (a.waiting.len(), one)
        })
        .collect();
    rest.sort_by_key(|r| std::cmp::Reverse(r.0));
    own.extend(rest.into_iter().map(|r| r.1));
    own
}

fn wait(waiting: &RankSet, stand: &Stand, group: String, lacks: Vec<(RankSet, &'static str)>) -> Wait {
    Wait {
        ranks: waiting.to_string(),
        op: stand.op.clone(),
        group,
        lacks: lacks.into_iter().map(|(r, why)| (r.to_string(), why)).collect(),
        loose: stand.loose,
    }
}

/// A group with the places at which its ranks are.
type Fronted<'g> = (&'g GroupFront, Vec<Front>);
/// Ranks, processes without a rank, and by what, of one stack.
type Standing = (RankSet, Vec<String>, String);
/// Whether it is known, entered and finished, of each front.
type Shape = Vec<(bool, Option<i64>, Option<i64>)>;

/// Groups in which ranks have come unequally far stand alone; those that are alike are one line.
fn groups(list: &[GroupFront]) -> Vec<Group> {
    let mut uneven: Vec<Group> = Vec::new();
    let mut alike: BTreeMap<(&str, Shape), Vec<Fronted<'_>>> = BTreeMap::new();
    let mut even: BTreeMap<(&str, usize), Vec<Fronted<'_>>> = BTreeMap::new();
    for group in list {
        let fronts = fronts(group);
        if fronts.len() > 1 {
            let shape = fronts.iter().map(|f| (f.known, f.entered, f.finished)).collect();
            alike.entry((&group.part, shape)).or_default().push((group, fronts));
        } else {
            even.entry((&group.part, group.members.len())).or_default().push((group, fronts));
        }
    }
    for list in alike.into_values() {
        if list.len() <= 2 {
            uneven.extend(list.into_iter().map(|(g, f)| view(g, f)));
            continue;
        }
        // The same fronts in each: one line for all of them.
        let mut one = view(list[0].0, list[0].1.clone());
        one.name = format!("{} groups like {}", list.len(), one.name);
        for (n, front) in one.fronts.iter_mut().enumerate() {
            let all = list.iter().filter_map(|l| RankSet::parse(&l.1.get(n)?.ranks));
            front.ranks = union(all).to_string();
        }
        one.members = union(list.iter().map(|l| l.0.members.clone())).to_string();
        uneven.push(one);
    }
    for ((_, size), mut alike) in even {
        if alike.len() <= 2 {
            uneven.extend(alike.into_iter().map(|(g, f)| view(g, f)));
            continue;
        }
        let mut all = RankSet::new();
        alike.iter().for_each(|a| all.extend(&a.0.members));
        let range = |of: fn(&Front) -> Option<i64>| {
            let mut values: Vec<i64> = alike.iter().flat_map(|a| a.1.iter().filter_map(of)).collect();
            values.sort_unstable();
            values.first().copied().zip(values.last().copied())
        };
        let (entered, finished) = (range(|f| f.entered), range(|f| f.finished));
        let open = alike.iter().any(|a| a.0.open);
        let count = alike.len();
        let (first, _) = alike.swap_remove(0);
        let same = |r: Option<(i64, i64)>| r.filter(|r| r.0 == r.1).map(|r| r.0);
        let front = Front {
            ranks: all.to_string(),
            entered: same(entered),
            finished: same(finished),
            known: entered.is_some(),
        };
        let spread =
            entered.filter(|e| e.0 != e.1).map_or_else(String::new, |e| format!(", at {} to {}", e.0, e.1));
        uneven.push(Group {
            name: format!("{count} groups of {size} like {}{spread}", first.name),
            members: all.to_string(),
            open,
            fronts: vec![front],
        });
    }
    uneven
}

fn union(sets: impl Iterator<Item = RankSet>) -> RankSet {
    sets.fold(RankSet::new(), |mut all, set| {
        all.extend(&set);
        all
    })
}

fn view(group: &GroupFront, fronts: Vec<Front>) -> Group {
    Group { name: group.name.clone(), members: group.members.to_string(), open: group.open, fronts }
}

fn fronts(group: &GroupFront) -> Vec<Front> {
    let mut by: BTreeMap<(bool, Option<i64>, Option<i64>), RankSet> = BTreeMap::new();
    for front in &group.fronts {
        by.entry((!front.unknown, front.enqueued, front.completed)).or_default().insert(front.rank);
    }
    // Who has come least far first: that is where to look.
    by.into_iter()
        .map(|((known, entered, finished), ranks)| Front {
            ranks: ranks.to_string(),
            entered,
            finished,
            known,
        })
        .collect()
}

fn stacks(job: &Job) -> Vec<Stack> {
    let mut by: BTreeMap<(&[String], &str), Standing> = BTreeMap::new();
    for stack in &job.stacks {
        let slot = by.entry((&stack.frames, stack.by)).or_default();
        match stack.rank {
            Some(rank) => slot.0.insert(rank),
            None => slot.1.push(stack.name.clone()),
        }
        if slot.2.is_empty() {
            slot.2 = format!("{}, {}", stack.by, job.sources[stack.source as usize].name);
        }
    }
    let mut list: Vec<(usize, Stack)> = by
        .into_iter()
        .map(|((frames, _), (set, names, source))| {
            let mut who = if set.is_empty() { Vec::new() } else { vec![set.to_string()] };
            who.extend(names.iter().take(4).cloned());
            (set.len() + names.len(), Stack { who: who.join(", "), at: frames.to_vec(), source })
        })
        .collect();
    // The odd one out first.
    list.sort_by(|a, b| (a.0, &a.1.who).cmp(&(b.0, &b.1.who)));
    list.into_iter().map(|l| l.1).collect()
}

fn steps(catalogue: &Catalogue, job: &Job) -> Vec<Step> {
    let mut by: BTreeMap<i64, RankSet> = BTreeMap::new();
    for (rank, step) in last_steps(catalogue, job) {
        by.entry(step).or_default().insert(rank);
    }
    if by.values().map(RankSet::len).sum::<usize>() < 2 {
        return Vec::new();
    }
    by.into_iter().map(|(step, ranks)| Step { ranks: ranks.to_string(), step }).collect()
}
