//! String methods that search in a text.

use minijinja::Error;
use minijinja::value::Value;

use super::args::{CallArgs, not_none};
use crate::jinja::object::items_of;

/// The part of a text between two character positions, and the position where it starts.
fn window<'t>(
    text: &'t str,
    args: &CallArgs,
    start: Option<Value>,
    end: Option<Value>,
) -> Result<Option<(&'t str, usize)>, Error> {
    let (start, end) = (not_none(start), not_none(end));
    if start.is_none() && end.is_none() {
        return Ok(Some((text, 0)));
    }
    let len = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let resolve = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let start = resolve(start.map_or(Ok(0), |v| args.int("start", &v))?);
    let end = resolve(end.map_or(Ok(len), |v| args.int("end", &v))?).min(len);
    if start > end {
        return Ok(None);
    }
    let offset = |at: i64| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        text.char_indices().nth(at).map_or(text.len(), |(i, _)| i)
    };
    Ok(Some((&text[offset(start)..offset(end)], usize::try_from(start).unwrap_or(0))))
}

/// `find`, `rfind`, `index` and `rindex`.
pub(super) fn find(text: &str, args: &CallArgs, from_right: bool, must_be: bool) -> Result<Value, Error> {
    let [sub, start, end] = args.bind(["sub", "start", "end"], 1)?;
    let sub = sub.unwrap_or_default();
    let sub = args.str("sub", &sub)?;
    let found = window(text, args, start, end)?.and_then(|(part, skipped)| {
        let at = if from_right { part.rfind(sub) } else { part.find(sub) }?;
        Some(part[..at].chars().count() + skipped)
    });
    match found {
        Some(at) => Ok(Value::from(at)),
        None if must_be => Err(args.error("substring not found")),
        None => Ok(Value::from(-1)),
    }
}

/// `count`.
pub(super) fn count(text: &str, args: &CallArgs) -> Result<Value, Error> {
    let [sub, start, end] = args.bind(["sub", "start", "end"], 1)?;
    let sub = sub.unwrap_or_default();
    let sub = args.str("sub", &sub)?;
    Ok(Value::from(match window(text, args, start, end)? {
        None => 0,
        Some((part, _)) if sub.is_empty() => part.chars().count() + 1,
        Some((part, _)) => part.matches(sub).count(),
    }))
}

/// `startswith` and `endswith`: a string or a tuple of strings.
pub(super) fn affix(text: &str, args: &CallArgs, at_end: bool) -> Result<Value, Error> {
    let [affix, start, end] = args.bind(["prefix", "start", "end"], 1)?;
    let affix = affix.unwrap_or_default();
    let Some((part, _)) = window(text, args, start, end)? else {
        return Ok(Value::from(false));
    };
    let has = |affix: &str| if at_end { part.ends_with(affix) } else { part.starts_with(affix) };
    if affix.is_tuple() {
        for one in items_of(&affix)? {
            if has(args.str("each item", &one)?) {
                return Ok(Value::from(true));
            }
        }
        return Ok(Value::from(false));
    }
    let one = affix
        .as_str()
        .ok_or_else(|| args.type_error("the argument", "a string or a tuple of strings", &affix))?;
    Ok(Value::from(has(one)))
}
