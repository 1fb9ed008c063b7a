//! A diagnostic in, the same diagnostic without secrets out: letters become stars, columns do not change.
//!
//! Law: a line of a pillar file never shows a value, and a line of any file never shows a known secret (held by
//! `a_line_shows_its_structure_and_not_its_value`, `every_error_matches_its_golden_file`).

use super::SecretMask;
use crate::Diagnostic;
use crate::codes::{Code, yaml as codes};

/// YAML errors whose message quotes the source.
const QUOTING_CODES: [Code; 5] =
    [codes::WRONG_TAG, codes::BAD_ESCAPE, codes::MISSING_COLON, codes::INDENTATION, codes::UNCLOSED_QUOTE];

impl SecretMask {
    /// Masks secrets in all parts of a diagnostic.
    pub fn mask_diagnostic(&self, diagnostic: &mut Diagnostic) {
        let texts = std::iter::once(&mut diagnostic.message)
            .chain(diagnostic.excerpts.iter_mut().map(|excerpt| &mut excerpt.text))
            .chain(&mut diagnostic.notes)
            .chain(&mut diagnostic.hint);
        for text in texts {
            *text = self.mask_columns(text).into_owned();
        }
    }
}

/// Masks the values in the excerpts of a pillar file.
pub fn mask_pillar_excerpts(diagnostic: &mut Diagnostic) {
    for excerpt in &mut diagnostic.excerpts {
        excerpt.text = mask_line(&excerpt.text);
    }
    if QUOTING_CODES.contains(&diagnostic.code) {
        let parts = diagnostic.message.split('`').enumerate();
        let quoted = parts.map(|(i, part)| if i % 2 == 1 { mask_letters(part) } else { part.to_owned() });
        diagnostic.message = quoted.collect::<Vec<_>>().join("`");
    }
}

/// Stars for letters and digits; the rest shows where the syntax is wrong.
fn mask_letters(text: &str) -> String {
    text.chars().map(|c| if c.is_alphanumeric() { '*' } else { c }).collect()
}

/// A line with stars for its value: the part after the first key, or all of it; template tags are not values.
fn mask_line(text: &str) -> String {
    if text.starts_with("#!") {
        return text.to_owned();
    }
    let value = value_start(text);
    let mut out = text[..value].to_owned();
    let mut rest = &text[value..];
    while !rest.is_empty() {
        let tag = ["{{", "{%"].iter().filter_map(|open| rest.find(open)).min();
        let (plain, behind) = rest.split_at(tag.unwrap_or(rest.len()));
        out.push_str(&mask_letters(plain));
        let end = ["}}", "%}"].iter().filter_map(|close| behind.find(close)).min();
        let (tag, behind) = behind.split_at(end.map_or(behind.len(), |end| end + 2));
        out.push_str(tag);
        rest = behind;
    }
    out
}

/// Where the value of a line starts: after `key: `, otherwise after its dashes.
fn value_start(text: &str) -> usize {
    let mut in_tag = false;
    for (i, c) in text.char_indices() {
        let rest = &text[i..];
        in_tag = (in_tag || rest.starts_with("{{") || rest.starts_with("{%"))
            && !(rest.starts_with("}}") || rest.starts_with("%}"));
        if c == ':' && !in_tag && rest[1..].chars().next().is_none_or(char::is_whitespace) {
            return i + 1;
        }
    }
    text.len() - text.trim_start_matches([' ', '-']).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_its_structure_and_not_its_value() {
        for (text, want) in [
            ("  password: \"hunter2", "  password: \"*******"),
            ("  password: hunter2: x", "  password: *******: *"),
            ("  - hunter2", "  - *******"),
            ("  a: {{ grains.x }} hunter2", "  a: {{ grains.x }} *******"),
            ("{% set x = 1 %}", "{% set x = 1 %}"),
            ("{{ a: b }}: hunter2", "{{ a: b }}: *******"),
            ("#!yaml|age", "#!yaml|age"),
            ("münchen: größe [", "münchen: ***** ["),
            ("", ""),
        ] {
            assert_eq!(mask_line(text), want);
        }
    }
}
