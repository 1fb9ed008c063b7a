//! Flags of every run in, run options out.

use std::num::NonZeroUsize;
use std::time::Duration;

use zagent_config::settings::{RunSchedule, parse_duration};

use crate::output::ReportFormat;
use zagent_run::RunOptions;

/// Options of a run.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Run")]
pub(super) struct RunOptionArgs {
    /// Change nothing, show what would change (same as `--noop`, `test=True`)
    #[arg(long, visible_alias = "noop", aliases = ["dry-run", "check"], short_alias = 'n')]
    pub(super) test: bool,

    /// Order in which states run; default: as configured, `ordered` with `--compat salt`
    #[arg(long, value_enum, value_name = "SCHEDULE")]
    schedule: Option<ScheduleArg>,

    /// Maximum duration of the run, such as `90s` or `10m`
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    timeout: Option<Duration>,

    /// Number of states that run in parallel; default: twice the number of cores, at least 8
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    /// Compile again, even when no input of the cached plan has changed
    #[arg(long)]
    pub(super) fresh: bool,
}

/// Order in which states run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ScheduleArg {
    /// Level by level, all states of a level in parallel
    Levels,
    /// Each state as soon as its requisites are done
    Eager,
    /// One by one, in Salt's order
    Ordered,
    /// In the written order where effects overlap, in parallel elsewhere
    Declared,
}

impl From<ScheduleArg> for RunSchedule {
    fn from(schedule: ScheduleArg) -> Self {
        match schedule {
            ScheduleArg::Levels => Self::Levels,
            ScheduleArg::Eager => Self::Eager,
            ScheduleArg::Ordered => Self::Ordered,
            ScheduleArg::Declared => Self::Declared,
        }
    }
}

/// How a run is reported.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct ReportArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(super) out: ReportFormat,

    /// Exit with 0 for no change, 2 for changes, 4 for failures, 6 for both
    #[arg(long)]
    pub(super) detailed_exitcodes: bool,
}

impl RunOptionArgs {
    pub(super) const fn has_schedule(&self) -> bool {
        self.schedule.is_some()
    }

    pub(super) const fn has_jobs(&self) -> bool {
        self.jobs.is_some()
    }

    pub(super) fn to_order(&self) -> RunOptions {
        RunOptions {
            test: self.test,
            schedule: self.schedule.map(RunSchedule::from),
            timeout: self.timeout,
            jobs: self.jobs.map(NonZeroUsize::get),
            ..RunOptions::default()
        }
    }
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    // Salt's own `timeout` is a number of seconds.
    let seconds = text.parse::<u64>().ok().map(Duration::from_secs);
    match parse_duration(text).or(seconds) {
        Some(time) if !time.is_zero() => Ok(time),
        _ => Err("use a duration such as 90s, 10m or 1h30m".into()),
    }
}
