//! The command line of the program `patch` into what of it can be done here.
//!
//! Law: an option that is not understood is refused, not ignored (held by `options_are_understood_or_refused`).

use super::apply::PatchLeniency;
use crate::StateError;

/// Lines of context that may differ unless it is said.
const DEFAULT_FUZZ: usize = 2;

/// How a patch is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatchOptions {
    /// Parts that are taken off the front of names.
    pub strip: Option<usize>,
    /// Backwards.
    pub reverse: bool,
    /// Files that become empty are removed.
    pub(crate) remove_empty: bool,
    /// What the old content is kept under.
    pub backup: Option<String>,
    /// How loosely places are looked for.
    pub(crate) leniency: PatchLeniency,
}

impl PatchOptions {
    /// Reads the words of `options`; `strip` is what the state says on its own.
    ///
    /// # Errors
    /// Fails with Salt's words for options that it does not allow, and with ours for those that are not known.
    pub(crate) fn read(text: &str, strip: Option<usize>) -> Result<Self, StateError> {
        let how = PatchLeniency { fuzz: DEFAULT_FUZZ, ignore_space: false };
        let mut options = Self { strip, reverse: false, remove_empty: false, backup: None, leniency: how };
        let words = split_words(text)?;
        let forbidden = ["-N", "--forward", "-r", "--reject-file", "-o", "--output"];
        let bad: Vec<&str> =
            words.iter().map(String::as_str).filter(|w| forbidden.iter().any(|f| w.starts_with(f))).collect();
        if !bad.is_empty() {
            return Err(StateError::new(format!(
                "The following CLI options are not allowed: {}",
                bad.join(", ")
            )));
        }
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            options.parse_word(&word, &mut words)?;
        }
        Ok(options)
    }

    fn parse_word(&mut self, word: &str, rest: &mut impl Iterator<Item = String>) -> Result<(), StateError> {
        let wrong = |what: &str| {
            StateError::new(format!(
                "Invalid format for '{what}' CLI option. Consider using the 'strip' option for this state."
            ))
        };
        if let Some(number) = word.strip_prefix("-p") {
            self.strip = Some(number.parse().map_err(|_| wrong("-p"))?);
            return Ok(());
        }
        if let Some(number) = option_value(word, "--strip", rest) {
            self.strip = Some(number.parse().map_err(|_| wrong("-strip"))?);
            return Ok(());
        }
        let fuzz = word.strip_prefix("-F").filter(|n| !n.is_empty()).map(str::to_owned);
        let fuzz =
            fuzz.or_else(|| if word == "-F" { rest.next() } else { option_value(word, "--fuzz", rest) });
        if let Some(number) = fuzz {
            let bad = |_| StateError::new(format!("patch option `{word}` needs a number"));
            self.leniency.fuzz = number.parse().map_err(bad)?;
            return Ok(());
        }
        match word {
            "-R" | "--reverse" => self.reverse = true,
            "-l" | "--ignore-whitespace" => self.leniency.ignore_space = true,
            "-E" | "--remove-empty-files" => self.remove_empty = true,
            "-b" | "--backup" => self.backup = Some(".orig".into()),
            "-u" | "--unified" | "-s" | "--silent" | "--quiet" | "--verbose" | "--binary" | "-t"
            | "--batch" | "-f" | "--force" => {}
            other => return Err(StateError::new(format!("patch option `{other}` is not supported"))),
        }
        Ok(())
    }
}

/// The value of `--name=value` or `--name value`.
fn option_value(word: &str, name: &str, rest: &mut impl Iterator<Item = String>) -> Option<String> {
    let tail = word.strip_prefix(name)?;
    match tail.strip_prefix('=') {
        Some(value) => Some(value.to_owned()),
        None if tail.is_empty() => Some(rest.next().unwrap_or_default()),
        None => None,
    }
}

/// Words as a shell splits them: quotes and backslashes count.
fn split_words(text: &str) -> Result<Vec<String>, StateError> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(StateError::new("No closing quotation"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_understood_or_refused() {
        let options = PatchOptions::read("-p1 --fuzz=0 -l '-R' -b", None).unwrap();
        assert_eq!((options.strip, options.leniency.fuzz, options.reverse), (Some(1), 0, true));
        assert!(options.leniency.ignore_space);
        assert_eq!(options.backup.as_deref(), Some(".orig"));
        assert_eq!(PatchOptions::read("--strip 3 -F 1", Some(1)).unwrap().strip, Some(3));
        for (text, words) in [
            ("-N -o x", "The following CLI options are not allowed: -N, -o"),
            ("-px", "Invalid format for '-p' CLI option. Consider using the 'strip' option for this state."),
            (
                "--strip",
                "Invalid format for '-strip' CLI option. Consider using the 'strip' option for this state.",
            ),
            ("--ed", "patch option `--ed` is not supported"),
            ("'x", "No closing quotation"),
        ] {
            assert_eq!(PatchOptions::read(text, None).unwrap_err().result.comment, words);
        }
    }
}
