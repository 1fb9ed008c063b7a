//! Two lists of lines in, which runs of them are equal out, chosen as Python's `difflib` chooses.
//!
//! Law: the same two lists give the same runs as there, so that a diff reads as Salt prints it; lists that would
//! take too long give nothing (held by `texts_differ_as_salt_prints_it`,
//! `very_repetitive_lists_give_up_instead_of_taking_long`).

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

/// Steps after which it is too long.
const MAX_STEPS: usize = 2_000_000;
/// From this length on, lines that are all over the place start no match.
const POPULAR_FROM: usize = 200;

/// A run of lines on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opcode {
    /// Lines of the old side.
    pub old: Range<usize>,
    /// Lines of the new side.
    pub new: Range<usize>,
    /// True when they are equal.
    pub(crate) is_equal: bool,
}

/// A run of equal lines: where it starts on both sides, and how long it is.
type LineMatch = (usize, usize, usize);

/// What turns one list into the other; nothing when finding it would take too long.
pub(crate) fn opcodes<T: Hash + Eq>(old: &[T], new: &[T]) -> Option<Vec<Opcode>> {
    let mut codes = Vec::new();
    let (mut i, mut j) = (0, 0);
    for (a, b, size) in find_matches(old, new)?.into_iter().chain([(old.len(), new.len(), 0)]) {
        if i < a || j < b {
            codes.push(Opcode { old: i..a, new: j..b, is_equal: false });
        }
        (i, j) = (a + size, b + size);
        if size > 0 {
            codes.push(Opcode { old: a..i, new: b..j, is_equal: true });
        }
    }
    Some(codes)
}

/// The changes with some equal lines around, those near each other together.
pub(crate) fn group_opcodes(codes: &[Opcode], context: usize) -> Vec<Vec<Opcode>> {
    let mut codes = codes.to_vec();
    if let Some(first) = codes.first_mut().filter(|c| c.is_equal) {
        *first = tail(first, context);
    }
    if let Some(last) = codes.last_mut().filter(|c| c.is_equal) {
        *last = head(last, context);
    }
    let mut groups = Vec::new();
    let mut group: Vec<Opcode> = Vec::new();
    for code in codes {
        if code.is_equal && code.old.len() > 2 * context {
            group.push(head(&code, context));
            groups.push(std::mem::take(&mut group));
            group.push(tail(&code, context));
            continue;
        }
        group.push(code);
    }
    groups.push(group);
    groups.retain(|g| g.iter().any(|c| !c.is_equal));
    groups
}

fn head(code: &Opcode, n: usize) -> Opcode {
    let n = n.min(code.old.len());
    Opcode {
        old: code.old.start..code.old.start + n,
        new: code.new.start..code.new.start + n,
        is_equal: true,
    }
}

fn tail(code: &Opcode, n: usize) -> Opcode {
    let n = n.min(code.old.len());
    Opcode { old: code.old.end - n..code.old.end, new: code.new.end - n..code.new.end, is_equal: true }
}

/// All runs of equal lines in order; neighbours are one.
fn find_matches<T: Hash + Eq>(old: &[T], new: &[T]) -> Option<Vec<LineMatch>> {
    let mut search = MatchSearch { old, new, positions: line_positions(new), steps_left: MAX_STEPS };
    let mut found = Vec::new();
    let mut todo = vec![(0..old.len(), 0..new.len())];
    while let Some((a, b)) = todo.pop() {
        let (i, j, size) = search.longest_match(a.clone(), b.clone())?;
        if size == 0 {
            continue;
        }
        found.push((i, j, size));
        if a.start < i && b.start < j {
            todo.push((a.start..i, b.start..j));
        }
        if i + size < a.end && j + size < b.end {
            todo.push((i + size..a.end, j + size..b.end));
        }
    }
    found.sort_unstable();
    let mut joined: Vec<LineMatch> = Vec::with_capacity(found.len());
    for (i, j, size) in found {
        match joined.last_mut() {
            Some(last) if last.0 + last.2 == i && last.1 + last.2 == j => last.2 += size,
            _ => joined.push((i, j, size)),
        }
    }
    Some(joined)
}

/// Where each line stands on the new side; lines of which there are very many stand nowhere.
fn line_positions<T: Hash + Eq>(new: &[T]) -> HashMap<&T, Vec<usize>> {
    let mut places: HashMap<&T, Vec<usize>> = HashMap::with_capacity(new.len());
    for (j, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(j);
    }
    if new.len() >= POPULAR_FROM {
        let many = new.len() / 100 + 1;
        places.retain(|_, at| at.len() <= many);
    }
    places
}

struct MatchSearch<'t, T> {
    old: &'t [T],
    new: &'t [T],
    positions: HashMap<&'t T, Vec<usize>>,
    steps_left: usize,
}

impl<T: Hash + Eq> MatchSearch<'_, T> {
    /// The longest run of equal lines inside both ranges; of several the first.
    fn longest_match(&mut self, a: Range<usize>, b: Range<usize>) -> Option<LineMatch> {
        let mut best: LineMatch = (a.start, b.start, 0);
        let mut ends: HashMap<usize, usize> = HashMap::new();
        for i in a.clone() {
            let mut next = HashMap::new();
            let at = self.positions.get(&self.old[i]).map_or(&[][..], Vec::as_slice);
            let from = at.partition_point(|j| *j < b.start);
            for &j in at[from..].iter().take_while(|j| **j < b.end) {
                self.steps_left = self.steps_left.checked_sub(1)?;
                let size = 1 + j.checked_sub(1).and_then(|before| ends.get(&before)).unwrap_or(&0);
                next.insert(j, size);
                if size > best.2 {
                    best = (i + 1 - size, j + 1 - size, size);
                }
            }
            self.steps_left = self.steps_left.checked_sub(1)?;
            ends = next;
        }
        Some(self.extend_match(best, &a, &b))
    }

    /// Takes in equal lines beside a run: those that start no match of their own.
    fn extend_match(
        &self,
        (mut i, mut j, mut size): LineMatch,
        a: &Range<usize>,
        b: &Range<usize>,
    ) -> LineMatch {
        while i > a.start && j > b.start && self.old[i - 1] == self.new[j - 1] {
            (i, j, size) = (i - 1, j - 1, size + 1);
        }
        while i + size < a.end && j + size < b.end && self.old[i + size] == self.new[j + size] {
            size += 1;
        }
        (i, j, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn very_repetitive_lists_give_up_instead_of_taking_long() {
        // No line is popular here: each stands as often as the limit allows.
        let old: Vec<usize> = (0..40_000).map(|i| i % 100).collect();
        let new: Vec<usize> = (0..40_000).map(|i| (i * 7) % 100).collect();
        assert_eq!(opcodes(&old, &new), None);
    }

    #[test]
    fn popular_lines_start_no_match_but_join_one() {
        let mut old = vec![0; 300];
        old.push(1);
        let mut new = vec![0; 250];
        new.push(1);
        let codes = opcodes(&old, &new).expect("short enough");
        assert_eq!(codes[1], Opcode { old: 50..301, new: 0..251, is_equal: true });
    }

    #[test]
    fn nothing_against_nothing_is_nothing() {
        assert_eq!(opcodes::<u8>(&[], &[]), Some(vec![]));
        assert!(group_opcodes(&[], 3).is_empty());
    }
}
