//! What a compile and a run print: implemented by the program, called by the library.

use zagent_config::Diagnostic;
use zagent_run::{RunProgress, RunReport};

/// Messages of a compile or a run.
pub trait Messages {
    /// Prints a warning.
    fn warn(&mut self, words: &str);

    /// Prints a warning of the compiler.
    fn compile_warning(&mut self, warning: &Diagnostic);

    /// Shows what takes long, where a person watches, until something is printed or `None` ends it.
    fn set_waiting(&mut self, _what: Option<&str>) {}
}

/// Messages, progress and report of a run.
pub trait RunOutput: Messages {
    /// Calls `run` with a receiver of its progress; afterwards no progress is left on the terminal.
    fn show_progress(&mut self, states: usize, run: &mut dyn FnMut(&dyn RunProgress));

    /// Prints the report.
    fn report(&mut self, report: &RunReport);
}
