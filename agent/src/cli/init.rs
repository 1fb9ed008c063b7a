//! `zagent init [DIR]`: creates a working states repository; `--from-salt DIR` reports what works of a Salt
//! tree.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zagent_compiler::{CompileOptions, TemplateHost};

use super::settings;
use super::tree_args::TreeArgs;
use crate::init::salt::{self, CopySummary, FindTreeError};
use crate::init::{self, GitSetup, InitError, InitResult, RepositorySigner, SigningSetup};
use crate::output::{OutputFormat, Ui, json, pluralize, yaml};
use zagent_config::error_chain;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_host::Machine;
use zagent_states::template_host::live_host::{LiveHost, LiveHostSettings};

/// Create a states repository, or assess a Salt tree
#[derive(Debug, clap::Args)]
pub(super) struct InitArgs {
    /// Directory to create the repository in; with `--from-salt`, directory to copy the trees to (default: no
    /// copy)
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Sign with this key: a private key, or the public key when an SSH agent or a security key holds the private key;
    /// default: a new key in the `.git` directory of the repository
    #[arg(long, value_name = "FILE", conflicts_with = "from_salt")]
    key: Option<PathBuf>,

    /// Create it in a directory that is not empty; existing files are never overwritten
    #[arg(long, conflicts_with = "from_salt")]
    force: bool,

    /// Report what works and what does not in a Salt tree: file roots, or a directory with a master or minion
    /// configuration
    #[arg(long, value_name = "DIR")]
    from_salt: Option<PathBuf>,

    /// Salt master or minion configuration; default: the one found in the tree
    #[arg(long, value_name = "FILE", requires = "from_salt")]
    salt_config: Option<PathBuf>,

    /// Compile for this node ID; default: the configured id, otherwise the host name
    #[arg(long, value_name = "ID", requires = "from_salt")]
    id: Option<String>,

    /// Read grains from a JSON or YAML file instead of this host
    #[arg(long, value_name = "FILE", requires = "from_salt")]
    grains: Option<PathBuf>,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    out: OutputFormat,
}

impl InitArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        match &self.from_salt {
            None => self.create_repository(ui),
            Some(dir) => self.examine_salt_tree(dir, ui),
        }
    }

    fn create_repository(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let dir = self.dir.clone().unwrap_or_else(|| ".".into());
        let made =
            init::init_repository(&dir, self.force, self.key.as_deref()).map_err(|e| to_agent_error(&e))?;
        match self.out {
            OutputFormat::Text => print_result(&made, &dir, ui),
            _ => self.print_data(
                &serde_json::json!({
                    "dir": dir, "written": made.written, "kept": made.kept, "git": git_summary(&made.git),
                    "signing": signing_json(&made.signing),
                }),
                ui,
            ),
        }
        Ok(ExitStatus::Success)
    }

    fn examine_salt_tree(&self, dir: &Path, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let tree = salt::find_tree(dir, self.salt_config.as_deref()).map_err(|e| match e {
            FindTreeError::Faults(faults) => AgentError::Configuration(faults),
            other => AgentError::usage(error_chain(&other)),
        })?;
        let args = TreeArgs {
            id: self.id.clone(),
            grains: self.grains.clone(),
            salt_config: tree.config.clone(),
            ..TreeArgs::default()
        };
        let mut options = args.options()?;
        if self.id.is_none() && self.grains.is_none() {
            // A master configuration has no minion ID.
            options.id = settings::load(None)?.id.as_str().to_owned();
        }
        let host = offline_host(&args, &options)?;
        let report = salt::examine_tree(&tree, &host, &options);
        let copied = self.dir.as_deref().map(|target| salt::copy_tree(&tree, target)).transpose();
        let copied = copied.map_err(|e| to_agent_error(&e))?;
        match self.out {
            OutputFormat::Text => {
                ui.print(&salt::report_text(&report, ui.verbose > 0, ui.paint));
                if let (Some(copied), Some(target)) = (&copied, &self.dir) {
                    print_copied(copied, target, report.lenient_count() > 0, ui);
                }
            }
            _ => {
                let mut data = report.to_json();
                data["copied"] = copied.as_ref().map_or(serde_json::Value::Null, |c| {
                    serde_json::json!({"to": self.dir, "files": c.files, "skipped": c.skipped,
                                       "environments": c.environments, "git": git_summary(&c.git),
                                       "signing": signing_json(&c.signing)})
                });
                self.print_data(&data, ui);
            }
        }
        Ok(if report.failing_count() == 0 && report.percent_supported() == 100 {
            ExitStatus::Success
        } else {
            ExitStatus::Failed
        })
    }

    fn print_data(&self, data: &serde_json::Value, ui: &mut Ui<'_>) {
        ui.print(&match self.out {
            OutputFormat::Yaml => yaml(&serde_json::from_value(data.clone()).unwrap_or_default()),
            _ => json(data),
        });
    }
}

/// Host interface for templates that runs no commands, for the report.
fn offline_host(args: &TreeArgs, options: &CompileOptions) -> Result<Arc<dyn TemplateHost>, AgentError> {
    let machine = Machine::this_host().allow_commands(false);
    let live = LiveHostSettings::new(&*options.id, machine);
    Ok(Arc::new(LiveHost::new(args.facts()?, live)))
}

fn to_agent_error(error: &InitError) -> AgentError {
    let hint = match error {
        InitError::NotEmpty { .. } => {
            "choose another directory, or add --force (existing files are never overwritten)"
        }
        InitError::Inside { .. } => "choose a directory outside it",
        InitError::NotADirectory(_) => "choose a directory",
        InitError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            return AgentError::permission(error_chain(error));
        }
        InitError::Io { .. } => return AgentError::failed(error_chain(error)),
    };
    AgentError::usage_hint(error_chain(error), hint)
}

fn git_summary(git: &GitSetup) -> String {
    match git {
        GitSetup::Untouched => "not changed".into(),
        GitSetup::NoGit => "git is not installed here; nodes do not need it, but you need it to push".into(),
        GitSetup::InsideRepository => {
            "the directory is already inside a repository; nothing was committed".into()
        }
        GitSetup::Uncommitted(why) => format!("repository created, nothing committed: {why}"),
        GitSetup::Committed => "repository created, files committed".into(),
    }
}

fn print_result(made: &InitResult, dir: &Path, ui: &mut Ui<'_>) {
    let mut text = String::new();
    for path in &made.written {
        text += &format!("{} {}\n", ui.paint.green("+"), dir.join(path).display());
    }
    for path in &made.kept {
        text += &format!("{} {} (exists, not changed)\n", ui.paint.dim("="), dir.join(path).display());
    }
    ui.print(&text);
    ui.message(&format!("git: {}", git_summary(&made.git)));
    ui.message(&format!("signing: {}", signing_summary(&made.signing)));
    print_next_steps(dir, &made.signing, ui);
}

fn print_copied(copied: &CopySummary, target: &Path, lenient: bool, ui: &mut Ui<'_>) {
    ui.message(&format!(
        "\n{} copied to {}; the Salt tree is unchanged",
        pluralize(copied.files, "file"),
        target.display()
    ));
    for line in &copied.skipped {
        ui.message(&format!("  left out: {line}"));
    }
    ui.message(&format!("git: {}", git_summary(&copied.git)));
    ui.message(&format!("signing: {}", signing_summary(&copied.signing)));
    if lenient {
        ui.message("some SLS files need `compat: salt` in /etc/zagent/zagent.yaml");
    }
    for env in &copied.environments {
        ui.message(&format!("environment {env}: add environments/{env}/ to `environments:` in zagent.yaml"));
    }
    print_next_steps(target, &copied.signing, ui);
}

fn signing_json(signing: &SigningSetup) -> serde_json::Value {
    match signing {
        SigningSetup::Signed(signer) => serde_json::json!({
            "signed": true, "key": signer.key, "signer": signer.principal,
            "for": {"repository": signer.repository, "branch": signer.branch},
        }),
        SigningSetup::Unsigned(why) => serde_json::json!({"signed": false, "reason": why}),
    }
}

fn signing_summary(signing: &SigningSetup) -> String {
    match signing {
        SigningSetup::Signed(signer) => format!(
            "manifest.yaml is signed by {} with {}; keep a copy of this key, and never commit it",
            signer.principal,
            signer.key.display()
        ),
        SigningSetup::Unsigned(why) => format!("nothing is signed: {why}; README.md says how to sign"),
    }
}

fn print_next_steps(dir: &Path, signing: &SigningSetup, ui: &mut Ui<'_>) {
    let inventory = dir.join("inventory");
    let is_recorded = inventory.is_dir();
    let dir = dir.display();
    ui.message("\nNext:");
    if !is_recorded {
        let inventory = inventory.display();
        ui.message(&format!(
            "  mkdir -p {inventory} && zagent show grains --out yaml > {inventory}/$(hostname).yaml    # on each host to check for"
        ));
    }
    ui.message(&format!("  zagent check {dir}"));
    ui.message(&format!("  cd {dir}"));
    ui.message("  zagent run --once --test    # what would change on this host; changes nothing");
    ui.message("  zagent run --once --here    # apply it");
    let SigningSetup::Signed(RepositorySigner { repository, branch, .. }) = signing else {
        ui.message("Push it. On each host that should follow it:");
        ui.message("  zagent enroll https://git.example.org/states.git");
        return;
    };
    ui.message("Push it. On each host that should follow it, with a copy of allowed_signers:");
    let branch = if branch == "main" { String::new() } else { format!(" --branch {branch}") };
    ui.message(&format!(
        "  zagent enroll https://git.example.org/states.git{branch} --signers allowed_signers --repository {repository}"
    ));
}
