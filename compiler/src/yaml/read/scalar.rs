//! The text of a plain scalar in, a value out, by the rules of YAML 1.1 as Salt applies them.
//!
//! Law: what a text *is* depends on the text alone. `0644` is the integer 644 (Salt drops leading zeros), `-0644`
//! is octal (Salt looks at the first character only), dates stay strings, `y` and `n` are strings (held by
//! `integers_are_salts`, `floats_need_a_point`, `everything_else_is_a_string`).

use super::timestamp::is_timestamp;

/// The kind of a plain scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarKind {
    Str,
    Null,
    Bool(bool),
    Int,
    Float,
    /// `<<`.
    Merge,
    /// `=`.
    Default,
}

/// The kinds that a first byte allows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FirstByte {
    /// Only a string.
    Text,
    /// A number, an infinity or a NaN.
    Number,
    /// A boolean, null, `<<` or `=`.
    Word,
}

const FIRST_BYTES: [FirstByte; 256] = {
    let mut table = [FirstByte::Text; 256];
    let words = b"yYnNtTfFoO~<=";
    let mut i = 0;
    while i < words.len() {
        table[words[i] as usize] = FirstByte::Word;
        i += 1;
    }
    let numbers = b"0123456789+-.";
    let mut i = 0;
    while i < numbers.len() {
        table[numbers[i] as usize] = FirstByte::Number;
        i += 1;
    }
    table
};

/// Determines the kind of a plain scalar from its text.
#[inline]
pub(super) fn classify(text: &str) -> ScalarKind {
    let Some(&first) = text.as_bytes().first() else { return ScalarKind::Null };
    match FIRST_BYTES[first as usize] {
        FirstByte::Text => ScalarKind::Str,
        FirstByte::Word => classify_word(text),
        FirstByte::Number => classify_number(text),
    }
}

fn classify_word(text: &str) -> ScalarKind {
    if text.len() > 5 {
        return ScalarKind::Str;
    }
    match text {
        "~" | "null" | "Null" | "NULL" => ScalarKind::Null,
        "<<" => ScalarKind::Merge,
        "=" => ScalarKind::Default,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => ScalarKind::Bool(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => ScalarKind::Bool(false),
        _ => ScalarKind::Str,
    }
}

fn classify_number(text: &str) -> ScalarKind {
    let bytes = text.as_bytes();
    let (signed, rest) = match bytes {
        [b'+' | b'-', rest @ ..] => (true, rest),
        _ => (false, bytes),
    };
    let digits = rest.iter().take_while(|b| is_digit(**b)).count();
    match rest.get(digits) {
        None if digits > 0 => plain_int(rest),
        Some(b'b') if rest[0] == b'0' && digits == 1 => {
            int_when(all_bytes(&rest[2..], |b| matches!(b, b'0' | b'1' | b'_')))
        }
        Some(b'x') if rest[0] == b'0' && digits == 1 => {
            int_when(all_bytes(&rest[2..], |b| b.is_ascii_hexdigit() || b == b'_'))
        }
        Some(b'.') if digits == 0 => classify_point(&rest[1..], signed),
        Some(b'_' | b'.' | b':') if digits > 0 => long_number(rest),
        _ => ScalarKind::Str,
    }
}

const fn is_digit(b: u8) -> bool {
    b.is_ascii_digit()
}

const fn is_digit_or_line(b: u8) -> bool {
    b.is_ascii_digit() || b == b'_'
}

fn all_bytes(bytes: &[u8], of: fn(u8) -> bool) -> bool {
    !bytes.is_empty() && bytes.iter().all(|b| of(*b))
}

const fn int_when(yes: bool) -> ScalarKind {
    if yes { ScalarKind::Int } else { ScalarKind::Str }
}

/// Digits and underscores only: a leading zero requires octal digits.
fn plain_int(digits: &[u8]) -> ScalarKind {
    match digits {
        [b'0'] => ScalarKind::Int,
        [b'0', rest @ ..] => int_when(rest.iter().all(|b| matches!(b, b'0'..=b'7' | b'_'))),
        _ => int_when(digits.iter().all(|b| is_digit_or_line(*b))),
    }
}

/// What follows a leading point.
fn classify_point(rest: &[u8], signed: bool) -> ScalarKind {
    match rest {
        b"inf" | b"Inf" | b"INF" => ScalarKind::Float,
        b"nan" | b"NaN" | b"NAN" if !signed => ScalarKind::Float,
        [b'0'..=b'9', ..] if !signed && is_fraction(rest) => ScalarKind::Float,
        _ => ScalarKind::Str,
    }
}

/// Digits and underscores, then an optional exponent with a sign.
fn is_fraction(rest: &[u8]) -> bool {
    let mantissa = rest.iter().take_while(|b| is_digit_or_line(**b)).count();
    match &rest[mantissa..] {
        [] => true,
        [b'e' | b'E', b'+' | b'-', exponent @ ..] => all_bytes(exponent, is_digit),
        _ => false,
    }
}

/// A number with an underscore, a point or a colon in it; it starts with a digit.
fn long_number(rest: &[u8]) -> ScalarKind {
    let head = rest.iter().take_while(|b| is_digit_or_line(**b)).count();
    match rest.get(head) {
        None => plain_int(rest),
        Some(b'.') => {
            if is_fraction(&rest[head + 1..]) {
                ScalarKind::Float
            } else {
                ScalarKind::Str
            }
        }
        Some(b':') => sexagesimal(rest, head),
        Some(_) => ScalarKind::Str,
    }
}

/// `1:30` and `1:30.5`: groups of sixty after the first.
fn sexagesimal(rest: &[u8], head: usize) -> ScalarKind {
    let (groups, fraction) = match rest.iter().position(|b| *b == b'.') {
        Some(at) => (&rest[head + 1..at.max(head + 1)], Some(&rest[at + 1..])),
        None => (&rest[head + 1..], None),
    };
    let below_sixty = |group: &[u8]| match group {
        [a] => is_digit(*a),
        [a, b] => matches!(a, b'0'..=b'5') && is_digit(*b),
        _ => false,
    };
    if !groups.split(|b| *b == b':').all(below_sixty) {
        return ScalarKind::Str;
    }
    match fraction {
        Some(f) if f.iter().all(|b| is_digit_or_line(*b)) => ScalarKind::Float,
        None if rest[0] != b'0' => ScalarKind::Int,
        _ => ScalarKind::Str,
    }
}

/// True when a text reads back as a string when it is written without quotes. Dates do not, outside of Salt.
pub(super) fn is_plain_str(text: &str) -> bool {
    classify(text) == ScalarKind::Str && !is_timestamp(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use zagent_config::Value;

    use super::super::number::{parse_float, parse_int};
    use super::*;

    fn read(text: &str) -> Option<Value> {
        match classify(text) {
            ScalarKind::Null => Some(Value::Null),
            ScalarKind::Bool(b) => Some(Value::Bool(b)),
            ScalarKind::Int => parse_int(text),
            ScalarKind::Float => parse_float(text).map(Value::Float),
            ScalarKind::Str => Some(Value::from(text)),
            ScalarKind::Merge | ScalarKind::Default => None,
        }
    }

    #[test]
    fn integers_are_salts() {
        for (text, want) in [
            ("0", 0),
            ("00", 0),
            ("0644", 644),
            ("017", 17),
            ("-0644", -420),
            ("+0644", 420),
            ("0_010", 8),
            ("0_7", 7),
            ("1_000", 1000),
            ("1_", 1),
            ("+1", 1),
            ("-0", 0),
            ("0x1F", 31),
            ("-0x10", -16),
            ("0b1010", 10),
            ("1:30", 90),
            ("-1:30", -90),
            ("22:22", 1342),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(read(text), Some(Value::Int(want)), "{text}");
        }
        for (text, want) in [
            ("9223372036854775808", "9223372036854775808"),
            ("-99999999999999999999999", "-99999999999999999999999"),
            ("0xffffffffffffffffffff", "1208925819614629174706175"),
        ] {
            assert_eq!(read(text), Some(Value::Big(want.into())), "{text}");
        }
        for text in ["0_", "0x_", "0b_"] {
            assert_eq!((classify(text), read(text)), (ScalarKind::Int, None), "{text}");
        }
    }

    #[test]
    fn floats_need_a_point() {
        for (text, want) in [
            ("0.", 0.0),
            (".5", 0.5),
            ("1.e+3", 1000.0),
            ("1.5E+3", 1500.0),
            ("1_000.5_", 1000.5),
            ("1:30.5", 90.5),
            ("190:20:30.15", 685_230.15),
            ("-.inf", f64::NEG_INFINITY),
            (".NaN", f64::NAN),
        ] {
            assert_eq!(read(text), Some(Value::Float(want)), "{text}");
        }
    }

    #[test]
    fn everything_else_is_a_string() {
        for text in [
            "1e3",
            "1.0e5",
            "12e03",
            "0o17",
            "019",
            "08",
            "0b12",
            "0xg",
            "8080:80",
            "1:60",
            "01:30",
            "1:",
            "-.5",
            "+.5",
            "-_1",
            "+",
            "-",
            ".",
            "..",
            "+.nan",
            "y",
            "n",
            "Y",
            "N",
            "yEs",
            "nULL",
            "2001-01-01",
            "1.2.3",
            "10.0.0.1",
            "1 2",
            "0x",
        ] {
            assert_eq!(read(text), Some(Value::from(text)), "{text}");
        }
    }

    #[test]
    fn words_come_in_three_cases() {
        for (text, want) in [("yes", true), ("On", true), ("TRUE", true), ("no", false), ("Off", false)] {
            assert_eq!(read(text), Some(Value::Bool(want)));
        }
        for text in ["", "~", "null", "Null", "NULL"] {
            assert_eq!(read(text), Some(Value::Null));
        }
        assert_eq!((classify("<<"), classify("=")), (ScalarKind::Merge, ScalarKind::Default));
    }
}
