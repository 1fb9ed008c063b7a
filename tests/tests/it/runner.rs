//! The guarantees of the runner: no more states at once than allowed, never two on the same path, enforced time limits,
//! and no leftover processes. States meet inside their commands through named pipes, which fixes the order.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]

use std::path::Path;
use std::time::{Duration, Instant};

use zagent_tests::site::{Site, lines};

/// The maximum number at once, from a log of `+` and `-`.
fn depth(log: &Path) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for line in lines(log) {
        now = if line == "+" { now + 1 } else { now.saturating_sub(1) };
        most = most.max(now);
    }
    most
}

/// True once no running process has this pid; a zombie counts as gone.
fn is_gone(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
}

/// Waits for a condition; fails after the time limit.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::yield_now();
    }
}

/// Three that need each other, and nine more of the same level.
#[test]
fn no_more_run_at_once_than_allowed_and_no_fewer() {
    let mut sls = String::new();
    for (id, meet) in [
        ("a", "read x < $D/1; read x < $D/2"),
        ("b", "echo x > $D/1; read x < $D/3"),
        ("c", "echo x > $D/2; echo x > $D/3"),
    ] {
        sls += &format!("{id}: {{cmd.run: [{{name: 'echo + >> $D/log; {meet}; echo - >> $D/log'}}]}}\n");
    }
    for n in 0..9 {
        sls += &format!(
            "more{n}: {{cmd.run: [{{name: 'echo + >> $D/log; ls / > $D/{n}.ls; echo - >> $D/log'}}]}}\n"
        );
    }
    for schedule in ["levels", "eager"] {
        let site = Site::new(&sls);
        site.pipes(&["1", "2", "3"]);
        let ran = site.run(&["--schedule", schedule, "--jobs", "3"]);
        assert_eq!(ran.report["changed"], 12, "{schedule}: {:#}", ran.report);
        assert_eq!(depth(&site.at("log")), 3, "{schedule}");
    }
}

/// Ten wait for one that holds their parent; when it is done, they must not all run at once.
#[test]
fn states_that_waited_for_a_path_keep_the_limit() {
    let mut sls = String::from(
        "dir: {file.directory: [{name: $D/dir}, {parallel: true}, {onlyif: ['read x < $D/pipe']}]}\n",
    );
    for n in 0..10 {
        let work = format!("echo + >> $D/log; ls / > $D/{n}.ls; ls /; echo - >> $D/log");
        sls += &format!(
            "f{n}: {{file.managed: [{{name: $D/dir/{n}}}, {{contents: x}}, {{parallel: true}}, {{onlyif: ['{work}']}}]}}\n"
        );
    }
    sls += "go: {cmd.run: [{name: 'echo x > $D/pipe'}, {parallel: true}]}\n";
    let site = Site::new(&sls);
    site.pipes(&["pipe"]);
    std::fs::create_dir(site.at("dir")).unwrap();
    let ran = site.run(&["--schedule", "ordered", "--jobs", "3"]);
    assert_eq!(ran.report["failed"], 0, "{:#}", ran.report);
    assert_eq!(lines(&site.at("log")).len(), 20);
    assert!(depth(&site.at("log")) <= 3, "{} at once", depth(&site.at("log")));
}

/// Every state that holds the path creates a directory and removes it again: two at once collide.
#[test]
fn states_on_one_path_never_overlap() {
    for schedule in ["levels", "eager", "ordered"] {
        let mut sls = String::new();
        for n in 0..8 {
            sls += &format!(
                "s{n}: {{file.append: [{{name: $D/file}}, {{text: line {n}}}, {{parallel: true}}, {{onlyif: ['mkdir $D/busy && ls / && rmdir $D/busy || touch $D/collision']}}]}}\n"
            );
        }
        let site = Site::new(&sls);
        std::fs::write(site.at("file"), "").unwrap();
        let ran = site.run(&["--schedule", schedule]);
        assert_eq!(ran.report["changed"], 8, "{schedule}: {:#}", ran.report);
        assert!(!site.at("collision").exists(), "{schedule}: two states were at one path");
        assert_eq!(lines(&site.at("file")).len(), 8, "{schedule}: a change was lost");
    }
}

#[test]
fn a_path_waits_for_states_on_its_parents() {
    let sls = "
inner:
  file.managed:
    - name: $D/a/b/file
    - contents: text
middle:
  file.directory:
    - name: $D/a/b
outer:
  file.directory:
    - name: $D/a
";
    for schedule in ["levels", "eager"] {
        let ran = Site::new(sls).run(&["--schedule", schedule]);
        assert_eq!(ran.order(), ["outer", "middle", "inner"], "{schedule}");
        assert_eq!(ran.report["changed"], 3, "{schedule}: {:#}", ran.report);
    }
    let ran = Site::new(sls).run(&["--schedule", "ordered"]);
    assert_eq!(ran.order(), ["inner", "middle", "outer"]);
    assert_eq!(ran.ended("inner"), "failed", "Salt's order does not look at paths");
}

#[test]
fn ordered_runs_one_after_the_other_but_for_parallel_ones() {
    let meet = "
one: {cmd.run: [{name: 'read x < $D/pipe; echo one >> $D/log'}, {parallel: true}]}
two: {cmd.run: [{name: 'echo x > $D/pipe; echo two >> $D/two'}]}
three: {cmd.run: [{name: 'echo three >> $D/log'}, {require: [{cmd: one}]}]}
";
    let site = Site::new(meet);
    site.pipes(&["pipe"]);
    let ran = site.run(&["--schedule", "ordered"]);
    assert_eq!(ran.report["changed"], 3, "{:#}", ran.report);
    assert_eq!(ran.order(), ["one", "two", "three"]);
    assert_eq!(lines(&site.at("log")), ["one", "three"]);

    let mut serial = String::new();
    for n in 0..6 {
        serial += &format!("s{n}: {{cmd.run: [{{name: 'echo + >> $D/log; ls /; echo - >> $D/log'}}]}}\n");
    }
    let site = Site::new(&serial);
    assert_eq!(site.run(&["--schedule", "ordered"]).report["changed"], 6);
    assert_eq!(depth(&site.at("log")), 1);
}

#[test]
fn a_time_limit_of_a_state_ends_that_state_only() {
    let sls = "
stuck:
  cmd.run:
    - name: sh -c 'echo $$ > $D/child; read x < $D/pipe' & echo $$ > $D/own; wait
    - timeout: 0.3
after:
  cmd.run:
    - name: touch $D/after
    - require:
      - cmd: stuck
apart:
  cmd.run:
    - name: touch $D/apart
    - onfail:
      - cmd: stuck
";
    let site = Site::new(sls);
    site.pipes(&["pipe"]);
    let ran = site.run(&[]);
    assert_eq!(ran.ended("stuck"), "failed");
    assert_eq!(ran.ended("after"), "skipped: require_failed");
    assert_eq!(ran.ended("apart"), "changed");
    assert_eq!(ran.report["canceled"], false);
    for who in ["own", "child"] {
        let pid = site.text(who);
        assert!(!pid.is_empty(), "{who} never ran");
        eventually("the command and its child are gone", || is_gone(&pid));
    }
}

#[test]
fn the_run_timeout_kills_commands_with_their_children() {
    let sls = "
stuck:
  cmd.run:
    - name: sh -c 'echo $$ > $D/child; read x < $D/pipe' & echo $$ > $D/own; wait
";
    let site = Site::new(sls);
    site.pipes(&["pipe"]);
    let ran = site.run(&["--timeout", "300ms"]);
    assert_eq!(ran.ended("stuck"), "failed");
    let report = &ran.report;
    assert_eq!((&report["canceled"], &report["success"], ran.exit), (&true.into(), &false.into(), 1));
    for who in ["own", "child"] {
        let pid = site.text(who);
        assert!(!pid.is_empty(), "{who} never ran");
        eventually("the command and its child are gone", || is_gone(&pid));
    }
    let kept = site.call(&["history", "last", "--out", "json"]);
    assert_eq!((&kept.report["run"], &kept.report["canceled"]), (&report["run"], &true.into()));
}

/// After the time limit, a hanging guard, a pausing retry and a state that waits for a path delay nothing.
#[test]
fn the_run_timeout_ends_everything_that_waits() {
    let table = [
        ("a guard", "x: {test.nop: [{onlyif: 'read x < $D/pipe'}]}", "x: failed"),
        ("a pause", "x: {test.fail_without_changes: [{retry: {attempts: 9, interval: 600}}]}", "x: failed"),
        (
            "after a failhard",
            "x: {cmd.run: [{name: 'exit 1'}, {failhard: true}]}\ny: {cmd.run: [{name: 'read x < $D/pipe'}]}",
            "x: failed\ny: failed",
        ),
        (
            "a reaction at the end",
            "x: {test.succeed_with_changes: []}\ny: {cmd.wait: [{name: 'read x < $D/pipe'}, {listen: [{test: x}]}]}",
            "x: changed\ny: unchanged\nlistener_y: failed",
        ),
    ];
    for (what, sls, expected) in table {
        let site = Site::new(sls);
        site.pipes(&["pipe"]);
        let begun = Instant::now();
        let ran = site.run(&["--timeout", "300ms"]);
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: it took {:?}", begun.elapsed());
        assert_eq!(ran.report["canceled"], true, "{what}: {:#}", ran.report);
        for line in expected.lines() {
            let (id, ended) = line.split_once(": ").unwrap();
            assert_eq!(ran.ended(id), ended, "{what}: {id} in {:#}", ran.report);
        }
    }
}
