//! Two jobs side by side: what differs between a run that was good and one
//! that was not, most telling first. `profile` takes from each job what can be
//! compared, `find` says what differs, `model` is the frozen result, `text`
//! prints it. Which fields of which messages are compared stands with the
//! messages (`compare` in `rules/messages/`); what differs in every run
//! (process ids, ports, addresses, times) is taken out by `alike`.
//! Where one side cannot show a thing at all, that is said once and is no
//! difference.

mod alike;
mod find;
mod logs;
mod model;
mod profile;
mod speed;
mod text;

pub use find::compare;
pub use model::{Change, Comparison, Difference, Section, Side};
pub use profile::{Profile, profile};
pub use text::write;
