//! Runs a program and tells what it took: wall time, CPU time of user and
//! system together, and the largest resident size seen. CPU time comes from
//! what the system adds up for ended children, so one runs at a time.

use nix::sys::resource::{UsageWho, getrusage};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What one run took.
#[derive(Clone, Copy, Default)]
pub(crate) struct Took {
    /// Seconds.
    pub(crate) wall: f64,
    /// Seconds.
    pub(crate) cpu: f64,
    /// MiB; 0 where the system does not tell.
    pub(crate) peak: f64,
}

/// Runs the command once, with the file through a pipe where one is given.
pub(crate) fn run(command: &mut Command, piped: Option<&Path>) -> io::Result<Took> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.stdin(if piped.is_some() { Stdio::piped() } else { Stdio::null() });
    let (before, start) = (cpu(), Instant::now());
    let mut child = command.spawn()?;
    let (id, input, over) = (child.id(), child.stdin.take(), AtomicBool::new(false));
    let peak = std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch(id, &over));
        if let (Some(mut to), Some(path)) = (input, piped) {
            // What ends early does not want the rest.
            let _ = feed(path, &mut to);
        }
        let ended = child.wait();
        over.store(true, Ordering::Relaxed);
        let wall = start.elapsed().as_secs_f64();
        ended.map(|_| (wall, watch.join().unwrap_or(0.0)))
    });
    let (wall, peak) = peak?;
    Ok(Took { wall, cpu: cpu() - before, peak })
}

fn feed(path: &Path, to: &mut impl Write) -> io::Result<()> {
    let mut from = File::open(path)?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            n => to.write_all(&buffer[..n])?,
        }
    }
}

/// The largest size until the child is over, in MiB.
fn watch(id: u32, over: &AtomicBool) -> f64 {
    let mut most = 0.0f64;
    while !over.load(Ordering::Relaxed) {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<f64>().ok());
        most = most.max(kib.unwrap_or(0.0) / 1024.0);
        std::thread::sleep(Duration::from_millis(2));
    }
    most
}

/// CPU seconds of all children that have ended.
fn cpu() -> f64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return 0.0 };
    let times = [usage.user_time(), usage.system_time()];
    times.iter().map(|t| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6).sum()
}
