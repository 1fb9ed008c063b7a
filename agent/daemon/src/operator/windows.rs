//! Maintenance windows and a time in, whether changes are allowed out, and until or from when.
//!
//! Law: without windows, changes are always allowed. A window belongs to the day on which it starts, in its own
//! time zone; hours skipped by a clock change do not exist, repeated hours exist twice. Adjacent windows are merged
//! (held by `a_window_belongs_to_the_day_it_starts_on`, `changes_of_clocks_neither_lose_nor_invent_time`).

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, TimeZone};
use zagent_config::cron::end_of_gap;
use zagent_config::settings::{Day, MaintenanceWindow};

/// How far ahead windows are computed: two weeks and the day before, because a weekly window may fall into
/// skipped hours.
const LOOKAHEAD_DAYS: i32 = 16;

/// Whether changes are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowState {
    /// Allowed.
    Open {
        /// Until when; no end when none.
        until: Option<Timestamp>,
    },
    /// Not allowed.
    Closed {
        /// From when they are allowed; never when none.
        opens: Option<Timestamp>,
    },
}

impl WindowState {
    /// True when changes are allowed.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Open { .. })
    }
}

/// Whether a window is open; `local` is the zone of windows without a zone.
#[must_use]
pub(crate) fn window_state(windows: &[MaintenanceWindow], now: Timestamp, local: &TimeZone) -> WindowState {
    if windows.is_empty() {
        return WindowState::Open { until: None };
    }
    let mut times: Vec<(Timestamp, Timestamp)> = windows
        .iter()
        .flat_map(|window| window_spans(window, now, local))
        .filter(|(start, end)| start < end)
        .collect();
    times.sort_unstable();
    let mut merged: Vec<(Timestamp, Timestamp)> = Vec::new();
    for (start, end) in times {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    match merged.into_iter().find(|(_, end)| now < *end) {
        // A window longer than a week has no end: the next week is like this one.
        Some((start, end)) if start <= now => {
            let week = jiff::SignedDuration::from_hours(8 * 24);
            WindowState::Open { until: (end.duration_since(now) < week).then_some(end) }
        }
        next => WindowState::Closed { opens: next.map(|(start, _)| start) },
    }
}

/// When a window is open, from the day before yesterday on.
fn window_spans(window: &MaintenanceWindow, now: Timestamp, local: &TimeZone) -> Vec<(Timestamp, Timestamp)> {
    let named = (window.timezone != "local").then(|| TimeZone::get(&window.timezone));
    let zone = match named {
        None => local.clone(),
        Some(Ok(zone)) => zone,
        // The zone was valid when the settings were read. A window without a valid zone does not open.
        Some(Err(_)) => return Vec::new(),
    };
    let today = zone.to_datetime(now).date();
    let days = (-2..=LOOKAHEAD_DAYS).filter_map(|n| today.checked_add(jiff::Span::new().days(n)).ok());
    let days = days.filter(|date| window.days.is_empty() || window.days.contains(&weekday(*date)));
    days.filter_map(|date| {
        let start = local_time(date, window.from, &zone, WindowEdge::Start)?;
        let end_date = if window.to <= window.from { date.tomorrow().ok()? } else { date };
        Some((start, local_time(end_date, window.to, &zone, WindowEdge::End)?))
    })
    .collect()
}

fn weekday(date: Date) -> Day {
    const WEEK: [Day; 7] =
        [Day::Monday, Day::Tuesday, Day::Wednesday, Day::Thursday, Day::Friday, Day::Saturday, Day::Sunday];
    let index = date.weekday().to_monday_zero_offset().unsigned_abs();
    WEEK[usize::from(index) % WEEK.len()]
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WindowEdge {
    Start,
    End,
}

/// A local time, in minutes since midnight; 1440 is the next midnight.
fn local_time(date: Date, minutes: u16, zone: &TimeZone, edge: WindowEdge) -> Option<Timestamp> {
    let (date, minutes) =
        if minutes >= 1440 { (date.tomorrow().ok()?, minutes - 1440) } else { (date, minutes) };
    let (hour, minute) = (i8::try_from(minutes / 60).ok()?, i8::try_from(minutes % 60).ok()?);
    let time = zone.to_ambiguous_timestamp(date.at(hour, minute, 0, 0));
    match time.offset() {
        AmbiguousOffset::Gap { .. } => end_of_gap(time.compatible().ok()?, zone),
        _ if edge == WindowEdge::Start => time.earlier().ok(),
        _ => time.later().ok(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn window(days: &[Day], from: u16, to: u16, zone: &str) -> MaintenanceWindow {
        MaintenanceWindow { days: days.to_vec(), from, to, timezone: zone.into() }
    }

    fn told(windows: &[MaintenanceWindow], now: &str) -> String {
        match window_state(windows, now.parse().unwrap(), &TimeZone::UTC) {
            WindowState::Open { until: Some(until) } => format!("open until {until}"),
            WindowState::Open { until: None } => "open".into(),
            WindowState::Closed { opens: Some(opens) } => format!("closed until {opens}"),
            WindowState::Closed { opens: None } => "closed".into(),
        }
    }

    #[test]
    fn a_window_belongs_to_the_day_it_starts_on() {
        let weekend = [window(&[Day::Saturday], 22 * 60, 4 * 60, "local")];
        for (now, want) in [
            ("2026-11-16T12:00:00Z", "closed until 2026-11-21T22:00:00Z"),
            ("2026-11-21T03:00:00Z", "closed until 2026-11-21T22:00:00Z"),
            ("2026-11-21T21:59:59Z", "closed until 2026-11-21T22:00:00Z"),
            ("2026-11-21T22:00:00Z", "open until 2026-11-22T04:00:00Z"),
            ("2026-11-22T03:59:59Z", "open until 2026-11-22T04:00:00Z"),
            ("2026-11-22T04:00:00Z", "closed until 2026-11-28T22:00:00Z"),
        ] {
            assert_eq!(told(&weekend, now), want, "{now}");
        }
        assert_eq!(told(&[], "2026-11-16T12:00:00Z"), "open");
        assert_eq!(told(&[window(&[], 0, 1440, "local")], "2026-11-16T12:00:00Z"), "open");
        assert_eq!(told(&[window(&[], 60, 120, "Nowhere/At_All")], "2026-11-16T12:00:00Z"), "closed");
        let touching = [window(&[Day::Monday], 22 * 60, 1440, "UTC"), window(&[Day::Tuesday], 0, 60, "UTC")];
        assert_eq!(told(&touching, "2026-11-16T23:00:00Z"), "open until 2026-11-17T01:00:00Z");
        let berlin = [window(&[], 8 * 60, 9 * 60, "Europe/Berlin")];
        assert_eq!(told(&berlin, "2026-11-16T07:30:00Z"), "open until 2026-11-16T08:00:00Z");
    }

    #[test]
    fn changes_of_clocks_neither_lose_nor_invent_time() {
        let berlin = |from, to| [window(&[], from, to, "Europe/Berlin")];
        // 29 March 2026, 02:00 becomes 03:00: the window of that night is an hour shorter, or does not exist.
        assert_eq!(told(&berlin(60, 180), "2026-03-29T00:30:00Z"), "open until 2026-03-29T01:00:00Z");
        assert_eq!(told(&berlin(150, 210), "2026-03-29T00:59:00Z"), "closed until 2026-03-29T01:00:00Z");
        assert_eq!(told(&berlin(135, 165), "2026-03-29T00:59:00Z"), "closed until 2026-03-30T00:15:00Z");
        // 25 October 2026, 03:00 becomes 02:00: the repeated hour is open both times.
        assert_eq!(told(&berlin(120, 170), "2026-10-25T00:30:00Z"), "open until 2026-10-25T01:50:00Z");
    }

    fn windows() -> impl Strategy<Value = Vec<MaintenanceWindow>> {
        let days = prop::collection::vec(0_usize..7, 0..3);
        let zone = prop::sample::select(vec![
            "UTC",
            "local",
            "Europe/Berlin",
            "Australia/Lord_Howe",
            "America/St_Johns",
        ]);
        let one = (days, 0_u16..=1440, 0_u16..=1440, zone).prop_filter_map(
            "ends when it starts",
            |(days, from, to, zone)| {
                const WEEK: [Day; 7] = [
                    Day::Monday,
                    Day::Tuesday,
                    Day::Wednesday,
                    Day::Thursday,
                    Day::Friday,
                    Day::Saturday,
                    Day::Sunday,
                ];
                let days: Vec<Day> = days.into_iter().map(|d| WEEK[d]).collect();
                (from != to).then(|| window(&days, from, to, zone))
            },
        );
        prop::collection::vec(one, 1..4)
    }

    proptest! {
        #[test]
        fn what_is_said_holds(windows in windows(), second in 1_500_000_000_i64..2_200_000_000) {
            let zone = TimeZone::get("Pacific/Auckland").unwrap();
            let now = Timestamp::from_second(second).unwrap();
            let at = |time: Timestamp| window_state(&windows, time, &zone);
            let tick = jiff::SignedDuration::from_secs(1);
            match at(now) {
                WindowState::Open { until: Some(until) } => {
                    prop_assert!(until > now);
                    prop_assert!(at(until - tick).is_open());
                    prop_assert!(!at(until).is_open());
                    let half = now + until.duration_since(now) / 2;
                    prop_assert_eq!(at(half), WindowState::Open { until: Some(until) });
                }
                WindowState::Open { until: None } => {
                    let week = jiff::SignedDuration::from_hours(7 * 24);
                    prop_assert!(at(now + week).is_open());
                }
                WindowState::Closed { opens } => {
                    let opens = opens.expect("a window comes every week");
                    prop_assert!(opens > now);
                    prop_assert!(at(opens).is_open());
                    prop_assert!(!at(opens - tick).is_open());
                    let half = now + opens.duration_since(now) / 2;
                    prop_assert_eq!(at(half), WindowState::Closed { opens: Some(opens) });
                }
            }
        }
    }

    #[test]
    fn the_ends_of_the_calendar_do_not_panic() {
        for time in [Timestamp::MIN, Timestamp::MAX] {
            let _ = window_state(&[window(&[], 1439, 1, "Europe/Berlin")], time, &TimeZone::UTC);
        }
    }
}
