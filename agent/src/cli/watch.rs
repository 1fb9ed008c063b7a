//! A command that prints once in, the same again and again out, until it is interrupted.
//!
//! On a terminal the screen is drawn again. In a pipe, each line that was not there before is printed with the time.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_host::CancelToken;
use zagent_run::SignalWatcher;

use crate::output::{OutputFormat, Ui};

/// How often it looks.
const INTERVAL: Duration = Duration::from_secs(2);
/// Moves the cursor home and erases what follows.
const REDRAW: &str = "\x1b[H\x1b[J";

/// Calls `show` until the process is told to stop.
pub(super) fn watch(
    ui: &mut Ui<'_>,
    format: OutputFormat,
    mut show: impl FnMut(&mut Ui<'_>) -> Result<ExitStatus, AgentError>,
) -> Result<ExitStatus, AgentError> {
    if format != OutputFormat::Text {
        let hint = "for data, call the command without `--watch` as often as you need it";
        return Err(AgentError::usage_hint("`--watch` prints only text", hint));
    }
    let cancel = Arc::new(CancelToken::new());
    let _signals = SignalWatcher::watch(&cancel);
    let mut last = String::new();
    while !cancel.is_cancelled() {
        let text = ui.captured(&mut show)?;
        if ui.has_screen() {
            ui.print(&format!("{REDRAW}{text}"));
        } else {
            ui.print(&new_lines(&last, &text, Timestamp::now()));
        }
        if ui.is_closed() {
            break;
        }
        last = text;
        cancel.wait(INTERVAL);
    }
    Ok(ExitStatus::Success)
}

/// Lines that were not there before, each with the time.
fn new_lines(before: &str, after: &str, now: Timestamp) -> String {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let is_new = |line: &&str| !line.trim().is_empty() && !before.lines().any(|old| old == *line);
    after.lines().filter(is_new).map(|line| format!("{now} {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_lines_are_printed_and_have_a_time() {
        let now = "2026-11-16T12:00:00Z".parse().unwrap();
        assert_eq!(new_lines("", "a\n\nb\n", now), "2026-11-16T12:00:00Z a\n2026-11-16T12:00:00Z b\n");
        assert_eq!(new_lines("a\nb\n", "a\nc\n", now), "2026-11-16T12:00:00Z c\n");
        assert_eq!(new_lines("a\n", "a\n", now), "");
    }
}
