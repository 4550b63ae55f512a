//! `ncclcheck unknown [PATH…]`: lines that look like trouble and that no
//! message knows, by template, over one job or many.

use super::args::{Global, Jobs, ListFormat, Unknown};
use super::out::{FINE, Fail, columns, complain, print};
use super::sources;
use crate::engine::Engine;
use crate::report::text::{BAD, BOLD, CODE, DIM, GOOD, PLAIN, Page, visible};
use crate::scan;
use crate::templates::{Cluster, Store};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub(super) fn run(global: &Global, args: &Unknown) -> Result<u8, Fail> {
    let engine = sources::engine(global)?;
    let store = read(&engine, &args.jobs)?;
    let clusters = store.clusters();
    let most = if args.limit == 0 { usize::MAX } else { args.limit };
    print(global.color, FINE, |out| match args.format {
        ListFormat::Text => text(&store, &clusters, most, out),
        ListFormat::Ndjson => clusters.iter().take(most).zip(1..).try_for_each(|(cluster, n)| {
            serde_json::to_writer(&mut *out, &record(cluster, n))?;
            out.write_all(b"\n")
        }),
    })
}

/// Reads each job; one that cannot be read is named on standard error and left out.
pub(super) fn read(engine: &Engine, jobs: &Jobs) -> Result<Store, Fail> {
    if !jobs.archive.is_empty() {
        let scan::Remembered { store, without } = scan::unknown(&jobs.archive)?;
        if without > 0 {
            complain(&format!(
                "{without} job(s) were read by a program that kept no such lines; `ncclcheck scan --again` reads them once more"
            ));
        }
        return Ok(store);
    }
    let mut store = Store::default();
    let mut read = 0;
    let mut failed = Vec::new();
    for path in paths(jobs)? {
        let name = path.display().to_string();
        let one = sources::one(&path, jobs.threads)
            .and_then(|(given, options)| engine.unknown(&name, &given, &options).map_err(|e| e.to_string()));
        match one {
            Ok(job) => {
                store.add(job);
                read += 1;
            }
            Err(what) => failed.push(what),
        }
    }
    if read == 0 {
        return Err(failed.into_iter().next().unwrap_or_else(|| "there is no job to read".into()));
    }
    failed.iter().for_each(|what| complain(&format!("left out: {what}")));
    Ok(store)
}

/// The jobs, by path and in a stable order.
fn paths(jobs: &Jobs) -> Result<Vec<PathBuf>, Fail> {
    if jobs.paths.is_empty() {
        return Ok(vec![PathBuf::from("-")]);
    }
    let mut out = Vec::new();
    for path in &jobs.paths {
        if !jobs.each || !path.is_dir() {
            out.push(path.clone());
            continue;
        }
        let mut below = entries(path)?;
        below.sort();
        out.extend(below);
    }
    // A job that is named twice is one job.
    let mut seen = std::collections::BTreeSet::new();
    out.retain(|path| seen.insert(path.clone()));
    Ok(out)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Fail> {
    let told = |err: io::Error| format!("{}: {err}", folder.display());
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(told)? {
        let path = entry.map_err(told)?.path();
        let hidden = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.'));
        if !hidden {
            out.push(path);
        }
    }
    Ok(out)
}

fn text(store: &Store, clusters: &[Cluster], most: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(columns());
    let jobs = store.failed + store.healthy + store.unclear;
    let head = format!(
        "{} of unknown trouble in {}, {} templates",
        count(store.lines, "line"),
        format_args!(
            "{} ({} failed, {} healthy, {} unclear)",
            count(jobs, "job"),
            store.failed,
            store.healthy,
            store.unclear
        ),
        clusters.len()
    );
    page.flow("", "", &[(BOLD, head)], usize::MAX);
    for (cluster, n) in clusters.iter().take(most).zip(1..) {
        one(cluster, n, &mut page);
    }
    let hidden = clusters.len().saturating_sub(most);
    if hidden > 0 {
        page.blank();
        page.flow("  ", "  ", &[(DIM, format!("{hidden} more; --limit 0 prints all"))], usize::MAX);
    }
    if store.dropped() > 0 {
        page.blank();
        let text = format!("{} had too many shapes to be kept", count(store.dropped(), "line"));
        page.flow("  ", "  ", &[(DIM, text)], usize::MAX);
    }
    page.lines().iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn one(cluster: &Cluster, n: usize, page: &mut Page) {
    page.blank();
    let seen = &cluster.seen;
    page.flow(&format!("{n}. "), "   ", &[(CODE, visible(&cluster.template))], usize::MAX);
    let least = if cluster.at_least { "at least " } else { "" };
    let mut spans = vec![
        (
            if seen.failed.count > 0 { BAD } else { DIM },
            format!("{least}{}", count(seen.failed.count, "failed job")),
        ),
        (if seen.healthy.count > 0 { GOOD } else { DIM }, format!("{} healthy", seen.healthy.count)),
    ];
    if seen.unclear.count > 0 {
        spans.push((DIM, format!("{} unclear", seen.unclear.count)));
    }
    spans.push((PLAIN, count(seen.lines, "line")));
    match (&seen.since, &seen.until) {
        (Some(since), Some(until)) if since != until => spans.push((DIM, format!("{since} to {until}"))),
        (Some(day), _) => spans.push((DIM, format!("on {day}"))),
        _ => {}
    }
    page.flow("   ", "   ", &spans, usize::MAX);
    for example in &seen.examples {
        let rank = example.rank.map_or(String::new(), |r| format!("rank {r}"));
        let spot = format!("{}:{}", visible(&example.source), example.line);
        page.quote_in(3, &[(DIM, spot), (DIM, rank)], &visible(&example.text), false);
    }
}

fn record(cluster: &Cluster, n: usize) -> serde_json::Value {
    let seen = &cluster.seen;
    serde_json::json!({
        "cluster": n,
        "template": cluster.template,
        "shapes": cluster.shapes.len(),
        "lines": seen.lines,
        "failed_jobs": seen.failed.count,
        "healthy_jobs": seen.healthy.count,
        "unclear_jobs": seen.unclear.count,
        "at_least": cluster.at_least,
        "since": seen.since,
        "until": seen.until,
        "examples": seen.examples,
    })
}

fn count(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}
