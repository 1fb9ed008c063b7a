//! Checks of text values: addresses, time zones, unit names, cron expressions.
//!
//! Law: a value that would fail when it is used is rejected when the configuration is read (held by
//! `values_that_would_fail_later_are_rejected_when_read`).

use jiff::tz::TimeZone;

use super::schema::SettingKind;
use crate::codes::configuration as code;
use crate::cron::CronSchedule;
use crate::diagnostic::Diagnostic;
use crate::ids::Revision;

/// The word for the host's own time zone.
const LOCAL: &str = "local";

/// The error of a text of this kind, if any; other kinds are not checked.
pub(super) fn check_text(kind: SettingKind, path: &str, text: &str) -> Option<Diagnostic> {
    let told = |why: &str, hint: &str| Diagnostic::new(code::UNITS, format!("`{path}` {why}")).hint(hint);
    match kind {
        SettingKind::HostPort => {
            let why = check_host_port(text).err()?;
            Some(told(why, "write `HOST:PORT`, such as `localhost:22`"))
        }
        // The URL may contain a password, so do not print it.
        SettingKind::Http => {
            Some(told(check_http_url(text).err()?, "write a URL such as `http://localhost:8080/healthz`"))
        }
        SettingKind::Unit if !is_unit_name(text) => {
            let hint = "write a unit name such as `nginx.service`; for anything else, use `command`";
            Some(told("is not a valid unit name", hint))
        }
        SettingKind::Zone => check_time_zone(path, text),
        SettingKind::Revision if text.parse::<Revision>().is_err() => Some(told(
            "is not a full commit id",
            "write all 40 hex digits, as `git rev-parse HEAD` prints them",
        )),
        SettingKind::Cron => {
            let error = text.parse::<CronSchedule>().err()?;
            let place = if error.at > 0 { format!(" (character {})", error.at + 1) } else { String::new() };
            let message = format!("`{path}`: {}{place}", error.message);
            Some(Diagnostic::new(code::UNITS, message).hint(error.hint))
        }
        _ => None,
    }
}

fn check_host_port(text: &str) -> Result<(), &'static str> {
    let (host, port) = text.rsplit_once(':').ok_or("has no port")?;
    if port.parse::<u16>().ok().is_none_or(|port| port == 0) || !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err("has an invalid port");
    }
    let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    match inner {
        Some(v6) if v6.parse::<std::net::Ipv6Addr>().is_ok() => Ok(()),
        Some(_) => Err("has no valid IPv6 address in the brackets"),
        None if host.contains(':') => Err("has an IPv6 address without brackets"),
        None => check_host_name(host),
    }
}

fn check_host_name(host: &str) -> Result<(), &'static str> {
    let is_sound = |c: char| !c.is_whitespace() && !c.is_control() && !"/?#@\\[]".contains(c);
    match host {
        "" => Err("has no host"),
        host if host.len() > 253 || !host.chars().all(is_sound) => Err("has an invalid host"),
        _ => Ok(()),
    }
}

fn check_http_url(text: &str) -> Result<(), &'static str> {
    let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    let begin = ["https://", "http://"].into_iter().find(|scheme| lower.starts_with(scheme));
    let rest = &text[begin.ok_or("does not start with `http://` or `https://`")?.len()..];
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("contains white space or a control character");
    }
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let has_port = host.rfind(':').is_some_and(|colon| !host[colon..].contains(']'));
    if has_port { check_host_port(host) } else { check_host_port(&format!("{host}:80")) }
}

fn is_unit_name(text: &str) -> bool {
    let is_sound = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    text.chars().all(is_sound) && !text.starts_with('-') && text.len() <= 255
}

fn check_time_zone(path: &str, text: &str) -> Option<Diagnostic> {
    if text == LOCAL || TimeZone::get(text).is_ok() {
        return None;
    }
    let diagnostic =
        Diagnostic::new(code::UNITS, format!("`{path}`: time zone `{text}` not found on this host"));
    if jiff::tz::db().is_definitively_empty() {
        let hint = "this host has no time zone database: install `tzdata`, or write `local` or `UTC`";
        return Some(diagnostic.hint(hint));
    }
    let known: Vec<String> = jiff::tz::db().available().map(|name| name.as_str().to_owned()).collect();
    Some(match crate::suggest::nearest(text, known.iter().map(String::as_str)) {
        Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
        None => diagnostic.hint("write a name such as `Europe/Berlin`, or `local`"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message_of(kind: SettingKind, text: &str) -> String {
        check_text(kind, "k", text).map_or_else(|| "fine".into(), |f| f.message)
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        for (text, want) in [
            ("http://localhost/", "fine"),
            ("HTTPS://user:pass@example.org:8443/x?y#z", "fine"),
            ("http://[::1]:8080", "fine"),
            ("http://[::1]", "fine"),
            ("localhost/health", "`k` does not start with `http://` or `https://`"),
            ("ftp://x", "`k` does not start with `http://` or `https://`"),
            ("http:///x", "`k` has no host"),
            ("http://a b/", "`k` contains white space or a control character"),
            ("http://x:99999/", "`k` has an invalid port"),
            ("http://x:/", "`k` has an invalid port"),
            ("http://[zz]:1/", "`k` has no valid IPv6 address in the brackets"),
            ("hé", "`k` does not start with `http://` or `https://`"),
        ] {
            assert_eq!(message_of(SettingKind::Http, text), want, "{text}");
        }
        for (text, want) in [
            ("localhost:22", "fine"),
            ("[::1]:22", "fine"),
            ("localhost", "`k` has no port"),
            ("::1:22", "`k` has an IPv6 address without brackets"),
            (":22", "`k` has no host"),
            ("a:0", "`k` has an invalid port"),
            ("a:+5", "`k` has an invalid port"),
            ("a/b:5", "`k` has an invalid host"),
        ] {
            assert_eq!(message_of(SettingKind::HostPort, text), want, "{text}");
        }
    }

    #[test]
    fn names_of_units_and_zones() {
        assert_eq!(message_of(SettingKind::Unit, "getty@tty1.service"), "fine");
        assert_eq!(message_of(SettingKind::Unit, "--all"), "`k` is not a valid unit name");
        assert_eq!(message_of(SettingKind::Unit, "a b"), "`k` is not a valid unit name");
        assert_eq!(message_of(SettingKind::Revision, &"a".repeat(40)), "fine");
        assert_eq!(message_of(SettingKind::Revision, "abc1234"), "`k` is not a full commit id");
        assert_eq!(message_of(SettingKind::Zone, "local"), "fine");
        assert_eq!(message_of(SettingKind::Zone, "Europe/Berlin"), "fine");
        let diagnostic = super::check_text(SettingKind::Zone, "k", "Europe/Berlim").unwrap();
        assert_eq!(diagnostic.message, "`k`: time zone `Europe/Berlim` not found on this host");
        assert_eq!(diagnostic.hint.as_deref(), Some("did you mean `Europe/Berlin`?"));
    }
}
