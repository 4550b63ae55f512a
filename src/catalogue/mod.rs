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
