//! `include_pat` and `exclude_pat` in, which paths are meant out.

use zagent_config::glob::Glob;
use zagent_config::py_regex::PyRegex;

use crate::{ChunkArgs, StateError};

/// Which paths are meant: globs, or regular expressions after `E@`.
#[derive(Debug, Default)]
pub(crate) struct PathFilter {
    include: Vec<PathPattern>,
    exclude: Vec<PathPattern>,
}

#[derive(Debug)]
enum PathPattern {
    Glob(Glob),
    Pattern(PyRegex),
}

impl PathFilter {
    /// Reads `include_pat` and `exclude_pat`.
    ///
    /// # Errors
    /// Fails when one is no text or no regular expression.
    pub(crate) fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        Ok(Self {
            include: read_patterns(args, "include_pat")?,
            exclude: read_patterns(args, "exclude_pat")?,
        })
    }

    /// The same without what is asked to be in.
    pub(crate) fn without_include(mut self) -> Self {
        self.include.clear();
        self
    }

    /// True when the path is meant: some pattern lets it in, and none keeps it out.
    pub(crate) fn accepts(&self, path: &str) -> bool {
        (self.include.is_empty() || self.include.iter().any(|t| t.matches(path).unwrap_or(false)))
            && !self.excludes(path)
    }

    /// True when the path is kept out.
    pub(crate) fn excludes(&self, path: &str) -> bool {
        self.exclude.iter().any(|t| t.matches(path).unwrap_or(true))
    }
}

fn read_patterns(args: &ChunkArgs<'_>, key: &str) -> Result<Vec<PathPattern>, StateError> {
    let Some(texts) = args.texts(key)? else { return Ok(Vec::new()) };
    texts.iter().filter(|text| !text.is_empty()).map(|text| parse_pattern(key, text)).collect()
}

fn parse_pattern(key: &str, text: &str) -> Result<PathPattern, StateError> {
    let Some(pattern) = text.strip_prefix("E@") else { return Ok(PathPattern::Glob(Glob::new(text))) };
    match PyRegex::new(pattern) {
        Ok(pattern) => Ok(PathPattern::Pattern(pattern)),
        Err(error) => Err(StateError::new(format!("`{key}`: {}", zagent_config::error_chain(&error)))),
    }
}

impl PathPattern {
    /// Nothing when the pattern gives up: then the path is left alone.
    fn matches(&self, path: &str) -> Option<bool> {
        match self {
            Self::Glob(glob) => Some(glob.matches(path)),
            Self::Pattern(pattern) => pattern.regex().is_match(path).ok(),
        }
    }
}
