//! The two streams of the program, and what is known about them.

use std::io::{self, Write};

use jiff::tz::TimeZone;
use tracing::Level;

use super::progress::{NdjsonProgress, TerminalProgress};
use super::{Paint, ProgressReporter, ReportFormat};
use zagent_config::SecretMask;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Colour {
    fn is_enabled(self, terminal: bool) -> bool {
        match self {
            Self::Auto => terminal,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Where a command writes.
pub struct Ui<'w> {
    out: &'w mut (dyn Write + Send),
    err: &'w mut (dyn Write + Send),
    terminal: (bool, bool),
    interactive: bool,
    journal: bool,
    /// Why data did not reach stdout.
    write_error: Option<io::Error>,
    /// Colours of stdout.
    pub paint: Paint,
    /// Colours of stderr.
    pub err_paint: Paint,
    /// How often `-v` was given.
    pub verbose: u8,
}

impl<'w> Ui<'w> {
    /// Makes one from the two streams; `terminal` says for each whether colour may be used by default.
    pub fn new(
        out: &'w mut (dyn Write + Send),
        err: &'w mut (dyn Write + Send),
        terminal: (bool, bool),
    ) -> Self {
        let (paint, talk) = (Paint::new(terminal.0), Paint::new(terminal.1));
        Self {
            out,
            err,
            terminal,
            interactive: false,
            journal: false,
            write_error: None,
            paint,
            err_paint: talk,
            verbose: 0,
        }
    }

    /// Says whether somebody sees stderr as it is written, so that progress is worth telling.
    #[must_use]
    pub fn with_interactive(self, watched: bool) -> Self {
        Self { interactive: watched, ..self }
    }

    /// True when somebody sees stderr as it is written.
    #[must_use]
    pub const fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Says whether stderr is a journal, where a line that matters begins with its priority.
    #[must_use]
    pub fn with_journal(self, journal: bool) -> Self {
        Self { journal, ..self }
    }

    /// Who watches a run of so many states that is printed in this format.
    pub fn progress_reporter(
        &mut self,
        format: ReportFormat,
        total: usize,
        mask: &SecretMask,
        zone: TimeZone,
    ) -> ProgressReporter<'_> {
        if format == ReportFormat::Ndjson {
            return ProgressReporter::Lines(NdjsonProgress::new(self.out, mask.clone(), zone));
        }
        if self.interactive {
            ProgressReporter::Bar(TerminalProgress::new(total, mask.clone()))
        } else {
            ProgressReporter::Silent(zagent_run::NoProgress)
        }
    }

    /// Settles colours and verbosity once the flags are known.
    pub fn apply_flags(&mut self, colour: Colour, verbose: u8) {
        self.paint = Paint::new(colour.is_enabled(self.terminal.0));
        self.err_paint = Paint::new(colour.is_enabled(self.terminal.1));
        self.verbose = verbose;
    }

    /// Writes data to stdout. A reader that went away is no fault of ours.
    pub fn print(&mut self, text: &str) {
        match self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => self.write_error = Some(e),
            _ => {}
        }
    }

    /// Why data did not reach stdout, once.
    pub fn take_write_error(&mut self) -> Option<io::Error> {
        self.write_error.take()
    }

    /// Writes talk to stderr, one line.
    pub fn message(&mut self, text: &str) {
        let _ = writeln!(self.err, "{text}");
    }

    /// Writes talk that somebody should look at to stderr.
    pub fn alert(&mut self, level: Level, text: &str) {
        if !self.journal {
            return self.message(text);
        }
        let priority = crate::log::priority(level);
        text.lines().for_each(|line| self.message(&format!("<{priority}>{line}")));
    }

    /// Writes talk that only `-v` wants.
    pub fn verbose_message(&mut self, text: &str) {
        if self.verbose > 0 {
            self.message(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn towards_a_journal_every_line_that_matters_has_its_priority() {
        let told = |journal: bool| {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let mut ui = Ui::new(&mut out, &mut err, (false, false)).with_journal(journal);
            ui.alert(Level::ERROR, "error: no\n = help: yes");
            ui.alert(Level::WARN, "warning: odd");
            ui.message("by the way");
            String::from_utf8(err).unwrap()
        };
        assert_eq!(told(true), "<3>error: no\n<3> = help: yes\n<4>warning: odd\nby the way\n");
        assert_eq!(told(false), "error: no\n = help: yes\nwarning: odd\nby the way\n");
    }
}
