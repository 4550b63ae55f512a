//! What came after jobs that failed alike: the next job of the same name that
//! ended well, and in what it differed as far as the index shows it. It says
//! what was different, not that this was the remedy.

use super::record::Record;
use std::collections::{BTreeMap, BTreeSet};

/// Variables with the values that a job showed.
pub(super) type Settings = BTreeMap<String, Vec<String>>;

/// Differences that are told.
const MOST: usize = 6;

/// A sentence on the first job after the last of `failed` in a row of jobs of one name (`llama-31`, `llama-32`) that
/// ended well; nothing where there is none, or where one failed in the same way after it.
pub(super) fn after(
    failed: &[&Record],
    records: &[&Record],
    settings: &dyn Fn(&Record) -> Settings,
) -> Option<String> {
    let mut last: BTreeMap<String, &Record> = BTreeMap::new();
    for r in failed.iter().filter(|r| r.when().is_some()) {
        let Some(row) = row(&r.job) else { continue };
        let known = last.entry(row).or_insert(*r);
        if r.when() > known.when() {
            *known = *r;
        }
    }
    let well = |r: &Record| r.verdict == "healthy" && r.end == "well";
    let mut pairs: Vec<(&Record, &Record)> = Vec::new();
    for (name, bad) in last {
        let later = records.iter().filter(|r| well(r) && r.when() > bad.when());
        let next = later.filter(|r| row(&r.job).as_ref() == Some(&name)).min_by_key(|r| (r.when(), &r.job));
        pairs.extend(next.map(|good| (bad, *good)));
    }
    let (bad, good) = pairs.into_iter().max_by_key(|(bad, _)| (bad.when(), &bad.job))?;
    let day = good.when().map_or(String::new(), |t| format!(" on {}", t.date()));
    let differs = differences(bad, good, settings);
    let how = match differs.as_slice() {
        [] => "nothing that the index holds of it is different".to_string(),
        list => format!("it had {}", list.join(", ")),
    };
    Some(format!(" After {} the job {} ended well{day}; {how}.", bad.job, good.job))
}

/// The name of a job with `#` for its numbers, where it has a word besides them that is no folder's.
fn row(job: &str) -> Option<String> {
    let (mut out, mut digits) = (String::new(), false);
    for c in job.chars() {
        if !c.is_ascii_digit() || !digits {
            out.push(if c.is_ascii_digit() { '#' } else { c });
        }
        digits = c.is_ascii_digit();
    }
    let own = out.rsplit('/').next().unwrap_or(&out);
    (out != job && own.chars().filter(|c| c.is_alphabetic()).count() > 2).then_some(out)
}

fn differences(bad: &Record, good: &Record, settings: &dyn Fn(&Record) -> Settings) -> Vec<String> {
    let mut out = Vec::new();
    let told = |value: Option<&str>| value.unwrap_or("not shown").to_string();
    for (what, a, b) in [
        ("NCCL", &bad.nccl, &good.nccl),
        ("PyTorch", &bad.torch, &good.torch),
        ("CUDA", &bad.cuda, &good.cuda),
        ("driver", &bad.driver, &good.driver),
    ] {
        if let (Some(a), Some(b)) = (a, b)
            && a != b
        {
            out.push(format!("{what} {b} instead of {a}"));
        }
    }
    if let (Some(a), Some(b)) = (bad.world_size, good.world_size)
        && a != b
    {
        out.push(format!("{b} ranks instead of {a}"));
    }
    if !bad.networks.is_empty() && !good.networks.is_empty() && bad.networks != good.networks {
        out.push(format!("network {} instead of {}", good.networks.join(", "), bad.networks.join(", ")));
    }
    let gone: Vec<&str> = bad
        .culprit_hosts
        .iter()
        .filter(|h| !good.hosts.is_empty() && !good.hosts.contains(h))
        .map(String::as_str)
        .collect();
    if !gone.is_empty() {
        out.push(format!("not the host {}", gone.join(", ")));
    }
    let (before, now) = (settings(bad), settings(good));
    // Where one of the two shows none at all, nothing can be said of them.
    let names: BTreeSet<&String> = if before.is_empty() || now.is_empty() {
        BTreeSet::new()
    } else {
        before.keys().chain(now.keys()).collect()
    };
    for name in names.into_iter().filter(|n| !of_one_run(n)) {
        let value = |of: &Settings| of.get(name).map(|v| v.join(" or "));
        let (a, b) = (value(&before), value(&now));
        if a != b {
            out.push(format!("{name} {} instead of {}", told(b.as_deref()), told(a.as_deref())));
        }
    }
    let more = out.len().saturating_sub(MOST);
    out.truncate(MOST);
    if more > 0 {
        out.push(format!("and {more} more"));
    }
    out
}

/// Variables that differ from run to run, whatever is tried.
fn of_one_run(name: &str) -> bool {
    ["SLURM_", "PBS_", "LSB_", "FLUX_", "MASTER_", "TORCHELASTIC_", "OMPI_", "PMI"]
        .iter()
        .any(|s| name.starts_with(s))
        || ["RANK", "LOCAL_RANK", "GROUP_RANK", "NCCL_DEBUG_FILE", "HOSTNAME"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(job: &str, day: u32, cause: Option<&str>, nccl: &str) -> Record {
        Record {
            job: job.into(),
            last: Some(format!("2026-03-{day:02}T10:00:00")),
            verdict: if cause.is_some() { "fault".into() } else { "healthy".into() },
            end: if cause.is_some() { "failed".into() } else { "well".into() },
            cause: cause.map(String::from),
            nccl: Some(nccl.into()),
            hosts: vec!["h1".into()],
            ..Record::default()
        }
    }

    fn told(records: &[Record]) -> Option<String> {
        let all: Vec<&Record> = records.iter().collect();
        let failed: Vec<&Record> = records.iter().filter(|r| r.cause.is_some()).collect();
        after(&failed, &all, &|r| {
            [("NCCL_IB_TIMEOUT".to_string(), vec![if r.cause.is_some() { "18" } else { "22" }.to_string()])]
                .into()
        })
    }

    #[test]
    fn the_next_job_of_that_name_that_ended_well_is_told() {
        let bad = [job("a/llama-31", 3, Some("x/y"), "2.19.3"), job("a/llama-32", 4, Some("x/y"), "2.19.3")];
        let good = job("a/llama-34", 6, None, "2.21.5");
        let all =
            [&bad[..], &[good, job("a/llama-33", 2, None, "2.18.1"), job("a/bert-9", 5, None, "2.0.0")]]
                .concat();
        assert_eq!(
            told(&all).as_deref(),
            Some(
                " After a/llama-32 the job a/llama-34 ended well on 2026-03-06; it had NCCL 2.21.5 instead of 2.19.3, \
                 NCCL_IB_TIMEOUT 22 instead of 18."
            )
        );
    }

    #[test]
    fn nothing_is_told_of_jobs_that_have_only_a_number_or_failed_again() {
        assert_eq!(told(&[job("a/31", 3, Some("x/y"), "2"), job("a/32", 4, None, "2")]), None);
        assert_eq!(told(&[job("a/llama", 3, Some("x/y"), "2"), job("a/llama", 4, None, "2")]), None);
        assert_eq!(told(&[job("a/llama-3", 5, Some("x/y"), "2"), job("a/llama-4", 4, None, "2")]), None);
    }
}
