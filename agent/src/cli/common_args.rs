//! Arguments shared by most commands: the configuration file and the output format.

use std::path::PathBuf;

use zagent_config::Value;

use crate::output::{OutputFormat, Ui, json, yaml};
use zagent_config::sanitize;

/// Configuration and output.
#[derive(Debug, clap::Args)]
pub(super) struct CommonArgs {
    /// Configuration file; default: /etc/zagent/zagent.yaml when it exists
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(super) out: OutputFormat,
}

impl CommonArgs {
    /// Prints a value as text or as data.
    pub(super) fn print(&self, words: &str, data: serde_json::Value, ui: &mut Ui<'_>) {
        print_as(self.out, words, data, ui);
    }
}

/// Prints a value as text or as data.
pub(super) fn print_as(format: OutputFormat, words: &str, data: serde_json::Value, ui: &mut Ui<'_>) {
    ui.print(&match format {
        OutputFormat::Text => format!("{}\n", sanitize(words)),
        OutputFormat::Json => json(&data),
        OutputFormat::Yaml => yaml(&serde_json::from_value::<Value>(data).unwrap_or_default()),
    });
}
