//! Words in, a tree out: `or` binds weakest, then `and`, then `not`, as in Python.

use super::TargetError;
use super::atom::TargetAtom;
use super::expr::Expr;
use crate::codes::top;

/// Maximum nesting of parentheses.
const MAX_DEPTH: usize = 100;

/// A word of a compound target and where it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TargetToken {
    /// The word.
    pub(super) text: String,
    /// Its column in characters, from 1; zero for a word of a group.
    pub(super) column: u32,
}

impl TargetToken {
    /// The name after `N@`.
    pub(super) fn group(&self) -> Option<&str> {
        self.text.strip_prefix("N@").filter(|name| !name.is_empty())
    }

    /// Rejects a word that cannot match any reported node.
    pub(super) fn check_reportable(&self) -> Result<(), TargetError> {
        let fault = |message: &str, hint: &str| {
            let message = format!("`{}`: {message}", self.text);
            Err(TargetError::new(top::TARGET_SYNTAX, message, self.column).with_hint(hint))
        };
        let count = |c| self.text.matches(c).count();
        let opens = self.text.starts_with('(') && self.text != "(";
        if opens || (self.text.ends_with(')') && self.text != ")" && count(')') > count('(')) {
            return fault(
                "no space between the parenthesis and the word",
                "put spaces around parentheses: `not ( a or b )`",
            );
        }
        let mut chars = self.text.chars();
        let letter = chars.next().filter(|_| chars.as_str().starts_with('@'));
        match letter.or_else(|| TargetAtom::pillar_letter(&self.text)) {
            Some('I' | 'J') => fault(
                "node reports do not contain pillar",
                "match facts instead, such as `G@role:db`, and list them in `rollout.facts`",
            ),
            Some(letter) if !TargetAtom::has_letter(letter) => {
                fault("unknown matcher letter", "use one of G, P, L, S and E")
            }
            _ => Ok(()),
        }
    }

    pub(super) fn names_group(&self) -> bool {
        self.group().is_some()
    }
}

/// The result: a tree unless the order of words is wrong, and every error.
pub(super) struct ParsedTarget {
    pub(super) expr: Option<Expr>,
    pub(super) errors: Vec<TargetError>,
}

/// Splits a text into words as Python's `str.split()` does.
pub(super) fn tokenize(text: &str) -> Vec<TargetToken> {
    let mut words: Vec<TargetToken> = Vec::new();
    let mut inside = false;
    for (column, c) in (1..).zip(text.chars()) {
        if c.is_whitespace() || ('\x1c'..='\x1f').contains(&c) {
            inside = false;
            continue;
        }
        match words.last_mut() {
            Some(word) if inside => word.text.push(c),
            _ => words.push(TargetToken { text: c.into(), column }),
        }
        inside = true;
    }
    words
}

/// Builds the tree.
pub(super) fn parse(words: &[TargetToken]) -> ParsedTarget {
    let mut parser = TargetParser { tokens: words, at: 0, depth: 0, errors: Vec::new() };
    let expr = match parser.parse_target() {
        Ok(expr) => Some(expr),
        Err(fault) => {
            parser.errors.push(fault);
            None
        }
    };
    ParsedTarget { expr, errors: parser.errors }
}

struct TargetParser<'w> {
    tokens: &'w [TargetToken],
    at: usize,
    depth: usize,
    errors: Vec<TargetError>,
}

impl<'w> TargetParser<'w> {
    fn peek(&self) -> Option<&'w str> {
        self.tokens.get(self.at).map(|w| w.text.as_str())
    }

    /// An error at the next word, or after the last one.
    fn error_here(&self, message: impl Into<String>) -> TargetError {
        let column = match (self.tokens.get(self.at), self.tokens.last()) {
            (Some(word), _) => word.column,
            (None, Some(last)) if last.column > 0 => {
                last.column + u32::try_from(last.text.chars().count()).unwrap_or(0)
            }
            _ => 0,
        };
        TargetError::new(top::TARGET_SYNTAX, message, column)
    }

    fn parse_target(&mut self) -> Result<Expr, TargetError> {
        if self.tokens.is_empty() {
            return Err(self.error_here("the target is empty"));
        }
        let expr = self.parse_or()?;
        match self.peek() {
            None => Ok(expr),
            Some(")") => Err(self.error_here("this `)` closes nothing")),
            Some("(") => Err(self.error_here("an operator is missing before `(`").with_hint(OPERATOR_HINT)),
            Some(word) => Err(self
                .error_here(format!("an operator is missing before `{word}`"))
                .with_hint(OPERATOR_HINT)),
        }
    }

    fn parse_or(&mut self) -> Result<Expr, TargetError> {
        let mut parts = vec![self.parse_and()?];
        while self.peek() == Some("or") {
            self.at += 1;
            parts.push(self.parse_and()?);
        }
        Ok(collapse_single(parts, Expr::Any))
    }

    fn parse_and(&mut self) -> Result<Expr, TargetError> {
        let mut parts = vec![self.parse_not()?];
        loop {
            match self.peek() {
                Some("and") => self.at += 1,
                // `a not b` is `a and not b`.
                Some("not") => {}
                _ => return Ok(collapse_single(parts, Expr::All)),
            }
            parts.push(self.parse_not()?);
        }
    }

    fn parse_not(&mut self) -> Result<Expr, TargetError> {
        if self.peek() != Some("not") {
            return self.parse_operand();
        }
        self.at += 1;
        if self.peek() == Some("not") {
            return Err(self
                .error_here("`not` after `not`")
                .with_hint("they cancel each other out: remove both"));
        }
        Ok(Expr::Not(Box::new(self.parse_operand()?)))
    }

    fn parse_operand(&mut self) -> Result<Expr, TargetError> {
        let Some(word) = self.tokens.get(self.at) else {
            return Err(self.error_here("the target ends where a word is expected"));
        };
        match word.text.as_str() {
            "and" | "or" => Err(self.error_here(format!("`{}` has nothing on its left", word.text))),
            ")" => Err(self.error_here("a word is expected before `)`")),
            "(" => self.parse_parentheses(),
            _ => {
                let (atom, fault) = TargetAtom::from_token(word)?;
                self.errors.extend(fault);
                self.at += 1;
                Ok(Expr::Atom(atom))
            }
        }
    }

    fn parse_parentheses(&mut self) -> Result<Expr, TargetError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error_here(format!("parentheses are nested deeper than {MAX_DEPTH}")));
        }
        let open = self.at;
        self.at += 1;
        let expr = if self.peek() == Some(")") {
            let fault = self.error_here("nothing between the parentheses");
            self.errors.push(fault);
            Expr::Never
        } else {
            self.parse_or()?
        };
        match self.peek() {
            Some(")") => self.at += 1,
            Some(word) => {
                return Err(self
                    .error_here(format!("an operator is missing before `{word}`"))
                    .with_hint(OPERATOR_HINT));
            }
            None => {
                self.at = open;
                return Err(self.error_here("this `(` is never closed"));
            }
        }
        self.depth -= 1;
        Ok(expr)
    }
}

const OPERATOR_HINT: &str = "join words with `and` or `or`";

fn collapse_single(mut parts: Vec<Expr>, many: fn(Vec<Expr>) -> Expr) -> Expr {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            many(parts)
        }
        None => Expr::Never,
    }
}
