//! A diagnostic in, the same diagnostic without secrets out: letters become stars, columns do not change.
//!
//! Law: a line of a pillar file never shows a value, and a line of any file never shows a known secret.

use zagent_config::codes::yaml as codes;
use zagent_config::{Diagnostic, Value, secret_keys};

/// Shorter secrets are not masked: they match everywhere.
const MIN_SECRET_LEN: usize = 4;

/// YAML errors whose message quotes the source.
const QUOTING_CODES: [zagent_config::codes::Code; 5] =
    [codes::WRONG_TAG, codes::BAD_ESCAPE, codes::MISSING_COLON, codes::INDENTATION, codes::UNCLOSED_QUOTE];

/// Masks the values in the excerpts of a pillar file.
pub(crate) fn mask_pillar_values(diagnostic: &mut Diagnostic) {
    for excerpt in &mut diagnostic.excerpts {
        excerpt.text = mask_line(&excerpt.text);
    }
    if QUOTING_CODES.contains(&diagnostic.code) {
        let parts: Vec<String> = diagnostic.message.split('`').map(str::to_owned).collect();
        let quoted = parts.iter().enumerate().map(|(i, p)| if i % 2 == 1 { mask_text(p) } else { p.clone() });
        diagnostic.message = quoted.collect::<Vec<_>>().join("`");
    }
}

/// Masks texts in all parts of a diagnostic.
pub(crate) fn mask_secrets(diagnostic: &mut Diagnostic, secrets: &[String]) {
    let hide = |text: &mut String| {
        for secret in secrets.iter().filter(|s| text.contains(s.as_str())).cloned().collect::<Vec<_>>() {
            *text = text.replace(&secret, &mask_text(&secret));
        }
    };
    hide(&mut diagnostic.message);
    diagnostic.excerpts.iter_mut().for_each(|e| hide(&mut e.text));
    diagnostic.notes.iter_mut().for_each(hide);
    diagnostic.hint.iter_mut().for_each(hide);
}

/// Maximum length of a message: a quoted value can be as long as a file.
const MAX_MESSAGE_CHARS: usize = 600;

/// Shortens text that would fill a terminal.
pub(crate) fn shorten_messages(diagnostic: &mut Diagnostic) {
    for text in
        std::iter::once(&mut diagnostic.message).chain(&mut diagnostic.notes).chain(&mut diagnostic.hint)
    {
        if let Some((end, _)) = text.char_indices().nth(MAX_MESSAGE_CHARS) {
            text.truncate(end);
            text.push('…');
        }
    }
}

/// The texts of a pillar under keys that mark secrets; every line separately.
pub(crate) fn collect_secrets(value: &Value, secrets: &mut Vec<String>) {
    collect_nested(value, false, secrets);
}

fn collect_nested(value: &Value, is_secret: bool, secrets: &mut Vec<String>) {
    match value {
        Value::Str(text) if is_secret => {
            let lines = text.lines().map(str::trim).filter(|l| l.len() >= MIN_SECRET_LEN);
            secrets.extend(lines.map(str::to_owned));
        }
        Value::List(list) => list.iter().for_each(|v| collect_nested(v, is_secret, secrets)),
        Value::Map(map) => {
            for (key, value) in map.iter() {
                collect_nested(
                    value,
                    is_secret || key.as_str().is_some_and(secret_keys::is_secret_key),
                    secrets,
                );
            }
        }
        _ => {}
    }
}

fn mask_text(text: &str) -> String {
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
        out.push_str(&mask_text(plain));
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
