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
  ncclcheck events run.log                      what is read from a log
  ncclcheck waits dumps/                        who waits for whom in a hang

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
  ncclcheck explain 'node1:42:77 [0] NCCL WARN NET/IB : Got completion ...'

Exit status: 0 it is known; 1 it is not.";

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

const RULES_EXAMPLES: &str = "\
Examples:
  ncclcheck rules list
  ncclcheck rules show net/ib-retry-exceeded
  ncclcheck rules why net/ib-retry-exceeded logs/
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
    /// Prints what is read from the logs, one line an event
    #[command(after_help = EVENTS_EXAMPLES)]
    Events(Events),
    /// Shows who waits for whom in a hang: groups, how far each rank has come, and where the chains end
    #[command(after_help = WAITS_EXAMPLES)]
    Waits(Waits),
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

#[derive(Debug, Subcommand)]
pub(super) enum Rules {
    /// Checks all files, samples and references
    Check,
    /// Runs the tests in the rule files
    Test {
        /// Only those of this rule
        id: Option<String>,
    },
    /// Lists all rules
    List,
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
