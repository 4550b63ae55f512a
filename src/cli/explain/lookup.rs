//! Finds what was asked for: by name, by a word and a number (`status 12`),
//! or by a bare number, which may mean several things.

use super::answer::Answer;
use crate::base::{Release, ReleaseRange, bytes_text, parse_bytes};
use crate::knowledge::{Bug, Code, Knowledge, Message, Rule, Tables, Variable};
use crate::memory::{Env, meanings};
use crate::report::Fix;

/// Everything that the words may mean; empty when nothing does.
pub(super) fn find(knowledge: &Knowledge, asked: &str) -> Vec<Answer> {
    let asked = asked.trim();
    if let Some((rule, _)) = knowledge.rules.iter().find(|(r, _)| r.id == asked) {
        return vec![cause(rule)];
    }
    if let Some((message, _)) = knowledge.messages.iter().find(|(m, _)| m.id == asked) {
        return vec![line_kind(message)];
    }
    let tables = &knowledge.tables;
    if let Some(found) = variable_named(tables, asked) {
        return vec![found];
    }
    if let Some(found) = release_named(tables, asked) {
        return vec![found];
    }
    if let Some(pair) = accounted(tables, asked) {
        return vec![pair];
    }
    if let Some(found) = size(tables, asked) {
        return vec![found];
    }
    let (words, number) = split(asked);
    match number {
        // A pasted line that happens to end with a number.
        Some(_) if words.split(' ').count() > 3 => Vec::new(),
        Some(n) if !words.is_empty() => by_word(tables, &words, n),
        Some(n) => by_number(tables, n),
        None => by_name(tables, asked).into_iter().collect(),
    }
}

/// `0:9` as sacct writes an exit: code and signal.
fn accounted(tables: &Tables, asked: &str) -> Option<Answer> {
    let (code, signal) = asked.strip_prefix("exit ").unwrap_or(asked).split_once(':')?;
    let (code, signal): (i64, i64) = (code.parse().ok()?, signal.parse().ok()?);
    match signal {
        0 => exit(tables, code),
        n => tables.signals.iter().find(|c| c.code == n).map(|c| coded("signal", c)),
    }
}

/// A size in bytes that NCCL asks for, bare, with a unit or with the word: `10485760`, `10 MiB`, `size 10485760`.
fn size(tables: &Tables, asked: &str) -> Option<Answer> {
    let text = asked.trim_start_matches("size").trim_start_matches([':', '=', ' ']);
    let bytes = parse_bytes(text).filter(|b| *b >= SMALLEST)?;
    let all = meanings(&tables.constants, bytes, None, &Env::new(), false);
    let first = all.first()?;
    let mut answer = Answer::new("size", &format!("{bytes} bytes ({})", bytes_text(bytes)), &first.what);
    for meaning in &all {
        answer = answer.fact("May be", &format!("{} ({})", meaning.what, meaning.place));
    }
    Some(answer.fact("See also", "ncclcheck memory LOG says which of them fits a job's release and channels"))
}

/// Smaller numbers are codes.
const SMALLEST: u64 = 64 << 10;

/// `exit code: -9` → (`exit`, -9); the number is the last word.
fn split(asked: &str) -> (String, Option<i64>) {
    let clean = asked.replace([':', '=', '#', '(', ')', ','], " ");
    let mut words: Vec<&str> = clean.split_whitespace().collect();
    let number = words.last().and_then(|w| w.parse().ok());
    if number.is_some() {
        words.pop();
    }
    (words.join(" ").to_lowercase(), number)
}

/// The tables that a word before a number stands for.
fn by_word(tables: &Tables, words: &str, n: i64) -> Vec<Answer> {
    let has = |list: &[&str]| words.split_whitespace().any(|w| list.contains(&w));
    if has(&["xid", "sxid"]) {
        return code("Xid", &tables.xid, n).into_iter().collect();
    }
    if has(&["signal", "sig"]) {
        return code("signal", &tables.signals, n).into_iter().collect();
    }
    if has(&["errno"]) {
        return code("errno", &tables.errno, n).into_iter().collect();
    }
    if has(&["cuda", "cudaerror", "cudafailure"]) {
        return code("CUDA error", &tables.cuda, n).into_iter().collect();
    }
    if has(&["exit", "exitcode", "exited", "code", "returncode"]) {
        return exit(tables, n).into_iter().collect();
    }
    if has(&["status", "wc", "completion", "vendor"]) {
        return code("RDMA completion status", &tables.wc, n).into_iter().collect();
    }
    if has(&["result", "nccl", "ncclresult", "ncclresult_t", "->"]) {
        return code("NCCL result", &tables.results, n).into_iter().collect();
    }
    if has(&["error", "err", "failure"]) {
        return by_number(tables, n);
    }
    Vec::new()
}

/// A bare number may stand for several things.
fn by_number(tables: &Tables, n: i64) -> Vec<Answer> {
    if n < 0 {
        return exit(tables, n).into_iter().collect();
    }
    let lists: [(&'static str, &[Code]); 5] = [
        ("NCCL result", &tables.results),
        ("RDMA completion status", &tables.wc),
        ("CUDA error", &tables.cuda),
        ("Xid", &tables.xid),
        ("errno", &tables.errno),
    ];
    let mut all: Vec<Answer> = exit(tables, n).into_iter().collect();
    all.extend(lists.iter().filter_map(|(kind, list)| code(kind, list, n)));
    all
}

/// `SIGKILL`, `KILL`, `ncclRemoteError`, `IBV_WC_RETRY_EXC_ERR`, `ETIMEDOUT`, `cudaErrorAssert`.
fn by_name(tables: &Tables, name: &str) -> Option<Answer> {
    let lists: [(&'static str, &[Code]); 5] = [
        ("NCCL result", &tables.results),
        ("RDMA completion status", &tables.wc),
        ("signal", &tables.signals),
        ("CUDA error", &tables.cuda),
        ("errno", &tables.errno),
    ];
    for (kind, list) in lists {
        if let Some(found) = list.iter().find(|c| is_called(c, name)) {
            return Some(coded(kind, found));
        }
    }
    None
}

fn is_called(code: &Code, name: &str) -> bool {
    names(code).any(|n| n.eq_ignore_ascii_case(name))
        || code.name.strip_prefix("SIG").is_some_and(|n| n.eq_ignore_ascii_case(name))
}

/// The names that a code has; notes in brackets are none.
pub(super) fn names(code: &Code) -> impl Iterator<Item = &str> {
    code.name.split(" / ").map(|n| n.split(" (").next().unwrap_or(n))
}

fn code(kind: &'static str, list: &[Code], n: i64) -> Option<Answer> {
    list.iter().find(|c| c.code == n).map(|c| coded(kind, c))
}

fn coded(kind: &'static str, code: &Code) -> Answer {
    let name = match kind {
        "NCCL result" | "RDMA completion status" | "CUDA error" | "errno" => {
            format!("{} = {}", code.name, code.code)
        }
        "signal" => format!("{}, signal {}", code.name, code.code),
        "Xid" => format!("Xid {}: {}", code.code, code.name),
        _ => format!("{kind} {}", code.name),
    };
    let cause = code.cause.as_deref().unwrap_or_default();
    Answer::new(kind, &name, &code.means).fact("Look for", &code.look).fact("Usual cause", cause)
}

/// An exit code, also one that is only 128 + a signal or minus a signal.
fn exit(tables: &Tables, n: i64) -> Option<Answer> {
    if let Some(found) = tables.exits.iter().find(|c| c.code == n) {
        let mut answer = coded("exit code", found);
        answer.name = if found.name == n.to_string() || found.name.starts_with(&n.to_string()) {
            format!("exit code {}", found.name)
        } else {
            format!("exit code {n}: {}", found.name)
        };
        return Some(answer);
    }
    let signal = if n < 0 { -n } else { n - 128 };
    let found = tables.signals.iter().find(|c| c.code == signal && !(0..=128).contains(&n))?;
    let mut answer = coded("exit code", found);
    answer.name = format!("exit code {n}: ended by {} (signal {signal})", found.name);
    Some(answer)
}

/// `nccl 2.19.3`: what is known to be wrong with a release.
fn release_named(tables: &Tables, asked: &str) -> Option<Answer> {
    let (who, number) = asked.rsplit_once([' ', '='])?;
    let who = who.to_lowercase();
    let who = who.split_whitespace().next()?;
    let (of, name) = match who {
        "nccl" | "rccl" => ("nccl", "NCCL"),
        "torch" | "pytorch" => ("torch", "PyTorch"),
        "driver" => ("driver", "driver"),
        _ => return None,
    };
    let release = Release::parse(number).filter(|_| number.starts_with(|c: char| c.is_ascii_digit()))?;
    let of_it = tables.bugs.iter().filter(|b| b.of == of && b.releases != "..");
    let bugs: Vec<&Bug> =
        of_it.filter(|b| ReleaseRange::parse(&b.releases).is_some_and(|r| r.contains(release))).collect();
    let title = match bugs.len() {
        0 => "no fault of this release is known here".to_string(),
        1 => "one known fault".to_string(),
        n => format!("{n} known faults; a release alone does not show that a job met one"),
    };
    let mut answer = Answer::new("release", &format!("{name} {release}"), &title);
    for b in bugs {
        let meanwhile =
            if b.workaround.is_empty() { String::new() } else { format!(" Meanwhile: {}", b.workaround) };
        let text =
            format!("{} Shows as: {} Fixed in {}.{meanwhile} ({})", b.fault, b.shows, b.fixed, b.source);
        answer.facts.push(super::answer::Fact { label: "Fault", text });
    }
    Some(answer)
}

/// `NAME` or `NAME=value`.
fn variable_named(tables: &Tables, asked: &str) -> Option<Answer> {
    let (name, value) = match asked.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (asked, None),
    };
    let found = tables.variables.iter().find(|v| v.name.eq_ignore_ascii_case(name))?;
    let mut answer = variable(found);
    if let Some(value) = value
        && let Some(verdict) = judge(found, value)
    {
        answer = answer.fact("Your value", &verdict);
    }
    Some(answer)
}

fn variable(v: &Variable) -> Answer {
    let read = match (v.since.as_str(), v.until.as_str()) {
        ("", "") => v.reader.clone(),
        (since, "") => format!("{}, since {since}", v.reader),
        ("", until) => format!("{}, up to {until}; no longer read", v.reader),
        (since, until) => format!("{}, {since} to {until}; no longer read", v.reader),
    };
    let sort = match v.sort.as_str() {
        "diagnosis" => "changes only what is printed or recorded",
        "workaround" => "a workaround: take it out when the fault behind it is repaired",
        "test" => "for tests and tuning; leave it alone in daily work",
        "removed" => "of the past, or never existed: setting it does nothing, or only its old name's work",
        _ => "",
    };
    Answer::new("environment variable", &v.name, &v.does)
        .fact("Values", &v.values)
        .fact("Default", &v.default)
        .fact("Read by", &read)
        .fact("Ranks", if v.same { "all must have the same value" } else { "" })
        .fact("Price", &v.risk)
        .fact("Kind", sort)
        .fact("Beware", &v.folklore)
}

/// What is to say about a value; nothing where good values are not known.
fn judge(v: &Variable, value: &str) -> Option<String> {
    if v.valid.is_empty() {
        return None;
    }
    Some(match crate::settings::value_fault(v, value) {
        None => format!("{value} is a value that it accepts"),
        Some((_, _, say, Some(instead))) => format!("{say} Instead: {instead}"),
        Some((_, _, say, None)) => say,
    })
}

/// A cause without a log: names in braces stay what they are.
fn cause(rule: &Rule) -> Answer {
    let mut answer = Answer::new("cause", &rule.id, &rule.title.replace('{', "<").replace('}', ">"));
    answer.text = one_line(&rule.explain);
    answer.fixes = rule.fixes.iter().map(fix).collect();
    answer
        .fact("Taken for", &one_line(&rule.mistaken))
        .fact("Leads to", &rule.explains.iter().flat_map(|e| e.what.clone()).collect::<Vec<_>>().join(", "))
        .fact("Read more", &rule.references.join(" "))
}

fn fix(from: &crate::knowledge::Fix) -> Fix {
    let only = match (&from.nccl, &from.torch) {
        (Some(r), _) => format!(" (NCCL {r} only)"),
        (None, Some(r)) => format!(" (torch {r} only)"),
        (None, None) => String::new(),
    };
    Fix {
        intent: match from.intent.as_str() {
            "workaround" => "workaround",
            "diagnostic" => "diagnostic",
            _ => "fix",
        },
        text: one_line(&from.general_text()) + &only,
        env: (!from.env.is_empty()).then(|| from.env.clone()),
        cost: one_line(&from.cost),
        verify: one_line(&from.verify),
    }
}

fn line_kind(message: &Message) -> Answer {
    let samples = message.forms.iter().flat_map(crate::knowledge::Form::samples).take(3);
    Answer::new("message", &message.id, &message.about)
        .fact("Role", &super::name_of(message.role))
        .fact("Suggests", message.cause.as_deref().unwrap_or_default())
        .fact("Looks like", &samples.collect::<Vec<_>>().join("  |  "))
}

/// A text of several lines as one.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{find, names};
    use crate::base::{Release, ReleaseRange};
    use crate::knowledge::Knowledge;

    #[test]
    fn tables_are_without_faults() {
        let (known, faults) = Knowledge::built_in();
        let of_tables: Vec<_> = faults.iter().filter(|f| f.file.starts_with("tables/")).collect();
        assert!(of_tables.is_empty(), "{of_tables:?}");
        for v in &known.tables.variables {
            assert!(regex::Regex::new(&v.valid).is_ok(), "{}: {}", v.name, v.valid);
            for release in [&v.since, &v.until].into_iter().filter(|r| !r.is_empty()) {
                assert!(Release::parse(release).is_some(), "{}: {release}", v.name);
            }
        }
        for bug in &known.tables.bugs {
            assert!(ReleaseRange::parse(&bug.releases).is_some(), "{}", bug.releases);
        }
    }

    #[test]
    fn whatever_has_a_name_is_found_by_it() {
        let (known, _) = Knowledge::built_in();
        let t = &known.tables;
        for code in [&t.results, &t.wc, &t.signals, &t.cuda, &t.errno].into_iter().flatten() {
            for name in names(code) {
                assert_eq!(find(&known, name).len(), 1, "{name}");
            }
        }
        for v in &t.variables {
            assert_eq!(find(&known, &v.name)[0].name, v.name);
        }
    }

    #[test]
    fn a_number_alone_may_mean_several_things() {
        let (known, _) = Knowledge::built_in();
        let kinds: Vec<&str> = find(&known, "2").iter().map(|a| a.kind).collect();
        assert_eq!(kinds, ["exit code", "NCCL result", "RDMA completion status", "CUDA error", "errno"]);
        assert!(find(&known, "123456").is_empty());
        for size in ["10485760", "10 MiB", "size 10485760", "10485760 bytes", "9637892"] {
            let found = find(&known, size);
            assert_eq!((found.len(), found[0].kind), (1, "size"), "{size}");
        }
        assert!(find(&known, "9637892")[0].title.contains("SHM"));
        assert!(find(&known, "some pasted line of words 12").is_empty());
    }
}
