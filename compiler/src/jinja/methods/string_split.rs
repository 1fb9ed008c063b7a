//! String methods that split a text.

use minijinja::Error;
use minijinja::value::Value;

use super::args::{CallArgs, not_none};
use super::string::is_space;
use crate::jinja::object::{budget, list, tuple};

fn strings(parts: Vec<&str>) -> Vec<Value> {
    parts.into_iter().map(Value::from).collect()
}

/// `split` and `rsplit`.
pub(super) fn split(text: &str, args: &CallArgs, from_right: bool) -> Result<Value, Error> {
    let [sep, limit] = args.bind(["sep", "maxsplit"], 0)?;
    let limit = limit.map_or(Ok(-1), |v| args.int("maxsplit", &v))?;
    let limit = usize::try_from(limit).ok();
    budget::check_items(args.function_name(), text.len() / 2)?;
    let parts = match not_none(sep) {
        None if from_right => rsplit_space(text, limit),
        None => split_space(text, limit),
        Some(sep) => {
            let sep = args.str("sep", &sep)?;
            if sep.is_empty() {
                return Err(args.error("empty separator"));
            }
            match (limit, from_right) {
                (None, _) => text.split(sep).collect(),
                (Some(n), false) => text.splitn(n.saturating_add(1), sep).collect(),
                (Some(n), true) => {
                    let mut parts: Vec<&str> = text.rsplitn(n.saturating_add(1), sep).collect();
                    parts.reverse();
                    parts
                }
            }
        }
    };
    Ok(list(strings(parts)))
}

fn split_space(text: &str, limit: Option<usize>) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if limit.is_some_and(|n| out.len() >= n) {
            out.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        out.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    out
}

fn rsplit_space(text: &str, limit: Option<usize>) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        if limit.is_some_and(|n| out.len() >= n) {
            out.push(rest);
            break;
        }
        let word = rest.trim_end_matches(|c| !is_space(c));
        out.push(&rest[word.len()..]);
        rest = word.trim_end_matches(is_space);
    }
    out.reverse();
    out
}

/// `partition` and `rpartition`.
pub(super) fn partition(text: &str, args: &CallArgs, from_right: bool) -> Result<Value, Error> {
    let sep = args.expect_one("sep")?;
    let sep = args.str("sep", &sep)?;
    if sep.is_empty() {
        return Err(args.error("empty separator"));
    }
    let found = if from_right { text.rsplit_once(sep) } else { text.split_once(sep) };
    let parts = match found {
        Some((before, after)) => vec![before, sep, after],
        None if from_right => vec!["", "", text],
        None => vec![text, "", ""],
    };
    Ok(tuple(strings(parts)))
}

/// `splitlines`.
pub(super) fn split_lines(text: &str, args: &CallArgs) -> Result<Value, Error> {
    let [keep] = args.bind(["keepends"], 0)?;
    let keep = keep.is_some_and(|k| k.is_true());
    Ok(list(strings(lines(text, keep))))
}

/// The lines of a text as Python's `splitlines` finds them.
pub(super) fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let is_end = matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        );
        if !is_end {
            continue;
        }
        let mut end = at + c.len_utf8();
        if c == '\r' && chars.peek().is_some_and(|(_, c)| *c == '\n') {
            chars.next();
            end += 1;
        }
        out.push(if keep_ends { &text[start..end] } else { &text[start..at] });
        start = end;
    }
    if start < text.len() {
        out.push(&text[start..]);
    }
    out
}
