//! Results in, bytes out: stdout is data, stderr is talk.
//!
//! Law: nothing else in the program writes to the terminal, and what is written cannot steer it.

mod paint;
mod progress;
pub mod report;
mod status;
mod table;
mod ui;

pub use paint::Paint;
pub use progress::ProgressReporter;
pub use status::{StatusView, counts_text};
pub use table::{TextTable, Tone, one_line};
pub use ui::{Colour, Ui};
pub use zagent_host::timezone::local_zone;

use zagent_compiler::yaml::{DumpStyle, FlowStyle, dump};
use zagent_config::Value;

/// How data is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// For people
    #[default]
    Text,
    /// One JSON document
    Json,
    /// One YAML document
    Yaml,
}

/// How the report of a run is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFormat {
    /// For people: changes, failures and a summary
    #[default]
    Text,
    /// One JSON document
    Json,
    /// One YAML document
    Yaml,
    /// One line of JSON a state as soon as it is done, then one with the summary
    Ndjson,
    /// As Salt prints it
    Highstate,
}

impl From<OutputFormat> for ReportFormat {
    fn from(format: OutputFormat) -> Self {
        match format {
            OutputFormat::Text => Self::Text,
            OutputFormat::Json => Self::Json,
            OutputFormat::Yaml => Self::Yaml,
        }
    }
}

/// A value as indented JSON, with a final newline.
///
/// # Panics
/// Never: a value always has a JSON form.
#[must_use]
pub fn json(value: &impl serde::Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_else(|e| {
        // Only a map with keys that are no strings can fail, and values write their keys as strings.
        serde_json::json!({"success": false, "errors": [{"message": e.to_string()}]}).to_string()
    });
    text.push('\n');
    text
}

/// A value as block YAML, keys in the order they have.
#[must_use]
pub fn yaml(value: &Value) -> String {
    let style = DumpStyle {
        flow: FlowStyle::Never,
        sort_keys: false,
        allow_unicode: true,
        width: 120,
        ..DumpStyle::default()
    };
    dump(value, &style)
}

/// `1 state`, `2 states`.
#[must_use]
pub fn pluralize(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_words() {
        assert_eq!((pluralize(1, "fault"), pluralize(0, "fault")), ("1 fault".into(), "0 faults".into()));
    }
}
