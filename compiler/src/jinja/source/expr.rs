//! The expressions of a template, with Jinja2's precedence.

use super::ast::{AstArgs, AstExpr, ExprKind, FilterCall};
use super::lex::TokenKind;
use super::parse::TemplateParser;
use super::{NameUseKind, SyntaxError, SyntaxErrorKind};

/// Maximum operators, attributes or filters in a row: each is one level of the tree.
const MAX_CHAIN: usize = 400;

type ExprResult = Result<AstExpr, SyntaxError>;

fn expr(at: usize, kind: ExprKind) -> AstExpr {
    AstExpr { at, kind }
}

impl TemplateParser<'_> {
    pub(super) fn expr(&mut self) -> ExprResult {
        self.nested(Self::condition)
    }

    /// An expression, or several with commas between them: a tuple.
    pub(super) fn tuple(&mut self, conditions: bool, parenthesised: bool) -> ExprResult {
        let at = self.peek().start;
        let mut items = Vec::new();
        let mut many = false;
        loop {
            let ends = match self.peek().tok {
                TokenKind::VariableEnd | TokenKind::BlockEnd => true,
                TokenKind::Op(op) => op == ")",
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
        Ok(expr(at, ExprKind::Tuple(items)))
    }

    fn condition(&mut self) -> ExprResult {
        let first_use = self.uses.len();
        let mut yes = self.or()?;
        while self.at_word("if") {
            let at = self.next_token().start;
            // An inline condition makes the names in it late, those already read included.
            for seen in &mut self.uses[first_use..] {
                seen.soft = true;
            }
            let (test, no) = self.with_soft_names(true, |p| {
                let test = p.or()?;
                let no = if p.skip_word("else") { Some(Box::new(p.nested(Self::condition)?)) } else { None };
                Ok((test, no))
            })?;
            yes = expr(at, ExprKind::Condition { test: Box::new(test), yes: Box::new(yes), no });
        }
        Ok(yes)
    }

    /// Reads a word that adds one more link to a chain; each link is a level of the tree.
    fn chain_link(&mut self, links: &mut usize) -> Result<usize, SyntaxError> {
        let at = self.next_token().start;
        self.count_link(links, at)?;
        Ok(at)
    }

    fn count_link(&self, links: &mut usize, at: usize) -> Result<(), SyntaxError> {
        *links += 1;
        if *links > MAX_CHAIN {
            return Err(SyntaxError::new(SyntaxErrorKind::Depth, "this expression has too many parts", at));
        }
        Ok(())
    }

    fn or(&mut self) -> ExprResult {
        let mut left = self.and()?;
        let mut links = 0;
        while self.at_word("or") {
            let at = self.chain_link(&mut links)?;
            left = expr(at, ExprKind::Or(Box::new(left), Box::new(self.and()?)));
        }
        Ok(left)
    }

    fn and(&mut self) -> ExprResult {
        let mut left = self.not()?;
        let mut links = 0;
        while self.at_word("and") {
            let at = self.chain_link(&mut links)?;
            left = expr(at, ExprKind::And(Box::new(left), Box::new(self.not()?)));
        }
        Ok(left)
    }

    fn not(&mut self) -> ExprResult {
        if self.at_word("not") {
            let at = self.next_token().start;
            return Ok(expr(at, ExprKind::Not(Box::new(self.nested(Self::not)?))));
        }
        self.compare()
    }

    fn comparison(&mut self) -> Option<&'static str> {
        if let TokenKind::Op(op) = self.peek().tok
            && matches!(op, "==" | "!=" | "<" | "<=" | ">" | ">=")
        {
            self.next_token();
            return Some(op);
        }
        if self.skip_word("in") {
            return Some("in");
        }
        if self.at_word("not") && self.second_is_word("in") {
            self.next_token();
            self.next_token();
            return Some("not in");
        }
        None
    }

    fn compare(&mut self) -> ExprResult {
        let first = self.sum()?;
        let at = self.peek().start;
        let mut rest = Vec::new();
        let mut links = 0;
        while let Some(op) = self.comparison() {
            self.count_link(&mut links, at)?;
            rest.push((op, self.sum()?));
        }
        Ok(if rest.is_empty() { first } else { expr(at, ExprKind::Compare(Box::new(first), rest)) })
    }

    fn operator(&mut self, ops: &[&str]) -> Option<(usize, &'static str)> {
        match self.peek().tok {
            TokenKind::Op(op) if ops.contains(&op) => Some((self.next_token().start, op)),
            _ => None,
        }
    }

    fn sum(&mut self) -> ExprResult {
        let mut left = self.concat()?;
        let mut links = 0;
        while let Some((at, op)) = self.operator(&["+", "-"]) {
            self.count_link(&mut links, at)?;
            left = expr(at, ExprKind::Math(Box::new(left), op, Box::new(self.concat()?)));
        }
        Ok(left)
    }

    fn concat(&mut self) -> ExprResult {
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
        Ok(expr(at, ExprKind::Concat(items)))
    }

    fn product(&mut self) -> ExprResult {
        let mut left = self.power()?;
        let mut links = 0;
        while let Some((at, op)) = self.operator(&["*", "/", "//", "%"]) {
            self.count_link(&mut links, at)?;
            left = expr(at, ExprKind::Math(Box::new(left), op, Box::new(self.power()?)));
        }
        Ok(left)
    }

    fn power(&mut self) -> ExprResult {
        let mut left = self.unary(true)?;
        let mut links = 0;
        while let Some((at, op)) = self.operator(&["**"]) {
            self.count_link(&mut links, at)?;
            left = expr(at, ExprKind::Math(Box::new(left), op, Box::new(self.unary(true)?)));
        }
        Ok(left)
    }

    fn unary(&mut self, filtered: bool) -> ExprResult {
        let node = if let Some((at, op)) = self.operator(&["+", "-"]) {
            let operand = Box::new(self.nested(|p| p.unary(false))?);
            expr(at, if op == "-" { ExprKind::Negative(operand) } else { ExprKind::Positive(operand) })
        } else {
            self.primary()?
        };
        let node = self.postfix(node)?;
        if filtered { self.filtered(node) } else { Ok(node) }
    }

    fn primary(&mut self) -> ExprResult {
        let token = self.peek().clone();
        let at = token.start;
        let kind = match token.tok {
            TokenKind::Name => match self.text(&token) {
                "true" | "True" => {
                    self.next_token();
                    ExprKind::True
                }
                "false" | "False" => {
                    self.next_token();
                    ExprKind::False
                }
                "none" | "None" => {
                    self.next_token();
                    ExprKind::None
                }
                _ => {
                    let name = self.name()?;
                    self.count_special(&name);
                    ExprKind::Name(name)
                }
            },
            TokenKind::Str(mut text) => {
                self.next_token();
                while let TokenKind::Str(more) = &self.peek().tok {
                    text.push_str(more);
                    self.next_token();
                }
                ExprKind::Str(text)
            }
            TokenKind::Int => {
                self.next_token();
                ExprKind::Number(integer(self.text(&token)).ok_or_else(|| {
                    SyntaxError::new(SyntaxErrorKind::Syntax, "this number is too large", at)
                })?)
            }
            TokenKind::Float => {
                self.next_token();
                ExprKind::Number(self.text(&token).replace('_', ""))
            }
            TokenKind::Op("(") => {
                self.next_token();
                let inner = self.nested(|p| p.tuple(true, true))?;
                self.expect_op(")")?;
                return Ok(inner);
            }
            TokenKind::Op("[") => ExprKind::List(self.list()?),
            TokenKind::Op("{") => ExprKind::Dict(self.dict()?),
            _ => return Err(self.unexpected("an expression")),
        };
        Ok(expr(at, kind))
    }

    fn list(&mut self) -> Result<Vec<AstExpr>, SyntaxError> {
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

    fn dict(&mut self) -> Result<Vec<(AstExpr, AstExpr)>, SyntaxError> {
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

    fn postfix(&mut self, mut node: AstExpr) -> ExprResult {
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

    fn call(&mut self, callee: AstExpr) -> ExprResult {
        let at = callee.at;
        let args = self.args()?;
        Ok(expr(at, ExprKind::Call(Box::new(callee), args)))
    }

    fn filtered(&mut self, mut node: AstExpr) -> ExprResult {
        let mut links = 0;
        loop {
            self.count_link(&mut links, node.at)?;
            if self.at_op("|") {
                self.next_token();
                let filter = self.filter()?;
                node = expr(filter.at, ExprKind::Filter(Box::new(node), filter));
            } else if self.at_word("is") {
                node = self.test(node)?;
            } else if self.at_op("(") {
                node = self.call(node)?;
            } else {
                return Ok(node);
            }
        }
    }

    fn subscript(&mut self, node: AstExpr) -> ExprResult {
        let token = self.next_token();
        if token.tok == TokenKind::Op(".") {
            let key = self.next_token();
            let at = key.start;
            return match key.tok {
                TokenKind::Name => {
                    Ok(expr(at, ExprKind::Attribute(Box::new(node), self.text(&key).to_owned())))
                }
                TokenKind::Int => {
                    let index = integer(self.text(&key)).unwrap_or_else(|| "0".into());
                    Ok(expr(at, ExprKind::Item(Box::new(node), Box::new(expr(at, ExprKind::Number(index))))))
                }
                _ => Err(SyntaxError::new(
                    SyntaxErrorKind::Syntax,
                    "expected a name or a number after the dot",
                    at,
                )),
            };
        }
        let mut keys = Vec::new();
        while !self.at_op("]") {
            if !keys.is_empty() {
                self.expect_op(",")?;
            }
            match self.subscript_index()? {
                Subscript::Key(key) => keys.push(key),
                Subscript::Slice(parts) => {
                    // Only the whole of a subscript can be a slice: no value accepts a tuple of slices.
                    if !keys.is_empty() || !self.at_op("]") {
                        return Err(self.unexpected("`]`"));
                    }
                    self.next_token();
                    return Ok(expr(token.start, ExprKind::Slice(Box::new(node), parts)));
                }
            }
        }
        self.expect_op("]")?;
        let many = keys.len() != 1;
        let key = match keys.pop() {
            Some(key) if !many => key,
            last => {
                keys.extend(last);
                expr(token.start, ExprKind::Tuple(keys))
            }
        };
        Ok(expr(token.start, ExprKind::Item(Box::new(node), Box::new(key))))
    }

    fn subscript_index(&mut self) -> Result<Subscript, SyntaxError> {
        let start = if self.at_op(":") { None } else { Some(self.expr()?) };
        if !self.at_op(":") {
            return match start {
                Some(key) => Ok(Subscript::Key(key)),
                None => Err(self.unexpected("an expression")),
            };
        }
        self.next_token();
        let ends = |p: &Self| p.at_op("]") || p.at_op(",");
        let stop = if self.at_op(":") || ends(self) { None } else { Some(self.expr()?) };
        let step = if self.skip_op(":") && !ends(self) { Some(self.expr()?) } else { None };
        Ok(Subscript::Slice([start.map(Box::new), stop.map(Box::new), step.map(Box::new)]))
    }

    fn args(&mut self) -> Result<AstArgs, SyntaxError> {
        let at = self.expect_op("(")?.start;
        let invalid = || {
            SyntaxError::new(SyntaxErrorKind::Syntax, "these arguments are in the wrong order", at)
                .hint("write positional arguments first, then named ones, then `*list`, then `**mapping`")
        };
        let mut args = AstArgs::default();
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
            } else if self.peek().tok == TokenKind::Name && self.second_is_op("=") {
                if args.named_rest.is_some() {
                    return Err(invalid());
                }
                let name = self.name()?;
                self.next_token();
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
    fn dotted(&mut self) -> Result<(usize, String), SyntaxError> {
        let at = self.peek().start;
        let mut name = self.name()?;
        while self.skip_op(".") {
            name.push('.');
            name.push_str(&self.name()?);
        }
        Ok((at, name))
    }

    fn filter(&mut self) -> Result<FilterCall, SyntaxError> {
        let (at, name) = self.dotted()?;
        self.note_use(NameUseKind::Filter, &name, at);
        let args = if self.at_op("(") { self.args()? } else { AstArgs::default() };
        Ok(FilterCall { at, name, args })
    }

    /// A chain of filters; `inline` starts without a bar.
    pub(super) fn filters(&mut self, inline: bool) -> Result<Vec<FilterCall>, SyntaxError> {
        let mut filters = Vec::new();
        if inline {
            filters.push(self.filter()?);
        }
        while self.skip_op("|") {
            filters.push(self.filter()?);
        }
        Ok(filters)
    }

    fn test(&mut self, value: AstExpr) -> ExprResult {
        self.next_token();
        let negated = self.skip_word("not");
        let (at, name) = self.dotted()?;
        self.note_use(NameUseKind::Test, &name, at);
        let mut args = AstArgs::default();
        if self.at_op("(") {
            args = self.args()?;
        } else {
            let starts = match self.peek().tok {
                TokenKind::Name => !["else", "or", "and"].iter().any(|w| self.at_word(w)),
                TokenKind::Str(_) | TokenKind::Int | TokenKind::Float => true,
                TokenKind::Op(op) => matches!(op, "[" | "{"),
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
        Ok(expr(at, ExprKind::Test { value: Box::new(value), name, args, negated }))
    }
}

enum Subscript {
    Key(AstExpr),
    Slice([Option<Box<AstExpr>>; 3]),
}

/// An integer's digits in the way minijinja reads them; `None` when it does not fit in 128 bits.
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
