//! Commits signed with OpenPGP keys, by `git` and `gpg`; checked by `gpgv`.

use std::path::PathBuf;
use std::process::Command;

use zagent_cache::trust::{AllowedSigners, SignatureScheme};

use super::site::{TrustSite, embed_signature, run_ok, run_with_input, time};

const NOW: &str = "2026-06-02T12:00:00Z";

/// A GnuPG home whose agent stops with this value.
struct GnupgHome {
    site: TrustSite,
}

impl GnupgHome {
    fn new() -> Self {
        let home = Self { site: TrustSite::new() };
        std::fs::create_dir(home.site.path("gnupg")).unwrap();
        super::site::set_mode(&home.site.path("gnupg"), 0o700);
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
        run_ok(&mut self.gpg(&args));
    }

    fn sign(&self, more: &[&str], user: &str, payload: &[u8]) -> Vec<u8> {
        let args = [more, &["--local-user", user, "--armor", "--detach-sign"]].concat();
        let made = run_with_input(&mut self.gpg(&args), payload);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        made.stdout
    }

    fn keyring(&self, users: &[&str]) -> PathBuf {
        let exported = run_ok(&mut self.gpg(&[&["--export"], users].concat())).stdout;
        self.site.write(&format!("{}.gpg", users.join("-")), exported)
    }

    fn signers(&self, users: &[&str]) -> AllowedSigners {
        let mut trust = self.site.trust();
        trust.openpgp_keyring = Some(self.keyring(users));
        AllowedSigners::read(&trust).unwrap()
    }
}

impl Drop for GnupgHome {
    fn drop(&mut self) {
        let mut end = self.site.command("gpgconf");
        let _ = end.args(["--kill", "all"]).output();
    }
}

#[test]
fn openpgp_signatures_by_keyring_keys_are_accepted() {
    zagent_cache::needs!("ssh-keygen", "gpg", "gpgv");
    let home = GnupgHome::new();
    home.key(&[], "Alice <alice@example.org>", "never");
    home.key(&[], "Eve <eve@example.org>", "never");
    let commit = home.site.commit(&["-c", "user.signingkey=alice@example.org"], "2026-06-01T12:00:00Z");
    let signers = home.signers(&["alice@example.org"]);
    let signer = signers.verify_commit(&commit, time(NOW)).unwrap();
    assert_eq!(
        (signer.principal.as_str(), signer.scheme),
        ("Alice <alice@example.org>", SignatureScheme::OpenPgp)
    );
    assert_eq!(signer.fingerprint.len(), 40);

    let refused = |signers: &AllowedSigners, commit: &[u8], words: &str| {
        let error = signers.verify_commit(commit, time(NOW)).unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
    };
    let text = String::from_utf8(commit.clone()).unwrap();
    refused(&signers, text.replace("words", "wards").as_bytes(), "does not match the signed content");
    refused(&home.signers(&["eve@example.org"]), &commit, "not in the keyring");
    let plain = home.site.commit(&[], "2026-06-01T12:00:00Z");
    let good = home.sign(&[], "alice@example.org", &plain);
    signers.verify_commit(&embed_signature(&plain, &good), time(NOW)).unwrap();
    let both = [good.clone(), home.sign(&[], "alice@example.org", &plain)].concat();
    refused(&signers, &embed_signature(&plain, &both), "refused");
    let weak = home.sign(&["--digest-algo", "SHA1"], "alice@example.org", &plain);
    refused(&signers, &embed_signature(&plain, &weak), "refused");
    refused(&signers, &embed_signature(&plain, &good[..good.len() / 2]), "refused");
    let line = "-----BEGIN PGP SIGNATURE-----";
    refused(&signers, &embed_signature(&plain, line.as_bytes()), "no signature");

    // Without a keyring an OpenPGP signature is never accepted.
    home.site.key("k", &["ed25519"]);
    let ssh_only = home.site.allow(&format!("k {}\n", home.site.public("k"))).unwrap();
    let error = ssh_only.verify_commit(&commit, time(NOW)).unwrap_err();
    assert_eq!(error.code(), "no-keyring");
    assert!(error.hint().contains("openpgp_keyring"), "{}", error.hint());
    let mut trust = home.site.trust();
    trust.openpgp_keyring = Some(home.site.path("nowhere"));
    refused(&AllowedSigners::read(&trust).unwrap(), &commit, "cannot read");
}

#[test]
fn expired_and_revoked_openpgp_keys_are_refused() {
    zagent_cache::needs!("ssh-keygen", "gpg", "gpgv");
    let home = GnupgHome::new();
    let past = ["--faked-system-time", "20200101T000000!"];
    home.key(&past, "Old <old@example.org>", "1y");
    home.key(&[], "Gone <gone@example.org>", "never");
    let plain = home.site.commit(&[], "2026-06-01T12:00:00Z");
    let old = embed_signature(&plain, &home.sign(&past, "old@example.org", &plain));
    let gone = embed_signature(&plain, &home.sign(&[], "gone@example.org", &plain));
    let both = ["old@example.org", "gone@example.org"];
    let before = home.signers(&both);
    assert!(before.verify_commit(&gone, time(NOW)).is_ok());
    let error = before.verify_commit(&old, time(NOW)).unwrap_err().to_string();
    assert!(error.contains("expired"), "{error}");

    let listed = run_ok(&mut home.gpg(&["--with-colons", "--list-keys", "gone@example.org"])).stdout;
    let listed = String::from_utf8(listed).unwrap();
    let key = listed.lines().find_map(|l| l.strip_prefix("fpr:")).unwrap().trim_matches(':').to_owned();
    // A colon before it prevents accidental use of the certificate that GnuPG made.
    let kept = home.site.path("gnupg/openpgp-revocs.d").join(format!("{key}.rev"));
    let certificate = std::fs::read_to_string(kept).unwrap().replace(":-----BEGIN", "-----BEGIN");
    assert!(run_with_input(&mut home.gpg(&["--import"]), certificate.as_bytes()).status.success());
    let error = home.signers(&both).verify_commit(&gone, time(NOW)).unwrap_err().to_string();
    assert!(error.contains("revoked"), "{error}");
}
