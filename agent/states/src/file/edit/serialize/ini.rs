//! A value into the text that Python's `configparser` writes, and such a text back into a value.
//!
//! Law: names of options are written in lower case, values as text; a text that Python refuses is refused (held by
//! `reads_as_python_does`, `refuses_as_python_does`).

use zagent_config::value::python_str;
use zagent_config::{Map, Value};

use crate::StateError;

/// How names and values are written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConfigparserStyle {
    /// Options of the section whose options all others have.
    pub(crate) defaults: Map,
    /// What makes a line a comment.
    pub(crate) comment_prefixes: Vec<String>,
    /// What makes the rest of a line a comment, behind a space.
    pub(crate) inline_comment_prefixes: Vec<String>,
    /// A value may go on behind an empty line.
    pub(crate) empty_lines_in_values: bool,
    /// What may stand between name and value; the first is written.
    pub(crate) delimiters: Vec<String>,
    /// Names without a value are allowed.
    pub(crate) allow_no_value: bool,
    /// The section whose options all others have.
    pub(crate) default_section: String,
    /// `%(name)s` in values stands for another one.
    pub(crate) interpolates: bool,
    /// A section or option that comes twice is refused.
    pub strict: bool,
}

impl Default for ConfigparserStyle {
    fn default() -> Self {
        Self {
            defaults: Map::new(),
            comment_prefixes: vec!["#".into(), ";".into()],
            inline_comment_prefixes: Vec::new(),
            empty_lines_in_values: true,
            delimiters: vec!["=".into(), ":".into()],
            allow_no_value: false,
            default_section: "DEFAULT".into(),
            interpolates: true,
            strict: true,
        }
    }
}

/// The section that Salt never makes itself, whatever the default section is.
const PYTHONS_DEFAULT: &str = "DEFAULT";

/// Names and values of one section.
type IniOptions = Vec<(String, Option<String>)>;

/// The text of a mapping of mappings.
///
/// # Errors
/// Fails where Python does: on what is no mapping of mappings, on a `%` that stands for nothing.
pub(crate) fn write(value: &Value, style: &ConfigparserStyle) -> Result<String, StateError> {
    let Value::Map(sections) = value else {
        let kind = value.type_name();
        return Err(StateError::new(format!(
            "configparser can only serialize dictionaries, not <class '{kind}'>"
        )));
    };
    let mut out = String::new();
    let is_default = |name: &str| name == style.default_section;
    let mut named: Vec<(String, IniOptions)> = Vec::new();
    if !style.defaults.is_empty() {
        named.push((style.default_section.clone(), section_options(&style.defaults, style)?));
    }
    for (name, options) in sections.iter() {
        let name = python_str(name);
        let Value::Map(options) = options else {
            let kind = options.type_name();
            return Err(StateError::new(format!("'{kind}' object has no attribute 'items'")));
        };
        if is_default(&name) && name != PYTHONS_DEFAULT {
            return Err(StateError::new(format!("Invalid section name: '{name}'")));
        }
        if name == PYTHONS_DEFAULT && !is_default(&name) {
            return Err(StateError::new(format!("No section: '{name}'")));
        }
        let options = section_options(options, style)?;
        match named.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) if is_default(&name) => options.into_iter().for_each(|o| set_option(known, o)),
            Some(_) => return Err(StateError::new(format!("Section '{name}' already exists"))),
            None => named.push((name, options)),
        }
    }
    zagent_config::sorted::sort_by_key(&mut named, |(name, _)| !is_default(name));
    for (name, options) in named.iter().filter(|(name, options)| !is_default(name) || !options.is_empty()) {
        out.push_str(&format!("[{name}]\n"));
        for (key, value) in options {
            out.push_str(key);
            if let Some(value) = value {
                let between = style.delimiters.first().map_or("=", String::as_str);
                out.push_str(&format!(" {between} {}", value.replace('\n', "\n\t")));
            }
            out.push('\n');
        }
        out.push('\n');
    }
    Ok(out)
}

fn section_options(options: &Map, style: &ConfigparserStyle) -> Result<IniOptions, StateError> {
    let mut out: IniOptions = Vec::new();
    for (key, value) in options.iter() {
        let key = python_str(key).to_lowercase();
        let value = match value {
            Value::Null if style.allow_no_value => None,
            Value::Null => return Err(StateError::new("option values must be strings")),
            other => Some(python_str(other)),
        };
        if let Some(text) = value.as_deref().filter(|_| style.interpolates) {
            verify_interpolation(text)?;
        }
        set_option(&mut out, (key, value));
    }
    Ok(out)
}

fn set_option(options: &mut IniOptions, (key, value): (String, Option<String>)) {
    match options.iter_mut().find(|(known, _)| *known == key) {
        Some(known) => known.1 = value,
        None => options.push((key, value)),
    }
}

/// A `%` must be doubled, or stand before a name in brackets.
fn verify_interpolation(text: &str) -> Result<(), StateError> {
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        at += 1;
        if c != '%' {
            continue;
        }
        match chars.get(at) {
            Some('%') => at += 1,
            Some('(') if reference_end(&chars, at).is_some() => at = reference_end(&chars, at).unwrap_or(at),
            _ => {
                return Err(StateError::new(format!(
                    "invalid interpolation syntax in '{text}' at position {}",
                    at - 1
                )));
            }
        }
    }
    Ok(())
}

/// Where `(name)s` ends that begins here.
fn reference_end(chars: &[char], at: usize) -> Option<usize> {
    let close = chars[at..].iter().position(|c| *c == ')')? + at;
    (close > at + 1 && chars.get(close + 1) == Some(&'s')).then_some(close + 2)
}

/// Reads sections and options.
///
/// # Errors
/// Fails with words where Python does.
pub(crate) fn read(text: &str, style: &ConfigparserStyle, name: &str) -> Result<Value, String> {
    let mut reader = IniReader { style, name, sections: Vec::new(), current: None, indent: 0, open: false };
    for (number, line) in text.split_inclusive('\n').enumerate() {
        reader.read_line(number + 1, line)?;
    }
    reader.finish()
}

struct IniReader<'s> {
    style: &'s ConfigparserStyle,
    name: &'s str,
    sections: Vec<(String, IniOptions)>,
    current: Option<usize>,
    /// Indentation of the option whose value may go on.
    indent: usize,
    open: bool,
}

impl IniReader<'_> {
    /// One line, with its end.
    fn read_line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let text = self.without_inline_comment(line).trim();
        if self.style.comment_prefixes.iter().any(|prefix| line.trim_start().starts_with(prefix.as_str())) {
            return Ok(());
        }
        let indent = line.len() - line.trim_start().len();
        if text.is_empty() {
            if !line.trim().is_empty() {
                return Ok(());
            }
            if self.open && self.style.empty_lines_in_values {
                self.append_value("");
            }
            self.open &= self.style.empty_lines_in_values;
            return Ok(());
        }
        if self.open && indent > self.indent {
            self.append_value(text);
            return Ok(());
        }
        self.indent = indent;
        if let Some(inside) = text.strip_prefix('[').and_then(|rest| rest.rsplit_once(']')) {
            return self.start_section(number, inside.0);
        }
        let Some(at) = self.current else {
            return Err(format!(
                "File contains no section headers.\nfile: '{}', line: {number}\n{}",
                self.name,
                zagent_config::value::python_repr(&Value::from(line))
            ));
        };
        self.read_option(number, line, text, at)
    }

    /// A line up to a comment behind a space, or from its start.
    fn without_inline_comment<'l>(&self, line: &'l str) -> &'l str {
        let starts = |prefix: &String| {
            line.match_indices(prefix.as_str())
                .map(|(at, _)| at)
                .find(|at| *at == 0 || line[..*at].ends_with(char::is_whitespace))
        };
        let end = self.style.inline_comment_prefixes.iter().filter_map(starts).min();
        &line[..end.unwrap_or(line.len())]
    }

    fn start_section(&mut self, number: usize, name: &str) -> Result<(), String> {
        self.open = false;
        let known = self.sections.iter().position(|(n, _)| n == name);
        if known.is_some() && self.style.strict && name != self.style.default_section {
            return Err(format!(
                "While reading from '{}' [line {number:2}]: section '{name}' already exists",
                self.name
            ));
        }
        self.current = known.or_else(|| {
            self.sections.push((name.to_owned(), Vec::new()));
            Some(self.sections.len() - 1)
        });
        Ok(())
    }

    fn read_option(&mut self, number: usize, line: &str, text: &str, section: usize) -> Result<(), String> {
        let split =
            self.style.delimiters.iter().filter_map(|d| Some((text.find(d.as_str())?, d.len()))).min();
        let (key, value) = match split {
            Some((at, length)) => (text[..at].trim_end(), Some(text[at + length..].trim().to_owned())),
            None if self.style.allow_no_value => (text, None),
            None => ("", None),
        };
        if key.is_empty() {
            let shown = zagent_config::value::python_repr(&Value::from(line));
            return Err(format!(
                "Source contains parsing errors: '{}'\n\t[line {number:2}]: {shown}",
                self.name
            ));
        }
        let key = key.to_lowercase();
        let (name, options) = &mut self.sections[section];
        let known = options.iter().position(|(k, _)| *k == key);
        if known.is_some() && self.style.strict {
            return Err(format!(
                "While reading from '{}' [line {number:2}]: option '{key}' in section '{name}' already exists",
                self.name
            ));
        }
        self.open = value.is_some();
        match known {
            // What comes later counts, and is the one that goes on.
            Some(at) => {
                let mut option = options.remove(at);
                option.1 = value;
                options.push(option);
            }
            None => options.push((key, value)),
        }
        Ok(())
    }

    /// One more line of the last value.
    fn append_value(&mut self, text: &str) {
        let options = self.current.map(|at| &mut self.sections[at].1);
        if let Some((_, Some(value))) = options.and_then(|o| o.last_mut()) {
            value.push('\n');
            value.push_str(text);
        }
    }

    fn finish(self) -> Result<Value, String> {
        let tidy = |options: &IniOptions| -> IniOptions {
            let end = |v: &String| v.trim_end().to_owned();
            options.iter().map(|(k, v)| (k.clone(), v.as_ref().map(end))).collect()
        };
        let is_default = |name: &str| name == self.style.default_section;
        let defaults: IniOptions =
            self.sections.iter().filter(|(n, _)| is_default(n)).flat_map(|(_, o)| tidy(o)).collect();
        let mut all = Map::new();
        for (name, options) in self.sections.iter().filter(|(n, _)| !is_default(n)) {
            let mut merged = defaults.clone();
            for (key, value) in tidy(options) {
                match merged.iter_mut().find(|(k, _)| *k == key) {
                    Some(known) => known.1 = value,
                    None => merged.push((key, value)),
                }
            }
            let mut section = Map::new();
            for (key, value) in &merged {
                let text = value.as_deref().map(|v| self.expand_references(v, &merged, 0)).transpose()?;
                section.insert(key.as_str(), text.map_or(Value::Null, Value::from));
            }
            all.insert(name.as_str(), section);
        }
        Ok(all.into())
    }

    /// A value with its references followed.
    fn expand_references(&self, text: &str, options: &IniOptions, depth: usize) -> Result<String, String> {
        const DEPTH: usize = 10;
        if !self.style.interpolates || !text.contains('%') {
            return Ok(text.to_owned());
        }
        if depth >= DEPTH {
            return Err(format!("Recursion limit exceeded in value substitution: {text}"));
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                out.push('%');
                rest = after;
                continue;
            }
            let inside = rest.strip_prefix('(').and_then(|r| r.split_once(")s"));
            let Some((name, after)) = inside else {
                return Err(format!("'%' must be followed by '%' or '(', found: '%{rest}'"));
            };
            let known = options.iter().find(|(key, _)| *key == name.to_lowercase());
            let Some((_, value)) = known else {
                return Err(format!("Bad value substitution: no option '{name}'"));
            };
            out.push_str(&self.expand_references(
                value.as_deref().unwrap_or_default(),
                options,
                depth + 1,
            )?);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        Value::from_json_str(text).unwrap()
    }

    #[test]
    fn reads_as_python_does() {
        let text = "[DEFAULT]\nbase = /srv\n; note\n[S]\nA=1\nb: two\n  lines\n\n  more\npath = %(base)s/x\npc = 5%%\n[T]\n";
        assert_eq!(
            read(text, &ConfigparserStyle::default(), "f"),
            Ok(json(
                r#"{"S": {"base": "/srv", "a": "1", "b": "two\nlines\n\nmore", "path": "/srv/x", "pc": "5%"},
                    "T": {"base": "/srv"}}"#
            ))
        );
    }

    #[test]
    fn refuses_as_python_does() {
        for (text, words) in [
            ("nosec", "File contains no section headers.\nfile: 'f', line: 1\n'nosec'"),
            ("[S]\nx\n", "Source contains parsing errors: 'f'\n\t[line  2]: 'x\\n'"),
            ("[S]\n[S]\n", "While reading from 'f' [line  2]: section 'S' already exists"),
            ("[S]\na=1\nA=2\n", "While reading from 'f' [line  3]: option 'a' in section 'S' already exists"),
            ("[S]\na=%(a)s\n", "Recursion limit exceeded in value substitution: %(a)s"),
        ] {
            assert_eq!(read(text, &ConfigparserStyle::default(), "f").unwrap_err(), words);
        }
    }

    #[test]
    fn a_percent_sign_must_mean_something() {
        for (text, fine) in
            [("100%%", true), ("%(x)s/y", true), ("50%", false), ("%(x)", false), ("%()s", false)]
        {
            assert_eq!(verify_interpolation(text).is_ok(), fine, "{text}");
        }
    }
}
