//! A host, its states and the agent's root in a scratch directory, for tests of the built program.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a fixture uses the machine directly, and has failed its test when it cannot"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The program.
const ZAGENT: &str = env!("CARGO_BIN_EXE_zagent");

pub(crate) struct Site {
    dir: TempDir,
}

impl Site {
    /// An empty host; `$D` in the SLS is its directory.
    pub(crate) fn new(sls: &str) -> Self {
        // In memory where possible: these tests kill a process, not the machine.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let site = Self { dir: tempfile::Builder::new().prefix("zagent-site-").tempdir_in(place).unwrap() };
        for name in ["host", "states"] {
            fs::create_dir(site.path(name)).unwrap();
        }
        fs::write(site.path("zagent.yaml"), format!("root: {}\n", site.path("root").display())).unwrap();
        let sls = sls.replace("$D", &site.path("host").display().to_string());
        let sls = sls.replace("$RUN", &format!("{ZAGENT} {}", site.words(&[]).join(" ")));
        fs::write(site.path("states/all.sls"), sls).unwrap();
        site
    }

    /// A path in the scratch directory: `host/…`, `root/…`.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    fn words(&self, more: &[&str]) -> Vec<String> {
        let at = |name: &str| self.path(name).display().to_string();
        // A revert undoes what a run noted, whatever SLS it came from.
        let sls: &[&str] = if more.contains(&"--revert") { &[] } else { &["--sls", "all"] };
        let words =
            ["run", "--once", "--id", "node", "--timeout", "60s"].into_iter().chain(sls.iter().copied());
        let paths = ["--states".to_owned(), at("states"), "--config".to_owned(), at("zagent.yaml")];
        words.map(str::to_owned).chain(paths).collect()
    }

    /// The command that runs the SLS; it prints JSON by default.
    pub(crate) fn run(&self, more: &[&str]) -> Command {
        let mut command = Command::new(ZAGENT);
        command.args(self.words(more)).args(more);
        if !more.contains(&"--out") {
            command.args(["--out", "json"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Output of the history, as JSON.
    pub(crate) fn history(&self, more: &[&str]) -> Output {
        let mut command = Command::new(ZAGENT);
        command.args(["history", "--out", "json", "--config"]).arg(self.path("zagent.yaml")).args(more);
        command.output().unwrap()
    }
}

/// The report that a run printed.
pub(crate) fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        panic!("{error}: {}\n{out}\n{err}", output.status)
    })
}
