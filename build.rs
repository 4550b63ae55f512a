//! Reads the TOML files of `rules/` once, when the program is built, and
//! writes them as one JSON document: reading that at each start takes a small
//! part of the time. It does not judge: a file that is no TOML is left out,
//! and the program, which holds the sources too, tells what is wrong with it
//! (see `src/knowledge/load.rs`).
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

fn main() {
    let root = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("rules");
    let mut all = serde_json::Map::new();
    add(&root, &root, &mut all);
    let out = Path::new(&std::env::var_os("OUT_DIR").unwrap()).join("rules.json");
    std::fs::write(out, serde_json::to_vec(&all).unwrap()).unwrap();
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=rules");
}
