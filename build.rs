//! Reads the TOML files of `rules/` once, when the program is built, and
//! writes them as one JSON document: reading that at each start takes a small
//! part of the time. It does not judge: a file that is no TOML is left out,
//! and the program, which holds the sources too, tells what is wrong with it
//! (see `src/knowledge/load.rs`). And it gives the sources a number, so that
//! an index tells what another build of the program has judged.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;

fn add(dir: &Path, root: &Path, all: &mut serde_json::Map<String, serde_json::Value>) {
    let mut entries: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            add(&path, root, all);
        } else if path.extension().is_some_and(|e| e == "toml") {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            let value = std::fs::read_to_string(&path).ok().and_then(|text| toml::from_str(&text).ok());
            all.insert(name, value.unwrap_or(serde_json::Value::Null));
        }
    }
}

/// A number for the sources: another one may judge otherwise (FNV-1a over names and texts, in order of name).
fn mark(dir: &Path, root: &Path, sum: &mut u64) {
    let mut entries: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            mark(&path, root, sum);
            continue;
        }
        let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
        let text = std::fs::read(&path).unwrap();
        for byte in name.bytes().chain([0]).chain(text) {
            *sum = (*sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn main() {
    let root = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("rules");
    let mut all = serde_json::Map::new();
    add(&root, &root, &mut all);
    let out = Path::new(&std::env::var_os("OUT_DIR").unwrap()).join("rules.json");
    std::fs::write(out, serde_json::to_vec(&all).unwrap()).unwrap();
    let src = root.with_file_name("src");
    let mut sum = 0xcbf2_9ce4_8422_2325;
    mark(&src, &src, &mut sum);
    println!("cargo:rustc-env=NCCLCHECK_SOURCES={sum:016x}");
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=rules");
}
