//! What is published into a ref, and read from it.

use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::Timestamp;
use zagent_cache::needs;
use zagent_cache::source::RefStore;
use zagent_cache::testing::test_source;
use zagent_config::settings::RequiredSignatures;
use zagent_rollout::artifact::{
    ArtifactError, PublishOutcome, PublishRequest, ReleaseBinary, list_published,
};
use zagent_rollout::record::Component;

use super::{bytes, fetch, fetcher, key, release, soon, trust};

fn shelf(dir: &Path) -> RefStore {
    let at = dir.join("releases.git");
    if !at.exists() {
        let made = Command::new("git").args(["init", "-q", "--bare"]).arg(&at).status();
        assert!(made.unwrap().success());
    }
    let source = test_source(at.to_str().unwrap());
    RefStore::new(&source.remotes[0], &source, dir.join("scratch")).unwrap()
}

fn edition<'a>(file: &'a Path, keys: &'a [PathBuf]) -> PublishRequest<'a> {
    let (os, arch) = (Some("linux"), Some("x86_64"));
    PublishRequest { file, component: Component::Agent, version: "1.2.3", os, arch, keys, min_protocol: 0 }
}

#[test]
fn a_release_carries_the_protocol_that_it_needs_and_signs_it() {
    needs!("git", "ssh-keygen");
    let dir = tempfile::tempdir().unwrap();
    let keys = [key(dir.path(), "alice", true)];
    let file = dir.path().join("zagent");
    std::fs::write(&file, bytes()).unwrap();
    let mut shelf = shelf(dir.path());
    let mut binary =
        ReleaseBinary::read(&PublishRequest { min_protocol: 2, ..edition(&file, &keys) }).unwrap();
    binary.publish(&mut shelf, "tester", Timestamp::UNIX_EPOCH, soon()).unwrap();
    let found =
        zagent_rollout::artifact::published_artifacts(&mut shelf, Component::Agent, "1.2.3", soon()).unwrap();
    assert_eq!(found[0].min_protocol, 2);
    let signed = |min_protocol: u32| {
        let artifact = zagent_rollout::record::Artifact { min_protocol, ..found[0].clone() };
        release(&artifact).signed_text().unwrap()
    };
    assert!(signed(2).ends_with("min_protocol: 2\n") && signed(2) != signed(1));
    assert!(!signed(0).contains("min_protocol"), "older signatures stay valid");
}

#[test]
fn a_release_goes_through_a_ref_in_parts() {
    needs!("git", "ssh-keygen");
    let dir = tempfile::tempdir().unwrap();
    let (alice, bob) = (key(dir.path(), "alice", true), key(dir.path(), "bob", true));
    let file = dir.path().join("zagent");
    std::fs::write(&file, bytes()).unwrap();
    let mut shelf = shelf(dir.path());
    let mut publish = |edition: PublishRequest<'_>| {
        let mut binary = ReleaseBinary::read(&edition)?;
        let outcome = binary.publish(&mut shelf, "tester", Timestamp::UNIX_EPOCH, soon())?;
        Ok::<_, ArtifactError>((outcome, binary.published.artifact))
    };
    let keys = [alice, bob];
    let (outcome, artifact) = publish(edition(&file, &keys[..1])).unwrap();
    assert_eq!(outcome, PublishOutcome::Published);
    assert_eq!(artifact.reference.as_deref(), Some("refs/zagent/release/1.2.3/linux-x86_64"));
    assert_eq!(publish(edition(&file, &keys[..1])).unwrap(), (PublishOutcome::Unchanged, artifact.clone()));
    assert_eq!(publish(edition(&file, &[])).unwrap(), (PublishOutcome::Unchanged, artifact));
    let (outcome, artifact) = publish(edition(&file, &keys[1..])).unwrap();
    assert_eq!(outcome, PublishOutcome::SignaturesAdded);

    let listed = Command::new("git")
        .args(["ls-tree", "--name-only", "refs/zagent/release/1.2.3/linux-x86_64"])
        .current_dir(dir.path().join("releases.git"))
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert_eq!(listed, "part-0000\npart-0001\nrelease.yaml\n");

    let mut two = trust(dir.path(), RequiredSignatures::Both);
    two.threshold = 2;
    let mut fetcher = fetcher(&two, Some(self::shelf(dir.path())));
    let into = dir.path().join("fetched");
    fetch(&mut fetcher, &release(&artifact), &into).unwrap();
    assert!(std::fs::read(&into).unwrap() == bytes());

    std::fs::write(&file, "other bytes").unwrap();
    let error = publish(edition(&file, &keys)).unwrap_err();
    assert!(matches!(error, ArtifactError::AlreadyPublished { .. }), "{error:?}");
    let next = PublishRequest { version: "1.2.4", ..edition(&file, &keys) };
    assert_eq!(publish(next).unwrap().0, PublishOutcome::Published);
    let there = list_published(&mut shelf, soon()).unwrap();
    let names: Vec<_> =
        there.iter().map(|(version, machine, _)| (version.as_str(), machine.as_str())).collect();
    assert_eq!(names, [("1.2.3", "linux-x86_64"), ("1.2.4", "linux-x86_64")]);
}

#[test]
fn a_ref_with_other_content_is_refused() {
    needs!("git");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("zagent");
    std::fs::write(&file, bytes()).unwrap();
    let mut binary = ReleaseBinary::read(&edition(&file, &[])).unwrap();
    binary.publish(&mut shelf(dir.path()), "tester", Timestamp::UNIX_EPOCH, soon()).unwrap();
    let mut fetcher = fetcher(&trust(dir.path(), RequiredSignatures::None), Some(shelf(dir.path())));
    let into = dir.path().join("fetched");
    let mut artifact = binary.published.artifact;
    artifact.reference = Some("refs/zagent/release/9/linux-x86_64".into());
    let error = fetch(&mut fetcher, &release(&artifact), &into).unwrap_err();
    assert!(matches!(error, ArtifactError::NoRelease { .. }), "{error:?}");
    artifact.reference = Some("refs/zagent/release/1.2.3/linux-x86_64".into());
    artifact.size -= 1;
    let error = fetch(&mut fetcher, &release(&artifact), &into).unwrap_err();
    assert!(matches!(error, ArtifactError::TooLong { .. }), "{error:?}");
    assert!(!into.exists());
}

#[test]
fn the_machine_is_detected_from_the_binary() {
    let dir = tempfile::tempdir().unwrap();
    let (mut all, own) =
        (std::fs::File::open(std::env::current_exe().unwrap()).unwrap(), dir.path().join("own"));
    let mut head = vec![0; 4096];
    std::io::Read::read_exact(&mut all, &mut head).unwrap();
    std::fs::write(&own, head).unwrap();
    let silent = |file, os, arch| {
        let binary = ReleaseBinary::read(&PublishRequest { os, arch, ..edition(file, &[]) })?;
        let artifact = binary.published.artifact;
        Ok::<_, ArtifactError>((artifact.os, artifact.arch))
    };
    let (os, arch) = zagent_rollout::artifact::host_platform();
    assert_eq!(silent(&own, None, None).unwrap(), (os.to_owned(), arch.to_owned()));
    let error = silent(&own, None, Some("pdp11")).unwrap_err().to_string();
    assert!(error.contains(arch) && error.contains("pdp11"), "{error}");
    let script = dir.path().join("script");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    assert!(silent(&script, None, Some("x86_64")).unwrap_err().to_string().contains("--os"));
    assert_eq!(silent(&script, Some("linux"), Some("any")).unwrap().1, "any");
    assert!(
        silent(Path::new("/nonexistent/x"), None, None).unwrap_err().to_string().contains("/nonexistent/x")
    );
}
