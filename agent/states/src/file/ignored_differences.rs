//! `ignore_ordering` and similar options: do two contents differ in a way that others should answer?

use crate::{ChunkArgs, StateError};

/// Which differences nobody else should answer. The file is changed all the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IgnoredDifferences {
    ordering: bool,
    whitespace: bool,
    comments: Vec<String>,
}

impl IgnoredDifferences {
    /// Reads `ignore_ordering`, `ignore_whitespace` and `ignore_comment_characters`.
    ///
    /// # Errors
    /// Fails when the characters are no texts.
    pub(crate) fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let comments = args.texts("ignore_comment_characters")?.unwrap_or_default();
        Ok(Self {
            ordering: args.flag("ignore_ordering", false),
            whitespace: args.flag("ignore_whitespace", false),
            comments: comments.into_iter().filter(|c| !c.is_empty()).collect(),
        })
    }

    /// True when the two differ only in what is to be ignored.
    pub(crate) fn covers(&self, old: &[u8], new: &[u8]) -> bool {
        let is_asked = self.ordering || self.whitespace || !self.comments.is_empty();
        is_asked && self.significant_lines(old) == self.significant_lines(new)
    }

    /// The lines that count, in no order.
    fn significant_lines(&self, content: &[u8]) -> Vec<String> {
        let text = String::from_utf8_lossy(content);
        let mut lines: Vec<String> = Vec::new();
        for line in text.split_inclusive('\n') {
            let mut line = line;
            for mark in &self.comments {
                line = line.split(mark.as_str()).next().unwrap_or(line);
            }
            let line = if self.whitespace { line.trim() } else { line };
            if !line.is_empty() {
                lines.push(line.to_owned());
            }
        }
        lines.sort_unstable();
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_is_ignored() {
        let ordering = IgnoredDifferences { ordering: true, ..IgnoredDifferences::default() };
        let whitespace = IgnoredDifferences { whitespace: true, ..IgnoredDifferences::default() };
        let comments = IgnoredDifferences {
            whitespace: true,
            comments: vec!["#".into()],
            ..IgnoredDifferences::default()
        };
        for (ignore, old, new, expected) in [
            (&IgnoredDifferences::default(), "a\nb\n", "b\na\n", false),
            (&ordering, "a\nb\n", "b\na\n", true),
            (&ordering, "a\nb\n", "b\na\nc\n", false),
            (&ordering, "a\n", " a\n", false),
            (&whitespace, "a\nb\n", "  b\na \n\n", true),
            (&comments, "a\n", "a # x\n# y\n", true),
            (&comments, "a\n", "b # a\n", false),
        ] {
            assert_eq!(ignore.covers(old.as_bytes(), new.as_bytes()), expected, "{ignore:?} {old:?} {new:?}");
        }
    }
}
