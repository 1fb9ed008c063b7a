//! Signatures of manifests, made by zagent and by `ssh-keygen`.

use zagent_cache::trust::{self, AllowedSigners, SignatureError};

use super::site::{TrustSite, run_with_input, time};

const NOW: &str = "2026-06-02T12:00:00Z";
const TEXT: &[u8] = b"schema: 1\nserial: 7\nfiles: {}\n";

fn people(
    signers: &AllowedSigners,
    signatures: &[(String, Vec<u8>)],
    need: usize,
) -> Result<Vec<String>, SignatureError> {
    let found = signers.verify_manifest(TEXT, signatures, need, time(NOW))?;
    Ok(found.into_iter().map(|signer| signer.principal).collect())
}

#[test]
fn zagent_and_ssh_keygen_accept_each_others_signatures() {
    zagent_cache::needs!("ssh-keygen");
    let site = TrustSite::new();
    site.write("manifest", TEXT);
    for (name, kind) in [
        ("ed", &["ed25519"][..]),
        ("p256", &["ecdsa", "-b", "256"]),
        ("p384", &["ecdsa", "-b", "384"]),
        ("rsa", &["rsa", "-b", "2048"]),
    ] {
        let key = site.key(name, kind);
        let signers = site.allow(&format!("{name} {}\n", site.public(name))).unwrap();
        let ours = trust::sign(&key, trust::MANIFEST_NAMESPACE, TEXT).unwrap();
        site.write("sig", &ours);
        let mut command = site.command("ssh-keygen");
        command.args(["-q", "-Y", "verify", "-f", "allowed_signers", "-I", name, "-n", "zagent-manifest"]);
        let verdict = run_with_input(command.args(["-s", "sig"]), TEXT);
        assert!(verdict.status.success(), "{name}: {}", String::from_utf8_lossy(&verdict.stdout));
        let theirs = site.signature(name, trust::MANIFEST_NAMESPACE, TEXT);
        for signature in [ours.into_bytes(), theirs] {
            assert_eq!(people(&signers, &[("sig".into(), signature)], 1).unwrap(), [name]);
        }
    }
}

#[test]
fn keys_that_are_not_in_the_file_are_left_to_ssh_keygen() {
    zagent_cache::needs!("ssh-keygen");
    let site = TrustSite::new();
    site.key("alice", &["ed25519"]);
    let signers = site.allow(&format!("alice {}\n", site.public("alice"))).unwrap();
    // Beside its private key, a public key works too.
    let signature = trust::sign(&site.path("alice.pub"), trust::MANIFEST_NAMESPACE, TEXT).unwrap();
    assert_eq!(people(&signers, &[("s".into(), signature.into_bytes())], 1).unwrap(), ["alice"]);
    for (what, path) in [("nothing there", site.path("none")), ("no key", site.write("words", "words"))] {
        assert!(trust::sign(&path, trust::MANIFEST_NAMESPACE, TEXT).is_err(), "{what}");
    }
}

#[test]
fn people_are_counted_once() {
    zagent_cache::needs!("ssh-keygen");
    let site = TrustSite::new();
    let sign = |name: &str| {
        site.key(name, &["ed25519"]);
        (format!("manifest.yaml.sig.{name}"), site.signature(name, trust::MANIFEST_NAMESPACE, TEXT))
    };
    let [a, a2, b, c, eve] = ["a", "a2", "b", "c", "eve"].map(sign);
    let line = |names: &str, key: &str| format!("{names} {}\n", site.public(key));
    let signers = site
        .allow(
            &[line("alice", "a"), line("alice,alice@example.org", "a2"), line("bob", "b"), line("*@ci", "c")]
                .concat(),
        )
        .unwrap();
    let all = [a.clone(), a2.clone(), b.clone(), c.clone(), eve.clone()];
    for (signatures, need, want) in [
        (vec![a.clone()], 1, Some(1)),
        (vec![a.clone(), b.clone()], 2, Some(2)),
        // The same file twice, and two keys of one person.
        (vec![a.clone(), a.clone()], 2, None),
        (vec![a.clone(), a2.clone()], 2, None),
        (vec![a.clone(), a2.clone(), b.clone()], 2, Some(2)),
        (vec![a.clone(), eve.clone()], 2, None),
        (all.to_vec(), 3, Some(3)),
        (all.to_vec(), 4, None),
        // No threshold is still one signature.
        (vec![eve.clone()], 0, None),
    ] {
        let found = people(&signers, &signatures, need);
        let names: Vec<&String> = signatures.iter().map(|(name, _)| name).collect();
        assert_eq!(found.as_ref().ok().map(Vec::len), want, "{names:?} {need}: {found:?}");
    }
    let error = people(&signers, &[a.clone(), eve.clone()], 2).unwrap_err();
    let shown = error.to_string();
    assert!(shown.contains("1 of 2") && shown.contains("by alice"), "{shown}");
    assert!(shown.contains("manifest.yaml.sig.eve: the key SHA256:"), "{shown}");
    assert_eq!(people(&signers, &[eve], 1).unwrap_err().code(), "unknown-key");
    assert_eq!(people(&signers, &[], 1).unwrap_err().code(), "unsigned");
    // A pattern that matches someone else's name means that person.
    let signers = site.allow(&[line("alice@ci", "a"), line("*@ci", "c")].concat()).unwrap();
    assert!(people(&signers, &[a.clone(), c.clone()], 2).is_err());
    let signers = site.allow(&[line("alice@ci", "a"), line("*@ci,!alice@ci", "c")].concat()).unwrap();
    assert_eq!(people(&signers, &[a, c], 2).unwrap().len(), 2);
}

#[test]
fn a_commit_signature_is_not_a_manifest_signature() {
    zagent_cache::needs!("ssh-keygen");
    let site = TrustSite::new();
    site.key("a", &["ed25519"]);
    let signers = site.allow(&format!("a {}\n", site.public("a"))).unwrap();
    let wrong = site.signature("a", "git", TEXT);
    assert_eq!(people(&signers, &[("s".into(), wrong)], 1).unwrap_err().code(), "wrong-namespace");
    let good = site.signature("a", trust::MANIFEST_NAMESPACE, TEXT);
    let other =
        signers.verify_manifest(b"schema: 1\nserial: 8\nfiles: {}\n", &[("s".into(), good)], 1, time(NOW));
    assert_eq!(other.unwrap_err().code(), "bad-signature");
}

/// A signature by a security key, made as its firmware makes it.
fn touched(seed: [u8; 32], flags: u8, message: &[u8]) -> (String, String) {
    use ssh_key::private::Ed25519Keypair;
    use ssh_key::public::{KeyData, SkEd25519};
    use ssh_key::sha2::{Digest, Sha256};
    use ssh_key::{Algorithm, HashAlg, LineEnding, PrivateKey, PublicKey, Signature, SigningKey, SshSig};

    fn raw(key: &impl SigningKey, message: &[u8]) -> Vec<u8> {
        key.try_sign(message).unwrap().as_bytes().to_vec()
    }
    let pair = Ed25519Keypair::from_seed(&seed);
    let key = KeyData::SkEd25519(SkEd25519::new(pair.public, "ssh:"));
    let inner = SshSig::signed_data(trust::MANIFEST_NAMESPACE, HashAlg::Sha512, message).unwrap();
    let trailer = [flags, 0, 0, 0, 9];
    let whole = [&*Sha256::digest("ssh:"), &trailer, &*Sha256::digest(inner)].concat();
    let bytes = [raw(&PrivateKey::from(pair), &whole), trailer.to_vec()].concat();
    let signature = Signature::new(Algorithm::SkEd25519, bytes).unwrap();
    let signature = SshSig::new(key.clone(), trust::MANIFEST_NAMESPACE, HashAlg::Sha512, signature).unwrap();
    (PublicKey::from(key).to_openssh().unwrap(), signature.to_pem(LineEnding::LF).unwrap())
}

#[test]
fn a_security_key_must_have_been_touched() {
    zagent_cache::needs!("ssh-keygen");
    let site = TrustSite::new();
    for (flags, want) in [(1, "good"), (5, "good"), (0, "weak"), (4, "weak")] {
        let (public, signature) = touched([7; 32], flags, TEXT);
        let signers = site.allow(&format!("alice {public}\n")).unwrap();
        let found = people(&signers, &[("s".into(), signature.clone().into_bytes())], 1);
        assert_eq!(found.map_or_else(|e| e.code(), |_| "good"), want, "{flags}");
        // For ssh-keygen, which does not require a touch, all of them are valid.
        site.write("sig", &signature);
        let mut command = site.command("ssh-keygen");
        command.args([
            "-Y",
            "verify",
            "-f",
            "allowed_signers",
            "-I",
            "alice",
            "-n",
            trust::MANIFEST_NAMESPACE,
            "-s",
            "sig",
        ]);
        assert!(run_with_input(&mut command, TEXT).status.success());
        let forged = signature.replace("AAAA", "AAAB");
        assert!(people(&signers, &[("s".into(), forged.into_bytes())], 1).is_err());
    }
}
