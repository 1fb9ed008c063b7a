//! `source_hash` in, the digest that a download must have out; and the digests of contents.
//!
//! Law: what cannot be read as a digest is a failure in Salt's words, never "no digest" (held by
//! `digests_are_read_as_they_are_written`, `a_list_of_digests_is_searched_as_salt_does`).

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use zagent_config::mask::redact_logins;

use md5::Md5;
use md5::digest::DynDigest;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::diff::hex;
use zagent_host::fs::{FileSystem, FsError};

/// Bytes of a file that are held at a time.
const CHUNK: usize = 64 << 10;

/// A kind of digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DigestAlgorithm {
    /// 32 digits.
    Md5,
    /// 40 digits.
    Sha1,
    /// 56 digits.
    Sha224,
    /// 64 digits.
    Sha256,
    /// 96 digits.
    Sha384,
    /// 128 digits.
    Sha512,
}

impl DigestAlgorithm {
    /// All of them, in the order Salt names them.
    const ALL: [Self; 6] = [Self::Sha512, Self::Sha384, Self::Sha256, Self::Sha224, Self::Sha1, Self::Md5];

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha224 => "sha224",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    /// How many digits it has.
    const fn digits(self) -> usize {
        match self {
            Self::Md5 => 32,
            Self::Sha1 => 40,
            Self::Sha224 => 56,
            Self::Sha256 => 64,
            Self::Sha384 => 96,
            Self::Sha512 => 128,
        }
    }

    fn by_digits(digits: usize) -> Option<Self> {
        Self::ALL.into_iter().find(|a| a.digits() == digits)
    }

    fn digester(self) -> Box<dyn DynDigest> {
        match self {
            Self::Md5 => Box::new(Md5::default()),
            Self::Sha1 => Box::new(Sha1::default()),
            Self::Sha224 => Box::new(Sha224::default()),
            Self::Sha256 => Box::new(Sha256::default()),
            Self::Sha384 => Box::new(Sha384::default()),
            Self::Sha512 => Box::new(Sha512::default()),
        }
    }

    /// The digest of a content, as hexadecimal digits.
    pub(crate) fn digest(self, content: &[u8]) -> String {
        let mut digester = self.digester();
        digester.update(content);
        hex(&digester.finalize())
    }

    /// The digest of a file, however long it is.
    ///
    /// # Errors
    /// Fails when it cannot be read.
    pub(crate) fn digest_file(self, path: &Path) -> io::Result<String> {
        let (mut file, mut digester) = (File::open(path)?, self.digester());
        let mut chunk = vec![0; CHUNK];
        loop {
            match file.read(&mut chunk) {
                Ok(0) => return Ok(hex(&digester.finalize())),
                Ok(n) => digester.update(&chunk[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A digest that a content must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileDigest {
    /// Of which kind.
    pub algorithm: DigestAlgorithm,
    /// Hexadecimal digits, in lower case.
    pub digits: String,
}

impl FileDigest {
    /// True when a content has this digest.
    pub(crate) fn matches(&self, content: &[u8]) -> bool {
        self.algorithm.digest(content) == self.digits
    }

    /// True when a file has this digest, however long it is.
    ///
    /// # Errors
    /// Fails when it cannot be read.
    pub(crate) fn matches_file(&self, fs: &dyn FileSystem, path: &Path) -> Result<bool, FsError> {
        let mut digester = self.algorithm.digester();
        fs.read_chunks(path, &mut |piece| digester.update(piece))?;
        Ok(hex(&digester.finalize()) == self.digits)
    }

    /// Reads a digest that is written out: `DIGITS` or `TYPE=DIGITS`.
    ///
    /// # Errors
    /// Fails with Salt's words when it is none.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let Some((name, digits)) = text.split_once('=') else {
            let algorithm = is_hex(text).then(|| DigestAlgorithm::by_digits(text.len())).flatten();
            let algorithm = algorithm.ok_or_else(|| invalid_digest(text))?;
            return Ok(Self { algorithm, digits: text.to_ascii_lowercase() });
        };
        let (name, digits) = (name.trim(), digits.trim());
        let Some(algorithm) = DigestAlgorithm::ALL.into_iter().find(|a| a.name() == name) else {
            return Err(unknown_type(name, digits));
        };
        match DigestAlgorithm::by_digits(digits.len()) {
            None => Err(invalid_digest(text)),
            Some(_) if !is_hex(digits) => Err(invalid_digest(text)),
            Some(fitting) if fitting != algorithm => Err(wrong_length(algorithm, fitting, digits)),
            Some(_) => Ok(Self { algorithm, digits: digits.to_ascii_lowercase() }),
        }
    }

    /// Finds the digest of a file in a list of them: by `source_hash_name`, else by the name of the file or of its source,
    /// else the first one there is.
    pub(crate) fn find_in_list(
        list: &str,
        hash_name: Option<&str>,
        file: &str,
        source: &str,
    ) -> Option<Self> {
        let mut best: Option<(u8, Self)> = None;
        let sums = list.lines().filter_map(|line| Some((line.trim(), Self::parse_line(line.trim())?)));
        for (line, sum) in sums {
            let rank = if hash_name.is_some_and(|name| line_names_file(line, name, name, false)) {
                0
            } else if line_names_file(line, file, base_name(file), true) {
                1
            } else if line_names_file(line, source, base_name(source), true) {
                2
            } else {
                3
            };
            if best.as_ref().is_none_or(|(so_far, _)| rank < *so_far) {
                best = Some((rank, sum));
            }
        }
        best.map(|(_, sum)| sum)
    }

    /// The first run of digits in a line that has the length of a digest.
    fn parse_line(line: &str) -> Option<Self> {
        let words = line.split(|c: char| !c.is_ascii_alphanumeric());
        words.filter(|word| is_hex(word)).find_map(|word| {
            let algorithm = DigestAlgorithm::by_digits(word.len())?;
            Some(Self { algorithm, digits: word.to_ascii_lowercase() })
        })
    }
}

/// True when a line of a list is about a name: it ends with it, or begins with the whole of it.
fn line_names_file(line: &str, whole: &str, base: &str, in_path: bool) -> bool {
    if base.is_empty() {
        return false;
    }
    if let Some(before) = line.strip_suffix(base) {
        let separates = |c: char| c.is_whitespace() || (in_path && matches!(c, '\\' | '/' | '*'));
        return before.ends_with(separates);
    }
    line.strip_prefix(whole).is_some_and(|rest| rest.starts_with(char::is_whitespace))
}

/// The last part of a path or address, without the query of an address.
fn base_name(path: &str) -> &str {
    let path = if path.contains("://") { path.split(['?', '#']).next().unwrap_or(path) } else { path };
    path.rsplit('/').next().unwrap_or(path)
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Salt's words for what is no digest.
pub(crate) fn invalid_digest(text: &str) -> String {
    let text = redact_logins(text);
    let lengths: Vec<String> =
        DigestAlgorithm::ALL.iter().rev().map(|a| format!("{} ({})", a.name(), a.digits())).collect();
    format!(
        "Source hash {text} format is invalid. The supported formats are: 1) a hash, 2) an expression in the format \
         <hash_type>=<hash>, or 3) either a path to a local file containing hashes, or a URI of a remote hash file. \
         Supported protocols for remote hash files are: salt, file, http, https, ftp, swift, s3. The hash may also not be \
         of a valid length, the following are supported hash types and lengths: {}.",
        lengths.join(", ")
    )
}

fn unknown_type(name: &str, digits: &str) -> String {
    let known: Vec<&str> = DigestAlgorithm::ALL.iter().map(|a| a.name()).collect();
    format!(
        "Invalid hash type '{name}'. Supported hash types are: {}. Either remove the hash type and simply use '{digits}' \
         as the source_hash, or change the hash type to a supported type.",
        known.join(", ")
    )
}

fn wrong_length(algorithm: DigestAlgorithm, fitting: DigestAlgorithm, digits: &str) -> String {
    format!(
        "Invalid length ({}) for hash type '{}'. Either remove the hash type and simply use '{digits}' as the \
         source_hash, or change the hash type to '{}'",
        digits.len(),
        algorithm.name(),
        fitting.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const HI: &str = "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4";

    #[test]
    fn a_file_has_the_digest_of_its_content() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let content = vec![7_u8; CHUNK * 2 + 5];
        std::fs::write(file.path(), &content).unwrap();
        for algorithm in DigestAlgorithm::ALL {
            assert_eq!(
                algorithm.digest_file(file.path()).unwrap(),
                algorithm.digest(&content),
                "{algorithm:?}"
            );
        }
        assert_eq!(DigestAlgorithm::Md5.digest(b""), "d41d8cd98f00b204e9800998ecf8427e");
    }

    #[test]
    fn a_file_is_compared_a_piece_at_a_time() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let content = vec![7_u8; 3 << 20];
        std::fs::write(file.path(), &content).unwrap();
        let sum = |content: &[u8]| FileDigest::read(&DigestAlgorithm::Sha256.digest(content)).unwrap();
        let plain = zagent_host::disk::Disk::default();
        let overlay = zagent_host::fs::Overlay::new(std::sync::Arc::new(zagent_host::disk::Disk::default()));
        let all: [&dyn FileSystem; 2] = [&plain, &overlay];
        for fs in all {
            let mut longest = 0;
            fs.read_chunks(file.path(), &mut |piece| longest = longest.max(piece.len())).unwrap();
            assert!((1..1 << 20).contains(&longest), "{longest}");
            assert!(sum(&content).matches_file(fs, file.path()).unwrap());
            assert!(!sum(b"").matches_file(fs, file.path()).unwrap());
            assert!(sum(b"").matches_file(fs, Path::new("/nonexistent/file")).is_err());
        }
    }

    #[test]
    fn digests_are_read_as_they_are_written() {
        let upper = HI.to_uppercase();
        for text in [HI.to_owned(), format!("sha256={HI}"), format!("sha256 = {HI}"), upper] {
            let sum = FileDigest::read(&text).expect("a digest");
            assert_eq!((sum.algorithm, sum.digits.as_str()), (DigestAlgorithm::Sha256, HI));
            assert!(sum.matches(b"hi\n") && !sum.matches(b"ho\n"));
        }
        for (algorithm, digits) in [
            (DigestAlgorithm::Md5, "764efa883dda1e11db47671c4a3bbd9e"),
            (DigestAlgorithm::Sha1, "55ca6286e3e4f4fba5d0448333fa99fc5a404a73"),
        ] {
            assert_eq!(algorithm.digest(b"hi\n"), digits);
            assert_eq!(FileDigest::read(digits).expect("a digest").algorithm, algorithm);
        }
    }

    #[test]
    fn a_list_of_digests_is_searched_as_salt_does() {
        let digit = |c: &str| c.repeat(64);
        let list = format!(
            "# list\n{}  other.tar\n{} *pkg.tar\nSHA256 (dir/local.conf) = {}\n{}  the/local.conf\n{}  named\n",
            digit("a"),
            digit("b"),
            digit("c"),
            digit("d"),
            digit("e"),
        );
        let find = |name, file, source| FileDigest::find_in_list(&list, name, file, source).map(|s| s.digits);
        assert_eq!(find(None, "/x/nope", "https://h/pkg.tar?x=1"), Some(digit("b")));
        assert_eq!(find(None, "/etc/local.conf", "https://h/pkg.tar"), Some(digit("d")));
        assert_eq!(find(Some("named"), "/etc/local.conf", ""), Some(digit("e")));
        assert_eq!(find(None, "/none", "https://h/none"), Some(digit("a")));
        assert_eq!(FileDigest::find_in_list("nothing here\n", None, "/f", ""), None);
    }
}
