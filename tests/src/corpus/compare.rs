//! Two JSON values in, whether Salt and zagent mean the same out.

use std::collections::BTreeSet;

use serde_json::Value;

/// The maximum difference of two floating-point numbers.
const EPSILON: f64 = 1e-9;

/// Whether two values are equal: types count, the order of keys does not, floats may differ slightly.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) if x.is_f64() || y.is_f64() => {
            x.as_f64().zip(y.as_f64()).is_some_and(|(x, y)| (x - y).abs() < EPSILON)
        }
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| equal(x, y)))
        }
        _ => a == b,
    }
}

/// The requisites of one kind as a set: Salt repeats some, and their order has no meaning.
pub(crate) fn requisites(value: Option<&Value>) -> BTreeSet<(String, String)> {
    let items = match value {
        None => return BTreeSet::new(),
        Some(Value::Array(items)) => items.as_slice(),
        Some(one) => std::slice::from_ref(one),
    };
    let mut set = BTreeSet::new();
    for item in items {
        match item {
            Value::Object(map) => {
                set.extend(map.iter().map(|(key, target)| (key.clone(), target.to_string())));
            }
            bare => {
                set.insert(("id".to_owned(), bare.to_string()));
            }
        }
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_count_and_key_order_does_not() {
        assert!(equal(&json!({"a": 1, "b": [1.0, null]}), &json!({"b": [1.000_000_000_01, null], "a": 1})));
        for (a, b) in [
            (json!(1), json!(true)),
            (json!("1"), json!(1)),
            (json!([1]), json!([1, 1])),
            (json!({"a": null}), json!({})),
        ] {
            assert!(!equal(&a, &b), "{a} {b}");
        }
    }

    #[test]
    fn requisites_are_a_set_and_a_bare_string_is_an_id() {
        let one = requisites(Some(&json!([{"file": "x"}, "y", {"file": "x"}])));
        assert_eq!(one, requisites(Some(&json!([{"id": "y"}, {"file": "x"}]))));
        assert_ne!(one, requisites(Some(&json!([{"file": "y"}]))));
        assert!(requisites(None).is_empty());
    }
}
