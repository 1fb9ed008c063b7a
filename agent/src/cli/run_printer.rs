//! Messages, progress and report of a run in, text on the terminal out.

use zagent_config::Diagnostic;
use zagent_host::timezone::local_zone;
use zagent_run::{RunProgress, RunReport};

use crate::draw::diagnostic::{Severity, render_diagnostic};
use crate::output::report::ReportView;
use crate::output::{ReportFormat, Ui};
use zagent_daemon::run_output::{Messages, RunOutput};

/// Prints a run in a format.
pub(crate) struct RunPrinter<'a, 'u> {
    /// Where to print.
    pub(crate) ui: &'a mut Ui<'u>,
    /// Format of the report.
    pub(crate) format: ReportFormat,
}

impl Messages for Ui<'_> {
    fn warn(&mut self, words: &str) {
        let paint = self.err_paint;
        let text = format!("{}: {}", paint.yellow("warning"), zagent_config::sanitize(words));
        self.alert(tracing::Level::WARN, &text);
    }

    fn compile_warning(&mut self, warning: &Diagnostic) {
        let paint = self.err_paint;
        self.message(&render_diagnostic(warning, Severity::Warning, paint));
    }
}

impl Messages for RunPrinter<'_, '_> {
    fn warn(&mut self, words: &str) {
        self.ui.warn(words);
    }

    fn compile_warning(&mut self, warning: &Diagnostic) {
        self.ui.compile_warning(warning);
    }

    fn set_waiting(&mut self, what: Option<&str>) {
        self.ui.set_waiting(what);
    }
}

impl RunOutput for RunPrinter<'_, '_> {
    fn show_progress(&mut self, states: usize, run: &mut dyn FnMut(&dyn RunProgress)) {
        // Dropped here: the progress line is gone before anything else is printed.
        let reporter = self.ui.progress_reporter(self.format, states, local_zone());
        run(reporter.progress());
    }

    fn report(&mut self, report: &RunReport) {
        let view = ReportView::new(report, local_zone());
        let text = match self.format {
            ReportFormat::Ndjson => view.summary_line(),
            format => view.render(format, self.ui.verbose > 0, self.ui.paint),
        };
        self.ui.print(&text);
    }
}
