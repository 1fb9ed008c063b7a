//! An undefined name, key or function in, a diagnostic with the nearest existing one out.
//!
//! Law: diagnostics show keys, never values (held by `every_error_matches_its_golden_file`).

use minijinja::value::{Value, ValueKind};
use zagent_config::codes::{function, template};
use zagent_config::{Diagnostic, suggest};

use super::diagnostic::{RenderScope, TemplateLocation};

/// Maximum keys listed when none is close.
const MAX_LISTED: usize = 8;

/// The diagnostic for a path such as `pillar.nginx.workrs`.
pub(super) fn undefined_diagnostic(
    path: &str,
    scope: &dyn RenderScope,
    here: Option<&TemplateLocation>,
) -> Diagnostic {
    if let Some(name) = path.strip_prefix("_za_f.") {
        return not_imported(name.split(['.', '[']).next().unwrap_or(name), here);
    }
    let (of, key) = split_path(path);
    let Some(of) = of else { return unknown_name(&key, scope, here) };
    if of == "salt" && resolve(scope, "salt").is_some() {
        let names: Vec<String> = keys_at(scope, "salt");
        let mut diagnostic = Diagnostic::new(function::UNKNOWN_FUNCTION, format!("unknown function `{key}`"));
        diagnostic.hint =
            suggest::nearest(&key, names.iter().map(String::as_str)).map(|n| format!("did you mean `{n}`?"));
        return diagnostic;
    }
    if key.starts_with("__") {
        return Diagnostic::new(template::SANDBOX, format!("templates may not use `{key}`"));
    }
    unknown_key(&of, &key, path.ends_with(']'), scope, here)
}

/// The diagnostic for an imported name that the template does not define.
fn not_imported(name: &str, here: Option<&TemplateLocation>) -> Diagnostic {
    let mut diagnostic =
        Diagnostic::new(template::IMPORT_NAME, format!("the imported template does not define `{name}`"));
    let mut names = here.map(|here| here.names_imported_with(name)).unwrap_or_default();
    // Names that the template itself imports are not exported.
    names.retain(|other| other != name);
    let near = suggest::nearest(name, names.iter().map(String::as_str));
    diagnostic.hint = match near {
        Some(near) => Some(format!("did you mean `{near}`?")),
        None if names.is_empty() => None,
        None => Some(format!("it defines {}", list_keys(&names))),
    };
    diagnostic
}

fn unknown_name(name: &str, scope: &dyn RenderScope, here: Option<&TemplateLocation>) -> Diagnostic {
    let mut names = scope.names();
    names.extend(here.into_iter().flat_map(TemplateLocation::assigned_names).cloned());
    let mut diagnostic = Diagnostic::new(template::UNDEFINED, format!("`{name}` is not defined"));
    // Names of one or two letters are close to everything.
    let near = suggest::nearest(name, names.iter().map(String::as_str)).filter(|n| n.len() > 2);
    diagnostic.hint = near.map(|n| format!("did you mean `{n}`?"));
    diagnostic
}

fn unknown_key(
    of: &str,
    key: &str,
    in_brackets: bool,
    scope: &dyn RenderScope,
    here: Option<&TemplateLocation>,
) -> Diagnostic {
    // The engine does not say what was called; the source does.
    let called = here.filter(|_| of.contains("(...)")).and_then(|here| here.expression_before(key));
    let of = called.as_deref().unwrap_or(of);
    let what = if of.contains("(...)") { "this value".to_owned() } else { format!("`{of}`") };
    let mut diagnostic = Diagnostic::new(template::UNDEFINED_KEY, format!("{what} has no `{key}`"));
    let meant = here.and_then(|here| part_of_pillar(of).or_else(|| unaliased(of, here.source_before())));
    let meant = meant.unwrap_or_else(|| of.to_owned());
    let keys = keys_at(scope, &meant);
    let mut in_pillar = pillar_path(&meant);
    match suggest::nearest(key, keys.iter().map(String::as_str)) {
        Some(near) => {
            let is_plain = near.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let whole =
                if is_plain && !in_brackets { format!("{of}.{near}") } else { format!("{of}['{near}']") };
            diagnostic.hint = Some(format!("did you mean `{whole}`?"));
            in_pillar.iter_mut().for_each(|path| path.push(near.to_owned()));
        }
        None if in_pillar.as_ref().is_some_and(Vec::is_empty) && keys.is_empty() => {
            diagnostic.hint =
                Some("this node has no pillar: check that a target in the pillar top file matches it".into());
        }
        None if !keys.is_empty() && (in_pillar.is_some() || keys.len() <= MAX_LISTED) => {
            diagnostic.hint = Some(format!("`{of}` has {}", list_keys(&keys)));
        }
        None => return diagnostic,
    }
    diagnostic.pillar_key = in_pillar.filter(|path| !path.is_empty()).map(|path| path.join(":"));
    diagnostic
}

fn list_keys(keys: &[String]) -> String {
    let mut text = keys.iter().take(MAX_LISTED).map(|k| format!("`{k}`")).collect::<Vec<_>>().join(", ");
    if keys.len() > MAX_LISTED {
        text.push_str(", …");
    }
    text
}

/// The keys of the value at a path.
fn keys_at(scope: &dyn RenderScope, path: &str) -> Vec<String> {
    match resolve(scope, path) {
        Some(container) if container.kind() == ValueKind::Map => {
            container.try_iter().map(|i| i.map(|k| k.to_string()).collect()).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// Splits a path at its last step: `a.b['c']` into `a.b` and `c`.
fn split_path(path: &str) -> (Option<String>, String) {
    if path.ends_with(']')
        && let Some(open) = path.rfind('[')
    {
        let key = path[open + 1..path.len() - 1].trim_matches(['"', '\'']);
        return (Some(path[..open].to_owned()), key.to_owned());
    }
    match path.rsplit_once('.') {
        Some((of, key)) => (Some(of.to_owned()), key.to_owned()),
        None => (None, path.to_owned()),
    }
}

fn resolve(scope: &dyn RenderScope, path: &str) -> Option<Value> {
    let (of, key) = split_path(path);
    match of {
        None => scope.lookup(&key),
        Some(of) => resolve(scope, &of)?.get_item(&Value::from(key)).ok().filter(|v| !v.is_undefined()),
    }
}

/// The steps of a path below `pillar`, if it starts there.
fn pillar_path(path: &str) -> Option<Vec<String>> {
    match split_path(path) {
        (None, name) => (name == "pillar").then(Vec::new),
        (Some(of), key) => pillar_path(&of).map(|mut steps| {
            steps.push(key);
            steps
        }),
    }
}

/// A path whose variable was set to a part of the pillar in the source: `nginx` after `{% set nginx = pillar.nginx %}`.
fn unaliased(path: &str, before: &str) -> Option<String> {
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (name, rest) = path.split_at(end);
    let value = before.rmatch_indices("set ").find_map(|(at, set)| {
        let assigned = before[at + set.len()..].trim_start().strip_prefix(name)?;
        assigned.trim_start().strip_prefix('=')
    })?;
    let value = value.split(['%', '|']).next()?.trim_end_matches(['-', '+', ' ', '\n']).trim_start();
    Some(format!("{}{rest}", part_of_pillar(value)?))
}

/// An expression that is a part of the pillar, as a path: `pillar.a.b`, `pillar.get('a')`, `salt['pillar.get']('a:b', {})`.
fn part_of_pillar(expression: &str) -> Option<String> {
    for call in ["salt['pillar.get'](", "salt[\"pillar.get\"](", "salt.pillar.get(", "pillar.get("] {
        let Some(arguments) = expression.strip_prefix(call) else { continue };
        let quote = arguments.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let key = arguments[1..].split(quote).next()?;
        let parts = if call.starts_with("salt") { key.split(':').collect() } else { vec![key] };
        return Some(parts.iter().fold("pillar".to_owned(), |path, part| format!("{path}['{part}']")));
    }
    let is_path = expression.chars().all(|c| c.is_alphanumeric() || "_.-[]'\"".contains(c));
    (expression.starts_with("pillar") && is_path).then(|| expression.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_stands_for_a_part_of_the_pillar() {
        for (before, path, want) in [
            ("{% set nginx = pillar.nginx %}{{ ", "nginx.ssl", Some("pillar.nginx.ssl")),
            ("{%- set n = pillar['a']['b'] -%}", "n", Some("pillar['a']['b']")),
            ("{% set n = salt['pillar.get']('a:b', {}) %}", "n['c']", Some("pillar['a']['b']['c']")),
            ("{% set n = pillar.get('a:b', {}) | default %}", "n", Some("pillar['a:b']")),
            ("{% set n = 1 %}{% set n = salt.pillar.get(\"a\") %}", "n", Some("pillar['a']")),
            ("{% set n = grains.a %}", "n", None),
            ("{% set n = pillar.a + pillar.b %}", "n", None),
            ("", "n", None),
        ] {
            assert_eq!(unaliased(path, before).as_deref(), want, "{before}");
        }
    }
}
