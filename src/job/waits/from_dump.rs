//! Makes a [`Trace`] of a Flight Recorder dump. The formats differ in how they
//! name groups and count progress; this is the only place that knows it.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::trace::{Done, Kind, Op, Record, Trace, TraceGroup};
use crate::base::RankSet;
use crate::dump::{Call, Entry, FlightRecorder, Frame, State};

impl Trace {
    /// The trace of one rank; the rank itself stands in the file's name only.
    #[must_use]
    pub fn from_recorder(rank: u32, source: &str, recorder: FlightRecorder) -> Self {
        let mut trace = Self {
            rank,
            source: source.to_string(),
            version: recorder.version.clone(),
            library: recorder.library.clone(),
            json: recorder.json,
            cut: recorder.cut,
            ..Self::default()
        };
        let mut groups = Groups::new(&recorder);
        let trust = Trust::new(&recorder.entries);
        let mut ops: FxHashMap<*const Call, Arc<Op>> = FxHashMap::default();
        let mut stacks: FxHashMap<*const Frame, Arc<[String]>> = FxHashMap::default();
        let none: Arc<[String]> = Arc::from([]);
        for (at, entry) in recorder.entries.iter().enumerate() {
            let op = ops.entry(Arc::as_ptr(&entry.call)).or_insert_with(|| Arc::new(op_of(&entry.call)));
            let group = groups.find(entry);
            let frames = match entry.frames.first() {
                Some(first) => stacks
                    .entry(std::ptr::from_ref(first))
                    .or_insert_with(|| user_frames(&entry.frames))
                    .clone(),
                None => Arc::clone(&none),
            };
            let kind = kind_of(entry, &op.name, &groups.list[group as usize]);
            trace.records.push(Record {
                id: entry.record_id.unwrap_or(at as u64),
                group,
                seq: entry.seq,
                kind,
                done: done_of(entry, trust.of(entry)),
                started: entry.started_ns.is_some() || entry.state == State::Started,
                created: entry.created_ns,
                took: entry.completed_ns.map(|ns| ns.saturating_sub(entry.created_ns)),
                timeout_ms: entry.timeout_ms.unwrap_or(0),
                op: Arc::clone(op),
                frames,
            });
        }
        trace.whole = is_whole(&trace.records);
        groups.progress(&recorder, &trust);
        trace.world = recorder.groups.iter().fold(RankSet::new(), |mut all, g| {
            all.extend(&g.ranks);
            all
        });
        trace.groups = groups.list;
        trace
    }
}

/// Back ends that note when an operation ends: of the others what is no longer watched may have ended well.
struct Trust<'e>(Vec<(&'e str, bool)>);

impl<'e> Trust<'e> {
    fn new(entries: &'e [Entry]) -> Self {
        // (some retired without an end, some ended)
        let mut seen: Vec<(&str, bool, bool)> = Vec::new();
        for entry in entries {
            let end = back_end(entry);
            let at = seen.iter().position(|s| s.0 == end).unwrap_or_else(|| {
                seen.push((end, false, false));
                seen.len() - 1
            });
            seen[at].1 |= entry.retired && entry.state != State::Completed;
            seen[at].2 |= entry.state == State::Completed;
        }
        Self(seen.into_iter().map(|(end, open, ended)| (end, !open || ended)).collect())
    }

    fn of(&self, entry: &Entry) -> bool {
        let end = back_end(entry);
        self.0.iter().find(|t| t.0 == end).is_none_or(|t| t.1)
    }

    fn all(&self) -> bool {
        self.0.iter().all(|t| t.1)
    }
}

/// `nccl` of `nccl:all_reduce`.
fn back_end(entry: &Entry) -> &str {
    entry.call.name.split_once(':').map_or("", |p| p.0)
}

fn is_whole(records: &[Record]) -> bool {
    records.first().is_some_and(|r| r.id == 0)
        && records.last().is_some_and(|r| r.id + 1 == records.len() as u64)
}

fn op_of(call: &Call) -> Op {
    let name = call.name.split_once(':').map_or(call.name.as_str(), |p| p.1);
    Op {
        name: name.trim_start_matches('_').trim_end_matches("_base").to_string(),
        inputs: call.inputs.clone(),
        outputs: call.outputs.clone(),
        input_dtypes: call.input_dtypes.clone(),
        output_dtypes: call.output_dtypes.clone(),
    }
}

/// The stack without the library's own lines, the innermost eight.
fn user_frames(frames: &[Frame]) -> Arc<[String]> {
    let own = |f: &&Frame| {
        let library = ["/torch/", "/site-packages/", "/dist-packages/", "/lib/python", "<frozen"];
        !library.iter().any(|part| f.file.contains(part))
    };
    let mut kept: Vec<String> = frames.iter().filter(own).take(8).map(ToString::to_string).collect();
    if kept.is_empty() {
        kept = frames.iter().take(3).map(ToString::to_string).collect();
    }
    kept.into()
}

fn done_of(entry: &Entry, trust: bool) -> Done {
    let limit = entry.timeout_ms.unwrap_or(0).saturating_mul(1_000_000);
    let took = entry.completed_ns.map(|ns| ns.saturating_sub(entry.created_ns));
    match entry.state {
        State::Completed if limit > 0 && took.is_some_and(|t| t >= limit) => Done::Failed,
        State::Completed => Done::Yes,
        _ if entry.retired && trust => Done::Failed,
        _ if entry.retired => Done::Perhaps,
        _ => Done::No,
    }
}

/// `send 0->3`, `recv 3<-0`, `recv 3<-?`: ranks in the group.
fn kind_of(entry: &Entry, name: &str, group: &TraceGroup) -> Kind {
    let global = |text: &str| {
        let at: u32 = text.trim().parse().ok()?;
        if group.ranks.is_empty() {
            return group.all.then_some(at);
        }
        group.ranks.iter().nth(at as usize)
    };
    if let Some(rest) = name.strip_prefix("send ") {
        return rest.split_once("->").and_then(|p| global(p.1)).map_or(Kind::Other, Kind::Send);
    }
    if let Some(rest) = name.strip_prefix("recv ") {
        return match rest.split_once("<-") {
            Some((_, from)) if from.trim() == "?" => Kind::Recv(None),
            Some((_, from)) => global(from).map_or(Kind::Other, |r| Kind::Recv(Some(r))),
            None => Kind::Other,
        };
    }
    if entry.is_p2p { Kind::Other } else { Kind::Collective }
}

/// Settles sends and receives of groups whose members no dump declares: each rank says its own number in the group.
pub fn resolve(traces: &mut [Trace]) {
    type Numbers = FxHashMap<(String, u32), Option<u32>>;
    let mut numbers = Numbers::default();
    let parts = |name: &str| -> Option<(bool, u32, Option<u32>)> {
        let (sends, rest) = name
            .strip_prefix("send ")
            .map(|r| (true, r))
            .or_else(|| name.strip_prefix("recv ").map(|r| (false, r)))?;
        let (own, peer) = rest.split_once(if sends { "->" } else { "<-" })?;
        Some((sends, own.trim().parse().ok()?, peer.trim().parse().ok()))
    };
    let open = |trace: &Trace, record: &Record| {
        record.kind == Kind::Other && {
            let group = trace.groups.get(record.group as usize);
            group.is_some_and(|g| g.ranks.is_empty() && !g.all)
        }
    };
    for trace in traces.iter() {
        for record in trace.records.iter().filter(|r| open(trace, r)) {
            if let Some((_, own, _)) = parts(&record.op.name) {
                let key = (trace.groups[record.group as usize].name.clone(), own);
                // Two ranks with one number: groups of one name, which cannot be told apart.
                let slot = numbers.entry(key).or_insert(Some(trace.rank));
                *slot = slot.filter(|r| *r == trace.rank);
            }
        }
    }
    for trace in traces {
        for at in 0..trace.records.len() {
            if !open(trace, &trace.records[at]) {
                continue;
            }
            let Some((sends, _, Some(peer))) = parts(&trace.records[at].op.name) else { continue };
            let group = &trace.groups[trace.records[at].group as usize].name;
            if let Some(Some(peer)) = numbers.get(&(group.clone(), peer)) {
                trace.records[at].kind = if sends { Kind::Send(*peer) } else { Kind::Recv(Some(*peer)) };
            }
        }
    }
}

/// The groups of one dump, joined from entries, configuration and counters.
struct Groups {
    list: Vec<TraceGroup>,
    by_id: FxHashMap<i64, u32>,
    by_entry: FxHashMap<*const crate::dump::GroupRef, u32>,
    /// Groups are known by the process's own numbers only.
    numbered: bool,
}

impl Groups {
    fn new(recorder: &FlightRecorder) -> Self {
        let numbered =
            recorder.entries.first().is_some_and(|e| e.group.name.is_empty() && e.group.desc.is_empty());
        let mut groups =
            Self { list: Vec::new(), by_id: FxHashMap::default(), by_entry: FxHashMap::default(), numbered };
        for config in recorder.groups.iter().filter(|g| !g.name.is_empty()) {
            groups.add(&config.name, &config.desc, config.ranks.clone());
        }
        if numbered {
            groups.rename();
        }
        groups
    }

    fn add(&mut self, name: &str, desc: &str, ranks: RankSet) -> u32 {
        let all = desc == "default_pg" || name == "0";
        self.list.push(TraceGroup {
            name: name.into(),
            desc: desc.into(),
            ranks,
            all,
            ..TraceGroup::default()
        });
        self.list.len() as u32 - 1
    }

    /// Numbers differ between processes: what is the same is the members and,
    /// among groups of the same members, the order in which they were made.
    fn rename(&mut self) {
        let mut order: Vec<usize> = (0..self.list.len()).collect();
        order.sort_by_key(|i| self.list[*i].name.parse::<i64>().unwrap_or(i64::MAX));
        let mut seen: FxHashMap<RankSet, u32> = FxHashMap::default();
        for at in order {
            let group = &mut self.list[at];
            if let Ok(id) = group.name.parse() {
                self.by_id.insert(id, at as u32);
            }
            let count = seen.entry(group.ranks.clone()).or_insert(0);
            *count += 1;
            group.name = if group.all { "0".into() } else { format!("#{count}") };
        }
    }

    fn find(&mut self, entry: &Entry) -> u32 {
        let key = Arc::as_ptr(&entry.group);
        if let Some(at) = self.by_entry.get(&key) {
            return *at;
        }
        let group = &entry.group;
        let known = if self.numbered {
            self.by_id.get(&group.pg_id).copied()
        } else {
            self.list.iter().position(|g| g.name == group.name).map(|at| at as u32)
        };
        let at = known.unwrap_or_else(|| {
            let name = if self.numbered { group.pg_id.to_string() } else { group.name.clone() };
            self.add(&name, &group.desc, RankSet::new())
        });
        if self.list[at as usize].desc.is_empty() {
            self.list[at as usize].desc.clone_from(&group.desc);
        }
        self.by_id.insert(group.pg_id, at);
        self.by_entry.insert(key, at);
        at
    }

    /// Counters go by the process's own number of a group. An entry may tell
    /// which that is; else the groups, in the order of their names' numbers,
    /// were numbered in that order too.
    fn progress(&mut self, recorder: &FlightRecorder, trust: &Trust<'_>) {
        // Groups of a back end that does not note ends.
        let mut loose: Vec<u32> =
            recorder.entries.iter().filter(|e| !trust.of(e)).map(|e| self.find(e)).collect();
        loose.sort_unstable();
        loose.dedup();
        let used: FxHashSet<u32> = recorder.entries.iter().map(|e| self.find(e)).collect();
        let mut by_order: Vec<usize> = (0..self.list.len()).collect();
        by_order.sort_by_key(|i| self.list[*i].name.parse::<i64>().unwrap_or(i64::MAX));
        let plain = by_order.iter().all(|i| self.list[*i].name.parse::<i64>().is_ok());
        let mut zip: FxHashMap<i64, usize> = FxHashMap::default();
        if plain && by_order.len() == recorder.status.len() {
            zip = recorder.status.iter().map(|s| s.pg_id).zip(by_order).collect();
            let agrees = |(id, at): (&i64, &u32)| zip.get(id).is_none_or(|z| *z == *at as usize);
            if !self.by_id.iter().all(agrees) {
                zip.clear();
            }
        }
        for status in &recorder.status {
            let known = self.by_id.get(&status.pg_id).map(|at| *at as usize);
            let Some(at) = known.or_else(|| zip.get(&status.pg_id).copied()) else { continue };
            self.list[at].enqueued = Some(status.enqueued);
            // One without operations tells nothing of its back end.
            let known = if used.contains(&(at as u32)) {
                loose.binary_search(&(at as u32)).is_err()
            } else {
                trust.all()
            };
            self.list[at].completed = known.then_some(status.completed);
        }
    }
}
