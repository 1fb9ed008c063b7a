//! The workflow files in `dist/forges`, validated against the published schemas of the code hosts by `check-jsonschema`,
//! which ships them; and the corpus against our own schema. Skipped where it is not installed, except with `CI=true`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether `check-jsonschema` is there; with `CI=true` it must be.
fn has_validator() -> bool {
    let found = Command::new("check-jsonschema").arg("--version").output().is_ok_and(|o| o.status.success());
    assert!(found || std::env::var_os("CI").is_none(), "there is no check-jsonschema: .ci/run installs it");
    if !found {
        let _ = writeln!(std::io::stderr(), "skipped: check-jsonschema is not installed");
    }
    found
}

/// The errors that `check-jsonschema` finds.
fn errors(args: &[&str], files: &[PathBuf]) -> String {
    let ended = Command::new("check-jsonschema").args(args).args(files).output().unwrap();
    let said = [ended.stdout, ended.stderr].concat();
    if ended.status.success() { String::new() } else { String::from_utf8_lossy(&said).into_owned() }
}

#[test]
fn the_workflow_files_match_the_schemas_of_their_code_hosts() {
    if !has_validator() {
        return;
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/forges");
    let github = ["--builtin-schema", "vendor.github-workflows"];
    let gitlab = ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"];
    for (args, file) in [(&github[..], "github.yml"), (&gitlab[..], "gitlab.yml")] {
        let said = errors(args, &[dir.join(file)]);
        assert!(said.is_empty(), "{file}: {said}");
    }
    // The validator finds faults at all.
    let wrong = tempfile::NamedTempFile::with_suffix(".yml").unwrap();
    std::fs::write(wrong.path(), "on: push\njobs: {a: {steps: 1}}\n").unwrap();
    assert!(errors(&github, &[wrong.path().to_owned()]).contains("jobs"));
}

/// The schema for editors: valid, and published as the program prints it.
#[test]
fn the_schema_of_sls_files_is_published_and_takes_the_corpus() {
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/schema/sls.schema.json");
    let text = zagent::output::json(&zagent::sls_schema::sls_schema(zagent_states::schema()));
    if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
        std::fs::create_dir_all(published.parent().unwrap()).unwrap();
        std::fs::write(&published, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&published).unwrap_or_default(), text, "run `just docs-reference`");
    if !has_validator() {
        return;
    }
    let wrong = tempfile::NamedTempFile::with_suffix(".yml").unwrap();
    std::fs::write(wrong.path(), "a:\n  file.managed:\n    - source: {not: a text}\n").unwrap();
    let schema = ["--schemafile", published.to_str().unwrap()];
    assert!(errors(&schema, &[wrong.path().to_owned()]).contains("source"), "the schema finds faults");
    let dir = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    loaded_sls_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus"), dir.path(), &mut files);
    assert!(files.len() > 400, "{} files", files.len());
    for some in files.chunks(200) {
        let said = errors(&schema, some);
        assert!(said.is_empty(), "{said}");
    }
}

/// What the SLS files that need no rendering hold, as JSON: the validator reads another YAML than Salt. Files that are no
/// YAML are cases of their own.
fn loaded_sls_files(from: &Path, to: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            loaded_sls_files(&path, to, out);
        } else if path.extension().is_some_and(|end| end == "sls") && is_plain(&path) {
            let text = std::fs::read_to_string(&path).unwrap().replace("@TMP@", "/tmp/corpus");
            let loaded = zagent_compiler::yaml::load(&text, &zagent_compiler::TreeLimits::default());
            let Some(loaded) = loaded.ok().and_then(|loaded| serde_json::to_string(&loaded).ok()) else {
                continue;
            };
            let name = path.display().to_string().replace('/', "_");
            out.push(to.join(format!("{name}.json")));
            std::fs::write(out.last().unwrap(), loaded).unwrap();
        }
    }
}

fn is_plain(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let is_top = path.file_name().is_some_and(|name| name == "top.sls");
    // Cases of pillars, and of what Salt refuses because of its shape.
    let others = ["pillar", "inc_not_list", "ext_body_not_dict"];
    let is_other = path.components().any(|part| others.iter().any(|other| part.as_os_str() == *other));
    !is_top && !is_other && !text.contains("{{") && !text.contains("{%") && !text.starts_with("#!")
}
