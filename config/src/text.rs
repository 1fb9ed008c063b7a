//! Text for people: errors with their causes, and text from elsewhere that cannot steer a terminal.

/// An error and its causes, in one line.
#[must_use]
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

/// True for a character that a terminal obeys or that changes the order in which a line is shown: control characters (C0,
/// DEL and C1, of which U+009B begins an escape sequence alone), marks of direction, and separators of lines.
#[must_use]
pub const fn steers_terminal(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{61c}'
        | '\u{200e}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{206f}'
    )
}

/// JSON whose texts cannot steer a terminal: such characters are `\u` escapes, and the document means the same.
#[must_use]
pub fn escape_json(document: String) -> String {
    // Line breaks of the layout are the only ones that are not inside a text, where JSON escapes them anyway.
    let needs_escape = |c: char| c != '\n' && steers_terminal(c);
    if !document.contains(needs_escape) {
        return document;
    }
    let mut out = String::with_capacity(document.len() + 64);
    for c in document.chars() {
        if needs_escape(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// Text from a file or a host, made harmless for a terminal: control characters are shown, not obeyed.
#[must_use]
pub fn sanitize(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => safe.push_str("    "),
            '\n' => safe.push('\n'),
            // Marks that reorder the line could make a file look like what it is not.
            c if steers_terminal(c) => safe.push(char::REPLACEMENT_CHARACTER),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(sanitize("a\tb\u{1b}[2J\u{202e}x\r"), "a    b\u{fffd}[2J\u{fffd}x\u{fffd}");
        let bidi =
            "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";
        let c1: String = ('\u{80}'..='\u{9f}').collect();
        for text in [bidi, &c1, "\u{7f}", "\u{2028}\u{2029}"] {
            assert!(sanitize(text).chars().all(|c| c == char::REPLACEMENT_CHARACTER), "{text:?}");
        }
        assert_eq!(sanitize("äö \u{200d} \u{2010}"), "äö \u{200d} \u{2010}");
    }

    #[test]
    fn json_means_the_same_after_escaping() {
        let every: String = ('\0'..='\u{2100}').collect();
        let value = serde_json::json!({"text": every, "\u{202e}key": ["\u{9b}31m"]});
        for plain in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let escaped = escape_json(plain.clone());
            assert!(escaped.chars().all(|c| c == '\n' || !steers_terminal(c)));
            assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
            assert!(escaped.contains("\\u009b31m") && escaped.contains("\\u202ekey"));
        }
        assert_eq!(escape_json("{\n \"a\": \"ä\"}\n".into()), "{\n \"a\": \"ä\"}\n");
    }
}
