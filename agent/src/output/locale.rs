//! The locale in, whether a stream shows more than ASCII; text in, the same in ASCII out.
//!
//! Only text for people is changed, never data: a pipe gets the bytes as they are.

use std::fmt::Write;

/// The form of our own marks in ASCII.
pub(super) const fn ascii_mark(mark: char) -> Option<char> {
    Some(match mark {
        '✓' => '+',
        '✗' => 'x',
        '●' => '*',
        '○' | '·' | '–' => '-',
        '×' => 'x',
        _ => return None,
    })
}

/// True when the locale that these variables select is not UTF-8: `LC_ALL`, `LC_CTYPE` and `LANG`, in this order. Without any
/// of them, as in most units and containers, nothing is known, and UTF-8 is assumed.
pub(crate) fn is_ascii_locale(variables: [Option<String>; 3]) -> bool {
    let chosen = variables.into_iter().flatten().find(|value| !value.is_empty());
    chosen.is_some_and(|value| {
        let value = value.to_ascii_lowercase();
        !(value.contains("utf-8") || value.contains("utf8"))
    })
}

/// A text in ASCII: marks as similar characters, everything else as `\u{…}`.
pub(super) fn to_ascii(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match (c, ascii_mark(c)) {
            (c, _) if c.is_ascii() => out.push(c),
            (_, Some(mark)) => out.push(mark),
            ('…', _) => out.push_str("..."),
            ('→', _) => out.push_str("->"),
            (c, _) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_decides() {
        let set = |values: [&str; 3]| {
            is_ascii_locale(values.map(|value| (!value.is_empty()).then(|| value.to_owned())))
        };
        assert!(set(["C", "", "en_US.UTF-8"]) && set(["", "POSIX", ""]) && set(["", "", "de_DE@euro"]));
        assert!(!set(["C.UTF-8", "", "C"]) && !set(["", "", "en_US.utf8"]) && !set(["", "", ""]));
    }

    #[test]
    fn marks_have_similar_characters_and_the_rest_its_code() {
        assert_eq!(to_ascii("✓ a → b…"), "+ a -> b...");
        assert_eq!(to_ascii("✗ münchen ×"), "x m\\u{fc}nchen x");
        assert_eq!(to_ascii("plain"), "plain");
    }
}
