//! What a line means. Messages of `rules/messages/` are compiled here and
//! tried on the lines that the text room found; what comes out are events.
//! Neighbours: `knowledge` reads the files, `job` puts events together.

pub mod built_in;
mod check;
mod compile;
mod event;
mod exceptions;
mod openings;
mod printf;
mod read;
mod settings;

pub use compile::{Asked, Catalogue, Entry, FieldId, Found, MessageId, Slot};
pub use event::{BulkCount, Event, Said, Speaker, Via, Yield};
pub(crate) use openings::Openings;
pub use read::read;

/// What a line shows in the end: without colour codes, and the last state where it overwrites itself.
pub(crate) fn last_state(text: &str) -> String {
    let plain = crate::text::clean(text.as_bytes(), &crate::text::ShapeFacts::default()).bytes;
    let plain = String::from_utf8_lossy(&plain);
    plain.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("").trim().to_string()
}
