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
    let wrong = tempfile::NamedTempFile::with_suffix(".yml").unwrap();
    std::fs::write(wrong.path(), "a:\n  file.managed:\n    - source: {not: a text}\n").unwrap();
    let schema = ["--schemafile", published.to_str().unwrap()];
    match errors(&schema, wrong.path()) {
        None => return eprintln!("skipped: check-jsonschema is not installed"),
        Some(said) => assert!(!said.is_empty(), "the schema finds faults"),
    }
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut files = Vec::new();
    plain_sls_files(&corpus, &mut files);
    assert!(files.len() > 100, "{} files", files.len());
    for some in files.chunks(200) {
        let ended = Command::new("check-jsonschema")
            .args(schema)
            .args(["--default-filetype", "yaml", "--force-filetype", "yaml"])
            .args(some)
            .output()
            .unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    }
}

/// SLS files that need no rendering, of cases that compile.
fn plain_sls_files(dir: &Path, out: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            plain_sls_files(&path, out);
        } else if path.extension().is_some_and(|end| end == "sls") && is_plain(&path) {
            out.push(path);
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
