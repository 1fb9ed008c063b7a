//! Salt's colon paths: `a:b:0` walks into mappings by key and into lists by index or by name.

use super::Value;

/// The default separator between the steps of a path.
pub const DEFAULT_DELIMITER: &str = ":";

/// Follows `path`; `None` when a step does not exist.
///
/// A key that exists as written takes precedence over its parts. In a list a step is an index, or else the
/// first mapping that has it as a key. Numeric steps also find integer keys.
#[must_use]
pub fn traverse<'v>(value: &'v Value, path: &str, delimiter: &str) -> Option<&'v Value> {
    let mut at = value;
    if delimiter.is_empty() {
        return lookup_step(at, path);
    }
    for part in path.split(delimiter) {
        at = lookup_step(at, part)?;
    }
    Some(at)
}

fn lookup_step<'v>(value: &'v Value, part: &str) -> Option<&'v Value> {
    match value {
        Value::Map(map) => {
            map.get(part).or_else(|| part.parse::<i64>().ok().and_then(|i| map.get_value(&Value::Int(i))))
        }
        Value::List(list) => match part.parse::<i64>() {
            Ok(i) => list_index(list, i),
            Err(_) => list.iter().find_map(|v| v.as_map().and_then(|m| m.get(part))),
        },
        _ => None,
    }
}

fn list_index(list: &[Value], i: i64) -> Option<&Value> {
    let len = i64::try_from(list.len()).ok()?;
    let i = if i < 0 { len + i } else { i };
    usize::try_from(i).ok().and_then(|i| list.get(i))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Value {
        Value::from_json_str(r#"{"a": {"b": [10, {"c": "x"}]}, "n": {"80": "str"}, "z": null}"#).unwrap()
    }

    #[test]
    fn walks() {
        let v = sample();
        for (path, want) in [
            ("a:b:0", Some(Value::Int(10))),
            ("a:b:1:c", Some(Value::from("x"))),
            ("a:b:c", Some(Value::from("x"))),
            ("a:b:-2", Some(Value::Int(10))),
            ("a:b:7", None),
            ("n:80", Some(Value::from("str"))),
            ("z", Some(Value::Null)),
            ("z:q", None),
            ("nope", None),
        ] {
            assert_eq!(traverse(&v, path, ":").cloned(), want, "{path}");
        }
    }
}
