//! One line taken apart, for `ncclcheck explain 'LINE'`.

use super::Taken;
use crate::catalogue::{Asked, Catalogue};
use crate::text::{self, Level};

/// Prefix, header, message and fields of a line.
pub(super) fn take(catalogue: &Catalogue, line: &str) -> Taken {
    let bytes = line.as_bytes();
    let prefix = text::split_prefix(bytes);
    let mut header = Vec::new();
    let mut say = |what: &str, value: String| header.push((what.to_string(), value));
    for (what, value) in [
        ("global rank", prefix.rank),
        ("task or node", prefix.label),
        ("local rank", prefix.local),
        ("process of the wrapper", prefix.pid),
    ] {
        if let Some(v) = value {
            say(what, v.to_string());
        }
    }
    let cut = |b: &[u8], s: (u32, u32)| String::from_utf8_lossy(&b[s.0 as usize..s.1 as usize]).into_owned();
    if let Some(host) = prefix.host {
        say("host of the wrapper", cut(bytes, host));
    }
    let rest = &bytes[prefix.len as usize..];
    let mut asked = Asked::Line;
    let mut body = rest;
    if let Some(h) = text::nccl_header(rest) {
        say("host", cut(rest, h.host));
        if let Some(pid) = h.pid {
            say("process", pid.to_string());
        }
        if let Some(dev) = h.dev {
            say("device of the printing thread", dev.to_string());
        }
        say("level", format!("{:?}", h.level).to_uppercase());
        if let (Some(file), Some(n)) = (h.file, h.line) {
            say("NCCL source", format!("{}:{n}", cut(rest, file)));
        }
        asked = if matches!(h.level, Level::Warn | Level::Error | Level::Abort) {
            Asked::Warn
        } else {
            Asked::Info
        };
        body = &rest[h.body as usize..];
    }
    let mut found = catalogue.find(asked, body, true);
    if found.is_empty() && asked == Asked::Line {
        found = catalogue.find(Asked::Exception, body, true);
    }
    if found.is_empty() {
        found = catalogue.find_bare(body);
    }
    let Some(f) = found.first() else { return Taken { header, message: None, fields: Vec::new() } };
    let entry = &catalogue.messages[usize::from(f.message)];
    let fields = f
        .fields
        .iter()
        .map(|(id, value)| {
            let kind = entry.types.get(id).map_or(String::from("text"), super::word);
            (catalogue.fields[usize::from(*id)].clone(), kind, value.to_string())
        })
        .collect();
    Taken { header, message: Some(entry.id.clone()), fields }
}
