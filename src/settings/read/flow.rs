//! YAML's flow form, `{a: 1, b: [x, "y"]}`, which JSON is a part of: what
//! stands behind a key on its line and, until the brackets are closed, below it.

/// A value of the flow form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flow {
    /// Text as it stands, with its quotes, and how many line ends stand before it.
    Text(String, usize),
    List(Vec<Flow>),
    Map(Vec<(String, Flow)>),
}

impl Flow {
    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Flow> {
        match self {
            Self::Map(pairs) => pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text, _) => Some(text),
            _ => None,
        }
    }
}

/// Brackets that are open at the end of a text; quotes count as in YAML.
pub(super) fn open_brackets(text: &str) -> i32 {
    let (mut open, mut quote) = (0, None);
    for c in text.chars() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            (None, '{' | '[') => open += 1,
            (None, '}' | ']') => open -= 1,
            _ => {}
        }
    }
    open
}

/// Reads one value; `None` where the text is none.
pub(super) fn parse(text: &str) -> Option<Flow> {
    let mut reader = Reader { text, at: 0 };
    reader.value(0)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn takes(&mut self, c: char) -> bool {
        self.blanks();
        let found = self.rest().starts_with(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn value(&mut self, depth: usize) -> Option<Flow> {
        if depth > 32 {
            return None;
        }
        if self.takes('[') {
            let mut list = Vec::new();
            while !self.takes(']') {
                list.push(self.value(depth + 1)?);
                if !self.takes(',') && !self.rest().starts_with(']') {
                    return None;
                }
            }
            return Some(Flow::List(list));
        }
        if self.takes('{') {
            let mut pairs = Vec::new();
            while !self.takes('}') {
                let key = self.word(":,}")?;
                let value =
                    if self.takes(':') { self.value(depth + 1)? } else { Flow::Text(String::new(), 0) };
                pairs.push((super::unquoted(&key).to_string(), value));
                if !self.takes(',') && !self.rest().starts_with('}') {
                    return None;
                }
            }
            return Some(Flow::Map(pairs));
        }
        self.blanks();
        let line = self.text[..self.at].matches('\n').count();
        Some(Flow::Text(self.word(",]}")?, line))
    }

    /// A quoted text, or one up to any of these.
    fn word(&mut self, ends: &str) -> Option<String> {
        self.blanks();
        let rest = self.rest();
        let quote = rest.chars().next().filter(|c| ['"', '\''].contains(c));
        let len = match quote {
            Some(q) => rest[1..].find(q)? + 2,
            None => rest.find(|c| ends.contains(c)).unwrap_or(rest.len()),
        };
        let word = rest[..len].trim().to_string();
        if len == 0 && !ends.contains(rest.chars().next()?) {
            return None;
        }
        self.at += len;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_maps() {
        let flow = parse(r#"{"A": "1, 2", b: [x, {name: 'N', value: 3}], c: {}}"#).unwrap();
        assert_eq!(flow.get("A").and_then(Flow::text), Some("\"1, 2\""));
        let Some(Flow::List(list)) = flow.get("b") else { panic!("no list") };
        assert_eq!(list[1].get("value").and_then(Flow::text), Some("3"));
        assert_eq!(parse("{A: x,\n B: y}").unwrap().get("B"), Some(&Flow::Text("y".into(), 1)));
        assert_eq!((open_brackets("{a: '}'"), open_brackets("[]")), (1, 0));
    }

    #[test]
    fn hostile_texts_end() {
        for text in ["{", "[", "{a", "{a:", "[[[", "]", "{\"", "{,}", "[,]", "", "{{ x }}", "\u{e9}{"] {
            let _ = parse(text);
        }
        let _ = parse(&"[".repeat(100_000));
    }
}
