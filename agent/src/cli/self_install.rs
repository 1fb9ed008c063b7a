//! `zagent self install|uninstall`: the files of the package, from the bare binary.

use std::path::{Path, PathBuf};

use zagent_run::NoRun;

use super::completions::{self, Shell};
use super::settings;
use crate::install::{GeneratedFiles, InstallError, Installation};
use crate::manual::manual_pages;
use crate::output::{Ui, pluralize};
use crate::systemd;
use zagent_config::error_chain;
use zagent_daemon::error::{AgentError, ExitStatus};

/// Install this binary with its units, manual pages, completions and a sample configuration
#[derive(Debug, clap::Args)]
pub(super) struct SelfInstallArgs {
    /// Install below this directory, such as that of an image; calls no systemd
    #[arg(long, value_name = "DIR")]
    destdir: Option<PathBuf>,
}

/// Remove what `self install` installed; keeps the configuration and the state
#[derive(Debug, clap::Args)]
pub(super) struct SelfUninstallArgs {
    /// Remove from below this directory; calls no systemd
    #[arg(long, value_name = "DIR")]
    destdir: Option<PathBuf>,

    /// Remove /etc/zagent and /var/lib/zagent too, with the history and the undo journals
    #[arg(long)]
    purge: bool,
}

fn installation(destdir: Option<&Path>) -> Result<Installation, AgentError> {
    let here = Installation::below(destdir.unwrap_or(Path::new("/")).to_owned());
    let manager = if here.is_debian_package() {
        Some("apt")
    } else {
        (destdir.is_none() && is_rpm_package()).then_some("dnf")
    };
    match manager {
        None => Ok(here),
        Some(manager) => Err(AgentError::usage_hint(
            "zagent is installed as a package on this host",
            format!("use the package manager: {manager} install zagent, {manager} remove zagent"),
        )),
    }
}

/// True when the program belongs to a package of rpm.
fn is_rpm_package() -> bool {
    let query = zagent_host::exec::ExecCommand::new("rpm").args(["--query", "zagent"]);
    zagent_host::Machine::this_host().run(&query).is_ok_and(|outcome| outcome.success())
}

fn to_agent_error(error: &InstallError) -> AgentError {
    match error.is_permission() {
        true => AgentError::permission(error_chain(error)),
        false => AgentError::failed(error_chain(error)),
    }
}

impl SelfInstallArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let here = installation(self.destdir.as_deref())?;
        let failed = |what: &str, error: std::io::Error| AgentError::failed(format!("{what}: {error}"));
        let program = std::env::current_exe()
            .map_err(|error| failed("cannot find the path of the zagent binary", error))?;
        let pages = manual_pages(super::clap_command())
            .map_err(|error| failed("cannot write the manual pages", error))?;
        let files = GeneratedFiles {
            program,
            manual: pages.into_iter().map(|page| (page.file_name(), page.text)).collect(),
            completions: [Shell::Bash, Shell::Zsh, Shell::Fish]
                .map(|shell| completions::script(shell).into()),
        };
        let written = here.install(&files).map_err(|error| to_agent_error(&error))?;
        written.iter().for_each(|path| ui.verbose_message(&format!("wrote {}", path.display())));
        ui.message(&format!("installed {}", pluralize(written.len(), "file")));
        if self.destdir.is_none() {
            if systemd::is_running() {
                systemd::systemctl(&["daemon-reload"]).map_err(AgentError::failed)?;
                systemd::restart_when_idle().map_err(AgentError::failed)?;
            }
            ui.message("next: zagent enroll URL, with the URL of your states repository");
        }
        Ok(ExitStatus::Success)
    }
}

impl SelfUninstallArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let here = installation(self.destdir.as_deref())?;
        let removed = match &self.destdir {
            Some(_) => here.uninstall(self.purge),
            None => {
                let settings = settings::load(None)?;
                // A run that starts now waits, and then finds its program gone.
                let claim = NoRun::claim(&settings.paths());
                if claim.is_none() {
                    let hint = "wait until it ends: zagent status; or stop it: systemctl stop zagent";
                    return Err(AgentError::locked("a run is active", hint));
                }
                if systemd::is_running() {
                    let disable = [&["disable", "--now"][..], &systemd::UNITS].concat();
                    // Units that are not installed are not an obstacle.
                    if let Err(why) = systemd::systemctl(&disable) {
                        ui.verbose_message(&why);
                    }
                }
                let removed = here.uninstall(self.purge);
                if systemd::is_running() {
                    systemd::systemctl(&["daemon-reload"]).map_err(AgentError::failed)?;
                }
                removed
            }
        }
        .map_err(|error| to_agent_error(&error))?;
        removed.iter().for_each(|path| ui.verbose_message(&format!("removed {}", path.display())));
        ui.message(&format!("removed {}", pluralize(removed.len(), "path")));
        if !self.purge {
            ui.message("kept /etc/zagent and /var/lib/zagent; --purge removes them too");
        }
        Ok(ExitStatus::Success)
    }
}
