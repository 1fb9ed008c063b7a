//! Templates of managed files, as states hand them to the compiler.

use zagent_config::Map;

/// Renders the template of a file.
pub trait RenderTemplate {
    /// The text that a template gives.
    ///
    /// # Errors
    /// Fails with words when it does not render.
    fn render(&self, template: &FileTemplate) -> Result<String, String>;
}

/// A template of a managed file.
#[derive(Clone, Debug)]
pub struct FileTemplate {
    /// Its environment.
    pub env: String,
    /// Its path in the tree, or on the host.
    pub path: String,
    /// Its text.
    pub source: String,
    /// `defaults` and `context` of the state, merged.
    pub variables: Map,
}

/// What Salt takes for a file that is no text, of its first bytes: it copies such a file as it is.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    /// As many bytes as Salt looks at.
    const LOOKED_AT: usize = 2048;
    let head = &bytes[..bytes.len().min(LOOKED_AT)];
    if head.is_empty() || head.contains(&0) {
        return !head.is_empty();
    }
    let is_utf8 = match std::str::from_utf8(head) {
        Ok(_) => true,
        // A character that is cut off at the end.
        Err(error) => error.error_len().is_none(),
    };
    let is_text = |b: &u8| {
        matches!(b, 32..=126 | b'\n' | b'\r' | b'\t' | 0x0c | 0x08) || (is_utf8 && (128..255).contains(b))
    };
    let odd = head.iter().filter(|b| !is_text(b)).count();
    odd * 10 > head.len() * 3
}

#[cfg(test)]
mod tests {
    use super::is_binary;

    #[test]
    fn what_salt_takes_for_no_text() {
        let table: [(&[u8], bool); 6] = [
            (b"", false),
            (b"text\n", false),
            (b"\x89PNG\0", true),
            ("käse".as_bytes(), false),
            (b"k\xe4se und mehr", false),
            (b"\xff\xfe\xfd\xfcab", true),
        ];
        for (bytes, expected) in table {
            assert_eq!(is_binary(bytes), expected, "{bytes:?}");
        }
    }
}
