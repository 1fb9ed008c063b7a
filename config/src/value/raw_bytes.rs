//! Bytes that are no text, as a value: a YAML `!!binary` in, the bytes of a file out.
//!
//! A value holds text. Other bytes are kept one character each, behind a mark of two characters that Unicode promises
//! never to use.
//!
//! Law: bytes come back as they were, and no ordinary text is taken for bytes (held by `bytes_come_back`).

use super::Value;

const MARK: &str = "\u{fdd0}\u{fdd1}";

/// The value of some bytes: text when they are UTF-8.
#[must_use]
pub fn value_from_bytes(bytes: Vec<u8>) -> Value {
    match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(error) => {
            let chars = error.as_bytes().iter().copied().map(char::from);
            MARK.chars().chain(chars).collect::<String>().into()
        }
    }
}

/// The bytes of a value that stands for bytes; `None` for ordinary text.
#[must_use]
pub fn raw_bytes(text: &str) -> Option<Vec<u8>> {
    text.strip_prefix(MARK)?.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        let value = value_from_bytes(bytes.clone());
        assert_eq!(value.as_str().and_then(raw_bytes), Some(bytes));
        assert_eq!(value_from_bytes(b"text".to_vec()), Value::from("text"));
        assert_eq!(raw_bytes("text"), None);
        assert_eq!(raw_bytes("\u{fdd0}\u{fdd1}\u{100}"), None);
    }
}
