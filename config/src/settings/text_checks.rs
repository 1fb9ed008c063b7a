//! Texts that must be something: an address, a time zone, a cron expression. What is wrong with one, if anything.
//!
//! Law: whatever would fail when it is used, at night and far from whoever wrote it, is told when it is read.

use jiff::tz::TimeZone;

use super::schema::SettingKind;
use crate::codes::configuration as code;
use crate::cron::CronSchedule;
use crate::diagnostic::Diagnostic;

/// The word for the host's own time zone.
const LOCAL: &str = "local";

/// What is wrong with a text of such a kind; every other kind is fine.
pub(super) fn check_text(kind: SettingKind, path: &str, text: &str) -> Option<Diagnostic> {
    let told = |why: &str, hint: &str| Diagnostic::new(code::UNITS, format!("`{path}` {why}")).hint(hint);
    match kind {
        SettingKind::HostPort => {
            let why = check_host_port(text).err()?;
            Some(told(why, "write `HOST:PORT`, such as `localhost:22`"))
        }
        // The address itself may hold a password.
        SettingKind::Http => {
            Some(told(check_http_url(text).err()?, "write it as `http://localhost:8080/healthz`"))
        }
        SettingKind::Unit if !is_unit_name(text) => {
            let hint = "write it as `nginx.service`; for anything else there is `command`";
            Some(told("is no name of a unit", hint))
        }
        SettingKind::Zone => check_time_zone(path, text),
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
        return Err("has a port that is none");
    }
    let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    match inner {
        Some(v6) if v6.parse::<std::net::Ipv6Addr>().is_ok() => Ok(()),
        Some(_) => Err("has no IPv6 address between its brackets"),
        None if host.contains(':') => Err("has an IPv6 address without brackets"),
        None => check_host_name(host),
    }
}

fn check_host_name(host: &str) -> Result<(), &'static str> {
    let is_sound = |c: char| !c.is_whitespace() && !c.is_control() && !"/?#@\\[]".contains(c);
    match host {
        "" => Err("has no host"),
        host if host.len() > 253 || !host.chars().all(is_sound) => Err("has a host that cannot be"),
        _ => Ok(()),
    }
}

fn check_http_url(text: &str) -> Result<(), &'static str> {
    let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    let begin = ["https://", "http://"].into_iter().find(|scheme| lower.starts_with(scheme));
    let rest = &text[begin.ok_or("does not begin with `http://` or `https://`")?.len()..];
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("has a blank inside");
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
    let diagnostic = Diagnostic::new(code::UNITS, format!("`{path}`: this host knows no time zone `{text}`"));
    if jiff::tz::db().is_definitively_empty() {
        let hint = "this host has no time zones at all: install `tzdata`, or write `local` or `UTC`";
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
    fn addresses_that_cannot_be_are_told() {
        for (text, want) in [
            ("http://localhost/", "fine"),
            ("HTTPS://user:pass@example.org:8443/x?y#z", "fine"),
            ("http://[::1]:8080", "fine"),
            ("http://[::1]", "fine"),
            ("localhost/health", "`k` does not begin with `http://` or `https://`"),
            ("ftp://x", "`k` does not begin with `http://` or `https://`"),
            ("http:///x", "`k` has no host"),
            ("http://a b/", "`k` has a blank inside"),
            ("http://x:99999/", "`k` has a port that is none"),
            ("http://x:/", "`k` has a port that is none"),
            ("http://[zz]:1/", "`k` has no IPv6 address between its brackets"),
            ("hé", "`k` does not begin with `http://` or `https://`"),
        ] {
            assert_eq!(message_of(SettingKind::Http, text), want, "{text}");
        }
        for (text, want) in [
            ("localhost:22", "fine"),
            ("[::1]:22", "fine"),
            ("localhost", "`k` has no port"),
            ("::1:22", "`k` has an IPv6 address without brackets"),
            (":22", "`k` has no host"),
            ("a:0", "`k` has a port that is none"),
            ("a:+5", "`k` has a port that is none"),
            ("a/b:5", "`k` has a host that cannot be"),
        ] {
            assert_eq!(message_of(SettingKind::HostPort, text), want, "{text}");
        }
    }

    #[test]
    fn names_of_units_and_zones() {
        assert_eq!(message_of(SettingKind::Unit, "getty@tty1.service"), "fine");
        assert_eq!(message_of(SettingKind::Unit, "--all"), "`k` is no name of a unit");
        assert_eq!(message_of(SettingKind::Unit, "a b"), "`k` is no name of a unit");
        assert_eq!(message_of(SettingKind::Zone, "local"), "fine");
        assert_eq!(message_of(SettingKind::Zone, "Europe/Berlin"), "fine");
        let diagnostic = super::check_text(SettingKind::Zone, "k", "Europe/Berlim").unwrap();
        assert_eq!(diagnostic.message, "`k`: this host knows no time zone `Europe/Berlim`");
        assert_eq!(diagnostic.hint.as_deref(), Some("did you mean `Europe/Berlin`?"));
    }
}
