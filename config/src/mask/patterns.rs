//! The forms of all secrets in, where they stand in a text out: one pass over the text, whatever their number.

use std::collections::HashSet;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

/// How a form continues in the text around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormKind {
    /// It does not.
    Plain,
    /// The letters of base64 beside it hold bits of the secret.
    Base64,
    /// A long secret goes on in the digits after it.
    Hex,
}

/// All forms of all secrets.
pub(super) struct Patterns {
    automaton: AhoCorasick,
    kinds: Vec<FormKind>,
}

impl Patterns {
    /// `None` when there is nothing to find.
    pub(super) fn new(forms: Vec<(String, FormKind)>) -> Option<Self> {
        let mut seen = HashSet::with_capacity(forms.len());
        let (texts, kinds): (Vec<String>, Vec<FormKind>) =
            forms.into_iter().filter(|(text, _)| !text.is_empty() && seen.insert(text.clone())).unzip();
        if texts.is_empty() {
            return None;
        }
        let automaton = AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).build(texts);
        Some(Self { automaton: automaton.expect("the forms have far fewer than 2^31 bytes"), kinds })
    }

    /// True when there is a secret in these bytes.
    pub(super) fn is_match(&self, bytes: &[u8]) -> bool {
        self.automaton.is_match(bytes)
    }

    /// Where the secrets are. Secrets that overlap are one range, so that no part of either stays visible.
    pub(super) fn ranges(&self, text: &str) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = self
            .automaton
            .find_overlapping_iter(text)
            .map(|hit| widened(text.as_bytes(), hit.range(), self.kinds[hit.pattern().as_usize()]))
            .collect();
        if found.len() > 1 {
            found.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
        }
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(found.len());
        for range in found {
            match merged.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        merged
    }
}

/// A hit with the letters beside it that belong to the same secret.
fn widened(text: &[u8], hit: Range<usize>, kind: FormKind) -> Range<usize> {
    let is_base64 = |b: &u8| b.is_ascii_alphanumeric() || b"+/-_".contains(b);
    let run = |is_in: &dyn Fn(&u8) -> bool| text[hit.end..].iter().take_while(|b| is_in(b)).count();
    match kind {
        FormKind::Plain => hit,
        FormKind::Base64 => {
            let end = hit.end + run(&is_base64);
            let padding = text[end..].iter().take(2).take_while(|b| **b == b'=').count();
            let first = hit.start.saturating_sub(1);
            let start = if text.get(first).is_some_and(is_base64) { first } else { hit.start };
            start..end + padding
        }
        FormKind::Hex => hit.start..hit.end + run(&|b| b.is_ascii_hexdigit()),
    }
}
