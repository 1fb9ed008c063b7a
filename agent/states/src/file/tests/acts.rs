//! What these states do that no single answer of Salt shows.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::json;
use zagent_compiler::Compat;

use super::put_file;
use crate::build;
use crate::testing::StateTestBed;

/// Answers so many requests: `/ok` with a text, all else with an error.
fn serve(answers: usize) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(answers) {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let n = stream.read(&mut request).unwrap();
            let is_ok = request[..n].starts_with(b"GET /ok");
            let (status, body) = if is_ok { ("200 OK", "hi\n") } else { ("404 Not Found", "no\n") };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    format!("http://{address}")
}

#[test]
fn a_download_that_is_not_to_be_kept_goes() {
    let hi = "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4";
    for keeps in [true, false] {
        let (test_bed, url) = (StateTestBed::for_files(), serve(1));
        let args = json!({
            "name": "$D/f", "source": format!("{url}/ok"), "source_hash": hi, "keep_source": keeps,
        });
        let chunk = test_bed.chunk("managed", &args);
        assert_eq!(test_bed.run_chunk(&chunk).result, Some(true));
        let kept =
            crate::file::download::cache_path(&test_bed.scene(), "base", &format!("{url}/ok")).unwrap();
        assert_eq!(kept.exists(), keeps);
        // The digest of the file itself is enough for the next look.
        assert!(test_bed.run_chunk(&chunk).comment.contains("No changes made"));
    }
}

#[test]
fn templates_see_context_over_defaults_and_what_was_gathered() {
    let test_bed = StateTestBed::for_files().tree("t", "{{ a }} {{ b }} {{ accumulator }} {{ mode }}\n");
    let args = json!({
        "name": "$D/f", "source": "salt://t", "template": "jinja", "mode": "0640",
        "defaults": {"a": 1, "b": 2}, "context": {"b": 3},
    });
    let mut gathered = BTreeMap::new();
    gathered.insert("lines".to_owned(), vec!["x".to_owned()]);
    test_bed.shared.accumulated.lock().unwrap().insert(test_bed.test_dir().join("f"), gathered);
    let chunk = test_bed.chunk("managed", &args);
    assert_eq!(test_bed.run_chunk(&chunk).result, Some(true));
    let text = std::fs::read_to_string(test_bed.test_dir().join("f")).unwrap();
    assert_eq!(text, "1 3 {'lines': ['x']} 0640\n");
    assert_eq!(test_bed.run_chunk(&chunk).changes, json!({}));
}

const HI: &str = "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4";

#[test]
fn a_download_is_used_once_its_digest_fits() {
    let test_bed = StateTestBed::for_files();
    // One answer only: the second run must not ask again.
    let url = serve(1);
    let args = json!({"name": "$D/f", "source": format!("{url}/ok"), "source_hash": format!("sha256={HI}")});
    let chunk = test_bed.chunk("managed", &args);
    let first = test_bed.run_chunk(&chunk);
    assert_eq!((first.result, first.changes["diff"].as_str()), (Some(true), Some("New file")), "{first:?}");
    assert_eq!(std::fs::read_to_string(test_bed.test_dir().join("f")).unwrap(), "hi\n");
    let second = test_bed.run_chunk(&chunk);
    assert_eq!(second.comment, "File $D/f exists with proper permissions. No changes made.");
    // The copy in the cache serves another file.
    let other =
        test_bed.chunk("managed", &json!({"name": "$D/g", "source": format!("{url}/ok"), "source_hash": HI}));
    assert_eq!(test_bed.run_chunk(&other).result, Some(true));
}

#[test]
fn a_download_for_a_dry_run_is_not_kept() {
    let test_bed = StateTestBed::for_files();
    let url = serve(1);
    let args = json!({"name": "$D/f", "source": format!("{url}/ok"), "source_hash": HI});
    let spare = tempfile::tempdir().unwrap();
    let ctx = crate::StateCtx { staging_dir: spare.path(), ..test_bed.scene() };
    for _ in 0..2 {
        // Asked for once only: the second look finds it in the spare place.
        let checked = build(&test_bed.chunk("managed", &args)).unwrap().check(&ctx).unwrap();
        assert_eq!(checked.verdict, crate::Verdict::Drifted);
    }
    assert_eq!(std::fs::read_dir(ctx.cache_dir).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(spare.path()).unwrap().count(), 1);
}

#[test]
fn a_download_with_another_digest_changes_nothing() {
    let test_bed = StateTestBed::for_files();
    let url = serve(2);
    let args = json!({"name": "$D/f", "source": format!("{url}/ok"), "source_hash": "a".repeat(64)});
    let answer = test_bed.run_chunk(&test_bed.chunk("managed", &args));
    assert_eq!(answer.result, Some(false));
    assert!(answer.comment.contains(&format!("does not match actual checksum ({HI})")), "{}", answer.comment);
    let gone = test_bed
        .chunk("managed", &json!({"name": "$D/f", "source": format!("{url}/gone"), "skip_verify": true}));
    let answer = test_bed.run_chunk(&gone);
    assert!(
        answer.comment.starts_with("Unable to manage file: Failed to cache http://127"),
        "{}",
        answer.comment
    );
    assert_eq!(test_bed.leftover_entries(), BTreeMap::new());
    let cached: Vec<_> = walk_files(&test_bed.cache);
    assert_eq!(cached, Vec::<PathBuf>::new());
}

#[test]
fn digests_come_from_lists_and_downloads_go_to_the_cache() {
    let test_bed = StateTestBed::for_files().tree("sums", &format!("{}  other\n{HI}  ok\n", "b".repeat(64)));
    let url = serve(1);
    let args = json!({"name": format!("{url}/ok"), "source_hash": "salt://sums"});
    let chunk = test_bed.chunk("cached", &args);
    let first = test_bed.run_chunk(&chunk);
    assert_eq!(first.changes["hash"]["new"], json!(HI), "{first:?}");
    assert!(
        first.comment.starts_with("File is already cached to $C/extrn_files/base/127.0.0.1"),
        "{first:?}"
    );
    assert_eq!(test_bed.run_chunk(&chunk).changes, json!({}));
    let gone = test_bed.chunk("not_cached", &json!({"name": format!("{url}/ok")}));
    assert_eq!(test_bed.run_chunk(&gone).changes, json!({"deleted": true}));
    assert_eq!(walk_files(&test_bed.cache), Vec::<PathBuf>::new());
}

fn walk_files(top: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut todo = vec![top.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { &mut todo } else { &mut files }.push(path);
        }
    }
    files
}

#[test]
fn what_is_replaced_is_kept_when_asked_for() {
    let test_bed = StateTestBed::for_files();
    put_file(&test_bed.test_dir().join("f"), "old\n", "0604");
    let chunk = test_bed.chunk("managed", &json!({"name": "$D/f", "contents": "new", "backup": "minion"}));
    assert_eq!(test_bed.run_chunk(&chunk).result, Some(true));
    let [copy] = walk_files(&test_bed.cache).try_into().unwrap();
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "old\n");
    assert_eq!(copy.metadata().unwrap().mode() & 0o7777, 0o604);
    assert!(copy.starts_with(
        test_bed.cache.join("file_backup").join(test_bed.test_dir().strip_prefix("/").unwrap())
    ));
}

#[test]
fn a_new_content_is_validated_in_its_own_place() {
    let test_bed = StateTestBed::for_files();
    let args = json!({
        "name": "$D/f", "contents": "x", "mode": "0640", "tmp_dir": "$D", "tmp_ext": ".conf",
        "check_cmd": "sh -c 'ls $(dirname $0) > $0.seen; test $(stat -c %a $0) = 640 && case $0 in *.conf) exit 0;; esac; exit 1'",
    });
    let answer = test_bed.run_chunk(&test_bed.chunk("managed", &args));
    assert_eq!(answer.result, Some(true), "{answer:?}");
    let left = test_bed.leftover_entries();
    let seen = left.iter().find(|(name, _)| name.ends_with(".conf.seen")).expect("the command ran");
    // While the command ran the file itself was not there yet; now the temporary one is gone.
    assert!(!seen.1.split_whitespace().any(|name| name == "f"), "{seen:?}");
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn cleaning_spares_what_other_states_answer_for() {
    let names = ["keep", "mine", "stray", "sub/kept", "sub/stray"];
    let test_bed = |compat| {
        let mut test_bed = StateTestBed::for_files();
        test_bed.compat = compat;
        names.iter().for_each(|name| put_file(&test_bed.test_dir().join("f").join(name), "x\n", "0644"));
        let clean = test_bed
            .chunk("directory", &json!({"name": "$D/f", "clean": true, "require": [{"file": "mine"}]}));
        let mut mine = test_bed.chunk("managed", &json!({"name": "$D/f/mine", "contents": "x"}));
        mine.id = "mine".into();
        let keep = test_bed.chunk("managed", &json!({"name": "$D/f/keep", "contents": "x"}));
        let kept = test_bed.chunk("managed", &json!({"name": "$D/f/sub/kept", "contents": "x"}));
        let gone = test_bed.chunk("absent", &json!({"name": "$D/f/stray"}));
        test_bed.plan.chunks = vec![mine, keep, kept, gone, clean.clone()];
        (test_bed, clean)
    };
    for (compat, expected) in [
        (Compat::Strict, vec!["f", "f/keep", "f/mine", "f/sub", "f/sub/kept"]),
        (Compat::Salt, vec!["f", "f/mine"]),
    ] {
        let (test_bed, clean) = test_bed(compat);
        assert_eq!(test_bed.run_chunk(&clean).result, Some(true));
        assert_eq!(test_bed.leftover_entries().into_keys().collect::<Vec<_>>(), expected, "{compat:?}");
        assert_eq!(test_bed.run_chunk(&clean).changes, json!({}), "{compat:?}");
    }
}

#[test]
fn what_is_not_done_here_is_said() {
    let test_bed = StateTestBed::for_files();
    for (key, value, words) in [
        ("selinux", json!({"seuser": "u"}), "is not supported by file.managed here"),
        ("signature", json!(true), "is the signature of a source, and there is none: add `source`"),
        ("source_hash_sig", json!("x.asc"), "is the signature of a source, and there is none: add `source`"),
    ] {
        let mut args = json!({"name": "$D/f", "contents": "x"});
        args[key] = value;
        let answer = test_bed.run_chunk(&test_bed.chunk("managed", &args));
        assert_eq!(answer.comment, format!("`{key}` {words}"));
        assert_eq!(test_bed.leftover_entries(), BTreeMap::new());
    }
    let foreign =
        test_bed.chunk("managed", &json!({"name": "$D/f", "source": "s3://b/x", "source_hash": HI}));
    assert!(test_bed.run_chunk(&foreign).comment.contains("the protocol of `s3://b/x` is not supported"));
}

#[test]
fn a_template_that_fails_changes_nothing() {
    let test_bed = StateTestBed::for_files().tree("t", "{{ fail }}");
    let args = json!({"name": "$D/f", "source": "salt://t", "template": "jinja"});
    let answer = test_bed.run_chunk(&test_bed.chunk("managed", &args));
    assert_eq!(answer.comment, "Unable to manage file: t: told to fail");
    assert_eq!(test_bed.leftover_entries(), BTreeMap::new());
}

#[test]
fn a_watch_makes_them_look_again_and_no_more() {
    let test_bed = StateTestBed::for_files();
    for (fun, args) in [
        ("managed", json!({"name": "$D/f", "contents": "x"})),
        ("directory", json!({"name": "$D/g"})),
        ("symlink", json!({"name": "$D/h", "target": "/t"})),
    ] {
        let chunk = test_bed.chunk(fun, &args);
        let mut state = build(&chunk).unwrap();
        assert!(!state.react(&test_bed.scene()).unwrap().changes.is_empty(), "{fun}");
        let again = state.react(&test_bed.scene()).unwrap();
        assert!(again.changes.is_empty() && !again.comment.is_empty(), "{fun}: {again:?}");
    }
}
