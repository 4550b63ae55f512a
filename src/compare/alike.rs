//! Values without what differs in every run: addresses, ports, ids, times,
//! numbers in paths, and the names of the job's own hosts. Small numbers stay:
//! in a setting they are what matters.

use regex::{Captures, Regex};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// Names of a job's hosts, by their first part.
#[derive(Debug, Default)]
pub(super) struct Hosts(BTreeMap<String, Vec<String>>);

impl Hosts {
    pub(super) fn new(names: &BTreeSet<String>) -> Self {
        let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in names {
            let short = name.split('.').next().unwrap_or(name);
            if short.len() > 1 {
                out.entry(short.to_string()).or_default().push(name.clone());
            }
        }
        Self(out)
    }

    /// A text without the names, or their first parts, where they stand as words of their own.
    fn out(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_string();
        }
        let part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(part) {
            out.push_str(&rest[..start]);
            rest = &rest[start..];
            let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
            let found = self.0.get(&rest[..end]).map(|names| {
                let whole = |n: &&String| rest.starts_with(n.as_str()) && !rest[n.len()..].starts_with(part);
                names.iter().filter(whole).map(String::len).max().unwrap_or(end)
            });
            out.push_str(if found.is_some() { "<host>" } else { &rest[..end] });
            rest = &rest[found.unwrap_or(end)..];
        }
        out.push_str(rest);
        out
    }
}

/// A value as it is compared.
pub(super) fn alike(value: &str, hosts: &Hosts) -> String {
    static PATTERNS: OnceLock<Vec<(Regex, &'static str)>> = OnceLock::new();
    let patterns = PATTERNS.get_or_init(|| {
        [
            // Times and dates.
            (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?Z?)?\b", "<time>"),
            (r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
            // Addresses, with a port or NCCL's `<port>`.
            (r"\b\d{1,3}(?:\.\d{1,3}){3}(?:<\d+>|:\d{1,5}\b)?", "<addr>"),
            (r"\[?\b[0-9a-fA-F]{1,4}(?:::?[0-9a-fA-F]{1,4}){3,7}(?:%\w+)?\]?(?:<\d+>|:\d{1,5}\b)?", "<addr>"),
            (r"\bfe80::[0-9a-fA-F:]*(?:%\w+)?(?:<\d+>)?", "<addr>"),
            // Identifiers.
            (r"\b0[xX][0-9a-fA-F]+\b", "<id>"),
            (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "<id>"),
        ]
        .iter()
        .filter_map(|(p, r)| Regex::new(p).ok().map(|p| (p, *r)))
        .collect()
    });
    let mut out = value.trim().to_string();
    for (pattern, with) in patterns {
        out = pattern.replace_all(&out, *with).into_owned();
    }
    if out.contains('/') {
        out = paths(&out);
    }
    out = hosts.out(&out);
    if out.starts_with("[0]") {
        out = listed(&out);
    }
    out
}

/// `[0]mlx5_1:1/IB [1]mlx5_0:1/IB`: which number a device has differs from host to host.
fn listed(text: &str) -> String {
    let name = |w: &str| match w.split_once(']') {
        Some((n, name)) if n.starts_with('[') && n[1..].bytes().all(|b| b.is_ascii_digit()) => {
            name.to_string()
        }
        _ => w.to_string(),
    };
    let mut words: Vec<String> = text.split_whitespace().map(name).collect();
    words.sort();
    words.join(" ")
}

/// Numbers of three figures and more in words that are paths: job ids, process ids, dates.
fn paths(text: &str) -> String {
    static NUMBERS: OnceLock<Option<Regex>> = OnceLock::new();
    let Some(numbers) = NUMBERS.get_or_init(|| Regex::new(r"\d{3,}").ok()) else { return text.to_string() };
    let word = |w: &str| {
        if w.contains('/') {
            numbers.replace_all(w, |_: &Captures<'_>| "<n>").into_owned()
        } else {
            w.to_string()
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{Hosts, alike};

    #[test]
    fn what_differs_in_every_run_is_no_difference() {
        let one = Hosts::new(&["node07".to_string(), "node12.example.org".to_string()].into());
        let two = Hosts::new(&["node31".to_string()].into());
        for (a, b) in [
            ("10.0.0.7:29500", "10.9.1.2:31000"),
            ("[0]eth0:10.4.0.18<0> [1]eth1:10.5.0.18<0>", "[0]eth0:10.4.0.77<0> [1]eth1:10.5.0.7<0>"),
            ("node07", "node31"),
            ("[0]mlx5_1:1/IB [1]mlx5_0:1/IB [RO]", "[0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]"),
            ("node12", "node31"),
            ("/scratch/job-4711/trace.log", "/scratch/job-98122/trace.log"),
            ("0x55aa01", "0x7f010203"),
            ("2026-02-03 10:11:12", "2026-02-04 09:00:00"),
            ("fe80::1%ib0<3>", "fe80::2:7<9>"),
        ] {
            assert_eq!(alike(a, &one), alike(b, &two), "{a} {b}");
        }
    }

    #[test]
    fn what_matters_stays() {
        let none = Hosts::default();
        for (a, b) in [
            ("22", "18"),
            ("mlx5_0,mlx5_1", "mlx5_0"),
            ("eth0", "eth1"),
            ("ib0:1/IB", "ib0:1/RoCE"),
            ("4194304", "8388608"),
        ] {
            assert_ne!(alike(a, &none), alike(b, &none));
        }
        let hosts = Hosts::new(&["eth".to_string(), "node2".into(), "node2.example.org".into()].into());
        assert_eq!(alike("eth0 of node1", &hosts), "eth0 of node1");
        assert_eq!(alike("node2.example.org:7 node2, node2x", &hosts), "<host>:7 <host>, node2x");
    }
}
