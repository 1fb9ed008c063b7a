//! Commands inside a states repository, with nothing configured.

use std::fs;
use std::os::unix::fs::chown;
use std::process::Stdio;

use super::Checkout;

#[test]
fn looking_commands_use_the_repository_they_are_in() {
    let checkout = Checkout::new();
    let named = format!("using the states repository `{}`", checkout.path("repo").display());
    for dir in ["repo", "repo/states/web", "repo/inventory"] {
        for args in [
            &["show", "lowstate"][..],
            &["show", "top"],
            &["show", "sls", "web"],
            &["show", "graph"],
            &["show", "pillar"],
            &["explain", "motd"],
            &["explain", "pillar:who"],
            &["check"],
            &["run", "--once", "--test"],
            &["state.show_highstate"],
        ] {
            let said = checkout.zagent(dir, args).expect(0);
            assert_eq!(said.err.matches(&named).count(), 1, "{dir} {args:?}: {}", said.err);
            assert!(!said.out.contains("using the states"), "{}", said.out);
        }
    }
    assert!(!checkout.host("motd").exists());
    let outside = checkout.zagent("host", &["show", "lowstate"]).expect(2);
    assert!(outside.err.contains("--states DIR"), "{}", outside.err);
}

#[test]
fn a_flat_repository_is_found_by_its_manifest() {
    let checkout = Checkout::new();
    checkout.write("flat/manifest.yaml", "schema: 1\nroots: {states: ., pillar: data}\n");
    checkout.write("flat/top.sls", "base: {'*': [web]}\n");
    checkout.write("flat/web.sls", "x: {test.nop: [{name: \"{{ pillar['who'] }}\"}]}\n");
    checkout.write("flat/data/top.sls", "base: {'*': [who]}\n");
    checkout.write("flat/data/who.sls", "who: flat\n");
    let said = checkout.zagent("flat/data", &["show", "lowstate"]).expect(0);
    assert!(said.out.contains("flat"), "{}", said.out);
    let dir = checkout.path("flat").display().to_string();
    let said = checkout.zagent("host", &["show", "lowstate", "--states", &dir]).expect(0);
    assert!(said.out.contains("flat") && !said.err.contains("using"), "{said:?}");
}

#[test]
fn a_repository_root_is_accepted_as_states() {
    let checkout = Checkout::new();
    let said = checkout.zagent("repo", &["run", "--once", "--test", "--states", ".", "--out", "json"]);
    assert_eq!(said.expect(0).json()["changed"], 4);
    let said = checkout.zagent("repo", &["show", "pillar", "--states", "."]).expect(0);
    assert!(said.out.contains("who: world"), "{}", said.out);
    checkout.write("other/top.sls", "base: {'*': [common]}\n");
    checkout.write("other/common.sls", "who: other\n");
    let said = checkout.zagent("repo", &["show", "pillar", "--states", ".", "--pillar", "../other"]);
    assert!(said.expect(0).out.contains("who: other"));
}

#[test]
fn a_configured_node_looks_at_its_own_states() {
    let checkout = Checkout::new();
    checkout.write("baked/states/top.sls", "base: {'*': [own]}\n");
    checkout.write("baked/states/own.sls", "own: {test.nop: []}\n");
    let config =
        format!("root: {}\nbaked: {}\n", checkout.path("root").display(), checkout.path("baked").display());
    checkout.write("zagent.yaml", &config);
    let said = checkout.zagent("repo", &["show", "lowstate"]).expect(0);
    assert!(said.out.contains("own") && !said.err.contains("using"), "{said:?}");
    let said = checkout.zagent("repo", &["run", "--once", "--test", "--here"]).expect(0);
    assert!(said.out.contains("motd") && said.err.contains("using"), "{said:?}");
}

#[test]
fn applying_from_a_checkout_needs_here_or_a_yes() {
    let checkout = Checkout::new();
    let said = checkout.zagent("repo", &["run", "--once"]).expect(2);
    assert!(said.err.contains("--here") && !checkout.host("motd").exists(), "{}", said.err);
    let said = checkout.zagent("host", &["run", "--once", "--here"]).expect(2);
    assert!(said.err.contains("in no states repository"), "{}", said.err);
    checkout.zagent("repo", &["run", "--here"]).expect(2);
    // util-linux `script` gives the program a terminal.
    if on_terminal(&checkout, "n\n").is_some_and(|said| said.contains("[y/N]")) {
        assert!(!checkout.host("motd").exists());
        let said = on_terminal(&checkout, "y\n").unwrap();
        assert!(checkout.host("motd").exists(), "{said}");
        fs::remove_file(checkout.host("motd")).unwrap();
    } else {
        assert!(std::env::var_os("CI").is_none(), "`script` of util-linux is needed");
        eprintln!("skipped the terminal: `script` of util-linux is missing");
    }
    checkout.zagent("repo/states", &["run", "--once", "--here"]).expect(0);
    assert!(checkout.host("motd").exists());
}

/// What `zagent run --once` prints on a terminal when these keys are typed.
fn on_terminal(checkout: &Checkout, keys: &str) -> Option<String> {
    let command = format!("{} run --once", env!("CARGO_BIN_EXE_zagent"));
    let mut script = checkout.command("script", "repo");
    script.args(["-q", "-e", "-c", &command, "/dev/null"]).stdin(Stdio::piped());
    let mut child = script.spawn().ok()?;
    std::io::Write::write_all(&mut child.stdin.take()?, keys.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_recorded_host_is_previewed_and_never_applied() {
    let checkout = Checkout::new();
    let said = checkout.zagent("repo", &["run", "--once", "--test", "--node", "web-01"]).expect(0);
    assert!(said.out.contains("on web-01") && said.out.contains("hello world on Plan9"), "{}", said.out);
    let said = checkout.zagent("repo", &["show", "lowstate", "--node", "web-01", "--out", "yaml"]).expect(0);
    assert!(said.out.contains("on Plan9"), "{}", said.out);
    let said = checkout.zagent("host", &["explain", "motd", "--node", "web-01", "--states", "../repo"]);
    assert!(said.expect(0).out.contains("on Plan9"));
    let said = checkout.zagent("repo", &["run", "--once", "--node", "web-01", "--here"]).expect(2);
    assert!(said.err.contains("never applied here"), "{}", said.err);
    let said = checkout.zagent("repo", &["show", "top", "--node", "web-1"]).expect(2);
    assert!(said.err.contains("did you mean `web-01`?"), "{}", said.err);
    let said = checkout.zagent("host", &["show", "top", "--node", "web-01"]).expect(2);
    assert!(said.err.contains("inside a checkout"), "{}", said.err);
    assert!(!checkout.host("motd").exists());
}

#[test]
fn the_repository_of_somebody_else_is_not_used_unasked() {
    if !can_give_away() {
        assert!(std::env::var_os("CI").is_none(), "root is needed");
        eprintln!("skipped: root is needed to give a directory away");
        return;
    }
    let checkout = Checkout::new();
    let mark = checkout.path("ran");
    let sls =
        format!("x: {{test.nop: [{{name: \"{{{{ salt['cmd.run']('touch {}') }}}}\"}}]}}\n", mark.display());
    checkout.write("repo/states/web/init.sls", &sls);
    chown(checkout.path("repo"), Some(12345), None).unwrap();
    for args in
        [&["show", "lowstate"][..], &["run", "--once", "--test"], &["run", "--once", "--test", "--here"]]
    {
        let said = checkout.zagent("repo", args).expect(2);
        assert!(said.err.contains("belongs to another user") && !mark.exists(), "{}", said.err);
    }
    checkout.zagent("repo", &["show", "lowstate", "--states", "."]).expect(0);
    assert!(mark.exists());
}

fn can_give_away() -> bool {
    let checkout = Checkout::new();
    chown(checkout.path("repo"), Some(12345), None).is_ok()
}
