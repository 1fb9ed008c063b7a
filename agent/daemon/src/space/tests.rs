//! Roots with a little of everything.

use zagent_config::settings::{self, ConfigLocation};

use super::*;

const BLOCK: usize = 64 << 10;

struct Root {
    dir: tempfile::TempDir,
    settings: Settings,
}

impl Root {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("zagent.yaml");
        fs::write(&file, format!("id: web-01\nroot: {}\n", dir.path().join("root").display())).unwrap();
        let settings = settings::load(&ConfigLocation::File(file), [], &[], None).unwrap();
        Self { dir, settings }
    }

    fn paths(&self) -> Paths {
        self.settings.paths()
    }

    fn put(&self, path: PathBuf) -> PathBuf {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, vec![b'x'; BLOCK]).unwrap();
        path
    }

    /// Limits the root to less than it has now: one file must go.
    fn limit_to_less(&mut self) -> Vec<String> {
        self.settings.keep_bytes = used_bytes(&self.settings.root) - BLOCK as u64 / 2;
        limit(&self.settings)
    }
}

#[test]
fn a_file_with_two_names_is_counted_once() {
    let root = Root::new();
    let one = root.put(root.paths().downloads().join("a"));
    let used = used_bytes(&root.settings.root);
    assert!(used >= BLOCK as u64, "{used}");
    fs::hard_link(&one, one.with_file_name("b")).unwrap();
    assert_eq!(used_bytes(&root.settings.root), used);
    assert_eq!(used_bytes(&root.dir.path().join("nothing")), 0);
}

#[test]
fn nothing_is_removed_below_the_limit() {
    let root = Root::new();
    let kept =
        [root.put(root.paths().plans().join("a.plan")), root.put(root.paths().undo().join("1/journal"))];
    assert!(limit(&root.settings).is_empty());
    assert!(kept.iter().all(|path| path.exists()));
    let measured = SpaceUse::read(&root.paths()).unwrap().unwrap();
    assert!(measured.used >= 2 * BLOCK as u64, "{measured:?}");
    assert!(make_room(&root.settings).is_empty());
}

#[test]
fn the_order_is_fixed_and_ends_when_enough_is_free() {
    let mut root = Root::new();
    let paths = root.paths();
    let steps = [
        root.put(paths.history_store_old().join("db")),
        root.put(paths.undo().join("20261116T084512-00000/journal")),
        root.put(paths.undo().join("20261116T084513-00000/journal")),
        root.put(paths.plans().join("a.plan")),
        root.put(paths.repository().join("objects/pack/a")),
        root.put(paths.downloads().join("a")),
    ];
    let last = root.put(paths.undo().join("20261116T084514-00000/journal"));
    for removed in 1..=steps.len() {
        let warnings = root.limit_to_less();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("space was short: removed"), "{warnings:?}");
        for (n, path) in steps.iter().enumerate() {
            assert_eq!(path.exists(), n >= removed, "{} after {removed}", path.display());
        }
    }
    assert!(last.exists(), "the last run can be reverted");
}

#[test]
fn what_matters_stays_and_the_largest_is_named() {
    let mut root = Root::new();
    let paths = root.paths();
    let kept = [
        paths.floor(),
        paths.floor_copy(),
        paths.phase(),
        paths.watchdog(),
        paths.key(),
        paths.pause(),
        paths.slot("1.0").join("zagent"),
        paths.backups().join("etc/passwd"),
        paths.audit(),
        paths.generation("1-abc").join("tree/top.sls"),
        paths.memory(),
    ];
    for path in &kept {
        root.put(path.clone());
    }
    root.put(paths.slot("1.0").join("more"));
    std::os::unix::fs::symlink("generations/1-abc", paths.current()).unwrap();
    root.settings.keep_bytes = 1;
    let warnings = limit(&root.settings);
    assert!(kept.iter().all(|path| path.exists()));
    let told = warnings.last().unwrap();
    assert!(told.contains("nothing more can be removed") && told.contains("slots/1.0"), "{told}");
}

#[test]
fn a_run_that_is_going_on_keeps_its_journals() {
    let mut root = Root::new();
    let paths = root.paths();
    let journals = [root.put(paths.undo().join("1/journal")), root.put(paths.undo().join("2/journal"))];
    let run = zagent_run::NoRun::claim(&paths).unwrap();
    let warnings = root.limit_to_less();
    assert!(journals.iter().all(|path| path.exists()), "{warnings:?}");
    drop(run);
    root.limit_to_less();
    assert_eq!(journals.map(|path| path.exists()), [false, true]);
}
