//! `ncclcheck rules new --from-cluster N`: the beginning of a rule for lines
//! that nobody knows.

use crate::cli::args::{Global, New};
use crate::cli::out::{FINE, FOUND, Fail, complain, print};
use crate::cli::{sources, unknown};
use crate::templates;
use std::path::Path;

pub(super) fn run(global: &Global, args: &New) -> Result<u8, Fail> {
    if let Some(id) = &args.id
        && !is_id(id)
    {
        return Err(format!(
            "--id {id}: an id is two words of small letters, figures and dashes: site/scratch-full"
        ));
    }
    let engine = sources::engine(global)?;
    let store = unknown::read(&engine, &args.jobs)?;
    let clusters = store.clusters();
    let Some(cluster) = clusters.get(args.from_cluster as usize - 1) else {
        complain(&format!(
            "there is no template {}: `ncclcheck unknown` with the same paths finds {}",
            args.from_cluster,
            clusters.len()
        ));
        return Ok(FOUND);
    };
    let draft = templates::draft(cluster, args.id.as_deref(), &engine.knowledge.anchors);
    let files = [(&draft.message_file, &draft.message), (&draft.rule_file, &draft.rule)];
    let Some(folder) = &args.out else {
        return print(global.color, FINE, |out| {
            for (n, (name, text)) in files.iter().enumerate() {
                write!(out, "{}# file: {name}\n{text}", if n > 0 { "\n" } else { "" })?;
            }
            Ok(())
        });
    };
    for (name, _) in files {
        if folder.join(name).exists() {
            return Err(format!("{}: is there already; nothing was written", folder.join(name).display()));
        }
    }
    for (name, text) in files {
        write(&folder.join(name), text)?;
    }
    let folder = folder.display();
    print(global.color, FINE, |out| {
        for (name, _) in files {
            writeln!(out, "{folder}/{name}")?;
        }
        writeln!(out, "Fill in what begins with FILL:, then: ncclcheck --rules {folder} rules check")
    })
}

/// `site/scratch-full`.
fn is_id(id: &str) -> bool {
    let word = |w: &str| {
        !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let parts: Vec<&str> = id.split('/').collect();
    parts.len() == 2 && parts.iter().all(|p| word(p)) && parts[0] != "messages" && parts[0] != "tables"
}

fn write(path: &Path, text: &str) -> Result<(), Fail> {
    let told = |err: std::io::Error| format!("{}: {err}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(told)?;
    }
    std::fs::write(path, text).map_err(told)
}
