//! Words that are never masked: they stand in every report, and who masks them hides everything and protects nothing.

/// Sorted, in lower case. The names of state modules and functions are here too (a test of the states holds it).
const WORDS: &str = include_str!("common_words.txt");

/// True for such a word, in any case.
pub(super) fn is_common(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if text.len() > 24 || !text.chars().all(is_word) {
        return false;
    }
    let word = text.to_ascii_lowercase();
    WORDS.split_whitespace().any(|known| known == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case_and_nothing_else_is() {
        for word in ["true", "TRUE", "root", "managed", "file.managed", "localhost"] {
            assert!(is_common(word), "{word}");
        }
        for text in ["hunter2", "correct-horse", "s3cr3t", "true story", ""] {
            assert!(!is_common(text), "{text}");
        }
        assert!(WORDS.split_whitespace().all(|w| w.len() <= 24 && w == w.to_ascii_lowercase()));
    }
}
