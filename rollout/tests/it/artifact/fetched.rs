//! What is fetched, and what is refused.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::AtomicBool;

use zagent_cache::needs;
use zagent_cache::trust;
use zagent_config::settings::RequiredSignatures;
use zagent_rollout::artifact::{ArtifactError, ReleaseArtifact, ReleaseTrust, select_artifact};
use zagent_rollout::record::{Artifact, Component};

use super::{artifact, bytes, fetch, fetcher, key, release, serve, trust};

#[test]
fn a_binary_is_fetched_completely_or_not_at_all() {
    let good = bytes();
    let mut bad = good.clone();
    bad[1_200_000] ^= 1;
    let length = |n: usize| format!("200 OK\r\nContent-Length: {n}");
    let url = serve(vec![
        ("/good", length(good.len()), good.clone()),
        ("/moved", "302 Found\r\nLocation: /good\r\nContent-Length: 0".into(), Vec::new()),
        ("/away", "302 Found\r\nLocation: http://example.org/\r\nContent-Length: 0".into(), Vec::new()),
        ("/round", "302 Found\r\nLocation: /round\r\nContent-Length: 0".into(), Vec::new()),
        ("/bad", length(bad.len()), bad),
        ("/short", "200 OK".into(), good[..1_000_000].to_vec()),
        ("/cut", length(good.len()), good[..1_000_000].to_vec()),
        ("/long", "200 OK".into(), [good.as_slice(), b"x"].concat()),
        ("/none", "404 Not Found\r\nContent-Length: 0".into(), Vec::new()),
        ("/busy", "503 Service Unavailable\r\nContent-Length: 0".into(), Vec::new()),
    ]);
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("bin/zagent");
    std::fs::create_dir(dir.path().join("bin")).unwrap();
    let mut fetcher = fetcher(&trust(dir.path(), RequiredSignatures::None), None);
    let mut from = |path: &str| {
        let artifact = Artifact { url: Some(format!("{url}{path}")), ..artifact(&good) };
        fetch(&mut fetcher, &release(&artifact), &into)
    };
    for (path, why, passing) in [
        ("/bad", "BLAKE3", false),
        ("/short", "has 1000000 bytes", false),
        ("/cut", "cannot fetch", true),
        ("/long", "more than the 1300000 bytes", false),
        ("/none", "answers with HTTP 404", false),
        ("/busy", "answers with HTTP 503", true),
        ("/away", "the other address is not https", false),
        ("/round", "more than 5 times", false),
    ] {
        let error = from(path).unwrap_err();
        assert_eq!(error.is_transient(), passing, "{path}: {error}");
        assert!(error.to_string().contains(why), "{path}: {error}");
        assert_eq!(std::fs::read_dir(dir.path().join("bin")).unwrap().count(), 0, "{path} left something");
    }
    for path in ["/good", "/moved"] {
        from(path).unwrap();
        assert!(std::fs::read(&into).unwrap() == good, "{path}");
        assert_eq!(std::fs::metadata(&into).unwrap().permissions().mode() & 0o7777, 0o755);
        std::fs::write(&into, "an older one").unwrap();
        from("/bad").unwrap_err();
        assert_eq!(std::fs::read(&into).unwrap(), b"an older one");
    }
    let artifact = artifact(&good);
    assert!(matches!(fetch(&mut fetcher, &release(&artifact), &into), Err(ArtifactError::NoLocation)));
    let artifact = Artifact { reference: Some("refs/x".into()), ..artifact };
    let error = fetch(&mut fetcher, &release(&artifact), &into).unwrap_err();
    assert!(matches!(error, ArtifactError::NoRepository { .. }), "{error:?}");
    let artifact = Artifact { url: Some(format!("{url}/good")), size: u64::MAX, ..artifact };
    assert!(matches!(fetch(&mut fetcher, &release(&artifact), &into), Err(ArtifactError::Malformed { .. })));
}

#[test]
fn a_stop_request_ends_the_fetch() {
    let good = bytes();
    let url = serve(vec![("/good", "200 OK".into(), good.clone())]);
    let dir = tempfile::tempdir().unwrap();
    let artifact = Artifact { url: Some(format!("{url}/good")), ..artifact(&good) };
    let mut fetcher = fetcher(&trust(dir.path(), RequiredSignatures::None), None);
    let stopped = fetcher.fetch(&release(&artifact), &dir.path().join("x"), &AtomicBool::new(true));
    assert!(matches!(stopped, Err(ArtifactError::Stopped)));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn the_artifact_of_this_machine_is_selected() {
    let one = artifact(b"one");
    let other = Artifact { arch: "aarch64".into(), ..one.clone() };
    let both = [one.clone(), other];
    assert_eq!(select_artifact(&both, "linux", "x86_64").unwrap(), &one);
    let error = select_artifact(&both, "linux", "riscv64").unwrap_err().to_string();
    assert!(error.contains("linux-riscv64") && error.contains("linux-x86_64, linux-aarch64"), "{error}");
    let error = select_artifact(&[], "linux", "riscv64").unwrap_err().to_string();
    assert!(error.contains("it has none"), "{error}");
}

#[test]
fn a_signature_is_valid_for_one_version_and_one_machine() {
    needs!("ssh-keygen");
    let dir = tempfile::tempdir().unwrap();
    let (known, strange) = (key(dir.path(), "alice", true), key(dir.path(), "mallory", false));
    let second = key(dir.path(), "bob", true);
    let good = bytes();
    let plain = artifact(&good);
    let text = release(&plain).signed_text().unwrap();
    assert_eq!(
        text,
        format!(
            "zagent-release 1\ncomponent: agent\nversion: 1.2.3\nos: linux\narch: x86_64\nsize: 1300000\nblake3: {}\n",
            plain.blake3
        )
    );
    let sign = |key, namespace| trust::sign(key, namespace, text.as_bytes()).unwrap();
    let with = |signature: String| Artifact { signature: Some(signature), ..plain.clone() };
    let signed = with(sign(&known, trust::RELEASE_NAMESPACE));
    let judge = |require, threshold| {
        let trust = zagent_config::settings::TrustSettings { threshold, ..trust(dir.path(), require) };
        ReleaseTrust::from_settings(&trust).unwrap()
    };
    let now = jiff::Timestamp::now();
    let strict = judge(RequiredSignatures::Commit, 1);
    assert_eq!(strict.check(&release(&signed), now).unwrap()[0].principal, "alice");

    let moved = [
        Artifact { arch: "aarch64".into(), ..signed.clone() },
        Artifact { os: "freebsd".into(), ..signed.clone() },
        Artifact { size: 1, ..signed.clone() },
        Artifact { blake3: "0".repeat(64), ..signed.clone() },
        with(sign(&strange, trust::RELEASE_NAMESPACE)),
        with(sign(&known, trust::MANIFEST_NAMESPACE)),
        with("nonsense".into()),
        plain.clone(),
    ];
    for artifact in &moved {
        let error = strict.check(&release(artifact), now).unwrap_err();
        assert!(matches!(error, ArtifactError::Signature(_)), "{error:?}");
    }
    for other in [
        ReleaseArtifact { version: "1.2.4", ..release(&signed) },
        ReleaseArtifact { component: Component::States, ..release(&signed) },
    ] {
        assert!(strict.check(&other, now).is_err());
    }
    // Unsigned is accepted if no signature is required; a bad signature is not.
    let lax = judge(RequiredSignatures::None, 1);
    assert!(lax.check(&release(&plain), now).unwrap().is_empty());
    assert!(lax.check(&release(&moved[4]), now).is_err());
    // Two people, in either order, and never one of them twice.
    let pair = judge(RequiredSignatures::Manifest, 2);
    let (a, b) = (sign(&known, trust::RELEASE_NAMESPACE), sign(&second, trust::RELEASE_NAMESPACE));
    assert_eq!(pair.check(&release(&with(format!("{b}{a}"))), now).unwrap().len(), 2);
    assert!(pair.check(&release(&with(format!("{a}{a}"))), now).is_err());
    assert!(pair.check(&release(&signed), now).is_err());

    // Without an accepted signature, nothing is requested.
    let nowhere = Artifact { url: Some("http://127.0.0.1:1/".into()), ..plain };
    let into = dir.path().join("x");
    let error =
        fetch(&mut fetcher(&trust(dir.path(), RequiredSignatures::Both), None), &release(&nowhere), &into);
    assert!(matches!(error, Err(ArtifactError::Signature(_))), "{error:?}");
}

#[test]
fn an_artifact_that_cannot_be_signed_is_refused() {
    let plain = artifact(b"x");
    for version in ["", "1\nos: x", "1 2", "ä", &"1".repeat(200)] {
        let odd = ReleaseArtifact { version, ..release(&plain) };
        assert!(matches!(odd.signed_text(), Err(ArtifactError::Malformed { .. })), "{version:?}");
    }
    let odd = Artifact { blake3: "abc".into(), ..plain };
    assert!(release(&odd).signed_text().is_err());
}
