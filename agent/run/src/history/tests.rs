//! Small histories in scratch directories.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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
        // A store releases its lock a moment after it was closed; on a busy machine that takes a while.
        history.store.lock_timeout = Duration::from_secs(30);
        history
    }

    fn spooled(&self) -> usize {
        fs::read_dir(self.paths().history_spool()).map_or(0, Iterator::count)
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
        history.record(&run(n), &SecretMask::default()).unwrap();
    }
}

fn listed(history: &History) -> Vec<String> {
    let answer = history.list(100, now()).unwrap();
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
fn a_run_pays_for_one_file_that_only_its_owner_reads() {
    let scratch = Scratch::new();
    record(&scratch.history(50), 0..1);
    let file = scratch.paths().history_spool().join("20261116T084512-0009a.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(scratch.paths().history()).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(scratch.spooled(), 1);
    assert!(!scratch.paths().history_store().exists());
}

#[test]
fn a_record_round_trips_without_unchanged_states() {
    let scratch = Scratch::new();
    let history = scratch.history(50);
    let mut report = run(0);
    report.states.insert(0, samples::state("test.nop", "fine", "fine"));
    history.record(&report, &SecretMask::default()).unwrap();
    let record = history.get("last", now()).unwrap().found;
    assert_eq!((record.tally.unchanged, record.tally.total()), (1, 7));
    let kept: Vec<_> =
        report.states.iter().filter(|s| s.status() != StateStatus::Unchanged).cloned().collect();
    assert_eq!(record.report, RunReport { states: kept, ..report.clone() });
    // Every sample survives.
    for (n, sample) in (1..).zip([samples::reverted(), samples::stopped(), samples::long()]) {
        let report = RunReport { run: run_name(now(), n), ..sample };
        history.record(&report, &SecretMask::default()).unwrap();
        let found = history.get(&report.run, now()).unwrap().found;
        let kept = |report: &RunReport| -> Vec<_> {
            let states = report.states.iter().filter(|s| s.status() != StateStatus::Unchanged);
            states.map(|s| (s.tag.clone(), s.status(), s.comment.clone(), s.changes.clone())).collect()
        };
        assert_eq!(kept(&found.report), kept(&report));
    }
}

#[test]
fn secrets_are_not_stored_and_long_texts_are_truncated() {
    let scratch = Scratch::new();
    let mut report = run(0);
    report.states[0].changes.insert("stdout", "x".repeat(1 << 20));
    report.states[0].diff = "é".repeat(1 << 20);
    scratch.history(50).record(&report, &SecretMask::new(&["hunter2".into()])).unwrap();
    let file = scratch.paths().history_spool().join(format!("{}.json", report.run));
    let text = fs::read_to_string(file).unwrap();
    assert!(!text.contains("hunter2") && text.contains("********"));
    assert!(text.len() < 100_000 && text.contains("bytes more"), "{}", text.len());
}

#[test]
fn the_newest_runs_are_kept() {
    let scratch = Scratch::new();
    let history = scratch.history(5);
    record(&history, 0..8);
    let names: Vec<String> = (3..8).rev().map(|n| run(n).run).collect();
    assert_eq!(listed(&history), names);
    assert_eq!(scratch.spooled(), 0, "what is in the store leaves the spool");
    record(&history, 8..9);
    assert_eq!(listed(&history)[0], run(8).run);
    assert_eq!(listed(&history).len(), 5);
    assert_eq!(history.list(2, now()).unwrap().found.len(), 2);
}

#[test]
fn a_full_spool_is_emptied_at_the_end_of_a_run() {
    let scratch = Scratch::new();
    let history = scratch.history(50);
    record(&history, 0..31);
    assert!(history.drain_if_full(now()).unwrap().is_empty());
    assert!(!scratch.paths().history_store().exists());
    record(&history, 31..32);
    assert!(history.drain_if_full(now()).unwrap().is_empty());
    assert_eq!(scratch.spooled(), 0);
    assert_eq!(listed(&history).len(), 32);
}

#[test]
fn a_run_is_found_by_name_beginning_or_as_the_last() {
    let scratch = Scratch::new();
    let history = scratch.history(50);
    assert!(matches!(history.get("last", now()), Err(HistoryError::Empty)));
    record(&history, 0..3);
    let found = |which: &str| history.get(which, now()).map(|answer| answer.found.report.run);
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
    history.record(&samples::dry_run(), &SecretMask::default()).unwrap();
    assert_eq!(fs::read_dir(scratch.dir.path()).unwrap().count(), 0);
    record(&history, 0..1);
    history.record(&RunReport { run: "zz".into(), ..samples::dry_run() }, &SecretMask::default()).unwrap();
    assert_eq!(listed(&history).len(), 1, "a dry run is not part of the history");
}

fn overwrite(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.path().is_dir() {
            overwrite(&entry.path());
        } else {
            fs::write(entry.path(), "this is no store").unwrap();
        }
    }
}

#[test]
fn a_damaged_store_is_moved_aside_and_replaced() {
    let scratch = Scratch::new();
    let history = scratch.history(50);
    for n in 0..3 {
        record(&history, n..n + 1);
        let answer = history.list(100, now()).unwrap();
        // The first time there is nothing to damage yet.
        assert_eq!(answer.warnings.len(), usize::from(n > 0), "{:?}", answer.warnings);
        assert!(answer.warnings.iter().all(|w| matches!(w, HistoryError::Broken { path } if path.exists())));
        assert_eq!(answer.found.len(), 1);
        overwrite(&scratch.paths().history_store());
    }
    let aside = fs::read_dir(scratch.paths().history()).unwrap().flatten();
    let aside = aside.filter(|e| e.file_name().to_string_lossy().contains("broken-")).count();
    assert_eq!(aside, 1, "old ones do not pile up");
}

#[test]
fn a_store_opened_by_another_process_leaves_the_spool() {
    let scratch = Scratch::new();
    let history = scratch.history(50);
    record(&history, 0..2);
    assert_eq!(listed(&history).len(), 2);
    record(&history, 2..3);
    let open = || sled::Config::default().path(scratch.paths().history_store()).open().ok();
    let held = std::iter::from_fn(|| Some(open())).flatten().next().unwrap();
    let mut hasty = history.clone();
    hasty.store.lock_timeout = Duration::ZERO;
    let answer = hasty.list(100, now()).unwrap();
    assert!(matches!(answer.warnings.as_slice(), [HistoryError::Busy]), "{:?}", answer.warnings);
    assert_eq!(answer.found.len(), 1);
    record(&history, 3..40);
    assert!(history.drain_if_full(now()).unwrap().is_empty(), "a run does not mind");
    assert_eq!(scratch.spooled(), 38);
    drop(held);
    assert_eq!(listed(&history).len(), 40);
}

#[test]
fn partial_and_damaged_records_are_harmless() {
    let scratch = Scratch::new();
    let history = scratch.history(50);
    record(&history, 0..2);
    let spool = scratch.paths().history_spool();
    fs::write(spool.join("20261116T084612-0009a.json"), "{\"schema\": 1, \"run\"").unwrap();
    fs::write(spool.join("20261116T090000-0000.part"), "{").unwrap();
    let answer = history.list(100, now()).unwrap();
    assert!(
        matches!(answer.warnings.as_slice(), [HistoryError::UnreadableRecord(_)]),
        "{:?}",
        answer.warnings
    );
    assert_eq!(answer.found.len(), 1);
    assert_eq!(scratch.spooled(), 1, "somebody may still be writing");
    let later = Timestamp::from_second(4_000_000_000).unwrap();
    history.list(100, later).unwrap();
    assert_eq!(scratch.spooled(), 0, "nobody writes for an hour");
}

#[test]
fn a_name_cannot_lead_elsewhere() {
    let scratch = Scratch::new();
    for name in ["../x", "", "a/b", ".hidden", &"x".repeat(200)] {
        let report = RunReport { run: name.into(), ..run(0) };
        let refused = scratch.history(50).record(&report, &SecretMask::default());
        assert!(matches!(refused, Err(HistoryError::Name(_))), "{name}");
    }
}

#[test]
fn a_large_store_is_rebuilt() {
    let scratch = Scratch::new();
    let mut history = scratch.history(3);
    record(&history, 0..20);
    listed(&history);
    history.store = history.store.with_max_bytes(1);
    record(&history, 20..21);
    let names: Vec<String> = (18..21).rev().map(|n| run(n).run).collect();
    assert_eq!(listed(&history), names);
    assert!(!scratch.paths().history().join("store.old").exists());
}

#[test]
fn a_store_that_cannot_be_used_leaves_the_spool() {
    let scratch = Scratch::new();
    let history = scratch.history(50);
    record(&history, 0..1);
    assert_eq!(listed(&history).len(), 1);
    record(&history, 1..3);
    overwrite(&scratch.paths().history_store());
    // The damaged store cannot be moved onto a file.
    let aside = format!("{}.broken-{}", scratch.paths().history_store().display(), time_stamp(now()));
    fs::write(aside, "").unwrap();
    for _ in 0..2 {
        let answer = history.list(100, now()).unwrap();
        assert!(
            matches!(answer.warnings.as_slice(), [HistoryError::StoreUnavailable(_)]),
            "{:?}",
            answer.warnings
        );
        assert_eq!(answer.found.len(), 2);
    }
    assert_eq!(scratch.spooled(), 2, "nothing is taken from it");
}

#[test]
fn many_matching_runs_are_not_all_named() {
    let runs = (10..20).map(|n| format!("2026-{n}")).collect();
    let error = HistoryError::Ambiguous { beginning: "2026".into(), runs };
    let words = "10 runs start with `2026`: 2026-19, 2026-18, 2026-17, 2026-16 and 6 more";
    assert_eq!(error.to_string(), words);
}
