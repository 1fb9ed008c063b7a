//! `zagent status`.

use jiff::Timestamp;
use zagent_config::Value;
use zagent_config::paths::{DEFAULT_ROOT, Paths};
use zagent_config::settings::{Origin, Settings};

use super::common::Common;
use super::{settings, warn};
use crate::api::{Client, ClientError};
use crate::operate::reboot::Host;
use crate::output::{Format, Ui, json, local_zone, yaml};
use crate::report::{Exit, Trouble, chain};
use crate::status::{Page, Status, files};

/// Tell which revision this node is on, why not on the newest, and what comes next
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Exit with 1 when somebody should look: a failed run, a refused revision, an expired manifest
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    common: Common,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        self.common.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let mut told = Vec::new();
        let settings = settings::load_or_last(self.common.config.as_deref(), None, &mut |words| {
            told.push(words.to_owned());
        })?;
        told.iter().for_each(|words| warn(words, ui));
        let settings = installed(settings);
        let now = Timestamp::now();
        let status = match Client::new(settings.paths().socket()).status() {
            Ok(status) => status,
            Err(ClientError::NoDaemon(_) | ClientError::Denied(_)) => from_files(&settings, now)?,
            Err(e) => {
                warn(&chain(&e), ui);
                from_files(&settings, now)?
            }
        };
        ui.data(&match self.common.out {
            Format::Text => Page { status: &status, now, zone: local_zone(), paint: ui.paint }.text(),
            Format::Json => json(&status),
            Format::Yaml => yaml(&data(&status)),
        });
        if !self.check {
            return Ok(Exit::Fine);
        }
        let wrong = status.wrong();
        wrong.iter().for_each(|what| warn(what, ui));
        Ok(if wrong.is_empty() && status.unread.is_empty() { Exit::Fine } else { Exit::Failed })
    }
}

fn data(status: &Status) -> Value {
    serde_json::to_value(status).and_then(serde_json::from_value).unwrap_or_default()
}

/// The settings of the agent of this host: somebody who may not write to its root still asks about it and not about a root of
/// their own.
pub(super) fn installed(mut settings: Settings) -> Settings {
    let is_default = settings.effective().iter().any(|e| e.key == "root" && e.origin == Origin::Default);
    if is_default && std::path::Path::new(DEFAULT_ROOT).exists() {
        settings.set_default_root(DEFAULT_ROOT.into());
    }
    settings
}

/// What can be told without the daemon. Files that may not be read would make a status of guesses.
fn from_files(settings: &Settings, now: Timestamp) -> Result<Status, Trouble> {
    let found = files::look(settings, &Host::default(), now, &local_zone());
    if found.denied {
        let message = format!("not allowed to see the agent's files below `{}`", settings.root.display());
        return Err(denied(message));
    }
    Ok(Status::gather(found.pieces))
}

/// Tells the daemon that pause, pin, quarantine or the generation changed. Without one, the next run reads the files.
pub(super) fn look_again(paths: &Paths, ui: &mut Ui<'_>) {
    match Client::new(paths.socket()).changed() {
        Ok(()) | Err(ClientError::NoDaemon(_)) => {}
        Err(e) => warn(&format!("{}; it looks by itself before its next turn", chain(&e)), ui),
    }
}

/// The system does not let us, and who it would let.
pub(super) fn denied(message: String) -> Trouble {
    let hint = Some("run it as root, or as a member of the group that `socket_group` names".into());
    Trouble::Refusal { exit: Exit::Permission, message, hint }
}
