//! Orphans that are no files: users, groups, jobs and entries of /etc/hosts, on copies of /etc and of the crontabs that only
//! the commands of the test see.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::PruneHost;

/// A command with copies of the directories in place of the host's own.
fn isolated(node: &PruneHost, script: &str) -> String {
    let at = |name: &str| node.path(name).display().to_string();
    let script = format!(
        "set -e; mount --bind {} /etc; [ ! -d /var/spool/cron ] || mount --bind {} /var/spool/cron; cd {}; \
         export ZAGENT_CONFIG={}; PATH=$PATH:/usr/sbin:/sbin; {script}",
        at("etc"),
        at("cron"),
        at(""),
        at("zagent.yaml"),
    )
    .replace("zagent run", &format!("{} run", env!("CARGO_BIN_EXE_zagent")))
    .replace("zagent orphans", &format!("{} orphans", env!("CARGO_BIN_EXE_zagent")));
    let output =
        Command::new("unshare").args(["--mount", "sh", "-c", &script]).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{script}\n{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// A host with copies of /etc and of the crontabs; none without root.
fn copied() -> Option<PruneHost> {
    if !nix::unistd::Uid::effective().is_root() {
        return None;
    }
    let node = PruneHost::new();
    fs::create_dir(node.path("cron")).unwrap();
    let copied = Command::new("cp").args(["-a", "/etc"]).arg(node.path("etc")).status().unwrap();
    assert!(copied.success());
    if fs::metadata("/var/spool/cron/crontabs").is_ok() {
        let _ = Command::new("cp").args(["-a", "/var/spool/cron/crontabs"]).arg(node.path("cron")).status();
    }
    Some(node)
}

const STATES: &str = "ops-group:\n  group.present:\n    - name: zaops\n\
                      ops:\n  user.present:\n    - name: zaop\n    - gid: zaops\n    - createhome: false\n\
                      found:\n  user.present:\n    - name: zafound\n\
                      db:\n  host.present:\n    - name: db.example.org\n    - ip: 192.0.2.7\n";

#[test]
fn accounts_and_host_entries_go_and_those_that_were_there_stay() {
    let Some(node) = copied() else { return };
    node.states(STATES);
    isolated(&node, "useradd -M zafound; zagent run --once --out json");
    node.states("n:\n  test.nop: []\n");
    let listed = isolated(&node, "zagent run --once >/dev/null; zagent orphans");
    for line in ["user   zaop", "group  zaops", "user   zafound", "host   192.0.2.7 db.example.org"] {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(
            listed.lines().any(|l| l.split_whitespace().take(words.len()).eq(words.iter().copied())),
            "{line}: {listed}"
        );
    }
    let before = fs::read_to_string(node.path("etc/passwd")).unwrap();
    isolated(&node, "zagent run --once --test --prune=user,group,host --out json");
    assert_eq!(fs::read_to_string(node.path("etc/passwd")).unwrap(), before);
    let report: Value =
        serde_json::from_str(&isolated(&node, "zagent run --once --prune=user,group,host --out json"))
            .unwrap();
    assert_eq!((&report["changed"], &report["failed"]), (&3.into(), &0.into()), "{report:#}");
    let passwd = fs::read_to_string(node.path("etc/passwd")).unwrap();
    assert!(!passwd.contains("zaop:") && passwd.contains("zafound:"));
    assert!(!fs::read_to_string(node.path("etc/group")).unwrap().contains("zaops:"));
    assert!(!fs::read_to_string(node.path("etc/hosts")).unwrap().contains("db.example.org"));
    isolated(&node, "zagent run --revert last >/dev/null; id zaop >/dev/null");
    assert!(fs::read_to_string(node.path("etc/group")).unwrap().contains("zaops:"));
    isolated(&node, "zagent run --once --prune=user --prune-found >/dev/null");
    assert!(!fs::read_to_string(node.path("etc/passwd")).unwrap().contains("zafound:"));
}

#[test]
fn jobs_go_unless_somebody_changed_them() {
    let Some(node) = copied() else { return };
    if Command::new("crontab").arg("-V").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "there is no crontab");
        return;
    }
    node.states(
        "a:\n  cron.present:\n    - name: /bin/true a\n    - hour: 3\n\
         b:\n  cron.present:\n    - name: /bin/true b\n    - identifier: b\n",
    );
    isolated(
        &node,
        "(crontab -l 2>/dev/null || true; echo '1 1 1 1 1 /bin/mine') | crontab -; zagent run --once >/dev/null",
    );
    node.states("n:\n  test.nop: []\n");
    let left = isolated(
        &node,
        "crontab -l | sed 's,^\\* 3 ,* 4 ,' | crontab -; zagent run --once --prune=cron >/dev/null; crontab -l",
    );
    assert!(left.contains("* 4 * * * /bin/true a") && left.contains("1 1 1 1 1 /bin/mine"), "{left}");
    assert!(!left.contains("/bin/true b"), "{left}");
}
