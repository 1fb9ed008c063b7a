//! Board keys to NATS bucket keys, and back.
//!
//! Law: the mapping is reversible for every key. A `/` becomes the `.` between tokens, so that a prefix of whole tokens
//! is a filter that the server understands; every other byte that a token must not contain becomes `=` and two hex
//! digits, and an empty token is a single `=` (held by `keys_become_tokens_and_prefixes_filters`).

/// An empty token.
const EMPTY_TOKEN: &str = "=";

/// The key of the bucket.
pub(super) fn encode(key: &str) -> String {
    key.split('/').map(encode_part).collect::<Vec<_>>().join(".")
}

fn encode_part(text: &str) -> String {
    if text.is_empty() {
        return EMPTY_TOKEN.into();
    }
    let mut token = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => token.push(char::from(byte)),
            _ => token.push_str(&format!("={byte:02X}")),
        }
    }
    token
}

/// The board key; `None` for a key that zagent did not write.
pub(super) fn decode(key: &str) -> Option<String> {
    let tokens: Option<Vec<_>> = key.split('.').map(decode_part).collect();
    let text = tokens?.join("/");
    (encode(&text) == key).then_some(text)
}

fn decode_part(token: &str) -> Option<String> {
    if token == EMPTY_TOKEN {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'=' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            _ => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The server-side filter: all keys below the last `/` of a prefix. The reader checks the rest of the prefix.
pub(super) fn prefix_filter(prefix: &str) -> String {
    match prefix.rsplit_once('/') {
        Some((dir, _)) => format!("{}.>", encode(dir)),
        None => ">".into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_become_tokens_and_prefixes_filters() {
        let cases = [
            ("node/agent/web-01", "node.agent.web-01"),
            ("node/agent/web.example.org", "node.agent.web=2Eexample=2Eorg"),
            ("a//b/", "a.=.b.="),
            ("", "="),
            ("grün=*>", "gr=C3=BCn=3D=2A=3E"),
        ];
        for (key, expected) in cases {
            assert_eq!(encode(key), expected);
            assert_eq!(decode(expected).as_deref(), Some(key));
        }
        let filters =
            [("", ">"), ("no", ">"), ("node/agent/", "node.agent.>"), ("node/agent/w.", "node.agent.>")];
        for (prefix, expected) in filters {
            assert_eq!(prefix_filter(prefix), expected);
        }
        for foreign in ["a=2", "a=zz", "a=61", "a..b", "=FF", "a b", "=2e"] {
            assert_eq!(decode(foreign), None, "{foreign}");
        }
    }

    proptest! {
        #[test]
        fn every_key_is_reversible_and_valid_in_a_bucket(key in ".*") {
            let encoded = encode(&key);
            prop_assert_eq!(decode(&encoded), Some(key));
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.".contains(c);
            prop_assert!(encoded.chars().all(plain) && !encoded.starts_with('.') && !encoded.ends_with('.'));
            prop_assert!(!encoded.contains(".."));
        }
    }
}
