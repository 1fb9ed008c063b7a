//! Which key names mark their value as a secret.

/// Parts of a key name that mark its value as a secret.
const SECRET_MARKERS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "private_key",
    "privkey",
    "apikey",
    "api_key",
    "credential",
    "client_key",
    "auth_key",
];

/// True for a key such as `root-password`.
#[must_use]
pub fn is_secret_key(key: &str) -> bool {
    let key = key.to_ascii_lowercase().replace('-', "_");
    SECRET_MARKERS.iter().any(|t| key.contains(t))
}
