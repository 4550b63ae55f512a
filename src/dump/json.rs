//! Reads JSON documents, also such as end early: what was complete before the
//! cut is closed there and read. `recorder` gets the values as a `tree`, the
//! readers of small documents (RAS, stacks, error files) as they are.

use std::borrow::Cow;

use super::tree::{Full, Tree, Value};

/// Brackets deeper than this are no dump.
const MAX_DEPTH: usize = 100;

/// The document and, where it is damaged, what was wrong.
pub(super) fn parse(bytes: &[u8]) -> Option<(serde_json::Value, Option<String>)> {
    let error = match serde_json::from_slice(bytes) {
        Ok(value) => return Some((value, None)),
        Err(error) => error,
    };
    // Where the reader stopped, complete values may stand before.
    let stop = if error.is_eof() { bytes.len() } else { offset(bytes, error.line(), error.column()) };
    let what =
        if error.is_eof() { format!("the file is cut at byte {stop}") } else { format!("not JSON: {error}") };
    let closed = close(&bytes[..stop.min(bytes.len())])?;
    let value = serde_json::from_slice(&closed).ok()?;
    Some((value, Some(what)))
}

fn offset(bytes: &[u8], line: usize, column: usize) -> usize {
    let start = match line.checked_sub(2) {
        None => 0,
        Some(n) => memchr::memchr_iter(b'\n', bytes).nth(n).map_or(0, |at| at + 1),
    };
    (start + column).saturating_sub(1).min(bytes.len())
}

/// The text up to its last complete record, with the brackets closed that
/// were open there. A record is what ends at the first or second level, or
/// the outermost that ended at all.
fn close(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut open: Vec<u8> = Vec::new();
    let mut best: Option<(usize, Vec<u8>)> = None;
    let mut quoted = false;
    let mut escaped = false;
    for (at, byte) in bytes.iter().copied().enumerate() {
        if quoted {
            (quoted, escaped) = match byte {
                _ if escaped => (true, false),
                b'\\' => (true, true),
                b'"' => (false, false),
                _ => (true, false),
            };
            continue;
        }
        match byte {
            b'"' => quoted = true,
            b'{' | b'[' => {
                if open.len() >= MAX_DEPTH {
                    return None;
                }
                open.push(if byte == b'{' { b'}' } else { b']' });
            }
            b'}' | b']' => {
                if open.pop() != Some(byte) {
                    break;
                }
                let better = best.as_ref().is_none_or(|b| open.len() <= 2.max(b.1.len()));
                if better && !open.is_empty() {
                    best = Some((at + 1, open.clone()));
                }
            }
            _ => {}
        }
    }
    let (end, open) = best?;
    let mut text = bytes[..end].to_vec();
    text.extend(open.iter().rev());
    Some(text)
}

/// The same document as a tree.
pub(super) fn to_tree(value: &serde_json::Value) -> Result<(Tree<'_>, Value), Full> {
    let mut tree = Tree::default();
    let root = plant(&mut tree, value)?;
    Ok((tree, root))
}

fn plant<'a>(tree: &mut Tree<'a>, value: &'a serde_json::Value) -> Result<Value, Full> {
    Ok(match value {
        serde_json::Value::Null => Value::None,
        serde_json::Value::Bool(b) => Value::Bool(*b),
        serde_json::Value::Number(n) => {
            n.as_i64().map_or_else(|| Value::Float(n.as_f64().unwrap_or(f64::NAN)), Value::Int)
        }
        serde_json::Value::String(s) => tree.text_value(Cow::Borrowed(s))?,
        serde_json::Value::Array(list) => {
            let items = list.iter().map(|v| plant(tree, v)).collect::<Result<Vec<_>, _>>()?;
            filled(tree, false, &items)?
        }
        serde_json::Value::Object(map) => {
            let mut items = Vec::with_capacity(map.len() * 2);
            for (key, item) in map {
                items.push(tree.text_value(Cow::Borrowed(key))?);
                items.push(plant(tree, item)?);
            }
            filled(tree, true, &items)?
        }
    })
}

fn filled(tree: &mut Tree<'_>, table: bool, items: &[Value]) -> Result<Value, Full> {
    let value = if table { tree.map()? } else { tree.seq()? };
    if let Value::Seq(id) | Value::Map(id) = value {
        tree.extend(id, items)?;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::parse;
    use proptest::prelude::*;

    #[test]
    fn a_cut_keeps_the_whole_records() {
        let text = br#"{"entries":[{"a":[1]},{"a":[2],"b":"}"},{"a":[3]"#;
        let (value, damage) = parse(text).unwrap();
        assert_eq!(value["entries"].as_array().map(Vec::len), Some(2));
        assert!(damage.unwrap().contains("cut"));
    }

    proptest! {
        #[test]
        fn any_cut_is_read(cut in 1usize..60) {
            let text = br#"{"version":"2.4","entries":[{"a":[1]},{"a":[2],"b":"\"}"}]}"#;
            if let Some((value, _)) = parse(&text[..cut.min(text.len())]) {
                prop_assert!(value.is_object());
            }
        }
    }
}
