//! The catalogue made ready: every wording with its fixed text in a search
//! automaton, its expression compiled when the first line asks for it.

use super::{printf, shapes};
use crate::base::{Release, ReleaseRange};
use crate::knowledge::{Door, FieldType, Kind, Knowledge, Level, Message, Role, Strength, Trouble};
use crate::text::Opened;
use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Index of a message in [`Catalogue::messages`].
pub type MessageId = u16;
/// Index of a field name in [`Catalogue::fields`].
pub type FieldId = u16;

/// Text longer than this is searched only in its first part: no message is so long.
const LONGEST: usize = 16 << 10;

/// A message as the program uses it.
#[derive(Debug)]
pub struct Entry {
    /// Id in the files.
    pub id: String,
    /// One sentence.
    pub about: String,
    /// File it stands in.
    pub file: String,
    /// Role.
    pub role: Role,
    /// Kind.
    pub kind: Kind,
    /// Which lines.
    pub door: Door,
    /// Cause that it suggests by itself.
    pub cause: Option<String>,
    /// How strongly.
    pub weight: Strength,
    /// Field types by name.
    pub types: FxHashMap<FieldId, FieldType>,
    /// Fields that keep lines of it by one speaker apart: those of type rank, else the rank in a group.
    pub(crate) told_by: Vec<FieldId>,
    /// Slot → field, or a fixed word.
    pub slots: FxHashMap<String, Slot>,
    /// What two jobs are compared in: a field or `=word`, and what that is called.
    pub compare: BTreeMap<String, String>,
    /// Only the first of each speaker is an event.
    pub bulk: bool,
    /// Only looked for near the ends of a source.
    pub edges: bool,
}

/// How long events are kept where there are very many: each class has bytes of its own, so that none crowds out a
/// heavier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Facts, victims, symptoms.
    Light,
    /// Who is who.
    Start,
    /// What may be the cause, and ends.
    Cause,
}

impl Entry {
    /// How long events of the message are kept where there are very many.
    pub(crate) fn weight(&self) -> Weight {
        match self.kind {
            _ if self.role == Role::First => Weight::Cause,
            Kind::Ends | Kind::EndsWell | Kind::Restarts | Kind::Cancelled | Kind::Exception => Weight::Cause,
            Kind::JobStarts | Kind::Comm | Kind::Rank => Weight::Start,
            _ => Weight::Light,
        }
    }

    /// Whether it says that something was over: what starts then is another run.
    pub(crate) fn ends_a_run(&self) -> bool {
        matches!(self.kind, Kind::Ends | Kind::Cancelled | Kind::EndsWell)
            || (self.kind == Kind::Exception && self.role != Role::Harmless)
    }

    /// Whether all but the first line of each speaker need no event, wherever they stand: they are counted, and tell
    /// neither that a run begins nor that one is over.
    pub(crate) fn is_only_counted(&self) -> bool {
        let tells = matches!(self.kind, Kind::JobStarts | Kind::Restarts | Kind::Comm | Kind::Step);
        self.bulk && !tells && !self.ends_a_run()
    }
}

/// What fills a slot.
#[derive(Debug, Clone)]
pub enum Slot {
    /// A field.
    Field(FieldId),
    /// A word that the message's file fixes.
    Word(String),
}

/// A wording.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) message: MessageId,
    pub(super) nth: u8,
    pub(super) has: Vec<u8>,
    pub(super) opens: bool,
    pub(super) level: Level,
    pub(super) door: Door,
    pub(super) priority: i32,
    pub(super) also: bool,
    pub(super) edges: bool,
    pub(super) pattern: Option<String>,
    regex: OnceLock<Option<Regex>>,
    pub(super) near: Vec<String>,
    near_regex: OnceLock<Vec<Regex>>,
    all_figures: OnceLock<bool>,
    /// Releases of NCCL and of PyTorch that print it.
    pub(super) nccl: Option<ReleaseRange>,
    pub(super) torch: Option<ReleaseRange>,
}

impl Form {
    /// Whether its expression takes all figures for the same.
    pub(super) fn takes_all_figures(&self) -> bool {
        *self.all_figures.get_or_init(|| self.pattern.as_deref().is_none_or(shapes::takes_all_figures))
    }
}

/// A wording that fits a text.
#[derive(Debug, Clone)]
pub struct Found {
    /// Message.
    pub message: MessageId,
    /// Which wording, from 0.
    pub form: u8,
    /// Where in the text it fits.
    pub at: (usize, usize),
    /// Fields.
    pub fields: Vec<(FieldId, Box<str>)>,
    pub(super) index: usize,
}

/// A search automaton over the fixed texts of some forms.
#[derive(Debug, Default)]
struct Search {
    forms: Vec<usize>,
    automaton: OnceLock<Option<AhoCorasick>>,
}

impl Search {
    fn candidates(&self, all: &[Form], text: &[u8], out: &mut Vec<usize>) {
        let automaton = self.automaton.get_or_init(|| {
            AhoCorasick::builder()
                .kind(Some(aho_corasick::AhoCorasickKind::ContiguousNFA))
                .build(self.forms.iter().map(|&f| &all[f].has))
                .ok()
        });
        let Some(automaton) = automaton else { return };
        for hit in automaton.find_overlapping_iter(text) {
            let form = self.forms[hit.pattern().as_usize()];
            if (!all[form].opens || hit.start() == 0) && !out.contains(&form) {
                out.push(form);
            }
        }
    }
}

/// All messages, compiled.
#[derive(Debug)]
pub struct Catalogue {
    /// Messages by [`MessageId`].
    pub messages: Vec<Entry>,
    /// Field names by [`FieldId`].
    pub fields: Vec<String>,
    pub(super) forms: Vec<Form>,
    by_id: FxHashMap<String, MessageId>,
    field_ids: FxHashMap<String, FieldId>,
    warn: Search,
    info: Search,
    /// Those of them that may stand anywhere in an INFO text, wherever the line is.
    inside_info: Search,
    line: Search,
    exception: Search,
    /// Openings of INFO lines: first bytes → forms.
    openings: super::Openings,
    figured: OnceLock<shapes::Figured>,
    /// What makes a line look like trouble that no message knows.
    pub(super) trouble: Trouble,
    /// For each message the first of its forms, which stand together.
    first_form: Vec<usize>,
}

/// Which text is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Behind an NCCL header of level WARN.
    Warn,
    /// Behind an NCCL header of another level.
    Info,
    /// A line.
    Line,
    /// The last line of a traceback.
    Exception,
}

impl Catalogue {
    /// Compiles the messages; built-in ones (`nccl.warn.unknown`, `python.exception`) are added.
    #[must_use]
    pub fn new(knowledge: &Knowledge) -> Self {
        let mut c = Self {
            messages: Vec::new(),
            fields: Vec::new(),
            forms: Vec::new(),
            by_id: FxHashMap::default(),
            field_ids: FxHashMap::default(),
            warn: Search::default(),
            info: Search::default(),
            inside_info: Search::default(),
            line: Search::default(),
            exception: Search::default(),
            openings: super::Openings::default(),
            figured: OnceLock::new(),
            trouble: knowledge.tables.trouble.clone(),
            first_form: Vec::new(),
        };
        for built_in in super::built_in::messages() {
            c.add(&built_in, "built in");
        }
        for (message, file) in &knowledge.messages {
            c.add(message, file);
        }
        c.index();
        c
    }

    fn add(&mut self, message: &Message, file: &str) {
        if self.messages.len() >= usize::from(MessageId::MAX) {
            return;
        }
        let id = self.messages.len() as MessageId;
        let types: FxHashMap<_, _> = message.fields.iter().map(|(n, t)| (self.field(n), *t)).collect();
        let ranks = types.iter().filter(|t| *t.1 == FieldType::Rank).map(|t| *t.0);
        let mut told_by: Vec<FieldId> = ranks.collect();
        if told_by.is_empty() {
            // Older releases put it in front of nothing but their own text: `[Rank 3] Watchdog caught …`.
            told_by.extend(self.field_id("group_rank").filter(|f| types.contains_key(f)));
        }
        let slots = message
            .slots
            .iter()
            .map(|(slot, what)| {
                let value = match what.strip_prefix('=') {
                    Some(word) => Slot::Word(word.to_string()),
                    None => Slot::Field(self.field(what)),
                };
                (slot.clone(), value)
            })
            .collect();
        self.first_form.push(self.forms.len());
        for (nth, form) in message.forms.iter().enumerate() {
            self.add_form(id, nth, message, form);
        }
        self.by_id.insert(message.id.clone(), id);
        self.messages.push(Entry {
            id: message.id.clone(),
            about: message.about.clone(),
            file: file.to_string(),
            role: message.role,
            kind: message.kind,
            door: message.door,
            cause: message.cause.clone(),
            weight: message.weight,
            types,
            told_by,
            slots,
            compare: message.compare.clone(),
            bulk: message.bulk,
            edges: message.edges,
        });
    }

    fn add_form(&mut self, id: MessageId, nth: usize, message: &Message, form: &crate::knowledge::Form) {
        let (has, pattern, opens) = match (&form.printf, &form.opens, &form.has) {
            (Some(format), opens, _) => {
                let converted = printf::convert(format, &form.fields_in);
                match opens {
                    Some(o) => (o.clone(), Some(converted.pattern), true),
                    None => (converted.has, Some(converted.pattern), false),
                }
            }
            (None, Some(opens), _) => (opens.clone(), form.pattern.clone(), true),
            (None, None, Some(has)) => (has.clone(), form.pattern.clone(), false),
            (None, None, None) => return,
        };
        if has.is_empty() {
            return;
        }
        self.forms.push(Form {
            message: id,
            nth: nth.min(255) as u8,
            has: has.into_bytes(),
            opens,
            level: message.level,
            door: message.door,
            priority: message.priority,
            also: message.also,
            edges: message.edges,
            pattern,
            regex: OnceLock::new(),
            near: form.near.clone(),
            near_regex: OnceLock::new(),
            all_figures: OnceLock::new(),
            nccl: form.nccl.as_deref().and_then(ReleaseRange::parse),
            torch: form.torch.as_deref().and_then(ReleaseRange::parse),
        });
    }

    fn index(&mut self) {
        for (i, form) in self.forms.iter().enumerate() {
            let nccl = matches!(form.door, Door::Nccl | Door::Both);
            let line = matches!(form.door, Door::Line | Door::Both);
            if nccl && form.level != Level::Info && form.level != Level::Trail {
                self.warn.forms.push(i);
            }
            if nccl && form.level != Level::Warn {
                if form.opens {
                    let entry = &self.messages[usize::from(form.message)];
                    let kind = (entry.bulk, entry.kind == Kind::Enters);
                    self.openings.add(&form.has, i, form.message, kind);
                } else {
                    self.info.forms.push(i);
                    // One that has openings is known by these.
                    let same = |f: &&Form| f.message == form.message && f.opens;
                    if !form.edges && !self.forms.iter().any(|f| same(&f)) {
                        self.inside_info.forms.push(i);
                    }
                }
            }
            if line {
                self.line.forms.push(i);
            }
            if line || form.door == Door::Exception {
                self.exception.forms.push(i);
            }
        }
    }

    fn field(&mut self, name: &str) -> FieldId {
        if let Some(&id) = self.field_ids.get(name) {
            return id;
        }
        let id = self.fields.len() as FieldId;
        self.fields.push(name.to_string());
        self.field_ids.insert(name.to_string(), id);
        id
    }

    /// The id of a field name that some message has.
    #[must_use]
    pub fn field_id(&self, name: &str) -> Option<FieldId> {
        self.field_ids.get(name).copied()
    }

    /// The message of that name.
    #[must_use]
    pub fn message(&self, id: &str) -> Option<MessageId> {
        self.by_id.get(id).copied()
    }

    /// What an INFO text may open, found by its first bytes alone: the hot path's question.
    pub(crate) fn opening(&self, text: &[u8]) -> Option<Opened> {
        self.openings.first(text)
    }

    /// Whether INFO texts without an opening must be searched as other lines are.
    pub(crate) fn searches_info(&self) -> bool {
        !self.inside_info.forms.is_empty()
    }

    /// All messages that fit the text: the best one first, then those that are given beside it.
    /// Near the ends of a source (`edges`) messages that are only looked for there take part.
    #[must_use]
    pub fn find(&self, asked: Asked, text: &[u8], edges: bool) -> Vec<Found> {
        let text = &text[..text.len().min(LONGEST)];
        self.verify(self.candidates(asked, text, edges), text, edges)
    }

    /// Forms whose fixed text stands in a text.
    pub(super) fn candidates(&self, asked: Asked, text: &[u8], edges: bool) -> Vec<usize> {
        let mut candidates = Vec::new();
        match asked {
            Asked::Warn => self.warn.candidates(&self.forms, text, &mut candidates),
            Asked::Info => {
                self.openings.all(text, &mut candidates);
                let inside = if edges { &self.info } else { &self.inside_info };
                if edges || self.searches_info() {
                    inside.candidates(&self.forms, text, &mut candidates);
                }
            }
            Asked::Line => self.line.candidates(&self.forms, text, &mut candidates),
            Asked::Exception => self.exception.candidates(&self.forms, text, &mut candidates),
        }
        candidates
    }

    /// Fixed texts that ask for certain figures.
    pub(super) fn figured(&self) -> &shapes::Figured {
        self.figured.get_or_init(|| shapes::Figured::new(&self.forms))
    }

    /// All messages that fit a whole line, its launcher prefix included.
    #[must_use]
    pub fn find_in_line(&self, line: &str) -> Vec<Found> {
        let prefix = crate::text::split_prefix(line.as_bytes());
        self.find(Asked::Line, &line.as_bytes()[prefix.len as usize..], true)
    }

    /// What an INFO line of NCCL means, its launcher's prefix and header before it.
    #[must_use]
    pub fn find_in_info(&self, line: &str) -> Vec<Found> {
        let prefix = crate::text::split_prefix(line.as_bytes());
        let rest = &line.as_bytes()[prefix.len as usize..];
        let body = crate::text::nccl_quick(rest).map_or(rest, |q| &rest[q.body as usize..]);
        self.find(Asked::Info, body, true)
    }

    /// Messages that claim a text of NCCL equally well in a release: each has a form that the release prints, that fits
    /// the text, and that no other form's priority beats. More than one means that the catalogue contradicts itself.
    #[must_use]
    pub fn rivals(&self, warn: bool, text: &[u8], release: Release) -> Vec<&str> {
        let asked = if warn { Asked::Warn } else { Asked::Info };
        self.claimants(asked, text, |form| form.nccl.is_none_or(|r| r.contains(release)))
    }

    /// As [`Catalogue::rivals`], for a line of PyTorch, with the header of its logger and without a launcher's mark.
    #[must_use]
    pub fn rivals_of_torch(&self, line: &str, release: Release) -> Vec<&str> {
        let asked =
            if super::exceptions::named(line, false).is_some() { Asked::Exception } else { Asked::Line };
        self.claimants(asked, line.as_bytes(), |form| form.torch.is_none_or(|r| r.contains(release)))
    }

    fn claimants(&self, asked: Asked, text: &[u8], prints: impl Fn(&Form) -> bool) -> Vec<&str> {
        let fits = |&i: &usize| {
            let form = &self.forms[i];
            !form.also && prints(form) && self.fits(i, text).is_some()
        };
        let forms: Vec<usize> = self.candidates(asked, text, true).into_iter().filter(fits).collect();
        let best = forms.iter().map(|&i| self.forms[i].priority).max();
        let mut ids: Vec<&str> = forms
            .iter()
            .filter(|&&i| Some(self.forms[i].priority) == best)
            .map(|&i| self.messages[usize::from(self.forms[i].message)].id.as_str())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// NCCL texts whose header was lost: only those with a long fixed part are believed.
    #[must_use]
    pub fn find_bare(&self, text: &[u8]) -> Vec<Found> {
        let text = &text[..text.len().min(LONGEST)];
        let mut candidates = Vec::new();
        self.warn.candidates(&self.forms, text, &mut candidates);
        candidates.retain(|&f| self.forms[f].has.len() >= 14);
        self.verify(candidates, text, true)
    }

    /// Those of the candidates that fit: the best one first.
    pub(super) fn verify(&self, mut candidates: Vec<usize>, text: &[u8], edges: bool) -> Vec<Found> {
        candidates.sort_by(|&a, &b| {
            let (fa, fb) = (&self.forms[a], &self.forms[b]);
            (fb.priority, fb.has.len(), a).cmp(&(fa.priority, fa.has.len(), b))
        });
        let mut found: Vec<Found> = Vec::new();
        let mut won = false;
        for index in candidates {
            let form = &self.forms[index];
            if (form.edges && !edges)
                || (won && !form.also)
                || found.iter().any(|f| f.message == form.message)
            {
                continue;
            }
            if let Some(fit) = self.fits(index, text) {
                if form.also {
                    found.push(fit);
                } else {
                    won = true;
                    found.insert(0, fit);
                }
            }
        }
        found
    }

    /// Where a wording fits a text, its first and the end behind its last byte.
    pub(super) fn place(&self, index: usize, text: &[u8]) -> Option<(u32, u32)> {
        let form = &self.forms[index];
        let Some(pattern) = &form.pattern else {
            let at = memchr::memmem::find(text, &form.has)?;
            return Some((at as u32, (at + form.has.len()) as u32));
        };
        let fit = form.regex.get_or_init(|| build(pattern)).as_ref()?.find(text)?;
        Some((fit.start() as u32, fit.end() as u32))
    }

    fn fits(&self, index: usize, text: &[u8]) -> Option<Found> {
        let form = &self.forms[index];
        let Some(pattern) = &form.pattern else {
            let at = memchr::memmem::find(text, &form.has)?;
            return Some(Found {
                message: form.message,
                form: form.nth,
                at: (at, at + form.has.len()),
                fields: Vec::new(),
                index,
            });
        };
        let regex = form.regex.get_or_init(|| build(pattern)).as_ref()?;
        let caps = regex.captures(text)?;
        let whole = caps.get(0)?;
        let fields = self.captured(regex, &caps);
        Some(Found { message: form.message, form: form.nth, at: (whole.start(), whole.end()), fields, index })
    }

    /// Where a form's fields stand in a text that it fits.
    pub(super) fn spans(&self, index: usize, text: &[u8]) -> Option<Vec<(FieldId, (u32, u32))>> {
        let form = &self.forms[index];
        let Some(pattern) = &form.pattern else { return Some(Vec::new()) };
        let regex = form.regex.get_or_init(|| build(pattern)).as_ref()?;
        let caps = regex.captures(text)?;
        let spans = regex.capture_names().flatten().filter_map(|name| {
            let m = caps.name(name)?;
            Some((self.field_id(name)?, (m.start() as u32, m.end() as u32)))
        });
        Some(spans.collect())
    }

    fn captured(&self, regex: &Regex, caps: &regex::bytes::Captures<'_>) -> Vec<(FieldId, Box<str>)> {
        let mut fields = Vec::new();
        for name in regex.capture_names().flatten() {
            if let (Some(m), Some(id)) = (caps.name(name), self.field_id(name)) {
                fields.push((id, super::boxed(m.as_bytes())));
            }
        }
        fields
    }

    /// Expressions that add fields from lines near by (see `near` in the message files).
    pub(crate) fn near(&self, found: &Found) -> &[Regex] {
        let form = &self.forms[found.index];
        form.near_regex.get_or_init(|| form.near.iter().filter_map(|p| build(p)).collect())
    }

    /// Adds fields that the expression finds in a neighbouring line; those that are there stay.
    pub(crate) fn add_near(&self, regex: &Regex, text: &[u8], found: &mut Found) -> bool {
        let Some(caps) = regex.captures(text) else { return false };
        for (id, value) in self.captured(regex, &caps) {
            if !found.fields.iter().any(|f| f.0 == id) {
                found.fields.push((id, value));
            }
        }
        true
    }

    /// Ranges of releases that print a wording.
    pub(crate) fn releases(
        &self,
        message: MessageId,
        nth: u8,
    ) -> (Option<ReleaseRange>, Option<ReleaseRange>) {
        let first = self.first_form.get(usize::from(message)).copied().unwrap_or(self.forms.len());
        self.forms[first..]
            .iter()
            .take_while(|f| f.message == message)
            .find(|f| f.nth == nth)
            .map_or((None, None), |f| (f.nccl, f.torch))
    }

    /// What is wrong with a form's expression, for `rules check`.
    pub(super) fn pattern_fault(&self, form: &Form) -> Option<String> {
        let pattern = form.pattern.as_ref()?;
        let fault = RegexBuilder::new(pattern).unicode(false).size_limit(1 << 22).build().err()?;
        Some(fault.to_string())
    }
}

fn build(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(1 << 22)
        .build()
        .or_else(|_| RegexBuilder::new(pattern).size_limit(1 << 24).build())
        .ok()
}
