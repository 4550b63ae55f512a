//! How fast a job went: steps by the clock of their own lines, and figures of
//! speed that the last lines of work print.

use crate::base::Stamp;
use crate::catalogue::{Catalogue, Said, time_of};
use crate::job::{Job, slot_of, step_in};
use crate::knowledge::Kind;
use crate::report::Evidence;
use crate::verdict;
use regex::Regex;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Steps and seconds that a rate must stand on.
const STEPS: i64 = 5;
const SECONDS: f64 = 4.0;

/// A figure, whether more of it is faster, and a line that it comes from.
#[derive(Debug, Clone)]
pub(super) struct Speed {
    pub(super) value: f64,
    pub(super) more_is_faster: bool,
    pub(super) line: Option<Evidence>,
}

/// Figures by what they are called.
pub(super) type Speeds = BTreeMap<String, Speed>;

/// The speeds of a job.
pub(super) fn of(catalogue: &Catalogue, job: &Job) -> Speeds {
    let mut found: BTreeMap<String, Vec<Speed>> = BTreeMap::new();
    for id in job.current() {
        let entry = job.entry(catalogue, id);
        if entry.kind != Kind::Step {
            continue;
        }
        let place = &job.events[id as usize];
        let event = job.event(id);
        let source = &job.sources[place.source as usize];
        let Some(counted) = source.bulk.get(&(event.message, event.speaker)) else { continue };
        let line = || {
            let mut line = verdict::evidence_of(catalogue, job, id);
            line.line = counted.last.line;
            line.text = verdict::mask(&crate::catalogue::last_state(&counted.last.text));
            line.time = counted.last.time.and_then(|t| t.rfc3339());
            line.time_text = counted.last.time.map(|t| t.text());
            Some(line)
        };
        let first = slot_of(catalogue, event, "step").and_then(|s| s.parse::<i64>().ok());
        let last = step_in(catalogue, event.message, &counted.last.text);
        let times = time(event.time, &event.text)
            .and_then(|a| a.comparable(&time(counted.last.time, &counted.last.text)?));
        if let (Some(first), Some(last), Some((from, to))) = (first, last, times) {
            let seconds = (to - from) as f64 / 1e9;
            if last - first >= STEPS && seconds >= SECONDS {
                let speed =
                    Speed { value: (last - first) as f64 / seconds, more_is_faster: true, line: line() };
                found.entry(format!("steps a second, by the times of {}", entry.id)).or_default().push(speed);
            }
        }
        for (name, (value, more_is_faster)) in printed(counted.before.as_ref(), &counted.last) {
            let name = format!("{name}, as the last lines print it");
            found.entry(name).or_default().push(Speed { value, more_is_faster, line: line() });
        }
    }
    found.into_iter().filter_map(|(name, list)| Some((name, middle(list)?))).collect()
}

/// The time of a line; some programs put a blank before it.
fn time(known: Option<Stamp>, text: &str) -> Option<Stamp> {
    known.or_else(|| time_of(text.trim_start()))
}

/// The one in the middle: a few ranks that are off do not matter.
fn middle(mut list: Vec<Speed>) -> Option<Speed> {
    list.sort_by(|a, b| a.value.total_cmp(&b.value));
    let at = list.len() / 2;
    list.into_iter().nth(at)
}

/// Figures that the last two lines agree in, within a fifth: one line alone may be of a checkpoint or a warm-up.
fn printed(before: Option<&Said>, last: &Said) -> BTreeMap<String, (f64, bool)> {
    let Some(before) = before else { return BTreeMap::new() };
    let earlier = figures(&before.text);
    let mut out = figures(&last.text);
    out.retain(|name, (value, _)| {
        earlier.get(name).is_some_and(|(e, _)| *e > 0.0 && *value > 0.0 && (*value / *e - 1.0).abs() <= 0.2)
    });
    out
}

/// Figures of speed in a line: `2.08it/s`, `tokens/s 21000`, `elapsed time per iteration (ms): 2310.4`.
fn figures(text: &str) -> BTreeMap<String, (f64, bool)> {
    static PATTERNS: OnceLock<Vec<Regex>> = OnceLock::new();
    let patterns = PATTERNS.get_or_init(|| {
        [
            r"(?<value>\d+(?:[.,]\d+)*) ?(?<name>(?:it|s|samples|tokens|tok|seq|img|images|examples|steps)/(?:it|s|sec|second|iter|iteration|step))\b",
            r"(?i)(?<name>(?:samples|tokens|tok|steps|tflops?|tps|throughput|speed)[\w/ ()]{0,30}?)\s*[:=]?\s+(?<value>\d+(?:[.,]\d+)*)",
            r"(?i)(?<name>(?:elapsed time per iteration|iter(?:ation)?[ _]time|step[ _]time|time per (?:step|iteration)|train_step_timing)[ \w]{0,10}(?:\((?:ms|s)\))?)\s*[:=]\s*(?<value>\d+(?:\.\d+)?)",
        ]
        .iter()
        .filter_map(|p| Regex::new(p).ok())
        .collect()
    });
    let mut out = BTreeMap::new();
    for (nth, pattern) in patterns.iter().enumerate() {
        for found in pattern.captures_iter(text) {
            // `grad_norm 0.4 tokens/s 21000`: the figure before the name belongs to another one.
            let after = found.get(0).map_or("", |m| &text[m.end()..]);
            if nth == 0 && after.trim_start_matches([' ', ':', '=']).starts_with(|c: char| c.is_ascii_digit())
            {
                continue;
            }
            let name = found["name"].trim().to_string();
            let Ok(value) = found["value"].replace(',', "").parse::<f64>() else { continue };
            let lower = name.to_ascii_lowercase();
            let slower = lower.contains("time") || lower.contains("timing") || lower.starts_with("s/");
            out.entry(name).or_insert((value, !slower));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::figures;

    #[test]
    fn figures_of_speed_are_told_from_others() {
        let of = |text| figures(text).into_iter().map(|(n, (v, more))| (n, v, more)).collect::<Vec<_>>();
        assert_eq!(
            of("step 12 loss 2.1 grad_norm 0.4 tokens/s 21,000"),
            [("tokens/s".into(), 21000.0, true)]
        );
        assert_eq!(of("Epoch 3: 42% 420/1000 [03:21<04:38, 2.08it/s]"), [("it/s".into(), 2.08, true)]);
        assert_eq!(of("5/10 [00:10<00:10, 1.64s/it]"), [("s/it".into(), 1.64, false)]);
        assert_eq!(
            of("iteration 280/ 20000 | elapsed time per iteration (ms): 2310.4 | loss 2.1"),
            [("elapsed time per iteration (ms)".into(), 2310.4, false)]
        );
        assert!(of("step 12 loss 2.1 lr 3.0e-04").is_empty());
    }
}
