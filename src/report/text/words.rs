//! Words and numbers for people: sets of ranks, how sure something is, lists
//! that may be long, and text out of logs made harmless for a terminal.

use crate::base::RankSet;
use crate::report::{Culprits, Evidence};

/// Replaces what could move the cursor, colour the screen, reorder text or
/// hide in it by a visible escape. Tabs become one blank.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push(' '),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if c.is_control() || hides(c) => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

/// Marks of writing direction, blanks without width, line separators, tags.
fn hides(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// `rank 5`, `ranks 0-6,8 (8 ranks)`; nothing for an empty list.
pub(crate) fn ranks(list: &[u32]) -> String {
    let set: RankSet = list.iter().copied().collect();
    match set.len() {
        0 => String::new(),
        1 => format!("rank {set}"),
        2 => format!("ranks {set}"),
        n => format!("ranks {} ({n} ranks)", shorten_ranges(&set.to_string(), 60)),
    }
}

/// Cuts a text of ranges at a comma.
pub(crate) fn shorten_ranges(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_string();
    }
    match text.get(..most).and_then(|t| t.rfind(',')) {
        Some(at) => format!("{},…", &text[..at]),
        None => text.to_string(),
    }
}

/// How sure, in words with the number.
pub(crate) fn sure(confidence: f64) -> String {
    let words = match confidence {
        c if c >= 0.97 => "almost certain",
        c if c >= 0.85 => "very likely",
        c if c >= 0.7 => "likely",
        c if c >= 0.5 => "more likely than not",
        c if c >= 0.3 => "possible",
        _ => "a guess",
    };
    format!("{words} ({confidence:.2})")
}

/// `1 line`, `12 lines`.
pub(crate) fn count(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// The first few of a list, and how many more there are.
pub(crate) fn some(list: &[String], most: usize) -> String {
    let mut text = list.iter().take(most).map(|t| visible(t)).collect::<Vec<_>>().join(", ");
    if list.len() > most {
        text.push_str(&format!(" and {} more", list.len() - most));
    }
    text
}

/// `rank 5, host node2, mlx5_3`; nothing when nothing is known.
pub(crate) fn place(culprits: &Culprits, most: usize) -> String {
    let mut parts = Vec::new();
    if !culprits.ranks.is_empty() {
        parts.push(ranks(&culprits.ranks));
    }
    if !culprits.hosts.is_empty() {
        let word = if culprits.hosts.len() == 1 { "host" } else { "hosts" };
        parts.push(format!("{word} {}", some(&culprits.hosts, most)));
    }
    if !culprits.devices.is_empty() {
        parts.push(some(&culprits.devices, most));
    }
    parts.join(", ")
}

/// `logs/rank5.log:120`.
pub(crate) fn spot(evidence: &Evidence) -> String {
    format!("{}:{}", visible(&evidence.source), evidence.line)
}

/// `rank 5 (in the line)`, with the host where no rank is known.
pub(crate) fn speaker(evidence: &Evidence) -> String {
    match (evidence.rank, evidence.rank_by, &evidence.host) {
        (Some(rank), Some(by), _) => format!("rank {rank} ({})", visible(by)),
        (Some(rank), None, _) => format!("rank {rank}"),
        (None, _, Some(host)) => format!("host {}", visible(host)),
        (None, _, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{ranks, sure, visible};

    #[test]
    fn nothing_moves_the_cursor_or_the_reading_direction() {
        assert_eq!(visible("a\x1b[31mb\u{202e}c\u{9b}d\x07\te"), "a\\x1b[31mb\\u{202e}c\\u{9b}d\\x07 e");
        assert_eq!(visible("größer 日本 👍"), "größer 日本 👍");
    }

    #[test]
    fn many_ranks_stay_short() {
        assert_eq!(ranks(&[5]), "rank 5");
        assert_eq!(ranks(&[0, 1, 2, 3, 9]), "ranks 0-3,9 (5 ranks)");
        let odd: Vec<u32> = (0..200).map(|i| i * 2).collect();
        assert!(ranks(&odd).len() < 90 && ranks(&odd).ends_with("… (200 ranks)"));
    }

    #[test]
    fn confidence_has_words_and_a_number() {
        assert_eq!(sure(0.93), "very likely (0.93)");
        assert_eq!(sure(0.1), "a guess (0.10)");
    }
}
