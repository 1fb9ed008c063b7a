//! The text of an integer or float in, the number out.

use std::borrow::Cow;

use zagent_config::Value;

/// Reads an integer; `None` when the text has no digits (`0x_`).
pub(super) fn parse_int(text: &str) -> Option<Value> {
    if let Some(value) = short_int(text) {
        return Some(value);
    }
    let stripped = strip_zeros(text);
    let digits = without_underscores(stripped);
    let (negative, digits) = match digits.as_bytes().first()? {
        b'-' => (true, &digits[1..]),
        b'+' => (false, &digits[1..]),
        _ => (false, &digits[..]),
    };
    let magnitude = if digits == "0" {
        Magnitude::Small(0)
    } else if let Some(binary) = digits.strip_prefix("0b") {
        parse_radix(binary, 2)?
    } else if let Some(hex) = digits.strip_prefix("0x") {
        parse_radix(hex, 16)?
    } else if digits.starts_with('0') {
        parse_radix(digits, 8)?
    } else if digits.contains(':') {
        parse_base_sixty(digits)?
    } else {
        parse_radix(digits.trim(), 10)?
    };
    Some(magnitude.signed(negative))
}

/// A number without the underscores between its digits.
fn without_underscores(text: &str) -> Cow<'_, str> {
    if text.contains('_') { text.replace('_', "").into() } else { text.into() }
}

/// The common case: a few decimal digits, no sign, no leading zero.
#[inline]
fn short_int(text: &str) -> Option<Value> {
    let bytes = text.as_bytes();
    if bytes.len() > 18 || bytes.first() == Some(&b'0') && bytes.len() > 1 || bytes.is_empty() {
        return None;
    }
    let mut n = 0i64;
    for b in bytes {
        if !b.is_ascii_digit() {
            return None;
        }
        n = n * 10 + i64::from(b - b'0');
    }
    Some(Value::Int(n))
}

/// Salt drops leading zeros, but only when the text starts with one and is neither binary nor hexadecimal.
fn strip_zeros(text: &str) -> &str {
    if !text.starts_with('0') || text.starts_with("0b") || text.starts_with("0x") {
        return text;
    }
    match text.trim_start_matches('0') {
        "" => "0",
        rest => rest,
    }
}

/// An integer without its sign.
enum Magnitude {
    Small(u64),
    /// Decimal digits, without leading zeros.
    Large(String),
}

impl Magnitude {
    fn signed(self, negative: bool) -> Value {
        match self {
            Self::Small(n) => {
                let n = i128::from(n);
                let n = if negative { -n } else { n };
                i64::try_from(n).map_or_else(|_| Value::Big(n.to_string().into()), Value::Int)
            }
            Self::Large(digits) if negative => Value::Big(format!("-{digits}").into()),
            Self::Large(digits) => Value::Big(digits.into()),
        }
    }
}

fn parse_radix(digits: &str, base: u32) -> Option<Magnitude> {
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return None;
    }
    if let Ok(n) = u64::from_str_radix(digits, base) {
        return Some(Magnitude::Small(n));
    }
    if base == 10 {
        if digits.len() > MAX_DIGITS {
            return None;
        }
        return Some(Magnitude::Large(digits.trim_start_matches('0').to_owned()));
    }
    let mut sum = BigDecimal::default();
    for digit in digits.chars() {
        sum.push(base, digit.to_digit(base)?)?;
    }
    Some(Magnitude::Large(sum.print()))
}

fn parse_base_sixty(text: &str) -> Option<Magnitude> {
    let mut sum = 0u64;
    for part in text.split(':') {
        let Magnitude::Small(n) = parse_radix(part, 10)? else { return None };
        sum = sum.checked_mul(60)?.checked_add(n)?;
    }
    Some(Magnitude::Small(sum))
}

/// Maximum decimal digits of an integer; Python rejects longer ones as well.
const MAX_DIGITS: usize = 4300;

/// A growing decimal number, the lowest nine places first.
#[derive(Default)]
struct BigDecimal(Vec<u32>);

impl BigDecimal {
    const PLACES: u64 = 1_000_000_000;

    /// Multiplies by `base` and adds `digit`; `None` when it gets too long.
    fn push(&mut self, base: u32, digit: u32) -> Option<()> {
        let mut carry = u64::from(digit);
        for part in &mut self.0 {
            let n = u64::from(*part) * u64::from(base) + carry;
            *part = u32::try_from(n % Self::PLACES).ok()?;
            carry = n / Self::PLACES;
        }
        if carry > 0 {
            self.0.push(u32::try_from(carry).ok()?);
        }
        (self.0.len() * 9 <= MAX_DIGITS).then_some(())
    }

    fn print(&self) -> String {
        use std::fmt::Write as _;
        let mut parts = self.0.iter().rev();
        let mut out = parts.next().map(ToString::to_string).unwrap_or_default();
        for part in parts {
            let _ = write!(out, "{part:09}");
        }
        out
    }
}

/// Reads a float; `None` when the text is not one.
pub(super) fn parse_float(text: &str) -> Option<f64> {
    let mut text = without_underscores(text);
    if text.bytes().any(|b| b.is_ascii_uppercase()) {
        text.to_mut().make_ascii_lowercase();
    }
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, &text[..]),
    };
    let magnitude = match rest {
        ".inf" => f64::INFINITY,
        ".nan" => f64::NAN,
        _ if rest.contains(':') => {
            let mut base = 1.0;
            let mut sum = 0.0;
            for part in rest.rsplit(':') {
                sum += part.parse::<f64>().ok()? * base;
                base *= 60.0;
            }
            sum
        }
        _ => rest.trim().parse().ok()?,
    };
    Some(sign * magnitude)
}
