//! `zagent version`: what this binary was built from, and for what.

use serde_json::json as object;

use crate::output::{OutputFormat, Ui, json, yaml};
use zagent_daemon::error::ExitStatus;

/// The commit of the source, when the build says it.
const COMMIT: Option<&str> = option_env!("ZAGENT_COMMIT");
/// The profile of cargo, when the build says it.
const PROFILE: Option<&str> = option_env!("ZAGENT_PROFILE");

/// Print version, commit, target, profile and features
#[derive(Debug, clap::Args)]
pub(super) struct VersionArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    out: OutputFormat,
}

impl VersionArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> ExitStatus {
        let commit = COMMIT.filter(|commit| !commit.is_empty());
        let profile = PROFILE.unwrap_or(if cfg!(debug_assertions) { "dev" } else { "release" });
        let features: &[&str] = if cfg!(feature = "nats") { &["nats"] } else { &[] };
        let (version, target) = (env!("CARGO_PKG_VERSION"), target());
        let data = object!({
            "version": version, "commit": commit, "target": target, "profile": profile, "features": features,
        });
        ui.print(&match self.out {
            OutputFormat::Text => format!(
                "zagent {version}\ncommit    {}\ntarget    {target}\nprofile   {profile}\nfeatures  {}\n",
                commit.unwrap_or("unknown"),
                if features.is_empty() { "none".to_owned() } else { features.join(", ") },
            ),
            OutputFormat::Json => json(&data),
            OutputFormat::Yaml => yaml(&serde_json::from_value(data).unwrap_or_default()),
        });
        ExitStatus::Success
    }
}

/// The target as rustc names it.
fn target() -> String {
    let libc = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    format!("{}-unknown-{}-{libc}", std::env::consts::ARCH, std::env::consts::OS)
}
