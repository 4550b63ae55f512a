//! Numbers as NCCL reads them: C's `strtoll` with base 0. Leading blanks and a
//! sign, `0x` for hexadecimal, a leading `0` for octal; what follows the last
//! digit is ignored, and a text without digits is 0.

/// What `strtoll` makes of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number<'t> {
    /// Its value; 0 without digits.
    pub value: i64,
    /// Whether there was a digit at all.
    pub digits: bool,
    /// What was not read.
    pub rest: &'t str,
    /// Whether it was read as octal and would be another number in decimal.
    pub octal: bool,
    /// Whether it does not fit 64 bits: NCCL then takes its default.
    pub overflow: bool,
}

/// Reads a number.
pub fn read(text: &str) -> Number<'_> {
    let start = text.trim_start();
    let (negative, body) = match start.as_bytes().first() {
        Some(b'-') => (true, &start[1..]),
        Some(b'+') => (false, &start[1..]),
        _ => (false, start),
    };
    let hexadecimal = body.len() > 2
        && (body.starts_with("0x") || body.starts_with("0X"))
        && body.as_bytes()[2].is_ascii_hexdigit();
    let (base, body) = match body.as_bytes() {
        _ if hexadecimal => (16, &body[2..]),
        [b'0', b'0'..=b'7', ..] => (8, body),
        _ => (10, body),
    };
    let len = body.bytes().take_while(|b| (*b as char).is_digit(base)).count();
    let (digits, rest) = body.split_at(len);
    let magnitude = i64::from_str_radix(digits, base);
    let value = magnitude.clone().unwrap_or(0);
    let octal = base == 8 && digits.parse::<i64>() != Ok(value);
    Number {
        value: if negative { -value } else { value },
        digits: len > 0,
        rest: if len > 0 { rest } else { text },
        octal,
        overflow: len > 0 && magnitude.is_err(),
    }
}

/// The number that a word for yes or no stands for.
pub fn yes_or_no(text: &str) -> Option<i64> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" | "t" | "enable" | "enabled" => Some(1),
        "false" | "no" | "off" | "n" | "f" | "disable" | "disabled" | "none" => Some(0),
        _ => None,
    }
}

/// The bytes that a text such as `4M`, `8MiB` or `1GB` means.
pub fn with_unit(number: &Number<'_>) -> Option<i64> {
    let unit = number.rest.trim().to_ascii_lowercase();
    let shift = match unit.trim_end_matches('b').trim_end_matches('i') {
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return None,
    };
    number.value.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_c_reads_them() {
        let of = |t| {
            let n = read(t);
            (n.value, n.digits, n.rest)
        };
        assert_eq!(of("22"), (22, true, ""));
        assert_eq!(of(" -1 "), (-1, true, " "));
        assert_eq!(of("0x10"), (16, true, ""));
        assert_eq!(of("4M"), (4, true, "M"));
        assert_eq!(of("true"), (0, false, "true"));
        assert_eq!(of(""), (0, false, ""));
        assert_eq!(of("0x"), (0, true, "x"));
        assert_eq!(of("1,2"), (1, true, ",2"));
    }

    #[test]
    fn octal_and_too_large() {
        assert!(read("010").octal && read("010").value == 8);
        assert!(!read("00").octal && !read("07").octal && !read("0").octal);
        assert!(read("99999999999999999999").overflow);
        assert_eq!(with_unit(&read("4M")), Some(4 << 20));
        assert_eq!(with_unit(&read("8 MiB")), Some(8 << 20));
        assert_eq!(with_unit(&read("4x")), None);
    }
}
