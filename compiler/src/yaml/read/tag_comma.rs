//! A tag followed directly by a comma, `[!!str, a]`, in, the same text with a space out: the one form known to break the parser.

use std::borrow::Cow;
use std::collections::HashSet;

use libyaml_safer::{Scanner, TokenData};

/// Puts a space between each such tag and its comma. A text without a candidate is returned unchanged.
///
/// Only the scanner can tell whether a `!` starts a tag or is inside a string, and it needs the spaces to get that far.
/// They do not change the structure, so the scanner gets the text with a space after every candidate, and each real tag
/// keeps its space. More tags than `most`, the node limit of a document, are not searched.
pub(super) fn repair(text: &str, most: usize) -> Cow<'_, str> {
    // Outside of brackets a comma is an ordinary character.
    let candidates = if text.contains(['[', '{']) { candidates(text) } else { Vec::new() };
    if candidates.is_empty() {
        return Cow::Borrowed(text);
    }
    let commas = in_order(candidates.iter());
    let mut spaced = with_spaces(text, &commas);
    spaced.push('\n');
    let mut scanner = Scanner::new();
    scanner.set_input(spaced.as_bytes());
    let mut brackets = 0u32;
    let mut tags = HashSet::new();
    for token in scanner {
        let Ok(token) = token else {
            // The text is invalid anyway, and with all the spaces the parser can report it.
            spaced.pop();
            return Cow::Owned(spaced);
        };
        match token.data {
            TokenData::FlowSequenceStart | TokenData::FlowMappingStart => brackets += 1,
            TokenData::FlowSequenceEnd | TokenData::FlowMappingEnd => brackets = brackets.saturating_sub(1),
            TokenData::Tag { .. } if brackets > 0 => {
                tags.extend(usize::try_from(token.start_mark.index));
            }
            _ => {}
        }
        if tags.len() > most {
            break;
        }
    }
    // Each space before a tag moved it by one.
    let is_tag = |c: &&Candidate| tags.contains(&(c.tag + commas.partition_point(|comma| *comma < c.tag)));
    Cow::Owned(with_spaces(text, &in_order(candidates.iter().filter(is_tag))))
}

/// A `!` that may start a token, with a comma before the next blank.
struct Candidate {
    tag: usize,
    comma: usize,
}

fn in_order<'c>(candidates: impl Iterator<Item = &'c Candidate>) -> Vec<usize> {
    let mut commas: Vec<usize> = candidates.map(|c| c.comma).collect();
    commas.sort_unstable();
    commas.dedup();
    commas
}

fn candidates(text: &str) -> Vec<Candidate> {
    let bytes = text.as_bytes();
    let mut found: Vec<Candidate> = Vec::new();
    // The end of the character run with the last `!`, and the end of the last `!<`.
    let (mut end, mut close) = (0, 0);
    let next = |from: usize, stops: &[u8]| {
        bytes[from..].iter().position(|b| stops.contains(b)).map_or(bytes.len(), |n| from + n)
    };
    for (tag, _) in text.match_indices('!') {
        let may_start = tag == 0 || !bytes[tag - 1].is_ascii_alphanumeric();
        if !may_start {
            continue;
        }
        let comma = if bytes.get(tag + 1) == Some(&b'<') {
            close = if close <= tag { next(tag, b">") } else { close };
            close + 1
        } else {
            end = if end <= tag { next(tag, b", \t\n\r") } else { end };
            end
        };
        if bytes.get(comma) == Some(&b',') {
            found.push(Candidate { tag, comma });
        }
    }
    found
}

/// The text with a space before each of the commas, which are in order.
fn with_spaces(text: &str, commas: &[usize]) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut from = 0;
    for &comma in commas {
        out.push_str(&text[from..comma]);
        out.push(' ');
        from = comma;
    }
    out.push_str(&text[from..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tags_get_a_space() {
        for (text, want) in [
            ("[!!str, !x, a]", "[!!str , !x , a]"),
            ("a: 'wow !x, b'", "a: 'wow !x, b'"),
            ("[hello !x, !y, z]", "[hello !x, !y , z]"),
            ("- |\n  [!x, y]\n- [!z, q]", "- |\n  [!x, y]\n- [!z , q]"),
            ("# [!x, y]", "# [!x, y]"),
            ("a: !x, y", "a: !x, y"),
            ("~:!:, %", "~:!:, %"),
            ("['a'!x, \"!\"!y, !-!z, b]", "['a'!x , \"!\"!y , !-!z , b]"),
            ("[!<tag:yaml.org,2002:str> a]", "[!<tag:yaml.org,2002:str> a]"),
            ("[!<tag:yaml.org,2002:str>, a]", "[!<tag:yaml.org,2002:str> , a]"),
            ("a: 1\n{ !,", "a: 1\n{ ! ,"),
        ] {
            assert_eq!(repair(text, 100), want, "{text}");
        }
    }
}
