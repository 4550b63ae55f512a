//! Shell: scripts, listings, command lines. Words are cut as a shell cuts
//! them; nothing is expanded. In a script an assignment counts when it is
//! exported or stands before a command; in a listing every assignment counts.

use super::super::{Assignment, Environment, Level, Remark};
use super::{is_name, unquoted};
use std::collections::BTreeSet;

/// A word, and whether it holds something that only the running shell knows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    dynamic: bool,
}

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
    /// Lists of `--export` without ALL: what else is exported does not reach the program.
    only: Vec<(usize, Vec<String>)>,
}

pub(super) fn read(source: &str, text: &str, script: bool) -> (Vec<Environment>, Vec<Remark>) {
    let mut reader = Reader { all: !script, ..Reader::default() };
    for (line, text) in logical_lines(text) {
        let directive = ["#SBATCH", "#PBS", "#BSUB"].iter().find_map(|d| text.trim_start().strip_prefix(d));
        match directive {
            Some(rest) => reader.options(&words(rest).concat(), line),
            None => {
                let text = listed(&text);
                if !script && let Some((name, value)) = described(text) {
                    reader.set(Assignment { name: name.into(), value: Some(value.into()), line }, true);
                    continue;
                }
                words(text).iter().for_each(|command| reader.command(command, line));
            }
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
    (vec![Environment { source: source.into(), variables, ..Environment::default() }], remarks)
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

/// Lines joined where they end with a backslash, with the number of the first.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (at, line) in text.lines().enumerate() {
        let (body, goes_on) = match line.strip_suffix('\\') {
            Some(body) => (body, true),
            None => (line, false),
        };
        match out.last_mut() {
            Some((_, before)) if open => before.push_str(body),
            _ => out.push((at + 1, body.to_string())),
        }
        open = goes_on;
    }
    out
}

/// The commands of a line, each as words; comments are left out.
fn words(line: &str) -> Vec<Vec<Word>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<Word> = None;
    let mut chars = line.chars().peekable();
    let push = |c: char, word: &mut Option<Word>| {
        word.get_or_insert_with(|| Word { text: String::new(), dynamic: false }).text.push(c);
    };
    while let Some(c) = chars.next() {
        match c {
            '#' if word.is_none() => break,
            '\'' => {
                word.get_or_insert_with(|| Word { text: String::new(), dynamic: false });
                for c in chars.by_ref().take_while(|c| *c != '\'') {
                    push(c, &mut word);
                }
            }
            '"' => {
                word.get_or_insert_with(|| Word { text: String::new(), dynamic: false });
                while let Some(c) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => {
                            if let Some(c) = chars.next() {
                                push(c, &mut word);
                            }
                        }
                        c => {
                            push(c, &mut word);
                            if (c == '$' || c == '`')
                                && let Some(w) = &mut word
                            {
                                w.dynamic = true;
                            }
                        }
                    }
                }
            }
            '\\' => {
                if let Some(c) = chars.next() {
                    push(c, &mut word);
                }
            }
            '$' | '`' => {
                push(c, &mut word);
                if let Some(w) = &mut word {
                    w.dynamic = true;
                }
                let close = match (c, chars.peek()) {
                    ('$', Some('{')) => Some(('{', '}')),
                    ('$', Some('(')) => Some(('(', ')')),
                    ('`', _) => Some(('\0', '`')),
                    _ => None,
                };
                if let Some((open, close)) = close {
                    let mut depth = usize::from(open == '\0');
                    for c in chars.by_ref() {
                        push(c, &mut word);
                        depth = if c == open {
                            depth + 1
                        } else if c == close {
                            depth.saturating_sub(1)
                        } else {
                            depth
                        };
                        if depth == 0 {
                            break;
                        }
                    }
                }
            }
            ';' | '&' | '|' | '(' | ')' => {
                commands.last_mut().into_iter().for_each(|l: &mut Vec<Word>| l.extend(word.take()));
                commands.push(Vec::new());
            }
            c if c.is_whitespace() => {
                commands.last_mut().into_iter().for_each(|l: &mut Vec<Word>| l.extend(word.take()));
            }
            c => push(c, &mut word),
        }
    }
    commands.last_mut().into_iter().for_each(|l: &mut Vec<Word>| l.extend(word.take()));
    commands.retain(|c| !c.is_empty());
    commands
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
    fn set(&mut self, assignment: Assignment, exported: bool) {
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
                self.all |=
                    text.contains(&"allexport") || text.iter().any(|t| t.starts_with('-') && t.contains('a'));
            }
            "unset" => {
                for w in &rest[1..] {
                    self.sets.retain(|s| s.assignment.name != w.text);
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
        if program.text == "env" || program.text.ends_with("/env") {
            for a in args.iter().filter_map(|w| assignment(w, line)) {
                self.set(a, true);
            }
        }
        self.options(args, line);
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
                        let value = args.get(at).filter(|_| w.text.ends_with("env") && w.text.len() <= 5);
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
            self.only.push((line, names));
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
        for (line, names) in &self.only {
            for s in self.sets.iter().filter(|s| s.exported && settings_only(&s.assignment.name)) {
                let a = &s.assignment;
                if a.line < *line && !names.contains(&a.name) && !out.iter().any(|r| r.name == a.name) {
                    let what =
                        format!("--export on line {line} has no ALL: {} does not reach that step.", a.name);
                    out.push(say(a, what, Some(format!("--export=ALL,{}", names.join(",")))));
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
mod tests {
    use super::*;

    fn pairs(text: &str, script: bool) -> Vec<(String, Option<String>)> {
        let (all, _) = read("t", text, script);
        all[0].variables.iter().map(|a| (a.name.clone(), a.value.clone())).collect()
    }

    fn one(name: &str, value: &str) -> (String, Option<String>) {
        (name.into(), Some(value.into()))
    }

    #[test]
    fn listings_of_all_kinds() {
        let text = "NCCL_DEBUG=INFO\nexport NCCL_ALGO='Ring'\ndeclare -x NCCL_PROTO=\"LL\"\n# NCCL_X=1\n  \"NCCL_IB_TC=106\",\n- NCCL_IB_SL=3\nsetenv NCCL_NET Socket\n";
        let want = [
            one("NCCL_DEBUG", "INFO"),
            one("NCCL_ALGO", "Ring"),
            one("NCCL_PROTO", "LL"),
            one("NCCL_IB_TC", "106"),
            one("NCCL_IB_SL", "3"),
            one("NCCL_NET", "Socket"),
        ];
        assert_eq!(pairs(text, false), want);
    }

    #[test]
    fn a_script_passes_what_it_exports() {
        let text = "#!/bin/bash\n#SBATCH --export=ALL,NCCL_IB_SL=1\nexport NCCL_DEBUG=INFO # why\nNCCL_ALGO=Ring\nNCCL_PROTO=Simple srun \\\n  --export=ALL,NCCL_IB_TC=106 ./train\nmpirun -np 4 -x NCCL_NET=IB -x PATH ./a\nMASTER_PORT=29500\nexport MASTER_ADDR=$(hostname)\n";
        let (all, remarks) = read("job.sh", text, true);
        let env = &all[0];
        for (name, value) in [
            ("NCCL_IB_SL", Some("1")),
            ("NCCL_DEBUG", Some("INFO")),
            ("NCCL_PROTO", Some("Simple")),
            ("NCCL_IB_TC", Some("106")),
            ("NCCL_NET", Some("IB")),
        ] {
            assert_eq!(env.value(name), value, "{name}");
        }
        assert_eq!(env.get("MASTER_ADDR").map(|a| a.value.clone()), Some(None));
        assert_eq!(env.get("NCCL_IB_TC").map(|a| a.line), Some(5));
        assert!(env.get("NCCL_ALGO").is_none());
        let told: Vec<_> = remarks.iter().map(|r| (r.name.as_str(), r.line)).collect();
        assert_eq!(told, [("NCCL_ALGO", 4)]);
    }

    #[test]
    fn a_list_without_all_drops_the_rest() {
        let text = "#!/bin/sh\nexport NCCL_DEBUG=INFO\nsrun --export=NCCL_ALGO=Ring,PATH ./t\n";
        let (_, remarks) = read("job.sh", text, true);
        assert_eq!(remarks.len(), 1);
        assert!(remarks[0].say.contains("has no ALL") && remarks[0].name == "NCCL_DEBUG");
        let text = "#!/bin/sh\nexport NCCL_DEBUG=INFO\nsrun --export=ALL,NCCL_ALGO=Ring ./t\n";
        assert!(read("job.sh", text, true).1.is_empty());
    }

    #[test]
    fn later_exports_and_set_a_count() {
        let text = "#!/bin/sh\nNCCL_DEBUG=INFO\nexport NCCL_DEBUG\n";
        assert_eq!(pairs(text, true), [one("NCCL_DEBUG", "INFO")]);
        let text = "#!/bin/sh\nset -a\nNCCL_DEBUG=INFO\n";
        assert_eq!(pairs(text, true), [one("NCCL_DEBUG", "INFO")]);
        let text = "#!/bin/sh\nNCCL_DEBUG=INFO\nmpirun -x NCCL_DEBUG ./t\n";
        assert!(read("j", text, true).1.is_empty());
        let text = "#!/bin/sh\nexport NCCL_DEBUG=INFO\nunset NCCL_DEBUG\n";
        assert!(pairs(text, true).is_empty());
    }

    #[test]
    fn hostile_texts_do_no_harm() {
        for text in [
            "",
            "\"",
            "'",
            "$(",
            "${",
            "`",
            "=",
            "==",
            "a=$((",
            "\\",
            "export",
            "export =",
            "-x",
            "srun --export",
            "\u{0}=1",
        ] {
            read("t", text, true);
            read("t", text, false);
            command_line(text, 1);
        }
    }
}
