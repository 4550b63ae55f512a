//! Stacks as text: what py-spy, gdb and Python's fault handler print, each
//! with the innermost call first. Several processes may stand in one file.

use std::sync::Arc;

use super::stacks::{Process, Thread};
use super::{Frame, ras};

/// Stacks of one file; more are not read.
const MOST: usize = 4096;

/// What a text is, by its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    PySpy,
    Gdb,
    FaultHandler,
    Ras,
}

/// Whether a text opens like one of those that are read whole.
pub(super) fn form(text: &str) -> Option<Form> {
    let end = text.char_indices().map(|c| c.0).find(|at| *at >= 4096).unwrap_or(text.len());
    let head = text[..end].trim_start();
    let first = head.lines().next().unwrap_or("");
    if first.strip_prefix("Process ").is_some_and(numbered) && head.contains("\nPython v") {
        return Some(Form::PySpy);
    }
    let gdb = ["[New LWP ", "[Thread debugging", "Thread ", "Using host libthread_db"];
    if gdb.iter().any(|g| first.starts_with(g)) && head.contains("(Thread 0x") && head.contains("(LWP ") {
        return Some(Form::Gdb);
    }
    let timer = first.starts_with("Timeout (") && first.ends_with(")!");
    let thread =
        (first.starts_with("Thread 0x") || first.starts_with("Current thread 0x")) && first.ends_with(':');
    if (timer || thread || first.starts_with("Fatal Python error: "))
        && head.contains("(most recent call first):")
    {
        return Some(Form::FaultHandler);
    }
    ras::looks_like(text).then_some(Form::Ras)
}

/// `4711: python train.py`.
fn numbered(rest: &str) -> bool {
    rest.split_once(':').is_some_and(|p| !p.0.is_empty() && p.0.bytes().all(|b| b.is_ascii_digit()))
}

fn frame(name: &str, file: &str, line: &str) -> Frame {
    let line = line.trim().parse().unwrap_or(0);
    Frame { name: Arc::from(name.trim()), file: Arc::from(file.trim()), line }
}

fn thread(name: String, os_id: Option<u64>, state: &str) -> Thread {
    let has = |word: &str| state.split('+').any(|s| s == word);
    Thread { name, os_id, active: has("active"), owns_gil: has("gil"), frames: Vec::new() }
}

/// Reads the stacks.
pub(super) fn read(text: &str, form: Form) -> Vec<Process> {
    match form {
        Form::PySpy => py_spy(text),
        Form::Gdb => gdb(text),
        Form::FaultHandler => fault_handler(text),
        Form::Ras => Vec::new(),
    }
}

fn py_spy(text: &str) -> Vec<Process> {
    let mut list: Vec<Process> = Vec::new();
    for line in text.lines().take(MOST * 64) {
        if let Some(rest) = line.strip_prefix("Process ").filter(|r| numbered(r)) {
            let pid = rest.split(':').next().and_then(|p| p.parse().ok()).unwrap_or(0);
            if list.len() < MOST {
                list.push(Process { pid, by: "py-spy", threads: Vec::new() });
            }
            continue;
        }
        let Some(process) = list.last_mut() else { continue };
        if let Some(rest) = line.strip_prefix("Thread ") {
            let state = rest.split_once('(').and_then(|p| p.1.split_once(')')).map_or("", |p| p.0);
            let name = rest.split('"').nth(1).unwrap_or("").to_string();
            let id = rest.split(' ').next().and_then(|i| i.parse().ok());
            if process.threads.len() < MOST {
                process.threads.push(thread(name, id, state));
            }
        } else if let (Some(thread), Some((name, place))) =
            (process.threads.last_mut(), line.strip_prefix("    ").and_then(|l| l.rsplit_once(" (")))
        {
            let place = place.trim_end_matches(')');
            let (file, at) = place.rsplit_once(':').unwrap_or((place, "0"));
            if thread.frames.len() < 256 {
                thread.frames.push(frame(name, file, at));
            }
        }
    }
    list
}

fn gdb(text: &str) -> Vec<Process> {
    let mut process = Process { pid: 0, by: "gdb", threads: Vec::new() };
    for line in text.lines().take(MOST * 64) {
        if let Some(rest) = line.split_once("(process ").map(|p| p.1) {
            process.pid = rest.split(')').next().and_then(|p| p.parse().ok()).unwrap_or(process.pid);
        }
        if let Some(rest) = line.strip_prefix("Thread ").filter(|r| r.contains("(LWP ")) {
            let id = rest.split_once("(LWP ").and_then(|p| p.1.split(')').next()?.parse().ok());
            let name = rest.split('"').nth(1).unwrap_or("").to_string();
            let number: u32 = rest.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            // gdb counts from the main thread on.
            let name = if number == 1 { "MainThread".to_string() } else { name };
            if number == 1 && process.pid == 0 {
                process.pid = id.unwrap_or(0);
            }
            if process.threads.len() < MOST {
                process.threads.push(thread(name, id, ""));
            }
        } else if line.starts_with('#')
            && let Some(thread) = process.threads.last_mut()
        {
            let call =
                line.split_once(" in ").map_or_else(|| line.split_once("  ").map_or("", |p| p.1), |p| p.1);
            let name = call.split(" (").next().unwrap_or(call);
            let place = call.rsplit_once(" at ").or_else(|| call.rsplit_once(" from ")).map_or("", |p| p.1);
            let (file, at) =
                place.rsplit_once(':').filter(|p| p.1.parse::<u32>().is_ok()).unwrap_or((place, "0"));
            if thread.frames.len() < 256 {
                thread.frames.push(frame(name, file, at));
            }
        }
    }
    if process.threads.is_empty() { Vec::new() } else { vec![process] }
}

fn fault_handler(text: &str) -> Vec<Process> {
    let mut process = Process { pid: 0, by: "faulthandler", threads: Vec::new() };
    for line in text.lines().take(MOST * 64) {
        if line.ends_with("(most recent call first):") {
            let current = line.starts_with("Current thread");
            if process.threads.len() < MOST {
                process.threads.push(thread(
                    if current { "MainThread".into() } else { String::new() },
                    None,
                    "",
                ));
            }
        } else if let (Some(thread), Some(rest)) =
            (process.threads.last_mut(), line.trim_start().strip_prefix("File \""))
        {
            let Some((file, rest)) = rest.split_once("\", line ") else { continue };
            let (at, name) = rest.split_once(" in ").unwrap_or((rest, ""));
            if thread.frames.len() < 256 {
                thread.frames.push(frame(name, file, at));
            }
        }
    }
    // A timer's dump has the main thread last.
    if !process.threads.iter().any(|t| t.name == "MainThread")
        && let Some(last) = process.threads.last_mut()
    {
        last.name = "MainThread".into();
    }
    if process.threads.is_empty() { Vec::new() } else { vec![process] }
}

#[cfg(test)]
mod tests {
    use super::super::stacks::Process;
    use super::super::{Dump, read};

    fn stacks(text: &str) -> Vec<Process> {
        match read(text.as_bytes(), "stack.txt") {
            Some((Dump::Stacks(list), _)) => list,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn py_spy_text_with_two_processes() {
        let text = "Process 811: python -u fit.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n\
            Thread 811 (active+gil): \"MainThread\"\n    save (torch/serialization.py:441)\n    main (fit.py:31)\n\
            Thread 830 (idle): \"loader\"\n    get (queue.py:171)\n\
            Process 812: python -u fit.py\nPython v3.11.7 (/usr/bin/python3.11)\n\nThread 812 (idle): \"MainThread\"\n    \
            all_reduce (torch/distributed/distributed_c10d.py:2501)\n";
        let list = stacks(text);
        assert_eq!((list.len(), list[0].pid, list[1].pid), (2, 811, 812));
        assert!(list[0].threads[0].owns_gil && list[0].threads[0].active);
        assert_eq!(list[0].threads[0].frames[1].to_string(), "main (fit.py:31)");
        assert_eq!(list[0].threads.len(), 2);
    }

    #[test]
    fn gdb_and_the_fault_handler() {
        let text = "[New LWP 92]\n\nThread 2 (Thread 0x7fa8 (LWP 92) \"pt_nccl_watchdg\"):\n\
            #0  0x00007fa8 in __poll (fds=0x1) at ../sysdeps/poll.c:29\n\nThread 1 (Thread 0x7fa9 (LWP 91) \"python\"):\n\
            #0  0x00007fa9 in cuStreamSynchronize () from /usr/lib/libcuda.so.1\n#1  main () at fit.c:12\n\
            [Inferior 1 (process 91) detached]\n";
        let list = stacks(text);
        assert_eq!(
            (list[0].pid, list[0].threads.len(), list[0].threads[1].name.as_str()),
            (91, 2, "MainThread")
        );
        assert_eq!(list[0].threads[1].frames[0].to_string(), "cuStreamSynchronize (/usr/lib/libcuda.so.1:0)");
        assert_eq!(list[0].threads[1].frames[1].to_string(), "main (fit.c:12)");
        let text = "Timeout (0:10:00)!\nThread 0x00007fa8 (most recent call first):\n  File \"/x/threading.py\", line 3 in run\n\n\
            Thread 0x00007fa9 (most recent call first):\n  File \"/src/fit.py\", line 8 in train\n";
        let list = stacks(text);
        assert_eq!(list[0].threads[1].name, "MainThread");
        assert_eq!(list[0].threads[1].frames[0].to_string(), "train (/src/fit.py:8)");
    }

    #[test]
    fn a_log_is_none() {
        assert!(read(b"Process 811 starts\nPython v3.11\n", "log").is_none());
        assert!(read(b"Thread 3 joined\nTimeout (0:10:00)!\n", "log").is_none());
    }
}
