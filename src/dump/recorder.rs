//! Flight Recorder dumps of PyTorch, of every format it has written: a bare
//! list of entries (2.2), tables of version 1.4, 2.x up to 2.10, written by
//! NCCL, gloo, xccl and the newer back ends, as pickle or JSON. What entries
//! say again and again (stacks, shapes, groups) is held once. Which process
//! wrote a dump stands in its file name only.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::tree::{Tree, Value};
use super::{Damage, Frame};
use crate::base::RankSet;

/// Most entries, frames of a stack, tensors of an entry and dimensions that are read.
const MAX_ENTRIES: usize = 1 << 19;
const MAX_FRAMES: usize = 64;
const MAX_TENSORS: usize = 4096;
const MAX_DIMS: usize = 16;

/// One dump: the last operations of one process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlightRecorder {
    /// The format as written (`2.10`); empty for the bare list of 2.2.
    pub version: String,
    /// Release of NCCL, where the dump has it.
    pub library: Option<String>,
    /// Written as JSON: nothing is missing then but stacks.
    pub json: bool,
    /// The file ended early or was damaged: newer entries may be missing.
    pub cut: bool,
    /// Groups with their members, as far as declared.
    pub groups: Vec<GroupConfig>,
    /// Progress counters.
    pub status: Vec<GroupStatus>,
    /// The operations, oldest first.
    pub entries: Vec<Entry>,
}

/// A group as `pg_config` declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    /// Key of the table: the group's name, or its number in format 1.4.
    pub name: String,
    /// What the program called it.
    pub desc: String,
    /// Global ranks.
    pub ranks: RankSet,
}

/// Progress of a group as `pg_status` counts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStatus {
    /// The process's own number of the group, the key of the table.
    pub pg_id: i64,
    /// Sequence number of the last operation handed over.
    pub enqueued: i64,
    /// Of the last one seen running; -1 without timing.
    pub started: i64,
    /// Of the last one seen finished.
    pub completed: i64,
}

/// The group an entry belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupRef {
    /// Number of the group in this process.
    pub pg_id: i64,
    /// Name, the same on all ranks; empty where the format has none.
    pub name: String,
    /// What the program called it.
    pub desc: String,
}

/// What was called: equal for many entries.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Call {
    /// `nccl:all_reduce`, `nccl:send 0->1`.
    pub name: String,
    /// Shapes of the tensors given.
    pub inputs: Vec<Vec<i64>>,
    /// Shapes of the tensors to be filled.
    pub outputs: Vec<Vec<i64>>,
    /// Element types of the tensors given (`Float`, `BFloat16`).
    pub input_dtypes: Vec<String>,
    /// Element types of the tensors to be filled.
    pub output_dtypes: Vec<String>,
}

/// How far the library saw an operation come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Handed over; it may well be running.
    #[default]
    Scheduled,
    /// Seen running.
    Started,
    /// Seen finished.
    Completed,
}

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Counts all operations of the process from 0.
    pub record_id: Option<u64>,
    /// The group.
    pub group: Arc<GroupRef>,
    /// Position among the group's collectives.
    pub seq: Option<i64>,
    /// Position among this rank's sends and receives in the group.
    pub p2p_seq: Option<i64>,
    /// Operation with shapes and types.
    pub call: Arc<Call>,
    /// Wall clock when it was handed over.
    pub created_ns: i64,
    /// When it was noticed running.
    pub started_ns: Option<i64>,
    /// When it was noticed finished.
    pub completed_ns: Option<i64>,
    /// Its state.
    pub state: State,
    /// Dropped from the list of watched operations.
    pub retired: bool,
    /// Time limit.
    pub timeout_ms: Option<i64>,
    /// A send or a receive.
    pub is_p2p: bool,
    /// Stack at the call, innermost first.
    pub frames: Arc<[Frame]>,
}

#[derive(Clone, Copy)]
enum Key {
    Frames,
    RecordId,
    PgId,
    Group,
    Seq,
    P2pSeq,
    Name,
    Created,
    CreatedUs,
    Started,
    Completed,
    Inputs,
    Outputs,
    InputTypes,
    OutputTypes,
    State,
    Retired,
    Timeout,
    IsP2p,
    Other,
}

fn key_of(text: &str) -> Key {
    match text {
        "frames" => Key::Frames,
        "record_id" => Key::RecordId,
        "pg_id" => Key::PgId,
        "process_group" => Key::Group,
        "collective_seq_id" | "seq_id" => Key::Seq,
        "p2p_seq_id" => Key::P2pSeq,
        "profiling_name" => Key::Name,
        "time_created_ns" => Key::Created,
        "time_created_us" => Key::CreatedUs,
        "time_discovered_started_ns" => Key::Started,
        "time_discovered_completed_ns" => Key::Completed,
        "input_sizes" => Key::Inputs,
        "output_sizes" => Key::Outputs,
        "input_dtypes" => Key::InputTypes,
        "output_dtypes" => Key::OutputTypes,
        "state" => Key::State,
        "retired" => Key::Retired,
        "timeout_ms" => Key::Timeout,
        "is_p2p" => Key::IsP2p,
        _ => Key::Other,
    }
}

/// Values that many entries share, each held once.
struct Shared<T: ?Sized, K> {
    seen: FxHashMap<K, Arc<T>>,
}

impl<T: ?Sized, K: Hash + Eq + Clone> Shared<T, K> {
    fn new() -> Self {
        Self { seen: FxHashMap::default() }
    }

    fn get(&mut self, key: &K, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        if let Some(found) = self.seen.get(key) {
            return Arc::clone(found);
        }
        let made = make();
        self.seen.insert(key.clone(), Arc::clone(&made));
        made
    }
}

/// Reads what the tree holds, or `None` when it is no such dump.
pub(super) fn build(tree: &Tree<'_>, root: Value, damage: &mut Vec<Damage>) -> Option<FlightRecorder> {
    let mut recorder = FlightRecorder::default();
    let list = match root {
        Value::Seq(_) => root,
        _ => {
            let entries = tree.get(root, "entries");
            let config = tree.get(root, "pg_config");
            let status = tree.get(root, "pg_status");
            if entries.is_none() && config.is_none() && status.is_none() {
                return None;
            }
            recorder.version = tree.get(root, "version").and_then(|v| tree.label(v)).unwrap_or_default();
            recorder.library = ["nccl_version", "comm_lib_version"]
                .iter()
                .find_map(|k| tree.get(root, k).and_then(|v| tree.label(v)))
                .filter(|v| !v.is_empty());
            recorder.groups = config.map_or_else(Vec::new, |v| configs(tree, v, damage));
            recorder.status = status.map_or_else(Vec::new, |v| statuses(tree, v));
            entries.unwrap_or(Value::None)
        }
    };
    let items = tree.list(list);
    if matches!(root, Value::Seq(_)) && !items.first().is_some_and(|v| is_entry(tree, *v)) {
        return None;
    }
    if items.len() > MAX_ENTRIES {
        damage.push(Damage(format!("{} entries; the first {MAX_ENTRIES} are read", items.len())));
    }
    let mut reader = Entries::new(tree);
    let kept = items.iter().take(MAX_ENTRIES);
    recorder.entries = kept.filter_map(|item| reader.entry(*item)).collect();
    if let Some(what) = reader.odd {
        damage.push(Damage(what));
    }
    // The library writes them in order; a ring that wrapped may begin in its middle.
    recorder.entries.sort_by_key(|e| e.record_id);
    Some(recorder)
}

fn is_entry(tree: &Tree<'_>, value: Value) -> bool {
    tree.get(value, "profiling_name").is_some() && tree.get(value, "state").is_some()
}

fn configs(tree: &Tree<'_>, table: Value, damage: &mut Vec<Damage>) -> Vec<GroupConfig> {
    let mut list = Vec::new();
    for (key, value) in tree.pairs(table) {
        let Some(name) = tree.label(key) else { continue };
        let field = |k: &str| tree.get(value, k).and_then(|v| tree.label(v));
        let ranks = tree.get(value, "ranks").unwrap_or(value);
        let Some(ranks) = ranks_of(tree, ranks) else {
            damage.push(Damage(format!("the ranks of group {name} are not readable")));
            continue;
        };
        list.push(GroupConfig {
            name: field("name").unwrap_or(name),
            desc: field("desc").unwrap_or_default(),
            ranks,
        });
    }
    list
}

fn ranks_of(tree: &Tree<'_>, value: Value) -> Option<RankSet> {
    const MAX_RANKS: usize = 1 << 20;
    let ranks = match value {
        Value::Str(id) => {
            // Written out, never as a range: a short text that stands for millions of ranks is damage.
            let text = tree.text(id);
            RankSet::parse(text).filter(|r| r.len() <= text.len())?
        }
        Value::Seq(_) => {
            let ranks: Option<Vec<u32>> =
                tree.list(value).iter().map(|v| tree.int(*v).and_then(|i| u32::try_from(i).ok())).collect();
            let mut ranks = ranks?;
            ranks.sort_unstable();
            ranks.into_iter().collect()
        }
        _ => return None,
    };
    (ranks.len() <= MAX_RANKS).then_some(ranks)
}

fn statuses(tree: &Tree<'_>, table: Value) -> Vec<GroupStatus> {
    let mut list: Vec<GroupStatus> = tree
        .pairs(table)
        .filter_map(|(key, value)| {
            let field = |k: &str| tree.get(value, k).and_then(|v| tree.int(v)).unwrap_or(-1);
            Some(GroupStatus {
                pg_id: tree.int(key)?,
                enqueued: field("last_enqueued_collective"),
                started: field("last_started_collective"),
                completed: field("last_completed_collective"),
            })
        })
        .collect();
    list.sort_by_key(|s| s.pg_id);
    list
}

struct Entries<'t, 'a> {
    tree: &'t Tree<'a>,
    keys: Vec<Option<Key>>,
    groups: Shared<GroupRef, GroupRef>,
    calls: Shared<Call, (String, Vec<i64>)>,
    stacks: Shared<[Frame], Vec<(u32, u32, u32)>>,
    names: Shared<str, String>,
    name_ids: FxHashMap<Arc<str>, u32>,
    /// Calls with very many tensors, by the values they were made of.
    large: FxHashMap<[Option<u32>; 5], Arc<Call>>,
    read: Vec<bool>,
    odd: Option<String>,
}

/// The fields of an entry as they were found.
#[derive(Default, Clone, Copy)]
struct Raw {
    frames: Option<Value>,
    record_id: Option<Value>,
    pg_id: Option<Value>,
    group: Option<Value>,
    seq: Option<Value>,
    p2p_seq: Option<Value>,
    name: Option<Value>,
    created: Option<Value>,
    created_us: Option<Value>,
    started: Option<Value>,
    completed: Option<Value>,
    shapes: [Option<Value>; 2],
    types: [Option<Value>; 2],
    state: Option<Value>,
    retired: Option<Value>,
    timeout: Option<Value>,
    is_p2p: Option<Value>,
}

impl<'t, 'a> Entries<'t, 'a> {
    fn new(tree: &'t Tree<'a>) -> Self {
        Self {
            tree,
            keys: vec![None; tree.texts()],
            groups: Shared::new(),
            calls: Shared::new(),
            stacks: Shared::new(),
            names: Shared::new(),
            name_ids: FxHashMap::default(),
            large: FxHashMap::default(),
            read: Vec::new(),
            odd: None,
        }
    }

    fn key(&mut self, value: Value) -> Key {
        let Value::Str(id) = value else { return Key::Other };
        let tree = self.tree;
        match self.keys.get_mut(id as usize) {
            Some(slot) => *slot.get_or_insert_with(|| key_of(tree.text(id))),
            None => Key::Other,
        }
    }

    fn raw(&mut self, value: Value) -> Raw {
        let mut raw = Raw::default();
        let tree = self.tree;
        for (key, item) in tree.pairs(value) {
            let slot = match self.key(key) {
                Key::Frames => &mut raw.frames,
                Key::RecordId => &mut raw.record_id,
                Key::PgId => &mut raw.pg_id,
                Key::Group => &mut raw.group,
                Key::Seq => &mut raw.seq,
                Key::P2pSeq => &mut raw.p2p_seq,
                Key::Name => &mut raw.name,
                Key::Created => &mut raw.created,
                Key::CreatedUs => &mut raw.created_us,
                Key::Started => &mut raw.started,
                Key::Completed => &mut raw.completed,
                Key::Inputs => &mut raw.shapes[0],
                Key::Outputs => &mut raw.shapes[1],
                Key::InputTypes => &mut raw.types[0],
                Key::OutputTypes => &mut raw.types[1],
                Key::State => &mut raw.state,
                Key::Retired => &mut raw.retired,
                Key::Timeout => &mut raw.timeout,
                Key::IsP2p => &mut raw.is_p2p,
                Key::Other => continue,
            };
            *slot = Some(item);
        }
        raw
    }

    /// Whether this very table was read before: no dump names an entry twice.
    fn seen(&mut self, value: Value) -> bool {
        let Value::Map(id) = value else { return true };
        let id = id as usize;
        if self.read.len() <= id {
            self.read.resize(id + 1, false);
        }
        std::mem::replace(&mut self.read[id], true)
    }

    /// `None` for what is no entry, or one that a cut left without its end.
    fn entry(&mut self, value: Value) -> Option<Entry> {
        if self.seen(value) {
            return None;
        }
        let raw = self.raw(value);
        let tree = self.tree;
        let int = |v: Option<Value>| v.and_then(|v| tree.int(v));
        let name = raw.name.and_then(|v| tree.str(v))?;
        let state = match raw.state.and_then(|v| tree.str(v))? {
            "completed" => State::Completed,
            "started" => State::Started,
            _ => State::Scheduled,
        };
        let created = int(raw.created);
        let created_us = int(raw.created_us).map(|us| us.saturating_mul(1000));
        let plain = name.split_once(':').map_or(name, |n| n.1);
        let is_p2p = match raw.is_p2p {
            Some(Value::Bool(b)) => b,
            _ => plain.starts_with("send ") || plain.starts_with("recv "),
        };
        let (call, group) = (self.call(name, &raw), self.group(&raw));
        let frames = self.frames(raw.frames);
        Some(Entry {
            record_id: int(raw.record_id).and_then(|i| u64::try_from(i).ok()),
            group,
            seq: int(raw.seq),
            p2p_seq: int(raw.p2p_seq),
            call,
            created_ns: created.or(created_us).unwrap_or(0),
            started_ns: int(raw.started).filter(|ns| *ns > 0),
            completed_ns: int(raw.completed).filter(|ns| *ns > 0),
            state,
            retired: int(raw.retired).is_some_and(|b| b != 0),
            timeout_ms: int(raw.timeout).filter(|ms| *ms > 0),
            is_p2p,
            frames,
        })
    }

    fn group(&mut self, raw: &Raw) -> Arc<GroupRef> {
        let tree = self.tree;
        let pair = raw.group.map_or(&[][..], |v| tree.list(v));
        let part = |at: usize| pair.get(at).and_then(|v| tree.label(*v)).unwrap_or_default();
        let pg_id = raw.pg_id.and_then(|v| tree.int(v)).unwrap_or(-1);
        let key = GroupRef { pg_id, name: part(0), desc: part(1) };
        self.groups.get(&key, || Arc::new(key.clone()))
    }

    fn call(&mut self, name: &str, raw: &Raw) -> Arc<Call> {
        let tree = self.tree;
        let parts = [raw.name, raw.shapes[0], raw.shapes[1], raw.types[0], raw.types[1]];
        let parts = parts.map(|v| match v {
            Some(Value::Str(id) | Value::Seq(id)) => Some(id),
            _ => None,
        });
        if let Some(call) = self.large.get(&parts) {
            return Arc::clone(call);
        }
        let mut flat = Vec::with_capacity(16);
        for shapes in raw.shapes {
            let tensors = shapes.map_or(&[][..], |v| tree.list(v));
            if tensors.len() > MAX_TENSORS {
                self.odd = Some(format!("an entry with {} tensors; {MAX_TENSORS} are read", tensors.len()));
            }
            flat.push(tensors.len().min(MAX_TENSORS) as i64);
            for tensor in tensors.iter().take(MAX_TENSORS) {
                let dims = tree.list(*tensor);
                let dims = &dims[..dims.len().min(MAX_DIMS)];
                flat.push(dims.len() as i64);
                flat.extend(dims.iter().map(|d| tree.int(*d).unwrap_or(0)));
            }
        }
        for types in raw.types {
            let types = types.map_or(&[][..], |v| tree.list(v));
            flat.push(types.len().min(MAX_TENSORS) as i64);
            for dtype in types.iter().take(MAX_TENSORS) {
                let name = self.name(*dtype);
                flat.push(i64::from(name));
            }
        }
        let large = flat.len() > 256;
        let key = (name.to_string(), flat);
        let call = self.calls.get(&key, || {
            let types = |v: Option<Value>| -> Vec<String> {
                let list = v.map_or(&[][..], |v| tree.list(v));
                list.iter().take(MAX_TENSORS).map(|t| tree.label(*t).unwrap_or_default()).collect()
            };
            Arc::new(Call {
                name: name.chars().take(256).collect(),
                inputs: shapes_of(tree, raw.shapes[0]),
                outputs: shapes_of(tree, raw.shapes[1]),
                input_dtypes: types(raw.types[0]),
                output_dtypes: types(raw.types[1]),
            })
        });
        if large {
            self.large.insert(parts, Arc::clone(&call));
        }
        call
    }

    /// A number for a text, the same for equal texts.
    fn name(&mut self, value: Value) -> u32 {
        let text = self.tree.str(value).unwrap_or("");
        if let Some(id) = self.name_ids.get(text) {
            return *id;
        }
        let id = self.name_ids.len() as u32;
        let kept = self.names.get(&text.to_string(), || Arc::from(text));
        self.name_ids.insert(kept, id);
        id
    }

    fn frames(&mut self, value: Option<Value>) -> Arc<[Frame]> {
        let tree = self.tree;
        let list = value.map_or(&[][..], |v| tree.list(v));
        let list = &list[..list.len().min(MAX_FRAMES)];
        let mut key = Vec::with_capacity(list.len());
        for frame in list {
            let part = |k: &str| tree.get(*frame, k).unwrap_or(Value::None);
            let (name, file) = (self.name(part("name")), self.name(part("filename")));
            let line = tree.int(part("line")).and_then(|l| u32::try_from(l).ok()).unwrap_or(0);
            key.push((name, file, line));
        }
        let texts = &self.names.seen;
        self.stacks.get(&key, || {
            let text = |frame: Value, k: &str| -> Arc<str> {
                let text = tree.get(frame, k).and_then(|v| tree.str(v)).unwrap_or("");
                texts.get(text).cloned().unwrap_or_else(|| Arc::from(text))
            };
            let frames = list.iter().zip(&key).map(|(frame, ids)| Frame {
                name: text(*frame, "name"),
                file: text(*frame, "filename"),
                line: ids.2,
            });
            frames.collect()
        })
    }
}

fn shapes_of(tree: &Tree<'_>, value: Option<Value>) -> Vec<Vec<i64>> {
    let tensors = value.map_or(&[][..], |v| tree.list(v));
    let dims = |v: &Value| tree.list(*v).iter().take(MAX_DIMS).map(|d| tree.int(*d).unwrap_or(0)).collect();
    tensors.iter().take(MAX_TENSORS).map(dims).collect()
}
