//! `zagent enroll URL`: tests a remote, writes the configuration that follows it, and starts the unit.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use serde_json::json as object;
use zagent_cache::GenerationRecord;
use zagent_cache::source::DirSource;
use zagent_config::atomic_file::AtomicFile;
use zagent_config::paths::{CONFIG_DIR, FRAGMENTS_DIR};

use super::common_args::CommonArgs;
use super::{settings, warn};
use crate::enroll::host_key::{self, HostKeys};
use crate::enroll::planned_files::{PlannedFiles, read_existing};
use crate::enroll::{Enrolment, file_error, pinned_commit, trial};
use crate::output::{OutputFormat, Ui};
use crate::systemd;
use zagent_daemon::error::{AgentError, ExitStatus};

/// The file in conf.d that an enrolment writes: not the configuration file of the package, so that upgrades ask nothing.
const FRAGMENT: &str = "enroll.yaml";

/// Follow a repository: write the configuration, test the remote, pin its first commit, start the unit
#[derive(Debug, clap::Args)]
pub(super) struct EnrollArgs {
    /// The states repository: an https, ssh or file URL
    #[arg(value_name = "URL")]
    url: String,

    /// The branch to follow
    #[arg(long, value_name = "NAME", default_value = "main")]
    branch: String,

    /// For https: a file (mode 0600) that contains only the token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// For https: certificates to trust in addition to those of the system
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// For ssh: the private key (mode 0600)
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    /// For ssh: the keys of the server; default: ask the server, and show them for confirmation
    #[arg(long, value_name = "FILE")]
    known_hosts: Option<PathBuf>,

    /// Accept only states that are signed by a key in this file, in the format of allowed_signers; it is copied
    #[arg(long, value_name = "FILE")]
    signers: Option<PathBuf>,

    /// What must be signed: default: the manifest, or if it is not, the commit
    #[arg(long, value_name = "WHAT", value_parser = ["manifest", "commit", "both"], requires = "signers")]
    require: Option<String>,

    /// The name of the repository in its manifest; default: host and path of the URL
    #[arg(long, value_name = "NAME")]
    repository: Option<String>,

    /// Do not ask: pin what the remote offers now, and print it
    #[arg(long)]
    yes: bool,

    /// Replace an earlier configuration
    #[arg(long)]
    force: bool,

    /// Do not enable and start the unit
    #[arg(long)]
    no_enable: bool,

    #[command(flatten)]
    common: CommonArgs,
}

/// Where the configuration goes.
struct Destination {
    file: PathBuf,
    /// For the files beside it.
    dir: PathBuf,
}

impl EnrollArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.common.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let place = self.destination();
        self.refuse_other_remotes(&place)?;
        let scratch = tempfile::tempdir()
            .map_err(|error| AgentError::failed(format!("cannot create a scratch directory: {error}")))?;
        let mut files = PlannedFiles::default();
        let mut enrolment = self.enrolment()?;
        let host_keys = self.find_host_keys(&place, &mut enrolment, scratch.path(), &mut files, ui)?;
        let head = self.verify(&place, &mut enrolment, scratch.path(), ui)?;
        if let Some((_, signers)) = &mut enrolment.signed {
            let text = read_existing(signers)?.unwrap_or_default();
            *signers = place.dir.join("allowed_signers");
            files.add(signers.clone(), text)?;
        }
        if host_keys.is_some() || enrolment.known_hosts.is_none() && host_key::is_ssh(&self.url) {
            enrolment.known_hosts = Some(place.dir.join("known_hosts"));
        }
        files.add(place.file.clone(), enrolment.to_yaml())?;
        let is_done = files.is_done();
        if !is_done {
            self.confirm_files(&files, ui)?;
            self.confirm_commit(&enrolment, &head, ui)?;
        }
        let written: Vec<PathBuf> = files.write()?.into_iter().map(Path::to_owned).collect();
        let unit = self.enable_unit()?;
        self.print_result(&enrolment, &head, (&written, unit), ui);
        Ok(ExitStatus::Success)
    }

    fn destination(&self) -> Destination {
        match &self.common.config {
            Some(file) => {
                let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
                Destination { file: file.clone(), dir: absolute(dir.unwrap_or(Path::new("."))) }
            }
            None => Destination {
                file: Path::new(CONFIG_DIR).join(FRAGMENTS_DIR).join(FRAGMENT),
                dir: CONFIG_DIR.into(),
            },
        }
    }

    /// Refuses when another file of the configuration names remotes.
    fn refuse_other_remotes(&self, place: &Destination) -> Result<(), AgentError> {
        if self.force || self.common.config.is_some() {
            return Ok(());
        }
        let now = settings::load(None)?;
        let own = place.file.display().to_string();
        let set = now.effective().iter().find(|setting| {
            setting.key.starts_with("source.remotes") && setting.origin.to_string() != "default"
        });
        match set.filter(|setting| !setting.origin.to_string().starts_with(&own)) {
            Some(setting) => Err(AgentError::usage_hint(
                format!("this node already follows a repository: see {}", setting.origin),
                format!("remove it there, or add --force: {own} then overrides it"),
            )),
            None => Ok(()),
        }
    }

    fn enrolment(&self) -> Result<Enrolment, AgentError> {
        let path = Path::new(&self.url);
        if path.is_absolute() && DirSource::is_plain_dir(path) {
            return Err(AgentError::usage_hint(
                format!("`{}` is a plain directory, not a Git repository", self.url),
                "to follow a directory, set it in `source.remotes`",
            ));
        }
        let existing = |file: &Option<PathBuf>| match file {
            None => Ok(None),
            Some(file) => file.canonicalize().map(Some).map_err(|error| file_error("read", file, &error)),
        };
        Ok(Enrolment {
            url: self.url.clone(),
            branch: self.branch.clone(),
            token_file: existing(&self.token_file)?,
            key: existing(&self.key)?,
            known_hosts: existing(&self.known_hosts)?,
            ca: existing(&self.ca)?,
            signed: None,
            repository: self.repository.clone(),
            first: None,
        })
    }

    /// For a new ssh host: asks for its keys, and lets a person confirm them before anything else is sent to it.
    fn find_host_keys(
        &self,
        place: &Destination,
        enrolment: &mut Enrolment,
        scratch: &Path,
        files: &mut PlannedFiles,
        ui: &mut Ui<'_>,
    ) -> Result<Option<HostKeys>, AgentError> {
        if !host_key::is_ssh(&self.url) || enrolment.known_hosts.is_some() {
            return Ok(None);
        }
        let kept = place.dir.join("known_hosts");
        if host_key::is_known(&self.url, &kept) {
            enrolment.known_hosts = Some(kept);
            return Ok(None);
        }
        let keys = host_key::scan(&self.url)?;
        ui.message("the server has these host keys:");
        keys.fingerprints.iter().for_each(|line| ui.message(&format!("  {line}")));
        self.confirm(
            "Compare them with those that the administrator of the server publishes. Pin them?",
            ui,
        )?;
        let text = read_existing(&kept)?.unwrap_or_default() + &keys.lines;
        let file = scratch.join("known_hosts");
        AtomicFile::cached(0o600)
            .write(&file, text.as_bytes())
            .map_err(|error| file_error("write", &file, &error))?;
        enrolment.known_hosts = Some(file);
        files.add_extended(kept, text)?;
        Ok(Some(keys))
    }

    /// Fetches and verifies the head, and decides what must be signed and which commit is pinned.
    fn verify(
        &self,
        place: &Destination,
        enrolment: &mut Enrolment,
        scratch: &Path,
        ui: &mut Ui<'_>,
    ) -> Result<GenerationRecord, AgentError> {
        // Enrolled before: the pin stays, and what the remote offers must descend from it.
        let pinned = read_existing(&place.file)?.and_then(|text| pinned_commit(&text));
        enrolment.first = pinned.filter(|_| !self.force);
        let settings = trial::trial_settings(enrolment, scratch)?;
        ui.set_waiting(Some("testing the remote, and verifying its newest revision"));
        for warning in trial::check_remote(&settings)? {
            warn(&warning.message, ui);
        }
        ui.verbose_message("the remote answers; fetching and verifying its newest revision");
        let head = match &self.signers {
            None => trial::verify_head(&settings)?,
            Some(signers) => self.verify_signed(signers, enrolment, scratch)?,
        };
        ui.set_waiting(None);
        enrolment.first.get_or_insert_with(|| head.revision.to_string());
        Ok(head)
    }

    fn verify_signed(
        &self,
        signers: &Path,
        enrolment: &mut Enrolment,
        scratch: &Path,
    ) -> Result<GenerationRecord, AgentError> {
        let text = std::fs::read_to_string(signers).map_err(|error| file_error("read", signers, &error))?;
        // A copy that nobody else can change.
        let copy = scratch.join("allowed_signers");
        AtomicFile::cached(0o600)
            .write(&copy, text.as_bytes())
            .map_err(|error| file_error("write", &copy, &error))?;
        let candidates: &[&'static str] = match self.require.as_deref() {
            Some("commit") => &["commit"],
            Some("both") => &["both"],
            Some(_) => &["manifest"],
            None => &["manifest", "commit"],
        };
        let mut reasons = Vec::new();
        for require in candidates {
            enrolment.signed = Some((require, copy.clone()));
            match trial::verify_head(&trial::trial_settings(enrolment, scratch)?) {
                Ok(head) => return Ok(head),
                Err(AgentError::Refusal { exit: ExitStatus::Refused, message, .. }) => {
                    reasons.push(format!("{require}: {message}"));
                }
                Err(other) => return Err(other),
            }
        }
        Err(AgentError::Refusal {
            exit: ExitStatus::Refused,
            message: format!(
                "nothing here is signed by a key in `{}`: {}",
                signers.display(),
                reasons.join("; ")
            ),
            hint: Some(
                "check the file; when the manifest names another repository, give that name with --repository"
                    .into(),
            ),
        })
    }

    /// Shows what would be replaced, which only `--force` does.
    fn confirm_files(&self, files: &PlannedFiles, ui: &mut Ui<'_>) -> Result<(), AgentError> {
        let Some((paths, diff)) = files.conflicts() else { return Ok(()) };
        diff.lines().for_each(|line| ui.message(line));
        if self.force {
            return Ok(());
        }
        let names: Vec<String> = paths.iter().map(|path| format!("`{}`", path.display())).collect();
        let message = format!("{} exists with other content; nothing was changed", names.join(" and "));
        Err(AgentError::usage_hint(message, "add --force to replace it"))
    }

    fn confirm_commit(
        &self,
        enrolment: &Enrolment,
        head: &GenerationRecord,
        ui: &mut Ui<'_>,
    ) -> Result<(), AgentError> {
        ui.message(&format!("{} of {} is {}", self.branch, head.source, head.revision));
        ui.message(&format!("  committed {}, signed by {}", committed(head), signed_by(head)));
        let pin = enrolment.first.as_deref().unwrap_or_default();
        self.confirm(&format!("Pin {pin} as the first commit, and follow this branch?"), ui)
    }

    /// Asks on a terminal; `--yes` is the answer elsewhere.
    fn confirm(&self, question: &str, ui: &mut Ui<'_>) -> Result<(), AgentError> {
        if self.yes {
            return Ok(());
        }
        let input = std::io::stdin();
        if !input.is_terminal() {
            let hint = "run it on a terminal, or add --yes to accept what is shown above";
            return Err(AgentError::usage_hint("a confirmation is needed", hint));
        }
        ui.message(&format!("{question} [y/N]"));
        let mut answer = String::new();
        // No answer is a no.
        let _ = input.lock().read_line(&mut answer);
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(AgentError::failed("not confirmed; nothing was changed")),
        }
    }

    /// Starts the agent now and at every boot, unless something else already does; returns the unit.
    fn enable_unit(&self) -> Result<Option<&'static str>, AgentError> {
        // A unit reads the default configuration.
        if self.no_enable || self.common.config.is_some() || !systemd::is_running() {
            return Ok(None);
        }
        let is_enabled = |unit: &&str| systemd::systemctl(&["is-enabled", "--quiet", unit]).is_ok();
        let unit = systemd::UNITS.into_iter().find(is_enabled);
        match unit {
            Some(unit) if unit != systemd::TIMER => {
                systemd::systemctl(&["reload-or-restart", unit]).map_err(AgentError::failed)?;
            }
            Some(_) => {}
            None => {
                systemd::systemctl(&["enable", "--now", systemd::DAEMON]).map_err(AgentError::failed)?;
            }
        }
        Ok(Some(unit.unwrap_or(systemd::DAEMON)))
    }

    fn print_result(
        &self,
        enrolment: &Enrolment,
        head: &GenerationRecord,
        (written, unit): (&[PathBuf], Option<&'static str>),
        ui: &mut Ui<'_>,
    ) {
        let first = enrolment.first.as_deref().unwrap_or_default();
        let require = enrolment.signed.as_ref().map_or("none", |(require, _)| require);
        let data = object!({
            "success": true, "changed": !written.is_empty(), "remote": head.source, "branch": self.branch,
            "revision": head.revision, "first": first, "require": require, "signed_by": signers(head),
            "written": written, "unit": unit,
        });
        let mut lines = vec![
            format!("follows   {} of {}", self.branch, head.source),
            format!("pinned    {first}"),
            format!("signed by {} (required: {require})", signed_by(head)),
        ];
        lines.extend(written.iter().map(|path| format!("wrote     {}", path.display())));
        if written.is_empty() {
            lines.push("unchanged this node is already enrolled".into());
        }
        lines.push(match unit {
            Some(unit) => format!("started   {unit}\n\nnext: zagent status"),
            None => {
                "\nnext: zagent run --once --test, then enable a unit: systemctl enable --now zagent".into()
            }
        });
        let words = lines.join("\n");
        self.common.print(&words, data, ui);
    }
}

fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn signers(head: &GenerationRecord) -> Vec<&str> {
    head.signers.iter().map(|signer| signer.principal.as_str()).collect()
}

fn signed_by(head: &GenerationRecord) -> String {
    let names = signers(head);
    if names.is_empty() { "nobody that was checked".into() } else { names.join(", ") }
}

fn committed(head: &GenerationRecord) -> String {
    head.committed.map_or_else(|| "at an unknown time".into(), |at| at.to_string())
}
