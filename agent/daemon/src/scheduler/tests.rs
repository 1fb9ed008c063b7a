//! Simulated days, with clocks that jump and agents that die.

use proptest::prelude::*;
use zagent_config::settings::{ConfigFragment, MergedConfig};

use super::*;

const POLL: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_secs(30 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn settings(more: &str) -> Settings {
    let text = format!("source: {{remotes: [{{url: 'https://git.example.org/states.git'}}]}}\n{more}");
    let fragment = ConfigFragment::read("zagent.yaml", &text).unwrap();
    MergedConfig::new(vec![fragment], [], &[]).into_settings(Some("web-01")).unwrap()
}

fn start() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

fn clock(more: &str, seed: u64) -> Scheduler {
    Scheduler::new(&settings(more), seed, TimeZone::UTC, SchedulerState::default(), start())
}

fn reborn(more: &str, before: &Scheduler, now: Timestamp) -> Scheduler {
    let text = serde_json::to_string(&before.state_to_save()).unwrap();
    Scheduler::new(&settings(more), 7, TimeZone::UTC, serde_json::from_str(&text).unwrap(), now)
}

/// Lets the clock run and does everything that is due, at once and successfully; returns what was done and
/// when.
fn live(clock: &mut Scheduler, now: &mut Timestamp, until: Timestamp) -> Vec<(Timestamp, DueAction)> {
    let mut done = Vec::new();
    loop {
        let (at, due) = clock.next(*now);
        if at > until {
            *now = until;
            return done;
        }
        *now = at.max(*now);
        match &due {
            DueAction::Poll => clock.poll_ended(*now, PollResult::Nothing),
            DueAction::Retry | DueAction::Converge => clock.run_ended(*now, true, false),
            DueAction::Entry(name) => {
                clock.entry_started(name, *now);
                clock.entry_ended(name, *now);
            }
        }
        done.push((*now, due));
        assert!(done.len() < 100_000, "a storm: {:?}", &done[done.len() - 5..]);
    }
}

fn times(done: &[(Timestamp, DueAction)], wanted: &DueAction) -> Vec<Timestamp> {
    done.iter().filter(|(_, due)| due == wanted).map(|(at, _)| *at).collect()
}

fn gaps(times: &[Timestamp]) -> Vec<Duration> {
    times.windows(2).map(|pair| pair[1].duration_since(pair[0]).unsigned_abs()).collect()
}

fn nightly() -> DueAction {
    DueAction::Entry("nightly".into())
}

const NIGHTLY: &str = "schedule: {nightly: {cron: 0 3 * * *}}";

#[test]
fn polls_are_a_minute_apart_on_average_and_runs_half_an_hour() {
    let mut clock = clock("", 7);
    let mut now = start();
    let done = live(&mut clock, &mut now, start() + DAY);
    let polls = gaps(&times(&done, &DueAction::Poll));
    assert!((1350..=1530).contains(&polls.len()), "{}", polls.len());
    assert!(polls.iter().all(|gap| (POLL / 2..=POLL * 3 / 2).contains(gap)));
    let different: std::collections::BTreeSet<_> = polls.iter().collect();
    assert!(different.len() > 500, "{}", different.len());
    let runs = gaps(&times(&done, &DueAction::Converge));
    assert!(runs.len() >= 46 && runs[1..].iter().all(|gap| *gap == EVERY), "{runs:?}");
    assert!(runs[0] >= EVERY / 2 && runs[0] <= EVERY * 3 / 2);
}

#[test]
fn a_fleet_that_boots_at_once_spreads() {
    let mut buckets = [[0_u32; 6]; 2];
    for seed in 0..600 {
        let mut clock = clock("", seed * 31);
        let mut now = start();
        let done = live(&mut clock, &mut now, start() + EVERY * 4);
        let first = times(&done, &DueAction::Poll)[0].duration_since(start()).as_secs();
        buckets[0][usize::try_from(first / 10).unwrap()] += 1;
        let later = times(&done, &DueAction::Converge)[2].as_second().rem_euclid(1800);
        buckets[1][usize::try_from(later / 300).unwrap()] += 1;
    }
    assert!(buckets.iter().flatten().all(|n| (60..=140).contains(n)), "{buckets:?}");
}

#[test]
fn failed_polls_back_off_and_a_remote_may_ask_for_time() {
    let mut clock = clock("", 3);
    let wait = |clock: &mut Scheduler, polled| {
        clock.poll_ended(start(), polled);
        clock.poll.unwrap().at.duration_since(start()).unsigned_abs()
    };
    let failed = PollResult::Failed { retry_after: None };
    let waits: Vec<u64> = (0..12).map(|_| wait(&mut clock, failed).as_secs()).collect();
    for (i, most) in [120, 240, 480, 900, 900, 900].into_iter().enumerate() {
        assert!((most / 2..=most).contains(&waits[i]), "{waits:?}");
    }
    assert!(waits[6..].iter().all(|w| (450..=900).contains(w)), "{waits:?}");
    let asked = |seconds| PollResult::Failed { retry_after: Some(Duration::from_secs(seconds)) };
    assert!((3000..=3300).contains(&wait(&mut clock, asked(3000)).as_secs()));
    assert!((3600..=3960).contains(&wait(&mut clock, asked(1_000_000)).as_secs()), "at most an hour");
    assert!(wait(&mut clock, asked(0)).as_secs() >= 450, "no less than its own");
    assert!(wait(&mut clock, PollResult::NewRevision) <= POLL * 3 / 2, "an answer ends it");
    assert!(wait(&mut clock, failed).as_secs() <= 120, "and it begins anew");
}

#[test]
fn a_failed_run_is_retried_without_a_new_revision() {
    let mut clock = clock("", 5);
    let wait = |clock: &Scheduler| clock.retry.map(|alarm| alarm.at.duration_since(start()).as_secs());
    clock.run_ended(start(), true, true);
    assert_eq!(wait(&clock), None);
    clock.run_ended(start(), false, true);
    for base in [60_i64, 120, 240, 480, 960, 1800, 1800] {
        let got = wait(&clock).unwrap();
        assert!(got >= base * 3 / 4 - 1 && got <= (base * 5 / 4).min(1800), "{base}: {got}");
        clock.run_ended(start(), false, false);
    }
    let again = reborn("", &clock, start());
    assert!(again.retry.is_some_and(|alarm| alarm.at > start() + EVERY / 2), "a restart is no excuse");
    clock.run_ended(start(), false, true);
    assert!(wait(&clock).unwrap() <= 75, "a new revision gets a quick second try");
    clock.run_ended(start(), true, false);
    assert_eq!((wait(&clock), clock.failures), (None, 0));
}

#[test]
fn a_trigger_is_due_at_once_and_poll_comes_first() {
    let mut clock = clock("", 5);
    clock.poll_ended(start(), PollResult::Failed { retry_after: Some(DAY) });
    clock.run_ended(start(), true, false);
    clock.trigger_now(start());
    assert_eq!(clock.next(start()), (start(), DueAction::Poll));
    clock.poll_ended(start(), PollResult::Nothing);
    assert_eq!(clock.next(start()), (start(), DueAction::Converge));
    clock.run_ended(start(), true, false);
    assert!(clock.next(start()).0 > start());
}

#[test]
fn without_remotes_nothing_is_polled() {
    let fragment = ConfigFragment::read("zagent.yaml", "run: {every: 5m}").unwrap();
    let settings = MergedConfig::new(vec![fragment], [], &[]).into_settings(Some("web-01")).unwrap();
    let mut clock = Scheduler::new(&settings, 1, TimeZone::UTC, SchedulerState::default(), start());
    let mut now = start();
    let done = live(&mut clock, &mut now, start() + DAY);
    assert!(done.len() > 280 && done.iter().all(|(_, due)| *due == DueAction::Converge));
}

#[test]
fn entries_run_on_time_and_their_splay_is_stable() {
    let mut clock = clock("schedule: {nightly: {cron: 0 3 * * *, splay: 1h}, often: {every: 6h}}", 7);
    let mut now = start();
    let done = live(&mut clock, &mut now, start() + DAY * 10);
    let nights = times(&done, &nightly());
    assert_eq!(nights.len(), 10);
    let minutes: Vec<i64> =
        nights.iter().map(|at| (at.as_second().rem_euclid(86_400) - 10_800) / 60).collect();
    assert!(minutes.iter().all(|m| (0..60).contains(m)), "{minutes:?}");
    assert!(minutes.iter().any(|m| *m != minutes[0]), "each night has its own: {minutes:?}");
    let often = times(&done, &DueAction::Entry("often".into()));
    assert!(often.len() == 40 && gaps(&often).iter().all(|gap| *gap == DAY / 4));
    let again = reborn("schedule: {nightly: {cron: 0 3 * * *, splay: 1h}}", &clock, now);
    assert_eq!(again.state_to_save().entries["nightly"], clock.state_to_save().entries["nightly"]);
}

#[test]
fn a_missed_entry_runs_once_or_not_at_all() {
    for (catch_up, want) in [(true, 1), (false, 0)] {
        let more = format!("schedule: {{nightly: {{cron: 0 3 * * *, catch_up: {catch_up}}}}}");
        let mut first = clock(&more, 7);
        let mut now = start();
        live(&mut first, &mut now, start() + DAY);
        let mut back = start() + DAY * 9;
        let mut clock = reborn(&more, &first, back);
        let until = back + DAY / 24;
        let done = live(&mut clock, &mut back, until);
        assert_eq!(times(&done, &nightly()).len(), want, "catch_up {catch_up}");
        let next = clock.state_to_save().entries["nightly"].at;
        assert_eq!(next.to_string(), "2026-11-26T03:00:00Z");
    }
}

#[test]
fn a_changed_entry_is_computed_again_and_a_removed_one_is_dropped() {
    let first = clock("schedule: {nightly: {cron: 0 3 * * *}, gone: {every: 1h}}", 7);
    let again = reborn("schedule: {nightly: {cron: 0 5 * * *}}", &first, start());
    let saved = again.state_to_save();
    assert_eq!(saved.entries.len(), 1);
    assert_eq!(saved.entries["nightly"].at.to_string(), "2026-11-17T05:00:00Z");
}

#[test]
fn an_entry_respects_maxrunning() {
    let mut clock = clock("schedule: {often: {every: 10s, maxrunning: 2}}", 7);
    let often = || DueAction::Entry("often".into());
    let mut now = start();
    let mut under_way = 0;
    for _ in 0..500 {
        let (at, due) = clock.next(now);
        now = at.max(now);
        match due {
            DueAction::Entry(name) => {
                clock.entry_started(&name, now);
                under_way += 1;
                assert!(under_way <= 2);
            }
            DueAction::Poll => clock.poll_ended(now, PollResult::Nothing),
            _ => clock.run_ended(now, true, false),
        }
    }
    assert_eq!(under_way, 2);
    clock.entry_ended("often", now);
    let (at, due) = clock.next(now);
    assert_eq!((at.max(now), due), (now, often()), "what fell due meanwhile runs once");
    clock.entry_started("often", now);
    assert_ne!(clock.next(now).1, often());
}

#[test]
fn a_skipped_action_is_due_again() {
    let mut clock = clock(NIGHTLY, 7);
    clock.run_ended(start(), false, false);
    let mut now = start();
    let mut seen = std::collections::BTreeMap::new();
    while now < start() + DAY {
        let (at, due) = clock.next(now);
        now = at.max(now);
        clock.skip_due(&due, now);
        *seen.entry(due).or_insert(0) += 1;
    }
    assert_eq!(seen[&nightly()], 1);
    assert!((40..=60).contains(&seen[&DueAction::Converge]), "{seen:?}");
    assert!((1000..=2000).contains(&seen[&DueAction::Retry]), "{seen:?}");
}

#[test]
fn only_changes_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state/schedule");
    let mut clock = clock(NIGHTLY, 7);
    clock.save(&path).unwrap();
    let stamp = || std::fs::metadata(&path).unwrap().modified().unwrap();
    let before = stamp();
    let mut now = start();
    for _ in 0..100 {
        now = clock.next(now).0.max(now);
        clock.poll_ended(now, PollResult::Nothing);
        clock.save(&path).unwrap();
    }
    assert_eq!(stamp(), before, "a poll writes nothing");
    clock.run_ended(now, true, false);
    clock.save(&path).unwrap();
    assert_eq!(SchedulerState::read(&path).unwrap(), clock.state_to_save());
    assert_eq!(SchedulerState::read(&path).unwrap().last_run, Some(now));
    std::fs::write(&path, "nonsense").unwrap();
    assert!(SchedulerState::read(&path).is_err());
}

#[test]
fn a_small_step_back_does_not_run_an_entry_twice() {
    let mut clock = clock(NIGHTLY, 7);
    let three: Timestamp = "2026-11-17T03:00:00Z".parse().unwrap();
    clock.entry_started("nightly", three);
    clock.entry_ended("nightly", three);
    let before = three - Duration::from_secs(120);
    clock.next(before);
    assert_eq!(clock.state_to_save().entries["nightly"].at.to_string(), "2026-11-18T03:00:00Z");
}

fn jump() -> impl Strategy<Value = i64> {
    const YEAR: i64 = 366 * 24 * 3600;
    prop_oneof![-30 * YEAR..30 * YEAR, -7200_i64..7200, Just(0)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever the clock does, polls and runs continue within their intervals and never faster.
    #[test]
    fn clocks_that_are_set_neither_stop_nor_storm_it(jumps in prop::collection::vec((jump(), 0_u64..40_000), 1..6), seed: u64) {
        let mut clock = clock("schedule: {nightly: {cron: 0 3 * * *, splay: 10m}, often: {every: 1h}}", seed);
        let mut now = start();
        for (seconds, calm) in jumps {
            now = now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
            let begin = now;
            let until = now + Duration::from_secs(calm);
            let done = live(&mut clock, &mut now, until);
            let most = |every: u64| usize::try_from(calm / every + 2).unwrap();
            prop_assert!(times(&done, &DueAction::Poll).len() <= most(30));
            prop_assert!(times(&done, &DueAction::Converge).len() <= most(900));
            prop_assert!(times(&done, &DueAction::Entry("often".into())).len() <= most(3600));
            prop_assert!(times(&done, &nightly()).len() <= most(80_000));
            let first = times(&done, &DueAction::Poll).first().copied();
            prop_assert!(calm < 90 || first.is_some_and(|at| at <= begin + POLL * 3 / 2));
            prop_assert!(calm < 2700 || !times(&done, &DueAction::Converge).is_empty());
            // After a small step back, an entry that has just run waits until the clock has caught up.
            prop_assert!(calm < 7200 || !times(&done, &DueAction::Entry("often".into())).is_empty());
        }
    }

    /// Something is always due, and not later than the next poll.
    #[test]
    fn there_is_always_a_next(seed: u64, second in -377_705_023_201_i64..=253_402_207_200) {
        let now = Timestamp::from_second(second).unwrap();
        let mut clock = Scheduler::new(&settings(NIGHTLY), seed, TimeZone::UTC, SchedulerState::default(), now);
        let (at, _) = clock.next(now);
        prop_assert!(at >= now && at <= saturating_later(now, POLL));
        clock.poll_ended(now, PollResult::Nothing);
        clock.run_ended(now, false, true);
        let _ = clock.next(Timestamp::MIN);
        let _ = clock.next(Timestamp::MAX);
    }
}

#[test]
fn a_rollout_speeds_up_polls_but_not_failing_ones() {
    let mut clock = clock("", 7);
    let now = start();
    clock.poll_ended(now, PollResult::Nothing);
    clock.poll_within(now, Duration::from_secs(10));
    assert_eq!(clock.next_poll(), Some(saturating_later(now, Duration::from_secs(10))));
    for _ in 0..4 {
        clock.poll_ended(now, PollResult::Failed { retry_after: None });
    }
    let waits = clock.next_poll();
    clock.poll_within(now, Duration::from_secs(10));
    assert_eq!(
        clock.next_poll(),
        waits,
        "a server that is down is not asked every ten seconds by a whole fleet"
    );
    assert!(waits > Some(saturating_later(now, POLL)));
}

#[test]
fn backoff_grows_and_is_random() {
    let (first, most) = (Duration::from_secs(10), Duration::from_secs(300));
    let waits = |seed| {
        let mut clock = clock("", seed);
        (1..=8).map(|failures| clock.backoff_delay(first, failures, most)).collect::<Vec<_>>()
    };
    for (wait, whole) in waits(7).into_iter().zip([10, 20, 40, 80, 160, 300, 300, 300]) {
        let whole = Duration::from_secs(whole);
        assert!(wait >= whole / 2 && wait <= whole, "{wait:?} of {whole:?}");
    }
    assert_ne!(waits(7), waits(8), "nodes differ");
    assert_eq!(waits(7), waits(7));
}
