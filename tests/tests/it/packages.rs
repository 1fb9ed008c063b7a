//! The packages on real systems: installed as the book says, upgraded and removed during a run, which they never interrupt.
//!
//! Runs with NSPAWN=1 only (`SUITES=packages .ci/nspawn`). `PACKAGES_DIR` holds what `dist/package` made, and its directory `next`
//! the same with a higher version.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zagent_tests::container::{Node, Scene, eventually, is_asked_for, motd};

const DAEMON: &str = "zagent.service";
/// The time limit of a command of a package manager.
const LONG: Duration = Duration::from_secs(280);

/// A package manager: its commands, where the package is `/packages/NAME`.
struct Manager {
    /// How the name of a package file ends.
    ending: &'static str,
    upgrade: &'static str,
    remove: &'static str,
}

const APT: Manager = Manager {
    ending: ".deb",
    upgrade: "apt-get install -y -qq --no-install-recommends ./packages/next/zagent_*.deb",
    remove: "apt-get remove -y -qq zagent",
};
const DNF: Manager = Manager {
    ending: ".rpm",
    upgrade: "dnf -y -q --disablerepo='*' upgrade ./packages/next/zagent-*.rpm",
    remove: "dnf -y -q --disablerepo='*' remove zagent",
};

/// A package that stands for the shell of the system.
const SHELL_SPEC: &str = "Name: system-shell\nVersion: 1\nRelease: 1\nSummary: The shell of this system\nLicense: none\nBuildArch: \
                          noarch\nProvides: /bin/sh\n%description\nThe shell.\n%files\n";

fn packages() -> PathBuf {
    let dir = std::env::var_os("PACKAGES_DIR").expect("PACKAGES_DIR: the output of dist/package");
    PathBuf::from(dir)
}

/// The files of a directory whose name ends so.
fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let found = fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let found = found.map(|entry| entry.unwrap().path());
    let found: Vec<PathBuf> = found.filter(|path| path.to_string_lossy().ends_with(ending)).collect();
    assert!(!found.is_empty(), "no {ending} in {}", dir.display());
    found
}

/// Copies files into a container: to `/packages`, the higher version to `/packages/next`.
fn bring(node: &Node, ending: &str) {
    for (from, to) in [(packages(), "/packages"), (packages().join("next"), "/packages/next")] {
        for file in files(&from, ending) {
            let name = file.file_name().unwrap().to_str().unwrap();
            node.write(&format!("{to}/{name}"), fs::read(&file).unwrap());
        }
    }
}

fn sh(node: &Node, script: &str) -> String {
    let said = node.shell(&format!("cd / && export DEBIAN_FRONTEND=noninteractive && {script}"), LONG);
    assert_eq!(said.code, 0, "{script}: {}{}\n{}", said.out, said.err, node.journal());
    said.out
}

/// The commands of a section of the book: its indented lines, without their comments.
fn commands_of(section: &str) -> Vec<String> {
    let page = include_str!("../../../docs/src/installing.md");
    let (_, rest) = page.split_once(&format!("## {section}\n")).expect("the section");
    let rest = rest.split("\n## ").next().unwrap();
    let lines = rest.lines().filter_map(|line| line.strip_prefix("    "));
    lines.map(|line| line.split("  #").next().unwrap().trim().to_owned()).collect()
}

/// Types what the book says, with the repository of this test, and without a person who confirms.
fn follow_the_book(scene: &Scene, section: &str) {
    let commands = commands_of(section);
    assert!(commands.iter().any(|line| line.starts_with("zagent enroll ")), "{commands:?}");
    for line in commands {
        let line = line.replace("https://git.example.org/states.git", scene.url());
        let line = if line.starts_with("zagent enroll ") { format!("{line} --yes") } else { line };
        let line = line.replace("apt install", "apt-get install -y -qq --no-install-recommends");
        let line = line.replace("dnf install", "dnf -y -q --disablerepo='*' install");
        sh(&scene.node, &format!("cd /packages && {line}"));
    }
}

/// A run that waits until `/run/go-NAME` exists, and then writes `/run/done-NAME`.
fn waiting_run(scene: &Scene, name: &str) {
    let command = format!(
        "touch /run/mark-{name}; while [ ! -e /run/go-{name} ]; do sleep 0.1; done; touch /run/done-{name}"
    );
    let sls = format!("wait:\n  cmd.run:\n    - name: {command}\n    - creates: /run/done-{name}\n");
    scene.server.push(&[("states/motd.sls", sls)]);
    exists(scene, &format!("/run/mark-{name}"));
}

fn exists(scene: &Scene, path: &str) {
    eventually(path, Duration::from_secs(60), || match scene.node.run(&["test", "-e", path]).code {
        0 => Ok(()),
        _ => Err(scene.node.journal()),
    });
}

/// From the book to a converged host, an upgrade and a removal during runs, and what stays.
fn lives_and_leaves(scene: &Scene, manager: &Manager, section: &str) {
    let node = &scene.node;
    bring(node, manager.ending);
    node.write("/etc/zagent/conf.d/test.yaml", "source: {poll: 1s, timeout: 15s}\n");
    let first = scene.push("from the package");
    follow_the_book(scene, section);
    scene.converges("from the package");
    scene.is_on(&first);
    assert_eq!(
        (scene.show(DAEMON, "UnitFileState"), scene.show(DAEMON, "SubState")),
        ("enabled".into(), "running".into())
    );
    sh(
        node,
        "test -e /usr/share/man/man1/zagent-enroll.1.gz && test -e /usr/share/bash-completion/completions/zagent",
    );
    sh(node, "zagent doctor && zagent version");
    let enrolled = node.text("/etc/zagent/conf.d/enroll.yaml");
    assert!(enrolled.contains(&first), "{enrolled}");

    // An upgrade during a run: the run goes on, and then the new program starts.
    sh(node, "echo 'id: renamed' >> /etc/zagent/zagent.yaml");
    waiting_run(scene, "upgrade");
    let pid = scene.show(DAEMON, "MainPID");
    sh(node, manager.upgrade);
    assert_eq!(
        (scene.show(DAEMON, "MainPID"), scene.show(DAEMON, "SubState")),
        (pid.clone(), "running".into())
    );
    sh(node, "test ! -e /run/done-upgrade && touch /run/go-upgrade");
    scene.shows(DAEMON, "MainPID", |now| now != pid && now != "0");
    sh(node, "test -e /run/done-upgrade");
    let report = sh(node, "zagent history last --out json");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["success"], &report["canceled"]), (&true.into(), &false.into()), "{report:#}");
    let exe = format!("readlink /proc/{}/exe", scene.show(DAEMON, "MainPID"));
    assert_eq!(sh(node, &exe).trim(), "/usr/bin/zagent", "not the deleted one");
    assert!(node.text("/etc/zagent/zagent.yaml").ends_with("id: renamed\n"), "an edited configuration stays");
    assert_eq!(node.text("/etc/zagent/conf.d/enroll.yaml"), enrolled);
    let second = scene.server.push(&motd("after the upgrade"));
    scene.converges("after the upgrade");
    scene.is_on(&second);

    // A removal during a run: the same, and nothing starts again.
    waiting_run(scene, "removal");
    sh(node, manager.remove);
    sh(node, "test ! -e /usr/bin/zagent && test ! -e /run/done-removal && touch /run/go-removal");
    exists(scene, "/run/done-removal");
    scene.shows(DAEMON, "ActiveState", |state| state == "inactive" || state == "failed");
    assert_eq!(scene.show(DAEMON, "LoadState"), "not-found");
    sh(node, "test -e /etc/zagent/conf.d/enroll.yaml && test -d /var/lib/zagent");
}

#[test]
fn debian_packages_install_upgrade_and_go() {
    if !is_asked_for() {
        return;
    }
    let scene = Scene::without_agent(Node::boot());
    lives_and_leaves(&scene, &APT, "Debian and Ubuntu");
    sh(&scene.node, "apt-get purge -y -qq zagent && test ! -e /etc/zagent && test ! -e /var/lib/zagent");
}

#[test]
fn rpm_packages_install_upgrade_and_go() {
    if !is_asked_for() {
        return;
    }
    let scene = Scene::without_agent(Node::usual(&[]));
    sh(&scene.node, "apt-get install -y -qq --no-install-recommends dnf rpm 2>&1");
    // Debian keeps rpm's database in the home directory.
    sh(&scene.node, "mkdir -p /etc/rpm && echo '%_dbpath /var/lib/rpm' > /etc/rpm/macros");
    // Scripts of packages need a shell, and Debian's is in no rpm database.
    scene.node.write("/root/shell/shell.spec", SHELL_SPEC);
    sh(
        &scene.node,
        "cd /root/shell && rpmbuild -bb --define \"_topdir $PWD\" shell.spec >log 2>&1 || { cat log; false; }",
    );
    sh(&scene.node, "rpm -i /root/shell/RPMS/noarch/*.rpm");
    lives_and_leaves(&scene, &DNF, "Fedora, RHEL and SUSE");
}

#[test]
fn the_tarball_installs_and_removes_itself() {
    if !is_asked_for() {
        return;
    }
    let scene = Scene::without_agent(Node::boot());
    let node = &scene.node;
    bring(node, ".tar.gz");
    scene.push("from the tarball");
    follow_the_book(&scene, "Any Linux with systemd");
    scene.converges("from the tarball");
    let said = node.run(&["zagent", "self", "uninstall"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    sh(node, "test ! -e /usr/bin/zagent && test -e /etc/zagent/zagent.yaml && test -d /var/lib/zagent");
    assert_eq!(scene.show(DAEMON, "LoadState"), "not-found");
}
