//! Who left first, where all that the others say is that they lost somebody:
//! by what the launcher counts and by who says nothing.

use super::Detected;
use crate::base::RankSet;
use crate::job::{Ended, EventId, slot_of};
use crate::knowledge::{Kind, Role};
use crate::rules::cond::Context;
use std::collections::BTreeSet;

/// Ranks that say that a connection of theirs broke (none where the lines bear no rank), with the lines; nothing where
/// any line tells a first cause.
fn bereft(cx: &Context<'_>) -> Option<(RankSet, Vec<EventId>)> {
    let (mut ranks, mut events) = (RankSet::new(), Vec::new());
    for (message, list) in cx.messages() {
        let entry = &cx.catalogue.messages[usize::from(message)];
        match (entry.role, entry.kind) {
            (Role::First, _) | (_, Kind::Waits) => return None,
            (Role::Victim, Kind::Fails) => {
                for &e in list {
                    ranks.extend(&cx.job.events[e as usize].rank.into_iter().collect());
                    events.push(e);
                }
            }
            (_, Kind::Exception) => {
                // An exception that is no echo is a reason of its own.
                let own = |e: &EventId| {
                    let event = cx.job.event(*e);
                    slot_of(cx.catalogue, event, "claimed").is_none()
                        && slot_of(cx.catalogue, event, "handled").is_none()
                };
                if list.iter().any(own) {
                    return None;
                }
            }
            _ => {}
        }
    }
    (!events.is_empty()).then_some((ranks, events))
}

/// Ranks that ended by themselves and badly.
fn failed(cx: &Context<'_>) -> (RankSet, Vec<EventId>) {
    let (mut ranks, mut events) = (RankSet::new(), Vec::new());
    for end in &cx.job.ends {
        if matches!(end.how, Ended::Exit(_) | Ended::Signal(_) | Ended::Oom) {
            ranks.extend(&end.rank.into_iter().collect());
            events.push(end.event);
        }
    }
    (ranks, events)
}

/// Lines by which the launcher ended somebody; nothing where some are only counted, which do not tell whom they name.
fn killed(cx: &Context<'_>) -> Option<Vec<EventId>> {
    let kind = |message| cx.catalogue.messages[usize::from(message)].kind;
    let lists = cx.messages().filter(|m| kind(m.0) == Kind::Killed);
    let events: Vec<EventId> = lists.flat_map(|m| m.1.iter().copied()).collect();
    events.iter().all(|&e| cx.job.event(e).count <= 1).then_some(events)
}

/// One rank ended with an error and without a word, and the others say that they lost somebody.
pub(super) fn silent_end(cx: &Context<'_>) -> Option<Detected> {
    let (lost, _) = bereft(cx)?;
    let (ranks, mut events) = failed(cx);
    if lost.is_empty() || ranks.len() != 1 || ranks.iter().any(|r| lost.contains(r)) {
        return None;
    }
    events.truncate(3);
    let text = format!("rank {ranks} ended with an error, and only the others say anything");
    Some(Detected { events, ranks, text, ..Detected::default() })
}

/// One rank is neither among those that failed nor among those that the launcher still had to end: it had left before,
/// with status 0.
pub(super) fn left_quietly(cx: &Context<'_>) -> Option<Detected> {
    let (lost, events) = bereft(cx)?;
    let (failed, rows) = failed(cx);
    if lost.is_empty() {
        return not_in_the_table(cx, failed, rows);
    }
    let killed = killed(cx)?;
    let ended: BTreeSet<&str> =
        killed.iter().filter_map(|&e| slot_of(cx.catalogue, cx.job.event(e), "pid")).collect();
    let mut known = lost.clone();
    known.extend(&failed);
    // The launcher ended or saw failing exactly those that say something.
    if ended.is_empty() || failed.is_empty() || known.len() != failed.len() + ended.len() {
        return None;
    }
    let last = known.iter().last()?;
    let all: RankSet = (0..cx.job.world.unwrap_or(0).max(last + 1)).collect();
    let ranks = all.minus(&known);
    if ranks.len() != 1 {
        return None;
    }
    let text = format!(
        "rank {ranks} is neither among the ranks that failed nor among those that the launcher had to end: it had \
         left before, with status 0"
    );
    Some(Detected { events: events.into_iter().take(3).collect(), ranks, text, ..Detected::default() })
}

/// The same where the lines bear no rank, as before torch 2.1: of the ranks of one agent, which are consecutive, all
/// but one are in its table of failures.
fn not_in_the_table(cx: &Context<'_>, mut known: RankSet, rows: Vec<EventId>) -> Option<Detected> {
    let hosts: BTreeSet<_> = cx.job.ends.iter().filter_map(|end| end.host.as_ref()).collect();
    known.extend(&killed(cx)?.into_iter().filter_map(|e| cx.job.events[e as usize].rank).collect());
    let (first, last) = (known.iter().next()?, known.iter().last()?);
    let ranks = (first..=last).collect::<RankSet>().minus(&known);
    if hosts.len() > 1 || ranks.len() != 1 {
        return None;
    }
    let text =
        format!("rank {ranks} is not in the agent's table of failures: it had left before, with status 0");
    Some(Detected { events: rows.into_iter().take(3).collect(), ranks, text, ..Detected::default() })
}
