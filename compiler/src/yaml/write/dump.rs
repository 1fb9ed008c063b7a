//! Values in, YAML out, by the rules of the emitter that Salt uses.

use zagent_config::{List, Map, Value};

use super::super::read::is_plain_str;
use super::emit::{EmitContext, Emitter};
use super::scalar::{RawChars, is_break};
use super::sorted;

/// Which collections are written in brackets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowStyle {
    /// All: `default_flow_style=True`.
    Always,
    /// None: `default_flow_style=False`.
    Never,
    /// Those that hold only scalars: `default_flow_style=None`.
    #[default]
    Leaves,
}

/// How to write YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpStyle {
    /// Which collections are written in brackets.
    pub flow: FlowStyle,
    /// Keys are sorted; as in Python, mappings with keys that do not compare keep their order.
    pub sort_keys: bool,
    /// Characters beyond ASCII are written as they are, not as escapes.
    pub allow_unicode: bool,
    /// Characters that steer a terminal are written as escapes, also where YAML does not ask for it.
    pub escape_marks: bool,
    /// Spaces per level, from 2 to 9; anything else is 2.
    pub indent: u8,
    /// Lines are folded after this many columns.
    pub width: u16,
}

impl Default for DumpStyle {
    /// What `yaml.dump` does when Salt's serializer is given no options.
    fn default() -> Self {
        Self {
            flow: FlowStyle::Leaves,
            sort_keys: true,
            allow_unicode: false,
            escape_marks: false,
            indent: 2,
            width: 80,
        }
    }
}

impl DumpStyle {
    const fn raw_chars(&self) -> RawChars {
        RawChars { allow_unicode: self.allow_unicode, escape_marks: self.escape_marks }
    }
}

/// What the `yaml` filter prints: one flow collection with sorted keys, folded at column 80.
#[must_use]
pub fn dump_flow(value: &Value) -> String {
    dump_for_filter(value, FlowStyle::Always)
}

/// What `yaml(False)` prints: blocks with sorted keys.
#[must_use]
pub fn dump_block(value: &Value) -> String {
    dump_for_filter(value, FlowStyle::Never)
}

fn dump_for_filter(value: &Value, flow: FlowStyle) -> String {
    let mut text = dump(value, &DumpStyle { flow, allow_unicode: true, ..DumpStyle::default() });
    // In place: it may be as long as a template may make it.
    text.truncate(text.trim_end_matches(zagent_config::value::is_space).len());
    text.drain(..text.len() - text.trim_start_matches(zagent_config::value::is_space).len());
    text
}

/// What `yaml.dump` gives, with the line break at its end.
#[must_use]
pub fn dump(value: &Value, style: &DumpStyle) -> String {
    let mut writer =
        YamlWriter { emitter: Emitter::new(style.indent, style.width, style.raw_chars()), style: *style };
    writer.node(value, EmitContext::Root);
    let mut out = writer.emitter.out;
    out.push('\n');
    out
}

/// Longer keys are written with a `?`.
const SIMPLE_KEY: usize = 128;

struct YamlWriter {
    emitter: Emitter,
    style: DumpStyle,
}

impl YamlWriter {
    fn node(&mut self, value: &Value, context: EmitContext) {
        match value {
            Value::Str(text) => self.emitter.scalar(text, is_plain_str(text), context),
            Value::List(list) => self.list(list, context),
            Value::Map(map) => self.map(map),
            other => self.emitter.scalar(&scalar_text(other), true, context),
        }
    }

    fn list(&mut self, list: &List, context: EmitContext) {
        if self.is_flow(list.is_empty(), list.iter()) {
            let back = self.emitter.open_bracket("[");
            for (i, item) in list.iter().enumerate() {
                self.emitter.next_part(i);
                self.node(item, EmitContext::Item);
            }
            self.emitter.close_bracket("]", back);
            return;
        }
        let back = self.emitter.open_list(context);
        for item in list.iter() {
            self.emitter.dash();
            self.node(item, EmitContext::Item);
        }
        self.emitter.close(back);
    }

    fn map(&mut self, map: &Map) {
        let pairs = if self.style.sort_keys { sorted(map).ok() } else { None };
        let pairs = pairs.unwrap_or_else(|| map.iter().collect());
        let is_flow = self.is_flow(map.is_empty(), map.keys().chain(map.values()));
        let back = if is_flow { self.emitter.open_bracket("{") } else { self.emitter.open_map() };
        for (i, (key, value)) in pairs.into_iter().enumerate() {
            if is_flow {
                self.emitter.next_part(i);
            } else {
                self.emitter.new_line();
            }
            if is_simple_key(key) {
                self.node(key, EmitContext::SimpleKey);
                self.emitter.colon();
            } else {
                self.emitter.question();
                self.node(key, EmitContext::Pair);
                self.emitter.colon_below();
            }
            self.node(value, EmitContext::Pair);
        }
        if is_flow {
            self.emitter.close_bracket("}", back);
        } else {
            self.emitter.close(back);
        }
    }

    fn is_flow<'v>(&self, is_empty: bool, mut parts: impl Iterator<Item = &'v Value>) -> bool {
        is_empty
            || self.emitter.is_in_brackets()
            || match self.style.flow {
                FlowStyle::Always => true,
                FlowStyle::Never => false,
                FlowStyle::Leaves => parts.all(|v| !matches!(v, Value::List(_) | Value::Map(_))),
            }
    }
}

fn is_simple_key(key: &Value) -> bool {
    match key {
        Value::Str(text) => text.len() <= SIMPLE_KEY && !text.contains(is_break),
        Value::Big(digits) => digits.len() <= SIMPLE_KEY,
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => true,
    }
}

/// The text of a scalar that is not a string, as YAML writes it.
pub(super) fn scalar_text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Float(f) if f.is_nan() => ".nan".to_owned(),
        Value::Float(f) if f.is_infinite() => if *f > 0.0 { ".inf" } else { "-.inf" }.to_owned(),
        Value::Float(f) => {
            let text = zagent_config::value::python_float(*f);
            // Without a point YAML 1.1 would read it as a string.
            if text.contains('.') { text } else { text.replacen('e', ".0e", 1) }
        }
        other => zagent_config::value::python_str(other),
    }
}
