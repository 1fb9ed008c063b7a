//! The arguments of a call in, bound by name to the parameters of a function out.
//!
//! A signature is one line: `key default? merge?` (a question mark: optional), `*` takes further positional
//! arguments, `**` further named ones; parameters after `*` are named only.
//!
//! Law: an argument is never silently dropped (held by `arguments_are_bound_to_parameters`).

use zagent_config::suggest::nearest;

use super::FunctionError;

/// The arguments of one call, by name.
#[derive(Clone, Debug)]
pub struct FunctionArgs<V> {
    given: Vec<(&'static str, V)>,
    rest: Vec<V>,
    named: Vec<(String, V)>,
}

impl<V> FunctionArgs<V> {
    /// Binds the arguments.
    ///
    /// # Errors
    /// Fails when one is missing, one is too many, or one has an unknown name.
    pub fn bind(
        function: &str,
        signature: &'static str,
        args: Vec<V>,
        kwargs: Vec<(String, V)>,
    ) -> Result<Self, FunctionError> {
        let takes_rest = signature.split(' ').any(|w| w == "*");
        let takes_named = signature.split(' ').any(|w| w == "**");
        let positional = || signature_words(signature).take_while(|w| *w != "*");
        let known = || signature_words(signature).filter(|w| *w != "*");
        let mut bound = Self { given: Vec::new(), rest: Vec::new(), named: Vec::new() };
        let mut slots = positional();
        let count = args.len();
        for value in args {
            match slots.next() {
                Some(word) => bound.given.push((parameter_name(word), value)),
                None if takes_rest => bound.rest.push(value),
                None => {
                    let takes = positional().count();
                    let text = format!("`{function}` takes {takes} positional arguments, {count} were given");
                    return Err(FunctionError::bad_arguments(text));
                }
            }
        }
        for (name, value) in kwargs {
            match known().map(parameter_name).find(|k| *k == name) {
                Some(known) if bound.given.iter().any(|(n, _)| *n == known) => {
                    return Err(FunctionError::bad_arguments(format!(
                        "`{function}` was given `{name}` twice"
                    )));
                }
                Some(known) => bound.given.push((known, value)),
                None if takes_named => bound.named.push((name, value)),
                None => {
                    let near = nearest(&name, known().map(parameter_name));
                    return Err(FunctionError::Arguments {
                        message: format!("`{function}` has no argument `{name}`"),
                        hint: near.map(|n| format!("did you mean `{n}`?")),
                    });
                }
            }
        }
        for word in known().filter(|w| !w.ends_with('?')) {
            if bound.get(word).is_none() {
                return Err(FunctionError::bad_arguments(format!(
                    "`{function}` needs the argument `{word}`"
                )));
            }
        }
        Ok(bound)
    }

    /// An argument by its name in the signature.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&V> {
        self.given.iter().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// Positional arguments beyond the parameters.
    #[must_use]
    pub fn rest(&self) -> &[V] {
        &self.rest
    }

    /// Named arguments that the signature does not name.
    #[must_use]
    pub fn named(&self) -> &[(String, V)] {
        &self.named
    }
}

fn signature_words(signature: &'static str) -> impl Iterator<Item = &'static str> {
    signature.split(' ').filter(|w| !w.is_empty() && *w != "**")
}

fn parameter_name(word: &'static str) -> &'static str {
    word.strip_suffix('?').unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(signature: &'static str, args: &[i32], kwargs: &[(&str, i32)]) -> Result<String, String> {
        let kwargs = kwargs.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
        match FunctionArgs::bind("m.f", signature, args.to_vec(), kwargs) {
            Ok(b) => Ok(format!("{:?} {:?} {:?}", b.given, b.rest, b.named)),
            Err(FunctionError::Arguments { message, hint }) => {
                Err(format!("{message}{}", hint.map(|h| format!(" ({h})")).unwrap_or_default()))
            }
            Err(other) => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn arguments_are_bound_to_parameters() {
        let ok = |s: &str| Ok(s.to_owned());
        let err = |s: &str| Err(s.to_owned());
        assert_eq!(bind("key default?", &[1, 2], &[]), ok(r#"[("key", 1), ("default", 2)] [] []"#));
        assert_eq!(
            bind("key default?", &[1], &[("default", 2)]),
            ok(r#"[("key", 1), ("default", 2)] [] []"#)
        );
        assert_eq!(bind("* a?", &[1, 2], &[("a", 3)]), ok(r#"[("a", 3)] [1, 2] []"#));
        assert_eq!(bind("x **", &[1], &[("a", 3)]), ok(r#"[("x", 1)] [] [("a", 3)]"#));
        assert_eq!(bind("key default?", &[], &[]), err("`m.f` needs the argument `key`"));
        assert_eq!(bind("key", &[1, 2], &[]), err("`m.f` takes 1 positional arguments, 2 were given"));
        assert_eq!(bind("key", &[1], &[("key", 2)]), err("`m.f` was given `key` twice"));
        assert_eq!(
            bind("key default?", &[1], &[("defualt", 2)]),
            err("`m.f` has no argument `defualt` (did you mean `default`?)")
        );
    }
}
