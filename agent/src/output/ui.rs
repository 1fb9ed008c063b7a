//! The two output streams of the program, and their properties.

use std::io::{self, Write};

use jiff::tz::TimeZone;
use tracing::Level;

use super::locale::to_ascii;
use super::progress::{NdjsonProgress, TerminalProgress, WaitLine};
use super::{Paint, ProgressReporter, ReportFormat};
use zagent_config::mask::mask_message;

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

/// Output streams of a command.
pub struct Ui<'w> {
    out: &'w mut (dyn Write + Send),
    err: &'w mut (dyn Write + Send),
    terminal: (bool, bool),
    interactive: bool,
    journal: bool,
    screen: bool,
    width: Option<usize>,
    ascii: bool,
    /// What takes long at this moment.
    wait: Option<WaitLine>,
    /// What is printed meanwhile, when somebody wants it.
    capture: Option<String>,
    /// True when nobody reads stdout any more.
    closed: bool,
    /// Why data did not reach stdout.
    write_error: Option<io::Error>,
    /// Colours of stdout.
    pub paint: Paint,
    /// Colours of stderr.
    pub err_paint: Paint,
    /// Number of `-v` flags.
    pub verbose: u8,
}

impl<'w> Ui<'w> {
    /// Creates it from the two streams; `terminal` says for each whether colour is on by default.
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
            screen: false,
            width: None,
            ascii: false,
            wait: None,
            capture: None,
            closed: false,
            write_error: None,
            paint,
            err_paint: talk,
            verbose: 0,
        }
    }

    /// Sets whether a person sees stderr live, so that progress is useful.
    #[must_use]
    pub fn with_interactive(self, watched: bool) -> Self {
        Self { interactive: watched, ..self }
    }

    /// True when a person sees stderr live.
    #[must_use]
    pub const fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Sets whether stderr is a journal, where important lines start with their priority.
    #[must_use]
    pub fn with_journal(self, journal: bool) -> Self {
        Self { journal, ..self }
    }

    /// Sets whether stdout is a terminal that can be drawn again, and the number of its columns.
    #[must_use]
    pub fn with_screen(self, screen: bool, width: Option<usize>) -> Self {
        Self { screen, width, ..self }
    }

    /// Sets whether the locale has only ASCII characters.
    #[must_use]
    pub fn with_ascii(self, ascii: bool) -> Self {
        Self { ascii, ..self }
    }

    /// True when progress is printed as lines that need a time: not on a terminal, and not in a journal, which has its own.
    #[must_use]
    pub const fn needs_times(&self) -> bool {
        !self.interactive && !self.journal
    }

    /// True when stdout is a terminal that can be drawn again.
    #[must_use]
    pub const fn has_screen(&self) -> bool {
        self.screen
    }

    /// True when nobody reads stdout any more.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// What a command would write to stdout.
    ///
    /// # Errors
    /// Fails when the command fails.
    pub fn captured<T, E>(
        &mut self,
        command: &mut impl FnMut(&mut Self) -> Result<T, E>,
    ) -> Result<String, E> {
        self.capture = Some(String::new());
        let result = command(self);
        let text = self.capture.take().unwrap_or_default();
        result.map(|_| text)
    }

    /// Progress reporter for a run with this number of states and this format.
    pub fn progress_reporter(
        &mut self,
        format: ReportFormat,
        total: usize,
        zone: TimeZone,
    ) -> ProgressReporter<'_> {
        self.wait = None;
        if format == ReportFormat::Ndjson {
            return ProgressReporter::Lines(NdjsonProgress::new(self.out, zone));
        }
        if self.interactive {
            ProgressReporter::Bar(TerminalProgress::new(total))
        } else {
            ProgressReporter::Silent(zagent_run::NoProgress)
        }
    }

    /// Shows on a terminal what takes long, until something else is printed or `None` ends it.
    pub fn set_waiting(&mut self, what: Option<&str>) {
        self.wait = what.filter(|_| self.interactive).map(WaitLine::new);
    }

    /// Applies colour and verbosity flags.
    pub fn apply_flags(&mut self, colour: Colour, verbose: u8) {
        let paint = |on| Paint::new(on).with_width(self.width).with_ascii(self.ascii);
        (self.paint, self.err_paint) =
            (paint(colour.is_enabled(self.terminal.0)), paint(colour.is_enabled(self.terminal.1)));
        self.verbose = verbose;
    }

    /// Writes results to stdout. A closed pipe is not an error.
    pub fn print(&mut self, text: &str) {
        self.wait = None;
        if let Some(captured) = &mut self.capture {
            return captured.push_str(text);
        }
        // A pipe gets data as it is.
        let plain = (self.ascii && self.screen).then(|| to_ascii(text));
        let text = plain.as_deref().unwrap_or(text);
        match self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => self.closed = true,
            Err(e) => self.write_error = Some(e),
            Ok(()) => {}
        }
    }

    /// Why data did not reach stdout; returned once.
    pub fn take_write_error(&mut self) -> Option<io::Error> {
        self.write_error.take()
    }

    /// Writes one message line to stderr, without the secrets that this process has read.
    pub fn message(&mut self, text: &str) {
        self.wait = None;
        let text = mask_message(text);
        let _ =
            if self.ascii { writeln!(self.err, "{}", to_ascii(&text)) } else { writeln!(self.err, "{text}") };
    }

    /// Writes a warning or an error to stderr.
    pub fn alert(&mut self, level: Level, text: &str) {
        if !self.journal {
            return self.message(text);
        }
        let priority = crate::log::priority(level);
        text.lines().for_each(|line| self.message(&format!("<{priority}>{line}")));
    }

    /// Writes a message that is shown only with `-v`.
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
    fn important_lines_have_a_priority_in_the_journal() {
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
