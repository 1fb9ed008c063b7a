//! Words to a tree: `or` binds weakest, then `and`, then `not`, as in Python.

use super::TargetError;
use super::atom::Atom;
use super::expr::Expr;
use crate::codes::top;

/// How deep parentheses may nest.
const MAX_DEPTH: usize = 100;

/// A word of a compound target and where it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// The word.
    pub(super) text: String,
    /// Its column in characters, from 1; zero for a word of a group.
    pub(super) column: u32,
}

impl Word {
    /// The name after `N@`.
    pub(super) fn group(&self) -> Option<&str> {
        self.text.strip_prefix("N@").filter(|name| !name.is_empty())
    }

    /// Refuses a word that no node of a report can match.
    pub(super) fn means_a_node(&self) -> Result<(), TargetError> {
        let fault = |message: &str, hint: &str| {
            let message = format!("`{}`: {message}", self.text);
            Err(TargetError::new(top::TARGET_SYNTAX, message, self.column).with_hint(hint))
        };
        let count = |c| self.text.matches(c).count();
        let opens = self.text.starts_with('(') && self.text != "(";
        if opens || (self.text.ends_with(')') && self.text != ")" && count(')') > count('(')) {
            return fault("a parenthesis touches a word", "put spaces around it: `not ( a or b )`");
        }
        let mut chars = self.text.chars();
        let letter = chars.next().filter(|_| chars.as_str().starts_with('@'));
        match letter.or_else(|| Atom::pillar_letter(&self.text)) {
            Some('I' | 'J') => fault(
                "reports of nodes hold no pillar",
                "ask for facts: `G@role:db`; `rollout.facts` names them",
            ),
            Some(letter) if !Atom::has_letter(letter) => {
                fault("there is no such letter", "those of compound targets are G, P, L, S and E")
            }
            _ => Ok(()),
        }
    }

    pub(super) fn names_group(&self) -> bool {
        self.group().is_some()
    }
}

/// What came out: a tree unless the order of words is wrong, and every fault.
pub(super) struct Parsed {
    pub(super) expr: Option<Expr>,
    pub(super) faults: Vec<TargetError>,
}

/// Cuts a text into words as Python's `str.split()` does.
pub(super) fn split(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut inside = false;
    for (column, c) in (1..).zip(text.chars()) {
        if c.is_whitespace() || ('\x1c'..='\x1f').contains(&c) {
            inside = false;
            continue;
        }
        match words.last_mut() {
            Some(word) if inside => word.text.push(c),
            _ => words.push(Word { text: c.into(), column }),
        }
        inside = true;
    }
    words
}

/// Builds the tree.
pub(super) fn parse(words: &[Word]) -> Parsed {
    let mut parser = Parser { words, at: 0, depth: 0, faults: Vec::new() };
    let expr = match parser.whole() {
        Ok(expr) => Some(expr),
        Err(fault) => {
            parser.faults.push(fault);
            None
        }
    };
    Parsed { expr, faults: parser.faults }
}

struct Parser<'w> {
    words: &'w [Word],
    at: usize,
    depth: usize,
    faults: Vec<TargetError>,
}

impl<'w> Parser<'w> {
    fn peek(&self) -> Option<&'w str> {
        self.words.get(self.at).map(|w| w.text.as_str())
    }

    /// A fault at the word that comes next, or after the last one.
    fn fault(&self, message: impl Into<String>) -> TargetError {
        let column = match (self.words.get(self.at), self.words.last()) {
            (Some(word), _) => word.column,
            (None, Some(last)) if last.column > 0 => {
                last.column + u32::try_from(last.text.chars().count()).unwrap_or(0)
            }
            _ => 0,
        };
        TargetError::new(top::TARGET_SYNTAX, message, column)
    }

    fn whole(&mut self) -> Result<Expr, TargetError> {
        if self.words.is_empty() {
            return Err(self.fault("the target is empty"));
        }
        let expr = self.any()?;
        match self.peek() {
            None => Ok(expr),
            Some(")") => Err(self.fault("this `)` closes nothing")),
            Some("(") => Err(self.fault("an operator is missing before `(`").with_hint(OPERATORS)),
            Some(word) => {
                Err(self.fault(format!("an operator is missing before `{word}`")).with_hint(OPERATORS))
            }
        }
    }

    fn any(&mut self) -> Result<Expr, TargetError> {
        let mut parts = vec![self.all()?];
        while self.peek() == Some("or") {
            self.at += 1;
            parts.push(self.all()?);
        }
        Ok(one_or(parts, Expr::Any))
    }

    fn all(&mut self) -> Result<Expr, TargetError> {
        let mut parts = vec![self.not()?];
        loop {
            match self.peek() {
                Some("and") => self.at += 1,
                // `a not b` is `a and not b`.
                Some("not") => {}
                _ => return Ok(one_or(parts, Expr::All)),
            }
            parts.push(self.not()?);
        }
    }

    fn not(&mut self) -> Result<Expr, TargetError> {
        if self.peek() != Some("not") {
            return self.one();
        }
        self.at += 1;
        if self.peek() == Some("not") {
            return Err(self.fault("`not` after `not`").with_hint("two of them cancel out: leave both away"));
        }
        Ok(Expr::Not(Box::new(self.one()?)))
    }

    fn one(&mut self) -> Result<Expr, TargetError> {
        let Some(word) = self.words.get(self.at) else {
            return Err(self.fault("the target ends where a word is expected"));
        };
        match word.text.as_str() {
            "and" | "or" => Err(self.fault(format!("`{}` has nothing on its left", word.text))),
            ")" => Err(self.fault("`)` where a word is expected")),
            "(" => self.parentheses(),
            _ => {
                let (atom, fault) = Atom::of_word(word)?;
                self.faults.extend(fault);
                self.at += 1;
                Ok(Expr::Atom(atom))
            }
        }
    }

    fn parentheses(&mut self) -> Result<Expr, TargetError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.fault(format!("parentheses nest deeper than {MAX_DEPTH}")));
        }
        let open = self.at;
        self.at += 1;
        let expr = if self.peek() == Some(")") {
            let fault = self.fault("nothing between the parentheses");
            self.faults.push(fault);
            Expr::Never
        } else {
            self.any()?
        };
        match self.peek() {
            Some(")") => self.at += 1,
            Some(word) => {
                return Err(self
                    .fault(format!("an operator is missing before `{word}`"))
                    .with_hint(OPERATORS));
            }
            None => {
                self.at = open;
                return Err(self.fault("this `(` is never closed"));
            }
        }
        self.depth -= 1;
        Ok(expr)
    }
}

const OPERATORS: &str = "join words with `and` or `or`";

fn one_or(mut parts: Vec<Expr>, many: fn(Vec<Expr>) -> Expr) -> Expr {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            many(parts)
        }
        None => Expr::Never,
    }
}
