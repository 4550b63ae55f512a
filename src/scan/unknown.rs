//! Lines that nobody knows over all jobs of one index or of several: each job
//! was counted when it was read, and is added here once.

use super::index::Index;
use super::record::Record;
use crate::templates::Store;
use std::collections::HashMap;
use std::hash::Hasher;
use std::path::PathBuf;

/// What indexes remember of such lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The jobs, added up.
    pub store: Store,
    /// Jobs that were read by a program that did not keep such lines.
    pub without: u64,
}

/// How much a record was read from; of one job in several indexes the one that was read from more counts, as in
/// [`super::merge`].
type Weight = (u64, u64, u64);

/// Adds up what indexes remember.
///
/// # Errors
/// When one of them cannot be read.
pub fn unknown(indexes: &[PathBuf]) -> Result<Remembered, String> {
    let mut chosen: HashMap<(String, String), (Weight, (usize, String))> = HashMap::new();
    let open = |path: &PathBuf| Index::read_only(path);
    for (n, path) in indexes.iter().enumerate() {
        let index = open(path)?;
        let mut take = |place: &str, record: Record, _| {
            let mut sum = twox_hash::XxHash64::with_seed(0);
            sum.write(serde_json::to_string(&record).unwrap_or_default().as_bytes());
            let weight = (record.bytes_read, record.files, sum.finish());
            let here = (n, place.to_string());
            let known = chosen.entry((record.job, record.path)).or_insert_with(|| (weight, here.clone()));
            if weight > known.0 {
                *known = (weight, here);
            }
        };
        index.unknown(&mut take).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let mut out = Remembered::default();
    for (n, path) in indexes.iter().enumerate() {
        let mut add = |place: &str, record: Record, shapes| {
            let read = record.verdict != "unread";
            let here = chosen.get(&(record.job, record.path)).is_some_and(|c| c.1.0 == n && c.1.1 == place);
            match shapes {
                Some(shapes) if here => out.store.add(shapes),
                None if here && read => out.without += 1,
                _ => {}
            }
        };
        open(path)?.unknown(&mut add).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(out)
}
