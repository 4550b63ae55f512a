//! Shapes that differ in one word only become one template, where enough of
//! them do: `user ann has no quota left` and three others like it are
//! `user <*> has no quota left`. In the manner of Drain shapes are first told
//! apart by their length; unlike it the result is a function of the set of
//! shapes, not of the order in which they came.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

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

/// Joins what differs in one word; larger groups first, then by place and words.
fn round(groups: Vec<Group<'_>>) -> Vec<Group<'_>> {
    let mut alike: FxHashMap<(usize, Vec<&str>), Vec<usize>> = FxHashMap::default();
    for (g, group) in groups.iter().enumerate() {
        for place in 0..group.words.len() {
            if group.words[place] != ANY && may_vary(&group.words, place) {
                let rest = group.words.iter().enumerate().filter(|(i, _)| *i != place).map(|(_, w)| *w);
                alike.entry((place, rest.collect())).or_default().push(g);
            }
        }
    }
    let mut alike: Vec<_> = alike.into_iter().filter(|(_, of)| of.len() >= DIFFERENT).collect();
    alike.sort_by(|a, b| (b.1.len(), &a.0).cmp(&(a.1.len(), &b.0)));
    let mut groups: Vec<Option<Group<'_>>> = groups.into_iter().map(Some).collect();
    let mut joined = Vec::new();
    for ((place, _), of) in alike {
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
