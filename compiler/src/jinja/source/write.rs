//! The text that minijinja parses, and how it grows: lines kept in step, places remembered, expressions.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::ast::{Args, Expr, FilterCall, Kind};

/// Methods that Python finds by subscript when no key has that name: `d['get']('x')`.
const METHODS: [&str; 22] = [
    "get",
    "items",
    "keys",
    "values",
    "update",
    "setdefault",
    "pop",
    "copy",
    "append",
    "extend",
    "insert",
    "index",
    "count",
    "sort",
    "remove",
    "format",
    "join",
    "split",
    "replace",
    "startswith",
    "endswith",
    "strip",
];

/// How tightly an expression holds together in minijinja's grammar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Condition,
    Or,
    And,
    Not,
    Compare,
    Filter,
    Postfix,
}

pub(super) struct Writer<'s> {
    pub(super) source: &'s str,
    pub(super) marks: Option<u32>,
    pub(super) text: String,
    pub(super) anchors: Vec<(u32, u32)>,
    pub(super) hidden: BTreeSet<String>,
    pub(super) operands: BTreeMap<u32, Vec<Option<String>>>,
    newlines: Vec<usize>,
    /// Lines of `text` so far.
    line: usize,
}

impl<'s> Writer<'s> {
    pub(super) fn new(source: &'s str, marks: Option<u32>) -> Self {
        Self {
            source,
            marks,
            text: String::with_capacity(source.len() + source.len() / 4 + 64),
            anchors: Vec::new(),
            hidden: BTreeSet::new(),
            operands: BTreeMap::new(),
            newlines: source.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i).collect(),
            line: 0,
        }
    }

    /// The line of a byte of the source, from zero.
    pub(super) fn line_of(&self, at: usize) -> usize {
        self.newlines.partition_point(|n| *n < at)
    }

    pub(super) fn put(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn anchor(&mut self, at: usize) {
        let out = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        self.anchors.push((out, u32::try_from(at).unwrap_or(u32::MAX)));
    }

    /// Inside a tag: goes down to the line of a byte of the source and remembers the place.
    pub(super) fn mark(&mut self, at: usize) {
        while self.line < self.line_of(at) {
            self.text.push('\n');
            self.line += 1;
        }
        self.anchor(at);
    }

    /// Between tags: the same, by a comment that holds nothing but the lines.
    pub(super) fn mark_outside(&mut self, at: usize) {
        if self.line < self.line_of(at) {
            self.put("{#");
            self.mark(at);
            self.put("#}");
        }
        self.anchor(at);
    }

    /// Text as it stands, so that minijinja sees no tag in it.
    pub(super) fn data(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut from = 0;
        for (i, b) in bytes.iter().enumerate() {
            if *b == b'{' && matches!(bytes.get(i + 1), None | Some(b'{' | b'%' | b'#')) {
                self.text.push_str(&text[from..i]);
                self.put("{{'{'}}");
                from = i + 1;
            }
        }
        self.text.push_str(&text[from..]);
        self.line += text.matches('\n').count();
    }

    fn string(&mut self, text: &str) {
        self.text.push('"');
        for c in text.chars() {
            match c {
                '"' => self.put("\\\""),
                '\\' => self.put("\\\\"),
                '\n' => self.put("\\n"),
                '\r' => self.put("\\r"),
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }

    /// Writes an expression, in parentheses when the place asks for something that holds tighter.
    pub(super) fn expr(&mut self, e: &Expr, least: Level) {
        let loose = level(&e.kind) < least;
        if loose {
            self.text.push('(');
        }
        self.bare(e);
        if loose {
            self.text.push(')');
        }
    }

    fn bare(&mut self, e: &Expr) {
        match &e.kind {
            Kind::Str(text) => {
                self.mark(e.at);
                self.string(text);
            }
            Kind::Number(digits) => {
                self.mark(e.at);
                self.put(digits);
            }
            Kind::True => self.word(e.at, "true"),
            Kind::False => self.word(e.at, "false"),
            Kind::None => self.word(e.at, "none"),
            Kind::Name(name) => self.word(e.at, &safe(name)),
            Kind::List(items) => {
                self.sequence(e.at, items, '[', ']');
                self.put("|_za_list");
            }
            Kind::Tuple(items) => {
                self.sequence(e.at, items, '[', ']');
                self.put("|_za_tuple");
            }
            Kind::Dict(items) => self.dict(e.at, items),
            Kind::Attribute(of, name) => self.attribute(of, e.at, name),
            Kind::Item(of, key) => {
                self.expr(of, Level::Postfix);
                self.mark(e.at);
                self.text.push('[');
                self.expr(key, Level::Condition);
                self.text.push(']');
            }
            Kind::Slice(of, parts) => self.slice(of, e.at, parts),
            Kind::Call(callee, args) => self.call(callee, args),
            Kind::Filter(of, filter) => {
                self.expr(of, Level::Filter);
                self.text.push('|');
                self.filter(filter);
            }
            Kind::Test { value, name, args, negated } => {
                self.expr(value, Level::Filter);
                self.put(if *negated { " is not " } else { " is " });
                self.word(e.at, name);
                self.args(args, "");
            }
            Kind::Not(of) => {
                self.word(e.at, "not ");
                self.expr(of, Level::Not);
            }
            Kind::Negative(of) => {
                self.word(e.at, "-");
                self.expr(of, Level::Postfix);
            }
            Kind::Positive(of) => {
                self.expr(of, Level::Filter);
                self.word(e.at, "|_za_positive");
            }
            Kind::Math(left, op, right) => self.operation(e.at, math(op), left, &[right]),
            Kind::Concat(items) => {
                if let Some((first, rest)) = items.split_first() {
                    let rest: Vec<&Expr> = rest.iter().collect();
                    self.operation(e.at, "_za_concat", first, &rest);
                }
            }
            Kind::Compare(first, rest) => self.compare(e.at, first, rest),
            Kind::And(left, right) => self.infix(left, e.at, " and ", right, Level::And),
            Kind::Or(left, right) => self.infix(left, e.at, " or ", right, Level::Or),
            Kind::Condition { test, yes, no } => self.condition(test, yes, no.as_deref()),
        }
    }

    fn condition(&mut self, test: &Expr, yes: &Expr, no: Option<&Expr>) {
        self.expr(yes, Level::Or);
        self.put(" if ");
        self.expr(test, Level::Or);
        if let Some(no) = no {
            self.put(" else ");
            self.expr(no, Level::Condition);
        }
    }

    fn slice(&mut self, of: &Expr, at: usize, parts: &[Option<Box<Expr>>; 3]) {
        self.expr(of, Level::Filter);
        self.mark(at);
        self.put("|_za_slice(");
        for part in parts {
            match part {
                Some(part) => self.expr(part, Level::Condition),
                None => self.put("none"),
            }
            self.text.push(',');
        }
        self.text.push(')');
    }

    fn word(&mut self, at: usize, word: &str) {
        self.mark(at);
        self.put(word);
    }

    fn infix(&mut self, left: &Expr, at: usize, op: &str, right: &Expr, level: Level) {
        self.expr(left, level);
        self.mark(at);
        self.put(op);
        // The right side of the same operator is grouped: both grammars go from left to right.
        self.expr(right, if level == Level::Or { Level::And } else { Level::Not });
    }

    pub(super) fn sequence(&mut self, at: usize, items: &[Expr], open: char, close: char) {
        self.mark(at);
        self.text.push(open);
        for item in items {
            self.expr(item, Level::Condition);
            self.text.push(',');
        }
        self.text.push(close);
    }

    /// Keys and values in turn: the engine's own dictionary hashes its keys without a limit.
    fn dict(&mut self, at: usize, items: &[(Expr, Expr)]) {
        self.mark(at);
        self.text.push('[');
        for (key, value) in items {
            self.expr(key, Level::Condition);
            self.text.push(',');
            self.expr(value, Level::Condition);
            self.text.push(',');
        }
        self.put("]|_za_dict");
    }

    fn attribute(&mut self, of: &Expr, at: usize, name: &str) {
        if is_of_number(of, name) {
            self.expr(of, Level::Filter);
            self.mark(at);
            self.put("|_za_part(");
            self.string(name);
            return self.text.push(')');
        }
        self.expr(of, Level::Postfix);
        self.mark(at);
        if name.is_ascii() {
            self.text.push('.');
            self.put(name);
        } else {
            self.text.push('[');
            self.string(name);
            self.text.push(']');
        }
    }

    fn call(&mut self, callee: &Expr, args: &Args) {
        if let Some((of, method)) = subscript_method(callee) {
            self.expr(of, Level::Filter);
            self.mark(callee.at);
            self.put("|_za_method");
            return self.args(args, method);
        }
        self.expr(callee, Level::Postfix);
        self.args(args, "");
    }

    /// Arguments in parentheses, after a first one that is a string when it is not empty.
    fn args(&mut self, args: &Args, first: &str) {
        self.text.push('(');
        if !first.is_empty() {
            self.string(first);
            self.text.push(',');
        }
        for arg in &args.positional {
            self.expr(arg, Level::Condition);
            self.text.push(',');
        }
        if let Some(rest) = &args.rest {
            self.text.push('*');
            self.expr(rest, Level::Condition);
            self.text.push(',');
        }
        for (name, value) in &args.named {
            self.put(name);
            self.text.push('=');
            self.expr(value, Level::Condition);
            self.text.push(',');
        }
        if let Some(rest) = &args.named_rest {
            self.put("**");
            self.expr(rest, Level::Condition);
        }
        self.text.push(')');
    }

    pub(super) fn filter(&mut self, filter: &FilterCall) {
        self.word(filter.at, &filter.name);
        self.args(&filter.args, "");
    }

    fn operation(&mut self, at: usize, name: &str, first: &Expr, rest: &[&Expr]) {
        let names = std::iter::once(first).chain(rest.iter().copied()).map(path).collect();
        self.operands.insert(u32::try_from(at).unwrap_or(u32::MAX), names);
        self.expr(first, Level::Filter);
        self.text.push('|');
        self.word(at, name);
        self.text.push('(');
        for item in rest {
            self.expr(item, Level::Condition);
            self.text.push(',');
        }
        self.text.push(')');
    }

    fn compare(&mut self, at: usize, first: &Expr, rest: &[(&'static str, Expr)]) {
        if let [(op, right)] = rest
            && let Some(name) = ordering(op)
        {
            return self.operation(at, name, first, &[right]);
        }
        self.expr(first, Level::Filter);
        for (op, right) in rest {
            let _ = write!(self.text, " {op} ");
            match &right.kind {
                // Nobody can change a list that is only looked into.
                Kind::List(items) | Kind::Tuple(items) if op.ends_with("in") => {
                    self.sequence(right.at, items, '[', ']');
                }
                _ => self.expr(right, Level::Filter),
            }
        }
    }
}

/// A variable's name as it is written: words of minijinja's grammar are plain names in Jinja2 where a name may stand.
pub(super) fn safe(name: &str) -> Cow<'_, str> {
    const WORDS: [&str; 8] = ["and", "else", "if", "in", "is", "not", "or", "recursive"];
    if WORDS.contains(&name) { format!("_za_name_{name}").into() } else { name.into() }
}

fn subscript_method(callee: &Expr) -> Option<(&Expr, &str)> {
    let Kind::Item(of, key) = &callee.kind else { return None };
    match &key.kind {
        Kind::Str(name) if METHODS.contains(&name.as_str()) => Some((of, name)),
        _ => None,
    }
}

/// The attributes of numbers, asked of something that is no variable: a variable's key of that name is far likelier.
fn is_of_number(of: &Expr, name: &str) -> bool {
    matches!(name, "real" | "imag" | "numerator" | "denominator") && path(of).is_none()
}

fn math(op: &str) -> &'static str {
    match op {
        "+" => "_za_add",
        "-" => "_za_sub",
        "*" => "_za_mul",
        "/" => "_za_div",
        "//" => "_za_floordiv",
        "%" => "_za_mod",
        _ => "_za_pow",
    }
}

fn ordering(op: &str) -> Option<&'static str> {
    Some(match op {
        "<" => "_za_lt",
        "<=" => "_za_le",
        ">" => "_za_gt",
        ">=" => "_za_ge",
        _ => return None,
    })
}

fn level(kind: &Kind) -> Level {
    match kind {
        Kind::Condition { .. } => Level::Condition,
        Kind::Or(..) => Level::Or,
        Kind::And(..) => Level::And,
        Kind::Not(_) => Level::Not,
        Kind::Compare(_, rest) if rest.len() == 1 && ordering(rest[0].0).is_some() => Level::Filter,
        Kind::Compare(..) => Level::Compare,
        Kind::Call(callee, _) if subscript_method(callee).is_some() => Level::Filter,
        Kind::Attribute(of, name) if is_of_number(of, name) => Level::Filter,
        Kind::Str(_)
        | Kind::True
        | Kind::False
        | Kind::None
        | Kind::Name(_)
        | Kind::Attribute(..)
        | Kind::Item(..)
        | Kind::Call(..) => Level::Postfix,
        Kind::Test { negated: true, .. } => Level::Not,
        _ => Level::Filter,
    }
}

/// An expression as a plain path (`pillar.nginx['x']`), when it is one.
pub(super) fn path(e: &Expr) -> Option<String> {
    match &e.kind {
        Kind::Name(name) => Some(name.clone()),
        Kind::Attribute(of, name) => Some(format!("{}.{name}", path(of)?)),
        Kind::Item(of, key) => match &key.kind {
            Kind::Str(key) => Some(format!("{}[{key:?}]", path(of)?)),
            Kind::Number(n) => Some(format!("{}[{n}]", path(of)?)),
            _ => None,
        },
        _ => None,
    }
}
