//! Why a signature is not accepted, and how to fix it.

use std::path::PathBuf;

use jiff::Timestamp;

/// Why a signature, or a file with accepted keys, is refused.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// No signature can be accepted.
    #[error("`{path}` does not exist or lists no key, so no signature is accepted")]
    NoSigners {
        /// The signers file.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("cannot read `{path}`")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system error.
        #[source]
        source: std::io::Error,
    },
    /// Another user could have written the file.
    #[error("`{path}` is not trusted: {why}")]
    Unsafe {
        /// The file or its directory.
        path: PathBuf,
        /// Which user.
        why: String,
    },
    /// A line cannot be read.
    #[error("{path}:{line}: {why}", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The problem.
        why: String,
    },
    /// A list of revoked keys in OpenSSH's binary format.
    #[error("`{path}` is a binary key revocation list, which zagent does not support")]
    BinaryRevocations {
        /// The file.
        path: PathBuf,
    },
    /// There is no signature.
    #[error("the {what} is not signed")]
    Unsigned {
        /// The commit, the manifest, the record or the release.
        what: &'static str,
    },
    /// More than one signature where one is expected.
    #[error("the commit has several signatures")]
    Several,
    /// Data in a wrong format.
    #[error("the {what} cannot be read: {why}")]
    Malformed {
        /// The commit or the signature.
        what: &'static str,
        /// The problem.
        why: String,
    },
    /// Signed with a certificate.
    #[error("the signature was made with an SSH certificate ({algorithm}), which zagent does not accept")]
    Certificate {
        /// Its algorithm.
        algorithm: String,
    },
    /// An algorithm that is no longer, or not yet, trusted.
    #[error("the signature is refused: {why}")]
    Weak {
        /// The reason.
        why: String,
    },
    /// Made for another purpose.
    #[error("the signature was made for `{found}`, not for `{want}`")]
    WrongNamespace {
        /// The namespace of the signature.
        found: String,
        /// The expected namespace.
        want: &'static str,
    },
    /// The key is unknown.
    #[error("the key {fingerprint} is not in `{path}`")]
    UnknownKey {
        /// The key.
        fingerprint: String,
        /// The signers file.
        path: PathBuf,
    },
    /// The key was revoked.
    #[error("the key {fingerprint} is revoked in `{path}`")]
    Revoked {
        /// The key.
        fingerprint: String,
        /// The file with revoked keys.
        path: PathBuf,
    },
    /// The key is not allowed to sign this.
    #[error("the key of `{principal}` is not allowed to sign for `{namespace}` (line {line} of `{path}`)")]
    NotAllowed {
        /// Its owner.
        principal: String,
        /// The namespace it was used for.
        namespace: &'static str,
        /// The signers file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// The key is not valid yet, or was not when it was used.
    #[error("the key of `{principal}` is valid from {after}, and it was used at {at}")]
    NotYetValid {
        /// Its owner.
        principal: String,
        /// The start of its validity.
        after: Timestamp,
        /// The time that was checked.
        at: Timestamp,
    },
    /// The key is no longer valid.
    #[error("the key of `{principal}` was valid until {before}, and it was used at {at}")]
    ExpiredKey {
        /// Its owner.
        principal: String,
        /// The end of its validity.
        before: Timestamp,
        /// The time that was checked.
        at: Timestamp,
    },
    /// The content is not what was signed.
    #[error("the signature by {fingerprint} does not match the signed content")]
    BadSignature {
        /// The key that the signature names.
        fingerprint: String,
    },
    /// Too few people signed.
    #[error("{have} of {need} required signatures are valid{by}{why}", by = by(whom), why = why(refused))]
    TooFew {
        /// The number of accepted signers.
        have: usize,
        /// The required number.
        need: usize,
        /// The accepted signers.
        whom: Vec<String>,
        /// Why the others are not accepted, by file.
        refused: Vec<String>,
    },
    /// An OpenPGP signature, but no OpenPGP keys.
    #[error("the commit has an OpenPGP signature, and `trust.openpgp_keyring` is not set")]
    NoKeyring,
    /// No program to check OpenPGP signatures.
    #[error("the commit has an OpenPGP signature, and the program `gpgv` is not installed")]
    NoGpgv,
    /// `gpgv` could not be run.
    #[error("cannot run `gpgv` to check the OpenPGP signature")]
    Gpgv {
        /// The operating system error.
        #[source]
        source: std::io::Error,
    },
    /// `gpgv` took too long.
    #[error("`gpgv` did not answer within {seconds} s")]
    GpgvTimeout {
        /// The time limit.
        seconds: u64,
    },
    /// The OpenPGP signature is not accepted.
    #[error("the OpenPGP signature is refused: {why}")]
    OpenPgp {
        /// Why.
        why: String,
    },
}

fn by(whom: &[String]) -> String {
    if whom.is_empty() { String::new() } else { format!(" (by {})", whom.join("; ")) }
}

fn why(refused: &[String]) -> String {
    if refused.is_empty() { String::new() } else { format!("; refused: {}", refused.join("; ")) }
}

impl SignatureError {
    /// The cause as one word, for records and metrics.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoSigners { .. } => "no-signers",
            Self::Unreadable { .. } => "unreadable",
            Self::Unsafe { .. } => "unsafe-file",
            Self::Line { .. } => "bad-line",
            Self::BinaryRevocations { .. } => "binary-revocations",
            Self::Unsigned { .. } => "unsigned",
            Self::Several => "several-signatures",
            Self::Malformed { .. } => "malformed",
            Self::Certificate { .. } => "certificate",
            Self::Weak { .. } => "weak",
            Self::WrongNamespace { .. } => "wrong-namespace",
            Self::UnknownKey { .. } => "unknown-key",
            Self::Revoked { .. } => "revoked",
            Self::NotAllowed { .. } => "not-allowed",
            Self::NotYetValid { .. } => "not-yet-valid",
            Self::ExpiredKey { .. } => "expired-key",
            Self::BadSignature { .. } => "bad-signature",
            Self::TooFew { .. } => "too-few",
            Self::NoKeyring => "no-keyring",
            Self::NoGpgv => "no-gpgv",
            Self::Gpgv { .. } | Self::GpgvTimeout { .. } => "gpgv",
            Self::OpenPgp { .. } => "openpgp",
        }
    }

    /// How to fix it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NoSigners { path } => format!(
                "write one line per signer into `{}`: alice@example.org ssh-ed25519 AAAA…",
                path.display()
            ),
            Self::Unreadable { .. } => "allow the agent to read the file".into(),
            Self::Unsafe { path, .. } => {
                format!("chown root {0}; chmod go-w {0}", path.display())
            }
            Self::Line { .. } => "fix or remove the line; until then no signature is accepted".into(),
            Self::BinaryRevocations { .. } => {
                "list the keys as text, one per line: a public key or its SHA256: fingerprint".into()
            }
            Self::Unsigned { what: "commit" } => {
                "sign it and push again: git commit --amend --no-edit -S".into()
            }
            Self::Unsigned { what: "release" } => {
                "publish it with a signature: zagent release publish --key FILE".into()
            }
            Self::Unsigned { what: "record" } => {
                "set `rollout.key` where rollouts are started and driven, and start the rollout again".into()
            }
            Self::Unsigned { .. } | Self::TooFew { .. } => {
                "get more signatures on the manifest: zagent manifest sign --key FILE --as NAME".into()
            }
            Self::Several => "commit again with one signature: git commit --amend --no-edit -S".into(),
            Self::Malformed { .. } | Self::BadSignature { .. } => {
                "sign it again; if nobody changed it on purpose, find out who changed it".into()
            }
            Self::Certificate { .. } => "sign with a plain key, and list that key".into(),
            Self::Weak { .. } => "sign with an Ed25519 key: ssh-keygen -t ed25519".into(),
            Self::WrongNamespace { want, .. } => {
                format!("sign it for `{want}`: ssh-keygen -Y sign -n {want}")
            }
            Self::UnknownKey { path, .. } => {
                format!("if you know whose key it is, add it to `{}` on the nodes", path.display())
            }
            Self::Revoked { .. } => "sign it again with a key that was not revoked".into(),
            Self::NotAllowed { .. } => "sign with another key, or extend `namespaces` on that line".into(),
            Self::NotYetValid { .. } => {
                "check the clocks of the signer and the node, and `valid-after`".into()
            }
            Self::ExpiredKey { .. } => "sign it again with a key that is valid".into(),
            Self::NoKeyring => {
                "sign with SSH (git config gpg.format ssh), or set `trust.openpgp_keyring` to a file made by \
                 gpg --export"
                    .into()
            }
            Self::NoGpgv => "install the package gpgv, or sign with SSH (git config gpg.format ssh)".into(),
            Self::Gpgv { .. } | Self::GpgvTimeout { .. } => "run `gpgv --version` on the node".into(),
            Self::OpenPgp { .. } => "sign it again with a valid key from the keyring".into(),
        }
    }
}
