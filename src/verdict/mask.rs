//! Secrets in quoted lines: tokens, keys and passwords are replaced before a
//! line is shown anywhere.

use regex::Regex;
use std::sync::OnceLock;

/// The text with what looks like a secret replaced by `***`.
pub(crate) fn mask(text: &str) -> String {
    static PATTERNS: OnceLock<Vec<(Regex, &'static str)>> = OnceLock::new();
    let patterns = PATTERNS.get_or_init(|| {
        [
            (r"\b(?:hf|ghp|gho|ghs|glpat|xox[abp]|sk|pk|rk|nvapi)[_-][A-Za-z0-9_\-]{16,}", "***"),
            (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", "***"),
            (r"\beyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{5,}", "***"),
            (r"(?i)\b(bearer)\s+[A-Za-z0-9._~+/\-]{16,}=*", "$1 ***"),
            (r"(://[^/\s:@]+:)[^@\s/]+@", "$1***@"),
            (r#"(?i)\b([A-Z0-9_]*(?:api_?key|secret|token|passwd|password|access_key|private_key)[A-Z0-9_]*["']?\s*[=:]\s*["']?)[^\s"',;&]{6,}"#, "$1***"),
        ]
        .iter()
        .filter_map(|(p, r)| Regex::new(p).ok().map(|p| (p, *r)))
        .collect()
    });
    // Most lines have none of these: one cheap look spares the expressions.
    let suspicious = ["_", "-", "earer", "://", "oken", "ecret", "assw", "AKIA", "ASIA", "eyJ", "key"];
    if !suspicious.iter().any(|s| text.contains(s)) {
        return text.to_string();
    }
    let mut out = text.to_string();
    for (pattern, with) in patterns {
        if pattern.is_match(&out) {
            out = pattern.replace_all(&out, *with).into_owned();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn secrets_do_not_get_out() {
        assert_eq!(mask("WANDB_API_KEY=0123456789abcdef0123"), "WANDB_API_KEY=***");
        assert_eq!(mask("using hf_abcdefghijklmnopqrstuvwx now"), "using *** now");
        assert_eq!(mask("https://bob:hunter22@host/x"), "https://bob:***@host/x");
        assert_eq!(mask("Authorization: Bearer abcdefghijklmnop1234"), "Authorization: Bearer ***");
    }

    #[test]
    fn ordinary_lines_stay() {
        for line in [
            "node1:12:34 [0] NCCL INFO comm 0x5 rank 3 - Init COMPLETE",
            "tokens per second: 1234567",
            "key '0//cuda//worker_count'",
        ] {
            assert_eq!(mask(line), line);
        }
    }
}
