//! Python's text wrapping, for the `wordwrap` filter.

/// How lines are wrapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrapStyle {
    pub(super) width: usize,
    pub(super) break_long_words: bool,
    pub(super) break_on_hyphens: bool,
}

fn len(text: &str) -> usize {
    text.chars().count()
}

/// Wraps one line into several of at most the width; white space inside is kept as it is.
pub(super) fn wrap(line: &str, style: WrapStyle) -> Vec<String> {
    let mut chunks: Vec<String> = chunks(line, style.break_on_hyphens);
    chunks.reverse();
    let mut out: Vec<String> = Vec::new();
    while !chunks.is_empty() {
        let mut current: Vec<String> = Vec::new();
        let mut have = 0;
        // White space at the beginning of a line is dropped, except at the very beginning.
        if !out.is_empty() && chunks.last().is_some_and(|c| c.trim().is_empty()) {
            chunks.pop();
        }
        while let Some(chunk) = chunks.last() {
            let n = len(chunk);
            if have + n > style.width {
                break;
            }
            have += n;
            current.extend(chunks.pop());
        }
        if chunks.last().is_some_and(|c| len(c) > style.width) {
            break_long(&mut chunks, &mut current, have, style);
        }
        if current.last().is_some_and(|c| c.trim().is_empty()) {
            current.pop();
        }
        if !current.is_empty() {
            out.push(current.concat());
        }
    }
    out
}

/// Splits off a piece of a word that is longer than a line.
fn break_long(chunks: &mut Vec<String>, current: &mut Vec<String>, have: usize, style: WrapStyle) {
    let Some(word) = chunks.pop() else { return };
    if !style.break_long_words {
        if current.is_empty() {
            current.push(word);
        } else {
            chunks.push(word);
        }
        return;
    }
    let mut room = style.width.saturating_sub(have).max(1);
    if style.break_on_hyphens && len(&word) > room {
        let head: String = word.chars().take(room).collect();
        let after_hyphen = head.rfind('-').filter(|i| *i > 0 && head[..*i].contains(|c| c != '-'));
        if let Some(i) = after_hyphen {
            room = len(&head[..=i]);
        }
    }
    let at = word.char_indices().nth(room).map_or(word.len(), |(i, _)| i);
    current.push(word[..at].to_owned());
    if at < word.len() {
        chunks.push(word[at..].to_owned());
    }
}

/// Words and runs of white space; words are split after hyphens between letters.
fn chunks(line: &str, break_on_hyphens: bool) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let chars: Vec<char> = line.chars().collect();
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\u{b}' | '\u{c}' | '\r');
    let mut word = String::new();
    for (i, &c) in chars.iter().enumerate() {
        let switches = word.chars().last().is_some_and(|last| is_space(last) != is_space(c));
        if switches {
            out.push(std::mem::take(&mut word));
        }
        word.push(c);
        let is_letter = |at: Option<usize>| at.and_then(|i| chars.get(i)).is_some_and(|c| c.is_alphabetic());
        let cuts = break_on_hyphens
            && c == '-'
            && is_letter(i.checked_sub(1))
            && is_letter(i.checked_sub(2))
            && is_letter(Some(i + 1))
            && is_letter(Some(i + 2));
        if cuts {
            out.push(std::mem::take(&mut word));
        }
    }
    if !word.is_empty() {
        out.push(word);
    }
    out
}
