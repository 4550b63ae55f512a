//! The plain values that a dump is made of, whoever wrote it: numbers, texts,
//! lists and tables in one flat store. A value that a pickle names twice is
//! held once and named twice here too, so a small hostile file cannot grow
//! into a large one. `pickle` and `json` fill it, `recorder` reads it.

use std::borrow::Cow;

/// Most values one document may hold (16 bytes each).
const MAX_VALUES: usize = 1 << 24;

/// One value; texts, lists and tables are numbers into the [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(u32),
    /// Bytes that nothing here reads.
    Blob,
    Seq(u32),
    Map(u32),
}

/// The store is full: the document is larger than any dump.
#[derive(Debug)]
pub(super) struct Full;

#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    len: usize,
    room: usize,
}

/// All values of one document.
#[derive(Debug, Default)]
pub(super) struct Tree<'a> {
    texts: Vec<Cow<'a, str>>,
    pool: Vec<Value>,
    spans: Vec<Span>,
}

impl<'a> Tree<'a> {
    pub(super) fn text_value(&mut self, text: Cow<'a, str>) -> Result<Value, Full> {
        let at = u32::try_from(self.texts.len()).map_err(|_| Full)?;
        if self.texts.len() >= MAX_VALUES {
            return Err(Full);
        }
        self.texts.push(text);
        Ok(Value::Str(at))
    }

    fn span(&mut self) -> Result<u32, Full> {
        if self.spans.len() >= MAX_VALUES {
            return Err(Full);
        }
        let at = u32::try_from(self.spans.len()).map_err(|_| Full)?;
        self.spans.push(Span { start: self.pool.len(), len: 0, room: 0 });
        Ok(at)
    }

    pub(super) fn seq(&mut self) -> Result<Value, Full> {
        self.span().map(Value::Seq)
    }

    pub(super) fn map(&mut self) -> Result<Value, Full> {
        self.span().map(Value::Map)
    }

    /// Puts values at the end of a list, or keys and values in turns at the end of a table.
    pub(super) fn extend(&mut self, id: u32, values: &[Value]) -> Result<(), Full> {
        let Some(mut span) = self.spans.get(id as usize).copied() else { return Ok(()) };
        let need = span.len + values.len();
        if span.len == 0 || span.start + span.room == self.pool.len() {
            if span.len == 0 && span.room < need {
                span.start = self.pool.len();
                span.room = 0;
            }
        } else if need > span.room {
            self.fits(need * 2)?;
            let old = span.start..span.start + span.len;
            span.start = self.pool.len();
            self.pool.extend_from_within(old);
            self.pool.resize(span.start + need * 2, Value::None);
            span.room = need * 2;
        }
        if need > span.room {
            self.fits(need - span.room)?;
            self.pool.resize(span.start + need, Value::None);
            span.room = need;
        }
        let at = span.start + span.len;
        self.pool[at..at + values.len()].copy_from_slice(values);
        span.len = need;
        self.spans[id as usize] = span;
        Ok(())
    }

    fn fits(&self, more: usize) -> Result<(), Full> {
        if self.pool.len() + more > MAX_VALUES { Err(Full) } else { Ok(()) }
    }

    pub(super) fn texts(&self) -> usize {
        self.texts.len()
    }

    pub(super) fn text(&self, id: u32) -> &str {
        self.texts.get(id as usize).map_or("", |t| t.as_ref())
    }

    fn items(&self, id: u32) -> &[Value] {
        self.spans.get(id as usize).map_or(&[], |s| &self.pool[s.start..s.start + s.len])
    }

    /// The items of a list; nothing for any other value.
    pub(super) fn list(&self, value: Value) -> &[Value] {
        if let Value::Seq(id) = value { self.items(id) } else { &[] }
    }

    /// Keys and values of a table; nothing for any other value.
    pub(super) fn pairs(&self, value: Value) -> impl Iterator<Item = (Value, Value)> + '_ {
        let items = if let Value::Map(id) = value { self.items(id) } else { &[] };
        items.chunks_exact(2).map(|p| (p[0], p[1]))
    }

    /// What a table holds under a text key; the last one written counts.
    pub(super) fn get(&self, value: Value, key: &str) -> Option<Value> {
        let items = if let Value::Map(id) = value { self.items(id) } else { &[] };
        let found = items.chunks_exact(2).rev().find(|p| self.str(p[0]) == Some(key));
        found.map(|p| p[1])
    }

    pub(super) fn str(&self, value: Value) -> Option<&str> {
        if let Value::Str(id) = value { Some(self.text(id)) } else { None }
    }

    /// A whole number, also where it was written as text or float.
    pub(super) fn int(&self, value: Value) -> Option<i64> {
        match value {
            Value::Int(i) => Some(i),
            Value::Bool(b) => Some(i64::from(b)),
            Value::Float(f) if f.is_finite() && f.abs() < 9e18 => Some(f as i64),
            Value::Str(id) => self.text(id).trim().parse().ok(),
            _ => None,
        }
    }

    /// Text as it stands, or a number written as text.
    pub(super) fn label(&self, value: Value) -> Option<String> {
        match value {
            Value::Str(id) => Some(self.text(id).to_string()),
            Value::Int(i) => Some(i.to_string()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Tree, Value};

    #[test]
    fn lists_grow_in_turns_without_mixing() {
        let mut tree = Tree::default();
        let (Ok(Value::Seq(a)), Ok(Value::Seq(b))) = (tree.seq(), tree.seq()) else { panic!() };
        for i in 0..1000 {
            tree.extend(a, &[Value::Int(i)]).unwrap();
            tree.extend(b, &[Value::Int(-i)]).unwrap();
        }
        let list = tree.list(Value::Seq(a));
        assert_eq!(list.len(), 1000);
        assert!(list.iter().enumerate().all(|(i, v)| *v == Value::Int(i as i64)));
        assert_eq!(tree.list(Value::Seq(b))[999], Value::Int(-999));
        assert!(tree.pool.len() < 20_000);
    }
}
