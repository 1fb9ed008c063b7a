//! Many files, large files and long histories.

use std::time::Instant;

use zagent_cache::testing::GitHttpServer;
use zagent_tests::node::{Node, Repo};

/// Bytes of all files below a directory.
fn size(dir: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| if e.path().is_dir() { size(&e.path()) } else { e.metadata().unwrap().len() }).sum()
}

#[test]
fn two_thousand_files_are_followed() {
    let (node, repo) = Node::with_repo();
    for n in 0..2000 {
        repo.write(&format!("states/d{}/f{n}.sls", n % 40), &format!("s{n}: {{test.nop: []}}\n"));
    }
    let many = repo.publish("many");
    let begun = Instant::now();
    node.turn().changed(1);
    let first = begun.elapsed();
    let begun = Instant::now();
    node.turn().changed(0);
    println!("2000 files: first turn {} ms, second {} ms", first.as_millis(), begun.elapsed().as_millis());
    node.stands_on(&many);
    let listed = node.call(&["cache", "list", "--out", "json"]).json();
    assert_eq!(listed[0]["files"], 2002, "{listed:#}");
}

/// Bytes that do not compress, the same for the same seed.
fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_le_bytes()[3]
    };
    (0..size).map(step).collect()
}

/// Sixty commits that each replace a file of 256 KiB: only the last one is transferred.
#[test]
fn of_a_huge_repository_only_the_newest_commit_is_fetched() {
    let node = Node::new();
    let repo = Repo::new(&node);
    let server = GitHttpServer::start(repo.top());
    node.follow(&server.url("repo.git"));
    for n in 0..60 {
        std::fs::write(repo.work().join("blob.bin"), noise(n, 256 << 10)).unwrap();
        repo.commit();
    }
    let head = repo.publish("one");
    let whole = size(&repo.bare());
    assert!(whole > 12 << 20, "{whole}");
    node.turn().changed(1);
    node.stands_on(&head);
    let fetched = size(&node.root().join("cache/repository.git"));
    println!("huge: {whole} bytes served, {fetched} fetched");
    assert!(fetched < 512 << 10, "{fetched} of {whole}");
    std::fs::write(repo.work().join("other.bin"), noise(99, 64 << 10)).unwrap();
    repo.publish("two");
    node.turn().changed(1);
}
