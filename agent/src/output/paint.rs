//! Text in, coloured text out, when colour is enabled; also what else a stream can show: its width and its characters.

use std::fmt::Display;

use super::locale::ascii_mark;

/// Adds colour, or leaves the text as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paint {
    on: bool,
    width: Option<usize>,
    ascii: bool,
}

impl Paint {
    /// Adds colour when `on`.
    #[must_use]
    pub const fn new(on: bool) -> Self {
        Self { on, width: None, ascii: false }
    }

    /// For a terminal with this number of columns.
    #[must_use]
    pub const fn with_width(self, width: Option<usize>) -> Self {
        Self { width, ..self }
    }

    /// For a stream whose locale has only ASCII characters.
    #[must_use]
    pub const fn with_ascii(self, ascii: bool) -> Self {
        Self { ascii, ..self }
    }

    /// Columns of the terminal; none when lines may be as long as they are.
    #[must_use]
    pub const fn width(self) -> Option<usize> {
        self.width
    }

    /// A mark of our own, such as a check mark, as the stream can show it.
    #[must_use]
    pub fn mark(self, mark: char) -> char {
        if self.ascii { ascii_mark(mark).unwrap_or(mark) } else { mark }
    }

    fn with(self, code: &str, text: impl Display) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// Errors.
    #[must_use]
    pub fn red(self, text: impl Display) -> String {
        self.with("1;31", text)
    }

    /// Warnings, and what would change.
    #[must_use]
    pub fn yellow(self, text: impl Display) -> String {
        self.with("33", text)
    }

    /// Success, and added lines.
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

    /// Less important text.
    #[must_use]
    pub fn dim(self, text: impl Display) -> String {
        self.with("2", text)
    }
}
