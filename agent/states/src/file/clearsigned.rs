//! A file in, whether it is one clear-signed message from its first byte to its last out.
//!
//! `gpg` passes over what stands outside of the message, and over some of what stands in it: who uses the whole file must
//! know that there is nothing of the kind.
//!
//! Law: no byte that a person or a program could read as content is outside of what was signed (held by
//! `what_nobody_signed_is_seen`).

const MESSAGE: &str = "-----BEGIN PGP SIGNED MESSAGE-----";
const SIGNATURE: &str = "-----BEGIN PGP SIGNATURE-----";
const END: &str = "-----END PGP SIGNATURE-----";
/// Bytes of a line: `gpg` cuts a much longer one off, and checks what is left.
const MAX_LINE: usize = 16 << 10;

/// True when a file is one clear-signed message, and nothing more.
pub(crate) fn is_wholly_signed(file: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(file) else { return false };
    let mut lines = text.lines();
    lines.next() == Some(MESSAGE)
        && skip_headers(&mut lines, is_hash_header)
        && skip_signed_text(&mut lines)
        && skip_headers(&mut lines, is_version_header)
        && is_signature_to_end(lines)
}

/// Reads headers up to the empty line behind them; false when one is another than `is_known`.
fn skip_headers<'t>(lines: &mut impl Iterator<Item = &'t str>, is_known: fn(&str) -> bool) -> bool {
    for line in lines {
        if line.is_empty() {
            return true;
        }
        if !is_known(line) {
            return false;
        }
    }
    false
}

fn is_hash_header(line: &str) -> bool {
    let names = line.strip_prefix("Hash: ");
    names.is_some_and(|names| names.bytes().all(|b| b.is_ascii_alphanumeric() || b", ".contains(&b)))
}

/// The only header that old programs write by themselves.
fn is_version_header(line: &str) -> bool {
    let name = line.strip_prefix("Version: ");
    name.is_some_and(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b" .()/-".contains(&b)))
}

/// Reads the text up to the line that begins the signature.
fn skip_signed_text<'t>(lines: &mut impl Iterator<Item = &'t str>) -> bool {
    for line in lines {
        if line == SIGNATURE {
            return true;
        }
        // A line of the text that begins with a dash is written with `- ` before it.
        if line.len() > MAX_LINE || (line.starts_with('-') && !line.starts_with("- ")) {
            return false;
        }
    }
    false
}

/// Base 64 with its checksum, and the line that ends it.
fn is_signature_to_end<'t>(lines: impl Iterator<Item = &'t str>) -> bool {
    let lines: Vec<&str> = lines.collect();
    let [data @ .., END] = lines.as_slice() else { return false };
    let (sum, data) = match data {
        [data @ .., sum] if sum.starts_with('=') => (Some(sum), data),
        data => (None, data),
    };
    let Some((last, full)) = data.split_last() else { return false };
    let is_base64 = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/".contains(&b));
    full.iter().all(|line| is_base64(line))
        && is_base64(last.trim_end_matches('='))
        && sum.is_none_or(|sum| sum.len() == 5 && is_base64(&sum[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\ntext\n- -----BEGIN\n-----BEGIN PGP SIGNATURE-----\n\n\
        iHUEARYIAB0\nFiEE+/9==\n=aB/+\n-----END PGP SIGNATURE-----\n";

    #[test]
    fn what_nobody_signed_is_seen() {
        assert!(is_wholly_signed(RIGHT.as_bytes()));
        assert!(is_wholly_signed(RIGHT.replace("=aB/+\n", "").as_bytes()));
        assert!(is_wholly_signed(
            RIGHT.replace("E-----\n\n", "E-----\nVersion: GnuPG v1.4.11 (GNU/Linux)\n\n").as_bytes()
        ));
        let long = "x".repeat(MAX_LINE + 1);
        let table = [
            ("-----BEGIN PGP SIGNED", "evil\n-----BEGIN PGP SIGNED"),
            ("-----BEGIN PGP SIGNED", "\n-----BEGIN PGP SIGNED"),
            ("-----END PGP SIGNATURE-----\n", "-----END PGP SIGNATURE-----\nevil\n"),
            ("-----END PGP SIGNATURE-----\n", "-----END PGP SIGNATURE-----\n\n"),
            ("-----END PGP SIGNATURE-----\n", ""),
            ("Hash: SHA256\n", "Hash: SHA256\nComment: evil\n"),
            ("Hash: SHA256\n", "Hash: $(evil)\n"),
            ("E-----\n\n", "E-----\nComment: evil\n\n"),
            ("=aB/+\n", "=aB/+\nevil\n"),
            ("=aB/+\n", "=aB/+\nevil=1\n"),
            ("=aB/+\n", "=evil1\n"),
            ("iHUEARYIAB0\n", "iHUEARYIAB0\n$()\n"),
            ("iHUEARYIAB0\n", "evil=1\n"),
            ("text\n", "text\n-----BEGIN PGP SIGNATURE----- \n"),
            ("text\n", &format!("{long}\n")),
        ];
        for (from, to) in table {
            assert!(RIGHT.contains(from), "{from}");
            assert!(!is_wholly_signed(RIGHT.replacen(from, to, 1).as_bytes()), "{to}");
        }
        assert!(!is_wholly_signed(RIGHT.repeat(2).as_bytes()));
        assert!(!is_wholly_signed(b"") && !is_wholly_signed(b"\xff"));
    }
}
