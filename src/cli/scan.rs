//! `ncclcheck scan PATH…`: many jobs at once, and what follows from it:
//! `trends`, `jobs`, `show`, `merge`.

mod bar;

use super::args::{Global, JobsArgs, Merge, Records, ScanArgs, Selection, Show, TableForm, Trends};
use super::out::{FINE, FOUND, Fail, columns, complain, print};
use super::{signals, sources};
use crate::knowledge::Knowledge;
use crate::scan::{self, Fleet, Form, Index, Options, Record, Table};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What a shell shows for a process that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// `ncclcheck scan`.
pub(super) fn run(global: &Global, args: &ScanArgs) -> Result<u8, Fail> {
    outputs_known(&args.output)?;
    let engine = sources::engine(global)?;
    let folders: Vec<&Path> = global.rules.iter().map(AsRef::as_ref).collect();
    let options = Options {
        roots: args.paths.clone(),
        group_by: args.group_by.clone(),
        only: scan::Only::new(&args.include, &args.exclude)?,
        shard: args.shard,
        since: args.selection.since.map(nanoseconds),
        again: args.again,
        knowledge: Knowledge::mark(&folders, !global.no_builtin),
        threads: args.threads,
    };
    let mut index = match (&args.index, args.no_index || args.dry_run && args.index.is_none()) {
        (_, true) => Index::in_memory()?,
        (Some(path), _) => Index::open(path)?,
        (None, _) => Index::open(&default_index()?)?,
    };
    // The first Ctrl-C ends it between two jobs, so that nothing is left lying about; a second one at once.
    let stop: Arc<AtomicBool> = Arc::default();
    signals::on_interrupt(&stop, true);
    let looking = bar::Looking::new();
    let plan = scan::plan(&engine.knowledge, &options, &mut index)?;
    drop(looking);
    for (path, what) in &plan.problems {
        complain(&format!("{path}: {what}"));
    }
    if args.dry_run {
        return dry(global, args, &plan);
    }
    if plan.groups.is_empty() {
        complain("no job was found");
    }
    let left_out = plan.left_out.clone();
    let bar = bar::Bar::new(plan.to_read(), plan.bytes);
    let outcome = scan::run(&engine, plan, &options, &mut index, &bar, &stop)?;
    bar.end(&outcome);
    if outcome.stopped {
        let kept = if args.no_index { "" } else { "; the same command goes on from here" };
        complain(&format!("stopped after {} jobs{kept}", outcome.read));
        return Ok(INTERRUPTED);
    }
    broken(&outcome.records, &left_out);
    let records = args.selection.of(outcome.records);
    for path in &args.output {
        save(path, &records)?;
    }
    let form = args.format.unwrap_or(match (io::stdout().is_terminal(), args.output.is_empty()) {
        (false, true) => TableForm::Ndjson,
        _ => TableForm::Text,
    });
    put(global, form, &records, false)
}

/// Where the index is kept unless it is named.
fn default_index() -> Result<PathBuf, Fail> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").filter(|p| p.is_absolute());
    let home = || set("HOME").or_else(|| set("USERPROFILE")).map(|h| h.join(".local/state"));
    let folder =
        state.or_else(home).ok_or("no home folder to keep the index in; name one with --index FILE")?;
    Ok(folder.join("ncclcheck/index.sqlite"))
}

/// What could not be read, on standard error; the records hold all of it.
fn broken(records: &[Record], left_out: &[(String, String)]) {
    let all: Vec<&String> = records.iter().flat_map(|r| &r.problems).collect();
    for problem in all.iter().take(20) {
        complain(problem);
    }
    if all.len() > 20 {
        complain(&format!("and {} more; the column `problems` has all", all.len() - 20));
    }
    let unnamed = left_out.iter().filter(|l| !l.1.starts_with("no log")).count();
    if unnamed > 0 {
        complain(&format!("{unnamed} file(s) belong to no job; --dry-run says which"));
    }
}

/// `--dry-run`: the grouping and why.
fn dry(global: &Global, args: &ScanArgs, plan: &scan::Plan) -> Result<u8, Fail> {
    let json = args.format == Some(TableForm::Ndjson);
    print(global.color, FINE, |out| {
        for (job, why, files) in &plan.groups {
            if json {
                let line = serde_json::json!({ "job": job, "why": why, "files": files });
                writeln!(out, "{line}")?;
                continue;
            }
            writeln!(out, "{}  ({})", shown(job), shown(why))?;
            files.iter().try_for_each(|f| writeln!(out, "    {}", shown(f)))?;
        }
        if json {
            return Ok(());
        }
        if !plan.left_out.is_empty() {
            writeln!(out, "No job:")?;
            plan.left_out.iter().try_for_each(|(f, why)| writeln!(out, "    {}  ({why})", shown(f)))?;
        }
        let files: usize = plan.groups.iter().map(|g| g.2.len()).sum();
        writeln!(out, "{} jobs, {files} files; {} to be read", plan.groups.len(), plan.to_read())
    })
}

fn shown(text: &str) -> String {
    crate::report::text::visible(text)
}

/// Those records that were asked for, from files or from an index.
fn records(of: &Records) -> Result<Vec<Record>, Fail> {
    let all = if of.inputs.is_empty() {
        Index::read_only(&of.index.clone().map_or_else(default_index, Ok)?)?.records()?
    } else {
        merged(of.inputs.iter().map(|p| scan::read_records(p)).collect::<Result<_, _>>()?)
    };
    Ok(of.selection.of(all))
}

fn merged(lists: Vec<Vec<Record>>) -> Vec<Record> {
    let merged = scan::merge(lists);
    for job in merged.differ.iter().take(5) {
        complain(&format!("{job}: inputs differ; the record that was read from more is taken"));
    }
    if merged.differ.len() > 5 {
        complain(&format!("and {} more jobs of which inputs differ", merged.differ.len() - 5));
    }
    merged.records
}

/// `ncclcheck trends`.
pub(super) fn trends(global: &Global, args: &Trends) -> Result<u8, Fail> {
    let records = records(&args.records)?;
    let form = args.format.unwrap_or(TableForm::Text);
    match form {
        TableForm::Ndjson => print(global.color, FINE, |out| {
            serde_json::to_writer(&mut *out, &Fleet::new(&records))?;
            out.write_all(b"\n")
        }),
        TableForm::Csv | TableForm::Parquet => Err("--format: trends are text, markdown or ndjson; \
                                                    `ncclcheck jobs` gives the records as csv or parquet"
            .into()),
        _ => put(global, form, &records, true),
    }
}

/// `ncclcheck jobs`.
pub(super) fn jobs(global: &Global, args: &JobsArgs) -> Result<u8, Fail> {
    let mut records = records(&args.records)?;
    if args.failed {
        records.retain(Record::failed);
    }
    if records.is_empty() {
        complain("no job fits");
    }
    let code = if records.is_empty() { FOUND } else { FINE };
    let form = match args.format.unwrap_or(TableForm::Text) {
        TableForm::Text | TableForm::Markdown if records.is_empty() => return Ok(code),
        TableForm::Text => Form::Text(columns()),
        TableForm::Markdown => Form::Markdown,
        other => return put(global, other, &records, false).map(|_| code),
    };
    print(global.color, code, |out| out.write_all(scan::jobs_table(&records, form).as_bytes()))
}

/// `ncclcheck show JOB`.
pub(super) fn show(global: &Global, args: &Show) -> Result<u8, Fail> {
    let index = Index::read_only(&args.index.clone().map_or_else(default_index, Ok)?)?;
    let found = index.find(&args.job)?;
    match found.as_slice() {
        [] => {
            complain(&format!("the index has no job \"{}\"; `ncclcheck jobs` lists them", args.job));
            Ok(FOUND)
        }
        [entry] => print(global.color, FINE, |out| {
            let text = if args.json { &entry.json } else { &entry.text };
            out.write_all(text.as_bytes())
        }),
        many => {
            complain(&format!(
                "\"{}\" is more than one job; name one in full, or by a file of it:",
                args.job
            ));
            for entry in many.iter().take(5) {
                let file = entry.files.first().map_or("", String::as_str);
                complain(&format!("  {}  {file}", entry.record.job));
            }
            if many.len() > 5 {
                complain(&format!("  and {} more", many.len() - 5));
            }
            Ok(FOUND)
        }
    }
}

/// `ncclcheck merge`.
pub(super) fn merge(global: &Global, args: &Merge) -> Result<u8, Fail> {
    outputs_known(&args.output)?;
    let lists = args.inputs.iter().map(|p| scan::read_records(p)).collect::<Result<Vec<_>, _>>()?;
    let records = merged(lists);
    for path in &args.output {
        save(path, &records)?;
    }
    if !args.output.is_empty() && args.format.is_none() {
        return Ok(FINE);
    }
    put(global, args.format.unwrap_or(TableForm::Ndjson), &records, false)
}

/// Writes records to standard output.
fn put(global: &Global, form: TableForm, records: &[Record], everything: bool) -> Result<u8, Fail> {
    let table = match form {
        TableForm::Text => {
            let text = scan::overview(&Fleet::new(records), Form::Text(columns()), everything);
            return print(global.color, FINE, |out| out.write_all(text.as_bytes()));
        }
        TableForm::Markdown => {
            let text = scan::overview(&Fleet::new(records), Form::Markdown, everything);
            return print(super::args::When::Never, FINE, |out| out.write_all(text.as_bytes()));
        }
        TableForm::Ndjson => Table::Ndjson,
        TableForm::Csv => Table::Csv,
        TableForm::Parquet => Table::Parquet,
    };
    if table == Table::Parquet && io::stdout().is_terminal() {
        return Err("Parquet is not for a terminal; name a file: -o jobs.parquet".into());
    }
    // Not through the stream that takes colours out: this is data.
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout());
    match scan::write(records, table, &mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => {
            let _ = out.into_parts();
            Ok(FINE)
        }
    }
}

/// What a file's name says that it should hold.
fn form_of(path: &Path) -> Option<Option<Table>> {
    let ending = path.extension()?.to_string_lossy().to_lowercase();
    Some(match ending.as_str() {
        "ndjson" | "jsonl" => Some(Table::Ndjson),
        "csv" => Some(Table::Csv),
        "parquet" => Some(Table::Parquet),
        "md" => None,
        _ => return None,
    })
}

fn outputs_known(paths: &[PathBuf]) -> Result<(), Fail> {
    match paths.iter().find(|p| form_of(p).is_none()) {
        Some(path) => {
            Err(format!("-o {}: the ending must be .ndjson, .csv, .parquet or .md", path.display()))
        }
        None => Ok(()),
    }
}

/// Writes a file beside and puts it in its place when it is whole.
fn save(path: &Path, records: &[Record]) -> Result<(), Fail> {
    let tell = |e: io::Error| format!("{}: {e}", path.display());
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".ncclcheck-").tempfile_in(folder).map_err(tell)?;
    match form_of(path).flatten() {
        Some(table) => {
            let mut out = BufWriter::with_capacity(1 << 16, file.as_file_mut());
            scan::write(records, table, &mut out).and_then(|()| out.flush()).map_err(tell)?;
        }
        None => {
            let text = scan::overview(&Fleet::new(records), Form::Markdown, true);
            file.write_all(text.as_bytes()).map_err(tell)?;
        }
    }
    readable(file.as_file());
    file.persist(path).map_err(|e| tell(e.error))?;
    Ok(())
}

/// A temporary file is for its owner only; a result is for whom other files are.
#[cfg(unix)]
fn readable(file: &std::fs::File) {
    use std::os::unix::fs::PermissionsExt;
    let _ = file.set_permissions(std::fs::Permissions::from_mode(0o644));
}

#[cfg(not(unix))]
fn readable(_file: &std::fs::File) {}

fn nanoseconds(at: jiff::civil::DateTime) -> i64 {
    let time = jiff::tz::Offset::UTC.to_timestamp(at).map(|t| t.as_nanosecond());
    time.ok().and_then(|n| i64::try_from(n).ok()).unwrap_or(0)
}

impl Selection {
    /// The records that were asked for.
    fn of(&self, mut records: Vec<Record>) -> Vec<Record> {
        let fits = |pattern: &str, id: &str| {
            pattern == id
                || pattern.ends_with('/') && id.starts_with(pattern)
                || pattern.strip_suffix('*').is_some_and(|start| id.starts_with(start))
                || id.split('/').next() == Some(pattern)
        };
        records.retain(|r| {
            let when = r.when();
            let cause =
                self.cause.is_empty() || self.cause.iter().any(|p| r.causes.iter().any(|c| fits(p, c)));
            let host = self.host.is_empty()
                || self.host.iter().any(|h| r.culprit_hosts.contains(h) || r.hosts.contains(h));
            let since = self.since.is_none_or(|t| when.is_some_and(|w| w >= t));
            let until = self.until.is_none_or(|t| when.is_some_and(|w| w < t));
            cause && host && since && until
        });
        records
    }
}

/// `diagnose --archive INDEX`: what an index remembers of jobs like this one.
pub(super) fn remember(report: &mut crate::report::Report, index: &Path) -> Result<(), Fail> {
    let notice = scan::remember(report, index)?;
    report.notices.extend(notice);
    Ok(())
}
