//! Conditions in plain words, for `rules show` and `rules why`.

use crate::catalogue::Catalogue;
use crate::knowledge::{Cond, Kind, Role};

/// What each detector looks for; `docs/architecture.md` has the same table.
const DETECTORS: [(&str, &str); 30] = [
    ("silent-rank", "a few ranks that do not report waiting where all others do"),
    ("waits-all", "that every known rank waits, so that nobody is missing"),
    ("waits-behind", "a few ranks that wait in an earlier operation than the others"),
    ("waits-mismatch", "ranks that wait in different operations at the same number"),
    ("told-only", "a rank that was told of a timeout by others, had none itself and is not seen to wait"),
    ("stack-outlier", "a few ranks whose stacks stand in no collective while most do"),
    ("stacks-wait", "stacks that all stand in a collective or wait for the device"),
    ("ras-behind", "ranks that have launched less than the others in the only answer of RAS"),
    ("members-missing", "fewer ranks starting than the world size declares"),
    ("dump-missing", "Flight Recorder dumps in which ranks never entered the operation of the others"),
    ("dump-absent", "ranks without a readable Flight Recorder dump beside those of the others"),
    ("dump-mismatch", "Flight Recorder dumps with different operations, or another order"),
    ("dump-stuck", "Flight Recorder dumps in which all entered and none finished"),
    ("step-behind", "a rank whose own progress lines stop before those of the others"),
    ("exit-zero-early", "a rank that ended with status 0 in a run that did not end well"),
    ("left-quietly", "a rank that neither failed nor had to be ended, while all others lost somebody"),
    ("silent-end", "one rank that ended with an error and no word, while others lost somebody"),
    ("failed-no-cause", "a run that ended badly without any other rule that explains it"),
    ("hang-no-cause", "ranks that waited without any other rule that explains it"),
    ("silent-until-ended", "a job that said nothing for long before it was ended from outside"),
    ("differs", "ranks that differ in what must be the same"),
    ("generations", "processes whose lines are worded as different releases do"),
    ("env-bad", "a variable with a value that is not accepted, or a misspelt name"),
    ("env-leftover", "a variable that is often left over from another machine or test"),
    ("network-socket", "sockets in use although RDMA devices show up"),
    ("fewer-devices", "a host that lists fewer adapters than most others"),
    ("hang-after-table", "the head of nccl-tests' table and no row behind it"),
    ("memory-growth", "host memory that grows at least fourfold, beyond 16 GB"),
    ("one-rank-ended", "exactly one rank that ended by itself"),
    ("unknown-warn", "a WARN of NCCL that no message knows"),
];

/// A condition as a part of a sentence: what is looked for.
#[must_use]
pub fn condition(cond: &Cond, catalogue: &Catalogue) -> String {
    let mut out = head(cond, catalogue);
    let mut add = |text: String| {
        out.push_str(", ");
        out.push_str(&text);
    };
    let fields: Vec<String> = cond.fields.iter().map(|(name, v)| format!("{name} {}", value(v))).collect();
    if !fields.is_empty() {
        add(format!("with {}", fields.join(" and ")));
    }
    if let Some(n) = cond.count {
        add(format!("at least {n} times"));
    }
    if let Some(n) = cond.ranks {
        add(format!("by at least {n} ranks"));
    }
    for (word, list) in [("behind", cond.after()), ("before", cond.before())] {
        if !list.is_empty() {
            add(format!("{word} {} of the same speaker", messages(&list, catalogue)));
        }
    }
    match cond.on.as_deref() {
        Some("process") => add("in the same process as the first".into()),
        Some("host") => add("on the same host as the first".into()),
        _ => {}
    }
    out
}

/// What is asked for, without its limits.
fn head(cond: &Cond, catalogue: &Catalogue) -> String {
    if let Some(name) = &cond.detector {
        let known = DETECTORS.iter().find(|d| d.0 == name);
        let what = cond.what.as_ref().map_or(String::new(), |w| format!(" ({w})"));
        return match known {
            Some((_, sees)) => format!("{sees}{what} [{name}]"),
            None => format!("what the detector {name} sees{what}"),
        };
    }
    let list = cond.message();
    if !list.is_empty() {
        return messages(&list, catalogue);
    }
    if let Some(how) = &cond.ended {
        return ended(how, cond.signal, cond.exit);
    }
    if let Some(name) = &cond.env {
        let values = cond.value();
        return match (cond.differs, cond.set, values.is_empty()) {
            (Some(true), ..) => format!("the variable {name}, with other values on other ranks"),
            (_, Some(false), _) => format!("that the variable {name} is not set"),
            (_, _, false) => format!("the variable {name} set to {}", values.join(" or ")),
            _ => format!("the variable {name} being set"),
        };
    }
    for (program, range) in [("NCCL", &cond.nccl), ("torch", &cond.torch)] {
        if let Some(range) = range {
            return format!("a {program} release of {range}");
        }
    }
    let states = cond.state();
    if !states.is_empty() {
        return format!("a run whose end is: {}", states.join(" or "));
    }
    match (cond.role, cond.kind) {
        (Some(role), _) => match role {
            Role::First => "any line of a first cause".into(),
            Role::Victim => "any line of a victim".into(),
            Role::Symptom => "any line that says something failed".into(),
            Role::Harmless => "any line that looks bad and means nothing".into(),
            Role::Fact => "any line that states a fact".into(),
        },
        (None, Some(kind)) => kind_words(kind),
        (None, None) => "anything".into(),
    }
}

fn messages(list: &[String], catalogue: &Catalogue) -> String {
    if let [one] = list
        && let Some(id) = catalogue.message(one)
    {
        let about = catalogue.messages[usize::from(id)].about.trim_end_matches('.');
        return format!("the message “{about}” [{one}]");
    }
    let each: Vec<String> = list
        .iter()
        .map(|m| {
            m.strip_suffix('*').map_or_else(|| m.clone(), |start| format!("any that begins with {start}"))
        })
        .collect();
    match each.as_slice() {
        [one] => format!("a message, {one}"),
        _ => format!("one of the messages {}", each.join(", ")),
    }
}

fn ended(how: &str, signal: Option<i64>, exit: Option<i64>) -> String {
    match (how, signal, exit) {
        (_, Some(n), _) => format!("a process that ended by signal {n}"),
        (_, _, Some(n)) => format!("a process that ended with status {n}"),
        ("exception", ..) => "a process that ended by an exception".into(),
        ("killed", ..) => "a process that its launcher ended".into(),
        ("oom", ..) => "a process that was killed for memory".into(),
        ("well", ..) => "a process that ended well".into(),
        ("signal", ..) => "a process that ended by a signal".into(),
        ("exit", ..) => "a process that ended with a status other than 0".into(),
        (other, ..) => format!("a process that ended by {other}"),
    }
}

fn kind_words(kind: Kind) -> String {
    match kind {
        Kind::Waits => "any line of a rank that waits in a collective".into(),
        Kind::Step => "any line of training that goes on".into(),
        Kind::Exception => "any exception".into(),
        Kind::Ends => "any line about the end of a process".into(),
        Kind::Killed => "any process that its launcher ended".into(),
        Kind::Fails => "any line of something that failed".into(),
        Kind::Device => "any line of the kernel or driver about a device".into(),
        Kind::EndsWell => "any word of the program that its work is done".into(),
        Kind::Cancelled => "any word that the scheduler or a person ended the job".into(),
        other => format!("any message of the kind {}", format!("{other:?}").to_lowercase()),
    }
}

/// A value of `where`, as the rule files have it.
fn value(v: &toml::Value) -> String {
    let plain = |v: &toml::Value| v.as_str().map_or_else(|| v.to_string(), str::to_string);
    let list = |l: &[toml::Value]| l.iter().map(plain).collect::<Vec<_>>().join(" or ");
    match v {
        toml::Value::Array(l) => list(l),
        toml::Value::Table(t) => {
            let parts: Vec<String> = t
                .iter()
                .map(|(key, v)| match (key.as_str(), v) {
                    ("min", v) => format!("at least {}", plain(v)),
                    ("max", v) => format!("at most {}", plain(v)),
                    ("has", v) => format!("containing \"{}\"", plain(v)),
                    ("unset", toml::Value::Boolean(false)) => "given".into(),
                    ("unset", _) => "not given".into(),
                    ("not", toml::Value::Array(l)) => format!("other than {}", list(l)),
                    ("not", v) => format!("other than {}", plain(v)),
                    (key, v) => format!("{key} {}", plain(v)),
                })
                .collect();
            parts.join(" and ")
        }
        v => plain(v),
    }
}

#[cfg(test)]
mod tests {
    use super::{DETECTORS, condition};
    use crate::catalogue::Catalogue;
    use crate::knowledge::{Cond, Knowledge};

    #[test]
    fn every_detector_has_words() {
        for name in super::super::detectors::NAMES {
            assert!(DETECTORS.iter().any(|d| d.0 == name), "{name}");
        }
    }

    #[test]
    fn conditions_read_as_parts_of_a_sentence() {
        let (knowledge, _) = Knowledge::built_in();
        let catalogue = Catalogue::new(&knowledge);
        let of = |text: &str| condition(&toml::from_str::<Cond>(text).unwrap(), &catalogue);
        assert_eq!(
            of("message = \"nccl.setting\"\nwhere = { name = [\"A\", \"B\"] }\ncount = 2"),
            "the message “A variable as NCCL understood it, from the environment or a configuration file” \
             [nccl.setting], with name A or B, at least 2 times"
        );
        assert_eq!(of("message = [\"a.b\", \"c.*\"]"), "one of the messages a.b, any that begins with c.");
        assert_eq!(
            of("kind = \"waits\"\non = \"process\""),
            "any line of a rank that waits in a collective, in the same process as the first"
        );
        assert_eq!(of("ended = \"signal\"\nsignal = 9"), "a process that ended by signal 9");
        assert_eq!(
            of("detector = \"silent-rank\""),
            "a few ranks that do not report waiting where all others do [silent-rank]"
        );
    }
}
