//! `ncclcheck events [PATH…]`: what was read, one line an event.

use super::args::{Events, Global, ListFormat};
use super::out::{FINE, Fail, print};
use super::sources;
use crate::engine::EventLine;
use crate::report::text::{CODE, DIM, visible};
use std::io::{self, Write};

pub(super) fn run(global: &Global, args: &Events) -> Result<u8, Fail> {
    let (given, options) = sources::given(&args.sources)?;
    let engine = sources::engine(global)?;
    let events = engine.events(&given, &options, args.unknown).map_err(|err| err.to_string())?;
    print(global.color, FINE, |out| {
        for event in &events {
            match args.format {
                ListFormat::Text => line(event, out)?,
                ListFormat::Ndjson => {
                    serde_json::to_writer(&mut *out, event)?;
                    out.write_all(b"\n")?;
                }
            }
        }
        Ok(())
    })
}

/// `source:line  message/form  speaker, rank (how)  field=value …`, or the line itself where no message knows it.
fn line(event: &EventLine, out: &mut dyn Write) -> io::Result<()> {
    let place = format!("{}:{}", visible(&event.source), event.line);
    write!(out, "{CODE}{place}{CODE:#}  {}", visible(&event.message))?;
    if event.form > 0 {
        write!(out, "/{}", event.form)?;
    }
    if event.count > 1 {
        write!(out, " ×{}", event.count)?;
    }
    let mut who = visible(&event.speaker);
    if let Some(rank) = event.rank {
        who.push_str(&format!(", rank {rank}"));
        if let Some(by) = event.rank_by {
            who.push_str(&format!(" ({})", visible(by)));
        }
    }
    write!(out, "  {DIM}{who}{DIM:#}")?;
    if event.fields.is_empty() {
        write!(out, "  {}", visible(&event.text))?;
    }
    for (name, value) in &event.fields {
        let value = visible(value);
        let quote = if value.is_empty() || value.contains(' ') { "\"" } else { "" };
        write!(out, "  {name}={quote}{value}{quote}")?;
    }
    writeln!(out)
}
