//! Random runs, and the way back from each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;

use crate::disk::Disk;
use crate::disk::tests::actions::{FsAction, apply_action, fs_action, snapshot};
use crate::disk::tests::temp_dir;
use crate::fs::{FileKind, FileSystem, Overlay};
use crate::undo::{JournalReader, RevertOptions, RevertedState, UndoJournal, UndoOutcome, revert};

/// A file that was replaced comes back as a file of its own, also when it had two names; so names are not told to be one.
fn acts(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<FsAction>> {
    let act = fs_action().prop_filter("not a second name", |act| !matches!(act, FsAction::HardLink(..)));
    proptest::collection::vec(act, count)
}

/// What is there with the times of files, which have to come back too.
fn view(root: &Path) -> BTreeMap<PathBuf, (String, i128)> {
    let disk = Disk::default();
    let words = snapshot(&disk, root).into_iter();
    let time = |path: &Path| {
        let stat = disk.lstat(&root.join(path)).unwrap().unwrap();
        if stat.kind == FileKind::File { stat.mtime } else { 0 }
    };
    words
        .map(|(path, text)| (path.clone(), (text.split_once(' ').unwrap().1.to_owned(), time(&path))))
        .collect()
}

fn without_times(view: &BTreeMap<PathBuf, (String, i128)>) -> Vec<(&PathBuf, &String)> {
    view.iter().map(|(path, (text, _))| (path, text)).collect()
}

struct RevertFixture {
    room: tempfile::TempDir,
    root: PathBuf,
}

impl RevertFixture {
    fn new(before: &[FsAction]) -> Self {
        let room = temp_dir();
        let root = room.path().join("host/1/2/3/4");
        std::fs::create_dir_all(&root).unwrap();
        before.iter().for_each(|act| drop(apply_action(&Disk::default(), &root, act)));
        Self { room, root }
    }

    fn view(&self) -> BTreeMap<PathBuf, (String, i128)> {
        view(&self.room.path().join("host"))
    }

    fn disk(&self, run: &str) -> (Arc<UndoJournal>, Disk) {
        let journal = Arc::new(UndoJournal::create(&self.room.path().join("undo"), run).unwrap());
        (journal.clone(), Disk::new(Some(journal)))
    }

    /// The notes of a run that does all this; none when it changed nothing.
    fn run(&self, acts: &[FsAction]) -> Option<JournalReader> {
        let (journal, disk) = self.disk("run");
        acts.iter()
            .enumerate()
            .for_each(|(at, act)| drop(apply_action(&disk.for_state(&at.to_string()), &self.root, act)));
        (!journal.is_empty()).then(|| self.notes("run"))
    }

    fn notes(&self, run: &str) -> JournalReader {
        JournalReader::open(&self.room.path().join("undo").join(run)).unwrap()
    }

    fn revert(&self, notes: &JournalReader, run: &str) -> Vec<RevertedState> {
        let (_, disk) = self.disk(run);
        revert(notes, &|tag| Arc::new(disk.for_state(tag)), &RevertOptions::default())
    }
}

fn assert_success(states: &[RevertedState]) {
    assert!(states.iter().all(RevertedState::is_success), "{states:#?}");
}

/// What became of each change; a preview takes another time and restores nothing.
fn outcomes(states: &[RevertedState]) -> Vec<(&str, u64, Option<&std::path::Path>, &UndoOutcome)> {
    let steps = states.iter().flat_map(|state| state.steps.iter().map(move |step| (state, step)));
    steps.map(|(state, step)| (&*state.tag, step.seq, step.path.as_deref(), &step.outcome)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_run_did_is_undone(before in acts(0..25), run in acts(1..25)) {
        let play = RevertFixture::new(&before);
        let start = play.view();
        let Some(notes) = play.run(&run) else { return Ok(()) };
        let end = play.view();
        let overlay: Arc<Overlay> = Arc::new(Overlay::new(Arc::new(Disk::default())));
        let foreseen = revert(&notes, &|_| overlay.clone(), &RevertOptions::default());
        prop_assert_eq!(&play.view(), &end, "a dry revert changed something");
        let states = play.revert(&notes, "back");
        prop_assert_eq!(outcomes(&foreseen), outcomes(&states));
        assert_success(&states);
        prop_assert_eq!(&play.view(), &start);
        if states.iter().flat_map(|state| &state.steps).all(|step| step.outcome == UndoOutcome::AlreadyRestored) {
            return Ok(());
        }
        assert_success(&play.revert(&play.notes("back"), "forth"));
        let again = play.view();
        prop_assert_eq!(without_times(&again), without_times(&end));
    }

    #[test]
    fn a_revert_may_be_cut_off_and_repeated(before in acts(0..25), run in acts(1..25), cut in 0_usize..25) {
        let play = RevertFixture::new(&before);
        let start = play.view();
        let Some(notes) = play.run(&run) else { return Ok(()) };
        play.revert(&play.notes("run").keep_last(cut), "half");
        assert_success(&play.revert(&notes, "whole"));
        prop_assert_eq!(&play.view(), &start);
        assert_success(&play.revert(&notes, "again"));
        prop_assert_eq!(&play.view(), &start);
    }
}

#[test]
fn a_move_that_is_refused_leaves_no_note_and_hinders_no_revert() {
    let write = FsAction::Write(1, 0, crate::fs::FileMeta::default());
    for inside in [1, 10] {
        let play = RevertFixture::new(std::slice::from_ref(&write));
        let start = play.view();
        let notes = play.run(&[FsAction::Rename(17, inside), FsAction::SetTimes(1, 0)]).unwrap();
        assert_eq!(notes.records().iter().filter(|record| record.seq().is_some()).count(), 1);
        assert_success(&play.revert(&notes, "back"));
        assert_eq!(play.view(), start);
    }
}
