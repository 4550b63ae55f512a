//! The search for anchors. The packed searcher looks at the first bytes of
//! its patterns only, and what it costs is how often these stand in a text
//! for nothing: so each anchor is searched for from its rarest place on, and
//! what stands before that is compared where it was found. Anchors too short
//! for that have a search of their own.

use aho_corasick::packed;
use std::sync::OnceLock;

/// The packed searcher compares so many first bytes when no pattern is shorter.
const FIRST: usize = 4;
/// A pattern is no shorter where its anchor is not: less stands in too many texts.
const SHORTEST: usize = 6;
/// So many patterns it takes.
const MOST: usize = 64;

/// All anchors, ready to be looked for.
#[derive(Debug)]
pub(super) struct Anchors {
    searcher: Option<packed::Searcher>,
    /// The anchors of `searcher` whole, and how much of each stands before its pattern.
    whole: Vec<(Vec<u8>, usize)>,
    /// For each of them the others that may stand where its pattern does.
    others: Vec<Vec<usize>>,
    short: Option<packed::Searcher>,
    /// Those beyond what the packed searcher takes: slower.
    rest: Option<aho_corasick::AhoCorasick>,
}

impl Anchors {
    pub(super) fn new(anchors: &[String]) -> Self {
        let mut useful: Vec<&String> = anchors
            .iter()
            .filter(|a| !a.is_empty() && !anchors.iter().any(|b| b.len() < a.len() && a.contains(b.as_str())))
            .collect();
        useful.sort_by_key(|a| shuffled(a.as_bytes()));
        let (long, short): (Vec<&String>, Vec<&String>) = useful.iter().partition(|a| a.len() >= FIRST);
        let whole: Vec<(Vec<u8>, usize)> =
            long.iter().take(MOST).map(|a| (a.as_bytes().to_vec(), rarest(a.as_bytes()))).collect();
        let pattern = |i: usize| &whole[i].0[whole[i].1..];
        let alike = |i: usize, j: usize| {
            i != j && (pattern(i).starts_with(pattern(j)) || pattern(j).starts_with(pattern(i)))
        };
        let others = (0..whole.len()).map(|i| (0..whole.len()).filter(|&j| alike(i, j)).collect()).collect();
        let searcher = packed::Config::new()
            .match_kind(packed::MatchKind::LeftmostFirst)
            .builder()
            .extend(whole.iter().map(|(a, cut)| &a[*cut..]))
            .build();
        let packed = if searcher.is_some() { whole.len() } else { 0 };
        let few = packed::Config::new().builder().extend(&short).build();
        let mut rest: Vec<&String> = long[packed..].to_vec();
        if few.is_none() {
            rest.extend(short);
        }
        let rest = if rest.is_empty() { None } else { aho_corasick::AhoCorasick::new(rest).ok() };
        Self { searcher, whole, others, short: few, rest }
    }

    /// Where they stand in `bytes`, ascending, one for each line at least.
    pub(super) fn find(&self, bytes: &[u8], found: &mut Vec<u32>) {
        found.clear();
        if let Some(searcher) = &self.searcher {
            let mut at = 0;
            while let Some(m) = searcher.find_in(bytes, (at..bytes.len()).into()) {
                if self.stands(bytes, m.start(), m.pattern().as_usize()) {
                    found.push(m.start() as u32);
                    // One anchor is enough to look at a line: go on behind it.
                    at = line_end(bytes, m.end());
                } else {
                    at = m.start() + 1;
                }
            }
        }
        let packed = found.len();
        if let Some(short) = &self.short {
            let mut at = 0;
            while let Some(m) = short.find_in(bytes, (at..bytes.len()).into()) {
                found.push(m.start() as u32);
                at = line_end(bytes, m.end());
            }
        }
        if let Some(rest) = &self.rest {
            found.extend(rest.find_iter(bytes).map(|m| m.start() as u32));
        }
        if found.len() > packed {
            found.sort_unstable();
        }
    }

    /// Whether an anchor whose pattern stands at `at` stands there whole.
    fn stands(&self, bytes: &[u8], at: usize, pattern: usize) -> bool {
        let fits = |anchor: usize| {
            let (whole, cut) = &self.whole[anchor];
            at >= *cut && bytes.get(at - cut..at - cut + whole.len()) == Some(whole.as_slice())
        };
        // Where the one that was found does not, another with the same beginning may.
        fits(pattern) || self.others[pattern].iter().any(|&o| fits(o))
    }
}

/// Whether an error of Slurm's may stand anywhere in `bytes`.
pub(super) fn slurm(bytes: &[u8]) -> bool {
    static SEARCH: OnceLock<Option<packed::Searcher>> = OnceLock::new();
    // Both ways in which one begins, from their rarest place on.
    let search =
        SEARCH.get_or_init(|| packed::Config::new().builder().extend(["pd: error: ", "un: error: "]).build());
    match search {
        Some(search) => search.find(bytes).is_some(),
        None => memchr::memmem::find(bytes, b": error: ").is_some(),
    }
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    memchr::memchr(b'\n', &bytes[from..]).map_or(bytes.len(), |n| from + n)
}

/// The order of patterns decides which of them share a bucket of the searcher, and so how often a text looks
/// like one for nothing. This one was the best of 4000 on logs of trainings and on the fixtures: a third of
/// the false candidates of the order in the file. Any other finds the same.
fn shuffled(anchor: &[u8]) -> u64 {
    let seed = 3711u64.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    anchor.iter().fold(seed, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Where the rarest bytes of an anchor begin, with enough of it behind them.
fn rarest(anchor: &[u8]) -> usize {
    (0..=anchor.len().saturating_sub(SHORTEST))
        .min_by_key(|&i| anchor[i..].iter().take(FIRST).map(|&b| common(b)).product::<u64>())
        .unwrap_or(0)
}

/// How common a byte is in logs, roughly.
fn common(byte: u8) -> u64 {
    match byte {
        b' ' => 100,
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b'0'..=b'9' => 60,
        b'l' | b'd' | b'c' | b'u' | b'm' | b'h' | b'p' => 40,
        b'.' | b':' | b',' | b'[' | b']' | b'/' | b'-' | b'=' | b'_' => 30,
        b'f' | b'g' | b'b' | b'y' | b'w' | b'v' | b'k' | b'x' => 20,
        b'A'..=b'Z' => 10,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(anchors: &[&str], text: &str) -> Vec<usize> {
        let anchors = Anchors::new(&anchors.iter().map(|a| (*a).to_string()).collect::<Vec<_>>());
        let mut found = Vec::new();
        anchors.find(text.as_bytes(), &mut found);
        let mut lines: Vec<usize> =
            found.iter().map(|&at| text[..at as usize].matches('\n').count()).collect();
        lines.dedup();
        lines
    }

    #[test]
    fn an_anchor_is_found_whole_or_not_at_all() {
        let anchors = ["Traceback (most", "rror: ", "rror in", "SIG", "OOM", "exit code", "code_x", " WARN "];
        let text = "a plain line that is long enough\nback (most of it\nTraceback (most recent\n\
                    no code, no exit\nthe exit code is 3\nSIGKILL came\nan Error:\nan Error: x\nNCCL WARN x\nthe OOM";
        assert_eq!(lines(&anchors, text), [2, 4, 5, 7, 8, 9]);
    }

    #[test]
    fn many_anchors_are_all_found() {
        let many: Vec<String> = (0..90).map(|n| format!("anchor{n:02}z")).collect();
        let names: Vec<&str> = many.iter().map(String::as_str).collect();
        let text: String =
            many.iter().map(|a| format!("some text before {a} and behind\nnothing here at all\n")).collect();
        assert_eq!(lines(&names, &text), (0..90).map(|n| n * 2).collect::<Vec<_>>());
    }
}
