//! What NCCL's RAS says about a running job (`ncclras`, since 2.24): which
//! communicators there are, how many collectives each rank has launched, who
//! does not answer. As JSON (2.28) and as the text that people save.

use serde_json::Value;

use crate::base::RankSet;

/// One answer of RAS.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ras {
    /// Release of NCCL.
    pub nccl: Option<String>,
    /// Release of the driver, as written.
    pub driver: Option<String>,
    /// When it was asked, as written.
    pub at: Option<String>,
    /// The communicators; the text form names only those that differ.
    pub comms: Vec<RasComm>,
    /// Peers that did not answer in time.
    pub timeouts: u64,
    /// Lines of the sections on errors and warnings (text form).
    pub notices: Vec<String>,
}

/// One communicator.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RasComm {
    /// Its number in NCCL's own lines (`commId`).
    pub hash: String,
    /// Ranks it should have.
    pub size: Option<u32>,
    /// The ranks that were heard.
    pub ranks: Vec<RasRank>,
    /// Those that were not.
    pub missing: Vec<RasMissing>,
    /// Most ranks have launched up to this operation (text form).
    pub common: Option<(u32, i64)>,
}

/// One rank of a communicator.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RasRank {
    /// Rank in the communicator.
    pub rank: u32,
    /// Host name or address.
    pub host: String,
    /// Process number.
    pub pid: Option<u64>,
    /// CUDA device.
    pub device: Option<u32>,
    /// Collectives launched, by kind; one entry without kind in old releases.
    pub counts: Vec<(String, i64)>,
    /// NCCL's asynchronous error, 0 when none.
    pub error: i64,
    /// Still in its initialisation.
    pub starting: bool,
    /// It was told to stop.
    pub aborted: bool,
}

/// A rank of which nothing was heard.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RasMissing {
    /// Rank in the communicator.
    pub rank: u32,
    /// Host name or address.
    pub host: String,
    /// Process number.
    pub pid: Option<u64>,
    /// It is held for dead.
    pub dead: bool,
}

/// From JSON; `None` when it is something else.
pub(super) fn from_json(value: &Value) -> Option<Ras> {
    let comms = value.get("communicators")?.as_array()?;
    value.get("nccl_version").or_else(|| value.get("ras")).or_else(|| value.get("communicators_count"))?;
    Some(Ras {
        nccl: label(value, "nccl_version"),
        driver: label(value, "cuda_driver_version"),
        at: label(value, "timestamp"),
        comms: comms.iter().map(comm).collect(),
        timeouts: value.get("ras").and_then(|r| int(r, "timeouts_count")).map_or(0, i64::unsigned_abs),
        notices: Vec::new(),
    })
}

fn label(value: &Value, key: &str) -> Option<String> {
    match value.get(key)? {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        _ => None,
    }
}

fn int(value: &Value, key: &str) -> Option<i64> {
    let value = value.get(key)?;
    value.as_i64().or_else(|| value.as_bool().map(i64::from)).or_else(|| value.as_str()?.parse().ok())
}

fn small(value: &Value, key: &str) -> Option<u32> {
    int(value, key).and_then(|i| u32::try_from(i).ok())
}

fn comm(value: &Value) -> RasComm {
    let list = |k: &str| value.get(k).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    RasComm {
        hash: label(value, "hash").unwrap_or_default(),
        size: small(value, "size"),
        ranks: list("ranks").iter().filter_map(rank).collect(),
        missing: list("missing_ranks").iter().filter_map(missing).collect(),
        common: None,
    }
}

fn pid(value: &Value) -> Option<u64> {
    int(value, "pid").and_then(|i| u64::try_from(i).ok())
}

fn rank(value: &Value) -> Option<RasRank> {
    let status = value.get("status").unwrap_or(&Value::Null);
    let flag = |k: &str| int(status, k).unwrap_or(0) != 0;
    let counts = value.get("collective_counts").and_then(Value::as_object);
    Some(RasRank {
        rank: small(value, "rank")?,
        host: label(value, "host").unwrap_or_default(),
        pid: pid(value),
        device: small(value, "cuda_dev"),
        counts: counts.map_or_else(Vec::new, |o| {
            o.iter().filter_map(|(k, v)| Some((k.clone(), v.as_i64()?))).collect()
        }),
        error: int(status, "async_error").unwrap_or(0),
        starting: flag("init_state"),
        aborted: flag("abort_flag"),
    })
}

fn missing(value: &Value) -> Option<RasMissing> {
    let dead = value.get("status").and_then(|s| int(s, "considered_dead")).unwrap_or(0) != 0;
    let host = label(value, "host").unwrap_or_default();
    Some(RasMissing { rank: small(value, "rank")?, host, pid: pid(value), dead })
}

/// Whether the text opens like RAS's answer.
pub(super) fn looks_like(text: &str) -> bool {
    let end = text.char_indices().map(|c| c.0).find(|at| *at >= 4096).unwrap_or(text.len());
    let head = &text[..end];
    let first = head.lines().find(|l| !l.trim().is_empty()).unwrap_or("");
    (first.starts_with("NCCL version") || first.starts_with("Job summary")) && head.contains("Job summary")
}

/// From the text form.
pub(super) fn from_text(text: &str) -> Ras {
    let mut ras = Ras::default();
    let mut noting = false;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("NCCL version ") {
            ras.nccl = rest.split_whitespace().next().map(str::to_string);
        }
        if let Some((_, rest)) = line.split_once("driver version ") {
            ras.driver = rest.split_whitespace().next().map(str::to_string);
        }
        if matches!(line, "Errors" | "Warnings") {
            noting = true;
            continue;
        }
        if !noting || line.is_empty() || line.chars().all(|c| c == '=' || c == '-') {
            continue;
        }
        if ras.notices.len() < 4096 {
            ras.notices.push(line.to_string());
        }
        notice(&mut ras, line);
    }
    ras
}

/// One line of the errors and warnings.
fn notice(ras: &mut Ras, line: &str) {
    if line.starts_with('#') {
        let hash = line.split_once('(').and_then(|p| p.1.split_once(')')).map_or("", |p| p.0);
        ras.comms.push(RasComm { hash: hash.to_string(), ..RasComm::default() });
        return;
    }
    if ras.comms.is_empty() {
        ras.comms.push(RasComm::default());
    }
    let Some(comm) = ras.comms.last_mut() else { return };
    let launched = line.split_once("launched up to operation ").map(|p| {
        let digits: String = p.1.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<i64>().ok()
    });
    if let (Some(Some(count)), Some((ranks, _))) = (launched, line.split_once(" ranks have")) {
        let ranks = ranks.split_whitespace().last().and_then(|n| n.parse().ok()).unwrap_or(0);
        comm.common = Some((ranks, count));
        return;
    }
    let Some(rest) = line.strip_prefix("Rank ").or_else(|| line.strip_prefix("rank ")) else {
        if let Some((_, list)) = line.split_once("missing rank") {
            let ranks = RankSet::parse(list.trim_start_matches('s').trim_start_matches(':').trim());
            let ranks = ranks.filter(|r| r.len() <= 1 << 20).unwrap_or_default();
            comm.missing.extend(ranks.iter().map(|rank| RasMissing { rank, ..RasMissing::default() }));
        }
        return;
    };
    let number = rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
    let Some(rank) = number else { return };
    let after = |what: &str| rest.split_once(what).and_then(|p| p.1.split_whitespace().next());
    let pid = after("process ").and_then(|p| p.parse().ok());
    let host = after("on node ").unwrap_or("").trim_end_matches([',', '.']).to_string();
    match launched.flatten() {
        Some(count) => {
            let counts = vec![(String::new(), count)];
            comm.ranks.push(RasRank { rank, host, pid, counts, ..RasRank::default() });
        }
        None => comm.missing.push(RasMissing { rank, host, pid, dead: line.contains("dead") }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Dump, read};

    #[test]
    fn json_of_2_28() {
        let text = br#"{"nccl_version":"2.28.7","timestamp":"2026-01-02 03:04:05","communicators_count":1,
            "communicators":[{"hash":"0x1a2b","size":2,"ranks_count":1,"missing_ranks_count":1,
            "ranks":[{"rank":0,"host":"n1","pid":41,"cuda_dev":0,"status":{"init_state":0,"async_error":0,
            "abort_flag":false},"collective_counts":{"AllReduce":13}}],
            "missing_ranks":[{"rank":1,"host":"n2","pid":42,"status":{"unresponsive":true,"considered_dead":true}}]}],
            "ras":{"timeouts_count":1}}"#;
        let Some((Dump::Ras(ras), _)) = read(text, "ras.json") else { panic!() };
        assert_eq!(ras.comms[0].ranks[0].counts, [("AllReduce".to_string(), 13)]);
        assert!(ras.comms[0].missing[0].dead);
        assert_eq!(ras.timeouts, 1);
    }

    #[test]
    fn text_names_the_late_rank() {
        let text = "NCCL version 2.24.3 compiled with CUDA 12.4\nCUDA runtime version 12040, driver version 12060\n\n\
            Job summary\n===========\n\nWarnings\n========\n\n#0-0 (27a079b828ff1a75) MISMATCH\n  \
            Communicator ranks have different collective operation counts\n  7 ranks have launched up to operation 13\n  \
            Rank 3 -- GPU 3 managed by process 4711 on node 10.0.0.7 has launched up to operation 12\n";
        let Some((Dump::Ras(ras), _)) = read(text.as_bytes(), "ras.txt") else { panic!() };
        let comm = &ras.comms[0];
        assert_eq!((comm.hash.as_str(), comm.common), ("27a079b828ff1a75", Some((7, 13))));
        assert_eq!((comm.ranks[0].rank, comm.ranks[0].pid), (3, Some(4711)));
        assert_eq!((comm.ranks[0].host.as_str(), comm.ranks[0].counts[0].1), ("10.0.0.7", 12));
    }
}
