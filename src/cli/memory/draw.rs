//! Accounts as text.

use super::Computed;
use crate::base::{RankSet, bytes_text};
use crate::memory::{Account, Effect, How, MIB, ProcessAccount, Span};
use crate::report::text::{BAD, BOLD, CODE, DIM, PLAIN, Page, visible};

const ALL: usize = usize::MAX;
/// Groups of equal ranks that are shown.
const GROUPS: usize = 12;

/// `1062`, `48-288`: MiB.
fn mib(span: Span) -> String {
    let one = |bytes: u64| {
        let text = format!("{:.1}", bytes as f64 / MIB as f64);
        if bytes > 0 && text == "0.0" { "<0.1".into() } else { text.trim_end_matches(".0").to_string() }
    };
    if span.least == span.most { one(span.most) } else { format!("{}-{}", one(span.least), one(span.most)) }
}

fn row(page: &mut Page, figure: &str, name: &str, spans: &[(anstyle::Style, String)]) {
    let first = match name {
        "" => format!("  {figure:>9} MiB  "),
        name => format!("  {figure:>9} MiB  {name:<32}  "),
    };
    page.flow(&first, "                   ", spans, ALL);
}

/// The model's answer.
pub(super) fn computed(c: &Computed, page: &mut Page) {
    let s = &c.shape;
    let nodes = s.nodes();
    let place = match nodes {
        1 => "one node".to_string(),
        n => format!("{n} nodes of {}", s.per_node),
    };
    let head = format!(
        "{} ranks on {place}, {} channels, NCCL {}, cuMem {}",
        s.nranks,
        s.channels,
        c.nccl,
        if c.cumem { "on" } else { "off" }
    );
    page.flow("", "", &[(BOLD, "Computed, for each rank:".into()), (PLAIN, visible(&head))], ALL);
    if !c.set.is_empty() {
        let set: Vec<String> = c.set.iter().map(|(k, v)| format!("{k}={v}")).collect();
        page.flow("", "", &[(DIM, "with".into()), (CODE, visible(&set.join(" ")))], ALL);
    }
    page.heading("GPU memory");
    for p in c.parts.iter().filter(|p| p.gpu.most > 0) {
        row(page, &mib(p.gpu), p.name, &[(DIM, format!("{}, {}", p.formula, p.when))]);
    }
    for p in c.parts.iter().filter(|p| p.gpu.most == 0 && p.host.most == 0) {
        row(page, "0", p.name, &[(DIM, p.formula.clone())]);
    }
    let times = match c.communicators {
        1 => String::new(),
        n => format!("for {n} communicators"),
    };
    row(page, &mib(c.total.gpu), "together", &[(DIM, times.clone())]);
    if c.total.host.most > 0 {
        page.heading("Host memory");
        for p in c.parts.iter().filter(|p| p.host.most > 0) {
            row(page, &mib(p.host), p.name, &[]);
        }
        row(page, &mib(c.total.host), "together", &[(DIM, times)]);
    }
    changes(&c.changes, page);
    page.blank();
    for note in &c.notes {
        page.flow("", "", &[(DIM, visible(note))], ALL);
    }
}

/// What could be changed.
fn changes(list: &[Effect], page: &mut Page) {
    if list.is_empty() {
        return;
    }
    page.heading("What a change frees on each rank, by the model");
    for e in list {
        let set: Vec<String> = e.set.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let name = if set.is_empty() { "one communicator less".to_string() } else { set.join(" ") };
        let mut spans = vec![(CODE, visible(&name)), (PLAIN, e.text.clone())];
        if e.host > 0 {
            spans.push((PLAIN, format!("Takes {} more host memory.", bytes_text(e.host as u64))));
        }
        spans.push((DIM, format!("Price: {}.", e.cost)));
        if !e.nccl.is_empty() {
            spans.push((DIM, format!("(NCCL {})", e.nccl)));
        }
        row(page, &signed(e), "", &spans);
    }
}

/// `288`, `48-288`, `-288` where it takes more.
fn signed(e: &Effect) -> String {
    let one = |bytes: i64| {
        let text = format!("{:.1}", bytes as f64 / MIB as f64);
        text.trim_end_matches(".0").to_string()
    };
    if e.frees_least == e.frees { one(e.frees) } else { format!("{}-{}", one(e.frees_least), one(e.frees)) }
}

/// The account of a job.
pub(super) fn account(a: &Account, page: &mut Page) {
    page.flow("", "", &[(BOLD, "Memory of NCCL by this log".into())], ALL);
    let groups = groups(&a.processes);
    for (ranks, p) in groups.iter().take(GROUPS) {
        process(ranks, p, page);
    }
    if groups.len() > GROUPS {
        let text = format!("… and {} more, all of them with --format json", groups.len() - GROUPS);
        page.blank();
        page.flow("", "", &[(DIM, text)], ALL);
    }
    list("Who differs", &a.differs, page);
    refused(a, page);
    allocators(a, page);
    elsewhere(a, page);
    changes(&a.changes, page);
    list("Notes", &a.notes, page);
}

fn list(title: &str, texts: &[String], page: &mut Page) {
    if texts.is_empty() {
        return;
    }
    page.heading(title);
    for text in texts {
        page.flow("  - ", "    ", &[(PLAIN, visible(text))], ALL);
    }
}

/// Ranks with the same account stand together.
fn groups(processes: &[ProcessAccount]) -> Vec<(Vec<&ProcessAccount>, &ProcessAccount)> {
    let mut out: Vec<(Vec<&ProcessAccount>, &ProcessAccount)> = Vec::new();
    for p in processes {
        let same = |o: &ProcessAccount| {
            (&o.items, &o.checks, &o.not_seen, o.communicators, o.destroyed, &o.nccl, o.rank.is_some())
                == (&p.items, &p.checks, &p.not_seen, p.communicators, p.destroyed, &p.nccl, p.rank.is_some())
        };
        match out.iter_mut().find(|(_, o)| same(o)) {
            Some((all, _)) => all.push(p),
            None => out.push((vec![p], p)),
        }
    }
    out
}

fn process(all: &[&ProcessAccount], p: &ProcessAccount, page: &mut Page) {
    let ranks: RankSet = all.iter().filter_map(|p| p.rank).collect();
    let who = match ranks.len() {
        0 if all.len() == 1 => p.name.clone(),
        0 => format!("{} processes without a rank", all.len()),
        1 => format!("rank {ranks}"),
        n => format!("ranks {ranks} ({n}, each of them)"),
    };
    let mut head = vec![(BOLD, visible(&who))];
    let nccl = p.nccl.as_ref().map_or("release unknown".into(), |r| format!("NCCL {r}"));
    let cumem = if p.cumem { "on" } else { "off" };
    let mut facts = format!("{nccl}, cuMem {cumem} (by {}), {} communicator(s)", p.cumem_by, p.communicators);
    if p.made < p.communicators {
        facts.push_str(&format!(", {} of them not to the end", p.communicators - p.made));
    }
    if p.destroyed > 0 {
        facts.push_str(&format!(", {} of them destroyed or aborted", p.destroyed));
    }
    head.push((PLAIN, visible(&facts)));
    page.blank();
    page.flow("", "", &head, ALL);
    for item in &p.items {
        let (bytes, place) = if item.gpu > 0 { (item.gpu, "GPU") } else { (item.host, "host") };
        let how = match item.how {
            How::Measured => "measured",
            How::Computed => "computed",
            How::Assumed => "assumed",
        };
        let spans = [(DIM, format!("({how})")), (PLAIN, item.detail.clone())];
        row(page, &mib(Span::of(bytes)), &format!("{place:<4}  {}", item.name), &spans);
    }
    if p.items.is_empty() {
        page.flow("  ", "  ", &[(PLAIN, "no figure can be given".into())], ALL);
    } else {
        let printed = format!("of it {} B printed by the log", p.printed);
        row(page, &mib(Span::of(p.gpu)), "GPU   together", &[(DIM, printed)]);
    }
    for check in &p.checks {
        page.flow("  check: ", "    ", &[(PLAIN, visible(check))], ALL);
    }
    for text in &p.not_seen {
        page.flow("  not seen: ", "    ", &[(DIM, visible(text))], ALL);
    }
}

fn refused(a: &Account, page: &mut Page) {
    if a.refused.is_empty() {
        return;
    }
    page.heading("What NCCL was refused");
    for r in a.refused.iter().take(GROUPS) {
        let who = r.rank.map_or_else(|| r.host.clone().unwrap_or_default(), |n| format!("rank {n}"));
        let means: Vec<String> = r.means.iter().map(|m| format!("{} ({})", m.what, m.place)).collect();
        let means = if means.is_empty() { "no size of the model".into() } else { means.join("; or ") };
        let spans = [
            (BOLD, visible(&who)),
            (BAD, format!("{} bytes:", r.bytes)),
            (PLAIN, means),
            (DIM, visible(&format!("({}:{})", r.source, r.line))),
        ];
        page.flow("  - ", "    ", &spans, ALL);
    }
}

fn allocators(a: &Account, page: &mut Page) {
    if a.allocators.is_empty() {
        return;
    }
    page.heading("What the framework's allocator said");
    for al in a.allocators.iter().take(GROUPS) {
        let who =
            al.rank.map_or_else(|| "a rank that the line does not name".into(), |n| format!("rank {n}"));
        let size = |name: &str, bytes: Option<u64>| bytes.map(|b| format!("{name} {}", bytes_text(b)));
        let numbers: Vec<String> = [
            size("asked for", al.tried),
            size("GPU", al.total),
            size("free", al.free),
            size("this process", al.process),
            size("limit", al.allowed),
            size("allocated", al.allocated),
            size("in private pools", al.pools),
            size("reserved and unused", al.unused),
        ]
        .into_iter()
        .flatten()
        .collect();
        let device = al.device.map_or(String::new(), |d| format!(", device {d}"));
        let spans = [
            (BOLD, visible(&format!("{who}{device}:"))),
            (PLAIN, numbers.join(", ")),
            (DIM, visible(&format!("({}:{})", al.source, al.line))),
        ];
        page.flow("  - ", "    ", &spans, ALL);
        for says in &al.says {
            page.flow("    ", "    ", &[(PLAIN, visible(says))], ALL);
        }
    }
    if a.allocators.len() > GROUPS {
        let text = format!("… and {} more", a.allocators.len() - GROUPS);
        page.flow("  ", "  ", &[(DIM, text)], ALL);
    }
}

/// What ran out that is not the GPU's memory.
fn elsewhere(a: &Account, page: &mut Page) {
    if a.elsewhere.is_empty() {
        return;
    }
    page.heading("Not the GPU's memory");
    for e in a.elsewhere.iter().take(GROUPS) {
        let who = match (e.rank, &e.host) {
            (Some(rank), _) => format!("rank {rank}:"),
            (None, Some(host)) => format!("{host}:"),
            (None, None) => String::new(),
        };
        let lines = if e.count > 1 { format!(", {} lines", e.count) } else { String::new() };
        let spans = [
            (BOLD, visible(&who)),
            (PLAIN, visible(&e.about)),
            (CODE, visible(&e.cause)),
            (DIM, visible(&format!("({}:{}{lines})", e.source, e.line))),
        ];
        page.flow("  - ", "    ", &spans, ALL);
    }
}
