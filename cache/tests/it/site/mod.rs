//! A node's cache in its own directory, and the proofs that test suites give to it.

#![allow(dead_code, reason = "each suite uses a part of it")]

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use zagent_cache::testing::{EntryKind, TestFile};
use zagent_cache::{
    Ancestry, Cache, CacheError, CacheLimits, CheckDepth, Generation, GitRepository, ManifestAudience,
    StagedRevision, VerifyContext,
};
use zagent_config::paths::Paths;
use zagent_config::settings::{
    FirstContact, ManifestRule, RequiredSignatures, SourceSettings, TrustSettings,
};

/// The time of the proofs.
pub(crate) const NOW: i64 = 1_700_000_000;

/// A cache below a directory.
pub(crate) struct CacheSite {
    pub(crate) paths: Paths,
    pub(crate) cache: Cache,
    pub(crate) trust: TrustSettings,
    repositories: Vec<String>,
    _dir: Option<tempfile::TempDir>,
}

impl CacheSite {
    /// In a directory that is removed with it.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let site = Self::at(&dir.path().join("root"));
        Self { _dir: Some(dir), ..site }
    }

    /// Below a directory that stays.
    pub(crate) fn at(root: &Path) -> Self {
        let paths = Paths::new(root);
        let cache = Cache::open(&paths, &source()).unwrap();
        let repositories = vec!["git.example.org/states".to_owned()];
        Self { paths, cache, trust: trust(), repositories, _dir: None }
    }

    pub(crate) fn verify_context(&self) -> VerifyContext<'_> {
        VerifyContext {
            trust: &self.trust,
            now: Timestamp::from_second(NOW).unwrap(),
            branch: "main",
            source: "https://git.example.org/states",
            ancestry: Ancestry::Unknown,
            audience: ManifestAudience { repositories: &self.repositories, branch: Some("main") },
            base_branch: None,
            allow_rewind: false,
        }
    }

    /// Stages a commit of a repository.
    pub(crate) fn stage(&self, repository: &Path, commit: &str) -> Result<StagedRevision, CacheError> {
        let tree = GitRepository::discover(repository)?.read_tree(commit, self.cache.limits())?;
        self.cache.stage_tree(&tree)
    }

    /// Accepts a commit with the usual proof.
    pub(crate) fn publish(&self, repository: &Path, commit: &str) -> Result<Generation, CacheError> {
        self.stage(repository, commit)?.verify(&self.verify_context())?.publish()
    }

    /// The current generation, with every byte checked.
    pub(crate) fn current(&self) -> Generation {
        let current = self.cache.current().unwrap().expect("a current generation");
        current.check(CheckDepth::Full).unwrap();
        current
    }

    /// How many trees are in the staging directory.
    pub(crate) fn staged_count(&self) -> usize {
        std::fs::read_dir(self.paths.staging()).unwrap().count()
    }

    pub(crate) fn generations(&self) -> Vec<String> {
        self.cache.list().unwrap().iter().map(|g| g.name().to_owned()).collect()
    }
}

pub(crate) fn source() -> SourceSettings {
    SourceSettings {
        remotes: Vec::new(),
        poll: Duration::from_secs(60),
        timeout: Duration::from_secs(60),
        keep: 3,
        testing: false,
        verify_every: Duration::from_secs(3600),
        max_pack: 1 << 20,
        max_file: 64 << 10,
        max_files: 3000,
    }
}

pub(crate) fn trust() -> TrustSettings {
    TrustSettings {
        require: RequiredSignatures::None,
        allowed_signers: "/nonexistent/allowed_signers".into(),
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

pub(crate) fn file<'a>(path: &'a str, text: &'a str) -> TestFile<'a> {
    (path, EntryKind::Blob, text)
}

/// The limits of the site's cache.
pub(crate) fn limits() -> CacheLimits {
    CacheLimits { files: 3000, bytes: 64 << 10, total: 4 << 20, ..CacheLimits::default() }
}

/// Numbers from a seed.
pub(crate) struct CacheTestRng(pub(crate) u64);

impl CacheTestRng {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// A directory in memory if possible: a killed process leaves the same state on any file system, and a sync
/// costs nothing there.
pub(crate) fn memory_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// How many random cases a suite runs: the number in the environment, or its own small default.
pub(crate) fn iterations(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().map_or(usual, |n| n.parse().unwrap())
}
