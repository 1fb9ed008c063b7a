//! A repository as a board, over every transport.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zagent_cache::testing::{GitHttpServer, ServerStream, Sshd, test_source};
use zagent_cache::trust::{AllowedSigners, RecordTrust};
use zagent_config::settings::{
    FirstContact, ManifestRule, RemoteSettings, RequiredSignatures, TrustSettings,
};
use zagent_rollout::board::{Board, BoardError, BoardWrite, GitBoard, GitBoardConfig};

use super::conforms::{conforms, conforms_in_short, write};

/// A bare repository that accepts pushes, and a directory for its files.
struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let site = Self { dir: tempfile::tempdir().unwrap() };
        site.git(&["init", "-q", "--bare", "."]);
        site.git(&["config", "http.receivepack", "true"]);
        site
    }

    fn repository(&self) -> PathBuf {
        let path = self.dir.path().join("board.git");
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn git(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.git_bytes(arguments)).unwrap().trim().to_owned()
    }

    fn git_bytes(&self, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new("git");
        for (key, _) in std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("GIT_")) {
            command.env_remove(key);
        }
        let done = command.args(arguments).current_dir(self.repository()).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        done.stdout
    }

    fn hook(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.repository().join("hooks").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn place(&self, url: &str) -> GitBoardConfig {
        let source = test_source(url);
        GitBoardConfig {
            remote: source.remotes[0].clone(),
            source,
            scratch: self.dir.path().join("scratch"),
            author: "driver-1".into(),
            key: None,
            trust: None,
        }
    }

    fn file(&self) -> GitBoardConfig {
        self.place(&format!("file://{}", self.repository().display()))
    }

    /// The same place over another transport, with its own credentials.
    fn through(&self, url: &str, change: impl Fn(&mut RemoteSettings)) -> GitBoardConfig {
        let mut place = self.place(url);
        change(&mut place.remote);
        place
    }

    fn server(&self) -> GitHttpServer {
        GitHttpServer::start(self.dir.path())
    }

    fn log(&self, branch: &str) -> Vec<String> {
        self.git(&["log", "--format=%s", branch]).lines().map(str::to_owned).collect()
    }
}

fn open(place: &GitBoardConfig) -> GitBoard {
    GitBoard::new(place.clone()).unwrap()
}

fn boxed(place: &GitBoardConfig) -> Box<dyn Board> {
    Box::new(open(place))
}

#[test]
fn a_git_board_conforms_through_a_path() {
    zagent_cache::needs!("git");
    let site = Site::new();
    let place = site.file();
    conforms(&|| boxed(&place));
    assert!(scratch_is_empty(&site.dir.path().join("scratch")), "fetched objects are removed");
}

fn scratch_is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none())
}

#[test]
fn a_git_board_conforms_over_http() {
    zagent_cache::needs!("git");
    let site = Site::new();
    let server = site.server();
    let place = site.place(&server.url("board.git"));
    conforms(&|| boxed(&place));
}

#[test]
fn a_git_board_conforms_over_ssh() {
    zagent_cache::needs!("git", "ssh", "sshd", "ssh-keygen");
    let site = Site::new();
    let Some(sshd) = Sshd::start() else { return };
    let place = site.through(&sshd.url(&site.repository()), |remote| {
        remote.key = Some(sshd.file("key"));
        remote.known_hosts = Some(sshd.file("known_hosts"));
    });
    conforms_in_short(&|| boxed(&place));
}

#[test]
fn credentials_are_sent_on_request() {
    zagent_cache::needs!("git");
    let site = Site::new();
    let server = site.server();
    let token = site.dir.path().join("token");
    std::fs::write(&token, "tok\n").unwrap();
    let place = site.through(&server.url("auth/board.git"), |remote| {
        remote.user = Some("user".into());
        remote.token_file = Some(token.clone());
    });
    let mut board = open(&place);
    let first = board.put("node/agent/a", write(b"one", None)).unwrap();
    board.put("node/agent/a", write(b"two", Some(&first))).unwrap();
    assert_eq!(board.get("node/agent/a").unwrap().unwrap().value, b"two");

    std::fs::write(&token, "sekrit\n").unwrap();
    let error = open(&place).put("node/agent/b", write(b"x", None)).unwrap_err();
    assert!(matches!(error, BoardError::Refused { .. }), "{error:?}");
    assert!(!format!("{error:?} {error}").contains("sekrit"), "{error:?}");
}

#[test]
fn a_lost_answer_is_resolved_or_reported() {
    zagent_cache::needs!("git");
    let site = Site::new();
    let server = site.server();
    let mut board = open(&site.place(&server.url("lost/board.git")));
    // The push is done, its answer is lost, and the ref shows it.
    let first = board.put("rollout/r", write(b"one", None)).unwrap();
    assert_eq!(open(&site.file()).get("rollout/r").unwrap().unwrap().token, first);
    let second = board.put("rollout/r", write(b"two", Some(&first))).unwrap();
    let mut cut = open(&site.place(&server.url("cut/board.git")));
    assert!(matches!(cut.put("rollout/r", write(b"x", Some(&second))), Err(BoardError::Unknown { .. })));
    assert!(matches!(cut.delete("rollout/r", &second), Err(BoardError::Unknown { .. })));
    assert_eq!(board.get("rollout/r").unwrap().unwrap().token, second);
    board.delete("rollout/r", &second).unwrap();

    // Nothing listens: nothing was done, and the result is not `Unknown`.
    let url = server.url("board.git");
    drop(server);
    let error = open(&site.place(&url)).put("rollout/r", write(b"x", None)).unwrap_err();
    assert!(matches!(error, BoardError::Unreachable { .. }), "{error:?}");
}

#[test]
fn the_message_of_a_hook_reaches_the_caller() {
    zagent_cache::needs!("git");
    let site = Site::new();
    let server = site.server();
    site.hook("pre-receive", "echo 'not on a Friday' >&2; exit 1");
    for place in [site.file(), site.place(&server.url("board.git"))] {
        let error = open(&place).put("rollout/r", write(b"x", None)).unwrap_err();
        assert!(matches!(error, BoardError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains("not on a Friday"), "{error}");
        assert_eq!(open(&place).get("rollout/r").unwrap(), None);
    }
}

#[test]
fn the_log_of_a_rollout_reads_well_and_heartbeats_do_not_fill_it() {
    zagent_cache::needs!("git");
    for denies in [false, true] {
        let site = Site::new();
        if denies {
            site.git(&["config", "receive.denyNonFastForwards", "true"]);
        }
        let mut board = open(&site.file());
        let noted = |note, lasting| BoardWrite { note, lasting, ..write(b"", None) };
        let mut token =
            board.put("rollout/r", BoardWrite { value: b"0", ..noted("r: created", true) }).unwrap();
        for n in 1..=5 {
            let value = n.to_string();
            let beat =
                BoardWrite { value: value.as_bytes(), expected: Some(&token), ..noted("heartbeat", false) };
            token = board.put("rollout/r", beat).unwrap();
        }
        let last = BoardWrite { value: b"6", expected: Some(&token), ..noted("r: completed", true) };
        board.put("rollout/r", last).unwrap();
        let want = match denies {
            false => vec!["r: completed", "r: created"],
            true => [&["r: completed"][..], &["heartbeat"; 5], &["r: created"]].concat(),
        };
        // The first refusal is only known after a try.
        assert_eq!(site.log("rollout/r"), want, "denies: {denies}");
        assert_eq!(site.git(&["show", "rollout/r:rollout.yaml"]), "6");
        site.git(&["fsck", "--strict"]);
    }
}

#[test]
fn a_second_list_is_one_request_and_fetches_nothing() {
    zagent_cache::needs!("git");
    let site = Site::new();
    let server = site.server();
    let place = site.place(&server.url("board.git"));
    let mut writer = open(&place);
    let mut first = None;
    for n in 0..5 {
        let token = writer.put(&format!("node/agent/n{n}"), write(b"x", None)).unwrap();
        first.get_or_insert(token);
    }
    let mut reader = open(&place);
    assert_eq!(reader.list("node/").unwrap().len(), 5);
    drop(server.log());
    assert_eq!(reader.list("node/").unwrap().len(), 5);
    assert_eq!(server.log().len(), 1);
    // A push by a client that has pushed before is one request, whatever the number of refs.
    writer.put("node/agent/n0", write(b"y", first.as_ref())).unwrap();
    assert_eq!(server.log().len(), 1);
    let found = reader.list("node/").unwrap();
    assert_eq!(found[0].1.value, b"y");
}

#[test]
fn a_foreign_value_is_reported_and_does_not_hide_the_others() {
    zagent_cache::needs!("git");
    let site = Site::new();
    let mut board = open(&site.file());
    board.put("rollout/good", write(b"x", None)).unwrap();
    let tree = site.git(&["hash-object", "-w", "-t", "tree", "/dev/null"]);
    let who = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
    let commit = site.git(&[&who[..], &["commit-tree", "-m", "nothing", &tree]].concat());
    site.git(&["update-ref", "refs/heads/rollout/bad", &commit]);
    site.git(&["update-ref", "refs/heads/rollout/good2/deep", &commit]);
    assert!(matches!(board.get("rollout/bad"), Err(BoardError::Damaged { .. })));
    let keys: Vec<_> = board.list("rollout/").unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["rollout/good"]);
    // A name that is the directory of another cannot be created, and that is not a conflict.
    let error = board.put("rollout/good2", write(b"x", None)).unwrap_err();
    assert!(matches!(error, BoardError::Refused { .. }), "{error:?}");
}

fn keygen(path: &Path) -> String {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status();
    assert!(made.unwrap().success());
    std::fs::read_to_string(path.with_extension("pub")).unwrap()
}

/// A place whose rollouts are signed, and accepted only if they are.
fn signed(site: &Site) -> GitBoardConfig {
    let (key, stranger) = (site.dir.path().join("key"), site.dir.path().join("stranger"));
    let public = keygen(&key);
    keygen(&stranger);
    let allowed = site.dir.path().join("allowed_signers");
    std::fs::write(&allowed, format!("driver@example.org {public}")).unwrap();
    let trust = TrustSettings {
        require: RequiredSignatures::Commit,
        allowed_signers: allowed,
        revoked_keys: None,
        openpgp_keyring: None,
        threshold: 1,
        manifest: ManifestRule::Optional,
        fast_forward: true,
        repository: None,
        first: FirstContact::default(),
        min_serial: 0,
        unsigned_refs: Vec::new(),
    };
    let trust = RecordTrust { trust, allowed_signers: None };
    GitBoardConfig { key: Some(key), trust: Some(trust), ..site.file() }
}

#[test]
fn a_record_is_signed_for_records_only() {
    zagent_cache::needs!("git", "ssh-keygen");
    let site = Site::new();
    let place = signed(&site);
    let mut board = open(&place);
    let first = board.put("rollout/r", write(b"one", None)).unwrap();
    let beat = BoardWrite { lasting: false, ..write(b"two", Some(&first)) };
    let second = board.put("rollout/r", beat).unwrap();
    board.put("rollout/r", write(b"three", Some(&second))).unwrap();
    assert_eq!(open(&place).get("rollout/r").unwrap().unwrap().value, b"three");
    // As a commit of the states it is worth nothing, although the key may sign states.
    let trust = place.trust.clone().unwrap().trust;
    let states = AllowedSigners::read(&trust).unwrap();
    for commit in ["rollout/r", "rollout/r~1"] {
        let bytes = site.git_bytes(&["cat-file", "commit", commit]);
        let error = states.verify_commit(&bytes, jiff::Timestamp::now()).unwrap_err();
        assert_eq!(error.code(), "wrong-namespace", "{error}");
    }
    // And the other way round: a commit that Git signed is no record.
    let (key, tree) = (site.dir.path().join("key"), site.git(&["rev-parse", "rollout/r^{tree}"]));
    let signing = format!("user.signingkey={}", key.display());
    let commit = site.git(&[
        "-c",
        "gpg.format=ssh",
        "-c",
        &signing,
        "-c",
        "user.name=x",
        "-c",
        "user.email=x@example.org",
        "commit-tree",
        "-S",
        "-m",
        "states",
        &tree,
    ]);
    let bytes = site.git_bytes(&["cat-file", "commit", &commit]);
    states.verify_commit(&bytes, jiff::Timestamp::now()).unwrap();
    site.git(&["update-ref", "refs/heads/rollout/r", &commit]);
    let error = open(&place).get("rollout/r").unwrap_err().to_string();
    assert!(error.contains("made for `git`, not for `zagent-record`"), "{error}");
}

#[test]
fn one_key_has_one_purpose() {
    zagent_cache::needs!("git", "ssh-keygen");
    let site = Site::new();
    let place = signed(&site);
    let trust = place.trust.clone().unwrap();
    let public = std::fs::read_to_string(site.dir.path().join("key.pub")).unwrap();
    open(&place).put("rollout/r", write(b"one", None)).unwrap();
    let own = site.dir.path().join("record_signers");
    let with = |states: &str, records: Option<&str>| {
        std::fs::write(&trust.trust.allowed_signers, states).unwrap();
        records.into_iter().for_each(|text| std::fs::write(&own, text).unwrap());
        let trust = RecordTrust { allowed_signers: records.map(|_| own.clone()), ..trust.clone() };
        let shared = trust.shared_keys().unwrap().len();
        let read = open(&GitBoardConfig { trust: Some(trust), ..place.clone() }).get("rollout/r");
        (read.map(|_| ()).map_err(|error| error.to_string()), shared)
    };
    let other = keygen(&site.dir.path().join("other"));
    let line = |options: &str| format!("driver {options} {public}");
    // One list for all: it works, and the key is named as one that could sign states too.
    assert_eq!(with(&line(""), None), (Ok(()), 1));
    assert_eq!(with(&line("namespaces=\"git,zagent-record\""), None), (Ok(()), 1));
    assert_eq!(with(&line("namespaces=\"zagent-record\""), None), (Ok(()), 0));
    // A list of its own is the only one that counts.
    let people = format!("alice {other}");
    assert_eq!(with(&people, Some(&line(""))), (Ok(()), 0));
    assert_eq!(with(&line(""), Some(&line(""))), (Ok(()), 1));
    assert_eq!(with(&line("namespaces=\"zagent-report\""), Some(&line(""))), (Ok(()), 0));
    for (states, records) in [
        (line("namespaces=\"git,zagent-manifest\""), None),
        (line(""), Some(people.as_str())),
        (line(""), Some(&*line("namespaces=\"git\""))),
    ] {
        let (read, _) = with(&states, records);
        let error = read.unwrap_err();
        assert!(error.contains("is not allowed to sign for") || error.contains("is not in"), "{error}");
    }
}

#[test]
fn a_rollout_without_an_accepted_signature_is_refused() {
    zagent_cache::needs!("git", "ssh-keygen");
    let site = Site::new();
    let place = signed(&site);
    let unsigned = site.file();
    let stranger = GitBoardConfig { key: Some(site.dir.path().join("stranger")), ..site.file() };
    for (writer, why) in [(&unsigned, "not signed"), (&stranger, "is not in")] {
        let token = open(writer).put("rollout/bad", write(b"mine", None)).unwrap();
        open(&place).put("rollout/good", write(b"ours", None)).unwrap();
        let mut board = open(&place);
        let error = board.get("rollout/bad").unwrap_err();
        assert!(matches!(error, BoardError::Refused { .. }) && error.to_string().contains(why), "{error}");
        let listed = board.list("rollout/").unwrap();
        assert_eq!(listed.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["rollout/good"]);
        open(writer).delete("rollout/bad", &token).unwrap();
        board.delete("rollout/good", &listed[0].1.token).unwrap();
    }
    // A client without an accepted key does not write.
    let keyless = GitBoardConfig { key: None, ..place };
    let error = open(&keyless).put("rollout/r", write(b"x", None)).unwrap_err();
    assert!(error.to_string().contains("rollout.key"), "{error}");
}

/// Counts the bytes on a connection, in both directions.
struct Counted(std::net::TcpStream, Arc<[AtomicU64; 2]>);

impl std::io::Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0.read(buf)?;
        self.1[0].fetch_add(n as u64, Ordering::SeqCst);
        Ok(n)
    }
}

impl std::io::Write for Counted {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        let n = self.0.write(buf)?;
        self.1[1].fetch_add(n as u64, Ordering::SeqCst);
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// This many nodes with a report each, written in one step.
fn populate(site: &Site, nodes: usize) {
    let mut stream = String::new();
    for n in 0..nodes {
        let mut state = n as u64 + 1;
        let random: String = (0..30)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                format!("{state:016x}")
            })
            .collect();
        let report = format!(
            "{{\"schema\":1,\"report\":\"{}\",\"signature\":\"{random}\"}}",
            "field: value, ".repeat(40)
        );
        stream.push_str(&format!(
            "commit refs/zagent/node/agent/n{n}\ncommitter x <x@example.org> {n} +0000\ndata 6\nreport\n\
             M 100644 inline report.json\ndata {}\n{report}\n\n",
            report.len()
        ));
    }
    let mut import = Command::new("git")
        .args(["fast-import", "--quiet"])
        .current_dir(site.repository())
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut import.stdin.take().unwrap(), stream.as_bytes()).unwrap();
    assert!(import.wait().unwrap().success());
}

#[test]
#[ignore = "a measurement: requests and bytes of each act over http, by the number of refs"]
fn what_it_costs() {
    for nodes in [1, 100, 1000] {
        let site = Site::new();
        populate(&site, nodes);
        let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let counting = counts.clone();
        let wrap = move |stream| Some(Box::new(Counted(stream, counting.clone())) as Box<dyn ServerStream>);
        let server = GitHttpServer::start_with(site.dir.path(), Box::new(wrap));
        let place = site.place(&server.url("board.git"));
        let value = std::fs::read(site.repository().join("config")).unwrap().repeat(8);
        let tell = |what: &str| {
            let [up, down] = [0, 1].map(|i| counts[i].swap(0, Ordering::SeqCst));
            println!("{nodes} refs, {what}: {} requests, {up} up, {down} down", server.log().len());
        };
        let mut board = open(&place);
        let first = board.put("node/agent/me", write(&value, None)).unwrap();
        tell("put, the first of a client");
        let second = board.put("node/agent/me", write(&value, Some(&first))).unwrap();
        tell("put");
        board.get("node/agent/me").unwrap().unwrap();
        tell("get, the first of a client, known");
        board.get("node/agent/me").unwrap().unwrap();
        tell("get, unchanged");
        let mut other = open(&place);
        assert_eq!(other.list("node/agent/").unwrap().len(), nodes + 1);
        tell("list, everything new");
        other.list("node/agent/").unwrap();
        tell("list, unchanged");
        let own = other.put("node/agent/other", write(&value, None)).unwrap();
        tell("put, the first of a client that has read");
        other.delete("node/agent/other", &own).unwrap();
        tell("delete");
        board.put("node/agent/me", write(&value, Some(&second))).unwrap();
        tell("put");
        other.list("node/agent/").unwrap();
        tell("list, one changed");
        board.get("node/agent/n0").unwrap().unwrap();
        tell("get, changed");
    }
}
