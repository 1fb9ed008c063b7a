//! Why a signature does not count, and the way out.

use std::path::PathBuf;

use jiff::Timestamp;

/// Why a signature, or the files that say whose count, are refused.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// Nobody's signature would count.
    #[error("`{path}` does not exist or lists no key, so no signature is accepted")]
    NoSigners {
        /// The file of signers.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("cannot read `{path}`")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Somebody else could have written the file.
    #[error("`{path}` is not trusted: {why}")]
    Unsafe {
        /// The file or its directory.
        path: PathBuf,
        /// Who could.
        why: String,
    },
    /// A line cannot be read.
    #[error("{path}:{line}: {why}", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
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
        /// The commit, the manifest or the release.
        what: &'static str,
    },
    /// More than one signature where one is meant.
    #[error("the commit has several signatures")]
    Several,
    /// Not what it should be.
    #[error("the {what} cannot be read: {why}")]
    Malformed {
        /// The commit or the signature.
        what: &'static str,
        /// What is wrong with it.
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
        /// Which.
        why: String,
    },
    /// Made for something else.
    #[error("the signature was made for `{found}`, not for `{want}`")]
    WrongNamespace {
        /// For what it was made.
        found: String,
        /// For what it is used.
        want: &'static str,
    },
    /// Nobody knows the key.
    #[error("the key {fingerprint} is not in `{path}`")]
    UnknownKey {
        /// The key.
        fingerprint: String,
        /// The file of signers.
        path: PathBuf,
    },
    /// The key was taken back.
    #[error("the key {fingerprint} is revoked in `{path}`")]
    Revoked {
        /// The key.
        fingerprint: String,
        /// The file of revoked keys.
        path: PathBuf,
    },
    /// The key may not sign this.
    #[error("the key of `{principal}` is not allowed to sign for `{namespace}` (line {line} of `{path}`)")]
    NotAllowed {
        /// Whose.
        principal: String,
        /// For what it was used.
        namespace: &'static str,
        /// The file of signers.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// The key does not count yet, or did not when it was used.
    #[error("the key of `{principal}` is valid from {after}, and it was used at {at}")]
    NotYetValid {
        /// Whose.
        principal: String,
        /// From when on it counts.
        after: Timestamp,
        /// The time that is asked for.
        at: Timestamp,
    },
    /// The key counts no more.
    #[error("the key of `{principal}` was valid until {before}, and it was used at {at}")]
    ExpiredKey {
        /// Whose.
        principal: String,
        /// Until when it counted.
        before: Timestamp,
        /// The time that is asked for.
        at: Timestamp,
    },
    /// The bytes are not those that were signed.
    #[error("the signature by {fingerprint} does not match the signed content")]
    BadSignature {
        /// The key that it claims.
        fingerprint: String,
    },
    /// Too few people signed.
    #[error("{have} of {need} required signatures are valid{by}{why}", by = by(whom), why = why(refused))]
    TooFew {
        /// How many people did.
        have: usize,
        /// How many must.
        need: usize,
        /// Who did.
        whom: Vec<String>,
        /// What is wrong with the others, by file.
        refused: Vec<String>,
    },
    /// An OpenPGP signature, and no OpenPGP keys.
    #[error("the commit has an OpenPGP signature, and `trust.openpgp_keyring` is not set")]
    NoKeyring,
    /// No program to check OpenPGP signatures.
    #[error("the commit has an OpenPGP signature, and the program `gpgv` is not installed")]
    NoGpgv,
    /// `gpgv` could not be asked.
    #[error("cannot run `gpgv` to check the OpenPGP signature")]
    Gpgv {
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// `gpgv` took too long.
    #[error("`gpgv` did not answer within {seconds} s")]
    GpgvTimeout {
        /// How long it was given.
        seconds: u64,
    },
    /// The OpenPGP signature does not count.
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
    /// One word for it, for records and metrics.
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

    /// A way out.
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
