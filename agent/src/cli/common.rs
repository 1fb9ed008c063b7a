//! What most commands take: where the configuration is, and how to print the answer.

use std::path::PathBuf;

use zagent_config::Value;

use crate::output::{Format, Ui, harmless, json, yaml};

/// Configuration and output.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    /// Configuration file; default: /etc/zagent/zagent.yaml when it exists
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// How to print it
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(super) out: Format,
}

impl Common {
    /// Prints what is so now: words, or the same as data.
    pub(super) fn print(&self, words: &str, data: serde_json::Value, ui: &mut Ui<'_>) {
        ui.data(&match self.out {
            Format::Text => format!("{}\n", harmless(words)),
            Format::Json => json(&data),
            Format::Yaml => yaml(&serde_json::from_value::<Value>(data).unwrap_or_default()),
        });
    }
}
