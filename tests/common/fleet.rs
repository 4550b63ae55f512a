//! A made job that hangs: ranks with programs of collectives, sends and
//! receives run until nothing goes on any more, as devices do it (one
//! operation after the other, each when all who belong to it have come to it
//! and mean the same). What then stands open is written as Flight Recorder
//! dumps here and as log lines in `fleet_log`. Everything follows from the seed.

use std::collections::HashMap;
use std::fmt::Write;

/// One operation of a program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) group: usize,
    pub(crate) name: String,
    pub(crate) inputs: Vec<i64>,
    pub(crate) outputs: Vec<i64>,
    pub(crate) dtype: &'static str,
    /// A send to or a receive from a rank.
    pub(crate) pair: Option<(bool, usize)>,
    /// It never ends, although all have come.
    pub(crate) sticks: bool,
}

/// A process group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) desc: String,
    pub(crate) members: Vec<usize>,
}

/// One operation of one rank after the run.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) call: Call,
    /// Position in its group, collectives and sends counted apart.
    pub(crate) seq: i64,
    pub(crate) p2p: i64,
    pub(crate) ended: bool,
    pub(crate) created: i64,
    pub(crate) started: bool,
}

/// How dumps are written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Style {
    pub(crate) json: bool,
    /// As gloo writes: always scheduled, no names in the configuration.
    pub(crate) gloo: bool,
    /// Beginnings are recorded.
    pub(crate) timing: bool,
    /// Progress counters are left out.
    pub(crate) plain: bool,
}

/// The job.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    pub(crate) groups: Vec<Group>,
    pub(crate) programs: Vec<Vec<Call>>,
    /// Operations that a rank hands over beyond the one that is not done.
    pub(crate) ahead: usize,
    /// After the run.
    pub(crate) ranks: Vec<Vec<Done>>,
    pub(crate) seed: u64,
}

/// Small numbers that follow from a seed (xorshift).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let mut x = self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0 = x;
        ((x >> 11) as usize) % n
    }
}

const BASE: i64 = 1_796_059_717_000_000_000;
pub(crate) const TIMEOUT_MS: i64 = 600_000;

pub(crate) fn collective(group: usize, name: &str, inputs: i64, outputs: i64) -> Call {
    Call {
        group,
        name: name.into(),
        inputs: vec![inputs],
        outputs: vec![outputs],
        dtype: "Float",
        pair: None,
        sticks: false,
    }
}

pub(crate) fn pair(group: usize, sends: bool, peer: usize) -> Call {
    let name = if sends { "send" } else { "recv" };
    Call { pair: Some((sends, peer)), ..collective(group, name, 512, 512) }
}

impl Fleet {
    /// Eight ranks in tensor groups of four and data groups of two that train; each step ends with a reduction over
    /// all. `steps` of them.
    pub(crate) fn training(seed: u64, steps: usize) -> Self {
        let group = |name: usize, desc: &str, members: Vec<usize>| Group {
            name: name.to_string(),
            desc: desc.into(),
            members,
        };
        let mut groups = vec![group(0, "default_pg", (0..8).collect())];
        groups.extend((0..2).map(|i| group(1 + i, "tensor", (i * 4..i * 4 + 4).collect())));
        groups.extend((0..4).map(|i| group(3 + i, "data", vec![i, i + 4])));
        let mut dice = Dice(seed + 1);
        let sizes: Vec<i64> = (0..steps).map(|_| 1 << (6 + dice.below(8))).collect();
        let program = |rank: usize| -> Vec<Call> {
            let (tensor, data) = (1 + rank / 4, 3 + rank % 4);
            let step = |size: &i64| {
                [
                    collective(tensor, "_all_gather_base", *size, size * 4),
                    collective(tensor, "all_reduce", size * 3, size * 3),
                    collective(data, "_reduce_scatter_base", size * 2, *size),
                    collective(0, "all_reduce", 1, 1),
                    collective(0, "broadcast", size * 5, size * 5),
                ]
            };
            sizes.iter().flat_map(step).collect()
        };
        let programs = (0..8).map(program).collect();
        Self { groups, programs, ahead: 1 + dice.below(3), ranks: Vec::new(), seed }
    }

    /// Four stages that hand `batches` on, then all reduce.
    pub(crate) fn pipeline(seed: u64, batches: usize) -> Self {
        let group = |name: &str, desc: &str| Group {
            name: name.into(),
            desc: desc.into(),
            members: (0..4).collect(),
        };
        let mut programs = vec![Vec::new(); 4];
        for _ in 0..batches {
            for (rank, program) in programs.iter_mut().enumerate() {
                if rank > 0 {
                    program.push(pair(1, false, rank - 1));
                }
                if rank < 3 {
                    program.push(pair(1, true, rank + 1));
                }
            }
        }
        for program in &mut programs {
            program.push(collective(0, "all_reduce", 64, 64));
        }
        Self {
            groups: vec![group("0", "default_pg"), group("1", "pipe")],
            programs,
            ahead: 1,
            ranks: Vec::new(),
            seed,
        }
    }

    /// Runs it until nothing goes on.
    pub(crate) fn run(mut self) -> Self {
        let n = self.programs.len();
        let mut ended = vec![0usize; n];
        loop {
            let mut moved = false;
            for rank in 0..n {
                while let Some(call) = self.programs[rank].get(ended[rank]) {
                    let Some(others) = self.meets(rank, call, &ended) else { break };
                    others.iter().for_each(|r| ended[*r] += 1);
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        let mut dice = Dice(self.seed + 77);
        self.ranks = (0..n).map(|rank| self.finish(rank, ended[rank], &mut dice)).collect();
        self
    }

    /// Who ends an operation together, when all stand at its like.
    fn meets(&self, rank: usize, call: &Call, ended: &[usize]) -> Option<Vec<usize>> {
        let head = |r: usize| self.programs[r].get(ended[r]);
        if call.sticks {
            return None;
        }
        if let Some((sends, peer)) = call.pair {
            let other = head(peer)?;
            return (other.group == call.group && other.pair == Some((!sends, rank)))
                .then(|| vec![rank, peer]);
        }
        let members = &self.groups[call.group].members;
        let same = |r: &usize| head(*r).is_some_and(|c| c.group == call.group && alike(c, call));
        members.iter().all(same).then(|| members.clone())
    }

    fn finish(&self, rank: usize, ended: usize, dice: &mut Dice) -> Vec<Done> {
        let mut seqs = vec![(0i64, 0i64); self.groups.len()];
        let upto = (ended + self.ahead).min(self.programs[rank].len());
        let one = |(at, call): (usize, &Call)| {
            let slot = &mut seqs[call.group];
            if call.pair.is_some() {
                slot.1 += 1;
            } else {
                slot.0 += 1;
            }
            let created = BASE + at as i64 * 900_000_000 + dice.below(40_000_000) as i64;
            let (seq, p2p) = (slot.0, if call.pair.is_some() { slot.1 } else { 0 });
            Done { call: call.clone(), seq, p2p, ended: at < ended, created, started: at <= ended }
        };
        self.programs[rank][..upto].iter().enumerate().map(one).collect()
    }

    /// Ranks that stand in something.
    pub(crate) fn waiting(&self) -> Vec<usize> {
        (0..self.ranks.len()).filter(|r| self.ranks[*r].iter().any(|d| !d.ended)).collect()
    }

    /// The dump of a rank.
    pub(crate) fn dump(&self, rank: usize, style: &Style, ring: usize) -> Vec<u8> {
        let from = self.ranks[rank].len().saturating_sub(ring);
        let entries: Vec<V> = self.ranks[rank]
            .iter()
            .enumerate()
            .skip(from)
            .map(|(i, d)| self.entry(rank, i, d, style))
            .collect();
        let mut pairs = vec![("version", t("2.10")), ("pg_config", self.config(rank, style))];
        if !style.plain {
            pairs.push(("pg_status", self.status(rank, style)));
        }
        pairs.push(("entries", V::List(entries)));
        let doc = V::map(pairs);
        if style.json { doc.json().into_bytes() } else { doc.pickle() }
    }

    fn own(&self, rank: usize) -> impl Iterator<Item = (usize, &Group)> {
        self.groups.iter().enumerate().filter(move |(_, g)| g.members.contains(&rank))
    }

    fn config(&self, rank: usize, style: &Style) -> V {
        if style.gloo {
            let all = format!("{:?}", self.groups[0].members);
            let fields = V::map(vec![("name", t("")), ("desc", t("")), ("ranks", t(&all))]);
            return V::Map(vec![(t(""), fields)]);
        }
        V::Map(
            self.own(rank)
                .map(|(_, g)| {
                    let ranks = format!("{:?}", g.members);
                    (
                        t(&g.name),
                        V::map(vec![("name", t(&g.name)), ("desc", t(&g.desc)), ("ranks", t(&ranks))]),
                    )
                })
                .collect(),
        )
    }

    /// Last operation handed over and last one done of a rank in a group.
    pub(crate) fn counters(&self, rank: usize, group: usize) -> (i64, i64) {
        let seq = |d: &Done| if d.p2p > 0 { d.p2p } else { d.seq };
        let own = || self.ranks[rank].iter().filter(|d| d.call.group == group);
        (
            own().map(seq).next_back().unwrap_or(-1),
            own().filter(|d| d.ended).map(seq).next_back().unwrap_or(-1),
        )
    }

    fn status(&self, rank: usize, style: &Style) -> V {
        let number = |i: i64| if style.json { t(&i.to_string()) } else { V::Int(i) };
        let one = |(at, _): (usize, &Group)| {
            let (enqueued, completed) = self.counters(rank, at);
            let fields = vec![
                ("last_enqueued_collective", number(enqueued)),
                ("last_started_collective", number(-1)),
                ("last_completed_collective", number(completed)),
            ];
            (t(&at.to_string()), V::map(fields))
        };
        V::Map(self.own(rank).map(one).collect())
    }

    fn entry(&self, rank: usize, at: usize, d: &Done, style: &Style) -> V {
        let group = &self.groups[d.call.group];
        let frame = |name: &str, file: &str, line: i64| {
            V::map(vec![("name", t(name)), ("filename", t(file)), ("line", V::Int(line))])
        };
        let index = |r: usize| group.members.iter().position(|m| *m == r).unwrap_or(99);
        let name = match d.call.pair {
            Some((true, peer)) => format!("send {}->{}", index(rank), index(peer)),
            Some((false, peer)) => format!("recv {}<-{}", index(rank), index(peer)),
            None => d.call.name.clone(),
        };
        let state = match () {
            () if style.gloo => "scheduled",
            () if d.ended => "completed",
            () if style.timing && d.started => "started",
            () => "scheduled",
        };
        let when = |known: bool, after: i64| if known { V::Int(d.created + after) } else { V::None };
        let shape = |n: &[i64]| V::List(vec![V::List(n.iter().map(|i| V::Int(*i)).collect())]);
        V::map(vec![
            (
                "frames",
                V::List(vec![
                    frame(
                        "wrapper",
                        "/env/lib/python3.11/site-packages/torch/distributed/c10d_logger.py",
                        83,
                    ),
                    frame("forward_step", "/home/user/fit/loop.py", 100 + (at % 50) as i64),
                ]),
            ),
            ("record_id", V::Int(at as i64)),
            ("pg_id", V::Int(d.call.group as i64)),
            ("process_group", V::List(vec![t(&group.name), t(&group.desc)])),
            ("collective_seq_id", V::Int(d.seq)),
            ("p2p_seq_id", V::Int(d.p2p)),
            ("op_id", V::Int(d.seq + d.p2p)),
            ("profiling_name", t(&format!("{}:{name}", if style.gloo { "gloo" } else { "nccl" }))),
            ("time_created_ns", V::Int(d.created)),
            ("input_sizes", shape(&d.call.inputs)),
            ("input_dtypes", V::List(vec![t(d.call.dtype)])),
            ("output_sizes", shape(&d.call.outputs)),
            ("output_dtypes", V::List(vec![t(d.call.dtype)])),
            ("state", t(state)),
            ("time_discovered_started_ns", when(style.timing && (d.ended || d.started), 1000)),
            ("time_discovered_completed_ns", when(d.ended && !style.gloo, 9_000_000)),
            ("retired", V::Bool(d.ended)),
            ("timeout_ms", V::Int(TIMEOUT_MS)),
            ("is_p2p", V::Bool(d.p2p > 0)),
        ])
    }
}

fn alike(a: &Call, b: &Call) -> bool {
    let size = |l: &[i64]| l.iter().product::<i64>();
    // Of an exchange only what all give and take together must fit; the programs here see to that.
    let exchange = a.name.contains("all_to_all") && b.name.contains("all_to_all");
    a.name == b.name
        && a.dtype == b.dtype
        && a.pair.is_none()
        && b.pair.is_none()
        && (exchange || (size(&a.inputs) == size(&b.inputs) && size(&a.outputs) == size(&b.outputs)))
}

/// A plain value of a dump.
#[derive(Clone, Debug)]
pub(crate) enum V {
    None,
    Bool(bool),
    Int(i64),
    Text(String),
    List(Vec<V>),
    Map(Vec<(V, V)>),
}

fn t(text: &str) -> V {
    V::Text(text.into())
}

impl V {
    fn map(pairs: Vec<(&str, V)>) -> Self {
        Self::Map(pairs.into_iter().map(|(k, v)| (t(k), v)).collect())
    }

    /// As torch writes: protocol 2, nothing but plain values.
    pub(crate) fn pickle(&self) -> Vec<u8> {
        let mut out = vec![0x80, 2];
        self.put(&mut out, &mut HashMap::new());
        out.push(b'.');
        out
    }

    fn put<'v>(&'v self, out: &mut Vec<u8>, memo: &mut HashMap<&'v str, u32>) {
        match self {
            Self::None => out.push(b'N'),
            Self::Bool(b) => out.push(if *b { 0x88 } else { 0x89 }),
            Self::Int(i) if (0..256).contains(i) => out.extend([b'K', *i as u8]),
            Self::Int(i) if i32::try_from(*i).is_ok() => {
                out.push(b'J');
                out.extend((*i as i32).to_le_bytes());
            }
            Self::Int(i) => {
                out.extend([0x8a, 8]);
                out.extend(i.to_le_bytes());
            }
            Self::Text(text) => match memo.get(text.as_str()) {
                Some(at) => {
                    out.push(b'j');
                    out.extend(at.to_le_bytes());
                }
                None => {
                    out.push(b'X');
                    out.extend((text.len() as u32).to_le_bytes());
                    out.extend(text.as_bytes());
                    out.push(b'r');
                    out.extend((memo.len() as u32).to_le_bytes());
                    memo.insert(text, memo.len() as u32);
                }
            },
            Self::List(items) => {
                out.extend(b"](");
                items.iter().for_each(|i| i.put(out, memo));
                out.push(b'e');
            }
            Self::Map(pairs) => {
                out.extend(b"}(");
                for (key, value) in pairs {
                    key.put(out, memo);
                    value.put(out, memo);
                }
                out.push(b'u');
            }
        }
    }

    fn json(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        match self {
            Self::None => "0".into(),
            Self::Bool(b) => b.to_string(),
            Self::Int(i) => i.to_string(),
            Self::Text(text) => quoted(text),
            Self::List(items) => format!("[{}]", items.iter().map(Self::json).collect::<Vec<_>>().join(",")),
            Self::Map(pairs) => {
                let mut out = String::from("{");
                for (i, (key, value)) in pairs.iter().enumerate() {
                    let key =
                        if let Self::Text(text) = key { quoted(text) } else { format!("\"{}\"", key.json()) };
                    let _ = write!(out, "{}{key}:{}", if i > 0 { "," } else { "" }, value.json());
                }
                out + "}"
            }
        }
    }
}
