//! The sentences and the evidence of a fault.

use super::faults::Scene;
use super::graph::{Place, Wait, Why};
use super::groups::Reach;
use super::trace::{Kind, Record};
use crate::base::RankSet;

/// Most ranks for which evidence is shown on either side.
const SHOWN: usize = 4;

/// `rank 3`, `ranks 3,4`.
pub(super) fn ranks(set: &RankSet) -> String {
    format!("rank{} {set}", if set.len() == 1 { "" } else { "s" })
}

/// `the other 7 wait`, `rank 2 waits`.
fn wait_there(set: &RankSet) -> String {
    match set.len() {
        0 => "the others wait".into(),
        1 => format!("{} waits", ranks(set)),
        n if n <= 4 => format!("{} wait", ranks(set)),
        n => format!("{n} others wait ({set})"),
    }
}

impl Why {
    /// In a few words, said of who is lacked.
    fn text(self) -> &'static str {
        match self {
            Self::Differs(super::What::Op) => "called another operation",
            Self::Differs(super::What::Dtype) => "called it with another type",
            Self::Differs(super::What::Size) => "called it with another size",
            Self::WrongPeer => "talks to another rank",
            Self::NotEntered => "has not entered it",
            Self::NothingHeld => "shows nothing of it",
            Self::Behind => "stopped earlier in the group",
            Self::NoPartner => "is not at the other side",
            Self::Cut => "its dump is cut",
            Self::Absent => "no dump is given of it",
            Self::Unread => "its dump could not be read",
        }
    }
}

impl Scene<'_> {
    /// A wait for people.
    pub(super) fn stand(&self, wait: &Wait) -> super::Stand {
        let mut lacks: std::collections::BTreeMap<Why, RankSet> = std::collections::BTreeMap::new();
        for (rank, why) in &wait.lacks {
            lacks.entry(*why).or_default().insert(*rank);
        }
        super::Stand {
            op: self.op(wait),
            group: self.group(wait).label(),
            part: self.group(wait).part().to_string(),
            waiting: wait.waiters.iter().copied().collect(),
            lacks: lacks.into_iter().map(|(why, ranks)| (ranks, why.text())).collect(),
            loose: wait.loose && wait.lacks.is_empty(),
        }
    }

    /// The operation of a wait: `all_reduce #5`.
    pub(super) fn op(&self, wait: &Wait) -> String {
        match wait.place {
            Place::Collective(_, seq) => {
                let record = wait.waiters.iter().find_map(|r| self.record(wait, *r));
                record.map_or_else(|| format!("operation #{seq}"), |r| format!("{} #{seq}", r.op.name))
            }
            Place::Pair(_, rank, peer, _) if rank == peer => format!("recv {rank}<-any"),
            Place::Pair(_, rank, peer, true) => format!("send {rank}->{peer}"),
            Place::Pair(_, rank, peer, false) => format!("recv {rank}<-{peer}"),
        }
    }

    /// The record of a rank at a wait's place.
    pub(super) fn record(&self, wait: &Wait, rank: u32) -> Option<&Record> {
        match wait.place {
            Place::Collective(group, seq) => self.joined.groups[group].member(rank)?.at(self.traces, seq),
            Place::Pair(group, ..) => self.trace(rank)?.records.get(self.pairs.record(group, rank)?),
        }
    }

    /// One sentence on why the operation lacks these ranks.
    pub(super) fn detail(&self, wait: &Wait, culprits: &RankSet, why: Why, waiting: &RankSet) -> String {
        let (who, op, group) = (ranks(culprits), self.op(wait), self.group(wait).label());
        let there = wait_there(waiting);
        match why {
            Why::Differs(what) => self.differs(wait, culprits, what.text()),
            Why::NotEntered => format!("{who} never entered {op} of {group}, in which {there}"),
            Why::NothingHeld => {
                format!("{who} shows nothing of {op} of {group}, in which {there}: it has not entered")
            }
            Why::Behind => format!(
                "{who} entered but stopped in {} of {group}, which partners finished long before; in {op} {there} for it",
                self.stopped_at(wait, culprits)
            ),
            Why::WrongPeer => {
                let own = self.pairs.lone.iter().find(|l| l.wrong && culprits.contains(l.rank));
                let does = own.map_or_else(String::new, |l| {
                    let verb = if l.sends { "sends to" } else { "receives from" };
                    format!("{verb} rank {}", l.peer)
                });
                format!("{who} {does}, while {op} of {group} has no partner: the wrong peer")
            }
            Why::NoPartner => {
                format!("{who} never came to the other side of {op} of {group}, in which {there}")
            }
            Why::Cut => format!(
                "{there} in {op} of {group}; the dump of {who} is cut, so what that rank did last is not known"
            ),
            Why::Unread => {
                let names: Vec<&str> = culprits
                    .iter()
                    .filter_map(|r| self.joined.unread.get(&r))
                    .take(4)
                    .map(String::as_str)
                    .collect();
                format!(
                    "{there} in {op} of {group}; the dump of {who} ({}) could not be read, so what that rank did is not known",
                    names.join(", ")
                )
            }
            Why::Absent => {
                let (absent, all) = self.absent();
                if self.sparse() {
                    return format!(
                        "{there} in {op} of {group}; of {absent} of {all} ranks there is no dump, so the input does not show \
                         whom it waits for: give the dumps of {who}"
                    );
                }
                let all = if matches!(wait.place, Place::Collective(..)) {
                    "all others have entered it"
                } else {
                    "it waits for that rank"
                };
                format!("{there} in {op} of {group}; {all}, and of {who} there is no dump")
            }
        }
    }

    /// `rank 1 called all_reduce of [4,4] Float where the other 7 called all_reduce of [8] Float`.
    fn differs(&self, wait: &Wait, culprits: &RankSet, what: &str) -> String {
        let Place::Collective(at, seq) = wait.place else { return String::new() };
        let group = &self.joined.groups[at];
        let calls = super::find::calls(self.traces, group, seq);
        let of = |rank: Option<u32>| {
            calls
                .iter()
                .find(|c| Some(c.0) == rank)
                .map_or_else(|| "something else".into(), |c| c.1.op.text())
        };
        let place = format!("at #{seq} of {}", group.label());
        let rest: RankSet = calls.iter().map(|c| c.0).filter(|r| !culprits.contains(*r)).collect();
        if wait.tie || rest.is_empty() {
            let mut said: Vec<String> = Vec::new();
            for (rank, record) in &calls {
                let text = record.op.text();
                if !said.iter().any(|s| s.ends_with(&format!("called {text}"))) && said.len() < SHOWN {
                    said.push(format!("rank {rank} called {text}"));
                }
            }
            return format!(
                "{place} {}: the {what} differs, and no majority says which is right",
                said.join(", ")
            );
        }
        let others = if rest.len() == 1 { ranks(&rest) } else { format!("the other {}", rest.len()) };
        let model =
            super::find::dispute(self.traces, group, seq).map(|d| d.model).filter(|m| rest.contains(*m));
        format!(
            "{} called {} {place} where {others} called {}",
            ranks(culprits),
            of(culprits.first()),
            of(model.or(rest.first()))
        )
    }

    fn stopped_at(&self, wait: &Wait, culprits: &RankSet) -> String {
        let Place::Collective(at, _) = wait.place else { return "it".into() };
        let group = &self.joined.groups[at];
        let member = culprits.first().and_then(|r| group.member(r));
        let Some((member, seq)) = member.and_then(|m| Some((m, m.first?))) else { return "it".into() };
        member.at(self.traces, seq).map_or_else(|| format!("#{seq}"), |r| format!("{} #{seq}", r.op.name))
    }

    /// What was seen of the culprits and of those who wait.
    pub(super) fn evidence(&self, wait: &Wait, culprits: &RankSet, waiting: &RankSet) -> Vec<(u32, String)> {
        let guilty = culprits.iter().take(SHOWN).map(|r| (r, self.seen_of(wait, r)));
        let others =
            waiting.iter().filter(|r| !culprits.contains(*r)).take(2).map(|r| (r, self.seen_of(wait, r)));
        guilty.chain(others).collect()
    }

    fn seen_of(&self, wait: &Wait, rank: u32) -> String {
        let Some(trace) = self.trace(rank) else { return "no dump of this rank is given".into() };
        let mut parts = Vec::new();
        if let Place::Collective(at, seq) = wait.place
            && let Some(member) = self.joined.groups[at].member(rank)
        {
            match member.reach {
                Reach::At(e) => parts.push(format!("handed over up to #{e}")),
                Reach::Cut => parts.push("its dump is cut".into()),
                Reach::Unknown => parts.push("says nothing of this group".into()),
                _ => parts.push("holds nothing of this group".into()),
            }
            if let Some(first) = member.first {
                parts.push(format!("finished up to #{}", first - 1));
            }
            if let Some(record) = member.at(self.traces, seq) {
                parts.push(format!("at #{seq}: {}", record.op.text()));
            }
        } else if let Some(record) = self.record(wait, rank) {
            parts.push(format!("open: {}", record.op.name));
        }
        if let Some(last) = trace.records.last() {
            let seq = last.seq.filter(|_| last.kind == Kind::Collective);
            let seq = seq.map_or_else(String::new, |s| format!(" #{s}"));
            parts.push(format!("last operation: {}{seq}", last.op.name));
        }
        if parts.is_empty() {
            parts.push("nothing in its dump".into());
        }
        format!("{}: {}", trace.source, parts.join("; "))
    }

    /// Where a rank stands: its stack at the wait's place, or at its last operation.
    pub(super) fn frames(&self, wait: &Wait, rank: Option<u32>) -> Vec<String> {
        let Some(rank) = rank else { return Vec::new() };
        let there = self.record(wait, rank).filter(|r| !r.frames.is_empty());
        let last = || self.trace(rank).and_then(|t| t.records.iter().rev().find(|r| !r.frames.is_empty()));
        there.or_else(last).map_or_else(Vec::new, |r| r.frames.to_vec())
    }
}
