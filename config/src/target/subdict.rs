//! `key:value` looked for in grains or pillar: the longest key that leads somewhere is tried first, then shorter ones.
//!
//! Law: whatever the text and the data, the number of comparisons is bounded.

use super::{Subject, TargetError};
use crate::glob::Glob;
use crate::pattern::{Pattern, PatternError};
use crate::text::python_str;
use crate::value::{DEFAULT_DELIMITER, Map, Value, traverse};

/// Comparisons that one question may cost.
const MAX_STEPS: u32 = 50_000;
/// Nested questions that one question may lead to.
const MAX_DEPTH: u32 = 50;

/// Where to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    Grains,
    Pillar,
}

/// How the value is compared; always without regard to case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Glob,
    Pcre,
    Exact,
}

/// Asks for `expr` in the subject's data.
pub(super) fn matches(
    subject: &dyn Subject,
    tree: Tree,
    expr: &str,
    delimiter: &str,
    how: How,
) -> Result<bool, TargetError> {
    let data = match tree {
        Tree::Grains => Data::Grains(subject),
        Tree::Pillar => Data::Value(subject.pillar()),
    };
    let mut search = Search { how, steps: 0, depth: 0 };
    search.question(&data, expr, delimiter).map_err(|_| TargetError::costly(&format!("`{expr}`")))
}

/// Too many steps.
struct Costly;

/// Where a question starts: grains are collected one by one as they are asked for.
enum Data<'s> {
    Grains(&'s dyn Subject),
    Value(Value),
}

impl Data<'_> {
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

    fn whole(&self) -> Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::Grains(subject) => subject.grains(),
        }
    }
}

/// A value's pattern, made ready.
enum Wanted {
    Glob(Glob),
    Pcre(Option<Pattern>),
    Exact(String),
}

impl Wanted {
    fn new(how: How, pattern: &str) -> Self {
        let pattern = pattern.to_lowercase();
        match how {
            How::Glob => Self::Glob(Glob::new(&pattern)),
            How::Pcre => Self::Pcre(Pattern::new(&pattern).ok()),
            How::Exact => Self::Exact(pattern),
        }
    }
}

struct Search {
    how: How,
    steps: u32,
    depth: u32,
}

impl Search {
    fn question(&mut self, data: &Data<'_>, expr: &str, delimiter: &str) -> Result<bool, Costly> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Costly);
        }
        let mut answer = false;
        for (at, _) in expr.rmatch_indices(delimiter) {
            let (key, value) = (&expr[..at], &expr[at + delimiter.len()..]);
            self.step()?;
            let (found, value) =
                if key == "*" { (Some(data.whole()), expr) } else { (data.find(key, delimiter), value) };
            if let Some(found) = found
                && self.found(&found, value)?
            {
                answer = true;
                break;
            }
        }
        self.depth -= 1;
        Ok(answer)
    }

    fn found(&mut self, found: &Value, value: &str) -> Result<bool, Costly> {
        match found {
            Value::Map(map) if map.is_empty() => Ok(false),
            Value::Map(map) => self.in_map(map, value),
            Value::List(list) => {
                let wanted = Wanted::new(self.how, value);
                for member in list.iter() {
                    if let Value::Map(map) = member
                        && self.in_map(map, value)?
                    {
                        return Ok(true);
                    }
                    if self.is(member, &wanted)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            other => {
                let wanted = Wanted::new(self.how, value);
                self.is(other, &wanted)
            }
        }
    }

    /// A mapping is right when it has a key of that name, or holds the question in turn; `*:` looks one level deeper.
    fn in_map(&mut self, map: &Map, pattern: &str) -> Result<bool, Costly> {
        self.step()?;
        let (wildcard, pattern) = match pattern.strip_prefix("*:") {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        if pattern == "*" || map.contains(pattern) {
            return Ok(true);
        }
        let wanted = Wanted::new(self.how, pattern);
        for key in map.keys() {
            if self.is(key, &wanted)? {
                return Ok(true);
            }
        }
        // Not the caller's delimiter: below the first level Salt always asks with its own.
        if self.question(&Data::Value(Value::from(map.clone())), pattern, DEFAULT_DELIMITER)? {
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
                        return Err(Costly);
                    }
                    let matched = self.in_map(inner, pattern)?;
                    self.depth -= 1;
                    matched
                }
                Value::List(list) => {
                    let mut any = false;
                    for item in list.iter() {
                        any = any || self.is(item, &wanted)?;
                    }
                    any
                }
                other => self.is(other, &wanted)?,
            };
            if matched {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is(&mut self, value: &Value, wanted: &Wanted) -> Result<bool, Costly> {
        self.step()?;
        let text = python_str(value).to_lowercase();
        match wanted {
            Wanted::Glob(glob) => Ok(glob.matches(&text)),
            Wanted::Exact(exact) => Ok(*exact == text),
            Wanted::Pcre(None) => Ok(false),
            Wanted::Pcre(Some(pattern)) => match pattern.matches_start(&text) {
                Ok(matched) => Ok(matched),
                Err(PatternError::TooCostly | PatternError::Syntax(_)) => Err(Costly),
            },
        }
    }

    fn step(&mut self) -> Result<(), Costly> {
        self.steps += 1;
        if self.steps > MAX_STEPS { Err(Costly) } else { Ok(()) }
    }
}
