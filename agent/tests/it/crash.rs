//! kill -9 at random points of a run with 200 file states: no half-written file, no lost undo entry, undo
//! journal and history open again; a revert restores the host, or the next run converges, and no leftovers
//! remain.
//!
//! `RUN_POINTS=n` sets the number of points.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot read or write its files has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::site::{Site, report};

const POINTS: usize = 500;
const STATES: usize = 200;

/// Content of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    what: String,
    owner: (u32, u32),
    /// Of files only: adding an entry to a directory changes its time.
    changed: Option<(i64, i64)>,
}

type Tree = BTreeMap<String, Entry>;

/// Random numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// Some lines that differ per word.
fn text(word: &str) -> String {
    (0..40).fold(String::new(), |text, n| text + &format!("{word} line {n}\n"))
}

/// New, replaced, changed and removed files, directories, links, trees and edits, twenty of each.
fn sls() -> String {
    let mut sls = String::new();
    let block =
        |word: &str| text(word).lines().fold("|\n".to_owned(), |all, line| all + "        " + line + "\n");
    for n in 0..STATES {
        let new = block(&format!("new {n}"));
        let state = match n % 10 {
            0 => format!("managed:\n    - name: $D/new-{n}\n    - mode: '0640'\n    - contents: {new}"),
            1 => format!("managed:\n    - name: $D/old-{n}\n    - mode: '0644'\n    - contents: {new}"),
            2 => format!("managed:\n    - name: $D/mode-{n}\n    - mode: '0600'\n    - replace: false\n"),
            3 => format!("absent:\n    - name: $D/gone-{n}\n"),
            4 => format!("directory:\n    - name: $D/dir-{n}\n    - mode: '0750'\n"),
            5 => format!("managed:\n    - name: $D/dir-{}/conf\n    - contents: {new}", n - 1),
            6 => format!("symlink:\n    - name: $D/link-{n}\n    - target: new-{n}\n"),
            7 => format!("append:\n    - name: $D/log-{n}\n    - text: one more {n}\n"),
            8 => format!("absent:\n    - name: $D/tree-{n}\n"),
            _ => format!(
                "managed:\n    - name: $D/deep-{n}/x/y/file\n    - makedirs: true\n    - contents: {new}"
            ),
        };
        writeln!(sls, "s{n}:\n  file.{state}").unwrap();
    }
    sls
}

/// Sets up the host as it is before every run.
fn fill(host: &Path) {
    let put = |name: String, text: &str, mode: u32| {
        let path = host.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    let _ = fs::remove_dir_all(host);
    fs::create_dir(host).unwrap();
    for n in 0..STATES {
        let old = text(&format!("old {n}"));
        match n % 10 {
            1 => put(format!("old-{n}"), &old, 0o600),
            2 => put(format!("mode-{n}"), &old, 0o644),
            3 => put(format!("gone-{n}"), &old, 0o4755),
            6 => symlink("old", host.join(format!("link-{n}"))).unwrap(),
            7 => put(format!("log-{n}"), &old, 0o640),
            8 => {
                fs::create_dir_all(host.join(format!("tree-{n}/a/b"))).unwrap();
                fs::set_permissions(host.join(format!("tree-{n}/a")), Permissions::from_mode(0o700)).unwrap();
                put(format!("tree-{n}/one"), &old, 0o644);
                put(format!("tree-{n}/a/b/two"), &old, 0o600);
            }
            _ => {}
        }
    }
}

fn snapshot(root: &Path) -> Tree {
    fn walk(root: &Path, dir: &Path, tree: &mut Tree) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let mode = meta.mode() & 0o7777;
            let what = if meta.is_symlink() {
                format!("link to {}", fs::read_link(&path).unwrap().display())
            } else if meta.is_dir() {
                walk(root, &path, tree);
                format!("directory {mode:04o}")
            } else {
                format!("file {mode:04o} {}", String::from_utf8_lossy(&fs::read(&path).unwrap()))
            };
            let changed = meta.is_file().then(|| (meta.mtime(), meta.mtime_nsec()));
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            tree.insert(name, Entry { what, owner: (meta.uid(), meta.gid()), changed });
        }
    }
    let mut tree = Tree::new();
    walk(root, root, &mut tree);
    tree
}

/// Equal except for times.
fn alike(a: Option<&Entry>, b: Option<&Entry>) -> bool {
    a.map(|e| (&e.what, e.owner)) == b.map(|e| (&e.what, e.owner))
}

/// The first path that two trees differ in.
fn difference(
    expected: &Tree,
    got: &Tree,
    same: impl Fn(Option<&Entry>, Option<&Entry>) -> bool,
) -> Option<String> {
    let all: BTreeSet<&String> = expected.keys().chain(got.keys()).collect();
    let path = all.into_iter().find(|path| !same(expected.get(*path), got.get(*path)))?;
    let short = |entry: Option<&Entry>| format!("{entry:?}").chars().take(160).collect::<String>();
    Some(format!("{path}: expected {}, got {}", short(expected.get(path)), short(got.get(path))))
}

/// What failed in a run, or why there was none.
fn failures(report: &Value) -> String {
    let Some(states) = report["states"].as_object() else { return report.to_string() };
    let failed = states.values().filter(|state| state["result"] == false);
    failed.map(|state| state["comment"].to_string()).collect::<Vec<_>>().join(", ")
}

/// Temporary name of an entry that was not moved into place.
fn is_leftover(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.starts_with(".zagent-") && name.ends_with(".new")
}

/// One host that is set up again and again.
struct Scene {
    site: Site,
    before: Tree,
    after: Tree,
}

/// Number of entries that differed when the run was killed, or an error.
type Told = Result<usize, String>;

impl Scene {
    fn new() -> Self {
        let site = Site::new(&sls());
        let host = site.path("host");
        fill(&host);
        let before = snapshot(&host);
        let output = site.run(&[]).output().unwrap();
        assert_eq!(report(&output)["changed"], STATES, "{}", String::from_utf8_lossy(&output.stdout));
        Self { before, after: snapshot(&host), site }
    }

    fn journals(&self) -> BTreeSet<String> {
        let all = fs::read_dir(self.site.path("root/state/undo")).into_iter().flatten().flatten();
        all.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Kills a run after this many words of output, or after a delay.
    fn kill(&self, words: &[&str], dice: &mut Dice) {
        let mut command = self.site.run(&[words, &["--out", "ndjson"]].concat());
        let (lines, micros) = match dice.below(10) {
            0 => (0, dice.below(60_000)),
            1 => (STATES, dice.below(20_000)),
            _ => (1 + usize::try_from(dice.below(STATES as u64)).unwrap(), dice.below(1_000)),
        };
        let mut run = command.spawn().unwrap();
        let heard =
            BufReader::new(run.stdout.take().unwrap()).lines().take(lines).map_while(Result::ok).count();
        let until = Instant::now() + Duration::from_micros(micros);
        while Instant::now() < until && heard == lines {
            std::hint::spin_loop();
        }
        run.kill().unwrap();
        run.wait().unwrap();
    }

    fn point(&mut self, number: usize) -> Told {
        let host = self.site.path("host");
        fill(&host);
        self.before = snapshot(&host);
        let mut dice = Dice(number as u64);
        let known = self.journals();
        self.kill(&[], &mut dice);
        let moved = self.judge(&snapshot(&host))?;
        if number.is_multiple_of(5) {
            self.open_history()?;
        }
        let new: Vec<String> = self.journals().difference(&known).cloned().collect();
        match new.as_slice() {
            [] if moved > 0 => return Err(format!("{moved} entries changed and nothing was noted")),
            [run] if number.is_multiple_of(2) => self.undo(run, &mut dice)?,
            _ => self.converge()?,
        }
        Ok(moved)
    }

    fn open_history(&self) -> Result<(), String> {
        let output = self.site.history(&[]);
        if output.status.success() && serde_json::from_slice::<Value>(&output.stdout).is_ok() {
            return Ok(());
        }
        Err(format!("the history does not open: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Checks that every entry is exactly as before or exactly as it should be; returns how many differ.
    fn judge(&self, tree: &Tree) -> Told {
        let mut moved = 0;
        let all: BTreeSet<&String> = self.before.keys().chain(self.after.keys()).chain(tree.keys()).collect();
        for path in all.into_iter().filter(|path| !is_leftover(path)) {
            let [before, now, after] = [&self.before, tree, &self.after].map(|tree| tree.get(path));
            if alike(now, before) {
                continue;
            }
            if !alike(now, after) {
                return Err(format!("half-done: {path}: {now:?}"));
            }
            moved += 1;
        }
        Ok(moved)
    }

    /// Reverts the killed run; now and then the revert is killed too, and repeated.
    fn undo(&self, run: &str, dice: &mut Dice) -> Result<(), String> {
        let host = self.site.path("host");
        if dice.below(4) == 0 {
            self.kill(&["--revert", run], dice);
            self.judge(&snapshot(&host)).map_err(|error| format!("while reverting: {error}"))?;
        }
        let output = self.site.run(&["--revert", run]).output().unwrap();
        if report(&output)["success"] != true {
            return Err(format!("the revert failed: {}", failures(&report(&output))));
        }
        let is_same = |a: Option<&Entry>, b: Option<&Entry>| a == b;
        let left = difference(&self.before, &snapshot(&host), is_same);
        left.map_or(Ok(()), |left| Err(format!("after the revert: {left}")))
    }

    /// The next run converges the host, and the one after has nothing to do.
    fn converge(&self) -> Result<(), String> {
        for round in ["the next run", "the run after"] {
            let output = self.site.run(&[]).output().unwrap();
            let report = report(&output);
            if report["success"] != true {
                return Err(format!("{round} failed: {}", failures(&report)));
            }
            if let Some(left) = difference(&self.after, &snapshot(&self.site.path("host")), alike) {
                return Err(format!("after {round}: {left}"));
            }
            if round == "the run after" && report["changed"] != 0 {
                return Err(format!("{round} changed {} states", report["changed"]));
            }
        }
        Ok(())
    }
}

#[test]
fn a_killed_run_leaves_nothing_half_done() {
    let points = std::env::var("RUN_POINTS").ok().and_then(|n| n.parse().ok()).unwrap_or(POINTS);
    let next = AtomicUsize::new(0);
    let told: Mutex<Vec<(usize, Told)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                let mut scene = Scene::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= points {
                        return;
                    }
                    let point = scene.point(number);
                    if point.is_err() {
                        scene = Scene::new();
                    }
                    told.lock().unwrap().push((number, point));
                }
            });
        }
    });
    let told = told.into_inner().unwrap();
    let wrong: Vec<String> =
        told.iter().filter_map(|(n, t)| Some(format!("point {n}: {}", t.as_ref().err()?))).collect();
    assert!(wrong.is_empty(), "{} of {points}\n{}", wrong.len(), wrong.join("\n"));
    // A point before the first change or after the last one proves little.
    let all = told.iter().filter_map(|(_, t)| t.as_ref().ok()).max().copied().unwrap_or(0);
    let amid = told.iter().filter(|(_, t)| t.as_ref().is_ok_and(|moved| (1..all).contains(moved))).count();
    assert!(points < 20 || amid * 2 > points, "only {amid} of {points} runs were killed amid their work");
}
