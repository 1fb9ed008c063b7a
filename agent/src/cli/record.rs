//! `zagent record`: states that describe things of this host as they are.

use std::path::PathBuf;

use zagent_config::atomic_file::AtomicFile;
use zagent_config::sanitize;

use super::tree_args::TreeArgs;
use crate::output::Ui;
use crate::record::{RecordKind, record};
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::run_output::Messages;

/// Write states that describe packages, services, files, users, groups or jobs of this host
#[derive(Debug, clap::Args)]
pub(super) struct RecordArgs {
    /// What they are
    #[arg(value_enum)]
    kind: RecordKind,

    /// Their names: packages, services, absolute paths, users, groups; for `cron` the users
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// Write the SLS to a new file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Configuration file; default: /etc/zagent/zagent.yaml when it exists
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl RecordArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let tree = TreeArgs { config: self.config.clone(), ..TreeArgs::default() };
        let states = record(&tree.job_without_states()?, self.kind, &self.names)?;
        states.warnings.iter().for_each(|warning| ui.warn(warning));
        let Some(path) = &self.out else {
            ui.print(&states.sls());
            return Ok(ExitStatus::Success);
        };
        let shown = path.display();
        if path.exists() {
            return Err(AgentError::usage_hint(
                format!("`{shown}` exists"),
                "name a new file, or remove it first",
            ));
        }
        AtomicFile::durable(0o600)
            .write(path, states.sls().as_bytes())
            .map_err(|error| AgentError::failed(format!("cannot write `{shown}`: {error}")))?;
        ui.message(&sanitize(&format!("wrote {shown}")));
        Ok(ExitStatus::Success)
    }
}
