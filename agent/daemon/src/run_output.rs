//! What a compile and a run print: implemented by the program, called by the library.

use zagent_config::Diagnostic;
use zagent_run::{RunProgress, RunReport};

/// Messages of a compile or a run.
pub trait Messages {
    /// Prints a warning.
    fn warn(&mut self, words: &str);

    /// Prints a warning of the compiler.
    fn compile_warning(&mut self, warning: &Diagnostic);
}

/// Messages, progress and report of a run.
pub trait RunOutput: Messages {
    /// Calls `run` with a receiver of its progress; afterwards no progress is left on the terminal.
    fn show_progress(&mut self, states: usize, run: &mut dyn FnMut(&dyn RunProgress));

    /// Prints the report.
    fn report(&mut self, report: &RunReport);
}
