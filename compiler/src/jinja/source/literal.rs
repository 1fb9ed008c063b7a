//! Numbers and strings as Jinja2 and Python read them.

/// Length of digits with single underscores between them, all of them accepted by `is`.
fn digits(bytes: &[u8], is: impl Fn(u8) -> bool) -> usize {
    let mut n = 0;
    while n < bytes.len() {
        if is(bytes[n]) {
            n += 1;
        } else if bytes[n] == b'_' && n > 0 && bytes.get(n + 1).is_some_and(|b| is(*b)) {
            n += 2;
        } else {
            break;
        }
    }
    n
}

/// Length of the integer at the start.
pub(super) fn integer(bytes: &[u8]) -> usize {
    if bytes[0] == b'0' {
        let radix = match bytes.get(1).map(u8::to_ascii_lowercase) {
            Some(b'x') => digits(&bytes[2..], |b| b.is_ascii_hexdigit()),
            Some(b'o') => digits(&bytes[2..], |b| (b'0'..=b'7').contains(&b)),
            Some(b'b') => digits(&bytes[2..], |b| matches!(b, b'0' | b'1')),
            _ => 0,
        };
        return if radix > 0 { 2 + radix } else { digits(bytes, |b| b == b'0') };
    }
    digits(bytes, |b| b.is_ascii_digit())
}

/// Length of the number at the start, and whether it is a float.
pub(super) fn number(bytes: &[u8]) -> (usize, bool) {
    let decimal = |b: u8| b.is_ascii_digit();
    let whole = digits(bytes, decimal);
    let mut end = whole;
    let fraction = match bytes.get(end) {
        Some(b'.') => digits(&bytes[end + 1..], decimal),
        _ => 0,
    };
    if fraction > 0 {
        end += 1 + fraction;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(bytes.get(end + 1 + sign..).unwrap_or_default(), decimal);
        if exponent > 0 {
            return (end + 1 + sign + exponent, true);
        }
    }
    if fraction > 0 { (end, true) } else { (integer(bytes), false) }
}

/// Resolves the escapes of a string as Python does.
pub(super) fn unescape(text: &str) -> Result<String, String> {
    if !text.contains('\\') {
        return Ok(text.to_owned());
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let Some(e) = chars.next() else { return Err("this string ends with a backslash".into()) };
        match e {
            '\n' => {}
            '\\' | '\'' | '"' => out.push(e),
            'a' => out.push('\u{7}'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'v' => out.push('\u{b}'),
            '0'..='7' => {
                let mut code = e as u32 - '0' as u32;
                for _ in 0..2 {
                    match chars.peek().and_then(|d| d.to_digit(8)) {
                        Some(d) => code = code * 8 + d,
                        None => break,
                    }
                    chars.next();
                }
                out.push(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            'x' | 'u' | 'U' => {
                let width = match e {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let mut code = 0u32;
                for _ in 0..width {
                    let digit = chars.next().and_then(|d| d.to_digit(16));
                    code = code.wrapping_shl(4)
                        | digit.ok_or_else(|| format!("`\\{e}` needs {width} hex digits"))?;
                }
                out.push(char::from_u32(code).ok_or("this escape is not a valid character")?);
            }
            other => {
                out.push('\\');
                out.push(other);
            }
        }
    }
    Ok(out)
}
