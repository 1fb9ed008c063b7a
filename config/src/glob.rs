//! Shell patterns as Python's `fnmatch.fnmatchcase` reads them: `*`, `?`, `[a-z]`, `[!a-z]`; case-sensitive.
//!
//! Law: matching never takes more than pattern × text steps, for any pattern (held by
//! `a_hostile_pattern_terminates`).

/// One piece of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum GlobPiece {
    Char(char),
    One,
    Many,
    Class(CharClass),
}

/// The content of square brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CharClass {
    negated: bool,
    ranges: Vec<(char, char)>,
}

/// A pattern, read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    pieces: Vec<GlobPiece>,
}

impl Glob {
    /// Reads a pattern; every text is valid (an unclosed `[` is literal).
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        let chars: Vec<char> = pattern.chars().collect();
        let mut pieces = Vec::with_capacity(chars.len());
        let mut at = 0;
        while let Some(&c) = chars.get(at) {
            at += 1;
            match c {
                '*' if pieces.last() == Some(&GlobPiece::Many) => {}
                '*' => pieces.push(GlobPiece::Many),
                '?' => pieces.push(GlobPiece::One),
                '[' => match class_end(&chars, at) {
                    Some(end) => {
                        pieces.push(GlobPiece::Class(CharClass::read(&chars[at..end])));
                        at = end + 1;
                    }
                    None => pieces.push(GlobPiece::Char('[')),
                },
                other => pieces.push(GlobPiece::Char(other)),
            }
        }
        Self { pieces }
    }

    /// True when the whole text matches the pattern.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let (mut piece, mut at) = (0, 0);
        // The last `*` passed and where its match ended: the only place to backtrack to.
        let mut back: Option<(usize, usize)> = None;
        loop {
            let next = text[at..].chars().next();
            match (self.pieces.get(piece), next) {
                (Some(GlobPiece::Many), _) => {
                    piece += 1;
                    back = Some((piece, at));
                    continue;
                }
                (Some(p), Some(c)) if p.matches_char(c) => {
                    piece += 1;
                    at += c.len_utf8();
                    continue;
                }
                (None, None) => return true,
                _ => {}
            }
            let Some((after, from)) = back else { return false };
            let Some(skipped) = text[from..].chars().next() else { return false };
            piece = after;
            at = from + skipped.len_utf8();
            back = Some((after, at));
        }
    }
}

/// True when `text` matches `pattern`.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    Glob::new(pattern).matches(text)
}

/// True when the text contains a pattern character.
#[must_use]
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

impl GlobPiece {
    fn matches_char(&self, c: char) -> bool {
        match self {
            Self::Char(own) => *own == c,
            Self::One => true,
            Self::Many => false,
            Self::Class(class) => class.matches_char(c),
        }
    }
}

/// The position of the `]` that closes a class whose content starts at `from`; a `]` at the start is a member.
fn class_end(chars: &[char], from: usize) -> Option<usize> {
    let mut at = from;
    if chars.get(at) == Some(&'!') {
        at += 1;
    }
    if chars.get(at) == Some(&']') {
        at += 1;
    }
    (at..chars.len()).find(|&i| chars[i] == ']')
}

impl CharClass {
    fn read(inside: &[char]) -> Self {
        let negated = inside.first() == Some(&'!');
        let members = if negated { &inside[1..] } else { inside };
        let mut ranges = Vec::new();
        let mut at = 0;
        while let Some(&low) = members.get(at) {
            match (members.get(at + 1), members.get(at + 2)) {
                // A reversed range is empty; its ends are not members either.
                (Some('-'), Some(&high)) => {
                    if low <= high {
                        ranges.push((low, high));
                    }
                    at += 3;
                }
                _ => {
                    ranges.push((low, low));
                    at += 1;
                }
            }
        }
        Self { negated, ranges }
    }

    fn matches_char(&self, c: char) -> bool {
        self.ranges.iter().any(|&(low, high)| low <= c && c <= high) != self.negated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_in_python() {
        for (pattern, text, want) in include_str!("glob_truth.tsv").lines().map(|line| {
            let mut fields = line.split('\t');
            let mut field = || fields.next().expect("three fields per line");
            (field(), field(), field() == "True")
        }) {
            assert_eq!(matches(pattern, text), want, "{pattern} {text}");
        }
    }

    #[test]
    fn a_hostile_pattern_terminates() {
        let pattern = "a*".repeat(500) + "b";
        assert!(!matches(&pattern, &"a".repeat(5000)));
    }
}
