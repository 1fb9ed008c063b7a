//! The two streams of the program, and what is known about them.

use std::io::{self, Write};

use jiff::tz::TimeZone;
use tracing::Level;

use super::progress::{Bar, Lines};
use super::{Mask, Paint, ReportFormat, Silent, Watcher};

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
    fn on(self, terminal: bool) -> bool {
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
    watched: bool,
    journal: bool,
    /// Why data did not reach stdout.
    lost: Option<io::Error>,
    /// Colours of stdout.
    pub paint: Paint,
    /// Colours of stderr.
    pub talk: Paint,
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
        Self { out, err, terminal, watched: false, journal: false, lost: None, paint, talk, verbose: 0 }
    }

    /// Says whether somebody sees stderr as it is written, so that progress is worth telling.
    #[must_use]
    pub fn watched(self, watched: bool) -> Self {
        Self { watched, ..self }
    }

    /// True when somebody sees stderr as it is written.
    #[must_use]
    pub const fn is_watched(&self) -> bool {
        self.watched
    }

    /// Says whether stderr is a journal, where a line that matters begins with its priority.
    #[must_use]
    pub fn journal(self, journal: bool) -> Self {
        Self { journal, ..self }
    }

    /// Who watches a run of so many states that is printed in this format.
    pub fn watcher(
        &mut self,
        format: ReportFormat,
        total: usize,
        mask: &Mask,
        zone: TimeZone,
    ) -> Watcher<'_> {
        if format == ReportFormat::Ndjson {
            return Watcher::Lines(Lines::new(self.out, mask.clone(), zone));
        }
        if self.watched { Watcher::Bar(Bar::new(total, mask.clone())) } else { Watcher::Silent(Silent) }
    }

    /// Settles colours and verbosity once the flags are known.
    pub fn settle(&mut self, colour: Colour, verbose: u8) {
        self.paint = Paint::new(colour.on(self.terminal.0));
        self.talk = Paint::new(colour.on(self.terminal.1));
        self.verbose = verbose;
    }

    /// Writes data to stdout. A reader that went away is no fault of ours.
    pub fn data(&mut self, text: &str) {
        match self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => self.lost = Some(e),
            _ => {}
        }
    }

    /// Why data did not reach stdout, once.
    pub fn lost(&mut self) -> Option<io::Error> {
        self.lost.take()
    }

    /// Writes talk to stderr, one line.
    pub fn say(&mut self, text: &str) {
        let _ = writeln!(self.err, "{text}");
    }

    /// Writes talk that somebody should look at to stderr.
    pub fn alert(&mut self, level: Level, text: &str) {
        if !self.journal {
            return self.say(text);
        }
        let priority = crate::log::priority(level);
        text.lines().for_each(|line| self.say(&format!("<{priority}>{line}")));
    }

    /// Writes talk that only `-v` wants.
    pub fn detail(&mut self, text: &str) {
        if self.verbose > 0 {
            self.say(text);
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
            let mut ui = Ui::new(&mut out, &mut err, (false, false)).journal(journal);
            ui.alert(Level::ERROR, "error: no\n = help: yes");
            ui.alert(Level::WARN, "warning: odd");
            ui.say("by the way");
            String::from_utf8(err).unwrap()
        };
        assert_eq!(told(true), "<3>error: no\n<3> = help: yes\n<4>warning: odd\nby the way\n");
        assert_eq!(told(false), "error: no\n = help: yes\nwarning: odd\nby the way\n");
    }
}
