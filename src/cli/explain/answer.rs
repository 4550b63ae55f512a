//! An answer of `explain` as data, and its two forms.

use crate::report::Fix;
use crate::report::text::{BOLD, CODE, DIM, PLAIN, Page, visible};
use serde::Serialize;

/// One meaning of what was asked for.
#[derive(Debug, Default, Serialize)]
pub(super) struct Answer {
    /// `cause`, `variable`, `NCCL result`, `signal` …
    pub(super) kind: &'static str,
    /// Name of the thing.
    pub(super) name: String,
    /// One line.
    pub(super) title: String,
    /// A paragraph.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) text: String,
    /// What else there is to say: label and text, in order.
    pub(super) facts: Vec<Fact>,
    /// What to do, for causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) fixes: Vec<Fix>,
}

/// A label and a text.
#[derive(Debug, Serialize)]
pub(super) struct Fact {
    pub(super) label: &'static str,
    pub(super) text: String,
}

impl Answer {
    pub(super) fn new(kind: &'static str, name: &str, title: &str) -> Self {
        Self { kind, name: name.into(), title: title.into(), ..Self::default() }
    }

    /// Adds a fact, unless it is empty.
    pub(super) fn fact(mut self, label: &'static str, text: &str) -> Self {
        if !text.is_empty() {
            self.facts.push(Fact { label, text: text.into() });
        }
        self
    }

    pub(super) fn draw(&self, page: &mut Page) {
        page.blank();
        let said = self.name.to_lowercase().contains(&self.kind.to_lowercase());
        let kind = if said { String::new() } else { format!("({})", self.kind) };
        let head = [(BOLD, visible(&self.name)), (DIM, kind)];
        page.flow("", "", &head, usize::MAX);
        page.flow("  ", "  ", &[(PLAIN, visible(&self.title))], usize::MAX);
        if !self.text.is_empty() {
            page.blank();
            page.flow("  ", "  ", &[(PLAIN, visible(&self.text))], usize::MAX);
        }
        if !self.facts.is_empty() {
            page.blank();
        }
        for fact in &self.facts {
            page.label(fact.label, &[(PLAIN, visible(&fact.text))], usize::MAX);
        }
        if !self.fixes.is_empty() {
            page.heading("What to do");
        }
        for (i, fix) in self.fixes.iter().enumerate() {
            draw_fix(i + 1, fix, page);
        }
    }
}

fn draw_fix(n: usize, fix: &Fix, page: &mut Page) {
    let mark = match fix.intent {
        "workaround" => "(workaround) ",
        "diagnostic" => "(to find out more) ",
        _ => "",
    };
    let spans = [(DIM, mark.to_string()), (PLAIN, visible(&fix.text))];
    page.flow(&format!("  {n}. "), "     ", &spans, usize::MAX);
    for (name, value) in fix.env.iter().flatten() {
        page.flow("     ", "     ", &[(CODE, format!("{}={}", visible(name), visible(value)))], usize::MAX);
    }
    for (name, text) in [("cost:", &fix.cost), ("check:", &fix.verify)] {
        if !text.is_empty() {
            page.flow("     ", "       ", &[(DIM, name.into()), (PLAIN, visible(text))], usize::MAX);
        }
    }
}
