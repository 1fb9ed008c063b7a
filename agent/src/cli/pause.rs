//! `zagent pause` and `zagent resume`: stop and restart automatic changes on this host.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use serde_json::json as object;
use zagent_config::settings::parse_duration;

use super::common_args::CommonArgs;
use super::settings;
use super::status::notify_daemon;
use crate::output::{OutputFormat, Ui};
use zagent_config::error_chain;
use zagent_config::json_file::JsonFileError;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::operator::current_user;
use zagent_daemon::operator::pause::Pause;
use zagent_host::timezone::local_zone;

/// Default length of a pause: an afternoon of work, over before the next morning.
const DEFAULT_PAUSE: Duration = Duration::from_secs(4 * 60 * 60);

/// Stop changing this host for a while
#[derive(Debug, clap::Args)]
pub(super) struct PauseArgs {
    /// Duration, such as `30m` or `4h`; default: 4h
    #[arg(long = "for", value_name = "TIME", value_parser = parse_for, conflicts_with_all = ["until", "forever"])]
    time: Option<Duration>,

    /// End time: `14:00`, `2026-11-30 14:00` or a time with a zone
    #[arg(long, value_name = "WHEN", conflicts_with = "forever")]
    until: Option<String>,

    /// Pause until `zagent resume`
    #[arg(long)]
    forever: bool,

    /// Reason, shown in `zagent status`
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    common: CommonArgs,
}

/// End a pause
#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    common: CommonArgs,
}

fn parse_for(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "use a duration such as `30m`, `4h` or `2d`".into())
}

impl PauseArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.common.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = settings::load(self.common.config.as_deref())?;
        let (now, zone) = (Timestamp::now(), local_zone());
        let until = match (&self.until, self.forever) {
            (Some(text), _) => Some(parse_moment(text, now, &zone)?),
            (None, true) => None,
            (None, false) => {
                let time = self.time.unwrap_or(DEFAULT_PAUSE);
                let end = now.checked_add(time);
                Some(end.map_err(|_| AgentError::usage("the duration is too long"))?)
            }
        };
        let pause =
            Pause { since: now, until, reason: clean_reason(self.reason.as_deref()), by: current_user() };
        pause.write(&settings.paths()).map_err(to_agent_error)?;
        notify_daemon(&settings.paths(), ui);
        self.common.print(&pause.summary(now, &zone), object!({"success": true, "pause": pause}), ui);
        Ok(ExitStatus::Success)
    }
}

impl ResumeArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.common.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = settings::load(self.common.config.as_deref())?;
        let paths = settings.paths();
        let now = Timestamp::now();
        // The content no longer matters, even if it is damaged.
        let read = Pause::read(&paths, now);
        let cleared = Pause::clear(&paths).map_err(to_agent_error)?;
        let words = match (&read, cleared) {
            (Ok(Some(pause)), _) => format!("resumed; it was {}", pause.summary(now, &local_zone())),
            (Ok(None), true) => "resumed; the pause had already ended".into(),
            (Err(_), true) => "resumed; the pause file was damaged".into(),
            (_, false) => "not paused".into(),
        };
        notify_daemon(&settings.paths(), ui);
        self.common.print(&words, object!({"success": true, "was": read.ok().flatten()}), ui);
        Ok(ExitStatus::Success)
    }
}

/// Reason on one line; none when empty.
pub(super) fn clean_reason(text: Option<&str>) -> Option<String> {
    let line = text?.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(line.chars().filter(|c| !c.is_control()).take(500).collect())
        .filter(|line: &String| !line.is_empty())
}

/// Turns an error about a small state file into a message with a hint.
pub(super) fn to_agent_error(error: JsonFileError) -> AgentError {
    let message = error_chain(&error);
    match error {
        e if e.is_permission() => AgentError::permission(message),
        JsonFileError::Damaged { path, .. } => AgentError::Refusal {
            exit: ExitStatus::Failed,
            message,
            hint: Some(format!("inspect the file, then remove it: rm {}", path.display())),
        },
        _ => AgentError::failed(message),
    }
}

/// Parses a time: today or tomorrow at an hour, a date and an hour, or a full timestamp.
fn parse_moment(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, AgentError> {
    let text = text.trim();
    let on_wall = |date_time: DateTime| zone.to_ambiguous_timestamp(date_time).compatible().ok();
    let hour = |text: &str| {
        let is_hour = text.contains(':') && !text.contains('-');
        let time = is_hour.then(|| text.parse::<Time>().ok())??;
        let today = zone.to_datetime(now).date();
        let at = on_wall(today.to_datetime(time))?;
        if at > now { Some(at) } else { on_wall(today.tomorrow().ok()?.to_datetime(time)) }
    };
    let at = text.parse::<Timestamp>().ok();
    let at = at.or_else(|| hour(text)).or_else(|| on_wall(text.parse::<DateTime>().ok()?));
    match at {
        Some(at) if at > now => Ok(at),
        Some(_) => Err(AgentError::usage(format!("`{text}` is in the past"))),
        None => {
            let hint = "use `14:00`, `2026-11-30 14:00` or `2026-11-30T14:00:00+01:00`";
            Err(AgentError::usage_hint(format!("`{text}` is not a valid time"), hint))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_as_people_write_them() {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let read = |text: &str| {
            parse_moment(text, now, &zone).map(|at| at.to_string()).unwrap_or_else(|t| format!("{t:?}"))
        };
        for (text, want) in [
            ("14:00", "2026-11-16T13:00:00Z"),
            ("13:00", "2026-11-17T12:00:00Z"),
            ("09:30", "2026-11-17T08:30:00Z"),
            ("2026-11-30 14:00", "2026-11-30T13:00:00Z"),
            ("2026-11-30", "2026-11-29T23:00:00Z"),
            ("2026-11-30T14:00:00Z", "2026-11-30T14:00:00Z"),
            ("2026-11-30T14:00:00+05:00", "2026-11-30T09:00:00Z"),
        ] {
            assert_eq!(read(text), want, "{text}");
        }
        assert!(read("2020-01-01 10:00").contains("is in the past"));
        for bad in ["", "soon", "25:00", "4h", "14"] {
            assert!(read(bad).contains("is not a valid time"), "{bad}: {}", read(bad));
        }
    }
}
