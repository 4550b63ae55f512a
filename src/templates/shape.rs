//! The shape of a line: its words, with a mark for what varies from run to
//! run. `lease 4711 of 10.0.0.7:29500 lost after 12ms` has the shape
//! `lease <n> of <addr> lost after <n>ms`.

use crate::text;

/// Words of a line that count; what follows is one mark.
const WORDS: usize = 60;
/// Endings of source files, whose names tell where in a program a line was printed.
const SOURCES: [&str; 8] = [".cc", ".cu", ".cpp", ".c", ".h", ".py", ".rs", ".go"];
/// What may stand around a word without being part of it.
const AROUND: &str = "()[]{}<>\"'`,;:.!?*|";

/// A line without what launchers, NCCL and loggers put before the text.
#[must_use]
pub fn body(line: &str) -> &str {
    let bytes = line.as_bytes();
    let mut at = text::split_prefix(bytes).len as usize;
    let rest = &bytes[at.min(bytes.len())..];
    if let Some(h) = text::nccl_header(rest) {
        at += h.body as usize;
    } else if let Some(h) = text::glog(rest) {
        at += h.body as usize;
    } else if let Some(h) = text::pylog(rest) {
        at += h.body as usize;
    } else if let Some((_, n)) = text::stamp(rest) {
        at += n;
    }
    let text = line.get(at.min(line.len())..).unwrap_or(line);
    text.trim_start_matches(|c: char| c.is_whitespace() || "-:]|".contains(c)).trim_end()
}

/// Whether a line is one of program text, as tracebacks show it: indented, with the marks of a program and without a
/// sentence.
#[must_use]
pub fn is_code(line: &str) -> bool {
    let at = text::split_prefix(line.as_bytes()).len as usize;
    let rest = line.get(at.min(line.len())..).unwrap_or(line);
    let code = rest.trim();
    let plain = |w: &str| w.len() > 1 && w.chars().all(|c| c.is_ascii_alphabetic());
    let words: Vec<&str> = code.split_whitespace().collect();
    let sentence = words.windows(3).any(|w| w.iter().all(|w| plain(w)));
    let marks = code.contains('(') || code.contains(" = ") || code.ends_with([':', ',', ')', ']', '}']);
    let raises = code.starts_with("raise ") || code.contains(": raise ");
    rest.len() - rest.trim_start().len() >= 3 && (raises || marks && !sentence)
}

/// The shape of a text, words parted by one blank.
#[must_use]
pub fn shape(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(400));
    for (n, word) in text.split_whitespace().enumerate() {
        if n == WORDS {
            out.push_str(" <…>");
            break;
        }
        if n > 0 {
            out.push(' ');
        }
        push(word, &mut out, 0);
    }
    out
}

/// A word with what stands around it.
fn push(word: &str, out: &mut String, depth: usize) {
    if let Some(address) = whole_address(word) {
        out.push_str("<addr>");
        out.push_str(address);
        return;
    }
    let core = word.trim_start_matches(|c| AROUND.contains(c));
    let head = &word[..word.len() - core.len()];
    let core_end = core.trim_end_matches(|c| AROUND.contains(c)).len();
    let (core, tail) = core.split_at(core_end);
    out.push_str(head);
    let parted = core.split_once('=').filter(|(name, value)| {
        depth < 4 && !value.is_empty() && !name.contains('/') && !core.contains("://")
    });
    match parted {
        Some((name, value)) => {
            push(name, out, depth + 1);
            out.push('=');
            push(value, out, depth + 1);
        }
        None => mark(core, out),
    }
    out.push_str(tail);
}

/// `10.0.0.7<4711>` and what follows; the brackets belong to the address.
fn whole_address(word: &str) -> Option<&str> {
    let (ip, rest) = word.split_once('<')?;
    let (port, after) = rest.split_once('>')?;
    let fits = ip.parse::<std::net::IpAddr>().is_ok() && !port.is_empty();
    (fits && port.bytes().all(|b| b.is_ascii_digit())).then_some(after)
}

/// A word without what stands around it.
fn mark(core: &str, out: &mut String) {
    match sort(core) {
        Sort::Plain => out.push_str(core),
        Sort::Whole(mark) => out.push_str(mark),
        Sort::Number(unit) => {
            out.push_str("<n>");
            out.push_str(unit);
        }
        Sort::Mixed => mixed(core, out),
    }
}

enum Sort<'a> {
    /// Stays as it is.
    Plain,
    /// A mark in its place.
    Whole(&'static str),
    /// A number, with its unit.
    Number(&'a str),
    /// Letters and figures.
    Mixed,
}

fn sort(core: &str) -> Sort<'_> {
    if core.contains("://") {
        return Sort::Whole("<url>");
    }
    if core.contains('/') {
        return match source_file(core) {
            true => Sort::Mixed,
            false if is_path(core) => Sort::Whole("<path>"),
            false => Sort::Mixed,
        };
    }
    if !core.bytes().any(|b| b.is_ascii_digit()) {
        return Sort::Plain;
    }
    if is_address(core) {
        return Sort::Whole("<addr>");
    }
    if is_time(core) {
        return Sort::Whole("<time>");
    }
    if let Some(unit) = number(core) {
        return Sort::Number(unit);
    }
    let hex = core.strip_prefix("0x").or_else(|| core.strip_prefix("0X"));
    if hex.is_some_and(|h| !h.is_empty() && h.bytes().all(|b| b.is_ascii_hexdigit())) {
        return Sort::Whole("<x>");
    }
    if core.len() >= 8 && core.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
        return Sort::Whole("<id>");
    }
    Sort::Mixed
}

/// A relative path of a source file, as programs print where they are: `transport/net_ib.cc:1295`.
fn source_file(core: &str) -> bool {
    let file = core.split(':').next().unwrap_or(core);
    !core.starts_with('/') && SOURCES.iter().any(|e| file.ends_with(e)) && file.split('/').count() <= 3
}

fn is_path(core: &str) -> bool {
    core.starts_with(['/', '~']) && core.len() > 1
        || core.starts_with("./")
        || core.starts_with("../")
        || core.split('/').filter(|p| !p.is_empty()).count() > 2
        || core.contains('/') && core.contains('.') && !core.contains(char::is_whitespace)
}

fn is_address(core: &str) -> bool {
    let plain = core.trim_start_matches('[').replace(']', "");
    core.parse::<std::net::IpAddr>().is_ok()
        || plain
            .rsplit_once(':')
            .is_some_and(|(ip, port)| port.parse::<u16>().is_ok() && ip.parse::<std::net::IpAddr>().is_ok())
}

/// `10:11:12.345`, `2026-02-03`, `2026-02-03T10:11:12Z`, `02/03`.
fn is_time(core: &str) -> bool {
    let only = core.bytes().all(|b| b.is_ascii_digit() || b":-.,T+Z_".contains(&b));
    let colons = core.matches(':').count();
    let dashes = core.matches('-').count();
    let starts = core.as_bytes().first().is_some_and(u8::is_ascii_digit);
    only && starts && (colons == 2 || (dashes >= 2 && core.len() >= 8))
}

/// The unit of a number: `12`, `-3.5`, `1,024`, `12ms`, `70%`, `2.5GiB`, `1e-05`.
fn number(core: &str) -> Option<&str> {
    let digits = core.trim_start_matches(['+', '-']);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let end = digits.find(|c: char| !(c.is_ascii_digit() || ".,_".contains(c))).unwrap_or(digits.len());
    let unit = &digits[end..];
    let exponent = unit.strip_prefix(['e', 'E']).map(|u| u.trim_start_matches(['+', '-']));
    if exponent.is_some_and(|e| !e.is_empty() && e.bytes().all(|b| b.is_ascii_digit())) {
        return Some("");
    }
    let fits = unit.len() <= 5 && unit.chars().all(|c| c.is_ascii_alphabetic() || "%/".contains(c));
    fits.then_some(unit)
}

/// Runs of letters stay, runs with figures become marks: `node07` is `node<n>`, `a3f9c` is `<id>`.
fn mixed(core: &str, out: &mut String) {
    let bytes = core.as_bytes();
    let mut at = 0;
    while at < core.len() {
        let word = core[at..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(core.len(), |n| at + n);
        if word == at {
            let c = core[at..].chars().next().unwrap_or(' ');
            out.push(c);
            at += c.len_utf8();
            continue;
        }
        let run = &bytes[at..word];
        let letters = run.iter().take_while(|b| b.is_ascii_alphabetic()).count();
        if !run.iter().any(u8::is_ascii_digit) {
            out.push_str(&core[at..word]);
        } else if run[letters..].iter().all(u8::is_ascii_digit) {
            out.push_str(&core[at..at + letters]);
            out.push_str("<n>");
        } else {
            out.push_str("<id>");
        }
        at = word;
    }
}
