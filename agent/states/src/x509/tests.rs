//! A chain of keys, requests, certificates and a list of what is revoked.

use crate::testing::{StateTestBed, apply_chunk, chunk};

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
            .contains("it expires soon")
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
    assert!(run("x509.crl_managed", "ca.crl", &list.replace("D6:D2", "D6:D3")).contains("recreated"));
    assert!(
        run(
            "x509.crl_managed",
            "ca.crl",
            &list.replace("D6:D2", "D6:D3").replace("{\"sign", "{\"days_remaining\": 200, \"sign")
        )
        .contains("it expires soon")
    );
    assert!(
        run("x509.crl_managed", "ca.crl", r#"{"signing_private_key": "$D/ca.key", "revoked": []}"#)
            .contains("`signing_cert` is missing")
    );
}
