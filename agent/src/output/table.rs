//! Rows in, a table with aligned columns out.
//!
//! Law: a cell is one sanitised line, whatever its source (held by `columns_are_aligned_and_cells_are_sanitised`).

use std::fmt::Write;

use super::Paint;
use zagent_config::sanitize;

/// How something looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Good.
    Good,
    /// Neither good nor bad.
    Plain,
    /// Needs attention soon.
    Warn,
    /// Needs attention now.
    Error,
    /// Less important.
    Dim,
}

impl Tone {
    /// A text in its colour.
    #[must_use]
    pub fn apply(self, text: &str, paint: Paint) -> String {
        match self {
            Self::Good => paint.green(text),
            Self::Plain => text.to_owned(),
            Self::Warn => paint.yellow(text),
            Self::Error => paint.red(text),
            Self::Dim => paint.dim(text),
        }
    }
}

/// A table under construction.
#[derive(Clone, Debug)]
pub struct TextTable<const N: usize> {
    heads: [&'static str; N],
    rows: Vec<(Tone, [String; N])>,
}

impl<const N: usize> TextTable<N> {
    /// A table with these headings and no rows.
    #[must_use]
    pub const fn new(heads: [&'static str; N]) -> Self {
        Self { heads, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn add_row(&mut self, tone: Tone, cells: [String; N]) {
        self.rows.push((tone, cells.map(|cell| one_line(&cell))));
    }

    /// Renders the table; the last column is not padded.
    #[must_use]
    pub fn render(&self, paint: Paint) -> String {
        let mut widths = self.heads.map(|head| head.chars().count());
        for (_, cells) in &self.rows {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut out = String::new();
        let line = |cells: &[String; N]| {
            let cells = widths.iter().zip(cells).map(|(w, cell)| format!("{cell:w$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let _ = writeln!(out, "{}", paint.bold(line(&self.heads.map(str::to_owned))));
        for (tone, cells) in &self.rows {
            let _ = writeln!(out, "{}", tone.apply(&line(cells), paint));
        }
        out
    }
}

/// External text as one sanitised line.
#[must_use]
pub fn one_line(text: &str) -> String {
    sanitize(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cells_are_sanitised() {
        let mut table = TextTable::new(["NODE", "STATE"]);
        table.add_row(Tone::Good, ["web-01".into(), "fine".into()]);
        table.add_row(Tone::Error, ["ü".into(), "no\n\x1b[2Jgood".into()]);
        assert_eq!(
            table.render(Paint::new(false)),
            "NODE    STATE\nweb-01  fine\nü       no \u{fffd}[2Jgood\n"
        );
        assert!(table.render(Paint::new(true)).contains("\x1b[32mweb-01  fine\x1b[0m"));
    }
}
