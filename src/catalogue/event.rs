//! The event: one line (or one message of several lines) that is understood.

use super::{FieldId, MessageId};
use crate::base::Stamp;
use crate::text::Who;

/// How a message was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// At its own door.
    Line,
    /// An NCCL text whose header was lost.
    Bare,
    /// Behind torch's `Last error:`: the latest WARN of the process, maybe an old one.
    LastError,
    /// From a whole document (Flight Recorder, error file).
    Document,
}

/// One thing that a source says.
#[derive(Debug, Clone)]
pub struct Event {
    /// Message.
    pub message: MessageId,
    /// Wording, from 0.
    pub form: u8,
    /// How recognised.
    pub via: Via,
    /// Physical line in its source, from 1.
    pub line: u64,
    /// Order within the line.
    pub sub: u32,
    /// Index into the source's speakers.
    pub speaker: u32,
    /// Device that NCCL printed.
    pub dev: Option<i32>,
    /// Time that the line gives.
    pub time: Option<Stamp>,
    /// Fields.
    pub fields: Vec<(FieldId, Box<str>)>,
    /// The line as it stands there, at most 4 KiB round the match.
    pub text: Box<str>,
    /// Whether the text was cut.
    pub cut: bool,
    /// Lines that this stands for.
    pub count: u64,
    /// The last of them.
    pub last_line: u64,
}

impl Event {
    /// What a whole document says. It has no lines of its own: `nth` is the event's place in its source.
    #[must_use]
    pub(crate) fn of_document(
        message: MessageId,
        nth: usize,
        fields: Vec<(FieldId, Box<str>)>,
        text: impl Into<Box<str>>,
    ) -> Self {
        Self {
            message,
            form: 0,
            via: Via::Document,
            line: 1,
            sub: nth as u32,
            speaker: 0,
            dev: None,
            time: None,
            fields,
            text: text.into(),
            cut: true,
            count: 1,
            last_line: 1,
        }
    }

    /// A field's text.
    #[must_use]
    pub fn field(&self, id: FieldId) -> Option<&str> {
        self.fields.iter().find(|f| f.0 == id).map(|f| &*f.1)
    }

    /// About what it takes in memory.
    #[must_use]
    pub fn size(&self) -> usize {
        160 + self.text.len() + self.fields.iter().map(|f| 24 + f.1.len()).sum::<usize>()
    }
}

/// A line quoted.
#[derive(Debug, Clone)]
pub struct Said {
    /// Physical line from 1 (in a block: from 0).
    pub line: u64,
    /// Text, cleaned and cut.
    pub text: Box<str>,
    /// Whether that is the whole line as it stands in the input.
    pub whole: bool,
    /// Time that it gives.
    pub time: Option<Stamp>,
}

/// What a speaker of a source said.
#[derive(Debug, Clone)]
pub struct Speaker {
    /// Who.
    pub who: Who,
    /// Lines, exact.
    pub count: u64,
    /// First line.
    pub first: Option<Said>,
    /// Last four, oldest first.
    pub last: Vec<Said>,
}

/// The last four lines of a speaker, in one piece.
#[derive(Debug, Clone, Default)]
pub struct Last {
    /// Physical line, and where its text ends in `text`.
    lines: [(u64, u32); 4],
    count: u8,
    text: Vec<u8>,
}

impl Last {
    /// Room for so much text.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.text.reserve_exact(bytes);
    }

    /// Adds a line behind the others; nothing behind four.
    pub(crate) fn push(&mut self, line: u64, text: &[u8]) {
        if let Some(place) = self.lines.get_mut(usize::from(self.count)) {
            self.text.extend_from_slice(text);
            *place = (line, self.text.len() as u32);
            self.count += 1;
        }
    }

    /// Counts lines from elsewhere.
    pub(crate) fn renumber(&mut self, number: impl Fn(u64) -> u64) {
        self.lines.iter_mut().take(usize::from(self.count)).for_each(|l| l.0 = number(l.0));
    }

    /// The last four of these and of those that come behind them.
    pub(crate) fn append(&mut self, next: Self) {
        if next.count == 4 || self.count == 0 {
            *self = next;
            return;
        }
        let mut all = Self::default();
        let both: Vec<(u64, &[u8])> = self.iter().chain(next.iter()).collect();
        for (line, text) in &both[both.len().saturating_sub(4)..] {
            all.push(*line, text);
        }
        *self = all;
    }

    /// Line and text, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut from = 0;
        self.lines.iter().take(usize::from(self.count)).map(move |&(line, end)| {
            let text = &self.text[from..end as usize];
            from = end as usize;
            (line, text)
        })
    }
}

/// What a speaker said in one block.
#[derive(Debug, Clone)]
pub struct Spoken {
    /// Who.
    pub who: Who,
    /// Lines, exact.
    pub count: u64,
    /// First line; nothing where it is kept already.
    pub first: Option<Said>,
    /// Last four.
    pub last: Last,
}

/// Lines of a bulk message by one speaker.
#[derive(Debug, Clone)]
pub struct BulkCount {
    /// Message.
    pub message: MessageId,
    /// Speaker.
    pub speaker: u32,
    /// A number for the communicator, where these are kept apart; else 0.
    pub part: u64,
    /// Exact count.
    pub count: u64,
    /// Last one.
    pub last: Said,
    /// The one before it in the same block, where these are told apart.
    pub before: Option<Said>,
}

/// Lines that are a message like others before them, counted only.
#[derive(Debug, Clone, Copy)]
pub struct More {
    /// Message.
    pub message: MessageId,
    /// Speaker.
    pub speaker: u32,
    /// What keeps them apart from others (the rank that they name); `u32::MAX` where nothing does.
    pub rank: u32,
    /// How many.
    pub count: u64,
    /// The last of them.
    pub last_line: u64,
}

/// What one block gives. Line numbers count from the block's first line (0).
#[derive(Debug, Default)]
pub struct Yield {
    /// Who spoke.
    pub speakers: Vec<Spoken>,
    /// What was understood, in order of lines. Lines before the block are negative in `i64`.
    pub events: Vec<Event>,
    /// Bulk lines.
    pub bulk: Vec<BulkCount>,
    /// Lines like those of `events`, or like such as are kept already.
    pub more: Vec<More>,
    /// Line ends.
    pub ends: u64,
    /// Read line by line, as the beginning and the end of a source are: nothing is folded.
    pub full: bool,
    /// Text after the last line end.
    pub tail: bool,
}

impl Yield {
    /// About what it takes in memory.
    pub(crate) fn size(&self) -> usize {
        let spoken = self.speakers.iter().map(|s| 400 + s.last.text.len()).sum::<usize>();
        self.events.iter().map(Event::size).sum::<usize>() + spoken
    }
}
