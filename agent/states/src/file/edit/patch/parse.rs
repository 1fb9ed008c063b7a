//! The text of a patch into files and their hunks.
//!
//! Law: unified diffs alone; what is none is refused, never half understood (held by
//! `refuses_what_is_no_unified_diff`).

/// What a line of a hunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HunkLineKind {
    /// On both sides.
    Context,
    /// On the old side.
    Removed,
    /// On the new side.
    Added,
}

/// One line of a hunk, with its end.
pub(crate) type HunkLine<'t> = (HunkLineKind, &'t [u8]);

/// A change at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hunk<'t> {
    /// First line on the old side, from 1; zero when that side is empty.
    pub(crate) old_start: usize,
    /// First line on the new side, from 1; zero when that side is empty.
    pub(crate) new_start: usize,
    /// The lines.
    pub lines: Vec<HunkLine<'t>>,
}

impl<'t> Hunk<'t> {
    /// The same change backwards.
    pub(crate) fn reversed(&self) -> Self {
        let turn = |(mark, text): &HunkLine<'t>| match mark {
            HunkLineKind::Context => (HunkLineKind::Context, *text),
            HunkLineKind::Removed => (HunkLineKind::Added, *text),
            HunkLineKind::Added => (HunkLineKind::Removed, *text),
        };
        let lines = self.lines.iter().map(turn).collect();
        Self { old_start: self.new_start, new_start: self.old_start, lines }
    }
}

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePatch<'t> {
    /// Its name before; nothing when it is made.
    pub old: Option<String>,
    /// Its name after; nothing when it is removed.
    pub new: Option<String>,
    /// The changes, from top to bottom.
    pub(crate) hunks: Vec<Hunk<'t>>,
}

/// Reads a patch.
///
/// # Errors
/// Fails with words, and the number of the line, when it is no unified diff.
pub(crate) fn parse_patch(text: &[u8]) -> Result<Vec<FilePatch<'_>>, String> {
    let lines: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
    let mut files: Vec<FilePatch<'_>> = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        if line.starts_with(b"*** ") && lines.get(at + 1).is_some_and(|l| l.starts_with(b"--- ")) {
            return Err(format!("line {}: a context diff; only unified diffs can be applied", at + 1));
        }
        let next = lines.get(at + 1).copied().unwrap_or_default();
        if line.starts_with(b"--- ") && next.starts_with(b"+++ ") {
            files.push(FilePatch {
                old: header_name(&line[4..]),
                new: header_name(&next[4..]),
                hunks: Vec::new(),
            });
            at += 2;
        } else if line.starts_with(b"@@ -") {
            let (hunk, end) = parse_hunk(&lines, at)?;
            if files.is_empty() {
                files.push(FilePatch { old: None, new: None, hunks: Vec::new() });
            }
            if let Some(file) = files.last_mut() {
                file.hunks.push(hunk);
            }
            at = end;
        } else {
            at += 1;
        }
    }
    files.retain(|file| !file.hunks.is_empty());
    if files.is_empty() {
        return Err("Only garbage was found in the patch input.".to_owned());
    }
    Ok(files)
}

/// The name in a header, without the time behind it.
fn header_name(rest: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(rest);
    let text = text.trim_end_matches(['\n', '\r']);
    let name = text.split('\t').next().unwrap_or(text).trim();
    (name != "/dev/null").then(|| name.trim_matches('"').to_owned())
}

/// One hunk from its header on, and where the next thing begins.
fn parse_hunk<'t>(lines: &[&'t [u8]], from: usize) -> Result<(Hunk<'t>, usize), String> {
    let wrong = |at: usize| format!("malformed patch at line {}", at + 1);
    let header = String::from_utf8_lossy(lines[from]);
    let ((old_start, mut old_left), (new_start, mut new_left)) =
        parse_ranges(&header).ok_or_else(|| wrong(from))?;
    let mut hunk = Hunk { old_start, new_start, lines: Vec::new() };
    let mut at = from + 1;
    while old_left > 0 || new_left > 0 {
        let line = lines.get(at).copied().ok_or_else(|| wrong(at))?;
        let (mark, text) = match line.first() {
            Some(b' ') => (HunkLineKind::Context, &line[1..]),
            Some(b'-') => (HunkLineKind::Removed, &line[1..]),
            Some(b'+') => (HunkLineKind::Added, &line[1..]),
            // An editor may have taken the space of an empty line away.
            Some(b'\n' | b'\r') => (HunkLineKind::Context, line),
            Some(b'\\') => {
                strip_line_end(&mut hunk);
                at += 1;
                continue;
            }
            _ => return Err(wrong(at)),
        };
        let take = |left: &mut usize| left.checked_sub(1).map(|rest| *left = rest).ok_or_else(|| wrong(at));
        if mark != HunkLineKind::Added {
            take(&mut old_left)?;
        }
        if mark != HunkLineKind::Removed {
            take(&mut new_left)?;
        }
        hunk.lines.push((mark, text));
        at += 1;
    }
    if lines.get(at).is_some_and(|line| line.starts_with(b"\\")) {
        strip_line_end(&mut hunk);
        at += 1;
    }
    Ok((hunk, at))
}

/// Takes the line end off the last line: the file ends there without one.
fn strip_line_end(hunk: &mut Hunk<'_>) {
    if let Some((_, text)) = hunk.lines.last_mut() {
        *text = text.strip_suffix(b"\n").unwrap_or(text);
    }
}

/// First line and number of lines, of both sides.
type HunkRanges = ((usize, usize), (usize, usize));

fn parse_ranges(header: &str) -> Option<HunkRanges> {
    let (old, rest) = header.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let range = |text: &str| match text.split_once(',') {
        Some((start, length)) => Some((start.parse().ok()?, length.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    };
    Some((range(old)?, range(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_files_and_hunks() {
        let text = b"noise\n--- a/x\t2020-01-01\n+++ b/x\n@@ -1,2 +1,2 @@ fn\n a\n-b\n\\ No newline at end of file\n+c\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n";
        let files = parse_patch(text).unwrap();
        assert_eq!(files.len(), 2);
        assert_eq!(files[0].old.as_deref(), Some("a/x"));
        assert_eq!(
            files[0].hunks[0].lines,
            [
                (HunkLineKind::Context, &b"a\n"[..]),
                (HunkLineKind::Removed, b"b"),
                (HunkLineKind::Added, b"c\n")
            ]
        );
        assert_eq!((files[1].old.as_deref(), files[1].new.as_deref()), (None, Some("b/new")));
        assert_eq!(files[1].hunks[0].old_start, 0);
    }

    #[test]
    fn refuses_what_is_no_unified_diff() {
        for (text, words) in [
            (&b""[..], "Only garbage"),
            (b"hello\n", "Only garbage"),
            (b"*** a\n--- b\n", "a context diff"),
            (b"--- a\n+++ b\n@@ -1,3 +1,3 @@\n a\n", "malformed patch at line 5"),
            (b"--- a\n+++ b\n@@ -1 +1 @@\n?a\n", "malformed patch at line 4"),
            (b"--- a\n+++ b\n@@ -1 +1\n", "malformed patch at line 3"),
            (b"--- a\n+++ b\n@@ -1 +99999999999999999999 @@\n", "malformed patch at line 3"),
        ] {
            let told = parse_patch(text).unwrap_err();
            assert!(told.contains(words), "{told}");
        }
    }
}
