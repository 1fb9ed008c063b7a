//! A Python pattern and its flags in, searches and replacements as Python's `re` does them out.
//!
//! Law: a pattern that would run away ends in words. Most of Salt's edits search bytes, where `\w`, `\d` and `\s`
//! know ASCII alone; they do so here as well (held by `replaces_as_python_does`, `a_hostile_pattern_ends`).

use fancy_regex::{Captures, Regex, RegexBuilder};
use zagent_config::Value;
use zagent_config::py_regex::translate;

use crate::StateError;

/// Steps back that any search may take, and steps for each byte of the text on top.
const MAX_BACKTRACK: usize = 1_000_000;
const BACKTRACK_PER_BYTE: usize = 64;
/// Bytes that one compiled pattern may take.
const COMPILED_LIMIT: usize = 4 << 20;

/// Python's flags of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegexFlags {
    /// Case counts for nothing.
    pub ignore_case: bool,
    /// `^` and `$` stand at every line.
    pub multi_line: bool,
    /// `.` is also a line break.
    pub(crate) dot_all: bool,
    /// Spaces and comments in the pattern count for nothing.
    pub verbose: bool,
    /// Classes such as `\w` know ASCII alone.
    pub ascii: bool,
}

impl RegexFlags {
    /// A search of bytes with `^` and `$` at every line: Salt's `file.search`.
    pub(crate) const LINES: Self =
        Self { ignore_case: false, multi_line: true, dot_all: false, verbose: false, ascii: true };

    /// Flags as Salt takes them: a number, a name, a list of names.
    ///
    /// # Errors
    /// Fails with Salt's words for anything else.
    pub(crate) fn from_value(value: &Value) -> Result<Self, StateError> {
        let mut flags = Self { ascii: true, ..Self::default() };
        match value {
            Value::Int(bits) => flags.add_bits(*bits),
            Value::Str(name) => flags.add_name(name)?,
            Value::List(names) => {
                for name in names.iter() {
                    flags.add_name(&zagent_config::value::python_str(name))?;
                }
            }
            other => {
                let text = zagent_config::value::python_str(other);
                return Err(StateError::new(format!(
                    "Invalid re flags: \"{text}\", must be given either as a single flag string, a list of strings, as an \
                     integer, or as an re flag"
                )));
            }
        }
        Ok(flags)
    }

    const fn add_bits(&mut self, bits: i64) {
        self.ignore_case |= bits & 2 != 0;
        self.multi_line |= bits & 8 != 0;
        self.dot_all |= bits & 16 != 0;
        self.verbose |= bits & 64 != 0;
    }

    fn add_name(&mut self, name: &str) -> Result<(), StateError> {
        match &*name.to_uppercase() {
            "I" | "IGNORECASE" => self.ignore_case = true,
            "M" | "MULTILINE" => self.multi_line = true,
            "S" | "DOTALL" => self.dot_all = true,
            "X" | "VERBOSE" => self.verbose = true,
            "A" | "ASCII" | "L" | "LOCALE" | "U" | "UNICODE" | "DEBUG" => {}
            _ => return Err(StateError::new(format!("Invalid re flag given: {name}"))),
        }
        Ok(())
    }

    /// Takes the group of global flags off the start of a pattern.
    fn take_leading(&mut self, pattern: &str) -> Option<usize> {
        let (letters, _) = pattern.strip_prefix("(?")?.split_once(')')?;
        if letters.is_empty() || !letters.chars().all(|c| "aiLmsux".contains(c)) {
            return None;
        }
        for c in letters.chars() {
            match c {
                'i' => self.ignore_case = true,
                'm' => self.multi_line = true,
                's' => self.dot_all = true,
                'x' => self.verbose = true,
                _ => {}
            }
        }
        Some(letters.len() + 3)
    }

    fn letters(self) -> String {
        let all = [(self.ignore_case, 'i'), (self.multi_line, 'm'), (self.dot_all, 's'), (self.verbose, 'x')];
        all.into_iter().filter_map(|(set, letter)| set.then_some(letter)).collect()
    }
}

/// A compiled pattern, made for texts no longer than one that is known.
#[derive(Debug)]
pub(crate) struct PythonRegex {
    regex: Regex,
}

impl PythonRegex {
    /// Compiles a pattern for a text and its lines.
    ///
    /// # Errors
    /// Fails when it is no regular expression.
    pub(crate) fn new(pattern: &str, mut flags: RegexFlags, text: &str) -> Result<Self, StateError> {
        let bad = |words: &dyn std::fmt::Display| StateError::new(format!("{words}: '{pattern}'"));
        let from = flags.take_leading(pattern).unwrap_or(0);
        let letters = flags.letters();
        let head = if letters.is_empty() { String::new() } else { format!("(?{letters})") };
        let mut spelled = translate(&format!("{head}{}", &pattern[from..])).map_err(|e| bad(&e))?;
        if flags.ascii && !text.is_ascii() {
            spelled = ascii_classes(&spelled);
        }
        let regex = RegexBuilder::new(&spelled)
            .backtrack_limit(MAX_BACKTRACK.saturating_add(text.len().saturating_mul(BACKTRACK_PER_BYTE)))
            .delegate_size_limit(COMPILED_LIMIT)
            .build()
            .map_err(|e| bad(&format_args!("invalid regular expression: {}", regex_error_text(&e))))?;
        Ok(Self { regex })
    }

    fn captures<'t>(&self, text: &'t str, from: usize) -> Result<Option<Captures<'t>>, StateError> {
        self.regex.captures_from_pos(text, from).map_err(|_| {
            StateError::new(format!("the regular expression takes too many steps: '{}'", self.regex.as_str()))
        })
    }

    /// True when the pattern is found somewhere.
    ///
    /// # Errors
    /// Fails when the search takes too many steps.
    pub(crate) fn is_match(&self, text: &str) -> Result<bool, StateError> {
        Ok(self.captures(text, 0)?.is_some())
    }

    /// True when the pattern matches at the start of the text.
    ///
    /// # Errors
    /// Fails when the search takes too many steps.
    pub(crate) fn matches_at_start(&self, text: &str) -> Result<bool, StateError> {
        Ok(self.captures(text, 0)?.and_then(|c| c.get(0)).is_some_and(|m| m.start() == 0))
    }

    /// Puts a template in place of matches, at most `count` of them (zero: of all); gives the text and how many there were.
    ///
    /// # Errors
    /// Fails when the search takes too many steps, and when the template is none.
    pub(crate) fn replace(
        &self,
        text: &str,
        template: &ReplacementTemplate,
        count: usize,
    ) -> Result<(String, usize), StateError> {
        let parts = template.bind(&self.regex)?;
        let (mut out, mut copied, mut at, mut done) = (String::with_capacity(text.len()), 0, 0, 0);
        while at <= text.len() && (count == 0 || done < count) {
            let Some(found) = self.captures(text, at)? else { break };
            let Some(whole) = found.get(0) else { break };
            out.push_str(&text[copied..whole.start()]);
            for part in &parts {
                match part {
                    BoundPart::Text(literal) => out.push_str(literal),
                    BoundPart::Group(n) => out.push_str(found.get(*n).map_or("", |m| m.as_str())),
                }
            }
            done += 1;
            copied = whole.end();
            at = whole.end();
            if whole.start() == whole.end() {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
            }
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        Ok((out, done))
    }
}

/// The last line of the engine's message says what is wrong; the others draw the pattern.
fn regex_error_text(error: &fancy_regex::Error) -> String {
    let text = error.to_string();
    let line = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("not understood");
    line.trim().trim_start_matches("error: ").to_owned()
}

/// Spells `\w` and similar classes for ASCII; nested classes mean the same inside brackets and outside.
fn ascii_classes(pattern: &str) -> String {
    const WORD: &str = "0-9A-Za-z_";
    const SPACE: &str = r"\t\n\x0b\f\r ";
    let mut out = String::with_capacity(pattern.len() + 32);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('w') => out.push_str(&format!("[{WORD}]")),
            Some('W') => out.push_str(&format!("[^{WORD}]")),
            Some('d') => out.push_str("[0-9]"),
            Some('D') => out.push_str("[^0-9]"),
            Some('s') => out.push_str(&format!("[{SPACE}]")),
            Some('S') => out.push_str(&format!("[^{SPACE}]")),
            Some('b') => {
                out.push_str(&format!("(?:(?<=[{WORD}])(?![{WORD}])|(?<![{WORD}])(?=[{WORD}]))"));
            }
            Some('B') => {
                out.push_str(&format!("(?:(?<=[{WORD}])(?=[{WORD}])|(?<![{WORD}])(?![{WORD}]))"));
            }
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
            None => out.push('\\'),
        }
    }
    out
}

/// A text with every character that means something in a pattern escaped, as Python's `re.escape`.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if r"()[]{}?*+-|^$\.&~# ".contains(c) || matches!(c, '\t' | '\n' | '\r' | '\x0b' | '\x0c') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// What is put in place of a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplacementTemplate {
    parts: Vec<ReplacementPiece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ReplacementPiece {
    Text(String),
    Group(usize),
    Name(String),
}

enum BoundPart<'p> {
    Text(&'p str),
    Group(usize),
}

impl ReplacementTemplate {
    /// A text that stands for itself.
    pub(crate) fn literal(text: &str) -> Self {
        Self { parts: vec![ReplacementPiece::Text(text.to_owned())] }
    }

    /// Reads a template: `\1`, `\g<1>`, `\g<name>`, octal numbers and the escapes of Python.
    ///
    /// # Errors
    /// Fails where Python does.
    pub(crate) fn parse(template: &str) -> Result<Self, StateError> {
        let bad = |words: String| StateError::new(format!("{words} in replacement '{template}'"));
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = template;
        while let Some(at) = rest.find('\\') {
            text.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let Some(c) = rest.chars().next() else { return Err(bad("bad escape (end of pattern)".into())) };
            if let Some(octal) = octal_digits(rest) {
                let code = u32::from_str_radix(octal, 8).unwrap_or(0);
                if code > 0o377 {
                    return Err(bad(format!("octal escape value \\{octal} outside of range 0-0o377")));
                }
                text.extend(char::from_u32(code));
                rest = &rest[octal.len()..];
                continue;
            }
            let group = if c == 'g' {
                let inside = rest[1..].strip_prefix('<').and_then(|r| r.split_once('>'));
                let Some((name, after)) = inside else { return Err(bad("missing group name".into())) };
                rest = after;
                match name.parse::<usize>() {
                    Ok(n) => Some(ReplacementPiece::Group(n)),
                    Err(_) => Some(ReplacementPiece::Name(name.to_owned())),
                }
            } else if c.is_ascii_digit() {
                let digits = rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
                let n = rest[..digits].parse().unwrap_or(0);
                rest = &rest[digits..];
                Some(ReplacementPiece::Group(n))
            } else {
                None
            };
            if let Some(group) = group {
                parts.push(ReplacementPiece::Text(std::mem::take(&mut text)));
                parts.push(group);
                continue;
            }
            match simple_escape(c) {
                Some(plain) => text.push(plain),
                None if c.is_ascii_alphabetic() => return Err(bad(format!("bad escape \\{c}"))),
                None => text.extend(['\\', c]),
            }
            rest = &rest[c.len_utf8()..];
        }
        text.push_str(rest);
        parts.push(ReplacementPiece::Text(text));
        Ok(Self { parts })
    }

    /// Finds the groups that it names.
    fn bind<'p>(&'p self, regex: &Regex) -> Result<Vec<BoundPart<'p>>, StateError> {
        let names: Vec<Option<&str>> = regex.capture_names().collect();
        let bind = |part: &'p ReplacementPiece| match part {
            ReplacementPiece::Text(text) => Ok(BoundPart::Text(text)),
            ReplacementPiece::Group(n) if *n < names.len() => Ok(BoundPart::Group(*n)),
            ReplacementPiece::Group(n) => Err(StateError::new(format!("invalid group reference {n}"))),
            ReplacementPiece::Name(name) => names
                .iter()
                .position(|n| *n == Some(name))
                .map(BoundPart::Group)
                .ok_or_else(|| StateError::new(format!("unknown group name '{name}'"))),
        };
        self.parts.iter().map(bind).collect()
    }
}

/// The digits of an octal number: after a zero up to two more, else exactly three.
fn octal_digits(rest: &str) -> Option<&str> {
    let is_octal = |b: &u8| (b'0'..=b'7').contains(b);
    let digits = rest.bytes().take(3).take_while(is_octal).count();
    match rest.as_bytes() {
        [b'0', ..] => Some(&rest[..digits]),
        [b'1'..=b'9', ..] if digits == 3 => Some(&rest[..3]),
        _ => None,
    }
}

const fn simple_escape(c: char) -> Option<char> {
    Some(match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        '\\' => '\\',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sub(pattern: &str, repl: &str, text: &str) -> Result<String, String> {
        let template = ReplacementTemplate::parse(repl).map_err(|f| f.result.comment)?;
        let pattern = PythonRegex::new(pattern, RegexFlags::LINES, text).map_err(|f| f.result.comment)?;
        pattern.replace(text, &template, 0).map(|(text, _)| text).map_err(|f| f.result.comment)
    }

    #[test]
    fn replaces_as_python_does() {
        for (pattern, repl, text, want) in [
            (r"^(\w+)=(.*)$", r"\2=\1", "a=b\nc=d\n", "b=a\nd=c\n"),
            (r"(?P<k>\w+)=", r"\g<k>: ", "a=b", "a: b"),
            ("b", r"\g<0>\g<0>", "abc", "abbc"),
            ("x*", "-", "abxd", "-a-b--d-"),
            ("b", r"\n\t\\\.", "abc", "a\n\t\\\\.c"),
            ("b", r"\012\101", "abc", "a\nAc"),
            ("(a)|b", r"[\1]", "ab", "[a][]"),
            (r"\w+", "x", "größe", "xößx"),
            (r"e\b", "x", "größe", "größx"),
            (r"(?i)ABC$", "x", "abc\nabc", "x\nx"),
            (r"a\Z", "x", "a\na", "a\nx"),
        ] {
            assert_eq!(sub(pattern, repl, text).as_deref(), Ok(want), "{pattern}");
        }
    }

    #[test]
    fn faults_are_told() {
        for (pattern, repl, words) in [
            ("b", r"\1", "invalid group reference 1"),
            ("b", r"\g<x>", "unknown group name 'x'"),
            ("b", r"\q", "bad escape \\q in replacement '\\q'"),
            ("b", "\\", "bad escape (end of pattern) in replacement '\\'"),
            ("b", r"\g<1", "missing group name in replacement '\\g<1'"),
            ("(", "x", "invalid regular expression"),
        ] {
            let told = sub(pattern, repl, "abc").unwrap_err();
            assert!(told.contains(words), "{pattern} {repl}: {told}");
        }
    }

    #[test]
    fn a_hostile_pattern_ends() {
        let told = sub(r"(a|a)*(?=b)\1c", "x", &"a".repeat(64)).unwrap_err();
        assert!(told.contains("too many steps"), "{told}");
        assert!(sub("((a{900}){900}){900}", "x", "a").is_err());
    }

    #[test]
    fn a_search_through_a_long_text_is_not_hostile() {
        let text = "some line of text\n".repeat(50_000);
        let pattern = PythonRegex::new(r"^(?!\s*#)\s*absent", RegexFlags::LINES, &text).unwrap();
        assert_eq!(pattern.is_match(&text), Ok(false));
    }

    #[test]
    fn flags_come_as_number_name_or_list() {
        let list: Value = vec![Value::from("i"), Value::from("DOTALL")].into();
        assert_eq!(RegexFlags::from_value(&Value::Int(8)).unwrap(), RegexFlags::LINES);
        assert_eq!(RegexFlags::from_value(&Value::from("multiline")).unwrap(), RegexFlags::LINES);
        let flags = RegexFlags::from_value(&list).unwrap();
        assert!(flags.ignore_case && flags.dot_all && !flags.multi_line);
        assert_eq!(
            RegexFlags::from_value(&Value::from("nope")).unwrap_err().result.comment,
            "Invalid re flag given: nope"
        );
    }

    #[test]
    fn escapes_as_python_does() {
        assert_eq!(escape("a.b c#d-e_f/é\n"), "a\\.b\\ c\\#d\\-e_f/é\\\n");
    }
}
