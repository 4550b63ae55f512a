//! Several environments of one job: where ranks must agree and do not.

use super::{Environment, Level, Remark, number};
use crate::knowledge::{Knowledge, Variable};
use std::collections::BTreeMap;

/// Variables in which the environments differ although all ranks must have the same value. One that is set in some
/// and missing in others differs too, unless it is set to its default.
#[must_use]
pub fn compare(known: &Knowledge, all: &[Environment]) -> Vec<Remark> {
    // Who sets nothing of NCCL, PyTorch or the launcher is no rank: a sidecar, a file of something else.
    let ranks: Vec<&Environment> =
        all.iter().filter(|e| e.variables.iter().any(|a| of_a_rank(known, &a.name))).collect();
    if ranks.len() < 2 {
        return Vec::new();
    }
    known.tables.variables.iter().filter(|v| v.same).filter_map(|v| differs(v, &ranks)).collect()
}

fn of_a_rank(known: &Knowledge, name: &str) -> bool {
    known
        .tables
        .variables
        .iter()
        .any(|v| v.name == name && ["nccl", "torch", "rccl", "launcher"].contains(&v.reader.as_str()))
}

fn differs(v: &Variable, ranks: &[&Environment]) -> Option<Remark> {
    let mut by_value: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut first = None;
    for env in ranks {
        let value = match env.get(&v.name) {
            // What the shell will put there cannot be compared.
            Some(a) if a.value.is_none() => return None,
            Some(a) => {
                first = first.or(Some((env, a)));
                meaning(v, a.value.as_deref().unwrap_or(""))
            }
            None => String::new(),
        };
        by_value.entry(value).or_default().push(env.label());
    }
    let (env, a) = first?;
    if by_value.len() < 2 {
        return None;
    }
    let told: Vec<String> = by_value
        .iter()
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

/// A value in a form in which equal meanings are equal texts; empty for what is as good as not set.
fn meaning(v: &Variable, value: &str) -> String {
    let value = value.trim();
    if v.is_number() {
        let n = number::read(value);
        if n.digits || number::yes_or_no(value).is_some() {
            let text = n.value.to_string();
            let default = v.default.split([' ', '(', ':', ',']).next().unwrap_or("");
            return if default == text { String::new() } else { text };
        }
    }
    let default = v.default.split([' ', '(']).next().unwrap_or("");
    if value.eq_ignore_ascii_case(default) { String::new() } else { value.to_string() }
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
}
