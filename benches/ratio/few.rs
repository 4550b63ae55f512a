//! A folder of rules that knows the sixty texts of the comparison and nothing
//! else: what `--no-builtin --rules DIR` takes. The gate over all the
//! knowledge must cost hardly more than one over these.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// Writes the folder: each text as a message that anybody may print, and as an anchor.
pub(crate) fn write(folder: &Path, texts: &str) -> io::Result<()> {
    let (mut messages, mut anchors) = ("schema = 1\n".to_string(), "schema = 1\nanchors = [\n".to_string());
    // The level of an NCCL line is no text of its own.
    for (n, text) in texts.lines().filter(|t| !t.is_empty() && *t != "NCCL WARN").enumerate() {
        let text = fixed(text);
        let _ = write!(
            messages,
            "\n[[message]]\nid = \"few.text-{n}\"\nabout = \"One of the texts\"\ndoor = \"both\"\nlevel = \"any\"\n\
             role = \"first\"\nkind = \"fails\"\n  [[message.form]]\n  has = '''{text}'''\n  sample = '''{text}'''\n"
        );
        let _ = writeln!(anchors, "  '''{text}''',");
    }
    anchors.push_str("]\n");
    std::fs::create_dir_all(folder.join("messages"))?;
    std::fs::write(folder.join("messages/few.toml"), messages)?;
    std::fs::write(folder.join("anchors.toml"), anchors)
}

/// The longest part of a regular expression that stands for itself.
fn fixed(text: &str) -> &str {
    let parts = text.split(['.', '*', '(', ')', '[', ']', '|', '+', '?', '\\']);
    parts.max_by_key(|p| p.len()).unwrap_or(text).trim_start()
}
