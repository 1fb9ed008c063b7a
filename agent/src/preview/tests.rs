//! Small plans against a scratch directory.

use std::os::unix::fs::{PermissionsExt, symlink};

use zagent_compiler::{Edge, Graph, Requisite};
use zagent_config::Map;

use super::*;
use crate::files::DirFiles;

struct Upper;

impl Templates for Upper {
    fn render(&self, file: &TemplateFile<'_>) -> Result<String, String> {
        let who = file.variables.get("who").and_then(Value::as_str).ok_or("no `who`")?;
        Ok(file.source.replace("{{ who }}", who))
    }
}

fn chunk(id: &str, function: &str, name: &str, args: &str) -> Chunk {
    let (state, fun) = function.split_once('.').unwrap();
    let args = Value::from_json_str(args).unwrap();
    let args = args.as_map().cloned().unwrap_or_else(Map::new);
    let mut chunk = Chunk::single(state, fun, name, args);
    (chunk.id, chunk.sls) = (id.into(), "t".into());
    chunk
}

fn plan(chunks: Vec<Chunk>, edges: &[(usize, usize, Requisite)]) -> Plan {
    let levels = (0..chunks.len()).map(|i| vec![i]).collect();
    let edges = edges.iter().map(|(from, to, kind)| Edge { from: *from, to: *to, kind: *kind }).collect();
    Plan { chunks, graph: Graph { edges, levels } }
}

fn run(plan: &Plan, states: &Path, compat: Compat) -> Vec<Outcome> {
    let files = DirFiles::base(states);
    let pillar = Value::from_json_str(r#"{"a": {"text": "from pillar"}, "n": 1}"#).unwrap();
    let mask = Mask::new(&["hunter2".to_owned()]);
    let scene = Scene { files: &files, pillar: &pillar, templates: &Upper, compat, mask: &mask };
    preview(plan, &scene).states.into_iter().map(|(_, _, o)| o).collect()
}

fn verdicts(chunks: Vec<Chunk>, edges: &[(usize, usize, Requisite)]) -> Vec<Verdict> {
    run(&plan(chunks, edges), Path::new("/nonexistent"), Compat::Strict)
        .into_iter()
        .map(|o| o.verdict)
        .collect()
}

#[test]
fn files_are_compared_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(at("same"), "x\n").unwrap();
    std::fs::set_permissions(at("same"), PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(at("other"), "old hunter2\n").unwrap();
    std::fs::write(at("src"), "hello {{ who }}\n").unwrap();
    std::fs::create_dir(at("d")).unwrap();
    symlink("same", at("link")).unwrap();
    use Verdict::{Unchanged, Unknown, WouldChange, WouldFail};
    let cases = [
        ("file.managed", at("same"), r#"{"contents": "x", "mode": "0600"}"#, Unchanged),
        ("file.managed", at("same"), r#"{"contents": "x", "mode": 640}"#, WouldChange),
        ("file.managed", at("other"), r#"{"contents": ["new"]}"#, WouldChange),
        ("file.managed", at("other"), r#"{"contents": "new", "replace": false}"#, Unchanged),
        ("file.managed", at("new"), r#"{"contents_pillar": "a:text"}"#, WouldChange),
        ("file.managed", at("new2"), r#"{"contents_pillar": "a:nope"}"#, Unknown),
        (
            "file.managed",
            at("new3"),
            r#"{"source": "salt://src", "template": "jinja", "context": {"who": "me"}}"#,
            WouldChange,
        ),
        ("file.managed", at("new4"), r#"{"source": "salt://src", "template": "jinja"}"#, Unknown),
        ("file.managed", at("new5"), r#"{"source": "https://example.org/x"}"#, Unknown),
        ("file.managed", at("no/such/dir"), r#"{"contents": "x"}"#, WouldFail),
        ("file.managed", at("no/such/dir"), r#"{"contents": "x", "makedirs": true}"#, WouldChange),
        ("file.managed", at("d"), r#"{"contents": "x"}"#, WouldFail),
        ("file.managed", "relative".into(), r#"{"contents": "x"}"#, WouldFail),
        ("file.managed", at("same"), r#"{"contents": "x", "user": "nobody-by-that-name"}"#, Unknown),
        ("file.directory", at("d"), "{}", Unchanged),
        ("file.directory", at("d2"), "{}", WouldChange),
        ("file.directory", at("same"), "{}", WouldFail),
        ("file.absent", at("nope"), "{}", Unchanged),
        ("file.absent", at("d"), "{}", WouldChange),
        ("file.symlink", at("link"), r#"{"target": "same"}"#, Unchanged),
        ("file.symlink", at("link"), r#"{"target": "other"}"#, WouldChange),
        ("file.symlink", at("other"), r#"{"target": "same"}"#, WouldFail),
        ("file.replace", at("same"), "{}", Unknown),
        ("pkg.installed", "nginx".into(), "{}", Unknown),
    ];
    for (function, name, args, want) in cases {
        let plan = plan(vec![chunk("s", function, &name, args)], &[]);
        let got = run(&plan, dir.path(), Compat::Strict);
        assert_eq!(got[0].verdict, want, "{function} {name} {args}: {}", got[0].comment);
        assert!(!got[0].diff.contains("hunter2"), "a secret is shown");
    }
    let mut left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["d", "link", "other", "same", "src"]);
}

#[test]
fn what_a_state_makes_is_there_for_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let made = chunk("dir", "file.directory", &at("sub"), "{}");
    let file = chunk("file", "file.managed", &at("sub/file"), r#"{"contents": "x"}"#);
    let gone = chunk("gone", "file.absent", &at("sub"), "{}");
    let got = run(&plan(vec![made, file, gone], &[(0, 1, Requisite::Require)]), dir.path(), Compat::Strict);
    assert_eq!(got[0].verdict, Verdict::WouldChange);
    assert_eq!(got[1].verdict, Verdict::WouldChange, "{}", got[1].comment);
}

#[test]
fn a_state_that_nobody_foresees_may_make_a_directory() {
    let file = || chunk("file", "file.managed", "/nonexistent/x", r#"{"contents": "x"}"#);
    let package = chunk("pkg", "pkg.installed", "nginx", "{}");
    assert_eq!(verdicts(vec![file()], &[]), [Verdict::WouldFail]);
    assert_eq!(verdicts(vec![package, file()], &[]), [Verdict::Unknown, Verdict::Unknown]);
}

#[test]
fn failure_and_change_travel() {
    use Requisite::{Onchanges, Onfail, Prereq, Require, RequireAny, Watch};
    let ok = || chunk("ok", "test.nop", "ok", "{}");
    let bad = || chunk("bad", "test.fail_without_changes", "bad", "{}");
    let new = || chunk("new", "test.succeed_with_changes", "new", "{}");
    let odd = || chunk("odd", "pkg.installed", "odd", "{}");
    let skipped = Verdict::Skipped;
    for (first, kind, want) in [
        (ok(), Require, Verdict::Unchanged),
        (bad(), Require, skipped(SkipReason::RequireFailed)),
        (new(), Require, Verdict::Unchanged),
        (bad(), RequireAny, skipped(SkipReason::RequireFailed)),
        (ok(), Onchanges, skipped(SkipReason::OnchangesNotMet)),
        (new(), Onchanges, Verdict::Unchanged),
        (odd(), Onchanges, Verdict::Unknown),
        (ok(), Watch, Verdict::Unchanged),
        (new(), Watch, Verdict::WouldChange),
        (odd(), Watch, Verdict::Unknown),
        (bad(), Watch, skipped(SkipReason::RequireFailed)),
        (ok(), Onfail, skipped(SkipReason::OnfailNotMet)),
        (new(), Onfail, skipped(SkipReason::OnfailNotMet)),
        (bad(), Onfail, Verdict::Unchanged),
        (odd(), Onfail, Verdict::Unknown),
    ] {
        let what = format!("{} {}", first.id, kind.key());
        assert_eq!(verdicts(vec![first, ok()], &[(0, 1, kind)])[1], want, "{what}");
    }
    // Transitive: what requires a skipped state is skipped too.
    let chain = verdicts(vec![bad(), ok(), new()], &[(0, 1, Require), (1, 2, Require)]);
    assert_eq!(chain[2], skipped(SkipReason::RequireFailed));
    // Prereq: the target is checked, then what prepares for it runs, then the target.
    let prepared = |target: Chunk| {
        let mut check = target.clone();
        check.prereq.check = true;
        verdicts(vec![check, ok(), target], &[(0, 1, Prereq), (1, 2, Require)])
    };
    assert_eq!(prepared(new()), [Verdict::Unchanged, Verdict::WouldChange]);
    assert_eq!(prepared(ok()), [skipped(SkipReason::PrereqNotMet), Verdict::Unchanged]);
    assert_eq!(prepared(odd()), [Verdict::Unknown, Verdict::Unknown]);
}

#[test]
fn guards_with_commands_are_not_run() {
    let guarded = chunk("g", "test.nop", "g", r#"{"onlyif": "touch /tmp/never"}"#);
    let created = chunk("c", "test.succeed_with_changes", "c", r#"{"creates": "/"}"#);
    assert_eq!(
        verdicts(vec![guarded, created], &[]),
        [Verdict::Unknown, Verdict::Skipped(SkipReason::Guard)]
    );
}

#[test]
fn pillar_keys_are_checked() {
    let check = |args| verdicts(vec![chunk("p", "test.check_pillar", "p", args)], &[])[0];
    assert_eq!(check(r#"{"present": ["a:text"], "integer": "n"}"#), Verdict::Unchanged);
    assert_eq!(check(r#"{"present": "nope"}"#), Verdict::WouldFail);
    assert_eq!(check(r#"{"string": ["n"]}"#), Verdict::WouldFail);
}

#[test]
fn the_report_is_complete_and_readable() {
    let chunks = vec![
        chunk("dir", "file.directory", "/nonexistent/sub", "{}"),
        chunk("ok", "test.nop", "ok", "{}"),
        chunk("new", "test.succeed_with_changes", "new", "{}"),
        chunk("odd", "pkg.installed", "odd", "{}"),
        chunk("after", "test.nop", "after", "{}"),
    ];
    let plan = plan(chunks, &[(0, 4, Requisite::Require)]);
    let files = DirFiles::base("/nonexistent");
    let pillar = Value::empty_map();
    let scene = Scene {
        files: &files,
        pillar: &pillar,
        templates: &Upper,
        compat: Compat::Strict,
        mask: &Mask::default(),
    };
    let seen = preview(&plan, &scene);
    let head = Head { node: "web-01", revision: "states", compat: Compat::Strict, duration_ms: 1.5 };
    insta::assert_snapshot!("text", text(&seen, &head, false, crate::output::Paint::default()));
    insta::assert_snapshot!("verbose", text(&seen, &head, true, crate::output::Paint::default()));
    insta::assert_json_snapshot!("json", to_json(&seen, &head));
}
