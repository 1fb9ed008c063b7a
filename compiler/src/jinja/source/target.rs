//! What gets a value: the targets of assignments and loops, and the parameters of macros.

use super::ast::{Signature, Target};
use super::lex::Tok;
use super::parse::Parser;
use super::{Problem, ProblemKind};

impl Parser<'_> {
    pub(super) fn signature(&mut self) -> Result<Signature, Problem> {
        let mut signature = Signature::default();
        self.expect_op("(")?;
        while !self.at_op(")") {
            if !signature.names.is_empty() {
                self.expect_op(",")?;
            }
            let at = self.peek().start;
            let name = self.target_name()?;
            if signature.names.contains(&name) {
                return Err(Problem::new(
                    ProblemKind::Syntax,
                    format!("the parameter `{name}` stands twice"),
                    at,
                ));
            }
            signature.names.push(name);
            if self.skip_op("=") {
                signature.defaults.push(self.softly(false, Self::expr)?);
            } else if !signature.defaults.is_empty() {
                return Err(self
                    .unexpected("`=`")
                    .hint("a parameter without a default stands before those with one"));
            }
        }
        self.expect_op(")")?;
        Ok(signature)
    }

    /// What an assignment assigns to; `attributes` allows `namespace.x`, `until_in` ends a loop's targets.
    pub(super) fn target(&mut self, attributes: bool, until_in: bool) -> Result<Target, Problem> {
        self.nested(|p| p.target_list(attributes, until_in))
    }

    fn target_list(&mut self, attributes: bool, until_in: bool) -> Result<Target, Problem> {
        let mut items = Vec::new();
        let mut many = false;
        loop {
            if many
                && (matches!(self.peek().tok, Tok::BlockEnd)
                    || self.at_op(")")
                    || self.at_op("=")
                    || until_in && self.at_word("in"))
            {
                break;
            }
            items.push(self.one_target(attributes)?);
            if !self.skip_op(",") {
                break;
            }
            many = true;
        }
        match items.pop() {
            Some(only) if !many => Ok(only),
            Some(last) => {
                items.push(last);
                Ok(Target::Tuple(items))
            }
            None => Err(self.unexpected("a name")),
        }
    }

    fn one_target(&mut self, attributes: bool) -> Result<Target, Problem> {
        if self.skip_op("(") {
            let inner = self.target(attributes, false)?;
            self.expect_op(")")?;
            return Ok(inner);
        }
        let name = self.target_name()?;
        if attributes && self.skip_op(".") {
            return Ok(Target::Attribute(name, self.name()?));
        }
        Ok(Target::Name(name))
    }
}
