//! Named groups put into a target word by word, as Salt does it.
//!
//! Law: a group never contains itself; in a strict target that is an error, in a lenient one the inner mention is
//! left away, and so is a group that is not there.

use super::TargetError;
use super::parse::{Word, split};
use crate::codes::top;
use crate::suggest;
use crate::text::python_str;
use crate::value::{Map, Value};

/// Words that all groups of one target may add up to.
const MAX_WORDS: usize = 10_000;
/// Groups inside groups.
const MAX_DEPTH: usize = 64;

/// The words of a target with every `N@group` replaced.
pub(super) fn expand(words: &[Word], groups: &Map, lenient: bool) -> Result<Vec<Word>, TargetError> {
    let mut out = Vec::with_capacity(words.len());
    let mut walk = Walk { groups, lenient, open: Vec::new(), made: 0 };
    for word in words {
        match word.group() {
            Some(name) => out.extend(walk.outer(name, word.column)?),
            None => out.push(word.clone()),
        }
    }
    Ok(out)
}

/// The words of one group.
pub(super) fn members(name: &str, groups: &Map, lenient: bool) -> Result<Vec<Word>, TargetError> {
    Walk { groups, lenient, open: Vec::new(), made: 0 }.outer(name, 0)
}

struct Walk<'g> {
    groups: &'g Map,
    lenient: bool,
    open: Vec<String>,
    made: usize,
}

impl Walk<'_> {
    /// A group named by the target itself: without groups inside it brings its words as they stand.
    fn outer(&mut self, name: &str, column: u32) -> Result<Vec<Word>, TargetError> {
        let Some(words) = self.definition(name, column)? else { return Ok(Vec::new()) };
        if words.iter().any(Word::names_group) {
            return self.inside(name, &words, column);
        }
        Ok(names(&words).unwrap_or(words))
    }

    /// A group with groups inside, or inside another: its words come in parentheses.
    fn inside(&mut self, name: &str, words: &[Word], column: u32) -> Result<Vec<Word>, TargetError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(TargetError::new(
                top::TARGET_GROUP,
                format!("groups nest deeper than {MAX_DEPTH} at `{name}`"),
                column,
            ));
        }
        self.open.push(name.to_owned());
        let mut out = Vec::with_capacity(words.len() + 2);
        for word in words {
            let Some(inner) = word.group() else {
                out.push(word.clone());
                continue;
            };
            let Some(inner_words) = self.definition(inner, column)? else { continue };
            match names(&inner_words) {
                Some(joined) => out.extend(joined),
                None => out.extend(self.inside(inner, &inner_words, column)?),
            }
        }
        self.open.pop();
        self.made += out.len();
        if self.made > MAX_WORDS {
            return Err(TargetError::costly(&format!("the group `{name}`")));
        }
        if !out.is_empty() {
            out.insert(0, word("("));
            out.push(word(")"));
        }
        Ok(out)
    }

    /// The words a group was given; `None` when it cannot be used and the target is lenient.
    fn definition(&self, name: &str, column: u32) -> Result<Option<Vec<Word>>, TargetError> {
        let fault = |message: String| TargetError::new(top::TARGET_GROUP, message, column);
        let error = if self.open.iter().any(|open| open == name) {
            let way = self.open.join("` → `");
            fault(format!("the group `{name}` contains itself: `{way}` → `{name}`"))
        } else {
            match self.groups.get(name) {
                Some(Value::Str(text)) => {
                    return Ok(Some(split(text).into_iter().map(|w| word(&w.text)).collect()));
                }
                Some(Value::List(list)) => {
                    return Ok(Some(list.iter().map(|v| word(&python_str(v))).collect()));
                }
                Some(other) => {
                    fault(format!("the group `{name}` is {}, not a target or a list", other.kind()))
                }
                None => {
                    let error = fault(format!("there is no group `{name}`"));
                    match suggest::nearest(name, self.groups.keys().filter_map(Value::as_str)) {
                        Some(near) => error.with_hint(format!("did you mean `{near}`?")),
                        None => error,
                    }
                }
            }
        };
        if self.lenient { Ok(None) } else { Err(error) }
    }
}

fn word(text: &str) -> Word {
    Word { text: text.to_owned(), column: 0 }
}

/// A group of plain names is a list of ids; with signs of a regular expression among them, one expression.
fn names(words: &[Word]) -> Option<Vec<Word>> {
    let plain = |text: &str| {
        let typed = text.chars().next().is_some_and(|c| c.is_ascii_uppercase()) && text[1..].starts_with('@');
        !typed && !text.contains('*') && !matches!(text, "and" | "or" | "not" | "(" | ")")
    };
    if !words.iter().all(|w| plain(&w.text)) {
        return None;
    }
    let expression = words.iter().any(|w| w.text.contains(['(', '[', '{', '\\', '?', '}', ']', ')']));
    let joined = words.iter().map(|w| w.text.as_str()).collect::<Vec<_>>().join(",");
    Some(vec![word(&format!("{}@{joined}", if expression { 'E' } else { 'L' }))])
}
