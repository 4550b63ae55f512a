//! YAML, read line by line rather than as a document: manifests are often
//! templates, and every remark shall name its line. Known are lists of `name`
//! and `value` below `env:`, `NAME: value` maps, `- NAME=value` lists, and
//! assignments in the commands of a container.

use super::super::{Assignment, Environment, Level, Remark};
use super::{is_name, shell, unquoted};

/// Keys below which variables stand.
const BLOCKS: [&str; 6] = ["env:", "environment:", "envs:", "env_vars:", "data:", "stringData:"];

/// The block that is being read.
struct Block {
    indent: usize,
    kubernetes: bool,
    env: Environment,
    /// A `- name:` whose value has not come yet.
    open: Option<(String, usize)>,
}

impl Block {
    fn close_name(&mut self) {
        if let Some((name, line)) = self.open.take() {
            self.env.variables.push(Assignment { name, value: None, line });
        }
    }
}

pub(super) fn read(source: &str, text: &str) -> (Vec<Environment>, Vec<Remark>) {
    let kubernetes = text.lines().any(|l| l.trim_start().starts_with("apiVersion:"));
    let mut all: Vec<Environment> = Vec::new();
    let mut remarks = Vec::new();
    let mut block: Option<Block> = None;
    let mut commands =
        Environment { source: source.into(), part: "commands".into(), ..Environment::default() };
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let body = line.trim();
        if body.is_empty() || body.starts_with('#') || body.starts_with("{{") {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        if let Some(b) = &mut block {
            let inside = indent > b.indent || (indent == b.indent && body.starts_with('-'));
            if inside {
                item(b, body, number, &mut remarks);
                continue;
            }
            b.close_name();
            all.extend(block.take().map(|b| b.env));
        }
        let key = body.strip_prefix("- ").unwrap_or(body);
        if BLOCKS.contains(&key) {
            let part = format!("{} line {number}", key.trim_end_matches(':'));
            let env = Environment { source: source.into(), part, ..Environment::default() };
            // `data:` and maps hold texts of any kind; only lists of env are what Kubernetes insists on.
            let of_kubernetes = kubernetes && key == "env:";
            block = Some(Block {
                indent: indent + body.len() - key.len(),
                kubernetes: of_kubernetes,
                env,
                open: None,
            });
        } else if body.contains('=') {
            let command = unquoted(key.trim_end_matches(','));
            commands.variables.extend(shell::command_line(command, number));
        }
    }
    if let Some(mut b) = block {
        b.close_name();
        all.push(b.env);
    }
    all.push(commands);
    (all, remarks)
}

/// One line of a block.
fn item(b: &mut Block, body: &str, line: usize, remarks: &mut Vec<Remark>) {
    let (body, first) = match body.strip_prefix('-') {
        Some(rest) => (rest.trim_start(), true),
        None => (body, false),
    };
    if first {
        b.close_name();
    }
    if let Some(flow) = body.strip_prefix('{') {
        let part = |key: &str| {
            let at = flow.find(key)? + key.len();
            Some(flow[at..].split([',', '}']).next().unwrap_or("").trim().to_string())
        };
        if let Some(name) = part("name:") {
            let value = part("value:");
            set(b, unquoted(&name), value.as_deref(), line, remarks);
        }
        return;
    }
    let text = unquoted(body);
    if let Some((name, value)) = text.split_once('=')
        && is_name(name)
    {
        set(b, name, Some(value).filter(|v| !v.contains("${")), line, &mut Vec::new());
        return;
    }
    let Some((key, value)) = body.split_once(':') else { return };
    let (key, value) = (unquoted(key), value.trim());
    match key {
        "name" if b.open.is_none() && (first || !b.kubernetes) => {
            let name = unquoted(without_comment(value));
            if is_name(name) {
                b.open = Some((name.into(), line));
            }
        }
        "value" => {
            if let Some((name, line)) = b.open.take() {
                set(b, &name, Some(value), line, remarks);
            }
        }
        _ if is_name(key) && key.bytes().any(|c| c.is_ascii_uppercase()) && b.open.is_none() => {
            set(b, key, Some(value), line, &mut Vec::new());
        }
        _ => {}
    }
}

fn set(b: &mut Block, name: &str, raw: Option<&str>, line: usize, remarks: &mut Vec<Remark>) {
    let raw = raw.map(without_comment);
    let value =
        raw.map(unquoted).filter(|v| !v.contains("$(") && !v.contains("{{") && !v.starts_with(['|', '>']));
    if b.kubernetes
        && let (Some(raw), Some(value)) = (raw, value)
        && raw == value
        && no_text(raw)
    {
        remarks.push(Remark {
            level: Level::Wrong,
            kind: "manifest".into(),
            name: name.into(),
            value: Some(value.into()),
            source: b.env.source.clone(),
            line,
            say: format!("Kubernetes takes texts as values: {value} without quotes is none, and the manifest is refused."),
            instead: Some(format!("value: \"{value}\"")),
        });
    }
    let value = value.map(str::to_string);
    b.env.variables.push(Assignment { name: name.into(), value, line });
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
mod tests {
    use super::*;

    #[test]
    fn a_pod_with_two_containers() {
        let text = r#"apiVersion: v1
kind: Pod
spec:
  containers:
  - name: trainer
    image: x
    env:
    - name: NCCL_DEBUG
      value: "INFO"   # more
    - name: NCCL_IB_DISABLE
      value: 1
    - {name: NCCL_PROTO, value: "Simple"}
    - name: MASTER_ADDR
      valueFrom:
        fieldRef:
          fieldPath: status.podIP
    command: ["bash", "-c"]
    args:
    - export NCCL_ALGO=Ring; torchrun train.py
  - name: sidecar
    env:
      - name: NCCL_DEBUG
        value: WARN
"#;
        let (all, remarks) = read("p.yaml", text);
        let first = &all[0];
        assert_eq!(first.value("NCCL_DEBUG"), Some("INFO"));
        assert_eq!(first.get("NCCL_DEBUG").unwrap().line, 8);
        assert_eq!(first.value("NCCL_PROTO"), Some("Simple"));
        assert_eq!(first.get("MASTER_ADDR").map(|a| a.value.clone()), Some(None));
        assert_eq!(all[1].value("NCCL_DEBUG"), Some("WARN"));
        assert_eq!(all[2].value("NCCL_ALGO"), Some("Ring"));
        let kinds: Vec<_> = remarks.iter().map(|r| (r.kind.as_str(), r.line)).collect();
        assert_eq!(kinds, [("manifest", 10)]);
    }

    #[test]
    fn compose_files_and_maps() {
        let text = "services:\n  t:\n    environment:\n      - NCCL_DEBUG=INFO\n      - NCCL_X=${Y}\n  u:\n    environment:\n      NCCL_DEBUG: WARN\n      NCCL_IB_DISABLE: 1\n";
        let (all, remarks) = read("c.yaml", text);
        assert_eq!(all[0].value("NCCL_DEBUG"), Some("INFO"));
        assert_eq!(all[0].get("NCCL_X").map(|a| a.value.clone()), Some(None));
        assert_eq!(all[1].value("NCCL_IB_DISABLE"), Some("1"));
        assert!(remarks.is_empty(), "{remarks:?}");
    }
}
