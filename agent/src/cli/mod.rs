//! Arguments in, one library call out: the command line, one file per command.
//!
//! A command turns its arguments into one call and the returned value into one text. Exit codes: `exit_code.rs`.

#![expect(
    clippy::disallowed_methods,
    reason = "commands are the edge: they read the clock and the environment"
)]

mod adopt;
mod cache;
mod call;
mod check;
mod checkout;
mod common_args;
mod complete;
mod completions;
mod config;
mod container_test;
mod demo;
mod doctor;
mod enroll;
mod explain;
mod history;
mod init;
mod local_run_args;
mod man;
mod manifest;
mod node;
mod orphans;
mod pause;
mod pin;
mod prune_args;
mod quarantine;
mod record;
mod release;
mod report;
mod resource;
mod resource_agent;
mod resource_args;
mod revert;
mod rollout;
mod run;
mod run_args;
mod run_printer;
mod salt_args;
mod schema;
mod secrets;
mod self_;
mod self_install;
mod show;
mod source;
mod state;
mod status;
mod tree_args;
mod trigger;
mod turn;
mod version;
mod watch;
mod watchdog;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use tracing::Level;
use zagent_config::suggest::nearest;

use self::resource_args::ResourceArgs;
use self::show::StateShowVerb;
use self::state::StateVerb;
use crate::draw::diagnostic::{self, Severity};
use crate::exit_code;
use crate::output::{Colour, ReportFormat, Ui, is_ascii_locale, json, pprint, yaml};
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::node_settings as settings;
use zagent_daemon::run_output::Messages;
use zagent_resources::ssh::command::ASKPASS_VARIABLE;

/// GitOps for hosts: Salt states from Git, compiled and converged on the node
#[derive(Debug, Parser)]
#[command(name = "zagent", version, propagate_version = false, max_term_width = 100)]
#[command(
    after_help = "Try it: zagent demo\nStates in a directory: zagent show lowstate --states DIR --pillar DIR"
)]
struct Cli {
    #[command(flatten)]
    globals: GlobalArgs,

    #[command(flatten)]
    resources: ResourceArgs,

    #[command(subcommand)]
    command: CliCommand,
}

/// Options of every command.
#[derive(Clone, Copy, Debug, clap::Args)]
struct GlobalArgs {
    /// When to use colour (NO_COLOR is respected)
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN", help_heading = "Output")]
    color: Colour,

    /// Print more messages; repeat for debug output
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Output")]
    verbose: u8,
}

/// The arguments of a command are built when it is used: building all of them was two thirds of a start.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum CliCommand {
    /// Print a compiler stage, its inputs, or the dependency graph
    Show(show::ShowArgs),
    /// Apply the states of this node, or predict the changes with `--test`
    Run(run::RunArgs),
    /// Run one turn of the daemon, as requested on standard input
    #[command(hide = true)]
    Turn(turn::TurnArgs),
    /// Apply what the top files select, or the given SLS files
    #[command(name = "state.apply")]
    Apply(state::StateCommandArgs),
    /// Apply what the top files select
    #[command(name = "state.highstate")]
    Highstate(state::StateCommandArgs),
    /// Apply the given SLS files
    #[command(name = "state.sls")]
    Sls(state::StateCommandArgs),
    /// Apply one ID of an SLS file, and the states it requires
    #[command(name = "state.sls_id")]
    SlsId(state::StateCommandArgs),
    /// Run one state function: state.single pkg.installed name=vim
    #[command(name = "state.single")]
    Single(state::StateCommandArgs),
    /// Run one low chunk: state.low '{"state": "pkg", "fun": "installed", "name": "vim"}'
    #[command(name = "state.low")]
    Low(state::StateCommandArgs),
    /// Print the SLS files that the top files select
    #[command(name = "state.show_top")]
    ShowTop(show::StateShowArgs),
    /// Print the states of the given SLS files by ID
    #[command(name = "state.show_sls")]
    ShowSls(show::StateShowArgs),
    /// Print the states that the top files select, by ID
    #[command(name = "state.show_highstate")]
    ShowHighstate(show::StateShowArgs),
    /// Print the chunks that would run, in Salt's order
    #[command(name = "state.show_lowstate")]
    ShowLowstate(show::StateShowArgs),
    /// Show the revision of this node, why it is not the newest, and what happens next
    Status(status::StatusArgs),
    /// Show what a first run would overwrite on this host, and save it
    Adopt(adopt::AdoptArgs),
    /// Write states that describe packages, services, files, users, groups or jobs of this host
    Record(record::RecordArgs),
    /// Print a JSON schema, for editors
    Schema(schema::SchemaArgs),
    /// List what earlier revisions managed on this host and the current states do not
    Orphans(orphans::OrphansArgs),
    /// List recent runs, or print the report of one run
    History(history::HistoryArgs),
    /// Tell the daemon to run now
    Trigger(trigger::TriggerArgs),
    /// Stop changing this host for a while
    Pause(pause::PauseArgs),
    /// End a pause
    Resume(pause::ResumeArgs),
    /// Pin this node to a branch or a commit
    Pin(pin::PinArgs),
    /// Follow the configured branch again
    Unpin(pin::UnpinArgs),
    /// List quarantined revisions, or clear them
    Quarantine(quarantine::QuarantineArgs),
    /// Roll out an agent version or a states commit, batch by batch
    Rollout(rollout::RolloutArgs),
    /// Show what nodes report on the board
    Node(node::NodeArgs),
    /// Show the whole fleet in a browser: nodes, rollouts and failures
    Report(report::ReportArgs),
    /// List and examine the systems that this node manages
    Resource(resource::ResourceCommandArgs),
    /// Answer the node that manages this machine, on standard input and output
    #[command(hide = true)]
    ResourceAgent(resource_agent::ResourceAgentArgs),
    /// Keep the agent running and take part in binary rollouts
    Watchdog(watchdog::WatchdogArgs),
    /// Install, remove or show the agent's binary, or roll back to the previous one
    #[command(name = "self")]
    Own(self_::SelfArgs),
    /// Compile every host of a states repository and report errors and warnings
    Check(check::CheckArgs),
    /// Converge a states repository twice in a container and compare the dry run with the result
    Test(container_test::ContainerTestArgs),
    /// Explain a diagnostic code, a state function, a state or a pillar key
    Explain(explain::ExplainArgs),
    /// Write, check or sign the manifest of a states repository
    Manifest(manifest::ManifestArgs),
    /// Create keys, encrypt and edit secrets of a states repository, and show who can read them
    Secrets(secrets::SecretsArgs),
    /// Publish an agent binary for rollouts, or list published releases
    Release(release::ReleaseArgs),
    /// Fetch from the remotes, or verify what they offer; runs nothing
    Source(source::SourceArgs),
    /// List and verify the generations on this node, or roll back to an earlier one
    Cache(cache::CacheArgs),
    /// Show the configuration
    Config(config::ConfigArgs),
    /// Check this host for problems that affect the agent
    Doctor(doctor::DoctorArgs),
    /// Follow a repository: write the configuration, test the remote, pin its first commit, start the unit
    Enroll(enroll::EnrollArgs),
    /// Create a states repository, or assess a Salt tree
    Init(init::InitArgs),
    /// Dry-run the starter states built into zagent; changes nothing
    Demo(demo::DemoArgs),
    /// Print a shell completion script
    Completions(completions::CompletionsArgs),
    /// Print the words that may come next in a command line
    #[command(hide = true)]
    Complete(complete::CompleteArgs),
    /// Print the manual page of a command, or write all of them
    Man(man::ManArgs),
    /// Print version, commit, target, profile and features
    Version(version::VersionArgs),
    /// `MOD.FUN`, with arguments and flags of its own.
    #[command(external_subcommand)]
    Function(Vec<OsString>),
}

/// Commands written like functions.
const STATE_COMMANDS: [&str; 6] =
    ["state.apply", "state.highstate", "state.sls", "state.sls_id", "state.single", "state.low"];

/// What the command line requests.
enum CliRequest {
    Command(Box<CliCommand>),
    Function(Box<call::FunctionCallArgs>),
}

impl CliRequest {
    fn format(&self) -> ReportFormat {
        match self {
            Self::Command(command) => command.format(),
            Self::Function(call) => call.format(),
        }
    }

    fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        match self {
            Self::Command(command) => command.run(ui),
            Self::Function(call) => call.run(ui),
        }
    }
}

impl CliCommand {
    /// Takes over flags that stood before the command; not every command has them.
    fn add_resources(&mut self, resources: ResourceArgs) -> Result<(), clap::Error> {
        match self {
            _ if !resources.is_given() => {}
            Self::Run(args) => args.add_resources(resources),
            Self::Apply(args)
            | Self::Highstate(args)
            | Self::Sls(args)
            | Self::SlsId(args)
            | Self::Single(args)
            | Self::Low(args) => args.add_resources(resources),
            _ => {
                let message = "`-r` and `--target` belong to commands that run something";
                return Err(clap_command().error(clap::error::ErrorKind::ArgumentConflict, message));
            }
        }
        Ok(())
    }

    fn format(&self) -> ReportFormat {
        match self {
            Self::Show(args) => args.format().into(),
            Self::ShowTop(args)
            | Self::ShowSls(args)
            | Self::ShowHighstate(args)
            | Self::ShowLowstate(args) => args.format().into(),
            Self::Run(args) => args.format(),
            Self::Apply(args)
            | Self::Highstate(args)
            | Self::Sls(args)
            | Self::SlsId(args)
            | Self::Single(args)
            | Self::Low(args) => args.format(),
            Self::Orphans(args) => args.out.into(),
            Self::Adopt(args) => args.out.into(),
            Self::Record(_) | Self::Schema(_) => ReportFormat::Text,
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
            Self::Report(args) => args.format().into(),
            Self::Resource(args) => args.format().into(),
            Self::Watchdog(args) => args.format().into(),
            Self::Own(args) => args.format().into(),
            Self::Check(args) => args.format().into(),
            Self::Test(args) => args.format().into(),
            Self::Explain(args) => args.format().into(),
            Self::Manifest(args) => args.format().into(),
            Self::Secrets(args) => args.format().into(),
            Self::Release(args) => args.format().into(),
            Self::Source(args) => args.format().into(),
            Self::Cache(args) => args.format().into(),
            Self::Config(args) => args.format().into(),
            Self::Doctor(args) => args.format().into(),
            Self::Enroll(args) => args.format().into(),
            Self::Init(args) => args.format().into(),
            Self::Version(args) => args.format().into(),
            Self::Demo(args) => args.format(),
            Self::Turn(_)
            | Self::ResourceAgent(_)
            | Self::Completions(_)
            | Self::Complete(_)
            | Self::Man(_)
            | Self::Function(_) => ReportFormat::Text,
        }
    }

    fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        match self {
            Self::Show(args) => args.run(ui),
            Self::Run(args) => args.run(ui),
            Self::Turn(args) => args.run(ui),
            Self::Apply(args) => args.run(StateVerb::Apply, ui),
            Self::Highstate(args) => args.run(StateVerb::Highstate, ui),
            Self::Sls(args) => args.run(StateVerb::Sls, ui),
            Self::SlsId(args) => args.run(StateVerb::SlsId, ui),
            Self::Single(args) => args.run(StateVerb::Single, ui),
            Self::Low(args) => args.run(StateVerb::Low, ui),
            Self::ShowTop(args) => args.run(StateShowVerb::Top, ui),
            Self::ShowSls(args) => args.run(StateShowVerb::Sls, ui),
            Self::ShowHighstate(args) => args.run(StateShowVerb::Highstate, ui),
            Self::ShowLowstate(args) => args.run(StateShowVerb::Lowstate, ui),
            Self::Orphans(args) => args.run(ui),
            Self::Adopt(args) => args.run(ui),
            Self::Record(args) => args.run(ui),
            Self::Schema(args) => args.run(ui),
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
            Self::Report(args) => args.run(ui),
            Self::Resource(args) => args.run(ui),
            Self::ResourceAgent(args) => args.run(ui),
            Self::Watchdog(args) => args.run(ui),
            Self::Own(args) => args.run(ui),
            Self::Check(args) => args.run(ui),
            Self::Test(args) => args.run(ui),
            Self::Explain(args) => args.run(ui),
            Self::Manifest(args) => args.run(ui),
            Self::Secrets(args) => args.run(ui),
            Self::Release(args) => args.run(ui),
            Self::Source(args) => args.run(ui),
            Self::Cache(args) => args.run(ui),
            Self::Config(args) => args.run(ui),
            Self::Doctor(args) => args.run(ui),
            Self::Enroll(args) => args.run(ui),
            Self::Init(args) => args.run(ui),
            Self::Demo(args) => args.run(ui),
            Self::Completions(args) => Ok(args.run(ui)),
            Self::Complete(args) => Ok(args.run(ui)),
            Self::Man(args) => args.run(ui),
            Self::Version(args) => Ok(args.run(ui)),
            Self::Function(_) => Err(AgentError::usage("expected MODULE.FUNCTION")),
        }
    }
}

/// Runs the program with the arguments and streams of the process.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(file) = std::env::var_os(ASKPASS_VARIABLE) {
        let answer = resource_agent::answer_prompt(&file, std::env::args_os());
        let printed = answer.map(|answer| std::io::stdout().write_all(answer.as_bytes()));
        return if matches!(printed, Some(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let colour = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let watched = std::io::stderr().is_terminal();
    let terminal = (colour && std::io::stdout().is_terminal(), colour && watched);
    // The streams are not locked permanently: progress is written from another thread.
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let ui = Ui::new(&mut out, &mut err, terminal)
        .with_screen(std::io::stdout().is_terminal(), terminal_width())
        .with_ascii(is_ascii_locale(["LC_ALL", "LC_CTYPE", "LANG"].map(|name| std::env::var(name).ok())))
        .with_interactive(watched)
        .with_journal(crate::log::is_journal());
    let exit = run_with_ui(std::env::args_os(), ui, terminal);
    ExitCode::from(exit_code::code(exit))
}

/// Standard output as bytes, for a command that talks to another program.
fn standard_output() -> Box<dyn Write + Send> {
    Box::new(std::io::stdout())
}

/// Columns of the terminal that stdout is.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// Runs one command line; `terminal` says whether stdout and stderr are terminals that may use colour.
pub fn run(
    args: impl IntoIterator<Item = OsString>,
    out: &mut (dyn Write + Send),
    err: &mut (dyn Write + Send),
    terminal: (bool, bool),
) -> ExitStatus {
    run_with_ui(args, Ui::new(out, err, terminal), terminal)
}

fn run_with_ui(
    args: impl IntoIterator<Item = OsString>,
    mut ui: Ui<'_>,
    terminal: (bool, bool),
) -> ExitStatus {
    let exit = match parse(args.into_iter().collect()) {
        Ok((asked, globals)) => {
            ui.apply_flags(globals.color, globals.verbose);
            run_request(&asked, &mut ui)
        }
        Err(e) => print_clap_error(&e, &mut ui, terminal),
    };
    let Some(lost) = ui.take_write_error() else { return exit };
    ui.message(&format!("{}: cannot write the output: {lost}", ui.err_paint.red("error")));
    if exit == ExitStatus::Success { ExitStatus::Failed } else { exit }
}

fn run_request(asked: &CliRequest, ui: &mut Ui<'_>) -> ExitStatus {
    match asked.run(ui) {
        Ok(exit) => exit,
        Err(cli_error) => {
            print_error(&cli_error, asked.format(), ui);
            cli_error.exit()
        }
    }
}

/// Parses known commands; any other word with a dot is a function with flags of its own.
fn parse(args: Vec<OsString>) -> Result<(CliRequest, GlobalArgs), clap::Error> {
    let Cli { globals, resources, mut command } = Cli::try_parse_from(args)?;
    let CliCommand::Function(words) = command else {
        command.add_resources(resources)?;
        return Ok((CliRequest::Command(Box::new(command)), globals));
    };
    let name = words.first().map(|w| w.to_string_lossy().into_owned()).unwrap_or_default();
    if !name.contains('.') {
        return Err(unknown_command(&name));
    }
    let mut call = call::FunctionCallArgs::try_parse_from(std::iter::once("zagent".into()).chain(words))?;
    call.add_resources(resources);
    let color = if call.globals.color == Colour::Auto { globals.color } else { call.globals.color };
    let verbose = globals.verbose.saturating_add(call.globals.verbose);
    Ok((CliRequest::Function(Box::new(call)), GlobalArgs { color, verbose }))
}

/// Error for a word that is neither a command nor a function. clap would take it for a function, so suggest
/// here.
fn unknown_command(name: &str) -> clap::Error {
    let mut table = clap_command();
    // `apply` is short for `state.apply`.
    let last = |full: &'static str| full.rsplit('.').next().unwrap_or(full);
    let verbs = || STATE_COMMANDS.iter().copied();
    let near = nearest(name, table.get_subcommands().map(clap::Command::get_name)).map(str::to_owned);
    let near = near.or_else(|| {
        let found = verbs().find(|full| last(full) == name);
        let found = found
            .or_else(|| nearest(name, verbs().map(last)).and_then(|near| verbs().find(|v| last(v) == near)));
        found.map(str::to_owned)
    });
    let tip =
        near.map(|near| format!("\n\n  tip: a similar subcommand exists: '{near}'")).unwrap_or_default();
    let message = format!("unrecognized subcommand '{}'{tip}", zagent_config::sanitize(name));
    table.error(clap::error::ErrorKind::InvalidSubcommand, message)
}

/// Prints clap's message: help and version go to stdout, everything else is a usage error.
fn print_clap_error(error: &clap::Error, ui: &mut Ui<'_>, terminal: (bool, bool)) -> ExitStatus {
    let text = error.render();
    let painted = |on: bool| if on { text.ansi().to_string() } else { text.to_string() };
    if error.use_stderr() {
        ui.message(painted(terminal.1).trim_end());
        return ExitStatus::Usage;
    }
    ui.print(&painted(terminal.0));
    ExitStatus::Success
}

/// Prints an error: as data when a data format is requested, otherwise drawn on stderr.
fn print_error(cli_error: &AgentError, format: ReportFormat, ui: &mut Ui<'_>) {
    match format {
        ReportFormat::Json => ui.print(&json(&cli_error.to_json())),
        ReportFormat::Yaml => {
            let value =
                serde_json::from_value::<zagent_config::Value>(cli_error.to_json()).unwrap_or_default();
            ui.print(&yaml(&value));
        }
        ReportFormat::Pprint => {
            let value =
                serde_json::from_value::<zagent_config::Value>(cli_error.to_json()).unwrap_or_default();
            ui.print(&pprint(&value));
        }
        ReportFormat::Ndjson => ui.print(&format!("{}\n", cli_error.to_json())),
        ReportFormat::Highstate => {
            if let AgentError::CompileErrors(faults) = cli_error {
                ui.print(&crate::output::report::render_compile_errors(&faults.0, ui.paint));
            }
        }
        ReportFormat::Text => {}
    }
    let is_data = !matches!(format, ReportFormat::Text | ReportFormat::Highstate);
    if is_data && ui.verbose == 0 {
        return;
    }
    let paint = ui.err_paint;
    match cli_error {
        AgentError::Usage { message, hint } | AgentError::Refusal { message, hint, .. } => {
            ui.alert(Level::ERROR, &format!("{}: {}", paint.red("error"), zagent_config::sanitize(message)));
            if let Some(hint) = hint {
                ui.alert(Level::ERROR, &format!(" {} {}: {hint}", paint.blue("="), paint.bold("help")));
            }
        }
        AgentError::CompileErrors(faults) | AgentError::Configuration(faults) => {
            for one in &faults.0 {
                ui.alert(Level::ERROR, &diagnostic::render_diagnostic(one, Severity::Error, paint));
            }
            let all: Vec<_> = faults.0.iter().collect();
            ui.alert(Level::ERROR, &diagnostic::fault_summary(&all, 0, paint));
        }
    }
}

/// Prints a warning.
fn warn(message: &str, ui: &mut Ui<'_>) {
    ui.warn(message);
}

/// The full clap command, for completions and manual pages.
fn clap_command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests;
