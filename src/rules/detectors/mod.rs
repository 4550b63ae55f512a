//! Named detectors: what tables cannot say. Each looks at the job and gives
//! events, ranks and a sentence, or nothing. `docs/architecture.md` lists them.

mod differs;
mod ends;
mod left;
mod progress;
mod settings;
mod waits;

use super::cond::Context;
use crate::base::RankSet;
use crate::job::EventId;
use crate::knowledge::Cond;
use std::collections::BTreeSet;

/// What a detector saw.
#[derive(Debug, Clone, Default)]
pub(super) struct Detected {
    pub(super) events: Vec<EventId>,
    pub(super) ranks: RankSet,
    pub(super) hosts: BTreeSet<String>,
    pub(super) text: String,
}

/// Names of all detectors, for `rules check`.
pub(super) const NAMES: [&str; 30] = [
    "silent-rank",
    "waits-all",
    "members-missing",
    "dump-missing",
    "dump-absent",
    "dump-mismatch",
    "dump-stuck",
    "step-behind",
    "exit-zero-early",
    "left-quietly",
    "silent-end",
    "failed-no-cause",
    "hang-no-cause",
    "silent-until-ended",
    "differs",
    "generations",
    "env-bad",
    "env-leftover",
    "network-socket",
    "fewer-devices",
    "hang-after-table",
    "memory-growth",
    "one-rank-ended",
    "unknown-warn",
    "waits-behind",
    "waits-mismatch",
    "told-only",
    "stack-outlier",
    "stacks-wait",
    "ras-behind",
];

/// Runs the detector that a condition names.
pub(super) fn run(cx: &Context<'_>, cond: &Cond) -> Option<Detected> {
    let what = cond.what.as_deref().unwrap_or("");
    match cond.detector.as_deref()? {
        "silent-rank" => waits::silent_rank(cx),
        "waits-all" => waits::waits_all(cx),
        "members-missing" => ends::members_missing(cx),
        "dump-missing" => waits::dump(cx, &["missing", "late"], what),
        "dump-absent" => waits::absent(cx, what),
        "dump-mismatch" => waits::dump(cx, &["mismatch", "order", "p2p"], what),
        "dump-stuck" => waits::dump(cx, &["stuck"], what),
        "step-behind" => progress::step_behind(cx),
        "exit-zero-early" => ends::exit_zero_early(cx),
        "left-quietly" => left::left_quietly(cx),
        "silent-end" => left::silent_end(cx),
        "failed-no-cause" => ends::failed_no_cause(cx),
        "hang-no-cause" => ends::hang_no_cause(cx),
        "differs" => differs::differs(cx, what),
        "generations" => differs::generations(cx),
        "env-bad" => settings::env_bad(cx),
        "env-leftover" => settings::env_leftover(cx, what),
        "network-socket" => settings::network_socket(cx),
        "fewer-devices" => settings::fewer_devices(cx, what),
        "silent-until-ended" => progress::silent_until_ended(cx, what),
        "hang-after-table" => progress::hang_after_table(cx),
        "memory-growth" => progress::memory_growth(cx),
        "one-rank-ended" => ends::one_rank_ended(cx),
        "unknown-warn" => ends::unknown_warn(cx),
        "waits-behind" => waits::waits(cx, &["missing", "late"]),
        "waits-mismatch" => waits::waits(cx, &["mismatch", "order", "p2p"]),
        "told-only" => waits::told_only(cx, what),
        "stack-outlier" => waits::stack_outlier(cx),
        "stacks-wait" => waits::stacks_wait(cx),
        "ras-behind" => waits::ras_behind(cx, what),
        _ => None,
    }
}
