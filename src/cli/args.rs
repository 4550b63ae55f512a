//! The command line as one declaration: options, help texts and completions
//! all come from here.

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  ncclcheck diagnose logs/                      one job, all files below logs/
  cat slurm-4711.out | ncclcheck diagnose       the same from a pipe
  ncclcheck explain NCCL_P2P_DISABLE            a variable, a code, a cause, a line
  ncclcheck env job.sbatch                      a job's variables before it starts
  ncclcheck events run.log                      what is read from a log

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

const RULES_EXAMPLES: &str = "\
Examples:
  ncclcheck rules list
  ncclcheck rules show net/ib-retry-exceeded
  ncclcheck rules why net/ib-retry-exceeded logs/
  ncclcheck rules measure fixtures/cases
  ncclcheck --rules my-rules/ rules check
  ncclcheck --rules my-rules/ rules test";

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
    /// Explains a cause, a variable, a code or a log line, without a log
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Explain),
    /// Checks environment variables before a job starts: names, values, contradictions, differences
    #[command(after_help = ENV_EXAMPLES)]
    Env(Env),
    /// Prints what is read from the logs, one line an event
    #[command(after_help = EVENTS_EXAMPLES)]
    Events(Events),
    /// Lists, shows, checks and tests the rules, and says why one fires or not
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

#[derive(Debug, Subcommand)]
pub(super) enum Rules {
    /// Checks all files, samples and references
    Check {
        /// Lists ways in which a cause shows that have no firing test or no near-miss in their rule's file
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
}
