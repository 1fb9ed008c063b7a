//! `zagent init [DIR]`: a states repository that works at once; `--from-salt DIR` tells what of a Salt tree will work.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zagent_compiler::{Host, Options};

use super::settings;
use super::tree::TreeArgs;
use crate::host::{Live, LiveSettings, Machine};
use crate::init::salt::{self, Copied, FindError};
use crate::init::{self, InitError, Made, Versioned};
use crate::output::{Format, Ui, count, json, yaml};
use crate::report::{Exit, Trouble, chain};

/// Make a states repository, or judge a Salt tree
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where to make the repository; with `--from-salt`, where to copy the trees to (nowhere by default)
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Make it beside what is there; no file is ever overwritten
    #[arg(long, conflicts_with = "from_salt")]
    force: bool,

    /// Report what will and will not work of a Salt tree: file roots, or a directory with a master or minion configuration
    #[arg(long, value_name = "DIR")]
    from_salt: Option<PathBuf>,

    /// The master or minion configuration; default: one that is found in the tree
    #[arg(long, value_name = "FILE", requires = "from_salt")]
    salt_config: Option<PathBuf>,

    /// Compile for this node; default: the configured id, else the host name
    #[arg(long, value_name = "ID", requires = "from_salt")]
    id: Option<String>,

    /// Facts from a JSON or YAML file instead of this host's
    #[arg(long, value_name = "FILE", requires = "from_salt")]
    grains: Option<PathBuf>,

    /// How to print it
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    out: Format,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        self.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        match &self.from_salt {
            None => self.make(ui),
            Some(dir) => self.judge(dir, ui),
        }
    }

    fn make(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let dir = self.dir.clone().unwrap_or_else(|| ".".into());
        let made = init::make(&dir, self.force).map_err(|e| trouble(&e))?;
        match self.out {
            Format::Text => told(&made, &dir, ui),
            _ => self.data(
                &serde_json::json!({
                    "dir": dir, "written": made.written, "kept": made.kept, "git": git_words(&made.git),
                }),
                ui,
            ),
        }
        Ok(Exit::Fine)
    }

    fn judge(&self, dir: &Path, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let tree = salt::find(dir, self.salt_config.as_deref()).map_err(|e| match e {
            FindError::Faults(faults) => Trouble::Configuration(faults),
            other => Trouble::usage(chain(&other)),
        })?;
        let args = TreeArgs {
            id: self.id.clone(),
            grains: self.grains.clone(),
            salt_config: tree.config.clone(),
            ..TreeArgs::default()
        };
        let mut options = args.options()?;
        if self.id.is_none() && self.grains.is_none() {
            // A master's configuration names no minion.
            options.id = settings::load(None)?.id.as_str().to_owned();
        }
        let host = host(&args, &options)?;
        let report = salt::examine(&tree, &host, &options);
        let copied = self.dir.as_deref().map(|target| salt::copy(&tree, target)).transpose();
        let copied = copied.map_err(|e| trouble(&e))?;
        match self.out {
            Format::Text => {
                ui.data(&salt::text(&report, ui.verbose > 0, ui.paint));
                if let (Some(copied), Some(target)) = (&copied, &self.dir) {
                    copied_told(copied, target, report.lenient() > 0, ui);
                }
            }
            _ => {
                let mut data = report.to_json();
                data["copied"] = copied.as_ref().map_or(serde_json::Value::Null, |c| {
                    serde_json::json!({"to": self.dir, "files": c.files, "skipped": c.skipped,
                                       "environments": c.environments, "git": git_words(&c.git)})
                });
                self.data(&data, ui);
            }
        }
        Ok(if report.failing() == 0 && report.percent() == 100 { Exit::Fine } else { Exit::Failed })
    }

    fn data(&self, data: &serde_json::Value, ui: &mut Ui<'_>) {
        ui.data(&match self.out {
            Format::Yaml => yaml(&serde_json::from_value(data.clone()).unwrap_or_default()),
            _ => json(data),
        });
    }
}

/// This host as templates may ask it; a report runs no command.
fn host(args: &TreeArgs, options: &Options) -> Result<Arc<dyn Host>, Trouble> {
    let live = LiveSettings { machine: Machine::new().commands(false), ..LiveSettings::new(&*options.id) };
    Ok(Arc::new(Live::new(args.facts()?, live)))
}

fn trouble(error: &InitError) -> Trouble {
    let hint = match error {
        InitError::NotEmpty { .. } => "name another directory, or add --force: no file is overwritten",
        InitError::Inside { .. } => "name a directory beside it",
        InitError::NotADirectory(_) => "name a directory",
        InitError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            return Trouble::permission(chain(error));
        }
        InitError::Io { .. } => return Trouble::failed(chain(error)),
    };
    Trouble::usage_hint(chain(error), hint)
}

fn git_words(git: &Versioned) -> String {
    match git {
        Versioned::Nothing => "nothing was done".into(),
        Versioned::NoGit => "there is no git here; a host needs none, but you do to push".into(),
        Versioned::Within => "it stands in a repository already; nothing was committed".into(),
        Versioned::Made(why) => format!("a repository was made, nothing was committed: {why}"),
        Versioned::Committed => "a repository was made, the files are its first commit".into(),
    }
}

fn told(made: &Made, dir: &Path, ui: &mut Ui<'_>) {
    let mut text = String::new();
    for path in &made.written {
        text += &format!("{} {}\n", ui.paint.green("+"), dir.join(path).display());
    }
    for path in &made.kept {
        text += &format!("{} {} (was there)\n", ui.paint.dim("="), dir.join(path).display());
    }
    ui.data(&text);
    ui.say(&format!("git: {}", git_words(&made.git)));
    next(dir, ui);
}

fn copied_told(copied: &Copied, target: &Path, lenient: bool, ui: &mut Ui<'_>) {
    ui.say(&format!(
        "\n{} copied to {}; the Salt tree is as it was",
        count(copied.files, "file"),
        target.display()
    ));
    for line in &copied.skipped {
        ui.say(&format!("  left out: {line}"));
    }
    ui.say(&format!("git: {}", git_words(&copied.git)));
    if lenient {
        ui.say("some SLS need `compat: salt` in /etc/zagent/zagent.yaml");
    }
    for env in &copied.environments {
        ui.say(&format!("environment {env}: name environments/{env}/ in `environments:` of zagent.yaml"));
    }
    next(target, ui);
}

fn next(dir: &Path, ui: &mut Ui<'_>) {
    let (states, pillar) = (dir.join("states"), dir.join("pillar"));
    let (dir, states, pillar) = (dir.display(), states.display(), pillar.display());
    ui.say("\nNext:");
    ui.say(&format!("  zagent check {dir}"));
    ui.say(&format!("  zagent run --once --test --states {states} --pillar {pillar}    # changes nothing"));
    ui.say(&format!("  zagent run --once --states {states} --pillar {pillar}"));
    ui.say("A node follows it once it is pushed, with two lines in /etc/zagent/zagent.yaml:");
    ui.say("  source:\n    remotes: [{url: https://git.example.org/states.git, branch: main}]");
}
