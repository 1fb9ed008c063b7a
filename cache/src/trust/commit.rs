//! The raw bytes of a commit in, its one signature and the signed bytes out.
//!
//! Law: the signed content is every byte except the one header with the signature. A second signature, or one for
//! another hash of the repository, would be outside what is checked, so it is refused (held by
//! `only_the_signature_header_is_removed`, `other_shapes_are_refused`).

use jiff::Timestamp;

use super::SignatureError;

const SIGNATURE: &[u8] = b"gpgsig";
const SIGNATURE_SHA256: &[u8] = b"gpgsig-sha256";
const COMMITTER: &[u8] = b"committer";

/// A parsed commit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SignedCommit {
    /// The armoured signature.
    pub(super) signature: Vec<u8>,
    /// The signed bytes.
    pub(super) payload: Vec<u8>,
    /// The time that the committer recorded.
    pub(super) committed: Timestamp,
}

fn malformed(why: impl Into<String>) -> SignatureError {
    SignatureError::Malformed { what: "commit", why: why.into() }
}

/// Parses a commit.
pub(super) fn parse_commit(bytes: &[u8]) -> Result<SignedCommit, SignatureError> {
    let mut signature: Option<Vec<u8>> = None;
    let mut payload = Vec::with_capacity(bytes.len());
    let mut committed = None;
    let mut rest = bytes;
    let mut in_signature = false;
    while !rest.is_empty() && rest[0] != b'\n' {
        let end = rest.iter().position(|b| *b == b'\n').map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(end);
        rest = after;
        if let Some(more) = line.strip_prefix(b" ") {
            match signature.as_mut().filter(|_| in_signature) {
                Some(signature) => signature.extend_from_slice(more),
                None => payload.extend_from_slice(line),
            }
            continue;
        }
        let name = line.split(|b| matches!(b, b' ' | b'\n')).next().unwrap_or_default();
        in_signature = name == SIGNATURE;
        if in_signature {
            let first = line.get(SIGNATURE.len() + 1..).unwrap_or_default().to_vec();
            if signature.replace(first).is_some() {
                return Err(SignatureError::Several);
            }
            continue;
        }
        if name == SIGNATURE_SHA256 {
            return Err(malformed("it has a signature for a SHA-256 repository"));
        }
        if name == COMMITTER && committed.replace(commit_time(line)?).is_some() {
            return Err(malformed("it has several committers"));
        }
        payload.extend_from_slice(line);
    }
    payload.extend_from_slice(rest);
    let signature = signature.ok_or(SignatureError::Unsigned { what: "commit" })?;
    let committed = committed.ok_or_else(|| malformed("it has no committer"))?;
    Ok(SignedCommit { signature, payload, committed })
}

/// The time of `committer NAME <MAIL> SECONDS ZONE`.
fn commit_time(line: &[u8]) -> Result<Timestamp, SignatureError> {
    let bad = || malformed("the time of its committer cannot be read");
    let after = line.iter().rposition(|b| *b == b'>').ok_or_else(bad)?;
    let text = std::str::from_utf8(&line[after + 1..]).map_err(|_| bad())?;
    let seconds = text.split_ascii_whitespace().next().and_then(|word| word.parse::<i64>().ok());
    seconds.and_then(|seconds| Timestamp::from_second(seconds).ok()).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "tree aa\nauthor a <a@x> 1 +0000\ncommitter c <c@x> 7 +0100\n";

    #[test]
    fn only_the_signature_header_is_removed() {
        let signed =
            format!("{HEAD}gpgsig one\n two\n \n three\nencoding x\nmergetag m\n gpgsig no\n\ngpgsig body\n");
        let commit = parse_commit(signed.as_bytes()).unwrap();
        assert_eq!(commit.signature, b"one\ntwo\n\nthree\n");
        let payload = format!("{HEAD}encoding x\nmergetag m\n gpgsig no\n\ngpgsig body\n");
        assert_eq!(String::from_utf8(commit.payload).unwrap(), payload);
        assert_eq!(commit.committed.as_second(), 7);
    }

    #[test]
    fn other_shapes_are_refused() {
        let code = |text: String| parse_commit(text.as_bytes()).unwrap_err().code();
        assert_eq!(code(format!("{HEAD}\nbody\n")), "unsigned");
        assert_eq!(code(format!("{HEAD}\ngpgsig x\n")), "unsigned");
        assert_eq!(code(format!("{HEAD}gpgsig a\n b\ngpgsig c\n\n")), "several-signatures");
        assert_eq!(code(format!("{HEAD}gpgsig a\ngpgsig-sha256 c\n\n")), "malformed");
        assert_eq!(code(format!("{HEAD}{HEAD}gpgsig a\n\n")), "malformed");
        assert_eq!(code("tree aa\ngpgsig a\n\n".into()), "malformed");
        for time in ["", "x", "99999999999999999999", "-99999999999999"] {
            assert_eq!(
                code(format!("tree a\ncommitter c <c@x> {time}\ngpgsig a\n\n")),
                "malformed",
                "{time}"
            );
        }
        for text in ["", "\n", " \n", "gpgsig", "gpgsig\n", "\0", "committer"] {
            assert!(parse_commit(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
