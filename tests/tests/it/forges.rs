//! The workflow files in `dist/forges`, validated against the published schemas of the code hosts by `check-jsonschema`,
//! which ships them. Skipped where it is not installed.

use std::path::Path;
use std::process::Command;

/// The errors that `check-jsonschema` finds; `None` when it is not installed.
fn errors(args: &[&str], file: &Path) -> Option<String> {
    let ended = Command::new("check-jsonschema").args(args).arg(file).output().ok()?;
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    Some(if ended.status.success() { String::new() } else { said })
}

#[test]
fn the_workflow_files_match_the_schemas_of_their_code_hosts() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/forges");
    let github = ["--builtin-schema", "vendor.github-workflows"];
    let gitlab = ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"];
    for (args, file) in [(&github[..], "github.yml"), (&gitlab[..], "gitlab.yml")] {
        match errors(args, &dir.join(file)) {
            None => return eprintln!("skipped: check-jsonschema is not installed"),
            Some(said) => assert!(said.is_empty(), "{file}: {said}"),
        }
    }
    // The validator finds faults at all.
    let wrong = tempfile::NamedTempFile::with_suffix(".yml").unwrap();
    std::fs::write(wrong.path(), "on: push\njobs: {a: {steps: 1}}\n").unwrap();
    assert!(errors(&github, wrong.path()).is_some_and(|said| !said.is_empty()));
}
