//! The rules of a run: modes, levels, failure propagation, skip reasons, retries, success and the shape of the result,
//! each rule on a real tree through the command line.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]

use serde_json::Value;
use zagent_tests::site::{Ran, Site, lines};

/// Runs an SLS and compares the results of its states, in the written order.
fn expect(what: &str, sls: &str, more: &[&str], table: &str) -> Ran {
    let ran = Site::new(sls).run(more);
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (id, ended) = line.split_once(": ").expect("`id: how it ended`");
        assert_eq!(ran.ended(id), ended, "{what}: `{id}` in {:#}", ran.report);
    }
    ran
}

const PARTIAL: &str = "
install_nginx:
  cmd.run:
    - name: touch $D/nginx
install_postgres:
  cmd.run:
    - name: touch $D/postgres; exit 3
deploy_nginx_conf:
  cmd.run:
    - name: touch $D/nginx.conf
    - require:
      - cmd: install_nginx
deploy_pg_conf:
  cmd.run:
    - name: touch $D/pg.conf
    - require:
      - cmd: install_postgres
start_all:
  cmd.run:
    - name: touch $D/started
    - require:
      - cmd: deploy_nginx_conf
      - cmd: deploy_pg_conf
";

#[test]
fn a_partial_failure_skips_only_its_dependants() {
    for schedule in ["levels", "eager", "ordered"] {
        let site = Site::new(PARTIAL);
        let ran = site.run(&["--schedule", schedule]);
        for (id, ended) in [
            ("install_nginx", "changed"),
            ("install_postgres", "failed"),
            ("deploy_nginx_conf", "changed"),
            ("deploy_pg_conf", "skipped: require_failed"),
            ("start_all", "skipped: require_failed"),
        ] {
            assert_eq!(ran.ended(id), ended, "{schedule}: {id}");
        }
        for (name, is_there) in [
            ("nginx", true),
            ("postgres", true),
            ("nginx.conf", true),
            ("pg.conf", false),
            ("started", false),
        ] {
            assert_eq!(site.at(name).exists(), is_there, "{schedule}: {name}");
        }
        let report = &ran.report;
        let counts = ["changed", "failed", "skipped", "unchanged", "total"].map(|key| report[key].as_u64());
        assert_eq!(counts, [2, 1, 2, 0, 5].map(Some), "{schedule}");
        assert_eq!((ran.exit, &report["success"], &report["canceled"]), (1, &false.into(), &false.into()));
        assert_eq!(ran.state("deploy_pg_conf")["error"], "", "a skipped state has not failed by itself");
        assert!(ran.state("install_postgres")["error"].as_str().is_some_and(|e| !e.is_empty()));
    }
}

/// The timeline of the execution model. Each state of a level waits inside its command until the other one of that
/// level has started, so that only states that really run at the same time finish.
#[test]
fn states_of_a_level_overlap_and_levels_do_not() {
    let both = |name: &str, says: &str, hears: &str| {
        format!("echo start {name} >> $D/log; {says} > $D/{hears}; echo end {name} >> $D/log")
    };
    let first = |name: &str| both(name, &format!("echo x > $D/{name}.go; cat $D/{name}.ok"), "null");
    let second = |name: &str| {
        format!(
            "echo start {name} >> $D/log; cat $D/{name}.go > $D/null; echo x > $D/{name}.ok; echo end {name} >> $D/log"
        )
    };
    let sls = format!(
        "
install_nginx: {{cmd.run: [{{name: '{}'}}]}}
install_redis: {{cmd.run: [{{name: '{}'}}]}}
deploy_nginx_conf: {{cmd.run: [{{name: '{}'}}, {{require: [{{cmd: install_nginx}}]}}]}}
deploy_redis_conf: {{cmd.run: [{{name: '{}'}}, {{require: [{{cmd: install_redis}}]}}]}}
start_services: {{cmd.run: [{{name: '{}'}}, {{require: [{{cmd: deploy_nginx_conf}}, {{cmd: deploy_redis_conf}}]}}]}}
",
        first("a"),
        second("a"),
        first("b"),
        second("b"),
        "echo start c >> $D/log; echo end c >> $D/log",
    );
    let site = Site::new(&sls);
    site.pipes(&["a.go", "a.ok", "b.go", "b.ok"]);
    let ran = site.run(&[]);
    assert_eq!(ran.report["changed"], 5, "{:#}", ran.report);
    let log = lines(&site.at("log"));
    let words: Vec<&str> = log.iter().map(String::as_str).collect();
    assert_eq!(words[..2], ["start a"; 2], "{words:?}");
    assert_eq!(words[2..4], ["end a"; 2], "{words:?}");
    assert_eq!(words[4..6], ["start b"; 2], "{words:?}");
    assert_eq!(words[6..8], ["end b"; 2], "{words:?}");
    assert_eq!(words[8..], ["start c", "end c"]);
    let levels: Vec<_> =
        ["install_nginx", "install_redis", "deploy_nginx_conf", "deploy_redis_conf", "start_services"]
            .iter()
            .map(|id| ran.state(id)["level"].as_u64())
            .collect();
    assert_eq!(levels, [0, 0, 1, 1, 2].map(Some));
}

/// `slow` ends only after a signal from `next`, which waits only for `quick`.
const ACROSS: &str = "
quick:
  cmd.run:
    - name: 'true'
slow:
  cmd.run:
    - name: read word < $D/pipe
next:
  cmd.run:
    - name: echo word > $D/pipe
    - require:
      - cmd: quick
";

#[test]
fn only_levels_have_a_sync_point() {
    let site = Site::new(ACROSS);
    site.pipes(&["pipe"]);
    let ran = site.run(&["--schedule", "eager"]);
    assert_eq!(ran.report["changed"], 3, "eager waits for nothing else: {:#}", ran.report);
    let ran = site.run(&["--schedule", "levels", "--timeout", "500ms"]);
    assert_eq!(ran.ended("quick"), "changed");
    assert_eq!(ran.ended("slow"), "failed");
    assert_eq!(
        ran.ended("next"),
        "skipped: cancelled",
        "it may not begin before the last of its level has ended"
    );
}

#[test]
fn inside_a_level_states_start_by_order_then_by_name() {
    let table = [
        ("c: {test.nop: []}\na: {test.nop: []}\nb: {test.nop: []}\n", "c a b"),
        ("c: {test.nop: [{order: 5}]}\na: {test.nop: [{order: 5}]}\nb: {test.nop: [{order: 1}]}\n", "b a c"),
        ("c: {test.nop: [{order: last}]}\na: {test.nop: []}\nb: {test.nop: [{order: first}]}\n", "b a c"),
        (
            "c: {test.nop: [{order: last}]}\na: {test.nop: [{require: [{test: b}]}]}\nb: {test.nop: []}\n",
            "b a c",
        ),
    ];
    for (sls, order) in table {
        let ran = Site::new(sls).run(&[]);
        assert_eq!(ran.order().join(" "), order, "{sls}");
        let numbers: Vec<_> = ran.states().values().map(|state| state["__run_num__"].as_u64()).collect();
        assert_eq!(numbers, [0, 1, 2].map(Some));
    }
}

#[test]
fn every_skip_has_its_reason() {
    const BASE: &str = "
good: {test.nop: []}
new: {test.succeed_with_changes: []}
bad: {test.fail_without_changes: []}
";
    let table = [
        ("require of a failure", "x: {test.nop: [{require: [{test: bad}]}]}", "x: skipped: require_failed"),
        ("watch of a failure", "x: {test.nop: [{watch: [{test: bad}]}]}", "x: skipped: require_failed"),
        (
            "a failure far away",
            "x: {test.nop: [{require: [{test: bad}]}]}\ny: {test.nop: [{require: [{test: x}]}]}\n\
             z: {test.nop: [{watch: [{test: y}]}]}",
            "x: skipped: require_failed\ny: skipped: require_failed\nz: skipped: require_failed",
        ),
        ("another branch", "x: {test.nop: [{require: [{test: good}]}]}", "x: unchanged"),
        ("one of several", "x: {test.nop: [{require_any: [{test: bad}, {test: good}]}]}", "x: unchanged"),
        ("none of several", "x: {test.nop: [{require_any: [{test: bad}]}]}", "x: skipped: require_failed"),
        ("nothing changed", "x: {test.nop: [{onchanges: [{test: good}]}]}", "x: skipped: onchanges_not_met"),
        ("something changed", "x: {test.nop: [{onchanges: [{test: good}, {test: new}]}]}", "x: unchanged"),
        (
            "what failed did not change",
            "x: {test.nop: [{onchanges: [{test: bad}]}]}",
            "x: skipped: onchanges_not_met",
        ),
        (
            "who waits for a skipped one without a failure runs",
            "x: {test.nop: [{onchanges: [{test: good}]}]}\ny: {test.nop: [{require: [{test: x}]}]}",
            "x: skipped: onchanges_not_met\ny: unchanged",
        ),
        ("nothing failed", "x: {test.nop: [{onfail: [{test: good}]}]}", "x: skipped: onfail_not_met"),
        ("something failed", "x: {test.nop: [{onfail: [{test: good}, {test: bad}]}]}", "x: unchanged"),
        (
            "not all failed",
            "x: {test.nop: [{onfail_all: [{test: good}, {test: bad}]}]}",
            "x: skipped: onfail_not_met",
        ),
        ("no target would change", "x: {test.nop: [{prereq: [{test: good}]}]}", "x: skipped: prereq_not_met"),
        ("a target would change", "x: {test.nop: [{prereq: [{test: new}]}]}", "x: unchanged"),
        (
            "the one before a target failed",
            "x: {test.fail_without_changes: [{prereq: [{test: new}]}]}",
            "x: failed\nnew: skipped: require_failed",
        ),
    ];
    for (what, more, expected) in table {
        for schedule in ["levels", "eager", "ordered"] {
            let ran = expect(what, &format!("{BASE}{more}\n"), &["--schedule", schedule], expected);
            assert_eq!(ran.report["success"], false, "{what}: `bad` failed");
        }
    }
}

/// `bad` fails while `going` runs: that one finishes, and nothing else starts.
#[test]
fn failhard_lets_running_states_finish_and_starts_no_other() {
    let sls = "
bad:
  cmd.run:
    - name: read word < $D/pipe; exit 1
    - failhard: true
going:
  cmd.run:
    - name: echo word > $D/pipe; while kill -0 $(cat $D/pid) 2>/dev/null; do :; done; touch $D/finished
next:
  cmd.run:
    - name: touch $D/next
    - require:
      - cmd: going
dependant:
  cmd.run:
    - name: touch $D/dependant
    - require:
      - cmd: bad
answer:
  cmd.run:
    - name: touch $D/answer
    - onfail:
      - cmd: bad
";
    // `going` waits until the shell of `bad` has exited, whose pid `bad` writes to a file.
    let sls = sls.replace("read word", "echo $$ > $D/pid; read word");
    let site = Site::new(&sls);
    site.pipes(&["pipe"]);
    let ran = site.run(&[]);
    assert_eq!(ran.ended("bad"), "failed");
    assert_eq!(ran.ended("going"), "changed");
    assert!(site.at("finished").exists());
    for id in ["next", "dependant", "answer"] {
        assert_eq!(ran.ended(id), "skipped: failhard_abort");
        assert!(!site.at(id).exists());
    }
    assert_eq!((&ran.report["success"], &ran.report["canceled"]), (&false.into(), &false.into()));
    // Whether `bad` fails is not known, and with it whether the rest is reached.
    let test = site.run(&["--test"]);
    for (id, ended) in
        [("bad", "would change"), ("going", "would change"), ("next", "unknown"), ("dependant", "unknown")]
    {
        assert_eq!(test.ended(id), ended, "{}", test.table());
    }
}

/// States of one level run at the same time: a failure in it ends the run with the next level, wherever the failed state stands.
#[test]
fn failhard_ends_the_run_after_its_level_and_a_dry_run_says_so() {
    let sls = "
bad: {test.fail_without_changes: [{failhard: true}]}
zebra: {test.succeed_with_changes: [{order: 9999}]}
later: {test.succeed_with_changes: [{require: [{test: zebra}]}]}
";
    for (more, changed) in [(&[][..], "changed"), (&["--test"], "would change")] {
        let ran = Site::new(sls).run(more);
        let table = [("bad", "failed"), ("zebra", changed), ("later", "skipped: failhard_abort")];
        for (id, ended) in table {
            assert_eq!(ran.ended(id), ended, "{more:?}: {}", ran.table());
        }
    }
}

#[test]
fn a_cancelled_run_skips_the_rest_and_fails() {
    let sls = "
done: {test.succeed_with_changes: [{order: 1}]}
stuck:
  cmd.run:
    - name: read word < $D/pipe
    - order: 2
after:
  test.nop:
    - require:
      - cmd: stuck
far:
  test.nop:
    - require:
      - test: after
apart:
  test.nop:
    - require:
      - test: done
";
    let site = Site::new(sls);
    site.pipes(&["pipe"]);
    let ran = site.run(&["--timeout", "300ms"]);
    let table = "done: changed\nstuck: failed\n";
    assert!(ran.table().starts_with(table), "{}", ran.table());
    for id in ["after", "far", "apart"] {
        assert_eq!(ran.ended(id), "skipped: cancelled", "{id}");
    }
    let report = &ran.report;
    assert_eq!((&report["canceled"], &report["success"], ran.exit), (&true.into(), &false.into(), 1));
    assert_eq!((&report["skipped"], &report["total"]), (&3.into(), &5.into()));
}

#[test]
fn a_state_is_tried_again_only_when_it_is_applied() {
    let sls = "
never:
  cmd.run:
    - name: echo x >> $D/never; false
    - retry: {attempts: 3, interval: 0}
second:
  cmd.run:
    - name: test -e $D/once || { touch $D/once; exit 1; }
    - retry: {attempts: 5, interval: 0}
looked:
  test.fail_without_changes:
    - onlyif: echo x >> $D/looked
    - retry: {attempts: 3, interval: 0}
";
    let site = Site::new(sls);
    let ran = site.run(&["--test"]);
    assert_eq!(lines(&site.at("never")).len(), 0);
    assert_eq!(lines(&site.at("looked")).len(), 1, "a dry run looks once");
    assert_eq!((ran.ended("never"), ran.ended("looked")), ("failed".into(), "failed".into()));
    std::fs::remove_file(site.at("looked")).unwrap();
    let ran = site.run(&[]);
    assert_eq!((ran.ended("never"), lines(&site.at("never")).len()), ("failed".into(), 3));
    assert_eq!(ran.ended("second"), "changed", "only the last attempt counts");
    assert_eq!((ran.ended("looked"), lines(&site.at("looked")).len()), ("failed".into(), 3));
    assert_eq!(ran.report["failed"], 2);
}

#[test]
fn guards_run_in_a_dry_run_and_nothing_else_does() {
    let sls = "
runs:
  cmd.run:
    - name: touch $D/ran
    - onlyif: echo x >> $D/asked
skipped:
  cmd.run:
    - name: touch $D/ran
    - unless: echo x >> $D/asked
made:
  file.managed:
    - name: $D/file
    - contents: text
follows:
  cmd.run:
    - name: touch $D/ran
    - onchanges:
      - file: made
still:
  cmd.run:
    - name: touch $D/ran
    - onchanges:
      - cmd: skipped
";
    let site = Site::new(sls);
    let ran = site.run(&["--test"]);
    let table = "runs: would change\nskipped: unchanged\nmade: would change\nfollows: would change\nstill: skipped: onchanges_not_met";
    for line in table.lines() {
        let (id, ended) = line.split_once(": ").unwrap();
        assert_eq!(ran.ended(id), ended, "{:#}", ran.report);
    }
    assert_eq!(lines(&site.at("asked")).len(), 2);
    assert!(!site.at("ran").exists() && !site.at("file").exists());
    assert!(!site.root().exists(), "a dry run leaves no trace");
    let report = &ran.report;
    assert_eq!(
        (&report["test"], &report["mode"], &report["success"]),
        (&true.into(), &"test".into(), &true.into())
    );
}

#[test]
fn a_run_is_a_success_when_nothing_failed() {
    let table = [
        ("nothing to do", "a: {test.nop: []}", true, 0),
        ("changes", "a: {test.succeed_with_changes: []}", true, 0),
        (
            "skipped without a failure",
            "a: {test.nop: []}\nb: {test.nop: [{onchanges: [{test: a}]}]}",
            true,
            0,
        ),
        ("a failure", "a: {test.fail_without_changes: []}\nb: {test.nop: []}", false, 1),
        (
            "a failure that was answered",
            "a: {test.fail_without_changes: []}\nb: {test.nop: [{onfail: [{test: a}]}]}",
            false,
            1,
        ),
    ];
    for (what, sls, success, exit) in table {
        let ran = Site::new(sls).run(&[]);
        assert_eq!((&ran.report["success"], ran.exit), (&success.into(), exit), "{what}");
    }
}

#[test]
fn the_result_has_its_shape() {
    let sls = "a: {test.succeed_with_changes: []}\nb: {test.nop: [{onfail: [{test: a}]}]}\nc: {cmd.run: [{name: exit 4}]}";
    let ran = Site::new(sls).run(&[]);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    let head = "run node revision test mode schedule trigger success canceled duration_ms changed failed skipped unchanged \
                unknown total states";
    assert_eq!(keys(&ran.report), head);
    let state = "__id__ __sls__ __run_num__ name result changes comment diff start_time duration level skipped skip_reason \
                 error details";
    for (tag, one) in ran.states() {
        assert_eq!(keys(one), state, "{tag}");
    }
    assert!(ran.states().keys().all(|tag| tag.split("_|-").count() == 4));
    let report = &ran.report;
    for (key, value) in [
        ("node", Value::from("node")),
        ("test", false.into()),
        ("mode", "apply".into()),
        ("schedule", "levels".into()),
        ("trigger", "manual".into()),
    ] {
        assert_eq!(report[key], value, "{key}");
    }
    assert!(report["duration_ms"].as_f64().is_some_and(|ms| ms > 0.0));
    let c = ran.state("c");
    assert_eq!((&c["result"], &c["changes"]["retcode"]), (&false.into(), &4.into()));
    let b = ran.state("b");
    assert_eq!(
        (&b["skipped"], &b["skip_reason"], &b["result"]),
        (&true.into(), &"onfail_not_met".into(), &true.into())
    );
    assert_eq!(ran.state("a")["skip_reason"], "");
}

#[test]
fn a_revert_runs_in_reverse_order() {
    let sls = "
dir:
  file.directory:
    - name: $D/etc
    - mode: '0750'
conf:
  file.managed:
    - name: $D/etc/conf
    - contents: new
    - require:
      - file: dir
old:
  file.managed:
    - name: $D/old
    - contents: new
    - mode: '0600'
    - require:
      - file: conf
act:
  cmd.run:
    - name: touch $D/act
    - require:
      - file: old
";
    let site = Site::new(sls);
    std::fs::write(site.at("old"), "before\n").unwrap();
    let before = zagent_tests::corpus::snapshot(&site.host()).unwrap();
    let ran = site.run(&[]);
    assert_eq!(ran.order(), ["dir", "conf", "old", "act"]);
    assert_eq!(ran.report["changed"], 4, "{:#}", ran.report);
    let after = zagent_tests::corpus::snapshot(&site.host()).unwrap();
    let seen = site.run(&["--test", "--revert"]);
    assert_eq!(seen.report["test"], true);
    assert_eq!(zagent_tests::corpus::snapshot(&site.host()).unwrap(), after, "a dry run changes nothing");
    let undone = site.run(&["--revert", "last"]);
    assert_eq!(undone.order(), ["act", "old", "conf", "dir"]);
    assert_eq!(undone.report["mode"], "revert");
    assert_eq!(undone.report["success"], true, "{:#}", undone.report);
    assert_eq!(undone.ended("act"), "unchanged");
    assert!(undone.state("act")["comment"].as_str().is_some_and(|c| c.contains("cannot be undone")));
    std::fs::remove_file(site.at("act")).unwrap();
    assert_eq!(zagent_tests::corpus::snapshot(&site.host()).unwrap(), before);
}
