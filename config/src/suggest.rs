//! "Did you mean": the nearest of the names that exist.

/// The candidate nearest to `word`, when it is close enough to be a typing error.
#[must_use]
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let letters: Vec<char> = word.chars().collect();
    let limit = (letters.len() / 3).clamp(1, 4);
    let mut table = EditDistance::default();
    candidates
        .into_iter()
        .filter(|c| *c != word && c.chars().count().abs_diff(letters.len()) <= limit)
        .map(|c| (table.distance(&letters, c), c))
        .filter(|(d, _)| *d <= limit)
        .min_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1)))
        .map(|(_, c)| c)
}

/// Buffers for comparing two words: only the last three rows are needed.
#[derive(Default)]
struct EditDistance {
    other: Vec<char>,
    rows: [Vec<usize>; 3],
}

impl EditDistance {
    /// Edits (insert, delete, replace, swap of neighbours) that turn one word into the other.
    fn distance(&mut self, a: &[char], b: &str) -> usize {
        let Self { other: b_letters, rows: [before, last, row] } = self;
        b_letters.clear();
        b_letters.extend(b.chars());
        let b = b_letters.as_slice();
        last.clear();
        last.extend(0..=b.len());
        for (i, x) in a.iter().enumerate() {
            row.clear();
            row.push(i + 1);
            for (j, y) in b.iter().enumerate() {
                let replaced = last[j] + usize::from(!x.eq_ignore_ascii_case(y));
                let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
                if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                    best = best.min(before[j - 1] + 1);
                }
                row.push(best);
            }
            std::mem::swap(before, last);
            std::mem::swap(last, row);
        }
        last[b.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_typing_errors_and_nothing_else() {
        let names = ["managed", "directory", "absent"];
        assert_eq!(nearest("manged", names), Some("managed"));
        assert_eq!(nearest("amnaged", names), Some("managed"));
        assert_eq!(nearest("Managed", names), Some("managed"));
        assert_eq!(nearest("symlink", names), None);
    }
}
