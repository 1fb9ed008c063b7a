//! Attacks by someone who controls the remote, the network, or a key: nothing is published, the last good revision
//! stays and converges, and the error names the cause.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its attack has failed")]

mod check;
mod keys;
mod manifests;
mod remotes;
mod replay;
mod terminal;
mod trees;

use std::fs;
use std::path::PathBuf;

use zagent_tests::node::{Key, Node, Repo, zagent};

/// A node on a good revision, whose repository is about to be attacked.
struct Victim {
    node: Node,
    repo: Repo,
    good: String,
    alice: Key,
    bob: Key,
}

/// The accepted signers.
const SIGNERS: &str = "trust: {require: commit, allowed_signers: $T/signers, revoked_keys: $T/revoked}\n";
/// Two people sign the manifest.
const MANIFEST: &str = "trust: {require: manifest, threshold: 2, allowed_signers: $T/signers}\n";

impl Victim {
    /// A node with this trust configuration, on a revision that it trusts.
    fn new(more: &str) -> Self {
        let node = Node::new();
        let repo = Repo::new(&node);
        let (alice, bob) = (repo.key("alice"), repo.key("bob"));
        let (a, b) = (&alice.public, &bob.public);
        node.write("signers", &format!("alice@example.org {a}\nbob@example.org {b}\n"));
        node.write("revoked", "");
        let mut victim = Self { node, repo, good: String::new(), alice, bob };
        victim.trust(more);
        victim.repo.sign_with(Some(&victim.alice));
        victim.repo.motd("one");
        if more == MANIFEST {
            victim.list(&[]);
            victim.sign_manifest();
        }
        victim.good = victim.repo.commit();
        victim.repo.push();
        let first_use: &[&str] = if more.contains("require:") { &["is trusted on first use"] } else { &[] };
        victim.node.turn().expect(0, first_use);
        assert_eq!(victim.node.text("motd"), "one");
        victim
    }

    fn trust(&self, more: &str) {
        let source = format!("source: {{remotes: [{{url: '{}'}}], timeout: 30s}}\n", self.repo.url());
        self.node.configure(&source, more);
    }

    /// Nothing was accepted: the last good revision converges, is current and complete, and the cause is named.
    #[track_caller]
    fn refuses(&self, words: &[&str]) {
        let generations = self.node.generations();
        let _ = fs::remove_file(self.node.host().join("motd"));
        self.node.turn().expect(76, words);
        assert_eq!(self.node.text("motd"), "one", "the last good revision converges");
        assert!(!self.node.host().join("evil").exists());
        self.node.stands_on(&self.good);
        assert_eq!(self.node.generations(), generations);
        self.node.call(&["source", "sync"]).expect(76, words);
        self.node.call(&["source", "verify"]).expect(76, words);
        assert_eq!(self.node.status()["why_not"]["why"], "refused");
        assert_eq!(self.node.generations(), generations);
    }

    /// A new commit on top of the good one.
    fn commit(&self, text: &str) -> String {
        self.repo.publish(text)
    }

    /// Lists the files of the work tree in a manifest.
    fn list(&self, more: &[&str]) {
        let work = self.repo.work().to_string_lossy().into_owned();
        let words: Vec<&str> =
            ["manifest", "write", &work, "--drop-signatures"].iter().chain(more).copied().collect();
        zagent(&words).expect(0, &[]);
    }

    fn sign_manifest_as(&self, key: &Key, name: &str) {
        let (work, key) = (self.repo.work(), key.path.to_string_lossy().into_owned());
        zagent(&["manifest", "sign", &work.to_string_lossy(), "--key", &key, "--as", name]).expect(0, &[]);
    }

    fn sign_manifest(&self) {
        self.sign_manifest_as(&self.alice, "alice");
        self.sign_manifest_as(&self.bob, "bob");
    }

    fn manifest(&self) -> PathBuf {
        self.repo.work().join("manifest.yaml")
    }

    /// Pushes the work tree.
    fn push(&self) {
        self.repo.commit();
        self.repo.push();
    }
}
