//! `zagent man [COMMAND…]`.

use crate::output::Ui;
use zagent_daemon::error::{AgentError, ExitStatus};

/// Print the manual page
#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// Command to print the page of, such as `show lowstate`
    command: Vec<String>,
}

impl ManArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let mut command = super::clap_command();
        command.build();
        let mut name = "zagent".to_owned();
        for word in &self.command {
            let Some(found) = command.find_subcommand(word) else {
                let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
                let hint = format!("available commands: {}", names.join(", "));
                return Err(AgentError::usage_hint(format!("`{name}` has no command `{word}`"), hint));
            };
            name = format!("{name}-{word}");
            command = found.clone().version(env!("CARGO_PKG_VERSION")).display_name(name.clone());
        }
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(command).render(&mut page);
        rendered.map_err(|e| AgentError::usage(format!("cannot write the manual page: {e}")))?;
        ui.print(&String::from_utf8_lossy(&page));
        Ok(ExitStatus::Success)
    }
}
