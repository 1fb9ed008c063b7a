//! `include_pat` and `exclude_pat` in, which paths are meant out.

use zagent_config::glob::Glob;
use zagent_config::pattern::Pattern;

use crate::states::{Args, Failure};

/// Which paths are meant: globs, or regular expressions after `E@`.
#[derive(Debug, Default)]
pub(super) struct Filter {
    include: Vec<Test>,
    exclude: Vec<Test>,
}

#[derive(Debug)]
enum Test {
    Glob(Glob),
    Pattern(Pattern),
}

impl Filter {
    /// Reads `include_pat` and `exclude_pat`.
    ///
    /// # Errors
    /// Fails when one is no text or no regular expression.
    pub(super) fn read(args: &Args<'_>) -> Result<Self, Failure> {
        Ok(Self { include: tests(args, "include_pat")?, exclude: tests(args, "exclude_pat")? })
    }

    /// The same without what is asked to be in.
    pub(super) fn without_include(mut self) -> Self {
        self.include.clear();
        self
    }

    /// True when the path is meant: some pattern lets it in, and none keeps it out.
    pub(super) fn takes(&self, path: &str) -> bool {
        (self.include.is_empty() || self.include.iter().any(|t| t.matches(path).unwrap_or(false)))
            && !self.excludes(path)
    }

    /// True when the path is kept out.
    pub(super) fn excludes(&self, path: &str) -> bool {
        self.exclude.iter().any(|t| t.matches(path).unwrap_or(true))
    }
}

fn tests(args: &Args<'_>, key: &str) -> Result<Vec<Test>, Failure> {
    let Some(texts) = args.texts(key)? else { return Ok(Vec::new()) };
    texts.iter().filter(|text| !text.is_empty()).map(|text| test(key, text)).collect()
}

fn test(key: &str, text: &str) -> Result<Test, Failure> {
    let Some(pattern) = text.strip_prefix("E@") else { return Ok(Test::Glob(Glob::new(text))) };
    match Pattern::new(pattern) {
        Ok(pattern) => Ok(Test::Pattern(pattern)),
        Err(error) => Err(Failure::new(format!("`{key}`: {}", crate::report::chain(&error)))),
    }
}

impl Test {
    /// Nothing when the pattern gives up: then the path is left alone.
    fn matches(&self, path: &str) -> Option<bool> {
        match self {
            Self::Glob(glob) => Some(glob.matches(path)),
            Self::Pattern(pattern) => pattern.regex().is_match(path).ok(),
        }
    }
}
