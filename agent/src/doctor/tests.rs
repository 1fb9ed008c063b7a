//! A host and its settings in, findings out.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use zagent_cache::testing::{EntryKind, ScratchRepo};
use zagent_config::settings::{self, ConfigLocation};

use super::*;

fn settings(dir: &Path, yaml: &str) -> Settings {
    let file = dir.join("zagent.yaml");
    let root = dir.join("root");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(&file, format!("root: {}\n{yaml}", root.display())).unwrap();
    settings::load(&ConfigLocation::File(file), [], &[], Some("web-01")).unwrap()
}

fn scope(dir: &Path, offline: bool) -> DoctorScope {
    DoctorScope { offline, now: "2026-11-16T10:00:00Z".parse().unwrap(), system: dir.to_owned() }
}

fn of<'f>(findings: &'f [DoctorFinding], check: &str) -> Vec<&'f DoctorFinding> {
    findings.iter().filter(|f| f.check == check).collect()
}

#[test]
fn without_configuration_no_check_fails() {
    let dir = tempfile::tempdir().unwrap();
    let found = run_checks(&settings(dir.path(), ""), &scope(dir.path(), true));
    assert!(found.iter().all(|f| f.verdict != DoctorStatus::Fail), "{found:#?}");
    assert_eq!(of(&found, "trust")[0].verdict, DoctorStatus::Warn);
    assert_eq!(to_json(&found)["success"], true);
}

#[test]
fn damaged_watchdog_files_are_reported_with_what_they_mean() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path(), "");
    let found = || {
        let all = run_checks(&settings, &scope(dir.path(), true));
        of(&all, "watchdog").into_iter().cloned().collect::<Vec<_>>()
    };
    assert!(found().is_empty(), "no watchdog ever ran here");
    let paths = settings.paths();
    let node = zagent_rollout::phase::NodeState::with_version("0.2.0");
    zagent_config::json_file::write(&paths.phase(), &node).unwrap();
    assert_eq!(found()[0].verdict, DoctorStatus::Ok);
    std::fs::write(paths.phase(), "").unwrap();
    let found = found();
    assert_eq!((found.len(), found[0].verdict), (2, DoctorStatus::Warn), "{found:#?}");
    let message = &found[0].message;
    assert!(message.starts_with("state/phase is damaged (EOF"), "{message}");
    assert!(message.contains("the built-in version"), "{message}");
}

#[test]
fn damaged_files_of_the_agent_and_its_space_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(dir.path(), "");
    let paths = settings.paths();
    for path in [paths.key(), paths.floor(), paths.floor_copy()] {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "damaged").unwrap();
    }
    let found = run_checks(&settings, &scope(dir.path(), true));
    let records = of(&found, "records");
    assert_eq!(records.len(), 2, "{found:#?}");
    assert!(records.iter().all(|f| f.verdict == DoctorStatus::Fail && f.hint.is_some()), "{records:#?}");
    assert!(records[0].message.contains("trust/node.key"), "{records:#?}");
    assert_eq!(of(&found, "space")[0].verdict, DoctorStatus::Ok);
    settings.keep_bytes = 1;
    let found = run_checks(&settings, &scope(dir.path(), true));
    assert_eq!(of(&found, "space")[0].verdict, DoctorStatus::Warn);
}

#[test]
fn a_reachable_repository_passes_and_a_missing_branch_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut repository = ScratchRepo::new();
    repository.commit(&[("states/top.sls", EntryKind::Blob, "base: {}\n")]);
    let at = |branch: &str| {
        let yaml =
            format!("source: {{remotes: [{{url: '{}', branch: {branch}}}]}}\n", repository.path().display());
        of(&run_checks(&settings(dir.path(), &yaml), &scope(dir.path(), false)), "source")[0].clone()
    };
    let fine = at("main");
    assert_eq!(fine.verdict, DoctorStatus::Ok, "{fine:?}");
    let missing = at("prod");
    assert_eq!(missing.verdict, DoctorStatus::Fail, "{missing:?}");
    assert!(missing.message.contains("prod") && missing.hint.is_some(), "{missing:?}");
}

#[test]
fn an_unreachable_remote_is_reported_with_the_failed_step() {
    let dir = tempfile::tempdir().unwrap();
    // Bound and closed again: nothing listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let yaml = format!("source: {{remotes: [{{url: 'http://u:hunter2@127.0.0.1:{port}/x.git'}}]}}\n");
    let found = run_checks(&settings(dir.path(), &yaml), &scope(dir.path(), false));
    let source = of(&found, "source");
    assert!(source[0].message.contains("not encrypted"), "{source:?}");
    assert!(source[1].message.contains("nothing accepts connections"), "{source:?}");
    assert!(!to_json(&found).to_string().contains("hunter2"));
    let offline = run_checks(&settings(dir.path(), &yaml), &scope(dir.path(), true));
    assert!(of(&offline, "source").iter().all(|f| f.verdict != DoctorStatus::Fail), "{offline:?}");
}

#[test]
fn what_the_required_signatures_do_not_cover_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let key = |name: &str| {
        let key = dir.path().join(name);
        zagent_cache::trust::create_key(&key).unwrap();
        zagent_cache::trust::public_key(&key).unwrap()
    };
    let (alice, driver) = (key("alice"), key("driver"));
    let (signers, records) = (dir.path().join("signers"), dir.path().join("records"));
    let write = |path: &Path, key: &str| std::fs::write(path, format!("someone {key}\n")).unwrap();
    let found = |more: &str| {
        let yaml = format!(
            "source: {{remotes: [{{url: 'https://127.0.0.1:1/x'}}]}}\n\
             trust: {{allowed_signers: {}, {more}\n",
            signers.display()
        );
        let found = run_checks(&settings(dir.path(), &yaml), &scope(dir.path(), true));
        of(&found, "trust").into_iter().filter(|f| f.verdict != DoctorStatus::Ok).cloned().collect::<Vec<_>>()
    };
    let named = |found: &[DoctorFinding], words: &str| found.iter().any(|f| f.message.contains(words));
    write(&signers, &alice);
    let commit = found("require: commit}");
    assert!(
        named(&commit, "does not cover the branch") && named(&commit, "one key, two purposes"),
        "{commit:#?}"
    );
    assert!(named(&commit, "accepted nothing yet"), "{commit:#?}");
    let apart =
        format!("require: both, first: {{serial: 3}}}}\nrollout: {{allowed_signers: {}}}", records.display());
    write(&records, &driver);
    assert_eq!(found(&apart), [], "keys apart, and the first contact is pinned");
    write(&records, &alice);
    assert!(named(&found(&apart), "one key, two purposes"));
    let none = found("require: none}");
    assert!(named(&none, "`testing/web-01`") && named(&none, "trust.unsigned_refs"), "{none:#?}");
    let waits = found("require: none}\nrollout: {follow: rollouts}");
    assert!(named(&waits, "waits for rollouts"), "{waits:#?}");
}

#[test]
fn keys_that_others_can_read_or_write_are_failures() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    };
    let token = write("token", "x", 0o644);
    let signers = write("signers", "a@b ssh-ed25519 AAAA\n", 0o666);
    let secret = write("secret", "x", 0o600);
    let yaml = format!(
        "source: {{remotes: [{{url: 'https://127.0.0.1:1/x', token_file: {token}, key: {}}}]}}\n\
         trust: {{require: commit, allowed_signers: {signers}}}\n\
         webhooks: [{{url: 'https://h/', secret_file: {secret}}}]\n",
        dir.path().join("gone").display()
    );
    let found = run_checks(&settings(dir.path(), &yaml), &scope(dir.path(), true));
    let messages: Vec<&str> = of(&found, "source").iter().map(|f| f.message.as_str()).collect();
    assert!(messages[0].contains("mode 0644: others can read it"), "{messages:?}");
    assert!(messages[1].contains("gone"), "{messages:?}");
    assert_eq!(of(&found, "trust")[0].verdict, DoctorStatus::Fail, "{found:#?}");
    assert_eq!(of(&found, "secrets")[0].verdict, DoctorStatus::Ok);
}
