//! Shell text as lines and words: lines that go on with a backslash, texts that
//! stand in the script for a command to read (`<<EOF`), and words with their
//! quotes taken off. Nothing is expanded.

/// A word, and whether it holds something that only the running shell knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) dynamic: bool,
}

/// Lines joined where they end with a backslash, with the number of the first.
pub(super) fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (at, line) in text.lines().enumerate() {
        let (body, goes_on) = match line.strip_suffix('\\') {
            // A comment ends with its line, and a backslash that is itself quoted joins nothing.
            Some(body) if odd_end(line) && !ends_in_comment(line) => (body, true),
            _ => (line, false),
        };
        match out.last_mut() {
            Some((_, before)) if open => before.push_str(body),
            _ => out.push((at + 1, body.to_string())),
        }
        open = goes_on;
    }
    out
}

fn odd_end(line: &str) -> bool {
    line.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}

/// Whether a comment begins on the line, and so goes to its end.
fn ends_in_comment(line: &str) -> bool {
    let (mut quote, mut before, mut chars) = (None, ' ', line.chars());
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '#') if before.is_whitespace() || ";&|(".contains(before) => return true,
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            (None | Some('"'), '\\') => {
                chars.next();
            }
            _ => {}
        }
        before = c;
    }
    false
}

/// What a command is given to read in the script itself: `<<EOF`, `<<-'EOF'`. Its end, whether tabs before it count
/// for nothing; `None` without one. Of several on one line the last.
pub(super) fn here_document(line: &str) -> Option<(String, bool)> {
    if ends_in_comment(line) || !line.contains("<<") {
        return None;
    }
    let (mut quote, mut found, mut rest) = (None, None, line);
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            (None, '<') if rest.starts_with("<<<") => {
                rest = &rest[3..];
                continue;
            }
            // `$((1 << 4))` is arithmetic.
            (None, '<') if rest.starts_with("<<") => {
                let tabs = rest[2..].starts_with('-');
                let end = rest[2..].trim_start_matches('-').trim_start();
                let word: String = end
                    .trim_start_matches(['\'', '"', '\\'])
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || "_-.!".contains(*c))
                    .collect();
                if word.starts_with(|c: char| !c.is_ascii_digit()) {
                    found = Some((word, tabs));
                }
                rest = &rest[2..];
                continue;
            }
            _ => {}
        }
        rest = after;
    }
    found
}

/// The commands of a line, each as words; comments are left out.
pub(super) fn words(line: &str) -> Vec<Vec<Word>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<Word> = None;
    let mut chars = line.chars().peekable();
    let push = |c: char, word: &mut Option<Word>| {
        word.get_or_insert_with(|| Word { text: String::new(), dynamic: false }).text.push(c);
    };
    while let Some(c) = chars.next() {
        match c {
            '#' if word.is_none() => break,
            '\'' => {
                word.get_or_insert_with(|| Word { text: String::new(), dynamic: false });
                for c in chars.by_ref().take_while(|c| *c != '\'') {
                    push(c, &mut word);
                }
            }
            '"' => {
                word.get_or_insert_with(|| Word { text: String::new(), dynamic: false });
                while let Some(c) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => {
                            if let Some(c) = chars.next() {
                                push(c, &mut word);
                            }
                        }
                        c => {
                            push(c, &mut word);
                            if (c == '$' || c == '`')
                                && let Some(w) = &mut word
                            {
                                w.dynamic = true;
                            }
                        }
                    }
                }
            }
            '\\' => {
                if let Some(c) = chars.next() {
                    push(c, &mut word);
                }
            }
            '$' | '`' => {
                push(c, &mut word);
                if let Some(w) = &mut word {
                    w.dynamic = true;
                }
                let close = match (c, chars.peek()) {
                    ('$', Some('{')) => Some(('{', '}')),
                    ('$', Some('(')) => Some(('(', ')')),
                    ('`', _) => Some(('\0', '`')),
                    _ => None,
                };
                if let Some((open, close)) = close {
                    let mut depth = usize::from(open == '\0');
                    for c in chars.by_ref() {
                        push(c, &mut word);
                        depth = if c == open {
                            depth + 1
                        } else if c == close {
                            depth.saturating_sub(1)
                        } else {
                            depth
                        };
                        if depth == 0 {
                            break;
                        }
                    }
                }
            }
            ';' | '&' | '|' | '(' | ')' => {
                commands.last_mut().into_iter().for_each(|l: &mut Vec<Word>| l.extend(word.take()));
                commands.push(Vec::new());
            }
            c if c.is_whitespace() => {
                commands.last_mut().into_iter().for_each(|l: &mut Vec<Word>| l.extend(word.take()));
            }
            c => push(c, &mut word),
        }
    }
    commands.last_mut().into_iter().for_each(|l: &mut Vec<Word>| l.extend(word.take()));
    commands.retain(|c| !c.is_empty());
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_go_on_and_comments_that_do_not() {
        let lines = |t| logical_lines(t).into_iter().map(|l| l.1).collect::<Vec<_>>();
        assert_eq!(lines("a \\\nb\nc"), ["a b", "c"]);
        assert_eq!(lines("# a \\\nb"), ["# a \\", "b"]);
        assert_eq!(lines("a # why \\\nb"), ["a # why \\", "b"]);
        assert_eq!(lines("a '#' \\\nb"), ["a '#' b"]);
        assert_eq!(lines("a \\\\\nb"), ["a \\\\", "b"]);
    }

    #[test]
    fn texts_in_a_script() {
        let end = |t| here_document(t).map(|e| e.0);
        assert_eq!(end("cat > x <<EOF").as_deref(), Some("EOF"));
        assert_eq!(here_document("cat <<-'END' | tee x"), Some(("END".into(), true)));
        assert_eq!(end("cat << \"E_O\" > x").as_deref(), Some("E_O"));
        for none in ["cat <<< EOF", "echo '<<EOF'", "# cat <<EOF", "n=$((1 << 4))", "a"] {
            assert_eq!(end(none), None, "{none}");
        }
    }
}
