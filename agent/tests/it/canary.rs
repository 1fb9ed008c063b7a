//! Secrets never leave a node: real processes, canaries wherever a state can put a secret, and every place where one could
//! turn up: log, process list, sockets, metrics, status, boards, quarantine, history, journals, webhooks, files.
//!
//! The canaries: a text decrypted with the host's key, a pillar value under a secret key, literals under secret arguments.
//! The host's key is one of the test: the agent runs in a mount namespace with its own `/etc/ssh`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use tempfile::TempDir;
use zagent_cache::testing::EntryKind;
use zagent_config::paths::Paths;
use zagent_rollout::board::SledBoard;
use zagent_rollout::board_stores::BoardReports;
use zagent_rollout::envelope::NodeKeys;
use zagent_rollout::record::Component;
use zagent_rollout::records::Reports;

use crate::node::{Node, PATIENCE, Upstream, eventually};

/// The values of one revision.
struct Secrets {
    /// Decrypted on the node; no key says that it is a secret.
    decrypted: &'static str,
    /// In the pillar, under `password`.
    marked: &'static str,
    /// In the SLS, under `password`.
    literal: &'static str,
}

const FIRST: Secrets = Secrets {
    decrypted: "opened-Zq7/w+9 'x\"",
    marked: "marked-Lm4/t+2 'z\"",
    literal: "literal-Hd5/r+6 'v\"",
};
const ROTATED: Secrets = Secrets {
    decrypted: "opened2-Kp3/v+8 'y\"",
    marked: "marked2-Bc8/s+1 'w\"",
    literal: "literal2-Wn2/q+7 'u\"",
};

impl Secrets {
    const fn all(&self) -> [&'static str; 3] {
        [self.decrypted, self.marked, self.literal]
    }
}

/// Both tests look at all processes of this machine, and give secrets to a command: they take turns.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Texts that give a secret away: the beginning of it, and of its forms.
fn forms(secret: &str) -> Vec<String> {
    let head = &secret[..12];
    let hex: String = head.bytes().map(|b| format!("{b:02x}")).collect();
    let percent: String = secret
        .bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect();
    let json = serde_json::to_string(secret).unwrap();
    vec![head.to_owned(), hex, base64(head), percent, json.trim_matches('"').to_owned()]
}

/// Twelve bytes as base64, as `base64` of a longer text begins.
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |three: &[u8]| {
        let bits = three.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[bits >> shift & 63]))
    };
    text.as_bytes().chunks_exact(3).flat_map(digits).collect()
}

/// The form of a canary in a text.
fn canary_in(text: &str) -> Option<String> {
    let secrets = [FIRST, ROTATED].into_iter().flat_map(|secrets| secrets.all());
    secrets.flat_map(forms).find(|form| text.contains(form.as_str()))
}

#[track_caller]
fn assert_clean(sink: &str, text: &str) {
    if let Some(form) = canary_in(text) {
        let at = text.find(&form).unwrap();
        let near: String = text[..at].chars().rev().take(300).collect::<Vec<_>>().into_iter().rev().collect();
        panic!("{sink} shows {form} after:\n{near}");
    }
}

/// A host key of its own, and the agent in a mount namespace that has it.
struct HostKey {
    dir: TempDir,
    identity: age::x25519::Identity,
}

impl HostKey {
    fn new() -> Self {
        use age::secrecy::ExposeSecret;
        let identity = age::x25519::Identity::generate();
        let dir = tempfile::Builder::new().prefix("zagent-key-").tempdir().unwrap();
        fs::create_dir(dir.path().join("ssh")).unwrap();
        fs::write(dir.path().join("ssh/ssh_host_ed25519_key"), identity.to_string().expose_secret()).unwrap();
        let user = if nix::unistd::getuid().is_root() { "" } else { "--map-root-user" };
        let script = format!(
            "#!/bin/sh\nexec unshare {user} --mount sh -c 'mount --bind {} /etc/ssh && exec {} \"$@\"' zagent \"$@\"\n",
            dir.path().join("ssh").display(),
            env!("CARGO_BIN_EXE_zagent")
        );
        fs::write(dir.path().join("zagent"), script).unwrap();
        fs::set_permissions(dir.path().join("zagent"), PermissionsExt::from_mode(0o755)).unwrap();
        Self { dir, identity }
    }

    fn program(&self) -> PathBuf {
        self.dir.path().join("zagent")
    }

    fn sealed(&self, text: &str) -> String {
        let recipient = self.identity.to_public();
        let encryptor = age::Encryptor::with_recipients(std::iter::once(&recipient as _)).unwrap();
        let mut out = Vec::new();
        let armour =
            age::armor::ArmoredWriter::wrap_output(&mut out, age::armor::Format::AsciiArmor).unwrap();
        let mut writer = encryptor.wrap_output(armour).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        writer.finish().and_then(age::armor::ArmoredWriter::finish).unwrap();
        String::from_utf8(out).unwrap()
    }
}

/// Prints everything that it is given: as comment, as changes with an old and a new value, and on stderr.
const TELLTALE: &str = r#"#!/bin/sh
question=$(cat)
echo "$question" >&2
case "$question" in
  *'"call":"check"'*) printf '{"result": null, "changes": {"all": %s}, "comment": "would tell"}\n' "$question";;
  *) printf '{"result": true, "changes": {"all": %s, "password": {"old": "was", "new": "is"}}, "comment": "told"}\n' "$question";;
esac
"#;

/// States that put the secrets wherever a state can put one. `$D` is a directory of the host.
const STATES: &str = r#"
{% set opened = pillar.note.text | trim %}
{% set marked = pillar.app.password %}
conf:
  file.managed: [{name: $D/conf}, {source: 'salt://conf.jinja'}, {template: jinja}, {mode: '0600'}]
literals:
  file.managed: [{name: $D/literals}, {source: 'salt://literals.jinja'}, {template: jinja}, {mode: '0600'},
    {context: {password: LITERAL}}]
{{ ('id ' ~ opened) | json }}:
  test.succeed_with_changes: [{name: {{ ('name ' ~ marked) | json }}}]
{{ opened | json }}:
  test.succeed_with_changes: []
{{ ('bad ' ~ marked) | json }}:
  test.configurable_test_state: [{changes: false}, {result: false}, {comment: {{ ('said ' ~ opened ~ marked) | json }}}]
prints:
  cmd.run:
    - name: 'cat; for x in "$A" "$B" "$PASSWORD"; do printf %s "$x" | base64; printf %s "$x" | od -An -tx1 | tr -d " \n"; done'
    - stdin: {{ (opened ~ marked) | json }}
    - env: [{A: {{ opened | json }}}, {B: {{ marked | json }}}, {PASSWORD: LITERAL}]
errs:
  cmd.run: [{name: 'cat >&2; exit 3'}, {stdin: {{ (opened | urlencode ~ ' ' ~ (marked | json)) | json }}}]
tells:
  telltale.told: [{password: LITERAL}, {token: {{ marked | json }}}, {plain: {{ opened | json }}}]
ini:
  ini.options_present: [{name: $D/app.ini}, {sections: {db: {password: LITERAL, other: {{ opened | json }}}}}]
line:
  file.append: [{name: $D/lines}, {text: {{ ('key=' ~ opened) | json }}}]
address:
  file.managed: [{name: $D/never}, {skip_verify: true},
    {source: {{ ('http://user:' ~ (marked | urlencode) ~ '@127.0.0.1:1/x?key=' ~ (opened | urlencode)) | json }}}]
log: {test.nop: [{comment: {{ salt['log.warning'](opened ~ marked) | json }}}]}
waits:
  cmd.run: [{name: 'cat > $D/given; echo $$ > $D/pid; read x < $D/gate'}, {stdin: {{ (opened ~ marked) | json }}}, {order: last}]
"#;

/// The tree with these secrets; `more` is a part of the SLS.
fn push(upstream: &mut Upstream, node: &Node, key: &HostKey, secrets: &Secrets, more: &str) -> String {
    let blob = EntryKind::Blob;
    let quoted = |text: &str| serde_json::to_string(text).unwrap();
    let sls = format!("{STATES}{more}").replace("LITERAL", &quoted(secrets.literal));
    let sls = sls.replace("$D", node.path("host").to_str().unwrap());
    let sealed: String = key.sealed(secrets.decrypted).lines().map(|line| format!("    {line}\n")).collect();
    let pillar = format!(
        "#!jinja|yaml|age\nnote:\n  text: |\n{sealed}app: {{user: appuser, password: {}}}\n",
        quoted(secrets.marked)
    );
    upstream.repo.commit(&[
        ("states/top.sls", blob, "base: {'*': [all]}\n"),
        ("states/all.sls", blob, &sls),
        ("states/conf.jinja", blob, "a={{ pillar.note.text }}\nb={{ pillar.app.password }}\nport=80\n"),
        ("states/literals.jinja", blob, "password={{ password }}\n"),
        ("pillar/top.sls", blob, "base: {'*': [app]}\n"),
        ("pillar/app.sls", blob, &pillar),
        ("_states/telltale", EntryKind::BlobExecutable, TELLTALE),
    ])
}

/// Receives webhooks: head and body of each.
fn webhooks() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (tell, heard) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut text = String::new();
            let mut part = [0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut part) {
                text += &String::from_utf8_lossy(&part[..read]);
                let body = text.split_once("\r\n\r\n").map(|(_, body)| body);
                if body.is_some_and(|body| serde_json::from_str::<serde_json::Value>(body).is_ok()) {
                    break;
                }
            }
            let _ = stream
                .write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            if tell.send(text).is_err() {
                return;
            }
        }
    });
    (url, heard)
}

fn answer(mut stream: impl Read + Write, path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    answer
}

/// Both listeners, all paths.
fn assert_sockets_clean(node: &Node, tcp: SocketAddr) {
    for path in ["/v1/status", "/v1/runs/last", "/metrics", "/healthz", "/readyz"] {
        let stream = UnixStream::connect(node.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_clean(&format!("the socket's {path}"), &answer(stream, path));
    }
    for path in ["/metrics", "/healthz", "/readyz"] {
        let stream = TcpStream::connect(tcp).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_clean(&format!("TCP {path}"), &answer(stream, path));
    }
}

/// Every process on this machine: no argument and no variable is a secret, but variables that a state gave to its command.
fn assert_processes_clean(allowed: &BTreeSet<i32>) -> usize {
    let mut seen = 0;
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let read = |what: &str| fs::read(entry.path().join(what)).unwrap_or_default();
        let argv = String::from_utf8_lossy(&read("cmdline")).into_owned();
        assert_clean(&format!("the command line of {pid}"), &argv);
        if !allowed.contains(&pid) {
            assert_clean(
                &format!("the environment of {pid} ({argv})"),
                &String::from_utf8_lossy(&read("environ")),
            );
        }
        seen += 1;
    }
    seen
}

/// What people and programs print on this node.
fn assert_commands_clean(node: &Node) {
    let commands: [&[&str]; 12] = [
        &["status"],
        &["status", "--out", "json"],
        &["history"],
        &["history", "last", "-v", "--out", "json"],
        &["history", "last", "-v", "--out", "text"],
        &["history", "last", "-v", "--out", "highstate"],
        &["quarantine", "list"],
        &["cache", "list"],
        &["doctor"],
        &["run", "--once", "--test", "-vv", "--out", "json"],
        &["run", "--once", "--test", "-vv", "--out", "text"],
        &["show", "plan", "-v"],
    ];
    for words in commands {
        let output = node.zagent(words);
        for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            assert_clean(&format!("{name} of {words:?}"), &String::from_utf8_lossy(bytes));
        }
    }
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files(&entry.path(), found);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
}

/// Only the tree, plans made of it, and what a revert restores hold secrets; other users cannot reach them.
fn assert_files_clean(node: &Node) {
    let root = node.path("root");
    let mut all = Vec::new();
    files(&root, &mut all);
    for path in &all {
        let Ok(bytes) = fs::read(path) else { continue };
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        let text = String::from_utf8_lossy(&bytes);
        if !["cache/", "state/undo/", "state/backups/"].iter().any(|dir| name.starts_with(dir)) {
            assert_clean(&name, &text);
        } else if canary_in(&text).is_some() {
            let is_closed = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o077 == 0;
            let below = path.ancestors().take_while(|dir| dir.starts_with(&root));
            assert!(below.into_iter().any(is_closed), "other users can read {name}");
        }
    }
    assert!(all.iter().any(|path| path.ends_with("log/audit.jsonl")), "{all:?}");
}

/// Everything that was ever on the board.
fn assert_board_clean(repo: &Path) {
    let output = Command::new("git")
        .current_dir(repo)
        .args(["cat-file", "--batch", "--batch-all-objects"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("last_run"), "no report on the board: {text}");
    assert_clean("the board", &text);
}

/// Lets the last state of a run end, after a look at all processes while it waits.
fn look_at_processes(node: &Node) {
    let pid = eventually("the last state waits", || node.host("pid").trim().parse::<i32>().ok());
    assert!(assert_processes_clean(&BTreeSet::new()) > 1);
    assert!(fs::read_link(format!("/proc/{pid}/exe")).is_ok(), "the command runs while we look");
    fs::remove_file(node.path("host/pid")).unwrap();
    fs::write(node.path("host/gate"), "go\n").unwrap();
}

/// A node with a board of this kind and a listener for every sink, its repository, and its host key.
struct Scene {
    node: Node,
    upstream: Upstream,
    key: HostKey,
    tcp: SocketAddr,
    heard: Receiver<String>,
}

impl Scene {
    fn new(board: &str) -> Self {
        let (upstream, key) = (Upstream::new(), HostKey::new());
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (url, heard) = webhooks();
        let config = format!(
            "{}listen: {tcp}\nwebhooks: [{{url: '{url}', on: [always]}}]\n{board}\n\
             health: [{{name: host, command: 'if test -e $D/host/bad; then cat $D/host/conf; exit 1; fi', tries: 1}}]\n",
            upstream.config()
        );
        let node = Node::with_program(&config, Some(key.program()));
        node.pipe("gate");
        Self { node, upstream, key, tcp, heard }
    }

    fn push(&mut self, secrets: &Secrets, more: &str) -> String {
        push(&mut self.upstream, &self.node, &self.key, secrets, more)
    }

    /// All sinks but the board.
    fn assert_clean(&self) {
        assert_clean("the log", &self.node.said());
        assert_sockets_clean(&self.node, self.tcp);
        assert_files_clean(&self.node);
        for call in self.heard.try_iter() {
            assert_clean("a webhook", &call);
        }
    }
}

#[test]
fn no_process_file_or_socket_shows_a_canary() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let board = tempfile::tempdir().unwrap();
    let made = Command::new("git").args(["init", "-q", "--bare"]).arg(board.path()).status().unwrap();
    assert!(made.success());
    let mut scene =
        Scene::new(&format!("board: {{kind: git, url: 'file://{}', every: 10s}}", board.path().display()));
    let first = scene.push(&FIRST, "");
    scene.node.start_with(&["-vv"]);
    look_at_processes(&scene.node);
    let status = scene
        .node
        .until("the first run", |status| status.last_run.as_ref().is_some_and(|run| run.revision == first));
    // Four states fail on purpose; everything else has done its work with the real values.
    let history = scene.node.fine(&["history", "last", "-v"]);
    assert_eq!(status.last_run.unwrap().counts["failed"], 4, "{history}");
    let conf = scene.node.host("conf");
    assert!(conf.contains(FIRST.decrypted) && conf.contains(FIRST.marked), "{conf}");
    assert!(scene.node.host("literals").contains(FIRST.literal));
    assert!(scene.node.said().contains("********"), "the log speaks of secrets:\n{}", scene.node.said());
    scene.assert_clean();

    // Rotated, and rolled back: the health check prints the new file, and the quarantine keeps what it said.
    let bad = format!("{}/bad", scene.node.path("host").display());
    let second = scene.push(&ROTATED, &format!("bad: {{file.touch: [{{name: {bad}}}, {{order: 1}}]}}\n"));
    look_at_processes(&scene.node);
    // The way back runs the first revision again.
    look_at_processes(&scene.node);
    scene.node.until("the rollback", |status| {
        status.quarantined.iter().any(|one| one.revision == second)
            && status.current.as_ref().is_some_and(|current| current.revision == first)
    });
    scene.assert_clean();
    let quarantined = fs::read_to_string(Paths::new(scene.node.path("root")).quarantine()).unwrap();
    assert!(quarantined.contains("********"), "it keeps what the check said: {quarantined}");
    eventually("the board is told", || {
        let refs = Command::new("git").current_dir(board.path()).arg("for-each-ref").output().unwrap();
        (!refs.stdout.is_empty()).then_some(())
    });
    assert_board_clean(board.path());
    assert_commands_clean(&scene.node);
    scene.assert_clean();
    // By hand, with every command in the log.
    let output = std::thread::scope(|scope| {
        let run =
            scope.spawn(|| scene.node.zagent(&["run", "--once", "--no-fetch", "-vv", "--out", "ndjson"]));
        look_at_processes(&scene.node);
        run.join().unwrap()
    });
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert_clean("ndjson of a run", &out);
    assert_clean("the debug log of a run", &err);
    assert!(err.contains("started program="), "it names every command: {err}");
    scene.assert_clean();
}

#[test]
fn the_board_of_one_machine_shows_no_canary() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut scene = Scene::new("board: {kind: sled, every: 10s}");
    let first = scene.push(&FIRST, "");
    scene.node.start_with(&["-vv"]);
    look_at_processes(&scene.node);
    scene
        .node
        .until("the first run", |status| status.last_run.as_ref().is_some_and(|run| run.revision == first));
    let paths = Paths::new(scene.node.path("root"));
    let mut reports = BoardReports::new(
        Box::new(SledBoard::new(paths.board())),
        paths.key(),
        NodeKeys::new(None, paths.nodes()),
    );
    let report = eventually("the board is told", || {
        let report = reports.latest_reports(Component::States).unwrap().remove(&"node".parse().unwrap())?;
        report.last_run.is_some().then_some(report)
    });
    assert_clean("the board", &format!("{report:?} {}", serde_json::to_string(&report).unwrap()));
    scene.assert_clean();
}
