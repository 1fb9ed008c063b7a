//! Times, durations and user names as text.

#![expect(clippy::disallowed_methods, reason = "`SUDO_USER` names the person behind root")]

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// `3h 20m`, `45s`, `2d 4h`: the two largest parts.
#[must_use]
pub fn span_text(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.duration_since(from).as_secs().unsigned_abs();
    let parts = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let mut rest = seconds;
    let mut words = Vec::new();
    for (unit, name) in parts {
        if rest >= unit || (unit == 1 && words.is_empty()) {
            words.push(format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    // Seconds are not useful next to hours.
    let fine = if seconds >= 3600 { 60 } else { 1 };
    words.retain(|w| fine == 1 || !w.ends_with('s'));
    words.truncate(2);
    words.join(" ")
}

/// A local time: `14:00` today, `Tue 14:00` within a week, otherwise `2026-11-30 14:00`.
#[must_use]
pub fn clock_text(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let (then, today) = (zone.to_datetime(at), zone.to_datetime(now));
    let days = at.duration_since(now).as_secs().abs() / 86_400;
    let format = match then.date() == today.date() {
        true => "%H:%M",
        false if days < 6 => "%a %H:%M",
        false => "%Y-%m-%d %H:%M",
    };
    then.strftime(format).to_string()
}

/// The current user; with `sudo`, the user who called it.
#[must_use]
pub fn current_user() -> String {
    let uid = nix::unistd::geteuid();
    let name =
        nix::unistd::User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name);
    let behind =
        std::env::var("SUDO_USER").ok().filter(|sudo| !sudo.is_empty() && *sudo != name && uid.is_root());
    behind.unwrap_or(name).chars().filter(|c| !c.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_as_people_write_them() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (seconds, want) in [
            (0, "0s"),
            (45, "45s"),
            (60, "1m"),
            (90, "1m 30s"),
            (12_000, "3h 20m"),
            (3605, "1h"),
            (187_200, "2d 4h"),
            (172_859, "2d"),
        ] {
            assert_eq!(span_text(at(0), at(seconds)), want);
            assert_eq!(span_text(at(seconds), at(0)), want);
        }
        let now = "2026-11-16T12:00:00Z".parse().unwrap();
        for (text, want) in [
            ("2026-11-16T14:00:00Z", "14:00"),
            ("2026-11-17T14:00:00Z", "Tue 14:00"),
            ("2026-11-30T14:00:00Z", "2026-11-30 14:00"),
        ] {
            assert_eq!(clock_text(text.parse().unwrap(), now, &TimeZone::UTC), want);
        }
        assert!(!current_user().is_empty());
    }
}
