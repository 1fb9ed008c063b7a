//! Jinja2's filters on text.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use super::FilterFn;
use super::wrap::{WrapStyle, wrap};
use crate::jinja::methods::args::{CallArgs, not_none};
use crate::jinja::methods::string::{capitalize, is_space, replace_text};
use crate::jinja::methods::{percent, string};
use crate::jinja::object::{budget, dict, tuple, type_name};

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("upper", |_, a| Ok(Value::from(a.text(&a.expect_one("s")?)?.to_uppercase()))),
    ("lower", |_, a| Ok(Value::from(a.text(&a.expect_one("s")?)?.to_lowercase()))),
    ("capitalize", |_, a| Ok(Value::from(capitalize(&a.text(&a.expect_one("s")?)?)))),
    ("title", |_, a| Ok(Value::from(title(&a.text(&a.expect_one("s")?)?)))),
    ("trim", trim),
    ("center", center),
    ("replace", replace),
    ("indent", indent),
    ("wordwrap", wordwrap),
    ("wordcount", wordcount),
    ("truncate", truncate),
    ("format", format),
    ("string", |_, a| {
        let value = a.expect_one("object")?;
        if value.kind() == ValueKind::String { Ok(value) } else { Ok(Value::from(a.text(&value)?)) }
    }),
];

fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at_start = true;
    for c in text.chars() {
        if matches!(c, '-' | '(' | '{' | '[' | '<') || is_space(c) {
            out.push(c);
            at_start = true;
        } else if at_start {
            out.extend(c.to_uppercase());
            at_start = false;
        } else {
            out.extend(c.to_lowercase());
        }
    }
    out
}

fn trim(state: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, chars] = args.bind(["value", "chars"], 1)?;
    let text = args.text(&value.unwrap_or_default())?;
    let chars: Vec<Value> = not_none(chars).into_iter().collect();
    string::call(state, &text, "strip", &CallArgs::new(args.function_name(), &chars))
}

fn center(state: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, width] = args.bind(["value", "width"], 1)?;
    let text = args.text(&value.unwrap_or_default())?;
    let width = width.unwrap_or_else(|| Value::from(80));
    string::call(state, &text, "center", &CallArgs::new(args.function_name(), &[width]))
}

fn replace(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, old, new, count] = args.bind(["s", "old", "new", "count"], 3)?;
    let text = args.text(&value.unwrap_or_default())?;
    let old = args.text(&old.unwrap_or_default())?;
    let new = args.text(&new.unwrap_or_default())?;
    let count = not_none(count).map_or(Ok(-1), |v| args.int("count", &v))?;
    replace_text(args, &text, &old, &new, usize::try_from(count).ok())
}

fn indent(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, width, first, blank] = args.bind(["s", "width", "first", "blank"], 1)?;
    let value = value.unwrap_or_default();
    let text = args.str("the value", &value)?;
    let pad = match &width {
        None => "    ".to_owned(),
        Some(width) => match width.as_str() {
            Some(pad) => pad.to_owned(),
            None => {
                let n = usize::try_from(args.int("width", width)?).unwrap_or(0);
                budget::check_bytes(args.function_name(), n)?;
                " ".repeat(n)
            }
        },
    };
    let (first, blank) = (first.is_some_and(|v| v.is_true()), blank.is_some_and(|v| v.is_true()));
    let ended = format!("{text}\n");
    let lines = string::lines(&ended);
    budget::check_bytes(
        args.function_name(),
        text.len().saturating_add(lines.len().saturating_mul(pad.len() + 1)),
    )?;
    let mut out = String::with_capacity(text.len() + lines.len() * pad.len());
    for (i, line) in lines.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        let is_padded = if i == 0 { first } else { blank || !line.is_empty() };
        if is_padded {
            out.push_str(&pad);
        }
        out.push_str(line);
    }
    Ok(Value::from(out))
}

fn wordwrap(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, width, break_long, wrap_with, hyphens] =
        args.bind(["s", "width", "break_long_words", "wrapstring", "break_on_hyphens"], 1)?;
    let value = value.unwrap_or_default();
    let text = args.str("the value", &value)?;
    let width = width.map_or(Ok(79), |v| args.int("width", &v))?;
    let width = usize::try_from(width).ok().filter(|w| *w > 0).ok_or_else(|| args.error("invalid width"))?;
    let style = WrapStyle {
        width,
        break_long_words: break_long.is_none_or(|v| v.is_true()),
        break_on_hyphens: hyphens.is_none_or(|v| v.is_true()),
    };
    let newline = not_none(wrap_with).map_or_else(|| Ok("\n".to_owned()), |v| args.text(&v))?;
    let mut out = String::new();
    for (i, line) in string::lines(text).iter().enumerate() {
        let pieces = wrap(line, style);
        let size: usize = pieces.iter().map(|piece| piece.len() + newline.len()).sum();
        budget::check_bytes(args.function_name(), out.len() + size)?;
        if i > 0 {
            out.push_str(&newline);
        }
        out.push_str(&pieces.join(&newline));
    }
    Ok(Value::from(out))
}

fn wordcount(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let text = args.text(&args.expect_one("s")?)?;
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty());
    Ok(Value::from(words.count()))
}

fn truncate(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, length, kill, end, leeway] = args.bind(["s", "length", "killwords", "end", "leeway"], 1)?;
    let value = value.unwrap_or_default();
    let chars: Vec<char> = args.str("the value", &value)?.chars().collect();
    let length = length.map_or(Ok(255), |v| args.int("length", &v))?;
    let end = end.map_or_else(|| Ok("...".to_owned()), |v| args.text(&v))?;
    let leeway = not_none(leeway).map_or(Ok(5), |v| args.int("leeway", &v))?;
    let end_len = i64::try_from(end.chars().count()).unwrap_or(i64::MAX);
    if length < end_len {
        return Err(args.error(format_args!("expected length >= {end_len}, got {length}")));
    }
    if leeway < 0 {
        return Err(args.error(format_args!("expected leeway >= 0, got {leeway}")));
    }
    if i64::try_from(chars.len()).unwrap_or(i64::MAX) <= length.saturating_add(leeway) {
        return Ok(value);
    }
    let cut: String = chars.iter().take(usize::try_from(length - end_len).unwrap_or(0)).collect();
    if kill.is_some_and(|v| v.is_true()) {
        return Ok(Value::from(cut + &end));
    }
    let words = cut.rsplit_once(' ').map_or(cut.as_str(), |(before, _)| before);
    Ok(Value::from(format!("{words}{end}")))
}

fn format(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let Some((template, rest)) = args.positional().split_first() else {
        return Err(args.error("needs a value"));
    };
    let template = args.text(template)?;
    if !rest.is_empty() && !args.named().is_empty() {
        return Err(
            args.error(format_args!("cannot take positional and named values for '{}'", type_name(&rest[0])))
        );
    }
    let values = if args.named().is_empty() {
        tuple(rest.to_vec())
    } else {
        dict(args.named().iter().map(|(k, v)| (k.as_str().into(), v.clone())).collect())
    };
    percent::format(args, &template, &values).map(Value::from)
}
