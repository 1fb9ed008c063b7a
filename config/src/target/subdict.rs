//! Looks up `key:value` in grains or pillar: the longest existing key is tried first, then shorter ones.
//!
//! Law: the number of comparisons is bounded for any text and data (held by `hostile_targets_terminate`).

use super::{TargetError, TargetSubject};
use crate::glob::Glob;
use crate::py_regex::{PyRegex, PyRegexError};
use crate::py_text::python_str;
use crate::value::{DEFAULT_DELIMITER, Map, Value, traverse};

/// Maximum comparisons per lookup.
const MAX_STEPS: u32 = 50_000;
/// Maximum nesting of lookups.
const MAX_DEPTH: u32 = 50;

/// Where to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchTree {
    Grains,
    Pillar,
}

/// How the value is compared; always case-insensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompareKind {
    Glob,
    Pcre,
    Exact,
}

/// Looks up `expr` in the node's data.
pub(super) fn matches(
    subject: &dyn TargetSubject,
    tree: MatchTree,
    expr: &str,
    delimiter: &str,
    how: CompareKind,
) -> Result<bool, TargetError> {
    let data = match tree {
        MatchTree::Grains => SearchRoot::Grains(subject),
        MatchTree::Pillar => SearchRoot::Value(subject.pillar()),
    };
    let mut search = SubdictSearch { compare: how, steps: 0, depth: 0 };
    search.matches_expr(&data, expr, delimiter).map_err(|_| TargetError::too_costly(&format!("`{expr}`")))
}

/// Too many steps.
struct TooManySteps;

/// Where a lookup starts: grains are collected one by one, on demand.
enum SearchRoot<'s> {
    Grains(&'s dyn TargetSubject),
    Value(Value),
}

impl SearchRoot<'_> {
    fn find(&self, path: &str, delimiter: &str) -> Option<Value> {
        match self {
            Self::Value(value) => traverse(value, path, delimiter).cloned(),
            Self::Grains(subject) => {
                let (first, rest) = path.split_once(delimiter).map_or((path, None), |(f, r)| (f, Some(r)));
                let value = subject.grain(first)?;
                match rest {
                    None => Some(value),
                    Some(rest) => traverse(&value, rest, delimiter).cloned(),
                }
            }
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::Grains(subject) => subject.grains(),
        }
    }
}

/// The prepared pattern for a value.
enum ValueMatcher {
    Glob(Glob),
    Pcre(Option<PyRegex>),
    Exact(String),
}

impl ValueMatcher {
    fn new(how: CompareKind, pattern: &str) -> Self {
        let pattern = pattern.to_lowercase();
        match how {
            CompareKind::Glob => Self::Glob(Glob::new(&pattern)),
            CompareKind::Pcre => Self::Pcre(PyRegex::new(&pattern).ok()),
            CompareKind::Exact => Self::Exact(pattern),
        }
    }
}

struct SubdictSearch {
    compare: CompareKind,
    steps: u32,
    depth: u32,
}

impl SubdictSearch {
    fn matches_expr(
        &mut self,
        data: &SearchRoot<'_>,
        expr: &str,
        delimiter: &str,
    ) -> Result<bool, TooManySteps> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(TooManySteps);
        }
        let mut answer = false;
        for (at, _) in expr.rmatch_indices(delimiter) {
            let (key, value) = (&expr[..at], &expr[at + delimiter.len()..]);
            self.count_step()?;
            let (found, value) =
                if key == "*" { (Some(data.to_value()), expr) } else { (data.find(key, delimiter), value) };
            if let Some(found) = found
                && self.matches_found(&found, value)?
            {
                answer = true;
                break;
            }
        }
        self.depth -= 1;
        Ok(answer)
    }

    fn matches_found(&mut self, found: &Value, value: &str) -> Result<bool, TooManySteps> {
        match found {
            Value::Map(map) if map.is_empty() => Ok(false),
            Value::Map(map) => self.matches_map(map, value),
            Value::List(list) => {
                let matcher = ValueMatcher::new(self.compare, value);
                for member in list.iter() {
                    if let Value::Map(map) = member
                        && self.matches_map(map, value)?
                    {
                        return Ok(true);
                    }
                    if self.matches_scalar(member, &matcher)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            other => {
                let matcher = ValueMatcher::new(self.compare, value);
                self.matches_scalar(other, &matcher)
            }
        }
    }

    /// A mapping matches when it has a key of that name, or when the lookup matches inside it; `*:` looks one level deeper.
    fn matches_map(&mut self, map: &Map, pattern: &str) -> Result<bool, TooManySteps> {
        self.count_step()?;
        let (wildcard, pattern) = match pattern.strip_prefix("*:") {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        if pattern == "*" || map.contains(pattern) {
            return Ok(true);
        }
        let matcher = ValueMatcher::new(self.compare, pattern);
        for key in map.keys() {
            if self.matches_scalar(key, &matcher)? {
                return Ok(true);
            }
        }
        // Not the caller's delimiter: below the first level Salt always uses the default one.
        if self.matches_expr(&SearchRoot::Value(Value::from(map.clone())), pattern, DEFAULT_DELIMITER)? {
            return Ok(true);
        }
        if !wildcard {
            return Ok(false);
        }
        for value in map.values() {
            let matched = match value {
                Value::Map(inner) => {
                    self.depth += 1;
                    if self.depth > MAX_DEPTH {
                        return Err(TooManySteps);
                    }
                    let matched = self.matches_map(inner, pattern)?;
                    self.depth -= 1;
                    matched
                }
                Value::List(list) => {
                    let mut any = false;
                    for item in list.iter() {
                        any = any || self.matches_scalar(item, &matcher)?;
                    }
                    any
                }
                other => self.matches_scalar(other, &matcher)?,
            };
            if matched {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn matches_scalar(&mut self, value: &Value, matcher: &ValueMatcher) -> Result<bool, TooManySteps> {
        self.count_step()?;
        let text = python_str(value).to_lowercase();
        match matcher {
            ValueMatcher::Glob(glob) => Ok(glob.matches(&text)),
            ValueMatcher::Exact(exact) => Ok(*exact == text),
            ValueMatcher::Pcre(None) => Ok(false),
            ValueMatcher::Pcre(Some(pattern)) => match pattern.matches_start(&text) {
                Ok(matched) => Ok(matched),
                Err(PyRegexError::TooCostly | PyRegexError::Syntax(_)) => Err(TooManySteps),
            },
        }
    }

    fn count_step(&mut self) -> Result<(), TooManySteps> {
        self.steps += 1;
        if self.steps > MAX_STEPS { Err(TooManySteps) } else { Ok(()) }
    }
}
