//! Writes the text that minijinja parses: keeps line numbers, records positions, writes expressions.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::ast::{AstArgs, AstExpr, ExprKind, FilterCall};

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

/// The precedence of an expression in minijinja's grammar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Precedence {
    Condition,
    Or,
    And,
    Not,
    Compare,
    Filter,
    Postfix,
}

pub(super) struct TemplateWriter<'s> {
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

impl<'s> TemplateWriter<'s> {
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

    pub(super) fn push_str(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn anchor(&mut self, at: usize) {
        let out = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        self.anchors.push((out, u32::try_from(at).unwrap_or(u32::MAX)));
    }

    /// Inside a tag: moves to the line of a source byte and records the position.
    pub(super) fn mark(&mut self, at: usize) {
        while self.line < self.line_of(at) {
            self.text.push('\n');
            self.line += 1;
        }
        self.anchor(at);
    }

    /// Between tags: the same, with a comment that contains only line ends.
    pub(super) fn mark_outside(&mut self, at: usize) {
        if self.line < self.line_of(at) {
            self.push_str("{#");
            self.mark(at);
            self.push_str("#}");
        }
        self.anchor(at);
    }

    /// Literal text, so that minijinja sees no tag in it.
    pub(super) fn literal_text(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut from = 0;
        for (i, b) in bytes.iter().enumerate() {
            if *b == b'{' && matches!(bytes.get(i + 1), None | Some(b'{' | b'%' | b'#')) {
                self.text.push_str(&text[from..i]);
                self.push_str("{{'{'}}");
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
                '"' => self.push_str("\\\""),
                '\\' => self.push_str("\\\\"),
                '\n' => self.push_str("\\n"),
                '\r' => self.push_str("\\r"),
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }

    /// Writes an expression, in parentheses when the context needs a higher precedence.
    pub(super) fn expr(&mut self, e: &AstExpr, least: Precedence) {
        let loose = precedence_of(&e.kind) < least;
        if loose {
            self.text.push('(');
        }
        self.expr_bare(e);
        if loose {
            self.text.push(')');
        }
    }

    fn expr_bare(&mut self, e: &AstExpr) {
        match &e.kind {
            ExprKind::Str(text) => {
                self.mark(e.at);
                self.string(text);
            }
            ExprKind::Number(digits) => {
                self.mark(e.at);
                self.push_str(digits);
            }
            ExprKind::True => self.keyword(e.at, "true"),
            ExprKind::False => self.keyword(e.at, "false"),
            ExprKind::None => self.keyword(e.at, "none"),
            ExprKind::Name(name) => self.keyword(e.at, &safe_name(name)),
            ExprKind::List(items) => {
                self.sequence(e.at, items, '[', ']');
                self.push_str("|_za_list");
            }
            ExprKind::Tuple(items) => {
                self.sequence(e.at, items, '[', ']');
                self.push_str("|_za_tuple");
            }
            ExprKind::Dict(items) => self.dict(e.at, items),
            ExprKind::Attribute(of, name) => self.attribute(of, e.at, name),
            ExprKind::Item(of, key) => {
                self.expr(of, Precedence::Postfix);
                self.mark(e.at);
                self.text.push('[');
                self.expr(key, Precedence::Condition);
                self.text.push(']');
            }
            ExprKind::Slice(of, parts) => self.slice(of, e.at, parts),
            ExprKind::Call(callee, args) => self.call(callee, args),
            ExprKind::Filter(of, filter) => {
                self.expr(of, Precedence::Filter);
                self.text.push('|');
                self.filter(filter);
            }
            ExprKind::Test { value, name, args, negated } => {
                self.expr(value, Precedence::Filter);
                self.push_str(if *negated { " is not " } else { " is " });
                self.keyword(e.at, name);
                self.args(args, "");
            }
            ExprKind::Not(of) => {
                self.keyword(e.at, "not ");
                self.expr(of, Precedence::Not);
            }
            ExprKind::Negative(of) => {
                self.keyword(e.at, "-");
                self.expr(of, Precedence::Postfix);
            }
            ExprKind::Positive(of) => {
                self.expr(of, Precedence::Filter);
                self.keyword(e.at, "|_za_positive");
            }
            ExprKind::Math(left, op, right) => self.operation(e.at, math_filter(op), left, &[right]),
            ExprKind::Concat(items) => {
                if let Some((first, rest)) = items.split_first() {
                    let rest: Vec<&AstExpr> = rest.iter().collect();
                    self.operation(e.at, "_za_concat", first, &rest);
                }
            }
            ExprKind::Compare(first, rest) => self.compare(e.at, first, rest),
            ExprKind::And(left, right) => self.infix(left, e.at, " and ", right, Precedence::And),
            ExprKind::Or(left, right) => self.infix(left, e.at, " or ", right, Precedence::Or),
            ExprKind::Condition { test, yes, no } => self.condition(test, yes, no.as_deref()),
        }
    }

    fn condition(&mut self, test: &AstExpr, yes: &AstExpr, no: Option<&AstExpr>) {
        self.expr(yes, Precedence::Or);
        self.push_str(" if ");
        self.expr(test, Precedence::Or);
        if let Some(no) = no {
            self.push_str(" else ");
            self.expr(no, Precedence::Condition);
        }
    }

    fn slice(&mut self, of: &AstExpr, at: usize, parts: &[Option<Box<AstExpr>>; 3]) {
        self.expr(of, Precedence::Filter);
        self.mark(at);
        self.push_str("|_za_slice(");
        for part in parts {
            match part {
                Some(part) => self.expr(part, Precedence::Condition),
                None => self.push_str("none"),
            }
            self.text.push(',');
        }
        self.text.push(')');
    }

    fn keyword(&mut self, at: usize, word: &str) {
        self.mark(at);
        self.push_str(word);
    }

    fn infix(&mut self, left: &AstExpr, at: usize, op: &str, right: &AstExpr, level: Precedence) {
        self.expr(left, level);
        self.mark(at);
        self.push_str(op);
        // The right side of the same operator is grouped: both grammars are left-associative.
        self.expr(right, if level == Precedence::Or { Precedence::And } else { Precedence::Not });
    }

    pub(super) fn sequence(&mut self, at: usize, items: &[AstExpr], open: char, close: char) {
        self.mark(at);
        self.text.push(open);
        for item in items {
            self.expr(item, Precedence::Condition);
            self.text.push(',');
        }
        self.text.push(close);
    }

    /// Alternating keys and values: the engine's own dictionary hashes its keys without a limit.
    fn dict(&mut self, at: usize, items: &[(AstExpr, AstExpr)]) {
        self.mark(at);
        self.text.push('[');
        for (key, value) in items {
            self.expr(key, Precedence::Condition);
            self.text.push(',');
            self.expr(value, Precedence::Condition);
            self.text.push(',');
        }
        self.push_str("]|_za_dict");
    }

    fn attribute(&mut self, of: &AstExpr, at: usize, name: &str) {
        if is_number_attribute(of, name) {
            self.expr(of, Precedence::Filter);
            self.mark(at);
            self.push_str("|_za_part(");
            self.string(name);
            return self.text.push(')');
        }
        self.expr(of, Precedence::Postfix);
        self.mark(at);
        if name.is_ascii() {
            self.text.push('.');
            self.push_str(name);
        } else {
            self.text.push('[');
            self.string(name);
            self.text.push(']');
        }
    }

    fn call(&mut self, callee: &AstExpr, args: &AstArgs) {
        if let Some((of, method)) = subscript_method(callee) {
            self.expr(of, Precedence::Filter);
            self.mark(callee.at);
            self.push_str("|_za_method");
            return self.args(args, method);
        }
        self.expr(callee, Precedence::Postfix);
        self.args(args, "");
    }

    /// Arguments in parentheses, after a first one that is a string when it is not empty.
    fn args(&mut self, args: &AstArgs, first: &str) {
        self.text.push('(');
        if !first.is_empty() {
            self.string(first);
            self.text.push(',');
        }
        for arg in &args.positional {
            self.expr(arg, Precedence::Condition);
            self.text.push(',');
        }
        if let Some(rest) = &args.rest {
            self.text.push('*');
            self.expr(rest, Precedence::Condition);
            self.text.push(',');
        }
        for (name, value) in &args.named {
            self.push_str(name);
            self.text.push('=');
            self.expr(value, Precedence::Condition);
            self.text.push(',');
        }
        if let Some(rest) = &args.named_rest {
            self.push_str("**");
            self.expr(rest, Precedence::Condition);
        }
        self.text.push(')');
    }

    pub(super) fn filter(&mut self, filter: &FilterCall) {
        self.keyword(filter.at, &filter.name);
        self.args(&filter.args, "");
    }

    fn operation(&mut self, at: usize, name: &str, first: &AstExpr, rest: &[&AstExpr]) {
        let names = std::iter::once(first).chain(rest.iter().copied()).map(expr_path).collect();
        self.operands.insert(u32::try_from(at).unwrap_or(u32::MAX), names);
        self.expr(first, Precedence::Filter);
        self.text.push('|');
        self.keyword(at, name);
        self.text.push('(');
        for item in rest {
            self.expr(item, Precedence::Condition);
            self.text.push(',');
        }
        self.text.push(')');
    }

    fn compare(&mut self, at: usize, first: &AstExpr, rest: &[(&'static str, AstExpr)]) {
        if let [(op, right)] = rest
            && let Some(name) = ordering_filter(op)
        {
            return self.operation(at, name, first, &[right]);
        }
        self.expr(first, Precedence::Filter);
        for (op, right) in rest {
            let _ = write!(self.text, " {op} ");
            match &right.kind {
                // A list that is only searched cannot be changed.
                ExprKind::List(items) | ExprKind::Tuple(items) if op.ends_with("in") => {
                    self.sequence(right.at, items, '[', ']');
                }
                _ => self.expr(right, Precedence::Filter),
            }
        }
    }
}

/// The written name of a variable: some keywords of minijinja are plain names in Jinja2.
pub(super) fn safe_name(name: &str) -> Cow<'_, str> {
    const WORDS: [&str; 8] = ["and", "else", "if", "in", "is", "not", "or", "recursive"];
    if WORDS.contains(&name) { format!("_za_name_{name}").into() } else { name.into() }
}

fn subscript_method(callee: &AstExpr) -> Option<(&AstExpr, &str)> {
    let ExprKind::Item(of, key) = &callee.kind else { return None };
    match &key.kind {
        ExprKind::Str(name) if METHODS.contains(&name.as_str()) => Some((of, name)),
        _ => None,
    }
}

/// The attributes of numbers, on something that is not a variable: on a variable, a key of that name is more likely.
fn is_number_attribute(of: &AstExpr, name: &str) -> bool {
    matches!(name, "real" | "imag" | "numerator" | "denominator") && expr_path(of).is_none()
}

fn math_filter(op: &str) -> &'static str {
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

fn ordering_filter(op: &str) -> Option<&'static str> {
    Some(match op {
        "<" => "_za_lt",
        "<=" => "_za_le",
        ">" => "_za_gt",
        ">=" => "_za_ge",
        _ => return None,
    })
}

fn precedence_of(kind: &ExprKind) -> Precedence {
    match kind {
        ExprKind::Condition { .. } => Precedence::Condition,
        ExprKind::Or(..) => Precedence::Or,
        ExprKind::And(..) => Precedence::And,
        ExprKind::Not(_) => Precedence::Not,
        ExprKind::Compare(_, rest) if rest.len() == 1 && ordering_filter(rest[0].0).is_some() => {
            Precedence::Filter
        }
        ExprKind::Compare(..) => Precedence::Compare,
        ExprKind::Call(callee, _) if subscript_method(callee).is_some() => Precedence::Filter,
        ExprKind::Attribute(of, name) if is_number_attribute(of, name) => Precedence::Filter,
        ExprKind::Str(_)
        | ExprKind::True
        | ExprKind::False
        | ExprKind::None
        | ExprKind::Name(_)
        | ExprKind::Attribute(..)
        | ExprKind::Item(..)
        | ExprKind::Call(..) => Precedence::Postfix,
        ExprKind::Test { negated: true, .. } => Precedence::Not,
        _ => Precedence::Filter,
    }
}

/// An expression as a plain path (`pillar.nginx['x']`), when it is one.
pub(super) fn expr_path(e: &AstExpr) -> Option<String> {
    match &e.kind {
        ExprKind::Name(name) => Some(name.clone()),
        ExprKind::Attribute(of, name) => Some(format!("{}.{name}", expr_path(of)?)),
        ExprKind::Item(of, key) => match &key.kind {
            ExprKind::Str(key) => Some(format!("{}[{key:?}]", expr_path(of)?)),
            ExprKind::Number(n) => Some(format!("{}[{n}]", expr_path(of)?)),
            _ => None,
        },
        _ => None,
    }
}
