//! Words in, words with colour out, when colour is wanted.

use std::fmt::Display;

/// Paints, or leaves as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Paints when `on`.
    #[must_use]
    pub const fn new(on: bool) -> Self {
        Self { on }
    }

    fn with(self, code: &str, text: impl Display) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// Faults.
    #[must_use]
    pub fn red(self, text: impl Display) -> String {
        self.with("1;31", text)
    }

    /// Warnings, and what would change.
    #[must_use]
    pub fn yellow(self, text: impl Display) -> String {
        self.with("33", text)
    }

    /// What is fine, and what is added.
    #[must_use]
    pub fn green(self, text: impl Display) -> String {
        self.with("32", text)
    }

    /// Frames and line numbers.
    #[must_use]
    pub fn blue(self, text: impl Display) -> String {
        self.with("1;34", text)
    }

    /// Functions and kinds.
    #[must_use]
    pub fn cyan(self, text: impl Display) -> String {
        self.with("36", text)
    }

    /// Headings.
    #[must_use]
    pub fn bold(self, text: impl Display) -> String {
        self.with("1", text)
    }

    /// What is less important.
    #[must_use]
    pub fn dim(self, text: impl Display) -> String {
        self.with("2", text)
    }
}
