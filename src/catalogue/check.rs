//! `rules check` for messages: every sample is taken by its own message and
//! by no other, fixed texts stand in their samples, expressions compile, and
//! what is no NCCL line has an anchor.

use super::compile::{Asked, Catalogue};
use crate::base::FILL;
use crate::knowledge::{Door, Fault, Form, Knowledge, Level, Message};
use crate::text;

impl Catalogue {
    /// All faults of the messages.
    #[must_use]
    pub fn check(&self, knowledge: &Knowledge) -> Vec<Fault> {
        let mut faults = Vec::new();
        for form in &self.forms {
            if let Some(what) = self.pattern_fault(form) {
                let m = &self.messages[usize::from(form.message)];
                faults.push(Fault { file: m.file.clone(), line: None, what: format!("{}: {what}", m.id) });
            }
        }
        for (message, file) in &knowledge.messages {
            for (nth, form) in message.forms.iter().enumerate() {
                for what in self.check_form(message, form, &knowledge.anchors) {
                    let what = format!("{} form {}: {what}", message.id, nth + 1);
                    faults.push(Fault { file: file.clone(), line: None, what });
                }
            }
            for what in message.compare.keys().filter(|k| !k.starts_with('=')) {
                if !message.fields.contains_key(what) {
                    let what = format!("{}: compare names {what}, which `fields` has not", message.id);
                    faults.push(Fault { file: file.clone(), line: None, what });
                }
            }
            if message.about.trim_start().starts_with(FILL) {
                let what = format!("{}: about is still to be filled in", message.id);
                faults.push(Fault { file: file.clone(), line: None, what });
            }
            if message.forms.is_empty() {
                let what = format!("{}: no form", message.id);
                faults.push(Fault { file: file.clone(), line: None, what });
            }
        }
        faults
    }

    fn check_form(&self, message: &Message, form: &Form, anchors: &[String]) -> Vec<String> {
        let mut faults = Vec::new();
        let samples = form.samples();
        if samples.is_empty() {
            faults.push("no sample".into());
        }
        let nccl = message.door == Door::Nccl;
        let info = nccl && message.level == Level::Info && !message.edges;
        if info && form.opens.is_none() {
            faults.push("level info needs `opens` (or edges = true)".into());
        }
        let fixed = form.has.as_ref().or(form.opens.as_ref());
        if let (Some(has), false, false) = (fixed, nccl, message.edges)
            && message.door != Door::Exception
            && !anchors.iter().any(|a| has.contains(a.as_str()))
        {
            faults.push(format!("{has:?} contains no anchor (see anchors.toml; or edges = true)"));
        }
        if let (None, None, Some(_)) = (&form.nccl, &form.torch, &form.printf)
            && form.fields_in.iter().any(|f| f != "-" && !message.fields.contains_key(f))
        {
            faults.push("fields_in names a field that `fields` has not".into());
        }
        for (nth, sample) in samples.iter().enumerate() {
            if let Some(what) = self.check_sample(message, form, sample, nth == 0) {
                faults.push(format!("sample {sample:?}: {what}"));
            }
        }
        faults
    }

    fn check_sample(&self, message: &Message, form: &Form, sample: &str, first: bool) -> Option<String> {
        let found = self.find_sample(message, sample);
        let Some(own) = found.iter().find(|f| self.messages[usize::from(f.message)].id == message.id) else {
            let other = found.first().map(|f| self.messages[usize::from(f.message)].id.clone());
            return Some(match other {
                Some(other) => format!("is taken by {other}"),
                None => "is not taken".into(),
            });
        };
        if !first {
            return None;
        }
        for (name, want) in &form.gives {
            let want = match want {
                toml::Value::String(s) => s.clone(),
                other => other.to_string(),
            };
            let got = self.field_id(name).and_then(|id| own.fields.iter().find(|f| f.0 == id)).map(|f| &*f.1);
            if got != Some(want.as_str()) {
                return Some(format!("field {name} is {got:?}, not {want:?}"));
            }
        }
        None
    }

    /// A sample may be a whole line or the text alone.
    fn find_sample(&self, message: &Message, sample: &str) -> Vec<super::Found> {
        let line = sample.lines().find(|l| !l.trim().is_empty()).unwrap_or("");
        let prefix = text::split_prefix(line.as_bytes());
        let rest = &line.as_bytes()[prefix.len as usize..];
        let header = text::nccl_header(rest).map(|h| h.body as usize);
        let body = &rest[header.unwrap_or(0)..];
        let asked = match (message.door, message.level) {
            (Door::Nccl, Level::Info | Level::Trail) => Asked::Info,
            (Door::Nccl, _) => Asked::Warn,
            (Door::Exception, _) => Asked::Exception,
            (Door::Both, _) if header.is_some() => Asked::Warn,
            _ => Asked::Line,
        };
        let mut found = self.find(asked, body, true);
        if found.is_empty() && asked == Asked::Warn && message.level == Level::Any {
            found = self.find(Asked::Info, body, true);
        }
        if found.is_empty() && asked == Asked::Line {
            found = self.find(Asked::Line, line.as_bytes(), true);
        }
        if found.is_empty() && asked == Asked::Exception {
            let body = text::pylog(rest).map_or(0, |p| p.body as usize);
            found = self.find(Asked::Exception, &rest[body..], true);
        }
        found
    }
}
