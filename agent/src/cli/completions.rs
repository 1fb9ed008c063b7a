//! `zagent completions SHELL`.

use crate::output::Ui;
use crate::report::Exit;

/// Print a completion script
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

impl Args {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Exit {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::command_table(), "zagent", &mut script);
        ui.data(&String::from_utf8_lossy(&script));
        Exit::Fine
    }
}
