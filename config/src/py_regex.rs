//! Regular expressions as Python's `re` reads them, on an engine with bounded cost.
//!
//! Law: a pattern costs a bounded number of steps. Syntax that differs between the two dialects is translated;
//! syntax that only Python has is rejected with an error (held by `matches_as_python_does`,
//! `a_hostile_pattern_terminates`).

use fancy_regex::{Regex, RegexBuilder};

/// Maximum backtracking steps of one match.
pub const BACKTRACK_LIMIT: usize = 200_000;
/// Maximum size of one compiled pattern in bytes.
const COMPILED_LIMIT: usize = 1 << 20;
/// Maximum length of a pattern in characters.
const LENGTH_LIMIT: usize = 10_000;

/// Why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PyRegexError {
    /// Not a regular expression, or it uses a feature that this engine does not have.
    #[error("invalid regular expression: {0}")]
    Syntax(String),
    /// It takes too many steps on this text.
    #[error("the regular expression takes too many steps")]
    TooCostly,
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct PyRegex {
    regex: Regex,
}

impl PyRegex {
    /// Compiles a pattern written for Python.
    ///
    /// # Errors
    /// Fails when it is not a regular expression.
    pub fn new(pattern: &str) -> Result<Self, PyRegexError> {
        let regex = RegexBuilder::new(&translate(pattern)?)
            .backtrack_limit(BACKTRACK_LIMIT)
            .delegate_size_limit(COMPILED_LIMIT)
            .build()
            .map_err(|error| PyRegexError::Syntax(error_text(&error)))?;
        Ok(Self { regex })
    }

    /// The engine's own form, for searching and replacing.
    #[must_use]
    pub const fn regex(&self) -> &Regex {
        &self.regex
    }

    /// Python's `re.match`: true when the text starts with a match.
    ///
    /// # Errors
    /// Fails when the match takes too many steps.
    pub fn matches_start(&self, text: &str) -> Result<bool, PyRegexError> {
        let found = self.regex.find(text).map_err(|_| PyRegexError::TooCostly)?;
        Ok(found.is_some_and(|m| m.start() == 0))
    }
}

/// The last line of the engine's message is the error; the other lines show the pattern.
fn error_text(error: &fancy_regex::Error) -> String {
    let text = error.to_string();
    let line = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("cannot be parsed");
    line.trim().trim_start_matches("error: ").to_owned()
}

/// Translates a Python pattern to the engine's dialect.
///
/// # Errors
/// Fails on an escape that Python does not have either, and on patterns that are too long.
pub fn translate(pattern: &str) -> Result<String, PyRegexError> {
    if pattern.len() > LENGTH_LIMIT {
        return Err(PyRegexError::Syntax(format!("longer than {LENGTH_LIMIT} characters")));
    }
    let chars: Vec<char> = pattern.chars().collect();
    let multiline = has_flag(pattern, 'm');
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        at += 1;
        match c {
            '\\' => at = translate_escape(&chars, at, false, &mut out)?,
            '[' => at = translate_class(&chars, at, &mut out)?,
            '$' if !multiline => out.push_str(r"(?=\n?\z)"),
            '{' => at = translate_braces(&chars, at, &mut out),
            '}' => out.push_str(r"\}"),
            '(' if chars[at..].starts_with(&['?', '#']) => {
                let close = chars[at..].iter().position(|c| *c == ')');
                at +=
                    close.ok_or_else(|| PyRegexError::Syntax("missing ), unterminated comment".into()))? + 1;
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

/// True when a group of global flags at the start of the pattern contains `flag`.
fn has_flag(pattern: &str, flag: char) -> bool {
    pattern
        .strip_prefix("(?")
        .and_then(|rest| rest.split_once(')'))
        .is_some_and(|(flags, _)| flags.chars().all(|c| c.is_ascii_alphabetic()) && flags.contains(flag))
}

/// Writes the escape whose letter is at `at`; returns the next position.
fn translate_escape(
    chars: &[char],
    at: usize,
    in_class: bool,
    out: &mut String,
) -> Result<usize, PyRegexError> {
    let bad = |c: char| PyRegexError::Syntax(format!("bad escape \\{c}"));
    let Some(&c) = chars.get(at) else {
        return Err(PyRegexError::Syntax("bad escape at the end of the pattern".into()));
    };
    match c {
        'Z' if !in_class => out.push_str(r"\z"),
        'b' if in_class => out.push_str(r"\x08"),
        'A' | 'b' | 'B' if !in_class => {
            out.push('\\');
            out.push(c);
        }
        'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'a' | 'f' | 'n' | 'r' | 't' | 'v' => {
            out.push('\\');
            out.push(c);
        }
        'x' => return translate_code_point(chars, at + 1, 2, out).ok_or_else(|| bad(c)),
        'u' => return translate_code_point(chars, at + 1, 4, out).ok_or_else(|| bad(c)),
        'U' => return translate_code_point(chars, at + 1, 8, out).ok_or_else(|| bad(c)),
        '0' => return Ok(translate_octal(chars, at, out)),
        '1'..='9' if !in_class => {
            out.push('\\');
            out.push(c);
        }
        c if c.is_ascii_alphanumeric() => return Err(bad(c)),
        '<' | '>' => out.push(c),
        c if c.is_ascii_punctuation() => {
            out.push('\\');
            out.push(c);
        }
        other => out.push(other),
    }
    Ok(at + 1)
}

fn translate_code_point(chars: &[char], from: usize, digits: usize, out: &mut String) -> Option<usize> {
    let text: String = chars.get(from..from + digits)?.iter().collect();
    let code = u32::from_str_radix(&text, 16).ok()?;
    char::from_u32(code)?;
    out.push_str(&format!("\\x{{{code:x}}}"));
    Some(from + digits)
}

fn translate_octal(chars: &[char], from: usize, out: &mut String) -> usize {
    let digits = chars[from..].iter().take(3).take_while(|c| ('0'..='7').contains(*c)).count();
    let code = chars[from..from + digits].iter().fold(0, |n, c| n * 8 + c.to_digit(8).unwrap_or(0));
    out.push_str(&format!("\\x{{{code:x}}}"));
    from + digits
}

/// Writes a class: in Python nothing but `\`, `]`, `-` and a leading `^` is special inside.
fn translate_class(chars: &[char], from: usize, out: &mut String) -> Result<usize, PyRegexError> {
    let mut at = from;
    out.push('[');
    if chars.get(at) == Some(&'^') {
        out.push('^');
        at += 1;
    }
    let first = at;
    let mut dash = false;
    while let Some(&c) = chars.get(at) {
        at += 1;
        match c {
            ']' if at - 1 > first => {
                out.push(']');
                return Ok(at);
            }
            '\\' => at = translate_escape(chars, at, true, out)?,
            '-' if !dash && at - 1 > first && chars.get(at) != Some(&']') => {
                out.push('-');
                dash = true;
                continue;
            }
            c if c.is_ascii_punctuation() => {
                out.push('\\');
                out.push(c);
            }
            other => out.push(other),
        }
        dash = false;
    }
    Err(PyRegexError::Syntax("unterminated character set".into()))
}

/// Writes a repetition, or a literal brace.
fn translate_braces(chars: &[char], from: usize, out: &mut String) -> usize {
    let inside: String = chars[from..].iter().take_while(|c| **c != '}').collect();
    let end = from + inside.chars().count();
    let (low, high) = inside.split_once(',').unwrap_or((&inside, &inside));
    let number = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if end >= chars.len() || inside.is_empty() || !number(low) || !number(high) {
        out.push_str(r"\{");
        return from;
    }
    let low = if low.is_empty() { "0" } else { low };
    if inside.contains(',') {
        out.push_str(&format!("{{{low},{high}}}"));
    } else {
        out.push_str(&format!("{{{low}}}"));
    }
    end + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pattern, text, and what Python's `re.match` says: 1, 0, or `e` for an error.
    const TRUTH: &str = include_str!("pattern_truth.tsv");

    #[test]
    fn matches_as_python_does() {
        for line in TRUTH.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [pattern, text, want] = fields[..] else { panic!("three fields per line: {line}") };
            let text = text.replace("\\n", "\n");
            let got = match PyRegex::new(pattern).and_then(|p| p.matches_start(&text)) {
                Ok(true) => "1",
                Ok(false) => "0",
                Err(_) => "e",
            };
            assert_eq!(got, want, "{pattern} on {text:?}");
        }
    }

    #[test]
    fn a_hostile_pattern_terminates() {
        let pattern = PyRegex::new(r"(a|a)*(?=b)\1c").unwrap();
        assert_eq!(pattern.matches_start(&"a".repeat(64)), Err(PyRegexError::TooCostly));
        assert!(PyRegex::new("((a{900}){900}){900}").is_err());
        assert!(PyRegex::new(&"(".repeat(9000)).is_err());
    }
}
