//! `ncclcheck diagnose [PATH…]`: the main job.

use super::args::{Diagnose, Format, Global};
use super::out::{FINE, FOUND, Fail, columns, print};
use super::sources;
use crate::report::text::{self, Style};
use crate::report::{Report, Verdict, write_json};

pub(super) fn run(global: &Global, args: &Diagnose) -> Result<u8, Fail> {
    let (given, options) = sources::given(&args.sources)?;
    let engine = sources::engine(global)?;
    let mut report = engine.diagnose(&given, &options).map_err(|err| err.to_string())?;
    let sources: Vec<(&str, u64)> = report.inputs.iter().map(|i| (i.path.as_str(), i.bytes)).collect();
    report.job.several = crate::scan::several(&engine.knowledge, &sources);
    if let Some(index) = &args.archive {
        super::scan::remember(&mut report, index)?;
    }
    print(global.color, status(&report), |out| match args.format {
        Format::Json => write_json(&report, out),
        Format::Text => {
            let width = args.width.map_or_else(columns, usize::from);
            text::write(&report, Style { width, verbose: args.verbose }, out)
        }
    })
}

/// 0 nothing wrong was found, 1 something was.
fn status(report: &Report) -> u8 {
    match report.verdict {
        Verdict::Healthy => FINE,
        Verdict::Inconclusive if report.diagnoses.is_empty() => FINE,
        Verdict::Fault | Verdict::Degraded | Verdict::Inconclusive => FOUND,
    }
}
