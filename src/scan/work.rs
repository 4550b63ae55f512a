//! Diagnoses the jobs of a plan on all cores. Small jobs are read side by side
//! with one thread each, large ones with more; what may be in memory at once is
//! shared out before a job begins, so it does not grow with their number. Each
//! record is written to the index as soon as it is there.

use super::archive::{self, Spooled};
use super::files;
use super::index::{Entry, Index, Place, Seen};
use super::plan::{self, Job, Options, Plan};
use super::record::{self, Record};
use crate::engine::{self, Engine};
use crate::input::Given;
use crate::report::text::{self, Style};
use crate::report::write_json;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Bytes of a job for which one more thread is worth it.
const PER_THREAD: u64 = 48 << 20;
/// Threads for one job, at most.
const MOST: usize = 8;
/// Bytes of memory that jobs may take together …
const MEMORY: u64 = 400 << 20;
/// … of which each thread of a job takes this for its blocks …
const BLOCKS: u64 = 10 << 20;
/// … and what is kept of a job takes this at most.
const KEPT: u64 = 112 << 20;
/// Columns of the report that is kept.
const WIDTH: usize = 100;

/// Hears of what goes on; called from several threads.
pub trait Watch: Sync {
    /// A job was read: its name, the bytes on the disk that were read for it, and its record.
    fn read(&self, bytes: u64, record: &Record);
}

impl Watch for () {
    fn read(&self, _bytes: u64, _record: &Record) {}
}

/// What a scan came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// One record a job, sorted by job.
    pub records: Vec<Record>,
    /// How many were read now.
    pub read: usize,
    /// How many the index knew.
    pub reused: usize,
    /// Bytes that were read, packed as they are.
    pub bytes: u64,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// Cores and memory to be shared out.
struct Shares {
    left: Mutex<(usize, u64)>,
    more: Condvar,
    /// Held while one waits, so that a large job is not passed by for ever.
    turn: Mutex<()>,
}

impl Shares {
    fn take(&self, cores: usize, memory: u64) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        while left.0 < cores || left.1 < memory {
            left = self.more.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
        (left.0, left.1) = (left.0 - cores, left.1 - memory);
    }

    fn give(&self, cores: usize, memory: u64) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        (left.0, left.1) = (left.0 + cores, left.1 + memory);
        drop(left);
        self.more.notify_all();
    }
}

/// Jobs that must be read together, since archives hold several of them.
#[derive(Default)]
struct Task {
    jobs: Vec<usize>,
    archives: Vec<usize>,
}

/// What comes back of a job: its number, what it was read from, its entry.
type Done = (usize, Vec<(usize, i64)>, Entry);

/// Reads the jobs of a plan. `stop` ends it between two jobs.
///
/// # Errors
/// When the index cannot be written.
pub fn run(
    engine: &Engine,
    plan: Plan,
    options: &Options,
    index: &mut Index,
    watch: &dyn Watch,
    stop: &AtomicBool,
) -> Result<Outcome, String> {
    let Plan { mut files, jobs, reused, moved, .. } = plan;
    for (place, jobs) in &moved {
        index.forget(place, jobs)?;
    }
    let mut out = Outcome { reused: reused.len(), records: reused, ..Outcome::default() };
    let threads = plan::threads(options.threads);
    let tasks = Mutex::new(tasks(&jobs).into_iter());
    let shares = Shares { left: Mutex::new((threads, MEMORY)), more: Condvar::new(), turn: Mutex::new(()) };
    let (send, receive) = crossbeam_channel::bounded::<Done>(threads * 2);
    let mut failed = None;
    let known = files.clone();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            let send = send.clone();
            let (tasks, jobs, known, shares) = (&tasks, &jobs, &known, &shares);
            scope.spawn(move || {
                loop {
                    let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(task) = next.filter(|_| !stop.load(Ordering::Relaxed)) else { return };
                    let work = Work { engine, jobs, known, shares, threads, watch, stop };
                    if !work.task(&task, &mut |done| send.send(done).is_ok()) {
                        return;
                    }
                }
            });
        }
        drop(send);
        for (n, marks, entry) in receive {
            let job = &jobs[n];
            for &(file, mark) in &marks {
                files[file].seen.mark = mark;
            }
            let rows: Vec<(String, Seen)> = job
                .inputs()
                .map(|f| (files[f].found.path.to_string_lossy().into_owned(), files[f].seen.clone()))
                .collect();
            let inputs = plan::inputs(job, &files).unwrap_or(0);
            let knowledge = options.knowledge.cast_signed();
            let at = Place { place: &job.place, inputs, knowledge };
            if let Err(error) = index.put(&at, &rows, &entry) {
                stop.store(true, Ordering::Relaxed);
                failed = Some(error);
                break;
            }
            out.read += 1;
            out.bytes += job.bytes;
            out.records.push(entry.record);
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    out.stopped = out.read < jobs.len();
    out.records.sort_by(|a, b| (&a.job, &a.path).cmp(&(&b.job, &b.path)));
    Ok(out)
}

/// Jobs that share an archive are one task; the largest come first, so that none is left for the end.
fn tasks(jobs: &[Job]) -> Vec<Task> {
    let mut by_archive: HashMap<usize, usize> = HashMap::new();
    let mut into: Vec<usize> = (0..jobs.len()).collect();
    fn root(into: &[usize], mut n: usize) -> usize {
        while into[n] != n {
            n = into[n];
        }
        n
    }
    for (n, job) in jobs.iter().enumerate() {
        for &archive in job.members.keys() {
            let first = *by_archive.entry(archive).or_insert(n);
            let (a, b) = (root(&into, first), root(&into, n));
            into[a.max(b)] = a.min(b);
        }
    }
    let mut tasks: BTreeMap<usize, Task> = BTreeMap::new();
    for (n, job) in jobs.iter().enumerate() {
        let task = tasks.entry(root(&into, n)).or_default();
        task.jobs.push(n);
        task.archives.extend(job.members.keys());
    }
    let mut tasks: Vec<Task> = tasks.into_values().collect();
    for task in &mut tasks {
        task.archives.sort_unstable();
        task.archives.dedup();
    }
    tasks.sort_by_key(|t| {
        (std::cmp::Reverse(t.jobs.iter().map(|&n| jobs[n].unpacked).sum::<u64>()), t.jobs[0])
    });
    tasks
}

struct Work<'a> {
    engine: &'a Engine,
    jobs: &'a [Job],
    known: &'a [plan::Known],
    shares: &'a Shares,
    threads: usize,
    watch: &'a dyn Watch,
    stop: &'a AtomicBool,
}

impl Work<'_> {
    /// Reads the jobs of a task and hands them out; false when nobody wants more.
    fn task(&self, task: &Task, done: &mut dyn FnMut(Done) -> bool) -> bool {
        if task.archives.is_empty() {
            return task.jobs.iter().all(|&n| done(self.job(n, Vec::new(), Vec::new())));
        }
        let mut alive = true;
        let mut there = HashSet::new();
        if let Err(error) = self.unpacked(task, &mut |d| {
            there.insert(d.0);
            alive = alive && done(d);
            alive
        }) {
            for &n in task.jobs.iter().filter(|n| !there.contains(n)) {
                let why = format!("{}: cannot be unpacked: {error}", self.jobs[n].path);
                alive = alive && done(self.fail(n, Vec::new(), &why));
            }
        }
        alive
    }

    /// Jobs in archives that hold several: the members are laid out, and each job is read when all of its are there.
    fn unpacked(&self, task: &Task, done: &mut dyn FnMut(Done) -> bool) -> std::io::Result<()> {
        let folder = tempfile::Builder::new().prefix("ncclcheck-").tempdir()?;
        let mut missing: HashMap<usize, usize> = HashMap::new();
        let mut owner: HashMap<(usize, usize), usize> = HashMap::new();
        for &n in &task.jobs {
            for (&archive, members) in &self.jobs[n].members {
                *missing.entry(n).or_default() += members.len();
                owner.extend(members.iter().map(|&m| ((archive, m), n)));
            }
        }
        let mut there: BTreeMap<usize, Vec<Spooled>> = BTreeMap::new();
        let mut alive = true;
        let mut told: HashMap<usize, Vec<String>> = HashMap::new();
        for &archive in &task.archives {
            let within = folder.path().join(archive.to_string());
            std::fs::create_dir(&within)?;
            let found = &self.known[archive].found;
            let wanted = |m: usize| owner.contains_key(&(archive, m));
            let problems = archive::spool(&found.path, &found.shown, &within, &wanted, &mut |m, spooled| {
                let Some(&n) = owner.get(&(archive, m)) else { return };
                there.entry(n).or_default().push(spooled);
                let left = missing.entry(n).or_default();
                *left = left.saturating_sub(1);
                if *left == 0 && alive && !self.stop.load(Ordering::Relaxed) {
                    missing.remove(&n);
                    let members = there.remove(&n).unwrap_or_default();
                    alive = done(self.job(n, members, Vec::new()));
                }
            })?;
            told.insert(archive, problems);
        }
        // An archive that ends early: what there is of the last job.
        let left: Vec<usize> = task.jobs.iter().copied().filter(|n| missing.contains_key(n)).collect();
        for n in left {
            let problems =
                self.jobs[n].members.keys().filter_map(|a| told.get(a)).flatten().cloned().collect();
            if alive && !self.stop.load(Ordering::Relaxed) {
                alive = done(self.job(n, there.remove(&n).unwrap_or_default(), problems));
            }
        }
        Ok(())
    }

    fn job(&self, n: usize, members: Vec<Spooled>, problems: Vec<String>) -> Done {
        let job = &self.jobs[n];
        let cores =
            usize::try_from(1 + job.unpacked / PER_THREAD).unwrap_or(MOST).clamp(1, self.threads.min(MOST));
        let memory = (BLOCKS * cores as u64 + (job.unpacked / 2).min(KEPT)).min(MEMORY);
        // Marks are of what lies there before it is read: what is written meanwhile is seen the next time.
        let marks: Vec<(usize, i64)> = job
            .inputs()
            .filter_map(|f| Some((f, files::mark(&self.known[f].found.path, self.known[f].found.size).ok()?)))
            .collect();
        self.shares.take(cores, memory);
        let entry = self.diagnose(job, &members, problems, cores);
        self.shares.give(cores, memory);
        members.iter().for_each(archive::remove);
        self.watch.read(job.bytes, &entry.record);
        (n, marks, entry)
    }

    fn diagnose(&self, job: &Job, members: &[Spooled], mut problems: Vec<String>, threads: usize) -> Entry {
        for member in members {
            problems.extend(member.problems.iter().map(|p| format!("{}: {p}", member.name)));
        }
        let known = self.known(job, problems);
        let whole = job.whole.iter().map(|&f| {
            let found = &self.known[f].found;
            Given::Named { name: found.shown.clone(), path: found.path.clone() }
        });
        let members = members.iter().map(|m| Given::Named { name: m.name.clone(), path: m.path.clone() });
        let given: Vec<Given> = whole.chain(members).collect();
        let options = engine::Options { threads, ..engine::Options::default() };
        guarded(known, |known| {
            let (report, unknown) = match self.engine.diagnose_with_unknown(&known.job, &given, &options) {
                Ok(read) => read,
                Err(error) => return unread(known, error.to_string()),
            };
            let (mut json, mut page) = (Vec::new(), Vec::new());
            let _ = write_json(&report, &mut json);
            let _ = text::write(&report, Style { width: WIDTH, verbose: false }, &mut page);
            let record = Record::new(known, &report);
            let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            let mut unknown = unknown.small();
            unknown.day = record.when().map(|at| at.date().to_string());
            Entry { record, json: text(json), text: text(page), files: Vec::new(), unknown: Some(unknown) }
        })
    }

    fn known(&self, job: &Job, problems: Vec<String>) -> record::Known {
        record::Known {
            job: job.group.key.clone(),
            path: job.path.clone(),
            job_id: job.group.id.clone(),
            files: job.files,
            bytes: job.bytes,
            mtime: job.mtime,
            problems,
        }
    }

    fn fail(&self, n: usize, marks: Vec<(usize, i64)>, why: &str) -> Done {
        let entry = unread(self.known(&self.jobs[n], Vec::new()), why.to_string());
        self.watch.read(self.jobs[n].bytes, &entry.record);
        (n, marks, entry)
    }
}

/// Reads one job from end to end; what goes wrong within is told of that job, and the others are read on.
fn guarded(known: record::Known, read: impl FnOnce(record::Known) -> Entry) -> Entry {
    let kept = known.clone();
    catch_unwind(AssertUnwindSafe(|| read(known))).unwrap_or_else(|_| {
        unread(kept, "an internal fault of ncclcheck ended the reading of this job".into())
    })
}

fn unread(known: record::Known, why: String) -> Entry {
    let record = Record::unread(known, why);
    let json = serde_json::to_string_pretty(&record).unwrap_or_default();
    let text = format!("{}: {}\n", record.job, record.summary);
    Entry { record, json, text, files: Vec::new(), unknown: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_one_job_is_its_own() {
        let known = record::Known { job: "a/7".into(), files: 3, ..record::Known::default() };
        let entry = guarded(known, |known| {
            assert!(known.files > 3, "on purpose");
            unread(known, String::new())
        });
        assert_eq!((entry.record.job.as_str(), entry.record.verdict.as_str()), ("a/7", "unread"));
        assert!(entry.text.contains("internal fault"), "{}", entry.text);
    }
}
