//! The clock: signatures and manifests have times, so a wrong clock rejects valid ones and accepts expired
//! ones.

use std::time::Duration;

use jiff::Timestamp;
use zagent_config::redirect::UrlOrigin;
use zagent_config::settings::{Settings, format_duration};

use super::{CHECK_TIMEOUT, DoctorFinding, DoctorScope, program_output};

/// Earliest plausible time: this program did not exist before.
const EARLIEST_TIME: i64 = 1_767_225_600; // 2026-01-01T00:00:00Z
/// Maximum clock skew to a remote.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(5 * 60);
const TIME_SERVICE_HINT: &str = "start a time service, such as systemd-timesyncd or chrony";

pub(super) fn check_clock(settings: &Settings, scope: &DoctorScope) -> Vec<DoctorFinding> {
    if scope.now.as_second() < EARLIEST_TIME {
        let message = format!(
            "{} is not a plausible time: the clock was never set",
            scope.now.strftime("%Y-%m-%d %H:%M UTC")
        );
        return vec![DoctorFinding::fail("clock", message, TIME_SERVICE_HINT)];
    }
    let mut findings = vec![check_synchronised(scope)];
    if !scope.offline {
        findings.extend(
            settings.source.remotes.iter().find_map(|remote| check_remote_clock(&remote.url, scope.now)),
        );
    }
    findings
}

fn check_synchronised(scope: &DoctorScope) -> DoctorFinding {
    let shown = scope.now.strftime("%Y-%m-%d %H:%M UTC").to_string();
    if scope.system.join("run/systemd/timesync/synchronized").exists() {
        return DoctorFinding::ok("clock", format!("{shown}, synchronised"));
    }
    // timedatectl asks the kernel, so it also covers other time services.
    match program_output("timedatectl", &["show", "--property=NTPSynchronized", "--value"]).as_deref() {
        Some("yes") => DoctorFinding::ok("clock", format!("{shown}, synchronised")),
        Some("no") => DoctorFinding::warn("clock", format!("{shown}, not synchronised"), TIME_SERVICE_HINT),
        _ => DoctorFinding::ok("clock", format!("{shown}; whether it is synchronised is unknown")),
    }
}

/// Compares the clock of an HTTP remote with ours; `None` when the remote sends no date.
fn check_remote_clock(url: &str, now: Timestamp) -> Option<DoctorFinding> {
    UrlOrigin::parse(url).filter(|origin| matches!(origin.scheme.as_str(), "http" | "https"))?;
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(CHECK_TIMEOUT))
        .max_redirects(0)
        .http_status_as_error(false)
        .build();
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    // No credentials are needed to get the date.
    let host = authority.rsplit('@').next()?;
    let answer = ureq::Agent::new_with_config(config).head(format!("{scheme}://{host}/")).call().ok()?;
    let date = answer.headers().get("date")?.to_str().ok()?;
    compare_clocks(date, now, host)
}

fn compare_clocks(date: &str, now: Timestamp, host: &str) -> Option<DoctorFinding> {
    let theirs = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
    let apart = theirs.as_second().abs_diff(now.as_second());
    let words = format_duration(Duration::from_secs(apart));
    (apart > MAX_CLOCK_SKEW.as_secs()).then(|| {
        let message = format!("the clocks of this host and {host} differ by {words}");
        DoctorFinding::fail("clock", message, TIME_SERVICE_HINT)
    })
}

#[cfg(test)]
mod tests {
    use super::super::DoctorStatus;
    use super::*;

    #[test]
    fn clock_skew_is_a_failure() {
        let now: Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
        assert_eq!(compare_clocks("Mon, 16 Nov 2026 10:04:00 GMT", now, "g"), None);
        let found = compare_clocks("Mon, 16 Nov 2026 09:00:00 GMT", now, "g").unwrap();
        assert_eq!(
            (found.verdict, &*found.message),
            (DoctorStatus::Fail, "the clocks of this host and g differ by 1h")
        );
        assert_eq!(compare_clocks("noon", now, "g"), None);
    }
}
