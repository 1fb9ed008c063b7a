//! A container with the agent installed and a repository that it follows in, the effect of a push out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::{Node, Server, eventually};

/// The time limit from a push until it is applied: a poll, a fetch and a run.
const SOON: Duration = Duration::from_secs(60);

/// The shipped program: `RELEASE_BIN`, else the output of `just dist`.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn program() -> PathBuf {
    let built = || {
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(target).join("dist/zagent")
    };
    let path = std::env::var_os("RELEASE_BIN").map_or_else(built, PathBuf::from);
    assert!(path.is_file(), "no {}: run `just dist`, or set RELEASE_BIN", path.display());
    path
}

/// A tree whose one state writes this text to /etc/motd.
#[must_use]
pub fn motd(words: &str) -> Vec<(&'static str, String)> {
    let sls = format!("/etc/motd:\n  file.managed:\n    - contents: {words}\n    - mode: '0644'\n");
    vec![("states/top.sls", "base: {'*': [motd]}\n".into()), ("states/motd.sls", sls)]
}

/// A container with the agent installed, and a repository that it follows.
#[derive(Debug)]
pub struct Scene {
    /// The container.
    pub node: Node,
    /// The repository.
    pub server: Server,
    url: String,
}

/// A line of the journal.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its syslog priority.
    pub priority: u8,
    /// Its message.
    pub text: String,
}

impl Scene {
    /// Boots and installs; `more` are further lines of the configuration.
    #[must_use]
    pub fn new(more: &str) -> Self {
        let (node, server) = (Node::boot(), Server::start());
        node.install(&program());
        let url = server.url(node.network().host());
        let scene = Self { node, server, url };
        scene.configure(more);
        scene
    }

    /// A container without the agent, and a repository that it could follow.
    #[must_use]
    pub fn without_agent(node: Node) -> Self {
        let server = Server::start();
        let url = server.url(node.network().host());
        Self { node, server, url }
    }

    /// The address of the repository, as the container sees it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Writes the configuration again.
    pub fn configure(&self, more: &str) {
        let own = format!(
            "source: {{remotes: [{{url: '{}'}}], poll: 1s, timeout: 15s}}\nrun: {{every: 10s}}\n{more}",
            self.url
        );
        self.node.write("/etc/zagent/conf.d/test.yaml", own);
    }

    /// Writes a drop-in for a unit, which is used from the next start.
    pub fn drop_in(&self, unit: &str, text: &str) {
        self.node.write(&format!("/etc/systemd/system/{unit}.d/test.conf"), text);
        self.node.must(&["systemctl", "daemon-reload"]);
    }

    /// Pushes a text for /etc/motd; returns the commit.
    pub fn push(&self, words: &str) -> String {
        self.server.push(&motd(words))
    }

    /// Waits until a file inside has this content.
    pub fn reads(&self, path: &str, words: &str) {
        eventually(&format!("{path} says {words}"), SOON, || {
            let found = self.node.text(path);
            if found.trim() == words { Ok(()) } else { Err(found) }
        });
    }

    /// Waits until /etc/motd has this text.
    pub fn converges(&self, words: &str) {
        self.reads("/etc/motd", words);
    }

    /// Waits until the status matches.
    pub fn says(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("the status says: {what}"), SOON, || {
            let said = self.node.run(&["zagent", "status", "--out", "json"]);
            let status: Value =
                serde_json::from_str(&said.out).map_err(|e| format!("{e}: {}{}", said.out, said.err))?;
            if holds(&status) { Ok(status) } else { Err(format!("{status:#}")) }
        })
    }

    /// Waits until the node is on a revision, which is the newest.
    pub fn is_on(&self, revision: &str) -> Value {
        self.says(&format!("on {revision}"), |s| {
            s["is_current"] == true && s["current"]["revision"] == revision && s["why_not"].is_null()
        })
    }

    /// Waits until a revision is known and refused, for this reason.
    pub fn holds_back(&self, revision: &str, why: &str) -> Value {
        self.says(&format!("{revision} is {why}"), |s| {
            s["why_not"]["revision"] == revision && s["why_not"]["why"] == why
        })
    }

    /// The text output of `zagent status`.
    #[must_use]
    pub fn page(&self) -> String {
        self.node.run(&["zagent", "status"]).out
    }

    /// The result of one doctor check: the verdict and the message.
    ///
    /// # Panics
    /// When there is no such check.
    #[must_use]
    pub fn doctor(&self, check: &str) -> (String, String) {
        let said = self.node.run(&["zagent", "doctor", "--out", "json"]);
        let report: Value = serde_json::from_str(&said.out).expect("the doctor's report");
        let found = report["checks"].as_array().expect("checks").iter().find(|c| c["check"] == check);
        let found = found.unwrap_or_else(|| panic!("no check {check}: {report:#}"));
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        (text("verdict"), text("message"))
    }

    /// A property of a unit.
    #[must_use]
    pub fn show(&self, unit: &str, property: &str) -> String {
        self.node.must(&["systemctl", "show", "-P", property, unit]).trim().to_owned()
    }

    /// Waits until a property of a unit has this value.
    pub fn shows(&self, unit: &str, property: &str, holds: impl Fn(&str) -> bool) -> String {
        eventually(&format!("{property} of {unit}"), SOON, || {
            let found = self.show(unit, property);
            if holds(&found) { Ok(found) } else { Err(found) }
        })
    }

    /// The messages of a unit, the oldest first; only those that systemd got from the unit itself.
    ///
    /// # Panics
    /// When the journal has an unexpected format.
    #[must_use]
    pub fn lines(&self, unit: &str) -> Vec<Line> {
        let out = self.node.must(&["journalctl", "--no-pager", "-o", "json", "-t", "zagent", "-u", unit]);
        out.lines()
            .map(|line| {
                let record: Value = serde_json::from_str(line).expect("a record of the journal");
                let priority = record["PRIORITY"].as_str().and_then(|p| p.parse().ok()).expect("a priority");
                // Fields with control characters are number arrays.
                let byte = |b: &Value| u8::try_from(b.as_u64()?).ok();
                let text = match &record["MESSAGE"] {
                    Value::Array(list) => {
                        let bytes: Vec<u8> = list.iter().filter_map(byte).collect();
                        String::from_utf8_lossy(&bytes).into_owned()
                    }
                    other => other.as_str().unwrap_or_default().to_owned(),
                };
                Line { priority, text }
            })
            .collect()
    }

    /// Waits until a unit logged a line with this text; returns it.
    pub fn hears(&self, unit: &str, words: &str) -> Line {
        eventually(&format!("{unit} says {words}"), SOON, || {
            self.lines(unit)
                .into_iter()
                .rfind(|line| line.text.contains(words))
                .ok_or_else(|| "nothing".into())
        })
    }

    /// Everything in the journal is readable: no colours, and priorities as fields.
    ///
    /// # Panics
    /// When a line is not.
    pub fn journal_is_clean(&self, unit: &str) {
        let lines = self.lines(unit);
        assert!(!lines.is_empty(), "{unit} said nothing");
        for Line { text, .. } in &lines {
            let raw = text.starts_with('<') && text.as_bytes().get(2) == Some(&b'>');
            assert!(!text.contains('\u{1b}') && !raw, "{text:?}");
        }
    }
}
