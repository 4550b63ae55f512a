//! The tree of openings: which INFO texts begin with something that is
//! catalogued. Asked for every INFO line of a log, so it is one array look-up
//! for the first two bytes and a comparison for the few that share them.

use rustc_hash::FxHashMap;

/// Openings by their first two bytes.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    slots: FxHashMap<[u8; 2], Vec<(Vec<u8>, usize)>>,
    /// One bit for each pair of first bytes that occurs (64 Ki bits), so that most lines end here.
    known: Vec<u64>,
}

impl Openings {
    /// Adds an opening of a form; openings under two bytes are not taken.
    pub(super) fn add(&mut self, opening: &[u8], form: usize) {
        let Some(&[a, b]) = opening.get(..2) else { return };
        if self.known.is_empty() {
            self.known = vec![0; 1024];
        }
        let pair = usize::from(a) << 8 | usize::from(b);
        self.known[pair / 64] |= 1 << (pair % 64);
        let slot = self.slots.entry([a, b]).or_default();
        slot.push((opening.to_vec(), form));
        slot.sort_by(|x, y| y.0.len().cmp(&x.0.len()).then(x.1.cmp(&y.1)));
    }

    fn slot(&self, text: &[u8]) -> Option<&[(Vec<u8>, usize)]> {
        let &[a, b] = text.get(..2)? else { return None };
        let pair = usize::from(a) << 8 | usize::from(b);
        if self.known.get(pair / 64)? & (1 << (pair % 64)) == 0 {
            return None;
        }
        self.slots.get(&[a, b]).map(Vec::as_slice)
    }

    /// The longest opening that the text begins with.
    pub(super) fn first(&self, text: &[u8]) -> Option<usize> {
        self.slot(text)?.iter().find(|o| text.starts_with(&o.0)).map(|o| o.1)
    }

    /// All of them, longest first.
    pub(super) fn all(&self, text: &[u8], out: &mut Vec<usize>) {
        for (opening, form) in self.slot(text).into_iter().flatten() {
            if text.starts_with(opening) {
                out.push(*form);
            }
        }
    }
}
