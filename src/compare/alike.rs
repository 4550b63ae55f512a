//! Values without what differs in every run: addresses, ports, ids, times,
//! numbers in paths, and the names of the job's own hosts. Small numbers stay:
//! in a setting they are what matters.

use regex::{Captures, Regex};
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// A value as it is compared.
pub(super) fn alike(value: &str, hosts: &BTreeSet<String>) -> String {
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
    for host in hosts {
        out = host_out(&out, host);
    }
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

/// A host's name, or its first part, where it stands as a word of its own.
fn host_out(text: &str, host: &str) -> String {
    let short = host.split('.').next().unwrap_or(host);
    if short.len() < 2 {
        return text.to_string();
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(short) {
        let end = if rest[at..].starts_with(host) { at + host.len() } else { at + short.len() };
        let part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let alone = !rest[..at].ends_with(part) && !rest[end..].starts_with(part);
        out.push_str(&rest[..at]);
        out.push_str(if alone { "<host>" } else { &rest[at..end] });
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::alike;

    #[test]
    fn what_differs_in_every_run_is_no_difference() {
        let one = ["node07".to_string(), "node12.example.org".to_string()].into();
        let two = ["node31".to_string()].into();
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
        let none = [].into();
        for (a, b) in [
            ("22", "18"),
            ("mlx5_0,mlx5_1", "mlx5_0"),
            ("eth0", "eth1"),
            ("ib0:1/IB", "ib0:1/RoCE"),
            ("4194304", "8388608"),
        ] {
            assert_ne!(alike(a, &none), alike(b, &none));
        }
        assert_eq!(alike("eth0 of node1", &["eth".to_string()].into()), "eth0 of node1");
    }
}
