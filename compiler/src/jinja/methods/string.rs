//! Methods of strings.

use minijinja::value::Value;
use minijinja::{Error, ErrorKind, State};

use super::args::{CallArgs, not_none};
use super::{format, string_search as search, string_split as split};
use crate::jinja::object::{PyDict, budget, is_printable};

/// The methods of a string, for suggestions.
#[rustfmt::skip]
pub(super) const NAMES: &[&str] = &[
    "split", "rsplit", "partition", "rpartition", "splitlines", "find", "rfind", "index", "rindex", "count",
    "startswith", "endswith", "strip", "lstrip", "rstrip", "join", "replace", "format", "format_map",
    "zfill", "ljust", "rjust", "center", "expandtabs", "encode", "translate", "removeprefix",
    "removesuffix", "upper", "lower", "casefold", "capitalize", "title", "swapcase", "isdigit", "isdecimal",
    "isnumeric", "isalpha", "isalnum", "isspace", "isupper", "islower", "isascii", "isprintable",
    "isidentifier", "istitle",
];

/// Calls a method of a string.
///
/// # Errors
/// Fails when the method is unknown, the arguments are wrong, or Python would raise.
pub fn call(state: &mut State<'_, '_>, text: &str, method: &str, args: &CallArgs) -> Result<Value, Error> {
    match method {
        "split" => split::split(text, args, false),
        "rsplit" => split::split(text, args, true),
        "partition" => split::partition(text, args, false),
        "rpartition" => split::partition(text, args, true),
        "splitlines" => split::split_lines(text, args),
        "find" => search::find(text, args, false, false),
        "rfind" => search::find(text, args, true, false),
        "index" => search::find(text, args, false, true),
        "rindex" => search::find(text, args, true, true),
        "count" => search::count(text, args),
        "startswith" => search::affix(text, args, false),
        "endswith" => search::affix(text, args, true),
        "strip" | "lstrip" | "rstrip" => strip(text, method, args),
        "join" => join(text, args),
        "replace" => replace(text, args),
        "format" => format::call(state, text, args),
        "format_map" => format::call_map(state, text, args),
        "zfill" => zfill(text, args),
        "ljust" | "rjust" | "center" => justify(text, method, args),
        "expandtabs" => expand_tabs(text, args),
        "encode" => encode(text, args),
        "translate" => translate(text, args),
        "removeprefix" => {
            let affix = args.expect_one("prefix")?;
            Ok(Value::from(text.strip_prefix(args.str("prefix", &affix)?).unwrap_or(text)))
        }
        "removesuffix" => {
            let affix = args.expect_one("suffix")?;
            Ok(Value::from(text.strip_suffix(args.str("suffix", &affix)?).unwrap_or(text)))
        }
        _ => {
            let result =
                convert(text, method).map(Value::from).or_else(|| predicate(text, method).map(Value::from));
            match result {
                Some(value) => args.expect_none().map(|()| value),
                None => Err(Error::new(
                    ErrorKind::UnknownMethod,
                    format!("'str' object has no method '{method}'"),
                )),
            }
        }
    }
}

/// What Python's `str.isspace` and `str.split` treat as white space.
#[must_use]
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// Methods without arguments that return a text.
fn convert(text: &str, method: &str) -> Option<String> {
    Some(match method {
        "upper" => text.to_uppercase(),
        "lower" => text.to_lowercase(),
        "casefold" => text.to_lowercase().replace('ß', "ss"),
        "capitalize" => capitalize(text),
        "title" => title(text),
        "swapcase" => text
            .chars()
            .flat_map(|c| {
                let swapped: Vec<char> =
                    if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() };
                swapped
            })
            .collect(),
        _ => return None,
    })
}

/// Python's `str.capitalize`.
#[must_use]
pub fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().collect::<String>() + &chars.as_str().to_lowercase(),
        None => String::new(),
    }
}

fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_word = false;
    for c in text.chars() {
        if in_word {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        in_word = c.is_lowercase() || c.is_uppercase();
    }
    out
}

/// Methods without arguments that return a boolean.
fn predicate(text: &str, method: &str) -> Option<bool> {
    let all = |f: fn(char) -> bool| !text.is_empty() && text.chars().all(f);
    Some(match method {
        "isdigit" => {
            all(|c| c.is_ascii_digit() || (c.is_numeric() && !c.is_alphabetic() && is_digit_like(c)))
        }
        "isdecimal" => all(|c| c.is_ascii_digit() || (c.is_numeric() && is_decimal(c))),
        "isnumeric" => all(char::is_numeric),
        "isalpha" => all(char::is_alphabetic),
        "isalnum" => all(char::is_alphanumeric),
        "isspace" => all(is_space),
        "isupper" => is_cased(text, char::is_uppercase, char::is_lowercase),
        "islower" => is_cased(text, char::is_lowercase, char::is_uppercase),
        "isascii" => text.is_ascii(),
        "isprintable" => text.chars().all(is_printable),
        "isidentifier" => is_identifier(text),
        "istitle" => text == title(text) && text.chars().any(char::is_uppercase),
        _ => return None,
    })
}

fn is_decimal(c: char) -> bool {
    // Each script with decimal digits has them in a run of ten.
    matches!(u32::from(c), 0x660..=0x669 | 0x6f0..=0x6f9 | 0x966..=0x96f | 0x9e6..=0x9ef | 0xe50..=0xe59 | 0xff10..=0xff19)
}

fn is_digit_like(c: char) -> bool {
    is_decimal(c)
        || matches!(c, '²' | '³' | '¹' | '\u{2070}' | '\u{2074}'..='\u{2079}' | '\u{2080}'..='\u{2089}')
}

/// True when some character is of the wanted case and none of the other.
#[must_use]
pub fn is_cased(text: &str, wanted: fn(char) -> bool, other: fn(char) -> bool) -> bool {
    text.chars().any(wanted) && !text.chars().any(other)
}

fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c == '_' || c.is_alphabetic())
        && chars.all(|c| c == '_' || c.is_alphanumeric())
}

fn strip(text: &str, method: &str, args: &CallArgs) -> Result<Value, Error> {
    let [chars] = args.bind(["chars"], 0)?;
    let set: Option<Vec<char>> =
        not_none(chars).map(|v| Ok::<_, Error>(args.str("chars", &v)?.chars().collect())).transpose()?;
    let strips = |c: char| set.as_ref().map_or_else(|| is_space(c), |set| set.contains(&c));
    let mut out = text;
    if method != "rstrip" {
        out = out.trim_start_matches(strips);
    }
    if method != "lstrip" {
        out = out.trim_end_matches(strips);
    }
    Ok(Value::from(out))
}

fn join(text: &str, args: &CallArgs) -> Result<Value, Error> {
    let mut out = String::new();
    for (i, item) in args.items(&args.expect_one("iterable")?)?.iter().enumerate() {
        if i > 0 {
            out.push_str(text);
        }
        out.push_str(args.str(&format!("item {i}"), item)?);
        budget::check_bytes(args.function_name(), out.len())?;
    }
    Ok(Value::from(out))
}

fn replace(text: &str, args: &CallArgs) -> Result<Value, Error> {
    let [old, new, count] = args.bind(["old", "new", "count"], 2)?;
    let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
    let (old, new) = (args.str("old", &old)?, args.str("new", &new)?);
    let count = not_none(count).map_or(Ok(-1), |v| args.int("count", &v))?;
    replace_text(args, text, old, new, usize::try_from(count).ok())
}

/// Replaces at most `count` times, within the limit.
///
/// # Errors
/// Fails when the result would be too large.
pub fn replace_text(
    args: &CallArgs,
    text: &str,
    old: &str,
    new: &str,
    count: Option<usize>,
) -> Result<Value, Error> {
    let hits = if old.is_empty() { text.chars().count() + 1 } else { text.matches(old).count() };
    let hits = count.map_or(hits, |n| n.min(hits));
    budget::check_bytes(args.function_name(), text.len().saturating_add(hits.saturating_mul(new.len())))?;
    Ok(Value::from(text.replacen(old, new, hits)))
}

fn width(args: &CallArgs, value: Option<Value>) -> Result<usize, Error> {
    let width = args.int("width", &value.unwrap_or_default())?;
    let width = usize::try_from(width).unwrap_or(0);
    budget::check_bytes(args.function_name(), width.saturating_mul(4))?;
    Ok(width)
}

fn zfill(text: &str, args: &CallArgs) -> Result<Value, Error> {
    let [wide] = args.bind(["width"], 1)?;
    let missing = width(args, wide)?.saturating_sub(text.chars().count());
    let (sign, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (&text[..1], digits),
        None => ("", text),
    };
    Ok(Value::from(format!("{sign}{}{digits}", "0".repeat(missing))))
}

fn justify(text: &str, method: &str, args: &CallArgs) -> Result<Value, Error> {
    let [wide, fill] = args.bind(["width", "fillchar"], 1)?;
    let wide = width(args, wide)?;
    let fill = match &fill {
        None => " ",
        Some(fill) => args.str("fillchar", fill)?,
    };
    if fill.chars().count() != 1 {
        return Err(args.error("the fill character must be exactly one character long"));
    }
    let missing = wide.saturating_sub(text.chars().count());
    let left = match method {
        "ljust" => 0,
        "rjust" => missing,
        _ => missing / 2 + (missing & wide & 1),
    };
    Ok(Value::from(format!("{}{text}{}", fill.repeat(left), fill.repeat(missing - left))))
}

fn expand_tabs(text: &str, args: &CallArgs) -> Result<Value, Error> {
    let [size] = args.bind(["tabsize"], 0)?;
    let size = usize::try_from(size.map_or(Ok(8), |v| args.int("tabsize", &v))?).unwrap_or(0);
    budget::check_bytes(
        args.function_name(),
        text.len().saturating_add(text.matches('\t').count().saturating_mul(size)),
    )?;
    let (mut out, mut column) = (String::new(), 0);
    for c in text.chars() {
        match c {
            '\t' if size > 0 => {
                let n = size - column % size;
                out.push_str(&" ".repeat(n));
                column += n;
            }
            '\t' => {}
            '\n' | '\r' => {
                out.push(c);
                column = 0;
            }
            _ => {
                out.push(c);
                column += 1;
            }
        }
    }
    Ok(Value::from(out))
}

fn encode(text: &str, args: &CallArgs) -> Result<Value, Error> {
    let [encoding, errors] = args.bind(["encoding", "errors"], 0)?;
    let encoding = encoding.map_or_else(|| Ok("utf-8".into()), |v| args.text(&v))?.to_lowercase();
    let is_lossy = errors.is_some_and(|e| matches!(e.as_str(), Some("ignore" | "replace")));
    match encoding.replace('_', "-").as_str() {
        "utf-8" | "utf8" => Ok(Value::from_bytes(text.as_bytes().to_vec())),
        "ascii" | "us-ascii" if text.is_ascii() => Ok(Value::from_bytes(text.as_bytes().to_vec())),
        "ascii" | "us-ascii" if is_lossy => {
            Ok(Value::from_bytes(text.bytes().filter(u8::is_ascii).collect()))
        }
        "ascii" | "us-ascii" => Err(args.error("the text contains characters that are not ASCII")),
        "latin-1" | "latin1" | "iso-8859-1" => {
            let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
            bytes
                .map(Value::from_bytes)
                .ok_or_else(|| args.error("the text contains characters that are not Latin-1"))
        }
        other => Err(args.error(format_args!("unknown encoding '{other}'"))),
    }
}

fn translate(text: &str, args: &CallArgs) -> Result<Value, Error> {
    let table = args.expect_one("table")?;
    let Some(table) = table.downcast_object_ref::<PyDict>() else {
        return Err(args.type_error("table", "a dict", &table));
    };
    let mut out = String::new();
    for c in text.chars() {
        match table.get(&Value::from(u32::from(c))) {
            None => out.push(c),
            Some(v) if v.is_none() => {}
            Some(v) => match v.as_str() {
                Some(s) => out.push_str(s),
                None => {
                    let code = u32::try_from(args.int("the replacement", &v)?).ok().and_then(char::from_u32);
                    out.push(code.ok_or_else(|| args.error("the replacement is not a character"))?);
                }
            },
        }
        budget::check_bytes(args.function_name(), out.len())?;
    }
    Ok(Value::from(out))
}

/// The lines of a text as Python's `splitlines` finds them.
#[must_use]
pub fn lines(text: &str) -> Vec<&str> {
    split::lines(text, false)
}
