//! `zagent completions SHELL`: a script that asks the program (`complete/`) for the words that may come next.

use crate::output::Ui;
use zagent_daemon::error::ExitStatus;

/// A shell that completes words.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Shell {
    /// GNU bash
    Bash,
    /// fish
    Fish,
    /// Z shell
    Zsh,
}

/// Print a shell completion script
#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionsArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> ExitStatus {
        ui.print(script(self.shell));
        ExitStatus::Success
    }
}

/// The completion script of a shell. Where the program names nothing, the shell completes files.
pub(super) const fn script(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => {
            r#"# bash completion for zagent
_zagent() {
    local words
    mapfile -t words < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    COMPREPLY=()
    if ((${#words[@]})); then mapfile -t COMPREPLY < <(printf '%q\n' "${words[@]}"); fi
}
complete -o default -F _zagent zagent
"#
        }
        Shell::Fish => {
            r"# fish completion for zagent
function __zagent_ask
    set -l typed (commandline -opc)
    set -g __zagent_words ($typed[1] complete -- $typed[2..-1] (commandline -ct) 2>/dev/null)
    set -q __zagent_words[1]
end
complete -c zagent -f -n __zagent_ask -a '$__zagent_words'
"
        }
        Shell::Zsh => {
            r#"#compdef zagent
_zagent() {
    local -a found
    found=("${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=("${(@)found:#}")
    if (( ${#found} )); then compadd -- "${found[@]}"; else _files; fi
}
if [[ ${funcstack[1]} == _zagent ]]; then _zagent "$@"; else compdef _zagent zagent; fi
"#
        }
    }
}
