//! The program from outside: help, exit statuses, colours, closed pipes.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclcheck"));
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    program().args(args).output().unwrap()
}

/// With something on standard input.
fn piped(args: &[&str], input: &str) -> Output {
    let mut child = program()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses its arguments does not read: a broken pipe here is no failure.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A file of its own for a test.
fn file(dir: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn help_of_every_command_is_fine_and_has_examples() {
    let commands: [&[&str]; 14] = [
        &[],
        &["diagnose"],
        &["explain"],
        &["events"],
        &["scan"],
        &["trends"],
        &["jobs"],
        &["show"],
        &["merge"],
        &["diff"],
        &["env"],
        &["unknown"],
        &["rules"],
        &["rules", "new"],
    ];
    for command in commands {
        let output = run(&[command, &["--help"]].concat());
        assert_eq!(code(&output), 0, "{command:?}");
        assert!(out(&output).contains("Usage: ncclcheck"), "{command:?}");
        assert!(out(&output).contains("Examples:"), "{command:?}");
        assert!(err(&output).is_empty(), "{command:?}");
    }
    for command in ["check", "test", "list", "show", "why"] {
        assert_eq!(code(&run(&["rules", command, "--help"])), 0, "{command}");
    }
    assert_eq!(code(&run(&["--version"])), 0);
}

#[test]
fn wrong_usage_ends_with_2_and_speaks_on_standard_error_only() {
    let wrong: [&[&str]; 5] =
        [&["nonsense"], &["diagnose", "--format", "xml"], &["diagnose", "--attempt", "0"], &["explain"], &[]];
    for args in wrong {
        let output = run(args);
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(out(&output).is_empty() && !err(&output).is_empty(), "{args:?}");
    }
}

#[test]
fn a_missing_path_ends_with_2_and_one_line() {
    let output = run(&["diagnose", "no/such/file.log"]);
    assert_eq!(code(&output), 2);
    assert_eq!(err(&output), "ncclcheck: no/such/file.log: no such file or directory\n");
    assert!(out(&output).is_empty());
}

#[test]
fn a_missing_rules_folder_ends_with_2() {
    let output = run(&["--rules", "no/such/folder", "rules", "list"]);
    assert_eq!(code(&output), 2);
    assert_eq!(err(&output).lines().count(), 1);
}

#[test]
fn codes_are_explained_by_word_and_number() {
    let cases: [(&[&str], &str); 19] = [
        (&["status 12"], "IBV_WC_RETRY_EXC_ERR"),
        (&["exit", "-9"], "SIGKILL"),
        (&["-9"], "SIGKILL"),
        (&["exit", "137"], "SIGKILL"),
        (&["exit", "140"], "SIGUSR2"),
        (&["0:9"], "SIGKILL"),
        (&["signal", "9"], "SIGKILL"),
        (&["sigkill"], "signal 9"),
        (&["xid", "79"], "fallen off the bus"),
        (&["errno", "110"], "ETIMEDOUT"),
        (&["ENOSPC"], "28"),
        (&["cuda", "719"], "cudaErrorLaunchFailure"),
        (&["cudaErrorAssert"], "710"),
        (&["ncclRemoteError"], "2.13"),
        (&["result", "6"], "ncclRemoteError"),
        (&["NCCL_P2P_DISABLE"], "no memory setting"),
        (&["nccl_timeout"], "Does not exist"),
        (&["NCCL_BUFFSIZE=4M"], "is read as 4"),
        (&["NCCL_BUFFSIZE=4194304"], "is a value that it accepts"),
    ];
    for (asked, answer) in cases {
        let output = run(&[&["explain"], asked].concat());
        assert_eq!(code(&output), 0, "{asked:?}: {}", err(&output));
        let flat = out(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(answer), "{asked:?}: {flat}");
    }
}

#[test]
fn an_explanation_is_at_most_a_screen() {
    for asked in ["NCCL_P2P_DISABLE", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "12", "exit 137", "NCCL_ALGO"] {
        let lines = out(&run(&["explain", asked])).lines().count();
        assert!((1..=42).contains(&lines), "{asked}: {lines}");
    }
}

#[test]
fn what_is_unknown_ends_with_1_and_the_nearest_names() {
    let output = run(&["explain", "NCCL_P2P_DISABL"]);
    assert_eq!(code(&output), 1);
    assert!(err(&output).contains("NCCL_P2P_DISABLE"));
    assert_eq!(err(&output).lines().count(), 1);
    let output = run(&["explain", "--format", "json", "qwertyuiop"]);
    assert_eq!(code(&output), 1);
    let json: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(json["answers"], serde_json::json!([]));
}

#[test]
fn explanations_come_as_json_too() {
    let output = run(&["explain", "status", "12", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(json["schema"], "ncclcheck.explain/1");
    assert_eq!(json["answers"][0]["kind"], "RDMA completion status");
}

#[test]
fn a_rule_that_is_not_there_ends_with_1() {
    let output = run(&["rules", "show", "no/such-rule"]);
    assert_eq!(code(&output), 1);
    assert!(err(&output).contains("no/such-rule"));
    assert!(out(&output).is_empty());
}

#[test]
fn colours_only_where_they_are_wanted() {
    let esc = '\u{1b}';
    assert!(!out(&run(&["explain", "status 12"])).contains(esc));
    assert!(out(&run(&["explain", "status 12", "--color", "always"])).contains(esc));
    assert!(!out(&run(&["explain", "status 12", "--color", "never"])).contains(esc));
    let output = program().env("NO_COLOR", "1").args(["explain", "status 12"]).output().unwrap();
    assert!(!out(&output).contains(esc));
}

#[test]
fn hostile_arguments_do_not_reach_the_terminal() {
    let output = run(&["explain", "a\u{1b}[2Jb"]);
    assert_eq!(code(&output), 1);
    assert!(!err(&output).contains('\u{1b}'));
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let mut child = program()
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0);
    assert!(err(&output).is_empty(), "{}", err(&output));
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        assert_eq!(code(&output), 0, "{shell}");
        assert!(out(&output).contains("diagnose"), "{shell}");
    }
}

/// The whole way from text to verdict.
mod whole_way {
    use super::*;

    const TRACEBACK: &str = "[rank1]: Traceback (most recent call last):\n\
                             [rank1]:   File \"train.py\", line 12, in <module>\n\
                             [rank1]:     main()\n\
                             [rank1]: ValueError: learning rate must be positive\n";

    #[test]
    fn an_empty_input_is_inconclusive_and_fine() {
        let output = piped(&["diagnose"], "");
        assert_eq!(code(&output), 0, "{}", err(&output));
        assert!(out(&output).starts_with("INCONCLUSIVE"));
        assert!(out(&output).contains("NCCL_DEBUG=INFO"), "it says what to collect: {}", out(&output));
    }

    #[test]
    fn a_failed_job_ends_with_1_in_both_forms() {
        let output = piped(&["diagnose"], TRACEBACK);
        assert_eq!(code(&output), 1, "{}", err(&output));
        assert!(out(&output).starts_with("FAULT"));
        assert!(out(&output).contains(":4"), "{}", out(&output));
        let output = piped(&["diagnose", "--format", "json", "-"], TRACEBACK);
        assert_eq!(code(&output), 1);
        let json: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
        assert_eq!(json["schema"], "ncclcheck.report/1");
        assert_eq!(json["diagnoses"][0]["cause"], "app/exception");
    }

    #[test]
    fn an_empty_folder_ends_with_2_and_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let output = run(&["diagnose", dir.path().to_str().unwrap()]);
        assert_eq!(code(&output), 2);
        assert_eq!(err(&output).lines().count(), 1);
    }

    #[test]
    fn one_missing_path_among_several_is_a_problem_in_the_report() {
        let dir = tempfile::tempdir().unwrap();
        let log = file(&dir, "rank1.log", TRACEBACK);
        let output = run(&["diagnose", log.to_str().unwrap(), "no/such/file.log"]);
        assert_eq!(code(&output), 1, "{}", err(&output));
        assert!(out(&output).contains("no/such/file.log"));
    }

    #[test]
    fn an_attempt_that_is_not_there_is_wrong_usage() {
        for command in ["diagnose", "waits", "events", "memory"] {
            let output = piped(&[command, "--attempt", "7"], TRACEBACK);
            assert_eq!(code(&output), 2, "{command}");
            assert_eq!(err(&output).lines().count(), 1, "{command}");
        }
    }

    #[test]
    fn nothing_built_in_leaves_what_the_folders_know() {
        let alone = piped(&["--no-builtin", "diagnose"], TRACEBACK);
        assert_eq!(code(&alone), 2);
        assert!(err(&alone).contains("--rules"), "{}", err(&alone));
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("messages")).unwrap();
        std::fs::write(folder.path().join("anchors.toml"), "schema = 1\nanchors = [ 'flux lost' ]\n")
            .unwrap();
        let message = "schema = 1\n[[message]]\nid = 'site.flux'\nabout = 'The flux is lost'\ndoor = 'line'\nrole = 'first'\n\
                       kind = 'fails'\n[[message.form]]\nhas = 'flux lost'\nsample = 'flux lost'\n";
        std::fs::write(folder.path().join("messages/site.toml"), message).unwrap();
        let rules = folder.path().to_str().unwrap();
        let seen = piped(
            &["--no-builtin", "--rules", rules, "events"],
            "step 1\nflux lost\nNCCL WARN Cuda failure 2\n",
        );
        assert_eq!(out(&seen).lines().filter(|l| l.contains("site.flux")).count(), 1, "{}", out(&seen));
        assert!(!out(&seen).contains("nccl.cuda"), "{}", out(&seen));
    }

    #[test]
    fn a_text_of_any_level_is_found_in_every_line_of_a_large_log() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("messages")).unwrap();
        std::fs::write(folder.path().join("anchors.toml"), "schema = 1\nanchors = [ 'flux lost' ]\n")
            .unwrap();
        let message = "schema = 1\n[[message]]\nid = 'site.flux'\nabout = 'The flux is lost'\ndoor = 'both'\nlevel = 'any'\n\
                       role = 'first'\nkind = 'fails'\n[[message.form]]\nhas = 'flux lost'\nsample = 'flux lost'\n";
        std::fs::write(folder.path().join("messages/site.toml"), message).unwrap();
        let rules = folder.path().to_str().unwrap();
        let padding = "node3:4410:4497 [2] NCCL INFO quite another matter of no weight\n".repeat(20_000);
        let (info, plain) = ("node3:4410:4497 [2] NCCL INFO here the flux lost again\n", "the flux lost\n");
        let log = [&padding, info, &padding, plain, &padding].concat();
        for more in [&["--no-builtin"][..], &[]] {
            let seen = piped(&[more, &["--rules", rules, "events"]].concat(), &log);
            let found: Vec<String> =
                out(&seen).lines().filter(|l| l.contains("site.flux")).map(String::from).collect();
            assert_eq!(found.len(), 2, "{found:?}");
            assert!(found[0].contains(":20001 ") && found[1].contains(":40002 "), "{found:?}");
        }
    }

    #[test]
    fn the_report_has_no_colour_in_a_pipe_and_fits_the_width() {
        let output = piped(&["diagnose", "--width", "60"], TRACEBACK);
        assert!(!out(&output).contains('\u{1b}'));
        assert!(out(&output).lines().all(|l| l.chars().count() <= 60));
        assert!(out(&piped(&["diagnose", "--color", "always"], TRACEBACK)).contains('\u{1b}'));
    }

    #[test]
    fn a_closed_pipe_keeps_the_status_of_the_verdict() {
        let mut child = program()
            .args(["diagnose", "-v"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        child.stdin.take().unwrap().write_all(TRACEBACK.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), 1);
        assert!(err(&output).is_empty());
    }

    /// Sends signals to a program that still waits for more input.
    #[cfg(unix)]
    fn signalled(signals: &[&str]) -> Output {
        let mut child = program()
            .args(["diagnose"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(TRACEBACK.as_bytes()).unwrap();
        for signal in signals {
            std::thread::sleep(std::time::Duration::from_millis(800));
            let done = Command::new("kill").args([*signal, &child.id().to_string()]).status().unwrap();
            assert!(done.success());
        }
        let output = child.wait_with_output().unwrap();
        drop(input);
        output
    }

    #[cfg(unix)]
    #[test]
    fn the_first_interrupt_gives_the_report_on_what_came_so_far() {
        let output = signalled(&["-INT"]);
        assert_eq!(code(&output), 1, "{}", err(&output));
        assert!(out(&output).starts_with("FAULT"));
    }

    #[cfg(unix)]
    #[test]
    fn sigterm_ends_it_at_once() {
        use std::os::unix::process::ExitStatusExt;
        let output = signalled(&["-TERM"]);
        assert!(output.status.signal() == Some(15) || code(&output) == 143, "{:?}", output.status);
    }

    #[test]
    fn events_are_lines_and_objects() {
        let output = piped(&["events"], TRACEBACK);
        assert_eq!(code(&output), 0);
        assert!(out(&output).lines().any(|l| l.contains("python.exception")));
        let output = piped(&["events", "--format", "ndjson"], TRACEBACK);
        for line in out(&output).lines() {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(event["line"].is_u64());
        }
    }

    #[test]
    fn a_cause_and_a_line_are_explained() {
        let output = run(&["explain", "net/ib-retry-exceeded"]);
        assert_eq!(code(&output), 0);
        assert!(out(&output).contains("What to do"));
        let line = "node1:42:77 [0] NCCL WARN NET/IB : Got completion from peer 10.0.1.22<45231> with error 12, \
                    opcode 0, len 0, vendor err 129 (Recv)";
        let output = run(&["explain", line]);
        assert_eq!(code(&output), 0, "{}", err(&output));
        assert!(out(&output).contains("IBV_WC_RETRY_EXC_ERR"));
    }

    #[test]
    fn rules_are_checked_tested_listed_shown_and_reasoned_about() {
        assert_eq!(code(&run(&["rules", "check"])), 0);
        assert_eq!(code(&run(&["rules", "test"])), 0);
        assert!(out(&run(&["rules", "list"])).contains("net/ib-retry-exceeded"));
        assert_eq!(code(&run(&["rules", "show", "net/ib-retry-exceeded"])), 0);
        let output = piped(&["rules", "why", "app/exception"], TRACEBACK);
        assert_eq!(code(&output), 0);
        assert!(out(&output).contains("found"));
    }

    #[test]
    fn a_wrong_rule_file_is_named_with_file_and_line() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("net")).unwrap();
        file(&dir, "net/own.toml", "schema = 1\nid = 5\n");
        let folder = dir.path().to_str().unwrap();
        let output = run(&["--rules", folder, "rules", "check"]);
        assert_eq!(code(&output), 1);
        assert!(out(&output).contains("net/own.toml:2:"), "{}", out(&output));
        let output = piped(&["--rules", folder, "diagnose"], TRACEBACK);
        assert_eq!(code(&output), 2);
        assert!(err(&output).contains("net/own.toml"));
    }
}

/// A folder with three jobs: two failed in the same unknown way, one well.
fn three_jobs() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let work = "step 1 loss 2.5\nstep 2 loss 2.4\nstep 3 loss 2.3\n";
    let lost = |n| format!("{work}watch[{n}]: lease {n}71 of 10.0.0.{n}:2379 lost, fencing failed\n");
    let warm = "cache: warm-up of part 7 failed, reading cold\n";
    for (name, text) in [
        ("job-1", lost(4)),
        ("job-2", format!("{warm}{}", lost(9))),
        (
            "job-3",
            format!(
                "{warm}{work}Training finished successfully.\n`Trainer.fit` stopped: `max_steps=3` reached.\n"
            ),
        ),
    ] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
        std::fs::write(dir.path().join(name).join("job.log"), text).unwrap();
    }
    dir
}

#[test]
fn unknown_lines_are_put_together_over_jobs() {
    let dir = three_jobs();
    let each = ["unknown", "--each", "--format", "ndjson", dir.path().to_str().unwrap()];
    let output = run(&each);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let records: Vec<serde_json::Value> =
        out(&output).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(records[0]["template"], "watch[<n>]: lease <n> of <addr> lost, fencing failed");
    assert_eq!((&records[0]["failed_jobs"], &records[0]["healthy_jobs"]), (&2.into(), &0.into()));
    assert_eq!(records[0]["examples"][0]["line"], 4);
    // Three paths are three jobs as well, in any order.
    let paths = ["job-3", "job-1", "job-2"].map(|j| dir.path().join(j).display().to_string());
    let args: Vec<&str> =
        ["unknown", "--format", "ndjson"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    assert_eq!(out(&run(&args)), out(&output));
    let text = out(&run(&["unknown", "--each", dir.path().to_str().unwrap()]));
    assert!(text.contains("2 failed jobs") && text.contains("job.log:4"), "{text}");
}

#[test]
fn a_job_that_cannot_be_read_is_named_and_left_out() {
    let dir = three_jobs();
    let good = dir.path().join("job-1").display().to_string();
    let output = run(&["unknown", &good, "no/such/job"]);
    assert_eq!(code(&output), 0);
    assert!(err(&output).contains("no/such/job"), "{}", err(&output));
    let output = run(&["unknown", "no/such/job"]);
    assert_eq!(code(&output), 2);
    assert_eq!(err(&output).lines().count(), 1);
}

#[test]
fn a_drafted_rule_is_accepted_once_its_places_are_filled() {
    let dir = three_jobs();
    let at = dir.path().to_str().unwrap();
    let rules = tempfile::tempdir().unwrap();
    let folder = rules.path().join("mine").display().to_string();
    let new = |more: &[&str]| run(&[&["rules", "new", "--each", at], more].concat());
    let output = new(&["--from-cluster", "1", "--id", "site/lease-lost", "--out", &folder]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    // As it is drafted it does not pass.
    let check = run(&["--rules", &folder, "rules", "check"]);
    assert_eq!(code(&check), 1, "{}", err(&check));
    assert!(out(&check).contains("title is still to be filled in"), "{}", out(&check));
    assert!(
        out(&check).lines().all(|l| l.contains("still to be filled in") || l.contains("fault(s)")),
        "{}",
        out(&check)
    );
    // A person fills in what is marked.
    for file in ["messages/site-lease-lost.toml", "site/lease-lost.toml"] {
        let path = rules.path().join("mine").join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("\"FILL: ", "\"Filled in: ")).unwrap();
    }
    let check = run(&["--rules", &folder, "rules", "check"]);
    assert_eq!(code(&check), 0, "{}{}", out(&check), err(&check));
    let test = run(&["--rules", &folder, "rules", "test", "site/lease-lost"]);
    assert_eq!(code(&test), 0, "{}", out(&test));
    // It finds the other job too, and the field that was taken from the template.
    let job = dir.path().join("job-2").display().to_string();
    let report: serde_json::Value =
        serde_json::from_str(&out(&run(&["--rules", &folder, "diagnose", "--format", "json", &job])))
            .unwrap();
    assert_eq!(report["diagnoses"][0]["cause"], "site/lease-lost");
    // Nothing is overwritten; what is not there, is said.
    assert_eq!(code(&new(&["--from-cluster", "1", "--id", "site/lease-lost", "--out", &folder])), 2);
    assert_eq!(code(&new(&["--from-cluster", "99"])), 1);
    assert_eq!(code(&new(&["--from-cluster", "1", "--id", "../x"])), 2);
    let printed = out(&new(&["--from-cluster", "1"]));
    assert!(printed.starts_with("# file: messages/"), "{printed}");
}

#[test]
fn two_jobs_are_compared_and_that_is_no_fault() {
    let dir = tempfile::tempdir().unwrap();
    let log = |timeout| {
        let head = "node1:42:77 [0] NCCL INFO";
        format!(
            "{head} Bootstrap : Using eth0:10.0.0.1<0>\n{head} NCCL_IB_TIMEOUT set by environment to {timeout}.\n"
        )
    };
    let good = file(&dir, "good.log", &log(22)).display().to_string();
    let bad = file(&dir, "bad.log", &log(14)).display().to_string();
    let output = run(&["diff", &good, &bad]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(out(&output).starts_with("The jobs differ in NCCL_IB_TIMEOUT: 22 → 14;"), "{}", out(&output));
    let json: serde_json::Value =
        serde_json::from_str(&out(&run(&["diff", "--format", "json", &good, &bad]))).unwrap();
    assert_eq!(json["differences"][0]["name"], "NCCL_IB_TIMEOUT");
    let output = piped(&["diff", &good, "-"], &log(14));
    assert!(out(&output).contains("22 → 14"), "{}", out(&output));
    assert_eq!(code(&run(&["diff", &good, "no/such.log"])), 2);
    assert_eq!(code(&run(&["diff", &good])), 2);
    assert_eq!(code(&run(&["diff", "-", "-"])), 2);
}

#[test]
fn several_jobs_that_are_given_as_one_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let oom = "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n";
    let several = |args: &[&str]| {
        let report = serde_json::from_str::<serde_json::Value>(&out(&run(args))).unwrap();
        report["job"]["several"].clone()
    };
    let folder = dir.path().display().to_string();
    file(&dir, "slurm-811.out", oom);
    // Both streams of one job, and what has no number, are no second job.
    file(&dir, "slurm-811.err", "step 3 loss 2.0\n");
    file(&dir, "dmesg.txt", "[  12.0] usb 1-1: new device\n");
    assert_eq!(several(&["diagnose", "--format", "json", &folder]), serde_json::json!([]));
    file(&dir, "slurm-812.out", "step 7 loss 2.0\n");
    assert_eq!(several(&["diagnose", "--format", "json", &folder]), serde_json::json!(["811", "812"]));
    let text = out(&run(&["diagnose", &folder]));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("files are of 2 jobs (811, 812)"), "{text}");
    assert!(text.contains("ncclcheck scan"), "{text}");
}
