//! One comparison of a target: the text after `G@` and similar letters, or the whole text of a simple target.

use std::fmt;

use super::cidr::CidrBlock;
use super::parse::TargetToken;
use super::subdict::{self, CompareKind, MatchTree};
use super::{MatchKind, SubjectRole, TargetError, TargetSubject};
use crate::codes::top;
use crate::glob::Glob;
use crate::py_regex::{PyRegex, PyRegexError};
use crate::value::DEFAULT_DELIMITER;

/// One comparison.
#[derive(Clone, Debug)]
pub(super) struct TargetAtom {
    kind: MatchKind,
    delimiter: Option<char>,
    text: String,
    column: u32,
    matcher: AtomMatcher,
}

/// The prepared comparison.
#[derive(Clone, Debug)]
enum AtomMatcher {
    Glob(Glob),
    List,
    Pcre(Result<Box<PyRegex>, PyRegexError>),
    Data {
        tree: MatchTree,
        how: CompareKind,
    },
    Address(CidrBlock),
    Resource {
        kind: String,
        id: Option<String>,
    },
    Manager,
    /// Not usable; as in Salt, it does not match.
    Never,
}

impl PartialEq for TargetAtom {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, self.delimiter, &self.text) == (other.kind, other.delimiter, &other.text)
    }
}

const LETTERS: [(char, MatchKind); 10] = [
    ('G', MatchKind::Grain),
    ('P', MatchKind::GrainPcre),
    ('I', MatchKind::Pillar),
    ('J', MatchKind::PillarPcre),
    ('L', MatchKind::List),
    ('N', MatchKind::Nodegroup),
    ('S', MatchKind::Ipcidr),
    ('E', MatchKind::Pcre),
    ('T', MatchKind::Resource),
    ('M', MatchKind::ManagingMinion),
];

impl TargetAtom {
    /// True for a matcher letter (the one before `@`).
    pub(super) fn has_letter(letter: char) -> bool {
        letter == 'R' || LETTERS.iter().any(|(known, _)| *known == letter)
    }

    /// The letter of a word that matches pillar, with or without its own delimiter.
    pub(super) fn pillar_letter(word: &str) -> Option<char> {
        split_prefix(word).0.filter(|letter| matches!(letter, 'I' | 'J'))
    }

    /// Reads a word of a compound target; the second part is an error that does not invalidate the tree.
    pub(super) fn from_token(word: &TargetToken) -> Result<(Self, Option<TargetError>), TargetError> {
        let (letter, delimiter, text) = split_prefix(&word.text);
        match letter {
            None => Ok(Self::with_kind(MatchKind::Glob, text, None, word.column)),
            Some('R') => Err(TargetError::new(
                top::TARGET_SYNTAX,
                format!("`{}`: range servers (`R@`) are not supported", word.text),
                word.column,
            )),
            Some(letter) => {
                let kind = LETTERS.iter().find(|(l, _)| *l == letter).map_or(MatchKind::Glob, |(_, k)| *k);
                Ok(Self::with_kind(kind, text, delimiter, word.column))
            }
        }
    }

    /// Reads the text of one kind; on an error the comparison exists but does not match.
    pub(super) fn with_kind(
        kind: MatchKind,
        text: &str,
        delimiter: Option<char>,
        column: u32,
    ) -> (Self, Option<TargetError>) {
        let (test, fault) = match Self::matcher_for(kind, text, delimiter, column) {
            Ok(test) => (test, None),
            Err(fault) => (AtomMatcher::Never, Some(fault)),
        };
        let fault = match &test {
            AtomMatcher::Pcre(Err(error)) => Some(TargetError::bad_regex(error, text, column)),
            _ => fault,
        };
        (Self { kind, delimiter, text: text.to_owned(), column, matcher: test }, fault)
    }

    fn matcher_for(
        kind: MatchKind,
        text: &str,
        delimiter: Option<char>,
        column: u32,
    ) -> Result<AtomMatcher, TargetError> {
        let data = |tree, how| {
            let mark = delimiter.map_or_else(|| DEFAULT_DELIMITER.to_owned(), String::from);
            if !text.contains(&mark) {
                return Err(TargetError::new(
                    top::TARGET_KEY,
                    format!("`{text}` has a key but no value"),
                    column,
                )
                .with_hint(format!("to match any value, write `{text}{mark}*`")));
            }
            Ok(AtomMatcher::Data { tree, how })
        };
        match kind {
            MatchKind::Glob => Ok(AtomMatcher::Glob(Glob::new(text))),
            MatchKind::ManagingMinion => Ok(AtomMatcher::Manager),
            MatchKind::List => Ok(AtomMatcher::List),
            // Groups are replaced by their words before the tree is evaluated.
            MatchKind::Nodegroup | MatchKind::Compound => Ok(AtomMatcher::Never),
            MatchKind::Pcre => Ok(AtomMatcher::Pcre(PyRegex::new(text).map(Box::new))),
            MatchKind::Grain => data(MatchTree::Grains, CompareKind::Glob),
            MatchKind::GrainPcre => data(MatchTree::Grains, CompareKind::Pcre)
                .and_then(|t| check_value_regex(t, text, delimiter, column)),
            MatchKind::Pillar => data(MatchTree::Pillar, CompareKind::Glob),
            MatchKind::PillarPcre => data(MatchTree::Pillar, CompareKind::Pcre)
                .and_then(|t| check_value_regex(t, text, delimiter, column)),
            MatchKind::PillarExact => data(MatchTree::Pillar, CompareKind::Exact),
            MatchKind::Ipcidr => CidrBlock::parse(text).map(AtomMatcher::Address).map_err(|why| {
                let error = TargetError::new(top::TARGET_ADDRESS, why.message, column);
                match why.network {
                    Some(network) => error.with_hint(format!("did you mean `{network}`?")),
                    None => error,
                }
            }),
            MatchKind::Resource => {
                let (kind, id) = text.split_once(':').map_or((text, None), |(kind, id)| (kind, Some(id)));
                Ok(AtomMatcher::Resource { kind: kind.to_owned(), id: id.map(str::to_owned) })
            }
        }
    }

    /// True when it is about resources and not about nodes.
    pub(super) const fn addresses_resources(&self) -> bool {
        matches!(self.kind, MatchKind::Resource | MatchKind::ManagingMinion)
    }

    /// True when a word is the `type:id` of the subject.
    fn is_full_name(word: &str, subject: &dyn TargetSubject) -> bool {
        let SubjectRole::Resource { kind, .. } = subject.role() else { return false };
        word.split_once(':') == Some((kind, subject.id()))
    }

    /// Fails when the comparison cannot be evaluated.
    pub(super) fn check_regex(&self) -> Result<(), TargetError> {
        match &self.matcher {
            AtomMatcher::Pcre(Err(error)) => Err(TargetError::bad_regex(error, &self.text, self.column)),
            _ => Ok(()),
        }
    }

    pub(super) fn matches(&self, subject: &dyn TargetSubject) -> Result<bool, TargetError> {
        let role = subject.role();
        Ok(match &self.matcher {
            AtomMatcher::Glob(glob) => glob.matches(subject.id()) || Self::is_full_name(&self.text, subject),
            AtomMatcher::List => self.text.split(',').any(|id| {
                let id = if role == SubjectRole::Node { id } else { id.trim() };
                id == subject.id() || Self::is_full_name(id, subject)
            }),
            AtomMatcher::Pcre(pattern) => {
                let matched =
                    pattern.as_ref().map_err(Clone::clone).and_then(|p| p.matches_start(subject.id()));
                matched.map_err(|error| TargetError::bad_regex(&error, &self.text, self.column))?
            }
            // What a resource gets as pillar is decided by the node; it says nothing about the resource.
            AtomMatcher::Data { tree: MatchTree::Pillar, .. }
                if matches!(role, SubjectRole::Resource { .. }) =>
            {
                false
            }
            AtomMatcher::Data { tree, how } => {
                let mark = self.delimiter.map_or_else(|| DEFAULT_DELIMITER.to_owned(), String::from);
                return subdict::matches(subject, *tree, &self.text, &mark, *how);
            }
            AtomMatcher::Address(block) => block.matches_subject(subject),
            AtomMatcher::Resource { kind, id } => match role {
                SubjectRole::Node => subject
                    .resources()
                    .iter()
                    .any(|(own_kind, own_id)| kind == own_kind && id.as_ref().is_none_or(|id| id == own_id)),
                SubjectRole::Manager => false,
                SubjectRole::Resource { kind: own, .. } => {
                    kind == own && id.as_ref().is_none_or(|id| id.is_empty() || id == subject.id())
                }
            },
            AtomMatcher::Manager => match role {
                SubjectRole::Node => self.text == subject.id(),
                SubjectRole::Manager => false,
                SubjectRole::Resource { manager, .. } => self.text == manager,
            },
            AtomMatcher::Never => false,
        })
    }
}

/// A regular expression on data must be valid at its end, whatever part of the text is the key.
fn check_value_regex(
    test: AtomMatcher,
    text: &str,
    delimiter: Option<char>,
    column: u32,
) -> Result<AtomMatcher, TargetError> {
    let mark = delimiter.unwrap_or(':');
    let valid = text.match_indices(mark).any(|(i, _)| {
        let value = &text[i + mark.len_utf8()..];
        PyRegex::new(&value.to_lowercase()).is_ok()
    });
    if valid {
        return Ok(test);
    }
    let value = text.rsplit(mark).next().unwrap_or(text);
    let why = PyRegex::new(&value.to_lowercase()).err().unwrap_or(PyRegexError::TooCostly);
    Err(TargetError::bad_regex(&why, value, column))
}

/// Splits `G;@os;Debian` into letter, delimiter and text; a word without a letter is all text.
fn split_prefix(word: &str) -> (Option<char>, Option<char>, &str) {
    let mut chars = word.chars();
    let Some(letter) = chars.next().filter(|c| TargetAtom::has_letter(*c)) else {
        return (None, None, word);
    };
    let rest = chars.as_str();
    if matches!(letter, 'G' | 'P' | 'I' | 'J') {
        let mut after = rest.chars();
        let delimiter = after.next();
        if let Some(text) = after.as_str().strip_prefix('@').filter(|text| !text.is_empty()) {
            return (Some(letter), delimiter, text);
        }
    }
    match rest.strip_prefix('@').filter(|text| !text.is_empty()) {
        Some(text) => (Some(letter), None, text),
        None => (None, None, word),
    }
}

impl fmt::Display for TargetAtom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((letter, _)) = LETTERS.iter().find(|(_, kind)| *kind == self.kind) {
            write!(f, "{letter}")?;
            if let Some(delimiter) = self.delimiter {
                write!(f, "{delimiter}")?;
            }
            f.write_str("@")?;
        }
        f.write_str(&self.text)
    }
}
