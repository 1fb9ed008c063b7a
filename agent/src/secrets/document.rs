//! The text of a pillar file in, its encrypted parts out, and the same file with other parts.
//!
//! Two shapes: a file that is encrypted as a whole (`#!age|…`, one message), and a file with encrypted values
//! (`#!…|age`, a message per value).

use std::ops::Range;

use zagent_compiler::TreeLimits;
use zagent_config::{Map, Value};

/// The first line of a message.
const BEGIN: &str = "-----BEGIN AGE ENCRYPTED FILE-----";
/// The last line of a message.
const END: &str = "-----END AGE ENCRYPTED FILE-----";
/// The renderers of a file that names none.
const DEFAULT_PIPE: &str = "jinja|yaml";
/// The renderer that decrypts.
const AGE: &str = "age";

/// How a file is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncryptedShape {
    /// The whole file is one message.
    Whole,
    /// Its values may be messages.
    Values,
    /// Its renderers do not decrypt.
    Plain,
}

/// A message in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its line, from 1.
    pub line: usize,
    /// The key that holds it, as `a:b`; empty for a whole file.
    pub key: String,
    /// The message, without indentation.
    pub armoured: String,
    /// Its bytes in the file: from its first dash to its last.
    range: Range<usize>,
    indent: usize,
}

/// Why a value cannot be put into a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetValueError {
    /// The file is one message.
    #[error("the whole file is encrypted")]
    Whole,
    /// Templates decide about lines.
    #[error("the file contains template commands")]
    Template,
    /// The file is not YAML.
    #[error("line {0}: {1}")]
    Yaml(u32, String),
    /// The place is not a line of its own.
    #[error("`{0}` is not written as a block of lines")]
    Flow(String),
}

/// How a text is encrypted, by the renderers of its first line.
#[must_use]
pub fn shape(text: &str) -> EncryptedShape {
    let Some(pipe) = pipe(text) else { return EncryptedShape::Plain };
    let mut stages = pipe.split('|').map(str::trim);
    if stages.next() == Some(AGE) {
        EncryptedShape::Whole
    } else if stages.any(|stage| stage == AGE) {
        EncryptedShape::Values
    } else {
        EncryptedShape::Plain
    }
}

/// The renderers of the first line.
fn pipe(text: &str) -> Option<&str> {
    text.strip_prefix("#!")?.lines().next().map(str::trim)
}

/// The text after the first line, if that names renderers.
fn body(text: &str) -> &str {
    if pipe(text).is_none() { text } else { text.split_once('\n').map_or("", |(_, rest)| rest) }
}

/// Finds the messages of a text.
#[must_use]
pub fn messages(text: &str) -> Vec<Message> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(BEGIN).map(|i| at + i) {
        let Some(stop) = text[start..].find(END).map(|i| start + i + END.len()) else { break };
        let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
        let lead = &text[line_start..start];
        let indent = if lead.trim().is_empty() { lead.len() } else { 0 };
        let lines: Vec<&str> = text[start..stop].lines().map(str::trim).collect();
        found.push(Message {
            line: text[..start].matches('\n').count() + 1,
            key: key_path(&text[..line_start], lead),
            armoured: lines.join("\n") + "\n",
            range: start..stop,
            indent,
        });
        at = stop;
    }
    found
}

/// The keys above a line, from the outermost: each is on a line that is indented less than the one below.
fn key_path(above: &str, lead: &str) -> String {
    let mut keys: Vec<&str> = Vec::new();
    let mut limit = lead.len();
    if let Some((key, _)) = lead.trim_start().split_once(':') {
        keys.push(unquoted(key));
        limit = lead.len() - lead.trim_start().len();
    }
    for line in above.lines().rev() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if trimmed.is_empty() || trimmed.starts_with('#') || indent >= limit {
            continue;
        }
        if let Some((key, _)) = trimmed.split_once(':') {
            keys.push(unquoted(key.trim_start_matches("- ")));
        }
        limit = indent;
    }
    keys.reverse();
    keys.join(":")
}

fn unquoted(key: &str) -> &str {
    let key = key.trim();
    let inner = |quote| key.strip_prefix(quote).and_then(|key| key.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(key)
}

/// The text with other messages: one per message of the old text, or `None` to keep it.
#[must_use]
pub fn with_messages(text: &str, old: &[Message], new: &[Option<String>]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (message, new) in old.iter().zip(new) {
        let Some(new) = new else { continue };
        out.push_str(&text[at..message.range.start]);
        let lead = " ".repeat(message.indent);
        out.push_str(&new.trim_end().lines().collect::<Vec<_>>().join(&format!("\n{lead}")));
        at = message.range.end;
    }
    out.push_str(&text[at..]);
    out
}

/// What a plain file holds when it is decrypted: its content without the line of renderers.
#[must_use]
pub fn plain_body(text: &str) -> &str {
    body(text)
}

/// A plain file as one message: its renderers stay behind `age`.
#[must_use]
pub fn as_whole(text: &str, armoured: &str) -> String {
    format!("#!{AGE}|{}\n{armoured}", pipe(text).unwrap_or(DEFAULT_PIPE))
}

/// The text with a value set to a message. The file decrypts its values from then on.
///
/// # Errors
/// Fails when the place cannot be found with certainty; nothing else in the file ever changes.
pub fn with_value(text: &str, key: &[&str], armoured: &str) -> Result<String, SetValueError> {
    if shape(text) == EncryptedShape::Whole {
        return Err(SetValueError::Whole);
    }
    if ["{{", "{%", "{#"].iter().any(|mark| body(text).contains(mark)) {
        return Err(SetValueError::Template);
    }
    let before = load(text)?;
    let renamed = with_age(text);
    let edited = insert_value(&renamed, key, armoured)?;
    let expected = expected(&before, key, armoured);
    // The edit works on lines; the parser decides whether it did what was meant.
    if load(&edited)? == expected { Ok(edited) } else { Err(SetValueError::Flow(key.join(":"))) }
}

fn load(text: &str) -> Result<Value, SetValueError> {
    let value = zagent_compiler::yaml::load(text, &TreeLimits::default());
    let value = value.map_err(|e| SetValueError::Yaml(e.pos.line, e.message))?;
    Ok(if value == Value::Null { Value::empty_map() } else { value })
}

/// The text with `age` among its renderers.
fn with_age(text: &str) -> String {
    if shape(text) == EncryptedShape::Values {
        return text.to_owned();
    }
    match pipe(text) {
        Some(pipe) => format!("#!{pipe}|{AGE}\n{}", body(text)),
        None => format!("#!{DEFAULT_PIPE}|{AGE}\n{text}"),
    }
}

fn expected(value: &Value, key: &[&str], armoured: &str) -> Value {
    let Some((first, rest)) = key.split_first() else { return armoured.trim_end().into() };
    let mut map = value.as_map().cloned().unwrap_or_else(Map::new);
    let inner = map.get(first).cloned().unwrap_or_else(Value::empty_map);
    map.insert(*first, expected(&inner, rest, armoured));
    map.into()
}

/// Lines of a block mapping: from `start` to `end`, indented by `indent`.
struct Block {
    start: usize,
    end: usize,
    indent: Option<usize>,
}

fn insert_value(text: &str, key: &[&str], armoured: &str) -> Result<String, SetValueError> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let first = usize::from(pipe(text).is_some());
    let mut block = Block { start: first, end: lines.len(), indent: None };
    let mut outer = None;
    for (depth, name) in key.iter().enumerate() {
        block.indent =
            lines[block.start..block.end].iter().find(|line| is_content(line)).map(|line| indent_of(line));
        let indent = block.indent.unwrap_or_else(|| outer.map_or(0, |outer| outer + 2));
        let found = (block.start..block.end).find(|&i| {
            is_content(&lines[i]) && indent_of(&lines[i]) == indent && key_of(&lines[i]) == Some(name)
        });
        let Some(line) = found else {
            let new = value_lines(&key[depth..], indent, armoured);
            let end = last_content(&lines, &block).map_or(block.start, |i| i + 1);
            lines.splice(end..end, new);
            return Ok(lines.join("\n") + "\n");
        };
        let end = (line + 1..block.end)
            .find(|&i| is_content(&lines[i]) && indent_of(&lines[i]) <= indent)
            .unwrap_or(block.end);
        let inner = Block { start: line + 1, end, indent: None };
        if depth + 1 == key.len() {
            let end = last_content(&lines, &inner).map_or(line + 1, |i| i + 1);
            lines.splice(line..end, value_lines(&key[depth..], indent, armoured));
            return Ok(lines.join("\n") + "\n");
        }
        let has_value = lines[line].split_once(':').is_some_and(|(_, rest)| is_content(rest));
        if has_value {
            return Err(SetValueError::Flow(key[..=depth].join(":")));
        }
        (block, outer) = (inner, Some(indent));
    }
    Err(SetValueError::Flow(key.join(":")))
}

fn value_lines(key: &[&str], indent: usize, armoured: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (depth, name) in key.iter().enumerate() {
        let lead = " ".repeat(indent + 2 * depth);
        let tail = if depth + 1 == key.len() { " |-" } else { "" };
        lines.push(format!("{lead}{}:{tail}", quoted(name)));
    }
    let lead = " ".repeat(indent + 2 * key.len());
    lines.extend(armoured.lines().map(|line| format!("{lead}{line}")));
    lines
}

/// A key as YAML: in quotes unless it is a plain word.
fn quoted(name: &str) -> String {
    let is_word = name.chars().all(|c| c.is_alphanumeric() || "_-./".contains(c))
        && name.chars().next().is_some_and(char::is_alphabetic);
    if is_word { name.to_owned() } else { format!("'{}'", name.replace('\'', "''")) }
}

fn is_content(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn key_of(line: &str) -> Option<&str> {
    let (key, rest) = line.split_once(':')?;
    (rest.is_empty() || rest.starts_with(' ')).then(|| unquoted(key))
}

fn last_content(lines: &[String], block: &Block) -> Option<usize> {
    (block.start..block.end).rev().find(|&i| is_content(&lines[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = "-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n-----END AGE ENCRYPTED FILE-----\n";

    #[test]
    fn the_first_line_says_how_a_file_is_encrypted() {
        let cases = [
            ("a: 1\n", EncryptedShape::Plain),
            ("#!jinja|yaml\na: 1\n", EncryptedShape::Plain),
            ("#!yaml|age\n", EncryptedShape::Values),
            ("#!jinja | yaml | age\n", EncryptedShape::Values),
            ("#!age|yaml\n", EncryptedShape::Whole),
            ("# age\n", EncryptedShape::Plain),
        ];
        for (text, expected) in cases {
            assert_eq!(shape(text), expected, "{text}");
        }
    }

    #[test]
    fn a_value_is_set_and_everything_else_stays() {
        let cases: [(&str, &[&str]); 8] = [
            ("", &["a"]),
            ("a: 1\n", &["b", "c"]),
            ("# note\ndb:\n  user: x   # who\n\n  password: old\n  port: 1\nweb: 2\n", &["db", "password"]),
            ("db:\n    user: x\nweb: 2\n", &["db", "password"]),
            ("db:\n  password: |\n    old\n    lines\nweb: 2\n", &["db", "password"]),
            ("'a b':\n  c: 1\n", &["a b", "c"]),
            ("#!yaml\na: 1\n", &["2", "x y"]),
            ("a:\n  - 1\nb: 2\n# end\n", &["a"]),
        ];
        for (text, key) in cases {
            let edited = with_value(text, key, MESSAGE).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(shape(&edited), EncryptedShape::Values);
            let found = messages(&edited);
            assert_eq!(
                (found.len(), &*found[0].key, &*found[0].armoured),
                (1, &*key.join(":"), MESSAGE),
                "{edited}"
            );
            for line in
                text.lines().filter(|line| line.trim_start().starts_with('#') && !line.starts_with("#!"))
            {
                assert!(edited.contains(line), "{edited}");
            }
            // Once more: the message is replaced, not added.
            assert_eq!(with_value(&edited, key, MESSAGE).as_deref(), Ok(&*edited));
        }
    }

    #[test]
    fn a_place_that_is_not_certain_is_refused() {
        let refused = |text: &str, key: &[&str]| with_value(text, key, MESSAGE).unwrap_err();
        assert_eq!(refused("db: {user: x}\n", &["db", "password"]), SetValueError::Flow("db".into()));
        assert_eq!(refused("a: {{ b }}\n", &["c"]), SetValueError::Template);
        assert_eq!(refused("#!age|yaml\nx\n", &["c"]), SetValueError::Whole);
        assert!(matches!(refused("a: [\n", &["c"]), SetValueError::Yaml(..)));
        assert!(matches!(refused("- a\n", &["c"]), SetValueError::Flow(_) | SetValueError::Yaml(..)));
    }

    #[test]
    fn messages_are_found_and_replaced_in_place() {
        let text = with_value("db:\n  user: x\n", &["db", "password"], MESSAGE).unwrap();
        let text = with_value(&text, &["token"], MESSAGE).unwrap();
        let found = messages(&text);
        assert_eq!(found.iter().map(|m| &*m.key).collect::<Vec<_>>(), ["db:password", "token"]);
        assert_eq!(found[0].line, 5);
        assert_eq!(with_messages(&text, &found, &[None, None]), text);
        let other = MESSAGE.replace("YWdl", "bmV3");
        let edited = with_messages(&text, &found, &[None, Some(other.clone())]);
        assert_eq!(messages(&edited)[1].armoured, other);
        assert_eq!(
            edited,
            text.replacen("  YWdl\n  -----END", "  bmV3\n  -----END", 2).replacen("    bmV3", "    YWdl", 1)
        );
        let whole = as_whole("#!yaml\na: 1\n", MESSAGE);
        assert_eq!((shape(&whole), messages(&whole)[0].key.as_str()), (EncryptedShape::Whole, ""));
        assert!(whole.starts_with("#!age|yaml\n"));
        assert!(as_whole("a: 1\n", MESSAGE).starts_with("#!age|jinja|yaml\n"));
    }
}
