//! How ranks start and end: members that never came, ends that fit no other, and
//! runs of which no rule says why they ended.

use super::Detected;
use crate::base::RankSet;
use crate::catalogue::built_in;
use crate::job::{State, slot_of};
use crate::knowledge::{Kind, Role};
use crate::rules::cond::Context;

/// The declared world is larger than the ranks that were seen starting.
pub(super) fn members_missing(cx: &Context<'_>) -> Option<Detected> {
    let mut seen = RankSet::new();
    let mut world = 0;
    let mut events = Vec::new();
    for (message, list) in cx.messages() {
        if cx.catalogue.messages[usize::from(message)].kind != Kind::Rank {
            continue;
        }
        for &e in list {
            let event = cx.job.event(e);
            let number = |slot| slot_of(cx.catalogue, event, slot).and_then(|t| t.parse::<u32>().ok());
            if let (Some(rank), Some(n)) = (number("rank"), number("nranks")) {
                seen.insert(rank);
                world = world.max(n);
                events.push(e);
            }
        }
    }
    // Who failed on the way was there: only a start that nothing else followed is one that waits for members.
    let quiet = matches!(cx.job.end.state, State::NotSeen | State::Stuck | State::Killed)
        && !cx.messages().any(|(m, _)| {
            let entry = &cx.catalogue.messages[usize::from(m)];
            entry.role == Role::First || entry.kind == Kind::Exception || entry.kind == Kind::Step
        });
    if !quiet {
        return None;
    }
    if seen.is_empty() || world == 0 || seen.len() as u32 >= world || world > 1 << 20 {
        return None;
    }
    let all: RankSet = (0..world).collect();
    let missing = all.minus(&seen);
    events.truncate(4);
    let text = format!("{} of {world} ranks were seen starting; rank {missing} never was", seen.len());
    Some(Detected { events, ranks: missing, text, ..Detected::default() })
}

/// A rank ended with status 0 while others still communicated.
pub(super) fn exit_zero_early(cx: &Context<'_>) -> Option<Detected> {
    let mut out = Detected::default();
    for end in &cx.job.ends {
        if end.how == crate::job::Ended::Well && end.rank.is_some() {
            out.ranks.extend(&end.rank.into_iter().collect());
            out.events.push(end.event);
        }
    }
    let others_bad = cx.job.end.state != State::Well;
    (!out.ranks.is_empty() && others_bad).then(|| {
        out.text = format!("rank {} ended with status 0 while others still communicated", out.ranks);
        out
    })
}

/// Exactly one rank ended by itself; the others were ended by their launcher.
pub(super) fn one_rank_ended(cx: &Context<'_>) -> Option<Detected> {
    let mut out = Detected::default();
    for e in cx
        .job
        .ends
        .iter()
        .filter(|e| matches!(e.how, crate::job::Ended::Exit(_) | crate::job::Ended::Signal(_)))
    {
        // `tasks 0-3: Exited` are several, of whom no single one is known.
        let several =
            slot_of(cx.catalogue, cx.job.event(e.event), "task").is_some_and(|t| t.contains(['-', ',']));
        if several {
            return None;
        }
        out.ranks.extend(&e.rank.into_iter().collect());
        out.hosts.extend(e.host.clone());
        out.events.push(e.event);
    }
    (out.ranks.len() == 1).then_some(out)
}

/// The run ended badly and nothing says why.
pub(super) fn failed_no_cause(cx: &Context<'_>) -> Option<Detected> {
    if cx.explained || !matches!(cx.job.end.state, State::Failed | State::Killed | State::NotSeen) {
        return None;
    }
    let mut out = Detected { events: cx.job.end.events.clone(), ..Detected::default() };
    let ended: Vec<_> = cx
        .job
        .ends
        .iter()
        .filter(|e| matches!(e.how, crate::job::Ended::Exit(_) | crate::job::Ended::Signal(_)))
        .collect();
    for e in &ended {
        if !out.events.contains(&e.event) && out.events.len() < 6 {
            out.events.push(e.event);
        }
        out.ranks.extend(&e.rank.into_iter().collect());
        out.hosts.extend(e.host.clone());
    }
    if cx.job.end.state == State::NotSeen {
        // Only where some line says at least that something failed.
        let symptoms = cx.messages().filter(|(m, _)| {
            let entry = &cx.catalogue.messages[usize::from(*m)];
            matches!(entry.role, Role::Symptom | Role::First | Role::Victim) && entry.id != built_in::UNKNOWN
        });
        out.events.extend(symptoms.flat_map(|(_, l)| l.iter().copied().take(2)));
        if out.events.is_empty() {
            return None;
        }
        for &e in out.events.iter().take(4) {
            let p = &cx.job.events[e as usize];
            out.ranks.extend(&p.rank.into_iter().collect());
            out.hosts.extend(p.host.clone());
        }
    }
    if out.ranks.len() > 4 {
        out.ranks = RankSet::new();
    }
    Some(out)
}

/// Ranks waited and nothing says for whom.
pub(super) fn hang_no_cause(cx: &Context<'_>) -> Option<Detected> {
    let mut events = Vec::new();
    for (message, list) in cx.messages() {
        let entry = &cx.catalogue.messages[usize::from(message)];
        if entry.kind == Kind::Waits && !matches!(entry.role, Role::Fact | Role::Harmless) {
            events.extend(list.iter().take(3));
        }
    }
    if events.is_empty() || cx.explained {
        return None;
    }
    events.truncate(6);
    Some(Detected { events, ..Detected::default() })
}

/// NCCL warned with a text that nobody catalogued.
pub(super) fn unknown_warn(cx: &Context<'_>) -> Option<Detected> {
    let id = cx.catalogue.message(built_in::UNKNOWN_WARN)?;
    let events: Vec<_> = cx.of(id).iter().copied().take(4).collect();
    (!events.is_empty()).then(|| Detected { events, ..Detected::default() })
}
