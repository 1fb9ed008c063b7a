//! The YAML of a configuration file in, a value with the positions of its keys out.
//!
//! Only for the few small files that configure zagent: states and pillar have a loader of their own, with Salt's
//! reading of scalars. Duplicate keys, several documents and tags are refused.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libyaml_safer::{EventData, Mark, Parser, ScalarStyle};

use crate::value::{List, Map, Pos, Value};

/// Maximum nodes per file, with aliases expanded.
const MAX_NODES: usize = 200_000;
/// Maximum nesting per file.
const MAX_DEPTH: usize = 64;

/// Which plain scalars are not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarSchema {
    /// `true`, `false`, numbers and `null`: a time like `22:00` and a word like `on` stay text.
    Core,
    /// As a Salt configuration is read: also `yes`, `no`, `on` and `off`.
    Salt,
}

/// What is wrong and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigYamlError {
    pub(crate) message: String,
    pub(crate) pos: Pos,
}

/// Reads one document; an empty one is null.
pub(crate) fn load(text: &str, schema: ScalarSchema) -> Result<Value, ConfigYamlError> {
    load_within(text, schema, MAX_NODES)
}

/// Reads one document with at most `max_nodes` values, aliases expanded.
pub(crate) fn load_within(
    text: &str,
    schema: ScalarSchema,
    max_nodes: usize,
) -> Result<Value, ConfigYamlError> {
    // The event parser still panics on some texts that are not YAML; the other parser rejects them first. What
    // it rejects without a position (a second document, too many aliases) is rejected below with one.
    if let Err(error) = serde_yaml::from_str::<serde::de::IgnoredAny>(text)
        && let Some(at) = error.location()
    {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
        return Err(ConfigYamlError {
            message,
            pos: Pos::new(saturating_u32(at.line()), saturating_u32(at.column())),
        });
    }
    let text = format!("{}\n", text.trim_start_matches('\u{feff}'));
    catch_unwind(AssertUnwindSafe(|| YamlReader::read(&text, schema, max_nodes)))
        .unwrap_or_else(|_| Err(ConfigYamlError { message: "not YAML".into(), pos: Pos::NONE }))
}

fn saturating_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn mark_pos(mark: Mark) -> Pos {
    let number = |n: u64| u32::try_from(n + 1).unwrap_or(u32::MAX);
    Pos::new(number(mark.line), number(mark.column))
}

struct YamlReader<'t> {
    parser: Parser<&'t mut &'t [u8]>,
    schema: ScalarSchema,
    anchors: HashMap<String, (Value, usize)>,
    nodes: usize,
    max_nodes: usize,
    depth: usize,
}

type YamlEvent = (EventData, Pos);

impl<'t> YamlReader<'t> {
    fn read(text: &'t str, schema: ScalarSchema, max_nodes: usize) -> Result<Value, ConfigYamlError> {
        let mut bytes = text.as_bytes();
        let mut parser = Parser::new();
        parser.set_input_string(&mut bytes);
        YamlReader { parser, schema, anchors: HashMap::new(), nodes: 0, max_nodes, depth: 0 }.read_document()
    }

    fn next(&mut self) -> Result<YamlEvent, ConfigYamlError> {
        match self.parser.parse() {
            Ok(event) => Ok((event.data, mark_pos(event.start_mark))),
            Err(error) => Err(ConfigYamlError { message: error.to_string(), pos: Pos::NONE }),
        }
    }

    fn read_document(mut self) -> Result<Value, ConfigYamlError> {
        let mut found = None;
        loop {
            match self.next()? {
                (EventData::StreamEnd, _) => return Ok(found.unwrap_or_default()),
                (EventData::DocumentStart { .. }, at) if found.is_some() => {
                    return Err(ConfigYamlError { message: "a second document starts here".into(), pos: at });
                }
                (EventData::DocumentStart { .. }, _) => {
                    let first = self.next()?;
                    found = Some(self.read_node(first)?);
                }
                _ => {}
            }
        }
    }

    fn read_node(&mut self, (event, at): YamlEvent) -> Result<Value, ConfigYamlError> {
        let before = self.nodes;
        self.count_nodes(1, at)?;
        let (value, anchor) = match event {
            EventData::Alias { anchor } => {
                let Some((value, size)) = self.anchors.get(&anchor).cloned() else {
                    return Err(ConfigYamlError { message: format!("unknown anchor `{anchor}`"), pos: at });
                };
                self.count_nodes(size, at)?;
                return Ok(value);
            }
            EventData::Scalar { anchor, tag, value, style, .. } => {
                self.refuse_tag(tag.as_deref(), at)?;
                let plain = style == ScalarStyle::Plain;
                (if plain { parse_scalar(&value, self.schema) } else { Value::from(value) }, anchor)
            }
            EventData::SequenceStart { anchor, tag, .. } => {
                self.refuse_tag(tag.as_deref(), at)?;
                (self.read_nested(at, Self::read_list)?, anchor)
            }
            EventData::MappingStart { anchor, tag, .. } => {
                self.refuse_tag(tag.as_deref(), at)?;
                (self.read_nested(at, Self::read_map)?, anchor)
            }
            _ => return Err(ConfigYamlError { message: "expected a value here".into(), pos: at }),
        };
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, (value.clone(), self.nodes - before));
        }
        Ok(value)
    }

    fn count_nodes(&mut self, nodes: usize, at: Pos) -> Result<(), ConfigYamlError> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > self.max_nodes {
            return Err(ConfigYamlError { message: format!("more than {} values", self.max_nodes), pos: at });
        }
        Ok(())
    }

    fn refuse_tag(&self, tag: Option<&str>, at: Pos) -> Result<(), ConfigYamlError> {
        match tag {
            Some(tag) => Err(ConfigYamlError {
                message: format!("tags such as `{tag}` are not supported here"),
                pos: at,
            }),
            None => Ok(()),
        }
    }

    fn read_nested(
        &mut self,
        at: Pos,
        read: fn(&mut Self) -> Result<Value, ConfigYamlError>,
    ) -> Result<Value, ConfigYamlError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ConfigYamlError { message: format!("nested deeper than {MAX_DEPTH}"), pos: at });
        }
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn read_list(&mut self) -> Result<Value, ConfigYamlError> {
        let mut list = List::default();
        loop {
            match self.next()? {
                (EventData::SequenceEnd, _) => return Ok(list.into()),
                item => {
                    let at = item.1;
                    list.push_at(self.read_node(item)?, at);
                }
            }
        }
    }

    fn read_map(&mut self) -> Result<Value, ConfigYamlError> {
        let mut map = Map::new();
        loop {
            let key = match self.next()? {
                (EventData::MappingEnd, _) => return Ok(map.into()),
                key => key,
            };
            let at = key.1;
            let key = self.read_node(key)?;
            let value = self.next()?;
            let value = self.read_node(value)?;
            let name = key.json_key();
            if map.insert_at(key, value, at).is_some() {
                return Err(ConfigYamlError { message: format!("duplicate key `{name}`"), pos: at });
            }
        }
    }
}

fn parse_scalar(text: &str, schema: ScalarSchema) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        "yes" | "Yes" | "YES" | "on" | "On" | "ON" if schema == ScalarSchema::Salt => {
            return Value::Bool(true);
        }
        "no" | "No" | "NO" | "off" | "Off" | "OFF" if schema == ScalarSchema::Salt => {
            return Value::Bool(false);
        }
        _ => {}
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let number = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && digits.starts_with(|c: char| c.is_ascii_digit());
    // A value with a leading zero is rarely meant as a number.
    if !number || (digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.")) {
        return Value::from(text);
    }
    if let Ok(int) = text.parse::<i64>() {
        return Value::Int(int);
    }
    match text.parse::<f64>() {
        Ok(float) if digits.contains('.') => Value::Float(float),
        _ => Value::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_items_have_positions() {
        let value = load("a: 1\nb:\n  - x\n  - {c: on}\n", ScalarSchema::Core).unwrap();
        let map = value.as_map().unwrap();
        assert_eq!(map.entry("b").unwrap().at, Pos::new(2, 1));
        let list = map.get("b").and_then(Value::as_list).unwrap();
        assert_eq!(list.pos(1), Pos::new(4, 5));
        let inner = list[1].as_map().unwrap();
        assert_eq!(
            (inner.entry("c").unwrap().at, inner.get("c")),
            (Pos::new(4, 6), Some(&Value::from("on")))
        );
    }

    #[test]
    fn scalars() {
        for (text, core, salt) in [
            ("yes", Value::from("yes"), Value::Bool(true)),
            ("22:00", Value::from("22:00"), Value::from("22:00")),
            ("0644", Value::from("0644"), Value::from("0644")),
            ("12", Value::Int(12), Value::Int(12)),
            ("-1.5", Value::Float(-1.5), Value::Float(-1.5)),
            ("0", Value::Int(0), Value::Int(0)),
            ("1.2.3", Value::from("1.2.3"), Value::from("1.2.3")),
            ("'1'", Value::from("1"), Value::from("1")),
            ("~", Value::Null, Value::Null),
            ("", Value::Null, Value::Null),
        ] {
            assert_eq!(load(text, ScalarSchema::Core), Ok(core), "{text}");
            assert_eq!(load(text, ScalarSchema::Salt), Ok(salt), "{text}");
        }
    }

    #[test]
    fn errors_have_a_position() {
        for (text, line) in [
            ("a: 1\na: 2\n", 2),
            ("a: [1\n", 2),
            ("a: 1\n  b: 2\n", 2),
            ("a: 1\n---\nb: 2\n", 2),
            ("a: !x 1\n", 1),
            ("a: *b\n", 1),
        ] {
            assert_eq!(load(text, ScalarSchema::Core).unwrap_err().pos.line, line, "{text}");
        }
    }

    #[test]
    fn alias_bombs_are_rejected() {
        let mut text = "a0: &a0 [x]\n".to_owned();
        for i in 1..40 {
            text += &format!("a{i}: &a{i} [*a{0}, *a{0}, *a{0}]\n", i - 1);
        }
        assert!(load(&text, ScalarSchema::Core).is_err());
        assert!(load(&"[".repeat(5000), ScalarSchema::Core).is_err());
        for text in ["!,", "!", "'", "|", "a: |\n b", "\u{feff}a: 1", "- -", "&a", "? ", "%YAML 9"] {
            let _ = load(text, ScalarSchema::Core);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[a-c:\\- \\n{}\\[\\]&*!|>'\"#?%,0-9~]{0,60}") {
            let _ = load(&text, ScalarSchema::Salt);
        }
    }
}
