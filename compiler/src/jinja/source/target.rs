//! Assignment targets: of assignments and loops, and the parameters of macros.

use super::ast::{AssignTarget, MacroSignature};
use super::lex::TokenKind;
use super::parse::TemplateParser;
use super::{SyntaxError, SyntaxErrorKind};

impl TemplateParser<'_> {
    pub(super) fn signature(&mut self) -> Result<MacroSignature, SyntaxError> {
        let mut signature = MacroSignature::default();
        self.expect_op("(")?;
        while !self.at_op(")") {
            if !signature.names.is_empty() {
                self.expect_op(",")?;
            }
            let at = self.peek().start;
            let name = self.target_name()?;
            if signature.names.contains(&name) {
                return Err(SyntaxError::new(
                    SyntaxErrorKind::Syntax,
                    format!("the parameter `{name}` is listed twice"),
                    at,
                ));
            }
            signature.names.push(name);
            if self.skip_op("=") {
                signature.defaults.push(self.with_soft_names(false, Self::expr)?);
            } else if !signature.defaults.is_empty() {
                return Err(self
                    .unexpected("`=`")
                    .hint("put parameters without a default before those with one"));
            }
        }
        self.expect_op(")")?;
        Ok(signature)
    }

    /// The target of an assignment; `attributes` allows `namespace.x`, `until_in` ends a loop's targets.
    pub(super) fn target(&mut self, attributes: bool, until_in: bool) -> Result<AssignTarget, SyntaxError> {
        self.nested(|p| p.target_list(attributes, until_in))
    }

    fn target_list(&mut self, attributes: bool, until_in: bool) -> Result<AssignTarget, SyntaxError> {
        let mut items = Vec::new();
        let mut many = false;
        loop {
            if many
                && (matches!(self.peek().tok, TokenKind::BlockEnd)
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
                Ok(AssignTarget::Tuple(items))
            }
            None => Err(self.unexpected("a name")),
        }
    }

    fn one_target(&mut self, attributes: bool) -> Result<AssignTarget, SyntaxError> {
        if self.skip_op("(") {
            let inner = self.target(attributes, false)?;
            self.expect_op(")")?;
            return Ok(inner);
        }
        let name = self.target_name()?;
        if attributes && self.skip_op(".") {
            return Ok(AssignTarget::Attribute(name, self.name()?));
        }
        Ok(AssignTarget::Name(name))
    }
}
