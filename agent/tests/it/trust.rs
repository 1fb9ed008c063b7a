//! Attacks on what a signature is for, with the built program and a Git server on this machine. In every case the
//! attacker can push any ref, as with a stolen login of the forge, and has the keys that the case names.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use zagent_cache::testing::GitHttpServer;
use zagent_cache::trust;
use zagent_rollout::acceptance::sign_order;
use zagent_rollout::record::{Component, RECORD_SCHEMA, RolloutMode, RolloutRecord, RolloutStatus};
use zagent_rollout::stored_record::record_text;
use zagent_rollout::{BatchSize, Span};

/// The program.
const ZAGENT: &str = env!("CARGO_BIN_EXE_zagent");

/// A node, the repository that it follows, and keys.
struct Site {
    dir: tempfile::TempDir,
    server: GitHttpServer,
}

impl Site {
    /// `alice` may sign states; the repository is empty.
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("zagent-trust-").tempdir().unwrap();
        let server = GitHttpServer::start(dir.path());
        let site = Self { dir, server };
        fs::create_dir(site.path("work")).unwrap();
        site.git(&["init", "-q", "--bare", "--initial-branch=main", "../states.git"]);
        site.git(&["init", "-q", "--initial-branch=main", "."]);
        site.git(&["remote", "add", "origin", &site.url()]);
        for name in ["alice", "driver"] {
            trust::create_key(&site.path(name)).unwrap();
        }
        fs::write(site.path("signers"), format!("alice {}\n", site.public("alice"))).unwrap();
        site
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    fn url(&self) -> String {
        self.server.url("states.git")
    }

    fn public(&self, name: &str) -> String {
        trust::public_key(&self.path(name)).unwrap()
    }

    fn configure(&self, more: &str) {
        let text = format!(
            "id: node\nroot: $D/root\nbaked: $D/none\nsource: {{remotes: [{{url: '{}'}}], timeout: 60s}}\n{more}",
            self.url()
        );
        fs::write(self.path("zagent.yaml"), text.replace("$D", self.dir.path().to_str().unwrap())).unwrap();
    }

    fn git(&self, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.current_dir(self.path("work")).args(args);
        for name in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{name}_NAME"), "a").env(format!("GIT_{name}_EMAIL"), "a@example.org");
        }
        let done = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    fn zagent(&self, args: &[&str]) -> Output {
        let mut command = Command::new(ZAGENT);
        command.args(args).current_dir(self.path("work")).env_remove("NOTIFY_SOCKET").output().unwrap()
    }

    /// States that write this text to the marker.
    fn write(&self, text: &str) {
        let marker = self.path("marker").display().to_string();
        fs::create_dir_all(self.path("work/states")).unwrap();
        fs::write(self.path("work/states/top.sls"), "base: {'*': [all]}\n").unwrap();
        let sls = format!("marker: {{file.managed: [{{name: {marker}, contents: {text}}}]}}\n");
        fs::write(self.path("work/states/all.sls"), sls).unwrap();
    }

    /// Lists the files in a manifest that alice signs.
    fn sign_manifest(&self, more: &[&str]) {
        let done = self.zagent(&[&["manifest", "write", "--drop-signatures"], more].concat());
        assert!(done.status.success(), "{done:?}");
        let key = self.path("alice").display().to_string();
        let done = self.zagent(&["manifest", "sign", "--key", &key]);
        assert!(done.status.success(), "{done:?}");
    }

    /// Commits everything, signed with this key.
    fn commit(&self, key: Option<&str>) -> String {
        self.git(&["add", "-A"]);
        let key = key.map(|name| format!("user.signingkey={}", self.path(name).display()));
        let signing: Vec<&str> = match &key {
            Some(key) => vec!["-c", "gpg.format=ssh", "-c", key, "commit", "-S"],
            None => vec!["commit"],
        };
        self.git(&[&signing[..], &["-q", "--allow-empty", "-m", "x"]].concat());
        self.git(&["rev-parse", "HEAD"])
    }

    fn push(&self, what: &str) {
        self.git(&["push", "-q", "-f", &self.path("states.git").display().to_string(), what]);
    }

    /// One turn of the node: exit code, and everything that it printed.
    fn turn(&self) -> (i32, String) {
        let config = self.path("zagent.yaml").display().to_string();
        let done = self.zagent(&["run", "--once", "--config", &config]);
        let said = [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (done.status.code().unwrap(), said)
    }

    #[track_caller]
    fn takes(&self, text: &str) -> String {
        let (exit, said) = self.turn();
        assert_eq!((exit, self.marker().as_str()), (0, text), "{said}");
        said
    }

    /// The node refuses, says why, and keeps what it has.
    #[track_caller]
    fn refuses(&self, why: &str, stays: &str) {
        let (exit, said) = self.turn();
        assert!(exit == 76 && said.contains(why), "{exit}: {said}");
        assert_eq!(self.marker(), stays, "{said}");
    }

    fn marker(&self) -> String {
        fs::read_to_string(self.path("marker")).unwrap_or_default().trim().to_owned()
    }
}

const COMMIT: &str = "trust: {require: commit, allowed_signers: $D/signers}\n";
const MANIFEST: &str = "trust: {require: manifest, allowed_signers: $D/signers}\n";

/// Root on a driver has the key that signs rollout records. With keys apart it cannot sign states; with one list for
/// both, a record still is no revision of the states, and the node says what is wrong with the list.
#[test]
fn the_key_of_a_driver_signs_no_states() {
    let site = Site::new();
    let driver = format!("driver {}\n", site.public("driver"));
    fs::write(site.path("record_signers"), &driver).unwrap();
    site.configure(&format!("{COMMIT}rollout: {{allowed_signers: $D/record_signers}}\n"));
    site.write("good");
    site.commit(Some("alice"));
    site.push("HEAD:refs/heads/main");
    site.takes("good");
    site.write("evil");
    site.commit(Some("driver"));
    site.push("HEAD:refs/heads/main");
    site.refuses("is not in", "good");
    // The same key on a line of its own in the list for states.
    let alice = fs::read_to_string(site.path("signers")).unwrap();
    let line = driver.replacen("driver ", "driver namespaces=\"zagent-record\" ", 1);
    fs::write(site.path("signers"), format!("{alice}{line}")).unwrap();
    let retry = site.path("zagent.yaml").display().to_string();
    let done = site.zagent(&["source", "sync", "--config", &retry]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(said.contains("is not allowed to sign for `git`"), "{said}");
    // A record, signed by someone who may sign states, is no revision of the states.
    let tree = site.git(&["rev-parse", "HEAD^{tree}"]);
    let text =
        format!("tree {tree}\nauthor a <a@example.org> 1 +0000\ncommitter a <a@example.org> 1 +0000\n");
    let body = "\nrecord\n";
    let signature =
        trust::sign(&site.path("alice"), trust::RECORD_NAMESPACE, format!("{text}{body}").as_bytes())
            .unwrap();
    let object = format!("{text}gpgsig {}\n{body}", signature.trim_end().replace('\n', "\n "));
    fs::write(site.path("commit"), object).unwrap();
    let id = site.git(&["hash-object", "-t", "commit", "-w", "../commit"]);
    site.push(&format!("{id}:refs/heads/main"));
    site.refuses("made for `zagent-record`, not for `git`", "good");
}

/// Work in progress, signed by someone who may, and offered as another branch by someone who may not.
#[test]
fn a_signed_manifest_is_worth_nothing_on_another_branch() {
    let site = Site::new();
    site.configure(MANIFEST);
    site.write("good");
    site.sign_manifest(&[]);
    site.commit(None);
    site.push("HEAD:refs/heads/main");
    let first = site.takes("good");
    assert!(first.contains("is trusted on first use"), "{first}");
    site.git(&["switch", "-q", "-c", "wip"]);
    site.write("wip");
    site.sign_manifest(&[]);
    site.commit(Some("alice"));
    site.push("HEAD:refs/heads/main");
    site.refuses("is for the branch `wip`, and it was offered as `main`", "good");
    site.push("main:refs/heads/main");
    site.takes("good");
    site.push("wip:refs/heads/testing/node");
    let (exit, said) = site.turn();
    assert!(exit == 76 && said.contains("it was offered as `testing/node`"), "{exit}: {said}");
    assert_eq!(site.marker(), "good");
    // Written for the branch, it is accepted there.
    site.git(&["switch", "-q", "-c", "testing/node"]);
    site.sign_manifest(&[]);
    site.commit(None);
    site.push("HEAD:refs/heads/testing/node");
    site.takes("wip");
    // A manifest of another repository, and one that names none.
    site.git(&["switch", "-q", "main"]);
    site.push(":refs/heads/testing/node");
    site.write("other");
    site.sign_manifest(&["--repository", "git.example.org/other"]);
    site.commit(None);
    site.push("HEAD:refs/heads/main");
    site.refuses("is for the repository `git.example.org/other`", "wip");
    let text = fs::read_to_string(site.path("work/manifest.yaml")).unwrap();
    let unbound: String =
        text.lines().filter(|line| !line.starts_with("for:")).map(|line| format!("{line}\n")).collect();
    fs::write(site.path("work/manifest.yaml"), unbound).unwrap();
    let done = site.zagent(&["manifest", "sign", "--key", &site.path("alice").display().to_string()]);
    assert!(done.status.success());
    site.commit(None);
    site.push("HEAD:refs/heads/main");
    site.refuses("does not say which repository and branch it is for", "wip");
}

/// An old revision with a good signature, offered to a node that has accepted nothing yet, or that was wiped.
#[test]
fn a_pinned_first_contact_accepts_nothing_older() {
    let site = Site::new();
    site.write("old");
    site.sign_manifest(&[]);
    let old = site.commit(Some("alice"));
    site.write("new");
    site.sign_manifest(&[]);
    let new = site.commit(Some("alice"));
    site.push(&format!("{old}:refs/heads/main"));
    for pin in ["{serial: 2}".to_owned(), format!("{{commit: {new}}}")] {
        let trust = |require: &str| {
            format!("trust: {{require: {require}, allowed_signers: $D/signers, first: {pin}}}\n")
        };
        let why =
            if pin.contains("serial") { "`trust.first.serial` requires 2" } else { "`trust.first.commit`" };
        for require in ["commit", "manifest", "both"] {
            site.configure(&trust(require));
            let (exit, said) = site.turn();
            assert!(exit != 0 && said.contains(why), "{require} {pin} {exit}: {said}");
            assert_eq!(site.marker(), "", "{require} {pin}");
            site.push(&format!("{new}:refs/heads/main"));
            let said = site.takes("new");
            assert!(!said.contains("first use"), "{said}");
            // Wiped: a first contact again.
            fs::remove_dir_all(site.path("root")).unwrap();
            fs::remove_file(site.path("marker")).unwrap();
            site.push(&format!("{old}:refs/heads/main"));
        }
    }
}

/// Without signatures, anyone who can push some branch must not control nodes through it.
#[test]
fn unsigned_refs_are_ignored_unless_they_are_named() {
    let site = Site::new();
    site.configure("");
    site.write("good");
    site.commit(None);
    site.push("HEAD:refs/heads/main");
    site.takes("good");
    site.write("evil");
    let evil = site.commit(None);
    site.push("HEAD:refs/heads/testing/node");
    site.takes("good");
    // An order that is due, for a commit that the server has: obeyed only where the key is set.
    order(&site, "r", &evil, false, &[]);
    site.takes("good");
    let config = site.path("zagent.yaml").display().to_string();
    let status = site.zagent(&["status", "--config", &config]);
    let said = String::from_utf8(status.stdout).unwrap();
    assert!(said.contains("`trust.require: none`") && said.contains("`trust.unsigned_refs`"), "{said}");
    // Asked for by name, one and the other.
    site.configure("trust: {unsigned_refs: [testing]}\n");
    site.takes("evil");
    site.push(":refs/heads/testing/node");
    fs::remove_dir_all(site.path("root")).unwrap();
    site.takes("good");
    site.configure("trust: {unsigned_refs: [rollout]}\n");
    let (_, said) = site.turn();
    assert_eq!(site.marker(), "evil", "the same record is obeyed: {said}");
}

/// An unsigned commit that changes nothing, on a history of its own and dated in the future: nodes are not locked out.
#[test]
fn an_unsigned_commit_around_a_signed_manifest_locks_no_node_out() {
    let site = Site::new();
    site.configure(MANIFEST);
    site.write("one");
    site.sign_manifest(&[]);
    site.commit(None);
    site.push("HEAD:refs/heads/main");
    site.takes("one");
    let tree = site.git(&["rev-parse", "HEAD^{tree}"]);
    let evil = {
        let mut command = Command::new("git");
        command.current_dir(site.path("work")).args(["commit-tree", "-m", "x", &tree]);
        for name in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{name}_NAME"), "e").env(format!("GIT_{name}_EMAIL"), "e@example.org");
            command.env(format!("GIT_{name}_DATE"), "2090-01-01T00:00:00Z");
        }
        String::from_utf8(command.output().unwrap().stdout).unwrap().trim().to_owned()
    };
    site.push(&format!("{evil}:refs/heads/main"));
    site.takes("one");
    site.write("two");
    site.sign_manifest(&[]);
    site.commit(None);
    site.push("HEAD:refs/heads/main");
    site.takes("two");
}

/// A server that offers nothing new is noticed before and after the manifest expires.
#[test]
fn the_end_of_a_manifest_is_announced_at_every_run() {
    let site = Site::new();
    site.configure(MANIFEST);
    site.write("one");
    site.sign_manifest(&["--expires", "3d"]);
    site.commit(None);
    site.push("HEAD:refs/heads/main");
    for _ in 0..2 {
        let said = site.takes("one");
        assert!(said.contains("the manifest of the current revision expires in 2 days"), "{said}");
    }
    let config = site.path("zagent.yaml").display().to_string();
    for command in ["status", "doctor"] {
        let done = site.zagent(&[command, "--config", &config]);
        let said = String::from_utf8(done.stdout).unwrap();
        assert!(said.contains("expires in 2 days"), "{command}: {said}");
    }
}

/// An order for a commit, as one wave by the clock that is due: signed by these people, written by the driver.
fn order(site: &Site, id: &str, to: &str, anyway: bool, people: &[&str]) {
    let now = jiff::Timestamp::now();
    let mut record: RolloutRecord = serde_json::from_value(serde_json::json!({
        "schema": RECORD_SCHEMA,
        "id": id,
        "component": Component::States,
        "to": to,
        "target": "*",
        "batch_size": BatchSize::Nodes(1),
        "soak_time": Span::seconds(1),
        "batch_pause": Span::seconds(0),
        "max_failed": 1,
        "max_silent": 0,
        "mode": RolloutMode::Clock,
        "anyway": anyway,
        "state": RolloutStatus::Rolling,
        "created": now,
        "started": now - jiff::SignedDuration::from_mins(1),
        "expires": now + jiff::SignedDuration::from_hours(24),
        "serial": 1,
    }))
    .unwrap();
    for who in people {
        sign_order(&mut record, &site.path(who)).unwrap();
    }
    fs::write(site.path("rollout.yaml"), record_text(&record).unwrap()).unwrap();
    let blob = site.git(&["hash-object", "-w", "../rollout.yaml"]);
    site.git(&["read-tree", "--empty"]);
    site.git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},rollout.yaml")]);
    let tree = site.git(&["write-tree"]);
    site.git(&["read-tree", "HEAD"]);
    let text = format!(
        "tree {tree}\nauthor a <a@example.org> {0} +0000\ncommitter a <a@example.org> {0} +0000\n",
        now.as_second()
    );
    let body = "\nrecord\n";
    let signature =
        trust::sign(&site.path("driver"), trust::RECORD_NAMESPACE, format!("{text}{body}").as_bytes())
            .unwrap();
    let object = format!("{text}gpgsig {}\n{body}", signature.trim_end().replace('\n', "\n "));
    fs::write(site.path("commit"), object).unwrap();
    let commit = site.git(&["hash-object", "-t", "commit", "-w", "../commit"]);
    site.push(&format!("{commit}:refs/heads/rollout/{id}"));
}

/// A node that takes signed manifests from serial 2 on, whose orders alice and the driver sign.
fn ordered_site(threshold: usize) -> Site {
    let site = Site::new();
    let signers = fs::read_to_string(site.path("signers")).unwrap();
    fs::write(site.path("record_signers"), format!("{signers}driver {}\n", site.public("driver"))).unwrap();
    // Manifests are signed by alice alone; the threshold is for both kinds, so a second person signs them too.
    trust::create_key(&site.path("bob")).unwrap();
    fs::write(site.path("signers"), format!("{signers}bob {}\n", site.public("bob"))).unwrap();
    site.configure(&format!(
        "trust: {{require: manifest, allowed_signers: $D/signers, min_serial: 2, threshold: {threshold}}}\n\
         rollout: {{allowed_signers: $D/record_signers}}\n"
    ));
    site
}

/// A revision with a manifest that alice and bob sign; `expired` ends it in the past.
fn revision(site: &Site, text: &str, expired: bool) -> String {
    site.write(text);
    let done = site.zagent(&["manifest", "write", "--drop-signatures", "--expires", "9d"]);
    assert!(done.status.success(), "{done:?}");
    if expired {
        let manifest = fs::read_to_string(site.path("work/manifest.yaml")).unwrap();
        let ended = |line: &str| {
            if line.starts_with("expires:") {
                "expires: 2020-01-01T00:00:00Z\n".to_owned()
            } else {
                format!("{line}\n")
            }
        };
        fs::write(site.path("work/manifest.yaml"), manifest.lines().map(ended).collect::<String>()).unwrap();
    }
    for who in ["alice", "bob"] {
        let key = site.path(who).display().to_string();
        let done = site.zagent(&["manifest", "sign", "--key", &key, "--as", who]);
        assert!(done.status.success(), "{done:?}");
    }
    site.commit(None)
}

/// `anyway` lets an order go back to an older revision, and never below `trust.min_serial`, nor to an expired manifest.
#[test]
fn anyway_goes_below_no_expired_manifest_and_no_minimum_serial() {
    let site = ordered_site(1);
    let below = revision(&site, "below", false);
    let good = revision(&site, "good", false);
    let expired = revision(&site, "expired", true);
    revision(&site, "newest", false);
    site.push("HEAD:refs/heads/main");
    site.takes("newest");
    for (id, to, why) in [("r1", &below, "`trust.min_serial` requires 2"), ("r2", &expired, "expired")] {
        order(&site, id, to, true, &["alice"]);
        let (_, said) = site.turn();
        assert_eq!(site.marker(), "newest", "{id}: {said}");
        let config = site.path("zagent.yaml").display().to_string();
        let status = site.zagent(&["status", "--config", &config]);
        let told = format!("{said}{}", String::from_utf8_lossy(&status.stdout));
        assert!(told.contains(why), "{id}: {told}");
        site.push(&format!(":refs/heads/rollout/{id}"));
        site.turn();
    }
    // The same order for what may be taken is obeyed.
    order(&site, "r3", &good, true, &["alice"]);
    let (_, said) = site.turn();
    assert_eq!(site.marker(), "good", "{said}");
}

/// With a threshold of 1 the key of a driver can also sign orders, for revisions that others signed; with 2 it cannot alone.
#[test]
fn the_key_of_a_driver_orders_alone_only_with_a_threshold_of_one() {
    for (threshold, people, takes) in
        [(1, &["driver"][..], "good"), (2, &["driver"], "newest"), (2, &["driver", "alice"], "good")]
    {
        let site = ordered_site(threshold);
        revision(&site, "unused", false);
        let good = revision(&site, "good", false);
        revision(&site, "newest", false);
        site.push("HEAD:refs/heads/main");
        site.takes("newest");
        order(&site, "r1", &good, true, people);
        let (_, said) = site.turn();
        assert_eq!(site.marker(), takes, "{threshold} {people:?}: {said}");
    }
}

/// The webhook `expiry`: called by the run that sees the end coming, and once a day.
#[test]
fn the_end_of_a_manifest_calls_the_webhook() {
    let site = Site::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (tell, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (mut text, mut part) = (String::new(), [0; 4096]);
            let body = loop {
                let read = stream.read(&mut part).unwrap();
                text += &String::from_utf8_lossy(&part[..read]);
                let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
                if let Some(body) =
                    body.and_then(|body| serde_json::from_str::<serde_json::Value>(&body).ok())
                {
                    break body;
                }
                assert!(read > 0, "cut off: {text}");
            };
            let _ = stream
                .write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            if tell.send(body).is_err() {
                return;
            }
        }
    });
    site.configure(&format!("{MANIFEST}webhooks: [{{url: '{url}'}}]\n"));
    for (text, expires) in [("one", "30d"), ("two", "3d")] {
        site.write(text);
        site.sign_manifest(&["--expires", expires]);
        site.commit(None);
        site.push("HEAD:refs/heads/main");
        site.takes(text);
    }
    let event = heard.recv_timeout(std::time::Duration::from_secs(20)).expect("a call");
    assert_eq!(event["event"], "expiry", "{event:#}");
    let message = event["message"].as_str().unwrap_or_default();
    assert!(message.contains("expires in 2 days"), "{event:#}");
    // Not at every run: the next call is due tomorrow.
    site.takes("two");
    assert!(heard.try_recv().is_err());
}
