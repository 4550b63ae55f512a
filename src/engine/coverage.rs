//! How well the tests in the rule files hold the rules: for each way in which
//! a cause shows, the tests in which it fires and those that come near.

use super::particulars::{apart, particulars};
use super::{Engine, Options, given_of};
use crate::knowledge::{Rule, RuleTest};
use crate::rules::{self, Context};

/// One way of a rule.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Covered {
    /// Id of the rule.
    pub rule: String,
    /// Which `[[when]]`, from 1; 0 is that of messages that suggest the cause by themselves.
    pub way: usize,
    /// Tests that expect the finding and in which this way holds; of those that share a host, process, address, path
    /// or long number, only one is counted.
    pub firing: usize,
    /// Tests that expect no finding, in which this way does not hold though one of its conditions does, or which are
    /// the rule's own near-miss where the way has one condition only.
    pub near: usize,
}

impl Engine {
    /// For each `[[when]]` of each rule, how many tests of its file fire it and how many come near.
    #[must_use]
    pub fn coverage(&self) -> Vec<Covered> {
        self.knowledge.rules.iter().flat_map(|(rule, _)| self.covered(rule)).collect()
    }

    fn covered(&self, rule: &Rule) -> Vec<Covered> {
        let mut out: Vec<Covered> = (1..=rule.whens.len())
            .map(|way| Covered { rule: rule.id.clone(), way, firing: 0, near: 0 })
            .collect();
        let mut fired = vec![Vec::new(); out.len()];
        for test in &rule.tests {
            for (n, (holds, touched, conditions)) in self.ways_in(rule, test).into_iter().enumerate() {
                let c = &mut out[n];
                if test.expect.finding {
                    if holds {
                        fired[n].push(particulars(test, &format!("{:?}", rule.whens[n])));
                    }
                } else if !holds && (touched || conditions < 2) {
                    c.near += 1;
                }
            }
        }
        for (c, sets) in out.iter_mut().zip(&fired) {
            c.firing = apart(sets);
        }
        out
    }

    /// For each `[[when]]`: whether it holds in a test, whether one of its conditions does, and how many it has.
    fn ways_in(&self, rule: &Rule, test: &RuleTest) -> Vec<(bool, bool, usize)> {
        let options = Options { threads: 1, ..Options::default() };
        let Ok(judged) = self.judge(&given_of(test), &options) else { return Vec::new() };
        let mut cx = Context::new(&judged.job, &self.catalogue, &self.knowledge);
        cx.explained = self.explained(&judged.ordered);
        rules::ways(&cx, rule)
            .into_iter()
            .skip(1)
            .map(|w| (w.holds, w.conditions.iter().any(|c| c.met), w.conditions.len()))
            .collect()
    }
}
