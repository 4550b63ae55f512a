//! Who waits for whom, over all ranks: in which operation the ranks stand, who
//! never came, who called something else, who talks to the wrong peer, and
//! whom a chain of waits over several groups leads to. The input is a
//! [`Trace`] a rank, from dumps or from lines; `groups` joins them, `find` and
//! `pairs` name the waits, `graph` follows them to their ends, `faults` and
//! `stuck` say what that means. It names who is to be looked at, not why a rank
//! did not come: that is for the rules.

use std::collections::BTreeMap;

use crate::base::RankSet;

mod agree;
mod faults;
mod find;
mod from_dump;
mod graph;
mod groups;
mod pairs;
mod proof;
mod sources;
mod stuck;
mod trace;
mod words;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_more;

pub use agree::What;
pub use from_dump::resolve;
pub use proof::{Proof, against};
pub use sources::misfits;
pub use trace::{Done, Kind, Op, Record, Trace, TraceGroup};

/// Everything that is known about the ranks.
#[derive(Debug, Clone, Default)]
pub struct WaitsInput {
    /// What each rank did; several of one rank are allowed.
    pub traces: Vec<Trace>,
    /// Ranks that are known to exist otherwise.
    pub absent: RankSet,
    /// What went wrong while reading, for the report's problems.
    pub notes: Vec<String>,
    /// Dumps that are there and could not be read, by rank: their names.
    pub unread: BTreeMap<u32, String>,
    /// Ranks of which other input says what their dumps do not, in words.
    pub against: BTreeMap<u32, String>,
    /// Lines tell that somebody waited until a time limit.
    pub timed: bool,
}

/// What kind of fault holds the others up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// Never entered the collective that the others wait in, or stopped in it
    /// while its partners went on.
    Missing,
    /// Expected there, and nothing of it was given.
    NoDump,
    /// Called something else there.
    Mismatch {
        /// In what it differs.
        what: What,
    },
    /// The same operations in another order, in one group or between groups.
    Order,
    /// A send or receive with the wrong peer or without one.
    P2p,
    /// All have entered and none has finished: not the program's fault.
    StuckAll,
    /// Came too late, or has not begun what the others run.
    Late,
}

/// How sure a fault is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sure {
    /// The records leave nothing else.
    Certain,
    /// The best reading.
    Likely,
    /// One of several readings.
    Guess,
}

/// One thing that holds ranks up.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// What it is.
    pub kind: FaultKind,
    /// Where to look; empty where no rank is to blame.
    pub ranks: RankSet,
    /// The group in which it shows.
    pub group: String,
    /// The members of that group.
    pub members: RankSet,
    /// Position of the operation in its group.
    pub seq: Option<i64>,
    /// The operation that the others stand in.
    pub op: String,
    /// One sentence for people.
    pub detail: String,
    /// Who stands in that operation.
    pub waiting: RankSet,
    /// Who waits for those.
    pub behind: RankSet,
    /// The culprit's own stack lines at its last operation, innermost first.
    pub frames: Vec<String>,
    /// Those of one that waits.
    pub waiter_frames: Vec<String>,
    /// How sure it is.
    pub sure: Sure,
    /// Nothing but lines of a log shows it.
    pub lines: bool,
    /// How far the input shows that it is a hang.
    pub proof: Proof,
    /// What was seen of whom.
    pub evidence: Vec<(u32, String)>,
}

impl Fault {
    /// Whether it names ranks and the records show what they did: no mere gap in the input.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        !self.ranks.is_empty() && self.sure != Sure::Guess && self.kind != FaultKind::NoDump
    }
}

/// How far one rank has come in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Front {
    /// Global rank.
    pub rank: u32,
    /// Last operation handed over.
    pub enqueued: Option<i64>,
    /// Last one finished, with all before it.
    pub completed: Option<i64>,
    /// Oldest one that its record still holds.
    pub oldest: Option<i64>,
    /// There is a record of this rank.
    pub seen: bool,
    /// What is known of it does not speak of this group.
    pub unknown: bool,
    /// What it finished is not known, and concluded from how far the others have come: it need not wait.
    pub concluded: bool,
}

/// How far the ranks of a group have come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupFront {
    /// Name and description.
    pub name: String,
    /// The part that it plays in the program.
    pub part: String,
    /// Members.
    pub members: RankSet,
    /// There may be more members than are known.
    pub open: bool,
    /// One for each member, by rank.
    pub fronts: Vec<Front>,
}

/// An operation in which ranks stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stand {
    /// `all_reduce #5`.
    pub op: String,
    /// The group's name and description.
    pub group: String,
    /// The part that the group plays in the program.
    pub part: String,
    /// Who stands there.
    pub waiting: RankSet,
    /// Whom it lacks, and why; nobody where all have entered it.
    pub lacks: Vec<(RankSet, &'static str)>,
    /// Who else belongs to it is not known.
    pub loose: bool,
}

/// What holds the job up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WaitsReport {
    /// The faults, the one that holds up most first.
    pub faults: Vec<Fault>,
    /// The groups.
    pub groups: Vec<GroupFront>,
    /// All operations in which ranks stand.
    pub stands: Vec<Stand>,
    /// What is odd about the input.
    pub problems: Vec<String>,
    /// Where what was given does not agree.
    pub contradictions: Vec<String>,
}

/// Follows all waits to their ends. The order of the traces does not matter.
#[must_use]
pub fn analyse(input: &WaitsInput) -> WaitsReport {
    let (traces, mut problems) = sources::choose(&input.traces);
    problems.extend(input.notes.iter().cloned());
    let mut world = sources::world(&traces, &input.absent);
    world.extend(&input.unread.keys().copied().collect());
    let joined = groups::join(&traces, &world, &input.unread);
    problems.extend(sources::unread(&input.unread));
    let pairs = pairs::pair(&traces, &joined);
    let waits = find::waits(&traces, &joined, &pairs);
    let fixed = find::fixed(&waits, &pairs);
    let scene =
        faults::Scene { traces: &traces, joined: &joined, pairs: &pairs, waits: &waits, world: &world };
    let graph = graph::Graph::new(&waits, &fixed);
    let mut faults = faults::find(&scene, &graph);
    faults.extend(stuck::find(&scene, &graph, &faults));
    let members = sources::members(&traces);
    let mut contradictions: Vec<String> = input.against.values().take(4).cloned().collect();
    contradictions.extend(members.clone());
    let odd: RankSet = input.against.keys().copied().collect();
    for fault in &mut faults {
        fault.proof = proof::of(&scene, fault, input.timed);
        if members.is_some() || odd.meets(&fault.ranks) || odd.meets(&fault.waiting) {
            fault.proof = Proof::Doubt;
        }
    }
    faults::sort(&mut faults);
    let stands = waits.iter().map(|w| scene.stand(w)).collect();
    let groups = joined.groups.iter().map(front).collect();
    WaitsReport { faults, groups, stands, problems, contradictions }
}

fn front(group: &groups::Group) -> GroupFront {
    let one = |m: &groups::Member| {
        let enqueued = match m.reach {
            groups::Reach::At(seq) => Some(seq),
            _ => m.held.last().map(|h| h.0),
        };
        Front {
            rank: m.rank,
            enqueued,
            completed: m
                .first
                .map(|f| f - 1)
                .or(m.completed)
                .or(m.held.last().map(|h| h.0))
                .filter(|_| !m.concluded),
            oldest: m.held.first().map(|h| h.0),
            seen: m.trace.is_some(),
            concluded: m.concluded,
            unknown: matches!(
                m.reach,
                groups::Reach::Unknown | groups::Reach::Absent | groups::Reach::Unread
            ),
        }
    };
    GroupFront {
        name: group.label(),
        part: group.part().to_string(),
        members: group.ranks.clone(),
        open: group.open,
        fronts: group.members.iter().map(one).collect(),
    }
}
