//! One secret in, the texts by which it is found out: as it is, quoted, escaped and encoded.
//!
//! Law: a form is found wherever it stands, also when the secret is only a part of what was encoded (held by
//! `every_form_is_found`).

use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::patterns::FormKind;

/// Shorter encodings are not looked for: they occur by chance.
const MIN_ENCODED_CHARS: usize = 6;
/// Bytes of a secret whose encoding is looked for; what follows in the same encoded text is masked with it.
const MAX_ENCODED_BYTES: usize = 48;

/// Every form of a text, itself first; one may be there twice.
pub(super) fn secret_forms(text: &str) -> Vec<(String, FormKind)> {
    let mut forms = vec![text.to_owned()];
    json_forms(text, &mut forms);
    quoted_forms(text, &mut forms);
    percent_forms(text, &mut forms);
    let mut forms: Vec<_> = forms.into_iter().map(|form| (form, FormKind::Plain)).collect();
    base64_forms(text.as_bytes(), &mut forms);
    hex_forms(text.as_bytes(), &mut forms);
    forms
}

/// Inside a JSON text: with and without `\/`, with letters or `\u` for what is not ASCII, and safe for HTML.
fn json_forms(text: &str, forms: &mut Vec<String>) {
    for slash in [false, true] {
        for ascii in [None, Some(false), Some(true)] {
            for html in [false, true] {
                forms.push(json_escaped(text, slash, ascii, html));
            }
        }
    }
}

fn json_escaped(text: &str, slash: bool, ascii: Option<bool>, html: bool) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '/' if slash => out.push_str("\\/"),
            '<' | '>' | '&' | '\'' if html => push_unicode(&mut out, c, ascii == Some(true)),
            c if u32::from(c) < 0x20 || (!c.is_ascii() && ascii.is_some()) => {
                push_unicode(&mut out, c, ascii == Some(true));
            }
            c => out.push(c),
        }
    }
    out
}

fn push_unicode(out: &mut String, c: char, upper: bool) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        let _ = if upper { write!(out, "\\u{unit:04X}") } else { write!(out, "\\u{unit:04x}") };
    }
}

/// In the quotes of a shell, of YAML, SQL and Python, and in XML.
fn quoted_forms(text: &str, forms: &mut Vec<String>) {
    forms.push(text.replace('\'', r"'\''"));
    forms.push(text.replace('\'', r#"'"'"'"#));
    forms.push(text.replace('\'', "''"));
    forms.push(with_backslashes(text, |c| r#"$`"\"#.contains(c)));
    forms.push(with_backslashes(text, |c| r#"$`"\!"#.contains(c)));
    forms.push(with_backslashes(text, |c| r"\'".contains(c)));
    // As `printf %q` writes it.
    forms.push(with_backslashes(text, |c| {
        c.is_ascii() && !c.is_ascii_alphanumeric() && !"%+-./:@_".contains(c)
    }));
    forms.push(with_backslashes(text, |c| {
        c.is_ascii() && !c.is_ascii_alphanumeric() && !"%+-./:@_=,".contains(c)
    }));
    let xml = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    forms.push(xml.replace('"', "&quot;").replace('\'', "&#39;"));
    forms.push(xml.replace('"', "&quot;").replace('\'', "&apos;"));
    forms.push(xml.replace('"', "&#34;").replace('\'', "&#x27;"));
    forms.push(xml);
}

fn with_backslashes(text: &str, is_special: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len() + 4);
    for c in text.chars() {
        if is_special(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// In an address or a form: with more or fewer characters kept, in upper and lower case.
fn percent_forms(text: &str, forms: &mut Vec<String>) {
    for kept in ["-._~", "-._~/", "-._", "-._*", "-_.!~*'()", "-_.!~*'();/?:@&=+$,#"] {
        for upper in [true, false] {
            for plus in [false, true] {
                forms.push(percent_encoded(text, kept, upper, plus));
            }
        }
    }
}

fn percent_encoded(text: &str, kept: &str, upper: bool, plus: bool) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || kept.contains(c) {
            out.push(c);
        } else if plus && c == ' ' {
            out.push('+');
        } else {
            let _ = if upper { write!(out, "%{byte:02X}") } else { write!(out, "%{byte:02x}") };
        }
    }
    out
}

/// The letters of base64 that depend on the secret alone, for each of the three places it may have in a longer text.
fn base64_forms(bytes: &[u8], forms: &mut Vec<(String, FormKind)>) {
    let bytes = &bytes[..bytes.len().min(MAX_ENCODED_BYTES)];
    for engine in [&STANDARD, &URL_SAFE] {
        for before in 0..3 {
            let mut padded = vec![0; before];
            padded.extend_from_slice(bytes);
            let text = engine.encode(&padded);
            let (start, end) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
            if let Some(form) = text.get(start..end).filter(|form| form.len() >= MIN_ENCODED_CHARS) {
                forms.push((form.to_owned(), FormKind::Base64));
            }
        }
    }
}

fn hex_forms(bytes: &[u8], forms: &mut Vec<(String, FormKind)>) {
    let mut lower = String::with_capacity(bytes.len() * 2);
    for byte in &bytes[..bytes.len().min(MAX_ENCODED_BYTES)] {
        let _ = write!(lower, "{byte:02x}");
    }
    if lower.len() >= MIN_ENCODED_CHARS {
        forms.push((lower.to_ascii_uppercase(), FormKind::Hex));
        forms.push((lower, FormKind::Hex));
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

    use super::super::SecretMask;
    use super::*;

    /// A secret with every kind of character that some form changes.
    const SECRET: &str = "aé/b+c\"d'e\\f g&h<i$j=k?~>ÿ€";

    fn is_masked(secret: &str, text: &str) -> bool {
        let mask = SecretMask::new(&[secret.into()]);
        let shown = mask.mask_string(text);
        shown.contains(super::super::MASKED_TEXT)
    }

    #[test]
    fn every_form_is_found() {
        let json = serde_json::to_string(SECRET).unwrap();
        for text in [
            format!("x{SECRET}y"),
            json.clone(),
            json.replace('/', "\\/"),
            "a\\u00e9/b+c\\\"d'e\\\\f g&h<i$j=k?~>\\u00ff\\u20ac".into(),
            "a\\u00E9\\/b+c\\\"d\\u0027e\\\\f g\\u0026h\\u003Ci$j=k?~\\u003E\\u00FF\\u20AC".into(),
            format!("'{}'", SECRET.replace('\'', r"'\''")),
            "a%C3%A9%2Fb%2Bc%22d%27e%5Cf%20g%26h%3Ci%24j%3Dk%3F~%3E%C3%BF%E2%82%AC".into(),
            "a%c3%a9%2fb%2bc%22d%27e%5cf+g%26h%3ci%24j%3dk%3f~%3e%c3%bf%e2%82%ac".into(),
            "aé/b+c&quot;d&#39;e\\f g&amp;h&lt;i$j=k?~&gt;ÿ€".into(),
        ] {
            assert!(is_masked(SECRET, &text), "{text}");
        }
        for (engine, is_padded) in
            [(&STANDARD, true), (&URL_SAFE, true), (&STANDARD_NO_PAD, false), (&URL_SAFE_NO_PAD, false)]
        {
            for (before, after) in [("", ""), ("u", ":x"), ("us", ""), ("user:", "!\n"), ("", "\n")] {
                let text = engine.encode(format!("{before}{SECRET}{after}"));
                assert!(is_masked(SECRET, &text), "{text} {is_padded}");
            }
        }
        let hex: String = SECRET.bytes().map(|b| format!("{b:02x}")).collect();
        assert!(is_masked(SECRET, &hex) && is_masked(SECRET, &hex.to_uppercase()));
    }

    #[test]
    fn nothing_of_an_encoded_secret_stays() {
        let mask = SecretMask::new(&["correct-horse-battery".into()]);
        for before in ["", "u", "us", "use"] {
            let text = format!("Basic {} x", STANDARD.encode(format!("{before}correct-horse-battery")));
            let shown = mask.mask_string(&text);
            let left = shown.trim_start_matches("Basic ").split("********").next().unwrap();
            assert!(left.len() <= 3 && shown.ends_with("******** x"), "{text} {shown}");
        }
        // A long one is found by its beginning, and what follows in the same text goes with it.
        let long = "s3cret-part ".repeat(40);
        let text = format!("a {} b", STANDARD.encode(&long));
        let mask = SecretMask::new(&[long.as_str().into()]);
        assert_eq!(mask.mask_string(&text), "a ******** b");
        let hex: String = long.bytes().map(|b| format!("{b:02x}")).collect();
        assert_eq!(mask.mask_string(&format!("({hex})")), "(********)");
    }

    #[test]
    fn the_lines_of_a_secret_are_found_one_by_one() {
        let key = "-----BEGIN KEY-----\nMIIBVAIBADANBgkq\nhkiG9w0BAQEFAASC\nAT4w\n-----END KEY-----\n";
        let mask = SecretMask::new(&[key.into()]);
        let shown = mask.mask_string("+-----BEGIN KEY-----\n+MIIBVAIBADANBgkq\n+  hkiG9w0BAQEFAASC\n");
        assert_eq!(shown, "+-----BEGIN KEY-----\n+********\n+  ********\n");
        let json = serde_json::to_string(key).unwrap();
        assert!(!mask.mask_string(&json).contains("MIIB"), "{json}");
    }
}
