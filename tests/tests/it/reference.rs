//! The schema in, the reference documentation out: `docs/src/reference/states/*.md` contain what `zagent explain`
//! prints, `docs/src/reference/*.md` what the code lists (`lists.rs`).
//!
//! `just docs-reference` writes the pages and their lines in the contents; an outdated one fails here.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]

mod lists;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use zagent_compiler::schema::{FunctionDoc, StateParameter, keywords};
use zagent_compiler::{CompileOptions, CompileTarget, Compiler};
use zagent_config::Value;
use zagent_states::functions::described_functions;
use zagent_states::schema;
use zagent_tests::memory::{Tree, inputs};

fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src")
}

/// Every page, by its path in the documentation.
fn pages() -> Vec<(String, String)> {
    let mut pages = vec![
        ("reference/states.md".to_owned(), index()),
        ("reference/states/every-state.md".to_owned(), every_state()),
        ("reference/functions.md".to_owned(), functions()),
    ];
    pages.extend(lists::pages());
    let modules = schema().described_modules();
    pages.extend(modules.map(|name| (format!("reference/states/{name}.md"), module(name))));
    pages
}

fn index() -> String {
    let mut page = "# States\n\nWhat the functions of each module do and take. `zagent explain file.managed` tells the same \
                    on the command line. Parameters are checked against it before a run.\n\n"
        .to_owned();
    for name in schema().described_modules() {
        let _ = writeln!(
            page,
            "- [{name}](states/{name}.md): {}",
            schema().module_purpose(name).unwrap_or_default()
        );
    }
    page.push_str(
        "- [Every state](states/every-state.md): requisites, conditions and the rest that all states take.\n",
    );
    page
}

/// Every execution function, by module.
fn functions() -> String {
    let mut page = "# Execution functions\n\nWhat templates call as `salt['module.function'](…)` and the command line as \
                    `zagent module.function …`. `zagent explain functions` lists them. An argument in brackets is optional. \
                    Functions marked *changes* change the host: templates cannot call them.\n"
        .to_owned();
    let mut module = "";
    for one in described_functions() {
        if one.module() != module {
            module = one.module();
            let _ = write!(page, "\n## {module}\n\n| function | arguments | |\n|---|---|---|\n");
        }
        let mut about = one.summary.to_owned();
        if one.changes_host {
            about.push_str(" *changes*");
        }
        if let Some(program) = one.needs_program {
            let _ = write!(about, " Needs `{program}`.");
        }
        let arguments: Vec<String> = one.arguments().iter().map(|word| format!("`{word}`")).collect();
        let _ = writeln!(page, "| `{}` | {} | {about} |", one.name, arguments.join(" "));
    }
    page
}

fn every_state() -> String {
    let mut page = "# Every state\n\nWhat a state takes, whatever its function.\n".to_owned();
    for group in keywords() {
        let _ = write!(page, "\n## {}\n\n{}\n", group.name, group.summary);
        page.push_str(&table(&group.parameters));
    }
    page
}

fn module(name: &str) -> String {
    let mut page = format!("# {name}\n\n{}\n", schema().module_purpose(name).unwrap_or_default());
    let functions = schema().described_functions().filter(|d| d.module == name);
    for told in functions {
        function(&mut page, &told);
    }
    page
}

fn function(page: &mut String, told: &FunctionDoc) {
    let _ = write!(page, "\n## {}.{}\n\n{}\n", told.module, told.name, told.summary);
    if told.traits.is_unimplemented {
        page.push_str("\nSalt has this function; zagent does not implement it.\n");
        return;
    }
    page.push_str(&table(&told.parameters));
    page.push('\n');
    for (heading, groups) in [("At most one of", &told.exclusive), ("At least one of", &told.needed)] {
        for names in groups {
            let _ = writeln!(page, "- {heading} `{}`.", names.join("`, `"));
        }
    }
    let _ = write!(page, "- Dry run: {}.\n- Undo: {}.\n", told.dry_run_summary(), told.undo_summary());
    let _ = write!(page, "\n```yaml\n{}```\n", told.example);
}

fn table(parameters: &[StateParameter]) -> String {
    if parameters.is_empty() {
        return String::new();
    }
    let mut text = "\n| parameter | takes | default | |\n|---|---|---|---|\n".to_owned();
    for p in parameters {
        let default = match p.default {
            Some(default) => format!("`{default}`"),
            None if p.is_required => "must be given".to_owned(),
            None => String::new(),
        };
        let cell = |text: &str| text.replace('|', "\\|");
        let takes = cell(&p.kinds.describe());
        let _ = writeln!(text, "| `{}` | {takes} | {} | {} |", p.name, cell(&default), cell(p.about));
    }
    text
}

/// The contents with a line for every page of a module, in the place of those that are there.
fn contents(old: &str) -> String {
    let is_state = |line: &&str| line.contains("(reference/states/");
    let title = |path: &str| match path.trim_start_matches("reference/states/").trim_end_matches(".md") {
        "every-state" => "Every state".to_owned(),
        module => module.to_owned(),
    };
    let mut lines: Vec<String> = pages()
        .iter()
        .filter(|(path, _)| path.starts_with("reference/states/"))
        .map(|(path, _)| format!("  - [{}]({path})\n", title(path)))
        .collect();
    // The page about all states comes first in `pages`, and last in the contents.
    lines.rotate_left(1);
    let head = old.split_inclusive('\n').take_while(|line| !is_state(line));
    let tail = old.split_inclusive('\n').skip_while(|line| !is_state(line)).filter(|line| !is_state(line));
    head.map(str::to_owned).chain(lines).chain(tail.map(str::to_owned)).collect()
}

#[test]
fn the_reference_pages_match_the_schema() {
    let accept = std::env::var_os("INSTA_UPDATE").is_some_and(|how| how == "always");
    let summary = book().join("SUMMARY.md");
    let old = fs::read_to_string(&summary).expect("the contents are there");
    let new = contents(&old);
    if accept {
        fs::write(&summary, &new).expect("the contents are written");
    }
    let mut stale = Vec::new();
    if !accept && old != new {
        stale.push("SUMMARY.md".to_owned());
    }
    for (path, want) in pages() {
        let file = book().join(&path);
        if accept {
            fs::create_dir_all(file.parent().expect("a page stands in a folder"))
                .expect("the folder is made");
            fs::write(&file, &want).expect("the page is written");
        }
        if fs::read_to_string(&file).unwrap_or_default() != want {
            stale.push(path);
        }
    }
    assert!(stale.is_empty(), "stale (`just docs-reference` writes them): {stale:?}");
}

#[test]
fn no_page_is_left_over() {
    let pages = pages();
    for entry in fs::read_dir(book().join("reference/states")).expect("the pages are there") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        let path = format!("reference/states/{name}");
        assert!(pages.iter().any(|(known, _)| *known == path), "{path} is about nothing");
    }
}

#[test]
fn every_example_compiles_and_uses_its_function() {
    for told in schema().described_functions() {
        let what = format!("{}.{}", told.module, told.name);
        let files = vec![("example.sls".to_owned(), told.example.clone().into_bytes())];
        let inputs =
            inputs(Tree::base(files), Tree::default(), Value::empty_map(), CompileOptions::default());
        let want = CompileTarget::Sls { names: vec!["example".to_owned()], env: "base".to_owned() };
        let plan =
            Compiler::new(inputs).compile(&want).unwrap_or_else(|faults| panic!("{what}: {faults:?}")).plan;
        let uses = plan.chunks.iter().any(|c| *c.state == *told.module && *c.fun == *told.name);
        assert!(uses, "the example of {what} does not use it");
    }
}
