//! Release numbers of NCCL, PyTorch and drivers, and ranges of them.

use std::fmt;

/// A release such as `2.21.5`: up to three numbers, what follows is ignored
/// (`2.12.6azure9+cuda11.4` is `2.12.6`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release(pub u32, pub u32, pub u32);

impl Release {
    /// Reads the leading `major.minor[.patch]`; `None` when there is no `major.minor`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = [0u32; 3];
        let mut rest = text.trim().trim_start_matches(['v', 'V']);
        let mut seen = 0;
        while seen < 3 {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            if digits == 0 || digits > 6 {
                break;
            }
            numbers[seen] = rest[..digits].parse().ok()?;
            seen += 1;
            rest = &rest[digits..];
            match rest.strip_prefix('.') {
                Some(r) if r.starts_with(|c: char| c.is_ascii_digit()) => rest = r,
                _ => break,
            }
        }
        (seen >= 2).then_some(Self(numbers[0], numbers[1], numbers[2]))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// An inclusive range of releases, written `2.10..2.19`, `2.24..`, `..2.9`,
/// or a single `2.21.5`. An upper end of two numbers takes all of its patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReleaseRange {
    /// Lowest release, if there is one.
    pub from: Option<Release>,
    /// Highest release, if there is one.
    pub to: Option<Release>,
}

impl ReleaseRange {
    /// Reads a range; `None` when the text is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let upper = |t: &str| -> Option<Release> {
            let mut r = Release::parse(t)?;
            if t.trim().matches('.').count() == 1 {
                r.2 = u32::MAX;
            }
            Some(r)
        };
        if let Some((lo, hi)) = text.split_once("..") {
            let from = if lo.trim().is_empty() { None } else { Some(Release::parse(lo)?) };
            let to = if hi.trim().is_empty() { None } else { Some(upper(hi)?) };
            return Some(Self { from, to });
        }
        Some(Self { from: Some(Release::parse(text)?), to: Some(upper(text)?) })
    }

    /// Whether the release lies in the range.
    #[must_use]
    pub fn contains(&self, release: Release) -> bool {
        self.from.is_none_or(|f| f <= release) && self.to.is_none_or(|t| release <= t)
    }
}

#[cfg(test)]
mod tests {
    use super::{Release, ReleaseRange};

    #[test]
    fn vendor_suffixes_are_ignored() {
        assert_eq!(Release::parse("2.12.6azure9+cuda11.4"), Some(Release(2, 12, 6)));
        assert_eq!(Release::parse("2.15.0a0+git"), Some(Release(2, 15, 0)));
        assert_eq!(Release::parse("libnccl"), None);
    }

    #[test]
    fn an_upper_end_of_two_numbers_takes_its_patches() {
        let range = ReleaseRange::parse("2.10..2.19").unwrap();
        assert!(range.contains(Release(2, 19, 4)) && !range.contains(Release(2, 20, 3)));
        assert!(ReleaseRange::parse("2.24..").unwrap().contains(Release(2, 32, 3)));
        assert!(!ReleaseRange::parse("..2.9").unwrap().contains(Release(2, 10, 3)));
    }
}
