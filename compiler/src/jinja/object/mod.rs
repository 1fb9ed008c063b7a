//! Template values that behave like Python's: dictionaries and lists that change in place and are shared.
//!
//! Law: no lock is held while another value is compared, printed or called; any value that a template builds can be
//! printed, compared, converted and dropped without overflowing the stack (held by
//! `a_value_that_contains_itself_prints_and_compares_and_is_rejected_as_data`,
//! `deep_nesting_is_dropped_without_recursion`).
//!
//! # What minijinja's operators do with these objects
//!
//! `==`, `!=`, `in`, `not in`, iteration, unpacking, truth, `x[i]` (negative too), `x.attr` and method calls reach the
//! objects here and act as in Python. Literals, arithmetic on sequences and slices do not: minijinja builds its own
//! constant containers and lazy iterables, so the source pass writes those as filters. Every place that stores a value
//! takes it through [`own`], so only values that are neither stored nor printed stay lazy. For the source pass there are
//! the method `x.__slice(start, stop, step)` on every value and the filter `__pct` for `'..' % x`.

pub mod budget;
mod container;
mod convert;
mod dict;
mod generator;
mod key;
mod lazy;
mod list;
mod repr;
mod view;
mod watch;

pub use self::convert::{
    is_native_map, is_native_sequence, items_of, pairs_of, to_document, to_storable, to_template, to_value,
    type_name,
};
pub use self::dict::{Dict, PyDict, dict};
pub use self::generator::{Generator, PyRange, generator};
pub use self::key::{DictKey, is_hashable};
pub use self::lazy::{LazyDict, LazySource};
pub(super) use self::list::counted_tuple;
pub use self::list::{PyList, list, resolve_index, tuple};
pub use self::repr::{
    RefusedUndefined, float_text, is_printable, object_address, py_str, py_str_checked, py_str_printed, repr,
    write_repr, write_str,
};
pub use self::view::{BoundMethod, DictView, ViewKind};
pub(super) use self::watch::watch_dict;

#[cfg(test)]
mod tests {
    use minijinja::value::Value;
    use zagent_config::Value as Data;

    use super::*;

    fn data(json: &str) -> Data {
        Data::from_json_str(json).unwrap()
    }

    #[test]
    fn data_is_returned_unchanged() {
        let v = data(r#"{"a": [1, 2.5, null, true, {"b": "c"}], "d": {}}"#);
        let t = to_template(&v);
        assert_eq!(to_value(&t).unwrap(), v);
        assert_eq!(py_str(&t), "{'a': [1, 2.5, None, True, {'b': 'c'}], 'd': {}}");
        assert_eq!(to_value(&t).unwrap(), v);
        assert_eq!(t, to_template(&v));
    }

    #[test]
    fn a_value_that_contains_itself_prints_and_compares_and_is_rejected_as_data() {
        let (a, b) = (list(vec![]), list(vec![]));
        for v in [&a, &b] {
            v.downcast_object_ref::<PyList>().unwrap().with(|items| items.push(v.clone()));
        }
        assert_eq!(py_str(&a), "[[...]]");
        assert!(a != b);
        assert!(to_value(&a).unwrap_err().to_string().contains("contains itself"));
    }

    #[test]
    fn deep_nesting_is_dropped_without_recursion() {
        let mut v = list(vec![]);
        for i in 0..200_000 {
            v = if i % 2 == 0 {
                list(vec![v])
            } else {
                dict([(DictKey::from("k"), v)].into_iter().collect())
            };
        }
        assert!(py_str(&v).contains("..."));
        assert!(to_value(&v).is_err());
        drop(v);
    }

    #[test]
    fn wide_sharing_is_an_error_and_does_not_fill_memory() {
        let mut v = list(vec![Value::from(1)]);
        for _ in 0..60 {
            v = list(vec![v.clone(), v]);
        }
        let _scope = budget::BudgetScope::enter(&crate::TreeLimits {
            output: 100_000,
            ..crate::TreeLimits::default()
        });
        assert!(py_str(&v).len() < 110_000);
        assert!(to_value(&v).is_err());
    }
}
