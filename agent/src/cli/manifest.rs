//! `zagent manifest write | check | sign`: maintains the manifest of a states repository.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use jiff::Timestamp;
use serde_json::json as object;
use zagent_cache::CacheLimits;
use zagent_cache::manifest::{self, ManifestDraft, ManifestError, ManifestOptions};
use zagent_cache::trust::{self, AllowedSigners, Signer};
use zagent_config::Value;
use zagent_config::manifest::{AgentVersion, Manifest, parse_expiry};
use zagent_config::paths::tree;
use zagent_config::settings::{RequiredSignatures, TrustSettings, parse_duration};

use super::{settings, warn};
use crate::output::{OutputFormat, Ui, json, yaml};
use zagent_config::error_chain;
use zagent_config::sanitize;
use zagent_daemon::error::{AgentError, ExitStatus};

/// Maximum number of untracked files to name; the rest is counted.
const MAX_NAMED: usize = 10;

/// Write, check or sign the manifest of a states repository
#[derive(Debug, clap::Args)]
pub(super) struct ManifestArgs {
    #[command(subcommand)]
    what: ManifestCommand,
}

#[derive(Debug, Subcommand)]
enum ManifestCommand {
    /// List every file with its digest; the serial increases when anything changed
    Write(ManifestWriteArgs),
    /// Compare the files with the manifest and check its signatures; exits with 1 on any mismatch
    Check(ManifestCheckArgs),
    /// Sign the current manifest
    Sign(ManifestSignArgs),
}

#[derive(Debug, clap::Args)]
struct ManifestWriteArgs {
    /// States repository
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Serial; default: the previous serial plus one
    #[arg(long, value_name = "N")]
    serial: Option<u64>,

    /// Repository that the manifest is for, as a URL or as HOST/PATH; default: unchanged, else the remote of the checkout
    #[arg(long, value_name = "NAME")]
    repository: Option<String>,

    /// Branch that the manifest is for: nodes that follow another branch refuse it; default: the branch that is checked out
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,

    /// When the manifest expires: a duration such as 30d, a date, or an RFC 3339 time; default: unchanged
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,

    /// Oldest agent version that supports the tree; default: unchanged
    #[arg(long, value_name = "VERSION")]
    min_agent: Option<AgentVersion>,

    /// Remove the signatures of the old manifest
    #[arg(long)]
    drop_signatures: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    out: OutputFormat,
}

#[derive(Debug, clap::Args)]
struct ManifestCheckArgs {
    /// States repository
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Check signatures against this file; default: the configured file, when signatures are required
    #[arg(long, value_name = "FILE")]
    allowed_signers: Option<PathBuf>,

    /// Fail unless the manifest is for this branch
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,

    /// Number of people who must have signed; default: from the configuration
    #[arg(long, value_name = "N")]
    threshold: Option<usize>,

    /// Configuration file; default: /etc/zagent/zagent.yaml when it exists
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    out: OutputFormat,
}

#[derive(Debug, clap::Args)]
struct ManifestSignArgs {
    /// States repository
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Private key, or the public key when an SSH agent or a security key holds the private key
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// Signer name: the signature is written to manifest.yaml.sig.NAME, next to those of other signers
    #[arg(long = "as", value_name = "NAME", value_parser = parse_name)]
    name: Option<String>,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    out: OutputFormat,
}

fn parse_name(text: &str) -> Result<String, String> {
    let letter = |c: char| c.is_ascii_alphanumeric() || "._-@+".contains(c);
    let fine = (1..=100).contains(&text.len()) && text.chars().all(letter) && !text.starts_with('.');
    fine.then(|| text.to_owned()).ok_or_else(|| "use letters, digits and ._-@+".into())
}

impl ManifestArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        match &self.what {
            ManifestCommand::Write(args) => args.out,
            ManifestCommand::Check(args) => args.out,
            ManifestCommand::Sign(args) => args.out,
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        match &self.what {
            ManifestCommand::Write(args) => args.run(ui),
            ManifestCommand::Check(args) => args.run(ui),
            ManifestCommand::Sign(args) => args.run(ui),
        }
    }
}

impl ManifestWriteArgs {
    fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let now = Timestamp::now();
        let expires = self.expires.as_deref().map(|text| parse_expiry_arg(text, now)).transpose()?;
        let options = ManifestOptions {
            schedule: None,
            serial: self.serial,
            repository: self.repository.clone(),
            branch: self.branch.clone(),
            expires,
            min_agent: self.min_agent.clone(),
            limits: CacheLimits::default(),
        };
        let written = manifest::build(&self.dir, &options).map_err(to_agent_error)?;
        if written.is_new {
            manifest::write_atomic(&self.dir, tree::MANIFEST, &written.text).map_err(to_agent_error)?;
        }
        let mut stale: Vec<String> = Vec::new();
        if written.is_new {
            stale.extend(
                manifest::read_signatures(&self.dir)
                    .map_err(to_agent_error)?
                    .into_iter()
                    .map(|(name, _)| name),
            );
        }
        if self.drop_signatures {
            stale
                .iter()
                .try_for_each(|name| manifest::remove_file(&self.dir, name))
                .map_err(to_agent_error)?;
        }
        let changes = changed_files(&written);
        let files = written.new.files.as_ref().map_or(0, std::collections::BTreeMap::len);
        let shown = sanitize(&self.dir.join(tree::MANIFEST).display().to_string());
        let data = object!({
            "manifest": self.dir.join(tree::MANIFEST).display().to_string(), "written": written.is_new,
            "serial": written.new.serial, "for": target_json(&written.new), "files": files, "changes": changes,
            "stale_signatures": stale, "dropped": self.drop_signatures,
        });
        let mut text = match written.is_new {
            true => format!("{shown}: serial {}, {files} files\n", written.new.serial),
            false => format!("{shown}: unchanged, serial {}\n", written.new.serial),
        };
        changes.iter().for_each(|line| text.push_str(&format!("  {}\n", sanitize(line))));
        print(self.out, &text, data, ui);
        self.print_reminders(&written, &stale, now, ui);
        Ok(ExitStatus::Success)
    }

    /// Prints what the author should do or know next.
    fn print_reminders(&self, written: &ManifestDraft, stale: &[String], now: Timestamp, ui: &mut Ui<'_>) {
        if !stale.is_empty() && self.drop_signatures {
            ui.message(&format!("removed {}: signed the old manifest", sanitize(&stale.join(", "))));
        } else if !stale.is_empty() {
            let names = stale.join(", ");
            let message = format!(
                "{names} signed the old manifest: sign again (zagent manifest sign --key FILE --as NAME) or remove \
                 the files (`zagent manifest write --drop-signatures` removes them)"
            );
            warn(&message, ui);
        }
        self.print_target_reminder(written, ui);
        if let Some(expires) = written.new.expires.filter(|expires| *expires <= now) {
            warn(
                &format!("the manifest expired at {expires}: nodes refuse it; set a new date with --expires"),
                ui,
            );
        }
        let files = written.new.files.as_ref();
        let lost = files.map(|files| manifest::untracked(&self.dir, files)).unwrap_or_default();
        if !lost.is_empty() {
            let more = lost.len().saturating_sub(MAX_NAMED);
            let named = lost.iter().take(MAX_NAMED).map(|p| format!("`{p}`")).collect::<Vec<_>>().join(", ");
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            warn(
                &format!(
                    "Git does not track {named}{more}: `git add` the files that nodes need, remove the others"
                ),
                ui,
            );
        }
    }
}

impl ManifestWriteArgs {
    /// Prints what the manifest is for, when nodes could refuse it because of that.
    fn print_target_reminder(&self, written: &ManifestDraft, ui: &mut Ui<'_>) {
        let Some(target) = &written.new.target else {
            let message = "the manifest does not say which repository and branch it is for: nodes that require a signed \
                           manifest refuse it; give --repository NAME and --branch NAME";
            return warn(message, ui);
        };
        let old = written.old.as_ref().and_then(|old| old.target.as_ref()).map(|old| &old.branch);
        if let Some(old) = old.filter(|old| **old != target.branch && self.branch.is_none()) {
            let message = format!(
                "the manifest is now for the branch `{}`, before it was for `{old}`: nodes that follow `{old}` refuse it; \
                 if it will be merged there as it is, write it with --branch {old}",
                target.branch
            );
            warn(&message, ui);
        }
    }
}

fn target_json(manifest: &Manifest) -> serde_json::Value {
    manifest.target.as_ref().map_or(
        serde_json::Value::Null,
        |target| object!({"repository": target.repository, "branch": target.branch}),
    )
}

/// `30d` from now, a date, or a time.
fn parse_expiry_arg(text: &str, now: Timestamp) -> Result<Timestamp, AgentError> {
    let from_now = || {
        let seconds = i64::try_from(parse_duration(text)?.as_secs()).ok()?;
        Timestamp::from_second(now.as_second().checked_add(seconds)?).ok()
    };
    let hint =
        "use a duration such as 30d, a date such as 2030-01-31, or a time such as 2030-01-31T12:00:00Z";
    match from_now().or_else(|| parse_expiry(text)) {
        None => Err(AgentError::usage_hint(format!("`{}` is not a valid time", sanitize(text)), hint)),
        Some(time) if time <= now => Err(AgentError::usage_hint(
            format!("{time} is in the past: nodes would refuse the manifest"),
            hint,
        )),
        Some(time) => Ok(time),
    }
}

/// Describes what differs from the previous manifest.
fn changed_files(written: &ManifestDraft) -> Vec<String> {
    let ManifestDraft { old, new, .. } = written;
    let Some(old) = old else { return vec!["a new manifest".into()] };
    let mut words = Vec::new();
    if let (Some(before), Some(after)) = (&old.files, &new.files) {
        words.extend(after.keys().filter(|p| !before.contains_key(*p)).map(|p| format!("`{p}` is new")));
        words.extend(before.keys().filter(|p| !after.contains_key(*p)).map(|p| format!("`{p}` is removed")));
        let other = |p: &&String| before.get(*p).is_some_and(|entry| after.get(*p) != Some(entry));
        words.extend(after.keys().filter(other).map(|p| format!("`{p}` has changed")));
    }
    if let Some(target) = new.target.as_ref().filter(|target| old.target.as_ref() != Some(target)) {
        words.push(format!("it is for `{}`, branch `{}`", target.repository, target.branch));
    }
    if let Some(expires) = new.expires.filter(|e| old.expires != Some(*e)) {
        words.push(format!("it expires at {expires}"));
    }
    if let Some(version) = new.min_agent.as_ref().filter(|v| old.min_agent.as_ref() != Some(v)) {
        words.push(format!("it needs agent {version}"));
    }
    words
}

impl ManifestCheckArgs {
    fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let (listed, mut wrong) =
            manifest::check(&self.dir, CacheLimits::default()).map_err(to_agent_error)?;
        let now = Timestamp::now();
        if let Some(expires) = listed.expires.filter(|_| listed.is_expired(now)) {
            wrong.push(format!("the manifest expired at {expires}"));
        }
        wrong.extend(self.target_problem(&listed));
        let signers = match self.load_trust()? {
            Some(trust) => Some(self.verify_signers(&trust, now)?),
            None => None,
        };
        let signed_by = match &signers {
            Some(Ok(signers)) => {
                signers.iter().map(|s| object!({"principal": s.principal, "key": s.fingerprint})).collect()
            }
            Some(Err(why)) => {
                wrong.push(why.clone());
                Vec::new()
            }
            None => Vec::new(),
        };
        let data = object!({
            "success": wrong.is_empty(), "serial": listed.serial, "for": target_json(&listed), "checked_signatures": signers.is_some(),
            "signed_by": signed_by, "differences": wrong,
        });
        print(self.out, &self.check_text(&listed, &wrong, signers), data, ui);
        Ok(if wrong.is_empty() { ExitStatus::Success } else { ExitStatus::Failed })
    }

    /// What is wrong with the branch that the manifest is for.
    fn target_problem(&self, listed: &Manifest) -> Option<String> {
        let wanted = self.branch.as_ref()?;
        match &listed.target {
            Some(target) if target.branch == *wanted => None,
            Some(target) => {
                Some(format!("the manifest is for the branch `{}`, not `{wanted}`", target.branch))
            }
            None => Some("the manifest does not say which branch it is for".into()),
        }
    }

    fn check_text(
        &self,
        listed: &Manifest,
        wrong: &[String],
        signers: Option<Result<Vec<Signer>, String>>,
    ) -> String {
        let shown = sanitize(&self.dir.join(tree::MANIFEST).display().to_string());
        let files = listed.files.as_ref().map_or(0, std::collections::BTreeMap::len);
        let mut text = match wrong.len() {
            0 => format!("{shown}: serial {}, {files} files, all match\n", listed.serial),
            n => format!("{shown}: serial {}, {n} mismatches\n", listed.serial),
        };
        wrong.iter().for_each(|line| text.push_str(&format!("  {}\n", sanitize(line))));
        for signer in signers.into_iter().flatten().flatten() {
            text.push_str(&format!("  signed by {} ({})\n", sanitize(&signer.principal), signer.fingerprint));
        }
        text
    }

    /// Trust settings, when signatures must be checked.
    fn load_trust(&self) -> Result<Option<TrustSettings>, AgentError> {
        let mut trust = settings::load(self.config.as_deref())?.trust;
        let asked = self.allowed_signers.is_some()
            || matches!(trust.require, RequiredSignatures::Manifest | RequiredSignatures::Both);
        trust.threshold = self.threshold.unwrap_or(trust.threshold);
        if let Some(path) = &self.allowed_signers {
            trust.allowed_signers.clone_from(path);
        }
        Ok(asked.then_some(trust))
    }

    fn verify_signers(
        &self,
        trust: &TrustSettings,
        now: Timestamp,
    ) -> Result<Result<Vec<Signer>, String>, AgentError> {
        let signers =
            AllowedSigners::read(trust).map_err(|e| AgentError::usage_hint(error_chain(&e), e.hint()))?;
        let (text, _) = manifest::read(&self.dir).map_err(to_agent_error)?;
        let signatures = manifest::read_signatures(&self.dir).map_err(to_agent_error)?;
        Ok(signers.verify_manifest(&text, &signatures, trust.threshold, now).map_err(|e| error_chain(&e)))
    }
}

impl ManifestSignArgs {
    fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let (listed, wrong) = manifest::check(&self.dir, CacheLimits::default()).map_err(to_agent_error)?;
        if let Some(first) = wrong.first() {
            let more =
                if wrong.len() > 1 { format!(" (and {} more)", wrong.len() - 1) } else { String::new() };
            return Err(AgentError::Refusal {
                exit: ExitStatus::Failed,
                message: format!("the manifest does not match the files: {first}{more}"),
                hint: Some("run `zagent manifest write`".into()),
            });
        }
        let (text, _) = manifest::read(&self.dir).map_err(to_agent_error)?;
        let signature = trust::sign(&self.key, trust::MANIFEST_NAMESPACE, &text)
            .map_err(|e| AgentError::failed(error_chain(&e)))?;
        let end = self.name.as_ref().map(|name| format!(".{name}")).unwrap_or_default();
        let name = format!("{}.sig{end}", tree::MANIFEST);
        let path = manifest::write_atomic(&self.dir, &name, &signature).map_err(to_agent_error)?;
        let shown = path.display().to_string();
        let data = object!({"signature": shown, "serial": listed.serial, "for": target_json(&listed)});
        let place = listed.target.as_ref().map_or_else(
            || ", for no repository and branch: nodes that require a signed manifest refuse it".to_owned(),
            |target| format!(" for {}, branch {}", sanitize(&target.repository), sanitize(&target.branch)),
        );
        let line = format!("{}: signed serial {}{place}\n", sanitize(&shown), listed.serial);
        print(self.out, &line, data, ui);
        Ok(ExitStatus::Success)
    }
}

fn print(format: OutputFormat, text: &str, data: serde_json::Value, ui: &mut Ui<'_>) {
    ui.print(&match format {
        OutputFormat::Text => text.to_owned(),
        OutputFormat::Json => json(&data),
        OutputFormat::Yaml => yaml(&serde_json::from_value::<Value>(data).unwrap_or_default()),
    });
}

fn to_agent_error(error: ManifestError) -> AgentError {
    let message = error_chain(&error);
    match error {
        ManifestError::Faults(faults) => AgentError::Configuration(faults),
        ManifestError::Missing { .. } => AgentError::usage_hint(message, "run `zagent manifest write`"),
        ManifestError::Serial { old, .. } => {
            AgentError::usage_hint(message, format!("use a serial above {old}, or omit --serial"))
        }
        ManifestError::Io { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
            AgentError::usage(format!("`{}` does not exist", display_path(&path)))
        }
        _ => AgentError::failed(message),
    }
}

fn display_path(path: &Path) -> String {
    sanitize(&path.display().to_string())
}
