//! A pull request from somebody unknown: whatever its tree holds, `zagent check` starts no program and shows nothing of the
//! machine that checks it; `--no-commands` does the same for the other commands that compile.
//!
//! Every check runs in a process of its own, which tells by the resources of its children whether it ever had one. The same
//! trees do start programs when they are compiled without these limits.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use nix::sys::resource::{UsageWho, getrusage};
use tempfile::TempDir;

/// Set for a process that runs one command: its words, separated by line ends.
const WORDS: &str = "ATTACK_CHECK_WORDS";
/// What no output may show.
const SECRET: &str = "s3cr3t-of-the-runner";

/// Templates that start a program, each of which leaves the file `$T/ran/NAME` behind.
const COMMANDS: [(&str, &str); 12] = [
    ("run", "{{ salt['cmd.run']('touch $T/ran/run') }}"),
    ("shell", "{{ salt['cmd.shell']('touch $T/ran/shell') }}"),
    ("all", "{{ salt['cmd.run_all']('touch $T/ran/all') }}"),
    ("code", "{{ salt['cmd.retcode']('touch $T/ran/code') }}"),
    ("out", "{{ salt.cmd.run_stdout('touch $T/ran/out') }}"),
    ("err", "{{ salt['cmd.run_stderr']('touch $T/ran/err') }}"),
    ("map", "{% from 'map.jinja' import value %}{{ value }}"),
    ("pkg", "{{ salt['pkg.version']('bash') }}"),
    ("service", "{{ salt['service.status']('ssh') }}"),
    ("sysctl", "{{ salt['git.version']() }}"),
    ("pillar", "{{ pillar['ran'] }}"),
    (
        "gpg",
        "#!jinja|yaml|gpg\na: {test.nop: [{name: \"-----BEGIN PGP MESSAGE-----\\n\\nx\\n-----END PGP MESSAGE-----\"}]}",
    ),
];

/// Templates that read what is not in the repository.
const READS: [&str; 14] = [
    "{{ salt['file.read']('$T/secret') }}",
    "{{ salt['file.grep']('$T/secret', 's3') }}",
    "{{ salt['file.get_hash']('$T/secret') }}",
    "{{ salt['file.file_exists']('$T/secret') }}",
    "{{ salt['cp.get_file_str']('$T/secret') }}",
    "{{ salt['cp.get_url']('file://$T/secret') }}",
    "{{ '$T/secret' | file_hashsum }}",
    "{{ '$T' | list_files }}",
    "{% include '$T/secret' %}",
    "{% import_text '../../secret' as text %}{{ text }}",
    "{{ salt['environ.get']('CI_TOKEN') }}",
    "{{ salt['environ.items']() }}",
    "{{ salt['http.query']('http://127.0.0.1:9/') }}",
    "{{ 'http://127.0.0.1:9/' | http_query }}",
];

/// A repository, and a configuration that names programs of its own.
struct Repository {
    dir: TempDir,
}

impl Repository {
    fn new() -> Self {
        let new = Self { dir: TempDir::new().unwrap() };
        let mut names = Vec::new();
        for (name, text) in COMMANDS {
            names.push(format!("c_{name}"));
            new.write(&format!("repo/states/c_{name}.sls"), &sls(text));
        }
        for (i, text) in READS.iter().enumerate() {
            names.push(format!("r_{i}"));
            new.write(&format!("repo/states/r_{i}.sls"), &sls(text));
        }
        for (name, text) in [
            ("slot", "a:\n  test.nop:\n    - x: __slot__:salt:cmd.run(touch $T/ran/slot)\n"),
            ("guard", "a1:\n  test.nop:\n    - onlyif: touch $T/ran/guard\n"),
            ("module", "b1:\n  evil.present: []\n"),
            ("leak", ""),
        ] {
            names.push(name.to_owned());
            new.write(&format!("repo/states/{name}.sls"), text);
        }
        new.write("repo/states/top.sls", &format!("base:\n  '*': [{}]\n", names.join(", ")));
        new.write("repo/states/map.jinja", "{% set value = salt['cmd.run']('touch $T/ran/map') %}\n");
        new.write("repo/pillar/top.sls", "base:\n  '*': [p]\n");
        new.write("repo/pillar/p.sls", "ran: {{ salt['cmd.run']('touch $T/ran/pillar') }}\n");
        new.write("repo/inventory/web-01.yaml", "os: Debian\nid: web-01\n");
        new.write("secret", SECRET);
        fs::remove_file(new.path("repo/states/leak.sls")).unwrap();
        symlink(new.path("secret"), new.path("repo/states/leak.sls")).unwrap();
        for name in ["repo/_states/evil", "repo/states/_states/evil", "ext", "facts/fact"] {
            new.script(name, &format!("#!/bin/sh\ntouch $T/ran/{}\necho '{{}}'\n", name.replace('/', "_")));
        }
        for name in ["gpg", "git", "dpkg-query", "systemctl"] {
            new.script(&format!("bin/{name}"), &format!("#!/bin/sh\ntouch $T/ran/{name}\n"));
        }
        let more = "ext_pillar: [[$T/ext]]\nmaster_tops: [[$T/ext]]\nfacts_dir: $T/facts\nroot: $T/root\n";
        new.write("zagent.yaml", more);
        fs::create_dir(new.path("ran")).unwrap();
        new
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("$T", &self.dir.path().display().to_string())).unwrap();
    }

    fn script(&self, name: &str, text: &str) {
        self.write(name, text);
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs a command in a process of its own: its exit code, all that it printed, and whether it had a child.
    fn zagent(&self, words: &[&str]) -> (i32, String, bool) {
        let config = self.path("zagent.yaml").display().to_string();
        let words = [words, &["--config", &config]].concat().join("\n");
        let bin = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["attacks::check::one_command", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(WORDS, words).env("CI_TOKEN", SECRET).env("PATH", bin);
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let had_child = text.contains("had a child: true");
        assert!(had_child || text.contains("had a child: false"), "{text}");
        let exit = text.lines().find_map(|l| l.strip_prefix("exit code: ")).unwrap().parse().unwrap();
        (exit, text, had_child)
    }

    fn check(&self, more: &[&str]) -> (i32, String, bool) {
        let repo = self.path("repo").display().to_string();
        self.zagent(&[&["check", &repo], more].concat())
    }

    /// What was started.
    fn ran(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("ran")).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }
}

/// A file that holds the template and nothing else that could fail.
fn sls(text: &str) -> String {
    if text.starts_with("#!") { text.to_owned() } else { format!("# {text}\n") }
}

/// Not a test: runs one command and tells whether it had a child.
#[test]
fn one_command() {
    let Some(words) = std::env::var_os(WORDS) else { return };
    let words = words.into_string().unwrap();
    let args = std::iter::once("zagent").chain(words.split('\n')).map(Into::into);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit = zagent::cli::run(args, &mut out, &mut err, (false, false));
    println!("{}{}", String::from_utf8_lossy(&out), String::from_utf8_lossy(&err));
    println!("exit code: {}", zagent::exit_code::code(exit));
    println!("had a child: {}", getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss() > 0);
}

#[test]
fn a_check_starts_nothing_and_shows_nothing() {
    let repository = Repository::new();
    let start = |more: &[&str]| {
        let (exit, text, had_child) = repository.check(more);
        assert_eq!(exit, 65, "{more:?}: {text}");
        assert!(!had_child, "{more:?}: {text}");
        assert!(!text.contains(SECRET), "{more:?}: {text}");
        assert_eq!(repository.ran(), [] as [String; 0], "{more:?}");
        text
    };
    assert!(start(&[]).contains("pillar/p.sls:1:"));
    start(&["--live"]);
    // The states are reached once the pillar compiles.
    repository.write("repo/pillar/p.sls", "ran: 1\n");
    for more in [&["--live"][..], &["--out", "json"], &["--live", "--sarif"], &["--compat", "salt"]] {
        start(more);
    }
    // Each refusal names its place and what to do.
    let text = start(&[]);
    for (name, _) in COMMANDS.iter().filter(|(name, _)| !matches!(*name, "map" | "pillar" | "gpg")) {
        assert!(text.contains(&format!("c_{name}.sls:1:")), "{name}: {text}");
    }
    assert!(text.contains("record the answer in inventory/NODE.yaml: `functions: {cmd.run: {"), "{text}");
    assert!(text.contains("map.jinja:1:"), "{text}");
    assert!(text.contains("is a link that leaves its tree"), "{text}");
}

#[test]
fn without_an_inventory_nothing_is_compiled() {
    let repository = Repository::new();
    fs::remove_dir_all(repository.path("repo/inventory")).unwrap();
    let (exit, text, had_child) = repository.check(&[]);
    assert!(exit == 2 && !had_child, "{text}");
    assert!(text.contains("records no host in inventory/") && text.contains("--live"), "{text}");
    assert_eq!(repository.ran(), [] as [String; 0]);
    // A directory elsewhere is no inventory, and no tree.
    repository.write("elsewhere/top.sls", "base: {}\n");
    repository.write("repo/pillar/p.sls", "ran: 1\n");
    for name in ["inventory", "states"] {
        let _ = fs::remove_dir_all(repository.path(&format!("repo/{name}")));
        symlink("../elsewhere", repository.path(&format!("repo/{name}"))).unwrap();
        let (_, text, _) = repository.check(&["--live"].repeat(usize::from(name == "states")));
        assert!(text.contains("leaves the repository"), "{name}: {text}");
        fs::remove_file(repository.path(&format!("repo/{name}"))).unwrap();
    }
}

#[test]
fn other_compiles_start_programs_unless_told_not_to() {
    let repository = Repository::new();
    let at = |name: &str| repository.path(name).display().to_string();
    let (states, pillar) = (at("repo/states"), at("repo/pillar"));
    let tree = ["--states", &states, "--pillar", &pillar];
    let show = |more: &[&str]| repository.zagent(&[&["show", "lowstate"][..], &tree, more].concat());
    let (exit, text, had_child) = show(&["--no-commands"]);
    assert!(exit == 65 && !had_child, "{text}");
    assert!(text.contains("ext`: `--no-commands` starts none"), "{text}");
    assert_eq!(repository.ran(), [] as [String; 0]);

    // Without programs in the configuration the templates are reached.
    repository.write("zagent.yaml", "facts_dir: $T/facts\nroot: $T/root\n");
    for (name, _) in COMMANDS.iter().filter(|(name, _)| *name != "gpg") {
        let sls = format!("c_{name}");
        let (exit, text, had_child) = show(&["--no-commands", "--sls", &sls]);
        assert!(exit == 65 && !had_child, "{name}: {text}");
        assert!(
            text.contains("`--no-commands` starts none") && text.contains("leave out `--no-commands`"),
            "{name}: {text}"
        );
        assert_eq!(repository.ran(), [] as [String; 0], "{name}");
    }
    let run = ["run", "--once", "--test", "--no-commands", "--sls", "c_run"];
    let (exit, text, had_child) = repository.zagent(&[&run[..], &tree].concat());
    assert!(exit == 65 && !had_child, "{text}");
    assert_eq!(repository.ran(), [] as [String; 0]);

    for (name, _) in
        COMMANDS.iter().filter(|(name, _)| !matches!(*name, "pkg" | "service" | "sysctl" | "gpg"))
    {
        show(&["--sls", &format!("c_{name}")]);
        assert!(
            repository.ran().contains(&(*name).to_owned()),
            "{name}: the tree is harmless: {:?}",
            repository.ran()
        );
    }
    repository.zagent(&["show", "grains", "--no-commands"]);
    assert!(!Path::new(&at("ran/facts_fact")).exists());
    repository.zagent(&["show", "grains"]);
    assert!(Path::new(&at("ran/facts_fact")).exists());
}
