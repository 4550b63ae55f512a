//! No rule is about one case: for each way in which a cause shows an input is
//! made from the catalogue's own samples, twice, with no host, process or
//! address in common. Both must fire, and with any one condition left out it
//! must not. What cannot be made so (detectors, orders, ends) needs a firing
//! test in the rule's file; the number of ways that have neither may only fall.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;

use ncclcheck::base::{Release, ReleaseRange};
use ncclcheck::engine::Options;
use ncclcheck::input::Given;
use ncclcheck::knowledge::{Cond, Door, Level, Match, Message, When};

/// Ways that can neither be made nor are fired by a test of their file.
const LACKING: usize = 37;
/// Ways for which both inputs can be made, at least.
const MADE: usize = 140;

/// One of two machines that have nothing in common.
#[derive(Clone, Copy)]
struct Machine {
    host: &'static str,
    pid: u32,
    address: &'static str,
    rank: u32,
}

const MACHINES: [Machine; 2] = [
    Machine { host: "kh07", pid: 4103, address: "10.61.0.7", rank: 2 },
    Machine { host: "zq-415", pid: 88217, address: "172.19.33.9", rank: 5 },
];

/// A sample as this machine would print it.
fn line_of(m: &Message, sample: &str, on: Machine) -> String {
    let line = sample.lines().find(|l| !l.trim().is_empty()).unwrap_or("");
    let named = sample.replace("node3", on.host).replace("4410", &on.pid.to_string());
    if m.door != Door::Nccl || sample.trim().lines().count() > 1 {
        return named;
    }
    let text = ["NCCL INFO ", "NCCL WARN "]
        .iter()
        .find_map(|mark| line.find(mark).map(|at| &line[at + mark.len()..]))
        .unwrap_or(line);
    let (level, file) = if m.level == Level::Warn { ("WARN", "init.cc:77 ") } else { ("INFO", "") };
    format!("{}:{}:{} [{}] {file}NCCL {level} {text}", on.host, on.pid, on.pid + 40, on.rank % 8)
}

/// The text that a field condition wants, where it names one.
fn wanted(want: &toml::Value) -> Option<String> {
    match want {
        toml::Value::String(s) => Some(s.clone()),
        toml::Value::Integer(n) => Some(n.to_string()),
        toml::Value::Array(list) => wanted(list.first()?),
        toml::Value::Table(t) => t.get("has").or(t.get("min")).or(t.get("max")).and_then(wanted),
        _ => None,
    }
}

/// Lines that may satisfy a condition, each a candidate.
fn candidates(cond: &Cond, on: Machine) -> Vec<String> {
    let engine = common::engine();
    match cond.asks() {
        Match::Events => {
            let ids = cond.message();
            let fits = |m: &&Message| {
                (ids.is_empty() || engine.knowledge.covers(&ids, &m.id))
                    && cond.role.is_none_or(|r| r == m.role)
                    && cond.kind.is_none_or(|k| k == m.kind)
            };
            let mut out = Vec::new();
            for m in engine.knowledge.messages.iter().map(|(m, _)| m).filter(fits) {
                for sample in m.forms.iter().flat_map(|f| f.samples()) {
                    let line = line_of(m, &sample, on);
                    let mut changed = line.clone();
                    for (name, want) in &cond.fields {
                        let taken = engine.take_apart(&line);
                        let value = taken.fields.iter().find(|f| f.0 == *name).map(|f| f.2.clone());
                        if let (Some(value), Some(want)) = (value.filter(|v| !v.is_empty()), wanted(want)) {
                            changed = changed.replacen(&value, &want, 1);
                        }
                    }
                    out.push(line);
                    out.push(changed);
                }
                if out.len() > 60 {
                    break;
                }
            }
            out.dedup();
            out
        }
        Match::Env => {
            let name = cond.env.clone().unwrap_or_default().replace('*', "DISABLE");
            let value = cond.value().first().cloned().unwrap_or_else(|| "1".into());
            vec![format!("{name}={value}")]
        }
        Match::Release => {
            let range = cond.nccl.as_deref().and_then(ReleaseRange::parse);
            let release = range.and_then(|r| r.from.or(r.to)).map(|r| Release(r.0, r.1, r.2.min(3)));
            release
                .map(|r| format!("{}:{}:{} [0] NCCL INFO NCCL version {r}+cuda12.4", on.host, on.pid, on.pid))
                .into_iter()
                .collect()
        }
        Match::Ended => {
            let task = on.rank;
            let host = on.host;
            vec![
                format!("srun: error: {host}: task {task}: Segmentation fault"),
                format!("srun: error: {host}: task {task}: Bus error"),
                format!("srun: error: {host}: task {task}: Aborted"),
                format!("srun: error: {host}: task {task}: Killed"),
                format!("srun: error: {host}: task {task}: Out Of Memory"),
                format!("srun: error: {host}: task {task}: Exited with exit code {}", cond.exit.unwrap_or(1)),
            ]
        }
        Match::State => vec![
            format!("srun: error: {}: task {}: Exited with exit code 1", on.host, on.rank),
            format!(
                "slurmstepd: error: *** STEP 71.0 ON {} CANCELLED AT 2026-03-01T10:00:00 DUE TO TIME LIMIT ***",
                on.host
            ),
        ],
        Match::Detector => Vec::new(),
    }
}

/// Whether a way holds on lines, and which of its conditions do.
fn tried(rule: &str, way: usize, lines: &[String]) -> (bool, Vec<bool>) {
    let given = [Given::Bytes { name: "job.log".into(), data: (lines.join("\n") + "\n").into_bytes() }];
    let options = Options { threads: 1, ..Options::default() };
    let Ok(Some(why)) = common::engine().why(rule, &given, &options) else { return (false, Vec::new()) };
    let way = &why.ways[way];
    (way.holds, way.conditions.iter().map(|c| c.met).collect())
}

/// An input that fires a way, if one can be made.
fn made(rule: &str, way: usize, when: &When, on: Machine) -> Option<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    let any = when.any.iter().take(1);
    for (nth, cond) in when.need.iter().chain(any).enumerate() {
        let line = candidates(cond, on).into_iter().find(|line| {
            let with = [lines.clone(), vec![line.clone()]].concat();
            tried(rule, way, &with).1.get(nth).copied().unwrap_or(false)
        })?;
        lines.push(line);
    }
    tried(rule, way, &lines).0.then_some(lines)
}

#[test]
fn each_way_fires_on_inputs_that_have_nothing_in_common() {
    let engine = common::engine();
    let coverage = engine.coverage();
    let mut lacking = Vec::new();
    let mut wrong = Vec::new();
    let mut both = 0;
    for (rule, _) in &engine.knowledge.rules {
        for (nth, when) in rule.whens.iter().enumerate() {
            let way = nth + 1;
            let made: Vec<_> = MACHINES.iter().filter_map(|m| made(&rule.id, way, when, *m)).collect();
            let in_file = coverage.iter().any(|c| c.rule == rule.id && c.way == way && c.firing > 0);
            if made.len() < 2 && !in_file {
                lacking.push(format!("{} way {way}", rule.id));
            }
            if made.len() == 2 {
                both += 1;
            }
            // Near-misses: with a condition's line left out the way does not hold, unless another line says it too.
            for lines in made.iter().filter(|l| l.len() > 1) {
                for gone in 0..lines.len() {
                    let mut fewer = lines.clone();
                    fewer.remove(gone);
                    let (holds, conditions) = tried(&rule.id, way, &fewer);
                    if holds && !conditions.iter().take(when.need.len()).all(|c| *c) {
                        wrong.push(format!("{} way {way} holds without {:?}", rule.id, lines[gone]));
                    }
                }
            }
        }
    }
    assert!(both >= MADE, "only {both} ways fire on two inputs made from samples");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        lacking.len() <= LACKING,
        "{} ways without a firing test, at most {LACKING}: {lacking:#?}",
        lacking.len()
    );
}
