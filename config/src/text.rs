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

/// Text from a file or a host, made harmless for a terminal: control characters are shown, not obeyed.
#[must_use]
pub fn sanitize(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => safe.push_str("    "),
            '\n' => safe.push('\n'),
            c if c.is_control() => safe.push(char::REPLACEMENT_CHARACTER),
            // Marks that reorder the line could make a file look like what it is not.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                safe.push(char::REPLACEMENT_CHARACTER);
            }
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
    }
}
