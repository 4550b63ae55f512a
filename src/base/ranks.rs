//! Sets of ranks kept as ranges, since 16,384 ranks that say the same thing
//! are nearly always a few runs of neighbours.

use std::fmt;

/// An ordered set of ranks, stored as inclusive ranges that never touch.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankSet {
    ranges: Vec<(u32, u32)>,
}

impl RankSet {
    /// The empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one rank.
    pub fn insert(&mut self, rank: u32) {
        self.insert_range(rank, rank);
    }

    /// Adds all ranks from `lo` to `hi`, both included. Does nothing when `lo > hi`.
    pub fn insert_range(&mut self, lo: u32, hi: u32) {
        if lo > hi {
            return;
        }
        let start = self.ranges.partition_point(|r| r.1.saturating_add(1) < lo);
        let mut end = start;
        let (mut lo, mut hi) = (lo, hi);
        while end < self.ranges.len() && self.ranges[end].0 <= hi.saturating_add(1) {
            lo = lo.min(self.ranges[end].0);
            hi = hi.max(self.ranges[end].1);
            end += 1;
        }
        self.ranges.splice(start..end, [(lo, hi)]);
    }

    /// Adds every rank of `other`.
    pub fn extend(&mut self, other: &Self) {
        for &(lo, hi) in &other.ranges {
            self.insert_range(lo, hi);
        }
    }

    /// Whether the rank is in the set.
    #[must_use]
    pub fn contains(&self, rank: u32) -> bool {
        let at = self.ranges.partition_point(|r| r.1 < rank);
        self.ranges.get(at).is_some_and(|r| r.0 <= rank)
    }

    /// How many ranks are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.iter().map(|r| (r.1 - r.0) as usize + 1).sum()
    }

    /// Whether the set has no rank.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// All ranks, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|r| r.0..=r.1)
    }

    /// The smallest rank.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.ranges.first().map(|r| r.0)
    }

    /// The ranks of `self` that are not in `other`.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.iter().filter(|r| !other.contains(*r)).collect()
    }

    /// Whether the two share a rank.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        self.ranges.iter().any(|a| other.ranges.iter().any(|b| a.0 <= b.1 && b.0 <= a.1))
    }

    /// Reads `0-7,12` or `[0, 1, 2]`; anything that is no number or range ends in `None`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut set = Self::new();
        for part in text.trim_matches(|c| "[]{}() ".contains(c)).split([',', ' ']) {
            let part = part.trim();
            if part.is_empty() {
                continue;
            }
            match part.split_once('-') {
                Some((lo, hi)) => {
                    let (lo, hi) = (lo.trim().parse().ok()?, hi.trim().parse().ok()?);
                    if hi < lo || hi - lo > 10_000_000 {
                        return None;
                    }
                    set.insert_range(lo, hi);
                }
                None => set.insert(part.parse().ok()?),
            }
        }
        Some(set)
    }
}

impl FromIterator<u32> for RankSet {
    fn from_iter<T: IntoIterator<Item = u32>>(iter: T) -> Self {
        let mut set = Self::new();
        for rank in iter {
            set.insert(rank);
        }
        set
    }
}

impl fmt::Display for RankSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, &(lo, hi)) in self.ranges.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match hi - lo {
                0 => write!(f, "{lo}")?,
                1 => write!(f, "{lo},{hi}")?,
                _ => write!(f, "{lo}-{hi}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::RankSet;

    #[test]
    fn neighbours_become_one_range() {
        let set: RankSet = [3, 1, 2, 7, 0].into_iter().collect();
        assert_eq!(set.to_string(), "0-3,7");
        assert_eq!(set.len(), 5);
        assert!(set.contains(2) && !set.contains(4));
    }

    #[test]
    fn reads_what_launchers_print() {
        assert_eq!(RankSet::parse("0,2-3").map(|s| s.to_string()), Some("0,2,3".into()));
        assert_eq!(RankSet::parse("[0, 1, 2, 3]").map(|s| s.len()), Some(4));
        assert_eq!(RankSet::parse("node7"), None);
        assert_eq!(RankSet::parse("5-2"), None);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut set = RankSet::new();
        set.insert(u32::MAX);
        set.insert(u32::MAX - 1);
        set.insert(0);
        assert_eq!(set.len(), 3);
    }
}
