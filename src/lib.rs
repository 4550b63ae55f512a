//! ncclcheck reads what a distributed GPU job left behind and says what
//! happened first, where, why and what to change.

pub mod base;
pub mod catalogue;
pub mod cli;
pub mod compare;
pub mod dump;
pub mod engine;
pub mod input;
pub mod job;
pub mod knowledge;
pub mod memory;
pub mod report;
pub mod rules;
pub mod scan;
pub mod settings;
pub mod templates;
pub mod text;
pub mod verdict;
