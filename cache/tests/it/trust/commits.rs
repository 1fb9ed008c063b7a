//! Commits signed by `git` with SSH keys.

use zagent_cache::trust::{AllowedSigners, SignatureScheme};

use super::site::{TrustSite, embed_signature, run_with_input, time};

const WHEN: &str = "2026-06-01T12:00:00Z";
const NOW: &str = "2026-06-02T12:00:00Z";

fn code(signers: &AllowedSigners, commit: &[u8]) -> &'static str {
    signers.verify_commit(commit, time(NOW)).map_or_else(|e| e.code(), |_| "good")
}

#[test]
fn all_key_types_are_accepted() {
    zagent_cache::needs!("ssh-keygen");
    let site = TrustSite::new();
    for (name, kind) in [
        ("ed", &["ed25519"][..]),
        ("p256", &["ecdsa", "-b", "256"]),
        ("p384", &["ecdsa", "-b", "384"]),
        ("rsa", &["rsa", "-b", "2048"]),
    ] {
        site.key(name, kind);
        let signers = site.allow(&format!("{name}@example.org {} words\n", site.public(name))).unwrap();
        let commit = site.signed(name, WHEN);
        let signer = signers.verify_commit(&commit, time(NOW)).unwrap();
        assert_eq!(signer.principal, format!("{name}@example.org"));
        assert_eq!((signer.fingerprint, signer.scheme), (site.fingerprint(name), SignatureScheme::Ssh));
        let text = String::from_utf8(commit).unwrap();
        assert_eq!(code(&signers, text.replace("words", "wards").as_bytes()), "bad-signature", "{name}");
        assert_eq!(code(&signers, text.replace("tree ", "tree  ").as_bytes()), "bad-signature", "{name}");
    }
}

#[test]
fn anything_but_one_good_signature_is_refused() {
    zagent_cache::needs!("ssh-keygen");
    let site = TrustSite::new();
    site.key("alice", &["ed25519"]);
    site.key("eve", &["ed25519"]);
    let signers = site.allow(&format!("alice {}\n", site.public("alice"))).unwrap();
    let plain = site.commit(&[], WHEN);
    let good = site.signature("alice", "git", &plain);
    let text = String::from_utf8(good.clone()).unwrap();
    let sig = |text: String| embed_signature(&plain, text.as_bytes());
    let lines: Vec<&str> = text.lines().collect();
    let cut = [&lines[..2], &lines[3..]].concat().join("\n");
    let signed = String::from_utf8(embed_signature(&plain, &good)).unwrap();
    let twice = signed.replacen("\ngpgsig ", "\ngpgsig x\ngpgsig ", 1);
    for (what, commit, want) in [
        ("the signature itself", embed_signature(&plain, &good), "good"),
        ("none", plain.clone(), "unsigned"),
        ("another key", embed_signature(&plain, &site.signature("eve", "git", &plain)), "unknown-key"),
        (
            "another namespace",
            embed_signature(&plain, &site.signature("alice", "file", &plain)),
            "wrong-namespace",
        ),
        ("another payload", embed_signature(&plain, &site.signature("alice", "git", b"x")), "bad-signature"),
        ("no end", sig(text.replace("-----END SSH SIGNATURE-----", "")), "malformed"),
        ("a line less", sig(cut), "malformed"),
        ("words behind", sig(format!("{text}more")), "malformed"),
        ("words before", sig(format!("words\n{text}")), "malformed"),
        ("two in one", sig(format!("{text}{text}")), "malformed"),
        ("half of it", sig(text[..text.len() / 2].into()), "malformed"),
        ("no signature", sig("words".into()), "malformed"),
        ("nothing", sig(String::new()), "malformed"),
        ("too much", sig(format!("{text}{}", "A".repeat(40 << 10))), "malformed"),
        ("two headers", twice.into_bytes(), "several-signatures"),
        ("one for SHA-256", signed.replace("\ngpgsig ", "\ngpgsig-sha256 ").into_bytes(), "malformed"),
    ] {
        assert_eq!(code(&signers, &commit), want, "{what}");
    }
}

#[test]
fn rsa_with_sha1_and_short_keys_are_refused() {
    zagent_cache::needs!("ssh-keygen");
    use base64::Engine;
    let engine = base64::engine::general_purpose::STANDARD;
    let site = TrustSite::new();
    site.key("rsa", &["rsa", "-b", "2048"]);
    let signers = site.allow(&format!("rsa {}\n", site.public("rsa"))).unwrap();
    let plain = site.commit(&[], WHEN);
    let text = String::from_utf8(site.signature("rsa", "git", &plain)).unwrap();
    let body: String = text.lines().filter(|line| !line.starts_with('-')).collect();
    let bytes = engine.decode(body).unwrap();
    // The last field is `string(string(algorithm) string(signature))`.
    let name = b"\0\0\0\x0crsa-sha2-512";
    let at = bytes.windows(name.len()).position(|w| w == name).unwrap();
    let inner = [b"\0\0\0\x07ssh-rsa".as_slice(), &bytes[at + name.len()..]].concat();
    let length = u32::try_from(inner.len()).unwrap().to_be_bytes();
    let old = [&bytes[..at - 4], &length, &inner].concat();
    let wrapped: Vec<String> =
        engine.encode(old).as_bytes().chunks(70).map(|c| String::from_utf8_lossy(c).into()).collect();
    let armoured =
        format!("-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n", wrapped.join("\n"));
    let refused = code(&signers, &embed_signature(&plain, armoured.as_bytes()));
    assert!(matches!(refused, "malformed" | "weak"), "{refused}");

    site.key("short", &["rsa", "-b", "1024"]);
    let error = site.allow(&format!("# short\nrsa {}\n", site.public("short"))).unwrap_err().to_string();
    assert!(error.contains("allowed_signers:2: ") && error.contains("1024"), "{error}");
}

#[test]
fn a_key_is_valid_only_in_its_time_range() {
    zagent_cache::needs!("ssh-keygen");
    let site = TrustSite::new();
    let key = site.key("alice", &["ed25519"]);
    let commit = site.signed("alice", WHEN);
    let public = site.public("alice");
    assert!(key.exists());
    for (options, want) in [
        ("", "good"),
        ("namespaces=\"git\"", "good"),
        ("namespaces=\"file,g*\"", "good"),
        ("namespaces=\"file\"", "not-allowed"),
        ("namespaces=\"!git,*\"", "not-allowed"),
        ("valid-after=\"20260601\",valid-before=\"20260603\"", "good"),
        // Valid when it was used, but not now.
        ("valid-before=\"20260602Z\"", "expired-key"),
        // Valid now, but used with a date before that.
        ("valid-after=\"20260602Z\"", "not-yet-valid"),
        ("valid-after=\"20270101\"", "not-yet-valid"),
        ("valid-before=\"20250101\"", "expired-key"),
        ("cert-authority", "no-signers"),
    ] {
        let found = match site.allow(&format!("alice {options} {public}\n")) {
            Ok(signers) => code(&signers, &commit),
            Err(error) => error.code(),
        };
        assert_eq!(found, want, "{options}");
    }
    // A second line may allow what the first does not.
    let two = format!("old valid-before=\"20200101\" {public}\nnew {public}\n");
    let signers = site.allow(&two).unwrap();
    assert_eq!(signers.verify_commit(&commit, time(NOW)).unwrap().principal, "new");
}

#[test]
fn revoked_keys_are_not_accepted() {
    zagent_cache::needs!("ssh-keygen");
    let site = TrustSite::new();
    site.key("alice", &["ed25519"]);
    site.key("bob", &["ed25519"]);
    let commit = site.signed("alice", WHEN);
    site.write("allowed_signers", format!("alice {}\n", site.public("alice")));
    let read = |text: &[u8]| {
        let mut trust = site.trust();
        trust.revoked_keys = Some(site.write("revoked", text));
        AllowedSigners::read_with_zone(&trust, &jiff::tz::TimeZone::UTC)
            .map_or_else(|e| e.code(), |s| code(&s, &commit))
    };
    assert_eq!(read(format!("# none\n\n{}\n", site.public("bob")).as_bytes()), "good");
    assert_eq!(read(format!("{} comment\n", site.public("alice")).as_bytes()), "revoked");
    assert_eq!(read(format!("{} why\n", site.fingerprint("alice")).as_bytes()), "revoked");
    assert_eq!(read(b"SHA256:short\n"), "bad-line");
    assert_eq!(read(b"words\n"), "bad-line");
    let mut krl = site.command("ssh-keygen");
    run_with_input(krl.args(["-q", "-k", "-f", "krl", "alice.pub"]), b"");
    assert_eq!(read(&std::fs::read(site.path("krl")).unwrap()), "binary-revocations");
    let mut trust = site.trust();
    trust.revoked_keys = Some(site.path("nowhere"));
    assert_eq!(AllowedSigners::read(&trust).unwrap_err().code(), "unreadable");
}

#[test]
fn certificates_are_refused_with_their_name() {
    zagent_cache::needs!("ssh-keygen");
    let site = TrustSite::new();
    site.key("ca", &["ed25519"]);
    site.key("alice", &["ed25519"]);
    run_with_input(
        site.command("ssh-keygen").args(["-q", "-s", "ca", "-I", "id", "-n", "alice", "alice.pub"]),
        b"",
    );
    let ca = format!("alice cert-authority {}\nbob {}\n", site.public("ca"), site.public("ca"));
    let signers = site.allow(&ca).unwrap();
    let plain = site.commit(&[], WHEN);
    // With a certificate beside it, ssh-keygen signs with that.
    let mut command = site.command("ssh-keygen");
    let signed =
        run_with_input(command.args(["-q", "-Y", "sign", "-n", "git", "-f", "alice-cert.pub"]), &plain)
            .stdout;
    let error = signers.verify_commit(&embed_signature(&plain, &signed), time(NOW)).unwrap_err();
    assert_eq!(error.code(), "certificate", "{error}");
    assert!(error.to_string().contains("ssh-ed25519-cert-v01@openssh.com"), "{error}");
    let line = format!("alice {}\n", std::fs::read_to_string(site.path("alice-cert.pub")).unwrap().trim());
    assert!(site.allow(&line).unwrap_err().to_string().contains("certificate"));
}
