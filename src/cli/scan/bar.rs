//! The progress of a scan, on a terminal only: how much of how much, how fast,
//! how long it will take.

use crate::scan::{Outcome, Record, Watch};
use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A bar on standard error.
pub(super) struct Bar {
    bar: ProgressBar,
    jobs: u64,
    read: AtomicU64,
    failed: AtomicU64,
}

impl Bar {
    /// A bar for so many jobs and bytes; invisible where standard error is no terminal.
    pub(super) fn new(jobs: usize, bytes: u64) -> Self {
        let terminal = io::stderr().is_terminal() && jobs > 0;
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(bytes.max(1)), target);
        let style = ProgressStyle::with_template(
            "{bar:24} {percent:>3} %  {bytes}/{total_bytes}  {binary_bytes_per_sec}  {eta} left  {msg}",
        );
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { bar, jobs: jobs as u64, read: AtomicU64::new(0), failed: AtomicU64::new(0) }
    }

    /// Takes the bar away and leaves one line on a terminal.
    pub(super) fn end(&self, outcome: &Outcome) {
        let took = self.bar.elapsed();
        let shown = !self.bar.is_hidden();
        self.bar.finish_and_clear();
        if shown {
            super::complain(&format!(
                "{} jobs read ({}) in {}, {} known already",
                outcome.read,
                HumanBytes(outcome.bytes),
                HumanDuration(took),
                outcome.reused
            ));
        }
    }
}

/// A sign of life while files are looked at, on a terminal only; it ends when it is dropped.
pub(super) struct Looking(ProgressBar);

impl Looking {
    pub(super) fn new() -> Self {
        let terminal = io::stderr().is_terminal();
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target).with_message("looking at what is there");
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Watch for Bar {
    fn read(&self, bytes: u64, record: &Record) {
        let read = self.read.fetch_add(1, Ordering::Relaxed) + 1;
        let failed =
            self.failed.fetch_add(u64::from(record.failed()), Ordering::Relaxed) + u64::from(record.failed());
        self.bar.inc(bytes);
        self.bar.set_message(format!("{read}/{} jobs, {failed} failed", self.jobs));
    }
}
