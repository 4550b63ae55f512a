//! Shell: scripts, listings, command lines. Words are cut as a shell cuts
//! them; nothing is expanded. In a script an assignment counts when it is
//! exported or stands before a command; in a listing every assignment counts.

use super::super::{Assignment, Environment, Level, Remark};
use super::words::{Word, here_document, logical_lines, words};
use super::{is_name, unquoted};
use std::collections::BTreeSet;

/// An assignment with whether programs will see it.
struct Set {
    assignment: Assignment,
    exported: bool,
}

#[derive(Default)]
struct Reader {
    sets: Vec<Set>,
    exported: BTreeSet<String>,
    /// `set -a`: every assignment is exported.
    all: bool,
    /// Lists of `--export` without ALL: what else is exported does not reach the program. The step's line, the list's
    /// line, its names.
    only: Vec<(usize, usize, Vec<String>)>,
    /// Such a list of the batch script itself, which `srun` inherits through SLURM_EXPORT_ENV.
    inherited: Option<(usize, Vec<String>)>,
    /// Whether it reads further files.
    reads_more: bool,
}

pub(super) fn read(source: &str, text: &str, script: bool) -> (Vec<Environment>, Vec<Remark>) {
    let mut reader = Reader { all: !script, ..Reader::default() };
    // A text for a command to read, up to its end; what it is.
    let mut document: Option<(String, bool, Document)> = None;
    for (line, text) in logical_lines(text) {
        if let Some((end, tabs, what)) = &document {
            if if *tabs { text.trim_start_matches('\t') } else { text.as_str() } == end {
                document = None;
            } else {
                match what {
                    Document::Shell => reader.nested(&text, line),
                    Document::Settings => reader.listed(&text, line),
                    Document::Other => {}
                }
            }
            continue;
        }
        let directive = ["#SBATCH", "#PBS", "#BSUB"].iter().find_map(|d| text.trim_start().strip_prefix(d));
        match directive {
            Some(rest) => reader.directive(&words(rest).concat(), line),
            None if script => {
                let commands = words(&text);
                document = here_document(&text).map(|(end, tabs)| (end, tabs, Document::of(&commands)));
                commands.iter().for_each(|command| reader.command(command, line));
            }
            None => reader.listed(&text, line),
        }
    }
    let mut remarks = reader.not_passed(source, text);
    remarks.sort();
    let exported = &reader.exported;
    let variables = reader
        .sets
        .into_iter()
        .filter(|s| s.exported || exported.contains(&s.assignment.name))
        .map(|s| s.assignment)
        .collect();
    let open = reader.reads_more;
    (vec![Environment { source: source.into(), variables, open, ..Environment::default() }], remarks)
}

/// What a script gives to a command to read.
enum Document {
    /// Commands, for a shell or into a script.
    Shell,
    /// NCCL's own file.
    Settings,
    /// Anything else: a program, a list of hosts.
    Other,
}

impl Document {
    fn of(commands: &[Vec<Word>]) -> Self {
        let all = || commands.iter().flatten().map(|w| w.text.as_str());
        let into = |end: &str| all().any(|w| w.trim_start_matches('>').ends_with(end));
        if into("nccl.conf") {
            Self::Settings
        } else if into(".sh") || into(".sbatch") || all().any(|w| is_shell(w) || REMOTE.contains(&base(w))) {
            Self::Shell
        } else {
            Self::Other
        }
    }
}

/// Commands that run another one elsewhere.
const REMOTE: [&str; 5] = ["ssh", "pdsh", "clush", "parallel-ssh", "pssh"];

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn is_shell(program: &str) -> bool {
    ["bash", "sh", "zsh", "dash", "ksh"].contains(&base(program))
}

/// What one command line sets for its programs.
pub(super) fn command_line(text: &str, line: usize) -> Vec<Assignment> {
    let mut reader = Reader::default();
    words(text).iter().for_each(|command| reader.command(command, line));
    let exported = reader.exported;
    let sets = reader.sets.into_iter();
    sets.filter(|s| s.exported || exported.contains(&s.assignment.name)).map(|s| s.assignment).collect()
}

/// `NAME:   value`, as `kubectl describe` lists an environment.
fn described(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(':')?;
    let upper = is_name(name) && !name.bytes().any(|b| b.is_ascii_lowercase());
    (upper && value.starts_with([' ', '\t'])).then(|| (name, value.trim()))
}

/// `- "NAME=value",` of a pasted list is `NAME=value`.
fn listed(text: &str) -> &str {
    let t = text.trim();
    let t = t.strip_prefix("- ").unwrap_or(t);
    let inner = unquoted(t.trim_end_matches(','));
    match inner.split_once('=') {
        Some((name, _)) if is_name(name) && inner.len() < t.len() => inner,
        _ => t,
    }
}

fn assignment(word: &Word, line: usize) -> Option<Assignment> {
    let (name, value) = word.text.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    is_name(name).then(|| Assignment {
        name: name.into(),
        value: (!word.dynamic).then(|| value.to_string()),
        line,
    })
}

impl Reader {
    /// Options of the batch system in the script.
    fn directive(&mut self, args: &[Word], line: usize) {
        let before = self.only.len();
        self.options(args, line);
        if let Some((_, list, names)) = self.only.drain(before..).next_back() {
            self.inherited = Some((list, names));
        }
    }

    /// A line of a listing.
    fn listed(&mut self, text: &str, line: usize) {
        let text = listed(text);
        let all = std::mem::replace(&mut self.all, true);
        if let Some((name, value)) = described(text) {
            self.set(Assignment { name: name.into(), value: Some(value.into()), line }, true);
        } else {
            words(text).iter().for_each(|command| self.command(command, line));
        }
        self.all = all;
    }

    /// Commands of another shell: what they export is set for programs, the rest is theirs.
    fn nested(&mut self, text: &str, line: usize) {
        for a in command_line(text, line) {
            self.set(a, true);
        }
    }

    fn set(&mut self, assignment: Assignment, exported: bool) {
        if assignment.name == "SLURM_EXPORT_ENV" {
            self.inherited = None;
        }
        self.sets.push(Set { assignment, exported: exported || self.all });
    }

    fn command(&mut self, words: &[Word], line: usize) {
        let mut rest = words;
        let keyword = ["then", "do", "else", "time", "exec", "sudo", "nohup", "{", "+", "++", "if", "ENV"];
        while rest.first().is_some_and(|w| keyword.contains(&w.text.as_str())) {
            rest = &rest[1..];
        }
        let Some(first) = rest.first() else { return };
        match first.text.as_str() {
            "export" => self.declared(&rest[1..], line, true),
            "declare" | "typeset" => {
                let exported = rest[1..].iter().any(|w| w.text.starts_with('-') && w.text.contains('x'));
                self.declared(&rest[1..], line, exported);
            }
            "local" | "readonly" => self.declared(&rest[1..], line, false),
            "setenv" if rest.len() >= 2 && is_name(&rest[1].text) => {
                let value = rest.get(2).map(|w| w.text.clone()).unwrap_or_default();
                let dynamic = rest.get(2).is_some_and(|w| w.dynamic);
                let name = rest[1].text.clone();
                self.set(Assignment { name, value: (!dynamic).then_some(value), line }, true);
            }
            "set" => {
                let text: Vec<&str> = rest[1..].iter().map(|w| w.text.as_str()).collect();
                let option = |sign: char| {
                    text.iter().any(|t| t.starts_with(sign) && t[1..].contains('a'))
                        || text.windows(2).any(|w| w[0] == format!("{sign}o") && w[1] == "allexport")
                };
                if option('-') {
                    self.all = true;
                } else if option('+') {
                    self.all = false;
                }
            }
            "source" | "." if rest.len() > 1 => self.reads_more = true,
            "unset" => {
                for w in &rest[1..] {
                    self.sets.retain(|s| s.assignment.name != w.text);
                    if w.text == "SLURM_EXPORT_ENV" {
                        self.inherited = None;
                    }
                }
            }
            _ => self.program(rest, line),
        }
    }

    /// Words behind `export` or `declare`.
    fn declared(&mut self, words: &[Word], line: usize, exported: bool) {
        for w in words.iter().filter(|w| !w.text.starts_with('-')) {
            match assignment(w, line) {
                Some(a) => self.set(a, exported),
                None if exported && is_name(&w.text) => {
                    self.exported.insert(w.text.clone());
                }
                None => {}
            }
        }
    }

    /// Assignments before a program are for it; without one they are the shell's.
    fn program(&mut self, words: &[Word], line: usize) {
        let before = words.iter().take_while(|w| assignment(w, line).is_some()).count();
        let program = words.get(before);
        for w in &words[..before] {
            if let Some(a) = assignment(w, line) {
                self.set(a, program.is_some());
            }
        }
        let Some(program) = program else { return };
        let args = &words[before + 1..];
        if base(&program.text) == "env" {
            for a in args.iter().filter_map(|w| assignment(w, line)) {
                self.set(a, true);
            }
        }
        let lists = self.only.len();
        self.options(args, line);
        if base(&program.text) == "srun"
            && self.only.len() == lists
            && !args.iter().any(|w| w.text.starts_with("--export"))
            && let Some((list, names)) = self.inherited.clone()
        {
            self.only.push((line, list, names));
        }
        self.inner(program, args, line);
    }

    /// Commands in the words of another: `bash -c "…"`, `ssh host "…"`.
    fn inner(&mut self, program: &Word, args: &[Word], line: usize) {
        let mut shell = is_shell(&program.text);
        let mut at = 0;
        while at < args.len() {
            let text = args[at].text.as_str();
            if shell && text.starts_with('-') && !text.starts_with("--") && text.ends_with('c') {
                if let Some(command) = args.get(at + 1) {
                    self.nested(&command.text, line);
                }
                return;
            }
            shell = is_shell(text) || shell && text.starts_with('-');
            at += 1;
        }
        if REMOTE.contains(&base(&program.text)) {
            for w in args {
                match assignment(w, line) {
                    _ if w.text.contains(char::is_whitespace) => self.nested(&w.text, line),
                    Some(a) => self.set(a, true),
                    None => {}
                }
            }
        }
    }

    /// Options by which launchers and container tools hand variables on.
    fn options(&mut self, args: &[Word], line: usize) {
        let mut at = 0;
        while at < args.len() {
            let w = &args[at];
            let next = args.get(at + 1);
            at += 1;
            match w.text.as_str() {
                "-x" | "-e" | "--env" | "-genv" | "-env" => {
                    let Some(next) = next else { continue };
                    at += 1;
                    if let Some(a) = assignment(next, line) {
                        self.list(next, a);
                    } else if is_name(&next.text) {
                        // `-genv NAME value`, or the name of one that is set already.
                        let value = args.get(at).filter(|_| ["-genv", "-env"].contains(&w.text.as_str()));
                        match value {
                            Some(v) => {
                                at += 1;
                                let a = Assignment {
                                    name: next.text.clone(),
                                    value: (!v.dynamic).then(|| v.text.clone()),
                                    line,
                                };
                                self.set(a, true);
                            }
                            None => {
                                self.exported.insert(next.text.clone());
                            }
                        }
                    }
                }
                "--export" => {
                    if let Some(next) = next {
                        at += 1;
                        self.export(&next.text, next.dynamic, line);
                    }
                }
                text => {
                    if let Some(list) = text.strip_prefix("--export=") {
                        self.export(list, w.dynamic, line);
                    } else if let Some(pair) = text.strip_prefix("--env=") {
                        let word = Word { text: pair.into(), dynamic: w.dynamic };
                        if let Some(a) = assignment(&word, line) {
                            self.list(&word, a);
                        }
                    }
                }
            }
        }
    }

    /// `A=1`, or `A=1,B=2` where what stands behind the comma is an assignment too.
    fn list(&mut self, word: &Word, whole: Assignment) {
        let parts: Vec<&str> = word.text.split(',').collect();
        let pairs = parts.iter().filter(|p| p.split_once('=').is_some_and(|(n, _)| is_name(n))).count();
        if pairs < 2 || pairs < parts.len() {
            self.set(whole, true);
            return;
        }
        for part in parts {
            let part = Word { text: part.into(), dynamic: part.contains('$') };
            if let Some(a) = assignment(&part, whole.line) {
                self.set(a, true);
            }
        }
    }

    /// The list of `srun --export` or `sbatch --export`.
    fn export(&mut self, list: &str, dynamic: bool, line: usize) {
        let mut names = Vec::new();
        let mut all = false;
        for part in list.split(',') {
            all |= part.eq_ignore_ascii_case("ALL");
            let word = Word { text: part.into(), dynamic: dynamic && part.contains('$') };
            match assignment(&word, line) {
                Some(a) => {
                    names.push(a.name.clone());
                    self.set(a, true);
                }
                None => names.push(part.to_string()),
            }
        }
        if !all && !dynamic {
            self.only.push((line, line, names));
        }
    }

    /// What is set and never reaches the program.
    fn not_passed(&self, source: &str, text: &str) -> Vec<Remark> {
        let mut out = Vec::new();
        let say = |a: &Assignment, say: String, instead: Option<String>| Remark {
            level: Level::Wrong,
            kind: "not-passed".into(),
            name: a.name.clone(),
            value: a.value.clone(),
            source: source.into(),
            line: a.line,
            say,
            instead,
        };
        for s in self.sets.iter().filter(|s| settings_only(&s.assignment.name)) {
            let a = &s.assignment;
            let used = ["$", "${"].iter().any(|p| text.contains(&format!("{p}{}", a.name)));
            let again = self.sets.iter().any(|o| o.exported && o.assignment.name == a.name);
            if !s.exported && !self.exported.contains(&a.name) && !used && !again {
                let what =
                    format!("{} is set in the script but not exported: programs do not see it.", a.name);
                out.push(say(a, what, Some(format!("export {}", a.name))));
            }
        }
        for (step, list, names) in &self.only {
            for s in self.sets.iter().filter(|s| s.exported && settings_only(&s.assignment.name)) {
                let a = &s.assignment;
                if a.line < *step && !names.contains(&a.name) && !out.iter().any(|r| r.name == a.name) {
                    let what = if step == list {
                        format!("--export on line {list} has no ALL: {} does not reach that step.", a.name)
                    } else {
                        format!(
                            "--export on line {list} has no ALL, and srun on line {step} inherits that: {} does not \
                             reach that step.",
                            a.name
                        )
                    };
                    let instead = if step == list {
                        format!("--export=ALL,{}", names.join(","))
                    } else {
                        "srun --export=ALL".into()
                    };
                    out.push(say(a, what, Some(instead)));
                }
            }
        }
        out
    }
}

/// Names that nobody uses as plain shell variables.
fn settings_only(name: &str) -> bool {
    ["NCCL_", "RCCL_", "TORCH_NCCL_", "GLOO_"].iter().any(|p| name.starts_with(p))
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
