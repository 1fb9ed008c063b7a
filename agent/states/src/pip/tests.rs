//! What is compared, and what pip is told.

use super::*;
use crate::testing::{StateTestBed, chunk, preview_chunk};

fn found(args: &str, provider: &str, names: &[&str]) -> (Vec<String>, bool) {
    let chunk = chunk("pip.installed", "x", args);
    let pip = PipState {
        function: PipFunction::Install,
        provider: LangPkgProvider::new(&Pip),
        names: Vec::new(),
        chunk,
    };
    let mut found = PipCheck {
        targets: Vec::new(),
        names: Vec::new(),
        in_sync_comments: Vec::new(),
        needs_install: false,
        is_unknown: false,
    };
    let provider = parse_list(provider).unwrap_or_else(|e| panic!("{}", e.message()));
    names.iter().for_each(|n| pip.classify_package(n, &provider, &mut found));
    (found.targets, found.is_unknown)
}

const SHELF: &str = "WARNING: old\n[{\"name\": \"Foo.Bar\", \"version\": \"1.2\"}, {\"name\": \"six\", \"version\": \"1.16.0\"}]";

#[test]
fn what_is_there_is_compared() {
    assert_eq!(found("{}", SHELF, &["foo_bar>=1", "six==1.16.0"]), (vec![], false));
    assert_eq!(found("{}", SHELF, &["foo-bar<1", "new"]), (vec!["foo-bar<1".into(), "new".into()], false));
    assert_eq!(found(r#"{"force_reinstall": true}"#, SHELF, &["six"]), (vec!["six".into()], false));
    assert_eq!(found(r#"{"upgrade": true}"#, SHELF, &["six"]), (vec!["six".into()], true));
    assert_eq!(found("{}", SHELF, &["-e git+https://h/x.git#egg=six", "--index-url x"]), (vec![], false));
    assert_eq!(found("{}", SHELF, &["https://h/x.whl"]), (vec!["https://h/x.whl".into()], true));
    assert_eq!(found("{}", SHELF, &["-r more.txt"]), (vec![], true));
}

#[test]
fn what_cannot_be_read_is_told_at_once() {
    let test_bed = StateTestBed::new();
    let said = preview_chunk(&chunk("pip.installed", "foo=1", "{}"), &test_bed.scene());
    assert!(said.contains("use '==' instead"), "{said}");
    let said = preview_chunk(&chunk("pip.installed", "x", r#"{"pkgs": "a"}"#), &test_bed.scene());
    assert!(said.contains("must be formatted as a list"), "{said}");
    let removed = chunk("pip.removed", "x", r#"{"pkgs": [], "bin_env": "/nowhere/pip"}"#);
    assert!(preview_chunk(&removed, &test_bed.scene()).contains("Error uninstalling 'x'"));
}

#[test]
fn addresses_are_not_among_the_words() {
    let test_bed = StateTestBed::new();
    let bin = test_bed.path("pip");
    let script = "#!/bin/sh\ntest \"$1\" = list && echo '[]' && exit\n\
                  echo \"$*\" > $0.said\nenv | grep ^PIP_ | sort >> $0.said\nexec 2>&1; cat ${4:-/dev/null}; exit 1\n";
    std::fs::write(&bin, script).unwrap();
    std::fs::set_permissions(&bin, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let args = format!(
        r#"{{"bin_env": "{bin}", "index_url": "https://t1@h/", "extra_index_url": ["https://t2@h/", "https://h3/"],
            "proxy": "http://u:t3@p", "pkgs": ["six", "git+https://t4@h/x.git"]}}"#
    );
    let said = crate::testing::apply_chunk(&chunk("pip.installed", "x", &args), &test_bed.scene());
    let called = std::fs::read_to_string(test_bed.path("pip.said")).unwrap();
    let (words, variables) = called.split_once('\n').unwrap();
    assert!(words.starts_with("install six --requirement /") && !words.contains('@'), "{words}");
    for want in
        ["INDEX_URL=https://t1@h/", "EXTRA_INDEX_URL=https://t2@h/ https://h3/", "PROXY=http://u:t3@p"]
    {
        assert!(variables.lines().any(|l| l.strip_prefix("PIP_") == Some(want)), "{variables}");
    }
    // What pip was given in the file comes back in its complaint, without the login.
    assert!(said.starts_with("false") && said.contains("git+https://<redacted>@h/x.git"), "{said}");
    assert!(!said.contains("t4"), "{said}");
}

#[test]
fn nothing_is_taken_for_an_option() {
    let test_bed = StateTestBed::new();
    for (function, name) in [
        ("pip.removed", "-r/etc/passwd"),
        ("pip.installed", "--index-url=http://x"),
        ("gem.installed", "--source=http://x"),
        ("gem.sources_add", "-r"),
        ("npm.installed", "--prefix=/"),
        ("npm.removed", "-g"),
        ("alternatives.auto", "--force"),
        ("alternatives.set", "--force"),
    ] {
        let said = preview_chunk(&chunk(function, name, r#"{"path": "/x"}"#), &test_bed.scene());
        assert!(said.contains("would be taken for an option"), "{function} {name}: {said}");
    }
}

#[test]
fn files_of_this_host_are_left_where_they_are() {
    let local = |cwd: Option<&str>, file: &str| {
        let provider = LangPkgProvider { cwd: cwd.map(str::to_owned), ..LangPkgProvider::new(&Pip) };
        let chunk = chunk("pip.installed", "x", "{}");
        PipState { function: PipFunction::Install, provider, names: Vec::new(), chunk }.local_path(file)
    };
    assert_eq!(local(None, "/a/r.txt").as_deref(), Some("/a/r.txt"));
    assert_eq!(local(Some("/b"), "/a/r.txt").as_deref(), Some("/a/r.txt"));
    assert_eq!(local(Some("/b"), "r.txt").as_deref(), Some("/b/r.txt"));
    assert_eq!(local(Some("/b"), "salt://r.txt"), None);
}
