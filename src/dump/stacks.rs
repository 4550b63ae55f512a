//! Small documents about one process: the stacks that py-spy writes with
//! `--json`, and the error file in which torchelastic keeps the first
//! exception of a worker.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Frame;

/// One process with the stacks of its threads.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// Process number, as seen where the stack was taken; 0 when not told.
    pub pid: u64,
    /// Which program took it.
    pub by: &'static str,
    /// Its threads, in the order written.
    pub threads: Vec<Thread>,
}

/// One thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    /// `MainThread`, `pt_nccl_watchdg`.
    pub name: String,
    /// The system's number of the thread.
    pub os_id: Option<u64>,
    /// It was running, not waiting.
    pub active: bool,
    /// It held the interpreter's lock.
    pub owns_gil: bool,
    /// Stack, innermost first.
    pub frames: Vec<Frame>,
}

/// A worker's error file.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorFile {
    /// `ValueError: …`.
    pub message: String,
    /// The traceback, where it was kept.
    pub stack: Option<String>,
    /// Seconds since the epoch.
    pub at: Option<i64>,
    /// Exit code, which the agent adds.
    pub code: Option<i64>,
}

/// The list of threads that py-spy prints; `None` when it is none.
pub(super) fn processes(value: &Value) -> Option<Vec<Process>> {
    let list = value.as_array().filter(|l| !l.is_empty())?;
    let mut by_pid: BTreeMap<u64, Vec<Thread>> = BTreeMap::new();
    for item in list {
        let pid = item.get("pid")?.as_u64()?;
        let frames = item.get("frames")?.as_array()?;
        let flag = |k: &str| item.get(k).and_then(Value::as_bool).unwrap_or(false);
        by_pid.entry(pid).or_default().push(Thread {
            name: text(item, "thread_name").unwrap_or_default(),
            os_id: item.get("os_thread_id").and_then(Value::as_u64),
            active: flag("active"),
            owns_gil: flag("owns_gil"),
            frames: frames.iter().map(frame).collect(),
        });
    }
    Some(by_pid.into_iter().map(|(pid, threads)| Process { pid, by: "py-spy", threads }).collect())
}

fn frame(value: &Value) -> Frame {
    let part = |k: &str| Arc::from(value.get(k).and_then(Value::as_str).unwrap_or(""));
    let line = value.get("line").and_then(Value::as_u64).and_then(|l| u32::try_from(l).ok());
    Frame { name: part("name"), file: part("filename"), line: line.unwrap_or(0) }
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_string)
}

/// torchelastic's error file; `None` when it is none.
pub(super) fn error_file(value: &Value) -> Option<ErrorFile> {
    let message = value.get("message")?;
    let code = value.get("errorCode").or_else(|| message.get("errorCode")).and_then(Value::as_i64);
    if let Some(plain) = message.as_str() {
        let known = code.is_some() || value.as_object().is_some_and(|o| o.len() == 1);
        return known.then(|| ErrorFile { message: plain.to_string(), stack: None, at: None, code });
    }
    let extra = message.get("extraInfo")?;
    let at = extra.get("timestamp").and_then(|t| t.as_i64().or_else(|| t.as_str()?.trim().parse().ok()));
    Some(ErrorFile { message: text(message, "message")?, stack: text(extra, "py_callstack"), at, code })
}

#[cfg(test)]
mod tests {
    use super::super::{Dump, read};

    #[test]
    fn an_error_file() {
        let text = br#"{"message": {"message": "ValueError: no", "extraInfo": {"py_callstack": "Traceback\n",
            "timestamp": "1796059591"}}, "errorCode": 1}"#;
        let Some((Dump::ErrorFile(file), damage)) = read(text, "error.json") else { panic!() };
        assert_eq!(
            (file.message.as_str(), file.at, file.code),
            ("ValueError: no", Some(1_796_059_591), Some(1))
        );
        assert!(damage.is_empty());
        assert!(read(br#"{"message": "step 3", "level": "info"}"#, "log.json").is_none());
    }

    #[test]
    fn threads_come_together_by_process() {
        let text = br#"[{"pid": 7, "thread_id": 1, "thread_name": "MainThread", "os_thread_id": 7, "active": true,
            "owns_gil": true, "frames": [{"name": "step", "filename": "/t.py", "short_filename": "t.py", "line": 8}]},
            {"pid": 7, "thread_id": 2, "thread_name": null, "os_thread_id": 9, "active": false, "owns_gil": false,
             "frames": []}]"#;
        let Some((Dump::Stacks(list), _)) = read(text, "spy.json") else { panic!() };
        assert_eq!((list.len(), list[0].threads.len()), (1, 2));
        assert_eq!(list[0].threads[0].frames[0].to_string(), "step (/t.py:8)");
    }
}
