//! A whole archive: every job is found with all its files, every planted cause
//! too; a second scan reads nothing; one that was stopped goes on; parts make
//! the whole.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

#[path = "../examples/archive.rs"]
mod archive;

use archive::Truth;
use ncclcheck::engine::Engine;
use ncclcheck::scan::{self, GroupBy, Index, Only, Options, Outcome, Plan, Record, Shard, Watch};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const JOBS: usize = 60;

struct Made {
    folder: tempfile::TempDir,
    truth: Vec<Truth>,
}

impl Made {
    fn root(&self) -> PathBuf {
        self.folder.path().join("archive")
    }

    fn options(&self) -> Options {
        Options { roots: vec![self.root()], threads: 2, ..Options::default() }
    }
}

/// The archive of all tests, which none changes.
fn made() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| make(JOBS as u64, 7))
}

fn make(jobs: u64, seed: u64) -> Made {
    let folder = tempfile::tempdir().unwrap();
    let wanted = archive::Wanted { jobs, size: jobs * 60_000, seed, out: folder.path().join("archive") };
    let truth = archive::make(wanted).unwrap();
    Made { folder, truth }
}

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(&[]).unwrap())
}

fn plan(options: &Options, index: &mut Index) -> Plan {
    scan::plan(&engine().knowledge, options, index).unwrap()
}

fn read(options: &Options, index: &mut Index) -> Outcome {
    let plan = plan(options, index);
    scan::run(engine(), plan, options, index, &(), &AtomicBool::new(false)).unwrap()
}

/// One scan of the archive of all tests.
fn records() -> &'static [Record] {
    static RECORDS: OnceLock<Vec<Record>> = OnceLock::new();
    RECORDS.get_or_init(|| read(&made().options(), &mut Index::in_memory().unwrap()).records)
}

#[test]
fn every_job_is_grouped_right_and_every_planted_cause_is_found() {
    let root = format!("{}/", made().root().display());
    let plan = plan(&made().options(), &mut Index::in_memory().unwrap());
    let jobs: BTreeMap<Vec<String>, &str> = plan
        .groups
        .iter()
        .map(|(job, _, files)| {
            let mut files: Vec<String> =
                files.iter().map(|f| f.strip_prefix(&root).unwrap().into()).collect();
            files.sort();
            (files, job.as_str())
        })
        .collect();
    let mut wrong = Vec::new();
    for truth in &made().truth {
        // An archive whose name tells the job is not looked into for that.
        let archive = vec![truth.files[0].split('!').next().unwrap().to_string()];
        let Some(job) = jobs.get(&truth.files).or_else(|| jobs.get(&archive)) else {
            wrong.push(format!("no job of just {:?}", truth.files));
            continue;
        };
        let record = records().iter().find(|r| r.job == *job).unwrap();
        if record.cause.as_deref() != truth.cause {
            wrong.push(format!("{job}: {:?}, not {:?}", record.cause, truth.cause));
        }
        assert_eq!(record.failed(), truth.cause.is_some(), "{job}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!((plan.groups.len(), records().len()), (JOBS, JOBS));
    let broken: Vec<&Record> = records().iter().filter(|r| !r.problems.is_empty()).collect();
    assert!(!broken.is_empty() && broken.iter().all(|r| r.job.contains("/damaged/")), "{broken:?}");
}

#[test]
fn a_second_scan_reads_what_is_new_or_has_grown_and_nothing_else() {
    let own = make(28, 3);
    let options = own.options();
    let mut index = Index::open(&own.folder.path().join("index")).unwrap();
    let first = read(&options, &mut index);
    assert_eq!((first.read, first.reused), (28, 0));
    let second = read(&options, &mut index);
    assert_eq!((second.read, second.reused, second.bytes), (0, 28, 0));
    assert_eq!(first.records, second.records);

    // The same bytes written again are not read again.
    let slurm = own.root().join(&own.truth[0].files[0]);
    let text = fs::read(&slurm).unwrap();
    fs::remove_file(&slurm).unwrap();
    fs::write(&slurm, &text).unwrap();
    assert_eq!(plan(&options, &mut index).to_read(), 0);
    // More of it is, and so is a new file of a job, and a new job.
    fs::write(&slurm, [&text[..], b"one more line\n"].concat()).unwrap();
    let ranks = own.root().join(&own.truth[1].files[0]);
    fs::write(ranks.with_file_name("dmesg-node000.txt"), "Feb 03 10:20:00 node000 kernel: eth0: link up\n")
        .unwrap();
    fs::write(own.root().join("slurm-99999.out"), "done\n").unwrap();
    let third = read(&options, &mut index);
    assert_eq!((third.read, third.reused), (3, 26));
    assert_eq!(read(&options, &mut index).read, 0);
    // Other knowledge judges anew.
    assert_eq!(plan(&Options { knowledge: 1, ..own.options() }, &mut index).to_read(), 29);
    assert_eq!(plan(&Options { again: true, ..own.options() }, &mut index).to_read(), 29);
    // A job that is gone stays in the index; one whose files are another's now does not.
    fs::remove_file(own.root().join("slurm-99999.out")).unwrap();
    assert_eq!(read(&options, &mut index).records.len(), 28);
    assert_eq!(index.jobs_known().unwrap(), 29);
    let by_file = Options { group_by: GroupBy::File, ..own.options() };
    let regrouped = read(&by_file, &mut index);
    let left = index.records().unwrap();
    assert_eq!(
        left.len(),
        regrouped.records.len() + 1,
        "jobs of the old grouping are counted beside the new"
    );
}

/// Stops after some jobs.
struct StopAfter(AtomicUsize, AtomicBool);

impl Watch for StopAfter {
    fn read(&self, _bytes: u64, _record: &Record) {
        if self.0.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.1.store(true, Ordering::SeqCst);
        }
    }
}

#[test]
fn a_scan_that_was_stopped_goes_on_to_the_same_records() {
    let own = tempfile::tempdir().unwrap();
    let mut index = Index::open(&own.path().join("index")).unwrap();
    let options = made().options();
    let watch = StopAfter(AtomicUsize::new(9), AtomicBool::new(false));
    let first = plan(&options, &mut index);
    let stopped = scan::run(engine(), first, &options, &mut index, &watch, &watch.1).unwrap();
    assert!(stopped.stopped && stopped.read >= 9 && stopped.read < JOBS, "{}", stopped.read);
    let rest = read(&options, &mut index);
    assert_eq!((rest.reused, rest.read), (stopped.read, JOBS - stopped.read));
    assert_eq!(rest.records, records());
}

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclcheck"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(args: &[&str]) -> Output {
    program(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_scan_that_was_killed_goes_on_to_the_same_records() {
    let own = tempfile::tempdir().unwrap();
    let index = own.path().join("index");
    let root = made().root();
    let args = ["scan", "--threads", "1", "--index", index.to_str().unwrap(), root.to_str().unwrap()];
    let mut child = program(&args).stdout(Stdio::null()).spawn().unwrap();
    // As soon as some jobs stand in the index, whenever that is.
    while child.try_wait().unwrap().is_none() {
        if Index::read_only(&index)
            .and_then(|i| i.jobs_known().map_err(|e| e.to_string()))
            .is_ok_and(|n| n >= 5)
        {
            child.kill().unwrap();
            break;
        }
        std::thread::yield_now();
    }
    child.wait().unwrap();
    assert!(Index::read_only(&index).unwrap().jobs_known().unwrap() >= 5);
    let output = run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut whole = Vec::new();
    scan::write(records(), scan::Table::Ndjson, &mut whole).unwrap();
    assert_eq!(text(&output.stdout), text(&whole));
}

#[test]
fn sixteen_parts_are_the_whole() {
    let root = made().root();
    let mut lists = Vec::new();
    for number in 1..=16 {
        let options = Options { shard: Some(Shard { number, of: 16 }), ..made().options() };
        lists.push(read(&options, &mut Index::in_memory().unwrap()).records);
    }
    assert!(lists.iter().filter(|l| !l.is_empty()).count() > 8, "the parts are about equal");
    assert_eq!(lists.iter().map(Vec::len).sum::<usize>(), JOBS, "no job is in two parts");
    // In any order, and with one part twice.
    lists.reverse();
    lists.push(lists[3].clone());
    let merged = scan::merge(lists);
    assert_eq!(merged.records, records());
    assert!(merged.differ.is_empty());
    assert_eq!(scan::Fleet::new(&merged.records), scan::Fleet::new(records()));
    assert!(root.is_dir());
}

#[test]
fn threads_and_order_cannot_be_seen() {
    let one = Options { threads: 1, ..made().options() };
    assert_eq!(read(&one, &mut Index::in_memory().unwrap()).records, records());
}

#[test]
fn globs_choose_files() {
    let only = |include: &[&str], exclude: &[&str]| {
        let all = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        Options { only: Only::new(&all(include), &all(exclude)).unwrap(), ..made().options() }
    };
    let count = |o: &Options| plan(o, &mut Index::in_memory().unwrap()).groups.len();
    let pods = count(&only(&["pods"], &[]));
    assert!(pods > 1 && pods < JOBS);
    assert_eq!(count(&only(&[], &["pods"])), JOBS - pods);
    assert_eq!(count(&only(&["pods/**/*.log", "pods/*.log"], &[])), pods);
    assert_eq!(count(&only(&["*.nothing"], &[])), 0);
    assert!(Only::new(&["[".into()], &[]).is_err());
}

#[test]
fn the_program_writes_tables_and_answers_questions() {
    let own = tempfile::tempdir().unwrap();
    let at = |name: &str| own.path().join(name).display().to_string();
    let root = made().root().display().to_string();
    let output = run(&[
        "scan",
        &root,
        "--index",
        &at("index"),
        "-o",
        &at("a.parquet"),
        "-o",
        &at("a.csv"),
        "-o",
        &at("a.ndjson"),
        "-o",
        &at("a.md"),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.contains("memory/gpu-oom-app") && shown.contains("node001"), "{shown}");
    assert!(!shown.contains('\u{1b}'));
    let mut whole = Vec::new();
    scan::write(records(), scan::Table::Ndjson, &mut whole).unwrap();
    assert_eq!(fs::read(at("a.ndjson")).unwrap(), whole);
    assert_eq!(fs::read_to_string(at("a.csv")).unwrap().lines().count(), JOBS + 1);
    assert!(fs::read(at("a.parquet")).unwrap().starts_with(b"PAR1"));
    assert!(fs::read_to_string(at("a.md")).unwrap().contains("| cause | jobs |"));

    let planted = made().truth.iter().filter(|t| t.cause == Some("gpu/xid")).count();
    for from in [vec!["--index".to_string(), at("index")], vec![at("a.ndjson")]] {
        let mut args = vec!["jobs", "--cause", "gpu/xid", "--format", "ndjson"];
        args.extend(from.iter().map(String::as_str));
        let output = run(&args);
        assert_eq!((output.status.code(), text(&output.stdout).lines().count()), (Some(0), planted));
    }
    let none = run(&["jobs", "--index", &at("index"), "--host", "no-such-host"]);
    assert_eq!((none.status.code(), none.stdout.len()), (Some(1), 0));
    let trends = run(&["trends", "--index", &at("index"), "--format", "markdown"]);
    assert!(text(&trends.stdout).contains("gpu/xid") && text(&trends.stdout).contains("2026-W"));

    let xid = records().iter().find(|r| r.cause.as_deref() == Some("gpu/xid")).unwrap();
    let show = run(&["show", &xid.job, "--index", &at("index")]);
    assert!(
        show.status.code() == Some(0) && text(&show.stdout).contains("[gpu/xid]"),
        "{}",
        text(&show.stdout)
    );
    let json = run(&["show", &xid.job, "--json", "--index", &at("index")]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["diagnoses"][0]["cause"], "gpu/xid");
    assert_eq!(run(&["show", "no-such-job", "--index", &at("index")]).status.code(), Some(1));

    fs::write(at("one"), &whole[..whole.len() / 2]).unwrap();
    assert_eq!(run(&["merge", &at("one")]).status.code(), Some(2), "a cut record is no record");
    let merged = run(&["merge", &at("index"), &at("a.ndjson")]);
    assert_eq!(merged.stdout, whole);
}

#[test]
fn an_index_remembers_and_never_judges() {
    let own = tempfile::tempdir().unwrap();
    let list = own.path().join("a.ndjson");
    let mut file = fs::File::create(&list).unwrap();
    scan::write(records(), scan::Table::Ndjson, &mut file).unwrap();
    let truth =
        made().truth.iter().find(|t| t.cause == Some("memory/gpu-oom-app") && t.files.len() == 1).unwrap();
    let log = made().root().join(&truth.files[0]).display().to_string();
    let plain = run(&["diagnose", "--format", "json", &log]);
    let with = run(&["diagnose", "--format", "json", "--archive", list.to_str().unwrap(), &log]);
    assert_eq!((plain.status.code(), with.status.code()), (Some(1), Some(1)));
    let of = |o: &Output| serde_json::from_slice::<serde_json::Value>(&o.stdout).unwrap();
    let (plain, mut with) = (of(&plain), of(&with));
    let alike = made().truth.iter().filter(|t| t.cause == truth.cause).count() - 1;
    let notice = with["notices"].as_array_mut().unwrap().pop().unwrap();
    let title = notice["title"].as_str().unwrap();
    assert!(title.starts_with(&format!("Like {alike} earlier jobs, last on 2026-02-03")), "{title}");
    assert_eq!(notice["severity"], "notice");
    assert_eq!(plain, with, "nothing else changes");
}

#[test]
fn what_cannot_be_done_is_said_in_one_line() {
    let own = tempfile::tempdir().unwrap();
    let at = |name: &str| own.path().join(name).display().to_string();
    fs::write(at("log.txt"), "not an index\n".repeat(100)).unwrap();
    fs::create_dir(at("empty")).unwrap();
    let wrong: [&[&str]; 8] = [
        &["scan", "--no-index", &at("nowhere")],
        &["scan", "--index", &at("log.txt"), &at("empty")],
        &["scan", "--no-index", "--shard", "17/16", &at("empty")],
        &["scan", "--no-index", "--group-by", "x/[", &at("empty")],
        &["scan", "--no-index", "--since", "yesterday", &at("empty")],
        &["scan", "--no-index", "-o", &at("a.xlsx"), &at("empty")],
        &["jobs", "--index", &at("nowhere")],
        &["merge", &at("log.txt")],
    ];
    for args in wrong {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}");
    }
    assert!(!Path::new(&at("nowhere")).exists());
    let empty = run(&["scan", "--no-index", &at("empty")]);
    assert_eq!(empty.status.code(), Some(0), "{}", text(&empty.stderr));
}

#[test]
fn hostile_and_broken_files_stop_nothing() {
    let own = tempfile::tempdir().unwrap();
    let at = |name: &str| own.path().join(name);
    fs::create_dir_all(at("a/job-1")).unwrap();
    fs::create_dir_all(at("a/job-2")).unwrap();
    fs::write(at("a/job-1/x.tar.gz"), b"\x1f\x8b\x08 not gzip at all").unwrap();
    fs::write(at("a/job-1/rank0.log"), [0u8, 159, 146, 150].repeat(3000)).unwrap();
    fs::write(at("a/job-2/\u{1b}[31m|evil|.log"), "ValueError: =1+1|<script>\n").unwrap();
    fs::write(at("a/slurm-3.out"), "").unwrap();
    let root = at("a").display().to_string();
    let output = run(&["scan", "--no-index", &root]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let records: Vec<Record> =
        text(&output.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(records.len(), 3);
    assert!(!records[0].problems.is_empty(), "{:?}", records[0]);
    for form in ["text", "markdown"] {
        let page = text(&run(&["scan", "--no-index", "--format", form, &root]).stdout);
        assert!(!page.contains('\u{1b}') && !page.contains("<script>"), "{page}");
    }
    let dry = text(&run(&["scan", "--no-index", "--dry-run", &root]).stdout);
    assert!(!dry.contains('\u{1b}'), "{dry}");
}

/// A run whose watchdog speaks last: the training tells years, the watchdog none, the scheduler in its words.
const HANGS: &str = "\
2026-03-05 08:00:00,000 INFO step: 100 loss: 3.9
2026-03-05 08:01:00,000 INFO step: 200 loss: 3.9
[rank1]:[E0305 08:31:00.000000001 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: \
WorkNCCL(SeqNum=6, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=1800000) ran for 1800078 milliseconds \
before timing out.
";

fn of(output: &Output) -> Vec<Record> {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn times_without_a_year_and_those_in_words_count() {
    let own = tempfile::tempdir().unwrap();
    let at = |name: &str| own.path().join(name).display().to_string();
    fs::write(at("hang.log"), HANGS).unwrap();
    let cancelled = format!(
        "{HANGS}slurmstepd: error: *** JOB 8120 ON cn04 CANCELLED AT 2026-03-05T09:00:00 DUE TO TIME LIMIT ***\n"
    );
    fs::write(at("limit.log"), cancelled).unwrap();
    let records = of(&run(&["scan", "--no-index", &at("hang.log"), &at("limit.log")]));
    let [hang, limit] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!(hang.first.as_deref(), Some("2026-03-05T08:00:00"));
    assert_eq!((hang.last.as_deref(), hang.seconds), (Some("2026-03-05T08:31:00.000000001"), Some(1860.0)));
    assert_eq!((hang.world_size, hang.lost_gpu_hours), (Some(2), Some(1.0)));
    assert_eq!((limit.last.as_deref(), limit.seconds), (Some("2026-03-05T09:00:00"), Some(3600.0)));
}

#[test]
fn a_file_that_is_given_is_a_job_with_a_name() {
    let own = tempfile::tempdir().unwrap();
    let at = |name: &str| own.path().join(name).display().to_string();
    for name in ["one.log", "job-51/run.log", "job-52/tune.log"] {
        fs::create_dir_all(own.path().join(name).parent().unwrap()).unwrap();
        fs::write(at(name), HANGS).unwrap();
    }
    let scanned = run(&["scan", "--no-index", &at("one.log"), &at("job-51/run.log"), &at("job-52/tune.log")]);
    let records = of(&scanned);
    let folder = own.path().file_name().unwrap().to_string_lossy().into_owned();
    let mut names: Vec<String> = records.iter().map(|r| r.job.clone()).collect();
    names.sort();
    let mut want = ["51".to_string(), "52".into(), format!("{folder}/one")];
    want.sort();
    assert_eq!(names, want);
    assert_eq!(records.iter().find(|r| r.job == "51").unwrap().path, at("job-51/run.log"));
    // What it wrote is taken back, from a file and from a pipe.
    fs::write(at("all.ndjson"), &scanned.stdout).unwrap();
    assert_eq!(run(&["merge", &at("all.ndjson")]).stdout, scanned.stdout);
    let mut merge = program(&["merge", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut merge.stdin.take().unwrap(), &scanned.stdout).unwrap();
    assert_eq!(merge.wait_with_output().unwrap().stdout, scanned.stdout);

    let index = at("index");
    run(&["scan", "--index", &index, &at("one.log")]);
    assert_eq!(run(&["show", "one", "--index", &index]).status.code(), Some(0));
}

#[test]
fn an_archive_counts_once_whichever_way_it_is_named() {
    let own = tempfile::tempdir().unwrap();
    let at = |name: &str| own.path().join(name).display().to_string();
    for name in ["ar/job-51/run.log", "ar/job-52/run.log", "beside/x.txt", "other/ar/job-52/run.log"] {
        fs::create_dir_all(own.path().join(name).parent().unwrap()).unwrap();
        fs::write(at(name), HANGS).unwrap();
    }
    let index = at("index");
    let known = || Index::read_only(Path::new(&index)).unwrap().jobs_known().unwrap();
    let scan = |folder: &str, path: &str| {
        let mut command = program(&["scan", "--index", &index, path]);
        let output = command.current_dir(own.path().join(folder)).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    };
    for (folder, path) in [(".", "ar"), ("beside", "../ar"), ("ar", "."), ("ar/job-51", ".."), (".", "./ar/")]
    {
        scan(folder, path);
        assert_eq!(known(), 2, "{path} from {folder}");
    }
    // By a part of it, and the whole again.
    scan("ar", "job-51");
    assert_eq!(known(), 2);
    scan(".", "ar/job-52/run.log");
    assert_eq!(known(), 2);
    scan(".", "ar");
    assert_eq!(known(), 2);
    // Only looking changes nothing.
    run(&["scan", "--dry-run", "--index", &index, "--group-by", "file", &at("ar")]);
    assert_eq!(known(), 2);
    // Two archives of one name are two, and each job can be shown.
    scan(".", "other/ar");
    assert_eq!(known(), 3);
    let both = run(&["show", "ar/52", "--index", &index]);
    let told = text(&both.stderr);
    assert!(both.status.code() == Some(1) && told.contains("other/ar/job-52/run.log"), "{told}");
    let one = run(&["show", &at("other/ar"), "--index", &index]);
    assert_eq!(one.status.code(), Some(0), "{}", text(&one.stderr));
}

/// The index of another group: whoever asks may read it, and write neither the file nor its folder.
#[cfg(unix)]
#[test]
fn an_index_that_may_not_be_written_can_be_asked() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let own = tempfile::tempdir().unwrap();
    fs::set_permissions(own.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let folder = own.path().join("theirs #1");
    fs::create_dir(&folder).unwrap();
    let (log, index) = (own.path().join("one.log"), folder.join("index.sqlite"));
    fs::write(&log, HANGS).unwrap();
    let (log, index) = (log.display().to_string(), index.display().to_string());
    assert_eq!(run(&["scan", "--index", &index, &log]).status.code(), Some(0));
    for (path, mode) in [(Path::new(&index), 0o444), (&folder, 0o555)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    // Nothing is forbidden to root, who asks as nobody; that may not run the program where it lies in a closed folder.
    let root = fs::write(folder.join("probe"), "").is_ok();
    let ask = |args: &[&str]| {
        let mut command = program(args);
        if root {
            let _ = fs::remove_file(folder.join("probe"));
            command.uid(65_534).gid(65_534);
        }
        command.output()
    };
    if ask(&["--version"]).is_ok_and(|o| o.status.success()) {
        for args in [
            &["jobs", "--index", &index][..],
            &["show", "one", "--index", &index],
            &["trends", "--index", &index],
            &["merge", &index],
        ] {
            let output = ask(args).unwrap();
            assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        }
        let diagnosed = ask(&["diagnose", "--archive", &index, &log]).unwrap();
        assert_eq!(diagnosed.status.code(), Some(1), "{}", text(&diagnosed.stderr));
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_ended_well_after_a_failure_is_told_with_what_was_different() {
    let own = tempfile::tempdir().unwrap();
    let at = |name: &str| own.path().join(name).display().to_string();
    fs::create_dir(at("ar")).unwrap();
    let log = |day: u32, nccl: &str, retries: u32, end: &str| {
        format!(
            "2026-03-{day:02} 08:00:00 INFO world_size: 2\n\
             cn04:77:77 [0] NCCL INFO NCCL version {nccl}+cuda12.2\n\
             cn04:77:77 [0] NCCL INFO NCCL_IB_RETRY_CNT set by environment to {retries}.\n\
             2026-03-{day:02} 08:01:00 INFO step: 100 loss: 3.9\n{end}"
        )
    };
    let bad = "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"tune.py\", line 7, in <module>\n\
               [rank0]: ValueError: the batch holds no tokens\n";
    let good = "2026-03-05 08:02:00 INFO Training finished\nTraining completed successfully\n";
    fs::write(at("ar/llama-4100.log"), log(3, "2.18.1", 3, bad)).unwrap();
    fs::write(at("ar/llama-4101.log"), log(5, "2.19.3", 7, good)).unwrap();
    fs::write(at("now.log"), log(9, "2.18.1", 3, bad)).unwrap();
    let index = at("index");
    let records = of(&run(&["scan", "--index", &index, &at("ar")]));
    let seen: Vec<(&str, Option<&str>)> = records.iter().map(|r| (&*r.verdict, r.cause.as_deref())).collect();
    assert_eq!(seen, [("fault", Some("app/exception")), ("healthy", None)], "{records:?}");
    let report = run(&["diagnose", "--format", "json", "--archive", &index, &at("now.log")]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let why = report["notices"].as_array().unwrap().last().unwrap()["why"].as_str().unwrap();
    assert!(why.contains("1 earlier job that failed alike"), "{why}");
    assert!(why.contains("After ar/llama-4100 the job ar/llama-4101 ended well on 2026-03-05"), "{why}");
    assert!(why.contains("NCCL 2.19.3 instead of 2.18.1"), "{why}");
    assert!(why.contains("NCCL_IB_RETRY_CNT 7 instead of 3"), "{why}");
}

/// The table of columns in the documentation is that of the program; `UPDATE_DOCS=1` writes it.
#[test]
fn the_columns_are_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/scan.md");
    let text = fs::read_to_string(&path).unwrap();
    let mut table = String::from("| column | type | |\n|---|---|---|\n");
    for (name, kind, about) in scan::COLUMNS {
        let kind = match kind {
            scan::Type::Text => "text",
            scan::Type::Int => "integer",
            scan::Type::Float => "number",
            scan::Type::Texts => "list of texts",
            scan::Type::Ints => "list of integers",
        };
        table.push_str(&format!("| `{name}` | {kind} | {about} |\n"));
    }
    let (start, end) = ("<!-- columns -->\n", "<!-- end of columns -->\n");
    let at = text.find(start).unwrap() + start.len();
    let to = text.find(end).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{}\n{table}\n{}", &text[..at], &text[to..])).unwrap();
    } else {
        assert_eq!(text[at..to].trim(), table.trim(), "UPDATE_DOCS=1 writes it");
    }
}

/// Jobs with lines that no message knows: every one has its own figures, the healthy ones another line.
fn with_unknown(folder: &Path) {
    for n in 0..12u32 {
        let at = folder.join(format!("runs/{}", 4100 + n));
        fs::create_dir_all(&at).unwrap();
        let day = format!("2026-03-{:02}", n + 1);
        let mut text =
            format!("{day} 06:00:00 epoch 1 step 10 loss 2.10\n{day} 06:00:09 epoch 1 step 20 loss 2.04\n");
        if n % 3 == 0 {
            text += &format!(
                "{day} 06:00:{:02} ERROR: lease {} of the feature vault was refused\n",
                10 + n,
                900 + n
            );
            text += "Traceback (most recent call last):\n  File \"/srv/fit/main.py\", line 9, in <module>\n    fit()\n\
                     LookupError: no shard left\n";
        } else {
            text +=
                &format!("{day} 06:00:11 ERROR: gauge {} could not be drawn\nTraining completed\n", 30 + n);
        }
        fs::write(at.join("job.log"), text).unwrap();
    }
}

#[test]
fn a_scan_remembers_what_nobody_knows_over_all_jobs() {
    let own = tempfile::tempdir().unwrap();
    let root = own.path().join("archive");
    with_unknown(&root);
    let options = || Options { roots: vec![root.clone()], threads: 2, ..Options::default() };
    let at = |name: &str| own.path().join(name);
    let scanned = |name: &str, options: &Options| read(options, &mut Index::open(&at(name)).unwrap());
    assert_eq!(scanned("whole", &options()).records.len(), 12);
    let whole = scan::unknown(&[at("whole")]).unwrap();
    assert_eq!((whole.without, whole.store.failed), (0, 4));
    let clusters = whole.store.clusters();
    let lease = &clusters[0];
    assert!(lease.template.contains("of the feature vault was refused"), "{}", lease.template);
    assert_eq!((lease.seen.failed.count, lease.seen.healthy.count, lease.seen.lines), (4, 0, 4));
    assert_eq!(lease.seen.since.as_deref(), Some("2026-03-01"));
    assert_eq!(lease.seen.until.as_deref(), Some("2026-03-10"));
    assert_eq!(lease.seen.examples[0].job, "archive/runs/4100", "{:?}", lease.seen.examples);

    // Read once more from the index: nothing is counted twice.
    assert_eq!(scanned("whole", &options()).read, 0);
    assert_eq!(scan::unknown(&[at("whole")]).unwrap(), whole);
    let again = Options { again: true, ..options() };
    assert_eq!(scanned("whole", &again).read, 12);
    assert_eq!(scan::unknown(&[at("whole"), at("whole")]).unwrap(), whole);

    // Stopped, and gone on with.
    {
        let mut index = Index::open(&at("stopped")).unwrap();
        let watch = StopAfter(AtomicUsize::new(4), AtomicBool::new(false));
        let first = plan(&options(), &mut index);
        assert!(scan::run(engine(), first, &options(), &mut index, &watch, &watch.1).unwrap().stopped);
        read(&options(), &mut index);
    }
    assert_eq!(scan::unknown(&[at("stopped")]).unwrap(), whole);

    // In parts, each with an index of its own; one of them named twice.
    let mut parts = Vec::new();
    for number in 1..=4 {
        let name = format!("part{number}");
        scanned(&name, &Options { shard: Some(Shard { number, of: 4 }), ..options() });
        parts.push(at(&name));
    }
    parts.reverse();
    parts.push(parts[1].clone());
    assert_eq!(scan::unknown(&parts).unwrap(), whole);

    let output = run(&["unknown", "--archive", at("whole").to_str().unwrap(), "--format", "ndjson"]);
    let first: serde_json::Value =
        serde_json::from_str(text(&output.stdout).lines().next().unwrap()).unwrap();
    assert_eq!((&first["failed_jobs"], &first["since"]), (&4.into(), &"2026-03-01".into()));
    let output = run(&["unknown", "--archive", at("whole").to_str().unwrap()]);
    assert!(text(&output.stdout).contains("2026-03-01 to 2026-03-10"), "{}", text(&output.stdout));

    // A job whose line has gone is counted without it.
    let log = root.join("runs/4100/job.log");
    let kept =
        fs::read_to_string(&log).unwrap().replace("was refused", "was granted").replace("ERROR", "note");
    fs::write(&log, kept).unwrap();
    scanned("whole", &options());
    let clusters = scan::unknown(&[at("whole")]).unwrap().store.clusters();
    assert_eq!((clusters[0].seen.failed.count, clusters[0].seen.since.as_deref()), (3, Some("2026-03-04")));

    // An index of a program that kept nothing of this is a good one, and that is said.
    rusqlite::Connection::open(at("stopped")).unwrap().execute("DROP TABLE unknown", []).unwrap();
    assert_eq!(scan::unknown(&[at("stopped")]).unwrap().without, 12);
    scanned("stopped", &again);
    assert_eq!(scan::unknown(&[at("stopped")]).unwrap().without, 0);
}

#[test]
fn a_job_of_many_unknown_lines_takes_little_of_an_index() {
    let own = tempfile::tempdir().unwrap();
    let root = own.path().join("archive");
    fs::create_dir_all(&root).unwrap();
    let word = |n: u32| (0..5).map(|i| char::from(b'a' + (n / 26u32.pow(i) % 26) as u8)).collect::<String>();
    let line = |n: u32| {
        format!(
            "[rank{}]: ERROR: {} {} {} was lost {}\n",
            n % 400,
            word(n),
            word(n + 7),
            word(n * 3),
            "note ".repeat(84)
        )
    };
    fs::write(root.join("job-1.log"), (0..5_000).map(line).collect::<String>()).unwrap();
    let index = own.path().join("index");
    read(&Options { roots: vec![root], threads: 2, ..Options::default() }, &mut Index::open(&index).unwrap());
    let found = scan::unknown(&[index]).unwrap().store;
    assert!(found.lines >= 1_000 && found.shapes.len() <= 300, "{} {}", found.lines, found.shapes.len());
    assert!(found.shapes.values().flat_map(|s| &s.examples).all(|e| e.text.chars().count() <= 400));
}
