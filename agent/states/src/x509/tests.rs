//! A chain of keys, requests, certificates and a list of what is revoked.

use super::material::{self, Certificate};
use crate::Verdict;
use crate::testing::{StateTestBed, apply_chunk, build_state, chunk};
use zagent_compiler::Compat;

#[test]
fn a_key_a_request_and_a_signed_certificate() {
    let test_bed = StateTestBed::new();
    let at = |name: &str| test_bed.path(name);
    let run = |function: &str, name: &str, args: &str| {
        let args = args.replace("$D", &test_bed.dir.path().display().to_string());
        apply_chunk(&chunk(function, &at(name), &args), &test_bed.scene())
    };
    let key = r#"{"algo": "ec"}"#;
    assert!(run("x509.private_key_managed", "ca.key", key).contains("The private key has been created"));
    assert!(
        run("x509.private_key_managed", "ca.key", key).contains("The private key is in the correct state")
    );
    assert!(run("x509.private_key_managed", "ca.key", r#"{"algo": "ed25519"}"#).contains("recreated"));
    let ca = r#"{"signing_private_key": "$D/ca.key", "CN": "CA", "basicConstraints": "critical CA:true", "days_valid": 400}"#;
    assert!(run("x509.certificate_managed", "ca.crt", ca).contains("The certificate has been created"));
    assert!(run("x509.certificate_managed", "ca.crt", ca).contains("correct state"));
    assert!(
        run("x509.certificate_managed", "ca.crt", &ca.replace("400", "400, \"days_remaining\": 401"))
            .contains("expiration")
    );
    assert!(run("x509.private_key_managed", "a.key", key).contains("created"));
    let csr = r#"{"private_key": "$D/a.key", "CN": "a", "subjectAltName": "DNS:a.example.org"}"#;
    assert!(
        run("x509.csr_managed", "a.csr", csr).contains("The certificate signing request has been created")
    );
    assert!(run("x509.csr_managed", "a.csr", csr).contains("correct state"));
    assert!(run("x509.csr_managed", "a.csr", &csr.replace("DNS:a.", "DNS:b.")).contains("recreated"));
    let signed = r#"{"signing_private_key": "$D/ca.key", "signing_cert": "$D/ca.crt", "csr": "$D/a.csr"}"#;
    assert!(run("x509.certificate_managed", "a.crt", signed).contains("created"));
    assert!(run("x509.certificate_managed", "a.crt", signed).contains("correct state"));
    let other = r#"{"signing_private_key": "$D/ca.key", "signing_cert": "$D/ca.crt", "private_key": "$D/a.key", "CN": "z"}"#;
    assert!(run("x509.certificate_managed", "a.crt", other).contains("recreated"));
    assert!(run("x509.certificate_managed", "a.crt", other).contains("correct state"));
    let list = r#"{"signing_private_key": "$D/ca.key", "signing_cert": "$D/ca.crt", "revoked": [{"certificate": "$D/a.crt", "revocation_date": "2020-01-02 03:04:05", "extensions": {"CRLReason": "keyCompromise"}}, {"serial_number": "D6:D2"}]}"#;
    assert!(
        run("x509.crl_managed", "ca.crl", list).contains("The certificate revocation list has been created")
    );
    assert!(run("x509.crl_managed", "ca.crl", list).contains("correct state"));
    // Salt says of a list alone that it was created, whatever was there.
    assert!(run("x509.crl_managed", "ca.crl", &list.replace("D6:D2", "D6:D3")).contains("has been created"));
    assert!(
        run(
            "x509.crl_managed",
            "ca.crl",
            &list.replace("D6:D2", "D6:D3").replace("{\"sign", "{\"days_remaining\": 200, \"sign")
        )
        .contains("expiration")
    );
    assert!(
        run("x509.crl_managed", "ca.crl", r#"{"signing_private_key": "$D/ca.key", "revoked": []}"#)
            .contains("A CRL must have an issuer name")
    );
}

/// A stage with a key and a certificate of a CA, and a key and a request of `a`.
struct Pki {
    test_bed: StateTestBed,
}

impl Pki {
    fn new() -> Self {
        let pki = Self { test_bed: StateTestBed::new() };
        let key = r#"{"algo": "ec"}"#;
        pki.run("private_key_managed", "ca.key", key);
        pki.run("private_key_managed", "a.key", key);
        pki.run(
            "certificate_managed",
            "ca.crt",
            r#"{"signing_private_key": "$D/ca.key", "CN": "CA", "basicConstraints": "critical, CA:TRUE",
                "subjectKeyIdentifier": "hash"}"#,
        );
        let csr = r#"{"private_key": "$D/a.key", "CN": "of-csr", "keyUsage": "critical, digitalSignature"}"#;
        pki.run("csr_managed", "a.csr", csr);
        pki
    }

    fn run(&self, function: &str, name: &str, args: &str) -> String {
        let dir = self.test_bed.dir.path().display().to_string();
        let chunk = chunk(&format!("x509.{function}"), &self.test_bed.path(name), &args.replace("$D", &dir));
        apply_chunk(&chunk, &self.test_bed.scene()).replace(&dir, "$D")
    }

    /// A certificate of the CA for `a`, with more arguments.
    fn sign(&self, name: &str, more: &str) -> String {
        let args = format!(
            r#"{{"signing_private_key": "$D/ca.key", "signing_cert": "$D/ca.crt", "private_key": "$D/a.key"{more}}}"#
        );
        self.run("certificate_managed", name, &args)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.test_bed.path(name)).unwrap()
    }

    fn certificate(&self, name: &str) -> Certificate {
        let blocks = material::pem_blocks(&String::from_utf8(self.read(name)).unwrap());
        Certificate::read(&blocks[0].bytes).unwrap()
    }
}

#[test]
fn keys_as_salt_keeps_and_replaces_them() {
    let pki = Pki::new();
    let before = pki.read("a.key");
    assert!(pki.run("private_key_managed", "none.key", r#"{"create": false}"#).contains("correct state"));
    assert!(!pki.test_bed.exists("none.key"));
    let said = pki.run("private_key_managed", "a.key", r#"{"algo": "ec", "passphrase": "pw"}"#);
    assert!(said.contains("recreated") && said.contains(r#""passphrase":true"#), "{said}");
    assert!(String::from_utf8(pki.read("a.key")).unwrap().contains("ENCRYPTED PRIVATE KEY"));
    let said = pki.run("private_key_managed", "a.key", r#"{"algo": "ec"}"#);
    assert!(said.contains("The existing file is encrypted. Pass overwrite: true"), "{said}");
    let said = pki.run("private_key_managed", "a.key", r#"{"algo": "ec", "passphrase": "no"}"#);
    assert!(said.contains("The provided passphrase cannot decrypt the private key."), "{said}");
    let said = pki.run("private_key_managed", "a.key", r#"{"algo": "ec", "passphrase": "pw"}"#);
    assert!(said.contains("correct state"), "{said}");
    let said = pki.run("private_key_managed", "ca.key", r#"{"algo": "ec", "encoding": "der"}"#);
    assert!(said.contains(r#""encoding":"der""#), "{said}");
    assert_eq!(pki.read("ca.key")[0], 0x30);
    let said = pki.run("private_key_managed", "ca.key", r#"{"algo": "ec", "encoding": "der", "new": true}"#);
    assert!(said.contains(r#""replaced":"$D/ca.key""#), "{said}");
    assert_ne!(pki.read("a.key"), before);
    let said =
        pki.run("private_key_managed", "ca.key", r#"{"algo": "ec", "keysize": 384, "encoding": "der"}"#);
    assert!(said.contains(r#"{"keysize":384}"#), "{said}");
    let said = pki.run("private_key_managed", "a.csr", "{}");
    assert!(said.contains("does not seem to be a private key"), "{said}");
}

#[test]
fn certificates_as_salt_compares_them() {
    let pki = Pki::new();
    let request = r#"{"signing_private_key": "$D/ca.key", "signing_cert": "$D/ca.crt", "csr": "$D/a.csr", "CN": "own"}"#;
    assert!(pki.run("certificate_managed", "r.crt", request).contains(r#"{"created":"$D/r.crt"}"#));
    let found = pki.certificate("r.crt");
    assert_eq!((found.subject.text().as_str(), found.extensions.len()), ("CN=own", 1));
    assert!(pki.sign("a.crt", "").contains("created"));
    assert_eq!(pki.certificate("a.crt").subject.text(), "");
    for (more, want) in [
        ("", "correct state"),
        (r#", "serial_number": 42"#, r#"{"serial_number":42}"#),
        (r#", "serial_number": 42, "CN": "x""#, r#"{"subject_name":"CN=x"}"#),
        (r#", "CN": "x", "digest": "sha512""#, r#"{"digest":"sha512"}"#),
        (
            r#", "CN": "x", "digest": "sha512", "authorityKeyIdentifier": "keyid:always", "tlsfeature": "status_request""#,
            r#"{"extensions":{"added":["authorityKeyIdentifier","TLSFeature"],"changed":[],"removed":[]}}"#,
        ),
        (
            r#", "CN": "x", "digest": "sha512", "tlsfeature": "status_request", "days_remaining": 9999"#,
            r#""expiration":true"#,
        ),
        (r#", "CN": "x", "digest": "sha512""#, r#""removed":["TLSFeature"]"#),
        (r#", "CN": "x", "digest": "sha512", "encoding": "der""#, r#"{"encoding":"der"}"#),
        (
            r#", "CN": "x", "digest": "sha512", "encoding": "pkcs7_pem", "append_certs": "$D/ca.crt""#,
            r#""additional_certs":true"#,
        ),
        (
            r#", "CN": "x", "digest": "sha512", "encoding": "pkcs12", "append_certs": "$D/ca.crt", "pkcs12_passphrase": "pw", "pkcs12_friendlyname": "me""#,
            r#"{"encoding":"pkcs12"}"#,
        ),
        (
            r#", "CN": "x", "digest": "sha512", "encoding": "pkcs12", "append_certs": "$D/ca.crt", "pkcs12_passphrase": "pw", "pkcs12_friendlyname": "me""#,
            "correct state",
        ),
        (r#", "CN": "x", "encoding": "pkcs12""#, r#"{"pkcs12_passphrase":true}"#),
        (r#", "signing_cert": "$D/none""#, "Could not load provided source"),
    ] {
        let said = pki.sign("a.crt", more);
        assert!(said.contains(want), "{more}: {said}");
    }
}

#[test]
fn links_copies_and_signers() {
    let pki = Pki::new();
    std::os::unix::fs::symlink(pki.test_bed.path("ca.crt"), pki.test_bed.path("link")).unwrap();
    let said = pki.sign("link", r#", "CN": "x", "follow_symlinks": false"#);
    assert!(said.contains(r#"{"created":"$D/link","replaced":"$D/link"}"#), "{said}");
    assert!(!std::fs::symlink_metadata(pki.test_bed.path("link")).unwrap().is_symlink());
    pki.sign("b.crt", r#", "CN": "x", "serial_number": "0A:BC", "copypath": "$D", "prepend_cn": true"#);
    assert_eq!(pki.read("x-abc.crt"), pki.read("b.crt"));
    let said = pki.sign("c.crt", r#", "signing_private_key": "$D/a.key""#);
    assert!(said.contains("Signing private key does not match the certificate's public key"), "{said}");
}

#[test]
fn lists_as_salt_compares_them() {
    let pki = Pki::new();
    let list = |more: &str| {
        let args = format!(r#"{{"signing_private_key": "$D/ca.key", "signing_cert": "$D/ca.crt", {more}}}"#);
        pki.run("crl_managed", "ca.crl", &args)
    };
    for (more, want) in [
        (r#""revoked": [], "extensions": {"cRLNumber": "auto"}"#, r#"{"created":"$D/ca.crl"}"#),
        (r#""revoked": [], "extensions": {"cRLNumber": "auto"}"#, "correct state"),
        (
            r#""revoked": [{"serial_number": "D6:D2", "reason": "keyCompromise"}], "extensions": {"cRLNumber": "auto"}"#,
            r#"{"revocations":{"added":["D6:D2"],"changed":[],"removed":[]}}"#,
        ),
        (
            r#""revoked": [{"serial_number": "D6:D2", "extensions": {"CRLReason": "superseded"}}], "extensions": {"cRLNumber": 2}"#,
            r#"{"revocations":{"added":[],"changed":["D6:D2"],"removed":[]}}"#,
        ),
        (r#""revoked": [], "encoding": "der", "extensions": {"cRLNumber": 2}"#, r#""removed":["D6:D2"]"#),
        (
            r#""revoked": [{"serial_number": 5, "extensions": {"CRLReason": "bored"}}]"#,
            "'bored' is not a valid ReasonFlags",
        ),
    ] {
        let said = list(more);
        assert!(said.contains(want), "{more}: {said}");
    }
}

#[test]
fn a_mode_alone_is_a_change_of_the_file_below() {
    let mut test_bed = StateTestBed::new();
    let path = test_bed.path("a.key");
    let state = |mode: &str| {
        chunk("x509.private_key_managed", &path, &format!(r#"{{"algo": "ed25519", "mode": "{mode}"}}"#))
    };
    assert!(apply_chunk(&state("0400"), &test_bed.scene()).contains("created"));
    let would = build_state(&state("0600")).preview(&test_bed.scene()).unwrap();
    assert_eq!((would.verdict, would.changes.len()), (Verdict::InSync, 0));
    let done = build_state(&state("0600")).apply(&test_bed.scene()).unwrap();
    let below = serde_json::to_string(&done.details).unwrap();
    assert!(below.contains(r#""result":true,"changes":{"mode":"0600"}"#), "{below}");
    assert!(done.changes.is_empty());
    test_bed.compat = Compat::Strict;
    assert!(apply_chunk(&state("0400"), &test_bed.scene()).contains(r#""mode":"0400""#));
}
