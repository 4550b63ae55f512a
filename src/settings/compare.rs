//! Several environments of one job: where ranks must agree and do not.

use super::{Environment, Level, Remark, Role, meaning};
use crate::knowledge::{Knowledge, Variable};
use std::collections::{BTreeMap, BTreeSet};

/// Variables in which the environments differ although all ranks must have the same value. One that is set in some
/// and missing in others differs too, unless it is set to its default or the others may get it from elsewhere.
#[must_use]
pub fn compare(known: &Knowledge, all: &[Environment]) -> Vec<Remark> {
    // Who sets nothing of NCCL, PyTorch or the launcher is no rank: a sidecar, a file of something else.
    let ranks: Vec<&Environment> = all
        .iter()
        .filter(|e| e.role != Role::Other && e.variables.iter().any(|a| of_a_rank(known, &a.name)))
        .collect();
    let groups = groups(&ranks);
    let same = known.tables.variables.iter().filter(|v| v.same);
    same.flat_map(|v| groups.iter().filter_map(move |g| differs(v, g))).collect()
}

/// Those that may be ranks of one job. Containers of one pod do different work, so with several of them in any pod
/// only those that have the same name in different pods are held against each other.
fn groups<'e>(ranks: &[&'e Environment]) -> Vec<Vec<&'e Environment>> {
    let mut several = BTreeSet::new();
    for e in ranks {
        if let Role::Container { job, alone: false, .. } = &e.role {
            several.insert(*job);
        }
    }
    let mut out: BTreeMap<(Option<usize>, &str), Vec<&Environment>> = BTreeMap::new();
    for e in ranks {
        let key = match &e.role {
            Role::Container { job, name, .. } if several.contains(job) => (Some(*job), name.as_str()),
            Role::Container { job, .. } => (Some(*job), ""),
            _ => (None, ""),
        };
        out.entry(key).or_default().push(e);
    }
    out.into_values().filter(|g| g.len() > 1).collect()
}

fn of_a_rank(known: &Knowledge, name: &str) -> bool {
    known
        .tables
        .variables
        .iter()
        .any(|v| v.name == name && ["nccl", "torch", "rccl", "launcher"].contains(&v.reader.as_str()))
}

fn differs(v: &Variable, ranks: &[&Environment]) -> Option<Remark> {
    // By meaning: a value as it stands, and who has it.
    let mut by_meaning: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    let mut first = None;
    for env in ranks {
        let (means, value) = match env.get(&v.name) {
            // What the shell will put there cannot be compared.
            Some(a) if a.value.is_none() => return None,
            Some(a) => {
                first = first.or(Some((env, a)));
                let value = a.value.clone().unwrap_or_default();
                (meaning(v, &value), value)
            }
            None if env.open => continue,
            None => (String::new(), String::new()),
        };
        let held = by_meaning.entry(means).or_insert_with(|| (value, Vec::new()));
        held.1.push(env.label());
    }
    let (env, a) = first?;
    if by_meaning.len() < 2 {
        return None;
    }
    let told: Vec<String> = by_meaning
        .values()
        .map(|(value, who)| {
            let more = if who.len() > 3 { format!(" and {} more", who.len() - 3) } else { String::new() };
            let what = if value.is_empty() { "not set".into() } else { format!("{}={value}", v.name) };
            format!("{what} in {}{more}", who.iter().take(3).cloned().collect::<Vec<_>>().join(", "))
        })
        .collect();
    Some(Remark {
        level: Level::Wrong,
        kind: "differs".into(),
        name: v.name.clone(),
        value: a.value.clone(),
        source: env.source.clone(),
        line: a.line,
        say: format!("All ranks must have the same {}: {}.", v.name, told.join("; ")),
        instead: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Assignment;

    fn env(source: &str, list: &[(&str, &str)]) -> Environment {
        let variables = list
            .iter()
            .map(|(n, v)| Assignment { name: (*n).into(), value: Some((*v).into()), line: 1 })
            .collect();
        Environment { source: source.into(), variables, ..Environment::default() }
    }

    fn names(all: &[Environment]) -> Vec<String> {
        let (known, _) = Knowledge::built_in();
        compare(&known, all).into_iter().map(|r| r.name).collect()
    }

    #[test]
    fn what_must_agree() {
        let a = env("a", &[("NCCL_PROTO", "Simple"), ("NCCL_SOCKET_IFNAME", "eth0"), ("RANK", "0")]);
        let b = env("b", &[("NCCL_PROTO", "LL"), ("NCCL_SOCKET_IFNAME", "ens3"), ("RANK", "1")]);
        assert_eq!(names(&[a.clone(), b]), ["NCCL_PROTO"]);
        let missing = env("c", &[("NCCL_DEBUG", "INFO")]);
        assert_eq!(names(&[a.clone(), missing]), ["NCCL_PROTO"]);
        assert!(names(&[a]).is_empty());
    }

    #[test]
    fn equal_meanings_and_defaults_agree() {
        let a = env("a", &[("NCCL_BUFFSIZE", "0x800000"), ("NCCL_P2P_DISABLE", "0")]);
        let b = env("b", &[("NCCL_BUFFSIZE", "8388608")]);
        assert!(names(&[a, b]).is_empty());
        let sidecar = env("s", &[("LD_LIBRARY_PATH", "/x")]);
        let a = env("a", &[("NCCL_ALGO", "Ring")]);
        assert!(names(&[a, sidecar]).is_empty());
    }

    #[test]
    fn sidecars_and_other_jobs_are_no_ranks() {
        let with = |job, pod, name: &str, alone, algo: &str| Environment {
            role: Role::Container { job, pod, name: name.into(), alone },
            ..env("p", &[("NCCL_ALGO", algo)])
        };
        let (a, b) = (with(1, 1, "t", true, "Ring"), with(1, 2, "u", true, "Tree"));
        assert_eq!(names(&[a.clone(), b.clone()]), ["NCCL_ALGO"]);
        assert!(names(&[a.clone(), with(2, 2, "t", true, "Tree")]).is_empty());
        let sidecar = with(1, 1, "s", false, "Tree");
        let main = with(1, 1, "t", false, "Ring");
        assert!(names(&[main.clone(), sidecar]).is_empty());
        assert_eq!(names(&[main.clone(), with(1, 2, "t", false, "Tree")]), ["NCCL_ALGO"]);
        let map = Environment { role: Role::Other, ..b };
        assert!(names(&[a.clone(), map]).is_empty());
        let open = Environment { open: true, ..env("o", &[("NCCL_DEBUG", "INFO")]) };
        let a = env("a", &[("NCCL_ALGO", "Ring")]);
        assert!(names(&[a.clone(), open]).is_empty());
        assert!(names(&[a, env("b", &[("NCCL_ALGO", "ring")])]).is_empty());
    }
}
