//! The command line: one file a command, and the only room that knows clap,
//! terminals and exit statuses. Everything it does goes through `engine`.

mod args;
mod completions;
mod diagnose;
mod diff;
mod env;
mod events;
mod explain;
mod memory;
mod out;
mod rules;
mod scan;
mod signals;
mod sources;
mod unknown;
mod waits;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

/// Runs the program with the arguments of the process.
#[must_use]
pub fn run() -> ExitCode {
    signals::on_panic();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(err) => {
            // Help and version go to standard output and are fine; the rest is wrong usage.
            let code = if err.use_stderr() { out::USAGE } else { out::FINE };
            let _ = err.print();
            return ExitCode::from(code);
        }
    };
    out::status(match &cli.command {
        Command::Diagnose(args) => diagnose::run(&cli.global, args),
        Command::Explain(args) => explain::run(&cli.global, args),
        Command::Env(args) => env::run(&cli.global, args),
        Command::Events(args) => events::run(&cli.global, args),
        Command::Waits(args) => waits::run(&cli.global, args),
        Command::Diff(args) => diff::run(&cli.global, args),
        Command::Unknown(args) => unknown::run(&cli.global, args),
        Command::Memory(args) => memory::run(&cli.global, args),
        Command::Rules(args) => rules::run(&cli.global, args),
        Command::Scan(args) => scan::run(&cli.global, args),
        Command::Trends(args) => scan::trends(&cli.global, args),
        Command::Jobs(args) => scan::jobs(&cli.global, args),
        Command::Show(args) => scan::show(&cli.global, args),
        Command::Merge(args) => scan::merge(&cli.global, args),
        Command::Completions { shell } => completions::run(*shell),
    })
}
