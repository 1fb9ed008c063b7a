//! A line of rendered text in, its origin (file and line) out.
//!
//! Law: a line map never changes what was rendered. It comes from a second rendering, whose plain text has marks;
//! where that rendering differs from the first, lines are matched by their text (held by `lines_have_their_origin`,
//! `a_rendering_that_differs_is_matched_by_text`).

use std::sync::Arc;

use super::source::{MARK_END, MARK_START};

/// A file and a line of it.
type FileLine = (Arc<str>, u32);

/// Origins of rendered lines.
#[derive(Clone, Debug, Default)]
pub struct LineMap {
    origins: Vec<Option<FileLine>>,
}

impl LineMap {
    /// The file and line that made a rendered line, both counted from 1.
    #[must_use]
    pub fn origin(&self, rendered_line: u32) -> Option<(&str, u32)> {
        let index = (rendered_line as usize).checked_sub(1)?;
        self.origins.get(index)?.as_ref().map(|(file, line)| (file.as_ref(), *line))
    }

    /// The map of a text that is its own source.
    pub(crate) fn identity(file: &str, text: &str) -> Self {
        let file: Arc<str> = file.into();
        let lines = text.split('\n').enumerate();
        Self { origins: lines.map(|(i, _)| Some((Arc::clone(&file), line_number(i)))).collect() }
    }

    /// Reads the marks of a marked rendering and assigns them to the lines of the real one.
    pub(crate) fn from_marked(
        marked: &str,
        rendered: &str,
        origin: impl Fn(usize, u32) -> Option<FileLine>,
    ) -> Self {
        let mut lines: Vec<(String, Option<FileLine>)> = Vec::new();
        let mut last = None;
        for line in marked.split('\n') {
            let mut text = String::new();
            let mut first = None;
            for (i, piece) in line.split(MARK_START).enumerate() {
                if i == 0 {
                    text.push_str(piece);
                    continue;
                }
                let (mark, rest) = piece.split_once(MARK_END).unwrap_or(("", piece));
                if let Some(found) = parse_mark(mark).and_then(|(file, line)| origin(file, line)) {
                    // Whitespace before the first word of a line does not identify its origin.
                    if first.is_none() || text.trim().is_empty() {
                        first = Some(found.clone());
                    }
                    last = Some(found);
                }
                text.push_str(rest);
            }
            lines.push((text, first.or_else(|| last.clone())));
        }
        let real: Vec<&str> = rendered.split('\n').collect();
        if lines.iter().map(|(text, _)| text.as_str()).eq(real.iter().copied()) {
            return Self { origins: lines.into_iter().map(|(_, origin)| origin).collect() };
        }
        Self { origins: align_lines(&lines, &real) }
    }
}

fn line_number(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

fn parse_mark(mark: &str) -> Option<(usize, u32)> {
    let (file, line) = mark.split_once(':')?;
    Some((file.parse().ok()?, line.parse().ok()?))
}

/// How far ahead a line is searched.
const WINDOW: usize = 200;

/// Gives each real line the origin of the next marked line with the same text.
fn align_lines(marked: &[(String, Option<FileLine>)], real: &[&str]) -> Vec<Option<FileLine>> {
    let mut at = 0;
    let mut last = None;
    real.iter()
        .map(|line| {
            let ahead = marked.iter().skip(at).take(WINDOW);
            let found =
                ahead.into_iter().position(|(text, _)| text.trim() == line.trim() && !line.trim().is_empty());
            if let Some(offset) = found {
                last.clone_from(&marked[at + offset].1);
                at += offset + 1;
            }
            last.clone()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(file: usize, line: u32) -> Option<FileLine> {
        Some((["a", "b"][file].into(), line))
    }

    fn mark(file: usize, line: u32) -> String {
        format!("{MARK_START}{file}:{line}{MARK_END}")
    }

    #[test]
    fn lines_have_their_origin() {
        let marked = format!("{}x\n{}y {}z\nvalue", mark(0, 1), mark(0, 3), mark(1, 9));
        let map = LineMap::from_marked(&marked, "x\ny z\nvalue", origin);
        assert_eq!(map.origin(1), Some(("a", 1)));
        assert_eq!(map.origin(2), Some(("a", 3)));
        assert_eq!(map.origin(3), Some(("b", 9)));
        assert_eq!(map.origin(0), None);
        assert_eq!(map.origin(4), None);
    }

    #[test]
    fn a_rendering_that_differs_is_matched_by_text() {
        let marked = format!("{}x\n{}changed\n{}z", mark(0, 1), mark(0, 2), mark(0, 5));
        let map = LineMap::from_marked(&marked, "x\nother\n\nz", origin);
        assert_eq!(map.origin(1), Some(("a", 1)));
        assert_eq!(map.origin(2), Some(("a", 1)));
        assert_eq!(map.origin(4), Some(("a", 5)));
    }
}
