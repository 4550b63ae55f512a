//! `ncclcheck env [FILE…]`: variables before a job starts.

use super::args::{Env, Format, Global};
use super::out::{FINE, FOUND, Fail, columns, print};
use super::sources;
use crate::base::Release;
use crate::engine::{Checked, Engine};
use crate::report::text::{BAD, CODE, DIM, GOOD, PLAIN, Page, WARN, visible};
use crate::settings::{Assignment, Environment, Level, Releases, Remark};
use std::io::{self, Read, Write};

/// Longer files are no environment.
const LONGEST: u64 = 64 << 20;

pub(super) fn run(global: &Global, args: &Env) -> Result<u8, Fail> {
    let releases = Releases { nccl: release("--nccl", &args.nccl)?, torch: release("--torch", &args.torch)? };
    let engine = sources::engine(global)?;
    let checked = if args.files.is_empty() {
        engine.check_environment(current(&engine), releases)
    } else {
        let texts: Result<Vec<_>, Fail> = args.files.iter().map(|f| text_of(f)).collect();
        engine.check_texts(&texts?, releases)
    };
    let found = checked.remarks.iter().any(|r| r.level != Level::Note);
    print(global.color, if found { FOUND } else { FINE }, |out| match args.format {
        Format::Json => json(&checked, releases, out),
        Format::Text => text(&checked, args, out),
    })
}

fn release(option: &str, text: &Option<String>) -> Result<Option<Release>, Fail> {
    let Some(text) = text else { return Ok(None) };
    match Release::parse(text) {
        Some(release) => Ok(Some(release)),
        None => Err(format!("{option} {text}: a release is wanted, such as 2.21.5")),
    }
}

fn text_of(path: &std::path::Path) -> Result<(String, String), Fail> {
    let read = |from: &mut dyn Read| {
        let mut bytes = Vec::new();
        from.take(LONGEST).read_to_end(&mut bytes).map(|_| bytes)
    };
    let name = path.display().to_string();
    let text = if name == "-" {
        read(&mut io::stdin().lock())
    } else {
        std::fs::File::open(path).and_then(|mut file| read(&mut file))
    };
    match text {
        Ok(bytes) => match decoded(&bytes) {
            Some(text) => Ok((if name == "-" { "standard input".into() } else { name }, text)),
            None => {
                Err(format!("{name}: not a text: variables are read from scripts, listings, YAML and JSON"))
            }
        },
        Err(err) => {
            Err(format!("{name}: {}", err.to_string().split(" (os error").next().unwrap_or_default()))
        }
    }
}

/// The text of a file: UTF-8, UTF-16, or what holds NUL bytes as the environment of a process does in /proc; `None`
/// where it is no text.
fn decoded(bytes: &[u8]) -> Option<String> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = bytes.chunks_exact(2).map(|c| unit([c[0], c[1]]));
        char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect::<String>()
    };
    let nul_at = |nth: usize| {
        let start = &bytes[..bytes.len().min(64)];
        start.len() > 3 && start.chunks_exact(2).all(|c| c[nth] == 0 && c[1 - nth] != 0)
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => return Some(wide(rest, u16::from_le_bytes)),
        [0xfe, 0xff, rest @ ..] => return Some(wide(rest, u16::from_be_bytes)),
        _ if nul_at(1) => return Some(wide(bytes, u16::from_le_bytes)),
        _ if nul_at(0) => return Some(wide(bytes, u16::from_be_bytes)),
        // Packed: few bytes of it need be control codes.
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [b'P', b'K', 3, 4, ..] => return None,
        _ => {}
    }
    let odd = bytes.iter().filter(|b| matches!(**b, 1..=8 | 14..=26 | 28..=31 | 127)).count();
    let mut pieces = bytes.split(|b| *b == 0).filter(|p| !p.is_empty());
    let listed = !bytes.contains(&0) || pieces.all(|p| p.contains(&b'='));
    (listed && odd * 50 <= bytes.len()).then(|| String::from_utf8_lossy(bytes).replace('\0', "\n"))
}

/// The environment of this process, below it what NCCL's own files set: the environment wins.
fn current(engine: &Engine) -> Environment {
    let own = |name: &str| std::env::var(name).ok();
    let mut all = Environment { source: "environment".into(), ..Environment::default() };
    let home = own("HOME").map(|h| format!("{h}/.nccl.conf"));
    let first = own("NCCL_CONF_FILE").or(home);
    for path in first.into_iter().chain(["/etc/nccl.conf".into()]) {
        let Ok((name, text)) = text_of(std::path::Path::new(&path)) else { continue };
        let read = engine.check_texts(&[(name, text)], Releases::default()).environments;
        let before = read.into_iter().flat_map(|e| e.variables).filter(|a| all.get(&a.name).is_none());
        let before: Vec<Assignment> = before.collect();
        all.variables.extend(before);
    }
    let lines: Vec<String> = std::env::vars_os()
        .filter_map(|(n, v)| Some((n.into_string().ok()?, v.to_string_lossy().into_owned())))
        .map(|(n, v)| serde_json::Value::from(format!("{n}={v}")).to_string())
        .collect();
    // A JSON list keeps values with quotes and blanks as they are.
    let text = format!("[{}]", lines.join(","));
    for env in engine.check_texts(&[("environment".into(), text)], Releases::default()).environments {
        all.variables.retain(|a| env.get(&a.name).is_none());
        all.variables.extend(env.variables.into_iter().map(|a| Assignment { line: 0, ..a }));
    }
    all.variables.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn json(checked: &Checked, releases: Releases, out: &mut dyn Write) -> io::Result<()> {
    let (notes, findings): (Vec<&Remark>, Vec<&Remark>) =
        checked.remarks.iter().partition(|r| r.level == Level::Note);
    let value = serde_json::json!({
        "schema": "ncclcheck.env/1",
        "nccl": releases.nccl.map(|r| r.to_string()),
        "torch": releases.torch.map(|r| r.to_string()),
        "findings": findings,
        "notes": notes,
        "environments": checked.environments,
    });
    serde_json::to_writer_pretty(&mut *out, &value)?;
    out.write_all(b"\n")
}

fn text(checked: &Checked, args: &Env, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(columns());
    let count = checked.environments.iter().map(|e| e.variables.len()).sum::<usize>();
    let wrong = checked.remarks.iter().filter(|r| r.level != Level::Note).count();
    let head = match (count, wrong) {
        (0, 0) => "No variable that NCCL, PyTorch or a launcher reads is set.".to_string(),
        (_, 0) => format!("{count} variable(s) looked at; nothing wrong was found."),
        _ => format!("{count} variable(s) looked at; {wrong} thing(s) to change."),
    };
    page.flow("", "", &[(if wrong == 0 { GOOD } else { BAD }, head)], usize::MAX);
    for (level, title) in [
        (Level::Wrong, "Does not do what was meant"),
        (Level::Beware, "Contradicts, or can do harm"),
        (Level::Note, "To know (no fault)"),
    ] {
        let list: Vec<&Remark> = checked.remarks.iter().filter(|r| r.level == level).collect();
        if !list.is_empty() {
            page.heading(title);
        }
        for r in list {
            draw(r, &mut page);
        }
    }
    if args.nccl.is_none() && checked.remarks.iter().any(|r| r.kind == "not-read") {
        page.blank();
        page.flow("", "", &[(DIM, "--nccl RELEASE tells what that release reads.".into())], usize::MAX);
    }
    page.lines().iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn draw(r: &Remark, page: &mut Page) {
    let set = match &r.value {
        Some(value) => format!("{}={value}", r.name),
        None => r.name.clone(),
    };
    let place = match r.line {
        0 => r.source.clone(),
        n => format!("{}:{n}", r.source),
    };
    let ink = match r.level {
        Level::Wrong => BAD,
        Level::Beware => WARN,
        Level::Note => CODE,
    };
    page.flow("  ", "    ", &[(ink, visible(&set)), (DIM, visible(&place))], usize::MAX);
    page.flow("    ", "    ", &[(PLAIN, visible(&r.say))], usize::MAX);
    if let Some(instead) = &r.instead {
        page.flow("    ", "    ", &[(DIM, "instead:".into()), (CODE, visible(instead))], usize::MAX);
    }
}
