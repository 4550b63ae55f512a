//! Variables that a command line sets: `NCCL_X=1 ./program`, `mpirun -x
//! NCCL_X=1`, `docker run -e NCCL_X=1`, `env NCCL_X=1 program`. What stands
//! behind the program is an argument and sets nothing.

/// Beginnings of names that a job's programs read.
const READ: [&str; 14] = [
    "NCCL_",
    "RCCL_",
    "TORCH_",
    "TORCHELASTIC_",
    "CUDA_",
    "GLOO_",
    "UCX_",
    "FI_",
    "OFI_",
    "MASTER_",
    "PYTORCH_",
    "TP_SOCKET",
    "HSA_",
    "MSCCL",
];
/// Options whose next word is an assignment for the program.
const OPTIONS: [&str; 6] = ["-x", "-e", "--env", "-env", "-genv", "--export"];

/// The assignments of a command line, in order.
pub(super) fn assignments(line: &str) -> Vec<(&str, &str)> {
    let mut out = Vec::new();
    let line = line.trim();
    if line.len() > 4000 || !line.contains('=') || !READ.iter().any(|r| line.contains(r)) {
        return out;
    }
    // A pasted shell: what stands behind the prompt counts.
    let command = line
        .find(['$', '#'])
        .filter(|&at| at < 80 && line[..at].contains(['@', ':']))
        .map_or(line, |at| &line[at + 1..]);
    let mut words = command.split_whitespace().peekable();
    let mut before_program = true;
    let mut option = false;
    while let Some(word) = words.next() {
        let word = word.trim_end_matches('\\');
        match assignment(word) {
            // Words of a command, not of a sentence: at its head, or behind an option that takes them.
            Some(a) if (before_program && words.peek().is_some()) || option => out.push(a),
            Some(_) => {}
            None => {
                before_program &=
                    matches!(word, "export" | "env" | "sudo" | "time" | "+" | "set" | "&&" | ";" | "")
            }
        }
        option = OPTIONS.contains(&word);
    }
    out
}

/// `NAME=value` of a name that somebody reads.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let known = READ.iter().any(|r| name.starts_with(r));
    let plain = name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    (known && plain && !value.is_empty()).then(|| (name, value.trim_matches(['"', '\'', ';'])))
}

#[cfg(test)]
mod tests {
    use super::assignments;

    #[test]
    fn before_the_program_and_behind_options() {
        assert_eq!(
            assignments("NCCL_DEBUG=INFO NCCL_IB_DISABLE=1 ./all_reduce_perf -b 8"),
            [("NCCL_DEBUG", "INFO"), ("NCCL_IB_DISABLE", "1")]
        );
        assert_eq!(
            assignments("mpirun -np 16 -x NCCL_SOCKET_IFNAME=eth0 -x PATH ./perf"),
            [("NCCL_SOCKET_IFNAME", "eth0")]
        );
        assert_eq!(
            assignments("user@node1:~$ NCCL_P2P_DISABLE=1 python train.py"),
            [("NCCL_P2P_DISABLE", "1")]
        );
        assert_eq!(assignments("docker run --gpus all -e NCCL_DEBUG=WARN image"), [("NCCL_DEBUG", "WARN")]);
    }

    #[test]
    fn behind_the_program_it_is_an_argument() {
        assert!(assignments("user@node1:~$ ./all_reduce_perf -g 2 NCCL_P2P_DISABLE=1").is_empty());
        assert!(assignments("we tried NCCL_P2P_DISABLE=1 and it helped").is_empty());
        assert!(assignments("node1:1:2 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22").is_empty());
    }
}
