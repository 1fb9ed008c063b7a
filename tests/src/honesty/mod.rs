//! A seed in, how well `--test` predicted a run out: a random tree and host, a dry run, a run, and the two compared state by state.
//!
//! A tree has no races: a state that reads or writes what a command touches waits for that command by a requisite, so that only
//! the prediction can be at fault. The same seed gives the same tree and host.

mod tree;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub use tree::Flavour;

use crate::trees::Dice;

/// How many states were predicted, and how well.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// All states.
    pub states: usize,
    /// States that the dry run could not predict.
    pub unknown: usize,
    /// Predictions that were wrong, each in a line.
    pub wrong: Vec<String>,
    /// Commands that were predicted to run, and failed.
    pub failed_commands: usize,
    /// How often each reason was given for an unknown state.
    pub reasons: BTreeMap<String, usize>,
}

impl Tally {
    /// Adds another one.
    pub fn add(&mut self, other: Self) {
        self.states += other.states;
        self.unknown += other.unknown;
        self.failed_commands += other.failed_commands;
        self.wrong.extend(other.wrong);
        for (reason, count) in other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
    }

    /// The shares of wrong and unknown states, in thousandths of a percent.
    #[must_use]
    pub fn shares(&self) -> (usize, usize) {
        let share = |count: usize| count * 100_000 / self.states.max(1);
        (share(self.wrong.len()), share(self.unknown))
    }

    /// The figures in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let (wrong, unknown) = self.shares();
        let percent = |share: usize| format!("{}.{:03} %", share / 1000, share % 1000);
        format!(
            "{} states: {} wrong ({}), {} unknown ({}); {} commands ran and failed",
            self.states,
            self.wrong.len(),
            percent(wrong),
            self.unknown,
            percent(unknown),
            self.failed_commands
        )
    }
}

/// A tree, a host and the agent's own directory.
#[derive(Debug)]
pub struct Trial {
    dir: tempfile::TempDir,
    seed: u64,
}

impl Trial {
    /// Writes the tree and the host of a seed.
    ///
    /// # Panics
    /// When they cannot be written.
    #[must_use]
    pub fn new(seed: u64, flavour: Flavour) -> Self {
        let dir = tempfile::Builder::new().prefix("zagent-honesty-").tempdir().expect("a scratch directory");
        let trial = Self { dir, seed };
        std::fs::create_dir_all(trial.path("states")).expect("a directory");
        std::fs::write(trial.path("states/top.sls"), "base:\n  '*':\n    - all\n").expect("a top file");
        let sls = tree::sls(&mut Dice::new(seed), &trial.path("host"), flavour);
        std::fs::write(trial.path("states/all.sls"), sls).expect("an SLS");
        let config = format!("root: {}\n", trial.path("root").display());
        std::fs::write(trial.path("zagent.yaml"), config).expect("a configuration");
        trial.reset();
        trial
    }

    /// Makes the host as it was at first.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn reset(&self) {
        let _ = std::fs::remove_dir_all(self.path("host"));
        tree::host(&mut Dice::new(self.seed ^ 0x5eed), &self.path("host")).expect("a host");
    }

    /// A path of this trial.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The SLS.
    #[must_use]
    pub fn sls(&self) -> String {
        std::fs::read_to_string(self.path("states/all.sls")).unwrap_or_default()
    }

    /// Every state of one run, by its tag.
    ///
    /// # Panics
    /// When the program prints no report.
    #[must_use]
    pub fn run(&self, more: &[&str]) -> BTreeMap<String, Value> {
        let (states, config) = (self.path("states"), self.path("zagent.yaml"));
        let (states, config) = (states.display().to_string(), config.display().to_string());
        let mut args = vec!["zagent", "run", "--once", "--out", "json", "--id", "node"];
        args.extend(["--states", &states, "--config", &config]);
        args.extend(more);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        zagent::cli::run(args.iter().map(Into::into), &mut out, &mut err, (false, false));
        let report: Value = serde_json::from_slice(&out).unwrap_or_else(|e| {
            let (out, err) = (String::from_utf8_lossy(&out), String::from_utf8_lossy(&err));
            panic!("SEED={}: {e}: {out}{err}\n{}", self.seed, self.sls())
        });
        let states = report["states"].as_object();
        let states = states.unwrap_or_else(|| panic!("SEED={}: {report:#}\n{}", self.seed, self.sls()));
        states.iter().map(|(tag, state)| (tag.clone(), state.clone())).collect()
    }

    /// The host as text, one line per path.
    #[must_use]
    pub fn host_listing(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        list_dir(&self.path("host"), &mut all);
        all
    }

    /// Predicts, runs and compares.
    #[must_use]
    pub fn compare(&self, more: &[&str]) -> Tally {
        let before = self.host_listing();
        let predicted = self.run(&[&["--test"], more].concat());
        let mut tally = Tally::default();
        if before != self.host_listing() {
            tally.wrong.push(format!("SEED={}: the dry run changed the host", self.seed));
        }
        let done = self.run(more);
        let tags: std::collections::BTreeSet<&String> = predicted.keys().chain(done.keys()).collect();
        for tag in tags {
            self.compare_state(tag, predicted.get(tag), done.get(tag), &mut tally);
        }
        tally
    }

    fn compare_state(&self, tag: &str, said: Option<&Value>, did: Option<&Value>, tally: &mut Tally) {
        tally.states += 1;
        let (predicted, ended) =
            (said.map_or_else(|| "absent".into(), outcome), did.map_or_else(|| "absent".into(), outcome));
        if predicted == "unknown" {
            tally.unknown += 1;
            let comment = said.and_then(|s| s["comment"].as_str()).unwrap_or_default();
            let reason = comment.lines().next().unwrap_or_default();
            let reason: String = reason.split('`').step_by(2).collect::<Vec<_>>().join("`…`");
            *tally.reasons.entry(reason.chars().take(90).collect()).or_default() += 1;
            return;
        }
        if predicted == "changed" && ended == "failed" && tag.starts_with("cmd_|-") {
            tally.failed_commands += 1;
            return;
        }
        if predicted != ended {
            let mut line = format!("SEED={} {tag}: predicted {predicted}, {ended}", self.seed);
            for one in [said, did] {
                let comment = one.and_then(|s| s["comment"].as_str()).unwrap_or_default();
                let _ = write!(line, " / {}", comment.replace('\n', " "));
            }
            tally.wrong.push(line);
        }
    }
}

/// The outcome of a state, in a form in which a prediction and a run can be compared.
fn outcome(state: &Value) -> String {
    if state["skipped"] == true {
        return format!("skipped {}", state["skip_reason"].as_str().unwrap_or_default());
    }
    let is_changed = state["changes"].as_object().is_some_and(|c| !c.is_empty());
    let word = match state["result"].as_bool() {
        None if state["details"]["unknown"] == true => "unknown",
        None => "changed",
        Some(false) => "failed",
        Some(true) if is_changed => "changed",
        Some(true) => "unchanged",
    };
    word.to_owned()
}

fn list_dir(dir: &Path, out: &mut BTreeMap<PathBuf, String>) {
    use std::os::unix::fs::PermissionsExt;
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(meta) = path.symlink_metadata() else { continue };
        let mode = meta.permissions().mode() & 0o7777;
        let shown = if meta.is_symlink() {
            format!("link {:?}", std::fs::read_link(&path).ok())
        } else if meta.is_dir() {
            list_dir(&path, out);
            format!("dir {mode:o}")
        } else {
            format!("file {mode:o} {:?}", std::fs::read_to_string(&path).ok())
        };
        out.insert(path, shown);
    }
}
