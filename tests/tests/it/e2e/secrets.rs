//! Secrets never leave a run: canaries in ids, names, comments, files and outputs, and every place where they could turn up.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use zagent_tests::node::{Node, Repo, Said};

use super::tell::listen;

/// The secret of the pillar.
const CANARY: &str = "canary-Zq7/w+9 'x\"";
/// What it is replaced with.
const ROTATED: &str = "rotated-Kp3/v+8 'y\"";

/// Texts that give a secret away: itself, and its forms.
fn forms(secret: &str) -> Vec<String> {
    let json = serde_json::to_string(secret).unwrap();
    let hex: String = secret.bytes().map(|b| format!("{b:02x}")).collect();
    let percent: String = secret
        .bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect();
    vec![secret.to_owned(), json.trim_matches('"').to_owned(), hex, percent, secret[..13].to_owned()]
}

#[track_caller]
fn assert_clean(sink: &str, text: &str) {
    for secret in [CANARY, ROTATED] {
        for form in forms(secret) {
            assert!(!text.contains(&form), "{sink} shows {form}:\n{text}");
        }
    }
    // `printf SECRET | base64`, as the command of the states prints it.
    for encoded in ["Y2FuYXJ5LVpxNy93", "cm90YXRlZC1LcDMvd"] {
        assert!(!text.contains(encoded), "{sink} shows {encoded}:\n{text}");
    }
}

#[track_caller]
fn assert_said_clean(sink: &str, said: &Said) {
    assert_clean(sink, &said.out);
    assert_clean(sink, &said.err);
}

fn pillar(repo: &Repo, secret: &str) {
    repo.write("pillar/top.sls", "base: {'*': [app]}\n");
    let quoted = serde_json::to_string(secret).unwrap();
    repo.write("pillar/app.sls", &format!("app: {{user: appuser, password: {quoted}}}\n"));
}

/// States that put the secret wherever a state can put it.
fn states(repo: &Repo) {
    repo.write("states/top.sls", "base: {'*': [app]}\n");
    repo.write(
        "states/conf.jinja",
        "user={{ pillar.app.user }}\nport=80\npassword={{ pillar.app.password }}\n",
    );
    repo.write(
        "states/app.sls",
        "{% set secret = pillar.app.password %}\n\
         conf:\n  file.managed: [{name: $D/conf}, {source: 'salt://conf.jinja'}, {template: jinja}, {mode: '0600'}]\n\
         {{ ('id ' ~ secret) | json }}:\n  test.succeed_with_changes: [{name: {{ ('name ' ~ secret) | json }}}]\n\
         {{ ('bad ' ~ secret) | json }}:\n  test.configurable_test_state: [{changes: false}, {result: false}, {comment: {{ ('said ' ~ secret) | json }}}]\n\
         prints:\n  cmd.run: [{name: 'cat; printf %s \"$TOKEN\" | base64; printf %s \"$TOKEN\" | od -An -tx1 | tr -d \" \\n\"'},\n\
         \x20   {stdin: {{ secret | json }}}, {env: [{TOKEN: {{ secret | json }}}]}]\n\
         errs:\n  cmd.run: [{name: 'cat >&2; exit 3'}, {stdin: {{ secret | json }}}]\n\
         ini:\n  ini.options_present: [{name: $D/app.ini}, {sections: {db: {password: {{ secret | json }}}}}]\n\
         log: {test.nop: [{comment: {{ salt['log.warning'](secret) | json }}}]}\n",
    );
    repo.commit();
    repo.push();
}

/// Every file below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            all.extend(files(&entry.path()));
        } else if kind.is_file() {
            all.push(entry.path());
        }
    }
    all
}

/// No file of the agent shows a secret, but those that have to hold it; and those nobody else can read.
fn assert_files_clean(node: &Node) {
    let root = node.root();
    assert_eq!(fs::metadata(root.join("state")).unwrap().permissions().mode() & 0o077, 0);
    for path in files(&root) {
        let bytes = fs::read(&path).unwrap();
        let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        // The tree itself, plans made of it, and what a revert puts back.
        let holds = ["cache/", "state/undo/"].iter().any(|dir| name.starts_with(dir));
        if !holds {
            assert_clean(&name, &String::from_utf8_lossy(&bytes));
        } else if name.starts_with("state/undo/") || name.starts_with("cache/plans/") {
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0, "{name}");
        }
    }
}

fn assert_outputs_clean(node: &Node, repo: &Repo) {
    for format in ["text", "json", "yaml", "ndjson", "highstate"] {
        let dry = node.call(&["run", "--once", "--test", "-v", "--out", format]);
        assert_said_clean(&format!("dry run as {format}"), &dry);
        assert_said_clean(
            &format!("history as {format}"),
            &node.call(&["history", "last", "-v", "--out", format]),
        );
    }
    for what in ["lowstate", "plan", "highstate", "graph", "pillar", "top"] {
        for format in ["text", "json", "yaml"] {
            let shown = node.call(&["show", what, "-v", "--out", format]);
            assert_said_clean(&format!("show {what} as {format}"), &shown);
        }
    }
    assert_said_clean("show sls", &node.call(&["show", "sls", "app"]));
    for format in ["text", "json"] {
        assert_said_clean("status", &node.call(&["status", "--out", format]));
    }
    let work = repo.work().to_string_lossy().into_owned();
    for format in ["text", "json", "sarif"] {
        assert_said_clean("check", &zagent_tests::node::zagent(&["check", &work, "--out", format]));
    }
}

#[test]
fn no_sink_shows_a_canary() {
    let (node, repo) = Node::with_repo();
    let (url, heard) = listen();
    let more = format!("webhooks: [{{url: '{url}', on: [always]}}]\n");
    node.configure(&format!("source: {{remotes: [{{url: '{}'}}]}}\n", repo.url()), &more);
    pillar(&repo, CANARY);
    states(&repo);
    // First the canary, then what replaces it: the old value is in no pillar any more.
    for secret in [CANARY, ROTATED] {
        pillar(&repo, secret);
        repo.commit();
        repo.push();
        let ran = node.turn_with(&["-v"]);
        assert_said_clean("report", ran.expect(1, &["********"]));
        assert!(node.text("conf").contains(secret), "the host has the secret itself");
        let (head, event) = heard.recv_timeout(std::time::Duration::from_secs(20)).expect("a call");
        assert_clean("webhook", &head);
        assert_clean("webhook", &event.to_string());
        assert_outputs_clean(&node, &repo);
        assert_files_clean(&node);
    }
    // The secret is gone from the pillar and from the file: the old line is still nobody's business.
    pillar(&repo, "");
    repo.write("states/conf.jinja", "user={{ pillar.app.user }}\nport=81\n");
    repo.commit();
    repo.push();
    assert_said_clean("preview of the removal", &node.call(&["run", "--once", "--test", "-v"]));
    let removed = node.call(&["run", "--once", "-v", "--out", "json"]);
    assert_said_clean("removal", &removed);
    assert!(removed.out.contains("the file holds or held a secret"), "{}", removed.out);
    assert_files_clean(&node);
    // And a revert names nothing of it either.
    assert_said_clean("revert", &node.call(&["run", "--revert", "last", "-v", "--out", "json"]));
}

/// What holds no secret is shown as it was.
#[test]
fn a_file_without_a_secret_shows_its_lines() {
    let (node, repo) = Node::with_repo();
    pillar(&repo, CANARY);
    states(&repo);
    repo.write("states/top.sls", "base: {'*': [app, motd]}\n");
    repo.commit();
    repo.push();
    node.turn().expect(1, &[]);
    repo.motd("two");
    repo.write("states/top.sls", "base: {'*': [app, motd]}\n");
    repo.commit();
    repo.push();
    node.call(&["run", "--once"]).expect(1, &["-one", "+two"]);
}

#[test]
fn a_secret_in_a_command_line_is_a_warning() {
    let (node, repo) = Node::with_repo();
    pillar(&repo, "canary-argv-0123");
    repo.write("states/motd.sls", "a: {cmd.run: [{name: 'true {{ pillar.app.password }}'}]}\n");
    repo.commit();
    repo.push();
    let said = node.call(&["run", "--once", "--out", "json"]);
    said.expect(0, &["ZA0819", "`name` of `cmd.run` puts a secret into a command line", "`stdin`"]);
    assert!(!said.err.contains("canary-argv") && !said.out.contains("canary-argv"), "{said:?}");
    for sls in [
        "a: {cmd.run: [{name: cat}, {stdin: '{{ pillar.app.password }}'}, {env: [{A: '{{ pillar.app.password }}'}]}]}\n",
        "a: {exec.run: [{command: cat}, {stdin: '{{ pillar.app.password }}'}, {environment: ['A={{ pillar.app.password }}']}]}\n",
    ] {
        repo.write("states/motd.sls", sls);
        repo.commit();
        repo.push();
        let said = node.call(&["run", "--once", "--out", "json"]);
        said.expect(0, &["\"stdout\": \"********\""]);
        assert!(!said.err.contains("ZA0819") && !said.out.contains("canary-argv"), "{said:?}");
    }
}
