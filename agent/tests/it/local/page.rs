//! The page about checkouts, plan files and audit mode: every command on it is run, in order.

use std::fs;
use std::path::Path;

use super::{Checkout, Said, own_directory};

/// The section whose commands run on a node with a source.
const AUDIT: &str = "## Audit mode";

/// The commands of a part of the page: all indented lines outside fences, as one script.
fn script(part: &str) -> String {
    let plain = part.split("```").step_by(2);
    let lines = plain.flat_map(str::lines).filter_map(|line| line.strip_prefix("    "));
    format!("set -eu\n{}\n", lines.collect::<Vec<_>>().join("\n"))
}

/// The settings of a part of the page.
fn settings(part: &str) -> String {
    part.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

fn run(checkout: &Checkout, script: &str) -> Said {
    let path = std::env::join_paths(
        std::iter::once(own_directory()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let mut shell = checkout.command("sh", "repo");
    Said::new(&shell.args(["-xc", script]).env("PATH", path.unwrap()).output().unwrap())
}

#[test]
fn every_command_of_the_page_runs() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/local.md");
    let page = fs::read_to_string(page).unwrap();
    let (local, audit) = page.split_once(AUDIT).unwrap();
    let checkout = Checkout::new();
    let commands = script(local);
    assert!(commands.matches("\nzagent ").count() > 8, "{commands}");
    run(&checkout, &commands).expect(0);
    assert!(checkout.host("motd").exists());

    let at = |name: &str| checkout.path(name).display().to_string();
    let source = format!("root: {}\nsource: {{remotes: [{{url: {}}}]}}\n", at("audited"), at("repo"));
    let settings = settings(audit);
    assert!(settings.contains("mode: audit"), "{settings}");
    // The host of the example does not exist.
    checkout.write(
        "zagent.yaml",
        &(source + &settings.replace("https://hooks.example.org/zagent", "http://127.0.0.1:9/")),
    );
    let said = run(&checkout, &script(audit)).expect(0);
    assert!(said.out.contains("audit: runs check and report"), "{}", said.out);
}
