//! A pin: the node follows another branch than the configured one, or stays on one commit.
//!
//! Law: a pin that cannot be read is still a pin. The node keeps its current generation and reports it; it does not
//! return to the branch that it was pinned away from (held by `a_pin_is_saved_and_damage_is_reported`).

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use zagent_config::ids::Revision;
use zagent_config::paths::Paths;

use super::time_text::clock_text;
use zagent_config::json_file;
use zagent_config::json_file::JsonFileError;

/// What a node is pinned to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PinTarget {
    /// The head of a branch.
    Branch(String),
    /// One commit.
    Commit(Revision),
}

/// Why a text is neither a branch nor a commit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinTargetError {
    /// A shortened commit ID.
    #[error("`{0}` looks like a shortened commit ID")]
    Short(String),
    /// Not a valid branch name.
    #[error("`{0}` can be neither a branch nor a commit")]
    Name(String),
}

impl FromStr for PinTarget {
    type Err = PinTargetError;

    fn from_str(text: &str) -> Result<Self, PinTargetError> {
        let lower = text.to_ascii_lowercase();
        if let Ok(revision) = lower.parse() {
            return Ok(Self::Commit(revision));
        }
        let full = text.strip_prefix("refs/heads/");
        let is_hex = text.len() >= 7 && lower.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if full.is_none() && is_hex {
            return Err(PinTargetError::Short(text.into()));
        }
        let name = full.unwrap_or(text);
        if is_branch_name(name) {
            Ok(Self::Branch(name.to_owned()))
        } else {
            Err(PinTargetError::Name(text.into()))
        }
    }
}

/// True for a name that Git accepts as a branch.
fn is_branch_name(name: &str) -> bool {
    let forbidden = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    name.len() <= 200
        && name != "@"
        && !name.starts_with('-')
        && !name.ends_with('.')
        && !name.contains("..")
        && !name.contains("@{")
        && !name.chars().any(forbidden)
        && name.split('/').all(part)
}

impl fmt::Display for PinTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Branch(name) => write!(f, "branch {name}"),
            Self::Commit(revision) => write!(f, "commit {}", revision.short()),
        }
    }
}

/// A pin, as requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePin {
    /// Target.
    pub to: PinTarget,
    /// Start time.
    pub since: Timestamp,
    /// User who requested it.
    pub by: String,
    /// Reason.
    pub reason: Option<String>,
}

impl NodePin {
    /// The active pin.
    ///
    /// # Errors
    /// Fails when the file is damaged or cannot be read: the node must then keep its current generation.
    pub fn read(paths: &Paths) -> Result<Option<Self>, JsonFileError> {
        let pin: Option<Self> = json_file::read(&paths.pin())?;
        // A file written by other means may hold an invalid name.
        match &pin {
            Some(Self { to: PinTarget::Branch(name), .. }) if !is_branch_name(name) => {
                let source = serde::de::Error::custom("it does not name a branch");
                Err(JsonFileError::Damaged { path: paths.pin(), source })
            }
            _ => Ok(pin),
        }
    }

    /// Writes it, replacing an earlier one.
    ///
    /// # Errors
    /// Fails when it cannot be written.
    pub fn write(&self, paths: &Paths) -> Result<(), JsonFileError> {
        json_file::write(&paths.pin(), self)
    }

    /// Removes it; true when there was one. Removes a damaged file as well.
    ///
    /// # Errors
    /// Fails when it cannot be removed.
    pub fn clear(paths: &Paths) -> Result<bool, JsonFileError> {
        json_file::remove(&paths.pin())
    }

    /// `pinned to branch fix/disk since 14:00 by root: try it here first`.
    #[must_use]
    pub fn summary(&self, now: Timestamp, zone: &TimeZone) -> String {
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("pinned to {} since {} by {}{reason}", self.to, clock_text(self.since, now, zone), self.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_and_commits_are_told_apart() {
        let hex = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(hex.parse(), Ok(PinTarget::Commit(hex.parse().unwrap())));
        assert_eq!(hex.to_uppercase().parse(), Ok(PinTarget::Commit(hex.parse().unwrap())));
        for name in ["main", "testing/web-01", "fix_1", "abc", "deadbe"] {
            assert_eq!(name.parse(), Ok(PinTarget::Branch(name.into())));
        }
        assert_eq!("refs/heads/deadbeef".parse(), Ok(PinTarget::Branch("deadbeef".into())));
        assert_eq!("deadbeef".parse::<PinTarget>(), Err(PinTargetError::Short("deadbeef".into())));
        for bad in
            ["", "-x", "a b", "a..b", "a~1", "x.lock", "a//b", "/a", "a/", ".a", "@", "a@{1}", "a\0", "a."]
        {
            assert_eq!(bad.parse::<PinTarget>(), Err(PinTargetError::Name(bad.into())), "{bad:?}");
        }
    }

    #[test]
    fn a_pin_is_saved_and_damage_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        let now: Timestamp = "2026-11-16T14:00:00Z".parse().unwrap();
        assert_eq!(NodePin::read(&paths).unwrap(), None);
        let pin = NodePin {
            to: "fix/disk".parse().unwrap(),
            since: now,
            by: "root".into(),
            reason: Some("here first".into()),
        };
        pin.write(&paths).unwrap();
        assert_eq!(NodePin::read(&paths).unwrap().as_ref(), Some(&pin));
        assert_eq!(
            pin.summary(now, &TimeZone::UTC),
            "pinned to branch fix/disk since 14:00 by root: here first"
        );
        let text = std::fs::read_to_string(paths.pin()).unwrap();
        std::fs::write(paths.pin(), text.replace("fix/disk", "--upload-pack=x")).unwrap();
        assert!(matches!(NodePin::read(&paths), Err(JsonFileError::Damaged { .. })));
        assert!(NodePin::clear(&paths).unwrap() && !NodePin::clear(&paths).unwrap());
    }
}
