//! `zagent release`, from a binary to a ref.

use std::process::Command;

use super::{ExitStatus, Tree, zagent};

#[test]
fn a_binary_is_published_listed_and_never_replaced() {
    zagent_cache::needs!("git", "ssh-keygen");
    let tree = Tree::new(&[("zagent", "#!/bin/sh\n"), ("zagent.yaml", "root: root\n")]);
    let at = |name: &str| tree.dir.path().join(name).display().to_string();
    assert!(Command::new("git").args(["init", "-q", "--bare", &at("repo.git")]).status().unwrap().success());
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &at("key")]).status();
    assert!(made.unwrap().success());
    std::fs::write(at("zagent.yaml"), format!("root: {}\n", at("root"))).unwrap();
    let release = |more: &[&str]| {
        let (config, repo) = (at("zagent.yaml"), at("repo.git"));
        let args: Vec<&str> = [&["release"], more, &["--config", &config, "--remote", &repo]].concat();
        zagent(&args, tree.dir.path())
    };
    let file = at("zagent");
    let said = release(&["publish", &file, "--version", "1.2.3"]);
    assert_eq!(said.exit, ExitStatus::Usage, "{}", said.all());
    assert!(said.err.contains("--os and --arch"), "{}", said.err);
    let key = at("key");
    let machine = ["--os", "linux", "--arch", "x86_64", "--key", &key];
    let publish =
        |version: &str| release(&[&["publish", &file, "--version", version], &machine[..]].concat());
    let said = publish("1.2.3");
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    for part in ["artifacts:", "size: 10", "refs/zagent/release/1.2.3/linux-x86_64", "BEGIN SSH SIGNATURE"] {
        assert!(said.out.contains(part), "{}", said.out);
    }
    let said = release(&["list", "--out", "json"]);
    assert!(said.out.contains("\"1.2.3\"") && said.out.contains("linux-x86_64"), "{}", said.all());
    assert!(publish("1.2.3").err.contains("already has it"));
    std::fs::write(&file, "#!/bin/sh\nexit\n").unwrap();
    let said = publish("1.2.3");
    assert_eq!(said.exit, ExitStatus::Failed, "{}", said.all());
    assert!(said.err.contains("a new version"), "{}", said.err);
    assert_eq!(publish("1 2").exit, ExitStatus::Usage);
    let described = zagent(
        &[
            "release",
            "publish",
            &file,
            "--version",
            "2",
            "--os",
            "linux",
            "--arch",
            "any",
            "--url",
            "https://e.org/z",
        ],
        tree.dir.path(),
    );
    assert!(
        described.out.contains("url: https://e.org/z") && !described.out.contains("ref:"),
        "{}",
        described.all()
    );
}
