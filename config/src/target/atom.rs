//! One comparison of a target: what follows `G@` and its like, or the whole text of a simple kind.

use std::fmt;

use super::cidr::Block;
use super::parse::Word;
use super::subdict::{self, How, Tree};
use super::{MatchKind, Subject, TargetError};
use crate::codes::top;
use crate::glob::Glob;
use crate::pattern::{Pattern, PatternError};
use crate::value::DEFAULT_DELIMITER;

/// One comparison.
#[derive(Clone, Debug)]
pub(super) struct Atom {
    kind: MatchKind,
    delimiter: Option<char>,
    text: String,
    column: u32,
    test: Test,
}

/// The comparison itself, made ready.
#[derive(Clone, Debug)]
enum Test {
    Glob(Glob),
    List,
    Pcre(Result<Box<Pattern>, PatternError>),
    Data {
        tree: Tree,
        how: How,
    },
    Address(Block),
    Resource {
        kind: Glob,
        id: Option<Glob>,
    },
    /// Not usable; Salt takes that for no.
    Never,
}

impl PartialEq for Atom {
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

impl Atom {
    /// True for a letter that stands before `@`.
    pub(super) fn has_letter(letter: char) -> bool {
        letter == 'R' || LETTERS.iter().any(|(known, _)| *known == letter)
    }

    /// The letter of a word that asks for pillar, with a delimiter of its own or without.
    pub(super) fn pillar_letter(word: &str) -> Option<char> {
        cut(word).0.filter(|letter| matches!(letter, 'I' | 'J'))
    }

    /// Reads a word of a compound target; the second part is a fault that leaves the tree standing.
    pub(super) fn of_word(word: &Word) -> Result<(Self, Option<TargetError>), TargetError> {
        let (letter, delimiter, text) = cut(&word.text);
        match letter {
            None => Ok(Self::of_kind(MatchKind::Glob, text, None, word.column)),
            Some('R') => Err(TargetError::new(
                top::TARGET_SYNTAX,
                format!("`{}`: range servers (`R@`) are not supported", word.text),
                word.column,
            )),
            Some(letter) => {
                let kind = LETTERS.iter().find(|(l, _)| *l == letter).map_or(MatchKind::Glob, |(_, k)| *k);
                Ok(Self::of_kind(kind, text, delimiter, word.column))
            }
        }
    }

    /// Reads the text of one kind; with a fault the comparison is made and says no.
    pub(super) fn of_kind(
        kind: MatchKind,
        text: &str,
        delimiter: Option<char>,
        column: u32,
    ) -> (Self, Option<TargetError>) {
        let (test, fault) = match Self::test(kind, text, delimiter, column) {
            Ok(test) => (test, None),
            Err(fault) => (Test::Never, Some(fault)),
        };
        let fault = match &test {
            Test::Pcre(Err(error)) => Some(TargetError::pattern(error, text, column)),
            _ => fault,
        };
        (Self { kind, delimiter, text: text.to_owned(), column, test }, fault)
    }

    fn test(kind: MatchKind, text: &str, delimiter: Option<char>, column: u32) -> Result<Test, TargetError> {
        let data = |tree, how| {
            let mark = delimiter.map_or_else(|| DEFAULT_DELIMITER.to_owned(), String::from);
            if !text.contains(&mark) {
                return Err(TargetError::new(
                    top::TARGET_KEY,
                    format!("`{text}` names a key and no value"),
                    column,
                )
                .with_hint(format!("`{text}{mark}*` asks whether the key is there")));
            }
            Ok(Test::Data { tree, how })
        };
        match kind {
            MatchKind::Glob | MatchKind::ManagingMinion => Ok(Test::Glob(Glob::new(text))),
            MatchKind::List => Ok(Test::List),
            // A group's words are put in before a tree is asked.
            MatchKind::Nodegroup | MatchKind::Compound => Ok(Test::Never),
            MatchKind::Pcre => Ok(Test::Pcre(Pattern::new(text).map(Box::new))),
            MatchKind::Grain => data(Tree::Grains, How::Glob),
            MatchKind::GrainPcre => {
                data(Tree::Grains, How::Pcre).and_then(|t| regular(t, text, delimiter, column))
            }
            MatchKind::Pillar => data(Tree::Pillar, How::Glob),
            MatchKind::PillarPcre => {
                data(Tree::Pillar, How::Pcre).and_then(|t| regular(t, text, delimiter, column))
            }
            MatchKind::PillarExact => data(Tree::Pillar, How::Exact),
            MatchKind::Ipcidr => Block::read(text).map(Test::Address).map_err(|why| {
                let error = TargetError::new(top::TARGET_ADDRESS, why.message, column);
                match why.network {
                    Some(network) => error.with_hint(format!("did you mean `{network}`?")),
                    None => error,
                }
            }),
            MatchKind::Resource => {
                let (kind, id) = text.split_once(':').map_or((text, None), |(kind, id)| (kind, Some(id)));
                Ok(Test::Resource { kind: Glob::new(kind), id: id.map(Glob::new) })
            }
        }
    }

    /// Fails when the comparison cannot even be tried.
    pub(super) fn ready(&self) -> Result<(), TargetError> {
        match &self.test {
            Test::Pcre(Err(error)) => Err(TargetError::pattern(error, &self.text, self.column)),
            _ => Ok(()),
        }
    }

    pub(super) fn matches(&self, subject: &dyn Subject) -> Result<bool, TargetError> {
        Ok(match &self.test {
            Test::Glob(glob) => glob.matches(subject.id()),
            Test::List => self.text.split(',').any(|id| id == subject.id()),
            Test::Pcre(pattern) => {
                let matched =
                    pattern.as_ref().map_err(Clone::clone).and_then(|p| p.matches_start(subject.id()));
                matched.map_err(|error| TargetError::pattern(&error, &self.text, self.column))?
            }
            Test::Data { tree, how } => {
                let mark = self.delimiter.map_or_else(|| DEFAULT_DELIMITER.to_owned(), String::from);
                return subdict::matches(subject, *tree, &self.text, &mark, *how);
            }
            Test::Address(block) => block.holds(subject),
            Test::Resource { kind, id } => subject.resources().iter().any(|(own_kind, own_id)| {
                kind.matches(own_kind) && id.as_ref().is_none_or(|id| id.matches(own_id))
            }),
            Test::Never => false,
        })
    }
}

/// A regular expression on data must be one at its end, whichever part of the text turns out to be the key.
fn regular(test: Test, text: &str, delimiter: Option<char>, column: u32) -> Result<Test, TargetError> {
    let mark = delimiter.unwrap_or(':');
    let valid = text.match_indices(mark).any(|(i, _)| {
        let value = &text[i + mark.len_utf8()..];
        Pattern::new(&value.to_lowercase()).is_ok()
    });
    if valid {
        return Ok(test);
    }
    let value = text.rsplit(mark).next().unwrap_or(text);
    let why = Pattern::new(&value.to_lowercase()).err().unwrap_or(PatternError::TooCostly);
    Err(TargetError::pattern(&why, value, column))
}

/// Cuts `G;@os;Debian` into letter, delimiter and text; a word without a letter is all text.
fn cut(word: &str) -> (Option<char>, Option<char>, &str) {
    let mut chars = word.chars();
    let Some(letter) = chars.next().filter(|c| Atom::has_letter(*c)) else {
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

impl fmt::Display for Atom {
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
