//! Arguments in, one library call out: the command line, one file a command.
//!
//! Law: a command turns its arguments into one call and its value into one text. Exit codes: 0 fine, 1 found or failed,
//! 2 usage or configuration, 65 the states do not compile.

mod check;
mod completions;
mod config;
mod demo;
mod explain;
mod man;
mod run;
mod settings;
mod show;
mod tree;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::draw::fault::{self, Severity};
use crate::output::{Colour, Format, Ui, json, yaml};
use crate::report::{Exit, Trouble};

/// GitOps for hosts: Salt states from Git, compiled and converged on the node
#[derive(Debug, Parser)]
#[command(name = "zagent", version, propagate_version = false, max_term_width = 100)]
#[command(
    after_help = "Try it: zagent demo\nStates in a directory: zagent show lowstate --states DIR --pillar DIR"
)]
struct Cli {
    /// When to use colour (NO_COLOR is honoured)
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN", help_heading = "Output")]
    color: Colour,

    /// Say more; twice says even more
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Output")]
    verbose: u8,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print a stage of the compiler, or what it is given
    Show(show::Args),
    /// Apply the states of this node, or see what they would do
    Run(run::Args),
    /// Compile every host of a states repository and report what is wrong
    Check(check::Args),
    /// Explain a fault code, a state function, a state or a pillar key
    Explain(explain::Args),
    /// Look at the configuration
    Config(config::Args),
    /// Dry-run the starter states inside this program; changes nothing
    Demo(demo::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Print the manual page
    Man(man::Args),
}

impl Command {
    fn format(&self) -> Format {
        match self {
            Self::Show(args) => args.format(),
            Self::Run(args) => args.format(),
            Self::Check(args) => args.format(),
            Self::Explain(args) => args.format(),
            Self::Config(args) => args.format(),
            Self::Demo(args) => args.format(),
            Self::Completions(_) | Self::Man(_) => Format::Text,
        }
    }

    fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        match self {
            Self::Show(args) => args.run(ui),
            Self::Run(args) => args.run(ui),
            Self::Check(args) => args.run(ui),
            Self::Explain(args) => args.run(ui),
            Self::Config(args) => args.run(ui),
            Self::Demo(args) => args.run(ui),
            Self::Completions(args) => Ok(args.run(ui)),
            Self::Man(args) => args.run(ui),
        }
    }
}

/// Runs the program on the process's own arguments and streams.
#[must_use]
pub fn main() -> ExitCode {
    let colour = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let terminal = (colour && std::io::stdout().is_terminal(), colour && std::io::stderr().is_terminal());
    let exit =
        run(std::env::args_os(), &mut std::io::stdout().lock(), &mut std::io::stderr().lock(), terminal);
    ExitCode::from(exit as u8)
}

/// Runs one command line; `terminal` says for stdout and stderr whether colour may be used.
pub fn run(
    args: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
    terminal: (bool, bool),
) -> Exit {
    let mut ui = Ui::new(out, err, terminal);
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) => return usage(&e, &mut ui, terminal),
    };
    ui.settle(cli.color, cli.verbose);
    match cli.command.run(&mut ui) {
        Ok(exit) => exit,
        Err(trouble) => {
            tell(&trouble, cli.command.format(), &mut ui);
            trouble.exit()
        }
    }
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
fn tell(trouble: &Trouble, format: Format, ui: &mut Ui<'_>) {
    match format {
        Format::Json => ui.data(&json(&trouble.to_json())),
        Format::Yaml => {
            let value = serde_json::from_value::<zagent_config::Value>(trouble.to_json()).unwrap_or_default();
            ui.data(&yaml(&value));
        }
        Format::Text => {}
    }
    if format != Format::Text && ui.verbose == 0 {
        return;
    }
    let paint = ui.talk;
    match trouble {
        Trouble::Usage { message, hint } => {
            ui.say(&format!("{}: {}", paint.red("error"), crate::output::harmless(message)));
            if let Some(hint) = hint {
                ui.say(&format!(" {} {}: {hint}", paint.blue("="), paint.bold("help")));
            }
        }
        Trouble::Faults(faults) | Trouble::Configuration(faults) => {
            for one in &faults.0 {
                ui.say(&fault::draw(one, Severity::Error, paint));
            }
            let all: Vec<_> = faults.0.iter().collect();
            ui.say(&fault::summary(&all, 0, paint));
        }
    }
}

/// The whole command, for completions and the manual.
fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests;
