//! The part of the crate `regex` that `async-nats` calls, on the matcher that zagent has anyway.
//!
//! `async-nats` matches names of buckets and keys, versions and credentials. For that the real crate would bring all of
//! Unicode's scripts and categories, 0.2 MB of tables that nothing else here uses. `[patch.crates-io]` in the workspace puts
//! this crate in its place; what `async-nats` does not call is not here.

use regex_automata::meta;
use regex_automata::util::captures;

/// A pattern that is not one.
#[derive(Clone, Debug)]
pub struct Error(meta::BuildError);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Regex(meta::Regex);

impl Regex {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// Fails when it is not a pattern.
    pub fn new(pattern: &str) -> Result<Self, Error> {
        meta::Regex::new(pattern).map(Self).map_err(Error)
    }

    /// True when the text contains a match.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// The first match and its groups.
    #[must_use]
    pub fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        self.captures_iter(text).next()
    }

    /// All matches and their groups.
    pub fn captures_iter<'t>(&self, text: &'t str) -> impl Iterator<Item = Captures<'t>> {
        self.0.captures_iter(text).map(move |groups| Captures { text, groups })
    }
}

/// The groups of a match.
#[derive(Clone, Debug)]
pub struct Captures<'t> {
    text: &'t str,
    groups: captures::Captures,
}

impl<'t> Captures<'t> {
    /// One group; 0 is the whole match.
    #[must_use]
    pub fn get(&self, group: usize) -> Option<Match<'t>> {
        self.groups.get_group(group).map(|span| Match(&self.text[span.range()]))
    }
}

/// The text of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match<'t>(&'t str);

impl<'t> Match<'t> {
    /// The text.
    #[must_use]
    pub const fn as_str(&self) -> &'t str {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_the_first_match_and_of_all() {
        let version = Regex::new(r"\Av?([0-9]+)\.?([0-9]+)?\.?([0-9]+)?").unwrap();
        let groups = version.captures("v2.10").unwrap();
        let text = |group| groups.get(group).map(|found| found.as_str());
        assert_eq!((text(0), text(1), text(2), text(3)), (Some("v2.10"), Some("2"), Some("10"), None));
        assert!(version.captures("next").is_none());
        let parts = Regex::new(r"-{3,}\n([\w\-.=]+)\n").unwrap();
        let found: Vec<_> =
            parts.captures_iter("---\none.é=\n---\ntwo\n").map(|part| part.get(1).unwrap()).collect();
        assert_eq!(found, [Match("one.é="), Match("two")]);
    }

    #[test]
    fn names_match_as_a_whole() {
        let name = Regex::new(r"\A[a-zA-Z0-9_-]+\z").unwrap();
        assert!(name.is_match("fleet-7") && !name.is_match("fleet 7") && !name.is_match(""));
        let open = String::from("(");
        assert!(Regex::new(&open).is_err());
    }
}
