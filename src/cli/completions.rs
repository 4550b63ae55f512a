//! `ncclcheck completions SHELL`.

use super::args::{Cli, When};
use super::out::{FINE, Fail, print};
use clap::CommandFactory;
use clap_complete::Shell;

pub(super) fn run(shell: Shell) -> Result<u8, Fail> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "ncclcheck", &mut script);
    print(When::Never, FINE, |out| out.write_all(&script))
}
