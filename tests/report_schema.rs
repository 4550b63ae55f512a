//! What the outside may rely on: the keys of the JSON report, the words in it,
//! and that every quoted line stands where the report says.

#![allow(clippy::unwrap_used, dead_code, reason = "a test; it shares helpers")]

mod common;

use serde_json::Value;
use std::collections::BTreeMap;

/// Keys of each object; those of the contract first, behind `+` those that were added to it.
const REPORT: &str =
    "schema verdict summary diagnoses job attempts notices timeline inputs + not_seen folded";
const DIAGNOSIS: &str = "cause title why confidence severity culprits evidence explains fixes \
                         + mistaken_for alternatives references known_bugs";
const CULPRITS: &str = "ranks hosts devices";
const EVIDENCE: &str = "source line time rank host text cut + time_text rank_by message count";
const CONSEQUENCE: &str = "ranks count evidence";
const FIX: &str = "intent text env cost verify";
const ALTERNATIVE: &str = "+ cause title confidence";
const JOB: &str = "+ world_size ranks_seen ranks_not_seen ranks hosts versions devices communicators networks \
                   environment first last last_step end contradictions several";
const RANK: &str = "+ rank state last end";
const END: &str = "state how evidence";
const ATTEMPT: &str = "n first last end cause";
const INPUT: &str = "path bytes lines problems";

struct Checker {
    at: String,
    faults: Vec<String>,
}

impl Checker {
    fn wrong(&mut self, what: impl std::fmt::Display) {
        self.faults.push(format!("{}: {what}", self.at));
    }

    fn keys(&mut self, what: &str, value: &Value, keys: &str) {
        let Some(object) = value.as_object() else {
            return self.wrong(format!("{what} is no object: {value}"));
        };
        let mut wanted: Vec<&str> = keys.split_whitespace().filter(|k| *k != "+").collect();
        let mut got: Vec<&str> = object.keys().map(String::as_str).collect();
        wanted.sort_unstable();
        got.sort_unstable();
        if wanted != got {
            self.wrong(format!("{what} has {got:?}, not {wanted:?}"));
        }
    }

    fn each(&mut self, what: &str, value: &Value, one: fn(&mut Self, &Value)) {
        match value.as_array() {
            Some(list) => list.iter().for_each(|v| one(self, v)),
            None => self.wrong(format!("{what} is no list")),
        }
    }

    fn word(&mut self, what: &str, value: &Value, of: &[&str]) {
        if !value.as_str().is_some_and(|w| of.contains(&w)) {
            self.wrong(format!("{what} is {value}"));
        }
    }

    fn evidence(&mut self, v: &Value) {
        self.keys("evidence", v, EVIDENCE);
        let fine = v["source"].is_string()
            && v["line"].as_u64().is_some_and(|n| n > 0)
            && v["text"].is_string()
            && v["cut"].is_boolean()
            && (v["rank"].is_null() || v["rank"].is_u64())
            && (v["host"].is_null() || v["host"].is_string());
        if !fine {
            self.wrong(format!("evidence {v}"));
        }
        if let Some(time) = v["time"].as_str()
            && !(time.len() >= 19 && &time[4..5] == "-" && &time[10..11] == "T")
        {
            self.wrong(format!("no time of RFC 3339: {time}"));
        }
    }

    fn diagnosis(&mut self, v: &Value) {
        self.keys("diagnosis", v, DIAGNOSIS);
        self.keys("culprits", &v["culprits"], CULPRITS);
        let p = v["confidence"].as_f64().unwrap_or(-1.0);
        if !(0.0..=1.0).contains(&p) {
            self.wrong(format!("confidence {p}"));
        }
        for key in ["cause", "title", "why"] {
            let text = v[key].as_str().unwrap_or("");
            if text.is_empty() || text.contains("{") && text.contains("}") && key == "title" {
                self.wrong(format!("{key} of {} is {text:?}", v["cause"]));
            }
        }
        if v["cause"] == "ok/clean" {
            self.wrong("ok/clean stands among the diagnoses");
        }
        self.each("evidence", &v["evidence"], Self::evidence);
        self.each("explains", &v["explains"], Self::consequence);
        self.each("fixes", &v["fixes"], Self::fix);
        self.each("alternatives", &v["alternatives"], |c, v| c.keys("alternative", v, ALTERNATIVE));
    }

    fn consequence(&mut self, v: &Value) {
        let named: Vec<&str> = ["cause", "symptom"].into_iter().filter(|k| v[*k].is_string()).collect();
        if named.is_empty() {
            self.wrong(format!("a consequence has a cause or a symptom: {v}"));
        }
        self.keys("consequence", v, &format!("{} {CONSEQUENCE}", named.join(" ")));
        self.each("evidence", &v["evidence"], Self::evidence);
    }

    fn fix(&mut self, v: &Value) {
        self.keys("fix", v, FIX);
        self.word("intent", &v["intent"], &["fix", "workaround", "diagnostic"]);
        if !(v["env"].is_null() || v["env"].is_object()) || v["text"].as_str().is_none_or(str::is_empty) {
            self.wrong(format!("fix {v}"));
        }
    }

    fn report(&mut self, v: &Value) {
        self.keys("report", v, REPORT);
        if v["schema"] != "ncclcheck.report/1" || v["summary"].as_str().is_none_or(str::is_empty) {
            self.wrong("schema or summary");
        }
        self.word("verdict", &v["verdict"], &["fault", "degraded", "healthy", "inconclusive"]);
        self.each("diagnoses", &v["diagnoses"], Self::diagnosis);
        self.each("notices", &v["notices"], Self::diagnosis);
        for d in v["diagnoses"].as_array().into_iter().flatten() {
            self.word("severity", &d["severity"], &["fatal", "degraded"]);
        }
        for d in v["notices"].as_array().into_iter().flatten() {
            self.word("severity", &d["severity"], &["notice"]);
        }
        if v["verdict"] == "healthy" && v["diagnoses"] != serde_json::json!([]) {
            self.wrong("healthy with diagnoses");
        }
        if v["verdict"] == "fault" && v["diagnoses"][0]["severity"] != "fatal" {
            self.wrong("a fault whose first diagnosis is not fatal");
        }
        self.each("timeline", &v["timeline"], Self::evidence);
        self.each("attempts", &v["attempts"], |c, v| c.keys("attempt", v, ATTEMPT));
        self.each("inputs", &v["inputs"], |c, v| c.keys("input", v, INPUT));
        let job = &v["job"];
        self.keys("job", job, JOB);
        self.keys("end", &job["end"], END);
        let states = ["well", "failed", "killed", "stuck", "at work", "not seen"];
        self.word("end", &job["end"]["state"], &states);
        self.each("evidence of the end", &job["end"]["evidence"], Self::evidence);
        self.each("ranks", &job["ranks"], |c, v| {
            c.keys("rank", v, RANK);
            c.word("state", &v["state"], &["heard", "silent", "not given"]);
            if !v["last"].is_null() {
                c.evidence(&v["last"]);
            }
        });
        self.each("hosts", &job["hosts"], |c, v| c.keys("host", v, "+ name ranks"));
    }
}

/// All objects in a report that quote a line.
fn quotes<'v>(v: &'v Value, out: &mut Vec<&'v Value>) {
    match v {
        Value::Object(o) if o.contains_key("source") && o.contains_key("line") => out.push(v),
        Value::Object(o) => o.values().for_each(|v| quotes(v, out)),
        Value::Array(a) => a.iter().for_each(|v| quotes(v, out)),
        _ => {}
    }
}

/// Quotes that do not stand where they say; how many were looked at.
fn misplaced(files: &[(String, Vec<u8>)], report: &Value, faults: &mut Vec<String>) -> usize {
    let lines: BTreeMap<&str, Vec<String>> = files
        .iter()
        .map(|(name, data)| {
            let lines = data
                .split(|b| *b == b'\n')
                .map(|l| String::from_utf8_lossy(l.strip_suffix(b"\r").unwrap_or(l)).into_owned());
            (name.as_str(), lines.collect())
        })
        .collect();
    let mut all = Vec::new();
    quotes(report, &mut all);
    let mut looked = 0;
    for q in all {
        // What is shortened or masked differs from the line by intention.
        let text = q["text"].as_str().unwrap();
        let source = q["source"].as_str().unwrap();
        let Some(lines) = lines.get(source) else {
            faults.push(format!("no such source: {source}"));
            continue;
        };
        let at = q["line"].as_u64().unwrap() as usize;
        let there = lines.get(at - 1).map_or("", String::as_str);
        // Several lines that were broken by a terminal or a container runtime are quoted as one.
        let there = if text.contains('\n') {
            let n = text.lines().count();
            lines[at - 1..(at - 1 + n).min(lines.len())].join("\n")
        } else {
            there.to_string()
        };
        if q["cut"] == true || text.contains("***") {
            continue;
        }
        looked += 1;
        if text.trim_end() != there.trim_end() {
            faults.push(format!("{source}:{at} ({}):\n  quoted {text:?}\n  there  {there:?}", q["message"]));
        }
    }
    looked
}

#[test]
fn reports_have_the_keys_of_the_contract() {
    let mut checker = Checker { at: String::new(), faults: Vec::new() };
    for kind in ["cases", "healthy"] {
        for (name, _) in common::all(kind) {
            checker.at = format!("{kind}/{name}");
            let files = common::input(kind, &name);
            let report = common::json(&common::report(&common::given(&files), &common::options()));
            checker.report(&report);
            let mut faults = Vec::new();
            misplaced(&files, &report, &mut faults);
            faults.into_iter().for_each(|f| checker.wrong(f));
        }
    }
    checker.at = "empty".into();
    checker.report(&common::json(&common::report_on("")));
    assert!(checker.faults.is_empty(), "{} faults:\n{}", checker.faults.len(), checker.faults.join("\n"));
}

/// With the line ends of another system all is the same, line numbers too.
#[test]
fn carriage_returns_before_line_ends_change_nothing() {
    let mut faults = Vec::new();
    let mut looked = 0;
    for (name, _) in common::all("cases") {
        let plain = common::input("cases", &name);
        let text = |data: &[u8]| !data.contains(&b'\r') && std::str::from_utf8(data).is_ok();
        if !plain.iter().all(|(_, data)| text(data)) {
            continue;
        }
        let crlf: Vec<(String, Vec<u8>)> = plain
            .iter()
            .map(|(name, data)| {
                (name.clone(), String::from_utf8_lossy(data).replace('\n', "\r\n").into_bytes())
            })
            .collect();
        let mut a = common::json(&common::report(&common::given(&plain), &common::options()));
        let mut b = common::json(&common::report(&common::given(&crlf), &common::options()));
        looked += misplaced(&crlf, &b, &mut faults);
        for v in [&mut a, &mut b] {
            for input in v["inputs"].as_array_mut().unwrap() {
                input["bytes"] = Value::Null;
            }
        }
        if let Some(d) = common::difference(&a, &b) {
            faults.push(format!("{name}{d}"));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(looked > 100, "only {looked} quotes could be compared");
}

#[test]
fn a_line_past_two_mebibytes_has_its_number() {
    let filler = "[rank0]: DEBUG data: prefetched shard 4711, queue depth 12\n";
    let n = (2 << 20) / filler.len();
    let log = format!(
        "{}[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/home/u/train.py\", line 7, in <module>\n\
         [rank1]:     main()\n[rank1]: ValueError: batch must be positive\n{}",
        filler.repeat(n),
        filler.repeat(n)
    );
    for block in [1 << 10, 1 << 20] {
        let options = ncclcheck::engine::Options { block, ..common::options() };
        let report = common::report(&[common::bytes("job.log", log.as_bytes())], &options);
        let d = report.diagnoses.first().expect("a diagnosis");
        assert_eq!(d.evidence[0].line, n as u64 + 4, "{:?}", d.evidence);
        assert_eq!(report.inputs[0].lines, 2 * n as u64 + 4);
    }
}
