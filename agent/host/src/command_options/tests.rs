//! Options from arguments, and real commands with them.

use super::*;

fn args(json: &str) -> Map {
    Value::from_json_str(json).unwrap().as_map().unwrap().clone()
}

fn options(json: &str) -> Result<CommandOptions, String> {
    CommandOptions::from_args(&Machine::this_host(), &args(json), OptionKeys::All, &[])
}

fn out(json: &str, line: &str) -> String {
    let outcome = options(json).unwrap().run_line(&Machine::this_host(), line).unwrap();
    format!("{} {}", salt_retcode(&outcome), String::from_utf8_lossy(&outcome.stdout).trim_end())
}

#[test]
fn lines_run_as_a_shell_would_run_them() {
    for (json, line, want) in [
        ("{}", "true", "0 "),
        ("{}", "exit 3", "3 "),
        ("{}", "echo $((1+1))", "0 2"),
        ("{}", "no-such-program --x", "127 "),
        ("{}", "kill -9 $$", "-9 "),
        (r#"{"cwd": "/usr"}"#, "pwd", "0 /usr"),
        (r#"{"cwd": "/usr"}"#, "printenv PWD", "0 /usr"),
        (r#"{"env": {"A": 1, "B": null}}"#, "echo $A-$B-", "0 1--"),
        (r#"{"env": [{"A": "x"}, {"B": true}]}"#, "printenv A B", "0 x\nTrue"),
        ("{}", "printenv LC_TIME", "0 C"),
        (r#"{"reset_system_locale": false, "clean_env": true}"#, "/usr/bin/printenv LC_TIME", "1 "),
        (r#"{"umask": 27}"#, "umask", "0 0027"),
        (r#"{"umask": "0077"}"#, "umask", "0 0077"),
        (r#"{"stdin": "a\\nb"}"#, "wc -l", "0 1"),
        (r#"{"prepend_path": "/nowhere"}"#, "echo ${PATH%%:*}", "0 /nowhere"),
        (r#"{"redirect_stderr": true}"#, "echo x >&2", "0 x"),
        (r#"{"timeout": 0.05}"#, "sleep 1000", "1 "),
    ] {
        assert_eq!(out(json, line), want, "{json} {line}");
    }
}

#[test]
fn a_script_without_an_interpreter_is_the_shells() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    std::fs::write(&script, "echo from the shell\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(out("{}", &script.to_string_lossy()), "0 from the shell");
}

#[test]
fn what_cannot_be_had_is_told_in_salts_words() {
    for (json, want) in [
        (r#"{"runas": "no_such_user_zz"}"#, "User 'no_such_user_zz' is not available"),
        (r#"{"env": "A=1"}"#, "Invalidly-formatted 'env' parameter. See documentation."),
        (r#"{"env": {"A=B": "x"}}"#, "Invalidly-formatted 'env' parameter. See documentation."),
        (r#"{"umask": "9"}"#, "Invalid umask: 9"),
        (r#"{"timeout": "soon"}"#, "Error: timeout soon must be a number"),
        (r#"{"timeout": -1}"#, "Error: timeout -1 must be a number"),
    ] {
        assert_eq!(options(json).unwrap_err(), want, "{json}");
    }
    for (json, want) in [
        (r#"{"shell": "/no/shell"}"#, "The shell /no/shell is not available"),
        (r#"{"cwd": "/no/dir"}"#, "Specified cwd '/no/dir' either not absolute or does not exist"),
        (r#"{"cwd": "relative"}"#, "Specified cwd 'relative' either not absolute or does not exist"),
    ] {
        assert_eq!(
            options(json).unwrap().run_line(&Machine::this_host(), "true").unwrap_err().to_string(),
            want,
            "{json}"
        );
    }
}

#[test]
fn a_guard_reads_its_own_share() {
    let json = args(r#"{"cwd": "/usr", "stdin": "x", "umask": "22"}"#);
    let guard =
        CommandOptions::from_args(&Machine::this_host(), &json, OptionKeys::Guard, &["cwd".to_owned()])
            .unwrap();
    assert_eq!((guard.cwd, guard.umask, guard.stdin), (None, None, Vec::new()));
    let check = CommandOptions::from_args(&Machine::this_host(), &json, OptionKeys::RunasOnly, &[]).unwrap();
    assert_eq!((check.cwd, check.umask), (None, None));
}

#[test]
fn codes_that_count_as_success() {
    for (json, want) in [
        ("null", Ok(vec![0])),
        ("[3, \"4\"]", Ok(vec![3, 4])),
        ("4", Ok(vec![4])),
        ("\"1, 2\"", Ok(vec![1, 2])),
        ("\"abc\"", Err("success_retcodes must be a list of integers".to_owned())),
    ] {
        assert_eq!(success_retcodes(Some(&Value::from_json_str(json).unwrap())), want, "{json}");
    }
}
