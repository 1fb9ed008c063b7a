//! Versions as text in, which one is newer out.
//!
//! Law: the order of semantic versioning, for any number of dots: `1.2` equals `1.2.0`, a pre-release comes before its
//! release, and the part after `+` is ignored (held by `the_order_of_versions`).

use std::cmp::Ordering;

/// Compares two versions; `None` when one of them is not a version.
#[must_use]
pub fn compare(a: &str, b: &str) -> Option<Ordering> {
    let (a, b) = (ParsedVersion::parse(a)?, ParsedVersion::parse(b)?);
    Some(a.numbers.cmp(&b.numbers).then_with(|| match (a.pre.is_empty(), b.pre.is_empty()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.pre.cmp(&b.pre),
    }))
}

/// True for a valid version: numbers separated by dots, with an optional pre-release and build.
#[must_use]
pub fn is_version(text: &str) -> bool {
    ParsedVersion::parse(text).is_some()
}

struct ParsedVersion<'a> {
    /// Without trailing zeros.
    numbers: Vec<u64>,
    pre: Vec<PreReleasePart<'a>>,
}

/// A part of a pre-release: numbers come before words.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum PreReleasePart<'a> {
    Number(u64),
    Word(&'a str),
}

impl<'a> ParsedVersion<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (text, build) = text.split_once('+').unwrap_or((text, "0"));
        let (numbers, pre) = text.split_once('-').map_or((text, None), |(n, pre)| (n, Some(pre)));
        let mut numbers = numbers.split('.').map(parse_number).collect::<Option<Vec<u64>>>()?;
        while numbers.last() == Some(&0) {
            numbers.pop();
        }
        let pre: Vec<&str> = pre.map(|pre| pre.split('.').collect()).unwrap_or_default();
        let is_word =
            |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !pre.iter().all(|part| is_word(part)) || !build.split('.').all(is_word) {
            return None;
        }
        let pre = pre
            .into_iter()
            .map(|part| parse_number(part).map_or(PreReleasePart::Word(part), PreReleasePart::Number))
            .collect();
        Some(Self { numbers, pre })
    }
}

fn parse_number(text: &str) -> Option<u64> {
    // `parse` would accept a sign.
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_order_of_versions() {
        let rising = [
            "0.9",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1",
            "1.0.1",
            "1.2",
            "1.10",
            "2.0.0-1",
            "2.0.0-a",
            "2.0",
        ];
        for (i, a) in rising.iter().enumerate() {
            for (j, b) in rising.iter().enumerate() {
                assert_eq!(compare(a, b), Some(i.cmp(&j)), "{a} {b}");
            }
        }
        assert_eq!(compare("1.2", "1.2.0+abc.7"), Some(Ordering::Equal));
    }

    #[test]
    fn texts_that_are_not_versions() {
        for text in [
            "",
            "v1",
            "1.",
            ".1",
            "1..2",
            "1-",
            "1+",
            "1.-1",
            "+1",
            "1.2-a_b",
            "main",
            "1/2",
            "99999999999999999999",
        ] {
            assert!(!is_version(text), "{text}");
        }
        assert_eq!(compare("1", "main"), None);
    }

    proptest! {
        #[test]
        fn any_two_texts_compare_and_both_directions_agree(a in "[0-9a.+-]{0,8}", b in "[0-9a.+-]{0,8}") {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).map(Ordering::reverse));
        }
    }
}
