//! The command line as one declaration: options, help texts and completions
//! all come from here.

use crate::base::Release;
use crate::scan::{GroupBy, Shard};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  ncclcheck diagnose logs/                      one job, all files below logs/
  cat slurm-4711.out | ncclcheck diagnose       the same from a pipe
  ncclcheck explain NCCL_P2P_DISABLE            a variable, a code, a cause, a line
  ncclcheck env job.sbatch                      a job's variables before it starts
  ncclcheck memory logs/                        what NCCL holds of GPU memory
  ncclcheck events run.log                      what is read from a log
  ncclcheck waits dumps/                        who waits for whom in a hang
  ncclcheck scan /archive/2026                  many jobs: what fails most, and where
  ncclcheck diff good/ bad/                     what differs between two jobs

Exit status: 0 nothing wrong was found, 1 something was, 2 wrong usage or no input.";

const DIAGNOSE_EXAMPLES: &str = "\
Examples:
  ncclcheck diagnose logs/
  ncclcheck diagnose rank*.log dumps/ dmesg.txt
  srun ./train.sh 2>&1 | tee job.log | ncclcheck diagnose
  ncclcheck diagnose --format json job.tar.gz

Everything that is named belongs to one job. Compressed files and archives are
read as they are. Ctrl-C while standard input is read gives the report on what
came so far; a second one ends at once.

Exit status: 0 nothing wrong was found; 1 something was; 2 wrong usage, or
nothing could be read.";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  ncclcheck explain net/ib-retry-exceeded       a cause
  ncclcheck explain NCCL_IB_TIMEOUT=18          a variable, with its value checked
  ncclcheck explain ncclRemoteError             an NCCL result, by name or number
  ncclcheck explain status 12                   a completion status of RDMA
  ncclcheck explain exit -9                     an exit code; also: signal 9, SIGKILL
  ncclcheck explain xid 79                      an Xid; also: cuda 719, errno 110
  ncclcheck explain nccl 2.19.3                 known faults of a release
  ncclcheck explain 10485760                    a size that NCCL was refused
  ncclcheck explain 'node1:42:77 [0] NCCL WARN NET/IB : Got completion ...'

Exit status: 0 it is known; 1 it is not.";

const ENV_EXAMPLES: &str = "\
Examples:
  ncclcheck env                                 the environment of this shell
  ncclcheck env --nccl 2.21.5 job.sbatch        a job script, for this release
  ncclcheck env pod.yaml                        a Kubernetes manifest
  ncclcheck env rank0.env rank1.env             the same, and where ranks differ
  kubectl exec trainer-0 -- env | ncclcheck env -

A FILE is a listing (env, printenv, declare -x, .env, nccl.conf), a shell script
or batch script, a manifest or compose file (YAML), or JSON such as docker
inspect prints. Nothing in it is run or expanded.

Exit status: 0 nothing wrong was found (notes may be there); 1 something was; 2
wrong usage, or a file could not be read.";

const EVENTS_EXAMPLES: &str = "\
Examples:
  ncclcheck events run.log
  ncclcheck events --unknown logs/              lines that look like trouble and that no message knows
  ncclcheck events --format ndjson run.log | jq .message";

const WAITS_EXAMPLES: &str = "\
Examples:
  ncclcheck waits dumps/                        Flight Recorder dumps of all ranks
  ncclcheck waits logs/ dumps/ stacks/          with logs, RAS answers and stacks
  ncclcheck waits --dot dumps/ | dot -Tsvg > waits.svg
  ncclcheck waits --format json dumps/ | jq .roots

Exit status: 0 nobody is seen waiting; 1 somebody is; 2 wrong usage, or nothing
could be read.";

const DIFF_EXAMPLES: &str = "\
Examples:
  ncclcheck diff run-41/ run-42/                the good one first
  ncclcheck diff -v monday.tar.gz today.log     with the lines of both jobs
  ncclcheck diff --format json a/ b/ | jq '.differences[0]'

Each of the two is one job: a file, a folder, an archive, or - for standard
input. What differs in every run (process ids, ports, addresses, times) is no
difference; what only one log can show is said once.

Exit status: 0 done, whether they differ or not; 2 wrong usage, or one of them
could not be read.";

const UNKNOWN_EXAMPLES: &str = "\
Examples:
  ncclcheck unknown logs/                       of one job
  ncclcheck unknown job-41/ job-42/ job-43/     of three
  ncclcheck unknown --each archive/             each folder or file directly below archive/ is a job
  ncclcheck unknown --each --format ndjson archive/ > templates.ndjson
  ncclcheck unknown --archive index.sqlite      of all jobs that a scan has read, without their logs

First stands what failed jobs have and no healthy one, by how many have it.
`ncclcheck rules new --from-cluster N` drafts a rule for number N.

Exit status: 0 done; 2 wrong usage, or no job could be read.";

const NEW_EXAMPLES: &str = "\
Examples:
  ncclcheck rules new --from-cluster 1 job-41/ job-42/
  ncclcheck rules new --from-cluster 3 --each --id site/scratch-full --out my-rules archive/

The numbers are those of `ncclcheck unknown` with the same paths. What a person
has to write begins with FILL:; until then `rules check` does not pass it.

Exit status: 0 done; 1 there is no such number; 2 wrong usage, or nothing could
be read or written.";

const MEMORY_EXAMPLES: &str = "\
Examples:
  ncclcheck memory logs/                        who holds what, by the log of a job
  ncclcheck memory --nranks 16 --per-node 8 --channels 16 --nccl 2.21.5 --nvls
  ncclcheck memory --nranks 8 --channels 24 --nccl 2.27.3 --nvls --uses ring,tree,nvls,all-to-all
  ncclcheck memory --nranks 8 --channels 24 --nccl 2.20.5 --nvls --set NCCL_MAX_CTAS=8
  ncclcheck explain 10485760                    what a size stands for that was refused

For exact sizes run the job with NCCL_DEBUG=INFO and
NCCL_DEBUG_SUBSYS=INIT,ENV,ALLOC,P2P,NVLS. docs/memory.md says how NCCL uses memory.

Exit status: 0 done; 2 wrong usage, or nothing could be read.";

const RULES_EXAMPLES: &str = "\
Examples:
  ncclcheck rules list
  ncclcheck rules show net/ib-retry-exceeded
  ncclcheck rules why net/ib-retry-exceeded logs/
  ncclcheck rules measure fixtures/cases
  ncclcheck rules new --from-cluster 1 --out my-rules/ logs/
  ncclcheck --rules my-rules/ rules check
  ncclcheck --rules my-rules/ rules test";

const SCAN_EXAMPLES: &str = "\
Examples:
  ncclcheck scan /archive/2026                         a summary, and an index for later questions
  ncclcheck scan --dry-run /archive/2026               which files would be one job, and why
  ncclcheck scan /archive/2026 -o jobs.parquet -o summary.md
  ncclcheck scan --group-by 'runs/([^/]+)/' /archive   said outright
  ncclcheck scan --since 2026-02-01 --cause net/ /archive
  ncclcheck scan --shard 3/16 --no-index /archive > 3.ndjson    one of sixteen parts
  ncclcheck merge *.ndjson -o all.parquet                       and all of them

A second scan reads only what is new or has grown, and one that was ended goes
on where it was: each job is kept in the index as soon as it has been read.

Exit status: 0 done, whatever was found; 2 wrong usage, or nothing could be read.";

const TRENDS_EXAMPLES: &str = "\
Examples:
  ncclcheck trends                              all that the index knows
  ncclcheck trends --since 2026-02-01 --format markdown > trends.md
  ncclcheck trends jobs.ndjson";

const JOBS_EXAMPLES: &str = "\
Examples:
  ncclcheck jobs --cause net/ib-retry-exceeded
  ncclcheck jobs --host node17 --failed
  ncclcheck jobs --since 2026-02-01 --format csv > jobs.csv

Exit status: 0 there are such jobs; 1 there are none.";

const SHOW_EXAMPLES: &str = "\
Examples:
  ncclcheck show archive/2026/4711              a name that `ncclcheck jobs` lists
  ncclcheck show 4711                           its end, or the job's number
  ncclcheck show --json 4711 | jq .diagnoses

Exit status: 0 it is known; 1 it is not.";

const MERGE_EXAMPLES: &str = "\
Examples:
  ncclcheck merge 1.ndjson 2.ndjson > all.ndjson
  ncclcheck merge site-a.sqlite site-b.sqlite -o all.parquet -o all.md

A record that several inputs have counts once.";

/// Reads the logs of a failed, hung or slow distributed GPU job and says what
/// happened first, where, why and what to change.
#[derive(Debug, Parser)]
#[command(name = "ncclcheck", version, max_term_width = 100, after_help = EXAMPLES)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub(super) struct Global {
    /// Folder with more rules and messages; what has the id of a built-in one replaces it. May be repeated
    #[arg(long, value_name = "DIR", global = true)]
    pub(super) rules: Vec<PathBuf>,
    /// Uses only what the folders of `--rules` know, nothing built in
    #[arg(long, global = true)]
    pub(super) no_builtin: bool,
    /// When to use colours; `auto`: on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true, hide_possible_values = false)]
    pub(super) color: When,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Reads one job and says what went wrong, where, and what to do
    #[command(after_help = DIAGNOSE_EXAMPLES)]
    Diagnose(Diagnose),
    /// Reads an archive of many jobs: what fails most, on which hosts, and what is new
    #[command(after_help = SCAN_EXAMPLES)]
    Scan(ScanArgs),
    /// Shows what earlier scans found by cause and week, host and device
    #[command(after_help = TRENDS_EXAMPLES)]
    Trends(Trends),
    /// Lists the jobs of earlier scans
    #[command(after_help = JOBS_EXAMPLES)]
    Jobs(JobsArgs),
    /// Shows the report on a job of an earlier scan
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Show),
    /// Puts the records of several scans together
    #[command(after_help = MERGE_EXAMPLES)]
    Merge(Merge),
    /// Explains a cause, a variable, a code or a log line, without a log
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Explain),
    /// Checks environment variables before a job starts: names, values, contradictions, differences
    #[command(after_help = ENV_EXAMPLES)]
    Env(Env),
    /// Prints what is read from the logs, one line an event
    #[command(after_help = EVENTS_EXAMPLES)]
    Events(Events),
    /// Shows who waits for whom in a hang: groups, how far each rank has come, and where the chains end
    #[command(after_help = WAITS_EXAMPLES)]
    Waits(Waits),
    /// Says what differs between the logs of a good job and of a bad one, most telling first
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(Diff),
    /// Puts lines that look like trouble and that no message knows together by template, over one job or many
    #[command(after_help = UNKNOWN_EXAMPLES)]
    Unknown(Unknown),
    /// Says what NCCL holds of GPU and host memory: by a job's log, or computed without one
    #[command(after_help = MEMORY_EXAMPLES)]
    Memory(Memory),
    /// Lists, shows, checks, tests and drafts rules, and says why one fires or not
    #[command(subcommand, after_help = RULES_EXAMPLES)]
    Rules(Rules),
    /// Prints the completions for a shell
    #[command(after_help = "Example:\n  ncclcheck completions bash > /etc/bash_completion.d/ncclcheck")]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// What is read, and how.
#[derive(Debug, Args)]
pub(super) struct Sources {
    /// Files, folders, archives, or `-` for standard input; all of one job. Without any: standard input
    #[arg(value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
    /// Threads to use; 0 takes all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) threads: usize,
    /// Which run to look at where the input holds several, from 1; the last one unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) attempt: Option<u32>,
}

/// Arguments of `diagnose`.
#[derive(Debug, Args)]
pub(super) struct Diagnose {
    #[command(flatten)]
    pub(super) sources: Sources,
    /// Form of the report
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(super) format: Format,
    /// Everything instead of a screenful
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Index of earlier scans, or their records as NDJSON: a notice says which jobs failed alike
    #[arg(long, value_name = "INDEX")]
    pub(super) archive: Option<PathBuf>,
    /// Columns to use; the terminal's unless given, 100 where there is none
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..))]
    pub(super) width: Option<u16>,
}

/// Forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
}

/// Which jobs count.
#[derive(Debug, Args)]
pub(super) struct Selection {
    /// Jobs that ended on this day or later: a date, or a date and time
    #[arg(long, value_name = "DATE", value_parser = date)]
    pub(super) since: Option<jiff::civil::DateTime>,
    /// Jobs that ended before this day
    #[arg(long, value_name = "DATE", value_parser = date)]
    pub(super) until: Option<jiff::civil::DateTime>,
    /// Jobs with this cause: an id, a category (`net`), or the beginning of an id and `*`. May be repeated
    #[arg(long, value_name = "CAUSE")]
    pub(super) cause: Vec<String>,
    /// Jobs in which this host took part. May be repeated
    #[arg(long, value_name = "HOST")]
    pub(super) host: Vec<String>,
}

/// A day, or a day and a time.
fn date(text: &str) -> Result<jiff::civil::DateTime, String> {
    if let Ok(day) = text.parse::<jiff::civil::Date>()
        && !text.contains([':', 'T', 't'])
    {
        return Ok(day.at(0, 0, 0, 0));
    }
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Ok(jiff::tz::Offset::UTC.to_datetime(at));
    }
    text.replacen(' ', "T", 1).parse().map_err(|_| "a date such as 2026-02-03, or 2026-02-03T10:15:00".into())
}

/// Arguments of `scan`.
#[derive(Debug, Args)]
pub(super) struct ScanArgs {
    /// Folders, files and archives with the logs of any number of jobs
    #[arg(value_name = "PATH", required = true)]
    pub(super) paths: Vec<PathBuf>,
    /// Which files are one job: `auto` by folders, names and first lines; `name` the same without opening files;
    /// `folder`; `file`; or a regular expression on the path below PATH, whose groups name the job
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub(super) group_by: GroupBy,
    /// Only says which files are one job, and why
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Files to read: a glob on the path below PATH, `*.log` for names at any depth. May be repeated
    #[arg(long, value_name = "GLOB")]
    pub(super) include: Vec<String>,
    /// Files to leave out. May be repeated
    #[arg(long, value_name = "GLOB")]
    pub(super) exclude: Vec<String>,
    #[command(flatten)]
    pub(super) selection: Selection,
    /// Reads one part of the jobs, such as 3/16; all parts together are one whole scan
    #[arg(long, value_name = "N/OF")]
    pub(super) shard: Option<Shard>,
    /// Where what was read is kept; $XDG_STATE_HOME/ncclcheck/index.sqlite unless given
    #[arg(long, value_name = "FILE", conflicts_with = "no_index")]
    pub(super) index: Option<PathBuf>,
    /// Keeps nothing
    #[arg(long)]
    pub(super) no_index: bool,
    /// Reads everything again
    #[arg(long)]
    pub(super) again: bool,
    /// Threads to use; 0 takes all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) threads: usize,
    /// Form on standard output; `text` on a terminal or beside `-o`, else `ndjson`
    #[arg(long, value_name = "FORM")]
    pub(super) format: Option<TableForm>,
    /// Writes a file, whose ending says what: .ndjson, .csv, .parquet or .md. May be repeated
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Vec<PathBuf>,
}

/// Forms of records and counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum TableForm {
    Text,
    Markdown,
    Ndjson,
    Csv,
    Parquet,
}

/// Which records of scanned jobs are asked.
#[derive(Debug, Args)]
pub(super) struct Records {
    /// Records as NDJSON, or indexes, `-` for standard input; the index unless given
    #[arg(value_name = "FILE")]
    pub(super) inputs: Vec<PathBuf>,
    /// The index to ask; $XDG_STATE_HOME/ncclcheck/index.sqlite unless given
    #[arg(long, value_name = "FILE")]
    pub(super) index: Option<PathBuf>,
    #[command(flatten)]
    pub(super) selection: Selection,
}

/// Arguments of `trends`.
#[derive(Debug, Args)]
pub(super) struct Trends {
    #[command(flatten)]
    pub(super) records: Records,
    /// Form: text, markdown or ndjson
    #[arg(long, value_name = "FORM")]
    pub(super) format: Option<TableForm>,
}

/// Arguments of `jobs`.
#[derive(Debug, Args)]
pub(super) struct JobsArgs {
    #[command(flatten)]
    pub(super) records: Records,
    /// Failed jobs only
    #[arg(long)]
    pub(super) failed: bool,
    /// Form
    #[arg(long, value_name = "FORM")]
    pub(super) format: Option<TableForm>,
}

/// Arguments of `show`.
#[derive(Debug, Args)]
pub(super) struct Show {
    /// Name of the job, its end, the job's number, or a file or folder of it
    #[arg(value_name = "JOB")]
    pub(super) job: String,
    /// The index to ask; $XDG_STATE_HOME/ncclcheck/index.sqlite unless given
    #[arg(long, value_name = "FILE")]
    pub(super) index: Option<PathBuf>,
    /// The JSON report
    #[arg(long)]
    pub(super) json: bool,
}

/// Arguments of `merge`.
#[derive(Debug, Args)]
pub(super) struct Merge {
    /// Records as NDJSON, or indexes; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(super) inputs: Vec<PathBuf>,
    /// Form on standard output; ndjson where no `-o` is given
    #[arg(long, value_name = "FORM")]
    pub(super) format: Option<TableForm>,
    /// Writes a file, whose ending says what: .ndjson, .csv, .parquet or .md. May be repeated
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Vec<PathBuf>,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(super) struct Explain {
    /// Cause, variable, result, status, exit code, signal, Xid, CUDA error, errno, message id, or a log line
    #[arg(value_name = "WHAT", required = true, allow_negative_numbers = true)]
    pub(super) what: Vec<String>,
    /// Form of the answer
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(super) format: Format,
}

/// Arguments of `env`.
#[derive(Debug, Args)]
pub(super) struct Env {
    /// Files to check, or `-` for standard input; the environment of this process unless given. Several are compared
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// NCCL release that the job will run; tells what is obsolete or not read yet
    #[arg(long, value_name = "RELEASE")]
    pub(super) nccl: Option<String>,
    /// PyTorch release that the job will run
    #[arg(long, value_name = "RELEASE")]
    pub(super) torch: Option<String>,
    /// Form of the answer
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(super) format: Format,
}

/// Arguments of `events`.
#[derive(Debug, Args)]
pub(super) struct Events {
    #[command(flatten)]
    pub(super) sources: Sources,
    /// Lines that look like trouble and that no message knows, instead of what is known
    #[arg(long)]
    pub(super) unknown: bool,
    /// Form of the list
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(super) format: ListFormat,
}

/// Forms of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ListFormat {
    Text,
    Ndjson,
}

/// Arguments of `waits`.
#[derive(Debug, Args)]
pub(super) struct Waits {
    #[command(flatten)]
    pub(super) sources: Sources,
    /// Form of the view
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(super) format: WaitsFormat,
    /// The graph for Graphviz, as `--format dot`
    #[arg(long, conflicts_with = "format")]
    pub(super) dot: bool,
    /// Everything instead of the most telling lines
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Columns to use; the terminal's unless given, 100 where there is none
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..))]
    pub(super) width: Option<u16>,
}

/// Forms of the view of waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum WaitsFormat {
    Text,
    Dot,
    Json,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(super) struct Diff {
    /// The job that was good: a file, folder or archive, or `-`
    #[arg(value_name = "GOOD")]
    pub(super) good: PathBuf,
    /// The job that was not
    #[arg(value_name = "BAD")]
    pub(super) bad: PathBuf,
    /// Form of the answer
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(super) format: Format,
    /// Everything, with the lines of both jobs
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Columns to use; the terminal's unless given, 100 where there is none
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..))]
    pub(super) width: Option<u16>,
    /// Threads to use; 0 takes all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) threads: usize,
}

/// Which jobs are looked at for unknown lines.
#[derive(Debug, Args)]
pub(super) struct Jobs {
    /// Files, folders or archives, each of one job, or `-` for standard input. Without any: standard input
    #[arg(value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
    /// Each folder, file or archive directly below a PATH is a job
    #[arg(long, requires = "paths")]
    pub(super) each: bool,
    /// Instead of logs: the jobs that an index of `ncclcheck scan` remembers; may be given several times
    #[arg(long, value_name = "INDEX", conflicts_with_all = ["paths", "each"])]
    pub(super) archive: Vec<PathBuf>,
    /// Threads to use; 0 takes all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) threads: usize,
}

/// Arguments of `unknown`.
#[derive(Debug, Args)]
pub(super) struct Unknown {
    #[command(flatten)]
    pub(super) jobs: Jobs,
    /// Templates to print at most; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) limit: usize,
    /// Form of the list
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(super) format: ListFormat,
}

/// Arguments of `rules new`.
#[derive(Debug, Args)]
pub(super) struct New {
    /// Number of the template, as `ncclcheck unknown` counts them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) from_cluster: u32,
    #[command(flatten)]
    pub(super) jobs: Jobs,
    /// Id of the rule, such as site/scratch-full; made of the template's words unless given
    #[arg(long, value_name = "ID")]
    pub(super) id: Option<String>,
    /// Folder to write the two files into; they are printed unless it is given
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
}

/// Arguments of `memory`.
#[derive(Debug, Args)]
pub(super) struct Memory {
    #[command(flatten)]
    pub(super) sources: Sources,
    /// Form of the account
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(super) format: Format,
    /// Computes without a log: ranks of the communicator
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20), requires = "channels", conflicts_with_all = ["paths", "attempt"])]
    pub(super) nranks: Option<u64>,
    /// Channels of collectives (\"coll channels\" in NCCL's log)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64), requires = "nranks")]
    pub(super) channels: Option<u64>,
    /// Ranks on each node; all of them on one node unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024), requires = "nranks")]
    pub(super) per_node: Option<u64>,
    /// NCCL's release; the newest unless given
    #[arg(long, value_name = "RELEASE", value_parser = release, requires = "nranks")]
    pub(super) nccl: Option<Release>,
    /// Channels of NVLS; 16 without a number, none unless given
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "16", value_parser = clap::value_parser!(u64).range(0..=64), requires = "nranks")]
    pub(super) nvls: Option<u64>,
    /// Channels of CollNet
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=64), requires = "nranks")]
    pub(super) collnet: Option<u64>,
    /// Channels of send and receive; the next power of two of --channels unless given, as NCCL does
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64), requires = "nranks")]
    pub(super) p2p_channels: Option<u64>,
    /// Channels of send and receive for one peer; all of them on one node and 2 on several unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64), requires = "nranks")]
    pub(super) per_peer: Option<u64>,
    /// Communicators (process groups) of that shape on each rank
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000), requires = "nranks")]
    pub(super) communicators: u64,
    /// What is in use: ring, tree, nvls, pat, collnet, all-to-all (also for send and receive with all peers)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "ring,tree,nvls",
        requires = "nranks"
    )]
    pub(super) uses: Vec<InUse>,
    /// How ranks of a node are connected
    #[arg(long, value_name = "HOW", default_value = "p2p", requires = "nranks")]
    pub(super) local: LocalWay,
    /// Where buffers of the network lie: `gdr` on the GPU (GPUDirect RDMA), `host`
    #[arg(long, value_name = "WHERE", default_value = "gdr", requires = "nranks")]
    pub(super) net: NetWay,
    /// GPUs of a node are not all joined by NVLink
    #[arg(long, requires = "nranks")]
    pub(super) pcie: bool,
    /// Architecture of the hosts
    #[arg(long, value_name = "ARCH", default_value = "x86_64", value_parser = ["x86_64", "aarch64"], requires = "nranks")]
    pub(super) arch: String,
    /// A variable that is set, such as NCCL_BUFFSIZE=2097152; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, requires = "nranks")]
    pub(super) set: Vec<(String, String)>,
}

fn release(text: &str) -> Result<Release, String> {
    Release::parse(text).ok_or_else(|| "a release such as 2.21.5 is asked for".into())
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is asked for")?;
    Ok((name.trim().into(), value.trim().into()))
}

/// What a communicator uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum InUse {
    Ring,
    Tree,
    Nvls,
    Pat,
    Collnet,
    AllToAll,
}

/// How ranks of a node are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LocalWay {
    P2p,
    P2pRead,
    Shm,
}

/// Where buffers of the network lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum NetWay {
    Gdr,
    Host,
}

#[derive(Debug, Subcommand)]
pub(super) enum Rules {
    /// Checks all files, samples and references
    Check {
        /// Lists ways in which a cause shows that lack two firing tests or a near-miss in their rule's file
        #[arg(long)]
        tests: bool,
    },
    /// Runs the tests in the rule files
    Test {
        /// Only those of this rule
        id: Option<String>,
    },
    /// Lists all rules
    List {
        /// How much is known, in numbers, instead
        #[arg(long)]
        stats: bool,
    },
    /// Measures on labelled cases how often the first answer is right, and what its confidence is worth
    Measure {
        /// Folder of cases, each with `input/` and `truth.json`
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Shows one rule: what it says, what it looks for, what to do
    Show {
        /// Its id
        id: String,
    },
    /// Says for each way in which a cause shows what was found in a job and what was missing
    Why {
        /// Id of the rule
        id: String,
        #[command(flatten)]
        sources: Sources,
    },
    /// Drafts a message, a rule and its tests for a template of unknown lines, for a person to finish
    #[command(after_help = NEW_EXAMPLES)]
    New(New),
}
