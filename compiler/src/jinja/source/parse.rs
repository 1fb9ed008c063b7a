//! Tokens in, a syntax tree out: the statements of Jinja2 and of Salt's extension.
//!
//! Law: what Jinja2 rejects is rejected, with the position and the expected word (held by
//! `every_error_matches_its_golden_file`).

use std::collections::BTreeSet;

use zagent_config::suggest;

use super::ast::{AssignTarget, ExprKind, LoadFormat, MacroSignature, Stmt, StmtKind, StmtList};
use super::lex::{LexToken, TokenKind};
use super::{NameUse, NameUseKind, SyntaxError, SyntaxErrorKind};

/// Maximum nesting of expressions and blocks.
const MAX_DEPTH: usize = 48;

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
pub(super) type StmtResult = Result<Box<StmtKind>, SyntaxError>;

pub(super) fn boxed_stmt(kind: StmtKind) -> StmtResult {
    Ok(Box::new(kind))
}

pub(super) struct TemplateParser<'s> {
    pub(super) src: &'s str,
    tokens: Vec<LexToken>,
    pub(super) next: usize,
    pub(super) depth: usize,
    /// Words that may end the open blocks, innermost last, each with the start of its block.
    ends: Vec<(&'static [&'static str], usize)>,
    loops: usize,
    /// Inside an `if`: unknown filters and tests fail only when reached.
    pub(super) soft: bool,
    pub(super) uses: Vec<NameUse>,
    pub(super) assigned: BTreeSet<String>,
    /// How often `varargs` and `kwargs` were read so far.
    specials: [usize; 2],
}

impl<'s> TemplateParser<'s> {
    pub(super) fn new(src: &'s str, tokens: Vec<LexToken>) -> Self {
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

    pub(super) fn template(&mut self) -> Result<StmtList, SyntaxError> {
        self.body_until_end()
    }

    pub(super) fn peek(&self) -> &LexToken {
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn peek_second(&self) -> &LexToken {
        &self.tokens[(self.next + 1).min(self.tokens.len() - 1)]
    }

    pub(super) fn text(&self, token: &LexToken) -> &'s str {
        &self.src[token.start..token.end]
    }

    pub(super) fn next_token(&mut self) -> LexToken {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    pub(super) fn at_op(&self, op: &str) -> bool {
        matches!(self.peek().tok, TokenKind::Op(o) if o == op)
    }

    pub(super) fn skip_op(&mut self, op: &str) -> bool {
        let found = self.at_op(op);
        self.next += usize::from(found);
        found
    }

    fn is_word(&self, token: &LexToken, word: &str) -> bool {
        token.tok == TokenKind::Name && self.text(token) == word
    }

    pub(super) fn at_word(&self, word: &str) -> bool {
        self.is_word(self.peek(), word)
    }

    pub(super) fn second_is_op(&self, op: &str) -> bool {
        matches!(self.peek_second().tok, TokenKind::Op(o) if o == op)
    }

    pub(super) fn second_is_word(&self, word: &str) -> bool {
        self.is_word(self.peek_second(), word)
    }

    pub(super) fn skip_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        self.next += usize::from(found);
        found
    }

    /// The name of a token in a message.
    pub(super) fn describe(&self, token: &LexToken) -> String {
        match &token.tok {
            TokenKind::End => "the end of the template".into(),
            TokenKind::BlockEnd | TokenKind::VariableEnd => "the end of the tag".into(),
            TokenKind::Data => "text".into(),
            _ => format!("`{}`", self.text(token)),
        }
    }

    pub(super) fn unexpected(&self, expected: &str) -> SyntaxError {
        let token = self.peek();
        let message = format!("expected {expected}, found {}", self.describe(token));
        SyntaxError::new(SyntaxErrorKind::Syntax, message, token.start)
    }

    pub(super) fn expect_op(&mut self, op: &str) -> Result<LexToken, SyntaxError> {
        if self.at_op(op) { Ok(self.next_token()) } else { Err(self.unexpected(&format!("`{op}`"))) }
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Result<(), SyntaxError> {
        if self.skip_word(word) { Ok(()) } else { Err(self.unexpected(&format!("`{word}`"))) }
    }

    /// A name: an identifier, in ASCII because the engine supports nothing else.
    pub(super) fn name(&mut self) -> Result<String, SyntaxError> {
        if self.peek().tok != TokenKind::Name {
            return Err(self.unexpected("a name"));
        }
        let token = self.next_token();
        let text = self.text(&token);
        if !text.is_ascii() {
            return Err(SyntaxError::new(
                SyntaxErrorKind::Syntax,
                format!("the name `{text}` is not ASCII"),
                token.start,
            )
            .hint("use letters from a to z, digits and `_` in names"));
        }
        Ok(text.to_owned())
    }

    /// A name that is assigned.
    pub(super) fn target_name(&mut self) -> Result<String, SyntaxError> {
        let at = self.peek().start;
        let name = self.name()?;
        if matches!(name.as_str(), "true" | "false" | "none" | "True" | "False" | "None" | "loop" | "self") {
            return Err(SyntaxError::new(
                SyntaxErrorKind::Syntax,
                format!("`{name}` cannot be assigned to"),
                at,
            ));
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

    fn enter(&mut self) -> Result<(), SyntaxError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(SyntaxError::new(SyntaxErrorKind::Depth, "nested too deep here", self.peek().start));
        }
        Ok(())
    }

    /// Runs a rule one level deeper.
    pub(super) fn nested<T>(
        &mut self,
        rule: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        self.enter()?;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    /// Runs a rule with unknown filters and tests being late (`soft`) or early errors.
    pub(super) fn with_soft_names<T>(&mut self, soft: bool, rule: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.soft, soft);
        let result = rule(self);
        self.soft = before;
        result
    }

    pub(super) fn note_use(&mut self, kind: NameUseKind, name: &str, at: usize) {
        self.uses.push(NameUse { kind, name: name.to_owned(), at, soft: self.soft });
    }

    /// Statements up to the end of the template or up to a word that ends the innermost block.
    fn body_until_end(&mut self) -> Result<StmtList, SyntaxError> {
        let mut body = StmtList::new();
        loop {
            let token = self.next_token();
            match token.tok {
                TokenKind::Data => body
                    .push(Stmt { at: token.start, kind: Box::new(StmtKind::Data(token.start..token.end)) }),
                TokenKind::VariableBegin => {
                    let expr = self.tuple(true, false)?;
                    body.push(Stmt { at: token.start, kind: Box::new(StmtKind::Print(vec![expr])) });
                    if self.peek().tok != TokenKind::VariableEnd {
                        return Err(self.unexpected("the end of the tag"));
                    }
                    self.next_token();
                }
                TokenKind::BlockBegin => {
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
                        return Err(SyntaxError::new(
                            SyntaxErrorKind::Syntax,
                            "this block is never closed",
                            *at,
                        )
                        .hint(format!("close it with `{{% {end} %}}`")));
                    }
                    return Ok(body);
                }
            }
        }
    }

    fn block_end(&mut self) -> Result<(), SyntaxError> {
        if self.peek().tok != TokenKind::BlockEnd {
            return Err(self.unexpected("the end of the tag"));
        }
        self.next_token();
        Ok(())
    }

    /// The statements of a block, up to one of `words` (which is not consumed).
    fn block(&mut self, words: &'static [&'static str], at: usize) -> Result<StmtList, SyntaxError> {
        self.skip_op(":");
        self.block_end()?;
        self.ends.push((words, at));
        let body = self.body_until_end()?;
        self.ends.pop();
        Ok(body)
    }

    /// A block with one possible end, which is consumed.
    fn closed_block(&mut self, end: &'static [&'static str], at: usize) -> Result<StmtList, SyntaxError> {
        let loops = std::mem::replace(&mut self.loops, 0);
        let body = self.with_soft_names(false, |p| p.block(end, at));
        self.loops = loops;
        let body = body?;
        self.next_token();
        Ok(body)
    }

    fn statement(&mut self) -> Result<Stmt, SyntaxError> {
        if self.peek().tok != TokenKind::Name {
            return Err(self.unexpected("the name of a tag"));
        }
        let token = self.next_token();
        let at = token.start;
        let kind = match self.text(&token) {
            "for" => self.for_loop(at)?,
            "if" => self.with_soft_names(true, |p| p.if_chain(at))?,
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
            "load_yaml" => self.load(LoadFormat::Yaml, at)?,
            "load_json" => self.load(LoadFormat::Json, at)?,
            "load_text" => self.load(LoadFormat::Text, at)?,
            "import_yaml" => self.import_data(LoadFormat::Yaml)?,
            "import_json" => self.import_data(LoadFormat::Json)?,
            "import_text" => self.import_data(LoadFormat::Text)?,
            "profile" => self.profile(at)?,
            word => return Err(self.unknown_tag(word, at)),
        };
        Ok(Stmt { at, kind })
    }

    fn auto_escape(&mut self, at: usize) -> StmtResult {
        let enabled = self.expr()?;
        boxed_stmt(StmtKind::AutoEscape { enabled, body: self.closed_block(&["endautoescape"], at)? })
    }

    fn filter_block(&mut self, at: usize) -> StmtResult {
        let filters = self.filters(true)?;
        boxed_stmt(StmtKind::FilterBlock { filters, body: self.closed_block(&["endfilter"], at)? })
    }

    fn extends(&mut self) -> StmtResult {
        boxed_stmt(StmtKind::Extends(self.expr()?))
    }

    fn macro_block(&mut self, at: usize) -> StmtResult {
        let name = self.target_name()?;
        let signature = self.signature()?;
        let before = self.specials;
        let body = self.closed_block(&["endmacro"], at)?;
        let rest = [self.specials[0] > before[0], self.specials[1] > before[1]];
        boxed_stmt(StmtKind::Macro { name, signature, rest, body })
    }

    fn evaluate(&mut self) -> StmtResult {
        boxed_stmt(StmtKind::Do(self.tuple(true, false)?))
    }

    fn profile(&mut self, at: usize) -> StmtResult {
        self.expect_word("as")?;
        let label = self.expr()?;
        let body = self.block(&["endprofile"], at)?;
        self.next_token();
        boxed_stmt(StmtKind::Profile { label, body })
    }

    fn unknown_tag(&self, word: &str, at: usize) -> SyntaxError {
        if matches!(word, "else" | "elif") || word.starts_with("end") {
            let problem = |text: String| SyntaxError::new(SyntaxErrorKind::Syntax, text, at);
            let Some((words, _)) = self.ends.last() else {
                return problem(format!("`{word}` without an open block"));
            };
            let words: Vec<String> = words.iter().map(|w| format!("`{w}`")).collect();
            return problem(format!("`{word}` does not match the open block"))
                .hint(format!("end the innermost open block with {}", words.join(", ")));
        }
        let problem = SyntaxError::new(SyntaxErrorKind::UnknownTag, format!("unknown tag `{word}`"), at);
        match suggest::nearest(word, TAGS) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None => problem,
        }
    }

    fn loop_control(&mut self, word: &str, at: usize) -> StmtResult {
        if self.loops == 0 {
            return Err(SyntaxError::new(
                SyntaxErrorKind::Syntax,
                format!("`{word}` is outside of a loop"),
                at,
            ));
        }
        boxed_stmt(if word == "break" { StmtKind::Break } else { StmtKind::Continue })
    }

    fn for_loop(&mut self, at: usize) -> StmtResult {
        let target = self.target(false, true)?;
        self.expect_word("in")?;
        let iter = self.tuple(false, false)?;
        let test = if self.skip_word("if") { Some(self.with_soft_names(false, Self::expr)?) } else { None };
        let recursive = self.skip_word("recursive");
        self.loops += 1;
        let body = self.with_soft_names(false, |p| p.block(&["else", "endfor"], at))?;
        self.loops -= 1;
        let otherwise = if self.skip_word("else") {
            let body = self.with_soft_names(false, |p| p.block(&["endfor"], at))?;
            self.next_token();
            body
        } else {
            self.next_token();
            StmtList::new()
        };
        boxed_stmt(StmtKind::For { target, iter, test, recursive, body, otherwise })
    }

    fn if_chain(&mut self, at: usize) -> StmtResult {
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
                self.next_token();
                return boxed_stmt(StmtKind::If { branches, otherwise: Some(otherwise) });
            }
            self.next_token();
            return boxed_stmt(StmtKind::If { branches, otherwise: None });
        }
    }

    fn with(&mut self, at: usize) -> StmtResult {
        let mut assigns = Vec::new();
        while self.peek().tok != TokenKind::BlockEnd {
            if !assigns.is_empty() {
                self.expect_op(",")?;
            }
            let target = self.target_name().map(AssignTarget::Name)?;
            self.expect_op("=")?;
            assigns.push((target, self.expr()?));
        }
        let body = self.with_soft_names(false, |p| p.block(&["endwith"], at))?;
        self.next_token();
        boxed_stmt(StmtKind::With { assigns, body })
    }

    fn set(&mut self, at: usize) -> StmtResult {
        let target = self.target(true, false)?;
        if self.skip_op("=") {
            return boxed_stmt(StmtKind::Set(target, self.tuple(true, false)?));
        }
        let filters = self.filters(false)?;
        boxed_stmt(StmtKind::SetBlock { target, filters, body: self.closed_block(&["endset"], at)? })
    }

    fn template_block(&mut self, at: usize) -> StmtResult {
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
        boxed_stmt(StmtKind::Block { name, scoped, required, body })
    }

    fn load(&mut self, format: LoadFormat, at: usize) -> StmtResult {
        self.expect_word("as")?;
        let target = self.target(false, false)?;
        boxed_stmt(StmtKind::Load { format, target, body: self.closed_block(&["endload"], at)? })
    }

    fn call_block(&mut self, at: usize) -> StmtResult {
        let signature = if self.at_op("(") { self.signature()? } else { MacroSignature::default() };
        let call = self.expr()?;
        if !matches!(call.kind, ExprKind::Call(..)) {
            return Err(SyntaxError::new(SyntaxErrorKind::Syntax, "`call` needs a macro call", call.at));
        }
        boxed_stmt(StmtKind::CallBlock { call, signature, body: self.closed_block(&["endcall"], at)? })
    }

    fn print(&mut self) -> StmtResult {
        let mut exprs = Vec::new();
        while self.peek().tok != TokenKind::BlockEnd {
            if !exprs.is_empty() {
                self.expect_op(",")?;
            }
            exprs.push(self.expr()?);
        }
        boxed_stmt(StmtKind::Print(exprs))
    }
}
