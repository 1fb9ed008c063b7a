//! The name of a serializer and its options into a way to write values, and to read them back.

use zagent_compiler::TreeLimits;
use zagent_compiler::yaml::{DumpStyle, FlowStyle, JsonStyle, dump, json, load};
use zagent_config::value::python_str;
use zagent_config::{Map, Value};

use super::{ini, toml};
use crate::StateError;

/// A way to write values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SerializeFormat {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
    /// TOML.
    Toml,
    /// What Python's `configparser` writes.
    Ini,
}

impl SerializeFormat {
    /// The format of that name; `ini` is ours, Salt says `configparser`.
    ///
    /// # Errors
    /// Fails with Salt's words for another.
    pub(crate) fn from_name(name: &str) -> Result<Self, StateError> {
        Ok(match name {
            "yaml" => Self::Yaml,
            "json" => Self::Json,
            "toml" => Self::Toml,
            "configparser" | "ini" => Self::Ini,
            other => return Err(Self::unknown_format(other)),
        })
    }

    /// Salt's words for a format that is not there.
    pub(crate) fn unknown_format(name: &str) -> StateError {
        StateError::new(format!(
            "The {name} serializer could not be found. It either does not exist or its prerequisites are not installed."
        ))
    }

    /// The text of a value, without the line end that every file gets.
    ///
    /// # Errors
    /// Fails for what the format cannot hold, and for options that it does not have.
    pub(crate) fn write(self, value: &Value, options: &Map, unicode: bool) -> Result<String, StateError> {
        match self {
            Self::Yaml => write_yaml(value, options, unicode),
            Self::Json => {
                let separators = separators(options)?;
                let style = json_style(options, separators.as_ref())?;
                json(value, &style).map_err(|e| StateError::new(e.to_string()))
            }
            Self::Toml => reject_unknown(options, &[], "toml").and_then(|()| toml::write(value)),
            Self::Ini => ini::write(value, &ini_style(options)?),
        }
    }

    /// The value of a text; nothing for an empty one in YAML.
    ///
    /// # Errors
    /// Fails with Salt's words when the text is not of this format.
    pub(crate) fn read(self, text: &str, options: &Map, name: &str) -> Result<Value, StateError> {
        let value = match self {
            Self::Yaml => {
                reject_unknown(options, &[], "yaml")?;
                load(text, &TreeLimits::default()).map_err(|e| e.to_string())
            }
            Self::Json => {
                reject_unknown(options, &[], "json")?;
                Value::from_json_str(text).map_err(|e| e.to_string())
            }
            Self::Toml => reject_unknown(options, &[], "toml").map(|()| toml::read(text))?,
            Self::Ini => ini::read(text, &ini_style(options)?, name),
        };
        value.map_err(|words| StateError::new(format!("Failed to deserialize existing data: {words}")))
    }
}

/// Fails for an option that is not one of those.
fn reject_unknown(options: &Map, known: &[&str], format: &str) -> Result<(), StateError> {
    match options.keys().map(python_str).find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) if known.is_empty() => {
            Err(StateError::new(format!("the {format} serializer has no option `{key}` here")))
        }
        Some(key) => Err(StateError::new(format!(
            "the {format} serializer has no option `{key}` here, only {}",
            known.join(", ")
        ))),
    }
}

fn type_error(key: &str, wanted: &str, value: &Value) -> StateError {
    StateError::new(format!("serializer option `{key}` must be {wanted}, not {}", value.kind()))
}

fn flag(options: &Map, key: &str, default: bool) -> bool {
    options.get(key).map_or(default, Value::is_truthy)
}

fn number<N: TryFrom<i64>>(options: &Map, key: &str) -> Result<Option<N>, StateError> {
    let Some(value) = options.get(key).filter(|v| !v.is_null()) else { return Ok(None) };
    let number = value.as_int().and_then(|n| N::try_from(n).ok());
    number.map(Some).ok_or_else(|| type_error(key, "a small whole number", value))
}

fn write_yaml(value: &Value, options: &Map, unicode: bool) -> Result<String, StateError> {
    let known = ["default_flow_style", "sort_keys", "allow_unicode", "indent", "width", "explicit_start"];
    reject_unknown(options, &known, "yaml")?;
    let style = DumpStyle {
        flow: match options.get("default_flow_style") {
            None => FlowStyle::Never,
            Some(Value::Null) => FlowStyle::Leaves,
            Some(v) if v.is_truthy() => FlowStyle::Always,
            Some(_) => FlowStyle::Never,
        },
        sort_keys: flag(options, "sort_keys", true),
        allow_unicode: flag(options, "allow_unicode", unicode),
        escape_marks: false,
        indent: number(options, "indent")?.unwrap_or(2),
        width: number(options, "width")?.unwrap_or(80),
    };
    let text = dump(value, &style);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    if !flag(options, "explicit_start", false) {
        return Ok(text.to_owned());
    }
    let is_block = matches!(value, Value::List(_) | Value::Map(_)) && !text.starts_with(['[', '{']);
    Ok(format!("---{}{text}", if is_block { '\n' } else { ' ' }))
}

fn separators(options: &Map) -> Result<Option<(String, String)>, StateError> {
    match options.get("separators") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::List(parts)) if parts.len() == 2 => {
            Ok(Some((python_str(&parts[0]), python_str(&parts[1]))))
        }
        Some(other) => Err(type_error("separators", "a list of two texts", other)),
    }
}

fn json_style<'s>(
    options: &Map,
    separators: Option<&'s (String, String)>,
) -> Result<JsonStyle<'s>, StateError> {
    reject_unknown(options, &["indent", "sort_keys", "ensure_ascii", "separators"], "json")?;
    Ok(JsonStyle {
        indent: if options.contains("indent") { number(options, "indent")? } else { Some(2) },
        sort_keys: flag(options, "sort_keys", true),
        ensure_ascii: flag(options, "ensure_ascii", false),
        separators: Some(separators.map_or((",", ": "), |(comma, colon)| (comma.as_str(), colon.as_str()))),
    })
}

fn ini_style(options: &Map) -> Result<ini::ConfigparserStyle, StateError> {
    let known = [
        "defaults",
        "allow_no_value",
        "delimiters",
        "comment_prefixes",
        "inline_comment_prefixes",
        "strict",
        "empty_lines_in_values",
        "default_section",
        "interpolation",
    ];
    reject_unknown(options, &known, "configparser")?;
    let standard = ini::ConfigparserStyle::default();
    let delimiters = match options.get("delimiters") {
        None => standard.delimiters,
        Some(Value::List(list)) if !list.is_empty() => list.iter().map(python_str).collect(),
        Some(Value::Str(text)) if !text.is_empty() => vec![text.to_string()],
        Some(other) => return Err(type_error("delimiters", "a list of texts", other)),
    };
    if delimiters.iter().any(String::is_empty) {
        return Err(StateError::new("serializer option `delimiters` must not hold an empty text"));
    }
    let prefixes = |key: &str, standard: Vec<String>| match options.get(key) {
        None => Ok(standard),
        Some(Value::Null) => Ok(Vec::new()),
        Some(Value::List(list)) => Ok(list.iter().map(python_str).filter(|p| !p.is_empty()).collect()),
        Some(Value::Str(text)) => Ok(text.chars().map(String::from).collect()),
        Some(other) => Err(type_error(key, "a list of texts", other)),
    };
    let defaults = match options.get("defaults") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Map(map)) => (**map).clone(),
        Some(other) => return Err(type_error("defaults", "a mapping", other)),
    };
    Ok(ini::ConfigparserStyle {
        defaults,
        comment_prefixes: prefixes("comment_prefixes", standard.comment_prefixes)?,
        inline_comment_prefixes: prefixes("inline_comment_prefixes", Vec::new())?,
        empty_lines_in_values: flag(options, "empty_lines_in_values", true),
        delimiters,
        allow_no_value: flag(options, "allow_no_value", false),
        default_section: options.get("default_section").map_or(standard.default_section, python_str),
        interpolates: !matches!(options.get("interpolation"), Some(Value::Null)),
        strict: flag(options, "strict", true),
    })
}
