//! Texts that differ in figures only are the same message, wherever no
//! wording asks for a certain figure: what was verified once is known for all
//! of that shape. The figures keep their number in the shape, so the fields
//! of such texts stand at the same places too.

use super::compile::{Asked, Catalogue, Form};
use super::{FieldId, MessageId, exceptions, trouble};
use regex_syntax::hir::{Class, Hir, HirKind};
use rustc_hash::FxHashMap;

/// Shapes that are remembered at a time.
const MOST: usize = 8192;
/// Longer texts have no shape.
const LONGEST: usize = 2048;

/// A message that a text of a shape is.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) message: MessageId,
    pub(super) form: u8,
    pub(super) fields: Vec<(FieldId, (u32, u32))>,
    /// The first field that tells a rank.
    pub(super) rank: Option<(u32, u32)>,
}

/// What is known of a shape.
#[derive(Debug)]
enum Known {
    /// Its texts must be looked at one by one.
    Single,
    /// All its texts are the same messages.
    Told(Box<[Told]>),
    /// Some wordings ask for certain figures: texts that these fit at the same places are the same messages.
    ByForms { forms: Box<[usize]>, told: Vec<(Fits, Option<Box<[Told]>>)> },
}

/// Where wordings fit a text.
type Fits = [Option<(u32, u32)>; MOST_FORMS];

/// Wordings of a shape that ask for figures, at most.
const MOST_FORMS: usize = 4;
/// Ways in which they fit that are remembered.
const MOST_WAYS: usize = 8;

/// What a text is, and which wordings ask for figures that it has or has not.
pub(super) struct Answer {
    pub(super) told: Vec<Told>,
    pub(super) forms: Vec<usize>,
}

/// Shapes seen by one reader, kept from block to block.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    known: FxHashMap<u64, Known>,
    asked: u32,
    missed: u32,
    /// Texts that are not asked for, after too many that were new.
    rest: u32,
}

impl Shapes {
    /// What a text behind an NCCL header is; `None` where it must be looked at by itself. Texts of
    /// different doors are no alike. `tell` says it for the first text of a shape.
    pub(super) fn get(
        &mut self,
        catalogue: &Catalogue,
        door: u32,
        text: &[u8],
        tell: impl Fn() -> Option<Answer>,
    ) -> Option<&[Told]> {
        if self.rest > 0 || text.len() > LONGEST {
            self.rest = self.rest.saturating_sub(1);
            return None;
        }
        self.asked += 1;
        if self.asked == 4096 {
            if self.missed > 3072 {
                self.rest = 1 << 16;
            }
            (self.asked, self.missed) = (0, 0);
        }
        let key = shape(text) ^ u64::from(door).wrapping_mul(0x2545_F491_4F6C_DD1D);
        if self.known.len() >= MOST && !self.known.contains_key(&key) {
            self.known.clear();
        }
        let missed = &mut self.missed;
        let known = self.known.entry(key).or_insert_with(|| {
            *missed += 1;
            match tell() {
                Some(a) if a.forms.is_empty() => Known::Told(a.told.into()),
                Some(a) if a.forms.len() <= MOST_FORMS => {
                    let fits = catalogue.fit(&a.forms, text);
                    Known::ByForms { forms: a.forms.into(), told: vec![(fits, Some(a.told.into()))] }
                }
                _ => Known::Single,
            }
        });
        match known {
            Known::Single => None,
            Known::Told(told) => Some(told),
            Known::ByForms { forms, told } => {
                let fits = catalogue.fit(forms, text);
                let at = match told.iter().position(|t| t.0 == fits) {
                    Some(at) => at,
                    None => {
                        // One more way than is remembered takes the place of the last one.
                        told.truncate(MOST_WAYS);
                        told.push((fits, tell().map(|a| a.told.into())));
                        told.len() - 1
                    }
                };
                told[at].1.as_deref()
            }
        }
    }
}

/// A number for a text in which all figures are alike. Its words go into four numbers in turns, which do not wait for
/// each other.
fn shape(text: &[u8]) -> u64 {
    const K: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |h: u64, word: u64| {
        let h = (h.rotate_left(29) ^ word).wrapping_mul(K);
        h ^ (h >> 32)
    };
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    let mut lanes = [1, 2, 3, 4];
    let (chunks, rest) = text.as_chunks::<32>();
    for chunk in chunks {
        for (lane, bytes) in lanes.iter_mut().zip(chunk.chunks_exact(8)) {
            *lane = mix(*lane, alike(word(bytes)));
        }
    }
    let mut last = [0; 32];
    last[..rest.len()].copy_from_slice(rest);
    for (lane, bytes) in lanes.iter_mut().zip(last.chunks_exact(8)) {
        *lane = mix(*lane, alike(word(bytes)));
    }
    lanes.iter().fold(text.len() as u64, |h, lane| mix(h, *lane))
}

/// All bytes that are figures become `0`.
fn alike(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let t = word ^ (ONES * 0x30);
    let high = (t | ((t & (ONES * 0x0f)) + ONES * 6)) & (ONES * 0xf0);
    let others = ((high >> 4) + ONES * 0x0f) >> 4 & ONES;
    let figures = (others ^ ONES) * 0xff;
    (word & !figures) | ((ONES * 0x30) & figures)
}

fn collapsed(text: &[u8]) -> Vec<u8> {
    text.iter().map(|b| if b.is_ascii_digit() { b'0' } else { *b }).collect()
}

/// Whether an expression takes all figures for the same.
pub(super) fn takes_all_figures(pattern: &str) -> bool {
    let parser = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern);
    parser.is_ok_and(|hir| figures_alike(&hir))
}

fn figures_alike(hir: &Hir) -> bool {
    let ten = |n: usize| n == 0 || n == 10;
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(l) => !l.0.iter().any(u8::is_ascii_digit),
        HirKind::Class(Class::Bytes(c)) => {
            ten((b'0'..=b'9').filter(|b| c.iter().any(|r| (r.start()..=r.end()).contains(b))).count())
        }
        HirKind::Class(Class::Unicode(c)) => {
            ten(('0'..='9').filter(|b| c.iter().any(|r| (r.start()..=r.end()).contains(b))).count())
        }
        HirKind::Repetition(r) => figures_alike(&r.sub),
        HirKind::Capture(c) => figures_alike(&c.sub),
        HirKind::Concat(all) | HirKind::Alternation(all) => all.iter().all(figures_alike),
    }
}

/// Fixed texts with figures in them, all figures made alike.
#[derive(Debug, Default)]
pub(super) struct Figured {
    inside: Option<aho_corasick::AhoCorasick>,
}

impl Figured {
    pub(super) fn new(forms: &[Form]) -> Self {
        let with = forms.iter().filter(|f| f.has.iter().any(u8::is_ascii_digit)).map(|f| collapsed(&f.has));
        Self { inside: aho_corasick::AhoCorasick::new(with).ok() }
    }

    /// Whether the text could hold one of them with other figures.
    fn may_stand_in(&self, text: &[u8]) -> bool {
        let text = collapsed(text);
        self.inside.as_ref().is_none_or(|a| a.is_match(&text))
    }
}

impl Catalogue {
    /// What every text of this one's shape is that certain wordings fit at the same places; `None` where that
    /// depends on other lines, or on figures in another way.
    pub(super) fn tell(&self, asked: Asked, text: &[u8], edges: bool) -> Option<Answer> {
        // Which openings an INFO text has is known, and away from the edges nothing else is looked for in it.
        if (asked != Asked::Info || edges) && self.figured().may_stand_in(text) {
            return None;
        }
        self.answer(self.candidates(asked, text, edges), text, edges)
    }

    /// Where wordings fit a text.
    fn fit(&self, forms: &[usize], text: &[u8]) -> Fits {
        let mut fits = Fits::default();
        for (fit, &form) in fits.iter_mut().zip(forms) {
            *fit = self.place(form, text);
        }
        fits
    }

    /// What every line of this one's shape is that stands at an edge of its source, behind no NCCL header, and whose
    /// logger's header ends at `body` too; `None` where that depends on other lines, or on figures in another way.
    pub(super) fn tell_line(&self, text: &[u8], body: usize) -> Option<Answer> {
        // Behind `Last error:` a line is what a WARN would be.
        if memchr::memmem::find(text, b"NCCL").is_some()
            || crate::text::looks_torn(text)
            || self.figured().may_stand_in(text)
            || !self.candidates(Asked::Warn, text, true).is_empty()
        {
            return None;
        }
        let said = String::from_utf8_lossy(&text[body..]);
        let said = said.trim_start_matches("**");
        if exceptions::named(said, true).is_some()
            || said.starts_with("Traceback (most")
            || !super::settings::assignments(said).is_empty()
        {
            return None;
        }
        let answer = self.answer(self.candidates(Asked::Line, text, true), text, true)?;
        (!answer.told.is_empty() || !trouble::may_look_like(&self.trouble, said)).then_some(answer)
    }

    /// What a text is in which the fixed parts of these wordings stand.
    fn answer(&self, candidates: Vec<usize>, text: &[u8], edges: bool) -> Option<Answer> {
        if candidates.iter().any(|&f| !self.forms[f].near.is_empty()) {
            return None;
        }
        let asks = |f: &usize| !self.forms[*f].takes_all_figures();
        let forms = candidates.iter().copied().filter(asks).collect();
        let found = self.verify(candidates, text, edges);
        let told = found.iter().map(|f| self.told(f.index, text)).collect::<Option<_>>()?;
        Some(Answer { told, forms })
    }

    fn told(&self, index: usize, text: &[u8]) -> Option<Told> {
        let form = &self.forms[index];
        let fields = self.spans(index, text)?;
        let told_by = &self.messages[usize::from(form.message)].told_by;
        let rank = fields.iter().find(|f| told_by.contains(&f.0));
        Some(Told { message: form.message, form: form.nth, rank: rank.map(|f| f.1), fields })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::Knowledge;

    #[test]
    fn figures_do_not_count_but_their_number_does() {
        assert_eq!(
            shape(b"Channel 07/0 : 3[3] -> 4[4] via P2P"),
            shape(b"Channel 19/9 : 8[0] -> 0[1] via P7P")
        );
        assert_ne!(shape(b"rank 3 of 8"), shape(b"rank 13 of 8"));
        assert_ne!(shape(b"rank 3 of 8"), shape(b"rank a of 8"));
        for byte in 0..=255u8 {
            let expected = if byte.is_ascii_digit() { b'0' } else { byte };
            assert_eq!(alike(u64::from_le_bytes([byte; 8])), u64::from_le_bytes([expected; 8]), "{byte}");
        }
    }

    #[test]
    fn expressions_that_ask_for_a_figure_are_told() {
        assert!(takes_all_figures(r"^comm (?<c>\S+) rank (?<r>\d+)(?: of [0-9a-f]{2,4})?"));
        assert!(!takes_all_figures(r"status=12"));
        assert!(!takes_all_figures(r"[0-7]+"));
        assert!(!takes_all_figures("x{"));
    }

    #[test]
    fn a_figure_that_a_wording_asks_for_decides() {
        let catalogue = Catalogue::new(&Knowledge::built_in().0);
        let mut shapes = Shapes::default();
        let asked = std::cell::Cell::new(0);
        let mut told = |status: u32, port: u32| {
            let text = format!(
                "NET/IB : Got completion from peer 10.4.0.18<{port}> with status={status} opcode=0 len=0 vendor err 129 (Send)"
            );
            let told = shapes.get(&catalogue, 0, text.as_bytes(), || {
                asked.set(asked.get() + 1);
                catalogue.tell(Asked::Warn, text.as_bytes(), false)
            });
            let told = told.expect("a known shape");
            let message = catalogue.messages[usize::from(told[0].message)].id.clone();
            let at = told[0]
                .fields
                .iter()
                .find(|f| catalogue.field_id("status") == Some(f.0))
                .expect("a status")
                .1;
            (message, text[at.0 as usize..at.1 as usize].to_string(), asked.get())
        };
        let (error, flush) = ("nccl.ib.completion-error".to_string(), "nccl.ib.completion-flush".to_string());
        assert_eq!(told(5, 40_001), (flush.clone(), "5".into(), 1));
        assert_eq!(told(4, 40_002), (error.clone(), "4".into(), 2));
        assert_eq!(told(5, 40_003), (flush, "5".into(), 2));
        assert_eq!(told(9, 40_004), (error, "9".into(), 2));
    }
}
