//! A password in plain words in, its hash as `/etc/shadow` keeps it out: SHA-512 in the scheme of `crypt(3)`.

use std::io::Read;

use sha2::{Digest, Sha512};

const CRYPT_ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// How often it is hashed when nothing else is said.
const DEFAULT_ROUNDS: u32 = 5000;

/// The hash of a password. The salt of an older hash of this scheme is taken over, so that the same password gives the same
/// hash again.
///
/// # Errors
/// Fails when the kernel gives no random bytes.
pub fn hash_password(password: &str, older: Option<&str>) -> std::io::Result<String> {
    let (rounds, salt) = match older.and_then(parse_settings) {
        Some((rounds, salt)) => (rounds, salt.to_owned()),
        None => (None, fresh_salt()?),
    };
    Ok(sha512_crypt(password.as_bytes(), &salt, rounds))
}

/// Rounds and salt of a hash.
fn parse_settings(hash: &str) -> Option<(Option<u32>, &str)> {
    let rest = hash.trim_start_matches('!').strip_prefix("$6$")?;
    let (first, rest) = rest.split_once('$')?;
    match first.strip_prefix("rounds=") {
        Some(rounds) => Some((Some(rounds.parse().ok()?), rest.split_once('$')?.0)),
        None => Some((None, first)),
    }
}

fn fresh_salt() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|b| char::from(CRYPT_ALPHABET[usize::from(b & 63)])).collect())
}

fn sha512_crypt(password: &[u8], salt: &str, rounds: Option<u32>) -> String {
    let salt = &salt.as_bytes()[..salt.len().min(16)];
    let count = rounds.unwrap_or(DEFAULT_ROUNDS).clamp(1000, 999_999_999);
    let repeated = |block: &[u8], n: usize| block.iter().copied().cycle().take(n).collect::<Vec<u8>>();
    let b = Sha512::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut a =
        Sha512::new().chain_update(password).chain_update(salt).chain_update(repeated(&b, password.len()));
    let mut n = password.len();
    while n > 0 {
        if n & 1 == 1 {
            a.update(b);
        } else {
            a.update(password);
        }
        n >>= 1;
    }
    let mut sum = a.finalize();
    let dp = Sha512::digest(repeated(password, password.len() * password.len()));
    let p = repeated(&dp, password.len());
    let ds = Sha512::digest(repeated(salt, salt.len() * (16 + usize::from(sum[0]))));
    let s = repeated(&ds, salt.len());
    for i in 0..count {
        let mut c = Sha512::new();
        if i & 1 == 1 {
            c.update(&p);
        } else {
            c.update(sum);
        }
        if i % 3 != 0 {
            c.update(&s);
        }
        if i % 7 != 0 {
            c.update(&p);
        }
        if i & 1 == 1 {
            c.update(sum);
        } else {
            c.update(&p);
        }
        sum = c.finalize();
    }
    let shown = rounds.map_or_else(String::new, |_| format!("rounds={count}$"));
    format!("$6${shown}{}${}", String::from_utf8_lossy(salt), encode_crypt(&sum))
}

/// The bytes in the order and letters of `crypt(3)`.
fn encode_crypt(sum: &[u8]) -> String {
    let mut out = String::with_capacity(86);
    let mut put = |mut bits: u32, n: usize| {
        for _ in 0..n {
            out.push(char::from(CRYPT_ALPHABET[(bits & 63) as usize]));
            bits >>= 6;
        }
    };
    for i in 0..21 {
        let at = |n: usize| u32::from(sum[n]);
        let (x, y, z) = (at(i), at(i + 21), at(i + 42));
        let (x, y, z) = match i % 3 {
            0 => (x, y, z),
            1 => (y, z, x),
            _ => (z, x, y),
        };
        put(x << 16 | y << 8 | z, 4);
    }
    put(u32::from(sum[63]), 2);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_crypt() {
        let known = "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1";
        assert_eq!(sha512_crypt(b"Hello world!", "saltstring", None), known);
        let known = "$6$rounds=10000$saltstringsaltst$OW1/O6BYHV6BcXZu8QVeXbDWra3Oeqh0sbHbbMCVNSnCM/UrjmM0Dp8vOuZeHBy/YTBmSK6H9qs/y3RnOaw5v.";
        assert_eq!(sha512_crypt(b"Hello world!", "saltstringsaltstring", Some(10_000)), known);
    }

    #[test]
    fn a_salt_is_taken_over() {
        let first = hash_password("secret", None).expect("hashed");
        assert_eq!(hash_password("secret", Some(&first)).expect("hashed"), first);
        assert_eq!(hash_password("secret", Some(&format!("!{first}"))).expect("hashed"), first);
        assert_ne!(hash_password("other", Some(&first)).expect("hashed"), first);
        assert_eq!(parse_settings("$y$j9T$salt$hash"), None);
        assert_eq!(parse_settings("$6$rounds=9$abc$h"), Some((Some(9), "abc")));
    }
}
