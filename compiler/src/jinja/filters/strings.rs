//! Salt's filters on text.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use super::FilterFn;
use super::regex::compile;
use crate::jinja::methods::args::{CallArgs, not_none};
use crate::jinja::methods::string::{capitalize, is_space};
use crate::jinja::object::{Dict, DictKey, dict, list, pairs_of, to_value, type_name};

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("to_bool", |_, a| Ok(Value::from(to_bool(&a.expect_one("val")?)))),
    ("quote", |_, a| {
        let text = a.expect_one("txt")?;
        Ok(Value::from(shell_quote(a.str("the value", &text)?)))
    }),
    ("skip", |_, a| a.expect_one("data").map(|_| Value::from(""))),
    ("contains_whitespace", |_, a| {
        let text = a.expect_one("text")?;
        Ok(Value::from(a.str("the value", &text)?.contains(is_space)))
    }),
    ("to_camelcase", to_camelcase),
    ("to_snake_case", to_snake_case),
    ("path_join", path_join),
    ("check_whitelist_blacklist", check_lists),
    ("method_call", method_call),
    ("to_bytes", |_, a| {
        to_bytes(&a.expect_one("s")?).ok_or_else(|| a.error("the value must be a string or bytes"))
    }),
    ("json_encode_list", |_, a| encode(a)),
    ("json_encode_dict", |_, a| encode(a)),
    ("json_decode_list", |_, a| encode(a)),
    ("json_decode_dict", |_, a| encode(a)),
];

fn to_bool(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Bool => value.is_true(),
        ValueKind::String => {
            matches!(value.as_str().unwrap_or_default().to_lowercase().as_str(), "yes" | "1" | "true")
        }
        ValueKind::Number => type_name(value) == "int" && *value > Value::from(0),
        _ if matches!(type_name(value), "list" | "dict") => value.is_true(),
        _ => false,
    }
}

fn shell_quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\"'\"'"))
}

fn to_camelcase(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [text, upper] = args.bind(["snake_input", "uppercamel"], 1)?;
    let text = text.unwrap_or_default();
    let is_upper = upper.is_some_and(|v| v.is_true());
    let words = args.str("the value", &text)?.split('_').enumerate();
    let out = words.map(|(i, word)| if i > 0 || is_upper { capitalize(word) } else { word.to_owned() });
    Ok(Value::from(out.collect::<String>()))
}

fn to_snake_case(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let text = args.expect_one("camel_input")?;
    let chars: Vec<char> = args.str("the value", &text)?.chars().collect();
    if chars.is_empty() {
        return Err(args.error("the value is empty"));
    }
    let mut out = String::new();
    for (i, c) in chars.iter().enumerate() {
        let after_lower = i > 0 && chars[i - 1].is_lowercase();
        let before_lower = i > 0 && chars.get(i + 1).is_some_and(|c| c.is_lowercase());
        if c.is_uppercase() && (after_lower || before_lower) {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    Ok(Value::from(out))
}

/// Python's `posixpath.normpath`.
fn normalise(path: &str) -> String {
    let root = match path.bytes().take_while(|b| *b == b'/').count() {
        0 => "",
        2 => "//",
        _ => "/",
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|p| !p.is_empty() && *p != ".") {
        let can_go_up = parts.last().is_some_and(|p| *p != "..");
        if part != ".." || (root.is_empty() && !can_go_up) {
            parts.push(part);
        } else if can_go_up {
            parts.pop();
        }
    }
    let out = format!("{root}{}", parts.join("/"));
    if out.is_empty() { ".".into() } else { out }
}

fn path_join(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    if let Some((name, _)) = args.named().iter().find(|(n, _)| n != "use_posixpath") {
        return Err(args.error(format_args!("unexpected keyword argument '{name}'")));
    }
    let mut out = String::new();
    for (i, part) in args.positional().iter().enumerate() {
        let part = normalise(args.str("each part", part)?);
        if i == 0 {
            out = part;
            continue;
        }
        if !out.ends_with('/') {
            out.push('/');
        }
        out.push_str(part.trim_start_matches('/'));
    }
    Ok(Value::from(normalise(&out)))
}

fn check_lists(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, allowed, denied] = args.bind(["value", "whitelist", "blacklist"], 1)?;
    let value = args.text(&value.unwrap_or_default())?;
    let patterns = |v: Option<Value>| -> Result<Vec<String>, Error> {
        match not_none(v).filter(Value::is_true) {
            None => Ok(Vec::new()),
            Some(one) if one.kind() == ValueKind::String => Ok(vec![args.text(&one)?]),
            Some(many) => args.items(&many)?.iter().map(|v| args.text(v)).collect(),
        }
    };
    let (allowed, denied) = (patterns(allowed)?, patterns(denied)?);
    let is_in = |patterns: &[String]| patterns.iter().any(|p| expression_matches(args, &value, p));
    Ok(Value::from((allowed.is_empty() || is_in(&allowed)) && !is_in(&denied)))
}

/// True when a glob or a whole regular expression matches.
fn expression_matches(args: &CallArgs, value: &str, pattern: &str) -> bool {
    zagent_config::glob::matches(pattern, value)
        || compile(args, &format!(r"\A{pattern}\Z"), false, false)
            .is_ok_and(|regex| regex.is_match(value).unwrap_or(false))
}

fn method_call(state: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [this, name, rest @ ..] = args.positional() else {
        return Err(args.error("needs a method's name"));
    };
    let name = args.str("the method's name", name)?;
    let mut rest = rest.to_vec();
    if !args.named().is_empty() {
        rest.push(args.named().iter().cloned().collect::<minijinja::value::Kwargs>().into());
    }
    match this.call_method(state, name, &rest) {
        Err(e) if e.kind() == minijinja::ErrorKind::UnknownMethod => Ok(Value::from(())),
        result => result,
    }
}

fn to_bytes(value: &Value) -> Option<Value> {
    match value.kind() {
        ValueKind::Bytes => Some(value.clone()),
        ValueKind::String => Some(Value::from_bytes(value.as_str().unwrap_or_default().as_bytes().to_vec())),
        _ => None,
    }
}

/// Every string of a structure as bytes; tuples become lists.
fn encode(args: &CallArgs) -> Result<Value, Error> {
    let value = args.expect_one("data")?;
    // Converting first rejects values that contain themselves or are too large.
    to_value(&value).map_err(|e| args.error(e.detail().unwrap_or("not data")))?;
    encode_nested(args, &value)
}

fn encode_nested(args: &CallArgs, value: &Value) -> Result<Value, Error> {
    if let Some(pairs) = pairs_of(value) {
        let mut out = Dict::new();
        for (key, item) in pairs {
            out.insert(DictKey::new(to_bytes(&key).unwrap_or(key))?, encode_nested(args, &item)?);
        }
        return Ok(dict(out));
    }
    if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        let items =
            args.items(value)?.iter().map(|v| encode_nested(args, v)).collect::<Result<Vec<_>, _>>()?;
        return Ok(list(items));
    }
    Ok(to_bytes(value).unwrap_or_else(|| value.clone()))
}
