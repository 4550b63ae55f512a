//! What a change would do to a job's memory: the model counts it once as it
//! is and once with the change, and the difference is what it frees.

use super::sizes::number_of;
use super::{Local, Plan, Total, compute, power_of_two_up, total};
use crate::base::ReleaseRange;
use crate::knowledge::{Change, Constant};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a change does to one rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// Id of the change.
    pub id: String,
    /// Variables to set.
    pub set: BTreeMap<String, String>,
    /// What it does.
    pub text: String,
    /// GPU bytes that it frees, most; negative where it takes more.
    pub frees: i64,
    /// The same, least.
    pub frees_least: i64,
    /// Host bytes that it adds, most; negative where it frees some.
    pub host: i64,
    /// Releases that it works for, as a range; empty: all.
    pub nccl: String,
    /// Its price.
    pub cost: String,
    /// How to see that it took effect.
    pub check: String,
}

/// The changes that the release knows and that change anything, as far as nothing is set so already.
#[must_use]
pub fn effects(constants: &[Constant], changes: &[Change], plan: &Plan) -> Vec<Effect> {
    changes
        .iter()
        .filter(|c| {
            let range = ReleaseRange::parse(&c.nccl);
            plan.release.is_none_or(|r| range.is_none_or(|range| range.contains(r)))
        })
        .filter_map(|c| {
            let (frees_least, frees, host) = effect(constants, plan, &c.set, c.fewer)?;
            if (frees_least, frees, host) == (0, 0, 0) && !c.told {
                return None;
            }
            Some(Effect {
                id: c.id.clone(),
                set: c.set.clone(),
                text: c.text.clone(),
                frees,
                frees_least,
                host,
                nccl: c.nccl.clone(),
                cost: c.cost.clone(),
                check: c.check.clone(),
            })
        })
        .collect()
}

/// GPU bytes that variables (or `fewer` communicators less) free on a rank, least and most, and host bytes that they
/// add. Nothing where the plan has them already.
#[must_use]
pub fn effect(
    constants: &[Constant],
    plan: &Plan,
    set: &BTreeMap<String, String>,
    fewer: u64,
) -> Option<(i64, i64, i64)> {
    let new = !set.is_empty() && set.iter().any(|(k, v)| plan.env.get(k) != Some(v));
    if !new && (fewer == 0 || fewer >= plan.communicators) {
        return None;
    }
    let mut changed = plan.clone();
    changed.communicators = plan.communicators.saturating_sub(fewer);
    for (name, value) in set {
        changed.set(constants, name, value);
    }
    let of = |p: &Plan| total(&compute(constants, p), p.communicators);
    let (before, after): (Total, Total) = (of(plan), of(&changed));
    let minus = |a: u64, b: u64| a as i64 - b as i64;
    let (least, most) = (minus(before.gpu.least, after.gpu.least), minus(before.gpu.most, after.gpu.most));
    Some((least.min(most), least.max(most), minus(after.host.most, before.host.most)))
}

/// Variables that change the shape of a plan; others are sizes, which name theirs themselves.
const SHAPE: [&str; 7] = [
    "NCCL_ALGO",
    "NCCL_CUMEM_ENABLE",
    "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_P2P_NCHANNELS",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE",
];

/// Whether a variable has a part in the model.
#[must_use]
pub fn has_part(constants: &[Constant], name: &str) -> bool {
    SHAPE.contains(&name) || constants.iter().any(|c| c.variable == name)
}

impl Plan {
    /// With one variable set. Those that sizes are made of are read there; here is what changes the shape.
    pub fn set(&mut self, constants: &[Constant], name: &str, value: &str) {
        self.env.insert(name.into(), value.into());
        let number = number_of(value);
        let most = number.and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
        let lazy = self.sizes(constants).lazy;
        match (name, number, most) {
            ("NCCL_MAX_CTAS", _, Some(n)) => {
                self.shape.nvls = self.shape.nvls.min(n);
                self.limit(n);
            }
            ("NCCL_MAX_NCHANNELS", _, Some(n)) => self.limit(n),
            ("NCCL_MAX_P2P_NCHANNELS", _, Some(n)) => self.limit_p2p(n),
            ("NCCL_NVLS_ENABLE", Some(0), _) => self.shape.nvls = 0,
            ("NCCL_P2P_DISABLE", Some(1), _) => self.local = Local::Shm,
            // NVLS is lost with it, and what was to be connected later is connected at init.
            ("NCCL_CUMEM_ENABLE", Some(0), _) if !self.sizes(constants).nvls_without_cumem => {
                self.shape.nvls = 0;
            }
            // Where all is connected at init the choice of algorithms frees nothing.
            ("NCCL_ALGO", ..) if lazy => {
                let lower = value.to_ascii_lowercase();
                let (not, list) = lower.strip_prefix('^').map_or((false, lower.as_str()), |l| (true, l));
                let has = |what: &str| list.split(',').any(|a| a.trim() == what) != not;
                self.uses.ring &= has("ring");
                self.uses.tree &= has("tree");
                self.uses.nvls &= has("nvls") || has("nvlstree");
                self.uses.pat &= has("pat");
            }
            _ => {}
        }
    }

    /// Fewer channels of collectives; those of send and receive follow them.
    fn limit(&mut self, n: u64) {
        self.shape.channels = self.shape.channels.min(n);
        self.shape.collnet = self.shape.collnet.min(n);
        self.limit_p2p(self.shape.channels);
    }

    fn limit_p2p(&mut self, n: u64) {
        let most = power_of_two_up(n.min(self.shape.channels.max(1)));
        self.shape.p2p_channels = self.shape.p2p_channels.min(most);
        self.shape.per_peer = self.shape.per_peer.min(self.shape.p2p_channels);
    }
}
