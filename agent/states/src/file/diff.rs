//! Two contents in, how they differ out: as Salt prints it in `changes`, and as it is shown to people.
//!
//! Law: a difference is bounded in size and in time, however large or odd the contents are (held by
//! `differences_are_bounded`).

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::sequence_matcher::{self, Opcode};

/// Lines of a difference that are kept.
const MAX_DIFF_LINES: usize = 1000;
/// Bytes of a difference that are kept.
const MAX_DIFF_BYTES: usize = 64 << 10;
/// Bytes of either side beyond which no lines are compared.
const MAX_COMPARED_BYTES: usize = 4 << 20;
/// Lines around a change that are shown with it.
const CONTEXT_LINES: usize = 3;
/// Bytes from which Salt tells text from other content.
const SNIFFED_BYTES: usize = 512;

/// How two contents differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContentDiff {
    /// As Salt prints it: a unified diff without names, or words when one side is no text.
    pub salt: String,
    /// As people see it: with missing line ends marked, and what is no text as size and digest.
    pub shown: String,
}

/// How two contents differ; empty when they do not.
pub(crate) fn content_diff(old: &[u8], new: &[u8]) -> ContentDiff {
    if old == new {
        return ContentDiff::default();
    }
    let words = match (is_binary(old), is_binary(new)) {
        (false, false) => return text_diff(old, new),
        (true, true) => "Replace binary file",
        (true, false) => "Replace binary file with text file",
        (false, true) => "Replace text file with binary file",
    };
    ContentDiff { salt: words.to_owned(), shown: describe_sizes("binary", old, new) }
}

/// What a new file holds, for people; Salt only says that it is new.
pub(crate) fn new_content_diff(new: &[u8]) -> String {
    match new {
        [] => String::new(),
        _ if is_binary(new) => format!("binary: new, {}\n", size_and_digest(new)),
        _ => text_diff(b"", new).shown,
    }
}

/// True when Salt takes the content for something other than text, from its first block.
pub fn is_binary(content: &[u8]) -> bool {
    let block = &content[..content.len().min(SNIFFED_BYTES)];
    if block.contains(&0) {
        return true;
    }
    // A character cut off at the end of the block is no fault of the text.
    let is_utf8 = std::str::from_utf8(block).err().is_none_or(|e| e.error_len().is_none());
    let is_text = |b: &u8| match b {
        b'\n' | b'\r' | b'\t' | 0x0c | 0x08 | 0x20..=0x7e => true,
        0x80..=0xfe => is_utf8,
        _ => false,
    };
    let odd = block.iter().filter(|b| !is_text(b)).count();
    odd * 10 > block.len() * 3
}

fn describe_sizes(what: &str, old: &[u8], new: &[u8]) -> String {
    format!("{what}: {} become {}\n", size_and_digest(old), size_and_digest(new))
}

fn size_and_digest(content: &[u8]) -> String {
    format!("{} bytes (sha256 {})", content.len(), hex(&Sha256::digest(content)))
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn text_diff(old: &[u8], new: &[u8]) -> ContentDiff {
    if old.len() > MAX_COMPARED_BYTES || new.len() > MAX_COMPARED_BYTES {
        let words = describe_sizes("too large to compare line by line", old, new);
        return ContentDiff { salt: words.clone(), shown: words };
    }
    let (old, new) = (lines(old), lines(new));
    let groups = sequence_matcher::group_opcodes(&opcodes(&old, &new), CONTEXT_LINES);
    if groups.is_empty() {
        return ContentDiff::default();
    }
    let salt = unified_diff(&groups, &old, &new, "");
    let is_ended = |side: &[Cow<'_, str>]| side.last().is_none_or(|l| l.ends_with('\n'));
    let shown = if is_ended(&old) && is_ended(&new) {
        salt.clone()
    } else {
        unified_diff(&groups, &old, &new, "\n\\ No newline at end of file\n")
    };
    ContentDiff { salt, shown }
}

/// Lines with their ends; what is not UTF-8 is read as Latin-1, line by line, as Salt does.
fn lines(content: &[u8]) -> Vec<Cow<'_, str>> {
    let decode = |line| match std::str::from_utf8(line) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(line.iter().map(|b| char::from(*b)).collect()),
    };
    content.split_inclusive(|b| *b == b'\n').map(decode).collect()
}

/// What turns one into the other: as Python's `difflib` finds it, or in some other way when that would take too long.
fn opcodes(old: &[Cow<'_, str>], new: &[Cow<'_, str>]) -> Vec<Opcode> {
    if old.is_empty() && !new.is_empty() {
        return vec![Opcode { old: 0..0, new: 0..new.len(), is_equal: false }];
    }
    if let Some(found) = sequence_matcher::opcodes(old, new) {
        return found;
    }
    let deadline = Duration::from_millis(500);
    let (a, b): (Vec<&str>, Vec<&str>) =
        (old.iter().map(AsRef::as_ref).collect(), new.iter().map(AsRef::as_ref).collect());
    let diff = similar::TextDiff::configure().timeout(deadline).diff_slices(&a, &b);
    diff.ops()
        .iter()
        .map(|op| Opcode { old: op.old_range(), new: op.new_range(), is_equal: is_equal(op) })
        .collect()
}

fn is_equal(op: &similar::DiffOp) -> bool {
    matches!(op, similar::DiffOp::Equal { .. })
}

/// The diff as text; `unended` follows a line that has no end.
fn unified_diff(groups: &[Vec<Opcode>], old: &[Cow<'_, str>], new: &[Cow<'_, str>], unended: &str) -> String {
    let mut out = BoundedText { text: "--- \n+++ \n".to_owned(), lines: 2, left_out: 0 };
    for group in groups {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let head = format!(
            "@@ -{} +{} @@\n",
            line_range(first.old.start, last.old.end),
            line_range(first.new.start, last.new.end)
        );
        out.push("", &head, "");
        for op in group {
            if op.is_equal {
                old[op.old.clone()].iter().for_each(|l| out.push(" ", l, unended));
                continue;
            }
            old[op.old.clone()].iter().for_each(|l| out.push("-", l, unended));
            new[op.new.clone()].iter().for_each(|l| out.push("+", l, unended));
        }
    }
    if out.left_out > 0 {
        let _ = writeln!(out.text, "… {} more lines", out.left_out);
    }
    out.text
}

/// A range of lines as a diff names it.
fn line_range(start: usize, end: usize) -> String {
    match end - start {
        1 => (start + 1).to_string(),
        0 => format!("{start},0"),
        n => format!("{},{n}", start + 1),
    }
}

/// A text that stops growing at some size, and counts what it leaves out.
struct BoundedText {
    text: String,
    lines: usize,
    left_out: usize,
}

impl BoundedText {
    fn push(&mut self, sign: &str, line: &str, unended: &str) {
        if self.lines >= MAX_DIFF_LINES || self.text.len() + line.len() > MAX_DIFF_BYTES {
            self.left_out += 1;
            return;
        }
        self.lines += 1;
        self.text.push_str(sign);
        self.text.push_str(line);
        if !line.ends_with('\n') {
            self.text.push_str(unended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_differ_as_salt_prints_it() {
        // Old, new, and what Python's difflib makes of their lines.
        let table: &[(&str, &str, &str)] = &[
            ("a\nb\n", "a\nc\n", "--- \n+++ \n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
            ("a\n", "b\n", "--- \n+++ \n@@ -1 +1 @@\n-a\n+b\n"),
            ("", "b\n", "--- \n+++ \n@@ -0,0 +1 @@\n+b\n"),
            ("a\n", "", "--- \n+++ \n@@ -1 +0,0 @@\n-a\n"),
            ("a", "b", "--- \n+++ \n@@ -1 +1 @@\n-a+b"),
            (
                "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n",
                "1\nx\n3\n4\n5\n6\n7\n8\n9\n10\ny\n",
                "--- \n+++ \n@@ -1,5 +1,5 @@\n 1\n-2\n+x\n 3\n 4\n 5\n@@ -8,4 +8,4 @@\n 8\n 9\n 10\n-11\n+y\n",
            ),
            (
                "a\nx\nb\nx\nc\n",
                "x\na\nx\nc\nb\n",
                "--- \n+++ \n@@ -1,5 +1,5 @@\n+x\n a\n x\n+c\n b\n-x\n-c\n",
            ),
        ];
        for (old, new, expected) in table {
            assert_eq!(content_diff(old.as_bytes(), new.as_bytes()).salt, *expected, "{old:?} -> {new:?}");
        }
    }

    #[test]
    fn people_see_missing_line_ends() {
        assert_eq!(
            content_diff(b"a", b"b").shown,
            "--- \n+++ \n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"
        );
        assert_eq!(content_diff(b"a\n", b"b\n").shown, content_diff(b"a\n", b"b\n").salt);
    }

    #[test]
    fn equal_contents_differ_in_nothing() {
        assert_eq!(content_diff(b"\0a", b"\0a"), ContentDiff::default());
    }

    #[test]
    fn what_is_no_text_is_told_by_size_and_digest() {
        let found = content_diff(b"a\n", b"\0\x01");
        assert_eq!(found.salt, "Replace text file with binary file");
        assert!(found.shown.starts_with("binary: 2 bytes (sha256 87428fc5"), "{}", found.shown);
        assert_eq!(content_diff(b"\0", b"a").salt, "Replace binary file with text file");
        assert_eq!(content_diff(b"\0", b"\0\0").salt, "Replace binary file");
    }

    #[test]
    fn text_is_told_as_salt_tells_it() {
        let table: &[(&[u8], bool)] = &[
            (b"", false),
            (b"plain\n", false),
            (b"a\0", true),
            ("käse".as_bytes(), false),
            (b"k\xe4se", false),
            (b"\xff\xff\xffabc", true),
            (b"\x01\x02\x03abcdefghijkl", false),
            (b"\x01\x02\x03abc", true),
        ];
        for (content, expected) in table {
            assert_eq!(is_binary(content), *expected, "{content:?}");
        }
        let mut cut = vec![b'a'; SNIFFED_BYTES - 1];
        cut.extend("ä".repeat(9).as_bytes());
        assert!(!is_binary(&cut));
    }

    #[test]
    fn differences_are_bounded() {
        let many: String = (0..5000).map(|i| format!("{i}\n")).collect();
        let found = content_diff(b"", many.as_bytes());
        assert_eq!(found.salt.lines().count(), MAX_DIFF_LINES + 1);
        assert!(found.salt.ends_with("… 4003 more lines\n"), "{}", &found.salt[found.salt.len() - 40..]);
        let wide = vec![b'x'; MAX_DIFF_BYTES * 2];
        assert!(content_diff(b"", &wide).salt.len() < MAX_DIFF_BYTES);
        let huge = vec![b'x'; MAX_COMPARED_BYTES + 1];
        assert!(content_diff(b"", &huge).salt.starts_with("too large"));
    }
}
