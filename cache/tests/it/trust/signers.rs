//! `allowed_signers` as `ssh-keygen` reads it, but with all lines valid or refused as a whole.

use std::os::unix::fs::symlink;

use zagent_cache::trust::AllowedSigners;

use super::site::{TrustSite, run_with_input, set_mode, time};

/// Whether the line makes a signature valid, for ssh-keygen and for zagent.
#[test]
fn lines_mean_what_they_mean_to_ssh_keygen() {
    zagent_cache::needs!("ssh-keygen");
    let site = TrustSite::new();
    site.key("k", &["ed25519"]);
    let public = site.public("k");
    let message = b"serial: 1\n";
    let signature = site.signature("k", "zagent-manifest", message);
    site.write("sig", &signature);
    for line in [
        "alice KEY",
        "  alice\tKEY some words",
        "alice,bob KEY",
        "\"alice\" KEY",
        "al* KEY",
        "*,!bob KEY",
        "alice namespaces=\"zagent-manifest\" KEY",
        "alice namespaces=\"git,zagent-*\" KEY words",
        "alice namespaces=\"git\" KEY",
        "alice namespaces=\"!zagent-manifest,*\" KEY",
        "alice namespaces=\"\" KEY",
        "alice NAMESPACES=\"zagent-manifest\" KEY",
        "alice namespaces=zagent-manifest KEY",
        "alice namespaces=\"zagent-manifest KEY",
        "alice namespaces=\"zagent-manifest\", KEY",
        "alice namespaces=\"a\",namespaces=\"zagent-manifest\" KEY",
        "alice valid-after=\"20200101\" KEY",
        "alice valid-after=\"20200101Z\",valid-before=\"20990101120000Z\" KEY",
        "alice valid-before=\"20200101\" KEY",
        "alice valid-after=\"20990101\" KEY",
        "alice valid-after=\"2020\" KEY",
        "alice valid-after=20200101 KEY",
        "alice valid-after=\"20300101\",valid-before=\"20200101\" KEY",
        "alice cert-authority KEY",
        "alice touch-required KEY",
        "alice",
        "alice ssh-ed25519",
        "alice ssh-ed25519 AAAA",
        "# alice KEY",
    ] {
        let text = line.replace("KEY", &public);
        let ours = site.allow(&format!("{text}\n")).and_then(|s| {
            s.verify_manifest(message, &[("s".into(), signature.clone())], 1, jiff::Timestamp::now())
        });
        let mut command = site.command("ssh-keygen");
        command.args(["-Y", "verify", "-f", "allowed_signers", "-I", "alice"]);
        let theirs = run_with_input(command.args(["-n", "zagent-manifest", "-s", "sig"]), message);
        assert_eq!(ours.is_ok(), theirs.status.success(), "{line}: {ours:?}");
    }
}

#[test]
fn a_bad_line_is_named_and_refuses_the_file() {
    zagent_cache::needs!("ssh-keygen");
    let site = TrustSite::new();
    site.key("k", &["ed25519"]);
    let public = site.public("k");
    for (line, words) in [
        ("alice", "principals and a key"),
        ("!bob KEY", "is empty"),
        ("\"alice KEY", "closing quote"),
        ("alice foo KEY", "`foo` is neither"),
        ("alice namespaces=git KEY", "in quotes"),
        ("alice valid-after=\"20200230\" KEY", "is not a time"),
        ("alice ssh-ed25519 AAAA", "cannot be read"),
        ("alice ssh-ed25519", "key is missing"),
        ("alice ssh-dss AAAAB3NzaC1kc3MAAAAA", "cannot be read"),
        ("a\x07b KEY", "control character"),
    ] {
        let text = format!("# whose\nalice {public}\n\n{}\n", line.replace("KEY", &public));
        let error = site.allow(&text).unwrap_err();
        let shown = error.to_string();
        let place = format!("{}:4: ", site.path("allowed_signers").display());
        assert!(shown.starts_with(&place) && shown.contains(words), "{line}: {shown}");
        assert!(error.hint().contains("line"), "{}", error.hint());
    }
    site.write("allowed_signers", b"# fine\nalice \xff\n");
    assert!(AllowedSigners::read(&site.trust()).unwrap_err().to_string().contains(":2: "));
}

#[test]
fn a_file_writable_by_others_is_refused() {
    zagent_cache::needs!("ssh-keygen");
    let site = TrustSite::new();
    assert_eq!(AllowedSigners::read(&site.trust()).unwrap_err().code(), "no-signers");
    assert_eq!(site.allow("# nobody\n\n").unwrap_err().code(), "no-signers");
    site.key("k", &["ed25519"]);
    let line = format!("alice {}\n", site.public("k"));
    for (bits, want) in [(0o644, None), (0o600, None), (0o664, Some("0664")), (0o646, Some("0646"))] {
        let path = site.write("allowed_signers", &line);
        set_mode(&path, bits);
        let read = AllowedSigners::read(&site.trust());
        assert_eq!(read.as_ref().err().map(|e| e.code()), want.map(|_| "unsafe-file"), "{bits:o}");
        if let (Err(error), Some(want)) = (read, want) {
            assert!(error.to_string().contains(want) && error.hint().contains("chmod go-w"), "{error}");
        }
    }
    let path = site.write("allowed_signers", &line);
    let dir = path.parent().unwrap();
    set_mode(dir, 0o777);
    assert_eq!(AllowedSigners::read(&site.trust()).unwrap_err().code(), "unsafe-file");
    set_mode(dir, 0o700);
    // A symlink is fine as long as its target is.
    std::fs::rename(&path, site.path("real")).unwrap();
    symlink("real", &path).unwrap();
    assert!(AllowedSigners::read(&site.trust()).is_ok());
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(AllowedSigners::read(&site.trust()).unwrap_err().code(), "unsafe-file");
}

#[test]
fn a_time_without_a_zone_is_local() {
    zagent_cache::needs!("ssh-keygen");
    let site = TrustSite::new();
    site.key("k", &["ed25519"]);
    let commit = site.signed("k", "2026-06-01T12:00:00Z");
    site.write("allowed_signers", format!("alice valid-before=\"202606011330\" {}\n", site.public("k")));
    for (hours, want) in [(0, true), (2, false)] {
        let zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(hours));
        let signers = AllowedSigners::read_with_zone(&site.trust(), &zone).unwrap();
        assert_eq!(signers.verify_commit(&commit, time("2026-06-01T12:00:00Z")).is_ok(), want, "{hours}");
    }
}
