//! One condition against the job.

use super::detectors::{self, Detected};
use crate::base::ReleaseRange;
use crate::catalogue::{Catalogue, MessageId};
use crate::job::{Ended, EventId, Job, slot_of};
use crate::knowledge::{Cond, Knowledge, Match};
use crate::settings;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The job with what rules ask of it, indexed.
pub struct Context<'c> {
    /// The job.
    pub job: &'c Job,
    /// Messages.
    pub catalogue: &'c Catalogue,
    /// Tables and sets.
    pub knowledge: &'c Knowledge,
    /// Whether any finding that is no fallback was made already.
    pub explained: bool,
    by_message: FxHashMap<MessageId, Vec<EventId>>,
    globs: RefCell<FxHashMap<String, Vec<MessageId>>>,
}

/// What a condition found.
#[derive(Debug, Clone, Default)]
pub(super) struct Met {
    pub(super) holds: bool,
    pub(super) events: Vec<EventId>,
    pub(super) detected: Option<Detected>,
}

impl<'c> Context<'c> {
    /// Indexes the events of the run that is diagnosed.
    #[must_use]
    pub fn new(job: &'c Job, catalogue: &'c Catalogue, knowledge: &'c Knowledge) -> Self {
        let mut by_message: FxHashMap<MessageId, Vec<EventId>> = FxHashMap::default();
        for id in job.current() {
            by_message.entry(job.event(id).message).or_default().push(id);
        }
        for list in by_message.values_mut() {
            list.sort_by_key(|&e| in_order(job, e));
        }
        Self { job, catalogue, knowledge, explained: false, by_message, globs: RefCell::default() }
    }

    /// Events of a message.
    pub(super) fn of(&self, message: MessageId) -> &[EventId] {
        self.by_message.get(&message).map_or(&[], Vec::as_slice)
    }

    /// Messages of the run, with their events.
    pub(super) fn messages(&self) -> impl Iterator<Item = (MessageId, &[EventId])> {
        let mut all: Vec<_> = self.by_message.iter().map(|(m, e)| (*m, e.as_slice())).collect();
        all.sort_by_key(|a| a.0);
        all.into_iter()
    }

    pub(super) fn resolve(&self, pattern: &str) -> Vec<MessageId> {
        if let Some(ids) = self.globs.borrow().get(pattern) {
            return ids.clone();
        }
        let list = [pattern.to_string()];
        let ids: Vec<MessageId> = match self.catalogue.message(pattern) {
            Some(id) => vec![id],
            None => (0..self.catalogue.messages.len())
                .filter(|&i| self.knowledge.covers(&list, &self.catalogue.messages[i].id))
                .map(|i| i as MessageId)
                .collect(),
        };
        self.globs.borrow_mut().insert(pattern.to_string(), ids.clone());
        ids
    }

    /// Whether a condition holds, beside `anchor` where it is relative to an event.
    pub(super) fn met(&self, cond: &Cond, anchor: Option<EventId>) -> Met {
        match cond.asks() {
            Match::Events => self.events(cond, anchor),
            Match::Ended => self.ended(cond, anchor),
            Match::Env => self.env(cond),
            Match::Release => Met { holds: self.release(cond, anchor), ..Met::default() },
            Match::State => {
                let state = self.job.end.state.name().replace(' ', "-");
                let holds = cond.state().iter().any(|s| s.replace(' ', "-") == state);
                Met { holds, events: self.job.end.events.clone(), ..Met::default() }
            }
            Match::Detector => match detectors::run(self, cond) {
                Some(d) => Met { holds: true, events: d.events.clone(), detected: Some(d) },
                None => Met::default(),
            },
        }
    }

    fn events(&self, cond: &Cond, anchor: Option<EventId>) -> Met {
        let mut events: Vec<EventId> = Vec::new();
        let messages = cond.message();
        if messages.is_empty() {
            for (id, list) in self.messages() {
                let entry = &self.catalogue.messages[usize::from(id)];
                if cond.role.is_none_or(|r| r == entry.role) && cond.kind.is_none_or(|k| k == entry.kind) {
                    events.extend(list);
                }
            }
        } else {
            for id in messages.iter().flat_map(|m| self.resolve(m)) {
                let entry = &self.catalogue.messages[usize::from(id)];
                if cond.role.is_none_or(|r| r == entry.role) && cond.kind.is_none_or(|k| k == entry.kind) {
                    events.extend(self.of(id));
                }
            }
        }
        events.sort_by_key(|&e| in_order(self.job, e));
        events.dedup();
        events.retain(|&e| self.fields(cond, e) && self.near(cond, anchor, e) && self.ordered(cond, e));
        let count: u64 = events.iter().map(|&e| self.count(e)).sum();
        let mut holds = !events.is_empty() && cond.count.is_none_or(|n| count >= n);
        if let Some(n) = cond.ranks {
            let mut who: Vec<_> =
                events.iter().map(|&e| &self.job.events[e as usize]).map(|p| (p.rank, p.process)).collect();
            who.sort_unstable();
            who.dedup();
            holds &= who.len() >= n;
        }
        Met { holds, events, detected: None }
    }

    /// Lines that an event stands for.
    pub(crate) fn count(&self, id: EventId) -> u64 {
        let p = &self.job.events[id as usize];
        let source = &self.job.sources[p.source as usize];
        let event = &source.events[p.event as usize];
        source.bulk.get(&(event.message, event.speaker)).map_or(event.count, |b| b.count.max(event.count))
    }

    fn fields(&self, cond: &Cond, id: EventId) -> bool {
        let event = self.job.event(id);
        cond.fields.iter().all(|(name, want)| {
            let got = slot_of(self.catalogue, event, name);
            matches(want, got)
        })
    }

    fn near(&self, cond: &Cond, anchor: Option<EventId>, id: EventId) -> bool {
        let (Some(on), Some(anchor)) = (cond.on.as_deref(), anchor) else { return true };
        let (a, b) = (&self.job.events[anchor as usize], &self.job.events[id as usize]);
        match on {
            "process" => {
                (a.rank.is_some() && a.rank == b.rank)
                    || (a.process.is_some() && a.process == b.process)
                    || (a.source == b.source && a.rank.is_none() && a.process.is_none())
            }
            "host" => match (&a.host, &b.host) {
                (Some(x), Some(y)) => crate::job::same_host(x, y),
                _ => a.source == b.source && (a.host.is_none() && b.host.is_none()),
            },
            _ => true,
        }
    }

    fn ordered(&self, cond: &Cond, id: EventId) -> bool {
        let place = &self.job.events[id as usize];
        let event = self.job.event(id);
        let beside = |messages: Vec<String>, after: bool| {
            messages.is_empty()
                || messages.iter().flat_map(|m| self.resolve(m)).flat_map(|m| self.of(m).to_vec()).any(|o| {
                    let other = &self.job.events[o as usize];
                    let line = self.job.event(o).line;
                    other.source == place.source && if after { line < event.line } else { line > event.line }
                })
        };
        beside(cond.after(), true) && beside(cond.before(), false)
    }

    fn ended(&self, cond: &Cond, anchor: Option<EventId>) -> Met {
        let want = cond.ended.as_deref().unwrap_or("");
        let events: Vec<EventId> = self
            .job
            .ends
            .iter()
            .filter(|e| match (want, e.how) {
                ("well", Ended::Well)
                | ("exception", Ended::Exception)
                | ("killed", Ended::Killed)
                | ("oom", Ended::Oom) => true,
                ("signal", Ended::Signal(n)) => cond.signal.is_none_or(|s| s == n),
                ("exit", Ended::Exit(n)) => cond.exit.is_none_or(|x| x == n),
                _ => false,
            })
            .map(|e| e.event)
            .filter(|&e| self.near(cond, anchor, e))
            .collect();
        Met { holds: !events.is_empty(), events, detected: None }
    }

    fn env(&self, cond: &Cond) -> Met {
        let name = cond.env.as_deref().unwrap_or("");
        let list: Vec<_> = match name.strip_suffix('*') {
            Some(start) => {
                self.job.settings.iter().filter(|(n, _)| n.starts_with(start)).flat_map(|(_, l)| l).collect()
            }
            None => self.job.settings.get(name).into_iter().flatten().collect(),
        };
        let values = cond.value();
        let chosen: Vec<_> = list
            .iter()
            .filter(|s| values.is_empty() || values.iter().any(|v| v.eq_ignore_ascii_case(&s.value)))
            .collect();
        let holds = match (cond.set, cond.differs) {
            (Some(false), _) => list.is_empty(),
            (_, Some(want)) => {
                let known = self.knowledge.tables.variables.iter().find(|v| v.name == name);
                let means =
                    |value: &str| known.map_or_else(|| value.to_string(), |v| settings::meaning(v, value));
                (list.iter().map(|s| means(&s.value)).collect::<BTreeSet<_>>().len() > 1) == want
            }
            _ => !chosen.is_empty(),
        };
        Met { holds, events: chosen.iter().map(|s| s.event).take(4).collect(), detected: None }
    }

    fn release(&self, cond: &Cond, anchor: Option<EventId>) -> bool {
        let process = anchor.and_then(|a| self.job.events[a as usize].process);
        let fits = |what: &str, range: &Option<String>| match range.as_deref().and_then(ReleaseRange::parse) {
            Some(range) => self.job.release(what, process).is_some_and(|r| range.contains(r)),
            None => true,
        };
        fits("nccl", &cond.nccl) && fits("torch", &cond.torch)
    }
}

/// The order of events that does not depend on how sources were merged or split: by rank, then as they were said.
pub(super) fn in_order(job: &Job, id: EventId) -> (u32, EventId) {
    (job.events[id as usize].rank.unwrap_or(u32::MAX), id)
}

/// Whether a field's text is what a condition wants.
pub(super) fn matches(want: &toml::Value, got: Option<&str>) -> bool {
    match want {
        toml::Value::String(s) => got == Some(s.as_str()),
        toml::Value::Integer(n) => got.and_then(|g| g.trim().parse::<i64>().ok()) == Some(*n),
        toml::Value::Boolean(b) => got == Some(if *b { "true" } else { "false" }),
        toml::Value::Float(f) => {
            got.and_then(|g| g.trim().parse::<f64>().ok()).is_some_and(|g| (g - f).abs() < 1e-9)
        }
        toml::Value::Array(list) => list.iter().any(|w| matches(w, got)),
        toml::Value::Table(t) => t.iter().all(|(key, value)| special(key, value, got)),
        toml::Value::Datetime(_) => false,
    }
}

fn special(key: &str, value: &toml::Value, got: Option<&str>) -> bool {
    let number =
        |g: &str| g.trim().parse::<f64>().ok().or_else(|| crate::base::parse_bytes(g).map(|b| b as f64));
    let limit = value.as_float().or_else(|| value.as_integer().map(|i| i as f64));
    match key {
        "has" => {
            let texts: Vec<&str> = match value {
                toml::Value::Array(a) => a.iter().filter_map(|v| v.as_str()).collect(),
                v => v.as_str().into_iter().collect(),
            };
            got.is_some_and(|g| texts.iter().any(|t| g.contains(t)))
        }
        "unset" => got.is_none_or(str::is_empty) == value.as_bool().unwrap_or(true),
        "not" => !matches(value, got),
        "min" => got.and_then(number).zip(limit).is_some_and(|(g, l)| g >= l),
        "max" => got.and_then(number).zip(limit).is_some_and(|(g, l)| g <= l),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    fn value(text: &str) -> toml::Value {
        toml::from_str::<toml::Table>(&format!("v = {text}")).unwrap()["v"].clone()
    }

    #[test]
    fn what_where_can_say() {
        assert!(matches(&value("[12, 13]"), Some("12")));
        assert!(!matches(&value("12"), None));
        assert!(matches(&value("{ has = 'no space' }"), Some("error: no space left")));
        assert!(matches(&value("{ unset = true }"), None));
        assert!(matches(&value("{ not = ['a', 'b'] }"), Some("c")));
        assert!(matches(&value("{ min = 1, max = 9 }"), Some("5")));
        assert!(!matches(&value("{ min = 1, max = 9 }"), Some("15")));
    }
}
