//! In which style a scalar can be written.

/// What the characters of a scalar allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AllowedStyles {
    /// Plain, inside brackets.
    pub flow_plain: bool,
    /// Plain, outside of them.
    pub block_plain: bool,
    /// In single quotes.
    pub single: bool,
    /// It has line breaks.
    pub is_multiline: bool,
}

/// What ends a line in YAML 1.1.
pub(super) const fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// What needs no escape: no control characters, no tab, nothing beyond the basic plane.
const fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// Which characters are written as they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawChars {
    pub allow_unicode: bool,
    pub escape_marks: bool,
}

impl RawChars {
    /// True when a character needs no escape.
    pub(super) fn include(self, c: char) -> bool {
        is_printable(c)
            && (c.is_ascii() || self.allow_unicode)
            && (c == '\n' || !self.escape_marks || !zagent_config::steers_terminal(c))
    }
}

/// Analyses the characters of a scalar.
pub(super) fn analyze(text: &str, raw: RawChars) -> AllowedStyles {
    if text.is_empty() {
        return AllowedStyles { flow_plain: false, block_plain: true, single: true, is_multiline: false };
    }
    let mut seen = ScalarScan::default();
    if text.starts_with("---") || text.starts_with("...") {
        seen.mark_both();
    }
    let mut chars = text.chars().peekable();
    let mut previous = None;
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        seen.indicator(c, previous, next);
        seen.is_special |= !raw.include(c);
        seen.space(c, previous, next);
        previous = Some(c);
    }
    let plain = !seen.has_edge
        && !seen.has_break_space
        && !seen.has_space_break
        && !seen.is_special
        && !seen.is_multiline;
    AllowedStyles {
        flow_plain: plain && !seen.for_flow,
        block_plain: plain && !seen.for_block,
        single: !seen.has_break_space && !seen.has_space_break && !seen.is_special,
        is_multiline: seen.is_multiline,
    }
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one finding, and they are found independently")]
struct ScalarScan {
    /// An indicator that is special inside brackets.
    for_flow: bool,
    /// An indicator that is special outside of them.
    for_block: bool,
    is_special: bool,
    is_multiline: bool,
    /// A space or line break at either end.
    has_edge: bool,
    has_break_space: bool,
    has_space_break: bool,
}

impl ScalarScan {
    fn mark_both(&mut self) {
        self.for_flow = true;
        self.for_block = true;
    }

    fn indicator(&mut self, c: char, previous: Option<char>, next: Option<char>) {
        let is_blank = |c: Option<char>| c.is_none_or(|c| c == ' ' || c == '\t' || is_break(c));
        let is_first = previous.is_none();
        match c {
            ',' | '[' | ']' | '{' | '}' if !is_first => self.for_flow = true,
            '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
            | '`'
                if is_first =>
            {
                self.mark_both();
            }
            '?' | ':' => {
                self.for_flow = true;
                self.for_block |= is_blank(next) && (is_first || c == ':');
            }
            '-' if is_first && is_blank(next) => self.mark_both(),
            '#' if is_blank(previous) => self.mark_both(),
            _ => {}
        }
    }

    fn space(&mut self, c: char, previous: Option<char>, next: Option<char>) {
        let is_break_here = is_break(c);
        if c != ' ' && !is_break_here {
            return;
        }
        self.is_multiline |= is_break_here;
        self.has_edge |= previous.is_none() || next.is_none();
        if is_break_here {
            self.has_space_break |= previous == Some(' ');
        } else {
            self.has_break_space |= previous.is_some_and(is_break);
        }
    }
}
