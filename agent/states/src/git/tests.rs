//! Repositories against a local one.

use zagent_config::{Map, Value};

use super::GIT_REPO_UNDO;
use crate::Undoable as _;
use crate::testing::{StateTestBed, apply_chunk, chunk, preview_chunk};
use zagent_host::{Machine, Tools};

fn git(dir: &str, line: &str) -> String {
    let machine = Machine::this_host();
    let words: Vec<&str> = ["-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org"]
        .into_iter()
        .chain(line.split(' '))
        .collect();
    let said = Tools::new(&machine).run_checked("git", &words).unwrap();
    said.stdout.trim().to_owned()
}

/// A repository with one commit, and where it is.
fn origin(test_bed: &StateTestBed) -> String {
    let dir = test_bed.path("origin");
    std::fs::create_dir(&dir).unwrap();
    git(&dir, "init -q -b main .");
    commit(&dir);
    dir
}

fn commit(dir: &str) -> String {
    git(dir, "commit -q --allow-empty -m x");
    git(dir, "rev-parse HEAD")
}

#[test]
fn a_clone_follows_and_keeps_what_is_not_committed() {
    let test_bed = StateTestBed::new();
    let (from, to) = (origin(&test_bed), test_bed.path("clone"));
    let first = git(&from, "rev-parse HEAD");
    let latest = chunk("git.latest", &from, &format!(r#"{{"target": "{to}"}}"#));
    let would = format!("null \"Repository {from} would be cloned to {to}\"");
    assert!(preview_chunk(&latest, &test_bed.scene()).starts_with(&would));
    let said = apply_chunk(&latest, &test_bed.scene());
    let want = format!(
        "true \"{from} cloned to {to}\" {{\"new\":\"{from} => {to}\",\"revision\":{{\"old\":null,\"new\":\"{first}\"}}}}"
    );
    assert_eq!(said, want);
    assert_eq!(
        apply_chunk(&latest, &test_bed.scene()),
        format!("true \"Repository {to} is up-to-date\" {{}}")
    );
    let second = commit(&from);
    git(&from, "tag v1");
    let said = apply_chunk(&latest, &test_bed.scene());
    assert!(said.contains("was fast-forwarded to remote HEAD"), "{said}");
    assert!(said.contains(&format!(r#""revision":{{"old":"{first}","new":"{second}"}}"#)), "{said}");
    assert!(said.contains(r#""new_tags":["v1"]"#), "{said}");
    git(&to, "commit -q --allow-empty -m mine");
    commit(&from);
    assert!(
        apply_chunk(&latest, &test_bed.scene())
            .contains("but this is not a fast-forward merge. Set 'force_reset'")
    );
    let forced = chunk("git.latest", &from, &format!(r#"{{"target": "{to}", "force_reset": true}}"#));
    assert!(apply_chunk(&forced, &test_bed.scene()).contains("Repository was hard-reset to remote HEAD"));
    assert_eq!(git(&to, "rev-parse HEAD"), git(&from, "rev-parse HEAD"));
}

#[test]
fn what_is_not_committed_goes_before_a_fast_forward_and_is_told() {
    let test_bed = StateTestBed::new();
    let (from, to) = (origin(&test_bed), test_bed.path("clone"));
    std::fs::write(format!("{from}/a"), "a\n").unwrap();
    git(&from, "add a");
    commit(&from);
    let latest =
        |reset: &str| chunk("git.latest", &from, &format!(r#"{{"target": "{to}", "force_reset": {reset}}}"#));
    assert!(apply_chunk(&latest("false"), &test_bed.scene()).starts_with("true"));
    for reset in ["true", "\"remote-changes\""] {
        commit(&from);
        std::fs::write(format!("{to}/a"), "mine\n").unwrap();
        let refused = apply_chunk(&latest("false"), &test_bed.scene());
        assert!(refused.contains("there are uncommitted changes. Set 'force_reset'"), "{refused}");
        let said = apply_chunk(&latest(reset), &test_bed.scene());
        let told = "Uncommitted changes were discarded. Repository was fast-forwarded to remote HEAD";
        assert!(said.contains(told) && !said.contains("forced update"), "{said}");
        assert_eq!(std::fs::read_to_string(format!("{to}/a")).unwrap(), "a\n");
    }
}

#[test]
fn a_revision_that_no_fetch_brings_is_a_failure() {
    let test_bed = StateTestBed::new();
    let (from, to) = (origin(&test_bed), test_bed.path("clone"));
    let state = chunk("git.latest", &from, &format!(r#"{{"target": "{to}", "rev": "deadbeef"}}"#));
    let said = apply_chunk(&state, &test_bed.scene());
    let words = format!("Fetch did not successfully retrieve rev 'deadbeef' from {from}");
    assert!(said.starts_with("false") && said.contains(&words), "{said}");
    // It was cloned: what is there now is told.
    let head = git(&from, "rev-parse HEAD");
    assert!(said.contains(&format!(r#""revision":{{"old":null,"new":"{head}"}}"#)), "{said}");
    // It was only fetched into: the head is where it was.
    let said = apply_chunk(&state, &test_bed.scene());
    assert!(said.contains(&words) && !said.contains("revision\":"), "{said}");
}

#[test]
fn a_push_after_the_fetch_is_fetched_too() {
    let test_bed = StateTestBed::new();
    let (from, to) = (origin(&test_bed), test_bed.path("clone"));
    let latest = chunk("git.latest", &from, &format!(r#"{{"target": "{to}"}}"#));
    assert!(apply_chunk(&latest, &test_bed.scene()).starts_with("true"));
    commit(&from);
    // The first fetch is followed by a push at once.
    let hook = format!("{to}/.git/hooks/reference-transaction");
    let push = "git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m pushed";
    let script = format!(
        "#!/bin/sh\ncat >/dev/null\n[ \"$1\" = committed ] || exit 0\nrm -f '{hook}'\nunset GIT_DIR\ncd '{from}' && {push}\n"
    );
    std::fs::create_dir_all(format!("{to}/.git/hooks")).unwrap();
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let said = apply_chunk(&latest, &test_bed.scene());
    assert!(!std::path::Path::new(&hook).exists(), "the push did not happen");
    assert!(said.starts_with("true"), "{said}");
    assert_eq!(git(&from, "log -1 --format=%s"), "pushed");
    assert_eq!(git(&to, "rev-parse HEAD"), git(&from, "rev-parse HEAD"));
}

#[test]
fn a_tag_behind_the_head_and_a_branch() {
    let test_bed = StateTestBed::new();
    let (from, to) = (origin(&test_bed), test_bed.path("clone"));
    git(&from, "tag v1");
    commit(&from);
    let args = format!(r#"{{"target": "{to}", "rev": "v1"}}"#);
    let tag = chunk("git.latest", &from, &args);
    assert!(apply_chunk(&tag, &test_bed.scene()).contains("Repository was reset to v1"));
    assert!(apply_chunk(&tag, &test_bed.scene()).contains("is up-to-date"));
    git(&from, "branch next");
    let args = format!(r#"{{"target": "{to}", "rev": "next", "branch": "mine"}}"#);
    let branch = chunk("git.latest", &from, &args);
    assert!(
        apply_chunk(&branch, &test_bed.scene())
            .contains("New branch 'mine' was checked out, with origin/next")
    );
    assert!(apply_chunk(&branch, &test_bed.scene()).contains("is up-to-date"));
    assert_eq!(git(&to, "rev-parse --abbrev-ref mine@{upstream}"), "origin/next");
    let none = chunk("git.latest", &from, &format!(r#"{{"target": "{to}", "rev": "nope"}}"#));
    assert!(apply_chunk(&none, &test_bed.scene()).contains("No revision matching 'nope' exists"));
}

#[test]
fn a_directory_with_something_else_stays() {
    let test_bed = StateTestBed::new();
    let (from, to) = (origin(&test_bed), test_bed.path("full"));
    std::fs::create_dir(&to).unwrap();
    std::fs::write(test_bed.path("full/x"), "mine").unwrap();
    for function in ["git.latest", "git.detached", "git.cloned"] {
        let state = chunk(function, &from, &format!(r#"{{"target": "{to}", "rev": "main"}}"#));
        assert!(
            apply_chunk(&state, &test_bed.scene())
                .contains("exists, is non-empty and is not a git repository"),
            "{function}"
        );
    }
    let forced = chunk("git.latest", &from, &format!(r#"{{"target": "{to}", "force_clone": true}}"#));
    assert!(apply_chunk(&forced, &test_bed.scene()).contains(r#""forced clone":true"#));
    assert!(!test_bed.exists("full/x"));
}

#[test]
fn a_detached_head_and_a_mirror() {
    let test_bed = StateTestBed::new();
    let from = origin(&test_bed);
    let first = git(&from, "rev-parse HEAD");
    let second = commit(&from);
    let to = test_bed.path("at");
    let at = |rev: &str| chunk("git.detached", &from, &format!(r#"{{"target": "{to}", "rev": "{rev}"}}"#));
    assert!(
        apply_chunk(&at(&first), &test_bed.scene())
            .contains(&format!("Commit ID {first} was checked out at {to}"))
    );
    assert!(apply_chunk(&at(&first), &test_bed.scene()).contains("Already checked out at correct revision"));
    let moved = format!(r#"{{"HEAD":{{"old":"{first}","new":"{second}"}}}}"#);
    assert!(apply_chunk(&at("main"), &test_bed.scene()).ends_with(&moved));
    let to = test_bed.path("mirror");
    let mirror = chunk("git.latest", &from, &format!(r#"{{"target": "{to}", "mirror": true}}"#));
    assert!(apply_chunk(&mirror, &test_bed.scene()).contains("as mirror"));
    let third = commit(&from);
    assert!(apply_chunk(&mirror, &test_bed.scene()).contains("was fetched"));
    assert_eq!(git(&to, "rev-parse main"), third);
    assert!(apply_chunk(&mirror, &test_bed.scene()).contains("is up-to-date"));
}

#[test]
fn values_of_a_configuration() {
    let test_bed = StateTestBed::new();
    let repo = test_bed.path("r");
    let made = chunk("git.present", &repo, r#"{"bare": false}"#);
    assert!(apply_chunk(&made, &test_bed.scene()).contains("Initialized repository in"));
    let set = |args: &str| chunk("git.config_set", "a.b", &format!(r#"{{"repo": "{repo}", {args}}}"#));
    let said = apply_chunk(&set(r#""value": 1"#), &test_bed.scene());
    assert_eq!(said, r#"true "'a.b' was added as '1'" {"a.b":{"old":null,"new":["1"]}}"#);
    assert!(apply_chunk(&set(r#""value": 1"#), &test_bed.scene()).contains("'a.b' is already set to '1'"));
    assert!(
        apply_chunk(&set(r#""multivar": ["1", "2"]"#), &test_bed.scene()).contains("was set to ['1', '2']")
    );
    let unset = |args: &str| chunk("git.config_unset", "a.*", &format!(r#"{{"repo": "{repo}" {args}}}"#));
    assert!(
        apply_chunk(&unset(""), &test_bed.scene())
            .contains("set 'all' to True to force removal): a.b (1, 2)")
    );
    let said = apply_chunk(&unset(r#", "value_regex": "^1""#), &test_bed.scene());
    assert_eq!(said, r#"true "Value(s) successfully unset" {"a.b":["1"]}"#);
    assert_eq!(git(&repo, "config --get-all a.b"), "2");
}

#[test]
fn a_file_that_git_does_not_know_is_not_written_over() {
    let test_bed = StateTestBed::new();
    let (from, to) = (origin(&test_bed), test_bed.path("clone"));
    let latest = chunk("git.latest", &from, &format!(r#"{{"target": "{to}"}}"#));
    apply_chunk(&latest, &test_bed.scene());
    let (own, new) = (format!("{to}/config.php"), format!("{from}/config.php"));
    std::fs::write(&own, "mine").unwrap();
    std::fs::write(new, "theirs").unwrap();
    git(&from, "add config.php");
    git(&from, "commit -q -m config");
    let said = apply_chunk(&latest, &test_bed.scene());
    assert!(said.starts_with("false") && said.contains("config.php"), "{said}");
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "mine");
    std::fs::remove_file(&own).unwrap();
    let said = apply_chunk(&latest, &test_bed.scene());
    assert!(said.starts_with("true"), "{said}");
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "theirs");
}

#[test]
fn a_repository_in_which_somebody_worked_is_kept() {
    let test_bed = StateTestBed::new();
    let (from, to) = (origin(&test_bed), test_bed.path("clone"));
    apply_chunk(&chunk("git.latest", &from, &format!(r#"{{"target": "{to}"}}"#)), &test_bed.scene());
    let key = Value::from(Map::from_iter([("path", to.as_str())]));
    let look = || GIT_REPO_UNDO.capture(&key, &test_bed.scene()).unwrap();
    let left = look();
    assert_eq!(GIT_REPO_UNDO.removal_blocker(&key, &test_bed.scene()).unwrap(), None);
    std::fs::write(format!("{to}/upload"), "").unwrap();
    assert!(!GIT_REPO_UNDO.is_same(&look(), &left));
    let why = GIT_REPO_UNDO.removal_blocker(&key, &test_bed.scene()).unwrap();
    assert_eq!(why.as_deref(), Some("`upload` there is not committed"));
    // What git ignores would be lost as well, but hinders nothing else.
    std::fs::write(format!("{to}/.git/info/exclude"), "upload\n").unwrap();
    assert!(GIT_REPO_UNDO.is_same(&look(), &left));
    assert!(GIT_REPO_UNDO.removal_blocker(&key, &test_bed.scene()).unwrap().is_some());
}

#[test]
fn a_password_in_an_address_is_neither_noted_nor_shown() {
    let test_bed = StateTestBed::new();
    let dir = origin(&test_bed);
    git(&dir, "remote add origin https://u:hush@h.example.org/x");
    let key = Value::from(Map::from_iter([("path", dir.as_str())]));
    let noted = serde_json::to_string(&GIT_REPO_UNDO.capture(&key, &test_bed.scene()).unwrap()).unwrap();
    assert!(noted.contains("h.example.org/x") && !noted.contains("hush"), "{noted}");
}

#[test]
fn a_key_of_the_tree_is_a_file_only_as_long_as_git_needs_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let test_bed = StateTestBed::with_files(&[("keys/id", "a key\n")], "{}");
    let access = |identity: &str| {
        let chunk = chunk(
            "git.latest",
            "ssh://h/x",
            &format!(r#"{{"target": "/t", "identity": ["/k", "{identity}"]}}"#),
        );
        super::GitAccess::from_args(&crate::ChunkArgs::new(&chunk))
    };
    let ctx = test_bed.scene();
    let git = access("salt://keys/id").unwrap().git(&ctx).unwrap();
    let shown = format!("{git:?}");
    let path = shown
        .split("PrivateTempFile { path: \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .expect("a file")
        .to_owned();
    assert!(shown.contains(&format!("-i '/k' -i '{path}'")), "{shown}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a key\n");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    drop(git);
    assert!(!std::path::Path::new(&path).exists());
    let missing = access("salt://keys/none").unwrap().git(&ctx).unwrap_err();
    assert!(missing.result.comment.contains("salt://keys/none"), "{}", missing.result.comment);
    assert!(access("keys/id").is_err_and(|f| f.result.comment.contains("not an absolute path")));
}

#[test]
fn a_clone_of_what_is_not_there_is_foretold() {
    let test_bed = StateTestBed::strict();
    let (from, to) = (origin(&test_bed), test_bed.path("clone"));
    git(&from, "tag v1");
    let cloned =
        |branch: &str| chunk("git.cloned", &from, &format!(r#"{{"target": "{to}", "branch": "{branch}"}}"#));
    let none = "No branch or tag 'nope' exists in the remote repository";
    assert!(preview_chunk(&cloned("nope"), &test_bed.scene()).contains(none));
    for there in ["main", "v1"] {
        assert!(preview_chunk(&cloned(there), &test_bed.scene()).starts_with("null"), "{there}");
    }
    assert!(apply_chunk(&cloned("main"), &test_bed.scene()).starts_with("true"));
    assert!(preview_chunk(&cloned("nope"), &test_bed.scene()).contains(none));
    let gone =
        chunk("git.cloned", &test_bed.path("gone"), &format!(r#"{{"target": "{}"}}"#, test_bed.path("x")));
    assert!(preview_chunk(&gone, &test_bed.scene()).contains("Failed to check remote refs"));
}

#[test]
fn a_dry_revert_of_a_clone_takes_its_files_away() {
    use crate::StateCtx;
    use zagent_host::disk::Disk;
    use zagent_host::fs::{FileSystem as _, Overlay};

    let test_bed = StateTestBed::new();
    let (from, to) = (origin(&test_bed), test_bed.path("clone"));
    let latest = chunk("git.latest", &from, &format!(r#"{{"target": "{to}"}}"#));
    assert!(apply_chunk(&latest, &test_bed.scene()).starts_with("true"));
    let overlay = Overlay::new(std::sync::Arc::new(Disk::default()));
    let ctx = StateCtx { fs: &overlay, ..test_bed.scene() };
    let key = Value::from(Map::from_iter([("path", Value::from(to.as_str()))]));
    GIT_REPO_UNDO.simulate_restore(&key, &Value::Null, &ctx).unwrap();
    assert!(overlay.read_dir(to.as_ref()).unwrap().is_empty(), "so that the directory goes with its note");
    assert!(test_bed.exists("clone/.git"));
}
