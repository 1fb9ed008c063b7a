//! The program among other processes: signals stop a run cleanly, and only one run at a time changes the
//! host.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot read or write its files has failed")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Output};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;

use crate::site::{self, Site, report};

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(60);

fn pipe(site: &Site, name: &str) -> PathBuf {
    let path = site.path("host").join(name);
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    path
}

/// Reads what a command writes into a pipe.
fn hear(path: &Path) -> String {
    let (tell, told) = mpsc::channel();
    let path = path.to_owned();
    std::thread::spawn(move || tell.send(fs::read_to_string(path)));
    told.recv_timeout(PATIENCE).expect("the command says something").unwrap()
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::yield_now();
    }
}

/// True once no living process has this ID; a zombie counts as gone.
fn is_gone(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

fn state<'r>(report: &'r Value, id: &str) -> &'r Value {
    let mut states = report["states"].as_object().into_iter().flat_map(|states| states.values());
    states.find(|state| state["__id__"] == id).unwrap_or_else(|| panic!("no `{id}` in {report:#}"))
}

/// The command has a child that ignores signals, and prints the IDs of both.
const STUCK: &str = "
done: {test.succeed_with_changes: []}
stuck:
  cmd.run:
    - name: sh -c 'trap \"\" TERM INT; read x < $D/never' & echo $$ $! > $D/ready; wait
next:
  cmd.run:
    - name: touch $D/next
    - require:
      - test: done
dependant:
  cmd.run:
    - name: touch $D/dependant
    - require:
      - cmd: stuck
";

#[test]
fn a_signal_stops_the_commands_and_the_report_is_still_written() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        for schedule in ["levels", "ordered"] {
            let site = Site::new(STUCK);
            let ready = pipe(&site, "ready");
            pipe(&site, "never");
            let child = site.run(&["--schedule", schedule]).spawn().unwrap();
            let pids = hear(&ready);
            send(&child, signal);
            let output = child.wait_with_output().unwrap();
            let what = format!("{signal} {schedule}");
            assert_eq!(output.status.code(), Some(1), "{what}");
            let report = report(&output);
            assert_eq!((&report["canceled"], &report["success"]), (&true.into(), &false.into()), "{what}");
            assert_eq!(state(&report, "done")["result"], true, "{what}");
            let stuck = state(&report, "stuck");
            assert_eq!((&stuck["result"], &stuck["skipped"]), (&false.into(), &false.into()), "{what}");
            for id in ["next", "dependant"] {
                assert_eq!(state(&report, id)["skip_reason"], "cancelled", "{what}");
                assert!(!site.path("host").join(id).exists(), "{what}: {id} ran");
            }
            for pid in pids.split_whitespace() {
                eventually("the command and its child are gone", || is_gone(pid));
            }
            let kept = site::report(&site.history(&["last"]));
            assert_eq!((&kept["run"], &kept["canceled"]), (&report["run"], &true.into()), "{what}");
        }
    }
}

/// Nothing is left to skip when the signal arrives during the last state: the run still counts as stopped.
#[test]
fn a_signal_during_the_last_state_cancels_too() {
    let site = Site::new("stuck: {cmd.run: [{name: 'echo go > $D/ready; read x < $D/never'}]}\n");
    let ready = pipe(&site, "ready");
    pipe(&site, "never");
    let child = site.run(&[]).spawn().unwrap();
    hear(&ready);
    send(&child, Signal::SIGTERM);
    let output = child.wait_with_output().unwrap();
    let report = report(&output);
    assert_eq!((&report["canceled"], output.status.code()), (&true.into(), Some(1)), "{report:#}");
}

/// The command reacts to the first signal with a message and continues.
#[test]
fn a_second_signal_ends_the_program_immediately() {
    let site = Site::new(
        "stuck: {cmd.run: [{name: 'trap \"echo again > $D/asked\" TERM; echo $$ > $D/ready; while :; do read x < $D/never; done'}]}\n",
    );
    let (ready, asked) = (pipe(&site, "ready"), pipe(&site, "asked"));
    pipe(&site, "never");
    let mut child = site.run(&[]).spawn().unwrap();
    let pid = hear(&ready).trim().to_owned();
    send(&child, Signal::SIGINT);
    hear(&asked);
    send(&child, Signal::SIGINT);
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(Signal::SIGINT as i32), "{status}");
    // The orphaned process is killed explicitly.
    let _ = kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGKILL);
}

/// Commands get signals like any process, though the program itself blocks them.
#[test]
fn commands_receive_signals() {
    let site = Site::new("deaf: {cmd.run: [{name: 'kill -TERM $$; echo survived'}]}\n");
    let output = site.run(&[]).output().unwrap();
    let report = report(&output);
    assert_eq!(state(&report, "deaf")["result"], false, "{report:#}");
    assert!(!state(&report, "deaf")["changes"].to_string().contains("survived"));
}

/// Waits until a run has opened the lock, which another one holds.
fn await_at_lock(run: &Child) {
    let is_open = || {
        let open = fs::read_dir(format!("/proc/{}/fd", run.id())).into_iter().flatten().flatten();
        open.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|path| path.ends_with("run/lock"))
    };
    eventually("the second is at the lock", is_open);
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_run_inside_a_run_is_refused_and_names_the_lock_holder() {
    let site =
        Site::new("nested: {cmd.run: [{name: '$RUN --out json > $D/said 2>&1; echo $? $PPID > $D/code'}]}\n");
    let output = site.run(&[]).output().unwrap();
    let report = report(&output);
    assert_eq!(report["success"], true, "{report:#}");
    let code = fs::read_to_string(site.path("host/code")).unwrap();
    let (code, holder) = code.trim().split_once(' ').unwrap();
    assert_eq!(code, "75");
    let said = fs::read_to_string(site.path("host/said")).unwrap();
    let run = report["run"].as_str().unwrap();
    assert!(said.contains(&format!("process {holder}, run {run}")), "{said}");
    assert!(
        serde_json::from_str::<Value>(&said[..said.rfind('}').unwrap() + 1])
            .is_ok_and(|e| e["success"] == false),
        "{said}"
    );
}

/// The second starts only after the first has ended, though it was waiting all the time.
#[test]
fn a_second_run_waits_for_the_first() {
    let site = Site::new(
        "turn: {cmd.run: [{name: 'echo begin >> $D/log; echo go > $D/ready; read x < $D/pipe; echo end >> $D/log'}]}\n",
    );
    let (ready, go) = (pipe(&site, "ready"), pipe(&site, "pipe"));
    let first = site.run(&[]).spawn().unwrap();
    hear(&ready);
    let mut second = site.run(&[]).spawn().unwrap();
    await_at_lock(&second);
    assert!(second.try_wait().unwrap().is_none());
    let log = || fs::read_to_string(site.path("host/log")).unwrap();
    assert_eq!(log(), "begin\n");
    fs::write(&go, "x\n").unwrap();
    let first = first.wait_with_output().unwrap();
    hear(&ready);
    assert_eq!(log(), "begin\nend\nbegin\n");
    fs::write(&go, "x\n").unwrap();
    let second = second.wait_with_output().unwrap();
    for output in [&first, &second] {
        assert_eq!(report(output)["changed"], 1, "{}", text(output));
    }
}

/// A run that waits for another can be stopped; the other run is named.
#[test]
fn a_signal_ends_the_waiting_for_another_run() {
    let site = Site::new("turn: {cmd.run: [{name: 'echo go > $D/ready; read x < $D/pipe'}]}\n");
    let (ready, go) = (pipe(&site, "ready"), pipe(&site, "pipe"));
    let first = site.run(&[]).spawn().unwrap();
    hear(&ready);
    let second = site.run(&[]).spawn().unwrap();
    await_at_lock(&second);
    send(&second, Signal::SIGTERM);
    let output = second.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(75), "{}", text(&output));
    assert!(text(&output).contains(&format!("process {}", first.id())), "{}", text(&output));
    fs::write(&go, "x\n").unwrap();
    assert_eq!(report(&first.wait_with_output().unwrap())["changed"], 1);
}

/// A dry run takes no lock and does not wait.
#[test]
fn a_dry_run_works_next_to_a_run() {
    let site = Site::new("turn: {cmd.run: [{name: 'echo go > $D/ready; read x < $D/pipe'}]}\n");
    let (ready, go) = (pipe(&site, "ready"), pipe(&site, "pipe"));
    let first = site.run(&[]).spawn().unwrap();
    hear(&ready);
    let dry = site.run(&["--test"]).output().unwrap();
    assert_eq!(report(&dry)["test"], true);
    fs::write(&go, "x\n").unwrap();
    assert_eq!(report(&first.wait_with_output().unwrap())["changed"], 1);
}
