//! JSON: every `Env` or `env` list of `NAME=value` texts or of objects with
//! `name` and `value`, and every object under such a key. Each is one
//! environment. Line numbers are found again in the text.

use super::super::{Assignment, Environment, Role};
use super::is_name;
use serde_json::Value;

const KEYS: [&str; 5] = ["env", "environment", "env_vars", "environmentvariables", "data"];

pub(super) fn read(source: &str, text: &str) -> Vec<Environment> {
    let mut found = Vec::new();
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let mut pods = 0;
        walk(
            &value,
            "",
            0,
            &Place { bare: kind(&value) == "Pod", ..Place::default() },
            &mut pods,
            &mut found,
        );
    }
    let several = found.len() > 1;
    let mut from = 0;
    found
        .into_iter()
        .enumerate()
        .map(|(nth, (place, pairs))| Environment {
            source: source.into(),
            part: if several { format!("environment {}", nth + 1) } else { String::new() },
            variables: pairs
                .into_iter()
                .map(|(name, value)| {
                    let at = text[from..].find(&format!("\"{name}")).map(|at| from + at);
                    from = at.unwrap_or(from);
                    let line = at.map_or(0, |at| text[..at].matches('\n').count() + 1);
                    Assignment { name, value, line }
                })
                .collect(),
            role: place.role,
            open: place.open,
        })
        .collect()
}

/// What is known of what is being walked through.
#[derive(Clone, Default)]
struct Place {
    role: Role,
    /// Whether the object is a pod that no job made.
    bare: bool,
    open: bool,
}

fn kind(value: &Value) -> &str {
    value.get("kind").and_then(Value::as_str).unwrap_or("")
}

type Pairs = Vec<(String, Option<String>)>;

fn walk(
    value: &Value,
    key: &str,
    depth: usize,
    place: &Place,
    pods: &mut usize,
    out: &mut Vec<(Place, Pairs)>,
) {
    if depth > 64 {
        return;
    }
    let place = &match key {
        "data" | "initContainers" | "ephemeralContainers" | "Launcher" | "headGroupSpec" => {
            Place { role: Role::Other, ..place.clone() }
        }
        _ => place.clone(),
    };
    if key == "containers"
        && place.role != Role::Other
        && let Value::Array(list) = value
    {
        *pods += 1;
        for item in list {
            let name = item.get("name").and_then(Value::as_str).unwrap_or("").to_string();
            let role =
                Role::Container { job: usize::from(!place.bare), pod: *pods, name, alone: list.len() == 1 };
            walk(
                item,
                "",
                depth + 1,
                &Place { role, bare: place.bare, open: item.get("envFrom").is_some() },
                pods,
                out,
            );
        }
        return;
    }
    let mut pairs = Pairs::new();
    let named = KEYS.contains(&key.to_ascii_lowercase().as_str());
    match value {
        Value::Array(list) => {
            for item in list {
                if named && let Some(pair) = pair(item) {
                    pairs.push(pair);
                } else {
                    let bare = place.bare || kind(item) == "Pod";
                    walk(item, "", depth + 1, &Place { bare, ..place.clone() }, pods, out);
                }
            }
            // A bare list of assignments, as `docker inspect -f '{{json .Config.Env}}'` prints.
            if depth == 0 && list.iter().all(Value::is_string) {
                pairs.extend(list.iter().filter_map(pair));
            }
        }
        Value::Object(map) => {
            for (k, v) in map {
                match v {
                    Value::String(s) if named && is_name(k) => pairs.push((k.clone(), Some(s.clone()))),
                    Value::Number(n) if named && is_name(k) => pairs.push((k.clone(), Some(n.to_string()))),
                    _ => walk(v, k, depth + 1, place, pods, out),
                }
            }
        }
        _ => {}
    }
    if !pairs.is_empty() {
        out.push((place.clone(), pairs));
    }
}

/// `"NAME=value"`, or `{"name": …, "value": …}`.
fn pair(item: &Value) -> Option<(String, Option<String>)> {
    match item {
        Value::String(s) => {
            let (name, value) = s.split_once('=')?;
            is_name(name).then(|| (name.to_string(), Some(value.to_string())))
        }
        Value::Object(map) => {
            let name = map.get("name")?.as_str()?;
            let value = match map.get("value") {
                Some(Value::String(s)) => Some(s.clone()),
                Some(v @ (Value::Number(_) | Value::Bool(_))) => Some(v.to_string()),
                _ => None,
            };
            is_name(name).then(|| (name.to_string(), value))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_and_manifests() {
        let text = r#"[{"Id": "c1", "Config": {"Env": [
            "NCCL_DEBUG=INFO",
            "NCCL_SOCKET_IFNAME=eth0"]}},
          {"Config": {"Env": ["NCCL_DEBUG=WARN"]}}]"#;
        let all = read("d.json", text);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].value("NCCL_SOCKET_IFNAME"), all[0].variables[1].line), (Some("eth0"), 3));
        assert_eq!(all[1].value("NCCL_DEBUG"), Some("WARN"));
        let text = r#"{"spec": {"containers": [{"name": "t", "env": [
            {"name": "NCCL_IB_DISABLE", "value": "1"},
            {"name": "NCCL_DEBUG", "valueFrom": {"fieldRef": {}}}]}]}}"#;
        let all = read("p.json", text);
        assert_eq!(all[0].value("NCCL_IB_DISABLE"), Some("1"));
        assert_eq!(all[0].get("NCCL_DEBUG").map(|a| a.value.clone()), Some(None));
        assert_eq!(read("l", r#"["NCCL_DEBUG=INFO"]"#)[0].value("NCCL_DEBUG"), Some("INFO"));
    }
}
