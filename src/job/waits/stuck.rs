//! Operations that all have entered and that are not explained by a rank that
//! holds others up: two groups entered in another order, a rank that came too
//! late or has not begun, or nobody's fault at all.

use std::collections::{BTreeMap, BTreeSet};

use super::faults::Scene;
use super::graph::{Graph, Place, Wait};
use super::trace::Record;
use super::{Fault, FaultKind, Sure, words};
use crate::base::RankSet;

/// Most faults of this kind that are told.
const MOST: usize = 8;

/// Faults among the ranks that `found` does not speak of.
pub(super) fn find(scene: &Scene<'_>, graph: &Graph<'_>, found: &[Fault]) -> Vec<Fault> {
    let mut explained = RankSet::new();
    for fault in found {
        explained.extend(&fault.ranks);
        explained.extend(&fault.waiting);
        explained.extend(&fault.behind);
    }
    let open: Vec<&Wait> = scene
        .waits
        .iter()
        .filter(|w| w.lacks.is_empty() && !w.loose && !w.waiters.iter().any(|r| explained.contains(*r)))
        .collect();
    if open.is_empty() {
        return Vec::new();
    }
    let mut faults = match inverted(scene, &open) {
        Some(fault) => vec![fault],
        None => heads(scene, &open).into_iter().take(MOST).map(|wait| stuck(scene, wait, &open)).collect(),
    };
    for fault in &mut faults {
        let there: BTreeSet<u32> = fault.waiting.iter().chain(fault.ranks.iter()).collect();
        fault.behind.extend(&graph.behind(&there).into_iter().collect());
    }
    faults
}

/// Where a rank's open operations stand in its program.
fn order<'w>(scene: &Scene<'_>, open: &[&'w Wait]) -> BTreeMap<u32, Vec<(u64, &'w Wait)>> {
    let mut order: BTreeMap<u32, Vec<(u64, &Wait)>> = BTreeMap::new();
    for wait in open {
        for rank in &wait.waiters {
            let id = scene.record(wait, *rank).map_or(u64::MAX, |r| r.id);
            order.entry(*rank).or_default().push((id, wait));
        }
    }
    order.values_mut().for_each(|list| list.sort_by(|a, b| (a.0, &a.1.place).cmp(&(b.0, &b.1.place))));
    order
}

/// Two operations that some ranks entered in one order and some in the other.
fn inverted(scene: &Scene<'_>, open: &[&Wait]) -> Option<Fault> {
    let collectives: Vec<&Wait> =
        open.iter().copied().filter(|w| matches!(w.place, Place::Collective(..))).collect();
    let mut firsts: BTreeMap<(&Place, &Place), RankSet> = BTreeMap::new();
    for (rank, list) in order(scene, &collectives) {
        let list: Vec<_> = list.into_iter().filter(|l| l.0 != u64::MAX).take(32).collect();
        for (i, a) in list.iter().enumerate() {
            for b in &list[i + 1..] {
                firsts.entry((&a.1.place, &b.1.place)).or_default().insert(rank);
            }
        }
    }
    let mut best: Option<(RankSet, RankSet, &Place, &Place)> = None;
    for ((a, b), ranks) in &firsts {
        let Some(other) = firsts.get(&(*b, *a)) else { continue };
        let few = ranks.len() < other.len() || (ranks.len() == other.len() && a < b);
        if few && best.as_ref().is_none_or(|x| ranks.len() + other.len() > x.0.len() + x.1.len()) {
            best = Some((ranks.clone(), other.clone(), a, b));
        }
    }
    let (few, many, a, b) = best?;
    let place = |p: &Place| collectives.iter().copied().find(|w| w.place == *p);
    let (a, b) = (place(a)?, place(b)?);
    let tie = few.len() == many.len();
    let mut culprits = few.clone();
    if tie {
        culprits.extend(&many);
    }
    let mut fault = scene.fault(b, FaultKind::Order, culprits, many.clone());
    fault.sure = if tie { Sure::Guess } else { Sure::Likely };
    let text = |w: &Wait| format!("{} of {}", scene.op(w), scene.group(w).label());
    fault.detail = format!(
        "{} entered {} before {}, {} the other way round",
        words::ranks(&few),
        text(a),
        text(b),
        words::ranks(&many)
    );
    let rest = open.iter().flat_map(|w| w.waiters.iter()).copied();
    fault.behind = rest.filter(|r| !few.contains(*r) && !many.contains(*r)).collect();
    Some(fault)
}

/// The operations that come first for those who stand in them.
fn heads<'w>(scene: &Scene<'_>, open: &[&'w Wait]) -> Vec<&'w Wait> {
    let mut first: BTreeMap<&Place, usize> = BTreeMap::new();
    for list in order(scene, open).values() {
        if let Some((_, wait)) = list.first() {
            *first.entry(&wait.place).or_default() += 1;
        }
    }
    let whole: Vec<&Wait> =
        open.iter().copied().filter(|w| first.get(&w.place).is_some_and(|n| *n == w.waiters.len())).collect();
    if !whole.is_empty() {
        return whole;
    }
    let most = open.iter().copied().max_by_key(|w| (first.get(&w.place).copied().unwrap_or(0), &w.place));
    most.into_iter().collect()
}

fn stuck(scene: &Scene<'_>, wait: &Wait, open: &[&Wait]) -> Fault {
    let Place::Collective(at, seq) = wait.place else { return pair(scene, wait) };
    let group = &scene.joined.groups[at];
    let waiting: RankSet = wait.waiters.iter().copied().collect();
    let calls = super::find::calls(scene.traces, group, seq);
    let (op, label) = (scene.op(wait), group.label());
    let mut fault = if let Some(ranks) = late(&calls) {
        let mut fault = scene.fault(wait, FaultKind::Late, ranks.clone(), waiting.minus(&ranks));
        fault.detail =
            format!("{} entered {op} of {label} only after the others' time limit", words::ranks(&ranks));
        fault
    } else if let Some(ranks) = idle(scene, wait, &calls) {
        let mut fault = scene.fault(wait, FaultKind::Late, ranks.clone(), waiting.minus(&ranks));
        fault.detail = format!(
            "{} has not begun {op} of {label} on its device, which the others run",
            words::ranks(&ranks)
        );
        fault
    } else {
        let through: RankSet = group.ranks.minus(&waiting);
        let some = !through.is_empty();
        // What a line counts as done may have been ended by the abort.
        let sure = !waiting.iter().chain(through.iter()).any(|r| scene.trace(r).is_some_and(|t| t.partial));
        let blamed =
            if some && sure && waiting.len() < through.len() { waiting.clone() } else { RankSet::new() };
        let mut fault = scene.fault(wait, FaultKind::StuckAll, blamed, waiting.clone());
        fault.detail = if some {
            format!(
                "all have entered {op} of {label}; {} finished it, {} did not",
                words::ranks(&through),
                words::ranks(&waiting)
            )
        } else {
            format!("all {} ranks have entered {op} of {label} and none has finished it", waiting.len())
        };
        fault
    };
    let rest = open.iter().flat_map(|w| w.waiters.iter()).copied();
    fault.behind = rest.filter(|r| !wait.waiters.contains(r) && !fault.ranks.contains(*r)).collect();
    fault
}

/// Who entered so much later than the middle of the others that their time was up.
fn late(calls: &[(u32, &Record)]) -> Option<RankSet> {
    let mut times: Vec<i64> = calls.iter().map(|c| c.1.created).filter(|t| *t > 0).collect();
    times.sort_unstable();
    let middle = *times.get(times.len().checked_sub(1)? / 2)?;
    let limit = calls.iter().map(|c| c.1.timeout_ms).filter(|t| *t > 0).min()?.saturating_mul(900_000);
    let ranks: RankSet =
        calls.iter().filter(|c| c.1.created.saturating_sub(middle) >= limit).map(|c| c.0).collect();
    (!ranks.is_empty() && ranks.len() * 2 < calls.len()).then_some(ranks)
}

/// Who has not begun on the device what others run there. Only ranks that note
/// beginnings at all can be told from those that do not.
fn idle(scene: &Scene<'_>, wait: &Wait, calls: &[(u32, &Record)]) -> Option<RankSet> {
    let begun = calls.iter().filter(|c| c.1.started).count();
    let notes = |rank: u32| scene.trace(rank).is_some_and(|t| t.records.iter().any(|r| r.started));
    let ranks: RankSet = calls
        .iter()
        .filter(|c| !c.1.started && wait.waiters.contains(&c.0) && notes(c.0))
        .map(|c| c.0)
        .collect();
    (!ranks.is_empty() && begun > ranks.len()).then_some(ranks)
}

/// A send and its receive that both are there, or a receive from anybody.
fn pair(scene: &Scene<'_>, wait: &Wait) -> Fault {
    let ranks: BTreeSet<u32> = wait.waiters.clone();
    let (op, label) = (scene.op(wait), scene.group(wait).label());
    let waiting: RankSet = ranks.iter().copied().collect();
    if ranks.len() == 1 {
        let mut fault = scene.fault(wait, FaultKind::P2p, waiting.clone(), RankSet::new());
        fault.sure = Sure::Guess;
        fault.detail =
            format!("{} receives from any rank of {label}, and none sends to it", words::ranks(&waiting));
        return fault;
    }
    if let Some(text) = sizes(scene, wait) {
        let mut fault =
            scene.fault(wait, FaultKind::Mismatch { what: super::What::Size }, waiting.clone(), waiting);
        fault.detail = text;
        return fault;
    }
    let mut fault = scene.fault(wait, FaultKind::StuckAll, RankSet::new(), waiting);
    fault.detail = format!("both sides of {op} of {label} are there and neither has finished");
    fault
}

/// What to say where what is sent is not of the size that is received.
fn sizes(scene: &Scene<'_>, wait: &Wait) -> Option<String> {
    let Place::Pair(group, from, to, _) = wait.place else { return None };
    let met = |m: &&super::pairs::Met| m.group == group && m.ends[0].0 == from && m.ends[1].0 == to;
    let met = scene.pairs.met.iter().find(met).filter(|m| m.differ)?;
    let record = |end: (u32, usize)| scene.trace(end.0).and_then(|t| t.records.get(end.1));
    let (out, into) = (record(met.ends[0])?, record(met.ends[1])?);
    let one = |shapes: &[Vec<i64>], types: &[String]| {
        let shape = shapes.first().map_or_else(String::new, |dims| format!("{dims:?}").replace(", ", ","));
        format!("{shape} {}", types.first().map_or("", String::as_str)).trim_end().to_string()
    };
    Some(format!(
        "rank {from} sends {} to rank {to} in {}, which receives {}: the size differs, and nothing says which is right",
        one(&out.op.inputs, &out.op.input_dtypes),
        scene.group(wait).label(),
        one(&into.op.outputs, &into.op.output_dtypes),
    ))
}
