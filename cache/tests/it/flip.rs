//! `current` changes repeatedly while a reader loops: it never sees a missing generation, and never a mixed one.
//!
//! `FLIPS=n` sets the number of changes.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::site::{self, CacheSite, file, iterations};
use zagent_cache::testing::ScratchRepo;

const FILES: [&str; 4] = ["a", "b/c", "b/d", "e"];

#[test]
fn a_reader_never_sees_a_missing_or_mixed_tree() {
    let mut scratch = ScratchRepo::new();
    let dir = site::memory_dir();
    let site = CacheSite::at(dir.path());
    let commits = ["one", "two"].map(|text| scratch.commit(&FILES.map(|path| file(path, text))));
    let names = commits.map(|commit| site.publish(scratch.path(), &commit).unwrap().name().to_owned());
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let read = || {
        let mut seen = [0_u64; 2];
        while !done.load(Ordering::Relaxed) {
            let tree = std::fs::canonicalize(site.paths.current())
                .expect("current points to a generation")
                .join("tree");
            let texts =
                FILES.map(|path| std::fs::read_to_string(tree.join(path)).expect("every file exists"));
            assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
            seen[usize::from(texts[0] == "two")] += 1;
            reads.fetch_add(1, Ordering::Relaxed);
        }
        seen
    };
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(read);
        // Neither ends before the other has started.
        while reads.load(Ordering::Relaxed) == 0 && !reader.is_finished() {
            std::thread::yield_now();
        }
        for n in 0..iterations("FLIPS", 5000) {
            let to = &names[usize::try_from(n % 2).unwrap()];
            assert_eq!(site.cache.rollback(Some(to)).unwrap().name(), to);
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    assert!(seen[0] > 0 && seen[1] > 0, "the reader saw only one of them: {seen:?}");
}
