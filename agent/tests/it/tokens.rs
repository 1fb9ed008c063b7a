//! A thousand secrets in every place where a value can go, and ordinary texts beside them: no output, file or command line
//! shows one of the former, and all of the latter stay readable.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::TempDir;

/// Secrets that are planted.
const TOKENS: usize = 1000;
/// How often the command lines of all processes are looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Places that a secret can be in.
const PLACES: usize = 10;
/// Texts that look a little like secrets and are none.
const ORDINARY: [&str; 12] = [
    "listen 8080 default_server",
    "user www-data worker_processes 4",
    "password authentication is disabled",
    "token bucket size 128k",
    "sha256=9f86d081884c7d659a2feaa0c55ad015",
    "10.11.12.13 db.example.org",
    "550e8400-e29b-41d4-a716-446655440000",
    "PATH=/usr/local/bin:/usr/bin",
    "key exchange curve25519",
    "secret santa at noon",
    "aGVsbG8gd29ybGQ= is hello world",
    "tk-0001 is a ticket",
];

/// A secret: no two share more than their first letters.
fn token(index: usize) -> String {
    let mixed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("Zq{mixed:016x}w{index}")
}

/// Secrets that a text shows, in plain, hex or base64.
fn shown(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    // Every plain secret begins with the same letters.
    if text.contains("Zq") {
        found.extend((0..TOKENS).map(token).filter(|token| text.contains(token.as_str())));
    }
    if text.contains("5a71") {
        let hex = |token: &String| token.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        found.extend((0..TOKENS).map(token).filter(|token| text.contains(&hex(token))));
    }
    found
}

fn assert_clean(place: &str, text: &str) {
    let found = shown(text);
    let Some(first) = found.first() else { return };
    let at = text.find(first.as_str()).unwrap_or_default();
    let from = text[..at].char_indices().rev().nth(300).map_or(0, |(from, _)| from);
    panic!("{place} shows {} secrets, such as {first}:\n{}", found.len(), &text[from..at]);
}

struct Planted {
    temp: TempDir,
}

impl Planted {
    fn new() -> Self {
        let planted = Self { temp: tempfile::tempdir().unwrap() };
        let at = |name: &str| planted.path(name).display().to_string();
        for dir in ["host", "tree", "pillar"] {
            fs::create_dir(planted.path(dir)).unwrap();
        }
        planted.write("zagent.yaml", &format!("id: web-01\nroot: {}\n", at("root")));
        planted.write("tree/top.sls", "base: {'*': [all]}\n");
        planted.write("tree/conf.jinja", "a = {{ pillar['password_' ~ n] }}\nplain line\n");
        planted.write("pillar/top.sls", "base: {'*': [all]}\n");
        let mut pillar = String::new();
        for index in 0..TOKENS {
            let _ = writeln!(pillar, "password_{index}: {}", token(index));
        }
        planted.write("pillar/all.sls", &pillar);
        let groups = TOKENS / PLACES;
        let mut sls = STATES.replace("GROUPS", &groups.to_string()).replace("$D", &at("host"));
        for (number, text) in ORDINARY.iter().enumerate() {
            let _ = write!(
                sls,
                "plain-{number}:\n  test.configurable_test_state: [{{changes: true}}, {{comment: '{text}'}}]\n"
            );
        }
        planted.write("tree/all.sls", &sls);
        for group in 0..groups {
            planted.write(&format!("host/old-{group}"), &format!("old {}\n", token(group * PLACES + 8)));
        }
        planted
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Runs a command; nothing that it prints shows a secret. While it runs, no command line shows one either.
    fn zagent(&self, words: &[&str]) -> String {
        let is_over = AtomicBool::new(false);
        let output = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert_command_lines_clean();
                    std::thread::park_timeout(LOOK);
                }
            });
            let output = Command::new(env!("CARGO_BIN_EXE_zagent"))
                .args(words)
                .current_dir(self.temp.path())
                .env("ZAGENT_CONFIG", self.path("zagent.yaml"))
                .stdin(Stdio::null())
                .output()
                .unwrap();
            is_over.store(true, Ordering::Relaxed);
            output
        });
        let [out, err] =
            [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        assert_clean(&format!("stdout of {words:?}"), &out);
        assert_clean(&format!("stderr of {words:?}"), &err);
        assert!(!err.contains("panicked"), "{err}");
        out
    }
}

/// `n` is the number of a secret; each state of a group has one.
const STATES: &str = "{% for g in range(GROUPS) %}{% set n = g * 10 %}
template-{{ g }}:
  file.managed: [{name: $D/template-{{ g }}}, {source: 'salt://conf.jinja'}, {template: jinja}, {mode: '0600'}, {context: {n: {{ n }}}}]
contents-{{ g }}:
  file.managed: [{name: $D/contents-{{ g }}}, {mode: '0600'}, {contents: 'b = {{ pillar['password_' ~ (n + 1)] }}'}]
id-{{ g }}-{{ pillar['password_' ~ (n + 2)] }}:
  test.succeed_with_changes: []
name-{{ g }}:
  test.succeed_with_changes: [{name: 'name {{ pillar['password_' ~ (n + 3)] }}'}]
argument-{{ g }}:
  test.configurable_test_state: [{changes: true}, {result: false}, {comment: 'said {{ pillar['password_' ~ (n + 4)] }}'}]
environment-{{ g }}:
  cmd.run: [{name: 'echo $MINE; printf %s $MINE | od -An -v -tx1 | tr -d \" \\n\"'}, {env: [{MINE: '{{ pillar['password_' ~ (n + 5)] }}'}]}]
address-{{ g }}:
  file.managed: [{name: $D/never-{{ g }}}, {skip_verify: true}, {source: 'http://me:{{ pillar['password_' ~ (n + 6)] }}@127.0.0.1:1/x'}]
new-line-{{ g }}:
  file.append: [{name: $D/lines-{{ g }}}, {text: 'key={{ pillar['password_' ~ (n + 7)] }}'}]
old-line-{{ g }}:
  file.managed: [{name: $D/old-{{ g }}}, {contents: 'nothing to hide'}]
input-{{ g }}:
  cmd.run: [{name: 'cat; cat >&2; exit 1'}, {stdin: '{{ pillar['password_' ~ (n + 9)] }}'}]
{% endfor %}
";

fn assert_command_lines_clean() {
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        if entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()) {
            let argv = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            assert_clean("a command line", &String::from_utf8_lossy(&argv));
        }
    }
}

/// Files below a directory.
fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files(&entry.path(), found),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

#[test]
fn a_secret_would_be_found() {
    for text in [
        format!("x{}y", token(7)),
        format!("{:02x}", 0x5a) + &token(7)[1..].bytes().map(|b| format!("{b:02x}")).collect::<String>(),
    ] {
        assert_eq!(shown(&text), BTreeSet::from([token(7)]), "{text}");
    }
    assert!(ORDINARY.iter().all(|text| shown(text).is_empty()));
}

#[test]
fn a_thousand_secrets_stay_on_the_node_and_ordinary_texts_stay_readable() {
    let planted = Planted::new();
    let tree = ["--states", "tree", "--pillar", "pillar"];
    let run = |words: &[&str]| planted.zagent(&[words, &tree].concat());
    run(&["run", "--once", "--test", "-vv", "--out", "json"]);
    let text = run(&["run", "--once", "--test", "-vv"]);
    assert!(ORDINARY.iter().all(|plain| text.contains(plain)), "an ordinary text was masked:\n{text}");
    run(&["run", "--once", "-vv", "--out", "json"]);
    // The states did their work with the real values.
    assert_eq!(fs::read_to_string(planted.path("host/contents-0")).unwrap(), format!("b = {}\n", token(1)));
    assert!(fs::read_to_string(planted.path("host/template-99")).unwrap().contains(&token(990)));
    for words in [
        &["history", "last", "-v"][..],
        &["history", "last", "-v", "--out", "json"],
        &["history", "last", "-v", "--out", "highstate"],
        &["status", "--out", "json"],
    ] {
        planted.zagent(words);
    }
    for out in ["text", "ndjson", "yaml", "highstate"] {
        run(&["run", "--once", "-vv", "--out", out]);
    }
    run(&["adopt"]);
    run(&["orphans", "--out", "json"]);
    planted.write("tree/all.sls", "one:\n  test.nop: []\n");
    run(&["run", "--once", "--out", "json"]);
    run(&["orphans", "--out", "json"]);
    run(&["run", "--once", "-vv", "--prune=file", "--prune-max", "1000", "--out", "json"]);
    planted.zagent(&["run", "--revert", "last", "-vv", "--out", "json"]);
    let mut all = Vec::new();
    files(&planted.path("root"), &mut all);
    assert!(all.iter().any(|path| path.ends_with("state/managed")), "{all:?}");
    for path in &all {
        let name = path.strip_prefix(planted.path("root")).unwrap().display().to_string();
        let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        if !["state/undo/", "state/backups/", "cache/"].iter().any(|dir| name.starts_with(dir)) {
            assert_clean(&name, &text);
        }
        let is_closed = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o077 == 0;
        assert!(
            path.ancestors().take_while(|dir| *dir != planted.temp.path()).any(is_closed),
            "others read {name}"
        );
    }
}
