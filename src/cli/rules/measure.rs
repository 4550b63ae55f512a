//! `ncclcheck rules measure DIR`: how often the first answer is right on a
//! folder of labelled cases, and whether its confidence is worth anything.
//! A case is a folder with `input/` and `truth.json` (fixtures/README.md).

use super::super::out::{FINE, Fail, print};
use super::super::sources;
use crate::cli::args::Global;
use crate::engine::{Engine, Options};
use crate::input::Given;
use crate::report::{Report, Verdict};
use serde::Deserialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What a case's label says.
#[derive(Deserialize)]
struct Truth {
    cause: String,
    #[serde(default)]
    also_ok: Vec<String>,
    culprit: Option<Culprit>,
}

#[derive(Deserialize)]
struct Culprit {
    #[serde(default)]
    ranks: Vec<u32>,
    #[serde(default)]
    hosts: Vec<String>,
}

/// What came out of a case.
struct Measured {
    name: String,
    right: bool,
    strict: bool,
    in_three: bool,
    called_healthy: bool,
    confidence: Option<f64>,
    culprit: Option<bool>,
    /// Whether it belongs to the third that odds must not be fitted on.
    apart: bool,
}

pub(super) fn run(global: &Global, folder: &Path) -> Result<u8, Fail> {
    let engine = sources::engine(global)?;
    let cases = cases_in(folder)?;
    let measured: Result<Vec<Measured>, Fail> = cases.iter().map(|c| measure(&engine, c)).collect();
    let measured = measured?;
    print(global.color, FINE, |out| table(&measured, out))
}

/// Folders with a label, in order of name.
fn cases_in(folder: &Path) -> Result<Vec<PathBuf>, Fail> {
    let entries = std::fs::read_dir(folder).map_err(|err| format!("{}: {err}", folder.display()))?;
    let mut all: Vec<PathBuf> =
        entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.join("truth.json").is_file()).collect();
    all.sort();
    if all.is_empty() {
        return Err(format!("{}: no folder in it has a truth.json", folder.display()));
    }
    Ok(all)
}

fn measure(engine: &Engine, case: &Path) -> Result<Measured, Fail> {
    let label = case.join("truth.json");
    let text = std::fs::read_to_string(&label).map_err(|err| format!("{}: {err}", label.display()))?;
    let truth: Truth = serde_json::from_str(&text).map_err(|err| format!("{}: {err}", label.display()))?;
    let given = [Given::Path(case.join("input"))];
    let report =
        engine.diagnose(&given, &Options::default()).map_err(|err| format!("{}: {err}", case.display()))?;
    let name = case.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    Ok(judged(name, &truth, &report))
}

fn judged(name: String, truth: &Truth, report: &Report) -> Measured {
    let good = |cause: &str| cause == truth.cause || truth.also_ok.iter().any(|o| o == cause);
    // Whether nothing wrong is the answer, or one of those that may be given.
    let healthy = good("ok/clean");
    let first = report.diagnoses.first();
    let none_wanted = healthy && first.is_none();
    Measured {
        apart: hash(&name).is_multiple_of(3),
        right: none_wanted || first.is_some_and(|d| good(&d.cause)),
        strict: truth.cause == "ok/clean" && none_wanted || first.is_some_and(|d| d.cause == truth.cause),
        in_three: none_wanted || report.diagnoses.iter().take(3).any(|d| good(&d.cause)),
        called_healthy: !healthy && report.verdict == Verdict::Healthy,
        confidence: first.map(|d| d.confidence),
        culprit: truth.culprit.as_ref().and_then(|c| named(c, report)),
        name,
    }
}

/// Whether the first answer names all of the culprit's ranks, or hosts where no ranks are known, and at most two more.
fn named(truth: &Culprit, report: &Report) -> Option<bool> {
    let got = report.diagnoses.first().map(|d| &d.culprits);
    fn within<T: PartialEq>(want: &[T], have: Option<&Vec<T>>) -> bool {
        have.is_some_and(|h| want.iter().all(|w| h.contains(w)) && h.len() <= want.len() + 2)
    }
    match (truth.ranks.is_empty(), truth.hosts.is_empty()) {
        (true, true) => None,
        (false, _) => Some(within(&truth.ranks, got.map(|g| &g.ranks))),
        (true, false) => Some(within(&truth.hosts, got.map(|g| &g.hosts))),
    }
}

/// FNV-1a: a case belongs to the same third whoever measures it, and wherever.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

fn table(all: &[Measured], out: &mut dyn Write) -> io::Result<()> {
    let of = |apart: bool| all.iter().filter(move |m| m.apart == apart);
    let (fitted, apart): (Vec<_>, Vec<_>) = (of(false).collect(), of(true).collect());
    let every: Vec<_> = all.iter().collect();
    writeln!(out, "{:<28}{:>12}{:>14}{:>14}", "", "all cases", "two thirds", "other third")?;
    let mut row = |name: &str, which: &dyn Fn(&Measured) -> Option<bool>| {
        let cell = |list: &[&Measured]| {
            let known: Vec<bool> = list.iter().filter_map(|m| which(m)).collect();
            format!("{} of {}", known.iter().filter(|k| **k).count(), known.len())
        };
        writeln!(out, "{name:<28}{:>12}{:>14}{:>14}", cell(&every), cell(&fitted), cell(&apart))
    };
    row("first answer right", &|m| Some(m.right))?;
    row("  the very cause", &|m| Some(m.strict))?;
    row("right among three", &|m| Some(m.in_three))?;
    row("culprit named", &|m| m.culprit)?;
    row("a failure called healthy", &|m| Some(m.called_healthy))?;
    writeln!(out)?;
    writeln!(out, "{:<28}{:>12}{:>14}{:>14}", "confidence given", "answers", "right", "mean given")?;
    for tenth in (0..10).rev() {
        let (low, high) = (f64::from(tenth) / 10.0, f64::from(tenth + 1) / 10.0);
        let within = |m: &&Measured| m.confidence.is_some_and(|c| c >= low && (c < high || tenth == 9));
        let list: Vec<&Measured> = all.iter().filter(within).collect();
        if list.is_empty() {
            continue;
        }
        let right = list.iter().filter(|m| m.right).count();
        let mean = list.iter().filter_map(|m| m.confidence).sum::<f64>() / list.len() as f64;
        writeln!(out, "{:<28}{:>12}{right:>14}{mean:>14.2}", format!("{low:.1} to {high:.1}"), list.len())?;
    }
    let wrong: Vec<&str> = all.iter().filter(|m| !m.right).map(|m| m.name.as_str()).collect();
    if !wrong.is_empty() {
        writeln!(out)?;
        writeln!(out, "first answer not right: {}", wrong.join(", "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Culprit, hash, named};
    use crate::engine::{Engine, Options};
    use crate::input::Given;

    #[test]
    fn a_third_is_a_third() {
        let apart = (0..3000).filter(|n| hash(&format!("case-{n}")).is_multiple_of(3)).count();
        assert!((900..1100).contains(&apart), "{apart}");
    }

    #[test]
    fn a_culprit_needs_all_ranks_and_few_more() {
        let engine = Engine::new(&[]).unwrap();
        let log = "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/src/a.py\", line 1, in <module>\n\
                   [rank3]: KeyError: 'x'\n";
        let given = [Given::Bytes { name: "a.log".into(), data: log.into() }];
        let report = engine.diagnose(&given, &Options { threads: 1, ..Options::default() }).unwrap();
        let of = |ranks: Vec<u32>| named(&Culprit { ranks, hosts: Vec::new() }, &report);
        assert_eq!(of(vec![3]), Some(true));
        assert_eq!(of(vec![4]), Some(false));
        assert_eq!(of(vec![]), None);
    }
}
