//! Commits signed with OpenPGP keys, by `git` and `gpg`; judged by `gpgv`.

use std::path::PathBuf;
use std::process::Command;

use zagent_cache::trust::{Scheme, Signers};

use crate::site::{Site, done, embed, feed, time};

const NOW: &str = "2026-06-02T12:00:00Z";

/// A GnuPG home whose agent ends with this value.
struct Home {
    site: Site,
}

impl Home {
    fn new() -> Self {
        let home = Self { site: Site::new() };
        std::fs::create_dir(home.site.path("gnupg")).unwrap();
        crate::site::mode(&home.site.path("gnupg"), 0o700);
        home
    }

    fn gpg(&self, args: &[&str]) -> Command {
        let mut command = self.site.command("gpg");
        command.args(["--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback", "--passphrase", ""]);
        command.args(args);
        command
    }

    fn key(&self, more: &[&str], user: &str, expires: &str) {
        let args = [more, &["--quick-generate-key", user, "ed25519", "sign", expires]].concat();
        done(&mut self.gpg(&args));
    }

    fn sign(&self, more: &[&str], user: &str, payload: &[u8]) -> Vec<u8> {
        let args = [more, &["--local-user", user, "--armor", "--detach-sign"]].concat();
        let made = feed(&mut self.gpg(&args), payload);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        made.stdout
    }

    fn keyring(&self, users: &[&str]) -> PathBuf {
        let exported = done(&mut self.gpg(&[&["--export"], users].concat())).stdout;
        self.site.write(&format!("{}.gpg", users.join("-")), exported)
    }

    fn signers(&self, users: &[&str]) -> Signers {
        let mut trust = self.site.trust();
        trust.openpgp_keyring = Some(self.keyring(users));
        Signers::read(&trust).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let mut end = self.site.command("gpgconf");
        let _ = end.args(["--kill", "all"]).output();
    }
}

#[test]
fn openpgp_signatures_by_keys_of_the_keyring_count() {
    zagent_cache::needs!("ssh-keygen", "gpg", "gpgv");
    let home = Home::new();
    home.key(&[], "Alice <alice@example.org>", "never");
    home.key(&[], "Eve <eve@example.org>", "never");
    let commit = home.site.commit(&["-c", "user.signingkey=alice@example.org"], "2026-06-01T12:00:00Z");
    let signers = home.signers(&["alice@example.org"]);
    let signer = signers.commit(&commit, time(NOW)).unwrap();
    assert_eq!((signer.principal.as_str(), signer.scheme), ("Alice <alice@example.org>", Scheme::OpenPgp));
    assert_eq!(signer.fingerprint.len(), 40);

    let refused = |signers: &Signers, commit: &[u8], words: &str| {
        let error = signers.commit(commit, time(NOW)).unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
    };
    let text = String::from_utf8(commit.clone()).unwrap();
    refused(&signers, text.replace("words", "wards").as_bytes(), "not one of these bytes");
    refused(&home.signers(&["eve@example.org"]), &commit, "not in the keyring");
    let plain = home.site.commit(&[], "2026-06-01T12:00:00Z");
    let good = home.sign(&[], "alice@example.org", &plain);
    signers.commit(&embed(&plain, &good), time(NOW)).unwrap();
    let both = [good.clone(), home.sign(&[], "alice@example.org", &plain)].concat();
    refused(&signers, &embed(&plain, &both), "refused");
    let weak = home.sign(&["--digest-algo", "SHA1"], "alice@example.org", &plain);
    refused(&signers, &embed(&plain, &weak), "refused");
    refused(&signers, &embed(&plain, &good[..good.len() / 2]), "refused");
    let line = "-----BEGIN PGP SIGNATURE-----";
    refused(&signers, &embed(&plain, line.as_bytes()), "no signature");

    // Without a keyring an OpenPGP signature never counts.
    home.site.key("k", &["ed25519"]);
    let ssh_only = home.site.allow(&format!("k {}\n", home.site.public("k"))).unwrap();
    let error = ssh_only.commit(&commit, time(NOW)).unwrap_err();
    assert_eq!(error.code(), "no-keyring");
    assert!(error.hint().contains("openpgp_keyring"), "{}", error.hint());
    let mut trust = home.site.trust();
    trust.openpgp_keyring = Some(home.site.path("nowhere"));
    refused(&Signers::read(&trust).unwrap(), &commit, "cannot read");
}

#[test]
fn expired_and_revoked_openpgp_keys_do_not_count() {
    zagent_cache::needs!("ssh-keygen", "gpg", "gpgv");
    let home = Home::new();
    let past = ["--faked-system-time", "20200101T000000!"];
    home.key(&past, "Old <old@example.org>", "1y");
    home.key(&[], "Gone <gone@example.org>", "never");
    let plain = home.site.commit(&[], "2026-06-01T12:00:00Z");
    let old = embed(&plain, &home.sign(&past, "old@example.org", &plain));
    let gone = embed(&plain, &home.sign(&[], "gone@example.org", &plain));
    let both = ["old@example.org", "gone@example.org"];
    let before = home.signers(&both);
    assert!(before.commit(&gone, time(NOW)).is_ok());
    let error = before.commit(&old, time(NOW)).unwrap_err().to_string();
    assert!(error.contains("expired"), "{error}");

    let listed = done(&mut home.gpg(&["--with-colons", "--list-keys", "gone@example.org"])).stdout;
    let listed = String::from_utf8(listed).unwrap();
    let key = listed.lines().find_map(|l| l.strip_prefix("fpr:")).unwrap().trim_matches(':').to_owned();
    // A colon before it keeps the certificate that GnuPG made from being used by mistake.
    let kept = home.site.path("gnupg/openpgp-revocs.d").join(format!("{key}.rev"));
    let certificate = std::fs::read_to_string(kept).unwrap().replace(":-----BEGIN", "-----BEGIN");
    assert!(feed(&mut home.gpg(&["--import"]), certificate.as_bytes()).status.success());
    let error = home.signers(&both).commit(&gone, time(NOW)).unwrap_err().to_string();
    assert!(error.contains("revoked"), "{error}");
}
