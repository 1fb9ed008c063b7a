//! The tree of a compound target: evaluates it, and prints it so that parsing gives the same tree.

use std::fmt;

use super::atom::TargetAtom;
use super::{TargetError, TargetSubject};

/// A target as a tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    /// One comparison.
    Atom(TargetAtom),
    /// Not the other.
    Not(Box<Self>),
    /// All of them; at least two.
    All(Vec<Self>),
    /// Any of them; at least two.
    Any(Vec<Self>),
    /// An empty pair of parentheses: never matches.
    Never,
}

impl Expr {
    pub(super) fn matches(&self, subject: &dyn TargetSubject) -> Result<bool, TargetError> {
        match self {
            Self::Atom(atom) => atom.matches(subject),
            Self::Not(inner) => Ok(!inner.matches(subject)?),
            Self::All(parts) => {
                for part in parts {
                    if !part.matches(subject)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(parts) => {
                for part in parts {
                    if part.matches(subject)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Never => Ok(false),
        }
    }

    /// In Salt, an invalid regular expression on the id fails the whole target, so `or` must not hide it.
    pub(super) fn check_regexes(&self) -> Result<(), TargetError> {
        match self {
            Self::Atom(atom) => atom.check_regex(),
            Self::Not(inner) => inner.check_regexes(),
            Self::All(parts) | Self::Any(parts) => parts.iter().try_for_each(Self::check_regexes),
            Self::Never => Ok(()),
        }
    }

    /// True when every comparison is about resources (`T@`, `M@`).
    pub(super) fn addresses_resources_only(&self) -> bool {
        match self {
            Self::Atom(atom) => atom.addresses_resources(),
            Self::Not(inner) => inner.addresses_resources_only(),
            Self::All(parts) | Self::Any(parts) => parts.iter().all(Self::addresses_resources_only),
            Self::Never => true,
        }
    }

    fn write_joined(parts: &[Self], word: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                write!(f, " {word} ")?;
            }
            match part {
                Self::All(_) | Self::Any(_) => write!(f, "( {part} )")?,
                other => write!(f, "{other}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Atom(atom) => atom.fmt(f),
            Self::Not(inner) => match &**inner {
                Self::Atom(_) | Self::Never => write!(f, "not {inner}"),
                _ => write!(f, "not ( {inner} )"),
            },
            Self::All(parts) => Self::write_joined(parts, "and", f),
            Self::Any(parts) => Self::write_joined(parts, "or", f),
            Self::Never => f.write_str("( )"),
        }
    }
}
