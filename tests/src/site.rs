//! One SLS in, the result of a run on its own host out: states, host and the agent's root are in a scratch directory.
//!
//! Nothing outside the scratch directory is touched, and a run that hangs is stopped and reported.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Map, Value};
use tempfile::TempDir;

/// Stands for the host's directory in an SLS and in expected output.
pub const HOST: &str = "$D";
/// The time limit of a run.
const PATIENCE: &str = "60s";

/// A host, the states for it, and an agent.
#[derive(Debug)]
pub struct Site {
    dir: TempDir,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The exit code.
    pub exit: u8,
    /// The report, or the errors.
    pub report: Value,
    /// The other output.
    pub err: String,
}

impl Site {
    /// A host with nothing on it; `$D` in the SLS is its directory.
    ///
    /// # Panics
    /// When the scratch directory cannot be created.
    #[must_use]
    pub fn new(sls: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("zagent-site-").tempdir().expect("a scratch directory");
        let site = Self { dir };
        for name in ["host", "states"] {
            fs::create_dir(site.dir.path().join(name)).expect("a directory");
        }
        let root = site.dir.path().join("root");
        let own = format!("root: {}\n", root.display());
        fs::write(site.dir.path().join("zagent.yaml"), own).expect("a configuration");
        site.declare(sls);
        site
    }

    /// Replaces the SLS.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn declare(&self, sls: &str) {
        let text = sls.replace(HOST, &self.host().to_string_lossy());
        fs::write(self.dir.path().join("states/all.sls"), text).expect("an SLS");
    }

    /// The host's directory.
    #[must_use]
    pub fn host(&self) -> PathBuf {
        self.dir.path().join("host")
    }

    /// A path on the host.
    #[must_use]
    pub fn at(&self, name: &str) -> PathBuf {
        self.host().join(name)
    }

    /// The agent's own directory.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// The content of a file on the host; empty when it does not exist.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_default()
    }

    /// Creates named pipes: opening one end waits for the other end.
    ///
    /// # Panics
    /// When one cannot be created.
    pub fn pipes(&self, names: &[&str]) {
        for name in names {
            mknodat(CWD, self.at(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        }
    }

    /// Runs the SLS in this process.
    ///
    /// # Panics
    /// When the program prints no report.
    pub fn run(&self, more: &[&str]) -> Ran {
        let mut words = vec!["run", "--once", "--out", "json"];
        if !more.contains(&"--timeout") {
            words.extend(["--timeout", PATIENCE]);
        }
        let states = self.dir.path().join("states").to_string_lossy().into_owned();
        words.extend(["--states", &states, "--id", "node"]);
        // A revert undoes what a run noted, whatever SLS it came from.
        if !more.contains(&"--revert") {
            words.extend(["--sls", "all"]);
        }
        words.extend(more);
        self.call(&words)
    }

    /// Runs any command of this site's agent in this process.
    ///
    /// # Panics
    /// When the program prints no JSON.
    pub fn call(&self, words: &[&str]) -> Ran {
        let mut args = vec!["zagent".to_owned()];
        args.extend(words.iter().map(|word| (*word).to_owned()));
        args.extend([
            "--config".to_owned(),
            self.dir.path().join("zagent.yaml").to_string_lossy().into_owned(),
        ]);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let exit =
            zagent::cli::run(args.into_iter().map(Into::into), &mut out, &mut err, (false, false)) as u8;
        let err = String::from_utf8_lossy(&err).into_owned();
        let report = serde_json::from_slice(&out)
            .unwrap_or_else(|error| panic!("{error}: {}\n{err}", String::from_utf8_lossy(&out)));
        Ran { exit, report, err }
    }
}

impl Ran {
    /// All states, in the order of the report.
    ///
    /// # Panics
    /// When there was no run.
    pub fn states(&self) -> &Map<String, Value> {
        self.report["states"].as_object().unwrap_or_else(|| panic!("{:#}\n{}", self.report, self.err))
    }

    /// The state of an id.
    ///
    /// # Panics
    /// When there is none.
    pub fn state(&self, id: &str) -> &Value {
        let found = self.states().values().find(|state| state["__id__"] == id);
        found.unwrap_or_else(|| panic!("no `{id}` in {:#}", self.report))
    }

    /// The result of a state: `changed`, `unchanged`, `would change`, `unknown`, `failed`, or `skipped:` and why.
    pub fn ended(&self, id: &str) -> String {
        ended(self.state(id))
    }

    /// Every id and its result, in the order of the report, one per line.
    pub fn table(&self) -> String {
        let line =
            |state: &Value| format!("{}: {}", state["__id__"].as_str().unwrap_or_default(), ended(state));
        self.states().values().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The ids in the order of the report.
    pub fn order(&self) -> Vec<&str> {
        self.states().values().filter_map(|state| state["__id__"].as_str()).collect()
    }
}

fn ended(state: &Value) -> String {
    if state["skipped"] == true {
        return format!("skipped: {}", state["skip_reason"].as_str().unwrap_or_default());
    }
    let is_changed = state["changes"].as_object().is_some_and(|changes| !changes.is_empty());
    let word = match (state["result"].as_bool(), is_changed) {
        (Some(false), _) => "failed",
        (Some(true), true) => "changed",
        (Some(true), false) => "unchanged",
        (None, _) if state["details"]["unknown"] == true => "unknown",
        (None, _) => "would change",
    };
    word.to_owned()
}

/// The lines of a log on the host, by their text.
#[must_use]
pub fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}
