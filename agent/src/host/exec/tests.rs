//! Real commands, none of which outlives its test.

use super::*;

fn sh(script: &str) -> Command {
    Command::new("/bin/sh").args(["-c", script])
}

fn brief(script: &str) -> Command {
    Command { timeout: Some(Duration::from_millis(100)), ..sh(script) }
}

#[test]
fn gives_code_and_both_streams() {
    let out = run(&sh("echo out; echo err >&2; exit 3")).unwrap();
    assert_eq!((out.end, out.code()), (End::Exited(3), 3));
    assert_eq!((&*out.stdout, &*out.stderr), (&b"out\n"[..], &b"err\n"[..]));
    assert!(!out.success() && !out.truncated);
}

#[test]
fn merges_streams_in_order() {
    let out = run(&Command { merge_stderr: true, ..sh("echo 1; echo 2 >&2; echo 3") }).unwrap();
    assert_eq!(out.stdout, b"1\n2\n3\n");
    assert!(out.stderr.is_empty());
}

#[test]
fn input_larger_than_a_pipe_comes_back() {
    let text = vec![b'x'; 1_000_000];
    let out = run(&Command { stdin: text.clone(), output_cap: 2_000_000, ..Command::new("cat") }).unwrap();
    assert!(out.stdout == text);
}

#[test]
fn unread_input_is_no_failure() {
    let out = run(&Command { stdin: vec![b'x'; 1_000_000], ..sh("exit 0") }).unwrap();
    assert!(out.success());
}

#[test]
fn output_is_capped_and_said_so() {
    let command = Command { output_cap: 10, ..sh("head -c 300000 /dev/zero; echo short >&2") };
    let out = run(&command).unwrap();
    assert_eq!((out.stdout.len(), &*out.stderr, out.truncated), (10, &b"short\n"[..], true));
    assert!(out.success());
}

#[test]
fn environment_and_directory_are_given() {
    let command = Command {
        clear_env: true,
        env: vec![("A".into(), "b c".into())],
        cwd: Some("/".into()),
        ..sh("pwd; echo \"$A\"; echo \"${HOME-unset}\"")
    };
    assert_eq!(run(&command).unwrap().stdout, b"/\nb c\nunset\n");
}

#[test]
fn a_timeout_ends_the_whole_group() {
    let out = run(&brief("sleep 1000 & echo $!; wait")).unwrap();
    assert_eq!((out.end, out.code()), (End::TimedOut, 124));
    let child: u32 = String::from_utf8_lossy(&out.stdout).trim().parse().unwrap();
    let gone = || match std::fs::read_to_string(format!("/proc/{child}/stat")) {
        Ok(stat) => stat.contains(") Z"),
        Err(_) => true,
    };
    let patience = Instant::now() + Duration::from_secs(20);
    while !gone() {
        assert!(Instant::now() < patience, "process {child} outlived its group");
        std::thread::yield_now();
    }
}

#[test]
fn one_that_ignores_the_request_is_killed() {
    let out = run(&brief("trap '' TERM; while :; do :; done")).unwrap();
    assert_eq!(out.end, End::TimedOut);
}

#[test]
fn a_background_child_delays_nobody_and_lives_on() {
    let out = run(&sh("sleep 1000 & echo $!")).unwrap();
    assert!(out.success());
    let child: i32 = String::from_utf8_lossy(&out.stdout).trim().parse().unwrap();
    let pid = Pid::from_raw(child).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}

#[test]
fn a_foreign_signal_is_told() {
    let out = run(&sh("kill -9 $$")).unwrap();
    assert_eq!((out.end, out.code()), (End::Signaled(9), 137));
}

#[test]
fn what_cannot_start_is_an_error() {
    assert!(run(&Command::new("/nonexistent/program")).unwrap_err().is_not_found());
    let elsewhere = Command { cwd: Some("/nonexistent".into()), ..sh("true") };
    assert!(matches!(run(&elsewhere), Err(ExecError::Cwd { .. })));
}
