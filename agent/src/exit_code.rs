//! Result of a command in, exit code of the process out: every rule about exit codes stands here.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | a state failed, or a check found something |
//! | 2 | the command line or the configuration is invalid; with `--detailed-exitcodes` also: changes |
//! | 4, 6 | with `--detailed-exitcodes`: failures; changes and failures |
//! | 65 | the states do not compile |
//! | 69 | a remote cannot be reached |
//! | 75 | another run is active, or something is not over yet |
//! | 76 | a revision failed verification, or a plan file no longer matches |
//! | 77 | permission denied |

use zagent_daemon::error::ExitStatus;
use zagent_daemon::{HoldReason, TurnOutcome};
use zagent_run::{RunReport, StateStatus};

/// The exit code of a status.
#[must_use]
pub const fn code(status: ExitStatus) -> u8 {
    match status {
        ExitStatus::Success => 0,
        ExitStatus::Failed => 1,
        // Puppet users expect the same number for both.
        ExitStatus::Usage | ExitStatus::Changes => 2,
        ExitStatus::Failures => 4,
        ExitStatus::ChangesAndFailures => 6,
        ExitStatus::NotCompiled => 65,
        ExitStatus::Unreachable => 69,
        ExitStatus::Locked => 75,
        ExitStatus::Refused => 76,
        ExitStatus::Permission => 77,
    }
}

/// The status of an exit code, as another process returned it.
#[must_use]
pub fn status_of(code: u8) -> ExitStatus {
    let codes = [
        ExitStatus::Success,
        ExitStatus::Usage,
        ExitStatus::Failures,
        ExitStatus::ChangesAndFailures,
        ExitStatus::NotCompiled,
        ExitStatus::Unreachable,
        ExitStatus::Locked,
        ExitStatus::Refused,
        ExitStatus::Permission,
    ];
    codes.into_iter().find(|status| self::code(*status) == code).unwrap_or(ExitStatus::Failed)
}

/// Exit status after a run.
#[must_use]
pub fn run_exit(report: &RunReport, detailed: bool) -> ExitStatus {
    let changed = report.count(StateStatus::Changed) + report.count(StateStatus::WouldChange) > 0;
    match (detailed, changed, report.is_success()) {
        (true, true, true) => ExitStatus::Changes,
        (true, false, false) => ExitStatus::Failures,
        (true, true, false) => ExitStatus::ChangesAndFailures,
        (_, _, true) => ExitStatus::Success,
        (false, _, false) => ExitStatus::Failed,
    }
}

/// Exit status after a turn; that of the run, unless something else is worse.
#[must_use]
pub fn turn_exit(turn: &TurnOutcome, detailed: bool) -> ExitStatus {
    match turn.held.as_ref().map(|held| held.why) {
        Some(HoldReason::Refused) => ExitStatus::Refused,
        Some(HoldReason::Broken) => ExitStatus::NotCompiled,
        _ if turn.rolled_back => ExitStatus::Failed,
        _ => turn.report.as_ref().map_or(ExitStatus::Success, |report| run_exit(report, detailed)),
    }
}
