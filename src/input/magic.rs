//! What something is by its first bytes, never by its name: what can be
//! unpacked (see `unpack`, `tarfile`, `zipfile`), what is known and not read.
//! Whether the rest is text is for `sniff`.

/// What the first bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Magic {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
    Tar,
    Zip,
    Utf16Le,
    Utf16Be,
    Utf8Bom,
    /// A pickle, which the `dump` room may know.
    Pickle,
    /// Known, and not read for this reason.
    Not(&'static str),
    /// None of these.
    Other,
}

/// Bytes that [`of`] wants to see.
pub(super) const ENOUGH: usize = 4096;

/// What `CHECKPOINT` files are called in problems.
pub(super) const CHECKPOINT: &str = "a PyTorch checkpoint, not a log";

const KNOWN: &[(&[u8], Magic)] = &[
    (b"\x1f\x8b\x08", Magic::Gzip),
    (b"\x28\xb5\x2f\xfd", Magic::Zstd),
    (b"\xfd7zXZ\0", Magic::Xz),
    (b"PK\x03\x04", Magic::Zip),
    (b"PK\x05\x06", Magic::Zip),
    (b"\xef\xbb\xbf", Magic::Utf8Bom),
    (b"\x7fELF", Magic::Not("binary, not read (a program or core file)")),
    (b"\x89PNG\r\n", Magic::Not("binary, not read (an image)")),
    (b"\xff\xd8\xff", Magic::Not("binary, not read (an image)")),
    (b"GIF8", Magic::Not("binary, not read (an image)")),
    (b"%PDF-", Magic::Not("binary, not read (a PDF)")),
    (b"\x93NUMPY", Magic::Not("binary, not read (a NumPy array)")),
    (b"\x89HDF\r\n", Magic::Not("binary, not read (HDF5)")),
    (b"SQLite format 3\0", Magic::Not("binary, not read (an SQLite database)")),
    (b"7z\xbc\xaf\x27\x1c", Magic::Not("7z is not supported, not read")),
    (b"Rar!\x1a\x07", Magic::Not("rar is not supported, not read")),
    (b"\x04\x22\x4d\x18", Magic::Not("lz4 is not supported, not read")),
    (b"\x1f\x9d", Magic::Not("compress (.Z) is not supported, not read")),
];

/// The number that old checkpoints (before the zip form) begin with.
const OLD_CHECKPOINT: &[u8] = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

/// Tells what begins with these bytes.
pub(super) fn of(head: &[u8]) -> Magic {
    for (bytes, magic) in KNOWN {
        if head.starts_with(bytes) {
            return *magic;
        }
    }
    match head {
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', b'&', b'S', b'Y', ..]
        | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, b'r', b'E', b'8', b'P', 0x90, ..] => Magic::Bzip2,
        // A skippable frame, which parallel compressors put first.
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Magic::Zstd,
        [0xff, 0xfe, 0, 0, ..] => Magic::Other,
        [0xff, 0xfe, ..] => Magic::Utf16Le,
        [0xfe, 0xff, ..] => Magic::Utf16Be,
        [0x80, 2..=5, rest @ ..] => pickle(rest),
        _ if super::tarfile::is_header(head) => Magic::Tar,
        _ => Magic::Other,
    }
}

/// What follows the protocol of a pickle: a frame, or an opcode that one can
/// begin with.
fn pickle(rest: &[u8]) -> Magic {
    if rest.starts_with(OLD_CHECKPOINT) {
        return Magic::Not(CHECKPOINT);
    }
    match rest.first() {
        Some(
            0x95 | 0x8c | 0x8a | 0x8d | 0x8f | 0x88 | 0x89 | b'}' | b']' | b')' | b'(' | b'c' | b'X' | b'U'
            | b'T' | b'K' | b'M' | b'J' | b'N' | b'G' | b'B' | b'C',
        ) => Magic::Pickle,
        _ => Magic::Other,
    }
}
