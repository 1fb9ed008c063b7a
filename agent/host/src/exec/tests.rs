//! Real commands, none of which outlives its test.

use std::time::Instant;

use rustix::process::Pid;

use super::*;

fn sh(script: &str) -> ExecCommand {
    ExecCommand::new("/bin/sh").args(["-c", script])
}

fn brief(script: &str) -> ExecCommand {
    ExecCommand { timeout: Some(Duration::from_millis(100)), ..sh(script) }
}

#[test]
fn gives_code_and_both_streams() {
    let out = run(&sh("echo out; echo err >&2; exit 3")).unwrap();
    assert_eq!((out.reason, out.shell_code()), (ExitReason::Exited(3), 3));
    assert_eq!((&*out.stdout, &*out.stderr), (&b"out\n"[..], &b"err\n"[..]));
    assert!(!out.success() && !out.truncated);
}

#[test]
fn merges_streams_in_order() {
    let out = run(&ExecCommand { merge_stderr: true, ..sh("echo 1; echo 2 >&2; echo 3") }).unwrap();
    assert_eq!(out.stdout, b"1\n2\n3\n");
    assert!(out.stderr.is_empty());
}

#[test]
fn input_larger_than_a_pipe_comes_back() {
    let text = vec![b'x'; 1_000_000];
    let out =
        run(&ExecCommand { stdin: text.clone(), output_cap: 2_000_000, ..ExecCommand::new("cat") }).unwrap();
    assert!(out.stdout == text);
}

#[test]
fn unread_input_is_no_failure() {
    let out = run(&ExecCommand { stdin: vec![b'x'; 1_000_000], ..sh("exit 0") }).unwrap();
    assert!(out.success());
}

#[test]
fn output_is_capped_and_said_so() {
    let command = ExecCommand { output_cap: 10, ..sh("head -c 300000 /dev/zero; echo short >&2") };
    let out = run(&command).unwrap();
    assert_eq!((out.stdout.len(), &*out.stderr, out.truncated), (10, &b"short\n"[..], true));
    assert!(out.success());
}

#[test]
fn environment_and_directory_are_given() {
    let command = ExecCommand {
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
    assert_eq!((out.reason, out.shell_code()), (ExitReason::TimedOut, 124));
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
    assert_eq!(out.reason, ExitReason::TimedOut);
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
    assert_eq!((out.reason, out.shell_code()), (ExitReason::Signaled(9), 137));
}

#[test]
fn what_cannot_start_is_an_error() {
    assert!(run(&ExecCommand::new("/nonexistent/program")).unwrap_err().is_not_found());
    let elsewhere = ExecCommand { cwd: Some("/nonexistent".into()), ..sh("true") };
    assert!(matches!(run(&elsewhere), Err(ExecError::Cwd { .. })));
}

#[test]
fn one_that_finishes_is_not_ended_by_a_word() {
    let cancel = Arc::new(CancelToken::new());
    let (mut reader, writer) = io::pipe().unwrap();
    let ready = format!("echo > /proc/{}/fd/{}; sleep 1000", std::process::id(), {
        use std::os::fd::AsRawFd;
        writer.as_raw_fd()
    });
    let timeout = Some(Duration::from_secs(1));
    let command =
        ExecCommand { timeout, cancel: Some(Arc::clone(&cancel)), uninterruptible: true, ..sh(&ready) };
    let running = std::thread::spawn(move || run(&command));
    io::Read::read_exact(&mut reader, &mut [0]).unwrap();
    cancel.cancel();
    assert_eq!(
        running.join().unwrap().unwrap().reason,
        ExitReason::TimedOut,
        "its time ends it, the word does not"
    );
}

#[test]
fn a_word_ends_it_and_all_its_children() {
    let cancel = Arc::new(CancelToken::new());
    let command = ExecCommand { timeout: None, cancel: Some(Arc::clone(&cancel)), ..sh("sleep 1000 & wait") };
    let running = std::thread::spawn(move || run(&command));
    cancel.cancel();
    match running.join().unwrap() {
        Ok(out) => assert_eq!((out.reason, out.shell_code()), (ExitReason::Cancelled, 143)),
        Err(error) => assert!(matches!(error, ExecError::Cancelled { .. }), "{error}"),
    }
    let late = ExecCommand { cancel: Some(cancel), ..sh("true") };
    assert!(matches!(run(&late), Err(ExecError::Cancelled { .. })));
}

#[test]
fn one_that_ignores_the_word_is_killed() {
    let cancel = Arc::new(CancelToken::new());
    let (mut reader, writer) = io::pipe().unwrap();
    let ready = format!("trap '' TERM; echo > /proc/{}/fd/{}; while :; do :; done", std::process::id(), {
        use std::os::fd::AsRawFd;
        writer.as_raw_fd()
    });
    let command = ExecCommand { timeout: None, cancel: Some(Arc::clone(&cancel)), ..sh(&ready) };
    let running = std::thread::spawn(move || run(&command));
    io::Read::read_exact(&mut reader, &mut [0]).unwrap();
    cancel.cancel();
    assert_eq!(running.join().unwrap().unwrap().reason, ExitReason::Cancelled);
}

#[test]
fn the_mask_is_set_and_the_arguments_stay_as_they_are() {
    let command = ExecCommand { umask: Some(0o027), ..sh("umask; echo \"$0|$1\"") };
    let command = ExecCommand { args: [command.args, vec!["a b".into(), "*".into()]].concat(), ..command };
    assert_eq!(run(&command).unwrap().stdout, b"0027\na b|*\n");
    let missing = ExecCommand { umask: Some(0o027), ..ExecCommand::new("no-such-program") };
    assert!(run(&missing).unwrap_err().is_not_found());
}

#[test]
fn another_user_with_groups_or_a_clear_refusal() {
    for (groups, want) in
        [(vec![65534], "65534 65534 65534\n"), (vec![65534, 4, 24], "65534 65534 65534 4 24\n")]
    {
        let user = UserIds { uid: 65534, gid: 65534, groups };
        let out = run(&ExecCommand { user: Some(user), ..sh("echo $(id -u) $(id -g) $(id -G)") });
        if rustix::process::geteuid().is_root() {
            assert_eq!(String::from_utf8(out.unwrap().stdout).unwrap(), want);
        } else {
            let error = zagent_config::error_chain(&out.unwrap_err());
            assert!(error.contains("only root may become another user"), "{error}");
        }
    }
}

#[test]
fn it_stands_back() {
    let out =
        run(&ExecCommand { nice: Some(7), stdin: b"go".to_vec(), ..sh("cat > /dev/null; nice") }).unwrap();
    assert_eq!(out.stdout, b"7\n");
}

#[test]
fn a_name_is_looked_up_where_the_command_would() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("greet");
    std::fs::write(&program, "#!/bin/sh\necho \"hello from $0\"\n").unwrap();
    let command =
        || ExecCommand { env: vec![("PATH".into(), dir.path().into())], ..ExecCommand::new("greet") };
    let refused = run(&command()).unwrap_err();
    assert!(
        matches!(&refused, ExecError::Start { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    );
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert!(run(&command()).unwrap().stdout.starts_with(b"hello from "));
    let missing = run(&ExecCommand::new("greet")).unwrap_err();
    assert!(missing.is_not_found());
    assert!(
        zagent_config::error_chain(&missing).ends_with("there is no such program on the path"),
        "{missing:?}"
    );
}

#[test]
fn messages_show_the_name_that_was_given() {
    let out = run(&ExecCommand::new("ls").args(["/nonexistent"])).unwrap();
    assert!(out.stderr.starts_with(b"ls: "), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn one_left_to_itself_runs_on() {
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("made");
    let pid = spawn_detached(&ExecCommand::new("touch").args([&made])).unwrap();
    assert!(pid > 0);
    let patience = Instant::now() + Duration::from_secs(20);
    while !made.exists() {
        assert!(Instant::now() < patience, "it never ran");
        std::thread::yield_now();
    }
}
