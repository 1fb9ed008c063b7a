//! Tokens into a tree: the statements of Jinja2 and of Salt's extension.
//!
//! Law: what Jinja2 refuses is refused, with the place and the word that was expected.

use std::collections::BTreeSet;

use zagent_config::suggest;

use super::ast::{Body, Format, Kind, Signature, Stmt, StmtKind, Target};
use super::lex::{Tok, Token};
use super::{Problem, ProblemKind, Use, UseKind};

/// How deep expressions and blocks may nest.
const DEPTH: usize = 48;

const TAGS: [&str; 25] = [
    "for",
    "if",
    "with",
    "set",
    "autoescape",
    "filter",
    "block",
    "extends",
    "include",
    "import",
    "from",
    "macro",
    "call",
    "continue",
    "break",
    "do",
    "print",
    "load_yaml",
    "load_json",
    "load_text",
    "import_yaml",
    "import_json",
    "import_text",
    "profile",
    "raw",
];

/// A statement on the heap: blocks nest, and a parser's stack is short.
pub(super) type Made = Result<Box<StmtKind>, Problem>;

pub(super) fn made(kind: StmtKind) -> Made {
    Ok(Box::new(kind))
}

pub(super) struct Parser<'s> {
    pub(super) src: &'s str,
    tokens: Vec<Token>,
    pub(super) next: usize,
    pub(super) depth: usize,
    /// Words that may end the open blocks, innermost last, each with where its block began.
    ends: Vec<(&'static [&'static str], usize)>,
    loops: usize,
    /// Inside an `if`: unknown filters and tests fail only when reached.
    pub(super) soft: bool,
    pub(super) uses: Vec<Use>,
    pub(super) assigned: BTreeSet<String>,
    /// How often `varargs` and `kwargs` were read so far.
    specials: [usize; 2],
}

impl<'s> Parser<'s> {
    pub(super) fn new(src: &'s str, tokens: Vec<Token>) -> Self {
        Self {
            src,
            tokens,
            next: 0,
            depth: 0,
            ends: Vec::new(),
            loops: 0,
            soft: false,
            uses: Vec::new(),
            assigned: BTreeSet::new(),
            specials: [0; 2],
        }
    }

    pub(super) fn template(&mut self) -> Result<Body, Problem> {
        self.body_until_end()
    }

    pub(super) fn peek(&self) -> &Token {
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn peek_second(&self) -> &Token {
        &self.tokens[(self.next + 1).min(self.tokens.len() - 1)]
    }

    pub(super) fn text(&self, token: &Token) -> &'s str {
        &self.src[token.start..token.end]
    }

    pub(super) fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    pub(super) fn at_op(&self, op: &str) -> bool {
        matches!(self.peek().tok, Tok::Op(o) if o == op)
    }

    pub(super) fn skip_op(&mut self, op: &str) -> bool {
        let found = self.at_op(op);
        self.next += usize::from(found);
        found
    }

    fn is_word(&self, token: &Token, word: &str) -> bool {
        token.tok == Tok::Name && self.text(token) == word
    }

    pub(super) fn at_word(&self, word: &str) -> bool {
        self.is_word(self.peek(), word)
    }

    pub(super) fn second_is_op(&self, op: &str) -> bool {
        matches!(self.peek_second().tok, Tok::Op(o) if o == op)
    }

    pub(super) fn second_is_word(&self, word: &str) -> bool {
        self.is_word(self.peek_second(), word)
    }

    pub(super) fn skip_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        self.next += usize::from(found);
        found
    }

    /// How a token is called in a message.
    pub(super) fn describe(&self, token: &Token) -> String {
        match &token.tok {
            Tok::End => "the end of the template".into(),
            Tok::BlockEnd | Tok::VariableEnd => "the end of the tag".into(),
            Tok::Data => "text".into(),
            _ => format!("`{}`", self.text(token)),
        }
    }

    pub(super) fn unexpected(&self, expected: &str) -> Problem {
        let token = self.peek();
        let message = format!("expected {expected}, found {}", self.describe(token));
        Problem::new(ProblemKind::Syntax, message, token.start)
    }

    pub(super) fn expect_op(&mut self, op: &str) -> Result<Token, Problem> {
        if self.at_op(op) { Ok(self.take()) } else { Err(self.unexpected(&format!("`{op}`"))) }
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Result<(), Problem> {
        if self.skip_word(word) { Ok(()) } else { Err(self.unexpected(&format!("`{word}`"))) }
    }

    /// A name: an identifier, in ASCII because the engine knows no other.
    pub(super) fn name(&mut self) -> Result<String, Problem> {
        if self.peek().tok != Tok::Name {
            return Err(self.unexpected("a name"));
        }
        let token = self.take();
        let text = self.text(&token);
        if !text.is_ascii() {
            return Err(Problem::new(
                ProblemKind::Syntax,
                format!("the name `{text}` is not ASCII"),
                token.start,
            )
            .hint("use letters from a to z, digits and `_` in names"));
        }
        Ok(text.to_owned())
    }

    /// A name that gets a value.
    pub(super) fn target_name(&mut self) -> Result<String, Problem> {
        let at = self.peek().start;
        let name = self.name()?;
        if matches!(name.as_str(), "true" | "false" | "none" | "True" | "False" | "None" | "loop" | "self") {
            return Err(Problem::new(ProblemKind::Syntax, format!("`{name}` cannot be assigned to"), at));
        }
        self.assigned.insert(name.clone());
        Ok(name)
    }

    pub(super) fn count_special(&mut self, name: &str) {
        match name {
            "varargs" => self.specials[0] += 1,
            "kwargs" => self.specials[1] += 1,
            _ => {}
        }
    }

    fn enter(&mut self) -> Result<(), Problem> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Problem::new(ProblemKind::Depth, "this nests too deep", self.peek().start));
        }
        Ok(())
    }

    /// Runs a rule one level deeper.
    pub(super) fn nested<T>(
        &mut self,
        rule: impl FnOnce(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.enter()?;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    /// Runs a rule with unknown filters and tests being late (`soft`) or early faults.
    pub(super) fn softly<T>(&mut self, soft: bool, rule: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.soft, soft);
        let result = rule(self);
        self.soft = before;
        result
    }

    pub(super) fn note(&mut self, kind: UseKind, name: &str, at: usize) {
        self.uses.push(Use { kind, name: name.to_owned(), at, soft: self.soft });
    }

    /// Statements up to the end of the template or up to a word that ends the innermost block.
    fn body_until_end(&mut self) -> Result<Body, Problem> {
        let mut body = Body::new();
        loop {
            let token = self.take();
            match token.tok {
                Tok::Data => body
                    .push(Stmt { at: token.start, kind: Box::new(StmtKind::Data(token.start..token.end)) }),
                Tok::VariableBegin => {
                    let expr = self.tuple(true, false)?;
                    body.push(Stmt { at: token.start, kind: Box::new(StmtKind::Print(vec![expr])) });
                    if self.peek().tok != Tok::VariableEnd {
                        return Err(self.unexpected("the end of the tag"));
                    }
                    self.take();
                }
                Tok::BlockBegin => {
                    if let Some((words, _)) = self.ends.last()
                        && words.iter().any(|w| self.at_word(w))
                    {
                        return Ok(body);
                    }
                    let stmt = self.nested(Self::statement)?;
                    body.push(stmt);
                    self.block_end()?;
                }
                _ => {
                    if let Some((words, at)) = self.ends.last() {
                        let end = words.last().copied().unwrap_or_default();
                        return Err(Problem::new(ProblemKind::Syntax, "this block is never closed", *at)
                            .hint(format!("close it with `{{% {end} %}}`")));
                    }
                    return Ok(body);
                }
            }
        }
    }

    fn block_end(&mut self) -> Result<(), Problem> {
        if self.peek().tok != Tok::BlockEnd {
            return Err(self.unexpected("the end of the tag"));
        }
        self.take();
        Ok(())
    }

    /// The statements of a block, up to one of `words` (which is left to be taken).
    fn block(&mut self, words: &'static [&'static str], at: usize) -> Result<Body, Problem> {
        self.skip_op(":");
        self.block_end()?;
        self.ends.push((words, at));
        let body = self.body_until_end()?;
        self.ends.pop();
        Ok(body)
    }

    /// A block with one possible end, which is taken.
    fn closed_block(&mut self, end: &'static [&'static str], at: usize) -> Result<Body, Problem> {
        let loops = std::mem::replace(&mut self.loops, 0);
        let body = self.softly(false, |p| p.block(end, at));
        self.loops = loops;
        let body = body?;
        self.take();
        Ok(body)
    }

    fn statement(&mut self) -> Result<Stmt, Problem> {
        if self.peek().tok != Tok::Name {
            return Err(self.unexpected("the name of a tag"));
        }
        let token = self.take();
        let at = token.start;
        let kind = match self.text(&token) {
            "for" => self.for_loop(at)?,
            "if" => self.softly(true, |p| p.if_chain(at))?,
            "with" => self.with(at)?,
            "set" => self.set(at)?,
            "autoescape" => self.auto_escape(at)?,
            "filter" => self.filter_block(at)?,
            "block" => self.template_block(at)?,
            "extends" => self.extends()?,
            "include" => self.include()?,
            "import" => self.import_module()?,
            "from" => self.from()?,
            "macro" => self.macro_block(at)?,
            "call" => self.call_block(at)?,
            "do" => self.evaluate()?,
            "print" => self.print()?,
            word @ ("break" | "continue") => self.loop_control(word, at)?,
            "load_yaml" => self.load(Format::Yaml, at)?,
            "load_json" => self.load(Format::Json, at)?,
            "load_text" => self.load(Format::Text, at)?,
            "import_yaml" => self.import_data(Format::Yaml)?,
            "import_json" => self.import_data(Format::Json)?,
            "import_text" => self.import_data(Format::Text)?,
            "profile" => self.profile(at)?,
            word => return Err(self.unknown_tag(word, at)),
        };
        Ok(Stmt { at, kind })
    }

    fn auto_escape(&mut self, at: usize) -> Made {
        let enabled = self.expr()?;
        made(StmtKind::AutoEscape { enabled, body: self.closed_block(&["endautoescape"], at)? })
    }

    fn filter_block(&mut self, at: usize) -> Made {
        let filters = self.filters(true)?;
        made(StmtKind::FilterBlock { filters, body: self.closed_block(&["endfilter"], at)? })
    }

    fn extends(&mut self) -> Made {
        made(StmtKind::Extends(self.expr()?))
    }

    fn macro_block(&mut self, at: usize) -> Made {
        let name = self.target_name()?;
        let signature = self.signature()?;
        let before = self.specials;
        let body = self.closed_block(&["endmacro"], at)?;
        let rest = [self.specials[0] > before[0], self.specials[1] > before[1]];
        made(StmtKind::Macro { name, signature, rest, body })
    }

    fn evaluate(&mut self) -> Made {
        made(StmtKind::Do(self.tuple(true, false)?))
    }

    fn profile(&mut self, at: usize) -> Made {
        self.expect_word("as")?;
        let label = self.expr()?;
        let body = self.block(&["endprofile"], at)?;
        self.take();
        made(StmtKind::Profile { label, body })
    }

    fn unknown_tag(&self, word: &str, at: usize) -> Problem {
        if matches!(word, "else" | "elif") || word.starts_with("end") {
            let problem = |text: String| Problem::new(ProblemKind::Syntax, text, at);
            let Some((words, _)) = self.ends.last() else {
                return problem(format!("`{word}` stands here, and no block is open"));
            };
            let words: Vec<String> = words.iter().map(|w| format!("`{w}`")).collect();
            return problem(format!("`{word}` does not fit the block that is open"))
                .hint(format!("the innermost open block ends with {}", words.join(", ")));
        }
        let problem = Problem::new(ProblemKind::UnknownTag, format!("there is no tag `{word}`"), at);
        match suggest::nearest(word, TAGS) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None => problem,
        }
    }

    fn loop_control(&mut self, word: &str, at: usize) -> Made {
        if self.loops == 0 {
            return Err(Problem::new(ProblemKind::Syntax, format!("`{word}` stands outside of a loop"), at));
        }
        made(if word == "break" { StmtKind::Break } else { StmtKind::Continue })
    }

    fn for_loop(&mut self, at: usize) -> Made {
        let target = self.target(false, true)?;
        self.expect_word("in")?;
        let iter = self.tuple(false, false)?;
        let test = if self.skip_word("if") { Some(self.softly(false, Self::expr)?) } else { None };
        let recursive = self.skip_word("recursive");
        self.loops += 1;
        let body = self.softly(false, |p| p.block(&["else", "endfor"], at))?;
        self.loops -= 1;
        let otherwise = if self.skip_word("else") {
            let body = self.softly(false, |p| p.block(&["endfor"], at))?;
            self.take();
            body
        } else {
            self.take();
            Body::new()
        };
        made(StmtKind::For { target, iter, test, recursive, body, otherwise })
    }

    fn if_chain(&mut self, at: usize) -> Made {
        let mut branches = Vec::new();
        loop {
            let test = self.tuple(false, false)?;
            let body = self.block(&["elif", "else", "endif"], at)?;
            branches.push((test, body));
            if self.skip_word("elif") {
                continue;
            }
            if self.skip_word("else") {
                let otherwise = self.block(&["endif"], at)?;
                self.take();
                return made(StmtKind::If { branches, otherwise: Some(otherwise) });
            }
            self.take();
            return made(StmtKind::If { branches, otherwise: None });
        }
    }

    fn with(&mut self, at: usize) -> Made {
        let mut assigns = Vec::new();
        while self.peek().tok != Tok::BlockEnd {
            if !assigns.is_empty() {
                self.expect_op(",")?;
            }
            let target = self.target_name().map(Target::Name)?;
            self.expect_op("=")?;
            assigns.push((target, self.expr()?));
        }
        let body = self.softly(false, |p| p.block(&["endwith"], at))?;
        self.take();
        made(StmtKind::With { assigns, body })
    }

    fn set(&mut self, at: usize) -> Made {
        let target = self.target(true, false)?;
        if self.skip_op("=") {
            return made(StmtKind::Set(target, self.tuple(true, false)?));
        }
        let filters = self.filters(false)?;
        made(StmtKind::SetBlock { target, filters, body: self.closed_block(&["endset"], at)? })
    }

    fn template_block(&mut self, at: usize) -> Made {
        let name = self.name()?;
        let scoped = self.skip_word("scoped");
        let required = self.skip_word("required");
        if self.at_op("-") {
            return Err(self
                .unexpected("the end of the tag")
                .hint("use `_` in the names of blocks, not `-`"));
        }
        let body = self.closed_block(&["endblock"], at)?;
        self.skip_word(&name);
        made(StmtKind::Block { name, scoped, required, body })
    }

    fn load(&mut self, format: Format, at: usize) -> Made {
        self.expect_word("as")?;
        let target = self.target(false, false)?;
        made(StmtKind::Load { format, target, body: self.closed_block(&["endload"], at)? })
    }

    fn call_block(&mut self, at: usize) -> Made {
        let signature = if self.at_op("(") { self.signature()? } else { Signature::default() };
        let call = self.expr()?;
        if !matches!(call.kind, Kind::Call(..)) {
            return Err(Problem::new(ProblemKind::Syntax, "`call` needs a call of a macro", call.at));
        }
        made(StmtKind::CallBlock { call, signature, body: self.closed_block(&["endcall"], at)? })
    }

    fn print(&mut self) -> Made {
        let mut exprs = Vec::new();
        while self.peek().tok != Tok::BlockEnd {
            if !exprs.is_empty() {
                self.expect_op(",")?;
            }
            exprs.push(self.expr()?);
        }
        made(StmtKind::Print(exprs))
    }
}
