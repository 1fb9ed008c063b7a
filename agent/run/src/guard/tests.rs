//! Guards against real commands and files, in Salt's words.

use super::*;
use zagent_states::testing::{StateTestBed, chunk};

fn said(test_bed: &StateTestBed, args: &str) -> String {
    match evaluate(&chunk("test.nop", "x", args), &test_bed.scene()) {
        Ok(GuardDecision::Run) => "run".into(),
        Ok(GuardDecision::Skip { comment }) => comment,
        Err(failure) => format!("failed: {}", failure.result.comment),
    }
}

#[test]
fn guards_answer_as_salt_does() {
    let test_bed = StateTestBed::with_files(&[], r#"{"flag": {"deep": ""}}"#);
    let rows = [
        ("{}", "run"),
        (r#"{"onlyif": "true"}"#, "run"),
        (r#"{"onlyif": "false"}"#, "onlyif condition is false"),
        (r#"{"onlyif": ["true", "false", "true"]}"#, "onlyif condition is false"),
        (r#"{"onlyif": "no-such-program"}"#, "onlyif condition is false"),
        (r#"{"onlyif": "echo hello | grep -q hell"}"#, "run"),
        (r#"{"unless": "true"}"#, "unless condition is true"),
        (r#"{"unless": "false"}"#, "run"),
        (r#"{"unless": ["true", "true"]}"#, "unless condition is true"),
        (r#"{"unless": ["true", "false"]}"#, "run"),
        (r#"{"onlyif": "false", "unless": "false"}"#, "onlyif condition is false\nunless condition is false"),
        (r#"{"onlyif": "true", "unless": "true"}"#, "onlyif condition is true\nunless condition is true"),
        (r#"{"onlyif": true}"#, "run"),
        (r#"{"onlyif": false}"#, "run"),
        (r#"{"unless": true}"#, "run"),
        (r#"{"unless": ["true", true]}"#, "run"),
        (r#"{"unless": [true, "true"]}"#, "unless condition is true"),
        (r#"{"onlyif": []}"#, "failed: An exception occurred in this state: KeyError: 'comment'"),
        (r#"{"unless": []}"#, "failed: An exception occurred in this state: KeyError: 'comment'"),
        (r#"{"onlyif": [{"foo": "bar"}]}"#, "run"),
        (
            r#"{"onlyif": [{"foo": "bar"}], "unless": "true"}"#,
            "no `fun` argument in onlyif: {'foo': 'bar'}\nunless condition is true",
        ),
        (r#"{"onlyif": [{"fun": "test.true"}]}"#, "run"),
        (r#"{"onlyif": [{"fun": "test.false"}]}"#, "onlyif condition is false"),
        (r#"{"unless": ["true", {"fun": "test.true"}]}"#, "unless condition is true"),
        (r#"{"unless": [{"fun": "test.true"}, "false"]}"#, "run"),
        (r#"{"onlyif": [{"fun": "file.file_exists", "args": ["/etc/passwd"]}]}"#, "run"),
        (
            r#"{"onlyif": [{"fun": "file.directory_exists", "path": "/etc/passwd"}]}"#,
            "onlyif condition is false",
        ),
        (r#"{"unless": [{"fun": "match.grain", "tgt": "os_family:Debian"}]}"#, "unless condition is true"),
        (
            r#"{"onlyif": [{"fun": "test.kwarg", "a": {"b": 0}, "get_return": "a:b"}]}"#,
            "onlyif condition is false",
        ),
        (
            r#"{"onlyif": [{"fun": "no.such"}]}"#,
            "failed: An exception occurred in this state: KeyError: 'no.such'",
        ),
        (r#"{"creates": "/etc/passwd"}"#, "/etc/passwd exists"),
        (r#"{"creates": "/no/such"}"#, "run"),
        (r#"{"creates": ["/etc/passwd", "/etc"]}"#, "All files in creates exist"),
        (r#"{"creates": ["/etc/passwd", "/no/such"]}"#, "run"),
        (r#"{"creates": []}"#, "All files in creates exist"),
        (r#"{"creates": 7}"#, "run"),
        (r#"{"unless": "false", "creates": "/etc"}"#, "unless condition is false\n/etc exists"),
        (r#"{"onlyif": "true", "runas": "no_such_user_zz"}"#, "onlyif condition is false"),
        (r#"{"unless": "false", "runas": "no_such_user_zz"}"#, "unless condition is true"),
        (r#"{"onlyif": "true", "runas": "no_such_user_zz", "cmd_opts_exclude": ["runas"]}"#, "run"),
        (r#"{"onlyif": "pwd | grep -q ^/usr$", "cwd": "/usr"}"#, "run"),
        (
            r#"{"onlyif": "pwd | grep -q ^/usr$", "cwd": "/usr", "cmd_opts_exclude": "cwd"}"#,
            "onlyif condition is false",
        ),
        (r#"{"onlyif": "test $A = 1", "env": [{"A": 1}]}"#, "run"),
        (r#"{"onlyif": "exit 3", "success_retcodes": [3]}"#, "run"),
        (r#"{"onlyif": "sleep 1000", "timeout": 0.05}"#, "onlyif condition is false"),
    ];
    for (args, want) in rows {
        assert_eq!(said(&test_bed, args), want, "{args}");
    }
}

#[test]
fn strict_tells_what_cannot_be_told() {
    let test_bed = StateTestBed::strict();
    for (args, want) in [
        (r#"{"onlyif": []}"#, "run"),
        (
            r#"{"onlyif": "true", "runas": "no_such_user_zz"}"#,
            "failed: cannot tell whether `onlyif` holds: User 'no_such_user_zz' is not available",
        ),
        (
            r#"{"unless": [{"fun": "no.such"}]}"#,
            "failed: `unless` calls `no.such`, and there is no such function here",
        ),
    ] {
        assert_eq!(said(&test_bed, args), want, "{args}");
    }
}

#[test]
fn check_cmd_has_the_last_word() {
    let test_bed = StateTestBed::new();
    let no = || Err("check_cmd determined the state failed".to_owned());
    for (args, want) in [
        (r#"{"check_cmd": ["true"]}"#, Ok(())),
        (r#"{"check_cmd": "false"}"#, no()),
        (r#"{"check_cmd": ["true", "false"]}"#, no()),
        (r#"{"check_cmd": []}"#, no()),
    ] {
        assert_eq!(run_check_cmd(&chunk("test.nop", "x", args), &test_bed.scene()), want, "{args}");
    }
    let nobody = chunk("test.nop", "x", r#"{"check_cmd": "true", "runas": "no_such_user_zz"}"#);
    assert!(run_check_cmd(&nobody, &test_bed.scene()).is_err());
    for (function, args, want) in [
        ("test.nop", "{}", false),
        ("test.nop", r#"{"check_cmd": "true"}"#, true),
        ("file.managed", r#"{"check_cmd": "true"}"#, false),
        ("file.directory", r#"{"check_cmd": "true"}"#, true),
    ] {
        assert_eq!(has_check_cmd(&chunk(function, "x", args)), want, "{function} {args}");
    }
}

#[test]
fn what_a_shell_answers_itself_starts_nothing() {
    let rows = [
        ("true", false),
        ("test -f /etc/passwd", false),
        ("[ ! -e /x ]", false),
        ("[ a = b ]", false),
        ("test -x /bin/sh", true),
        ("test -f relative", true),
        ("test 1 -lt 2", true),
        ("test -f $X", true),
        ("/bin/true", true),
    ];
    for (line, starts) in rows {
        let args = format!(r#"{{"unless": "{line}"}}"#);
        assert_eq!(runs_command(&chunk("cmd.run", "x", &args)), starts, "{line}");
    }
    assert!(!runs_command(&chunk("cmd.run", "x", r#"{"creates": "/x"}"#)));
    assert!(runs_command(&chunk("cmd.run", "x", r#"{"onlyif": [{"fun": "test.true"}]}"#)));
    assert!(runs_command(&chunk("cmd.run", "x", r#"{"onlyif": "true", "runas": "nobody"}"#)));
}

#[test]
fn the_own_answers_are_the_programs() {
    let test_bed = StateTestBed::new();
    let at = |name: &str| test_bed.path(name);
    std::fs::write(at("empty"), "").unwrap();
    std::fs::write(at("full"), "x").unwrap();
    std::fs::create_dir(at("dir")).unwrap();
    std::os::unix::fs::symlink(at("full"), at("link")).unwrap();
    std::os::unix::fs::symlink("/no/such", at("dangling")).unwrap();
    let mut asked = 0;
    for operator in ["-e", "-f", "-d", "-s", "-L", "-h", "-p", "-S", "-b", "-c"] {
        for path in ["empty", "full", "dir", "link", "dangling", "none", "full/below"] {
            let line = format!("test {operator} {}", at(path));
            let own = builtin_test::parse(&line, None).unwrap().evaluate(&zagent_host::disk::Disk::default());
            let program = CommandOptions::default()
                .command(
                    &zagent_host::Machine::this_host(),
                    vec!["/bin/sh".into(), "-c".into(), line.clone()],
                )
                .unwrap();
            assert_eq!(own, zagent_host::Machine::this_host().run(&program).unwrap().success(), "{line}");
            asked += 1;
        }
    }
    assert_eq!(asked, 70);
    for (line, want) in
        [("test", false), ("test x", true), ("test ''", false), ("[ -z '' ]", true), ("[ ! a = b ]", true)]
    {
        assert_eq!(
            builtin_test::parse(line, None).unwrap().evaluate(&zagent_host::disk::Disk::default()),
            want,
            "{line}"
        );
    }
    assert_eq!(
        builtin_test::parse("test -f full", Some(test_bed.dir.path()))
            .map(|q| q.evaluate(&zagent_host::disk::Disk::default())),
        Some(true)
    );
}

#[test]
fn exec_weighs_its_own() {
    assert!(owns_guards("exec") && !owns_guards("cmd"));
}

#[test]
fn any_number_of_turns_is_one_or_none() {
    let fs = zagent_host::disk::Disk::default();
    for (turns, want) in [(0, true), (1, false), (2, true), (100_001, false)] {
        let line = format!("test {}-d /", "! ".repeat(turns));
        assert_eq!(builtin_test::parse(&line, None).map(|q| q.evaluate(&fs)), Some(want), "{turns}");
    }
    // The last one is a text that is not empty.
    assert_eq!(builtin_test::parse("test ! !", None).map(|q| q.evaluate(&fs)), Some(false));
    assert_eq!(builtin_test::parse("test !", None).map(|q| q.evaluate(&fs)), Some(true));
}
