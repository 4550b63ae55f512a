//! Whether the members of a group called the same thing at one position, and
//! who of them did not. The majority is right; where there is none, nobody is
//! named. Each family of operations has its own rule about sizes.

use std::collections::BTreeMap;

use super::trace::{Family, Op, Record, numel};

/// In what the calls differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// The operation itself.
    Op,
    /// The element type.
    Dtype,
    /// The number of elements.
    Size,
}

impl What {
    /// `operation`, `element type`, `size`.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Op => "operation",
            Self::Dtype => "element type",
            Self::Size => "size",
        }
    }
}

/// The calls at one position do not agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dispute {
    pub(super) what: What,
    /// Who is outvoted; empty when there is no majority.
    pub(super) minority: Vec<u32>,
    /// One of the majority, or of the largest part.
    pub(super) model: u32,
}

/// Compares the calls of those members whose record is held. `size` is the
/// number of members; rules about totals need all of them.
pub(super) fn compare(calls: &[(u32, &Record)], size: usize) -> Option<Dispute> {
    if calls.len() < 2 {
        return None;
    }
    let kinds = split(calls, |op| op.family() as usize as i64 * 1_000 + extra(op));
    if kinds.len() > 1 {
        return Some(vote(What::Op, &kinds));
    }
    let family = calls[0].1.op.family();
    if family == Family::Barrier {
        return None;
    }
    let dtypes = split(calls, |op| dtype(op, family));
    if dtypes.len() > 1 && !dtypes.contains_key("") {
        return Some(vote(What::Dtype, &dtypes));
    }
    sizes(calls, family, size)
}

/// Operations that no rule knows are told apart by name.
fn extra(op: &Op) -> i64 {
    if op.family() == Family::Other {
        op.name.bytes().fold(7i64, |h, b| h.wrapping_mul(31).wrapping_add(i64::from(b))) & 0xffff
    } else {
        0
    }
}

fn dtype(op: &Op, family: Family) -> String {
    let list = if family == Family::Scatter { &op.output_dtypes } else { &op.input_dtypes };
    list.first().cloned().unwrap_or_default()
}

fn split<K: Ord>(calls: &[(u32, &Record)], key: impl Fn(&Op) -> K) -> BTreeMap<K, Vec<u32>> {
    let mut parts: BTreeMap<K, Vec<u32>> = BTreeMap::new();
    for (rank, record) in calls {
        parts.entry(key(&record.op)).or_default().push(*rank);
    }
    parts
}

fn vote<K: Ord>(what: What, parts: &BTreeMap<K, Vec<u32>>) -> Dispute {
    let total: usize = parts.values().map(Vec::len).sum();
    let mut by_size: Vec<&Vec<u32>> = parts.values().collect();
    by_size.sort_by_key(|p| (std::cmp::Reverse(p.len()), p[0]));
    let largest = by_size[0];
    let won = largest.len() * 2 > total;
    let mut minority: Vec<u32> = by_size[1..].iter().flat_map(|p| p.iter().copied()).collect();
    minority.sort_unstable();
    Dispute { what, minority: if won { minority } else { Vec::new() }, model: largest[0] }
}

fn sizes(calls: &[(u32, &Record)], family: Family, size: usize) -> Option<Dispute> {
    let given = |op: &Op| numel(&op.inputs);
    let filled = |op: &Op| numel(&op.outputs);
    if calls.iter().any(|(_, r)| r.op.inputs.is_empty() && r.op.outputs.is_empty()) {
        return None;
    }
    let differ = |key: &dyn Fn(&Op) -> i64| {
        let parts = split(calls, key);
        (parts.len() > 1).then(|| vote(What::Size, &parts))
    };
    let sum = |f: &dyn Fn(&Op) -> i64| calls.iter().fold(0i64, |n, c| n.saturating_add(f(&c.1.op)));
    let whole = calls.len() == size;
    match family {
        Family::AllReduce | Family::Broadcast | Family::Reduce | Family::Gather => differ(&given),
        Family::Scatter => differ(&filled),
        Family::AllGather => {
            // Parts of unequal size are allowed where all say the same total.
            let total = filled(&calls[0].1.op);
            let uneven = whole && sum(&given) == total && differ(&filled).is_none();
            if uneven { None } else { differ(&given).or_else(|| differ(&filled)) }
        }
        Family::ReduceScatter => {
            let total = given(&calls[0].1.op);
            let uneven = whole && sum(&filled) == total && differ(&given).is_none();
            if uneven { None } else { differ(&filled).or_else(|| differ(&given)) }
        }
        Family::AllToAll => all_to_all(calls, whole, sum(&given) == sum(&filled)),
        Family::Barrier | Family::Other => None,
    }
}

/// Splits are not recorded, only totals: over all members as much must come in
/// as goes out, and rows must be of one width.
fn all_to_all(calls: &[(u32, &Record)], whole: bool, balanced: bool) -> Option<Dispute> {
    let width = |op: &Op| match (op.inputs.as_slice(), op.outputs.as_slice()) {
        ([a], [b]) if a.len() == b.len() && a.len() > 1 && a[1..] == b[1..] => a[1..].iter().product(),
        _ => -1i64,
    };
    let widths = split(calls, width);
    if widths.len() > 1 && !widths.contains_key(&-1) {
        return Some(vote(What::Size, &widths));
    }
    if !whole || balanced {
        return None;
    }
    // Where most exchange one and the same amount, who does not is wrong.
    let parts = split(calls, |op| (numel(&op.inputs), numel(&op.outputs)));
    let mut dispute = vote(What::Size, &parts);
    let even = parts.iter().any(|(k, ranks)| k.0 == k.1 && ranks.len() * 2 > calls.len());
    if !even {
        dispute.minority.clear();
    }
    Some(dispute)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::trace::{Done, Kind, Op, Record};
    use super::{Dispute, What, compare};

    fn record(name: &str, input: &[i64], output: &[i64], dtype: &str) -> Record {
        let op = Op {
            name: name.into(),
            inputs: vec![input.to_vec()],
            outputs: vec![output.to_vec()],
            input_dtypes: vec![dtype.into()],
            output_dtypes: vec![dtype.into()],
        };
        Record {
            id: 0,
            group: 0,
            seq: Some(1),
            kind: Kind::Collective,
            done: Done::No,
            started: false,
            created: 0,
            took: None,
            timeout_ms: 0,
            op: Arc::new(op),
            frames: Arc::from([]),
        }
    }

    fn disputed(records: &[Record]) -> Option<Dispute> {
        let calls: Vec<(u32, &Record)> = (0..).zip(records).collect();
        compare(&calls, records.len())
    }

    #[test]
    fn shapes_of_equal_size_agree() {
        let same =
            [record("all_reduce", &[4, 4], &[4, 4], "Float"), record("all_reduce", &[16], &[16], "Float")];
        assert_eq!(disputed(&same), None);
    }

    #[test]
    fn two_cannot_outvote_each_other() {
        let two = [record("all_reduce", &[8], &[8], "Float"), record("all_reduce", &[8], &[8], "Half")];
        let dispute = disputed(&two).unwrap();
        assert_eq!((dispute.what, dispute.minority), (What::Dtype, Vec::new()));
    }

    #[test]
    fn uneven_parts_may_be_right() {
        let gather = |n: i64, total: i64| record("all_gather", &[n], &[total], "Float");
        assert_eq!(disputed(&[gather(3, 10), gather(5, 10), gather(2, 10)]), None);
        assert_eq!(disputed(&[gather(4, 12), gather(4, 12), gather(5, 12)]).unwrap().minority, [2]);
        let scatter = |total: i64, n: i64| record("reduce_scatter", &[total], &[n], "Float");
        assert_eq!(disputed(&[scatter(9, 2), scatter(9, 3), scatter(9, 4)]), None);
        assert_eq!(disputed(&[scatter(9, 3), scatter(12, 4), scatter(9, 3)]).unwrap().minority, [1]);
    }

    #[test]
    fn what_goes_out_must_come_in() {
        let swap = |a: i64, b: i64| record("all_to_all", &[a, 4], &[b, 4], "Float");
        assert_eq!(disputed(&[swap(5, 6), swap(7, 4), swap(3, 5)]), None);
        let wrong = disputed(&[swap(5, 6), swap(7, 4), swap(3, 9)]).unwrap();
        assert_eq!((wrong.what, wrong.minority.len()), (What::Size, 0));
        assert_eq!(disputed(&[swap(6, 6), swap(6, 6), swap(6, 9)]).unwrap().minority, [2]);
    }
}
