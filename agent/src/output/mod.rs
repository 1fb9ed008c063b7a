//! Results in, bytes out: results on stdout, messages on stderr.
//!
//! Law: commands write to the terminal only through [`Ui`], and printed text cannot control the terminal (held by
//! `print_stdout`, `print_stderr`, `each_act_has_its_owners`).

mod locale;
mod paint;
mod progress;
pub mod report;
mod status;
mod table;
mod ui;

pub(crate) use locale::is_ascii_locale;
pub use paint::Paint;
pub use progress::ProgressReporter;
pub use status::{StatusView, counts_text};
pub use table::{TextTable, Tone, one_line};
pub use ui::{Colour, Ui};
pub use zagent_host::timezone::local_zone;

use zagent_compiler::yaml::{DumpStyle, FlowStyle, dump};
use zagent_config::Value;

/// Output format of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// Human-readable
    #[default]
    Text,
    /// One JSON document
    Json,
    /// One YAML document
    Yaml,
}

/// Output format of a run report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFormat {
    /// Human-readable: changes, failures and a summary
    #[default]
    Text,
    /// One JSON document
    Json,
    /// One YAML document
    Yaml,
    /// One line of JSON per state as soon as it is done, then a summary line
    Ndjson,
    /// Salt's layout
    Highstate,
    /// One value as Python's `pprint` prints it
    Pprint,
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
        // Only a map with keys other than strings can fail, and values write their keys as strings.
        serde_json::json!({"success": false, "errors": [{"message": e.to_string()}]}).to_string()
    });
    text.push('\n');
    zagent_config::escape_json(text)
}

/// A value as Python's `pprint` prints it, with a final newline.
#[must_use]
pub fn pprint(value: &zagent_config::Value) -> String {
    zagent_config::value::python_pprint(value) + "\n"
}

/// A value as block YAML, keys in their own order.
#[must_use]
pub fn yaml(value: &Value) -> String {
    let style = DumpStyle {
        flow: FlowStyle::Never,
        sort_keys: false,
        allow_unicode: true,
        escape_marks: true,
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
    fn data_cannot_steer_a_terminal() {
        let text = "a\u{9b}31m\u{202e}b\u{61c}\u{2069}\u{7f}";
        let list = Value::from(vec![Value::from(text), Value::from("ä\n\u{85}x\u{2066}")]);
        let value = Value::from(zagent_config::Map::from_iter([(text, list)]));
        for shown in [json(&value), yaml(&value)] {
            assert!(shown.chars().all(|c| c == '\n' || !zagent_config::steers_terminal(c)), "{shown:?}");
            assert_eq!(
                zagent_compiler::yaml::load(&shown, &zagent_compiler::TreeLimits::default()).unwrap(),
                value
            );
        }
    }

    #[test]
    fn counts_are_words() {
        assert_eq!((pluralize(1, "fault"), pluralize(0, "fault")), ("1 fault".into(), "0 faults".into()));
    }
}
