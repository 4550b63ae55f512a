//! What a value means to who reads it. Two spellings of one meaning are one
//! value: `Simple` and `simple`, `0x400000` and `4194304`, `tree,ring` and
//! `Ring,Tree`, and the default and nothing at all.

use crate::base::number;
use crate::knowledge::Variable;

/// A value in a form in which equal meanings are equal texts; empty for what is as good as not set. It is for
/// comparing: people are shown the value as it stands.
#[must_use]
pub fn meaning(v: &Variable, value: &str) -> String {
    let value = value.trim();
    if v.is_number() {
        // NCCL_PARAM: strtoll with base 0; the default where nothing stands there, or what does not fit 64 bits.
        let n = number::read(value);
        let text = n.value.to_string();
        let default = v.default.split([' ', '(', ':', ',']).next().unwrap_or("");
        let is_default = value.is_empty()
            || n.overflow
            || text == default
            || v.default.contains(&format!("(param {text})"));
        return if is_default { String::new() } else { text };
    }
    if v.unordered {
        // `^` and `=` before a list hold for all of it.
        let list = value.trim_start_matches(['^', '=']);
        return format!("{}{}", &value[..value.len() - list.len()], set(list, ","));
    }
    let default = v.default.split([' ', '(', ':']).next().unwrap_or("");
    if !any_case(v) {
        return if value == default { String::new() } else { value.to_string() };
    }
    let lower = value.to_lowercase();
    if lower == default.to_lowercase() {
        return String::new();
    }
    if v.valid.contains("true|false")
        && let Some(n) = number::yes_or_no(&lower)
    {
        return n.to_string();
    }
    sections(v, &lower)
}

/// Whether its values are compared without regard to capitals; the pattern of good values says so.
fn any_case(v: &Variable) -> bool {
    v.valid.contains("(?i:")
}

/// A list of words is a set, with `^` before it for all others; NCCL 2.24 and later take one for each operation,
/// `allreduce:tree;broadcast:ring`, of which later ones win.
fn sections(v: &Variable, value: &str) -> String {
    let Some(by) = [",", "|"].into_iter().find(|by| v.valid.contains(&format!("({}(", escaped(by)))) else {
        return value.to_string();
    };
    let list = |section: &str| {
        let (before, words) = match section.rsplit_once(':') {
            Some((operation, words)) => (format!("{}:", operation.trim()), words.trim()),
            None => (String::new(), section.trim()),
        };
        let (not, words) = words.strip_prefix('^').map_or(("", words), |w| ("^", w));
        format!("{before}{not}{}", set(words, by))
    };
    value.split(';').filter(|s| !s.trim().is_empty()).map(list).collect::<Vec<_>>().join(";")
}

/// A list as a set.
fn set(list: &str, by: &str) -> String {
    let mut words: Vec<&str> = list.split(by).map(str::trim).filter(|w| !w.is_empty()).collect();
    words.sort_unstable();
    words.dedup();
    words.join(by)
}

fn escaped(by: &str) -> String {
    if by == "|" { "\\|".into() } else { by.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::Knowledge;

    #[test]
    fn spellings_of_one_meaning() {
        let (known, _) = Knowledge::built_in();
        let of = |name: &str, value: &str| {
            let v = known.tables.variables.iter().find(|v| v.name == name).unwrap();
            meaning(v, value)
        };
        for (name, a, b) in [
            ("NCCL_PROTO", "Simple", "simple"),
            ("NCCL_ALGO", "Ring,Tree", "tree,ring"),
            ("NCCL_ALGO", "^NVLS", "^nvls"),
            ("NCCL_ALGO", "allreduce:tree,ring", "ALLREDUCE:Ring,Tree"),
            ("NCCL_NET", "Socket", "socket"),
            ("NCCL_CTA_POLICY", "ZERO|EFFICIENCY", "efficiency|zero"),
            ("NCCL_BUFFSIZE", "0x200000", "2097152"),
            ("NCCL_BUFFSIZE", "4194304", ""),
            ("NCCL_BUFFSIZE", "-2", "4194304"),
            ("NCCL_IB_HCA", "mlx5_1,mlx5_0", "mlx5_0,mlx5_1"),
            ("NCCL_IB_HCA", "^=mlx5_1,mlx5_0", "^=mlx5_0,mlx5_1"),
            ("NCCL_P2P_DISABLE", "1", "01"),
            ("NCCL_P2P_DISABLE", "true", "0"),
            ("NCCL_P2P_DISABLE", " 1 ", "1"),
            ("NCCL_MIN_CTAS", "4M", "4"),
            ("TORCH_NCCL_BLOCKING_WAIT", "True", "1"),
        ] {
            assert_eq!(of(name, a), of(name, b), "{name}: {a} {b}");
        }
        for (name, a, b) in [
            ("NCCL_PROTO", "Simple", "LL"),
            ("NCCL_PROTO", "^LL", "LL"),
            ("NCCL_ALGO", "allreduce:tree", "tree"),
            ("NCCL_BUFFSIZE", "4M", "4194304"),
            ("NCCL_P2P_DISABLE", "1", "0"),
            ("NCCL_IB_HCA", "^mlx5_0,mlx5_1", "mlx5_0,mlx5_1"),
            // NCCL compares these with strcmp.
            ("NCCL_P2P_LEVEL", "NVL", "nvl"),
            ("NCCL_COMM_ID", "10.1.1.1:3000", "10.1.1.2:3000"),
        ] {
            assert_ne!(of(name, a), of(name, b), "{name}: {a} {b}");
        }
    }
}
