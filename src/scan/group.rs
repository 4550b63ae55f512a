//! Which files belong to one job: by folders and names (`layout`), and where
//! these leave it open by what the first lines say. Works on names alone, so
//! it knows neither disks nor archives; members of an archive are files in a
//! folder that is called like the archive.

use super::layout::{Head, Id, Layouts, Name};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How files are put together.
#[derive(Debug, Clone, Default)]
pub enum GroupBy {
    /// By folders, names and first lines.
    #[default]
    Auto,
    /// The files of one folder are one job.
    Folder,
    /// By folders and names; nothing is opened for it.
    Name,
    /// Each file, or archive, is a job.
    File,
    /// Files in whose path, below the path that was named, the groups of the expression match the same text.
    Matching(Regex),
}

impl std::str::FromStr for GroupBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "folder" => Ok(Self::Folder),
            "name" => Ok(Self::Name),
            "file" => Ok(Self::File),
            _ if text.contains('(') => {
                let regex = Regex::new(text).map_err(|e| e.to_string())?;
                if regex.captures_len() < 2 {
                    return Err("the expression has no group: put what tells the job into ( )".into());
                }
                Ok(Self::Matching(regex))
            }
            _ => {
                Err("auto, folder, name, file, or a regular expression with a group such as 'job-(\\d+)'"
                    .into())
            }
        }
    }
}

/// One file, or one member of an archive, as far as grouping needs it.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Folders from the path that was named on, archives among them, and the name itself.
    pub(super) parts: Vec<String>,
    /// Which of the folders are archives.
    pub(super) archives: Vec<usize>,
    /// Size, to tell copies.
    pub(super) size: u64,
    /// The file itself was given, not a folder that it lies in.
    pub(super) given: bool,
}

/// Files that are one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Stable name: folders and id.
    pub key: String,
    /// Why these are one job, in words.
    pub why: String,
    /// The scheduler's number, where a name gives it.
    pub id: Option<String>,
    /// Numbers of the items, in order.
    pub items: Vec<usize>,
}

/// All groups, and what belongs to none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Grouping {
    /// Sorted by key.
    pub(super) groups: Vec<Group>,
    /// Items that belong to no job, and why.
    pub(super) left_out: Vec<(usize, &'static str)>,
}

pub(super) const NO_LOG: &str = "no log, by its name";
const WHOLE: &str = "the files of one folder";
const RUN: &str = "the folder names the run";
const GIVEN: &str = "the file that was given";
const ONE: &str = "one communicator in the first lines of files below several paths";
const OWN: &str = "a name of its own";
const BESIDE: &str = "what names no job";
const NO_JOB: &str = "names no job, and lies beside several";
const NO_MATCH: &str = "--group-by does not match";
/// From so many names of different kinds on, a folder holds jobs and is none.
const MANY: usize = 9;

/// Groups the items. `head` gives what an item's first lines say; it is asked only where names leave it open.
pub(super) fn group(
    items: &[Item],
    by: &GroupBy,
    layouts: &Layouts,
    head: &mut dyn FnMut(usize) -> Head,
) -> Grouping {
    let mut out = Grouping::default();
    let mut kept = Vec::new();
    for (n, item) in items.iter().enumerate() {
        let (name, folders) = item.parts.split_last().map_or(("", &[][..]), |(n, f)| (n.as_str(), f));
        if layouts.skips(name) || folders.iter().skip(1).any(|f| f.starts_with('.') && f.len() > 1) {
            out.left_out.push((n, NO_LOG));
        } else {
            kept.push(n);
        }
    }
    match by {
        GroupBy::Folder => plainly(items, &kept, &mut out, "the folder", |item| {
            Some(item.parts[..item.parts.len() - 1].join("/"))
        }),
        GroupBy::File => plainly(items, &kept, &mut out, "the file", |item| {
            let end = item.archives.first().map_or(item.parts.len(), |a| a + 1);
            Some(item.parts[..end].join("/"))
        }),
        GroupBy::Matching(regex) => plainly(items, &kept, &mut out, "--group-by", |item| {
            let path = item.parts[1.min(item.parts.len() - 1)..].join("/");
            let groups = regex.captures(&path)?;
            let texts: Vec<&str> = groups.iter().skip(1).flatten().map(|m| m.as_str()).collect();
            Some(format!("{}/{}", item.parts[0], texts.join("-")))
        }),
        GroupBy::Name => by_names(items, &kept, layouts, &mut |_| Head::default(), false, &mut out),
        GroupBy::Auto => by_names(items, &kept, layouts, head, true, &mut out),
    }
    out.groups.sort_by(|a, b| (&a.key, &a.items).cmp(&(&b.key, &b.items)));
    // A folder and an id may be called alike; a name stands for one job.
    for n in 1..out.groups.len() {
        let same =
            (0..n).rev().take_while(|&o| out.groups[o].key.split('~').next() == Some(&out.groups[n].key));
        let before = same.count();
        if before > 0 {
            let key = format!("{}~{}", out.groups[n].key, before + 1);
            out.groups[n].key = key;
        }
    }
    out.left_out.sort_unstable();
    out
}

/// Items of one key are one job.
fn plainly(
    items: &[Item],
    kept: &[usize],
    out: &mut Grouping,
    why: &str,
    key: impl Fn(&Item) -> Option<String>,
) {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for &n in kept {
        match key(&items[n]) {
            Some(key) => groups.entry(key).or_default().push(n),
            None => out.left_out.push((n, NO_MATCH)),
        }
    }
    out.groups.extend(groups.into_iter().map(|(key, items)| Group { key, why: why.into(), id: None, items }));
}

/// What a folder is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Class {
    /// A part of the job above it: a rank, a host, `logs`.
    Part,
    /// A job by itself.
    Sure(String),
    /// One of several of its kind, probably a job.
    Loose,
    /// Says nothing.
    Plain,
}

/// Items that lie together as far as folders tell.
#[derive(Debug, Default)]
struct Cluster {
    /// The folder is probably a job.
    loose: bool,
    /// The folder is called by a date, and holds jobs.
    dated: bool,
    /// Folders beside it hold files of the same names: each is one job's.
    alike: bool,
    /// The files themselves were given: where they lie says nothing.
    given: bool,
    /// Items with what their names tell.
    items: Vec<(usize, Name)>,
}

fn by_names(
    items: &[Item],
    kept: &[usize],
    layouts: &Layouts,
    head: &mut dyn FnMut(usize) -> Head,
    looks: bool,
    out: &mut Grouping,
) {
    let classes = Classes::new(items, kept, layouts);
    // Jobs whose folder or name says which they are, by the folders above and the id.
    let mut sure = Sure::new();
    let mut clusters: BTreeMap<String, Cluster> = BTreeMap::new();
    for &n in kept {
        let item = &items[n];
        let depth = item.parts.len() - 1;
        let folders = &item.parts[..depth];
        let class = |i: usize| classes.of(&folders[..=i]);
        let claims = (0..depth).rev().find(|&i| matches!(class(i), Class::Sure(_)));
        if let Some(at) = claims
            && let Class::Sure(id) = class(at)
        {
            let above = classes.shown(&folders[..at]);
            let entry = sure.entry((above, id)).or_default();
            entry.0.push(n);
            entry.1.insert("the folder names the job");
            continue;
        }
        let loose = (0..depth).rev().find(|&i| class(i) == Class::Loose);
        let base = loose
            .unwrap_or_else(|| (0..depth).rev().find(|&i| i == 0 || class(i) != Class::Part).unwrap_or(0));
        let key = classes.shown(&folders[..(base + 1).min(depth)]);
        let cluster = clusters.entry(key).or_default();
        cluster.loose |= loose.is_some();
        cluster.dated |= classes.dated.contains(&folders[..(base + 1).min(depth)]);
        cluster.given |= item.given && item.archives.is_empty();
        cluster.items.push((n, layouts.file(&item.parts[depth])));
    }
    mark_alike(&mut clusters);
    let mut folders: Vec<Group> = Vec::new();
    for (key, cluster) in clusters {
        let mut work = Sort { key: &key, items, head: &mut *head, looks };
        work.cluster(cluster, &mut sure, &mut folders, out);
    }
    if looks {
        unite_siblings(items, &mut folders, head);
    }
    out.groups.append(&mut folders);
    for ((above, id), (mut numbers, whys)) in sure {
        numbers.sort_unstable();
        let why = whys.into_iter().collect::<Vec<_>>().join("; ");
        let key = if above.is_empty() { id.clone() } else { format!("{above}/{id}") };
        out.groups.push(Group { key, why, id: Some(id), items: numbers });
    }
    if looks {
        unite_roots(items, &mut out.groups, head);
    }
}

/// Finds folders side by side with files of one name (`a/train.log`, `b/train.log`): what lies in one is one job.
fn mark_alike(clusters: &mut BTreeMap<String, Cluster>) {
    let own = |cluster: &Cluster| -> BTreeSet<String> {
        cluster.items.iter().filter(|i| i.1.id.is_none()).map(|i| i.1.stem.clone()).collect()
    };
    let mut seen: HashMap<(String, String), usize> = HashMap::new();
    let above = |key: &str| key.rsplit_once('/').map(|k| k.0.to_string());
    for (key, cluster) in clusters.iter() {
        let Some(above) = above(key) else { continue };
        for stem in own(cluster).into_iter().filter(|s| !s.is_empty()) {
            *seen.entry((above.clone(), stem)).or_default() += 1;
        }
    }
    for (key, cluster) in clusters.iter_mut() {
        let Some(above) = above(key) else { continue };
        cluster.alike =
            own(cluster).into_iter().any(|s| seen.get(&(above.clone(), s)).is_some_and(|n| *n > 1));
    }
}

/// What every folder is.
struct Classes {
    by_path: HashMap<Vec<String>, Class>,
    /// Folders that are called by a date.
    dated: std::collections::HashSet<Vec<String>>,
}

impl Classes {
    fn new(items: &[Item], kept: &[usize], layouts: &Layouts) -> Self {
        let mut by_path: HashMap<Vec<String>, Class> = HashMap::new();
        let mut dated = std::collections::HashSet::new();
        let mut torchrun: BTreeSet<Vec<String>> = BTreeSet::new();
        for &n in kept {
            let item = &items[n];
            for end in 1..item.parts.len() {
                let path = &item.parts[..end];
                if by_path.contains_key(path) {
                    continue;
                }
                let name = &item.parts[end - 1];
                let archive = item.archives.contains(&(end - 1));
                let told = if archive { layouts.archive(name) } else { layouts.folder(name) };
                // Two digits are a day only below a month or year.
                if told.holder && (name.len() > 3 || end > 1 && dated.contains(&path[..end - 1])) {
                    dated.insert(path.to_vec());
                }
                // An archive that was given is no part of what lies beside it.
                by_path.insert(path.to_vec(), classify(&told, end == 1 || end == 2 && item.given));
                if is_attempt(name) && end > 1 {
                    torchrun.insert(item.parts[..end - 1].to_vec());
                }
            }
        }
        // The only run without an id in its folder is that of the job there.
        let mut nameless: HashMap<Vec<String>, usize> = HashMap::new();
        for path in &torchrun {
            if path.last().map(|name| run_of(name)) == Some(Some(None)) {
                *nameless.entry(path[..path.len() - 1].to_vec()).or_default() += 1;
            }
        }
        for path in torchrun {
            let own = path.last().map_or("", String::as_str);
            let claimed = (1..path.len())
                .any(|end| matches!(by_path.get(&path[..end]), Some(Class::Sure(_) | Class::Loose)));
            if let Some(id) = run_of(own)
                && path.len() > 1
            {
                let class = match id {
                    _ if claimed => Class::Part,
                    Some(id) => Class::Sure(id),
                    None if nameless.get(&path[..path.len() - 1]) == Some(&1) => Class::Part,
                    None => Class::Loose,
                };
                by_path.insert(path, class);
            }
        }
        Self { by_path, dated }
    }

    fn of(&self, path: &[String]) -> Class {
        self.by_path.get(path).cloned().unwrap_or(Class::Plain)
    }

    /// The folders that are no parts of jobs; the first is always shown.
    fn shown(&self, folders: &[String]) -> String {
        let shown = (0..folders.len()).filter(|&i| i == 0 || self.of(&folders[..=i]) != Class::Part);
        shown.map(|i| folders[i].as_str()).collect::<Vec<_>>().join("/")
    }
}

fn classify(name: &Name, root: bool) -> Class {
    match &name.id {
        Some(Id::Sure(id)) => Class::Sure(id.clone()),
        Some(Id::Loose(_)) => Class::Loose,
        None if name.holder || root || !name.stem.is_empty() => Class::Plain,
        None => Class::Part,
    }
}

/// `attempt_0`, as torchrun calls the folder below that of a run.
fn is_attempt(name: &str) -> bool {
    name.strip_prefix("attempt_").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The run of a folder that torchrun made: the run's id and eight letters drawn on each host; the inner `None` is a
/// run without an id.
fn run_of(name: &str) -> Option<Option<String>> {
    let (id, drawn) = name.rsplit_once('_')?;
    let by_chance = drawn.len() == 8 && drawn.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    by_chance.then(|| (!id.is_empty() && id != "none").then(|| id.to_string()))
}

/// Sorts one cluster into jobs.
struct Sort<'a> {
    key: &'a str,
    items: &'a [Item],
    head: &'a mut dyn FnMut(usize) -> Head,
    looks: bool,
}

/// Jobs by the folders above and the id: their items, and why these are one.
type Sure = BTreeMap<(String, String), (Vec<usize>, BTreeSet<&'static str>)>;

/// Files of one name.
#[derive(Debug, Default, Clone)]
struct Same {
    ids: BTreeSet<String>,
    items: Vec<usize>,
    part: bool,
}

impl Sort<'_> {
    fn cluster(&mut self, cluster: Cluster, sure: &mut Sure, folders: &mut Vec<Group>, out: &mut Grouping) {
        let mut by_id: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut loose: BTreeMap<String, Same> = BTreeMap::new();
        let mut rest: BTreeMap<String, Same> = BTreeMap::new();
        let kind = Cluster { items: Vec::new(), ..cluster };
        for (n, name) in cluster.items {
            match name.id {
                Some(Id::Sure(id)) => by_id.entry(id).or_default().push(n),
                Some(Id::Loose(id)) => {
                    let same = loose.entry(name.stem).or_default();
                    same.items.push(n);
                    same.ids.insert(id);
                }
                None => {
                    let same = rest.entry(name.stem).or_default();
                    same.items.push(n);
                    same.part |= name.part;
                }
            }
        }
        join_loose(&mut by_id, &mut loose);
        series(&mut rest);
        self.unite(&mut loose, false);
        let named = by_id.len() + loose.len();
        if kind.loose && named <= 1 || named == 0 && rest.len() <= 1 {
            let why = if kind.loose { RUN } else { WHOLE };
            let only = rest.keys().next().filter(|stem| kind.given && !kind.loose && !stem.is_empty());
            let (key, why) = only.map_or((self.key.to_string(), why), |stem| (self.below(stem), GIVEN));
            let lists =
                by_id.into_values().chain(loose.into_values().chain(rest.into_values()).map(|s| s.items));
            return folders.push(whole(&key, why, lists.flatten()));
        }
        if named == 0 {
            return self.by_stems(rest, &kind, folders);
        }
        let beside = rest.remove("").map(|s| s.items).unwrap_or_default();
        let rest = self.join_rest(&mut by_id, &mut loose, rest, &kind);
        let apart = self.join_beside(&mut by_id, &mut loose, beside, out);
        for (id, list) in by_id {
            let entry = sure.entry((self.key.to_string(), id)).or_default();
            entry.0.extend(list);
            entry.1.insert("the names hold the job's number");
        }
        for (stem, same) in loose {
            folders.push(whole(&self.below(&stem), "names that differ in parts only", same.items));
        }
        for (stem, same) in rest {
            folders.push(whole(&self.below(&stem), OWN, same.items));
        }
        if !apart.is_empty() {
            folders.push(whole(&self.below("(beside)"), BESIDE, apart));
        }
    }

    fn below(&self, stem: &str) -> String {
        format!("{}/{stem}", self.key)
    }

    /// Names without an id beside jobs with one. The first lines say whose they are; where a name is the only one, or
    /// the folder is a job's by what lies in its neighbours, it belongs to the one job there unless it is what another
    /// program printed.
    fn join_rest(
        &mut self,
        by_id: &mut BTreeMap<String, Vec<usize>>,
        loose: &mut BTreeMap<String, Same>,
        rest: BTreeMap<String, Same>,
        kind: &Cluster,
    ) -> BTreeMap<String, Same> {
        // Several names, or several that tell ranks or hosts, are jobs beside a job rather than parts of it.
        let few = rest.len() <= 3 && rest.values().filter(|s| s.part).count() <= 1;
        let one = by_id.len() + loose.len() == 1 && few && !kind.given && !kind.dated;
        let heads: Vec<Head> =
            by_id.values().chain(loose.values().map(|s| &s.items)).map(|list| self.said(list)).collect();
        let mut left = BTreeMap::new();
        for (stem, same) in rest {
            let said = self.said(&same.items);
            let by_number = said.jobs.iter().find(|j| by_id.contains_key(*j)).cloned();
            let quiet = !said.program || kind.alike;
            let to = match heads.iter().position(|h| h.same(&said)) {
                Some(n) => by_id.values_mut().chain(loose.values_mut().map(|s| &mut s.items)).nth(n),
                None if by_number.is_some() => by_number.and_then(|id| by_id.get_mut(&id)),
                None if one && said.jobs.is_empty() && quiet && !heads[0].conflicts(&said) => {
                    by_id.values_mut().chain(loose.values_mut().map(|s| &mut s.items)).next()
                }
                None => None,
            };
            match to {
                Some(list) => list.extend(same.items),
                None => {
                    left.insert(stem, same);
                }
            }
        }
        left
    }

    /// Files without a name of their own (`dmesg.txt`, `rank_0.log`) beside jobs with one: to the one job that there
    /// is, or to the one that their first lines name. Gives those that are another job's.
    fn join_beside(
        &mut self,
        by_id: &mut BTreeMap<String, Vec<usize>>,
        loose: &mut BTreeMap<String, Same>,
        beside: Vec<usize>,
        out: &mut Grouping,
    ) -> Vec<usize> {
        let mut apart = Vec::new();
        if beside.is_empty() {
            return apart;
        }
        let heads: Vec<Head> =
            by_id.values().chain(loose.values().map(|s| &s.items)).map(|list| self.said(list)).collect();
        for n in beside {
            let said = self.said(&[n]);
            let mut jobs = by_id.values_mut().chain(loose.values_mut().map(|s| &mut s.items));
            match heads.iter().position(|h| h.same(&said)) {
                Some(at) => jobs.nth(at).into_iter().for_each(|list| list.push(n)),
                None if heads.len() > 1 => out.left_out.push((n, NO_JOB)),
                None if heads[0].conflicts(&said) => apart.push(n),
                None => jobs.next().into_iter().for_each(|list| list.push(n)),
            }
        }
        apart
    }

    /// A folder with several names and no id in any. It is one job where it has but one program's output, or where
    /// its neighbours hold files of the same names.
    fn by_stems(&mut self, mut rest: BTreeMap<String, Same>, kind: &Cluster, folders: &mut Vec<Group>) {
        let beside = rest.remove("").map(|s| s.items).unwrap_or_default();
        let named = rest.len();
        let parts = rest.values().filter(|s| s.part).count();
        let many = named >= MANY || parts > 1 || numbered(rest.keys());
        self.unite(&mut rest, true);
        let said: Vec<Head> = rest.values().map(|s| self.said(&s.items)).collect();
        let differ = (0..said.len()).any(|a| (a + 1..said.len()).any(|b| said[a].conflicts(&said[b])));
        let programs: Vec<usize> = (0..said.len()).filter(|&n| said[n].program || said[n].tells()).collect();
        let other = kind.given || kind.dated || self.looks && programs.len() != 1;
        let split = differ || many || kind.given || other && (kind.dated || !kind.alike);
        if rest.len() <= 1 && !kind.given || !split {
            let all = rest.into_values().flat_map(|s| s.items).chain(beside);
            return folders.push(whole(self.key, WHOLE, all));
        }
        let why = if differ { "the first lines tell them apart" } else { OWN };
        let mut lists: Vec<(String, Vec<usize>)> =
            rest.into_iter().map(|(stem, s)| (stem, s.items)).collect();
        let mut apart = Vec::new();
        for n in beside {
            let own = self.said(&[n]);
            match (said.iter().position(|s| s.same(&own)), programs.as_slice()) {
                (Some(at), _) => lists[at].1.push(n),
                (None, &[at]) if !kind.given && !said[at].conflicts(&own) => lists[at].1.push(n),
                _ => apart.push(n),
            }
        }
        for (stem, list) in lists {
            folders.push(whole(&self.below(&stem), why, list));
        }
        if !apart.is_empty() {
            folders.push(whole(&self.below("(beside)"), BESIDE, apart));
        }
    }

    /// Puts names together whose first lines name the same communicator or job, or, with `ranks`, that are different
    /// ranks of one world.
    fn unite(&mut self, groups: &mut BTreeMap<String, Same>, ranks: bool) {
        if !self.looks || groups.len() < 2 {
            return;
        }
        let heads: Vec<Head> = groups.values().map(|s| self.said(&s.items)).collect();
        let old: Vec<(String, Same)> = std::mem::take(groups).into_iter().collect();
        let mut owner: BTreeMap<&String, usize> = BTreeMap::new();
        let mut into: Vec<usize> = (0..old.len()).collect();
        for (n, head) in heads.iter().enumerate() {
            for id in head.comms.iter().chain(&head.jobs) {
                let first = *owner.entry(id).or_insert(n);
                let copy = self.items[old[first].1.items[0]].size == self.items[old[n].1.items[0]].size
                    && first != n
                    && head == &heads[first]
                    && old[n].1.items.len() == old[first].1.items.len()
                    && self.same_names(&old[n].1.items, &old[first].1.items);
                if !copy {
                    let (a, b) = (root(&into, first), root(&into, n));
                    into[a.max(b)] = a.min(b);
                }
            }
        }
        for (a, b) in (0..old.len()).flat_map(|b| (0..b).map(move |a| (a, b))).filter(|_| ranks) {
            if heads[a].completes(&heads[b]) {
                let (a, b) = (root(&into, a), root(&into, b));
                into[a.max(b)] = a.min(b);
            }
        }
        for whole in Head::worlds(&heads).into_iter().filter(|_| ranks) {
            for n in &whole[1..] {
                let (a, b) = (root(&into, whole[0]), root(&into, *n));
                into[a.max(b)] = a.min(b);
            }
        }
        for n in 0..old.len() {
            let to = root(&into, n);
            let same = groups.entry(old[to].0.clone()).or_default();
            same.items.extend(&old[n].1.items);
            same.ids.extend(old[n].1.ids.iter().cloned());
            same.part |= old[n].1.part;
        }
    }

    fn same_names(&self, a: &[usize], b: &[usize]) -> bool {
        a.iter().zip(b).all(|(&a, &b)| self.items[a].parts.last() == self.items[b].parts.last())
    }

    /// What the first lines of the first two files say together.
    fn said(&mut self, items: &[usize]) -> Head {
        let mut all = Head::default();
        if !self.looks {
            return all;
        }
        for &n in items.iter().take(2) {
            all.add((self.head)(n));
        }
        all
    }
}

fn root(into: &[usize], mut n: usize) -> usize {
    while into[n] != n {
        n = into[n];
    }
    n
}

fn whole(key: &str, why: &str, items: impl IntoIterator<Item = usize>) -> Group {
    let mut items: Vec<usize> = items.into_iter().collect();
    items.sort_unstable();
    Group { key: key.to_string(), why: why.to_string(), id: None, items }
}

/// A name that is nothing but an id and words (`dmesg-4711`) goes to the one job with that id, and a name with the
/// number of a job to that job.
fn join_loose(by_id: &mut BTreeMap<String, Vec<usize>>, loose: &mut BTreeMap<String, Same>) {
    for (stem, same) in std::mem::take(loose) {
        let id = same.ids.iter().next().cloned().unwrap_or_default();
        match by_id.get_mut(&id) {
            Some(list) => list.extend(same.items),
            None => {
                loose.insert(stem, same);
            }
        }
    }
    // Nothing but the number: it joins the one name that has it.
    let bare: Vec<String> =
        loose.iter().filter(|(stem, s)| s.ids.contains(*stem)).map(|l| l.0.clone()).collect();
    for stem in bare {
        let others: Vec<String> =
            loose.iter().filter(|(o, s)| **o != stem && s.ids.contains(&stem)).map(|l| l.0.clone()).collect();
        if let [one] = others.as_slice()
            && let Some(same) = loose.remove(&stem)
            && let Some(into) = loose.get_mut(one)
        {
            into.items.extend(same.items);
        }
    }
}

/// Names that differ in one number, which counts from 0: ranks or hosts.
fn series(rest: &mut BTreeMap<String, Same>) {
    let mut by_shape: BTreeMap<String, BTreeMap<u32, String>> = BTreeMap::new();
    for stem in rest.keys() {
        let digits = stem.len() - stem.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        if let Ok(n) = stem[stem.len() - digits..].parse()
            && digits <= 4
        {
            by_shape.entry(stem[..stem.len() - digits].to_string()).or_default().insert(n, stem.clone());
        }
    }
    for (shape, stems) in by_shape {
        let from_zero = stems.keys().zip(0..).all(|(&n, want)| n == want);
        if stems.len() > 1 && from_zero {
            let stem = shape.trim_end_matches('-').to_string();
            for old in stems.values() {
                if let Some(same) = rest.remove(old) {
                    let into = rest.entry(stem.clone()).or_default();
                    into.items.extend(same.items);
                    into.part = true;
                }
            }
        }
    }
}

/// Whether names are one word with different numbers.
fn numbered<'a>(stems: impl Iterator<Item = &'a String>) -> bool {
    let shapes: Vec<&str> = stems.map(|s| s.trim_end_matches(|c: char| c.is_ascii_digit())).collect();
    shapes.len() > 1 && shapes.windows(2).all(|w| w[0] == w[1])
}

/// Folders side by side whose files name the same communicator are hosts of one job, unless they are copies.
fn unite_siblings(items: &[Item], folders: &mut Vec<Group>, head: &mut dyn FnMut(usize) -> Head) {
    let mut by_comm: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    for (n, group) in folders.iter().enumerate() {
        let plain = matches!(group.why.as_str(), WHOLE | RUN);
        let Some((above, _)) = group.key.rsplit_once('/') else { continue };
        if plain {
            for comm in head(group.items[0]).comms {
                by_comm.entry((above.to_string(), comm)).or_default().push(n);
            }
        }
    }
    let mut into: Vec<usize> = (0..folders.len()).collect();
    for list in by_comm.values() {
        for &n in &list[1..] {
            let shape = |g: &Group| -> Vec<(Option<&String>, u64)> {
                g.items.iter().map(|&i| (items[i].parts.last(), items[i].size)).collect()
            };
            if shape(&folders[list[0]]) != shape(&folders[n]) {
                let (a, b) = (root(&into, list[0]), root(&into, n));
                into[a.max(b)] = a.min(b);
            }
        }
    }
    for n in (0..folders.len()).rev() {
        let to = root(&into, n);
        if to != n {
            let more = std::mem::take(&mut folders[n].items);
            folders[to].items.extend(more);
            folders[to].items.sort_unstable();
            folders[to].why = "folders side by side with one communicator".into();
        }
    }
    folders.retain(|g| !g.items.is_empty());
}

/// Groups below different paths that were given are one job where the first lines name the same communicator, unless
/// they are copies.
fn unite_roots(items: &[Item], groups: &mut Vec<Group>, head: &mut dyn FnMut(usize) -> Head) {
    let top = |g: &Group| items[g.items[0]].parts[0].clone();
    if groups.windows(2).all(|w| top(&w[0]) == top(&w[1])) {
        return;
    }
    let shape = |g: &Group| -> Vec<(Option<&String>, u64)> {
        g.items.iter().map(|&i| (items[i].parts.last(), items[i].size)).collect()
    };
    let mut owner: HashMap<String, usize> = HashMap::new();
    let mut into: Vec<usize> = (0..groups.len()).collect();
    for n in 0..groups.len() {
        let comms: BTreeSet<String> = groups[n].items.iter().take(2).flat_map(|&i| head(i).comms).collect();
        for comm in comms {
            let first = *owner.entry(comm).or_insert(n);
            if top(&groups[first]) != top(&groups[n]) && shape(&groups[first]) != shape(&groups[n]) {
                let (a, b) = (root(&into, first), root(&into, n));
                into[a.max(b)] = a.min(b);
            }
        }
    }
    for n in (0..groups.len()).rev() {
        let to = root(&into, n);
        if to != n {
            let more = std::mem::take(&mut groups[n].items);
            let id = groups[n].id.take();
            let known = &mut groups[to];
            known.items.extend(more);
            known.items.sort_unstable();
            known.why = ONE.into();
            known.id = known.id.take().or(id);
        }
    }
    groups.retain(|g| !g.items.is_empty());
}
