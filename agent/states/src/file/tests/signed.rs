//! Sources, lists of digests and archives with signatures of a real `gpg` and a real `openssl`.

use std::io::{Read, Write};

use super::super::cached::build_cached;
use crate::ChunkArgs;
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

/// A file that begins and ends with a line that nobody signed.
fn surround(file: &str, before: &str, after: &str) -> String {
    let to = format!("{file}.around");
    std::fs::write(&to, format!("{before}{}{after}", std::fs::read_to_string(file).unwrap())).unwrap();
    to
}

#[test]
fn text_around_an_inline_signature_is_never_used() {
    let test_bed = StateTestBed::for_files();
    let home = SignersHome::new(&test_bed);
    let (evil, good) = (test_bed.path("evil"), test_bed.path("good"));
    std::fs::write(&evil, "evil\n").unwrap();
    std::fs::write(&good, "good\n").unwrap();
    let sum_of = |file: &str| run("sha256sum", &[file]);
    let sums = test_bed.path("sums");
    std::fs::write(&sums, sum_of(&good)).unwrap();
    let signed = home.sign("ann", "--clearsign", &sums);
    let state = |source: &str, more: &str| {
        let args = format!(r#"{{"source": "{source}", "gnupghome": "{}"{more}}}"#, home.0);
        apply_chunk(&chunk("file.managed", &test_bed.path("d/f"), &args), &test_bed.scene())
    };
    let line = sum_of(&evil);
    for (before, after) in [(line.as_str(), ""), ("", line.as_str())] {
        let list = surround(&signed, before, after);
        let by_list = format!(r#", "source_hash": "{list}", "source_hash_sig": true"#);
        let refused = state(&evil, &by_list);
        assert!(refused.starts_with("false") && !test_bed.exists("d/f"), "{refused}");
        let refused = state(&surround(&signed, before, after), r#", "signature": true"#);
        assert!(refused.contains("the file is not one clear-signed message from its first"), "{refused}");
        assert!(!test_bed.exists("d/f"));
        assert!(state(&good, &by_list).starts_with("true"));
        std::fs::remove_file(test_bed.path("d/f")).unwrap();
    }
    assert!(state(&signed, r#", "signature": true"#).starts_with("true"));
}

#[test]
fn a_template_is_rendered_only_when_its_source_is_signed() {
    let test_bed = StateTestBed::for_files();
    let home = SignersHome::new(&test_bed);
    let source = test_bed.path("source");
    std::fs::write(&source, "{{ a }}\n").unwrap();
    let signature = home.sign("ann", "--detach-sign", &source);
    let chunk = chunk(
        "file.managed",
        &test_bed.path("d/f"),
        &format!(
            r#"{{"source": "{source}", "template": "jinja", "context": {{"a": "b"}}, "signature": "{signature}", "gnupghome": "{}"}}"#,
            home.0
        ),
    );
    let right = apply_chunk(&chunk, &test_bed.scene());
    assert!(right.starts_with("true"), "{right}");
    // Whatever it would do, it would do at the first look already.
    std::fs::write(&source, "{{ a }}{{ fail }}\n").unwrap();
    for said in [preview_chunk(&chunk, &test_bed.scene()), apply_chunk(&chunk, &test_bed.scene())] {
        assert!(said.contains("Failed checking new file's signature"), "{said}");
    }
}

#[test]
fn a_revoked_key_has_signed_nothing_and_each_signature_is_tried() {
    let test_bed = StateTestBed::for_files();
    let home = SignersHome::new(&test_bed);
    let source = test_bed.path("source");
    std::fs::write(&source, "text\n").unwrap();
    let by = |user: &str| home.sign(user, "--detach-sign", &source);
    let (ann, eve) = (by("ann"), by("eve"));
    let state = |signatures: &str| {
        let args = format!(
            r#"{{"source": "{source}", "signature": [{signatures}], "gnupghome": "{}", "signed_by_any": ["{}", "{}"]}}"#,
            home.0,
            home.fingerprint("ann"),
            home.fingerprint("eve")
        );
        apply_chunk(&chunk("file.managed", &test_bed.path("d/f"), &args), &test_bed.scene())
    };
    let revocation = format!("{}/openpgp-revocs.d/{}.rev", home.0, home.fingerprint("eve"));
    let text = std::fs::read_to_string(&revocation).unwrap().replace(":-----BEGIN", "-----BEGIN");
    std::fs::write(&revocation, text).unwrap();
    home.gpg(&["--import", &revocation]);
    let refused = state(&format!("\"{eve}\""));
    assert!(refused.contains("None of the public keys listed in signed_by_any"), "{refused}");
    assert!(!test_bed.exists("d/f"));
    let right = state(&format!("\"/nowhere\", \"{eve}\", \"{ann}\""));
    assert!(right.starts_with("true"), "{right}");
}

#[test]
fn a_signature_that_nobody_would_check_is_refused() {
    let test_bed = StateTestBed::for_files();
    let state =
        |args: &str| preview_chunk(&chunk("file.managed", &test_bed.path("d/f"), args), &test_bed.scene());
    let table = [
        (r#""source_hash": "/sums", "skip_verify": true"#, "remove `skip_verify`"),
        (r#""keep_source": true"#, "there is no `source_hash`"),
        (r#""source_hash": "md5=d41d8cd98f00b204e9800998ecf8427e""#, "is a digest and no file of digests"),
    ];
    for (more, why) in table {
        let args = format!(r#"{{"source": "https://example.org/f", "source_hash_sig": true, {more}}}"#);
        let said = state(&args);
        assert!(said.contains("`source_hash_sig` has no effect: ") && said.contains(why), "{said}");
        let cached = chunk("file.cached", "https://example.org/f", &args);
        let refused = build_cached(&ChunkArgs::new(&cached)).err().unwrap().result.comment;
        assert!(refused.contains(why), "{refused}");
    }
    let said = state(r#"{"source": "salt://f", "source_hash": "salt://sums", "source_hash_sig": true}"#);
    assert!(said.contains("`source_hash_sig` has no effect on salt://f"), "{said}");
    let cached = chunk("file.cached", "salt://f", r#"{"signature": true}"#);
    let refused = build_cached(&ChunkArgs::new(&cached)).err().unwrap().result.comment;
    assert!(refused.contains("`file.cached` does not check `signature`"), "{refused}");
}

/// Answers with these texts, one after the other.
fn serve(texts: [&'static str; 2]) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (stream, text) in listener.incoming().zip(texts) {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
            stream.write_all(format!("{head}{text}").as_bytes()).unwrap();
        }
    });
    format!("http://{address}/f")
}

#[test]
fn a_download_that_is_refused_is_asked_for_again() {
    let test_bed = StateTestBed::for_files();
    let home = SignersHome::new(&test_bed);
    let source = test_bed.path("source");
    std::fs::write(&source, "good\n").unwrap();
    let signature = home.sign("ann", "--detach-sign", &source);
    let args = format!(
        r#"{{"source": "{}", "skip_verify": true, "signature": "{signature}", "gnupghome": "{}"}}"#,
        serve(["evil\n", "good\n"]),
        home.0
    );
    let chunk = chunk("file.managed", &test_bed.path("d/f"), &args);
    assert!(apply_chunk(&chunk, &test_bed.scene()).contains("Failed checking new file's signature"));
    let right = apply_chunk(&chunk, &test_bed.scene());
    assert!(right.starts_with("true"), "{right}");
    assert_eq!(std::fs::read_to_string(test_bed.path("d/f")).unwrap(), "good\n");
}
