//! What keeps lines of one message by one speaker apart when only the first
//! few of them are kept: the rank that they name, the variable that they set,
//! the words of a line that nobody knows. Ten variables of a process are ten
//! facts, not one fact ten times.

use super::{Catalogue, FieldId, MessageId, built_in};
use crate::knowledge::{Kind, Role};
use crate::text;

/// Nothing keeps them apart.
pub(crate) const ALIKE: u32 = u32::MAX;

/// What of a line keeps it apart from others of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The first field that tells a rank ([`super::Entry::told_by`]).
    Rank,
    /// The slot `name`.
    Name,
    /// The words of a field, or of the whole line where there is none.
    Words(Option<FieldId>),
}

impl By {
    /// How many of a message and speaker are told apart; what comes behind is one.
    pub(crate) fn most(self) -> usize {
        match self {
            Self::Rank => usize::MAX,
            Self::Name => 256,
            Self::Words(_) => 16,
        }
    }
}

impl Catalogue {
    /// See [`By`].
    pub(crate) fn kept_by(&self, message: MessageId) -> By {
        let entry = &self.messages[usize::from(message)];
        match entry.id.as_str() {
            _ if entry.kind == Kind::Setting => By::Name,
            _ if entry.role != Role::Symptom => By::Rank,
            built_in::UNKNOWN => By::Words(None),
            built_in::UNKNOWN_WARN => By::Words(self.field_id("text")),
            _ => By::Rank,
        }
    }

    /// A number that is the same for lines that are counted as one; [`ALIKE`] where nothing keeps them apart.
    pub(crate) fn apart(&self, message: MessageId, fields: &[(FieldId, Box<str>)], line: &str) -> u32 {
        let field = |id: FieldId| fields.iter().find(|f| f.0 == id).map(|f| &*f.1);
        match self.kept_by(message) {
            By::Rank => {
                let told_by = &self.messages[usize::from(message)].told_by;
                let rank = fields.iter().find(|f| told_by.contains(&f.0));
                rank.and_then(|f| f.1.parse().ok()).unwrap_or(ALIKE)
            }
            By::Name => self.field_id("name").and_then(field).map_or(ALIKE, |name| number(name.bytes())),
            By::Words(None) => {
                // What a launcher puts before it may tell the month.
                let line = line.as_bytes();
                words(&line[text::split_prefix(line).len as usize..])
            }
            By::Words(Some(id)) => words(field(id).unwrap_or(line).as_bytes()),
        }
    }
}

/// A number for a text in which whatever holds a figure counts for the same.
pub(crate) fn words(text: &[u8]) -> u32 {
    let runs = text.chunk_by(|a, b| a.is_ascii_alphanumeric() && b.is_ascii_alphanumeric());
    number(runs.flat_map(|run| {
        let figure = run.iter().any(u8::is_ascii_digit);
        let run: &[u8] = if figure { b"0" } else { run };
        // What is no ASCII may have been replaced on the way.
        run.iter().copied().filter(u8::is_ascii)
    }))
}

/// A number for bytes, never [`ALIKE`].
pub(crate) fn number(bytes: impl Iterator<Item = u8>) -> u32 {
    const K: u64 = 0x9E37_79B9_7F4A_7C15;
    let h = bytes.fold(K, |h, b| (h.rotate_left(5) ^ u64::from(b)).wrapping_mul(K));
    ((h ^ (h >> 32)) as u32).min(ALIKE - 1)
}

#[cfg(test)]
mod tests {
    use super::{ALIKE, words};

    #[test]
    fn figures_count_for_nothing_and_words_for_all() {
        let key = |text: &str| words(text.as_bytes());
        assert_eq!(key("node07: lease 12 lost at 0x7f3a"), key("node9: lease 4711 lost at 0x7a"));
        assert_ne!(key("lease lost"), key("lease kept"));
        assert_eq!(key("a \u{fffd} b"), words(b"a \xff b"));
        assert_ne!(key(""), ALIKE);
    }
}
