//! Cause and consequence among findings, and how sure each is.

use crate::catalogue::Catalogue;
use crate::job::{EventId, Job, State};
use crate::knowledge::{Knowledge, Place};
use crate::rules::Finding;

/// A finding in its place.
#[derive(Debug, Clone)]
pub struct Ordered {
    /// The finding.
    pub finding: Finding,
    /// Index of the finding that explains it.
    pub under: Option<usize>,
    /// 0 to 1.
    pub confidence: f64,
    /// Whether the job shows that it was survived.
    pub survived: bool,
}

/// Orders findings: those that nothing explains first, the likeliest on top.
#[must_use]
pub fn order(
    knowledge: &Knowledge,
    catalogue: &Catalogue,
    job: &Job,
    findings: Vec<Finding>,
) -> Vec<Ordered> {
    let mut all: Vec<Ordered> = findings
        .into_iter()
        .map(|finding| {
            let survived = survived(knowledge, catalogue, job, &finding);
            Ordered { finding, under: None, confidence: 0.0, survived }
        })
        .collect();
    for b in 0..all.len() {
        let mut best: Option<usize> = None;
        for a in 0..all.len() {
            if a != b
                && all[a].survived == all[b].survived
                && explains(knowledge, job, &all[a].finding, &all[b].finding)
                && !apart(job, &all[a].finding, &all[b].finding)
                && best.is_none_or(|x| weight(&all[a].finding) > weight(&all[x].finding))
            {
                best = Some(a);
            }
        }
        all[b].under = best;
    }
    break_circles(&mut all);
    weigh(knowledge, &mut all);
    let mut index: Vec<usize> = (0..all.len()).collect();
    index.sort_by(|&x, &y| {
        key(knowledge, job, &all[y])
            .partial_cmp(&key(knowledge, job, &all[x]))
            .unwrap_or(std::cmp::Ordering::Equal)
            .then(all[x].finding.rule.cmp(&all[y].finding.rule))
    });
    let mut back = vec![0; all.len()];
    for (new, &old) in index.iter().enumerate() {
        back[old] = new;
    }
    index
        .into_iter()
        .map(|old| {
            let mut o = all[old].clone();
            o.under = o.under.map(|u| back[u]);
            o
        })
        .collect()
}

/// What is greater comes first.
fn key(knowledge: &Knowledge, job: &Job, o: &Ordered) -> (bool, bool, bool, f64, i64) {
    let rule = &knowledge.rules[o.finding.rule].0;
    let place = match o.finding.place {
        Place::Root => 0.5,
        Place::Local => 0.35,
        Place::Victim => -1.2,
        Place::Fallback => -2.0,
    };
    let first = first_time(job, &o.finding).map_or(0, |t| -t);
    (o.under.is_none(), !o.survived, rule.severity == "fatal", o.finding.odds + place, first)
}

fn weight(f: &Finding) -> f64 {
    f.odds
        + match f.place {
            Place::Root => 0.5,
            Place::Local => 0.3,
            Place::Victim => -1.0,
            Place::Fallback => -2.0,
        }
}

/// Whether `a` explains `b`.
fn explains(knowledge: &Knowledge, job: &Job, a: &Finding, b: &Finding) -> bool {
    let (ra, rb) = (&knowledge.rules[a.rule].0, &knowledge.rules[b.rule].0);
    if rb.severity == "fatal" && ra.severity != "fatal" {
        return false;
    }
    if ra.severity == "fatal" && rb.severity == "degraded" {
        return false; // that something is slow stays visible beside it
    }
    // A weak guess explains no strong observation, except that victims and fallbacks always have a reason.
    let wanted = match b.place {
        Place::Fallback => b.odds.min(0.4),
        Place::Victim => b.odds.min(1.0),
        _ => b.odds.min(1.5),
    };
    let enough = a.odds >= wanted;
    let named = ra.explains.iter().any(|e| knowledge.covers(&e.what, &rb.id) && in_scope(&e.scope, a, b));
    if named && enough {
        return true;
    }
    let back = rb.explains.iter().any(|e| knowledge.covers(&e.what, &ra.id) && in_scope(&e.scope, b, a));
    if back || plainly_later(job, a, b) {
        return false;
    }
    a.place < b.place && enough
}

/// Whether the waits show both as faults of their own, on different ranks: neither holds the other up.
fn apart(job: &Job, a: &Finding, b: &Finding) -> bool {
    let own = |f: &Finding| {
        let faults = job.waits.iter().flat_map(|w| &w.faults);
        let mut shown = faults.filter(|x| x.is_shown());
        !f.blamed.ranks.is_empty() && shown.any(|x| x.ranks.minus(&f.blamed.ranks).is_empty())
    };
    !a.blamed.ranks.meets(&b.blamed.ranks) && own(a) && own(b)
}

fn in_scope(scope: &str, a: &Finding, b: &Finding) -> bool {
    match scope {
        "process" => {
            a.blamed.ranks.meets(&b.blamed.ranks) || (a.blamed.ranks.is_empty() || b.blamed.ranks.is_empty())
        }
        "host" => {
            a.blamed.hosts.iter().any(|x| b.blamed.hosts.iter().any(|y| crate::job::same_host(x, y)))
                || a.blamed.hosts.is_empty()
                || b.blamed.hosts.is_empty()
        }
        _ => true,
    }
}

fn first_time(job: &Job, f: &Finding) -> Option<i64> {
    f.events.iter().filter_map(|&e| job.event(e).time).map(|t| t.utc()).min()
}

/// Later by times that can be compared and are far enough apart, or by lines of the same process.
fn plainly_later(job: &Job, a: &Finding, b: &Finding) -> bool {
    let times = |f: &Finding| -> Option<crate::base::Stamp> {
        f.events.iter().filter_map(|&e| job.event(e).time).min_by_key(|t| t.utc())
    };
    if let (Some(x), Some(y)) = (times(a), times(b))
        && let Some((x, y)) = x.comparable(&y)
    {
        return x > y + 20_000_000_000;
    }
    // The first line of whom it blames, by rank: the order of sources must not matter.
    let first = |f: &Finding| -> Option<EventId> {
        let rank = |e: EventId| job.events[e as usize].rank;
        let blamed = |e: &EventId| rank(*e).is_some_and(|r| f.blamed.ranks.contains(r));
        let by_rank = |e: &EventId| (!blamed(e), rank(*e).unwrap_or(u32::MAX), *e);
        f.events.iter().copied().min_by_key(by_rank)
    };
    let (Some(x), Some(y)) = (first(a), first(b)) else { return false };
    let (px, py) = (&job.events[x as usize], &job.events[y as usize]);
    px.process.is_some()
        && px.process == py.process
        && px.source == py.source
        && job.event(x).line > job.event(y).line
}

fn break_circles(all: &mut [Ordered]) {
    for i in 0..all.len() {
        let mut seen = vec![i];
        let mut at = i;
        while let Some(up) = all[at].under {
            if seen.contains(&up) {
                // The likelier of the circle stands above.
                let top = seen
                    .iter()
                    .copied()
                    .max_by(|&x, &y| weight(&all[x].finding).total_cmp(&weight(&all[y].finding)))
                    .unwrap_or(up);
                all[top].under = None;
                break;
            }
            seen.push(up);
            at = up;
        }
    }
}

/// Odds become confidence; what else could be meant takes its share.
fn weigh(knowledge: &Knowledge, all: &mut [Ordered]) {
    let roots: Vec<usize> = (0..all.len()).filter(|&i| all[i].under.is_none()).collect();
    for i in 0..all.len() {
        let f = &all[i].finding;
        let mut odds = f.odds;
        let rivals =
            roots.iter().filter(|&&r| r != i && knowledge.rules[all[r].finding.rule].0.severity == "fatal");
        let strongest = rivals.map(|&r| all[r].finding.odds).fold(f64::MIN, f64::max);
        if all[i].under.is_none() && strongest > f64::MIN {
            odds -= (strongest - odds + 2.0).clamp(0.0, 3.0) * 0.35;
        }
        if all[i].under.is_none() && all.iter().any(|o| o.under == Some(i)) {
            odds += 0.3; // it explains what else is seen
        }
        if f.place == Place::Fallback {
            odds = odds.min(0.6);
        }
        let p = 1.0 / (1.0 + (-odds).exp());
        all[i].confidence = (p * 100.0).round() / 100.0;
    }
}

/// Whether the run went on or ended well after it.
fn survived(knowledge: &Knowledge, catalogue: &Catalogue, job: &Job, f: &Finding) -> bool {
    if knowledge.rules[f.rule].0.severity != "fatal" {
        return false;
    }
    // Who goes on working after it was not stopped by it, whatever ended the run later.
    let steps: Vec<EventId> =
        job.current().filter(|&e| job.entry(catalogue, e).kind == crate::knowledge::Kind::Step).collect();
    let own = |e: &EventId| {
        let kind = job.entry(catalogue, *e).kind;
        matches!(
            kind,
            crate::knowledge::Kind::Exception | crate::knowledge::Kind::Fails | crate::knowledge::Kind::Fact
        )
    };
    if !f.events.is_empty()
        && f.events.iter().take(64).all(|e| own(e) && crate::job::went_on(job, *e, &[&steps]))
    {
        return true;
    }
    if outside(job, f) {
        return true;
    }
    match job.end.state {
        State::Well => true,
        State::AtWork | State::Killed => {
            // Only what stands before the last lines of work, in the source that shows it.
            let Some(step) = last_step(catalogue, job) else { return false };
            if !crate::job::goes_on(job, step, &f.events) {
                return false;
            }
            let p = &job.events[step as usize];
            let last = job.sources[p.source as usize]
                .bulk
                .get(&(job.event(step).message, job.event(step).speaker))
                .map_or(job.event(step).last_line, |b| b.last.line);
            f.events.iter().all(|&e| job.events[e as usize].source == p.source && job.event(e).line < last)
        }
        _ => false,
    }
}

/// The event of the last line of work.
fn last_step(catalogue: &Catalogue, job: &Job) -> Option<EventId> {
    job.current().filter(|&e| job.entry(catalogue, e).kind == crate::knowledge::Kind::Step).max_by_key(|&e| {
        let p = &job.events[e as usize];
        let bulk = job.sources[p.source as usize].bulk.get(&(job.event(e).message, job.event(e).speaker));
        bulk.map_or(job.event(e).last_line, |b| b.last.line)
    })
}

/// Whether all of it happened long before the run began, by days that can be compared.
fn outside(job: &Job, f: &Finding) -> bool {
    const DAY: i64 = 86_400_000_000_000;
    let used: Vec<u32> = f.events.iter().map(|&e| job.events[e as usize].source).collect();
    // The run began with the first time in a source that shows none of this.
    let first = (0..job.sources.len() as u32)
        .filter(|s| !used.contains(s))
        .filter_map(|s| job.sources[s as usize].times().0)
        .filter(|t| t.date && t.year)
        .map(|t| t.utc())
        .min();
    let Some(first) = first else { return false };
    !f.events.is_empty()
        && f.events
            .iter()
            .all(|&e| job.event(e).time.is_some_and(|t| t.date && t.year && t.utc() + DAY < first))
}
