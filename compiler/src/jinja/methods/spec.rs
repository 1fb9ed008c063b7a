//! Python's format specification: `[[fill]align][sign][#][0][width][,][.precision][type]`.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

use crate::jinja::object::{budget, float_text, py_str, type_name};

/// A parsed format specification.
#[derive(Clone, Debug, Default)]
pub struct FormatSpec {
    /// What fills up to the width.
    pub fill: Option<char>,
    /// `<`, `>`, `^` or `=`.
    pub align: Option<char>,
    /// `+`, `-` or a space.
    pub sign: Option<char>,
    /// `#`.
    pub alternate: bool,
    /// `0` before the width.
    pub zero: bool,
    /// The least number of characters.
    pub width: usize,
    /// `,` or `_`.
    pub grouping: Option<char>,
    /// Digits after the point, or most characters of a string.
    pub precision: Option<usize>,
    /// The presentation type.
    pub kind: Option<char>,
}

fn spec_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("format: {}", message.into()))
}

impl FormatSpec {
    /// Reads a specification.
    ///
    /// # Errors
    /// Fails when Python would reject it, or a width exceeds the limit.
    pub fn parse(spec: &str) -> Result<Self, Error> {
        let chars: Vec<char> = spec.chars().collect();
        let mut out = Self::default();
        let mut i = 0;
        let is_align = |c: Option<&char>| c.is_some_and(|c| matches!(c, '<' | '>' | '^' | '='));
        if is_align(chars.get(1)) {
            (out.fill, out.align) = (Some(chars[0]), Some(chars[1]));
            i = 2;
        } else if is_align(chars.first()) {
            out.align = Some(chars[0]);
            i = 1;
        }
        let mut flag = |wanted: &[char]| {
            let found = chars.get(i).copied().filter(|c| wanted.contains(c));
            i += usize::from(found.is_some());
            found
        };
        out.sign = flag(&['+', '-', ' ']);
        let _ = flag(&['z']);
        out.alternate = flag(&['#']).is_some();
        out.zero = flag(&['0']).is_some();
        let digits = |i: &mut usize| -> Result<Option<usize>, Error> {
            let start = *i;
            while chars.get(*i).is_some_and(char::is_ascii_digit) {
                *i += 1;
            }
            if start == *i {
                return Ok(None);
            }
            let n = chars[start..*i].iter().collect::<String>().parse::<usize>();
            let n = n.map_err(|_| spec_error("a number is too large"))?;
            budget::check_bytes("format", n.saturating_mul(4))?;
            Ok(Some(n))
        };
        out.width = digits(&mut i)?.unwrap_or(0);
        out.grouping = chars.get(i).copied().filter(|c| matches!(c, ',' | '_'));
        i += usize::from(out.grouping.is_some());
        if chars.get(i) == Some(&'.') {
            i += 1;
            out.precision =
                Some(digits(&mut i)?.ok_or_else(|| spec_error("format specifier missing precision"))?);
        }
        out.kind = chars.get(i).copied();
        i += usize::from(out.kind.is_some());
        if i < chars.len() {
            return Err(spec_error(format!("invalid format specifier '{spec}'")));
        }
        Ok(out)
    }

    /// Fills a text up to the width; `default` is the alignment when none is given.
    #[must_use]
    pub fn pad(&self, sign: &str, body: &str, default: char) -> String {
        let fill = self.fill.unwrap_or(if self.zero { '0' } else { ' ' });
        let align = self.align.unwrap_or(if self.zero && default == '>' { '=' } else { default });
        let have = sign.chars().count() + body.chars().count();
        let missing = self.width.saturating_sub(have);
        let fill = |n: usize| fill.to_string().repeat(n);
        match align {
            '<' => format!("{sign}{body}{}", fill(missing)),
            '^' => format!("{}{sign}{body}{}", fill(missing / 2), fill(missing - missing / 2)),
            '=' => format!("{sign}{}{body}", fill(missing)),
            _ => format!("{}{sign}{body}", fill(missing)),
        }
    }

    /// The sign that a number shows.
    #[must_use]
    pub fn sign_of(&self, is_negative: bool) -> &'static str {
        match (is_negative, self.sign) {
            (true, _) => "-",
            (false, Some('+')) => "+",
            (false, Some(' ')) => " ",
            _ => "",
        }
    }
}

/// Formats a value as `format(value, spec)` does.
///
/// # Errors
/// Fails when the specification does not fit the type.
pub fn format_value(value: &Value, spec: &str) -> Result<String, Error> {
    if spec.is_empty() {
        return Ok(py_str(value));
    }
    let parsed = FormatSpec::parse(spec)?;
    match value.kind() {
        ValueKind::String => format_str(value.as_str().unwrap_or_default(), &parsed),
        ValueKind::Number | ValueKind::Bool => format_number(value, &parsed),
        _ => Err(spec_error(format!("unsupported format string for '{}'", type_name(value)))),
    }
}

fn format_str(value: &str, spec: &FormatSpec) -> Result<String, Error> {
    if !matches!(spec.kind, None | Some('s')) {
        let kind = spec.kind.unwrap_or('s');
        return Err(spec_error(format!("unknown format code '{kind}' for object of type 'str'")));
    }
    let cut: String = match spec.precision {
        Some(n) => value.chars().take(n).collect(),
        None => value.to_owned(),
    };
    let spec = if spec.zero && spec.align.is_none() {
        &FormatSpec { align: Some('<'), ..spec.clone() }
    } else {
        spec
    };
    Ok(spec.pad("", &cut, '<'))
}

fn format_number(value: &Value, spec: &FormatSpec) -> Result<String, Error> {
    let is_float = type_name(value) == "float";
    match spec.kind {
        None if is_float => {
            let float = f64::try_from(value.clone())?;
            let body = match spec.precision {
                None => float_text(float.abs()),
                Some(p) => general(float.abs(), p, false, true),
            };
            Ok(spec.pad(spec.sign_of(float.is_sign_negative()), &group_digits(&body, spec.grouping), '>'))
        }
        Some(kind @ ('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%' | 'n')) if is_float || kind != 'n' => {
            let float = if is_float { f64::try_from(value.clone())? } else { integer(value)? as f64 };
            let body = float_body(float.abs(), kind, spec.precision, spec.alternate);
            Ok(spec.pad(spec.sign_of(float.is_sign_negative()), &group_digits(&body, spec.grouping), '>'))
        }
        None | Some('d' | 'n' | 'b' | 'o' | 'x' | 'X' | 'c') if !is_float => {
            format_int(integer(value)?, spec)
        }
        kind => {
            let kind = kind.unwrap_or('d');
            let name = type_name(value);
            Err(spec_error(format!("unknown format code '{kind}' for object of type '{name}'")))
        }
    }
}

fn integer(value: &Value) -> Result<i128, Error> {
    if value.kind() == ValueKind::Bool {
        return Ok(i128::from(value.is_true()));
    }
    i128::try_from(value.clone()).map_err(|_| spec_error("the integer is too large"))
}

/// Formats an integer.
///
/// # Errors
/// Fails for a precision, which integers do not take.
pub fn format_int(value: i128, spec: &FormatSpec) -> Result<String, Error> {
    if spec.precision.is_some() {
        return Err(spec_error("precision not allowed in integer format specifier"));
    }
    let abs = value.unsigned_abs();
    let (prefix, body) = match spec.kind {
        Some('b') => ("0b", format!("{abs:b}")),
        Some('o') => ("0o", format!("{abs:o}")),
        Some('x') => ("0x", format!("{abs:x}")),
        Some('X') => ("0X", format!("{abs:X}")),
        Some('c') => {
            let c = u32::try_from(value).ok().and_then(char::from_u32);
            return Ok(spec.pad("", &c.ok_or_else(|| spec_error("not a valid character"))?.to_string(), '<'));
        }
        _ => ("", abs.to_string()),
    };
    let prefix = if spec.alternate { prefix } else { "" };
    let sign = format!("{}{prefix}", spec.sign_of(value < 0));
    let body = match (spec.grouping, spec.zero && spec.align.is_none()) {
        (Some(_), true) => group_filled(&body, spec, sign.chars().count()),
        _ => group_digits(&body, spec.grouping),
    };
    Ok(spec.pad(&sign, &body, '>'))
}

/// Groups digits that are filled with zeros: the separators reach into the filling.
fn group_filled(digits: &str, spec: &FormatSpec, sign: usize) -> String {
    let mut filled = digits.to_owned();
    loop {
        let grouped = group_digits(&filled, spec.grouping);
        if grouped.chars().count() + sign >= spec.width {
            return grouped;
        }
        filled.insert(0, '0');
    }
}

fn group_digits(number: &str, separator: Option<char>) -> String {
    let Some(separator) = separator else {
        return number.to_owned();
    };
    let end = number.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(number.len());
    let (whole, rest) = number.split_at(end);
    let mut out = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(separator);
        }
        out.push(c);
    }
    out + rest
}

/// The digits of a float that is not negative, by presentation type.
#[must_use]
pub fn float_body(value: f64, kind: char, precision: Option<usize>, alternate: bool) -> String {
    if !value.is_finite() {
        let word = if value.is_nan() { "nan" } else { "inf" };
        let tail = if kind == '%' { "%" } else { "" };
        let word = if kind.is_ascii_uppercase() { word.to_uppercase() } else { word.to_owned() };
        return word + tail;
    }
    let p = precision.unwrap_or(6);
    let body = match kind {
        'e' | 'E' => scientific(value, p),
        '%' => format!("{:.p$}%", value * 100.0),
        'g' | 'G' | 'n' => general(value, p, alternate, false),
        _ => format!("{value:.p$}"),
    };
    if kind.is_ascii_uppercase() { body.to_uppercase() } else { body }
}

fn scientific(value: f64, precision: usize) -> String {
    let raw = format!("{value:.precision$e}");
    let (digits, exponent) = raw.split_once('e').unwrap_or((&raw, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// `%g`; with `dotted` at least one digit follows the point.
fn general(value: f64, precision: usize, alternate: bool, dotted: bool) -> String {
    if !value.is_finite() {
        return float_body(value, 'f', None, false);
    }
    let p = precision.max(1);
    let raw = format!("{value:.*e}", p - 1);
    let exponent: i64 = raw.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let top = i64::try_from(p).unwrap_or(i64::MAX) - i64::from(dotted);
    if exponent < -4 || exponent >= top {
        let text = scientific(value, p - 1);
        let (digits, tail) = text.split_once('e').unwrap_or((&text, ""));
        let digits = if alternate { digits.to_owned() } else { trim(digits) };
        return format!("{digits}e{tail}");
    }
    let decimals = usize::try_from(i64::try_from(p).unwrap_or(i64::MAX) - 1 - exponent).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    let text = if alternate { text } else { trim(&text) };
    if dotted && !text.contains('.') { text + ".0" } else { text }
}

fn trim(digits: &str) -> String {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        digits.to_owned()
    }
}
