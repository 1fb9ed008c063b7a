//! The target matcher: the text of a target in, match or no match for a node out. Top files, rollouts and resources use it.
//!
//! Law: the results equal those of Salt's minion-side matchers. A strict target rejects what Salt only logs; a
//! lenient one keeps Salt's result and records the errors (held by `a_lenient_target_matches_as_salt`,
//! `a_strict_target_matches_as_salt_or_fails`).
//!
//! A compound target is words between white space: `and`, `or`, `not`, `(`, `)` and atoms. An atom is a letter and `@`
//! (`G@os:Debian`, with another delimiter `G;@os;Debian`), or else a glob on the id. `not` without an operator before
//! it means `and not`. Named groups are expanded word by word before the tree is built, as in Salt: a group of one
//! level adds no parentheses, so `not N@group` negates only the group's first word.
//!
//! A resource is matched like a node: by its own id (or `type:id`), its own grains, `T@type`, `T@type:id` and `M@node`. Its pillar
//! never matches. A target that consists of `T@` and `M@` only addresses resources: the node that manages them is not part of it.

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

/// What a target is matched against: the data of one node that matchers need.
pub trait TargetSubject {
    /// The node's id.
    fn id(&self) -> &str;

    /// One grain by its top-level name, collected on demand.
    fn grain(&self, name: &str) -> Option<Value>;

    /// All grains, as one mapping.
    fn grains(&self) -> Value;

    /// The pillar, as one mapping.
    fn pillar(&self) -> Value;

    /// Named groups: a name, and a compound target or a list of words or ids.
    fn nodegroups(&self) -> &Map;

    /// The resources that the node manages, as `(type, id)`.
    fn resources(&self) -> Vec<(String, String)>;

    /// What the subject is to the target.
    fn role(&self) -> SubjectRole<'_> {
        SubjectRole::Node
    }
}

/// What is matched: a node, or a resource that a node manages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubjectRole<'a> {
    /// A node, in a top file or a rollout: `T@` matches when it manages such a resource.
    #[default]
    Node,
    /// A node that was asked to run something on its resources: `T@` and `M@` mean resources, never the node itself.
    Manager,
    /// A resource.
    Resource {
        /// Its type.
        kind: &'a str,
        /// The id of the node that manages it.
        manager: &'a str,
    },
}

/// How the text of a target is read: `match:` in a top file.
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
    /// `key:value` in the pillar, the value literally.
    PillarExact,
    /// An address or a network.
    Ipcidr,
    /// The name of a group.
    Nodegroup,
    /// Words, letters and operators: the default in a top file, without `match:`.
    #[default]
    Compound,
    /// A type of resource, or `type:id`; both literally.
    Resource,
    /// The id of the node that manages a resource, literally.
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

/// A target, parsed once and matched against many nodes.
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
    /// Never matches.
    Never,
}

impl Target {
    /// Parses a target; what Salt would log and treat as no match is an error.
    ///
    /// # Errors
    /// Fails with the first error and its column.
    pub fn parse(text: &str, kind: MatchKind) -> Result<Self, TargetError> {
        let target = Self::parse_any(text, kind, false);
        match target.errors.first() {
            Some(fault) => Err(fault.clone()),
            None => Ok(target),
        }
    }

    /// Parses a compound target that selects nodes by their reports. Words that match no node (and, after `not`, every node)
    /// are errors: a parenthesis without a space, an unknown letter, and pillar, which reports do not contain.
    ///
    /// # Errors
    /// Fails with the first error and its column.
    pub fn parse_reported(text: &str) -> Result<Self, TargetError> {
        for word in parse::tokenize(text) {
            word.check_reportable()?;
        }
        Self::parse(text, MatchKind::Compound)
    }

    /// Parses a target leniently, as Salt does: errors are kept for a warning, the results are Salt's.
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

    /// Its errors; only a lenient target has any.
    #[must_use]
    pub fn errors(&self) -> &[TargetError] {
        &self.errors
    }

    /// True when the answer may depend on grains.
    #[must_use]
    pub fn reads_grains(&self) -> bool {
        match self.kind {
            MatchKind::Grain | MatchKind::GrainPcre | MatchKind::Ipcidr | MatchKind::Nodegroup => true,
            MatchKind::Compound => {
                let letters = |word: &str| word.starts_with(['G', 'P', 'S', 'N']) && word.contains('@');
                self.text.split_whitespace().any(letters)
            }
            _ => false,
        }
    }

    /// True when the target matches the node.
    ///
    /// # Errors
    /// Fails on an invalid regular expression on the id, on a target that is too expensive, and, unless lenient, on
    /// groups that are unknown, broken or contain themselves.
    pub fn matches(&self, subject: &dyn TargetSubject) -> Result<bool, TargetError> {
        let words = match &self.body {
            TargetBody::Tree(expr) => return evaluate(expr, subject),
            TargetBody::Never => return Ok(false),
            TargetBody::Words(words) => group::expand(words, subject.nodegroups(), self.lenient)?,
            TargetBody::Group(name) => group::members(name, subject.nodegroups(), self.lenient)?,
        };
        let ParsedTarget { expr, errors: faults } = parse::parse(&words);
        match (faults.into_iter().next(), expr) {
            (Some(fault), _) if !self.lenient => Err(fault),
            (_, Some(expr)) => evaluate(&expr, subject),
            (_, None) => Ok(false),
        }
    }
}

fn evaluate(expr: &Expr, subject: &dyn TargetSubject) -> Result<bool, TargetError> {
    expr.check_regexes()?;
    if subject.role() == SubjectRole::Manager && expr.addresses_resources_only() {
        return Ok(false);
    }
    expr.matches(subject)
}

impl fmt::Display for Target {
    /// The canonical spelling of the tree; parsing it gives the same tree.
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
mod resource_tests;
#[cfg(test)]
mod tests;
