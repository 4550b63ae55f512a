//! The known name that an unknown one probably stands for.

use crate::knowledge::Knowledge;

/// A known name near an unknown one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Near {
    /// The known name.
    pub name: String,
    /// Whether it is hardly anything else: a slip, another order of its words, a beginning too many or too few.
    pub sure: bool,
}

/// The nearest known name.
#[must_use]
pub fn nearest(known: &Knowledge, name: &str) -> Option<Near> {
    let upper = name.to_ascii_uppercase();
    let all = || known.tables.variables.iter().map(|v| v.name.as_str());
    let sure = |n: &str| Some(Near { name: n.into(), sure: true });
    let plain = |n: &str| n.replace(['_', '-'], "");
    if let Some(n) = all().find(|n| plain(n) == plain(&upper)) {
        return sure(n);
    }
    for other in [format!("TORCH_{upper}"), upper.trim_start_matches("TORCH_").to_string()] {
        if other != upper
            && let Some(n) = all().find(|n| *n == other)
        {
            return sure(n);
        }
    }
    let words = sorted_words(&upper);
    if let Some(n) = all().find(|n| sorted_words(n) == words) {
        return sure(n);
    }
    // A slip of one or two letters; in short words two letters make another word.
    let best = all().map(|n| (strsim::damerau_levenshtein(n, &upper), n)).min()?;
    let most = if upper.len() > 12 { 2 } else { 1 };
    if best.0 <= most && upper.len() > 8 {
        return sure(best.1);
    }
    // One word was left out, and only one known name has it.
    let mut with_one_more = all().filter(|n| {
        let theirs = sorted_words(n);
        theirs.len() == words.len() + 1 && words.iter().all(|w| theirs.contains(w))
    });
    match (with_one_more.next(), with_one_more.next()) {
        (Some(n), None) => Some(Near { name: n.into(), sure: false }),
        _ => None,
    }
}

fn sorted_words(name: &str) -> Vec<&str> {
    let mut words: Vec<&str> = name.split('_').map(|w| if w == "DISABLED" { "DISABLE" } else { w }).collect();
    words.sort_unstable();
    words
}

/// `NCLL_DEBUG`: a beginning that is nearly one of ours.
pub(super) fn misspelt_beginning(upper: &str) -> bool {
    let Some((first, _)) = upper.split_once('_') else { return false };
    first != "NCCL" && first.len() >= 3 && strsim::damerau_levenshtein(first, "NCCL") == 1 && first != "RCCL"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_orders_and_beginnings() {
        let (known, _) = Knowledge::built_in();
        let near = |n| nearest(&known, n).map(|n| (n.name, n.sure));
        let sure = |n: &str| Some((n.to_string(), true));
        assert_eq!(near("NCCL_DISABLE_P2P"), sure("NCCL_P2P_DISABLE"));
        assert_eq!(near("NCCL_P2P_DISABLED"), sure("NCCL_P2P_DISABLE"));
        assert_eq!(near("NCCL_SOCKET_IF_NAME"), sure("NCCL_SOCKET_IFNAME"));
        assert_eq!(near("NCCL_SOCKET_IFNMAE"), sure("NCCL_SOCKET_IFNAME"));
        assert_eq!(near("nccl_debug"), sure("NCCL_DEBUG"));
        assert_eq!(near("NCLL_DEBUG"), sure("NCCL_DEBUG"));
        assert_eq!(near("NCCL_TRACE_BUFFER_SIZE"), sure("TORCH_NCCL_TRACE_BUFFER_SIZE"));
        assert_eq!(near("TORCH_NCCL_IB_TIMEOUT"), sure("NCCL_IB_TIMEOUT"));
        assert_eq!(near("NCCL_QUITE_ANOTHER_THING"), None);
    }

    #[test]
    fn only_near_misses_of_our_beginnings() {
        assert!(misspelt_beginning("NCLL_DEBUG") && misspelt_beginning("NCC_DEBUG"));
        assert!(
            !misspelt_beginning("NCCL_DEBUG")
                && !misspelt_beginning("RCCL_X")
                && !misspelt_beginning("OMPI_X")
        );
    }
}
