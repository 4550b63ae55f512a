//! Names: what the name of a file or folder tells of the job that it belongs
//! to. The patterns are data (`rules/tables/layouts.toml`); here they are
//! compiled and applied, one name at a time. What names mean together is
//! worked out in `group`.

use crate::knowledge::{Layout, LayoutKind, LayoutOn};
use regex::Regex;

/// What a name tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Name {
    /// It is no log.
    pub(super) skip: bool,
    /// What is left when endings, parts and words are taken out.
    pub(super) stem: String,
    /// The job's id, and whether it names the job by itself.
    pub(super) id: Option<Id>,
    /// It told a part of a job: a rank, a host.
    pub(super) part: bool,
    /// It is a folder that holds jobs.
    pub(super) holder: bool,
}

/// An id in a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Id {
    /// Names the job by itself (a scheduler's number).
    Sure(String),
    /// Tells a name from others of its kind (a date, a number); the job is the whole name.
    Loose(String),
}

impl Id {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Sure(id) | Self::Loose(id) => id,
        }
    }
}

/// What the first lines of a file say.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Head {
    /// NCCL's names of the first communicators.
    pub(super) comms: Vec<String>,
    /// Numbers of the job.
    pub(super) jobs: Vec<String>,
    /// Where ranks meet.
    pub(super) addresses: Vec<String>,
    /// How many ranks there are.
    pub(super) worlds: Vec<String>,
    /// Ranks that speak; none where these are too many to be told.
    pub(super) ranks: Vec<String>,
    /// A training printed it, or what started one.
    pub(super) program: bool,
}

impl Head {
    /// Adds what another file of the same job says.
    pub(super) fn add(&mut self, more: Self) {
        let pairs = [
            (&mut self.comms, more.comms),
            (&mut self.jobs, more.jobs),
            (&mut self.addresses, more.addresses),
            (&mut self.worlds, more.worlds),
            (&mut self.ranks, more.ranks),
        ];
        for (list, more) in pairs {
            list.extend(more);
            list.sort();
            list.dedup();
        }
        self.program |= more.program;
    }

    /// Whether it names a communicator or job.
    pub(super) fn tells(&self) -> bool {
        !(self.comms.is_empty() && self.jobs.is_empty())
    }

    /// Whether two name the same communicator or job.
    pub(super) fn same(&self, other: &Self) -> bool {
        shared(&self.comms, &other.comms) || shared(&self.jobs, &other.jobs)
    }

    /// Whether two cannot be of one job.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        let apart =
            |a: &[String], b: &[String]| !a.is_empty() && !b.is_empty() && !a.iter().any(|x| b.contains(x));
        !self.same(other) && (apart(&self.jobs, &other.jobs) || apart(&self.comms, &other.comms))
    }

    /// Whether two are different ranks of one world that meet at one address.
    pub(super) fn completes(&self, other: &Self) -> bool {
        shared(&self.addresses, &other.addresses) && self.beside(other)
    }

    /// Whether two tell the same world and different ranks of it.
    fn beside(&self, other: &Self) -> bool {
        let told = |a: &Self| !a.ranks.is_empty() && a.worlds.len() == 1;
        told(self)
            && told(other)
            && self.worlds == other.worlds
            && !shared(&self.ranks, &other.ranks)
            && !self.conflicts(other)
    }

    /// Which of several are the whole of a world together: every rank is in one of them, and in one only.
    pub(super) fn worlds(all: &[Self]) -> Vec<Vec<usize>> {
        let mut by_world: std::collections::BTreeMap<&String, Vec<usize>> = std::collections::BTreeMap::new();
        for (n, head) in all.iter().enumerate() {
            if let [world] = head.worlds.as_slice() {
                by_world.entry(world).or_default().push(n);
            }
        }
        let whole = |(world, list): &(&String, Vec<usize>)| {
            let ranks: usize = list.iter().map(|&n| all[n].ranks.len()).sum();
            let below = |r: &String| r.parse::<usize>().is_ok_and(|r| r < ranks);
            list.len() > 1
                && world.parse() == Ok(ranks)
                && list.iter().all(|&n| all[n].ranks.iter().all(below))
                && list.iter().enumerate().all(|(i, &a)| list[..i].iter().all(|&b| all[a].beside(&all[b])))
        };
        by_world.into_iter().filter(whole).map(|w| w.1).collect()
    }
}

fn shared(a: &[String], b: &[String]) -> bool {
    a.iter().any(|x| b.contains(x))
}

/// Most ids of one kind that are kept of a file.
const IDS: usize = 8;
/// The same for ranks.
const RANKS: usize = 64;

/// The patterns, compiled.
#[derive(Debug)]
pub(super) struct Layouts {
    all: Vec<(LayoutKind, LayoutOn, Regex)>,
    says: Vec<(LayoutKind, regex::bytes::Regex)>,
}

impl Layouts {
    /// Compiles; gives the patterns that are none, with the reason.
    pub(super) fn new(table: &[Layout]) -> (Self, Vec<String>) {
        let mut faults = Vec::new();
        let mut out = Self { all: Vec::new(), says: Vec::new() };
        for layout in table {
            let result = if says(layout.kind) {
                regex::bytes::Regex::new(&layout.pattern).map(|r| out.says.push((layout.kind, r)))
            } else {
                Regex::new(&layout.pattern).map(|r| out.all.push((layout.kind, layout.on, r)))
            };
            if let Err(error) = result {
                faults.push(format!("layout \"{}\": {error}", layout.about));
            }
        }
        (out, faults)
    }

    fn of(&self, kind: LayoutKind, folder: bool) -> impl Iterator<Item = &Regex> {
        self.all
            .iter()
            .filter(move |(k, on, _)| *k == kind && (folder || *on != LayoutOn::Folder))
            .map(|(_, _, r)| r)
    }

    /// Whether a file is no log, by its name.
    pub(super) fn skips(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        name.starts_with('.') || self.of(LayoutKind::Skip, false).any(|r| r.is_match(&name))
    }

    /// What the name of a file tells.
    pub(super) fn file(&self, name: &str) -> Name {
        let mut rest = name.to_lowercase();
        loop {
            let before = rest.len();
            for r in self.of(LayoutKind::Ending, false) {
                if let Some(m) = r.find(&rest)
                    && m.start() > 0
                {
                    rest.truncate(m.start());
                }
            }
            for r in self.of(LayoutKind::Turn, false) {
                if let Some(keep) = r.captures(&rest).and_then(|c| c.name("keep").map(|m| m.end())) {
                    rest.truncate(keep);
                }
            }
            if rest.len() == before {
                break;
            }
        }
        let mut out = self.take_apart(&rest, false);
        out.skip = self.skips(name);
        out
    }

    /// What the name of a folder tells.
    pub(super) fn folder(&self, name: &str) -> Name {
        let lower = name.to_lowercase();
        if self.of(LayoutKind::Holder, true).any(|r| r.is_match(&plain(&lower))) {
            return Name { holder: true, stem: plain(&lower), ..Name::default() };
        }
        let mut out = self.take_apart(&lower, true);
        out.skip = lower.starts_with('.');
        out
    }

    /// What the name of an archive tells as the folder that it is.
    pub(super) fn archive(&self, name: &str) -> Name {
        let file = self.file(name);
        if file.id.is_none() && self.folder(&file.stem).holder {
            return Name { holder: true, ..file };
        }
        file
    }

    fn take_apart(&self, name: &str, folder: bool) -> Name {
        let (mut rest, part) = self.without(LayoutKind::Part, &plain(name), folder);
        let id = self.id(&rest, folder);
        let whole = rest.clone();
        rest = self.without(LayoutKind::Stream, &rest, folder).0;
        let words = self.of(LayoutKind::Word, folder).map(|r| r.find_iter(&rest).count()).sum::<usize>();
        rest = self.without(LayoutKind::Word, &rest, folder).0;
        // A folder that is called by several words is no part of a job but has a name of its own.
        if folder && rest.is_empty() && (words > 1 || words == 1 && part) {
            rest = whole;
        }
        Name { stem: rest, id, part, ..Name::default() }
    }

    fn id(&self, name: &str, folder: bool) -> Option<Id> {
        // The first that fits decides, whichever of the two kinds it is.
        let fitting = self.all.iter().filter(|(kind, on, _)| {
            matches!(kind, LayoutKind::Job | LayoutKind::Loose) && (folder || *on != LayoutOn::Folder)
        });
        for (kind, _, regex) in fitting {
            let Some(id) = regex.captures(name).and_then(|c| c.name("id").map(|m| m.as_str().to_string()))
            else {
                continue;
            };
            // A pod's name holds its part; a number is nothing but the id.
            let named = id.contains(|c: char| c.is_alphabetic());
            let id = if named { self.without(LayoutKind::Part, &id, folder).0 } else { id };
            if !id.is_empty() {
                return Some(if *kind == LayoutKind::Job { Id::Sure(id) } else { Id::Loose(id) });
            }
        }
        None
    }

    /// The name without what a kind of layout matches, and whether there was something.
    fn without(&self, kind: LayoutKind, name: &str, folder: bool) -> (String, bool) {
        let mut rest = name.to_string();
        let mut any = false;
        for r in self.of(kind, folder) {
            if r.is_match(&rest) {
                any = true;
                rest = plain(&r.replace_all(&rest, "-"));
            }
        }
        (rest, any)
    }

    /// What the first lines say.
    pub(super) fn head(&self, bytes: &[u8]) -> Head {
        let ids = |kind: LayoutKind, most: usize| {
            let mut out: Vec<String> = Vec::new();
            for (_, r) in self.says.iter().filter(|s| s.0 == kind) {
                for c in r.captures_iter(bytes) {
                    let Some(m) = c.name("id") else { continue };
                    let id = String::from_utf8_lossy(m.as_bytes()).into_owned();
                    if !out.contains(&id) && out.len() <= most {
                        out.push(id);
                    }
                }
            }
            out.sort();
            out
        };
        let few = |kind| ids(kind, IDS - 1);
        let mut addresses = few(LayoutKind::SaysAddress);
        addresses.retain(|a| a != "localhost" && !a.starts_with("127."));
        Head {
            comms: few(LayoutKind::SaysComm),
            jobs: few(LayoutKind::SaysJob),
            addresses,
            worlds: few(LayoutKind::SaysWorld),
            ranks: Some(ids(LayoutKind::SaysRank, RANKS)).filter(|r| r.len() <= RANKS).unwrap_or_default(),
            program: self.says.iter().any(|(kind, r)| *kind == LayoutKind::SaysProgram && r.is_match(bytes)),
        }
    }
}

/// Whether a layout is for first lines, not for names.
fn says(kind: LayoutKind) -> bool {
    use LayoutKind::{SaysAddress, SaysComm, SaysJob, SaysProgram, SaysRank, SaysWorld};
    matches!(kind, SaysComm | SaysJob | SaysAddress | SaysWorld | SaysRank | SaysProgram)
}

/// With one `-` for everything that separates, and none at the ends.
fn plain(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        let c = if c.is_alphanumeric() { c } else { '-' };
        if c != '-' || !(out.is_empty() || out.ends_with('-')) {
            out.push(c);
        }
    }
    out.truncate(out.trim_end_matches('-').len());
    out
}

/// Tries the samples of the table; gives what differs.
pub(super) fn check(table: &[Layout]) -> Vec<String> {
    let (_, mut faults) = Layouts::new(table);
    for layout in table {
        for (sample, want) in &layout.sample {
            let (all, _) = Layouts::new(std::slice::from_ref(layout));
            // Of what stands alone here only the endings of other layouts are missing.
            let got = match layout.kind {
                LayoutKind::Skip if all.skips(sample) => String::new(),
                LayoutKind::Skip => "it is read".into(),
                LayoutKind::Ending | LayoutKind::Turn => {
                    let (lower, mut rest) = (sample.to_lowercase(), sample.to_lowercase());
                    for r in all.of(layout.kind, true) {
                        if let Some(m) = r.captures(&lower) {
                            rest.truncate(
                                m.name("keep").map_or(m.get(0).map_or(0, |m| m.start()), |k| k.end()),
                            );
                        }
                    }
                    rest
                }
                LayoutKind::Holder if all.folder(sample).holder => String::new(),
                LayoutKind::Holder => "it is no such folder".into(),
                LayoutKind::SaysProgram if all.head(sample.as_bytes()).program => "yes".into(),
                LayoutKind::SaysComm
                | LayoutKind::SaysJob
                | LayoutKind::SaysAddress
                | LayoutKind::SaysWorld
                | LayoutKind::SaysRank
                | LayoutKind::SaysProgram => {
                    let head = all.head(sample.as_bytes());
                    [head.comms, head.jobs, head.addresses, head.worlds, head.ranks].concat().join(",")
                }
                LayoutKind::Part
                | LayoutKind::Stream
                | LayoutKind::Word
                | LayoutKind::Job
                | LayoutKind::Loose => {
                    let (whole, _) = Layouts::new(table);
                    let folder = layout.on == LayoutOn::Folder;
                    let name = if folder { whole.folder(sample) } else { whole.file(sample) };
                    match layout.kind {
                        LayoutKind::Part | LayoutKind::Stream | LayoutKind::Word => name.stem,
                        _ => name.id.map_or(String::new(), |id| id.text().to_string()),
                    }
                }
            };
            if got != *want {
                faults.push(format!(
                    "layout \"{}\": \"{sample}\" gives \"{got}\", not \"{want}\"",
                    layout.about
                ));
            }
        }
    }
    faults
}
