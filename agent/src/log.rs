//! Log of the program: to stderr, never results, never secrets.
//!
//! For a journal, each line starts with its systemd priority, without colours and time: the journal has its
//! own.

#![expect(
    clippy::disallowed_methods,
    reason = "the service manager tells in the environment where the log goes"
)]

use std::fmt;
use std::io::{self, IsTerminal, Write};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use zagent_config::mask::mask_message;

/// Sends warnings to stderr; with `-v` also actions, with `-vv` every command. The daemon logs its actions by
/// default.
pub fn init() {
    hide_in_panics();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let level = match verbosity(args.iter().map(String::as_str)) + usize::from(is_daemon(&args)) {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let log = tracing_subscriber::fmt::layer().with_writer(|| MaskedStderr);
    let shown = tracing_subscriber::registry().with(shown_at(level));
    // Another subscriber may already be installed; it is kept.
    let _ = if is_journal() {
        shown.with(log.with_ansi(false).event_format(JournalFormat)).try_init()
    } else {
        let log = log.with_ansi(std::io::stderr().is_terminal()).with_target(false);
        if is_daemon(&args) { shown.with(log).try_init() } else { shown.with(log.without_time()).try_init() }
    };
}

/// Everything up to a level, and always the output that `logoutput` asks for.
fn shown_at(level: LevelFilter) -> Targets {
    Targets::new()
        .with_default(level)
        .with_target(zagent_states::exec::LOGGED_OUTPUT, level.max(LevelFilter::INFO))
}

/// Stderr, without the secrets that this process has read. The subscriber writes a line at a time.
struct MaskedStderr;

impl Write for MaskedStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        io::stderr().write_all(mask_message(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// A panic says where and why, without secrets: its words may quote what a state was working on.
fn hide_in_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("unnamed").to_owned();
        let trace = std::backtrace::Backtrace::capture();
        let trace = match trace.status() {
            std::backtrace::BacktraceStatus::Captured => format!("{trace}\n"),
            _ => String::new(),
        };
        let _ =
            io::stderr().write_all(mask_message(&format!("thread `{name}`: {panic}\n{trace}")).as_bytes());
    }));
}

/// True when stderr is the journal stream of systemd. The variable alone is not enough: every child of a
/// service inherits it, even with another stderr.
pub(crate) fn is_journal() -> bool {
    let Some(told) = std::env::var("JOURNAL_STREAM").ok() else { return false };
    rustix::fs::fstat(std::io::stderr())
        .is_ok_and(|found| told == format!("{}:{}", found.st_dev, found.st_ino))
}

/// Format of journal lines.
struct JournalFormat;

impl<S, N> FormatEvent<S, N> for JournalFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(out, "<{}>", priority(*event.metadata().level()))?;
        context.format_fields(out.by_ref(), event)?;
        writeln!(out)
    }
}

/// Syslog priority.
pub(crate) const fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// True for `run` without `--once`, and for `watchdog` without a subcommand.
fn is_daemon(args: &[String]) -> bool {
    let mut words = args.iter().filter(|arg| !arg.starts_with('-'));
    let stays = match words.next().map(String::as_str) {
        Some("run") => true,
        Some("watchdog") => !args.iter().any(|arg| matches!(arg.as_str(), "status" | "--probe")),
        _ => false,
    };
    stays && !args.iter().any(|arg| matches!(arg.as_str(), "--once" | "--revert" | "--help" | "-h"))
}

/// Number of `-v` flags.
fn verbosity<'a>(args: impl Iterator<Item = &'a str>) -> usize {
    args.take_while(|arg| *arg != "--")
        .map(|arg| match arg.strip_prefix('-') {
            Some("-verbose") => 1,
            Some(short) if !short.is_empty() && short.bytes().all(|b| b == b'v') => short.len(),
            _ => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_verbose_flag_counts() {
        let table =
            [("run --once", 0), ("-v run", 1), ("run -vv", 2), ("--verbose run -v", 2), ("run -- -v", 0)];
        for (line, expected) in table {
            assert_eq!(verbosity(line.split_whitespace()), expected, "{line}");
        }
    }

    #[test]
    fn only_the_daemon_logs_by_default() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (line, expected) in [
            ("run", true),
            ("-v run --config x", true),
            ("run --once", false),
            ("watchdog --config x", true),
            ("watchdog --probe", false),
            ("watchdog status", false),
            ("status", false),
            ("", false),
        ] {
            assert_eq!(is_daemon(&words(line)), expected, "{line}");
        }
    }
}
