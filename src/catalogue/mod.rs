//! What a line means. Messages of `rules/messages/` are compiled here and
//! tried on the lines that the text room found; what comes out are events.
//! Neighbours: `knowledge` reads the files, `job` puts events together.

mod apart;
pub mod built_in;
mod check;
mod compile;
mod event;
mod exceptions;
mod openings;
mod printf;
mod read;
mod settings;
mod settled;
mod shapes;
mod trouble;

pub(crate) use apart::ALIKE;
pub(crate) use compile::Weight;
pub use compile::{Asked, Catalogue, Entry, FieldId, Found, MessageId, Slot};
pub use event::{BulkCount, Event, Last, More, Said, Speaker, Spoken, Via, Yield};
pub(crate) use openings::Openings;
pub(crate) use read::{Pool, Reading, read, time_of};
pub(crate) use settled::{EACH, Settled, speaker_key};

/// Bytes as text, whatever they are.
pub(crate) fn boxed(bytes: &[u8]) -> Box<str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => String::from_utf8_lossy(bytes).into(),
    }
}

/// What a line shows in the end: without colour codes, and the last state where it overwrites itself.
pub(crate) fn last_state(text: &str) -> String {
    let plain = crate::text::clean(text.as_bytes(), &crate::text::ShapeFacts::default()).bytes;
    let plain = String::from_utf8_lossy(&plain);
    plain.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("").trim().to_string()
}
