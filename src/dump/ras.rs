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
    /// Processes of which nothing is heard, where their ranks are not said (text form).
    pub lost: Vec<RasMissing>,
}

/// One communicator.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RasComm {
    /// Its number in NCCL's own lines (`commId`).
    pub hash: String,
    /// Ranks it should have.
    pub size: Option<u32>,
    /// The ranks that were heard; the text form names only those that differ.
    pub ranks: Vec<RasRank>,
    /// Those that were not.
    pub missing: Vec<RasMissing>,
    /// So many ranks have launched up to an operation, by kind of operation (text form).
    pub launched: Vec<RasLaunched>,
}

/// Ranks that have launched equally many operations, as the text form counts them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RasLaunched {
    /// Kind of operation; empty where all are counted together.
    pub kind: String,
    /// How many ranks.
    pub many: u32,
    /// The last operation.
    pub count: i64,
    /// Who, where that is said.
    pub ranks: RankSet,
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

/// A rank or process of which nothing was heard.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RasMissing {
    /// Rank in the communicator, where it is said.
    pub rank: Option<u32>,
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
        ..Ras::default()
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
        launched: Vec::new(),
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
    Some(RasMissing { rank: Some(small(value, "rank")?), host, pid: pid(value), dead })
}

/// Whether the text opens like RAS's answer.
pub(super) fn looks_like(text: &str) -> bool {
    let end = text.char_indices().map(|c| c.0).find(|at| *at >= 4096).unwrap_or(text.len());
    let head = &text[..end];
    let first = head.lines().find(|l| !l.trim().is_empty()).unwrap_or("");
    (first.starts_with("NCCL version") || first.starts_with("Job summary")) && head.contains("Job summary")
}

/// What the lines that follow are about (text form).
#[derive(Debug, Clone, Default, PartialEq)]
enum Topic {
    /// Nothing that is read.
    #[default]
    Other,
    /// The table of communicators.
    Table,
    /// How many operations were launched, of a kind.
    Counts(String),
    /// Who does not answer.
    Missing,
    /// Who is held for dead.
    Dead,
}

/// From the text form.
pub(super) fn from_text(text: &str) -> Ras {
    let mut ras = Ras::default();
    let mut noting = false;
    let mut topic = Topic::Other;
    let mut sizes: Vec<(u32, u32)> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("NCCL version ") {
            ras.nccl = rest.split_whitespace().next().map(str::to_string);
        }
        if let Some((_, rest)) = line.split_once("driver version ") {
            ras.driver = rest.split_whitespace().next().map(str::to_string);
        }
        if matches!(line, "Errors" | "Warnings") {
            (noting, topic) = (true, Topic::Other);
            continue;
        }
        if line.starts_with("Communicators...") {
            topic = Topic::Table;
        }
        if line.is_empty() || line.chars().all(|c| c == '=' || c == '-') {
            continue;
        }
        if !noting {
            if topic == Topic::Table && sizes.len() < 4096 {
                sizes.extend(row(line));
            }
            continue;
        }
        if ras.notices.len() < 4096 {
            ras.notices.push(line.to_string());
        }
        notice(&mut ras, &mut topic, &sizes, line);
    }
    join_lost(&mut ras);
    ras
}

/// Group and ranks of each communicator, of a row of the table; none where these differ.
fn row(line: &str) -> Option<(u32, u32)> {
    let mut cells = line.split_whitespace();
    let group = cells.next()?.parse().ok()?;
    let size = cells.nth(3)?.parse().ok()?;
    Some((group, size))
}

/// One line of the errors and warnings.
fn notice(ras: &mut Ras, topic: &mut Topic, sizes: &[(u32, u32)], line: &str) {
    if let Some(rest) = line.strip_prefix('#') {
        let hash = line.split_once('(').and_then(|p| p.1.split_once(')')).map_or("", |p| p.0);
        let group: Option<u32> = rest.split('-').next().and_then(|g| g.parse().ok());
        let size = sizes.iter().find(|s| Some(s.0) == group).map(|s| s.1);
        let known = ras.comms.iter().position(|c| !hash.is_empty() && c.hash == hash);
        // One that has errors and warnings is one communicator; the last one is written to.
        let comm = known.map(|at| ras.comms.remove(at));
        ras.comms.push(comm.unwrap_or_else(|| RasComm { hash: hash.into(), size, ..RasComm::default() }));
        *topic = Topic::Other;
        return;
    }
    if matches!(line, "INCOMPLETE" | "DEAD" | "TIMEOUT" | "MISMATCH" | "ERROR") {
        *topic = Topic::Other;
        return;
    }
    if let Some((_, rest)) = line.split_once("ranks have different ") {
        *topic = match rest.split_once("operation count") {
            Some((kind, _)) => Topic::Counts(kind.trim().trim_start_matches("collective").trim().into()),
            None => Topic::Other,
        };
        return;
    }
    if line.starts_with("Missing communicator data") {
        *topic = Topic::Missing;
        return;
    }
    if line.contains("considered dead") && !line.starts_with("Rank ") && !line.starts_with("Process ") {
        *topic = Topic::Dead;
        return;
    }
    if let (Topic::Missing | Topic::Dead, Some(rest)) = (&*topic, line.strip_prefix("Process ")) {
        if ras.lost.len() < 1 << 16 {
            let lost = place(rest, "", None);
            ras.lost.push(RasMissing { dead: *topic == Topic::Dead, ..lost });
        }
        return;
    }
    if ras.comms.is_empty() {
        ras.comms.push(RasComm::default());
    }
    let Some(comm) = ras.comms.last_mut() else { return };
    let launched = line.split_once("launched up to operation ").and_then(|p| {
        let digits: String = p.1.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<i64>().ok()
    });
    let kind = match &*topic {
        Topic::Counts(kind) => kind.clone(),
        _ => String::new(),
    };
    if let (Some(count), Some(many)) = (launched, line.split_whitespace().next().and_then(|n| n.parse().ok()))
    {
        comm.launched.push(RasLaunched { kind, many, count, ranks: RankSet::new() });
        return;
    }
    let Some(rest) = line.strip_prefix("Rank ").or_else(|| line.strip_prefix("rank ")) else {
        if let Some((_, list)) = line.split_once("missing rank") {
            let ranks = RankSet::parse(list.trim_start_matches('s').trim_start_matches(':').trim());
            let ranks = ranks.filter(|r| r.len() <= 1 << 20).unwrap_or_default();
            let of = |rank| RasMissing { rank: Some(rank), ..RasMissing::default() };
            comm.missing.extend(ranks.iter().map(of));
        }
        return;
    };
    let number = rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
    let Some(rank) = number else { return };
    let at = place(rest, "process ", Some(rank));
    let dead = line.contains("dead");
    match (launched, &*topic) {
        (Some(count), _) => {
            comm.ranks.push(RasRank {
                rank,
                host: at.host,
                pid: at.pid,
                counts: vec![(kind, count)],
                ..RasRank::default()
            });
        }
        // Those who stand below a count are the ones that it counts.
        (None, Topic::Counts(_)) => {
            if let Some(of) = comm.launched.last_mut().filter(|l| l.kind == kind) {
                comm.ranks.push(RasRank {
                    rank,
                    host: at.host,
                    pid: at.pid,
                    counts: vec![(kind, of.count)],
                    ..RasRank::default()
                });
                of.ranks.insert(rank);
            }
        }
        (None, Topic::Missing | Topic::Dead) => {
            comm.missing.push(RasMissing { dead: dead || *topic == Topic::Dead, ..at });
        }
        (None, _) if dead || line.contains("unresponsive") || line.contains("not respond") => {
            comm.missing.push(RasMissing { dead, ..at });
        }
        (None, _) => {}
    }
}

/// Process and node that a line names; the process id stands behind `process`.
fn place(rest: &str, process: &str, rank: Option<u32>) -> RasMissing {
    let after = |what: &str| rest.split_once(what).and_then(|p| p.1.split_whitespace().next());
    let pid = after(process).and_then(|p| p.parse().ok());
    let host = after("on node ").unwrap_or("").trim_end_matches([',', '.']).to_string();
    RasMissing { rank, host, pid, dead: false }
}

/// The one process of which nothing is heard is that of the one rank that is missing; several on one node tell the node.
fn join_lost(ras: &mut Ras) {
    let dead = !ras.lost.is_empty() && ras.lost.iter().all(|l| l.dead);
    let one_host = ras.lost.windows(2).all(|w| w[0].host == w[1].host);
    let Some(first) = ras.lost.first().cloned().filter(|_| one_host) else { return };
    let single = ras.lost.len() == 1;
    for comm in &mut ras.comms {
        let one = single && comm.missing.len() == 1;
        for missing in comm.missing.iter_mut().filter(|m| m.host.is_empty()) {
            missing.host.clone_from(&first.host);
            missing.pid = first.pid.filter(|_| one);
            missing.dead |= dead;
        }
    }
    if ras.comms.iter().any(|c| !c.missing.is_empty()) {
        ras.lost.clear();
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
        assert_eq!((comm.hash.as_str(), comm.launched.len()), ("27a079b828ff1a75", 1));
        assert_eq!((comm.launched[0].many, comm.launched[0].count), (7, 13));
        assert_eq!((comm.ranks[0].rank, comm.ranks[0].pid), (3, Some(4711)));
        assert_eq!((comm.ranks[0].host.as_str(), comm.ranks[0].counts[0].1), ("10.0.0.7", 12));
    }

    fn text(body: &str) -> super::Ras {
        let text = format!(
            "NCCL version 2.27.3 compiled with CUDA 12.4\nCUDA runtime version 12040, driver version 12060\n\nJob summary\n\
             ===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n\n      2          4            1          8        8\n\n\
             Communicators... (0.00s)\n=============\n\nGroup     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    \
             #  in group  per comm  per node  per comm  in group\n    0         1         2       3-4        8         7   RUNNING  MISMATCH\n\n{body}"
        );
        match read(text.as_bytes(), "ras.txt") {
            Some((Dump::Ras(ras), _)) => ras,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_list_below_a_count_is_of_those_that_it_counts() {
        let ras = text(
            "Warnings\n========\n\n#0-0 (51f0aa0000000009) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n  \
             6 ranks have launched up to operation 90\n  2 ranks have launched up to operation 89\n  \
             Rank 4 -- GPU 0 managed by process 71 on node 10.0.3.9\n  Rank 6 -- GPU 2 managed by process 73 on node 10.0.3.9\n  \
             Communicator ranks have different status\n  7 ranks have status RUNNING\n  1 ranks have status INIT\n  \
             Rank 7 -- GPU 3 managed by process 74 on node 10.0.3.9\n",
        );
        let comm = &ras.comms[0];
        assert_eq!((comm.size, comm.missing.len(), comm.launched.len()), (Some(8), 0, 2));
        assert_eq!((comm.launched[1].count, comm.launched[1].ranks.to_string()), (89, "4,6".to_string()));
        assert_eq!(
            comm.ranks.iter().map(|r| r.counts[0].clone()).collect::<Vec<_>>(),
            vec![("AllReduce".into(), 89); 2]
        );
    }

    #[test]
    fn the_lost_process_is_that_of_the_missing_rank() {
        let ras = text(
            "Errors\n======\n\nDEAD\n  1 job process is considered dead (unreachable via the RAS network)\n  Process 5512 on node \
             10.0.3.9 managing GPU 1\n\n#0-0 (51f0aa0000000009) INCOMPLETE\n  Missing communicator data from 1 rank\n  The missing rank: 5\n",
        );
        let missing = &ras.comms[0].missing;
        assert_eq!(missing.len(), 1, "{missing:?}");
        assert_eq!(
            (missing[0].rank, missing[0].pid, missing[0].host.as_str()),
            (Some(5), Some(5512), "10.0.3.9")
        );
        assert!(missing[0].dead);
        // Of which rank is not said.
        let ras = text(
            "Errors\n======\n\n#0-0 (51f0aa0000000009) INCOMPLETE\n  Missing communicator data from 1 job process\n  Process 9 on node 10.0.3.8\n",
        );
        assert_eq!((ras.lost.len(), ras.lost[0].host.as_str(), ras.lost[0].dead), (1, "10.0.3.8", false));
    }
}
