//! What most commands take: where the configuration is, and how to print the answer.

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

    /// How to print it
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(super) out: OutputFormat,
}

impl CommonArgs {
    /// Prints what is so now: words, or the same as data.
    pub(super) fn print(&self, words: &str, data: serde_json::Value, ui: &mut Ui<'_>) {
        ui.print(&match self.out {
            OutputFormat::Text => format!("{}\n", sanitize(words)),
            OutputFormat::Json => json(&data),
            OutputFormat::Yaml => yaml(&serde_json::from_value::<Value>(data).unwrap_or_default()),
        });
    }
}
