//! Records and counts for people: as plain text in columns, or as Markdown.
//! What comes from logs is made harmless for either.

use super::fleet::{Blamed, Fleet};
use super::record::Record;
use crate::report::text::visible;
use std::fmt::Write;

/// How it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For a terminal of so many columns.
    Text(usize),
    /// For a page.
    Markdown,
}

/// Rows of a table that are shown.
const ROWS: usize = 15;
/// Weeks that are shown.
const WEEKS: usize = 8;

/// What a scan, or all that an index knows, came to.
#[must_use]
pub fn overview(fleet: &Fleet, form: Form, everything: bool) -> String {
    let mut page = Page { form, text: String::new() };
    let rows = if everything { usize::MAX } else { ROWS };
    page.head("Jobs");
    page.table(&["", "jobs"], &counts(fleet));
    page.hours(fleet);
    if !fleet.causes.is_empty() {
        page.head("Causes");
        page.causes(fleet, rows, everything);
    }
    page.blamed("Hosts", "host", &fleet.hosts, rows);
    page.blamed("Devices", "device", &fleet.devices, rows);
    page.text
}

fn counts(fleet: &Fleet) -> Vec<Vec<String>> {
    let all = [
        ("all", fleet.jobs),
        ("failed", fleet.failed),
        ("slow or close to a limit", fleet.degraded),
        ("healthy", fleet.healthy),
        ("nothing to judge by", fleet.nothing),
        ("not readable", fleet.unread),
        ("with a file that is broken", fleet.broken),
    ];
    let shown = all.into_iter().enumerate().filter(|(n, (_, jobs))| *n == 0 || *jobs > 0);
    shown.map(|(_, (name, jobs))| vec![name.into(), jobs.to_string()]).collect()
}

/// A list of jobs, one a row.
#[must_use]
pub fn jobs_table(records: &[Record], form: Form) -> String {
    let mut page = Page { form, text: String::new() };
    let rows: Vec<Vec<String>> = records
        .iter()
        .map(|r| {
            let on = if r.culprit_hosts.is_empty() {
                match r.culprit_ranks.as_slice() {
                    [] => String::new(),
                    [one] => format!("rank {one}"),
                    many => format!("{} ranks", many.len()),
                }
            } else {
                few(&r.culprit_hosts)
            };
            let date = r.when().map_or(String::new(), |t| t.date().to_string());
            vec![r.job.clone(), date, r.verdict.clone(), r.cause.clone().unwrap_or_default(), on]
        })
        .collect();
    page.table(&["job", "last", "verdict", "cause", "where"], &rows);
    page.text
}

fn few(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [a] => a.clone(),
        [a, b] => format!("{a}, {b}"),
        [a, more @ ..] => format!("{a} and {} more", more.len()),
    }
}

struct Page {
    form: Form,
    text: String,
}

impl Page {
    fn head(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let _ = match self.form {
            Form::Text(_) => writeln!(self.text, "{title}"),
            Form::Markdown => writeln!(self.text, "## {title}\n"),
        };
    }

    fn line(&mut self, text: &str) {
        let _ = match self.form {
            Form::Text(_) => writeln!(self.text, "  {}", visible(text)),
            Form::Markdown => writeln!(self.text, "{}\n", escaped(text)),
        };
    }

    fn hours(&mut self, fleet: &Fleet) {
        if fleet.timed == 0 {
            return;
        }
        let md = self.form == Form::Markdown;
        if md {
            self.text.push('\n');
        }
        self.line(&format!(
            "{:.1} GPU hours in the {} whose logs tell times; {:.1} of them in failed jobs",
            fleet.gpu_hours,
            many(fleet.timed, "job"),
            fleet.failed_gpu_hours
        ));
        if fleet.lost_of > 0 {
            self.line(&format!(
                "{:.1} GPU hours behind the first line that shows the cause, in {}",
                fleet.lost_gpu_hours,
                many(fleet.lost_of, "job")
            ));
        }
        if let Some(hours) = fleet.hours_between_failures {
            let gpu = fleet.gpu_hours_between_failures;
            let gpu = gpu.map_or(String::new(), |h| format!(" ({h:.1} GPU hours)"));
            self.line(&format!("mean time between failures: {hours:.2} h{gpu}"));
        }
    }

    fn causes(&mut self, fleet: &Fleet, rows: usize, weeks: bool) {
        let from = fleet.weeks.len().saturating_sub(WEEKS);
        let mut head: Vec<&str> = vec!["cause", "jobs", "%"];
        let rate = fleet.causes.iter().any(|c| c.per_1000_gpu_hours.is_some());
        if rate {
            head.push("per 1000 GPU h");
        }
        if weeks {
            head.extend(fleet.weeks[from..].iter().map(|w| w.week.as_str()));
        }
        head.push("");
        let row = |c: &super::fleet::CauseRow| {
            let mut row = vec![c.cause.clone(), c.jobs.to_string(), format!("{:.1}", c.percent)];
            if rate {
                row.push(c.per_1000_gpu_hours.map_or(String::new(), |r| format!("{r:.2}")));
            }
            if weeks {
                row.extend(c.weeks[from..].iter().map(ToString::to_string));
            }
            row.push(if c.new { "new".into() } else { String::new() });
            row
        };
        let mut lines: Vec<Vec<String>> = fleet.causes.iter().take(rows).map(row).collect();
        if weeks {
            for (name, of) in [("failed jobs", true), ("all jobs", false)] {
                let total = if of { fleet.failed } else { fleet.jobs };
                let percent = 100.0 * total as f64 / fleet.jobs.max(1) as f64;
                let mut line = vec![name.to_string(), total.to_string(), format!("{percent:.1}")];
                if rate {
                    line.push(String::new());
                }
                let number = |w: &super::fleet::Week| if of { w.failed } else { w.jobs };
                line.extend(fleet.weeks[from..].iter().map(|w| number(w).to_string()));
                line.push(String::new());
                lines.push(line);
            }
        }
        self.table(&head, &lines);
        if fleet.causes.len() > rows {
            self.line(&format!("and {} more", fleet.causes.len() - rows));
        }
    }

    fn blamed(&mut self, title: &str, what: &str, list: &[Blamed], rows: usize) {
        if list.is_empty() {
            return;
        }
        self.head(title);
        let row = |b: &Blamed| {
            vec![
                b.name.clone(),
                b.blamed.to_string(),
                b.took_part.to_string(),
                few(&b.causes),
                day(b.last.as_deref()),
            ]
        };
        let lines: Vec<Vec<String>> = list.iter().take(rows).map(row).collect();
        self.table(&[what, "to blame", "took part", "causes", "last"], &lines);
        if list.len() > rows {
            self.line(&format!("and {} more", list.len() - rows));
        }
    }

    /// Numbers stand to the right, texts to the left; the widest text gives way where the line is too long.
    fn table(&mut self, head: &[&str], rows: &[Vec<String>]) {
        let Form::Text(width) = self.form else { return self.markdown(head, rows) };
        let rows: Vec<Vec<String>> = rows.iter().map(|r| r.iter().map(|c| visible(c)).collect()).collect();
        let long = |n: usize| {
            let cells = rows.iter().map(|r| r[n].chars().count());
            cells.chain(std::iter::once(head[n].chars().count())).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..head.len()).map(long).collect();
        let number = |n: usize| {
            rows.iter().all(|r| r[n].is_empty() || r[n].parse::<f64>().is_ok())
                && rows.iter().any(|r| !r[n].is_empty())
        };
        let numbers: Vec<bool> = (0..head.len()).map(number).collect();
        while widths.iter().sum::<usize>() + 2 * widths.len() > width {
            let Some(widest) = (0..widths.len()).filter(|&n| !numbers[n]).max_by_key(|&n| widths[n]) else {
                break;
            };
            if widths[widest] <= 12 {
                break;
            }
            widths[widest] -= 1;
        }
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut text = String::new();
            for (n, cell) in cells.enumerate() {
                let cell = cut(cell, widths[n], n == 0);
                let pad = " ".repeat(widths[n] - cell.chars().count());
                let _ =
                    if numbers[n] { write!(text, "  {pad}{cell}") } else { write!(text, "  {cell}{pad}") };
            }
            let _ = writeln!(self.text, "{}", text.trim_end());
        };
        if head.iter().any(|h| !h.is_empty()) {
            line(&mut head.iter().copied());
        }
        for row in &rows {
            line(&mut row.iter().map(String::as_str));
        }
    }

    fn markdown(&mut self, head: &[&str], rows: &[Vec<String>]) {
        let _ = writeln!(self.text, "| {} |", head.join(" | "));
        let _ = writeln!(self.text, "|{}", "---|".repeat(head.len()));
        for row in rows {
            let cells: Vec<String> = row.iter().map(|c| escaped(c)).collect();
            let _ = writeln!(self.text, "| {} |", cells.join(" | "));
        }
    }
}

fn day(time: Option<&str>) -> String {
    time.map_or(String::new(), |t| t.chars().take(10).collect())
}

fn many(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// A name keeps its end, a text its beginning.
fn cut(text: &str, width: usize, end: bool) -> String {
    let long = text.chars().count();
    if long <= width {
        return text.to_string();
    }
    if end {
        let tail: String = text.chars().skip(long + 1 - width).collect();
        return format!("…{tail}");
    }
    let head: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{head}…")
}

/// A text that is nothing but text in Markdown.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in visible(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\n' => out.push(' '),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '#' | '!' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}
