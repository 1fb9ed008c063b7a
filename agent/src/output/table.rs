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

    /// Adds a row of cells that are one sanitised line each, and keeps their spaces.
    pub fn add_line(&mut self, tone: Tone, cells: [String; N]) {
        self.rows.push((tone, cells));
    }

    /// Renders the table; the last column is not padded. Cells of a table that is wider than the terminal are broken.
    #[must_use]
    pub fn render(&self, paint: Paint) -> String {
        let mut widths = self.heads.map(|head| head.chars().count());
        for (_, cells) in &self.rows {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        if let Some(limit) = paint.width() {
            fit(&mut widths, limit);
        }
        let mut out = String::new();
        let line = |cells: [&str; N]| {
            let cells = widths.iter().zip(cells).map(|(w, cell)| format!("{cell:w$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        for part in broken(self.heads, &widths) {
            let _ = writeln!(out, "{}", paint.bold(line(each(&part))));
        }
        for (tone, cells) in &self.rows {
            for part in broken(each(cells), &widths) {
                let _ = writeln!(out, "{}", tone.apply(&line(each(&part)), paint));
            }
        }
        out
    }
}

/// Columns are never made narrower than this: eight of them fit 60 characters.
const MIN_WIDTH: usize = 5;

/// Makes the widest columns narrower until the line fits, or none can be.
fn fit(widths: &mut [usize], limit: usize) {
    let gaps = 2 * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > limit {
        let Some(widest) = widths.iter_mut().max().filter(|width| **width > MIN_WIDTH) else { return };
        *widest -= 1;
    }
}

fn each<const N: usize>(cells: &[String; N]) -> [&str; N] {
    std::array::from_fn(|index| cells[index].as_str())
}

/// The lines of a row whose cells are broken to the widths of their columns: at a space, or anywhere.
fn broken<const N: usize>(cells: [&str; N], widths: &[usize; N]) -> Vec<[String; N]> {
    let columns: [Vec<String>; N] = std::array::from_fn(|index| broken_cell(cells[index], widths[index]));
    let height = columns.iter().map(Vec::len).max().unwrap_or(0);
    let part = |row: usize| std::array::from_fn(|index| columns[index].get(row).cloned().unwrap_or_default());
    (0..height).map(part).collect()
}

fn broken_cell(cell: &str, width: usize) -> Vec<String> {
    let (mut lines, mut rest) = (Vec::new(), cell);
    while let Some((end, _)) = rest.char_indices().nth(width) {
        let (head, tail) = match rest[..end].rfind(' ') {
            _ if rest[end..].starts_with(' ') => (&rest[..end], &rest[end + 1..]),
            Some(space) => (&rest[..space], &rest[space + 1..]),
            None => rest.split_at(end),
        };
        lines.push(head.to_owned());
        rest = tail;
    }
    lines.push(rest.to_owned());
    lines
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

    #[test]
    fn a_table_fits_the_terminal_and_loses_nothing() {
        let mut table = TextTable::new(["NODE", "REVISION", "NOTE"]);
        let note = "health check fails: http://127.0.0.1:8080/healthz answers 503 Service Unavailable";
        table.add_row(Tone::Plain, ["web-01.example.org".into(), "3f2a1b9c0d1e".into(), note.into()]);
        for width in 40..=200 {
            let text = table.render(Paint::new(false).with_width(Some(width)));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            let words = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<Vec<_>>();
            let (mut shown, mut all) = (words(&text), words(&table.render(Paint::new(false))));
            shown.sort_unstable();
            all.sort_unstable();
            assert_eq!(shown, all, "{width}");
        }
        assert_eq!(table.render(Paint::new(false).with_width(Some(200))), table.render(Paint::new(false)));
        let mut widths = [40; 8];
        fit(&mut widths, 60);
        assert!(widths.iter().sum::<usize>() + 14 <= 60, "{widths:?}");
        assert_eq!(broken_cell("ab cd", 2), ["ab", "cd"]);
        assert_eq!(broken_cell("übergröße", 4), ["über", "größ", "e"]);
    }
}
