//! File text in, what it uses out: state functions, template functions, renderers. For files that do not
//! compile, and for what a plan does not contain.

use std::sync::LazyLock;

use fancy_regex::Regex;
use zagent_states::schema;

/// A name, and the line of its use.
pub(super) type UsedName = (String, u32);

static FULL: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s+(?:- )?([a-z][a-z0-9_]*)\.([a-z][a-z0-9_]*):"));
static SHORT: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s+([a-z][a-z0-9_]*):\s*$"));
static ITEM: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s+- ([a-z][a-z0-9_]*)\s*$"));
static INDEXED: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"\bsalt\s*\[\s*['"]([A-Za-z0-9_]+\.[A-Za-z0-9_]+)['"]\s*\]"#));
static DOTTED: LazyLock<Regex> = LazyLock::new(|| regex(r"\bsalt\.([a-z][a-z0-9_]*\.[a-z][a-z0-9_]*)\s*\("));

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is ours and the tests compile it")
}

fn lines(text: &str) -> impl Iterator<Item = (u32, &str)> {
    text.lines().enumerate().map(|(n, line)| (u32::try_from(n + 1).unwrap_or(u32::MAX), line))
}

/// State functions as they are written: `file.managed:`, or `file:` with `- managed` below it.
pub(super) fn scan_states(text: &str) -> Vec<UsedName> {
    let mut found = Vec::new();
    let mut module: Option<&str> = None;
    for (line, content) in lines(text) {
        if let Ok(Some(hit)) = FULL.captures(content) {
            found.push((format!("{}.{}", &hit[1], &hit[2]), line));
            module = None;
        } else if let Ok(Some(hit)) = SHORT.captures(content) {
            module = hit.get(1).map(|m| m.as_str()).filter(|m| schema().module(m).is_some());
        } else if let (Some(name), Ok(Some(hit))) = (module, ITEM.captures(content))
            && schema().function(name, &hit[1]).is_some()
        {
            found.push((format!("{name}.{}", &hit[1]), line));
            module = None;
        }
    }
    found
}

/// Functions that templates call: `salt['mod.fun']` and `salt.mod.fun(`.
pub(super) fn scan_functions(text: &str) -> Vec<UsedName> {
    let mut found = Vec::new();
    for (line, content) in lines(text).filter(|(_, l)| l.contains("salt")) {
        for pattern in [&*INDEXED, &*DOTTED] {
            let hits = pattern.captures_iter(content).flatten();
            found.extend(hits.map(|hit| (hit[1].to_owned(), line)));
        }
    }
    found
}

/// Renderers named in the first line.
pub(super) fn scan_renderers(text: &str) -> Vec<String> {
    let first = text.lines().next().and_then(|line| line.strip_prefix("#!")).unwrap_or_default();
    if first.is_empty() || first.starts_with('/') {
        return Vec::new();
    }
    first.split('|').filter_map(|part| part.split_whitespace().next()).map(str::to_owned).collect()
}

/// Lines that have one of these as the first word of a key.
pub(super) fn scan_keys<'t>(text: &'t str, prefixes: &'t [&str]) -> impl Iterator<Item = u32> + 't {
    lines(text)
        .filter(|(_, line)| {
            let word = line.trim_start().trim_start_matches("- ");
            prefixes.iter().any(|prefix| word.starts_with(prefix)) && word.contains(':')
        })
        .map(|(n, _)| n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_functions_are_found_in_both_spellings() {
        let text = "a:\n  file.managed:\n    - name: /x\nb:\n  pkg:\n    - installed\n    - name: y\nc.d:\n  x: 1\n  # pkg.x:\n";
        assert_eq!(scan_states(text), [("file.managed".to_owned(), 2), ("pkg.installed".to_owned(), 6)]);
    }

    #[test]
    fn template_functions_and_renderers_are_found() {
        let text = "#!jinja|yaml|gpg\n{% set x = salt['pillar.get']('a') %}{{ salt.cmd.run('x') }}\n{{ salt[\"a.b\"]() }}";
        let names: Vec<_> = scan_functions(text);
        assert_eq!(names, [("pillar.get".into(), 2), ("cmd.run".into(), 2), ("a.b".into(), 3)]);
        assert_eq!(scan_renderers(text), ["jinja", "yaml", "gpg"]);
        assert!(scan_renderers("#!/bin/sh\n").is_empty() && scan_renderers("a: 1\n").is_empty());
    }
}
