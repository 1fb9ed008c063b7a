//! The text of a file and its rendered form, cached while diagnostics are made: many diagnostics cost one rendering.

use std::cell::RefCell;
use std::rc::Rc;

use crate::jinja::LineMap;
use crate::source_files::FileId;

/// A text with access by line.
pub(crate) struct TextLines {
    text: String,
    starts: Vec<usize>,
}

impl TextLines {
    pub(crate) fn new(text: String) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect();
        Self { text, starts }
    }

    /// A line by its number, counted from 1; empty beyond the end.
    pub(crate) fn line(&self, number: u32) -> &str {
        let Some(index) = (number as usize).checked_sub(1) else { return "" };
        let Some(start) = self.starts.get(index) else { return "" };
        let end = self.starts.get(index + 1).map_or(self.text.len(), |end| end - 1);
        self.text[*start..end].trim_end_matches('\r')
    }
}

/// A file, and its rendered text with the origin of each line when it is a template.
pub(crate) struct FileTrace {
    pub(crate) source: TextLines,
    pub(crate) rendered: Option<(TextLines, LineMap)>,
}

impl FileTrace {
    fn size(&self) -> usize {
        self.source.text.len() + self.rendered.as_ref().map_or(0, |(lines, _)| lines.text.len())
    }
}

/// Maximum size of the cached texts, in bytes.
const MAX_CACHED_BYTES: usize = 4 << 20;

/// Recently used traces.
#[derive(Default)]
pub(crate) struct TraceCache(RefCell<Vec<(FileId, Rc<FileTrace>)>>);

impl TraceCache {
    /// The trace of a file; `make` is called when it is not cached.
    pub(crate) fn get_or_trace(&self, file: FileId, make: impl FnOnce() -> FileTrace) -> Rc<FileTrace> {
        if let Some((_, traced)) = self.0.borrow().iter().find(|(id, _)| *id == file) {
            return Rc::clone(traced);
        }
        let traced = Rc::new(make());
        let mut kept = self.0.borrow_mut();
        if kept.iter().map(|(_, t)| t.size()).sum::<usize>() > MAX_CACHED_BYTES {
            kept.clear();
        }
        kept.push((file, Rc::clone(&traced)));
        traced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_text() {
        for text in ["", "a", "a\n", "a\nb", "\n\nb\n", "ä\nö"] {
            let lines = TextLines::new(text.into());
            for (i, line) in text.lines().enumerate() {
                assert_eq!(lines.line(u32::try_from(i + 1).unwrap()), line, "{text:?}");
            }
            assert_eq!((lines.line(0), lines.line(99)), ("", ""));
        }
    }
}
