//! `zagent config show`.

use std::fmt::Write;

use clap::Subcommand;
use serde_json::json as object;
use zagent_config::Value;
use zagent_config::settings::Effective;

use super::common::Common;
use super::settings;
use crate::output::{Format, Paint, Ui, harmless, json, yaml};
use crate::report::{Exit, Trouble};

/// Look at the configuration
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print every effective value and where it comes from
    Show(Show),
}

#[derive(Debug, clap::Args)]
struct Show {
    /// Only keys that begin with this, such as `run`
    #[arg(value_name = "KEY")]
    key: Option<String>,

    #[command(flatten)]
    common: Common,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        let What::Show(show) = &self.what;
        show.common.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let What::Show(show) = &self.what;
        let settings = settings::load(show.common.config.as_deref())?;
        let wanted = |e: &&Effective| match &show.key {
            None => true,
            Some(key) => {
                e.key == *key || e.key.strip_prefix(key.as_str()).is_some_and(|rest| rest.starts_with('.'))
            }
        };
        let found: Vec<&Effective> = settings.effective().iter().filter(wanted).collect();
        if let (true, Some(key)) = (found.is_empty(), &show.key) {
            return Err(unknown(key));
        }
        ui.data(&match show.common.out {
            Format::Text => text(&found, ui.paint),
            Format::Json => json(&data(&found)),
            Format::Yaml => yaml(&serde_json::from_value::<Value>(data(&found)).unwrap_or_default()),
        });
        Ok(Exit::Fine)
    }
}

fn unknown(key: &str) -> Trouble {
    let near = zagent_config::suggest::nearest(key, zagent_config::settings::keys());
    let hint = near
        .map_or_else(|| "`zagent config show` lists all keys".to_owned(), |k| format!("did you mean `{k}`?"));
    Trouble::usage_hint(format!("there is no key `{key}`"), hint)
}

fn text(found: &[&Effective], paint: Paint) -> String {
    let shown: Vec<(String, String, String)> = found
        .iter()
        .map(|e| (e.key.clone(), serde_json::to_string(&e.value).unwrap_or_default(), e.origin.to_string()))
        .collect();
    let width = |f: fn(&(String, String, String)) -> &str, max: usize| {
        shown.iter().map(|row| f(row).chars().count()).filter(|n| *n <= max).max().unwrap_or(0)
    };
    let (key_width, value_width) = (width(|r| &r.0, 40), width(|r| &r.1, 40));
    let mut out = String::new();
    for (key, value, origin) in &shown {
        let origin = if origin == "default" { paint.dim(origin) } else { paint.green(harmless(origin)) };
        let (key, value) = (format!("{key:key_width$}"), format!("{:value_width$}", harmless(value)));
        let _ = writeln!(out, "{}  {value}  {origin}", paint.bold(key));
    }
    out
}

fn data(found: &[&Effective]) -> serde_json::Value {
    let entries =
        found.iter().map(|e| (e.key.clone(), object!({"value": e.value, "from": e.origin.to_string()})));
    serde_json::Value::Object(entries.collect())
}
