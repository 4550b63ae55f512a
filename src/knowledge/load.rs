//! From files to data. The built-in files are embedded twice: read already,
//! as the one JSON document that `build.rs` makes of them, and as they are,
//! for telling what is wrong with one. `--rules DIR` adds files and replaces
//! what has the same id. A fault in a file names the file, the line and the
//! reason; all faults are given at once.

use super::{
    Bug, Change, Code, Constant, Foreign, Layout, Message, Rule, Setting, Tables, Trouble, Variable,
};
use include_dir::{Dir, include_dir};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::path::Path;

static BUILT_IN: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/rules");
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rules.json"));

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
    #[serde(default)]
    setting: Vec<Setting>,
    #[serde(default)]
    foreign: Vec<Foreign>,
    #[serde(default)]
    layout: Vec<Layout>,
    #[serde(default)]
    constant: Vec<Constant>,
    #[serde(default)]
    change: Vec<Change>,
    #[serde(default)]
    trouble: Trouble,
}

/// A file of `rules/`, by what its path says that it is.
enum Read {
    Messages(MessageFile),
    Table(Box<CodeFile>),
    Sets(SetFile),
    Anchors(AnchorFile),
    Rule(Box<Rule>),
}

impl Read {
    /// Reads a file from whatever holds its values.
    fn new<'de, D: serde::Deserializer<'de>>(name: &str, from: D) -> Result<Self, D::Error> {
        Ok(if name.starts_with("messages/") {
            Self::Messages(MessageFile::deserialize(from)?)
        } else if name.starts_with("tables/") {
            Self::Table(Box::new(CodeFile::deserialize(from)?))
        } else if name == "sets.toml" {
            Self::Sets(SetFile::deserialize(from)?)
        } else if name == "anchors.toml" {
            Self::Anchors(AnchorFile::deserialize(from)?)
        } else {
            Self::Rule(Box::new(Rule::deserialize(from)?))
        })
    }
}

/// The files that `build.rs` read, in order of name.
struct Packed(Vec<(String, Read)>);

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Packed;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("files by name")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Packed, A::Error> {
                let mut all = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    let read = map.next_value_seed(Named(&name))?;
                    all.push((name, read));
                }
                all.sort_by(|a, b| a.0.cmp(&b.0));
                Ok(Packed(all))
            }
        }
        from.deserialize_map(Visitor)
    }
}

/// Reads a file of that name.
struct Named<'n>(&'n str);

impl<'de> serde::de::DeserializeSeed<'de> for Named<'_> {
    type Value = Read;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Read, D::Error> {
        Read::new(self.0, from)
    }
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

impl Files {
    /// Reads all of them.
    fn read(self, faults: &mut Vec<Fault>) -> Vec<(String, Read)> {
        self.0
            .into_iter()
            .filter_map(|(name, text)| Some((name.clone(), parse(&name, &text, faults)?)))
            .collect()
    }
}

fn parse(file: &str, text: &str, faults: &mut Vec<Fault>) -> Option<Read> {
    match toml::Deserializer::parse(text).and_then(|from| Read::new(file, from)) {
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
        if let Ok(Packed(files)) = serde_json::from_slice(PACKED) {
            all.take(files, &mut faults);
            return (all, faults);
        }
        // Something is wrong with a file: its source tells what and where.
        Self::from_sources()
    }

    /// The built-in knowledge from the sources themselves.
    fn from_sources() -> (Self, Vec<Fault>) {
        let mut faults = Vec::new();
        let mut all = Self::default();
        let files = Files::built_in().read(&mut faults);
        all.take(files, &mut faults);
        (all, faults)
    }

    /// The built-in knowledge with the files of folders added; what has the
    /// same id replaces the built-in one.
    #[must_use]
    pub fn with_folders(folders: &[&Path]) -> (Self, Vec<Fault>) {
        let (mut all, mut faults) = Self::built_in();
        all.add(folders, &mut faults);
        (all, faults)
    }

    /// Only what stands in the folders.
    #[must_use]
    pub fn of_folders(folders: &[&Path]) -> (Self, Vec<Fault>) {
        let (mut all, mut faults) = (Self::default(), Vec::new());
        all.add(folders, &mut faults);
        (all, faults)
    }

    fn add(&mut self, folders: &[&Path], faults: &mut Vec<Fault>) {
        for folder in folders {
            let files = Files::from_folder(folder, faults).read(faults);
            self.take(files, faults);
        }
    }

    /// A number for what judges: the built-in files where they are used, this program's release and sources, and the
    /// files of folders. Another one may judge otherwise.
    #[must_use]
    pub fn mark(folders: &[&Path], built_in: bool) -> u64 {
        let mut sum = twox_hash::XxHash64::with_seed(0);
        if built_in {
            sum.write(PACKED);
        }
        sum.write(concat!(env!("CARGO_PKG_VERSION"), env!("NCCLCHECK_SOURCES")).as_bytes());
        for folder in folders {
            for (name, text) in Files::from_folder(folder, &mut Vec::new()).0 {
                sum.write(name.as_bytes());
                sum.write(text.as_bytes());
            }
        }
        sum.finish()
    }

    /// Adds files; what has the same id as something known before replaces it.
    fn take(&mut self, files: Vec<(String, Read)>, faults: &mut Vec<Fault>) {
        let before = std::mem::take(&mut self.messages);
        let mut here = BTreeMap::new();
        let known: std::collections::BTreeSet<String> = self.rules.iter().map(|r| r.0.id.clone()).collect();
        for (name, read) in files {
            match read {
                Read::Messages(file) => self.take_messages(file.message, &name, &mut here, faults),
                Read::Table(file) => self.take_table(&name, *file),
                Read::Sets(file) => self.sets.extend(file.sets),
                Read::Anchors(file) => self.anchors = file.anchors,
                Read::Rule(rule) => {
                    if format!("{}.toml", rule.id) != name {
                        faults.push(Fault {
                            file: name.clone(),
                            line: None,
                            what: format!("the id {} is not the file's path", rule.id),
                        });
                    }
                    if known.contains(&rule.id) {
                        self.rules.retain(|(r, _)| r.id != rule.id);
                    }
                    self.rules.push((*rule, name));
                }
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
        t.settings.extend(file.setting);
        t.foreign.extend(file.foreign);
        // Those of a folder come first: the first that fits decides.
        t.layouts.splice(0..0, file.layout);
        t.constants.extend(file.constant);
        for change in file.change {
            t.changes.retain(|o| o.id != change.id);
            t.changes.push(change);
        }
        t.trouble.looks.extend(file.trouble.looks);
        t.trouble.fine.extend(file.trouble.fine);
        t.trouble.levels.extend(file.trouble.levels);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_what_the_sources_say() {
        let Packed(files) = serde_json::from_slice(PACKED).unwrap();
        let (mut packed, mut faults) = (Knowledge::default(), Vec::new());
        packed.take(files, &mut faults);
        let (sources, told) = Knowledge::from_sources();
        assert_eq!(faults, told);
        assert_eq!(format!("{packed:?}"), format!("{sources:?}"));
    }
}
