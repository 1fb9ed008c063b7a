//! `1.4.2` in, a comparable version out.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A version: up to three numbers, and a pre-release part such as `rc.1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgentVersion {
    numbers: [u64; 3],
    before: Option<String>,
}

/// The text is not a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a version must look like `1.4.2`")]
pub struct AgentVersionError;

impl FromStr for AgentVersion {
    type Err = AgentVersionError;

    fn from_str(text: &str) -> Result<Self, AgentVersionError> {
        let (numbers, before) = match text.split_once('-') {
            Some((numbers, before)) => (numbers, Some(before)),
            None => (text, None),
        };
        let part = |p: &str| !p.is_empty() && p.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if text.len() > 64 || before.is_some_and(|b| !b.split('.').all(part)) {
            return Err(AgentVersionError);
        }
        let mut found = [0; 3];
        for (i, part) in numbers.split('.').enumerate() {
            let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            let slot = found.get_mut(i).filter(|_| digits).ok_or(AgentVersionError)?;
            *slot = part.parse().map_err(|_| AgentVersionError)?;
        }
        Ok(Self { numbers: found, before: before.map(str::to_owned) })
    }
}

impl fmt::Display for AgentVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        self.before.iter().try_for_each(|before| write!(f, "-{before}"))
    }
}

impl Ord for AgentVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        let before = match (&self.before, &other.before) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(a), Some(b)) => parts(a).cmp(parts(b)),
        };
        // Compare the text last, so that only identical versions are equal.
        self.numbers.cmp(&other.numbers).then(before).then_with(|| self.before.cmp(&other.before))
    }
}

impl PartialOrd for AgentVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Numbers come before words, and are compared as numbers.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum VersionPart<'t> {
    Number(u64),
    Word(&'t str),
}

fn parts(text: &str) -> impl Iterator<Item = VersionPart<'_>> {
    text.split('.').map(|part| part.parse().map_or(VersionPart::Word(part), VersionPart::Number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        let rising =
            ["0.1.0", "0.9", "0.10.0", "1.0.0-alpha", "1.0.0-rc.2", "1.0.0-rc.10", "1", "1.0.1", "2.0.0"];
        for pair in rising.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|text| text.parse::<AgentVersion>().unwrap());
            assert!(a < b, "{a} < {b}");
        }
        assert_eq!("1.2".parse::<AgentVersion>().unwrap().to_string(), "1.2.0");
        assert_eq!("1.2.3-rc.1".parse::<AgentVersion>().unwrap().to_string(), "1.2.3-rc.1");
        for bad in ["", "v1", "1.", "1.2.3.4", "1.x", "1 ", "-1", "1-", "1-a..b", "99999999999999999999"] {
            assert!(bad.parse::<AgentVersion>().is_err(), "{bad:?}");
        }
    }
}
