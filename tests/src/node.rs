//! A repository of states and a node that follows it: real `git` on one side, the whole program on the other.
//!
//! Both use their own scratch directories and nothing from the user who runs the tests. `$D` in a file of the
//! repository stands for the directory that acts as the host.

use std::cell::{Cell, RefCell};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::site::HOST;

fn scratch() -> TempDir {
    tempfile::Builder::new().prefix("zagent-node-").tempdir().expect("a scratch directory")
}

/// A bare repository that a node can follow, and a work tree that pushes to it.
#[derive(Debug)]
pub struct Repo {
    dir: TempDir,
    host: PathBuf,
    key: RefCell<Option<Key>>,
    seconds: Cell<i64>,
}

impl Repo {
    /// An empty repository whose states are for a node's host.
    ///
    /// # Panics
    /// When `git` cannot create it.
    #[must_use]
    pub fn new(node: &Node) -> Self {
        let (dir, host) = (scratch(), node.host());
        let repo = Self { dir, host, key: RefCell::default(), seconds: Cell::new(1_770_000_000) };
        fs::create_dir_all(repo.work()).expect("a directory");
        repo.git(&["init", "-q", "-b", "main", "."]);
        repo.git(&["init", "-q", "--bare", "-b", "main", &repo.bare().to_string_lossy()]);
        repo.git(&["remote", "add", "origin", &repo.bare().to_string_lossy()]);
        repo
    }

    /// Where it can be fetched from on this machine.
    #[must_use]
    pub fn bare(&self) -> PathBuf {
        self.dir.path().join("repo.git")
    }

    /// The directory above the bare repository, for servers.
    #[must_use]
    pub fn top(&self) -> &Path {
        self.dir.path()
    }

    /// The work tree.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Its address on this machine.
    #[must_use]
    pub fn url(&self) -> String {
        format!("file://{}", self.bare().display())
    }

    /// Runs `git` in the work tree; returns its output.
    ///
    /// # Panics
    /// When it fails.
    pub fn git(&self, words: &[&str]) -> String {
        self.git_on(words, &[])
    }

    /// Runs `git` on bytes.
    ///
    /// # Panics
    /// When it fails.
    pub fn git_on(&self, words: &[&str], bytes: &[u8]) -> String {
        // Commits of the same second could not be ordered by their time.
        self.seconds.set(self.seconds.get() + 1);
        let time = format!("{} +0000", self.seconds.get());
        let mut command = Command::new("git");
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path());
        command
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_DATE", &time)
            .env("GIT_COMMITTER_DATE", &time);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "t").env(format!("GIT_{who}_EMAIL"), "t@example.org");
        }
        command.args(words).current_dir(self.work()).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("git is there");
        // A program that does not read its input is fine.
        let _ = child.stdin.take().expect("a pipe").write_all(bytes);
        let output = child.wait_with_output().expect("git ends");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {}: {err}", words.join(" "));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Writes a file of the work tree.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, path: &str, text: &str) {
        let place = self.work().join(path);
        fs::create_dir_all(place.parent().expect("a directory")).expect("a directory");
        fs::write(place, text.replace(HOST, &self.host.to_string_lossy())).expect("a file");
    }

    /// Commits everything; returns the id.
    pub fn commit(&self) -> String {
        self.git(&["add", "-A", "-f"]);
        let key = self.key.borrow().as_ref().map(|key| format!("user.signingkey={}", key.path.display()));
        let mut all = Vec::new();
        if let Some(key) = &key {
            all.extend(["-c", "gpg.format=ssh", "-c", key]);
        }
        all.extend(["commit", "-q", "--allow-empty", "-m", "c"]);
        all.extend(key.as_ref().map(|_| "-S"));
        self.git(&all);
        self.head()
    }

    /// The id of the last commit.
    #[must_use]
    pub fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    /// Pushes the last commit to `main`, with force.
    pub fn push(&self) -> String {
        self.push_to("main")
    }

    /// Pushes it to a branch.
    pub fn push_to(&self, branch: &str) -> String {
        self.git(&["push", "-q", "-f", "origin", &format!("HEAD:refs/heads/{branch}")]);
        self.head()
    }

    /// States that set `motd` on the host to a text, committed and pushed.
    pub fn publish(&self, text: &str) -> String {
        self.motd(text);
        self.commit();
        self.push()
    }

    /// States that set `motd` on the host to a text; only written.
    pub fn motd(&self, text: &str) {
        self.write("states/top.sls", "base: {'*': [motd]}\n");
        self.write(
            "states/motd.sls",
            &format!("motd: {{file.managed: [{{name: $D/motd}}, {{contents: {text}}}]}}\n"),
        );
    }

    /// Signs commits with a key from now on, or with none.
    pub fn sign_with(&self, key: Option<&Key>) {
        self.key.replace(key.cloned());
    }

    /// Creates a key with that name.
    ///
    /// # Panics
    /// When `ssh-keygen` fails.
    #[must_use]
    pub fn key(&self, name: &str) -> Key {
        let path = self.dir.path().join(name);
        let mut command = Command::new("ssh-keygen");
        let made = command.args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"]).arg(&path).status();
        assert!(made.expect("ssh-keygen is there").success());
        let public = fs::read_to_string(path.with_extension("pub")).expect("a public key");
        Key { path, public: public.trim().to_owned() }
    }
}

/// A signing key.
#[derive(Clone, Debug)]
pub struct Key {
    /// The private key file.
    pub path: PathBuf,
    /// `ssh-ed25519 AAAA…`.
    pub public: String,
}

/// A node: a directory that acts as the host, a root and a configuration.
#[derive(Debug)]
pub struct Node {
    dir: TempDir,
}

/// Runs the program in this process.
pub fn zagent(words: &[&str]) -> Said {
    let args = std::iter::once("zagent").chain(words.iter().copied()).map(Into::into);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit = zagent::cli::run(args, &mut out, &mut err, (false, false));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said { exit: zagent::exit_code::code(exit), out: text(out), err: text(err) }
}

/// The output of the program.
#[derive(Clone, Debug)]
pub struct Said {
    /// The exit code.
    pub exit: u8,
    /// stdout.
    pub out: String,
    /// stderr.
    pub err: String,
}

impl Said {
    /// The last document on stdout.
    ///
    /// # Panics
    /// When it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let all = serde_json::Deserializer::from_str(&self.out).into_iter::<Value>();
        let last = all.last().unwrap_or_else(|| panic!("no output: {self:?}"));
        last.unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Fails unless it exited with this code, and printed all of this.
    ///
    /// # Panics
    /// When it did not.
    #[track_caller]
    pub fn expect(&self, exit: u8, words: &[&str]) -> &Self {
        assert_eq!(self.exit, exit, "{}\n{}", self.out, self.err);
        for word in words {
            let said = self.out.contains(word) || self.err.contains(word);
            assert!(said, "`{word}` is not in the output:\n{}\n{}", self.out, self.err);
        }
        self
    }

    /// Fails unless it succeeded, changed this many states, and printed no warning.
    ///
    /// # Panics
    /// When it did not.
    #[track_caller]
    pub fn changed(&self, count: u64) -> &Self {
        self.expect(0, &[]);
        assert_eq!(self.json()["changed"], count, "{}", self.out);
        assert!(!self.err.contains("warning"), "{}", self.err);
        self
    }
}

impl Node {
    /// A node that follows nothing yet.
    ///
    /// # Panics
    /// When its directories cannot be created.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it makes directories")]
    pub fn new() -> Self {
        let node = Self { dir: scratch() };
        fs::create_dir(node.host()).expect("a directory");
        node.configure("", "");
        node
    }

    /// A node and a repository that it follows, with one revision that it has not seen.
    #[must_use]
    pub fn with_repo() -> (Self, Repo) {
        let node = Self::new();
        let repo = Repo::new(&node);
        node.follow(&repo.url());
        repo.publish("one");
        (node, repo)
    }

    /// A file of the test, beside host and root.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The directory that acts as the host.
    #[must_use]
    pub fn host(&self) -> PathBuf {
        self.path("host")
    }

    /// The agent's own directory.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.path("root")
    }

    /// The path of the current generation.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn current(&self) -> PathBuf {
        fs::canonicalize(self.root().join("cache/current")).expect("a generation")
    }

    /// The content of a file on the host; empty when it does not exist.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.host().join(name)).unwrap_or_default().trim_end().to_owned()
    }

    /// Writes a file of the test that only its owner can change.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("a mode");
        path
    }

    /// Follows `main` of one remote.
    pub fn follow(&self, url: &str) {
        self.configure(&format!("source: {{remotes: [{{url: '{url}'}}], timeout: 30s}}\n"), "");
    }

    /// Writes the configuration; `$T` stands for the directory of the test, `$D` for the host.
    pub fn configure(&self, source: &str, more: &str) {
        let own = "id: node\nroot: $T/root\nbaked: $T/baked\nfacts_dir: $T/facts.d\n";
        // What is not about signatures uses every ref without them.
        let trust = if more.contains("trust:") { "" } else { "trust: {unsigned_refs: [testing, rollout]}\n" };
        let text = format!("{own}{source}{trust}{more}").replace(HOST, &self.host().to_string_lossy());
        self.write("zagent.yaml", &text.replace("$T", &self.dir.path().to_string_lossy()));
    }

    /// Runs a command of this node's agent in this process.
    pub fn call(&self, words: &[&str]) -> Said {
        let config = self.path("zagent.yaml").to_string_lossy().into_owned();
        let words: Vec<&str> = words.iter().copied().chain(["--config", &config]).collect();
        zagent(&words)
    }

    /// One turn.
    pub fn turn(&self) -> Said {
        self.turn_with(&[])
    }

    /// One turn, with more arguments.
    pub fn turn_with(&self, more: &[&str]) -> Said {
        let mut words = vec!["run", "--once", "--out", "json", "--timeout", "60s"];
        words.extend(more);
        self.call(&words)
    }

    /// The output of `zagent status`.
    #[must_use]
    pub fn status(&self) -> Value {
        self.call(&["status", "--out", "json"]).json()
    }

    /// The revision that the node is on; empty when there is none.
    #[must_use]
    pub fn revision(&self) -> String {
        self.status()["current"]["revision"].as_str().unwrap_or_default().to_owned()
    }

    /// Names of the kept generations.
    #[must_use]
    pub fn generations(&self) -> Vec<String> {
        let listed = fs::read_dir(self.root().join("cache/generations")).into_iter().flatten().flatten();
        let mut names: Vec<String> = listed.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Fails unless the node is on a revision, and every file of it is unmodified.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    pub fn stands_on(&self, revision: &str) {
        assert_eq!(self.revision(), revision);
        self.call(&["cache", "verify"]).expect(0, &["all files match what was published"]);
    }
}
