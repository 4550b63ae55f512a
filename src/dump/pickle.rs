//! Reads pickles of protocols 2 to 5 as far as plain data needs it: tables,
//! lists, tuples, texts, numbers, and values named again by number. Whatever
//! would import or call something is refused and nothing is ever executed.
//! A file that ends early gives what was complete before the cut. The values
//! go to `tree`; `recorder` knows what they mean.

use std::borrow::Cow;

use super::tree::{Full, Tree, Value};

/// Deepest nesting of open lists and tables.
const MAX_DEPTH: usize = 256;

/// How reading ended.
#[derive(Debug, PartialEq)]
pub(super) enum End {
    Whole,
    /// What stopped it; what was complete until then was kept.
    Broken(String),
    /// It wants something imported or called.
    Refused(String),
}

/// The root value, the store, and how reading ended.
pub(super) fn read(bytes: &[u8]) -> (Tree<'_>, Value, End) {
    let mut reader = Reader {
        bytes,
        at: 0,
        tree: Tree::default(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        memoized: 0,
    };
    let end = loop {
        match reader.step() {
            Ok(None) => {}
            Ok(Some(root)) => return (reader.tree, root, End::Whole),
            Err(end) => break end,
        }
    };
    let root = if matches!(end, End::Refused(_)) { Value::None } else { reader.fold() };
    (reader.tree, root, end)
}

/// Whether the bytes begin like a pickle of protocol 2 to 5.
pub(super) fn looks_like(bytes: &[u8]) -> bool {
    matches!(bytes, [0x80, 2..=5, ..])
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    tree: Tree<'a>,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: Vec<Option<Value>>,
    memoized: usize,
}

type Step = Result<Option<Value>, End>;

fn broken(text: &str, at: usize) -> End {
    End::Broken(format!("{text} at byte {at}"))
}

impl From<Full> for End {
    fn from(_: Full) -> Self {
        Self::Broken("it holds more values than any dump".into())
    }
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], End> {
        let end = self.at.checked_add(count).filter(|e| *e <= self.bytes.len());
        let Some(end) = end else {
            return Err(End::Broken(format!("the file is cut at byte {}", self.bytes.len())));
        };
        let part = &self.bytes[self.at..end];
        self.at = end;
        Ok(part)
    }

    fn number(&mut self, width: usize) -> Result<u64, End> {
        let part = self.take(width)?;
        Ok(part.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
    }

    fn length(&mut self, width: usize) -> Result<usize, End> {
        let n = self.number(width)?;
        usize::try_from(n).map_err(|_| broken("an impossible length", self.at))
    }

    fn text(&mut self, width: usize) -> Result<(), End> {
        let len = self.length(width)?;
        let part = self.take(len)?;
        let text = match std::str::from_utf8(part) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(part),
        };
        let value = self.tree.text_value(text)?;
        self.stack.push(value);
        Ok(())
    }

    fn blob(&mut self, width: usize) -> Result<(), End> {
        let len = self.length(width)?;
        self.take(len)?;
        self.stack.push(Value::Blob);
        Ok(())
    }

    fn long(&mut self, width: usize) -> Result<(), End> {
        let len = self.length(width)?;
        let part = self.take(len)?;
        let negative = part.last().is_some_and(|b| b & 0x80 != 0);
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        for (to, from) in wide.iter_mut().zip(part) {
            *to = *from;
        }
        let fits = part.iter().skip(8).all(|b| *b == if negative { 0xff } else { 0 });
        let value = i64::from_le_bytes(wide);
        let good = fits && (value < 0) == negative;
        self.stack.push(if good {
            Value::Int(value)
        } else {
            Value::Int(if negative { i64::MIN } else { i64::MAX })
        });
        Ok(())
    }

    fn pop(&mut self) -> Result<Value, End> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err(broken("a value is wanted where none is", self.at));
        }
        self.stack.pop().ok_or_else(|| broken("a value is wanted where none is", self.at))
    }

    fn unmark(&mut self) -> Result<usize, End> {
        self.marks.pop().ok_or_else(|| broken("a list ends that never began", self.at))
    }

    fn top(&self, below: usize) -> Option<Value> {
        below.checked_sub(1).and_then(|at| self.stack.get(at)).copied()
    }

    /// Puts what lies above `from` into the list or table below it.
    fn fill(&mut self, from: usize) -> Result<(), End> {
        match self.top(from) {
            Some(Value::Seq(id)) => self.tree.extend(id, &self.stack[from..])?,
            Some(Value::Map(id)) => {
                let even = (self.stack.len() - from) & !1;
                self.tree.extend(id, &self.stack[from..from + even])?;
            }
            _ => return Err(broken("items for something that is no list or table", self.at)),
        }
        self.stack.truncate(from);
        Ok(())
    }

    /// Makes a list or table of what lies above `from`.
    fn gather(&mut self, from: usize, table: bool) -> Result<(), End> {
        let value = if table { self.tree.map()? } else { self.tree.seq()? };
        if let Value::Seq(id) | Value::Map(id) = value {
            let items = self.stack.get(from..).unwrap_or(&[]);
            let count = if table { items.len() & !1 } else { items.len() };
            self.tree.extend(id, &items[..count])?;
        }
        self.stack.truncate(from);
        self.stack.push(value);
        Ok(())
    }

    fn small_tuple(&mut self, count: usize) -> Result<(), End> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let from = self.stack.len().checked_sub(count).filter(|f| *f >= floor);
        let from = from.ok_or_else(|| broken("a tuple of values that are not there", self.at))?;
        self.gather(from, false)
    }

    fn put(&mut self, at: usize) -> Result<(), End> {
        let value = self.stack.last().copied();
        if at > self.bytes.len() {
            return Err(broken("an impossible number for a value", self.at));
        }
        if self.memo.len() <= at {
            self.memo.resize(at + 1, None);
        }
        self.memo[at] = value;
        self.memoized += 1;
        Ok(())
    }

    fn recall(&mut self, at: usize) -> Result<(), End> {
        let value = self.memo.get(at).copied().flatten();
        self.stack.push(value.ok_or_else(|| broken("a value that was never named", self.at))?);
        Ok(())
    }

    fn line(&mut self) -> Result<&'a str, End> {
        let rest = &self.bytes[self.at..];
        let len = memchr::memchr(b'\n', rest).ok_or_else(|| broken("an unfinished line", self.at))?;
        let line = self.take(len + 1)?;
        std::str::from_utf8(&line[..len]).map_err(|_| broken("a line that is no text", self.at))
    }

    fn named(&mut self) -> Result<usize, End> {
        let line = self.line()?;
        line.trim().parse().map_err(|_| broken("an impossible number for a value", self.at))
    }

    /// One opcode; the root when it was the last.
    fn step(&mut self) -> Step {
        let op = self.take(1)?[0];
        match op {
            b'.' => return self.pop().map(Some),
            0x80 => drop(self.take(1)?),
            0x95 => drop(self.take(8)?),
            b'(' => {
                if self.marks.len() >= MAX_DEPTH {
                    return Err(broken("nested too deeply", self.at));
                }
                self.marks.push(self.stack.len());
            }
            b'0' => drop(self.pop()?),
            b'1' => {
                let from = self.unmark()?;
                self.stack.truncate(from);
            }
            b'N' => self.stack.push(Value::None),
            0x88 => self.stack.push(Value::Bool(true)),
            0x89 => self.stack.push(Value::Bool(false)),
            b'J' | b'K' | b'M' | b'G' | 0x8a | 0x8b => self.numeric(op)?,
            b'X' => self.text(4)?,
            0x8c | b'U' => self.text(1)?,
            0x8d => self.text(8)?,
            b'T' => self.text(4)?,
            b'C' => self.blob(1)?,
            b'B' => self.blob(4)?,
            0x8e | 0x96 => self.blob(8)?,
            b'q' | b'r' | b'p' | 0x94 | b'h' | b'j' | b'g' => self.memo_step(op)?,
            _ => self.container(op)?,
        }
        Ok(None)
    }

    fn numeric(&mut self, op: u8) -> Result<(), End> {
        let value = match op {
            b'J' => Value::Int(i64::from(self.number(4)? as u32 as i32)),
            b'K' => Value::Int(self.number(1)? as i64),
            b'M' => Value::Int(self.number(2)? as i64),
            b'G' => Value::Float(f64::from_bits(self.number(8)?.swap_bytes())),
            0x8a => return self.long(1),
            _ => return self.long(4),
        };
        self.stack.push(value);
        Ok(())
    }

    fn memo_step(&mut self, op: u8) -> Result<(), End> {
        match op {
            b'q' => self.length(1).and_then(|at| self.put(at)),
            b'r' => self.length(4).and_then(|at| self.put(at)),
            b'p' => self.named().and_then(|at| self.put(at)),
            0x94 => self.put(self.memoized),
            b'h' => self.length(1).and_then(|at| self.recall(at)),
            b'j' => self.length(4).and_then(|at| self.recall(at)),
            _ => self.named().and_then(|at| self.recall(at)),
        }
    }

    fn container(&mut self, op: u8) -> Result<(), End> {
        match op {
            b'}' => {
                let value = self.tree.map()?;
                self.stack.push(value);
            }
            b']' | b')' | 0x8f => {
                let value = self.tree.seq()?;
                self.stack.push(value);
            }
            b'a' => self.stack.len().checked_sub(1).map_or(Ok(()), |from| self.fill_checked(from))?,
            b's' => self.stack.len().checked_sub(2).map_or(Ok(()), |from| self.fill_checked(from))?,
            b'e' | b'u' | 0x90 => {
                let from = self.unmark()?;
                self.fill(from)?;
            }
            b't' | b'l' | 0x91 => {
                let from = self.unmark()?;
                self.gather(from, false)?;
            }
            b'd' => {
                let from = self.unmark()?;
                self.gather(from, true)?;
            }
            0x85..=0x87 => self.small_tuple(usize::from(op - 0x84))?,
            _ => return Err(self.refuse(op)),
        }
        Ok(())
    }

    fn fill_checked(&mut self, from: usize) -> Result<(), End> {
        if from <= self.marks.last().copied().unwrap_or(0) {
            return Err(broken("an item for a list that is not there", self.at));
        }
        self.fill(from)
    }

    /// What an opcode that plain data does not need asks for.
    fn refuse(&mut self, op: u8) -> End {
        let what = match op {
            b'c' | b'i' => match (self.line(), self.line()) {
                (Ok(module), Ok(name)) => format!("{module}.{name}"),
                _ => "a class".into(),
            },
            0x93 => {
                let name = self.pop().ok().and_then(|v| self.tree.str(v).map(str::to_string));
                let module = self.pop().ok().and_then(|v| self.tree.str(v).map(str::to_string));
                format!("{}.{}", module.unwrap_or_default(), name.unwrap_or_default())
            }
            b'R' | b'b' | b'o' | 0x81 | 0x92 => "an object".into(),
            b'P' | b'Q' => "an object kept elsewhere".into(),
            0x82..=0x84 => "a registered class".into(),
            0x97 | 0x98 => "a buffer kept elsewhere".into(),
            _ => return broken(&format!("opcode 0x{op:02x} is not read here"), self.at - 1),
        };
        let shown: String = what.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(80).collect();
        End::Refused(shown)
    }

    /// What a cut file had complete: every open list and table gets the items that were there.
    fn fold(&mut self) -> Value {
        while let Some(from) = self.marks.pop() {
            if self.fill(from.min(self.stack.len())).is_err() {
                self.stack.truncate(from);
            }
        }
        // A lone key with its value, or a lone item, that was not put in yet.
        let lone = match self.stack[..] {
            [Value::Map(_), Value::Str(_), _] | [Value::Seq(_), Value::Map(_)] => self.fill(1),
            _ => Ok(()),
        };
        if lone.is_err() {
            return Value::None;
        }
        self.stack.first().copied().unwrap_or(Value::None)
    }
}

#[cfg(test)]
mod tests {
    use super::{End, Value, read};
    use proptest::prelude::*;

    #[test]
    fn numbers_of_every_width() {
        let bytes = b"\x80\x02]q\x00(K\x07M\x01\x02J\xff\xff\xff\xff\x8a\x08\x00\x10\xa5\xd4\xe8\x00\x00\x00G?\xf8\x00\x00\x00\x00\x00\x00NI\x88e.";
        let (tree, root, end) = read(bytes);
        assert!(matches!(end, End::Broken(_)), "INT of protocol 0 is not read: {end:?}");
        let list = tree.list(root);
        let wanted = [
            Value::Int(7),
            Value::Int(513),
            Value::Int(-1),
            Value::Int(0xe8_d4a5_1000),
            Value::Float(1.5),
            Value::None,
        ];
        assert_eq!(list, &wanted);
    }

    #[test]
    fn a_call_is_refused_by_name() {
        let (_, root, end) = read(b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00lsR.");
        assert_eq!((root, end), (Value::None, End::Refused("os.system".into())));
        let (_, _, end) = read(b"\x80\x04\x8c\x02os\x8c\x06system\x93.");
        assert_eq!(end, End::Refused("os.system".into()));
    }

    #[test]
    fn a_list_in_itself_is_no_trap() {
        let (tree, root, end) = read(b"\x80\x02]q\x00h\x00a.");
        assert_eq!(end, End::Whole);
        assert_eq!(tree.list(root), &[root]);
    }

    proptest! {
        #[test]
        fn any_bytes_end(body in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut bytes = vec![0x80, 2];
            bytes.extend(body);
            let _ = read(&bytes);
        }

        #[test]
        fn likely_opcodes_end(body in proptest::collection::vec(proptest::sample::select(
            b"(]})a\x85\x86se\x94h\x00q\x01utd0K1N\x8c\x02lR.\x80\x95".to_vec()), 0..300)) {
            let mut bytes = vec![0x80, 4];
            bytes.extend(body);
            let _ = read(&bytes);
        }
    }
}
