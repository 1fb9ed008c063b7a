//! Release binaries: fetched over HTTP and from a ref, published into a ref.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its release has failed")]

mod fetched;
mod published;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use zagent_cache::source::{Deadline, RefStore};
use zagent_config::settings::{FirstContact, ManifestRule, RequiredSignatures, TrustSettings};
use zagent_rollout::artifact::{ArtifactError, ArtifactFetcher, ReleaseArtifact, ReleaseTrust};
use zagent_rollout::record::{Artifact, Component};

/// More than one part, each different.
fn bytes() -> Vec<u8> {
    (0..1_300_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 21) as u8).collect()
}

fn artifact(bytes: &[u8]) -> Artifact {
    Artifact {
        os: "linux".into(),
        arch: "x86_64".into(),
        size: bytes.len() as u64,
        blake3: blake3::hash(bytes).to_string(),
        url: None,
        reference: None,
        signature: None,
        min_protocol: 0,
    }
}

fn release(artifact: &Artifact) -> ReleaseArtifact<'_> {
    ReleaseArtifact { component: Component::Agent, version: "1.2.3", artifact }
}

fn trust(dir: &Path, require: RequiredSignatures) -> TrustSettings {
    TrustSettings {
        require,
        allowed_signers: dir.join("allowed_signers"),
        revoked_keys: None,
        openpgp_keyring: None,
        threshold: 1,
        manifest: ManifestRule::Optional,
        fast_forward: true,
        repository: None,
        first: FirstContact::default(),
        min_serial: 0,
        unsigned_refs: Vec::new(),
    }
}

/// A key; its line is added to the signers if it should be accepted.
fn key(dir: &Path, name: &str, counts: bool) -> PathBuf {
    let path = dir.join(name);
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path).status();
    assert!(made.unwrap().success());
    if counts {
        let public = std::fs::read_to_string(path.with_extension("pub")).unwrap();
        let signers = dir.join("allowed_signers");
        let before = std::fs::read_to_string(&signers).unwrap_or_default();
        std::fs::write(&signers, format!("{before}{name} {public}")).unwrap();
    }
    path
}

fn fetcher(trust: &TrustSettings, shelf: Option<RefStore>) -> ArtifactFetcher {
    ArtifactFetcher {
        trust: ReleaseTrust::from_settings(trust).unwrap(),
        ref_store: shelf,
        timeout: Duration::from_secs(60),
    }
}

fn fetch(
    fetcher: &mut ArtifactFetcher,
    release: &ReleaseArtifact<'_>,
    into: &Path,
) -> Result<(), ArtifactError> {
    fetcher.fetch(release, into, &AtomicBool::new(false))
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

/// A server that answers a path with a head and a body; returns its address.
fn serve(answers: Vec<(&'static str, String, Vec<u8>)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            while line.trim() != "" {
                line.clear();
                stream.read_line(&mut line).unwrap();
            }
            let (_, head, body) = answers.iter().find(|(known, ..)| *known == path).unwrap();
            let out = stream.get_mut();
            // A client that has read enough disconnects.
            let _ = out.write_all(format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n").as_bytes());
            let _ = out.write_all(body);
        }
    });
    url
}
