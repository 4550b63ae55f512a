//! The sections of the text report, each with a limit that `text.rs` tightens
//! until the whole fits a screen.

use super::limits::Limits;
use super::page::{BAD, BOLD, CODE, DIM, GOOD, PLAIN, Page, Span, WARN};
use super::words::{count, place, ranks, shorten_ranges, some, speaker, spot, sure, visible};
use crate::report::{Attempt, Consequence, Diagnosis, Evidence, Fix, Report, Verdict};

const ALL: usize = usize::MAX;

/// A report that is being written.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    report: &'a Report,
    page: Page,
    limits: Limits,
    hidden: Vec<String>,
}

fn plain(text: &str) -> Vec<Span> {
    vec![(PLAIN, visible(text))]
}

impl<'a> Draft<'a> {
    pub(crate) fn new(report: &'a Report, width: usize, limits: Limits) -> Self {
        Self { report, page: Page::new(width), limits, hidden: Vec::new() }
    }

    pub(crate) fn into_page(self) -> Page {
        self.page
    }

    /// Notes that items were left out.
    fn hide(&mut self, all: usize, shown: usize, (one, many): (&str, &str)) {
        match all.saturating_sub(shown) {
            0 => {}
            1 => self.hidden.push(format!("1 {one}")),
            n => self.hidden.push(format!("{n} {many}")),
        }
    }

    /// `FAULT  one sentence`.
    pub(crate) fn headline(&mut self) {
        let (ink, word) = match self.report.verdict {
            Verdict::Fault => (BAD, "FAULT"),
            Verdict::Degraded => (WARN, "DEGRADED"),
            Verdict::Healthy => (GOOD, "HEALTHY"),
            Verdict::Inconclusive => (WARN, "INCONCLUSIVE"),
        };
        let spans = [(ink, format!("{word}:")), (BOLD, visible(&self.report.summary))];
        self.page.flow("", "", &spans, ALL);
    }

    /// Where, since when, how sure, which attempt, and why.
    pub(crate) fn facts(&mut self, first: &Diagnosis) {
        self.page.blank();
        let mut what = vec![(PLAIN, visible(&first.title)), (DIM, format!("[{}]", visible(&first.cause)))];
        if self.report.summary.contains(&first.title) {
            what.remove(0);
        }
        self.page.label("Cause", &what, ALL);
        let at = place(&first.culprits, self.limits.names);
        let at = if at.is_empty() { "cannot be told from this input".into() } else { at };
        self.page.label("Where", &[(BOLD, at)], 3);
        self.since(first);
        self.page.label("Sure", &[(PLAIN, sure(first.confidence))], ALL);
        self.attempt();
        self.several();
        self.silent(first);
        self.job_line();
        if !first.why.is_empty() {
            self.page.blank();
            self.page.flow("  ", "  ", &plain(&first.why), self.limits.why);
        }
        self.known_bugs(first);
    }

    /// Known faults of the release, with what is known of a repair.
    fn known_bugs(&mut self, first: &Diagnosis) {
        let most = if self.limits.verbose { ALL } else { 2 };
        for bug in first.known_bugs.iter().take(most) {
            let mut text =
                format!("{} {}: {}", program_name(&bug.of), bug.releases.replace("..", " to "), bug.fault);
            // A repair that is no release is told in its own words.
            let fixed =
                if bug.fixed.starts_with(|c: char| c.is_ascii_digit()) { "Fixed in" } else { "Repair:" };
            for (word, more) in [(fixed, &bug.fixed), ("Meanwhile:", &bug.workaround)] {
                if !more.is_empty() {
                    text.push_str(&format!(" {word} {}.", more.trim_end_matches('.')));
                }
            }
            self.page.blank();
            self.page.label("Known fault", &plain(text.trim()), ALL);
        }
        self.hide(first.known_bugs.len(), most, ("known fault", "known faults"));
    }

    fn since(&mut self, first: &Diagnosis) {
        let mut parts = Vec::new();
        if let Some(time) = first.evidence.iter().find_map(|e| e.time_text.as_ref().or(e.time.as_ref())) {
            parts.push(visible(time));
        }
        if let Some(step) = &self.report.job.last_step {
            parts.push(format!("last step seen: {}", visible(step)));
        }
        if !parts.is_empty() {
            self.page.label("Since", &[(PLAIN, parts.join("; "))], 2);
        }
    }

    fn attempt(&mut self) {
        let all = &self.report.attempts;
        if all.len() < 2 {
            return;
        }
        let told = |a: &Attempt| match &a.cause {
            Some(cause) => format!("{} {} ({})", a.n, a.end, visible(cause)),
            None => format!("{} {}", a.n, a.end),
        };
        let list: Vec<String> = all.iter().map(told).collect();
        let most = self.limits.names.max(3);
        let skipped = list.len().saturating_sub(most);
        let list = list[skipped..].join(", ");
        let dots = if skipped > 0 { "…, " } else { "" };
        let text = format!("{} in this input: {dots}{list}", count(all.len() as u64, "run"));
        self.page.label("Attempts", &[(PLAIN, text)], 2);
    }

    /// Jobs that were given together.
    fn several(&mut self) {
        let jobs = &self.report.job.several;
        if !jobs.is_empty() {
            let text = format!(
                "by their names the files are of {} ({}), taken here for one; `ncclcheck scan` answers for each",
                count(jobs.len() as u64, "job"),
                some(jobs, self.limits.names.max(3)),
            );
            self.page.label("Several", &[(PLAIN, text)], 3);
        }
    }

    /// Ranks that were heard and then said nothing, where they are not the culprits anyway.
    fn silent(&mut self, first: &Diagnosis) {
        let silent: Vec<u32> =
            self.report.job.ranks.iter().filter(|r| r.state == "silent").map(|r| r.rank).collect();
        if !silent.is_empty() && silent != first.culprits.ranks {
            self.page.label("Silent", &[(PLAIN, ranks(&silent))], 2);
        }
    }

    /// `16 ranks on 2 hosts, NCCL 2.21.5, torch 2.4.0` in one line.
    fn job_line(&mut self) {
        let text = self.job_text();
        if !text.is_empty() {
            self.page.label("Job", &[(PLAIN, text)], if self.limits.verbose { ALL } else { 2 });
        }
    }

    fn job_text(&self) -> String {
        let job = &self.report.job;
        let mut parts = Vec::new();
        let seen = shorten_ranges(&visible(&job.ranks_seen), 50);
        match (job.world_size, seen.is_empty()) {
            (Some(n), true) => parts.push(count(n.into(), "rank")),
            (Some(n), false) if job.ranks_not_seen.is_empty() => {
                parts.push(format!("{}, all heard", count(n.into(), "rank")));
            }
            (Some(n), false) => parts.push(format!("{}, heard {seen}", count(n.into(), "rank"))),
            (None, false) => parts.push(format!("heard ranks {seen}")),
            (None, true) => {}
        }
        if !job.hosts.is_empty() {
            parts.push(count(job.hosts.len() as u64, "host"));
        }
        for (program, releases) in &job.versions {
            parts.push(format!("{} {}", program_name(program), some(releases, 3)));
        }
        if !job.devices.is_empty() {
            parts.push(some(&job.devices, 2));
        }
        if !job.networks.is_empty() {
            parts.push(format!("network {}", some(&job.networks, 3)));
        }
        parts.join("; ")
    }

    /// The lines that prove it.
    pub(crate) fn proof(&mut self, of: &Diagnosis) {
        if of.evidence.is_empty() {
            return;
        }
        self.page.heading("What shows it");
        self.quotes(&of.evidence);
    }

    fn quotes(&mut self, list: &[Evidence]) {
        for evidence in list.iter().take(self.limits.proof) {
            self.quote(evidence);
        }
        self.hide(list.len(), self.limits.proof, ("line of proof", "lines of proof"));
    }

    fn quote(&mut self, evidence: &Evidence) {
        self.quote_at(String::new(), evidence);
    }

    fn quote_at(&mut self, time: String, evidence: &Evidence) {
        let mut said = speaker(evidence);
        if evidence.count > 1 {
            said = format!("{said} ×{}", evidence.count).trim_start().to_string();
        }
        let head = [(DIM, time), (CODE, spot(evidence)), (DIM, said)];
        let mut text = visible(&evidence.text);
        if evidence.cut && !text.ends_with('…') {
            text.push('…');
        }
        self.page.quote(&head, &text, self.limits.verbose);
    }

    /// What it did to others.
    pub(crate) fn followed(&mut self, of: &Diagnosis) {
        if of.explains.is_empty() {
            return;
        }
        self.page.heading("What followed");
        for effect in of.explains.iter().take(self.limits.followed) {
            self.page.flow("  - ", "    ", &told(effect), 2);
            if self.limits.verbose {
                for evidence in &effect.evidence {
                    self.quote(evidence);
                }
            }
        }
        self.hide(of.explains.len(), self.limits.followed, ("consequence", "consequences"));
    }

    /// Fixes in the order to try.
    pub(crate) fn remedies(&mut self, of: &Diagnosis, heading: &str) {
        if of.fixes.is_empty() {
            return;
        }
        self.page.heading(heading);
        for (i, fix) in of.fixes.iter().take(self.limits.fixes).enumerate() {
            self.fix(i + 1, fix);
        }
        self.hide(of.fixes.len(), self.limits.fixes, ("more thing to try", "more things to try"));
    }

    fn fix(&mut self, n: usize, fix: &Fix) {
        let mut text = Vec::new();
        match fix.intent {
            "workaround" => text.push((DIM, "(workaround)".into())),
            "diagnostic" => text.push((DIM, "(to find out more)".into())),
            _ => {}
        }
        text.push((PLAIN, visible(&fix.text)));
        self.page.flow(&format!("  {n}. "), "     ", &text, self.limits.fix_lines);
        if let Some(env) = fix.env.as_ref().filter(|e| !e.is_empty()) {
            let set: Vec<Span> =
                env.iter().map(|(k, v)| (CODE, format!("{}={}", visible(k), visible(v)))).collect();
            self.page.flow("     ", "     ", &set, ALL);
        }
        for (name, text) in [("cost:", &fix.cost), ("check:", &fix.verify)] {
            if !text.is_empty() {
                let most = if self.limits.verbose { ALL } else { 2 };
                self.page.flow("     ", "       ", &[(DIM, name.into()), (PLAIN, visible(text))], most);
            }
        }
    }

    /// What it could be taken for, and what else the lines could mean.
    pub(crate) fn doubts(&mut self, of: &Diagnosis) {
        if of.mistaken_for.is_empty() && of.alternatives.is_empty() {
            return;
        }
        self.page.blank();
        if !of.mistaken_for.is_empty() {
            let most = if self.limits.verbose { ALL } else { 2 };
            let spans = [(DIM, "Not to be mistaken:".into()), (PLAIN, visible(&of.mistaken_for))];
            self.page.flow("  ", "    ", &spans, most);
        }
        let list: Vec<String> = of
            .alternatives
            .iter()
            .map(|a| format!("{} [{}] {:.2}", visible(&a.title), visible(&a.cause), a.confidence))
            .collect();
        if !list.is_empty() && self.limits.others > 0 {
            let text = list.iter().take(self.limits.others).cloned().collect::<Vec<_>>().join("; ");
            self.page.flow("  ", "    ", &[(DIM, "Could also be:".into()), (PLAIN, text)], 3);
            self.hide(list.len(), self.limits.others, ("other reading", "other readings"));
        }
    }

    /// Diagnoses after the first, in at most three lines each.
    pub(crate) fn others(&mut self) {
        let rest = self.report.diagnoses.get(1..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        if self.limits.others > 0 {
            self.page.heading("Also found, not explained by it");
        }
        for other in rest.iter().take(self.limits.others) {
            self.brief(other);
        }
        self.hide(rest.len(), self.limits.others, ("diagnosis", "diagnoses"));
    }

    fn brief(&mut self, other: &Diagnosis) {
        let at = place(&other.culprits, 3);
        let mut spans = plain(&other.title);
        spans.push((DIM, format!("[{}] {}", visible(&other.cause), sure(other.confidence))));
        if !at.is_empty() {
            spans.push((PLAIN, format!("- {at}")));
        }
        self.page.flow("  - ", "    ", &spans, 2);
        if self.limits.verbose {
            self.page.flow("    ", "    ", &plain(&other.why), ALL);
            self.quotes(&other.evidence);
            for (i, fix) in other.fixes.iter().enumerate() {
                self.fix(i + 1, fix);
            }
        } else if let Some(fix) = other.fixes.first() {
            self.page.flow("    ", "    ", &[(DIM, "do:".into()), (PLAIN, visible(&fix.text))], 1);
        }
    }

    /// What the input does not show, and where it disagrees with itself.
    pub(crate) fn missing(&mut self, heading: &str) {
        let against = self.report.job.contradictions.iter().map(|c| format!("Sources disagree: {c}"));
        let list: Vec<String> = against.chain(self.report.not_seen.iter().cloned()).collect();
        self.list(heading, &list, ("thing not visible", "things not visible"));
    }

    fn list(&mut self, heading: &str, list: &[String], what: (&str, &str)) {
        if list.is_empty() {
            return;
        }
        self.page.heading(heading);
        let most = if self.limits.verbose { ALL } else { 2 };
        for text in list.iter().take(self.limits.missing) {
            self.page.flow("  - ", "    ", &plain(text), most);
        }
        self.hide(list.len(), self.limits.missing, what);
    }

    /// Without a diagnosis: what was read and how the end is known.
    pub(crate) fn job_facts(&mut self) {
        let job = &self.report.job;
        self.page.blank();
        if !job.end.how.is_empty() {
            let how = vec![(PLAIN, format!("{}: {}", job.end.state, visible(&job.end.how)))];
            self.page.label("End", &how, 3);
        }
        let read: u64 = self.report.inputs.iter().map(|i| i.lines).sum();
        let files = count(self.report.inputs.len() as u64, "input");
        self.page.label("Read", &[(PLAIN, format!("{files}, {}", count(read, "line")))], ALL);
        self.job_line();
        if !job.hosts.is_empty() {
            let hosts: Vec<String> = job
                .hosts
                .iter()
                .map(
                    |h| if h.ranks.is_empty() { h.name.clone() } else { format!("{} ({})", h.name, h.ranks) },
                )
                .collect();
            self.page.label("Hosts", &[(PLAIN, some(&hosts, self.limits.names))], 3);
        }
        if let (Some(first), Some(last)) = (&job.first, &job.last) {
            self.page.label("Time", &[(PLAIN, format!("{} to {}", visible(first), visible(last)))], ALL);
        }
        if let Some(step) = &job.last_step {
            self.page.label("Last step", &plain(step), 1);
        }
        self.attempt();
        self.several();
        if !job.end.evidence.is_empty() {
            self.page.heading("How the end is known");
            self.quotes(&self.report.job.end.evidence);
        }
    }

    /// What is odd and harmless, or of an earlier attempt; one line each.
    pub(crate) fn notices(&mut self) {
        let notices = &self.report.notices;
        if notices.is_empty() {
            return;
        }
        let most = if self.report.diagnoses.is_empty() { self.limits.missing } else { self.limits.others };
        if most > 0 {
            self.page.heading("Seen, and not the cause");
        }
        for notice in notices.iter().take(most) {
            let mut spans = plain(&notice.title);
            spans.push((DIM, format!("[{}]", visible(&notice.cause))));
            if let Some(first) = notice.evidence.first() {
                spans.push((CODE, spot(first)));
            }
            self.page.flow("  - ", "    ", &spans, if self.limits.verbose { ALL } else { 1 });
        }
        self.hide(notices.len(), most, ("notice", "notices"));
    }

    /// What could not be read properly, and what was folded away.
    pub(crate) fn problems(&mut self) {
        let mut list: Vec<String> = Vec::new();
        for input in &self.report.inputs {
            list.extend(input.problems.iter().map(|p| format!("{}: {p}", input.path)));
        }
        list.extend(self.report.folded.iter().cloned());
        self.list("Problems with the input", &list, ("problem with the input", "problems with the input"));
    }

    /// With `-v`: environment, ranks, timeline, pages.
    pub(crate) fn everything_else(&mut self) {
        if !self.limits.verbose {
            return;
        }
        let report = self.report;
        if report.job.ranks.iter().any(|r| r.state != "heard") {
            self.page.heading("Ranks that were not heard to the end");
            for rank in report.job.ranks.iter().filter(|r| r.state != "heard") {
                let end = rank.end.as_ref().map_or(String::new(), |e| format!("; {}", visible(e)));
                let text = format!("rank {}: {}{end}", rank.rank, rank.state);
                self.page.flow("  - ", "    ", &plain(&text), ALL);
                if let Some(last) = &rank.last {
                    self.quote(last);
                }
            }
        }
        if !report.job.environment.is_empty() {
            self.page.heading("Environment");
            for (name, values) in &report.job.environment {
                let text = format!("{}={}", visible(name), visible(&values.join(" | ")));
                self.page.flow("  ", "    ", &[(CODE, text)], ALL);
            }
        }
        if !report.timeline.is_empty() {
            self.page.heading("Timeline");
            for evidence in &report.timeline {
                let time = evidence.time_text.as_ref().map_or("no time".into(), |t| visible(t));
                self.quote_at(time, evidence);
            }
        }
        let pages: Vec<String> = report.diagnoses.iter().flat_map(|d| d.references.clone()).collect();
        self.list("Pages that say more", &pages, ("page", "pages"));
    }

    /// The last line: what `-v` would add.
    pub(crate) fn left_out(&mut self) {
        if self.hidden.is_empty() || self.limits.verbose {
            return;
        }
        let text = format!("-v shows the rest: {}", self.hidden.join(", "));
        self.page.blank();
        self.page.flow("  ", "  ", &[(DIM, text)], 2);
    }
}

/// A consequence in words.
fn told(effect: &Consequence) -> Vec<Span> {
    let who = ranks(&effect.ranks);
    let mut spans = Vec::new();
    if !who.is_empty() {
        spans.push((PLAIN, format!("{who}:")));
    }
    match (&effect.symptom, &effect.cause) {
        (Some(symptom), Some(cause)) => {
            spans.push((PLAIN, visible(symptom)));
            spans.push((DIM, format!("[{}]", visible(cause))));
        }
        (Some(symptom), None) => spans.push((PLAIN, visible(symptom))),
        (None, Some(cause)) => spans.push((PLAIN, visible(cause))),
        (None, None) => {}
    }
    if effect.count > 0 {
        spans.push((DIM, format!("({})", count(effect.count, "line"))));
    }
    spans
}

fn program_name(program: &str) -> String {
    match program {
        "nccl" => "NCCL".into(),
        "rccl" => "RCCL".into(),
        "cuda" => "CUDA".into(),
        other => visible(other),
    }
}
