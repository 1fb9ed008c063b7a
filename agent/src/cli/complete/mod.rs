//! A command line that is being typed in, the words that may come next out: commands, options, their values, and what exists
//! here (`names.rs`).
//!
//! The completion scripts of all shells call this, so they never differ from the program.

mod names;

use clap::{Arg, Command};

use crate::output::Ui;
use zagent_daemon::error::ExitStatus;

/// Print the words that may come next in a command line
#[derive(Debug, clap::Args)]
pub(super) struct CompleteArgs {
    /// The words after the program name; the last one is being typed
    #[arg(last = true, value_name = "WORD", allow_hyphen_values = true)]
    words: Vec<String>,
}

impl CompleteArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> ExitStatus {
        let mut root = super::clap_command();
        root.build();
        for word in next_words(&root, &self.words, &mut names::existing) {
            ui.print(&format!("{word}\n"));
        }
        ExitStatus::Success
    }
}

/// Where the cursor is.
struct CursorPlace<'c> {
    command: &'c Command,
    /// Names of the commands so far, such as `show lowstate`.
    path: String,
    /// Number of positional arguments before the cursor.
    positionals: usize,
    /// The option whose value is typed.
    option: Option<&'c Arg>,
}

/// The words that may stand at the place of the last one; `existing` names what exists for an argument of a command.
fn next_words(
    root: &Command,
    words: &[String],
    existing: &mut dyn FnMut(&str, &str) -> Vec<String>,
) -> Vec<String> {
    // bash takes `--out=json` apart.
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (typed, prefix) = match words.split_last() {
        None => (&[][..], ""),
        Some((&"=", before)) => (before, ""),
        Some((last, before)) => (before, *last),
    };
    let place = place(root, typed);
    let mut found = match (place.option, prefix.split_once('=')) {
        (Some(option), _) if !prefix.starts_with('-') => values(&place, option, prefix, existing),
        (_, Some((name, value))) if name.starts_with("--") => {
            let option = find_option(place.command, name);
            let all = option.map(|option| values(&place, option, value, existing)).unwrap_or_default();
            all.into_iter().map(|value| format!("{name}={value}")).collect()
        }
        _ if prefix.starts_with('-') => options(place.command),
        _ => arguments(&place, prefix, existing),
    };
    found.retain(|word| word.starts_with(prefix) && !word.contains(char::is_control));
    found.sort();
    found.dedup();
    found
}

fn place<'c>(root: &'c Command, typed: &[&str]) -> CursorPlace<'c> {
    let mut place = CursorPlace { command: root, path: String::new(), positionals: 0, option: None };
    for word in typed.iter().filter(|word| **word != "=") {
        if word.starts_with('-') && word.len() > 1 {
            let option = find_option(place.command, word).filter(|option| option.get_action().takes_values());
            place.option = option.filter(|_| !word.contains('='));
        } else if place.option.take().is_some() {
            continue;
        } else if place.positionals == 0
            && let Some(command) = place.command.find_subcommand(word)
        {
            let gap = if place.path.is_empty() { "" } else { " " };
            place.path = format!("{}{gap}{}", place.path, command.get_name());
            place.command = command;
        } else {
            place.positionals += 1;
        }
    }
    place
}

/// The option that a word names.
fn find_option<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let name = word.split('=').next().unwrap_or(word);
    command.get_arguments().find(|arg| match name.strip_prefix("--") {
        Some(long) => {
            arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|all| all.contains(&long))
        }
        None => name.len() == 2 && arg.get_short() == name.chars().nth(1),
    })
}

fn options(command: &Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| arg.get_long()).map(|long| format!("--{long}")).collect()
}

/// Commands, and values of the positional argument at the cursor.
fn arguments(
    place: &CursorPlace<'_>,
    prefix: &str,
    existing: &mut dyn FnMut(&str, &str) -> Vec<String>,
) -> Vec<String> {
    let commands = place.command.get_subcommands().filter(|command| !command.is_hide_set());
    let mut found: Vec<String> = match place.positionals {
        0 => commands.map(|command| command.get_name().to_owned()).collect(),
        _ => Vec::new(),
    };
    let positionals: Vec<&Arg> = place.command.get_positionals().collect();
    let argument = positionals.get(place.positionals).or_else(|| {
        positionals.last().filter(|last| last.get_num_args().is_some_and(|count| count.max_values() > 1))
    });
    if let Some(argument) = argument {
        found.extend(values(place, argument, prefix, existing));
    }
    found
}

/// Values of an argument; of a list, those of the item at the cursor.
fn values(
    place: &CursorPlace<'_>,
    argument: &Arg,
    prefix: &str,
    existing: &mut dyn FnMut(&str, &str) -> Vec<String>,
) -> Vec<String> {
    let fixed = argument.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
    let mut found: Vec<String> = fixed.map(|value| value.get_name().to_owned()).collect();
    if found.is_empty() {
        found = existing(&place.path, argument.get_id().as_str());
    }
    match prefix.rsplit_once(',') {
        Some((before, _)) if argument.get_value_delimiter().is_some() => {
            found.into_iter().map(|value| format!("{before},{value}")).collect()
        }
        _ => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(line: &str) -> Vec<String> {
        let mut root = crate::cli::clap_command();
        root.build();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let mut existing = |path: &str, argument: &str| match (path, argument) {
            ("history", "run") => {
                ["20261118T1", "20261117T1", "2026\u{1b}[2J", "2026\t1"].map(str::to_owned).to_vec()
            }
            ("state.apply", "words") | (_, "sls") => vec!["web".to_owned(), "web.tls".to_owned()],
            _ => Vec::new(),
        };
        next_words(&root, &words, &mut existing)
    }

    #[test]
    fn commands_options_and_values_are_completed() {
        assert_eq!(complete("rollo"), ["rollout"]);
        assert_eq!(complete("show low"), ["lowstate"]);
        assert!(complete("").iter().all(|word| word != "turn" && word != "complete"), "hidden commands");
        assert_eq!(complete("run --onc"), ["--once"]);
        assert_eq!(complete("run --out j"), ["json"]);
        assert_eq!(complete("run --out=j"), ["--out=json"]);
        assert_eq!(complete("run --out = j"), ["json"], "as bash says it");
        assert_eq!(complete("-v --color al show to"), ["top"]);
        assert_eq!(complete("history 2026"), ["20261117T1", "20261118T1"], "no control characters");
        assert_eq!(complete("history 20261118"), ["20261118T1"]);
        assert_eq!(complete("state.apply web web."), ["web.tls"]);
        assert_eq!(complete("run --sls web,web.t"), ["web,web.tls"]);
        assert!(complete("run --config zag").is_empty(), "the shell completes files");
        assert!(complete("nonsense --x y ").is_empty());
    }
}
