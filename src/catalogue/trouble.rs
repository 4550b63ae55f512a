//! Whether a line that no message knows looks like trouble. Generous: it
//! decides no cause, only that a run whose last lines look so did not simply go
//! on, and which lines `unknown` lists. The words stand in
//! `rules/tables/trouble.toml`.

use crate::knowledge::Trouble;
use crate::text;

/// A level stands within so many bytes of a line.
const HEAD: usize = 100;

pub(super) fn looks_like(words: &Trouble, text: &str) -> bool {
    (words.looks.iter().any(|t| text.contains(t.as_str())) || words.levels.iter().any(|l| has_level(text, l)))
        && !words.fine.iter().any(|f| text.contains(f.as_str()))
        && !text.trim_start().starts_with("File \"")
}

/// Whether a line that differs from this one in figures only may look so.
pub(super) fn may_look_like(words: &Trouble, text: &str) -> bool {
    words.looks.iter().chain(&words.levels).any(|word| {
        // Where a word asks for a figure, any stands for it.
        text.contains(word.split(|c: char| c.is_ascii_digit()).max_by_key(|part| part.len()).unwrap_or(word))
    })
}

/// Whether a word stands in a line as the level of a logger does: `ERROR: text`, `[ERROR] text`, `name - ERROR - text`,
/// `ERROR:name:text`, or first, or behind a time.
fn has_level(text: &str, level: &str) -> bool {
    let text = text.trim_start();
    text.match_indices(level).take_while(|(at, _)| *at < HEAD).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + level.len()..]);
        let said = |rest: &str| {
            let rest = rest.trim_start_matches([' ', ':', '-', '|', ']', '>', ')']);
            let word = rest.split([' ', ',', ';']).next().unwrap_or("");
            // `ERROR: 0` is a count.
            word.chars().any(char::is_alphabetic) && !word.eq_ignore_ascii_case("none")
                || word.contains(|c: char| c.is_ascii_digit()) && rest.contains(' ') && word != "0"
        };
        let alone = before.is_empty() || before.ends_with([' ', '[', '<', '(', '|', ':']);
        if !alone || !said(after) {
            return false;
        }
        let bracketed = [('[', ']'), ('<', '>'), ('(', ')'), ('|', '|')].iter().any(|(open, close)| {
            before.trim_end().ends_with(*open) && after.trim_start().starts_with(*close)
        });
        let first = before.is_empty()
            || text::stamp(before.as_bytes()).is_some_and(|(_, n)| {
                before.get(n..).is_some_and(|rest| rest.chars().all(|c| !c.is_alphabetic()))
            });
        bracketed
            || first && after.starts_with([' ', ':'])
            || (after.starts_with(':') || after.starts_with(" - ") || after.starts_with(" | "))
                && is_head(before)
    })
}

/// Whether what stands before a level is a logger's: times, names, numbers, and no sentence.
fn is_head(before: &str) -> bool {
    let plain = |w: &&str| w.len() > 1 && w.chars().all(|c| c.is_ascii_lowercase());
    !before.contains("evel") && before.split_whitespace().filter(plain).count() < 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::Knowledge;

    fn looks(text: &str) -> bool {
        looks_like(&Knowledge::built_in().0.tables.trouble, text)
    }

    #[test]
    fn levels_in_capitals() {
        for text in [
            "ERROR: volume went away after 10 s",
            "FATAL: gizmo code 0x4d",
            "CRITICAL: cell 3 is gone",
            "[ERROR] volume went away",
            "ERROR:root:volume went away",
            "2026-02-03 10:11:12,345 - store - ERROR - volume went away",
            "2026-02-03 10:11:12 ERROR volume went away",
            "2026-02-03 10:11:12 | ERROR | store:open:12 - volume went away",
            "[2026-02-03 10:11:12] [FATAL] volume went away",
            "ERROR volume went away",
            "<ERROR> volume went away",
            "store ERROR: 3 volumes went away",
        ] {
            assert!(looks(text), "{text}");
        }
    }

    #[test]
    fn the_same_words_where_they_are_no_level() {
        for text in [
            "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
            "log level: ERROR",
            "log level ERROR: only the worst is shown",
            "--loglevel ERROR --steps 3",
            "set the level to ERROR",
            "ERROR: 0",
            "ERROR: none",
            "[ERROR] 0",
            "WARNING: 3 ERROR: 0 FATAL: 0",
            "levels are DEBUG, INFO, WARNING, ERROR and CRITICAL",
            "IGNORE_ERROR: True",
            "ERRORS_FATAL=0",
            "loss 2.1 PANIC_THRESHOLD 3",
            "step 3 without ERROR",
        ] {
            assert!(!looks(text), "{text}");
        }
    }
}
