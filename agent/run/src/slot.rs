//! `__slot__:salt:fun(args)` in the arguments of a chunk in, the value of that call out, asked just before the state runs.

use std::borrow::Cow;
use std::sync::Arc;

use zagent_compiler::{Chunk, FunctionCall, TemplateHost};
use zagent_config::value::traverse;
use zagent_config::{List, Map, Value};

const SLOT_PREFIX: &str = "__slot__:";

/// The chunk with its slots filled; the very chunk when it has none.
pub(crate) fn fill_slots<'c>(chunk: &'c Chunk, host: &dyn TemplateHost) -> Cow<'c, Chunk> {
    if !is_slot(&chunk.name) && !chunk.args.values().any(has_slot) {
        return Cow::Borrowed(chunk);
    }
    let mut filled = chunk.clone();
    filled.name = fill_value(&chunk.name, host, 0);
    let mut args = Map::new();
    for (key, value) in chunk.args.iter() {
        args.insert(key.clone(), fill_value(value, host, 0));
    }
    filled.args = args;
    Cow::Owned(filled)
}

fn has_slot(value: &Value) -> bool {
    match value {
        Value::Str(text) => text.starts_with(SLOT_PREFIX),
        Value::List(items) => items.iter().any(|v| match v {
            Value::Map(map) => map.values().any(is_slot),
            other => is_slot(other),
        }),
        Value::Map(map) => map.values().any(is_slot),
        _ => false,
    }
}

fn is_slot(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.starts_with(SLOT_PREFIX))
}

/// Slots are looked for in texts, in lists, and in the values of one mapping.
fn fill_value(value: &Value, host: &dyn TemplateHost, depth: usize) -> Value {
    match value {
        Value::Str(text) if text.starts_with(SLOT_PREFIX) => evaluate_slot(text, host),
        Value::List(items) if depth == 0 => {
            let mut list = List::default();
            for item in items.iter() {
                list.push(fill_value(item, host, 1));
            }
            Value::List(Arc::new(list))
        }
        Value::Map(map) if depth < 2 => {
            let mut filled = Map::new();
            for (k, v) in map.iter() {
                filled.insert(k.clone(), fill_value(v, host, 2));
            }
            filled.into()
        }
        other => other.clone(),
    }
}

/// A slot that cannot be read stays as it is, as in Salt.
fn evaluate_slot(slot: &str, host: &dyn TemplateHost) -> Value {
    let asked = slot.strip_prefix(SLOT_PREFIX).and_then(|s| s.strip_prefix("salt:")).and_then(parse_slot);
    let Some(asked) = asked else {
        tracing::warn!(slot, "malformed slot");
        return slot.into();
    };
    let Ok(mut value) = host.call(&asked.call) else {
        tracing::warn!(slot, function = asked.call.function, "the function of a slot failed");
        return slot.into();
    };
    if let Some(path) = &asked.path {
        value = traverse(&value, path, ".").cloned().unwrap_or_default();
    }
    match (&value, asked.append) {
        (Value::Str(text), Some(more)) => format!("{text}{more}").into(),
        _ => value,
    }
}

/// `fun(args).path.in.result ~ 'text'`, taken apart.
struct SlotCall {
    call: FunctionCall,
    path: Option<String>,
    append: Option<String>,
}

fn parse_slot(text: &str) -> Option<SlotCall> {
    let open = text.find('(')?;
    let function = text[..open].trim().to_owned();
    let (items, rest) = split_arguments(&text[open + 1..])?;
    let mut call = FunctionCall { function, args: Vec::new(), kwargs: Map::new() };
    for item in items {
        match item.split_once('=').filter(|(k, _)| is_identifier(k.trim())) {
            Some((key, value)) => {
                call.kwargs.insert(key.trim(), parse_literal(value));
            }
            None => call.args.push(parse_literal(&item)),
        }
    }
    let (path, append) = match rest.split_once('~') {
        Some((path, more)) => (path, Some(unquote(more.trim()).to_owned())),
        None => (rest, None),
    };
    let path = path.trim().strip_prefix('.').map(|p| p.trim().to_owned());
    Some(SlotCall { call, path, append })
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// The arguments up to the closing parenthesis, and what follows it.
fn split_arguments(text: &str) -> Option<(Vec<String>, &str)> {
    let (mut items, mut item) = (Vec::new(), String::new());
    let (mut quote, mut depth) = (None, 0);
    for (i, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), _) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')') if depth == 0 => {
                if !item.trim().is_empty() {
                    items.push(item);
                }
                return Some((items, &text[i + 1..]));
            }
            (None, ')' | ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => {
                items.push(std::mem::take(&mut item));
                continue;
            }
            _ => {}
        }
        item.push(c);
    }
    None
}

fn parse_literal(text: &str) -> Value {
    let text = text.trim();
    let bare = unquote(text);
    if bare.len() < text.len() {
        return bare.into();
    }
    zagent_compiler::yaml::load(text, &zagent_compiler::TreeLimits::default()).unwrap_or_else(|_| text.into())
}

fn unquote(text: &str) -> &str {
    let inner = |q: char| text.strip_prefix(q).and_then(|t| t.strip_suffix(q));
    inner('\'').or_else(|| inner('"')).unwrap_or(text)
}
