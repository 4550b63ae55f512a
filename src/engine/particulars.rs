//! What is one machine's or one run's own in an input: hosts, processes,
//! addresses, paths and long numbers. Two tests that share none of them cannot
//! both pass because of one of them.

use crate::knowledge::RuleTest;
use memchr::memmem;
use std::collections::BTreeSet;

/// Numbers that programs have by default: ports, time limits, sizes of buffers, ids of Docker's bridge.
const DEFAULTS: &[&str] = &["29500", "65535", "65536", "600000", "1800000", "4194304", "524288", "10485760"];

/// Beginnings of paths that are the same on all machines.
const COMMON: &[&str] =
    &["/dev", "/proc", "/sys", "/usr", "/lib", "/lib64", "/opt", "/etc", "/var", "/run", "/bin", "/sbin"];

/// Addresses that are the same on all machines: loopback, link-local, Docker's bridge.
const ANYWHERE: &[&str] = &["127.", "0.0.0.0", "169.254.", "172.17.", "255."];

/// The particulars of a test's input, without those that the rule itself names (`named`: the text of its conditions).
pub(super) fn particulars(test: &RuleTest, named: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for text in test.input.values() {
        for line in text.lines() {
            speaker(line, &mut out);
            for token in line.split(|c: char| !(c.is_ascii_alphanumeric() || "./_-".contains(c))) {
                let token = token.trim_matches(|c| "._-".contains(c));
                if own(token) {
                    out.insert(token.to_string());
                }
            }
        }
    }
    out.retain(|token| memmem::find(named.as_bytes(), token.as_bytes()).is_none());
    out
}

/// Host and process before an NCCL header (`host:pid:tid [`).
fn speaker(line: &str, out: &mut BTreeSet<String>) {
    let Some(head) = line.split(" [").next() else { return };
    let word = head.rsplit([' ', '\t']).next().unwrap_or(head);
    let mut parts = word.split(':');
    if let (Some(host), Some(pid), Some(tid), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        && !host.is_empty()
        && [pid, tid].iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    {
        out.insert(host.to_string());
        out.insert(pid.to_string());
    }
}

/// Whether a token can only be one machine's or one run's.
fn own(token: &str) -> bool {
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    if let Some(at) = token.find('/') {
        let path = &token[at..];
        return at == 0 && path[1..].contains('/') && !COMMON.iter().any(|c| path.starts_with(c));
    }
    let dotted: Vec<&str> = token.split('.').collect();
    if dotted.len() == 4 && dotted.iter().all(|p| digits(p)) {
        return !ANYWHERE.iter().any(|a| token.starts_with(a));
    }
    let hex =
        token.strip_prefix("0x").is_some_and(|h| h.len() > 5 && h.bytes().all(|b| b.is_ascii_hexdigit()));
    hex || digits(token) && token.len() > 4 && !DEFAULTS.contains(&token)
}

/// How many of the sets have nothing in common with those counted before them.
pub(super) fn apart(sets: &[BTreeSet<String>]) -> usize {
    let mut best = 0;
    // The first set decides who can be counted with it: each may be first.
    for first in 0..sets.len() {
        let mut taken: Vec<&BTreeSet<String>> = vec![&sets[first]];
        for set in sets.iter().enumerate().filter(|(n, _)| *n != first).map(|(_, s)| s) {
            if taken.iter().all(|t| t.is_disjoint(set)) {
                taken.push(set);
            }
        }
        best = best.max(taken.len());
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn of(text: &str) -> BTreeSet<String> {
        let input = BTreeMap::from([("a.log".to_string(), text.to_string())]);
        particulars(&RuleTest { name: String::new(), expect: Default::default(), input }, "where = 77777")
    }

    #[test]
    fn hosts_processes_addresses_paths_and_long_numbers_are_particular() {
        let found = of(
            "gx4:8123:8177 [0] net.cc:12 NCCL WARN peer 10.3.0.9<41999> closed, see /data/run7/log, 0x7f33aa",
        );
        let want = ["/data/run7/log", "0x7f33aa", "10.3.0.9", "41999", "8123", "gx4"];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), want);
    }

    #[test]
    fn what_programs_and_rules_say_everywhere_is_not() {
        assert!(
            of("connect to 127.0.0.1:29500 failed, /dev/shm is full, errno 110, status 77777").is_empty()
        );
    }

    #[test]
    fn sets_that_share_a_word_count_once() {
        let set = |words: &[&str]| words.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        assert_eq!(apart(&[set(&["a", "b"]), set(&["b"]), set(&["c"])]), 2);
        assert_eq!(apart(&[]), 0);
        assert_eq!(apart(&[set(&[]), set(&[])]), 2);
    }
}
