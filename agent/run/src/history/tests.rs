//! Small histories in scratch directories.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::StateStatus;
use crate::samples;

struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn paths(&self) -> Paths {
        Paths::new(self.dir.path())
    }

    fn history(&self, keep: usize) -> History {
        let mut history = History::new(&self.paths(), keep);
        // On a busy machine another thread may hold the lock for a while.
        history.lock_timeout = Duration::from_secs(30);
        history
    }

    /// Names of the files of runs.
    fn files(&self) -> Vec<String> {
        files::file_names(&self.paths().history_runs()).unwrap()
    }

    fn index(&self) -> String {
        fs::read_to_string(self.paths().history_index()).unwrap()
    }
}

/// The run of minute `n`.
fn run(n: i64) -> RunReport {
    let start = now() + jiff::SignedDuration::from_mins(n);
    RunReport { run: run_name(start, 0x9a), start, ..samples::failed() }
}

fn now() -> Timestamp {
    samples::start()
}

fn record(history: &History, runs: std::ops::Range<i64>) {
    for n in runs {
        history.record(&run(n)).unwrap();
    }
}

/// The run of minute `n`, with more to say than fits into a line.
fn big_run(n: i64) -> RunReport {
    let mut report = run(n);
    report.states[0].diff = "é".repeat(LINE_LIMIT);
    report
}

/// The run of minute `n`, without changes.
fn quiet_run(n: i64) -> RunReport {
    RunReport { states: vec![samples::state("test.nop", "fine", "fine")], ..run(n) }
}

fn listed(history: &History) -> Vec<String> {
    let answer = history.list(100).unwrap();
    assert!(answer.warnings.is_empty(), "{:?}", answer.warnings);
    answer.found.into_iter().map(|head| head.run).collect()
}

#[test]
fn names_sort_by_time_and_are_short() {
    assert_eq!(run_name(now(), 0x9a), "20261116T084512-0009a");
    let later = |nanos: i64| run_name(now() + jiff::SignedDuration::from_nanos(nanos), 0);
    assert_eq!(later(999_999_999), "20261116T084512-fff00");
    assert!(run_name(now(), 0xff) < later(250_000) && later(999_999_999) < later(1_000_000_000));
    let drawn: std::collections::BTreeSet<u8> = (0..64).map(|_| random_suffix()).collect();
    assert!(drawn.len() > 32, "{drawn:?}");
}

#[test]
fn a_record_round_trips_without_unchanged_states() {
    let scratch = Scratch::new();
    let history = scratch.history(50);
    let mut report = run(0);
    report.states.insert(0, samples::state("test.nop", "fine", "fine"));
    history.record(&report).unwrap();
    let record = history.get("last").unwrap().found;
    assert_eq!((record.tally.unchanged, record.tally.total()), (1, 7));
    let kept: Vec<_> =
        report.states.iter().filter(|s| s.status() != StateStatus::Unchanged).cloned().collect();
    assert_eq!(record.report, RunReport { states: kept, ..report.clone() });
    // Every sample survives.
    for (n, sample) in (1..).zip([samples::reverted(), samples::stopped(), samples::long()]) {
        let report = RunReport { run: run_name(now(), n), ..sample };
        history.record(&report).unwrap();
        let found = history.get(&report.run).unwrap().found;
        let kept = |report: &RunReport| -> Vec<_> {
            let states = report.states.iter().filter(|s| s.status() != StateStatus::Unchanged);
            states.map(|s| (s.tag.clone(), s.status(), s.comment.clone(), s.changes.clone())).collect()
        };
        assert_eq!(kept(&found.report), kept(&report));
    }
}

#[test]
fn a_run_is_found_by_name_beginning_or_as_the_last() {
    let scratch = Scratch::new();
    let history = scratch.history(50);
    assert!(matches!(history.get("last"), Err(HistoryError::Empty)));
    record(&history, 0..3);
    let found = |which: &str| history.get(which).map(|answer| answer.found.report.run);
    assert_eq!(found("last").unwrap(), run(2).run);
    assert_eq!(found("20261116T0846").unwrap(), run(1).run);
    assert_eq!(found(&run(0).run).unwrap(), run(0).run);
    assert!(matches!(found("2026"), Err(HistoryError::Ambiguous { runs, .. }) if runs.len() == 3));
    assert!(matches!(found("1999"), Err(HistoryError::NoRun(_))));
}

#[test]
fn a_query_or_a_dry_run_creates_nothing() {
    let scratch = Scratch::new();
    let history = scratch.history(50);
    assert!(listed(&history).is_empty());
    history.record(&samples::dry_run()).unwrap();
    assert_eq!(fs::read_dir(scratch.dir.path()).unwrap().count(), 0);
    record(&history, 0..1);
    history.record(&RunReport { run: "zz".into(), ..samples::dry_run() }).unwrap();
    assert_eq!(listed(&history).len(), 1, "a dry run is not part of the history");
}

#[test]
fn a_name_cannot_lead_elsewhere() {
    let scratch = Scratch::new();
    for name in ["../x", "", "a/b", ".hidden", &"x".repeat(200)] {
        let report = RunReport { run: name.into(), ..run(0) };
        let refused = scratch.history(50).record(&report);
        assert!(matches!(refused, Err(HistoryError::Name(_))), "{name}");
    }
}

#[test]
fn many_matching_runs_are_not_all_named() {
    let runs = (10..20).map(|n| format!("2026-{n}")).collect();
    let error = HistoryError::Ambiguous { beginning: "2026".into(), runs };
    let words = "10 runs start with `2026`: 2026-19, 2026-18, 2026-17, 2026-16 and 6 more";
    assert_eq!(error.to_string(), words);
}

#[test]
fn a_run_without_changes_appends_one_line_that_only_its_owner_reads() {
    let scratch = Scratch::new();
    let history = scratch.history(50);
    for n in 0..3 {
        let before = fs::read(scratch.paths().history_index()).unwrap_or_default();
        history.record(&quiet_run(n)).unwrap();
        let after = fs::read(scratch.paths().history_index()).unwrap();
        assert!(after.starts_with(&before) && after.len() < before.len() + 500, "{}", scratch.index());
    }
    let names = files::file_names(&scratch.paths().history()).unwrap();
    assert_eq!(names, ["index"], "nothing but the line");
    assert_eq!(scratch.index().lines().count(), 3);
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(scratch.paths().history_index()), mode(scratch.paths().history())), (0o600, 0o700));
}

#[test]
fn long_texts_are_truncated() {
    let scratch = Scratch::new();
    let mut report = run(0);
    report.states[0].changes.insert("stdout", "x".repeat(1 << 20));
    report.states[0].diff = "é".repeat(1 << 20);
    scratch.history(50).record(&report).unwrap();
    let text =
        fs::read_to_string(scratch.paths().history_runs().join(format!("{}.json", report.run))).unwrap();
    assert!(!text.contains("hunter2") && text.contains("********"));
    assert!(text.len() < 100_000 && text.contains("bytes more"), "{}", text.len());
    assert!(scratch.index().len() < 500, "{}", scratch.index());
}

#[test]
fn a_record_has_a_size_limit_and_failures_stay() {
    let scratch = Scratch::new();
    let history = scratch.history(50);
    let mut report = run(0);
    let mut big = samples::state("cmd.run", "big", "big");
    big.changes.insert("stdout", "x".repeat(15 << 10));
    let failed = report.states.iter().find(|s| s.status() == StateStatus::Failed).unwrap().clone();
    report.states = vec![big; 1000];
    report.states.push(failed.clone());
    history.record(&report).unwrap();
    let size =
        fs::metadata(scratch.paths().history_runs().join(format!("{}.json", report.run))).unwrap().len();
    assert!(size < 5 << 20, "{size}");
    let answer = history.get("last").unwrap();
    let kept = answer.found.report.states.len();
    assert_eq!(answer.found.report.states.last().unwrap().tag, failed.tag);
    let omitted = 1001 - kept;
    assert!(
        kept > 200
            && matches!(answer.warnings.as_slice(), [HistoryError::Omitted { omitted: n, .. }] if *n == omitted)
    );
    assert_eq!(answer.found.tally.total(), 1001);
}

#[test]
fn the_newest_runs_are_kept_and_nothing_is_written_again() {
    let scratch = Scratch::new();
    let history = scratch.history(5);
    let names = |runs: std::ops::Range<i64>| -> Vec<String> { runs.rev().map(|n| run(n).run).collect() };
    for n in 0..23 {
        let report = if n % 2 == 0 { big_run(n) } else { quiet_run(n) };
        assert!(history.record(&report).unwrap().is_empty());
        assert_eq!(listed(&history), names(0.max(n - 4)..n + 1));
        assert!(scratch.index().lines().count() <= 5, "two files of at most five lines");
        assert!(scratch.files().len() <= 5, "{:?}", scratch.files());
    }
    assert_eq!(history.list(2).unwrap().found.len(), 2);
    // A setting that was reduced counts at once.
    assert_eq!(listed(&scratch.history(2)), names(21..23));
    scratch.history(2).record(&run(23)).unwrap();
    assert_eq!(listed(&scratch.history(2)), names(22..24));
}

#[test]
fn a_line_that_was_cut_off_costs_one_run() {
    let scratch = Scratch::new();
    let history = scratch.history(6);
    let index = scratch.paths().history_index();
    record(&history, 0..2);
    let whole = fs::read(&index).unwrap();
    for cut in [1, 20, 200, whole.len() / 2 - 1] {
        // As after a power cut: the end is missing, or is zeros.
        for zeros in [0, cut] {
            let mut torn = whole[..whole.len() - cut].to_vec();
            torn.resize(torn.len() + zeros, 0);
            fs::write(&index, torn).unwrap();
            history.record(&run(2)).unwrap();
            let answer = history.list(100).unwrap();
            let found: Vec<String> = answer.found.into_iter().map(|head| head.run).collect();
            // Without its newline, a line is whole all the same.
            let expected = if (cut, zeros) == (1, 0) { vec![2, 1, 0] } else { vec![2, 0] };
            assert_eq!(found, expected.iter().map(|n| run(*n).run).collect::<Vec<_>>(), "{cut} {zeros}");
            let is_damaged = expected.len() == 2;
            assert_eq!(answer.warnings.len(), usize::from(is_damaged), "{:?}", answer.warnings);
            assert!(answer.warnings.iter().all(|w| matches!(w, HistoryError::DamagedLines { count: 1, .. })));
        }
    }
    // The count of lines survives the damage: the file still ends.
    for n in 3..30 {
        fs::write(&index, [&fs::read(&index).unwrap()[..], b"{\"schema\":"].concat()).unwrap();
        history.record(&run(n)).unwrap();
        assert!(scratch.index().lines().count() <= 12, "{}", scratch.index().lines().count());
        assert_eq!(history.list(100).unwrap().found[0].run, run(n).run);
    }
}

#[test]
fn what_a_killed_process_left_is_swept() {
    let scratch = Scratch::new();
    let history = scratch.history(50);
    history.record(&big_run(0)).unwrap();
    let runs = scratch.paths().history_runs();
    fs::write(runs.join(format!("{}.json.new", run(1).run)), "{").unwrap();
    fs::write(runs.join(format!("{}.json", run(1).run)), "{}").unwrap();
    history.record(&big_run(2)).unwrap();
    assert_eq!(scratch.files(), [0, 2].map(|n| format!("{}.json", run(n).run)));
}

#[test]
fn changes_that_are_gone_or_damaged_leave_the_summary() {
    let scratch = Scratch::new();
    let history = scratch.history(50);
    for n in 0..4 {
        history.record(&big_run(n)).unwrap();
    }
    history.remove_files_beyond(2).unwrap();
    assert_eq!(scratch.files().len(), 2);
    fs::write(scratch.paths().history_runs().join(format!("{}.json", run(3).run)), "{").unwrap();
    for n in [0, 3] {
        let answer = history.get(&run(n).run).unwrap();
        assert!(
            matches!(answer.warnings.as_slice(), [HistoryError::NoChanges { .. }]),
            "{:?}",
            answer.warnings
        );
        assert_eq!((answer.found.tally.failed, answer.found.report.states.len()), (1, 0));
    }
    let answer = history.get(&run(2).run).unwrap();
    assert!(answer.warnings.is_empty() && !answer.found.report.states.is_empty());
    assert_eq!(listed(&history).len(), 4);
}

#[test]
fn a_process_that_does_not_finish_costs_a_record_and_no_run() {
    let scratch = Scratch::new();
    let mut history = scratch.history(50);
    record(&history, 0..2);
    let held = history.lock().unwrap();
    history.lock_timeout = Duration::ZERO;
    let refused = history.record(&run(2));
    assert!(matches!(refused, Err(HistoryError::Busy { .. })), "{refused:?}");
    assert_eq!(listed(&history).len(), 2, "a query waits for nothing");
    drop(held);
    record(&history, 3..4);
    assert_eq!(listed(&history).len(), 3);
}

/// What the version before this one left: a file per run, and a store.
fn earlier_files(scratch: &Scratch, runs: std::ops::Range<i64>) {
    let spool = scratch.paths().history_spool();
    fs::create_dir_all(&spool).unwrap();
    for n in runs {
        let stored = RunRecord::from_report(&run(n)).to_stored();
        fs::write(spool.join(format!("{}.json", run(n).run)), stored.to_bytes()).unwrap();
    }
    fs::write(spool.join("20261116T090000-0000.part"), "{").unwrap();
    fs::create_dir_all(scratch.paths().history_store()).unwrap();
}

#[test]
fn the_runs_of_an_earlier_version_are_taken_over_and_its_store_is_set_aside() {
    for is_query in [true, false] {
        let scratch = Scratch::new();
        let history = scratch.history(50);
        earlier_files(&scratch, 0..31);
        let warnings =
            if is_query { history.list(100).unwrap().warnings } else { history.record(&run(31)).unwrap() };
        let aside = scratch.paths().history().join("store.old");
        assert!(
            matches!(warnings.as_slice(), [HistoryError::OldStore { path }] if *path == aside && aside.exists()),
            "{warnings:?}"
        );
        assert_eq!(listed(&history).len(), if is_query { 31 } else { 32 });
        assert!(!scratch.paths().history_spool().exists() && !scratch.paths().history_store().exists());
        let answer = history.get(&run(7).run).unwrap();
        assert_eq!(answer.found.tally.failed, 1);
        assert!(answer.warnings.is_empty() && !answer.found.report.states.is_empty());
    }
}

#[test]
fn an_interrupted_takeover_is_repeated() {
    let scratch = Scratch::new();
    earlier_files(&scratch, 0..10);
    // Killed after it had moved four of them.
    let (spool, runs) = (scratch.paths().history_spool(), scratch.paths().history_runs());
    fs::create_dir_all(&runs).unwrap();
    for n in 0..4 {
        let name = format!("{}.json", run(n).run);
        fs::rename(spool.join(&name), runs.join(&name)).unwrap();
    }
    assert_eq!(scratch.history(50).list(100).unwrap().found.len(), 10);
    assert_eq!(listed(&scratch.history(50)).len(), 10);
}
