//! What there is to do: files become jobs, and jobs that the index knows
//! already, read from the same bytes and judged by the same rules, are told
//! from those that must be read.

use super::archive::{self, Member};
use super::files::{self, Found, Only};
use super::group::{self, Group, GroupBy, Item};
use super::index::{Index, Seen};
use super::layout::{Head, Id, Layouts};
use super::record::Record;
use super::shard::Shard;
use crate::knowledge::Knowledge;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What to scan, and how.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Folders and files.
    pub roots: Vec<PathBuf>,
    /// How files become jobs.
    pub group_by: GroupBy,
    /// Which files count.
    pub only: Only,
    /// Which part of the jobs to read.
    pub shard: Option<Shard>,
    /// Jobs whose newest file is older are left out; nanoseconds since 1970.
    pub since: Option<i64>,
    /// Read everything again.
    pub again: bool,
    /// [`Knowledge::mark`] of what judges.
    pub knowledge: u64,
    /// Threads; 0 takes all cores.
    pub threads: usize,
}

/// One job to be read.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) group: Group,
    /// Root that it lies below.
    pub(super) place: String,
    /// The folder or file that holds it, as named.
    pub(super) path: String,
    /// Files that are read whole.
    pub(super) whole: Vec<usize>,
    /// Members of archives that hold other jobs too: the file, and which.
    pub(super) members: BTreeMap<usize, Vec<usize>>,
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Bytes as they will be read, estimated.
    pub(super) unpacked: u64,
    pub(super) mtime: i64,
}

impl Job {
    /// The files that it is read from.
    pub(super) fn inputs(&self) -> impl Iterator<Item = usize> {
        let mut all: Vec<usize> = self.whole.iter().chain(self.members.keys()).copied().collect();
        all.sort_unstable();
        all.into_iter()
    }
}

/// A file and what is remembered of it.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) found: Found,
    pub(super) seen: Seen,
}

/// What there is to do.
#[derive(Debug, Default)]
pub struct Plan {
    pub(super) files: Vec<Known>,
    /// Jobs that must be read.
    pub(super) jobs: Vec<Job>,
    /// Records of jobs that need not, with the bytes that were not read.
    pub(super) reused: Vec<Record>,
    /// All jobs of this part: key, why, and the files of each.
    pub groups: Vec<(String, String, Vec<String>)>,
    /// Files that belong to no job, and why.
    pub left_out: Vec<(String, String)>,
    /// What could not be looked at, and why.
    pub problems: Vec<(String, String)>,
    /// Bytes that must be read, packed as they are.
    pub bytes: u64,
    /// Jobs of the index, by place, whose files are other jobs' by now, or were found below another path.
    pub(super) moved: Vec<(String, Vec<String>)>,
}

impl Plan {
    /// How many jobs must be read.
    #[must_use]
    pub fn to_read(&self) -> usize {
        self.jobs.len()
    }
}

/// Looks at everything and says what there is to do.
///
/// # Errors
/// When the index cannot be read or written, or no root can be read.
pub fn plan(knowledge: &Knowledge, options: &Options, index: &mut Index) -> Result<Plan, String> {
    let (layouts, faults) = Layouts::new(&knowledge.tables.layouts);
    let (found, mut problems) = files::find(&options.roots, &options.only);
    problems.extend(faults.into_iter().map(|f| ("rules".to_string(), f)));
    if found.is_empty() && !problems.is_empty() {
        let texts: Vec<String> = problems.iter().map(|(p, w)| format!("{p}: {w}")).collect();
        return Err(texts.join("\n"));
    }
    let mut all = remember(found, options, index)?;
    list_archives(&mut all, &layouts, options);
    let (items, origin) = items(&all);
    let grouping = {
        let mut head = |n: usize| {
            let (file, member) = origin[n];
            match member {
                Some(m) => all[file].seen.members.as_ref().map_or_else(Head::default, |l| l[m].head.clone()),
                None => {
                    let Known { found, seen } = &mut all[file];
                    seen.head.get_or_insert_with(|| look(&found.path, &layouts)).clone()
                }
            }
        };
        group::group(&items, &options.group_by, &layouts, &mut head)
    };
    let fresh: Vec<(String, Seen)> = all
        .iter()
        .filter(|k| k.seen.mark == 0 && (k.seen.head.is_some() || k.seen.members.is_some()))
        .map(|k| (name(&k.found.path), k.seen.clone()))
        .collect();
    index.keep_files(&fresh)?;
    let shown = |n: usize| {
        let (file, member) = origin[n];
        let members = member.and_then(|m| all[file].seen.members.as_ref().map(|l| archive::shown(&l[m])));
        members.map_or(all[file].found.shown.clone(), |m| format!("{}!{m}", all[file].found.shown))
    };
    let left_out = grouping.left_out.iter().map(|&(n, why)| (shown(n), why.to_string())).collect();
    let shared = shared(&grouping.groups, &grouping.left_out, &origin);
    let places: HashMap<&str, String> = all.iter().map(|k| (k.found.parts[0].as_str(), place(k))).collect();
    let mut out = Plan { left_out, problems, ..Plan::default() };
    let mut known = HashMap::new();
    for place in places.values() {
        known.insert(place.clone(), index.jobs(place)?);
    }
    out.moved = moved(index, &known, &grouping.groups, &origin, &all)?;
    let mut here: HashSet<String> = HashSet::new();
    let mut jobs = Vec::new();
    for group in grouping.groups {
        let job = job(group, &all, &origin, &shared);
        let key = job.members.keys().next().map_or(job.group.key.clone(), |&f| all[f].found.parts.join("/"));
        let old = options.since.is_some_and(|since| job.mtime < since);
        if old || options.shard.is_some_and(|s| !s.takes(&key)) {
            continue;
        }
        out.groups.push((
            job.group.key.clone(),
            job.group.why.clone(),
            job.group.items.iter().map(|&n| shown(n)).collect(),
        ));
        here.extend(job.inputs().map(|f| name(&all[f].found.path)));
        let before = known.get(&job.place).and_then(|k| k.get(&job.group.key));
        match before {
            Some((inputs, mark, record))
                if !options.again
                    && *mark == options.knowledge.cast_signed()
                    && self::inputs(&job, &all) == Some(*inputs) =>
            {
                out.reused.push(record.clone());
            }
            _ => {
                out.bytes += job.bytes;
                jobs.push(job);
            }
        }
    }
    // A job that an earlier scan found by way of another path counts once.
    let places: HashSet<&String> = places.values().collect();
    for (place, job, files) in
        index.elsewhere(&|p| places.iter().all(|o| *o != p) && places.iter().any(|o| nested(o, p)))?
    {
        if !files.is_empty() && files.iter().all(|f| here.contains(f)) {
            out.moved.push((place, vec![job]));
        }
    }
    out.jobs = jobs;
    out.files = all;
    Ok(out)
}

/// The jobs that the names of sources tell outright, where there are several. `sources` are paths with sizes, members of
/// archives behind a `!`.
#[must_use]
pub fn several(knowledge: &Knowledge, sources: &[(&str, u64)]) -> Vec<String> {
    if sources.len() < 2 {
        return Vec::new();
    }
    let (layouts, _) = Layouts::new(&knowledge.tables.layouts);
    let mut items: Vec<Item> = sources.iter().map(|&(path, size)| named(path, size)).collect();
    below_one_root(&mut items);
    // Heads cost something: they are read where the names alone tell of several.
    let ids = |by: &GroupBy| {
        let mut head = |n: usize| look(Path::new(sources[n].0), &layouts);
        let groups = group::group(&items, by, &layouts, &mut head).groups;
        groups.into_iter().filter_map(|g| g.id).collect::<std::collections::BTreeSet<String>>()
    };
    if ids(&GroupBy::Name).len() < 2 {
        return Vec::new();
    }
    let ids = ids(&GroupBy::Auto);
    if ids.len() < 2 { Vec::new() } else { ids.into_iter().collect() }
}

/// Takes away the folders that all items share, but for the last: where the whole of them lies says nothing.
fn below_one_root(items: &mut [Item]) {
    let Some(first) = items.first().map(|i| i.parts.clone()) else { return };
    let same = |item: &Item| {
        let folders = item.archives.first().map_or(item.parts.len() - 1, |a| a + 1).min(item.parts.len() - 1);
        first.iter().zip(&item.parts[..folders]).take_while(|(a, b)| a == b).count()
    };
    let shared = items.iter().map(same).min().unwrap_or(0).saturating_sub(1);
    for item in items {
        item.parts.drain(..shared);
        item.archives.iter_mut().for_each(|a| *a -= shared);
    }
}

/// A source as what is grouped: its folders, archives among them, and its name.
fn named(path: &str, size: u64) -> Item {
    let (mut parts, mut archives) = (Vec::new(), Vec::new());
    for (n, piece) in path.split('!').enumerate() {
        if n > 0 {
            archives.push(parts.len() - 1);
        }
        parts.extend(piece.split('/').filter(|p| !matches!(*p, "" | "." | "..")).map(String::from));
        if parts.is_empty() {
            parts.push(String::new());
        }
    }
    if parts.len() == 1 {
        parts.insert(0, ".".into());
        archives.iter_mut().for_each(|a| *a += 1);
    }
    Item { parts, archives, size, given: false }
}

/// Whether one of two folders lies below the other.
fn nested(a: &str, b: &str) -> bool {
    Path::new(a).starts_with(b) || Path::new(b).starts_with(a)
}

fn name(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The root of a file, as the index knows it.
fn place(known: &Known) -> String {
    let below = known.found.parts.len() - 1;
    let root = known.found.path.ancestors().nth(below).unwrap_or(&known.found.path);
    name(root)
}

/// Finds what the index knows of each file. One whose size or time has changed is the same where its mark is.
fn remember(found: Vec<Found>, options: &Options, index: &Index) -> Result<Vec<Known>, String> {
    let mut seen = HashMap::new();
    for root in &options.roots {
        seen.extend(index.files(&name(&files::real(root)))?);
    }
    let all = found.into_iter().map(|found| {
        let old = seen.remove(&name(&found.path)).unwrap_or_default();
        let (size, mtime) = (found.size, found.mtime);
        let same = old.size == size
            && (old.mtime == mtime
                || old.mark != 0 && files::mark(&found.path, size).is_ok_and(|m| m == old.mark));
        let seen = if same { Seen { size, mtime, ..old } } else { Seen { size, mtime, ..Seen::default() } };
        Known { found, seen }
    });
    Ok(all.collect())
}

/// Lists the archives that may hold several jobs, on all cores.
fn list_archives(all: &mut [Known], layouts: &Layouts, options: &Options) {
    if matches!(options.group_by, GroupBy::Name | GroupBy::File) {
        return;
    }
    let todo: Vec<usize> = (0..all.len())
        .filter(|&n| {
            let name = all[n].found.parts.last().map_or("", String::as_str);
            let one = || matches!(layouts.archive(name).id, Some(Id::Sure(_)));
            let auto = matches!(options.group_by, GroupBy::Auto);
            all[n].seen.members.is_none() && archive::is_archive(name) && !(auto && one())
        })
        .collect();
    let next = AtomicUsize::new(0);
    let lists: Mutex<Vec<(usize, Vec<Member>)>> = Mutex::default();
    let threads = threads(options.threads).min(todo.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&n) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let members = archive::list(&all[n].found.path, layouts);
                    if let Ok(mut lists) = lists.lock() {
                        lists.push((n, members));
                    }
                }
            });
        }
    });
    for (n, members) in lists.into_inner().unwrap_or_default() {
        all[n].seen.members = Some(members);
    }
}

/// Threads to use; 0 takes all cores.
pub(super) fn threads(wanted: usize) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(2, std::num::NonZero::get),
        n => n,
    }
}

/// What the first lines of a file say; documents and dumps say nothing.
fn look(path: &Path, layouts: &Layouts) -> Head {
    let name = name(path).to_lowercase();
    let document = [".json", ".pkl", ".pickle"].iter().any(|e| name.ends_with(e));
    if document { Head::default() } else { archive::head(path, layouts) }
}

type Origin = Vec<(usize, Option<usize>)>;

/// Files, and members of archives that were listed, as what is grouped; with where each comes from.
fn items(all: &[Known]) -> (Vec<Item>, Origin) {
    let (mut items, mut origin) = (Vec::new(), Vec::new());
    for (n, known) in all.iter().enumerate() {
        let parts = &known.found.parts;
        match known.seen.members.as_deref() {
            // An archive of which nothing can be listed is a file that will tell what is wrong with it.
            None | Some([]) => {
                let (size, given) = (known.found.size, known.found.given);
                items.push(Item { parts: parts.clone(), archives: Vec::new(), size, given });
                origin.push((n, None));
            }
            Some(members) => {
                for (m, member) in members.iter().enumerate() {
                    let archives = std::iter::once(parts.len() - 1)
                        .chain(member.archives.iter().map(|a| a + parts.len()))
                        .collect();
                    let parts = parts.iter().chain(&member.parts).cloned().collect();
                    items.push(Item { parts, archives, size: member.size, given: known.found.given });
                    origin.push((n, Some(m)));
                }
            }
        }
    }
    (items, origin)
}

/// Archives whose members belong to several jobs, or to none.
fn shared(groups: &[Group], left_out: &[(usize, &'static str)], origin: &Origin) -> HashSet<usize> {
    let mut owner: HashMap<usize, usize> = HashMap::new();
    let mut shared = HashSet::new();
    for (g, group) in groups.iter().enumerate() {
        for &n in &group.items {
            if let (file, Some(_)) = origin[n]
                && *owner.entry(file).or_insert(g) != g
            {
                shared.insert(file);
            }
        }
    }
    // What is no log is read along with a whole archive, as `diagnose` would.
    shared.extend(left_out.iter().filter(|l| l.1 != group::NO_LOG).filter_map(|l| {
        let (file, member) = origin[l.0];
        member.map(|_| file)
    }));
    shared
}

fn job(group: Group, all: &[Known], origin: &Origin, shared: &HashSet<usize>) -> Job {
    let mut whole = Vec::new();
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &n in &group.items {
        match origin[n] {
            (file, Some(m)) if shared.contains(&file) => members.entry(file).or_default().push(m),
            (file, _) => whole.push(file),
        }
    }
    whole.sort_unstable();
    whole.dedup();
    let (mut bytes, mut unpacked) = (0, 0);
    for &file in &whole {
        let Known { found, seen } = &all[file];
        bytes += found.size;
        unpacked += match &seen.members {
            Some(members) if !members.is_empty() => members.iter().map(|m| m.size).sum(),
            _ if is_packed(&found.shown) => found.size.saturating_mul(10),
            _ => found.size,
        };
    }
    for (&file, list) in &members {
        let all_members = all[file].seen.members.as_deref().unwrap_or_default();
        let total: u64 = all_members.iter().map(|m| m.size).sum();
        let own: u64 = list.iter().map(|&m| all_members[m].size).sum();
        unpacked += own;
        bytes += (u128::from(all[file].found.size) * u128::from(own) / u128::from(total.max(1))) as u64;
    }
    let inputs = whole.iter().chain(members.keys());
    let mtime = inputs.clone().map(|&f| all[f].found.mtime).max().unwrap_or(0);
    let first = inputs.clone().min().copied().unwrap_or(0);
    let path = common(inputs.map(|&f| all[f].found.shown.as_str()));
    let files = group.items.len() as u64;
    Job { place: place(&all[first]), group, path, whole, members, files, bytes, unpacked, mtime }
}

fn is_packed(name: &str) -> bool {
    let name = name.to_lowercase();
    [".gz", ".zst", ".zstd", ".xz", ".bz2", ".tgz", ".zip", ".txz", ".tbz2", ".tzst", ".z"]
        .iter()
        .any(|e| name.ends_with(e))
}

/// The one file, or the deepest folder that holds all.
fn common<'a>(mut paths: impl Iterator<Item = &'a str>) -> String {
    let Some(first) = paths.next() else { return String::new() };
    let mut shared: Vec<&str> = first.split('/').collect();
    for path in paths {
        let parts: Vec<&str> = path.split('/').collect();
        let same = shared.iter().zip(&parts).take_while(|(a, b)| a == b).count();
        shared.truncate(same);
    }
    if shared.is_empty() { ".".into() } else { shared.join("/") }
}

/// A mark of all that a job is read from; nothing where a file of it has not been read yet.
pub(super) fn inputs(job: &Job, all: &[Known]) -> Option<i64> {
    let mut sum = twox_hash::XxHash64::with_seed(0);
    for file in job.inputs() {
        let Known { found, seen } = &all[file];
        if seen.mark == 0 {
            return None;
        }
        sum.write(name(&found.path).as_bytes());
        sum.write_i64(seen.mark);
        for member in job.members.get(&file).into_iter().flatten() {
            sum.write_u64(*member as u64);
        }
    }
    Some(sum.finish().cast_signed())
}

/// Jobs of the index whose files belong to other jobs by now.
fn moved(
    index: &Index,
    known: &HashMap<String, HashMap<String, (i64, i64, Record)>>,
    groups: &[Group],
    origin: &Origin,
    all: &[Known],
) -> Result<Vec<(String, Vec<String>)>, String> {
    let keys: HashSet<&str> = groups.iter().map(|g| g.key.as_str()).collect();
    let here: HashSet<String> =
        groups.iter().flat_map(|g| &g.items).map(|&n| name(&all[origin[n].0].found.path)).collect();
    let mut out = Vec::new();
    for (place, jobs) in known {
        let mut moved = Vec::new();
        for job in jobs.keys().filter(|j| !keys.contains(j.as_str())) {
            if index.files_of(place, job)?.iter().any(|f| here.contains(f)) {
                moved.push(job.clone());
            }
        }
        if !moved.is_empty() {
            out.push((place.clone(), moved));
        }
    }
    Ok(out)
}
