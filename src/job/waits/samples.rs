//! A check over a folder of labelled cases, for hand use: names in
//! `NCCLCHECK_CASES`, each `dumps-*` folder with `input/` and `truth.json`.
//! Without the variable nothing is tested.

use std::path::Path;

use super::{FaultKind, Trace, WaitsInput, WaitsReport, analyse};
use crate::base::RankSet;
use crate::dump::{Dump, make, rank_from_name, read};

fn input(folder: &Path) -> WaitsInput {
    let mut input = WaitsInput::default();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = std::fs::read(entry.path()).unwrap();
        if let (Some((Dump::FlightRecorder(r), damage)), Some(rank)) =
            (read(&bytes, &name), rank_from_name(&name))
        {
            input.notes.extend(damage.into_iter().map(|d| d.0));
            input.traces.push(Trace::from_recorder(rank, &name, r));
        }
    }
    input
}

#[test]
fn labelled_cases() {
    let Some(root) = std::env::var_os("NCCLCHECK_CASES") else { return };
    let mut folders: Vec<_> = std::fs::read_dir(root).unwrap().map(|e| e.unwrap().path()).collect();
    folders.sort();
    let mut report = String::new();
    for folder in folders {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("dumps-") {
            continue;
        }
        let truth = std::fs::read(folder.join("truth.json")).unwrap();
        let truth: serde_json::Value = serde_json::from_slice(&truth).unwrap();
        let found = analyse(&input(&folder.join("input")));
        report.push_str(&format!("\n== {name}: truth {} {}\n", truth["cause"], truth["culprit"]));
        for f in &found.faults {
            report.push_str(&format!(
                "  {:?} ranks [{}] {:?}; waiting [{}] behind [{}]\n    {}\n    at {:?} / {:?}\n    {:?}\n",
                f.kind, f.ranks, f.sure, f.waiting, f.behind, f.detail, f.frames, f.waiter_frames, f.evidence
            ));
        }
        report.push_str(&format!("  {:?}\n", found.problems));
        report.push_str(verdict(&truth, &found));
    }
    if let Some(out) = std::env::var_os("NCCLCHECK_CASES_OUT") {
        std::fs::write(out, &report).unwrap();
    }
    assert!(!report.contains("DIFFERS"), "{report}");
}

/// `wider`: the culprit is named together with others, as where dumps do not
/// hold what tells them apart.
fn verdict(truth: &serde_json::Value, found: &WaitsReport) -> &'static str {
    let blaming = found.faults.iter().filter(|f| f.kind != FaultKind::StuckAll);
    let all: RankSet = blaming.flat_map(|f| f.ranks.iter().collect::<Vec<_>>()).collect();
    let Some(ranks) = truth["culprit"]["ranks"].as_array() else {
        let nobody = found.faults.first().is_some_and(|f| f.ranks.is_empty());
        return if nobody { "  right\n" } else { "  DIFFERS\n" };
    };
    let ranks: RankSet = ranks.iter().filter_map(|r| r.as_u64()).map(|r| r as u32).collect();
    match () {
        () if all == ranks => "  right\n",
        () if ranks.minus(&all).is_empty() => "  wider\n",
        () => "  DIFFERS\n",
    }
}

/// One rank of a large job in tensor groups of eight and data groups across
/// them; rank 77 stops two operations before the others.
fn large(rank: u32, size: u32, records: i64) -> Vec<u8> {
    let tensor: Vec<u32> = (rank / 8 * 8..rank / 8 * 8 + 8).collect();
    let data: Vec<u32> = (0..size / 8).map(|i| i * 8 + rank % 8).collect();
    let (tp, dp) = ((1 + rank / 8).to_string(), (1000 + rank % 8).to_string());
    let mut ops: Vec<_> = (1..=records)
        .map(|at| {
            let group = if at % 4 == 0 { &dp } else { &tp };
            let seq = if at % 4 == 0 { at / 4 } else { at - at / 4 };
            let make = if at + 3 > records { make::open } else { make::done };
            make(
                group,
                seq,
                ["all_reduce", "_all_gather_base", "_reduce_scatter_base"][(at % 3) as usize],
                4096,
            )
        })
        .collect();
    if rank == 77 {
        ops.truncate(records as usize - 3);
    }
    let group = |name: &str, desc: &str, ranks: &[u32]| (name.to_string(), desc.to_string(), ranks.to_vec());
    let all: Vec<u32> = (0..size).collect();
    let groups =
        vec![group("0", "default_pg", &all), group(&tp, "tensor", &tensor), group(&dp, "data", &data)];
    let doc = make::Doc {
        version: "2.10",
        groups,
        ops,
        first_record: 12_000,
        status: true,
        backend: "nccl",
        nameless: false,
    };
    doc.pickle()
}

/// Not run unless asked for: `--ignored`, with optimisation. Says how long it
/// took in the file that `NCCLCHECK_CASES_OUT` names.
#[test]
#[ignore = "a measurement"]
fn a_large_job_is_quick() {
    let size: u32 = std::env::var("NCCLCHECK_RANKS").ok().and_then(|s| s.parse().ok()).unwrap_or(256);
    let files: Vec<(u32, Vec<u8>)> = (0..size).map(|rank| (rank, large(rank, size, 2000))).collect();
    let bytes: usize = files.iter().map(|f| f.1.len()).sum();
    let start = std::time::Instant::now();
    let halves: Vec<Vec<Trace>> = std::thread::scope(|scope| {
        let work = files.chunks(files.len().div_ceil(2)).map(|part| {
            scope.spawn(move || {
                let one = |(rank, bytes): &(u32, Vec<u8>)| match read(bytes, "_dump") {
                    Some((Dump::FlightRecorder(r), _)) => Trace::from_recorder(*rank, "_dump", r),
                    _ => panic!(),
                };
                part.iter().map(one).collect::<Vec<_>>()
            })
        });
        work.collect::<Vec<_>>().into_iter().map(|h| h.join().unwrap()).collect()
    });
    let reading = start.elapsed();
    let input = WaitsInput { traces: halves.into_iter().flatten().collect(), ..WaitsInput::default() };
    let start = std::time::Instant::now();
    let found = analyse(&input);
    let text = format!(
        "{size} dumps, {bytes} bytes: read {reading:?}, analysed {:?}\n{:?}\n",
        start.elapsed(),
        found.faults
    );
    if let Some(out) = std::env::var_os("NCCLCHECK_CASES_OUT") {
        std::fs::write(out, &text).unwrap();
    }
    assert_eq!(found.faults.len(), 1, "{text}");
    assert_eq!(found.faults[0].ranks.to_string(), "77");
}
