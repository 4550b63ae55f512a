//! Whether bytes that are not packed are lines, a JSON document, or binary.
//! Where it is not sure it says text. What has a magic number was told before
//! by `magic`.

/// What the first bytes look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Text,
    /// One JSON value over the whole file, or another text that is read whole.
    Json,
    /// Probably one JSON value, as far as can be seen.
    MaybeJson,
    Binary,
}

/// Judges `head`; `all` says that it is the whole file.
pub(super) fn look(head: &[u8], all: bool) -> Look {
    match json(head, all) {
        Look::Text if !plausible(head) => Look::Binary,
        other => other,
    }
}

fn json(head: &[u8], all: bool) -> Look {
    let body = &head[spaces(head)..];
    if !opens_document(body) {
        return Look::Text;
    }
    match value(body) {
        Value::Complete(end) if all && blank(&body[end..]) => Look::Json,
        // Nothing but blanks up to here, and more to come.
        Value::Complete(end) if !all && blank(&body[end..]) && !body[end..].contains(&b'\n') => {
            Look::MaybeJson
        }
        // Cut off: nobody writes half a value but who meant one document.
        Value::Cut if all => Look::Json,
        Value::Cut => Look::MaybeJson,
        _ => Look::Text,
    }
}

/// Whether it begins as documents do: `{"`, `[{`, `[[`, blanks between or not;
/// `[0] NCCL INFO` and `[rank0]:` do not, nor does a line of a container's log.
fn opens_document(body: &[u8]) -> bool {
    let Some((first, rest)) = body.split_first() else {
        return false;
    };
    let second = rest.get(spaces(rest)).copied();
    match (first, second) {
        (b'{', Some(b'"')) => !rest.starts_with(b"\"log\":\""),
        (b'{', Some(b'}')) | (b'[', Some(b'{' | b'[')) => true,
        _ => false,
    }
}

enum Value {
    /// A value that ends here.
    Complete(usize),
    /// A value as far as it goes.
    Cut,
    Wrong,
}

fn value(bytes: &[u8]) -> Value {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<serde::de::IgnoredAny>();
    match values.next() {
        Some(Ok(_)) => Value::Complete(values.byte_offset()),
        Some(Err(error)) if error.is_eof() => Value::Cut,
        _ => Value::Wrong,
    }
}

fn spaces(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| b.is_ascii_whitespace()).count()
}

fn blank(bytes: &[u8]) -> bool {
    spaces(bytes) == bytes.len()
}

/// Whether there are lines in it. NULs do not count: logs have long runs of
/// them after a crash or a rotation. Bytes above 127 do not count against it
/// either, since not all logs are UTF-8; control bytes do, and even then lines
/// that are clean win.
fn plausible(head: &[u8]) -> bool {
    // Nearly all logs are free of them, and that is seen quickly.
    if !head.chunks(4096).any(|part| part.iter().fold(false, |any, &b| any | is_control(b))) {
        return true;
    }
    let mut total = 0usize;
    let mut control = 0usize;
    let mut clean = 0usize;
    for line in head.split(|&b| b == b'\n') {
        let (mut bytes, mut bad, mut high) = (0usize, 0usize, 0usize);
        for &b in line {
            bytes += usize::from(b != 0);
            bad += usize::from(is_control(b));
            high += usize::from(b >= 0x80);
        }
        total += bytes;
        control += bad;
        if bad == 0 && bytes >= 4 && high * 2 <= bytes {
            clean += bytes;
        }
    }
    control * 25 <= total || clean * 3 >= total
}

/// Control bytes that logs do not have: not NUL, bell, backspace, tab, line
/// ends, form feed, shifts of terminals, escape.
fn is_control(b: u8) -> bool {
    matches!(b, 1..=6 | 0x0b | 0x10..=0x1a | 0x1c..=0x1f | 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Look {
        look(text.as_bytes(), true)
    }

    #[test]
    fn documents() {
        for text in [
            "{\"version\": \"2.4\", \"entries\": []}",
            "{\n  \"a\": 1\n}\n",
            "\n [\n {\"a\": 1}]",
            "[[1, 2], [3]]",
            "{}",
            "{\n  \"a\": [1, 2",
        ] {
            assert_eq!(of(text), Look::Json, "{text}");
        }
        assert_eq!(look(b"{\n \"a\": [1, 2", false), Look::MaybeJson);
        assert_eq!(look(b"{\"a\": [1, 2]}", false), Look::MaybeJson);
        assert_eq!(look(b"{\"a\": [1, 2]}\n", false), Look::Text);
    }

    #[test]
    fn lines() {
        for text in [
            "[0] NCCL INFO Bootstrap\n",
            "[2026-01-02 10:00:00] start\n",
            "[rank0]: Traceback (most recent call last):\n",
            "[[1,0]<stdout>: hello\n",
            "[1,0]<stderr>:x\n",
            "[{worker 1}] hi\n",
            "{\"log\":\"one line\\n\",\"stream\":\"stderr\",\"time\":\"2026-01-01T00:00:00Z\"}\n",
            "{\"a\":1}\n{\"a\":2}\n",
            "{'a': 1}\n",
            "{\"a\":1}\nTraceback\n",
            "{\"a\":1} trailing",
            "",
            "\0\0\0\0",
            "\x1b[31mred\x1b[0m\n",
            "x",
        ] {
            assert_eq!(of(text), Look::Text, "{text}");
        }
    }

    #[test]
    fn nul_runs_and_other_encodings_are_text() {
        let mut log = vec![0u8; 100_000];
        log.extend_from_slice(b"node1:12:13 [0] NCCL INFO x\n");
        log.extend_from_slice(&[0u8; 5000]);
        assert_eq!(look(&log, false), Look::Text);
        assert_eq!(look(&[0xd6, 0xd0, 0xce, 0xc4, b'\n'].repeat(50), true), Look::Text);
        assert_eq!(look(b"ok \xe2\x82", true), Look::Text);
        let mut garbage: Vec<u8> = (1..=255).collect();
        garbage.extend_from_slice(&b"this is a good line of a log\n".repeat(20));
        assert_eq!(look(&garbage, true), Look::Text);
    }

    #[test]
    fn binary() {
        let mut x = 1u32;
        let random: Vec<u8> = std::iter::repeat_with(|| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 24) as u8
        })
        .take(20_000)
        .collect();
        assert_eq!(look(&random, false), Look::Binary);
        let floats: Vec<u8> = (0..5000u32).flat_map(|i| (i as f32).to_le_bytes()).collect();
        assert_eq!(look(&floats, false), Look::Binary);
        let ints: Vec<u8> = (0..5000u32).flat_map(u32::to_le_bytes).collect();
        assert_eq!(look(&ints, false), Look::Binary);
    }
}
