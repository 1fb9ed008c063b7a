//! The agent on a Debian with real systemd, installed as documented: daemon and timer, good and bad pushes, a lost
//! network, reboots, kills. Runs with NSPAWN=1 only (`.ci/nspawn`): it needs root, debootstrap and systemd-nspawn.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use zagent_tests::container::{Node, Scene, eventually, is_asked_for, motd};

const DAEMON: &str = "zagent.service";

/// A state that writes a marker and then runs longer than any time limit; if the marker exists, it is done.
fn endless() -> Vec<(&'static str, String)> {
    let sls =
        "endless:\n  cmd.run:\n    - name: touch /run/mark && exec sleep 86400\n    - creates: /run/mark\n";
    vec![("states/top.sls", "base: {'*': [motd]}\n".into()), ("states/motd.sls", sls.into())]
}

/// Processes inside with this command line.
fn processes(node: &Node, line: &str) -> usize {
    let said = node.run(&["sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"]);
    said.out.matches(line).count()
}

fn start(scene: &Scene) -> String {
    scene.node.must(&["systemctl", "enable", "--now", DAEMON]);
    scene.show(DAEMON, "MainPID")
}

#[test]
fn a_manual_run_converges_and_units_and_doctor_are_correct() {
    if !is_asked_for() {
        return;
    }
    let scene = Scene::new("");
    let node = &scene.node;
    for (path, text) in motd("by hand") {
        node.write(&format!("/srv/{path}"), text);
    }
    node.must(&["zagent", "run", "--once", "--states", "/srv/states"]);
    assert_eq!(node.text("/etc/motd").trim(), "by hand");
    let again = node.must(&["zagent", "run", "--once", "--states", "/srv/states", "--out", "json"]);
    let report: Value = serde_json::from_str(&again).unwrap();
    assert_eq!((&report["success"], &report["changed"]), (&Value::from(true), &Value::from(0)), "{report:#}");
    let units = [DAEMON, "zagent-run.service", "zagent-run.timer"];
    let said = node.run(&[&["systemd-analyze", "verify", "--man=no"][..], &units].concat());
    let known = |line: &&str| !line.contains("RestartSteps") && !line.contains("RestartMaxDelaySec");
    let odd: Vec<&str> = said.err.lines().filter(|line| line.contains("zagent")).filter(known).collect();
    assert!(odd.is_empty(), "{odd:#?}");

    // The doctor detects that the remote is reachable, unreachable and reachable again.
    let head = scene.push("one");
    let source = || {
        let said = node.run(&["zagent", "doctor"]);
        let mut lines = said.out.lines().filter(|l| l.contains("source") && !l.contains("encrypted"));
        (said.code, lines.next().unwrap_or_default().to_owned())
    };
    let (code, line) = source();
    assert!(code == 0 && line.starts_with("ok") && line.contains(&head[..8]), "{code}: {line}");
    node.disconnect();
    let (code, line) = source();
    assert!(code == 1 && line.starts_with("fail"), "{code}: {line}");
    node.connect();
    let (code, line) = source();
    assert!(code == 0 && line.starts_with("ok"), "{code}: {line}");
}

#[test]
fn the_daemon_is_a_good_service() {
    if !is_asked_for() {
        return;
    }
    let scene = Scene::new("");
    scene.drop_in(DAEMON, "[Service]\nWatchdogSec=4s\n");
    let first = scene.push("one");
    let pid = start(&scene);
    // A start that waits for READY ends when the daemon answers.
    assert_eq!(scene.show(DAEMON, "SubState"), "running");
    assert_eq!(scene.node.run(&["zagent", "status"]).err, "");
    scene.converges("one");
    scene.is_on(&first);
    let words = scene.shows(DAEMON, "StatusText", |text| text.contains(&first[..12]));
    assert_eq!(words, format!("on {}", &first[..12]));
    let page = scene.node.run(&["systemctl", "status", DAEMON]).out;
    assert!(page.contains(&format!("Status: \"on {}\"", &first[..12])), "{page}");
    scene.node.must(&["zagent", "doctor"]);
    assert_eq!(scene.hears(DAEMON, "daemon started").priority, 6);

    // A reload reads the configuration again; a wrong one changes nothing.
    scene.configure("id: renamed\n");
    scene.node.must(&["systemctl", "reload", DAEMON]);
    scene.says("the new name", |s| s["node"] == "renamed");
    scene.configure("idd: mistaken\n");
    scene.node.must(&["systemctl", "reload", DAEMON]);
    assert_eq!(scene.hears(DAEMON, "the configuration is invalid, keeping the previous one").priority, 3);
    assert_eq!(
        (scene.show(DAEMON, "MainPID"), scene.show(DAEMON, "SubState")),
        (pid.clone(), "running".into())
    );
    scene.configure("");
    scene.node.must(&["systemctl", "reload", DAEMON]);
    scene.says("the first name", |s| s["node"] == "node-01");
    scene.push("two");
    scene.converges("two");

    // It sent keep-alives for longer than the watchdog timeout, and it is still the same process.
    let since = |property: &str| scene.show(DAEMON, property).parse::<u64>().unwrap();
    let begun = since("ActiveEnterTimestampMonotonic");
    eventually("three times the watchdog's patience", Duration::from_secs(60), || {
        let last = since("WatchdogTimestampMonotonic");
        if last > begun + 12_000_000 { Ok(()) } else { Err(format!("{begun} {last}")) }
    });
    assert_eq!((scene.show(DAEMON, "MainPID"), scene.show(DAEMON, "NRestarts")), (pid.clone(), "0".into()));
    // A stuck daemon is killed by the watchdog, and started again.
    scene.node.must(&["sh", "-c", &format!("kill -STOP {pid}")]);
    scene.shows(DAEMON, "NRestarts", |n| n == "1");
    scene.shows(DAEMON, "SubState", |state| state == "running");
    assert_ne!(scene.show(DAEMON, "MainPID"), pid);
    scene.push("three");
    scene.converges("three");
    scene.journal_is_clean(DAEMON);
}

#[test]
fn a_running_run_stops_cleanly_and_a_killed_daemon_continues() {
    if !is_asked_for() {
        return;
    }
    let scene = Scene::new("");
    scene.push("one");
    start(&scene);
    scene.converges("one");

    // Stopped in the middle of a run: the run is stopped, and the history records it.
    let second = scene.server.push(&endless());
    let are_there = |n: usize| {
        eventually(&format!("{n} of the command"), Duration::from_secs(60), || {
            let found = processes(&scene.node, "sleep 86400");
            if found == n { Ok(()) } else { Err(format!("{found}\n{}", scene.node.journal())) }
        });
    };
    are_there(1);
    scene.node.must(&["systemctl", "stop", DAEMON]);
    assert_eq!(scene.show(DAEMON, "Result"), "success", "{}", scene.node.journal());
    assert_eq!(processes(&scene.node, "sleep 86400"), 0);
    let history = scene.node.must(&["zagent", "history", "--out", "json"]);
    assert!(history.contains("\"canceled\": true"), "{history}");
    // The status works without a daemon, too.
    let status = scene.says("what was", |s| s["current"]["revision"] == second.as_str());
    assert!(status["daemon"].is_null() && status["last_run"]["success"] == false, "{status:#}");

    // Killed in the middle of a run: nothing is left behind, and it continues by itself.
    scene.node.must(&["rm", "/run/mark"]);
    scene.node.must(&["systemctl", "start", DAEMON]);
    are_there(1);
    let before = scene.show(DAEMON, "MainPID");
    scene.node.must(&["sh", "-c", &format!("kill -KILL {before}")]);
    are_there(0);
    scene.shows(DAEMON, "NRestarts", |n| n == "1");
    scene.says("the next daemon has run", |s| s["last_run"]["success"] == true && s["daemon"].is_object());
    assert_ne!(scene.show(DAEMON, "MainPID"), before);
    scene.node.must(&["zagent", "cache", "verify"]);
    let last = scene.push("two");
    scene.converges("two");
    scene.is_on(&last);
}

#[test]
fn the_daemon_survives_bad_pushes_a_lost_network_and_a_reboot() {
    if !is_asked_for() {
        return;
    }
    let mut scene = Scene::new("");
    let first = scene.push("one");
    start(&scene);
    scene.converges("one");
    scene.is_on(&first);

    // A push that does not compile: the last good one stays, and the status says why.
    let broken = "/etc/motd:\n  file.mangled:\n    - contents: two\n".to_owned();
    let bad = scene.server.push(&[("states/motd.sls", broken)]);
    let status = scene.holds_back(&bad, "broken");
    assert_eq!(status["current"]["revision"], first.as_str(), "{status:#}");
    let page = scene.page();
    assert!(page.contains("mangled") && page.contains(&bad[..8]), "{page}");
    assert!(scene.hears(DAEMON, "is held back").priority <= 4);
    scene.node.write("/etc/motd", "somebody was here\n");
    scene.converges("one");
    let second = scene.push("two");
    scene.converges("two");
    scene.is_on(&second);

    // The network is down: a drift is fixed anyway.
    scene.node.disconnect();
    let status = scene.says("the remote fails", |s| !s["remotes"][0]["failing_since"].is_null());
    let why = status["remotes"][0]["message"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("198.18."), "{status:#}");
    scene.node.write("/etc/motd", "somebody was here\n");
    scene.converges("two");
    let third = scene.push("three");
    scene.node.connect();
    scene.converges("three");
    scene.is_on(&third);
    scene.says("the remote answers", |s| s["remotes"][0]["failing_since"].is_null());

    // A reboot without a network: the unit starts by itself, from what is on the disk.
    scene.node.write("/etc/motd", "changed before the reboot\n");
    scene.node.reboot_alone();
    scene.converges("three");
    scene.shows(DAEMON, "ActiveState", |state| state == "active");
    scene.node.must(&["zagent", "cache", "verify"]);
    scene.says("the same revision", |s| s["current"]["revision"] == third.as_str());
    scene.node.connect();
    let fourth = scene.push("four");
    scene.converges("four");
    scene.is_on(&fourth);
    let (verdict, message) = scene.doctor("states");
    assert_eq!(verdict, "ok", "{message}");
    scene.node.must(&["systemctl", "stop", DAEMON]);
    assert_eq!(scene.show(DAEMON, "Result"), "success", "{}", scene.node.journal());
    scene.journal_is_clean(DAEMON);
}

#[test]
fn an_unsigned_revision_never_reaches_the_host() {
    if !is_asked_for() {
        return;
    }
    let scene = Scene::new("trust: {require: commit}\n");
    let (key, public) = scene.server.key("ops");
    let (stranger, _) = scene.server.key("stranger");
    scene.node.write("/etc/zagent/allowed_signers", format!("ops@example.org {public}"));
    let push = |words: &str, key: &Path| scene.server.push_signed(&motd(words), key);
    let good = push("signed", &key);
    start(&scene);
    scene.converges("signed");
    let status = scene.is_on(&good);
    assert!(status["current"]["signed_by"].to_string().contains("ops@example.org"), "{status:#}");
    let unsigned: &dyn Fn() -> String = &|| scene.push("unsigned");
    let strange: &dyn Fn() -> String = &|| push("by a stranger", &stranger);
    for (bad, word) in [(unsigned, "sign"), (strange, "key")] {
        let status = scene.holds_back(&bad(), "refused");
        let why = status["why_not"]["message"].as_str().unwrap_or_default();
        assert!(why.contains(word), "{status:#}");
        assert_eq!(status["current"]["revision"], good.as_str(), "{status:#}");
        assert_eq!(scene.node.text("/etc/motd").trim(), "signed");
    }
    let again = push("signed again", &key);
    scene.converges("signed again");
    scene.is_on(&again);
}

#[test]
fn a_push_that_breaks_a_unit_is_rolled_back() {
    if !is_asked_for() {
        return;
    }
    let scene = Scene::new("health: [{unit: app.service, required: true, tries: 1}]\n");
    // Active when its file says so, and failed when not; at once, so that no check comes too early.
    let unit = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/grep -q fine /etc/app.conf\n";
    scene.node.write("/etc/systemd/system/app.service", unit);
    scene.node.must(&["systemctl", "daemon-reload"]);
    let app = |words: &str| {
        let sls = format!(
            "/etc/app.conf:\n  file.managed:\n    - contents: {words}\nrestart:\n  cmd.run:\n    \
             - name: systemctl restart app.service || true\n    - onchanges: [{{file: /etc/app.conf}}]\n"
        );
        scene.server.push(&[("states/top.sls", "base: {'*': [app]}\n".into()), ("states/app.sls", sls)])
    };
    let good = app("fine");
    start(&scene);
    scene.is_on(&good);
    scene.shows("app.service", "ActiveState", |state| state == "active");
    let bad = app("broken");
    let status = scene.holds_back(&bad, "quarantined");
    assert_eq!(status["current"]["revision"], good.as_str(), "{status:#}");
    assert!(status["why_not"]["message"].to_string().contains("app.service"), "{status:#}");
    scene.says("the host is well again", |s| s["health"][0]["healthy"] == true);
    scene.says("one rollback", |s| s["rollbacks"] == 1 && s["quarantined"][0]["revision"] == bad.as_str());
    scene.reads("/etc/app.conf", "fine");
    scene.shows("app.service", "ActiveState", |state| state == "active");
    assert_eq!(scene.hears(DAEMON, "rolling back").priority, 4);
    let mended = app("fine again");
    scene.reads("/etc/app.conf", "fine again");
    scene.is_on(&mended);
    scene.says("still one rollback", |s| s["rollbacks"] == 1);
}

#[test]
fn the_timer_does_the_same_without_a_daemon() {
    if !is_asked_for() {
        return;
    }
    let mut scene = Scene::new("");
    let often = "[Timer]\nOnBootSec=\nOnUnitActiveSec=\nOnBootSec=1s\nOnUnitActiveSec=3s\nRandomizedDelaySec=0\nAccuracySec=100ms\n";
    scene.drop_in("zagent-run.timer", often);
    scene.push("one");
    scene.node.must(&["systemctl", "enable", "--now", "zagent-run.timer"]);
    scene.converges("one");
    let broken = "/etc/motd:\n  file.mangled:\n    - contents: two\n".to_owned();
    let bad = scene.server.push(&[("states/motd.sls", broken)]);
    scene.holds_back(&bad, "broken");
    assert!(scene.hears("zagent-run.service", "is held back").priority <= 4);
    let second = scene.push("two");
    scene.converges("two");
    let status = scene.is_on(&second);
    assert_eq!(status["last_run"]["trigger"], "timer", "{status:#}");
    scene.node.disconnect();
    scene.node.write("/etc/motd", "somebody was here\n");
    scene.converges("two");
    scene.node.connect();
    scene.node.reboot();
    scene.node.write("/etc/motd", "somebody was here again\n");
    scene.converges("two");
    let third = scene.push("three");
    scene.converges("three");
    scene.is_on(&third);
    scene.journal_is_clean("zagent-run.service");
    // Only one of the two: starting the daemon stops the timer, and the doctor reports when both are enabled.
    start(&scene);
    assert_eq!(scene.show("zagent-run.timer", "ActiveState"), "inactive");
    assert_eq!(scene.doctor("systemd").0, "fail");
}

#[test]
fn a_container_always_stops_with_its_value() {
    if !is_asked_for() {
        return;
    }
    let node = Node::boot();
    let (root, wire) = (node.root(), node.network().name());
    let mounted = || std::fs::read_to_string("/proc/self/mounts").unwrap().contains(root.to_str().unwrap());
    let wired = || Path::new("/sys/class/net").join(&wire).exists();
    assert!(mounted() && wired());
    let ended = std::thread::spawn(move || {
        let _node = node;
        std::panic::resume_unwind(Box::new("a test that fails"));
    });
    assert!(ended.join().is_err());
    assert!(!mounted() && !wired() && !root.exists(), "{}", root.display());
}

/// `zagent test` on an image of this suite: a repository that converges, and one that does not.
#[test]
fn zagent_test_converges_a_repository_in_a_container() {
    if !is_asked_for() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let file = dir.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    let unit = "/etc/systemd/system/idle.service:\n  file.managed:\n    - contents: |\n        [Service]\n        \
                ExecStart=/bin/sleep infinity\n        [Install]\n        WantedBy=multi-user.target\nidle:\n  \
                service.running:\n    - enable: true\n    - require: [{file: /etc/systemd/system/idle.service}]\n";
    write("states/top.sls", "base: {'*': [good], 'odd': [bad]}\n");
    write("states/good.sls", "/etc/motd:\n  file.managed:\n    - contents: hello\n");
    write(
        "states/bad.sls",
        "always:\n  cmd.run:\n    - name: date >> /root/log\nbroken:\n  cmd.run:\n    - name: exit 3\n",
    );
    write("states/unit.sls", unit);
    let before = std::fs::read("/etc/motd").ok();
    let test = |flags: &[&str]| {
        let mut command = std::process::Command::new(zagent_tests::container::program());
        command.env("XDG_CACHE_HOME", dir.path().join("cache")).arg("test").arg(dir.path());
        command
            .args(["--out", "json", "--no-network", "--image"])
            .arg(zagent_tests::container::Base::get().lower());
        let ended = command.args(flags).output().unwrap();
        let text = String::from_utf8_lossy(&ended.stdout).into_owned();
        let told: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text} {ended:?}"));
        (ended.status.code(), told)
    };
    let (code, told) = test(&[]);
    assert_eq!((code, &told["success"]), (Some(0), &Value::from(true)), "{told:#}");
    assert_eq!(told["sls"]["good"]["changed"], 1, "{told:#}");
    let (code, told) = test(&["--node", "odd"]);
    assert_eq!(code, Some(1), "{told:#}");
    assert_eq!(
        (&told["sls"]["bad"]["failed"], &told["sls"]["bad"]["changed_again"]),
        (&1.into(), &1.into()),
        "{told:#}"
    );
    let (code, told) = test(&["--sls", "unit", "--boot"]);
    assert_eq!((code, &told["sls"]["unit"]["changed"]), (Some(0), &2.into()), "{told:#}");
    write("states/good.sls", "broken: [\n");
    assert_eq!(test(&[]).0, Some(65));
    assert_eq!(std::fs::read("/etc/motd").ok(), before, "the host is untouched");
    let left = std::fs::read_dir(dir.path().join("cache/zagent")).unwrap().count();
    assert_eq!(left, 0, "no container is left behind");
}
