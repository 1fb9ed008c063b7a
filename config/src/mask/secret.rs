//! A text that must not be shown, as a type.
//!
//! Law: it has no `Display` and cannot be serialised, and `Debug` shows no part of it: who wants the text says so
//! with [`Secret::expose`] (held by `a_secret_prints_nothing_of_itself`, `Secret`).

use std::fmt;

use super::MASKED_TEXT;

/// A text that must not be shown.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for the one place that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// True when there is nothing to hide.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({MASKED_TEXT})")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_nothing_of_itself() {
        assert_eq!(format!("{:?}", Secret::from("hunter2")), "Secret(********)");
    }
}
