//! `zagent enroll` with real servers on this machine: over http, over ssh and from a directory, signed and unsigned.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use zagent_cache::testing::{GitHttpServer, Sshd};
use zagent_cache::trust;

/// The program.
const ZAGENT: &str = env!("CARGO_BIN_EXE_zagent");

/// A host to enrol, and a repository.
struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let site = Self { dir: tempfile::Builder::new().prefix("zagent-enroll-").tempdir().unwrap() };
        for name in ["work/states", "etc"] {
            fs::create_dir_all(site.path(name)).unwrap();
        }
        site.git(&["init", "-q", "--bare", "--initial-branch=main", "../states.git"]);
        site.git(&["init", "-q", "--initial-branch=main", "."]);
        site.push("one", None);
        site
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    fn git(&self, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.current_dir(self.path("work")).args(["-c", "user.name=a", "-c", "user.email=a@example.org"]);
        let done = command.args(args).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// Pushes states that write this text to the marker; returns the commit.
    fn push(&self, text: &str, key: Option<&str>) -> String {
        let marker = self.path("marker").display().to_string();
        fs::write(self.path("work/states/top.sls"), "base: {'*': [all]}\n").unwrap();
        let sls = format!("marker: {{file.managed: [{{name: {marker}, contents: {text}}}]}}\n");
        fs::write(self.path("work/states/all.sls"), sls).unwrap();
        self.git(&["add", "-A"]);
        let key = key.map(|name| format!("user.signingkey={}", self.path(name).display()));
        let signing: Vec<&str> = match &key {
            Some(key) => vec!["-c", "gpg.format=ssh", "-c", key, "commit", "-S"],
            None => vec!["commit"],
        };
        self.git(&[&signing[..], &["-q", "--allow-empty", "-m", text]].concat());
        self.git(&["push", "-q", "-f", "../states.git", "HEAD:main"]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn config(&self) -> PathBuf {
        self.path("etc/zagent.yaml")
    }

    fn zagent(&self, args: &[&str]) -> Output {
        let mut command = Command::new(ZAGENT);
        command.args(args).arg("--config").arg(self.config()).env("ZAGENT_ROOT", self.path("root"));
        command.env_remove("NOTIFY_SOCKET").stdin(Stdio::null()).output().unwrap()
    }

    fn enroll(&self, args: &[&str]) -> (i32, String) {
        let done = self.zagent(&[&["enroll"], args].concat());
        let said = [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (done.status.code().unwrap(), said)
    }

    #[track_caller]
    fn enrolls(&self, args: &[&str]) -> Value {
        let done = self.zagent(&[&["enroll", "--out", "json", "--yes"], args].concat());
        let err = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{err}{}", String::from_utf8_lossy(&done.stdout));
        serde_json::from_slice(&done.stdout).unwrap()
    }

    #[track_caller]
    fn refuses(&self, args: &[&str], exit: i32, words: &[&str]) {
        let before = fs::read_to_string(self.config()).ok();
        let (code, said) = self.enroll(args);
        assert_eq!(code, exit, "{said}");
        words.iter().for_each(|word| assert!(said.contains(word), "`{word}` is not in {said}"));
        assert_eq!(fs::read_to_string(self.config()).ok(), before, "{said}");
    }

    /// The configuration works: a turn converges the host.
    #[track_caller]
    fn converges(&self, text: &str) {
        let done = self.zagent(&["run", "--once"]);
        assert!(done.status.success(), "{done:?}");
        assert_eq!(fs::read_to_string(self.path("marker")).unwrap().trim(), text);
    }
}

#[test]
fn a_repository_over_http_is_enrolled_once_and_replaced_only_by_force() {
    let site = Site::new();
    let server = GitHttpServer::start(site.dir.path());
    let url = server.url("states.git");
    // A script that cannot ask does not pin anything by itself.
    site.refuses(&[&url], 2, &["a confirmation is needed", "--yes"]);
    let head = site.git(&["rev-parse", "HEAD"]);
    let told = site.enrolls(&[&url]);
    assert_eq!((&told["first"], &told["changed"]), (&Value::from(&*head), &true.into()), "{told:#}");
    assert!(!site.path("root").exists(), "an enrolment publishes nothing");
    site.converges("one");

    // Again, also after a push: the pin stays, and nothing changes.
    let text = fs::read_to_string(site.config()).unwrap();
    site.push("two", None);
    let (code, said) = site.enroll(&[&url]);
    assert!(code == 0 && said.contains("already enrolled"), "{code}: {said}");
    assert_eq!(fs::read_to_string(site.config()).unwrap(), text);
    site.converges("two");

    // Another branch is a change: it is shown, and needs --force.
    site.git(&["push", "-q", "../states.git", "HEAD:next"]);
    site.refuses(&[&url, "--branch", "next"], 2, &["branch: main", "branch: next", "--force"]);
    let told = site.enrolls(&[&url, "--branch", "next", "--force"]);
    assert_eq!(told["branch"], "next", "{told:#}");
    site.refuses(&[&url, "--branch", "nope", "--force"], 69, &["nope"]);
    server.set_down(true);
    site.refuses(&[&url], 69, &["states.git"]);
}

#[test]
fn a_history_that_does_not_descend_from_the_pin_is_refused() {
    let site = Site::new();
    let url = format!("file://{}", site.path("states.git").display());
    site.enrolls(&[&url]);
    site.git(&["checkout", "-q", "--orphan", "other"]);
    site.push("rewritten", None);
    let (code, said) = site.enroll(&[&url, "--yes"]);
    assert_eq!(code, 76, "{said}");
    // Somebody who wants that says so.
    site.enrolls(&[&url, "--force"]);
    site.converges("rewritten");
}

#[test]
fn only_signed_states_are_accepted_with_signers() {
    let site = Site::new();
    let url = format!("file://{}", site.path("states.git").display());
    for name in ["alice", "mallory"] {
        trust::create_key(&site.path(name)).unwrap();
    }
    let public = trust::public_key(&site.path("alice")).unwrap();
    fs::write(site.path("signers"), format!("alice {public}\n")).unwrap();
    let signers = site.path("signers").display().to_string();
    let args = [&*url, "--signers", &signers, "--yes"];
    site.refuses(&args, 76, &["nothing here is signed by a key in", "--repository"]);
    site.push("forged", Some("mallory"));
    site.refuses(&args, 76, &["commit:"]);
    site.push("signed", Some("alice"));
    let told = site.enrolls(&args[..3]);
    assert_eq!((&told["require"], &told["signed_by"][0]), (&"commit".into(), &"alice".into()), "{told:#}");
    let copy = fs::read_to_string(site.path("etc/allowed_signers")).unwrap();
    assert_eq!(copy, fs::read_to_string(&signers).unwrap());
    site.converges("signed");
    site.push("unsigned", None);
    let done = site.zagent(&["run", "--once"]);
    assert_eq!(done.status.code(), Some(76), "{done:?}");
    // Other signers are not taken over silently.
    fs::write(site.path("signers"), format!("bob {public}\n")).unwrap();
    site.push("signed again", Some("alice"));
    site.refuses(&args, 2, &["-alice", "+bob", "allowed_signers", "--force"]);
}

#[test]
fn the_host_key_of_an_ssh_remote_is_pinned() {
    let Some(sshd) = Sshd::start() else {
        assert!(std::env::var_os("CI").is_none(), "there is no SSH server on this machine");
        return;
    };
    let site = Site::new();
    let (url, key) = (sshd.url(&site.path("states.git")), sshd.file("key").display().to_string());
    let args = [&*url, "--key", &key];
    site.refuses(&args, 2, &["the server has these host keys", "SHA256:", "a confirmation is needed"]);
    assert!(!site.path("etc/known_hosts").exists());
    let told = site.enrolls(&args);
    assert_eq!(told["written"].as_array().unwrap().len(), 2, "{told:#}");
    let pinned = fs::read_to_string(site.path("etc/known_hosts")).unwrap();
    let host = fs::read_to_string(sshd.file("host.pub")).unwrap();
    let host = host.split_whitespace().nth(1).unwrap();
    assert!(pinned.contains(host), "{pinned}");
    site.converges("one");
    let (code, said) = site.enroll(&args);
    assert!(code == 0 && said.contains("already enrolled"), "{code}: {said}");
    // Another server at this address: the pinned key is not replaced.
    let other = fs::read_to_string(sshd.file("other_hosts")).unwrap();
    fs::write(site.path("etc/known_hosts"), &other).unwrap();
    site.refuses(&args, 69, &["host key"]);
    assert_eq!(fs::read_to_string(site.path("etc/known_hosts")).unwrap(), other);
}

#[test]
fn a_mistake_is_named() {
    let site = Site::new();
    let dir = site.path("work/states").display().to_string();
    site.refuses(&[&dir], 2, &["is a plain directory, not a Git repository"]);
    let nothing = site.path("nothing.git").display().to_string();
    site.refuses(&[&format!("file://{nothing}"), "--yes"], 69, &["nothing.git"]);
    site.refuses(
        &["https://localhost:1/x.git", "--token-file", "/nonexistent"],
        2,
        &["cannot read `/nonexistent`"],
    );
}
