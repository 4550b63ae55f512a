//! Shapes that differ in one word only become one template, where enough of
//! them do: `user ann has no quota left` and three others like it are
//! `user <*> has no quota left`. In the manner of Drain shapes are first told
//! apart by their length; unlike it the result is a function of the set of
//! shapes, not of the order in which they came.

use rustc_hash::FxHasher;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// So many shapes must differ in one word before the word is taken for a value: with fewer of them
/// `connection refused` and `connection reset` would be one thing.
const DIFFERENT: usize = 4;
/// Words that a template may have as values, one in each round.
const ROUNDS: usize = 3;
/// What stands for a word that differs.
pub(super) const ANY: &str = "<*>";

/// Templates with the indices of the shapes that each stands for, in order of the first.
pub(super) fn mine(shapes: &[&str]) -> Vec<(String, Vec<usize>)> {
    let mut by_length: BTreeMap<usize, Vec<Group<'_>>> = BTreeMap::new();
    for (i, shape) in shapes.iter().enumerate() {
        let words: Vec<&str> = shape.split(' ').collect();
        by_length.entry(words.len()).or_default().push(Group { words, of: vec![i] });
    }
    let mut out = Vec::new();
    for (_, mut groups) in by_length {
        for _ in 0..ROUNDS {
            groups.sort_by(|a, b| a.words.cmp(&b.words));
            let before = groups.len();
            groups = round(groups);
            if groups.len() == before {
                break;
            }
        }
        out.extend(groups.into_iter().map(|mut g| {
            g.of.sort_unstable();
            (g.words.join(" "), g.of)
        }));
    }
    out.sort_by(|a, b| a.1.cmp(&b.1));
    out
}

struct Group<'s> {
    words: Vec<&'s str>,
    of: Vec<usize>,
}

/// A number that stands for a shape without one of its words.
fn hashes(words: &[&str]) -> Vec<u64> {
    let mut factor = 1u64;
    let parts: Vec<u64> = words
        .iter()
        .map(|w| {
            let mut hasher = FxHasher::default();
            w.hash(&mut hasher);
            factor = factor.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hasher.finish().rotate_left(23).wrapping_mul(factor)
        })
        .collect();
    let all = parts.iter().fold(0u64, |sum, p| sum.wrapping_add(*p));
    parts.iter().map(|p| all.wrapping_sub(*p)).collect()
}

fn without<'w>(words: &'w [&'w str], place: usize) -> impl Iterator<Item = &'w str> {
    words.iter().enumerate().filter(move |(i, _)| *i != place).map(|(_, w)| *w)
}

/// Groups that are equal but for one word, `DIFFERENT` of them at least: the place of the word, and who. Found by
/// sorting numbers, since the other words of each place of each shape would take the memory of all shapes many times.
fn alike(groups: &[Group<'_>]) -> Vec<(usize, Vec<usize>)> {
    let mut all: Vec<(u32, u64, u32)> = Vec::new();
    for (g, group) in groups.iter().enumerate() {
        for (place, hash) in hashes(&group.words).into_iter().enumerate() {
            if group.words[place] != ANY && may_vary(&group.words, place) {
                all.push((place as u32, hash, g as u32));
            }
        }
    }
    all.sort_unstable();
    let mut out = Vec::new();
    for run in all.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).filter(|run| run.len() >= DIFFERENT) {
        let place = run[0].0 as usize;
        let mut rest: Vec<usize> = run.iter().map(|r| r.2 as usize).collect();
        // Two shapes may have one number by chance.
        while let Some(&first) = rest.first() {
            let same = |g: &usize| without(&groups[*g].words, place).eq(without(&groups[first].words, place));
            let (of, others): (Vec<usize>, Vec<usize>) = rest.into_iter().partition(same);
            if of.len() >= DIFFERENT {
                out.push((place, of));
            }
            rest = others;
        }
    }
    out.sort_by(|a, b| {
        let words = |x: &(usize, Vec<usize>)| without(&groups[x.1[0]].words, x.0).collect::<Vec<_>>();
        b.1.len().cmp(&a.1.len()).then(a.0.cmp(&b.0)).then_with(|| words(a).cmp(&words(b)))
    });
    out
}

/// Joins what differs in one word; larger groups first, then by place and words.
fn round(groups: Vec<Group<'_>>) -> Vec<Group<'_>> {
    let alike = alike(&groups);
    let mut groups: Vec<Option<Group<'_>>> = groups.into_iter().map(Some).collect();
    let mut joined = Vec::new();
    for (place, of) in alike {
        let free: Vec<usize> = of.into_iter().filter(|g| groups[*g].is_some()).collect();
        if free.len() < DIFFERENT {
            continue;
        }
        let mut one: Option<Group<'_>> = None;
        for group in free.into_iter().filter_map(|g| groups[g].take()) {
            match &mut one {
                None => one = Some(group),
                Some(one) => one.of.extend(group.of),
            }
        }
        if let Some(mut group) = one {
            group.words[place] = ANY;
            joined.push(group);
        }
    }
    joined.extend(groups.into_iter().flatten());
    joined
}

/// Whether a template stays one that says something when this word becomes a value: three of five words, and two at
/// least, are still words.
fn may_vary(words: &[&str], place: usize) -> bool {
    let fixed = |w: &str| !w.contains('<') && w.chars().any(char::is_alphabetic);
    let left = words.iter().enumerate().filter(|(i, w)| *i != place && fixed(w)).count();
    left >= 2 && left * 5 >= words.len() * 3 - 1
}
