//! Hunks and the lines of a file in, the patched file out, found as the program `patch` finds the places.
//!
//! Law: a hunk fits only where its lines stand; context may be off by some lines of place, and at its edges by
//! `fuzz` lines (held by `hunks_are_found_where_they_stand`, `what_does_not_fit_is_told`).

use super::parse::{Hunk, HunkLineKind};

/// How loosely places are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PatchLeniency {
    /// Lines of context at either edge that may differ.
    pub fuzz: usize,
    /// Space counts for nothing.
    pub(crate) ignore_space: bool,
}

/// What a patch makes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatchResult {
    /// It fits; the new content, and what there is to say about it.
    Applied(Vec<u8>, Vec<String>),
    /// It is in there already.
    AlreadyApplied,
    /// It does not fit; which hunks, counted from zero, and what there is to say about them.
    Rejected(Vec<usize>, Vec<String>),
}

/// Applies all hunks of a file.
pub(crate) fn apply_hunks(old: &[u8], hunks: &[Hunk<'_>], how: PatchLeniency) -> PatchResult {
    let lines: Vec<&[u8]> = old.split_inclusive(|b| *b == b'\n').collect();
    if is_applied(&lines, hunks, how) {
        return PatchResult::AlreadyApplied;
    }
    let mut work = HunkApplier { lines: &lines, done: 0, out: Vec::with_capacity(old.len()), offset: 0, how };
    let (mut rejected, mut said) = (Vec::new(), Vec::new());
    for (i, hunk) in hunks.iter().enumerate() {
        match work.apply_hunk(hunk) {
            Some(words) => said.extend(words.map(|w| format!("Hunk #{} succeeded {w}", i + 1))),
            None => {
                rejected.push(i);
                said.push(format!("Hunk #{} FAILED at {}.", i + 1, hunk.old_start.max(1)));
            }
        }
    }
    if rejected.is_empty() {
        return PatchResult::Applied(work.finish(), said);
    }
    // Hunks without context fit nearly everywhere, so that only the others tell.
    if fits_backwards(&lines, hunks, how) {
        return PatchResult::AlreadyApplied;
    }
    let all = hunks.len();
    let noun = if all == 1 { "hunk" } else { "hunks" };
    said.push(format!("{} out of {all} {noun} FAILED", rejected.len()));
    PatchResult::Rejected(rejected, said)
}

/// True when the first hunk fits backwards at least as well as forwards, and all of them do fit backwards.
fn is_applied(lines: &[&[u8]], hunks: &[Hunk<'_>], how: PatchLeniency) -> bool {
    let Some(first) = hunks.first() else { return false };
    let reversed = first.reversed();
    let forwards = HunkApplier { lines, done: 0, out: Vec::new(), offset: 0, how };
    let fits = (0..=how.fuzz).find_map(|fuzz| {
        if forwards.find(first, fuzz).is_some() {
            return Some(false);
        }
        forwards.find(&reversed, fuzz).map(|_| true)
    });
    fits == Some(true) && fits_backwards(lines, hunks, how)
}

fn fits_backwards(lines: &[&[u8]], hunks: &[Hunk<'_>], how: PatchLeniency) -> bool {
    let mut back = HunkApplier { lines, done: 0, out: Vec::new(), offset: 0, how };
    hunks.iter().all(|hunk| back.apply_hunk(&hunk.reversed()).is_some())
}

/// Where a hunk fits.
struct HunkFit {
    /// Its first line, from zero.
    place: usize,
    /// Lines of context at its top that are left out.
    head: usize,
    /// Lines of context at its end that are left out.
    tail: usize,
}

struct HunkApplier<'l> {
    lines: &'l [&'l [u8]],
    /// Lines that are behind us.
    done: usize,
    out: Vec<u8>,
    /// How far the last hunk was from where it said.
    offset: isize,
    how: PatchLeniency,
}

impl HunkApplier<'_> {
    /// Applies one hunk; gives what there is to say about it, or nothing when it does not fit.
    fn apply_hunk(&mut self, hunk: &Hunk<'_>) -> Option<Option<String>> {
        let (fuzz, fit) = (0..=self.how.fuzz).find_map(|fuzz| Some((fuzz, self.find(hunk, fuzz)?)))?;
        let from = fit.place + fit.head;
        self.lines[self.done..from].iter().for_each(|line| self.out.extend_from_slice(line));
        let new_place = self.out.iter().filter(|b| **b == b'\n').count().saturating_sub(fit.head);
        let mut at = from;
        for (mark, text) in &hunk.lines[fit.head..hunk.lines.len() - fit.tail] {
            match mark {
                // The file's own line: with loose space it is not that of the patch.
                HunkLineKind::Context => {
                    self.out.extend_from_slice(self.lines.get(at).copied().unwrap_or_default());
                    at += 1;
                }
                HunkLineKind::Removed => at += 1,
                HunkLineKind::Added => self.add_line(text),
            }
        }
        self.done = at;
        self.offset = signed(fit.place).saturating_sub(signed(expected_line(hunk)));
        Some(self.offset_message(new_place, fuzz))
    }

    /// Adds a line; one before it that has no end gets one.
    fn add_line(&mut self, text: &[u8]) {
        if self.out.last().is_some_and(|b| *b != b'\n') {
            self.out.push(b'\n');
        }
        self.out.extend_from_slice(text);
    }

    fn offset_message(&self, place: usize, fuzz: usize) -> Option<String> {
        if fuzz == 0 && self.offset == 0 {
            return None;
        }
        let mut words = format!("at {}", place + 1);
        if fuzz > 0 {
            words.push_str(&format!(" with fuzz {fuzz}"));
        }
        if self.offset != 0 {
            let noun = if self.offset == 1 { "line" } else { "lines" };
            words.push_str(&format!(" (offset {} {noun})", self.offset));
        }
        Some(words + ".")
    }

    /// Where a hunk fits when that many lines of context at its edges may differ.
    fn find(&self, hunk: &Hunk<'_>, fuzz: usize) -> Option<HunkFit> {
        let old: Vec<&[u8]> = hunk
            .lines
            .iter()
            .filter(|(mark, _)| *mark != HunkLineKind::Added)
            .map(|(_, text)| *text)
            .collect();
        let is_context = |(mark, _): &&(HunkLineKind, &[u8])| *mark == HunkLineKind::Context;
        let head = hunk.lines.iter().take_while(is_context).count();
        let tail = hunk.lines.iter().rev().take_while(is_context).count();
        let context = head.max(tail);
        // Less context above than below means the top of the file, less below the end of it, unless fuzz allows more.
        let (loose_head, loose_tail) =
            ((fuzz + head).checked_sub(context), (fuzz + tail).checked_sub(context));
        let drop_head = loose_head.unwrap_or(0).min(head);
        let drop_tail = loose_tail.unwrap_or(0).min(tail).min(old.len() - drop_head);
        let kept = &old[drop_head..old.len() - drop_tail];
        let fits = |place: usize| place + drop_head >= self.done && self.is_at(kept, place + drop_head);
        let guess = signed(expected_line(hunk)).saturating_add(self.offset);
        let guess = usize::try_from(guess).unwrap_or(0).min(self.lines.len());
        let place = match (loose_head, loose_tail) {
            (None, _) => fits(0).then_some(0),
            (Some(_), None) => self.lines.len().checked_sub(old.len()).filter(|last| fits(*last)),
            (Some(_), Some(_)) => {
                let near = (0..=self.lines.len()).flat_map(|d| [guess.checked_add(d), guess.checked_sub(d)]);
                near.flatten().find(|place| fits(*place))
            }
        };
        place.map(|place| HunkFit { place, head: drop_head, tail: drop_tail })
    }

    fn is_at(&self, old: &[&[u8]], place: usize) -> bool {
        let Some(held) = self.lines.get(place..place + old.len()) else { return false };
        held.iter().zip(old).all(|(held, wanted)| {
            held == wanted || (self.how.ignore_space && without_space(held) == without_space(wanted))
        })
    }

    fn finish(mut self) -> Vec<u8> {
        for line in &self.lines[self.done..] {
            if self.out.last().is_some_and(|b| *b != b'\n') {
                self.out.push(b'\n');
            }
            self.out.extend_from_slice(line);
        }
        self.out
    }
}

/// Where a hunk says that it stands, from zero. An empty old side names the line before.
fn expected_line(hunk: &Hunk<'_>) -> usize {
    if hunk.lines.iter().all(|(mark, _)| *mark == HunkLineKind::Added) {
        return hunk.old_start;
    }
    hunk.old_start.saturating_sub(1)
}

fn signed(n: usize) -> isize {
    isize::try_from(n).unwrap_or(isize::MAX)
}

/// Runs of space as one, none at the end.
fn without_space(line: &[u8]) -> Vec<&[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse_patch;
    use super::*;

    const HOW: PatchLeniency = PatchLeniency { fuzz: 2, ignore_space: false };

    fn patched(old: &str, patch: &str) -> PatchResult {
        let files = parse_patch(patch.as_bytes()).unwrap();
        apply_hunks(old.as_bytes(), &files[0].hunks, HOW)
    }

    fn text(old: &str, patch: &str) -> String {
        match patched(old, patch) {
            PatchResult::Applied(bytes, _) => String::from_utf8(bytes).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    const PATCH: &str = "--- a\n+++ b\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n";

    #[test]
    fn hunks_are_found_where_they_stand() {
        assert_eq!(text("one\ntwo\nthree\n", PATCH), "one\nTWO\nthree\n");
        assert_eq!(text("x\ny\none\ntwo\nthree\n", PATCH), "x\ny\none\nTWO\nthree\n");
        assert_eq!(text("uno\ntwo\nthree\n", PATCH), "uno\nTWO\nthree\n");
        assert_eq!(text("a\n", "--- a\n+++ b\n@@ -1,0 +2 @@\n+b\n"), "a\nb\n");
        assert_eq!(text("", "--- /dev/null\n+++ b\n@@ -0,0 +1 @@\n+b\n"), "b\n");
        let unended = "--- a\n+++ b\n@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n";
        assert_eq!(text("a", unended), "a\nb\n");
    }

    #[test]
    fn what_is_in_there_already_is_seen() {
        assert_eq!(patched("one\nTWO\nthree\n", PATCH), PatchResult::AlreadyApplied);
        let adds = "--- a\n+++ b\n@@ -1,4 +1,5 @@\n a\n b\n+new\n c\n d\n";
        assert_eq!(patched("a\nb\nnew\nc\nd\n", adds), PatchResult::AlreadyApplied);
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let told = vec!["Hunk #1 FAILED at 1.".to_owned(), "1 out of 1 hunk FAILED".to_owned()];
        assert_eq!(patched("nothing\nlike\nit\n", PATCH), PatchResult::Rejected(vec![0], told));
        let told = patched("x\none\ntwo\nthree\n", PATCH);
        assert!(
            matches!(told, PatchResult::Applied(_, said) if said == ["Hunk #1 succeeded at 2 (offset 1 line)."])
        );
    }

    #[test]
    fn numbers_out_of_this_world_do_no_harm() {
        let far = PATCH.replace("-1,3 +1,3", &format!("-{0},3 +{0},3", usize::MAX));
        assert_eq!(text("one\ntwo\nthree\n", &far), "one\nTWO\nthree\n");
    }
}
