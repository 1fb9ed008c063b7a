//! Old revisions, offered again: by serial, by commit and by history; also after the state of the node was deleted. And
//! manifests and signatures that do not match the tree.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its cache has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::site::{CacheSite, NOW, file};
use jiff::Timestamp;
use zagent_cache::testing::ScratchRepo;
use zagent_cache::{
    Ancestry, CacheError, CommitTrust, Generation, ObjectStore, Refusal, SignedCommit, VerifyContext, trust,
};
use zagent_config::manifest::{Manifest, ManifestEntry, ManifestMode, ManifestTarget};
use zagent_config::settings::{ManifestRule, RequiredSignatures};

fn publish_revision(
    site: &CacheSite,
    scratch: &ScratchRepo,
    commit: &str,
    proof: &VerifyContext<'_>,
) -> Result<Generation, Refusal> {
    let staged = site.stage(scratch.path(), commit)?;
    Ok(staged.verify(proof)?.publish()?)
}

/// The refusal code of a commit; `taken` when it is accepted.
fn refusal_code(
    site: &CacheSite,
    scratch: &ScratchRepo,
    commit: &str,
    proof: &VerifyContext<'_>,
) -> &'static str {
    let before = site.cache.current().unwrap().map(|g| g.name().to_owned());
    match publish_revision(site, scratch, commit, proof) {
        Ok(generation) => {
            assert_eq!(generation.record().revision, commit);
            "taken"
        }
        Err(refusal) => {
            assert_eq!(site.cache.current().unwrap().map(|g| g.name().to_owned()), before, "{refusal}");
            assert_eq!(site.staged_count(), 0, "{refusal}");
            refusal.code()
        }
    }
}

fn entry(text: &str, mode: u32) -> ManifestEntry {
    ManifestEntry {
        blake3: blake3::hash(text.as_bytes()).to_hex().to_string(),
        mode: ManifestMode::from_bits(mode),
    }
}

fn manifest(serial: u64, text: &str) -> Manifest {
    let files = BTreeMap::from([("states/top.sls".to_owned(), entry(text, 0o644))]);
    let target = ManifestTarget { repository: "git.example.org/states".into(), branch: "main".into() };
    Manifest { serial, target: Some(target), files: Some(files), ..Manifest::default() }
}

#[test]
fn a_superseded_commit_is_refused() {
    let (site, mut scratch) = (CacheSite::new(), ScratchRepo::new());
    let commits: Vec<String> =
        (0..4_u32).map(|n| scratch.commit_at(&[file("top.sls", &n.to_string())], 100 + n)).collect();
    let proof = site.verify_context();
    for commit in &commits[..3] {
        assert_eq!(refusal_code(&site, &scratch, commit, &proof), "taken");
    }
    for old in &commits[..2] {
        assert_eq!(refusal_code(&site, &scratch, old, &proof), "rewound");
        let known = VerifyContext { ancestry: Ancestry::NotDescendant, ..proof };
        assert_eq!(refusal_code(&site, &scratch, old, &known), "rewound");
    }
    assert_eq!(refusal_code(&site, &scratch, &commits[2], &proof), "taken", "the newest, once more");
    // The cache is deleted, then one replay protection record, then the other: a downgrade is still refused.
    fs::remove_dir_all(site.paths.root().join("cache")).unwrap();
    let again = CacheSite::at(site.paths.root());
    assert!(again.cache.current().unwrap().is_none());
    assert_eq!(refusal_code(&site, &scratch, &commits[0], &proof), "rewound");
    fs::remove_dir_all(site.paths.root().join("state")).unwrap();
    assert_eq!(refusal_code(&site, &scratch, &commits[1], &proof), "rewound");
    assert!(site.paths.floor().is_file(), "the missing record is rewritten");
    fs::write(site.paths.floor_copy(), "damaged").unwrap();
    assert_eq!(refusal_code(&site, &scratch, &commits[1], &proof), "rewound");
    // On request, it is accepted; from there on, only forward again.
    let asked = VerifyContext { allow_rewind: true, ..proof };
    assert_eq!(refusal_code(&site, &scratch, &commits[0], &asked), "taken");
    for commit in &commits[1..] {
        assert_eq!(refusal_code(&site, &scratch, commit, &proof), "taken");
    }
}

#[test]
fn an_older_replay_protection_record_is_ignored() {
    let (site, mut scratch) = (CacheSite::new(), ScratchRepo::new());
    let commits: Vec<String> =
        (0..3_u32).map(|n| scratch.commit_at(&[file("top.sls", &n.to_string())], n)).collect();
    let proof = site.verify_context();
    assert_eq!(refusal_code(&site, &scratch, &commits[0], &proof), "taken");
    let old = fs::read(site.paths.floor()).unwrap();
    assert_eq!(refusal_code(&site, &scratch, &commits[1], &proof), "taken");
    for place in [site.paths.floor(), site.paths.floor_copy()] {
        fs::write(&place, &old).unwrap();
        assert_eq!(refusal_code(&site, &scratch, &commits[0], &proof), "rewound");
        assert_eq!(fs::read(site.paths.floor()).unwrap(), fs::read(site.paths.floor_copy()).unwrap());
    }
    for place in [site.paths.floor(), site.paths.floor_copy()] {
        fs::write(&place, "damaged").unwrap();
    }
    let error =
        publish_revision(&site, &scratch, &commits[2], &proof).map(|g| g.name().to_owned()).unwrap_err();
    assert!(matches!(&error, Refusal::Local(e) if matches!(**e, CacheError::FloorDamaged { .. })), "{error}");
    fs::remove_file(site.paths.floor()).unwrap();
    fs::remove_file(site.paths.floor_copy()).unwrap();
    assert_eq!(
        refusal_code(&site, &scratch, &commits[0], &proof),
        "rewound",
        "the generations still record it"
    );
    assert_eq!(refusal_code(&site, &scratch, &commits[2], &proof), "taken");
}

#[test]
fn rewritten_history_is_refused() {
    let (site, mut scratch) = (CacheSite::new(), ScratchRepo::new());
    let mut commit = |on: Option<&str>, text: &str, at| {
        match on {
            Some(on) => scratch.checkout(on),
            None => scratch.start_orphan(),
        }
        scratch.commit_at(&[file("top.sls", text)], at)
    };
    let first = commit(None, "1", 100);
    let second = commit(Some(&first), "2", 200);
    let late = commit(Some(&second), "3, by a slow clock", 150);
    let skipped = commit(Some(&late), "4", 300);
    let rewritten = commit(Some(&first), "2, in another way", 400);
    let orphan = commit(None, "new", 500);
    let unseen = commit(Some(&first), "never accepted", 120);
    let proof = site.verify_context();
    let with = |ancestry| VerifyContext { ancestry, ..proof };
    let store = ObjectStore::open(scratch.path().join(".git")).unwrap();
    let signed = |commit: &str| {
        let trust = CommitTrust { trust: &site.trust, now: Timestamp::from_second(NOW).unwrap() };
        SignedCommit::from_store(&store, &commit.parse().unwrap(), &trust).unwrap()
    };
    let doubt = |commit: &str| signed(commit).unproven_ancestor(&site.cache, "main", &site.trust).unwrap();
    // The verdict on the commit alone, before anything of its tree is read.
    let judged = |commit: &str, proof: &VerifyContext<'_>| {
        signed(commit).judge(&site.cache, proof).map_or_else(|refusal| refusal.code(), |_| "judged")
    };
    assert_eq!(doubt(&first), None);
    assert_eq!(refusal_code(&site, &scratch, &first, &proof), "taken");
    assert_eq!(
        refusal_code(&site, &scratch, &second, &with(Ancestry::NotDescendant)),
        "taken",
        "it names its parent"
    );
    assert_eq!((doubt(&second), doubt(&late)), (None, None));
    assert_eq!(doubt(&skipped).as_deref(), Some(second.as_str()));
    for other in [&rewritten, &orphan] {
        assert_eq!(refusal_code(&site, &scratch, other, &with(Ancestry::NotDescendant)), "rewritten");
        assert_eq!(judged(other, &with(Ancestry::NotDescendant)), "rewritten");
    }
    assert_eq!((judged(&unseen, &proof), judged(&first, &proof)), ("rewound", "rewound"));
    assert_eq!((judged(&second, &proof), judged(&late, &proof)), ("judged", "judged"));
    assert_eq!(refusal_code(&site, &scratch, &unseen, &proof), "rewound", "older by its time");
    assert_eq!(refusal_code(&site, &scratch, &skipped, &with(Ancestry::Descendant)), "taken");
    let mut free = CacheSite::at(site.paths.root());
    free.trust.fast_forward = false;
    assert_eq!(refusal_code(&free, &scratch, &rewritten, &free.verify_context()), "taken");
    let asked = VerifyContext { allow_rewind: true, ..with(Ancestry::NotDescendant) };
    assert_eq!(refusal_code(&site, &scratch, &orphan, &asked), "taken");
    assert_eq!(
        refusal_code(&site, &scratch, &skipped, &proof),
        "rewound",
        "what was left by a rewrite is old"
    );
}

#[test]
fn each_line_has_its_own_floor() {
    let (site, mut scratch) = (CacheSite::new(), ScratchRepo::new());
    let main = scratch.commit_at(&[file("top.sls", "main")], 1);
    let ahead = scratch.commit_at(&[file("top.sls", "testing")], 2);
    let proof = site.verify_context();
    let testing = VerifyContext { branch: "testing/web-01", ..proof };
    assert_eq!(refusal_code(&site, &scratch, &main, &proof), "taken");
    assert_eq!(refusal_code(&site, &scratch, &ahead, &testing), "taken");
    assert_eq!(refusal_code(&site, &scratch, &main, &proof), "taken", "the testing branch ended");
    assert_eq!(site.cache.newest_accepted("main").unwrap().unwrap().revision, main);
    assert_eq!(site.cache.newest_accepted("testing/web-01").unwrap().unwrap().revision, ahead);
    assert_eq!(site.cache.newest_accepted("other").unwrap(), None);
}

#[test]
fn serials_only_rise() {
    let (site, mut scratch) = (CacheSite::new(), ScratchRepo::new());
    let proof = site.verify_context();
    let mut commit = |serial: u64, text: &str| {
        let yaml = manifest(serial, text).to_yaml();
        scratch.commit(&[file("manifest.yaml", &yaml), file("states/top.sls", text)])
    };
    let (five, reused, four, six) = (commit(5, "a"), commit(5, "b"), commit(4, "c"), commit(6, "d"));
    scratch.start_orphan();
    let none = scratch.commit(&[file("states/top.sls", "e")]);
    let verdict = |commit: &str, proof: &VerifyContext<'_>| refusal_code(&site, &scratch, commit, proof);
    let known = VerifyContext { ancestry: Ancestry::Descendant, ..proof };
    assert_eq!(verdict(&five, &known), "taken");
    assert_eq!(verdict(&reused, &known), "reused");
    assert_eq!(verdict(&four, &known), "replayed");
    fs::remove_dir_all(site.paths.root().join("cache")).unwrap();
    fs::remove_dir_all(site.paths.root().join("state")).unwrap();
    assert_eq!(verdict(&four, &known), "replayed");
    assert_eq!(verdict(&six, &known), "taken");
    assert_eq!(site.current().record().serial, Some(6));
    assert_eq!(verdict(&none, &proof), "manifest-gone");
    let asked = VerifyContext { allow_rewind: true, ..known };
    assert_eq!(verdict(&four, &asked), "taken");
    assert_eq!(verdict(&five, &known), "taken", "only forward from there on");
    assert_eq!(verdict(&none, &known), "taken", "dropped openly");
}

#[test]
fn a_manifest_is_held_to_every_word() {
    let (mut site, mut scratch) = (CacheSite::new(), ScratchRepo::new());
    let good = scratch.commit(&[file("states/top.sls", "x")]);
    assert_eq!(refusal_code(&site, &scratch, &good, &site.verify_context()), "taken");
    let at = |seconds| Some(Timestamp::from_second(seconds).unwrap());
    let listing = |entries: &[(&str, ManifestEntry)]| {
        let files = entries.iter().map(|(path, entry)| ((*path).to_owned(), entry.clone())).collect();
        Manifest { files: Some(files), ..manifest(1, "x") }
    };
    let top = || ("states/top.sls", entry("x", 0o644));
    let cases = [
        ("digest", listing(&[("states/top.sls", entry("y", 0o644))])),
        ("mode", listing(&[("states/top.sls", entry("x", 0o755))])),
        ("missing", listing(&[top(), ("states/gone.sls", entry("x", 0o644))])),
        ("extra", listing(&[])),
        ("expired", Manifest { expires: at(NOW - 1), ..manifest(1, "x") }),
        ("old-agent", Manifest { min_agent: Some("999.0.0".parse().unwrap()), ..manifest(1, "x") }),
        (
            "taken",
            Manifest { expires: at(NOW + 1), min_agent: Some("0.0.1".parse().unwrap()), ..manifest(1, "x") },
        ),
    ];
    for (want, manifest) in cases {
        let yaml = manifest.to_yaml();
        let commit = scratch.commit(&[file("manifest.yaml", &yaml), file("states/top.sls", "x")]);
        assert_eq!(refusal_code(&site, &scratch, &commit, &site.verify_context()), want, "{yaml}");
    }
    for broken in ["", "[]", "serial: x", "schema: 99\nserial: 2\n", "\u{0}", "a: &a [*a, *a]\n"] {
        let commit = scratch.commit(&[file("manifest.yaml", broken), file("states/top.sls", "x")]);
        assert_eq!(refusal_code(&site, &scratch, &commit, &site.verify_context()), "manifest", "{broken:?}");
    }
    site.trust.manifest = ManifestRule::Required;
    let commit = scratch.commit(&[file("states/top.sls", "x")]);
    assert_eq!(refusal_code(&site, &scratch, &commit, &site.verify_context()), "no-manifest");
    let bare = Manifest { files: None, ..manifest(9, "x") }.to_yaml();
    let commit = scratch.commit(&[file("manifest.yaml", &bare), file("states/top.sls", "x")]);
    assert_eq!(refusal_code(&site, &scratch, &commit, &site.verify_context()), "unlisted");
}

/// A key that may sign manifests, and one that may not.
fn keys(dir: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let make = |name: &str| {
        let key = dir.join(name);
        let made = std::process::Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", "t", "-f"])
            .arg(&key)
            .status()
            .unwrap();
        assert!(made.success());
        key
    };
    let (known, stranger) = (make("known"), make("stranger"));
    let public = fs::read_to_string(known.with_extension("pub")).unwrap();
    fs::write(dir.join("allowed_signers"), format!("release@example.org {public}")).unwrap();
    (known, stranger)
}

#[test]
fn only_allowed_keys_may_sign() {
    let (mut site, mut scratch) = (CacheSite::new(), ScratchRepo::new());
    let dir = tempfile::tempdir().unwrap();
    let (known, stranger) = keys(dir.path());
    site.trust.require = RequiredSignatures::Manifest;
    site.trust.allowed_signers = dir.path().join("allowed_signers");
    let yaml = manifest(1, "x").to_yaml();
    let sign = |key: &Path, text: &str| trust::sign(key, trust::MANIFEST_NAMESPACE, text.as_bytes()).unwrap();
    let mut commit = |yaml: &str, signature: Option<String>| {
        let signature = signature.unwrap_or_default();
        let mut files = vec![file("manifest.yaml", yaml), file("states/top.sls", "x")];
        if !signature.is_empty() {
            files.push(file("manifest.yaml.sig", &signature));
        }
        scratch.commit(&files)
    };
    let other = manifest(2, "x").to_yaml();
    let cases = [
        ("taken", commit(&yaml, Some(sign(&known, &yaml)))),
        ("unsigned", commit(&other, None)),
        ("unknown-key", commit(&other, Some(sign(&stranger, &other)))),
        ("bad-signature", commit(&other, Some(sign(&known, &yaml)))),
    ];
    let plain = scratch.commit(&[file("states/top.sls", "x")]);
    for (want, commit) in &cases {
        assert_eq!(refusal_code(&site, &scratch, commit, &site.verify_context()), *want);
    }
    assert_eq!(site.current().record().signers[0].principal, "release@example.org");
    assert_eq!(refusal_code(&site, &scratch, &plain, &site.verify_context()), "unsigned");
    site.trust.require = RequiredSignatures::Commit;
    assert_eq!(refusal_code(&site, &scratch, &plain, &site.verify_context()), "unsigned");
    let states = tempfile::tempdir().unwrap();
    fs::write(states.path().join("top.sls"), "x").unwrap();
    let refused = site.cache.stage_dir(states.path()).unwrap().verify(&site.verify_context());
    assert_eq!(refused.map(|_| ()).unwrap_err().code(), "unsigned");
}
