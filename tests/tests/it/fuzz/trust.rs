//! What anyone who can push or write a key file may send: signatures, lists of signers, manifests.

use std::fs;
use std::sync::LazyLock;

use jiff::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use zagent_cache::trust::{self, AllowedSigners};
use zagent_config::manifest::Manifest;
use zagent_tests::mutate::{break_text, damages, soup};

use super::fuzz;

const MESSAGE: &[u8] = b"what was signed\n";
const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";

/// A key that is accepted, and its signature of [`MESSAGE`].
struct Signed {
    _dir: tempfile::TempDir,
    signers: AllowedSigners,
    line: String,
    signature: String,
}

static SIGNED: LazyLock<Signed> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a directory");
    let (key, list) = (dir.path().join("key"), dir.path().join("signers"));
    trust::create_key(&key).expect("a key");
    let line = format!("alice {}\n", trust::public_key(&key).expect("its public half"));
    fs::write(&list, &line).expect("a list");
    let signers = AllowedSigners::from_file(&list).expect("a list of one");
    let signature = trust::sign(&key, trust::RELEASE_NAMESPACE, MESSAGE).expect("a signature");
    Signed { _dir: dir, signers, line, signature }
});

/// The armour with some characters of its content replaced: other bytes in the right format.
fn altered(text: &str, changes: &[(u16, u8)]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let (start, end) = (text.find('\n').unwrap_or(0) + 1, text.rfind("\n-----END").unwrap_or(text.len()));
    for (at, byte) in changes {
        let at = start + usize::from(*at) % (end - start).max(1);
        if bytes.get(at).is_some_and(|old| *old != b'\n') {
            bytes[at] = BASE64[usize::from(*byte) % BASE64.len()];
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}

#[test]
fn ssh_signatures() {
    let changed =
        vec((any::<u16>(), any::<u8>()), 1..8).prop_map(|changes| altered(&SIGNED.signature, &changes));
    let broken = damages().prop_map(|damages| break_text(&SIGNED.signature, &damages));
    let framed = "[A-Za-z0-9+/=\n]{0,400}"
        .prop_map(|body| format!("-----BEGIN SSH SIGNATURE-----\n{body}\n-----END SSH SIGNATURE-----\n"));
    fuzz(prop_oneof![changed, broken, framed, ".{0,200}"], |text: String| {
        let now = Timestamp::UNIX_EPOCH;
        let judge = |message: &[u8]| SIGNED.signers.verify_release(message, &text, 1, now);
        assert!(judge(b"something else\n").is_err(), "accepted for another message");
        if judge(MESSAGE).is_ok() {
            // Only blanks and repetitions around the one signature can be left of the damage.
            let plain = |text: &str| text.split_whitespace().collect::<String>();
            assert!(plain(&text).contains(&plain(&SIGNED.signature)), "a changed signature was accepted");
        }
        let header = text.trim_end().replace('\n', "\n ");
        let commit = format!("tree aa\ncommitter c <c@x> 7 +0000\ngpgsig {header}\n\nbody\n");
        assert!(SIGNED.signers.verify_commit(commit.as_bytes(), now).is_err());
        assert!(SIGNED.signers.verify_record(commit.as_bytes(), now).is_err());
    });
}

#[rustfmt::skip]
const SIGNER_WORDS: &[&str] = &[
    "alice ", "a,b ", "*@x ", "!bob ", "\"a b\" ", "\"", "namespaces=", "namespaces=\"git\" ", "namespaces=\"git,zagent-*\",", "NAMESPACES=\"",
    "valid-after=\"20200101\"", "valid-before=\"20300101Z\" ", "valid-before=\"99999999999999\" ", "cert-authority ", ",", "=", " ", "\t", "\n", "\r\n",
    "# ", "ssh-ed25519 ", "ssh-rsa ", "ecdsa-sha2-nistp256 ", "sk-ssh-ed25519@openssh.com ", "ssh-ed25519-cert-v01@openssh.com ", "AAAA", "AAAAC3Nz",
    "AAAAC3NzaC1lZDI1NTE5AAAAIIoRo0kCw/9bPZRVGWqyEnQzxGgoU3CvV5yl8O9QwtxY", "====", "\u{0}", "\u{feff}", "é", "\\\"", "\\",
];

#[test]
fn allowed_signers() {
    let broken =
        (damages(), 1usize..4).prop_map(|(damages, times)| break_text(&SIGNED.line.repeat(times), &damages));
    fuzz(prop_oneof![soup(SIGNER_WORDS), broken, ".{0,200}"], |text: String| {
        let dir = tempfile::tempdir().expect("a directory");
        let list = dir.path().join("signers");
        fs::write(&list, &text).expect("a list");
        match AllowedSigners::from_file(&list) {
            // A key that no line has is never accepted.
            Ok(signers) if !text.contains(SIGNED.line.split(' ').next_back().unwrap_or_default().trim()) => {
                let judged = signers.verify_release(MESSAGE, &SIGNED.signature, 1, Timestamp::UNIX_EPOCH);
                assert!(judged.is_err(), "accepted");
            }
            Ok(_) => {}
            Err(error) => assert!(!error.to_string().is_empty() && !error.hint().is_empty()),
        }
    });
}

const MANIFEST: &str = "schema: 1\nserial: 7\nfor: {repository: git.example.org/ops/states, branch: \"main\"}\n\
    expires: 2030-02-01T00:00:00Z\nmin_agent: \"1.4.0\"\nschedule: levels\nroots: {states: \"srv/salt\"}\nfiles:\n  \
    srv/salt/top.sls: {blake3: af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262, mode: \"0644\"}\n  \
    \"a b\": {blake3: af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262, mode: \"0755\"}\n";

#[rustfmt::skip]
const MANIFEST_WORDS: &[&str] = &[
    "schema: 1\n", "serial: ", "for: ", "{repository: a, branch: b}", "expires: ", "2030-01-31", "2030-01-31T12:00:00+99:99", "files:\n  ", "files: {}\n",
    "roots: {states: ", "../x", "/etc/passwd", ".git/config", "a/./b", "manifest.yaml", "manifest.yaml.sig", "{blake3: ", "mode: \"0644\"}", "min_agent: ",
    "99999999999999999999", "-1", "1.2.3-rc.1", "&a ", "*a", "<<: ", "!!binary ", ": ", "\n", "\n  ", "\n    ", "- ", "'", "\"", "{", "}", "[", "]", ",", "~",
    "\t", "\u{0}", "\u{2028}", "é", "null", "schedule: eager\n", "compat: salt\n",
];

#[test]
fn manifests() {
    let broken = damages().prop_map(|damages| break_text(MANIFEST, &damages));
    let words = prop_oneof![
        soup(MANIFEST_WORDS),
        select(MANIFEST_WORDS).prop_map(|word| format!("{MANIFEST}{word}"))
    ];
    fuzz(prop_oneof![broken, words, ".{0,200}"], |text: String| {
        if let Ok(manifest) = Manifest::read("manifest.yaml", text.as_bytes()) {
            // What is accepted can be written, and means the same.
            let again = Manifest::read("manifest.yaml", manifest.to_yaml().as_bytes());
            assert_eq!(again.ok(), Some(manifest));
        }
    });
}
