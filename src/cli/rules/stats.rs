//! `ncclcheck rules list --stats`: how much is known, in numbers.

use crate::engine::Engine;
use crate::knowledge::{Door, Role};
use crate::report::text::{BOLD, DIM};
use std::io::{self, Write};

/// A label and a number for each line.
pub(super) fn write(engine: &Engine, out: &mut dyn Write) -> io::Result<()> {
    let known = &engine.knowledge;
    let messages = || known.messages.iter().map(|(m, _)| m);
    let forms: usize = messages().map(|m| m.forms.len()).sum();
    let of = |role: Role| messages().filter(|m| m.role == role).count();
    let forms_of =
        |role: Role| -> usize { messages().filter(|m| m.role == role).map(|m| m.forms.len()).sum() };
    let coverage = engine.coverage();
    let ways = coverage.len();
    let fired = coverage.iter().filter(|w| w.firing > 1).count();
    let near = coverage.iter().filter(|w| w.near > 0).count();
    let rules = || known.rules.iter().map(|(r, _)| r);
    let t = &known.tables;
    writeln!(
        out,
        "{BOLD}messages{BOLD:#}              {:>5}  {DIM}in {forms} wordings{DIM:#}",
        known.messages.len()
    )?;
    for (name, role) in [
        ("first causes", Role::First),
        ("victims", Role::Victim),
        ("symptoms", Role::Symptom),
        ("harmless", Role::Harmless),
        ("facts", Role::Fact),
    ] {
        writeln!(out, "  {name:<20}{:>5}  {DIM}in {} wordings{DIM:#}", of(role), forms_of(role))?;
    }
    let nccl = messages().filter(|m| matches!(m.door, Door::Nccl | Door::Both)).count();
    writeln!(out, "  {:<20}{nccl:>5}", "of NCCL's own lines")?;
    writeln!(out, "{BOLD}causes{BOLD:#}                {:>5}", known.rules.len())?;
    let degraded = rules().filter(|r| r.severity == "degraded").count();
    writeln!(out, "  {:<20}{degraded:>5}", "only slow")?;
    writeln!(out, "  {:<20}{ways:>5}", "ways to show")?;
    writeln!(out, "  {:<20}{fired:>5}", "with 2 firing tests")?;
    writeln!(out, "  {:<20}{near:>5}", "with a near-miss")?;
    writeln!(out, "  {:<20}{:>5}", "tests", rules().map(|r| r.tests.len()).sum::<usize>())?;
    writeln!(out, "{BOLD}variables{BOLD:#}             {:>5}", t.variables.len())?;
    writeln!(out, "  {:<20}{:>5}", "combinations", t.settings.len())?;
    writeln!(out, "{BOLD}known faults{BOLD:#}          {:>5}", t.bugs.len())?;
    let visible = t.bugs.iter().filter(|b| !b.need.is_empty()).count();
    writeln!(out, "  {:<20}{visible:>5}", "that a log shows")?;
    writeln!(out, "{BOLD}anchors{BOLD:#}               {:>5}", known.anchors.len())
}
