//! The index: what has been read, so that a second scan reads only what is new
//! or has grown, an interrupted one goes on, and later questions need no logs.
//! One SQLite file; each job is written in one step together with what it was
//! read from, so a program that is killed leaves whole jobs only.

use super::archive::Member;
use super::layout::Head;
use super::record::Record;
use crate::templates::JobTemplates;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// Version of the tables; another one is not read.
const SCHEMA: i64 = 1;
/// Told apart from other SQLite files by this number (`ncck`).
const APPLICATION: i64 = 0x6e63_636b;

/// What is remembered of a file.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) size: u64,
    pub(super) mtime: i64,
    /// 0 until a job with it has been read.
    pub(super) mark: i64,
    pub(super) head: Option<Head>,
    pub(super) members: Option<Vec<Member>>,
}

/// A job as it stands in the index.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What was found.
    pub record: Record,
    /// The report for programs.
    pub json: String,
    /// The report for people.
    pub text: String,
    /// Files that it was read from, as the disk has them; none before it stands in the index.
    pub files: Vec<String>,
    /// Its lines that nobody knows, by shape; none where it could not be read or is asked for by name.
    pub unknown: Option<JobTemplates>,
}

/// An open index.
#[derive(Debug)]
pub struct Index {
    db: Connection,
}

/// Why an index cannot be used, in one line.
type Fault = String;

const NO_INDEX: &str = "is no index of ncclcheck";

/// A database that is only read, and that nobody writes.
fn uri(path: &Path) -> String {
    let mut out = String::from("file:");
    for byte in path.to_string_lossy().replace('\\', "/").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' | b':' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out + "?immutable=1"
}

fn fault(error: &rusqlite::Error) -> Fault {
    error.to_string()
}

impl Index {
    /// Opens an index, and makes it where there is none.
    ///
    /// # Errors
    /// When the file cannot be written, is no index, or one of another version.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        let tell = |e: rusqlite::Error| format!("{}: {}", path.display(), fault(&e));
        let db = Connection::open(path).map_err(tell)?;
        Self::start(db, true).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// An index that is forgotten afterwards.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn in_memory() -> Result<Self, Fault> {
        Self::start(Connection::open_in_memory().map_err(|e| fault(&e))?, true)
    }

    /// Opens an index for questions only.
    ///
    /// # Errors
    /// When there is none, or it is of another version.
    pub fn read_only(path: &Path) -> Result<Self, Fault> {
        if !path.is_file() {
            return Err(format!("{}: no index there; `ncclcheck scan` makes one", path.display()));
        }
        let tell = |e: Fault| format!("{}: {e}", path.display());
        let open = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let first = open.map_err(|e| fault(&e)).and_then(|db| Self::start(db, false));
        // What is written at the same time is told apart by files beside it. Who may not make these, and finds none,
        // reads it as it is: nobody is writing.
        let wal = Path::new(&format!("{}-wal", path.display())).metadata().is_ok_and(|m| m.len() > 0);
        let (Err(error), Ok(whole), false) = (&first, std::fs::canonicalize(path), wal) else {
            return first.map_err(tell);
        };
        if error.ends_with(NO_INDEX) {
            return first.map_err(tell);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(uri(&whole), flags)
            .map_err(|e| fault(&e))
            .and_then(|db| Self::start(db, false))
            .map_err(tell)
    }

    fn start(db: Connection, make: bool) -> Result<Self, Fault> {
        let sql = |e: rusqlite::Error| match e.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => NO_INDEX.to_string(),
            _ => fault(&e),
        };
        db.busy_timeout(Duration::from_secs(60)).map_err(sql)?;
        let number = |what: &str| db.pragma_query_value(None, what, |row| row.get::<_, i64>(0));
        let (own, version) = (number("application_id").map_err(sql)?, number("user_version").map_err(sql)?);
        let tables: i64 =
            db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(sql)?;
        if tables > 0 && own != APPLICATION {
            return Err(NO_INDEX.into());
        }
        if tables > 0 && version != SCHEMA {
            return Err(format!("is an index of version {version}; this program reads version {SCHEMA}"));
        }
        if make {
            // Not every file system can do this; without it commits take longer.
            let _ = db.pragma_update(None, "journal_mode", "WAL");
            db.pragma_update(None, "synchronous", "NORMAL").map_err(sql)?;
        }
        if make && tables == 0 {
            db.execute_batch(&format!(
                "BEGIN;
                 CREATE TABLE IF NOT EXISTS file(
                     path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime INTEGER NOT NULL, mark INTEGER NOT NULL,
                     head TEXT, members TEXT) WITHOUT ROWID;
                 CREATE TABLE IF NOT EXISTS job(
                     place TEXT NOT NULL, job TEXT NOT NULL, inputs INTEGER NOT NULL, knowledge INTEGER NOT NULL,
                     files TEXT NOT NULL,
                     record TEXT NOT NULL, json BLOB NOT NULL, text BLOB NOT NULL, PRIMARY KEY(place, job));
                 PRAGMA application_id = {APPLICATION};
                 PRAGMA user_version = {SCHEMA};
                 COMMIT;"
            ))
            .map_err(sql)?;
        }
        // Added later than the version of the tables, which it does not change: an index without it is a good one.
        if make {
            db.execute_batch(
                "CREATE TABLE IF NOT EXISTS unknown(
                     place TEXT NOT NULL, job TEXT NOT NULL, shapes BLOB NOT NULL, PRIMARY KEY(place, job));",
            )
            .map_err(sql)?;
        }
        Ok(Self { db })
    }

    /// All files that are remembered below a place.
    pub(super) fn files(&self, place: &str) -> Result<HashMap<String, Seen>, Fault> {
        let run = || -> rusqlite::Result<HashMap<String, Seen>> {
            let mut query = self.db.prepare(
                "SELECT path, size, mtime, mark, head, members FROM file WHERE path = ?1 OR (path > ?2 AND path < ?3)",
            )?;
            let (from, to) = below(place);
            let rows = query.query_map(params![place, from, to], |row| {
                let json = |n: usize| row.get::<_, Option<String>>(n);
                Ok((
                    row.get::<_, String>(0)?,
                    Seen {
                        size: row.get::<_, i64>(1)?.cast_unsigned(),
                        mtime: row.get(2)?,
                        mark: row.get(3)?,
                        head: json(4)?.and_then(|t| serde_json::from_str(&t).ok()),
                        members: json(5)?.and_then(|t| serde_json::from_str(&t).ok()),
                    },
                ))
            })?;
            rows.collect()
        };
        run().map_err(|e| fault(&e))
    }

    /// Remembers files.
    pub(super) fn keep_files(&mut self, files: &[(String, Seen)]) -> Result<(), Fault> {
        let mut run = || -> rusqlite::Result<()> {
            let step = self.db.transaction()?;
            put_files(&step, files)?;
            step.commit()
        };
        run().map_err(|e| fault(&e))
    }

    /// The jobs of a place: what each was read from and judged by, and its record.
    pub(super) fn jobs(&self, place: &str) -> Result<HashMap<String, (i64, i64, Record)>, Fault> {
        let run = || -> rusqlite::Result<Vec<(String, i64, i64, String)>> {
            let mut query =
                self.db.prepare("SELECT job, inputs, knowledge, record FROM job WHERE place = ?1")?;
            let rows = query
                .query_map(params![place], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
            rows.collect()
        };
        let rows = run().map_err(|e| fault(&e))?;
        Ok(rows
            .into_iter()
            .filter_map(|(job, inputs, knowledge, record)| {
                Some((job, (inputs, knowledge, serde_json::from_str(&record).ok()?)))
            })
            .collect())
    }

    /// The files that a job was read from.
    pub(super) fn files_of(&self, place: &str, job: &str) -> Result<Vec<String>, Fault> {
        let text = self
            .db
            .query_row("SELECT files FROM job WHERE place = ?1 AND job = ?2", params![place, job], |row| {
                row.get::<_, String>(0)
            })
            .optional()
            .map_err(|e| fault(&e))?;
        Ok(text.and_then(|t| serde_json::from_str(&t).ok()).unwrap_or_default())
    }

    /// Place, name and files of the jobs in such places.
    pub(super) fn elsewhere(
        &self,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<(String, String, Vec<String>)>, Fault> {
        let run = || -> rusqlite::Result<Vec<(String, String, String)>> {
            let places: Vec<String> = self
                .db
                .prepare("SELECT DISTINCT place FROM job")?
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            let mut out = Vec::new();
            for place in places.into_iter().filter(|p| wanted(p)) {
                let mut query = self.db.prepare_cached("SELECT job, files FROM job WHERE place = ?1")?;
                let rows = query.query_map(params![place], |row| Ok((row.get(0)?, row.get(1)?)))?;
                for row in rows {
                    let (job, files) = row?;
                    out.push((place.clone(), job, files));
                }
            }
            Ok(out)
        };
        let rows = run().map_err(|e| fault(&e))?;
        let files = |text: &str| serde_json::from_str(text).unwrap_or_default();
        Ok(rows.into_iter().map(|(place, job, text)| (place, job, files(&text))).collect())
    }

    /// Writes one job with the files that it was read from, in one step.
    pub(super) fn put(
        &mut self,
        at: &Place<'_>,
        files: &[(String, Seen)],
        entry: &Entry,
    ) -> Result<(), Fault> {
        let pack = |text: &str| zstd::bulk::compress(text.as_bytes(), 3).unwrap_or_default();
        let record = serde_json::to_string(&entry.record).map_err(|e| e.to_string())?;
        let shapes =
            entry.unknown.as_ref().map(serde_json::to_string).transpose().map_err(|e| e.to_string())?;
        let names: Vec<&str> = files.iter().map(|f| f.0.as_str()).collect();
        let names = serde_json::to_string(&names).map_err(|e| e.to_string())?;
        let mut run = || -> rusqlite::Result<()> {
            let step = self.db.transaction()?;
            put_files(&step, files)?;
            step.execute(
                "INSERT OR REPLACE INTO job(place, job, inputs, knowledge, files, record, json, text)
                 VALUES(?1,?2,?3,?4,?5,?6,?7,?8)",
                params![
                    at.place,
                    entry.record.job,
                    at.inputs,
                    at.knowledge,
                    names,
                    record,
                    pack(&entry.json),
                    pack(&entry.text)
                ],
            )?;
            step.execute(
                "DELETE FROM unknown WHERE place = ?1 AND job = ?2",
                params![at.place, entry.record.job],
            )?;
            if let Some(shapes) = &shapes {
                step.execute(
                    "INSERT INTO unknown(place, job, shapes) VALUES(?1,?2,?3)",
                    params![at.place, entry.record.job, pack(shapes)],
                )?;
            }
            step.commit()
        };
        run().map_err(|e| fault(&e))
    }

    /// Forgets jobs, whose files belong to other jobs now.
    pub(super) fn forget(&mut self, place: &str, jobs: &[String]) -> Result<(), Fault> {
        let mut run = || -> rusqlite::Result<()> {
            let step = self.db.transaction()?;
            for job in jobs {
                step.execute("DELETE FROM job WHERE place = ?1 AND job = ?2", params![place, job])?;
                step.execute("DELETE FROM unknown WHERE place = ?1 AND job = ?2", params![place, job])?;
            }
            step.commit()
        };
        run().map_err(|e| fault(&e))
    }

    /// All records, sorted by job.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn records(&self) -> Result<Vec<Record>, Fault> {
        let run = || -> rusqlite::Result<Vec<String>> {
            let mut query = self.db.prepare("SELECT record FROM job ORDER BY job, place")?;
            let rows = query.query_map([], |row| row.get(0))?;
            rows.collect()
        };
        let texts = run().map_err(|e| fault(&e))?;
        texts
            .iter()
            .map(|t| serde_json::from_str(t).map_err(|e| format!("a record cannot be read: {e}")))
            .collect()
    }

    /// Hands out the lines that nobody knows of each job, by place, one job after the other; nothing where a job was
    /// read by a program that did not keep them.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn unknown(
        &self,
        each: &mut dyn FnMut(&str, Record, Option<JobTemplates>),
    ) -> Result<(), Fault> {
        let mut run = || -> rusqlite::Result<()> {
            let there: i64 = self.db.query_row(
                "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'unknown'",
                [],
                |row| row.get(0),
            )?;
            let mut query = self.db.prepare(match there {
                0 => "SELECT place, record, NULL FROM job ORDER BY job, place",
                _ => {
                    "SELECT place, record, shapes FROM job LEFT JOIN unknown USING(place, job) ORDER BY job, place"
                }
            })?;
            let mut rows = query.query([])?;
            while let Some(row) = rows.next()? {
                let (place, record, shapes): (String, String, Option<Vec<u8>>) =
                    (row.get(0)?, row.get(1)?, row.get(2)?);
                let shapes = shapes.and_then(|s| zstd::stream::decode_all(&s[..]).ok());
                let Ok(record) = serde_json::from_str(&record) else { continue };
                each(&place, record, shapes.and_then(|s| serde_json::from_slice(&s).ok()));
            }
            Ok(())
        };
        run().map_err(|e| fault(&e))
    }

    /// The job of that name; where there is none, those whose name ends so, or whose number it is; else those whose
    /// files are, or lie below, that path.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn find(&self, job: &str) -> Result<Vec<Entry>, Fault> {
        let exact = self.entries("job = ?1", job)?;
        if !exact.is_empty() {
            return Ok(exact);
        }
        let alike = self.entries(
            "substr(job, -length(?1) - 1) = '/' || ?1 OR json_extract(record, '$.job_id') = ?1",
            job,
        )?;
        if !alike.is_empty() {
            return Ok(alike);
        }
        let path = super::files::real(Path::new(job)).to_string_lossy().into_owned();
        self.entries(
            "EXISTS (SELECT 1 FROM json_each(files)
                     WHERE value = ?1 OR substr(value, 1, length(?1) + 1) = ?1 || '/')",
            &path,
        )
    }

    fn entries(&self, condition: &str, job: &str) -> Result<Vec<Entry>, Fault> {
        let run = || -> rusqlite::Result<Vec<Row>> {
            let mut query = self.db.prepare(&format!(
                "SELECT record, json, text, files FROM job WHERE {condition} ORDER BY job, place"
            ))?;
            let rows = query
                .query_map(params![job], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
            rows.collect()
        };
        let rows = run().map_err(|e| fault(&e))?;
        let unpack = |bytes: &[u8]| {
            zstd::stream::decode_all(bytes).ok().and_then(|b| String::from_utf8(b).ok()).unwrap_or_default()
        };
        rows.iter()
            .map(|(record, json, text, files)| {
                let record =
                    serde_json::from_str(record).map_err(|e| format!("a record cannot be read: {e}"))?;
                let files = serde_json::from_str(files).unwrap_or_default();
                Ok(Entry { record, json: unpack(json), text: unpack(text), files, unknown: None })
            })
            .collect()
    }

    /// How many jobs it holds.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn jobs_known(&self) -> Result<u64, Fault> {
        let n = self.db.query_row("SELECT count(*) FROM job", [], |row| row.get::<_, i64>(0)).optional();
        n.map(|n| n.unwrap_or(0).cast_unsigned()).map_err(|e| fault(&e))
    }
}

/// Record, packed reports and files of a job.
type Row = (String, Vec<u8>, Vec<u8>, String);

/// Where a job stands, what it was read from and by what it was judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) place: &'a str,
    pub(super) inputs: i64,
    pub(super) knowledge: i64,
}

fn put_files(step: &rusqlite::Transaction<'_>, files: &[(String, Seen)]) -> rusqlite::Result<()> {
    let mut put = step.prepare_cached(
        "INSERT OR REPLACE INTO file(path, size, mtime, mark, head, members) VALUES(?1,?2,?3,?4,?5,?6)",
    )?;
    for (path, seen) in files {
        let head = seen.head.as_ref().and_then(|h| serde_json::to_string(h).ok());
        let members = seen.members.as_ref().and_then(|m| serde_json::to_string(m).ok());
        put.execute(params![path, seen.size.cast_signed(), seen.mtime, seen.mark, head, members])?;
    }
    Ok(())
}

/// What sorts behind `place/` and before all that does not begin with it.
fn below(place: &str) -> (String, String) {
    let place = place.trim_end_matches('/');
    (format!("{place}/"), format!("{place}0"))
}
