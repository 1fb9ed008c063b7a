//! `zagent completions SHELL`.

use crate::output::Ui;
use zagent_daemon::error::ExitStatus;

/// Print a shell completion script
#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

impl CompletionsArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> ExitStatus {
        ui.print(&String::from_utf8_lossy(&script(self.shell)));
        ExitStatus::Success
    }
}

/// The completion script of a shell.
pub(super) fn script(shell: clap_complete::Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut super::clap_command(), "zagent", &mut script);
    script
}
