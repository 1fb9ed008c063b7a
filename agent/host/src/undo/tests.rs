//! Journals that are cut off, and the way back.

mod proptests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::disk::Disk;
use crate::fs::{FileKind, FileMeta, FileSystem, FsRoot};

const MANY: usize = 300 * 1024;

struct UndoFixture {
    dir: tempfile::TempDir,
}

impl UndoFixture {
    fn new() -> Self {
        // Where a sync costs nothing, if there is such a place: these tests are not about the disk's patience.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let yard = Self { dir };
        let disk = Disk::default();
        disk.make_dir(&yard.at(""), mode(0o755)).unwrap();
        disk.write(&yard.at("plain"), b"plain\n", mode(0o640)).unwrap();
        disk.write(&yard.at("big"), &vec![7; MANY], mode(0o600)).unwrap();
        disk.symlink(&yard.at("link"), Path::new("plain"), FileMeta::default()).unwrap();
        disk.make_dir(&yard.at("tree"), mode(0o750)).unwrap();
        disk.make_dir(&yard.at("tree/deep"), mode(0o700)).unwrap();
        disk.write(&yard.at("tree/deep/x"), b"x", mode(0o444)).unwrap();
        disk.write(&yard.at("tree/big"), &vec![8; MANY], mode(0o600)).unwrap();
        disk.symlink(&yard.at("tree/l"), Path::new("/nowhere"), FileMeta::default()).unwrap();
        disk.make_node(&yard.at("tree/p"), FileKind::Fifo, (0, 0), mode(0o620)).unwrap();
        for name in ["plain", "big", "tree/deep/x", "tree/big"] {
            disk.set_times(&yard.at(name), 1_000_000_007, 1_000_000_009).unwrap();
        }
        yard
    }

    fn at(&self, name: &str) -> PathBuf {
        let host = self.dir.path().join("host");
        if name.is_empty() { host } else { host.join(name) }
    }

    fn undo(&self) -> PathBuf {
        self.dir.path().join("undo")
    }

    fn journal(&self, run: &str) -> Arc<UndoJournal> {
        Arc::new(UndoJournal::create(&self.undo(), run).unwrap())
    }

    fn notes(&self, run: &str) -> JournalReader {
        JournalReader::open(&self.undo().join(run)).unwrap()
    }

    /// All entries with all that a revert brings back.
    fn picture(&self) -> BTreeMap<PathBuf, String> {
        let disk = Disk::default();
        let mut picture = BTreeMap::new();
        let mut left = vec![self.at("")];
        while let Some(path) = left.pop() {
            let stat = disk.lstat(&path).unwrap().unwrap();
            let mut text =
                format!("{:?} {:o} {}:{} {:?}", stat.kind, stat.mode, stat.uid, stat.gid, stat.device);
            match stat.kind {
                FileKind::Dir => {
                    left.extend(disk.read_dir(&path).unwrap().into_iter().map(|(name, _)| path.join(name)));
                }
                FileKind::File => {
                    text += &format!(" {} {}", stat.mtime, blake3::hash(&disk.read(&path).unwrap()).to_hex());
                    text += &format!(" {:?}", disk.xattrs(&path).unwrap());
                }
                FileKind::Link => text += &format!(" {:?}", disk.read_link(&path).unwrap()),
                _ => {}
            }
            picture.insert(path, text);
        }
        picture
    }

    /// A run that does a bit of everything.
    fn run(&self, run: &str) -> Arc<UndoJournal> {
        let journal = self.journal(run);
        let disk = Disk::new(Some(journal.clone()));
        let one = disk.for_state("one");
        one.write(&self.at("plain"), b"changed\n", mode(0o600)).unwrap();
        one.write(&self.at("new"), b"new\n", FileMeta::default()).unwrap();
        one.write(&self.at("link"), b"no link any more\n", FileMeta::default()).unwrap();
        let two = disk.for_state("two");
        two.write(&self.at("plain"), b"changed again\n", FileMeta::default()).unwrap();
        two.set_meta(&self.at("new"), mode(0o604), true).unwrap();
        two.set_times(&self.at("big"), 5, 6).unwrap();
        two.write(&self.at("big"), b"small\n", FileMeta::default()).unwrap();
        let three = disk.for_state("three");
        three.make_dir(&self.at("made"), mode(0o711)).unwrap();
        three.write(&self.at("made/x"), b"x", FileMeta::default()).unwrap();
        three.symlink(&self.at("made/l"), Path::new("x"), FileMeta::default()).unwrap();
        three.hard_link(&self.at("made/h"), &self.at("made/x")).unwrap();
        three.make_node(&self.at("made/p"), FileKind::Fifo, (0, 0), FileMeta::default()).unwrap();
        let four = disk.for_state("four");
        four.remove(&self.at("tree")).unwrap();
        four.rename(&self.at("new"), &self.at("plain")).unwrap();
        four.rename(&self.at("made"), &self.at("moved")).unwrap();
        four.write(&self.at("moved/x"), b"after the move", FileMeta::default()).unwrap();
        disk.sync_dirs().unwrap();
        journal
    }

    fn revert(&self, run: &str, own: &str, choice: &RevertOptions) -> Vec<RevertedState> {
        self.revert_notes(&self.notes(run), own, choice)
    }

    fn revert_notes(&self, notes: &JournalReader, own: &str, choice: &RevertOptions) -> Vec<RevertedState> {
        let journal = self.journal(own);
        let disk = Disk::new(Some(journal.clone()));
        let done = revert(notes, &|tag| Arc::new(disk.for_state(tag)), choice);
        journal.finish().unwrap();
        done
    }
}

/// A file that is mounted over itself, as a container has its `/etc/hosts`; none where nobody may mount.
struct Mounted(PathBuf);

impl Mounted {
    fn new(path: PathBuf) -> Option<Self> {
        let said = std::process::Command::new("mount").arg("--bind").args([&path, &path]).output();
        let is_mounted = said.is_ok_and(|said| said.status.success());
        assert!(is_mounted || std::env::var_os("CI").is_none(), "this test needs to mount");
        is_mounted.then_some(Self(path))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).output();
    }
}

fn mode(mode: u32) -> FileMeta {
    FileMeta { mode: Some(mode), ..FileMeta::default() }
}

fn assert_success(states: &[RevertedState]) {
    assert!(states.iter().all(RevertedState::is_success), "{states:#?}");
}

fn force() -> RevertOptions {
    RevertOptions { is_forced: true, tags: None }
}

#[test]
fn a_revert_restores_everything_and_a_revert_of_it_does_it_again() {
    let yard = UndoFixture::new();
    let before = yard.picture();
    yard.run("a").finish().unwrap();
    let after = yard.picture();
    assert_ne!(before, after);
    let states = yard.revert("a", "b", &RevertOptions::default());
    assert_success(&states);
    assert_eq!(yard.picture(), before);
    let tags: Vec<_> = states.iter().map(|state| &*state.tag).collect();
    assert_eq!(tags, ["four", "three", "two", "one"]);
    assert_success(&yard.revert("b", "c", &RevertOptions::default()));
    assert_eq!(without_times(&yard.picture()), without_times(&after));
    assert_success(&yard.revert("c", "d", &RevertOptions::default()));
    assert_eq!(yard.picture(), before);
}

/// A file that was new has no time to come back to.
fn without_times(picture: &BTreeMap<PathBuf, String>) -> BTreeMap<PathBuf, String> {
    let words = |text: &String| {
        text.split(' ').enumerate().filter(|(at, _)| *at != 5).map(|(_, word)| word).collect()
    };
    picture.iter().map(|(path, text)| (path.clone(), words(text))).collect()
}

#[test]
fn a_second_revert_has_nothing_to_do() {
    let yard = UndoFixture::new();
    let before = yard.picture();
    yard.run("a").finish().unwrap();
    yard.revert("a", "b", &RevertOptions::default());
    let states = yard.revert("a", "c", &RevertOptions::default());
    assert_success(&states);
    assert!(states.iter().all(|state| state.changes().is_empty()), "{states:#?}");
    assert!(list_runs(&yard.undo()).unwrap().iter().all(|past| past.run != "c"), "nothing was noted");
    assert_eq!(yard.picture(), before);
}

#[test]
fn a_revert_that_was_cut_off_anywhere_is_completed_by_the_next() {
    let yard = UndoFixture::new();
    let before = yard.picture();
    let steps = {
        yard.run("probe").finish().unwrap();
        let notes = yard.notes("probe");
        yard.revert("probe", "probe-back", &RevertOptions::default());
        notes.records().len()
    };
    for done in 0..steps {
        let (run, half, whole) = (format!("run-{done}"), format!("half-{done}"), format!("whole-{done}"));
        yard.run(&run).finish().unwrap();
        let notes = yard.notes(&run).keep_last(done);
        yard.revert_notes(&notes, &half, &RevertOptions::default());
        assert_success(&yard.revert(&run, &whole, &RevertOptions::default()));
        assert_eq!(yard.picture(), before, "after {done} steps");
    }
}

#[test]
fn what_other_hands_changed_is_kept_unless_forced() {
    let yard = UndoFixture::new();
    let before = yard.picture();
    yard.run("a").finish().unwrap();
    let disk = Disk::default();
    disk.write(&yard.at("big"), b"by hand", FileMeta::default()).unwrap();
    disk.write(&yard.at("moved/foreign"), b"by hand", FileMeta::default()).unwrap();
    let states = yard.revert("a", "b", &RevertOptions::default());
    let kept: Vec<_> = states
        .iter()
        .flat_map(|state| &state.steps)
        .filter(|step| matches!(step.outcome, UndoOutcome::LeftAlone(_) | UndoOutcome::Failed(_)))
        .map(|step| step.path.clone().unwrap())
        .collect();
    assert!(kept.contains(&yard.at("big")) && kept.contains(&yard.at("made")), "{states:#?}");
    assert_eq!(disk.read(&yard.at("big")).unwrap(), b"by hand");
    assert_eq!(disk.read(&yard.at("made/foreign")).unwrap(), b"by hand");
    assert_eq!(disk.read(&yard.at("plain")).unwrap(), b"plain\n");

    yard.revert("a", "c", &force());
    assert_eq!(disk.read(&yard.at("big")).unwrap(), vec![7; MANY]);
    disk.remove(&yard.at("made/foreign")).unwrap();
    assert_success(&yard.revert("a", "d", &RevertOptions::default()));
    assert_eq!(yard.picture(), before);
}

#[test]
fn one_state_is_reverted_alone() {
    let yard = UndoFixture::new();
    let journal = yard.journal("a");
    let disk = Disk::new(Some(journal.clone()));
    disk.for_state("one").write(&yard.at("plain"), b"one", FileMeta::default()).unwrap();
    disk.for_state("two").write(&yard.at("big"), b"two", FileMeta::default()).unwrap();
    journal.finish().unwrap();
    let choice = RevertOptions { tags: Some(BTreeSet::from(["one".to_owned()])), ..RevertOptions::default() };
    let states = yard.revert("a", "b", &choice);
    assert_eq!(states.len(), 1);
    assert_eq!(disk.read(&yard.at("plain")).unwrap(), b"plain\n");
    assert_eq!(disk.read(&yard.at("big")).unwrap(), b"two");
}

#[test]
fn what_cannot_be_undone_says_so() {
    let yard = UndoFixture::new();
    let journal = yard.journal("a");
    journal.note_irreversible("cmd", "cmd.run cannot be undone").unwrap();
    journal.note_other("user", serde_json::json!({"shell": "/bin/sh"})).unwrap();
    journal.finish().unwrap();
    let states = yard.revert("a", "b", &RevertOptions::default());
    assert_eq!(states[1].comment(), "cmd.run cannot be undone");
    assert!(states[1].is_success() && states[1].changes().is_empty());
    assert_eq!(states[0].steps[0].outcome, UndoOutcome::Other(serde_json::json!({"shell": "/bin/sh"})));
}

#[test]
fn a_journal_is_read_up_to_where_it_was_cut_off() {
    let yard = UndoFixture::new();
    let journal = yard.journal("a");
    let disk = Disk::new(Some(journal.clone()));
    disk.write(&yard.at("plain"), b"one", FileMeta::default()).unwrap();
    disk.write(&yard.at("new"), b"two", FileMeta::default()).unwrap();
    disk.remove(&yard.at("tree/deep")).unwrap();
    journal.finish().unwrap();
    let path = yard.undo().join("a/journal");
    let (whole, bytes) = (yard.notes("a"), std::fs::read(&path).unwrap());
    let mut seen = BTreeSet::new();
    for len in 0..=bytes.len() {
        std::fs::write(&path, &bytes[..len]).unwrap();
        let cut = yard.notes("a");
        assert_eq!(cut.records(), &whole.records()[..cut.records().len()], "cut at {len}");
        seen.insert(cut.records().len());
    }
    assert_eq!(seen.len(), whole.records().len() + 1, "every record was the last one once");
}

#[test]
fn a_damaged_record_ends_the_journal_and_never_panics() {
    let yard = UndoFixture::new();
    let journal = yard.journal("a");
    let disk = Disk::new(Some(journal.clone()));
    disk.write(&yard.at("plain"), b"one", FileMeta::default()).unwrap();
    disk.write(&yard.at("new"), b"two", FileMeta::default()).unwrap();
    journal.finish().unwrap();
    let path = yard.undo().join("a/journal");
    let (whole, bytes) = (yard.notes("a"), std::fs::read(&path).unwrap());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x41;
        std::fs::write(&path, &damaged).unwrap();
        let read = yard.notes("a");
        assert!(read.records().len() < whole.records().len(), "damage at {at}");
        assert_eq!(read.records(), &whole.records()[..read.records().len()], "damage at {at}");
    }
}

#[test]
fn kept_content_that_is_damaged_is_not_put_back() {
    let yard = UndoFixture::new();
    let journal = yard.journal("a");
    Disk::new(Some(journal.clone())).write(&yard.at("big"), b"new", FileMeta::default()).unwrap();
    let blob = OpenOptions::new().write(true).open(journal.dir().join("blob-1")).unwrap();
    blob.write_all_at(b"!", 100).unwrap();
    let states = yard.revert("a", "b", &RevertOptions::default());
    assert!(states[0].comment().contains("damaged"), "{states:?}");
    assert_eq!(Disk::default().read(&yard.at("big")).unwrap(), b"new");
}

#[test]
fn leftovers_of_a_killed_run_are_removed_and_nothing_else() {
    let yard = UndoFixture::new();
    let journal = yard.journal("a");
    let disk = Disk::new(Some(journal.clone()));
    disk.write(&yard.at("plain"), b"one", FileMeta::default()).unwrap();
    disk.write(&yard.at("tree/x"), b"two", FileMeta::default()).unwrap();
    disk.make_dir(&yard.at("dir"), FileMeta { mode: Some(0o750), ..FileMeta::default() }).unwrap();
    let notes = yard.notes("a");
    let temps: Vec<_> = notes
        .records()
        .iter()
        .filter_map(|record| match record {
            JournalRecord::Note(note) => note.temp.as_ref().map(|temp| note.path.with_file_name(&temp.name)),
            _ => None,
        })
        .collect();
    assert_eq!(temps.len(), 3);
    std::fs::write(&temps[0], b"half").unwrap();
    std::fs::create_dir(&temps[1]).unwrap();
    std::fs::write(temps[1].join("x"), b"ours are empty").unwrap();
    std::fs::create_dir(&temps[2]).unwrap();
    let other = temps[0].with_file_name(".zagent-00112233445566778899aabb.new");
    std::fs::write(&other, b"of somebody else").unwrap();
    assert_eq!(recover(&FsRoot::default(), &yard.undo()).unwrap(), [temps[0].clone(), temps[2].clone()]);
    assert!(!temps[0].exists() && temps[1].exists() && !temps[2].exists() && other.exists());
    assert!(yard.notes("a").is_finished());
    std::fs::write(&temps[0], b"again").unwrap();
    assert_eq!(recover(&FsRoot::default(), &yard.undo()).unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn a_journal_that_was_cut_off_can_be_ended_and_reverted() {
    let yard = UndoFixture::new();
    let before = yard.picture();
    drop(yard.run("a"));
    let path = yard.undo().join("a/journal");
    let len = std::fs::metadata(&path).unwrap().len();
    OpenOptions::new().append(true).open(&path).unwrap().write_all_at(&[9; 40], len).unwrap();
    assert!(!yard.notes("a").is_finished());
    recover(&FsRoot::default(), &yard.undo()).unwrap();
    assert!(yard.notes("a").is_finished());
    assert_success(&yard.revert("a", "b", &RevertOptions::default()));
    assert_eq!(yard.picture(), before);
}

#[test]
fn only_the_youngest_journals_are_kept() {
    let yard = UndoFixture::new();
    for run in ["20260102", "20260101", "20260103"] {
        let journal = yard.journal(run);
        journal.note_irreversible("x", "y").unwrap();
        journal.finish().unwrap();
    }
    assert!(list_runs(&yard.undo()).unwrap().iter().all(|past| past.changes == 1 && past.is_finished));
    assert_eq!(prune_runs(&yard.undo(), 1).unwrap(), ["20260101", "20260102"]);
    assert_eq!(list_runs(&yard.undo()).unwrap().len(), 1);
}

#[test]
fn a_run_without_changes_leaves_nothing() {
    let yard = UndoFixture::new();
    let journal = yard.journal("a");
    let disk = Disk::new(Some(journal.clone()));
    disk.compare(&yard.at("plain"), b"plain\n").unwrap();
    disk.set_meta(&yard.at("plain"), mode(0o640), true).unwrap();
    journal.finish().unwrap();
    assert!(!yard.undo().exists());
}

#[test]
fn a_runs_name_cannot_lead_elsewhere() {
    for run in ["", ".", "..", "a/b", "/a", "a/", "a\0"] {
        assert!(UndoJournal::create(Path::new("/nowhere"), run).is_err(), "{run:?}");
    }
}

#[test]
fn many_workers_share_one_journal() {
    let yard = UndoFixture::new();
    let journal = yard.journal("a");
    let disk = Disk::new(Some(journal.clone()));
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let (disk, yard) = (disk.for_state(&format!("state {worker}")), &yard);
            scope.spawn(move || {
                for at in 0..20 {
                    disk.write(&yard.at(&format!("{worker}-{at}")), b"x", FileMeta::default()).unwrap();
                }
            });
        }
    });
    journal.finish().unwrap();
    let notes = yard.notes("a");
    let seqs: Vec<_> = notes.records().iter().filter_map(JournalRecord::seq).collect();
    assert_eq!(seqs, (1..=160).collect::<Vec<_>>());
    assert_success(&yard.revert("a", "b", &RevertOptions::default()));
    assert!(!yard.at("7-19").exists());
}

#[test]
fn names_that_are_no_text_survive() {
    use std::os::unix::ffi::OsStrExt;
    let yard = UndoFixture::new();
    let journal = yard.journal("a");
    let disk = Disk::new(Some(journal.clone()));
    let path = yard.at("").join(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    disk.write(&path, b"x", FileMeta::default()).unwrap();
    assert_success(&yard.revert("a", "b", &RevertOptions::default()));
    assert!(disk.lstat(&path).unwrap().is_none());
}

#[test]
fn the_journal_is_for_our_eyes_only() {
    use std::os::unix::fs::MetadataExt;
    let yard = UndoFixture::new();
    yard.run("a").finish().unwrap();
    let mode = |name: &str| std::fs::metadata(yard.undo().join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("a"), mode("a/journal"), mode("a/blob-1")), (0o700, 0o600, 0o600));
}

#[test]
fn a_mount_point_is_written_and_put_back_in_place() {
    use std::os::unix::fs::MetadataExt;

    let yard = UndoFixture::new();
    let before = yard.picture();
    let Some(mounted) = Mounted::new(yard.at("plain")) else { return };
    let number = || std::fs::metadata(&mounted.0).unwrap().ino();
    let own = number();
    let journal = yard.journal("a");
    let disk = Disk::new(Some(journal.clone())).for_state("one");
    disk.write(&mounted.0, b"new\n", mode(0o4600)).unwrap();
    disk.sync_dirs().unwrap();
    journal.finish().unwrap();
    let stat = disk.lstat(&mounted.0).unwrap().unwrap();
    assert_eq!((disk.read(&mounted.0).unwrap(), stat.mode, number()), (b"new\n".to_vec(), 0o4600, own));
    let states = yard.revert("a", "b", &RevertOptions::default());
    assert_success(&states);
    assert_eq!(yard.picture(), before, "nothing is left beside it either");
    assert_eq!(number(), own);
}
