//! Names that are sent between machines, checked once: a value of these types is safe as a file name and in a Git ref.

use std::fmt;
use std::str::FromStr;

/// Longest name in bytes, as for a DNS name.
pub const MAX_NAME_BYTES: usize = 253;

/// Why a text is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Empty.
    #[error("a name must not be empty")]
    Empty,
    /// Longer than [`MAX_NAME_BYTES`].
    #[error("a name has at most {MAX_NAME_BYTES} bytes")]
    TooLong,
    /// A character that is not allowed in file names, Git refs or targets.
    #[error("a name must not contain {0:?}")]
    Forbidden(char),
    /// A start or an end that is special in file names, Git refs or command lines.
    #[error("a name must not {0}")]
    Shape(&'static str),
}

/// The full id of a commit: 40 hex digits, or 64.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Revision(String);

impl Revision {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The abbreviated id, for display.
    #[must_use]
    pub fn short(&self) -> &str {
        &self.0[..SHORT_DIGITS]
    }
}

/// Digits of an abbreviated commit id.
const SHORT_DIGITS: usize = 12;
/// The prefix of the revision of a plain directory.
pub const DIR_PREFIX: &str = "dir:";

/// The abbreviated form of what a record names as its revision: a commit or the digest of a directory is shortened,
/// without its prefix; anything else, such as a path, stays as it is.
#[must_use]
pub fn short_revision(revision: &str) -> &str {
    let id = revision.strip_prefix(DIR_PREFIX).unwrap_or(revision);
    let is_id = !id.is_empty() && id.bytes().all(|b| b.is_ascii_hexdigit());
    if is_id { id.get(..SHORT_DIGITS).unwrap_or(id) } else { revision }
}

impl FromStr for Revision {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.chars().find(|c| !matches!(c, '0'..='9' | 'a'..='f')) {
            Some(c) => Err(NameError::Forbidden(c)),
            None if matches!(text.len(), 40 | 64) => Ok(Self(text.to_owned())),
            None if text.is_empty() => Err(NameError::Empty),
            None => Err(NameError::Shape("have anything other than 40 or 64 hex digits")),
        }
    }
}

impl TryFrom<String> for Revision {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<Revision> for String {
    fn from(revision: Revision) -> Self {
        revision.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check_name(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > MAX_NAME_BYTES {
        return Err(NameError::TooLong);
    }
    let forbidden =
        |c: &char| c.is_control() || c.is_whitespace() || "/\\,:~^?*[]{}()@\"'`$&|;<>!#%".contains(*c);
    if let Some(c) = text.chars().find(forbidden) {
        return Err(NameError::Forbidden(c));
    }
    if text.starts_with(['.', '-']) {
        return Err(NameError::Shape("start with `.` or `-`"));
    }
    if text.ends_with('.') || text.ends_with(".lock") {
        return Err(NameError::Shape("end with `.` or `.lock`"));
    }
    if text.contains("..") {
        return Err(NameError::Shape("contain `..`"));
    }
    Ok(())
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                check_name(text).map(|()| Self(text.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

names! {
    /// The id of a node.
    NodeId;
    /// The name of an environment, such as `base`.
    EnvName;
    /// The id of a rollout, the last part of its branch.
    RolloutId;
    /// The id of a fleet, such as `prod`.
    FleetId;
}

impl NodeId {
    /// The id of a node whose host name is missing or unusable.
    #[must_use]
    pub fn localhost() -> Self {
        Self("localhost".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_abbreviated_and_nothing_else_is() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(id.parse::<Revision>().unwrap().short(), "0123456789ab");
        assert_eq!(short_revision(id), "0123456789ab");
        assert_eq!(short_revision(&format!("dir:{id}")), "0123456789ab");
        for whole in ["", "dir:", "starter", "/srv/states/and/more", "abc"] {
            assert_eq!(short_revision(whole), whole);
        }
    }

    #[test]
    fn accepts_host_names_and_rejects_unsafe_names() {
        for good in ["web-01", "db.example.org", "a", "Köln_1", "10.0.0.1", "x=y+z"] {
            assert!(good.parse::<NodeId>().is_ok(), "{good}");
        }
        for (bad, want) in [
            ("", NameError::Empty),
            ("a/b", NameError::Forbidden('/')),
            ("a b", NameError::Forbidden(' ')),
            ("a\0", NameError::Forbidden('\0')),
            ("web*", NameError::Forbidden('*')),
            ("a,b", NameError::Forbidden(',')),
            ("..", NameError::Shape("start with `.` or `-`")),
            ("-x", NameError::Shape("start with `.` or `-`")),
            ("a..b", NameError::Shape("contain `..`")),
            ("a.lock", NameError::Shape("end with `.` or `.lock`")),
            (&"x".repeat(254), NameError::TooLong),
        ] {
            assert_eq!(bad.parse::<NodeId>(), Err(want), "{bad:?}");
        }
    }
}
