//! What many jobs show together: causes and how often, week by week; hosts and
//! devices that are to blame more often than others that took part as often;
//! time between failures.

use super::record::Record;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Counts over records.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Fleet {
    /// Jobs.
    pub jobs: u64,
    /// Jobs that did not end well, with a cause.
    pub failed: u64,
    /// Jobs that ran, but slowly or close to a limit.
    pub degraded: u64,
    /// Jobs with nothing wrong.
    pub healthy: u64,
    /// Jobs that show nothing to judge by.
    pub nothing: u64,
    /// Jobs of which nothing could be read.
    pub unread: u64,
    /// Jobs of which some file could not be read.
    pub broken: u64,
    /// Bytes read, unpacked.
    pub bytes: u64,
    /// GPU hours of the jobs whose logs tell them, and how many these are.
    pub gpu_hours: f64,
    /// See `gpu_hours`.
    pub timed: u64,
    /// GPU hours of those of them that failed.
    pub failed_gpu_hours: f64,
    /// GPU hours behind the first line that shows the cause, and of how many jobs.
    pub lost_gpu_hours: f64,
    /// See `lost_gpu_hours`.
    pub lost_of: u64,
    /// Hours of work for each failure, over the jobs whose times the logs tell: mean time between failures. Only where
    /// four of five jobs tell them.
    pub hours_between_failures: Option<f64>,
    /// The same in GPU hours.
    pub gpu_hours_between_failures: Option<f64>,
    /// Weeks with at least one job, in order, with jobs and failures.
    pub weeks: Vec<Week>,
    /// By how often.
    pub causes: Vec<CauseRow>,
    /// Hosts to blame, the most conspicuous first.
    pub hosts: Vec<Blamed>,
    /// Devices to blame, likewise.
    pub devices: Vec<Blamed>,
}

/// A week.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Week {
    /// `2026-W06`.
    pub week: String,
    /// Jobs.
    pub jobs: u64,
    /// Failed ones.
    pub failed: u64,
}

/// A cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CauseRow {
    /// Id.
    pub cause: String,
    /// Jobs whose first diagnosis it is.
    pub jobs: u64,
    /// Of a hundred jobs.
    pub percent: f64,
    /// For each thousand GPU hours, over the jobs whose times the logs tell; only where four of five do.
    pub per_1000_gpu_hours: Option<f64>,
    /// Lost GPU hours.
    pub lost_gpu_hours: Option<f64>,
    /// Jobs by week, in the order of [`Fleet::weeks`].
    pub weeks: Vec<u64>,
    /// First seen in the last of several weeks.
    pub new: bool,
    /// Last time.
    pub last: Option<String>,
}

/// A host or device.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Blamed {
    /// Name.
    pub name: String,
    /// Jobs in which it was to blame.
    pub blamed: u64,
    /// Jobs in which it took part; of a device: its host.
    pub took_part: u64,
    /// The causes.
    pub causes: Vec<String>,
    /// Last time.
    pub last: Option<String>,
}

impl Fleet {
    /// Counts.
    #[must_use]
    pub fn new(records: &[Record]) -> Self {
        let mut out = Self { jobs: records.len() as u64, ..Self::default() };
        let mut weeks: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        let (mut hours, mut gpu_failures, mut failures) = (0.0, 0u64, 0u64);
        for r in records {
            let failed = r.failed();
            match (r.verdict.as_str(), failed) {
                ("unread", _) => out.unread += 1,
                ("degraded", _) => out.degraded += 1,
                (_, true) => out.failed += 1,
                ("healthy", _) => out.healthy += 1,
                _ => out.nothing += 1,
            }
            out.broken += u64::from(!r.problems.is_empty());
            out.bytes += r.bytes_read;
            if let Some(s) = r.seconds {
                hours += s / 3600.0;
                failures += u64::from(failed);
            }
            if let Some(h) = r.gpu_hours {
                (out.gpu_hours, out.timed) = (out.gpu_hours + h, out.timed + 1);
                if failed {
                    out.failed_gpu_hours += h;
                    gpu_failures += 1;
                }
            }
            if let Some(h) = r.lost_gpu_hours {
                (out.lost_gpu_hours, out.lost_of) = (out.lost_gpu_hours + h, out.lost_of + 1);
            }
            if let Some(week) = &r.week {
                let entry = weeks.entry(week).or_default();
                (entry.0, entry.1) = (entry.0 + 1, entry.1 + u64::from(failed));
            }
        }
        // Where few jobs tell their times these are mostly the failed ones, and every rate would be a wrong one.
        let tells = out.timed * 10 >= out.jobs * 8;
        let per = |sum: f64, n: u64| (tells && n > 0 && sum > 0.0).then(|| sum / n as f64);
        out.hours_between_failures = per(hours, failures);
        out.gpu_hours_between_failures = per(out.gpu_hours, gpu_failures);
        out.weeks = weeks
            .into_iter()
            .map(|(week, (jobs, failed))| Week { week: week.into(), jobs, failed })
            .collect();
        out.causes = causes(records, &out, tells);
        out.hosts = blamed(records, |r| &r.culprit_hosts, |h| Some(h));
        out.devices = blamed(records, |r| &r.culprit_devices, |d| d.split_once('/').map(|d| d.0));
        out
    }
}

fn causes(records: &[Record], fleet: &Fleet, tells: bool) -> Vec<CauseRow> {
    let mut rows: BTreeMap<&str, CauseRow> = BTreeMap::new();
    let mut timed: BTreeMap<&str, u64> = BTreeMap::new();
    for r in records {
        let Some(cause) = &r.cause else { continue };
        let row = rows.entry(cause).or_insert_with(|| CauseRow {
            cause: cause.clone(),
            weeks: vec![0; fleet.weeks.len()],
            ..CauseRow::default()
        });
        row.jobs += 1;
        *timed.entry(cause).or_default() += u64::from(r.gpu_hours.is_some());
        if let Some(h) = r.lost_gpu_hours {
            row.lost_gpu_hours = Some(row.lost_gpu_hours.unwrap_or(0.0) + h);
        }
        if let Some(at) = r.week.as_ref().and_then(|w| fleet.weeks.iter().position(|o| o.week == *w)) {
            row.weeks[at] += 1;
        }
        row.last = row.last.take().max(r.last.clone());
    }
    let mut out: Vec<CauseRow> = rows.into_values().collect();
    for row in &mut out {
        row.percent = 100.0 * row.jobs as f64 / fleet.jobs.max(1) as f64;
        let n = timed.get(row.cause.as_str()).copied().unwrap_or(0);
        row.per_1000_gpu_hours =
            (tells && fleet.gpu_hours > 0.0 && n > 0).then(|| 1000.0 * n as f64 / fleet.gpu_hours);
        row.new = match row.weeks.split_last() {
            Some((last, before)) => *last > 0 && !before.is_empty() && before.iter().all(|n| *n == 0),
            None => false,
        };
    }
    out.sort_by(|a, b| b.jobs.cmp(&a.jobs).then(a.cause.cmp(&b.cause)));
    out
}

/// Who is to blame, by the lower end of what the counts allow its rate to be. `host`: on which host it is.
fn blamed(
    records: &[Record],
    of: impl Fn(&Record) -> &Vec<String>,
    host: impl Fn(&str) -> Option<&str>,
) -> Vec<Blamed> {
    let mut rows: BTreeMap<&str, (Blamed, BTreeSet<&str>)> = BTreeMap::new();
    // Jobs in which a host took part, and those that blame one without naming its host.
    let mut there: HashMap<&str, u64> = HashMap::new();
    let mut besides: HashMap<&str, u64> = HashMap::new();
    for r in records {
        for name in of(r) {
            let row = rows.entry(name).or_default();
            row.0.blamed += 1;
            row.0.last = row.0.last.take().max(r.last.clone());
            row.1.extend(r.cause.as_deref());
            there.extend(host(name).map(|h| (h, 0)));
        }
    }
    for r in records {
        let hosts: HashSet<&str> =
            r.hosts.iter().map(String::as_str).filter(|h| there.contains_key(h)).collect();
        for host in &hosts {
            *there.entry(host).or_default() += 1;
        }
        let blamed: BTreeSet<&str> = of(r).iter().map(String::as_str).collect();
        for name in blamed {
            if host(name).is_none_or(|h| !hosts.contains(h)) {
                *besides.entry(name).or_default() += 1;
            }
        }
    }
    let count = |of: &HashMap<&str, u64>, name: &str| of.get(name).copied().unwrap_or(0);
    let mut out: Vec<Blamed> = rows
        .into_iter()
        .map(|(name, (row, causes))| Blamed {
            name: name.into(),
            took_part: host(name).map_or(0, |h| count(&there, h)) + count(&besides, name),
            causes: causes.into_iter().map(String::from).collect(),
            ..row
        })
        .collect();
    out.sort_by(|a, b| {
        let low = |x: &Blamed| lowest_rate(x.blamed, x.took_part);
        low(b).total_cmp(&low(a)).then(b.blamed.cmp(&a.blamed)).then(a.name.cmp(&b.name))
    });
    out
}

/// The lower end of the 95 % interval of a rate (Wilson's score interval): one failure in one job says less than ten in
/// eleven.
fn lowest_rate(hits: u64, of: u64) -> f64 {
    if of == 0 {
        return 0.0;
    }
    let (n, z) = (of as f64, 1.96);
    let p = hits as f64 / n;
    let middle = p + z * z / (2.0 * n);
    let wide = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    (middle - wide) / (1.0 + z * z / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(n: u32, cause: Option<&str>, host: &str, hours: Option<f64>) -> Record {
        Record {
            job: format!("a/{n}"),
            verdict: if cause.is_some() { "fault".into() } else { "healthy".into() },
            cause: cause.map(String::from),
            hosts: vec!["h1".into(), "h2".into(), "h3".into()],
            culprit_hosts: cause.map(|_| host.to_string()).into_iter().collect(),
            seconds: hours.map(|h| h * 3600.0),
            gpu_hours: hours.map(|h| h * 8.0),
            week: Some(if n < 8 { "2026-W05".into() } else { "2026-W06".into() }),
            ..Record::default()
        }
    }

    #[test]
    fn rates_and_ranks() {
        let mut all: Vec<Record> = (0..6).map(|n| job(n, None, "", Some(10.0))).collect();
        all.extend((6..9).map(|n| job(n, Some("gpu/xid"), "h2", Some(10.0))));
        all.push(job(9, Some("net/x"), "h1", Some(10.0)));
        let fleet = Fleet::new(&all);
        assert_eq!((fleet.jobs, fleet.failed, fleet.healthy), (10, 4, 6));
        assert_eq!(fleet.hours_between_failures, Some(25.0));
        assert_eq!(fleet.gpu_hours_between_failures, Some(200.0));
        assert_eq!(fleet.causes[0].cause, "gpu/xid");
        assert_eq!(fleet.causes[0].weeks, [2, 1]);
        assert_eq!(fleet.causes[0].per_1000_gpu_hours, Some(3.75));
        assert!(fleet.causes[1].new && !fleet.causes[0].new);
        assert_eq!(fleet.hosts[0].name, "h2");
        assert_eq!((fleet.hosts[0].blamed, fleet.hosts[0].took_part), (3, 10));
    }

    #[test]
    fn a_device_takes_part_where_its_host_does() {
        let mut all: Vec<Record> = (0..3).map(|n| job(n, None, "", None)).collect();
        let blames = |n: u32, hosts: &[&str]| Record {
            culprit_devices: vec!["h2/gpu3".into(), "mlx5_0".into()],
            hosts: hosts.iter().map(ToString::to_string).collect(),
            ..job(n, Some("gpu/xid"), "h2", None)
        };
        all.extend([blames(3, &["h1", "h2", "h2"]), blames(4, &[])]);
        let fleet = Fleet::new(&all);
        let of = |list: &[Blamed], name: &str| {
            list.iter().find(|b| b.name == name).map(|b| (b.blamed, b.took_part))
        };
        assert_eq!(of(&fleet.hosts, "h2"), Some((2, 5)));
        assert_eq!(of(&fleet.devices, "h2/gpu3"), Some((2, 5)));
        assert_eq!(of(&fleet.devices, "mlx5_0"), Some((2, 2)), "its host is not known");
    }

    #[test]
    fn many_jobs_of_many_hosts_are_counted_at_once() {
        let hosts: Vec<String> = (0..256).map(|n| format!("node{n:03}")).collect();
        let all: Vec<Record> = (0..4000usize)
            .map(|n| Record { hosts: hosts.clone(), ..job(7, Some("gpu/xid"), &hosts[n % 256], None) })
            .collect();
        let began = std::time::Instant::now();
        let fleet = Fleet::new(&all);
        // Each job for each host would be a hundred times as much.
        assert!(began.elapsed().as_secs() < 15, "{:?}", began.elapsed());
        assert_eq!((fleet.hosts.len(), fleet.hosts[0].took_part), (256, 4000));
    }

    #[test]
    fn no_rate_is_told_where_only_failed_jobs_tell_their_times() {
        let mut all: Vec<Record> = (0..6).map(|n| job(n, None, "", None)).collect();
        all.push(job(7, Some("gpu/xid"), "h2", Some(0.1)));
        let fleet = Fleet::new(&all);
        assert_eq!((fleet.hours_between_failures, fleet.causes[0].per_1000_gpu_hours), (None, None));
    }

    #[test]
    fn ten_of_eleven_say_more_than_one_of_one() {
        assert!(lowest_rate(10, 11) > lowest_rate(1, 1));
        assert!(lowest_rate(2, 2) > lowest_rate(2, 20));
    }
}
