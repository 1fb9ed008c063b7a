//! Salt's filters on regular expressions, Python's dialect.

use std::cell::RefCell;

use fancy_regex::Regex;
use indexmap::IndexMap;
use minijinja::value::Value;
use minijinja::{Error, State};
use zagent_config::py_regex::PyRegex;

use super::FilterFn;
use crate::jinja::methods::args::CallArgs;
use crate::jinja::object::{budget, tuple};

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("regex_search", |_, a| find(a, false)),
    ("regex_match", |_, a| find(a, true)),
    ("regex_replace", replace),
    ("regex_escape", |_, a| {
        let text = a.expect_one("value")?;
        Ok(Value::from(escape(a.str("the value", &text)?)))
    }),
];

/// Cached compiled patterns.
const MAX_CACHED: usize = 64;

thread_local! {
    static COMPILED: RefCell<IndexMap<String, Regex>> = RefCell::new(IndexMap::new());
}

/// Compiles a pattern written for Python.
///
/// # Errors
/// Fails when it is not a regular expression.
pub(in crate::jinja) fn compile(
    args: &CallArgs,
    pattern: &str,
    ignore_case: bool,
    multi_line: bool,
) -> Result<Regex, Error> {
    let flags = match (ignore_case, multi_line) {
        (false, false) => "",
        (true, false) => "(?i)",
        (false, true) => "(?m)",
        (true, true) => "(?im)",
    };
    let full = format!("{flags}{pattern}");
    if let Some(known) = COMPILED.with_borrow(|kept| kept.get(&full).cloned()) {
        return Ok(known);
    }
    let regex =
        PyRegex::new(&full).map_err(|e| args.error(format_args!("{e} in `{pattern}`")))?.regex().clone();
    COMPILED.with_borrow_mut(|kept| {
        if kept.len() >= MAX_CACHED {
            kept.swap_remove_index(0);
        }
        kept.insert(full, regex.clone());
    });
    Ok(regex)
}

fn too_costly(args: &CallArgs) -> Error {
    args.error("the regular expression takes too many steps")
}

fn is_true(value: Option<Value>) -> bool {
    value.is_some_and(|v| v.is_true())
}

fn find(args: &CallArgs, at_start: bool) -> Result<Value, Error> {
    let [text, pattern, ignore_case, multi_line] = args.bind(["txt", "rgx", "ignorecase", "multiline"], 2)?;
    let (text, pattern) = (text.unwrap_or_default(), pattern.unwrap_or_default());
    let text = args.str("the value", &text)?;
    let regex = compile(args, args.str("rgx", &pattern)?, is_true(ignore_case), is_true(multi_line))?;
    let found = regex.captures(text).map_err(|_| too_costly(args))?;
    let Some(found) = found.filter(|c| !at_start || c.get(0).is_some_and(|m| m.start() == 0)) else {
        return Ok(Value::from(()));
    };
    let group = |i: usize| found.get(i).map_or_else(|| Value::from(()), |m| Value::from(m.as_str()));
    let from = usize::from(found.len() > 1);
    Ok(tuple((from..found.len()).map(group).collect()))
}

fn replace(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [text, pattern, with, ignore_case, multi_line] =
        args.bind(["txt", "rgx", "val", "ignorecase", "multiline"], 3)?;
    let (text, pattern) = (text.unwrap_or_default(), pattern.unwrap_or_default());
    let with = with.unwrap_or_default();
    let (text, with) = (args.str("the value", &text)?, args.str("val", &with)?);
    let regex = compile(args, args.str("rgx", &pattern)?, is_true(ignore_case), is_true(multi_line))?;
    let template = parse_replacement(args, with, &regex)?;
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    while at <= text.len() {
        let Some(found) = regex.captures_from_pos(text, at).map_err(|_| too_costly(args))? else { break };
        let Some(whole) = found.get(0) else { break };
        out.push_str(&text[copied..whole.start()]);
        for part in &template {
            out.push_str(match part {
                ReplacementPart::Text(text) => text,
                ReplacementPart::Group(n) => found.get(*n).map_or("", |m| m.as_str()),
            });
        }
        budget::check_bytes(args.function_name(), out.len())?;
        copied = whole.end();
        at = whole.end();
        if whole.start() == whole.end() {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Ok(Value::from(out))
}

/// A piece of a replacement.
enum ReplacementPart {
    Text(String),
    Group(usize),
}

/// Appends text to the last piece.
fn push_text(parts: &mut Vec<ReplacementPart>, text: &str) {
    match parts.last_mut() {
        Some(ReplacementPart::Text(last)) => last.push_str(text),
        _ => parts.push(ReplacementPart::Text(text.to_owned())),
    }
}

/// Reads a replacement: `\1`, `\g<1>`, `\g<name>` and the escapes of Python's templates.
fn parse_replacement(args: &CallArgs, template: &str, regex: &Regex) -> Result<Vec<ReplacementPart>, Error> {
    let group = |n: usize| match n < regex.captures_len() {
        true => Ok(ReplacementPart::Group(n)),
        false => Err(args.error(format_args!("invalid group reference {n}"))),
    };
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find('\\') {
        push_text(&mut parts, &rest[..at]);
        rest = &rest[at + 1..];
        let Some(c) = rest.chars().next() else {
            return Err(args.error("bad escape (end of pattern)"));
        };
        match c {
            'g' => {
                let inside = rest[1..].strip_prefix('<').and_then(|r| r.split_once('>'));
                let Some((name, after)) = inside else {
                    return Err(args.error("missing group name"));
                };
                let named = || regex.capture_names().position(|known| known == Some(name));
                let n = name.parse::<usize>().ok().or_else(named);
                let Some(n) = n else {
                    return Err(args.error(format_args!("unknown group name '{name}'")));
                };
                parts.push(group(n)?);
                rest = after;
                continue;
            }
            '1'..='9' => {
                let digits = rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
                parts.push(group(rest[..digits].parse().unwrap_or(0))?);
                rest = &rest[digits..];
                continue;
            }
            '0' => push_text(&mut parts, "\0"),
            'n' => push_text(&mut parts, "\n"),
            't' => push_text(&mut parts, "\t"),
            'r' => push_text(&mut parts, "\r"),
            'a' => push_text(&mut parts, "\u{7}"),
            'b' => push_text(&mut parts, "\u{8}"),
            'f' => push_text(&mut parts, "\u{c}"),
            'v' => push_text(&mut parts, "\u{b}"),
            '\\' => push_text(&mut parts, "\\"),
            c if c.is_ascii_alphabetic() => return Err(args.error(format_args!("bad escape \\{c}"))),
            c => {
                push_text(&mut parts, "\\");
                push_text(&mut parts, &rest[..c.len_utf8()]);
            }
        }
        rest = &rest[c.len_utf8()..];
    }
    push_text(&mut parts, rest);
    Ok(parts)
}

/// Python's `re.escape`.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        if "()[]{}?*+-|^$\\.&~# \t\n\r\u{b}\u{c}".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
