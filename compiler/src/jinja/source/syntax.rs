//! The delimiters and whitespace rules of a template, from `jinja_env`, `jinja_sls_env` and the `#jinja2:` header.
//!
//! A known option is applied, an unknown one is ignored as in Salt, one with an invalid value is an error.

use zagent_config::{Map, Value};

/// How tags look in a template and what happens to the whitespace around them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Syntax {
    pub(crate) block: (String, String),
    pub(crate) variable: (String, String),
    pub(crate) comment: (String, String),
    pub(crate) line_statement: Option<String>,
    pub(crate) line_comment: Option<String>,
    pub(crate) trim_blocks: bool,
    pub(crate) lstrip_blocks: bool,
    pub(crate) keep_trailing_newline: bool,
}

impl Default for Syntax {
    fn default() -> Self {
        Self {
            block: ("{%".into(), "%}".into()),
            variable: ("{{".into(), "}}".into()),
            comment: ("{#".into(), "#}".into()),
            line_statement: None,
            line_comment: None,
            trim_blocks: false,
            lstrip_blocks: false,
            keep_trailing_newline: false,
        }
    }
}

impl Syntax {
    /// Applies options by name; unknown names are skipped.
    ///
    /// # Errors
    /// Fails with a message when a delimiter is not text or is empty.
    pub(crate) fn apply(&mut self, options: &Map) -> Result<(), String> {
        for (key, value) in options.iter() {
            let Some(key) = key.as_str() else { continue };
            let key = key.to_ascii_lowercase();
            match key.as_str() {
                "block_start_string" => self.block.0 = delimiter(&key, value)?,
                "block_end_string" => self.block.1 = delimiter(&key, value)?,
                "variable_start_string" => self.variable.0 = delimiter(&key, value)?,
                "variable_end_string" => self.variable.1 = delimiter(&key, value)?,
                "comment_start_string" => self.comment.0 = delimiter(&key, value)?,
                "comment_end_string" => self.comment.1 = delimiter(&key, value)?,
                "line_statement_prefix" => self.line_statement = prefix(&key, value)?,
                "line_comment_prefix" => self.line_comment = prefix(&key, value)?,
                "trim_blocks" => self.trim_blocks = value.is_truthy(),
                "lstrip_blocks" => self.lstrip_blocks = value.is_truthy(),
                "keep_trailing_newline" => self.keep_trailing_newline = value.is_truthy(),
                "newline_sequence" if !matches!(value.as_str(), Some("\n")) => {
                    return Err("`newline_sequence` can only be a line feed".into());
                }
                _ => {}
            }
        }
        if self.block.0 == self.variable.0
            || self.block.0 == self.comment.0
            || self.variable.0 == self.comment.0
        {
            return Err("blocks, variables and comments must start with different delimiters".into());
        }
        Ok(())
    }

    /// True when the text has no tags in this syntax.
    pub(crate) fn is_plain(&self, source: &str) -> bool {
        if self.line_statement.is_some() || self.line_comment.is_some() {
            return false;
        }
        if self.block.0 == "{%" && self.variable.0 == "{{" && self.comment.0 == "{#" {
            let bytes = source.as_bytes();
            return !bytes.windows(2).any(|w| w[0] == b'{' && matches!(w[1], b'{' | b'%' | b'#'));
        }
        ![&self.block.0, &self.variable.0, &self.comment.0].into_iter().any(|d| source.contains(d.as_str()))
    }
}

fn delimiter(key: &str, value: &Value) -> Result<String, String> {
    match value.as_str() {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(format!("`{key}` must be a text and must not be empty")),
    }
}

fn prefix(key: &str, value: &Value) -> Result<Option<String>, String> {
    if matches!(value, Value::Null) { Ok(None) } else { delimiter(key, value).map(Some) }
}
