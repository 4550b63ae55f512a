//! From files to data. The built-in files are embedded; `--rules DIR` adds
//! files and replaces what has the same id. A fault in a file names the file,
//! the line and the reason; all faults are given at once.

use super::{Bug, Code, Message, Rule, Tables, Variable};
use include_dir::{Dir, include_dir};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

static BUILT_IN: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/rules");

/// Something wrong in a file of `rules/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// File.
    pub file: String,
    /// Line from 1, where known.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

/// Everything that is known.
#[derive(Debug, Clone, Default)]
pub struct Knowledge {
    /// Messages with the file each stands in, sorted by id.
    pub messages: Vec<(Message, String)>,
    /// Rules, sorted by id.
    pub rules: Vec<(Rule, String)>,
    /// Named groups.
    pub sets: BTreeMap<String, Vec<String>>,
    /// Texts for the gate.
    pub anchors: Vec<String>,
    /// Tables.
    pub tables: Tables,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageFile {
    #[allow(dead_code)]
    schema: u32,
    #[serde(default)]
    message: Vec<Message>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetFile {
    #[allow(dead_code)]
    schema: u32,
    sets: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnchorFile {
    #[allow(dead_code)]
    schema: u32,
    anchors: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CodeFile {
    #[allow(dead_code)]
    schema: u32,
    #[serde(default)]
    code: Vec<Code>,
    #[serde(default)]
    variable: Vec<Variable>,
    #[serde(default)]
    bug: Vec<Bug>,
}

#[derive(Default)]
struct Files(BTreeMap<String, String>);

impl Files {
    fn built_in() -> Self {
        let mut files = Self::default();
        files.add_dir(&BUILT_IN);
        files
    }

    fn add_dir(&mut self, dir: &Dir<'_>) {
        for file in dir.files() {
            let path = file.path().to_string_lossy().replace('\\', "/");
            if path.ends_with(".toml")
                && let Some(text) = file.contents_utf8()
            {
                self.0.insert(path, text.to_string());
            }
        }
        for sub in dir.dirs() {
            self.add_dir(sub);
        }
    }

    fn from_folder(dir: &Path, faults: &mut Vec<Fault>) -> Self {
        let mut files = Self::default();
        for entry in walkdir::WalkDir::new(dir).sort_by_file_name() {
            match entry {
                Ok(e) if e.file_type().is_file() && e.path().extension().is_some_and(|x| x == "toml") => {
                    let name =
                        e.path().strip_prefix(dir).unwrap_or(e.path()).to_string_lossy().replace('\\', "/");
                    match std::fs::read_to_string(e.path()) {
                        Ok(text) => {
                            files.0.insert(name, text);
                        }
                        Err(err) => faults.push(Fault { file: name, line: None, what: err.to_string() }),
                    }
                }
                Ok(_) => {}
                Err(err) => {
                    faults.push(Fault { file: dir.display().to_string(), line: None, what: err.to_string() })
                }
            }
        }
        files
    }
}

fn parse<T: for<'de> Deserialize<'de>>(file: &str, text: &str, faults: &mut Vec<Fault>) -> Option<T> {
    match toml::from_str(text) {
        Ok(value) => Some(value),
        Err(err) => {
            let line = err.span().map(|s| text[..s.start.min(text.len())].matches('\n').count() + 1);
            faults.push(Fault { file: file.into(), line, what: err.message().to_string() });
            None
        }
    }
}

impl Knowledge {
    /// The built-in knowledge.
    #[must_use]
    pub fn built_in() -> (Self, Vec<Fault>) {
        let mut faults = Vec::new();
        let mut all = Self::default();
        all.take(Files::built_in(), &mut faults);
        (all, faults)
    }

    /// The built-in knowledge with the files of folders added; what has the
    /// same id replaces the built-in one.
    #[must_use]
    pub fn with_folders(folders: &[&Path]) -> (Self, Vec<Fault>) {
        let (mut all, mut faults) = Self::built_in();
        for folder in folders {
            let files = Files::from_folder(folder, &mut faults);
            all.take(files, &mut faults);
        }
        (all, faults)
    }

    /// Adds files; what has the same id as something known before replaces it.
    fn take(&mut self, files: Files, faults: &mut Vec<Fault>) {
        let before = std::mem::take(&mut self.messages);
        let mut here = BTreeMap::new();
        for (name, text) in files.0 {
            if name.starts_with("messages/") {
                if let Some(file) = parse::<MessageFile>(&name, &text, faults) {
                    self.take_messages(file.message, &name, &mut here, faults);
                }
            } else if name.starts_with("tables/") {
                if let Some(file) = parse::<CodeFile>(&name, &text, faults) {
                    self.take_table(&name, file);
                }
            } else if name == "sets.toml" {
                if let Some(file) = parse::<SetFile>(&name, &text, faults) {
                    self.sets.extend(file.sets);
                }
            } else if name == "anchors.toml" {
                if let Some(file) = parse::<AnchorFile>(&name, &text, faults) {
                    self.anchors = file.anchors;
                }
            } else if let Some(rule) = parse::<Rule>(&name, &text, faults) {
                if format!("{}.toml", rule.id) != name {
                    faults.push(Fault {
                        file: name.clone(),
                        line: None,
                        what: format!("the id {} is not the file's path", rule.id),
                    });
                }
                self.rules.retain(|(r, _)| r.id != rule.id);
                self.rules.push((rule, name));
            }
        }
        self.messages.extend(before.into_iter().filter(|(m, _)| !here.contains_key(&m.id)));
        self.messages.sort_by(|a, b| a.0.id.cmp(&b.0.id));
        self.rules.sort_by(|a, b| a.0.id.cmp(&b.0.id));
    }

    fn take_messages(
        &mut self,
        messages: Vec<Message>,
        name: &str,
        here: &mut BTreeMap<String, usize>,
        faults: &mut Vec<Fault>,
    ) {
        for message in messages {
            match here.get(&message.id) {
                Some(&at) if self.messages[at].1 == name => faults.push(Fault {
                    file: name.into(),
                    line: None,
                    what: format!("message {} stands here twice", message.id),
                }),
                Some(&at) => {
                    let what = format!("message {} stands in {} too", message.id, self.messages[at].1);
                    faults.push(Fault { file: name.into(), line: None, what });
                }
                None => {
                    here.insert(message.id.clone(), self.messages.len());
                    self.messages.push((message, name.into()));
                }
            }
        }
    }

    fn take_table(&mut self, name: &str, file: CodeFile) {
        let stem = name.trim_start_matches("tables/").trim_end_matches(".toml");
        let t = &mut self.tables;
        let codes = match stem {
            "results" => Some(&mut t.results),
            "wc-status" => Some(&mut t.wc),
            "xid" => Some(&mut t.xid),
            "signals" => Some(&mut t.signals),
            "exits" => Some(&mut t.exits),
            "cuda" => Some(&mut t.cuda),
            "errno" => Some(&mut t.errno),
            _ => None,
        };
        if let Some(codes) = codes {
            for code in file.code {
                codes.retain(|c| c.code != code.code);
                codes.push(code);
            }
        }
        for v in file.variable {
            t.variables.retain(|o| o.name != v.name);
            t.variables.push(v);
        }
        t.bugs.extend(file.bug);
    }

    /// Resolves sets (`@name`) and trailing `*` against an id.
    #[must_use]
    pub fn covers(&self, patterns: &[String], id: &str) -> bool {
        patterns.iter().any(|p| match self.sets.get(p) {
            Some(set) => set.iter().any(|m| glob(m, id)),
            None => glob(p, id),
        })
    }
}

/// Whether `id` is `pattern`, or begins with what stands before a trailing `*`.
pub(crate) fn glob(pattern: &str, id: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => id.starts_with(start),
        None => pattern == id,
    }
}
