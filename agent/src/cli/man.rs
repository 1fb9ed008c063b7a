//! `zagent man [COMMAND…]`, `zagent man --dir DIR`.

use std::path::{Path, PathBuf};

use crate::manual::{manual_page, manual_pages};
use crate::output::{Ui, pluralize};
use zagent_config::atomic_file::AtomicFile;
use zagent_daemon::error::{AgentError, ExitStatus};

/// Print the manual page of a command, or write all of them
#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// Command to print the page of, such as `show lowstate`
    command: Vec<String>,

    /// Write the pages of all commands to this directory
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

impl ManArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        if let Some(dir) = &self.dir {
            return write_pages(dir, ui);
        }
        let mut command = super::clap_command();
        command.build();
        let mut line = "zagent".to_owned();
        for word in &self.command {
            let Some(found) = command.find_subcommand(word) else {
                let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
                let hint = format!("available commands: {}", names.join(", "));
                return Err(AgentError::usage_hint(format!("`{line}` has no command `{word}`"), hint));
            };
            line = format!("{line} {word}");
            command = found.clone();
        }
        ui.print(&manual_page(command, &line).map_err(no_page)?.text);
        Ok(ExitStatus::Success)
    }
}

fn no_page(error: std::io::Error) -> AgentError {
    AgentError::failed(format!("cannot write the manual page: {error}"))
}

fn write_pages(dir: &Path, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
    let failed =
        |path: &Path, error| AgentError::failed(format!("cannot write `{}`: {error}", path.display()));
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    let pages = manual_pages(super::clap_command()).map_err(no_page)?;
    for page in &pages {
        let path = dir.join(page.file_name());
        AtomicFile::cached(0o644).write(&path, page.text.as_bytes()).map_err(|error| failed(&path, error))?;
    }
    ui.message(&format!("wrote {} to {}", pluralize(pages.len(), "page"), dir.display()));
    Ok(ExitStatus::Success)
}
