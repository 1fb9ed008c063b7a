//! Edits with what surrounds them: sources, accumulators, directories, links, owners, the pillar, patches of directories.

use serde_json::json;
use zagent_compiler::{Chunk, Compat};
use zagent_config::Value;

use super::{EditTestReport, PATH, map, run_both, value};
use crate::testing::{MemoryFs, StateTestBed, TestFiles};
use crate::{Verdict, build};
use zagent_host::fs::{FileMeta, FileSystem};

fn stage(old: Option<&str>) -> StateTestBed<MemoryFs> {
    let test_bed = StateTestBed::in_memory(Compat::Strict);
    if let Some(old) = old {
        test_bed.fs.put_file(PATH, old.as_bytes());
    }
    test_bed
}

fn run(test_bed: &StateTestBed<MemoryFs>, fun: &str, args: serde_json::Value) -> EditTestReport {
    run_both(test_bed, &Chunk::single("file", fun, PATH, map(&args))).1
}

fn text(test_bed: &StateTestBed<MemoryFs>, path: &str) -> Option<String> {
    test_bed.fs.texts().remove(path)
}

#[test]
fn sources_are_rendered_and_joined() {
    let mut test_bed = stage(Some("old\n"));
    test_bed.files = Box::new(TestFiles::new(&[("a.txt", "hello {{ who }}\n"), ("b.txt", "second\n")]));
    let args = json!({"sources": ["salt://a.txt", "salt://b.txt"], "defaults": {"who": "x"}, "context": {"who": "you"}});
    assert_eq!(run(&test_bed, "append", args).result, Some(true));
    assert_eq!(text(&test_bed, PATH).as_deref(), Some("old\nhello you\nsecond\n"));
    let told = run(&test_bed, "prepend", json!({"source": "salt://absent"}));
    assert_eq!((told.result, &*told.comment), (Some(false), "Failed to load template file salt://absent"));
    let told = run(&test_bed, "append", json!({"source": "salt://a.txt", "sources": ["salt://b.txt"]}));
    assert_eq!(told.comment, "source and sources are mutually exclusive");
}

#[test]
fn directories_are_made_when_asked() {
    let test_bed = stage(None);
    let deep = "/tmp/fe/a/b/f";
    let chunk = |args| Chunk::single("file", "append", deep, map(&args));
    let (test, _) = run_both(&test_bed, &chunk(json!({"text": "x"})));
    assert_eq!((test.result, &*test.comment), (Some(false), "/tmp/fe/a/b/f: file not found"));
    let (test, real) = run_both(&test_bed, &chunk(json!({"text": "x", "makedirs": true})));
    assert_eq!((test.result, &*test.comment), (None, "File /tmp/fe/a/b/f is set to be created"));
    assert_eq!((real.result, &*real.comment), (Some(true), "Appended 1 lines"));
    assert_eq!(text(&test_bed, deep).as_deref(), Some("x\n"));
}

#[test]
fn links_are_followed_and_kept() {
    let test_bed = stage(None);
    test_bed.fs.put_file("/tmp/fe/real", b"a\n");
    test_bed
        .fs
        .symlink(std::path::Path::new(PATH), std::path::Path::new("real"), FileMeta::default())
        .unwrap();
    assert_eq!(run(&test_bed, "replace", json!({"pattern": "a", "repl": "b"})).result, Some(true));
    assert_eq!(text(&test_bed, "/tmp/fe/real").as_deref(), Some("b\n"));
    assert_eq!(text(&test_bed, "/tmp/fe/real.bak").as_deref(), Some("a\n"));
    assert_eq!(test_bed.fs.read(std::path::Path::new("/tmp/fe/f.bak")).unwrap(), b"a\n");
    test_bed.fs.symlink(std::path::Path::new(PATH), std::path::Path::new("f"), FileMeta::default()).unwrap();
}

#[test]
fn a_line_brings_owner_mode_and_a_backup() {
    let test_bed = stage(Some("a\n"));
    let args = json!({"mode": "ensure", "content": "b", "after": "a", "file_mode": "0600", "user": "root", "backup": true});
    let told = run(&test_bed, "line", args.clone());
    assert_eq!(told.result, Some(true));
    assert_eq!(told.changes.get("mode"), Some(&Value::from("0600")));
    let kept: Vec<String> =
        test_bed.fs.texts().into_keys().filter(|path| path.starts_with("/tmp/fe/f.2")).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(run(&test_bed, "line", args).comment, "No changes needed to be made");
    let told = run(
        &test_bed,
        "line",
        json!({"mode": "ensure", "content": "b", "after": "a", "user": "nobody-has-this"}),
    );
    assert_eq!((told.result, &*told.comment), (Some(false), "User nobody-has-this is not available "));
}

fn accumulate(test_bed: &mut StateTestBed<MemoryFs>, name: &str, text: &str, target: &str) {
    let args = json!({"filename": PATH, "text": text, "require_in": [{"file": target}]});
    test_bed.plan.chunks.push(Chunk::single("file", "accumulated", name, map(&args)));
}

#[test]
fn accumulators_fill_the_block_that_they_are_for() {
    let mut test_bed = stage(Some("# START\n# END\n"));
    accumulate(&mut test_bed, "z-first", "one", PATH);
    accumulate(&mut test_bed, "a-second", "two", PATH);
    accumulate(&mut test_bed, "other", "not mine", "another id");
    for chunk in test_bed.plan.chunks.iter().rev() {
        let told = run_both(&test_bed, chunk).1;
        assert_eq!(told.result, Some(true));
        assert!(told.comment.ends_with("for file /tmp/fe/f was charged by text"), "{}", told.comment);
    }
    let args = json!({"marker_start": "# START", "marker_end": "# END", "content": "zero"});
    assert_eq!(run(&test_bed, "blockreplace", args).result, Some(true));
    assert_eq!(text(&test_bed, PATH).as_deref(), Some("# START\nzero\none\ntwo\n# END\n"));
}

#[test]
fn an_accumulator_that_nobody_uses_fails() {
    let mut chunk = Chunk::single("file", "accumulated", "acc", map(&json!({"filename": PATH, "text": "x"})));
    chunk.sls = "web".into();
    let told = run_both(&stage(None), &chunk).0;
    assert_eq!((told.result, &*told.comment), (Some(false), "Orphaned accumulator acc in web:acc"));
    let chunk = Chunk::single("file", "accumulated", "acc", map(&json!({"filename": PATH})));
    assert_eq!(run_both(&stage(None), &chunk).0.comment, "No text supplied for accumulator");
}

#[test]
fn the_pillar_gives_data() {
    let mut test_bed = stage(None);
    test_bed.pillar = value(&json!({"app": {"conf": {"port": 80}, "blob": "aGFsbG8="}}));
    assert_eq!(run(&test_bed, "serialize", json!({"dataset_pillar": "app:conf"})).result, Some(true));
    assert_eq!(text(&test_bed, PATH).as_deref(), Some("port: 80\n"));
    assert_eq!(run(&test_bed, "decode", json!({"contents_pillar": "app:blob"})).result, Some(true));
    assert_eq!(text(&test_bed, PATH).as_deref(), Some("hallo"));
    let told = run(&test_bed, "decode", json!({"contents_pillar": "app:absent"}));
    assert_eq!(told.comment, "Pillar data not found.");
}

#[test]
fn strict_mode_does_not_join_lines_nor_ignore_encodings() {
    let test_bed = stage(Some("a=1"));
    run(&test_bed, "keyvalue", json!({"key": "b", "value": "2", "append_if_not_found": true}));
    assert_eq!(text(&test_bed, PATH).as_deref(), Some("a=1\nb=2\n"));
    run(&test_bed, "decode", json!({"encoded_data": "6869", "encoding_type": "hex"}));
    assert_eq!(text(&test_bed, PATH).as_deref(), Some("hi"));
    let told = run(&test_bed, "decode", json!({"encoded_data": "x", "encoding_type": "md5"}));
    assert_eq!(told.comment, "encoding_type md5 is not supported, only base64 and hex can be decoded");
}

#[test]
fn refused_serializers_are_told_in_salts_words() {
    for name in ["plist", "msgpack", "python"] {
        let told = run(&stage(None), "serialize", json!({"dataset": {"a": 1}, "serializer": name}));
        assert!(
            told.comment.starts_with(&format!("The {name} serializer could not be found.")),
            "{}",
            told.comment
        );
    }
}

#[test]
fn other_encodings_are_edited_too() {
    let test_bed = stage(None);
    test_bed.fs.put_file(PATH, b"\xff\xfea\0b\0");
    assert_eq!(
        run(&test_bed, "replace", json!({"pattern": "b", "repl": "ö", "encoding": "utf-16"})).result,
        Some(true)
    );
    assert_eq!(test_bed.fs.read(std::path::Path::new(PATH)).unwrap(), b"\xff\xfea\0\xf6\0");
    test_bed.fs.put_file(PATH, b"caf\xe9 and some more\n");
    let told = run(&test_bed, "replace", json!({"pattern": "a", "repl": "b"}));
    assert_eq!(told.comment, "/tmp/fe/f is not written in the encoding it should be");
    test_bed.fs.put_file(PATH, b"a\0b");
    let told = run(&test_bed, "replace", json!({"pattern": "a", "repl": "b"}));
    assert_eq!(told.comment, "Cannot perform string replacements on a binary file: /tmp/fe/f");
}

const TREE_PATCH: &str = "--- a/one\n+++ b/one\n@@ -1 +1 @@\n-1\n+uno\n--- /dev/null\n+++ b/sub/new\n@@ -0,0 +1 @@\n+n\n\
                          --- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n";

fn patch(
    test_bed: &StateTestBed<MemoryFs>,
    patch: &str,
    args: serde_json::Value,
) -> (EditTestReport, EditTestReport) {
    test_bed.fs.put_file("/tmp/p", patch.as_bytes());
    let mut args = map(&args);
    args.insert("source", "/tmp/p");
    run_both(test_bed, &Chunk::single("file", "patch", "/tmp/fe", args))
}

#[test]
fn a_directory_is_patched_whole() {
    let test_bed = stage(None);
    test_bed.fs.put_file("/tmp/fe/one", b"1\n");
    test_bed.fs.put_file("/tmp/fe/gone", b"g\n");
    let (test, real) = patch(&test_bed, TREE_PATCH, json!({"strip": 1}));
    assert_eq!((test.result, &*test.comment), (None, "The patch would be applied"));
    assert_eq!((real.result, &*real.comment), (Some(true), "Patch successfully applied"));
    assert_eq!(
        real.changes.get("stdout"),
        Some(&Value::from("patching file one\npatching file sub/new\npatching file gone"))
    );
    let files: Vec<(String, String)> =
        test_bed.fs.texts().into_iter().filter(|(p, _)| p != "/tmp/p").collect();
    assert_eq!(files, [("/tmp/fe/one".into(), "uno\n".into()), ("/tmp/fe/sub/new".into(), "n\n".into())]);
}

#[test]
fn a_patch_stays_below_its_directory() {
    let test_bed = stage(None);
    for name in ["../../etc/passwd", "/etc/passwd"] {
        let text = format!("--- {name}\n+++ {name}\n@@ -0,0 +1 @@\n+x\n");
        let told = patch(&test_bed, &text, json!({})).1;
        assert!(told.comment.contains("not below /tmp/fe"), "{}", told.comment);
    }
}

#[test]
fn rejects_are_kept_when_asked() {
    let test_bed = stage(None);
    test_bed.fs.put_file("/tmp/fe/one", b"other\n");
    let text = "--- a/one\n+++ b/one\n@@ -1 +1 @@\n-1\n+uno\n";
    let (test, real) = patch(&test_bed, text, json!({"strip": 1, "reject_file": "/tmp/fe/rej"}));
    assert_eq!(test.result, None);
    assert!(real.comment.starts_with("Patch would not apply cleanly, no changes made."), "{}", real.comment);
    assert_eq!(
        self::text(&test_bed, "/tmp/fe/rej").as_deref(),
        Some("--- a/one\n+++ b/one\n@@ -1,1 +1,1 @@\n-1\n+uno\n")
    );
    let told = patch(&test_bed, text, json!({"reject_file": "/nowhere/rej"})).1;
    assert!(told.comment.contains("either does not exist, or is not a directory"), "{}", told.comment);
}

#[test]
fn an_edit_that_would_go_on_is_not_lasting() {
    let test_bed = stage(Some("a\n"));
    for (repl, lasting) in [("aa", false), ("b", true)] {
        test_bed.fs.put_file(PATH, b"a\n");
        let chunk = Chunk::single("file", "replace", PATH, map(&json!({"pattern": "a", "repl": repl})));
        let mut state = build(&chunk).ok().unwrap();
        let ctx = test_bed.scene();
        assert_eq!(state.check(&ctx).unwrap().verdict, Verdict::Drifted);
        state.apply(&ctx).unwrap();
        assert_eq!(state.is_convergent(), lasting, "{repl}");
    }
}

#[test]
fn a_watch_makes_no_file_that_is_not_wanted() {
    let test_bed = stage(None);
    let args = json!({"pattern": "a", "repl": "b", "ignore_if_missing": true});
    let mut state = build(&Chunk::single("file", "replace", PATH, map(&args))).ok().unwrap();
    state.react(&test_bed.scene()).unwrap();
    assert_eq!(text(&test_bed, PATH), None);
}
