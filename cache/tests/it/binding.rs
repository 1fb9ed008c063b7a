//! What a revision is for, and what the first one may be: the repository and the branch in the manifest, pinned first
//! contact, and commits that nobody signed around a manifest that is signed.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its cache has failed")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::site::{CacheSite, NOW, file};
use jiff::Timestamp;
use zagent_cache::testing::ScratchRepo;
use zagent_cache::{
    Ancestry, CommitTrust, ManifestAudience, ObjectStore, SignedCommit, VerifyContext, trust,
};
use zagent_config::manifest::{Manifest, ManifestEntry, ManifestMode, ManifestTarget};
use zagent_config::settings::{FirstContact, ManifestRule, RequiredSignatures};

/// The refusal code of a commit; `taken` when it is accepted.
fn judge(site: &CacheSite, scratch: &ScratchRepo, commit: &str, proof: &VerifyContext<'_>) -> &'static str {
    let staged = site.stage(scratch.path(), commit).unwrap();
    match staged.verify(proof) {
        Ok(verified) => {
            let _ = verified.publish().unwrap();
            "taken"
        }
        Err(refusal) => refusal.code(),
    }
}

/// The commit whose history must be traced before anything else of this one is fetched.
fn unproven(site: &CacheSite, scratch: &ScratchRepo, commit: &str) -> Option<String> {
    let store = ObjectStore::open(scratch.path().join(".git")).unwrap();
    let trust = CommitTrust { trust: &site.trust, now: Timestamp::from_second(NOW).unwrap() };
    let signed = SignedCommit::from_store(&store, &commit.parse().unwrap(), &trust).unwrap();
    signed.unproven_ancestor(&site.cache, "main", &site.trust).unwrap()
}

fn manifest(serial: u64, text: &str, place: Option<(&str, &str)>) -> String {
    let blake3 = blake3::hash(text.as_bytes()).to_hex().to_string();
    let entry = ManifestEntry { blake3, mode: ManifestMode::Plain };
    let target = place
        .map(|(repository, branch)| ManifestTarget { repository: repository.into(), branch: branch.into() });
    let files = BTreeMap::from([("states/top.sls".to_owned(), entry)]);
    Manifest { serial, target, files: Some(files), ..Manifest::default() }.to_yaml()
}

/// A site that accepts the manifests of one key, and that key.
fn signed_site(dir: &Path) -> (CacheSite, PathBuf) {
    let key = dir.join("key");
    let made = std::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&key)
        .status();
    assert!(made.unwrap().success());
    let public = std::fs::read_to_string(dir.join("key.pub")).unwrap();
    std::fs::write(dir.join("allowed_signers"), format!("alice {public}")).unwrap();
    let mut site = CacheSite::new();
    site.trust.require = RequiredSignatures::Manifest;
    site.trust.manifest = ManifestRule::Required;
    site.trust.allowed_signers = dir.join("allowed_signers");
    (site, key)
}

fn commit_signed(scratch: &mut ScratchRepo, key: &Path, yaml: &str, text: &str, seconds: u32) -> String {
    let signature = trust::sign(key, trust::MANIFEST_NAMESPACE, yaml.as_bytes()).unwrap();
    let files =
        [file("manifest.yaml", yaml), file("manifest.yaml.sig", &signature), file("states/top.sls", text)];
    scratch.commit_at(&files, seconds)
}

#[test]
fn a_manifest_is_for_one_repository_and_one_branch() {
    let repositories = ["git.example.org/states".to_owned(), "mirror.example.org/states".to_owned()];
    let audience = ManifestAudience { repositories: &repositories, branch: Some("main") };
    for (place, branch, want) in [
        (Some(("git.example.org/states", "main")), Some("main"), "taken"),
        (Some(("https://git.example.org/states.git", "main")), Some("main"), "taken"),
        (Some(("mirror.example.org/states", "main")), Some("main"), "taken"),
        (Some(("git.example.org/other", "main")), Some("main"), "other-repository"),
        (Some(("git.example.org/states", "wip")), Some("main"), "other-branch"),
        (Some(("git.example.org/states", "main")), Some("testing/web-01"), "other-branch"),
        // A pinned commit and a directory come from no branch.
        (Some(("git.example.org/states", "wip")), None, "taken"),
        (Some(("git.example.org/other", "wip")), None, "other-repository"),
        (None, Some("main"), "taken"),
    ] {
        let (site, mut scratch) = (CacheSite::new(), ScratchRepo::new());
        let yaml = manifest(1, "x", place);
        let commit = scratch.commit(&[file("manifest.yaml", &yaml), file("states/top.sls", "x")]);
        let proof =
            VerifyContext { audience: ManifestAudience { branch, ..audience }, ..site.verify_context() };
        assert_eq!(judge(&site, &scratch, &commit, &proof), want, "{place:?} {branch:?}");
    }
    // Where a manifest must be signed, it must also say what it is for.
    zagent_cache::needs!("ssh-keygen");
    let dir = tempfile::tempdir().unwrap();
    let (site, key) = signed_site(dir.path());
    let mut scratch = ScratchRepo::new();
    let commit = commit_signed(&mut scratch, &key, &manifest(1, "x", None), "x", 1);
    assert_eq!(judge(&site, &scratch, &commit, &site.verify_context()), "unbound");
}

#[test]
fn the_first_revision_can_be_pinned() {
    let mut scratch = ScratchRepo::new();
    let mut commit = |serial: u64| {
        let yaml = manifest(serial, "x", None);
        scratch.commit(&[file("manifest.yaml", &yaml), file("states/top.sls", "x")])
    };
    let (one, two, three) = (commit(1), commit(2), commit(3));
    let fresh = |commit: Option<&str>, serial: Option<u64>| {
        let mut site = CacheSite::new();
        site.trust.first = FirstContact { commit: commit.map(|text| text.parse().unwrap()), serial };
        site
    };
    let site = fresh(Some(&two), None);
    let with = |ancestry| VerifyContext { ancestry, ..site.verify_context() };
    let doubt = |commit: &str| unproven(&site, &scratch, commit);
    assert_eq!((doubt(&one), doubt(&two), doubt(&three)), (Some(two.clone()), None, None));
    assert_eq!(judge(&site, &scratch, &one, &with(Ancestry::Unknown)), "first-commit");
    assert_eq!(judge(&site, &scratch, &one, &with(Ancestry::NotDescendant)), "first-commit");
    assert_eq!(judge(&site, &scratch, &three, &with(Ancestry::Unknown)), "taken");
    assert!(!site.cache.is_first_contact().unwrap());
    assert_eq!(
        judge(&site, &scratch, &two, &with(Ancestry::Unknown)),
        "replayed",
        "from now on the floor counts"
    );

    let site = fresh(None, Some(2));
    let plain = scratch.commit(&[file("states/top.sls", "x")]);
    assert_eq!(judge(&site, &scratch, &one, &site.verify_context()), "first-serial");
    assert_eq!(judge(&site, &scratch, &plain, &site.verify_context()), "first-serial");
    assert_eq!(judge(&site, &scratch, &two, &site.verify_context()), "taken");
    // A wiped root is a first contact again.
    std::fs::remove_dir_all(site.paths.root()).unwrap();
    let mut again = CacheSite::at(site.paths.root());
    assert!(again.cache.is_first_contact().unwrap());
    again.trust = site.trust.clone();
    assert_eq!(judge(&again, &scratch, &one, &again.verify_context()), "first-serial");
}

#[test]
fn an_unannounced_first_revision_is_trusted_on_first_use_and_says_so() {
    zagent_cache::needs!("ssh-keygen");
    let dir = tempfile::tempdir().unwrap();
    let (mut site, key) = signed_site(dir.path());
    let mut scratch = ScratchRepo::new();
    let place = Some(("git.example.org/states", "main"));
    let commits = [1, 2]
        .map(|serial| commit_signed(&mut scratch, &key, &manifest(serial, "x", place), "x", serial as u32));
    let verify = |site: &CacheSite, commit: &str| {
        site.stage(scratch.path(), commit).unwrap().verify(&site.verify_context()).unwrap()
    };
    let verified = verify(&site, &commits[0]);
    assert!(verified.is_first_use());
    drop(verified);
    site.trust.first.serial = Some(1);
    assert!(!verify(&site, &commits[0]).is_first_use(), "it is pinned");
    site.trust.first.serial = None;
    let _ = verify(&site, &commits[0]).publish().unwrap();
    assert!(!verify(&site, &commits[1]).is_first_use(), "it is not the first");
}

#[test]
fn a_serial_below_the_minimum_is_never_accepted() {
    let (mut site, mut scratch) = (CacheSite::new(), ScratchRepo::new());
    site.trust.min_serial = 5;
    let mut commit = |serial: Option<u64>| {
        let yaml = serial.map(|serial| manifest(serial, "x", None));
        let mut files = vec![file("states/top.sls", "x")];
        files.extend(yaml.as_deref().map(|yaml| file("manifest.yaml", yaml)));
        scratch.commit(&files)
    };
    let commits =
        [(commit(Some(4)), "below-minimum"), (commit(None), "below-minimum"), (commit(Some(5)), "taken")];
    for (commit, want) in commits {
        let proof = VerifyContext { allow_rewind: true, ..site.verify_context() };
        assert_eq!(judge(&site, &scratch, &commit, &proof), want);
    }
}

/// Anyone who can push can put a signed tree into a commit of their own: dated in the future, or with another history.
/// Such a commit is the same revision, and what comes next is judged as if it had never existed.
#[test]
fn an_unsigned_commit_around_a_signed_manifest_locks_nobody_out() {
    zagent_cache::needs!("ssh-keygen");
    let dir = tempfile::tempdir().unwrap();
    let (site, key) = signed_site(dir.path());
    let place = Some(("git.example.org/states", "main"));
    let mut scratch = ScratchRepo::new();
    let now = u32::try_from(NOW).unwrap();
    let first = manifest(1, "one", place);
    let good = commit_signed(&mut scratch, &key, &first, "one", now);
    let proof = |ancestry| VerifyContext { ancestry, ..site.verify_context() };
    assert_eq!(judge(&site, &scratch, &good, &proof(Ancestry::Unknown)), "taken");
    let before = site.cache.newest_accepted("main").unwrap();
    scratch.start_orphan();
    let wrapped = commit_signed(&mut scratch, &key, &first, "one", now + 1_000_000);
    assert_ne!(wrapped, good);
    assert_eq!(judge(&site, &scratch, &wrapped, &proof(Ancestry::NotDescendant)), "taken");
    assert_eq!(site.cache.newest_accepted("main").unwrap(), before, "it is the same revision");
    assert_eq!(
        judge(&site, &scratch, &good, &proof(Ancestry::NotDescendant)),
        "taken",
        "and so is the first again"
    );
    // The next manifest counts, whatever its commit descends from, and also when someone wraps it first.
    let second = manifest(2, "two", place);
    let wrapped = commit_signed(&mut scratch, &key, &second, "two", now + 2_000_000);
    assert_eq!(judge(&site, &scratch, &wrapped, &proof(Ancestry::NotDescendant)), "taken");
    scratch.checkout(&good);
    let next = commit_signed(&mut scratch, &key, &second, "two", now + 5);
    assert_eq!(judge(&site, &scratch, &next, &proof(Ancestry::NotDescendant)), "taken");
    let third = manifest(3, "three", place);
    let next = commit_signed(&mut scratch, &key, &third, "three", now + 6);
    assert_eq!(judge(&site, &scratch, &next, &proof(Ancestry::NotDescendant)), "taken");
    assert_eq!(site.current().record().serial, Some(3));
    assert_eq!(judge(&site, &scratch, &good, &proof(Ancestry::Unknown)), "replayed");
    // No history is fetched for it.
    assert_eq!(unproven(&site, &scratch, &wrapped), None);
}
