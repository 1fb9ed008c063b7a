//! What real Salt 3008.3 answered, held against these states: `truth.json` has the situation, the state and the answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;
use zagent_compiler::Compat;

use super::{FileTestAnswer, put_file, value};
use crate::build;
use crate::testing::StateTestBed;
use zagent_host::disk::Disk;
use zagent_host::fs::Overlay;

/// The same whatever order Salt's sets came in: lists sorted, lines of a comment sorted.
fn normalize_order(json: &Json) -> Json {
    match json {
        Json::Array(items) => {
            let mut items: Vec<Json> = items.iter().map(normalize_order).collect();
            items.sort_by_key(Json::to_string);
            items.into()
        }
        Json::Object(map) => {
            let sorted: BTreeMap<&String, Json> = map.iter().map(|(k, v)| (k, normalize_order(v))).collect();
            sorted.into_iter().map(|(k, v)| (k.clone(), v)).collect::<serde_json::Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Where we answer otherwise on purpose: the case, in which run, and why.
const INTENDED_DIFFERENCES: &[(&str, &str, &str)] = &[
    ("managed-fresh-newfilediff-source", "test", "Salt raises an exception"),
    ("managed-drift-keep", "test", "Salt forgets the mode"),
    ("managed-link-dangling", "test real tree", "Salt takes a link that leads nowhere for a right file"),
    ("managed-link-nofollow", "test real tree again", "Salt raises an exception"),
    ("managed-encoding-bad", "test tree", "Salt finds out too late, and leaves an empty file"),
    ("managed-encoding-ascii", "test tree", "Salt finds out too late, and leaves an empty file"),
    ("directory-is-link-force", "test", "Salt sees the directory behind the link"),
    ("directory-is-link-dangling", "test real again", "Salt raises an exception"),
    ("recurse-fresh-empty", "test", "Salt names the directory itself twice"),
    ("recurse-dir-for-file", "test", "the other files are still copied"),
    ("recurse-symlinks-noforce", "test", "the other files are still copied"),
    ("symlink-right-normal", "test", "Salt's real run sees that both targets are the same"),
    ("symlink-file-backup", "test", "Salt's real run makes the backup"),
    ("symlink-file-backup-abs", "test", "Salt's real run makes the backup"),
    ("symlink-dir-backup", "test", "Salt's real run makes the backup"),
    ("symlink-file-atomic", "test", "Salt's real run replaces the file"),
    ("symlink-file-backup-bad", "test", "Salt's real run says this too"),
    ("symlink-file-backup-exists", "test", "Salt's real run says this too"),
    ("symlink-nouser-relative", "test real again", "a path is looked at before users are"),
    ("copy-fresh-preserve", "tree", "Salt forgets the owner"),
    ("touch-exists", "test", "Salt's real run sets the times"),
    ("touch-dir", "test", "Salt's real run sets the times"),
    ("mknod-char-fifo", "test", "Salt's real run fails"),
    ("cached-salt", "test real", "Salt had it in its cache already"),
    ("cached-salt-missing", "test", "Salt's real run fails"),
    ("cached-local", "test", "Salt's real run has nothing to do"),
    ("cached-local-missing", "test", "Salt's real run fails"),
    ("cached-local-hash", "test", "Salt's real run has nothing to do"),
    ("cached-local-badhash", "test", "Salt's real run fails"),
    ("not_cached-salt", "test", "Salt had it in its cache, and deletes it in a dry run too"),
    ("not_cached-salt-none", "test", "Salt had it in its cache, and deletes it in a dry run too"),
];

fn is_intended(id: &str, run: &str) -> bool {
    INTENDED_DIFFERENCES.iter().any(|(case, at, _)| *case == id && at.split(' ').any(|at| at == run))
}

fn differs(id: &str, run: &str, found: &FileTestAnswer, truth: &FileTestAnswer) -> Option<String> {
    if is_intended(id, run) {
        return None;
    }
    let same_words = lines(&found.comment) == lines(&truth.comment);
    let same = found.result == truth.result
        && same_words
        && normalize_order(&found.changes) == normalize_order(&truth.changes);
    (!same).then(|| format!("{id} {run}:\n  ours {found:?}\n  Salt {truth:?}"))
}

/// The stage of a case; nothing when only the superuser can set it up.
fn case_test_bed(truth: &Json, case: &Json) -> Option<StateTestBed> {
    // Who may not change owners can still look at all the others.
    let words = ["\"own\"", "\"user\"", "\"group\"", "root:root", "mknod-char", "mknod-block"];
    let needs_root = words.iter().any(|word| case.to_string().contains(word));
    if needs_root && !rustix::process::geteuid().is_root() {
        return None;
    }
    let mut test_bed = StateTestBed::for_files();
    test_bed.pillar = value(&truth["pillar"]);
    for (path, entry) in truth["tree"].as_object().unwrap() {
        let full = test_bed.dir.path().join("root").join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        match (entry[0].as_str(), entry[1].as_str()) {
            (None, _) => std::fs::create_dir_all(full).unwrap(),
            (Some(target), Some("link")) => std::os::unix::fs::symlink(target, full).unwrap(),
            (Some(content), mode) => put_file(&full, content, mode.unwrap()),
        }
    }
    test_bed.prepare(&case["setup"]);
    Some(test_bed)
}

#[test]
fn answers_are_those_of_salt() {
    let truth: Json = serde_json::from_str(include_str!("truth.json")).unwrap();
    let mut faults = Vec::new();
    for case in truth["cases"].as_array().unwrap() {
        let Some(test_bed) = case_test_bed(&truth, case) else { continue };
        let id = case["id"].as_str().unwrap();
        let chunk = test_bed.chunk(case["fun"].as_str().unwrap(), &case["args"]);
        let answers = &case["truth"];
        faults.extend(differs(
            id,
            "test",
            &test_bed.check_chunk(&chunk),
            &FileTestAnswer::read(&answers["test"]),
        ));
        faults.extend(differs(
            id,
            "real",
            &test_bed.run_chunk(&chunk),
            &FileTestAnswer::read(&answers["real"]),
        ));
        let left = serde_json::to_value(test_bed.leftover_entries()).unwrap();
        if normalize_order(&left) != normalize_order(&answers["tree"]) && !is_intended(id, "tree") {
            faults.push(format!("{id} leaves\n  ours {left}\n  Salt {}", answers["tree"]));
        }
        faults.extend(differs(
            id,
            "again",
            &test_bed.run_chunk(&chunk),
            &FileTestAnswer::read(&answers["again"]),
        ));
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn what_is_foreseen_in_memory_is_what_is_done() {
    let truth: Json = serde_json::from_str(include_str!("truth.json")).unwrap();
    let mut faults = Vec::new();
    for (case, compat) in
        truth["cases"].as_array().unwrap().iter().flat_map(|c| [(c, Compat::Salt), (c, Compat::Strict)])
    {
        let Some(mut test_bed) = case_test_bed(&truth, case) else { continue };
        test_bed.compat = compat;
        let id = case["id"].as_str().unwrap();
        let chunk = test_bed.chunk(case["fun"].as_str().unwrap(), &case["args"]);
        if !build(&chunk).is_ok_and(|state| state.is_predictable()) {
            continue;
        }
        let before = test_bed.leftover_entries();
        let overlay = Overlay::new(Arc::new(Disk::default()));
        let (foreseen, foreseen_again) =
            (test_bed.run_on(&overlay, &chunk), test_bed.run_on(&overlay, &chunk));
        if test_bed.leftover_entries() != before {
            faults.push(format!("{id}: a dry run changed the disk"));
        }
        let (done, done_again) = (test_bed.run_chunk(&chunk), test_bed.run_chunk(&chunk));
        let is_lasting = compat == Compat::Strict && build(&chunk).is_ok_and(|state| state.is_convergent());
        if is_lasting && done.result == Some(true) && test_bed.check_chunk(&chunk).result != Some(true) {
            faults.push(format!("{id}: it is not right once it has run"));
        }
        for (foreseen, done) in [(foreseen, done), (foreseen_again, done_again)] {
            if foreseen != done {
                faults.push(format!("{id} {compat:?}:\n  foreseen {foreseen:?}\n  done     {done:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}
