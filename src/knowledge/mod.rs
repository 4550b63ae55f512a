//! Reading `rules/`: messages, rules, sets, anchors and tables, embedded in
//! the program and extended by `--rules DIR`. Gives data; knows nothing of
//! logs. The catalogue compiles the messages, the rules room the rules.

mod load;
mod message;
mod rule;
mod tables;

pub(crate) use load::glob;
pub use load::{Fault, Knowledge};
pub use message::{Door, FieldType, Form, Kind, Level, Message, Role};
pub use rule::{Cond, Expect, Explains, Fix, Match, Place, Rule, RuleTest, Strength, When};
pub use tables::{
    Bug, Change, Code, Constant, Foreign, Layout, LayoutKind, LayoutOn, Setting, Tables, Trouble, Variable,
    Weight,
};
