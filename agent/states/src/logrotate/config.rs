//! The text of logrotate's configuration in, its directives out, and the text with one of them changed.

use zagent_config::{Map, Value};

/// The configuration that includes all others.
pub(crate) const LOGROTATE_CONF: &str = "/etc/logrotate.conf";
/// Directives that a script follows.
const SCRIPT_DIRECTIVES: [&str; 5] = ["prerotate", "postrotate", "firstaction", "lastaction", "preremove"];

/// What a line of a configuration is.
#[derive(Debug, PartialEq, Eq)]
enum LogrotateLine<'t> {
    /// A directive and what stands behind it.
    Directive(&'t str, &'t str),
    /// Names of files, or the brace behind them.
    Names,
    Open,
    Close,
    Other,
}

/// Each line with the block that it stands in; names on lines of their own belong to the block that follows.
fn parse_lines(text: &str) -> Vec<(LogrotateLine<'_>, Vec<&str>)> {
    let (mut block, mut names, mut script): (Option<Vec<&str>>, Vec<&str>, bool) = (None, Vec::new(), false);
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let here = || block.clone().unwrap_or_default();
        let entry = if script {
            script = line != "endscript";
            (LogrotateLine::Other, here())
        } else if line.is_empty() || line.starts_with('#') {
            (LogrotateLine::Other, here())
        } else if line.starts_with('}') {
            let entry = (LogrotateLine::Close, here());
            block = None;
            entry
        } else if let (None, Some(head)) = (&block, line.strip_suffix('{')) {
            names.extend(head.split_whitespace().map(|n| n.trim_matches('"')));
            block = Some(std::mem::take(&mut names));
            (LogrotateLine::Open, block.clone().unwrap_or_default())
        } else if block.is_none() && line.starts_with(['/', '"', '*']) {
            names.extend(line.split_whitespace().map(|n| n.trim_matches('"')));
            (LogrotateLine::Names, Vec::new())
        } else {
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            script = SCRIPT_DIRECTIVES.contains(&word);
            (LogrotateLine::Directive(word, rest.trim()), here())
        };
        found.push(entry);
    }
    found
}

/// A whole number in place of one written as text.
pub(crate) fn number_or_text(value: Value) -> Value {
    match value.as_str().and_then(|t| t.trim().parse::<i64>().ok()) {
        Some(number) => Value::Int(number),
        None => value,
    }
}

fn parse_value(rest: &str) -> Value {
    if rest.is_empty() { Value::Bool(true) } else { number_or_text(rest.into()) }
}

fn is_in_block(block: Option<&str>, names: &[&str]) -> bool {
    block.map_or(names.is_empty(), |block| names.contains(&block))
}

/// What a file includes.
pub(crate) fn includes(text: &str) -> Vec<&str> {
    parse_lines(text)
        .into_iter()
        .filter_map(|(line, _)| match line {
            LogrotateLine::Directive("include", rest) => Some(rest),
            _ => None,
        })
        .collect()
}

/// True when the file has this block.
pub(crate) fn has_block(text: &str, block: &str) -> bool {
    parse_lines(text).iter().any(|(line, names)| *line == LogrotateLine::Open && names.contains(&block))
}

/// The value of a directive; nothing when it is not there.
pub(crate) fn directive_value(text: &str, block: Option<&str>, directive: &str) -> Option<Value> {
    parse_lines(text).into_iter().find_map(|(line, names)| match line {
        LogrotateLine::Directive(word, rest) if word == directive && is_in_block(block, &names) => {
            Some(parse_value(rest))
        }
        _ => None,
    })
}

/// All that a file says, blocks as mappings.
pub(crate) fn parse_config(text: &str) -> Map {
    let mut found = Map::new();
    for (line, names) in parse_lines(text) {
        let LogrotateLine::Directive(word, rest) = line else { continue };
        if names.is_empty() {
            found.insert(word, parse_value(rest));
        }
        for name in names {
            let mut inner = found.get(name).and_then(Value::as_map).cloned().unwrap_or_default();
            inner.insert(word, parse_value(rest));
            found.insert(name, inner);
        }
    }
    found
}

/// The text with one directive set; a false value takes it away.
pub(crate) fn set_directive(text: &str, block: Option<&str>, directive: &str, value: &Value) -> String {
    let indent = if block.is_some() { "    " } else { "" };
    let new = match value {
        Value::Bool(true) => Some(format!("{indent}{directive}")),
        other if !other.is_truthy() && *other != Value::Int(0) => None,
        other => Some(format!("{indent}{directive} {}", zagent_config::value::python_str(other))),
    };
    let kinds = parse_lines(text);
    let mut out: Vec<String> = Vec::new();
    let mut done = false;
    for (raw, (line, names)) in text.lines().zip(kinds) {
        match line {
            LogrotateLine::Directive(word, _) if word == directive && is_in_block(block, &names) => {
                out.extend(new.clone().filter(|_| !done));
                done = true;
                continue;
            }
            LogrotateLine::Close if block.is_some() && is_in_block(block, &names) && !done => {
                out.extend(new.clone());
                done = true;
            }
            _ => {}
        }
        out.push(raw.to_owned());
    }
    if let (false, Some(new)) = (done, new) {
        match block {
            Some(block) => out.extend([format!("{block} {{"), new, "}".into()]),
            None => out.insert(0, new),
        }
    }
    out.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# see man\nweekly\nrotate 4\ninclude /etc/logrotate.d\n\n/var/log/a.log\n/var/log/b.log {\n    rotate 7\n    missingok\n    postrotate\n        rotate 9\n    endscript\n}\n";

    #[test]
    fn directives_and_blocks() {
        assert_eq!(directive_value(TEXT, None, "rotate"), Some(4.into()));
        assert_eq!(directive_value(TEXT, None, "weekly"), Some(true.into()));
        assert_eq!(directive_value(TEXT, Some("/var/log/a.log"), "rotate"), Some(7.into()));
        assert_eq!(directive_value(TEXT, Some("/var/log/b.log"), "daily"), None);
        assert_eq!(includes(TEXT), ["/etc/logrotate.d"]);
        assert!(has_block(TEXT, "/var/log/a.log") && !has_block(TEXT, "/var/log/c.log"));
        let all = parse_config(TEXT);
        assert_eq!(all.get("/var/log/b.log").and_then(|b| b.get("missingok")), Some(&true.into()));
    }

    #[test]
    fn only_one_line_changes() {
        let text = set_directive(TEXT, None, "rotate", &12.into());
        assert_eq!(text, TEXT.replace("rotate 4", "rotate 12"));
        let text = set_directive(TEXT, Some("/var/log/a.log"), "rotate", &8.into());
        assert_eq!(text, TEXT.replace("rotate 7", "rotate 8"));
        let text = set_directive(TEXT, Some("/var/log/a.log"), "daily", &true.into());
        assert_eq!(text, TEXT.replace("endscript\n}", "endscript\n    daily\n}"));
        let text = set_directive(TEXT, Some("/var/log/a.log"), "missingok", &false.into());
        assert_eq!(text, TEXT.replace("    missingok\n", ""));
        assert!(set_directive(TEXT, None, "compress", &true.into()).starts_with("compress\n# see man"));
        assert!(set_directive("", Some("/x"), "size", &"1M".into()).ends_with("/x {\n    size 1M\n}\n"));
    }
}
