//! The tree of openings: which INFO texts begin with something that is
//! catalogued. Asked for every INFO line of a log, so it is one array look-up
//! for the first two bytes and a comparison for the few that share them.

use super::MessageId;
use crate::text::Opened;

/// Openings by their first two bytes.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    /// For each pair of first bytes its place in `slots`, from 1; 0 for none.
    places: Vec<u16>,
    /// Longest first.
    slots: Vec<Vec<Opens>>,
}

/// One opening.
#[derive(Debug)]
struct Opens {
    text: Vec<u8>,
    /// Its first eight bytes, and which of them there are.
    first: (u64, u64),
    form: usize,
    message: MessageId,
    bulk: bool,
    by_comm: bool,
}

impl Opens {
    #[inline]
    fn begins(&self, text: &[u8], first: u64) -> bool {
        first & self.first.1 == self.first.0 && text.starts_with(&self.text)
    }
}

/// The first eight bytes, zeroes where there are none.
#[inline]
fn first(text: &[u8]) -> u64 {
    match text.first_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => {
            let mut word = [0; 8];
            word[..text.len()].copy_from_slice(text);
            u64::from_le_bytes(word)
        }
    }
}

impl Openings {
    /// Adds an opening of a form; openings under two bytes are not taken. `kind`: its lines are only counted, and the
    /// last one of each communicator is kept.
    pub(super) fn add(&mut self, opening: &[u8], form: usize, message: MessageId, kind: (bool, bool)) {
        let (bulk, by_comm) = kind;
        let Some(&[a, b]) = opening.get(..2) else { return };
        if self.places.is_empty() {
            self.places = vec![0; 1 << 16];
        }
        let place = &mut self.places[usize::from(a) << 8 | usize::from(b)];
        if *place == 0 {
            self.slots.push(Vec::new());
            *place = self.slots.len() as u16;
        }
        let slot = &mut self.slots[usize::from(*place) - 1];
        let mask = if opening.len() >= 8 { u64::MAX } else { (1 << (8 * opening.len())) - 1 };
        let first = (first(opening) & mask, mask);
        slot.push(Opens { text: opening.to_vec(), first, form, message, bulk, by_comm });
        // Lines of a bulk opening are counted without a look, so one that several messages share is none.
        let mut same = slot.iter().filter(|o| o.text == opening);
        if same.any(|o| o.message != message) {
            slot.iter_mut().filter(|o| o.text == opening).for_each(|o| o.bulk = false);
        }
        slot.sort_by(|x, y| y.text.len().cmp(&x.text.len()).then(x.form.cmp(&y.form)));
    }

    #[inline]
    fn slot(&self, text: &[u8]) -> &[Opens] {
        let Some(&[a, b]) = text.get(..2) else { return &[] };
        match self.places.get(usize::from(a) << 8 | usize::from(b)) {
            None | Some(0) => &[],
            Some(&place) => &self.slots[usize::from(place) - 1],
        }
    }

    /// The longest opening that the text begins with.
    #[inline]
    pub(super) fn first(&self, text: &[u8]) -> Option<Opened> {
        let slot = self.slot(text);
        if slot.is_empty() {
            return None;
        }
        let word = first(text);
        let o = slot.iter().find(|o| o.begins(text, word))?;
        Some(Opened { message: o.message, bulk: o.bulk, by_comm: o.by_comm, which: o.form as u32 })
    }

    /// The forms of all of them, longest first.
    pub(super) fn all(&self, text: &[u8], out: &mut Vec<usize>) {
        let word = first(text);
        out.extend(self.slot(text).iter().filter(|o| o.begins(text, word)).map(|o| o.form));
    }
}
