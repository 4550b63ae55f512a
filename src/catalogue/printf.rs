//! From a C format string to a fixed text for the search and a regular
//! expression with the conversions as groups.

/// What a format turns into.
pub(super) struct Converted {
    /// Longest fixed part.
    pub(super) has: String,
    /// Regular expression, not anchored.
    pub(super) pattern: String,
}

/// Converts a format; conversions are named in order by `names` (`-` or nothing: no group).
pub(super) fn convert(format: &str, names: &[String]) -> Converted {
    let format = format.trim_end_matches("\\n").trim_end();
    let mut has = String::new();
    let mut fixed = String::new();
    let mut pattern = String::new();
    let mut chars = format.chars().peekable();
    let mut nth = 0;
    while let Some(c) = chars.next() {
        if c != '%' {
            fixed.push(c);
            continue;
        }
        if chars.peek() == Some(&'%') {
            chars.next();
            fixed.push('%');
            continue;
        }
        let mut spec = String::new();
        for c in chars.by_ref() {
            spec.push(c);
            if c.is_ascii_alphabetic() && !"lhzjtLq".contains(c) {
                break;
            }
        }
        flush(&mut fixed, &mut has, &mut pattern);
        let body = body(&spec, chars.peek().is_none());
        match names.get(nth).map(String::as_str) {
            Some(name) if name != "-" && !name.is_empty() => pattern.push_str(&format!("(?<{name}>{body})")),
            _ => pattern.push_str(&format!("(?:{body})")),
        }
        nth += 1;
    }
    flush(&mut fixed, &mut has, &mut pattern);
    Converted { has, pattern }
}

fn flush(fixed: &mut String, has: &mut String, pattern: &mut String) {
    if fixed.len() > has.len() {
        has.clone_from(fixed);
    }
    pattern.push_str(&regex::escape(fixed));
    fixed.clear();
}

/// The expression for one conversion. A text at the end takes the rest of the line.
fn body(spec: &str, last: bool) -> &'static str {
    match spec.chars().last() {
        Some('d' | 'i' | 'u') => r"-?\d+",
        Some('x' | 'X') => r"[0-9a-fA-F]+",
        Some('p') => r"(?:0x)?[0-9a-fA-F]+|\(nil\)",
        Some('f' | 'g' | 'e' | 'F' | 'G') => r"[-+]?[0-9.]+(?:[eE][-+]?\d+)?|nan|inf",
        Some('c') => r".",
        _ if last => r".*",
        _ => r".*?",
    }
}

#[cfg(test)]
mod tests {
    use super::convert;

    #[test]
    fn names_conversions_and_finds_the_longest_fixed_part() {
        let c = convert("Call to %s failed : %s\\n", &["call".into(), "error".into()]);
        assert_eq!(c.has, " failed : ");
        let re = regex::Regex::new(&c.pattern).unwrap();
        let caps = re.captures("Call to bind failed : Address already in use").unwrap();
        assert_eq!((&caps["call"], &caps["error"]), ("bind", "Address already in use"));
    }

    #[test]
    fn lengths_and_percent_signs() {
        let c = convert("%5.1f%% of 0x%016lx (%zu)", &[]);
        let re = regex::Regex::new(&c.pattern).unwrap();
        assert!(re.is_match("99.5% of 0x00000000deadbeef (12)"));
    }
}
