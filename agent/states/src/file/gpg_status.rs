//! The status lines of `gpg` in, the keys whose signatures count and how many texts it saw out.
//!
//! Law: a signature counts only when `gpg` calls it good; one of a key that is revoked, expired or `TRUST_NEVER` does not
//! (held by `gpg_says_who_signed`, `a_key_that_must_not_be_believed_has_not_signed`).

/// Begins the lines that are meant for programs.
const STATUS: &str = "[GNUPG:] ";

/// What `gpg` said of one file.
#[derive(Debug, Default)]
pub(crate) struct GpgAnswer {
    /// The fingerprints of the keys whose signatures are valid.
    pub(crate) signers: Vec<String>,
    /// The texts that it found in the file: an inline signature comes with one, a detached signature with none.
    pub(crate) texts: usize,
    /// It met something after or before them that does not belong there.
    pub(crate) is_broken: bool,
}

impl GpgAnswer {
    /// Reads what it said.
    pub(crate) fn parse(said: &[u8]) -> Self {
        let said = String::from_utf8_lossy(said);
        let (mut answer, mut is_good, mut valid) = (Self::default(), false, None);
        for line in said.lines().filter_map(|line| line.strip_prefix(STATUS)) {
            let mut words = line.split_ascii_whitespace();
            match words.next().unwrap_or_default() {
                "PLAINTEXT" => answer.texts += 1,
                "ERROR" => answer.is_broken |= words.next().is_some_and(|at| at.starts_with("proc_pkt")),
                "GOODSIG" => is_good = true,
                "NEWSIG" | "BADSIG" | "ERRSIG" | "EXPSIG" | "EXPKEYSIG" | "REVKEYSIG" | "KEYREVOKED"
                | "TRUST_NEVER" => (is_good, valid) = (false, None),
                // The last word is that of the key which owns the one that signed.
                "VALIDSIG" if is_good => valid = words.next_back().map(str::to_owned),
                // Only after this has the key been looked at, too.
                word if word.starts_with("TRUST_") => answer.signers.extend(valid.take()),
                _ => {}
            }
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signers(lines: &[&str]) -> Vec<String> {
        let said: String = lines.iter().map(|line| format!("{STATUS}{line}\n")).collect();
        GpgAnswer::parse(said.as_bytes()).signers
    }

    #[test]
    fn gpg_says_who_signed() {
        let said = b"[GNUPG:] NEWSIG\n[GNUPG:] BADSIG AA Eve\n[GNUPG:] NEWSIG\n[GNUPG:] GOODSIG BB Ann\n\
            [GNUPG:] VALIDSIG SUB 2024-01-01 1 0 4 0 22 8 00 MAIN\n[GNUPG:] TRUST_UNDEFINED 0 pgp\n\
            [GNUPG:] NEWSIG\n[GNUPG:] EXPKEYSIG CC Old\n[GNUPG:] VALIDSIG X Y\n";
        let answer = GpgAnswer::parse(said);
        assert_eq!((answer.signers, answer.texts, answer.is_broken), (vec!["MAIN".to_owned()], 0, false));
        assert_eq!(GpgAnswer::parse(b"VALIDSIG A B\nTRUST_FULLY\n").signers, [""; 0]);
        let two =
            GpgAnswer::parse(b"[GNUPG:] PLAINTEXT 74 0 \n[GNUPG:] ERROR proc_pkt.plaintext 89_BAD_DATA\n");
        assert_eq!((two.texts, two.is_broken), (1, true));
    }

    #[test]
    fn a_key_that_must_not_be_believed_has_not_signed() {
        let (valid, trust) = ("VALIDSIG SUB 2024-01-01 MAIN", "TRUST_ULTIMATE 0 pgp");
        assert_eq!(signers(&["NEWSIG", "GOODSIG BB Ann", valid, trust]), ["MAIN"]);
        for word in ["REVKEYSIG BB Ann", "EXPKEYSIG BB Ann", "EXPSIG BB Ann", "BADSIG BB Ann", "ERRSIG BB"] {
            assert_eq!(signers(&["NEWSIG", word, valid, "KEYREVOKED", trust]), [""; 0], "{word}");
            assert_eq!(signers(&["NEWSIG", word, valid, trust]), [""; 0], "{word}");
        }
        for word in ["KEYREVOKED", "TRUST_NEVER 0 pgp", "NEWSIG"] {
            assert_eq!(signers(&["NEWSIG", "GOODSIG BB Ann", valid, word, trust]), [""; 0], "{word}");
        }
        // The word on one signature says nothing of the next.
        assert_eq!(signers(&["NEWSIG", "GOODSIG BB Ann", "NEWSIG", valid, trust]), [""; 0]);
    }
}
