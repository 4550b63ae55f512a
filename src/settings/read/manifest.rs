//! YAML, read line by line rather than as a document: manifests are often
//! templates, and every remark shall name its line. Known are lists of `name`
//! and `value` below `env:`, `NAME: value` maps, `- NAME=value` lists, and
//! assignments in the commands of a container. What a container is given in
//! several places of one file is one environment.

use super::super::{Assignment, Environment, Level, Remark, Role};
use super::flow::{self, Flow};
use super::{is_name, shell, unquoted};

/// Keys below which variables stand.
const BLOCKS: [&str; 6] = ["env", "environment", "envs", "env_vars", "data", "stringData"];
/// Lists of containers.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// Parts of a job whose containers start ranks and are none.
const NO_RANKS: [&str; 2] = ["Launcher", "headGroupSpec"];
/// Lines over which brackets may stay open.
const LONGEST_FLOW: usize = 400;

pub(super) fn read(source: &str, text: &str) -> (Vec<Environment>, Vec<Remark>) {
    let lines: Vec<&str> = text.lines().collect();
    let kubernetes = lines.iter().any(|l| l.trim_start().starts_with("apiVersion:"));
    let mut reader = Reader {
        source,
        kubernetes,
        remarks: Vec::new(),
        path: Vec::new(),
        document: 0,
        kind: String::new(),
        map: String::new(),
        pods: 0,
        containers: Vec::new(),
        blocks: Vec::new(),
        commands: Vec::new(),
    };
    let mut at = 0;
    while at < lines.len() {
        at = reader.line(&lines, at);
    }
    reader.finish()
}

/// A key that is open.
struct Frame {
    indent: usize,
    key: String,
    /// Container of the list item that is open below it.
    container: Option<usize>,
    /// Pod, where the key is a list of containers.
    pod: usize,
}

struct Container {
    document: usize,
    /// Whether its document is one pod: several such are often one job.
    bare: bool,
    pod: usize,
    name: String,
    /// Whether a rank may run in it.
    rank: bool,
    line: usize,
    variables: Vec<Assignment>,
    commands: Vec<Assignment>,
    /// ConfigMaps that it is given.
    from: Vec<String>,
    open: bool,
}

/// Variables that belong to no container.
struct Block {
    part: String,
    /// Name of the ConfigMap.
    map: String,
    /// A service of a compose file.
    service: bool,
    variables: Vec<Assignment>,
}

struct Reader<'t> {
    source: &'t str,
    kubernetes: bool,
    remarks: Vec<Remark>,
    path: Vec<Frame>,
    document: usize,
    kind: String,
    /// Name of the document, where it is a ConfigMap.
    map: String,
    pods: usize,
    containers: Vec<Container>,
    blocks: Vec<Block>,
    commands: Vec<Assignment>,
}

/// A line without its indent and the mark of a list item, and where what remains begins.
struct Cut<'l> {
    body: &'l str,
    indent: usize,
    item: bool,
}

fn cut(line: &str) -> Cut<'_> {
    let trimmed = line.trim_start();
    let indent = line.len() - trimmed.len();
    match trimmed.strip_prefix('-') {
        Some(rest) if rest.is_empty() || rest.starts_with(' ') => {
            let body = rest.trim_start();
            Cut { body: body.trim_end(), indent: indent + trimmed.len() - body.len(), item: true }
        }
        _ => Cut { body: trimmed.trim_end(), indent, item: false },
    }
}

/// Nothing, a comment, or a line of a template.
fn is_idle(line: &str) -> bool {
    let body = line.trim();
    body.is_empty() || body.starts_with('#') || body.starts_with("{{")
}

impl Reader<'_> {
    /// Reads what begins on a line; says which line comes next.
    fn line(&mut self, lines: &[&str], at: usize) -> usize {
        let line = lines[at];
        if is_idle(line) {
            return at + 1;
        }
        if line.starts_with("---") {
            self.path.clear();
            self.document += 1;
            self.kind.clear();
            self.map.clear();
            return at + 1;
        }
        let cut = cut(line);
        let dash = line.len() - line.trim_start().len();
        // A list may stand at the indent of its key.
        while self.path.last().is_some_and(|f| if cut.item { f.indent > dash } else { f.indent >= dash }) {
            self.path.pop();
        }
        if cut.item {
            self.item(at);
        }
        let Some((key, value)) = key_of(cut.body) else {
            self.command(cut.body, at + 1);
            return at + 1;
        };
        let next = self.key(key, value, cut.indent, lines, at);
        if next == at + 1 && (value.contains('=') || value.is_empty() && cut.body.contains('=')) {
            self.command(cut.body, at + 1);
        }
        next
    }

    /// A new item of the list of containers, where that is the list.
    fn item(&mut self, at: usize) {
        let (document, bare) = (self.document, self.kind == "Pod");
        let rank = !self.path.iter().any(|f| NO_RANKS.contains(&f.key.as_str()));
        let Some(list) = self.path.last_mut().filter(|f| CONTAINERS.contains(&f.key.as_str())) else {
            return;
        };
        list.container = Some(self.containers.len());
        self.containers.push(Container {
            document,
            bare,
            pod: list.pod,
            name: String::new(),
            rank: rank && list.key == "containers",
            line: at + 1,
            variables: Vec::new(),
            commands: Vec::new(),
            from: Vec::new(),
            open: false,
        });
    }

    /// A key with what stands behind it on its line.
    fn key(&mut self, key: &str, value: &str, indent: usize, lines: &[&str], at: usize) -> usize {
        let above = self.path.last().map_or("", |f| f.key.as_str()).to_string();
        let in_item = CONTAINERS.contains(&above.as_str());
        let plain = unquoted(without_comment(value));
        match key {
            "kind" if indent == 0 => self.kind = plain.to_string(),
            "name" if above == "metadata" && self.path.len() == 1 && self.kind == "ConfigMap" => {
                self.map = plain.to_string();
            }
            "metadata" if indent == 0 && self.kind == "ConfigMap" => {
                if let Some(name) =
                    flow::parse(value).as_ref().and_then(|f| f.get("name")).and_then(Flow::text)
                {
                    self.map = unquoted(name).to_string();
                }
            }
            "name" if in_item => {
                if let Some(c) = self.container() {
                    c.name = plain.to_string();
                }
            }
            "name" if above == "configMapRef" => {
                if let Some(c) = self.container() {
                    c.from.push(plain.to_string());
                }
            }
            "configMapRef" if value.starts_with('{') => {
                let flow = flow::parse(value);
                let name = flow.as_ref().and_then(|f| f.get("name")).and_then(Flow::text).map(unquoted);
                if let (Some(c), Some(name)) = (self.container(), name) {
                    c.from.push(name.to_string());
                }
            }
            "secretRef" | "env_file" => self.opened(),
            "envFrom" if !value.is_empty() => self.opened(),
            _ => {}
        }
        let block =
            BLOCKS.contains(&key) && (without_comment(value).is_empty() || value.starts_with(['{', '[']));
        if block {
            return self.block(key, value, indent, lines, at);
        }
        let pod = if CONTAINERS.contains(&key) {
            // Init containers stand in the pod of the others.
            if key == "containers" {
                self.pods += 1;
            }
            self.pods
        } else {
            0
        };
        self.path.push(Frame { indent, key: key.to_string(), container: None, pod });
        at + 1
    }

    fn container(&mut self) -> Option<&mut Container> {
        let at = self.path.iter().rev().find_map(|f| f.container)?;
        self.containers.get_mut(at)
    }

    fn opened(&mut self) {
        if let Some(c) = self.container() {
            c.open = true;
        }
    }

    fn command(&mut self, body: &str, line: usize) {
        if !body.contains('=') {
            return;
        }
        let found = shell::command_line(unquoted(body.trim_end_matches(',')), line);
        match self.container() {
            Some(c) => c.commands.extend(found),
            None => self.commands.extend(found),
        }
    }

    /// Variables below a key, or in brackets behind it.
    fn block(&mut self, key: &str, value: &str, indent: usize, lines: &[&str], at: usize) -> usize {
        // `data:` and maps hold texts of any kind; only lists of env are what Kubernetes insists on.
        let strict = self.kubernetes && key == "env";
        let mut list =
            List { source: self.source, strict, item: None, variables: Vec::new(), remarks: Vec::new() };
        let mut next = at + 1;
        if value.starts_with(['{', '[']) {
            let text = flow_text(value, lines, &mut next);
            if let Some(flow) = flow::parse(&text) {
                list.flow(&flow, at + 1);
            }
        } else {
            while next < lines.len() {
                let line = lines[next];
                let own = line.len() - line.trim_start().len();
                let inside = own > indent || own == indent && line.trim_start().starts_with('-');
                if !is_idle(line) {
                    if !inside || line.starts_with("---") {
                        break;
                    }
                    next = list.line(lines, next);
                } else {
                    next += 1;
                }
            }
            list.close();
        }
        self.remarks.append(&mut list.remarks);
        let map = if self.kind == "ConfigMap" { self.map.clone() } else { String::new() };
        let service = self.path.first().is_some_and(|f| f.key == "services");
        match self.container() {
            Some(c) => c.variables.extend(list.variables),
            None => {
                let part = format!("{key} line {}", at + 1);
                self.blocks.push(Block { part, map, service, variables: list.variables });
            }
        }
        next
    }

    fn finish(self) -> (Vec<Environment>, Vec<Remark>) {
        let mut all = Vec::new();
        let environment = |part: String, variables: Vec<Assignment>, role: Role, open: bool| Environment {
            source: self.source.into(),
            part,
            variables,
            role,
            open,
        };
        let mut used = Vec::new();
        for c in &self.containers {
            let mut variables = Vec::new();
            let mut open = c.open;
            for name in &c.from {
                let maps: Vec<&Block> =
                    self.blocks.iter().filter(|b| !b.map.is_empty() && b.map == *name).collect();
                open |= maps.is_empty();
                used.extend(maps.iter().map(|b| b.part.clone()));
                variables.extend(maps.iter().flat_map(|b| b.variables.iter().cloned()));
            }
            variables.extend(c.variables.iter().cloned());
            variables.extend(c.commands.iter().cloned());
            let others = self.containers.iter().filter(|o| o.pod == c.pod && o.rank && c.rank).count();
            let role = if c.rank && !c.name.to_lowercase().contains("launcher") {
                // Several bare pods are taken for one job, several jobs are not.
                let job = if c.bare { 0 } else { c.document + 1 };
                Role::Container { job, pod: c.pod, name: c.name.clone(), alone: others == 1 }
            } else {
                Role::Other
            };
            let part = if c.name.is_empty() {
                format!("container of line {}", c.line)
            } else {
                format!("container {} of line {}", c.name, c.line)
            };
            all.push(environment(part, variables, role, open));
        }
        for b in self.blocks.iter().filter(|b| !used.contains(&b.part)) {
            let role = if b.service { Role::Rank } else { Role::Other };
            all.push(environment(b.part.clone(), b.variables.clone(), role, b.service));
        }
        all.push(environment("commands".into(), self.commands.clone(), Role::Other, true));
        (all, self.remarks)
    }
}

/// `key: value`, or `key:`.
fn key_of(body: &str) -> Option<(&str, &str)> {
    let (key, value) = body.split_once(':')?;
    let key = unquoted(key);
    let fits = !key.is_empty() && !key.contains([' ', '=', '{', '[', '"']);
    (fits && (value.is_empty() || value.starts_with([' ', '\t']))).then(|| (key, value.trim()))
}

/// A value in brackets, up to the line on which they are closed.
fn flow_text(value: &str, lines: &[&str], next: &mut usize) -> String {
    let mut text = value.to_string();
    let last = (*next + LONGEST_FLOW).min(lines.len());
    while *next < last && flow::open_brackets(&text) > 0 {
        text.push('\n');
        text.push_str(lines[*next]);
        *next += 1;
    }
    text
}

/// The lines of a block.
struct List<'t> {
    source: &'t str,
    /// Kubernetes, which takes texts only.
    strict: bool,
    item: Option<Item>,
    variables: Vec<Assignment>,
    remarks: Vec<Remark>,
}

/// `- name:` with `value:`, in either order.
struct Item {
    indent: usize,
    name: Option<(String, usize)>,
    value: Option<String>,
}

impl List<'_> {
    fn close(&mut self) {
        if let Some(Item { name: Some((name, line)), value, .. }) = self.item.take() {
            self.set(&name, value.as_deref(), line, self.strict);
        }
    }

    /// Reads a line, and those that its brackets reach over; says which comes next.
    fn line(&mut self, lines: &[&str], at: usize) -> usize {
        let cut = cut(lines[at]);
        let (line, mut next) = (at + 1, at + 1);
        if cut.item {
            self.close();
            self.item = Some(Item { indent: cut.indent, name: None, value: None });
        }
        if cut.body.starts_with('{') {
            let text = flow_text(cut.body, lines, &mut next);
            if let Some(flow) = flow::parse(&text) {
                self.flow(&Flow::List(vec![flow]), line);
            }
            return next;
        }
        let text = unquoted(cut.body);
        if let Some((name, value)) = text.split_once('=')
            && is_name(name)
        {
            self.set(name, Some(value).filter(|v| !v.contains("${")), line, false);
            return next;
        }
        let Some((key, value)) = cut.body.split_once(':') else { return next };
        let (key, value) = (unquoted(key), value.trim());
        match (&mut self.item, key) {
            (Some(item), "name") if item.indent == cut.indent => {
                let name = unquoted(without_comment(value));
                item.name = is_name(name).then(|| (name.to_string(), line));
            }
            (Some(item), "value") if item.indent == cut.indent => item.value = Some(value.to_string()),
            (Some(Item { name: Some(_), .. } | Item { value: Some(_), .. }), _) => {}
            _ if is_name(key) && key.bytes().any(|c| c.is_ascii_uppercase()) => {
                self.set(key, Some(value), line, false);
            }
            _ => {}
        }
        next
    }

    /// A map of names, or a list of maps with `name` and `value` or of `NAME=value`.
    fn flow(&mut self, flow: &Flow, line: usize) {
        match flow {
            Flow::Map(pairs) => {
                for (name, value) in pairs {
                    if let Flow::Text(text, below) = value
                        && is_name(name)
                    {
                        self.set(name, Some(text), line + below, false);
                    }
                }
            }
            Flow::List(list) => {
                for item in list {
                    match item {
                        Flow::Text(text, below) => {
                            if let Some((name, value)) = unquoted(text).split_once('=')
                                && is_name(name)
                            {
                                self.set(
                                    name,
                                    Some(value).filter(|v| !v.contains("${")),
                                    line + below,
                                    false,
                                );
                            }
                        }
                        item => {
                            let name =
                                item.get("name").and_then(Flow::text).map(unquoted).filter(|n| is_name(n));
                            match (name, item.get("name")) {
                                (Some(name), Some(Flow::Text(_, below))) => {
                                    let value = item.get("value").and_then(Flow::text);
                                    self.set(name, value, line + below, self.strict);
                                }
                                _ => self.flow(item, line),
                            }
                        }
                    }
                }
            }
            Flow::Text(..) => {}
        }
    }

    fn set(&mut self, name: &str, raw: Option<&str>, line: usize, strict: bool) {
        let raw = raw.map(without_comment);
        let value = raw
            .map(unquoted)
            .filter(|v| !v.contains("$(") && !v.contains("{{") && !v.starts_with(['|', '>']));
        if strict
            && let (Some(raw), Some(value)) = (raw, value)
            && raw == value
            && no_text(raw)
        {
            self.remarks.push(Remark {
                level: Level::Wrong,
                kind: "manifest".into(),
                name: name.into(),
                value: Some(value.into()),
                source: self.source.into(),
                line,
                say: format!(
                    "Kubernetes takes texts as values: {value} without quotes is none, and the manifest is refused."
                ),
                instead: Some(format!("value: \"{value}\"")),
            });
        }
        let value = value.map(str::to_string);
        self.variables.push(Assignment { name: name.into(), value, line });
    }
}

/// What YAML takes for a number or a truth value.
fn no_text(raw: &str) -> bool {
    let digits = raw.trim_start_matches(['-', '+']);
    raw.parse::<f64>().is_ok() && digits.starts_with(|c: char| c.is_ascii_digit())
        || ["true", "false"].contains(&raw.to_ascii_lowercase().as_str())
}

fn without_comment(value: &str) -> &str {
    if value.starts_with(['"', '\'']) {
        let quote = &value[..1];
        return match value[1..].find(quote) {
            Some(end) => &value[..end + 2],
            None => value,
        };
    }
    value.split(" #").next().unwrap_or(value).trim()
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
