//! `slsutil.serialize` and `slsutil.deserialize`, `toml_lang.*`: values to text and back.

use std::fmt::Write;

use zagent_config::value::MapEntry as Pair;
use zagent_config::{Map, Value as Data};

use super::files::text_arg;
use super::table::{FunctionEntry, data_function};
use super::{FunctionArgs, FunctionError, FunctionsInner};
use crate::yaml::{self, DumpStyle, FlowStyle, JsonStyle};

pub(super) const TABLE: &[FunctionEntry] = &[
    data_function("slsutil.serialize", "serializer obj **", serialize),
    data_function("slsutil.deserialize", "serializer stream_or_string **", deserialize),
    data_function("toml_lang.dumps", "data", |_, args| {
        to_toml(args.get("data").unwrap_or(&Data::Null)).map(Data::from)
    }),
];

/// Reads a text: `yaml` or `json`.
pub(super) fn parse(inner: &FunctionsInner, format: &str, text: &str) -> Result<Data, FunctionError> {
    match format {
        "json" => {
            Data::from_json_str(text).map_err(|e| FunctionError::failed(format!("the text is not JSON: {e}")))
        }
        _ => yaml::load(text, &inner.inputs.options.limits).map_err(|e| {
            FunctionError::failed(format!("the text is not YAML: line {}: {}", e.pos.line, e.message))
        }),
    }
}

fn unknown_format(format: &str) -> FunctionError {
    FunctionError::failed(format!(
        "unknown serializer `{format}`: use `json`, `yaml`, `configparser` or `toml`"
    ))
}

fn serialize(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let value = args.get("obj").unwrap_or(&Data::Null);
    let option = |name: &str| args.named().iter().find(|(n, _)| n == name).map(|(_, v)| v);
    let text = match text_arg(args, "serializer")? {
        "json" => {
            let style = JsonStyle {
                indent: option("indent").and_then(Data::as_int).and_then(|n| usize::try_from(n).ok()),
                sort_keys: option("sort_keys").is_some_and(Data::is_truthy),
                ensure_ascii: option("ensure_ascii").is_some_and(Data::is_truthy),
                separators: None,
            };
            yaml::json(value, &style).map_err(|e| FunctionError::failed(e.to_string()))?
        }
        "yaml" => {
            let style = DumpStyle {
                flow: match option("default_flow_style") {
                    Some(Data::Bool(true)) => FlowStyle::Always,
                    Some(Data::Bool(false)) => FlowStyle::Never,
                    _ => FlowStyle::Leaves,
                },
                sort_keys: option("sort_keys").is_none_or(Data::is_truthy),
                allow_unicode: option("allow_unicode").is_some_and(Data::is_truthy),
                escape_marks: false,
                indent: option("indent")
                    .and_then(Data::as_int)
                    .and_then(|n| u8::try_from(n).ok())
                    .unwrap_or(2),
                width: option("width")
                    .and_then(Data::as_int)
                    .and_then(|n| u16::try_from(n).ok())
                    .unwrap_or(80),
            };
            trim_document_end(&yaml::dump(value, &style), value)
        }
        "configparser" => to_ini(value)?,
        "toml" | "tomlmod" => to_toml(value)?,
        other => return Err(unknown_format(other)),
    };
    Ok(text.into())
}

/// Salt removes what the dumper adds after a document: the end mark of a scalar and the last line break.
fn trim_document_end(text: &str, value: &Data) -> String {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let is_scalar = !matches!(value, Data::Map(_) | Data::List(_));
    let text = if is_scalar { text.strip_suffix("\n...").unwrap_or(text) } else { text };
    text.to_owned()
}

fn deserialize(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let source = text_arg(args, "stream_or_string")?;
    match text_arg(args, "serializer")? {
        "json" => parse(inner, "json", source),
        "yaml" => parse(inner, "yaml", source),
        "configparser" => parse_ini(source),
        other => Err(unknown_format(other)),
    }
}

fn display_value(value: &Data) -> String {
    zagent_config::value::python_str(value)
}

/// Sections of `key = value` lines, as Python's configparser writes them.
fn to_ini(value: &Data) -> Result<String, FunctionError> {
    let all =
        value.as_map().ok_or_else(|| FunctionError::failed("the value must be a mapping of sections"))?;
    let mut out = String::new();
    for (name, pairs) in all.iter() {
        let pairs = pairs.as_map().ok_or_else(|| FunctionError::failed("each section must be a mapping"))?;
        // Writing to a string cannot fail.
        let _ = writeln!(out, "[{}]", display_value(name));
        for (key, value) in pairs.iter() {
            let _ = writeln!(
                out,
                "{} = {}",
                display_value(key).to_lowercase(),
                display_value(value).replace('\n', "\n\t")
            );
        }
        out.push('\n');
    }
    Ok(out)
}

fn parse_ini(text: &str) -> Result<Data, FunctionError> {
    let mut all = Map::new();
    let mut current: Option<(String, Map)> = None;
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.split(']').next()) {
            if let Some((name, pairs)) = current.replace((name.to_owned(), Map::new())) {
                all.insert(name, pairs);
            }
            continue;
        }
        let Some((_, pairs)) = &mut current else {
            return Err(FunctionError::failed(format!("`{line}` is before the first section")));
        };
        let Some((key, value)) = line.split_once(['=', ':']) else {
            return Err(FunctionError::failed(format!("`{line}` is neither a section nor `key = value`")));
        };
        pairs.insert(key.trim().to_lowercase(), value.trim());
    }
    if let Some((name, pairs)) = current {
        all.insert(name, pairs);
    }
    Ok(all.into())
}

/// TOML: plain values first, then tables, then lists of tables.
fn to_toml(value: &Data) -> Result<String, FunctionError> {
    let map = value.as_map().ok_or_else(|| FunctionError::failed("a TOML value must be a mapping"))?;
    let mut out = String::new();
    write_table(map, "", &mut out)?;
    Ok(out)
}

fn is_table_list(value: &Data) -> bool {
    value.as_list().is_some_and(|l| !l.is_empty() && l.iter().all(|v| v.as_map().is_some()))
}

fn write_table(map: &Map, path: &str, out: &mut String) -> Result<(), FunctionError> {
    let nested = |e: &&Pair| e.value.as_map().is_some() || is_table_list(&e.value);
    for e in map.entries().iter().filter(|e| !nested(e) && !e.value.is_null()) {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{} = {}", bare_key(&e.key), inline_value(&e.value)?);
    }
    for e in map.entries().iter().filter(nested) {
        let name = if path.is_empty() { bare_key(&e.key) } else { format!("{path}.{}", bare_key(&e.key)) };
        let (tables, mark) = match &e.value {
            Data::List(list) => (list.iter().filter_map(Data::as_map).collect(), true),
            other => (other.as_map().into_iter().collect::<Vec<_>>(), false),
        };
        for one in tables {
            if !out.is_empty() {
                out.push('\n');
            }
            let _ = if mark { writeln!(out, "[[{name}]]") } else { writeln!(out, "[{name}]") };
            write_table(one, &name, out)?;
        }
    }
    Ok(())
}

fn bare_key(key: &Data) -> String {
    let key = display_value(key);
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if plain { key } else { quoted(&key) }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn inline_value(value: &Data) -> Result<String, FunctionError> {
    Ok(match value {
        Data::Null => return Err(FunctionError::failed("a TOML list cannot contain `none`")),
        Data::Bool(b) => b.to_string(),
        Data::Int(i) => i.to_string(),
        Data::Big(_) => return Err(FunctionError::failed("the integer is too large for TOML")),
        Data::Float(f) if f.is_nan() => "nan".into(),
        Data::Float(f) if f.is_infinite() => {
            if *f > 0.0 {
                "inf".into()
            } else {
                "-inf".into()
            }
        }
        Data::Float(f) => format!("{f:?}"),
        Data::Str(s) => quoted(s),
        Data::List(l) => {
            let items: Vec<String> = l.iter().map(inline_value).collect::<Result<_, _>>()?;
            format!("[{}]", items.join(", "))
        }
        Data::Map(m) => {
            let pairs: Result<Vec<String>, FunctionError> =
                m.iter().map(|(k, v)| Ok(format!("{} = {}", bare_key(k), inline_value(v)?))).collect();
            format!("{{{}}}", pairs?.join(", "))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_tables_come_after_values() {
        let value = Data::from_json_str(
            r#"{"t": {"x": "a\"b", "in": {"y": 1.5}}, "a": 1, "l": [1, "x"], "ts": [{"k": true}, {"k": null}]}"#,
        );
        let want =
            "a = 1\nl = [1, \"x\"]\n\n[t]\nx = \"a\\\"b\"\n\n[t.in]\ny = 1.5\n\n[[ts]]\nk = true\n\n[[ts]]\n";
        assert_eq!(to_toml(&value.unwrap()).as_deref(), Ok(want));
    }
}
