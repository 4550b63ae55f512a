//! What happens from outside and what must not happen inside: Ctrl-C and panics.

use crate::report::text::visible;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a shell shows for a process that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// Ctrl-C ends the program with 130. While standard input is read the first
/// one only sets `interrupted`, so that a report on what came so far follows.
/// SIGTERM is left to the system, which ends the program at once (143).
pub(super) fn on_interrupt(interrupted: &Arc<AtomicBool>, reads_stdin: bool) {
    let flag = Arc::clone(interrupted);
    // Without a handler Ctrl-C simply ends the program: nothing to complain about.
    let _ = ctrlc::set_handler(move || {
        if !reads_stdin || flag.swap(true, Ordering::SeqCst) {
            leave(INTERRUPTED);
        }
    });
}

#[expect(
    clippy::exit,
    reason = "a signal ends the program wherever it is; nothing is half written to a file"
)]
fn leave(code: i32) -> ! {
    std::process::exit(code)
}

/// A panic is a fault of this program and says so, in two lines.
pub(super) fn on_panic() {
    std::panic::set_hook(Box::new(|info| {
        let what = info
            .payload()
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| info.payload().downcast_ref::<String>().cloned())
            .unwrap_or_default();
        let place = info.location().map_or(String::new(), |l| format!(" at {}:{}", l.file(), l.line()));
        let _ = writeln!(
            io::stderr(),
            "ncclcheck {}: internal fault{place}: {}\n\
             This is a fault of ncclcheck, not of the job. Please report these lines with the command that you ran.",
            env!("CARGO_PKG_VERSION"),
            visible(&what)
        );
    }));
}
