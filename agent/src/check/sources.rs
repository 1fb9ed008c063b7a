//! The plan of a host in, missing `salt://` sources and templates that do not render out.
//!
//! Law: what a state would read in a run is looked up in the tree alone. A state that always runs gets an error; one
//! that a guard or requisite may keep from running, or whose template asks what is not recorded, a warning (held by
//! `check_finds_missing_sources_and_templates_that_do_not_render`).

use zagent_compiler::{Chunk, Compiler, FileTree, Plan};
use zagent_config::codes::{edge, function};
use zagent_config::{Diagnostic, Diagnostics, Value};

use crate::draw::diagnostic::Severity;

/// Keys whose presence means that a state may not run.
const CONDITIONS: [&str; 9] = [
    "onlyif",
    "unless",
    "creates",
    "onchanges",
    "onchanges_any",
    "onfail",
    "onfail_any",
    "onfail_all",
    "prereq",
];

/// A problem of one host.
pub(super) type SourceProblem = (Severity, Diagnostic);

/// Every problem of the sources in a plan.
pub(super) fn find_problems(compiler: &Compiler, plan: &Plan) -> Vec<SourceProblem> {
    let files = &**compiler.files();
    let mut problems = Vec::new();
    for chunk in plan.chunks.iter().filter(|chunk| !chunk.prereq.check) {
        for group in source_groups(chunk) {
            let found = group.iter().find_map(|text| TreeSource::find(files, chunk, text));
            match found {
                None => problems.push((severity(chunk), missing(compiler, chunk, &group))),
                Some(source) => problems.extend(source.and_then(|s| render(compiler, chunk, &s))),
            }
        }
    }
    problems
}

fn severity(chunk: &Chunk) -> Severity {
    let is_conditional = CONDITIONS.iter().any(|key| chunk.args.contains(key));
    if is_conditional { Severity::Warning } else { Severity::Error }
}

/// The sources of a state that are in the tree: of each group, one must exist. A group with a source elsewhere is left
/// out, because nobody can tell here whether it exists.
fn source_groups(chunk: &Chunk) -> Vec<Vec<String>> {
    let mut groups = Vec::new();
    match chunk.args.get("source") {
        Some(Value::List(list)) => groups.push(list.iter().filter_map(source_text).collect()),
        Some(one) => groups.push(source_text(one).into_iter().collect::<Vec<_>>()),
        None if (&*chunk.state, &*chunk.fun) == ("cmd", "script") => {
            groups.push(source_text(&chunk.name).into_iter().collect());
        }
        None => {}
    }
    if let Some(Value::List(list)) = chunk.args.get("sources").filter(|_| &*chunk.state == "file") {
        groups.extend(list.iter().filter_map(source_text).map(|text| vec![text]));
    }
    let is_tree =
        |group: &Vec<String>| !group.is_empty() && group.iter().all(|text| text.starts_with("salt://"));
    groups.retain(is_tree);
    groups
}

/// A source as text: alone, or as the key of a mapping to its hash.
fn source_text(value: &Value) -> Option<String> {
    match value {
        Value::Str(text) => Some(text.to_string()),
        Value::Map(map) => map.iter().next().and_then(|(key, _)| key.as_str().map(str::to_owned)),
        _ => None,
    }
}

/// A source that exists.
struct TreeSource {
    env: String,
    path: String,
    text: String,
}

impl TreeSource {
    /// Nothing when it does not exist; an inner nothing for a directory, which is no template itself.
    fn find(files: &dyn FileTree, chunk: &Chunk, text: &str) -> Option<Option<Self>> {
        let own = chunk.args.get("saltenv").and_then(Value::as_str).unwrap_or(&chunk.env);
        let path = text.strip_prefix("salt://").unwrap_or(text);
        let path = path.strip_prefix('|').unwrap_or(path);
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let env = query.split('&').find_map(|part| part.strip_prefix("saltenv=")).unwrap_or(own);
        let path = path.trim_end_matches('/');
        if files.has(env, path) {
            return Some(Some(Self { env: env.to_owned(), path: path.to_owned(), text: text.to_owned() }));
        }
        let below = if path.is_empty() { String::new() } else { format!("{path}/") };
        let is_dir = (&*chunk.fun == "recurse")
            && files.list(env).is_ok_and(|list| list.iter().any(|file| file.starts_with(&below)));
        is_dir.then_some(None)
    }
}

fn missing(compiler: &Compiler, chunk: &Chunk, group: &[String]) -> Diagnostic {
    let place = compiler.place(chunk);
    let names = group.join("`, `");
    let none = if group.len() == 1 { "does not exist" } else { "do not exist" };
    let message = format!("the source `{names}` of `{}.{}` `{}` {none}", chunk.state, chunk.fun, chunk.id);
    Diagnostic::new(edge::MISSING_SOURCE, message)
        .at(place.file, place.pos)
        .hint("add the file to the states tree, or correct the path: it counts from the root of the tree")
}

/// Renders the template of a managed file as a run would; the error when it does not render.
fn render(compiler: &Compiler, chunk: &Chunk, source: &TreeSource) -> Option<SourceProblem> {
    let is_template = chunk.args.get("template").and_then(Value::as_str) == Some("jinja");
    if !is_template || (&*chunk.state, &*chunk.fun) != ("file", "managed") {
        return None;
    }
    let bytes = compiler.files().read(&source.env, &source.path).ok().flatten()?;
    let text = std::str::from_utf8(&bytes).ok()?;
    let mut variables = zagent_states::file::template_variables(chunk)?;
    if matches!(variables.get("source"), Some(Value::List(_))) {
        variables.insert("source", source.text.as_str());
    }
    let Diagnostics(faults) = compiler.render_file(&source.env, &source.path, text, &variables).err()?;
    let fault = faults.into_iter().next()?;
    // What only a real host knows says nothing against the template.
    let is_unknown =
        [function::FUNCTION_FORBIDDEN.id, function::UNKNOWN_FUNCTION.id].contains(&fault.code.id);
    let severity = if is_unknown { Severity::Warning } else { severity(chunk) };
    let place = compiler.place(chunk);
    let mut problem = fault.clone();
    problem.code = edge::BROKEN_TEMPLATE;
    problem.message =
        format!("the template `{}` of `{}` does not render: {}", source.text, chunk.id, fault.message);
    problem.notes.push(format!("used at {}:{}", place.file, place.pos.line));
    Some((severity, problem))
}
