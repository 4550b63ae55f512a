//! The tree of openings: which INFO texts begin with something that is
//! catalogued. Asked for every INFO line of a log, so it is one array look-up
//! for the first two bytes and a comparison for the few that share them.

use super::MessageId;

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
    form: usize,
    message: MessageId,
    bulk: bool,
}

impl Openings {
    /// Adds an opening of a form; openings under two bytes are not taken.
    pub(super) fn add(&mut self, opening: &[u8], form: usize, message: MessageId, bulk: bool) {
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
        slot.push(Opens { text: opening.to_vec(), form, message, bulk });
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

    /// Message of the longest opening that the text begins with, and whether it is bulk.
    #[inline]
    pub(super) fn first(&self, text: &[u8]) -> Option<(MessageId, bool)> {
        self.slot(text).iter().find(|o| text.starts_with(&o.text)).map(|o| (o.message, o.bulk))
    }

    /// The forms of all of them, longest first.
    pub(super) fn all(&self, text: &[u8], out: &mut Vec<usize>) {
        out.extend(self.slot(text).iter().filter(|o| text.starts_with(&o.text)).map(|o| o.form));
    }
}
