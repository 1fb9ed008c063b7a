//! Sources, lists of digests and archives with signatures of a real `gpg` and a real `openssl`.

use crate::testing::{StateTestBed, apply_chunk, chunk, preview_chunk};
use zagent_host::{Machine, Tools};

/// A GnuPG home with the keys of Ann and Eve.
struct SignersHome(String);

impl SignersHome {
    fn new(test_bed: &StateTestBed) -> Self {
        let home = Self(test_bed.path("gnupg"));
        run("mkdir", &["-m", "700", &home.0]);
        for user in ["ann", "eve"] {
            home.gpg(&["--quick-generate-key", user, "ed25519", "sign", "never"]);
        }
        home
    }

    fn gpg(&self, args: &[&str]) -> String {
        let first = ["--homedir", &self.0, "--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback"];
        run("gpg", &[&first[..], &["--passphrase", ""], args].concat())
    }

    fn fingerprint(&self, user: &str) -> String {
        let listed = self.gpg(&["--with-colons", "--list-keys", user]);
        let line = listed.lines().find_map(|line| line.strip_prefix("fpr:"));
        line.unwrap().trim_matches(':').to_owned()
    }

    fn sign(&self, user: &str, how: &str, file: &str) -> String {
        let to = format!("{file}.{user}");
        self.gpg(&["--yes", "--local-user", user, "--armor", "--output", &to, how, file]);
        to
    }
}

impl Drop for SignersHome {
    fn drop(&mut self) {
        run("gpgconf", &["--homedir", &self.0, "--kill", "all"]);
    }
}

fn run(program: &str, args: &[&str]) -> String {
    let machine = Machine::this_host();
    Tools::new(&machine).run_checked(program, args).unwrap().stdout
}

#[test]
fn a_source_is_written_only_when_it_is_signed_by_whom_it_must_be() {
    let test_bed = StateTestBed::for_files();
    let home = SignersHome::new(&test_bed);
    let (source, to) = (test_bed.path("source"), test_bed.path("d/f"));
    std::fs::write(&source, "text\n").unwrap();
    let (ann, eve) = (home.fingerprint("ann"), home.fingerprint("eve"));
    let signature = home.sign("ann", "--detach-sign", &source);
    let state = |from: &str, signature: &str, more: &str| {
        let args =
            format!(r#"{{"source": "{from}", "signature": {signature}, "gnupghome": "{}"{more}}}"#, home.0);
        apply_chunk(&chunk("file.managed", &to, &args), &test_bed.scene())
    };
    let detached = format!("\"{signature}\"");
    let refused = "Failed checking new file's signature: The file's signature could not be verified: ";
    let others = state(&source, &detached, &format!(r#", "signed_by_all": ["{ann}", "{eve}"]"#));
    assert!(others.contains(&format!("{refused}Public key {eve} has not provided")), "{others}");
    assert!(state(&source, "true", "").contains(refused));
    assert!(state(&source, "\"/nowhere\"", "").contains("Detached signature file /nowhere not found"));
    assert!(!test_bed.exists("d/f"));
    let right = state(&source, &detached, &format!(r#", "signed_by_any": ["{eve}", "{ann}"]"#));
    assert!(right.starts_with("true"), "{right}");
    // What is right already is not looked at again.
    assert!(state(&source, "\"/nowhere\"", "").contains("is in the correct state"));
    std::fs::write(&source, "changed\n").unwrap();
    assert!(state(&source, &detached, "").contains(refused));
    let inline = home.sign("eve", "--clearsign", &source);
    assert!(state(&inline, "true", &format!(r#", "signed_by_any": "{eve}""#)).starts_with("true"));
    assert!(std::fs::read_to_string(&to).unwrap().contains("BEGIN PGP SIGNED MESSAGE"));
}

#[test]
fn a_list_of_digests_and_an_archive_are_signed_too() {
    let test_bed = StateTestBed::for_files();
    let home = SignersHome::new(&test_bed);
    let root = test_bed.path("root");
    std::fs::write(format!("{root}/one"), "one\n").unwrap();
    let archive = test_bed.path("a.tar");
    run("tar", &["-cf", &archive, "-C", &root, "one"]);
    let sum = run("sha256sum", &[&archive]);
    std::fs::write(format!("{root}/sums"), sum.replace(&archive, "a.tar")).unwrap();
    let signed = |signature: &str, digests: &str| {
        let args = format!(
            r#"{{"source": "{archive}", "source_hash": "salt://sums", "source_hash_sig": {digests},
                "signature": {signature}, "gnupghome": "{}", "enforce_toplevel": false}}"#,
            home.0
        );
        apply_chunk(&chunk("archive.extracted", &test_bed.path("d/out"), &args), &test_bed.scene())
    };
    let archive_by_ann = format!("\"{}\"", home.sign("ann", "--detach-sign", &archive));
    let sums_by_ann = format!("\"{}\"", home.sign("ann", "--detach-sign", &format!("{root}/sums")));
    let unsigned = signed("true", "false");
    assert!(unsigned.contains("Failed verifying the source file's signature: "), "{unsigned}");
    let unsigned = signed(&archive_by_ann, "true");
    assert!(unsigned.contains("The file's signature could not be verified"), "{unsigned}");
    assert!(!test_bed.exists("d/out/one"));
    let right = signed(&archive_by_ann, &sums_by_ann);
    assert!(right.starts_with("true"), "{right}");
    assert!(test_bed.exists("d/out/one"));
}

#[test]
fn keys_without_a_keyring_are_enough() {
    let test_bed = StateTestBed::for_files();
    let (source, key) = (test_bed.path("source"), test_bed.path("key"));
    std::fs::write(&source, "text\n").unwrap();
    run("openssl", &["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", &key]);
    let signature = test_bed.path("sig");
    run("openssl", &["dgst", "-sha256", "-sign", &key, "-out", &signature, &source]);
    let public = run("openssl", &["pkey", "-in", &key, "-pubout"]);
    run("openssl", &["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", &key]);
    let other = run("openssl", &["pkey", "-in", &key, "-pubout"]);
    let state = |keys: &[&str]| {
        let keys = serde_json::to_string(keys).unwrap();
        let args = format!(
            r#"{{"source": "{source}", "signature": ["{signature}"], "sig_backend": "asymmetric", "signed_by_any": {keys}}}"#
        );
        apply_chunk(&chunk("file.managed", &test_bed.path("d/f"), &args), &test_bed.scene())
    };
    let refused = state(&[&other]);
    assert!(refused.contains("None of the public keys listed in signed_by_any"), "{refused}");
    assert!(state(&[&other, &public]).starts_with("true"));
}

#[test]
fn signers_without_a_signature_and_unknown_backends_are_refused() {
    let test_bed = StateTestBed::for_files();
    let state =
        |args: &str| preview_chunk(&chunk("file.managed", &test_bed.path("d/f"), args), &test_bed.scene());
    let said = state(r#"{"source": "salt://a", "signed_by_any": "A"}"#);
    assert!(said.contains("no signature is given: add `signature` or `source_hash_sig`"), "{said}");
    let said = state(r#"{"source": "salt://a", "signature": true, "sig_backend": "sigstore"}"#);
    assert!(said.contains("Cannot verify signatures because the sigstore module was not loaded"), "{said}");
}
