//! Two jobs side by side: what differs comes first, what differs always is no difference.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;
#[path = "common/faults.rs"]
mod faults;
#[path = "common/fleet.rs"]
mod fleet;
#[path = "../examples/generate.rs"]
mod generate;

use fleet::Style;
use ncclcheck::compare::{Change, Comparison, Section};

/// A job of the generator, one file a rank.
fn job(words: &str) -> Vec<(String, Vec<u8>)> {
    let dir = tempfile::tempdir().unwrap();
    let words = words.split_whitespace().chain(["--split-by-rank", dir.path().to_str().unwrap()]);
    assert!(generate::make(words.map(str::to_string)).is_ok());
    common::files(dir.path())
}

const GOOD: &str = "--ranks 16 --lines 2400 --sparse --fault none --seed 3";

/// Changes every line of every file.
fn each(mut files: Vec<(String, Vec<u8>)>, change: impl Fn(&str) -> String) -> Vec<(String, Vec<u8>)> {
    for (_, data) in &mut files {
        let text = String::from_utf8(std::mem::take(data)).unwrap();
        *data = text.lines().map(|l| change(l) + "\n").collect::<String>().into_bytes();
    }
    files
}

/// Adds what NCCL says of its variables to every rank.
fn with(files: Vec<(String, Vec<u8>)>, settings: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    each(files, |line| {
        let Some((head, _)) = line.split_once("NCCL INFO Bootstrap : ") else { return line.to_string() };
        let said = |(n, v): &(&str, &str)| format!("\n{head}NCCL INFO {n} set by environment to {v}.");
        format!("{line}{}", settings.iter().map(said).collect::<String>())
    })
}

fn diff(good: &[(String, Vec<u8>)], bad: &[(String, Vec<u8>)]) -> Comparison {
    let names = ("good".to_string(), "bad".to_string());
    common::engine().compare(&common::given(good), &common::given(bad), names, &common::options()).unwrap()
}

/// Section, name and values of the first difference.
fn first(c: &Comparison) -> (Section, &str, Vec<&str>, Vec<&str>) {
    let d = &c.differences[0];
    (
        d.section,
        &d.name,
        d.good.iter().map(String::as_str).collect(),
        d.bad.iter().map(String::as_str).collect(),
    )
}

#[test]
fn two_good_runs_of_one_job_do_not_differ() {
    // Other process ids, communicators, addresses of buffers and figures.
    let c = diff(&job(GOOD), &job("--ranks 16 --lines 2400 --sparse --fault none --seed 8"));
    assert!(c.differences.is_empty(), "{:#?}", c.differences);
    assert!(c.summary.contains("no difference"), "{}", c.summary);
    assert!(c.same.iter().any(|s| s.contains("NCCL 2.21.5")), "{:?}", c.same);
}

#[test]
fn spellings_of_one_value_are_no_difference() {
    let good =
        with(job(GOOD), &[("NCCL_IB_HCA", "mlx5_0,mlx5_1"), ("NCCL_PROTO", "Simple"), ("NCCL_IB_TC", "106")]);
    let bad = with(
        job(GOOD),
        &[("NCCL_IB_HCA", "mlx5_1,mlx5_0"), ("NCCL_PROTO", "simple"), ("NCCL_IB_TC", "0x6a")],
    );
    let c = diff(&good, &bad);
    assert!(c.differences.is_empty(), "{:#?}", c.differences);
}

#[test]
fn the_one_setting_that_differs_is_first() {
    let common = [
        ("NCCL_IB_HCA", "mlx5_0"),
        ("NCCL_CROSS_NIC", "1"),
        ("NCCL_NET_GDR_LEVEL", "3"),
        ("NCCL_IB_TC", "106"),
    ];
    let more =
        [("NCCL_IB_QPS_PER_CONNECTION", "2"), ("NCCL_SOCKET_NTHREADS", "4"), ("NCCL_BUFFSIZE", "4194304")];
    let all = |timeout| [&common[..], &more[..], &[("NCCL_IB_TIMEOUT", timeout)]].concat();
    let good = with(job(GOOD), &all("22"));
    let bad = with(job("--ranks 16 --lines 2400 --sparse --fault ib --seed 9"), &all("14"));
    let c = diff(&good, &bad);
    assert_eq!(first(&c), (Section::Setting, "NCCL_IB_TIMEOUT", vec!["22"], vec!["14"]));
    assert_eq!(c.differences.iter().filter(|d| d.section == Section::Setting).count(), 1);
    let line = c.differences[0].bad_line.as_ref().unwrap();
    assert!(line.text.ends_with("NCCL_IB_TIMEOUT set by environment to 14."), "{}", line.text);
    assert_eq!(c.bad.cause.as_deref(), Some("net/ib-retry-exceeded"));
    // What it did comes behind it: the failure, and how the run ended.
    assert!(c.differences.iter().any(|d| d.section == Section::Message && d.change == Change::OnlyBad));
    assert!(c.differences.iter().any(|d| d.section == Section::End));
}

#[test]
fn a_variable_that_only_the_bad_one_sets_is_first_and_so_is_one_that_it_lacks() {
    let set = with(job(GOOD), &[("NCCL_P2P_DISABLE", "1")]);
    let c = diff(&job(GOOD), &set);
    assert_eq!(first(&c), (Section::Setting, "NCCL_P2P_DISABLE", vec![], vec!["1"]));
    assert_eq!(c.differences[0].change, Change::OnlyBad);
    let c = diff(&set, &job(GOOD));
    assert_eq!(
        (c.differences[0].name.as_str(), c.differences[0].change),
        ("NCCL_P2P_DISABLE", Change::OnlyGood)
    );
}

#[test]
fn a_variable_that_one_rank_lacks_is_told_with_the_rank() {
    let good = with(job(GOOD), &[("NCCL_PROTO", "Simple"), ("NCCL_IB_TC", "106")]);
    let mut bad = good.clone();
    let file = bad.iter_mut().find(|(name, _)| name == "rank_5.log").unwrap();
    let text = String::from_utf8(file.1.clone()).unwrap();
    file.1 =
        text.lines().filter(|l| !l.contains("NCCL_PROTO")).flat_map(|l| [l, "\n"]).collect::<String>().into();
    let c = diff(&good, &bad);
    assert_eq!((c.differences[0].name.as_str(), c.differences[0].ranks.as_str()), ("NCCL_PROTO", "5"));
    assert!(c.summary.contains("NCCL_PROTO: Simple, not set on rank 5 of the bad job"), "{}", c.summary);
}

#[test]
fn a_listing_on_one_side_is_no_difference() {
    let listed = |value: &str| {
        let mut files = with(job(GOOD), &[("NCCL_BUFFSIZE", "4194304")]);
        files.push(("env.txt".into(), format!("NCCL_BUFFSIZE={value}\n").into_bytes()));
        files
    };
    let plain = with(job(GOOD), &[("NCCL_BUFFSIZE", "4194304")]);
    let c = diff(&listed("4M"), &plain);
    assert!(c.differences.is_empty(), "{:#?}", c.differences);
    let c = diff(&listed("4M"), &with(job(GOOD), &[("NCCL_BUFFSIZE", "8388608")]));
    assert_eq!(first(&c), (Section::Setting, "NCCL_BUFFSIZE", vec!["4194304"], vec!["8388608"]));
}

#[test]
fn a_release_and_what_it_was_built_for() {
    let bad = each(job(GOOD), |l| l.replace("2.21.5+cuda12.4", "2.20.3+cuda12.2"));
    let c = diff(&job(GOOD), &bad);
    assert_eq!(first(&c), (Section::Release, "NCCL", vec!["2.21.5"], vec!["2.20.3"]));
    assert_eq!(c.differences[1].name, "CUDA of NCCL");
    assert_eq!(c.differences.len(), 2, "{:#?}", c.differences);
}

#[test]
fn networks_transports_and_interfaces() {
    let bad = each(job(GOOD), |l| {
        l.replace("NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:", "NET/Socket : Using [0]eth0:")
            .replace("Using network IB", "Using network Socket")
            .replace("NET/IB/0/GDRDMA", "NET/Socket/0")
            .replace("Bootstrap : Using ib0", "Bootstrap : Using eth0")
    });
    let c = diff(&job(GOOD), &bad);
    let told: Vec<(&str, String)> =
        c.differences.iter().map(|d| (d.name.as_str(), format!("{:?} {:?}", d.good, d.bad))).collect();
    let has = |name: &str, values: &str| told.iter().any(|(n, v)| *n == name && v == values);
    assert!(has("network", "[\"IB\"] [\"Socket\"]"), "{told:#?}");
    assert!(has("interface for bootstrap", "[\"ib0\"] [\"eth0\"]"), "{told:#?}");
    assert!(
        has("transport", "[\"NET/IB/GDRDMA\", \"P2P/CUMEM\"] [\"NET/Socket\", \"P2P/CUMEM\"]"),
        "{told:#?}"
    );
}

#[test]
fn other_hosts_are_one_difference() {
    let bad = each(job(GOOD), |l| l.replace("node000", "worker-a").replace("node001", "worker-b"));
    let c = diff(&job(GOOD), &bad);
    assert_eq!(c.differences.len(), 1, "{:#?}", c.differences);
    assert_eq!(first(&c), (Section::Size, "hosts", vec!["node000", "node001"], vec!["worker-a", "worker-b"]));
}

#[test]
fn fewer_ranks_and_a_slower_run() {
    let c = diff(&job(GOOD), &job("--ranks 8 --lines 2400 --sparse --fault none --seed 3"));
    let names: Vec<&str> = c.differences.iter().map(|d| d.name.as_str()).collect();
    assert!(names.contains(&"world size") && names.contains(&"number of hosts"), "{names:?}");

    let slow = each(job(GOOD), |l| l.replace("tokens/s 2", "tokens/s 1"));
    let c = diff(&job(GOOD), &slow);
    assert_eq!(c.differences.len(), 1, "{:#?}", c.differences);
    assert_eq!(c.differences[0].section, Section::Speed);
    assert!(c.differences[0].note.contains("times slower"), "{}", c.differences[0].note);
}

#[test]
fn steps_are_timed_by_their_lines() {
    let run = |seconds: i64| -> Vec<(String, Vec<u8>)> {
        let line = |n: i64| {
            let t = n * seconds;
            format!(
                " [2026-02-03 {:02}:{:02}:{:02}] iteration {:8}/   500000 | loss: 2.1\n",
                4 + t / 3600,
                t / 60 % 60,
                t % 60,
                n * 10
            )
        };
        vec![("job.log".into(), (1..60).map(line).collect::<String>().into_bytes())]
    };
    let c = diff(&run(10), &run(25));
    assert_eq!(c.differences.len(), 1, "{:#?}", c.differences);
    let d = &c.differences[0];
    assert_eq!((d.good[0].as_str(), d.bad[0].as_str()), ("1.00", "0.4000"));
    assert!(d.note.contains("2.5 times slower"), "{}", d.note);
}

#[test]
fn what_one_side_cannot_show_is_said_once_and_is_no_difference() {
    let good = with(job(GOOD), &[("NCCL_IB_TIMEOUT", "22"), ("NCCL_IB_HCA", "mlx5_0")]);
    let mut quiet = job("--ranks 16 --lines 2400 --sparse --fault exception --seed 5");
    for (_, data) in &mut quiet {
        let text = String::from_utf8(data.clone()).unwrap();
        *data = text
            .lines()
            .filter(|l| !l.contains("NCCL INFO"))
            .flat_map(|l| [l, "\n"])
            .collect::<String>()
            .into();
    }
    let c = diff(&good, &quiet);
    let of = |s: Section| c.differences.iter().filter(|d| d.section == s).count();
    assert_eq!(
        (of(Section::Setting), of(Section::Network), of(Section::Transport), of(Section::Setup)),
        (0, 0, 0, 0)
    );
    assert_eq!(c.not_compared.len(), 1, "{:?}", c.not_compared);
    assert!(c.not_compared[0].contains("bad job has no NCCL lines"), "{:?}", c.not_compared);
    let d = &c.differences[0];
    assert!(d.section == Section::Message && d.name.starts_with("KeyError: "), "{d:#?}");
}

#[test]
fn a_warning_is_new_by_its_template_not_by_its_figures() {
    let warn = |text: &str| {
        let text = text.to_string();
        each(job(GOOD), move |l| match l.split_once("NCCL INFO Connected all rings") {
            Some((head, _)) => format!("{l}\n{head}misc/odd.cc:71 NCCL WARN {text}"),
            None => l.to_string(),
        })
    };
    let good = warn("odd lane 4 at 0x7f01, skipped");
    assert!(diff(&good, &warn("odd lane 11 at 0x7fee, skipped")).differences.is_empty());
    let c = diff(&good, &warn("even lane 4 at 0x7f01, skipped"));
    assert!(c.differences.iter().any(|d| d.change == Change::OnlyBad && d.name.starts_with("even lane")));
}

#[test]
fn secrets_and_control_codes_do_not_get_out() {
    let set = |v: &str| with(job(GOOD), &[("NCCL_NET_PLUGIN_TOKEN", v)]);
    let c = diff(&set("hunter2hunter2aa"), &set("hunter3hunter3bb"));
    let json = serde_json::to_string(&c).unwrap();
    assert!(!json.contains("hunter"), "{json}");
    let c = diff(&job(GOOD), &with(job(GOOD), &[("NCCL_PROTO", "a\u{1b}[2Jb")]));
    let mut out = Vec::new();
    ncclcheck::compare::write(&c, 80, true, &mut out).unwrap();
    assert!(!common::strip(&String::from_utf8(out).unwrap()).contains('\u{1b}'));
}

#[test]
fn the_json_has_the_documented_keys() {
    let bad = with(job("--ranks 16 --lines 2400 --sparse --fault xid --seed 5"), &[("NCCL_PROTO", "LL")]);
    let json = serde_json::to_value(diff(&job(GOOD), &bad)).unwrap();
    let keys = |v: &serde_json::Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(keys(&json), "schema summary good bad differences same not_compared");
    assert_eq!(json["schema"], "ncclcheck.diff/1");
    assert_eq!(keys(&json["good"]), "name verdict cause summary end sources lines");
    for d in json["differences"].as_array().unwrap() {
        assert_eq!(keys(d), "section name change good bad ranks note good_line bad_line");
    }
    assert_eq!(json["differences"][0]["section"], "setting");
    assert_eq!(json["differences"][0]["change"], "only-bad");
}

#[test]
fn a_narrow_page_is_never_wider_and_loses_no_name() {
    let bad = with(job("--ranks 16 --lines 2400 --sparse --fault xid --seed 5"), &[("NCCL_PROTO", "LL")]);
    let c = diff(&job(GOOD), &bad);
    for width in [20, 33, 59, 100] {
        let mut out = Vec::new();
        ncclcheck::compare::write(&c, width, false, &mut out).unwrap();
        let text = common::strip(&String::from_utf8(out).unwrap());
        assert!(text.lines().all(|l| l.chars().count() <= width), "{width}\n{text}");
        assert!(text.contains("NCCL_PROTO"), "{width}\n{text}");
    }
}

/// What each of four ranks prints before one of them raises; the second text is its standard error.
fn ranks_of_a_run() -> Vec<(String, String)> {
    let out = |r: usize| {
        format!("worker {r} took its shard\nepoch 1 batch 10 loss 2.31\nepoch 1 batch 20 loss 2.05\n")
    };
    let err = |r: usize| {
        match r {
        2 => "Traceback (most recent call last):\n  File \"/srv/fit/main.py\", line 41, in <module>\n    fit()\n\
              \x20 File \"/srv/fit/main.py\", line 30, in fit\n    check(batch)\nKeyError: 'pixel_values'\n"
            .to_string(),
        _ => String::new(),
    }
    };
    (0..4).map(|r| (out(r), err(r))).collect()
}

const AGENT: &str = "W0412 09:20:11.120000 7001 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 7010 closing signal SIGTERM\n\
E0412 09:20:11.340000 7001 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 2 (pid: 7012) of binary: /opt/py/bin/python\n";

/// One stream, what a rank writes marked by `mark`.
fn stream(mark: impl Fn(usize) -> String) -> Vec<(String, Vec<u8>)> {
    let mut text = String::new();
    for (r, (out, err)) in ranks_of_a_run().iter().enumerate() {
        for line in out.lines().chain(err.lines()) {
            text += &format!("{}{line}\n", mark(r));
        }
    }
    vec![("job.log".into(), (text + AGENT).into_bytes())]
}

/// As `--redirects 3 --log-dir logs` leaves it.
fn redirected() -> Vec<(String, Vec<u8>)> {
    let mut files = vec![("job.log".into(), AGENT.as_bytes().to_vec())];
    for (r, (out, err)) in ranks_of_a_run().into_iter().enumerate() {
        files.push((format!("logs/none_q1/attempt_0/{r}/stdout.log"), out.into_bytes()));
        files.push((format!("logs/none_q1/attempt_0/{r}/stderr.log"), err.into_bytes()));
    }
    files
}

#[test]
fn a_redirect_of_the_output_is_told_though_no_line_prints_it() {
    let c = diff(&stream(|_| String::new()), &redirected());
    let (section, name, good, bad) = first(&c);
    assert_eq!((section, name), (Section::Logs, "output of the ranks"), "{:#?}", c.differences);
    assert_eq!(good, ["one stream for all ranks, lines not marked"]);
    assert_eq!(bad, ["files of stdout and stderr for each rank, in torchrun's attempt folders"]);
    assert!(c.summary.starts_with("The jobs differ in how the output was kept: "), "{}", c.summary);
    // The same on both sides is none, and is not listed either.
    let c = diff(&redirected(), &redirected());
    assert!(c.differences.is_empty() && c.same.iter().all(|s| !s.contains("stream")), "{c:#?}");
}

#[test]
fn marks_before_the_lines_of_a_stream_are_told() {
    let c = diff(&stream(|_| String::new()), &stream(|r| format!("[default{r}]:")));
    assert_eq!(first(&c).3, ["one stream for all ranks, lines marked with local ranks (`[default0]:`)"]);
    let c = diff(&stream(|r| format!("{r}: ")), &stream(|_| String::new()));
    assert_eq!(first(&c).2, ["one stream for all ranks, lines marked with numbers of tasks (`0:`)"]);
    // What torch marks by itself is no setting of the launcher.
    let own = stream(|_| String::new());
    let text = String::from_utf8(own[0].1.clone()).unwrap().replace("KeyError", "[rank2]: KeyError");
    let c = diff(&own, &[("job.log".into(), text.into_bytes())]);
    assert!(c.differences.iter().all(|d| d.section != Section::Logs), "{:#?}", c.differences);
}

#[test]
fn what_a_job_was_given_comes_before_how_its_output_was_kept() {
    let said = |release: &str, mut files: Vec<(String, Vec<u8>)>| {
        let line = format!("PyTorch version: {release}\n");
        files[0].1.splice(0..0, line.into_bytes());
        files
    };
    let c = diff(&said("2.4.1", stream(|_| String::new())), &said("2.6.0", redirected()));
    assert_eq!(first(&c), (Section::Release, "torch", vec!["2.4.1"], vec!["2.6.0"]));
    assert!(c.differences.iter().any(|d| d.section == Section::Logs));
}

#[test]
fn releases_and_forms_of_dumps_are_compared() {
    let (job, _) = faults::plant(faults::KINDS[0], 1, 7);
    let dumps = |style: &Style, version: &str| -> Vec<(String, Vec<u8>)> {
        let one = |r: usize| {
            let data = job.dump(r, style, 2000);
            let data = match String::from_utf8(data.clone()) {
                Ok(text) if style.json => text.replace("2.10", version).into_bytes(),
                _ => data,
            };
            (format!("dumps/comm_lib_trace_rank_{r}"), data)
        };
        (0..job.ranks.len()).map(one).collect()
    };
    let json = Style { json: true, ..Style::default() };
    let c = diff(&dumps(&json, "2.10"), &dumps(&json, "2.4"));
    assert_eq!(first(&c), (Section::Release, "version of Flight Recorder dumps", vec!["2.10"], vec!["2.4"]));
    let c = diff(&dumps(&Style::default(), "2.10"), &dumps(&json, "2.10"));
    assert_eq!(
        first(&c),
        (Section::Logs, "Flight Recorder dumps", vec!["written as pickle"], vec!["written as JSON"])
    );
    // That only one job has any says nothing of a setting.
    let c = diff(&stream(|_| String::new()), &dumps(&json, "2.10"));
    let d = c.differences.iter().find(|d| d.name == "Flight Recorder dumps").unwrap();
    assert_eq!(
        (d.change, d.note.as_str()),
        (Change::NotShown, "the other input has none: not written, or not collected")
    );
}

#[test]
fn seconds_or_milliseconds_tell_torch_releases_apart() {
    let run = |line: &str| vec![("job.log".to_string(), format!("{line}\n").into_bytes())];
    let good = run(
        "[E socket.cpp:922] [c10d] The client socket has timed out after 30s while trying to connect to (lead, 29600).",
    );
    let bad = run(
        "[E0412 09:20:11.123456789 socket.cpp:1028] [c10d] The client socket has timed out after 30000ms while trying to connect to (lead, 29600).",
    );
    let c = diff(&good, &bad);
    assert_eq!(first(&c), (Section::Release, "torch", vec!["1.11.0 to 2.3"], vec!["2.4.0 or later"]));
}

#[test]
fn where_no_setting_is_visible_that_is_said() {
    let bad = |error: &str| {
        let text = format!(
            "Traceback (most recent call last):\n  File \"/srv/fit/main.py\", line 4, in <module>\n    fit()\n{error}\n"
        );
        vec![("job.log".to_string(), text.into_bytes())]
    };
    let c = diff(&bad("KeyError: 'pixel_values'"), &bad("ZeroDivisionError: division by zero"));
    assert!(c.summary.contains("no difference in what the jobs were given or chose"), "{}", c.summary);
    assert!(
        c.not_compared.iter().any(|n| n.starts_with("Neither input shows a variable")),
        "{:?}",
        c.not_compared
    );
    let c = diff(&job(GOOD), &job(GOOD));
    assert!(c.not_compared.is_empty(), "{:?}", c.not_compared);
}

#[test]
fn a_torn_line_is_no_missing_setting() {
    let all = |files: Vec<(String, Vec<u8>)>| -> Vec<(String, Vec<u8>)> {
        vec![("job.log".into(), files.into_iter().flat_map(|f| f.1).collect())]
    };
    let good = all(with(job(GOOD), &[("NCCL_PROTO", "Simple"), ("NCCL_IB_TC", "106")]));
    let text = String::from_utf8(good[0].1.clone()).unwrap();
    let at = text.rfind("NCCL_PROTO set by").unwrap();
    let bad = format!("{}[rank9]:[E ProcessGroup\n{}", &text[..at + 6], &text[at + 6..]);
    let c = diff(&good, &[("job.log".into(), bad.into_bytes())]);
    assert!(c.differences.iter().all(|d| d.section != Section::Setting), "{:#?}", c.differences);
}
