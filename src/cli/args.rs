//! The command line as one declaration: options, help texts and completions
//! all come from here.

use crate::base::Release;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  ncclcheck diagnose logs/                      one job, all files below logs/
  cat slurm-4711.out | ncclcheck diagnose       the same from a pipe
  ncclcheck explain NCCL_P2P_DISABLE            a variable, a code, a cause, a line
  ncclcheck memory logs/                        what NCCL holds of GPU memory
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
  ncclcheck explain 10485760                    a size that NCCL was refused
  ncclcheck explain 'node1:42:77 [0] NCCL WARN NET/IB : Got completion ...'

Exit status: 0 it is known; 1 it is not.";

const EVENTS_EXAMPLES: &str = "\
Examples:
  ncclcheck events run.log
  ncclcheck events --unknown logs/              lines that look like trouble and that no message knows
  ncclcheck events --format ndjson run.log | jq .message";

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
    /// Says what NCCL holds of GPU and host memory: by a job's log, or computed without one
    #[command(after_help = MEMORY_EXAMPLES)]
    Memory(Memory),
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
