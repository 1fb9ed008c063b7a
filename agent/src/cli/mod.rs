//! Arguments in, one library call out: the command line, one file a command.
//!
//! Law: a command turns its arguments into one call and its value into one text. Exit codes: 0 fine, 1 found or failed,
//! 2 usage or configuration, 65 the states do not compile, 75 locked, 77 permission.

mod cache;
mod call;
mod check;
mod common;
mod completions;
mod config;
mod demo;
mod doctor;
mod explain;
mod history;
mod init;
mod man;
mod manifest;
mod node;
mod nothing;
mod order;
mod pause;
mod pin;
mod quarantine;
mod release;
mod rollout;
mod run;
mod self_;
mod settings;
mod show;
mod source;
mod state;
mod status;
mod tree;
mod trigger;
mod watchdog;
mod words;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use tracing::Level;
use zagent_config::suggest::nearest;

use self::state::Verb;
use crate::draw::fault::{self, Severity};
use crate::output::{Colour, ReportFormat, Ui, json, report, yaml};
use crate::report::{Exit, Trouble};

/// GitOps for hosts: Salt states from Git, compiled and converged on the node
#[derive(Debug, Parser)]
#[command(name = "zagent", version, propagate_version = false, max_term_width = 100)]
#[command(
    after_help = "Try it: zagent demo\nStates in a directory: zagent show lowstate --states DIR --pillar DIR"
)]
struct Cli {
    #[command(flatten)]
    globals: Globals,

    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Globals {
    /// When to use colour (NO_COLOR is honoured)
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN", help_heading = "Output")]
    color: Colour,

    /// Say more; twice says even more
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Output")]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print a stage of the compiler, or what it is given
    Show(show::Args),
    /// Apply the states of this node, or see what they would do
    Run(run::Args),
    /// Apply what the top files select, or the SLS that are named
    #[command(name = "state.apply")]
    Apply(state::Args),
    /// Apply what the top files select
    #[command(name = "state.highstate")]
    Highstate(state::Args),
    /// Apply the SLS that are named
    #[command(name = "state.sls")]
    Sls(state::Args),
    /// Apply one id of an SLS, and what it waits for
    #[command(name = "state.sls_id")]
    SlsId(state::Args),
    /// Run one state function: state.single pkg.installed name=vim
    #[command(name = "state.single")]
    Single(state::Args),
    /// Run one low chunk: state.low '{"state": "pkg", "fun": "installed", "name": "vim"}'
    #[command(name = "state.low")]
    Low(state::Args),
    /// Tell which revision this node is on, why not on the newest, and what comes next
    Status(status::Args),
    /// Print the last runs, or the report of one of them
    History(history::Args),
    /// Ask the daemon for a run now
    Trigger(trigger::Args),
    /// Stop changing this host for a while
    Pause(pause::Args),
    /// Go on after a pause
    Resume(pause::Resume),
    /// Keep this node on a branch or a commit
    Pin(pin::Args),
    /// Follow the configured branch again
    Unpin(pin::Unpin),
    /// Look at revisions that failed their health checks, or let them go
    Quarantine(quarantine::Args),
    /// Roll out a version of the agent or a commit of the states, batch by batch
    Rollout(rollout::Args),
    /// Look at what nodes report on the board
    Node(node::Args),
    /// Keep the agent running, and take part in rollouts of its binary
    Watchdog(watchdog::Args),
    /// Look at the agent's own binary, or go back to the one before
    #[command(name = "self")]
    Own(self_::Args),
    /// Compile every host of a states repository and report what is wrong
    Check(check::Args),
    /// Explain a fault code, a state function, a state or a pillar key
    Explain(explain::Args),
    /// Write, check or sign the manifest of a states repository
    Manifest(manifest::Args),
    /// Publish a binary of the agent for rollouts, or list what was published
    Release(release::Args),
    /// Take what the remotes offer, or see whether it would be taken; nothing is run
    Source(source::Args),
    /// Look at the generations on this node, check them, go back to one
    Cache(cache::Args),
    /// Look at the configuration
    Config(config::Args),
    /// Look for what is wrong with this host as a home of the agent
    Doctor(doctor::Args),
    /// Make a states repository, or judge a Salt tree
    Init(init::Args),
    /// Dry-run the starter states inside this program; changes nothing
    Demo(demo::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Print the manual page
    Man(man::Args),
    /// `MOD.FUN`, with words and flags that only it knows.
    #[command(external_subcommand)]
    Function(Vec<OsString>),
}

/// The commands that are written as functions are.
const VERBS: [&str; 6] =
    ["state.apply", "state.highstate", "state.sls", "state.sls_id", "state.single", "state.low"];

/// Something that the command line asks for.
enum Asked {
    Command(Box<Command>),
    Function(Box<call::Args>),
}

impl Asked {
    fn format(&self) -> ReportFormat {
        match self {
            Self::Command(command) => command.format(),
            Self::Function(call) => call.format(),
        }
    }

    fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        match self {
            Self::Command(command) => command.run(ui),
            Self::Function(call) => call.run(ui),
        }
    }
}

impl Command {
    fn format(&self) -> ReportFormat {
        match self {
            Self::Show(args) => args.format().into(),
            Self::Run(args) => args.format(),
            Self::Apply(args)
            | Self::Highstate(args)
            | Self::Sls(args)
            | Self::SlsId(args)
            | Self::Single(args)
            | Self::Low(args) => args.format(),
            Self::Status(args) => args.format().into(),
            Self::History(args) => args.format(),
            Self::Trigger(args) => args.format().into(),
            Self::Pause(args) => args.format().into(),
            Self::Resume(args) => args.format().into(),
            Self::Pin(args) => args.format().into(),
            Self::Unpin(args) => args.format().into(),
            Self::Quarantine(args) => args.format().into(),
            Self::Rollout(args) => args.format().into(),
            Self::Node(args) => args.format().into(),
            Self::Watchdog(args) => args.format().into(),
            Self::Own(args) => args.format().into(),
            Self::Check(args) => args.format().into(),
            Self::Explain(args) => args.format().into(),
            Self::Manifest(args) => args.format().into(),
            Self::Release(args) => args.format().into(),
            Self::Source(args) => args.format().into(),
            Self::Cache(args) => args.format().into(),
            Self::Config(args) => args.format().into(),
            Self::Doctor(args) => args.format().into(),
            Self::Init(args) => args.format().into(),
            Self::Demo(args) => args.format(),
            Self::Completions(_) | Self::Man(_) | Self::Function(_) => ReportFormat::Text,
        }
    }

    fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        match self {
            Self::Show(args) => args.run(ui),
            Self::Run(args) => args.run(ui),
            Self::Apply(args) => args.run(Verb::Apply, ui),
            Self::Highstate(args) => args.run(Verb::Highstate, ui),
            Self::Sls(args) => args.run(Verb::Sls, ui),
            Self::SlsId(args) => args.run(Verb::SlsId, ui),
            Self::Single(args) => args.run(Verb::Single, ui),
            Self::Low(args) => args.run(Verb::Low, ui),
            Self::Status(args) => args.run(ui),
            Self::History(args) => args.run(ui),
            Self::Trigger(args) => args.run(ui),
            Self::Pause(args) => args.run(ui),
            Self::Resume(args) => args.run(ui),
            Self::Pin(args) => args.run(ui),
            Self::Unpin(args) => args.run(ui),
            Self::Quarantine(args) => args.run(ui),
            Self::Rollout(args) => args.run(ui),
            Self::Node(args) => args.run(ui),
            Self::Watchdog(args) => args.run(ui),
            Self::Own(args) => args.run(ui),
            Self::Check(args) => args.run(ui),
            Self::Explain(args) => args.run(ui),
            Self::Manifest(args) => args.run(ui),
            Self::Release(args) => args.run(ui),
            Self::Source(args) => args.run(ui),
            Self::Cache(args) => args.run(ui),
            Self::Config(args) => args.run(ui),
            Self::Doctor(args) => args.run(ui),
            Self::Init(args) => args.run(ui),
            Self::Demo(args) => args.run(ui),
            Self::Completions(args) => Ok(args.run(ui)),
            Self::Man(args) => args.run(ui),
            Self::Function(_) => Err(Trouble::usage("a function is written MODULE.FUNCTION")),
        }
    }
}

/// Runs the program on the process's own arguments and streams.
#[must_use]
pub fn main() -> ExitCode {
    let colour = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let watched = std::io::stderr().is_terminal();
    let terminal = (colour && std::io::stdout().is_terminal(), colour && watched);
    // The streams are not locked for good: progress is written from another thread.
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let ui = Ui::new(&mut out, &mut err, terminal).watched(watched).journal(crate::log::is_journal());
    let exit = run_on(std::env::args_os(), ui, terminal);
    ExitCode::from(exit as u8)
}

/// Runs one command line; `terminal` says for stdout and stderr whether colour may be used.
pub fn run(
    args: impl IntoIterator<Item = OsString>,
    out: &mut (dyn Write + Send),
    err: &mut (dyn Write + Send),
    terminal: (bool, bool),
) -> Exit {
    run_on(args, Ui::new(out, err, terminal), terminal)
}

fn run_on(args: impl IntoIterator<Item = OsString>, mut ui: Ui<'_>, terminal: (bool, bool)) -> Exit {
    let exit = match parse(args.into_iter().collect()) {
        Ok((asked, globals)) => {
            ui.settle(globals.color, globals.verbose);
            carry_out(&asked, &mut ui)
        }
        Err(e) => usage(&e, &mut ui, terminal),
    };
    let Some(lost) = ui.lost() else { return exit };
    ui.say(&format!("{}: cannot write the output: {lost}", ui.talk.red("error")));
    if exit == Exit::Fine { Exit::Failed } else { exit }
}

fn carry_out(asked: &Asked, ui: &mut Ui<'_>) -> Exit {
    match asked.run(ui) {
        Ok(exit) => exit,
        Err(trouble) => {
            tell(&trouble, asked.format(), ui);
            trouble.exit()
        }
    }
}

/// Commands by the table; what has a dot and is none of them is a function, with flags of its own.
fn parse(args: Vec<OsString>) -> Result<(Asked, Globals), clap::Error> {
    let Cli { globals, command } = Cli::try_parse_from(args)?;
    let Command::Function(words) = command else { return Ok((Asked::Command(Box::new(command)), globals)) };
    let name = words.first().map(|w| w.to_string_lossy().into_owned()).unwrap_or_default();
    if !name.contains('.') {
        return Err(no_command(&name));
    }
    let call = call::Args::try_parse_from(std::iter::once("zagent".into()).chain(words))?;
    let color = if call.globals.color == Colour::Auto { globals.color } else { call.globals.color };
    let verbose = globals.verbose.saturating_add(call.globals.verbose);
    Ok((Asked::Function(Box::new(call)), Globals { color, verbose }))
}

/// A word that is neither a command nor a function. clap would take it for a function, so the nearest is looked up here.
fn no_command(name: &str) -> clap::Error {
    let mut table = command_table();
    // `apply` is short for `state.apply`.
    let last = |full: &'static str| full.rsplit('.').next().unwrap_or(full);
    let verbs = || VERBS.iter().copied();
    let near = nearest(name, table.get_subcommands().map(clap::Command::get_name)).map(str::to_owned);
    let near = near.or_else(|| {
        let found = verbs().find(|full| last(full) == name);
        let found = found
            .or_else(|| nearest(name, verbs().map(last)).and_then(|near| verbs().find(|v| last(v) == near)));
        found.map(str::to_owned)
    });
    let tip =
        near.map(|near| format!("\n\n  tip: a similar subcommand exists: '{near}'")).unwrap_or_default();
    let message = format!("unrecognized subcommand '{}'{tip}", crate::output::harmless(name));
    table.error(clap::error::ErrorKind::InvalidSubcommand, message)
}

/// What clap has to say: help and version are data, the rest is a mistake.
fn usage(error: &clap::Error, ui: &mut Ui<'_>, terminal: (bool, bool)) -> Exit {
    let text = error.render();
    let painted = |on: bool| if on { text.ansi().to_string() } else { text.to_string() };
    if error.use_stderr() {
        ui.say(painted(terminal.1).trim_end());
        return Exit::Usage;
    }
    ui.data(&painted(terminal.0));
    Exit::Fine
}

/// Tells a refusal: as data when data was asked for, else drawn on stderr.
fn tell(trouble: &Trouble, format: ReportFormat, ui: &mut Ui<'_>) {
    match format {
        ReportFormat::Json => ui.data(&json(&trouble.to_json())),
        ReportFormat::Yaml => {
            let value = serde_json::from_value::<zagent_config::Value>(trouble.to_json()).unwrap_or_default();
            ui.data(&yaml(&value));
        }
        ReportFormat::Ndjson => ui.data(&format!("{}\n", trouble.to_json())),
        ReportFormat::Highstate => {
            if let Trouble::Faults(faults) = trouble {
                ui.data(&report::refusal(&faults.0, ui.paint));
            }
        }
        ReportFormat::Text => {}
    }
    let is_data = matches!(format, ReportFormat::Json | ReportFormat::Yaml | ReportFormat::Ndjson);
    if is_data && ui.verbose == 0 {
        return;
    }
    let paint = ui.talk;
    match trouble {
        Trouble::Usage { message, hint } | Trouble::Refusal { message, hint, .. } => {
            ui.alert(Level::ERROR, &format!("{}: {}", paint.red("error"), crate::output::harmless(message)));
            if let Some(hint) = hint {
                ui.alert(Level::ERROR, &format!(" {} {}: {hint}", paint.blue("="), paint.bold("help")));
            }
        }
        Trouble::Faults(faults) | Trouble::Configuration(faults) => {
            for one in &faults.0 {
                ui.alert(Level::ERROR, &fault::draw(one, Severity::Error, paint));
            }
            let all: Vec<_> = faults.0.iter().collect();
            ui.alert(Level::ERROR, &fault::summary(&all, 0, paint));
        }
    }
}

/// Tells what stops nothing.
fn warn(message: &str, ui: &mut Ui<'_>) {
    let paint = ui.talk;
    ui.alert(Level::WARN, &format!("{}: {}", paint.yellow("warning"), crate::output::harmless(message)));
}

/// The whole command, for completions and the manual.
fn command_table() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests;
