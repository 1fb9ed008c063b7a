//! A key with a passphrase signs a manifest through `ssh-keygen`, which prompts the user.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its key has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn zagent(dir: &Path, args: &[&str], ask: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zagent"));
    command.args(["manifest"]).args(args).current_dir(dir.join("repo"));
    run(command.env("SSH_ASKPASS", ask).env("SSH_ASKPASS_REQUIRE", "force").env_remove("SSH_AUTH_SOCK"))
}

#[test]
fn the_user_is_prompted_for_a_passphrase() {
    zagent_cache::needs!("ssh-keygen");
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    fs::create_dir(dir.join("repo")).unwrap();
    fs::write(dir.join("repo/a.sls"), "").unwrap();
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-C", "", "-N", "secret words", "-f"]).arg(dir.join("key"));
    assert!(run(&mut keygen).status.success());
    let signers = format!("alice {}", fs::read_to_string(dir.join("key.pub")).unwrap());
    fs::write(dir.join("allowed_signers"), signers).unwrap();
    fs::set_permissions(dir.join("allowed_signers"), fs::Permissions::from_mode(0o644)).unwrap();
    let asks = |name: &str, words: &str| {
        let path = dir.join(name);
        fs::write(&path, format!("#!/bin/sh\necho '{words}'\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let (right, wrong) = (asks("right", "secret words"), asks("wrong", "other words"));
    fs::write(dir.join("zagent.yaml"), format!("root: {}\n", dir.join("root").display())).unwrap();

    assert!(zagent(dir, &["write"], &right).status.success());
    let refused = zagent(dir, &["sign", "--key", "../key"], &wrong);
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stderr));
    assert!(!dir.join("repo/manifest.yaml.sig").exists());
    for key in ["../key", "../key.pub"] {
        let signed = zagent(dir, &["sign", "--key", key], &right);
        assert!(signed.status.success(), "{key}: {}", String::from_utf8_lossy(&signed.stderr));
        let check = ["check", "--config", "../zagent.yaml", "--allowed-signers", "../allowed_signers"];
        let checked = zagent(dir, &check, &right);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        fs::remove_file(dir.join("repo/manifest.yaml.sig")).unwrap();
    }
}
