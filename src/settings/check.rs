//! One environment against the tables: names that nothing reads, values that
//! are read as something else or not accepted, combinations that contradict
//! each other, what is left over, what a setting costs. A setting that does
//! what it says gets no remark but, at most, its price.

use super::{Assignment, Environment, Level, Remark, nearest};
use crate::base::{Release, ReleaseRange, number};
use crate::knowledge::{Knowledge, Setting, Variable};
use regex::Regex;

/// Releases that the job will run, where known.
#[derive(Debug, Clone, Copy, Default)]
pub struct Releases {
    /// NCCL (or RCCL, by the NCCL release that it follows).
    pub nccl: Option<Release>,
    /// PyTorch.
    pub torch: Option<Release>,
}

impl Releases {
    fn of(&self, reader: &str) -> Option<Release> {
        match reader {
            "nccl" => self.nccl,
            "torch" => self.torch,
            _ => None,
        }
    }
}

/// Everything that is to say about one environment, what matters most first.
#[must_use]
pub fn check(known: &Knowledge, env: &Environment, releases: Releases) -> Vec<Remark> {
    let mut out = Vec::new();
    for (nth, a) in env.variables.iter().enumerate() {
        // The same assignment twice is said once.
        if env.variables[..nth].iter().any(|b| b.name == a.name && b.value == a.value) {
            continue;
        }
        match known.tables.variables.iter().find(|v| v.name == a.name) {
            Some(v) => known_name(v, a, env, releases, &mut out),
            None => unknown_name(known, a, env, &mut out),
        }
    }
    out.extend(combinations(known, env, releases));
    out.sort();
    out
}

fn remark(level: Level, kind: &str, a: &Assignment, env: &Environment, say: String) -> Remark {
    Remark {
        level,
        kind: kind.into(),
        name: a.name.clone(),
        value: a.value.clone(),
        source: env.source.clone(),
        line: a.line,
        say,
        instead: None,
    }
}

/// Whether a name that begins like NCCL's own is known to be another program's.
#[must_use]
pub fn is_foreign(known: &Knowledge, name: &str) -> bool {
    known.tables.foreign.iter().any(|f| f.names.iter().any(|n| crate::knowledge::glob(n, name)))
}

fn unknown_name(known: &Knowledge, a: &Assignment, env: &Environment, out: &mut Vec<Remark>) {
    let upper = a.name.to_ascii_uppercase();
    let ours = ["NCCL_", "RCCL_", "TORCH_NCCL_"].iter().any(|p| upper.starts_with(p))
        || super::near::misspelt_beginning(&upper);
    if !ours || is_foreign(known, &a.name) {
        return;
    }
    let near = nearest(known, &a.name);
    let (level, say) = match &near {
        Some(n) if n.sure => {
            (Level::Wrong, format!("Nothing reads {}; {} was probably meant.", a.name, n.name))
        }
        Some(n) => (
            Level::Note,
            format!(
                "No release known here reads {}; perhaps {} is meant, or it is a plugin's own.",
                a.name, n.name
            ),
        ),
        None if super::near::misspelt_beginning(&upper) => return,
        None => (Level::Note, format!("No release known here reads {}; it may be a plugin's own.", a.name)),
    };
    let mut r = remark(level, "unknown-name", a, env, say);
    r.instead = near.filter(|n| n.sure).map(|n| n.name);
    out.push(r);
}

fn known_name(v: &Variable, a: &Assignment, env: &Environment, releases: Releases, out: &mut Vec<Remark>) {
    if let Some(r) = not_read(v, a, env, releases) {
        out.push(r);
        return;
    }
    let Some(value) = a.value.as_deref().filter(|v| !v.is_empty()) else { return };
    if let Some((level, kind, say, instead)) = value_fault(v, value) {
        let mut r = remark(level, kind, a, env, say);
        r.instead = instead;
        out.push(r);
        if level == Level::Wrong {
            return;
        }
    }
    if v.sort == "removed" && v.until.is_empty() {
        out.push(remark(Level::Note, "not-read", a, env, format!("{} {}", v.does, v.folklore).trim().into()));
    } else if ["workaround", "test"].contains(&v.sort.as_str()) && !is_default(v, value) {
        let sort = if v.sort == "test" { "for tests and tuning" } else { "a workaround" };
        let what = [v.does.as_str(), v.risk.as_str(), v.folklore.as_str()];
        let what: Vec<&str> = what.into_iter().filter(|t| !t.is_empty()).collect();
        out.push(remark(Level::Note, "price", a, env, format!("Set, and {sort}: {}", what.join(" "))));
    }
}

/// A variable that the release does not read, or no release of today.
fn not_read(v: &Variable, a: &Assignment, env: &Environment, releases: Releases) -> Option<Remark> {
    let (since, until) = (Release::parse(&v.since), Release::parse(&v.until));
    let program = if v.reader == "torch" { "PyTorch" } else { "NCCL" };
    let until =
        until.map(|u| if v.until.matches('.').count() == 1 { Release(u.0, u.1, u32::MAX) } else { u });
    let Some(release) = releases.of(&v.reader) else {
        until?;
        let say = format!("{program} reads {} up to {} only; newer releases ignore it.", v.name, v.until);
        return Some(remark(Level::Note, "not-read", a, env, format!("{say} {}", v.risk).trim().into()));
    };
    if let Some(since) = since
        && release < since
    {
        let say = format!("{program} {release} does not read {} yet; it came with {}.", v.name, v.since);
        return Some(remark(Level::Wrong, "not-read", a, env, say));
    }
    if let Some(until) = until
        && release > until
    {
        let say =
            format!("{program} {release} no longer reads {}; {} was the last that did.", v.name, v.until);
        return Some(remark(Level::Wrong, "not-read", a, env, format!("{say} {}", v.risk).trim().into()));
    }
    None
}

/// Level, kind, sentence and what to write instead, where a value is no good one.
pub(crate) type ValueFault = (Level, &'static str, String, Option<String>);

/// What is wrong with a value; `None` where it is accepted, or good values are not known.
#[must_use]
pub fn value_fault(v: &Variable, value: &str) -> Option<ValueFault> {
    let good = Regex::new(&v.valid).ok().filter(|_| !v.valid.is_empty())?;
    let name = &v.name;
    let with = |text: &str| Some(format!("{name}={text}"));
    if !v.is_number() {
        let fine = good.is_match(value.trim()) || value.is_empty() || is_default(v, value);
        let say = format!("{name} does not accept \"{value}\"; it takes: {}.", v.values);
        return (!fine).then_some((Level::Wrong, "outside", say, None));
    }
    let n = number::read(value);
    if n.overflow {
        let say = format!("{name}={value} does not fit 64 bits; the default is taken instead.");
        return Some((Level::Wrong, "unreadable", say, None));
    }
    if !n.digits {
        let (level, instead) = match number::yes_or_no(value) {
            // It is read as what was meant, by luck.
            Some(0) => (Level::Note, with("0")),
            Some(_) => (Level::Wrong, with("1")),
            None => (Level::Wrong, None),
        };
        return Some((
            level,
            "unreadable",
            format!("{name}={value} is read as 0: it takes a number."),
            instead,
        ));
    }
    let rest = n.rest.trim();
    if !rest.is_empty() && !rest.starts_with([';', '#']) {
        let instead = number::with_unit(&n).map(|b| b.to_string());
        let say = format!("{name}={value} is read as {}: what follows the last digit is ignored.", n.value);
        return Some((Level::Wrong, "unreadable", say, instead.as_deref().and_then(with)));
    }
    if n.octal {
        let say = format!("{name}={value} is read as octal, that is {}.", n.value);
        return Some((Level::Wrong, "unreadable", say, with(value.trim().trim_start_matches('0'))));
    }
    let plain = n.value.to_string();
    if good.is_match(value.trim()) || good.is_match(&plain) || is_default(v, &plain) {
        return None;
    }
    let say = format!("{name}={value} is outside of what it accepts: {}.", v.values);
    Some((Level::Wrong, "outside", say, None))
}

/// Whether a value is the variable's default, so that setting it changes nothing.
fn is_default(v: &Variable, value: &str) -> bool {
    let default = v.default.split([' ', '(', ':', ',']).next().unwrap_or("");
    !default.is_empty() && default.eq_ignore_ascii_case(value.trim())
}

/// Combinations of settings that the table names.
#[must_use]
pub fn combinations(known: &Knowledge, env: &Environment, releases: Releases) -> Vec<Remark> {
    known.tables.settings.iter().filter_map(|s| combination(s, env, releases)).collect()
}

fn combination(s: &Setting, env: &Environment, releases: Releases) -> Option<Remark> {
    for (range, release) in [(&s.nccl, releases.nccl), (&s.torch, releases.torch)] {
        if let Some(range) = range.as_deref().and_then(ReleaseRange::parse)
            && !release.is_some_and(|r| range.contains(r))
        {
            return None;
        }
    }
    let holds = |(name, pattern): (&String, &String)| {
        env.value(name).is_some_and(|v| Regex::new(pattern).is_ok_and(|re| re.is_match(v)))
    };
    let number = |name: &String| env.value(name).map(number::read).filter(|n| n.digits).map(|n| n.value);
    let two = |names: &[String]| Some((number(names.first()?)?, number(names.get(1)?)?));
    let any = s.any.iter().find(|n| env.get(n).is_some());
    let all = s.when.iter().all(holds)
        && s.unset.iter().all(|n| env.get(n).is_none())
        && (s.any.is_empty() || any.is_some())
        && (s.less.is_empty() || two(&s.less).is_some_and(|(a, b)| a < b))
        && (s.not_less.is_empty() || two(&s.not_less).is_some_and(|(a, b)| a >= b))
        && (s.product.is_empty() || two(&s.product).is_some_and(|(a, b)| a.saturating_mul(b) > s.above));
    if !all {
        return None;
    }
    let first = s.about.as_ref().or(s.less.first()).or(s.not_less.first()).or(s.product.first());
    let a = env.get(first.or(s.when.keys().next())?)?;
    let say = s.say.replace("{any}", any.map_or("", String::as_str));
    let mut r = remark(s.level, &s.kind, a, env, say.split_whitespace().collect::<Vec<_>>().join(" "));
    r.instead.clone_from(&s.instead);
    Some(r)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(list: &[(&str, &str)]) -> Environment {
        let variables = list
            .iter()
            .map(|(n, v)| Assignment { name: (*n).into(), value: Some((*v).into()), line: 0 })
            .collect();
        Environment { source: "test".into(), variables, ..Environment::default() }
    }

    fn said(list: &[(&str, &str)], nccl: Option<&str>) -> Vec<(Level, String, Option<String>)> {
        let (known, _) = Knowledge::built_in();
        let releases = Releases { nccl: nccl.and_then(Release::parse), torch: None };
        check(&known, &env(list), releases).into_iter().map(|r| (r.level, r.kind, r.instead)).collect()
    }

    #[test]
    fn words_for_numbers_are_read_as_zero() {
        assert_eq!(
            said(&[("NCCL_IB_DISABLE", "true")], None),
            [(Level::Wrong, "unreadable".into(), Some("NCCL_IB_DISABLE=1".into()))]
        );
        assert_eq!(
            said(&[("NCCL_BUFFSIZE", "8M")], None)[0],
            (Level::Wrong, "unreadable".into(), Some("NCCL_BUFFSIZE=8388608".into()))
        );
        assert_eq!(said(&[("NCCL_IB_TC", "0106")], None)[0].1, "unreadable");
        assert_eq!(said(&[("NCCL_IB_RETRY_CNT", "9")], None)[0].1, "outside");
        // "false" is 0 by luck: it does what was meant.
        assert_eq!(said(&[("NCCL_IB_DISABLE", "false")], None)[0].0, Level::Note);
    }

    #[test]
    fn a_release_decides_what_is_read() {
        assert_eq!(said(&[("NCCL_TREE_THRESHOLD", "0")], Some("2.21.5"))[0].0, Level::Wrong);
        assert!(said(&[("NCCL_TREE_THRESHOLD", "0")], Some("2.4.6")).is_empty());
        // Without a release it may be read: a note.
        assert_eq!(said(&[("NCCL_TREE_THRESHOLD", "0")], None)[0].0, Level::Note);
        assert_eq!(said(&[("NCCL_RAS_ENABLE", "0")], Some("2.18.5"))[0].1, "not-read");
    }

    /// Settings as clouds, clusters and frameworks recommend them.
    #[test]
    fn ordinary_settings_are_no_fault() {
        let sets: [&[(&str, &str)]; 7] = [
            &[
                ("NCCL_DEBUG", "INFO"),
                ("NCCL_DEBUG_SUBSYS", "INIT,ENV,NET"),
                ("NCCL_SOCKET_IFNAME", "=eth0"),
                ("NCCL_IB_HCA", "mlx5_0:1,mlx5_2:1"),
                ("NCCL_IB_GID_INDEX", "3"),
                ("NCCL_IB_TC", "106"),
                ("NCCL_IB_TIMEOUT", "22"),
                ("NCCL_IB_RETRY_CNT", "7"),
                ("NCCL_IB_QPS_PER_CONNECTION", "4"),
            ],
            &[
                ("FI_PROVIDER", "efa"),
                ("FI_EFA_USE_DEVICE_RDMA", "1"),
                ("NCCL_PROTO", "simple"),
                ("NCCL_ALGO", "Ring,Tree"),
                ("NCCL_SOCKET_IFNAME", "^docker,lo,veth"),
                ("NCCL_TUNER_PLUGIN", "libnccl-ofi-tuner.so"),
            ],
            &[
                ("NCCL_FASTRAK_CTRL_DEV", "eth0"),
                ("NCCL_FASTRAK_IFNAME", "eth1,eth2,eth3,eth4"),
                ("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "eth1"),
                ("NCCL_CROSS_NIC", "0"),
                ("NCCL_NET_GDR_LEVEL", "PIX"),
                ("NCCL_P2P_PXN_LEVEL", "0"),
                ("NCCL_DYNAMIC_CHUNK_SIZE", "524288"),
                ("NCCL_MIN_NCHANNELS", "8"),
                ("NCCL_MAX_NCHANNELS", "12"),
            ],
            &[
                ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
                ("TORCH_NCCL_AVOID_RECORD_STREAMS", "true"),
                ("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000"),
                ("TORCH_NCCL_DUMP_ON_TIMEOUT", "1"),
                ("CUDA_DEVICE_MAX_CONNECTIONS", "1"),
                ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
                ("NCCL_CUMEM_ENABLE", "0"),
                ("NCCL_NVLS_ENABLE", "0"),
            ],
            &[
                ("NCCL_VERSION", "2.21.5-1"),
                ("NCCL_HOME", "/usr/local/nccl"),
                ("NCCL_ROOT", "/usr/local/nccl"),
                ("NCCL_TESTS_VERSION", "2.13"),
                ("NCCL_TOPO_FILE", "/opt/vendor/topo.xml"),
                ("NCCL_IB_PCI_RELAXED_ORDERING", "1"),
                ("UCX_NET_DEVICES", "mlx5_0:1"),
                ("OMPI_MCA_btl", "^openib"),
            ],
            &[
                ("NCCL_ALGO", "allreduce:tree,collnetdirect;broadcast:ring"),
                ("NCCL_PROTO", "^LL128"),
                ("NCCL_DEBUG_FILE", "/scratch/nccl.%h.%p.log"),
                ("NCCL_DEBUG", "warn"),
                ("NCCL_NET", "AWS Libfabric"),
                ("NCCL_MNNVL_ENABLE", "2"),
                ("NCCL_CUMEM_HOST_ENABLE", "-1"),
            ],
            &[
                ("RANK", "3"),
                ("WORLD_SIZE", "8"),
                ("LOCAL_RANK", "3"),
                ("LOCAL_WORLD_SIZE", "8"),
                ("MASTER_ADDR", "localhost"),
                ("MASTER_PORT", "29500"),
                ("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7"),
                ("GLOO_SOCKET_IFNAME", "eth0"),
                ("OMP_NUM_THREADS", "8"),
                ("NCCL_SOCKET_NTHREADS", "4"),
                ("NCCL_NSOCKS_PERTHREAD", "4"),
            ],
        ];
        for set in sets {
            let bad: Vec<_> = said(set, None).into_iter().filter(|r| r.0 != Level::Note).collect();
            assert!(bad.is_empty(), "{set:?}: {bad:?}");
        }
    }

    /// Every row of the table fires on values made for it, and never on an empty environment.
    #[test]
    fn combinations_fire_only_when_all_of_them_holds() {
        let (known, _) = Knowledge::built_in();
        let releases = Releases { nccl: Release::parse("2.27.3"), torch: Release::parse("2.6.0") };
        for s in &known.tables.settings {
            let made: Vec<(&str, &str)> = s.fires.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            let releases = Releases {
                nccl: s
                    .nccl
                    .as_deref()
                    .and_then(ReleaseRange::parse)
                    .map_or(releases.nccl, |r| r.from.or(r.to)),
                torch: s
                    .torch
                    .as_deref()
                    .and_then(ReleaseRange::parse)
                    .map_or(releases.torch, |r| r.from.or(r.to)),
            };
            assert!(combination(s, &env(&made), releases).is_some(), "{}: {made:?} does not fire", s.say);
            for gone in 0..made.len() {
                let mut fewer = made.clone();
                fewer.remove(gone);
                assert!(combination(s, &env(&fewer), releases).is_none(), "{}: {fewer:?} fires", s.say);
            }
            let calm: Vec<(&str, &str)> = s.calm.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            assert!(!calm.is_empty(), "{}: no near-miss", s.say);
            assert!(combination(s, &env(&calm), releases).is_none(), "{}: {calm:?} fires", s.say);
        }
    }
}
