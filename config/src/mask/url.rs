//! Texts with addresses in, the same without logins out.
//!
//! This is the only place that knows where the login of an address stands.

/// What stands where a login was.
pub const REDACTED_LOGIN: &str = "<redacted>";

/// A text in which no address holds a login: `https://<redacted>@host/x`. The user of `ssh://git@host` stays, because a
/// user without a password is no secret there.
#[must_use]
pub fn redact_logins(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        shown += head;
        let login = login_len(tail);
        if login > 0 {
            let is_user = is_ssh(&head[..at]) && !tail[..login].contains(':');
            shown += if is_user { &tail[..login] } else { REDACTED_LOGIN };
        }
        rest = &tail[login..];
    }
    shown + rest
}

/// True when an address in a text holds a login that is not shown.
#[must_use]
pub fn has_login(text: &str) -> bool {
    redact_logins(text) != text
}

/// An address as it is named in messages: without login, query and fragment; those may hold tokens. The user of
/// `ssh://git@host` stays.
#[must_use]
pub fn bare_url(url: &str) -> String {
    let clean: String = url.chars().filter(|c| !c.is_control()).collect();
    let Some((scheme, rest)) = clean.split_once("://") else { return clean };
    let scheme = scheme.to_ascii_lowercase();
    let login = login_len(rest);
    let place = rest[login..].trim_start_matches('@');
    let place = place.split(['?', '#']).next().unwrap_or_default();
    let user = rest[..login].split(':').next().filter(|user| !user.is_empty() && is_ssh(&scheme));
    match user {
        Some(user) => format!("{scheme}://{user}@{place}"),
        None => format!("{scheme}://{place}"),
    }
}

/// Bytes of the login before its `@`; nothing when there is none.
fn login_len(after_scheme: &str) -> usize {
    let end = after_scheme
        .find(|c: char| c.is_whitespace() || "/'\"?#,`<>".contains(c))
        .unwrap_or(after_scheme.len());
    after_scheme[..end].rfind('@').unwrap_or(0)
}

fn is_ssh(before: &str) -> bool {
    let scheme =
        before.rsplit(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))).next().unwrap_or_default();
    scheme.to_ascii_lowercase().ends_with("ssh") || scheme.eq_ignore_ascii_case("git")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_login_is_shown() {
        for (text, shown) in [
            ("https://u:p@h/x", "https://<redacted>@h/x"),
            ("https://h/x@y", "https://h/x@y"),
            ("https://u:p@h/x@y", "https://<redacted>@h/x@y"),
            ("git+https://token@h/x@v1#egg=y", "git+https://<redacted>@h/x@v1#egg=y"),
            ("x @ https://t@h, https://u:p%40@h2 no", "x @ https://<redacted>@h, https://<redacted>@h2 no"),
            (
                "fatal: 'https://u:p@h/x' and ssh://git@h/y",
                "fatal: 'https://<redacted>@h/x' and ssh://git@h/y",
            ),
            ("ssh://git:p@h/x", "ssh://<redacted>@h/x"),
            ("git+ssh://git@h/x", "git+ssh://git@h/x"),
            ("sha256=ab", "sha256=ab"),
            ("git@h:x", "git@h:x"),
            ("@scope/x", "@scope/x"),
        ] {
            assert_eq!(redact_logins(text), shown);
            assert_eq!(has_login(text), text != shown);
        }
    }

    #[test]
    fn an_address_is_named_without_what_may_be_a_token() {
        for (url, want) in [
            ("HTTPS://user:secret@h/x?token=secret#secret", "https://h/x"),
            ("https://secret@h/x", "https://h/x"),
            ("https://h?token=secret", "https://h"),
            ("ssh://git:secret@h/x", "ssh://git@h/x"),
            ("git@h:x", "git@h:x"),
            ("/srv/x", "/srv/x"),
            ("nats://token@h:1", "nats://h:1"),
        ] {
            assert_eq!(bare_url(url), want);
        }
    }
}
