//! Random trees, run on random hosts: the schedules agree, a dry run predicts correctly, and a converged host stays
//! converged. A failing pair prints its seed; `SEED=n` runs only that one, `PAIRS=n` sets the number of pairs.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot write its files has failed")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use zagent_tests::trees::{self, Dice, Kinds};

/// A tree and a host on disk.
struct Pair {
    dir: tempfile::TempDir,
}

impl Pair {
    /// The pair of a seed; the host has the same path for every copy, so that all trees name it in the same way.
    fn new(seed: u64, most: usize, kinds: Kinds) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let pair = Self { dir };
        let mut dice = Dice::new(seed);
        let count = 1 + dice.below(most);
        std::fs::create_dir_all(pair.path("states")).unwrap();
        std::fs::write(pair.path("states/top.sls"), "base:\n  '*':\n    - all\n").unwrap();
        let sls = trees::sls(&mut dice, count, &pair.path("host"), kinds);
        std::fs::write(pair.path("states/all.sls"), sls).unwrap();
        std::fs::write(pair.path("zagent.yaml"), format!("root: {}\n", pair.path("root").display())).unwrap();
        pair.fill(seed);
        pair
    }

    /// Restores the initial host.
    fn fill(&self, seed: u64) {
        let _ = std::fs::remove_dir_all(self.path("host"));
        trees::host(&mut Dice::new(seed ^ 0x5eed), &self.path("host")).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, more: &[&str]) -> BTreeMap<String, Value> {
        let (states, config) = (self.path("states"), self.path("zagent.yaml"));
        let mut args = vec!["zagent", "run", "--once", "--out", "json", "--id", "node"];
        let (states, config) = (states.display().to_string(), config.display().to_string());
        args.extend(["--states", &states, "--config", &config]);
        args.extend(more);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        zagent::cli::run(args.iter().map(Into::into), &mut out, &mut err, (false, false));
        let report: Value = serde_json::from_slice(&out).unwrap_or_else(|e| {
            panic!("{e}: {}{}", String::from_utf8_lossy(&out), String::from_utf8_lossy(&err))
        });
        let states = report["states"].as_object().unwrap_or_else(|| panic!("{report:#}"));
        states.iter().map(|(tag, state)| (tag.clone(), state.clone())).collect()
    }

    fn sls(&self) -> String {
        std::fs::read_to_string(self.path("states/all.sls")).unwrap()
    }
}

/// Everything below a directory: kind, mode, content.
fn snapshot(dir: &Path, out: &mut BTreeMap<PathBuf, String>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        let mode = meta.permissions().mode() & 0o7777;
        let shown = if meta.is_symlink() {
            format!("link {}", std::fs::read_link(&path).unwrap().display())
        } else if meta.is_dir() {
            snapshot(&path, out);
            format!("dir {mode:o}")
        } else {
            format!("file {mode:o} {:?}", std::fs::read_to_string(&path).unwrap())
        };
        out.insert(path, shown);
    }
}

/// The result of a state, in a form that two runs can be compared by.
fn ended(state: &Value) -> String {
    let changed = state["changes"].as_object().is_some_and(|c| !c.is_empty());
    match (&state["result"], state["skipped"].as_bool()) {
        (_, Some(true)) => format!("skipped {}", state["skip_reason"]),
        (Value::Null, _) if state["comment"].as_str().is_some_and(|c| c.starts_with("unknown:")) => {
            "unknown".into()
        }
        (Value::Null, _) => "changed".into(),
        (Value::Bool(false), _) => "failed".into(),
        _ if changed => "changed".into(),
        _ => "unchanged".into(),
    }
}

/// Runs a test on many seeds, two at a time; every failing seed is named.
fn each_seed(default: u64, test: impl Fn(u64) -> Result<(), String> + Sync) {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let seeds: Vec<u64> = match number("SEED") {
        Some(seed) => vec![seed],
        None => (0..number("PAIRS").unwrap_or(default)).collect(),
    };
    let halves: Vec<Vec<u64>> =
        (0..2).map(|h| seeds.iter().copied().filter(|s| s % 2 == h).collect()).collect();
    let failed: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = halves
            .iter()
            .map(|half| {
                scope.spawn(|| {
                    half.iter()
                        .filter_map(|s| test(*s).err().map(|e| format!("SEED={s}: {e}")))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{} of {} pairs failed\n{}", failed.len(), seeds.len(), failed.join("\n"));
}

fn difference(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for key in a.keys().chain(b.keys()) {
        let (x, y) = (a.get(key), b.get(key));
        if x != y && !text.contains(key.as_str()) {
            let _ = writeln!(text, "  {key}: {x:?} against {y:?}");
        }
    }
    text
}

/// Runs the same states on the same host with two schedules; fails when a result or the host differs.
fn compare_schedules(seed: u64, states: usize, schedules: [&str; 2]) -> Result<(), String> {
    let pair = Pair::new(seed, states, Kinds::All);
    let seen = schedules.map(|schedule| {
        pair.fill(seed);
        let states = pair.run(&["--schedule", schedule]);
        let results: BTreeMap<String, String> = states.iter().map(|(t, s)| (t.clone(), ended(s))).collect();
        let mut host = BTreeMap::new();
        snapshot(&pair.path("host"), &mut host);
        let host = host.into_iter().map(|(p, s)| (p.display().to_string(), s)).collect();
        (results, host)
    });
    let text = difference(&seen[0].0, &seen[1].0) + &difference(&seen[0].1, &seen[1].1);
    if text.is_empty() { Ok(()) } else { Err(format!("\n{text}{}", pair.sls())) }
}

#[test]
fn levels_and_eager_agree_on_every_state_and_on_the_host() {
    each_seed(300, |seed| compare_schedules(seed, 200, ["levels", "eager"]));
}

/// What the schedule `declared` promises: the host and every result are those of the written order, one state at a time.
#[test]
fn declared_ends_as_ordered_does() {
    each_seed(150, |seed| compare_schedules(seed, 60, ["ordered", "declared"]));
}

/// The time that each schedule takes for the same work; `just schedules` prints it for more of it.
#[test]
fn declared_and_ordered_do_the_same_work() {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let count = number("FILES").unwrap_or(6);
    let dir = tempfile::tempdir().unwrap();
    let mut sls = String::new();
    for n in 0..count {
        let file = dir.path().join(format!("f{n}")).display().to_string();
        let _ = write!(sls, "s{n}:\n  file.managed:\n    - name: {file}\n    - contents: text {n}\n");
    }
    let mut took = Vec::new();
    for schedule in ["ordered", "declared"] {
        let site = zagent_tests::site::Site::new(&sls);
        let begun = std::time::Instant::now();
        let ran = site.run(&["--schedule", schedule]);
        took.push(begun.elapsed());
        assert_eq!(ran.report["failed"], 0, "{schedule}: {:#}", ran.report);
        for n in 0..count {
            std::fs::remove_file(dir.path().join(format!("f{n}"))).expect("a file that the run made");
        }
    }
    let ratio = took[1].as_secs_f64() / took[0].as_secs_f64();
    eprintln!("{count} new files: ordered {:?}, declared {:?}, ratio {ratio:.2}", took[0], took[1]);
}

#[test]
fn a_dry_run_predicts_the_run_or_reports_unknown() {
    each_seed(1000, |seed| {
        let pair = Pair::new(seed, 30, Kinds::All);
        let mut before = BTreeMap::new();
        snapshot(&pair.path("host"), &mut before);
        let foretold = pair.run(&["--test"]);
        let mut after = BTreeMap::new();
        snapshot(&pair.path("host"), &mut after);
        if before != after {
            return Err("a dry run changed the host".into());
        }
        let done = pair.run(&[]);
        let mut text = String::new();
        for (tag, state) in &done {
            let (said, did) = (foretold.get(tag).map_or("nothing".into(), ended), ended(state));
            if said != did && said != "unknown" {
                let _ = writeln!(
                    text,
                    "  {tag}: said {said}, did {did}: {} / {}",
                    foretold[tag]["comment"], state["comment"]
                );
            }
        }
        if text.is_empty() { Ok(()) } else { Err(format!("\n{text}{}", pair.sls())) }
    });
}

#[test]
fn a_second_run_changes_nothing() {
    each_seed(1000, |seed| {
        let pair = Pair::new(seed, 30, Kinds::Lasting);
        pair.run(&[]);
        let second = pair.run(&[]);
        let changed: Vec<_> = second.iter().filter(|(_, s)| ended(s) == "changed").collect();
        if changed.is_empty() { Ok(()) } else { Err(format!("\n{changed:#?}\n{}", pair.sls())) }
    });
}

#[test]
fn dry_runs_are_not_all_unknown() {
    // A dry run that always reports unknown would pass the test above.
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..100 {
        for state in Pair::new(seed, 30, Kinds::All).run(&["--test"]).values() {
            *counts.entry(ended(state)).or_default() += 1;
        }
    }
    let all: usize = counts.values().sum();
    let unknown = counts.get("unknown").copied().unwrap_or(0);
    assert!(unknown * 4 < all, "{counts:?}");
    for word in ["changed", "unchanged", "failed"] {
        assert!(counts.get(word).copied().unwrap_or(0) * 50 > all, "{word}: {counts:?}");
    }
}
