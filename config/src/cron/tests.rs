//! Cron expressions against calendars and clock changes.

use jiff::SignedDuration;
use proptest::prelude::*;

use super::*;

fn cron(text: &str) -> CronSchedule {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e:?}"))
}

fn berlin() -> TimeZone {
    TimeZone::get("Europe/Berlin").expect("the zone database has Berlin")
}

/// The next times, as text, from a given time.
fn next(text: &str, from: &str, zone: &TimeZone, many: usize) -> Vec<String> {
    let cron = cron(text);
    let mut at = from.parse::<Timestamp>().unwrap();
    let mut out = Vec::new();
    for _ in 0..many {
        at = cron.next_after(at, zone).unwrap();
        out.push(at.to_zoned(zone.clone()).strftime("%a %F %H:%M%:z").to_string());
    }
    out
}

#[test]
fn times_are_those_of_cron() {
    let utc = TimeZone::UTC;
    for (text, want) in [
        ("* * * * *", ["Mon 2026-11-16 12:01+00:00", "Mon 2026-11-16 12:02+00:00"]),
        ("*/15 * * * *", ["Mon 2026-11-16 12:15+00:00", "Mon 2026-11-16 12:30+00:00"]),
        ("5/20 * * * *", ["Mon 2026-11-16 12:05+00:00", "Mon 2026-11-16 12:25+00:00"]),
        ("0 3 * * *", ["Tue 2026-11-17 03:00+00:00", "Wed 2026-11-18 03:00+00:00"]),
        ("30 22 * * fri-sun", ["Fri 2026-11-20 22:30+00:00", "Sat 2026-11-21 22:30+00:00"]),
        ("0 0 * * 7", ["Sun 2026-11-22 00:00+00:00", "Sun 2026-11-29 00:00+00:00"]),
        ("0 0 * * 0", ["Sun 2026-11-22 00:00+00:00", "Sun 2026-11-29 00:00+00:00"]),
        ("0 0 13 * FRI", ["Fri 2026-11-20 00:00+00:00", "Fri 2026-11-27 00:00+00:00"]),
        ("0 0 */2 * fri", ["Fri 2026-11-27 00:00+00:00", "Fri 2026-12-11 00:00+00:00"]),
        ("0 0 31 * *", ["Thu 2026-12-31 00:00+00:00", "Sun 2027-01-31 00:00+00:00"]),
        ("0 12 1,15 jan,Jul *", ["Fri 2027-01-01 12:00+00:00", "Fri 2027-01-15 12:00+00:00"]),
        ("0 0 29 2 *", ["Tue 2028-02-29 00:00+00:00", "Sun 2032-02-29 00:00+00:00"]),
        ("@hourly", ["Mon 2026-11-16 13:00+00:00", "Mon 2026-11-16 14:00+00:00"]),
        ("@weekly", ["Sun 2026-11-22 00:00+00:00", "Sun 2026-11-29 00:00+00:00"]),
        ("@monthly", ["Tue 2026-12-01 00:00+00:00", "Fri 2027-01-01 00:00+00:00"]),
        (" @Yearly ", ["Fri 2027-01-01 00:00+00:00", "Sat 2028-01-01 00:00+00:00"]),
    ] {
        assert_eq!(next(text, "2026-11-16T12:00:30Z", &utc, 2), want, "{text}");
    }
    // A 29th of February on a Sunday: across a century without a leap day.
    let far = next("0 0 29 2 */7", "2072-12-01T00:00:00Z", &utc, 2);
    assert_eq!(far, ["Sun 2088-02-29 00:00+00:00", "Sun 2128-02-29 00:00+00:00"]);
}

#[test]
fn a_skipped_hour_runs_once_after_it() {
    // 29 March 2026: 02:00 becomes 03:00 in Berlin.
    let day_before = "2026-03-28T12:00:00Z";
    let want = ["Sun 2026-03-29 03:00+02:00", "Mon 2026-03-30 02:30+02:00"];
    assert_eq!(next("30 2 * * *", day_before, &berlin(), 2), want);
    let want = ["Sun 2026-03-29 03:00+02:00", "Mon 2026-03-30 02:00+02:00", "Mon 2026-03-30 02:20+02:00"];
    assert_eq!(next("*/20 2 * * *", day_before, &berlin(), 3), want);
    let want = ["Sun 2026-03-29 01:30+01:00", "Sun 2026-03-29 03:30+02:00"];
    assert_eq!(next("30 * * * *", "2026-03-29T00:10:00Z", &berlin(), 2), want);
}

#[test]
fn a_repeated_hour_runs_once_unless_every_hour_does() {
    // 25 October 2026: 03:00 becomes 02:00 in Berlin.
    let night = "2026-10-24T22:30:00Z";
    let want = ["Sun 2026-10-25 02:30+02:00", "Mon 2026-10-26 02:30+01:00"];
    assert_eq!(next("30 2 * * *", night, &berlin(), 2), want);
    let want = [
        "Sun 2026-10-25 01:00+02:00",
        "Sun 2026-10-25 02:00+02:00",
        "Sun 2026-10-25 02:00+01:00",
        "Sun 2026-10-25 03:00+01:00",
    ];
    assert_eq!(next("@hourly", night, &berlin(), 4), want);
}

#[test]
fn errors_name_the_field() {
    for (text, want) in [
        ("", "0: `` has 0 fields, not five"),
        ("0 3 * *", "0: `0 3 * *` has 4 fields, not five"),
        ("61 3 * * *", "0: `61` is not a valid minute (use 0 to 59)"),
        ("0  24 * * *", "3: `24` is not a valid hour (use 0 to 23)"),
        ("0 3 0 * *", "4: `0` is not a valid day of the month (use 1 to 31)"),
        ("0 3 * jam *", "6: `jam` is not a valid month (use 1 to 12, or a name such as `jan`)"),
        ("0 3 * * mon,foo", "12: `foo` is not a valid day of the week (use 0 to 7, or a name such as `sun`)"),
        ("0 5-3 * * *", "2: the hour range `5-3` ends before it starts"),
        ("*/0 * * * *", "0: `0` is not a valid step for the minute"),
        ("*/x * * * *", "0: `x` is not a valid step for the minute"),
        ("+1 * * * *", "0: `+1` is not a valid minute"),
        ("0 -3 * * *", "2: `` is not a valid hour"),
        ("0 3 30 2 *", "0: `0 3 30 2 *` never runs: none of its months has such a day"),
        ("0 3 31 feb,apr,jun,sep,nov *", "0: `0 3 31 feb,apr,jun,sep,nov *` never runs"),
        ("@reboot", "0: unknown short form `@reboot` (use one of `@hourly`"),
        ("ä ö ü ß é", "0: `ä` is not a valid minute"),
    ] {
        let error = text.parse::<CronSchedule>().unwrap_err();
        let told = format!("{}: {} ({})", error.at, error.message, error.hint);
        assert!(told.starts_with(want), "{text}: {told}");
    }
}

fn expression() -> impl Strategy<Value = String> {
    let field = |range: std::ops::RangeInclusive<u8>| {
        let (min, max) = (*range.start(), *range.end());
        prop_oneof![
            Just("*".to_owned()),
            (1_u8..30).prop_map(|n| format!("*/{n}")),
            range.clone().prop_map(|n| n.to_string()),
            (min..=max, min..=max).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
            (min..=max, min..=max).prop_map(|(a, b)| format!("{a},{b}")),
        ]
    };
    let fields = (field(0..=59), field(0..=23), field(1..=31), field(1..=12), field(0..=7));
    fields.prop_map(|(a, b, c, d, e)| format!("{a} {b} {c} {d} {e}"))
}

fn zones() -> impl Strategy<Value = TimeZone> {
    let names = [
        "UTC",
        "Europe/Berlin",
        "America/St_Johns",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "America/Sao_Paulo",
    ];
    prop::sample::select(names.to_vec())
        .prop_map(|name| TimeZone::get(name).expect("the zone database has it"))
}

proptest! {
    /// The next time is later, is on a minute, and no matching minute was skipped.
    #[test]
    fn the_next_time_is_the_first(text in expression(), zone in zones(), from in 0_i64..3_000_000_000) {
        let Ok(cron) = text.parse::<CronSchedule>() else { return Ok(()) };
        let from = Timestamp::from_second(from).unwrap();
        let found = cron.next_after(from, &zone).unwrap();
        prop_assert!(found > from);
        let at = found.to_zoned(zone.clone());
        prop_assert_eq!(at.second(), 0);
        // A minute after which nothing comes before `found`: from any time between, the result is the same.
        let between = from + (found.duration_since(from) / 2);
        prop_assert_eq!(cron.next_after(between, &zone).unwrap(), found);
        let just_before = found - SignedDuration::from_secs(1);
        prop_assert_eq!(cron.next_after(just_before.max(from), &zone).unwrap(), found);
    }

    /// Minute by minute on a plain calendar, the result is the first minute that matches all fields.
    #[test]
    fn it_agrees_with_a_walk_over_the_minutes(text in expression(), from in 1_700_000_000_i64..1_900_000_000) {
        let Ok(cron) = text.parse::<CronSchedule>() else { return Ok(()) };
        let from = Timestamp::from_second(from).unwrap();
        let found = cron.next_after(from, &TimeZone::UTC).unwrap();
        let mut minute = from.as_second().div_euclid(60) + 1;
        for _ in 0..4000 {
            let at = Timestamp::from_second(minute * 60).unwrap().to_zoned(TimeZone::UTC);
            let fits = cron.matches_date(at.date()) && cron.hours.contains(at.hour().unsigned_abs()) && cron.minutes.contains(at.minute().unsigned_abs());
            if fits {
                prop_assert_eq!(at.timestamp(), found);
                return Ok(());
            }
            minute += 1;
        }
        prop_assert!(found.as_second() > (minute - 1) * 60);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        let _ = text.parse::<CronSchedule>();
    }
}

#[test]
fn the_end_of_the_calendar_does_not_panic() {
    assert_eq!(cron("0 3 * * *").next_after(Timestamp::MAX, &berlin()), None);
    assert!(cron("0 3 * * *").next_after(Timestamp::MIN, &berlin()).is_some());
}
