//! Two jobs side by side: what differs comes first, what differs always is no difference.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;
#[path = "../examples/generate.rs"]
mod generate;

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
