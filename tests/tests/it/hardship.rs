//! A host with a problem in, a clear failure out, and a next run that recovers: on a Debian with real systemd, with
//! `NSPAWN=1`.
//!
//! Each test checks the exit code, the report and the host.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]

use std::time::{Duration, Instant};

use serde_json::Value;
use zagent_tests::container::{Node, eventually, is_asked_for, program};

/// The time limit of a run: longer than it waits for a lock.
const LONG: Duration = Duration::from_secs(280);
/// Holds a lock as dpkg does, for this many seconds, once the file exists.
const HOLDER: &str = r#"use Fcntl; open(F, '+<', $ARGV[0]) or die; my $l = pack('s s x![q] q q i x![q]', F_WRLCK, 0, 0, 0, 0);
fcntl(F, F_SETLK, $l) or die; open(M, '>', '/run/held') or die; close(M); sleep $ARGV[1];"#;

struct Host {
    node: Node,
}

/// The result of a run.
struct Ran {
    code: i32,
    report: Value,
}

impl Ran {
    /// The result of the only state of a function.
    fn of(&self, function: &str) -> &Value {
        let (module, fun) = function.split_once('.').expect("a module and a function");
        let is_it =
            |tag: &str| tag.starts_with(&format!("{module}_|-")) && tag.ends_with(&format!("_|-{fun}"));
        let mut found = self.report["states"].as_object().into_iter().flatten().filter(|(tag, _)| is_it(tag));
        found.next().unwrap_or_else(|| panic!("no {function}: {:#}", self.report)).1
    }

    fn is_well(&self) -> &Self {
        assert_eq!(self.code, 0, "{:#}", self.report);
        assert_eq!(self.report["success"], true, "{:#}", self.report);
        self
    }

    /// The state failed with this message.
    fn is_told(&self, function: &str, words: &[&str]) -> &Self {
        assert_eq!(self.code, 1, "{:#}", self.report);
        let state = self.of(function);
        assert_eq!(state["result"], false, "{state:#}");
        let said = format!("{} {} {}", state["comment"], state["error"], state["details"]);
        for word in words {
            assert!(said.contains(word), "`{word}` is not in {state:#}");
        }
        self
    }
}

impl Host {
    fn new() -> Self {
        let program = program().canonicalize().expect("the program");
        Self { node: Node::usual(&[format!("{}:/usr/bin/zagent", program.display())]) }
    }

    fn declare(&self, sls: &str) {
        self.node.write("/srv/states/all.sls", sls);
    }

    fn apply(&self) -> Ran {
        let said = self.node.shell("zagent state.apply all --states /srv/states --out json", LONG);
        let report = serde_json::from_str(&said.out);
        Ran { code: said.code, report: report.unwrap_or_else(|e| panic!("{e}: {}{}", said.out, said.err)) }
    }

    fn sh(&self, script: &str) -> String {
        let said = self.node.shell(script, LONG);
        assert_eq!(said.code, 0, "{script}: {}{}", said.out, said.err);
        said.out
    }

    fn holds(&self, script: &str) -> bool {
        self.node.shell(script, LONG).code == 0
    }

    fn waits_for(&self, path: &str) {
        eventually(path, Duration::from_secs(60), || {
            if self.holds(&format!("test -e {path}")) { Ok(()) } else { Err("not there".into()) }
        });
    }

    /// Takes dpkg's lock; returns the pid of the holder.
    fn lock(&self, seconds: u32) -> String {
        self.node.write("/srv/holder.pl", HOLDER);
        let seconds = seconds.to_string();
        self.node.must(&[
            "systemd-run",
            "--unit=holder",
            "perl",
            "/srv/holder.pl",
            "/var/lib/dpkg/lock-frontend",
            &seconds,
        ]);
        self.waits_for("/run/held");
        self.sh("systemctl show -P MainPID holder").trim().to_owned()
    }

    /// Builds a package for the test.
    fn package(&self, name: &str, postinst: &str, file: &str) {
        self.sh(&format!(
            "set -e; d=/srv/build/{name}; mkdir -p $d/DEBIAN; printf 'Package: {name}\\nVersion: 1\\nArchitecture: all\\nMaintainer: nobody <nobody@example.org>\\n\
             Description: test\\n' >$d/DEBIAN/control; {file}\nprintf '#!/bin/sh\\n%s\\n' '{postinst}' >$d/DEBIAN/postinst; chmod 755 $d/DEBIAN/postinst; \
             dpkg-deb -b $d /srv/{name}.deb"
        ));
    }

    fn is_installed(&self, name: &str) -> bool {
        self.holds(&format!("test \"$(dpkg-query -W -f '${{db:Status-Abbrev}}' {name})\" = 'ii '"))
    }

    /// All packages are completely installed.
    fn is_whole(&self) {
        assert_eq!(self.sh("dpkg --audit"), "");
    }
}

#[test]
fn a_lock_that_is_held_for_a_while_is_waited_for() {
    if !is_asked_for() {
        return;
    }
    let host = Host::new();
    host.declare("hello: pkg.installed\n");
    host.lock(30);
    let begun = Instant::now();
    host.apply().is_well();
    assert!(begun.elapsed() > Duration::from_secs(20), "it did not wait: {:?}", begun.elapsed());
    assert!(host.is_installed("hello"));
    host.is_whole();
}

#[test]
fn a_lock_that_is_never_released_fails_and_names_the_holder() {
    if !is_asked_for() {
        return;
    }
    let host = Host::new();
    host.declare("hello: pkg.installed\n");
    let pid = host.lock(86400);
    let ran = host.apply();
    ran.is_told("pkg.installed", &["lock", &pid, "perl"]);
    assert!(!host.is_installed("hello"));
    host.is_whole();
    host.sh("systemctl stop holder");
    host.apply().is_well();
    assert!(host.is_installed("hello"));
}

#[test]
fn a_killed_apt_is_repaired_by_the_next_run() {
    if !is_asked_for() {
        return;
    }
    let host = Host::new();
    host.package("slow", "test -e /run/go || { touch /run/halfway; sleep 86400; }", "");
    host.declare("slow:\n  pkg.installed:\n    - sources: [{slow: /srv/slow.deb}]\n");
    host.node.must(&[
        "systemd-run",
        "--unit=run",
        "-p",
        "KillMode=process",
        "sh",
        "-c",
        "zagent state.apply all --states /srv/states --out json >/run/report; echo $? >/run/code",
    ]);
    host.waits_for("/run/halfway");
    host.sh("pkill -KILL -x 'apt-get|dpkg|slow.postinst' ; pkill -KILL -x sleep; true");
    host.waits_for("/run/code");
    let report: Value = serde_json::from_str(&host.sh("cat /run/report")).unwrap();
    let ran = Ran { code: host.sh("cat /run/code").trim().parse().unwrap(), report };
    ran.is_told("pkg.installed", &["signal"]);
    assert!(!host.is_installed("slow"), "it was not stopped half-way");
    host.sh("touch /run/go");
    // Another package; the interrupted one is repaired with it.
    host.declare("slow:\n  pkg.installed:\n    - sources: [{slow: /srv/slow.deb}]\nhello: pkg.installed\n");
    host.apply().is_well();
    assert!(host.is_installed("slow") && host.is_installed("hello"));
    host.is_whole();
    assert_eq!(host.apply().is_well().report["changed"], 0);
}

#[test]
fn a_full_disk_is_reported_and_the_next_run_recovers() {
    if !is_asked_for() {
        return;
    }
    let host = Host::new();
    // Full during the download.
    host.declare("git: pkg.installed\n");
    host.sh("apt-get clean; mount -t tmpfs -o size=1m none /var/cache/apt/archives && mkdir /var/cache/apt/archives/partial");
    let ran = host.apply();
    ran.is_told("pkg.installed", &["space"]);
    assert!(!host.is_installed("git"));
    host.is_whole();
    host.sh("umount /var/cache/apt/archives");
    host.apply().is_well();
    assert!(host.is_installed("git"));
    // Full during the unpacking.
    host.package("big", "true", "mkdir -p $d/opt/big; head -c 3000000 /dev/urandom >$d/opt/big/blob");
    host.declare("big:\n  pkg.installed:\n    - sources: [{big: /srv/big.deb}]\n");
    host.sh("mkdir -p /opt/big && mount -t tmpfs -o size=1m none /opt/big");
    let ran = host.apply();
    ran.is_told("pkg.installed", &["No space left on device"]);
    assert!(!host.is_installed("big"));
    host.sh("umount /opt/big");
    host.apply().is_well();
    assert!(host.is_installed("big"));
    host.is_whole();
    // Full while a file is written: the old one stays complete.
    host.sh("mkdir -p /srv/small && mount -t tmpfs -o size=64k none /srv/small && echo old >/srv/small/file");
    let words = "x".repeat(200_000);
    host.declare(&format!("/srv/small/file:\n  file.managed:\n    - contents: {words}\n"));
    host.apply().is_told("file.managed", &["o space left on device"]);
    assert_eq!(host.sh("cat /srv/small/file"), "old\n");
    assert_eq!(host.sh("ls -A /srv/small"), "file\n");
    host.sh("mount -o remount,size=4m /srv/small");
    host.apply().is_well();
}

#[test]
fn a_service_that_does_not_start_is_reported_with_its_journal() {
    if !is_asked_for() {
        return;
    }
    let host = Host::new();
    host.node.write(
        "/etc/systemd/system/witless.service",
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'test -e /etc/wits || { echo cannot find its wits; exit 3; }'\n[Install]\nWantedBy=multi-user.target\n",
    );
    host.sh("systemctl daemon-reload");
    host.declare(
        "witless:\n  service.running:\n    - enable: true\ntouch /run/watched:\n  cmd.wait:\n    - watch: [{service: witless}]\n/run/needs:\n  file.managed:\n    - contents: x\n    - require: [{service: witless}]\n",
    );
    let ran = host.apply();
    ran.is_told("service.running", &["cannot find its wits"]);
    for function in ["cmd.wait", "file.managed"] {
        assert_eq!(ran.of(function)["skipped"], true, "{:#}", ran.report);
    }
    assert!(host.holds("test ! -e /run/watched -a ! -e /run/needs"));
    host.sh("touch /etc/wits");
    let ran = host.apply();
    ran.is_well();
    assert!(host.holds(
        "test -e /run/watched -a -e /run/needs && systemctl is-active witless && systemctl is-enabled witless"
    ));
}

#[test]
fn a_user_who_is_logged_in_is_not_half_removed() {
    if !is_asked_for() {
        return;
    }
    let host = Host::new();
    host.sh("useradd -m -s /bin/bash -G cdrom alice && echo words >/home/alice/file");
    let before = host.sh("getent passwd alice; getent group alice cdrom; getent shadow alice");
    host.node.must(&["systemd-run", "--unit=login", "--uid=alice", "sleep", "86400"]);
    host.declare("alice:\n  user.absent:\n    - purge: true\n");
    host.apply().is_told("user.absent", &["alice", "process"]);
    assert_eq!(host.sh("getent passwd alice; getent group alice cdrom; getent shadow alice"), before);
    assert_eq!(host.sh("cat /home/alice/file"), "words\n");
    host.sh("systemctl stop login");
    host.apply().is_well();
    assert!(host.holds("! getent passwd alice && test ! -e /home/alice"));
    assert_eq!(host.apply().is_well().report["changed"], 0);
}

#[test]
fn packages_of_one_level_are_one_transaction_and_a_bad_one_fails_alone() {
    if !is_asked_for() {
        return;
    }
    let host = Host::new();
    let transactions = "grep -c ^Commandline /var/log/apt/history.log || true";
    let before: u32 = host.sh(transactions).trim().parse().expect("a count");
    host.declare("hello: pkg.installed\nsl: pkg.installed\ntwo:\n  pkg.installed:\n    - pkgs: [bc, ed]\n");
    let ran = host.apply();
    ran.is_well();
    let changes: Vec<(String, bool)> = ["hello", "sl", "bc", "ed"]
        .map(|name| {
            let states = ran.report["states"].as_object().expect("states");
            let told = states.values().filter(|s| s["changes"].get(name).is_some()).count();
            (name.to_owned(), told == 1)
        })
        .to_vec();
    assert!(changes.iter().all(|(_, once)| *once), "each is told once: {changes:?} {:#}", ran.report);
    let after: u32 = host.sh(transactions).trim().parse().expect("a count");
    assert_eq!(after - before, 1, "{}", host.sh("cat /var/log/apt/history.log"));
    // A second run has nothing to do.
    assert_eq!(host.apply().is_well().report["changed"], 0);
    host.declare("cowsay: pkg.installed\nno-such-package-anywhere: pkg.installed\n");
    let ran = host.apply();
    assert_eq!((ran.code, &ran.report["failed"]), (1, &1.into()), "{:#}", ran.report);
    assert!(host.is_installed("cowsay"), "{:#}", ran.report);
    host.is_whole();
}

#[test]
fn a_timeout_does_not_leave_packages_half_installed() {
    if !is_asked_for() {
        return;
    }
    let host = Host::new();
    host.package("slow", "sleep 30", "");
    host.declare("slow:\n  pkg.installed:\n    - timeout: 20\n    - sources: [{slow: /srv/slow.deb}]\n");
    let ran = host.apply();
    let state = ran.is_well().of("pkg.installed");
    assert!(state["comment"].as_str().is_some_and(|c| c.contains("longer than its `timeout`")), "{state:#}");
    assert!(host.is_installed("slow"));
    host.is_whole();
    assert_eq!(host.apply().is_well().report["changed"], 0);
}

#[test]
fn a_repository_that_is_down_does_not_affect_the_others() {
    if !is_asked_for() {
        return;
    }
    let host = Host::new();
    host.sh("apt-get update -q; echo 'deb file:/nowhere ./' >/etc/apt/sources.list.d/dead.list; ! apt-get update -q");
    host.declare(
        "hello:\n  pkg.latest: []\nsl:\n  pkg.installed:\n    - refresh: true\n    - require: [pkg: hello]\n",
    );
    let ran = host.apply();
    for function in ["pkg.latest", "pkg.installed"] {
        let state = ran.is_well().of(function);
        assert!(state["comment"].as_str().is_some_and(|c| c.contains("file:/nowhere")), "{state:#}");
    }
    assert!(host.is_installed("hello") && host.is_installed("sl"));
    // A package that no repository has is reported with a possible cause.
    host.declare("no-such-package-anywhere:\n  pkg.installed:\n    - refresh: true\n");
    host.apply().is_told("pkg.installed", &["Unable to locate", "file:/nowhere"]);
}
