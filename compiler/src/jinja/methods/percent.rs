//! `'%s and %(name)05d' % values`: Python's `%` formatting.

use minijinja::Error;
use minijinja::value::{Tuple, Value, ValueKind};

use super::args::{CallArgs, undefined_error};
use super::spec::{FormatSpec, float_body, format_int};
use crate::jinja::object::{budget, py_str, repr, type_name};

/// Formats `template % values`; a tuple gives several values, a mapping gives named ones.
///
/// # Errors
/// Fails for a malformed template, too few or too many values, or a value that does not fit.
pub fn format(args: &CallArgs, template: &str, values: &Value) -> Result<String, Error> {
    if values.is_undefined() {
        return Err(undefined_error(values));
    }
    let positional = match values.downcast_object_ref::<Tuple>() {
        Some(tuple) => tuple.to_vec(),
        None => vec![values.clone()],
    };
    let is_mapping = values.kind() == ValueKind::Map;
    let mut run =
        PercentFormatter { args, values, positional, used: 0, chars: template.chars().collect(), at: 0 };
    let mut out = String::new();
    while let Some(&c) = run.chars.get(run.at) {
        run.at += 1;
        if c == '%' {
            run.field(&mut out)?;
        } else {
            out.push(c);
        }
        budget::check_bytes(args.function_name(), out.len())?;
    }
    if run.used < run.positional.len() && !is_mapping && values.kind() != ValueKind::Seq {
        return Err(args.error("not all arguments converted during string formatting"));
    }
    if run.used < run.positional.len() && values.is_tuple() {
        return Err(args.error("not all arguments converted during string formatting"));
    }
    Ok(out)
}

struct PercentFormatter<'a> {
    args: &'a CallArgs,
    values: &'a Value,
    positional: Vec<Value>,
    used: usize,
    chars: Vec<char>,
    at: usize,
}

impl PercentFormatter<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next_value(&mut self) -> Result<Value, Error> {
        let value = self.positional.get(self.used).cloned();
        self.used += 1;
        value.ok_or_else(|| self.args.error("not enough arguments for format string"))
    }

    fn key(&mut self) -> Result<Option<Value>, Error> {
        if self.peek() != Some('(') {
            return Ok(None);
        }
        let start = self.at + 1;
        let mut depth = 0;
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                '(' => depth += 1,
                ')' if depth == 1 => {
                    let key: String = self.chars[start..self.at - 1].iter().collect();
                    if self.values.kind() != ValueKind::Map {
                        return Err(self.args.error("format requires a mapping"));
                    }
                    let found = self.values.get_item(&Value::from(key.as_str()))?;
                    if found.is_undefined() {
                        return Err(self.args.error(format_args!("missing key '{key}'")));
                    }
                    self.used = self.positional.len();
                    return Ok(Some(found));
                }
                ')' => depth -= 1,
                _ => {}
            }
        }
        Err(self.args.error("incomplete format key"))
    }

    /// A width or precision: digits, or `*` for the next value.
    fn number(&mut self) -> Result<Option<i64>, Error> {
        if self.peek() == Some('*') {
            self.at += 1;
            let value = self.next_value()?;
            return self.args.int("*", &value).map(Some);
        }
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        if start == self.at {
            return Ok(None);
        }
        let digits: String = self.chars[start..self.at].iter().collect();
        digits.parse().map(Some).map_err(|_| self.args.error("a width is too large"))
    }

    fn check_width(&self, n: i64) -> Result<usize, Error> {
        let n = usize::try_from(n).unwrap_or(0);
        budget::check_bytes(self.args.function_name(), n.saturating_mul(4))?;
        Ok(n)
    }

    fn field(&mut self, out: &mut String) -> Result<(), Error> {
        let key = self.key()?;
        let mut spec = FormatSpec::default();
        let mut is_left = false;
        while let Some(c) = self.peek() {
            match c {
                '-' => is_left = true,
                '+' => spec.sign = Some('+'),
                ' ' if spec.sign.is_none() => spec.sign = Some(' '),
                ' ' => {}
                '#' => spec.alternate = true,
                '0' => spec.zero = true,
                _ => break,
            }
            self.at += 1;
        }
        if let Some(width) = self.number()? {
            is_left |= width < 0;
            spec.width = self.check_width(width.saturating_abs())?;
        }
        if self.peek() == Some('.') {
            self.at += 1;
            let precision = self.number()?.unwrap_or(0);
            spec.precision = Some(self.check_width(precision)?);
        }
        while matches!(self.peek(), Some('h' | 'l' | 'L')) {
            self.at += 1;
        }
        if is_left {
            (spec.align, spec.zero) = (Some('<'), false);
        }
        let kind = self.peek().ok_or_else(|| self.args.error("incomplete format"))?;
        self.at += 1;
        if kind == '%' {
            out.push('%');
            return Ok(());
        }
        let value = match key {
            Some(value) => value,
            None => self.next_value()?,
        };
        if value.is_undefined() {
            return Err(undefined_error(&value));
        }
        out.push_str(&self.convert(kind, &value, spec)?);
        Ok(())
    }

    fn convert(&self, kind: char, value: &Value, spec: FormatSpec) -> Result<String, Error> {
        match kind {
            's' | 'r' | 'a' => {
                let shown = if kind == 's' { py_str(value) } else { repr(value) };
                let cut = match spec.precision {
                    Some(n) => shown.chars().take(n).collect(),
                    None => shown,
                };
                Ok(FormatSpec { zero: false, ..spec }.pad("", &cut, '>'))
            }
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' => self.integer(kind, value, spec),
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
                let float = self.float(kind, value)?;
                let body = float_body(float.abs(), kind, spec.precision, spec.alternate);
                Ok(spec.pad(spec.sign_of(float.is_sign_negative()), &body, '>'))
            }
            'c' => {
                let c = match value.as_str() {
                    Some(s) if s.chars().count() == 1 => s.to_owned(),
                    Some(_) => return Err(self.args.error("%c requires an integer or a single character")),
                    None => u32::try_from(self.args.int("%c", value)?)
                        .ok()
                        .and_then(char::from_u32)
                        .ok_or_else(|| self.args.error("%c is out of range"))?
                        .to_string(),
                };
                Ok(FormatSpec { zero: false, ..spec }.pad("", &c, '>'))
            }
            other => Err(self.args.error(format_args!("unsupported format character '{other}'"))),
        }
    }

    fn float(&self, kind: char, value: &Value) -> Result<f64, Error> {
        match value.kind() {
            ValueKind::Bool => Ok(f64::from(u8::from(value.is_true()))),
            ValueKind::Number => {
                f64::try_from(value.clone()).map_err(|_| self.args.error("the number is too large"))
            }
            _ => Err(self.args.error(format_args!("%{kind} needs a number, not '{}'", type_name(value)))),
        }
    }

    fn integer(&self, kind: char, value: &Value, spec: FormatSpec) -> Result<String, Error> {
        let is_float = type_name(value) == "float";
        let int = if is_float && matches!(kind, 'd' | 'i' | 'u') {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "Python truncates here; out of range saturates"
            )]
            let int = f64::try_from(value.clone())?.trunc() as i128;
            int
        } else if value.kind() == ValueKind::Bool {
            i128::from(value.is_true())
        } else if value.is_integer() {
            i128::try_from(value.clone())?
        } else {
            return Err(self.args.error(format_args!("%{kind} needs a number, not '{}'", type_name(value))));
        };
        let digits = spec.precision;
        let spec = FormatSpec {
            precision: None,
            kind: Some(if matches!(kind, 'x' | 'X' | 'o') { kind } else { 'd' }),
            ..spec
        };
        let Some(digits) = digits else {
            return format_int(int, &spec);
        };
        let bare =
            format_int(int.saturating_abs(), &FormatSpec { kind: spec.kind, ..FormatSpec::default() })?;
        let body = format!("{}{bare}", "0".repeat(digits.saturating_sub(bare.len())));
        Ok(spec.pad(spec.sign_of(int < 0), &body, '>'))
    }
}
