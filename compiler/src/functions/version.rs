//! `pkg.version_cmp`: which of two package versions is later, as dpkg and rpm compare them.

use std::cmp::Ordering;

use zagent_config::Value as Data;

use super::table::{FunctionEntry, data_function};
use super::{FunctionArgs, FunctionError, FunctionsInner};

pub(super) const TABLE: &[FunctionEntry] =
    &[data_function("pkg.version_cmp", "pkg1 pkg2 ignore_epoch? **", version_cmp)];

/// Whose rules compare versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionScheme {
    /// dpkg's.
    Debian,
    /// rpm's (and pacman's).
    Rpm,
}

impl VersionScheme {
    /// The scheme of a family of systems, by the grain `os_family`.
    #[must_use]
    pub fn for_family(os_family: &str) -> Self {
        if os_family == "Debian" { Self::Debian } else { Self::Rpm }
    }

    /// Compares two versions, epochs included.
    #[must_use]
    pub fn compare(self, a: &str, b: &str) -> Ordering {
        let ((epoch_a, a), (epoch_b, b)) = (split_epoch(a), split_epoch(b));
        epoch_a.cmp(&epoch_b).then_with(|| match self {
            Self::Debian => {
                let ((a, ra), (b, rb)) = (split_revision(a), split_revision(b));
                compare_debian(a, b).then_with(|| compare_debian(ra, rb))
            }
            Self::Rpm => compare_rpm_release(a, b),
        })
    }
}

fn version_cmp(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let family = inner.inputs.host.grain("os_family");
    let scheme = VersionScheme::for_family(family.as_ref().and_then(Data::as_str).unwrap_or("Debian"));
    let ignore_epoch = args.get("ignore_epoch").is_some_and(Data::is_truthy);
    let read = |name: &str| {
        let text = match args.get(name) {
            Some(Data::Str(s)) => s.to_string(),
            Some(other) => other.json_key(),
            None => String::new(),
        };
        if ignore_epoch { text.split_once(':').map_or(text.clone(), |(_, v)| v.to_owned()) } else { text }
    };
    let (a, b) = (read("pkg1"), read("pkg2"));
    if [&a, &b].into_iter().any(|v| v.trim().contains(char::is_whitespace)) {
        return Ok(Data::Null);
    }
    Ok(Data::Int(scheme.compare(a.trim(), b.trim()) as i64))
}

fn split_epoch(version: &str) -> (u64, &str) {
    match version.split_once(':') {
        Some((epoch, rest)) => epoch.parse().map_or((0, version), |e| (e, rest)),
        None => (0, version),
    }
}

/// The upstream part and the revision after the last hyphen.
fn split_revision(version: &str) -> (&str, &str) {
    version.rsplit_once('-').unwrap_or((version, ""))
}

/// dpkg's order of one character outside numbers: `~` before the end, the end before letters, letters before all else.
fn char_weight(c: Option<u8>) -> i32 {
    match c {
        Some(b'~') => -1,
        None => 0,
        Some(c) if c.is_ascii_digit() => 0,
        Some(c) if c.is_ascii_alphabetic() => i32::from(c),
        Some(c) => i32::from(c) + 256,
    }
}

fn compare_debian(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while !a.is_empty() || !b.is_empty() {
        while a.first().is_some_and(|c| !c.is_ascii_digit()) || b.first().is_some_and(|c| !c.is_ascii_digit())
        {
            let order = char_weight(a.first().copied()).cmp(&char_weight(b.first().copied()));
            if order.is_ne() {
                return order;
            }
            a = a.get(1..).unwrap_or_default();
            b = b.get(1..).unwrap_or_default();
        }
        let (x, rest_a) = split_number(a);
        let (y, rest_b) = split_number(b);
        let order = x.len().cmp(&y.len()).then_with(|| x.cmp(y));
        if order.is_ne() {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
    Ordering::Equal
}

/// The digits at the head without leading zeros, and what follows.
fn split_number(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|c| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let zeros = digits.iter().take_while(|c| **c == b'0').count();
    (&digits[zeros..], rest)
}

/// A release is compared only when both have one.
fn compare_rpm_release(a: &str, b: &str) -> Ordering {
    let ((va, ra), (vb, rb)) = (split_revision(a), split_revision(b));
    let order = compare_rpm(va, vb);
    if order.is_ne() || ra.is_empty() || rb.is_empty() { order } else { compare_rpm(ra, rb) }
}

/// rpm's order: segments of digits or letters; `~` sorts before the end, `^` after it.
fn compare_rpm(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        let skip = |s: &[u8]| {
            s.iter().take_while(|c| !c.is_ascii_alphanumeric() && !matches!(c, b'~' | b'^')).count()
        };
        a = &a[skip(a)..];
        b = &b[skip(b)..];
        match (a.first(), b.first()) {
            (Some(b'~'), Some(b'~')) | (Some(b'^'), Some(b'^')) => {
                (a, b) = (&a[1..], &b[1..]);
                continue;
            }
            (Some(b'~'), _) => return Ordering::Less,
            (_, Some(b'~')) => return Ordering::Greater,
            (Some(b'^'), None) => return Ordering::Greater,
            (None, Some(b'^')) => return Ordering::Less,
            (Some(b'^'), _) => return Ordering::Less,
            (_, Some(b'^')) => return Ordering::Greater,
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) => {
                let digits = x.is_ascii_digit();
                if digits != y.is_ascii_digit() {
                    return if digits { Ordering::Greater } else { Ordering::Less };
                }
                let order = if digits {
                    let ((x, rest_a), (y, rest_b)) = (split_number(a), split_number(b));
                    (a, b) = (rest_a, rest_b);
                    x.len().cmp(&y.len()).then_with(|| x.cmp(y))
                } else {
                    let word = |s: &[u8]| s.iter().take_while(|c| c.is_ascii_alphabetic()).count();
                    let ((x, rest_a), (y, rest_b)) = (a.split_at(word(a)), b.split_at(word(b)));
                    (a, b) = (rest_a, rest_b);
                    x.cmp(y)
                };
                if order.is_ne() {
                    return order;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scheme: VersionScheme, cases: &[(&str, &str, Ordering)]) {
        for (a, b, want) in cases {
            assert_eq!(scheme.compare(a, b), *want, "{a} ? {b}");
            assert_eq!(scheme.compare(b, a), want.reverse(), "{b} ? {a}");
        }
    }

    #[test]
    fn dpkg() {
        use Ordering::{Equal, Less};
        check(
            VersionScheme::Debian,
            &[
                ("1.0", "1.0-1", Less),
                ("2.0", "1:1.0", Less),
                ("0.2-001", "0.2.0.1-002", Less),
                ("1.0~rc1", "1.0", Less),
                ("1.0~~", "1.0~", Less),
                ("1.0", "1.0+b1", Less),
                ("1.0a", "1.0+", Less),
                ("1.9", "1.10", Less),
                ("1.01", "1.1", Equal),
                ("1.0-0", "1.0", Equal),
                ("", "246", Less),
                ("0:1", "1", Equal),
                ("5.2.15-2+b8", "5.2.15-2+b13", Less),
                ("1.2-3-4", "1.2-3-5", Less),
                ("99999999999999999999", "100000000000000000000", Less),
            ],
        );
    }

    #[test]
    fn rpm() {
        use Ordering::{Equal, Less};
        check(
            VersionScheme::Rpm,
            &[
                ("1.0", "1.1", Less),
                ("1.0-1", "1.0-2", Less),
                ("1.0", "1.0-2", Equal),
                ("2.0", "1:1.0", Less),
                ("1.0~rc1", "1.0", Less),
                ("1.0", "1.0^git1", Less),
                ("1.0^git1", "1.0.1", Less),
                ("1.0a", "1.0.1", Less),
                ("10xyz", "10.1xyz", Less),
                ("xyz.4", "8", Less),
                ("1.05", "1.5", Equal),
                ("2.0_1", "2.0.1", Equal),
            ],
        );
    }
}
