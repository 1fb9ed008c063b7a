//! The command line in, manual pages out: one page per command, with FILES, EXIT STATUS and EXAMPLES.

use std::fmt::Write;

use zagent_config::paths::{CONFIG_DIR, CONFIG_FILE, DEFAULT_ALLOWED_SIGNERS, DEFAULT_ROOT, FRAGMENTS_DIR};
use zagent_daemon::error::ExitStatus;

use crate::exit_code;

/// The examples of all pages.
const EXAMPLES: &str = include_str!("examples.txt");

/// Files that every command may use.
fn files() -> [(String, &'static str); 4] {
    [
        (
            format!("{CONFIG_DIR}/{CONFIG_FILE}"),
            "The configuration; `zagent config show` prints the effective settings.",
        ),
        (
            format!("{CONFIG_DIR}/{FRAGMENTS_DIR}/*.yaml"),
            "More configuration files, in the order of their names; later values win.",
        ),
        (DEFAULT_ALLOWED_SIGNERS.into(), "Who may sign the states, in the format of ssh-keygen(1)."),
        (DEFAULT_ROOT.into(), "Generations, history and undo journals; the setting `root` moves it."),
    ]
}

/// What each exit status means.
const MEANINGS: [(ExitStatus, &str); 8] = [
    (ExitStatus::Success, "Success."),
    (ExitStatus::Failed, "A state failed, or a check found something."),
    (
        ExitStatus::Usage,
        "The command line or the configuration is invalid. With --detailed-exitcodes also: changes; \
         4: failures; 6: both.",
    ),
    (ExitStatus::NotCompiled, "The states do not compile."),
    (ExitStatus::Unreachable, "A remote cannot be reached."),
    (ExitStatus::Locked, "Another run is active, or something is not over yet."),
    (ExitStatus::Refused, "A revision failed verification, or a plan file no longer matches."),
    (ExitStatus::Permission, "Permission denied."),
];

/// A manual page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManualPage {
    /// Its name, such as `zagent-show-top`.
    pub(crate) name: String,
    /// Its text, in the language of man(7).
    pub(crate) text: String,
}

impl ManualPage {
    /// The name of its file.
    pub(crate) fn file_name(&self) -> String {
        format!("{}.1", self.name)
    }
}

/// The pages of a program and of all its commands.
pub(crate) fn manual_pages(program: clap::Command) -> std::io::Result<Vec<ManualPage>> {
    let mut pages = Vec::new();
    add_pages(program, "zagent", &mut pages)?;
    Ok(pages)
}

fn add_pages(mut command: clap::Command, line: &str, pages: &mut Vec<ManualPage>) -> std::io::Result<()> {
    command.build();
    for child in command.get_subcommands().filter(|child| !child.is_hide_set() && child.get_name() != "help")
    {
        add_pages(child.clone(), &format!("{line} {}", child.get_name()), pages)?;
    }
    pages.push(manual_page(command, line)?);
    Ok(())
}

/// The page of the command with this command line, such as `zagent show top`.
pub(crate) fn manual_page(command: clap::Command, line: &str) -> std::io::Result<ManualPage> {
    let name = line.replace(' ', "-");
    let command = command.version(env!("CARGO_PKG_VERSION")).display_name(name.clone());
    let mut bytes = Vec::new();
    clap_mangen::Man::new(command).render(&mut bytes)?;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    text.push_str(".SH FILES\n");
    for (path, words) in files() {
        add_entry(&path, words, &mut text);
    }
    text.push_str(".SH \"EXIT STATUS\"\n");
    for (status, words) in MEANINGS {
        add_entry(&exit_code::code(status).to_string(), words, &mut text);
    }
    text.push_str(".SH EXAMPLES\n");
    for (example, words) in examples().filter(|(example, _)| is_example_of(example, line)) {
        add_entry(example, words, &mut text);
    }
    Ok(ManualPage { name, text })
}

/// Command lines and what they do.
fn examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = EXAMPLES.lines().filter(|line| line.starts_with("zagent "));
    lines.filter_map(|line| line.split_once("  # ")).map(|(line, words)| (line.trim_end(), words))
}

fn is_example_of(example: &str, line: &str) -> bool {
    example.strip_prefix(line).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

fn add_entry(term: &str, words: &str, text: &mut String) {
    let _ = writeln!(text, ".TP\n\\fB{}\\fR\n{}", escape(term), escape(words));
}

/// Text as man(7) reads it: a backslash starts a command, and so does a dot at the start of a line.
fn escape(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_for_man() {
        assert_eq!(escape(r"a\b --x"), r"a\eb \-\-x");
        assert_eq!(escape(".x"), r"\&.x");
    }

    #[test]
    fn an_example_belongs_to_its_command_and_the_ones_above() {
        let of = |line: &str| is_example_of("zagent show top --out json", line);
        assert_eq!((of("zagent"), of("zagent show"), of("zagent show top")), (true, true, true));
        assert_eq!((of("zagent sho"), of("zagent show sls")), (false, false));
    }
}
