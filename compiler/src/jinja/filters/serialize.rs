//! Filters that convert between values and text: YAML, JSON, Python, XML.

use minijinja::value::Value;
use minijinja::{Error, State};
use zagent_config::codes::template;
use zagent_config::{Pos, Value as Data};

use super::pretty::pretty;
use super::{FilterFn, xml};
use crate::TreeLimits;
use crate::jinja::error::TemplateError;
use crate::jinja::methods::args::{CallArgs, not_none};
use crate::jinja::object::{budget, to_document, to_template};
use crate::yaml::{self, JsonStyle};

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("json", json),
    ("tojson", tojson),
    ("yaml", yaml_filter),
    ("python", |_, a| pretty(a, &a.expect_one("value")?).map(Value::from)),
    ("pprint", |_, a| pretty(a, &a.expect_one("value")?).map(Value::from)),
    ("xml", |_, a| {
        let document = xml::write_document(&to_data(a, &a.expect_one("value")?)?).map_err(|e| a.error(e))?;
        Ok(Value::from_safe_string(document))
    }),
    ("load_yaml", load_yaml),
    ("load_json", load_json),
    ("load_text", |_, a| a.expect_one("value")),
    ("yaml_encode", yaml_encode),
    ("yaml_dquote", |_, a| Ok(Value::from(yaml::yaml_dquote(&a.text(&a.expect_one("text")?)?)))),
    ("yaml_squote", |_, a| Ok(Value::from(yaml::yaml_squote(&a.text(&a.expect_one("text")?)?)))),
    ("dict_to_sls_yaml_params", dict_to_sls_yaml_params),
];

/// A value as data; errors name the filter.
fn to_data(args: &CallArgs, value: &Value) -> Result<Data, Error> {
    to_document(value)
        .map_err(|e| if value.is_undefined() { e } else { args.error(e.detail().unwrap_or("not data")) })
}

/// How many values there are, and how deep they are nested.
fn measure(data: &Data) -> (usize, usize) {
    let children: Vec<&Data> = match data {
        Data::List(items) => items.iter().collect(),
        Data::Map(map) => map.values().collect(),
        _ => Vec::new(),
    };
    let inner = children.into_iter().map(measure);
    inner.fold((1, 1), |(n, deepest), (m, depth)| (n + m, deepest.max(depth + 1)))
}

/// Rejects what indentation alone would make too large.
fn check_indented(args: &CallArgs, data: &Data, indent: usize) -> Result<(), Error> {
    let (values, depth) = measure(data);
    budget::check_bytes(args.function_name(), values.saturating_mul(depth).saturating_mul(indent))
}

fn indent_of(args: &CallArgs, indent: Option<Value>, data: &Data) -> Result<Option<usize>, Error> {
    let Some(indent) = not_none(indent) else { return Ok(None) };
    let n = match indent.as_str() {
        Some(text) => text.chars().count(),
        None => usize::try_from(args.int("indent", &indent)?).unwrap_or(0),
    };
    check_indented(args, data, n)?;
    Ok(Some(n))
}

fn json(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, sort, indent] = args.bind(["value", "sort_keys", "indent"], 1)?;
    let data = to_data(args, &value.unwrap_or_default())?;
    let style = JsonStyle {
        sort_keys: sort.is_none_or(|v| v.is_true()),
        indent: indent_of(args, indent, &data)?,
        ..JsonStyle::default()
    };
    let text = yaml::json(&data, &style).map_err(|e| args.error(e))?;
    Ok(Value::from_safe_string(text.trim().to_owned()))
}

fn tojson(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, indent, ascii, sort, separators] =
        args.bind(["val", "indent", "ensure_ascii", "sort_keys", "separators"], 1)?;
    let separators = match not_none(separators) {
        None => None,
        Some(pair) => match args.items(&pair)?.as_slice() {
            [comma, colon] => Some((args.text(comma)?, args.text(colon)?)),
            _ => return Err(args.error("separators must be a pair")),
        },
    };
    let data = to_data(args, &value.unwrap_or_default())?;
    if let Some((comma, colon)) = &separators {
        check_indented(args, &data, comma.len() + colon.len())?;
    }
    let style = JsonStyle {
        sort_keys: sort.is_some_and(|v| v.is_true()),
        indent: indent_of(args, indent, &data)?,
        ensure_ascii: ascii.is_none_or(|v| v.is_true()),
        separators: separators.as_ref().map(|(comma, colon)| (comma.as_str(), colon.as_str())),
    };
    let mut text = yaml::json(&data, &style).map_err(|e| args.error(e))?;
    for (sign, code) in [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\'', "\\u0027")] {
        if text.contains(sign) {
            text = text.replace(sign, code);
        }
    }
    Ok(Value::from(text))
}

fn yaml_text(args: &CallArgs, data: &Data, is_flow: bool) -> Result<Value, Error> {
    if !is_flow {
        check_indented(args, data, 2)?;
    }
    let mut text = if is_flow { yaml::dump_flow(data) } else { yaml::dump_block(data) };
    if text.ends_with("\n...") {
        text.truncate(text.len() - "\n...".len());
    }
    Ok(Value::from_safe_string(text))
}

fn yaml_filter(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, flow] = args.bind(["value", "flow_style"], 1)?;
    let data = to_data(args, &value.unwrap_or_default())?;
    yaml_text(args, &data, flow.is_none_or(|v| v.is_true()))
}

fn load_yaml(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let value = args.expect_one("value")?;
    let text = args.str("the value", &value)?;
    let limits = TreeLimits { output: budget::bytes(), ..TreeLimits::default() };
    let data = yaml::load(text, &limits).map_err(|e| {
        let template_error =
            TemplateError::new(template::LOAD, format!("this text is not valid YAML: {}", e.message));
        template_error.hint(e.hint).inside(e.pos)
    })?;
    Ok(to_template(&data))
}

fn load_json(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let value = args.expect_one("value")?;
    let text = args.str("the value", &value)?;
    let data = Data::from_json_str(text).map_err(|e| {
        let why = e.to_string();
        let why = why.split(" at line ").next().unwrap_or_default();
        let number = |n: usize| u32::try_from(n).unwrap_or(0);
        TemplateError::new(template::LOAD, format!("this text is not valid JSON: {why}"))
            .inside(Pos::new(number(e.line()), number(e.column())))
    })?;
    Ok(to_template(&data))
}

fn yaml_encode(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let value = args.expect_one("data")?;
    let text = yaml::yaml_encode(&to_data(args, &value)?).map_err(|e| args.error(e))?;
    Ok(Value::from(text))
}

fn dict_to_sls_yaml_params(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, flow] = args.bind(["value", "flow_style"], 1)?;
    let value = value.unwrap_or_default();
    let Data::Map(map) = to_data(args, &value)? else {
        return Err(args.type_error("the value", "a dict", &value));
    };
    let one = |(k, v): (&Data, &Data)| -> Data {
        let mut single = zagent_config::Map::new();
        single.insert(k.clone(), v.clone());
        single.into()
    };
    let items: Data = map.iter().map(one).collect();
    yaml_text(args, &items, flow.is_some_and(|v| v.is_true()))
}
