//! Python's `pprint`: keys sorted, lines of at most eighty characters.

use minijinja::Error;
use minijinja::value::{Value, ValueKind};
use zagent_config::Value as Data;

use crate::jinja::methods::args::{CallArgs, undefined_error};
use crate::jinja::object::budget::{self, MAX_DEPTH};
use crate::jinja::object::{items_of, pairs_of, repr, to_value, type_name};

const WIDTH: usize = 80;

/// The cost of a value besides its text, and the additional cost of a container.
const VALUE_COST: usize = 8;
const CONTAINER_COST: usize = 256;

/// Writes a value as `pprint.pformat` does.
pub(super) fn pretty(args: &CallArgs, value: &Value) -> Result<String, Error> {
    let node = PrettyReader { args, seen: 0 }.node(value, 0)?;
    let mut out = String::new();
    write(&node, 0, 0, &mut out);
    Ok(out)
}

/// A value prepared for printing.
enum PrettyNode {
    /// A value that is always on one line.
    Leaf(String),
    Text(String),
    /// Items between brackets.
    Items(char, Vec<Self>, char),
    Map(Vec<(String, Self)>),
}

struct PrettyReader<'a> {
    args: &'a CallArgs,
    seen: usize,
}

impl PrettyReader<'_> {
    fn node(&mut self, value: &Value, depth: usize) -> Result<PrettyNode, Error> {
        if depth > MAX_DEPTH {
            return Err(self.args.error("the value contains itself or is nested too deep"));
        }
        if value.is_undefined() {
            return Err(undefined_error(value));
        }
        let container = if value.as_object().is_some() { CONTAINER_COST } else { 0 };
        self.seen = self.seen.saturating_add(VALUE_COST + container + value.as_str().map_or(0, str::len));
        budget::check_bytes(self.args.function_name(), self.seen)?;
        match (value.kind(), type_name(value)) {
            (ValueKind::String, _) => Ok(PrettyNode::Text(value.as_str().unwrap_or_default().to_owned())),
            (_, "list") => Ok(PrettyNode::Items('[', self.items(value, depth)?, ']')),
            (_, "tuple") => Ok(PrettyNode::Items('(', self.items(value, depth)?, ')')),
            (ValueKind::Map, _) => match pairs_of(value) {
                Some(pairs) => self.map(pairs, depth),
                None => Ok(PrettyNode::Leaf(repr(value))),
            },
            _ => Ok(PrettyNode::Leaf(repr(value))),
        }
    }

    fn items(&mut self, value: &Value, depth: usize) -> Result<Vec<PrettyNode>, Error> {
        items_of(value)?.iter().map(|item| self.node(item, depth + 1)).collect()
    }

    fn map(&mut self, pairs: Vec<(Value, Value)>, depth: usize) -> Result<PrettyNode, Error> {
        let mut keyed = Vec::with_capacity(pairs.len());
        for (key, item) in pairs {
            let order = to_value(&key).unwrap_or(Data::Null);
            keyed.push((order, repr(&key), self.node(&item, depth + 1)?));
        }
        // Keys in Python's order; keys of different types are ordered by type name.
        zagent_config::sorted::sort_by(&mut keyed, |(a, ..), (b, ..)| {
            let by_type = (a.type_name(), a.kind()).cmp(&(b.type_name(), b.kind()));
            if by_type.is_eq() { a.py_cmp(b).unwrap_or(by_type) } else { by_type }
        });
        Ok(PrettyNode::Map(keyed.into_iter().map(|(_, key, item)| (key, item)).collect()))
    }
}

fn python_repr(text: &str) -> String {
    repr(&Value::from(text))
}

fn len(text: &str) -> usize {
    text.chars().count()
}

/// The value with its keys sorted on one line, unless it is longer than `most`.
fn one_line(node: &PrettyNode, most: usize) -> Option<String> {
    let mut out = String::new();
    add_flat(node, most, &mut out).then_some(out)
}

/// Appends until it is too long; returns whether it fitted.
fn add_flat(node: &PrettyNode, most: usize, out: &mut String) -> bool {
    match node {
        PrettyNode::Map(pairs) => {
            out.push('{');
            for (i, (key, item)) in pairs.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                out.push_str(key);
                out.push_str(": ");
                if !add_flat(item, most, out) {
                    return false;
                }
            }
            out.push('}');
        }
        PrettyNode::Items(open, items, close) => {
            out.push(*open);
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                if !add_flat(item, most, out) {
                    return false;
                }
            }
            close_items(items, *close, out);
        }
        PrettyNode::Text(text) => out.push_str(&python_repr(text)),
        PrettyNode::Leaf(text) => out.push_str(text),
    }
    len(out) <= most
}

/// The end of a list or tuple: a tuple of one keeps its comma.
fn close_items(items: &[PrettyNode], close: char, out: &mut String) {
    if close == ')' && items.len() == 1 {
        out.push(',');
    }
    out.push(close);
}

/// Writes with `indent` columns to the left and `allowance` characters to follow on the last line.
fn write(node: &PrettyNode, indent: usize, allowance: usize, out: &mut String) {
    if let Some(line) = one_line(node, WIDTH.saturating_sub(indent + allowance)) {
        out.push_str(&line);
        return;
    }
    match node {
        PrettyNode::Map(pairs) => {
            out.push('{');
            for (i, (key, item)) in pairs.iter().enumerate() {
                if i > 0 {
                    separate(indent + 1, out);
                }
                out.push_str(key);
                out.push_str(": ");
                let more = if i + 1 == pairs.len() { allowance + 1 } else { 1 };
                write(item, indent + 1 + len(key) + 2, more, out);
            }
            out.push('}');
        }
        PrettyNode::Items(open, items, close) => {
            out.push(*open);
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    separate(indent + 1, out);
                }
                let more = if i + 1 == items.len() { allowance + 1 } else { 1 };
                write(item, indent + 1, more, out);
            }
            close_items(items, *close, out);
        }
        PrettyNode::Text(text) => long_string(text, indent, allowance, out),
        PrettyNode::Leaf(text) => out.push_str(text),
    }
}

fn separate(indent: usize, out: &mut String) {
    out.push_str(",\n");
    out.push_str(&" ".repeat(indent));
}

/// A string that does not fit, in pieces that end after white space.
fn long_string(text: &str, indent: usize, allowance: usize, out: &mut String) {
    let is_outermost = indent == 0;
    let (indent, allowance) = if is_outermost { (1, allowance + 1) } else { (indent, allowance) };
    let mut pieces: Vec<String> = Vec::new();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let room = WIDTH.saturating_sub(indent).max(1);
    for (i, line) in lines.iter().enumerate() {
        let is_last = i + 1 == lines.len();
        let whole = python_repr(line);
        if len(&whole) <= room.saturating_sub(if is_last { allowance } else { 0 }) {
            pieces.push(whole);
            continue;
        }
        let words = split_words(line);
        let mut current = String::new();
        for (j, word) in words.iter().enumerate() {
            let candidate = format!("{current}{word}");
            let ends = is_last && j + 1 == words.len();
            let most = room.saturating_sub(if ends { allowance } else { 0 });
            if len(&python_repr(&candidate)) > most {
                if !current.is_empty() {
                    pieces.push(python_repr(&current));
                }
                current = word.clone();
            } else {
                current = candidate;
            }
        }
        if !current.is_empty() {
            pieces.push(python_repr(&current));
        }
    }
    if pieces.len() == 1 {
        out.push_str(&pieces[0]);
        return;
    }
    let joined = pieces.join(&format!("\n{}", " ".repeat(indent)));
    out.push_str(&if is_outermost { format!("({joined})") } else { joined });
}

/// Words with the white space after them.
fn split_words(line: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut current = String::new();
    let mut in_space = false;
    for c in line.chars() {
        if in_space && !c.is_whitespace() {
            out.push(std::mem::take(&mut current));
        }
        in_space = c.is_whitespace();
        current.push(c);
    }
    if !current.is_empty() {
        out.push(current);
    }
    out
}
