//! `zagent turn`: the process that the daemon starts for each of its turns.

use std::path::PathBuf;

use crate::cli::run_printer::RunPrinter;
use crate::exit_code;
use crate::output::{ReportFormat, Ui};
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::turn_options::TurnRequest;

/// Run one turn of the daemon, as requested on standard input
#[derive(Debug, clap::Args)]
pub(super) struct TurnArgs {
    /// Configuration file; default: /etc/zagent/zagent.yaml when it exists
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Location of the last good configuration, used when the current one is invalid
    #[arg(long, value_name = "FILE")]
    last_config: Option<PathBuf>,
}

impl TurnArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let request = TurnRequest::read(std::io::stdin().lock())?;
        let turn = request.into_options(self.config.clone(), self.last_config.clone());
        let ended = turn.run(&mut RunPrinter { ui, format: ReportFormat::Text })?;
        Ok(exit_code::turn_exit(&ended, false))
    }
}
