//! Expands named groups in a target word by word, as Salt does.
//!
//! Law: a group never contains itself; in a strict target that is an error, in a lenient one the inner reference is
//! dropped, and so is an unknown group (held by `a_strict_target_names_the_invalid_group`,
//! `a_lenient_target_matches_as_salt`).

use super::TargetError;
use super::parse::{TargetToken, tokenize};
use crate::codes::top;
use crate::py_text::python_str;
use crate::suggest;
use crate::value::{Map, Value};

/// Maximum number of words from all groups of one target.
const MAX_WORDS: usize = 10_000;
/// Maximum nesting of groups.
const MAX_DEPTH: usize = 64;

/// The words of a target with every `N@group` replaced.
pub(super) fn expand(
    words: &[TargetToken],
    groups: &Map,
    lenient: bool,
) -> Result<Vec<TargetToken>, TargetError> {
    let mut out = Vec::with_capacity(words.len());
    let mut walk = GroupExpander { groups, lenient, open: Vec::new(), made: 0 };
    for word in words {
        match word.group() {
            Some(name) => out.extend(walk.expand_outer(name, word.column)?),
            None => out.push(word.clone()),
        }
    }
    Ok(out)
}

/// The words of one group.
pub(super) fn members(name: &str, groups: &Map, lenient: bool) -> Result<Vec<TargetToken>, TargetError> {
    GroupExpander { groups, lenient, open: Vec::new(), made: 0 }.expand_outer(name, 0)
}

struct GroupExpander<'g> {
    groups: &'g Map,
    lenient: bool,
    open: Vec<String>,
    made: usize,
}

impl GroupExpander<'_> {
    /// A group named by the target itself: without nested groups its words are inserted as they are.
    fn expand_outer(&mut self, name: &str, column: u32) -> Result<Vec<TargetToken>, TargetError> {
        let Some(words) = self.definition(name, column)? else { return Ok(Vec::new()) };
        if words.iter().any(TargetToken::names_group) {
            return self.expand_nested(name, &words, column);
        }
        Ok(join_plain_ids(&words).unwrap_or(words))
    }

    /// A group with nested groups, or inside another group: its words are inserted in parentheses.
    fn expand_nested(
        &mut self,
        name: &str,
        words: &[TargetToken],
        column: u32,
    ) -> Result<Vec<TargetToken>, TargetError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(TargetError::new(
                top::TARGET_GROUP,
                format!("groups are nested deeper than {MAX_DEPTH} at `{name}`"),
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
            match join_plain_ids(&inner_words) {
                Some(joined) => out.extend(joined),
                None => out.extend(self.expand_nested(inner, &inner_words, column)?),
            }
        }
        self.open.pop();
        self.made += out.len();
        if self.made > MAX_WORDS {
            return Err(TargetError::too_costly(&format!("the group `{name}`")));
        }
        if !out.is_empty() {
            out.insert(0, token("("));
            out.push(token(")"));
        }
        Ok(out)
    }

    /// The words of a group; `None` when it cannot be used and the target is lenient.
    fn definition(&self, name: &str, column: u32) -> Result<Option<Vec<TargetToken>>, TargetError> {
        let fault = |message: String| TargetError::new(top::TARGET_GROUP, message, column);
        let error = if self.open.iter().any(|open| open == name) {
            let way = self.open.join("` → `");
            fault(format!("the group `{name}` contains itself: `{way}` → `{name}`"))
        } else {
            match self.groups.get(name) {
                Some(Value::Str(text)) => {
                    return Ok(Some(tokenize(text).into_iter().map(|w| token(&w.text)).collect()));
                }
                Some(Value::List(list)) => {
                    return Ok(Some(list.iter().map(|v| token(&python_str(v))).collect()));
                }
                Some(other) => {
                    fault(format!("the group `{name}` is {}, not a target or a list", other.kind()))
                }
                None => {
                    let error = fault(format!("unknown group `{name}`"));
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

fn token(text: &str) -> TargetToken {
    TargetToken { text: text.to_owned(), column: 0 }
}

/// A group of plain names is a list of ids; if any name contains regular expression characters, one expression.
fn join_plain_ids(words: &[TargetToken]) -> Option<Vec<TargetToken>> {
    let plain = |text: &str| {
        let typed = text.chars().next().is_some_and(|c| c.is_ascii_uppercase()) && text[1..].starts_with('@');
        !typed && !text.contains('*') && !matches!(text, "and" | "or" | "not" | "(" | ")")
    };
    if !words.iter().all(|w| plain(&w.text)) {
        return None;
    }
    let expression = words.iter().any(|w| w.text.contains(['(', '[', '{', '\\', '?', '}', ']', ')']));
    let joined = words.iter().map(|w| w.text.as_str()).collect::<Vec<_>>().join(",");
    Some(vec![token(&format!("{}@{joined}", if expression { 'E' } else { 'L' }))])
}
