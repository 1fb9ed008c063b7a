//! The expressions of a template, with Jinja2's precedence.

use super::ast::{Args, Expr, FilterCall, Kind};
use super::lex::Tok;
use super::parse::Parser;
use super::{Problem, ProblemKind, UseKind};

/// How many operators, attributes or filters may stand in a row: each is a level for whoever walks the tree.
const CHAIN: usize = 400;

type Parsed = Result<Expr, Problem>;

fn expr(at: usize, kind: Kind) -> Expr {
    Expr { at, kind }
}

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Parsed {
        self.nested(Self::condition)
    }

    /// An expression, or several with commas between them: a tuple.
    pub(super) fn tuple(&mut self, conditions: bool, parenthesised: bool) -> Parsed {
        let at = self.peek().start;
        let mut items = Vec::new();
        let mut many = false;
        loop {
            let ends = match self.peek().tok {
                Tok::VariableEnd | Tok::BlockEnd => true,
                Tok::Op(op) => op == ")",
                _ => many && self.at_word("recursive"),
            };
            if ends {
                break;
            }
            items.push(if conditions { self.expr()? } else { self.nested(Self::or)? });
            if !self.skip_op(",") {
                break;
            }
            many = true;
        }
        if !many {
            if let Some(only) = items.pop() {
                return Ok(only);
            }
            if !parenthesised {
                return Err(self.unexpected("an expression"));
            }
        }
        Ok(expr(at, Kind::Tuple(items)))
    }

    fn condition(&mut self) -> Parsed {
        let first_use = self.uses.len();
        let mut yes = self.or()?;
        while self.at_word("if") {
            let at = self.take().start;
            // An inline condition makes the names in it late, those already read included.
            for seen in &mut self.uses[first_use..] {
                seen.soft = true;
            }
            let (test, no) = self.softly(true, |p| {
                let test = p.or()?;
                let no = if p.skip_word("else") { Some(Box::new(p.nested(Self::condition)?)) } else { None };
                Ok((test, no))
            })?;
            yes = expr(at, Kind::Condition { test: Box::new(test), yes: Box::new(yes), no });
        }
        Ok(yes)
    }

    /// Takes a word that joins one more link to a chain, each of which is a level of the tree.
    fn link(&mut self, links: &mut usize) -> Result<usize, Problem> {
        let at = self.take().start;
        self.count_link(links, at)?;
        Ok(at)
    }

    fn count_link(&self, links: &mut usize, at: usize) -> Result<(), Problem> {
        *links += 1;
        if *links > CHAIN {
            return Err(Problem::new(ProblemKind::Depth, "this expression has too many parts", at));
        }
        Ok(())
    }

    fn or(&mut self) -> Parsed {
        let mut left = self.and()?;
        let mut links = 0;
        while self.at_word("or") {
            let at = self.link(&mut links)?;
            left = expr(at, Kind::Or(Box::new(left), Box::new(self.and()?)));
        }
        Ok(left)
    }

    fn and(&mut self) -> Parsed {
        let mut left = self.not()?;
        let mut links = 0;
        while self.at_word("and") {
            let at = self.link(&mut links)?;
            left = expr(at, Kind::And(Box::new(left), Box::new(self.not()?)));
        }
        Ok(left)
    }

    fn not(&mut self) -> Parsed {
        if self.at_word("not") {
            let at = self.take().start;
            return Ok(expr(at, Kind::Not(Box::new(self.nested(Self::not)?))));
        }
        self.compare()
    }

    fn comparison(&mut self) -> Option<&'static str> {
        if let Tok::Op(op) = self.peek().tok
            && matches!(op, "==" | "!=" | "<" | "<=" | ">" | ">=")
        {
            self.take();
            return Some(op);
        }
        if self.skip_word("in") {
            return Some("in");
        }
        if self.at_word("not") && self.second_is_word("in") {
            self.take();
            self.take();
            return Some("not in");
        }
        None
    }

    fn compare(&mut self) -> Parsed {
        let first = self.sum()?;
        let at = self.peek().start;
        let mut rest = Vec::new();
        let mut links = 0;
        while let Some(op) = self.comparison() {
            self.count_link(&mut links, at)?;
            rest.push((op, self.sum()?));
        }
        Ok(if rest.is_empty() { first } else { expr(at, Kind::Compare(Box::new(first), rest)) })
    }

    fn operator(&mut self, ops: &[&str]) -> Option<(usize, &'static str)> {
        match self.peek().tok {
            Tok::Op(op) if ops.contains(&op) => Some((self.take().start, op)),
            _ => None,
        }
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.concat()?;
        let mut links = 0;
        while let Some((at, op)) = self.operator(&["+", "-"]) {
            self.count_link(&mut links, at)?;
            left = expr(at, Kind::Math(Box::new(left), op, Box::new(self.concat()?)));
        }
        Ok(left)
    }

    fn concat(&mut self) -> Parsed {
        let first = self.product()?;
        if !self.at_op("~") {
            return Ok(first);
        }
        let at = self.peek().start;
        let mut items = vec![first];
        let mut links = 0;
        while self.skip_op("~") {
            self.count_link(&mut links, at)?;
            items.push(self.product()?);
        }
        Ok(expr(at, Kind::Concat(items)))
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.power()?;
        let mut links = 0;
        while let Some((at, op)) = self.operator(&["*", "/", "//", "%"]) {
            self.count_link(&mut links, at)?;
            left = expr(at, Kind::Math(Box::new(left), op, Box::new(self.power()?)));
        }
        Ok(left)
    }

    fn power(&mut self) -> Parsed {
        let mut left = self.unary(true)?;
        let mut links = 0;
        while let Some((at, op)) = self.operator(&["**"]) {
            self.count_link(&mut links, at)?;
            left = expr(at, Kind::Math(Box::new(left), op, Box::new(self.unary(true)?)));
        }
        Ok(left)
    }

    fn unary(&mut self, filtered: bool) -> Parsed {
        let node = if let Some((at, op)) = self.operator(&["+", "-"]) {
            let operand = Box::new(self.nested(|p| p.unary(false))?);
            expr(at, if op == "-" { Kind::Negative(operand) } else { Kind::Positive(operand) })
        } else {
            self.primary()?
        };
        let node = self.postfix(node)?;
        if filtered { self.filtered(node) } else { Ok(node) }
    }

    fn primary(&mut self) -> Parsed {
        let token = self.peek().clone();
        let at = token.start;
        let kind = match token.tok {
            Tok::Name => match self.text(&token) {
                "true" | "True" => {
                    self.take();
                    Kind::True
                }
                "false" | "False" => {
                    self.take();
                    Kind::False
                }
                "none" | "None" => {
                    self.take();
                    Kind::None
                }
                _ => {
                    let name = self.name()?;
                    self.count_special(&name);
                    Kind::Name(name)
                }
            },
            Tok::Str(mut text) => {
                self.take();
                while let Tok::Str(more) = &self.peek().tok {
                    text.push_str(more);
                    self.take();
                }
                Kind::Str(text)
            }
            Tok::Int => {
                self.take();
                Kind::Number(
                    integer(self.text(&token))
                        .ok_or_else(|| Problem::new(ProblemKind::Syntax, "this number is too large", at))?,
                )
            }
            Tok::Float => {
                self.take();
                Kind::Number(self.text(&token).replace('_', ""))
            }
            Tok::Op("(") => {
                self.take();
                let inner = self.nested(|p| p.tuple(true, true))?;
                self.expect_op(")")?;
                return Ok(inner);
            }
            Tok::Op("[") => Kind::List(self.list()?),
            Tok::Op("{") => Kind::Dict(self.dict()?),
            _ => return Err(self.unexpected("an expression")),
        };
        Ok(expr(at, kind))
    }

    fn list(&mut self) -> Result<Vec<Expr>, Problem> {
        self.expect_op("[")?;
        let mut items = Vec::new();
        while !self.at_op("]") {
            if !items.is_empty() {
                self.expect_op(",")?;
                if self.at_op("]") {
                    break;
                }
            }
            items.push(self.expr()?);
        }
        self.expect_op("]")?;
        Ok(items)
    }

    fn dict(&mut self) -> Result<Vec<(Expr, Expr)>, Problem> {
        self.expect_op("{")?;
        let mut items = Vec::new();
        while !self.at_op("}") {
            if !items.is_empty() {
                self.expect_op(",")?;
                if self.at_op("}") {
                    break;
                }
            }
            let key = self.expr()?;
            self.expect_op(":")?;
            items.push((key, self.expr()?));
        }
        self.expect_op("}")?;
        Ok(items)
    }

    fn postfix(&mut self, mut node: Expr) -> Parsed {
        let mut links = 0;
        loop {
            self.count_link(&mut links, node.at)?;
            if self.at_op(".") || self.at_op("[") {
                node = self.subscript(node)?;
            } else if self.at_op("(") {
                node = self.call(node)?;
            } else {
                return Ok(node);
            }
        }
    }

    fn call(&mut self, callee: Expr) -> Parsed {
        let at = callee.at;
        let args = self.args()?;
        Ok(expr(at, Kind::Call(Box::new(callee), args)))
    }

    fn filtered(&mut self, mut node: Expr) -> Parsed {
        let mut links = 0;
        loop {
            self.count_link(&mut links, node.at)?;
            if self.at_op("|") {
                self.take();
                let filter = self.filter()?;
                node = expr(filter.at, Kind::Filter(Box::new(node), filter));
            } else if self.at_word("is") {
                node = self.test(node)?;
            } else if self.at_op("(") {
                node = self.call(node)?;
            } else {
                return Ok(node);
            }
        }
    }

    fn subscript(&mut self, node: Expr) -> Parsed {
        let token = self.take();
        if token.tok == Tok::Op(".") {
            let key = self.take();
            let at = key.start;
            return match key.tok {
                Tok::Name => Ok(expr(at, Kind::Attribute(Box::new(node), self.text(&key).to_owned()))),
                Tok::Int => {
                    let index = integer(self.text(&key)).unwrap_or_else(|| "0".into());
                    Ok(expr(at, Kind::Item(Box::new(node), Box::new(expr(at, Kind::Number(index))))))
                }
                _ => Err(Problem::new(ProblemKind::Syntax, "expected a name or a number after the dot", at)),
            };
        }
        let mut keys = Vec::new();
        while !self.at_op("]") {
            if !keys.is_empty() {
                self.expect_op(",")?;
            }
            match self.subscribed()? {
                Subscript::Key(key) => keys.push(key),
                Subscript::Slice(parts) => {
                    // Only the whole of a subscript can be a slice: no value takes a tuple of slices.
                    if !keys.is_empty() || !self.at_op("]") {
                        return Err(self.unexpected("`]`"));
                    }
                    self.take();
                    return Ok(expr(token.start, Kind::Slice(Box::new(node), parts)));
                }
            }
        }
        self.expect_op("]")?;
        let many = keys.len() != 1;
        let key = match keys.pop() {
            Some(key) if !many => key,
            last => {
                keys.extend(last);
                expr(token.start, Kind::Tuple(keys))
            }
        };
        Ok(expr(token.start, Kind::Item(Box::new(node), Box::new(key))))
    }

    fn subscribed(&mut self) -> Result<Subscript, Problem> {
        let start = if self.at_op(":") { None } else { Some(self.expr()?) };
        if !self.at_op(":") {
            return match start {
                Some(key) => Ok(Subscript::Key(key)),
                None => Err(self.unexpected("an expression")),
            };
        }
        self.take();
        let ends = |p: &Self| p.at_op("]") || p.at_op(",");
        let stop = if self.at_op(":") || ends(self) { None } else { Some(self.expr()?) };
        let step = if self.skip_op(":") && !ends(self) { Some(self.expr()?) } else { None };
        Ok(Subscript::Slice([start.map(Box::new), stop.map(Box::new), step.map(Box::new)]))
    }

    fn args(&mut self) -> Result<Args, Problem> {
        let at = self.expect_op("(")?.start;
        let invalid = || {
            Problem::new(ProblemKind::Syntax, "these arguments are in the wrong order", at)
                .hint("first positional ones, then named ones, then `*list`, then `**mapping`")
        };
        let mut args = Args::default();
        let mut first = true;
        while !self.at_op(")") {
            if !first {
                self.expect_op(",")?;
                if self.at_op(")") {
                    break;
                }
            }
            first = false;
            if self.skip_op("*") {
                if args.rest.is_some() || args.named_rest.is_some() {
                    return Err(invalid());
                }
                args.rest = Some(Box::new(self.expr()?));
            } else if self.skip_op("**") {
                if args.named_rest.is_some() {
                    return Err(invalid());
                }
                args.named_rest = Some(Box::new(self.expr()?));
            } else if self.peek().tok == Tok::Name && self.second_is_op("=") {
                if args.named_rest.is_some() {
                    return Err(invalid());
                }
                let name = self.name()?;
                self.take();
                args.named.push((name, self.expr()?));
            } else {
                if args.rest.is_some() || args.named_rest.is_some() || !args.named.is_empty() {
                    return Err(invalid());
                }
                args.positional.push(self.expr()?);
            }
        }
        self.expect_op(")")?;
        Ok(args)
    }

    /// `name` or `name.name`, as filters and tests may be called.
    fn dotted(&mut self) -> Result<(usize, String), Problem> {
        let at = self.peek().start;
        let mut name = self.name()?;
        while self.skip_op(".") {
            name.push('.');
            name.push_str(&self.name()?);
        }
        Ok((at, name))
    }

    fn filter(&mut self) -> Result<FilterCall, Problem> {
        let (at, name) = self.dotted()?;
        self.note(UseKind::Filter, &name, at);
        let args = if self.at_op("(") { self.args()? } else { Args::default() };
        Ok(FilterCall { at, name, args })
    }

    /// A chain of filters; `inline` starts without a bar.
    pub(super) fn filters(&mut self, inline: bool) -> Result<Vec<FilterCall>, Problem> {
        let mut filters = Vec::new();
        if inline {
            filters.push(self.filter()?);
        }
        while self.skip_op("|") {
            filters.push(self.filter()?);
        }
        Ok(filters)
    }

    fn test(&mut self, value: Expr) -> Parsed {
        self.take();
        let negated = self.skip_word("not");
        let (at, name) = self.dotted()?;
        self.note(UseKind::Test, &name, at);
        let mut args = Args::default();
        if self.at_op("(") {
            args = self.args()?;
        } else {
            let starts = match self.peek().tok {
                Tok::Name => !["else", "or", "and"].iter().any(|w| self.at_word(w)),
                Tok::Str(_) | Tok::Int | Tok::Float => true,
                Tok::Op(op) => matches!(op, "[" | "{"),
                _ => false,
            };
            if self.at_word("is") {
                return Err(self.unexpected("an operator").hint("tests cannot be chained with `is`"));
            }
            if starts {
                let arg = self.primary()?;
                args.positional.push(self.postfix(arg)?);
            }
        }
        Ok(expr(at, Kind::Test { value: Box::new(value), name, args, negated }))
    }
}

enum Subscript {
    Key(Expr),
    Slice([Option<Box<Expr>>; 3]),
}

/// An integer's digits in the way minijinja reads them; `None` when no 128 bits hold it.
fn integer(text: &str) -> Option<String> {
    let digits = text.replace('_', "").to_ascii_lowercase();
    let number = match digits.get(..2) {
        Some("0x") => u128::from_str_radix(&digits[2..], 16),
        Some("0o") => u128::from_str_radix(&digits[2..], 8),
        Some("0b") => u128::from_str_radix(&digits[2..], 2),
        _ => digits.parse(),
    };
    number.ok().map(|n| n.to_string())
}
