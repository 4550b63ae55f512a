//! What tests of hangs ask for: a fleet's dumps, the view of waits and its text, and the report.

use crate::common;
use crate::fleet::{Fleet, Style};
use ncclcheck::report::Report;
use ncclcheck::report::waits::{self, Waits};

pub(crate) type Files = Vec<(String, Vec<u8>)>;

pub(crate) fn dumps(job: &Fleet) -> Files {
    (0..job.ranks.len()).map(|r| (format!("dumps/dump_{r}"), job.dump(r, &Style::default(), 2000))).collect()
}

pub(crate) fn view(files: &Files) -> Waits {
    common::engine().waits(&common::given(files), &common::options()).unwrap()
}

pub(crate) fn text(view: &Waits) -> String {
    let mut out = Vec::new();
    waits::write(view, 100, false, &mut out).unwrap();
    common::strip(&String::from_utf8(out).unwrap())
}

pub(crate) fn read(files: &Files) -> Report {
    common::report(&common::given(files), &common::options())
}
