//! Makes dumps for tests, in every format: what a process would have written,
//! as pickle (with the memo that the real writers use) or JSON. Used by the
//! tests here and by those of the waits.

use std::collections::HashMap;

/// A plain value.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    None,
    Bool(bool),
    Int(i64),
    Str(String),
    List(Vec<Node>),
    Tuple(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

pub(crate) fn s(text: &str) -> Node {
    Node::Str(text.to_string())
}

/// As the C++ writer of torch does it: protocol 2, texts named by BINPUT.
pub(crate) fn pickle(node: &Node) -> Vec<u8> {
    let mut out = vec![0x80, 2];
    put(node, &mut out, &mut HashMap::new());
    out.push(b'.');
    out
}

fn put(node: &Node, out: &mut Vec<u8>, memo: &mut HashMap<String, u32>) {
    match node {
        Node::None => out.push(b'N'),
        Node::Bool(b) => out.push(if *b { 0x88 } else { 0x89 }),
        Node::Int(i) if (0..256).contains(i) => out.extend([b'K', *i as u8]),
        Node::Int(i) if i32::try_from(*i).is_ok() => {
            out.push(b'J');
            out.extend((*i as i32).to_le_bytes());
        }
        Node::Int(i) => {
            out.extend([0x8a, 8]);
            out.extend(i.to_le_bytes());
        }
        Node::Str(text) => match memo.get(text) {
            Some(at) if *at < 256 => out.extend([b'h', *at as u8]),
            Some(at) => {
                out.push(b'j');
                out.extend(at.to_le_bytes());
            }
            None => {
                out.push(b'X');
                out.extend((text.len() as u32).to_le_bytes());
                out.extend(text.as_bytes());
                let at = memo.len() as u32;
                memo.insert(text.clone(), at);
                if at < 256 {
                    out.extend([b'q', at as u8]);
                } else {
                    out.push(b'r');
                    out.extend(at.to_le_bytes());
                }
            }
        },
        Node::List(items) | Node::Tuple(items) => {
            let tuple = matches!(node, Node::Tuple(_));
            out.extend(if tuple { &b"("[..] } else { &b"]("[..] });
            items.iter().for_each(|i| put(i, out, memo));
            out.push(if tuple { b't' } else { b'e' });
        }
        Node::Map(pairs) => {
            out.extend(b"}(");
            for (key, value) in pairs {
                put(key, out, memo);
                put(value, out, memo);
            }
            out.push(b'u');
        }
    }
}

/// The same as JSON; keys become text.
pub(crate) fn json(node: &Node) -> serde_json::Value {
    match node {
        Node::None => 0.into(),
        Node::Bool(b) => (*b).into(),
        Node::Int(i) => (*i).into(),
        Node::Str(text) => text.clone().into(),
        Node::List(items) | Node::Tuple(items) => items.iter().map(json).collect(),
        Node::Map(pairs) => {
            let key = |k: &Node| match k {
                Node::Str(text) => text.clone(),
                Node::Int(i) => i.to_string(),
                _ => String::new(),
            };
            serde_json::Value::Object(pairs.iter().map(|(k, v)| (key(k), json(v))).collect())
        }
    }
}

/// One operation of a made dump.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(crate) group: String,
    pub(crate) seq: i64,
    pub(crate) p2p_seq: i64,
    pub(crate) name: String,
    pub(crate) inputs: Vec<Vec<i64>>,
    pub(crate) outputs: Vec<Vec<i64>>,
    pub(crate) dtype: String,
    pub(crate) state: String,
    pub(crate) retired: bool,
    pub(crate) created: i64,
    pub(crate) took: Option<i64>,
    pub(crate) started: bool,
    pub(crate) line: i64,
}

/// One dump before it is written.
#[derive(Debug, Clone)]
pub(crate) struct Doc {
    pub(crate) version: &'static str,
    pub(crate) groups: Vec<(String, String, Vec<u32>)>,
    pub(crate) ops: Vec<Op>,
    /// Number of the first record that is still held.
    pub(crate) first_record: i64,
    /// Write progress counters.
    pub(crate) status: bool,
    pub(crate) backend: &'static str,
    /// Group names in `pg_config` as gloo writes them: none.
    pub(crate) nameless: bool,
}

const SECOND: i64 = 1_000_000_000;
pub(crate) const TIMEOUT_MS: i64 = 600_000;

fn shapes(list: &[Vec<i64>]) -> Node {
    Node::List(list.iter().map(|d| Node::List(d.iter().map(|i| Node::Int(*i)).collect())).collect())
}

impl Doc {
    fn pg_id(&self, group: &str) -> i64 {
        self.groups.iter().position(|g| g.0 == group).map_or(0, |at| at as i64 * 2)
    }

    fn entry(&self, at: usize, op: &Op) -> Node {
        let frame = |name: &str, file: &str, line: i64| {
            Node::Map(vec![(s("name"), s(name)), (s("filename"), s(file)), (s("line"), Node::Int(line))])
        };
        let call = op.name.split(' ').next().unwrap_or("");
        let frames = vec![
            frame(call, "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 4174),
            frame("wrapper", "/env/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", 83),
            frame("train_step", "/home/user/train.py", op.line),
        ];
        let desc = self.groups.iter().find(|g| g.0 == op.group).map_or("", |g| g.1.as_str());
        let dtypes = |list: &[Vec<i64>]| Node::List(list.iter().map(|_| s(&op.dtype)).collect());
        let done = op.took.map_or(Node::None, |took| Node::Int(op.created + took));
        let bare = self.version.is_empty();
        let mut pairs = vec![("frames", Node::List(frames))];
        if !bare {
            pairs.push(("record_id", Node::Int(self.first_record + at as i64)));
        }
        pairs.push(("pg_id", Node::Int(self.pg_id(&op.group))));
        if matches!(self.version, "" | "1.4") {
            pairs.push(("seq_id", Node::Int(op.seq)));
        } else {
            pairs.push(("process_group", Node::Tuple(vec![s(&op.group), s(desc)])));
            pairs.push(("collective_seq_id", Node::Int(op.seq)));
            pairs.push(("p2p_seq_id", Node::Int(op.p2p_seq)));
            pairs.push(("is_p2p", Node::Bool(op.p2p_seq > 0)));
            pairs.push(("timeout_ms", Node::Int(TIMEOUT_MS)));
            pairs.push(("input_dtypes", dtypes(&op.inputs)));
            pairs.push(("output_dtypes", dtypes(&op.outputs)));
        }
        pairs.push(("profiling_name", s(&format!("{}:{}", self.backend, op.name))));
        if bare {
            pairs.push(("time_created_us", Node::Int(op.created / 1000)));
        } else {
            pairs.push(("time_created_ns", Node::Int(op.created)));
            pairs.push((
                "time_discovered_started_ns",
                if op.started { Node::Int(op.created + 1) } else { Node::None },
            ));
            pairs.push(("time_discovered_completed_ns", done));
        }
        pairs.push(("input_sizes", shapes(&op.inputs)));
        pairs.push(("output_sizes", shapes(&op.outputs)));
        pairs.push(("state", s(&op.state)));
        pairs.push(("retired", Node::Bool(op.retired)));
        Node::Map(pairs.into_iter().map(|(k, v)| (s(k), v)).collect())
    }

    fn config(&self) -> Node {
        let ranks = |list: &[u32]| s(&format!("{list:?}"));
        if self.nameless {
            let all = self.groups.first().map_or(&[][..], |g| g.2.as_slice());
            let fields = vec![(s("name"), s("")), (s("desc"), s("")), (s("ranks"), ranks(all))];
            return Node::Map(vec![(s(""), Node::Map(fields))]);
        }
        let pairs = self.groups.iter().map(|(name, desc, list)| {
            if self.version == "1.4" {
                return (Node::Int(self.pg_id(name)), ranks(list));
            }
            let fields = vec![(s("name"), s(name)), (s("desc"), s(desc)), (s("ranks"), ranks(list))];
            (s(name), Node::Map(fields))
        });
        Node::Map(pairs.collect())
    }

    fn counters(&self, json: bool) -> Node {
        let number = |i: i64| if json { s(&i.to_string()) } else { Node::Int(i) };
        let pairs = self.groups.iter().map(|(name, ..)| {
            let own = || self.ops.iter().filter(|o| o.group == *name);
            let enqueued =
                own().map(|o| if o.p2p_seq > 0 { o.p2p_seq } else { o.seq }).next_back().unwrap_or(-1);
            let done = own().filter(|o| o.state == "completed" || o.retired);
            let completed =
                done.map(|o| if o.p2p_seq > 0 { o.p2p_seq } else { o.seq }).next_back().unwrap_or(-1);
            let fields = vec![
                (s("last_enqueued_collective"), number(enqueued)),
                (s("last_started_collective"), number(-1)),
                (s("last_completed_collective"), number(completed)),
            ];
            (s(&self.pg_id(name).to_string()), Node::Map(fields))
        });
        Node::Map(pairs.collect())
    }

    /// The document as a value.
    pub(crate) fn node(&self, json: bool) -> Node {
        let list = Node::List(self.ops.iter().enumerate().map(|(i, op)| self.entry(i, op)).collect());
        if self.version.is_empty() {
            return list;
        }
        let mut pairs = vec![(s("version"), s(self.version)), (s("pg_config"), self.config())];
        if self.status && self.version != "1.4" {
            pairs.push((s("pg_status"), self.counters(json)));
        }
        pairs.push((s("entries"), list));
        Node::Map(pairs)
    }

    pub(crate) fn pickle(&self) -> Vec<u8> {
        pickle(&self.node(false))
    }

    pub(crate) fn json(&self) -> Vec<u8> {
        serde_json::to_vec(&json(&self.node(true))).unwrap()
    }
}

/// A finished collective over `elements` floats.
pub(crate) fn done(group: &str, seq: i64, name: &str, elements: i64) -> Op {
    Op {
        group: group.into(),
        seq,
        p2p_seq: 0,
        name: name.into(),
        inputs: vec![vec![elements]],
        outputs: vec![vec![elements]],
        dtype: "Float".into(),
        state: "completed".into(),
        retired: true,
        created: 1_796_059_717 * SECOND + seq * SECOND,
        took: Some(SECOND / 100),
        started: false,
        line: 10 + seq,
    }
}

/// One that was handed over and never finished.
pub(crate) fn open(group: &str, seq: i64, name: &str, elements: i64) -> Op {
    Op { state: "scheduled".into(), retired: false, took: None, ..done(group, seq, name, elements) }
}
