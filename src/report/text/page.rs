//! Lines of a fixed width: words flow, quoted lines are cut, never broken.
//! Styles are written as ANSI codes; the caller's stream strips them where
//! they are not wanted. Widths are those of the terminal, not of bytes.

use anstyle::{AnsiColor, Style as Ink};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub(crate) const PLAIN: Ink = Ink::new();
pub(crate) const BOLD: Ink = Ink::new().bold();
pub(crate) const DIM: Ink = Ink::new().dimmed();
pub(crate) const CODE: Ink = AnsiColor::Cyan.on_default();
pub(crate) const BAD: Ink = AnsiColor::Red.on_default().bold();
pub(crate) const WARN: Ink = AnsiColor::Yellow.on_default().bold();
pub(crate) const GOOD: Ink = AnsiColor::Green.on_default().bold();

/// Width of the column of labels.
const LABELS: usize = 12;

/// Narrower than this no page is laid out.
const NARROWEST: usize = 20;
/// Pages narrower than this get more lines for the same text.
const NARROW: usize = 60;

/// So many lines, or as many more as a narrow page needs for what they hold on one of 100 columns.
pub(crate) fn lines_for(lines: usize, width: usize) -> usize {
    if width >= NARROW { lines } else { lines.saturating_mul(100).div_ceil(width.max(NARROWEST)) }
}

/// A text in one style.
pub(crate) type Span = (Ink, String);

/// Lines that are ready to be written.
#[derive(Debug)]
pub(crate) struct Page {
    width: usize,
    lines: Vec<String>,
}

impl Page {
    pub(crate) fn new(width: usize) -> Self {
        Self { width: width.max(NARROWEST), lines: Vec::new() }
    }

    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// An empty line, but never two and never at the top.
    pub(crate) fn blank(&mut self) {
        if self.lines.last().is_some_and(|l| !l.is_empty()) {
            self.lines.push(String::new());
        }
    }

    /// A title with an empty line before it.
    pub(crate) fn heading(&mut self, text: &str) {
        self.blank();
        self.flow("", "", &[(BOLD, text.into())], usize::MAX);
    }

    /// `Where       rank 5`: a label and what belongs to it.
    pub(crate) fn label(&mut self, name: &str, spans: &[Span], most: usize) {
        if self.width < NARROW {
            self.flow("  ", "    ", &[&[(DIM, format!("{name}:"))], spans].concat(), most);
            return;
        }
        let first = format!("  {DIM}{name}{DIM:#}{}", " ".repeat(LABELS.saturating_sub(name.width())));
        self.flow(&first, &" ".repeat(LABELS + 2), spans, most);
    }

    /// What opens a line; of an indent no more than a third of the line.
    fn opening(&self, text: &str) -> String {
        let mut text = text.to_string();
        if text.trim().is_empty() {
            text.truncate(self.width / 3);
        }
        text
    }

    /// Words in lines of the page's width, at most `most` lines; `first`
    /// opens the first line and `hang` every other.
    pub(crate) fn flow(&mut self, first: &str, hang: &str, spans: &[Span], most: usize) {
        let most = lines_for(most, self.width);
        let (first, hang) = (self.opening(first), self.opening(hang));
        let mut line = Line::new(&first);
        let mut lines = Vec::new();
        for (ink, text) in spans {
            for word in text.split(' ').filter(|w| !w.is_empty()) {
                for (i, piece) in pieces(word, self.width - plain_width(&hang)).iter().enumerate() {
                    let gap = usize::from(line.words > 0 && i == 0);
                    if line.words > 0 && line.width + gap + piece.width() > self.width {
                        lines.push(std::mem::replace(&mut line, Line::new(&hang)));
                    }
                    line.push(*ink, piece, i == 0);
                }
            }
        }
        lines.push(line);
        if lines.len() > most.max(1) {
            lines.truncate(most.max(1));
            if let Some(last) = lines.last_mut() {
                last.cut(self.width);
            }
        }
        self.lines.extend(lines.iter().map(Line::draw));
    }

    /// One line of a log: as it is, cut with `…` where it is too long.
    pub(crate) fn quote(&mut self, head: &[Span], text: &str, whole: bool) {
        self.quote_in(2, head, text, whole);
    }

    /// The same with so many blanks before it, two more before what has a line of its own.
    pub(crate) fn quote_in(&mut self, blanks: usize, head: &[Span], text: &str, whole: bool) {
        let blanks = blanks.min(self.width / 4);
        let open = " ".repeat(blanks);
        let head: Vec<&Span> = head.iter().filter(|(_, t)| !t.is_empty()).collect();
        let head_width: usize = blanks + head.iter().map(|(_, t)| t.width() + 2).sum::<usize>();
        let fits = head_width + text.width() <= self.width;
        let room = self.width - blanks - 2;
        let mut line = open.clone();
        for (ink, part) in &head {
            line.push_str(&format!("{ink}{}{ink:#}  ", cut(part, room)));
        }
        if fits {
            line.push_str(text);
            self.lines.push(line);
            return;
        }
        if head_width - 2 <= self.width {
            self.lines.push(line.trim_end().to_string());
        } else {
            let head: Vec<Span> = head.into_iter().cloned().collect();
            self.flow(&open, &format!("{open}  "), &head, usize::MAX);
        }
        let text = if whole { text.to_string() } else { cut(&from_the_message(text, room), room) };
        self.lines.push(format!("{open}  {text}"));
    }
}

/// A long NCCL line without its header, where the header would take the place of the message.
fn from_the_message(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_string();
    }
    ["NCCL WARN ", "NCCL INFO "]
        .iter()
        .filter_map(|mark| text.find(mark))
        .min()
        .filter(|at| *at > 0 && *at < 160)
        .map_or(text.to_string(), |at| format!("…{}", &text[at..]))
}

/// Cuts at a width, with `…` for what is left out.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_string();
    }
    let mut used = 1;
    let mut out = String::new();
    for c in text.chars() {
        let w = c.width().unwrap_or(0);
        if used + w > width {
            break;
        }
        used += w;
        out.push(c);
    }
    out.push('…');
    out
}

/// A word that is longer than a line, in pieces that are not: broken where it has a joint, if that leaves no line
/// half empty.
fn pieces(word: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut out = Vec::new();
    let mut piece = String::new();
    for c in word.chars() {
        if piece.width() + c.width().unwrap_or(0) > width {
            let joint = piece.rfind(|c: char| "/_-.,:=;|".contains(c)).map_or(0, |at| at + 1);
            let rest = if joint * 2 > piece.len() { piece.split_off(joint) } else { String::new() };
            out.push(std::mem::replace(&mut piece, rest));
        }
        piece.push(c);
    }
    out.push(piece);
    out
}

/// A line in the making: runs of one style.
struct Line {
    open: String,
    open_width: usize,
    runs: Vec<Span>,
    width: usize,
    words: usize,
}

/// Columns that a text takes; styles take none.
fn plain_width(text: &str) -> usize {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().width();
    first + parts.map(|p| p.split_once('m').map_or(0, |(_, rest)| rest.width())).sum::<usize>()
}

impl Line {
    fn new(open: &str) -> Self {
        let open_width = plain_width(open);
        Self { open: open.into(), open_width, runs: Vec::new(), width: open_width, words: 0 }
    }

    fn push(&mut self, ink: Ink, word: &str, gap: bool) {
        let gap = if gap && self.words > 0 { " " } else { "" };
        self.width += word.width() + gap.len();
        self.words += 1;
        match self.runs.last_mut() {
            Some((last, text)) if *last == ink => {
                text.push_str(gap);
                text.push_str(word);
            }
            Some((_, text)) => {
                text.push_str(gap);
                self.runs.push((ink, word.into()));
            }
            None => self.runs.push((ink, word.into())),
        }
    }

    /// Ends the line with `…`.
    fn cut(&mut self, width: usize) {
        if self.width + 2 <= width {
            self.push(PLAIN, "…", true);
            return;
        }
        // What is too short to hold the mark goes as a whole.
        while self.runs.len() > 1 && self.runs.last().is_some_and(|(_, t)| t.width() < 3) {
            self.runs.pop();
        }
        if let Some((_, text)) = self.runs.last_mut() {
            let keep = text.width().saturating_sub(2);
            let mut short = cut(text, keep.max(1));
            if !short.ends_with('…') {
                short.push('…');
            }
            *text = short;
        }
        self.width = self.open_width + self.runs.iter().map(|(_, t)| t.width()).sum::<usize>();
    }

    fn draw(&self) -> String {
        let mut out = self.open.clone();
        for (ink, text) in &self.runs {
            out.push_str(&format!("{ink}{text}{ink:#}"));
        }
        out.trim_end().to_string()
    }
}
