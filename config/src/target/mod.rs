//! The one matcher: a target's text in, an answer for a node out. Top files, rollouts and resources all use it.
//!
//! Law: the answers are those of Salt's minion-side matchers. A strict target refuses what Salt only logs; a lenient
//! one keeps Salt's answer and remembers the faults.
//!
//! A compound target is words between white space: `and`, `or`, `not`, `(`, `)` and atoms. An atom is a letter and `@`
//! (`G@os:Debian`, with another delimiter `G;@os;Debian`), or else a glob on the id. `not` without an operator before
//! it means `and not`. Named groups are put in word by word before the tree is built, as Salt does: a group of one
//! level brings no parentheses of its own, so `not N@group` negates only the group's first word.

mod atom;
mod cidr;
mod error;
mod expr;
mod group;
mod parse;
mod subdict;

use std::fmt;
use std::str::FromStr;

pub use self::error::TargetError;

use self::expr::Expr;
use self::parse::{ParsedTarget, TargetToken};
use crate::suggest;
use crate::value::{Map, Value};

/// What a target is compared with: one node, as far as matchers ask.
pub trait TargetSubject {
    /// The node's id.
    fn id(&self) -> &str;

    /// One grain by its top-level name, collected when asked for.
    fn grain(&self, name: &str) -> Option<Value>;

    /// All grains, as one mapping.
    fn grains(&self) -> Value;

    /// The pillar, as one mapping.
    fn pillar(&self) -> Value;

    /// Named groups: a name, and a compound target or a list of words or ids.
    fn nodegroups(&self) -> &Map;

    /// What the node manages for others, as `(type, id)`.
    fn resources(&self) -> Vec<(String, String)>;
}

/// How a target's text is read: `match:` in a top file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatchKind {
    /// A shell pattern on the id.
    Glob,
    /// Ids between commas.
    List,
    /// A regular expression on the id.
    Pcre,
    /// `key:value` in the grains, the value a shell pattern.
    Grain,
    /// `key:value` in the grains, the value a regular expression.
    GrainPcre,
    /// `key:value` in the pillar, the value a shell pattern.
    Pillar,
    /// `key:value` in the pillar, the value a regular expression.
    PillarPcre,
    /// `key:value` in the pillar, the value as it stands.
    PillarExact,
    /// An address or a network.
    Ipcidr,
    /// The name of a group.
    Nodegroup,
    /// Words, letters and operators: what a top file means without `match:`.
    #[default]
    Compound,
    /// A type of resource that the node manages, or `type:id`.
    Resource,
    /// The id of the node that manages a resource.
    ManagingMinion,
}

impl MatchKind {
    /// Every kind by its name in a top file.
    pub const NAMES: [(&'static str, Self); 13] = [
        ("glob", Self::Glob),
        ("list", Self::List),
        ("pcre", Self::Pcre),
        ("grain", Self::Grain),
        ("grain_pcre", Self::GrainPcre),
        ("pillar", Self::Pillar),
        ("pillar_pcre", Self::PillarPcre),
        ("pillar_exact", Self::PillarExact),
        ("ipcidr", Self::Ipcidr),
        ("nodegroup", Self::Nodegroup),
        ("compound", Self::Compound),
        ("resource", Self::Resource),
        ("managing_minion", Self::ManagingMinion),
    ];

    /// Its name in a top file.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("compound", |(name, _)| name)
    }
}

impl FromStr for MatchKind {
    type Err = TargetError;

    fn from_str(name: &str) -> Result<Self, TargetError> {
        Self::NAMES.iter().find(|(n, _)| *n == name).map(|(_, kind)| *kind).ok_or_else(|| {
            let near = suggest::nearest(name, Self::NAMES.iter().map(|(n, _)| *n));
            TargetError::unknown_kind(name, near)
        })
    }
}

/// A target, read once and asked of many nodes.
#[derive(Clone, Debug)]
pub struct Target {
    text: String,
    kind: MatchKind,
    body: TargetBody,
    errors: Vec<TargetError>,
    lenient: bool,
}

#[derive(Clone, Debug)]
enum TargetBody {
    /// A tree that needs no group.
    Tree(Expr),
    /// Words with `N@` among them: the tree is built once the groups are known.
    Words(Vec<TargetToken>),
    /// A whole group by name.
    Group(String),
    /// Nothing that can match.
    Never,
}

impl Target {
    /// Reads a target; what Salt would log and take for "no" is an error.
    ///
    /// # Errors
    /// Fails with the first fault and its column.
    pub fn parse(text: &str, kind: MatchKind) -> Result<Self, TargetError> {
        let target = Self::parse_any(text, kind, false);
        match target.errors.first() {
            Some(fault) => Err(fault.clone()),
            None => Ok(target),
        }
    }

    /// Reads a compound target that means nodes by what they report. Words that could only mean nobody, and behind `not` everybody,
    /// are errors: a parenthesis that touches a word, a letter that is none, and pillar, which no report holds.
    ///
    /// # Errors
    /// Fails with the first fault and its column.
    pub fn parse_reported(text: &str) -> Result<Self, TargetError> {
        for word in parse::tokenize(text) {
            word.check_reportable()?;
        }
        Self::parse(text, MatchKind::Compound)
    }

    /// Reads a target with Salt's patience: faults are kept for a warning, the answers are Salt's.
    #[must_use]
    pub fn parse_lenient(text: &str, kind: MatchKind) -> Self {
        Self::parse_any(text, kind, true)
    }

    fn parse_any(text: &str, kind: MatchKind, lenient: bool) -> Self {
        let (body, faults) = match kind {
            MatchKind::Compound => {
                let words = parse::tokenize(text);
                let parsed = parse::parse(&words);
                let body = if words.iter().any(TargetToken::names_group) {
                    TargetBody::Words(words)
                } else {
                    parsed.expr.map_or(TargetBody::Never, TargetBody::Tree)
                };
                (body, parsed.errors)
            }
            MatchKind::Nodegroup => (TargetBody::Group(text.to_owned()), Vec::new()),
            other => {
                let (atom, fault) = atom::TargetAtom::with_kind(other, text, None, 1);
                (TargetBody::Tree(Expr::Atom(atom)), fault.into_iter().collect())
            }
        };
        Self { text: text.to_owned(), kind, body, errors: faults, lenient }
    }

    /// The text it was read from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How the text was read.
    #[must_use]
    pub const fn kind(&self) -> MatchKind {
        self.kind
    }

    /// What is wrong with it; only a lenient target has any.
    #[must_use]
    pub fn errors(&self) -> &[TargetError] {
        &self.errors
    }

    /// Asks whether a node is meant.
    ///
    /// # Errors
    /// Fails on an unusable regular expression on the id, on a target that costs too much, and, unless lenient, on
    /// groups that are unknown, broken or contain themselves.
    pub fn matches(&self, subject: &dyn TargetSubject) -> Result<bool, TargetError> {
        let words = match &self.body {
            TargetBody::Tree(expr) => return expr.check_regexes().and_then(|()| expr.matches(subject)),
            TargetBody::Never => return Ok(false),
            TargetBody::Words(words) => group::expand(words, subject.nodegroups(), self.lenient)?,
            TargetBody::Group(name) => group::members(name, subject.nodegroups(), self.lenient)?,
        };
        let ParsedTarget { expr, errors: faults } = parse::parse(&words);
        match (faults.into_iter().next(), expr) {
            (Some(fault), _) if !self.lenient => Err(fault),
            (_, Some(expr)) => expr.check_regexes().and_then(|()| expr.matches(subject)),
            (_, None) => Ok(false),
        }
    }
}

impl fmt::Display for Target {
    /// One spelling for all that mean the same tree; reading it again gives that tree.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.body {
            TargetBody::Tree(expr) if self.kind == MatchKind::Compound => expr.fmt(f),
            _ => f.write_str(&self.text),
        }
    }
}

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
