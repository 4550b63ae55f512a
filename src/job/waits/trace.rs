//! What one rank did, as far as it is known, in a form that does not say where
//! it was learnt: a Flight Recorder dump fills it (`from_dump`), and so can
//! lines of a log. Groups are the rank's own view; `groups` joins the views.

use std::sync::Arc;

use crate::base::RankSet;

/// What one rank did.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Global rank.
    pub rank: u32,
    /// File or stream it was read from.
    pub source: String,
    /// Version of the form, where it has one.
    pub version: String,
    /// Release of the communication library that it names.
    pub library: Option<String>,
    /// Whether it was JSON and not a pickle.
    pub json: bool,
    /// Ends before its time: the last operations may be missing.
    pub cut: bool,
    /// Learnt from lines of a log: what it does not say is not known.
    pub partial: bool,
    /// Holds every operation from the first one on.
    pub whole: bool,
    /// Ranks that it says exist.
    pub world: RankSet,
    /// The groups this rank is in, as far as it says.
    pub groups: Vec<TraceGroup>,
    /// Operations in the order of the program.
    pub records: Vec<Record>,
}

/// A group as one rank sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceGroup {
    /// Name, the same on all ranks; empty where there is none.
    pub name: String,
    /// What the program calls it.
    pub desc: String,
    /// Members by global rank; empty when not known.
    pub ranks: RankSet,
    /// The group of all ranks, whatever `ranks` says.
    pub all: bool,
    /// There may be more members than `ranks` says.
    pub open: bool,
    /// Sequence number of the last operation handed over.
    pub enqueued: Option<i64>,
    /// Of the last one seen finished.
    pub completed: Option<i64>,
}

/// One operation.
#[derive(Debug, Clone)]
pub struct Record {
    /// Order in the program of this rank.
    pub id: u64,
    /// Index into the trace's groups.
    pub group: u32,
    /// Position among the group's collectives.
    pub seq: Option<i64>,
    /// Whom it needs.
    pub kind: Kind,
    /// How it ended.
    pub done: Done,
    /// It was seen running on the device.
    pub started: bool,
    /// Wall clock in nanoseconds when it was handed over; 0 when not known.
    pub created: i64,
    /// How long until it was noticed as finished.
    pub took: Option<i64>,
    /// Time limit; 0 when not known.
    pub timeout_ms: i64,
    /// Operation with shapes and types.
    pub op: Arc<Op>,
    /// The user's own stack lines, innermost first.
    pub frames: Arc<[String]>,
}

/// Whom an operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// All members of the group.
    Collective,
    /// The receiver, by global rank.
    Send(u32),
    /// The sender, by global rank; any sender when `None`.
    Recv(Option<u32>),
    /// Not known, or a bracket around others.
    Other,
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// Not at all yet.
    No,
    /// Finished.
    Yes,
    /// No longer watched, which may mean finished or timed out.
    Perhaps,
    /// Given up by the watchdog, or ended by the abort after its time limit.
    Failed,
}

/// What was called.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Op {
    /// `all_reduce`, without the back end's name.
    pub name: String,
    /// Shapes of the tensors given.
    pub inputs: Vec<Vec<i64>>,
    /// Shapes of the tensors to be filled.
    pub outputs: Vec<Vec<i64>>,
    /// Element types of the tensors given.
    pub input_dtypes: Vec<String>,
    /// Element types of the tensors to be filled.
    pub output_dtypes: Vec<String>,
}

/// Elements of all shapes together.
pub(super) fn numel(shapes: &[Vec<i64>]) -> i64 {
    let one = |dims: &Vec<i64>| dims.iter().fold(1i64, |n, d| n.saturating_mul(*d));
    shapes.iter().map(one).fold(0, i64::saturating_add)
}

impl Op {
    /// `all_reduce of [8] Float`.
    pub(super) fn text(&self) -> String {
        let family = self.family();
        let (shapes, types) = if family == Family::Scatter {
            (&self.outputs, &self.output_dtypes)
        } else {
            (&self.inputs, &self.input_dtypes)
        };
        let Some(first) = shapes.first() else { return self.name.clone() };
        let dtype = types.first().map_or("", String::as_str);
        let more = if shapes.len() > 1 { format!(" and {} more", shapes.len() - 1) } else { String::new() };
        let one = |dims: &Vec<i64>| format!("{dims:?}").replace(", ", ",");
        let to = match (family, self.outputs.first()) {
            (Family::AllToAll | Family::AllGather | Family::ReduceScatter, Some(out))
                if self.outputs.len() == 1 =>
            {
                format!(" to {}", one(out))
            }
            _ => String::new(),
        };
        format!("{} of {}{more}{to} {dtype}", self.name, one(first)).trim_end().to_string()
    }

    /// The family of operations that may meet each other.
    pub(super) fn family(&self) -> Family {
        let name: String =
            self.name.chars().filter(char::is_ascii_alphabetic).collect::<String>().to_ascii_lowercase();
        let has = |part: &str| name.contains(part);
        match () {
            () if has("alltoall") => Family::AllToAll,
            () if has("allgather") => Family::AllGather,
            () if has("reducescatter") => Family::ReduceScatter,
            () if has("barrier") => Family::Barrier,
            () if has("allreduce") => Family::AllReduce,
            () if has("broadcast") => Family::Broadcast,
            () if has("reduce") => Family::Reduce,
            () if has("scatter") => Family::Scatter,
            () if has("gather") => Family::Gather,
            () => Family::Other,
        }
    }
}

/// Operations that follow the same rule about sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Family {
    AllReduce,
    Broadcast,
    Reduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Scatter,
    Gather,
    Barrier,
    Other,
}

impl Family {
    /// A member can be through although others have not come: the root of a
    /// broadcast, the leaves of a reduction.
    pub(super) fn rooted(self) -> bool {
        matches!(self, Self::Broadcast | Self::Reduce | Self::Scatter | Self::Gather)
    }
}
