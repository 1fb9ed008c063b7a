//! Salt's strategies to merge two values: smart, recurse, aggregate, overwrite, none.

use std::str::FromStr;

use super::{Map, Value};

/// How two pillars (or two dictionaries of a formula) are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MergeStrategy {
    /// Recurse, unless the renderer requests aggregation.
    #[default]
    Smart,
    /// Mappings merge, everything else is replaced.
    Recurse,
    /// Values with an aggregation tag are aggregated; all others are overwritten. Plain YAML has no such tags.
    Aggregate,
    /// The later top-level key replaces the earlier one entirely.
    Overwrite,
    /// Only the current environment is used, then as recurse.
    None,
}

impl MergeStrategy {
    /// Every strategy by its name in a configuration file.
    pub const NAMES: [&'static str; 5] = ["smart", "recurse", "aggregate", "overwrite", "none"];
}

impl FromStr for MergeStrategy {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Ok(match name {
            "smart" => Self::Smart,
            "recurse" => Self::Recurse,
            "aggregate" => Self::Aggregate,
            "overwrite" => Self::Overwrite,
            "none" => Self::None,
            _ => return Err(()),
        })
    }
}

/// Merges `over` into `base` by a strategy; with `lists`, a recursive merge concatenates lists.
#[must_use]
pub fn merge(base: &Value, over: &Value, strategy: MergeStrategy, lists: bool) -> Value {
    match (base, over) {
        (Value::Map(a), Value::Map(b)) => match strategy {
            MergeStrategy::Overwrite | MergeStrategy::Aggregate => overwrite(a, b),
            MergeStrategy::None => merge_recurse(a, b, false),
            MergeStrategy::Smart | MergeStrategy::Recurse => merge_recurse(a, b, lists),
        },
        _ => over.clone(),
    }
}

fn overwrite(base: &Map, over: &Map) -> Value {
    let mut out = base.clone();
    for e in over.entries() {
        out.insert_at(e.key.clone(), e.value.clone(), e.at);
    }
    out.into()
}

/// Merges mappings recursively: the later value wins, unless both are mappings, or both are lists and
/// `lists` is set, which appends the new items.
#[must_use]
pub fn merge_recurse(base: &Map, over: &Map, lists: bool) -> Value {
    let mut out = base.clone();
    for e in over.entries() {
        let merged = match (out.get_value(&e.key), &e.value) {
            (Some(Value::Map(a)), Value::Map(b)) => merge_recurse(a, b, lists),
            (Some(Value::List(a)), Value::List(b)) if lists => {
                let mut all = a.to_vec();
                all.extend(b.iter().filter(|v| !a.contains(v)).cloned());
                all.into()
            }
            _ => e.value.clone(),
        };
        out.insert_at(e.key.clone(), merged, e.at);
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(json: &str) -> Value {
        Value::from_json_str(json).unwrap()
    }

    #[test]
    fn strategies() {
        let (a, b) = (v(r#"{"d": {"x": 1, "l": [1]}, "k": 1}"#), v(r#"{"d": {"y": 2, "l": [1, 2]}}"#));
        for (strategy, lists, want) in [
            (MergeStrategy::Recurse, false, r#"{"d": {"x": 1, "l": [1, 2], "y": 2}, "k": 1}"#),
            (MergeStrategy::Smart, true, r#"{"d": {"x": 1, "l": [1, 2], "y": 2}, "k": 1}"#),
            (MergeStrategy::Aggregate, false, r#"{"d": {"y": 2, "l": [1, 2]}, "k": 1}"#),
            (MergeStrategy::Overwrite, false, r#"{"d": {"y": 2, "l": [1, 2]}, "k": 1}"#),
        ] {
            assert_eq!(merge(&a, &b, strategy, lists), v(want), "{strategy:?}");
        }
    }
}
