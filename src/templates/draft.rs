//! The beginning of a message and a rule for a template: what can be told
//! from the lines is written, what only a person knows is marked with
//! `FILL:`, and `rules check` does not pass a file with such marks.

use super::Cluster;
use crate::base::FILL;
use regex::Regex;
use std::fmt::Write as _;

/// Shortest fixed text that a search is worth.
const SHORTEST: usize = 4;

/// Two files for a folder of one's own rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Name of the file with the message, below the folder.
    pub message_file: String,
    /// What stands in it.
    pub message: String,
    /// Name of the file with the rule and its tests.
    pub rule_file: String,
    /// What stands in it.
    pub rule: String,
}

/// Drafts for a template. `id` is that of the rule (`site/lease-lost`), made of the template's words where it is
/// `None`; `anchors` are the texts that the fast search looks for.
#[must_use]
pub fn draft(cluster: &Cluster, id: Option<&str>, anchors: &[String]) -> Draft {
    let parts = parts(&cluster.template);
    let id = id.map_or_else(|| format!("site/{}", slug(&parts)), str::to_string);
    let mut lines: Vec<&str> = cluster.seen.examples.iter().map(|e| e.text.as_str()).collect();
    lines.dedup();
    let nccl = cluster.seen.examples.first().is_some_and(|e| e.message.contains("warn"));
    let name = id.replace('/', ".");
    let message_id = if name.contains('.') { format!("{name}.line") } else { format!("site.{name}.line") };
    let (has, edges) = fixed(&parts, &lines, if nccl { &[] } else { anchors });
    let (pattern, fields) = pattern(&cluster.template, &lines);
    let mut message = String::new();
    let out = &mut message;
    let seen = &cluster.seen;
    let told = format!(
        "# Drafted by `ncclcheck rules new` from {} line(s) of {} failed and {} healthy job(s); the template is\n#   {}\n\
         # Texts that begin with {FILL} are yours to write; rules/README.md explains every key.\n",
        seen.lines,
        seen.failed.count,
        seen.healthy.count,
        plain(&cluster.template)
    );
    let _ = write!(out, "{told}schema = 1\n\n[[message]]\nid     = {}\n", quoted(&message_id));
    let _ = writeln!(out, "about  = {}", quoted(&format!("{FILL} what the line says, in one sentence")));
    let _ = writeln!(out, "door   = {}", quoted(if nccl { "nccl" } else { "line" }));
    if nccl {
        let _ = writeln!(out, "level  = \"warn\"");
    }
    let _ = writeln!(
        out,
        "role   = \"first\"      # first: it explains others; else victim, symptom, harmless or fact, without `cause`"
    );
    let _ = writeln!(out, "kind   = \"fails\"\ncause  = {}", quoted(&id));
    let _ = writeln!(out, "weight = \"strong\"     # decisive, strong, weak");
    if edges {
        let _ = writeln!(
            out,
            "edges  = true         # no text of anchors.toml is in it: found in the first and last 256 KiB only"
        );
    }
    if !fields.is_empty() {
        let list: Vec<String> = fields.iter().map(|(name, kind)| format!("{name} = \"{kind}\"")).collect();
        let _ = writeln!(out, "fields = {{ {} }}", list.join(", "));
    }
    let _ = write!(out, "\n  [[message.form]]\n  has     = {}\n", quoted(&has));
    if let Some(pattern) = &pattern {
        let _ = writeln!(out, "  pattern = {}", quoted(pattern));
    }
    let samples: Vec<String> = lines.iter().map(|l| quoted(l)).collect();
    let _ = writeln!(out, "  sample  = [\n    {},\n  ]", samples.join(",\n    "));
    Draft {
        message_file: format!("messages/{}.toml", id.replace('/', "-")),
        message,
        rule_file: format!("{id}.toml"),
        rule: rule(&id, &told, &lines),
    }
}

fn rule(id: &str, told: &str, lines: &[&str]) -> String {
    let mut rule = String::new();
    let out = &mut rule;
    let fill = |what: &str| quoted(&format!("{FILL} {what}"));
    let _ = write!(out, "{told}schema   = 1\nid       = {}\n", quoted(id));
    let _ = writeln!(
        out,
        "title    = {}",
        fill("what went wrong, in one line; {ranks}, {hosts} and {field} are filled in")
    );
    let _ = writeln!(out, "severity = \"fatal\"      # or degraded");
    let _ = writeln!(
        out,
        "place    = \"local\"      # root: nothing in sight lies before it; local; victim: only ever a consequence"
    );
    let _ = writeln!(out, "explain  = {}", fill("what happened, in two to six sentences"));
    let _ = write!(out, "\n[[explains]]\nwhat = [\"@victims\", \"@waiters\"]\n");
    let _ = write!(out, "\n[[fix]]\nintent = \"fix\"\ntext   = {}\n", fill("what to change"));
    let _ = writeln!(out, "cost   = {}\nverify = {}", fill("its price"), fill("how to see that it helped"));
    let mut input = lines.join("\n");
    input.push('\n');
    let _ = write!(
        out,
        "\n[[test]]\nname   = \"as it was seen\"\nexpect = {{ finding = true }}\ninput.\"job.log\" = {}\n",
        quoted(&input)
    );
    let _ = write!(
        out,
        "\n# A line that comes near and is not this makes a better test.\n[[test]]\nname   = \"work that goes on is not \
         this\"\nexpect = {{ finding = false }}\ninput.\"job.log\" = \"step 10 loss 2.0\\nstep 11 loss 1.9\\n\"\n"
    );
    rule
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    let literal = !text.contains(['\'', '\n', '\r']) && !text.chars().any(char::is_control);
    if literal && text.contains(['\\', '"']) {
        return format!("'{text}'");
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A template for a comment.
fn plain(template: &str) -> String {
    template.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

const MARKS: [&str; 9] = ["<n>", "<x>", "<id>", "<addr>", "<path>", "<time>", "<url>", "<*>", "<…>"];

/// The marks and the texts between them, in order; a mark is itself.
fn parts(template: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let next = MARKS.iter().filter_map(|m| rest.find(m).map(|at| (at, m.len()))).min();
        let (at, len) = next.unwrap_or((rest.len(), 0));
        if at > 0 {
            out.push(&rest[..at]);
        }
        if len > 0 {
            out.push(&rest[at..at + len]);
        }
        rest = &rest[at + len..];
    }
    out
}

/// The longest fixed text that all lines have, one with an anchor in it before others; and whether it has none.
fn fixed(parts: &[&str], lines: &[&str], anchors: &[String]) -> (String, bool) {
    let in_all = |text: &str| text.len() >= SHORTEST && lines.iter().all(|l| l.contains(text));
    let mut candidates: Vec<&str> = Vec::new();
    for part in parts.iter().filter(|p| !MARKS.contains(p)) {
        // Where a line has other blanks than the template, its words still fit.
        let whole = Some(part.trim()).filter(|t| in_all(t));
        match whole {
            Some(text) => candidates.push(text),
            None => candidates.extend(part.split(' ').filter(|w| in_all(w))),
        }
    }
    let anchored = |t: &&str| anchors.iter().any(|a| t.contains(a.as_str()));
    let longest = |list: Vec<&str>| list.into_iter().rev().max_by_key(|t| t.len()).map(str::to_string);
    if anchors.is_empty() {
        return (longest(candidates).unwrap_or_default(), false);
    }
    match longest(candidates.iter().copied().filter(anchored).collect()) {
        Some(text) => (text, false),
        None => (longest(candidates).unwrap_or_default(), true),
    }
}

/// A regular expression with its fields and their types; none where the lines do not fit it.
fn pattern(template: &str, lines: &[&str]) -> (Option<String>, Vec<(&'static str, &'static str)>) {
    let mut out = String::new();
    let mut fields: Vec<(&str, &str)> = Vec::new();
    let mut before = String::new();
    for part in parts(template) {
        let mut field = |name: &'static str, kind: &'static str, expression: &str| {
            if fields.iter().any(|f| f.0 == name) {
                return expression.to_string();
            }
            fields.push((name, kind));
            format!("(?<{name}>{expression})")
        };
        let word = before.trim_end_matches([' ', '=', ':', '[', '#']).to_ascii_lowercase();
        let expression = match part {
            "<n>" if word.ends_with("rank") && !word.ends_with("local_rank") => field("rank", "rank", r"\d+"),
            "<n>" => r"[-+]?\d[\d.,_eE+-]*".into(),
            "<x>" => "0[xX][0-9a-fA-F]+".into(),
            "<id>" => "[0-9A-Za-z-]+".into(),
            "<addr>" => field("peer", "addr", r"\S+?"),
            "<path>" => field("path", "text", r"\S+?"),
            "<time>" | "<url>" | "<*>" => r"\S+".into(),
            "<…>" => String::new(),
            text => text.split(' ').map(regex::escape).collect::<Vec<_>>().join(r"\s+"),
        };
        out.push_str(&expression);
        before = part.to_string();
    }
    // An address or a path at the very end would be one character long.
    let out = if out.ends_with("+?)") { format!("{out}(?:\\s|$)") } else { out };
    let fits = Regex::new(&out).is_ok_and(|re| lines.iter().all(|l| re.is_match(l)));
    if fits { (Some(out), fields) } else { (None, Vec::new()) }
}

/// The first words, as an id has them.
fn slug(parts: &[&str]) -> String {
    let text: Vec<&str> = parts.iter().copied().filter(|p| !MARKS.contains(p)).collect();
    let words: Vec<String> = text
        .join(" ")
        .split(|c: char| !c.is_ascii_alphabetic())
        .filter(|w| w.len() > 2)
        .take(4)
        .map(str::to_ascii_lowercase)
        .collect();
    if words.is_empty() { "new".into() } else { words.join("-") }
}
