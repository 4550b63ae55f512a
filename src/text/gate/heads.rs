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

#[derive(Clone, Copy)]
struct Place {
    len: u8,
    bytes: [u8; LONGEST],
    head: Head,
}

/// The table.
pub(super) struct Heads {
    places: Vec<Place>,
}

impl Heads {
    pub(super) fn new() -> Self {
        let head = Head { speaker: 0, prefix: 0, body: 0, dev: 0 };
        Self { places: vec![Place { len: 0, bytes: [0; LONGEST], head }; PLACES] }
    }

    /// The header that `text` begins with, if it was seen.
    #[inline]
    pub(super) fn get(&self, text: &[u8]) -> Option<Head> {
        let place = &self.places[place(text)?];
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
        if let Some(at) = place(text) {
            let place = &mut self.places[at];
            place.len = len as u8;
            place.bytes[..len].copy_from_slice(&text[..len]);
            place.head = head;
        }
    }
}

/// By the bytes before the device, where process and thread stand; none where no device can be.
#[inline]
fn place(text: &[u8]) -> Option<usize> {
    let window = &text[..text.len().min(LONGEST)];
    let open = memchr::memchr(b'[', window).filter(|&at| at >= 8);
    let word = |at: usize| -> Option<u64> { Some(u64::from_le_bytes(text.get(at..at + 8)?.try_into().ok()?)) };
    let (a, b) = match open {
        Some(at) => (word(at - 8)?, word(at.saturating_sub(16))?),
        // The first bracket is a launcher's: some of what follows it.
        None => (word(8)?, word(20)?),
    };
    let mixed = (a ^ b.rotate_left(23) ^ word(0)?.rotate_left(41)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Some((mixed >> 40) as usize % PLACES)
}
