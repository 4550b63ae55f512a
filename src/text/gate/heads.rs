//! NCCL headers that were read before in this block: the same thread writes
//! the same bytes again and again, and comparing them is cheaper than reading
//! them. What stands before a message tells all of it, whatever follows.

/// Longest header that is kept.
const LONGEST: usize = 96;
/// Places; two headers of one place take turns.
const PLACES: usize = 512;

/// What a header of level INFO says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    /// Who speaks.
    pub(super) speaker: u32,
    /// Where the text behind the launcher's prefix begins.
    pub(super) prefix: u32,
    /// Where the message begins.
    pub(super) body: u32,
    /// The device.
    pub(super) dev: i32,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    len: u8,
    bytes: [u8; LONGEST],
    head: Head,
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct Heads {
    places: Vec<Place>,
    /// Where in a line process and thread stand, by the first header of the block.
    at: Option<usize>,
}

impl Heads {
    /// For the next block.
    pub(super) fn clear(&mut self) {
        self.at = None;
        if self.places.is_empty() {
            let head = Head { speaker: 0, prefix: 0, body: 0, dev: 0 };
            self.places = vec![Place { len: 0, bytes: [0; LONGEST], head }; PLACES];
        }
        self.places.iter_mut().for_each(|p| p.len = 0);
    }

    /// The header that `text` begins with, if it was seen.
    #[inline]
    pub(super) fn get(&self, text: &[u8]) -> Option<Head> {
        let place = &self.places[place(text, self.at?)?];
        let len = usize::from(place.len);
        (len > 0 && text.len() >= len && text[..len] == place.bytes[..len]).then_some(place.head)
    }

    /// Keeps the header in the first `body` bytes of `text`.
    pub(super) fn put(&mut self, text: &[u8], head: Head) {
        let len = (head.body as usize).max(1);
        // Only with the blank that ends it: behind less another word could go on.
        if len > LONGEST || !matches!(text.get(len - 1), Some(b' ' | b'\t')) {
            return;
        }
        // `PID:TID [3] NCCL INFO `
        let at = *self.at.get_or_insert((head.body as usize).saturating_sub(34));
        if let Some(at) = place(text, at) {
            let place = &mut self.places[at];
            place.len = len as u8;
            place.bytes[..len].copy_from_slice(&text[..len]);
            place.head = head;
        }
    }
}

/// The place of a line, by some of its first bytes and those from `at` on.
#[inline]
fn place(text: &[u8], at: usize) -> Option<usize> {
    let window: &[u8; 24] = text.get(at..at + 24)?.try_into().ok()?;
    let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|n| window[i + n]));
    let first = u64::from_le_bytes(text.get(..8)?.try_into().ok()?);
    let mixed = (word(0) ^ word(8).rotate_left(23) ^ word(16).rotate_left(47) ^ first.rotate_left(11))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Some((mixed >> 40) as usize % PLACES)
}
