//! Texts that look like a date, which YAML 1.1 reads as one. Salt's reader does not, but its writer quotes them.

/// A date, or a date and a time of day.
pub(super) fn is_timestamp(text: &[u8]) -> bool {
    let Some((year, rest)) = text.split_at_checked(4) else { return false };
    if !year.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let Some((month, rest)) = field(rest, b'-', 1) else { return false };
    let Some((day, rest)) = field(rest, b'-', 1) else { return false };
    match rest {
        [] => month == 2 && day == 2,
        [b'T' | b't', rest @ ..] => is_time(rest),
        [b' ' | b'\t', ..] => {
            let blanks = rest.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
            is_time(&rest[blanks..])
        }
        _ => false,
    }
}

/// `12:30:59.5 +01:00`.
fn is_time(text: &[u8]) -> bool {
    let hour = text.iter().take(2).take_while(|b| b.is_ascii_digit()).count();
    let Some((2, rest)) = field(&text[hour..], b':', 2) else { return false };
    let Some((2, mut rest)) = field(rest, b':', 2) else { return false };
    if let [b'.', fraction @ ..] = rest {
        rest = &fraction[fraction.iter().take_while(|b| b.is_ascii_digit()).count()..];
    }
    let zone = match rest.iter().position(|b| !matches!(b, b' ' | b'\t')) {
        None => return hour > 0 && rest.is_empty(),
        Some(at) => &rest[at..],
    };
    let is_zone = match zone {
        b"Z" => true,
        [b'+' | b'-', zone @ ..] => {
            let hours = zone.iter().take(2).take_while(|b| b.is_ascii_digit()).count();
            hours > 0 && (hours == zone.len() || matches!(field(&zone[hours..], b':', 2), Some((2, []))))
        }
        _ => false,
    };
    hour > 0 && is_zone
}

/// A separator and up to two digits, at least `least`: how many, and the rest.
fn field(text: &[u8], separator: u8, least: usize) -> Option<(usize, &[u8])> {
    let rest = text.strip_prefix(&[separator])?;
    let digits = rest.iter().take(2).take_while(|b| b.is_ascii_digit()).count();
    (digits >= least).then(|| (digits, &rest[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_recognized() {
        for text in [
            "2001-01-01",
            "2001-1-1 1:00:00",
            "2001-01-01T10:00:00Z",
            "2001-01-01 10:00:00.5 +01:00",
            "2001-12-14t21:59:43.10-05",
        ] {
            assert!(is_timestamp(text.as_bytes()), "{text}");
        }
        for text in [
            "2001-1-1",
            "2001-01-01 ",
            "2001-01-01x",
            "201-01-01",
            "2001-01-01 10:00",
            "2001-01-01T10:00:00 ",
            "2001-01-01 10:00:00X",
        ] {
            assert!(!is_timestamp(text.as_bytes()), "{text}");
        }
    }
}
