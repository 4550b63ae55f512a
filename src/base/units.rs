//! Sizes in bytes with the units that allocators, kernels and people print.

/// Reads `342.00 MiB`, `79.15 GiB`, `10485760`, `812kB`, `6 GB`. Units with
/// and without the `i` are both taken as powers of 1024, as PyTorch and the
/// kernel mean them. `None` when the text is no size.
#[must_use]
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let scale: u64 = match text[end..].trim().trim_end_matches(['.', ',', ';']) {
        "" | "B" | "b" | "bytes" | "byte" | "Bytes" => 1,
        "kB" | "KB" | "KiB" | "k" | "K" => 1 << 10,
        "MB" | "MiB" | "M" | "m" => 1 << 20,
        "GB" | "GiB" | "G" | "g" => 1 << 30,
        "TB" | "TiB" | "T" => 1 << 40,
        _ => return None,
    };
    let bytes = number * scale as f64;
    (bytes.is_finite() && (0.0..9e18).contains(&bytes)).then_some(bytes as u64)
}

/// Writes a size for people: `10 MiB`, `79.2 GiB`, `812 B`.
#[must_use]
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || (value - value.round()).abs() < 0.05 {
        format!("{} {}", value.round() as u64, UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes_text, parse_bytes};

    #[test]
    fn units_of_torch_and_kernel() {
        assert_eq!(parse_bytes("342.00 MiB"), Some(342 << 20));
        assert_eq!(parse_bytes("812kB"), Some(812 << 10));
        assert_eq!(parse_bytes("10485760"), Some(10 << 20));
        assert_eq!(parse_bytes("12 apples"), None);
        assert_eq!(bytes_text(10 << 20), "10 MiB");
        assert_eq!(bytes_text(1536), "1.5 KiB");
    }
}
