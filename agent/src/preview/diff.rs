//! Two texts in, a unified diff of bounded size out.

use std::time::Duration;

/// Lines of a diff that are shown.
const LINES: usize = 120;
/// Bytes of either side beyond which no diff is made.
const BYTES: usize = 4 << 20;

/// The diff, empty when both are equal; told in one line when it cannot be shown.
pub(super) fn unified(old: &[u8], new: &[u8], path: &str) -> String {
    if old == new {
        return String::new();
    }
    if old.len() > BYTES || new.len() > BYTES {
        return format!("{} bytes become {} bytes, too many to show\n", old.len(), new.len());
    }
    let (Ok(old_text), Ok(new_text)) = (std::str::from_utf8(old), std::str::from_utf8(new)) else {
        return format!("binary: {} bytes become {} bytes\n", old.len(), new.len());
    };
    if old_text.contains('\0') || new_text.contains('\0') {
        return format!("binary: {} bytes become {} bytes\n", old.len(), new.len());
    }
    let diff =
        similar::TextDiff::configure().timeout(Duration::from_millis(500)).diff_lines(old_text, new_text);
    let whole = diff.unified_diff().context_radius(3).header(path, path).to_string();
    let lines = whole.lines().count();
    if lines <= LINES {
        return whole;
    }
    let mut shown: String = whole.split_inclusive('\n').take(LINES).collect();
    shown.push_str(&format!("… {} more lines\n", lines - LINES));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diffs_are_bounded_and_honest() {
        assert_eq!(unified(b"a\n", b"a\n", "x"), "");
        assert_eq!(unified(b"a\nb\n", b"a\nc\n", "x"), "--- x\n+++ x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
        assert!(unified(b"a", b"\xff\xfe", "x").starts_with("binary"));
        let many: String = (0..500).map(|i| format!("{i}\n")).collect();
        let long = unified(b"", many.as_bytes(), "x");
        assert_eq!(long.lines().count(), LINES + 1);
        assert!(long.ends_with("more lines\n"));
    }
}
