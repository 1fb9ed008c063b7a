//! Durations (`60s`, `30m`, `1h30m`) and sizes (`16MiB`), read and printed.

use std::time::Duration;

const TIMES: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads a duration: numbers with units, largest first.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total: u64 = 0;
    let mut last = u64::MAX;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let (number, unit) = (&rest[..digits], &rest[digits..digits + letters]);
        let factor = TIMES.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)?;
        if factor >= last {
            return None;
        }
        last = factor;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(factor)?)?;
        rest = &rest[digits + letters..];
    }
    Some(Duration::from_millis(total))
}

/// Prints a duration in the largest unit that divides it.
#[must_use]
pub fn format_duration(time: Duration) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".into();
    }
    let (unit, factor) =
        TIMES.iter().find(|(_, factor)| millis.is_multiple_of(*factor)).unwrap_or(&("ms", 1));
    format!("{}{unit}", millis / factor)
}

/// Reads a size: bytes, or a number with `K`, `M`, `G` (powers of 1024; `KB` and `KiB` mean the same).
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let factor: u64 = match text[digits..].trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(factor)
}

/// Prints a size in the largest unit that divides it.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    let (unit, factor) =
        SIZES.iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor)).unwrap_or(&("B", 1));
    format!("{}{unit}", bytes / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("60s", Some(60_000)),
            ("30m", Some(1_800_000)),
            ("4h", Some(14_400_000)),
            ("1h30m", Some(5_400_000)),
            ("2d", Some(172_800_000)),
            ("500ms", Some(500)),
            ("0s", Some(0)),
            ("", None),
            ("60", None),
            ("m", None),
            ("30m1h", None),
            ("1h 30m", None),
            ("-5s", None),
            ("5 s", None),
            ("99999999999999999999s", None),
            ("18446744073709551615d", None),
            ("5ß", None),
        ] {
            assert_eq!(parse_duration(text).map(|d| d.as_millis()), millis, "{text}");
        }
        assert_eq!(format_duration(Duration::from_secs(5400)), "90m");
        assert_eq!(format_duration(Duration::from_millis(1500)), "1500ms");
        assert_eq!(format_duration(Duration::ZERO), "0s");
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("16MiB", Some(16 << 20)),
            ("16 M", Some(16 << 20)),
            ("1k", Some(1024)),
            ("12", Some(12)),
            ("x", None),
            ("1ß", None),
            ("99999999999G", None),
            ("", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
        assert_eq!(format_size(16 << 20), "16MiB");
        assert_eq!(format_size(1500), "1500B");
    }

    proptest::proptest! {
        #[test]
        fn printed_and_read_again(millis in 0u64..=u64::from(u32::MAX)) {
            let time = Duration::from_millis(millis);
            assert_eq!(parse_duration(&format_duration(time)), Some(time));
            assert_eq!(parse_size(&format_size(millis)), Some(millis));
        }
    }
}
