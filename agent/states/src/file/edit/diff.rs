//! Two lists of lines in, the lines of a unified diff out, as Salt's edits report it.
//!
//! Law: a diff is bounded; what is left out is counted (held by `long_diffs_are_cut`).

use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::file::sequence_matcher;
use crate::file::sequence_matcher::Opcode;

/// Lines of context around a change.
const CONTEXT_LINES: usize = 3;
/// Lines of a diff that are kept.
const MAX_DIFF_LINES: usize = 1000;
/// Bytes of a diff that are kept.
const MAX_DIFF_BYTES: usize = 64 << 10;

/// The lines of the diff; none when both sides are equal. A line of it ends as the line it shows does.
pub(crate) fn unified_diff(old: &[&str], new: &[&str]) -> Vec<String> {
    let groups = sequence_matcher::group_opcodes(&opcodes(old, new), CONTEXT_LINES);
    let mut out = Vec::new();
    let (mut bytes, mut left_out) = (0, 0);
    let mut push = |sign: &str, line: &str| {
        if out.len() >= MAX_DIFF_LINES || bytes + line.len() > MAX_DIFF_BYTES {
            left_out += 1;
            return;
        }
        bytes += line.len();
        out.push(format!("{sign}{line}"));
    };
    for (i, group) in groups.iter().enumerate() {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        if i == 0 {
            push("", "--- \n");
            push("", "+++ \n");
        }
        let removed = line_range(first.old.start, last.old.end);
        let added = line_range(first.new.start, last.new.end);
        push("", &format!("@@ -{removed} +{added} @@\n"));
        for op in group {
            let (gone, come) = (&old[op.old.clone()], &new[op.new.clone()]);
            if op.is_equal {
                gone.iter().for_each(|line| push(" ", line));
                continue;
            }
            gone.iter().for_each(|line| push("-", line));
            come.iter().for_each(|line| push("+", line));
        }
    }
    if left_out > 0 {
        out.push(format!("… {left_out} more lines\n"));
    }
    out
}

fn opcodes(old: &[&str], new: &[&str]) -> Vec<Opcode> {
    sequence_matcher::opcodes(old, new).unwrap_or_else(|| {
        let ops = capture_diff_slices(Algorithm::Myers, old, new);
        let is_equal = |op: &DiffOp| matches!(op, DiffOp::Equal { .. });
        ops.iter()
            .map(|op| Opcode { old: op.old_range(), new: op.new_range(), is_equal: is_equal(op) })
            .collect()
    })
}

/// A range of lines as a diff names it.
fn line_range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => (start + 1).to_string(),
        length => format!("{},{length}", start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::{LineEnds, lines};
    use super::*;

    #[test]
    fn diffs_are_pythons() {
        let table: serde_json::Value = serde_json::from_str(include_str!("cases/diff.json")).unwrap();
        let text = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
        let cases = table.as_array().unwrap();
        assert!(cases.len() > 40);
        for case in cases {
            let (old, new) = (text(&case["old"]), text(&case["new"]));
            let got = unified_diff(&lines(&old, LineEnds::Newline), &lines(&new, LineEnds::Newline)).concat();
            assert_eq!(got, text(&case["diff"]), "{old:?} -> {new:?}");
        }
    }

    #[test]
    fn long_diffs_are_cut() {
        let many: Vec<String> = (0..5000).map(|i| format!("{i}\n")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let diff = unified_diff(&[], &many);
        assert_eq!(diff.len(), MAX_DIFF_LINES + 1);
        assert_eq!(diff.last().map(String::as_str), Some("… 4003 more lines\n"));
    }
}
